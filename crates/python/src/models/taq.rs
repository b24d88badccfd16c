//! TAQ's chains, and the operating point of a thin link.

use narrows_models::operating::{Bottleneck, OperatingPoint, Regime, Stack, operating_point};
use narrows_models::taq_chain::{
    Back, BackoffUntil, FastRetransmit, Settings, Silences, Stationary, mean_idle_uncapped, stage_ratio,
    stationary, tipping_point, tipping_point_closed,
};

use super::{Args, Model, Wrong, at_least_0, bytes, count, model, optional, rate, share, time};

const ENDS: [(&str, BackoffUntil); 4] = [
    ("new_ack", BackoffUntil::NewAck),
    ("new_sample", BackoffUntil::NewSample),
    ("s2", BackoffUntil::S2),
    ("s3", BackoffUntil::S3),
];
/// A chain by its number of stages.
type Stages = fn(u32) -> Back;

/// The chains by the names that `narrows model taq` has, with the stages they have if nothing is said.
const CHAINS: [(&str, (Stages, f64)); 3] =
    [("partial", (|_| Back::Partial, 0.0)), ("f3", (Back::Open, 3.0)), ("f64", (Back::Capped, 6.0))];
pub(super) const STACKS: [(&str, Stack); 2] = [("linux", Stack::Linux), ("rfc", Stack::Rfc)];

/// A chain's settings as numbers: greatest window, T0, probe, stages.
type Chain = [f64; 4];

fn chain(
    args: &Args<'_>,
    loss: f64,
    [wmax, t0_epochs, probe_epochs, stages]: Chain,
) -> Result<Stationary, Wrong> {
    let (back, usual) = args.word("chain", &CHAINS)?;
    let settings = Settings {
        wmax: count("wmax", wmax)?,
        t0_epochs,
        probe_epochs: optional(probe_epochs),
        backoff_ends: args.word("backoff_ends", &ENDS)?,
        repair: args.word("repair", &[("one", FastRetransmit::One), ("sack", FastRetransmit::Sack)])?,
    };
    Ok(stationary(back(count("stages", optional(stages).unwrap_or(usual))?), settings, loss)?)
}

/// Of the silences of a chain; none of one whose last stage is open.
fn silences(
    args: &Args<'_>,
    loss: f64,
    settings: Chain,
    of: impl FnOnce(&Silences) -> f64,
) -> Result<Option<f64>, Wrong> {
    Ok(chain(args, loss, settings)?.silences().as_ref().map(of))
}

/// A row of seven figures for each stage.
fn stages(chain: &Stationary) -> Vec<f64> {
    let flag = |x| f64::from(u8::from(x));
    let one = |s: &narrows_models::taq_chain::Stage| {
        [s.timer_epochs, flag(s.probe), flag(s.open), s.mean_idle_epochs, s.idle, s.first, s.second, s.third]
    };
    chain.stages().iter().flat_map(one).collect()
}

/// A link as numbers: rate, packet, RTT, buffer, flows, RTO's floor, window.
type Link = [f64; 7];

fn point(args: &Args<'_>, link: Link) -> Result<OperatingPoint, Wrong> {
    let [rate_bps, packet_bytes, rtt_s, buffer_packets, flows, rto_min_s, window] = link;
    let usual = Bottleneck::new(rate(rate_bps)?, time("rtt_s", rtt_s)?, count("flows", flows)?);
    let packet = bytes("packet_bytes", packet_bytes)?;
    let bdp = usual.rate.bdp(usual.rtt).0 / packet.0.max(1);
    let buffer_packets = match optional(buffer_packets) {
        Some(packets) => count("buffer_packets", packets)?,
        None => u32::try_from(bdp).unwrap_or(u32::MAX).max(4),
    };
    Ok(operating_point(&Bottleneck {
        packet,
        buffer_packets,
        rto_min: time("rto_min_s", rto_min_s)?,
        stack: args.word("stack", &STACKS)?,
        backoff_ends: args.word("backoff_ends", &ENDS)?,
        window: count("window", window)?,
        ..usual
    })?)
}

fn regime(class: Regime) -> f64 {
    match class {
        Regime::SubPacket => 0.0,
        Regime::SmallPacket => 1.0,
        Regime::FewPackets => 2.0,
        Regime::Normal => 3.0,
    }
}

