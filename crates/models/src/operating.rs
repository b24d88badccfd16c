//! The operating point of a thin link: the loss at which so many TCP flows send just what fills it.
//!
//! A flow that loses a share `p` of its packets sends `m(p)` packets per round trip on average, the less the more it loses
//! ([`crate::taq_chain`]). Of these `1 - p` get through the queue. `N` flows fill a link of `C` packets per second if
//! `N m(p) (1 - p) / RTT = C`: a fixed point in `p`, found by bisection, since the left side falls with `p`.

use narrows_units::{Bytes, Duration, Rate};

use crate::Result;
use crate::domain::{positive, within};
use crate::taq_chain::{Back, Memory, Repair, Settings, Silences, Stationary, WMAX, stationary};

/// A link and who shares it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bottleneck {
    /// Its rate.
    pub rate: Rate,
    /// A packet on the wire, headers included.
    pub packet: Bytes,
    /// Round trip without any queue.
    pub rtt: Duration,
    /// What the queue holds, packets.
    pub buffer_packets: u32,
    /// Long flows at a time.
    pub flows: u32,
    /// Least retransmission timer of the senders: 0.2 s in Linux, 1 s by RFC 6298, 2.4.
    pub rto_min: Duration,
    /// Receive window, packets.
    pub window: u32,
    /// What ends a back-off of the timer.
    pub backoff_ends: Memory,
}

impl Bottleneck {
    /// A link with a buffer of one bandwidth-delay product (at least 4 packets), packets of 1500 B, and senders with a timer of
    /// at least 0.2 s, timestamps and a window of 64 packets.
    #[must_use]
    pub fn new(rate: Rate, rtt: Duration, flows: u32) -> Self {
        let packet = Bytes(1500);
        let bdp = rate.bdp(rtt).0 / packet.0;
        Self {
            rate,
            packet,
            rtt,
            buffer_packets: u32::try_from(bdp).unwrap_or(u32::MAX).max(4),
            flows,
            rto_min: Duration::from_millis(200),
            window: 64,
            backoff_ends: Memory::S1,
        }
    }

    /// Packets per second the link carries.
    fn packets_per_s(&self) -> f64 {
        self.rate.as_bps() as f64 / (8.0 * self.packet.0 as f64)
    }
}

/// In which regime a flow is, by its fair share in packets per round trip: TAQ's SPK(k), section 2.1 of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Regime {
    /// At most 1: SPK(1), where TCP can go slower only by timeouts.
    SubPacket,
    /// At most 4: SPK(4), where a loss can hardly be repaired without a timeout.
    SmallPacket,
    /// Below 10, an initial window: SPK(10), where flows lose when they start.
    FewPackets,
    /// 10 and more.
    Normal,
}

impl Regime {
    /// Of a share in packets per round trip.
    #[must_use]
    pub fn of(share_packets_per_rtt: f64) -> Self {
        match share_packets_per_rtt {
            k if k <= 1.0 => Self::SubPacket,
            k if k <= 4.0 => Self::SmallPacket,
            k if k < 10.0 => Self::FewPackets,
            _ => Self::Normal,
        }
    }

    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SubPacket => "sub-packet",
            Self::SmallPacket => "small-packet",
            Self::FewPackets => "few packets",
            Self::Normal => "normal",
        }
    }
}

/// Where link and flows meet.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatingPoint {
    /// Share of the packets that the queue drops; 0 if all windows fit.
    pub loss: f64,
    /// Fair share of a flow, packets per round trip with the queue: `C rtt_s / N`.
    pub share_packets_per_rtt: f64,
    /// Round trip with the queue, s: an epoch of the chain.
    pub rtt_s: f64,
    /// Wait in the queue, s.
    pub queue_s: f64,
    /// Share of the link's rate that is used; below 1 only if the windows do not fill it.
    pub utilisation: f64,
    /// Packets a flow sends per epoch, with those that are lost.
    pub packets_per_epoch: f64,
    /// Share of the flows that send nothing in an epoch.
    pub silent: f64,
    /// The timer before it is backed off, epochs.
    pub t0_epochs: f64,
    /// The regime.
    pub class: Regime,
    /// The flow's chain.
    pub chain: Stationary,
    silences: Option<Silences>,
}

