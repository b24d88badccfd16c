//! Isolation of classes: flows that steer by one common queue, or each by a queue of its own.
//!
//! Yilmaz and Matta on class-based isolation of short-lived and long-lived TCP flows (Boston University, about 2001),
//! section 2: a sender is not a TCP but a linear controller, so that what it does can be solved. Per step `k`, in
//! packets:
//!
//! ```text
//! q(k+1)   = q(k) + sum_i x_i(k) - C
//! x_i(k+1) = x_i(k) + alpha_i (B - q(k+1)) - beta_i (q(k+1) - q(k))                  (1)
//! ```
//!
//! with `x_i` what flow i sends in a step, `q` what is outstanding, `C` what is served in a step, `B` the target of
//! `q`. Under *aggregate* control all flows of a [`Control`] see the same `q`; under *individual* control (5) each has
//! a [`Control`] of its own ([`isolated`]), and its stability, its share and its settling are its own affair.
//!
//! Where we differ: the stability test is exact. With `A` the sum of alpha and `G` the sum of beta, `e = q - B` and
//! `y = sum x - C`, (1) is
//!
//! ```text
//! e' = e + y,   y' = -A e + (1 - A - G) y        trace 2 - A - G, determinant 1 - G; Jury's test:
//! stable if and only if   A > 0,  G > 0  and  A + 2G < 4
//! ```
//!
//! The paper's (2) takes the largest gain of any flow for all of them and is sufficient only
//! ([`Control::sufficient_stable`]). The model is linear: a rate or a queue may come out negative, and is not clipped.

use crate::domain::{positive, within};
use crate::{Error, Result};

/// The most flows one control may have.
pub const MAX_FLOWS: usize = 1_000_000;
/// The most steps [`Control::settling`] looks at.
pub const MAX_STEPS: u32 = 1_000_000;

/// Relative width of the border between stable and unstable: sums of gains written in decimals are not nearer than
/// that.
const BORDER: f64 = 1e-9;
const GAIN: &str = "0 <= gain <= 1e6 (a stable loop has less than 4)";

/// Gains by which a flow answers to the common state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gains {
    /// Packets per step more for each packet that the queue is below its target; 0 or more.
    pub alpha: f64,
    /// Packets per step less for each packet that the queue has grown in a step; 0 or more.
    pub beta: f64,
}

/// How old the queue is that a flow sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feedback {
    /// `x(k+1)` answers to `q(k+1)`, as in (1). So does the other way of counting, in which `q(k+1)` already holds
    /// `x(k+1)` and that answers to `q(k)`: the same trajectory, one index apart.
    Prompt,
    /// `x(k+1)` answers to `q(k)` and `q(k-1)` while `q(k+1)` is made of `x(k)`: one step of delay more, and not the
    /// same system. The start is taken as `q(-1) = q(0)`.
    Late,
}

/// Fate of a disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// The disturbance dies out.
    Stable,
    /// The spectral radius is 1: the disturbance neither dies out nor grows by a factor.
    Marginal,
    /// The disturbance grows without bound.
    Unstable,
}

/// The state between two steps.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Packets outstanding, `q`.
    pub queue: f64,
    /// Packets each flow sends in the step, `x_i`.
    pub rates: Vec<f64>,
}

impl State {
    /// Packets that all flows together send in the step.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.rates.iter().sum()
    }

    fn is_finite(&self) -> bool {
        self.queue.is_finite() && self.rates.iter().all(|x| x.is_finite())
    }
}

/// One queue and the flows whose senders adapt to the queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    gains: Vec<Gains>,
    /// A and G.
    sum: Gains,
    capacity: f64,
    target: f64,
}

