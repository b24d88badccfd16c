//! Finds the packet that a tunnel carries in the clear: IP in IP (RFC 2003, RFC 4213), GRE (RFC 2784, RFC 2890), VXLAN
//! (RFC 7348), Geneve (RFC 8926) and GTP-U (3GPP TS 29.281).

use super::link::behind_ethertype;
use crate::parse;

/// Tunnels within tunnels that we go through.
const DEPTH: usize = 4;

/// The innermost packet, if `packet` is a tunnel's.
#[inline]
pub(super) fn innermost(packet: &[u8]) -> Option<&[u8]> {
    match packet {
        // TCP over IPv4, or right behind the header of IPv6: nearly all.
        [0x40..=0x4f, _, _, _, _, _, _, _, _, 6, ..] | [0x60..=0x6f, _, _, _, _, _, 6, ..] => None,
        _ => behind_all(packet),
    }
}

fn behind_all(packet: &[u8]) -> Option<&[u8]> {
    let (mut at, mut found) = (packet, None);
    for _ in 0..DEPTH {
        let Some(inner) = carried(at).filter(|inner| parse(inner).is_ok()) else { break };
        (at, found) = (inner, Some(inner));
    }
    found
}

/// What the IP packet carries, if that is IP.
fn carried(p: &[u8]) -> Option<&[u8]> {
    let (proto, at) = match p.first()? >> 4 {
        // A fragment other than the first begins within something.
        4 if be16(p, 6)? & 0x1fff == 0 => (*p.get(9)?, usize::from(p[0] & 0xf) * 4),
        6 => behind_options(p)?,
        _ => return None,
    };
    let body = p.get(at..)?;
    match proto {
        4 | 41 => Some(body),
        47 => gre(body),
        17 => udp(body),
        _ => None,
    }
}

/// Hop-by-hop and destination options and routing headers; Linux puts a limit on nesting into one of them (RFC 2473).
fn behind_options(p: &[u8]) -> Option<(u8, usize)> {
    let (mut next, mut at) = (*p.get(6)?, 40);
    for _ in 0..4 {
        if !matches!(next, 0 | 43 | 60) {
            break;
        }
        let len = (usize::from(*p.get(at + 1)?) + 1) * 8;
        next = *p.get(at)?;
        at += len;
    }
    Some((next, at))
}

/// Version 0, without the source routes of old: a checksum, a key and a sequence number may follow the first word.
fn gre(b: &[u8]) -> Option<&[u8]> {
    let flags = be16(b, 0)?;
    if flags & 0x4007 != 0 {
        return None;
    }
    let words = (flags & 0xb000).count_ones() as usize;
    of_type(be16(b, 2)?, b.get(4 + 4 * words..)?)
}

/// IP, or a whole frame (0x6558, transparent Ethernet bridging).
fn of_type(ethertype: u16, body: &[u8]) -> Option<&[u8]> {
    match ethertype {
        0x0800 | 0x86dd => Some(body),
        0x6558 => body.get(behind_ethertype(body, 12, 14)?..),
        _ => None,
    }
}

fn udp(b: &[u8]) -> Option<&[u8]> {
    let body = b.get(8..)?;
    match be16(b, 2)? {
        // 8472 is Linux's own port from before the RFC.
        4789 | 8472 if *body.first()? == 0x08 => of_type(0x6558, body.get(8..)?),
        6081 if *body.first()? >> 6 == 0 => {
            of_type(be16(body, 2)?, body.get(8 + usize::from(body[0] & 0x3f) * 4..)?)
        }
        2152 => gtp(body),
        _ => None,
    }
}

/// Version 1, a G-PDU (255). Any of three flags brings four more bytes, of which the last is the type of the first
/// extension header; each of these ends in the type of the next, and begins with its length in words.
fn gtp(b: &[u8]) -> Option<&[u8]> {
    let flags = *b.first()?;
    if flags >> 4 != 3 || *b.get(1)? != 255 {
        return None;
    }
    let mut at = if flags & 7 == 0 { 8 } else { 12 };
    let mut next = if flags & 4 == 0 { 0 } else { *b.get(11)? };
    for _ in 0..8 {
        if next == 0 {
            return b.get(at..);
        }
        let len = usize::from(*b.get(at)?) * 4;
        if len == 0 {
            return None;
        }
        at += len;
        next = *b.get(at - 1)?;
    }
    None
}

