//! Changes the few fields that a middlebox may change, and updates the checksum (RFC 1624, eqn. 3).

use narrows_units::{Dscp, Ecn};

/// The Internet checksum (RFC 1071) of `bytes`, continued from `sum`.
#[must_use]
pub fn checksum(bytes: &[u8], sum: u32) -> u16 {
    // By words of four bytes, which are one modulo 0xffff with two of two: no carry is lost in 64 bits.
    let (words, rest) = bytes.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let whole: u64 = words.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum();
    let total = whole + u64::from(u32::from_be_bytes(last)) + u64::from(sum);
    // Below 2^33 after one fold by 32 bits, and within 32 after the second.
    let once = (total >> 32) + (total & 0xffff_ffff);
    !fold(((once >> 32) + (once & 0xffff_ffff)) as u32)
}

const fn fold(mut sum: u32) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The TCP checksum that a whole IP packet should carry, or `None` if the packet has no whole TCP segment. For tests
/// and for packets that we make ourselves.
#[must_use]
pub fn tcp_checksum(packet: &[u8]) -> Option<u16> {
    let (at, end) = tcp_span(packet)?;
    let segment = packet.get(at..end)?;
    let len = u32::try_from(segment.len()).ok()?;
    let addresses = if packet[0] >> 4 == 4 { packet.get(12..20)? } else { packet.get(8..40)? };
    let pseudo = u32::from(!checksum(addresses, 6 + (len >> 16) + (len & 0xffff)));
    let mut zeroed = segment.to_vec();
    zeroed[16] = 0;
    zeroed[17] = 0;
    Some(checksum(&zeroed, pseudo))
}

/// Where the TCP header begins and the packet ends, if it is whole, unfragmented TCP directly after the IP header. We
/// leave packets with IPv6 extension headers alone.
fn tcp_span(p: &[u8]) -> Option<(usize, usize)> {
    let (at, end) = match p.first()? >> 4 {
        4 => {
            let frag = u16::from_be_bytes([*p.get(6)?, *p.get(7)?]);
            if p.get(9)? != &6 || frag & 0x3fff != 0 {
                return None;
            }
            (usize::from(p[0] & 0xf) * 4, usize::from(u16::from_be_bytes([p[2], p[3]])))
        }
        6 => {
            if p.get(6)? != &6 {
                return None;
            }
            (40, 40 + usize::from(u16::from_be_bytes([p[4], p[5]])))
        }
        _ => return None,
    };
    let header = usize::from(*p.get(at + 12)? >> 4) * 4;
    (at >= 20 && header >= 20 && at + header <= end && end <= p.len()).then_some((at, end))
}

/// Replaces the 16-bit word at `at` and updates the checksum at `sum_at`: HC' = ~(~HC + ~m + m').
fn replace_word(p: &mut [u8], at: usize, new: u16, sum_at: usize) {
    let word = |p: &[u8], at: usize| u16::from_be_bytes([p[at], p[at + 1]]);
    let (old, sum) = (word(p, at), word(p, sum_at));
    let updated = !fold(u32::from(!sum) + u32::from(!old) + u32::from(new));
    p[at..at + 2].copy_from_slice(&new.to_be_bytes());
    p[sum_at..sum_at + 2].copy_from_slice(&updated.to_be_bytes());
}

/// The TCP options of a packet whose TCP header is at `at`: kind, place and length, up to one that does not fit.
fn options(packet: &[u8], at: usize) -> impl Iterator<Item = (u8, usize, usize)> {
    let end = at + usize::from(packet[at + 12] >> 4) * 4;
    let mut o = at + 20;
    std::iter::from_fn(move || {
        while o < end && packet[o] == 1 {
            o += 1;
        }
        let (kind, len) = (*packet.get(o)?, usize::from(*packet.get(o + 1)?));
        if kind == 0 || len < 2 || o + len > end {
            return None;
        }
        o += len;
        Some((kind, o - len, len))
    })
}

