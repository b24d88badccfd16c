//! Compares the diagnosis of captures with the truth in the simulator: precision and recall of each class at each
//! point. `label` has the rules of the truth in words, `runs` what is simulated. The rules of the diagnosis were made
//! looking at seeds 1 to 3; `held_out` reports on others, and on other rates.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report")]

mod label;
mod peers;
pub(crate) mod runs;
mod score;
mod scripted;
mod table;
mod truth;

use std::collections::BTreeMap;
use std::path::Path;

use narrows_diagnose::{Analyzer, AnalyzerLimits, Cause, FlowReport};
use narrows_sim::Results;
use narrows_units::{Duration, Instant};
use narrows_wire::Flags;
use narrows_wire::capture::{Captured, Reader};

use runs::{Draw, WORKLOADS, Workload};
use score::{REPAIRS, Score};
use truth::{Books, POINTS};

/// Scores by class, at each point.
type Scores = BTreeMap<String, [Score; 3]>;

/// A link and its way back, in order.
pub(crate) fn capture(results: &Results, link: &str) -> Vec<(Instant, Captured)> {
    let mut packets = Vec::new();
    for (name, file) in &results.captures {
        if *name != link && *name != format!("{link}.back") {
            continue;
        }
        let mut reader = Reader::new(&file[..]).unwrap();
        let mut captured: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
        let origin = Duration::from_nanos(u64::try_from(reader.origin().unwrap_or(0)).unwrap());
        // The simulator's ends use SACK, but its captures do not have the option that says so.
        for tcp in captured.iter_mut().filter_map(|c| c.header.tcp.as_mut()) {
            tcp.beyond |= tcp.flags.has(Flags::SYN);
        }
        packets.extend(captured.into_iter().map(|c| (c.at + origin, c)));
    }
    packets.sort_by_key(|(at, _)| *at);
    packets
}

fn diagnose(packets: &[(Instant, Captured)]) -> Vec<FlowReport> {
    let mut analyzer = Analyzer::new(AnalyzerLimits::default());
    for (at, c) in packets {
        analyzer.packet(*at, c.frame, &c.header);
    }
    analyzer.finish();
    analyzer.finished().collect()
}

/// A cause, as JSON has it.
fn name(cause: Cause) -> String {
    serde_json::to_value(cause).unwrap().as_str().unwrap().to_owned()
}

/// Class of the truth that a cause claims: a wait in any queue is a delay, and `unknown` claims nothing.
fn claim(cause: Cause) -> Option<String> {
    match cause {
        Cause::Unknown => None,
        Cause::WaitsTurn | Cause::QueueBefore | Cause::QueueBehind => Some(name(Cause::PacketDelay)),
        cause => Some(name(cause)),
    }
}

/// Gives the scores of a run at a point to `add`.
fn point(books: &Books, flows: &[FlowReport], at: usize, add: &mut dyn FnMut(String, Score)) {
    for (name, did, repair) in REPAIRS {
        let said = score::said(flows, |e| e.repair == repair);
        add(name.to_owned(), Score::of(&score::did(books, did, at), &said));
    }
    add("spurious".to_owned(), Score::of(&score::spurious(books), &score::said(flows, |e| e.spurious)));
    let (truth, said) = (label::stalls(books), score::said_stalls(flows));
    let tables = [
        score::stalls(&truth, &said, at, |s| s.cause.map(name), |s| claim(s.cause)),
        score::stalls(&truth, &said, at, |s| score::place(s.lost[at]), |s| score::place(s.lost)),
        score::stalls(
            &truth,
            &said,
            at,
            |s| score::backoff(s.backoff).filter(|_| s.timeouts > 0),
            |s| score::backoff(s.backoff.into()).filter(|_| s.timeouts > 0),
        ),
    ];
    tables.into_iter().flatten().for_each(|(name, score)| add(name, score));
    if std::env::var_os("NARROWS_CONFUSION").is_some() {
        for ((truth, said), count) in score::confusion(&truth, &said, at) {
            println!("    {:<7} {truth:<22} -> {said:<22} {count:>6}", POINTS[at]);
        }
    }
}

