//! Operating point of a thin link: the loss at which N TCP flows send just what fills it. [`operating_point`] finds it.
//!
//! A flow that loses a share `p` of its packets sends `m(p)` packets per round trip on average, the less the more it
//! loses: a chain of [`crate::taq_chain`]. Of these `1 - p` get through the queue. `N` flows fill a link of `C` packets
//! per second if `N m(p) (1 - p) / RTT = C`: a fixed point in `p`, and only one, since the left side falls with `p`.
//!
//! What is assumed, and what a simulation says of it (docs/explanation/models/operating-point.md):
//! - The queue is full as long as anything is lost, so a round trip is propagation and a full buffer.
//! - Losses are independent, of probability `p` for each packet. Hosts that answer in lockstep break this: the same
//!   flows then find the queue full each time (phase effects), and loss is lower than here.
//! - The chain is TAQ's, but of the TCP that is in use: windows up to four times the fair share, selective
//!   acknowledgments, limited transmit, a back-off that ends as the stack ends it, a timer of that stack ([`Stack`]).
//! - Flows are long. Their start, and lost SYNs, are left out.

use narrows_units::{Bytes, Duration, Rate};

use crate::Result;
use crate::domain::{positive, within};
use crate::taq_chain::{
    Back, BackoffUntil, FastRetransmit, STAGES, Settings, Silences, Stationary, WMAX, stationary,
};

/// Retransmission timer of the senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// Linux: the floor bounds the timer's term `4 RTTVAR`, so it is a round trip and the floor; a tail loss probe (RFC
    /// 8985) goes first, after two round trips if the timer is longer; backed off to 120 s at most.
    Linux,
    /// RFC 6298 and ns-2: the floor bounds the whole timer, which is not below 1.5 round trips; backed off to 60 s at
    /// most. RTTVAR begins with half a round trip and loses a quarter with each sample, and a flow that loses much has
    /// few, so the timer is the longer the less a flow gets: 1.5 stands for all, as the number whose loss is nearest
    /// (docs/explanation/models/operating-point.md).
    Rfc,
}

/// A link and the flows that share the link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bottleneck {
    /// Rate of the link.
    pub rate: Rate,
    /// A packet on the wire, headers included.
    pub packet: Bytes,
    /// Round trip without any queue; what hosts take to answer is part of it.
    pub rtt: Duration,
    /// Capacity of the queue, packets.
    pub buffer_packets: u32,
    /// Long flows at a time.
    pub flows: u32,
    /// Floor of the senders' timer: 0.2 s in Linux and ns-2, 1 s by RFC 6298, 2.4.
    pub rto_min: Duration,
    /// Kind of the senders' timer: the timer's bounds, back-off and probe.
    pub stack: Stack,
    /// Event that ends a back-off: [`BackoffUntil::NewAck`] with timestamps, [`BackoffUntil::NewSample`] without.
    pub backoff_ends: BackoffUntil,
    /// Receive window, packets: 4 to [`WMAX`].
    pub window: u32,
}

impl Bottleneck {
    /// A link with a buffer of one bandwidth-delay product (at least 4 packets), packets of 1500 B, and Linux as it is:
    /// a floor of 0.2 s, timestamps. Windows of up to 1000 packets.
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
            stack: Stack::Linux,
            backoff_ends: BackoffUntil::NewAck,
            window: 1000,
        }
    }

    /// Packets per second the link carries.
    fn packets_per_s(&self) -> f64 {
        self.rate.as_bps() as f64 / (8.0 * self.packet.0 as f64)
    }

    /// The chain of its flows, at round trips of `rtt_s` and a fair share of `share` packets in each.
    fn chain(&self, rtt_s: f64, share: f64) -> (Back, Settings) {
        // A window that is halved at random is more than four times its mean with a probability of 10^-6.
        let reached = (4.0 * share).clamp(16.0, f64::from(WMAX)) as u32;
        let floor = self.rto_min.as_secs_f64() / rtt_s;
        let (t0, rto_max_s, probe_epochs) = match self.stack {
            Stack::Linux => {
                let t0 = 1.0 + floor.max(LEAST_VARIATION);
                (t0, 120.0, Some(t0.min(2.0)))
            }
            Stack::Rfc => (floor.max(1.5), 60.0, None),
        };
        // Beyond any cap, and beyond what the chain takes, a floor of days makes no difference.
        let t0_epochs = t0.min(1e6);
        let stages = (rto_max_s / (t0_epochs * rtt_s)).max(1.0).log2().round();
        let settings = Settings {
            wmax: self.window.min(reached).max(4),
            t0_epochs,
            probe_epochs,
            backoff_ends: self.backoff_ends,
            repair: FastRetransmit::Sack,
        };
        (Back::Capped((stages as u32).min(STAGES)), settings)
    }
}

