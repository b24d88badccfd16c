//! Many small FIFOs in one slab: what SFQ and DRR serve round robin, with the longest found in constant time.
//!
//! Idea: McKenney, Stochastic Fairness Queuing, INFOCOM 1990, which keeps its queues in lists by length; where there
//! are bytes to compare, lists by length in steps do, so "longest" is then longest to within a step. The last list is
//! for all lanes beyond it, which are compared one by one.
//!
//! Memory follows what waits: a packet has a place in the slab, and places are used again.

use narrows_lists::{Arena as _, Links, List, Slab, linked};
use narrows_units::Bytes;

use crate::deficit::{Carry, DeficitScheduler, Place, Step, Terms, Turn, member};
use crate::new_flows::NewShare;
use crate::{Backlog, Counters, Packet, Reason, Verdicts};

/// Unit in which the longest lane is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    Packets,
    /// Bytes, in steps of as many bytes as given.
    Bytes(u64),
}

#[derive(Debug)]
struct Queued<P> {
    packet: P,
    links: Links,
}

linked!(<P> Queued<P>, (): links);

#[derive(Clone, Debug)]
struct Lane {
    queue: List,
    backlog: Backlog,
    /// Place of the lane's list among the lists by length; 0 if the lane is empty.
    step: usize,
    turn: Turn,
    /// Number of the round that the lane takes part in.
    round: u32,
}

member!(Lane: turn);

const EMPTY: Lane = Lane {
    queue: List::EMPTY,
    backlog: Backlog { packets: 0, bytes: Bytes::ZERO },
    step: 0,
    turn: Turn::with_credit(0),
    round: 0,
};

/// The FIFOs, the order of service, and the lists by length.
#[derive(Debug)]
pub struct Lanes<P> {
    packets: Slab<Queued<P>>,
    lanes: Vec<Lane>,
    /// Lanes with packets: one round, or one for each user. Lanes have no list before the round.
    rounds: Vec<DeficitScheduler>,
    active: usize,
    /// Bytes that a round adds to what a lane may send.
    quantum: i32,
    measure: Measure,
    by_length: Vec<Links>,
    /// The lanes of each step; the lane that came to a step last stands first.
    lengths: Vec<List>,
    /// No lane is in a higher step.
    top: usize,
    backlog: Backlog,
}

impl<P: Packet> Lanes<P> {
    /// `count` lanes, few of which are ever longer than `longest` (in units of `measure`). A round adds `quantum` bytes
    /// to what a lane may send.
    pub fn new(count: usize, measure: Measure, longest: u64, quantum: i32) -> Self {
        let step = if let Measure::Bytes(n) = measure { n.max(1) } else { 1 };
        let steps = usize::try_from(longest / step).unwrap_or(usize::MAX).clamp(1, 1 << 20) + 2;
        Self {
            packets: Slab::new(),
            lanes: vec![EMPTY; count],
            rounds: vec![DeficitScheduler::EMPTY],
            active: 0,
            quantum,
            measure,
            by_length: vec![Links::NONE; count],
            lengths: vec![List::EMPTY; steps],
            top: 0,
            backlog: Backlog::default(),
        }
    }

    /// Bytes of memory each lane takes.
    pub const LANE_BYTES: usize = size_of::<Lane>() + size_of::<Links>();

