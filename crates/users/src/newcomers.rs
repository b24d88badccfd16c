//! Hosts of a LAN that have come since neighbours were looked at: known by the MAC addresses of what they send.
//!
//! A flow keeps its user while it has packets waiting, so its first packet has to tell.

use std::collections::BTreeMap;

use crate::{Mac, User, UserHosts};

/// Addresses and hosts remembered at once. When it is full it begins again.
const REMEMBERED: usize = 4096;

/// Hosts of a LAN that have come since neighbours were looked at.
#[derive(Clone, Debug, Default)]
pub struct Newcomers {
    /// The address by which each host was first seen.
    first: BTreeMap<Mac, User>,
    /// Owners of IPv6 addresses: the MAC address and user of each.
    whose: BTreeMap<u128, (Mac, User)>,
}

impl Newcomers {
    /// Notes a packet from this address, which `user` is known to have, by this MAC address. A packet by another MAC
    /// address than neighbours show for its address tells nothing.
    pub fn note(&mut self, hosts: &UserHosts, mac: Mac, address: u128, user: User) {
        if hosts.is_empty() {
            return;
        }
        let is_ipv4 = User::is_ipv4(address);
        // A host's first packet of IPv4 alone tells anything.
        let is_noted = if is_ipv4 {
            self.first.contains_key(&mac)
        } else {
            self.whose.get(&address).is_some_and(|(from, _)| *from == mac)
        };
        if is_noted || hosts.mac(address).is_some_and(|known| known != mac) {
            return;
        }
        // An address that is routed to a user, or is many hosts' by a setting, is not one host's.
        if user.bits() != address && !User::is_ipv4(user.bits()) && hosts.of_mac(mac) != Some(user) {
            return;
        }
        if self.first.len().max(self.whose.len()) >= REMEMBERED {
            *self = Self::default();
        }
        let first = *self.first.entry(mac).or_insert(user);
        if !is_ipv4 {
            let known = hosts.of_mac(mac).filter(|user| User::is_ipv4(user.bits()));
            self.whose.insert(address, (mac, known.unwrap_or(first)));
        }
    }

    /// User of an address of IPv6.
    #[must_use]
    pub fn find(&self, address: u128) -> Option<User> {
        self.whose.get(&address).map(|(_, user)| *user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UserRoute;

    fn user(text: &str) -> User {
        User::of(text.parse().unwrap(), 128)
    }

    fn mac(last: u8) -> Mac {
        Mac([2, 0, 0, 0, 0, last])
    }

    /// The fifth of IPv6 is a neighbour that is known.
    fn hosts() -> UserHosts {
        let route = |prefix: &str, is_lan| UserRoute { prefix: prefix.parse().unwrap(), is_lan };
        let routes = vec![route("fd00::/64", true), route("fd01::/48", false)];
        UserHosts::new(routes, &[(mac(5), "10.0.0.5".parse().unwrap()), (mac(5), "fd00::5".parse().unwrap())])
    }

    fn seen(newcomers: &mut Newcomers, hosts: &UserHosts, last: u8, address: &str) -> Option<User> {
        let bits = user(address).bits();
        let whose = hosts.user(bits, None).unwrap_or_else(|| user(address));
        newcomers.note(hosts, mac(last), bits, whose);
        newcomers.find(bits)
    }

    #[test]
    fn a_host_is_whom_it_was_first_seen_as() {
        let (hosts, mut new) = (hosts(), Newcomers::default());
        assert_eq!(seen(&mut new, &hosts, 1, "fd00::b"), Some(user("fd00::b")));
        assert_eq!(seen(&mut new, &hosts, 1, "fd00::a"), Some(user("fd00::b")));
        assert_eq!(seen(&mut new, &hosts, 2, "10.0.0.2"), None);
        assert_eq!(seen(&mut new, &hosts, 2, "fd00::c"), Some(user("10.0.0.2")));
        assert_eq!(seen(&mut new, &hosts, 5, "fd00::d"), Some(user("10.0.0.5")), "a known neighbour");
        assert_eq!(seen(&mut new, &hosts, 1, "fd00::5"), None, "another's, who is known");
        assert_eq!(seen(&mut new, &hosts, 6, "fd01::5"), None, "behind a router");
        assert_eq!(seen(&mut new, &hosts, 3, "fd00::b"), Some(user("fd00::b")));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (hosts, mut new) = (hosts(), Newcomers::default());
        for n in 0..REMEMBERED as u128 + 10 {
            let address = user("fd00::1:0").bits() + n;
            new.note(&hosts, mac(1), address, User::of_bits(address, 128));
        }
        assert_eq!((new.first.len(), new.whose.len()), (1, 10));
    }
}
