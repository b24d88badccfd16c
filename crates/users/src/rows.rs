//! The rows of a file of circuits: a header line with the names of columns, then a device a line, as in LibreQoS's
//! ShapedDevices.csv. A circuit may have many devices; cells that hold many addresses have commas between them, within
//! quotation marks. Lines that begin with `#` are comments.
//!
//! Where we differ: columns may stand in any order and those we need not may be missing; `VLAN` is one more. A least
//! rate is not used: a circuit's fair share is what it has at least. An empty rate is no limit. Whatever is wrong with
//! a row is told and costs that row at most.

use core::fmt;

use csv::{ReaderBuilder, StringRecord, Trim};
use narrows_units::Rate;

use crate::circuits::ParentNode;
use crate::text::{self, Mark};
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

/// Effect of a fault that does not refuse its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Everything was taken as it was meant.
    Taken,
    /// The row was taken without what the fault names.
    PartLeftOut,
    /// The row was left out.
    RowLeftOut,
}

/// Remark on a file of circuits that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Fault or oddity, with its place.
    pub fault: CircuitError,
    /// Effect.
    pub effect: Effect,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left_out = if self.effect == Effect::RowLeftOut { "; this row is left out" } else { "" };
        write!(f, "{}{left_out}", self.fault)
    }
}

/// Refuses a file with these remarks unless all of it could be used.
///
/// # Errors
/// The first of what could not, and how many there are.
pub fn strict(remarks: &[Remark]) -> Result<(), CircuitError> {
    let mut unused = remarks.iter().filter(|remark| remark.effect > Effect::Taken);
    let Some(first) = unused.next() else { return Ok(()) };
    let mut error = first.fault.clone();
    match unused.count() {
        0 => {}
        more => error.problem = format!("{}; and {more} more as `narrows check` lists them", error.problem),
    }
    Err(error)
}

/// A column of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    CircuitId,
    CircuitName,
    DeviceId,
    Parent,
    ParentId,
    Anchor,
    Mac,
    Login,
    Vlan,
    Address(&'static str),
    MaxRate(usize),
    MinRate,
    /// Known, and not used here.
    Unused,
    /// Not known: the place stands for a column of another program.
    Other,
}

/// Columns: as messages name them, as headers are compared (letters and digits alone, in lower case), and what they
/// are. The names without a unit and the last three are those of LibreQoS's reader.
const COLUMNS: [(&str, &[&str], Column); 18] = [
    ("Circuit ID", &["circuitid"], Column::CircuitId),
    ("Circuit Name", &["circuitname"], Column::CircuitName),
    ("Device ID", &["deviceid"], Column::DeviceId),
    ("Device Name", &["devicename"], Column::Unused),
    ("Parent Node", &["parentnode"], Column::Parent),
    ("Parent Node ID", &["parentnodeid"], Column::ParentId),
    ("Anchor Node ID", &["anchornodeid", "id"], Column::Anchor),
    ("MAC", &["mac", "macaddress"], Column::Mac),
    ("VLAN", &["vlan", "vlanid"], Column::Vlan),
    ("IPv4", &["ipv4", "ipv4address", "ipv4addresses"], Column::Address("IPv4")),
    ("IPv6", &["ipv6", "ipv6address", "ipv6addresses"], Column::Address("IPv6")),
    ("Download Min Mbps", &["downloadminmbps", "downloadmin"], Column::MinRate),
    ("Upload Min Mbps", &["uploadminmbps", "uploadmin"], Column::MinRate),
    (RATES[0], &["downloadmaxmbps", "downloadmax"], Column::MaxRate(0)),
    (RATES[1], &["uploadmaxmbps", "uploadmax"], Column::MaxRate(1)),
    ("Comment", &["comment", "comments"], Column::Unused),
    // Shaper that LibreQoS makes for the circuit.
    ("sqm", &["sqm"], Column::Unused),
    ("RADIUS Username", &["radiususername", "username"], Column::Login),
];

