//! Finds the packet that a tunnel carries in the clear: IP in IP (RFC 2003, RFC 2473, RFC 4213; so DS-Lite, MAP-E and
//! 6rd), GRE (RFC 2784, RFC 2890), L2TPv2 with PPP (RFC 2661), VXLAN (RFC 7348), Geneve (RFC 8926), GTP-U (3GPP TS
//! 29.281), and labels of MPLS in IP, GRE or UDP (RFC 4023, RFC 7510).
//!
//! A capture's reader wants that packet ([`innermost`]); a queue wants the tunnel's packet, with the flow of what it
//! carries ([`Header::look_inside`]).

use core::num::NonZeroU16;

use crate::frame::{behind_ethertype, behind_labels};
use crate::{FlowKey, Header, Proto, Unreachable, parse};

/// Tunnels within tunnels that we go through.
const DEPTH: usize = 4;

const TCP: u8 = Proto::TCP.0;
const UDP: u8 = Proto::UDP.0;
const IPV4: u8 = 4;
const IPV6: u8 = 41;
const GRE: u8 = 47;
const MPLS: u8 = 137;

const L2TP: u16 = 1701;
const GTP: u16 = 2152;
const VXLAN: u16 = 4789;
const GENEVE: u16 = 6081;
const MPLS_IN_UDP: u16 = 6635;
/// Linux's port of VXLAN from before the RFC.
const OLD_VXLAN: u16 = 8472;

impl Header {
    /// Gives the header of `packet`, of which these bytes are the beginning, the flow of what that carries, if it is a
    /// tunnel's and carries it in the clear: that of the innermost packet, with all that is of TCP, QUIC or ICMP.
    /// Length, ECN, class and identification stay the packet's own.
    ///
    /// The key has the tunnel's addresses, so that the user is whose tunnel it is, and in place of ports a digest of
    /// the inner addresses and ports; what answers it has the reverse. Fragments of the tunnel's packets stay one flow,
    /// and so do tunnels that number their packets: the far end may discard what comes out of order.
    ///
    /// In place, because to copy a header would cost the packets that are no tunnel's.
    #[inline]
    pub fn look_inside(&mut self, packet: &[u8]) {
        if may_carry(&self.key) {
            look_inside(packet, self);
        }
    }
}

/// Whether a packet of this flow may be a tunnel's: TCP is none, nor is UDP between most ports.
#[inline]
const fn may_carry(key: &FlowKey) -> bool {
    match key.proto.0 {
        TCP => false,
        UDP => is_tunnel(key.sport, key.dport),
        other => matches!(other, IPV4 | IPV6 | GRE | MPLS),
    }
}

/// Whether UDP between these ports may be a tunnel's. One end of L2TP may have chosen its own (RFC 2661, section 8.1).
#[inline]
const fn is_tunnel(from: u16, to: u16) -> bool {
    // Most ports lie outside the range, which is quicker to see than that they are none of its six.
    let among = to >= L2TP && to <= OLD_VXLAN;
    from == L2TP || among && matches!(to, L2TP | GTP | VXLAN | GENEVE | MPLS_IN_UDP | OLD_VXLAN)
}

/// Gives `header`, which `packet` has, the flow of what that carries, as far in as it can be trusted and the order of
/// packets is nobody's business.
#[cold]
fn look_inside(packet: &[u8], header: &mut Header) {
    // The digest in place of ports may be those of a tunnel again.
    if header.key.is_in_tunnel() {
        return;
    }
    let mut around = (packet.len(), header.len, header.fragment);
    let mut innermost = None;
    for inner in inside(packet) {
        let (present, len, fragment) = around;
        // A carried packet ends within the one that carries it, also where only the beginning of both is at hand.
        let carried = len.get().saturating_sub((present - inner.packet.len()) as u64);
        if fragment || inner.numbered || inner.header.len.get() > carried {
            break;
        }
        around = (inner.packet.len(), inner.header.len, inner.header.fragment);
        innermost = Some(inner.header);
    }
    let Some(inner) = innermost else { return };
    let refused = inner.refused().map(|flow| flow.within(&header.key));
    let ports = refused.and_then(|flow| NonZeroU16::new(flow.sport).zip(NonZeroU16::new(flow.dport)));
    *header = Header {
        key: inner.key.within(&header.key),
        tcp: inner.tcp,
        quic: inner.quic,
        unreachable: ports.map(|(sport, dport)| Unreachable { sport, dport }),
        ..*header
    };
}

