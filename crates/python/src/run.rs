//! One run, without the interpreter's lock, and how it is stopped.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use narrows_runner::{ENGINE, VERSION, caught};
use narrows_sim::RunError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::error;
use crate::own::{Failure, Parts};
use crate::scenario::{Single, Source};
use crate::table::Table;

/// Time between two looks at whether Ctrl-C was pressed.
pub(crate) const ASK: Duration = Duration::from_millis(100);

/// Asks runs to end early, from any thread.
#[pyclass(frozen, module = "narrows")]
#[derive(Default)]
pub(crate) struct Stop(pub Arc<AtomicBool>);

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Runs that were given this object end within a fraction of a second.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether they were asked to.
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The one run of a scenario: `summary`, `tables`, `captures`, `manifest`; None if `stop` was set meanwhile. `own` are
/// the makers of the parts that the scenario has by number, as `own:0`.
#[pyfunction]
#[pyo3(signature = (text, file=None, sets=None, seed=None, stop=None, own=None))]
pub(crate) fn run<'py>(
    py: Python<'py>,
    text: String,
    file: Option<PathBuf>,
    sets: Option<Vec<String>>,
    seed: Option<u64>,
    stop: Option<&Stop>,
    own: Option<Vec<Py<PyAny>>>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let source = Source { text, file, sets: sets.unwrap_or_default() };
    // Reading, resolving and hashing a scenario may take long too: it names files of any size.
    let Single { name, about, job } =
        py.detach(|| source.single(seed)).map_err(|e| error::scenario(py, &e))?;
    let asked = stop.map(|s| s.0.clone()).unwrap_or_default();
    let failure = Failure::default();
    let parts = Parts::new(own.unwrap_or_default(), failure.clone());
    let mut interrupted = None;
    let ended = py.detach(|| {
        let mut last = Instant::now();
        let mut go_on = |_| {
            if last.elapsed() >= ASK {
                last = Instant::now();
                interrupted = Python::attach(|py| py.check_signals()).err();
            }
            if interrupted.is_some() || failure.is_there() || asked.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        // A panic would be no Exception to Python: it passes by `except Exception` and cannot be pickled.
        caught(|| narrows_sim::run_with(&job.scenario, job.seed, &parts, &mut go_on))
    });
    if let Some(why) = interrupted {
        return Err(why);
    }
    if let Some(why) = failure.exception(py) {
        return Err(why);
    }
    let results = match ended {
        Ok(Ok(results)) => results,
        Ok(Err(RunError::Stopped)) => return Ok(None),
        Ok(Err(why)) => return Err(PyRuntimeError::new_err(why.to_string())),
        Err(bug) => return Err(PyRuntimeError::new_err(bug)),
    };
    let told = PyDict::new(py);
    told.set_item("summary", results.summary)?;
    let tables = PyDict::new(py);
    for table in results.tables {
        tables.set_item(table.name.clone(), Table::try_from(table)?)?;
    }
    told.set_item("tables", tables)?;
    let captures = PyDict::new(py);
    for (link, bytes) in &results.captures {
        captures.set_item(link, PyBytes::new(py, bytes))?;
    }
    told.set_item("captures", captures)?;
    let manifest = PyDict::new(py);
    manifest.set_item("narrows", VERSION)?;
    manifest.set_item("engine", ENGINE)?;
    manifest.set_item("name", name)?;
    manifest.set_item("about", about)?;
    manifest.set_item("seed", job.seed)?;
    manifest.set_item("key", &job.key)?;
    manifest.set_item("scenario", &job.scenario.text)?;
    told.set_item("manifest", manifest)?;
    Ok(Some(told))
}
