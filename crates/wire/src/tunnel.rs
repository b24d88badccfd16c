//! Finds the packet that a tunnel carries in the clear: IP in IP (RFC 2003, RFC 2473, RFC 4213; so DS-Lite, MAP-E and
//! 6rd), GRE (RFC 1701, RFC 2784, RFC 2890) with PPTP (RFC 2637) and ERSPAN (draft-foschiano-erspan), L2TP (RFC 2661,
//! RFC 3931), VXLAN (RFC 7348) and its GPE, Geneve (RFC 8926), GTP-U (3GPP TS 29.281), labels of MPLS in IP, GRE or UDP
//! (RFC 4023, RFC 7510), and what the functions below name.
//!
//! A capture's reader wants that packet ([`carried`], again and again); a queue wants the tunnel's packet, with the
//! flow of what it carries ([`Header::look_inside`]).

use core::num::NonZeroU16;

use crate::layers::{Layer, TYPE_PPP, be16, byte, from, is_ethernet, is_ip, is_ppp, numbered, walk};
use crate::unopened::Unopened;
use crate::upper::{ESP, Upper, WRAPPED_ESP};
use crate::{FlowKey, Header, Proto, Unreachable, checksum, parse};

/// Tunnels within tunnels that are gone through.
pub(crate) const DEPTH: usize = 8;

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
const VXLAN_GPE: u16 = 4790;
const GRE_IN_UDP: u16 = 4754;
const LISP: u16 = 4341;
const GUE: u16 = 6080;
const TEREDO: u16 = 3544;
const AYIYA: u16 = 5072;
const CAPWAP: u16 = 5247;
const NAT_TRAVERSAL: u16 = 4500;
const WIREGUARD: u16 = 51_820;
const OPENVPN: u16 = 1194;
/// TaZmen's sniffer protocol, by which access points and routers send what they hear.
const TZSP: u16 = 37_008;

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

/// Whether a packet is TCP over IPv4, or right behind the header of IPv6: nearly all are, and none carries another.
#[inline]
pub(crate) const fn is_plain(packet: &[u8]) -> bool {
    matches!(packet, [0x40..=0x4f, _, _, _, _, _, _, _, _, 6, ..] | [0x60..=0x6f, _, _, _, _, _, 6, ..])
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
        let Body { packet, numbered } = carried(at).ok()??;
        at = packet;
        Some(Inner { packet, header: parse(packet).ok()?, numbered })
    })
}

/// Packet that another one carries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body<'a> {
    /// Bytes from its IP header on.
    pub(crate) packet: &'a [u8],
    /// Whether the tunnel numbers its packets.
    numbered: bool,
}

/// Next header behind that of a tunnel, and whether the tunnel numbers its packets.
type Opened<'a> = Result<Option<(Layer, &'a [u8], bool)>, Unopened>;

fn plain((layer, bytes): (Layer, &[u8])) -> Option<(Layer, &[u8], bool)> {
    Some((layer, bytes, false))
}

/// Finds the packet that this IP packet carries; none if it is no tunnel's. Linux puts a limit on nesting into a
/// destination option before it (RFC 2473, section 4.1.1).
pub(crate) fn carried(p: &[u8]) -> Result<Option<Body<'_>>, Unopened> {
    let Some(Upper { proto, at }) = Upper::of(p)? else { return Ok(None) };
    let body = from(p, at)?;
    let opened = match proto {
        IPV4 | IPV6 | 94 => Some((Layer::Ip, body, false)),
        GRE => gre(body)?,
        MPLS => Some((Layer::Labels, body, false)),
        UDP => udp(body, p)?,
        ESP => esp(body, p)?,
        WRAPPED_ESP => return Err(Unopened::Encrypted("ESP")),
        // EtherIP (RFC 3378), and frames in segment routing (RFC 8986).
        97 => plain((Layer::Ethernet, from(body, 2)?)),
        143 => plain((Layer::Ethernet, body)),
        108 => return Err(Unopened::Named("compressed IP (IPComp)")),
        115 => l2tp_3(body)?,
        _ => None,
    };
    let Some((layer, bytes, numbered)) = opened else { return Ok(None) };
    let packet = walk(layer, bytes)?;
    if !is_ip(packet) {
        return if packet.len() < 8 {
            Err(Unopened::Cut)
        } else {
            Err(Unopened::Named("a tunnel without IP in it"))
        };
    }
    Ok(Some(Body { packet, numbered }))
}

