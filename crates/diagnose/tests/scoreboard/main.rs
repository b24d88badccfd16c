//! What the diagnosis says of captures against the senders' own account, in the simulator: precision and recall, by
//! class. NARROWS_SCORE=DIR also writes captures and accounts there, for other tools.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report")]

use core::net::SocketAddr;
use core::ops::ControlFlow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use narrows_diagnose::{Analyzer, AnalyzerLimits, Event, FlowReport, Repair};
use narrows_scenario::Experiment;
use narrows_sim::{Data, Results};
use narrows_units::Duration;
use narrows_wire::capture::Reader;

/// Who sends to whom.
type Pair = (SocketAddr, SocketAddr);
/// Times in seconds of what happened.
type Account = BTreeMap<Pair, Vec<f64>>;

fn simulate(sets: &[&str]) -> Results {
    let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
    let runs = Experiment::parse(include_str!("thin.toml"), &sets).unwrap().expand().unwrap();
    let results =
        narrows_sim::run(&runs[0].scenario, runs[0].seed, &mut |_| ControlFlow::Continue(())).unwrap();
    if let Some(dir) = std::env::var_os("NARROWS_SCORE") {
        write_out(&results, Path::new(&dir), &sets.join("-").replace(['=', '.'], "_"));
    }
    results
}

fn write_out(results: &Results, dir: &Path, name: &str) {
    std::fs::create_dir_all(dir).unwrap();
    for (link, file) in &results.captures {
        std::fs::write(dir.join(format!("{name}.{link}.pcap")), file).unwrap();
    }
    let mut text = String::new();
    for repair in ["timeout", "fast_retransmit", "tail_probe"] {
        for ((from, to), times) in account(results, repair) {
            for time in times {
                let _ = writeln!(text, "{time},{from},{to},{repair}");
            }
        }
    }
    std::fs::write(dir.join(format!("{name}.repairs.csv")), text).unwrap();
}

/// What the senders themselves say.
fn account(results: &Results, repair: &str) -> Account {
    let table = results.tables.iter().find(|t| t.name == "repairs").unwrap();
    let column = |name: &str| &table.columns.iter().find(|c| c.name == name).unwrap().data;
    let words = |name: &str| if let Data::Text(w) = column(name) { w } else { panic!("{name}") };
    let Data::F64(times) = column("time_s") else { panic!("time_s") };
    let mut account = Account::new();
    for (n, what) in words("repair").iter().enumerate().filter(|(_, what)| *what == repair) {
        let _ = what;
        let pair = (words("from")[n].parse().unwrap(), words("to")[n].parse().unwrap());
        account.entry(pair).or_default().push(times[n]);
    }
    account
}

/// Diagnoses a link and its way back.
fn diagnose(results: &Results, link: &str) -> Vec<FlowReport> {
    let mut packets = Vec::new();
    for (name, file) in &results.captures {
        if *name != link && *name != format!("{link}.back") {
            continue;
        }
        let mut reader = Reader::new(&file[..]).unwrap();
        let captured: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
        let origin = Duration::from_nanos(u64::try_from(reader.origin().unwrap()).unwrap());
        packets.extend(captured.into_iter().map(|c| (c.at + origin, c)));
    }
    packets.sort_by_key(|(at, _)| *at);
    let mut analyzer = Analyzer::new(AnalyzerLimits::default());
    for (at, c) in &packets {
        analyzer.packet(*at, c.frame, &c.header);
    }
    analyzer.finish();
    analyzer.finished().collect()
}

/// What the diagnosis says.
fn said(flows: &[FlowReport], repair: Repair) -> Account {
    let mut account = Account::new();
    for flow in flows {
        let ends = [flow.opener, flow.other].map(|e| SocketAddr::new(e.address, e.port));
        for e in flow.events.iter().filter(|e: &&Event| e.repair == repair) {
            let by = usize::from(e.by);
            account.entry((ends[by], ends[1 - by])).or_default().push(e.at.as_secs_f64());
        }
    }
    account.values_mut().for_each(|times| times.sort_by(f64::total_cmp));
    account
}

/// How well one account agrees with the truth.
#[derive(Clone, Copy, Debug)]
struct Score {
    truth: usize,
    said: usize,
    precision: f64,
    recall: f64,
}

