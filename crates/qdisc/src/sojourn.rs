//! CoDel's state machine: once packets have waited longer than `target` for a whole `interval`, tell senders, the more
//! often the longer it lasts. Shared by the disciplines that run it on one queue or on many.
//!
//! Idea: Nichols and Jacobson, Controlling Queue Delay, ACM Queue 10(5), 2012; RFC 8289, whose section 5 this follows.
//!
//! Where we differ: 1/sqrt(count) is found anew at each use, by Newton's method in integers from a power of two (the
//! RFC and Linux keep the last value and refine it by one step a drop, which at first is off by a third). A mark counts
//! as a drop and moves the schedule on as one; RFC 8289 leaves ECN open.

use narrows_units::{Bytes, Duration, Instant};

use crate::ShaperConfig;

/// Number of intervals after the last drop for which the old drop rate is still a good guess (RFC 8289, section
/// 5.4).
const MEMORY: u64 = 16;

/// The constants of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Law {
    /// Acceptable standing delay.
    pub target: Duration,
    /// Time that the delay may stay above `target`: the worst round-trip time of the senders.
    pub interval: Duration,
    /// The largest packet: with no more than that behind, a queue does not stand.
    pub mtu: Bytes,
}

impl Law {
    /// `target` and `interval` on `link`. With `scale` the target is never below one and a half of the largest packets'
    /// transmission times, and the interval grows by as much (so does CAKE; RFC 8290, section 5.2.2, asks for at least
    /// one): otherwise a link on which one packet takes longer than `target` has a standing queue by definition.
    pub fn on(link: &ShaperConfig, target: Duration, interval: Duration, scale: bool) -> Self {
        let least = one_and_a_half(link.rate.time_to_send(link.largest()));
        if !scale || least <= target {
            return Self { target, interval, mtu: link.mtu };
        }
        let interval = (interval + least.saturating_sub(target)).max(least + least);
        Self { target: least, interval, mtu: link.mtu }
    }

    /// The instant after `from` in a spell of `count` drops: interval / sqrt(count) later (RFC 8289, section 3.3).
    pub fn next(&self, from: Instant, count: u32) -> Instant {
        let gap = (u128::from(self.interval.as_nanos()) * u128::from(inverse_sqrt(count))) >> 32;
        from + Duration::from_nanos(gap as u64)
    }
}

fn one_and_a_half(t: Duration) -> Duration {
    Duration::from_nanos(t.as_nanos() / 2 * 3)
}

/// 1/sqrt(count) with 32 fractional bits, rounded down; for 0 and 1 the largest below one.
pub fn inverse_sqrt(count: u32) -> u32 {
    if count <= 1 {
        return u32::MAX;
    }
    // From below, and within a factor of two: Newton's method for x^-2 = count then converges from below, the relative
    // error e becoming 3/2 e^2: 0.5, 0.4, 0.2, 0.06, 0.005, 4e-5, 2e-9, and then less than the last bit.
    let bits = 32 - (count - 1).leading_zeros();
    let mut x = (1u64 << 32) >> bits.div_ceil(2);
    for _ in 0..7 {
        let square = u128::from(x) * u128::from(x); // 64 fractional bits
        let rest = (3u128 << 64) - square * u128::from(count);
        x = ((u128::from(x) * (rest >> 32)) >> 33) as u64;
    }
    u32::try_from(x).unwrap_or(u32::MAX)
}

/// Fate of the packet before, in the same call of a dequeue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Before {
    /// No packet came before.
    #[default]
    Nothing,
    /// The packet before was dropped, and a spell of drops began with that drop.
    Entry,
    /// Dropped within a spell.
    Drop,
}

/// The state of one queue. Field names are the RFC's.
#[derive(Clone, Copy, Debug, Default)]
pub struct CodelState {
    /// Time at which the delay will have been above target for an interval; zero while it is below.
    first_above_time: Instant,
    /// The next drop of the spell; later, the last that was due.
    drop_next: Instant,
    /// Drops of the present spell.
    count: u32,
    /// `count` as the spell began.
    lastcount: u32,
    dropping: bool,
}

impl CodelState {
    /// Decides about a packet that has waited `sojourn` and leaves `behind` in its queue. `Some` if its sender is to be
    /// told: if by a drop, the next packet is judged with what this returned; if by a mark, [`CodelState::marked`]
    /// follows.
    pub fn decide(
        &mut self,
        law: &Law,
        now: Instant,
        sojourn: Duration,
        behind: Bytes,
        before: Before,
    ) -> Option<Before> {
        let high = self.stays_high(law, now, sojourn, behind);
        if before == Before::Entry {
            return None;
        }
        if !self.dropping {
            return high.then(|| {
                self.enter(law, now);
                Before::Entry
            });
        }
        if !high {
            self.dropping = false;
            return None;
        }
        if before == Before::Drop {
            self.drop_next = law.next(self.drop_next, self.count);
        }
        if now < self.drop_next {
            return None;
        }
        self.count = self.count.saturating_add(1);
        Some(Before::Drop)
    }

    /// Takes note that the packet for which [`CodelState::decide`] returned `signal` was marked and goes on.
    pub fn marked(&mut self, law: &Law, signal: Before) {
        if signal == Before::Drop {
            self.drop_next = law.next(self.drop_next, self.count);
        }
    }

    /// A queue was found empty in its turn: no spell goes on, and the next late packet has an interval before it, as if
    /// none had come (RFC 8289, section 5.6, `dodequeue` on an empty queue). Linux before 7.0 and its stable branches
    /// of the time remembered how long the queue had been late (net/codel_impl.h).
    pub fn emptied(&mut self) {
        self.dropping = false;
        self.first_above_time = Instant::ZERO;
    }

    /// `ok_to_drop` (RFC 8289, section 5.6).
    fn stays_high(&mut self, law: &Law, now: Instant, sojourn: Duration, behind: Bytes) -> bool {
        if sojourn < law.target || behind <= law.mtu {
            self.first_above_time = Instant::ZERO;
            return false;
        }
        if self.first_above_time == Instant::ZERO {
            self.first_above_time = now + law.interval;
            return false;
        }
        now >= self.first_above_time
    }

    /// A spell begins; soon after the last one at the rate that controlled the queue then (RFC 8289, section 5.5).
    fn enter(&mut self, law: &Law, now: Instant) {
        self.dropping = true;
        let delta = self.count.saturating_sub(self.lastcount);
        let since = now.as_nanos().saturating_sub(self.drop_next.as_nanos());
        let recent = since < MEMORY * law.interval.as_nanos();
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.lastcount = self.count;
        self.drop_next = law.next(now, self.count);
    }
}

#[cfg(test)]
mod tests;
