//! `narrows lab` from outside: what a user types, what is left behind.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod before;
mod calls;
mod qlog;
mod uploads;
mod web;

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use narrows_lab::bench;
use narrows_testing::{Scratch, running, skip};

const NARROWS: &str = env!("CARGO_BIN_EXE_narrows");

const SCENARIO: &str = r#"
name = "few"
rate = "2mbit"
rtt = "20ms"
duration = "4s"
jitter = "500ms"
disciplines = ["fifo:30", "nonsense", "kernel:nonsense"]
[[traffic]]
kind = "objects"
users = 5
connections = 2
[[traffic]]
kind = "long"
flows = 2
"#;

/// Where a test runs the program.
struct Place(Scratch);

impl Place {
    fn new(name: &str, scenario: &str) -> Self {
        let dir = Scratch::new(&format!("test-{name}"));
        std::fs::write(dir.join("few.toml"), scenario).unwrap();
        Self(dir)
    }
    fn lab(&self, args: &[&str]) -> Command {
        let mut c = Command::new(NARROWS);
        c.arg("lab").arg(self.0.join("few.toml")).arg("--out").arg(&*self.0).args(args);
        c
    }
}

fn text(o: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&o.stdout), String::from_utf8_lossy(&o.stderr))
}

/// Namespaces of the lab whose process was `pid`.
fn namespaces(pid: u32) -> Vec<String> {
    std::fs::read_dir("/run/netns")
        .into_iter()
        .flatten()
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|n| n.starts_with(&format!("nrw-{pid}-")))
        .collect()
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}: not within 30 s");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn spawn(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// A lab that has its namespaces and would go on for a minute, where there can be one.
fn under_way(name: &str) -> Option<(Place, Child)> {
    possible().then_some(())?;
    let place = Place::new(name, SCENARIO);
    let child = spawn(place.lab(&["--set", "duration=60s", "--only", "fifo:30"]));
    wait_until("four namespaces", || namespaces(child.id()).len() == 4);
    Some((place, child))
}

/// Results that the lab wrote.
fn results(dir: &Path) -> serde_json::Value {
    let json = std::fs::read_to_string(dir.join("few.json")).unwrap();
    serde_json::from_str(&json).unwrap()
}

/// Output of the lab for a scenario, and its one run; nothing where the lab cannot run.
fn run_alone(name: &str, scenario: &str) -> Option<(String, serde_json::Value)> {
    possible().then_some(())?;
    let place = Place::new(name, scenario);
    let out = place.lab(&[]).output().unwrap();
    assert!(out.status.success(), "{}", text(&out));
    let run = results(&place.0)["disciplines"][0]["runs"][0].take();
    Some((text(&out), run))
}

fn possible() -> bool {
    bench::available().map_err(|why| skip(&running(), format!("{why:#}"))).is_ok()
}

#[test]
fn files_that_are_wrong_are_named() {
    for (scenario, says) in [
        (SCENARIO.replace("rate = \"2mbit\"", "rate = \"2\""), "rate = '2': expected a rate"),
        (SCENARIO.replace("users = 5", "user = 5"), "user"),
        (SCENARIO.replace("jitter = \"500ms\"", "warmup = \"9s\""), "warmup"),
    ] {
        let place = Place::new("wrong", &scenario);
        let out = place.lab(&[]).output().unwrap();
        assert_eq!(out.status.code(), Some(2));
        let said = text(&out);
        assert!(said.contains("few.toml") && said.contains(says), "{said}");
    }
    let place = Place::new("wrong", SCENARIO);
    let said = text(&place.lab(&["--set", "traffic.9.users=3"]).output().unwrap());
    assert!(said.contains("few.toml") && said.contains("traffic.9.users"), "{said}");
}

