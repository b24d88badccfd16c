//! A whole scenario: every discipline, every seed, and what came of them together.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail, ensure};
use serde::Serialize;

use super::machines::{GuestJob, Machines};
use super::metrics::{self, Spread, Values};
use super::record::RunRecord;
use super::run::{RunFiles, run_one};
use super::scenario::Scenario;
use super::worker::Tick;
use super::{bench, browser, middle};

/// Options of a suite that its scenario does not set.
#[derive(Clone, Debug, Default)]
pub struct SuiteOptions {
    /// Disciplines to run; all if empty.
    pub only: Vec<String>,
    /// Seed to run; all if `None`.
    pub seed: Option<u64>,
    /// Number of runs at a time, each in namespaces of its own.
    pub jobs: usize,
    /// Machines to run in, one for each run; here, in namespaces of this kernel, if `None`.
    pub machines: Option<Machines>,
    /// Files that each run leaves beside its numbers; `None` for neither captures nor logs.
    pub files: Option<RunFiles>,
    /// The command line, for the result file.
    pub command: String,
}

/// Report on a running suite.
#[derive(Clone, Debug)]
pub enum Progress {
    /// A discipline takes no part.
    Skipped(String, String),
    /// A run begins.
    Begin(LabJob),
    /// A run goes on.
    Tick(LabJob, Tick),
    /// A run has ended, with values or the reason of its failure.
    End(LabJob, Result<Values, String>),
}

/// One run of a suite.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabJob {
    /// Discipline in the box.
    pub discipline: String,
    /// Seed of the run.
    pub seed: u64,
}

/// Results of a scenario.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// The program's version.
    pub version: String,
    /// Command that made the outcome.
    pub command: String,
    /// Kernel under which the runs ran.
    pub kernel: String,
    /// The scenario, after all replacements.
    pub scenario: Scenario,
    /// Results of the disciplines, in the order of the table's columns.
    pub disciplines: Vec<DisciplineOutcome>,
}

/// Results of one discipline.
#[derive(Debug, Default, Serialize)]
pub struct DisciplineOutcome {
    /// Name in the scenario.
    pub discipline: String,
    /// Reason why the discipline took no part; `None` if it took part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// Median and range over the seeds.
    pub summary: BTreeMap<String, Spread>,
    /// Runs of the discipline, one for each seed.
    pub runs: Vec<RunOutcome>,
}

/// Values and records of one run.
#[derive(Debug, Default, Serialize)]
pub struct RunOutcome {
    /// Values of the run.
    pub values: Values,
    /// Reason why the values must not be believed; `None` if they may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spoiled: Option<String>,
    /// Records of the run.
    pub record: RunRecord,
}

/// Scenario, and the options with which to run the scenario.
#[derive(Debug)]
pub struct Suite {
    scenario: Scenario,
    options: SuiteOptions,
    disciplines: Vec<String>,
}

impl Suite {
    /// Checks that there is something to run.
    ///
    /// # Errors
    /// If `only` names nothing sensible, a browser is asked for where none is installed, or this
    /// machine has no namespaces to give.
    pub fn new(scenario: Scenario, options: SuiteOptions) -> anyhow::Result<Self> {
        if options.machines.is_some() {
            ensure!(
                scenario.browsers().is_empty(),
                "browsers run on this machine's kernel only: leave out the machine, or the traffic of kind browser"
            );
        } else {
            bench::available()?;
            if let Some(why) = browser::missing(&scenario) {
                bail!("{why}");
            }
        }
        // --only may name a variant the file does not list: it is meant for trying things out.
        let disciplines =
            if options.only.is_empty() { scenario.disciplines.clone() } else { options.only.clone() };
        Ok(Self { scenario, options, disciplines })
    }

