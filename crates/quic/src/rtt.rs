//! The round-trip time (RFC 9002, section 5) and the probe timeout that follows from it (6.2.1).

use narrows_units::Duration;

/// kGranularity (RFC 9002, section 6.1.2).
pub(crate) const GRANULARITY: Duration = Duration::from_millis(1);

/// Estimate of the round-trip time (RFC 9002, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rtt {
    /// The sample taken last; kInitialRtt before any.
    latest: Duration,
    /// Smoothed round-trip time; `None` before the first sample.
    smoothed: Option<Duration>,
    var: Duration,
    min: Duration,
}

impl Rtt {
    /// Before any sample (section 6.2.2).
    pub(crate) const fn new(initial: Duration) -> Self {
        Self {
            latest: initial,
            smoothed: None,
            var: Duration::from_nanos(initial.as_nanos() / 2),
            min: initial,
        }
    }

    /// smoothed_rtt; kInitialRtt before the first sample.
    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or(self.latest)
    }

    /// The larger of the smoothed and the latest, for the time threshold (section 6.1.2).
    pub(crate) fn conservative(&self) -> Duration {
        self.smoothed().max(self.latest)
    }

    /// PTO without the peer's max_ack_delay: smoothed_rtt + max(4 * rttvar, kGranularity).
    pub(crate) fn pto_base(&self) -> Duration {
        self.smoothed() + (self.var * 4).max(GRANULARITY)
    }

    /// A sample (section 5.3). `ack_delay` is already bounded by the peer's max_ack_delay.
    pub(crate) fn update(&mut self, ack_delay: Duration, latest: Duration) {
        self.latest = latest;
        let Some(smoothed) = self.smoothed else {
            (self.smoothed, self.var, self.min) = (Some(latest), latest / 2, latest);
            return;
        };
        self.min = self.min.min(latest);
        // The delay counts only as far as what is left is a possible round trip.
        let adjusted = if latest >= self.min + ack_delay { latest.saturating_sub(ack_delay) } else { latest };
        let deviation = smoothed.max(adjusted).saturating_sub(smoothed.min(adjusted));
        self.var = (self.var * 3 + deviation) / 4;
        self.smoothed = Some((smoothed * 7 + adjusted) / 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn samples_by_hand() {
        let mut r = Rtt::new(ms(333));
        // 6.2.2: 333 + 4 * 166.5 = 999 ms.
        assert_eq!(r.pto_base(), ms(999));
        // 5.3: the first sample is srtt, half of it rttvar, whatever the delay: PTO 100 + 4 * 50 = 300 ms.
        r.update(ms(25), ms(100));
        assert_eq!((r.smoothed(), r.var, r.pto_base()), (ms(100), ms(50), ms(300)));
        // 180 with a delay of 20: 160 >= min, adjusted 160. rttvar = 3/4 * 50 + 1/4 * 60 = 52.5, srtt = 7/8 * 100 + 20
        // = 107.5; PTO 107.5 + 210 = 317.5 ms.
        r.update(ms(20), ms(180));
        assert_eq!((r.smoothed(), r.var), (Duration::from_micros(107_500), Duration::from_micros(52_500)));
        assert_eq!((r.pto_base(), r.conservative()), (Duration::from_micros(317_500), ms(180)));
        // 110 with 20: 90 would be below the least of 100, so the delay does not count: adjusted 110.
        r.update(ms(20), ms(110));
        assert_eq!(r.smoothed().as_nanos(), (107_500_000 * 7 + 110_000_000) / 8);
    }

    #[test]
    fn the_deviation_has_a_floor() {
        let mut r = Rtt::new(ms(333));
        for _ in 0..100 {
            r.update(ms(0), ms(50));
        }
        // rttvar has gone to zero: 50 + 1 ms.
        assert!(r.pto_base() >= ms(51) && r.pto_base() < ms(51) + Duration::from_micros(10));
    }
}
