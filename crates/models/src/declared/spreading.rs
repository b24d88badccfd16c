//! Declarations of [`crate::spreading`].

use super::arguments::{Arguments, Refused};
use super::{
    Gives, Module, POSITIVE, SHARE, figure, flag, groups, models, number, parameters, to, tuples, word,
};
use crate::Result as Of;
use crate::spreading::{Backoff, Delivery, Parameters, Spreading, no_loss, paper_literal};

parameters! {
    /// Segments of the transfer.
    pub I = number("i", to(1.0, 1024.0).whole(), 5.0).unit("segments");
    /// Segments of the first window.
    pub N = number("n", to(1.0, 1024.0).whole(), 10.0).unit("segments");
    /// Loss probability of a segment: with it all later ones of its burst are lost.
    pub LOSS = number("loss", to(0.0, 0.5).without_high(), 0.05);
    /// Probability that a segment is lost.
    ANY_LOSS = number("loss", SHARE, 0.05);
    /// Number of segments of the transfer.
    SEGMENTS = number("segments", to(0.0, 4_294_967_295.0).whole(), 5.0);
    /// Round-trip time of the path.
    pub RTT_S = number("rtt_s", POSITIVE, 0.2);
    /// First value of the timer, before any back-off, at least the RTT and at most 1e6 s.
    pub RTO_S = number("rto_s", to(0.0, 1e6), 1.0);
    /// Timer that a timeout doubles.
    BACKOFF = word("backoff", &[
        ("single_segment", "only the timer of a window of one (the paper's)"),
        ("every_timeout", "any timer (RFC 6298, 5.5)"),
    ]);
    /// Whether the probabilities that equation 3 lacks are put in.
    WEIGHTED = flag("weighted");
}

groups! {
    /// Path and timer.
    PARAMETERS = Parameters given [LOSS, RTT_S, RTO_S, BACKOFF];
}

tuples! {
    /// Time until the last segment is acknowledged.
    DELIVERY = Delivery {
        /// Mean of that time.
        mean_s,
        /// Standard deviation; NaN from a loss of 1/4 on, where there is none.
        std_dev_s,
    }
}

fn path(a: &Arguments<'_>, backoff: Backoff) -> Parameters {
    Parameters { loss: a[LOSS], rtt_s: a[RTT_S], rto_s: a[RTO_S], backoff }
}

/// A transfer of `i` segments, first window `n`, by one of the recursion's states.
fn delivery(
    a: &Arguments<'_>,
    state: fn(&Spreading, usize, usize) -> Of<Delivery>,
) -> Result<[f64; 2], Refused> {
    let (i, n) = (a.size(I)?, a.size(N)?);
    let backoff = a.pick(BACKOFF, [Backoff::SingleSegment, Backoff::EveryTimeout]);
    let told = a.spreading(path(a, backoff), i, |model| state(model, i, n))?;
    Ok([told.mean_s, told.std_dev_s.unwrap_or(f64::NAN)])
}

/// Value of an equation in the form printed in the paper.
fn printed(a: &Arguments<'_>, i: usize, ask: impl FnOnce(&Spreading) -> Of<f64>) -> Result<f64, Refused> {
    a.spreading(path(a, Backoff::SingleSegment), i, ask)
}

pub(super) const MODULE: Module = Module {
    name: "spreading",
    sentence: "Time of a short transfer whose first window is a burst, is spread over the first RTT, or is one segment.

Sallantin, Baudoin, Chaput, Arnal, Dubois and Beylot, \"A TCP Model for Short-Lived Flows to Validate Initial
Spreading\" (LCN 2014), section IV, with the corrections of docs/explanation/models/spreading.md.",
    models: models! {
        /// Probability that no segment of some is lost: `(1-p)^m`.
        no_loss(ANY_LOSS, SEGMENTS)
            -> Gives::One(figure("probability", "Probability that no segment is lost.")), "no_loss",
            |a| no_loss(a[ANY_LOSS], a.count(SEGMENTS)?)?;
        /// Time T(D_i^n) with one burst as first window (equation 1, and 6 beyond one window).
        d(I, N, PARAMETERS) -> Gives::Tuple(&DELIVERY), "Spreading::d", |a| delivery(a, Spreading::d)?;
        /// Time T(S_i^n) with the first window spread over the RTT, with fast retransmit (equations 2 and 3); i <= n,
        /// or n = 1.
        s(I, N, PARAMETERS) -> Gives::Tuple(&DELIVERY), "Spreading::s", |a| delivery(a, Spreading::s)?;
        /// Time T(S_i^n) without fast retransmit (equation 2); i <= n, or n = 1.
        s_no_fr(I, N, PARAMETERS) -> Gives::Tuple(&DELIVERY), "Spreading::s_no_fr",
            |a| delivery(a, Spreading::s_no_fr)?;
        /// Time T(B_i^n) of a window that is sent in pairs (equations 5 and 6); T(B_i^1) is slow start from a window of
        /// one.
        b(I, N, PARAMETERS) -> Gives::Tuple(&DELIVERY), "Spreading::b", |a| delivery(a, Spreading::b)?;
        /// Mean time by equation 2 as it is printed, to show the effect of its errors; i <= n <= 64.
        printed_s_no_fr(I, N, LOSS, RTT_S, RTO_S) -> Gives::One(figure("mean_s", "Mean time of the transfer.")),
            "paper_literal::s_no_fr", |a| {
            let (i, n) = (a.size(I)?, a.size(N)?);
            printed(a, i, |model| paper_literal::s_no_fr(model, i, n))?
        };
        /// Time that fast retransmit saves by equation 3 as it is printed; n <= 64.
        printed_fr_saving(N, LOSS, RTT_S, RTO_S, WEIGHTED)
            -> Gives::One(figure("saved_s", "Mean time that fast retransmit saves.")),
            "paper_literal::fr_saving", |a| {
            let (n, weighted) = (a.size(N)?, a.flag(WEIGHTED));
            printed(a, 1, |model| paper_literal::fr_saving(model, n, weighted))?
        };
        /// Mean time by equations 5 and 6 as they are printed; i and n up to 64.
        printed_b(I, N, LOSS, RTT_S, RTO_S)
            -> Gives::One(figure("mean_s", "Mean time of the transfer.")), "paper_literal::b", |a| {
            let (i, n) = (a.size(I)?, a.size(N)?);
            printed(a, i, |model| paper_literal::b(model, i, n))?
        };
    },
};
