//! Declarations of [`crate::aimd`].

use super::arguments::{Arguments, Refused};
use super::{
    Gives, Module, POSITIVE, SHARE, figure, groups, models, number, parameters, row, to, tuples, word,
};
use crate::aimd::estimate::{Fade, Reset, ThroughputBackoff, events_until, excess_after, throughput_backoff};
use crate::aimd::{
    BackloggedLink, BackoffRange, backoff, backoff_for_buffer, backoff_over, convergence_epochs, efficiency,
    epoch, increase, mean_backoff, mean_over_peak, peak_window_weight, risen_after, rtt_max_s,
    throughput_ratio,
};

parameters! {
    /// Buffer as a multiple of the delay-bandwidth product (DBP).
    PHI = number("phi", to(0.0, 1e6), 0.5).unit("DBP");
    /// Back-off factor: share of the window that a loss leaves.
    BETA = number("beta", to(0.0, 1.0).without_high(), 0.5);
    /// Back-off factor above 0: share of the window that a loss leaves.
    BETA_ABOVE_0 = number("beta", to(0.0, 1.0).without_low().without_high(), 0.5);
    /// Back-off factor of at least a millionth: share of the window that a loss leaves.
    pub BETA_OF_BUFFER = number("beta", to(1e-6, 1.0).without_high(), 0.5);
    /// Least back-off factor of an adaptive flow.
    pub BETA_LO = number("beta_lo", to(1e-6, 1.0).without_high(), 0.5).or(BackoffRange::PAPER.lo());
    /// Greatest back-off factor of an adaptive flow, at least the least.
    pub BETA_HI = number("beta_hi", to(1e-6, 1.0).without_high(), 0.8).or(BackoffRange::PAPER.hi());
    /// Least round-trip time of the flow: the queue is empty.
    RTT_MIN_S = number("rtt_min_s", POSITIVE, 0.1);
    /// Smoothed round-trip time, between the least and the greatest.
    SRTT_S = number("srtt_s", POSITIVE, 0.15);
    /// Greatest round-trip time, at least the least.
    RTT_MAX_S = number("rtt_max_s", POSITIVE, 0.2);
    /// Two-way propagation T of the path.
    BASE_RTT_S = number("base_rtt_s", POSITIVE, 0.1);
    /// Queue at each hop when it overflows.
    QUEUE_PACKETS = row("queue_packets", to(0.0, 1e12), &[10.0, 20.0], "hops");
    /// Rate of each hop.
    RATE_PPS = row("rate_pps", POSITIVE, &[100.0, 200.0], "hops");
    /// Increase per round trip.
    ALPHA = number("alpha", POSITIVE, 1.0).unit("packets");
    /// Share of the congestion events at which a flow loses: 1 if all lose together.
    LOSING_SHARE = number("losing_share", SHARE.without_low(), 0.5);
    /// Share of the congestion events at which a flow loses; all lose together unless it is given.
    pub LOSING_SHARE_OR_ALL = number("losing_share", SHARE.without_low(), 0.5).or(1.0);
    /// Share of the way that windows go towards their equilibrium.
    RISE = number("rise", SHARE.without_high(), 0.8);
    /// Number of congestion epochs: times from one loss to the next.
    EPOCHS = number("epochs", to(0.0, f64::INFINITY).without_high(), 3.0);
    /// Packets that the path holds without a queue: its rate times the round-trip time.
    DBP_PACKETS = number("dbp_packets", POSITIVE, 100.0);
    /// Number of flows that share the link.
    FLOWS = number("flows", to(1.0, f64::INFINITY).whole(), 10.0);
    /// Share of the excess that an event leaves; 7/8 in the paper.
    GAMMA = number("gamma", SHARE, 0.875);
    /// Share of the excess that an event leaves; 7/8 in the paper.
    GAMMA_USUAL = number("gamma", SHARE, 0.875).or(0.875);
    /// Share of the excess that an event leaves, below 1.
    GAMMA_BELOW_1 = number("gamma", SHARE.without_low().without_high(), 0.875);
    /// Goal of the fading: two readings of an equation that is lost in the copy at hand.
    TOWARDS = word("towards", &[("rtt_min", "the least round-trip time"), ("srtt", "the smoothed one")]);
    /// Congestion events without a queue.
    EVENTS = number("events", to(0.0, 4_294_967_295.0).whole(), 5.0);
    /// Share of the excess that is left.
    LEFT = number("left", SHARE.without_low(), 0.1);
    /// Throughput just before the event, in the unit of `after`.
    BEFORE = number("before", POSITIVE, 100.0);
    /// Throughput just after the event, in the unit of `before`.
    AFTER = number("after", POSITIVE, 75.0);
    /// Throughput just before each event, in the unit of `after`.
    BEFORE_EACH = row("before", POSITIVE, &[100.0, 100.0], "events");
    /// Throughput just after each event, in the unit of `before`.
    AFTER_EACH = row("after", POSITIVE, &[75.0, 100.0], "events");
    /// First back-off factor, within the limits.
    START = number("start", SHARE, 0.6).or_none("the lower limit");
    /// Relative change of the throughput from one event to the next at which the recursion begins anew: 0.2 in H-TCP,
    /// which is not in the paper.
    RESET_CHANGE = number("reset_change", to(0.0, f64::INFINITY), 0.2).or_none("never");
    /// Events after which the recursion begins anew in any case; 0 for never.
    RESET_EVERY = number("reset_every", to(0.0, 4_294_967_295.0).whole(), 0.0).or(0.0);
}

