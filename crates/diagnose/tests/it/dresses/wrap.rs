//! Dresses of packets: link layers, what stands between them and IP, tunnels, file formats. Written from the same
//! sources as the reader, and by hand, so that a mistake of one does not agree with one of the other.

/// A packet of the story.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    /// Nanoseconds since 1970.
    pub(crate) at: u64,
    /// Whether it comes from the end that opened the connection.
    pub(crate) forth: bool,
    pub(crate) bytes: Vec<u8>,
}

/// Maker of a frame of a packet.
pub(crate) type Frame = fn(&Packet) -> Vec<u8>;

fn cat(head: &[u8], rest: &[u8]) -> Vec<u8> {
    [head, rest].concat()
}

/// The ethertype of a packet.
fn kind(p: &[u8]) -> [u8; 2] {
    if p[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] }
}
/// Its protocol in PPP.
fn ppp_kind(p: &[u8]) -> u8 {
    if p[0] >> 4 == 4 { 0x21 } else { 0x57 }
}

const MACS: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

fn typed(kind: [u8; 2], body: &[u8]) -> Vec<u8> {
    [&MACS[..], &kind, body].concat()
}
pub(crate) fn ethernet(p: &Packet) -> Vec<u8> {
    typed(kind(&p.bytes), &p.bytes)
}
fn inner_frame(p: &Packet) -> Vec<u8> {
    ethernet(p)
}
/// Ethernet with this between its addresses and the type of the packet.
fn tagged(p: &Packet, tags: &[u8]) -> Vec<u8> {
    [&MACS[..], tags, &kind(&p.bytes), &p.bytes].concat()
}
fn llc(p: &Packet) -> Vec<u8> {
    [&[0xaa, 0xaa, 3, 0, 0, 0][..], &kind(&p.bytes), &p.bytes].concat()
}
fn ppp(p: &Packet) -> Vec<u8> {
    [&[0xff, 3, 0, ppp_kind(&p.bytes)][..], &p.bytes].concat()
}

fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// IPv4 between two ends of a tunnel.
pub(crate) fn v4(p: &Packet, proto: u8, body: &[u8]) -> Vec<u8> {
    let len = (20 + body.len()) as u16;
    let ends = if p.forth { [172, 16, 0, 1, 172, 16, 0, 2] } else { [172, 16, 0, 2, 172, 16, 0, 1] };
    let mut head = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, proto, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    head[2..4].copy_from_slice(&len.to_be_bytes());
    // Tunnels count their packets, too.
    head[4..6].copy_from_slice(&((p.at / 1000) as u16 | 1).to_be_bytes());
    head[12..].copy_from_slice(&ends);
    let sum = sum(&head);
    head[10..12].copy_from_slice(&sum.to_be_bytes());
    cat(&head, body)
}
fn v6(p: &Packet, next: u8, body: &[u8]) -> Vec<u8> {
    let [a, b] = if p.forth { [[0x21; 16], [0x22; 16]] } else { [[0x22; 16], [0x21; 16]] };
    let len = (body.len() as u16).to_be_bytes();
    [&[0x60, 0, 0, 0, len[0], len[1], next, 64][..], &a, &b, body].concat()
}
fn udp(p: &Packet, from: u16, to: u16, body: &[u8]) -> Vec<u8> {
    let len = (8 + body.len()) as u16;
    let head = [from.to_be_bytes(), to.to_be_bytes(), len.to_be_bytes(), [0, 0]].concat();
    v4(p, 17, &cat(&head, body))
}
/// A tunnel's packet on Ethernet.
fn on_ethernet(p: &Packet, packet: Vec<u8>) -> Vec<u8> {
    ethernet(&Packet { bytes: packet, ..p.clone() })
}
fn over_gre(p: &Packet, head: &[u8], body: &[u8]) -> Vec<u8> {
    on_ethernet(p, v4(p, 47, &cat(head, body)))
}
fn over_udp(p: &Packet, port: u16, head: &[u8], body: &[u8]) -> Vec<u8> {
    on_ethernet(p, udp(p, 49_999, port, &cat(head, body)))
}

