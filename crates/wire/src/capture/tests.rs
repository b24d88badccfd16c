use super::*;
use crate::fuzzing::{self, XorShift};
use crate::{Flags, FlowKey, Proto, TcpHeader, Unopened};
use narrows_units::{Bytes, SeqNum};

/// A header whose sequence number tells it from others.
fn header(seq: u32) -> Header {
    let tcp = TcpHeader {
        seq: SeqNum(seq),
        flags: Flags::ACK,
        payload: 1448,
        timestamps: Some((seq, 1)),
        ..TcpHeader::default()
    };
    let key = FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 80, 40_000, Proto::TCP);
    let ident = core::num::NonZeroU16::new(seq as u16);
    Header { key, len: Bytes(1500), ident, tcp: Some(tcp), ..Header::default() }
}

fn packet(seq: u32) -> Vec<u8> {
    let mut out = Vec::new();
    crate::build(&header(seq), 7, &mut out);
    out
}

/// Numbers in one of the two byte orders.
struct Order(bool);

impl Order {
    fn half(&self, v: u16) -> Vec<u8> {
        if self.0 { v.to_be_bytes().into() } else { v.to_le_bytes().into() }
    }
    fn words(&self, words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| if self.0 { w.to_be_bytes() } else { w.to_le_bytes() }).collect()
    }
    fn pcap(&self, magic: u32, link: u32) -> Vec<u8> {
        [self.words(&[magic]), self.half(2), self.half(4), self.words(&[0, 0, 65_535, link])].concat()
    }
    fn frame(&self, seconds: u32, fraction: u32, bytes: &[u8], original: u32) -> Vec<u8> {
        [self.words(&[seconds, fraction, bytes.len() as u32, original]), bytes.into()].concat()
    }
    fn block(&self, kind: u32, body: &[u8]) -> Vec<u8> {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let len = 12 + body.len() as u32;
        [self.words(&[kind, len]), body, self.words(&[len])].concat()
    }
    fn section(&self) -> Vec<u8> {
        let body = [self.words(&[0x1a2b_3c4d]), self.half(1), self.half(0), vec![0xff; 8]].concat();
        self.block(0x0a0d_0d0a, &body)
    }
    fn interface(&self, link: u16, snap: u32, options: &[u8]) -> Vec<u8> {
        self.block(1, &[self.half(link), self.half(0), self.words(&[snap]), options.into()].concat())
    }
    fn enhanced(&self, interface: u32, stamp: u64, bytes: &[u8], original: u32) -> Vec<u8> {
        let head = [interface, (stamp >> 32) as u32, stamp as u32, bytes.len() as u32, original];
        self.block(6, &[self.words(&head), bytes.into()].concat())
    }
}

fn read(file: &[u8]) -> Result<Vec<Captured>, CaptureError> {
    Reader::new(file)?.collect()
}

/// The error that reading `file` ends with, in words.
fn complaint(file: &[u8]) -> String {
    read(file).expect_err("a file with a fault").to_string()
}

#[test]
fn pcap_in_either_order_and_unit() {
    for (magic, unit) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
        for o in [Order(false), Order(true)] {
            let file = [
                o.pcap(magic, 101),
                o.frame(1_700_000_000, 999_999, &packet(1), 1500),
                o.frame(1_700_000_002, 1, &packet(2), 1500),
                // Earlier than the first: the clock was set back.
                o.frame(1_600_000_000, 0, &packet(3), 1500),
            ]
            .concat();
            let got = read(&file).unwrap();
            let second = 2_000_000_000 + unit - 999_999 * unit;
            for (n, at) in [0, second, 0].into_iter().enumerate() {
                let Captured { frame, at: time, header: read, original_len, ttl, .. } = got[n];
                assert_eq!((frame, time), (n as u64 + 1, Instant::from_nanos(at)));
                assert_eq!((read, original_len, ttl), (header(n as u32 + 1), 1500, 64));
            }
            let stamps: Vec<_> = got.iter().filter_map(|c| c.stamp).map(|s| s / 1_000_000_000).collect();
            assert_eq!(stamps, [1_700_000_000, 1_700_000_002, 1_600_000_000]);
            {}
        }
    }
}

