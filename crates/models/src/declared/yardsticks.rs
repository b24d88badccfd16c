//! Declarations of [`crate::buffers`], [`crate::fairness`] and [`crate::latency`].

use super::aimd::BETA_OF_BUFFER;
use super::arguments::{Arguments, Refused};
use super::throughput::{LOSS, RTT_S, WMAX_PACKETS, flow};
use super::{
    Argument, ArgumentKind, Gives, Module, Output, POSITIVE, SHARE, Usual, figure, groups, models, number,
    parameters, row, to, tuples,
};
use crate::buffers::{dbp_packets, for_utilisation, full_link, sqrt_rule};
use crate::fairness::{jain, jain_of_slices};
use crate::latency::{Transfer, cardwell, handshake_s};

parameters! {
    /// Rate of the link, as 2mbit.
    pub RATE_BPS = number("rate_bps", to(1.0, f64::INFINITY), 2e6);
    /// Round-trip time without a queue, in seconds, or as 200ms.
    pub BASE_RTT_S = number("rtt_s", to(0.0, 1e6).without_low(), 0.2);
    /// Size of a packet on the wire, headers included.
    pub PACKET_BYTES = number("packet_bytes", to(1.0, f64::INFINITY).whole(), 1500.0).or(1500.0);
    /// Delay-bandwidth product, in the unit that the buffer is to have.
    DBP = number("dbp", POSITIVE, 100.0);
    /// Number of long flows that share the link.
    pub FLOWS = number("flows", to(1.0, f64::INFINITY).whole(), 100.0);
    /// Share of the link that is to be used.
    pub UTILISATION = number("utilisation", SHARE.without_low(), 0.98);
    /// Amounts that each flow received, finite and 0 or more, in any one unit.
    SHARES = row("shares", to(0.0, f64::INFINITY).without_high(), &[1.0, 2.0, 3.0], "flows");
    /// Amounts that each flow received in each unit of time, shape (..., flows, units).
    AMOUNTS = Argument::One(super::Parameter {
        name: "amounts",
        unit: "",
        kind: ArgumentKind::Grid(&[1.0, 2.0, 2.0, 1.0], "flows, units"),
        usual: Usual::Required,
        sentence: "",
    });
    /// Units of time in a slice: 20 for TAQ's slices of 20 s and amounts by the second.
    PER_SLICE = number("per_slice", to(1.0, f64::INFINITY).whole(), 1.0);
    /// Loss of a packet on its way to the receiver: 0, or 1e-12 and more.
    FORWARD_LOSS = number("forward_loss", to(0.0, 0.5).without_high(), 0.02);
    /// Loss of the SYN+ACK on its way back: 0, or 1e-12 and more.
    REVERSE = number("reverse_loss", to(0.0, 0.5).without_high(), 0.0);
    /// First timeout of the SYN: 1 s by RFC 6298.
    pub SYN_RTO_S = number("syn_rto_s", to(1e-9, 1e9), 1.0).or(1.0);
    /// Number of segments that the transfer has.
    PACKETS = number("packets", to(1.0, 1e12).whole(), 14.0);
    /// Loss of a packet on its way to the receiver, and of the SYN: 0, or 1e-12 and more; below 0.5.
    pub TRANSFER_LOSS = number("loss", to(0.0, 0.5).without_high(), 0.02);
    /// First retransmission timeout of a series.
    pub FIRST_RTO_S = number("rto_s", to(1e-9, 1e9), 1.0).or(1.0);
    /// Segments acknowledged by one ACK: 2 with delayed ACKs.
    B_DELAYED = number("b", to(1.0, 1000.0), 2.0).or(2.0);
    /// Loss on the way back, which only the SYN+ACK feels; below 0.5.
    pub REVERSE_LOSS = number("reverse_loss", to(0.0, 0.5).without_high(), 0.0).or(0.0);
    /// Initial window: 10 by RFC 6928.
    pub INITIAL_WINDOW = number("initial_window", to(1.0, 1e9), 10.0).or(10.0).unit("packets");
    /// Mean cost of a delayed ACK of a lone first segment; counts where the initial window is below 2.
    pub DELAYED_ACK_S = number("delayed_ack_s", to(0.0, 1e9), 0.1).or(0.1);
}

const DBP_PACKETS: Output =
    figure("packets", "Packets that the path holds without a queue: its rate times the round-trip time.");

groups! {
    /// Transfer and its path.
    TRANSFER = Transfer transfer [PACKETS, TRANSFER_LOSS, RTT_S, FIRST_RTO_S, B_DELAYED, WMAX_PACKETS, REVERSE_LOSS,
        SYN_RTO_S, INITIAL_WINDOW, DELAYED_ACK_S];
}

tuples! {
    /// Expected time of a transfer, in its parts.
    LATENCY_PARTS = Latency {
        /// Time of the handshake (equation 4).
        handshake_s,
        /// Time of slow start up to the first loss (equation 15).
        slow_start_s,
        /// Mean time of repairing the first loss (equation 20).
        loss_s,
        /// Time of the rest of the transfer, as a long flow (equation 24).
        avoidance_s,
        /// Mean cost of a delayed ACK of a lone first segment.
        delayed_ack_s,
        /// Packets sent before the first loss (equation 5).
        slow_start_packets,
        /// Window in which slow start ends if nothing limits it (equation 11).
        window_packets,
        /// Probability that the transfer loses a packet (equation 16).
        loss_probability,
        /// Probability that the transfer's first loss is repaired by a timeout (equation 17).
        timeout_probability,
        /// Time from the first segment of data to the last ACK (equation 25).
        transfer_s,
        /// Time of handshake and transfer.
        total_s,
    }
}

