//! Scenarios: text in, checked runs out. The one judge is `narrows-scenario`.

use std::path::PathBuf;

use narrows_runner::{Job, RunPlan};
use narrows_scenario::{Error, Experiment};
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
    /// The scenario, checked.
    pub(crate) fn experiment(&self) -> Result<Experiment, Error> {
        let read = || {
            let mut experiment = Experiment::parse(&self.text, &self.sets)?;
            experiment.file.clone_from(&self.file);
            experiment.for_simulator()?;
            Ok(experiment)
        };
        read().map_err(|e: Error| {
            // A setting that cannot be replaced is told as the program's option, which here it is not.
            let bare = self.sets.iter().find_map(|set| e.key.strip_prefix(&format!("--set {set}: ")));
            Error { file: self.file.clone(), key: bare.unwrap_or(&e.key).to_owned(), ..e }
        })
    }

    /// The one run there is, under `seed` or the first of the scenario's.
    pub(crate) fn single(&self, seed: Option<u64>) -> Result<Single, Error> {
        let mut experiment = self.experiment()?;
        match seed {
            Some(seed) => experiment.seeds = vec![seed],
            None => experiment.seeds.truncate(1),
        }
        let refuse = |key, problem| Error { file: self.file.clone(), key, problem, point: String::new() };
        if experiment.points() > 1 {
            let swept: Vec<&str> = experiment.swept().collect();
            let problem = format!(
                "{} points: expected one; choose with set={{...}}, or take all with narrows.sweep",
                experiment.points()
            );
            return Err(refuse(format!("sweep of {}", swept.join(", ")), problem));
        }
        let mut plan = RunPlan::new(&self.text, "", experiment.expand()?);
        match plan.jobs.pop() {
            Some(job) => Ok(Single { name: plan.name, about: plan.about, job }),
            None => Err(refuse("sweep".to_owned(), "no run is left: expected one".to_owned())),
        }
    }
}

/// A run that stands by itself.
pub(crate) struct Single {
    /// Name of the scenario.
    pub name: String,
    /// Description of the scenario.
    pub about: String,
    pub job: Job,
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
    let planned = || {
        let runs = source.experiment()?.expand()?;
        let coords: Vec<_> = runs.iter().map(|r| r.coords.clone()).collect();
        Ok((coords, RunPlan::new(&source.text, "", runs)))
    };
    let (coords, plan) = py.detach(planned).map_err(|e| error::scenario(py, &e))?;
    let one = |(job, coords): (&Job, _)| {
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
    <narrows_tcp::Config as narrows_tcp::Settings>::keys().iter().map(|k| k.name).collect()
}