fn be16(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*b.get(at)?, *b.get(at + 1)?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IPv4 from 10.0.0.1 to 10.0.0.2.
    fn v4(proto: u8, body: &[u8]) -> Vec<u8> {
        let len = 20 + body.len() as u8;
        let head = [0x45, 0, 0, len, 0, 1, 0, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        [&head[..], body].concat()
    }
    fn v6(next: u8, body: &[u8]) -> Vec<u8> {
        let head = [0x60, 0, 0, 0, 0, body.len() as u8, next, 64];
        [&head[..], &[1; 16], &[2; 16], body].concat()
    }
    fn udp_to(port: u16, body: &[u8]) -> Vec<u8> {
        let [a, b] = port.to_be_bytes();
        v4(17, &[&[0x30, 0x39, a, b, 0, 8 + body.len() as u8, 0, 0], body].concat())
    }
    fn frame(packet: &[u8]) -> Vec<u8> {
        [&[0; 12][..], &[0x08, 0x00], packet].concat()
    }

    #[test]
    fn each_tunnel_by_hand() {
        let inner = v4(6, &[0; 20]);
        let inner6 = v6(6, &[0; 20]);
        let with = |head: &[u8], packet: &[u8]| [head, packet].concat();
        for (what, packet, expected) in [
            ("IP in IP", v4(4, &inner), &inner),
            ("6in4", v4(41, &inner6), &inner6),
            ("IP in IPv6 behind Linux's limit", v6(60, &with(&[4, 0, 4, 1, 4, 1, 0, 0], &inner)), &inner),
            ("GRE", v4(47, &with(&[0, 0, 8, 0], &inner)), &inner),
            (
                "GRE with key and sequence",
                v4(47, &with(&[0x30, 0, 8, 0, 0, 0, 0, 7, 0, 0, 0, 1], &inner)),
                &inner,
            ),
            ("GRE with a frame", v4(47, &with(&[0, 0, 0x65, 0x58], &frame(&inner))), &inner),
            ("VXLAN", udp_to(4789, &with(&[8, 0, 0, 0, 0, 0, 42, 0], &frame(&inner))), &inner),
            (
                "Geneve with an option",
                udp_to(6081, &with(&[1, 0, 0x65, 0x58, 0, 0, 1, 0, 9, 9, 9, 9], &frame(&inner))),
                &inner,
            ),
            ("GTP-U", udp_to(2152, &with(&[0x30, 255, 0, 40, 0, 0, 0, 5], &inner)), &inner),
            (
                "GTP-U of 5G",
                udp_to(2152, &with(&[0x34, 255, 0, 48, 0, 0, 0, 5, 0, 0, 0, 0x85, 1, 0, 9, 0], &inner)),
                &inner,
            ),
            (
                "GRE in VXLAN",
                udp_to(
                    4789,
                    &with(&[8, 0, 0, 0, 0, 0, 42, 0], &frame(&v4(47, &with(&[0, 0, 8, 0], &inner)))),
                ),
                &inner,
            ),
        ] {
            assert_eq!(innermost(&packet), Some(&expected[..]), "{what}");
            for cut in 0..packet.len() {
                let _ = innermost(&packet[..cut]);
            }
        }
    }

    #[test]
    fn what_is_no_tunnel() {
        let inner = v4(6, &[0; 20]);
        let mut later = v4(4, &inner);
        later[7] = 1;
        for (what, packet) in [
            ("TCP", inner.clone()),
            ("a later fragment", later),
            ("PPTP", v4(47, &[&[0x20, 1, 0x88, 0x0b, 0, 0, 0, 0][..], &inner].concat())),
            ("UDP to another port", udp_to(4788, &[8; 60])),
            ("GTP-U's echo request", udp_to(2152, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0])),
            ("something else on VXLAN's port", udp_to(4789, &[0x77; 60])),
            ("no IP within", v4(4, &[0x99; 30])),
        ] {
            assert_eq!(innermost(&packet), None, "{what}");
        }
    }
}
