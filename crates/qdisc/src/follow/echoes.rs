//! Packets that left the box, and the news that they have crossed the link.
//!
//! Behind the box stands one queue, first in, first out. So an acknowledgment of one packet says that all packets which
//! left before it, of whatever flow, are across or lost. A packet is told of by:
//!
//! - TCP: the cumulative acknowledgment; if that stands still, the first block of SACK, which has the segment that came
//!   last (RFC 2018, section 4). Among several copies of a segment that one is taken to have come which left no later
//!   than the echoed timestamp says (RFC 7323, section 4), else the first. A copy is told of only by an acknowledgment
//!   that waited for it, and only with timestamps (Karn: RFC 6298, section 3): the receiver may have had it before.
//! - QUIC: the spin bit. It changes once in a round trip each way (RFC 9000, section 17.4), so a change that comes back
//!   answers the change that went out before.
//!
//! A flow counts as one that answers once a packet of it has passed the other way.

use std::collections::VecDeque;

use narrows_flow::MOST_UNDER_WAY;
use narrows_units::{Instant, SeqNum};
use narrows_wire::{Flags, FlowKey, Header, QuicPacket, TcpHeader};

/// Departures that are remembered: more than a link has under way.
const DEPARTURES: usize = 4096;
/// Flows that are remembered, by hash: one that has another's place is not known.
const FLOWS: usize = 4096;
/// Places for hashes of packets that left, to know one that leaves again, and hashes in a place: the latest.
const COPIES: usize = 2048;
const A_PLACE: usize = 4;

/// Sign by which a packet will show that the packet has crossed the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    /// No sign.
    Nothing,
    /// An acknowledgment of the byte before `end`; a copy begins at `copy`.
    Tcp { end: SeqNum, tsval: Option<u32>, copy: Option<SeqNum> },
    /// A change of the spin bit.
    Spin,
}

/// A packet that left.
#[derive(Clone, Copy, Debug)]
struct Departure {
    at: Instant,
    /// Bytes that had left the box when the packet left, the packet included.
    total: u64,
    flow: u64,
    /// Destination, by hash.
    host: u64,
    /// Whether nothing was under way.
    alone: bool,
    shows: Shows,
}

/// State of a flow of the shaped direction.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    flow: u64,
    /// Whether the flow's receiver answers.
    heard: bool,
    /// Latest cumulative acknowledgment.
    acked: SeqNum,
    /// The number after the last that left, if any did.
    sent: Option<SeqNum>,
    /// Latest spin bit of the shaped direction, and of the other.
    spin: Option<bool>,
    reverse_spin: Option<bool>,
}

/// News of a packet that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Departure of the packet.
    pub at: Instant,
    /// Bytes that had left the box when the packet left, the packet included.
    pub total: u64,
    /// Destination of the packet, by hash.
    pub host: u64,
    /// Whether nothing was under way when the packet left.
    pub alone: bool,
    /// Departure of the first packet that the news tells of.
    pub first: Instant,
}

/// A packet that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Bytes that had left the box when the packet left, the packet included.
    pub total: u64,
    /// Departure of the packet.
    pub at: Instant,
    /// Destination of the packet, by hash, if an answer will tell when the packet is across.
    pub host: Option<u64>,
}

impl Departure {
    fn due(&self) -> Due {
        let host = (self.shows != Shows::Nothing).then_some(self.host);
        Due { total: self.total, at: self.at, host }
    }
}

/// Memory of departures.
#[derive(Debug)]
pub struct Echoes {
    log: VecDeque<Departure>,
    flows: Box<[Known]>,
    copies: Box<[[u32; A_PLACE]]>,
    seed: u64,
    /// Bytes that have left.
    total: u64,
    /// Packets that left again.
    again: u64,
}

impl Echoes {
    /// A memory in which nothing has left. `seed` keys the hashes.
    pub fn new(seed: u64) -> Self {
        Self {
            log: VecDeque::new(),
            flows: vec![Known::default(); FLOWS].into(),
            copies: vec![[0; A_PLACE]; COPIES].into(),
            seed,
            total: 0,
            again: 0,
        }
    }

    /// Departure of the first packet after `written_off` bytes that will show its crossing, and has not.
    pub fn oldest(&self, written_off: u64) -> Option<Instant> {
        self.log.iter().find(|d| d.shows != Shows::Nothing && d.total > written_off).map(|d| d.at)
    }

    /// Packets under way that left after `written_off` bytes.
    pub fn due(&self, written_off: u64) -> impl Iterator<Item = Due> {
        self.log.iter().filter(move |d| d.total > written_off).map(Departure::due)
    }

    /// Packets of TCP that left a second time, because the first copy was lost behind the box.
    pub const fn sent_again(&self) -> u64 {
        self.again
    }

    fn known(&mut self, flow: u64) -> &mut Known {
        let known = &mut self.flows[flow as usize % FLOWS];
        if known.flow != flow {
            *known = Known { flow, ..Known::default() };
        }
        known
    }

