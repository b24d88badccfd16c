//! The yardsticks of the field: buffers, fairness, throughput, latency.

use narrows_models::buffers::{dbp_packets, for_utilisation, full_link, sqrt_rule};
use narrows_models::fairness::{jain, jain_of_slices};
use narrows_models::latency::{Latency, Transfer, cardwell, handshake_s};
use narrows_models::throughput::{
    LongFlow, mathis, mean_window, padhye, padhye_approximate, padhye_throughput, tfrc, timeout_probability,
    timeouts_s,
};

use super::{EXACT, Model, bytes, model, optional, rate, size, whole};

fn flow(loss: f64, rtt_s: f64, rto_s: f64, b: f64, wmax_packets: f64) -> LongFlow {
    LongFlow { loss, rtt_s, rto_s, b, wmax_packets: optional(wmax_packets) }
}

fn parts(l: &Latency) -> [f64; 11] {
    [
        l.handshake_s,
        l.slow_start_s,
        l.loss_s,
        l.avoidance_s,
        l.delayed_ack_s,
        l.slow_start_packets,
        l.window_packets,
        l.loss_probability,
        l.timeout_probability,
        l.transfer_s(),
        l.total_s(),
    ]
}

pub(super) const MODELS: &[Model] = &[
    model!("buffers::dbp_packets"; rate_bps, rtt_s, packet_bytes; [] => (packets),
        |args| dbp_packets(rate(rate_bps)?, rtt_s, bytes("packet_bytes", packet_bytes)?)?),
    model!("buffers::sqrt_rule"; dbp, flows; [] => (buffer), |args| sqrt_rule(dbp, whole("flows", flows, EXACT)?)?),
    model!("buffers::full_link"; beta; [] => (phi), |args| full_link(beta)?),
    model!("buffers::for_utilisation"; utilisation, beta; [] => (phi), |args| for_utilisation(utilisation, beta)?),
    model!("fairness::jain"; ; [shares] => (index), |args| jain(shares)?),
    model!("fairness::jain_of_slices"; units, per_slice; [amounts] => (index), |args| {
        let flows: Vec<Vec<f64>> =
            amounts.chunks(size("units", units)?.max(1)).map(<[f64]>::to_vec).collect();
        jain_of_slices(&flows, size("per_slice", per_slice)?)?
    }),
    model!("latency::handshake_s"; forward_loss, reverse_loss, rtt_s, syn_rto_s; [] => (time_s),
        |args| handshake_s(forward_loss, reverse_loss, rtt_s, syn_rto_s)?),
    model!("latency::cardwell";
        packets, loss, rtt_s, rto_s, b, wmax_packets [none], reverse_loss, syn_rto_s, initial_window, delayed_ack_s; []
        => (handshake_s, slow_start_s, loss_s, avoidance_s, delayed_ack_s, slow_start_packets, window_packets,
            loss_probability, timeout_probability, transfer_s, total_s), |args| {
        let packets = whole("packets", packets, EXACT)?;
        let flow = flow(loss, rtt_s, rto_s, b, wmax_packets);
        parts(&cardwell(&Transfer { packets, flow, reverse_loss, syn_rto_s, initial_window, delayed_ack_s })?)
    }),
    model!("throughput::mathis"; loss, b; [] => (packets_per_rtt), |args| mathis(loss, b)?),
    model!("throughput::mean_window"; loss, b; [] => (packets), |args| mean_window(loss, b)?),
    model!("throughput::timeout_probability"; loss, w; [] => (probability), |args| timeout_probability(loss, w)?),
    model!("throughput::timeouts_s"; loss, rto_s; [] => (time_s), |args| timeouts_s(loss, rto_s)?),
    model!("throughput::padhye"; loss, rtt_s, rto_s, b, wmax_packets [none]; [] => (rate_pps),
        |args| padhye(&flow(loss, rtt_s, rto_s, b, wmax_packets))?),
    model!("throughput::padhye_throughput"; loss, rtt_s, rto_s, b, wmax_packets [none]; [] => (rate_pps),
        |args| padhye_throughput(&flow(loss, rtt_s, rto_s, b, wmax_packets))?),
    model!("throughput::padhye_approximate"; loss, rtt_s, rto_s, b, wmax_packets [none]; [] => (rate_pps),
        |args| padhye_approximate(&flow(loss, rtt_s, rto_s, b, wmax_packets))?),
    model!("throughput::tfrc"; loss, rtt_s, b; [] => (rate_pps), |args| tfrc(loss, rtt_s, b)?),
];
