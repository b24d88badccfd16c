//! How long a flow waits: for one timer, and until something gets through again.

use super::{Stage, Stationary};

/// Doublings through which the waits of an open stage are followed.
const OPEN_STAGES: u32 = 900;

impl Stationary {
    /// Waits for one timer: idle epochs, and how many of them begin per epoch; an open stage as the waits it stands
    /// for.
    fn waits(&self) -> Vec<(f64, f64)> {
        let mut waits = Vec::new();
        for stage in &self.stages {
            let mut timer = stage.timer_epochs;
            let mut visits = stage.first;
            if !stage.open {
                waits.push((timer - 1.0, visits));
                continue;
            }
            visits *= 1.0 - self.loss;
            for _ in 0..OPEN_STAGES {
                waits.push((timer - 1.0, visits));
                if visits * timer <= 1e-18 * stage.idle {
                    break;
                }
                visits *= self.loss;
                timer *= 2.0;
            }
        }
        waits.sort_by(|a, b| a.0.total_cmp(&b.0));
        waits
    }

    /// Mean idle epochs of a timeout; 0 if there are none.
    #[must_use]
    pub fn mean_idle_epochs(&self) -> f64 {
        if self.sent[1] > 0.0 { self.sent[0] / self.sent[1] } else { 0.0 }
    }

    /// Idle epochs that a share `quantile` of the timeouts do not exceed.
    #[must_use]
    pub fn idle_quantile(&self, quantile: f64) -> f64 {
        quantile_of(self.waits().into_iter(), quantile * self.sent[1])
    }

    /// Idle epochs of a timeout's wait that a share `quantile` of the silent flows at a moment do not exceed, so each
    /// wait counts as often as it is long. In an open stage close to `p = 1/2` waits are endless; a length beyond 2^900
    /// T0 is given as 2^900 T0.
    #[must_use]
    pub fn idle_quantile_by_time(&self, quantile: f64) -> f64 {
        let by_time = self.waits().into_iter().map(|(idle, visits)| (idle, idle * visits));
        quantile_of(by_time, quantile * self.sent[0])
    }

    /// Probability that a flow sends nothing in `epochs` epochs in a row that begin at a moment not chosen by the flow:
    /// a wait of `L` epochs holds `L - epochs + 1` such beginnings.
    #[must_use]
    pub fn silent_in_a_row(&self, epochs: u32) -> f64 {
        if epochs == 0 {
            return 1.0;
        }
        let least = f64::from(epochs);
        let p = self.loss;
        let of = |stage: &Stage| {
            let mut timer = stage.timer_epochs;
            if !stage.open {
                return stage.first * (timer - least).max(0.0);
            }
            // The waits of an open stage from the first that is long enough: sum of p^j q (2^j timer - least).
            let mut share = 1.0;
            while timer < least {
                timer *= 2.0;
                share *= p;
            }
            stage.first * share * (timer * (1.0 - p) / (1.0 - 2.0 * p) - least)
        };
        self.stages.iter().map(of).sum()
    }

    /// Times in which nothing gets through; none for a chain whose last stage is open, since the paper does not say how
    /// its waits follow each other.
    #[must_use]
    pub fn silences(&self) -> Option<Silences> {
        if self.stages.iter().any(|s| s.open) {
            return None;
        }
        Some(Silences::of(self))
    }
}

/// The value at which the weights of a sorted list reach `weight`, or the greatest; 0 if nothing weighs anything.
fn quantile_of(list: impl Iterator<Item = (f64, f64)>, weight: f64) -> f64 {
    let (mut sum, mut value) = (0.0, 0.0);
    // The sum's own error must not push the quantile of 1 or of a whole stage to the next.
    let enough = weight * (1.0 - 1e-12);
    for (length, weight) in list.filter(|(_, weight)| *weight > 0.0) {
        value = length;
        sum += weight;
        if sum >= enough {
            break;
        }
    }
    value
}

/// Times in which nothing of a flow gets through: from a loss that the timer has to repair to the first retransmission
/// that arrives. Longer than an idle time, because retransmissions get lost too: `2^k T0 + 2^(k+1) T0 + ..` epochs.
#[derive(Clone, Debug, PartialEq)]
pub struct Silences {
    rays: Vec<Ray>,
}

