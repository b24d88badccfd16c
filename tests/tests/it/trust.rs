//! Whether the simulator can be believed: its figures against arithmetic on paper, against other simulators, and
//! against what cannot be. `docs/explanation/trust.md` says what is checked against what; the scenarios are in
//! `experiments/trust/`.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report")]

mod aimd_adaptive;
mod burst;
mod conservation;
mod edges;
mod efficiency;
mod golden;
mod replayed;
mod shares;
mod spreading;
mod times;

use core::ops::ControlFlow;
use std::path::Path;

use narrows_scenario::{Experiment, Run};
use narrows_sim::{Column, Data, Results};

/// All runs of a file of `experiments/trust/`, with `sets` in place of its own settings.
fn runs(file: &str, sets: &[&str]) -> Vec<Run> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/trust").join(file);
    let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
    Experiment::load(&path, &sets).unwrap().expand().unwrap()
}

fn simulate(run: &Run) -> Results {
    narrows_sim::run(&run.scenario, run.seed, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// The number a swept key has in a run.
fn coordinate(run: &Run, key: &str) -> f64 {
    run.coords[key].parse().unwrap()
}

/// A column of a table of results, as numbers.
fn column(results: &Results, table: &str, name: &str) -> Vec<f64> {
    let table = results.tables.iter().find(|t| t.name == table).unwrap();
    let Column { data, .. } = table.columns.iter().find(|c| c.name == name).unwrap();
    match data {
        Data::U64(v) => v.iter().map(|x| *x as f64).collect(),
        Data::F64(v) => v.clone(),
        Data::Text(_) => panic!("{name} is made of words"),
    }
}
