//! Users of IPv6, by what a router knows of its users' side: routes and neighbours.
//!
//! A prefix without a gateway is a LAN here: its hosts are users of their own, as those of IPv4 are. One that is routed
//! to a gateway, or over a line that has one end, is one user's: what a provider delegates (RFC 8415, RFC 6177). Where
//! routes are summed up, a user is a /56: most providers give a household that much or more (RIPE-690, section 4.2).
//! A host is one user with all its addresses, of both versions of IP, as far as neighbours show them at one MAC
//! address.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::{Mac, Prefix, PrefixTable, User};

/// Bits that a household's addresses have in common, at least, where a route says no more.
const HOUSEHOLD: u8 = 56;
/// Addresses of one link (RFC 4291, section 2.5.6), ten bits of them.
const LINK_LOCAL: u128 = 0xfe80 << 112;
/// Neighbours and routes that are known at once.
const MOST: usize = 1 << 16;

/// A prefix of IPv6 on the users' side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserRoute {
    /// Addresses of the network.
    pub prefix: Prefix,
    /// Whether they are neighbours of this machine, each of which may be somebody else.
    pub is_lan: bool,
}

impl UserRoute {
    /// Leading bits of its addresses that are a user's.
    fn user_bits(self) -> u8 {
        if self.is_lan { 128 } else { self.prefix.parts().1.max(HOUSEHOLD) }
    }
}

/// Users of IPv6 addresses. With nothing known an address is nobody's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserHosts {
    routes: Vec<UserRoute>,
    table: PrefixTable,
    /// Address of IPv6, its MAC address, and the address that stands for its host.
    same: BTreeMap<u128, (Mac, User)>,
    /// Address that stands for the host of a MAC address.
    hosts: BTreeMap<Mac, User>,
}

impl UserHosts {
    /// Hosts by these routes, and by these neighbours with their MAC addresses.
    #[must_use]
    pub fn new(mut routes: Vec<UserRoute>, neighbours: &[(Mac, IpAddr)]) -> Self {
        routes.truncate(MOST);
        let table = PrefixTable::new(routes.iter().map(|route| (route.prefix, route.user_bits().into())));
        let mut hosts: BTreeMap<Mac, (Vec<IpAddr>, Vec<IpAddr>)> = BTreeMap::new();
        for (mac, address) in neighbours.iter().take(MOST) {
            let (v4, v6) = hosts.entry(*mac).or_default();
            if address.is_ipv4() { v4 } else { v6 }.push(*address);
        }
        let (mut same, mut by_mac) = (BTreeMap::new(), BTreeMap::new());
        for (mac, (v4, v6)) in &hosts {
            // With several of IPv4 it may be a router with users behind it.
            let one = match v4[..] {
                [one] => Some(one),
                _ => v6.iter().min().copied(),
            };
            let Some(one) = one.map(|one| User::of(one, 128)) else { continue };
            same.extend(v6.iter().map(|address| (User::of(*address, 128).bits(), (*mac, one))));
            by_mac.insert(*mac, one);
        }
        Self { routes, table, same, hosts: by_mac }
    }

    /// The user of an address as a flow's key keeps it, if it is one of IPv6; `said` is how many leading bits a setting
    /// says are a user's.
    #[must_use]
    pub fn user(&self, address: u128, said: Option<u8>) -> Option<User> {
        if User::is_ipv4(address) {
            return None;
        }
        let whole = || self.same.get(&address).map_or_else(|| User::of_bits(address, 128), |same| same.1);
        // A link-local address is a neighbour's on a bridge, whatever others share.
        if address >> 118 == LINK_LOCAL >> 118 {
            return Some(whole());
        }
        match said {
            Some(128) => return Some(whole()),
            Some(bits) => return Some(User::of_bits(address, bits)),
            None if self.table.is_empty() => return None,
            None => {}
        }
        let bits = self.table.find(address).map_or(HOUSEHOLD, |bits| bits as u8);
        Some(if bits == 128 { whole() } else { User::of_bits(address, bits) })
    }

