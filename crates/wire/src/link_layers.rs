//! Link layers of captures, by their numbers in the registry of draft-ietf-opsawg-pcaplinktype: where what they carry
//! begins.

use crate::layers::{Layer, Step, be16, byte, from, is_ip};
use crate::unopened::Unopened;

/// Next header in a frame of this link layer.
pub(crate) fn behind(link: u32, b: &[u8]) -> Step<'_> {
    match link {
        // BSD's loopback has the family in the machine's byte order, OpenBSD's in the network's.
        0 | 108 => family(b),
        1 => Ok((Layer::Ethernet, b)),
        // Token ring (IEEE 802.5): access and frame control, addresses, the route if the source's first bit is set.
        6 => {
            let route = if byte(b, 8)? & 0x80 == 0 { 0 } else { usize::from(byte(b, 14)? & 0x1f) };
            Ok((Layer::Llc, from(b, 14 + route)?))
        }
        // PPP, that of pppd with a direction in place of the address, and that with a direction before it.
        9 | 50 | 166 | 204 => match b {
            [0 | 1, 3, rest @ ..] if link != 204 => Ok((Layer::Ppp, rest)),
            [0 | 1, 0xff, 3, ..] | [0 | 1, 0x0f | 0x8f, 0, ..] => Ok((Layer::Ppp, &b[1..])),
            _ => Ok((Layer::Ppp, from(b, usize::from(link == 204))?)),
        },
        // FDDI: frame control and addresses; the bits of LLC are set in it (ISO 9314-2).
        10 if byte(b, 0)? & 0x70 == 0x50 => Ok((Layer::Llc, from(b, 13)?)),
        10 => Err(Unopened::Named("FDDI without data")),
        // The IP packet itself. OpenBSD's 12 is a loopback, and its 14 the packet.
        12 | 14 | 101 | 228 | 229 => {
            let at_once = byte(b, 0)? >> 4 >= 4;
            if at_once || link != 12 { Ok((Layer::Ip, b)) } else { family(b) }
        }
        // A session of PPPoE without Ethernet.
        51 => Ok((Layer::Type(0x8864), b)),
        // RFC 2684 over ATM; SunATM has four bytes before it.
        100 | 123 => {
            let b = from(b, if link == 100 { 0 } else { 4 })?;
            if is_ip(b) { Ok((Layer::Ip, b)) } else { Ok((Layer::Llc, b)) }
        }
        104 => Ok((Layer::Type(be16(b, 2)?), from(b, 4)?)),
        205 => Ok((Layer::Type(be16(b, 3)?), from(b, 5)?)),
        105 => Ok((Layer::Radio, b)),
        107 => Ok((Layer::FrameRelay, b)),
        206 => Ok((Layer::FrameRelay, from(b, 1)?)),
        // OpenBSD's IPsec: family, index and flags.
        109 => Ok((Layer::Ip, from(b, 12)?)),
        113 => cooked(b),
        // OpenBSD's packet filter: its own length, filled up to words.
        117 => Ok((Layer::Ip, from(b, usize::from(byte(b, 0)?).next_multiple_of(4))?)),
        // Prism and AVS before 802.11: their length, in the machine's order and in the network's.
        119 => match b {
            [_, _, _, _, len, 0, 0, 0, ..] | [_, _, _, _, 0, 0, 0, len, ..] => {
                Ok((Layer::Radio, from(b, usize::from(*len))?))
            }
            _ => Ok((Layer::Radio, b)),
        },
        163 => Ok((Layer::Radio, from(b, usize::from(be16(b, 6)?))?)),
        // RFC 2625: two addresses of Fibre Channel.
        122 => Ok((Layer::Llc, from(b, 16)?)),
        127 => radiotap(b),
        129..=142 | 178..=181 | 194 | 200 if b.starts_with(b"MGC") => juniper(link, b),
        // Apple's IP over IEEE 1394: two addresses of eight bytes, and a type.
        138 => Ok((Layer::Type(be16(b, 16)?), from(b, 18)?)),
        // DOCSIS: control, parameter, length, extended header if the lowest bit says so, check sequence.
        143 => {
            let control = byte(b, 0)?;
            let extended = if control & 1 == 0 { 0 } else { usize::from(byte(b, 1)?) };
            if control >> 6 == 0 {
                Ok((Layer::Ethernet, from(b, 6 + extended)?))
            } else {
                Err(Unopened::Named("DOCSIS without a frame"))
            }
        }
        // Per-packet information: length and the number of the link layer behind it, always little-endian.
        192 => match b {
            [_, _, low, high, kind @ ..] if kind.len() >= 4 => {
                let number = u32::from_le_bytes([kind[0], kind[1], kind[2], kind[3]]);
                let rest = from(b, usize::from(u16::from_le_bytes([*low, *high])).max(8))?;
                Ok((Layer::Link(number), rest))
            }
            _ => Err(Unopened::Cut),
        },
        197 => record(b),
        239 => netfilter(b),
        // Four bytes of an analyser before the frame; eight of preamble more in the second.
        240 => Ok((Layer::Ethernet, from(b, 4)?)),
        241 => Ok((Layer::Ethernet, from(b, 12)?)),
        242 => infiniband(b),
        // A preamble of eight bytes.
        274 => Ok((Layer::Ethernet, from(b, 8)?)),
        276 => cooked_2(b),
        // Switches' tags of four bytes behind the addresses or before them, and of eight.
        281 | 284 => Ok((Layer::Type(be16(b, 16)?), from(b, 18)?)),
        282 => Ok((Layer::Ethernet, from(b, 4)?)),
        285 => Ok((Layer::Type(be16(b, 20)?), from(b, 22)?)),
        other => Err(Unopened::LinkLayer(other)),
    }
}

