//! What of all that left the box is known to have crossed the link.
//!
//! Behind the box stands one queue, first in, first out. So an acknowledgment of one packet says that all which left
//! before it are across, whosever they are, or lost. What tells of a packet:
//!
//! - TCP: the cumulative acknowledgment, and the first block of SACK, which has the segment that came last (RFC 2018,
//!   section 4). Of several copies of a segment that one is taken to have come which left no later than the echoed
//!   timestamp says (RFC 7323, section 4), else the first.
//! - QUIC: the spin bit. It changes once in a round trip each way (RFC 9000, section 17.4), so a change that comes back
//!   answers the change that went out before.
//!
//! A flow counts as one that answers once something of it has passed the other way.

use std::collections::VecDeque;

use narrows_units::{Instant, SeqNum};
use narrows_wire::{Flags, FlowKey, Header, QuicPacket, TcpHeader};

/// Departures that are remembered: more than a link has under way.
const MOST: usize = 4096;
/// Flows of which something is remembered, by hash: one that has another's place is not known.
const FLOWS: usize = 4096;
/// Packets that left, by hash, to know one that leaves again.
const COPIES: usize = 8192;

/// How a packet will show that it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    /// It will not.
    Nothing,
    /// By an acknowledgment of the byte before this.
    Tcp { end: SeqNum, tsval: Option<u32> },
    /// By a change of the spin bit.
    Spin,
}

/// A packet that left.
#[derive(Clone, Copy, Debug)]
struct Departure {
    at: Instant,
    /// Bytes that had left, with it.
    total: u64,
    flow: u64,
    /// Whom it goes to, by hash.
    host: u64,
    /// Nothing was under way.
    alone: bool,
    shows: Shows,
}

/// What is remembered of a flow of the shaped direction.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    flow: u64,
    /// It answers.
    heard: bool,
    /// The spin bit seen last: of the shaped direction, and of the other.
    spins: [Option<bool>; 2],
}

/// News of a packet: when it left, and the bytes that had left with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// When it left.
    pub at: Instant,
    /// Bytes that had left, with it.
    pub total: u64,
    /// Whom it went to, by hash.
    pub host: u64,
    /// Nothing was under way when it left.
    pub alone: bool,
    /// When the first left that this tells of.
    pub first: Instant,
}

/// A packet that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Bytes that had left, with it.
    pub total: u64,
    /// When it left.
    pub at: Instant,
    /// Whom it goes to, by hash, if it will tell when it is across.
    pub host: Option<u64>,
}

impl Departure {
    fn due(&self) -> Due {
        let host = (self.shows != Shows::Nothing).then_some(self.host);
        Due { total: self.total, at: self.at, host }
    }
}

/// The memory of departures.
#[derive(Debug)]
pub struct Echoes {
    log: VecDeque<Departure>,
    flows: Box<[Known]>,
    copies: Box<[u32]>,
    seed: u64,
    total: u64,
}

impl Echoes {
    /// Nothing has left. `seed` keys the hashes.
    pub fn new(seed: u64) -> Self {
        Self {
            log: VecDeque::new(),
            flows: vec![Known::default(); FLOWS].into(),
            copies: vec![0; COPIES].into(),
            seed,
            total: 0,
        }
    }

    /// When the first packet left, of those after `written_off` bytes, that will show that it has come, and has not.
    pub fn oldest(&self, written_off: u64) -> Option<Instant> {
        self.log.iter().find(|d| d.shows != Shows::Nothing && d.total > written_off).map(|d| d.at)
    }

    /// What left after `written_off` bytes and is under way.
    pub fn due(&self, written_off: u64) -> impl Iterator<Item = Due> {
        self.log.iter().filter(move |d| d.total > written_off).map(Departure::due)
    }

    /// What left last.
    pub fn last_due(&self) -> Option<Due> {
        self.log.back().map(Departure::due)
    }

