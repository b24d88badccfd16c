//! Adaptive AIMD: Shorten and Leith.

use narrows_models::aimd::estimate::{
    Fade, Reset, ThroughputBackoff, events_until, excess_after, throughput_backoff,
};
use narrows_models::aimd::{
    BackloggedLink, BackoffRange, backoff, backoff_for_buffer, backoff_over, convergence_epochs, efficiency,
    epoch, increase, mean_backoff, mean_over_peak, peak_window_weight, risen_after, rtt_max_s,
    throughput_ratio,
};

use super::{EXACT, Model, Wrong, count, model, optional, whole};

/// A reading of the fading memory, by its coefficient.
type Reading = fn(f64) -> Fade;

const FADES: [(&str, Reading); 2] =
    [("rtt_min", |gamma| Fade::TowardsMin { gamma }), ("srtt", |gamma| Fade::TowardsSrtt { gamma })];

fn hops(queue_packets: &[f64], rate_pps: &[f64]) -> Vec<BackloggedLink> {
    let hop = |(queue_packets, rate_pps): (&f64, &f64)| BackloggedLink {
        queue_packets: *queue_packets,
        rate_pps: *rate_pps,
    };
    queue_packets.iter().zip(rate_pps).map(hop).collect()
}

/// The factors that follow `start` (the lower limit if there is none), event by event.
fn on_congestion(
    limits: BackoffRange,
    reset: Option<Reset>,
    start: Option<f64>,
    before: &[f64],
    after: &[f64],
) -> Result<Vec<f64>, Wrong> {
    let mut estimate = ThroughputBackoff::new(limits, reset);
    if let Some(beta) = start {
        estimate = estimate.starting_at(beta)?;
    }
    let mut factors = vec![estimate.beta()];
    for (before, after) in before.iter().zip(after) {
        factors.push(estimate.on_congestion(*before, *after)?);
    }
    Ok(factors)
}

pub(super) const MODELS: &[Model] = &[
    model!("aimd::efficiency"; phi, beta; [] => (efficiency), |args| efficiency(phi, beta)?),
    model!("aimd::backoff"; rtt_min_s, rtt_max_s, beta_lo, beta_hi; [] => (beta),
        |args| backoff(rtt_min_s, rtt_max_s, BackoffRange::new(beta_lo, beta_hi)?)?),
    model!("aimd::backoff_for_buffer"; phi, beta_lo, beta_hi; [] => (beta),
        |args| backoff_for_buffer(phi, BackoffRange::new(beta_lo, beta_hi)?)?),
    model!("aimd::increase"; beta; [] => (alpha), |args| increase(beta)?),
    model!("aimd::rtt_max_s"; base_rtt_s; [queue_packets, rate_pps] => (rtt_max_s),
        |args| rtt_max_s(base_rtt_s, &hops(queue_packets, rate_pps))?),
    model!("aimd::backoff_over"; base_rtt_s, beta_lo, beta_hi; [queue_packets, rate_pps] => (beta),
        |args| backoff_over(base_rtt_s, &hops(queue_packets, rate_pps), BackoffRange::new(beta_lo, beta_hi)?)?),
    model!("aimd::peak_window_weight"; alpha, beta, losing_share; [] => (weight),
        |args| peak_window_weight(alpha, beta, losing_share)?),
    model!("aimd::mean_over_peak"; beta; [] => (share), |args| mean_over_peak(beta)?),
    model!("aimd::throughput_ratio"; phi, beta; [] => (ratio), |args| throughput_ratio(phi, beta)?),
    model!("aimd::mean_backoff"; beta, losing_share; [] => (beta_mean), |args| mean_backoff(beta, losing_share)?),
    model!("aimd::convergence_epochs"; beta, rise; [] => (epochs), |args| convergence_epochs(beta, rise)?),
    model!("aimd::risen_after"; beta, epochs; [] => (risen), |args| risen_after(beta, epochs)?),
    model!("aimd::epoch"; phi, beta, alpha, dbp_packets, flows; [] => (rtts, base_rtts), |args| {
        let epoch = epoch(phi, beta, alpha, dbp_packets, whole("flows", flows, EXACT)?)?;
        [epoch.rtts, epoch.base_rtts]
    }),
    model!("aimd::estimate::Fade::apply"; rtt_min_s, srtt_s, rtt_max_s, gamma; [] => (rtt_max_s), |args| {
        args.word("towards", &FADES)?(gamma).apply(rtt_min_s, srtt_s, rtt_max_s)?
    }),
    model!("aimd::estimate::excess_after"; gamma, events; [] => (share),
        |args| excess_after(gamma, count("events", events)?)?),
    model!("aimd::estimate::events_until"; gamma, left; [] => (events), |args| events_until(gamma, left)?),
    model!("aimd::estimate::throughput_backoff"; beta, before, after, beta_lo, beta_hi; [] => (beta),
        |args| throughput_backoff(beta, before, after, BackoffRange::new(beta_lo, beta_hi)?)?),
    model!("aimd::estimate::ThroughputBackoff::on_congestion";
        beta_lo, beta_hi, start [none], reset_change [none], reset_every; [before, after] => (), |args| {
        let every = if reset_every.is_nan() { 0 } else { count("reset_every", reset_every)? };
        let reset = optional(reset_change).map(|change| Reset { change, every });
        on_congestion(BackoffRange::new(beta_lo, beta_hi)?, reset, optional(start), before, after)?
    }),
];