/// Adds the scores of a workload, with those of other programs if they are asked for.
fn add_scores(scores: &mut Scores, workload: &Workload, draw: Draw, peers: bool) {
    let results = workload.run(draw);
    let books = truth::books(&results);
    for (at, link) in POINTS.iter().enumerate() {
        let packets = capture(&results, link);
        let flows = diagnose(&packets);
        let mut add = |name: String, score: Score| scores.entry(name).or_default()[at] += score;
        point(&books, &flows, at, &mut add);
        if peers {
            peers::score(&packets, &books, &flows, at, &mut add);
        }
    }
}

fn print(scores: &Scores) {
    let [sender, before, behind] = POINTS;
    println!("{:<24} {sender:^18} | {before:^18} | {behind:^18}", "number precision recall");
    for (name, points) in scores {
        println!("{name:<24} {} | {} | {}", points[0], points[1], points[2]);
    }
}

/// Least precision and recall, of timeouts, then of fast retransmits, at each point. Where it is less than .95, that is
/// a little below what seeds 2 and 3 have.
type Least = [[(f64, f64); 2]; 3];

/// Senders without timestamps. Behind the link more than one packet in ten is missing, and most of what a sender does
/// is told by the times between others, with a queue of 200 ms in them.
const WITHOUT_CLOCK: Least =
    [[(0.88, 0.95), (0.95, 0.88)], [(0.95, 0.92), (0.91, 0.95)], [(0.78, 0.8), (0.7, 0.9)]];
/// Senders with timestamps, which tell when each packet was sent, and what it answers.
const WITH_CLOCK: Least =
    [[(0.95, 0.95), (0.95, 0.95)], [(0.95, 0.95), (0.95, 0.92)], [(0.9, 0.88), (0.88, 0.76)]];

fn judge(workload: &str) {
    let workload = WORKLOADS.iter().find(|w| w.name == workload).unwrap();
    for (preset, least) in [("rfc", &WITHOUT_CLOCK), ("linux", &WITH_CLOCK)] {
        let mut scores = Scores::new();
        add_scores(&mut scores, workload, Draw { preset, seed: 1, other: false }, false);
        print(&scores);
        for (at, least) in least.iter().enumerate() {
            for (class, (precision, recall)) in ["timeout", "fast_retransmit"].iter().zip(least) {
                let s = scores[*class][at];
                let words = format!("{preset} {} {class}: {s}", POINTS[at]);
                assert!(s.precision() > *precision && s.recall() > *recall, "{words}");
            }
            let off = scores["timeout"][at].off().abs();
            assert!(off < [0.14, 0.05, 0.15][at], "{preset} {}: off by {off}", POINTS[at]);
        }
    }
}

#[test]
fn thirty_flows() {
    judge("flows30");
}

#[test]
fn two_hundred_flows() {
    judge("flows200");
}

#[test]
fn closed_windows() {
    for s in scripted::zero_windows() {
        assert!(s.truth == 1000 && s.precision() > 0.95 && s.recall() > 0.95, "{s}");
    }
}

/// Least precision and recall of a class.
fn bound(class: &str) -> f64 {
    if matches!(class, "timeout" | "fast_retransmit") { 0.95 } else { 0.85 }
}