#[test]
fn pcapng_with_interfaces_units_and_strangers() {
    for o in [Order(false), Order(true)] {
        // Options: a name of three bytes, nanoseconds, an offset of 10 s; then milliseconds as 2^-10, and the end.
        let ten = if o.0 { 10_i64.to_be_bytes() } else { 10_i64.to_le_bytes() };
        let option = |code: u16, value: &[u8]| {
            let mut v = value.to_vec();
            v.resize(v.len().next_multiple_of(4), 0);
            [o.half(code), o.half(value.len() as u16), v].concat()
        };
        let options = [option(2, b"eth"), option(9, &[9]), option(14, &ten), option(0, &[])].concat();
        let file = [
            o.section(),
            o.interface(101, 0, &options),
            o.interface(1, 0, &option(9, &[0x8a])),
            o.interface(9999, 0, &[]),
            o.block(5, &[1, 2, 3, 4]),
            o.enhanced(0, 5_000_000_001, &packet(1), 1500),
            o.enhanced(2, 15_000_001, &packet(9), 1500),
            o.block(0x8000_0bad, &[9; 50]),
            // 16 s in units of 1/1024 s, on Ethernet.
            o.enhanced(1, 16 * 1024 + 512, &[vec![0; 12], vec![8, 0], packet(2)].concat(), 1514),
            o.block(3, &[o.words(&[1500]), packet(3)].concat()),
            // A section of its own forgets the interfaces; without options the unit is a microsecond.
            o.section(),
            o.interface(101, 40, &[]),
            // The obsolete block: interface and drops in half words.
            o.block(2, &[o.half(0), o.half(7), o.words(&[0, 20_000_000, 52, 1500]), packet(4)].concat()),
            // Cut by the snap length of its interface, behind the TCP numbers.
            o.block(3, &[o.words(&[1500]), packet(5)[..40].to_vec()].concat()),
        ]
        .concat();
        let got = read(&file).unwrap();
        let at: Vec<u64> = got.iter().map(|c| c.at.as_nanos()).collect();
        // The first is at 15.000000001 s.
        assert_eq!(at, [0, 1_499_999_999, 1_499_999_999, 4_999_999_999, 4_999_999_999]);
        // The frame of the unknown link layer is counted, as Wireshark counts it.
        for (c, (seq, frame)) in got[..4].iter().zip([(1, 1), (2, 3), (3, 4), (4, 5)]) {
            assert_eq!((c.header, c.frame), (header(seq), frame));
        }
        let tcp = header(5).tcp.map(|tcp| TcpHeader { cut: true, timestamps: None, ..tcp });
        assert_eq!(got[4].header, Header { tcp, ..header(5) });
        let mut reader = Reader::new(&file[..]).unwrap();
        assert_eq!(reader.by_ref().count(), 5);
        assert_eq!(reader.decoder().left_out().sorted(), [(Unopened::LinkLayer(9999), 1)]);
        assert_eq!((reader.untimed(), reader.frames()), (2, 6));
        assert_eq!(got[1].original_len, 1514);
    }
}

#[test]
fn every_link_type_gives_the_same_packet() {
    let p = packet(1);
    let ethernet = |kinds: &[u8]| [vec![2; 12], kinds.to_vec(), p.clone()].concat();
    let sll = |kind: [u8; 2]| [vec![0, 0, 0, 1, 0, 6], vec![3; 8], kind.into(), p.clone()].concat();
    for (link, frame) in [
        (101, p.clone()),
        (228, p.clone()),
        (1, ethernet(&[8, 0])),
        (1, ethernet(&[0x81, 0, 0, 5, 8, 0])),
        (1, ethernet(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0])),
        // A session frame of PPPoE, also behind a VLAN tag.
        (1, ethernet(&[0x88, 0x64, 0x11, 0, 0, 9, 0, 60, 0, 0x21])),
        (1, ethernet(&[0x81, 0, 0, 7, 0x88, 0x64, 0x11, 0, 0, 9, 0, 60, 0, 0x21])),
        (113, sll([8, 0])),
        (276, [vec![8, 0], vec![0; 18], p.clone()].concat()),
        (0, [vec![2, 0, 0, 0], p.clone()].concat()),
        (0, [vec![0, 0, 0, 2], p.clone()].concat()),
        (108, [vec![0, 0, 0, 2], p.clone()].concat()),
        // The upper bits of the link type tell of a frame check sequence of 4 bytes.
        (0x4400_0001, [ethernet(&[8, 0]), vec![1; 4]].concat()),
    ] {
        let o = Order(false);
        let file = [o.pcap(0xa1b2_c3d4, link), o.frame(0, 0, &frame, 1600)].concat();
        assert_eq!(read(&file).unwrap()[0].header, header(1), "link type {link}");
    }
}

