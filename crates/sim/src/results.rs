//! Results of a run: named figures and tables. Writing them to files is the caller's business.

use std::collections::BTreeMap;

/// The outcome of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Figures by name; the unit ends the name (`goodput_bps`, `stall_p99_s`), ratios have none.
    pub summary: BTreeMap<String, f64>,
    /// Tables: flows, slices, series, transfers.
    pub tables: Vec<Table>,
    /// Captures of links in pcap form, by link name.
    pub captures: Vec<(String, Vec<u8>)>,
    /// Logs of senders as one qlog file; `None` unless the scenario asks for them.
    pub qlog: Option<String>,
}

/// A table by columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Name of the table, and of the file that the table goes to.
    pub name: String,
    /// Columns of equal length.
    pub columns: Vec<Column>,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name of the column, which ends in the unit if there is one.
    pub name: String,
    /// Values, one per row.
    pub data: Data,
}

/// Values of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Whole numbers.
    U64(Vec<u64>),
    /// Measures; NaN where there is none.
    F64(Vec<f64>),
    /// Words.
    Text(Vec<String>),
}