/// GRE: a checksum with an offset, a key, a number and routes may follow the first word (RFC 1701); version 1 is
/// PPTP's, with a length and a call in place of the key and a number that it acknowledges.
fn gre(b: &[u8]) -> Opened<'_> {
    let (flags, kind) = (be16(b, 0)?, be16(b, 2)?);
    let bit = |bit: u16| usize::from(flags & bit != 0);
    let numbered = flags & 0x1000 != 0;
    let mut at = 4;
    match flags & 7 {
        0 => at += 4 * (bit(0xc000) + bit(0x2000) + bit(0x1000)),
        1 if kind != TYPE_PPP => return Ok(None),
        // Without a number it only acknowledges (RFC 2637, section 4.1).
        1 if !numbered || be16(b, 4)? == 0 => return Ok(None),
        1 => return Ok(Some((Layer::Ppp, from(b, 8 + 4 * (bit(0x1000) + bit(0x0080)))?, true))),
        _ => return Err(Unopened::Gre(kind)),
    }
    // Routes: family, offset and length of each, and an empty one at the end.
    for _ in 0..if flags & 0x4000 == 0 { 0 } else { 8 } {
        let (family, len) = (be16(b, at)?, byte(b, at + 3)?);
        at += 4 + usize::from(len);
        if family == 0 && len == 0 {
            break;
        }
    }
    let body = from(b, at)?;
    let (layer, body) = match kind {
        // Type I has no header of its own and no number; II has eight bytes (draft-foschiano-erspan, section 4).
        0x88be if !numbered => (Layer::Ethernet, body),
        0x88be => (Layer::Ethernet, from(body, 8)?),
        // Type III: twelve bytes, eight more if the lowest bit says so; the kind of frame stands in five bits.
        0x22eb => {
            let more = if byte(body, 11)? & 1 == 0 { 0 } else { 8 };
            let frame = from(body, 12 + more)?;
            let kind = be16(body, 10)? >> 10 & 0x1f;
            (if kind == 2 { Layer::Ip } else { Layer::Ethernet }, frame)
        }
        // WCCP's version 2 puts four bytes before the packet.
        0x883e if is_ip(body) => (Layer::Ip, body),
        0x883e => (Layer::Ip, from(body, 4)?),
        // A packet that keeps the tunnel alive.
        0 => return Ok(None),
        ..0x0600 | 0x2001 => return Err(Unopened::Gre(kind)),
        _ => (Layer::Type(kind), body),
    };
    Ok(Some((layer, body, numbered)))
}

/// Tunnels in UDP, by their ports. `packet` is the IP packet, which tells where the datagram ends.
fn udp<'a>(b: &'a [u8], packet: &[u8]) -> Opened<'a> {
    let (source, to) = (be16(b, 0)?, be16(b, 2)?);
    let Some(body) = b.get(8..) else { return Ok(None) };
    let either = |port| source == port || to == port;
    Ok(match to {
        VXLAN | OLD_VXLAN | VXLAN_GPE => vxlan(body, to)?,
        // RFC 8926, section 3.4: version 0, words of options.
        GENEVE if byte(body, 0)? >> 6 == 0 => {
            let options = usize::from(body[0] & 0x3f) * 4;
            plain((Layer::Type(be16(body, 2)?), from(body, 8 + options)?))
        }
        MPLS_IN_UDP => Some((Layer::Labels, body, false)),
        GRE_IN_UDP => gre(body)?,
        TZSP => tzsp(body)?,
        // RFC 9300, section 5.1: eight bytes, then the packet.
        LISP if is_ip(from(body, 8)?) => Some((Layer::Ip, &body[8..], false)),
        GUE => gue(body)?,
        _ if either(GTP) => gtp(body)?,
        _ if either(L2TP) => l2tp(body)?,
        _ if either(TEREDO) => teredo(body)?,
        _ if either(AYIYA) => ayiya(body)?,
        _ if either(CAPWAP) => capwap(body)?,
        _ if either(NAT_TRAVERSAL) => match body {
            // IKE, behind four zeros, and a byte that keeps a translation alive (RFC 3948).
            [0, 0, 0, 0, ..] | [0xff] => None,
            _ => esp(body, packet)?,
        },
        // The kinds of its four messages, with three bytes of zero.
        _ if either(WIREGUARD) && matches!(body, [1..=4, 0, 0, 0, ..]) => {
            return Err(Unopened::Encrypted("WireGuard"));
        }
        _ if either(OPENVPN) => return Err(Unopened::Encrypted("OpenVPN")),
        _ => None,
    })
}

