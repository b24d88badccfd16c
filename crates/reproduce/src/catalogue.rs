//! Catalogue of the figures: `experiments/PAPER.figures.toml` lists each with its scenarios, charts and open points.
//! [`Catalogue::load`] reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::Deserialize;

/// Suffix of the file that lists a paper's figures; the name of the paper's folder precedes it.
const LIST: &str = ".figures.toml";

/// A paper and the paper's figures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Name of the paper's folder: the first word of `taq/fig08`.
    #[serde(skip)]
    pub id: String,
    /// Folder of the paper's scenarios.
    #[serde(skip)]
    pub folder: PathBuf,
    /// Short name of the paper on our pages, one or two words.
    pub short: String,
    /// Title of the paper.
    pub title: String,
    /// Authors of the paper.
    pub authors: String,
    /// Place and year in which the paper appeared.
    pub venue: String,
    /// Points the paper leaves open, and what was chosen there.
    #[serde(default)]
    pub open: Vec<OpenPoint>,
    /// The figure that stands for the paper, by its name.
    pub key: String,
    /// Figures that can be run.
    #[serde(rename = "figure")]
    pub figures: Vec<Figure>,
    /// Rows of the paper's list of experiments that no figure here simulates.
    #[serde(default)]
    pub elsewhere: Vec<Elsewhere>,
}

/// A gap in the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenPoint {
    /// Detail that the paper's text does not give.
    pub left: String,
    /// Choice made here, with its reason.
    pub chose: String,
}

/// Rows that are judged in another way, or not.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Elsewhere {
    /// Names of the rows, as `T9`.
    pub rows: Vec<String>,
    /// Verdict of the other place, as `holds`; empty if the rows are not judged.
    #[serde(default)]
    pub verdict: String,
    /// Whether the rows must hold to the last digit.
    #[serde(default)]
    pub exact: bool,
    /// Place where the rows are judged, or the reason why they are not.
    pub why: String,
}

/// One figure, table or claim of the text.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The second word of `taq/fig08`.
    pub id: String,
    /// Name of the figure in the paper, as `Figure 8`.
    pub item: String,
    /// Title: the quantity the figure shows.
    pub title: String,
    /// Rows of the figure in the paper's list of experiments, as `T6`.
    pub rows: Vec<String>,
    /// Rows of the figure whose claims must hold to the last digit: counts and times that follow from the rule alone.
    #[serde(default)]
    pub exact: Vec<String>,
    /// Scenarios, in the paper's folder.
    pub files: Vec<String>,
    /// Settings that make it small for `--quick`, as `seeds=[1]`.
    #[serde(default)]
    pub quick: Vec<String>,
    /// Settings that make the figure small enough for a test: a few seconds of work.
    #[serde(default)]
    pub least: Vec<String>,
    /// Caution that a reader should have before looking at the figure.
    #[serde(default)]
    pub note: String,
    /// Caption for the gallery, one sentence; empty keeps the figure out of the gallery.
    #[serde(default)]
    pub gallery: String,
    /// Charts of the figure that the gallery shows, counted from 0; the first two if empty.
    #[serde(default)]
    pub gallery_charts: Vec<usize>,
    /// Charts to draw.
    #[serde(default, rename = "chart")]
    pub charts: Vec<ChartSpec>,
}

/// Kind of a chart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChartForm {
    /// A formula over the runs' figures against a swept setting.
    #[default]
    Sweep,
    /// The share of a table's rows with at most this much of a column.
    Cdf,
    /// A column of a table against another.
    Scatter,
    /// A column of a table against another with the points joined: a series over time.
    Series,
    /// The least of a swept setting at which a formula comes to what is asked for, against another setting.
    Least,
}

