//! Names of hosts in a file of DHCP leases, as two servers write it.
//!
//! dnsmasq has a lease a line: its expiry, the MAC address (of IPv6 a number), the address, the name or `*`, and the
//! client's identity; a line `duid` stands before those of IPv6 (lease_update_file in dnsmasq's lease.c). ISC dhcpd has
//! blocks `lease ADDRESS { ... client-hostname "NAME"; }`, of which the last of an address holds (dhcpd.leases(5)).

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::User;

/// Most leases that are kept: as many as neighbours.
const MOST: usize = 1 << 16;
/// Most bytes of a name: a label of DNS has 63 (RFC 1035, section 2.3.4).
const LONGEST: usize = 64;

/// Names of hosts by their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    names: BTreeMap<u128, String>,
    /// Lines that could not be read.
    bad: usize,
}

impl Leases {
    /// Reads the text of a file. A line that cannot be read is left out and counted.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut leases = Self::default();
        // Address of the block of dhcpd that is read, and the name in it.
        let mut block: Option<(Option<IpAddr>, Option<String>)> = None;
        for line in text.lines().map(str::trim) {
            match &mut block {
                Some((address, name)) if line.starts_with('}') => {
                    match address {
                        Some(address) => leases.note(*address, name.take()),
                        None => leases.bad += 1,
                    }
                    block = None;
                }
                Some((_, name)) => {
                    if let Some(said) = line.strip_prefix("client-hostname ") {
                        *name = host_name(said.trim_end_matches(';').trim_matches('"'));
                    } else if line == "binding state free;" {
                        *name = None;
                    }
                }
                None => match line.strip_prefix("lease ").and_then(|rest| rest.strip_suffix('{')) {
                    Some(address) => block = Some((address.trim().parse().ok(), None)),
                    None if is_no_lease(line) => {}
                    None => match row(line) {
                        Some((address, name)) => leases.note(address, name),
                        None => leases.bad += 1,
                    },
                },
            }
        }
        leases.bad += usize::from(block.is_some());
        leases
    }

    fn note(&mut self, address: IpAddr, name: Option<String>) {
        let bits = User::of(address, 128).bits();
        match name {
            Some(name) if self.names.len() < MOST || self.names.contains_key(&bits) => {
                self.names.insert(bits, name);
            }
            Some(_) => self.bad += 1,
            None => drop(self.names.remove(&bits)),
        }
    }

    /// Name of the host that is this user, if it has one.
    #[must_use]
    pub fn name(&self, user: User) -> Option<&str> {
        self.names.get(&user.bits()).map(String::as_str)
    }

    /// Number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether the leases have no name at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Number of lines that were left out because they could not be read.
    #[must_use]
    pub const fn bad(&self) -> usize {
        self.bad
    }
}

/// Whether a line says nothing of a lease: empty, a comment, a statement of dhcpd, dnsmasq's own identity.
fn is_no_lease(line: &str) -> bool {
    line.is_empty() || line.starts_with('#') || line.ends_with(';') || line.starts_with("duid ")
}

/// A line of dnsmasq: the address, and the name if it has one.
fn row(line: &str) -> Option<(IpAddr, Option<String>)> {
    let mut words = line.split_whitespace();
    words.next()?.parse::<u64>().ok()?;
    words.next()?;
    let address = words.next()?.parse().ok()?;
    Some((address, host_name(words.next()?)))
}

/// A name as it is shown: without what changes how a line reads (control characters, and the marks by which Unicode
/// turns the direction of writing), at most [`LONGEST`] bytes; `None` if nothing is left, or it stands for none.
#[must_use]
pub fn host_name(said: &str) -> Option<String> {
    let turns = |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut name = String::new();
    for c in said.trim().chars().filter(|c| !c.is_control() && !turns(*c)) {
        if name.len() + c.len_utf8() > LONGEST {
            break;
        }
        name.push(c);
    }
    (!name.is_empty() && name != "*").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(leases: &Leases) -> Vec<(String, &str)> {
        leases
            .names
            .iter()
            .map(|(bits, name)| (User::of_bits(*bits, 128).to_string(), name.as_str()))
            .collect()
    }

    fn expected(of: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
        of.iter().map(|(address, name)| ((*address).to_owned(), *name)).collect()
    }

    #[test]
    fn a_file_of_dnsmasq() {
        let text = "1764300000 02:00:00:00:00:01 10.0.0.7 laptop 01:02:00:00:00:00:01\n\
                    0 02:00:00:00:00:02 10.0.0.8 * *\n\
                    nonsense\n\
                    1764300000 02:00:00:00:00:03 10.0.0 tablet *\n\
                    1764300000 02:00:00:00:00:04 10.0.0.9\n\
                    duid 00:01:00:01:2c:00:00:00:02:00:00:00:00:01\n\
                    1764300000 16777217 fd00::7 laptop 00:01:00:01\n";
        let leases = Leases::parse(text);
        assert_eq!(names(&leases), expected(&[("10.0.0.7", "laptop"), ("fd00::7", "laptop")]));
        assert_eq!((leases.len(), leases.bad(), leases.is_empty()), (2, 3, false));
        assert_eq!(leases.name(User::of([10, 0, 0, 7].into(), 128)), Some("laptop"));
        assert_eq!(leases.name(User::of([10, 0, 0, 8].into(), 128)), None);
    }

    #[test]
    fn a_file_of_dhcpd_of_which_the_last_block_holds() {
        let text = "# The format of this file is documented in the dhcpd.leases(5) manual page.\n\
                    authoring-byte-order little-endian;\n\n\
                    lease 10.0.0.5 {\n  starts 4 2025/11/27 10:00:00;\n  binding state active;\n  \
                    hardware ethernet 02:00:00:00:00:05;\n  client-hostname \"old name\";\n}\n\
                    lease 10.0.0.5 {\n  binding state active;\n  client-hostname \"printer\";\n}\n\
                    lease 10.0.0.6 {\n  client-hostname \"gone\";\n  binding state free;\n}\n\
                    lease 10.0.0 {\n  client-hostname \"nobody\";\n}\n\
                    lease 10.0.0.9 {\n  client-hostname \"cut\";\n";
        let leases = Leases::parse(text);
        assert_eq!((names(&leases), leases.bad()), (expected(&[("10.0.0.5", "printer")]), 2));
    }

    #[test]
    fn a_name_is_one_word_of_text_whatever_a_host_calls_itself() {
        let name = |said: &str| host_name(said);
        assert_eq!(name("a\u{1b}[31mb\u{7}\u{202e}c\n").as_deref(), Some("a[31mbc"));
        assert_eq!([name(""), name("*"), name(" \t"), name("\u{0}")], [None, None, None, None]);
        // 64 bytes are 21 letters of three.
        assert_eq!(name(&"\u{20ac}".repeat(30)), Some("\u{20ac}".repeat(21)));
        assert_eq!(name(&"x".repeat(65)), Some("x".repeat(64)));
        assert_eq!(name("<script>\"\\").as_deref(), Some("<script>\"\\"), "whoever shows it escapes it");
    }

    #[test]
    fn no_more_than_are_kept() {
        let line = |n: usize| format!("1 m 10.{}.{}.{} h *\n", n >> 16, n >> 8 & 255, n & 255);
        let text: String = (0..MOST + 3).map(line).collect();
        let leases = Leases::parse(&text);
        assert_eq!((leases.len(), leases.bad()), (MOST, 3));
    }
}
