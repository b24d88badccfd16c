//! Reads a [`Header`] from bytes.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::num::NonZeroU16;

use narrows_units::{Bytes, Dscp, Ecn, SeqNum};

use crate::upper::{ESP, Extension, Extensions, FRAGMENT, Upper, is_seal};
use crate::{Flags, FlowKey, Header, Proto, QuicPacket, TcpHeader, Unreachable};

/// Reason why bytes are not an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// Fewer bytes than the header needs.
    Truncated,
    /// The version nibble is neither 4 nor 6.
    Version(u8),
    /// A length field contradicts another.
    Length,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the packet ends inside its header"),
            Self::Version(v) => write!(f, "IP version {v}: expected 4 or 6"),
            Self::Length => f.write_str("the length fields contradict each other"),
        }
    }
}
impl std::error::Error for WireError {}

/// Reads the headers of an IP packet. `bytes` may be only its beginning (a capture's snap length, or NFQUEUE's copy
/// range), because lengths come from the headers. If the TCP header is cut off or malformed, `tcp` is `None`; such a
/// packet can still be queued.
///
/// # Errors
/// If the IP header is incomplete or contradicts itself.
pub fn parse(bytes: &[u8]) -> Result<Header, WireError> {
    // In the place of what is returned: to move a header costs a tenth of what it costs to read it.
    let mut read = Ok(Header::default());
    if let Ok(header) = &mut read
        && let Err(why) = parse_as::<false>(bytes, 0, header)
    {
        read = Err(why);
    }
    read
}

/// Reads the headers of a captured IP packet, of which at most `wire` bytes were in its frame: where segmentation
/// offload left the length field at zero, that is the length. A TCP header is read up to where the capture cut it
/// ([`TcpHeader::cut`]), from 16 bytes on, and also behind headers that authenticate (RFC 4302) and in ESP that
/// encrypts nothing.
///
/// # Errors
/// If the IP header is incomplete or contradicts itself.
#[inline]
pub(crate) fn parse_captured(bytes: &[u8], wire: usize, to: &mut Header) -> Result<(), WireError> {
    parse_as::<true>(bytes, wire, to)
}

/// In place, because to move a header costs a good part of what it costs to read it.
#[inline]
fn parse_as<const CAPTURED: bool>(bytes: &[u8], wire: usize, to: &mut Header) -> Result<(), WireError> {
    match bytes.first().ok_or(WireError::Truncated)? >> 4 {
        4 => parse_v4::<CAPTURED>(bytes, wire, to),
        6 => parse_v6::<CAPTURED>(bytes, wire, to),
        v => Err(WireError::Version(v)),
    }
}

pub(crate) fn be16(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(b.get(at..at + 2)?.try_into().ok()?))
}
fn be32(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(b.get(at..at + 4)?.try_into().ok()?))
}

fn parse_v4<const CAPTURED: bool>(b: &[u8], wire: usize, to: &mut Header) -> Result<(), WireError> {
    let header_len = usize::from(b[0] & 0xf) * 4;
    if header_len < 20 {
        return Err(WireError::Length);
    }
    let fixed = b.get(..header_len).ok_or(WireError::Truncated)?;
    let mut total = usize::from(be16(fixed, 2).ok_or(WireError::Truncated)?);
    if CAPTURED && total == 0 {
        total = wire;
    }
    if total < header_len {
        return Err(WireError::Length);
    }
    let frag = be16(fixed, 6).ok_or(WireError::Truncated)?;
    // More fragments, or an offset above zero (RFC 791, section 3.1).
    let (fragment, later) = (frag & 0x3fff != 0, frag & 0x1fff != 0);
    let addr = |at: usize| IpAddr::V4(Ipv4Addr::new(fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]));
    let mut transport = if later { &[][..] } else { b.get(header_len..total.min(b.len())).unwrap_or(&[]) };
    let (mut proto, mut transport_len) = (fixed[9], total - header_len);
    if CAPTURED && is_seal(proto) {
        (proto, transport, transport_len) = unsealed(proto, transport, transport_len);
    }
    finish::<CAPTURED>(
        Proto(proto),
        addr(12),
        addr(16),
        transport,
        Envelope {
            total,
            transport_len,
            tos: fixed[1],
            ident: be16(fixed, 4).and_then(NonZeroU16::new),
            fragment,
        },
        to,
    );
    Ok(())
}

