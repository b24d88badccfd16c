//! A plan done: runs on a pool of threads, each kept as it ends, then all put together.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant as Clock;

use narrows_scenario::{Judgment, Scenario};
use narrows_sim::{Results, RunError};
use narrows_units::Instant;

use crate::manifest::Manifest;
use crate::store::{Finished, Store};
use crate::{Error, GoOn, RunPlan, SpareCores, caught, folder, join, verdicts};

/// Function that simulates a run: [`crate::simulate`], or a stand-in for tests.
pub type Simulate<'a> =
    dyn Fn(&Scenario, u64, &SpareCores, &GoOn<'_>) -> Result<Results, RunError> + Sync + 'a;

/// Options of an execution. None changes a result.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The output folder.
    pub out: PathBuf,
    /// Runs at a time, at least one. Where fewer are left, parts of a run that do not meet are done at a time.
    pub jobs: usize,
    /// Whether runs that are finished are done again.
    pub fresh: bool,
}

/// Progress of a plan, reported from any thread as it happens. Runs go by their place in [`Plan::jobs`].
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Number of runs found finished from before.
    Found(usize),
    /// A run begins.
    Begin(usize),
    /// A run has reached a simulated time.
    At(usize, Instant),
    /// A run is done and kept.
    End(usize),
    /// A run gave no results, and why.
    Failed(usize, &'a str),
    /// All runs are done, and the joint tables are being written.
    Joining,
}

/// Result of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct RunReport {
    /// Content of the output folder.
    pub manifest: Manifest,
    /// Figures of each run, in the order of [`Plan::jobs`].
    pub summaries: Vec<BTreeMap<String, f64>>,
    /// Judgment of each of [`Plan::claims`], or the reason why a claim cannot be judged.
    pub verdicts: Vec<Result<Judgment, String>>,
    /// Runs found finished.
    pub found: usize,
}

/// Does all runs of `plan` that are not in `options.out` yet, and writes what all of them gave. Ends early, losing no
/// finished run, once `stop` is true.
///
/// # Errors
/// If the folder is not ours or cannot be written, if it was stopped, if runs failed (all others are kept then).
pub fn execute(
    plan: &RunPlan,
    options: &RunOptions,
    simulate: &Simulate<'_>,
    stop: &AtomicBool,
    watch: &(dyn Fn(Event<'_>) + Sync),
) -> Result<RunReport, Error> {
    let _ours = folder::take(&options.out, plan)?;
    let store = Store::open(options.out.join("runs"))?;
    let todo = todo(plan, &store, options.fresh)?;
    let found = plan.jobs.len() - todo.len();
    watch(Event::Found(found));
    let pool = Workers {
        plan,
        store: &store,
        simulate,
        stop,
        watch,
        todo: &todo,
        next: AtomicUsize::new(0),
        spare: SpareCores::default(),
        state: Mutex::default(),
    };
    pool.work(options.jobs);
    let mut state = pool.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    write_timing(&options.out, plan, &state.seconds)?;
    if let Some(broken) = state.broken {
        return Err(broken);
    }
    let total = plan.jobs.len();
    if !state.failed.is_empty() {
        return Err(Error::Failed { failed: state.failed.into_iter().collect(), total });
    }
    let finished: Vec<Option<Finished>> = plan
        .jobs
        .iter()
        .map(|job| state.finished.remove(&job.key).or_else(|| store.find(&job.key)))
        .collect();
    let done = finished.iter().flatten().count();
    let (true, Some(finished)) =
        (!stop.load(Ordering::Relaxed), finished.into_iter().collect::<Option<Vec<_>>>())
    else {
        return Err(Error::Stopped { done, total });
    };
    watch(Event::Joining);
    let mut manifest = Manifest::begun(plan);
    manifest.files = join::all(&options.out, join::Runs { plan, store: &store, finished: &finished }, stop)?;
    let summaries: Vec<_> = finished.into_iter().map(|f| f.summary).collect();
    let verdicts = verdicts::judge(plan, &summaries);
    verdicts::write(&options.out, plan, &verdicts, &mut manifest.files)?;
    manifest.finished = true;
    manifest.write(&options.out)?;
    Ok(RunReport { manifest, summaries, verdicts, found })
}

/// Runs still to do, by place in the plan; of equal runs only the first.
fn todo(plan: &RunPlan, store: &Store, fresh: bool) -> Result<Vec<usize>, Error> {
    let (mut seen, mut todo) = (BTreeSet::new(), Vec::new());
    for (at, job) in plan.jobs.iter().enumerate().filter(|(_, job)| seen.insert(&job.key)) {
        if fresh {
            store.remove(&job.key)?;
        }
        if store.find(&job.key).is_none() {
            todo.push(at);
        }
    }
    Ok(todo)
}

/// Threads that take one run after another.
struct Workers<'a> {
    plan: &'a RunPlan,
    store: &'a Store,
    simulate: &'a Simulate<'a>,
    stop: &'a AtomicBool,
    watch: &'a (dyn Fn(Event<'_>) + Sync),
    todo: &'a [usize],
    next: AtomicUsize,
    /// Cores that no run has.
    spare: SpareCores,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Wall seconds of each run done now, by key.
    seconds: BTreeMap<String, f64>,
    /// The runs done now, by key.
    finished: BTreeMap<String, Finished>,
    failed: BTreeMap<usize, String>,
    /// Error after which no more runs can be kept.
    broken: Option<Error>,
}