/// RFC 7348, section 5; bit 0x04 is that of the generic protocol extension, which numbers what follows.
fn vxlan(b: &[u8], port: u16) -> Opened<'_> {
    let flags = byte(b, 0)?;
    if flags & 0x08 == 0 || flags & 0x33 != 0 {
        return Ok(None);
    }
    let body = from(b, 8)?;
    let generic = flags & 0x04 != 0 && port != OLD_VXLAN;
    let layer = if generic { numbered(byte(b, 3)?)? } else { Layer::Ethernet };
    Ok(Some((layer, body, false)))
}

/// Data (T is 0) of version 2: a length (L), numbers (S) and padding (O) are there if their bits say so (RFC 2661,
/// section 3.1). Then a frame of PPP. Version 3 has 32 bits for the session (RFC 3931, section 4.1.2.1).
fn l2tp(b: &[u8]) -> Opened<'_> {
    let flags = be16(b, 0)?;
    match flags & 0x800f {
        2 => {}
        3 => return l2tp_3(from(b, 4)?),
        _ => return Ok(None),
    }
    let mut at = 6 + if flags & 0x4000 == 0 { 0 } else { 2 };
    let numbered = flags & 0x0800 != 0;
    at += if numbered { 4 } else { 0 };
    if flags & 0x0200 != 0 {
        at += 2 + usize::from(be16(b, at)?);
    }
    let frame = from(b, at)?;
    // PPP's own protocols carry nothing that would have to be named.
    if is_ppp(frame) { Ok(Some((Layer::Ppp, frame, numbered))) } else { Ok(None) }
}

/// A session, a cookie of four or eight bytes or none, and a word that numbers, or none: only those who set it up know
/// which. What follows must look like a frame of Ethernet, PPP, or Cisco's HDLC, or like IP.
fn l2tp_3(b: &[u8]) -> Opened<'_> {
    // Session 0 is the control connection's.
    if b.get(..4).is_none_or(|session| session == [0; 4]) {
        return Ok(None);
    }
    for at in [4, 8, 12, 16] {
        let body = from(b, at)?;
        if is_ethernet(body) {
            return Ok(Some((Layer::Ethernet, body, true)));
        }
        if is_ppp(body) {
            return Ok(Some((Layer::Ppp, body, true)));
        }
    }
    Err(Unopened::Named("L2TPv3 without a known frame"))
}

/// Version 1, a G-PDU (255). Any of three flags brings four more bytes, of which the last is the type of the first
/// extension header; each of these ends in the type of the next, and begins with its length in words.
fn gtp(b: &[u8]) -> Opened<'_> {
    let flags = byte(b, 0)?;
    if flags >> 4 != 3 || byte(b, 1)? != 255 {
        return Ok(None);
    }
    let mut at = if flags & 7 == 0 { 8 } else { 12 };
    let mut next = if flags & 4 == 0 { 0 } else { byte(b, 11)? };
    for _ in 0..8 {
        if next == 0 {
            let body = from(b, at)?;
            let layer = if is_ip(body) || !is_ethernet(body) { Layer::Ip } else { Layer::Ethernet };
            return Ok(Some((layer, body, false)));
        }
        let len = usize::from(byte(b, at)?) * 4;
        if len == 0 {
            return Ok(None);
        }
        at += len;
        next = byte(b, at - 1)?;
    }
    Ok(None)
}

/// RFC 4380, section 5.1.1: authentication and where the packet came from may stand before it.
fn teredo(mut b: &[u8]) -> Opened<'_> {
    if let [0, 1, client, value, ..] = b {
        b = from(b, 4 + usize::from(*client) + usize::from(*value) + 9)?;
    }
    if let [0, 0, _, _, _, _, _, _, rest @ ..] = b {
        b = rest;
    }
    Ok((b.first().is_some_and(|v| v >> 4 == 6)).then_some((Layer::Ip, b, false)))
}

/// Anything in anything (draft-massar-v6ops-ayiya, section 3): lengths of identity and signature in the first two
/// bytes, the protocol in the fourth.
fn ayiya(b: &[u8]) -> Opened<'_> {
    let [identity, signature, _, next, ..] = *b else { return Err(Unopened::Cut) };
    if !matches!(next, IPV4 | IPV6) {
        return Ok(None);
    }
    let len = 8 + (1_usize << (identity >> 4)) + usize::from(signature >> 4) * 4;
    Ok(Some((Layer::Ip, from(b, len)?, false)))
}

