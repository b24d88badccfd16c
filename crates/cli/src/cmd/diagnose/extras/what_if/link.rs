//! The bottleneck, told from what passed a capture: its rate, and how long its queue made packets wait.

use super::collect::{Collector, Meter, TimedAnswer};
use super::measure::{loss, quantile};

/// Of a link that is full most of the time, so many of the windows carry nine tenths of what the best one does.
const OFTEN_FULL: f64 = 0.3;
/// A link is often full if the best quarter of the windows carry this share of the most.
const SUSTAINED: f64 = 0.8;
/// Seconds of a window before a queue: what receivers hold back until a hole is filled is then of no account.
const WINDOW_S: usize = 10;
/// The same behind it, where what passes is what was sent.
const WINDOW_BEHIND_S: usize = 1;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// The direction in which it is thin: 0 from the openers, 1 towards them.
    pub way: usize,
    /// The capture was taken before its queue.
    pub before: bool,
    /// IP packets, bit/s.
    pub rate_bps: f64,
    /// The share of windows in which it carried nine tenths of that.
    pub full: f64,
    /// How long a packet waits when the queue is full, seconds, if it can be told.
    pub queue_s: Option<f64>,
    /// Bytes of a full packet, and of those with data on average.
    pub packet: u64,
    pub mean: f64,
}

impl Link {
    /// Nothing if no data passed.
    pub fn of(c: &Collector) -> Option<Self> {
        let way = usize::from(c.meters[1].payload > c.meters[0].payload);
        let meter = &c.meters[way];
        if meter.payload == 0 {
            return None;
        }
        let counts = &c.counts[way];
        let before = counts.lost_behind >= counts.lost_before;
        let (rate_bps, full) = if before {
            let again = 1.0 + counts.spurious as f64 / counts.data.max(1) as f64;
            sustained(&delivered(meter, again), WINDOW_S)
        } else {
            let passed: Vec<f64> = meter.passed.iter().map(|b| *b as f64).collect();
            sustained(&passed, WINDOW_BEHIND_S)
        };
        let mean = meter.bytes as f64 / meter.packets.max(1) as f64;
        Some(Self {
            way,
            before,
            rate_bps,
            full,
            queue_s: queue(c, way, before),
            packet: meter.longest.clamp(100, 1500),
            mean: mean.min(1500.0),
        })
    }

    /// Whether the rate is no more than a guess: the link was seldom full.
    pub fn is_guess(&self) -> bool {
        self.full < OFTEN_FULL
    }

    /// Loss in the thin direction.
    pub fn loss(&self, c: &Collector) -> f64 {
        loss(&c.counts[self.way])
    }
}

/// Bytes of IP packets that went through, by seconds: what was acknowledged, with its headers and what came twice.
fn delivered(meter: &Meter, again: f64) -> Vec<f64> {
    let headers = meter.bytes as f64 / meter.payload.max(1) as f64;
    let seconds = meter.acked.len().max(meter.bare.len());
    let at = |bins: &[u64], n: usize| bins.get(n).copied().unwrap_or(0) as f64;
    (0..seconds).map(|n| at(&meter.acked, n) * headers * again + at(&meter.bare, n)).collect()
}

/// The rate that is sustained over windows, bit/s, and the share of windows near it. Neither the first nor the last
/// second is whole.
fn sustained(bytes: &[f64], window: usize) -> (f64, f64) {
    let whole = match bytes {
        [_, whole @ .., _] if whole.len() > 2 => whole,
        all => all,
    };
    let window = window.min(whole.len().div_ceil(4)).max(1);
    let rate_of = |w: &[f64]| w.iter().sum::<f64>() * 8.0 / window as f64;
    let mut sums: Vec<f64> = whole.windows(window).map(rate_of).collect();
    sums.sort_by(f64::total_cmp);
    // The best of many windows is above the rate where receivers gave their data up late; of those in which the link
    // was about full the one in the middle is not.
    let (often, most) = (quantile(&sums, 0.75), quantile(&sums, 1.0));
    let rate = if often > SUSTAINED * most {
        quantile(&sums[sums.partition_point(|s| *s < 0.9 * often)..], 0.5)
    } else {
        most
    };
    let near = sums.iter().filter(|s| **s > 0.9 * rate).count();
    (rate, near as f64 / sums.len().max(1) as f64)
}

/// How long the queue made answers wait: what all but one in fifty took beyond the least of their user. Before
/// the queue it is the receivers' side that waits; behind it the senders', of which handshakes and timestamps tell, the
/// latter also of data that a timer sent.
fn queue(c: &Collector, way: usize, before: bool) -> Option<f64> {
    let side = if before { 1 - way } else { way };
    let beyond = |echoes: usize| -> Vec<f64> {
        let over = |answer: &TimedAnswer| {
            let trips = c.trips[answer.place as usize];
            // The only answer is the least, too.
            (trips.answers[side] >= 3).then(|| f64::from(answer.seconds - trips.least[side]))
        };
        let mut all: Vec<f64> = c.answers[echoes][side].iter().filter_map(over).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let at_once = beyond(0);
    if before || at_once.len() >= 100 {
        return (at_once.len() >= 10).then(|| quantile(&at_once, 0.98));
    }
    let echoed = beyond(1);
    (echoed.len() >= 10).then(|| quantile(&echoed, 0.75))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_window_counts_and_the_ends_do_not() {
        let mut bytes = vec![125_000.0; 20];
        bytes[0] = 900_000.0;
        bytes[19] = 3.0;
        bytes[5] = 0.0;
        let (rate, full) = sustained(&bytes, 1);
        assert!((rate - 1e6).abs() < 1.0 && (full - 17.0 / 18.0).abs() < 1e-9, "{rate} {full}");
        assert_eq!(sustained(&[], 10), (0.0, 0.0));
    }
}