/// Least `4 RTTVAR` of a steady flow, round trips.
const LEAST_VARIATION: f64 = 0.05;

/// Regime of a flow, by its fair share in packets per round trip: TAQ's SPK(k), section 2.1 of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Regime {
    /// A share of at most 1: SPK(1), where TCP can go slower only by timeouts.
    SubPacket,
    /// A share of at most 4: SPK(4), where a loss can hardly be repaired without a timeout.
    SmallPacket,
    /// A share below 10, an initial window: SPK(10), where flows lose when they start.
    FewPackets,
    /// 10 and more.
    Normal,
}

impl Regime {
    /// Finds the regime of a share in packets per round trip. The share is a number, not NaN.
    #[must_use]
    pub const fn of(share_packets_per_rtt: f64) -> Self {
        match share_packets_per_rtt {
            k if k <= 1.0 => Self::SubPacket,
            k if k <= 4.0 => Self::SmallPacket,
            k if k < 10.0 => Self::FewPackets,
            _ => Self::Normal,
        }
    }

    /// Names the regime in words.
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

/// Operating point of a link and the flows through the link.
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
    /// Packets that a flow sends per epoch, lost packets included.
    pub packets_per_epoch: f64,
    /// Share of the flows that send nothing in an epoch.
    pub silent: f64,
    /// Length of the timer before any back-off, epochs.
    pub t0_epochs: f64,
    /// The regime, by the fair share.
    pub class: Regime,
    /// The flow's chain.
    pub chain: Stationary,
    /// Silences of a flow, in epochs.
    silences: Option<Silences>,
}

impl OperatingPoint {
    fn new(link: &Bottleneck, rtt_s: f64, utilisation: f64, chain: Stationary) -> Self {
        let share = link.share_at(rtt_s);
        Self {
            loss: chain.loss(),
            share_packets_per_rtt: share,
            rtt_s,
            queue_s: rtt_s - link.rtt.as_secs_f64(),
            utilisation,
            packets_per_epoch: chain.packets_per_epoch(),
            silent: chain.silent(),
            t0_epochs: chain.settings().t0_epochs,
            class: Regime::of(share),
            silences: chain.silences(),
            chain,
        }
    }

    /// Length that a share `quantile` of the silences does not exceed, s; a silence is a time in which nothing of a
    /// flow gets through, because a timer waits ([`Silences`]). 0 if there are none.
    #[must_use]
    pub fn silence_quantile_s(&self, quantile: f64) -> f64 {
        self.silences.as_ref().map_or(0.0, |s| s.quantile(quantile) * self.rtt_s)
    }

    /// Silences of a flow per second.
    #[must_use]
    pub fn silences_per_s(&self) -> f64 {
        self.silences.as_ref().map_or(0.0, |s| s.per_epoch() / self.rtt_s)
    }

    /// Share of the flows that at a moment have received nothing for more than `x_s` seconds; also the share of slices
    /// of `x_s` seconds in which a flow gets nothing. NaN gives NaN; a negative time counts as 0.
    #[must_use]
    pub fn silent_longer_than(&self, x_s: f64) -> f64 {
        // Not f64::max, for which NaN is 0.
        let x_s = x_s.clamp(0.0, f64::INFINITY);
        if x_s.is_nan() {
            x_s
        } else {
            self.silences.as_ref().map_or(0.0, |s| s.longer_than(x_s / self.rtt_s))
        }
    }
}

