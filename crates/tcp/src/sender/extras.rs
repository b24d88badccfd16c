//! State that a sender has only if its settings ask for more than SACK, Reno and slow start. Such state lies in a box
//! of its own: ends that do without it, of which there may be a million, take less memory.

use super::TimerTable;
use super::ecn::EcnResponse;
use super::loss::Prr;
use super::output::Pacer;
use super::peer::SmallSegments;
use super::recovery::Rack;
use super::rto::Spread;
use crate::cc::{AnyCc, Reno};
use crate::startup::{AnyStartup, Startup};
use crate::{
    ByteCounting, CcKind, Config, PrrBound, Recovery, RestartTimer, RtoVariance, RttSampling, StartupKind,
    SwsAvoidance,
};
use narrows_units::SeqNum;

/// State of the parts that such settings name.
#[derive(Debug)]
pub(super) struct Extras {
    /// All timers but the retransmission timer.
    pub(super) timers: TimerTable,
    pub(super) pacer: Pacer,
    pub(super) startup: AnyStartup,
    pub(super) cc: AnyCc,
    pub(super) ecn: EcnResponse,
    pub(super) prr: Prr,
    pub(super) small: SmallSegments,
    pub(super) usage: Usage,
    /// Segments by which duplicate ACKs inflate the window during fast recovery without SACK (RFC 6582, section 3.2).
    pub(super) inflation: u32,
    /// State of RACK and TLP; `None` without RACK.
    pub(super) rack: Option<Box<Rack>>,
    /// Deviation by [`crate::RtoVariance::Linux`], from the first sample on; `None` with other rules.
    pub(super) spread: Option<Box<Spread>>,
}

/// How far a window of data has used the congestion window (RFC 7661, section 4.1, `pipeACK`; Linux's `is_cwnd_limited`
/// and `max_packets_out`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// Whether the congestion window has held back a segment of this window of data.
    limited: bool,
    /// Most segments that were outstanding at once.
    most: u32,
    /// Offset with whose acknowledgment the next window of data begins.
    until: u64,
}

impl Usage {
    /// Segments have left, or the congestion window held them back: `outstanding` are outstanding, between the offsets
    /// `una` and `max`.
    pub(super) fn note(&mut self, outstanding: u32, una: u64, max: u64, limited: bool) {
        if una >= self.until || limited || !self.limited && outstanding > self.most {
            *self = Self { limited, most: outstanding, until: max };
        }
    }

    /// Whether a window of `cwnd` segments may grow: in slow start half of it is enough, because the next round would
    /// use it.
    pub(super) fn lets_grow(&self, cwnd: f64, slow_start: bool) -> bool {
        self.limited || slow_start && cwnd < 2.0 * f64::from(self.most)
    }
}

impl Extras {
    pub(super) fn new(config: &Config, isn: SeqNum) -> Option<Box<Self>> {
        if !Self::are_needed(config) {
            return None;
        }
        Some(Box::new(Self {
            timers: TimerTable::default(),
            pacer: Pacer::default(),
            startup: AnyStartup::new(config),
            cc: AnyCc::new(config),
            ecn: EcnResponse::new(isn),
            prr: Prr::default(),
            small: SmallSegments::default(),
            usage: Usage::default(),
            inflation: 0,
            rack: (config.rack_tlp && config.recovery == Recovery::Sack).then(Box::default),
            spread: None,
        }))
    }

    /// Tells whether these settings ask for more than SACK (RFC 6675), Reno that counts ACKs, and slow start (RFC
    /// 5681): RACK, rate reduction, pacing, ECN, timestamps, PSH, Nagle's rule, or a rule of Linux for samples and
    /// timers.
    fn are_needed(config: &Config) -> bool {
        let sends = config.recovery == Recovery::Sack
            && config.congestion == CcKind::Reno
            && config.startup == StartupKind::SlowStart
            && config.byte_counting == ByteCounting::PerAck
            && !config.grow_if_used
            && config.sws_avoidance == SwsAvoidance::Idle
            && !config.nagle;
        let repairs = !config.rack_tlp
            && config.prr == PrrBound::Off
            && config.rtt_sampling != RttSampling::EveryAck
            && config.restart_timer != RestartTimer::Linux
            && config.rto.variance != RtoVariance::Linux;
        let says = !config.ecn && !config.timestamps && config.push_every == u32::MAX;
        !(sends && repairs && says)
    }

    /// Takes the `acked` segments of a partial ACK without SACK off the inflation, and adds back one segment (RFC 6582,
    /// section 3.2, step 3). Returns what is left to be taken off cwnd.
    pub(super) fn deflate(&mut self, acked: u32) -> u32 {
        if self.inflation > acked {
            self.inflation -= acked.max(1) - 1;
            return 0;
        }
        let rest = acked - self.inflation;
        self.inflation = 1;
        rest
    }
}

/// Lets congestion control work: Reno, if there are no extras.
#[inline]
pub(super) fn with_cc(extras: &mut Option<Box<Extras>>, work: impl FnOnce(&mut AnyCc)) {
    match extras {
        Some(extras) => work(&mut extras.cc),
        None => work(&mut AnyCc::Reno(Reno::default())),
    }
}

/// The first window, in segments.
pub(super) fn initial_window(extras: &Option<Box<Extras>>, config: &Config) -> f64 {
    match extras {
        Some(extras) => extras.startup.initial_window(config),
        None => config.initial_window.segments(config.mss),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    #[test]
    fn a_partial_ack_deflates_the_window() {
        // Three duplicate ACKs and four more: an inflation of 7. An ACK of 3 segments takes 3 off and adds 1.
        let config = Config { recovery: Recovery::NewReno, ..Config::default() };
        let mut extras = Extras::new(&config, SeqNum(0)).expect("NewReno inflates the window");
        extras.inflation = 7;
        let mut deflated = |acked| (extras.deflate(acked), extras.inflation);
        assert_eq!(deflated(3), (0, 5));
        assert_eq!(deflated(1), (0, 5), "one off, one added");
        assert_eq!(deflated(0), (0, 5), "part of a segment");
        // 8 segments are acknowledged: 5 are taken off the inflation and 3 off cwnd; then one segment is added back.
        assert_eq!(deflated(8), (3, 1));
        assert_eq!(deflated(1), (0, 1));
    }

    #[test]
    fn ns2_with_sack_does_without_and_linux_does_not() {
        let ns2 = Config { recovery: Recovery::Sack, ..Config::preset(Preset::Ns2) };
        assert!(!Extras::are_needed(&ns2));
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
            assert!(Extras::are_needed(&config), "change {number}");
        }
        assert!(Extras::are_needed(&Config::preset(Preset::Linux)));
    }
}
