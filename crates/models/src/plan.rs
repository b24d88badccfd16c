//! Answers to an operator's questions about a thin link, concluded from its operating point: is it thin, what does
//! drop-tail do to those who share it, what would more buffer cost, what would TAQ give with admission control and
//! without, and how far is the way out. [`plan`] gives them all.
//!
//! The questions and thresholds are those of the TAQ paper (Chen, Subramanian, Iyengar and Ford, EuroSys 2014, sections
//! 2, 4.3 and 5); the answers are ours: the chain of [`crate::operating`] for drop-tail, arithmetic for rounds and for
//! the wait queue, and for what neither tells, what the simulator showed. Which of them a conclusion rests on, and how
//! far off it was, is in [`evidence`].

mod edges;
pub mod evidence;
mod stalls;

#[cfg(test)]
mod tests;

use narrows_qdisc::taq::DefaultConfig;
use narrows_units::{Bytes, Duration, Rate};

use crate::Result;
use crate::domain::within;
use crate::operating::{Bottleneck, OperatingPoint, Stack, loses_at_least, operating_point};
use crate::taq_chain::BackoffUntil;

pub use edges::{Edges, edges};
pub use stalls::Stalls;

/// Loss from which timeouts repeat: `p_thresh` of TAQ, section 4.3.
pub const P_THRESH: f64 = 0.1;
/// Loss from which TAQ's admission control keeps new users out: `p_admit`, "slightly smaller".
pub const P_ADMIT: f64 = 0.09;
/// Packets per round trip up to which a loss can hardly be repaired without a timeout: three duplicate ACKs need three
/// packets behind the one that is lost (RFC 5681, section 3.2).
pub const FEW_PACKETS: f64 = 4.0;
/// Headers of a segment, IPv4 and TCP, bytes; a timestamp takes [`TIMESTAMP`] more.
const HEADERS: u64 = 40;
const TIMESTAMP: u64 = 12;
/// Largest buffer that is looked at, packets.
const MOST_BUFFER: u32 = 10_000_000;
/// Most flows that are looked at.
const MOST_FLOWS: u32 = 10_000_000;

/// Limits of TAQ in operation, from the defaults of TAQ's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaqLimits {
    /// Longest round of one packet for each user at which new users are admitted, s: `round_limit_ms`.
    pub round_limit_s: f64,
    /// Rounds after which a waiting user is admitted in any case: `wait_rounds`.
    pub wait_rounds: f64,
    /// Packets that may wait in all: `memory_packets`.
    pub memory_packets: f64,
}

impl Default for TaqLimits {
    fn default() -> Self {
        let taq = DefaultConfig::default();
        Self {
            round_limit_s: taq.round_limit_ms.as_secs_f64(),
            wait_rounds: f64::from(taq.wait_rounds),
            memory_packets: f64::from(taq.memory_packets),
        }
    }
}

/// How much a drop-tail queue holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DropTailBuffer {
    /// Packets.
    Packets(u32),
    /// Packets that the link sends in the time given, at least 4.
    Time(Duration),
}

/// A link, the link's users, and the objects that users want.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedLink {
    /// Rate of the link.
    pub rate: Rate,
    /// A full packet, headers included.
    pub packet: Bytes,
    /// Round trip without any queue.
    pub rtt: Duration,
    /// The queue there is.
    pub buffer: DropTailBuffer,
    /// Users that share the link.
    pub users: u32,
    /// Connections that each user has at a time.
    pub connections: u32,
    /// Share of the users that fetch something at a time, above 0 and at most 1.
    pub busy: f64,
    /// Mean size of an object that a connection fetches.
    pub object: Bytes,
    /// TCP of the senders: Linux, with timestamps, or that of the RFCs and ns-2, without.
    pub stack: Stack,
    /// Mean time of a fetch from which on users give the fetch up.
    pub patience: Duration,
}

impl SharedLink {
    /// A link with a buffer of one round trip and packets of 1500 B, for users of one connection each, all at once,
    /// with the TCP of Linux, who fetch the simulator's mean web object and wait a minute at most.
    #[must_use]
    pub fn new(rate: Rate, users: u32, rtt: Duration) -> Self {
        Self {
            rate,
            packet: Bytes(1500),
            rtt,
            buffer: DropTailBuffer::Time(rtt),
            users,
            connections: 1,
            busy: 1.0,
            object: Bytes(7300),
            stack: Stack::Linux,
            patience: Duration::from_secs(60),
        }
    }

    /// Users that are busy at a time: at least one.
    #[must_use]
    pub fn busy_users(&self) -> u32 {
        ((f64::from(self.users) * self.busy).ceil() as u32).max(1)
    }

    /// Connections of the busy users, at a time.
    #[must_use]
    pub fn flows(&self) -> u32 {
        self.busy_users().saturating_mul(self.connections)
    }

