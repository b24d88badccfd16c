//! TAQ's Markov chains of one TCP flow that loses packets.
//!
//! Chen, Subramanian, Iyengar and Ford, "TAQ: Enhancing Fairness and Performance Predictability in Small Packet
//! Regimes" (EuroSys 2014), section 3.1: a step is a round trip (an *epoch*), a state `S_n` is a window of `n` packets,
//! each lost with probability `p` on its own; `q = 1 - p`. A window that arrives whole is followed by one of `n + 1`; a
//! fast retransmission repairs a loss if `n >= 4`, and halves; anything else waits for the timer, in idle states `b_k`,
//! before `S_1` sends one packet again.
//!
//! - [`Back::Partial`], the paper's figure 4: one idle state `b*` for all repeated timeouts, of the mean wait of
//!   equation (8).
//! - [`Back::Open`], its figure 5: a state for each of the first back-offs, "at least `k`" for the rest. The paper
//!   omits the algebra.
//! - [`Back::Capped`], ours: the last stage repeats, as in stacks that cap their timer (RFC 6298, 2.5).
//!
//! Where we differ. The paper's equation (5) has each stage of the back-off `p` times as often as the one before, but
//! by its own text a timer is backed off until new data are acknowledged, in `S_4`, so that a loss in `S_2` or `S_3`
//! goes on with it too: the ratio is `1 - q^6` ([`stage_ratio`]), which puts the tipping point at 0.109
//! ([`tipping_point`]).
//!
//! What the paper does not have, so that the chain can stand for the TCP of today ([`crate::operating`]): windows
//! beyond 6, a timer of any length and a probe before it, other rules for the end of a back-off, selective
//! acknowledgments.

mod idle;
mod windows;

#[cfg(test)]
mod tests;

use crate::Result;
use crate::domain::{positive, within};

pub use idle::Silences;
use windows::Outcome;

/// Greatest window of a chain, packets.
pub const WMAX: u32 = 10_000;
/// Most stages of a back-off beyond the first.
pub const STAGES: u32 = 16;
const PARTIAL_DOMAIN: &str = "0 <= loss < 0.5 for the partial chain, whose mean wait is 1 / (1 - 2 loss); only a \
    capped chain goes beyond";
const OPEN_DOMAIN: &str = "0 <= loss < 0.5 for a chain with an open last stage, whose mean wait is infinite beyond; a \
    capped chain goes on";
/// Longest timer, epochs.
const T0_MAX: f64 = 1e6;
const T0_DOMAIN: &str = "1 <= t0 <= 1000000 epochs: no timer runs out before an answer can come";

/// Event that ends the back-off of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackoffUntil {
    /// Any new ACK: memory through `S_1`. Stacks with timestamps (RFC 7323), where a retransmission gives a valid
    /// sample.
    NewAck,
    /// The first ACK of a packet that was sent once (Karn; RFC 6298, section 5), while limited transmit (RFC 3042) is
    /// on. Whether `S_2` sends such packets first is decided by the holes that the lost window left. Mostly `S_2` is
    /// lost, and one packet of it: for a hole alone that is `2 p q` of `1 - q^2`, and what its survivor makes the
    /// sender send next must not be lost either, so that one hole is left with probability `h = 2 q^2 / (1 + q)`. Then
    /// the first packet of `S_2` is new, and it has to arrive; else the first is a retransmission, and both have to.
    NewSample,
    /// The caption of the paper's figure 4: "`S_1` and `S_2` get expanded".
    S2,
    /// The paper's text: `S_4` is the first window that has new data acknowledged.
    S3,
}

impl BackoffUntil {
    /// Probability that what follows the expiry of a timer ends the back-off, if packets arrive with probability `q`:
    /// `q`, `q (h q + (1 - h) q^2)`, `q^3`, `q^6`. Where a loss in `S_3` can be repaired, with probability `s`, it goes
    /// back to `S_2` with its memory: `q^6 / (1 - s q^2)`.
    fn ends(self, outcomes: &[Outcome]) -> f64 {
        let (q, repaired) = (outcomes[1].whole, outcomes[3].halved);
        match self {
            Self::NewAck => q,
            Self::NewSample => {
                let one_hole = 2.0 * q * q / (1.0 + q);
                q * (one_hole * q + (1.0 - one_hole) * q * q)
            }
            Self::S2 => q.powi(3),
            Self::S3 => q.powi(6) / (1.0 - repaired * q * q),
        }
    }
}

/// Losses that a fast retransmission can repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastRetransmit {
    /// One loss in a window of 4 and more, the paper's assumption for windows of up to 6.
    One,
    /// Any number of losses, as long as no retransmission is lost and two packets arrive: selective acknowledgments
    /// (RFC 6675) with limited transmit (RFC 3042), where two duplicate ACKs send two packets more, one of which has to
    /// arrive if there is no third. In windows of 3 and more.
    Sack,
}

/// Growth of a timer that expires again and again.
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