#[test]
fn what_is_no_ip_is_counted() {
    let o = Order(false);
    let arp = [vec![0xff; 12], vec![8, 6], vec![0; 28]].concat();
    // PPPoE that looks for a session, and an echo of LCP.
    let discovery = [vec![0xff; 12], vec![0x88, 0x63, 0x11, 9, 0, 0, 0, 0], vec![0; 40]].concat();
    let echo = [vec![2; 12], vec![0x88, 0x64, 0x11, 0, 0, 9, 0, 10, 0xc0, 0x21], vec![0; 40]].concat();
    let cut = [vec![0; 12], vec![8, 0], packet(1)[..15].to_vec()].concat();
    let good = [vec![0; 12], vec![8, 0], packet(1)].concat();
    let mut file = o.pcap(0xa1b2_c3d4, 1);
    for frame in [&arp, &arp[..13], &[], &discovery, &echo, &echo[..20], &cut, &good] {
        file.extend(o.frame(1, 0, frame, 1514));
    }
    let mut reader = Reader::new(&file[..]).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().frame, 8);
    assert!(reader.next().is_none());
    let left_out = reader.decoder().left_out();
    let said: Vec<String> = left_out.sorted().iter().map(|(what, n)| format!("{n} {what}")).collect();
    let expected = [
        "4 frames cut before the end of the IP header",
        "1 frames of ethertype 0x0806 (ARP)",
        "1 frames of ethertype 0x8863 (PPPoE discovery)",
        "1 frames of PPP protocol 0xc021 (LCP)",
    ];
    assert_eq!(said, expected);
}

#[test]
fn a_length_that_offload_left_open_is_the_frame_s() {
    let o = Order(false);
    let mut v4 = packet(1);
    v4[2..4].fill(0);
    let mut v6 = vec![0x60, 0, 0, 0, 0, 0, 6, 64];
    v6.extend([0x20; 32]);
    v6.extend(&v4[20..]);
    let file = [
        o.pcap(0xa1b2_c3d4, 1),
        o.frame(0, 0, &[vec![0; 12], vec![8, 0], v4].concat(), 3014),
        o.frame(0, 0, &[vec![0; 12], vec![0x86, 0xdd], v6].concat(), 70_054),
    ]
    .concat();
    let got = read(&file).unwrap();
    assert_eq!((got[0].header.len, got[0].header.tcp.unwrap().payload), (Bytes(3000), 2948));
    assert_eq!((got[1].header.len, got[1].header.tcp.unwrap().payload), (Bytes(70_040), 69_968));
}

/// Ethernet has 14 bytes, IPv4 20 and GRE 4, the packet in it 20 of IPv4 and 32 of TCP with its timestamps.
#[test]
fn a_cut_header_needs_the_tunnels_before_it_too() {
    let inner = packet(1);
    let gre = [0x45, 0, 5, 0xf4, 0, 1, 0, 0, 64, 47, 0, 0, 203, 0, 113, 1, 203, 0, 113, 2, 0, 0, 8, 0];
    let frame = |tunnel: &[u8]| [&[0; 12][..], &[8, 0], tunnel, &inner[..40]].concat();
    let o = Order(false);
    for (tunnel, needed) in [(&[][..], 66), (&gre, 90)] {
        let file = [o.pcap(0xa1b2_c3d4, 1), o.frame(0, 0, &frame(tunnel), 1600)].concat();
        let mut reader = Reader::new(&file[..]).unwrap().through_tunnels();
        assert!(reader.next().unwrap().unwrap().header.tcp.unwrap().cut);
        assert_eq!((reader.decoder().cut().segments, reader.decoder().cut().needed), (1, needed));
    }
}

