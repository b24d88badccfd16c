//! `narrows reproduce` from outside: cut-down figures of every paper, the pages they leave, and what a browser makes of
//! them.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use narrows_testing::Scratch;
use narrows_testing::browser::{Scheme, Shown, ask, open};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const NARROWS: &str = env!("CARGO_BIN_EXE_narrows");

fn experiments() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

fn reproduce(out: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(NARROWS);
    command.arg("reproduce").args(args).arg("--experiments").arg(experiments()).arg("--out").arg(out);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A figure or more of each paper, small enough for a test, and how the claims begin that must hold even so. Rows that
/// are exact are run whole, and all their claims must hold.
const FEW: [(&str, &[&str]); 9] = [
    ("taq/fig08", &["TAQ wastes nothing of the link, with ns-2's", "The published rules are fairer"]),
    ("class-isolation/fig03", &["apart, short sessions are alike", "in one queue short sessions are less"]),
    ("burst-tcp/fig10", &[]),
    ("burst-tcp/fig11", &[]),
    ("burst-tcp/fig12", &[]),
    ("adaptive-aimd/fig05", &["The factor comes to", "After the first", "... where standard"]),
    ("adaptive-aimd/fig07", &["From a quarter"]),
    ("initial-spreading/fig02", &[]),
    ("initial-spreading/fig13", &["... up to six segments"]),
];

#[test]
fn each_paper_gets_a_page_that_a_browser_draws() {
    let place = Scratch::new("reproduce-pages");
    let gallery = place.join("gallery");
    let mut args: Vec<&str> = FEW.iter().map(|(name, _)| *name).collect();
    args.extend(["--least", "--quiet", "--gallery", gallery.to_str().unwrap()]);
    let ran = reproduce(&place, &args);
    assert!(ran.status.success(), "{}{}", text(&ran.stdout), text(&ran.stderr));
    for (name, hold) in FEW {
        comes_out(&place, name, hold);
    }
    let front = std::fs::read_to_string(place.join("index.html")).unwrap();
    for paper in ["taq", "class-isolation", "burst-tcp", "adaptive-aimd", "initial-spreading"] {
        assert!(front.contains(&format!("{paper}.html")), "{paper} is not on the front page");
        let page = place.join(format!("{paper}.html"));
        let alone = std::fs::read_to_string(&page).unwrap();
        assert!(
            !alone.contains("src=\"http") && !alone.contains("@import"),
            "{paper}: the page needs others"
        );
        drawn_in_browser(&page, &place.join(paper));
    }
    read_by_keys(&place.join("burst-tcp.html"), &place.join("burst-tcp"));
    pictures(&gallery, &["taq-fig08", "class-isolation-fig03", "burst-tcp-fig10", "adaptive-aimd-fig07"]);
    // Once more: nothing runs again, and the pages are as they were.
    let before = std::fs::read(place.join("taq.html")).unwrap();
    let again = reproduce(&place, &["taq/fig08", "--least"]);
    assert!(again.status.success() && text(&again.stderr).contains("done before"), "{}", text(&again.stderr));
    assert_eq!(std::fs::read(place.join("taq.html")).unwrap(), before);
}

/// Claims of exact rows hold, and so do those that begin with one of `hold`; whoever else does not, says why.
fn comes_out(out: &Path, name: &str, hold: &[&str]) {
    let section = section(out, name);
    let claims = section["claims"].as_array().unwrap();
    let begins = |claim: &serde_json::Value, with: &str| claim["text"].as_str().unwrap().starts_with(with);
    for with in hold {
        assert!(claims.iter().any(|c| begins(c, with)), "{name} claims nothing that begins with '{with}'");
    }
    for claim in claims {
        let exact = claim["exact"].as_bool().unwrap();
        let must = exact || hold.iter().any(|with| begins(claim, with));
        assert!(!must || claim["outcome"] == "holds", "{name}: {claim:#}");
        // Rows that follow from a rule alone leave nothing to chance, and a second seed shows it.
        assert!(!exact || claim["chance"] == "none", "{name}: something is drawn: {claim:#}");
        let unexplained = claim["outcome"] != "holds" && claim["reason"].as_str().unwrap().is_empty();
        assert!(!unexplained, "{name}: no reason: {claim:#}");
    }
}

/// Pictures for a page of text: small, and nothing in them that a site would refuse or look for elsewhere.
fn pictures(gallery: &Path, names: &[&str]) {
    let page = std::fs::read_to_string(gallery.with_extension("md")).unwrap();
    for name in names {
        let svg = std::fs::read_to_string(gallery.join(format!("{name}.svg"))).unwrap();
        assert!(page.contains(&format!("(gallery/{name}.svg)")), "{name} is not on the page");
        assert!(svg.len() < 60_000, "{name}: {} bytes", svg.len());
        for refused in ["<script", "href", "@import", "url(", "foreignObject"] {
            assert!(!svg.contains(refused), "{name} has '{refused}'");
        }
        assert!(svg.contains("<path") || svg.matches("<rect").count() > 20, "{name} is empty");
    }
}

#[test]
fn an_interrupted_figure_goes_on_where_it_was() {
    let place = Scratch::new("reproduce-interrupted");
    let figure = "initial-spreading/fig13";
    let begin = || {
        let mut command = Command::new(NARROWS);
        command.args(["reproduce", "burst-tcp/fig12", figure, "--least", "--jobs", "1"]);
        command.arg("--experiments").arg(experiments()).arg("--out").arg(&*place);
        command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
    };
    let child = begin();
    let runs = place.join(figure).join("least/fig13-sizes/runs");
    let begun = Instant::now();
    while finished(&runs).is_empty() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    let stopped = child.wait_with_output().unwrap();
    assert_eq!(stopped.status.code(), Some(130), "{}", text(&stopped.stderr));
    assert!(text(&stopped.stderr).contains("goes on from here"), "{}", text(&stopped.stderr));
    let kept = finished(&runs);
    assert!(!kept.is_empty() && kept.len() < 10, "{} of 10 runs", kept.len());
    // A page of what there is: the figure that was done, and not the one that was not.
    let page = std::fs::read_to_string(place.join("burst-tcp.html")).unwrap();
    assert!(page.contains("id=\"fig12\"") && !place.join("initial-spreading.html").exists());
    let resumed = begin().wait_with_output().unwrap();
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    let said = format!("{} of them done before", kept.len());
    assert!(text(&resumed.stderr).contains(&said), "{said}: {}", text(&resumed.stderr));
    let after = finished(&runs);
    assert_eq!(after.len(), 10);
    assert!(kept.iter().all(|run| after.contains(run)), "a finished run was made again");
    assert!(place.join("initial-spreading.html").exists());
}

/// Finished runs: their folders, and when they were done.
fn finished(runs: &Path) -> Vec<(PathBuf, SystemTime)> {
    let entries = std::fs::read_dir(runs).into_iter().flatten().flatten();
    let done = |run: PathBuf| {
        let told = run.join("run.json").metadata().ok()?.modified().ok()?;
        Some((run, told))
    };
    entries.filter_map(|e| done(e.path())).collect()
}

fn section(out: &Path, name: &str) -> serde_json::Value {
    let file = out.join(name).join("least/section.json");
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// Arrows go from point to point and from line to line of Burst TCP's figure 10, escape hides what they tell.
fn read_by_keys(page: &Path, place: &Path) {
    let keys = r"<script>
const chart = document.querySelector('#fig10 .chart > svg'), tip = chart.parentElement.querySelector('.tip');
document.body.dataset.keys = ['ArrowRight', 'ArrowRight', 'ArrowDown', 'Escape'].map((key) => {
  chart.dispatchEvent(new KeyboardEvent('keydown', { key }));
  return tip.hidden ? 'hidden' : tip.textContent;
}).join('; ');
</script></body>";
    let copy = place.join("keys.html");
    std::fs::write(&copy, std::fs::read_to_string(page).unwrap().replace("</body>", keys)).unwrap();
    let Some(Shown { dom, log }) = open(&copy, &place.join("browser"), Scheme::Light) else { return };
    assert!(!log.contains("CONSOLE"), "{log}");
    // 64 packets from a window of one take 7.040 s, with f = 2 5.034 s, and with a loss 5.105 s: by hand.
    let told = "data-keys=\"no loss: 7.04 at 1; no loss: 5.034 at 2; one loss at 3 s: 5.105 at 2; hidden\"";
    assert!(dom.contains(told), "{:?}", dom.split("data-keys=").nth(1).map(|s| s.get(..120)));
}

/// Opens a page in Chromium, where there is one: no error on the console, every chart drawn with every line, and the
/// data of the page those of the CSV files.
fn drawn_in_browser(page: &Path, figures: &Path) {
    let Some(Shown { dom, log }) = open(page, &figures.join("browser"), Scheme::Light) else { return };
    assert!(!log.contains("CONSOLE"), "{}: {log}", page.display());
    let charts = data_of(&dom);
    assert!(
        !charts.is_empty() && dom.contains(&format!("data-charts=\"{}\"", charts.len())),
        "{}",
        page.display()
    );
    let lines: usize = charts.iter().map(|c| c["lines"].as_array().unwrap().len()).sum();
    assert_eq!(dom.matches("data-line=").count(), lines, "{}: a line is missing", page.display());
    let in_page: usize = charts
        .iter()
        .flat_map(|c| c["lines"].as_array().unwrap())
        .map(|l| l["points"].as_array().unwrap().len())
        .sum();
    let mut in_files = 0;
    for entry in std::fs::read_dir(figures).unwrap() {
        let file = entry.unwrap().path().join("figure.csv");
        if let Ok(csv) = std::fs::read_to_string(&file) {
            in_files += csv.lines().count() - 1;
            let first = csv.lines().nth(1).unwrap();
            let y: f64 = first.rsplit(',').nth(1).unwrap().parse().unwrap();
            let there = charts
                .iter()
                .flat_map(|c| c["lines"].as_array().unwrap())
                .any(|l| l["points"][0][2].as_f64() == Some(y));
            assert!(there, "{}: {first} is not in the page", file.display());
        }
    }
    assert_eq!(in_page, in_files, "{}: points in the page and in the CSV files", page.display());
    let html = std::fs::read_to_string(page).unwrap();
    for scheme in [Scheme::Light, Scheme::Dark] {
        let wide = ask(&html, figures, 390, scheme, "document.documentElement.scrollWidth").unwrap();
        assert!(wide.parse::<u32>().unwrap() <= 390, "{}: {wide} pixels on a telephone", page.display());
    }
}

/// The charts' data that stand in a page.
fn data_of(dom: &str) -> Vec<serde_json::Value> {
    let scripts = dom.split("<script class=\"data\" type=\"application/json\">").skip(1);
    scripts.map(|s| serde_json::from_str(s.split("</script>").next().unwrap()).unwrap()).collect()
}

#[test]
fn what_there_is_is_listed_and_what_is_not_is_named() {
    let place = Scratch::new("reproduce-list");
    let listed = reproduce(&place, &["--list"]);
    let said = text(&listed.stdout);
    assert!(listed.status.success() && said.contains("taq/fig08") && said.contains("in all"), "{said}");
    assert_eq!(text(&reproduce(&place, &[]).stdout), said, "nothing asked for is the list");
    // Every row is run or judged elsewhere, which is told too, where the whole paper is.
    assert!(said.contains("A18") && !said.contains("not run: "), "{said}");
    assert!(said.contains("A19") && said.contains("judged elsewhere: "), "{said}");
    let one = text(&reproduce(&place, &["taq/fig08", "--list"]).stdout);
    assert!(one.contains("T6") && !one.contains("judged elsewhere: "), "{one}");
    let wrong = reproduce(&place, &["taq/fig99"]);
    assert!(!wrong.status.success() && text(&wrong.stderr).contains("taq/fig08"), "{}", text(&wrong.stderr));
    let nowhere =
        Command::new(NARROWS).args(["reproduce", "all", "--experiments", "/nonexistent"]).output().unwrap();
    assert!(
        !nowhere.status.success() && text(&nowhere.stderr).contains("--experiments"),
        "{}",
        text(&nowhere.stderr)
    );
}
