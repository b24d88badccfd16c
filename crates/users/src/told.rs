//! Circuits that another program tells while a box runs: a RADIUS server, DHCP, a billing system.
//!
//! `circuit NAME ADDRESS [DOWN UP]` says that packets of the address are the circuit's, and gives it rates; `gone NAME`
//! takes back all that was told of it. A name is the id of a circuit in the file, or the name by which RADIUS knows it
//! there; any other one is a circuit of its own. What is told goes before the file.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use narrows_units::Rate;

use crate::circuits::{Circuits, Rates, Registry};
use crate::{CircuitId, Prefix};

/// Circuits that can be told at once, and addresses of one: bounds of the memory that whoever may tell can make us use.
const CIRCUITS: usize = 1 << 16;
const ADDRESSES: usize = 64;
/// Longest name, as RADIUS has it (RFC 2865, section 5.1).
const NAME: usize = 253;

/// A change that is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Addresses are a circuit's.
    Circuit {
        /// Name of the circuit.
        name: String,
        /// Addresses that it has besides those that it has already.
        addresses: Vec<Prefix>,
        /// Rates, down and up; `None` for those that it has already.
        rates: Option<Rates>,
    },
    /// A circuit has these addresses no longer, or nothing at all that was told of it.
    Gone {
        /// Name of the circuit.
        name: String,
        /// Addresses; empty for all, and its rates.
        addresses: Vec<Prefix>,
    },
}

impl Change {
    /// Reads a line; `None` if it is empty or a comment.
    ///
    /// # Errors
    /// Tells what was expected.
    pub fn parse(line: &str) -> Result<Option<Self>, String> {
        let mut words = line.split_whitespace();
        let verb = match words.next() {
            None => return Ok(None),
            Some(word) if word.starts_with('#') => return Ok(None),
            Some(verb) => verb,
        };
        let expected = "expected: circuit NAME ADDRESS [DOWN UP], or gone NAME [ADDRESS]";
        let plain = |name: &&str| name.len() <= NAME && !name.contains(char::is_control);
        let named = words.next().filter(plain);
        let name =
            named.ok_or_else(|| format!("no name of up to {NAME} plain bytes; {expected}"))?.to_owned();
        let rest: Vec<&str> = words.collect();
        let addresses = |text: &str| -> Result<Vec<Prefix>, String> {
            let all: Result<Vec<Prefix>, String> =
                text.split(',').filter(|one| *one != "-").map(str::parse).collect();
            all.map_err(|why| short(&why)).and_then(|all| {
                let fits = all.len() <= ADDRESSES;
                if fits { Ok(all) } else { Err(format!("expected at most {ADDRESSES} addresses")) }
            })
        };
        match (verb, &rest[..]) {
            ("circuit", [at]) => Ok(Some(Self::Circuit { name, addresses: addresses(at)?, rates: None })),
            ("circuit", [at, down, up]) => {
                let rates = Some([rate(down)?, rate(up)?]);
                Ok(Some(Self::Circuit { name, addresses: addresses(at)?, rates }))
            }
            ("gone", []) => Ok(Some(Self::Gone { name, addresses: Vec::new() })),
            ("gone", [at]) => Ok(Some(Self::Gone { name, addresses: addresses(at)? })),
            _ => Err(format!("'{}': {expected}", short(line))),
        }
    }
}

/// Beginning of a text, for an answer that is short however long the text.
fn short(text: &str) -> String {
    text.trim().chars().take(120).collect()
}

/// Reads a rate, or `-` for no limit.
fn rate(text: &str) -> Result<Option<Rate>, String> {
    if text == "-" {
        return Ok(None);
    }
    let wrong =
        |error: narrows_units::ParseRateError| format!("{}; or - for no limit", short(&error.to_string()));
    text.parse().map(Some).map_err(wrong)
}

/// Addresses and rates that were told of a circuit, and its number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    id: CircuitId,
    addresses: Vec<Prefix>,
    rates: Option<Rates>,
}

/// Circuits that are told, by the names they were told under.
#[derive(Clone, Debug, Default)]
pub struct Told {
    entries: BTreeMap<String, Entry>,
    /// Circuits by the first of their addresses, for each number of bits that count.
    table: BTreeMap<u8, BTreeMap<u128, CircuitId>>,
    /// Name under which an address was told.
    names: BTreeMap<(u8, u128), String>,
}