    /// The queue in packets.
    #[must_use]
    pub fn buffer_packets(&self) -> u32 {
        match self.buffer {
            DropTailBuffer::Packets(n) => n,
            DropTailBuffer::Time(t) => {
                u32::try_from(self.rate.bytes_in(t).0 / self.packet.0.max(1)).unwrap_or(u32::MAX).max(4)
            }
        }
    }

    /// Seconds the link is busy with a full packet.
    fn packet_s(&self) -> f64 {
        8.0 * self.packet.0 as f64 / self.rate.as_bps() as f64
    }

    /// Seconds for which the link is busy with an object, the object's headers included.
    fn object_s(&self) -> f64 {
        let headers = match self.stack {
            Stack::Linux => HEADERS + TIMESTAMP,
            Stack::Rfc => HEADERS,
        };
        let payload = self.packet.0.saturating_sub(headers).max(1);
        self.object.0 as f64 / payload as f64 * self.packet_s()
    }

    /// Mean seconds of a fetch if `flows` connections fetch one object after another: the link carries one object each
    /// [`Self::object_s`], and each waits for all others whatever the order; at least two round trips, to connect and
    /// to ask.
    fn fetch_s(&self, flows: u32) -> f64 {
        (f64::from(flows) * self.object_s()).max(2.0 * self.rtt.as_secs_f64() + self.object_s())
    }

    /// This link with `flows` flows and a queue of `buffer_packets` packets.
    fn bottleneck(&self, flows: u32, buffer_packets: u32) -> Bottleneck {
        Bottleneck {
            packet: self.packet,
            buffer_packets,
            stack: self.stack,
            backoff_ends: match self.stack {
                Stack::Linux => BackoffUntil::NewAck,
                Stack::Rfc => BackoffUntil::NewSample,
            },
            ..Bottleneck::new(self.rate, self.rtt, flows)
        }
    }

    /// Operating point of `flows` flows with a queue of `buffer_packets` packets.
    fn point(&self, flows: u32, buffer_packets: u32) -> Result<OperatingPoint> {
        operating_point(&self.bottleneck(flows, buffer_packets))
    }

    /// Tells whether `flows` flows with a queue of `buffer_packets` packets lose [`P_THRESH`] or more.
    fn past_tipping(&self, flows: u32, buffer_packets: u32) -> Result<bool> {
        loses_at_least(&self.bottleneck(flows, buffer_packets), P_THRESH)
    }

    /// Verdict as [`Outlook::of`] gives it, without computing the whole operating point.
    fn verdict(&self, flows: u32) -> Result<Outlook> {
        if self.fetch_s(flows) > self.patience.as_secs_f64() {
            return Ok(Outlook::TooMany);
        }
        let link = self.bottleneck(flows, self.buffer_packets());
        if loses_at_least(&link, P_THRESH)? {
            return Ok(Outlook::PastTipping);
        }
        let few = link.share_packets_per_rtt()? <= FEW_PACKETS;
        Ok(if few { Outlook::SmallPackets } else { Outlook::Fine })
    }

    fn check(&self) -> Result<()> {
        within("rate", self.rate.as_bps() as f64, 1e3..=1e12, "1 kbit/s to 1 Tbit/s")?;
        within("packet", self.packet.0 as f64, 64.0..=65_535.0, "64 to 65535 bytes, headers included")?;
        let rtt = "above 0 and at most 1000 s: a round trip without any queue takes some time";
        within("rtt", self.rtt.as_secs_f64(), f64::MIN_POSITIVE..=1e3, rtt)?;
        within("users", f64::from(self.users), 1.0..=1e6, "1 to 1000000")?;
        within("connections", f64::from(self.connections), 1.0..=1e3, "1 to 1000 for each user")?;
        within("busy", self.busy, f64::MIN_POSITIVE..=1.0, "a share of the users above 0 and at most 1")?;
        let flows = f64::from(self.busy_users()) * f64::from(self.connections);
        let most = "at most 10000000 connections at a time: fewer users, connections, or a smaller share of busy ones";
        within("users times connections", flows, 1.0..=f64::from(MOST_FLOWS), most)?;
        let buffer = f64::from(self.buffer_packets());
        within("buffer", buffer, 1.0..=f64::from(MOST_BUFFER), "1 to 10000000 packets")?;
        within("object", self.object.0 as f64, 1.0..=1e12, "1 byte to 1 TB")?;
        within(
            "patience",
            self.patience.as_secs_f64(),
            f64::MIN_POSITIVE..=1e6,
            "above 0 and at most 1000000 s",
        )?;
        Ok(())
    }
}

