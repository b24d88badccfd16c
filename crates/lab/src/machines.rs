//! Runs in virtual machines: each in one of its own, under a stock kernel, with a clock that no busy host disturbs.
//!
//! A machine runs this very program: `narrows lab-guest` makes the namespaces inside, as the lab does here. What a run
//! gives depends on scenario, discipline, seed, kernel and program, and not on which other runs there are.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, bail};
use narrows_machine::{Guest, Kernel, Machine, Release, Stream};
use serde::{Deserialize, Serialize};

use super::record::RunRecord;
use super::run::RunFiles;
use super::scenario::{Before, Scenario};
use super::worker::{Say, Tick};

/// Path at which a guest finds its [`GuestJob`].
const JOB: &str = "/job.json";
/// Name of the guest's [`RunRecord`] in the guest's folder `/out`.
const RECORD: &str = "record.json";
/// Folder of the guest's captures and logs in the guest's folder `/out`.
const FILES: &str = "files";
/// Memory of a machine in MiB, for files, 100 users and waiting packets.
const MEMORY_MIB: u32 = 2048;
/// The longest that a run may take on the host, in multiples of its own time, beside ten minutes for the start.
const PATIENCE: u32 = 30;

/// Job of a guest: one run.
#[derive(Debug, Serialize, Deserialize)]
pub struct GuestJob {
    /// Scenario to run.
    pub scenario: Scenario,
    /// Discipline in the box.
    pub discipline: String,
    /// Seed of the run.
    pub seed: u64,
    /// Whether to capture the packets of both ends.
    pub capture: bool,
}

impl GuestJob {
    /// The job of this guest.
    ///
    /// # Errors
    /// If this is no guest, or the job cannot be read.
    pub fn read() -> anyhow::Result<Self> {
        let text = std::fs::read(JOB).with_context(|| format!("{JOB}: not in a machine of the lab"))?;
        let mut job: Self = serde_json::from_slice(&text).with_context(|| JOB.to_owned())?;
        for (word, way) in job.scenario.before.iter_mut().flat_map(Before::ways) {
            way.take_trace(&trace_file(word))?;
        }
        Ok(job)
    }

    /// Files that the guest is to write.
    #[must_use]
    pub fn files(&self) -> RunFiles {
        RunFiles { folder: PathBuf::from(FILES), capture: self.capture }
    }

    /// Writes the record of the run for the host.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn leave(record: &RunRecord) -> anyhow::Result<()> {
        std::fs::write(RECORD, serde_json::to_vec(record)?).context(RECORD)
    }
}

/// Virtual machines that run this program under one kernel.
#[derive(Clone, Debug)]
pub struct Machines {
    kernel: Kernel,
    program: PathBuf,
}

impl Machines {
    /// Machines with the newest kernel of a series, in which `program`, a `narrows` with the lab, runs.
    ///
    /// # Errors
    /// If qemu is missing or the kernel cannot be had, with the remedy.
    pub fn new(release: &Release, program: PathBuf) -> anyhow::Result<Self> {
        if let Some(why) = narrows_machine::obstacle() {
            bail!("{why}");
        }
        Ok(Self { kernel: Kernel::of(release)?, program })
    }

    /// Version of the guest's kernel, as `uname -r` prints it.
    #[must_use]
    pub fn version(&self) -> &str {
        self.kernel.version()
    }

    /// Runs `discipline` once, as [`super::run_one`] does here.
    ///
    /// # Errors
    /// Whatever part failed inside, or that the machine did; or that it was stopped.
    pub fn run_one(
        &self,
        job: &GuestJob,
        files: Option<&Path>,
        progress: &dyn Fn(Tick),
        stop: &AtomicBool,
    ) -> anyhow::Result<RunRecord> {
        let mut guest = Guest::new(&format!("'{}' lab-guest", self.program.display()))?;
        guest.program(&self.program)?;
        guest.file(Path::new(JOB), &serde_json::to_vec(job)?);
        for (word, way) in job.scenario.before.clone().iter_mut().flat_map(Before::ways) {
            if let Some(text) = way.trace_text() {
                guest.file(&trace_file(word), text.as_bytes());
            }
        }
        let most = job.scenario.duration.duration() * PATIENCE + Duration::from_secs(600);
        let machine = Machine::new(self.kernel.clone()).memory_mib(MEMORY_MIB).seed(job.seed).at_most(most);
        let results = Results::make(job)?;
        let mut failed = None;
        let mut hear = |stream: Stream, line: &str| match (stream, serde_json::from_str::<Say<()>>(line)) {
            (Stream::Output, Ok(Say::Tick(tick))) => progress(tick),
            (Stream::Output, Ok(Say::Failed(why))) => failed = Some(why),
            _ => {}
        };
        let ended = machine.run(guest, &results.0, &mut hear, stop)?;
        if let Some(why) = failed {
            bail!("{why}");
        }
        let file = results.0.join(RECORD);
        let text = std::fs::read(&file)
            .with_context(|| format!("no result in the machine (status {})", ended.status))?;
        if let Some(folder) = files {
            take_files(&results.0.join(FILES), folder)?;
        }
        serde_json::from_slice(&text).context("the machine's result")
    }
}

/// Path at which a guest finds the trace of one way of the link before the box.
fn trace_file(way: &str) -> PathBuf {
    PathBuf::from(format!("/trace-{way}"))
}

/// A folder for what a machine leaves, gone when dropped.
struct Results(PathBuf);

impl Results {
    fn make(job: &GuestJob) -> anyhow::Result<Self> {
        let plain: String =
            job.discipline.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let name = format!("narrows-lab-{}-{plain}-{}", std::process::id(), job.seed);
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self(folder))
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Copies the files of one folder, if there is one, into another.
fn take_files(from: &Path, to: &Path) -> anyhow::Result<()> {
    if !from.exists() {
        return Ok(());
    }
    std::fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for entry in std::fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        std::fs::copy(entry.path(), &target).with_context(|| target.display().to_string())?;
    }
    Ok(())
}
