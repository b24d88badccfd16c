//! The RTT estimator and the retransmission time-out: RFC 6298, with the integers of Jacobson's "Congestion Avoidance
//! and Control" (1988, appendix A).
//!
//! SRTT is stored eightfold and RTTVAR fourfold, in units of one nanosecond or, as in old stacks and ns-2, of one
//! clock tick, so that the same few additions serve both. The clock granularity enters the RTO as in (2.3). Where we
//! differ from RFC 6298: with [`RtoConfig::ticks`] a sample counts the ticks that began during the round trip, and at
//! least one. [`RtoVariance::Linux`] follows the deviation as that kernel does.

use narrows_units::{Duration, Instant};

use crate::{RtoConfig, RtoFloor, RtoVariance};

/// Estimator, back-off and retries of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rto {
    /// 8 * SRTT in units; zero before the first sample and after forgetting.
    srtt8: u64,
    /// 4 * RTTVAR in units.
    rttvar4: u64,
    /// The factor of the back-off.
    factor: u32,
    /// Time-outs since the last ACK of new data.
    retries: u16,
    /// Whether the SYN was lost, so that the SYN gave no sample.
    syn_lost: bool,
}

/// The deviation of the current round trip, fourfold, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spread {
    mdev4: u64,
    /// Greatest `mdev4` in the current round trip, at least the floor.
    most4: u64,
    /// Offset beyond which an acknowledgment ends the current round trip.
    round_end: u64,
}

impl Spread {
    /// A sample is off by `error`; what is acknowledged begins at `una`, what was sent ends at `max`. Returns RTTVAR.
    fn follow(&mut self, mut rttvar4: u64, error: i64, floor: u64, una: u64, max: u64) -> u64 {
        let more = error.unsigned_abs().cast_signed() - (self.mdev4 >> 2).cast_signed();
        // An empty queue that shortens the round trip does not make it uncertain.
        let gain = if error < 0 && more > 0 { more >> 3 } else { more };
        self.mdev4 = self.mdev4.saturating_add_signed(gain);
        self.most4 = self.most4.max(self.mdev4);
        rttvar4 = rttvar4.max(self.most4);
        if una > self.round_end {
            rttvar4 -= (rttvar4 - self.most4) >> 2;
            self.round_end = max;
            self.most4 = floor;
        }
        rttvar4
    }
}

impl Rto {
    pub(crate) const fn new() -> Self {
        Self { srtt8: 0, rttvar4: 0, factor: 1, retries: 0, syn_lost: false }
    }

    const fn unit(config: &RtoConfig) -> u64 {
        if config.ticks && config.granularity.as_nanos() > 0 { config.granularity.as_nanos() } else { 1 }
    }

    /// Lower bound of the deviation, in units.
    fn floor(config: &RtoConfig) -> u64 {
        match config.floor {
            RtoFloor::Whole => 0,
            RtoFloor::Deviation => config.min.as_nanos() / Self::unit(config),
        }
    }

    /// Takes a sample: a round trip of `rtt` ends now (RFC 6298, 2.2 and 2.3). `una` and `max` are snd_una and snd_max.
    /// `spread` is where [`RtoVariance::Linux`] keeps the deviation.
    pub(crate) fn sample(
        &mut self,
        spread: Option<&mut Option<Box<Spread>>>,
        config: &RtoConfig,
        now: Instant,
        rtt: Duration,
        una: u64,
        max: u64,
    ) {
        let unit = Self::unit(config);
        let r = if unit == 1 {
            rtt.as_nanos().max(1)
        } else {
            let sent = now.as_nanos().saturating_sub(rtt.as_nanos());
            (now.as_nanos() / unit - sent / unit).max(1)
        };
        if self.srtt8 == 0 {
            // SRTT <- R, RTTVAR <- R/2.
            self.srtt8 = r * 8;
            self.rttvar4 = r * 2;
            if config.variance == RtoVariance::Linux
                && let Some(spread) = spread
            {
                let most4 = self.rttvar4.max(Self::floor(config));
                *spread = Some(Box::new(Spread { mdev4: self.rttvar4, most4, round_end: max }));
                self.rttvar4 = most4;
            }
        } else {
            let srtt = self.srtt8 >> 3;
            self.rttvar4 = match spread.and_then(|spread| spread.as_mut()) {
                Some(spread) => {
                    let error = r.cast_signed() - srtt.cast_signed();
                    spread.follow(self.rttvar4, error, Self::floor(config), una, max)
                }
                // RTTVAR <- 3/4 RTTVAR + 1/4 |SRTT - R|, with the SRTT of before; SRTT <- 7/8 SRTT + 1/8 R.
                None => (self.rttvar4 - (self.rttvar4 >> 2) + r.abs_diff(srtt)).max(1),
            };
            self.srtt8 = (self.srtt8 - srtt + r).max(1);
        }
    }

