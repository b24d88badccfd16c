//! Link layers that captures are written with (the registry of draft-ietf-opsawg-pcaplinktype); those that are read are
//! in `link_layers`.

/// Link layer of a capture that is written, or of an interface that is listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum LinkType {
    /// BSD loopback: the address family, in the byte order of the capturing machine.
    Null = 0,
    /// Ethernet, with VLAN tags or without, also with PPPoE.
    Ethernet = 1,
    /// PPP.
    Ppp = 9,
    /// The IP packet itself, of either version.
    Raw = 101,
    /// OpenBSD loopback: the address family in network order.
    Loop = 108,
    /// Linux "cooked" frames, as of `tcpdump -i any`.
    Sll = 113,
    /// 802.11 behind radiotap.
    Radiotap = 127,
    /// The IPv4 packet itself.
    Ipv4 = 228,
    /// The IPv6 packet itself.
    Ipv6 = 229,
    /// Linux "cooked" frames, version 2.
    Sll2 = 276,
}
