//! Declarations of [`crate::operating`].

use super::arguments::{Arguments, Refused};
use super::taq_chain::{BACKOFF_ENDS, ENDS};
use super::yardsticks::{PACKET_BYTES, RATE_BPS};
use super::{
    Gives, Module, Output, SHARE, WordList, figure, groups, models, number, parameters, to, tuples, word,
};
use crate::operating::{Bottleneck, OperatingPoint, Regime, Stack, operating_point};

parameters! {
    /// Round trip without a queue, in seconds, or as 200ms.
    pub RTT_S = number("rtt_s", to(0.0, 1e9).without_low(), 0.2);
    /// Long flows at a time.
    pub FLOWS = number("flows", to(1.0, 4_294_967_295.0).whole(), 60.0);
    /// Buffer of the queue.
    pub BUFFER_PACKETS = number("buffer_packets", to(0.0, 4_294_967_295.0).whole(), 30.0)
        .or_none("one bandwidth-delay product, at least 4");
    /// Floor of the senders' timer: 0.2 s in Linux and ns-2, 1 s by RFC 6298.
    pub RTO_MIN_S = number("rto_min_s", to(0.0, 1e9), 0.2).or(0.2);
    /// Greatest window that a receiver offers.
    pub WINDOW = number("window", to(4.0, 10_000.0).whole(), 1000.0).or(1000.0).unit("packets");
    /// Timer of the senders.
    pub STACK = word("stack", &[
        ("linux", "as in Linux, with timestamps and tail loss probes"),
        ("rfc", "by RFC 6298 to the letter, as in ns-2, without timestamps"),
    ]);
    /// Share of the silences that are no longer than the result.
    QUANTILE = number("quantile", SHARE, 0.5);
    /// Length of the silence so far.
    X_S = number("x_s", to(0.0, f64::INFINITY), 5.0);
    /// Fair share of a flow.
    SHARE_PACKETS = number("share_packets_per_rtt", to(0.0, f64::INFINITY), 3.0).unit("packets per round trip");
}

groups! {
    /// Thin link, its queue and the flows through it.
    BOTTLENECK = Bottleneck bottleneck [RATE_BPS, RTT_S, FLOWS, PACKET_BYTES, BUFFER_PACKETS, RTO_MIN_S, WINDOW, STACK,
        BACKOFF_ENDS];
}

const REGIMES: WordList = WordList {
    name: "REGIMES",
    words: &["sub-packet", "small-packet", "few packets", "normal"],
    sentence: "Regimes by the fair share in packets per round trip: at most 1, at most 4, below 10, more (TAQ, section \
               2.1).",
};

tuples! {
    /// Point where link and flows meet.
    POINT = OperatingPoint {
        /// Share of the packets that the queue drops; 0 if all windows fit.
        loss,
        /// Fair share of a flow, packets per round trip with the queue.
        share_packets_per_rtt in "packets",
        /// Round trip with the queue: an epoch of the chain.
        rtt_s,
        /// Wait in the queue.
        queue_s,
        /// Share of the link's rate that is used.
        utilisation,
        /// Packets a flow sends per epoch, lost ones included.
        packets_per_epoch in "packets",
        /// Share of the flows that send nothing in an epoch.
        silent,
        /// First value of the timer, before any back-off, epochs.
        t0_epochs,
        /// Number of silences of a flow that begin per second.
        silences_per_s in "1/s",
        /// Regime of the fair share.
        regime of &REGIMES,
    }
}

fn point(a: &Arguments<'_>) -> Result<OperatingPoint, Refused> {
    let usual = Bottleneck::new(a.rate(RATE_BPS)?, a.time(RTT_S)?, a.count(FLOWS)?);
    let packet = a.bytes(PACKET_BYTES)?;
    let bdp = usual.rate.bdp(usual.rtt).0 / packet.0.max(1);
    let buffer = a.some_count(BUFFER_PACKETS)?;
    Ok(operating_point(&Bottleneck {
        packet,
        buffer_packets: buffer.unwrap_or_else(|| u32::try_from(bdp).unwrap_or(u32::MAX).max(4)),
        rto_min: a.time(RTO_MIN_S)?,
        stack: a.pick(STACK, STACKS),
        backoff_ends: a.pick(BACKOFF_ENDS, ENDS),
        window: a.count(WINDOW)?,
        ..usual
    })?)
}

/// The words of [`STACK`].
pub(super) const STACKS: [Stack; 2] = [Stack::Linux, Stack::Rfc];

fn regime(class: Regime) -> f64 {
    match class {
        Regime::SubPacket => 0.0,
        Regime::SmallPacket => 1.0,
        Regime::FewPackets => 2.0,
        Regime::Normal => 3.0,
    }
}

const REGIME: Output = Output { words: Some(&REGIMES), ..figure("regime", "Regime of the flows.") };

pub(super) const MODULE: Module = Module {
    name: "operating",
    sentence: "Operating point of a thin link: the loss at which some TCP flows send just enough to fill it.

`N m(p) (1 - p) / RTT = C`, with m(p) the packets a flow sends per round trip at a loss p, by the chain of
`taq_chain` (TAQ, EuroSys 2014) with the timer, the acknowledgments and the windows of a TCP in use. See
docs/explanation/models/operating-point.md, which has its errors beside the simulator.",
    models: models! {
        /// Operating point of a link that endless flows share.
        operating_point(BOTTLENECK) -> Gives::Tuple(&POINT), "operating_point", |a| {
            let p = point(a)?;
            [p.loss, p.share_packets_per_rtt, p.rtt_s, p.queue_s, p.utilisation, p.packets_per_epoch, p.silent,
                p.t0_epochs, p.silences_per_s(), regime(p.class)]
        };
        /// Length that a share `quantile` of the silences does not exceed; 0 if there are none.
        silence_quantile_s(QUANTILE, BOTTLENECK) -> Gives::One(figure("time_s", "Length of the silence.")),
            "OperatingPoint::silence_quantile_s", |a| point(a)?.silence_quantile_s(a.inside(QUANTILE)?);
        /// Share of the flows that have been silent for longer than a time, at a moment.
        silent_longer_than(X_S, BOTTLENECK)
            -> Gives::One(figure("share", "Share of the flows that are silent for longer.")),
            "OperatingPoint::silent_longer_than", |a| point(a)?.silent_longer_than(a.inside(X_S)?);
        /// Regime of a fair share in packets per round trip.
        regime(SHARE_PACKETS) -> Gives::One(REGIME), "Regime::of", |a| regime(Regime::of(a.inside(SHARE_PACKETS)?));
    },
};