    /// The RTO before back-off, floor included (RFC 6298, 2.1 to 2.4).
    fn base(&self, config: &RtoConfig) -> Duration {
        if self.srtt8 == 0 && self.rttvar4 == 0 {
            // (5.7): data begins with at least 3 s.
            let least = if self.syn_lost { Duration::from_secs(3) } else { Duration::ZERO };
            return config.initial.max(least);
        }
        let min = config.min.as_nanos();
        let unit = Self::unit(config);
        let deviation = (self.rttvar4 * unit).max(config.granularity.as_nanos());
        let srtt = (self.srtt8 >> 3) * unit;
        Duration::from_nanos(match config.floor {
            RtoFloor::Whole => (srtt + deviation).max(min),
            RtoFloor::Deviation => srtt + deviation.max(min),
        })
    }

    /// Time to set the timer for (RFC 6298, 2.4 and 2.5).
    pub(crate) fn timeout(&self, config: &RtoConfig) -> Duration {
        (self.base(config) * u64::from(self.factor)).min(config.max)
    }

    /// The timer expired (RFC 6298, 5.5).
    pub(crate) const fn back_off(&mut self, config: &RtoConfig) {
        if self.factor < config.backoff_limit {
            self.factor = self.factor.saturating_mul(2);
        }
        if self.factor > config.forget_above {
            // The variance keeps the old estimate, in case there is never another sample.
            self.rttvar4 += self.srtt8 >> 3;
            self.srtt8 = 0;
        }
    }

    /// Ends the back-off.
    pub(crate) const fn end_backoff(&mut self) {
        self.factor = 1;
    }

    /// The SYN was retransmitted and gave no sample: data begins with an RTO of at least 3 s (RFC 6298, 5.7).
    pub(crate) const fn after_syn_loss(&mut self) {
        self.syn_lost = true;
        self.factor = 1;
    }

    /// The smoothed RTT; zero while there is none.
    pub(crate) const fn srtt(&self, config: &RtoConfig) -> Duration {
        Duration::from_nanos((self.srtt8 >> 3) * Self::unit(config))
    }

    /// The factor of the back-off: 1 without one.
    pub(crate) const fn backoff(&self) -> u32 {
        self.factor
    }

    /// Time-outs since the last ACK of new data.
    pub(crate) const fn retries(&self) -> u32 {
        self.retries as u32
    }
    pub(crate) const fn count_retry(&mut self) {
        self.retries = self.retries.saturating_add(1);
    }
    /// New data was acknowledged, or the peer has answered.
    pub(crate) const fn reset_retries(&mut self) {
        self.retries = 0;
    }
}

/// The one segment whose round trip is measured, where a stack times one at a time (RFC 6298, section 3).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TimedSegment {
    /// The low half of the offset after the segment. As the segment is not acknowledged, it lies above snd_una.
    end: u32,
    running: bool,
}

impl TimedSegment {
    pub(super) const fn is_running(&self) -> bool {
        self.running
    }

    /// Times the segment that ends at `end` and leaves now.
    pub(super) const fn start(&mut self, end: u64) {
        self.end = end as u32;
        self.running = true;
    }

    /// Gives up the sample.
    pub(super) const fn stop(&mut self) {
        self.running = false;
    }

    /// The offset after the timed segment; `una` is snd_una.
    const fn end(&self, una: u64) -> u64 {
        una + self.end.wrapping_sub(una as u32) as u64
    }

    /// The offset after it if all below `ack` is acknowledged now and the segment with it; snd_una was `una` before.
    pub(super) fn take_if_acked(&mut self, una: u64, ack: u64) -> Option<u64> {
        let end = (self.running && ack >= self.end(una)).then(|| self.end(una));
        self.running &= end.is_none();
        end
    }

