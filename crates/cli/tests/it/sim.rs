//! `narrows sim` from outside: what a user types, what is said, what is left behind.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use narrows_testing::Scratch;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const NARROWS: &str = env!("CARGO_BIN_EXE_narrows");

const FEW: &str = r#"
name = "few"
about = "a few flows"
rate = "600kbit"
rtt = "200ms"
mtu = 500
duration = "4s"
seeds = [1, 2]
disciplines = ["fifo:30", "taq"]
[sweep]
traffic.0.flows = [5, 20, 60, 120]
[probes]
slice = "2s"
[[traffic]]
kind = "long"
flows = 5
[[claim]]
text = "the link is used"
source = "arithmetic"
expr = "min(utilisation)"
bound = "> 0.1"
why = "any traffic does that"
[[claim]]
text = "nothing is ever lost"
expr = "max(loss)"
bound = "<= 0"
why = "it cannot be"
"#;

const LONG: &str = r#"
name = "long"
rate = "50mbit"
rtt = "50ms"
duration = "100000s"
disciplines = ["fifo:200"]
seeds = [1, 2, 3]
[[traffic]]
kind = "long"
flows = 50
"#;

/// Where a test runs the program.
struct Place(Scratch);

impl Place {
    fn new(name: &str, scenario: &str) -> Self {
        let dir = Scratch::new(&format!("sim-{name}"));
        fs::write(dir.join("few.toml"), scenario).unwrap();
        Self(dir)
    }
    fn command(&self, args: &[&str]) -> Command {
        let mut c = Command::new(NARROWS);
        c.current_dir(&*self.0).args(["sim", "few.toml"]).args(args);
        c
    }
    fn sim(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }
    /// Every file of a folder of results but those that may differ from time to time.
    fn results(&self, out: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut all = BTreeMap::new();
        let mut folders = vec![self.0.join(out)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if !path.ends_with("timing.csv") && !path.ends_with(".lock") {
                    let name = path.strip_prefix(self.0.join(out)).unwrap().to_owned();
                    all.insert(name, fs::read(&path).unwrap());
                }
            }
        }
        all
    }
}

fn out(o: &Output) -> String {
    String::from_utf8_lossy(&o.stdout).into_owned()
}

fn err(o: &Output) -> String {
    String::from_utf8_lossy(&o.stderr).into_owned()
}

#[test]
fn a_table_claims_files_and_a_picture() {
    let place = Place::new("table", FEW);
    let first = place.sim(&["--jobs", "2"]);
    let text = out(&first);
    assert!(first.status.success(), "{}", err(&first));
    assert!(err(&first).contains("few: 16 runs, 2 at a time"), "{}", err(&first));
    for words in ["a few flows", "Jain 2 s", "utilisation", "median of 2 seeds", "out/sim/few"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(text.contains("holds             the link is used (arithmetic)"), "{text}");
    assert!(text.contains("does not hold     nothing is ever lost"), "{text}");
    // A claim that fails is a result, not an error, unless that is asked for.
    let strict = place.sim(&["--strict", "--quiet"]);
    assert_eq!((strict.status.code(), err(&strict)), (Some(1), String::new()));
    assert!(out(&strict).contains("16 runs were done before"), "{}", out(&strict));

    let results = place.results("out/sim/few");
    for name in ["summary.csv", "summary.parquet", "flows.csv", "claims.csv", "few.svg"] {
        assert!(results.contains_key(Path::new(name)), "{name}: {:?}", results.keys());
    }
    let summary = String::from_utf8_lossy(&results[Path::new("summary.csv")]).into_owned();
    assert!(summary.starts_with("discipline,traffic.0.flows,seed,"), "{summary}");
    assert_eq!(summary.lines().count(), 17);
    let manifest = String::from_utf8_lossy(&results[Path::new("manifest.json")]).into_owned();
    assert!(manifest.contains("\"command\": \"narrows sim few.toml\""), "{manifest}");
    assert!(!manifest.contains(&*place.0.to_string_lossy()), "a path of the machine: {manifest}");
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let place = Place::new("threads", FEW);
    for (jobs, to) in [("1", "one"), ("2", "two")] {
        assert!(place.sim(&["--jobs", jobs, "--out", to]).status.success());
    }
    let (one, two) = (place.results("one"), place.results("two"));
    assert_eq!(one.keys().collect::<Vec<_>>(), two.keys().collect::<Vec<_>>());
    assert!(one == two);
}

#[test]
fn what_cannot_be_is_refused_before_anything_runs() {
    let place = Place::new("refused", FEW);
    for (figure, words) in [
        ("goodput_kbp", "did you mean 'goodput_kbps'?"),
        ("jain_20s", "did you mean 'jain_2s'?"),
        ("jain", "did you mean one of jain_2s, jain_2s_min, jain_long?"),
        ("nonsense", "docs/reference/probes.md"),
    ] {
        let o = place.sim(&["--show", figure]);
        assert!(!o.status.success() && err(&o).contains(figure) && err(&o).contains(words), "{}", err(&o));
    }
    assert!(!place.0.join("out").exists());
    let bare =
        |args: &[&str]| Command::new(NARROWS).current_dir(&*place.0).arg("sim").args(args).output().unwrap();
    let o = bare(&[]);
    assert!(!o.status.success() && err(&o).contains("--list"), "{}", err(&o));
    let o = bare(&["--list"]);
    assert!(!o.status.success() && err(&o).contains("at the top of the repository"), "{}", err(&o));
}

/// The first example of `docs/explanation/sim.md`, and what is printed under it.
#[test]
fn the_page_shows_what_its_example_gives() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/explanation/sim.md");
    let text = fs::read_to_string(page).unwrap();
    let (_, rest) = text.split_once("```toml\n").unwrap();
    let (scenario, rest) = rest.split_once("```\n").unwrap();
    let (before, shown) = rest.split_once("```text\n").unwrap();
    let (shown, after) = shown.split_once("```\n").unwrap();
    let place = Place::new("page", scenario);
    let given = out(&place.sim(&[]));
    assert!(given.contains("\n10                  fifo:30 ") && given.contains("  holds  "), "{given}");
    if std::env::var_os("NARROWS_WRITE").is_some() {
        let head = &text[..text.len() - rest.len()];
        fs::write(page, format!("{head}{before}```text\n{given}```\n{after}")).unwrap();
        return;
    }
    assert!(
        shown == given,
        "docs/explanation/sim.md shows\n{shown}and it gives\n{given}\
         NARROWS_WRITE=1 cargo test -p narrows-cli --test it sim::page writes it"
    );
}

