//! File formats, clocks, copies, cuts and fragments.

use std::io::Write as _;

use narrows_diagnose::Vantage;
use narrows_wire::FlowKey;

use super::wrap::{Order, Packet, ethernet, v4};
use super::{Found, PLAIN, Table, diagnose, differs, dressed, found, framed, packets};

/// A pcap file of microseconds in little-endian.
fn plain(frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
    Order(false).pcap(false, 1, frames)
}

/// A file of pcapng with one interface, whose units are so many in a second.
fn ng(o: Order, resolution: Option<u8>, per_second: u64, frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = [o.section(0), o.interface(1, resolution)].concat();
    for (at, frame) in frames {
        let units = u128::from(*at) * u128::from(per_second) / 1_000_000_000;
        file.extend(o.enhanced(0, units as u64, frame));
    }
    file
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}
fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}
fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut out = lz4_flex::frame::FrameEncoder::new(Vec::new());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

#[test]
fn every_format() {
    let mut table = Table::default();
    let frames = framed(ethernet);
    let (half, rest) = frames.split_at(frames.len() / 2);
    for o in [Order(false), Order(true)] {
        let name = |what: &str| format!("{what}, {}", if o.0 { "big-endian" } else { "little-endian" });
        for nanos in [false, true] {
            table.same(&name("pcap"), &found(o.pcap(nanos, 1, &frames)));
        }
        for minor in [2, 3] {
            // The two lengths stand the other way round.
            let mut file = o.pcap_head(0xa1b2_c3d4, minor, 1);
            for (at, frame) in &frames {
                let (len, cut) = (frame.len() as u32, frame.len().min(96));
                let stamp = [(at / 1_000_000_000) as u32, (at % 1_000_000_000 / 1000) as u32];
                file.extend(o.words(&[stamp[0], stamp[1], len, cut as u32]));
                file.extend(&frame[..cut]);
            }
            table.same(&name(&format!("pcap 2.{minor}")), &found(file));
        }
        // As Kuznetzov's three patches and Nokia's write it, two of them with libpcap's own magic.
        let patches = [
            ("October", 0xa1b2_cd34, 8),
            ("September", 0xa1b2_cd34, 12),
            ("April", 0xa1b2_c3d4, 8),
            ("Nokia", 0xa1b2_c3d4, 4),
        ];
        for (patch, magic, more) in patches {
            let mut file = o.pcap_head(magic, 4, 1);
            for (at, frame) in &frames {
                let stamp = [(at / 1_000_000_000) as u32, (at % 1_000_000_000 / 1000) as u32];
                let len = frame.len() as u32;
                file.extend(o.words(&[stamp[0], stamp[1], len, len]));
                file.extend(&o.words(&[2, 0x0800_0003, 0x0001_0203])[..more]);
                file.extend(frame);
            }
            table.same(&name(&format!("pcap as patched, {patch}")), &found(file));
        }
        for (resolution, per_second) in [(None, 1_000_000), (Some(9), 1_000_000_000), (Some(0x94), 1 << 20)] {
            table.same(&name("pcapng"), &found(ng(o, resolution, per_second, &frames)));
        }
        table.within(&name("pcapng with milliseconds"), &found(ng(o, Some(3), 1000, &frames)), 3);
        let sections = [ng(o, None, 1_000_000, half), ng(Order(!o.0), Some(9), 1_000_000_000, rest)].concat();
        table.same(&name("pcapng of two orders"), &found(sections));
        // An interface of USB beside it, and blocks of no known kind.
        let mut file = [o.section(2), o.interface(220, None), o.interface(1, None)].concat();
        for (n, (at, frame)) in frames.iter().enumerate() {
            if n % 10 == 3 {
                file.extend(o.enhanced(0, at / 1000, &[9; 64]));
                file.extend(o.block(0x0bad, &[7; 13]));
            }
            file.extend(o.enhanced(1, at / 1000, frame));
        }
        let also = found(file);
        table.same(&name("also USB"), &also);
        table.says(&name("also USB"), &also, "40 frames of link layer 220 (USB) were left out");
        let appended =
            [o.pcap(false, 1, half), Order(!o.0).pcap(true, 1, rest), ng(o, None, 1_000_000, &[])].concat();
        table.same(&name("pcap behind pcap"), &found(appended));
        let appended = [ng(o, None, 1_000_000, half), o.pcap(false, 1, rest)].concat();
        table.same(&name("pcap behind pcapng"), &found(appended));
        let appended = [o.pcap(false, 1, half), ng(o, None, 1_000_000, rest)].concat();
        table.same(&name("pcapng behind pcap"), &found(appended));
    }
    let (file, behind) = (plain(half), plain(rest));
    for (what, pack) in [("gzip", gzip as fn(&[u8]) -> Vec<u8>), ("zstd", zstd), ("lz4", lz4)] {
        table.same(what, &found(pack(&plain(&frames))));
        table.same(&format!("two streams of {what}"), &found([pack(&file), pack(&behind)].concat()));
    }
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..], &zstd(&plain(&frames))].concat();
    table.same("zstd behind a frame to skip", &found(skipped));
    // RFC 1761.
    let o = Order(true);
    let mut snoop = [b"snoop\0\0\0".to_vec(), o.words(&[2, 4])].concat();
    for (at, frame) in &frames {
        let (len, filled) = (frame.len() as u32, frame.len().next_multiple_of(4) as u32);
        let stamp = [(at / 1_000_000_000) as u32, (at % 1_000_000_000 / 1000) as u32];
        snoop.extend(o.words(&[len, len, 24 + filled, 0, stamp[0], stamp[1]]));
        snoop.extend(frame);
        snoop.resize(snoop.len() + (filled - len) as usize, 0);
    }
    table.same("snoop", &found(snoop));
    let mut erf = Vec::new();
    for (at, frame) in &frames {
        let (second, rest) = (at / 1_000_000_000, at % 1_000_000_000);
        erf.extend(((second << 32) | ((rest << 32) / 1_000_000_000)).to_le_bytes());
        let len = (frame.len() as u16 + 18).to_be_bytes();
        let wire = (frame.len() as u16 + 4).to_be_bytes();
        erf.extend([2, 4, len[0], len[1], 0, 0, wire[0], wire[1], 0, 0]);
        erf.extend(frame);
    }
    table.same("ERF", &found(erf));
    table.none();
}

