//! The peers' programs: where they are, how they are called.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::metrics::{Metrics, Samples};
use super::plan::Job;
use super::store::digest;

/// Libraries of the simulation in C++. They are not asked of pkg-config, because Debian's files for ns-3 carry a stray
/// include path.
const NS3_LIBRARIES: [&str; 8] =
    ["core", "network", "internet", "point-to-point", "applications", "traffic-control", "stats", "bridge"];

/// Function that gives the command line of a run.
pub type ToCommand = Box<dyn Fn(&Job) -> Vec<String> + Sync>;

/// A simulator, ready to be called.
pub struct Program {
    /// Digest of the simulator and its script, which differs between versions of either.
    pub digest: String,
    /// Command line of a run.
    pub command: ToCommand,
    /// Reads the figures from the program's output.
    pub metrics: fn(&Job, &str) -> Result<Metrics>,
}

/// A peer's script prints counters; figures are computed here.
fn from_samples(job: &Job, text: &str) -> Result<Metrics> {
    let line = text.lines().last().unwrap_or_default();
    let samples: Samples = serde_json::from_str(line).context("reading what it printed")?;
    Metrics::of(&samples, job.settings.rate_bps)
}

/// Folder of the workspace.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Folder in which cargo builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// ns-2 with our script.
pub fn ns2() -> Result<Program> {
    let ns = find("ns").context("ns-2 is not installed (Debian: apt-get install ns2)")?;
    let script = root().join("peers/ns2/dumbbell.tcl");
    let mut text = Vec::new();
    for part in [&script, &script.with_file_name("settings.tcl")] {
        text.extend(std::fs::read(part).with_context(|| format!("reading {}", part.display()))?);
    }
    Ok(Program {
        digest: digest(&text),
        command: Box::new(move |job| {
            let start = [ns.display().to_string(), script.display().to_string()];
            let settings = job.settings.pairs().into_iter();
            start.into_iter().chain(settings.flat_map(|(name, value)| [format!("-{name}"), value])).collect()
        }),
        metrics: from_samples,
    })
}

/// Compiles a program of ours for ns-3 into the target directory, unless it is there; tells where it is, and the digest
/// of its text.
///
/// # Errors
/// If ns-3 or a compiler is missing, or it does not compile.
pub fn compile_ns3(source: &str) -> Result<(PathBuf, String)> {
    let source = root().join(source);
    let text = std::fs::read(&source).with_context(|| format!("reading {}", source.display()))?;
    let digest = digest(&text);
    let folder = target().join("peers");
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    let binary = folder.join(format!("ns3-{stem}-{digest}"));
    if !binary.exists() {
        ensure!(
            Path::new("/usr/include/ns3/core-module.h").exists(),
            "ns-3 is not installed (Debian: apt-get install ns3 libns3-dev g++)"
        );
        let compiler = find("g++").context("ns-3 needs a compiler (Debian: apt-get install g++)")?;
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let fresh = binary.with_extension(std::process::id().to_string());
        eprintln!("peers: compiling {}", source.display());
        let output = Command::new(compiler)
            .args(["-O2", "-std=c++17", "-o"])
            .args([&fresh, &source])
            .args(NS3_LIBRARIES.map(|name| format!("-lns3-{name}")))
            .output()
            .context("starting g++")?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr);
            let first = message.lines().find(|line| line.contains("error")).unwrap_or(&message).to_owned();
            bail!("{} does not compile with the ns-3 at hand (3.37 is meant): {first}", source.display());
        }
        std::fs::rename(&fresh, &binary).with_context(|| format!("renaming {}", fresh.display()))?;
    }
    Ok((binary, digest))
}

/// ns-3 with our program of the dumbbell.
pub fn ns3() -> Result<Program> {
    let (binary, digest) = compile_ns3("peers/ns3/dumbbell.cc")?;
    Ok(Program {
        digest,
        command: Box::new(move |job| {
            let settings = job.settings.pairs().into_iter();
            // The program has a single way of TCP and a single queue.
            let options = settings
                .filter(|(name, _)| name != "tcp" && name != "queue")
                .map(|(name, value)| format!("--{name}={value}"));
            std::iter::once(binary.display().to_string()).chain(options).collect()
        }),
        metrics: from_samples,
    })
}

/// A program on the path.
fn find(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}