/// TCP behind an authentication header in the packet itself (RFC 4302, transport mode).
fn authenticated(p: &Packet) -> Vec<u8> {
    let (head, body) = p.bytes.split_at(20);
    let ah = [&[6, 4, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1][..], &[9; 12]].concat();
    let mut head = head.to_vec();
    let len = u16::from_be_bytes([head[2], head[3]]) + 24;
    head[2..4].copy_from_slice(&len.to_be_bytes());
    head[9] = 51;
    [head, ah, body.to_vec()].concat()
}
/// ESP that encrypts nothing (RFC 2410), with 12 bytes that authenticate.
fn esp(body: &[u8], next: u8) -> Vec<u8> {
    let filling = (6 - body.len() % 4) % 4;
    let counts: Vec<u8> = (1..=filling as u8).collect();
    [&[0, 0, 0, 7, 0, 0, 0, 1][..], body, &counts, &[filling as u8, next], &[9; 12]].concat()
}

/// 802.11 data to an access point, with quality of service if wanted.
fn radio(p: &Packet, quality: bool) -> Vec<u8> {
    let control = if quality { [0x88, 1] } else { [8, 1] };
    let head = [&control[..], &[0, 0], &[2; 6], &[3; 6], &[4; 6], &[0, 0]].concat();
    [head, if quality { vec![0, 0] } else { vec![] }, llc(p)].concat()
}