/// A chart: what is drawn over what.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChartSpec {
    /// Heading of the chart.
    pub title: String,
    /// Kind of the chart.
    pub form: ChartForm,
    /// File of the figure whose runs the chart shows; the first if empty.
    pub file: String,
    /// The table, of all but sweeps.
    pub table: String,
    /// The formula of a sweep, or a column.
    pub y: String,
    /// The swept setting of a sweep, or a column.
    pub x: String,
    /// For sweeps: formula whose value stands across instead of the setting, as `loss` beside `share`.
    pub x_of: String,
    /// For tables: column by which `y` is divided, as `after_1` of `bursts`.
    pub y_of: String,
    /// For sweeps: words that stand across in place of the setting's values, at equal distances.
    pub x_words: BTreeMap<String, String>,
    /// For `least`: setting whose least value stands upwards.
    pub over: String,
    /// For `least`: value that `y` must reach.
    pub reach: f64,
    /// For scatters and series: column that tells lines apart, as `flow`.
    pub by: String,
    /// Name of the axis across, with unit.
    pub x_name: String,
    /// Name of the axis up, with unit.
    pub y_name: String,
    /// Factor for values across; 0 stands for 1.
    pub x_scale: f64,
    /// Factor for values upwards; 0 stands for 1.
    pub y_scale: f64,
    /// Where the axis across ends, in the chart's units; with the last point if 0.
    pub x_to: f64,
    /// Logarithmic axes: `x`, `y` or `xy`; both are linear if empty.
    pub log: String,
    /// Settings that tell lines apart; all that are left if empty.
    pub lines: Vec<String>,
    /// Settings that have a chart for each of their values.
    pub facets: Vec<String>,
    /// Only runs at these settings (of all but sweeps, whose formula can say so); several values of one as `4|8`.
    pub only: BTreeMap<String, String>,
    /// Other names for values of settings.
    pub names: BTreeMap<String, String>,
    /// Values of the paper, as far as they can be read from it.
    pub paper: Vec<PaperLine>,
}

/// Points read from the paper, or worked out from the paper's formulas.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperLine {
    /// Name of the points in the legend.
    pub name: String,
    /// The chart they belong to, by the words of its facet; every one if empty.
    #[serde(default)]
    pub facet: String,
    /// Points as (x, y), in the chart's units.
    pub points: Vec<[f64; 2]>,
}

/// All papers whose lists are below a folder.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// Papers, by name.
    pub papers: Vec<Paper>,
}

impl Catalogue {
    /// Reads the list of every paper below `experiments`.
    ///
    /// # Errors
    /// If there is none, or one is wrong: names the file and what is wrong.
    pub fn load(experiments: &Path) -> anyhow::Result<Self> {
        let files = std::fs::read_dir(experiments).with_context(|| {
            format!(
                "{}: cannot be read; expected the folder of experiments: run this at the top of the repository, or \
                 name it with --experiments",
                experiments.display()
            )
        })?;
        let mut papers = Vec::new();
        for file in files {
            let file = file?;
            if let Some(id) = file.file_name().to_string_lossy().strip_suffix(LIST) {
                papers.push(Paper::load(experiments, id)?);
            }
        }
        if papers.is_empty() {
            bail!("{}: no PAPER{LIST} in it: name another folder with --experiments", experiments.display());
        }
        papers.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(Self { papers })
    }

    /// Finds papers and figures by name, in the order of the lists: `taq/fig08`, `taq`, `all`.
    ///
    /// # Errors
    /// Names what is unknown, and what there is.
    pub fn select(&self, names: &[String]) -> anyhow::Result<Vec<(&Paper, Vec<&Figure>)>> {
        let mut wanted = BTreeSet::new();
        for name in names {
            let before = wanted.len();
            for paper in &self.papers {
                for figure in &paper.figures {
                    let full = format!("{}/{}", paper.id, figure.id);
                    if name == "all" || *name == paper.id || *name == full {
                        wanted.insert(full);
                    }
                }
            }
            // Asked for twice is no error.
            if wanted.len() == before && !self.knows(name) {
                bail!("'{name}' is no figure: expected {}", self.near(name));
            }
        }
        let of = |paper: &Paper, figure: &&Figure| wanted.contains(&format!("{}/{}", paper.id, figure.id));
        let chosen = self.papers.iter().map(|p| (p, p.figures.iter().filter(|f| of(p, f)).collect()));
        Ok(chosen.filter(|(_, figures): &(_, Vec<_>)| !figures.is_empty()).collect())
    }

    fn knows(&self, name: &str) -> bool {
        let (paper, figure) = name.split_once('/').unwrap_or((name, ""));
        let of_name = |p: &&Paper| p.id == paper;
        name == "all"
            || self
                .papers
                .iter()
                .find(of_name)
                .is_some_and(|p| figure.is_empty() || p.figures.iter().any(|f| f.id == figure))
    }

