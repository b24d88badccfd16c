//! Initial Spreading: the initial window leaves evenly over the first round trip instead of as a burst.
//!
//! Whose: R. Sallantin, C. Baudoin, E. Chaput, F. Arnal, E. Dubois, A.-L. Beylot, "Initial spreading: a fast start-up TCP
//! mechanism" (LCN 2013) and "A TCP model for short-lived flows to validate Initial Spreading" (LCN 2014). Of a window of n
//! segments the k-th leaves (k - 1) R0 / n after the first, R0 being the round-trip time of the handshake: a SYN-ACK's after
//! its SYN at the client, the third segment's after its SYN-ACK at the server. So no two segments meet the same state of a
//! queue, and a loss leaves followers enough for three duplicate ACKs. What comes after is slow start.
//!
//! What the papers leave open, and is so here:
//! - The slots begin with the first data, whenever that comes. Data that come later take the slots that are left; one whose
//!   time has passed stays empty, and what finds none waits until R0 is over.
//! - ACKs that come meanwhile open the window, but nothing leaves before its slot.
//! - A loss (third duplicate ACK, time-out) or an ECN echo ends it: what recovery lets go goes at once.
//! - R0 / n below [`crate::StartConfig::spread_floor`] (1 ms): the window leaves as a burst.
//! - A SYN or SYN-ACK that was sent again, also with timestamps: R0 counts as unknown, the window is at most 3 and leaves at
//!   once. So it is without a handshake, unless [`crate::StartConfig::rtt`] says what to take for R0.
//! - After idling nothing is spread.

use narrows_units::{Duration, Instant};

use super::slow_start::grown;
use super::{FirstRtt, Startup};
use crate::Config;
use crate::cc::{AckSample, Window};

/// Segments of a first window about whose path nothing is known.
const BLIND_WINDOW: f64 = 3.0;

/// Initial Spreading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Spreading {
    /// No connection yet.
    #[default]
    Idle,
    /// R0 is known; nothing was sent.
    Ready(Duration),
    /// The slots' time.
    Spreads(Box<Slots>),
    /// Everything leaves as the window allows.
    Over,
    /// So it does, and the initial window is small.
    Blind,
}

/// The slots of a first window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// When the first segment left.
    first: Instant,
    /// Over which time they lie.
    r0: Duration,
    /// How many.
    n: u32,
    /// How many segments left.
    sent: u32,
    /// The first slot that is not used, from 0.
    next: u32,
}

impl Slots {
    /// The first slot that is free and not in the past, from 0; the n-th, at R0, for what finds none. `None` when all segments
    /// of the window have left, or R0 has passed.
    fn at(&self, now: Instant) -> Option<u32> {
        let elapsed = now.since(self.first);
        if self.sent >= self.n || elapsed >= self.r0 {
            return None;
        }
        // No product overflows: a round trip is bounded by the time-outs, n by the range of its key.
        let current = (elapsed * u64::from(self.n)).as_nanos().div_ceil(self.r0.as_nanos());
        Some((current as u32).max(self.next).min(self.n))
    }
}

impl Startup for Spreading {
    fn initial_window(&self, config: &Config) -> f64 {
        let window = config.initial_window.segments(config.mss);
        if *self == Self::Blind { window.min(BLIND_WINDOW) } else { window }
    }

    fn on_established(&mut self, window: &mut Window, first: FirstRtt, config: &Config) {
        *self = match first {
            FirstRtt::Is(r0) if *self != Self::Blind => {
                let n = config.initial_window.segments(config.mss) as u64;
                let apart = r0 >= config.start.spread_floor * n && r0.as_nanos() >= n;
                if n > 1 && apart { Self::Ready(r0) } else { Self::Over }
            }
            _ => Self::Blind,
        };
        if *self == Self::Blind {
            window.cwnd = self.initial_window(config);
        }
    }

    fn on_ack(&mut self, window: &mut Window, sample: &AckSample, _: &Config) {
        window.cwnd = grown(window, sample.credit);
    }

    fn on_loss(&mut self) {
        if *self != Self::Blind {
            *self = Self::Over;
        }
    }

    fn release_at(&mut self, now: Instant) -> Option<Instant> {
        let Self::Spreads(slots) = self else { return None };
        let Some(slot) = slots.at(now) else {
            *self = Self::Over;
            return None;
        };
        Some(slots.first + slots.r0 * u64::from(slot) / u64::from(slots.n))
    }

    fn on_sent(&mut self, now: Instant, config: &Config) {
        match self {
            Self::Ready(r0) => {
                let n = config.initial_window.segments(config.mss) as u32;
                *self = Self::Spreads(Box::new(Slots { first: now, r0: *r0, n, sent: 1, next: 1 }));
            }
            Self::Spreads(slots) => {
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
    use crate::{InitialWindow, Preset};

    const fn ms(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    /// Established with an R0, about to send.
    fn ready(iw: u32, r0: Duration) -> (Spreading, Config) {
        let config = Config { initial_window: InitialWindow::Segments(iw), ..Config::preset(Preset::Rfc) };
        let mut spreading = Spreading::default();
        let mut window = Window { cwnd: f64::from(iw), ssthresh: f64::INFINITY };
        spreading.on_established(&mut window, FirstRtt::Is(r0), &config);
        assert_eq!(window.cwnd, f64::from(iw));
        (spreading, config)
    }

    /// When each of so many segments leaves, from `from` on, if all are there.
    fn instants(spreading: &mut Spreading, config: &Config, from: Instant, segments: u32) -> Vec<Instant> {
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
        assert_eq!(s, Spreading::Over);
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
        assert_eq!((s.release_at(ms(100)), &s), (None, &Spreading::Over));
    }

    #[test]
    fn the_floor_and_windows_of_one() {
        // 10 segments over 10 ms are 1 ms apart, over 9.999 ms less; 0 switches the floor off.
        assert!(matches!(ready(10, Duration::from_millis(10)).0, Spreading::Ready(_)));
        assert_eq!(ready(10, Duration::from_micros(9_999)).0, Spreading::Over);
        assert_eq!(ready(1, Duration::from_millis(100)).0, Spreading::Over);
        let mut config = Config::preset(Preset::Rfc);
        config.set("spread_floor", "0s").unwrap();
        let (mut s, mut w) = (Spreading::default(), Window { cwnd: 10.0, ssthresh: f64::INFINITY });
        for (ns, spreads) in [(10, true), (9, false)] {
            s.on_established(&mut w, FirstRtt::Is(Duration::from_nanos(ns)), &config);
            assert_eq!(matches!(s, Spreading::Ready(_)), spreads, "no two slots in one nanosecond: {ns}");
        }
    }

    #[test]
    fn without_r0_three_segments_at_once() {
        for first in [FirstRtt::SynLost, FirstRtt::Unknown] {
            for (iw, due) in [(10, 3.0), (2, 2.0)] {
                let config =
                    Config { initial_window: InitialWindow::Segments(iw), ..Config::preset(Preset::Rfc) };
                let (mut s, mut w) = (Spreading::default(), Window { cwnd: 1.0, ssthresh: f64::INFINITY });
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