/// Classes and places in [`POINTS`] where the bound is missed, with precision and recall a little below what seeds 4
/// and 5 have. Behind the link it is for want of what was lost before: the capture does not hold it.
const MISSED: [(&str, usize, f64, f64); 19] = [
    // Without timestamps and D-SACK nothing tells a needless repair of a single segment.
    ("spurious", 0, 0.81, 0.65),
    ("spurious", 1, 0.75, 0.75),
    // An end that closes second sends one packet at last, a FIN with the last ACK. What the next three bounds owe to
    // that, and what to the rest of the senders, was not taken apart.
    ("ack_delayed_or_lost", 1, 0.85, 0.69),
    ("packet_delay", 1, 0.53, 0.9),
    ("continuous_loss", 1, 0.67, 0.95),
    ("timeout", 2, 0.91, 0.9),
    ("fast_retransmit", 2, 0.84, 0.89),
    ("tail_probe", 2, 0.89, 0.65),
    ("back-off 2", 2, 0.92, 0.76),
    ("back-off 4", 2, 0.82, 0.88),
    ("ack_delayed_or_lost", 2, 0.96, 0.83),
    ("client_idle", 2, 0.81, 0.94),
    // Simulated packets have no identification, so what did not come and what was not sent look alike.
    ("data_unavailable", 1, 0.95, 0.75),
    ("data_unavailable", 2, 0.95, 0.5),
    // A FIN whose acknowledgment was lost looks the same without D-SACK.
    ("closing", 0, 0.88, 0.8),
    ("closing", 1, 0.85, 0.75),
    ("lost behind", 2, 0.53, 0.85),
    ("small_congestion_window", 2, 0.6, 0.7),
    ("tail_loss", 2, 0.69, 0.67),
];
/// Classes that the point behind the link does not tell at all: a window that was lost whole, and a delay before the
/// capture.
const HIDDEN: [&str; 2] = ["continuous_loss", "packet_delay"];

fn hold(scores: &Scores) {
    for (name, points) in scores.iter().filter(|(name, _)| !name.contains(':')) {
        for (at, s) in points.iter().enumerate().filter(|(_, s)| s.truth > 0) {
            if at == 2 && HIDDEN.contains(&name.as_str()) {
                continue;
            }
            let missed = MISSED.iter().find(|(class, point, ..)| *class == name && *point == at);
            let least = missed.map_or((bound(name), bound(name)), |m| (m.2, m.3));
            assert!(s.precision() >= least.0 && s.recall() >= least.1, "{name} {}: {s}", POINTS[at]);
            assert!(s.truth >= 900, "{name} {}: too few", POINTS[at]);
        }
    }
}

/// Runs with seeds and rates that were not looked at. NARROWS_SCOREBOARD=DIR writes the table and the picture there;
/// NARROWS_SEED=1 shows what was looked at.
#[test]
#[ignore = "five minutes"]
fn held_out() {
    let looked_at = std::env::var("NARROWS_SEED").is_ok_and(|seed| seed == "1");
    let draws: &[(u64, bool)] = if looked_at { &[(1, false)] } else { &[(4, false), (5, false), (4, true)] };
    let mut all = Scores::new();
    let mut tables = Vec::new();
    for (preset, senders) in [("rfc", "rfc"), ("linux", "linux")] {
        let mut scores = Scores::new();
        for (seed, other) in draws {
            for w in &WORKLOADS {
                let peers = *seed == 4 && !other && ["flows30", "flows200", "objects"].contains(&w.name);
                add_scores(&mut scores, w, Draw { preset, seed: *seed, other: *other }, peers);
            }
        }
        for (name, points) in &scores {
            let sum = all.entry(name.clone()).or_default();
            (0..3).for_each(|n| sum[n] += points[n]);
        }
        println!("{senders}");
        print(&scores);
        tables.push((senders, scores));
    }
    all.insert(name(Cause::ZeroWindow), scripted::zero_windows());
    println!("all");
    print(&all);
    if let Some(dir) = std::env::var_os("NARROWS_SCOREBOARD") {
        let dir = Path::new(&dir);
        let title = "narrows diagnose against what happened: cargo xtask scoreboard";
        std::fs::write(dir.join("scoreboard.svg"), table::svg(title, &all, bound)).unwrap();
        tables.push(("all", all.clone()));
        std::fs::write(dir.join("scoreboard.csv"), table::csv(title, &tables)).unwrap();
    }
    if !looked_at {
        hold(&all);
    }
}