impl Told {
    /// Takes a change. Returns what holds from then on, in words.
    ///
    /// # Errors
    /// If there is no room, or nothing was told of what is to be gone.
    pub fn take(
        &mut self,
        change: &Change,
        circuits: &Circuits,
        ids: &[CircuitId],
        registry: &mut Registry,
    ) -> Result<String, String> {
        match change {
            Change::Circuit { name, addresses, rates } => {
                let new = !self.entries.contains_key(name);
                if new && self.entries.len() >= CIRCUITS {
                    return Err(format!("{CIRCUITS} circuits are told already: tell some gone first"));
                }
                let id = number(name, circuits, ids, registry)
                    .ok_or("too many names were told since the box began: start it anew")?;
                let known = |entry: &Entry| addresses.iter().filter(|a| !entry.addresses.contains(a)).count();
                if self.entries.get(name).is_some_and(|e| e.addresses.len() + known(e) > ADDRESSES) {
                    return Err(format!(
                        "'{}' has {ADDRESSES} addresses already: tell it gone first",
                        short(name)
                    ));
                }
                let mut moved = String::new();
                for address in addresses {
                    let other = self.names.get(&key(*address)).filter(|other| *other != name).cloned();
                    if let Some(other) = other {
                        self.lose(&other, *address);
                        let _ = write!(moved, ", {address} no longer {}'s", short(&other));
                    }
                }
                let entry = self.entries.entry(name.clone());
                let entry = entry.or_insert(Entry { id, addresses: Vec::new(), rates: None });
                entry.rates = rates.or(entry.rates);
                for address in addresses {
                    let (bits, first) = key(*address);
                    if !entry.addresses.contains(address) {
                        entry.addresses.push(*address);
                    }
                    self.table.entry(bits).or_default().insert(first, id);
                    self.names.insert((bits, first), name.clone());
                }
                Ok(format!("{}{moved}", line(name, entry)))
            }
            Change::Gone { name, addresses } => {
                let wrong = || format!("nothing is told of '{}'", short(name));
                let known = self.entries.get(name).ok_or_else(wrong)?;
                let (all, known) = (addresses.is_empty(), known.addresses.clone());
                let gone: Vec<_> =
                    known.iter().copied().filter(|known| all || addresses.contains(known)).collect();
                gone.iter().for_each(|address| self.lose(name, *address));
                if all || gone.len() == known.len() {
                    self.entries.remove(name);
                    return Ok(format!("gone {}", short(name)));
                }
                Ok(line(name, &self.entries[name]))
            }
        }
    }

    fn lose(&mut self, name: &str, address: Prefix) {
        let (bits, first) = key(address);
        self.names.remove(&(bits, first));
        if let Some(of_length) = self.table.get_mut(&bits) {
            of_length.remove(&first);
            if of_length.is_empty() {
                self.table.remove(&bits);
            }
        }
        if let Some(entry) = self.entries.get_mut(name) {
            entry.addresses.retain(|known| *known != address);
        }
    }

    /// Finds the circuits anew that names stand for, where a file has changed.
    pub fn renew(&mut self, circuits: &Circuits, ids: &[CircuitId], registry: &mut Registry) {
        for (name, entry) in &mut self.entries {
            if let Some(id) = number(name, circuits, ids, registry) {
                entry.id = id;
            }
            for address in &entry.addresses {
                let (bits, first) = key(*address);
                self.table.entry(bits).or_default().insert(first, entry.id);
            }
        }
    }

    /// Whether nothing is told.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The circuit of an address as a flow's key keeps it: that of the longest prefix.
    #[must_use]
    pub fn find(&self, address: u128) -> Option<CircuitId> {
        let of = |(bits, all): (&u8, &BTreeMap<u128, CircuitId>)| {
            all.get(&(address & !u128::MAX.unbounded_shr(u32::from(*bits)))).copied()
        };
        self.table.iter().rev().find_map(of)
    }

    /// The circuits of which anything is told, with their rates if those are.
    pub fn rates(&self) -> impl Iterator<Item = (CircuitId, Option<Rates>)> {
        self.entries.values().map(|entry| (entry.id, entry.rates))
    }

    /// Lines that tell all of it again.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.entries.iter().map(|(name, entry)| line(name, entry)).collect()
    }
}

/// Number of the circuit that a name stands for.
fn number(name: &str, circuits: &Circuits, ids: &[CircuitId], registry: &mut Registry) -> Option<CircuitId> {
    let known = circuits.named(name).and_then(|at| ids.get(at as usize).copied());
    known.or_else(|| registry.number_of(name))
}

fn key(address: Prefix) -> (u8, u128) {
    let (first, bits) = address.parts();
    (bits, first)
}

