//! Packets of one connection, for a time-sequence picture as tcptrace draws it: data by its sequence numbers, what the
//! receiver has acknowledged and how far it lets the sender go. Bytes are counted from the first that was seen of each
//! direction.

use narrows_units::{Instant, SeqNum};
use narrows_wire::{Flags, FlowKey, TcpHeader};

/// Packets that are kept; what follows is left out.
const MOST: usize = 4_000_000;
/// Initial numbers of one end that are kept.
const MOST_INITIAL: usize = 16;
/// The greatest window, bytes (RFC 7323, section 2.3): a number further from an initial one belongs to another.
const GREATEST_WINDOW: i32 = 1 << 30;

/// A segment with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Time at which the segment passed.
    pub at: Instant,
    /// Frame that holds the segment.
    pub frame: u64,
    /// First byte of the segment.
    pub start: u64,
    /// The byte after the segment's last.
    pub end: u64,
    /// Whether all of the segment had been seen before.
    pub again: bool,
}

/// An acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    /// Time at which the acknowledgment passed.
    pub at: Instant,
    /// The byte that the receiver waits for.
    pub next: u64,
    /// The byte that the receiver has no room for; `None` if the scale of the window is unknown.
    pub edge: Option<u64>,
}

/// One direction of data.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// Segments with data, by time.
    pub sent: Vec<Sent>,
    /// Acknowledgments of the direction's data, by time.
    pub acked: Vec<Acked>,
    /// Selective acknowledgments of the direction's data: time, first byte, end.
    pub sacked: Vec<(Instant, u64, u64)>,
    /// Numbers of the first byte by the SYNs that passed, the latest last. A server with SYN cookies, or one that has
    /// forgotten its answer, chooses a new one for each.
    initial: Vec<SeqNum>,
    /// Number of the first byte; `highest` is the end of the highest segment with the segment's place.
    origin: Option<SeqNum>,
    highest: (SeqNum, u64),
    /// The shift of the windows that the receiver of this data announces (RFC 7323, section 2.2).
    scale: Option<u8>,
}

impl Way {
    /// The place of a sequence number, next to the highest that was seen.
    fn place(&self, seq: SeqNum) -> u64 {
        let (seen, place) = self.highest;
        place.saturating_add_signed(i64::from(seq.distance_from(seen)))
    }

    /// Bytes are counted from here.
    fn begin(&mut self, first: SeqNum) {
        self.origin = Some(first);
        self.highest = (first, 0);
    }

    /// A SYN announces the number of the first byte.
    fn announced(&mut self, first: SeqNum) {
        if !self.initial.contains(&first) && self.initial.len() < MOST_INITIAL {
            self.initial.push(first);
        }
        if self.sent.is_empty() {
            self.begin(first);
        }
    }

    /// Data, or an acknowledgment of some, bear this number: until there are data, it tells which of the announced
    /// numbers holds.
    fn used(&mut self, seq: SeqNum) {
        let behind = |initial: &&SeqNum| (0..=GREATEST_WINDOW).contains(&seq.distance_from(**initial));
        let nearest = self.initial.iter().filter(behind).min_by_key(|initial| seq.distance_from(**initial));
        match (nearest, self.origin) {
            (Some(first), Some(origin)) if self.sent.is_empty() && *first != origin => self.begin(*first),
            (None, Some(_)) if self.sent.is_empty() && !self.initial.is_empty() => self.begin(seq),
            (_, None) => self.begin(seq),
            _ => {}
        }
    }

    fn data(&mut self, at: Instant, frame: u64, tcp: &TcpHeader) {
        let syn = tcp.flags.has(Flags::SYN);
        let first = if syn { tcp.seq + 1 } else { tcp.seq };
        if syn {
            self.announced(first);
        } else if tcp.payload > 0 || self.origin.is_none() {
            self.used(first);
        }
        if tcp.payload == 0 {
            return;
        }
        let (start, last) = (self.place(first), first + tcp.payload);
        let again = last.at_or_before(self.highest.0);
        let end = self.place(last);
        if !again {
            self.highest = (last, end);
        }
        self.sent.push(Sent { at, frame, start, end, again });
    }

    fn ack(&mut self, at: Instant, tcp: &TcpHeader, scaled: bool) {
        self.used(tcp.ack);
        let next = self.place(tcp.ack);
        let shift = if tcp.flags.has(Flags::SYN) { Some(0) } else { self.scale.filter(|_| scaled) };
        let edge = shift.map(|shift| next + (u64::from(tcp.window) << shift));
        self.acked.push(Acked { at, next, edge });
        for (left, right) in tcp.sack.as_slice() {
            let (left, right) = (self.place(*left), self.place(*right));
            // Below the acknowledgment a block tells of what came twice (RFC 2883).
            if left < right && next <= left {
                self.sacked.push((at, left, right));
            }
        }
    }
}

/// Trace of one connection in both directions.
#[derive(Clone, Debug)]
pub struct Trace {
    key: FlowKey,
    ways: [Way; 2],
    packets: usize,
}

impl Trace {
    /// Traces the connection of packets with `key`, in both directions.
    #[must_use]
    pub fn new(key: FlowKey) -> Self {
        Self { key, ways: [Way::default(), Way::default()], packets: 0 }
    }