fn parse_v6<const CAPTURED: bool>(b: &[u8], wire: usize, to: &mut Header) -> Result<(), WireError> {
    let fixed = b.get(..40).ok_or(WireError::Truncated)?;
    let mut total = 40 + usize::from(be16(fixed, 4).ok_or(WireError::Truncated)?);
    if CAPTURED && total == 40 && matches!(fixed[6], 0 | 6 | 17) {
        // Zero is right for a packet without payload, and where a hop-by-hop option has the length (RFC 2675).
        total = jumbo(b).unwrap_or(wire.max(40));
    }
    let addr = |at: usize| {
        let mut o = [0; 16];
        o.copy_from_slice(&fixed[at..at + 16]);
        IpAddr::V6(Ipv6Addr::from(o))
    };
    let tos = (fixed[0] << 4) | (fixed[1] >> 4);
    let (mut fragment, mut later, mut ident) = (false, false, None);
    let mut headers = Extensions::of(b).ok_or(WireError::Truncated)?;
    while let Some(Extension { kind, at }) = headers.step() {
        if kind == FRAGMENT {
            let offset = be16(b, at + 2).unwrap_or(0);
            ident = be16(b, at + 6).and_then(NonZeroU16::new);
            fragment |= offset & 0xfff9 != 0;
            later |= offset & 0xfff8 != 0;
        }
    }
    let Extensions { mut next, at, .. } = headers;
    if at > total {
        return Err(WireError::Length);
    }
    let mut transport = if later { &[][..] } else { b.get(at..total.min(b.len())).unwrap_or(&[]) };
    let mut transport_len = total - at;
    if CAPTURED && is_seal(next) {
        (next, transport, transport_len) = unsealed(next, transport, transport_len);
    }
    finish::<CAPTURED>(
        Proto(next),
        addr(8),
        addr(24),
        transport,
        Envelope { total, transport_len, tos, ident: ident.filter(|_| fragment), fragment },
        to,
    );
    Ok(())
}

/// Length of a jumbogram with its header: the option stands first among those of the hop-by-hop header (RFC 2675,
/// section 2), as every sender puts it.
fn jumbo(b: &[u8]) -> Option<usize> {
    match (b.get(6)?, b.get(42..48)?) {
        (0, [0xc2, 4, length @ ..]) => Some(40 + be32(length, 0)? as usize),
        _ => None,
    }
}

/// Protocol, bytes and length of what stands behind headers that authenticate or say that ESP encrypts nothing, or in
/// ESP in which TCP shows (RFC 5879, section 8).
#[cold]
fn unsealed(proto: u8, b: &[u8], len: usize) -> (u8, &[u8], usize) {
    let seal = Upper { proto, at: 0 };
    let Upper { proto, at } = seal.behind_seals(b).unwrap_or(seal);
    let (b, len) = (&b[at..], len.saturating_sub(at));
    let tcp = if proto == ESP { b.get(..len).and_then(tcp_in_esp) } else { None };
    tcp.map_or((proto, b, len), |tcp| (Proto::TCP.0, tcp, tcp.len()))
}

/// TCP in ESP without encryption, whole up to its trailer: filling that counts up from one, its length, and the number
/// of TCP, before what authenticates.
fn tcp_in_esp(b: &[u8]) -> Option<&[u8]> {
    for authentic in [12, 16, 8, 24, 32, 0] {
        let (rest, trailer) = b.split_at_checked(b.len().checked_sub(authentic + 2)?)?;
        let filling = usize::from(trailer[0]);
        let Some(body) = rest.len().checked_sub(filling).and_then(|end| rest.get(8..end)) else { continue };
        let counts = rest[rest.len() - filling..].iter().zip(1_u8..).all(|(byte, n)| *byte == n);
        let header = usize::from(*body.get(12)? >> 4) * 4;
        if trailer[1] == 6 && counts && header >= 20 && header <= body.len() && body[12] & 0x0e == 0 {
            return Some(body);
        }
    }
    None
}

