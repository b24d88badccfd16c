//! A drop-tail queue that is fed what a capture before it has seen: how many packets it must hold, and what link it
//! must have, for the round trips that were measured at the same time. Round trips without queue follow from that too,
//! where the queue was never empty.

use super::collect::{Arrival, Collector};

/// Sizes that are tried first, packets.
const SIZES: [u32; 16] = [4, 6, 8, 11, 15, 20, 27, 36, 50, 70, 100, 140, 200, 300, 500, 1000];
/// Second search: sizes up to this part below and above the best one, in `STEPS` steps.
const NEAR: f64 = 0.35;
const STEPS: u32 = 20;
/// Rates are tried up to this part above and below the observed one, in so many steps up and down, first and then.
/// Which packets find the queue full depends on the rate to less than a thousandth.
const RATES: f64 = 0.025;
const RATE_STEPS: [i32; 2] = [4, 50];
/// Most answers and arrivals of a capture with which the queue is tried.
const MOST: usize = 60_000;
/// Least number of answers that a fit needs.
const LEAST: usize = 100;
/// Least share of the answers' variation that a fit explains.
const EXPLAINS: f64 = 0.5;

/// Queue that explains the round trips best.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueFit {
    pub rate_bps: f64,
    pub packets: u32,
    /// Answers of each user's side behind the queue without it, seconds, by place.
    pub bare: Vec<Option<f64>>,
}

/// An answer: whose, how long it took, and how many packets had arrived when what it answers did.
struct Sample {
    place: usize,
    seconds: f64,
    arrivals: usize,
}

/// Fits a queue; nothing if none explains the round trips. A rate that is `certain` is not changed.
pub fn fit(c: &Collector, way: usize, rate_bps: f64, certain: bool) -> Option<QueueFit> {
    let all = &c.arrivals[way];
    let arrivals = &all[..all.len().min(MOST)];
    let samples = samples(c, 1 - way, arrivals);
    if samples.len() < LEAST {
        return None;
    }
    let users = c.trips.len();
    let zeros = vec![0.0; samples.len()];
    let (without, _) = spread(&samples, &zeros, users);
    let tried = |packets: u32, rate_bps: f64| {
        let waits = waits(arrivals, &samples, rate_bps, packets as usize);
        let (left, bare) = spread(&samples, &waits, users);
        (left, QueueFit { rate_bps, packets, bare })
    };
    let best = |sizes: &[u32], rates: &[f64]| {
        let all = sizes.iter().flat_map(|n| rates.iter().map(|rate| tried(*n, *rate)));
        all.min_by(|(a, _), (b, _)| a.total_cmp(b))
    };
    let rates = |steps: i32| -> Vec<f64> {
        let steps = if certain { 0 } else { steps };
        (-steps..=steps).map(|n| rate_bps * (1.0 + RATES * f64::from(n) / f64::from(steps.max(1)))).collect()
    };
    let (_, coarse) = best(&SIZES, &rates(RATE_STEPS[0]))?;
    let (left, found) = best(&around(coarse.packets), &rates(RATE_STEPS[1]))?;
    (left < (1.0 - EXPLAINS) * without).then_some(found)
}

/// Sizes from below `packets` to above `packets`, in packets, and `packets` itself.
fn around(packets: u32) -> Vec<u32> {
    let reach = ((f64::from(packets) * NEAR) as u32).max(1);
    let step = (2 * reach).div_ceil(STEPS);
    let below = (1..).map(|n| n * step).take_while(|d| *d <= reach).filter_map(|d| packets.checked_sub(d));
    let above = (0..).map(|n| n * step).take_while(|d| *d <= reach).map(|d| packets + d);
    below.chain(above).collect()
}

fn samples(c: &Collector, side: usize, arrivals: &[Arrival]) -> Vec<Sample> {
    let end = arrivals.last().map_or(0.0, |a| a.at_s);
    let kept = c.answers[0][side].iter().filter(|a| a.sent_s <= end).take(MOST);
    let sample = |a: &super::collect::TimedAnswer| Sample {
        place: a.place as usize,
        seconds: f64::from(a.seconds),
        arrivals: arrivals.partition_point(|arrival| arrival.at_s <= a.sent_s),
    };
    let mut all: Vec<Sample> = kept.map(sample).collect();
    all.sort_by_key(|s| s.arrivals);
    all
}