/// Parameters of a chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Greatest window, packets; 4 to [`WMAX`].
    pub wmax: u32,
    /// The timer before it is backed off, epochs; 1 to 10^6. Stage `k` is idle for `2^k T0 - 1` epochs.
    pub t0_epochs: f64,
    /// A wait before the timer's, epochs, 1 to 10^6, after which a packet is sent and nothing backed off: a tail loss
    /// probe (RFC 8985). The probe is a stage of its own before the others.
    pub probe_epochs: Option<f64>,
    /// Event that ends a back-off.
    pub backoff_ends: BackoffUntil,
    /// Losses that a fast retransmission can repair.
    pub repair: FastRetransmit,
}

impl Default for Settings {
    /// The paper's: windows of at most 6, a timer of two epochs, memory until `S_4`, one loss repaired.
    fn default() -> Self {
        Self {
            wmax: 6,
            t0_epochs: 2.0,
            probe_epochs: None,
            backoff_ends: BackoffUntil::S3,
            repair: FastRetransmit::One,
        }
    }
}

/// A stage of the back-off, as shares of all epochs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// Timer of the stage, epochs: `2^k T0`.
    pub timer_epochs: f64,
    /// Whether the stage is a tail loss probe, not a timeout.
    pub probe: bool,
    /// Whether the stage stands for all stages from here on, each `p` times as often as the one before.
    pub open: bool,
    /// Mean idle epochs of a visit.
    pub mean_idle_epochs: f64,
    /// `b_k`: epochs without a packet.
    pub idle: f64,
    /// Share of the epochs in `S_1` with the stage's back-off: a retransmission alone; also the visits of the stage per
    /// epoch.
    pub first: f64,
    /// Share of the epochs in `S_2` with memory of the stage's back-off.
    pub second: f64,
    /// Share of the epochs in `S_3` with memory of the stage's back-off.
    pub third: f64,
}

/// The stationary distribution of a chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Stationary {
    loss: f64,
    settings: Settings,
    /// Probability that the expiry of a timer is the last expiry of a back-off.
    ends: f64,
    sent: Vec<f64>,
    stages: Vec<Stage>,
}

/// The stationary distribution at a loss of `loss`.
///
/// # Errors
/// `loss` outside 0 <= loss < 1, or < 0.5 for [`Back::Partial`] and [`Back::Open`], whose mean wait is infinite from
/// there on (the paper's equations 8 to 10); settings outside what [`Settings`] and [`STAGES`] say.
pub fn stationary(back: Back, settings: Settings, loss: f64) -> Result<Stationary> {
    let p = match back {
        Back::Partial => within("loss", loss, 0.0..0.5, PARTIAL_DOMAIN),
        Back::Open(_) => within("loss", loss, 0.0..0.5, OPEN_DOMAIN),
        Back::Capped(_) => within("loss", loss, 0.0..1.0, "0 <= loss < 1"),
    }?;
    let Settings { wmax, t0_epochs, repair, .. } = settings;
    within("wmax", f64::from(wmax), 4.0..=f64::from(WMAX), "4 <= wmax <= 10000 packets")?;
    within("t0", t0_epochs, 1.0..=T0_MAX, T0_DOMAIN)?;
    within("probe", settings.probe_epochs.unwrap_or(1.0), 1.0..=T0_MAX, "1 <= probe <= 1000000 epochs")?;
    if let Back::Open(k) | Back::Capped(k) = back {
        within("stages", f64::from(k), 0.0..=f64::from(STAGES), "0 <= stages <= 16")?;
    }
    let outcomes = windows::outcomes(p, wmax as usize, repair);
    let visits = windows::climb(&outcomes);
    let stages = match back {
        Back::Partial => {
            let timeouts = |n: usize| visits[n] * outcomes[n].timeout;
            let simple = (4..visits.len()).map(timeouts).sum();
            let repeated = (1..4).map(timeouts).sum();
            vec![Stage::new(t0_epochs, None, simple), Stage::new(t0_epochs, Some(p), repeated)]
        }
        Back::Open(last) => backed_off(&outcomes, settings, last, Some(p), visits[1]),
        Back::Capped(last) => backed_off(&outcomes, settings, last, None, visits[1]),
    };
    Ok(Stationary { loss: p, settings, ends: settings.backoff_ends.ends(&outcomes), sent: visits, stages }
        .normalised())
}

/// The stages of a full chain, of `visits` in all: with probability [`BackoffUntil::ends`] the back-off ends, else the
/// next stage follows, and after the last the last, which is open if it has a `ratio`.
fn backed_off(
    outcomes: &[Outcome],
    settings: Settings,
    last: u32,
    ratio: Option<f64>,
    visits: f64,
) -> Vec<Stage> {
    let ends = settings.backoff_ends.ends(outcomes);
    let backed_off =
        (0..=last).map(|k| (f64::from(1_u32 << k) * settings.t0_epochs, ratio.filter(|_| k == last)));
    let timers: Vec<_> =
        settings.probe_epochs.map(|probe| (probe, None)).into_iter().chain(backed_off).collect();
    let mut entered = visits * ends;
    let mut stages = Vec::with_capacity(timers.len());
    for (i, &(timer, ratio)) in timers.iter().enumerate() {
        let mut stage =
            Stage::new(timer, ratio, if i + 1 == timers.len() { entered / ends } else { entered });
        if settings.backoff_ends != BackoffUntil::NewAck {
            stage.second = stage.first * outcomes[1].whole;
        }
        if settings.backoff_ends == BackoffUntil::S3 {
            stage.second /= 1.0 - outcomes[3].halved * outcomes[2].whole;
            stage.third = stage.second * outcomes[2].whole;
        }
        stage.probe = settings.probe_epochs.is_some() && i == 0;
        stages.push(stage);
        entered *= 1.0 - ends;
    }
    stages
}

