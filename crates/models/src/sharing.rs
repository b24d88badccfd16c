//! Cost of sharing one link, whatever the transport: an M/G/1 queue of transfers. They come at random moments
//! (Poisson), each with a size of its own, and the link serves one byte after another at its full rate.
//!
//! - Processor sharing (PS), what a fair queue comes to: a transfer of x bytes takes `x / (C (1 - rho))` in the mean,
//!   whatever the law of sizes (Kleinrock, "Queueing Systems" II, section 4.4). A transfer slower than that lost time
//!   to its transport, not to the others.
//! - First in, first out, each transfer whole: Pollaczek and Khinchine, wait `lambda E[S^2] / (2 (1 - rho))`.
//! - Shortest remaining processing time first (SRPT): Schrage and Miller, "The Queue M/G/1 with the Shortest Remaining
//!   Processing Time Discipline" (Operations Research 14(4), 1966). No order of service has a smaller mean (Schrage
//!   1968), so it is the lower bound of the mean for any queue and any sender on a link that is the only bottleneck.
//!
//! C is the link's rate in bytes per second, S a size in bytes, lambda transfers per second, rho = lambda E\[S\] / C
//! the load. Propagation, headers, slow start and losses are not in here: they come on top.

use narrows_units::Rate;

use crate::Result;
use crate::domain::within;

/// A law of sizes, in bytes. Sizes are from 1e-3 to 1e15.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// All the same.
    Fixed {
        /// The size.
        bytes: f64,
    },
    /// One size of a list, each as likely: 1 to 1 000 000 sizes.
    List(Vec<f64>),
    /// Exponential.
    Exponential {
        /// The mean.
        mean_bytes: f64,
    },
    /// Pareto: P(S > x) = (scale/x)^shape.
    Pareto {
        /// The least size.
        scale_bytes: f64,
        /// Shape of the law, 1.1 to 100: at 1 the mean, and with the mean the load, has no bound.
        shape: f64,
    },
    /// Pareto between two ends: P(S > x) = ((low/x)^shape - (low/high)^shape) / (1 - (low/high)^shape).
    BoundedPareto {
        /// The least size.
        low_bytes: f64,
        /// The greatest, above the least.
        high_bytes: f64,
        /// 0.01 to 100.
        shape: f64,
    },
}

/// Law of sizes in three kinds: Pareto is the bounded law with its end at infinity, one size is a list.
#[derive(Clone, Debug)]
enum Law {
    /// Sizes of a list, in rising order.
    Atoms(Vec<f64>),
    Exponential {
        mean: f64,
    },
    /// `range` = ln(high/low).
    Power {
        low: f64,
        range: f64,
        shape: f64,
    },
}

/// `(e^(cr) - 1) / c`, which is r for c = 0: the integral of e^(ct) from 0 to r.
fn growth(c: f64, r: f64) -> f64 {
    if (c * r).abs() < 1e-12 { r } else { (c * r).exp_m1() / c }
}

impl Law {
    fn of(sizes: Sizes) -> Result<Self> {
        let size = |x| within("size", x, 1e-3..=1e15, "1e-3 to 1e15 bytes");
        Ok(match sizes {
            Sizes::Fixed { bytes } => Self::Atoms(vec![size(bytes)?]),
            Sizes::List(mut list) => {
                within("sizes", list.len() as f64, 1.0..=1e6, "1 to 1 000 000 sizes")?;
                for x in &list {
                    size(*x)?;
                }
                list.sort_by(f64::total_cmp);
                Self::Atoms(list)
            }
            Sizes::Exponential { mean_bytes } => Self::Exponential { mean: size(mean_bytes)? },
            Sizes::Pareto { scale_bytes, shape } => {
                let shape = within("shape", shape, 1.1..=100.0, "1.1 to 100: at 1 the mean has no bound")?;
                Self::Power { low: size(scale_bytes)?, range: f64::INFINITY, shape }
            }
            Sizes::BoundedPareto { low_bytes, high_bytes, shape } => {
                let shape = within("shape", shape, 0.01..=100.0, "0.01 to 100")?;
                let (low, high) = (size(low_bytes)?, size(high_bytes)?);
                within("high", high, low * (1.0 + 1e-9).., "a greatest size above the least")?;
                Self::Power { low, range: (high / low).ln(), shape }
            }
        })
    }

