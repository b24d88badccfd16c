//! Copies of one packet: a capture on all interfaces, on a mirrored port, on a bond or of a router shows it where it
//! came and where it went. The first is taken, further ones are left out: an acknowledgment seen twice is no duplicate
//! one, and data seen twice were not sent again.
//!
//! A packet is known again by all that its sender wrote: addresses, ports, numbers, timestamps and the identification
//! of IPv4. What is sent again has another identification, or later timestamps; where there is neither, a copy must be
//! near in time and seen at another place, or at the same place at once.

use narrows_units::{Duration, Instant};
use narrows_wire::capture::Captured;
use narrows_wire::{Flags, Header, TcpHeader};

/// Packets that are remembered, a power of two: what passes between two interfaces of a full router with queues.
const REMEMBERED: usize = 1 << 13;
/// Time that a packet may take from one place to the other: a full queue of a thin link.
const APART: Duration = Duration::from_secs(3);
/// Time between copies where only their numbers tell; no sender repairs anything so soon.
const NEAR: Duration = Duration::from_millis(10);
/// Time between two copies at one place without an identification: less than any round trip but a data centre's.
const AT_ONCE: Duration = Duration::from_micros(500);
/// Packets in which a capture with copies shows some: those of a second or two of a busy link.
const BEGINNING: u32 = 1 << 14;
/// Later, where there were none, packets of a round, and of them those that are looked at.
const ROUND: u32 = 1 << 14;
const LOOKED_AT: u32 = 1 << 10;
/// Segments after which it is told whether a capture has each of them twice: a handshake and a request, so that it is
/// known before any duplicate acknowledgment counts.
const ENOUGH: u64 = 3;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    print: u64,
    at: Instant,
    place: u32,
    ttl: u8,
}

/// Packets that have passed lately.
#[derive(Clone, Debug)]
pub struct Copies {
    slots: Box<[Slot]>,
    left_out: u64,
    /// Whether packets are looked at now; `left` counts the packets until that changes.
    looks: bool,
    left: u32,
    /// Segments with data, SYN or FIN, and copies of such at one place and at once.
    segments: u64,
    twice: u64,
}

impl Default for Copies {
    fn default() -> Self {
        Self {
            slots: vec![Slot::default(); REMEMBERED].into_boxed_slice(),
            left_out: 0,
            looks: true,
            left: BEGINNING,
            segments: 0,
            twice: 0,
        }
    }
}

/// Digest of all that a sender wrote in a segment.
#[inline]
pub(crate) fn print(header: &Header, tcp: &TcpHeader) -> u64 {
    let key = &header.key;
    let stamps = tcp.timestamps.unwrap_or_default();
    let ident = header.ident.map_or(0, core::num::NonZeroU16::get);
    let addresses = key.src_bits() as u64 ^ (key.dst_bits() as u64).rotate_left(29);
    let numbers = u64::from(tcp.seq.0) << 32 | u64::from(tcp.ack.0);
    let clock = u64::from(stamps.0) << 32 | u64::from(stamps.1);
    let rest = u64::from(ident) << 48
        | u64::from(tcp.window) << 32
        | u64::from(key.sport ^ key.dport.rotate_left(8)) << 16
        | u64::from(tcp.flags.0);
    let first = tcp.sack.as_slice().first().map_or(0, |(l, r)| u64::from(l.0) << 32 | u64::from(r.0));
    let a = fold(addresses ^ clock, numbers ^ 0x9e37_79b9_7f4a_7c15);
    fold(a ^ rest, first ^ u64::from(tcp.payload) ^ 0xbb67_ae85_84ca_a73b)
}

/// The two halves of a product, exclusive-or.
#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let p = a as u128 * (b | 1) as u128;
    (p as u64) ^ ((p >> 64) as u64)
}

impl Copies {
    /// Tells whether this packet of a long capture is a copy. A capture that has copies has them everywhere: where
    /// there were none at the beginning, one packet in sixteen is looked at.
    #[inline]
    pub fn is_copy_sampled(&mut self, packet: &Captured) -> bool {
        if self.left == 0 {
            self.turn();
        }
        self.left -= 1;
        self.looks && self.is_copy(packet)
    }

    #[cold]
    fn turn(&mut self) {
        self.looks = self.left_out > 0 || !self.looks;
        self.left = match (self.left_out, self.looks) {
            (1.., _) => u32::MAX,
            (0, true) => LOOKED_AT,
            (0, false) => ROUND - LOOKED_AT,
        };
    }