/// Whether the segment is signed, by TCP-MD5 (RFC 2385) or TCP-AO (RFC 5925): if it was changed, its receiver discards
/// it.
fn is_signed(packet: &[u8], at: usize) -> bool {
    options(packet, at).any(|(kind, _, _)| matches!(kind, 19 | 29))
}

/// Sets the TCP window. Returns whether the packet could be changed: a signed one cannot.
pub fn set_window(packet: &mut [u8], window: u16) -> bool {
    let Some((at, _)) = tcp_span(packet).filter(|(at, _)| !is_signed(packet, *at)) else { return false };
    replace_word(packet, at + 14, window, at + 16);
    true
}

/// Sets TSval of the timestamp option (RFC 7323). Returns whether the packet could be changed: a signed one cannot.
pub fn set_tsval(packet: &mut [u8], tsval: u32) -> bool {
    let Some((at, _)) = tcp_span(packet).filter(|(at, _)| !is_signed(packet, *at)) else { return false };
    let Some((_, stamps, _)) = options(packet, at).find(|(kind, _, len)| (*kind, *len) == (8, 10)) else {
        return false;
    };
    set_unaligned_u32(packet, stamps + 2, tsval, at);
    true
}

/// The timestamp option may begin at an odd offset, while the checksum is over words at even offsets.
fn set_unaligned_u32(p: &mut [u8], at: usize, value: u32, tcp_at: usize) {
    let first = at - (at - tcp_at) % 2;
    let mut words = [0u8; 6];
    words.copy_from_slice(&p[first..first + 6]);
    words[at - first..at - first + 4].copy_from_slice(&value.to_be_bytes());
    for i in 0..3 {
        // Bytes of these words outside the value are written back unchanged.
        replace_word(p, first + i * 2, u16::from_be_bytes([words[i * 2], words[i * 2 + 1]]), tcp_at + 16);
    }
}

/// Sets the mark "congestion experienced" (RFC 3168, section 5). Returns whether the packet is ECN-capable, so that
/// it now carries CE.
pub fn mark_ce(packet: &mut [u8]) -> bool {
    match packet.first().map(|b| b >> 4) {
        Some(4) if packet.len() >= 20 && Ecn::from_bits(packet[1]).is_capable() => {
            let word = u16::from_be_bytes([packet[0], packet[1] | 3]);
            replace_word(packet, 0, word, 10);
            true
        }
        // In IPv6 the traffic class spans two bytes, and no IP checksum covers it.
        Some(6) if packet.len() >= 40 && Ecn::from_bits(packet[1] >> 4).is_capable() => {
            packet[1] |= 0x30;
            true
        }
        _ => false,
    }
}