/// A link that is filled by flows: the system whose fixed point is sought.
struct Filled {
    /// The flow's chain, without the chain's loss.
    back: Back,
    settings: Settings,
    /// Round trip with the queue full, s.
    rtt_s: f64,
    /// Packets of a flow that the link carries in a round trip: `C rtt_s / N`.
    share: f64,
}

impl Filled {
    /// Goodput of flows that lose `loss`, over the link's rate, less 1: falls with the loss.
    fn excess(&self, loss: f64) -> Result<f64> {
        let sent = stationary(self.back, self.settings, loss)?.packets_per_epoch();
        Ok(sent * (1.0 - loss) / self.share - 1.0)
    }
}

/// Case of the windows of all flows together.
enum Demand {
    /// All windows fit into path and buffer, and fill the link for `windows_s` seconds.
    Fits { windows_s: f64 },
    /// The windows overflow path and buffer, so packets are lost.
    Fills(Filled),
}

impl Bottleneck {
    /// Packets of a flow that the link carries in a round trip of `rtt_s`: `C rtt_s / N`.
    fn share_at(&self, rtt_s: f64) -> f64 {
        self.packets_per_s() * rtt_s / f64::from(self.flows)
    }

    /// Fair share of a flow at the operating point, packets per round trip with the queue.
    ///
    /// # Errors
    /// As of [`operating_point`].
    pub(crate) fn share_packets_per_rtt(&self) -> Result<f64> {
        let rtt_s = match self.demand()? {
            Demand::Fits { windows_s } => self.rtt.as_secs_f64().max(windows_s),
            Demand::Fills(filled) => filled.rtt_s,
        };
        Ok(self.share_at(rtt_s))
    }

    fn demand(&self) -> Result<Demand> {
        positive("packet", self.packet.0 as f64)?;
        let capacity = positive("rate", self.packets_per_s())?;
        let rtt_s = positive("rtt", self.rtt.as_secs_f64())?;
        let flows = positive("flows", f64::from(self.flows))?;
        let window =
            within("window", f64::from(self.window), 4.0..=f64::from(WMAX), "4 <= window <= 10000 packets")?;
        let full_rtt_s = rtt_s + f64::from(self.buffer_packets) / capacity;
        if flows * window <= capacity * full_rtt_s {
            return Ok(Demand::Fits { windows_s: flows * window / capacity });
        }
        let share = capacity * full_rtt_s / flows;
        let (back, settings) = self.chain(full_rtt_s, share);
        Ok(Demand::Fills(Filled { back, settings, rtt_s: full_rtt_s, share }))
    }
}

/// The operating point.
///
/// # Errors
/// A packet size, round trip or number of flows of 0; a window outside 4 to [`WMAX`] packets.
pub fn operating_point(link: &Bottleneck) -> Result<OperatingPoint> {
    match link.demand()? {
        Demand::Fits { windows_s } => {
            // The queue is what the path does not hold, and nothing is lost.
            let rtt_s = link.rtt.as_secs_f64().max(windows_s);
            let (back, settings) = link.chain(rtt_s, f64::from(link.window));
            Ok(OperatingPoint::new(link, rtt_s, windows_s / rtt_s, stationary(back, settings, 0.0)?))
        }
        Demand::Fills(filled) => {
            let loss = crossing(|loss| filled.excess(loss))?;
            let chain = stationary(filled.back, filled.settings, loss)?;
            Ok(OperatingPoint::new(link, filled.rtt_s, 1.0, chain))
        }
    }
}

/// Whether at the operating point a share `loss` of the packets, above 0 and below 1, or more is lost: by one look at
/// the chain, as the excess falls with the loss.
///
/// # Errors
/// As of [`operating_point`]; a loss outside 0 to 1.
pub(crate) fn loses_at_least(link: &Bottleneck, loss: f64) -> Result<bool> {
    within("loss", loss, f64::MIN_POSITIVE..1.0, "0 < loss < 1")?;
    match link.demand()? {
        Demand::Fits { .. } => Ok(false),
        Demand::Fills(filled) => Ok(filled.excess(loss)? >= 0.0),
    }
}

