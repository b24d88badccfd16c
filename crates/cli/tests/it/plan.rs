//! `narrows plan` from outside: what a user types, what is said, what is drawn.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::fs;
use std::process::{Command, Output};

use narrows_testing::Scratch;
use serde_json::Value;

/// Where a test runs the program.
struct Place(Scratch);

impl Place {
    fn new(name: &str) -> Self {
        Self(Scratch::new(&format!("plan-{name}")))
    }
    fn plan(&self, args: &str) -> Output {
        let mut c = Command::new(env!("CARGO_BIN_EXE_narrows"));
        c.current_dir(&*self.0).arg("plan").args(args.split_whitespace()).output().unwrap()
    }
    fn json(&self, args: &str) -> Value {
        let out = self.plan(&format!("{args} --json"));
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_slice(&out.stdout).unwrap()
    }
}

const EXAMPLE: &str = "--rate 2mbit --users 400 --connections 4 --rtt 200ms";
const BASES: [&str; 4] = ["arithmetic", "model", "simulation", "rule of thumb"];
/// Names of the conclusions in the JSON.
const LINES: [&str; 11] = [
    "fair_share",
    "regime",
    "loss",
    "stalls",
    "larger_buffer",
    "taq",
    "bulk_wait",
    "fetch",
    "admission",
    "loss_admission",
    "leaves",
];

fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer} in {value}"))
}

/// 33.3 packets per round trip for 1600 flows; 6 ms a packet.
#[test]
fn the_figures_of_the_example() {
    let place = Place::new("json");
    let told = place.json(&format!("{EXAMPLE} --plot map.svg"));
    assert_eq!(number(&told, "/link/flows"), 1600.0);
    assert!((number(&told, "/fair_share/packets_per_rtt") - 0.020_833).abs() < 1e-6);
    assert!((number(&told, "/taq/round_s") - 9.6).abs() < 1e-9);
    assert!((number(&told, "/fetch/mean_s") - 48.4).abs() < 0.05);
    // The simulator has 0.65 and 0.67.
    assert!((number(&told, "/loss/loss") - 0.66).abs() < 0.05);
    assert_eq!(told["verdict"]["class"], "past the tipping point");
    assert!(number(&told, "/stalls/hour/users_over_20s") > 0.9);
    assert!(number(&told, "/larger_buffer/delay_s") > 10.0);
    assert_eq!(number(&told, "/admission/users"), 500.0);
    assert!(told["admission"]["wait_s"].is_null() && number(&told, "/loss_admission/wait_s") > 40.0);
    assert_eq!(told["map"], "map.svg");
    // 8.099999999999999 is no answer.
    assert!(!told.to_string().contains("99999999"), "{told}");
    for name in LINES {
        let line = &told[name];
        assert!(BASES.iter().any(|b| line["rests_on"] == *b), "{name}: {line}");
        assert!(line["error"].as_str().is_some_and(|e| !e.is_empty()), "{name}: {line}");
    }
    // A fifth of them at a time.
    let fifth = place.json(&format!("{EXAMPLE} --busy 0.2 --plot map.svg"));
    assert_eq!(number(&fifth, "/link/flows"), 320.0);
    assert!(number(&fifth, "/loss/loss") < number(&told, "/loss/loss"));
}

#[test]
fn one_screen_and_a_map_with_the_link_on_it() {
    let place = Place::new("screen");
    let out = place.plan(EXAMPLE);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success());
    assert!(text.lines().count() <= 45 && text.lines().all(|l| l.chars().count() <= 120), "{text}");
    for words in ["1600 flows", "all at once", "0.021 packets", "rests on", "out/plan."] {
        assert!(text.contains(words), "{words} in {text}");
    }
    let svg = fs::read_to_string(place.0.join("out/plan.svg")).unwrap();
    assert!(svg.contains("2mbit, 400 users: past the tipping point") && svg.contains("<circle"), "{svg}");
    for verdict in ["fine", "small packets", "past the tipping point", "too many at once"] {
        assert!(svg.contains(verdict), "{verdict}");
    }
    // A folder that cannot be made costs the map, not the answer.
    fs::remove_dir_all(place.0.join("out")).unwrap();
    fs::write(place.0.join("out"), "in the way").unwrap();
    let out = place.plan(EXAMPLE);
    assert!(out.status.success() && String::from_utf8_lossy(&out.stderr).contains("--plot"));
}

/// Each sentence of a verdict, whatever it is, says what it rests on.
#[test]
fn every_verdict_names_what_it_rests_on() {
    let place = Place::new("verdict");
    for (args, class) in [
        ("--rate 10mbit --users 10 --rtt 50ms", "fine"),
        ("--rate 2mbit --users 20 --rtt 200ms", "small packets"),
        ("--rate 2mbit --users 6 --connections 4 --rtt 200ms", "past the tipping point"),
        (EXAMPLE, "past the tipping point"),
        ("--rate 600kbit --users 400 --connections 4 --rtt 200ms", "too many at once"),
    ] {
        for stack in ["linux", "rfc"] {
            let told = place.json(&format!("{args} --stack {stack} --plot map.svg"));
            assert_eq!(told["verdict"]["class"], class, "{args}");
            let sentence = told["verdict"]["sentence"].as_str().unwrap();
            assert!(sentence.to_lowercase().starts_with(class), "{sentence}");
            assert!(BASES.iter().any(|b| sentence.contains(&format!("({b})"))), "{sentence}");
        }
    }
}

#[test]
fn what_cannot_be_is_told_in_a_sentence() {
    let place = Place::new("wrong");
    for (args, words) in [
        ("--rate 0mbit --users 4 --rtt 1s", "nothing is sent at 0"),
        ("--rate 2mbit --users 0 --rtt 1s", "users = 0: expected 1 to"),
        ("--rate 2mbit --users -3 --rtt 1s", "--users"),
        ("--rate 2mbit --users 4 --rtt -5ms", "a number above 0 and a unit"),
        ("--rate 2mbit --users 4 --rtt 200", "200ms"),
        ("--rate fast --users 4 --rtt 200ms", "600kbit"),
        ("--rate 2mbit --users 4 --rtt 200ms --connections 0", "connections = 0"),
        ("--rate 2mbit --users 4 --rtt 200ms --busy 2", "at most 1"),
        ("--rate 2mbit --users 4 --rtt 200ms --busy NaN", "busy = NaN"),
        ("--rate 2mbit --users 4 --rtt 200ms --buffer 0", "packets (50)"),
        ("--rate 2mbit --users 4 --rtt 200ms --packet 20", "64 to 65535"),
        ("--rate 2mbit --users 4 --rtt 200ms --plot map.gif", ".svg or .png"),
        ("--rate 2mbit --users 4 --rtt 200ms --plot none/map.svg", "none/map.svg"),
    ] {
        let out = place.plan(args);
        let why = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{args}: {why}");
        assert!(why.contains(words), "{args}: {why}");
    }
}