/// Sets the differentiated services codepoint (RFC 2474, section 3). Returns whether the packet could be changed.
pub fn set_dscp(packet: &mut [u8], dscp: Dscp) -> bool {
    let bits = dscp.get() << 2;
    match packet.first().map(|b| b >> 4) {
        Some(4) if packet.len() >= 20 => {
            let word = u16::from_be_bytes([packet[0], bits | packet[1] & 3]);
            replace_word(packet, 0, word, 10);
            true
        }
        Some(6) if packet.len() >= 40 => {
            packet[0] = packet[0] & 0xf0 | bits >> 4;
            packet[1] = packet[1] & 0x3f | bits << 4;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn ack(nops_before_timestamp: usize) -> Vec<u8> {
        let mut p = vec![0x45, 0x02, 0, 52, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        p.extend([0x9c, 0x40, 0, 80, 0, 0, 0, 7, 0, 0, 0, 9, 0x80, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
        p.extend(vec![1; nops_before_timestamp]);
        p.extend([8, 10, 0x12, 0x34, 0x56, 0x78, 0, 0, 0, 1]);
        p.resize(52, 0);
        let c = checksum(&p[..20], 0);
        p[10..12].copy_from_slice(&c.to_be_bytes());
        let c = tcp_checksum(&p).unwrap();
        p[36..38].copy_from_slice(&c.to_be_bytes());
        p
    }

    fn sums_hold(p: &[u8]) -> bool {
        checksum(&p[..20], 0) == 0 && tcp_checksum(p).unwrap().to_be_bytes() == p[36..38]
    }

    #[test]
    fn a_checksum_by_four_bytes_is_that_by_two() {
        for fill in [0, 1, 0x7f, 0xff] {
            let bytes: Vec<u8> = (0..1501u32).map(|i| fill | ((i * i) >> 3) as u8).collect();
            for (from, to) in (0..70).map(|n| (n, n + n)).chain([(0, 1500), (1, 1501), (3, 1500)]) {
                let part = &bytes[from..to];
                let by_two =
                    part.chunks(2).map(|c| (u32::from(c[0]) << 8) | u32::from(*c.get(1).unwrap_or(&0)));
                for begun in [0, 1, 0xffff, u32::MAX] {
                    let sum = by_two.clone().fold(fold(begun), |s, word| fold(u32::from(s) + word));
                    assert_eq!(checksum(part, begun), !sum, "{from} {to} {begun}");
                }
            }
        }
    }

    #[test]
    fn the_example_of_rfc_1071() {
        // Section 3: 00 01 f2 03 f4 f5 f6 f7 sums to ddf2.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7], 0), !0xddf2);
    }

    #[test]
    fn rewriting_agrees_with_computing_anew() {
        for nops in 0..=2 {
            for value in [0, 1, 0xffff_ffff, 0x1234_5678, 0xdead_beef] {
                let mut p = ack(nops);
                assert!(sums_hold(&p));
                let class = Dscp::from_bits(value as u8);
                assert!(set_tsval(&mut p, value) && set_window(&mut p, value as u16) && mark_ce(&mut p));
                assert!(set_dscp(&mut p, class));
                assert!(sums_hold(&p), "{nops} {value:x}");
                let h = parse(&p).unwrap();
                let t = h.tcp.unwrap();
                assert_eq!((t.timestamps, t.window), (Some((value, 1)), value as u16));
                assert_eq!((h.ecn, h.dscp), (Ecn::Ce, class));
            }
        }
    }

    #[test]
    fn what_came_broken_leaves_broken() {
        let mut p = ack(2);
        p[36] ^= 0x55;
        assert!(set_window(&mut p, 77));
        assert!(!sums_hold(&p));
    }

    #[test]
    fn a_signed_segment_is_left_alone() {
        // TCP-MD5 is kind 19 of 18 bytes, TCP-AO kind 29 of 16 with a MAC of 12; here in place of the timestamps, which
        // follow in what is left.
        for kind in [19, 29] {
            let mut p = ack(0);
            p[32] = 0xb0;
            p.splice(40..40, [kind, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            p[3] = 64;
            let before = p.clone();
            assert!(parse(&p).unwrap().tcp.unwrap().timestamps.is_some());
            assert!(!set_window(&mut p, 77) && !set_tsval(&mut p, 77));
            assert_eq!(p, before);
        }
    }

    #[test]
    fn nothing_is_touched_where_nothing_fits() {
        let mut p = ack(2);
        p[1] = 0;
        assert!(!mark_ce(&mut p));
        for n in 0..p.len() {
            let mut cut = p[..n].to_vec();
            assert!(!set_window(&mut cut, 1) && !set_tsval(&mut cut, 1));
            assert_eq!(cut, p[..n]);
            assert_eq!(set_dscp(&mut cut, Dscp::from_bits(0xb8)), n >= 20);
        }
    }

    #[test]
    fn the_codepoint_of_ipv6_lies_across_two_bytes() {
        // Version 6, traffic class 0x00, flow label 0xabcde; expedited forwarding is 46 (RFC 3246).
        let mut p = vec![0x60, 0x0a, 0xbc, 0xde];
        p.resize(40, 0);
        assert!(set_dscp(&mut p, Dscp::new(46).unwrap()));
        assert_eq!(p[..4], [0x6b, 0x8a, 0xbc, 0xde]);
        assert!(!set_dscp(&mut p[..39], Dscp::DEFAULT));
    }
}
