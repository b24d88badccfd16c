//! How far round trips lie from their mean, as Linux has it (`tcp_rtt_estimator`): of a round trip the largest counts.
//! RFC 6298's deviation forgets a long round trip within a few samples, and a sender with one packet a round trip then
//! waits for half a second longer than its RFC would.

use narrows_units::{Duration, SeqNum};

use crate::tolerances::LEAST_RTO;

/// Deviation of round trips, by Linux's rules. The deviation follows up at once and down by a quarter each round trip;
/// a round trip that is shorter than the mean counts an eighth.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deviation {
    srtt: Duration,
    /// Four times the mean deviation, and the greatest such value in the present round trip.
    mean: Duration,
    most: Duration,
    /// Part of the timeout beyond the smoothed round trip.
    pub(crate) four: Duration,
    /// Sequence number whose acknowledgment ends the round trip.
    until: SeqNum,
}

impl Deviation {
    pub(crate) fn sample(&mut self, r: Duration, una: SeqNum, max: SeqNum) {
        if self.srtt == Duration::ZERO {
            let four = (r * 2).max(LEAST_RTO);
            *self = Self { srtt: r, mean: r * 2, most: four, four, until: max };
            return;
        }
        let (error, shorter) = (r.max(self.srtt).saturating_sub(r.min(self.srtt)), r < self.srtt);
        self.srtt = self.srtt.ewma(r, 3);
        if error > self.mean / 4 {
            let more = error.saturating_sub(self.mean / 4);
            self.mean += if shorter { more / 8 } else { more };
        } else {
            self.mean = self.mean.saturating_sub((self.mean / 4).saturating_sub(error));
        }
        self.most = self.most.max(self.mean);
        self.four = self.four.max(self.most);
        if self.until.before(una) {
            self.four = self.four.saturating_sub(self.four.saturating_sub(self.most) / 4);
            (self.until, self.most) = (max, LEAST_RTO);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_by_hand() {
        let ms = Duration::from_millis;
        let mut d = Deviation::default();
        let mut add = |r: u64, una: u32, max: u32| {
            d.sample(ms(r), SeqNum(una), SeqNum(max));
            d.four
        };
        // The first: twice the round trip, in units of four deviations.
        assert_eq!(add(400, 1, 1), ms(800));
        // Up to 1 is acknowledged, so the first round trip is over; its largest was 800.
        assert_eq!(add(400, 1001, 5001), ms(800));
        // Nothing beyond 5001 is acknowledged: still the second round trip.
        assert_eq!(add(400, 2001, 6001), ms(800));
        // The second round trip is over: its largest was 600 less a quarter, three times: 800, 600, 450, 337.5; of
        // those after the first round trip 450. A quarter of the way from 800 to 450.
        assert_eq!(add(400, 5002, 9001), ms(712) + Duration::from_micros(500));
        // 1600 ms instead of 400: at once.
        assert!(add(1600, 5003, 9001) > ms(1400));
    }
}
