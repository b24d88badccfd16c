//! Finds the IP packet in a frame, by link type (the registry of draft-ietf-opsawg-pcaplinktype).

use crate::frame::behind_ethertype;

/// The link types that we read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum LinkType {
    /// BSD loopback: the address family, in the byte order of the capturing machine.
    Null = 0,
    /// Ethernet, with VLAN tags or without, also with PPPoE.
    Ethernet = 1,
    /// The IP packet itself, of either version.
    Raw = 101,
    /// OpenBSD loopback: the address family in network order.
    Loop = 108,
    /// Linux "cooked" frames, as of `tcpdump -i any`.
    Sll = 113,
    /// The IPv4 packet itself.
    Ipv4 = 228,
    /// The IPv6 packet itself.
    Ipv6 = 229,
    /// Linux "cooked" frames, version 2.
    Sll2 = 276,
}

impl LinkType {
    /// Link types that are read, for error messages.
    pub(super) const NAMES: &str = "0 (null), 1 (Ethernet), 101 (raw IP), 108 (loop), 113 (Linux SLL), \
        228 and 229 (raw IPv4 and IPv6) or 276 (SLL2)";

    /// The link type with this number.
    pub(super) const fn of(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Null,
            1 => Self::Ethernet,
            101 => Self::Raw,
            108 => Self::Loop,
            113 => Self::Sll,
            228 => Self::Ipv4,
            229 => Self::Ipv6,
            276 => Self::Sll2,
            _ => return None,
        })
    }
}

/// The IP packet in a frame that was `original_len` bytes long on the link; `None` if there is none. If segmentation
/// offload left the packet's length field at zero, it is filled in.
pub(super) fn ip(link: LinkType, frame: &mut [u8], original_len: u32) -> Option<&mut [u8]> {
    let at = match link {
        LinkType::Raw | LinkType::Ipv4 | LinkType::Ipv6 => 0,
        LinkType::Null | LinkType::Loop => is_ip_family(frame.get(..4)?).then_some(4)?,
        LinkType::Ethernet => behind_ethertype(frame, 12, 14)?,
        LinkType::Sll => behind_ethertype(frame, 14, 16)?,
        LinkType::Sll2 => behind_ethertype(frame, 0, 20)?,
    };
    let packet = frame.get_mut(at..)?;
    fill_in_length(packet, (original_len as usize).saturating_sub(at));
    Some(packet)
}

/// AF_INET is 2 everywhere; AF_INET6 is 10 on Linux, 24 on NetBSD and OpenBSD, 28 on FreeBSD, 30 on macOS. None of
/// these numbers is another one with its bytes reversed, so we accept both byte orders.
fn is_ip_family(b: &[u8]) -> bool {
    matches!(b, [n, 0, 0, 0] | [0, 0, 0, n] if matches!(n, 2 | 10 | 24 | 28 | 30))
}

/// Fills in a length field of zero: a packet captured above an offloading driver has no length yet, or one that does
/// not fit the field.
fn fill_in_length(p: &mut [u8], len: usize) {
    let (at, header) = match p {
        [a, _, 0, 0, ..] if *a >> 4 == 4 && len >= 20 => (2, 0),
        // Zero is right for a packet without payload; a jumbogram (RFC 2675) has a hop-by-hop option.
        [a, _, _, _, 0, 0, 6 | 17, ..] if *a >> 4 == 6 && len > 40 => (4, 40),
        _ => return,
    };
    let length = u16::try_from(len - header).unwrap_or(u16::MAX);
    p[at..at + 2].copy_from_slice(&length.to_be_bytes());
}