/// From 54 bytes of Ethernet on no segment is lost.
#[test]
fn every_snap_length() {
    let mut table = Table::default();
    let snapped = |snap: usize| {
        let mut file = Order(false).pcap_head(0xa1b2_c3d4, 4, 1);
        for (at, frame) in framed(ethernet) {
            let cut = frame.len().min(snap);
            let stamp = [(at / 1_000_000_000) as u32, (at % 1_000_000_000 / 1000) as u32];
            file.extend(Order(false).words(&[stamp[0], stamp[1], cut as u32, frame.len() as u32]));
            file.extend(&frame[..cut]);
        }
        found(file)
    };
    let plain = PLAIN.flows[0].counts();
    for snap in 50..=110 {
        let found = snapped(snap);
        let counts = found.flows[0].counts();
        let segments = |c: &narrows_diagnose::Counts| (c.data, c.bytes, c.again);
        if segments(&counts) != segments(&plain) || found.flows[0].packets != PLAIN.flows[0].packets {
            table.0.push(format!("{snap}: {counts:?}"));
        }
        match differs(&found, 2) {
            None => {}
            Some(_) if found.says("TCP options of") && found.says("snap at least") => {}
            Some(why) => table.0.push(format!("{snap}: {why} {:?}", found.remarks)),
        }
    }
    let short = snapped(54);
    table.says("54", &short, "SACK blocks of");
    table.says("54", &short, "window scales of 2 SYNs");
    let none = snapped(40);
    assert!(none.flows.is_empty() && none.instead.contains("TCP, cut before its numbers"), "{none:?}");
    table.none();
}

/// Ethernet from other addresses, with fewer hops to go.
fn routed(p: &Packet) -> Vec<u8> {
    let mut frame = ethernet(p);
    frame[5] = 7;
    frame[11] = 8;
    frame[14 + 8] -= 1;
    frame
}

/// Each frame, and a copy of it so many nanoseconds later.
fn twice(
    first: impl Fn(&Packet) -> Vec<u8>,
    copy: impl Fn(&Packet) -> Vec<u8>,
    later: u64,
) -> Vec<(u64, Vec<u8>)> {
    let mut all = framed(first);
    all.extend(framed(copy).into_iter().map(|(at, frame)| (at + later, frame)));
    all.sort_by_key(|(at, _)| *at);
    all
}

