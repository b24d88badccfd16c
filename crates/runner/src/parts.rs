//! One run on several threads, where its scenario has parts that do not meet ([`narrows_sim::Parts`]).
//!
//! Threads take one part after another. Which thread does which part, and when, decides nothing: each part is a
//! function of scenario and seed, and parts are put together in their order. Runs come first: a run has a second thread
//! only while there are cores that no run has.

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use narrows_scenario::Scenario;
use narrows_sim::{PartEnd, Parts, Results, RunError};
use narrows_units::Instant;

/// Callback that receives the simulated time a run has reached, from any of its threads, and may stop the run.
pub type GoOn<'a> = dyn Fn(Instant) -> ControlFlow<()> + Sync + 'a;

/// Count of cores that no run uses.
#[derive(Debug, Default)]
pub struct SpareCores(AtomicUsize);

impl SpareCores {
    /// Creates a count of `count` free cores.
    #[must_use]
    pub const fn new(count: usize) -> Self {
        Self(AtomicUsize::new(count))
    }

    /// Adds a free core.
    pub(crate) fn give(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a free core, if there is one, until the returned value is dropped.
    fn take(&self) -> Option<Taken<'_>> {
        let less = |n: usize| n.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok().map(|_| Taken(self))
    }
}

/// A core in use.
struct Taken<'a>(&'a SpareCores);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.give();
    }
}

/// Simulates `scenario` under `seed` on this thread and one more for each spare core, as long as there are parts to do:
/// the same bytes as [`narrows_sim::run`].
///
/// # Errors
/// If the scenario asks for what cannot be simulated, or if `go_on` breaks.
pub fn simulate(
    scenario: &Scenario,
    seed: u64,
    spare: &SpareCores,
    go_on: &GoOn<'_>,
) -> Result<Results, RunError> {
    let parts = Parts::of(scenario);
    let count = parts.count();
    let run = OneRun {
        scenario,
        seed,
        parts: &parts,
        next: AtomicUsize::new(0),
        at: (0..count).map(|_| AtomicU64::new(0)).collect(),
        ends: Mutex::new((0..count).map(|_| None).collect()),
        go_on,
    };
    thread::scope(|scope| {
        let (run, mut helpers) = (&run, Vec::new());
        run.work(&mut || {
            while helpers.len() + 1 < count
                && run.is_waiting()
                && let Some(core) = spare.take()
            {
                helpers.push(scope.spawn(move || {
                    let _until_done = core;
                    run.work(&mut || ());
                }));
            }
        });
        if let Some(panicked) = helpers.into_iter().find_map(|helper| helper.join().err()) {
            resume_unwind(panicked);
        }
    });
    let ends = run.ends.into_inner().unwrap_or_else(PoisonError::into_inner);
    let ends = ends.into_iter().map(|end| end.unwrap_or(Err(RunError::Stopped)));
    Ok(narrows_sim::join(scenario, &parts, ends.collect::<Result<_, _>>()?))
}

/// State of a run whose parts are being simulated.
struct OneRun<'a> {
    scenario: &'a Scenario,
    seed: u64,
    parts: &'a Parts,
    /// Number of the first part that no thread has taken.
    next: AtomicUsize,
    /// Simulated time that each part has reached, nanoseconds.
    at: Vec<AtomicU64>,
    ends: Mutex<Vec<Option<Result<PartEnd, RunError>>>>,
    go_on: &'a GoOn<'a>,
}

impl OneRun<'_> {
    fn is_waiting(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.parts.count()
    }

    /// Takes part after part; `help` is called now and then.
    fn work(&self, help: &mut dyn FnMut()) {
        loop {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= self.parts.count() {
                return;
            }
            help();
            let mut told = |now: Instant| {
                self.at[part].store(now.as_nanos(), Ordering::Relaxed);
                help();
                (self.go_on)(self.mean())
            };
            let end = narrows_sim::run_part(self.scenario, self.seed, self.parts, part, &mut told);
            self.at[part].store(self.scenario.duration.as_nanos(), Ordering::Relaxed);
            if end.is_err() {
                // Nothing can come of the run any more.
                self.next.store(self.parts.count(), Ordering::Relaxed);
            }
            self.ends.lock().unwrap_or_else(PoisonError::into_inner)[part] = Some(end);
        }
    }

    /// Simulated time reached, as the mean over all parts.
    fn mean(&self) -> Instant {
        let count = self.at.len().max(1) as u64;
        Instant::from_nanos(self.at.iter().map(|at| at.load(Ordering::Relaxed) / count).sum())
    }
}
