//! A scenario's thin link as the operating point's model wants it.

use std::path::PathBuf;

use narrows_qdisc::{Limit, Spec};
use narrows_scenario::{Error, LinkDiscipline, Scenario, TrafficKind};
use narrows_tcp::{BackoffEnds, RtoFloor};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error;
use crate::scenario::Source;

/// The numbers and words of `narrows.models.operating.Bottleneck` for the one point of a scenario: its thin link and
/// its endless flows, whose first entry tells the TCP of all. No `buffer_packets` where the queue is no drop-tail.
#[pyfunction]
#[pyo3(signature = (text, file=None))]
pub(crate) fn bottleneck(py: Python<'_>, text: String, file: Option<PathBuf>) -> PyResult<Bound<'_, PyDict>> {
    let source = Source { text, file, sets: Vec::new() };
    let single = py.detach(|| source.single(None)).map_err(|e| error::scenario(py, &e))?;
    of(py, &single.job.scenario, source.file.as_ref())
}

fn of<'py>(py: Python<'py>, scenario: &Scenario, file: Option<&PathBuf>) -> PyResult<Bound<'py, PyDict>> {
    let refuse = |key: &str, problem: &str| {
        let (file, key, problem) = (file.cloned(), key.to_owned(), problem.to_owned());
        error::scenario(py, &Error { file, key, problem, point: String::new() })
    };
    let thin = scenario.thin.as_ref().ok_or_else(|| {
        refuse(
            "link",
            "makes a topology of its own: expected the short form, with rate and rtt, for an operating point",
        )
    })?;
    let long: Vec<_> = scenario
        .traffic
        .iter()
        .filter_map(|t| {
            if let TrafficKind::Long { flows } = t.kind {
                Some((flows, &t.tcp_from, &t.tcp_to))
            } else {
                None
            }
        })
        .collect();
    let Some((_, tcp, receiver)) = long.first() else {
        return Err(refuse("traffic", "has no endless flows: expected kind = 'long' for an operating point"));
    };
    let packet = scenario.mtu + thin.overhead;
    let rtt_s = (thin.rtt.0.as_secs_f64() + thin.rtt.1.as_secs_f64()) / 2.0;
    let told = PyDict::new(py);
    told.set_item("rate_bps", thin.rate.as_bps())?;
    told.set_item("rtt_s", rtt_s)?;
    told.set_item("flows", long.iter().map(|(flows, ..)| flows).sum::<u32>())?;
    told.set_item("packet_bytes", packet)?;
    match &thin.discipline {
        LinkDiscipline::Ours(Spec::Fifo(Limit::Packets(n))) => told.set_item("buffer_packets", n)?,
        LinkDiscipline::Ours(Spec::Fifo(Limit::Bytes(bytes))) => {
            told.set_item("buffer_packets", bytes.get() / u64::from(scenario.mtu))?;
        }
        _ => (),
    }
    told.set_item("rto_min_s", tcp.rto.min.as_secs_f64())?;
    told.set_item("window", (receiver.receive_window / receiver.mss.max(1)).clamp(4, 1000))?;
    told.set_item("stack", if tcp.rto.floor == RtoFloor::Deviation { "linux" } else { "rfc" })?;
    // With timestamps every ACK gives a valid sample.
    let any = tcp.timestamps || tcp.rto.backoff_ends == BackoffEnds::NewAck;
    told.set_item("backoff_ends", if any { "new_ack" } else { "new_sample" })?;
    Ok(told)
}
