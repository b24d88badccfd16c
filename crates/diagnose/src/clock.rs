//! The sender's own clock, from its timestamps (RFC 7323, section 5.4): when a packet was sent, and not only when it
//! passed here. Behind a queue that makes all the difference, because what waits in the queue looks like what waits for
//! a timer.

use narrows_units::{Duration, Instant};

use crate::tolerances::{DRIFT, RATE_FITS, RATE_PACKETS, RATE_SPAN, RATES};

/// Clock of a sender, as its timestamps show it. All times are those of the capture.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    first: Option<(Instant, u32)>,
    packets: u32,
    /// Place in [`RATES`] of the clock's ticks per second, if the rate is known.
    rate: Option<usize>,
    /// Rate of other senders like it, as a place in [`RATES`], if that is known.
    usual: Option<usize>,
    /// Whether [`Clock::found`] has given the rate.
    told: bool,
    /// Time at which a packet with the first timestamp would have passed at the earliest, in seconds from `first`. A
    /// base is kept for each rate, as `lead` is, so that nothing is lost before the rate is known.
    base: [Least; 3],
    /// Time from an ACK's passing here until the data it lets go is sent, less `base`.
    lead: [Least; 3],
    /// Time that [`Clock::react`] gives. The time follows from the rate, `base` and `lead`, and is kept because it is
    /// asked for several times a packet.
    reacts: Option<Duration>,
}

/// The least of values that move with two clocks, and when that was known last.
#[derive(Clone, Copy, Debug)]
struct Least {
    value: f64,
    updated: f64,
}

impl Default for Least {
    fn default() -> Self {
        Self { value: f64::INFINITY, updated: 0.0 }
    }
}

impl Least {
    fn add(&mut self, span: f64, value: f64) {
        let drifted = self.value + (span - self.updated).max(0.0) * DRIFT;
        *self = Self { value: drifted.min(value), updated: span };
    }
}

impl Clock {
    /// Takes note of a packet of the sender with TSval `tsval`.
    pub(crate) fn tick(&mut self, now: Instant, tsval: u32) {
        let Some((first, start)) = self.first else {
            self.first = Some((now, tsval));
            self.base.iter_mut().for_each(|base| base.add(0.0, 0.0));
            return;
        };
        self.packets = self.packets.saturating_add(1);
        let span = now.since(first).as_secs_f64();
        let ticks = ticks(start, tsval);
        if self.rate.is_none() && self.packets >= RATE_PACKETS && now.since(first) >= RATE_SPAN {
            let fits = |rate: &f64| (ticks / *rate - span).abs() < RATE_FITS * span;
            self.rate = RATES.iter().position(fits);
            if self.rate.is_none() {
                // Something else than a clock: an offset for each connection that jumps, or a proxy.
                *self = Self { first: Some((now, tsval)), told: self.told, ..Self::default() };
                self.base.iter_mut().for_each(|base| base.add(0.0, 0.0));
                return;
            }
        }
        for at in self.rates() {
            self.base[at].add(span, span - ticks / RATES[at]);
        }
        self.reckon();
    }

    /// Rate of the clock, as a place in [`RATES`], given once when it becomes known; the analyzer collects them.
    pub(crate) fn found(&mut self) -> Option<usize> {
        let rate = self.rate.filter(|_| !self.told);
        self.told |= rate.is_some();
        rate
    }

    /// Assumes that the clock has `usual`, the rate of other senders' clocks of the same kind.
    pub(crate) fn assume(&mut self, usual: Option<usize>) {
        if self.usual != usual {
            self.usual = usual;
            self.reckon();
        }
    }

    /// Time at which what passes now with this TSval would have passed without a queue; no later than now.
    pub(crate) fn sent(&self, now: Instant, tsval: u32) -> Option<Instant> {
        self.sent_at(self.rate.or(self.usual)?, now, tsval)
    }