impl Workers<'_> {
    fn work(&self, jobs: usize) {
        let runs = jobs.clamp(1, self.todo.len().max(1));
        (runs..jobs).for_each(|_| self.spare.give());
        thread::scope(|scope| {
            for _ in 0..runs {
                scope.spawn(|| {
                    while let Some(at) = self.take() {
                        self.one(at);
                    }
                    self.spare.give();
                });
            }
        });
    }

    fn take(&self) -> Option<usize> {
        if self.stop.load(Ordering::Relaxed) || self.state().broken.is_some() {
            return None;
        }
        self.todo.get(self.next.fetch_add(1, Ordering::Relaxed)).copied()
    }

    fn one(&self, at: usize) {
        let job = &self.plan.jobs[at];
        (self.watch)(Event::Begin(at));
        let begun = Clock::now();
        let go_on = |now| {
            (self.watch)(Event::At(at, now));
            if self.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match caught(|| (self.simulate)(&job.scenario, job.seed, &self.spare, &go_on)) {
            Ok(Ok(results)) => match self.store.put(job, &results) {
                Ok(finished) => {
                    let mut state = self.state();
                    state.seconds.insert(job.key.clone(), begun.elapsed().as_secs_f64());
                    state.finished.insert(job.key.clone(), finished);
                    drop(state);
                    (self.watch)(Event::End(at));
                }
                Err(why) => {
                    self.state().broken.get_or_insert(why);
                }
            },
            Ok(Err(RunError::Stopped)) => {}
            Ok(Err(why)) => self.failed(at, &why.to_string()),
            Err(bug) => self.failed(at, &bug),
        }
    }

    fn failed(&self, at: usize, why: &str) {
        let told = format!("{}: {why}", self.plan.jobs[at].label(&self.plan.axes));
        (self.watch)(Event::Failed(at, why));
        self.state().failed.insert(at, told);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `timing.csv`: wall seconds of the runs, in the order of the plan; those of runs found come from the file before.
fn write_timing(out: &Path, plan: &RunPlan, seconds: &BTreeMap<String, f64>) -> Result<(), Error> {
    let path = out.join("timing.csv");
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let known: BTreeMap<&str, &str> = before
        .lines()
        .skip(1)
        .filter_map(|line| Some((line.split_once(',')?.0, line.rsplit_once(',')?.1)))
        .collect();
    let mut text = String::from("run,seed,wall_s\n");
    for job in &plan.jobs {
        let wall = seconds.get(&job.key).map(|s| format!("{s:.3}"));
        if let Some(wall) = wall.as_deref().or(known.get(job.key.as_str()).copied()) {
            text.push_str(&format!("{},{},{wall}\n", job.key, job.seed));
        }
    }
    folder::replace(&path, text.as_bytes())
}