    /// The host with this MAC address.
    #[must_use]
    pub fn of_mac(&self, mac: Mac) -> Option<User> {
        self.hosts.get(&mac).copied()
    }

    /// The MAC address of an address of IPv6.
    #[must_use]
    pub fn mac(&self, address: u128) -> Option<Mac> {
        self.same.get(&address).map(|same| same.0)
    }

    /// Prefixes of which each address may be a user.
    pub fn lans(&self) -> impl Iterator<Item = Prefix> {
        self.routes.iter().filter(|route| route.is_lan).map(|route| route.prefix)
    }

    /// Whether nothing is known of the users' side.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(text: &str) -> u128 {
        User::of(text.parse().unwrap(), 128).bits()
    }

    fn route(text: &str, is_lan: bool) -> UserRoute {
        UserRoute { prefix: text.parse().unwrap(), is_lan }
    }

    fn shown(hosts: &UserHosts, address: &str) -> String {
        hosts.user(bits(address), None).map_or_else(String::new, |user| user.to_string())
    }

    #[test]
    fn hosts_of_a_lan_are_users_and_what_is_delegated_is_one() {
        let hosts = UserHosts::new(
            vec![
                route("2001:db8:0:1::/64", true),
                route("2001:db8:1::/48", false),
                route("2001:db8:1:ab10::/60", false),
                route("2001:db8:7::1/128", false),
            ],
            &[],
        );
        for (address, user) in [
            ("2001:db8:0:1::a", "2001:db8:0:1::a"),
            ("2001:db8:0:1:ffff::b", "2001:db8:0:1:ffff::b"),
            // Summed up to a /48: a household is a /56.
            ("2001:db8:1:1ff::b", "2001:db8:1:100::"),
            ("2001:db8:1:ab1f::b", "2001:db8:1:ab10::"),
            ("2001:db8:1:ab0f::b", "2001:db8:1:ab00::"),
            ("2001:db8:7::1", "2001:db8:7::1"),
            // Elsewhere.
            ("2001:db8:9:12::1", "2001:db8:9::"),
            ("10.0.0.1", ""),
        ] {
            assert_eq!(shown(&hosts, address), user, "{address}");
        }
        assert_eq!(hosts.lans().map(|p| p.to_string()).collect::<Vec<_>>(), ["2001:db8:0:1::/64"]);
        let of = |said| hosts.user(bits("2001:db8:0:1::a"), Some(said)).unwrap().to_string();
        assert_eq!((of(64), of(128)), ("2001:db8:0:1::".into(), "2001:db8:0:1::a".into()));
        assert_eq!(shown(&UserHosts::default(), "2001:db8::1"), "", "nothing is known");
    }

    #[test]
    fn a_host_is_one_user_with_all_its_addresses() {
        let mac = |last: u8| Mac([2, 0, 0, 0, 0, last]);
        let at = |last, text: &str| (mac(last), text.parse().unwrap());
        let neighbours = [
            at(1, "10.0.0.1"),
            at(1, "fd00::a"),
            at(1, "fd00::b"),
            at(2, "fd00::d"),
            at(2, "fd00::c"),
            // Several of IPv4.
            at(3, "10.0.0.3"),
            at(3, "10.0.0.4"),
            at(3, "fd00::e"),
            at(4, "10.0.0.5"),
        ];
        let hosts = UserHosts::new(vec![route("fd00::/64", true)], &neighbours);
        for (address, user) in [
            ("fd00::a", "10.0.0.1"),
            ("fd00::b", "10.0.0.1"),
            ("fd00::c", "fd00::c"),
            ("fd00::d", "fd00::c"),
            ("fd00::e", "fd00::e"),
            ("fd00::f", "fd00::f"),
        ] {
            assert_eq!(shown(&hosts, address), user, "{address}");
        }
        let said = |bits_said| hosts.user(bits("fd00::a"), Some(bits_said)).unwrap().to_string();
        assert_eq!((said(128), said(64)), ("10.0.0.1".into(), "fd00::".into()));
    }
}
