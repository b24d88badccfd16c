//! A packet of a live link while it waits: its bytes, its headers read once, and what names it to the kernel.

use std::net::IpAddr;

use narrows_netio::frame;
use narrows_qdisc::{Direction, Packet};
use narrows_units::{Bytes, Dscp, Ecn};
use narrows_users::{CircuitId, LinkAddress, Mac, User};
use narrows_wire::{FlowKey, Header, Proto};

use super::sight::Mark;

/// Packets with errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorCounters {
    /// Packets that contradicted themselves. Malformed packets waited with what else of their user cannot be read;
    /// packets longer than their frame were discarded.
    pub malformed: u64,
    /// Packets lost before we could see them: the socket was full (packet sockets only).
    pub lost: u64,
    /// Packets whose way was gone when their turn came: an interface went down, or would not take them.
    pub gone: u64,
    /// Connections to port 80 that were answered 503 in their server's place.
    pub answered: u64,
}

/// Packets of one direction that came to the box's place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// Packets that came, as far as they were counted.
    pub offered: u64,
    /// Packets that the kernel let through unqueued.
    pub unqueued: u64,
    /// Packets that were lost, or discarded because they contradict themselves.
    pub lost: u64,
    /// Packets that were sent when they or their way were gone.
    pub gone: u64,
    /// Packets that merged ones stood for, beside one each, which `offered` does not count.
    pub cut: u64,
}

impl Passage {
    /// Counts one packet that was read: it is queued if it `is_sound`, else discarded.
    pub(super) const fn note(&mut self, is_sound: bool) {
        self.offered += 1;
        self.lost += !is_sound as u64;
    }

    /// Counts packets that were lost before they could be read, here and among the link's errors.
    pub(super) const fn lose(&mut self, packets: u64, errors: &mut ErrorCounters) {
        self.offered += packets;
        self.lost += packets;
        errors.lost += packets;
    }
}

/// A packet held between its arrival and its verdict.
///
/// With NFQUEUE the packet itself stays in the kernel and these bytes are a copy, given back only if they were changed:
/// on a bridge as a frame that leaves by its port. With packet sockets and AF_XDP these bytes are the packet, as they
/// are of a piece of a merged one.
#[derive(Debug)]
pub struct HeldPacket {
    /// The kernel's number for it (NFQUEUE), or zero.
    pub(super) id: u32,
    /// Direction in which the packet came.
    pub(super) direction: Direction,
    /// Whether the bytes differ from what came in.
    pub(super) dirty: bool,
    /// Whether its sender is answered if it is refused.
    pub(super) answerable: bool,
    /// Whether it is a piece of a merged packet, which the kernel no longer has (NFQUEUE).
    pub(super) is_piece: bool,
    /// Number of the port of a bridge by which its frame is to leave if the kernel does not send it (NFQUEUE), or zero.
    pub(super) port: u32,
    /// Offset of the IP header in `bytes`.
    pub(super) ip_at: u16,
    /// The headers.
    pub(super) header: Header,
    /// Link-layer address of the user, as far as the frame shows it.
    pub(super) link: LinkAddress,
    /// The user, where more is known than its address.
    pub(super) user: Option<User>,
    /// Mark by which sight remembers the packet.
    pub(super) mark: Mark,
    /// The packet, with its link-layer header if `ip_at` is above zero.
    pub(super) bytes: Vec<u8>,
}

