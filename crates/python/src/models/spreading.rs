//! Initial Spreading: Sallantin et al.

use std::cell::RefCell;

use narrows_models::spreading::{Backoff, Delivery, Parameters, Spreading, no_loss, paper_literal};

use super::{Args, Model, Wrong, count, model, size};

/// The path of an element: loss, RTT, T0.
type Path = [f64; 3];

thread_local! {
    /// The last recursion and up to how many segments it goes: most elements of an array share a path.
    static LAST: RefCell<Option<(Parameters, usize, Spreading)>> = const { RefCell::new(None) };
}

/// Asks the recursion for a path and at least `i` segments.
fn with<T>(
    args: &Args<'_>,
    [loss, rtt_s, rto_s]: Path,
    i: usize,
    ask: impl FnOnce(&Spreading) -> narrows_models::Result<T>,
) -> Result<T, Wrong> {
    let words = [("single_segment", Backoff::SingleSegment), ("every_timeout", Backoff::EveryTimeout)];
    let parameters = Parameters { loss, rtt_s, rto_s, backoff: args.word("backoff", &words)? };
    LAST.with_borrow_mut(|last| {
        let known = last.as_ref().is_some_and(|(p, most, _)| *p == parameters && *most >= i);
        if !known {
            // With room to grow: a curve over sizes asks for one after the other.
            let most = i.next_power_of_two().clamp(16, narrows_models::spreading::MOST_SEGMENTS).max(i);
            *last = Some((parameters, most, Spreading::new(parameters, most)?));
        }
        match last {
            Some((_, _, model)) => Ok(ask(model)?),
            None => Err(Wrong { key: "i".to_owned(), problem: "no recursion".to_owned() }),
        }
    })
}

fn figures(delivery: Delivery) -> [f64; 2] {
    [delivery.mean_s, delivery.std_dev_s.unwrap_or(f64::NAN)]
}

/// A transfer of `i` segments, first window `n`, by one of the recursion's states.
fn delivery(
    args: &Args<'_>,
    path: Path,
    i: f64,
    n: f64,
    state: fn(&Spreading, usize, usize) -> narrows_models::Result<Delivery>,
) -> Result<[f64; 2], Wrong> {
    let (i, n) = (size("i", i)?, size("n", n)?);
    with(args, path, i, |model| state(model, i, n)).map(figures)
}

pub(super) const MODELS: &[Model] = &[
    model!("spreading::no_loss"; loss, segments; [] => (probability),
        |args| no_loss(loss, count("segments", segments)?)?),
    model!("spreading::Spreading::d"; i, n, loss, rtt_s, rto_s; [] => (mean_s, std_dev_s),
        |args| delivery(args, [loss, rtt_s, rto_s], i, n, Spreading::d)?),
    model!("spreading::Spreading::s"; i, n, loss, rtt_s, rto_s; [] => (mean_s, std_dev_s),
        |args| delivery(args, [loss, rtt_s, rto_s], i, n, Spreading::s)?),
    model!("spreading::Spreading::s_no_fr"; i, n, loss, rtt_s, rto_s; [] => (mean_s, std_dev_s),
        |args| delivery(args, [loss, rtt_s, rto_s], i, n, Spreading::s_no_fr)?),
    model!("spreading::Spreading::b"; i, n, loss, rtt_s, rto_s; [] => (mean_s, std_dev_s),
        |args| delivery(args, [loss, rtt_s, rto_s], i, n, Spreading::b)?),
    model!("spreading::paper_literal::s_no_fr"; i, n, loss, rtt_s, rto_s; [] => (mean_s), |args| {
        let (i, n) = (size("i", i)?, size("n", n)?);
        with(args, [loss, rtt_s, rto_s], i, |model| paper_literal::s_no_fr(model, i, n))?
    }),
    model!("spreading::paper_literal::fr_saving"; n, loss, rtt_s, rto_s; [] => (saved_s), |args| {
        let weighted = args.word("weighted", &[("true", true), ("false", false)])?;
        let n = size("n", n)?;
        with(args, [loss, rtt_s, rto_s], 1, |model| paper_literal::fr_saving(model, n, weighted))?
    }),
    model!("spreading::paper_literal::b"; i, n, loss, rtt_s, rto_s; [] => (mean_s), |args| {
        let (i, n) = (size("i", i)?, size("n", n)?);
        with(args, [loss, rtt_s, rto_s], i, |model| paper_literal::b(model, i, n))?
    }),
];
