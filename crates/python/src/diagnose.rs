//! The diagnosis of captures, without the interpreter's lock.

use std::path::PathBuf;

use narrows_cli::diagnose::{Logs, WhatIfQuestion, columns};
use narrows_diagnose::files::{Inputs, ReadAhead};
use narrows_diagnose::{Analyzer, AnalyzerLimits, Overall, QuicAnalyzer, Tables, page, quic_page};
use narrows_units::Duration;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::table::Table;

/// Result of a diagnosis.
struct Found {
    tables: Tables,
    page: String,
    overall: String,
    quic: String,
    remarks: Vec<String>,
}

fn find(captures: &[PathBuf], qlog: &[PathBuf], over: Duration, worst: usize) -> anyhow::Result<Found> {
    let (logs, inputs) = (Logs::read(qlog)?, Inputs::open(captures)?);
    let origin = inputs.origin;
    let mut packets = ReadAhead::new(inputs);
    let (mut analyzer, mut quic) = (Analyzer::new(AnalyzerLimits::default()), QuicAnalyzer::default());
    let (mut tables, mut overall) = (Tables::default(), Overall::new(over, worst));
    let mut take = |analyzer: &mut Analyzer| {
        for flow in analyzer.finished() {
            tables.add(&flow);
            overall.add(flow);
        }
    };
    while let Some(packet) = packets.next() {
        analyzer.packet(packet.at, packet.frame, &packet.header);
        quic.packet(packet.at, packet.frame, &packet.header);
        take(&mut analyzer);
    }
    analyzer.finish();
    take(&mut analyzer);
    overall.finish();
    let (quic, of_logs) = logs.judge(quic, origin);
    let name = captures.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
    anyhow::ensure!(
        analyzer.begun() > 0 || !quic.is_empty(),
        "{name}: no packet of TCP in it, and no opening of QUIC"
    );
    Ok(Found {
        tables,
        page: page(&name, &overall) + &quic_page(&quic, worst),
        overall: serde_json::to_string(&overall)?,
        quic: serde_json::to_string(&quic)?,
        remarks: packets.finish().remarks().into_iter().chain(of_logs).collect(),
    })
}

fn table(table: narrows_diagnose::ColumnTable) -> PyResult<Table> {
    let name = table.name.to_owned();
    narrows_sim::Table { name, columns: columns(table) }.try_into()
}

/// Diagnoses stalls in captures: `flows`, `stalls`, `overall` and `quic` (JSON), `page`, `remarks`.
#[pyfunction]
pub(crate) fn diagnose(
    py: Python<'_>,
    captures: Vec<PathBuf>,
    qlog: Vec<PathBuf>,
    over_s: f64,
    worst: usize,
) -> PyResult<Bound<'_, PyDict>> {
    if !(over_s.is_finite() && over_s >= 0.0) {
        return Err(PyValueError::new_err(format!("over_s = {over_s}: expected seconds, as 5 or 0.5")));
    }
    let over = Duration::from_nanos((over_s * 1e9) as u64);
    let found = py.detach(|| find(&captures, &qlog, over, worst)).map_err(refused)?;
    let told = PyDict::new(py);
    told.set_item("flows", table(found.tables.flows)?)?;
    told.set_item("stalls", table(found.tables.stalls)?)?;
    told.set_item("overall", found.overall)?;
    told.set_item("quic", found.quic)?;
    told.set_item("page", found.page)?;
    told.set_item("remarks", found.remarks)?;
    Ok(told)
}

/// Simulates the load of captures under other disciplines; returns JSON.
#[pyfunction]
pub(crate) fn what_if(
    py: Python<'_>,
    captures: Vec<PathBuf>,
    disciplines: Vec<String>,
    link: [Option<String>; 2],
    scenario: Option<PathBuf>,
    over_s: f64,
) -> PyResult<String> {
    let [rate, buffer] = &link;
    let asked = WhatIfQuestion {
        disciplines: &disciplines,
        rate: rate.as_deref(),
        buffer: buffer.as_deref(),
        scenario: scenario.as_deref(),
    };
    let told = py.detach(|| narrows_cli::diagnose::what_if(&captures, &asked, over_s));
    Ok(told.map_err(refused)?.to_string())
}

fn refused(why: anyhow::Error) -> PyErr {
    let text = format!("{why:#}");
    match why.downcast_ref::<std::io::Error>() {
        Some(_) => PyOSError::new_err(text),
        None => PyValueError::new_err(text),
    }
}