/// TaZmen's sniffer: version 1, a received or a sent frame, its link layer, then tags up to one that ends them.
fn tzsp(b: &[u8]) -> Opened<'_> {
    let [1, 0 | 1, high, low, tags @ ..] = b else { return Ok(None) };
    let layer = match u16::from_be_bytes([*high, *low]) {
        1 => Layer::Ethernet,
        18 => Layer::Radio,
        other => Layer::Link(other.into()),
    };
    let mut rest = tags;
    loop {
        rest = match rest {
            [1, frame @ ..] => return Ok(Some((layer, frame, false))),
            [0, more @ ..] => more,
            [_, len, more @ ..] => from(more, (*len).into())?,
            _ => return Err(Unopened::Cut),
        };
    }
}

/// RFC 5415, section 4.3: kind of preamble, words of the header, whether the frame is the radio's own.
fn capwap(b: &[u8]) -> Opened<'_> {
    let [preamble, first, second, flags, ..] = *b else { return Err(Unopened::Cut) };
    if preamble & 0x0f == 1 {
        return Err(Unopened::Encrypted("CAPWAP's DTLS"));
    }
    // A packet that keeps the tunnel alive.
    if preamble != 0 || flags & 0x08 != 0 {
        return Ok(None);
    }
    if flags & 0x80 != 0 && be16(b, 6)? >> 3 != 0 {
        return Err(Unopened::Named("later fragments of CAPWAP"));
    }
    let frame = from(b, usize::from(first >> 3) * 4)?;
    let native = second & 1 != 0;
    Ok(Some((if native { Layer::Radio } else { Layer::Ethernet }, frame, false)))
}

/// Generic UDP encapsulation (draft-ietf-intarea-gue, section 3): words of options and a protocol, or the packet at
/// once.
fn gue(b: &[u8]) -> Opened<'_> {
    if is_ip(b) && byte(b, 0)? >> 6 == 1 {
        return Ok(Some((Layer::Ip, b, false)));
    }
    let (first, proto) = (byte(b, 0)?, byte(b, 1)?);
    let body = from(b, 4 + usize::from(first & 0x1f) * 4)?;
    match proto {
        _ if first & 0xe0 != 0 => Ok(None),
        IPV4 | IPV6 => Ok(Some((Layer::Ip, body, false))),
        GRE => gre(body),
        MPLS => Ok(Some((Layer::Labels, body, false))),
        143 => Ok(Some((Layer::Ethernet, body, false))),
        _ => Ok(None),
    }
}

/// Encapsulated payload (RFC 4303) that is not encrypted (RFC 2410): behind index and number, and eight bytes more
/// where it is authenticated by GMAC, stands a packet that ends where the trailer begins, at most 255 bytes of filling,
/// two of its own and 32 that authenticate before the end. In IPv4 the header's sum is right besides.
fn esp<'a>(b: &'a [u8], around: &[u8]) -> Opened<'a> {
    let whole = match around.first().map_or(0, |v| v >> 4) {
        4 => usize::from(be16(around, 2)?),
        _ => 40 + usize::from(be16(around, 4)?),
    };
    let whole = whole.saturating_sub(around.len() - b.len());
    for at in [8, 16] {
        let Some(inner) = b.get(at..) else { break };
        let Some(room) = whole.checked_sub(at) else { break };
        let ends = |len: usize| (2..=2 + 255 + 32).contains(&room.saturating_sub(len));
        let plain = match inner {
            [v, _, high, low, ..] if *v >> 4 == 4 => {
                let header = inner.get(..usize::from(*v & 15) * 4);
                let fits = ends(usize::from(u16::from_be_bytes([*high, *low])));
                fits && header.is_some_and(|h| h.len() >= 20 && checksum(h, 0) == 0)
            }
            [v, _, _, _, high, low, ..] if *v >> 4 == 6 => {
                is_ip(inner) && ends(40 + usize::from(u16::from_be_bytes([*high, *low])))
            }
            _ => false,
        };
        if plain {
            return Ok(Some((Layer::Ip, inner, false)));
        }
    }
    Err(Unopened::Encrypted("ESP"))
}

#[cfg(test)]
mod tests;
