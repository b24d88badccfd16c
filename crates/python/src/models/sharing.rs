//! What sharing a link costs whatever the transport: Kleinrock; Pollaczek and Khinchine; Schrage and Miller.

use narrows_models::sharing::{SharedQueue, Sizes};

use super::{Args, Model, Wrong, model, rate};

type Law = fn([f64; 3], &[f64]) -> Sizes;

const LAWS: [(&str, Law); 5] = [
    ("fixed", |[a, _, _], _| Sizes::Fixed { bytes: a }),
    ("list", |_, list| Sizes::List(list.to_vec())),
    ("exponential", |[a, _, _], _| Sizes::Exponential { mean_bytes: a }),
    ("pareto", |[a, _, c], _| Sizes::Pareto { scale_bytes: a, shape: c }),
    ("bounded_pareto", |[a, b, c], _| Sizes::BoundedPareto { low_bytes: a, high_bytes: b, shape: c }),
];

/// What the numbers of `law` and `list` are, the word says.
fn queue(
    args: &Args<'_>,
    rate_bps: f64,
    load: f64,
    law: [f64; 3],
    list: &[f64],
) -> Result<SharedQueue, Wrong> {
    Ok(SharedQueue::new(rate(rate_bps)?, load, args.word("sizes", &LAWS)?(law, list))?)
}

pub(super) const MODELS: &[Model] = &[
    model!("sharing::SharedQueue::mean_bytes"; rate_bps, load, a [none], b [none], c [none]; [list] => (bytes),
        |args| queue(args, rate_bps, load, [a, b, c], list)?.mean_bytes()),
    model!("sharing::SharedQueue::ps_s"; bytes, rate_bps, load, a [none], b [none], c [none]; [list] => (time_s),
        |args| queue(args, rate_bps, load, [a, b, c], list)?.ps_s(bytes)?),
    model!("sharing::SharedQueue::ps_mean_s"; rate_bps, load, a [none], b [none], c [none]; [list] => (time_s),
        |args| queue(args, rate_bps, load, [a, b, c], list)?.ps_mean_s()),
    model!("sharing::SharedQueue::fifo_wait_s"; rate_bps, load, a [none], b [none], c [none]; [list] => (time_s),
        |args| queue(args, rate_bps, load, [a, b, c], list)?.fifo_wait_s()?),
    model!("sharing::SharedQueue::fifo_mean_s"; rate_bps, load, a [none], b [none], c [none]; [list] => (time_s),
        |args| queue(args, rate_bps, load, [a, b, c], list)?.fifo_mean_s()?),
    model!("sharing::SharedQueue::srpt_s"; bytes, rate_bps, load, a [none], b [none], c [none]; [list] => (time_s),
        |args| queue(args, rate_bps, load, [a, b, c], list)?.srpt_s(bytes)?),
    model!("sharing::SharedQueue::srpt_mean_s"; rate_bps, load, a [none], b [none], c [none]; [list] => (time_s),
        |args| queue(args, rate_bps, load, [a, b, c], list)?.srpt_mean_s()),
];
