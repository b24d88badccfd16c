use std::sync::LazyLock;

use narrows_wire::{FlowKey, parse};

use super::*;

static PAGES: LazyLock<Http503> = LazyLock::new(Http503::default);
const THIRD: Standing = Standing { position: 3, wait: Duration::from_millis(6_100) };

fn key(v6: bool) -> FlowKey {
    let (client, server): (IpAddr, IpAddr) = if v6 {
        ("fd00::5".parse().unwrap(), "2001:db8::1".parse().unwrap())
    } else {
        ([10, 0, 0, 5].into(), [192, 0, 2, 1].into())
    };
    FlowKey::new(client, server, 40_000, HTTP, Proto::TCP)
}

/// A segment from the client.
fn segment(v6: bool, flags: Flags, seq: u32, ack: u32, payload: u32) -> Header {
    let tcp = TcpHeader { seq: SeqNum(seq), ack: SeqNum(ack), flags, payload, ..TcpHeader::default() };
    Header { key: key(v6), tcp: Some(tcp), ..Header::default() }
}

fn ask(h: &Header) -> Option<Answer> {
    PAGES.segment(h, |_| THIRD)
}

/// Reads a packet of ours, having checked both its sums.
fn read(packet: &[u8], v6: bool) -> (Header, TcpHeader) {
    let ip = if v6 { 40 } else { 20 };
    if !v6 {
        assert_eq!(checksum(&packet[..20], 0), 0, "a sum over a right header is zero (RFC 1071)");
    }
    assert_eq!(packet[ip + 16..ip + 18], tcp_checksum(packet).unwrap().to_be_bytes());
    let h = parse(packet).unwrap();
    assert_eq!((h.key, h.len.get(), h.fragment), (key(v6).reverse(), packet.len() as u64, false));
    (h, h.tcp.unwrap())
}

fn syn_ack(v6: bool) -> TcpHeader {
    read(&PAGES.syn(&segment(v6, Flags::SYN, 1_000, 0, 0)).unwrap(), v6).1
}

#[test]
fn a_syn_is_answered_for_the_server() {
    for (v6, mss, len) in [(false, 1460, 44), (true, 1440, 64)] {
        let packet = PAGES.syn(&segment(v6, Flags::SYN, u32::MAX, 0, 0)).unwrap();
        assert_eq!(packet.len(), len);
        let (_, t) = read(&packet, v6);
        assert_eq!((t.flags, t.ack, t.mss), (Flags::SYN.and(Flags::ACK), SeqNum(0), Some(mss)));
        assert_eq!((t.window, t.window_scale, t.timestamps, t.payload), (65_535, None, None, 0));
        assert_eq!(t.seq, syn_ack(v6).seq, "of the connection, not of the segment");
    }
    assert_ne!(syn_ack(false).seq, syn_ack(true).seq);
}

#[test]
fn a_sum_by_hand() {
    // 10.0.0.5:40000 to 192.0.2.1:80 the words of the pseudo header (0a00 0005 c000 0201 0006 0018),
    // ports (0050 9c40), acknowledgment (0000 03e9), offset and flags (6012), window (ffff) and MSS (0204 05b4). With
    // ISN and checksum they must sum to ffff.
    let packet = PAGES.syn(&segment(false, Flags::SYN, 1_000, 0, 0)).unwrap();
    let words = |b: &[u8]| b.chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]]))).sum::<u32>();
    let by_hand = 0x0a00
        + 0x0005
        + 0xc000
        + 0x0201
        + 0x0006
        + 0x0018
        + 0x0050
        + 0x9c40
        + 0x03e9
        + 0x6012
        + 0xffff
        + 0x0204
        + 0x05b4;
    let mut sum = by_hand + words(&packet[24..28]) + words(&packet[36..38]);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    assert_eq!(sum, 0xffff);
}

#[test]
fn a_request_is_answered_503_with_the_place_and_the_wait() {
    for v6 in [false, true] {
        let isn = syn_ack(v6).seq.0;
        let get = segment(v6, Flags::ACK.and(Flags::PSH), 1_001, isn.wrapping_add(1), 120);
        let Some(Answer::Page(packet)) = ask(&get) else { panic!("no page") };
        let (_, t) = read(&packet, v6);
        assert_eq!(t.flags, Flags::PSH.and(Flags::FIN).and(Flags::ACK));
        assert_eq!((t.seq.0, t.ack.0), (isn.wrapping_add(1), 1_121));
        let text = std::str::from_utf8(&packet[packet.len() - t.payload as usize..]).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\n"), "{head}");
        assert!(head.contains(&format!("\r\nContent-Length: {}", body.len())), "{head}");
        assert!(head.contains("\r\nConnection: close\r\n"));
        assert!(body.contains("link is full. You are number 3 in line; try again in 7 s"), "{body}");
    }
}

