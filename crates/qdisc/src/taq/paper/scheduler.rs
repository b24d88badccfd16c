//! Choice of the queue that sends next (4.2 s10 to s25).
//!
//! Level 1 is the recovery queue, capped by a token bucket of `rho_r` of the link (s11, s12, s22); level 2 the queues
//! of new, of over-penalised and of below-fair-share flows (s13, s24), by deficit round robin; level 3 the queue above
//! fair share (s18, s25). Ours: the cap is work conserving. With nothing in levels 2 and 3 retransmissions go out
//! whatever the bucket says, and then do not empty it.
//!
//! Level 2 shares out three MTU a round: one for new flows, two for the others in proportion to their backlogs (s17),
//! weighed anew every 100 ms.

use narrows_units::{Bytes, Duration, Instant, Rate};

use super::class::Class;
use super::store::PaperQueues;
use crate::Packet;

/// Time after which the shares of level 2 are weighed again; the paper names no time.
const REWEIGH: Duration = Duration::from_millis(100);
/// Depth of the recovery bucket: what the cap lets through in this time, at least two MTU, so that one round's
/// retransmissions of a few flows pass together. The paper is silent.
const BUCKET: Duration = Duration::from_millis(100);
/// The smaller of the two backlogs still gets this part of an MTU a round, so that its head waits at most eight rounds.
const LEAST: u64 = 8;

/// The scheduler's own state.
#[derive(Debug)]
pub(super) struct Scheduler {
    /// Time in the bucket's own measure: when it would be full again (a GCRA, so that nothing depends on how often it
    /// is asked).
    full_at: Instant,
    /// Time that a byte costs the bucket: nanoseconds at the capped rate, in 1/65536.
    cost: u64,
    depth: Duration,
    mtu: u64,
    quanta: [u64; 3],
    deficits: [u64; 3],
    /// The class of level 2 whose turn it is, and whether it has had its quantum.
    turn: usize,
    granted: bool,
    reweigh_at: Instant,
}

/// Class that sends next, and whether the recovery bucket pays for the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) class: Class,
    pub(super) charged: bool,
}

impl Scheduler {
    pub(super) fn new(recovery: Rate, mtu: Bytes) -> Self {
        let mut s = Self {
            full_at: Instant::ZERO,
            cost: 0,
            depth: Duration::ZERO,
            mtu: 0,
            quanta: [0; 3],
            deficits: [0; 3],
            turn: 0,
            granted: false,
            reweigh_at: Instant::ZERO,
        };
        s.reconfigure(recovery, mtu);
        s
    }

    /// New rates; the round that runs goes on.
    pub(super) fn reconfigure(&mut self, recovery: Rate, mtu: Bytes) {
        self.mtu = mtu.get().max(64);
        // 8e9 * 65536 stays below 2^49.
        self.cost = (8_000_000_000u64 << 16).div_ceil(recovery.as_bps());
        self.depth = BUCKET.max(self.time_of(Bytes(2 * self.mtu)));
        self.quanta = [self.mtu, self.mtu, self.mtu];
        self.reweigh_at = Instant::ZERO;
    }

    fn time_of(&self, len: Bytes) -> Duration {
        // Rounded up, so that two packets never fit where their sum does not.
        Duration::from_nanos(len.get().saturating_mul(self.cost).saturating_add(0xffff) >> 16)
    }

    /// Whether the bucket holds anything: as usual a packet may overdraw it, and the next then waits the longer.
    fn may_recover(&self, now: Instant) -> bool {
        self.full_at < now + self.depth
    }

    /// The queue to serve; `None` if nothing waits.
    pub(super) fn choose<P: Packet>(&mut self, now: Instant, store: &PaperQueues<P>) -> Option<Choice> {
        let recovery = store.head(Class::Recovery).is_some();
        if recovery && self.may_recover(now) {
            return Some(Choice { class: Class::Recovery, charged: true });
        }
        if let Some(class) = self.level2(now, store) {
            return Some(Choice { class, charged: false });
        }
        if store.head(Class::Above).is_some() {
            return Some(Choice { class: Class::Above, charged: false });
        }
        recovery.then_some(Choice { class: Class::Recovery, charged: false })
    }

    /// A packet of `wire` bytes on the link and `len` of IP was sent as chosen.
    pub(super) fn sent(&mut self, now: Instant, choice: Choice, len: Bytes, wire: Bytes, emptied: bool) {
        if choice.charged {
            self.full_at = self.full_at.max(now) + self.time_of(wire);
        }
        if let Some(i) = Class::LEVEL2.iter().position(|&c| c == choice.class) {
            self.deficits[i] = if emptied { 0 } else { self.deficits[i].saturating_sub(len.get()) };
        }
    }

    /// Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995).
    fn level2<P: Packet>(&mut self, now: Instant, store: &PaperQueues<P>) -> Option<Class> {
        let heads = Class::LEVEL2.map(|c| store.head(c));
        if heads.iter().all(Option::is_none) {
            return None;
        }
        if now >= self.reweigh_at {
            self.reweigh(store);
            self.reweigh_at = now + REWEIGH;
        }
        // Each round adds at least MTU / 8 to a queue that waits, and no deficit needed exceeds the largest packet; so
        // this ends. A packet beyond eight times the MTU (an unsegmented one) only takes more rounds.
        loop {
            match heads[self.turn].and_then(|n| store.packet(n)) {
                Some(packet) => {
                    if !self.granted {
                        self.deficits[self.turn] += self.quanta[self.turn];
                        self.granted = true;
                    }
                    if packet.len().get() <= self.deficits[self.turn] {
                        return Some(Class::LEVEL2[self.turn]);
                    }
                }
                None => self.deficits[self.turn] = 0,
            }
            self.turn = (self.turn + 1) % 3;
            self.granted = false;
        }
    }

