//! The rows of a file of circuits: a header line with the names of columns, then a device a line, as in LibreQoS's
//! ShapedDevices.csv. A circuit may have many devices; cells that hold many addresses have commas between them, within
//! quotation marks. Lines that begin with `#` are comments.
//!
//! Where we differ: columns may stand in any order and those we need not may be missing; `VLAN` is one more. A least
//! rate is read and not used: a circuit's fair share is what it has at least. An empty rate is no limit.

use core::fmt;

use csv::{ReaderBuilder, StringRecord, Trim};
use narrows_units::Rate;

use crate::{Mac, Prefix};

/// Fault in a file of circuits: its place, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitError {
    /// The file's name.
    pub file: String,
    /// The line, from 1; 0 for the file as a whole.
    pub line: u64,
    /// The column's name; empty for the line as a whole.
    pub column: &'static str,
    /// Fault and expectation, in words.
    pub problem: String,
}

impl fmt::Display for CircuitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ", line {}", self.line)?;
        }
        if !self.column.is_empty() {
            write!(f, ", column {}", self.column)?;
        }
        write!(f, ": {}", self.problem)
    }
}
impl std::error::Error for CircuitError {}

/// The columns, and whether one has to be there.
const COLUMNS: [(&str, bool); 15] = [
    ("Circuit ID", true),
    ("Circuit Name", false),
    ("Device ID", false),
    ("Device Name", false),
    ("Parent Node", false),
    ("MAC", false),
    ("VLAN", false),
    ("IPv4", false),
    ("IPv6", false),
    ("Download Min Mbps", false),
    ("Upload Min Mbps", false),
    ("Download Max Mbps", false),
    ("Upload Max Mbps", false),
    ("Comment", false),
    // Shaper that LibreQoS makes for the circuit; not used here.
    ("sqm", false),
];

/// A device.
#[derive(Debug, Default)]
pub struct Row {
    pub line: u64,
    pub circuit: String,
    pub name: String,
    pub macs: Vec<Mac>,
    pub vlans: Vec<u16>,
    pub prefixes: Vec<Prefix>,
    /// Down and up.
    pub rates: [Option<Rate>; 2],
}

/// Place of an error.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub file: &'a str,
    pub line: u64,
}

impl Place<'_> {
    pub fn error(self, column: &'static str, problem: impl Into<String>) -> CircuitError {
        CircuitError { file: self.file.to_owned(), line: self.line, column, problem: problem.into() }
    }
}

/// Reads a file's text.
pub fn read(file: &str, text: &str) -> Result<Vec<Row>, CircuitError> {
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .comment(Some(b'#'))
        .flexible(true)
        .trim(Trim::All)
        .from_reader(text.trim_start_matches('\u{feff}').as_bytes());
    let (mut columns, mut rows) = (None, Vec::new());
    let mut record = StringRecord::new();
    loop {
        let line = reader.position().line();
        let more =
            reader.read_record(&mut record).map_err(|e| Place { file, line }.error("", e.to_string()))?;
        if !more {
            break;
        }
        if record.iter().all(str::is_empty) {
            continue;
        }
        let place = Place { file, line: begins(text, line) };
        match &columns {
            None => columns = Some(header(place, &record)?),
            Some(columns) => rows.push(row(place, columns, &record)?),
        }
    }
    if columns.is_none() {
        let names: Vec<_> = COLUMNS.iter().map(|c| c.0).collect();
        let expected = format!("there is no header line: expected the columns {}", names.join(", "));
        return Err(Place { file, line: 0 }.error("", expected));
    }
    Ok(rows)
}

/// The line in which a record begins that the reader looked for from `line` on: comments and empty lines are none.
fn begins(text: &str, line: u64) -> u64 {
    let from = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
    let skipped = text.lines().skip(from).take_while(|l| l.is_empty() || l.starts_with('#')).count();
    line + skipped as u64
}

/// Which column stands where.
fn header(place: Place<'_>, record: &StringRecord) -> Result<Vec<&'static str>, CircuitError> {
    let mut columns: Vec<&'static str> = Vec::new();
    for cell in record {
        let known = COLUMNS.iter().find(|(name, _)| name.eq_ignore_ascii_case(cell));
        let Some((name, _)) = known else {
            let names: Vec<_> = COLUMNS.iter().map(|c| c.0).collect();
            return Err(
                place.error("", format!("no column is called '{cell}': expected {}", names.join(", ")))
            );
        };
        if columns.contains(name) {
            return Err(place.error(name, "it stands there twice: leave one out"));
        }
        columns.push(name);
    }
    match COLUMNS.iter().find(|(name, needed)| *needed && !columns.contains(name)) {
        Some((name, _)) => Err(place.error(name, "it is missing: it says which devices are one user")),
        None => Ok(columns),
    }
}

fn row(place: Place<'_>, columns: &[&'static str], record: &StringRecord) -> Result<Row, CircuitError> {
    if record.len() != columns.len() {
        let problem = format!(
            "{} cells where the header has {}: put what has commas in quotation marks",
            record.len(),
            columns.len()
        );
        return Err(place.error("", problem));
    }
    let mut row = Row { line: place.line, ..Row::default() };
    for (column, cell) in columns.iter().copied().zip(record) {
        let parts = || cell.split(',').map(str::trim).filter(|part| !part.is_empty());
        let wrong = |problem: String| place.error(column, problem);
        match column {
            "Circuit ID" => cell.clone_into(&mut row.circuit),
            "Circuit Name" => cell.clone_into(&mut row.name),
            "MAC" => row.macs = parts().map(str::parse).collect::<Result<_, _>>().map_err(wrong)?,
            "VLAN" => row.vlans = parts().map(vlan).collect::<Result<_, _>>().map_err(wrong)?,
            "IPv4" | "IPv6" => {
                for part in parts() {
                    row.prefixes.push(part.parse().map_err(wrong)?);
                }
            }
            "Download Max Mbps" => row.rates[0] = rate(cell).map_err(wrong)?,
            "Upload Max Mbps" => row.rates[1] = rate(cell).map_err(wrong)?,
            "Download Min Mbps" | "Upload Min Mbps" => drop(rate(cell).map_err(wrong)?),
            _ => {}
        }
    }
    if row.circuit.is_empty() {
        return Err(place.error("Circuit ID", "it is empty: expected what names the circuit"));
    }
    Ok(row)
}

fn vlan(text: &str) -> Result<u16, String> {
    let number = text.parse().ok().filter(|n| (1..=4094).contains(n));
    number.ok_or_else(|| format!("'{text}' is no VLAN: expected a number from 1 to 4094"))
}

/// A rate in Mbit/s, which may have a fraction.
fn rate(text: &str) -> Result<Option<Rate>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let mbps = text.parse::<f64>().ok().filter(|n| *n >= 0.001 && *n <= 1e6);
    let bps = mbps.map(|n| Rate::from_bps((n * 1e6).round() as u64));
    let wrong =
        || format!("'{text}' is no rate: expected Mbit/s from 0.001 to 1000000, or nothing for no limit");
    bps.map(Some).ok_or_else(wrong)
}
