//! Initial Spreading: the initial window leaves evenly over the first round trip instead of as a burst.
//!
//! Source: R. Sallantin, C. Baudoin, E. Chaput, F. Arnal, E. Dubois, A.-L. Beylot, "Initial spreading: a fast
//! start-up TCP mechanism" (LCN 2013) and "A TCP model for short-lived flows to validate Initial Spreading" (LCN
//! 2014). Of a window of n segments, the k-th leaves (k - 1) R0 / n after the first. R0 is the round-trip time of the
//! handshake: from SYN to SYN-ACK at the client, from SYN-ACK to the third segment at the server. So no two segments
//! meet the same state of a queue, and enough of them follow a lost one for three duplicate ACKs. Slow start follows.
//!
//! The papers leave some cases open. Here:
//! - The time slots begin with the first data, whenever that comes. Later data take the slots that are left. A slot
//!   whose time has passed stays empty, and data for which there is no slot wait until R0 is over.
//! - ACKs that come meanwhile open the window, but nothing leaves before its slot.
//! - A loss (third duplicate ACK, time-out) or an ECN echo ends it: what recovery sends leaves at once.
//! - If R0 / n is below [`crate::StartConfig::spread_floor`] (1 ms), the window leaves as a burst.
//! - If a SYN or SYN-ACK was sent again, even with timestamps, R0 counts as unknown: the window is at most 3 and
//!   leaves at once. So it is without a handshake, unless [`crate::StartConfig::rtt`] says what to use for R0.
//! - After idling nothing is spread.

use narrows_units::{Duration, Instant};

use super::slow_start::grown;
use super::{FirstRtt, Startup};
use crate::Config;
use crate::cc::{AckSample, Window};

/// The first window, in segments, if nothing is known about the path.
const BLIND_WINDOW: f64 = 3.0;

/// Initial Spreading. Settings of Initial Spreading are those of the initial window,
/// [`crate::StartConfig::spread_floor`] and [`crate::StartConfig::rtt`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitialSpreading(State);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    /// No connection exists yet.
    #[default]
    Idle,
    /// R0 is known, and nothing was sent.
    Ready(Duration),
    /// Segments wait for the segments' slots.
    Spreading(Box<Slots>),
    /// Segments leave as the window allows.
    Over,
    /// Segments leave as the window allows; as R0 is unknown, the initial window is small.
    Blind,
}

/// The time slots of a first window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slots {
    /// Time at which the first segment left.
    first: Instant,
    /// The time over which the slots are spread.
    r0: Duration,
    /// Number of slots.
    n: u32,
    /// How many segments have left.
    sent: u32,
    /// The first slot after the last one used, from 0.
    next: u32,
}

impl Slots {
    /// The first slot, from 0, that is free and not in the past; `n`, which lies at R0, if there is none. `None` if
    /// all segments of the window have left or R0 has passed.
    fn at(&self, now: Instant) -> Option<u32> {
        let elapsed = now.since(self.first);
        if self.sent >= self.n || elapsed >= self.r0 {
            return None;
        }
        // No product overflows: time-outs bound a round trip, and the range of its key bounds n.
        let current = (elapsed * u64::from(self.n)).as_nanos().div_ceil(self.r0.as_nanos());
        Some((current as u32).max(self.next).min(self.n))
    }
}

impl Startup for InitialSpreading {
    fn initial_window(&self, config: &Config) -> f64 {
        let window = config.initial_window.segments(config.mss);
        if self.0 == State::Blind { window.min(BLIND_WINDOW) } else { window }
    }

    fn on_established(&mut self, window: &mut Window, first: FirstRtt, config: &Config) {
        self.0 = match first {
            FirstRtt::Is(r0) if self.0 != State::Blind => {
                let n = config.initial_window.segments(config.mss) as u64;
                let apart = r0 >= config.start.spread_floor * n && r0.as_nanos() >= n;
                if n > 1 && apart { State::Ready(r0) } else { State::Over }
            }
            _ => State::Blind,
        };
        if self.0 == State::Blind {
            window.cwnd = self.initial_window(config);
        }
    }

    fn on_ack(&mut self, window: &mut Window, sample: &AckSample, _: &Config) {
        window.cwnd = grown(window, sample.credit);
    }

    fn on_loss(&mut self) {
        if self.0 != State::Blind {
            self.0 = State::Over;
        }
    }

    fn release_at(&mut self, now: Instant) -> Option<Instant> {
        let State::Spreading(slots) = &self.0 else { return None };
        let Some(slot) = slots.at(now) else {
            self.0 = State::Over;
            return None;
        };
        Some(slots.first + slots.r0 * u64::from(slot) / u64::from(slots.n))
    }