    /// Scenario of the suite.
    #[must_use]
    pub const fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Runs all disciplines under all seeds. A run that fails leaves its place empty and the rest goes on; `stop` ends
    /// everything.
    ///
    /// # Errors
    /// If it was stopped.
    pub fn run(&self, progress: &(dyn Fn(Progress) + Sync), stop: &AtomicBool) -> anyhow::Result<Outcome> {
        if self.options.machines.is_none() {
            bench::sweep();
        }
        let mut columns: Vec<DisciplineOutcome> = Vec::new();
        let mut jobs = VecDeque::new();
        for (at, discipline) in self.disciplines.iter().enumerate() {
            let skipped = match self.options.machines {
                Some(_) => middle::unknown(&self.scenario, discipline),
                None => middle::obstacle(&self.scenario, discipline),
            };
            match &skipped {
                Some(why) => progress(Progress::Skipped(discipline.clone(), why.clone())),
                None => jobs.extend(
                    self.seeds()
                        .into_iter()
                        .map(|seed| (at, LabJob { discipline: discipline.clone(), seed })),
                ),
            }
            columns.push(DisciplineOutcome { discipline: discipline.clone(), skipped, ..Default::default() });
        }
        let (jobs, columns) = (Mutex::new(jobs), Mutex::new(columns));
        std::thread::scope(|scope| {
            for _ in 0..self.options.jobs.max(1) {
                scope.spawn(|| self.work(&jobs, &columns, progress, stop));
            }
        });
        if stop.load(Ordering::Relaxed) {
            bail!("stopped; the namespaces are removed");
        }
        let mut columns = columns.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        for column in &mut columns {
            column.runs.sort_by_key(|r| r.record.seed);
            let values: Vec<Values> = column.runs.iter().map(|r| r.values.clone()).collect();
            column.summary = metrics::summarize(&values);
        }
        Ok(Outcome {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: self.options.command.clone(),
            kernel: self.kernel(),
            scenario: self.scenario.clone(),
            disciplines: columns,
        })
    }

    /// Name of the kernel on which the runs take place, for the result file.
    fn kernel(&self) -> String {
        match &self.options.machines {
            Some(machines) => format!("{} in a virtual machine", machines.version()),
            None => {
                let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
                text.trim().to_owned()
            }
        }
    }

    fn run_job(&self, job: &LabJob, tick: &dyn Fn(Tick), stop: &AtomicBool) -> anyhow::Result<RunRecord> {
        let files = self.options.files.as_ref();
        let Some(machines) = &self.options.machines else {
            return run_one(&self.scenario, &job.discipline, job.seed, files, tick, stop);
        };
        let job = GuestJob {
            scenario: self.scenario.clone(),
            discipline: job.discipline.clone(),
            seed: job.seed,
            capture: files.is_some_and(|files| files.capture),
        };
        machines.run_one(&job, files.map(|files| &*files.folder), tick, stop)
    }

    fn seeds(&self) -> Vec<u64> {
        self.options.seed.map_or_else(|| self.scenario.seeds.clone(), |s| vec![s])
    }

    fn work(
        &self,
        jobs: &Mutex<VecDeque<(usize, LabJob)>>,
        columns: &Mutex<Vec<DisciplineOutcome>>,
        progress: &(dyn Fn(Progress) + Sync),
        stop: &AtomicBool,
    ) {
        while !stop.load(Ordering::Relaxed) {
            let next = lock(jobs).pop_front();
            let Some((at, job)) = next else { return };
            progress(Progress::Begin(job.clone()));
            let tick = |t: Tick| progress(Progress::Tick(job.clone(), t));
            match self.run_job(&job, &tick, stop) {
                Ok(record) => {
                    let values = metrics::measure(&self.scenario, &record);
                    let spoiled = metrics::spoiled(&values);
                    progress(Progress::End(job, Ok(values.clone())));
                    lock(columns)[at].runs.push(RunOutcome { values, spoiled, record });
                }
                Err(e) => {
                    let why = format!("{e:#}");
                    lock(columns)[at].skipped.get_or_insert_with(|| format!("seed {}: {why}", job.seed));
                    progress(Progress::End(job, Err(why)));
                }
            }
        }
    }
}

/// A panic elsewhere must not hide what was measured.
fn lock<T>(m: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Outcome {
    /// Writes `OUT/NAME.json` and gives its path.
    ///
    /// # Errors
    /// If the directory or file cannot be written.
    pub fn write_json(&self, out: &Path) -> anyhow::Result<PathBuf> {
        std::fs::create_dir_all(out).with_context(|| format!("{}: cannot be made", out.display()))?;
        let path = out.join(format!("{}.json", self.scenario.name));
        let file = std::fs::File::create(&path).with_context(|| path.display().to_string())?;
        serde_json::to_writer(std::io::BufWriter::new(file), self)
            .with_context(|| path.display().to_string())?;
        Ok(path)
    }
}
