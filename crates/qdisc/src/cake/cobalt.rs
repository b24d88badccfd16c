//! COBALT: `CoDel` and BLUE side by side on one queue. `CoDel` speaks to flows that listen; BLUE, whose chance of a drop rises when the
//! buffer overflows and falls when the queue is empty, stops those that do not.
//!
//! Idea: Høiland-Jørgensen, Täht, Morton, Piece of CAKE, LANMAN 2018, section III-D; BLUE: Feng, Shin, Kandlur and Saha,
//! IEEE/ACM Transactions on Networking 10(4), 2002. Unlike RFC 8289's, this `CoDel` keeps its count when the delay falls below target
//! and lets it decay on the schedule by which it grew.
//!
//! Where the paper is silent this is as Linux's, with which it is compared: a count that is due when the delay comes above target
//! drops that packet and begins its schedule anew; a queue that is found empty in its turn goes down by one at most, and by the rest
//! that is due once a packet of it has not waited long. So a flow that comes back to a queue of others is held to what it was, which
//! decides where flows have less than a packet a round trip (docs/decisions/one-codel.md).
//!
//! Where we differ: BLUE's chance falls for an empty queue when its next packet comes, by as much as is due then.

use narrows_units::{Duration, Instant};

use crate::Dice;
use crate::sojourn::Law;

/// BLUE's step up, at most once a target: 1/256 of 32 bits.
const RISE: u32 = 1 << 24;
/// Its step down: 1/4096.
const FALL: u32 = 1 << 20;

/// What is to become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Send,
    /// `CoDel`: mark it, or else drop it.
    Tell,
    /// BLUE: drop it, mark or not.
    Stop,
}

/// The state of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cobalt {
    /// When the count changes next.
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
    pub fn judge(&mut self, law: &Law, now: Instant, high: bool, dice: &mut Dice) -> Call {
        let due = self.count > 0 && now >= self.next;
        if high && !self.above {
            self.next = law.next(now, self.count);
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
        call
    }

    /// What was to be told was marked: marks do not make up for a schedule that has fallen behind.
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

    /// The buffer overflowed, and this queue was the longest.
    pub fn full(&mut self, law: &Law, now: Instant) {
        if now.since(self.step) > law.target {
            self.p_drop = self.p_drop.saturating_add(RISE);
            self.step = now;
        }
        self.above = true;
        self.next = now;
        self.count = self.count.max(1);
    }

    /// The queue was found empty in its turn, or with the link free.
    pub fn emptied(&mut self, law: &Law, now: Instant) {
        if now.since(self.step) > law.target {
            self.p_drop = self.p_drop.saturating_sub(FALL);
            self.step = now;
        }
        self.above = false;
        if self.count > 0 && now >= self.next {
            self.count -= 1;
            self.next = law.next(self.next, self.count);
        }
    }

    /// A packet comes into the empty queue.
    pub fn refilled(&mut self, law: &Law, now: Instant) {
        let steps = now.since(self.step).as_nanos() / law.target.as_nanos().max(1);
        if self.p_drop > 0 && steps > 0 {
            let fall = steps.saturating_mul(u64::from(FALL));
            self.p_drop = self.p_drop.saturating_sub(u32::try_from(fall).unwrap_or(u32::MAX));
            self.step += Duration::from_nanos(steps * law.target.as_nanos());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_units::Bytes;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }
    const fn at(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }
    const LAW: Law = Law { target: ms(5), interval: ms(100), mtu: Bytes(1500) };

    /// Packets each millisecond: when one is told.
    fn told(c: &mut Cobalt, from: u64, to: u64, high: bool) -> Vec<u64> {
        let mut dice = Dice::new(1);
        (from..to).filter(|&t| c.judge(&LAW, at(t), high, &mut dice) == Call::Tell).collect()
    }

    #[test]
    fn the_count_decays_as_it_grew() {
        let mut c = Cobalt::default();
        // Above from 0: the first an interval later, with count 1, then 2: 100/sqrt(2) = 70.7, 57.7, 50, 44.7.
        assert_eq!(told(&mut c, 0, 330, true), [100, 171, 229, 279, 324]);
        assert_eq!(c.count, 6);
        // Below: the next was due at 323.2 + 40.8 = 364; then down by one at each: 5 (44.7), 4 (50), 3 (57.7).
        assert_eq!(told(&mut c, 330, 420, false), [0; 0]);
        assert_eq!(c.count, 4);
        // Above again at 420: 100/sqrt(4) = 50 ms later, not a hundred.
        assert_eq!(told(&mut c, 420, 480, true), [470]);
        // When the queue was empty the same happens at once with the next packet that has not waited long.
        let (mut busy, mut idle) = (c, c);
        told(&mut busy, 480, 1000, false);
        idle.emptied(&LAW, at(480));
        idle.refilled(&LAW, at(990));
        told(&mut idle, 999, 1000, false);
        assert_eq!(idle.count, busy.count);
        // One that has is told at once; with count 6 then, the next is 44.7 and 40.8 ms later.
        let mut back = c;
        back.emptied(&LAW, at(480));
        assert_eq!(back.count, 5, "nothing was due");
        assert_eq!(told(&mut back, 999, 1100, true), [999, 1085]);
        // Found empty in each of its turns it goes down by one in each.
        (600..603).for_each(|t| c.emptied(&LAW, at(t)));
        assert_eq!(c.count, 3, "514, 564 and no more: the next is due at 621");
    }

    #[test]
    fn a_queue_that_ran_out_with_a_late_packet_is_told_of_again() {
        let mut c = Cobalt::default();
        let mut dice = Dice::new(1);
        // The only packet waited too long: a spell begins as the queue runs out, and is over when it is found empty.
        assert_eq!(c.judge(&LAW, at(0), true, &mut dice), Call::Send);
        c.emptied(&LAW, at(10));
        assert_eq!((c.count, c.above), (1, false));
        // Ten seconds later the first that has waited is told, and a spell with count 2 begins: 100 and 70.7 ms.
        c.refilled(&LAW, at(10_000));
        assert_eq!(told(&mut c, 10_000, 10_180, true), [10_000, 10_171]);
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
            (0..100_000).filter(|_| probe.judge(&LAW, at(714), false, &mut dice) == Call::Stop).count();
        // Binomial with 11/256: mean 4297, deviation 64.
        assert!((3950..4650).contains(&stopped), "{stopped}");
        // Empty for half a second from 720: a step at once, then one in each 5 ms: 101 of 1/4096.
        c.emptied(&LAW, at(720));
        c.refilled(&LAW, at(1220));
        assert_eq!(c.p_drop, 11 * RISE - 101 * FALL);
        c.refilled(&LAW, at(1_000_000));
        assert_eq!(c.p_drop, 0);
    }
}