/// Where a falling function is 0, between 0 and 1: bisection, and once it is near, regula falsi (Illinois), which
/// halves the value of an end that stays twice.
fn crossing(excess: impl Fn(f64) -> Result<f64>) -> Result<f64> {
    let (mut low, mut high) = ((0.0, 1.0), (1.0, -1.0));
    let mut rose = None;
    for step in 0..100 {
        // Every eighth step cuts in half whatever the function is like.
        let fraction = if step < 3 || step % 8 == 7 { 0.5 } else { low.1 / (low.1 - high.1) };
        let loss = low.0 + fraction * (high.0 - low.0);
        let value = excess(loss)?;
        if value.abs() < 1e-10 || loss <= low.0 || loss >= high.0 {
            return Ok(loss);
        }
        let rises = value > 0.0;
        let (moved, stays) = if rises { (&mut low, &mut high) } else { (&mut high, &mut low) };
        *moved = (loss, value);
        if rose == Some(rises) {
            stays.1 *= 0.5;
        }
        rose = Some(rises);
    }
    Ok(low.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thin link: 600 kbit/s, 200 ms, 30 packets of 500 B.
    fn thin(flows: u32) -> Bottleneck {
        let link = Bottleneck::new(Rate::from_kbps(600), Duration::from_millis(200), flows);
        Bottleneck { packet: Bytes(500), buffer_packets: 30, ..link }
    }

    /// Ten windows of 4 packets are 40 packets, of which the path holds 30; ten wait for 1/150 s each. Five are 20: two
    /// thirds.
    #[test]
    fn windows_that_fit_lose_nothing() {
        assert!(!loses_at_least(&Bottleneck { window: 4, ..thin(10) }, 1e-9).unwrap());
        let point = operating_point(&Bottleneck { window: 4, ..thin(10) }).unwrap();
        assert!(point.loss == 0.0 && (point.queue_s - 10.0 / 150.0).abs() < 1e-12, "{point:?}");
        assert!(point.silent_longer_than(0.0) == 0.0 && point.silence_quantile_s(0.5) == 0.0);
        assert!(
            (point.packets_per_epoch - 4.0).abs() < 1e-12
                && (point.share_packets_per_rtt - 4.0).abs() < 1e-12
        );
        let point = operating_point(&Bottleneck { window: 4, ..thin(5) }).unwrap();
        assert!((point.utilisation - 2.0 / 3.0).abs() < 1e-12 && point.queue_s == 0.0);
    }

    /// The threshold is where the fixed point says, a millionth below it and a millionth above.
    #[test]
    fn a_loss_is_reached_as_the_operating_point_says() {
        for stack in [Stack::Linux, Stack::Rfc] {
            for flows in [2, 10, 30, 120, 1000, 100_000] {
                let link = Bottleneck { stack, ..thin(flows) };
                let loss = operating_point(&link).unwrap().loss;
                assert!(loses_at_least(&link, loss * (1.0 - 1e-6)).unwrap(), "{flows} {loss}");
                assert!(!loses_at_least(&link, loss * (1.0 + 1e-6)).unwrap(), "{flows} {loss}");
            }
        }
        assert!(loses_at_least(&thin(10), 0.0).is_err() && loses_at_least(&thin(10), 1.0).is_err());
    }

    /// A time that is no number has no share; a negative time counts as 0.
    #[test]
    fn a_time_that_is_no_number_has_no_share() {
        let point = operating_point(&thin(120)).unwrap();
        assert!(point.silent_longer_than(f64::NAN).is_nan());
        assert_eq!(point.silent_longer_than(-1.0).to_bits(), point.silent_longer_than(0.0).to_bits());
        let stalls = crate::plan::Stalls::new(point, 2);
        assert!(stalls.per_s(f64::NAN).is_nan() && stalls.share_over(f64::NAN, 60.0).is_nan());
    }

    /// Tests the fixed point itself, and the direction in which the fixed point moves.
    #[test]
    fn more_flows_lose_more() {
        for stack in [Stack::Linux, Stack::Rfc] {
            for backoff_ends in
                [BackoffUntil::NewAck, BackoffUntil::NewSample, BackoffUntil::S2, BackoffUntil::S3]
            {
                let mut last = (0.0, 0.0, 0.0);
                for flows in [1, 2, 5, 10, 20, 30, 60, 120, 300, 1000, 10_000, 1_000_000] {
                    let point = operating_point(&Bottleneck { stack, backoff_ends, ..thin(flows) }).unwrap();
                    let now = (point.loss, point.silent, point.silent_longer_than(20.0));
                    assert!(
                        now.0 > last.0 && now.1 > last.1 && now.2 >= last.2 && now.0 < 1.0,
                        "{flows}: {now:?}"
                    );
                    let carried = point.packets_per_epoch * (1.0 - point.loss);
                    let share = 60.0 / f64::from(flows);
                    assert!((carried / share - 1.0).abs() < 1e-6, "{flows} flows: {carried} of {share}");
                    assert!((point.share_packets_per_rtt - share).abs() < 1e-9);
                    last = now;
                }
            }
        }
    }

    /// Compares with the losses of a simulation of the same links (docs/explanation/models/operating-point.md): within
    /// 0.03. Drop-tail with 30 packets of 500 B on 600 kbit/s, propagation 190 to 210 ms, jitter of 0 to 30 ms (15 ms
    /// on average), ns-2's TCP with SACK.
    #[test]
    fn simulated_links() {
        let sample = [0.306, 0.250, 0.203, 0.139, 0.091, 0.051, 0.021];
        let any_ack = [0.482, 0.391, 0.294, 0.157, 0.093, 0.051, 0.021];
        for (backoff_ends, losses) in [(BackoffUntil::NewSample, sample), (BackoffUntil::NewAck, any_ack)] {
            for (flows, simulated) in [300, 120, 60, 30, 20, 12, 6].into_iter().zip(losses) {
                let rtt = Duration::from_millis(215);
                let link = Bottleneck { rtt, stack: Stack::Rfc, backoff_ends, ..thin(flows) };
                let loss = operating_point(&link).unwrap().loss;
                assert!((loss - simulated).abs() < 0.03, "{flows} flows: {loss}, simulated {simulated}");
            }
        }
    }

    #[test]
    fn classes() {
        let classes = [0.2, 1.0, 1.1, 4.0, 4.1, 9.9, 10.0].map(Regime::of);
        let expected = [
            Regime::SubPacket,
            Regime::SubPacket,
            Regime::SmallPacket,
            Regime::SmallPacket,
            Regime::FewPackets,
            Regime::FewPackets,
            Regime::Normal,
        ];
        assert_eq!(classes, expected);
    }

    #[test]
    fn what_is_no_link() {
        for link in [
            Bottleneck { packet: Bytes(0), ..thin(10) },
            Bottleneck { rtt: Duration::ZERO, ..thin(10) },
            thin(0),
            Bottleneck { window: 3, ..thin(10) },
        ] {
            assert!(operating_point(&link).is_err(), "{link:?}");
        }
        // The ends of what the types can hold.
        for link in [
            Bottleneck {
                buffer_packets: u32::MAX,
                rto_min: Duration::from_nanos(u64::MAX),
                ..thin(u32::MAX)
            },
            Bottleneck { rate: Rate::from_bps(u64::MAX), rtt: Duration::from_nanos(1), ..thin(1) },
            Bottleneck { rate: Rate::from_bps(1), buffer_packets: 0, ..thin(u32::MAX) },
            Bottleneck {
                rto_min: Duration::ZERO,
                buffer_packets: 0,
                rtt: Duration::from_nanos(u64::MAX),
                ..thin(100)
            },
        ] {
            let point = operating_point(&link).unwrap();
            assert!((0.0..1.0).contains(&point.loss) && point.rtt_s.is_finite(), "{point:?}");
        }
    }
}
