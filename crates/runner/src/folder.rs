//! Output folder: its owner, and a lock against other writers.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::manifest::{self, Manifest};
use crate::{Error, RunPlan};

/// Lock on an output folder; a drop of the value ends the lock.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "the lock goes with the file")] fs::File);

/// Makes or takes the folder `dir` for the results of `plan`; joint tables of other settings are taken away.
pub(crate) fn take(dir: &Path, plan: &RunPlan) -> Result<Lock, Error> {
    fs::create_dir_all(dir).map_err(Error::io("making", dir))?;
    let taken = |why: String| Error::Taken { dir: dir.to_owned(), why };
    let before = read(dir)?;
    match &before {
        Some(old) if old.name != plan.name => {
            return Err(taken(format!("holds results of the scenario '{}'", old.name)));
        }
        None if !strangers(dir)?.is_empty() => {
            return Err(taken(format!("holds other files than results ({})", strangers(dir)?.join(", "))));
        }
        _ => {}
    }
    let path = dir.join(".lock");
    let lock = fs::File::create(&path).map_err(Error::io("writing", &path))?;
    if lock.try_lock().is_err() {
        return Err(taken("another narrows writes to it now".into()));
    }
    let now = Manifest::begun(plan);
    if before.as_ref().is_none_or(|old| old.hash != now.hash) {
        for name in before.iter().flat_map(|old| old.files.keys()).chain([&"timing.csv".to_owned()]) {
            // A manifest is a file like any other: it may not name what is not ours.
            if is_plain(name) && dir.join(name).exists() {
                fs::remove_file(dir.join(name)).map_err(Error::io("removing", &dir.join(name)))?;
            }
        }
        now.write(dir)?;
    }
    Ok(Lock(lock))
}

fn read(dir: &Path) -> Result<Option<Manifest>, Error> {
    let path = dir.join(manifest::NAME);
    match fs::read(&path) {
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(Error::io("reading", &path)(why)),
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|_| Error::Taken {
            dir: dir.to_owned(),
            why: format!("its {} was not written by this version of narrows", manifest::NAME),
        }),
    }
}

/// Names in a folder without manifest that Narrows did not make, at most three.
fn strangers(dir: &Path) -> Result<Vec<String>, Error> {
    let entries = fs::read_dir(dir).map_err(Error::io("reading", dir))?;
    let names = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned());
    let ours = |n: &String| {
        n == ".lock" || n == "runs" || n.starts_with("topology.") || n.starts_with(manifest::NAME)
    };
    let mut strange: Vec<String> = names.filter(|n| !ours(n)).collect();
    strange.sort();
    strange.truncate(3);
    Ok(strange)
}

fn is_plain(name: &str) -> bool {
    let ours = [".csv", ".parquet", ".svg", ".png"].iter().any(|end| name.ends_with(end));
    ours && !name.contains(['/', '\\'])
}

/// Writes a file in one step: whoever looks finds the whole new file or the old one.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let half = half(path);
    fs::File::create(&half)
        .and_then(|mut file| file.write_all(bytes))
        .map_err(Error::io("writing", &half))?;
    settle(path)
}

/// Name of a file that is not whole yet.
pub(crate) fn half(path: &Path) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".half");
    name.into()
}

/// Gives a file its final name, when the file is whole.
pub(crate) fn settle(path: &Path) -> Result<(), Error> {
    fs::rename(half(path), path).map_err(Error::io("renaming to", path))
}
