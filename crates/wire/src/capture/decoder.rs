//! Turns frames into the headers of the IP packets in them: through link layers, tags and tunnels, with fragments put
//! together. What is not opened is counted by its kind.

use super::Captured;
use super::fragments::{Fragment, Fragments};
use crate::layers::{Layer, walk};
use crate::parse::{WireError, parse_captured};
use crate::tunnel::{DEPTH, carried, is_plain};
use crate::upper::Upper;
use crate::{Flags, Header, Proto, TcpHeader, Unopened, UnopenedCounts};

/// A frame, as a capture or an interface has it.
#[derive(Clone, Copy, Debug)]
pub struct Framed<'a> {
    /// Number of the link layer in the registry of tcpdump.org.
    pub link: u32,
    /// Bytes of the frame from its beginning on.
    pub bytes: &'a [u8],
    /// Length of the whole frame, bytes.
    pub original_len: u32,
    /// Number of the interface.
    pub interface: u32,
}

/// Options of TCP that a capture did not keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutCounts {
    /// Segments whose options are cut.
    pub segments: u64,
    /// Segments of handshakes among them: window scale, maximum segment size, whether SACK is permitted.
    pub handshakes: u64,
    /// Acknowledgments among them that have room for blocks of SACK.
    pub sacks: u64,
    /// TCP packets that end before anything useful of their TCP header.
    pub headers: u64,
    /// Bytes of a frame from its beginning that would have shown all headers.
    pub needed: u32,
}

/// A packet of a frame, or one within another.
#[derive(Clone, Copy)]
struct Nested<'a> {
    packet: &'a [u8],
    /// Bytes of the frame before the packet.
    before: usize,
    /// Bytes that the packet has on the link, whether captured or not.
    wire: usize,
    /// Number of packets around it.
    depth: usize,
}

/// Result of reading one level of packets within packets.
enum Outcome {
    /// A header was read.
    Read,
    /// A fragment, of whose packet more must come.
    Waits,
    /// The IP header cannot be read.
    Broken(WireError),
}

/// Decoder of frames into headers, with counts of what it did not open.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    /// Whether packets in tunnels are read instead of those that carry them, and fragments are put together.
    peels: bool,
    peeled: u64,
    left_out: UnopenedCounts,
    closed: UnopenedCounts,
    fragments: Fragments,
    cut: CutCounts,
}

impl Decoder {
    /// A decoder that reads the packets in tunnels instead of those that carry them, and puts fragments together.
    #[must_use]
    pub fn through_tunnels() -> Self {
        Self { peels: true, ..Self::default() }
    }

    /// Frames that gave no packet, by reason.
    #[must_use]
    pub fn left_out(&self) -> UnopenedCounts {
        let mut all = self.left_out.clone();
        all.add_many(Unopened::Fragments, self.fragments.lost());
        all
    }

    /// Packets that carry something which was not opened, by reason.
    #[must_use]
    pub const fn closed(&self) -> &UnopenedCounts {
        &self.closed
    }

    /// Packets that came out of a tunnel.
    #[must_use]
    pub const fn peeled(&self) -> u64 {
        self.peeled
    }

    /// Packets that were put together from fragments.
    #[must_use]
    pub const fn put_together(&self) -> u64 {
        self.fragments.whole()
    }

    /// Options that the capture did not keep.
    #[must_use]
    pub const fn cut(&self) -> CutCounts {
        self.cut
    }

    /// Reads the frame's packet into `captured`: its header, TTL and place. `captured.at` is the time of the frame.
    /// Says whether there is one.
    #[inline]
    pub fn read(&mut self, frame: &Framed<'_>, captured: &mut Captured) -> bool {
        let packet = match walk(Layer::Link(frame.link), frame.bytes) {
            Ok(packet) => packet,
            Err(why) => {
                self.left_out.add(why);
                return false;
            }
        };
        captured.place = place(frame);
        let before = frame.bytes.len() - packet.len();
        let wire = (frame.original_len as usize).max(frame.bytes.len()) - before;
        if !self.peels || is_plain(packet) {
            match parse_captured(packet, wire, &mut captured.header) {
                Ok(()) if !(self.peels && captured.header.fragment) => {
                    self.found(packet, before, captured);
                    return true;
                }
                Ok(()) => {}
                Err(why) => {
                    self.left_out.add(broken(why));
                    return false;
                }
            }
        }
        match self.deeper(Nested { packet, before, wire, depth: 0 }, captured) {
            Outcome::Read => true,
            Outcome::Waits => false,
            Outcome::Broken(why) => {
                self.left_out.add(broken(why));
                false
            }
        }
    }