    /// Notes a packet that leaves and takes `bytes` on the link, while nothing is under way if it is `alone`.
    pub fn departs(&mut self, now: Instant, h: &Header, bytes: u64, alone: bool) -> Due {
        let flow = h.key.hash(self.seed);
        let host = FlowKey::of_host(h.key.dst_bits()).hash(self.seed);
        self.total += bytes;
        let mut shows = Shows::Nothing;
        if let Some(tcp) = h.tcp.filter(|t| t.payload > 0) {
            let known = self.known(flow);
            let before = known.sent.unwrap_or(tcp.seq);
            if tcp.seq.distance_from(before).unsigned_abs() <= MOST_UNDER_WAY {
                known.sent = Some(before.max(tcp.seq_end()));
            }
            let again = self.is_copy(flow, &tcp);
            self.again += u64::from(again);
            if self.known(flow).heard && (!again || tcp.timestamps.is_some()) {
                let copy = again.then_some(tcp.seq);
                shows = Shows::Tcp { end: tcp.seq_end(), tsval: tcp.timestamps.map(|t| t.0), copy };
            }
        } else if let Some(QuicPacket::Short { spin }) = h.quic {
            let known = self.known(flow);
            if known.spin.replace(spin).is_some_and(|before| before != spin) && known.reverse_spin.is_some() {
                shows = Shows::Spin;
            }
        }
        if self.log.len() == DEPARTURES {
            self.log.pop_front();
        }
        let departure = Departure { at: now, total: self.total, flow, host, alone, shows };
        self.log.push_back(departure);
        departure.due()
    }