    /// All that waits.
    pub const fn backlog(&self) -> Backlog {
        self.backlog
    }
    /// Backlog of one lane.
    pub fn backlog_of(&self, lane: usize) -> Backlog {
        self.lanes[lane].backlog
    }
    /// Lanes with packets.
    pub const fn active(&self) -> usize {
        self.active
    }
    /// The lane of a round that is asked next.
    pub fn first(&self, round: u32) -> Option<usize> {
        self.rounds[round as usize].first(&self.lanes, NewShare::ALL).map(|lane| lane as usize)
    }
    /// The lane of a round that is served last.
    pub fn last_of(&self, round: u32) -> Option<usize> {
        self.rounds[round as usize].last().map(|lane| lane as usize)
    }
    /// Asks the first lane of a round, which must have in hand what `need` says of its first packet, until one may
    /// send: that lane, and what it needs.
    #[inline(always)]
    pub fn next(&mut self, round: u32, need: impl Fn(&P) -> i32) -> Option<(usize, i32)> {
        let terms = Terms { quantum: self.quantum, carry: Carry::Forget, share: NewShare::ALL };
        let Self { packets, lanes, rounds, .. } = self;
        let round = &mut rounds[round as usize];
        loop {
            let lane = round.first(lanes, terms.share)?;
            let front = lanes[lane as usize].queue.first()?;
            let need = need(&packets.at(front).packet);
            if round.step(lanes, lane, &terms, || need) == Step::Serve {
                return Some((lane as usize, need));
            }
        }
    }
    /// Charges a lane for a packet of `cost` bytes on the link.
    pub fn charge(&mut self, lane: usize, cost: i32) {
        let Lane { turn, round, .. } = &mut self.lanes[lane];
        self.rounds[*round as usize].charge(turn, NewShare::ALL, Place::Old, cost);
    }
    #[cfg(test)]
    pub fn deficit(&self, lane: usize) -> i32 {
        self.lanes[lane].turn.deficit
    }
    /// Ends the turn of a lane whatever credit is left: the lane is served again after all others of the lane's round.
    pub fn end_turn(&mut self, lane: usize) {
        let round = self.lanes[lane].round as usize;
        self.rounds[round].pass(&mut self.lanes, lane as u32);
    }
    /// The round a lane takes part in.
    pub fn round_of(&self, lane: usize) -> u32 {
        self.lanes[lane].round
    }
    /// Puts an empty lane into the round with number `round`.
    pub fn assign(&mut self, lane: usize, round: u32) {
        debug_assert_eq!(self.lanes[lane].backlog.packets, 0);
        self.lanes[lane].round = round;
        if self.rounds.len() <= round as usize {
            self.rounds.resize_with(round as usize + 1, || DeficitScheduler::EMPTY);
        }
    }

    /// Adds a packet to a lane; a lane that was empty comes last in the round.
    pub fn push(&mut self, lane: usize, packet: P) {
        let len = packet.len();
        let at = self.packets.insert(Queued { packet, links: Links::NONE });
        let l = &mut self.lanes[lane];
        if l.backlog.packets == 0 {
            l.turn.deficit = self.quantum;
            let round = l.round as usize;
            self.active += 1;
            self.rounds[round].join(&mut self.lanes, lane as u32, Place::Old);
        }
        let l = &mut self.lanes[lane];
        l.queue.push_back(&mut self.packets, at);
        l.backlog.add(len);
        self.backlog.add(len);
        self.file(lane);
    }

    /// Takes the first packet of a lane.
    pub fn pop_front(&mut self, lane: usize) -> Option<P> {
        self.take(lane, self.lanes[lane].queue.first()?)
    }

    /// Takes the last packet of a lane.
    pub fn pop_back(&mut self, lane: usize) -> Option<P> {
        self.take(lane, self.lanes[lane].queue.last()?)
    }

    /// Drops the last packet of the longest lane, and says which that was. `own` is the lane of the packet that came,
    /// which tells the reason.
    pub fn push_out(
        &mut self,
        own: usize,
        counters: &mut Counters,
        verdicts: &mut Verdicts<P>,
    ) -> Option<usize> {
        let lane = self.longest()?;
        self.push_out_of(lane, own, counters, verdicts)
    }

    /// Pushes a packet out of a chosen lane.
    pub fn push_out_of(
        &mut self,
        lane: usize,
        own: usize,
        counters: &mut Counters,
        verdicts: &mut Verdicts<P>,
    ) -> Option<usize> {
        let packet = self.pop_back(lane)?;
        let reason = if lane == own { Reason::OverLimit } else { Reason::PushedOut };
        counters.drop_packet(packet, reason, verdicts);
        Some(lane)
    }

    fn take(&mut self, lane: usize, at: u32) -> Option<P> {
        let l = &mut self.lanes[lane];
        l.queue.remove(&mut self.packets, at);
        let packet = self.packets.remove(at).packet;
        l.backlog.sub(packet.len());
        self.backlog.sub(packet.len());
        if l.backlog.packets == 0 {
            self.active -= 1;
            let round = l.round as usize;
            self.rounds[round].leave(&mut self.lanes, lane as u32);
        }
        self.file(lane);
        Some(packet)
    }

