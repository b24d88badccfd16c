//! Declarations of [`crate::burst`].

use super::arguments::{Arguments, Refused, rate, time};
use super::{
    Gives, Module, POSITIVE, SHARE, figure, groups, models, number, parameters, row, to, tuples, word,
};
use crate::burst::{After, BurstTcp, Form, Growth, Hop, Pareto, Path, Rounds};

parameters! {
    /// Size of the file.
    pub PACKETS = number("packets", to(1.0, 100_000.0).whole(), 64.0);
    /// Window of the sender before the first ACK.
    pub INITIAL = number("initial", to(1.0, 100_000.0).whole(), 1.0).or(1.0).unit("packets");
    /// Smoothing-out factor of Burst TCP: the smaller the bolder; 4 to 8 are good.
    pub F = number("f", to(1.0, 1e6).whole(), 8.0).or(8.0);
    /// Mice threshold of Burst TCP.
    pub MICE = number("mice", to(1.0, 1e6).whole(), 32.0).or(32.0).unit("packets");
    /// Factor of slow start's window per round trip.
    pub BASE = number("base", to(1.0, 1024.0).without_low(), 2.0).or_none("Burst TCP");
    /// Reading of Burst TCP.
    pub FORM = word("form", &[
        ("guarded", "the pseudo-code below the threshold, slow start from there on (the text)"),
        ("guarded_avoidance", "the pseudo-code below the threshold, congestion avoidance from there on"),
        ("printed", "the pseudo-code to the letter (figure 9), which never leaves the threshold"),
        ("ns2", "the ns-2 code of the appendix"),
    ]);
    /// Congestion window before the ACK, packets.
    CWND = number("cwnd", to(1.0, f64::INFINITY).without_high(), 4.0).unit("packets");
    /// Packets that path and buffer hold together.
    pub PIPE = number("pipe", to(1.0, 100_000.0).whole(), 32.0).unit("packets");
    /// Rate of each hop; 1 to 16 hops.
    RATE_BPS = row("rate_bps", to(1000.0, f64::INFINITY), &[1e6, 2e6], "hops");
    /// Propagation of each hop, one way.
    DELAY_S = row("delay_s", to(0.0, 1000.0), &[0.1, 0.2], "hops");
    /// Size of a data packet, headers included.
    pub PACKET_BYTES = number("packet_bytes", to(0.0, 65_535.0).whole(), 1500.0).or(1500.0);
    /// Size of an ACK; 0 takes no time.
    pub ACK_BYTES = number("ack_bytes", to(0.0, 65_535.0).whole(), 40.0).or(40.0);
    /// Size of a first packet that stands for the SYN, as ns-2's one-way agents send it.
    pub SYN_BYTES = number("syn_bytes", to(0.0, 65_535.0).whole(), 40.0).or_none("the connection stands already");
    /// Least value of Pareto's law, in the unit that the result is to have.
    SCALE = number("scale", POSITIVE, 4.0);
    /// Shape of the law; the dissertation's files have scale 4 and shape 1.2 (section 5.1).
    SHAPE = number("shape", POSITIVE, 1.2);
    /// Value that is to be exceeded, in the unit of the scale.
    X = number("x", super::ANY, 10.0);
    /// Share of all values of the law that exceed the result.
    ABOVE = number("above", SHARE.without_low(), 0.1);
    /// Greatest value that counts, above the scale.
    LIMIT = number("limit", POSITIVE, 100.0);
}

groups! {
    /// Growth of a window: slow start to a base, or Burst TCP.
    GROWTH = Growth growth [BASE, F, MICE, FORM]
        /// Burst TCP as the text has it, f = 8 and 32 packets.
        GROWTH("");
    /// Empty path, hop by hop, and packets sent over it.
    PATH = Path path [RATE_BPS, DELAY_S, PACKET_BYTES, ACK_BYTES, SYN_BYTES];
}

tuples! {
    /// Windows, one per round trip; shape (..., rounds), NaN after the last round.
    ROUNDS = Rounds {
        /// Window of each round trip, packets; its whole part is sent.
        windows in "packets",
        /// Packets sent up to the end of each round.
        sent in "packets",
    }
    /// First round that a pipe cannot hold; NaN if all fit.
    OVERSHOOT = Overshoot {
        /// Packets sent before the first one that is lost.
        sent in "packets",
        /// Packets of the round of the first loss that the pipe has no room for.
        lost in "packets",
        /// Number of the round trip with the first loss, from 1.
        round,
    }
}

const AFTER: [Form; 4] =
    [Form::Guarded(After::SlowStart), Form::Guarded(After::CongestionAvoidance), Form::Printed, Form::Ns2];

/// Slow start to a base, or Burst TCP where there is none.
fn growth(a: &Arguments<'_>) -> Result<Growth, Refused> {
    match a.some(BASE) {
        Some(base) => Ok(Growth::SlowStart { base }),
        None => Ok(Growth::Burst(BurstTcp::new(a.count(F)?, a.count(MICE)?, a.pick(FORM, AFTER))?)),
    }
}

