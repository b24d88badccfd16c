//! Table of prefixes: finds the longest that an address belongs to.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// Addresses that begin with the same bits, as `10.0.0.0/8` or `2001:db8::/32`; an address alone is all its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    first: u128,
    /// Length out of 128 bits, also for IPv4.
    bits: u8,
}

impl Prefix {
    /// The addresses of IPv6 whose first `bits` bits, up to 128, are those of this one.
    #[must_use]
    pub const fn of(address: Ipv6Addr, bits: u8) -> Self {
        let bits = if bits > 128 { 128 } else { bits };
        Self { first: address.to_bits() & !u128::MAX.unbounded_shr(bits as u32), bits }
    }

    const fn last(self) -> u128 {
        self.first | u128::MAX.unbounded_shr(self.bits as u32)
    }

    /// Whether the address is one of these.
    #[must_use]
    pub const fn contains(self, address: IpAddr) -> bool {
        let bits = mapped(address);
        self.first <= bits && bits <= self.last()
    }

    /// Whether it is one of IPv4 addresses.
    #[must_use]
    pub const fn is_ipv4(self) -> bool {
        self.bits >= 96 && self.first >> 32 == 0xffff
    }

    /// Whether it is the one address that nobody has, `0.0.0.0` or `::`.
    #[must_use]
    pub const fn is_unspecified(self) -> bool {
        self.bits == 128 && (self.first == 0 || self.first == 0xffff << 32)
    }

    /// First address, as a flow's key keeps it, and the number of its 128 bits that count.
    #[must_use]
    pub const fn parts(self) -> (u128, u8) {
        (self.first, self.bits)
    }
}

/// IPv4 addresses in their place among those of IPv6 (RFC 4291, 2.5.5.2).
const fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is no address and no prefix: expected one as 10.0.0.7, 10.0.0.0/24 or 2001:db8::/56"
            )
        };
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a.trim(), Some(b.trim())));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        // A netmask, as routers show it: 10.0.0.0/255.255.255.0.
        let mask = |text: &str| text.parse::<Ipv4Addr>().ok().filter(|_| address.is_ipv4());
        let bits = match bits.map(|text| (text, mask(text))) {
            None => most,
            Some((_, Some(mask))) if mask.to_bits().leading_ones() == mask.to_bits().count_ones() => {
                mask.to_bits().count_ones() as u8
            }
            Some((text, _)) => text.parse().map_err(|_| wrong())?,
        };
        if bits > most {
            return Err(wrong());
        }
        let bits = bits + (128 - most);
        let first = mapped(address) & !u128::MAX.unbounded_shr(u32::from(bits));
        Ok(Self { first, bits })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v6 = Ipv6Addr::from_bits(self.first);
        match v6.to_ipv4_mapped().filter(|_| self.is_ipv4()) {
            Some(v4) if self.bits == 128 => v4.fmt(f),
            Some(v4) => write!(f, "{v4}/{}", self.bits - 96),
            None if self.bits == 128 => v6.fmt(f),
            None => write!(f, "{v6}/{}", self.bits),
        }
    }
}

/// Prefixes and what each stands for, by longest match.
///
/// Prefixes lie beside or within each other, so they cut the addresses into ranges, each of which belongs to the
/// innermost: one binary search finds it, whatever the number of lengths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixTable {
    /// Begin and value of each range, in order; no value holds before the first.
    ranges: Vec<(u128, Option<u32>)>,
}

impl PrefixTable {
    /// A table of prefixes. Of equal ones the last counts.
    #[must_use]
    pub fn new(prefixes: impl IntoIterator<Item = (Prefix, u32)>) -> Self {
        let mut sorted: Vec<_> = prefixes.into_iter().collect();
        sorted.sort_by_key(|(p, _)| (p.first, p.bits));
        let mut table = Self::default();
        // Prefixes around the present place, the innermost last.
        let mut around: Vec<(Prefix, u32)> = Vec::new();
        for (prefix, what) in sorted {
            table.close(&mut around, Some(prefix.first));
            table.begin(prefix.first, Some(what));
            around.push((prefix, what));
        }
        table.close(&mut around, None);
        table
    }

    /// Ends the innermost prefixes that end before an address, or all.
    fn close(&mut self, around: &mut Vec<(Prefix, u32)>, before: Option<u128>) {
        while let Some((inner, _)) = around.pop_if(|(p, _)| before.is_none_or(|at| p.last() < at)) {
            if let Some(next) = inner.last().checked_add(1) {
                self.begin(next, around.last().map(|outer| outer.1));
            }
        }
    }