#[test]
fn a_short_run_gives_table_results_and_picture_and_leaves_nothing() {
    if !possible() {
        return;
    }
    let place = Place::new("short", SCENARIO);
    let child = place.lab(&["--capture", "--worst", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let out = child.wait_with_output().unwrap();
    let table = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{table}");
    for row in [
        "objects done",
        "stall above 5 s",
        "flow's longest stall",
        "goodput",
        "dropped of arrivals",
        "server timeouts",
    ] {
        assert!(table.contains(row), "{row} is missing from\n{table}");
    }
    assert!(table.contains("nonsense: skipped: ") && table.contains("kernel:nonsense: skipped: "), "{table}");
    check_results(&place.0);
    for file in ["few.svg", "few-fifo-30-1-users.pcap", "few-fifo-30-1-server.pcap"] {
        assert!(std::fs::metadata(place.0.join(file)).unwrap().len() > 1000, "{file}");
    }
    assert_eq!(namespaces(pid), Vec::<String>::new());
}

/// Asserts bounds on what the link can have done.
fn check_results(dir: &Path) {
    let json = results(dir);
    assert_eq!(json["scenario"]["rate"], "2mbit");
    assert!(json["command"].as_str().unwrap().contains("lab") && json["version"].is_string());
    let run = &json["disciplines"][0]["runs"][0];
    let values = &run["values"];
    assert!(values["objects_done"].as_f64().unwrap() >= 1.0);
    let kbps = values["goodput_kbps"].as_f64().unwrap();
    assert!(kbps > 100.0 && kbps < 2000.0, "{kbps} kbit/s of payload through 2 Mbit/s");
    let client = &run["record"]["client"];
    assert_eq!((client["bins"].as_array().unwrap().len(), client["long"].as_array().unwrap().len()), (7, 2));
    for o in client["objects"].as_array().unwrap() {
        let at = |key: &str| o[key].as_f64();
        // Propagation is 20 ms there and back: nothing connects faster, no first byte comes before two of them.
        if let Some(connected) = at("connected") {
            assert!(connected - at("start").unwrap() >= 0.019, "{o}");
        }
        if let Some(first) = at("first_byte") {
            assert!(first - at("start").unwrap() >= 0.039, "{o}");
        }
        assert!(at("stall").unwrap() <= at("end").unwrap() - at("start").unwrap() + 0.01, "{o}");
    }
    let box_sent = run["record"]["status"]["down"]["report"]["counters"]["sent"].as_u64().unwrap();
    assert!(box_sent > 100, "the box must have been in the path, it sent {box_sent}");
}

const THREE: &str = r#"
name = "few"
rate = "2mbit"
rtt = "20ms"
duration = "4s"
jitter = "100ms"
discipline = "fifo:30"
quic_initial_window = 4
[[traffic]]
kind = "objects"
users = 3
[[traffic]]
kind = "objects"
transport = "tls"
users = 3
[[traffic]]
kind = "objects"
transport = "quic"
users = 3
[[traffic]]
kind = "long"
transport = "quic"
flows = 1
"#;

#[test]
fn tls_and_quic_fetch_beside_tcp_and_say_what_they_did() {
    // The simulator takes the same file.
    let place = Place::new("simulated", THREE);
    let file = place.0.join("few.toml");
    let simulated = Command::new(NARROWS).arg("sim").arg(file).current_dir(&*place.0).output().unwrap();
    assert!(simulated.status.success(), "{}", text(&simulated));
    let Some((said, run)) = run_alone("three", THREE) else { return };
    for transport in ["tcp", "tls", "quic"] {
        let done = &run["values"][format!("{transport}_objects_done")];
        assert!(done.as_f64().unwrap() >= 1.0, "{transport}: {}", run["values"]);
    }
    let (client, quic) = (&run["record"]["client"], &run["record"]["server"]["quic"]);
    let count = |of: &serde_json::Value| of.as_u64().unwrap();
    // Users 6 to 8 fetch over QUIC, user 9 has the long flow: each object a connection of its own.
    let objects = client["objects"].as_array().unwrap().iter().filter(|o| count(&o["user"]) >= 6);
    let connected = objects.filter(|o| o["connected"].is_f64()).count() as u64;
    assert!((connected..=connected + 4).contains(&count(&quic["connections"])), "{connected}, and {quic}");
    assert!(count(&quic["sent"]) > count(&quic["connections"]) && count(&quic["bytes"]) > 0, "{quic}");
    assert!(count(&client["quic_bytes"]) <= count(&quic["bytes"]), "no more came than was sent");
    assert_eq!(client["user_stalls"].as_array().unwrap().len(), 10);
    assert!(said.contains("QUIC: longest stall p99"), "{said}");
    check_waste(&run);
}

/// Asserts the bytes that fetching costs on the idle link, and what the link carried under load.
fn check_waste(run: &serde_json::Value) {
    let (costs, values) = (&run["record"]["costs"], &run["values"]);
    // SYN-ACK, FIN and an ACK or two are 54 to 74 bytes each; a TLS 1.3 server's flight with a certificate of half a
    // kilobyte is about one kilobyte; a QUIC server pads its Initial to 1200 bytes (RFC 9000, section 14.1).
    for (group, low, high) in [(0, 150.0, 500.0), (1, 800.0, 2_500.0), (2, 1_500.0, 6_000.0)] {
        let points = costs[group]["points"].as_array().unwrap();
        let point = |i: usize| (points[i][0].as_f64().unwrap(), points[i][1].as_f64().unwrap());
        let ((small, cheap), (far, dear), (farther, dearer)) = (point(0), point(2), point(3));
        assert!((low..high).contains(&(cheap - small)), "{costs}");
        // At best 1448 of 1514 bytes for TCP.
        assert!((1.03..1.2).contains(&((dearer - dear) / (farther - far))), "{costs}");
    }
    assert_eq!(costs[2], costs[3], "both go over QUIC");
    let value = |key: &str| values[key].as_f64().unwrap();
    let (link, useful) = (value("link_bytes"), value("useful_bytes"));
    // 2 Mbit/s for 4 s, and what a full queue of 30 packets may let through late.
    assert!(useful < link && link <= 1_000_000.0 + 30.0 * 1514.0, "{useful} of {link} bytes");
    let parts: f64 = ["tcp", "tls", "quic"].iter().map(|t| value(&format!("{t}_link_bytes"))).sum();
    assert!((parts - link).abs() < 0.5, "{parts} is not {link}");
    for key in ["waste", "tcp_waste", "tls_waste", "quic_waste"] {
        assert!((-0.1..1.0).contains(&value(key)), "{key}: {} of {costs}", value(key));
    }
    assert!(value("quic_connect_p95_s") >= value("quic_connect_p50_s"));
}

#[test]
fn a_sender_of_ours_is_loaded_for_the_time_of_the_lab() {
    if !possible() {
        return;
    }
    let place = Place::new("lent", SCENARIO);
    let settings = ["duration=2s", "congestion_control=narrows_is:iw=4"];
    let mut lab = place.lab(&["--only", "fifo:30", "--set", settings[0], "--set", settings[1]]);
    let child = lab.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let name = format!("lab{:x}", child.id());
    let out = child.wait_with_output().unwrap();
    let why = narrows_senders::possible().err().map(|e| format!("{e:#}"));
    if let Some(why) = why.or_else(|| text(&out).contains("mount -t bpf").then(|| text(&out))) {
        skip("a_sender_of_ours_is_loaded_for_the_time_of_the_lab", why);
        return;
    }
    assert!(out.status.success(), "{}", text(&out));
    let json = results(&place.0);
    assert_eq!(json["scenario"]["congestion_control"], "narrows_is:iw=4");
    assert_eq!(json["disciplines"][0]["runs"].as_array().unwrap().len(), 1);
    let left = narrows_senders::names(Path::new(narrows_senders::BPFFS));
    assert!(!left.contains(&name), "{left:?}");
}

#[test]
fn interrupted_it_cleans_up() {
    let Some((_place, mut child)) = under_way("int") else { return };
    let pid = child.id();
    std::thread::sleep(Duration::from_millis(500));
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap()),
        nix::sys::signal::Signal::SIGINT,
    )
    .unwrap();
    let mut status = None;
    wait_until("the end", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert!(!status.unwrap().success());
    assert_eq!(namespaces(pid), Vec::<String>::new());
}

#[test]
fn killed_it_leaves_no_program_and_the_next_sweep_takes_the_rest() {
    let Some((_place, mut child)) = under_way("kill") else { return };
    let pid = child.id();
    std::thread::sleep(Duration::from_millis(1000));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("no program left", || {
        namespaces(pid).iter().all(|n| {
            let pids = Command::new("ip").args(["netns", "pids", n]).output();
            pids.is_ok_and(|o| o.stdout.is_empty())
        })
    });
    bench::sweep();
    assert_eq!(namespaces(pid), Vec::<String>::new());
}