    #[inline]
    fn found(&mut self, packet: &[u8], before: usize, captured: &mut Captured) {
        captured.ttl = packet.get(if packet[0] >> 4 == 4 { 8 } else { 7 }).copied().unwrap_or(0);
        match &captured.header.tcp {
            Some(tcp) if tcp.cut => self.cut_short(tcp, packet, before),
            None if captured.header.key.proto == Proto::TCP && !captured.header.fragment => {
                self.cut.headers += 1
            }
            _ => {}
        }
    }

    /// Notes what a TCP header lacks whose options are cut.
    #[cold]
    fn cut_short(&mut self, tcp: &TcpHeader, packet: &[u8], before: usize) {
        let Ok(Some(Upper { at, .. })) = Upper::of(packet) else { return };
        let len = packet.get(at + 12).map_or(0, |offset| usize::from(offset >> 4) * 4);
        self.cut.segments += 1;
        self.cut.needed = self.cut.needed.max((before + at + len) as u32);
        if tcp.flags.has(Flags::SYN) {
            self.cut.handshakes += 1;
        } else if tcp.flags.has(Flags::ACK) && len >= 20 + SACK_FROM {
            self.cut.sacks += 1;
        }
    }

    /// Reads a packet that is no plain TCP: a fragment, or one that may carry another.
    #[cold]
    fn deeper(&mut self, nested: Nested<'_>, captured: &mut Captured) -> Outcome {
        let Nested { packet, before, wire, depth } = nested;
        let mut header = Header::default();
        if let Err(why) = parse_captured(packet, wire, &mut header) {
            return Outcome::Broken(why);
        }
        if header.fragment {
            let Some(fragment) = Fragment::of(packet, wire) else {
                return Outcome::Broken(WireError::Truncated);
            };
            return match self.fragments.add(&header, &fragment, captured.at) {
                Some(whole) if depth < DEPTH => {
                    let inner = Nested { packet: &whole.bytes, wire: whole.len, depth: depth + 1, ..nested };
                    let outcome = self.deeper(inner, captured);
                    // The buffer goes back for the next one.
                    self.fragments.give_back(whole);
                    outcome
                }
                Some(_) | None => Outcome::Waits,
            };
        }
        let inner = match carried(packet) {
            Ok(inner) => inner,
            Err(why) => {
                self.closed.add(why);
                None
            }
        };
        if let Some(inner) = inner {
            if depth == DEPTH {
                self.closed.add(Unopened::Deep);
            } else {
                let headers = packet.len() - inner.packet.len();
                let inner = Nested {
                    packet: inner.packet,
                    before: before + headers,
                    wire: header_wire(&header, wire).saturating_sub(headers),
                    depth: depth + 1,
                };
                match self.deeper(inner, captured) {
                    Outcome::Broken(_) => self.closed.add(Unopened::Named("a tunnel without IP in it")),
                    read => {
                        self.peeled += u64::from(matches!(read, Outcome::Read));
                        return read;
                    }
                }
            }
        }
        captured.header = header;
        self.found(packet, before, captured);
        Outcome::Read
    }
}

/// Length from which on TCP options have room for a timestamp and a block of SACK (RFC 2018, section 3).
const SACK_FROM: usize = 20;

/// Bytes that a packet has on the link from its IP header on.
fn header_wire(header: &Header, wire: usize) -> usize {
    usize::try_from(header.len.get()).map_or(wire, |len| len.min(wire))
}

const fn broken(why: WireError) -> Unopened {
    match why {
        WireError::Truncated => Unopened::Cut,
        WireError::Version(_) | WireError::Length => Unopened::Broken,
    }
}

/// Where a frame was seen: a digest of its interface and of the link's addresses, which another copy of it may have
/// otherwise.
#[inline]
fn place(frame: &Framed<'_>) -> u32 {
    let word = |at: usize| {
        let bytes = frame.bytes.get(at..at + 8).and_then(|b| b.first_chunk().copied());
        bytes.map_or(0, u64::from_le_bytes)
    };
    let addresses = match frame.link {
        // Addresses of both ends.
        1 => word(0) ^ word(4).rotate_left(17),
        // Kind of packet and address; interface and kind of packet.
        113 => word(0) ^ word(6).rotate_left(17),
        276 => word(4),
        _ => 0,
    };
    let mixed = (addresses ^ u64::from(frame.interface)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32
}
