//! Knowledge of this machine about the users' side of a link: IPv6 routes and neighbours.
//!
//! A bridge has routes only where it has an address of its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv6Addr};

use narrows_netio::links::{Interface, Neighbour};
use narrows_users::{Mac, Prefix, UserHosts, UserRoute};

use crate::interface_names::covers;
use crate::settings::Settings;

/// Routes of this thread's network namespace; the fields are those of net/ipv6/route.c, `rt6_info_route`.
const ROUTES: &str = "/proc/thread-self/net/ipv6_route";
/// Flags of a route (linux/route.h, linux/ipv6_route.h).
const GATEWAY: u32 = 0x0002;
const LOCAL: u32 = 0x8000_0000;
const ANYCAST: u32 = 0x0010_0000;
/// Neighbours that are asked for.
const MOST: usize = 1 << 16;

/// Finds the hosts on the users' side of this link, as far as this machine knows them; none where the kernel cannot be
/// asked.
pub fn find(settings: &Settings) -> UserHosts {
    look(settings).0
}

/// Finds the hosts as [`find`] does, and the neighbours on the users' side.
pub fn look(settings: &Settings) -> (UserHosts, Vec<(Mac, IpAddr)>) {
    let names = routed(settings);
    let is_users = |interface: &str| names.iter().any(|name| covers(name, interface));
    let routes = File::open(ROUTES).map(|file| routes(BufReader::new(file), is_users)).unwrap_or_default();
    let mut known = BTreeMap::new();
    let mut is_line = |name: &str| {
        let ask = || Interface::find(name).is_ok_and(|found| found.point_to_point);
        *known.entry(name.to_owned()).or_insert_with(ask)
    };
    let routes: Vec<_> = routes
        .into_iter()
        .map(|(route, name)| UserRoute { is_lan: route.is_lan && !is_line(&name), ..route })
        .collect();
    let mut behind = BTreeMap::new();
    let mut is_behind = |index: u32| {
        let name = || nix::net::if_::if_indextoname(index).ok();
        *behind.entry(index).or_insert_with(|| name().is_some_and(|n| n.to_str().is_ok_and(is_users)))
    };
    let neighbours: Vec<_> = Neighbour::all(MOST)
        .unwrap_or_default()
        .into_iter()
        .filter(|neighbour| is_behind(neighbour.interface))
        .map(|neighbour| (Mac(neighbour.mac), neighbour.address))
        .collect();
    let known = if routes.is_empty() { &[][..] } else { &neighbours };
    (UserHosts::new(routes, known), neighbours)
}

/// The users' interfaces as routes name them: of a port of a bridge the bridge.
fn routed(settings: &Settings) -> Vec<String> {
    let master = |name: &String| {
        let bridge = Interface::find(name).ok()?.bridge?;
        nix::net::if_::if_indextoname(bridge).ok()?.into_string().ok()
    };
    settings.lan.iter().map(|name| master(name).unwrap_or_else(|| name.clone())).collect()
}

/// Routes over the users' interfaces, with the name of each.
fn routes(table: impl BufRead, is_users: impl Fn(&str) -> bool) -> Vec<(UserRoute, String)> {
    let route = |line: String| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [to, bits, _, _, _, _, _, _, flags, name] = fields[..] else { return None };
        if !is_users(name) {
            return None;
        }
        let hexadecimal = |text| u32::from_str_radix(text, 16).ok();
        let (to, bits, flags) = (u128::from_str_radix(to, 16).ok()?, hexadecimal(bits)?, hexadecimal(flags)?);
        let to = Ipv6Addr::from_bits(to);
        let others =
            to.is_multicast() || to.is_unicast_link_local() || flags & (LOCAL | ANYCAST) != 0 || bits == 0;
        let prefix = Prefix::of(to, u8::try_from(bits).ok()?);
        (!others).then(|| (UserRoute { prefix, is_lan: flags & GATEWAY == 0 }, name.to_owned()))
    };
    table.lines().map_while(Result::ok).filter_map(route).take(MOST).collect()
}

/// Describes in a sentence who counts as a user of IPv6.
pub fn words(hosts: &UserHosts, said: Option<u8>) -> String {
    let lans: Vec<_> = hosts.lans().take(4).map(|prefix| prefix.to_string()).collect();
    match said {
        Some(128) => "each IPv6 address is a user (user_prefix)".to_owned(),
        Some(bits) => format!("the first {bits} bits of an IPv6 address are a user's (user_prefix)"),
        None if hosts.is_empty() => {
            "no IPv6 route leads to the users, so a /64 is a user of IPv6; if hosts of one LAN are to be users, say \
             user_prefix=128 among the settings of the discipline"
                .to_owned()
        }
        None if lans.is_empty() => {
            "a user of IPv6 is what is routed to it, a /56 where routes are summed up".to_owned()
        }
        None => format!(
            "each IPv6 host of {} is a user, one with its IPv4 address; elsewhere what is routed to it is, a /56 where \
             routes are summed up",
            lans.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_over_the_users_interfaces() {
        let line = |to: &str, bits: &str, gate: &str, flags: &str, name: &str| {
            let (to, gate) = (to.parse::<Ipv6Addr>().unwrap(), gate.parse::<Ipv6Addr>().unwrap());
            let (to, gate, zero) = (to.to_bits(), gate.to_bits(), 0);
            format!(
                "{to:032x} {bits} {zero:032x} 00 {gate:032x} 00000100 00000001 00000000 {flags} {name:>8}\n"
            )
        };
        let table = [
            line("2001:db8:0:1::", "40", "::", "00000001", "lan"),
            line("2001:db8:1::", "30", "fe80::1", "00000003", "lan"),
            line("2001:db8:2::", "38", "::", "00000001", "ppp3"),
            // Not the users': this machine's own address, link-local, multicast, a default route, another interface.
            line("2001:db8:0:1::1", "80", "::", "80200001", "lan"),
            line("2001:db8:0:1::", "80", "::", "00300001", "lan"),
            line("fe80::", "40", "::", "00000001", "lan"),
            line("ff00::", "08", "::", "00000001", "lan"),
            line("::", "00", "fe80::1", "00000003", "lan"),
            line("2001:db8:9::", "40", "::", "00000001", "wan"),
        ]
        .concat();
        let is_users = |name: &str| ["lan", "ppp*"].iter().any(|users| covers(users, name));
        let found: Vec<_> = routes(table.as_bytes(), is_users)
            .into_iter()
            .map(|(route, name)| (route.prefix.to_string(), route.is_lan, name))
            .collect();
        let expected = [
            ("2001:db8:0:1::/64", true, "lan"),
            ("2001:db8:1::/48", false, "lan"),
            ("2001:db8:2::/56", true, "ppp3"),
        ];
        assert_eq!(found, expected.map(|(prefix, lan, name)| (prefix.to_owned(), lan, name.to_owned())));
    }
}
