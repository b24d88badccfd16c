//! What is seen of packets on links: losses by flow, waiting times, captures.

use narrows_qdisc::{Packet as _, Reason};
use narrows_units::{Duration, Instant};
use narrows_wire::Header;

use crate::packet::Pkt;

/// A packet as a capture has it: when its last bit left, and its headers.
pub(crate) type Captured = Vec<(Instant, Header)>;

/// Looks at packets on their way. Everything here is counted, nothing decided.
#[derive(Debug, Default)]
pub(crate) struct Tap {
    /// Links to capture, and what was.
    pub(crate) captured: Vec<(u32, Captured)>,
    /// The links whose waiting times are kept, and those times.
    pub(crate) waits: Vec<(u32, Vec<Duration>)>,
    /// Packets dropped or lost, by place of the connection.
    pub(crate) drops: Vec<u32>,
}

impl Tap {
    pub(crate) fn captures(&self, link: u32) -> bool {
        !self.captured.is_empty() && self.captured.iter().any(|c| c.0 == link)
    }

    pub(crate) fn capture(&mut self, link: u32, sent: Instant, packet: &Pkt) {
        if let Some(c) = self.captured.iter_mut().find(|c| c.0 == link) {
            c.1.push((sent, *packet.header()));
        }
    }

    /// A packet left a discipline for the wire.
    pub(crate) fn left(&mut self, link: u32, now: Instant, packet: &Pkt) {
        if let Some(w) = self.waits.iter_mut().find(|w| w.0 == link) {
            w.1.push(now.since(packet.0.queued));
        }
    }

    pub(crate) fn dropped(&mut self, _link: u32, _now: Instant, packet: &Pkt, _reason: Reason) {
        self.count(packet);
    }

    pub(crate) fn lost(&mut self, _link: u32, packet: &Pkt) {
        self.count(packet);
    }

    fn count(&mut self, packet: &Pkt) {
        let at = packet.0.flow as usize;
        if at >= self.drops.len() {
            self.drops.resize(at + 1, 0);
        }
        self.drops[at] += 1;
    }
}
