//! One flow of a real kernel over the lab's link, and the preset `linux` in the simulator over the same link, from the
//! same file: goodput within 3 %, retransmitted share within a factor of 1.3. What had to be taught to the preset for
//! that, and what kernels do differently from one run to the next, is in `docs/explanation/trust.md`.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report")]

use core::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use narrows_lab::bench;
use narrows_scenario::Experiment;
use narrows_testing::{Scratch, skip, skip_part};
use narrows_units::Bytes;
use serde_json::Value;

/// Lateness that makes a run say more of the machine than of TCP, milliseconds: a packet's time on the fastest link
/// here.
const LATE_MS: f64 = 1.2;
/// Lateness that excuses a run that disagrees: half of a packet's time.
const DISTURBED_MS: f64 = 0.6;

/// A link, its queue, and a congestion control.
struct Case {
    name: &'static str,
    sets: [&'static str; 4],
}

const fn case(name: &'static str, sets: [&'static str; 4]) -> Case {
    Case { name, sets }
}

/// 2 Mbit/s and 40 ms hold 6.6 packets of 1514 bytes, 10 Mbit/s and 20 ms 16.5: the queues are half of that, or, for
/// Reno on the slower link, one and a half. (With four packets there a kernel's own runs differ by a factor of 1.8.)
const CASES: [Case; 4] = [
    case("reno-2", ["rate=2mbit", "rtt=40ms", "discipline=fifo:10", "congestion_control=reno"]),
    case("cubic-2", ["rate=2mbit", "rtt=40ms", "discipline=fifo:4", "congestion_control=cubic"]),
    case("reno-10", ["rate=10mbit", "rtt=20ms", "discipline=fifo:9", "congestion_control=reno"]),
    case("cubic-10", ["rate=10mbit", "rtt=20ms", "discipline=fifo:9", "congestion_control=cubic"]),
];

/// Goodput in kbit/s, and the share of data segments that were retransmissions.
type Figures = (f64, f64);

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/trust/kernel-flow.toml")
}

/// The program: NARROWS_BIN, or beside this test.
fn program() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok()?.parent()?.parent()?.join("narrows");
    std::env::var_os("NARROWS_BIN").map(PathBuf::from).or(Some(beside)).filter(|p| p.exists())
}

fn start(program: &Path, case: &Case, place: &Path) -> Child {
    let mut command = Command::new(program);
    command.arg("lab").arg(file()).arg("--out").arg(place);
    for set in case.sets.iter().copied().chain([format!("name={}", case.name).as_str()]) {
        command.args(["--set", set]);
    }
    let log = std::fs::File::create(place.join(format!("{}.log", case.name))).unwrap();
    command.stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

/// Figures measured in the lab, and the lab's lateness in milliseconds.
fn in_the_lab(case: &Case, place: &Path) -> (Figures, f64) {
    let text = std::fs::read_to_string(place.join(format!("{}.json", case.name))).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    let values = &json["disciplines"][0]["runs"][0]["values"];
    let get = |key: &str| values[key].as_f64().unwrap_or_else(|| panic!("{key} is missing from {values}"));
    let late = get("emulator_late_p99_ms").max(get("box_wait_p99_ms"));
    ((get("goodput_kbps"), get("retransmitted")), late)
}

/// Figures of the same case in the simulator. The lab's box lets a packet go when its time on the link begins, a
/// simulated link delivers it when that time ends, so the propagation is shorter by the time of one packet.
fn simulated(case: &Case) -> Figures {
    let load = |sets: &[String]| Experiment::load(&file(), sets).unwrap().expand().unwrap().remove(0);
    let mut sets: Vec<String> = case.sets.iter().map(|s| (*s).to_owned()).collect();
    let scenario = load(&sets).scenario;
    let thin = scenario.thin.as_ref().unwrap();
    let packet = thin.rate.time_to_send(Bytes(u64::from(scenario.mtu + thin.overhead)));
    sets.push(format!("rtt={}us", thin.rtt.0.saturating_sub(packet).as_nanos() / 1000));
    let run = load(&sets);
    let results = narrows_sim::run(&run.scenario, run.seed, &mut |_| ControlFlow::Continue(())).unwrap();
    (results.summary["goodput_kbps"], results.summary["retransmitted"])
}

/// The name that skips are told by.
const TEST: &str = "a_kernels_flow_and_its_preset_agree";

#[test]
fn a_kernels_flow_and_its_preset_agree() {
    let program = match (bench::available(), program()) {
        (Err(why), _) => return skip(TEST, format!("{why:#}")),
        (_, None) => return skip(TEST, "needs the program: NARROWS_BIN"),
        (_, Some(program)) => program,
    };
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    let place = Scratch::new("live-flow");
    let mut running = Vec::new();
    for case in &CASES {
        let (_, control) = case.sets[3].split_once('=').unwrap();
        if known.split_whitespace().any(|k| k == control) {
            running.push((case, start(&program, case, &place)));
        } else {
            skip_part(TEST, case.name, format!("this kernel has {}", known.trim()));
        }
    }
    // A busy machine disturbs a run now and then, a wrong model every run: what disagrees is run again by itself.
    let mut wrong = Vec::new();
    for (case, child) in running {
        let mut outcome = compare(case, child, &place);
        for _ in 0..2 {
            if outcome.is_err() {
                outcome = compare(case, start(&program, case, &place), &place);
            }
        }
        wrong.extend(outcome.err());
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Waits for a run of the lab and sets the simulated one beside it; an error says how far apart they are.
fn compare(case: &Case, mut child: Child, place: &Path) -> Result<(), String> {
    let log = || std::fs::read_to_string(place.join(format!("{}.log", case.name))).unwrap_or_default();
    assert!(child.wait().unwrap().success(), "{}: {}", case.name, log());
    let sim = simulated(case);
    let (lab, late) = in_the_lab(case, place);
    let (goodput, share) = (sim.0 / lab.0, sim.1 / lab.1);
    let line = format!(
        "{}: kernel {:.0} kbit/s, {:.2} % retransmitted; simulated {:.0}, {:.2} %: {goodput:.3}, {share:.2} times; \
         late by {late:.2} ms",
        case.name,
        lab.0,
        lab.1 * 100.0,
        sim.0,
        sim.1 * 100.0,
    );
    println!("{line}");
    let agree = (goodput - 1.0).abs() <= 0.03 && (1.0 / 1.3..=1.3).contains(&share);
    if late > if agree { LATE_MS } else { DISTURBED_MS } {
        skip_part(TEST, case.name, format!("the machine was late by {late:.2} ms: {line}"));
        return Ok(());
    }
    if agree { Ok(()) } else { Err(line) }
}
