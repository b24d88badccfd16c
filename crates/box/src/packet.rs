//! A packet of a live link while it waits: its bytes, its headers read once, and what names it to the kernel.

use narrows_netio::frame;
use narrows_qdisc::{Direction, Packet};
use narrows_units::{Dscp, Ecn};
use narrows_users::{CircuitId, LinkAddress, Mac, User};
use narrows_wire::Header;

use super::sight::Mark;

/// Packets with errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorCounters {
    /// Packets that contradicted themselves. They went on their way; those longer than their frame were discarded.
    pub malformed: u64,
    /// Packets the kernel could not tell us of because we read too slowly; it let them through unqueued.
    pub unseen: u64,
    /// Packets lost before we could see them: the socket was full (packet sockets only).
    pub lost: u64,
    /// Packets whose way was gone when their turn came: an interface went down, or would not take them.
    pub gone: u64,
    /// Connections to port 80 that were answered 503 in their server's place.
    pub answered: u64,
}

/// A packet held between its arrival and its verdict.
///
/// With NFQUEUE the packet itself stays in the kernel and these bytes are a copy, given back only if they were changed.
/// With packet sockets and AF_XDP these bytes are the packet.
#[derive(Debug)]
pub struct HeldPacket {
    /// The kernel's number for it (NFQUEUE), or zero.
    pub(super) id: u32,
    /// The direction it came in.
    pub(super) direction: Direction,
    /// Whether the bytes differ from what came in.
    pub(super) dirty: bool,
    /// Whether its sender is answered if it is refused.
    pub(super) answerable: bool,
    /// Where the IP header begins in `bytes`.
    pub(super) ip_at: u16,
    /// The headers.
    pub(super) header: Header,
    /// What the frame shows of the user.
    pub(super) link: LinkAddress,
    /// The user, where more is known than its address.
    pub(super) user: Option<User>,
    /// By what sight remembers it.
    pub(super) mark: Mark,
    /// The packet, with its link-layer header if `ip_at` is above zero.
    pub(super) bytes: Vec<u8>,
}

impl HeldPacket {
    /// One that nobody is answered for, of the bytes of an IP packet.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn of_bytes(id: u32, direction: Direction, bytes: Vec<u8>) -> Self {
        Self {
            id,
            direction,
            dirty: false,
            answerable: false,
            ip_at: 0,
            header: narrows_wire::parse(&bytes).expect("a packet"),
            link: LinkAddress::default(),
            user: None,
            mark: Mark::default(),
            bytes,
        }
    }

    /// One of a whole frame, among those to be queued. Returns frames that pass at once: what is no IP, or malformed.
    pub(super) fn of_frame(
        bytes: Vec<u8>,
        direction: Direction,
        errors: &mut ErrorCounters,
        into: &mut Vec<(Direction, Self)>,
    ) -> Option<Vec<u8>> {
        let Some(at) = frame::ip_offset(&bytes) else { return Some(bytes) };
        let Ok(header) = narrows_wire::parse(&bytes[at..]) else {
            errors.malformed += 1;
            return Some(bytes);
        };
        // It says it is longer than its frame. A router discards such (RFC 1812, section 5.2.2); the link must not
        // wait for bytes that never come.
        if header.len.0 > (bytes.len() - at) as u64 {
            errors.malformed += 1;
            return None;
        }
        let packet = Self {
            id: 0,
            direction,
            dirty: false,
            answerable: false,
            ip_at: at as u16,
            header,
            link: link_of(&bytes, direction),
            user: None,
            mark: Mark::default(),
            bytes,
        };
        into.push((direction, packet));
        None
    }

    /// The direction it came in.
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
        let changed = self.whole_ip().is_some_and(change);
        self.dirty |= changed;
        changed
    }
}

/// What a frame shows of its user: the sender on the way up, the receiver on the way down.
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