impl Stage {
    /// A stage of `visits`; with a `ratio`, the stages of its timer, of the double and so on in one, each rarer than
    /// the one before by the ratio.
    fn new(timer_epochs: f64, ratio: Option<f64>, visits: f64) -> Self {
        let mean = ratio.map_or(1.0, |r| (1.0 - r) / (1.0 - 2.0 * r));
        let mean_idle_epochs = timer_epochs * mean - 1.0;
        Self {
            timer_epochs,
            probe: false,
            open: ratio.is_some(),
            mean_idle_epochs,
            idle: visits * mean_idle_epochs,
            first: visits,
            second: 0.0,
            third: 0.0,
        }
    }
}

impl Stationary {
    /// Turns visits into shares.
    fn normalised(mut self) -> Self {
        self.sent[0] = self.stages.iter().map(|s| s.idle).sum();
        let total: f64 = self.sent.iter().sum();
        for share in &mut self.sent {
            *share /= total;
        }
        self.sent.resize(self.settings.wmax as usize + 1, 0.0);
        for s in &mut self.stages {
            for share in [&mut s.idle, &mut s.first, &mut s.second, &mut s.third] {
                *share /= total;
            }
        }
        self
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

    /// Mean packets sent in an epoch, lost packets included.
    #[must_use]
    pub fn packets_per_epoch(&self) -> f64 {
        self.sent.iter().enumerate().map(|(n, share)| n as f64 * share).sum()
    }

    /// Timeouts per epoch, repeated timeouts included.
    #[must_use]
    pub fn timeouts_per_epoch(&self) -> f64 {
        self.stages.iter().filter(|s| !s.probe).map(|s| s.first).sum()
    }

    /// Loss for which the distribution was computed.
    #[must_use]
    pub const fn loss(&self) -> f64 {
        self.loss
    }

    /// Parameters of the chain.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// How much rarer each stage of the back-off is than the one before, read off the solved chain: `1 - q^6` with memory
/// through `S_3`, `1 - q^3` through `S_2`, `p` through `S_1`.
///
/// # Errors
/// `loss` outside 0 < loss < 1.
pub fn stage_ratio(backoff_ends: BackoffUntil, loss: f64) -> Result<f64> {
    let p = within("loss", loss, f64::MIN_POSITIVE..1.0, "0 < loss < 1")?;
    let chain = stationary(Back::Capped(2), Settings { backoff_ends, ..Settings::default() }, p)?;
    Ok(chain.stages[1].first / chain.stages[0].first)
}

/// Mean idle epochs of a timeout if the timer is never capped: `T0 (1 - r) / (1 - 2r) - 1`, `r` the [`stage_ratio`];
/// infinite from the [`tipping_point`] on.
///
/// # Errors
/// `loss` outside 0 < loss < 1, `t0_epochs` outside 1 to 10^6.
pub fn mean_idle_uncapped(backoff_ends: BackoffUntil, t0_epochs: f64, loss: f64) -> Result<f64> {
    let t0 = within("t0", t0_epochs, 1.0..=T0_MAX, T0_DOMAIN)?;
    let r = stage_ratio(backoff_ends, loss)?;
    Ok(if 2.0 * r < 1.0 { t0 * (1.0 - r) / (1.0 - 2.0 * r) - 1.0 } else { f64::INFINITY })
}

/// The loss from which on the mean wait of an uncapped timer is infinite, because each stage is twice as long as the
/// one before and half as often: by bisection on the solved chain.
#[must_use]
pub fn tipping_point(backoff_ends: BackoffUntil) -> f64 {
    let (mut low, mut high) = (1e-9, 0.9);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        match stage_ratio(backoff_ends, middle) {
            Ok(ratio) if 2.0 * ratio < 1.0 => low = middle,
            _ => high = middle,
        }
    }
    0.5 * (low + high)
}

/// The tipping point in closed form, where `packets` in a row have to arrive to end a back-off: `1 - 2^(-1/packets)`,
/// so 0.1091 with memory through `S_3` (6 packets), 0.2063 through `S_2` (3), 1/2 through `S_1` (1). The first explains
/// the threshold of 0.1 that the paper found by experiment.
///
/// # Errors
/// `packets` of 0.
pub fn tipping_point_closed(packets: u32) -> Result<f64> {
    let packets = positive("packets", f64::from(packets))?;
    Ok(1.0 - 2_f64.powf(-1.0 / packets))
}