#[test]
fn settings_and_seeds_from_the_command_line() {
    let place = Place::new("settings", FEW);
    let o =
        place.sim(&["--set", "traffic.0.flows=3", "--set", "discipline=taq", "--seeds", "3..5", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    assert_eq!(json[0]["points"].as_array().unwrap().len(), 1, "{json}");
    assert_eq!(json[0]["points"][0]["seeds"], 3);
    assert!(json[0]["points"][0]["figures"]["utilisation"]["median"].as_f64().unwrap() > 0.1, "{json}");
    let utilisation = &json[0]["points"][0]["figures"]["utilisation"];
    assert!(utilisation["min"].as_f64() <= utilisation["mean"].as_f64(), "{json}");
    let ci95 = [&utilisation["ci95"][0], &utilisation["ci95"][1]].map(|end| end.as_f64().unwrap());
    assert!((ci95[0] + ci95[1] - 2.0 * utilisation["mean"].as_f64().unwrap()).abs() < 1e-9, "{json}");
    assert!(
        ci95[1] > utilisation["max"].as_f64().unwrap(),
        "three seeds leave more open than they range: {json}"
    );
    assert_eq!(json[0]["claims"][0]["outcome"], "holds");
    let manifest = fs::read_to_string(place.0.join("out/sim/few/manifest.json")).unwrap();
    let command = "narrows sim few.toml --set traffic.0.flows=3 --set discipline=taq --set seeds=3..5";
    assert!(manifest.contains(command), "{manifest}");
    // Fewer points stand side by side, with their range.
    let text = out(&place.sim(&["--set", "traffic.0.flows=3", "--show", "goodput_kbps,object_p50_s"]));
    assert!(text.contains("goodput_kbps") && text.contains("[least-greatest]"), "{text}");
    let ci = out(&place.sim(&["--set", "traffic.0.flows=3", "--show", "goodput_kbps", "--ci"]));
    assert!(ci.contains("mean of 2 seeds ±half of its 95 % interval"), "{ci}");
    assert!(
        ci.lines().any(|line| line.starts_with("goodput_kbps") && line.matches('±').count() == 2),
        "{ci}"
    );
    let many = out(&place.sim(&["--show", "goodput_kbps", "--ci"]));
    assert!(many.matches('±').count() == 8 + 1, "in long tables too: {many}");
    assert!(text.contains("object_p50_s"), "a figure without a value here is one all the same: {text}");
}

#[test]
fn explained_without_running() {
    let place = Place::new("explain", FEW);
    let o = place.sim(&["--explain"]);
    let text = out(&o);
    for words in [
        "== thin 600kbit",
        "30 packets of 500 B, 200 ms, 1 x BDP",
        "5 long flows",
        "120 kbit/s, 6 packets of 500 B per round trip",
        "8 points x 2 seeds (1, 2) = 16 runs of 4s",
        "as linux",
        "out/sim/few",
        "max(loss) <= 0",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!place.0.join("out").exists());
    assert!(place.sim(&["--explain", "--out", "drawn"]).status.success());
    let drawn: Vec<_> = fs::read_dir(place.0.join("drawn")).unwrap().collect();
    assert!(place.0.join("drawn/topology.svg").exists() && drawn.len() <= 2, "{drawn:?}");
}

#[test]
fn stopped_by_a_signal_and_resumed() {
    let place = Place::new("signal", LONG);
    let child = place.command(&["--jobs", "1"]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // Until it runs.
    let begun = Instant::now();
    while !place.0.join("out/sim/long/runs").exists() && begun.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    kill(pid, Signal::SIGINT).unwrap();
    let stopped = child.wait_with_output().unwrap();
    assert_eq!(stopped.status.code(), Some(130));
    assert!(
        err(&stopped).contains("0 of 3 runs are done and kept; the same command goes on"),
        "{}",
        err(&stopped)
    );
    let short = place.sim(&["--set", "duration=1s"]);
    assert!(short.status.success(), "{}", err(&short));
}

#[test]
fn mistakes_are_told_before_anything_runs() {
    let place = Place::new("mistakes", FEW);
    fs::write(place.0.join("file"), "").unwrap();
    fs::create_dir(place.0.join("mine")).unwrap();
    fs::write(place.0.join("mine/thesis.tex"), "").unwrap();
    for (args, says) in [
        (&["--set", "traffic.0.flows=0"][..], "few.toml: traffic.0.flows = 0: expected"),
        (&["--set", "rate=0kbit"], "rate"),
        (&["--set", "discipline=nonsense"], "nonsense"),
        (&["--seeds", "x"], "seeds"),
        (&["nowhere.toml"], "nowhere.toml: cannot be read"),
        (&["few.toml"], "expected different names"),
        (&["--out", "file/below"], "choose a folder that can be written with --out"),
        (&["--out", "mine"], "thesis.tex"),
    ] {
        let o = place.sim(args);
        assert_eq!(o.status.code(), Some(2), "{args:?}");
        let why = err(&o);
        let last = why.lines().last().unwrap();
        assert!(last.starts_with("narrows: ") && last.contains(says), "{args:?}: {why}");
        assert_eq!(out(&o), "");
    }
    assert!(!place.0.join("out").exists());
    assert_eq!(fs::read_dir(place.0.join("mine")).unwrap().count(), 1);
    // Another scenario's results stay as they are.
    assert!(place.sim(&["--out", "kept"]).status.success());
    let before = place.results("kept");
    let o = place.sim(&["--out", "kept", "--set", "name=other"]);
    assert!(err(&o).contains("holds results of the scenario 'few'"), "{}", err(&o));
    assert!(place.results("kept") == before);
}

#[test]
fn a_full_disk_loses_no_finished_run() {
    let place = Place::new("full", FEW);
    assert!(place.sim(&["--out", "whole"]).status.success());
    // A limit of file sizes stands for a disk without room: some tables are larger than 3 kB, some are not.
    let script = format!("trap '' XFSZ; ulimit -f 3; exec {NARROWS} sim few.toml --jobs 1 --out full");
    let o = Command::new("bash").current_dir(&*place.0).args(["-c", &script]).output().unwrap();
    assert_eq!(o.status.code(), Some(2), "{}", err(&o));
    let why = err(&o);
    assert!(why.contains("writing full/") && why.contains("finished runs are kept"), "{why}");
    assert!(!place.0.join("full/summary.csv").exists());
    assert!(place.sim(&["--out", "full"]).status.success());
    assert!(place.results("full") == place.results("whole"));
}

#[test]
fn several_files_each_have_a_folder() {
    let place = Place::new("several", FEW);
    fs::write(place.0.join("other.toml"), FEW.replace("name = \"few\"", "name = \"other\"")).unwrap();
    let o = place.sim(&["other.toml", "--out", "both", "--set", "traffic.0.flows=5"]);
    assert!(o.status.success(), "{}", err(&o));
    assert!(place.0.join("both/few/summary.csv").exists() && place.0.join("both/other/summary.csv").exists());
}