struct Envelope {
    total: usize,
    transport_len: usize,
    tos: u8,
    ident: Option<NonZeroU16>,
    fragment: bool,
}

#[inline]
fn finish<const CAPTURED: bool>(
    proto: Proto,
    src: IpAddr,
    dst: IpAddr,
    transport: &[u8],
    e: Envelope,
    to: &mut Header,
) {
    let ports = matches!(proto, Proto::TCP | Proto::UDP);
    let port = |at| if ports { be16(transport, at).unwrap_or(0) } else { 0 };
    // Later fragments carry no ports, so all fragments of a flow have the key without ports.
    let (sport, dport) = if e.fragment { (0, 0) } else { (port(0), port(2)) };
    to.tcp = if proto == Proto::TCP && !e.fragment {
        parse_tcp::<CAPTURED>(transport, e.transport_len)
    } else {
        None
    };
    let udp = proto == Proto::UDP && !e.fragment && be16(transport, 4).is_some_and(|n| n > 8);
    to.key = FlowKey::new(src, dst, sport, dport, proto);
    let says = matches!(proto, Proto::ICMP | Proto::ICMPV6) && !e.fragment;
    to.unreachable = if says { parse_icmp(&to.key, transport) } else { None };
    to.quic = if udp { transport.get(8..).and_then(QuicPacket::read) } else { None };
    to.len = Bytes(e.total as u64);
    to.ecn = Ecn::from_bits(e.tos);
    to.dscp = Dscp::from_bits(e.tos);
    to.ident = e.ident;
    to.fragment = e.fragment;
}

/// Port unreachable (RFC 792: type 3, code 3; RFC 4443, section 3.1: type 1, code 4) about a datagram that went to the
/// message's sender and came from its receiver. What others say of a host is not read.
fn parse_icmp(key: &FlowKey, b: &[u8]) -> Option<Unreachable> {
    let expected = match key.proto {
        Proto::ICMP => [3, 3],
        Proto::ICMPV6 => [1, 4],
        _ => return None,
    };
    if *b.first_chunk()? != expected {
        return None;
    }
    // The datagram that was refused, as far as it fits, with its IP header. Only UDP is read, so nothing deeper.
    let inner = b.get(8..)?;
    let proto = *inner.get(if *inner.first()? >> 4 == 4 { 9 } else { 6 })?;
    let inner = if Proto(proto) == Proto::UDP { parse(inner).ok()? } else { return None };
    if inner.fragment {
        return None;
    }
    let (sport, dport) = (NonZeroU16::new(inner.key.sport)?, NonZeroU16::new(inner.key.dport)?);
    (inner.key.with(key.proto, 0, 0) == key.reverse()).then_some(Unreachable { sport, dport })
}

/// The least of a TCP header that tells which segment it is: ports, numbers, flags and window.
const LEAST_TCP: usize = 16;

#[inline]
fn parse_tcp<const CAPTURED: bool>(b: &[u8], segment_len: usize) -> Option<TcpHeader> {
    let header_len = usize::from(*b.get(12)? >> 4) * 4;
    let cut = b.len() < header_len;
    if header_len < 20 || header_len > segment_len || cut && !(CAPTURED && b.len() >= LEAST_TCP) {
        return None;
    }
    let fixed: &[u8; LEAST_TCP] = b.first_chunk()?;
    let mut tcp = TcpHeader {
        seq: SeqNum(be32(fixed, 4)?),
        ack: SeqNum(be32(fixed, 8)?),
        flags: Flags(fixed[13]),
        window: be16(fixed, 14)?,
        payload: u32::try_from(segment_len - header_len).ok()?,
        // Four reserved bits, of which AccECN uses one.
        beyond: fixed[12] & 0xf != 0,
        cut,
        ..TcpHeader::default()
    };
    let options = b.get(20..header_len.min(b.len())).unwrap_or(&[]);
    // RFC 7323, appendix A: nearly all segments have this and no more.
    if let [1, 1, 8, 10, stamps @ ..] = options
        && stamps.len() == 8
    {
        tcp.timestamps = be32(stamps, 0).zip(be32(stamps, 4));
    } else if !options.is_empty() {
        read_options(options, &mut tcp);
    }
    Some(tcp)
}

