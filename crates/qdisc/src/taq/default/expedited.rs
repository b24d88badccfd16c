//! Calls, games and what is marked go before all flows, up to a share of the link: expedited forwarding (RFC 3246).
//!
//! A call of 86 kbit/s has no place in the turns of 100 users on 600 kbit/s, each of whom has 6. So a part of the link
//! (`expedited_share`) is kept for packets that are of no use when they come late. These go first:
//!
//! - **Marked packets**, of the codepoints in `expedited_dscp`: by default EF (RFC 3246), VOICE-ADMIT (RFC 5865), CS5
//!   and CS6 (RFC 4594). Datagrams that answer a user's marked ones count as marked: providers erase marks on the
//!   way down.
//! - **Flows of small datagrams both ways** (`expedited_unmarked`) that are no QUIC: each of the latest is as small as
//!   a frame of speech or a move of a game, and the other end answers.
//! - **Small datagrams one by one**, as of DNS, keep-alives and `ping`, wait for no turn of a user who downloads beside
//!   them. They are no call, so they have no part of this share, but of that of packets without data
//!   ([`super::control`]): otherwise the queries of 100 users would leave nothing of it to a call.
//!
//! **Bound.** Users of the class are ranked: whoever needs less comes first, and of those who need about the same
//! whoever came first. A user has the class as long as the needs of those before it and its own fit into the share. A
//! packet that does not fit goes back to the user's turns: one call too many is its caller's, and whoever floods with
//! marked packets needs more than the share and has nothing of it.
//!
//! A segment of TCP goes first only while nothing else of its flow waits, so none overtakes another.

use narrows_flow::{Flow, FlowId};
use narrows_units::{Bytes, Duration, Instant, Rate};
use narrows_users::{Side, User};
use narrows_wire::Header;

use super::Arrival;
use super::control::ControlShare;
use super::per_flow::PerFlow;
use super::quic::QuicFlows;
use crate::taq::{DefaultConfig, Trust};
use crate::{Counters, Ppm, ShaperConfig};

/// The largest IP packet of a call or a game: 30 ms of G.711 by SRTP over IPv6 are 318 bytes.
const SMALL: Bytes = Bytes(320);
/// Number of small datagrams in a row that make a flow of them: a fifth of a second of a call.
const IN_A_ROW: u8 = 8;
/// Time within which the other end of a call sends something: silent ends send comfort noise at least each second
/// (RFC 3389; AMR each 160 ms, Opus each 400 ms).
const ANSWERED: Duration = Duration::from_secs(2);
/// Least time from one datagram of a flow to the next that makes the latter one by itself: calls and games send one
/// each 10 to 60 ms.
const BY_ITSELF: Duration = Duration::from_millis(100);
/// Time within which the other end of a flow of single datagrams sends something: RFC 4787, section 4.3, keeps a
/// mapping for two minutes at least, and applications that keep one alive send each 15 to 30 s.
const ALIVE: Duration = Duration::from_secs(120);
/// Time over which the need of a user is measured, one second: then bytes are bytes a second.
const MEASURED: Duration = Duration::from_secs(1);
/// Time without need after which a user has left the class.
const LEFT: Duration = Duration::from_secs(3);
/// Most users whose needs are measured at once. A share of 20 Mbit/s has room for as many calls of 86 kbit/s as there
/// are places here; thinner ones have room for fewer.
const PLACES: usize = 256;
/// Part of another's need, as a fraction, below which a user comes before one who was there first: four fifths.
const LESS: (u64, u64) = (4, 5);
/// Binary places of a need, so that it also fades between packets that follow each other fast.
const FRACTION: u32 = 10;

/// Datagrams of one flow, in both directions.
#[derive(Clone, Copy, Debug)]
struct SmallDatagrams {
    /// Small ones in a row, up to [`IN_A_ROW`].
    in_a_row: u8,
    /// Whether the latest of the other direction was marked, by somebody whose marks are believed.
    answers_marked: bool,
    /// Time of the latest packet; zero before the first.
    last: Instant,
    /// Time at which the other direction was last heard; zero before.
    answered: Instant,
}

impl Default for SmallDatagrams {
    fn default() -> Self {
        Self { in_a_row: 0, answers_marked: false, last: Instant::ZERO, answered: Instant::ZERO }
    }
}

impl SmallDatagrams {
    fn are_answered(&self, now: Instant, within: Duration) -> bool {
        self.answered != Instant::ZERO && now.since(self.answered) < within
    }
}

/// Whether a packet is a small datagram by itself, and whether it may go first as a call or a marked packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// A small datagram by itself.
    pub single: bool,
    /// Whether the packet is of a call or a game, or a marked one.
    pub expedited: bool,
}

/// A user of the class.
#[derive(Clone, Copy, Debug)]
struct Place {
    user: User,
    /// Bytes of the link that it asked for in [`MEASURED`], fading, with [`FRACTION`].
    need: u64,
    at: Instant,
}

