//! Figures from a simulator's counters, computed here for all simulators, so that they mean the same.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// Output of a script: counters at the end of the warm-up, at the end of each slice, and at the end.
#[derive(Clone, Debug, Deserialize)]
pub struct Samples {
    /// Payload of a full segment, bytes.
    pub payload_bytes: u64,
    /// Times at which the counters were read, in seconds.
    pub at_s: Vec<f64>,
    /// Packets that came to the bottleneck's queue.
    pub arrivals: Vec<u64>,
    /// Arrivals that were dropped.
    pub drops: Vec<u64>,
    /// Packets that left the queue for the wire.
    pub departed_packets: Vec<u64>,
    /// Bytes of the packets that left the queue, modulo 2^32: both peers count in 32 bits.
    pub departed_bytes: Vec<u64>,
    /// Expiries of retransmission timers with data outstanding, all flows together.
    pub timeouts: Vec<u64>,
    /// Segments that reached the receiving application in order, a row for each time, a column for each flow.
    pub delivered_segments: Vec<Vec<u64>>,
}

/// Figures to compare; see docs/explanation/simulator-peers.md for the definitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Jain index of a slice's goodputs, mean over slices; none if the run was not cut into slices.
    pub jfi_slice: Option<f64>,
    /// Jain index over the whole time counted; none where Narrows tells none, as not all flows were there from its
    /// start.
    pub jfi_long: Option<f64>,
    /// Bits that left the bottleneck's queue, over its capacity.
    pub utilisation: f64,
    /// Drops over arrivals at the bottleneck's queue.
    pub loss: f64,
    /// Timeouts per flow and second.
    pub timeouts_per_flow_s: f64,
    /// Share of (flow, slice) pairs in which nothing was delivered.
    pub zero_share: Option<f64>,
    /// Payload delivered in order, bit/s.
    pub goodput_bps: f64,
    /// Packets that left the bottleneck's queue.
    pub departed_packets: u64,
}

/// (sum x)^2 / (n sum x^2) (Jain, Chiu and Hawe 1984); flows with nothing count; one if all have nothing.
pub fn jain(x: &[u64]) -> f64 {
    let sum: f64 = x.iter().map(|&v| v as f64).sum();
    let squares: f64 = x.iter().map(|&v| v as f64 * v as f64).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (x.len() as f64 * squares) }
}

impl Metrics {
    /// Computes the figures of one run over a bottleneck of `rate_bps`.
    pub fn of(samples: &Samples, rate_bps: u64) -> Result<Self> {
        let rows = samples.at_s.len();
        ensure!(rows >= 2, "fewer than two samples");
        let columns = [
            samples.arrivals.len(),
            samples.drops.len(),
            samples.departed_packets.len(),
            samples.departed_bytes.len(),
            samples.timeouts.len(),
            samples.delivered_segments.len(),
        ];
        ensure!(columns.iter().all(|&len| len == rows), "columns of unequal length");
        let flows = samples.delivered_segments[0].len();
        ensure!(samples.delivered_segments.iter().all(|row| row.len() == flows), "rows of unequal length");

        let time_s = samples.at_s[rows - 1] - samples.at_s[0];
        let whole = gained(&samples.delivered_segments[0], &samples.delivered_segments[rows - 1]);
        let slices: Vec<Vec<u64>> =
            samples.delivered_segments.windows(2).map(|pair| gained(&pair[0], &pair[1])).collect();
        let sliced = rows > 2;
        let cells = (slices.len() * flows) as f64;
        let zeros = slices.iter().flatten().filter(|&&segments| segments == 0).count() as f64;
        let bytes: u64 =
            samples.departed_bytes.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]) & 0xffff_ffff).sum();
        let arrivals = counted(&samples.arrivals);
        let payload_bits = (whole.iter().sum::<u64>() * samples.payload_bytes * 8) as f64;
        Ok(Self {
            jfi_slice: sliced.then(|| slices.iter().map(|x| jain(x)).sum::<f64>() / slices.len() as f64),
            jfi_long: Some(jain(&whole)),
            utilisation: bytes as f64 * 8.0 / (time_s * rate_bps as f64),
            loss: counted(&samples.drops) as f64 / arrivals.max(1) as f64,
            timeouts_per_flow_s: counted(&samples.timeouts) as f64 / (flows as f64 * time_s),
            zero_share: sliced.then_some(zeros / cells),
            goodput_bps: payload_bits / time_s,
            departed_packets: counted(&samples.departed_packets),
        })
    }

    /// The mean of several runs; `None` of none.
    pub fn mean(runs: &[Self]) -> Option<Self> {
        let n = runs.len() as f64;
        let over = |of: &dyn Fn(&Self) -> f64| runs.iter().map(of).sum::<f64>() / n;
        let first = runs.first()?;
        Some(Self {
            jfi_slice: first.jfi_slice.map(|_| over(&|m| m.jfi_slice.unwrap_or(f64::NAN))),
            jfi_long: first.jfi_long.map(|_| over(&|m| m.jfi_long.unwrap_or(f64::NAN))),
            utilisation: over(&|m| m.utilisation),
            loss: over(&|m| m.loss),
            timeouts_per_flow_s: over(&|m| m.timeouts_per_flow_s),
            zero_share: first.zero_share.map(|_| over(&|m| m.zero_share.unwrap_or(f64::NAN))),
            goodput_bps: over(&|m| m.goodput_bps),
            departed_packets: over(&|m| m.departed_packets as f64).round() as u64,
        })
    }
}