groups! {
    /// Bounds of the back-off factor.
    LIMITS = Limits limits [BETA_LO, BETA_HI]
        /// Bounds of the paper.
        LIMITS("");
}

tuples! {
    /// Time between two congestion events.
    EPOCH = Epoch {
        /// Length of the epoch in round trips, however long each is.
        rtts in "round trips",
        /// Length of the epoch in two-way propagation times.
        base_rtts in "propagation times",
    }
}

fn limits(a: &Arguments<'_>) -> Result<BackoffRange, Refused> {
    Ok(BackoffRange::new(a[BETA_LO], a[BETA_HI])?)
}

fn hops(a: &Arguments<'_>) -> Vec<BackloggedLink> {
    let rates = a.row(RATE_PPS).iter();
    let hop = |(queue_packets, rate_pps): (&f64, &f64)| BackloggedLink {
        queue_packets: *queue_packets,
        rate_pps: *rate_pps,
    };
    a.row(QUEUE_PACKETS).iter().zip(rates).map(hop).collect()
}

/// The first factor, and one after each event.
fn throughput_backoffs(a: &Arguments<'_>) -> Result<Vec<f64>, Refused> {
    let every = a.count(RESET_EVERY)?;
    let change = a.some(RESET_CHANGE).map(|_| a.inside(RESET_CHANGE)).transpose()?;
    let reset = change.map(|change| Reset { change, every });
    let mut estimate = ThroughputBackoff::new(limits(a)?, reset);
    if let Some(beta) = a.some(START) {
        estimate = estimate.starting_at(beta).map_err(|e| Refused::from(e).of(START))?;
    }
    let mut factors = vec![estimate.beta()];
    for (before, after) in a.row(BEFORE_EACH).iter().zip(a.row(AFTER_EACH)) {
        factors.push(estimate.on_congestion(*before, *after)?);
    }
    Ok(factors)
}

const BETA_OUT: Gives = Gives::One(figure("beta", "Back-off factor."));

