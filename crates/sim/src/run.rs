//! One run: a scenario and a seed in, results out.

use core::ops::ControlFlow;

use narrows_scenario::Scenario;
use narrows_units::Instant;

use crate::build::{BuildError, build};
use crate::own::{Nothing, Own};
use crate::parts::{Part, Parts};
use crate::probe::PartEnd;
use crate::results::Results;

/// Reason why a run has no results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The scenario cannot be simulated.
    Build(BuildError),
    /// The caller stopped the run.
    Stopped,
}

impl core::fmt::Display for RunError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Build(e) => e.fmt(f),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}
impl std::error::Error for RunError {}

/// Simulates `scenario` under `seed`. Every few thousand events `go_on` hears how far the run has come and may stop it.
/// The same scenario and seed give the same results on every machine.
///
/// Parts that do not meet ([`Parts`]) are simulated one after another, which gives what [`run_part`] and [`join`] do.
///
/// # Errors
/// If the scenario asks for what cannot be simulated, or if `go_on` breaks.
pub fn run(
    scenario: &Scenario,
    seed: u64,
    go_on: &mut dyn FnMut(Instant) -> ControlFlow<()>,
) -> Result<Results, RunError> {
    run_with(scenario, seed, &Nothing, go_on)
}

/// As [`run`], with parts that the caller brings: the same scenario, seed and parts give the same results.
///
/// # Errors
/// If the scenario asks for what cannot be simulated or is not brought, or if `go_on` breaks.
pub fn run_with(
    scenario: &Scenario,
    seed: u64,
    own: &dyn Own,
    go_on: &mut dyn FnMut(Instant) -> ControlFlow<()>,
) -> Result<Results, RunError> {
    let parts = Parts::of(scenario);
    let count = parts.count() as u64;
    let mut ends = Vec::with_capacity(parts.count());
    for part in 0..parts.count() {
        let before = scenario.duration.as_nanos() / count * part as u64;
        let mut told = |now: Instant| go_on(Instant::from_nanos(before + now.as_nanos() / count));
        ends.push(part_with(scenario, seed, own, parts.part(part), &mut told)?);
    }
    Ok(join(scenario, &parts, ends))
}

/// Simulates part `number` of `scenario` from beginning to end. Parts may be simulated at the same time.
///
/// # Errors
/// If the scenario asks for what cannot be simulated, or if `go_on` breaks.
pub fn run_part(
    scenario: &Scenario,
    seed: u64,
    parts: &Parts,
    number: usize,
    go_on: &mut dyn FnMut(Instant) -> ControlFlow<()>,
) -> Result<PartEnd, RunError> {
    part_with(scenario, seed, &Nothing, parts.part(number), go_on)
}

fn part_with(
    scenario: &Scenario,
    seed: u64,
    own: &dyn Own,
    part: Part<'_>,
    go_on: &mut dyn FnMut(Instant) -> ControlFlow<()>,
) -> Result<PartEnd, RunError> {
    let (mut world, groups, configs) = build(scenario, seed, part, own).map_err(RunError::Build)?;
    for app in crate::app::apps(scenario, &groups, &configs, seed, part) {
        world.add_app(app);
    }
    let plan = world.probes.prepare(scenario, part);
    world.watch(plan);
    let end = Instant::default() + scenario.duration;
    if world.run(end, go_on).is_break() {
        return Err(RunError::Stopped);
    }
    Ok(world.finish())
}

/// Makes the results of a run from the records of the run's parts, in the parts' order.
#[must_use]
pub fn join(scenario: &Scenario, parts: &Parts, ends: Vec<PartEnd>) -> Results {
    crate::probe::report(&crate::probe::plan(scenario), crate::probe::join(parts, ends))
}