    /// Moves a lane to the list for the lane's length.
    fn file(&mut self, lane: usize) {
        let l = &mut self.lanes[lane];
        let step = match (l.backlog.packets, self.measure) {
            (0, _) => 0,
            (n, Measure::Packets) => n,
            (_, Measure::Bytes(step)) => 1 + (l.backlog.bytes.get() / step) as usize,
        };
        let step = step.min(self.lengths.len() - 1);
        if step == l.step {
            return;
        }
        if l.step > 0 {
            self.lengths[l.step].remove(&mut self.by_length, lane as u32);
        }
        l.step = step;
        if step > 0 {
            self.lengths[step].push_front(&mut self.by_length, lane as u32);
            self.top = self.top.max(step);
        }
    }

    /// The longest lane; of several that which became so last.
    pub fn longest(&mut self) -> Option<usize> {
        // Each step down was paid for by a packet that raised a lane.
        while self.top > 0 && self.lengths[self.top].is_empty() {
            self.top -= 1;
        }
        if self.top + 1 == self.lengths.len() {
            return self.longest_in_last_step();
        }
        // Nobody is in step 0.
        self.lengths[self.top].first().map(|lane| lane as usize)
    }

    /// The longest of those in the last step; of several the first in its list.
    fn longest_in_last_step(&self) -> Option<usize> {
        let length = |at: usize| match self.measure {
            Measure::Packets => self.lanes[at].backlog.packets as u64,
            Measure::Bytes(_) => self.lanes[at].backlog.bytes.get(),
        };
        let all = self.lengths[self.top].iter(&self.by_length).map(|lane| lane as usize);
        all.reduce(|best, at| if length(at) > length(best) { at } else { best })
    }

    /// Takes out everything, lane by lane in the order of service, each lane's packets in order.
    pub fn drain(&mut self) -> Vec<P> {
        let mut all = Vec::with_capacity(self.backlog.packets);
        for round in 0..self.rounds.len() as u32 {
            while let Some(lane) = self.first(round) {
                all.extend(core::iter::from_fn(|| self.pop_front(lane)));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::packet;

    #[test]
    fn turns_lengths_and_places_by_hand() {
        let mut q = Lanes::new(4, Measure::Packets, 10, 0);
        for (lane, id) in [(2, 1), (0, 2), (2, 3), (0, 4), (3, 5)] {
            q.push(lane, packet(id, 100));
        }
        assert_eq!((q.first(0), q.active(), q.backlog().packets), (Some(2), 3, 5));
        // Lane 0 came to two packets last.
        assert_eq!(q.longest(), Some(0));
        assert_eq!(q.pop_back(0).map(|p| p.id), Some(4));
        assert_eq!(q.longest(), Some(2));
        q.end_turn(2);
        assert_eq!(q.first(0), Some(0));
        assert_eq!(q.pop_front(0).map(|p| p.id), Some(2));
        assert_eq!((q.first(0), q.pop_front(0).is_none()), (Some(3), true));
        let ids: Vec<_> = q.drain().iter().map(|p| p.id).collect();
        assert_eq!(ids, [5, 1, 3]);
        assert_eq!((q.longest(), q.first(0), q.backlog()), (None, None, Backlog::default()));
        assert_eq!(q.packets.places(), 5, "places are used again");
        (0..5).for_each(|id| q.push(1, packet(id, 9)));
        assert_eq!(q.packets.places(), 5);
    }

    #[test]
    fn in_bytes_one_large_packet_outweighs_two_small_ones() {
        let mut q = Lanes::new(2, Measure::Bytes(64), 3000, 0);
        q.push(0, packet(0, 1500));
        q.push(1, packet(1, 100));
        q.push(1, packet(2, 100));
        assert_eq!(q.longest(), Some(0));
        // Beyond the last step it is by bytes.
        q.push(1, packet(3, 60_000));
        q.push(0, packet(4, 50_000));
        assert_eq!(q.longest(), Some(1));
    }
}
