//! Adaptive AIMD: a flow that backs off just far enough to empty the queue it saw.
//!
//! Shorten and Leith, "On Queue Provisioning, Network Efficiency and the Transmission Control Protocol" (IEEE/ACM ToN,
//! 2007). A link of rate `B` with a drop-tail queue of `q` packets, long flows of two-way propagation time `T`; below,
//! `phi = q / (B T)` is the buffer as a multiple of the delay-bandwidth product (DBP) and `m = 1 + phi` the greatest
//! round-trip time as a multiple of `T`:
//!
//! ```text
//! R-(k) = sum_i w_i(k) / RTTmax_i = B                      just before congestion event k: the queue is full      (1)
//! R+(k) = sum_i beta_i^n_i(k) w_i(k) / RTTmin_i            just after, if the queue empties; n_i = 1 if i lost    (2)
//! R+ = R-   if   beta_i = RTTmin_i / RTTmax_i = T_i / (T_i + q / B)                                               (3)
//! ```
//!
//! So standard TCP, which halves, needs `q = B T`, and a flow that sets its own `beta` to (3) fills the link with any
//! queue. The displayed equations are lost in the copy at hand; they are rebuilt from the text around them (the numbers
//! are the paper's), and the closed form of [`efficiency`] is derived here for the curve of its Fig. 7. Fluid limit:
//! windows are not whole packets, and a flow learns of a loss at once.

use crate::Result;
use crate::domain::{positive, within};

pub mod estimate;

/// How far the backoff factor of an adaptive flow may go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackoffRange {
    lo: f64,
    hi: f64,
}

impl BackoffRange {
    /// 0.5, which is standard TCP, to 0.8, with which a quarter of the DBP fills the link (section III).
    pub const PAPER: Self = Self { lo: 0.5, hi: 0.8 };

    /// Range from `lo` to `hi`.
    ///
    /// # Errors
    /// If not `0 < lo <= hi < 1`.
    pub fn new(lo: f64, hi: f64) -> Result<Self> {
        within("beta_lo", lo, 1e-6..1.0, "1e-6 <= beta_lo < 1")?;
        within("beta_hi", hi, lo..1.0, "beta_lo <= beta_hi < 1")?;
        Ok(Self { lo, hi })
    }

    /// The least factor.
    #[must_use]
    pub const fn lo(self) -> f64 {
        self.lo
    }

    /// The greatest factor.
    #[must_use]
    pub const fn hi(self) -> f64 {
        self.hi
    }

    /// The factor nearest to `beta` that is allowed.
    fn clamp(self, beta: f64) -> f64 {
        beta.clamp(self.lo, self.hi)
    }
}

impl Default for BackoffRange {
    fn default() -> Self {
        Self::PAPER
    }
}

/// A backlogged link on a flow's path, forward or reverse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackloggedLink {
    /// Packets waiting at the link when the link's queue overflows, `q_j`.
    pub queue_packets: f64,
    /// Rate of the flow in packets per second, `B_j`.
    pub rate_pps: f64,
}

/// The time between two congestion events of synchronised flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epoch {
    /// Time in round trips, of whatever length each is.
    pub rtts: f64,
    /// Time in two-way propagation times `T`.
    pub base_rtts: f64,
}

/// The share of the link that synchronised flows use, with a buffer of `phi` DBP and a cut to `beta` of the window:
///
/// ```text
/// eta = 1                                             if beta m >= 1
/// eta = m^2 (1 - beta^2) / (m^2 + 1 - 2 beta m)       otherwise
/// ```
///
/// Not a matter of alpha. Below one DBP a window `w` is sent at `w/T`, above at `B`: a cycle from `beta m` to `m` DBP
/// carries `(m^2 - beta^2 m^2)/2` and takes `(1 - beta m) + (m^2 - 1)/2`, in units that cancel. Flows that do not lose
/// together use more (section II.A), with many of them as much as [`mean_backoff`] in place of `beta` gives.
///
/// # Errors
/// A buffer not in 0 <= phi <= 1e6; a factor not in 0 <= beta < 1.
pub fn efficiency(phi: f64, beta: f64) -> Result<f64> {
    let (m, beta) = (1.0 + buffer(phi)?, backoff_factor(beta)?);
    if beta * m >= 1.0 {
        return Ok(1.0);
    }
    Ok((m * m * (1.0 - beta * beta) / (m * m + 1.0 - 2.0 * beta * m)).min(1.0))
}