#[test]
fn every_answer_has_one_length_and_a_wait_that_admission_remembers() {
    let second = 1_000_000_000;
    for (position, wait, told) in [
        (1, 0, 1),
        (1, second, 1),
        (9, second + 1, 2),
        (4096, 60 * second, 60),
        (1_048_576, u64::MAX, 60),
        (usize::MAX, 61 * second, 60),
    ] {
        let text = page(Standing { position, wait: Duration::from_nanos(wait) });
        assert_eq!(text.len(), LENGTH, "{text}");
        assert!(text.contains(&format!("\r\nRetry-After: {told}\r\n")), "{text}");
    }
}

#[test]
fn a_whole_conversation() {
    let isn = syn_ack(false).seq.0;
    let at = |n: usize| isn.wrapping_add(1).wrapping_add(n as u32);
    let fin = Flags::FIN.and(Flags::ACK);
    let one = |flags, seq, ack, payload| ask(&segment(false, flags, seq, ack, payload));
    let ack = |answer: Option<Answer>, seq: u32, ack: u32| {
        let Some(Answer::Ack(packet)) = answer else { panic!("{answer:?}") };
        let (_, t) = read(&packet, false);
        assert_eq!((t.flags, t.seq.0, t.ack.0, t.payload), (Flags::ACK, seq, ack, 0));
    };
    assert_eq!(one(Flags::ACK, 1_001, at(0), 0), Some(Answer::Nothing), "the handshake ends");
    assert!(matches!(one(Flags::ACK, 1_001, at(0), 100), Some(Answer::Page(_))));
    assert!(matches!(one(Flags::ACK, 1_001, at(0), 100), Some(Answer::Page(_))), "lost: sent again");
    assert_eq!(one(Flags::ACK, 1_101, at(LENGTH + 1), 0), Some(Answer::Nothing));
    ack(one(Flags::ACK, 1_101, at(LENGTH + 1), 50), at(LENGTH + 1), 1_151);
    ack(one(fin, 1_151, at(LENGTH + 1), 0), at(LENGTH + 1), 1_152);
    ack(one(fin, 1_151, at(LENGTH), 0), at(LENGTH), 1_152);
    assert_eq!(one(Flags::RST.and(Flags::ACK), 1_101, at(1), 0), Some(Answer::Nothing));
    // A client that closes without asking gets the answer with our FIN all the same, and is not left half open.
    assert!(matches!(one(fin, 1_001, at(0), 0), Some(Answer::Page(_))));
}

#[test]
fn what_is_not_ours_goes_on() {
    let isn = syn_ack(false).seq.0;
    let at = |n: u32| isn.wrapping_add(1).wrapping_add(n);
    let beyond = LENGTH as u32 + 2;
    for ack in [at(0).wrapping_sub(1), at(beyond), at(1 << 31), at(u32::MAX / 2)] {
        for flags in [Flags::ACK, Flags::ACK.and(Flags::FIN), Flags::ACK.and(Flags::RST)] {
            assert_eq!(ask(&segment(false, flags, 1_001, ack, 100)), None, "{}", ack.wrapping_sub(isn));
        }
    }
    let good = segment(false, Flags::ACK, 1_001, at(0), 100);
    assert!(ask(&good).is_some());
    assert_eq!(Http503::default().segment(&good, |_| THIRD), None, "another secret");
    let with = |change: fn(&mut Header)| {
        let mut h = good;
        change(&mut h);
        (ask(&h), PAGES.syn(&Header { tcp: h.tcp.map(|t| TcpHeader { flags: Flags::SYN, ..t }), ..h }))
    };
    assert_eq!(with(|h| h.fragment = true), (None, None));
    assert_eq!(with(|h| h.tcp = None), (None, None));
    assert_eq!(with(|h| h.key.dport = 443), (None, None));
    assert_eq!(with(|h| h.key.proto = Proto::UDP), (None, None));
    for source in ["224.0.0.1", "255.255.255.255", "0.0.0.0", "127.0.0.1"] {
        let source: IpAddr = source.parse().unwrap();
        let key = FlowKey::new(source, good.key.dst(), 40_000, HTTP, Proto::TCP);
        let isn = PAGES.isn(&Header { key, ..good });
        let tcp = good.tcp.map(|t| TcpHeader { ack: isn + 1, ..t });
        assert_eq!(ask(&Header { key, tcp, ..good }), None, "{source}");
    }
    assert_eq!(ask(&segment(false, Flags::default(), 1_001, at(0), 100)), None, "no acknowledgment");
    assert_eq!(ask(&segment(false, Flags::SYN.and(Flags::ACK), 1_001, at(0), 0)), None);
    for flags in [Flags::ACK, Flags::RST, Flags::FIN] {
        assert_eq!(PAGES.syn(&segment(false, Flags::SYN.and(flags), 1, 2, 0)), None);
    }
}