impl Control {
    /// Flows with gains of their own at a queue that serves `capacity` packets a step and is to hold `target` packets.
    ///
    /// # Errors
    /// No flow, or more than [`MAX_FLOWS`]; a gain not in 0..=1e6; a capacity or target not above 0.
    pub fn new(gains: Vec<Gains>, capacity: f64, target: f64) -> Result<Self> {
        number_of_flows(gains.len())?;
        for one in &gains {
            within("alpha", one.alpha, 0.0..=1e6, GAIN)?;
            within("beta", one.beta, 0.0..=1e6, GAIN)?;
        }
        let sum =
            Gains { alpha: gains.iter().map(|g| g.alpha).sum(), beta: gains.iter().map(|g| g.beta).sum() };
        Ok(Self {
            gains,
            sum,
            capacity: positive("capacity", capacity)?,
            target: positive("target", target)?,
        })
    }

    /// `flows` flows with the same gains.
    ///
    /// # Errors
    /// As [`Control::new`].
    pub fn equal(flows: usize, gains: Gains, capacity: f64, target: f64) -> Result<Self> {
        number_of_flows(flows)?;
        let mut control = Self::new(vec![gains; flows], capacity, target)?;
        // The product is nearer than a sum of many terms: ten times 0.1 is 1.
        let n = flows as f64;
        control.sum = Gains { alpha: n * gains.alpha, beta: n * gains.beta };
        Ok(control)
    }

