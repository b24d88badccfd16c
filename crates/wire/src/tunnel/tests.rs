use narrows_units::{Dscp, Ecn, SeqNum};

use super::*;
use crate::{checksum, mark_ce, set_dscp, set_tsval, set_window};

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

/// The innermost packet, if `packet` is a tunnel's.
fn innermost(packet: &[u8]) -> Option<&[u8]> {
    inside(packet).last().map(|inner| inner.packet)
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
        ("L2TP", udp_to(1701, &with(&[0, 2, 0, 7, 0, 9, 0xff, 3, 0, 0x21], &inner)), &inner),
        (
            "L2TP with length, numbers, two bytes of padding, no address, a short protocol",
            udp_to(1701, &with(&[0x4a, 2, 0, 57, 0, 7, 0, 9, 0, 1, 0, 0, 0, 2, 9, 9, 0x57], &inner6)),
            &inner6,
        ),
        ("MPLS with two labels", v4(137, &with(&[0, 1, 0, 0x40, 0, 1, 1, 0x40], &inner)), &inner),
        ("MPLS in GRE", v4(47, &with(&[0, 0, 0x88, 0x47, 0, 1, 1, 0x40], &inner6)), &inner6),
        ("MPLS in UDP", udp_to(6635, &with(&[0, 1, 1, 0x40], &inner)), &inner),
        ("GTP-U", udp_to(2152, &with(&[0x30, 255, 0, 40, 0, 0, 0, 5], &inner)), &inner),
        (
            "GTP-U of 5G",
            udp_to(2152, &with(&[0x34, 255, 0, 48, 0, 0, 0, 5, 0, 0, 0, 0x85, 1, 0, 9, 0], &inner)),
            &inner,
        ),
        (
            "GRE in VXLAN",
            udp_to(4789, &with(&[8, 0, 0, 0, 0, 0, 42, 0], &frame(&v4(47, &with(&[0, 0, 8, 0], &inner))))),
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
        ("PPTP's acknowledgment", v4(47, &[0x20, 0x81, 0x88, 0x0b, 0, 0, 0, 7, 0, 0, 0, 1])),
        ("UDP to another port", udp_to(4788, &[8; 60])),
        ("L2TP's control", udp_to(1701, &[&[0xc8, 2, 0, 12, 0, 7, 0, 0, 0, 1, 0, 2][..], &inner].concat())),
        ("L2TP version 3's control", udp_to(1701, &[&[0, 3, 0, 0, 0, 0, 0, 0][..], &inner].concat())),
        ("PPP's own protocols", udp_to(1701, &[0, 2, 0, 7, 0, 9, 0xff, 3, 0xc0, 0x21, 9, 1, 0, 8])),
        ("labels that never end", v4(137, &[0; 80])),
        ("GTP-U's echo request", udp_to(2152, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0])),
        ("something else on VXLAN's port", udp_to(4789, &[0x77; 60])),
        ("no IP within", v4(4, &[0x99; 30])),
    ] {
        assert_eq!(innermost(&packet), None, "{what}");
    }
}

fn parse_flow(packet: &[u8]) -> Result<Header, crate::WireError> {
    let mut header = parse(packet)?;
    header.look_inside(packet);
    // Whoever looks again sees no more.
    let once = header;
    header.look_inside(packet);
    assert_eq!(header, once);
    Ok(header)
}

/// A connection of the household: 192.168.1.9:40000 to 198.51.100.7:443.
const HOME: ([u8; 4], u16) = ([192, 168, 1, 9], 40_000);
const FAR: ([u8; 4], u16) = ([198, 51, 100, 7], 443);
/// The digests of the two ends, computed by a program of its own from the definition of the hash.
const DIGEST: (u16, u16) = (45_474, 62_924);

type End = ([u8; 4], u16);