    /// Data from `offset` up to `end` is sent again, maybe with a FIN: a segment that was sent twice gives no sample
    /// (Karn).
    pub(super) fn on_resent(&mut self, una: u64, offset: u64, end: u64) {
        let timed = self.end(una);
        if self.running && timed > offset && timed <= end + 1 {
            self.running = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Preset};

    fn rfc() -> RtoConfig {
        RtoConfig { retries: u32::MAX, ..Config::preset(Preset::Rfc).rto }
    }
    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }
    const fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// SRTT and RTO with one sample more.
    fn after(rto: &mut Rto, config: &RtoConfig, now: Instant, rtt: Duration) -> (Duration, Duration) {
        rto.sample(None, config, now, rtt, 0, 0);
        (rto.srtt(config), rto.timeout(config))
    }

    #[test]
    fn rfc_6298_by_hand() {
        let config = RtoConfig { min: Duration::ZERO, ..rfc() };
        let mut rto = Rto::new();
        assert_eq!(rto.timeout(&config), Duration::from_secs(1), "(2.1)");
        // (2.2) R = 800 ms: SRTT 800, RTTVAR 400, RTO = 800 + 4 * 400 = 2400 ms.
        assert_eq!(after(&mut rto, &config, at(10_000), ms(800)), (ms(800), ms(2400)));
        // (2.3) R' = 1600: RTTVAR = 3/4 400 + 1/4 |800 - 1600| = 500, SRTT = 7/8 800 + 1/8 1600 = 900, RTO = 2900.
        assert_eq!(after(&mut rto, &config, at(20_000), ms(1600)), (ms(900), ms(2900)));
        // R' = 100: RTTVAR = 3/4 500 + 1/4 800 = 575, SRTT = 7/8 900 + 100/8 = 800, RTO = 3100.
        assert_eq!(after(&mut rto, &config, at(30_000), ms(100)), (ms(800), ms(3100)));
    }

    #[test]
    fn floors_cap_and_granularity() {
        let mut config = rfc();
        let steady = |config: &RtoConfig| {
            let mut rto = Rto::new();
            for _ in 0..100 {
                rto.sample(None, config, at(100_000), ms(100), 0, 0);
            }
            rto.timeout(config)
        };
        // (2.4) SRTT 100 ms, RTTVAR about 0: the floor of 1 s.
        assert_eq!(steady(&config), Duration::from_secs(1));
        config.min = ms(200);
        assert_eq!(steady(&config), ms(200));
        config.floor = RtoFloor::Deviation;
        assert_eq!(steady(&config), ms(300), "Linux: SRTT + 200 ms");
        config.floor = RtoFloor::Whole;
        config.granularity = ms(500);
        assert_eq!(steady(&config), ms(600), "(2.3): SRTT + max(G, 4 RTTVAR)");
        let mut rto = Rto::new();
        rto.sample(None, &config, at(0), Duration::from_secs(100), 0, 0);
        assert_eq!(rto.timeout(&config), Duration::from_secs(60), "(2.5)");
    }

    #[test]
    fn ticks_as_old_stacks_count_them() {
        // Ticks of 0.5 s. From 0.9 to 2.1 s the ticks at 1.0, 1.5, 2.0 begin: R = 3 ticks although it took 1.2 s.
        // SRTT = 3, RTTVAR = 1.5, RTO = 3 + 6 = 9 ticks.
        let config = RtoConfig { min: Duration::from_secs(1), granularity: ms(500), ticks: true, ..rfc() };
        let mut rto = Rto::new();
        assert_eq!(after(&mut rto, &config, at(2_100), ms(1_200)), (ms(1_500), ms(4_500)));
        // Within one tick: counts as one. SRTT8 = 24 - 3 + 1 = 22 -> 2 ticks; RTTVAR4 = 6 - 1 + 2 = 7; RTO = 9 ticks.
        assert_eq!(after(&mut rto, &config, at(3_300), ms(200)), (ms(1_000), ms(4_500)));
    }