/// A circuit as a line tells it.
fn line(name: &str, entry: &Entry) -> String {
    let all: Vec<_> = entry.addresses.iter().map(ToString::to_string).collect();
    let addresses = if all.is_empty() { "-".to_owned() } else { all.join(",") };
    let text = |rate: Option<Rate>| rate.map_or_else(|| "-".to_owned(), |rate| rate.to_string());
    let rates = entry.rates.map_or_else(String::new, |[down, up]| format!(" {} {}", text(down), text(up)));
    format!("circuit {name} {addresses}{rates}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CircuitFile, User};

    fn bits(text: &str) -> u128 {
        User::of(text.parse().unwrap(), 128).bits()
    }

    /// A file with a circuit, and what is told beside it.
    struct World {
        circuits: Circuits,
        ids: Vec<CircuitId>,
        registry: Registry,
        told: Told,
    }

    impl World {
        fn new(text: &str) -> Self {
            let circuits = CircuitFile::read("x.csv", text.as_bytes()).unwrap().circuits().clone();
            let mut registry = Registry::default();
            let ids = registry.number(&circuits);
            Self { circuits, ids, registry, told: Told::default() }
        }

        fn say(&mut self, line: &str) -> Result<String, String> {
            let change = Change::parse(line)?.expect("a line that says something");
            self.told.take(&change, &self.circuits, &self.ids, &mut self.registry)
        }

        fn of(&self, address: &str) -> Option<u32> {
            self.told.find(bits(address)).map(|id| id.0)
        }
    }

    const FILE: &str = "Circuit ID,MAC,Download Max Mbps\nhome,,5\npppoe-7,bob@isp,2\n";

    #[test]
    fn circuits_come_and_go_by_lines() {
        let mut w = World::new(FILE);
        assert_eq!(w.say("circuit bob@isp 100.64.0.7"), Ok("circuit bob@isp 100.64.0.7".into()));
        assert_eq!(
            w.say("circuit eve 100.64.0.8,2001:db8:8::/56 2M 500k"),
            Ok("circuit eve 100.64.0.8,2001:db8:8::/56 2mbit 500kbit".into())
        );
        assert_eq!(
            [w.of("100.64.0.7"), w.of("100.64.0.8"), w.of("2001:db8:8:1::9")],
            [Some(1), Some(2), Some(2)]
        );
        let rate = |kbps| Some(Rate::from_kbps(kbps));
        let rates: Vec<_> = w.told.rates().collect();
        assert_eq!(rates, [(CircuitId(1), None), (CircuitId(2), Some([rate(2000), rate(500)]))]);
        // Another rate, and one direction without a limit.
        assert_eq!(
            w.say("circuit eve - 1mbit -"),
            Ok("circuit eve 100.64.0.8,2001:db8:8::/56 1mbit -".into())
        );
        // An address that somebody else has now, as where the news of its end was lost.
        assert_eq!(
            w.say("circuit home 100.64.0.7"),
            Ok("circuit home 100.64.0.7, 100.64.0.7 no longer bob@isp's".into())
        );
        assert_eq!(w.of("100.64.0.7"), Some(0));
        assert_eq!(w.say("gone eve 100.64.0.8"), Ok("circuit eve 2001:db8:8::/56 1mbit -".into()));
        assert_eq!((w.of("100.64.0.8"), w.of("2001:db8:8:1::9")), (None, Some(2)));
        let before = w.told.lines();
        assert_eq!(
            before,
            ["circuit bob@isp -", "circuit eve 2001:db8:8::/56 1mbit -", "circuit home 100.64.0.7"]
        );
        // The lines tell the same to another box.
        let mut heir = World::new(FILE);
        before.iter().for_each(|line| drop(heir.say(line).unwrap()));
        assert_eq!((heir.told.lines(), heir.of("100.64.0.7")), (before, Some(0)));
        for name in ["eve", "home", "bob@isp"] {
            assert_eq!(w.say(&format!("gone {name}")), Ok(format!("gone {name}")));
        }
        assert!(w.told.is_empty() && w.told.table.is_empty() && w.told.names.is_empty());
    }

    #[test]
    fn a_file_that_is_read_again_says_whose_a_name_is() {
        let mut w = World::new("Circuit ID\nother\n");
        w.say("circuit bob@isp 100.64.0.7 1mbit 1mbit").unwrap();
        assert_eq!(w.of("100.64.0.7"), Some(1));
        w.circuits = CircuitFile::read("x.csv", FILE.as_bytes()).unwrap().circuits().clone();
        w.ids = w.registry.number(&w.circuits);
        w.told.renew(&w.circuits, &w.ids, &mut w.registry);
        assert_eq!(w.of("100.64.0.7"), Some(w.ids[1].0));
    }

    #[test]
    fn what_is_wrong_is_answered_and_changes_nothing() {
        let mut w = World::new(FILE);
        for (line, words) in [
            ("circuit", "no name of up to 253 plain bytes; expected: circuit NAME ADDRESS [DOWN UP]"),
            ("circuit eve", "'circuit eve': expected: circuit NAME ADDRESS"),
            ("circuit eve 100.64.0.300", "'100.64.0.300' is no address and no prefix"),
            ("circuit eve 100.64.0.3 5mbit", "'circuit eve 100.64.0.3 5mbit': expected"),
            ("circuit eve 100.64.0.3 5mbit 600", "'600' is not a rate: expected a unit"),
            ("gone eve", "nothing is told of 'eve'"),
            ("away eve", "'away eve': expected: circuit NAME"),
        ] {
            let answer = w.say(line).unwrap_err();
            assert!(answer.contains(words), "{line}: {answer}");
        }
        assert!(w.told.is_empty());
        assert_eq!((Change::parse(""), Change::parse(" # radius")), (Ok(None), Ok(None)));
        // Addresses of one circuit are bounded in number, and answers in length.
        for n in 0..70 {
            let taken = w.say(&format!("circuit eve 10.0.0.{n}"));
            assert_eq!(taken.is_ok(), n < 64, "{n}: {taken:?}");
        }
        assert!(Change::parse(&"x".repeat(9000)).unwrap_err().len() < 300);
        assert!(Change::parse(&format!("circuit a {}", "9".repeat(9000))).unwrap_err().len() < 300);
    }
}
