//! Our own simulator, called as anybody would call it: `narrows sim FILE --set key=value ... --seeds N --out DIR`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::programs::target;

/// The program, if it can simulate.
pub fn find(path: Option<&Path>) -> Result<PathBuf> {
    let path = path.map_or_else(|| target().join("release/narrows"), Path::to_owned);
    ensure!(path.is_file(), "{} is not there (make build, or --narrows PATH)", path.display());
    let output = Command::new(&path)
        .args(["sim", "--help"])
        .output()
        .with_context(|| format!("starting {}", path.display()))?;
    ensure!(output.status.success(), "{} has no `sim`", path.display());
    Ok(path)
}