/// Columns of the rates, down and up.
pub const RATES: [&str; 2] = ["Download Max Mbps", "Upload Max Mbps"];

/// The line that messages give as an example of a header, with a row.
const EXAMPLE: &str = "Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,Download Min Mbps,\
                       Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment";

/// Words that stand in a cell where there is nothing to say.
const NOTHING: [&str; 8] = ["-", "--", "n/a", "na", "none", "null", "nil", "unlimited"];

/// Rows that are looked through for the header: a title may stand above it.
const ABOVE: usize = 5;

/// A device.
#[derive(Debug, Default)]
pub struct Row {
    pub line: u64,
    pub circuit: String,
    pub name: String,
    pub device: String,
    /// Site that the circuit hangs at.
    pub site: ParentNode,
    /// Name by which RADIUS knows the circuit.
    pub login: String,
    pub macs: Vec<Mac>,
    pub vlans: Vec<u16>,
    pub prefixes: Vec<Prefix>,
    /// Down and up.
    pub rates: [Option<Rate>; 2],
}

impl Row {
    /// Whether a packet can be found to be of this device.
    pub const fn has_address(&self) -> bool {
        !(self.macs.is_empty() && self.vlans.is_empty() && self.prefixes.is_empty())
    }
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

    pub fn remark(self, effect: Effect, column: &'static str, problem: impl Into<String>) -> Remark {
        Remark { fault: self.error(column, problem), effect }
    }
}

/// The rows of a file that can be used, and what is to be told of all of them.
#[derive(Debug, Default)]
pub struct Rows {
    pub rows: Vec<Row>,
    /// Rows that say anything.
    pub seen: usize,
    pub remarks: Vec<Remark>,
}

/// Reads a file.
pub fn read(file: &str, bytes: &[u8]) -> Result<Rows, CircuitError> {
    let whole = Place { file, line: 0 };
    if text::is_workbook(bytes) {
        return Err(whole.error("", "it is a workbook: save it as CSV (\"CSV UTF-8\" in Excel)"));
    }
    let (text, encoding) = text::decode(bytes);
    let mut all = Rows::default();
    if encoding == "windows-1252" {
        let problem = "it is not in UTF-8 and is read as Windows-1252";
        all.remarks.push(whole.remark(Effect::Taken, "", problem));
    }
    let records = records(file, &text)?;
    let (above, columns) = header(file, &text, &records, &mut all.remarks)?;
    let records = &records[above..];
    let mark = mark(&columns, records);
    let mut shifted = 0;
    for (line, record) in records {
        let place = Place { file, line: *line };
        all.seen += 1;
        let reduced = without_ids(&columns, record);
        shifted += usize::from(reduced.is_some());
        let columns = reduced.as_deref().unwrap_or(&columns);
        all.rows.extend(row(place, columns, record, mark, &mut all.remarks));
    }
    if shifted > 0 {
        let problem = format!(
            "{shifted} rows have no cells for Parent Node ID and Anchor Node ID: they are read as if there were no \
             such columns"
        );
        all.remarks.push(whole.remark(Effect::Taken, "", problem));
    }
    Ok(all)
}