/// Verdict on a link with drop-tail, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outlook {
    /// A flow has more than [`FEW_PACKETS`] per round trip.
    Fine,
    /// A flow has at most [`FEW_PACKETS`] per round trip, so that losses cost timeouts; less than [`P_THRESH`] is lost.
    SmallPackets,
    /// [`P_THRESH`] is lost, or more: timeouts repeat, and which packet is lost no longer matters.
    PastTipping,
    /// A fetch takes longer than anybody waits, whatever the queue: admission control only decides where they wait.
    TooMany,
}

impl Outlook {
    /// All, from good to bad.
    pub const ALL: [Self; 4] = [Self::Fine, Self::SmallPackets, Self::PastTipping, Self::TooMany];

    /// Verdict at an operating point where a fetch takes `fetch_s` seconds on average, and users wait for `patience_s`.
    #[must_use]
    pub fn of(point: &OperatingPoint, fetch_s: f64, patience_s: f64) -> Self {
        if fetch_s > patience_s {
            Self::TooMany
        } else if point.loss >= P_THRESH {
            Self::PastTipping
        } else if point.share_packets_per_rtt <= FEW_PACKETS {
            Self::SmallPackets
        } else {
            Self::Fine
        }
    }

    /// Names the verdict in a word or two.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::SmallPackets => "small packets",
            Self::PastTipping => "past the tipping point",
            Self::TooMany => "too many at once",
        }
    }
}

/// Drop-tail with as much buffer as it takes to lose less than [`P_THRESH`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LargerBuffer {
    /// Packets.
    pub packets: u32,
    /// Delay of a packet in the full buffer, s.
    pub delay_s: f64,
    /// Time to fetch the smallest object, s: to connect and to ask is a round trip each, both through the queue.
    pub smallest_fetch_s: f64,
}

/// TAQ without admission control: each flow sends in each round of its DRR.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrrRounds {
    /// A full packet of each flow: `N S / C`, s.
    pub round_s: f64,
    /// Longest time in which nothing comes to a user, at most: [`SILENT_ROUNDS`], and two round trips for a user that
    /// begins anew.
    pub silence_s: f64,
    /// Mean time of a fetch, s.
    pub fetch_s: f64,
    /// Wait of a full packet of a long transfer, s, by the packets that senders keep in the queue: least and most
    /// ([`IN_QUEUE`]).
    pub wait_s: (f64, f64),
    /// Whether all that wants to wait fits into the memory there is.
    pub fits: bool,
}

/// Rounds in which nothing comes to a user, at most: measured, see [`evidence::ROUNDS`].
pub const SILENT_ROUNDS: f64 = 4.2;
/// Packets a sender has in TAQ's queue, least and most: measured, see [`evidence::WAIT`].
pub const IN_QUEUE: (f64, f64) = (1.8, 4.5);
/// Packets of a sender by which [`DrrRounds::fits`] decides.
const USUAL_IN_QUEUE: f64 = 3.0;

/// A limit on who is admitted at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdmissionLimit {
    /// Users that may be admitted at once.
    pub users: u32,
    /// Time for which users that are not admitted wait, s; none if everybody is admitted.
    pub wait_s: Option<f64>,
}

/// Change that leads to a better verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exit {
    /// Verdict to reach, or a better one.
    pub to: Outlook,
    /// Most users at the link's rate; 0 if even one user has too many connections.
    pub users: u32,
    /// Least rate for the link's users; none up to 1 Tbit/s.
    pub rate: Option<Rate>,
}

/// Every conclusion about a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Users at a time.
    pub busy_users: u32,
    /// Connections at a time: `N`.
    pub flows: u32,
    /// Packets the queue holds.
    pub buffer_packets: u32,
    /// `C / N` in bit/s.
    pub share_bps: f64,
    /// `C RTT / (S N)`: packets per round trip without any queue.
    pub share_packets: f64,
    /// Verdict on the link under drop-tail.
    pub verdict: Outlook,
    /// The link under drop-tail; the share of a flow is taken with the queue full.
    pub point: OperatingPoint,
    /// Stalls of users under drop-tail.
    pub stalls: Stalls,
    /// Drop-tail with a larger buffer; none if the loss is below [`P_THRESH`] as it is, or with no buffer.
    pub larger_buffer: Option<LargerBuffer>,
    /// TAQ without admission control.
    pub rounds: DrrRounds,
    /// Admission control of TAQ's default mode: a round of one packet for each user takes at most
    /// [`TaqLimits::round_limit_s`].
    pub admission: AdmissionLimit,
    /// Admission control that keeps drop-tail's loss below [`P_ADMIT`].
    pub loss_admission: AdmissionLimit,
    /// Ways to each better verdict, the nearest first.
    pub exits: Vec<Exit>,
}

