//! The page of an outcome, and what a browser makes of it.

use std::collections::BTreeMap;

use narrows_testing::Scratch;
use narrows_testing::browser::{Scheme, ask};

use super::*;
use crate::metrics::{FIRST_ROWS, Spread};
use crate::record::RunRecord;
use crate::scenario::Scenario;
use crate::suite::{DisciplineOutcome, RunOutcome};
use crate::worker::ObjectRecord;

const TODAY: &str = "name = 'few'\nabout = 'a <few> users'\nrate = '600kbit'\nrtt = '200ms'\nduration = '30s'\n\
                     disciplines = ['fifo:30']\ntraffic = [{ kind = 'objects', transport = 'tls', users = 5 }, \
                     { kind = 'objects', transport = 'quic', users = 5 }]\n";

/// An outcome in which everybody fetches one object and stalls a second for each user before.
fn outcome(disciplines: &[&str]) -> Outcome {
    let scenario = Scenario::parse(TODAY, &[]).unwrap();
    let object = |user: u32| ObjectRecord {
        user,
        size: 3000,
        stall: f64::from(user),
        connected: Some(0.4),
        done: Some(20.0),
        end: 20.0,
        ..ObjectRecord::default()
    };
    let mut record = RunRecord::default();
    record.client.objects = (0..10).map(object).collect();
    record.client.bins = vec![vec![4000; 30]; 10];
    record.client.addresses = (0..10).collect();
    record.client.user_stalls = (0..10).map(f64::from).collect();
    record.client.lasted = 30.0;
    record.status = serde_json::json!({"peer": {"arrived": 100, "dropped": 4, "marked": 0}});
    let values = crate::metrics::measure(&scenario, &record);
    let column = |name: &&str| DisciplineOutcome {
        discipline: (*name).to_owned(),
        skipped: None,
        summary: crate::metrics::summarize(std::slice::from_ref(&values)),
        runs: vec![RunOutcome { values: values.clone(), spoiled: None, record: record.clone() }],
    };
    Outcome {
        version: "1".into(),
        command: "narrows lab few.toml".into(),
        kernel: "6.12".into(),
        scenario,
        disciplines: disciplines.iter().map(column).collect(),
    }
}

#[test]
fn a_page_says_what_is_seen_and_who_took_no_part() {
    let mut outcome = outcome(&["taq"]);
    outcome.disciplines.push(DisciplineOutcome {
        discipline: "kernel:cake".into(),
        skipped: Some("no such module".into()),
        summary: BTreeMap::from([(
            "goodput_kbps".to_owned(),
            Spread { median: 551.0, min: 551.0, max: 551.0 },
        )]),
        ..DisciplineOutcome::default()
    });
    let html = page(&outcome, &["It helps.".to_owned()]).into_string();
    for part in [
        "<h1>a &lt;few&gt; users</h1>",
        "<title>a &lt;few&gt; users (Narrows)</title>",
        "It helps.",
        "kernel:cake: skipped: no such module",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    for outside in ["src=", "href=\"http", "url("] {
        assert!(!html.contains(outside), "one file, but {outside}: {html}");
    }
}

#[test]
fn the_figures_that_matter_stand_first_and_all_others_are_there() {
    let outcome = outcome(&["taq"]);
    let figures = Figures::of(&outcome);
    let labels: Vec<&str> = figures.first().iter().map(|row| row.label.as_str()).collect();
    assert_eq!(
        labels,
        [
            "TLS: objects with a stall above 5 s",
            "QUIC: objects with a stall above 5 s",
            "TLS: longest stall p99",
            "QUIC: longest stall p99",
            "objects with a stall above 20 s",
            "object time p50",
            "goodput",
            "dropped of arrivals",
        ]
    );
    // Stalls are 0 to 4 s over TLS and 5 to 9 s over QUIC, of which four last longer than 5 s.
    let cells: Vec<&str> = figures.first()[..2].iter().map(|row| row.cells[0].as_str()).collect();
    assert_eq!(cells, ["0.0 %", "80.0 %"]);
    let all = table::render(&outcome).lines().count() - 1;
    assert_eq!(figures.first().len() + figures.rest().len(), all);
    assert_eq!(table::render_first(&outcome).lines().count(), FIRST_ROWS + 1);
}

/// Script that measures the layout of a page inside the browser.
const LOOK: &str = "(() => { \
    const right = (all) => Math.max(...[...all].map((e) => e.getBoundingClientRect().right)); \
    const shown = [...document.querySelectorAll('figure svg')].filter((e) => e.getBoundingClientRect().width > 0); \
    const style = (e) => getComputedStyle(e); \
    return { wide: document.documentElement.scrollWidth, \
    cells: right(document.querySelectorAll('.first th, .first td')), \
    drawn: right(shown), drawings: shown.length, rows: document.querySelectorAll('.first tbody tr').length, \
    folded: !document.querySelector('details').open, page: style(document.body).backgroundColor, \
    paper: style(shown[0].querySelector('rect')).fill, ink: style(shown[0].querySelector('text')).fill, \
    letters: style(document.body).color, \
    letter: Math.min(...[...shown[0].querySelectorAll('text')].map((e) => e.getBoundingClientRect().height)), \
    hint: [...document.querySelectorAll('.hint')].some((e) => e.getBoundingClientRect().height > 0) } })()";

#[test]
fn a_browser_shows_every_column_and_the_whole_picture_at_every_width_in_both_schemes() {
    let folder = Scratch::new("report-in-browser");
    let three = page(&outcome(&["fifo:30", "taq", "kernel:cake"]), &[]).into_string();
    for (width, scheme) in
        [(390, Scheme::Light), (390, Scheme::Dark), (820, Scheme::Light), (1440, Scheme::Dark)]
    {
        let Some(said) = ask(&three, &folder, width, scheme, LOOK) else { return };
        let look: serde_json::Value = serde_json::from_str(&said).unwrap();
        let number = |key: &str| look[key].as_f64().unwrap();
        for edge in ["wide", "cells", "drawn"] {
            assert!(number(edge) <= f64::from(width), "{width}: {edge}: {look}");
        }
        assert_eq!((number("rows"), number("drawings")), (8.0, 1.0), "{width}: {look}");
        assert_eq!((&look["folded"], &look["hint"]), (&true.into(), &false.into()), "{width}: {look}");
        // Letters of eight pixels can be read on a telephone.
        assert!(width > 390 || number("letter") >= 8.0, "{look}");
        let dark = scheme == Scheme::Dark;
        assert_eq!(look["paper"], look["page"], "{width}: the picture has the page's paper: {look}");
        assert_eq!(look["page"] == "rgb(255, 255, 255)", !dark, "{width}: {look}");
        assert_eq!(look["ink"] == "rgb(27, 31, 36)", !dark, "{width}: {look}");
    }
    let many = ["fifo:30", "taq", "kernel:cake", "kernel:fq_codel", "kernel:sfq"];
    let Some(said) = ask(&page(&outcome(&many), &[]).into_string(), &folder, 390, Scheme::Light, LOOK) else {
        return;
    };
    let look: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(look["hint"], true, "columns beyond the edge are announced: {look}");
    assert!(look["wide"].as_f64().unwrap() <= 390.0, "the table moves, not the page: {look}");
}
