//! COBALT: `CoDel` and BLUE side by side on one queue. `CoDel` speaks to flows that listen; BLUE, whose chance of a
//! drop rises when the buffer overflows and falls when the queue is empty, stops those that do not.
//!
//! Idea: Høiland-Jørgensen, Täht, Morton, Piece of CAKE, LANMAN 2018, section III-D; BLUE: Feng, Shin, Kandlur and
//! Saha, IEEE/ACM Transactions on Networking 10(4), 2002. Unlike RFC 8289's, this `CoDel` keeps its count when the
//! delay falls below target and lets it decay on the schedule by which it grew.
//!
//! Where the paper is silent this is as Linux's, with which it is compared:
//! - A count that is due when the delay comes above target drops that packet and begins its schedule anew.
//! - At rest the next drop is an interval after the last packet that left. So a queue that was not served for an
//!   interval has none to wait: if its first packet is late, the second is told. With an interval of grace the count
//!   would stand at one when such a queue runs empty, and the first packet of its next burst be dropped as due: 1 % of
//!   the arrivals where 48 flows send in bursts.
//! - A queue that is found empty goes down by one at most each time it is looked at, which [`Cake`](super::Cake) does
//!   until it is at rest.
//!
//! This decides where flows have less than a packet a round trip (docs/decisions/one-codel.md).
//!
//! Where we differ: Linux's first spell of drops in a place of its table that was never used begins without an
//! interval, because the root of its count is not set before the first drop.

use narrows_units::Instant;

use crate::Dice;
use crate::sojourn::Law;

/// BLUE's step up, at most once a target: 1/256 of 32 bits.
const RISE: u32 = 1 << 24;
/// Step of BLUE's probability down: 1/4096.
const FALL: u32 = 1 << 20;

/// Decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Send,
    /// `CoDel`: mark the packet, or else drop it.
    Tell,
    /// BLUE: drop the packet, ECN-capable or not.
    Stop,
}

/// The state of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cobalt {
    /// Time at which the count changes next.
    next: Instant,
    /// The last step of BLUE.
    step: Instant,
    count: u32,
    /// BLUE's chance, in 2^-32.
    p_drop: u32,
    above: bool,
}

impl Cobalt {
    /// Judges a packet that leaves the queue after `sojourn`; `high` is whether that is too long.
    pub fn decide(&mut self, law: &Law, now: Instant, high: bool, dice: &mut Dice) -> Call {
        let due = self.count > 0 && now >= self.next;
        if high {
            if !self.above {
                let rested = self.count == 0 && now > self.next;
                self.next = if rested { now } else { law.next(now, self.count) };
            }
            self.count = self.count.max(1);
        }
        self.above = high;
        let mut call = Call::Send;
        if due && high {
            call = Call::Tell;
            self.count = self.count.saturating_add(1);
            self.next = law.next(self.next, self.count);
        } else if due {
            self.decay(law, now);
        }
        if self.p_drop > 0 && dice.below(1 << 32) < u64::from(self.p_drop) {
            call = Call::Stop;
        }
        if self.count == 0 {
            self.next = now + law.interval;
        }
        call
    }

    /// Notes that a packet was marked: marks do not make up for a schedule that has fallen behind.
    pub fn marked(&mut self, now: Instant) {
        self.next = self.next.max(now);
    }

    /// The count goes down by all that is due.
    fn decay(&mut self, law: &Law, now: Instant) {
        while self.count > 0 && now >= self.next {
            self.count -= 1;
            self.next = law.next(self.next, self.count);
        }
    }

    /// Takes note that the buffer overflowed while the queue was the longest.
    pub fn full(&mut self, law: &Law, now: Instant) {
        if now.since(self.step) > law.target {
            self.p_drop = self.p_drop.saturating_add(RISE);
            self.step = now;
        }
        self.above = true;
        self.next = now;
        self.count = self.count.max(1);
    }

    /// Notes that the queue was empty in its turn. Returns whether the queue's state has come to rest, so that it may
    /// be forgotten.
    pub fn emptied(&mut self, law: &Law, now: Instant) -> bool {
        if self.p_drop > 0 && now.since(self.step) > law.target {
            self.p_drop = self.p_drop.saturating_sub(FALL);
            self.step = now;
        }
        self.above = false;
        if self.count > 0 && now >= self.next {
            self.count -= 1;
            self.next = law.next(self.next, self.count);
        }
        self.p_drop == 0 && self.count == 0 && now >= self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_units::{Bytes, Duration};

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }
    const fn at(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }
    const LAW: Law = Law { target: ms(5), interval: ms(100), mtu: Bytes(1500) };

