//! A sender's own log of its connections, in qlog: what a capture of encrypted packets cannot show.
//!
//! Read are draft-marx-qlog-main-schema-01 (events are lists) to draft-ietf-quic-qlog-main-schema-13 and
//! quic-events-12 (0.3, 0.4 and later), as one JSON object, as JSON-SEQ, and as JSON with a line for each event. Of all
//! events a few are taken: packets sent, received, acknowledged and lost, expiries of the probe timer (RFC 9002,
//! section 6.2), bytes in flight and the least round trip. The crate `qlog` reads the events of one draft alone, and
//! refuses a file for a member that it does not know.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

mod read;
#[cfg(test)]
mod tests;
mod word;

pub use read::QlogFile;
pub use word::SenderWord;
pub(crate) use word::{Aligned, Passed, Silence};

/// Statement of an event; packets are named by number space and number.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fact {
    Sent {
        space: u8,
        number: u64,
    },
    Received,
    /// Numbers from the first to the last.
    Acked {
        space: u8,
        first: u64,
        last: u64,
    },
    Lost {
        space: u8,
        number: u64,
    },
    /// The probe timer has expired.
    Expired,
    /// Expiries of the probe timer since something was acknowledged.
    Expiries(u64),
    InFlight(u64),
    /// The other end's flow control allows no more (RFC 9000, section 4.1).
    Blocked,
    /// Least round trip, nanoseconds.
    LeastTrip(i64),
}

/// A packet that the sender has sent; times in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct SentPacket {
    at: i64,
    acked: Option<i64>,
    lost: Option<i64>,
}

/// A sender's log of one connection. Times are nanoseconds by the clock of the log.
#[derive(Clone, Debug, Default)]
pub struct SenderLog {
    /// Name of the connection for a person: its title in the log, or its identifier.
    pub(crate) name: String,
    /// Addresses of both ends, in whatever order.
    ends: Option<[SocketAddr; 2]>,
    /// End that keeps the log: 0 the client, 1 the server.
    owner: Option<usize>,
    /// Packets, ordered by the time of sending.
    packets: Vec<SentPacket>,
    /// Times at which something was received.
    received: Vec<i64>,
    /// Times at which the probe timer expired.
    expired: Vec<i64>,
    /// Bytes in flight, at each time of a change.
    in_flight: Vec<(i64, u64)>,
    /// Times at which the other end's flow control stopped the sender.
    blocked: Vec<i64>,
    least_trip: Option<i64>,
    /// Time of the last event.
    last: i64,
}

impl SenderLog {
    /// Puts the events of one connection in order. `owner` is the end that the log says it is of.
    fn new(
        name: String,
        ends: Option<[SocketAddr; 2]>,
        owner: Option<usize>,
        mut facts: Vec<(i64, Fact)>,
    ) -> Self {
        facts.sort_by_key(|(at, _)| *at);
        let mut log = Self { name, ends, owner: owner.or_else(|| opener(&facts)), ..Self::default() };
        // Packets that are not acknowledged, by space and number.
        let mut open: [BTreeMap<u64, usize>; 3] = Default::default();
        let mut of_number: HashMap<(u8, u64), usize> = HashMap::new();
        let (mut counted, mut count) = (Vec::new(), 0);
        log.last = facts.last().map_or(0, |(at, _)| *at);
        for (at, fact) in facts {
            match fact {
                Fact::Sent { space, number } => {
                    let place = log.packets.len();
                    log.packets.push(SentPacket { at, acked: None, lost: None });
                    open[usize::from(space)].insert(number, place);
                    of_number.insert((space, number), place);
                }
                Fact::Received => log.received.push(at),
                Fact::Acked { space, first, last } => {
                    let open = &mut open[usize::from(space)];
                    while first <= last
                        && let Some((&number, &place)) = open.range(first..=last).next()
                    {
                        open.remove(&number);
                        log.packets[place].acked = Some(at);
                    }
                }
                Fact::Lost { space, number } => {
                    if let Some(&place) = of_number.get(&(space, number)) {
                        log.packets[place].lost.get_or_insert(at);
                    }
                }
                Fact::Expired => log.expired.push(at),
                Fact::Expiries(n) => {
                    if n > count {
                        counted.push(at);
                    }
                    count = n;
                }
                Fact::InFlight(bytes) => log.in_flight.push((at, bytes)),
                Fact::Blocked => log.blocked.push(at),
                // The latest word, since some begin with a guess.
                Fact::LeastTrip(trip) => log.least_trip = Some(trip),
            }
        }
        // A log that tells of each expiry counts them as well.
        if log.expired.is_empty() {
            log.expired = counted;
        }
        let trips = log.packets.iter().filter_map(|p| Some(p.acked? - p.at));
        log.least_trip = log.least_trip.or_else(|| trips.min());
        log
    }

    /// Packets that the sender believed lost, and those of them that were acknowledged later.
    fn lost(&self) -> [u64; 2] {
        let lost = self.packets.iter().filter(|p| p.lost.is_some());
        let spurious = lost.clone().filter(|p| p.acked.is_some());
        [lost.count() as u64, spurious.count() as u64]
    }
}

/// The end that keeps the log, by what it does first: a client sends, a server receives.
fn opener(facts: &[(i64, Fact)]) -> Option<usize> {
    facts.iter().find_map(|(_, fact)| match fact {
        Fact::Sent { .. } => Some(0),
        Fact::Received => Some(1),
        _ => None,
    })
}
