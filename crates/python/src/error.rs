//! Errors in Python's words: bad input is a `ValueError`, a refusal by the system an `OSError`.

use std::path::PathBuf;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

pyo3::create_exception!(
    narrows,
    ScenarioError,
    PyValueError,
    "A scenario that cannot be: one sentence with file, key and remedy.\n\n\
     Attributes: ``key`` (dotted, as ``traffic.0.flows``; empty where all of it is meant), ``problem`` (value and what \
     was\n\
     expected), ``file`` (or None), ``point`` (of the sweep, as ``share=2000``; empty if it shows everywhere)."
);

/// A refusal of the scenario crate, with its parts as attributes.
pub(crate) fn scenario(py: Python<'_>, why: &narrows_scenario::Error) -> PyErr {
    let raised = ScenarioError::new_err(why.to_string());
    let value = raised.value(py);
    let file = why.file.as_ref().map(|f| f.to_string_lossy().into_owned());
    let set = value
        .setattr("key", &why.key)
        .and_then(|()| value.setattr("problem", &why.problem))
        .and_then(|()| value.setattr("file", file))
        .and_then(|()| value.setattr("point", &why.point));
    match set {
        Ok(()) => raised,
        Err(other) => other,
    }
}

/// Why a figure could not be made.
pub(crate) fn figure(py: Python<'_>, why: &anyhow::Error) -> PyErr {
    use narrows_runner::Error;
    if let Some(refused) = why.downcast_ref::<narrows_scenario::Error>() {
        return scenario(py, refused);
    }
    match why.downcast_ref::<Error>() {
        Some(Error::Io { .. }) => PyOSError::new_err(format!("{why:#}")),
        Some(Error::Taken { .. }) => PyValueError::new_err(format!("{why:#}")),
        _ => PyRuntimeError::new_err(format!("{why:#}")),
    }
}

/// A refusal of our own in the same words.
pub(crate) fn refuse(py: Python<'_>, key: &str, problem: &str, file: Option<&str>) -> PyErr {
    let (key, problem) = (key.to_owned(), problem.to_owned());
    scenario(
        py,
        &narrows_scenario::Error { file: file.map(PathBuf::from), key, problem, point: String::new() },
    )
}

/// Makes such an error for the Python package to raise.
#[pyfunction]
#[pyo3(signature = (key, problem, file=None))]
pub(crate) fn refusal(py: Python<'_>, key: &str, problem: &str, file: Option<&str>) -> PyErr {
    refuse(py, key, problem, file)
}
