//! Circuits: users who have a name, devices and rates.

use std::collections::BTreeMap;

use narrows_units::Rate;

use crate::rows::{self, CircuitError, Place, Row};
use crate::user::CircuitId;
use crate::{LinkAddress, Mac, Prefix, PrefixTable};

/// Most that a user may have, down and up; `None` for no limit.
pub type Rates = [Option<Rate>; 2];

/// A circuit of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circuit {
    /// Name of the circuit in the file.
    pub id: String,
    /// Name of the circuit to show; its id where it has no name.
    pub name: String,
    /// Rates of the circuit.
    pub rates: Rates,
}

/// All circuits of a file, and how to find the one of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Circuits {
    circuits: Vec<Circuit>,
    prefixes: PrefixTable,
    macs: BTreeMap<Mac, u32>,
    vlans: BTreeMap<u16, u32>,
}

/// Address, MAC address or VLAN of a circuit: as a key, so that no two circuits have the same one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    Prefix(u128, u8),
    Mac(Mac),
    Vlan(u16),
}

/// While a file is read.
#[derive(Default)]
struct Draft {
    circuits: Vec<Circuit>,
    /// The line a circuit's rates are from.
    lines: Vec<u64>,
    by_id: BTreeMap<String, u32>,
    claims: BTreeMap<Claim, (u32, u64)>,
    prefixes: Vec<(Prefix, u32)>,
}

impl Draft {
    /// The circuit of a row: a new one, or the one with the same id, whose rates must be the same.
    fn circuit(&mut self, place: Place<'_>, row: &Row) -> Result<u32, CircuitError> {
        let Some(at) = self.by_id.get(&row.circuit).copied() else {
            let at = u32::try_from(self.circuits.len()).unwrap_or(u32::MAX);
            let name = if row.name.is_empty() { &row.circuit } else { &row.name };
            self.circuits.push(Circuit { id: row.circuit.clone(), name: name.clone(), rates: row.rates });
            self.lines.push(row.line);
            self.by_id.insert(row.circuit.clone(), at);
            return Ok(at);
        };
        for (way, column) in ["Download Max Mbps", "Upload Max Mbps"].into_iter().enumerate() {
            if self.circuits[at as usize].rates[way] != row.rates[way] {
                let line = self.lines[at as usize];
                let problem = format!(
                    "circuit '{}' has another rate in line {line}: all devices of a circuit share one",
                    row.circuit
                );
                return Err(place.error(column, problem));
            }
        }
        Ok(at)
    }

    fn claim(
        &mut self,
        place: Place<'_>,
        column: &'static str,
        text: &str,
        claim: Claim,
        circuit: u32,
    ) -> Result<(), CircuitError> {
        let (other, line) = *self.claims.entry(claim).or_insert((circuit, place.line));
        if other == circuit {
            return Ok(());
        }
        let id = &self.circuits[other as usize].id;
        let problem =
            format!("{text} belongs to circuit '{id}' (line {line}) too: leave it with one of them");
        Err(place.error(column, problem))
    }
}

impl Circuits {
    /// Reads the text of a file of that name.
    ///
    /// # Errors
    /// Names the file, the line, the column and the remedy.
    pub fn parse(file: &str, text: &str) -> Result<Self, CircuitError> {
        let mut draft = Draft::default();
        let mut all = Self::default();
        for row in rows::read(file, text)? {
            let place = Place { file, line: row.line };
            let at = draft.circuit(place, &row)?;
            for prefix in &row.prefixes {
                let column = if prefix.is_ipv4() { "IPv4" } else { "IPv6" };
                let (first, bits) = prefix.parts();
                draft.claim(place, column, &prefix.to_string(), Claim::Prefix(first, bits), at)?;
                draft.prefixes.push((*prefix, at));
            }
            for mac in &row.macs {
                draft.claim(place, "MAC", &mac.to_string(), Claim::Mac(*mac), at)?;
                all.macs.insert(*mac, at);
            }
            for vlan in &row.vlans {
                draft.claim(place, "VLAN", &vlan.to_string(), Claim::Vlan(*vlan), at)?;
                all.vlans.insert(*vlan, at);
            }
        }
        Ok(Self { circuits: draft.circuits, prefixes: PrefixTable::new(draft.prefixes), ..all })
    }

