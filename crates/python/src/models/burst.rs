//! Burst TCP: Gonçalves.

use narrows_models::burst::{After, BurstTcp, Form, Growth, Hop, Pareto, Path, Rounds};

use super::{Args, Model, Wrong, bytes, count, model, optional, rate, time};

const FORMS: [(&str, Form); 4] = [
    ("guarded", Form::Guarded(After::SlowStart)),
    ("guarded_avoidance", Form::Guarded(After::CongestionAvoidance)),
    ("printed", Form::Printed),
    ("ns2", Form::Ns2),
];

/// Slow start to `base`, or Burst TCP where there is none.
fn growth(args: &Args<'_>, base: f64, f: f64, mice: f64) -> Result<Growth, Wrong> {
    match optional(base) {
        Some(base) => Ok(Growth::SlowStart { base }),
        None => {
            let form = args.word("form", &FORMS)?;
            Ok(Growth::Burst(BurstTcp::new(count("f", f)?, count("mice", mice)?, form)?))
        }
    }
}

/// Windows, then what is sent up to the end of each round.
fn in_a_row(rounds: Rounds) -> Vec<f64> {
    rounds.windows.into_iter().chain(rounds.sent.into_iter().map(|n| n as f64)).collect()
}

fn path(rate_bps: &[f64], delay_s: &[f64], sizes: [f64; 3]) -> Result<Path, Wrong> {
    let hop = |(bps, s): (&f64, &f64)| Ok(Hop { rate: rate(*bps)?, delay: time("delay_s", *s)? });
    let [data, ack, syn] = sizes;
    Ok(Path {
        hops: rate_bps.iter().zip(delay_s).map(hop).collect::<Result<_, Wrong>>()?,
        data: bytes("packet_bytes", data)?,
        ack: bytes("ack_bytes", ack)?,
        syn: optional(syn).map(|syn| bytes("syn_bytes", syn)).transpose()?,
    })
}

pub(super) const MODELS: &[Model] = &[
    model!("burst::BurstTcp::flow_level"; initial, packets, f, mice; [] => (), |args| {
        let burst = BurstTcp::new(count("f", f)?, count("mice", mice)?, Form::default())?;
        in_a_row(burst.flow_level(count("initial", initial)?, count("packets", packets)?)?)
    }),
    model!("burst::Growth::on_ack"; cwnd, base [none], f, mice; [] => (cwnd),
        |args| growth(args, base, f, mice)?.on_ack(cwnd)?),
    model!("burst::Growth::rounds"; initial, packets, base [none], f, mice; [] => (), |args| {
        in_a_row(growth(args, base, f, mice)?.rounds(count("initial", initial)?, count("packets", packets)?)?)
    }),
    model!("burst::Rounds::count"; initial, packets, base [none], f, mice; [] => (rounds), |args| {
        let growth = growth(args, base, f, mice)?;
        growth.rounds(count("initial", initial)?, count("packets", packets)?)?.count() as f64
    }),
    model!("burst::Growth::overshoot"; initial, pipe, base [none], f, mice; [] => (sent, lost, round), |args| {
        let growth = growth(args, base, f, mice)?;
        match growth.overshoot(count("initial", initial)?, count("pipe", pipe)?)? {
            Some(over) => [over.sent as f64, over.lost as f64, over.round as f64],
            None => [f64::NAN; 3],
        }
    }),
    model!("burst::Path::transfer";
        packet_bytes, ack_bytes, syn_bytes [none], initial, packets, base [none], f, mice; [rate_bps, delay_s] => (),
            |args| {
        let path = path(rate_bps, delay_s, [packet_bytes, ack_bytes, syn_bytes])?;
        let growth = growth(args, base, f, mice)?;
        let acked = path.transfer(&growth, count("initial", initial)?, count("packets", packets)?)?;
        acked.into_iter().map(|t| t.as_secs_f64()).collect::<Vec<f64>>()
    }),
    model!("burst::Pareto::mean"; scale, shape; [] => (mean), |args| Pareto::new(scale, shape)?.mean()),
    model!("burst::Pareto::above"; x, scale, shape; [] => (share), |args| Pareto::new(scale, shape)?.above(x)),
    model!("burst::Pareto::exceeded_by"; above, scale, shape; [] => (x),
        |args| Pareto::new(scale, shape)?.exceeded_by(above)?),
    model!("burst::Pareto::median_up_to"; limit, scale, shape; [] => (median),
        |args| Pareto::new(scale, shape)?.median_up_to(limit)?),
];