impl Score {
    /// One is the other if they are at most .6 s apart, the way to the capture and a wait in the queue included, and a
    /// quarter of the time since the event before: what was not seen can only be placed by its back-off.
    fn of(truth: &Account, said: &Account) -> Self {
        let none = Vec::new();
        let mut right = 0;
        for (pair, times) in truth {
            let found = said.get(pair).unwrap_or(&none);
            let mut used = vec![false; found.len()];
            let mut before = 0.0;
            for time in times {
                let near = 0.6 + (time - before).min(60.0) / 4.0;
                before = *time;
                let best = (0..found.len())
                    .filter(|n| !used[*n] && (found[*n] - time).abs() <= near)
                    .min_by(|a, b| (found[*a] - time).abs().total_cmp(&(found[*b] - time).abs()));
                if let Some(n) = best {
                    used[n] = true;
                    right += 1;
                }
            }
        }
        let count = |a: &Account| a.values().map(Vec::len).sum::<usize>();
        let share = |of: usize| if of == 0 { 1.0 } else { f64::from(right) / of as f64 };
        let (truth, said) = (count(truth), count(said));
        Self { truth, said, precision: share(said), recall: share(truth) }
    }

    fn off(self) -> f64 {
        self.said as f64 / self.truth as f64 - 1.0
    }
}

const CLASSES: [(Repair, &str); 3] = [
    (Repair::Timeout, "timeout"),
    (Repair::FastRetransmit, "fast_retransmit"),
    (Repair::Probe, "tail_probe"),
];

/// The scores at the senders, before and behind the link, of timeouts, fast retransmits and probes.
fn scores(sets: &[&str]) -> [[Score; 3]; 3] {
    let results = simulate(sets);
    ["sender", "before", "thin"].map(|link| {
        let flows = diagnose(&results, link);
        CLASSES.map(|(repair, name)| {
            let score = Score::of(&account(&results, name), &said(&flows, repair));
            println!(
                "{:<44} {link:<7} {name:<16} truth {:>6} said {:>6} precision {:.3} recall {:.3}",
                sets.join(" "),
                score.truth,
                score.said,
                score.precision,
                score.recall
            );
            score
        })
    })
}

/// What is asked for at a point: how far the count of timeouts may be off, then precision and recall of timeouts and
/// of fast retransmits.
struct Least {
    off: f64,
    timeouts: (f64, f64),
    fast: (f64, f64),
}

/// Senders without timestamps, at the three points. Behind the link more than one packet in ten is missing, and most of
/// what a sender does is told by the times between others, with a queue of 200 ms in them.
const WITHOUT_CLOCK: [Least; 3] = [
    Least { off: 0.22, timeouts: (0.8, 0.98), fast: (0.98, 0.8) },
    Least { off: 0.05, timeouts: (0.95, 0.95), fast: (0.93, 0.97) },
    Least { off: 0.11, timeouts: (0.75, 0.7), fast: (0.7, 0.9) },
];
/// With timestamps, which tell when was sent what passes.
const WITH_CLOCK: [Least; 3] = [
    Least { off: 0.03, timeouts: (0.97, 0.97), fast: (0.98, 0.98) },
    Least { off: 0.06, timeouts: (0.93, 0.98), fast: (0.93, 0.97) },
    Least { off: 0.11, timeouts: (0.95, 0.87), fast: (0.9, 0.95) },
];

fn judge(sets: &[&str], least: &[Least; 3]) {
    let reaches = |score: Score, (precision, recall)| score.precision > precision && score.recall > recall;
    for seed in ["seeds=1..1", "seeds=2..2"] {
        let sets = [sets, &[seed]].concat();
        for (point, (least, [timeouts, fast, _])) in least.iter().zip(scores(&sets)).enumerate() {
            assert!(timeouts.off().abs() < least.off, "{sets:?} at {point}: {timeouts:?}");
            assert!(reaches(timeouts, least.timeouts), "{sets:?} at {point}: {timeouts:?}");
            assert!(reaches(fast, least.fast), "{sets:?} at {point}: {fast:?}");
        }
    }
}

#[test]
fn thirty_flows() {
    judge(&["vars.flows=30"], &WITHOUT_CLOCK);
    judge(&["vars.flows=30", "tcp.preset=linux"], &WITH_CLOCK);
}

#[test]
fn two_hundred_flows() {
    judge(&["vars.flows=200"], &WITHOUT_CLOCK);
    judge(&["vars.flows=200", "tcp.preset=linux"], &WITH_CLOCK);
}
