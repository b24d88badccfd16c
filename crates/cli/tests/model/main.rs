//! `narrows model` from outside: what a user types, what comes out, a module for each paper.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod aimd;
mod burst;
mod isolation;
mod spreading;
mod taq;
mod yardsticks;

use std::process::{Command, Output};

use serde_json::Value;

/// `narrows model` with these words.
fn model(words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_narrows")).arg("model").args(words.split_whitespace()).output().unwrap()
}

/// What it says in JSON.
fn json(words: &str) -> Value {
    let out = model(&format!("{words} --json"));
    assert!(out.status.success(), "{words}: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
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