/// Silences of `length + i step` epochs, `rate ratio^i` of them per epoch, `i = 0, 1, ..`; one length alone has a ratio
/// of 0.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ray {
    length: f64,
    step: f64,
    rate: f64,
    ratio: f64,
}

impl Ray {
    /// Number of the ray's lengths that do not exceed `epochs`.
    fn up_to(&self, epochs: f64) -> f64 {
        match epochs - self.length {
            beyond if beyond < 0.0 => 0.0,
            beyond => (beyond / self.step).floor() + 1.0,
        }
    }

    /// Beginnings per epoch of the silences after the first `m`.
    fn rate_after(&self, m: f64) -> f64 {
        self.rate * self.ratio.powf(m) / (1.0 - self.ratio)
    }

    /// The sum of rate times `(length - epochs)` of those after the first `m`.
    fn excess_after(&self, m: f64, epochs: f64) -> f64 {
        let mean = self.length + m * self.step + self.step * self.ratio / (1.0 - self.ratio);
        self.rate_after(m) * (mean - epochs)
    }
}

impl Silences {
    fn of(chain: &Stationary) -> Self {
        let p = chain.loss;
        let q = 1.0 - p;
        let last = chain.stages.len() - 1;
        // A retransmission that arrives ends a silence; the next begins a stage higher if the windows with memory fail.
        let again = |k: usize| chain.stages[k].first * (q - chain.ends).max(0.0);
        let mut rays = Vec::new();
        for k in 0..=last {
            let mut begun = if k == 0 { chain.sent[1] * chain.ends } else { again(k - 1) };
            if k == last {
                begun += again(last);
            }
            let (mut length, mut share) = (0.0, begun);
            for (i, stage) in chain.stages.iter().enumerate().skip(k) {
                length += stage.timer_epochs;
                let ratio = if i == last { p } else { 0.0 };
                rays.push(Ray { length, step: stage.timer_epochs, rate: share * q, ratio });
                share *= p;
            }
        }
        Self { rays }
    }

    /// Silences that begin per epoch.
    #[must_use]
    pub fn per_epoch(&self) -> f64 {
        self.rays.iter().map(|ray| ray.rate_after(0.0)).sum()
    }

    /// Mean length of a silence, epochs; 0 if there are none.
    #[must_use]
    pub fn mean_epochs(&self) -> f64 {
        let rate = self.per_epoch();
        if rate > 0.0 { self.longer_than(0.0) / rate } else { 0.0 }
    }

    /// Length that a share `quantile` of the silences does not exceed, epochs; 0 if there are no silences.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> f64 {
        let all = self.per_epoch();
        self.least(|epochs| {
            let beyond: f64 = self.rays.iter().map(|ray| ray.rate_after(ray.up_to(epochs))).sum();
            beyond <= (1.0 - quantile) * all
        })
    }

    /// Length in epochs that a share `quantile` of the silences at a moment does not exceed, so each silence counts as
    /// often as it is long; 0 if there are none.
    #[must_use]
    pub fn quantile_by_time(&self, quantile: f64) -> f64 {
        let all = self.longer_than(0.0);
        self.least(|epochs| {
            let beyond: f64 = self.rays.iter().map(|ray| ray.excess_after(ray.up_to(epochs), 0.0)).sum();
            beyond <= (1.0 - quantile) * all
        })
    }

    /// Share of flows that at a moment have received nothing for `epochs` epochs; also the share of slices of that
    /// length in which a flow gets nothing: the sum over silences of rate times `(length - epochs)`, where that is
    /// positive.
    #[must_use]
    pub fn longer_than(&self, epochs: f64) -> f64 {
        self.rays.iter().map(|ray| ray.excess_after(ray.up_to(epochs), epochs)).sum()
    }

    /// The least length for which a condition holds that holds from some length on, by bisection; at most 10^18 epochs.
    fn least(&self, holds: impl Fn(f64) -> bool) -> f64 {
        if self.per_epoch() <= 0.0 {
            return 0.0;
        }
        let (mut low, mut high) = (0.0, 1.0);
        while !holds(high) && high < 1e18 {
            (low, high) = (high, 2.0 * high);
        }
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if holds(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }
}
