//! Names of frames and contents of a capture that are not read as IP packets, so that they can be counted and said.

use core::fmt;

/// Reason why a frame gives no packet, or a packet not the one that it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Unopened {
    /// Frames of a link layer that is not read, by its number in the registry of tcpdump.org.
    LinkLayer(u32),
    /// Frames of an ethertype that carries no IP that can be found.
    Ethertype(u16),
    /// Frames of a protocol of PPP.
    Ppp(u16),
    /// Frames of a service of LLC.
    Llc(u8),
    /// Frames of a protocol of the subnetwork access protocol.
    Snap(u16),
    /// Frames of a loopback interface with another address family than IP's.
    Family(u32),
    /// Packets of a protocol in GRE.
    Gre(u16),
    /// Packets that this protocol encrypts.
    Encrypted(&'static str),
    /// Packets that have a name, and no number.
    Named(&'static str),
    /// Packets in more than eight tunnels, or behind more headers than any real frame has.
    Deep,
    /// Frames that end before the IP header does.
    Cut,
    /// Frames whose IP header contradicts itself.
    Broken,
    /// Fragments of packets that did not come whole.
    Fragments,
    /// Reasons beyond those that are told apart.
    Others,
}

impl fmt::Display for Unopened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Self::LinkLayer(n) => {
                write!(f, "frames of link layer {n}")?;
                link_name(n)
            }
            Self::Ethertype(n) => {
                write!(f, "frames of ethertype {n:#06x}")?;
                type_name(n)
            }
            Self::Ppp(n) => {
                write!(f, "frames of PPP protocol {n:#06x}")?;
                ppp_name(n)
            }
            Self::Llc(n) => {
                write!(f, "frames of LLC service {n:#04x}")?;
                llc_name(n)
            }
            Self::Snap(n) => {
                write!(f, "frames of SNAP protocol {n:#06x}")?;
                snap_name(n)
            }
            Self::Gre(n) => {
                write!(f, "packets of GRE protocol {n:#06x}")?;
                type_name(n)
            }
            Self::Family(n) => return write!(f, "frames of address family {n}"),
            Self::Encrypted(what) => return write!(f, "packets encrypted by {what}"),
            Self::Named(what) => return write!(f, "packets of {what}"),
            Self::Deep => return f.write_str("packets in more than eight tunnels"),
            Self::Cut => return f.write_str("frames cut before the end of the IP header"),
            Self::Broken => return f.write_str("frames whose IP header is broken"),
            Self::Fragments => return f.write_str("fragments of packets that did not come whole"),
            Self::Others => return f.write_str("frames of further kinds"),
        };
        name.map_or(Ok(()), |name| write!(f, " ({name})"))
    }
}

fn link_name(n: u32) -> Option<&'static str> {
    Some(match n {
        3 => "AX.25",
        7 => "ARCNET",
        99 => "Symantec Enterprise Firewall",
        118 => "CDMA",
        147..=162 => "reserved for private use",
        165 => "BACnet",
        177 => "LAPD",
        186 | 189 | 220 | 249 => "USB",
        187 | 201 | 251 | 254 | 255 | 256 => "Bluetooth",
        190 | 227 => "CAN",
        195 | 215 | 230 | 283 => "802.15.4",
        209 => "I2C",
        212 => "LIN",
        224 => "Fibre Channel",
        252 => "Wireshark's upper PDU",
        253 => "Netlink",
        _ => return None,
    })
}

fn type_name(n: u16) -> Option<&'static str> {
    Some(match n {
        0x0806 => "ARP",
        0x0842 => "Wake-on-LAN",
        0x2000 => "CDP",
        0x2001 => "NHRP",
        0x8035 => "RARP",
        0x809b => "AppleTalk",
        0x8137 => "IPX",
        0x8808 => "pause",
        0x8809 => "LACP",
        0x8863 => "PPPoE discovery",
        0x8864 => "PPPoE",
        0x888e => "EAPOL",
        0x88a2 => "ATA over Ethernet",
        0x88b8 | 0x88ba => "GOOSE",
        0x88cc => "LLDP",
        0x88e1 | 0x8912 => "powerline",
        0x88f7 => "PTP",
        0x8902 => "CFM",
        0x8906 | 0x8914 => "FCoE",
        0x9000 => "loop test",
        _ => return None,
    })
}

fn ppp_name(n: u16) -> Option<&'static str> {
    Some(match n {
        0x2d | 0x2f => "compressed headers",
        0x3d => "multilink fragments",
        0x53 => "encrypted",
        0xfb | 0xfd => "compressed",
        0x8021 => "IPCP",
        0x8057 => "IPv6CP",
        0x80fd => "CCP",
        0xc021 => "LCP",
        0xc023 => "PAP",
        0xc025 => "link quality",
        0xc223 => "CHAP",
        _ => return None,
    })
}

fn llc_name(n: u8) -> Option<&'static str> {
    Some(match n {
        0x42 => "spanning tree",
        0xe0 | 0xff => "IPX",
        0xf0 => "NetBIOS",
        0xfe => "ISO routing",
        _ => return None,
    })
}

fn snap_name(n: u16) -> Option<&'static str> {
    Some(match n {
        0x0111 => "UDLD",
        0x010b => "spanning tree",
        0x2000 => "CDP",
        0x2003 => "VTP",
        0x2004 => "DTP",
        _ => return None,
    })
}

/// Reasons that are counted one by one: more than any real capture has.
const REASONS: usize = 48;

/// Counts of frames and packets by reason; beyond 48 reasons, all further ones share [`Unopened::Others`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnopenedCounts(Vec<(Unopened, u64)>);

impl UnopenedCounts {
    /// Counts one more frame or packet with this reason.
    pub fn add(&mut self, what: Unopened) {
        self.add_many(what, 1);
    }

    pub(crate) fn add_many(&mut self, what: Unopened, n: u64) {
        if n == 0 {
            return;
        }
        let room = self.0.len() < REASONS || what == Unopened::Others;
        match self.0.iter_mut().find(|(known, _)| *known == what) {
            Some((_, count)) => *count += n,
            None if room => self.0.push((what, n)),
            None => self.add_many(Unopened::Others, n),
        }
    }

    /// Adds the counts of another capture.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(what, n)| self.add_many(*what, *n));
    }

    /// Reasons with their counts, the most frequent first.
    #[must_use]
    pub fn sorted(&self) -> Vec<(Unopened, u64)> {
        let mut all = self.0.clone();
        all.sort_by_key(|(what, n)| (core::cmp::Reverse(*n), *what));
        all
    }
}
