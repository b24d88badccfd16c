//! The papers' figures: `narrows-reproduce` with Python's Ctrl-C.

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use narrows_reproduce::{Catalogue, Effort, Section, Work};
use narrows_runner::{Event, RunOptions, execute};
use pyo3::prelude::*;

use crate::error;
use crate::run::ASK;

include!(concat!(env!("OUT_DIR"), "/experiments.rs"));

/// The papers' scenarios and lists of figures as this version has them: text by path below `experiments`.
#[pyfunction]
pub(crate) fn experiments() -> Vec<(&'static str, &'static str)> {
    EXPERIMENTS.to_vec()
}

/// Makes a figure, as `taq/fig08`, and gives its section as JSON. Folder `experiments` has the scenarios; finished runs
/// are kept below `out` and found again, unless `fresh`. `jobs` runs go at a time; `tell` is called with runs finished
/// and runs in all.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "named arguments of Python")]
pub(crate) fn reproduce(
    py: Python<'_>,
    experiments: PathBuf,
    out: PathBuf,
    name: &str,
    size: &str,
    jobs: usize,
    fresh: bool,
    tell: Option<Py<PyAny>>,
) -> PyResult<String> {
    let size = match size {
        "full" => Effort::Full,
        "quick" => Effort::Quick,
        "least" => Effort::Least,
        other => {
            let problem = format!("= '{other}': expected one of full, quick, least");
            return Err(error::refuse(py, "size", &problem, None));
        }
    };
    let (finished, runs) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let count = |event: Event<'_>| {
        let more = match event {
            Event::Found(n) => n,
            Event::End(_) => 1,
            _ => 0,
        };
        finished.fetch_add(more, Ordering::Relaxed);
    };
    let mut told = None;
    let mut look = |py: Python<'_>| {
        let now = (finished.load(Ordering::Relaxed), runs.load(Ordering::Relaxed));
        match &tell {
            Some(tell) if now.1 > 0 && told.replace(now) != Some(now) => tell.call1(py, now).map(drop),
            _ => Ok(()),
        }
    };
    let section = interruptible(py, &mut look, |stop| -> anyhow::Result<Option<Section>> {
        let catalogue = Catalogue::load(&experiments)?;
        let mut made = None;
        for (paper, figures) in catalogue.select(&[name.to_owned()])? {
            for figure in figures {
                let work = Work::new(paper, figure, size)?;
                runs.fetch_add(work.plans.iter().map(|(_, p)| p.jobs.len()).sum(), Ordering::Relaxed);
                let section = work.make(&out, &mut |plan, out| {
                    execute(plan, &RunOptions { out, jobs, fresh }, &narrows_runner::simulate, stop, &count)
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
    look(py)?;
    serde_json::to_string(&section).map_err(|e| error::figure(py, &e.into()))
}

/// Time between two looks at whether the work is done.
const LOOK: Duration = Duration::from_millis(5);

/// Does work without the interpreter's lock and asks it to stop once somebody pressed Ctrl-C, or `look`, which is
/// called meanwhile, raised something: that is raised then.
fn interruptible<T: Send>(
    py: Python<'_>,
    look: &mut (impl FnMut(Python<'_>) -> PyResult<()> + Send),
    work: impl FnOnce(&AtomicBool) -> T + Send,
) -> PyResult<T> {
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
                    interrupted = Python::attach(|py| py.check_signals().and_then(|()| look(py))).err();
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
