//! Declarations of [`crate::sharing`].

use super::arguments::{Arguments, LAW, LAW_ROW, Refused};
use super::yardsticks::RATE_BPS;
use super::{
    Argument, ArgumentGroup, Gives, Law, Module, Output, POSITIVE, figure, models, number, parameters, row,
    to,
};
use crate::sharing::{SharedQueue, Sizes};

parameters! {
    /// Size of the transfer.
    BYTES = number("bytes", to(1e-3, 1e15), 3000.0);
    /// Share of the time in which the link is busy.
    pub LOAD = number("load", to(0.0, 0.9999), 0.5);
    /// Size of every transfer.
    FIXED = number("bytes", to(1e-3, 1e15), 1000.0);
    /// Sizes of transfers, each as likely, up to 1 000 000 of them.
    CHOICE = row("bytes", to(1e-3, 1e15), &[1000.0, 3000.0], "sizes");
    /// Mean size of a transfer.
    MEAN_BYTES = number("mean_bytes", to(1e-3, 1e15), 1000.0);
    /// Least size of a transfer, the scale of Pareto's law.
    SCALE_BYTES = number("scale_bytes", to(1e-3, 1e15), 500.0);
    /// Shape of Pareto's law: the smaller, the more of the bytes are in few long transfers.
    SHAPE = number("shape", to(1.1, 100.0), 2.5);
    /// Least size of a transfer.
    LOW_BYTES = number("low_bytes", to(1e-3, 1e15), 500.0);
    /// Greatest size of a transfer, above the least.
    HIGH_BYTES = number("high_bytes", POSITIVE, 50_000.0);
    /// Shape of Pareto's law, cut at the greatest size: the smaller, the more of the bytes are in few long transfers.
    BOUNDED_SHAPE = number("shape", to(0.01, 100.0), 1.2);
}

const fn class(class: &'static str, takes: &'static [Argument], sentence: &'static str) -> ArgumentGroup {
    ArgumentGroup { name: "sizes", class, takes, values: &[], sentence }
}

const SIZES: Argument = Argument::Law(&Law {
    name: "sizes",
    class: "Sizes",
    groups: &[
        class("Fixed", &[FIXED], "One size."),
        class("Choice", &[CHOICE], "One of some sizes, each as likely."),
        class("Exponential", &[MEAN_BYTES], "Exponential law."),
        class("Pareto", &[SCALE_BYTES, SHAPE], "Pareto law: `P(S > x) = (scale/x)^shape`."),
        class("BoundedPareto", &[LOW_BYTES, HIGH_BYTES, BOUNDED_SHAPE], "Pareto law between two ends."),
    ],
    words: &[("Fixed", ""), ("Choice", ""), ("Exponential", ""), ("Pareto", ""), ("BoundedPareto", "")],
});

/// Maker of a law of sizes from the law's numbers in the order of its class, or from its list.
type Make = fn(f64, f64, f64, &[f64]) -> Sizes;

fn sizes(a: &Arguments<'_>) -> Sizes {
    let [x, y, z] = LAW.map(|number| a[number]);
    let laws: [Make; 5] = [
        |bytes, _, _, _| Sizes::Fixed { bytes },
        |_, _, _, list| Sizes::List(list.to_vec()),
        |mean_bytes, _, _, _| Sizes::Exponential { mean_bytes },
        |scale_bytes, shape, _, _| Sizes::Pareto { scale_bytes, shape },
        |low_bytes, high_bytes, shape, _| Sizes::BoundedPareto { low_bytes, high_bytes, shape },
    ];
    a.pick(SIZES, laws)(x, y, z, a.row(LAW_ROW))
}

fn queue(a: &Arguments<'_>) -> Result<SharedQueue, Refused> {
    Ok(SharedQueue::new(a.rate(RATE_BPS)?, a[LOAD], sizes(a))?)
}

const TIME: Output = figure("time_s", "Mean time of a transfer, seconds.");

pub(super) const MODULE: Module = Module {
    name: "sharing",
    sentence: "Cost of sharing one link, whatever the transport: an M/G/1 queue of transfers.

Processor sharing (Kleinrock, \"Queueing Systems\" II, section 4.4), the limit of a fair queue; first in, first out
(Pollaczek and Khinchine); shortest remaining processing time first (Schrage and Miller, Operations Research 14(4),
1966), the lower bound of the mean for any queue and any sender. Propagation, headers, slow start and losses come on
top.",
    models: models! {
        /// Mean size of a law.
        mean_bytes(SIZES) -> Gives::One(figure("bytes", "Mean size of a transfer.")), "SharedQueue::mean_bytes",
            |a| SharedQueue::new(narrows_units::Rate::from_bps(1), 0.0, sizes(a))?.mean_bytes();
        /// Mean time of a transfer by processor sharing: `x / (C (1 - load))` whatever the law of sizes.
        ps_s(BYTES, RATE_BPS, LOAD) -> Gives::One(TIME), "SharedQueue::ps_s",
            |a| SharedQueue::new(a.rate(RATE_BPS)?, a[LOAD], Sizes::Fixed { bytes: 1.0 })?.ps_s(a[BYTES])?;
        /// Mean time over all transfers by processor sharing.
        ps_mean_s(RATE_BPS, LOAD, SIZES) -> Gives::One(TIME), "SharedQueue::ps_mean_s", |a| queue(a)?.ps_mean_s();
        /// Mean wait before service, first in, first out; a Pareto law needs a shape above 2, or it has no mean.
        fifo_wait_s(RATE_BPS, LOAD, SIZES) -> Gives::One(TIME), "SharedQueue::fifo_wait_s",
            |a| queue(a)?.fifo_wait_s()?;
        /// Mean time over all transfers, first in, first out.
        fifo_mean_s(RATE_BPS, LOAD, SIZES) -> Gives::One(TIME), "SharedQueue::fifo_mean_s",
            |a| queue(a)?.fifo_mean_s()?;
        /// Mean time of a transfer by SRPT (Schrage and Miller).
        srpt_s(BYTES, RATE_BPS, LOAD, SIZES) -> Gives::One(TIME), "SharedQueue::srpt_s",
            |a| queue(a)?.srpt_s(a[BYTES])?;
        /// Mean time over all transfers by SRPT: no order of service has a smaller one.
        srpt_mean_s(RATE_BPS, LOAD, SIZES) -> Gives::One(TIME), "SharedQueue::srpt_mean_s",
            |a| queue(a)?.srpt_mean_s();
    },
};