/// Link layers and what stands between them and IP, with the number of the link layer.
pub(crate) const FRAMES: &[(&str, u32, Frame)] = &[
    ("ethernet", 1, ethernet),
    ("null, little-endian", 0, |p| cat(&[2, 0, 0, 0], &p.bytes)),
    ("null, big-endian", 0, |p| cat(&[0, 0, 0, 2], &p.bytes)),
    ("OpenBSD's loop", 108, |p| cat(&[0, 0, 0, 2], &p.bytes)),
    ("OpenBSD's loop as 12", 12, |p| cat(&[0, 0, 0, 2], &p.bytes)),
    ("token ring", 6, |p| [&[0x10, 0x40][..], &MACS, &llc(p)].concat()),
    ("token ring with a route", 6, |p| {
        let mut macs = MACS;
        macs[6] |= 0x80;
        [&[0x10, 0x40][..], &macs, &[6, 0x30, 1, 2, 3, 4], &llc(p)].concat()
    }),
    ("PPP", 9, ppp),
    ("PPP without address", 9, |p| [&[0, ppp_kind(&p.bytes)][..], &p.bytes].concat()),
    ("PPP with a short protocol", 9, |p| [&[ppp_kind(&p.bytes)][..], &p.bytes].concat()),
    ("PPP in HDLC", 50, ppp),
    ("Cisco's HDLC as 50", 50, |p| [&[0x0f, 0][..], &kind(&p.bytes), &p.bytes].concat()),
    ("pppd's", 166, |p| [&[u8::from(p.forth), 3, 0, ppp_kind(&p.bytes)][..], &p.bytes].concat()),
    ("PPP with direction", 204, |p| cat(&[u8::from(p.forth)], &ppp(p))),
    ("PPP with direction, no address", 204, |p| {
        [&[u8::from(p.forth), 0, ppp_kind(&p.bytes)][..], &p.bytes].concat()
    }),
    ("FDDI", 10, |p| [&[0x50][..], &MACS, &llc(p)].concat()),
    ("raw 12", 12, |p| p.bytes.clone()),
    ("raw 14", 14, |p| p.bytes.clone()),
    ("raw 101", 101, |p| p.bytes.clone()),
    ("IPv4 228", 228, |p| p.bytes.clone()),
    ("a session of PPPoE", 51, |p| {
        let len = (p.bytes.len() as u16 + 2).to_be_bytes();
        [&[0x11, 0, 0, 9][..], &len, &[0, ppp_kind(&p.bytes)], &p.bytes].concat()
    }),
    ("ATM", 100, llc),
    ("SunATM", 123, |p| cat(&[0x80, 0, 0, 0x21], &llc(p))),
    ("Cisco's HDLC", 104, |p| [&[0x0f, 0][..], &kind(&p.bytes), &p.bytes].concat()),
    ("Cisco's HDLC with direction", 205, |p| [&[1, 0x8f, 0][..], &kind(&p.bytes), &p.bytes].concat()),
    ("802.11", 105, |p| radio(p, false)),
    ("802.11 with quality of service", 105, |p| radio(p, true)),
    ("802.11 between access points", 105, |p| {
        let head = [&[8, 3, 0, 0][..], &[2; 6], &[3; 6], &[4; 6], &[0, 0], &[5; 6]].concat();
        cat(&head, &llc(p))
    }),
    ("radiotap", 127, |p| cat(&[0, 0, 8, 0, 0, 0, 0, 0], &radio(p, false))),
    ("radiotap with time and flags", 127, |p| {
        // Present: time and flags; the header of 26 bytes is filled up to words.
        let head = [&[0, 0, 18, 0, 3, 0, 0, 0][..], &[9; 8], &[0x20, 0]].concat();
        let radio = radio(p, true);
        [head, radio[..26].to_vec(), vec![0, 0], radio[26..].to_vec()].concat()
    }),
    ("prism", 119, |p| {
        let mut head = vec![0; 144];
        head[4] = 144;
        cat(&head, &radio(p, false))
    }),
    ("AVS", 163, |p| {
        let mut head = vec![0; 64];
        head[7] = 64;
        cat(&head, &radio(p, false))
    }),
    ("frame relay", 107, |p| cat(&[0x18, 0x41, 3, 0xcc], &p.bytes)),
    ("frame relay, Cisco's", 107, |p| [&[0x18, 0x41][..], &kind(&p.bytes), &p.bytes].concat()),
    ("OpenBSD's IPsec", 109, |p| [&[0; 12][..], &p.bytes].concat()),
    ("cooked", 113, |p| {
        let from = if p.forth { 1 } else { 2 };
        [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, from, 0, 0][..], &kind(&p.bytes), &p.bytes].concat()
    }),
    ("cooked with a VLAN", 113, |p| {
        [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 0x81, 0, 0, 7][..], &kind(&p.bytes), &p.bytes].concat()
    }),
    ("cooked with LLC", 113, |p| [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 0, 4][..], &llc(p)].concat()),
    ("cooked 2", 276, |p| {
        [&kind(&p.bytes)[..], &[0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0], &p.bytes].concat()
    }),
    ("cooked 2 with a VLAN", 276, |p| {
        let head = [0x81, 0, 0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 0, 7];
        [&head[..], &kind(&p.bytes), &p.bytes].concat()
    }),
    ("packet filter", 117, |p| [&[61, 2, 0, 0][..], &[0; 60], &p.bytes].concat()),
    ("Fibre Channel", 122, |p| [&[0; 16][..], &llc(p)].concat()),
    ("IEEE 1394", 138, |p| [&[0; 16][..], &kind(&p.bytes), &p.bytes].concat()),
    ("Juniper's Ethernet", 178, |p| cat(b"MGC\x01", &ethernet(p))),
    ("Juniper's Ethernet with extensions", 178, |p| cat(b"MGC\x80\x00\x03\x01\x01\x05", &ethernet(p))),
    ("Juniper's PPP", 179, |p| cat(b"MGC\x01", &ppp(p))),
    ("DOCSIS", 143, |p| cat(&[0, 0, 0, 0, 0, 0], &ethernet(p))),
    ("DOCSIS with an extended header", 143, |p| cat(&[1, 4, 0, 0, 9, 9, 9, 9, 0, 0], &ethernet(p))),
    ("per-packet information", 192, |p| cat(&[0, 0, 8, 0, 1, 0, 0, 0], &ethernet(p))),
    ("ERF in pcap", 197, |p| {
        let len = (p.bytes.len() as u16 + 32).to_be_bytes();
        [&[0; 8][..], &[2, 4, len[0], len[1], 0, 0, 0, 64, 0, 0], &ethernet(p)].concat()
    }),
    ("NFLOG", 239, |p| {
        let len = (p.bytes.len() as u16 + 4).to_le_bytes();
        [&[2, 0, 0, 5, 8, 0, 1, 0, 8, 0, 1, 0, 5, 0, 10, 0, 0, 0, 0, 0][..], &len, &[9, 0], &p.bytes].concat()
    }),
    ("NFLOG, big-endian", 239, |p| {
        let len = (p.bytes.len() as u16 + 4).to_be_bytes();
        [&[2, 0, 0, 5, 0, 8, 0, 1, 8, 0, 1, 0][..], &len, &[0, 9], &p.bytes].concat()
    }),
    ("InfiniBand", 242, |p| [&[0; 40][..], &kind(&p.bytes), &[0, 0], &p.bytes].concat()),
    ("InfiniBand with an address", 242, |p| [&[9; 20][..], &kind(&p.bytes), &[0, 0], &p.bytes].concat()),
    ("InfiniBand's payload", 242, |p| [&kind(&p.bytes)[..], &[0, 0], &p.bytes].concat()),
    ("LLC and SNAP", 1, |p| {
        let body = llc(p);
        typed((body.len() as u16).min(1500).to_be_bytes(), &body)
    }),
    ("802.1H", 1, |p| {
        let body = [&[0xaa, 0xaa, 3, 0, 0, 0xf8][..], &kind(&p.bytes), &p.bytes].concat();
        typed((body.len() as u16).min(1500).to_be_bytes(), &body)
    }),
    ("VLAN", 1, |p| tagged(p, &[0x81, 0, 0, 7])),
    ("802.1ad", 1, |p| tagged(p, &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8])),
    ("Q in Q by 9100", 1, |p| tagged(p, &[0x91, 0, 0, 7, 0x81, 0, 0, 8])),
    ("Q in Q by 9200", 1, |p| tagged(p, &[0x92, 0, 0, 7, 0x81, 0, 0, 8])),
    ("802.1BR", 1, |p| tagged(p, &[0x89, 0x3f, 0, 1, 2, 3, 4, 5])),
    ("VN-Tag", 1, |p| tagged(p, &[0x89, 0x26, 0, 1, 2, 3])),
    ("802.1ah", 1, |p| typed([0x88, 0xe7], &cat(&[0, 1, 2, 3], &inner_frame(p)))),
    ("802.1ah behind a VLAN", 1, |p| {
        [&MACS[..], &[0x88, 0xa8, 0, 7, 0x88, 0xe7, 0, 1, 2, 3], &inner_frame(p)].concat()
    }),
    ("Cisco's metadata", 1, |p| tagged(p, &[0x89, 0x09, 1, 1, 0, 1, 0, 7])),
    ("HSR", 1, |p| tagged(p, &[0x89, 0x2f, 0, 60, 0, 1])),
    ("MACsec without encryption", 1, |p| tagged(p, &[0x88, 0xe5, 0, 0, 0, 0, 0, 1])),
    ("a label", 1, |p| typed([0x88, 0x47], &cat(&[0, 1, 0x11, 64], &p.bytes))),
    ("four labels", 1, |p| {
        let stack = [0, 1, 0x10, 64, 0, 2, 0x10, 64, 0, 3, 0x10, 64, 0, 4, 0x11, 64];
        typed([0x88, 0x47], &cat(&stack, &p.bytes))
    }),
    ("labels for many", 1, |p| typed([0x88, 0x48], &cat(&[0, 1, 0x11, 64], &p.bytes))),
    ("a pseudowire", 1, |p| typed([0x88, 0x47], &cat(&[0, 1, 0x11, 64], &inner_frame(p)))),
    ("a pseudowire with a control word", 1, |p| {
        typed([0x88, 0x47], &cat(&[0, 1, 0x11, 64, 0, 0, 0, 9], &inner_frame(p)))
    }),
    ("PPPoE", 1, |p| {
        let len = (p.bytes.len() as u16 + 2).to_be_bytes();
        let head = [0x11, 0, 0, 9, len[0], len[1], 0, ppp_kind(&p.bytes)];
        typed([0x88, 0x64], &cat(&head, &p.bytes))
    }),
    ("PPPoE with a short protocol", 1, |p| {
        let len = (p.bytes.len() as u16 + 1).to_be_bytes();
        typed([0x88, 0x64], &cat(&[0x11, 0, 0, 9, len[0], len[1], ppp_kind(&p.bytes)], &p.bytes))
    }),
    ("a service header", 1, |p| {
        let head = [0, 0x82, 2, 1, 0, 0, 1, 255];
        typed([0x89, 0x4f], &cat(&head, &p.bytes))
    }),
    ("a service header with a context and a frame", 1, |p| {
        let head = [&[0, 0x86, 1, 3, 0, 0, 1, 255][..], &[0; 16]].concat();
        typed([0x89, 0x4f], &cat(&head, &inner_frame(p)))
    }),
    ("a DSA tag of Broadcom", 281, |p| tagged(p, &[0, 0, 0, 1])),
];

