//! The bottleneck, told from what passed a capture: its rate, and how long its queue made packets wait.

use narrows_diagnose::Counts;

use super::collect::{Collector, Meter, TimedAnswer};
use super::measure::{loss, quantile};

/// Share of the windows in which a link that is often full carries nine tenths of its rate.
const OFTEN_FULL: f64 = 0.3;
/// This quantile of the windows is of a full link, if it is often full, and above it lie the bursts: of receivers that
/// give their data up late, and of a queue that is emptied at once when a box ends.
const FULL: f64 = 0.9;
/// Share of a rate that a window must carry to count as near the rate.
const NEAR: f64 = 0.9;
/// Seconds of a window before a queue: what receivers hold back until a hole is filled is then of no account.
const WINDOW_S: usize = 10;
/// Seconds of a window behind a queue, where all that was sent passes.
const WINDOW_BEHIND_S: usize = 1;

/// Thin link as found in a capture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// The direction in which it is thin: 0 from the openers, 1 towards them.
    pub way: usize,
    /// Whether the capture was taken before the link's queue.
    pub before: bool,
    /// IP packets, bit/s.
    pub rate_bps: f64,
    /// Share of windows in which the link carried nine tenths of `rate_bps`.
    pub full: f64,
    /// Wait of a packet that finds the queue full, in seconds; `None` if the wait cannot be told.
    pub queue_s: Option<f64>,
    /// Length of a full packet, and the mean length of packets with data, in bytes.
    pub packet: u64,
    pub mean: f64,
}

impl Link {
    /// Fits the link; nothing if no data passed.
    pub fn of(c: &Collector) -> Option<Self> {
        let way = usize::from(c.meters[1].payload > c.meters[0].payload);
        let counts = &c.counts[way];
        Self::seen(c, way, counts.lost_behind >= counts.lost_before)
    }

    /// Fits the link where its thin direction and the side of its queue that was captured are known.
    pub fn seen(c: &Collector, way: usize, before: bool) -> Option<Self> {
        let meter = &c.meters[way];
        if meter.payload == 0 {
            return None;
        }
        let (rate_bps, full) = if before {
            sustained(&delivered(meter, &c.counts[way], c.lacks_sack()), WINDOW_S)
        } else {
            sustained(&passed(meter), WINDOW_BEHIND_S)
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

/// Bytes of IP packets by seconds that went through a queue, as they are told before it: what was acknowledged and what
/// came twice, with headers. A copy that no receiver tells of was dropped. Bare packets and what is not TCP are never
/// acknowledged: as great a share of them is lost as of data.
fn delivered(meter: &Meter, counts: &Counts, lacks_sack: bool) -> Vec<f64> {
    let headers = meter.bytes as f64 / meter.payload.max(1) as f64;
    let passes = 1.0 - loss(counts).min(1.0);
    // Without SACK there are no DSACKs.
    let again = if lacks_sack { passes * counts.spurious as f64 / counts.data.max(1) as f64 } else { 0.0 };
    let data = |n| (at(&meter.acked, n) * (1.0 + again) + at(&meter.twice, n)) * headers;
    let rest = |n| (at(&meter.bare, n) + at(&meter.other, n)) * passes;
    (0..seconds([&meter.acked, &meter.bare, &meter.other])).map(|n| data(n) + rest(n)).collect()
}

/// Bytes of IP packets by seconds, behind the queue.
fn passed(meter: &Meter) -> Vec<f64> {
    (0..seconds([&meter.passed, &meter.passed, &meter.other]))
        .map(|n| at(&meter.passed, n) + at(&meter.other, n))
        .collect()
}

fn at(bins: &[u64], n: usize) -> f64 {
    bins.get(n).copied().unwrap_or(0) as f64
}

/// Seconds of the longest of three series.
fn seconds(bins: [&Vec<u64>; 3]) -> usize {
    bins.iter().map(|b| b.len()).max().unwrap_or(0)
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
    let near = |rate: f64| sums.len() - sums.partition_point(|s| *s < NEAR * rate);
    let high = quantile(&sums, FULL);
    let rate = quantile(&sums[sums.len() - near(high)..], 0.5);
    (rate, near(rate) as f64 / sums.len().max(1) as f64)
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

    /// At its end the box gives away what it holds: a second of three times the rate.
    #[test]
    fn the_rate_is_that_of_full_windows_whatever_bursts_there_are() {
        let mut bytes = vec![125_000.0; 40];
        bytes[0] = 900_000.0;
        bytes[39] = 3.0;
        bytes[5] = 0.0;
        bytes[37] = 375_000.0;
        bytes[38] = 300_000.0;
        let (rate, full) = sustained(&bytes, 1);
        assert!((rate - 1e6).abs() < 1.0 && (full - 37.0 / 38.0).abs() < 1e-9, "{rate} {full}");
        assert_eq!(sustained(&[], 10), (0.0, 0.0));
    }

    #[test]
    fn half_of_the_time_is_enough_and_a_fifth_is_a_guess() {
        let full_for = |n: usize| {
            let bytes: Vec<f64> = (0..102).map(|s| if s < n { 125_000.0 } else { 10_000.0 }).collect();
            sustained(&bytes, 1)
        };
        let (rate, full) = full_for(50);
        assert!((rate - 1e6).abs() < 1.0 && full >= OFTEN_FULL, "{rate} {full}");
        assert!(full_for(20).1 < OFTEN_FULL);
    }

    /// 1000 of 1040 bytes are payload. A tenth of the data is repaired, so that 90 of 100 bare bytes pass.
    #[test]
    fn copies_count_where_receivers_tell_of_them() {
        let meter = Meter {
            acked: vec![50_000],
            twice: vec![1_000],
            bare: vec![100],
            payload: 1000,
            bytes: 1040,
            ..Meter::default()
        };
        let counts = Counts { data: 90, again: 10, lost_behind: 10, spurious: 45, ..Counts::default() };
        let with = delivered(&meter, &counts, false);
        assert!((with[0] - (51_000.0 * 1.04 + 90.0)).abs() < 1e-6, "{with:?}");
        let without = delivered(&Meter { twice: Vec::new(), ..meter }, &counts, true);
        assert!((without[0] - (50_000.0 * 1.04 * (1.0 + 0.9 * 0.5) + 90.0)).abs() < 1e-6, "{without:?}");
    }
}
