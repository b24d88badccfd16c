//! Declarations of [`crate::throughput`].

use super::arguments::Arguments;
use super::{
    Argument, Gives, Module, Output, POSITIVE, SHARE, figure, groups, models, number, parameters, to,
};
use crate::throughput::{
    LongFlow, mathis, mean_window, padhye, padhye_approximate, padhye_throughput, tfrc, timeout_probability,
    timeouts_s,
};

parameters! {
    /// Loss probability of a packet: 0, or 1e-12 and more; below 1.
    pub LOSS = number("loss", SHARE.without_high(), 0.02);
    /// Loss probability of a packet.
    LOSS_ABOVE_0 = number("loss", SHARE.without_low(), 0.02);
    /// Loss probability of a packet.
    LOSS_WITHIN = number("loss", to(1e-12, 1.0).without_high(), 0.02);
    /// Loss event rate p of TFRC.
    LOSS_EVENTS = number("loss", to(1e-12, 1.0), 0.02);
    /// Segments acknowledged by one ACK: 1, or 2 with delayed ACKs.
    pub B = number("b", to(1.0, 1000.0), 1.0).or(1.0);
    /// Segments acknowledged by one ACK: 1, or 2 with delayed ACKs.
    B_MATHIS = number("b", POSITIVE, 1.0).or(1.0);
    /// Segments acknowledged by one ACK: 1, as RFC 5348 recommends.
    B_TFRC = number("b", to(1.0, 1000.0), 1.0).or(1.0);
    /// Window in which the loss happens.
    W = number("w", to(0.0, 1e9), 10.0).unit("packets");
    /// Round-trip time, queueing included, in seconds, or as 200ms.
    pub RTT_S = number("rtt_s", to(1e-9, 1e9), 0.2);
    /// First timeout of a series, T0.
    pub RTO_S = number("rto_s", to(1e-9, 1e9), 1.0);
    /// Window of the receiver.
    pub WMAX_PACKETS = number("wmax_packets", to(1.0, 1e9), 20.0).or_none("no limit, and then loss is not 0");
}

groups! {
    /// Flow of the full model, but for its loss.
    FLOW = Flow flow [RTT_S, RTO_S, B, WMAX_PACKETS];
}

const RATE: Output = figure("rate_pps", "Rate of a flow, packets per second.");

/// The flow with this loss.
pub(super) fn flow(a: &Arguments<'_>, loss: Argument) -> LongFlow {
    LongFlow { loss: a[loss], rtt_s: a[RTT_S], rto_s: a[RTO_S], b: a[B], wmax_packets: a.some(WMAX_PACKETS) }
}

pub(super) const MODULE: Module = Module {
    name: "throughput",
    sentence: "Throughput of a long flow as a function of its loss.

Mathis, Semke, Mahdavi and Ott (1997); Padhye, Firoiu, Towsley and Kurose (SIGCOMM 1998, IEEE/ACM ToN 2000; sections are
cited, as the two number their equations differently); RFC 5348, section 3.1. See
docs/explanation/models/throughput.md.",
    models: models! {
        /// Window of Mathis et al.: `sqrt(3 / (2 b p))` packets per RTT.
        mathis(LOSS_ABOVE_0, B_MATHIS)
            -> Gives::One(figure("packets_per_rtt", "Rate of a flow, packets per round trip.")), "mathis",
            |a| mathis(a[LOSS_ABOVE_0], a[B_MATHIS])?;
        /// Mean window E[W] at a loss if no receiver limits it (section 2.1).
        mean_window(LOSS_WITHIN, B) -> Gives::One(figure("packets", "Mean window of a flow.")), "mean_window",
            |a| mean_window(a[LOSS_WITHIN], a[B])?;
        /// Probability `Q^(w)` that a loss in a window of `w` packets ends in a timeout (section 2.2).
        timeout_probability(LOSS, W)
            -> Gives::One(figure("probability", "Probability that the loss ends in a timeout.")), "timeout_probability",
            |a| timeout_probability(a[LOSS], a[W])?;
        /// Mean length `E[Z^TO]` of a series of timeouts that begins with `rto_s` (section 2.2).
        timeouts_s(LOSS, RTO_S) -> Gives::One(figure("time_s", "Mean length of a row of timeouts.")), "timeouts_s",
            |a| timeouts_s(a[LOSS], a[RTO_S])?;
        /// Send rate B(p) of the full model (section 2.3).
        padhye(LOSS, FLOW) -> Gives::One(RATE), "padhye", |a| padhye(&flow(a, LOSS))?;
        /// Rate T(p) that arrives of `padhye` (the extension of 2000).
        padhye_throughput(LOSS, FLOW) -> Gives::One(RATE), "padhye_throughput",
            |a| padhye_throughput(&flow(a, LOSS))?;
        /// Send rate by the short form of `padhye` (section 2.3).
        padhye_approximate(LOSS, FLOW) -> Gives::One(RATE), "padhye_approximate",
            |a| padhye_approximate(&flow(a, LOSS))?;
        /// Rate X of TFRC (RFC 5348, section 3.1), with t_RTO = 4 R.
        tfrc(LOSS_EVENTS, RTT_S, B_TFRC) -> Gives::One(RATE), "tfrc",
            |a| tfrc(a[LOSS_EVENTS], a[RTT_S], a[B_TFRC])?;
    },
};