/// The forward loss is `loss` where a transfer has one alone.
fn handshake(a: &Arguments<'_>) -> Result<f64, Refused> {
    let time = handshake_s(a[FORWARD_LOSS], a[REVERSE], a[RTT_S], a[SYN_RTO_S]);
    time.map_err(|e| if e.parameter == "loss" { Refused::from(e).of(FORWARD_LOSS) } else { e.into() })
}

pub(super) const BUFFERS: Module = Module {
    name: "buffers",
    sentence: "Buffer that a link needs, by the rules of the field.

One delay-bandwidth product (DBP; Villamizar and Song, 1994); DBP over the root of the number of flows (Appenzeller,
Keslassy and McKeown, 2004); the need of a back-off factor when all flows lose together (Shorten and Leith, 2007,
section III).",
    models: models! {
        /// Delay-bandwidth product in packets.
        dbp_packets(RATE_BPS, BASE_RTT_S, PACKET_BYTES)
            -> Gives::One(DBP_PACKETS), "dbp_packets",
            |a| dbp_packets(a.rate(RATE_BPS)?, a[BASE_RTT_S], a.bytes(PACKET_BYTES)?)?;
        /// Buffer for long flows that lose independently: `DBP / sqrt(n)`, in the unit of `dbp`.
        sqrt_rule(DBP, FLOWS) -> Gives::One(figure("buffer", "Size of the buffer.")), "sqrt_rule",
            |a| sqrt_rule(a[DBP], a.whole(FLOWS)?)?;
        /// Buffer in DBP that a cut to `beta` just empties: `1/beta - 1`.
        full_link(BETA_OF_BUFFER) -> Gives::One(figure("phi", "Size of the buffer, in DBP.")), "full_link",
            |a| full_link(a[BETA_OF_BUFFER])?;
        /// Least buffer in DBP with which synchronised flows use such a share: the inverse of `aimd.efficiency`.
        for_utilisation(UTILISATION, BETA_OF_BUFFER) -> Gives::One(figure("phi", "Size of the buffer, in DBP.")),
            "for_utilisation", |a| for_utilisation(a[UTILISATION], a[BETA_OF_BUFFER])?;
    },
};

pub(super) const FAIRNESS: Module = Module {
    name: "fairness",
    sentence: "Jain's fairness index, over a whole run and over slices of it.

Jain, Chiu and Hawe, \"A Quantitative Measure of Fairness and Discrimination for Resource Allocation in Shared Computer
Systems\" (DEC-TR-301, 1984); over slices of 20 s as in TAQ (EuroSys 2014), section 2.3.",
    models: models! {
        /// Fairness `(sum x)^2 / (n sum x^2)`: 1 if all are equal, 1/n if one has everything, 0 if nobody got anything.
        jain(SHARES) -> Gives::One(figure("index", "Jain's index.")), "jain", |a| jain(a.row(SHARES))?;
        /// Mean of `jain` over slices of time; a rest at the end is no slice.
        jain_of_slices(AMOUNTS, PER_SLICE)
            -> Gives::One(figure("index", "Mean of Jain's index over the slices.")), "jain_of_slices", |a| {
            let width = a.size(super::arguments::WIDTH)?.max(1);
            let flows: Vec<Vec<f64>> = a.row(AMOUNTS).chunks(width).map(<[f64]>::to_vec).collect();
            jain_of_slices(&flows, a.size(PER_SLICE)?)?
        };
    },
};

pub(super) const LATENCY: Module = Module {
    name: "latency",
    sentence: "Time of a transfer, from the first SYN to the ACK of its last segment.

Cardwell, Savage and Anderson, \"Modeling TCP Latency\" (INFOCOM 2000); equation numbers are theirs. See
docs/explanation/models/latency.md.",
    models: models! {
        /// Time of the handshake by equation 4: `RTT + T_s ((1-p_r)/(1-2p_r) + (1-p_f)/(1-2p_f) - 2)`.
        handshake_s(FORWARD_LOSS, REVERSE, RTT_S, SYN_RTO_S)
            -> Gives::One(figure("time_s", "Mean time of the handshake.")), "handshake_s",
            |a| handshake(a)?;
        /// Expected latency of a transfer.
        cardwell(TRANSFER) -> Gives::Tuple(&LATENCY_PARTS), "cardwell", |a| {
            let l = cardwell(&Transfer {
                packets: a.whole(PACKETS)?,
                flow: flow(a, LOSS),
                reverse_loss: a[REVERSE_LOSS],
                syn_rto_s: a[SYN_RTO_S],
                initial_window: a[INITIAL_WINDOW],
                delayed_ack_s: a[DELAYED_ACK_S],
            })?;
            [l.handshake_s, l.slow_start_s, l.loss_s, l.avoidance_s, l.delayed_ack_s, l.slow_start_packets,
                l.window_packets, l.loss_probability, l.timeout_probability, l.transfer_s(), l.total_s()]
        };
    },
};
