//! Windows of the first phase of a connection: slow start to any base, and Burst TCP, whose steps are large at first
//! and shrink.
//!
//! Gonçalves, "Burst TCP: an approach for benefiting mice flows" (dissertation, UFPE), chapter 4. A window is thought
//! of twice: once per round trip (the flow level, [`BurstTcp::flow_level`], section 4.2's first equation), and at each
//! ACK (the packet level, [`Growth::on_ack`], its pseudo-code in Fig. 9). [`Path`] is a third way to the same: when
//! each packet of a file is acknowledged on an empty path, with every serialization and every queue.
//!
//! Where we differ. As printed, the pseudo-code goes on above the mice threshold with negative steps and never leaves
//! it; the text has standard TCP follow. The default is the text ([`Form::Guarded`]); both printed forms are kept.
//! Nothing is lost here: ssthresh is beyond reach and so is the receiver's window.

mod path;
#[cfg(test)]
mod tests;
mod workload;

use crate::Result;
use crate::domain::within;
pub use path::{Hop, Path};
pub use workload::Pareto;

/// The most packets of a file: time and memory for a file grow with the packets.
pub const MOST_PACKETS: u32 = 100_000;

/// Growth of the window once the window has reached the mice threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum After {
    /// Slow start: the letter of "standard TCP" with the window below ssthresh.
    #[default]
    SlowStart,
    /// Congestion avoidance, as if ssthresh were the threshold: the "smooth transition" of the text.
    CongestionAvoidance,
}

/// Version of the algorithm in the dissertation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The pseudo-code below the threshold, standard TCP from there on.
    Guarded(After),
    /// The pseudo-code to the letter (Fig. 9): above the threshold the step is negative, so the window stays at it.
    Printed,
    /// The ns-2 code of the appendix: the step is divided by the window before it is compared with zero, so near the
    /// threshold the window grows by a whole packet an ACK.
    Ns2,
}

impl Default for Form {
    fn default() -> Self {
        Self::Guarded(After::default())
    }
}

/// Burst TCP's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstTcp {
    f: u32,
    mice: u32,
    form: Form,
}

impl BurstTcp {
    /// Makes Burst TCP with smoothing-out factor `f` (the dissertation's good values are 4 to 8) and the mice threshold
    /// in packets (32).
    ///
    /// # Errors
    /// If `f` or `mice` is not in 1 to 1 000 000.
    pub fn new(f: u32, mice: u32, form: Form) -> Result<Self> {
        within("f", f64::from(f), 1.0..=1e6, "1 <= f <= 1 000 000")?;
        within("mice", f64::from(mice), 1.0..=1e6, "1 <= mice <= 1 000 000 packets")?;
        Ok(Self { f, mice, form })
    }

    /// The smoothing-out factor.
    #[must_use]
    pub fn f(&self) -> u32 {
        self.f
    }

    /// Windows per round trip at the flow level until `packets` are sent: `cwnd + floor((mice_t - cwnd)/f)`.
    ///
    /// The step ends at zero, so the window stays below `mice_t` by less than `f`; a negative one, from an initial
    /// window above the threshold, is none.
    ///
    /// # Errors
    /// If `initial` or `packets` is not in 1 to 100 000.
    pub fn flow_level(&self, initial: u32, packets: u32) -> Result<Rounds> {
        let step = |cwnd: f64| cwnd + f64::from(self.mice.saturating_sub(cwnd as u32) / self.f);
        Rounds::until(packets, initial, step)
    }

    /// The packet level, at one ACK.
    fn on_ack(&self, cwnd: f64) -> f64 {
        let inc = ((f64::from(self.mice) - cwnd) / f64::from(self.f)).floor();
        let step = match self.form {
            Form::Guarded(_) if cwnd < f64::from(self.mice) => inc.max(1.0) / cwnd,
            Form::Guarded(After::SlowStart) => 1.0,
            Form::Guarded(After::CongestionAvoidance) => 1.0 / cwnd,
            Form::Printed => (if inc == 0.0 { 1.0 } else { inc }) / cwnd,
            Form::Ns2 => {
                if inc == 0.0 {
                    1.0
                } else {
                    inc / cwnd
                }
            }
        };
        // A negative step from near one would leave no window.
        (cwnd + step).max(1.0)
    }
}

