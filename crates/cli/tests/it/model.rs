//! `narrows model` from outside: what a user types, what comes out, a module for each paper.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod aimd;
mod burst;
mod function;
mod isolation;
mod spreading;
mod taq;
mod yardsticks;

use std::process::{Command, Output};

use narrows_testing::Scratch;
use serde_json::Value;

/// `narrows model` with these words.
fn model(words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_narrows")).arg("model").args(words.split_whitespace()).output().unwrap()
}

/// Answer of the model as JSON.
fn json(words: &str) -> Value {
    let out = model(&format!("{words} --json"));
    assert!(out.status.success(), "{words}: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Error message of a refusal: status 2 and nothing on standard output.
#[track_caller]
fn refusal(words: &str) -> String {
    let out = model(words);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{words}: {said}");
    assert!(out.stdout.is_empty(), "{words}");
    said
}

/// Asserts status 2 and an error of one line that contains `says`.
#[track_caller]
fn refuses(words: &str, says: &str) {
    let said = refusal(words);
    assert!(said.contains(says) && said.trim().lines().count() == 1, "{words}: {said}");
}

/// The table for people, and the picture.
fn said_and_drawn(words: &str) -> (String, String) {
    let dir = Scratch::new(&format!("model-{}", words.split(' ').next().unwrap()));
    let file = dir.join("picture.svg");
    let out = model(&format!("{words} --plot {}", file.display()));
    (String::from_utf8(out.stdout).unwrap(), std::fs::read_to_string(&file).unwrap())
}

#[track_caller]
fn near(value: &Value, expected: f64, tolerance: f64) {
    let got = value.as_f64().unwrap();
    assert!((got - expected).abs() <= tolerance, "{got} is not {expected} to {tolerance}");
}

/// `| head -1`: whoever reads has had enough.
#[test]
fn a_reader_that_goes_is_no_error() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_narrows"));
    command.args(["model", "throughput", "--loss", "0.02", "--rtt", "0.1", "--rto", "1"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = command.stdout(writer).stderr(std::process::Stdio::null()).status().unwrap();
    assert!(status.success(), "{status}");
}