impl HeldPacket {
    /// Test packet from the bytes of an IP packet; never answered with 503.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn of_bytes(id: u32, direction: Direction, bytes: Vec<u8>) -> Self {
        Self {
            id,
            direction,
            dirty: false,
            answerable: false,
            is_piece: false,
            port: 0,
            ip_at: 0,
            header: narrows_wire::parse(&bytes).expect("a packet"),
            link: LinkAddress::default(),
            user: None,
            mark: Mark::default(),
            bytes,
        }
    }

    /// The packet of a whole frame; `None` if it is to be discarded.
    pub(super) fn of_frame(bytes: Vec<u8>, direction: Direction, errors: &mut ErrorCounters) -> Option<Self> {
        let ip_at = frame::ip_offset(&bytes).unwrap_or(ETHERNET.min(bytes.len()));
        let (header, is_sound) = header_of_frame(&bytes, ip_at);
        errors.malformed += u64::from(!is_sound);
        // The header claims more bytes than the frame has. A router discards such a packet (RFC 1812, section
        // 5.2.2); the link must not wait for bytes that never come.
        if header.len.0 > (bytes.len() - ip_at) as u64 {
            errors.malformed += 1;
            return None;
        }
        Some(Self {
            id: 0,
            direction,
            dirty: false,
            answerable: false,
            is_piece: false,
            port: 0,
            ip_at: ip_at as u16,
            header,
            link: link_of(&bytes, direction),
            user: None,
            mark: Mark::default(),
            bytes,
        })
    }

    /// Takes the flow of what it carries, if it is a tunnel's.
    #[inline]
    pub(super) fn look_inside(&mut self) {
        let ip = self.bytes.get(usize::from(self.ip_at)..).unwrap_or_default();
        self.header.look_inside(ip);
    }

    /// One of the users' side, of whom nothing was looked into yet: a segment in GRE (RFC 2784) from 10.0.1.1 to
    /// 10.0.1.2, in an Ethernet frame; ECT(0), window 1000.
    #[cfg(test)]
    pub(super) fn in_gre() -> Self {
        let mut bytes = vec![0; 12];
        bytes.extend([8, 0, 0x45, 0x02, 0, 68, 0, 1, 0, 0, 64, 47, 0x64, 0x86]);
        bytes.extend([10, 0, 1, 1, 10, 0, 1, 2, 0, 0, 8, 0]);
        bytes.extend([0x45, 0x02, 0, 44, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes
            .extend([0x9c, 0x40, 0, 80, 0, 0, 0, 7, 0, 0, 0, 9, 0x50, 0x10, 3, 0xe8, 0, 0, 0, 0, 1, 2, 3, 4]);
        Self::of_frame(bytes, Direction::Up, &mut ErrorCounters::default()).expect("a whole frame")
    }

    /// Direction in which the packet came.
    #[must_use]
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// The IP packet, if all of it was copied: a checksum can only follow a change if every byte is there to be given
    /// back.
    fn whole_ip(&mut self) -> Option<&mut [u8]> {
        let ip = self.bytes.get_mut(usize::from(self.ip_at)..)?;
        (ip.len() as u64 >= self.header.len.0).then_some(ip)
    }

    fn change(&mut self, change: impl FnOnce(&mut [u8]) -> bool) -> bool {
        let is_ip = self.header.key.proto != UNREADABLE;
        let changed = is_ip && self.whole_ip().is_some_and(change);
        self.dirty |= changed;
        changed
    }
}

/// Bytes of Ethernet's header without tags.
const ETHERNET: usize = 14;
/// Length to which Ethernet pads shorter packets: 60 bytes of a frame, less its header.
const PADDED: u64 = 46;
/// Most bytes of a packet that the kernel copies: the rest of a longer one may be missing.
const COPIED: usize = 65_531;
/// Protocol of what is no IP or contradicts itself (IANA keeps the number free). Such packets are one flow of their
/// user.
const UNREADABLE: Proto = Proto(255);

/// Reads the headers of an IP packet that came without its frame, and tells whether they are sound. The length is
/// that of the kernel's packet, whatever the headers say.
pub(super) fn header_of_packet(bytes: &[u8], mac: Option<Mac>) -> (Header, bool) {
    let read = narrows_wire::parse(bytes).ok();
    let is_sound = read.is_some();
    let mut header = read.unwrap_or_else(|| unreadable(bytes, [mac, None]));
    if bytes.len() < COPIED || !is_sound {
        header.len = Bytes(bytes.len() as u64);
    }
    (header, is_sound)
}

/// Reads the headers of the packet that begins at `ip_at` in a frame, and tells whether they are sound. Bytes behind
/// the packet count, but for Ethernet's padding: where short frames count more, `mpu` says so.
pub(super) fn header_of_frame(bytes: &[u8], ip_at: usize) -> (Header, bool) {
    let mac = |at: usize| bytes.get(at..at + 6).and_then(|mac| mac.try_into().ok()).map(Mac);
    let (macs, carried) = ([mac(6), mac(0)], &bytes[ip_at..]);
    let len = Bytes(carried.len() as u64);
    if frame::ip_offset(bytes) != Some(ip_at) {
        return (Header { len, ..unreadable(&[], macs) }, true);
    }
    match narrows_wire::parse(carried) {
        Ok(header) if len.0 > PADDED => (Header { len: header.len.max(len), ..header }, true),
        Ok(header) => (header, true),
        Err(_) => (Header { len, ..unreadable(carried, macs) }, false),
    }
}

/// Makes headers for a packet that cannot be read: its addresses if it has them, else those of its sender and receiver
/// on Ethernet.
fn unreadable(bytes: &[u8], macs: [Option<Mac>; 2]) -> Header {
    let v4 = |at: usize| bytes.get(at..at + 4).and_then(|b| <[u8; 4]>::try_from(b).ok()).map(IpAddr::from);
    let v6 = |at: usize| bytes.get(at..at + 16).and_then(|b| <[u8; 16]>::try_from(b).ok()).map(IpAddr::from);
    let [src, dst] = match bytes.first().map(|first| first >> 4) {
        Some(4) => [v4(12), v4(16)],
        Some(6) => [v6(8), v6(24)],
        _ => [None, None],
    };
    // As a link-local address: nobody is known by it elsewhere.
    let of_mac = |mac: Option<Mac>| {
        let [a, b, c, d, e, f] = mac.unwrap_or(Mac([0; 6])).0;
        IpAddr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d, e, f])
    };
    let (src, dst) = src.zip(dst).unwrap_or_else(|| (of_mac(macs[0]), of_mac(macs[1])));
    Header { key: FlowKey::new(src, dst, 0, 0, UNREADABLE), ..Header::default() }
}