/// All lines with cells, each with the number of the line on which it begins.
fn records(file: &str, text: &str) -> Result<Vec<(u64, StringRecord)>, CircuitError> {
    // Excel's own way to name the delimiter, which it reads and never shows.
    let said = text.lines().next().and_then(|line| line.trim().trim_matches('"').strip_prefix("sep="));
    let said = said.and_then(|rest| rest.bytes().next().or(Some(b'\t')));
    let first = text.lines().find(|line| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#') && !line.trim_matches('"').starts_with("sep=")
    });
    let delimiter = said.unwrap_or_else(|| text::delimiter(first.unwrap_or_default()));
    let (mut all, mut width) = (Vec::new(), None);
    let mut start = Start { at: 0, line: 1 };
    'anew: loop {
        let (base, mut reader) = (start.at, reader(&text[start.at..], delimiter, true));
        loop {
            start = start.of_record(text);
            let mut record = StringRecord::new();
            let more = reader.read_record(&mut record).map_err(|e| start.error(file, &e))?;
            if !more {
                return Ok(all);
            }
            let swallows = width.is_some_and(|width| swallows(&record, width, delimiter));
            if swallows {
                let rest = &text[start.at..];
                let end = rest.find('\n').map_or(rest.len(), |end| end + 1);
                record = one(&rest[..end], delimiter, false).unwrap_or(record);
                all.push((start.line, record));
                start = start.after(text, end);
                continue 'anew;
            }
            if width.is_none() && is_header(&record) {
                width = Some(record.len());
            }
            let says_nothing = record.iter().all(str::is_empty);
            let is_delimiter = all.is_empty() && said.is_some() && record[0].starts_with("sep=");
            if !says_nothing && !is_delimiter {
                all.push((start.line, record));
            }
            let next = base + usize::try_from(reader.position().byte()).unwrap_or(0);
            start = start.after(text, next - start.at);
        }
    }
}

/// Whether a record has a quotation mark that nothing closes, and with it lines that are rows: a cell goes over several
/// lines, and there are not as many cells as in the header, or one of these lines has as many itself. That costs the
/// line with the mark, and not those that follow.
fn swallows(record: &StringRecord, width: usize, delimiter: u8) -> bool {
    let is_row = |line: &str| line.bytes().filter(|byte| *byte == delimiter).count() + 1 >= width.max(2);
    let long =
        |cell: &str| cell.contains('\n') && (record.len() != width || cell.lines().skip(1).any(is_row));
    record.iter().any(long)
}

/// Place in a text at which a record may begin.
#[derive(Clone, Copy)]
struct Start {
    at: usize,
    line: u64,
}

impl Start {
    /// The next record's: comments and empty lines come before it.
    fn of_record(self, text: &str) -> Self {
        let mut start = self;
        while let Some(end) = text[start.at..].find('\n') {
            let line = &text[start.at..start.at + end];
            if !line.trim().is_empty() && !line.starts_with('#') {
                break;
            }
            start = start.after(text, end + 1);
        }
        start
    }

    /// Place so many bytes further on.
    fn after(self, text: &str, bytes: usize) -> Self {
        let passed = &text.as_bytes()[self.at..self.at + bytes];
        let lines = passed.iter().filter(|byte| **byte == b'\n').count();
        Self { at: self.at + bytes, line: self.line + lines as u64 }
    }

    fn error(self, file: &str, error: &csv::Error) -> CircuitError {
        Place { file, line: self.line }.error("", error.to_string())
    }
}

fn reader(text: &str, delimiter: u8, quoting: bool) -> csv::Reader<&[u8]> {
    ReaderBuilder::new()
        .has_headers(false)
        .comment(Some(b'#'))
        .delimiter(delimiter)
        .quoting(quoting)
        .flexible(true)
        .trim(Trim::All)
        .from_reader(text.as_bytes())
}

/// The record that a text begins with.
fn one(text: &str, delimiter: u8, quoting: bool) -> Option<StringRecord> {
    reader(text, delimiter, quoting).records().next()?.ok()
}

fn column(name: &str) -> Option<&'static (&'static str, &'static [&'static str], Column)> {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    COLUMNS.iter().find(|(_, names, _)| names.contains(&plain.as_str()))
}

/// Whether these are names of columns: the circuit's id, and others.
fn is_header(record: &StringRecord) -> bool {
    let known = record.iter().filter_map(column);
    known.clone().any(|known| known.2 == Column::CircuitId) && (record.len() == 1 || known.count() > 1)
}

