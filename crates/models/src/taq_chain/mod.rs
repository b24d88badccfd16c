//! TAQ's Markov chains of one TCP flow that loses packets.
//!
//! Chen, Subramanian, Iyengar and Ford, "TAQ: Enhancing Fairness and Performance Predictability in Small Packet Regimes"
//! (EuroSys 2014), section 3.1: a step is a round trip (an *epoch*), a state `S_n` is a window of `n` packets, each lost with
//! probability `p` on its own; `q = 1 - p`. A window that arrives whole is followed by one of `n + 1`; a fast retransmission repairs
//! a loss if `n >= 4`, and halves; anything else waits for the timer, in idle states `b_k`, before `S_1` sends one packet again.
//!
//! - [`Back::Partial`], the paper's figure 4: one idle state `b*` for all repeated timeouts, of the mean wait of equation (8).
//! - [`Back::Open`], its figure 5: a state for each of the first back-offs, "at least `k`" for the rest. The paper omits the algebra.
//! - [`Back::Capped`], ours: the last stage repeats, as in stacks that cap their timer (RFC 6298, 2.5).
//!
//! Where we differ. The paper's equation (5) has each stage of the back-off `p` times as often as the one before, but by its own
//! text a timer is backed off until new data are acknowledged, in `S_4`, so that a loss in `S_2` or `S_3` goes on with it too: the
//! ratio is `1 - q^6` ([`stage_ratio`]), which puts the tipping point at 0.109 ([`tipping_point`]). Windows beyond the paper's 6, a
//! timer of any length, memory through `S_1` or `S_2` alone and the repair of several losses are generalisations.

mod idle;
mod windows;

#[cfg(test)]
mod tests;

use crate::Result;
use crate::domain::within;

pub use idle::Silences;

/// Greatest window of a chain, packets.
pub const WMAX: u32 = 10_000;
/// Most stages of a back-off beyond the first.
pub const STAGES: u32 = 16;

/// Up to which window a flow remembers that its timer is backed off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Any new ACK ends the back-off, as with timestamps (RFC 7323).
    S1,
    /// The caption of the paper's figure 4: "`S_1` and `S_2` get expanded".
    S2,
    /// The paper's text: `S_4` is the first window that has new data acknowledged.
    S3,
}

impl Memory {
    /// Packets in a row that have to arrive to end a back-off: `1 + .. + m`.
    #[must_use]
    pub const fn packets(self) -> i32 {
        match self {
            Self::S1 => 1,
            Self::S2 => 3,
            Self::S3 => 6,
        }
    }
}

/// What a fast retransmission can repair, in windows of 4 and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// One loss, the paper's assumption for windows of up to 6.
    One,
    /// Any number, as long as three packets arrive and no retransmission is lost: selective acknowledgments (RFC 6675).
    Sack,
}

/// What happens to a timer that expires again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Back {
    /// Figure 4: `b0`, and `b*` for all that has memory. For `p < 1/2`.
    Partial,
    /// Figure 5: stages 0 .. k, the last of which stands for all beyond, with waits in the paper's ratio `p`:
    /// `2^k T0 q / (1 - 2p) - 1` epochs on average. For `p < 1/2`. `Open(3)` is F3, "at least 1, 2, 3 back-offs".
    Open(u32),
    /// Stages 0 .. k, the last of which repeats: the timer is capped at `2^k T0`. `Capped(6)` is F64.
    Capped(u32),
}

/// What a chain is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Greatest window, packets; 4 to [`WMAX`].
    pub wmax: u32,
    /// The timer before it is backed off, epochs; 1 and more. Stage `k` is idle for `2^k T0 - 1` epochs.
    pub t0_epochs: f64,
    /// How long a back-off is remembered.
    pub memory: Memory,
    /// What a fast retransmission repairs.
    pub repair: Repair,
}

impl Default for Settings {
    /// The paper's: windows of at most 6, a timer of two epochs, memory until `S_4`, one loss repaired.
    fn default() -> Self {
        Self { wmax: 6, t0_epochs: 2.0, memory: Memory::S3, repair: Repair::One }
    }
}

/// A stage of the back-off, as shares of all epochs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// Its number: the timer is `2^k T0`.
    pub k: u32,
    /// Whether it stands for all stages from `k` on, each `p` times as often as the one before.
    pub open: bool,
    /// Mean idle epochs of a visit.
    pub mean_idle_epochs: f64,
    /// `b_k`: epochs without a packet.
    pub idle: f64,
    /// `S_1` with this back-off: a retransmission alone; also the visits of the stage per epoch.
    pub first: f64,
    /// `S_2` with memory of it.
    pub second: f64,
    /// `S_3` with memory of it.
    pub third: f64,
}