/// Four bytes of data from number 7, which acknowledge 9, with window 1000 and timestamps 5 and 6; DSCP 46, ECT(1).
fn data(from: End, to: End) -> Vec<u8> {
    let ports = [from.1.to_be_bytes(), to.1.to_be_bytes()].concat();
    let head = [0x45, 0xb9, 0, 56, 0, 0, 0x40, 0, 64, 6, 0, 0];
    let tcp = [0, 0, 0, 7, 0, 0, 0, 9, 0x80, 0x18, 0x03, 0xe8, 0, 0, 0, 0];
    let options = [1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6];
    [&head[..], &from.0, &to.0, &ports, &tcp, &options, &[1, 2, 3, 4]].concat()
}

/// The tunnel's packet from the user or to it: DSCP 10, ECT(0), identification 3.
fn outer4(up: bool, proto: u8, body: &[u8]) -> Vec<u8> {
    let ends = if up { [10, 0, 0, 1, 10, 0, 0, 2] } else { [10, 0, 0, 2, 10, 0, 0, 1] };
    let mut p =
        [&[0x45, 0x2a, 0, 20 + body.len() as u8, 0, 3, 0, 0, 64, proto, 0, 0][..], &ends, body].concat();
    let sum = checksum(&p[..20], 0);
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p
}
fn outer6(up: bool, next: u8, body: &[u8]) -> Vec<u8> {
    let [a, b] = if up { [[0x21; 16], [0x22; 16]] } else { [[0x22; 16], [0x21; 16]] };
    [&[0x62, 0xa0, 0, 0, 0, body.len() as u8, next, 64][..], &a, &b, body].concat()
}
fn outer_udp(up: bool, from: u16, to: u16, body: &[u8]) -> Vec<u8> {
    let ports = [from.to_be_bytes(), to.to_be_bytes()].concat();
    outer4(up, 17, &[&ports[..], &[0, 8 + body.len() as u8, 0, 0], body].concat())
}

/// The packet in each kind of tunnel, as it goes up, or down.
fn in_each_tunnel(up: bool, inner: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let with = |head: &[u8]| [head, inner].concat();
    // A sender of VXLAN chooses its port by what is inside; the user's end of L2TP has one of its own.
    let (entropy, l2tp) = if up { (50_001, (5000, 1701)) } else { (60_007, (1701, 5000)) };
    vec![
        ("IP in IP", outer4(up, 4, inner)),
        ("DS-Lite, MAP-E", outer6(up, 4, inner)),
        ("DS-Lite behind Linux's limit on nesting", outer6(up, 60, &with(&[4, 0, 4, 1, 4, 1, 0, 0]))),
        ("GRE", outer4(up, 47, &with(&[0, 0, 8, 0]))),
        (
            "GRE over IPv6 with a key of each direction",
            outer6(up, 47, &with(&[0x20, 0, 8, 0, 0, 0, 0, up.into()])),
        ),
        ("L2TP", outer_udp(up, l2tp.0, l2tp.1, &with(&[0, 2, 0, 7, 0, up.into(), 0xff, 3, 0, 0x21]))),
        ("VXLAN", outer_udp(up, entropy, 4789, &[&[8, 0, 0, 0, 0, 0, 42, 0][..], &frame(inner)].concat())),
        (
            "Geneve",
            outer_udp(up, entropy, 6081, &[&[0, 0, 0x65, 0x58, 0, 0, 1, 0][..], &frame(inner)].concat()),
        ),
        ("GTP-U", outer_udp(up, 2152, 2152, &with(&[0x30, 255, 0, 56, 0, 0, 0, up.into()]))),
        ("MPLS", outer4(up, 137, &with(&[0, 1, 0, 0x40, 0, 1, 1, 0x40]))),
        ("MPLS in GRE", outer4(up, 47, &with(&[0, 0, 0x88, 0x47, 0, 1, 1, 0x40]))),
        ("GRE in IPv6 in IPv4", outer4(up, 41, &outer6(up, 47, &with(&[0, 0, 8, 0])))),
    ]
}

