//! `narrows league` from outside: the list that comes with the program, cut short, and what is said of a wrong one.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use narrows_testing::Scratch;

const NARROWS: &str = env!("CARGO_BIN_EXE_narrows");

/// Where a test runs the program.
struct Place(Scratch);

impl Place {
    fn new(name: &str) -> Self {
        Self(Scratch::new(&format!("league-{name}")))
    }
    fn league(&self, args: &[&str]) -> Output {
        Command::new(NARROWS).current_dir(&*self.0).arg("league").args(args).output().unwrap()
    }
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_list_is_run_and_not_twice() {
    let place = Place::new("cut");
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/league.toml");
    let list = list.to_str().unwrap();
    let cut = [
        list,
        "--quick",
        "--scenario",
        "long,quic",
        "--set",
        "duration=8s",
        "--set",
        "warmup=2s",
        "--set",
        "jitter=1s",
        "--set",
        "probes.slice=2s",
        "--also",
        "taq:window_clamp=off",
    ];
    let first = place.league(&cut);
    assert!(first.status.success(), "{}", said(&first.stderr));
    let table = said(&first.stdout);
    for words in ["stall", "goodput", "fifo-1000", "taq:window_clamp=off", "long", "quic"] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let csv = fs::read_to_string(place.0.join("out/league/league.csv")).unwrap();
    assert!(csv.starts_with("measure,figure,scenario,point,discipline,value,factor\n"));
    // Somebody is best in everything.
    for scenario in ["long", "quic"] {
        let best = |l: &&str| l.contains(&format!(",goodput_share,{scenario},")) && l.ends_with(",1");
        assert!(csv.lines().any(|l| best(&l)), "{csv}");
    }
    assert!(fs::read_to_string(place.0.join("out/league/league.md")).unwrap().starts_with("|  | stall |"));
    assert!(place.0.join("out/league/league.svg").exists());
    let again = place.league(&cut);
    assert_eq!(said(&again.stdout), table);
    assert!(said(&again.stderr).contains("done before"), "{}", said(&again.stderr));
}

#[test]
fn what_is_wrong_is_named_before_anything_runs() {
    let place = Place::new("wrong");
    fs::write(place.0.join("l.toml"), "disciplines = [\"taq\"]\n[[scenario]]\nfile = \"s.toml\"\n").unwrap();
    let cases: [(&[&str], &str); 4] = [
        (&["none.toml"], "none.toml"),
        (&["l.toml"], "s.toml"),
        (&["l.toml", "--only", "codel"], "'codel' is not in the league"),
        (&["l.toml", "--quick"], "no scenario is left"),
    ];
    for (args, says) in cases {
        let out = place.league(args);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", said(&out.stderr));
        assert!(said(&out.stderr).contains(says), "{args:?}: {}", said(&out.stderr));
    }
    assert!(!place.0.join("out").exists());
}
