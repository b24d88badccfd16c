//! The sender's own clock, from its timestamps (RFC 7323, section 5.4): when a packet was sent, and not only when it
//! passed here. Behind a queue that makes all the difference, because what waits in the queue looks like what waits for
//! a timer.

use narrows_units::{Duration, Instant};

/// Ticks in a second: those of Linux and most others, of old kernels with HZ 250 and 100. Coarser ones say too little.
const RATES: [f64; 3] = [1000.0, 250.0, 100.0];
/// From when on the rate can be told, by a tenth even if the queue makes half a second of difference.
const SPAN: Duration = Duration::from_secs(5);
/// Packets before that.
const PACKETS: u32 = 8;
/// Two clocks differ by no more in a second, nanoseconds.
const DRIFT: f64 = 1e-4;

/// See the head of the file. All times are those of the capture.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    first: Option<(Instant, u32)>,
    packets: u32,
    /// Ticks in a second, if they are known.
    rate: Option<f64>,
    /// When a packet with the first timestamp would have passed at the earliest, seconds from `first`, and when that
    /// was known last.
    base: f64,
    updated: Instant,
    /// From an ACK's passing here until what it lets go passes here, without any queue.
    react: Option<Duration>,
}

impl Clock {
    /// A packet with this TSval passes.
    pub(crate) fn tick(&mut self, now: Instant, tsval: u32) {
        let Some((first, start)) = self.first else {
            self.first = Some((now, tsval));
            return;
        };
        self.packets = self.packets.saturating_add(1);
        let span = now.since(first).as_secs_f64();
        let ticks = f64::from(tsval.wrapping_sub(start).cast_signed());
        if self.rate.is_none() && self.packets >= PACKETS && now.since(first) >= SPAN {
            let fits = |rate: &&f64| (ticks / *rate - span).abs() < 0.1 * span;
            self.rate = RATES.iter().find(fits).copied();
            if self.rate.is_some() {
                self.base = f64::INFINITY;
            } else {
                // Something else than a clock: an offset for each connection that jumps, or a proxy.
                *self = Self { first: Some((now, tsval)), ..Self::default() };
            }
        }
        if let Some(rate) = self.rate {
            let drifted = self.base + now.since(self.updated).as_secs_f64() * DRIFT;
            self.base = drifted.min(span - ticks / rate);
            self.updated = now;
        }
    }

    /// When what passes now with this TSval would have passed without a queue; no later than now.
    pub(crate) fn sent(&self, now: Instant, tsval: u32) -> Option<Instant> {
        let ((first, start), rate) = self.first.zip(self.rate)?;
        let ticks = f64::from(tsval.wrapping_sub(start).cast_signed());
        let at = self.base + ticks / rate;
        let nanos = first.as_nanos() as f64 + at * 1e9;
        Some(Instant::from_nanos(nanos.max(0.0) as u64).min(now))
    }

    /// An ACK passed then, and the first packet that echoes it was sent at `sent`.
    pub(crate) fn reacted(&mut self, passed: Instant, sent: Instant) {
        let took = sent.since(passed);
        self.react = Some(self.react.map_or(took, |least| least.min(took)));
    }

    /// See `react`; none as long as the clock is not known.
    pub(crate) fn react(&self) -> Option<Duration> {
        self.rate.and(self.react)
    }
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
        c.reacted(at(1000), at(1200));
        c.reacted(at(2000), at(2150));
        assert_eq!(c.react(), Some(Duration::from_millis(150)));
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
