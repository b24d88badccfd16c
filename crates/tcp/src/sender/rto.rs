//! The RTT estimator and the retransmission time-out: RFC 6298, with the integers of Jacobson's "Congestion Avoidance
//! and Control" (1988, appendix A).
//!
//! SRTT is stored eightfold and RTTVAR fourfold, in units of one nanosecond or, as in old stacks and ns-2, of one
//! clock tick, so that the same few additions serve both. The clock granularity enters the RTO as in (2.3). Where we
//! differ from RFC 6298: with [`RtoConfig::ticks`] a sample counts the ticks that began during the round trip, and at
//! least one.

use narrows_units::{Duration, Instant};

use crate::{RtoConfig, RtoFloor};

/// Estimator, back-off and retries of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rto {
    /// 8 * SRTT in units; zero before the first sample and after forgetting.
    srtt8: u64,
    /// 4 * RTTVAR in units.
    rttvar4: u64,
    /// The RTO before back-off, floor included.
    base: Duration,
    /// The factor of the back-off.
    factor: u32,
    /// Time-outs since the last ACK of new data.
    retries: u32,
}

impl Rto {
    pub(crate) const fn new(config: &RtoConfig) -> Self {
        Self { srtt8: 0, rttvar4: 0, base: config.initial, factor: 1, retries: 0 }
    }

    const fn unit(config: &RtoConfig) -> u64 {
        if config.ticks && config.granularity.as_nanos() > 0 { config.granularity.as_nanos() } else { 1 }
    }

    /// Takes a sample: a round trip of `rtt` ends now (RFC 6298, 2.2 and 2.3).
    pub(crate) fn sample(&mut self, config: &RtoConfig, now: Instant, rtt: Duration) {
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
        } else {
            let srtt = self.srtt8 >> 3;
            let error = r.abs_diff(srtt);
            // RTTVAR <- 3/4 RTTVAR + 1/4 |SRTT - R|, with the SRTT of before; SRTT <- 7/8 SRTT + 1/8 R.
            self.rttvar4 = (self.rttvar4 - (self.rttvar4 >> 2) + error).max(1);
            self.srtt8 = (self.srtt8 - srtt + r).max(1);
        }
        let min = config.min.as_nanos();
        let granularity = config.granularity.as_nanos();
        let deviation = (self.rttvar4 * unit).max(granularity);
        let srtt = (self.srtt8 >> 3) * unit;
        self.base = Duration::from_nanos(match config.floor {
            RtoFloor::Whole => (srtt + deviation).max(min),
            RtoFloor::Deviation => srtt + deviation.max(min),
        });
    }

    /// For how long to set the timer (RFC 6298, 2.4 and 2.5).
    pub(crate) fn timeout(&self, config: &RtoConfig) -> Duration {
        (self.base * u64::from(self.factor)).min(config.max)
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
    pub(crate) fn after_syn_loss(&mut self) {
        if self.srtt8 == 0 {
            self.base = self.base.max(Duration::from_secs(3));
        }
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
        self.retries
    }
    pub(crate) const fn count_retry(&mut self) {
        self.retries += 1;
    }
    /// New data was acknowledged, or the peer has answered.
    pub(crate) const fn reset_retries(&mut self) {
        self.retries = 0;
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
        rto.sample(config, now, rtt);
        (rto.srtt(config), rto.timeout(config))
    }

    #[test]
    fn rfc_6298_by_hand() {
        let config = RtoConfig { min: Duration::ZERO, ..rfc() };
        let mut rto = Rto::new(&config);
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
            let mut rto = Rto::new(config);
            for _ in 0..100 {
                rto.sample(config, at(100_000), ms(100));
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
        let mut rto = Rto::new(&config);
        rto.sample(&config, at(0), Duration::from_secs(100));
        assert_eq!(rto.timeout(&config), Duration::from_secs(60), "(2.5)");
    }

    #[test]
    fn ticks_as_old_stacks_count_them() {
        // Ticks of 0.5 s. From 0.9 to 2.1 s the ticks at 1.0, 1.5, 2.0 begin: R = 3 ticks although it took 1.2 s.
        // SRTT = 3, RTTVAR = 1.5, RTO = 3 + 6 = 9 ticks.
        let config = RtoConfig { min: Duration::from_secs(1), granularity: ms(500), ticks: true, ..rfc() };
        let mut rto = Rto::new(&config);
        assert_eq!(after(&mut rto, &config, at(2_100), ms(1_200)), (ms(1_500), ms(4_500)));
        // Within one tick: counts as one. SRTT8 = 24 - 3 + 1 = 22 -> 2 ticks; RTTVAR4 = 6 - 1 + 2 = 7; RTO = 9 ticks.
        assert_eq!(after(&mut rto, &config, at(3_300), ms(200)), (ms(1_000), ms(4_500)));
    }

    #[test]
    fn the_back_off_doubles_up_to_its_limit() {
        let config = RtoConfig { max: Duration::from_secs(1_000), ..rfc() };
        let mut rto = Rto::new(&config);
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
        let mut rto = Rto::new(&config);
        rto.sample(&config, at(5_000), ms(400));
        for _ in 0..3 {
            rto.back_off(&config);
        }
        assert_eq!(rto.srtt(&config), ms(400), "factor 8");
        rto.back_off(&config);
        assert_eq!(rto.srtt(&config), Duration::ZERO, "factor 16");
        assert_eq!(rto.timeout(&config), ms(1_200) * 16, "the RTO itself stands until the next sample");
        rto.sample(&config, at(90_000), ms(100));
        rto.end_backoff();
        assert_eq!(rto.timeout(&config), ms(300), "counts as the first: 100 + 4 * 50");
    }
}
