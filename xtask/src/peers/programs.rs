//! The peers' programs: where they are, how they are called.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::plan::Settings;
use super::store::digest;

/// What the simulation in C++ is linked with. Not asked of pkg-config: Debian's files for ns-3 carry a stray include path.
const NS3_LIBRARIES: [&str; 8] =
    ["core", "network", "internet", "point-to-point", "applications", "traffic-control", "stats", "bridge"];

/// A simulator's script, ready to be called.
pub struct Program {
    /// What comes before the settings.
    start: Vec<String>,
    /// How it takes a setting.
    option: fn(&str, &str) -> Vec<String>,
    /// Tells one version of the script from another.
    pub digest: String,
}

impl Program {
    /// The whole command.
    pub fn command(&self, settings: &Settings) -> Vec<String> {
        let mut command = self.start.clone();
        command.extend(settings.pairs().iter().flat_map(|(name, value)| (self.option)(name, value)));
        command
    }
}

/// The workspace.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Where cargo builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// ns-2 with our script.
pub fn ns2() -> Result<Program> {
    let ns = find("ns").context("ns-2 is not installed (Debian: apt-get install ns2)")?;
    let script = root().join("peers/ns2/dumbbell.tcl");
    let text = std::fs::read(&script).with_context(|| format!("reading {}", script.display()))?;
    Ok(Program {
        start: vec![ns.display().to_string(), script.display().to_string()],
        option: |name, value| vec![format!("-{name}"), value.to_owned()],
        digest: digest(&text),
    })
}

/// ns-3 with our program, compiled into the target directory unless it is there.
pub fn ns3() -> Result<Program> {
    let source = root().join("peers/ns3/dumbbell.cc");
    let text = std::fs::read(&source).with_context(|| format!("reading {}", source.display()))?;
    let digest = digest(&text);
    let folder = target().join("peers");
    let binary = folder.join(format!("ns3-dumbbell-{digest}"));
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
    Ok(Program {
        start: vec![binary.display().to_string()],
        // It knows one way of TCP.
        option: |name, value| if name == "tcp" { vec![] } else { vec![format!("--{name}={value}")] },
        digest,
    })
}

/// A program on the path.
fn find(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}
