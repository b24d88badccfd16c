//! Order of turns: sparse flows first, then those whose round has come; and the fate of queues found empty.

use narrows_units::Instant;

use super::config::Isolate;
use super::hosts::{ONE, Parts};
use super::rounds::ROUNDS;
use super::{Cake, Set};
use crate::Packet;

/// Number of flows up to which a host's are visited in each round, as CAKE does: where one of so few goes empty the
/// parts of the others grow much, and leaping rounds would bring a user with three flows 2 % less than one with a
/// single flow (`turns_follow_the_load`).
const FEW: u64 = 6;
/// Rounds that each of more flows sits out at once, or those in which each sends a quantum; of more than twice as
/// many it sits out half and looks again.
const NEAR: u64 = 32;
impl<P: Packet> Cake<P> {
    /// The part of a round that counts of the two hosts' parts, or `alone` where flows are not shared by hosts.
    #[inline]
    fn part(&self, of: Parts, alone: u32) -> u32 {
        match self.config.isolate {
            Isolate::Triple => of.src.min(of.dst),
            Isolate::DualSrc => of.src,
            Isolate::DualDst => of.dst,
            Isolate::Flows => alone,
        }
    }

    /// A flow's share of the quantum in the present round, with 16 fractional bits.
    #[inline]
    pub(super) fn share(&self, at: usize) -> u32 {
        let flow = &self.flows[at];
        self.quantum * self.part(self.hosts.parts(flow.src, flow.dst), ONE)
    }

    /// The flow's turn is over: it comes back in the round in which its parts of the quantum make up for its debt, or
    /// on the way there.
    #[inline]
    fn postpone(&mut self, at: usize) {
        let share = self.share(at);
        let now = self.rounds.now();
        let flow = &mut self.flows[at];
        let need = u64::from((1 - flow.deficit).unsigned_abs()) << 16;
        let lacks = need.div_ceil(u64::from(share));
        let turn = u64::from((self.quantum << 16) / share);
        let away = if turn <= FEW { 1 } else { lacks.min(NEAR.max(turn).max(lacks / 2)) };
        let away = away.min(u64::from(ROUNDS) - 1) as u16;
        (flow.credited, flow.sums) = (now, self.hosts.sums(flow.src, flow.dst, now));
        flow.away = away;
        self.rounds.push(&mut self.links, now.wrapping_add(u32::from(away)), at as u32);
    }

    /// Credits the rounds that the flow has sat out. All of them together are the source's or the destination's,
    /// whichever has more flows.
    #[inline]
    fn credit(&mut self, at: usize) {
        let flow = &self.flows[at];
        let now = self.rounds.now();
        let rounds = now.wrapping_sub(flow.credited);
        if rounds == 0 {
            return;
        }
        let (sums, before) = (self.hosts.sums(flow.src, flow.dst, now), flow.sums);
        let past = Parts { src: sums.src.wrapping_sub(before.src), dst: sums.dst.wrapping_sub(before.dst) };
        let part = self.part(past, rounds * ONE);
        let flow = &mut self.flows[at];
        // The fraction is rounded by chance, so that nothing is lost on average.
        flow.deficit += ((u64::from(self.quantum) * u64::from(part) + (self.dice.roll() >> 48)) >> 16) as i32;
        (flow.credited, flow.sums, flow.away) = (now, sums, 0);
    }

    /// Takes a flow out of the list that the flow is in.
    #[inline]
    pub(super) fn unlink(&mut self, at: usize) {
        match self.flows[at].set {
            Set::Sparse => return self.sparse.remove(&mut self.links, at as u32),
            Set::Decaying => return self.decaying.remove(&mut self.links, at as u32),
            Set::None | Set::Waiting | Set::Bulk => {}
        }
        let flow = &self.flows[at];
        let round = flow.credited.wrapping_add(u32::from(flow.away));
        self.rounds.remove(&mut self.links, round, at as u32);
    }

    /// A queue was found empty, and is in no list any more: it decays, or is forgotten.
    #[inline]
    pub(super) fn found_empty(&mut self, at: usize, now: Instant) {
        let flow = &mut self.flows[at];
        if flow.set == Set::Bulk {
            self.hosts.relieve(flow.src, flow.dst, self.rounds.now());
        }
        if flow.cobalt.emptied(&self.law, now) {
            self.hosts.leave(flow.src, flow.dst);
            flow.set = Set::None;
        } else {
            flow.set = Set::Decaying;
            self.decaying.push_back(&mut self.links, at as u32);
        }
    }

    /// The next of the queues that decay is looked at.
    #[inline]
    pub(super) fn decay(&mut self, now: Instant) {
        if let Some(at) = self.decaying.pop_front(&mut self.links) {
            self.found_empty(at as usize, now);
        }
    }

    #[inline]
    pub(super) fn becomes_bulk(&mut self, at: usize) {
        let flow = &mut self.flows[at];
        flow.set = Set::Bulk;
        self.hosts.burden(flow.src, flow.dst, self.rounds.now());
    }

    /// The flow whose turn it is: the first sparse one, else the first of the nearest round. It stays in its list.
    #[inline]
    pub(super) fn turn(&mut self) -> Option<usize> {
        loop {
            let at = if let Some(at) = self.sparse.first() {
                at as usize
            } else {
                let at = self.rounds.next()? as usize;
                self.credit(at);
                at
            };
            if self.flows[at].deficit > 0 {
                return Some(at);
            }
            self.unlink(at);
            if self.flows[at].set == Set::Sparse {
                if self.flows[at].queue.is_empty() {
                    self.flows[at].set = Set::Waiting;
                } else {
                    self.becomes_bulk(at);
                }
            }
            self.postpone(at);
        }
    }
}
