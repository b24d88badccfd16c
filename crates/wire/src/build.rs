//! Turns a [`Header`] into bytes, the inverse of [`parse`](crate::parse), so that simulated packets can be captured.
//!
//! Options are padded as Linux pads them (MSS; NOP NOP timestamps; NOP window scale; NOP NOP SACK), so that headers
//! have the usual lengths. The payload is zeros. A field that [`Header`] lacks gets its most common value: TTL 64, no
//! flow label, don't-fragment on IPv4.
//!
//! A header may contradict itself: a simulator may say 40 bytes for a segment with timestamps. The packet never does.
//! A built packet is as long as its headers and payload, and follows `len` only where both can be true.

use core::net::IpAddr;
use core::num::NonZeroU16;

use crate::{Header, Proto, TcpHeader, checksum};

/// The largest number of the 16-bit length fields of RFC 791 and RFC 8200. IPv6 does not count its own header.
const MOST: usize = 65_535;
/// Most bytes of TCP options: the data offset counts up to 15 words of 4 bytes, of which 5 are the fixed header (RFC
/// 9293, section 3.1).
const OPTIONS: usize = 40;
/// Length of the fragment header of IPv6 (RFC 8200, section 4.5).
const FRAGMENT_HEADER: usize = 8;

/// Appends the headers of the packet that `header` describes to `out` and returns the length of the whole packet. To
/// have the payload as well, append zeros up to that length; all checksums are those of the whole packet. `id` is the
/// identification of fragments and of IPv4 (RFC 6864) where the header has none.
///
/// `parse` returns the same `header` if it is one that `parse` can return, with these exceptions:
/// - `len` becomes the sum of headers and `payload`. TCP reaches a longer `len` with padding after the options, if
///   there is room, because [`TcpHeader`] does not hold every option. Other protocols follow `len` if the headers
///   fit.
/// - What [`beyond`](TcpHeader::beyond) stands for is not written.
/// - SACK blocks that do not fit beside the other options are left out, the last ones first: the first block is the one
///   that must be there (RFC 2018, section 4).
/// - A fragment is written as the last of its packet, which carries no transport header.
/// - TCP without a TCP header gets one with no flag set, and ICMP that refuses nothing is written as an echo reply.
pub fn build(header: &Header, id: u16, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    let v4 = header.key.src().is_ipv4() && header.key.dst().is_ipv4();
    let ip = match (v4, header.fragment) {
        (true, _) => 20,
        (false, false) => 40,
        (false, true) => 40 + FRAGMENT_HEADER,
    };
    let most = if v4 { MOST } else { 40 + MOST };
    let want = usize::try_from(header.len.get()).map_or(most, |len| len.min(most));
    out.resize(start + ip, 0);
    let total = if header.fragment { want.max(ip) } else { transport(header, want, most, start, out) };
    if v4 {
        ipv4(header, id, total, &mut out[start..]);
    } else {
        ipv6(header, id, total, &mut out[start..]);
    }
    if !header.fragment {
        transport_checksum(header.key.proto, ip, total, &mut out[start..]);
    }
    total
}

/// Appends the transport header without its checksum and returns the length of the packet. `start` is where the
/// packet begins; its IP header is already there, as zeros.
fn transport(header: &Header, want: usize, most: usize, start: usize, out: &mut Vec<u8>) -> usize {
    let at = out.len();
    if matches!(header.key.proto, Proto::TCP | Proto::UDP) {
        out.extend(header.key.sport.to_be_bytes());
        out.extend(header.key.dport.to_be_bytes());
    }
    match header.key.proto {
        Proto::TCP => {
            let payload = header.tcp.map_or(0, |t| t.payload as usize);
            tcp(&header.tcp.unwrap_or_default(), out);
            let room = OPTIONS + 20 - (out.len() - at);
            let padding = want.saturating_sub(out.len() - start + payload);
            if header.tcp.is_some() && padding <= room && padding.is_multiple_of(4) {
                // Zero is the end of options: nothing after it is read.
                out.resize(out.len() + padding, 0);
            }
            out[at + 12] = (((out.len() - at) / 4) << 4) as u8;
            let headers = out.len() - start;
            if header.tcp.is_none() { want.max(headers) } else { (headers + payload).min(most) }
        }
        Proto::UDP => {
            let total = want.max(at - start + 8);
            // `most` keeps this within 16 bits.
            out.extend(((total - (at - start)) as u16).to_be_bytes());
            out.extend([0; 2]);
            if let Some(quic) = header.quic {
                let (bytes, len) = quic.bytes();
                out.extend(&bytes[..len.min(total - (out.len() - start))]);
            }
            total
        }
        Proto::ICMP | Proto::ICMPV6 => {
            let v4 = header.key.proto == Proto::ICMP;
            if let Some(key) = header.refused() {
                // Port unreachable, with the headers of what was refused.
                out.extend(if v4 { [3, 3] } else { [1, 4] });
                out.extend([0; 6]);
                build(&Header { key, ..Header::default() }, 0, out);
            } else {
                // Echo reply: type 0 of RFC 792, type 129 of RFC 4443.
                out.extend([if v4 { 0 } else { 129 }, 0, 0, 0, 0, 0, 0, 0]);
            }
            want.max(out.len() - start)
        }
        _ => want.max(out.len() - start),
    }
}

