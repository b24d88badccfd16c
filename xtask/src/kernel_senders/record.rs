//! Records a variant: `narrows lab` with captures at both ends, the kernel's trace of the same time, and how far the
//! trace's clock is behind the captures'. The trace comes last, so that a recording with a trace is whole.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use nix::time::{ClockId, clock_gettime};

use super::Variant;
use super::instance::Instance;

/// A change of the offset while recording from which on matching within 2 ms may miss.
const CLOCK_SET_NS: i64 = 500_000;

/// The files of a recording.
#[derive(Debug, PartialEq, Eq)]
pub struct Recording {
    pub trace: PathBuf,
    /// Seconds to add to the trace's times.
    pub offset: PathBuf,
    /// The capture at the senders.
    pub server: PathBuf,
    /// The capture behind the link.
    pub users: PathBuf,
}

impl Recording {
    /// A whole recording in this folder, if there is one.
    ///
    /// # Errors
    /// If there is a trace without a capture of each end.
    pub fn found(folder: &Path) -> Result<Option<Self>> {
        let (trace, offset) = (folder.join("trace"), folder.join("offset"));
        if !trace.exists() || !offset.exists() {
            return Ok(None);
        }
        let server = only(folder, "-server.pcap")?;
        Ok(Some(Self { trace, offset, server, users: only(folder, "-users.pcap")? }))
    }
}

/// The one file of a folder that ends so.
fn only(folder: &Path, ending: &str) -> Result<PathBuf> {
    let listing = || format!("listing {}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(listing)? {
        let path = entry.with_context(listing)?.path();
        if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    ensure!(
        found.len() == 1,
        "{} has {} files that end in {ending}, expected one: remove the folder",
        folder.display(),
        found.len()
    );
    Ok(found.remove(0))
}

/// Settings that all variants share.
pub struct Lab<'a> {
    pub program: &'a Path,
    /// The scenario's text.
    pub base: &'a str,
    pub duration: &'a str,
}

impl Lab<'_> {
    /// Records a variant into a folder, in place of what stands there.
    ///
    /// # Errors
    /// If the kernel cannot be traced, or the lab fails.
    pub fn record(&self, variant: &Variant, folder: &Path) -> Result<Recording> {
        let (trace, offset) = (folder.join("trace"), folder.join("offset"));
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        if trace.exists() {
            fs::remove_file(&trace).with_context(|| format!("removing {}", trace.display()))?;
        }
        let scenario = folder.join("kernel-senders.toml");
        fs::write(&scenario, derived(self.base, variant))
            .with_context(|| format!("writing {}", scenario.display()))?;
        let mut instance = Instance::start()?;
        let before_ns = behind_ns()?;
        let text = format!("{}.{:09}\n", before_ns / 1_000_000_000, before_ns % 1_000_000_000);
        fs::write(&offset, text).with_context(|| format!("writing {}", offset.display()))?;
        self.run(variant, &scenario, &mut instance)?;
        let moved_ns = behind_ns()? - before_ns;
        if moved_ns.abs() > CLOCK_SET_NS {
            eprintln!(
                "kernel-senders: {}: the clock was set by {} us while recording: matches may be missed",
                variant.name,
                moved_ns / 1000
            );
        }
        let part = folder.join("trace.part");
        let lost = instance.save(&part)?;
        if lost > 0 {
            eprintln!("kernel-senders: {}: the kernel lost {lost} events: the truth has gaps", variant.name);
        }
        fs::rename(&part, &trace).with_context(|| format!("renaming {}", part.display()))?;
        Recording::found(folder)?.with_context(|| format!("{} has no recording", folder.display()))
    }

    /// Runs the lab; its table goes to a file, its progress to standard error.
    fn run(&self, variant: &Variant, scenario: &Path, instance: &mut Instance) -> Result<()> {
        let folder = scenario.parent().unwrap_or(Path::new("."));
        let said = folder.join("lab.txt");
        let file = fs::File::create(&said).with_context(|| format!("making {}", said.display()))?;
        let mut command = Command::new(self.program);
        command.arg("lab").arg(scenario).arg("--capture").arg("--out").arg(folder);
        for set in [
            format!("duration={}", self.duration),
            format!("congestion_control={}", variant.congestion_control),
            format!("traffic.0.flows={}", variant.flows),
        ] {
            command.args(["--set", &set]);
        }
        if let Some(discipline) = variant.discipline {
            command.args(["--only", discipline]);
        }
        command.stdin(Stdio::null()).stdout(file);
        let mut lab = command.spawn().with_context(|| format!("starting {}", self.program.display()))?;
        let guarded = instance.guards(Some(lab.id()));
        let status = lab.wait().with_context(|| format!("waiting for {}", self.program.display()))?;
        instance.guards(None)?;
        guarded?;
        ensure!(
            status.success(),
            "{} lab ended with {status}: its reason stands above",
            self.program.display()
        );
        Ok(())
    }
}

/// The scenario of a variant: `--set` cannot quote a setting's name that has dots.
fn derived(base: &str, variant: &Variant) -> String {
    match variant.sysctl {
        Some((name, value)) => format!("{base}\n[sysctl]\n\"{name}\" = \"{value}\"\n"),
        None => base.to_owned(),
    }
}

/// Nanoseconds by which the monotonic clock is behind the clock of the day.
fn behind_ns() -> Result<i64> {
    let clock = |id: ClockId, name: &str| -> Result<i64> {
        let time = clock_gettime(id).with_context(|| format!("clock_gettime({name})"))?;
        Ok(time.tv_sec() * 1_000_000_000 + time.tv_nsec())
    };
    let before = clock(ClockId::CLOCK_MONOTONIC, "CLOCK_MONOTONIC")?;
    let of_day = clock(ClockId::CLOCK_REALTIME, "CLOCK_REALTIME")?;
    let after = clock(ClockId::CLOCK_MONOTONIC, "CLOCK_MONOTONIC")?;
    Ok(of_day - (before + (after - before) / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_is_a_scenario_with_its_setting() {
        for variant in &super::super::VARIANTS {
            let text = derived(super::super::BASE, variant);
            let table: toml::Table = text.parse().unwrap();
            let set = table.get("sysctl").and_then(toml::Value::as_table);
            assert_eq!(set.is_some(), variant.sysctl.is_some(), "{}", variant.name);
            if let (Some(set), Some((name, value))) = (set, variant.sysctl) {
                assert_eq!(set[name].as_str(), Some(value));
            }
            assert_eq!(table["traffic"].as_array().unwrap().len(), 1);
        }
    }

    #[test]
    fn a_recording_is_whole_with_its_trace() {
        let folder = std::env::temp_dir().join(format!("narrows-recording-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for name in ["offset", "k-fifo-25-1-server.pcap", "k-fifo-25-1-users.pcap", "trace.part"] {
            fs::write(folder.join(name), "").unwrap();
        }
        assert_eq!(Recording::found(&folder).unwrap(), None);
        fs::write(folder.join("trace"), "").unwrap();
        let found = Recording::found(&folder).unwrap().unwrap();
        assert_eq!(found.users, folder.join("k-fifo-25-1-users.pcap"));
        fs::write(folder.join("k-codel-1-users.pcap"), "").unwrap();
        assert!(Recording::found(&folder).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