    /// E\[S; S > x\], x above 0.
    fn rest(&self, x: f64) -> f64 {
        match self {
            Self::Atoms(list) => list.iter().rev().take_while(|s| **s > x).sum::<f64>() / list.len() as f64,
            Self::Exponential { mean } => (mean + x) * (-x / mean).exp(),
            Self::Power { low, range, shape } => {
                let r = (x / low).ln().clamp(0.0, *range);
                let whole = -(-shape * range).exp_m1();
                let c = 1.0 - shape;
                shape / whole * low * (c * r).exp() * growth(c, range - r)
            }
        }
    }

    /// E\[S^n; S <= x\] for n = 1 or 2, x above 0.
    fn below(&self, n: i32, x: f64) -> f64 {
        match self {
            Self::Atoms(list) => {
                list.iter().take_while(|s| **s <= x).map(|s| s.powi(n)).sum::<f64>() / list.len() as f64
            }
            Self::Exponential { mean } => {
                // e^-800 is 0, and infinity times 0 is not.
                let y = (x / mean).min(800.0);
                let rest = (-y).exp() * if n == 1 { 1.0 + y } else { 2.0 + y * (2.0 + y) };
                mean.powi(n) * (f64::from(n) - rest).max(0.0)
            }
            Self::Power { low, range, shape } => {
                let r = (x / low).ln().clamp(0.0, *range);
                let whole = -(-shape * range).exp_m1();
                shape / whole * low.powi(n) * growth(f64::from(n) - shape, r)
            }
        }
    }

    /// P(S > x).
    fn above(&self, x: f64) -> f64 {
        match self {
            Self::Atoms(list) => list.iter().filter(|s| **s > x).count() as f64 / list.len() as f64,
            Self::Exponential { mean } => (-x / mean).exp(),
            Self::Power { low, range, shape } => {
                let r = (x / low).ln().clamp(0.0, *range);
                // e^(-ar) - e^(-aR), over 1 - e^(-aR).
                -(-shape * r).exp() * (-shape * (range - r)).exp_m1() / -(-shape * range).exp_m1()
            }
        }
    }

    /// x times the density at x: the probability of a step in ln x. Of the smooth laws.
    fn density(&self, x: f64) -> f64 {
        match self {
            Self::Atoms(_) => 0.0,
            Self::Exponential { mean } => x / mean * (-x / mean).exp(),
            Self::Power { low, range, shape } => {
                shape * (-shape * (x / low).ln()).exp() / -(-shape * range).exp_m1()
            }
        }
    }

    /// E\[S^n\] for n = 1 or 2; infinite where there is none.
    fn moment(&self, n: i32) -> f64 {
        match self {
            Self::Power { range, shape, .. } if range.is_infinite() && *shape <= f64::from(n) => {
                f64::INFINITY
            }
            _ => self.below(n, f64::INFINITY),
        }
    }

    /// The sizes between which a smooth law has all its load but one part in 1e11.
    fn support(&self) -> (f64, f64) {
        match self {
            Self::Atoms(_) => (0.0, 0.0),
            Self::Exponential { mean } => (1e-9 * mean, 60.0 * mean),
            Self::Power { low, range, shape } => {
                let most = if *shape > 1.0 { 26.0 / (shape - 1.0) } else { f64::INFINITY };
                (*low, low * range.min(most).exp())
            }
        }
    }
}

