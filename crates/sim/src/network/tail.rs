//! Packets through a drop-tail queue whose ways are computed ahead ([`crate::drop_tail`]).

use narrows_qdisc::{Packet as _, Reason};
use narrows_units::Instant;

use super::Network;
use crate::event::Event;
use crate::packet::Pkt;

impl Network {
    /// A packet comes to a drop-tail queue.
    #[inline(never)]
    pub(super) fn queue_up(&mut self, id: u32, packet: Pkt) {
        if let Some((packet, begins, at)) = self.queue(id, packet) {
            self.go(packet, begins, at);
        }
    }

    /// The same; when its sending begins, and when it is at the far end, unless it is dropped.
    #[inline(always)]
    pub(super) fn queue(&mut self, id: u32, packet: Pkt) -> Option<(Pkt, Instant, Instant)> {
        let link = &mut self.links[id as usize];
        let since = self.events.since();
        let Some((begins, sent)) = link.take(self.now, since, packet.len(), packet.0.label.kind) else {
            self.overflow(id, packet);
            return None;
        };
        let at = sent + link.delay;
        Some((packet, begins, at))
    }

    /// A drop-tail queue has no room for a packet.
    #[inline(never)]
    fn overflow(&mut self, id: u32, packet: Pkt) {
        self.links[id as usize].counters.dropped[Reason::OverLimit as usize] += 1;
        self.tap.lost(&packet);
        self.pool.give(packet);
    }

    /// A packet that begins to leave a link at `since` arrives at `at`, and nothing else is left to do of the event
    /// that let it go. Gives it back if it is at its host and that is the next event anyway.
    #[inline(always)]
    pub(super) fn go_now(&mut self, mut packet: Pkt, since: Instant, at: Instant) -> Option<Pkt> {
        let route = &self.routes[packet.0.label.route as usize];
        let host = &mut self.hosts[packet.0.label.dst as usize];
        let group = &mut self.groups[host.group as usize];
        if usize::from(packet.0.label.hop) + 1 < route.len() || !group.single {
            self.go(packet, since, at);
            return None;
        }
        packet.0.label.hop += 2;
        let at = host.pass_in(group, at, packet.len());
        if self.events.go_to(since, at) {
            self.now = at;
            return Some(packet);
        }
        self.events.push_since(since, at, Event::Arrive(packet));
        None
    }
}