/// AF_INET is 2 everywhere; AF_INET6 is 10 on Linux, 24 on NetBSD and OpenBSD, 28 on FreeBSD, 30 on macOS. None of
/// these numbers is another one with its bytes reversed, so both byte orders are accepted.
fn family(b: &[u8]) -> Step<'_> {
    match *b {
        [n, 0, 0, 0, ..] | [0, 0, 0, n, ..] if matches!(n, 2 | 10 | 24 | 28 | 30) => Ok((Layer::Ip, &b[4..])),
        [n, 0, 0, 0, ..] | [0, 0, 0, n, ..] => Err(Unopened::Family(n.into())),
        [a, c, d, e, ..] => Err(Unopened::Family(u32::from_be_bytes([a, c, d, e]))),
        _ => Err(Unopened::Cut),
    }
}

/// Kinds of hardware (linux/if_arp.h) whose protocol is no ethertype.
const ARPHRD_RADIO: u16 = 801;
const ARPHRD_PRISM: u16 = 802;
const ARPHRD_RADIOTAP: u16 = 803;

/// Linux's "cooked" frames: kind of packet, hardware, address, protocol.
fn cooked(b: &[u8]) -> Step<'_> {
    cooked_body(be16(b, 2)?, be16(b, 14)?, from(b, 16)?)
}

/// Their second version: protocol, interface, hardware, kind of packet, address.
fn cooked_2(b: &[u8]) -> Step<'_> {
    cooked_body(be16(b, 8)?, be16(b, 0)?, from(b, 20)?)
}

fn cooked_body(hardware: u16, protocol: u16, body: &[u8]) -> Step<'_> {
    match (hardware, protocol) {
        (ARPHRD_RADIO, _) => Ok((Layer::Radio, body)),
        (ARPHRD_PRISM, _) => Ok((Layer::Link(119), body)),
        (ARPHRD_RADIOTAP, _) => Ok((Layer::Link(127), body)),
        // Numbers below an ethertype are Linux's own (linux/if_ether.h): 4 is LLC, 8 PPP; zero and 3 say nothing.
        (_, 4) => Ok((Layer::Llc, body)),
        (_, 7 | 8) => Ok((Layer::Ppp, body)),
        (_, 0 | 3) if is_ip(body) => Ok((Layer::Ip, body)),
        (_, own @ ..0x0600) => Err(Unopened::Ethertype(own)),
        (_, kind) => Ok((Layer::Type(kind), body)),
    }
}

