//! Log of a running box, in each format.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use crate::live::place::Place;

fn signal(running: &Child, signal: Signal) {
    kill(nix::unistd::Pid::from_raw(running.id().cast_signed()), signal).unwrap();
}

/// A box that was asked to read its settings again, though it has none, and then to stop: all that it said on standard
/// output and on standard error.
fn said(place: &Place, flags: &str) -> [String; 2] {
    let state = place.file().with_file_name("state");
    let control = place.file().with_file_name("control.sock");
    let mut running = place
        .narrows(&format!("run --lan lan0 --wan wan0 --down 600kbit --backend packet {flags}"))
        .arg("--state-dir")
        .arg(state)
        .arg("--control")
        .arg(&control)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(running.stderr.take().unwrap());
    let mut told = String::new();
    // Its socket is there before signals are; a status is answered after.
    while narrows_box::fetch(&control).is_err() {
        assert!(running.try_wait().unwrap().is_none(), "{flags}: it has ended");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    signal(&running, Signal::SIGHUP);
    while !told.contains("not reloaded") && errors.read_line(&mut told).unwrap() > 0 {}
    signal(&running, Signal::SIGTERM);
    errors.read_to_string(&mut told).unwrap();
    let mut out = String::new();
    running.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert!(running.wait().unwrap().success(), "{flags}: {told}");
    [out, told]
}

/// Level and message of each line.
fn parsed(lines: &str) -> Vec<(String, String)> {
    let text = |value: &Value, key: &str| {
        value[key].as_str().unwrap_or_else(|| panic!("{key} in {value}")).to_owned()
    };
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
        .map(|value: Value| {
            assert!(text(&value, "timestamp").ends_with('Z'), "{value}");
            (text(&value, "level"), text(&value, "message"))
        })
        .collect()
}

#[test]
fn text_is_for_people() {
    let Some(place) = Place::try_new("text") else { return };
    let [out, told] = said(&place, "");
    assert_eq!(out, "narrows: running lan0 <-> wan0 by packet sockets, down 600kbit (taq), up unshaped\n");
    assert_eq!(
        told,
        "narrows: settings not reloaded, the old ones stay: there is no settings file to read again: start with \
         --config\n"
    );
    let [out, told] = said(&place, "--log-level debug");
    assert!(out.contains("running") && told.contains("narrows: debug: the watchdog runs"), "{told}");
    let [out, told] = said(&place, "--log-level warn");
    assert!(out.is_empty() && told.lines().count() == 1, "{out}{told}");
}

#[test]
fn each_line_of_json_parses() {
    let Some(place) = Place::try_new("json") else { return };
    let [out, told] = said(&place, "--log json --log-level debug");
    assert_eq!(out, "");
    let lines = parsed(&told);
    for (level, words) in
        [("DEBUG", "the watchdog runs"), ("INFO", "running lan0 <-> wan0"), ("WARN", "settings not reloaded")]
    {
        assert!(lines.iter().any(|(l, m)| l == level && m.starts_with(words)), "{level} {words}: {told}");
    }

    // A fatal error is a log message like any other, also one of several lines.
    let refused =
        place.narrows("run --lan lan0 --wan nosuch --down 1mbit --backend packet --log json").output();
    let refused = refused.unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let lines = parsed(&String::from_utf8(refused.stderr).unwrap());
    let [(level, message)] = &lines[..] else { panic!("{lines:?}") };
    assert!(level == "ERROR" && message.contains("nosuch"), "{lines:?}");
}

#[test]
fn a_level_that_is_none_is_refused() {
    let Some(place) = Place::try_new("level") else { return };
    let out = place.narrows("run --lan lan0 --wan wan0 --log-level loud").output().unwrap();
    let told = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.code() == Some(2) && told.contains("--log-level: 'loud' is no level"), "{told}");
}