/// The integral of a smooth function: Simpson's rule, the number of intervals doubled until twice in a row it changes
/// by less than one part in 1e8; at most 2^18. The places crowd at the two ends, as u^2 (3 - 2u): near a load of 1 all
/// that matters can lie within a ten-thousandth of the upper one.
fn integral(from: f64, to: f64, f: impl Fn(f64) -> f64) -> f64 {
    let width = to - from;
    if width <= 0.0 {
        return 0.0;
    }
    let at = |u: f64| 6.0 * u * (1.0 - u) * f(from + width * u * u * (3.0 - 2.0 * u));
    // The first and the last place weigh nothing.
    let mut trapezes = 0.0;
    let (mut last, mut calm) = (f64::INFINITY, 0);
    for power in 0..18 {
        let n = 1_u32 << power;
        let between = (0..n).map(|i| at((f64::from(i) + 0.5) / f64::from(n))).sum::<f64>() / f64::from(n);
        let finer = f64::midpoint(trapezes, between);
        let simpson = (4.0 * finer - trapezes) / 3.0;
        calm = if (simpson - last).abs() <= 1e-8 * simpson.abs() { calm + 1 } else { 0 };
        (trapezes, last) = (finer, simpson);
        if calm >= 2 && power >= 7 {
            break;
        }
    }
    last * width
}

/// A link and the transfers that share the link.
#[derive(Clone, Debug)]
pub struct SharedQueue {
    bytes_per_s: f64,
    load: f64,
    law: Law,
    mean: f64,
}

impl SharedQueue {
    /// Makes a link of `rate` that transfers of `sizes` keep busy for a share `load` of the time.
    ///
    /// # Errors
    /// If `load` is not in 0 <= load <= 0.9999, or the law is outside the domain that [`Sizes`] states.
    pub fn new(rate: Rate, load: f64, sizes: Sizes) -> Result<Self> {
        let expected = "0 <= load <= 0.9999: at 1 the queue grows for ever";
        let load = within("load", load, 0.0..=0.9999, expected)?;
        let law = Law::of(sizes)?;
        let mean = law.moment(1);
        Ok(Self { bytes_per_s: rate.as_bps() as f64 / 8.0, load, law, mean })
    }

    /// E\[S\], bytes.
    #[must_use]
    pub fn mean_bytes(&self) -> f64 {
        self.mean
    }

    /// Processor sharing: the mean time of a transfer of `bytes`, seconds: `x / (C (1 - rho))`.
    ///
    /// # Errors
    /// If `bytes` is not from 1e-3 to 1e15.
    pub fn ps_s(&self, bytes: f64) -> Result<f64> {
        Ok(self.seconds(of_size(bytes)? / (1.0 - self.load)))
    }

    /// Processor sharing: the mean over all transfers, seconds.
    #[must_use]
    pub fn ps_mean_s(&self) -> f64 {
        self.seconds(self.mean / (1.0 - self.load))
    }

    /// First in, first out: the mean wait before a transfer is served, seconds: `lambda E[S^2] / (2 (1 - rho))`, with S
    /// in seconds of the link's time.
    ///
    /// # Errors
    /// For a Pareto law whose shape is at most 2: its wait has no mean.
    pub fn fifo_wait_s(&self) -> Result<f64> {
        if let Law::Power { range, shape, .. } = &self.law
            && range.is_infinite()
        {
            let expected =
                "a shape above 2: below, sizes have no second moment and a FIFO's wait has no mean";
            within("shape", *shape, 2.000_001.., expected)?;
        }
        Ok(self.seconds(self.arrivals() * self.law.moment(2) / (2.0 * (1.0 - self.load))))
    }

    /// First in, first out: the mean over all transfers, seconds.
    ///
    /// # Errors
    /// As [`SharedQueue::fifo_wait_s`].
    pub fn fifo_mean_s(&self) -> Result<f64> {
        Ok(self.fifo_wait_s()? + self.seconds(self.mean))
    }

