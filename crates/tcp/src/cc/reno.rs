//! Reno's congestion avoidance (Jacobson 1988; RFC 5681): the window grows by one segment per round trip, and a loss
//! halves it.
//!
//! If bytes are counted, the window grows by a whole segment each time a window's worth of data was acknowledged (RFC
//! 3465, section 2.1; Linux); otherwise by a fraction with each ACK (RFC 5681, equation 3; ns-2). Whole segments are
//! a little faster, and they decide what a full queue loses: the segment that is one too many is followed by the next
//! one a round trip later.
//!
//! The sender decides what is halved, and it sees to the floor of two segments ([`crate::ReduceFrom`]).

use narrows_units::Instant;

use super::{AckSample, CongestionControl, Window};
use crate::Config;

/// RFC 5681.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reno {
    /// Segments acknowledged since the window last grew (`bytes_acked`, RFC 3465).
    counted: f64,
}

/// The share that a loss leaves (RFC 5681, equation 4).
const BETA: f64 = 0.5;

impl CongestionControl for Reno {
    #[inline]
    fn on_ack(&mut self, window: &mut Window, _config: &Config, sample: &AckSample) {
        grow(&mut self.counted, window, sample, 1.0);
    }
    fn on_loss(&mut self, window: &mut Window, _config: &Config, _now: Instant, base: f64) {
        window.ssthresh = base * BETA;
    }
    fn on_rto(&mut self, window: &mut Window, config: &Config, now: Instant, base: f64) {
        self.on_loss(window, config, now, base);
    }
}

/// Lets the window grow by `alpha` segments per round trip, in whole segments if bytes are counted. `counted` is what
/// was acknowledged since the window last grew, times alpha.
#[inline]
pub(super) fn grow(counted: &mut f64, window: &mut Window, sample: &AckSample, alpha: f64) {
    let credit = alpha * sample.credit;
    if !sample.by_bytes {
        window.cwnd += credit / window.cwnd;
        return;
    }
    if *counted >= window.cwnd {
        // This was counted while the window was larger.
        *counted = 0.0;
        window.cwnd += 1.0;
    }
    *counted += credit;
    if *counted >= window.cwnd {
        *counted -= window.cwnd;
        window.cwnd += 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::tests::sample;

    #[test]
    fn one_segment_a_round_trip() {
        let mut w = Window { cwnd: 10.0, ssthresh: 5.0 };
        for _ in 0..10 {
            Reno::default().on_ack(&mut w, &Config::default(), &sample(0, 1.0));
        }
        // Each ACK adds a tenth of a segment or a little less: between 10 / 11 and 1.
        assert!(w.cwnd > 10.909 && w.cwnd < 11.0, "{}", w.cwnd);
    }

    #[test]
    fn whole_segments_where_bytes_are_counted() {
        // RFC 3465, section 2.1: ten segments for the eleventh, then eleven for the twelfth; ACKs of two at a time
        // leave one over.
        let (mut reno, mut w) = (Reno::default(), Window { cwnd: 10.0, ssthresh: 5.0 });
        let mut windows = Vec::new();
        for _ in 0..11 {
            reno.on_ack(&mut w, &Config::default(), &AckSample { by_bytes: true, ..sample(0, 2.0) });
            windows.push(w.cwnd);
        }
        assert_eq!(windows, [10., 10., 10., 10., 11., 11., 11., 11., 11., 11., 12.]);
        assert_eq!(reno.counted, 1.0);
        // Four left from a window of twelve are enough in one of three.
        (reno.counted, w.cwnd) = (4.0, 3.0);
        reno.on_ack(&mut w, &Config::default(), &AckSample { by_bytes: true, ..sample(0, 1.0) });
        assert_eq!((reno.counted, w.cwnd), (1.0, 4.0));
    }

    #[test]
    fn half_of_what_the_sender_says() {
        let mut w = Window { cwnd: 20.0, ssthresh: 64.0 };
        Reno::default().on_loss(&mut w, &Config::default(), Instant::ZERO, 15.0);
        assert_eq!(w, Window { cwnd: 20.0, ssthresh: 7.5 });
    }
}