/// Radiotap: version, its length in little-endian, and words that say which fields follow. Only the flags matter: bit
/// 0x20 is that the header of 802.11 is filled up to words.
fn radiotap(b: &[u8]) -> Step<'_> {
    let [_, _, low, high, ..] = *b else { return Err(Unopened::Cut) };
    let len = usize::from(u16::from_le_bytes([low, high]));
    let (mut words, present) = (1, byte(b, 4)?);
    while byte(b, 4 * words + 3)? & 0x80 != 0 {
        words += 1;
    }
    // The first field, a time, is one of eight bytes and stands at a multiple of them.
    let mut at = 4 + 4 * words;
    if present & 1 != 0 {
        at = at.next_multiple_of(8) + 8;
    }
    let padded = present & 2 != 0 && byte(b, at)? & 0x20 != 0;
    Ok((if padded { Layer::PaddedRadio } else { Layer::Radio }, from(b, len)?))
}

/// Juniper's: "MGC", flags, extensions with their length if bit 0x80 says so; bit 0x02 is that the link layer is left
/// out, with the protocol in four bytes of little-endian before the packet.
fn juniper(link: u32, b: &[u8]) -> Step<'_> {
    let flags = byte(b, 3)?;
    let len = if flags & 0x80 == 0 { 4 } else { 6 + usize::from(be16(b, 4)?) };
    let body = from(b, len)?;
    if flags & 2 != 0 {
        return match body.get(4..) {
            Some(packet) if is_ip(packet) => Ok((Layer::Ip, packet)),
            _ => Err(Unopened::LinkLayer(link)),
        };
    }
    match link {
        178 => Ok((Layer::Ethernet, body)),
        179 => Ok((Layer::Ppp, body)),
        180 => Ok((Layer::FrameRelay, body)),
        181 => Ok((Layer::Ppp, body)),
        _ if is_ip(body) => Ok((Layer::Ip, body)),
        _ => Err(Unopened::LinkLayer(link)),
    }
}

/// A record of Endace's ERF: time, kind, flags, lengths; extensions of eight bytes while the highest bit is set.
pub(crate) fn record(b: &[u8]) -> Step<'_> {
    let kind = byte(b, 8)?;
    let mut at = 16;
    let mut more = kind & 0x80 != 0;
    while more {
        more = byte(b, at)? & 0x80 != 0;
        at += 8;
    }
    match kind & 0x7f {
        1 => Ok((Layer::Ppp, from(b, at)?)),
        // Two bytes before the frame: where it begins, and nothing.
        2 | 11 | 16 | 20 => Ok((Layer::Ethernet, from(b, at + 2)?)),
        22 | 23 => Ok((Layer::Ip, from(b, at)?)),
        other => {
            Err(Unopened::Named(if other == 48 { "ERF without a frame" } else { "ERF of another kind" }))
        }
    }
}

/// Netfilter's log: family, version, group; then attributes with length and type in the machine's byte order, filled up
/// to words, of which 9 is the packet.
fn netfilter(b: &[u8]) -> Step<'_> {
    for order in [u16::from_le_bytes, u16::from_be_bytes] {
        let mut rest = from(b, 4)?;
        while let [l0, l1, t0, t1, ..] = *rest {
            let (len, kind) = (usize::from(order([l0, l1])), order([t0, t1]) & 0x7fff);
            if len < 4 {
                break;
            }
            if kind == 9 {
                return Ok((Layer::Ip, &rest[4..]));
            }
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        }
    }
    Err(Unopened::Named("Netfilter's log without a packet"))
}

/// IP over InfiniBand (RFC 4391, section 6): a type and two bytes that are zero, behind a routing header of 40 bytes,
/// an address of 20, or nothing, as the writer has it.
fn infiniband(b: &[u8]) -> Step<'_> {
    for at in [40, 20, 0] {
        if let Some([a, c, 0, 0, first, ..]) = b.get(at..) {
            let kind = u16::from_be_bytes([*a, *c]);
            if matches!((kind, first >> 4), (0x0800, 4) | (0x86dd, 6)) {
                return Ok((Layer::Ip, &b[at + 4..]));
            }
        }
    }
    let kind = be16(b, 40).or_else(|_| be16(b, 0))?;
    Err(Unopened::Ethertype(kind))
}
