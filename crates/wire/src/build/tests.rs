use super::*;
use crate::{Flags, FlowKey, QuicPacket, SackBlocks, Unreachable, parse, tcp_checksum};
use narrows_units::{Bytes, Dscp, Ecn, SeqNum};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|d| (d[0] * 16 + d[1]) as u8).collect()
}

/// The whole packet, or the beginning of it, and its length.
fn built(h: &Header, id: u16, snap: usize) -> (Vec<u8>, usize) {
    let mut out = Vec::new();
    let total = build(h, id, &mut out);
    out.resize(total.min(snap), 0);
    (out, total)
}

fn v4(key: ([u8; 4], u16), dst: ([u8; 4], u16), proto: Proto) -> FlowKey {
    FlowKey::new(key.0.into(), dst.0.into(), key.1, dst.1, proto)
}

#[test]
fn a_syn_by_hand() {
    let tcp = TcpHeader {
        seq: SeqNum(7),
        flags: Flags::SYN,
        window: 64_240,
        timestamps: Some((9, 0)),
        window_scale: Some(7),
        mss: Some(1460),
        ..TcpHeader::default()
    };
    let key = v4(([10, 0, 0, 1], 40_000), ([10, 0, 0, 2], 80), Proto::TCP);
    let h = Header { key, len: Bytes(60), ident: NonZeroU16::new(1), tcp: Some(tcp), ..Header::default() };
    // IP: 4500+003c+0001+4000+4006+0a00+0001+0a00+0002 = d946, complement 26b9.
    // TCP: the words below sum to 4c61; addresses, protocol and length 28 to 1431; together 6092, complement 9f6d.
    let expected = hex("4500 003c 0001 4000 4006 26b9 0a000001 0a000002
         9c40 0050 00000007 00000000 a002 faf0 9f6d 0000 020405b4 0101080a 00000009 00000000 01030307");
    assert_eq!(built(&h, 1, usize::MAX), (expected, 60));
    assert_eq!(parse(&built(&h, 1, usize::MAX).0), Ok(h));
}

#[test]
fn an_acknowledgment_with_two_blocks_by_hand() {
    let mut sack = SackBlocks::default();
    sack.push(SeqNum(6448), SeqNum(7896));
    sack.push(SeqNum(9344), SeqNum(10_792));
    let tcp = TcpHeader {
        seq: SeqNum(1000),
        ack: SeqNum(5000),
        flags: Flags::ACK,
        window: 501,
        timestamps: Some((0x0102_0304, 0x0a0b_0c0d)),
        sack,
        ..TcpHeader::default()
    };
    let key = v4(([192, 0, 2, 1], 443), ([198, 51, 100, 7], 50_000), Proto::TCP);
    let h = Header {
        key,
        len: Bytes(72),
        ident: NonZeroU16::new(0x1234),
        ecn: Ecn::Ect0,
        tcp: Some(tcp),
        ..Header::default()
    };
    // IP: 4502+0048+1234+4000+4006+c000+0201+c633+6407 = c3c1 with its carries, complement 3c3e.
    // TCP: the words sum to 5e6e; addresses, protocol and length 34 to ec76; together 4ae5, complement b51a.
    let expected = hex("4502 0048 1234 4000 4006 3c3e c0000201 c6336407
         01bb c350 000003e8 00001388 d010 01f5 b51a 0000 0101080a 01020304 0a0b0c0d
         01010512 00001930 00001ed8 00002480 00002a28");
    assert_eq!(built(&h, 0x1234, usize::MAX), (expected, 72));
    assert_eq!(parse(&built(&h, 0x1234, usize::MAX).0), Ok(h));
}

#[test]
fn an_ipv6_data_segment_by_hand() {
    let tcp = TcpHeader {
        seq: SeqNum(100),
        ack: SeqNum(200),
        flags: Flags::PSH.and(Flags::ACK),
        window: 1024,
        payload: 3,
        timestamps: Some((1, 2)),
        ..TcpHeader::default()
    };
    let address = |last: u16| core::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last).into();
    let key = FlowKey::new(address(1), address(2), 80, 40_000, Proto::TCP);
    let h = Header { key, len: Bytes(75), ecn: Ecn::Ce, tcp: Some(tcp), ..Header::default() };
    // The words sum to 2ae3; addresses, protocol and length 23 to 5b9e; together 8681, complement 797e.
    let expected =
        hex("60300000 0023 06 40 20010db8000000000000000000000001 20010db8000000000000000000000002
         0050 9c40 00000064 000000c8 8018 0400 797e 0000 0101080a 00000001 00000002 000000");
    assert_eq!(built(&h, 1, usize::MAX), (expected.clone(), 75));
    assert_eq!(parse(&expected), Ok(h));
    let mut headers = vec![0xaa];
    assert_eq!(build(&h, 1, &mut headers), 75);
    assert_eq!(headers[1..], expected[..72]);
    assert_eq!(parse(&expected[..72]), Ok(h));
}

#[test]
fn a_length_that_does_not_add_up_is_recomputed() {
    let tcp = TcpHeader { flags: Flags::ACK, payload: 460, timestamps: Some((1, 2)), ..TcpHeader::default() };
    let key = v4(([10, 0, 0, 1], 1), ([10, 0, 0, 2], 2), Proto::TCP);
    // A nominal 40 B of headers, 32 + 20 in truth.
    let h = Header { key, len: Bytes(500), tcp: Some(tcp), ..Header::default() };
    let (bytes, total) = built(&h, 0, 100);
    assert_eq!((bytes.len(), total), (100, 512));
    assert_eq!(parse(&bytes), Ok(Header { len: Bytes(512), ..h }));
    // Options we do not know leave room that is padded: 16 B, so 20 + 32 + 16 + 460.
    let h = Header { len: Bytes(528), ..h };
    assert_eq!(parse(&built(&h, 0, 100).0), Ok(h));
    // 28 bytes fill the option space; 32 do not fit, and 2 are no word.
    for (len, total) in [(540, 540), (544, 512), (514, 512)] {
        assert_eq!(built(&Header { len: Bytes(len), ..h }, 0, 100).1, total, "{len}");
    }
    // More than an IP packet can hold.
    let huge = TcpHeader { payload: u32::MAX, ..tcp };
    let h = Header { tcp: Some(huge), len: Bytes(u64::MAX), ..h };
    assert_eq!(built(&h, 0, 100).1, 65_535);
    assert_eq!(built(&Header { tcp: None, ..h }, 0, 100).1, 65_535);
}

#[test]
fn the_first_blocks_are_those_that_stay() {
    let mut sack = SackBlocks::default();
    for n in 0..4 {
        sack.push(SeqNum(n * 10), SeqNum(n * 10 + 5));
    }
    let tcp = TcpHeader { flags: Flags::ACK, timestamps: Some((1, 2)), sack, ..TcpHeader::default() };
    let key = v4(([10, 0, 0, 1], 1), ([10, 0, 0, 2], 2), Proto::TCP);
    let h = Header { key, len: Bytes(88), tcp: Some(tcp), ..Header::default() };
    // RFC 2018, section 3: three beside timestamps, four alone.
    let read = |h: &Header| parse(&built(h, 0, 100).0).unwrap().tcp.unwrap().sack;
    assert_eq!(read(&h).as_slice(), &sack.as_slice()[..3]);
    assert_eq!(read(&Header { tcp: Some(TcpHeader { timestamps: None, ..tcp }), ..h }), sack);
    let syn = TcpHeader { mss: Some(1460), window_scale: Some(7), ..tcp };
    assert_eq!(read(&Header { tcp: Some(syn), ..h }).as_slice().len(), 2);
}

#[test]
fn what_is_no_tcp_keeps_its_length() {
    for proto in [Proto::UDP, Proto::ICMP, Proto::ICMPV6, Proto(47)] {
        let ports = if proto == Proto::UDP { (5, 6) } else { (0, 0) };
        for len in [48, 49, 1500] {
            let h = Header {
                key: v4(([10, 0, 0, 1], ports.0), ([10, 0, 0, 2], ports.1), proto),
                len: Bytes(len),
                ..Header::default()
            };
            let (bytes, total) = built(&h, 0, usize::MAX);
            assert_eq!((bytes.len(), total as u64, parse(&bytes)), (total, len, Ok(h)));
            assert_eq!(checksum(&bytes[..20], 0), 0);
            // RFC 768 and RFC 792: a right sum makes the whole, its checksum included, come to zero.
            let pseudo = u32::from(!checksum(&bytes[12..20], u32::from(proto.0) + total as u32 - 20));
            match proto {
                Proto::UDP => assert_eq!(checksum(&bytes[20..], pseudo), 0),
                Proto::ICMP => assert_eq!(checksum(&bytes[20..], 0), 0),
                _ => {}
            }
        }
    }
    let short = Header { key: v4(([1; 4], 5), ([2; 4], 6), Proto::UDP), len: Bytes(3), ..Header::default() };
    assert_eq!(built(&short, 0, usize::MAX).1, 28);
}

#[test]
fn a_udp_sum_of_zero_is_written_as_all_ones() {
    // Addresses 0, ports 0, protocol 11, twice the length 8 make 21; a port of ffde brings the sum to ffff.
    let key = v4(([0; 4], 0xffde), ([0; 4], 0), Proto::UDP);
    let h = Header { key, len: Bytes(28), ..Header::default() };
    assert_eq!(built(&h, 0, 28).0[26..], [0xff, 0xff]);
}

#[test]
fn random_headers_come_back() {
    for seed in 0..20_000 {
        let ident = NonZeroU16::new(seed as u16);
        let h = random(seed);
        let h = Header { ident: ident.filter(|_| h.fragment || h.key.src().is_ipv4()), ..h };
        let (bytes, total) = built(&h, seed as u16, usize::MAX);
        assert_eq!(bytes.len(), total, "seed {seed}");
        assert_eq!(parse(&bytes), Ok(h), "seed {seed}");
        if let Some(sum) = tcp_checksum(&bytes) {
            let at = if bytes[0] >> 4 == 4 { 36 } else { 56 };
            assert_eq!(sum.to_be_bytes(), bytes[at..at + 2], "seed {seed}");
        }
        assert!(h.tcp.is_none() || tcp_checksum(&bytes).is_some(), "seed {seed}");
        let mut headers = Vec::new();
        build(&h, seed as u16, &mut headers);
        assert_eq!(parse(&headers), Ok(h), "seed {seed}");
    }
}

fn refusal(rng: &mut crate::fuzzing::XorShift) -> Option<Unreachable> {
    let mut port = || core::num::NonZeroU16::new(rng.below(1 << 16) as u16);
    port().zip(port()).map(|(sport, dport)| Unreachable { sport, dport })
}

/// A header as `parse` could give it.
fn random(seed: u64) -> Header {
    let mut rng = crate::fuzzing::XorShift::new(seed);
    let v6 = rng.below(2) == 0;
    let mut address = || {
        let mut o = [0; 16];
        o.fill_with(|| rng.below(256) as u8);
        if v6 {
            o[0] = 0x20;
            core::net::IpAddr::from(o)
        } else {
            core::net::IpAddr::from([o[0], o[1], o[2], o[3]])
        }
    };
    let (src, dst) = (address(), address());
    let protos = [Proto::TCP, Proto::TCP, Proto::TCP, Proto::UDP, Proto::ICMPV6, Proto(47)];
    let proto = protos[rng.below(6) as usize];
    let fragment = rng.below(8) == 0;
    let ports = !fragment && matches!(proto, Proto::TCP | Proto::UDP);
    let mut port = || if ports { rng.below(1 << 16) as u16 } else { 0 };
    let key = FlowKey::new(src, dst, port(), port(), proto);
    let ip = if v6 { 40 } else { 20 };
    let mut h = Header {
        key,
        len: Bytes(ip + 8 + rng.below(1500)),
        ecn: Ecn::from_bits(rng.below(4) as u8),
        dscp: Dscp::from_bits(rng.below(256) as u8),
        fragment,
        ..Header::default()
    };
    h.quic = [None, Some(QuicPacket::Initial), Some(QuicPacket::Short { spin: true })][rng.below(3) as usize]
        .filter(|_| proto == Proto::UDP && !fragment && h.len.get() >= ip + 8 + 7);
    let refuses = h.len.get() >= 2 * (ip + 8) && proto == Proto::ICMPV6 && !fragment;
    h.unreachable = refusal(&mut rng).filter(|_| refuses);
    if proto == Proto::TCP && !fragment {
        let mut t = TcpHeader {
            seq: SeqNum(rng.below(1 << 32) as u32),
            ack: SeqNum(rng.below(1 << 32) as u32),
            flags: Flags(rng.below(256) as u8),
            window: rng.below(1 << 16) as u16,
            payload: rng.below(1500) as u32,
            timestamps: (rng.below(2) == 0).then(|| (rng.below(1 << 32) as u32, rng.below(1 << 32) as u32)),
            window_scale: (rng.below(4) == 0).then(|| rng.below(15) as u8),
            mss: (rng.below(4) == 0).then(|| rng.below(1 << 16) as u16),
            ..TcpHeader::default()
        };
        let mut options =
            [t.mss.map_or(0, |_| 4), t.timestamps.map_or(0, |_| 12), t.window_scale.map_or(0, |_| 4)]
                .iter()
                .sum::<u64>();
        for n in 0..rng.below(5) {
            let more = if n == 0 { 12 } else { 8 };
            if options + more <= 40 {
                t.sack.push(SeqNum(rng.below(1 << 32) as u32), SeqNum(rng.below(1 << 32) as u32));
                options += more;
            }
        }
        options += rng.below((40 - options) / 4 + 1) * 4;
        h.len = Bytes(ip + 20 + options + u64::from(t.payload));
        h.tcp = Some(t);
    }
    h
}