    fn on_sent(&mut self, now: Instant, config: &Config) {
        match &mut self.0 {
            State::Ready(r0) => {
                let n = config.initial_window.segments(config.mss) as u32;
                self.0 = State::Spreading(Box::new(Slots { first: now, r0: *r0, n, sent: 1, next: 1 }));
            }
            State::Spreading(slots) => {
                slots.next = slots.at(now).map_or(slots.n, |slot| slot + 1);
                slots.sent += 1;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings as _;
    use crate::cc::tests::ms;
    use crate::{InitialWindow, Preset};

    /// Established with an R0, about to send.
    fn ready(iw: u32, r0: Duration) -> (InitialSpreading, Config) {
        let config = Config { initial_window: InitialWindow::Segments(iw), ..Config::preset(Preset::Rfc) };
        let mut spreading = InitialSpreading::default();
        let mut window = Window { cwnd: f64::from(iw), ssthresh: f64::INFINITY };
        spreading.on_established(&mut window, FirstRtt::Is(r0), &config);
        assert_eq!(window.cwnd, f64::from(iw));
        (spreading, config)
    }

    /// Times at which the segments of a window leave, from `from` on, if all are there.
    fn instants(
        spreading: &mut InitialSpreading,
        config: &Config,
        from: Instant,
        segments: u32,
    ) -> Vec<Instant> {
        let mut now = from;
        (0..segments)
            .map(|_| {
                now = spreading.release_at(now).unwrap_or(now);
                spreading.on_sent(now, config);
                now
            })
            .collect()
    }

    #[test]
    fn segment_k_leaves_at_k_minus_1_times_r0_over_n() {
        // R0 = 100 ms, n = 10: 0, 10, .. 90 ms. The eleventh and what follows are not held.
        let (mut s, config) = ready(10, Duration::from_millis(100));
        let due: Vec<_> = (0..10).map(|k| ms(500 + 10 * k)).chain([ms(590), ms(590)]).collect();
        assert_eq!(instants(&mut s, &config, ms(500), 12), due);
        assert_eq!(s.0, State::Over);
        // A third of 100 ms is not whole: no error adds up.
        let (mut s, config) = ready(3, Duration::from_millis(100));
        assert_eq!(
            instants(&mut s, &config, ms(0), 3).iter().map(|t| t.as_nanos()).collect::<Vec<_>>(),
            [0, 33_333_333, 66_666_666]
        );
    }

    #[test]
    fn late_data_take_the_slots_that_are_left() {
        let (mut s, config) = ready(10, Duration::from_millis(100));
        assert_eq!(instants(&mut s, &config, ms(0), 2), [ms(0), ms(10)]);
        // At 35 ms the slots of 20 and 30 ms have passed; the ninth and tenth segment find none and leave after R0.
        let due = [40, 50, 60, 70, 80, 90, 100, 100].map(ms);
        assert_eq!(instants(&mut s, &config, ms(35), 8), due);
        // After R0 there are no slots at all.
        let (mut s, config) = ready(10, Duration::from_millis(100));
        s.on_sent(ms(0), &config);
        assert_eq!((s.release_at(ms(100)), &s.0), (None, &State::Over));
    }

    #[test]
    fn the_floor_and_windows_of_one() {
        // 10 segments over 10 ms are 1 ms apart, over 9.999 ms less; 0 switches the floor off.
        assert!(matches!(ready(10, Duration::from_millis(10)).0.0, State::Ready(_)));
        assert_eq!(ready(10, Duration::from_micros(9_999)).0.0, State::Over);
        assert_eq!(ready(1, Duration::from_millis(100)).0.0, State::Over);
        let mut config = Config::preset(Preset::Rfc);
        config.set("spread_floor", "0s").unwrap();
        let (mut s, mut w) = (InitialSpreading::default(), Window { cwnd: 10.0, ssthresh: f64::INFINITY });
        for (ns, spreads) in [(10, true), (9, false)] {
            s.on_established(&mut w, FirstRtt::Is(Duration::from_nanos(ns)), &config);
            assert_eq!(matches!(s.0, State::Ready(_)), spreads, "no two slots in one nanosecond: {ns}");
        }
    }

    #[test]
    fn without_r0_three_segments_at_once() {
        for first in [FirstRtt::SynLost, FirstRtt::Unknown] {
            for (iw, due) in [(10, 3.0), (2, 2.0)] {
                let config =
                    Config { initial_window: InitialWindow::Segments(iw), ..Config::preset(Preset::Rfc) };
                let (mut s, mut w) =
                    (InitialSpreading::default(), Window { cwnd: 1.0, ssthresh: f64::INFINITY });
                s.on_established(&mut w, first, &config);
                assert_eq!((w.cwnd, s.initial_window(&config), s.release_at(ms(0))), (due, due, None));
            }
        }
    }

    #[test]
    fn a_loss_ends_it() {
        let (mut s, config) = ready(10, Duration::from_millis(100));
        s.on_sent(ms(0), &config);
        assert_eq!(s.release_at(ms(1)), Some(ms(10)));
        s.on_loss();
        assert_eq!(s.release_at(ms(1)), None);
    }
}