/// RFC 9293, section 3.2: end (0), no-op (1), or a kind and a length. We stop at a length that does not fit.
fn read_options(mut o: &[u8], tcp: &mut TcpHeader) {
    while let [kind, rest @ ..] = o {
        match kind {
            0 => return,
            1 => o = rest,
            _ => {
                let len = usize::from(*rest.first().unwrap_or(&0));
                let Some(body) = o.get(2..len) else {
                    tcp.beyond = true;
                    // Blocks before the cut are there.
                    if let (true, 5, Some(blocks)) = (tcp.cut, kind, o.get(2..)) {
                        read_blocks(blocks, tcp);
                    }
                    return;
                };
                match (kind, body.len()) {
                    (2, 2) => tcp.mss = be16(body, 0),
                    (3, 1) => tcp.window_scale = Some(body[0].min(14)),
                    (5, n) if n % 8 == 0 => read_blocks(body, tcp),
                    // The first of two timestamps counts, because `set_tsval` changes that one.
                    (8, 8) if tcp.timestamps.is_none() => tcp.timestamps = be32(body, 0).zip(be32(body, 4)),
                    _ => tcp.beyond = true,
                }
                o = &o[len..];
            }
        }
    }
}

/// Selective acknowledgments (RFC 2018, section 3), those that are whole.
fn read_blocks(body: &[u8], tcp: &mut TcpHeader) {
    for block in body.chunks_exact(8) {
        if let (Some(l), Some(r)) = (be32(block, 0), be32(block, 4)) {
            tcp.sack.push(SeqNum(l), SeqNum(r));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A SYN as Linux sends it, written out by hand: 20 B of IPv4, 40 B of TCP.
    pub(crate) const SYN: [u8; 60] = [
        0x45, 0x02, 0, 60, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, // ECT(0)
        0x9c, 0x40, 0, 80, 0, 0, 0, 7, 0, 0, 0, 0, 0xa0, 0x02, 0xfa, 0xf0, 0, 0, 0,
        0, // SYN, window 64240
        2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7,
    ];

    #[test]
    fn a_syn_by_hand() {
        let h = parse(&SYN).unwrap();
        let t = h.tcp.unwrap();
        assert_eq!(h.key.to_string(), "tcp 10.0.0.1:40000 > 10.0.0.2:80");
        assert_eq!((h.len, h.ecn, h.ident), (Bytes(60), Ecn::Ect0, NonZeroU16::new(1)));
        assert_eq!((t.seq, t.flags, t.window, t.payload), (SeqNum(7), Flags::SYN, 64240, 0));
        assert_eq!((t.mss, t.window_scale, t.timestamps), (Some(1460), Some(7), Some((9, 0))));
        assert_eq!(t.seq_end(), SeqNum(8));
    }

    #[test]
    fn what_is_not_read_is_noted() {
        let beyond = |reserved: u8, options: &[u8]| {
            let mut b = SYN;
            b[32] |= reserved;
            b[33] = Flags::ACK.0;
            b[40..].fill(1);
            b[40..40 + options.len()].copy_from_slice(options);
            parse(&b).unwrap().tcp.unwrap().beyond
        };
        let stamps = [8, 10, 0, 0, 0, 9, 0, 0, 0, 8];
        let block = [5, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        assert!(!beyond(0, &[]) && !beyond(0, &stamps) && !beyond(0, &block) && !beyond(0, &[1, 1, 0, 77]));
        // RFC 9768's AE; MPTCP (30), SACK-permitted, an option cut short, and a second one of a kind.
        assert!(beyond(1, &[]) && beyond(0, &[30, 4, 0, 0]) && beyond(0, &[4, 2]) && beyond(0, &[30, 40]));
        assert!(beyond(0, &[30, 1]) && beyond(0, &[&stamps[..], &stamps].concat()) && beyond(0, &[5, 9]));
    }

    #[test]
    fn every_cut_is_an_error_or_a_header() {
        for n in 0..SYN.len() {
            match parse(&SYN[..n]) {
                Err(e) => assert!(n < 20, "{n}: {e}"),
                Ok(h) => assert!(h.tcp.is_none(), "{n}: a cut TCP header must not be read"),
            }
        }
    }

    fn captured(bytes: &[u8], wire: usize) -> Header {
        let mut header = Header::default();
        parse_captured(bytes, wire, &mut header).unwrap();
        header
    }

    #[test]
    fn a_captured_header_is_read_up_to_the_cut() {
        for n in 36..SYN.len() {
            let tcp = captured(&SYN[..n], 60).tcp.unwrap();
            assert_eq!(
                (tcp.seq, tcp.flags, tcp.window, tcp.cut),
                (SeqNum(7), Flags::SYN, 64240, true),
                "{n}"
            );
            // The MSS option ends at byte 44, the timestamps at 56.
            assert_eq!((tcp.mss.is_some(), tcp.timestamps.is_some()), (n >= 44, n >= 56), "{n}");
        }
        assert!((20..36).all(|n| captured(&SYN[..n], 60).tcp.is_none()));
        assert!(!captured(&SYN, 60).tcp.unwrap().cut);
        // Two blocks of SACK, of which the second is cut (RFC 2018, section 3).
        let mut ack = SYN;
        ack[33] = Flags::ACK.0;
        ack[40..60].copy_from_slice(&[1, 1, 5, 18, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]);
        assert_eq!(captured(&ack, 60).tcp.unwrap().sack.len(), 2);
        let cut = captured(&ack[..58], 60).tcp.unwrap();
        assert_eq!((cut.sack.as_slice(), cut.cut), (&[(SeqNum(1), SeqNum(2))][..], true));
    }

    /// RFC 2675, section 2: a payload length of zero, and an option of six bytes with the true one.
    #[test]
    fn a_jumbogram_has_its_length() {
        let mut b = vec![0x60, 0, 0, 0, 0, 0, 0, 64];
        b.extend([0x20; 32]);
        b.extend([6, 0, 0xc2, 4, 0, 3, 0, 0]);
        b.extend(&SYN[20..]);
        let header = captured(&b, 1000);
        assert_eq!((header.len, header.tcp.unwrap().payload), (Bytes(40 + 196_608), 196_608 - 8 - 40));
        // Without the option the length is that of the frame.
        let mut plain = vec![0x60, 0, 0, 0, 0, 0, 6, 64];
        plain.extend([0x20; 32]);
        plain.extend(&SYN[20..]);
        assert_eq!(captured(&plain, 100_080).tcp.unwrap().payload, 100_000);
        let mut four = SYN;
        four[2..4].fill(0);
        assert_eq!(captured(&four, 100_060).tcp.unwrap().payload, 100_000);
        assert_eq!(parse(&four), Err(WireError::Length), "a queue knows no frame");
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let with = |at: usize, v: u8| {
            let mut b = SYN;
            b[at] = v;
            parse(&b)
        };
        assert_eq!(with(0, 0x44), Err(WireError::Length));
        assert_eq!(with(3, 19), Err(WireError::Length));
        assert_eq!(with(0, 0x55), Err(WireError::Version(5)));
        assert_eq!(with(32, 0xf0).map(|h| h.tcp), Ok(None), "data offset beyond the segment");
        assert_eq!(
            with(41, 200).map(|h| h.tcp.map(|t| t.mss)),
            Ok(Some(None)),
            "an option that runs over the end"
        );
    }

    #[test]
    fn a_port_unreachable_by_hand() {
        // RFC 792: type 3, code 3, and the header of the datagram with 8 bytes of it: 10.0.0.1:443 to 10.0.0.2:40000.
        let said = |kind: u8, code: u8, of: u8| {
            let mut b = vec![0x45, 0xc0, 0, 56, 0, 1, 0, 0, 64, 1, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1];
            b.extend([kind, code, 0, 0, 0, 0, 0, 0]);
            b.extend([0x45, 0, 0x05, 0, 0, 7, 0x40, 0, 60, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, of]);
            b.extend([0x01, 0xbb, 0x9c, 0x40, 0x04, 0xec, 0, 0]);
            b
        };
        let h = parse(&said(3, 3, 2)).unwrap();
        assert_eq!(h.refused().unwrap().to_string(), "udp 10.0.0.1:443 > 10.0.0.2:40000");
        assert_eq!((h.key.sport, h.key.dport, h.key.proto), (0, 0, Proto::ICMP));
        // Fragmentation needed, an echo request, and what a host says of another.
        for (kind, code, of) in [(3, 4, 2), (8, 0, 2), (3, 3, 9)] {
            assert_eq!(parse(&said(kind, code, of)).unwrap().refused(), None, "{kind} {code} {of}");
        }
        for cut in 20..56 {
            let h = parse(&said(3, 3, 2)[..cut]).unwrap();
            assert!(h.refused().is_none() || cut >= 52, "{cut}: without both ports");
        }
    }

    #[test]
    fn a_port_unreachable_of_ipv6() {
        let ends = |b: &mut Vec<u8>, from: u8, to: u8| {
            b.extend([[from; 16], [to; 16]].concat());
        };
        let mut b = vec![0x60, 0, 0, 0, 0, 56, 58, 64];
        ends(&mut b, 0x22, 0x21);
        b.extend([1, 4, 0, 0, 0, 0, 0, 0, 0x60, 0, 0, 0, 0x04, 0xd8, 17, 60]);
        ends(&mut b, 0x21, 0x22);
        b.extend([0x01, 0xbb, 0x9c, 0x40, 0x04, 0xd8, 0, 0]);
        let refused = parse(&b).unwrap().refused().unwrap();
        assert_eq!((refused.sport, refused.dport, refused.src()), (443, 40_000, IpAddr::from([0x21; 16])));
        // RFC 4443: code 0 is that there is no route.
        b[41] = 0;
        assert_eq!(parse(&b).unwrap().refused(), None);
    }

    #[test]
    fn fragments_keep_one_key() {
        let mut first = SYN;
        first[6] = 0x20;
        let mut later = SYN;
        later[7] = 0x10;
        let (a, b) = (parse(&first).unwrap(), parse(&later).unwrap());
        assert_eq!(a.key, b.key);
        assert!(a.fragment && b.fragment && a.tcp.is_none());
    }

    /// RFC 8200, section 4.5: next header, reserved, offset in units of 8 bytes and "more", identification.
    #[test]
    fn fragments_of_ipv6_name_their_datagram() {
        let with = |offset: u16| {
            let mut b = vec![0x60, 0, 0, 0, 0, 16, 44, 64];
            b.extend([0x20; 32]);
            b.extend(
                [&[17, 0][..], &offset.to_be_bytes(), &[0, 1, 0x12, 0x34], &[0, 53, 0, 99, 0, 8, 0, 0]]
                    .concat(),
            );
            parse(&b).unwrap()
        };
        for offset in [1, 185 << 3 | 1, 370 << 3] {
            let h = with(offset);
            assert!(h.fragment && h.key.sport == 0, "{offset}");
            assert_eq!(h.ident.map(NonZeroU16::get), Some(0x1234));
        }
        assert_eq!(
            (with(0).fragment, with(0).ident),
            (false, None),
            "an atomic fragment is whole (RFC 6946)"
        );
    }

    #[test]
    fn ipv6_behind_extension_headers() {
        let mut b = vec![0x60, 0x20, 0, 0, 0, 28, 0, 64];
        b.extend([0x20; 16]);
        b.extend([0x21; 16]);
        b.extend([6, 0, 0, 0, 0, 0, 0, 0]); // hop-by-hop, 8 bytes, then TCP
        b.extend([0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0x50, 0x10, 0, 9, 0, 0, 0, 0]);
        let h = parse(&b).unwrap();
        assert_eq!((h.ecn, h.len), (Ecn::Ect0, Bytes(68)));
        assert!(h.tcp.unwrap().is_pure_ack());
        assert_eq!((h.key.sport, h.key.dport), (1, 2));
    }
}