/// Draws the conclusions about `link`.
///
/// # Errors
/// A quantity outside its domain.
pub fn plan(link: &SharedLink) -> Result<Plan> {
    link.check()?;
    let (flows, buffer_packets) = (link.flows(), link.buffer_packets());
    let point = link.point(flows, buffer_packets)?;
    let verdict = Outlook::of(&point, link.fetch_s(flows), link.patience.as_secs_f64());
    let better = Outlook::ALL.into_iter().filter(|to| *to < verdict).rev();
    let exits: Result<Vec<Exit>> = better
        .map(|to| Ok(Exit { to, users: edges::most_users(link, to)?, rate: edges::least_rate(link, to)? }))
        .collect();
    let link_share = link.rtt.as_secs_f64() / link.packet_s() / f64::from(flows);
    Ok(Plan {
        busy_users: link.busy_users(),
        flows,
        buffer_packets,
        share_bps: link.rate.as_bps() as f64 / f64::from(flows),
        share_packets: link_share,
        verdict,
        stalls: stalls(link)?,
        larger_buffer: larger_buffer(link, &point)?,
        rounds: rounds(link, flows),
        admission: admission(link, flows, link.busy_users()),
        loss_admission: loss_admission(link, &point)?,
        exits: exits?,
        point,
    })
}

/// Stalls at the operating point of flows without tail loss probes: Linux probes only in its open state (RFC 8985,
/// section 7.2), to which a flow that stalls has not come back since its first timeout. That leaves the timer of RFC
/// 6298, whose back-off ends as ever.
fn stalls(link: &SharedLink) -> Result<Stalls> {
    let bottleneck = link.bottleneck(link.flows(), link.buffer_packets());
    let point = operating_point(&Bottleneck { stack: Stack::Rfc, ..bottleneck })?;
    Ok(Stalls::new(point, link.connections))
}

fn larger_buffer(link: &SharedLink, now: &OperatingPoint) -> Result<Option<LargerBuffer>> {
    let loses = |packets: u32| link.past_tipping(link.flows(), packets);
    if now.loss < P_THRESH || loses(MOST_BUFFER)? {
        return Ok(None);
    }
    let packets = edges::last_where(link.buffer_packets(), MOST_BUFFER, loses)? + 1;
    let delay_s = f64::from(packets) * link.packet_s();
    let smallest_fetch_s = 2.0 * (link.rtt.as_secs_f64() + delay_s);
    Ok(Some(LargerBuffer { packets, delay_s, smallest_fetch_s }))
}

fn rounds(link: &SharedLink, flows: u32) -> DrrRounds {
    let n = f64::from(flows);
    let round_s = n * link.packet_s();
    DrrRounds {
        round_s,
        silence_s: SILENT_ROUNDS * round_s + 2.0 * link.rtt.as_secs_f64(),
        fetch_s: link.fetch_s(flows),
        wait_s: (IN_QUEUE.0 * round_s, IN_QUEUE.1 * round_s),
        fits: n * USUAL_IN_QUEUE <= TaqLimits::default().memory_packets,
    }
}

/// TAQ's admission control, which admits users up to a round of [`TaqLimits::round_limit_s`]. Each connection waits for
/// itself once its pool's admission is over (`t_pool`), so an admitted user has about one connection at a time, and
/// connections beyond the users admitted wait until as many objects are through.
///
/// A wait ends after [`TaqLimits::wait_rounds`] rounds of those who are admitted. Then more are: n connections, each
/// for n objects' time T, with rounds of n packets' time s, and a wait queue of c n s; all N are admitted or wait,
/// N T = n T + c n s. A round counts users, of whom there are only so many.
fn admission(link: &SharedLink, flows: u32, busy_users: u32) -> AdmissionLimit {
    let taq = TaqLimits::default();
    let users = (taq.round_limit_s / link.packet_s()).floor();
    let (flows, busy_users) = (f64::from(flows), f64::from(busy_users));
    let (object_s, longest_s) = (link.object_s(), taq.wait_rounds * link.packet_s());
    let wait_s = (busy_users > users).then(|| {
        let behind_s = (flows - users) * object_s;
        let admitted = (flows * object_s / (object_s + longest_s)).min(busy_users);
        behind_s.min(longest_s * admitted.max(users))
    });
    AdmissionLimit { users: users.min(f64::from(u32::MAX)) as u32, wait_s }
}

fn loss_admission(link: &SharedLink, now: &OperatingPoint) -> Result<AdmissionLimit> {
    let buffer = link.buffer_packets();
    let keeps = |flows: u32| Ok(!loses_at_least(&link.bottleneck(flows, buffer), P_ADMIT)?);
    let flows = if now.loss < P_ADMIT { link.flows() } else { edges::last_where(0, link.flows(), keeps)? };
    let users = flows / link.connections;
    let beyond = link.flows() - users * link.connections;
    let wait_s = (users < link.busy_users()).then(|| f64::from(beyond) * link.object_s());
    Ok(AdmissionLimit { users, wait_s })
}