/// The innermost packet, if `packet` is a tunnel's.
#[inline]
pub(crate) fn innermost(packet: &[u8]) -> Option<&[u8]> {
    match packet {
        // TCP over IPv4, or right behind the header of IPv6: nearly all.
        [0x40..=0x4f, _, _, _, _, _, _, _, _, 6, ..] | [0x60..=0x6f, _, _, _, _, _, 6, ..] => None,
        _ => inside(packet).last().map(|inner| inner.packet),
    }
}

/// A packet that another one carries; it reaches to the end of that one's bytes.
struct Inner<'a> {
    packet: &'a [u8],
    header: Header,
    /// Whether the tunnel numbers its packets.
    numbered: bool,
}

/// Packets within packets: the one that `packet` carries, the one that this carries, and so on.
fn inside(packet: &[u8]) -> impl Iterator<Item = Inner<'_>> {
    let mut at = packet;
    (0..DEPTH).map_while(move |_| {
        let Body { packet, numbered } = carried(at)?;
        at = packet;
        Some(Inner { packet, header: parse(packet).ok()?, numbered })
    })
}

/// Where a packet may begin within another.
struct Body<'a> {
    packet: &'a [u8],
    numbered: bool,
}

impl<'a> Body<'a> {
    fn plain(packet: &'a [u8]) -> Self {
        Self { packet, numbered: false }
    }
}

/// Finds the bytes that an IP packet carries, if they may be IP.
fn carried(p: &[u8]) -> Option<Body<'_>> {
    let (proto, at) = match p.first()? >> 4 {
        // A fragment other than the first begins within something.
        4 if be16(p, 6)? & 0x1fff == 0 => (*p.get(9)?, usize::from(p[0] & 0xf) * 4),
        6 => behind_options(p)?,
        _ => return None,
    };
    let body = p.get(at..)?;
    match proto {
        IPV4 | IPV6 => Some(Body::plain(body)),
        GRE => gre(body),
        MPLS => labelled(body).map(Body::plain),
        UDP => udp(body),
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
fn gre(b: &[u8]) -> Option<Body<'_>> {
    let flags = be16(b, 0)?;
    if flags & 0x4007 != 0 {
        return None;
    }
    let words = (flags & 0xb000).count_ones() as usize;
    let packet = of_type(be16(b, 2)?, b.get(4 + 4 * words..)?)?;
    Some(Body { packet, numbered: flags & 0x1000 != 0 })
}

/// IP, IP behind labels (RFC 4023, section 4), or a whole frame (0x6558, transparent Ethernet bridging).
fn of_type(ethertype: u16, body: &[u8]) -> Option<&[u8]> {
    match ethertype {
        0x0800 | 0x86dd => Some(body),
        0x8847 => labelled(body),
        0x6558 => body.get(behind_ethertype(body, 12, 14)?..),
        _ => None,
    }
}

fn labelled(b: &[u8]) -> Option<&[u8]> {
    b.get(behind_labels(b, 0)?..)
}

fn udp(b: &[u8]) -> Option<Body<'_>> {
    let (from, to, body) = (be16(b, 0)?, be16(b, 2)?, b.get(8..)?);
    let packet = match to {
        VXLAN | OLD_VXLAN if *body.first()? == 0x08 => of_type(0x6558, body.get(8..)?)?,
        GENEVE if *body.first()? >> 6 == 0 => {
            of_type(be16(body, 2)?, body.get(8 + usize::from(body[0] & 0x3f) * 4..)?)?
        }
        GTP => gtp(body)?,
        MPLS_IN_UDP => labelled(body)?,
        _ if from == L2TP || to == L2TP => return l2tp(body),
        _ => return None,
    };
    Some(Body::plain(packet))
}

/// Data (T is 0) of version 2: a length (L), numbers (S) and padding (O) are there if their bits say so (RFC 2661,
/// section 3.1). Then a frame of PPP (RFC 1661, RFC 1662): the two bytes ff 03 may be left out, and the first of the
/// protocol's two, if it is zero.
fn l2tp(b: &[u8]) -> Option<Body<'_>> {
    let flags = be16(b, 0)?;
    if flags & 0x800f != 2 {
        return None;
    }
    let mut at = 6 + if flags & 0x4000 == 0 { 0 } else { 2 };
    let numbered = flags & 0x0800 != 0;
    at += if numbered { 4 } else { 0 };
    if flags & 0x0200 != 0 {
        at += 2 + usize::from(be16(b, at)?);
    }
    let frame = b.get(at..)?;
    match frame.strip_prefix(&[0xff, 3]).unwrap_or(frame) {
        [0, 0x21 | 0x57, packet @ ..] | [0x21 | 0x57, packet @ ..] => Some(Body { packet, numbered }),
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
mod tests;
