//! Circuits: users who have a name, devices and rates.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use narrows_units::Rate;

use crate::rows::{self, CircuitError, Effect, Place, RATES, Remark, Row, Rows};
use crate::user::CircuitId;
use crate::{LinkAddress, Mac, Prefix, PrefixTable};

/// Most that a user may have, down and up; `None` for no limit.
pub type Rates = [Option<Rate>; 2];

/// Name of the site that a circuit hangs at: its Parent Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParentNode {
    /// Id of the site; empty if none is given.
    pub id: String,
    /// Name of the site; empty if none is given.
    pub name: String,
}

impl ParentNode {
    /// Whether neither is given: the circuit hangs at none.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.id.is_empty() && self.name.is_empty()
    }
}

/// A circuit of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circuit {
    /// Name of the circuit in the file.
    pub id: String,
    /// Name of the circuit to show; its id where it has no name.
    pub name: String,
    /// Name by which RADIUS knows the circuit; empty if it has none.
    pub login: String,
    /// Rates of the circuit.
    pub rates: Rates,
    /// Site that it hangs at.
    pub site: ParentNode,
}

/// All circuits of a file, and how to find the one of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Circuits {
    circuits: Vec<Circuit>,
    prefixes: PrefixTable,
    macs: BTreeMap<Mac, u32>,
    vlans: BTreeMap<u16, u32>,
    by_id: BTreeMap<String, u32>,
    by_login: BTreeMap<String, u32>,
}

/// A file of circuits as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CircuitFile {
    circuits: Circuits,
    remarks: Vec<Remark>,
    rows: usize,
    taken: usize,
    devices: usize,
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
    by_login: BTreeMap<String, u32>,
    claims: BTreeMap<Claim, (u32, u64)>,
    prefixes: Vec<(Prefix, u32)>,
    devices: BTreeSet<(u32, String)>,
}

impl Draft {
    /// The circuit of a row: a new one, or the one with the same id, whose rates it has.
    fn circuit(&mut self, place: Place<'_>, row: &Row, remarks: &mut Vec<Remark>) -> u32 {
        let Some(at) = self.by_id.get(&row.circuit).copied() else {
            let at = u32::try_from(self.circuits.len()).unwrap_or(u32::MAX);
            let name = if row.name.is_empty() { &row.circuit } else { &row.name };
            self.circuits.push(Circuit {
                id: row.circuit.clone(),
                name: name.clone(),
                login: row.login.clone(),
                rates: row.rates,
                site: row.site.clone(),
            });
            if !row.login.is_empty() {
                self.by_login.entry(row.login.clone()).or_insert(at);
            }
            self.lines.push(row.line);
            self.by_id.insert(row.circuit.clone(), at);
            return at;
        };
        let circuit = &mut self.circuits[at as usize];
        for (way, column) in RATES.into_iter().enumerate() {
            if circuit.rates[way] != row.rates[way] {
                let line = self.lines[at as usize];
                let problem = format!(
                    "circuit '{}' has another rate in line {line}, which is the one that counts: all devices of a \
                     circuit share one",
                    row.circuit
                );
                remarks.push(place.remark(Effect::PartLeftOut, column, problem));
            }
        }
        if circuit.login.is_empty() && !row.login.is_empty() {
            circuit.login.clone_from(&row.login);
            self.by_login.entry(row.login.clone()).or_insert(at);
        }
        if circuit.site.name != row.site.name && !row.site.name.is_empty() {
            let problem = format!(
                "circuit '{}' hangs at '{}' by line {}, which is the one that counts",
                row.circuit, circuit.site.name, self.lines[at as usize]
            );
            remarks.push(place.remark(Effect::PartLeftOut, "Parent Node", problem));
        }
        at
    }

