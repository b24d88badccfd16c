//! Which settings are plain: SACK, Reno and slow start, and nothing newer.
//!
//! Most of what an end asks its settings for each segment is about what such ends do not have. A driver of many of them
//! has it asked once, when it is compiled ([`crate::Io::PLAIN`]).

use super::{
    ByteCounting, CcKind, Config, PrrBound, Recovery, RestartTimer, RtoVariance, RttSampling, StartupKind,
    SwsAvoidance,
};

impl Config {
    /// Whether an end with these settings has SACK (RFC 6675), Reno that counts ACKs, and slow start (RFC 5681), but no
    /// RACK, rate reduction, pacing, ECN, timestamps, PSH or Nagle's rule, and no rule of Linux for samples and timers.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let sends = self.recovery == Recovery::Sack
            && self.congestion == CcKind::Reno
            && self.startup == StartupKind::SlowStart
            && self.byte_counting == ByteCounting::PerAck
            && !self.grow_if_used
            && self.sws_avoidance == SwsAvoidance::Idle
            && !self.nagle;
        let repairs = !self.rack_tlp
            && self.prr == PrrBound::Off
            && self.rtt_sampling != RttSampling::EveryAck
            && self.restart_timer != RestartTimer::Linux
            && self.rto.variance != RtoVariance::Linux;
        let says = !self.ecn && !self.timestamps && self.push_every == u32::MAX;
        sends && repairs && says
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    #[test]
    fn ns2_with_sack_is_plain_and_linux_is_not() {
        let ns2 = Config { recovery: Recovery::Sack, ..Config::preset(Preset::Ns2) };
        assert!(ns2.is_plain());
        let other: [fn(&mut Config); 15] = [
            |c| c.recovery = Recovery::NewReno,
            |c| c.congestion = CcKind::Aimd,
            |c| c.startup = StartupKind::Paced,
            |c| c.byte_counting = ByteCounting::Abc { limit: 2 },
            |c| c.grow_if_used = true,
            |c| c.rack_tlp = true,
            |c| c.prr = PrrBound::SafeAck,
            |c| c.rtt_sampling = RttSampling::EveryAck,
            |c| c.restart_timer = RestartTimer::Linux,
            |c| c.rto.variance = RtoVariance::Linux,
            |c| c.ecn = true,
            |c| c.timestamps = true,
            |c| c.push_every = 2,
            |c| c.sws_avoidance = SwsAvoidance::Linux,
            |c| c.nagle = true,
        ];
        for (number, change) in other.iter().enumerate() {
            let mut config = ns2;
            change(&mut config);
            assert!(!config.is_plain(), "change {number}");
        }
        assert!(!Config::preset(Preset::Linux).is_plain());
    }
}
