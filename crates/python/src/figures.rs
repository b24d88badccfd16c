//! The papers' figures: `narrows-reproduce` with Python's Ctrl-C.

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use narrows_reproduce::{Catalogue, Section, Size, Work};
use narrows_runner::{Options, execute};
use pyo3::prelude::*;

use crate::error;
use crate::run::ASK;

include!(concat!(env!("OUT_DIR"), "/experiments.rs"));

/// The papers' scenarios and lists of figures as this version has them: text by path below `experiments`.
#[pyfunction]
pub(crate) fn experiments() -> Vec<(&'static str, &'static str)> {
    EXPERIMENTS.to_vec()
}

/// Makes a figure, as `taq/fig08`, and gives its section as JSON. The first of `folders` has the
/// scenarios; finished runs are kept below the second and found again.
#[pyfunction]
pub(crate) fn reproduce(
    py: Python<'_>,
    folders: (PathBuf, PathBuf),
    name: &str,
    size: &str,
    jobs: usize,
    fresh: bool,
) -> PyResult<String> {
    let (folder, out) = folders;
    let size = match size {
        "full" => Size::Full,
        "quick" => Size::Quick,
        "least" => Size::Least,
        other => {
            let problem = format!("= '{other}': expected one of full, quick, least");
            return Err(error::refuse(py, "size", &problem, None));
        }
    };
    let section = interruptible(py, |stop| -> anyhow::Result<Option<Section>> {
        let catalogue = Catalogue::load(&folder)?;
        let mut made = None;
        for (paper, figures) in catalogue.select(&[name.to_owned()])? {
            for figure in figures {
                let work = Work::new(paper, figure, size)?;
                let section = work.make(&out, &mut |plan, out| {
                    execute(plan, &Options { out, jobs, fresh }, &narrows_sim::run, stop, &|_| ())
                })?;
                if let Some(why) = section.undrawn.first() {
                    anyhow::bail!("{}/{}: {why}", paper.id, figure.id);
                }
                made = Some(section);
            }
        }
        Ok(made)
    })?
    .map_err(|e| error::figure(py, &e))?;
    serde_json::to_string(&section).map_err(|e| error::figure(py, &e.into()))
}

/// How often the work is looked at, to see whether it is done.
const LOOK: Duration = Duration::from_millis(5);

/// Does work without the interpreter's lock and asks it to stop once somebody pressed Ctrl-C, which is raised then.
fn interruptible<T: Send>(py: Python<'_>, work: impl FnOnce(&AtomicBool) -> T + Send) -> PyResult<T> {
    let stop = AtomicBool::new(false);
    let mut interrupted = None;
    let done = py.detach(|| {
        thread::scope(|scope| {
            let working = scope.spawn(|| work(&stop));
            let mut asked = Instant::now();
            while !working.is_finished() {
                thread::sleep(LOOK);
                if interrupted.is_none() && asked.elapsed() >= ASK {
                    asked = Instant::now();
                    interrupted = Python::attach(|py| py.check_signals()).err();
                    stop.store(interrupted.is_some(), Ordering::Relaxed);
                }
            }
            working.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    });
    match interrupted {
        Some(why) => Err(why),
        None => Ok(done),
    }
}