    /// Finds the addresses of a row that no other circuit has, and claims them.
    fn unclaimed<T: Copy + ToString>(
        &mut self,
        row: &Row,
        circuit: u32,
        all: &[T],
        claim: impl Fn(T) -> (&'static str, Claim),
        lost: &mut Vec<(&'static str, String)>,
    ) -> Vec<T> {
        let mut free = Vec::new();
        for one in all {
            let (column, key) = claim(*one);
            match self.claims.get(&key) {
                Some((other, line)) if *other != circuit => {
                    let id = &self.circuits[*other as usize].id;
                    let problem = format!(
                        "{} belongs to circuit '{id}' (line {line}) too: leave it with one of them",
                        one.to_string()
                    );
                    lost.push((column, problem));
                }
                Some(_) => {}
                None => {
                    self.claims.insert(key, (circuit, row.line));
                    free.push(*one);
                }
            }
        }
        free
    }
}

impl CircuitFile {
    /// Reads a file of that name.
    ///
    /// # Errors
    /// If nothing of it can be used: names the file, the line, the column and the remedy.
    pub fn read(file: &str, bytes: &[u8]) -> Result<Self, CircuitError> {
        let Rows { rows, seen, mut remarks } = rows::read(file, bytes)?;
        let (mut draft, mut all, mut taken) = (Draft::default(), Circuits::default(), 0);
        for row in &rows {
            let place = Place { file, line: row.line };
            let next = u32::try_from(draft.circuits.len()).unwrap_or(u32::MAX);
            let known = draft.by_id.get(&row.circuit).copied().unwrap_or(next);
            let mut lost = Vec::new();
            let prefix_claim = |prefix: Prefix| {
                let (first, bits) = prefix.parts();
                (if prefix.is_ipv4() { "IPv4" } else { "IPv6" }, Claim::Prefix(first, bits))
            };
            let prefixes = draft.unclaimed(row, known, &row.prefixes, prefix_claim, &mut lost);
            let macs = draft.unclaimed(row, known, &row.macs, |mac| ("MAC", Claim::Mac(mac)), &mut lost);
            let vlans =
                draft.unclaimed(row, known, &row.vlans, |vlan| ("VLAN", Claim::Vlan(vlan)), &mut lost);
            let nothing_left = prefixes.is_empty() && macs.is_empty() && vlans.is_empty() && !lost.is_empty();
            let effect = if nothing_left { Effect::RowLeftOut } else { Effect::PartLeftOut };
            let lost = lost.into_iter().map(|(column, problem)| place.remark(effect, column, problem));
            if nothing_left {
                remarks.extend(lost.take(1));
                continue;
            }
            remarks.extend(lost);
            let at = draft.circuit(place, row, &mut remarks);
            draft.prefixes.extend(prefixes.into_iter().map(|prefix| (prefix, at)));
            all.macs.extend(macs.into_iter().map(|mac| (mac, at)));
            all.vlans.extend(vlans.into_iter().map(|vlan| (vlan, at)));
            let device =
                if row.device.is_empty() { format!("line {}", row.line) } else { row.device.clone() };
            draft.devices.insert((at, device));
            taken += 1;
        }
        remarks.sort_by_key(|remark| remark.fault.line);
        let circuits = Circuits {
            circuits: draft.circuits,
            prefixes: PrefixTable::new(draft.prefixes),
            by_id: draft.by_id,
            by_login: draft.by_login,
            ..all
        };
        Ok(Self { circuits, remarks, rows: seen, taken, devices: draft.devices.len() })
    }

    /// The circuits.
    #[must_use]
    pub const fn circuits(&self) -> &Circuits {
        &self.circuits
    }

    /// Remarks on its lines, in their order.
    #[must_use]
    pub fn remarks(&self) -> &[Remark] {
        &self.remarks
    }

    /// Counts of circuits, devices and rows, for people.
    #[must_use]
    pub fn counts(&self) -> String {
        let of = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
        format!(
            "{} with {}, from {} of {}",
            of(self.circuits.circuits.len(), "circuit"),
            of(self.devices, "device"),
            self.taken,
            of(self.rows, "row")
        )
    }

    /// Takes the file only if all of it could be used.
    ///
    /// # Errors
    /// The first of what could not, and how many there are.
    pub fn strict(self) -> Result<Self, CircuitError> {
        rows::strict(&self.remarks).map(|()| self)
    }
}

impl Circuits {
    /// The circuits, in the order of the file.
    #[must_use]
    pub fn all(&self) -> &[Circuit] {
        &self.circuits
    }

    /// The place of the circuit that has this id, or that RADIUS knows by this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<u32> {
        self.by_id.get(name).or_else(|| self.by_login.get(name)).copied()
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
    numbers: BTreeMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
}

/// Numbers that are given for names that come one by one: beyond any provider's circuits, and some bytes each.
const NUMBERS: usize = 1 << 20;

impl Registry {
    /// The numbers of the circuits of a file, in its order.
    pub fn number(&mut self, circuits: &Circuits) -> Vec<CircuitId> {
        circuits.all().iter().map(|circuit| self.of(&circuit.id)).collect()
    }

    fn of(&mut self, name: &str) -> CircuitId {
        if let Some(number) = self.numbers.get(name) {
            return CircuitId(*number);
        }
        let (next, name) = (u32::try_from(self.names.len()).unwrap_or(u32::MAX), Arc::<str>::from(name));
        self.names.push(name.clone());
        self.numbers.insert(name, next);
        CircuitId(next)
    }

    /// The number of one name; `None` if it is new and there are too many.
    pub fn number_of(&mut self, name: &str) -> Option<CircuitId> {
        (self.names.len() < NUMBERS || self.numbers.contains_key(name)).then(|| self.of(name))
    }

    /// The name with this number.
    #[must_use]
    pub fn name(&self, id: CircuitId) -> Option<&str> {
        self.names.get(id.0 as usize).map(|name| &**name)
    }

    /// Number of numbers ever given.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether none was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
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

    fn read(text: &str) -> CircuitFile {
        CircuitFile::read("x.csv", text.as_bytes()).unwrap()
    }

    fn remarks(file: &CircuitFile) -> Vec<String> {
        file.remarks().iter().map(ToString::to_string).collect()
    }

    fn mbps(n: f64) -> Option<Rate> {
        Some(Rate::from_bps((n * 1e6) as u64))
    }

    #[test]
    fn a_file_of_shaped_devices() {
        let file = read(FILE);
        let c = file.circuits();
        let names: Vec<_> = c.all().iter().map(|c| (c.id.as_str(), c.name.as_str())).collect();
        assert_eq!(names, [("1", "968 Circle St."), ("2", "31 Marconi St."), ("3", "Office")]);
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
        assert_eq!(file.counts(), "3 circuits with 4 devices, from 4 of 4 rows");
        assert_eq!(file.clone().strict(), Ok(file));
    }

    #[test]
    fn columns_in_any_order_and_vlans() {
        let file = read("\u{feff}vlan,circuit id\r\n\"7, 8\",a\r\n9,b\r\n\r\n");
        let c = file.circuits();
        let of = |vlan| c.of_link(LinkAddress { mac: None, vlan: Some(vlan) });
        assert_eq!([of(7), of(8), of(9), of(10)], [Some(0), Some(0), Some(1), None]);
        assert_eq!(c.all()[0].name, "a", "without a name the id");
        assert!(read("Circuit ID\n").circuits().all().is_empty());
    }

    /// Every way to write one file gives the same circuits, and leaves nothing out.
    #[test]
    fn the_dialects_of_a_file() {
        let plain = "Circuit ID,Circuit Name,IPv4,Download Min Mbps,Download Max Mbps,Upload Max Mbps\n\
                     7,Müller,\"100.64.0.7, 100.64.0.8\",0,12.5,1.25\n8,Weiß,100.64.0.9,1,3.5,0.064\n";
        let utf_16 = |mark: &str| format!("{mark}{plain}").encode_utf16().collect::<Vec<u16>>();
        let expected = read(plain);
        assert_eq!(expected.circuits().all()[0].rates, [mbps(12.5), mbps(1.25)]);
        let semicolons = plain
            .replace("12.5,1.25", "12;5,1;25")
            .replace("3.5,0.064", "3;5,0;064")
            .replace([',', ';'], "\u{1}")
            .replace("100.64.0.7\u{1} 100", "100.64.0.7, 100")
            .replace("12\u{1}5\u{1}1\u{1}25", "12,5;1,25")
            .replace("3\u{1}5\u{1}0\u{1}064", "3,5;0,064")
            .replace('\u{1}', ";");
        assert!(semicolons.contains(";12,5;1,25\n"), "{semicolons}");
        let latin: Vec<u8> = plain.chars().map(|c| u8::try_from(c).unwrap()).collect();
        for (way, bytes) in [
            ("UTF-8 with a mark", format!("\u{feff}{plain}").into_bytes()),
            ("UTF-16, least byte first", utf_16("\u{feff}").iter().flat_map(|u| u.to_le_bytes()).collect()),
            (
                "UTF-16, greatest byte first",
                utf_16("\u{feff}").iter().flat_map(|u| u.to_be_bytes()).collect(),
            ),
            ("UTF-16 without a mark", utf_16("").iter().flat_map(|u| u.to_le_bytes()).collect()),
            ("Windows-1252", latin),
            ("lines that end in CR and LF", plain.replace('\n', "\r\n").into_bytes()),
            ("semicolons and decimal commas", semicolons.clone().into_bytes()),
            ("Excel's line on semicolons", format!("sep=;\r\n{semicolons}").into_bytes()),
            ("tabs", plain.replace(',', "\t").replace("\t 100", ", 100").into_bytes()),
            (
                "underscores",
                plain.replace("Circuit ID", "circuit_id").replace("Max Mbps", "max_mbps").into_bytes(),
            ),
            ("other letters", plain.replace("Circuit ID", "CIRCUIT ID").replace("IPv4", "IPV4").into_bytes()),
            ("units", plain.replace("12.5", "12.5 Mbit/s").replace("0.064", "64k").into_bytes()),
            ("no least rate", plain.replace(",0,12", ",,12").into_bytes()),
            ("words for nothing", plain.replace(",0,12", ",n/a,12").into_bytes()),
            ("a comment before", format!("# made on Monday\n{plain}").into_bytes()),
            ("a header behind a #", format!("#{plain}").into_bytes()),
            ("a title above", format!("Customers of the north mast,,,,,\n{plain}").into_bytes()),
            ("cells too many, and empty", plain.replace('\n', ",,,\n").into_bytes()),
        ] {
            let file = CircuitFile::read("x.csv", &bytes).unwrap_or_else(|e| panic!("{way}: {e}"));
            assert_eq!(file.circuits(), expected.circuits(), "{way}");
            assert_eq!(file.clone().strict().as_ref(), Ok(&file), "{way}");
        }
    }

    /// LibreQoS 2.2 ships a file whose header has two columns more than its rows.
    #[test]
    fn rows_that_lack_the_ids_of_nodes() {
        let head = "Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,Parent Node ID,Anchor Node ID,MAC,IPv4,\
                    IPv6,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment";
        let file = read(&format!(
            "{head}\n501,\"9 Long Lane, Flat 2\",1,Roof,AP_N,,\"100.64.7.1, 100.64.7.2\",2001:db8:7::/56,1,1,40,8,\n\
             502,Mill,2,Roof,AP_N,,100.64.7.3,,.5,.5,2.5,1,\n\
             503,Inn,3,Roof,AP_S,ap-s,inn,02:00:5e:00:53:01,100.64.7.4,,1,1,10,5,\n504,Barn,4,Roof,,,,,100.64.7.5\n"
        ));
        let rates: Vec<_> = file.circuits().all().iter().map(|c| c.rates).collect();
        let (first, second) = ([mbps(40.0), mbps(8.0)], [mbps(2.5), mbps(1.0)]);
        assert_eq!(rates, [first, second, [mbps(10.0), mbps(5.0)], [None, None]]);
        assert_eq!(file.circuits().of_address(bits("2001:db8:7:1::1")), Some(0));
        assert_eq!(file.circuits().of_address(bits("100.64.7.5")), Some(3));
        let said = remarks(&file);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("x.csv: 2 rows have no cells for Parent Node ID and Anchor Node ID"));
        assert!(file.strict().is_ok());
    }

    #[test]
    fn a_row_that_cannot_be_used_costs_that_row() {
        let head = "Circuit ID,IPv4,MAC,VLAN,Download Max Mbps\n";
        for (text, taken, expected) in [
            (
                "a,10.0.0.1,,,1,7\n",
                "0 of 2",
                "x.csv, line 2: 6 cells where the header has 5: put what has commas in quotation",
            ),
            (",10.0.0.1,,,\n", "0 of 2", "x.csv, line 2, column Circuit ID: it is empty"),
            ("a,10.0.0,,,\n", "0 of 2", "x.csv, line 2, column IPv4: '10.0.0' is no address and no prefix"),
            ("a,,,4095,\n", "0 of 2", "x.csv, line 2, column VLAN: '4095' is no VLAN: expected"),
            (
                "a,10.0.0.1,,,0\n",
                "0 of 2",
                "x.csv, line 2, column Download Max Mbps: '0' is no rate: expected",
            ),
            (
                "a,10.0.0.1,,,\"1,250\"\n",
                "0 of 2",
                "x.csv, line 2, column Download Max Mbps: '1,250' may be two",
            ),
            (
                "a,10.0.0.1,,,8 MB/s\n",
                "0 of 2",
                "x.csv, line 2, column Download Max Mbps: '8 MB/s' is no rate",
            ),
            (
                "a,10.0.0.0/24,,,\nb,10.0.0.9/24,,,\n",
                "1 of 3",
                "x.csv, line 3, column IPv4: 10.0.0.0/24 belongs to circuit 'a' (line 2) too: leave it with one",
            ),
        ] {
            let file = read(&format!("{head}{text}last,192.0.2.9,,,3\n"));
            let said = remarks(&file);
            assert!(said.len() == 1 && said[0].starts_with(expected), "{said:?}");
            assert!(said[0].ends_with("; this row is left out"), "{said:?}");
            let (counted, rows) = taken.split_once(" of ").unwrap();
            let counted: usize = counted.parse().unwrap();
            assert!(
                file.counts().ends_with(&format!("from {} of {rows} rows", counted + 1)),
                "{}",
                file.counts()
            );
            assert!(file.circuits().of_address(bits("192.0.2.9")).is_some());
            assert!(file.strict().unwrap_err().to_string().starts_with(expected));
        }
    }

    #[test]
    fn a_part_that_cannot_be_used_costs_that_part() {
        let head = "Circuit ID,IPv4,MAC,VLAN,Download Max Mbps\n";
        for (text, expected) in [
            (
                "a,\"10.0.0.1, 10.0.0\",,,\n",
                "x.csv, line 2, column IPv4: '10.0.0' is no address and no prefix",
            ),
            ("a,10.0.0.1,bob@isp,,\n", "x.csv, line 2, column MAC: 'bob@isp' is no MAC address"),
            ("a,,bob@isp,,\n", "x.csv, line 2, column MAC: 'bob@isp' is no MAC address"),
            ("a,,,,2\n", "x.csv, line 2, column IPv4: no address, MAC or VLAN"),
            ("a,10.0.0.1,,4095,\n", "x.csv, line 2, column VLAN: '4095' is no VLAN: expected"),
            (
                "a,10.0.0.1,,,1\na,10.0.0.2,,,2\n",
                "x.csv, line 3, column Download Max Mbps: circuit 'a' has another rate in line 2, which is the one",
            ),
            (
                "a,10.0.0.1,,,\nb,\"10.0.0.1, 10.0.0.2\",,,\n",
                "x.csv, line 3, column IPv4: 10.0.0.1 belongs to circuit 'a' (line 2) too: leave it with one",
            ),
        ] {
            let file = read(&format!("{head}{text}"));
            let said = remarks(&file);
            assert!(said.len() == 1 && said[0].starts_with(expected), "{said:?}");
            assert!(file.circuits().all()[0].id == "a", "{text}");
            assert!(file.strict().is_err(), "{text}");
        }
        let two = read(&format!("{head}a,10.0.0.1,,,1\na,10.0.0.2,,,2\n"));
        assert_eq!(two.circuits().all()[0].rates[0], mbps(1.0), "the first counts");
        assert_eq!(two.circuits().of_address(bits("10.0.0.2")), Some(0));
        let known = read(&format!("{head}pppoe-7,,bob@isp,,4\n"));
        let named = ["pppoe-7", "bob@isp", "eve"].map(|name| known.circuits().named(name));
        assert_eq!(named, [Some(0), Some(0), None]);
        // A MAC address that only fills a form belongs to nobody.
        let filled = read(&format!(
            "{head}a,10.0.0.1,00:00:00:00:00:00,,\nb,\"0.0.0.0, 10.0.0.2\",ff-ff-ff-ff-ff-ff,,\n"
        ));
        assert!(filled.remarks().is_empty() && !filled.circuits().by_link());
    }

    /// A quotation mark that nothing closes costs its own line, in a file of any length.
    #[test]
    fn a_row_swallows_no_other() {
        let head = "# a comment, \"quoted\nCircuit ID,Circuit Name,IPv4,Comment\n";
        let file = read(&format!(
            "{head}a,\"Mill, Lane,10.0.0.1,x\nb,Inn,10.0.0.2,\n\n# one more \"\nc,\"two\nlines\",10.0.0.3,\n\
             d,Barn,10.0.0.4,\"y\ne,School,10.0.0.5,\n"
        ));
        let found =
            [1, 2, 3, 4, 5].map(|n| file.circuits().of_address(bits(&format!("10.0.0.{n}"))).is_some());
        assert_eq!(found, [false, true, true, true, true], "{:?}", remarks(&file));
        let said = remarks(&file);
        assert!(said.len() == 1 && said[0].starts_with("x.csv, line 3: 5 cells where"), "{said:?}");
        assert_eq!(file.circuits().all()[1].name, "two\nlines");
        let rows = |n: u32| {
            (0..n).map(|n| format!("{n},,10.{}.{}.{},\n", n >> 16, n >> 8 & 255, n & 255)).collect::<String>()
        };
        let many = read(&format!("{head}{}x,y\n", rows(30_000)));
        assert_eq!(many.counts(), "30001 circuits with 30001 devices, from 30001 of 30001 rows");
        assert_eq!(many.remarks()[0].fault.line, 30_003);
    }

    #[test]
    fn columns_of_others_are_said_once() {
        let file = read("Circuit ID,IPv4,Tower,Plan,sqm\na,10.0.0.1,N,gold\nb,10.0.0.2,S,gold,cake/none\n");
        let passed =
            "x.csv, line 1: 'Tower', 'Plan': no column is called so, and what stands in it is passed over";
        assert_eq!(remarks(&file), [passed]);
        assert_eq!(file.counts(), "2 circuits with 2 devices, from 2 of 2 rows");
        assert!(file.strict().is_ok());
        let twice = read("Circuit ID,IPv4,ipv4\na,10.0.0.1,10.0.0.2\n");
        assert_eq!(remarks(&twice), ["x.csv, line 1, column IPv4: it stands there twice: the first is read"]);
        assert_eq!(twice.circuits().of_address(bits("10.0.0.2")), None);
    }

    #[test]
    fn a_file_without_a_header_is_refused_with_the_remedy() {
        for (text, expected) in [
            ("", "x.csv: there is no header line: expected the columns Circuit ID, "),
            (
                "#north\n12,Clinic,1,Router,,,192.0.2.9,,1,1,4,1,x\n",
                "x.csv, line 2: the first line must name the columns, and '12,Clinic,1,Router,,,192.0.2.9,,1,1,4,1,' \
                 names none: put a line above it as Circuit ID,Circuit Name,",
            ),
            ("# one\n\nIPv4\n10.0.0.1\n", "x.csv, line 3, column Circuit ID: it is missing: it says which"),
            ("PK\u{3}\u{4}\u{14}", "x.csv: it is a workbook: save it as CSV"),
        ] {
            let error = CircuitFile::read("x.csv", text.as_bytes()).unwrap_err().to_string();
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
        for _ in 0..5000 {
            let mut bytes = FILE.as_bytes().to_vec();
            for _ in 0..1 + roll(8) {
                let at = roll(bytes.len());
                bytes[at] = b"\"\n,#/:.x0\xff\x00;"[roll(12)];
            }
            bytes.truncate(roll(2 * bytes.len()));
            match CircuitFile::read("x.csv", &bytes) {
                Err(error) => assert!(error.to_string().starts_with("x.csv"), "{error}"),
                Ok(file) => assert!(file.circuits().all().len() <= bytes.len()),
            }
        }
    }

    #[test]
    fn an_id_keeps_its_number() {
        let parse = |text: &str| read(&format!("Circuit ID\n{text}")).circuits().clone();
        let mut registry = Registry::default();
        assert_eq!(registry.number(&parse("a\nb")), [CircuitId(0), CircuitId(1)]);
        assert_eq!(registry.number(&parse("c\nb\na")), [CircuitId(2), CircuitId(1), CircuitId(0)]);
        assert_eq!(registry.len(), 3);
    }
}