    /// The circuits, in the order of the file.
    #[must_use]
    pub fn all(&self) -> &[Circuit] {
        &self.circuits
    }

    /// Whether any is known by its link layer.
    #[must_use]
    pub fn by_link(&self) -> bool {
        !self.macs.is_empty() || !self.vlans.is_empty()
    }

    /// The place of the circuit of an address (as a flow's key keeps it): the longest prefix.
    #[must_use]
    pub fn of_address(&self, address: u128) -> Option<u32> {
        self.prefixes.find(address)
    }

    /// The place of the circuit of a frame: its MAC address before its VLAN.
    #[must_use]
    pub fn of_link(&self, link: LinkAddress) -> Option<u32> {
        let by_mac = link.mac.and_then(|mac| self.macs.get(&mac));
        by_mac.or_else(|| link.vlan.and_then(|vlan| self.vlans.get(&vlan))).copied()
    }
}

/// The numbers of circuits. An id keeps its number when a file is read again, so that packets that wait stay with their
/// circuit.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    numbers: BTreeMap<String, u32>,
}

impl Registry {
    /// The numbers of the circuits of a file, in its order.
    pub fn number(&mut self, circuits: &Circuits) -> Vec<CircuitId> {
        let one = |circuit: &Circuit| {
            let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
            CircuitId(*self.numbers.entry(circuit.id.clone()).or_insert(next))
        };
        circuits.all().iter().map(one).collect()
    }

    /// Number of numbers ever given.
    #[must_use]
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether none was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::User;

    /// File as LibreQoS has it, with a comment before the header.
    const FILE: &str = "\
# made by a billing system
Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,Download Min Mbps,Upload Min Mbps,\
Download Max Mbps,Upload Max Mbps,Comment
1,968 Circle St.,1,Router,AP_A,,\"100.64.0.1, 100.64.0.14\",2001:db8:1::/56,1,1,25,5,
1,968 Circle St.,2,Camera,AP_A,,100.64.0.2,,1,1,25,5,\"second device, same circuit\"
2,31 Marconi St.,3,Router,AP_A,02:00:5e:10:00:01,,,1,1,2.5,.5,
3,Office,4,Firewall,,,100.64.1.0/24,,,,,,no limit
";

    fn bits(text: &str) -> u128 {
        User::of(text.parse().unwrap(), 128).bits()
    }

    #[test]
    fn a_file_of_shaped_devices() {
        let c = Circuits::parse("ShapedDevices.csv", FILE).unwrap();
        let names: Vec<_> = c.all().iter().map(|c| (c.id.as_str(), c.name.as_str())).collect();
        assert_eq!(names, [("1", "968 Circle St."), ("2", "31 Marconi St."), ("3", "Office")]);
        let mbps = |n: f64| Some(Rate::from_bps((n * 1e6) as u64));
        let rates: Vec<_> = c.all().iter().map(|c| c.rates).collect();
        assert_eq!(rates, [[mbps(25.0), mbps(5.0)], [mbps(2.5), mbps(0.5)], [None, None]]);
        for (address, circuit) in [
            ("100.64.0.1", Some(0)),
            ("100.64.0.2", Some(0)),
            ("100.64.0.14", Some(0)),
            ("100.64.0.3", None),
            ("2001:db8:1:ff::9", Some(0)),
            ("100.64.1.77", Some(2)),
        ] {
            assert_eq!(c.of_address(bits(address)), circuit, "{address}");
        }
        let mac = "02:00:5e:10:00:01".parse().ok();
        assert_eq!(c.of_link(LinkAddress { mac, vlan: None }), Some(1));
        assert_eq!(c.of_link(LinkAddress::default()), None);
        assert!(c.by_link());
    }