pub(super) const MODELS: &[Model] = &[
    model!("taq_chain::stationary"; loss, wmax, t0_epochs, probe_epochs [none], stages [none]; []
        => (silent, silent_or_first, packets_per_epoch, timeouts_per_epoch, mean_idle_epochs), |args| {
        let c = chain(args, loss, [wmax, t0_epochs, probe_epochs, stages])?;
        [c.silent(), c.silent_or_first(), c.packets_per_epoch(), c.timeouts_per_epoch(), c.mean_idle_epochs()]
    }),
    model!("taq_chain::Stationary::sent"; loss, wmax, t0_epochs, probe_epochs [none], stages [none]; [] => (),
        |args| chain(args, loss, [wmax, t0_epochs, probe_epochs, stages])?.sent().to_vec()),
    model!("taq_chain::Stationary::stages"; loss, wmax, t0_epochs, probe_epochs [none], stages [none]; [] => (),
        |args| self::stages(&chain(args, loss, [wmax, t0_epochs, probe_epochs, stages])?)),
    model!("taq_chain::Stationary::idle_quantile"; quantile, loss, wmax, t0_epochs, probe_epochs [none], stages [none];
        [] => (epochs),
        |args| chain(args, loss, [wmax, t0_epochs, probe_epochs, stages])?.idle_quantile(share("quantile", quantile)?)),
    model!("taq_chain::Stationary::idle_quantile_by_time"; quantile, loss, wmax, t0_epochs, probe_epochs [none],
        stages [none]; [] => (epochs), |args| {
        let quantile = share("quantile", quantile)?;
        chain(args, loss, [wmax, t0_epochs, probe_epochs, stages])?.idle_quantile_by_time(quantile)
    }),
    model!("taq_chain::Stationary::silent_in_a_row"; epochs, loss, wmax, t0_epochs, probe_epochs [none], stages [none];
        [] => (share),
        |args| chain(args, loss, [wmax, t0_epochs, probe_epochs, stages])?.silent_in_a_row(count("epochs", epochs)?)),
    model!("taq_chain::Silences::per_epoch"; loss, wmax, t0_epochs, probe_epochs [none], stages [none];
        [] => (per_epoch),
        |args| silences(args, loss, [wmax, t0_epochs, probe_epochs, stages], Silences::per_epoch)?),
    model!("taq_chain::Silences::mean_epochs"; loss, wmax, t0_epochs, probe_epochs [none], stages [none];
        [] => (epochs),
        |args| silences(args, loss, [wmax, t0_epochs, probe_epochs, stages], Silences::mean_epochs)?),
    model!("taq_chain::Silences::quantile"; quantile, loss, wmax, t0_epochs, probe_epochs [none], stages [none];
        [] => (epochs), |args| {
        let quantile = share("quantile", quantile)?;
        silences(args, loss, [wmax, t0_epochs, probe_epochs, stages], |s| s.quantile(quantile))?
    }),
    model!("taq_chain::Silences::quantile_by_time"; quantile, loss, wmax, t0_epochs, probe_epochs [none], stages [none];
        [] => (epochs), |args| {
        let quantile = share("quantile", quantile)?;
        silences(args, loss, [wmax, t0_epochs, probe_epochs, stages], |s| s.quantile_by_time(quantile))?
    }),
    model!("taq_chain::Silences::longer_than"; epochs, loss, wmax, t0_epochs, probe_epochs [none], stages [none];
        [] => (share),
    |args| {
        let epochs = at_least_0("epochs", epochs)?;
        silences(args, loss, [wmax, t0_epochs, probe_epochs, stages], |s| s.longer_than(epochs))?
    }),
    model!("taq_chain::stage_ratio"; loss; [] => (ratio), |args| stage_ratio(args.word("backoff_ends", &ENDS)?, loss)?),
    model!("taq_chain::mean_idle_uncapped"; t0_epochs, loss; [] => (epochs),
        |args| mean_idle_uncapped(args.word("backoff_ends", &ENDS)?, t0_epochs, loss)?),
    model!("taq_chain::tipping_point"; ; [] => (loss), |args| tipping_point(args.word("backoff_ends", &ENDS)?)),
    model!("taq_chain::tipping_point_closed"; packets; [] => (loss),
        |args| tipping_point_closed(count("packets", packets)?)?),
    model!("operating::operating_point"; rate_bps, packet_bytes, rtt_s, buffer_packets [none], flows, rto_min_s,
        window; [] => (loss, share_packets_per_rtt, rtt_s, queue_s, utilisation, packets_per_epoch, silent, t0_epochs,
            silences_per_s, regime), |args| {
        let p = point(args, [rate_bps, packet_bytes, rtt_s, buffer_packets, flows, rto_min_s, window])?;
        [p.loss, p.share_packets_per_rtt, p.rtt_s, p.queue_s, p.utilisation, p.packets_per_epoch, p.silent,
            p.t0_epochs, p.silences_per_s(), regime(p.class)]
    }),
    model!("operating::OperatingPoint::silence_quantile_s";
        quantile, rate_bps, packet_bytes, rtt_s, buffer_packets [none], flows, rto_min_s, window; [] => (time_s),
        |args| {
        let p = point(args, [rate_bps, packet_bytes, rtt_s, buffer_packets, flows, rto_min_s, window])?;
        p.silence_quantile_s(share("quantile", quantile)?)
    }),
    model!("operating::OperatingPoint::silent_longer_than";
        x_s, rate_bps, packet_bytes, rtt_s, buffer_packets [none], flows, rto_min_s, window; [] => (share), |args| {
        let p = point(args, [rate_bps, packet_bytes, rtt_s, buffer_packets, flows, rto_min_s, window])?;
        p.silent_longer_than(at_least_0("x_s", x_s)?)
    }),
    model!("operating::Regime::of"; share_packets_per_rtt; [] => (regime), 
        |args| regime(Regime::of(at_least_0("share_packets_per_rtt", share_packets_per_rtt)?))),
];
