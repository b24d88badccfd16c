//! One run: a scenario and a seed in, results out.

use core::ops::ControlFlow;

use narrows_scenario::Scenario;
use narrows_units::Instant;

use crate::build::{BuildError, build};
use crate::results::Results;

/// Why there are no results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The scenario cannot be simulated.
    Build(BuildError),
    /// The caller stopped it.
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
/// # Errors
/// If the scenario asks for what cannot be simulated, or if `go_on` breaks.
pub fn run(
    scenario: &Scenario,
    seed: u64,
    go_on: &mut dyn FnMut(Instant) -> ControlFlow<()>,
) -> Result<Results, RunError> {
    let (mut world, groups, configs) = build(scenario, seed).map_err(RunError::Build)?;
    for app in crate::app::apps(scenario, &groups, &configs, seed) {
        world.add_app(app);
    }
    crate::probe::begin(&mut world, scenario);
    let end = Instant::default() + scenario.duration;
    if world.run(end, go_on).is_break() {
        return Err(RunError::Stopped);
    }
    Ok(crate::probe::finish(world))
}