#[test]
fn copies_are_left_out() {
    let mut table = Table::default();
    // The identification tells; without one, place and time do.
    let anonymous = |frame: fn(&Packet) -> Vec<u8>| {
        move |p: &Packet| {
            let mut p = p.clone();
            p.bytes[4..6].fill(0);
            frame(&p)
        }
    };
    let cooked = |kind: u8, interface: u8| {
        move |p: &Packet| {
            let head = [8, 0, 0, 0, 0, 0, 0, interface, 0, 1, kind, 6, 2, 0, 0, 0, 0, 1, 0, 0];
            [&head[..], &p.bytes].concat()
        }
    };
    let any = |frames: &[(u64, Vec<u8>)]| Order(false).pcap(false, 276, frames);
    for (what, file) in [
        ("a mirrored port", plain(&twice(ethernet, ethernet, 5_000))),
        ("a mirrored port, both at one time", plain(&twice(ethernet, ethernet, 0))),
        ("a router", plain(&twice(ethernet, routed, 40_000))),
        ("a router with a queue", plain(&twice(ethernet, routed, 300_000_000))),
        ("a router, no identification", plain(&twice(anonymous(ethernet), anonymous(routed), 40_000))),
        ("all interfaces", any(&twice(cooked(0, 2), cooked(4, 3), 20_000))),
        ("all interfaces of a bond", any(&twice(cooked(0, 2), cooked(0, 5), 0))),
        (
            "a tunnel and what it carries",
            plain(&twice(|p| ethernet(&Packet { bytes: v4(p, 4, &p.bytes), ..p.clone() }), ethernet, 9_000)),
        ),
    ] {
        let found = found(file);
        table.same(what, &found);
        table.says(what, &found, "400 copies of packets were left out");
    }
    // Everything twice at one place, and nothing but numbers to tell it by.
    let found = found(plain(&twice(anonymous(ethernet), anonymous(ethernet), 5_000)));
    let (a, b) = (PLAIN.flows[0].counts(), found.flows[0].counts());
    assert_eq!((a.data, a.again, a.timeouts), (b.data, b.again, b.timeouts), "{:?}", found.remarks);
    table.none();
}

/// Frames from the n-th on, by another clock.
fn set(at: usize, by: i64) -> Vec<(u64, Vec<u8>)> {
    let mut frames = framed(ethernet);
    frames[at..].iter_mut().for_each(|(time, _)| *time = time.saturating_add_signed(by));
    frames
}

#[test]
fn a_clock_that_is_set() {
    let mut table = Table::default();
    let (second, year) = (1_000_000_000, 31_557_600_000_000_000_i64);
    for at in [3, 57, 120, 200, 333] {
        for by in [-2 * second, 2 * second, -20 * second, 30 * second, -year, 6 * year, -53 * year] {
            let what = format!("set by {} s at {at}", by / second);
            let found = found(plain(&set(at, by)));
            // Clocks of senders tell time to a millisecond, and the least time between packets is zero.
            table.within(&what, &found, 60);
            table.says(&what, &found, "the clock was set");
        }
    }
    table.none();
}

#[test]
fn frames_out_of_order() {
    let mut table = Table::default();
    let frames = framed(ethernet);
    // One end's frames are written up to this much later.
    for late in [1_000_000_u64, 50_000_000, 700_000_000, 3_000_000_000] {
        let mut order: Vec<(u64, usize)> =
            packets().iter().enumerate().map(|(n, p)| (p.at + if p.forth { late } else { 0 }, n)).collect();
        order.sort_unstable();
        let file: Vec<_> = order.iter().map(|(_, n)| frames[*n].clone()).collect();
        table.same(&format!("one end late by {} ms", late / 1_000_000), &found(plain(&file)));
    }
    // One file behind the other, of a direction each.
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for (p, frame) in packets().iter().zip(&frames) {
        if p.forth { a.push(frame.clone()) } else { b.push(frame.clone()) }
    }
    table.same("a direction behind the other", &found(plain(&[a.clone(), b.clone()].concat())));
    table.same("a direction each", &diagnose(vec![plain(&a), plain(&b)]).unwrap());
    table.none();
}

/// Whether a frame of Ethernet is from the end that opened the connection.
fn is_forth(frame: &[u8]) -> bool {
    let first = ethernet(&packets()[0]);
    frame[26..34] == first[26..34]
}