/// The columns, and the number of records up to the header.
fn header(
    file: &str,
    text: &str,
    records: &[(u64, StringRecord)],
    remarks: &mut Vec<Remark>,
) -> Result<(usize, Vec<Column>), CircuitError> {
    let Some((line, first)) = records.first() else {
        let names: Vec<_> = COLUMNS.iter().map(|c| c.0).collect();
        let problem = format!("there is no header line: expected the columns {}", names.join(", "));
        return Err(Place { file, line: 0 }.error("", problem));
    };
    let at = records.iter().take(ABOVE).position(|(_, record)| is_header(record));
    let Some(at) = at else {
        // The header may stand behind a `#`, as the first line of what other programs write.
        let commented = text.lines().take_while(|l| l.trim().is_empty() || l.starts_with('#')).zip(1..);
        let header = commented.filter_map(|(text, line)| {
            let below = records_of(text.trim_start_matches('#'))?;
            is_header(&below).then_some((line, below))
        });
        return match header.last() {
            Some((line, names)) => Ok((0, columns(Place { file, line }, &names, remarks))),
            None => Err(no_header(Place { file, line: *line }, first)),
        };
    };
    let (line, names) = &records[at];
    let place = Place { file, line: *line };
    if at > 0 {
        let problem = format!("this is the header, and the {at} rows above it are passed over");
        remarks.push(place.remark(Effect::Taken, "", problem));
    }
    Ok((at + 1, columns(place, names, remarks)))
}

/// One line as a record.
fn records_of(line: &str) -> Option<StringRecord> {
    one(line, text::delimiter(line), true)
}

fn no_header(place: Place<'_>, first: &StringRecord) -> CircuitError {
    let known: Vec<_> = first.iter().filter_map(column).collect();
    if known.is_empty() {
        let begin: String = first.iter().collect::<Vec<_>>().join(",").chars().take(40).collect();
        let problem = format!(
            "the first line must name the columns, and '{begin}' names none: put a line above it as \
             {EXAMPLE}"
        );
        return place.error("", problem);
    }
    let problem = "it is missing: it says which devices are one user; the first line must name the columns, as \
                   Circuit ID,IPv4,Download Max Mbps,Upload Max Mbps";
    place.error("Circuit ID", problem)
}

fn columns(place: Place<'_>, names: &StringRecord, remarks: &mut Vec<Remark>) -> Vec<Column> {
    let (mut columns, mut unknown): (Vec<Column>, Vec<&str>) = (Vec::new(), Vec::new());
    for name in names {
        let known = column(name);
        columns.push(match known {
            None => Column::Other,
            Some((_, _, Column::Unused)) => Column::Unused,
            Some((text, _, what)) if *what != Column::MinRate && columns.contains(what) => {
                let problem = "it stands there twice: the first is read";
                remarks.push(place.remark(Effect::PartLeftOut, text, problem));
                Column::Other
            }
            Some((_, _, what)) => *what,
        });
        if known.is_none() && !name.is_empty() {
            unknown.push(name);
        }
    }
    if !unknown.is_empty() {
        let list: String = unknown.join("', '").chars().take(200).collect();
        let problem = format!("'{list}': no column is called so, and what stands in it is passed over");
        remarks.push(place.remark(Effect::Taken, "", problem));
    }
    columns
}

/// The columns without those of ids of nodes, if the record fits these and not all: LibreQoS 2.2 ships a file whose
/// rows lack what its header has.
fn without_ids(columns: &[Column], record: &StringRecord) -> Option<Vec<Column>> {
    let ids = |column: &&Column| matches!(column, Column::ParentId | Column::Anchor);
    if record.len() >= columns.len() || !columns.iter().any(|c| ids(&c)) || fits(columns, record) {
        return None;
    }
    let reduced: Vec<_> = columns.iter().filter(|c| !ids(c)).copied().collect();
    fits(&reduced, record).then_some(reduced)
}