pub(super) const MODULE: Module = Module {
    name: "aimd",
    sentence: "Adaptive AIMD: a flow that backs off just far enough to empty the queue it saw.

Shorten and Leith, \"On Queue Provisioning, Network Efficiency and the Transmission Control Protocol\" (IEEE/ACM ToN,
2007). Fluid limit, drop-tail. See docs/explanation/models/aimd.md.",
    models: models! {
        /// Share of the link that synchronised flows use: 1 if `beta m >= 1` with `m = 1 + phi`, else
        /// `m^2 (1 - beta^2) / (m^2 + 1 - 2 beta m)`; derived for the curve of figure 7.
        efficiency(PHI, BETA) -> Gives::One(figure("efficiency", "Share of the link in use.")), "efficiency",
            |a| efficiency(a[PHI], a[BETA])?;
        /// Back-off factor by equation 4: `RTTmin / RTTmax` within the limits.
        backoff(RTT_MIN_S, RTT_MAX_S, LIMITS) -> BETA_OUT, "backoff",
            |a| backoff(a[RTT_MIN_S], a[RTT_MAX_S], limits(a)?)?;
        /// Back-off factor by equation 3 at one queue: `1 / (1 + phi)` within the limits.
        backoff_for_buffer(PHI, LIMITS) -> BETA_OUT, "backoff_for_buffer",
            |a| backoff_for_buffer(a[PHI], limits(a)?)?;
        /// Increase by equation 5: `alpha = 2 (1 - beta)` packets per round trip, friendly to standard TCP.
        increase(BETA) -> Gives::One(figure("alpha", "Packets per round trip.")), "increase",
            |a| increase(a[BETA])?;
        /// Greatest round-trip time by equation 6: `T + sum_j q_j / B_j`.
        rtt_max_s(BASE_RTT_S, QUEUE_PACKETS, RATE_PPS)
            -> Gives::One(figure("rtt_max_s", "Round-trip time with all queues full.")), "rtt_max_s",
            |a| rtt_max_s(a[BASE_RTT_S], &hops(a))?;
        /// Back-off factor by equation 7: `T / (T + sum_j q_j / B_j)` within the limits.
        backoff_over(BASE_RTT_S, QUEUE_PACKETS, RATE_PPS, LIMITS) -> BETA_OUT, "backoff_over",
            |a| backoff_over(a[BASE_RTT_S], &hops(a), limits(a)?)?;
        /// Mean peak window of a flow, up to a factor that all flows share: `alpha / (lambda (1 - beta))`
        /// (section III).
        peak_window_weight(ALPHA, BETA, LOSING_SHARE_OR_ALL)
            -> Gives::One(figure("weight", "Weight of the flow.")), "peak_window_weight",
            |a| peak_window_weight(a[ALPHA], a[BETA], a[LOSING_SHARE_OR_ALL])?;
        /// Mean window over peak window of a synchronised flow: `(1 + beta) / 2`.
        mean_over_peak(BETA) -> Gives::One(figure("share", "Mean window over peak window.")), "mean_over_peak",
            |a| mean_over_peak(a[BETA])?;
        /// Throughput before a congestion event over that after it (equations 1 and 2):
        /// `max(1, 1 / (beta (1 + phi)))`.
        throughput_ratio(PHI, BETA_OF_BUFFER)
            -> Gives::One(figure("ratio", "Throughput before the event over that after it.")),
            "throughput_ratio", |a| throughput_ratio(a[PHI], a[BETA_OF_BUFFER])?;
        /// Mean factor of a flow that loses at a share lambda of the congestion events: `lambda beta + 1 - lambda`
        /// (section VI).
        mean_backoff(BETA, LOSING_SHARE) -> Gives::One(figure("beta_mean", "Mean back-off factor.")), "mean_backoff",
            |a| mean_backoff(a[BETA], a[LOSING_SHARE])?;
        /// Congestion epochs until windows have gone `rise` of the way: `ln(1 - rise) / ln(beta)`, beta the largest
        /// factor in the network (section VI).
        convergence_epochs(BETA_ABOVE_0, RISE) -> Gives::One(figure("epochs", "Number of congestion epochs.")),
            "convergence_epochs", |a| convergence_epochs(a[BETA_ABOVE_0], a[RISE])?;
        /// Share of the way that windows have gone after some congestion epochs: `1 - beta^epochs`.
        risen_after(BETA, EPOCHS)
            -> Gives::One(figure("risen", "Share of the way that windows have gone.")), "risen_after",
            |a| risen_after(a[BETA], a[EPOCHS])?;
        /// Length of an epoch of synchronised flows (section IV.A).
        epoch(PHI, BETA, ALPHA, DBP_PACKETS, FLOWS) -> Gives::Tuple(&EPOCH), "epoch", |a| {
            let epoch = epoch(a[PHI], a[BETA], a[ALPHA], a[DBP_PACKETS], a.whole(FLOWS)?)?;
            [epoch.rtts, epoch.base_rtts]
        };
        /// Greatest round-trip time after a congestion event by equation 9: `goal + gamma (RTTmax - goal)`.
        fade(RTT_MIN_S, SRTT_S, RTT_MAX_S, GAMMA_USUAL, TOWARDS)
            -> Gives::One(figure("rtt_max_s", "Greatest round-trip time.")), "estimate::Fade::apply", |a| {
            let gamma = a[GAMMA_USUAL];
            let fade = a.pick(TOWARDS, [Fade::TowardsMin { gamma }, Fade::TowardsSrtt { gamma }]);
            fade.apply(a[RTT_MIN_S], a[SRTT_S], a[RTT_MAX_S])?
        };
        /// Share of an excess of RTTmax that is left after some congestion events without a queue: `gamma^events`.
        excess_after(GAMMA, EVENTS)
            -> Gives::One(figure("share", "Share of the excess that is left.")), "estimate::excess_after",
            |a| excess_after(a[GAMMA], a.count(EVENTS)?)?;
        /// Congestion events after which only a share `left` of the excess is left: `ln(left) / ln(gamma)`.
        events_until(GAMMA_BELOW_1, LEFT) -> Gives::One(figure("events", "Number of congestion events.")),
            "estimate::events_until", |a| events_until(a[GAMMA_BELOW_1], a[LEFT])?;
        /// Back-off factor by equation 10: `beta B- / B+` within the limits.
        throughput_backoff(BETA_ABOVE_0, BEFORE, AFTER, LIMITS) -> BETA_OUT, "estimate::throughput_backoff",
            |a| throughput_backoff(a[BETA_ABOVE_0], a[BEFORE], a[AFTER], limits(a)?)?;
        /// Recursion of equation 10 over congestion events: the first factor, and one after each event.
        throughput_backoffs(BEFORE_EACH, AFTER_EACH, START, LIMITS, RESET_CHANGE, RESET_EVERY)
            -> Gives::Row(figure("events + 1", "Back-off factor at first and after each event.")),
            "estimate::ThroughputBackoff::on_congestion",
            |a| throughput_backoffs(a)?;
    },
};
