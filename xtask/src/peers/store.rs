//! Finished runs, one line of JSON each, appended as they end: whatever interrupts, they are there next time.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::measure::Cost;
use super::metrics::Metrics;
use super::plan::{Job, Simulator};

/// A finished run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Simulator of the run.
    pub simulator: Simulator,
    /// Scenario, by [`super::plan::Case::id`].
    pub case: String,
    /// Flavour of TCP.
    pub flavour: String,
    /// Every setting, the seed too.
    pub settings: serde_json::Value,
    /// Digest of the script, or of the program: another one's figures are not taken for this one's.
    pub program: String,
    /// Figures of the run.
    pub metrics: Metrics,
    /// Cost of the run.
    pub cost: Cost,
}

/// The file of finished runs.
pub struct Store {
    file: Mutex<File>,
    found: Vec<Record>,
}

impl Store {
    /// Opens `runs.jsonl` in `out`, which is made if need be.
    pub fn open(out: &Path) -> Result<Self> {
        std::fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
        let path = out.join("runs.jsonl");
        let mut file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("opening {}", path.display()))?;
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(|| format!("reading {}", path.display()))?;
        // A line that does not parse was cut off when the machine stopped, or has an older layout.
        let found = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if !text.is_empty() && !text.ends_with('\n') {
            writeln!(file).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(Self { file: Mutex::new(file), found })
    }

    /// The record of such a run by such a program, if there was one before.
    pub fn find(&self, job: &Job, program: &str) -> Option<&Record> {
        let settings = serde_json::to_value(&job.settings).ok()?;
        let case = job.case.id();
        self.found.iter().rev().find(|r| {
            r.simulator == job.simulator
                && r.case == case
                && r.flavour == job.flavour
                && r.program == program
                && r.settings == settings
        })
    }

    /// Keeps a run that has just ended.
    pub fn keep(&self, record: &Record) -> Result<()> {
        let line = serde_json::to_string(record)? + "\n";
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // One write: lines of two threads or of two processes do not mix.
        file.write_all(line.as_bytes()).context("writing runs.jsonl")
    }
}

/// FNV-1a, 64 bits: tells one version of a program from another.
pub fn digest(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::plan::{Wish, jobs};

    #[test]
    fn digest_of_the_published_test_vector() {
        // FNV-1a 64 of "a" (Fowler, Noll, Vo).
        assert_eq!(digest(b"a"), "af63dc4c8601ec8c");
    }

    #[test]
    fn a_torn_line_costs_one_run_and_no_other() {
        let out = std::env::temp_dir().join(format!("narrows-peers-{}", std::process::id()));
        let only = ["a".to_owned()];
        let job = &jobs(&Wish { only: &only, seeds: &[7], quick: true })[1];
        let metrics = Metrics {
            jfi_slice: None,
            jfi_long: Some(0.5),
            utilisation: 1.0,
            loss: 0.1,
            timeouts_per_flow_s: 0.2,
            zero_share: None,
            goodput_bps: 1e6,
            departed_packets: 9,
        };
        let record = Record {
            simulator: job.simulator,
            case: job.case.id(),
            flavour: job.flavour.into(),
            settings: serde_json::to_value(&job.settings).unwrap(),
            program: "p".into(),
            metrics,
            cost: Cost { wall_s: 1.0, cpu_s: 0.9, rss_kb: 10 },
        };
        let store = Store::open(&out).unwrap();
        store.keep(&record).unwrap();
        std::fs::OpenOptions::new()
            .append(true)
            .open(out.join("runs.jsonl"))
            .and_then(|mut file| file.write_all(b"{\"simulator\":\"ns"))
            .unwrap();
        let store = Store::open(&out).unwrap();
        store.keep(&Record { program: "q".into(), ..record.clone() }).unwrap();
        let store = Store::open(&out).unwrap();
        assert_eq!(store.find(job, "p").map(|r| r.metrics), Some(metrics));
        assert_eq!(store.find(job, "q").map(|r| r.cost), Some(record.cost));
        assert!(store.find(job, "r").is_none());
        std::fs::remove_dir_all(out).unwrap();
    }
}