    /// Takes note of a packet of the connection.
    pub fn packet(&mut self, at: Instant, frame: u64, key: &FlowKey, tcp: &TcpHeader) {
        self.packets += 1;
        if self.packets > MOST {
            return;
        }
        let from = usize::from(*key != self.key);
        if tcp.flags.has(Flags::SYN) {
            // Without the option the window is not scaled, in either direction.
            self.ways[1 - from].scale = Some(tcp.window_scale.unwrap_or(0));
        }
        let scaled = self.ways.iter().all(|w| w.scale.is_some());
        self.ways[from].data(at, frame, tcp);
        if tcp.flags.has(Flags::ACK) && !tcp.flags.has(Flags::RST) {
            self.ways[1 - from].ack(at, tcp, scaled);
        }
    }

    /// The data that goes in the direction of `key`.
    #[must_use]
    pub fn way(&self, key: &FlowKey) -> &Way {
        &self.ways[usize::from(*key != self.key)]
    }

    /// Packets that were too many to be kept.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.packets.saturating_sub(MOST)
    }
}

#[cfg(test)]
mod tests {
    use narrows_wire::Proto;

    use super::*;

    #[test]
    fn a_trace_by_hand() {
        let key = FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 9, 80, Proto::TCP);
        let mut t = Trace::new(key);
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut put = |ms, forth: bool, flags, (seq, ack): (u32, u32), payload, sack: &[(u32, u32)]| {
            let mut tcp = TcpHeader {
                seq: SeqNum(seq),
                ack: SeqNum(ack),
                flags,
                payload,
                window: 100,
                ..TcpHeader::default()
            };
            tcp.window_scale = flags.has(Flags::SYN).then_some(2);
            sack.iter().for_each(|(l, r)| tcp.sack.push(SeqNum(*l), SeqNum(*r)));
            t.packet(at(ms), ms, &if forth { key } else { key.reverse() }, &tcp);
        };
        // Numbers wrap in the middle of the data: it begins 500 below 2^32.
        let first = u32::MAX - 499;
        put(0, true, Flags::SYN, (first - 1, 0), 0, &[]);
        put(1, false, Flags::SYN.and(Flags::ACK), (77, first), 0, &[]);
        put(2, true, Flags::ACK, (first, 78), 400, &[]);
        put(3, true, Flags::ACK, (first + 400, 78), 400, &[]);
        put(4, false, Flags::ACK, (78, first), 0, &[(first + 400, first.wrapping_add(800))]);
        put(5, true, Flags::ACK, (first, 78), 400, &[]);
        put(6, false, Flags::ACK, (78, 300), 0, &[(first, first + 400)]);
        let way = t.way(&key);
        let sent: Vec<_> = way.sent.iter().map(|s| (s.frame, s.start, s.end, s.again)).collect();
        assert_eq!(sent, [(2, 0, 400, false), (3, 400, 800, false), (5, 0, 400, true)]);
        // The window of a SYN-ACK is not scaled; those after it are, by four.
        let acked: Vec<_> = way.acked.iter().map(|a| (a.next, a.edge)).collect();
        assert_eq!(acked, [(0, Some(100)), (0, Some(400)), (800, Some(1200))]);
        assert_eq!(way.sacked, [(at(4), 400, 800)], "a DSACK is none");
        assert!(t.way(&key.reverse()).sent.is_empty() && t.left_out() == 0);
    }

    /// The answer to the first SYN is lost, and the answer to the second bears another number: far above the first,
    /// far below it, or one that wraps.
    #[test]
    fn a_server_may_choose_its_number_anew() {
        let key = FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 9, 80, Proto::TCP);
        for (first, second) in [(1000_u32, 3_000_000_000_u32), (3_000_000_000, 1000), (5, u32::MAX - 200)] {
            let mut t = Trace::new(key);
            let mut put = |ms: u64, forth: bool, flags, seq: u32, ack: u32, payload| {
                let (seq, ack) = (SeqNum(seq), SeqNum(ack));
                let tcp = TcpHeader { seq, ack, flags, payload, window: 100, ..TcpHeader::default() };
                let key = if forth { key } else { key.reverse() };
                t.packet(Instant::from_nanos(ms * 1_000_000), ms, &key, &tcp);
            };
            let (both, data) = (Flags::SYN.and(Flags::ACK), second.wrapping_add(1));
            put(0, true, Flags::SYN, 76, 0, 0);
            put(1, false, both, first, 77, 0);
            put(2, true, Flags::SYN, 76, 0, 0);
            put(3, false, both, second, 77, 0);
            // A copy of the first answer comes late, and is not the one that was taken.
            put(4, false, both, first, 77, 0);
            put(5, true, Flags::ACK, 77, data, 40);
            put(6, false, Flags::ACK, data, 117, 600);
            put(7, true, Flags::ACK, 117, data.wrapping_add(600), 0);
            let way = t.way(&key.reverse());
            let sent: Vec<_> = way.sent.iter().map(|s| (s.start, s.end, s.again)).collect();
            assert_eq!(sent, [(0, 600, false)], "{first} {second}");
            let acked: Vec<_> = way.acked.iter().map(|a| a.next).collect();
            assert_eq!(acked, [0, 600], "{first} {second}");
            assert_eq!(t.way(&key).sent.len(), 1);
        }
    }
}
