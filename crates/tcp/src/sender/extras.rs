//! What a sender has only where its settings are not plain ([`Config::is_plain`]). It lies in a box of its own, so that
//! plain ends, of which there may be a million, do without.

use super::ecn::EcnResponse;
use super::pacer::Pacer;
use super::prr::Prr;
use super::rack::Rack;
use super::rto::Spread;
use super::sws::SmallSegments;
use super::timers::TimerTable;
use crate::cc::{AnyCc, Reno};
use crate::startup::{AnyStartup, Startup};
use crate::{Config, Io, Recovery};
use narrows_units::SeqNum;

/// See the head of the file.
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
    /// By how many segments duplicate ACKs inflate the window during fast recovery without SACK (RFC 6582, section
    /// 3.2).
    pub(super) inflation: u32,
    /// Only with RACK and TLP.
    pub(super) rack: Option<Box<Rack>>,
    /// Only with [`crate::RtoVariance::Linux`], from the first sample on.
    pub(super) spread: Option<Box<Spread>>,
}

impl Extras {
    pub(super) fn new(config: &Config, isn: SeqNum) -> Option<Box<Self>> {
        if config.is_plain() {
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
            inflation: 0,
            rack: (config.rack_tlp && config.recovery == Recovery::Sack).then(Box::default),
            spread: None,
        }))
    }

    /// A partial ACK of so many segments, without SACK: takes them off the inflation and adds back one segment (RFC
    /// 6582, section 3.2, step 3). Returns what is left to be taken off cwnd.
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
pub(super) fn with_cc<I: Io>(extras: &mut Option<Box<Extras>>, work: impl FnOnce(&mut AnyCc)) {
    match extras.as_mut().filter(|_| !I::PLAIN) {
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

    #[test]
    fn a_partial_ack_deflates_the_window() {
        // Three duplicate ACKs and four more: an inflation of 7. An ACK of 3 segments takes 3 off and adds 1.
        let config = Config { recovery: Recovery::NewReno, ..Config::default() };
        let mut extras = Extras::new(&config, SeqNum(0)).expect("NewReno is not plain");
        extras.inflation = 7;
        let mut deflated = |acked| (extras.deflate(acked), extras.inflation);
        assert_eq!(deflated(3), (0, 5));
        assert_eq!(deflated(1), (0, 5), "one off, one added");
        assert_eq!(deflated(0), (0, 5), "part of a segment");
        // Of 8 segments 5 are taken off the inflation and 3 off cwnd; then one segment is added back.
        assert_eq!(deflated(8), (3, 1));
        assert_eq!(deflated(1), (0, 1));
    }
}
