//! A figure to be made: its scenarios read and checked, then run, drawn and judged.

use std::path::{Path, PathBuf};

use narrows_runner::{Error, RunPlan, RunReport};

use crate::cache::Cache;
use crate::catalogue::{Figure, Paper};
use crate::section::{Done, Effort, Section};

/// A figure with the figure's plans, all read and checked before any runs.
#[derive(Debug)]
pub struct Work<'a> {
    /// Paper that the figure belongs to.
    pub paper: &'a Paper,
    /// Figure to make.
    pub figure: &'a Figure,
    /// Size at which the figure is to be run.
    pub size: Effort,
    /// Scenario files of the figure, each file with its plan.
    pub plans: Vec<(&'a str, RunPlan)>,
}

impl<'a> Work<'a> {
    /// Reads the scenarios of a figure.
    ///
    /// # Errors
    /// Names the file, the key, the value and what was expected.
    pub fn new(paper: &'a Paper, figure: &'a Figure, size: Effort) -> Result<Self, narrows_scenario::Error> {
        let plan = |file: &'a String| {
            // Warnings about keys that only the lab heeds are dropped here.
            let (plan, _) = RunPlan::load(&paper.folder.join(file), size.sets(figure))?;
            Ok((file.as_str(), plan))
        };
        Ok(Self { paper, figure, size, plans: figure.files.iter().map(plan).collect::<Result<_, _>>()? })
    }

    /// Makes the figure below `out`: `run` does a plan in a folder, and the results of all plans are kept there.
    ///
    /// # Errors
    /// Those of `run`, as they are; a file that cannot be written.
    pub fn make(
        &self,
        out: &Path,
        run: &mut dyn FnMut(&RunPlan, PathBuf) -> Result<RunReport, Error>,
    ) -> anyhow::Result<Section> {
        let folder = out.join(&self.paper.id).join(&self.figure.id);
        let mut done = Vec::new();
        for (file, plan) in &self.plans {
            let out = runs_of(&folder, file, self.size);
            let report = run(plan, out.clone())?;
            done.push(Done { file: (*file).to_owned(), plan: plan.clone(), report, out });
        }
        let section = Section::of(self.figure, self.size, &done);
        section.save(&folder)?;
        // The data beside the page is that of the page.
        if let Some(shown) = Cache::new(out).section(self.paper, self.figure)? {
            shown.save_csv(&folder.join("figure.csv"))?;
        }
        Ok(section)
    }
}

/// Folder of the runs of a file. Runs of different sizes are not mixed: each size resumes its own.
fn runs_of(folder: &Path, file: &str, size: Effort) -> PathBuf {
    folder.join(size.name()).join(file.trim_end_matches(".toml"))
}
