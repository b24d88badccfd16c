//! The offset of one file's clock from another's (RFC 5905, section 8: theta), by what both files know of: the same
//! packets, or in files of a direction each, data and its acknowledgments.

use std::collections::{HashMap, HashSet};

use narrows_wire::{Flags, FlowKey, Header, TcpHeader};

use crate::copies::print;

/// Packets known to both files that are needed to tell the offset of the files' clocks.
const SHARED: usize = 4;

/// A TCP packet, with the packet's time by the clock of its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamped<'a> {
    pub(super) header: &'a Header,
    pub(super) tcp: &'a TcpHeader,
    /// Nanoseconds since 1970.
    pub(super) at: i64,
}

/// How far a clock is ahead of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offset {
    /// Nanoseconds, negative for a clock that is behind.
    pub(super) by: i64,
    /// Number of packets that tell the offset.
    pub(super) packets: usize,
}

/// Offset of the clock of the file with these packets of `own` from the clock of the `first`; none if nothing tells it,
/// or if the clocks may agree.
pub(super) fn offset<'a, Own, First>(own: Own, first: First) -> Option<Offset>
where
    Own: Iterator<Item = Stamped<'a>> + Clone,
    First: Iterator<Item = Stamped<'a>> + Clone,
{
    by_copies(own.clone(), first.clone()).or_else(|| by_acks(own, first))
}

/// Offset by packets that are in both files; none if there are too few. The difference of their times is that of the
/// clocks and of the way; in both directions the way counts once with each sign, and so falls out.
fn by_copies<'a>(
    own: impl Iterator<Item = Stamped<'a>>,
    first: impl Iterator<Item = Stamped<'a>>,
) -> Option<Offset> {
    let mut known = HashMap::new();
    for p in first {
        known.entry(print(p.header, p.tcp)).or_insert(p.at);
    }
    let (mut there, mut back) = (Vec::new(), Vec::new());
    let mut found = HashSet::new();
    for p in own {
        let print = print(p.header, p.tcp);
        let Some(then) = known.get(&print) else { continue };
        if !found.insert(print) {
            continue;
        }
        let key = &p.header.key;
        let forth = (key.src(), key.sport) < (key.dst(), key.dport);
        if forth { &mut there } else { &mut back }.push(p.at.saturating_sub(*then));
    }
    let packets = there.len() + back.len();
    if packets < SHARED {
        return None;
    }
    // The least in each direction is that without a queue.
    let (a, b) = (there.iter().min(), back.iter().min());
    Some(Offset { by: a.or(b)? / 2 + b.or(a)? / 2, packets })
}

/// First times by connection and direction of the data, and by the sequence number behind it, nanoseconds since 1970.
type Times = HashMap<(FlowKey, u32), i64>;

/// Data of a file's beginning.
#[derive(Default)]
struct Data {
    /// Time at which the end of each segment passed first.
    sent: Times,
    /// Time at which the data was acknowledged first.
    acked: Times,
}

impl Data {
    fn of<'a>(packets: impl Iterator<Item = Stamped<'a>>) -> Self {
        let mut data = Self::default();
        for Stamped { header, tcp, at } in packets {
            if tcp.seq_len() > 0 {
                data.sent.entry((header.key, tcp.seq_end().0)).or_insert(at);
            }
            if tcp.flags.has(Flags::ACK) {
                data.acked.entry((header.key.reverse(), tcp.ack.0)).or_insert(at);
            }
        }
        data
    }

    /// Times from data sent here until it was acknowledged there, by both clocks.
    fn until_acked(&self, there: &Self) -> Vec<i64> {
        self.sent.iter().filter_map(|(what, at)| Some(there.acked.get(what)?.saturating_sub(*at))).collect()
    }
}

/// Offset by what was acknowledged in one file and sent in the other: it was sent before.
fn by_acks<'a>(
    own: impl Iterator<Item = Stamped<'a>>,
    first: impl Iterator<Item = Stamped<'a>>,
) -> Option<Offset> {
    let (own, first) = (Data::of(own), Data::of(first));
    // The least of each is a way there and back, more or less by the difference of the clocks.
    let (behind, before) = (first.until_acked(&own), own.until_acked(&first));
    let packets = behind.len() + before.len();
    let (a, b) = (behind.iter().min().copied(), before.iter().min().copied());
    let by = match (a, b) {
        (Some(a), Some(b)) if (a < 0 || b < 0) && a.saturating_add(b) >= 0 => a / 2 - b / 2,
        // One direction alone tells no more than that an acknowledgment comes after its data.
        (Some(a), None) if a < 0 => a,
        (None, Some(b)) if b < 0 => -b,
        _ => return None,
    };
    (packets >= SHARED).then_some(Offset { by, packets })
}