/// The stationary distribution of a chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Stationary {
    loss: f64,
    settings: Settings,
    sent: Vec<f64>,
    stages: Vec<Stage>,
}

/// The stationary distribution at a loss of `loss`.
///
/// # Errors
/// `loss` outside 0 <= loss < 1, or < 0.5 for [`Back::Partial`] and [`Back::Open`], whose mean wait is infinite from there on (the
/// paper's equations 8 to 10); settings outside what [`Settings`] and [`STAGES`] say.
pub fn stationary(back: Back, settings: Settings, loss: f64) -> Result<Stationary> {
    let p = match back {
        Back::Partial => within(
            "loss",
            loss,
            0.0..0.5,
            "0 <= loss < 0.5, the domain of the partial chain: 1 / (1 - 2 loss) is its mean wait",
        ),
        Back::Open(_) => {
            within("loss", loss, 0.0..0.5, "0 <= loss < 0.5, the domain of a chain with an open last stage")
        }
        Back::Capped(_) => within("loss", loss, 0.0..1.0, "0 <= loss < 1"),
    }?;
    let Settings { wmax, t0_epochs, memory, repair } = settings;
    within("wmax", f64::from(wmax), 4.0..=f64::from(WMAX), "4 <= wmax <= 10000 packets")?;
    within(
        "t0",
        t0_epochs,
        1.0..=1e6,
        "1 <= t0 <= 1000000 epochs: no timer runs out before an answer can come",
    )?;
    if let Back::Open(k) | Back::Capped(k) = back {
        within("stages", f64::from(k), 0.0..=f64::from(STAGES), "0 <= stages <= 16")?;
    }
    let outcomes = windows::outcomes(p, wmax as usize, repair);
    let mut visits = windows::climb(&outcomes);
    let halved_to = |n: usize| -> f64 {
        (2 * n..=2 * n + 1)
            .filter(|&m| m >= 4 && m < visits.len())
            .map(|m| visits[m] * outcomes[m].halved)
            .sum()
    };
    // S2 and S3 without memory, and all timeouts without it, before those who have just lost theirs are counted.
    let (second, third) = (halved_to(2), halved_to(3));
    let high: f64 = (4..visits.len()).map(|n| visits[n] * outcomes[n].timeout).sum();
    let low = second * outcomes[2].timeout + (second * outcomes[2].whole + third) * outcomes[3].timeout;
    let q = 1.0 - p;
    let mut stages = Vec::new();
    if back == Back::Partial {
        // All that is below S4 falls to b*; what climbs to S4 is what falls from there.
        let falls = high + second + third;
        visits[3] = falls / outcomes[3].whole;
        visits[2] = (visits[3] - third) / outcomes[2].whole;
        visits[1] = (visits[2] - second) / q;
        stages.push(Stage::new(0, false, t0_epochs, p, high));
        stages.push(Stage::new(0, true, t0_epochs, p, visits[1] - high));
    } else {
        // Each timeout without memory climbs to the first window without it, in the end; from m < 3 on some lose again below S4.
        let timeouts = (high + low) / q.powi(6 - memory.packets());
        (visits[2], visits[3]) = (second, third);
        match memory {
            Memory::S1 => visits[2] += timeouts,
            Memory::S2 => visits[3] += timeouts,
            Memory::S3 => {}
        }
        visits[3] += visits[2] * outcomes[2].whole;
        backed_off(&mut stages, &mut visits, back, &outcomes, memory, t0_epochs, timeouts);
    }
    Ok(Stationary::normalised(p, settings, visits, stages))
}

/// The stages of a full chain, entered `timeouts` times at stage 0, and their windows added to `visits`.
fn backed_off(
    stages: &mut Vec<Stage>,
    visits: &mut [f64],
    back: Back,
    outcomes: &[windows::Outcome],
    memory: Memory,
    t0: f64,
    timeouts: f64,
) {
    let (last, open) = match back {
        Back::Open(k) => (k, true),
        Back::Capped(k) => (k, false),
        Back::Partial => return,
    };
    let p = outcomes[1].timeout;
    let success = (1.0 - p).powi(memory.packets());
    let failure = stage_ratio_of(outcomes, memory);
    let mut entered = timeouts;
    for k in 0..=last {
        let visited = if k == last { entered / success } else { entered };
        let mut stage = Stage::new(k, open && k == last, t0, p, visited);
        if memory != Memory::S1 {
            stage.second = visited * outcomes[1].whole;
        }
        if memory == Memory::S3 {
            stage.third = stage.second * outcomes[2].whole;
        }
        visits[1] += stage.first;
        visits[2] += stage.second;
        visits[3] += stage.third;
        stages.push(stage);
        entered *= failure;
    }
}

