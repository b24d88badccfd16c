//! TCP Smart Framing (TCP-SF): a small window leaves as four small segments, so that a loss leaves enough of them for
//! three duplicate ACKs.
//!
//! Source: M. Mellia, M. Meo, C. Casetti, "TCP Smart Framing: a segmentation algorithm to reduce TCP latency"
//! (IEEE/ACM ToN 13(2), 2005), as the Burst TCP dissertation describes it (section 3.3). While cwnd is below four
//! segments, a segment holds a quarter of cwnd, and as many segments leave as the window has bytes for. From four
//! segments on, everything is as usual.
//!
//! Where we differ:
//! - While segments are small, the window grows by the bytes acknowledged. Otherwise four ACKs would open it by four
//!   segments.
//! - The first loss ends it: outstanding segments keep their boundaries, and after a time-out a window of one is one
//!   segment.
//! - Whatever counts segments counts small ones as full (`FlightSize`, the pipe, limited transmit). There are at most
//!   four of them, full ones follow a round trip later, and ssthresh is at least two in any case.
//! - A receiver that delays ACKs counts bytes, and two small segments are not two full ones.

use super::Startup;
use super::slow_start::grown;
use crate::Config;
use crate::cc::{AckSample, Window};

/// The number of segments of a small window; one of fewer full segments than that is small.
const PIECES: f64 = 4.0;

/// TCP-SF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SmallSegments {
    /// Whether a loss has ended the start-up.
    off: bool,
}

impl Startup for SmallSegments {
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample, config: &Config) {
        let small = self.segment(window, config.mss as u16).is_some();
        let credit = if small { sample.acked as f64 / f64::from(config.mss) } else { sample.credit };
        window.cwnd = grown(window, credit);
    }
    fn on_loss(&mut self) {
        self.off = true;
    }
    fn segment(&self, window: &Window, mss: u16) -> Option<u16> {
        let small = !self.off && window.cwnd < PIECES;
        small.then(|| ((window.cwnd * f64::from(mss) / PIECES) as u16).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::tests::sample;

    #[test]
    fn a_quarter_of_a_small_window() {
        let mut sf = SmallSegments::default();
        let at = |cwnd| Window { cwnd, ssthresh: f64::INFINITY };
        for (cwnd, due) in [(1.0, Some(250)), (2.5, Some(625)), (3.999, Some(999)), (4.0, None)] {
            assert_eq!(sf.segment(&at(cwnd), 1000), due, "{cwnd}");
        }
        // 250 bytes of 1000 acknowledged: a quarter of a segment more.
        let config = Config { mss: 1000, ..Config::default() };
        let mut w = at(1.0);
        sf.on_ack(&mut w, &AckSample { acked: 250, ..sample(0, 1.0) }, &config);
        assert_eq!(w.cwnd, 1.25);
        sf.on_loss();
        assert_eq!(sf.segment(&w, 1000), None);
    }
}
