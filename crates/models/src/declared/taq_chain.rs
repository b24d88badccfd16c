//! Declarations of [`crate::taq_chain`].

use super::arguments::{Arguments, Refused};
use super::{
    Gives, Module, Output, SHARE, figure, flag, groups, models, number, parameters, to, tuples, word,
};
use crate::taq_chain::{
    Back, BackoffUntil, FastRetransmit, Settings, Silences, Stage, Stationary, mean_idle_uncapped,
    stage_ratio, stationary, tipping_point, tipping_point_closed,
};

const EPOCHS_MOST: f64 = 1e6;

parameters! {
    /// Loss probability of a packet; below 0.5 for the partial and the open chain.
    pub LOSS = number("loss", SHARE.without_high(), 0.1);
    /// Loss probability of a packet.
    LOSS_WITHIN = number("loss", SHARE.without_low().without_high(), 0.1);
    /// Chain of the paper: partial, f3 or f64, whose timer is capped at `2^stages` T0.
    pub CHAIN_WORD = word("chain", &[
        ("partial", "figure 4: one idle state for all repeated timeouts"),
        ("f3", "figure 5: the last of the stages stands for all beyond"),
        ("f64", "figure 5: the last of the stages repeats"),
    ]).or_word("f64");
    /// Number of back-offs beyond the first.
    STAGES = number("stages", to(0.0, 16.0).whole(), 3.0).or_none("3 of f3, 6 of f64, which is a cap of 64 T0");
    /// Greatest window of a flow.
    pub WMAX = number("wmax", to(4.0, 10_000.0).whole(), 6.0).or(6.0).unit("packets");
    /// First value of the timer, before any back-off; an epoch is a round trip.
    pub T0_EPOCHS = number("t0_epochs", to(1.0, EPOCHS_MOST), 2.0).or(2.0);
    /// Tail loss probe before the timer (RFC 8985).
    PROBE_EPOCHS = number("probe_epochs", to(1.0, EPOCHS_MOST), 1.5).or_none("no probe");
    /// Event that ends a back-off of the timer, as `Tcp.backoff_ends`.
    pub BACKOFF_ENDS = word("backoff_ends", &[
        ("new_ack", "any new ACK: with timestamps"),
        ("new_sample", "the first ACK of a packet sent once (Karn): without timestamps"),
        ("s2", "the caption of the paper's figure 4: a window of 2 that arrives"),
        ("s3", "the paper's text: a window of 3 that arrives"),
    ]);
    /// Losses that a fast retransmission repairs.
    REPAIR = word("repair", &[
        ("sack", "any number of them"),
        ("one", "one in a window of 4 and more (the paper)"),
    ]);
    /// Share of the waits that are no longer than the result.
    QUANTILE = number("quantile", SHARE, 0.5);
    /// Whether each wait counts as often as it is long, as an observer at a random moment meets it.
    BY_TIME = flag("by_time");
    /// Silent epochs in a row.
    EPOCHS_COUNT = number("epochs", to(0.0, 4_294_967_295.0).whole(), 8.0);
    /// Length of the silence so far, epochs.
    EPOCHS = number("epochs", to(0.0, f64::INFINITY), 8.0);
    /// Packets that have to arrive in a row to end a back-off.
    PACKETS = number("packets", to(1.0, 4_294_967_295.0).whole(), 6.0);
}

groups! {
    /// Chain and its sender.
    CHAIN = Chain chain [CHAIN_WORD, STAGES, WMAX, T0_EPOCHS, PROBE_EPOCHS, BACKOFF_ENDS, REPAIR]
        /// Sender of today: timestamps, SACK, a timer capped at 64 T0. Behind drop-tail at losses of .05 to .25 its
        /// packets per epoch are .04 off in the mean, .06 at worst (docs/explanation/models/against-simulation.md).
        CHAIN("")
        /// Sender of the paper's text: a back-off lives until window 4, and one loss is repaired; .13 to .18 off in
        /// figure 6.
        PAPER("backoff_ends=\"s3\", repair=\"one\"");
}