/// Windows, then packets sent up to the end of each round.
fn in_a_row(rounds: Rounds) -> Vec<f64> {
    rounds.windows.into_iter().chain(rounds.sent.into_iter().map(|n| n as f64)).collect()
}

fn path(a: &Arguments<'_>) -> Result<Path, Refused> {
    let hop = |(bps, s): (&f64, &f64)| Ok(Hop { rate: rate("rate_bps", *bps)?, delay: time("delay_s", *s)? });
    Ok(Path {
        hops: a.row(RATE_BPS).iter().zip(a.row(DELAY_S)).map(hop).collect::<Result<_, Refused>>()?,
        data: a.bytes(PACKET_BYTES)?,
        ack: a.bytes(ACK_BYTES)?,
        syn: a.some(SYN_BYTES).map(|_| a.bytes(SYN_BYTES)).transpose()?,
    })
}

fn pareto(a: &Arguments<'_>) -> Result<Pareto, Refused> {
    Ok(Pareto::new(a[SCALE], a[SHAPE])?)
}

pub(super) const MODULE: Module = Module {
    name: "burst",
    sentence: "Windows of the first phase of a connection: slow start to any base, and Burst TCP.

Gonçalves, \"Burst TCP: an approach for benefiting mice flows\" (dissertation, UFPE), chapter 4. Nothing is lost here.
See docs/explanation/models/burst.md.",
    models: models! {
        /// Burst TCP once per round trip: `cwnd + floor((mice - cwnd) / f)` until all packets are sent (section 4.2).
        flow_level(PACKETS, INITIAL, F, MICE) -> Gives::Rows(&ROUNDS), "BurstTcp::flow_level", |a| {
            let burst = BurstTcp::new(a.count(F)?, a.count(MICE)?, Form::default())?;
            in_a_row(burst.flow_level(a.count(INITIAL)?, a.count(PACKETS)?)?)
        };
        /// Window after one new ACK (the pseudo-code of figure 9).
        on_ack(CWND, GROWTH)
            -> Gives::One(figure("cwnd", "Congestion window after the ACK, packets.")), "Growth::on_ack",
            |a| growth(a)?.on_ack(a[CWND])?;
        /// Windows per round trip, ACK by ACK, until all packets are sent.
        rounds(PACKETS, INITIAL, GROWTH) -> Gives::Rows(&ROUNDS), "Growth::rounds",
            |a| in_a_row(growth(a)?.rounds(a.count(INITIAL)?, a.count(PACKETS)?)?);
        /// Round trips that a file takes: the number of `rounds`.
        round_trips(PACKETS, INITIAL, GROWTH)
            -> Gives::One(figure("rounds", "Number of round trips.")), "Rounds::count",
            |a| growth(a)?.rounds(a.count(INITIAL)?, a.count(PACKETS)?)?.count() as f64;
        /// First loss in a pipe (path and buffer together).
        overshoot(PIPE, INITIAL, GROWTH) -> Gives::Tuple(&OVERSHOOT), "Growth::overshoot",
            |a| match growth(a)?.overshoot(a.count(INITIAL)?, a.count(PIPE)?)? {
                Some(over) => [over.sent as f64, over.lost as f64, over.round as f64],
                None => [f64::NAN; 3],
            };
        /// Time at which each packet of a file is acknowledged, from the sending of the first.
        transfer(PACKETS, PATH, INITIAL, GROWTH)
            -> Gives::Row(figure("packets", "Time at which each packet has arrived, seconds.")), "Path::transfer", |a| {
            let path = path(a)?;
            let acked = path.transfer(&growth(a)?, a.count(INITIAL)?, a.count(PACKETS)?)?;
            acked.into_iter().map(|t| t.as_secs_f64()).collect::<Vec<f64>>()
        };
        /// Mean of `P(X > x) = (scale / x)^shape`, in the unit of the scale; NaN for a shape up to 1, which has none.
        pareto_mean(SCALE, SHAPE)
            -> Gives::One(figure("mean", "Mean of the law.")), "Pareto::mean", |a| pareto(a)?.mean();
        /// Probability that a value exceeds `x`: `(scale / x)^shape`.
        pareto_above(X, SCALE, SHAPE) -> Gives::One(figure("share", "Probability of more than `x`.")), "Pareto::above",
            |a| pareto(a)?.above(a[X]);
        /// Value that a share `above` of all exceed, in the unit of the scale.
        pareto_exceeded_by(ABOVE, SCALE, SHAPE)
            -> Gives::One(figure("x", "Value that is exceeded with this probability.")), "Pareto::exceeded_by",
            |a| pareto(a)?.exceeded_by(a[ABOVE])?;
        /// Median of the values up to a limit, in the unit of the scale.
        pareto_median_up_to(LIMIT, SCALE, SHAPE)
            -> Gives::One(figure("median", "Median of the values up to the limit.")),
            "Pareto::median_up_to", |a| pareto(a)?.median_up_to(a[LIMIT])?;
    },
};
