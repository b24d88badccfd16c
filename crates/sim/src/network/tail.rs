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
        let link = &mut self.links[id as usize];
        let taken = link.take(self.now, self.events.since(), packet.len(), packet.0.label.kind);
        match taken {
            Some((begins, at)) => self.go(packet, begins, at),
            None => self.overflow(id, packet),
        }
    }

    /// A drop-tail queue has no room for a packet.
    #[inline(never)]
    pub(super) fn overflow(&mut self, id: u32, packet: Pkt) {
        self.links[id as usize].counters.dropped[Reason::OverLimit as usize] += 1;
        self.tap.lost(&packet);
        self.pool.give(packet);
    }

    /// A packet that begins to leave the last link of its route at `since` arrives at `at`, and nothing else is left to
    /// do of the event that let it go. Gives it back if it is at its host and that is the next event anyway.
    #[inline(always)]
    pub(super) fn go_now(&mut self, packet: Pkt, since: Instant, at: Instant) -> Option<Pkt> {
        let host = &mut self.hosts[packet.0.label.dst as usize];
        let group = &mut self.groups[host.group as usize];
        if !group.single {
            self.go(packet, since, at);
            return None;
        }
        let at = host.pass_in(group, at, packet.len());
        if self.events.go_to(since, at) {
            self.now = at;
            return Some(packet);
        }
        self.events.push_since(since, at, Event::Deliver(packet));
        None
    }
}