#[test]
fn the_flow_within_each_tunnel_by_hand() {
    let (up, down) = (in_each_tunnel(true, &data(HOME, FAR)), in_each_tunnel(false, &data(FAR, HOME)));
    for ((what, up), (_, down)) in up.iter().zip(&down) {
        let (out, back) = (parse_flow(up).unwrap(), parse_flow(down).unwrap());
        let carrier = parse(up).unwrap();
        assert_eq!((out.key.src(), out.key.dst()), (carrier.key.src(), carrier.key.dst()), "{what}");
        assert_eq!((out.key.proto, (out.key.sport, out.key.dport)), (Proto::TCP, DIGEST), "{what}");
        assert_eq!(back.key, out.key.reverse(), "{what}");
        assert!(out.key.is_in_tunnel() && !out.fragment && !carrier.key.is_in_tunnel(), "{what}");
        // Length, marks and number are the packet's own: 56 bytes are inside.
        assert_eq!((out.len.get(), out.len), (up.len() as u64, carrier.len), "{what}");
        assert_eq!((out.ecn, out.dscp.get(), out.ident), (Ecn::Ect0, 10, carrier.ident), "{what}");
        let tcp = out.tcp.unwrap();
        assert_eq!((tcp.seq, tcp.ack, tcp.payload, tcp.window), (SeqNum(7), SeqNum(9), 4, 1000), "{what}");
        assert_eq!(tcp.timestamps, Some((5, 6)), "{what}");
    }
}

#[test]
fn a_6in4_flow_by_hand() {
    // 2001:db8::9 port 40000 to 2001:db8:1::7 port 443, a datagram of QUIC with a short header.
    let ends = [
        0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0x20, 1, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 7,
    ];
    let inner =
        [&[0x60, 0, 0, 0, 0, 12, 17, 64][..], &ends, &[0x9c, 0x40, 1, 0xbb, 0, 12, 0, 0, 0x61, 1, 2, 3]]
            .concat();
    let h = parse_flow(&outer4(true, 41, &inner)).unwrap();
    assert_eq!(h.key.to_string(), "udp in tunnel 10.0.0.1:3515 > 10.0.0.2:36198");
    assert_eq!((h.quic, h.len.get()), (Some(crate::QuicPacket::Short { spin: true }), 72));
}

#[test]
fn flows_of_one_tunnel_differ() {
    let mut seen = std::collections::BTreeSet::new();
    for port in 30_000..31_000 {
        let h = parse_flow(&outer6(true, 4, &data((HOME.0, port), FAR))).unwrap();
        assert!(seen.insert(h.key), "{port}");
    }
}

#[test]
fn a_cut_packet_shows_what_is_there() {
    for (what, packet) in in_each_tunnel(true, &data(HOME, FAR)) {
        let tcp_ends = packet.len() - 4;
        for cut in 0..packet.len() {
            let (flow, outer) = (parse_flow(&packet[..cut]), parse(&packet[..cut]));
            let (Ok(flow), Ok(outer)) = (flow, outer) else {
                assert_eq!(flow, outer, "{what} {cut}");
                continue;
            };
            assert_eq!(flow.tcp.is_some(), cut >= tcp_ends, "{what} {cut}");
            // The ports are the first 4 of the 32 bytes of the TCP header.
            let whole = flow.key.is_in_tunnel()
                && flow.key.proto == Proto::TCP
                && (flow.key.sport, flow.key.dport) == DIGEST;
            assert_eq!(whole, cut >= tcp_ends - 28, "{what} {cut}");
            if !flow.key.is_in_tunnel() {
                assert_eq!(flow, outer, "{what} {cut}");
            }
        }
    }
}

#[test]
fn nothing_within_a_tunnel_is_changed() {
    for (what, packet) in in_each_tunnel(true, &data(HOME, FAR)) {
        let mut p = packet.clone();
        assert!(!set_window(&mut p, 1) && !set_tsval(&mut p, 1), "{what}");
        assert_eq!(p, packet, "{what}");
        assert!(mark_ce(&mut p) && set_dscp(&mut p, Dscp::DEFAULT), "{what}");
        let outer = if packet[0] >> 4 == 4 { 20 } else { 40 };
        assert_eq!(p[outer..], packet[outer..], "{what}");
        assert!(outer == 40 || checksum(&p[..20], 0) == 0, "{what}");
        let (before, after) = (parse_flow(&packet).unwrap(), parse_flow(&p).unwrap());
        assert_eq!(after, Header { ecn: Ecn::Ce, dscp: Dscp::DEFAULT, ..before }, "{what}");
    }
}