/// Whether addresses and rates stand where these columns have them.
fn fits(columns: &[Column], record: &StringRecord) -> bool {
    columns.iter().zip(record).all(|(column, cell)| match column {
        Column::Address(_) => parts(cell).all(|part| part.parse::<Prefix>().is_ok()),
        Column::Mac | Column::Anchor | Column::ParentId => {
            parts(cell).next().is_none_or(|part| part.parse::<Prefix>().is_err())
        }
        Column::MaxRate(_) | Column::MinRate => {
            number_and_scale(cell).is_none_or(|(number, _)| Mark::Point.number(number).is_some())
        }
        _ => true,
    })
}

/// The mark of decimals that the rates of a file show; none where they show two.
fn mark(columns: &[Column], records: &[(u64, StringRecord)]) -> Mark {
    let (mut point, mut comma) = (false, false);
    for (_, record) in records {
        for (column, cell) in columns.iter().zip(record) {
            if matches!(column, Column::MaxRate(_) | Column::MinRate) {
                let shown = number_and_scale(cell).map(|(number, _)| Mark::shown(number));
                point |= shown == Some(Mark::Point);
                comma |= shown == Some(Mark::Comma);
            }
        }
    }
    match (point, comma) {
        (true, false) => Mark::Point,
        (false, true) => Mark::Comma,
        _ => Mark::Unknown,
    }
}

fn is_nothing(text: &str) -> bool {
    text.is_empty() || NOTHING.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// Words of a cell, with commas, semicolons, bars or spaces between them.
fn parts(cell: &str) -> impl Iterator<Item = &str> {
    let between = |c: char| c.is_whitespace() || matches!(c, ',' | ';' | '|');
    cell.split(between).filter(|part| !is_nothing(part))
}

/// Reads a row. What is wrong with it is remarked; `None` if it cannot be used.
fn row(
    place: Place<'_>,
    columns: &[Column],
    record: &StringRecord,
    mark: Mark,
    remarks: &mut Vec<Remark>,
) -> Option<Row> {
    let mut row = Row { line: place.line, ..Row::default() };
    let (mut wrong, mut left_out): (Vec<Remark>, Option<Remark>) = (Vec::new(), None);
    let mut lose = |column: &'static str, problem: String| {
        let remark = place.remark(Effect::RowLeftOut, column, problem);
        left_out.get_or_insert(remark);
    };
    if record.iter().skip(columns.len()).any(|cell| !cell.is_empty()) {
        let problem = format!(
            "{} cells where the header has {}: put what has commas in quotation marks",
            record.len(),
            columns.len()
        );
        lose("", problem);
    }
    for (column, cell) in columns.iter().copied().zip(record) {
        let mut part = |column: &'static str, problem: String| {
            wrong.push(place.remark(Effect::PartLeftOut, column, problem));
        };
        match column {
            Column::CircuitId => cell.clone_into(&mut row.circuit),
            Column::CircuitName => cell.clone_into(&mut row.name),
            Column::DeviceId => cell.clone_into(&mut row.device),
            Column::ParentId if !is_nothing(cell) => cell.clone_into(&mut row.site.id),
            Column::Parent if !is_nothing(cell) => cell.clone_into(&mut row.site.name),
            Column::Login if row.login.is_empty() => cell.clone_into(&mut row.login),
            Column::Mac => match macs(cell) {
                Ok(macs) => row.macs = macs,
                Err(problem) => {
                    cell.clone_into(&mut row.login);
                    part("MAC", problem);
                }
            },
            Column::Vlan => parts(cell).for_each(|text| match vlan(text) {
                Ok(vlan) => row.vlans.push(vlan),
                Err(problem) => part("VLAN", problem),
            }),
            Column::Address(name) => parts(cell).for_each(|text| match text.parse::<Prefix>() {
                // Whoever has no address now.
                Ok(prefix) if prefix.is_unspecified() => {}
                Ok(prefix) => row.prefixes.push(prefix),
                Err(problem) => part(name, problem),
            }),
            Column::MaxRate(way) => match rate(cell, mark) {
                Ok(rate) => row.rates[way] = rate,
                Err(problem) => lose(RATES[way], problem),
            },
            _ => {}
        }
    }
    if row.circuit.is_empty() {
        lose("Circuit ID", "it is empty: expected what names the circuit".to_owned());
    }
    let bad_address = wrong.iter().position(|remark| remark.fault.column != "MAC");
    if !row.has_address() {
        match bad_address {
            Some(at) => {
                left_out = left_out.or(Some(Remark { effect: Effect::RowLeftOut, ..wrong.remove(at) }))
            }
            None if wrong.is_empty() && left_out.is_none() => {
                let problem = "no address, MAC or VLAN: packets are the circuit's once an address is told";
                wrong.push(place.remark(Effect::PartLeftOut, "IPv4", problem));
            }
            None => {}
        }
    }
    if let Some(why) = left_out {
        remarks.push(why);
        return None;
    }
    remarks.extend(wrong);
    Some(row)
}

