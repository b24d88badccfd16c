//! Plan of a sweep: the runs, their order, and the key by which a finished run is found again.

use std::path::Path;
use std::sync::Arc;

use narrows_scenario::{Claim, Experiment, Run, Scenario};
use sha2::{Digest as _, Sha256};

/// Version of Narrows.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Names the code that decides results: a hash over its sources, the same on every machine.
pub const ENGINE: &str = env!("NARROWS_ENGINE");

/// Axis of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The key, as `discipline`.
    pub name: String,
    /// Values of the key in order.
    pub values: Vec<String>,
}

/// One run of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// One value for each [`RunPlan::axes`].
    pub coords: Vec<String>,
    /// Decides all that is random.
    pub seed: u64,
    /// Scenario to run.
    pub scenario: Arc<Scenario>,
    /// Names the run's folder: a hash of scenario, seed and engine.
    pub key: String,
}

/// Runs that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPlan {
    /// Name of the scenario.
    pub name: String,
    /// Description of the scenario.
    pub about: String,
    /// Text of the scenario file, as read.
    pub text: String,
    /// Command that asks for the plan's runs, together with the file `text`; without paths.
    pub command: String,
    /// Claims about the results.
    pub claims: Vec<Claim>,
    /// Axes of the sweep.
    pub axes: Vec<Axis>,
    /// The runs, in the order of all results.
    pub jobs: Vec<Job>,
}

impl RunPlan {
    /// The plan of a scenario file with some settings replaced, and a sentence for each setting that only the lab
    /// heeds.
    ///
    /// # Errors
    /// Names the file, the key, the value and what was expected.
    pub fn load(path: &Path, sets: &[String]) -> Result<(Self, Vec<String>), narrows_scenario::Error> {
        let mut experiment = Experiment::load(path, sets)?;
        let ignored = experiment.for_simulator()?;
        let runs = experiment.expand()?;
        // Experiment::load has just read it.
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let command: Vec<String> = ["narrows".into(), "sim".into(), quoted(&file)]
            .into_iter()
            .chain(sets.iter().flat_map(|set| ["--set".into(), quoted(set)]))
            .collect();
        Ok((Self { claims: experiment.claims, ..Self::new(&text, &command.join(" "), runs) }, ignored))
    }

    /// A plan of these runs, all of one scenario, without claims. An axis is a coordinate of the runs; axes stand in
    /// alphabetical order, their values in the order in which runs first have them.
    #[must_use]
    pub fn new(text: &str, command: &str, runs: Vec<Run>) -> Self {
        let (name, about) =
            runs.first().map(|r| (r.scenario.name.clone(), r.scenario.about.clone())).unwrap_or_default();
        let mut axes: Vec<Axis> = runs.first().map_or_else(Vec::new, |run| {
            run.coords.keys().map(|name| Axis { name: name.clone(), values: Vec::new() }).collect()
        });
        let mut jobs = Vec::with_capacity(runs.len());
        for run in runs {
            let coords: Vec<String> = axes
                .iter_mut()
                .map(|axis| {
                    let value = run.coords.get(&axis.name).cloned().unwrap_or_default();
                    if !axis.values.contains(&value) {
                        axis.values.push(value.clone());
                    }
                    value
                })
                .collect();
            let key = key(&run.scenario, run.seed);
            jobs.push(Job { coords, seed: run.seed, scenario: run.scenario, key });
        }
        let (text, command) = (text.to_owned(), command.to_owned());
        Self { name, about, text, command, claims: Vec::new(), axes, jobs }
    }

    /// Seeds, ascending.
    #[must_use]
    pub fn seeds(&self) -> Vec<u64> {
        let mut seeds: Vec<u64> = self.jobs.iter().map(|j| j.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        seeds
    }

    /// Names all of it: a hash over the file's text, the keys of the runs and where they lie.
    #[must_use]
    pub fn hash(&self) -> String {
        let mut hash = Sha256::new_with_prefix(&self.text);
        for job in &self.jobs {
            hash.update(&job.key);
            for (axis, value) in self.axes.iter().zip(&job.coords) {
                hash.update(format!("\n{}={value}", axis.name));
            }
        }
        hex(&hash.finalize()[..16])
    }
}

impl Job {
    /// Label of the run in words: `discipline=taq share=5kbit seed=2`.
    #[must_use]
    pub fn label(&self, axes: &[Axis]) -> String {
        let mut words: Vec<String> =
            axes.iter().zip(&self.coords).map(|(a, v)| format!("{}={v}", a.name)).collect();
        words.push(format!("seed={}", self.seed));
        words.join(" ")
    }
}

/// Word quoted for a shell, where the shell needs quotes.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "=.,:_-/+%".contains(c);
    if word.chars().all(plain) && !word.is_empty() {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn key(scenario: &Scenario, seed: u64) -> String {
    hex(&Sha256::digest(format!("{}\n{seed}\n{VERSION}\n{ENGINE}", scenario.hash))[..10])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(quoted("rate=600kbit"), "rate=600kbit");
        assert_eq!(quoted("seeds=[1, 2]"), "'seeds=[1, 2]'");
        assert_eq!(quoted("a'b"), r"'a'\''b'");
    }
}
