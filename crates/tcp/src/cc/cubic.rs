//! CUBIC (Ha, Rhee, Xu 2008; RFC 9438): the window is a cubic function of the time since the last loss. It is flat
//! near the window at which that loss came, and never smaller than Reno's.
//!
//! Equations are numbered as in RFC 9438; windows are in segments, times in seconds. Floats are used only with + - *
//! /, and the cube root is our own, so that a run gives the same bytes on every machine. Left out: undoing a
//! reduction that proves spurious (section 4.9). HyStart++ (section 4.10) is a start-up of its own.

use narrows_units::{Duration, Instant};

use super::{AckSample, CongestionControl, Window};
use crate::Config;

/// How aggressively the window grows, segments per second cubed (section 5.1).
const C: f64 = 0.4;
/// The share that a loss leaves (section 4.6).
const BETA: f64 = 0.7;
/// The increase of the Reno-friendly window per round trip. With this one and BETA it has Reno's average (section
/// 4.3): 3 (1 - BETA) / (1 + BETA).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// RFC 9438.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cubic {
    /// The window just before the last reduction, or less by fast convergence; 0 before the first.
    w_max: f64,
    /// The window just before the last reduction.
    cwnd_prior: f64,
    /// The window that Reno would have.
    w_est: f64,
    /// The time from the beginning of the current stage to the plateau, seconds.
    k: f64,
    /// The current stage of congestion avoidance: when it began, and its last ACK.
    epoch: Option<(Instant, Instant)>,
}

impl Cubic {
    /// Equation 1.
    fn w_cubic(&self, t: f64) -> f64 {
        let d = t - self.k;
        C * d * d * d + self.w_max
    }

    /// A stage of congestion avoidance begins with the window `cwnd` (section 4.2).
    fn begin(&mut self, cwnd: f64, now: Instant) {
        if cwnd < self.w_max {
            // Equation 2.
            self.k = cube_root((self.w_max - cwnd) / C);
        } else {
            // The plateau is here after a time-out, or after a start-up without loss (sections 4.8 and 4.10).
            self.k = 0.0;
            self.w_max = cwnd;
        }
        self.w_est = cwnd;
        self.epoch = Some((now, now));
    }

    /// Time for which this stage has lasted. Time in which the window was not used does not count (section 5.8). A
    /// sender that uses its window gets an ACK at least once per round trip, so a longer gap counts as one round trip.
    fn elapsed(&mut self, cwnd: f64, now: Instant, srtt: Duration) -> Duration {
        let Some((began, last)) = self.epoch else {
            self.begin(cwnd, now);
            return Duration::ZERO;
        };
        let began = began + now.since(last).saturating_sub(srtt);
        self.epoch = Some((began, now));
        now.since(began)
    }

    /// Equation 5, and fast convergence (section 4.7): a flow whose window had not yet recovered makes room for others.
    fn reduce(&mut self, window: &mut Window, base: f64) {
        self.w_max = if window.cwnd < self.w_max { window.cwnd * (1.0 + BETA) / 2.0 } else { window.cwnd };
        self.cwnd_prior = window.cwnd;
        self.epoch = None;
        window.ssthresh = base * BETA;
    }
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, window: &mut Window, _config: &Config, sample: &AckSample) {
        let t = self.elapsed(window.cwnd, sample.now, sample.srtt).as_secs_f64();
        // Equation 4, with Reno's own slope once the window is where the last loss came.
        let alpha = if self.w_est < self.cwnd_prior { ALPHA } else { 1.0 };
        self.w_est += alpha * sample.credit / window.cwnd;
        if self.w_cubic(t) < self.w_est {
            // Reno-friendly region (section 4.3).
            window.cwnd = window.cwnd.max(self.w_est);
            return;
        }
        // Concave and convex regions (sections 4.4 and 4.5): the curve one RTT later, but at most 1.5 times the window.
        let target = self.w_cubic(t + sample.srtt.as_secs_f64()).clamp(window.cwnd, 1.5 * window.cwnd);
        window.cwnd += (target - window.cwnd) / window.cwnd * sample.credit;
    }
    fn on_loss(&mut self, window: &mut Window, _config: &Config, _now: Instant, base: f64) {
        self.reduce(window, base);
    }
    fn on_rto(&mut self, window: &mut Window, _config: &Config, _now: Instant, base: f64) {
        self.reduce(window, base);
        // The next stage begins on its own plateau (section 4.8).
        self.w_max = 0.0;
    }
}