    fn sent_at(&self, rate: usize, now: Instant, tsval: u32) -> Option<Instant> {
        let (first, start) = self.first?;
        let at = self.base[rate].value + ticks(start, tsval) / RATES[rate];
        let nanos = first.as_nanos() as f64 + at * 1e9;
        Some(Instant::from_nanos(nanos.max(0.0) as u64).min(now))
    }

    /// Guesses the same by the rate of nearly all hosts today (1000 ticks a second) if no other is known.
    pub(crate) fn sent_about(&self, now: Instant, tsval: u32) -> Option<Instant> {
        self.sent_at(self.rate.or(self.usual).unwrap_or(0), now, tsval)
    }

    /// An ACK passed then, and the first packet that echoes it has this TSval.
    pub(crate) fn reacted(&mut self, passed: Instant, tsval: u32) {
        let Some((first, start)) = self.first else { return };
        let nanos = passed.as_nanos() as f64 - first.as_nanos() as f64;
        let (span, ticks) = (nanos / 1e9, ticks(start, tsval));
        for at in self.rates() {
            self.lead[at].add(span, ticks / RATES[at] - span);
        }
        self.reckon();
    }

    /// Places in [`RATES`] of the rates that the clock may have.
    fn rates(&self) -> core::ops::Range<usize> {
        self.rate.map_or(0..RATES.len(), |at| at..at + 1)
    }

    /// Time that [`Clock::react`] gives; `None` unless the sender's own ticks have shown its rate.
    pub(crate) fn react_sure(&self) -> Option<Duration> {
        self.rate.and(self.react())
    }

    /// Time from an ACK's passing here until the data it lets go passes here, without any queue; `None` as long as the
    /// clock is not known.
    pub(crate) const fn react(&self) -> Option<Duration> {
        self.reacts
    }

    fn reckon(&mut self) {
        let react = self.rate.or(self.usual).map(|rate| self.base[rate].value + self.lead[rate].value);
        let nanos = |react: f64| Duration::from_nanos((react.max(0.0) * 1e9) as u64);
        self.reacts = react.filter(|react| react.is_finite()).map(nanos);
    }
}

/// Ticks from one timestamp to another; negative if the second is older.
fn ticks(start: u32, tsval: u32) -> f64 {
    f64::from(tsval.wrapping_sub(start).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_of_any_length_is_seen_through() {
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        let mut c = Clock::default();
        // Sent every 600 ms by a clock of 1000 Hz that began at 4 294 967 000, on the way for 40 ms and in a queue for
        // 0 to 300.
        let sent = |n: u64| n * 600;
        let tsval = |n: u64| 4_294_967_000_u32.wrapping_add(sent(n) as u32);
        let passes = |n: u64| at(sent(n) + 40 + n * 37 % 7 * 50);
        for n in 0..8 {
            c.tick(passes(n), tsval(n));
            assert_eq!(c.sent(passes(n), tsval(n)), None, "too few");
        }
        for n in 8..40 {
            c.tick(passes(n), tsval(n));
        }
        for n in 20..40 {
            let found = c.sent(passes(n), tsval(n)).unwrap();
            let off = found.since(at(sent(n) + 40)).max(at(sent(n) + 40).since(found));
            assert!(off < Duration::from_millis(3), "{n}: {off:?}");
        }
        // An ACK that passes 150 ms before what it lets go would have passed without a queue.
        c.reacted(at(sent(20) + 40 - 200), tsval(20));
        c.reacted(at(sent(21) + 40 - 150), tsval(21));
        let react = c.react().unwrap();
        assert!(react >= Duration::from_millis(147) && react < Duration::from_millis(153), "{react:?}");
    }

    #[test]
    fn what_is_no_clock_is_not_taken_for_one() {
        let mut c = Clock::default();
        for n in 0..100_u64 {
            let now = Instant::ZERO + Duration::from_millis(n * 500);
            let noise = (n as u32).wrapping_mul(2_654_435_761);
            c.tick(now, noise);
            assert_eq!(c.sent(now, noise), None);
        }
        assert_eq!(c.react(), None);
    }
}