    #[test]
    fn linux_widens_at_once_and_narrows_once_a_round_trip() {
        let config = RtoConfig { variance: RtoVariance::Linux, ..Config::preset(Preset::Linux).rto };
        let (mut rto, mut spread) = (Rto::new(), None);
        let mut after = |rtt, span: (u64, u64)| {
            rto.sample(Some(&mut spread), &config, at(50_000), ms(rtt), span.0, span.1);
            (rto.srtt(&config), rto.timeout(&config))
        };
        // R = 400: 4 * mdev = 800, above the floor of 200, which is RTTVAR: 400 + 800.
        assert_eq!(after(400, (1, 5_000)), (ms(400), ms(1200)));
        // R = 400, in the same round trip: 4 * mdev = 800 - 200 = 600, but RTTVAR stays.
        assert_eq!(after(400, (2_000, 6_000)), (ms(400), ms(1200)));
        // R = 400 and the round trip ends: 600 - 150 = 450; its greatest was 800, which RTTVAR is. Then it is 200.
        assert_eq!(after(400, (5_001, 9_000)), (ms(400), ms(1200)));
        // R = 1200: off by 800, which is 800 - 450 / 4 more: 450 + 687.5 = 1137.5, at once; SRTT = 500.
        assert_eq!(after(1_200, (6_000, 9_500)), (ms(500), Duration::from_micros(1_637_500)));
        // R = 100: off by 400, less 1137.5 / 4 leaves 115.625 more, an eighth counts, 14.453125; SRTT = 450.
        assert_eq!(after(100, (7_000, 9_500)).1, Duration::from_nanos(450_000_000 + 1_151_953_125));
        // R = 450: 4 * mdev = 3/4 of that. The round trip ends with 1151.953125 as its greatest.
        assert_eq!(after(450, (9_001, 12_000)).1, Duration::from_nanos(450_000_000 + 1_151_953_125));
        // In the next its greatest is 1151.953125 * 3/4 * 3/4 = 647.97: at its end a quarter of the way to that.
        let most = 1_151_953_125 - 1_151_953_125 / 4;
        let most = most - most / 4;
        let rttvar = 1_151_953_125 - (1_151_953_125 - most) / 4;
        let rto = after(450, (12_001, 15_000)).1.as_nanos() - 450_000_000;
        assert!(rto.abs_diff(rttvar) < 10, "{rto} and {rttvar}");
    }

    #[test]
    fn the_back_off_doubles_up_to_its_limit() {
        let config = RtoConfig { max: Duration::from_secs(1_000), ..rfc() };
        let mut rto = Rto::new();
        let mut seen = vec![];
        for _ in 0..9 {
            seen.push(rto.timeout(&config).as_nanos() / 1_000_000_000);
            rto.back_off(&config);
        }
        assert_eq!(seen, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        rto.end_backoff();
        assert_eq!(rto.timeout(&config), Duration::from_secs(1));
    }

    #[test]
    fn an_old_estimate_is_forgotten_where_the_stack_does_so() {
        let config = RtoConfig { forget_above: 8, min: ms(200), ..rfc() };
        let mut rto = Rto::new();
        rto.sample(None, &config, at(5_000), ms(400), 0, 0);
        for _ in 0..3 {
            rto.back_off(&config);
        }
        assert_eq!(rto.srtt(&config), ms(400), "factor 8");
        rto.back_off(&config);
        assert_eq!(rto.srtt(&config), Duration::ZERO, "factor 16");
        assert_eq!(rto.timeout(&config), ms(1_200) * 16, "the RTO itself stands until the next sample");
        rto.sample(None, &config, at(90_000), ms(100), 0, 0);
        rto.end_backoff();
        assert_eq!(rto.timeout(&config), ms(300), "counts as the first: 100 + 4 * 50");
    }
}

#[cfg(test)]
mod timed_tests {
    use super::*;

    #[test]
    fn the_ack_that_covers_it_ends_it() {
        // Across the wrap of the low half: 2^32 - 500 to 2^32 + 500.
        let una = (1 << 32) - 1500;
        let mut timed = TimedSegment::default();
        assert_eq!(timed.take_if_acked(una, una + 5000), None, "nothing is timed");
        timed.start(una + 2000);
        assert_eq!(timed.take_if_acked(una, una + 1999), None);
        assert_eq!(timed.take_if_acked(una + 1000, una + 3000), Some(una + 2000));
        assert!(!timed.is_running());
    }

    #[test]
    fn no_sample_of_what_was_sent_twice() {
        let mut timed = TimedSegment::default();
        timed.start(2000);
        timed.on_resent(500, 500, 1500);
        assert!(timed.is_running(), "another segment");
        timed.on_resent(500, 1500, 2000);
        assert!(!timed.is_running());
        timed.start(2001);
        timed.on_resent(500, 1500, 2000);
        assert!(!timed.is_running(), "with a FIN");
    }
}