    /// Packets each millisecond: when one is told.
    fn signalled(c: &mut Cobalt, from: u64, to: u64, high: bool) -> Vec<u64> {
        let mut dice = Dice::new(1);
        (from..to).filter(|&t| c.decide(&LAW, at(t), high, &mut dice) == Call::Tell).collect()
    }

    #[test]
    fn the_count_decays_as_it_grew() {
        let mut c = Cobalt::default();
        // Above from 0: the first an interval later, with count 1, then 2: 100/sqrt(2) = 70.7, 57.7, 50, 44.7.
        assert_eq!(signalled(&mut c, 0, 330, true), [100, 171, 229, 279, 324]);
        assert_eq!(c.count, 6);
        // Below: the next was due at 323.2 + 40.8 = 364; then down by one at each: 5 (44.7), 4 (50), 3 (57.7).
        assert_eq!(signalled(&mut c, 330, 420, false), [0; 0]);
        assert_eq!(c.count, 4);
        // Above again at 420: 100/sqrt(4) = 50 ms later, not a hundred.
        assert_eq!(signalled(&mut c, 420, 480, true), [470]);
        // Looked at each millisecond an empty queue decays by the same schedule.
        let (mut busy, mut idle) = (c, c);
        signalled(&mut busy, 480, 1000, false);
        let rested = (480..1000).find(|&t| idle.emptied(&LAW, at(t)));
        // From 470 on in steps of 44.7, 50, 57.7, 70.7, 100 and 100 ms: 894.
        assert_eq!((rested, idle.count, busy.count), (Some(894), 0, 0));
        // Looked at once only it is told at once if it comes back late; with count 6 then, the next is 44.7 and 40.8 ms
        // later.
        let mut back = c;
        back.emptied(&LAW, at(480));
        assert_eq!(back.count, 5, "nothing was due");
        assert_eq!(signalled(&mut back, 999, 1100, true), [999, 1085]);
        // Found empty in each of its turns it goes down by one in each.
        (600..603).for_each(|t| assert!(!c.emptied(&LAW, at(t))));
        assert_eq!(c.count, 3, "514, 564 and no more: the next is due at 621");
    }

    #[test]
    fn a_queue_that_was_not_served_for_an_interval_has_none_to_wait() {
        // Served at 1, 2 and 3 ms, and late from 50 ms on: an interval passes.
        let mut c = Cobalt::default();
        signalled(&mut c, 1, 4, false);
        assert_eq!(signalled(&mut c, 50, 230, true), [150, 221]);
        // Late from 104 ms on, an interval after the last: told with the second packet, and then 70.7 ms later.
        let mut c = Cobalt::default();
        signalled(&mut c, 1, 4, false);
        assert_eq!(signalled(&mut c, 104, 180, true), [105, 175]);
    }

    #[test]
    fn a_queue_that_ran_out_with_a_late_packet_is_told_of_again() {
        let mut c = Cobalt::default();
        let mut dice = Dice::new(1);
        // The only packet waited too long: a spell begins as the queue runs out, and is over when it is found empty.
        assert_eq!(c.decide(&LAW, at(0), true, &mut dice), Call::Send);
        c.emptied(&LAW, at(10));
        assert_eq!((c.count, c.above), (1, false));
        // Ten seconds later the first that has waited is told, and a spell with count 2 begins: 100 and 70.7 ms.
        assert_eq!(signalled(&mut c, 10_000, 10_180, true), [10_000, 10_171]);
    }

    #[test]
    fn blue_rises_with_overflow_and_falls_when_empty() {
        let mut c = Cobalt::default();
        // Three overflows within 5 ms of each other are one step; 1 in 256 after each.
        (100..103).for_each(|t| c.full(&LAW, at(t)));
        assert_eq!(c.p_drop, RISE);
        (110..120).for_each(|n| c.full(&LAW, at(6 * n)));
        assert_eq!(c.p_drop, 11 * RISE);
        let (mut dice, mut probe) = (Dice::new(1), c);
        let stopped =
            (0..100_000).filter(|_| probe.decide(&LAW, at(714), false, &mut dice) == Call::Stop).count();
        // Binomial with 11/256: mean 4297, deviation 64.
        assert!((3950..4650).contains(&stopped), "{stopped}");
        // Looked at each millisecond from 720, which is six after the last step: a step then, and one in each 6 ms: 84
        // of 1/4096.
        (720..1220).for_each(|t| assert!(!c.emptied(&LAW, at(t))));
        assert_eq!(c.p_drop, 11 * RISE - 84 * FALL);
        (1220..5000).for_each(|t| _ = c.emptied(&LAW, at(t)));
        assert_eq!(c.p_drop, 0);
    }
}
