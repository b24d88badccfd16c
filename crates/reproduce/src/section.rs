//! Results of a figure's runs, kept in the output folder so that a page can show them after other figures were made.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use narrows_runner::{RunPlan, RunReport, VERSION};
use serde::{Deserialize, Serialize};

use crate::catalogue::Figure;
use crate::chart::{ChartData, charts};
use crate::judged::{Judged, judged};
use crate::together::Together;

/// How much of a figure is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// A few seconds of work: for tests.
    Least,
    /// Fewer seeds and shorter runs.
    Quick,
    /// Sizes as given in the scenario files.
    Full,
}

impl Effort {
    /// The settings that make a figure so small.
    #[must_use]
    pub fn sets(self, figure: &Figure) -> &[String] {
        match self {
            Self::Least => &figure.least,
            Self::Quick => &figure.quick,
            Self::Full => &[],
        }
    }

    /// Name of the folder for results of the size.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Least => "least",
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}

/// A figure's part of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// Name of the figure in the catalogue.
    pub figure: String,
    /// Size at which the figure was run.
    pub size: Effort,
    /// The program's version.
    pub version: String,
    /// Results file by file, in the order of the figure's list.
    pub files: Vec<FilePart>,
    /// Charts, in the order of the catalogue.
    pub charts: Vec<ChartData>,
    /// Verdicts on the claims of all files.
    pub claims: Vec<Judged>,
    /// Reasons why charts are missing.
    #[serde(default)]
    pub undrawn: Vec<String>,
    /// Whether the section is of another program, or of other files, than there are now.
    #[serde(skip)]
    pub stale: bool,
}

/// One scenario file's part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FilePart {
    /// Name of the scenario file.
    pub file: String,
    /// Subject of the scenario, in a line.
    pub about: String,
    /// The command that makes the file's results again.
    pub command: String,
    /// Runs.
    pub runs: usize,
    /// Seeds.
    pub seeds: usize,
    /// Names scenario, seeds and engine.
    pub hash: String,
    /// TCP and phases, where they are the same in all runs.
    #[serde(default)]
    pub settings: String,
    /// Values that follow another setting's, as `tcp.preset=ns2: tcp.prr=off`.
    #[serde(default)]
    pub together: Vec<String>,
}

/// Plan and results of one scenario file.
#[derive(Debug)]
pub struct Done {
    /// The file's name.
    pub file: String,
    /// Plan that was run.
    pub plan: RunPlan,
    /// Report of the runs.
    pub report: RunReport,
    /// Folder of the results.
    pub out: PathBuf,
}

/// Writes the settings that a reader asks of any chart: whose TCP it is (`tcp.preset`), and whether random delays
/// suppress phase effects (`dephase`). A setting that is swept says so itself and is left out.
fn settings(plan: &RunPlan) -> String {
    let same = |of: fn(&toml::Table) -> String| {
        let mut told = plan.jobs.iter().filter_map(|j| j.scenario.text.parse().ok()).map(|t| of(&t));
        let first = told.next()?;
        told.all(|other| other == first).then_some(first)
    };
    let preset = same(|t| {
        let preset = t.get("tcp").and_then(|tcp| tcp.get("preset")).and_then(toml::Value::as_str);
        format!("tcp.preset = {}", preset.unwrap_or("linux"))
    });
    let dephase =
        same(|t| format!("dephase = {}", t.get("dephase").and_then(toml::Value::as_str).unwrap_or("0ms")));
    [preset, dephase].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

impl Section {
    /// Makes a section from the results of the figure's files. A chart that does not fit the results is told in its
    /// place.
    #[must_use]
    pub fn of(figure: &Figure, size: Effort, done: &[Done]) -> Self {
        let mut section = Self {
            figure: figure.id.clone(),
            size,
            version: VERSION.to_owned(),
            files: Vec::new(),
            charts: Vec::new(),
            claims: Vec::new(),
            undrawn: Vec::new(),
            stale: false,
        };
        for part in done {
            section.files.push(FilePart {
                file: part.file.clone(),
                about: part.plan.about.clone(),
                command: part.plan.command.clone(),
                runs: part.plan.jobs.len(),
                seeds: part.plan.seeds().len(),
                hash: part.report.manifest.hash.clone(),
                settings: settings(&part.plan),
                together: Together::of(&part.plan).words(),
            });
            section.claims.extend(judged(figure, size, &part.plan, &part.report));
        }
        for spec in &figure.charts {
            let Some(part) = done.iter().find(|d| d.file == spec.file(figure)) else { continue };
            match charts(spec, &part.plan, &part.report, &part.out) {
                Ok(made) => section.charts.extend(made),
                Err(why) => section.undrawn.push(format!("{why:#}")),
            }
        }
        section
    }

    /// Reads the section of `size` that an earlier run left in a figure's `folder`; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn load(folder: &Path, size: Effort) -> anyhow::Result<Option<Self>> {
        let file = Self::file(folder, size);
        if !file.exists() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        // A section of another version of the program is ignored: its format may differ.
        Ok(serde_json::from_str(&text).ok().filter(|s: &Self| s.version == VERSION))
    }

    fn file(folder: &Path, size: Effort) -> PathBuf {
        folder.join(size.name()).join("section.json")
    }

    /// Keeps the section in a figure's `folder`.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn save(&self, folder: &Path) -> anyhow::Result<()> {
        let file = Self::file(folder, self.size);
        let folder = folder.join(self.size.name());
        std::fs::create_dir_all(&folder).with_context(|| {
            format!("making {}: choose a folder that can be written with --out", folder.display())
        })?;
        let half = file.with_extension("json.half");
        std::fs::write(&half, serde_json::to_string(self)?)
            .and_then(|()| std::fs::rename(&half, &file))
            .with_context(|| format!("writing {}", file.display()))
    }

    /// Writes the points of all charts of the section as CSV.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn save_csv(&self, file: &Path) -> anyhow::Result<()> {
        self.write_csv(file).with_context(|| format!("writing {}", file.display()))
    }

    fn write_csv(&self, file: &Path) -> anyhow::Result<()> {
        let mut csv = csv::Writer::from_path(file)?;
        csv.write_record(["chart", "line", "from_paper", "x", "y_least", "y", "y_greatest"])?;
        for chart in &self.charts {
            for line in &chart.lines {
                for [x, low, y, high] in &line.points {
                    let across = chart.words.get(*x as usize).cloned().unwrap_or_else(|| x.to_string());
                    let paper = line.paper.to_string();
                    let numbers = [low.to_string(), y.to_string(), high.to_string()];
                    let row = [&chart.title, &line.name, &paper, &across].into_iter().chain(&numbers);
                    csv.write_record(row)?;
                }
            }
        }
        csv.flush()?;
        Ok(())
    }
}