    fn known(&mut self, flow: u64) -> &mut Known {
        let known = &mut self.flows[flow as usize % FLOWS];
        if known.flow != flow {
            *known = Known { flow, ..Known::default() };
        }
        known
    }

    /// A packet leaves that takes `bytes` on the link, while nothing is under way if it is `alone`; whether it left
    /// before.
    pub fn departs(&mut self, now: Instant, h: &Header, bytes: u64, alone: bool) -> bool {
        let flow = h.key.hash(self.seed);
        let host = FlowKey::of_host(h.key.dst_bits()).hash(self.seed);
        self.total += bytes;
        let (mut again, mut shows) = (false, Shows::Nothing);
        if let Some(tcp) = h.tcp.filter(|t| t.payload > 0) {
            again = self.is_copy(flow, &tcp);
            if self.known(flow).heard {
                shows = Shows::Tcp { end: tcp.seq_end(), tsval: tcp.timestamps.map(|t| t.0) };
            }
        } else if let Some(QuicPacket::Short { spin }) = h.quic {
            let known = self.known(flow);
            if known.spins[0].replace(spin).is_some_and(|before| before != spin) && known.spins[1].is_some() {
                shows = Shows::Spin;
            }
        }
        if self.log.len() == MOST {
            self.log.pop_front();
        }
        self.log.push_back(Departure { at: now, total: self.total, flow, host, alone, shows });
        again
    }

    fn is_copy(&mut self, flow: u64, tcp: &TcpHeader) -> bool {
        let print = (flow ^ u64::from(tcp.seq.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(23);
        let place = &mut self.copies[print as usize % COPIES];
        let print = (print >> 32) as u32 | 1;
        std::mem::replace(place, print) == print
    }

    /// A packet of the other direction passes: the departure it tells of, if it does.
    pub fn returns(&mut self, h: &Header) -> Option<Echo> {
        let flow = h.key.reverse().hash(self.seed);
        let at = if let Some(tcp) = h.tcp.filter(|t| t.flags.has(Flags::ACK)) {
            self.known(flow).heard = true;
            self.acknowledged(flow, &tcp)?
        } else if let Some(QuicPacket::Short { spin }) = h.quic {
            let changed = self.known(flow).spins[1].replace(spin).is_some_and(|before| before != spin);
            let answers = |d: &Departure| changed && d.flow == flow && d.shows == Shows::Spin;
            self.log.iter().position(answers)?
        } else {
            return None;
        };
        let Departure { at: left, total, host, alone, .. } = self.log[at];
        let first = self.log.front().map_or(left, |d| d.at);
        self.log.drain(..=at);
        Some(Echo { at: left, total, host, alone, first })
    }

    /// The place of the last packet of `flow` that `ack` says has come.
    fn acknowledged(&self, flow: u64, ack: &TcpHeader) -> Option<usize> {
        let echoed = ack.timestamps.map(|t| SeqNum(t.1));
        let sack = ack.sack.as_slice().first();
        let mut best: Option<(usize, SeqNum)> = None;
        for (place, departure) in self.log.iter().enumerate().filter(|(_, d)| d.flow == flow) {
            let Shows::Tcp { end, tsval } = departure.shows else { continue };
            let later = matches!((tsval, echoed), (Some(sent), Some(echo)) if echo.before(SeqNum(sent)));
            let selected = sack.is_some_and(|(left, right)| left.before(end) && end.at_or_before(*right));
            // Of copies the first.
            let further = best.is_none_or(|(_, known)| known.before(end));
            if !later && further && (selected || end.at_or_before(ack.ack)) {
                best = Some((place, end));
            }
        }
        best.map(|(place, _)| place)
    }

    /// Takes what cannot show itself out of the front: up to `total` all is across.
    pub fn pass(&mut self, total: u64) {
        while self.log.front().is_some_and(|d| d.shows == Shows::Nothing && d.total <= total) {
            self.log.pop_front();
        }
    }
}