    fn reweigh<P: Packet>(&mut self, store: &PaperQueues<P>) {
        let (over, below) = (store.backlog(Class::Over).bytes.get(), store.backlog(Class::Below).bytes.get());
        let both = 2 * self.mtu;
        let share = (both * over).checked_div(over + below).unwrap_or(self.mtu);
        let least = self.mtu / LEAST;
        let share = share.clamp(least, both - least);
        self.quanta = [self.mtu, share, both - share];
    }

    /// Excess of a queue of level 2 over its weight: its backlog in bytes for each byte of its quantum, in 1/1024.
    pub(super) fn excess<P: Packet>(&self, class: usize, store: &PaperQueues<P>) -> u64 {
        store.backlog(Class::LEVEL2[class]).bytes.get() * 1024 / self.quanta[class].max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Record;
    use crate::taq::paper::store::{PaperFlow, Place};
    use narrows_flow::PacketKind;

    const MTU: u64 = 1500;

    /// A queue with `n` packets of `len` bytes in each of the given classes, a flow for each class.
    fn filled(queues: &[(Class, usize, u64)]) -> PaperQueues<Record> {
        let mut store = PaperQueues::new();
        store.flows.resize(queues.len(), PaperFlow::default());
        for (flow, &(class, n, len)) in (0..).zip(queues) {
            for _ in 0..n {
                let mut r = Record::default();
                r.header.len = Bytes(len);
                store.push(r, flow, PacketKind::New, Place { class, bucket: 0 });
            }
        }
        store
    }

    /// Sends `n` packets at once and counts the packets by class of level 2.
    fn serve(store: &mut PaperQueues<Record>, s: &mut Scheduler, n: usize) -> [usize; 3] {
        let mut counts = [0; 3];
        for _ in 0..n {
            let choice = s.choose(Instant::ZERO, store).unwrap();
            let packet = store.remove(store.head(choice.class).unwrap()).packet;
            let emptied = store.head(choice.class).is_none();
            s.sent(Instant::ZERO, choice, packet.header.len, packet.header.len, emptied);
            counts[Class::LEVEL2.iter().position(|&c| c == choice.class).unwrap()] += 1;
        }
        counts
    }

    fn scheduler() -> Scheduler {
        Scheduler::new(Rate::from_kbps(180), Bytes(MTU))
    }

    #[test]
    fn new_flows_get_a_third_and_the_others_by_their_backlogs() {
        // Backlogs of 300 and 100 packets: of each three packets one is new, and of the other two a quarter is
        // over-penalised: 100 : 50 : 150.
        let (mut s, mut store) = (
            scheduler(),
            filled(&[(Class::New, 400, MTU), (Class::Over, 100, MTU), (Class::Below, 300, MTU)]),
        );
        let counts = serve(&mut store, &mut s, 300);
        assert_eq!(s.quanta, [1500, 750, 2250]);
        for (got, due) in counts.iter().zip([100usize, 50, 150]) {
            assert!(got.abs_diff(due) <= 2, "{counts:?}");
        }
    }

    #[test]
    fn shares_are_of_bytes_not_of_packets() {
        // New flows with packets of 100 B against 1500 B.
        let (mut s, mut store) = (scheduler(), filled(&[(Class::New, 2000, 100), (Class::Below, 500, MTU)]));
        let counts = serve(&mut store, &mut s, 1000);
        let (new, below) = (counts[0] as u64 * 100, counts[2] as u64 * MTU);
        // The quantum of the empty queue between them is MTU / 8: 1500 : 2813, and each of the two may be a packet off.
        assert!((new * 2813).abs_diff(below * 1500) <= 2813 * 1500 * 2, "{new} {below}");
    }

    #[test]
    fn a_small_backlog_waits_a_bounded_number_of_rounds() {
        let (mut s, mut store) = (scheduler(), filled(&[(Class::Over, 1, MTU), (Class::Below, 2000, MTU)]));
        // 187 B a round: 1500 B after nine rounds, each of two packets of the other queue at most.
        let counts = serve(&mut store, &mut s, 18);
        assert_eq!(counts[1], 1, "{counts:?}");
    }

    #[test]
    fn weights_are_kept_for_a_tenth_of_a_second() {
        let (mut s, store) = (scheduler(), filled(&[(Class::Over, 10, MTU), (Class::Below, 10, MTU)]));
        s.choose(Instant::ZERO, &store);
        assert_eq!(s.quanta, [1500, 1500, 1500]);
        let store = filled(&[(Class::Over, 30, MTU), (Class::Below, 10, MTU)]);
        s.choose(Instant::from_nanos(99_999_999), &store);
        assert_eq!(s.quanta, [1500, 1500, 1500]);
        s.choose(Instant::from_nanos(100_000_000), &store);
        assert_eq!(s.quanta, [1500, 2250, 750]);
    }

    #[test]
    fn a_packet_of_64_kilobytes_is_served_too() {
        let (mut s, mut store) = (scheduler(), filled(&[(Class::Over, 2, 65_535), (Class::Below, 200, 40)]));
        assert_eq!(serve(&mut store, &mut s, 202), [0, 2, 200]);
    }

    #[test]
    fn above_its_weight_is_by_bytes_for_each_byte_of_quantum() {
        let (mut s, store) =
            (scheduler(), filled(&[(Class::New, 2, MTU), (Class::Over, 1, MTU), (Class::Below, 3, MTU)]));
        s.choose(Instant::ZERO, &store);
        // Quanta 1500, 750, 2250: 2, 2 and 2 times. A tie, which new flows lose (the first in this order).
        assert_eq!([0, 1, 2].map(|i| s.excess(i, &store)), [2048, 2048, 2048]);
    }
}