/// (4): `RTTmin / RTTmax`, within `limits`.
///
/// # Errors
/// If not `0 < rtt_min <= rtt_max`, both finite.
pub fn backoff(rtt_min_s: f64, rtt_max_s: f64, limits: BackoffRange) -> Result<f64> {
    positive("rtt_min", rtt_min_s)?;
    within("rtt_max", rtt_max_s, rtt_min_s..=f64::MAX, "rtt_max >= rtt_min, and finite")?;
    Ok(limits.clamp(rtt_min_s / rtt_max_s))
}

/// (3) with (4) at one queue: `1 / (1 + phi)`, within `limits`.
///
/// # Errors
/// A buffer not in 0 <= phi <= 1e6 DBP.
pub fn backoff_for_buffer(phi: f64, limits: BackoffRange) -> Result<f64> {
    Ok(limits.clamp(1.0 / (1.0 + buffer(phi)?)))
}

/// (5): `alpha = 2 (1 - beta)` packets per round trip, which keeps `alpha / (1 - beta)` at standard TCP's 1 / 0.5, and
/// with it the mean peak window: fair among adaptive flows, friendly to standard ones.
///
/// # Errors
/// A factor not in 0 <= beta < 1.
pub fn increase(beta: f64) -> Result<f64> {
    Ok(2.0 * (1.0 - backoff_factor(beta)?))
}

/// (6): `RTTmax = T + sum_j q_j / B_j` in seconds, over the links with a backlog.
///
/// # Errors
/// A propagation time or a rate that is not above 0, a queue not in 0..=1e12 packets, a sum that is not finite.
pub fn rtt_max_s(base_rtt_s: f64, hops: &[BackloggedLink]) -> Result<f64> {
    let mut rtt = positive("base_rtt", base_rtt_s)?;
    for hop in hops {
        let queue = within("queue", hop.queue_packets, 0.0..=1e12, "0 <= queue <= 1e12 packets")?;
        rtt += queue / positive("rate", hop.rate_pps)?;
    }
    positive("rtt_max", rtt)
}

/// (7): `beta = T / (T + sum_j q_j / B_j)`, within `limits`. Then `beta w / T = w / RTTmax` (8): all the queues just
/// empty and the flow keeps its rate.
///
/// # Errors
/// As [`rtt_max_s`].
pub fn backoff_over(base_rtt_s: f64, hops: &[BackloggedLink], limits: BackoffRange) -> Result<f64> {
    backoff(base_rtt_s, rtt_max_s(base_rtt_s, hops)?, limits)
}

/// Weight of a flow's mean peak window, `alpha / (lambda (1 - beta))`, with `lambda` the share of congestion events at
/// which the flow loses (section III; exact for losses that do not depend on the window). The mean peaks of two flows
/// at one link are in the proportion of their weights.
///
/// # Errors
/// An increase that is not above 0; a factor not in 0 <= beta < 1; a share not in 0 < lambda <= 1.
pub fn peak_window_weight(alpha: f64, beta: f64, lambda: f64) -> Result<f64> {
    Ok(positive("alpha", alpha)? / (losing_share(lambda)? * (1.0 - backoff_factor(beta)?)))
}

/// The mean over round trips of a synchronised flow's window, as a share of its peak: `(1 + beta) / 2`. Equal peaks are
/// not equal throughput: at 0.8 a flow carries 1.8 / 1.5 = 1.2 times what one of the same peak carries at 0.5. The
/// paper compares peaks.
///
/// # Errors
/// A factor not in 0 <= beta < 1.
pub fn mean_over_peak(beta: f64) -> Result<f64> {
    Ok(f64::midpoint(1.0, backoff_factor(beta)?))
}

