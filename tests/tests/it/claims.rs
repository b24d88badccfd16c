//! The models against the simulator. Neither knows the other, so where they agree it is evidence; where they part,
//! `docs/explanation/models/against-simulation.md` says why. Here is the short version; `make claims` also runs what is
//! ignored.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report")]

mod efficiency;
mod epochs;
mod estimates;
mod operating;
mod split;
mod transfers;

use core::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use narrows_scenario::{Experiment, Run};
use narrows_sim::Results;

/// A run and its results.
struct Outcome {
    run: Run,
    results: Results,
}

impl Outcome {
    /// A figure of the run.
    fn get(&self, name: &str) -> f64 {
        self.results.summary.get(name).copied().unwrap_or_else(|| panic!("no run has {name}"))
    }

    /// Value of a swept key in this run.
    fn coordinate(&self, key: &str) -> &str {
        &self.run.coords[key]
    }
}

/// Runs a file of `experiments/` with `sets` in place of its own settings, on all processors.
fn outcomes(file: &str, sets: &[&str]) -> Vec<Outcome> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments").join(file);
    let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
    simulate(Experiment::load(&path, &sets).unwrap().expand().unwrap())
}

/// Runs them all, on all processors.
fn simulate(runs: Vec<Run>) -> Vec<Outcome> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (todo, done) = (Mutex::new(runs.into_iter().enumerate()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = todo.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some((at, run)) = next else { break };
                    let results =
                        narrows_sim::run(&run.scenario, run.seed, &mut |_| ControlFlow::Continue(()));
                    let outcome = Outcome { run, results: results.unwrap() };
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((at, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}