/// Wait of each sample's packet, its own transmission without that of a bare packet included.
fn waits(arrivals: &[Arrival], samples: &[Sample], rate_bps: f64, limit: usize) -> Vec<f64> {
    // When each packet that is in the queue will have left.
    let mut queue: std::collections::VecDeque<f64> = std::collections::VecDeque::new();
    let mut waits = Vec::with_capacity(samples.len());
    let mut of = samples.iter().peekable();
    for (n, arrival) in arrivals.iter().enumerate() {
        while queue.front().is_some_and(|left| *left <= arrival.at_s) {
            queue.pop_front();
        }
        let free = queue.back().copied().unwrap_or(arrival.at_s).max(arrival.at_s);
        // The packet on the wire has left the queue.
        if queue.len() <= limit {
            queue.push_back(free + f64::from(arrival.bytes) * 8.0 / rate_bps);
        }
        let behind = queue.back().copied().unwrap_or(arrival.at_s) - arrival.at_s;
        while of.next_if(|s| s.arrivals <= n + 1).is_some() {
            waits.push(behind);
        }
    }
    waits.resize(samples.len(), 0.0);
    waits
}

/// Mean distance of answers without their waits from the median of their user; and these medians.
fn spread(samples: &[Sample], waits: &[f64], users: usize) -> (f64, Vec<Option<f64>>) {
    let mut of: Vec<Vec<f64>> = vec![Vec::new(); users];
    for (sample, wait) in samples.iter().zip(waits) {
        of[sample.place].push(sample.seconds - wait);
    }
    let (mut sum, mut count) = (0.0, 0);
    let middle = |all: &mut Vec<f64>| {
        all.sort_by(f64::total_cmp);
        let middle = *all.get(all.len() / 2)?;
        sum += all.iter().map(|s| (s - middle).abs()).sum::<f64>();
        count += all.len();
        Some(middle.max(0.0))
    };
    let bare = of.iter_mut().map(middle).collect();
    (sum / f64::from(count.max(1) as u32), bare)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::extras::what_if::collect::{TimedAnswer, Trips};

    /// Bursts into a queue of 20 packets at 1 Mbit/s whose receivers answer after 30 ms: what passes it, by hand.
    #[test]
    fn a_queue_is_told_by_who_waited() {
        let mut c = Collector::default();
        c.trips.push(Trips { least: [0.03; 2], answers: [1000; 2] });
        let (mut free, mut queue) = (0.0_f64, Vec::<f64>::new());
        for n in 0..20_000_u32 {
            // Ten packets of 8 ms each 60 ms, and for a second in five a fifth more of them.
            let (burst, place) = (n / 10, n % 10);
            let hurry = if (burst / 16) % 5 == 0 { 0.6 } else { 1.45 };
            let at_s = c.arrivals[1].last().map_or(0.0, |a: &Arrival| a.at_s);
            let at_s = if place == 0 { at_s + 0.08 * hurry } else { at_s + 1e-5 };
            c.arrivals[1].push(Arrival { at_s, bytes: 1000 });
            queue.retain(|left| *left > at_s);
            if queue.len() <= 20 {
                free = free.max(at_s) + 0.008;
                queue.push(free);
                let seconds = (free - at_s + 0.03) as f32;
                c.answers[0][0].push(TimedAnswer { place: 0, seconds, sent_s: at_s });
            }
        }
        let fit = fit(&c, 1, 1.004e6, false).unwrap();
        assert!((18..=22).contains(&fit.packets), "{fit:?}");
        assert!((fit.bare[0].unwrap() - 0.03).abs() < 0.005, "{fit:?}");
        // Answers that have nothing to do with arrivals tell of no queue.
        for (n, answer) in c.answers[0][0].iter_mut().enumerate() {
            answer.seconds = (n * 7919 % 1000) as f32 / 5000.0;
        }
        assert_eq!(super::fit(&c, 1, 1.004e6, false), None);
    }
}