impl OperatingPoint {
    /// Length that a share `quantile` of the silences does not exceed, s; a silence is a time in which nothing of a flow gets
    /// through, because a timer waits ([`Silences`]). 0 if there are none.
    #[must_use]
    pub fn silence_quantile_s(&self, quantile: f64) -> f64 {
        self.silences.as_ref().map_or(0.0, |s| s.quantile(quantile) * self.rtt_s)
    }

    /// Share of the flows to which nothing has come for more than `x_s` seconds, at a moment.
    #[must_use]
    pub fn silent_longer_than(&self, x_s: f64) -> f64 {
        self.silences.as_ref().map_or(0.0, |s| s.longer_than(x_s / self.rtt_s))
    }
}

/// The operating point.
///
/// # Errors
/// A rate, packet size, round trip or number of flows of 0; a window outside 1 to [`WMAX`] packets.
pub fn operating_point(link: &Bottleneck) -> Result<OperatingPoint> {
    let capacity = positive("rate", link.packets_per_s())?;
    let rtt = positive("rtt", link.rtt.as_secs_f64())?;
    let flows = positive("flows", f64::from(link.flows))?;
    let window =
        within("window", f64::from(link.window), 1.0..=f64::from(WMAX), "1 <= window <= 10000 packets")?;
    let buffer_s = f64::from(link.buffer_packets) / capacity;
    let full_rtt = rtt + buffer_s;
    let t0_epochs = (link.rto_min.as_secs_f64() / full_rtt).max(1.5);
    let settings =
        Settings { wmax: link.window.max(4), t0_epochs, memory: link.backoff_ends, repair: Repair::Sack };
    let at = |loss: f64| stationary(Back::Capped(6), settings, loss);
    if flows * window <= capacity * full_rtt {
        // All windows fit into path and buffer: the queue is what the path does not hold, and nothing is lost.
        let rtt_s = rtt.max(flows * window / capacity);
        let chain = at(0.0)?;
        return Ok(OperatingPoint {
            loss: 0.0,
            share_packets_per_rtt: capacity * rtt_s / flows,
            rtt_s,
            queue_s: rtt_s - rtt,
            utilisation: flows * window / (capacity * rtt_s),
            packets_per_epoch: window,
            silent: 0.0,
            t0_epochs,
            class: Regime::of(capacity * rtt_s / flows),
            chain,
            silences: None,
        });
    }
    let share = capacity * full_rtt / flows;
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let loss = 0.5 * (low + high);
        if at(loss)?.packets_per_epoch() * (1.0 - loss) > share {
            low = loss;
        } else {
            high = loss;
        }
    }
    let chain = at(low)?;
    Ok(OperatingPoint {
        loss: low,
        share_packets_per_rtt: share,
        rtt_s: full_rtt,
        queue_s: buffer_s,
        utilisation: 1.0,
        packets_per_epoch: chain.packets_per_epoch(),
        silent: chain.silent(),
        t0_epochs,
        class: Regime::of(share),
        silences: chain.silences(),
        chain,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten flows with windows of 4 packets of 500 B on 600 kbit/s and 200 ms: 40 packets, of which the path holds 30.
    #[test]
    fn windows_that_fit_lose_nothing() {
        let link = Bottleneck {
            packet: Bytes(500),
            window: 4,
            buffer_packets: 30,
            ..Bottleneck::new(Rate::from_kbps(600), Duration::from_millis(200), 10)
        };
        let point = operating_point(&link).unwrap();
        assert!(
            point.loss == 0.0
                && (point.queue_s - 10.0 / 150.0).abs() < 1e-12
                && point.silent_longer_than(0.0) == 0.0,
            "{point:?}"
        );
    }

    #[test]
    fn more_flows_lose_more() {
        let mut last = 0.0;
        for flows in [20, 30, 60, 120, 300, 1000, 10_000] {
            let link = Bottleneck {
                packet: Bytes(500),
                buffer_packets: 30,
                ..Bottleneck::new(Rate::from_kbps(600), Duration::from_millis(200), flows)
            };
            let point = operating_point(&link).unwrap();
            assert!(point.loss > last && point.loss < 1.0, "{flows} flows: {point:?}");
            assert!(
                (point.packets_per_epoch * (1.0 - point.loss) - point.share_packets_per_rtt).abs() < 1e-6
            );
            last = point.loss;
        }
    }
}