/// Tunnels, on Ethernet.
pub(crate) const TUNNELS: &[(&str, Frame)] = &[
    ("IP in IP", |p| on_ethernet(p, v4(p, 4, &p.bytes))),
    ("4in6", |p| on_ethernet(p, v6(p, 4, &p.bytes))),
    ("4in6 behind an option", |p| on_ethernet(p, v6(p, 60, &cat(&[4, 0, 4, 1, 4, 1, 0, 0], &p.bytes)))),
    ("4in6in4", |p| on_ethernet(p, v4(p, 41, &v6(p, 4, &p.bytes)))),
    ("GRE", |p| over_gre(p, &[0, 0, 8, 0], &p.bytes)),
    ("GRE with a sum", |p| over_gre(p, &[0x80, 0, 8, 0, 1, 2, 0, 0], &p.bytes)),
    ("GRE with key and number", |p| over_gre(p, &[0x30, 0, 8, 0, 0, 0, 0, 7, 0, 0, 0, 1], &p.bytes)),
    ("GRE with sum, key, number", |p| {
        over_gre(p, &[0xb0, 0, 8, 0, 1, 2, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1], &p.bytes)
    }),
    ("GRE with routes", |p| {
        over_gre(p, &[0x40, 0, 8, 0, 0, 0, 0, 0, 8, 0, 0, 4, 10, 0, 0, 1, 0, 0, 0, 0], &p.bytes)
    }),
    ("GRE with a frame", |p| over_gre(p, &[0, 0, 0x65, 0x58], &inner_frame(p))),
    ("GRE with labels", |p| over_gre(p, &[0, 0, 0x88, 0x47, 0, 1, 0x11, 64], &p.bytes)),
    ("GRE with NSH", |p| over_gre(p, &[0, 0, 0x89, 0x4f, 0, 0x82, 2, 3, 0, 0, 1, 255], &inner_frame(p))),
    ("WCCP", |p| over_gre(p, &[0, 0, 0x88, 0x3e, 1, 2, 3, 4], &p.bytes)),
    ("PPTP", |p| {
        let len = (p.bytes.len() as u16 + 4).to_be_bytes();
        over_gre(p, &[0x30, 1, 0x88, 0x0b, len[0], len[1], 0, 7, 0, 0, 0, 1], &ppp(p))
    }),
    ("PPTP that acknowledges", |p| {
        let len = (p.bytes.len() as u16 + 1).to_be_bytes();
        let head = [0x30, 0x81, 0x88, 0x0b, len[0], len[1], 0, 7, 0, 0, 0, 1, 0, 0, 0, 1, 0x21];
        over_gre(p, &head, &p.bytes)
    }),
    ("ERSPAN I", |p| over_gre(p, &[0, 0, 0x88, 0xbe], &inner_frame(p))),
    ("ERSPAN II", |p| {
        over_gre(p, &[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 7, 0, 1, 0, 0, 0, 0], &inner_frame(p))
    }),
    ("ERSPAN III", |p| {
        let head = [0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 7, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        over_gre(p, &head, &inner_frame(p))
    }),
    ("ERSPAN III with a subheader", |p| {
        let head = [&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 7, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1][..], &[0; 8]];
        over_gre(p, &head.concat(), &inner_frame(p))
    }),
    ("L2TP", |p| over_udp(p, 1701, &[0, 2, 0, 7, 0, 9], &ppp(p))),
    ("L2TP with length, numbers, padding", |p| {
        over_udp(p, 1701, &[0x4a, 2, 0, 57, 0, 7, 0, 9, 0, 1, 0, 0, 0, 2, 9, 9, 0x21], &p.bytes)
    }),
    ("L2TPv3 over UDP", |p| over_udp(p, 1701, &[0, 3, 0, 0, 0, 0, 0, 7], &inner_frame(p))),
    ("L2TPv3 with a cookie", |p| {
        on_ethernet(p, v4(p, 115, &cat(&[0, 0, 0, 7, 9, 9, 9, 9, 0, 0, 0, 0], &inner_frame(p))))
    }),
    ("L2TPv3 with PPP", |p| on_ethernet(p, v4(p, 115, &cat(&[0, 0, 0, 7], &ppp(p))))),
    ("GTP-U", |p| over_udp(p, 2152, &[0x30, 255, 0, 40, 0, 0, 0, 5], &p.bytes)),
    ("GTP-U with a number", |p| over_udp(p, 2152, &[0x32, 255, 0, 40, 0, 0, 0, 5, 0, 1, 0, 0], &p.bytes)),
    ("GTP-U of 5G", |p| {
        over_udp(p, 2152, &[0x34, 255, 0, 48, 0, 0, 0, 5, 0, 0, 0, 0x85, 1, 0, 9, 0], &p.bytes)
    }),
    ("VXLAN", |p| over_udp(p, 4789, &[8, 0, 0, 0, 0, 0, 42, 0], &inner_frame(p))),
    ("VXLAN with a group", |p| over_udp(p, 4789, &[0x88, 0, 0, 9, 0, 0, 42, 0], &inner_frame(p))),
    ("VXLAN on its old port", |p| over_udp(p, 8472, &[8, 0, 0, 0, 0, 0, 42, 0], &inner_frame(p))),
    ("VXLAN-GPE with a frame", |p| over_udp(p, 4790, &[0x0c, 0, 0, 3, 0, 0, 42, 0], &inner_frame(p))),
    ("VXLAN-GPE with a packet", |p| over_udp(p, 4790, &[0x0c, 0, 0, 1, 0, 0, 42, 0], &p.bytes)),
    ("VXLAN-GPE with NSH", |p| {
        over_udp(p, 4790, &[0x0c, 0, 0, 4, 0, 0, 42, 0, 0, 0x82, 2, 1, 0, 0, 1, 255], &p.bytes)
    }),
    ("Geneve", |p| over_udp(p, 6081, &[1, 0, 0x65, 0x58, 0, 0, 1, 0, 9, 9, 9, 9], &inner_frame(p))),
    ("Geneve with a packet", |p| over_udp(p, 6081, &[0, 0, 8, 0, 0, 0, 1, 0], &p.bytes)),
    ("labels in UDP", |p| over_udp(p, 6635, &[0, 1, 0x11, 64], &p.bytes)),
    ("labels in IP", |p| on_ethernet(p, v4(p, 137, &cat(&[0, 1, 0x11, 64], &p.bytes)))),
    ("GRE in UDP", |p| over_udp(p, 4754, &[0, 0, 8, 0], &p.bytes)),
    ("GUE", |p| over_udp(p, 6080, &[0, 4, 0, 0], &p.bytes)),
    ("LISP", |p| over_udp(p, 4341, &[0x80, 0, 0, 1, 0, 0, 0, 1], &p.bytes)),
    ("Teredo", |p| over_udp(p, 3544, &[], &v6(p, 4, &p.bytes))),
    ("Teredo with authentication and origin", |p| {
        let head = [&[0, 1, 0, 0][..], &[0; 9], &[0, 0, 1, 2, 3, 4, 5, 6]].concat();
        over_udp(p, 3544, &head, &v6(p, 4, &p.bytes))
    }),
    ("AYIYA", |p| {
        let head = [&[0x44, 0x52, 0x11, 4, 0, 0, 0, 1][..], &[0; 16], &[0; 20]].concat();
        over_udp(p, 5072, &head, &p.bytes)
    }),
    ("TZSP", |p| over_udp(p, 37_008, &[1, 0, 0, 1, 10, 1, 200, 0, 1], &inner_frame(p))),
    ("TZSP with 802.11", |p| over_udp(p, 37_008, &[1, 0, 0, 18, 1], &radio(p, false))),
    ("CAPWAP", |p| over_udp(p, 5247, &[0, 0x10, 2, 0, 0, 0, 0, 0], &inner_frame(p))),
    ("CAPWAP with 802.11", |p| over_udp(p, 5247, &[0, 0x10, 3, 0, 0, 0, 0, 0], &radio(p, false))),
    ("CAPWAP with 802.11 turned round", |p| {
        let mut radio = radio(p, true);
        radio.swap(0, 1);
        over_udp(p, 5247, &[0, 0x10, 3, 0, 0, 0, 0, 0], &radio)
    }),
    ("authentication", |p| on_ethernet(p, authenticated(p))),
    ("authentication of a tunnel", |p| {
        on_ethernet(p, v4(p, 51, &[&[4, 4, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1][..], &[9; 12], &p.bytes].concat()))
    }),
    ("ESP of a tunnel that encrypts nothing", |p| on_ethernet(p, v4(p, 50, &esp(&p.bytes, 4)))),
    ("ESP that encrypts nothing", |p| {
        let (head, body) = p.bytes.split_at(20);
        let mut head = head.to_vec();
        let esp = esp(body, 6);
        head[2..4].copy_from_slice(&((20 + esp.len()) as u16).to_be_bytes());
        head[9] = 50;
        on_ethernet(p, cat(&head, &esp))
    }),
    ("ESP in UDP that encrypts nothing", |p| on_ethernet(p, udp(p, 4500, 4500, &esp(&p.bytes, 4)))),
    ("ESP that says that it encrypts nothing", |p| {
        on_ethernet(p, v4(p, 141, &[&[4, 12, 12, 0][..], &[0, 0, 0, 7, 0, 0, 0, 1], &p.bytes].concat()))
    }),
    ("EtherIP", |p| on_ethernet(p, v4(p, 97, &cat(&[0x30, 0], &inner_frame(p))))),
    ("eight deep", |p| {
        let mut packet = p.bytes.clone();
        for _ in 0..8 {
            packet = v4(p, 4, &packet);
        }
        on_ethernet(p, packet)
    }),
];