    #[test]
    fn columns_in_any_order_and_vlans() {
        let c = Circuits::parse("x.csv", "\u{feff}vlan,circuit id\r\n\"7, 8\",a\r\n9,b\r\n\r\n").unwrap();
        let of = |vlan| c.of_link(LinkAddress { mac: None, vlan: Some(vlan) });
        assert_eq!([of(7), of(8), of(9), of(10)], [Some(0), Some(0), Some(1), None]);
        assert_eq!(c.all()[0].name, "a", "without a name the id");
        assert!(Circuits::parse("x.csv", "Circuit ID\n").unwrap().all().is_empty());
    }

    #[test]
    fn errors_name_file_line_column_and_remedy() {
        let head = "Circuit ID,IPv4,MAC,VLAN,Download Max Mbps\n";
        for (text, expected) in [
            ("", "x.csv: there is no header line: expected the columns Circuit ID, "),
            ("Circuit ID,IP\n", "x.csv, line 1: no column is called 'IP': expected Circuit ID, "),
            ("# one\n\nIPv4\n", "x.csv, line 3, column Circuit ID: it is missing"),
            ("Circuit ID,IPv4,ipv4\n", "x.csv, line 1, column IPv4: it stands there twice"),
            (
                "a,10.0.0.1\n",
                "x.csv, line 2: 2 cells where the header has 5: put what has commas in quotation",
            ),
            (",10.0.0.1,,,\n", "x.csv, line 2, column Circuit ID: it is empty"),
            (
                "a,,,,\nb,10.0.0,,,\n",
                "x.csv, line 3, column IPv4: '10.0.0' is no address and no prefix: expected",
            ),
            ("a,,02:00,,\n", "x.csv, line 2, column MAC: '02:00' is no MAC address: expected"),
            ("a,,,4095,\n", "x.csv, line 2, column VLAN: '4095' is no VLAN: expected"),
            ("a,,,,0\n", "x.csv, line 2, column Download Max Mbps: '0' is no rate: expected Mbit/s"),
            (
                "a,,,,1\na,,,,2\n",
                "x.csv, line 3, column Download Max Mbps: circuit 'a' has another rate in line 2",
            ),
            (
                "a,10.0.0.0/24,,,\nb,10.0.0.9/24,,,\n",
                "x.csv, line 3, column IPv4: 10.0.0.0/24 belongs to circuit 'a' (line 2) too: leave it with one",
            ),
        ] {
            let text = if text.contains("Circuit ID") || text.contains("IPv4") || text.is_empty() {
                text.to_owned()
            } else {
                format!("{head}{text}")
            };
            let error = Circuits::parse("x.csv", &text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn no_text_makes_it_panic() {
        let mut state = 1_u64;
        let mut roll = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % n
        };
        for _ in 0..20_000 {
            let mut bytes = FILE.as_bytes().to_vec();
            for _ in 0..1 + roll(8) {
                let at = roll(bytes.len());
                bytes[at] = b"\"\n,#/:.x0\xff\x00"[roll(11)];
            }
            bytes.truncate(roll(2 * bytes.len()));
            let text = String::from_utf8_lossy(&bytes);
            if let Err(error) = Circuits::parse("x.csv", &text) {
                assert!(error.line as usize <= text.lines().count(), "{error}: {text:?}");
            }
        }
    }

    #[test]
    fn an_id_keeps_its_number() {
        let parse = |text: &str| Circuits::parse("x", &format!("Circuit ID\n{text}")).unwrap();
        let mut registry = Registry::default();
        assert_eq!(registry.number(&parse("a\nb")), [CircuitId(0), CircuitId(1)]);
        assert_eq!(registry.number(&parse("c\nb\na")), [CircuitId(2), CircuitId(1), CircuitId(0)]);
        assert_eq!(registry.len(), 3);
    }
}
