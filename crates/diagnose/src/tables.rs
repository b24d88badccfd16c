//! Connections and stalls as tables by columns: for Parquet, and for Python.

use crate::findings::Stall;
use crate::report::FlowReport;

/// A column's values.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnValues {
    /// Whole numbers, and yes and no as 1 and 0.
    U64(Vec<u64>),
    /// Measures; NaN where there is none.
    F64(Vec<f64>),
    /// Words; none where there is nothing to say.
    Text(Vec<String>),
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnTable {
    /// Name of the table, which says what a row is: `flows` or `stalls`.
    pub name: &'static str,
    /// Names and values, of one length.
    pub columns: Vec<(&'static str, ColumnValues)>,
}

/// How a column is filled from a connection, and from a stall of it if the rows are stalls.
enum From<R> {
    U64(fn(&FlowReport, &R) -> u64),
    F64(fn(&FlowReport, &R) -> f64),
    Text(fn(&FlowReport, &R) -> String),
}

/// The name of a value in JSON.
fn word<T: serde::Serialize>(value: T) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

const FLOWS: &[(&str, From<()>)] = &[
    ("number", From::U64(|f, ()| f.number)),
    ("opener", From::Text(|f, ()| f.opener.address.to_string())),
    ("opener_port", From::U64(|f, ()| f.opener.port.into())),
    ("other", From::Text(|f, ()| f.other.address.to_string())),
    ("other_port", From::U64(|f, ()| f.other.port.into())),
    ("opened", From::U64(|f, ()| f.opened.into())),
    ("closed", From::U64(|f, ()| f.closed.into())),
    ("reset", From::U64(|f, ()| f.reset.into())),
    ("from_s", From::F64(|f, ()| f.from.as_secs_f64())),
    ("to_s", From::F64(|f, ()| f.to.as_secs_f64())),
    ("packets", From::U64(|f, ()| f.packets)),
    ("opener_bytes", From::U64(|f, ()| f.directions[0].counts.bytes)),
    ("other_bytes", From::U64(|f, ()| f.directions[1].counts.bytes)),
    ("data", From::U64(|f, ()| f.counts().data)),
    ("again", From::U64(|f, ()| f.counts().again)),
    ("timeouts", From::U64(|f, ()| f.counts().timeouts)),
    ("timeouts_inferred", From::U64(|f, ()| f.counts().timeouts_inferred)),
    ("fast_retransmits", From::U64(|f, ()| f.counts().fast_retransmits)),
    ("recovery", From::U64(|f, ()| f.counts().recovery)),
    ("after_timeout", From::U64(|f, ()| f.counts().after_timeout)),
    ("probes", From::U64(|f, ()| f.counts().probes)),
    ("handshake", From::U64(|f, ()| f.counts().handshake)),
    ("unknown", From::U64(|f, ()| f.counts().unknown)),
    ("spurious", From::U64(|f, ()| f.counts().spurious)),
    ("lost_before", From::U64(|f, ()| f.counts().lost_before)),
    ("lost_behind", From::U64(|f, ()| f.counts().lost_behind)),
    ("reordered", From::U64(|f, ()| f.counts().reordered)),
    ("dupacks", From::U64(|f, ()| f.counts().dupacks)),
    ("backoff_max", From::U64(|f, ()| f.counts().backoff_max.into())),
    ("rtt_s", From::F64(|f, ()| f.main().rtt_s.unwrap_or(f64::NAN))),
    ("receiver_half_s", From::F64(|f, ()| f.main().receiver_half_s.unwrap_or(f64::NAN))),
    ("sender_half_s", From::F64(|f, ()| f.main().sender_half_s.unwrap_or(f64::NAN))),
    ("vantage", From::Text(|f, ()| word(f.main().vantage))),
    ("stalled_s", From::F64(|f, ()| f.stalled_s())),
    ("longest_s", From::F64(|f, ()| f.longest().map_or(0.0, |s| s.length().as_secs_f64()))),
    ("cause", From::Text(|f, ()| f.main_cause().map(word).unwrap_or_default())),
];

const STALLS: &[(&str, From<Stall>)] = &[
    ("flow", From::U64(|f, _| f.number)),
    ("opener", From::Text(|f, _| f.opener.address.to_string())),
    ("opener_port", From::U64(|f, _| f.opener.port.into())),
    ("other", From::Text(|f, _| f.other.address.to_string())),
    ("other_port", From::U64(|f, _| f.other.port.into())),
    ("from_s", From::F64(|_, s| s.from.as_secs_f64())),
    ("to_s", From::F64(|_, s| s.to.as_secs_f64())),
    ("length_s", From::F64(|_, s| s.length().as_secs_f64())),
    ("by", From::U64(|_, s| s.by.into())),
    ("cause", From::Text(|_, s| word(s.cause))),
    ("repair", From::Text(|_, s| s.repair.map(word).unwrap_or_default())),
    ("timeouts", From::U64(|_, s| s.timeouts.into())),
    ("backoff", From::U64(|_, s| s.backoff.into())),
    ("outstanding", From::U64(|_, s| s.outstanding.into())),
    ("lost", From::Text(|_, s| word(s.lost))),
    ("certainty", From::Text(|_, s| word(s.certainty))),
    ("first_frame", From::U64(|_, s| s.frames.first().unwrap_or(0))),
    ("last_frame", From::U64(|_, s| s.frames.last().unwrap_or(0))),
    ("ended", From::U64(|_, s| s.ended.into())),
];

fn empty<R>(name: &'static str, columns: &[(&'static str, From<R>)]) -> ColumnTable {
    let column = |(name, from): &(&'static str, From<R>)| {
        let values = match from {
            From::U64(_) => ColumnValues::U64(Vec::new()),
            From::F64(_) => ColumnValues::F64(Vec::new()),
            From::Text(_) => ColumnValues::Text(Vec::new()),
        };
        (*name, values)
    };
    ColumnTable { name, columns: columns.iter().map(column).collect() }
}

fn fill<R>(table: &mut ColumnTable, columns: &[(&'static str, From<R>)], flow: &FlowReport, row: &R) {
    for ((_, values), (_, from)) in table.columns.iter_mut().zip(columns) {
        match (values, from) {
            (ColumnValues::U64(values), From::U64(get)) => values.push(get(flow, row)),
            (ColumnValues::F64(values), From::F64(get)) => values.push(get(flow, row)),
            (ColumnValues::Text(values), From::Text(get)) => values.push(get(flow, row)),
            _ => {}
        }
    }
}

/// Tables under construction: one of connections, one of stalls.
#[derive(Clone, Debug)]
pub struct Tables {
    /// A row a connection.
    pub flows: ColumnTable,
    /// A row a stall.
    pub stalls: ColumnTable,
}

impl Default for Tables {
    fn default() -> Self {
        Self { flows: empty("flows", FLOWS), stalls: empty("stalls", STALLS) }
    }
}

impl Tables {
    /// Adds a connection and the connection's stalls.
    pub fn add(&mut self, flow: &FlowReport) {
        fill(&mut self.flows, FLOWS, flow, &());
        for stall in &flow.stalls {
            fill(&mut self.stalls, STALLS, flow, stall);
        }
    }
}