/// `1 - q^packets` as a sum.
fn stage_ratio_of(outcomes: &[windows::Outcome], memory: Memory) -> f64 {
    let [_, one, two, three, ..] = outcomes else { return 0.0 };
    let through_two = one.timeout + one.whole * two.timeout;
    match memory {
        Memory::S1 => one.timeout,
        Memory::S2 => through_two,
        Memory::S3 => through_two + one.whole * two.whole * three.timeout,
    }
}

impl Stage {
    fn new(k: u32, open: bool, t0: f64, p: f64, visits: f64) -> Self {
        let timer = f64::from(1_u32 << k) * t0;
        let mean_timer = if open { timer * (1.0 - p) / (1.0 - 2.0 * p) } else { timer };
        let mean_idle_epochs = mean_timer - 1.0;
        Self {
            k,
            open,
            mean_idle_epochs,
            idle: visits * mean_idle_epochs,
            first: visits,
            second: 0.0,
            third: 0.0,
        }
    }
}

impl Stationary {
    fn normalised(loss: f64, settings: Settings, mut sent: Vec<f64>, mut stages: Vec<Stage>) -> Self {
        sent[0] = stages.iter().map(|s| s.idle).sum();
        let total: f64 = sent.iter().sum();
        for share in &mut sent {
            *share /= total;
        }
        sent.resize(settings.wmax as usize + 1, 0.0);
        for s in &mut stages {
            for share in [&mut s.idle, &mut s.first, &mut s.second, &mut s.third] {
                *share /= total;
            }
        }
        Self { loss, settings, sent, stages }
    }

    /// Share of the epochs with `n` packets sent, by `n` from 0 to the greatest window.
    #[must_use]
    pub fn sent(&self) -> &[f64] {
        &self.sent
    }

    /// Stages of the back-off; of the partial chain `b0` and `b*`.
    #[must_use]
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// Share of the epochs in which nothing is sent.
    #[must_use]
    pub fn silent(&self) -> f64 {
        self.sent[0]
    }

    /// Share of the epochs with nothing or the retransmission of a timeout: what the paper's tipping point is about.
    #[must_use]
    pub fn silent_or_first(&self) -> f64 {
        self.sent[0] + self.sent[1]
    }

    /// Mean packets sent in an epoch, those that get lost among them.
    #[must_use]
    pub fn packets_per_epoch(&self) -> f64 {
        self.sent.iter().enumerate().map(|(n, share)| n as f64 * share).sum()
    }

    /// Timeouts per epoch, repeated ones among them.
    #[must_use]
    pub fn timeouts_per_epoch(&self) -> f64 {
        self.sent[1]
    }
}

/// How much rarer each stage of the back-off is than the one before: `1 - q^6` with memory through `S_3`, `1 - q^3` through
/// `S_2`, `p` through `S_1`; read off the solved chain.
///
/// # Errors
/// `loss` outside 0 < loss < 1.
pub fn stage_ratio(memory: Memory, loss: f64) -> Result<f64> {
    let p = within("loss", loss, f64::MIN_POSITIVE..1.0, "0 < loss < 1")?;
    let chain = stationary(Back::Capped(2), Settings { memory, ..Settings::default() }, p)?;
    Ok(chain.stages[1].first / chain.stages[0].first)
}

/// Mean idle epochs of a timeout if the timer is never capped: `T0 (1 - r) / (1 - 2r) - 1`, `r` the [`stage_ratio`]; infinite
/// from the [`tipping_point`] on.
///
/// # Errors
/// `loss` outside 0 < loss < 1, `t0_epochs` below 1.
pub fn mean_idle_uncapped(memory: Memory, t0_epochs: f64, loss: f64) -> Result<f64> {
    let t0 = within("t0", t0_epochs, 1.0..=1e6, "1 <= t0 <= 1000000 epochs")?;
    let r = stage_ratio(memory, loss)?;
    Ok(if 2.0 * r < 1.0 { t0 * (1.0 - r) / (1.0 - 2.0 * r) - 1.0 } else { f64::INFINITY })
}

/// The loss from which on the mean wait of an uncapped timer is infinite, in closed form: `1 - 2^(-1/6)` = 0.1091 with memory
/// through `S_3`, `1 - 2^(-1/3)` = 0.2063 through `S_2`, 1/2 through `S_1`.
#[must_use]
pub fn tipping_point(memory: Memory) -> f64 {
    1.0 - 2_f64.powf(-1.0 / f64::from(memory.packets()))
}

/// The same by bisection on the solved chain: where the back-off's stages are twice as long and half as often as the one before.
#[must_use]
pub fn tipping_point_of_chain(memory: Memory) -> f64 {
    let (mut low, mut high) = (1e-9, 0.9);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        match stage_ratio(memory, middle) {
            Ok(ratio) if 2.0 * ratio < 1.0 => low = middle,
            _ => high = middle,
        }
    }
    0.5 * (low + high)
}