#[test]
fn two_machines() {
    let mut table = Table::default();
    let frames = framed(ethernet);
    for by in [0_i64, -7_300_000_000, 5_100_000_000] {
        // The second machine is 5 ms from the first, and its clock differs by `by`.
        let mut there: Vec<(u64, Vec<u8>)> = packets()
            .iter()
            .map(|p| {
                let way = if p.forth { 5_000_000 } else { -5_000_000 };
                (p.at.saturating_add_signed(by + way), routed(p))
            })
            .collect();
        there.sort_by_key(|(at, _)| *at);
        let found = diagnose(vec![plain(&frames), plain(&there)]).unwrap();
        let what = format!("another clock, {by} ns away");
        table.says(&what, &found, "copies of packets were left out");
        if by != 0 {
            table.says(&what, &found, "its clock is");
        }
        // A direction each: the clocks are known within a round trip.
        let of = |frames: &[(u64, Vec<u8>)], forth: bool| {
            frames.iter().filter(|(_, frame)| is_forth(frame) == forth).cloned().collect::<Vec<_>>()
        };
        let halves = diagnose(vec![plain(&of(&frames, true)), plain(&of(&set(0, by), false))]).unwrap();
        if by == 0 {
            table.same("a direction each, of one clock", &halves);
        } else {
            table.says(&what, &halves, "its clock is");
            let (a, b) = (PLAIN.flows[0].counts(), halves.flows[0].counts());
            let stalled = |found: &Found| -> f64 {
                found.flows[0].stalls.iter().map(|s| s.length().as_secs_f64()).sum()
            };
            let far = (stalled(&halves) / stalled(&PLAIN) - 1.0).abs();
            if (a.data, a.again, a.dupacks) != (b.data, b.again, b.dupacks) || far > 0.1 {
                table.0.push(format!("{what}, a direction each: {b:?} in place of {a:?}, {far}"));
            }
        }
        let (a, b) = (PLAIN.flows[0].counts(), found.flows[0].counts());
        if (a.data, a.again, a.timeouts, a.dupacks) != (b.data, b.again, b.timeouts, b.dupacks) {
            table.0.push(format!("{what}: {b:?} in place of {a:?}"));
        }
    }
    table.none();
}

/// Fragments of a packet, each of at most so many bytes of data.
fn fragments(p: &Packet, most: usize) -> Vec<Vec<u8>> {
    if p.bytes[0] >> 4 == 6 {
        let (head, data) = p.bytes.split_at(40);
        let pieces: Vec<&[u8]> = data.chunks(most).collect();
        return pieces
            .iter()
            .enumerate()
            .map(|(n, piece)| {
                let place = (n * most) as u16 | u16::from(n + 1 < pieces.len());
                let mut head = head.to_vec();
                head[4..6].copy_from_slice(&(piece.len() as u16 + 8).to_be_bytes());
                head[6] = 44;
                let id = ((p.at / 1000) as u32).to_be_bytes();
                [&head[..], &[6, 0], &place.to_be_bytes(), &id, piece].concat()
            })
            .collect();
    }
    let (head, data) = p.bytes.split_at(20);
    let pieces: Vec<&[u8]> = data.chunks(most).collect();
    let fragment = |(n, piece): (usize, &&[u8])| {
        let place = (n * most / 8) as u16 | if n + 1 < pieces.len() { 0x2000 } else { 0 };
        let mut head = head.to_vec();
        head[2..4].copy_from_slice(&(piece.len() as u16 + 20).to_be_bytes());
        head[6..8].copy_from_slice(&place.to_be_bytes());
        [&head[..], piece].concat()
    };
    pieces.iter().enumerate().map(fragment).collect()
}