    /// The figures of the paper that was meant, or else the papers.
    fn near(&self, name: &str) -> String {
        let paper = name.split('/').next().unwrap_or_default();
        let words: Vec<String> = match self.papers.iter().find(|p| p.id == paper) {
            Some(p) => p.figures.iter().map(|f| format!("{}/{}", p.id, f.id)).collect(),
            None => self.papers.iter().map(|p| p.id.clone()).chain(["all".to_owned()]).collect(),
        };
        format!("one of {} (--list shows more)", words.join(", "))
    }
}

impl Paper {
    fn load(experiments: &Path, id: &str) -> anyhow::Result<Self> {
        let list = experiments.join(format!("{id}{LIST}"));
        let text = std::fs::read_to_string(&list).with_context(|| format!("reading {}", list.display()))?;
        let mut paper: Self = toml::from_str(&text).with_context(|| list.display().to_string())?;
        id.clone_into(&mut paper.id);
        paper.folder = experiments.join(id);
        let mut ids = BTreeSet::new();
        for figure in &paper.figures {
            if !ids.insert(&figure.id) {
                bail!("{}: figure '{}' is there twice", list.display(), figure.id);
            }
            if figure.files.is_empty() {
                bail!("{}: figure '{}' names no file", list.display(), figure.id);
            }
            if let Some(row) = figure.exact.iter().find(|r| !figure.rows.contains(r)) {
                bail!(
                    "{}: figure '{}': exact row '{row}' is none of its rows: expected one of {}",
                    list.display(),
                    figure.id,
                    figure.rows.join(", ")
                );
            }
            for chart in &figure.charts {
                if !chart.file.is_empty() && !figure.files.contains(&chart.file) {
                    bail!(
                        "{}: figure '{}': chart of '{}', which is none of its files: expected one of {}",
                        list.display(),
                        figure.id,
                        chart.file,
                        figure.files.join(", ")
                    );
                }
            }
        }
        if !paper.figures.iter().any(|f| f.id == paper.key && !f.gallery.is_empty()) {
            bail!(
                "{}: key '{}': expected the name of a figure with a sentence for the gallery",
                list.display(),
                paper.key
            );
        }
        Ok(paper)
    }

    /// The rows of the list of experiments that figures here judge.
    pub fn rows(&self) -> impl Iterator<Item = &str> {
        self.figures.iter().flat_map(|f| &f.rows).map(String::as_str)
    }
}

impl Figure {
    /// The rows a claim belongs to, and its sentence without their names: `C1: as much` is of `C1a` and `C1b`. Where a
    /// figure has one row, all its claims are of that.
    #[must_use]
    pub fn rows_of(&self, text: &str) -> (Vec<String>, String) {
        if let Some((name, rest)) = text.split_once(": ") {
            let named = |row: &&String| {
                let part = row.strip_prefix(name).and_then(|p| p.bytes().next().map(|c| (c, p.len())));
                part.is_some_and(|(c, len)| len == 1 && c.is_ascii_lowercase())
            };
            let rows: Vec<String> = if self.rows.iter().any(|r| r == name) {
                vec![name.to_owned()]
            } else {
                self.rows.iter().filter(named).cloned().collect()
            };
            if !rows.is_empty() {
                return (rows, rest.to_owned());
            }
        }
        let only = if let [row] = self.rows.as_slice() { vec![row.clone()] } else { Vec::new() };
        (only, text.to_owned())
    }
}

impl ChartSpec {
    /// Scenario file that the chart draws.
    #[must_use]
    pub fn file<'a>(&'a self, figure: &'a Figure) -> &'a str {
        if self.file.is_empty() { figure.files.first().map_or("", String::as_str) } else { &self.file }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_of_the_row_it_names() {
        let figure = |rows: &[&str]| Figure {
            rows: rows.iter().map(|r| (*r).to_owned()).collect(),
            ..Figure::default()
        };
        let of = |rows: &[&str], text| {
            let (rows, rest) = figure(rows).rows_of(text);
            (rows.join(" "), rest)
        };
        let is = |rows: &str, rest: &str| (rows.to_owned(), rest.to_owned());
        assert_eq!(of(&["T2", "T2b"], "T2: fair"), is("T2", "fair"));
        assert_eq!(of(&["C1a", "C1b"], "C1: as much"), is("C1a C1b", "as much"));
        assert_eq!(of(&["B1", "B12"], "B1: faster"), is("B1", "faster"));
        assert_eq!(of(&["B12", "B13"], "faster: by far"), is("", "faster: by far"));
        assert_eq!(of(&["T6"], "fair"), is("T6", "fair"));
    }
}