    /// The number of flows, N.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.gains.len()
    }

    /// Capacity C: packets served in a step.
    #[must_use]
    pub fn capacity(&self) -> f64 {
        self.capacity
    }

    /// Target B of the queue, in packets.
    #[must_use]
    pub fn target(&self) -> f64 {
        self.target
    }

    /// The exact test. [`Feedback::Prompt`]: stable if and only if `A > 0`, `G > 0` and `A + 2G < 4`.
    /// [`Feedback::Late`]: if and only if `0 < A < G (1 - G)`, so never with `A >= 1/4` (Jury's test of `z^3 - 2 z^2 +
    /// (1 + A + G) z - G`).
    #[must_use]
    pub fn stability(&self, feedback: Feedback) -> Stability {
        let Gains { alpha: a, beta: g } = self.sum;
        let (room, border) = match feedback {
            Feedback::Prompt => (4.0 - a - 2.0 * g, 4.0 * BORDER),
            Feedback::Late => (g * (1.0 - g) - a, (a + g) * BORDER),
        };
        if room < -border {
            Stability::Unstable
        } else if room > border && a > 0.0 && g > 0.0 {
            Stability::Stable
        } else {
            Stability::Marginal
        }
    }

    /// The paper's (2), `N (alpha + 2 beta) < 4` with the largest alpha and the largest beta of any flow: enough for
    /// stability, and needed only if all gains are equal.
    #[must_use]
    pub fn sufficient_stable(&self) -> bool {
        let most = |of: fn(&Gains) -> f64| self.gains.iter().map(of).fold(0.0, f64::max);
        let (alpha, beta) = (most(|g| g.alpha), most(|g| g.beta));
        let n = self.gains.len() as f64;
        alpha > 0.0 && beta > 0.0 && n * (alpha + 2.0 * beta) < 4.0 - 4.0 * BORDER
    }

    /// The factor per step by which the slowest mode of (e, y) shrinks in the long run; above 1 it grows. The shares
    /// among the flows are not in it: they are N - 1 modes at exactly 1.
    #[must_use]
    pub fn spectral_radius(&self, feedback: Feedback) -> f64 {
        let Gains { alpha: a, beta: g } = self.sum;
        match feedback {
            // (trace/2)^2 - determinant = ((A + G)^2 - 4A) / 4.
            Feedback::Prompt => largest_root(2.0 - a - g, 1.0 - g, (a + g) * (a + g) - 4.0 * a),
            Feedback::Late => {
                let real = late_root(a, g);
                let product = a + g + (1.0 - real) * (1.0 - real);
                let sum = 2.0 - real;
                real.max(largest_root(sum, product, sum * sum - 4.0 * product))
            }
        }
    }

    /// Where the flows come to rest from `start`, if the loop is stable: `q = B`, `sum x = C`, and shares that depend
    /// on the start (3)-(4):
    ///
    /// ```text
    /// x_i = x_i(0) + (alpha_i / A) (C - X(0) + G (B - q(0))) - beta_i (B - q(0)),    X(0) = sum x_j(0)
    /// ```
    ///
    /// With equal gains that is `x_i(0) + (C - X(0)) / N`: who began with more keeps more. A flow alone gets C.
    ///
    /// # Errors
    /// A start that is not finite, or not of as many rates as there are flows.
    pub fn equilibrium(&self, start: &State, feedback: Feedback) -> Result<Option<State>> {
        self.check(start)?;
        if self.stability(feedback) != Stability::Stable {
            return Ok(None);
        }
        let missing = self.target - start.queue;
        let pushed = (self.capacity - start.total() + self.sum.beta * missing) / self.sum.alpha;
        let rates = self
            .gains
            .iter()
            .zip(&start.rates)
            .map(|(g, x)| x + g.alpha * pushed - g.beta * missing)
            .collect();
        let rest = State { queue: self.target, rates };
        Ok(rest.is_finite().then_some(rest))
    }

    /// The states from `start` on, `start` first. The simulation ends where a number is no longer finite: an unstable
    /// loop has run away.
    ///
    /// # Errors
    /// As [`Control::equilibrium`].
    pub fn simulate(&self, start: State, feedback: Feedback) -> Result<Steps<'_>> {
        self.check(&start)?;
        Ok(Steps { control: self, feedback, queue_before: start.queue, next: Some(start) })
    }

    /// The first step from which the queue stays within `fraction` of its target and the sum of rates within `fraction`
    /// of the capacity. Nothing if the loop is not stable, or needs more than [`MAX_STEPS`] steps.
    ///
    /// # Errors
    /// As [`Control::equilibrium`]; a fraction not in 0 < fraction < 1.
    pub fn settling(&self, start: &State, feedback: Feedback, fraction: f64) -> Result<Option<u32>> {
        self.check(start)?;
        within("fraction", fraction, f64::MIN_POSITIVE..1.0, "0 < fraction < 1")?;
        if self.stability(feedback) != Stability::Stable {
            return Ok(None);
        }
        let (mut e, mut y) = (start.queue - self.target, start.total() - self.capacity);
        let mut grown = 0.0;
        let mut settled = 0;
        for step in 0..MAX_STEPS {
            let out = (e.abs() / self.target).max(y.abs() / self.capacity) / fraction;
            if out > 1.0 {
                settled = step + 1;
            }
            // A loop that comes this near within the bound has no mode that could lead out again.
            if out < 1e-12 {
                return Ok(Some(settled));
            }
            let next = e + y;
            let (seen, slope) = match feedback {
                Feedback::Prompt => (next, y),
                Feedback::Late => (e, grown),
            };
            grown = y;
            y -= self.sum.alpha * seen + self.sum.beta * slope;
            e = next;
        }
        Ok(None)
    }

    fn check(&self, start: &State) -> Result<()> {
        if start.rates.len() != self.gains.len() {
            let value = start.rates.len() as f64;
            return Err(Error { parameter: "rates", value, expected: "as many rates as flows" });
        }
        let rates = start.rates.iter().map(|rate| ("rates", *rate));
        for (parameter, value) in [("queue", start.queue)].into_iter().chain(rates) {
            within(parameter, value, -1e12..=1e12, "a finite number of packets, at most 1e12")?;
        }
        Ok(())
    }
}