#[test]
fn fragments_are_put_together() {
    let mut table = Table::default();
    let cut = |packets: &[Packet], most: usize, turned: bool| {
        let mut frames = Vec::new();
        for p in packets {
            let mut parts = fragments(p, most);
            if turned {
                parts.reverse();
            }
            frames.extend(parts.into_iter().map(|bytes| (p.at, ethernet(&Packet { bytes, ..p.clone() }))));
        }
        plain(&frames)
    };
    for (what, most, turned) in
        [("552 bytes", 552, false), ("552 bytes, turned round", 552, true), ("8 bytes", 8, false)]
    {
        let found = found(cut(&packets(), most, turned));
        table.same(what, &found);
        table.says(what, &found, "packets were put together from fragments");
    }
    let six = six();
    table.same("IPv6", &found(plain(&six.iter().map(|p| (p.at, ethernet(p))).collect::<Vec<_>>())));
    table.same("fragments of IPv6", &found(cut(&six, 1232, false)));
    // A tunnel's packets in fragments.
    let tunnels: Vec<Packet> =
        packets().iter().map(|p| Packet { bytes: v4(p, 4, &p.bytes), ..p.clone() }).collect();
    table.same("fragments of a tunnel", &found(cut(&tunnels, 552, false)));
    // The last fragment of each is missing.
    let first: Vec<(u64, Vec<u8>)> = packets()
        .iter()
        .map(|p| (p.at, ethernet(&Packet { bytes: fragments(p, 16).swap_remove(0), ..p.clone() })))
        .collect();
    let lost = found(plain(&first));
    assert!(
        lost.flows.is_empty() && lost.instead.contains("400 fragments of packets that did not come whole")
    );
    table.none();
}

/// The story over IPv6.
fn six() -> Vec<Packet> {
    dressed(|header| {
        let six = |a: core::net::IpAddr| match a {
            core::net::IpAddr::V4(a) => {
                let o = a.octets();
                core::net::Ipv6Addr::from(
                    [[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0].to_vec(), o.to_vec()]
                        .concat()
                        .try_into()
                        .unwrap_or([0; 16]),
                )
            }
            core::net::IpAddr::V6(a) => a,
        };
        let key = &header.key;
        let key = FlowKey::new(six(key.src()).into(), six(key.dst()).into(), key.sport, key.dport, key.proto);
        narrows_wire::Header { key, ident: None, len: narrows_units::Bytes(header.len.get() + 20), ..*header }
    })
}

#[test]
fn what_cannot_be_told_is_named() {
    let o = Order(false);
    // Simple packets have no time: the order is there.
    let mut file = [o.section(0), o.interface(1, None)].concat();
    framed(ethernet).iter().for_each(|(_, frame)| file.extend(o.simple(frame)));
    let timeless = found(file);
    assert!(timeless.says("400 frames have no time"), "{:?}", timeless.remarks);
    let [flow] = &timeless.flows[..] else { panic!("one connection") };
    let plain_counts = PLAIN.flows[0].counts();
    assert_eq!((flow.stalls.len(), flow.counts().bytes), (0, plain_counts.bytes));
    assert_eq!(flow.counts().again, plain_counts.again);
    // All at one time.
    let same: Vec<_> = framed(ethernet).into_iter().map(|(_, frame)| (super::ORIGIN, frame)).collect();
    let timeless = found(plain(&same));
    assert!(timeless.says("all frames have the same time") && timeless.flows[0].stalls.is_empty());
    // One direction.
    let forth: Vec<_> = packets().iter().filter(|p| !p.forth).map(|p| (p.at, ethernet(p))).collect();
    let half = found(plain(&forth));
    assert!(half.flows[0].one_way && half.flows[0].main().vantage == Vantage::Unknown, "{half:?}");
    assert!(!PLAIN.flows[0].one_way);
    // Nothing that is read.
    let unread = |link: u32, frame: fn(&Packet) -> Vec<u8>| {
        let Found { flows, instead, .. } = found(o.pcap(false, link, &framed(frame)));
        assert!(flows.is_empty());
        instead
    };
    assert_eq!(
        unread(147, ethernet),
        "of 400 frames 400 frames of link layer 147 (reserved for private use)"
    );
    assert_eq!(
        unread(1, |p| [&[2; 12][..], &[8, 6], &p.bytes].concat()),
        "of 400 frames 400 frames of ethertype 0x0806 (ARP)"
    );
    let sealed = unread(1, |p| ethernet(&Packet { bytes: v4(p, 50, &[0x77; 80]), ..p.clone() }));
    assert_eq!(sealed, "of 400 frames 400 packets encrypted by ESP, 400 packets of ESP");
    let deep = unread(1, |p| {
        let mut packet = p.bytes.clone();
        (0..9).for_each(|_| packet = v4(p, 4, &packet));
        ethernet(&Packet { bytes: packet, ..p.clone() })
    });
    assert!(deep.contains("400 packets in more than eight tunnels"), "{deep}");
    assert_eq!(found(plain(&[])).instead, "there are no frames");
}