/// The MAC addresses of a cell, with spaces, commas or nothing between their bytes; what fills a form counts as none.
fn macs(cell: &str) -> Result<Vec<Mac>, String> {
    let is_filler = |mac: &Mac| mac.0 == [0; 6] || mac.0 == [0xff; 6];
    let one = cell.parse::<Mac>();
    let all = one.map_or_else(|_| parts(cell).map(str::parse).collect(), |mac| Ok(vec![mac]));
    let all: Result<Vec<Mac>, String> = all;
    let named = |problem: String| {
        format!(
            "{problem}; it is kept as the name by which RADIUS knows the circuit, and no frame is found by it"
        )
    };
    Ok(all.map_err(named)?.into_iter().filter(|mac| !is_filler(mac)).collect())
}

fn vlan(text: &str) -> Result<u16, String> {
    let number = text.parse().ok().filter(|n| (1..=4094).contains(n));
    number.ok_or_else(|| format!("'{text}' is no VLAN: expected a number from 1 to 4094"))
}

/// The number of a rate's cell, and the bits per second that its unit stands for: Mbit/s where none is written, as the
/// column says. `None` if the cell says that there is no limit.
fn number_and_scale(cell: &str) -> Option<(&str, Option<f64>)> {
    if is_nothing(cell) {
        return None;
    }
    let end = cell.find(|c: char| c.is_alphabetic()).unwrap_or(cell.len());
    let (number, unit) = cell.split_at(end);
    // A large B is a byte: megabytes have two meanings here.
    let lower = unit.trim().to_ascii_lowercase();
    let prefix =
        if unit.contains('B') { None } else { Some(lower.trim_end_matches("/s").trim_end_matches("ps")) };
    let scale = prefix.and_then(|prefix| match prefix {
        "" | "m" | "mb" | "mbit" | "mbits" => Some(1e6),
        "k" | "kb" | "kbit" | "kbits" => Some(1e3),
        "g" | "gb" | "gbit" | "gbits" => Some(1e9),
        _ => None,
    });
    Some((number.trim(), scale))
}

/// A rate in Mbit/s, which may have a fraction.
fn rate(cell: &str, mark: Mark) -> Result<Option<Rate>, String> {
    let Some((number, scale)) = number_and_scale(cell) else { return Ok(None) };
    let bps = mark.number(number).zip(scale).map(|(number, scale)| number * scale);
    let bps = bps.filter(|bps| (1e3..=1e12).contains(bps)).map(|bps| Rate::from_bps(bps.round() as u64));
    let two = mark == Mark::Unknown && Mark::Point.number(number).is_some() && scale.is_some();
    let wrong = || {
        if two && number.contains(',') {
            return format!("'{cell}' may be two rates: write it without a comma");
        }
        format!("'{cell}' is no rate: expected Mbit/s from 0.001 to 1000000, or nothing for no limit")
    };
    bps.map(Some).ok_or_else(wrong)
}