    /// Whether a segment of the flow with this number left before; it has from now on.
    fn is_copy(&mut self, flow: u64, tcp: &TcpHeader) -> bool {
        let print = (flow ^ u64::from(tcp.seq.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(23);
        let place = &mut self.copies[print as usize % COPIES];
        let print = (print >> 32) as u32 | 1;
        let known = place.contains(&print);
        if !known {
            place.rotate_right(1);
            place[0] = print;
        }
        known
    }

    /// Notes a packet of the other direction. Returns the departure that it tells of, if it does.
    pub fn returns(&mut self, h: &Header) -> Option<Echo> {
        let flow = h.key.reverse().hash(self.seed);
        let at = if let Some(tcp) = h.tcp.filter(|t| t.flags.has(Flags::ACK)) {
            let known = self.known(flow);
            // An acknowledgment of what never left is forged, or from before the box was there.
            if known.sent.is_some_and(|sent| sent - tcp.ack > MOST_UNDER_WAY) {
                return None;
            }
            let before = known.heard.then_some(known.acked);
            (known.heard, known.acked) = (true, tcp.ack);
            self.acknowledged(flow, &tcp, before)?
        } else if let Some(QuicPacket::Short { spin }) = h.quic {
            let changed = self.known(flow).reverse_spin.replace(spin).is_some_and(|before| before != spin);
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

    /// Place of the last packet of `flow` that is acknowledged by `ack` and was not by the acknowledgment `before`.
    fn acknowledged(&self, flow: u64, ack: &TcpHeader, before: Option<SeqNum>) -> Option<usize> {
        let echoed = ack.timestamps.map(|t| SeqNum(t.1));
        let sack = ack.sack.as_slice().first().filter(|_| before == Some(ack.ack));
        let mut best: Option<(usize, SeqNum)> = None;
        for (place, departure) in self.log.iter().enumerate().filter(|(_, d)| d.flow == flow) {
            let Shows::Tcp { end, tsval, copy } = departure.shows else { continue };
            let covered = end.at_or_before(ack.ack) && before.is_none_or(|before| before.before(end));
            let told = match copy {
                None => {
                    covered || sack.is_some_and(|(left, right)| left.before(end) && end.at_or_before(*right))
                }
                // An acknowledgment of any other may have an older echo as well (RFC 7323, section 4.3).
                Some(seq) => {
                    let later =
                        matches!((tsval, echoed), (Some(sent), Some(echo)) if echo.before(SeqNum(sent)));
                    covered && before == Some(seq) && !later
                }
            };
            // Among copies the first counts.
            if told && best.is_none_or(|(_, known)| known.before(end)) {
                best = Some((place, end));
            }
        }
        best.map(|(place, _)| place)
    }

    /// Forgets the first packets, up to `total` bytes, that will not tell: they are taken for gone.
    pub fn pass(&mut self, total: u64) {
        while self.log.front().is_some_and(|d| d.shows == Shows::Nothing && d.total <= total) {
            self.log.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use narrows_units::{Bytes, Duration};
    use narrows_wire::Proto;

    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(n)
    }

    fn header(back: bool, tcp: TcpHeader) -> Header {
        let key = FlowKey::new([10, 0, 0, 1].into(), [10, 0, 1, 1].into(), 80, 4000, Proto::TCP);
        let key = if back { key.reverse() } else { key };
        Header { key, len: Bytes(1500), tcp: Some(tcp), ..Header::default() }
    }

    /// A flow whose segments of 1000 bytes have numbers.
    struct Flow(Echoes);

    impl Flow {
        fn new() -> Self {
            let mut flow = Self(Echoes::new(1));
            assert_eq!(flow.ack(0, None, None), None);
            flow
        }

        /// A segment leaves, with a timestamp if its flow has them; whether it left before.
        fn leaves(&mut self, at: u64, number: u32, timestamp: Option<u32>) -> bool {
            let (seq, timestamps) = (SeqNum(number * 1000), timestamp.map(|sent| (sent, 0)));
            let tcp = TcpHeader { seq, payload: 1000, flags: Flags::ACK, timestamps, ..TcpHeader::default() };
            let before = self.0.sent_again();
            self.0.departs(ms(at), &header(false, tcp), 1500, false);
            self.0.sent_again() > before
        }

        /// All before `next` has come, and the segment `later` if there is one: when what this tells of left.
        fn ack(&mut self, next: u32, later: Option<u32>, timestamp: Option<u32>) -> Option<Instant> {
            let (ack, timestamps) = (SeqNum(next * 1000), timestamp.map(|echo| (0, echo)));
            let mut tcp = TcpHeader { ack, flags: Flags::ACK, timestamps, ..TcpHeader::default() };
            if let Some(number) = later {
                tcp.sack.push(SeqNum(number * 1000), SeqNum((number + 1) * 1000));
            }
            self.0.returns(&header(true, tcp)).map(|echo| echo.at)
        }
    }

    #[test]
    fn the_first_block_tells_where_the_acknowledgment_stands() {
        let mut flow = Flow::new();
        (0..5).for_each(|n| assert!(!flow.leaves(u64::from(n), n, None)));
        assert_eq!(flow.ack(1, None, None), Some(ms(0)));
        assert_eq!(flow.ack(1, Some(2), None), Some(ms(2)), "what came is in the first block");
        // What came moved it on: the block may be of long ago (RFC 2018, section 4).
        assert_eq!(flow.ack(2, Some(4), None), None);
        assert_eq!(flow.ack(2, Some(4), None), Some(ms(4)));
    }

    #[test]
    fn a_copy_is_no_measure_of_what_left_before_it() {
        // Another packet has told that the first is across; its own acknowledgment is still under way.
        let copied = |number, first, second| {
            let mut flow = Flow::new();
            assert!(!flow.leaves(0, number, first));
            flow.0.log.clear();
            assert!(flow.leaves(500, number, second));
            flow
        };
        assert_eq!(copied(0, None, None).ack(1, None, None), None, "of which of the two?");
        // With timestamps the answer says it.
        assert_eq!(copied(0, Some(10), Some(510)).ack(1, None, Some(10)), None, "the first");
        assert_eq!(copied(0, Some(10), Some(510)).ack(1, None, Some(510)), Some(ms(500)));
        // A selective one does not: the block may have it from before.
        assert_eq!(copied(2, Some(10), Some(10)).ack(0, Some(2), Some(10)), None);
    }

    #[test]
    fn what_the_receiver_had_already_is_no_measure() {
        let mut flow = Flow::new();
        (0..2).for_each(|n| assert!(!flow.leaves(u64::from(n), n, Some(n))));
        assert_eq!(flow.ack(0, Some(1), Some(0)), Some(ms(1)));
        // The sender's timer sends both again in the same millisecond; the first of them fills the gap.
        assert!(flow.leaves(500, 0, Some(500)) && flow.leaves(540, 1, Some(500)));
        assert_eq!(flow.ack(2, None, Some(500)), Some(ms(500)));
    }

    #[test]
    fn what_was_acknowledged_before_it_left_tells_nothing() {
        let mut flow = Flow::new();
        (0..3).for_each(|n| assert!(!flow.leaves(u64::from(n), n, Some(n))));
        assert_eq!(flow.ack(2, None, Some(1)), Some(ms(1)));
        // It stood in the box for long, with its old timestamp.
        assert!(flow.leaves(700, 0, Some(0)));
        assert_eq!(flow.ack(3, None, Some(2)), Some(ms(2)));
        assert_eq!(flow.ack(3, None, Some(2)), None);
    }

    #[test]
    fn an_acknowledgment_of_what_never_left_is_forged() {
        let mut flow = Flow::new();
        (0..3).for_each(|n| assert!(!flow.leaves(u64::from(n), n, None)));
        for number in [4, 1_000_000, 2_147_483, 4_000_000] {
            assert_eq!(flow.ack(number, None, None), None, "{number}");
        }
        assert_eq!(flow.ack(2, None, None), Some(ms(1)), "what is true tells as before");
        // A segment far beyond the sender's numbers moves nothing either.
        assert!(!flow.leaves(3, 2_000_000, None));
        assert_eq!(flow.ack(2_000_001, None, None), None);
        assert_eq!(flow.ack(3, None, None), Some(ms(2)));
    }

    #[test]
    fn one_that_leaves_again_is_known_beside_others_of_its_place() {
        let mut flow = Flow::new();
        (0..4000).for_each(|n| assert!(!flow.leaves(u64::from(n), n, None), "{n}"));
        let known = (0..4000).filter(|n| flow.leaves(5000, *n, None)).count();
        // Of 8192 places of one 3160 would be.
        assert!(known > 3700, "{known}");
    }
}