/// How a window grows with each new ACK, as long as nothing is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Growth {
    /// `cwnd + b - 1` at each ACK, so that the window is `b^k` times the initial after `k` round trips; slow start if
    /// `b` is 2.
    SlowStart {
        /// `b`, above 1 and at most 1024.
        base: f64,
    },
    /// Burst TCP.
    Burst(BurstTcp),
}

impl Growth {
    /// Slow start to the base 2.
    pub const SLOW_START: Self = Self::SlowStart { base: 2.0 };

    /// The window after one new ACK, in packets.
    ///
    /// # Errors
    /// If `cwnd` is not a finite number from 1 on, or a base not in 1 < b <= 1024.
    pub fn on_ack(&self, cwnd: f64) -> Result<f64> {
        self.check()?;
        Ok(self.grown(within("cwnd", cwnd, 1.0..=f64::MAX, "a window of 1 packet or more")?))
    }

    /// The window after one new ACK, for a window and a growth that were checked.
    fn grown(&self, cwnd: f64) -> f64 {
        match self {
            Self::SlowStart { base } => cwnd + (base - 1.0),
            Self::Burst(burst) => burst.on_ack(cwnd),
        }
    }

    /// Windows per round trip at the packet level until `packets` are sent: in each, all of the window is sent and
    /// acknowledged.
    ///
    /// # Errors
    /// If `initial` or `packets` is not in 1 to 100 000, or a base not in 1 < b <= 1024.
    pub fn rounds(&self, initial: u32, packets: u32) -> Result<Rounds> {
        self.check()?;
        Rounds::until(packets, initial, |cwnd| (0..whole(cwnd)).fold(cwnd, |cwnd, _| self.grown(cwnd)))
    }

    /// The first round that overflows a pipe (path and buffer together) of `pipe` packets: `None` if the windows of the
    /// first 100 000 packets fit.
    ///
    /// # Errors
    /// If `initial` or `pipe` is not in 1 to 100 000, or a base not in 1 < b <= 1024.
    pub fn overshoot(&self, initial: u32, pipe: u32) -> Result<Option<Overshoot>> {
        let pipe = u64::from(packets("pipe", pipe)?);
        let rounds = self.rounds(initial, MOST_PACKETS)?;
        let Some(at) = rounds.windows.iter().position(|cwnd| whole(*cwnd) > pipe) else { return Ok(None) };
        let before = if at > 0 { rounds.sent[at - 1] } else { 0 };
        let lost = whole(rounds.windows[at]) - pipe;
        Ok(Some(Overshoot { sent: before + pipe, lost, round: at + 1 }))
    }

    fn check(&self) -> Result<()> {
        match self {
            Self::SlowStart { base } => {
                // Next above 1: growth that does not show never ends.
                within("base", *base, 1.0 + f64::EPSILON..=1024.0, "1 < base <= 1024").map(drop)
            }
            Self::Burst(_) => Ok(()),
        }
    }
}

/// Windows, one per round trip.
#[derive(Clone, Debug, PartialEq)]
pub struct Rounds {
    /// The window of each round in packets; the whole part of the window is sent.
    pub windows: Vec<f64>,
    /// Packets sent up to the end of each round.
    pub sent: Vec<u64>,
}

impl Rounds {
    /// Number of rounds.
    #[must_use]
    pub fn count(&self) -> usize {
        self.windows.len()
    }

    fn until(wanted: u32, initial: u32, mut next: impl FnMut(f64) -> f64) -> Result<Self> {
        let wanted = u64::from(packets("packets", wanted)?);
        let mut cwnd = f64::from(packets("initial", initial)?);
        let mut this = Self { windows: Vec::new(), sent: Vec::new() };
        let mut sent = 0;
        loop {
            sent += whole(cwnd);
            this.windows.push(cwnd);
            this.sent.push(sent);
            if sent >= wanted {
                return Ok(this);
            }
            cwnd = next(cwnd);
        }
    }
}

/// The first round that a pipe cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overshoot {
    /// Packets sent before the first that is lost.
    pub sent: u64,
    /// Packets of that round that the pipe has no room for.
    pub lost: u64,
    /// Number of the round, from 1.
    pub round: usize,
}

/// Whole packets that a window lets be under way: at least one.
fn whole(cwnd: f64) -> u64 {
    (cwnd as u64).max(1)
}

fn packets(parameter: &'static str, value: u32) -> Result<u32> {
    within(parameter, f64::from(value), 1.0..=f64::from(MOST_PACKETS), "1 to 100 000 packets")?;
    Ok(value)
}
