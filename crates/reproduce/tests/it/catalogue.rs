//! The lists of figures are whole: every row of the notes' experiments is in one of them and has a claim, every
//! scenario they name is there and can be cut down as they say, every chart's formula reads, every scenario of a paper
//! is in its list.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use narrows_reproduce::{Catalogue, ChartForm, Effort};
use narrows_runner::RunPlan;
use narrows_scenario::{Formula, Reading};

fn experiments() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

/// Rows of each paper's list of experiments: letter, last number, and those with a letter behind.
const ROWS: [(&str, &str, usize, &[&str]); 5] = [
    ("adaptive-aimd", "A", 19, &[]),
    ("burst-tcp", "B", 31, &[]),
    ("class-isolation", "W", 5, &["C1a", "C1b", "C2a", "C2b", "C3a", "C3b", "C-sum", "C-T"]),
    ("initial-spreading", "I", 7, &[]),
    ("taq", "T", 11, &["T2b"]),
];

#[test]
fn every_row_of_the_papers_has_a_place() {
    let catalogue = Catalogue::load(&experiments()).unwrap();
    for (id, letter, last, more) in ROWS {
        let paper = catalogue.papers.iter().find(|p| p.id == id).unwrap_or_else(|| panic!("no list of {id}"));
        let here: BTreeSet<&str> =
            paper.rows().chain(paper.elsewhere.iter().flat_map(|e| &e.rows).map(String::as_str)).collect();
        let due: BTreeSet<String> =
            (1..=last).map(|n| format!("{letter}{n}")).chain(more.iter().map(|m| (*m).to_owned())).collect();
        let due: BTreeSet<&str> = due.iter().map(String::as_str).collect();
        assert_eq!(here, due, "{id}");
    }
}

#[test]
fn every_row_of_a_figure_has_a_claim() {
    for paper in Catalogue::load(&experiments()).unwrap().papers {
        for figure in &paper.figures {
            let plans = figure.files.iter().map(|f| RunPlan::load(&paper.folder.join(f), &[]).unwrap().0);
            let claims: Vec<_> = plans.flat_map(|p| p.claims).collect();
            let judged: BTreeSet<String> = claims.iter().flat_map(|c| figure.rows_of(&c.text).0).collect();
            let due: BTreeSet<String> = figure.rows.iter().cloned().collect();
            assert_eq!(judged, due, "{}/{}", paper.id, figure.id);
            // A claim of the paper's belongs to a row, unless the figure is none of the paper's.
            for claim in claims.iter().filter(|c| !figure.rows.is_empty() && c.reading != Reading::Ours) {
                assert!(
                    !figure.rows_of(&claim.text).0.is_empty(),
                    "{}/{}: {}",
                    paper.id,
                    figure.id,
                    claim.text
                );
            }
        }
    }
}

/// Papers each of whose claims names its sentence.
const NAMED: &[&str] = &["adaptive-aimd", "burst-tcp", "class-isolation", "initial-spreading", "taq"];

#[test]
fn no_sentence_has_two_verdicts() {
    for paper in Catalogue::load(&experiments()).unwrap().papers {
        let files: BTreeSet<&String> = paper.figures.iter().flat_map(|f| &f.files).collect();
        let plans = files.iter().map(|f| RunPlan::load(&paper.folder.join(f), &[]).unwrap().0);
        let claims: Vec<_> = plans.flat_map(|p| p.claims).collect();
        let of = |reading| claims.iter().filter(move |c| c.reading == reading);
        let mut judged = BTreeSet::new();
        for claim in of(Reading::Paper) {
            let (id, text, sentence) = (&paper.id, &claim.text, &claim.sentence);
            assert!(
                !sentence.is_empty() || !NAMED.contains(&id.as_str()),
                "{id}: of which sentence is '{text}'?"
            );
            assert!(sentence.is_empty() || judged.insert(sentence), "{id}: two verdicts on '{sentence}'");
        }
        for claim in of(Reading::Variant) {
            assert!(judged.contains(&claim.sentence), "{}: no verdict on '{}'", paper.id, claim.sentence);
        }
    }
}

#[test]
fn every_scenario_is_there_at_every_size() {
    for paper in Catalogue::load(&experiments()).unwrap().papers {
        for figure in &paper.figures {
            for file in &figure.files {
                let path = paper.folder.join(file);
                let runs = |size: Effort| {
                    let plan = RunPlan::load(&path, size.sets(figure));
                    plan.unwrap_or_else(|e| panic!("{}/{} {size:?}: {e}", paper.id, figure.id)).0.jobs.len()
                };
                let (full, quick, least) = (runs(Effort::Full), runs(Effort::Quick), runs(Effort::Least));
                assert!(
                    quick <= full && least <= quick,
                    "{}/{}: {full}, {quick}, {least} runs",
                    paper.id,
                    figure.id
                );
            }
            for chart in figure.charts.iter().filter(|c| c.form == ChartForm::Sweep) {
                if let Err(e) = Formula::parse(&chart.y) {
                    panic!("{}/{}: chart '{}': {e}", paper.id, figure.id, chart.title);
                }
            }
        }
        let listed: BTreeSet<PathBuf> =
            paper.figures.iter().flat_map(|f| &f.files).map(|f| paper.folder.join(f)).collect();
        for entry in std::fs::read_dir(&paper.folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "toml") {
                assert!(listed.contains(&path), "{} is in no figure of its paper's list", path.display());
            }
        }
    }
}

#[test]
fn what_is_asked_for_is_found_or_named() {
    let catalogue = Catalogue::load(&experiments()).unwrap();
    let ask = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        catalogue.select(&names).map(|chosen| chosen.iter().map(|(_, f)| f.len()).sum::<usize>())
    };
    assert_eq!(ask(&["taq/fig08"]).unwrap(), 1);
    assert_eq!(ask(&["taq/fig08", "taq/fig08"]).unwrap(), 1);
    assert!(ask(&["all"]).unwrap() >= 46);
    assert_eq!(ask(&["taq", "taq/fig08"]).unwrap(), ask(&["taq"]).unwrap());
    let wrong = ask(&["taq/fig8"]).unwrap_err().to_string();
    assert!(wrong.contains("'taq/fig8'") && wrong.contains("taq/fig08"), "{wrong}");
    assert!(ask(&["takk"]).unwrap_err().to_string().contains("burst-tcp"));
}

/// `make gallery` writes it; a figure that joins or leaves the lists' gallery needs it again.
#[test]
fn the_gallery_has_every_picture_and_no_other() {
    let docs = experiments().join("../docs");
    let page = std::fs::read_to_string(docs.join("gallery.md")).unwrap();
    let readme = std::fs::read_to_string(docs.join("../README.md")).unwrap();
    let mut due = BTreeSet::new();
    for paper in Catalogue::load(&experiments()).unwrap().papers {
        for figure in paper.figures.iter().filter(|f| !f.gallery.is_empty()) {
            let name = format!("{}-{}.svg", paper.id, figure.id);
            let svg = std::fs::read_to_string(docs.join("gallery").join(&name)).unwrap();
            assert!(svg.len() < 60_000 && !svg.contains("<script") && !svg.contains("href"), "{name}");
            assert!(page.contains(&name) && page.contains(&figure.gallery), "{name} is not on the page");
            assert!(figure.id != paper.key || readme.contains(&name), "{name} is not in the README");
            due.insert(name);
        }
    }
    let there = std::fs::read_dir(docs.join("gallery")).unwrap();
    let there: BTreeSet<String> =
        there.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(there, due);
}