impl Place {
    /// Bytes that the user needs at `now`.
    fn need(&self, now: Instant) -> u64 {
        let gone = now.since(self.at).min(MEASURED).as_nanos() / 1000;
        self.need - self.need * gone / (MEASURED.as_nanos() / 1000)
    }
}

/// The expedited class: the users in the class, and how far the class's share is used.
#[derive(Debug)]
pub struct Expedited {
    flows: PerFlow<SmallDatagrams>,
    /// Users, in the order of arrival.
    places: Vec<Place>,
    used: ControlShare,
    counters: Counters,
}

impl Default for Expedited {
    fn default() -> Self {
        Self {
            flows: PerFlow::default(),
            places: Vec::new(),
            used: ControlShare::UNUSED,
            counters: Counters::default(),
        }
    }
}

/// A packet that has just come: of which flow, and how many others of that wait.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    pub id: FlowId,
    pub flow: &'a Flow,
    pub header: &'a Header,
    pub waiting: u32,
}

/// Whether a mark of this packet is believed. `by_users` says that users sent it.
const fn is_marked(config: &DefaultConfig, header: &Header, by_users: bool) -> bool {
    (matches!(config.expedited_trust, Trust::Any) || by_users) && config.expedited_dscp.has(header.dscp)
}

impl Expedited {
    /// Whether a packet of `kind` goes before all flows; if so, the packet is charged to the share.
    pub fn admits(
        &mut self,
        now: Instant,
        user: User,
        packet: &Arrival,
        config: &DefaultConfig,
        link: &ShaperConfig,
    ) -> bool {
        if config.expedited_share == Ppm(0) {
            return false;
        }
        let share = Rate::from_bps(config.expedited_share.of(link.rate.as_bps()));
        self.counters.arrive(packet.len);
        let cost = Bytes(packet.cost);
        let admitted = self.fits(now, user, cost, share) && self.used.charge(now, share, cost);
        if admitted {
            self.counters.send(packet.len);
        }
        admitted
    }

    /// Notes a datagram of the other direction; `users` is the users' side of this one.
    pub fn answered(
        &mut self,
        now: Instant,
        id: FlowId,
        flow: &Flow,
        header: &Header,
        config: &DefaultConfig,
        users: Side,
    ) {
        let datagrams = self.flows.make(id, flow, SmallDatagrams::default);
        datagrams.answered = now;
        datagrams.answers_marked = is_marked(config, header, users != Side::Source);
    }

    /// Number of users who have the class or ask for the class.
    pub fn users(&self, now: Instant) -> usize {
        self.places.iter().filter(|place| now.since(place.at) < LEFT).count()
    }

    /// Counts of packets: those that asked for the class as arrived, those that had it as sent.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Judges a packet that has just come, and takes note of it if it is a datagram.
    pub fn kind(
        &mut self,
        now: Instant,
        asking: &Asking<'_>,
        quic: &QuicFlows,
        config: &DefaultConfig,
        users: Side,
    ) -> Kind {
        let Asking { id, flow, header, waiting } = *asking;
        let marked = is_marked(config, header, users == Side::Source);
        if header.fragment {
            // Fragments of one datagram keep together.
            return Kind::default();
        }
        if header.tcp.is_some() {
            return Kind { single: false, expedited: marked && waiting == 0 };
        }
        let datagrams = self.flows.make(id, flow, SmallDatagrams::default);
        let small = header.len <= SMALL;
        datagrams.in_a_row = if small { (datagrams.in_a_row + 1).min(IN_A_ROW) } else { 0 };
        let last = core::mem::replace(&mut datagrams.last, now);
        let answers = datagrams.are_answered(now, ANSWERED);
        let call = config.expedited_unmarked && datagrams.in_a_row == IN_A_ROW && !quic.is_known(id, flow);
        let apart = last == Instant::ZERO || now.since(last) >= BY_ITSELF;
        Kind {
            single: small && waiting == 0 && apart && datagrams.are_answered(now, ALIVE),
            expedited: marked || (answers && small && (datagrams.answers_marked || call)),
        }
    }

    /// Notes that a user asks for `cost` bytes, and whether what it needs fits into the share beside those before it.
    fn fits(&mut self, now: Instant, user: User, cost: Bytes, share: Rate) -> bool {
        let own = match self.places.iter().position(|place| place.user == user) {
            Some(own) => own,
            None => {
                self.places.retain(|place| now.since(place.at) < LEFT);
                if self.places.len() == PLACES {
                    return false;
                }
                self.places.push(Place { user, need: 0, at: now });
                self.places.len() - 1
            }
        };
        let need = self.places[own].need(now) + (cost.get() << FRACTION);
        (self.places[own].need, self.places[own].at) = (need, now);
        let much_less = |one: u64, another: u64| one * LESS.1 < another * LESS.0;
        let before = self.places.iter().enumerate().filter(|(at, _)| *at != own).filter_map(|(at, place)| {
            let other = place.need(now);
            (much_less(other, need) || (at < own && !much_less(need, other))).then_some(other)
        });
        let needs = before.sum::<u64>() + need;
        needs >> FRACTION <= share.as_bps() / 8
    }
}
