//! Estimates of an adaptive sender: the greatest round-trip time, which must be forgotten when the path changes (9), or
//! instead of it the throughput before and after a backoff (10).
//!
//! Shorten and Leith, sections IV.D and V. Both equations are lost in the copy at hand. Of (9) the text says: fading
//! memory, reset at each congestion event, a coefficient below 1 that corresponds to the filter of srtt (gain 1/8).
//! [`Fade`] has the two readings of that.

use super::BackoffRange;
use crate::Result;
use crate::domain::{positive, within};

/// How RTTmax is made to forget, once at each congestion event, after `beta` was taken from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fade {
    /// `RTTmax <- RTTmin + gamma (RTTmax - RTTmin)`: as H-TCP of the same group does (there with 0.95). The first
    /// reading.
    TowardsMin {
        /// Part of the excess that is kept at an event, 0 to 1.
        gamma: f64,
    },
    /// `RTTmax <- gamma RTTmax + (1 - gamma) srtt`: the other reading. A queue that never empties holds srtt, and so
    /// RTTmax, up.
    TowardsSrtt {
        /// Part of the old value that is kept at an event, 0 to 1.
        gamma: f64,
    },
}

impl Fade {
    /// Towards RTTmin with 7/8, the memory of srtt.
    pub const PAPER: Self = Self::TowardsMin { gamma: 0.875 };

    /// RTTmax after a congestion event, in seconds.
    ///
    /// # Errors
    /// If not `0 < rtt_min <= srtt <= rtt_max`, all finite, or not 0 <= gamma <= 1.
    pub fn apply(self, rtt_min_s: f64, srtt_s: f64, rtt_max_s: f64) -> Result<f64> {
        positive("rtt_min", rtt_min_s)?;
        within("rtt_max", rtt_max_s, rtt_min_s..=f64::MAX, "rtt_max >= rtt_min, and finite")?;
        within("srtt", srtt_s, rtt_min_s..=rtt_max_s, "rtt_min <= srtt <= rtt_max")?;
        let (Self::TowardsMin { gamma } | Self::TowardsSrtt { gamma }) = self;
        within("gamma", gamma, 0.0..=1.0, "0 <= gamma <= 1")?;
        let goal = if matches!(self, Self::TowardsMin { .. }) { rtt_min_s } else { srtt_s };
        Ok(goal + gamma * (rtt_max_s - goal))
    }
}

/// Part of an excess of RTTmax over RTTmin that is left after `events` congestion events without a queue:
/// `gamma^events`. Both readings give it, since srtt is RTTmin then.
///
/// # Errors
/// A coefficient not in 0 <= gamma <= 1.
pub fn excess_after(gamma: f64, events: u32) -> Result<f64> {
    let gamma = within("gamma", gamma, 0.0..=1.0, "0 <= gamma <= 1")?;
    Ok(gamma.powf(f64::from(events)))
}

/// The congestion events after which only `left` of the excess is left: `ln(left) / ln(gamma)`.
///
/// # Errors
/// A coefficient not in 0 < gamma < 1; a rest not in 0 < left <= 1.
pub fn events_until(gamma: f64, left: f64) -> Result<f64> {
    let gamma = within(
        "gamma",
        gamma,
        f64::MIN_POSITIVE..1.0,
        "0 < gamma < 1: what is kept whole is never forgotten",
    )?;
    let left = within("left", left, f64::MIN_POSITIVE..=1.0, "0 < left <= 1")?;
    Ok(left.ln() / gamma.ln())
}

/// (10): `beta(k) B-(k) / B+(k)` within `limits`, with `B-` and `B+` the throughput just before and just after
/// congestion event k, in any one unit.
///
/// It finds its value from below in one step and never from above: with a `beta` that leaves a queue `B+ = B-`,
/// whatever the queue. At half a DBP (target 0.667) 0.5 becomes 0.667, and 0.8 stays for ever. [`ThroughputBackoff`]
/// has a remedy.
///
/// # Errors
/// A factor not in 0 < beta < 1; a throughput that is not above 0.
pub fn throughput_backoff(beta: f64, before: f64, after: f64, limits: BackoffRange) -> Result<f64> {
    let beta = within("beta", beta, f64::MIN_POSITIVE..1.0, "0 < beta < 1")?;
    let (before, after) = (positive("before", before)?, positive("after", after)?);
    Ok(limits.clamp(beta * (before / after)))
}

/// When [`ThroughputBackoff`] begins anew. Not in the paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reset {
    /// A relative change of `B-` from one event to the next above which the path is taken to have changed.
    pub change: f64,
    /// Number of events after which the estimate begins anew in any case; 0 for never.
    pub every: u32,
}

impl Reset {
    /// 20 % (H-TCP's rule), and each 50 events.
    pub const HTCP: Self = Self { change: 0.2, every: 50 };
}

/// The recursion (10), with or without a reset to the lower limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThroughputBackoff {
    limits: BackoffRange,
    reset: Option<Reset>,
    beta: f64,
    last_before: Option<f64>,
    events: u64,
}

impl ThroughputBackoff {
    /// Starts at the lower limit, with no event seen.
    #[must_use]
    pub const fn new(limits: BackoffRange, reset: Option<Reset>) -> Self {
        Self { limits, reset, beta: limits.lo(), last_before: None, events: 0 }
    }

    /// Starts at the factor `beta` instead of the lower limit.
    ///
    /// # Errors
    /// A factor outside the limits.
    pub fn starting_at(self, beta: f64) -> Result<Self> {
        let domain = self.limits.lo()..=self.limits.hi();
        Ok(Self { beta: within("beta", beta, domain, "a factor between beta_lo and beta_hi")?, ..self })
    }

    /// The factor for the next event.
    #[must_use]
    pub const fn beta(&self) -> f64 {
        self.beta
    }

    /// A congestion event at which the window was cut to `beta` of itself, with the throughput just before and just
    /// after; gives the factor for the next.
    ///
    /// # Errors
    /// A throughput that is not above 0; nothing has changed then.
    pub fn on_congestion(&mut self, before: f64, after: f64) -> Result<f64> {
        let next = throughput_backoff(self.beta, before, after, self.limits)?;
        self.events += 1;
        let anew = self.reset.is_some_and(|reset| {
            let changed = self.last_before.is_some_and(|last| (before - last).abs() > reset.change * last);
            changed || self.events == u64::from(reset.every)
        });
        self.last_before = Some(before);
        if anew {
            self.events = 0;
        }
        self.beta = if anew { self.limits.lo() } else { next };
        Ok(self.beta)
    }
}
