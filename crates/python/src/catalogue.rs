//! Catalogue of disciplines and figures, with the pages of the reference that describe them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use pyo3::prelude::*;

use crate::error;
use crate::scenario::Source;

/// The names of all disciplines.
#[pyfunction]
pub(crate) fn discipline_names() -> Vec<&'static str> {
    narrows_qdisc::Spec::NAMES.to_vec()
}

/// The names of all figures that a run of the scenario can have.
#[pyfunction]
#[pyo3(signature = (text, file=None, sets=None))]
pub(crate) fn figure_names(
    py: Python<'_>,
    text: String,
    file: Option<PathBuf>,
    sets: Option<Vec<String>>,
) -> PyResult<Vec<String>> {
    let source = Source { text, file, sets: sets.unwrap_or_default() };
    let named = || {
        let runs = source.experiment()?.expand()?;
        let names: BTreeSet<String> =
            runs.iter().flat_map(|run| narrows_sim::figures::names(&run.scenario)).collect();
        Ok(names.into_iter().collect())
    };
    py.detach(named).map_err(|e| error::scenario(py, &e))
}

/// Quantile of Student's distribution for 95 % intervals; NaN without a degree of freedom.
#[pyfunction]
pub(crate) fn students_95(degrees: usize) -> f64 {
    narrows_runner::students_95(degrees).unwrap_or(f64::NAN)
}

/// The pages of the reference that list them, in Markdown.
#[pyfunction]
pub(crate) fn pages() -> BTreeMap<&'static str, &'static str> {
    BTreeMap::from([
        ("disciplines", include_str!("../../../docs/reference/disciplines.md")),
        ("probes", include_str!("../../../docs/reference/probes.md")),
    ])
}