/// Numbers in one of the two byte orders.
#[derive(Clone, Copy)]
pub(crate) struct Order(pub(crate) bool);

impl Order {
    pub(crate) fn half(self, v: u16) -> Vec<u8> {
        if self.0 { v.to_be_bytes().into() } else { v.to_le_bytes().into() }
    }
    pub(crate) fn words(self, words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| if self.0 { w.to_be_bytes() } else { w.to_le_bytes() }).collect()
    }
    pub(crate) fn pcap_head(self, magic: u32, minor: u16, link: u32) -> Vec<u8> {
        [self.words(&[magic]), self.half(2), self.half(minor), self.words(&[0, 0, 262_144, link])].concat()
    }
    /// A file of pcap.
    pub(crate) fn pcap(self, nanos: bool, link: u32, frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut file = self.pcap_head(if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }, 4, link);
        for (at, frame) in frames {
            let unit = if nanos { 1 } else { 1000 };
            let stamp = [(at / 1_000_000_000) as u32, (at % 1_000_000_000 / unit) as u32];
            file.extend(self.words(&[stamp[0], stamp[1], frame.len() as u32, frame.len() as u32]));
            file.extend(frame);
        }
        file
    }
    pub(crate) fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let len = 12 + body.len() as u32;
        [self.words(&[kind, len]), body, self.words(&[len])].concat()
    }
    pub(crate) fn section(self, minor: u16) -> Vec<u8> {
        let body = [self.words(&[0x1a2b_3c4d]), self.half(1), self.half(minor), vec![0xff; 8]].concat();
        self.block(0x0a0d_0d0a, &body)
    }
    /// An interface with a resolution as `if_tsresol` has it.
    pub(crate) fn interface(self, link: u16, resolution: Option<u8>) -> Vec<u8> {
        let options = resolution.map_or(Vec::new(), |r| {
            [self.half(9), self.half(1), vec![r, 0, 0, 0], self.half(0), self.half(0)].concat()
        });
        self.block(1, &[self.half(link), self.half(0), self.words(&[0]), options].concat())
    }
    pub(crate) fn enhanced(self, interface: u32, units: u64, frame: &[u8]) -> Vec<u8> {
        let len = frame.len() as u32;
        let head = self.words(&[interface, (units >> 32) as u32, units as u32, len, len]);
        self.block(6, &[head, frame.to_vec()].concat())
    }
    pub(crate) fn simple(self, frame: &[u8]) -> Vec<u8> {
        self.block(3, &[self.words(&[frame.len() as u32]), frame.to_vec()].concat())
    }
}