/// RFC 6528, section 3: an outsider cannot tell one connection's number from another's. That every bit of the key
/// counts is the least of it; of the numbers of neighbouring ports, as of dice, no bit is the same in all.
/// A SYN in GRE (RFC 2784) to another port, whose digest in the key happens to be 80.
#[test]
fn nobody_within_a_tunnel_is_answered() {
    let syn = |n: u32| {
        let mut p = vec![0x45, 0, 0, 64, 0, 1, 0, 0, 64, 47, 0, 0, 10, 0, 1, 1, 10, 0, 1, 2, 0, 0, 8, 0];
        p.extend([0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0]);
        p.extend([&n.to_be_bytes()[..], &[192, 0, 2, 1, 0x9c, 0x40, 1, 0xbb]].concat());
        p.extend([0, 0, 0, 7, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]);
        let mut header = parse(&p).unwrap();
        header.look_inside(&p);
        header
    };
    let found = (0x0a00_0000..0x0b00_0000).map(syn).find(|header| header.key.dport == HTTP).unwrap();
    assert!(found.key.proto == Proto::TCP && found.tcp.is_some_and(|tcp| tcp.flags == Flags::SYN));
    assert!(!is_answerable(&found) && PAGES.syn(&found).is_none() && ask(&found).is_none());
}

#[test]
fn every_bit_of_a_connection_is_in_its_number() {
    let isn = |key| PAGES.isn(&Header { key, ..Header::default() }).0;
    let (client, server) = (0xfd00_u128 << 112 | 5, 0x2001_0db8_u128 << 96 | 1);
    let of = |client: u128, server: u128, port| {
        let v6 = |bits: u128| IpAddr::from(bits.to_be_bytes());
        isn(FlowKey::new(v6(client), v6(server), port, HTTP, Proto::TCP))
    };
    let plain = of(client, server, 40_000);
    for bit in 0..128 {
        assert_ne!(of(client ^ 1 << bit, server, 40_000), plain, "bit {bit} of the client");
        assert_ne!(of(client, server ^ 1 << bit, 40_000), plain, "bit {bit} of the server");
    }
    let neighbours: Vec<u32> = (40_000..40_100).map(|port| of(client, server, port) ^ plain).collect();
    assert_eq!(neighbours.iter().fold(0, |any, isn| any | isn), u32::MAX);
    let steps: std::collections::HashSet<u32> =
        neighbours.windows(2).map(|two| two[1].wrapping_sub(two[0])).collect();
    assert!(steps.len() > 95, "{} steps of 99", steps.len());
}

#[test]
fn any_bytes_are_answered_rightly_or_not_at_all() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut answered = 0;
    for _ in 0..200_000 {
        let mut bytes: Vec<u8> = (0..rng.usize(0..120)).map(|_| rng.u8(..)).collect();
        // Mostly what looks like a segment to port 80, or nothing would ever be reached.
        let ip = if rng.bool() { 20 } else { 40 };
        if rng.u8(..) > 20 && bytes.len() > ip + 14 {
            let len = bytes.len() as u16;
            if ip == 20 {
                bytes[0] = 0x45;
                bytes[2..4].copy_from_slice(&len.to_be_bytes());
                bytes[6..8].fill(0);
                bytes[9] = 6;
            } else {
                bytes[0] = 0x60;
                bytes[4..6].copy_from_slice(&(len - 40).to_be_bytes());
                bytes[6] = 6;
            }
            bytes[ip + 2..ip + 4].copy_from_slice(&80u16.to_be_bytes());
            bytes[ip + 12] = 0x50;
            if rng.bool() {
                bytes[ip + 13] &= 2;
            }
        }
        let Ok(header) = parse(&bytes) else { continue };
        for packet in [PAGES.syn(&header), one_page(&header)].into_iter().flatten() {
            answered += 1;
            let back = parse(&packet).unwrap();
            assert_eq!(back.key, header.key.reverse());
            let at =
                packet.len() - back.tcp.unwrap().payload as usize - if packet.len() < 100 { 24 } else { 20 };
            assert_eq!(packet[at + 16..at + 18], tcp_checksum(&packet).unwrap().to_be_bytes());
        }
    }
    assert!(answered > 1_000, "{answered}");
}

/// The page for a segment whose acknowledgment number is made to fit.
fn one_page(header: &Header) -> Option<Vec<u8>> {
    let tcp = header.tcp.map(|t| TcpHeader { ack: PAGES.isn(header) + 1, ..t });
    match ask(&Header { tcp, ..*header })? {
        Answer::Page(packet) => Some(packet),
        _ => None,
    }
}
