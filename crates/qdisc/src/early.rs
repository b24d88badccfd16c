//! Common part of RED and RIO: the averaged queue, and the chance of a drop that grows with it.
//!
//! Idea: Floyd and Jacobson, Random Early Detection Gateways for Congestion Avoidance, IEEE/ACM Transactions on
//! Networking 1(4), 1993; the gentle slope: Floyd, Recommendation on using the "gentle_" variant of RED, 2000.
//!
//! Where we differ: integers. The average has 24 fractional bits, its weight and all probabilities 32; the division of
//! p_a is a cross-multiplication. An idle time begins when the link has sent the last packet, not when the queue handed
//! it over, so that it does not depend on when a driver asks.

use narrows_units::{Duration, Instant};

use crate::{Dice, Ppm};

/// Fractional bits of an average.
const AVG_BITS: u32 = 24;
/// One as a probability or weight: 32 fractional bits.
const ONE: u64 = 1 << 32;

/// Parts per million with 32 fractional bits.
const fn binary(p: Ppm) -> u64 {
    (p.0 as u64 * ONE) / Ppm::ONE.0 as u64
}

/// A quantity (packets or bytes) averaged at arrivals: avg = (1 - w_q) avg + w_q q.
#[derive(Clone, Debug)]
pub struct Average {
    /// 24 fractional bits.
    value: u64,
    weight: u64,
    /// Time of a typical packet on the link: in idle time so many small packets could have been sent.
    slot: Duration,
    /// Time at which the link has sent the last packet; if nothing waits, it is idle from then on.
    idle_from: Instant,
}

impl Average {
    /// An average at zero with the weight `w_q`; `slot` is the transmission time of a typical packet.
    pub fn new(w_q: Ppm, slot: Duration) -> Self {
        Self {
            value: 0,
            weight: binary(w_q),
            slot: slot.max(Duration::from_nanos(1)),
            idle_from: Instant::ZERO,
        }
    }

    /// Goes on from an average under other settings.
    pub const fn carry(&mut self, from: &Self) {
        (self.value, self.idle_from) = (from.value, from.idle_from);
    }

    /// Rounded down.
    pub const fn get(&self) -> u64 {
        self.value >> AVG_BITS
    }

    /// A packet arrives and finds `queue`; `empty` if nothing at all waits. After an idle time
    /// avg = (1 - w_q)^m avg, as if m small packets had found nothing.
    pub fn arrival(&mut self, now: Instant, queue: u64, empty: bool) {
        if !(empty && self.age(now)) {
            let gap = (i128::from(queue) << AVG_BITS) - i128::from(self.value);
            self.value = self.value.saturating_add_signed(((gap * i128::from(self.weight)) >> 32) as i64);
        }
    }

    /// Ages the average by an idle time, if there was one: nothing waits, and no arrival counts.
    pub fn age(&mut self, now: Instant) -> bool {
        if now <= self.idle_from {
            return false;
        }
        let m = now.since(self.idle_from).as_nanos() / self.slot.as_nanos();
        self.value = times(self.value, power(ONE - self.weight, m));
        self.idle_from = now;
        true
    }

    /// Takes note that the link will be free at `at` of all packets handed to the link so far.
    pub const fn sent_at(&mut self, at: Instant) {
        self.idle_from = at;
    }
}

/// `value` times a probability.
const fn times(value: u64, p: u64) -> u64 {
    ((value as u128 * p as u128) >> 32) as u64
}

/// p^m by squaring; the paper takes the power from a table.
const fn power(mut p: u64, mut m: u64) -> u64 {
    let mut result = ONE;
    while m > 0 && result > 0 {
        if m & 1 == 1 {
            result = times(result, p);
        }
        p = times(p, p);
        m >>= 1;
    }
    result
}

/// Decision of the curve on an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Let the arrival in.
    Pass,
    /// Tell the arrival's sender: mark an ECN-capable packet, drop another.
    Early,
    /// The average is above every threshold.
    Above,
}

/// The thresholds and slopes of a curve, in whole units of the curve's average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Average below which nothing is dropped.
    pub min: u64,
    /// Average from which everything is dropped, or with `gentle` more and more up to twice as much. More than
    /// `min`.
    pub max: u64,
    /// The probability just below `max`.
    pub max_p: Ppm,
    /// Whether the chance grows from `max_p` at `max` to 1 at twice `max`.
    pub gentle: bool,
    /// Whether 1 / p_b arrivals pass after a drop (ns-2's `wait_`).
    pub wait: bool,
}

/// The probability of a drop as a function of an average, with drops spread evenly.
#[derive(Clone, Debug)]
pub struct Curve {
    at: Thresholds,
    max_p: u64,
    /// Probability (32 bits) per unit of the average, with 32 fractional bits more.
    slope: u128,
    gentle_slope: u128,
    /// Arrivals since the last drop while the average is above `min`; -1 below.
    count: i64,
}

impl Curve {
    pub fn new(at: Thresholds) -> Self {
        let max_p = binary(at.max_p);
        let per = |rise: u64, run: u64| (u128::from(rise) << 32) / u128::from(run.max(1));
        Self {
            at,
            max_p,
            slope: per(max_p, at.max - at.min),
            gentle_slope: per(ONE - max_p, at.max),
            count: -1,
        }
    }

    /// p_b: by how much the average is above `min`, with 32 fractional bits; `None` where all are dropped.
    fn p_b(&self, avg: &Average) -> Option<u64> {
        let above = |threshold: u64, slope: u128| {
            let excess = u128::from(avg.value) - (u128::from(threshold) << AVG_BITS);
            ((excess * slope) >> (32 + AVG_BITS)) as u64
        };
        if avg.get() < self.at.max {
            Some(above(self.at.min, self.slope))
        } else if self.at.gentle && avg.get() < 2 * self.at.max {
            Some(self.max_p + above(self.at.max, self.gentle_slope))
        } else {
            None
        }
    }

    /// Judges an arrival. `part` is its length as a part of the greatest, if the chance is to depend on it.
    ///
    /// p_a = p_b / (1 - count p_b): so the number of arrivals between drops is even over 1 to 1 / p_b instead of
    /// geometric (paper, section VII). With `wait` it is even over 1 / p_b to 2 / p_b: p_a = p_b / (2 - count p_b), and
    /// 0 as long as count p_b is below 1.
    pub fn decide(&mut self, avg: &Average, part: Option<(u64, u64)>, dice: &mut Dice) -> Call {
        if avg.get() < self.at.min {
            self.count = -1;
            return Call::Pass;
        }
        let Some(mut p_b) = self.p_b(avg) else {
            self.count = 0;
            return Call::Above;
        };
        self.count += 1;
        if let Some((len, greatest)) = part {
            p_b =
                (u128::from(p_b) * u128::from(len) / u128::from(greatest.max(1))).min(u128::from(ONE)) as u64;
        }
        let spent = u128::from(p_b) * u128::from(self.count.unsigned_abs());
        if self.at.wait && spent < u128::from(ONE) {
            return Call::Pass;
        }
        let whole = if self.at.wait { 2 * ONE } else { ONE };
        let left = u128::from(whole).saturating_sub(spent);
        // A uniform u is below p_b / left: u * left < p_b.
        if dice.below(ONE) as u128 * left < u128::from(p_b) << 32 {
            self.count = 0;
            return Call::Early;
        }
        Call::Pass
    }
}

#[cfg(test)]
mod tests;