    /// SRPT: the mean time of a transfer of `bytes`, seconds (Schrage and Miller): its wait
    /// `(lambda int_0^x t^2 dF + lambda x^2 (1-F(x))) / (2 (1-rho(x))^2)` and its service `int_0^x dt / (1-rho(t))`,
    /// rho(x) the load of transfers up to x. Where sizes are a list, equals are served in the order of their coming,
    /// and one of the two factors 1 - rho(x) counts smaller transfers only.
    ///
    /// # Errors
    /// If `bytes` is not from 1e-3 to 1e15.
    pub fn srpt_s(&self, bytes: f64) -> Result<f64> {
        let x = of_size(bytes)?;
        Ok(self.seconds(self.srpt_wait(x) + self.srpt_service(x)))
    }

    /// SRPT: the mean over all transfers, seconds: no order of service on this link has a smaller one.
    #[must_use]
    pub fn srpt_mean_s(&self) -> f64 {
        // The service's mean in one integral: int (1-F(t)) / (1-rho(t)) dt.
        let both = match &self.law {
            Law::Atoms(list) => self.srpt_mean_of_list(list),
            smooth => {
                let (start, end) = smooth.support();
                let service = |x: f64| x * smooth.above(x) / self.free(x);
                let wait = |x: f64| smooth.density(x) * self.srpt_wait(x);
                start + integral(start.ln(), end.ln(), |y| service(y.exp()) + wait(y.exp()))
            }
        };
        self.seconds(both)
    }

    fn seconds(&self, bytes: f64) -> f64 {
        bytes / self.bytes_per_s
    }

    /// Transfers that come while the link sends a byte: lambda / C.
    fn arrivals(&self) -> f64 {
        self.load / self.mean
    }

    /// 1 - rho(x), from what is above x: near a load of 1 nothing cancels.
    fn free(&self, x: f64) -> f64 {
        (1.0 - self.load) + self.arrivals() * self.law.rest(x)
    }

    /// Wait of a transfer of `x` bytes under SRPT before its first byte, in bytes of the link's time.
    fn srpt_wait(&self, x: f64) -> f64 {
        let free = self.free(x);
        let of_smaller = match &self.law {
            Law::Atoms(_) => self.free(x.next_down()),
            _ => free,
        };
        let work = self.law.below(2, x) + x * x * self.law.above(x);
        self.arrivals() * work / (2.0 * of_smaller * free)
    }

    /// Time of a transfer of `x` bytes under SRPT from its first byte on, interruptions included, in bytes of the
    /// link's time.
    fn srpt_service(&self, x: f64) -> f64 {
        if let Law::Atoms(list) = &self.law {
            // rho is constant between two sizes.
            let (mut sum, mut rho, mut from) = (0.0, 0.0, 0.0);
            for s in list.iter().take_while(|s| **s < x) {
                sum += (s - from) / (1.0 - rho);
                rho += self.arrivals() * s / list.len() as f64;
                from = *s;
            }
            return sum + (x - from) / (1.0 - rho);
        }
        let (start, end) = self.law.support();
        let to = x.clamp(start, end);
        let within = integral(start.ln(), to.ln(), |y| y.exp() / self.free(y.exp()));
        start.min(x) + within + (x - end).max(0.0) / (1.0 - self.load)
    }

    /// One pass over sorted sizes, the sums below each carried along; equal sizes are one atom.
    fn srpt_mean_of_list(&self, list: &[f64]) -> f64 {
        let n = list.len() as f64;
        let (mut wait, mut service) = (0.0, 0.0);
        let (mut rho, mut second, mut from, mut above) = (0.0, 0.0, 0.0, n);
        for equal in list.chunk_by(|a, b| a == b) {
            let (s, count) = (equal[0], equal.len() as f64);
            service += (s - from) * above / n / (1.0 - rho);
            let smaller = rho;
            rho += self.arrivals() * s * count / n;
            second += s * s * count / n;
            above -= count;
            let work = second + s * s * above / n;
            wait += count / n * self.arrivals() * work / (2.0 * (1.0 - smaller) * (1.0 - rho));
            from = s;
        }
        wait + service
    }
}

fn of_size(bytes: f64) -> Result<f64> {
    within("bytes", bytes, 1e-3..=1e15, "1e-3 to 1e15 bytes")
}

#[cfg(test)]
mod tests;