/// Link-layer address of the user in a frame: of the sender on the way up, of the receiver on the way down.
fn link_of(frame: &[u8], direction: Direction) -> LinkAddress {
    let mac_at = if direction == Direction::Up { 6 } else { 0 };
    let mac = frame.get(mac_at..mac_at + 6).and_then(|mac| mac.try_into().ok()).map(Mac);
    let word = |at: usize| Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?));
    let tagged = word(12).is_some_and(|tpid| matches!(tpid, 0x8100 | 0x88a8));
    LinkAddress { mac, vlan: word(14).filter(|_| tagged).map(|tci| tci & 0xfff) }
}

impl Packet for HeldPacket {
    fn header(&self) -> &Header {
        &self.header
    }

    fn answerable(&self) -> bool {
        self.answerable
    }

    fn circuit(&self) -> Option<CircuitId> {
        self.user.and_then(User::as_circuit)
    }

    fn user(&self) -> Option<User> {
        self.user
    }

    fn mark_ce(&mut self) -> bool {
        if self.header.ecn == Ecn::Ce {
            return true;
        }
        let marked = self.change(narrows_wire::mark_ce);
        if marked {
            self.header.ecn = Ecn::Ce;
        }
        marked
    }

    fn set_window(&mut self, window: u16) -> bool {
        let Some(old) = self.header.tcp.map(|t| t.window) else { return false };
        let set = old == window || self.change(|ip| narrows_wire::set_window(ip, window));
        if let (true, Some(tcp)) = (set, self.header.tcp.as_mut()) {
            tcp.window = window;
        }
        set
    }

    fn set_tsval(&mut self, tsval: u32) -> bool {
        let Some((old, _)) = self.header.tcp.and_then(|t| t.timestamps) else { return false };
        let set = old == tsval || self.change(|ip| narrows_wire::set_tsval(ip, tsval));
        if let (true, Some(stamps)) = (set, self.header.tcp.as_mut().and_then(|t| t.timestamps.as_mut())) {
            stamps.0 = tsval;
        }
        set
    }

    fn set_dscp(&mut self, dscp: Dscp) -> bool {
        let set = self.header.dscp == dscp || self.change(|ip| narrows_wire::set_dscp(ip, dscp));
        if set {
            self.header.dscp = dscp;
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ECT(0), 40 bytes of header and 4 of payload, window 1000.
    fn packet(bytes_present: usize) -> HeldPacket {
        let mut bytes = vec![0x45, 0x02, 0, 44, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes.extend([
            0x9c, 0x40, 0, 80, 0, 0, 0, 7, 0, 0, 0, 9, 0x50, 0x10, 0x03, 0xe8, 0, 0, 0, 0, 1, 2, 3, 4,
        ]);
        let mut packet = HeldPacket::of_bytes(1, Direction::Down, bytes);
        packet.bytes.truncate(bytes_present);
        packet
    }

    #[test]
    fn a_change_shows_in_bytes_and_header() {
        let mut p = packet(44);
        assert!(p.set_window(500) && p.mark_ce() && p.set_dscp(Dscp::from_bits(0x20)));
        assert!(p.dirty);
        let again = narrows_wire::parse(&p.bytes).unwrap();
        assert_eq!(again, p.header);
        assert_eq!(again.tcp.unwrap().window, 500);
        assert_eq!((again.ecn, again.dscp.get()), (Ecn::Ce, 8));
    }

    #[test]
    fn within_a_tunnel_the_outer_header_alone_is_changed() {
        let mut p = HeldPacket::in_gre();
        p.look_inside();
        let before = p.bytes.clone();
        assert_eq!(p.header.key.proto, narrows_wire::Proto::TCP);
        assert!(p.header.key.is_in_tunnel());
        assert!(!p.set_window(500) && !p.set_tsval(1) && !p.dirty);
        assert_eq!(p.header.tcp.unwrap().window, 1000);
        assert!(p.mark_ce() && p.dirty);
        // 4502+0044+0001+0000+402f+0a00+0101+0a00+0102 = 9b79, complement 6486; with CE one more.
        let mut expected = before;
        expected[15] = 0x03;
        expected[24..26].copy_from_slice(&[0x64, 0x85]);
        assert_eq!(p.bytes, expected);
        let mut again = HeldPacket::in_gre();
        again.bytes = p.bytes.clone();
        again.header = narrows_wire::parse(&p.bytes[14..]).unwrap();
        again.look_inside();
        assert_eq!(again.header, p.header);
    }

    #[test]
    fn what_changes_nothing_leaves_the_packet_clean() {
        let mut p = packet(44);
        assert!(p.set_window(1000));
        assert!(!p.set_tsval(1), "it has no timestamps");
        assert!(!p.dirty);
    }

    #[test]
    fn a_packet_copied_in_part_is_left_alone() {
        let mut p = packet(43);
        assert!(!p.set_window(1) && !p.mark_ce() && !p.set_dscp(Dscp::from_bits(4)));
        assert!(!p.dirty);
        assert_eq!(p.header.tcp.unwrap().window, 1000);
    }
}