    /// Begins a range: from `at` on all stands for `what`, until another range begins.
    fn begin(&mut self, at: u128, what: Option<u32>) {
        self.ranges.pop_if(|last| last.0 == at);
        if self.ranges.last().map_or(what.is_some(), |last| last.1 != what) {
            self.ranges.push((at, what));
        }
    }

    /// Value of the longest prefix that holds the address, which is written as in a flow's key.
    #[must_use]
    pub fn find(&self, address: u128) -> Option<u32> {
        let after = self.ranges.partition_point(|r| r.0 <= address);
        self.ranges.get(after.checked_sub(1)?)?.1
    }

    /// Whether there are no prefixes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(text: &str) -> u128 {
        let prefix: Prefix = text.parse().unwrap();
        prefix.first
    }

    fn table(prefixes: &[&str]) -> PrefixTable {
        PrefixTable::new(prefixes.iter().zip(0..).map(|(p, n)| (p.parse().unwrap(), n)))
    }

    #[test]
    fn the_longest_wins_and_what_is_outside_is_nobodys() {
        let t = table(&[
            "10.0.0.0/8",
            "10.1.0.0/16",
            "10.1.2.0/24",
            "10.1.2.3",
            "2001:db8::/32",
            "2001:db8:1::/64",
        ]);
        for (address, expected) in [
            ("9.255.255.255", None),
            ("10.0.0.0", Some(0)),
            ("10.1.0.0", Some(1)),
            ("10.1.1.255", Some(1)),
            ("10.1.2.0", Some(2)),
            ("10.1.2.2", Some(2)),
            ("10.1.2.3", Some(3)),
            ("10.1.2.4", Some(2)),
            ("10.1.3.0", Some(1)),
            ("10.2.0.0", Some(0)),
            ("10.255.255.255", Some(0)),
            ("11.0.0.0", None),
            ("2001:db7:ffff::", None),
            ("2001:db8::1", Some(4)),
            ("2001:db8:1::1", Some(5)),
            ("2001:db8:1:1::1", Some(4)),
            ("2001:db9::", None),
        ] {
            assert_eq!(t.find(bits(address)), expected, "{address}");
        }
    }

    #[test]
    fn all_addresses_and_the_very_last() {
        let t = table(&["::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "0.0.0.0/0"]);
        assert_eq!(t.find(0), Some(0));
        assert_eq!(t.find(u128::MAX - 1), Some(0));
        assert_eq!(t.find(u128::MAX), Some(1));
        assert_eq!(t.find(bits("198.51.100.1")), Some(2));
        assert!(table(&[]).is_empty() && table(&[]).find(0).is_none());
    }

    /// Against the definition: the longest of those that contain the address.
    #[test]
    fn as_a_search_through_all_would_find() {
        let mut state = 7_u64;
        let mut roll = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for _ in 0..50 {
            // Within 12 bits, so that they meet.
            let all: Vec<(Prefix, u32)> = (0..20)
                .map(|n| {
                    let bits = 116 + roll(13) as u8;
                    let first = u128::from(roll(4096)) & !u128::MAX.unbounded_shr(u32::from(bits));
                    (Prefix { first, bits }, n)
                })
                .collect();
            let table = PrefixTable::new(all.iter().copied());
            for address in 0..4200_u128 {
                let inside = all.iter().filter(|(p, _)| (p.first..=p.last()).contains(&address));
                let expected = inside.max_by_key(|(p, n)| (p.bits, *n)).map(|a| a.1);
                assert_eq!(table.find(address), expected, "{address} of {all:?}");
            }
        }
    }

    #[test]
    fn texts() {
        for text in ["10.0.0.0/8", "10.0.0.7", "2001:db8::/56", "2001:db8::1", "::/0"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        assert_eq!("10.1.2.3/8".parse::<Prefix>().unwrap().to_string(), "10.0.0.0/8");
        assert_eq!("10.1.2.3/255.255.0.0".parse::<Prefix>().unwrap().to_string(), "10.1.0.0/16");
        for wrong in [
            "",
            "10.0.0",
            "10.0.0.0/33",
            "10.0.0.0/255.0.255.0",
            "::/255.0.0.0",
            "2001:db8::/129",
            "10.0.0.0/x",
            "lan0",
        ] {
            assert!(wrong.parse::<Prefix>().unwrap_err().contains("expected one as"), "{wrong}");
        }
    }
}