fn gained(from: &[u64], to: &[u64]) -> Vec<u64> {
    from.iter().zip(to).map(|(&from, &to)| to.saturating_sub(from)).collect()
}

fn counted(counter: &[u64]) -> u64 {
    match counter {
        [first, .., last] => last.saturating_sub(*first),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_index_by_hand() {
        // (1+2+3)^2 / (3 * (1+4+9)) = 36/42.
        assert!((jain(&[1, 2, 3]) - 36.0 / 42.0).abs() < 1e-12);
        // A flow that gets nothing counts: one of four has all.
        assert_eq!(jain(&[0, 7, 0, 0]), 0.25);
        assert_eq!(jain(&[0, 0]), 1.0);
    }

    /// Two flows, two slices of 10 s, 8 kbit/s; the byte counter wraps in the second slice.
    fn samples() -> Samples {
        Samples {
            payload_bytes: 460,
            at_s: vec![100.0, 110.0, 120.0],
            arrivals: vec![50, 80, 110],
            drops: vec![5, 10, 20],
            departed_packets: vec![45, 65, 85],
            departed_bytes: vec![(1 << 32) - 12_000, (1 << 32) - 2_000, 8_000],
            timeouts: vec![3, 5, 9],
            delivered_segments: vec![vec![10, 20], vec![20, 20], vec![30, 30]],
        }
    }

    #[test]
    fn figures_by_hand() {
        let m = Metrics::of(&samples(), 8_000).unwrap();
        // Slices (10, 0) and (10, 10): (1/2 + 1) / 2; over both (20, 10): 900 / (2 * 500).
        assert_eq!(m.jfi_slice, Some(0.75));
        assert_eq!(m.jfi_long, Some(0.9));
        // 20 000 bytes in 20 s at 1000 byte/s.
        assert_eq!(m.utilisation, 1.0);
        // 15 of 60.
        assert_eq!(m.loss, 0.25);
        // 6 in 2 flows and 20 s.
        assert_eq!(m.timeouts_per_flow_s, 0.15);
        assert_eq!(m.zero_share, Some(0.25));
        // 30 segments of 3680 bits in 20 s.
        assert_eq!(m.goodput_bps, 5520.0);
        assert_eq!(m.departed_packets, 40);
    }

    #[test]
    fn two_samples_are_no_slices() {
        let mut short = samples();
        for column in
            [&mut short.arrivals, &mut short.drops, &mut short.departed_packets, &mut short.timeouts]
        {
            column.remove(1);
        }
        short.at_s.remove(1);
        short.departed_bytes.remove(1);
        short.delivered_segments.remove(1);
        let m = Metrics::of(&short, 8_000).unwrap();
        assert_eq!((m.jfi_slice, m.zero_share, m.loss), (None, None, 0.25));
        short.drops.pop();
        assert!(Metrics::of(&short, 8_000).is_err());
    }

    #[test]
    fn mean_of_runs() {
        let one = Metrics::of(&samples(), 8_000).unwrap();
        let two = Metrics { loss: 0.75, jfi_slice: Some(0.25), ..one };
        let mean = Metrics::mean(&[one, two]).unwrap();
        assert_eq!((mean.loss, mean.jfi_slice, mean.jfi_long), (0.5, Some(0.5), Some(0.9)));
        assert_eq!(Metrics::mean(&[]), None);
    }
}