#[test]
fn what_stays_one_flow() {
    let inner = data(HOME, FAR);
    let changed = |mut p: Vec<u8>, at: usize, to: u8| {
        p[at] = to;
        p
    };
    let with = |head: &[u8]| [head, &inner[..]].concat();
    for (what, packet) in [
        ("the first fragment of a tunnel's packet", changed(outer4(true, 4, &inner), 6, 0x20)),
        ("a later one", changed(outer4(true, 4, &inner), 7, 1)),
        ("one of IPv6", outer6(true, 44, &with(&[4, 0, 0, 1, 0, 0, 0, 9]))),
        ("GRE with numbers", outer4(true, 47, &with(&[0x10, 0, 8, 0, 0, 0, 0, 1]))),
        ("L2TP with numbers", outer_udp(true, 1701, 1701, &with(&[8, 2, 0, 7, 0, 9, 0, 1, 0, 0, 0, 0x21]))),
        ("more inside than the packet holds", outer4(true, 4, &changed(inner.clone(), 3, 57))),
        ("an inner header that contradicts itself", outer4(true, 4, &changed(inner.clone(), 0, 0x44))),
        ("version 5 inside", outer4(true, 4, &changed(inner.clone(), 0, 0x55))),
        ("nothing inside", outer4(true, 4, &[])),
        ("TCP", inner.clone()),
    ] {
        assert_eq!(parse_flow(&packet), parse(&packet), "{what}");
        assert!(!parse(&packet).unwrap().key.is_in_tunnel(), "{what}");
    }
}

#[test]
fn what_cannot_be_read_is_of_the_last_that_can() {
    // A fragment inside has no ports, as any: all between its addresses are one flow.
    let mut inner = data(HOME, FAR);
    inner[6] = 0x20;
    let first = parse_flow(&outer6(true, 4, &inner)).unwrap();
    inner[6..8].copy_from_slice(&[0, 9]);
    let later = parse_flow(&outer6(true, 4, &inner)).unwrap();
    assert_eq!((first.key, first.tcp, first.fragment), (later.key, None, false));
    assert_eq!((first.key.sport, first.key.dport), (51_211, 49_106));
    // A tunnel that numbers its packets within another that does not.
    let numbered = [&[0x10, 0, 8, 0, 0, 0, 0, 1][..], &data(HOME, FAR)].concat();
    let h = parse_flow(&outer6(true, 4, &v4(47, &numbered))).unwrap();
    assert_eq!((h.key.is_in_tunnel(), h.key.proto, h.tcp), (true, Proto(47), None));
    // Eight are gone through: the ninth is what the eighth carries.
    let nested = (0..8).fold(data(HOME, FAR), |inside, _| v4(4, &inside));
    assert_eq!(parse_flow(&nested).unwrap().key.proto, Proto::TCP);
    assert_eq!(parse_flow(&v4(4, &nested)).unwrap().key.proto, Proto(4));
}

#[test]
fn a_port_unreachable_within_a_tunnel_finds_its_flow() {
    // RFC 792: type 3, code 3, and the datagram's headers.
    let datagram = |from: End, to: End| {
        let ports = [from.1.to_be_bytes(), to.1.to_be_bytes()].concat();
        [&[0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0][..], &from.0, &to.0, &ports, &[0, 8, 0, 0]].concat()
    };
    let lost = datagram(FAR, HOME);
    let said =
        [&[0x45, 0, 0, 56, 0, 1, 0, 0, 64, 1, 0, 0][..], &HOME.0, &FAR.0, &[3, 3, 0, 0, 0, 0, 0, 0], &lost];
    let refused = parse_flow(&outer6(true, 4, &said.concat())).unwrap().refused();
    assert_eq!(refused, Some(parse_flow(&outer6(false, 4, &lost)).unwrap().key));
}
