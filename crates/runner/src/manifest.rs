//! Manifest of a folder of results: `manifest.json`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{ENGINE, Error, RunPlan, VERSION, folder};

/// `manifest.json`. No path of the machine and no time is in it, so that equal work gives equal files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of Narrows.
    pub narrows: String,
    /// See [`ENGINE`].
    pub engine: String,
    /// Command that makes the files of the folder.
    pub command: String,
    /// Name of the scenario.
    pub name: String,
    /// Description of the scenario.
    pub about: String,
    /// See [`Plan::hash`].
    pub hash: String,
    /// The scenario file as resolved.
    pub scenario: String,
    /// Swept keys, and the values of each key.
    pub sweep: BTreeMap<String, Vec<String>>,
    /// Seeds, ascending.
    pub seeds: Vec<u64>,
    /// Whether all runs were done; if not, [`Manifest::files`] is empty.
    pub finished: bool,
    /// Folders of the runs under `runs/`, in the order of all tables.
    pub runs: Vec<String>,
    /// Joint tables, by file name.
    pub files: BTreeMap<String, File>,
}

/// A file of a [`Manifest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Rows without the header.
    pub rows: u64,
    /// Columns in order.
    pub columns: Vec<String>,
}

pub(crate) const NAME: &str = "manifest.json";

impl Manifest {
    /// Creates the manifest of unfinished work.
    pub(crate) fn begun(plan: &RunPlan) -> Self {
        Self {
            narrows: VERSION.to_owned(),
            engine: ENGINE.to_owned(),
            command: plan.command.clone(),
            name: plan.name.clone(),
            about: plan.about.clone(),
            hash: plan.hash(),
            scenario: plan.text.clone(),
            sweep: plan.axes.iter().map(|a| (a.name.clone(), a.values.clone())).collect(),
            seeds: plan.seeds(),
            finished: false,
            runs: plan.jobs.iter().map(|j| j.key.clone()).collect(),
            files: BTreeMap::new(),
        }
    }

    pub(crate) fn write(&self, dir: &Path) -> Result<(), Error> {
        let path = dir.join(NAME);
        let text = serde_json::to_string_pretty(self).map_err(Error::io("writing", &path))?;
        folder::replace(&path, format!("{text}\n").as_bytes())
    }
}
