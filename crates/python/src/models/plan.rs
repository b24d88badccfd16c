//! What an operator asks of a thin link.

use narrows_models::plan::{DropTailBuffer, Outlook, Plan, SharedLink, Stalls, edges, plan};

use super::taq::STACKS;
use super::{Args, Model, Wrong, at_least_0, bytes, count, model, optional, rate, seconds, share, time};

/// A link as numbers: rate, users, RTT, packet, buffer in packets or in seconds, connections, busy share, object,
/// patience.
type Numbers = [f64; 10];

fn link(args: &Args<'_>, numbers: Numbers) -> Result<SharedLink, Wrong> {
    let [
        rate_bps,
        users,
        rtt_s,
        packet_bytes,
        buffer_packets,
        buffer_s,
        connections,
        busy,
        object_bytes,
        patience_s,
    ] = numbers;
    let usual = SharedLink::new(rate(rate_bps)?, count("users", users)?, time("rtt_s", rtt_s)?);
    let buffer = match (optional(buffer_packets), optional(buffer_s)) {
        (Some(packets), _) => DropTailBuffer::Packets(count("buffer_packets", packets)?),
        (None, Some(s)) => DropTailBuffer::Time(time("buffer_s", s)?),
        (None, None) => usual.buffer,
    };
    Ok(SharedLink {
        packet: bytes("packet_bytes", packet_bytes)?,
        buffer,
        connections: count("connections", connections)?,
        busy,
        object: bytes("object_bytes", object_bytes)?,
        stack: args.word("stack", &STACKS)?,
        patience: time("patience_s", patience_s)?,
        ..usual
    })
}

fn stalls(args: &Args<'_>, numbers: Numbers) -> Result<Stalls, Wrong> {
    Ok(plan(&link(args, numbers)?)?.stalls)
}

fn place(verdict: Outlook) -> f64 {
    Outlook::ALL.iter().position(|v| *v == verdict).unwrap_or_default() as f64
}

fn conclusions(p: &Plan) -> [f64; 22] {
    let none = f64::NAN;
    let buffer = p.larger_buffer.map_or([none; 3], |b| [f64::from(b.packets), b.delay_s, b.smallest_fetch_s]);
    [
        f64::from(p.busy_users),
        f64::from(p.flows),
        f64::from(p.buffer_packets),
        p.share_bps,
        p.share_packets,
        place(p.verdict),
        p.point.loss,
        p.point.silent,
        buffer[0],
        buffer[1],
        buffer[2],
        p.rounds.round_s,
        p.rounds.silence_s,
        p.rounds.fetch_s,
        p.rounds.wait_s.0,
        p.rounds.wait_s.1,
        f64::from(u8::from(p.rounds.fits)),
        f64::from(p.admission.users),
        p.admission.wait_s.unwrap_or(none),
        f64::from(p.loss_admission.users),
        p.loss_admission.wait_s.unwrap_or(none),
        p.exits.len() as f64,
    ]
}

/// Most users and least rate for each verdict that is better than the link's, from the best on; NaN for the others.
fn exits(p: &Plan) -> [f64; 6] {
    let mut row = [f64::NAN; 6];
    for exit in &p.exits {
        let at = 2 * place(exit.to) as usize;
        row[at] = f64::from(exit.users);
        row[at + 1] = exit.rate.map_or(f64::NAN, |r| r.as_bps() as f64);
    }
    row
}

pub(super) const MODELS: &[Model] = &[
    model!("plan::plan"; rate_bps, users, rtt_s, packet_bytes, buffer_packets [none], buffer_s [none], connections,
        busy, object_bytes, patience_s; [] => (busy_users, flows, buffer_packets, share_bps, share_packets, verdict,
            loss, silent, larger_buffer_packets, larger_buffer_delay_s, larger_buffer_smallest_fetch_s, round_s,
            silence_s, fetch_s, wait_least_s, wait_most_s, fits, admission_users, admission_wait_s,
            loss_admission_users, loss_admission_wait_s, exits), |args| {
        conclusions(&plan(&link(args, [rate_bps, users, rtt_s, packet_bytes, buffer_packets, buffer_s, connections,
            busy, object_bytes, patience_s])?)?)
    }),
    model!("plan::Plan::exits"; rate_bps, users, rtt_s, packet_bytes, buffer_packets [none], buffer_s [none],
        connections, busy, object_bytes, patience_s; [] => (fine_users, fine_rate_bps, small_packets_users,
            small_packets_rate_bps, past_tipping_users, past_tipping_rate_bps), |args| {
        exits(&plan(&link(args, [rate_bps, users, rtt_s, packet_bytes, buffer_packets, buffer_s, connections, busy,
            object_bytes, patience_s])?)?)
    }),
    model!("plan::edges"; rate_bps, users, rtt_s, packet_bytes, buffer_packets [none], buffer_s [none], connections,
        busy, object_bytes, patience_s; [] => (small_packets_users, past_tipping_users, too_many_users), |args| {
        let link = link(args, [rate_bps, users, rtt_s, packet_bytes, buffer_packets, buffer_s, connections, busy,
            object_bytes, patience_s])?;
        edges(&link, &[link.rate])?.first().map_or([f64::NAN; 3], |e| e.users)
    }),
    model!("plan::Stalls::per_s"; x_s, rate_bps, users, rtt_s, packet_bytes, buffer_packets [none], buffer_s [none],
        connections, busy, object_bytes, patience_s; [] => (per_s), |args| {
        stalls(args, [rate_bps, users, rtt_s, packet_bytes, buffer_packets, buffer_s, connections, busy, object_bytes,
            patience_s])?.per_s(at_least_0("x_s", x_s)?)
    }),
    model!("plan::Stalls::share_over"; x_s, during_s, rate_bps, users, rtt_s, packet_bytes, buffer_packets [none],
        buffer_s [none], connections, busy, object_bytes, patience_s; [] => (share), |args| {
        stalls(args, [rate_bps, users, rtt_s, packet_bytes, buffer_packets, buffer_s, connections, busy, object_bytes,
            patience_s])?.share_over(at_least_0("x_s", x_s)?, seconds("during_s", during_s)?)
    }),
    model!("plan::Stalls::longest_s"; of, during_s, rate_bps, users, rtt_s, packet_bytes, buffer_packets [none],
        buffer_s [none], connections, busy, object_bytes, patience_s; [] => (time_s), |args| {
        stalls(args, [rate_bps, users, rtt_s, packet_bytes, buffer_packets, buffer_s, connections, busy, object_bytes,
            patience_s])?.longest_s(share("of", of)?, seconds("during_s", during_s)?)
    }),
];