tuples! {
    /// Figures of a stationary distribution, as shares of all epochs.
    STATIONARY = Stationary {
        /// Epochs in which nothing is sent.
        silent,
        /// Epochs with nothing or the retransmission of a timeout: the subject of the paper's tipping point.
        silent_or_first,
        /// Mean packets sent in an epoch, lost ones included.
        packets_per_epoch in "packets",
        /// Mean number of timeouts per epoch, repeated ones included.
        timeouts_per_epoch,
        /// Mean idle epochs of a timeout; 0 if there are none.
        mean_idle_epochs,
    }
    /// Stages of a back-off, shape (..., stages); of the partial chain `b0` and `b*`.
    STAGES_TOLD = Stages {
        /// Length of the timer in this stage, 2^k T0, epochs.
        timer_epochs,
        /// Whether the stage is a tail loss probe and no timeout: 1 or 0.
        probe,
        /// Whether the stage stands for itself and all later ones: 1 or 0.
        open,
        /// Mean number of idle epochs of a visit to this stage.
        mean_idle_epochs,
        /// Share of the epochs that a flow spends in this stage without a packet.
        idle,
        /// Share of the epochs in S_1 with this back-off: a retransmission alone.
        first,
        /// Share of the epochs in S_2 with memory of this back-off.
        second,
        /// Share of the epochs in S_3 with memory of this back-off.
        third,
    }
    /// Times in which nothing of a flow gets through; NaN for an open chain, whose waits the paper does not order.
    SILENCES = Silences {
        /// Number of silences that begin per epoch.
        per_epoch,
        /// Mean length of a silence.
        mean_epochs,
    }
}

/// The words of [`BACKOFF_ENDS`].
pub const ENDS: [BackoffUntil; 4] =
    [BackoffUntil::NewAck, BackoffUntil::NewSample, BackoffUntil::S2, BackoffUntil::S3];
const EPOCHS_OUT: Output = figure("epochs", "Number of epochs.");
const LOSS_OUT: Output = figure("loss", "Probability that a packet is lost.");

fn ends(a: &Arguments<'_>) -> BackoffUntil {
    a.pick(BACKOFF_ENDS, ENDS)
}

fn chain(a: &Arguments<'_>) -> Result<Stationary, Refused> {
    let stages = a.some_count(STAGES)?;
    let back = a.pick(
        CHAIN_WORD,
        [Back::Partial, Back::Open(stages.unwrap_or(3)), Back::Capped(stages.unwrap_or(6))],
    );
    let settings = Settings {
        wmax: a.count(WMAX)?,
        t0_epochs: a[T0_EPOCHS],
        probe_epochs: a.some(PROBE_EPOCHS),
        backoff_ends: ends(a),
        repair: a.pick(REPAIR, [FastRetransmit::Sack, FastRetransmit::One]),
    };
    Ok(stationary(back, settings, a[LOSS])?)
}

/// A figure of the silences; none of an open chain.
fn silences(a: &Arguments<'_>, of: impl FnOnce(&Silences) -> f64) -> Result<Option<f64>, Refused> {
    Ok(chain(a)?.silences().as_ref().map(of))
}

fn stage(s: &Stage) -> [f64; 8] {
    let flag = |x| f64::from(u8::from(x));
    [s.timer_epochs, flag(s.probe), flag(s.open), s.mean_idle_epochs, s.idle, s.first, s.second, s.third]
}