#[test]
fn faults_are_named_with_their_place() {
    let o = Order(false);
    let (head, frame) = (o.pcap(0xa1b2_c3d4, 101), o.frame(0, 0, &packet(1), 1500));
    let pcap = |rest: &[u8]| complaint(&[head.clone(), frame.clone(), rest.into()].concat());
    assert_eq!(complaint(&[]), "the file ends inside the file header");
    assert_eq!(complaint(&head[..23]), "the file ends inside the file header");
    for (bytes, said) in [
        (
            &b"GIF89a"[..],
            "it is text (it begins with 47 49 46 38); a capture is what tcpdump -w FILE or Wireshark writes",
        ),
        (
            &[0xff; 30],
            "it is of an unknown format (it begins with ff ff ff ff); if Wireshark reads it, convert it: ",
        ),
        (b"XCP\x002.002\0\0\0\0\0\0\0", "it is a capture of NetXRay"),
        (b"ObserverPktBuffe", "it is a capture of Observer"),
    ] {
        let complaint = complaint(bytes);
        assert!(
            complaint.starts_with(&format!("neither pcap nor pcapng, snoop or ERF: {said}")),
            "{complaint}"
        );
    }
    assert_eq!(pcap(&frame[..15]), "at frame 2: the file ends inside a frame's header");
    assert_eq!(pcap(&frame[..17]), "at frame 2: the file ends inside a frame's bytes");
    assert_eq!(
        pcap(&o.words(&[0, 0, 0xffff_ffff, 0])),
        "at frame 2: the captured length is 4294967295: expected 0 to 262144"
    );
    let mut third = head.clone();
    third[4] = 3;
    assert_eq!(complaint(&third), "format version 3: expected 2 for pcap, 1 for pcapng");

    let begin = [o.section(), o.interface(105, 0, &[]), o.interface(101, 0, &[])].concat();
    let good = o.enhanced(1, 0, &packet(1), 1500);
    let ng = |rest: &[u8]| complaint(&[begin.clone(), good.clone(), rest.into()].concat());
    assert_eq!(ng(&o.enhanced(2, 0, &[], 0)), "at frame 2: interface 2 was not described before");
    assert_eq!(ng(&good[..good.len() - 1]), "at frame 2: the file ends inside a block");
    assert_eq!(ng(&good[..7]), "at frame 2: the file ends inside a block's header");
    let mut closing = good.clone();
    *closing.last_mut().unwrap() = 1;
    let told = "at frame 2: a block's closing length is 16777300: expected 84";
    assert_eq!(ng(&closing), told);
    assert_eq!(ng(&o.words(&[6, 11])), "at frame 2: a block's length is 11: expected 12 to 16777216");
    assert_eq!(ng(&o.words(&[77, 0])), "at frame 2: a block's length is 0: expected 12 to 4294967295");
    assert_eq!(ng(&o.words(&[77, 400, 0])), "at frame 2: the file ends inside a block");
    assert_eq!(ng(&o.block(6, &[0; 16])), "at frame 2: a packet block is 16: expected 20 to 16777216");
    let long = o.block(6, &o.words(&[1, 0, 0, 9, 9, 0, 0]));
    assert_eq!(ng(&long), "at frame 2: the captured length is 9: expected 0 to 8");
    let option = [o.half(9), o.half(1), vec![39, 0, 0, 0]].concat();
    assert_eq!(ng(&o.interface(1, 0, &option)), "at frame 2: time resolution 0x27 is finer than 10^-38 s");
    let magic = o.block(0x0a0d_0d0a, &[0; 16]);
    assert_eq!(ng(&magic), "at frame 2: byte-order magic 00 00 00 00: expected 1a 2b 3c 4d either way");
    let mut source = Reader::new(&head[..10]).map(|_| ()).unwrap_err();
    source.kind = CaptureErrorKind::Read(io::Error::other("the disk is gone"));
    assert_eq!(source.to_string(), "cannot read: the disk is gone");
}