/// The cube root of a number that is not negative, by Newton's method. The first guess is within a factor of two, and
/// after six steps the error is in the last bits of an `f64`.
fn cube_root(a: f64) -> f64 {
    if a <= 0.0 {
        return 0.0;
    }
    let (mut reduced, mut scale) = (a, 1.0);
    while reduced > 8.0 {
        reduced /= 8.0;
        scale *= 2.0;
    }
    while reduced < 1.0 {
        reduced *= 8.0;
        scale /= 2.0;
    }
    let mut x = 1.5;
    for _ in 0..6 {
        x = (2.0 * x + reduced / (x * x)) / 3.0;
    }
    x * scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::tests::sample;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * b.abs().max(1.0)
    }

    /// CUBIC in slow start, with a window of `cwnd` segments.
    fn begun(cwnd: f64) -> (Cubic, Window) {
        (Cubic::default(), Window { cwnd, ssthresh: 2.0 * cwnd })
    }

    #[test]
    fn cube_roots() {
        for (a, root) in [
            (0.0, 0.0),
            (1.0, 1.0),
            (8.0, 2.0),
            (27.0, 3.0),
            (1e-3, 0.1),
            (1e18, 1e6),
            (75.0, 4.217163326508746),
        ] {
            assert!((cube_root(a) - root).abs() <= 4.0 * f64::EPSILON * root, "{a}: {}", cube_root(a));
        }
    }

    #[test]
    fn the_curve_of_a_loss_at_a_hundred() {
        // A loss at 100 leaves 70; K = cbrt(30 / 0.4) = 4.217 s (equation 2), W(0) = 70, W(K) = 100 (equation 1).
        let (mut c, mut w) = begun(100.0);
        c.on_loss(&mut w, &Config::default(), Instant::ZERO, 100.0);
        assert!(near(w.ssthresh, 70.0));
        c.begin(70.0, Instant::ZERO);
        assert!(near(c.k, 4.217163326508746) && near(c.w_cubic(0.0), 70.0) && near(c.w_cubic(c.k), 100.0));
        // One second: 100 - 0.4 * 3.217163^3 = 86.6808; one second past the plateau: 100.4.
        assert!((c.w_cubic(1.0) - 86.6808).abs() < 1e-4, "{}", c.w_cubic(1.0));
        assert!(near(c.w_cubic(c.k + 1.0), 100.4));
    }

    #[test]
    fn each_ack_goes_its_share_of_the_way() {
        // Section 4.4 at t = 1 s with an RTT of 0.1 s: the target is 100 - 0.4 * 3.117163^3 = 87.884; from 80, one
        // ACK adds (87.884 - 80) / 80 = 0.09855.
        let mut c = Cubic { w_max: 100.0, cwnd_prior: 100.0, ..Cubic::default() };
        c.begin(70.0, Instant::ZERO);
        c.epoch = Some((Instant::ZERO, Instant::from_nanos(950_000_000)));
        let mut w = Window { cwnd: 80.0, ssthresh: 70.0 };
        c.on_ack(&mut w, &Config::default(), &sample(1_000, 1.0));
        assert!((w.cwnd - 80.09855).abs() < 1e-4, "{}", w.cwnd);
        // The target is at most half as much again: far behind the curve an ACK adds 1/2.
        let mut w = Window { cwnd: 10.0, ssthresh: 10.0 };
        c.on_ack(&mut w, &Config::default(), &sample(1_000, 1.0));
        assert!(near(w.cwnd, 10.5), "{}", w.cwnd);
    }

    #[test]
    fn never_below_reno() {
        // Section 4.3 with a small window: 10 -> 7, K = 1.957 s; after a round of 7 ACKs at 100 ms the curve is at
        // 7.37 - less than 7 + 0.529 - so the Reno-like estimate rules: 7 * 1 ACK each 0.529 / 7.
        let (mut c, mut w) = begun(10.0);
        c.on_loss(&mut w, &Config::default(), Instant::ZERO, 10.0);
        w.cwnd = 7.0;
        for _ in 0..7 {
            c.on_ack(&mut w, &Config::default(), &sample(0, 1.0));
        }
        let alpha = 3.0 * 0.3 / 1.7;
        assert!(w.cwnd > 7.0 + 0.9 * alpha && w.cwnd <= 7.0 + alpha, "{}", w.cwnd);
        // From where the last loss came on it grows as Reno: one segment a round (alpha = 1).
        c.w_est = 10.0;
        w.cwnd = 10.0;
        c.on_ack(&mut w, &Config::default(), &sample(0, 1.0));
        assert!(near(c.w_est, 10.1) && near(w.cwnd, 10.1));
    }

    #[test]
    fn fast_convergence() {
        // Section 4.7: 100, then 80 before coming back: the plateau is 80 * 1.7 / 2 = 68; from 90, above that, it is
        // 90 again.
        let mut c = Cubic::default();
        for (cwnd, w_max) in [(100.0, 100.0), (80.0, 68.0), (90.0, 90.0)] {
            let mut w = Window { cwnd, ssthresh: 0.0 };
            c.on_loss(&mut w, &Config::default(), Instant::ZERO, cwnd);
            assert!(near(c.w_max, w_max) && near(c.cwnd_prior, cwnd) && near(w.ssthresh, 0.7 * cwnd));
        }
    }

    #[test]
    fn after_a_timeout_the_plateau_is_where_avoidance_begins() {
        let (mut c, mut w) = begun(100.0);
        c.on_rto(&mut w, &Config::default(), Instant::ZERO, 100.0);
        assert!(near(w.ssthresh, 70.0));
        w.cwnd = 70.0;
        c.on_ack(&mut w, &Config::default(), &sample(0, 1.0));
        assert!(near(c.k, 0.0) && near(c.w_max, 70.0));
    }

    #[test]
    fn idle_time_does_not_count() {
        // Section 5.8: 10 s without an ACK at an RTT of 100 ms count as 100 ms.
        let mut c = Cubic { w_max: 100.0, ..Cubic::default() };
        let srtt = Duration::from_millis(100);
        c.begin(70.0, Instant::ZERO);
        assert_eq!(c.elapsed(70.0, Instant::from_nanos(50_000_000), srtt), Duration::from_millis(50));
        assert_eq!(c.elapsed(70.0, Instant::from_nanos(10_050_000_000), srtt), Duration::from_millis(150));
    }
}