    /// Tells whether `packet` is a copy of a packet that has passed.
    #[inline]
    pub fn is_copy(&mut self, packet: &Captured) -> bool {
        let Some(tcp) = &packet.header.tcp else { return false };
        let print = print(&packet.header, tcp);
        let own = print as usize & (REMEMBERED - 1);
        // A packet has two slots: it takes the one that has it already, or else the older, so that what waits in a
        // queue is not forgotten by chance.
        let (a, b) = (self.slots[own], self.slots[own ^ 1]);
        let other = a.print != print && (b.print == print || b.at < a.at);
        let slot = if other { own ^ 1 } else { own };
        let before = core::mem::replace(
            &mut self.slots[slot],
            Slot { print, at: packet.at, place: packet.place, ttl: packet.ttl },
        );
        self.segments += u64::from(tcp.payload > 0);
        if before.print != print {
            return false;
        }
        self.is_known(packet, tcp, before, slot)
    }

    /// Tells whether this packet is a copy of the one `before` that has the same print and had this slot.
    #[cold]
    fn is_known(&mut self, packet: &Captured, tcp: &TcpHeader, before: Slot, slot: usize) -> bool {
        let apart = packet.at.since(before.at);
        let elsewhere = before.place != packet.place || before.ttl != packet.ttl;
        let says = tcp.payload > 0 || tcp.flags.has(Flags::SYN) || tcp.flags.has(Flags::FIN);
        let copy = if packet.header.ident.is_some() {
            apart <= if elsewhere { APART } else { NEAR }
        } else if elsewhere {
            // A timestamp moves on until anything is repaired by a timer.
            apart <= if tcp.timestamps.is_some() && says { APART } else { NEAR }
        } else {
            // An acknowledgment may well be a duplicate, unless all is there twice.
            let all = self.twice >= ENOUGH && self.twice * 4 > self.segments;
            apart <= AT_ONCE && (says || all)
        };
        if copy {
            self.left_out += 1;
            self.twice += u64::from(says && !elsewhere);
            // A third copy is measured from the first.
            self.slots[slot] = before;
        }
        copy
    }

    /// Copies so far.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use narrows_units::SeqNum;
    use narrows_wire::{FlowKey, Proto};

    use super::*;

    fn packet(ident: u16, seq: u32, payload: u32, place: u32, ttl: u8) -> Captured {
        let key = FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 80, 4000, Proto::TCP);
        let tcp = TcpHeader { seq: SeqNum(seq), payload, flags: Flags::ACK, ..TcpHeader::default() };
        let ident = core::num::NonZeroU16::new(ident);
        Captured {
            header: Header { key, ident, tcp: Some(tcp), ..Header::default() },
            place,
            ttl,
            ..Captured::default()
        }
    }

    #[test]
    fn copies_by_hand() {
        let ms = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut c = Copies::default();
        let mut sees = |at: u64, p: Captured| c.is_copy(&Captured { at: ms(at), ..p });
        assert!(!sees(0, packet(7, 1000, 100, 1, 64)));
        // Routed, behind a queue; seen a third time at once; then sent again with another identification.
        assert!(sees(900, packet(7, 1000, 100, 2, 63)));
        assert!(sees(901, packet(7, 1000, 100, 3, 62)));
        assert!(!sees(1200, packet(8, 1000, 100, 1, 64)));
        assert!(!sees(9000, packet(8, 1000, 100, 2, 63)), "too long ago");
        // Without an identification: elsewhere at once, and a duplicate acknowledgment at the same place.
        assert!(!sees(20_000, packet(0, 2000, 0, 1, 64)));
        assert!(sees(20_001, packet(0, 2000, 0, 2, 64)));
        assert!(!sees(20_050, packet(0, 2000, 0, 1, 64)), "a duplicate acknowledgment");
        assert!(!sees(20_050, packet(0, 2000, 0, 1, 64)), "also at once");
        assert_eq!(c.left_out(), 3);
    }

    #[test]
    fn where_all_is_there_twice_so_are_acknowledgments() {
        let mut c = Copies::default();
        let mut copies = 0;
        for n in 0..100_u32 {
            for copy in 0..2 {
                let at = Instant::from_nanos(u64::from(n) * 1_000_000 + copy * 5_000);
                let data = Captured { at, ..packet(0, n * 100, 100, 1, 64) };
                copies += u32::from(c.is_copy(&data));
                let ack = Captured { at, ..packet(0, u32::MAX - n, 0, 1, 64) };
                copies += u32::from(c.is_copy(&ack));
            }
        }
        // All data, and acknowledgments but the first few.
        assert!((180..=200).contains(&copies), "{copies}");
    }
}