pub(super) const MODULE: Module = Module {
    name: "taq_chain",
    sentence: "Markov chains of TAQ: one TCP flow that loses packets.

Chen, Subramanian, Iyengar and Ford, \"TAQ: Enhancing Fairness and Performance Predictability in Small Packet Regimes\"
(EuroSys 2014), section 3.1: a step is a round trip (an epoch), a state is a window, each packet is lost on its own; a
loss that no fast retransmission repairs waits for the timer. See docs/explanation/models/taq.md.",
    models: models! {
        /// Stationary distribution (equations 1 to 10, with docs/explanation/models/taq.md).
        stationary(LOSS, CHAIN) -> Gives::Tuple(&STATIONARY), "stationary", |a| {
            let c = chain(a)?;
            [c.silent(), c.silent_or_first(), c.packets_per_epoch(), c.timeouts_per_epoch(), c.mean_idle_epochs()]
        };
        /// Share of the epochs with n packets sent, by n from 0 on.
        sent(LOSS, CHAIN)
            -> Gives::Row(figure("wmax + 1", "Share of epochs in which a flow sends 0 to `wmax` packets.")),
            "Stationary::sent", |a| chain(a)?.sent().to_vec();
        /// Stages of the back-off (equation 5, with the ratio of `stage_ratio`).
        stages(LOSS, CHAIN) -> Gives::Records(&STAGES_TOLD), "Stationary::stages",
            |a| chain(a)?.stages().iter().flat_map(stage).collect::<Vec<f64>>();
        /// Idle epochs that a share `quantile` of the timeouts do not exceed.
        idle_quantile(QUANTILE, LOSS, CHAIN, BY_TIME) -> Gives::One(EPOCHS_OUT), "Stationary::idle_quantile", |a| {
            let (quantile, chain) = (a.inside(QUANTILE)?, chain(a)?);
            if a.flag(BY_TIME) { chain.idle_quantile_by_time(quantile) } else { chain.idle_quantile(quantile) }
        };
        /// Probability that a flow sends nothing in some epochs in a row that begin at a random moment.
        silent_in_a_row(EPOCHS_COUNT, LOSS, CHAIN)
            -> Gives::One(figure("share", "Probability of so many silent epochs.")),
            "Stationary::silent_in_a_row", |a| chain(a)?.silent_in_a_row(a.count(EPOCHS_COUNT)?);
        /// Frequency and length of silences: from a loss that the timer repairs to the first retransmission that
        /// arrives.
        silences(LOSS, CHAIN) -> Gives::Tuple(&SILENCES), "Stationary::silences",
            |a| chain(a)?.silences().map_or([f64::NAN; 2], |s| [s.per_epoch(), s.mean_epochs()]);
        /// Length that a share `quantile` of the silences does not exceed.
        silence_quantile(QUANTILE, LOSS, CHAIN, BY_TIME) -> Gives::One(EPOCHS_OUT), "Silences::quantile", |a| {
            let (quantile, by_time) = (a.inside(QUANTILE)?, a.flag(BY_TIME));
            silences(a, |s| if by_time { s.quantile_by_time(quantile) } else { s.quantile(quantile) })?
        };
        /// Share of the flows that have been silent for some epochs, at a moment.
        silent_longer_than(EPOCHS, LOSS, CHAIN)
            -> Gives::One(figure("share", "Share of the flows that are silent for longer.")),
            "Silences::longer_than", |a| {
            let epochs = a.inside(EPOCHS)?;
            silences(a, |s| s.longer_than(epochs))?
        };
        /// Ratio of each stage of the back-off to the one before: `1 - q^6` for `s3`.
        stage_ratio(LOSS_WITHIN, BACKOFF_ENDS) -> Gives::One(figure("ratio", "Ratio of two stages.")), "stage_ratio",
            |a| stage_ratio(ends(a), a[LOSS_WITHIN])?;
        /// Mean idle epochs of a timeout if the timer is never capped; infinite from `tipping_point` on.
        mean_idle_uncapped(LOSS_WITHIN, T0_EPOCHS, BACKOFF_ENDS) -> Gives::One(EPOCHS_OUT), "mean_idle_uncapped",
            |a| mean_idle_uncapped(ends(a), a[T0_EPOCHS], a[LOSS_WITHIN])?;
        /// Loss from which on the mean wait of an uncapped timer is infinite: .5, and .109 with the paper's `s3`.
        tipping_point(BACKOFF_ENDS) -> Gives::One(LOSS_OUT), "tipping_point", |a| tipping_point(ends(a));
        /// Tipping point where some packets in a row have to arrive to end a back-off: `1 - 2^(-1/packets)`.
        tipping_point_closed(PACKETS) -> Gives::One(LOSS_OUT), "tipping_point_closed",
            |a| tipping_point_closed(a.count(PACKETS)?)?;
    },
};