/// Individual control (5)-(7): every flow or class with its own queue, capacity and target; each stable if and only if
/// `alpha_i > 0`, `beta_i > 0` and `alpha_i + 2 beta_i < 4` (6), and at rest at `q_i = B_i`, `x_i = C_i` whatever the
/// start.
///
/// # Errors
/// As [`Control::new`]; lists of different lengths.
pub fn isolated(gains: &[Gains], capacities: &[f64], targets: &[f64]) -> Result<Vec<Control>> {
    number_of_flows(gains.len())?;
    for (parameter, list) in [("capacity", capacities), ("target", targets)] {
        if list.len() != gains.len() {
            let value = list.len() as f64;
            return Err(Error { parameter, value, expected: "as many as flows" });
        }
    }
    let each = gains.iter().zip(capacities).zip(targets);
    each.map(|((gains, capacity), target)| Control::new(vec![*gains], *capacity, *target)).collect()
}

/// A simulation: an endless iterator of states, unless the loop runs away.
#[derive(Clone, Debug)]
pub struct Steps<'a> {
    control: &'a Control,
    feedback: Feedback,
    queue_before: f64,
    next: Option<State>,
}

impl Iterator for Steps<'_> {
    type Item = State;

    fn next(&mut self) -> Option<State> {
        let now = self.next.take()?;
        let queue = now.queue + now.total() - self.control.capacity;
        let (seen, slope) = match self.feedback {
            Feedback::Prompt => (queue, queue - now.queue),
            Feedback::Late => (now.queue, now.queue - self.queue_before),
        };
        let missing = self.control.target - seen;
        let answer = |(x, g): (&f64, &Gains)| x + g.alpha * missing - g.beta * slope;
        let rates = now.rates.iter().zip(&self.control.gains).map(answer).collect();
        self.queue_before = now.queue;
        self.next = Some(State { queue, rates }).filter(State::is_finite);
        Some(now)
    }
}

/// Packets that a path holds between a sender's packet and its ACK: `P = C RTT + B` (section 3.4), with the capacity in
/// packets per second.
///
/// # Errors
/// A capacity or RTT that is not above 0; a buffer below 0.
pub fn pipe_packets(capacity_pps: f64, rtt_s: f64, buffer_packets: f64) -> Result<f64> {
    let flying = positive("capacity", capacity_pps)? * positive("rtt", rtt_s)?;
    let buffer = within("buffer", buffer_packets, 0.0..=1e12, "0 <= buffer <= 1e12 packets")?;
    within("capacity", flying + buffer, 0.0..=1e15, "a pipe of at most 1e15 packets")
}

/// Share of one of `connections` in a pipe, in packets per RTT. Isolation pays where the share is below about 10
/// (section 4).
///
/// # Errors
/// No connection; a pipe that is not above 0.
pub fn share_packets(pipe_packets: f64, connections: usize) -> Result<f64> {
    let n = within("connections", connections as f64, 1.0.., "connections >= 1")?;
    Ok(positive("pipe", pipe_packets)? / n)
}

/// The round trips of slow start (1, 2, 4, ... packets, no loss) that `packets` need: 10 packets take 4, so such a flow
/// can use no more than 2.5 packets per RTT however large its share is. A flow of nothing takes none.
#[must_use]
pub fn slow_start_rtts(packets: u64) -> u32 {
    u64::BITS - packets.leading_zeros()
}

fn number_of_flows(flows: usize) -> Result<()> {
    within("flows", flows as f64, 1.0..=MAX_FLOWS as f64, "1 <= flows <= 1e6").map(|_| ())
}

/// The greater modulus of the roots of `z^2 - sum z + product`, given `discriminant` = sum^2 - 4 product.
fn largest_root(sum: f64, product: f64, discriminant: f64) -> f64 {
    if discriminant < 0.0 { product.sqrt() } else { (sum.abs() + discriminant.sqrt()) / 2.0 }
}

/// A real root of `z^3 - 2 z^2 + (1 + A + G) z - G`, which is -G at 0 and A at 1.
fn late_root(a: f64, g: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let z = f64::midpoint(low, high);
        if ((z - 2.0) * z + 1.0 + a + g) * z < g {
            low = z;
        } else {
            high = z;
        }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests;