/// `R- / R+` of (1) and (2) for synchronised flows, by which the throughput falls at a congestion event: `1 / (beta
/// m)`, or 1 if the queue does not empty.
///
/// # Errors
/// A buffer not in 0 <= phi <= 1e6 DBP; a factor not in 1e-6 <= beta < 1.
pub fn throughput_ratio(phi: f64, beta: f64) -> Result<f64> {
    let beta = within("beta", beta, 1e-6..1.0, "1e-6 <= beta < 1")?;
    Ok((1.0 / (beta * (1.0 + buffer(phi)?))).max(1.0))
}

/// `lambda beta + 1 - lambda`: the mean factor of a flow that loses at the share `lambda` of the congestion events. The
/// mean factor takes the place of `beta` where flows are not synchronised (section VI).
///
/// # Errors
/// A factor not in 0 <= beta < 1; a share not in 0 < lambda <= 1.
pub fn mean_backoff(beta: f64, lambda: f64) -> Result<f64> {
    let lambda = losing_share(lambda)?;
    Ok(lambda * backoff_factor(beta)? + (1.0 - lambda))
}

/// Congestion epochs until the windows have gone `rise` of the way to their equilibrium: `ln(1 - rise) / ln(beta)` with
/// the largest factor in the network (section VI), or the largest [`mean_backoff`].
///
/// Of the paper's figures for 0.8, 7 epochs to 80 % is this formula's 7.2 and 12 to 95 % is not: it gives 13.4, and
/// [`risen_after`] 12 is 93 %.
///
/// # Errors
/// A factor not in 0 < beta < 1; a rise not in 0 <= rise < 1.
pub fn convergence_epochs(beta: f64, rise: f64) -> Result<f64> {
    let beta = within("beta", beta, f64::MIN_POSITIVE..1.0, "0 < beta < 1")?;
    let rise = within("rise", rise, 0.0..1.0, "0 <= rise < 1: the end is never reached")?;
    Ok((1.0 - rise).ln() / beta.ln())
}

/// How far the windows have gone towards their equilibrium after `epochs` congestion epochs: `1 - beta^epochs`.
///
/// # Errors
/// A factor not in 0 <= beta < 1; epochs below 0.
pub fn risen_after(beta: f64, epochs: f64) -> Result<f64> {
    let epochs = within("epochs", epochs, 0.0..=f64::MAX, "epochs >= 0, and finite")?;
    Ok(1.0 - backoff_factor(beta)?.powf(epochs))
}

/// How long an epoch of `flows` synchronised flows with the same `alpha`, `beta` and T is, on a link of `dbp_packets`.
/// In round trips `(1 - beta) m W / alpha` with `W = B T / n`: with (5) it is `m W / 2` whatever `beta` is, so adaptive
/// flows lose as often as standard ones (section IV.A). In time a round trip is T while the queue is empty, and `w / B`
/// while it is not.
///
/// # Errors
/// A buffer not in 0 <= phi <= 1e6 DBP; a factor not in 0 <= beta < 1; an increase, a DBP or a window `W / alpha` that
/// is not above 0; no flow.
pub fn epoch(phi: f64, beta: f64, alpha: f64, dbp_packets: f64, flows: u64) -> Result<Epoch> {
    let (m, beta) = (1.0 + buffer(phi)?, backoff_factor(beta)?);
    let n = within("flows", flows as f64, 1.0.., "flows >= 1")?;
    let per_step = positive("dbp", positive("dbp", dbp_packets)? / n / positive("alpha", alpha)?)?;
    let from = beta * m;
    let empty = (1.0 - from).max(0.0);
    let queued = (m * m - from.max(1.0) * from.max(1.0)) / 2.0;
    Ok(Epoch { rtts: (m - from) * per_step, base_rtts: (empty + queued) * per_step })
}

fn buffer(phi: f64) -> Result<f64> {
    within("phi", phi, 0.0..=1e6, "0 <= phi <= 1e6 delay-bandwidth products")
}

fn backoff_factor(beta: f64) -> Result<f64> {
    within("beta", beta, 0.0..1.0, "0 <= beta < 1")
}

fn losing_share(lambda: f64) -> Result<f64> {
    within(
        "losing_share",
        lambda,
        1e-12..=1.0,
        "0 < losing_share <= 1, the share of congestion events at which the flow loses",
    )
}

#[cfg(test)]
mod tests;