#[test]
fn an_error_is_the_last_word() {
    let o = Order(false);
    let file = [o.pcap(0xa1b2_c3d4, 101), vec![0; 7]].concat();
    let mut reader = Reader::new(&file[..]).unwrap();
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

#[test]
fn a_file_written_by_hand_and_read_back() {
    let mut w = Writer::new(Vec::new()).unwrap();
    w.write(Instant::from_nanos(3_000_000_007), &header(1)).unwrap();
    w.write(Instant::from_nanos(3_000_000_008), &header(2)).unwrap();
    w.flush().unwrap();
    let file = w.into_inner();
    let head = [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0];
    assert_eq!(file[..24], head);
    assert_eq!(file[24..40], [3, 0, 0, 0, 7, 0, 0, 0, 52, 0, 0, 0, 0xdc, 5, 0, 0]);
    assert_eq!(file.len(), 24 + 2 * (16 + 52));
    let got = read(&file).unwrap();
    assert_eq!((got[1].at.as_nanos(), got[1].header, got[1].original_len), (1, header(2), 1500));

    let mut whole = Writer::with_payload(Vec::new()).unwrap();
    whole.write(Instant::ZERO, &header(1)).unwrap();
    let file = whole.into_inner();
    assert_eq!(file.len(), 24 + 16 + 1500);
    assert_eq!(crate::tcp_checksum(&file[40..]).unwrap().to_be_bytes(), file[76..78]);

    let mut frames = FrameWriter::new(Vec::new(), LinkType::Ethernet, 134).unwrap();
    frames.write(Instant::from_nanos(3_000_000_007), &[9; 200], 200).unwrap();
    assert!(frames.write(Instant::from_nanos(u64::MAX), &[], 0).is_err());
    let file = frames.into_inner();
    assert_eq!((file[16], file[20], file.len()), (134, 1, 24 + 16 + 134));
    assert_eq!(file[24..40], [3, 0, 0, 0, 7, 0, 0, 0, 134, 0, 0, 0, 200, 0, 0, 0]);
}

/// Files of every kind, for what follows.
fn specimens() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for o in [Order(false), Order(true)] {
        let ethernet = [vec![0; 12], vec![0x81, 0, 0, 1, 8, 0], packet(1)].concat();
        all.push(
            [o.pcap(0xa1b2_3c4d, 1), o.frame(1, 2, &ethernet, 1518), o.frame(1, 3, &ethernet, 1518)].concat(),
        );
        all.push(
            [
                o.section(),
                o.interface(101, 96, &[o.half(9), o.half(1), vec![9, 0, 0, 0]].concat()),
                o.enhanced(0, 1 << 60, &packet(1), 1500),
                o.block(5, &[0; 8]),
                o.block(3, &[o.words(&[1500]), packet(2)].concat()),
            ]
            .concat(),
        );
    }
    all
}

#[test]
fn every_cut_is_told_and_none_panics() {
    for file in specimens() {
        let whole = read(&file).unwrap().len();
        assert_eq!(whole, 2);
        for n in 0..file.len() {
            // A cut between frames or blocks is a shorter file; any other is an error.
            if let Ok(got) = read(&file[..n]) {
                assert!(got.len() < whole, "{n}");
            }
            fuzzing::capture(&file[..n]);
        }
    }
}

#[test]
fn rubbish_is_told_and_never_panics() {
    for seed in 0..4_000 {
        let mut rng = XorShift::new(seed);
        for mut file in specimens() {
            for _ in 0..=rng.below(4) {
                let at = rng.below(file.len() as u64) as usize;
                file[at] = rng.below(256) as u8;
            }
            let result = std::panic::catch_unwind(|| fuzzing::capture(&file));
            assert!(result.is_ok(), "seed {seed}");
        }
        let mut noise: Vec<u8> = (0..rng.below(200)).map(|_| rng.below(256) as u8).collect();
        noise.splice(..0, specimens()[rng.below(4) as usize][..28].iter().copied());
        fuzzing::capture(&noise);
    }
}
