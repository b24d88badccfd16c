//! Reno's congestion avoidance (Jacobson 1988; RFC 5681): one segment more per round trip, half after a loss.
//!
//! What a loss takes its half of, and the floor of two segments, are the sender's ([`crate::ReduceFrom`]).

use narrows_units::Instant;

use super::{AckSample, CongestionControl, Window};

/// RFC 5681. It keeps no state: the two windows are all there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reno;

/// A loss leaves one half (RFC 5681, equation 4).
const BETA: f64 = 0.5;

impl CongestionControl for Reno {
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample) {
        // RFC 5681, equation 3; by the byte (section 3.1, RFC 3465) if the credit counts bytes.
        window.cwnd += sample.credit / window.cwnd;
    }
    fn on_loss(&mut self, window: &mut Window, _now: Instant, base: f64) {
        window.ssthresh = base * BETA;
    }
    fn on_rto(&mut self, window: &mut Window, now: Instant, base: f64) {
        self.on_loss(window, now, base);
    }
    fn on_ecn(&mut self, window: &mut Window, now: Instant, base: f64) {
        self.on_loss(window, now, base);
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
            Reno.on_ack(&mut w, &sample(0, 1.0));
        }
        // Each ACK adds a tenth of a segment or a little less: between 10 / 11 and 1.
        assert!(w.cwnd > 10.909 && w.cwnd < 11.0, "{}", w.cwnd);
    }

    #[test]
    fn half_of_what_the_sender_says() {
        let mut w = Window { cwnd: 20.0, ssthresh: 64.0 };
        Reno.on_loss(&mut w, Instant::ZERO, 15.0);
        assert_eq!(w, Window { cwnd: 20.0, ssthresh: 7.5 });
    }
}