/// Appends the TCP header after the ports, with a data offset of zero.
fn tcp(t: &TcpHeader, out: &mut Vec<u8>) {
    out.extend(t.seq.0.to_be_bytes());
    out.extend(t.ack.0.to_be_bytes());
    out.extend([0, t.flags.0]);
    out.extend(t.window.to_be_bytes());
    // Checksum and urgent pointer.
    out.extend([0; 4]);
    let options = out.len();
    if let Some(mss) = t.mss {
        out.extend([2, 4]);
        out.extend(mss.to_be_bytes());
    }
    if let Some((value, echo)) = t.timestamps {
        out.extend([1, 1, 8, 10]);
        out.extend(value.to_be_bytes());
        out.extend(echo.to_be_bytes());
    }
    if let Some(shift) = t.window_scale {
        out.extend([1, 3, 3, shift]);
    }
    let room = OPTIONS - (out.len() - options);
    let blocks = t.sack.as_slice();
    let blocks = &blocks[..blocks.len().min(room.saturating_sub(4) / 8)];
    if !blocks.is_empty() {
        out.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for (left, right) in blocks {
            out.extend(left.0.to_be_bytes());
            out.extend(right.0.to_be_bytes());
        }
    }
}

/// RFC 2474, section 3 and RFC 3168, section 5.
const fn traffic_class(header: &Header) -> u8 {
    header.dscp.get() << 2 | header.ecn as u8
}

/// RFC 791, section 3.1.
fn ipv4(header: &Header, id: u16, total: usize, p: &mut [u8]) {
    p[0] = 0x45;
    p[1] = traffic_class(header);
    p[2..4].copy_from_slice(&(total as u16).to_be_bytes());
    p[4..6].copy_from_slice(&header.ident.map_or(id, NonZeroU16::get).to_be_bytes());
    // Don't fragment; or the last fragment, eight bytes into its packet.
    p[6..8].copy_from_slice(&if header.fragment { [0, 1] } else { [0x40, 0] });
    p[8] = 64;
    p[9] = header.key.proto.0;
    p[12..16].copy_from_slice(&octets(header.key.src())[12..]);
    p[16..20].copy_from_slice(&octets(header.key.dst())[12..]);
    let sum = checksum(&p[..20], 0);
    p[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// RFC 8200, section 3.
fn ipv6(header: &Header, id: u16, total: usize, p: &mut [u8]) {
    let class = traffic_class(header);
    p[0] = 0x60 | class >> 4;
    p[1] = class << 4;
    p[4..6].copy_from_slice(&((total - 40) as u16).to_be_bytes());
    p[6] = header.key.proto.0;
    p[7] = 64;
    p[8..24].copy_from_slice(&octets(header.key.src()));
    p[24..40].copy_from_slice(&octets(header.key.dst()));
    if header.fragment {
        // The last fragment, eight bytes into its packet.
        p[6] = 44;
        p[40..44].copy_from_slice(&[header.key.proto.0, 0, 0, 8]);
        p[46..48].copy_from_slice(&header.ident.map_or(id, NonZeroU16::get).to_be_bytes());
    }
}

fn octets(a: IpAddr) -> [u8; 16] {
    match a {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// Sets the checksum of the transport header at `at`. The payload is zeros, which add nothing to it. The
/// pseudo-header has the same sum for IPv4 and IPv6 (RFC 9293, section 3.1; RFC 8200, section 8.1); ICMP of IPv4 has
/// none (RFC 792).
fn transport_checksum(proto: Proto, at: usize, total: usize, p: &mut [u8]) {
    let sum_at = at
        + match proto {
            Proto::TCP => 16,
            Proto::UDP => 6,
            Proto::ICMP | Proto::ICMPV6 => 2,
            _ => return,
        };
    let pseudo = if proto == Proto::ICMP {
        0
    } else {
        let addresses = if at == 20 { &p[12..20] } else { &p[8..40] };
        // A datagram is below 2^16 bytes, so the length is one word of the sum.
        u32::from(!checksum(addresses, u32::from(proto.0) + (total - at) as u32))
    };
    let sum = match checksum(&p[at..], pseudo) {
        // Zero would mean that there is no checksum (RFC 768).
        0 if proto == Proto::UDP => 0xffff,
        sum => sum,
    };
    p[sum_at..sum_at + 2].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests;
