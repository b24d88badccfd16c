//! The name of a user, and the rule that finds it in a packet's addresses.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

use narrows_wire::FlowKey;

/// The number of a circuit: the same for as long as the program runs, whatever becomes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CircuitId(pub u32);

/// A user: an address, a prefix or a circuit, in 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct User(u128);

/// Circuits lie among the multicast addresses with all flags and scopes set, which nobody can have (RFC 4291, 2.7).
const CIRCUITS: u128 = u128::MAX << 32;
/// IPv4 addresses in their place among those of IPv6 (RFC 4291, 2.5.5.2).
const IPV4: u128 = 0xffff << 32;

impl User {
    /// The user of an address, of which so many leading bits count if it is of IPv6.
    #[must_use]
    pub fn of(address: IpAddr, ipv6_prefix: u8) -> Self {
        let bits = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        Self::of_bits(bits.to_bits(), ipv6_prefix)
    }

    /// The user of an address as a [`FlowKey`] keeps it; so many leading bits count if it is of IPv6.
    #[must_use]
    pub const fn of_bits(bits: u128, ipv6_prefix: u8) -> Self {
        if Self::is_ipv4(bits) || ipv6_prefix >= 128 {
            return Self(bits);
        }
        let kept = if ipv6_prefix == 0 { 0 } else { u128::MAX << (128 - ipv6_prefix as u32) };
        Self(bits & kept)
    }

    /// Whether an address as a [`FlowKey`] keeps it is one of IPv4.
    #[must_use]
    pub const fn is_ipv4(bits: u128) -> bool {
        bits >> 32 == IPV4 >> 32
    }

    /// The user that a circuit is.
    #[must_use]
    pub const fn circuit(id: CircuitId) -> Self {
        Self(CIRCUITS | id.0 as u128)
    }

    /// All of whom nothing has been heard, as one.
    pub const STRANGERS: Self = Self(CIRCUITS | u32::MAX as u128);

    /// The circuit, if it is one.
    #[must_use]
    pub const fn as_circuit(self) -> Option<CircuitId> {
        if self.0 & CIRCUITS == CIRCUITS && self.0 != Self::STRANGERS.0 {
            Some(CircuitId(self.0 as u32))
        } else {
            None
        }
    }

    /// The address, or the first of its prefix.
    #[must_use]
    pub fn address(self) -> IpAddr {
        let v6 = Ipv6Addr::from_bits(self.0);
        v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
    }

    /// All of it, to be hashed or compared.
    #[must_use]
    pub const fn bits(self) -> u128 {
        self.0
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_circuit() {
            Some(id) => write!(f, "circuit {}", id.0),
            None => self.address().fmt(f),
        }
    }
}
impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Side of a packet whose address is the user's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// Nobody has told the side: it is that which opened the connection; where that was not seen, the one with the
    /// higher port, and the destination if they are equal.
    #[default]
    Opener,
    /// The source: packets come from the users.
    Source,
    /// The destination: packets go to the users.
    Destination,
}

impl Side {
    /// The side as packets of the other direction have it.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Opener => Self::Opener,
            Self::Source => Self::Destination,
            Self::Destination => Self::Source,
        }
    }
}

/// Rule by which a user is found in a packet's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserRule {
    /// Side whose address is the user's.
    pub side: Side,
    /// Leading bits of an IPv6 address that are the user's; 1 to 128.
    pub ipv6_prefix: u8,
}

impl UserRule {
    /// Each address is a user, and it is that of whoever opened the connection.
    pub const OPENER: Self = Self { side: Side::Opener, ipv6_prefix: 128 };

    /// The user of a packet. `opened` tells whether its destination opened the connection, as far as is known.
    #[must_use]
    pub const fn user(&self, key: &FlowKey, opened: Option<bool>) -> User {
        let to = match (self.side, opened) {
            (Side::Source, _) => false,
            (Side::Destination, _) => true,
            (Side::Opener, Some(by_destination)) => by_destination,
            (Side::Opener, None) => key.sport <= key.dport,
        };
        User::of_bits(if to { key.dst_bits() } else { key.src_bits() }, self.ipv6_prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_wire::Proto;

    fn key(src: &str, dst: &str, sport: u16, dport: u16) -> FlowKey {
        FlowKey::new(src.parse().unwrap(), dst.parse().unwrap(), sport, dport, Proto::TCP)
    }

    fn user(text: &str) -> User {
        User::of(text.parse().unwrap(), 128)
    }

    #[test]
    fn the_side_tells_and_ports_do_not() {
        let down = UserRule { side: Side::Destination, ipv6_prefix: 64 };
        let up = UserRule { side: down.side.other(), ipv6_prefix: 64 };
        for ports in [(80, 40_000), (40_000, 80), (7, 7)] {
            let k = key("192.0.2.1", "10.0.0.9", ports.0, ports.1);
            for opened in [None, Some(true), Some(false)] {
                assert_eq!(down.user(&k, opened), user("10.0.0.9"));
                assert_eq!(up.user(&k.reverse(), opened), user("10.0.0.9"));
            }
        }
    }

    #[test]
    fn where_no_side_is_known_it_is_the_opener_else_the_higher_port() {
        let k = key("192.0.2.1", "10.0.0.9", 80, 40_000);
        assert_eq!(UserRule::OPENER.user(&k, None), user("10.0.0.9"));
        assert_eq!(UserRule::OPENER.user(&k, Some(false)), user("192.0.2.1"));
        assert_eq!(UserRule::OPENER.user(&k.reverse(), None), user("10.0.0.9"));
        assert_eq!(UserRule::OPENER.user(&key("192.0.2.1", "10.0.0.9", 7, 7), None), user("10.0.0.9"));
    }

    #[test]
    fn privacy_addresses_of_one_prefix_are_one_user() {
        let of = |text: &str, bits| User::of(text.parse().unwrap(), bits);
        assert_eq!(of("2001:db8:1:2::a", 64), of("2001:db8:1:2:ffff:1:2:3", 64));
        assert_ne!(of("2001:db8:1:2::a", 64), of("2001:db8:1:3::a", 64));
        assert_eq!(of("2001:db8:1:2::a", 56), of("2001:db8:1:ff::a", 56));
        assert_ne!(of("2001:db8::1", 128), of("2001:db8::2", 128));
        assert_eq!(of("2001:db8:1:2::a", 64).to_string(), "2001:db8:1:2::");
        // An IPv4 address is whole, whatever the prefix.
        assert_ne!(of("10.0.0.1", 64), of("10.0.0.2", 64));
        assert_eq!(of("10.0.0.1", 1).to_string(), "10.0.0.1");
    }

    #[test]
    fn a_circuit_is_no_address() {
        let c = User::circuit(CircuitId(7));
        assert_eq!((c.as_circuit(), c.to_string()), (Some(CircuitId(7)), "circuit 7".to_owned()));
        for text in ["10.0.0.1", "::", "ff02::1", "ffff:ffff:ffff:ffff::", "2001:db8::1"] {
            assert_eq!(user(text).as_circuit(), None, "{text}");
        }
    }
}
