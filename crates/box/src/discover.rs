//! Links of this machine: its interfaces, which of them leads to the wide network, and their traffic.

use std::net::IpAddr;

use anyhow::{Context, anyhow};
use narrows_netio::links::Interface;

/// Tables of this network namespace.
const ROUTES_IPV4: &str = "/proc/self/net/route";
const ROUTES_IPV6: &str = "/proc/self/net/ipv6_route";
const COUNTERS: &str = "/proc/self/net/dev";

/// An interface that could be one of a box's two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Name of the interface.
    pub name: String,
    /// Properties that the kernel knows.
    pub interface: Interface,
    /// Addresses of the interface.
    pub addresses: Vec<IpAddr>,
    /// Whether the default route leaves by this interface.
    pub default_route: bool,
}

/// All interfaces but loopback, the one with the default route first.
///
/// # Errors
/// If the kernel cannot be asked.
pub fn interfaces() -> anyhow::Result<Vec<Found>> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let wide = default_ipv4(&read(ROUTES_IPV4)).or_else(|| default_ipv6(&read(ROUTES_IPV6)));
    let all = nix::ifaddrs::getifaddrs().context("cannot ask the kernel for its addresses")?;
    let addresses: Vec<(String, IpAddr)> = all
        .filter_map(|one| {
            let address = one.address?;
            let v4 = address.as_sockaddr_in().map(|a| IpAddr::from(a.ip()));
            Some((one.interface_name, v4.or_else(|| address.as_sockaddr_in6().map(|a| a.ip().into()))?))
        })
        .collect();
    let mut found: Vec<Found> = Interface::all()?
        .into_iter()
        .filter(|(name, _)| name != "lo")
        .map(|(name, interface)| Found {
            addresses: addresses.iter().filter(|(of, _)| *of == name).map(|(_, a)| *a).collect(),
            default_route: wide.as_ref() == Some(&name),
            interface,
            name,
        })
        .collect();
    found.sort_by_key(|one| !one.default_route);
    Ok(found)
}

/// Bytes that an interface has received and sent.
///
/// # Errors
/// If there is no such interface.
pub fn traffic(name: &str) -> anyhow::Result<[u64; 2]> {
    let all = std::fs::read_to_string(COUNTERS).with_context(|| format!("cannot read {COUNTERS}"))?;
    counters(&all, name).ok_or_else(|| anyhow!("no network interface is called '{name}': see `ip link`"))
}

/// The interface of the best default route: proc(5), numbers in hexadecimal.
fn default_ipv4(table: &str) -> Option<String> {
    let routes = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [name, "00000000", _, _, _, _, metric, "00000000", ..] = fields[..] else { return None };
        Some((metric.parse::<u64>().ok()?, name.to_owned()))
    });
    routes.min_by_key(|(metric, _)| *metric).map(|(_, name)| name)
}

/// Interface of the default route of IPv6, whose table also has a route to nowhere by `lo`.
fn default_ipv6(table: &str) -> Option<String> {
    let routes = table.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [to, "00", _, _, _, metric, _, _, _, name] = fields[..] else { return None };
        let any = to.bytes().all(|digit| digit == b'0') && name != "lo";
        any.then_some((u64::from_str_radix(metric, 16).ok()?, name.to_owned()))
    });
    routes.min_by_key(|(metric, _)| *metric).map(|(_, name)| name)
}

fn counters(table: &str, name: &str) -> Option<[u64; 2]> {
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    Some([*numbers.first()?, *numbers.get(8)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_route_with_the_least_metric() {
        let table = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
            wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
            ppp0\t00000000\t00000000\t0001\t0\t0\t100\t00000000\t0\t0\t0\n\
            eth1\t0001000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        assert_eq!(default_ipv4(table).as_deref(), Some("ppp0"));
        assert_eq!(default_ipv4("Iface\tDestination\n"), None);
    }

    #[test]
    fn the_default_route_of_ipv6() {
        let zero = "0".repeat(32);
        let route = |to: &str, len: &str, metric: &str, name: &str| {
            format!("{to} {len} {zero} 00 {zero} {metric} 00000001 00000000 00000003 {name}\n")
        };
        let table = route(&zero, "00", "ffffffff", "lo")
            + &route(&zero, "00", "00000400", "wan")
            + &route("fd77".repeat(8).as_str(), "40", "00000100", "lan");
        assert_eq!(default_ipv6(&table).as_deref(), Some("wan"));
    }

    #[test]
    fn bytes_received_and_sent() {
        let table = "Inter-|   Receive                            |  Transmit\n face |bytes packets\n   \
            wan: 1500 2 0 0 0 0 0 0 64 1 0 0 0 0 0 0\n  wan0:7 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n";
        assert_eq!(counters(table, "wan"), Some([1500, 64]));
        assert_eq!(counters(table, "wan0"), Some([7, 9]));
        assert_eq!(counters(table, "lan"), None);
    }
}
