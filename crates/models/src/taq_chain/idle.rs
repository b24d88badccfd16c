//! How long a flow waits: for one timer, and until something gets through again.

use super::Stationary;

/// Waits of an open stage are followed to this one: 2^1000 epochs are beyond any use.
const OPEN_STAGES: u32 = 900;
/// Retransmissions lost in a row, in one silence, that are followed.
const LOST_IN_A_ROW: usize = 2_000;

impl Stationary {
    /// Waits for one timer: idle epochs, and how many of them begin per epoch; an open stage as the waits it stands for.
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
        quantile_of(self.waits().into_iter(), quantile)
    }

    /// The same, each wait counted as often as it is long: of the silent flows seen at a moment, a share `quantile` are in a wait
    /// that is no longer in all.
    #[must_use]
    pub fn idle_quantile_by_time(&self, quantile: f64) -> f64 {
        quantile_of(self.waits().into_iter().map(|(idle, visits)| (idle, idle * visits)), quantile)
    }

    /// Probability that a flow sends nothing in `epochs` epochs in a row that begin at a moment not chosen by the flow: a wait of
    /// `L` epochs holds `L - epochs + 1` such beginnings.
    #[must_use]
    pub fn silent_in_a_row(&self, epochs: u32) -> f64 {
        if epochs == 0 {
            return 1.0;
        }
        let before = f64::from(epochs) - 1.0;
        self.waits().iter().map(|(idle, visits)| visits * (idle - before).max(0.0)).sum()
    }

    /// Times in which nothing gets through; none for a chain whose last stage is open, since the paper does not say how its
    /// waits follow each other.
    #[must_use]
    pub fn silences(&self) -> Option<Silences> {
        if self.stages.iter().any(|s| s.open) {
            return None;
        }
        Some(Silences::of(self))
    }
}

/// The value at which the weights of a sorted list reach a share `quantile` of all.
fn quantile_of(list: impl Iterator<Item = (f64, f64)> + Clone, quantile: f64) -> f64 {
    let total: f64 = list.clone().map(|(_, weight)| weight).sum();
    let mut sum = 0.0;
    let mut value = 0.0;
    for (length, weight) in list {
        if weight > 0.0 {
            value = length;
        }
        sum += weight;
        if sum >= quantile * total {
            break;
        }
    }
    value
}

/// Times in which nothing of a flow gets through: from a loss that the timer has to repair to the first retransmission that
/// arrives. Longer than an idle time, because retransmissions get lost too: `2^k T0 + 2^(k+1) T0 + ..` epochs.
#[derive(Clone, Debug, PartialEq)]
pub struct Silences {
    /// Length in epochs and beginnings per epoch, sorted by length.
    list: Vec<(f64, f64)>,
}

impl Silences {
    fn of(chain: &Stationary) -> Self {
        let p = chain.loss;
        let q = 1.0 - p;
        let ends = chain.settings.memory.ends(q);
        let last = chain.stages.len() - 1;
        // A retransmission that arrives ends a silence; the next begins a stage higher if the windows with memory fail.
        let again = |k: usize| chain.stages[k].first * (q - ends);
        let mut list = Vec::new();
        for k in 0..=last {
            let mut begun = if k == 0 { chain.timeouts_per_epoch() * ends } else { again(k - 1) };
            if k == last {
                begun += again(last);
            }
            let (mut length, mut share) = (0.0, begun);
            for stage in (k..).take(LOST_IN_A_ROW) {
                length += chain.stages[stage.min(last)].timer_epochs;
                list.push((length, share * q));
                share *= p;
                if share <= 1e-12 * begun {
                    break;
                }
            }
        }
        list.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self { list }
    }

    /// Silences that begin per epoch.
    #[must_use]
    pub fn per_epoch(&self) -> f64 {
        self.list.iter().map(|(_, rate)| rate).sum()
    }

    /// Their mean length, epochs; 0 if there are none.
    #[must_use]
    pub fn mean_epochs(&self) -> f64 {
        let rate = self.per_epoch();
        if rate > 0.0 {
            self.list.iter().map(|(length, rate)| length * rate).sum::<f64>() / rate
        } else {
            0.0
        }
    }

    /// Length that a share `quantile` of them does not exceed, epochs.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> f64 {
        quantile_of(self.list.iter().copied(), quantile)
    }

    /// The same, each counted as often as it is long, as whoever looks at a moment meets it.
    #[must_use]
    pub fn quantile_by_time(&self, quantile: f64) -> f64 {
        quantile_of(self.list.iter().map(|&(length, rate)| (length, length * rate)), quantile)
    }

    /// Share of flows to which nothing has come for `epochs` epochs at a moment, which is also the share of slices of that length
    /// in which a flow gets nothing: the sum over silences of rate times `(length - epochs)`, where that is positive.
    #[must_use]
    pub fn longer_than(&self, epochs: f64) -> f64 {
        self.list.iter().map(|(length, rate)| rate * (length - epochs).max(0.0)).sum()
    }
}
