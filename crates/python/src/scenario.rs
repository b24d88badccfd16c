//! Scenarios: text in, checked runs out. The one judge is `narrows-scenario`.

use std::path::PathBuf;

use narrows_scenario::{Experiment, Run};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error;

/// Scenario text and where it came from.
pub(crate) struct Source {
    /// TOML.
    pub text: String,
    /// Named in errors; files the scenario names are looked for beside it.
    pub file: Option<PathBuf>,
    /// `key=value` replacements.
    pub sets: Vec<String>,
}

impl Source {
    pub(crate) fn experiment(&self) -> Result<Experiment, narrows_scenario::Error> {
        let read = || {
            let mut experiment = Experiment::parse(&self.text, &self.sets)?;
            experiment.file.clone_from(&self.file);
            experiment.for_simulator()?;
            Ok(experiment)
        };
        read().map_err(|e: narrows_scenario::Error| narrows_scenario::Error { file: self.file.clone(), ..e })
    }
}

/// All runs of a scenario, in the order of all results, each with `coords`, `seed`, `key` (a hash of all that decides
/// its results) and `scenario` (TOML that runs by itself).
#[pyfunction]
#[pyo3(signature = (text, file=None, sets=None))]
pub(crate) fn expand<'py>(
    py: Python<'py>,
    text: String,
    file: Option<PathBuf>,
    sets: Option<Vec<String>>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let source = Source { text, file, sets: sets.unwrap_or_default() };
    let runs: Result<Vec<Run>, _> = py.detach(|| source.experiment()?.expand());
    let runs = runs.map_err(|e| error::scenario(py, &e))?;
    let coords: Vec<_> = runs.iter().map(|r| r.coords.clone()).collect();
    let plan = narrows_runner::Plan::new(&source.text, "", runs);
    let one = |(job, coords): (&narrows_runner::Job, _)| {
        let run = PyDict::new(py);
        run.set_item("coords", coords)?;
        run.set_item("seed", job.seed)?;
        run.set_item("key", &job.key)?;
        run.set_item("scenario", &job.scenario.text)?;
        Ok(run)
    };
    plan.jobs.iter().zip(coords).map(one).collect()
}

/// The keys of `[tcp]` but `preset`, in the order of the documents.
#[pyfunction]
pub(crate) fn tcp_keys() -> Vec<&'static str> {
    narrows_tcp::Config::keys().iter().map(|k| k.name).collect()
}
