//! HyStart++ (RFC 9406): slow start that slows down when the round-trip time grows, and ends if it does not shrink
//! again.
//!
//! Rounds are delimited by time: a round ends with the first sample of a segment that was sent after it began. The RFC
//! compares sequence numbers, which is the same if every segment gives a sample. If only one segment per round is
//! timed ([`crate::RttSampling::OneAtATime`]), there are never eight samples, and this is plain slow start. L of
//! section 4.2, the segments that an ACK counts for at most, is that of [`crate::ByteCounting`]: neither Linux nor ns-3
//! has one. Linux's HyStart is older; it also ends slow start when the ACKs of one flight are spread over half a round
//! trip.

use narrows_units::{Duration, Instant};

use super::Startup;
use super::slow_start::grown;
use crate::Config;
use crate::cc::{AckSample, Window};

// Section 4.3.
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: u8 = 8;
const CSS_GROWTH_DIVISOR: f64 = 4.0;
const CSS_ROUNDS: u8 = 5;

/// RFC 9406.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HyStart {
    /// Time at which the current round began.
    round: Instant,
    /// The least RTT of the current round; [`Duration::MAX`] if there was none.
    current: Duration,
    /// The least RTT of the round before; [`Duration::MAX`] if there was none.
    last: Duration,
    samples: u8,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    SlowStart,
    /// Conservative slow start, with the RTT that led to it and the number of rounds since.
    Css {
        baseline: Duration,
        rounds: u8,
    },
    /// A loss has ended HyStart++: only the first slow start is watched.
    Off,
}

impl Default for HyStart {
    fn default() -> Self {
        Self {
            round: Instant::ZERO,
            current: Duration::MAX,
            last: Duration::MAX,
            samples: 0,
            state: State::SlowStart,
        }
    }
}

impl HyStart {
    /// Takes an RTT sample and returns whether slow start is over.
    fn on_sample(&mut self, now: Instant, rtt: Duration) -> bool {
        if now - rtt >= self.round && self.begin_round(now) {
            return true;
        }
        self.current = self.current.min(rtt);
        self.samples = self.samples.saturating_add(1);
        if self.samples < N_RTT_SAMPLE {
            return false;
        }
        match self.state {
            State::SlowStart if self.last != Duration::MAX => {
                let threshold = (self.last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if self.current >= self.last + threshold {
                    self.state = State::Css { baseline: self.current, rounds: 0 };
                }
            }
            // The delay has passed.
            State::Css { baseline, .. } if self.current < baseline => self.state = State::SlowStart,
            _ => {}
        }
        false
    }

    /// Begins a round, and returns whether the last one of conservative slow start has ended.
    fn begin_round(&mut self, now: Instant) -> bool {
        self.round = now;
        self.last = self.current;
        self.current = Duration::MAX;
        self.samples = 0;
        if let State::Css { rounds, .. } = &mut self.state {
            *rounds += 1;
            return *rounds >= CSS_ROUNDS;
        }
        false
    }
}

impl Startup for HyStart {
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample, _: &Config) {
        let over = match sample.rtt {
            Some(rtt) if self.state != State::Off => self.on_sample(sample.now, rtt),
            _ => false,
        };
        let credit = match self.state {
            State::SlowStart | State::Off => sample.credit,
            State::Css { .. } => sample.credit / CSS_GROWTH_DIVISOR,
        };
        window.cwnd = grown(window, credit);
        if over {
            window.ssthresh = window.cwnd;
            self.state = State::Off;
        }
    }
    fn on_loss(&mut self) {
        self.state = State::Off;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::tests::sample;

    /// RoundTrips of ten ACKs each, a round's ACKs all of the RTT given, milliseconds; the window after each round.
    fn rounds(rtts: &[u64]) -> (HyStart, Window, Vec<f64>) {
        let mut h = HyStart::default();
        let mut w = Window { cwnd: 10.0, ssthresh: f64::INFINITY };
        let (mut sent, mut windows) = (0, Vec::new());
        for &rtt in rtts {
            for i in 0..10 {
                if w.cwnd < w.ssthresh {
                    let mut s = sample(sent + rtt, 1.0);
                    s.now += Duration::from_micros(i);
                    s.rtt = Some(Duration::from_millis(rtt));
                    h.on_ack(&mut w, &s, &Config::default());
                }
            }
            windows.push(w.cwnd);
            sent += rtt;
        }
        (h, w, windows)
    }

    #[test]
    fn a_steady_rtt_is_slow_start() {
        assert_eq!(rounds(&[100, 100, 107, 100]).2, [20.0, 30.0, 40.0, 50.0]);
    }

    #[test]
    fn a_growing_rtt_slows_it_down_then_ends_it() {
        // 100 ms: the threshold is 100 / 8 = 12.5 ms. The eighth ACK of the round of 113 ms is the first that grows
        // by 1/4.
        let (h, w, windows) = rounds(&[100, 113, 113, 113, 113, 113, 113]);
        assert_eq!(windows[..2], [20.0, 27.75]);
        assert_eq!(windows[2..6], [30.25, 32.75, 35.25, 37.75]);
        // The round in which it began counts (section 4.2), so the fifth round ends with the next one's first ACK.
        assert_eq!((h.state, w.ssthresh), (State::Off, 38.0));
    }

    #[test]
    fn a_passing_delay_is_forgiven() {
        // Back at 100 ms, the eighth ACK goes on in slow start: 7 / 4 + 3.
        assert_eq!(rounds(&[100, 113, 100, 100]).2, [20.0, 27.75, 32.5, 42.5]);
    }

    #[test]
    fn the_threshold_is_between_4_and_16_ms() {
        assert_eq!(rounds(&[8, 11]).2, [20.0, 30.0]);
        assert_eq!(rounds(&[8, 12]).2, [20.0, 27.75]);
        assert_eq!(rounds(&[400, 415]).2, [20.0, 30.0]);
        assert_eq!(rounds(&[400, 416]).2, [20.0, 27.75]);
    }

    #[test]
    fn off_after_a_loss() {
        let (mut h, mut w, _) = rounds(&[100]);
        h.on_loss();
        for i in 0..20 {
            h.on_ack(&mut w, &sample(1000 + i, 1.0), &Config::default());
        }
        assert_eq!((h.state, w.cwnd), (State::Off, 40.0));
    }
}
