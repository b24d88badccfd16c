//! Events as a table, and what they say of each bound.

use std::fmt::Write as _;

use super::ledger::Record;

/// A gap of an upgrade or a hang, in milliseconds.
const GAP: u64 = 1000;
/// How much more the last third may hold than the first: what floods fill is as full as it gets after one round.
const FLAT: f64 = 1.1;

/// A line for each sort of event; `beyond` is what was lost beyond verdicts.
pub fn of(records: &[Record]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for record in records {
        if !names.contains(&record.event.as_str()) {
            names.push(&record.event);
        }
    }
    let mut out = format!(
        "{:<25}{:>6}{:>11}{:>6}{:>8}{:>18}{:>14}{:>9}{:>9}{:>9}\n",
        "event",
        "times",
        "datagrams",
        "lost",
        "beyond",
        "longest gap, ms",
        "of a flow, ms",
        "kbit/s",
        "kpps",
        "kB"
    );
    for name in names {
        let those: Vec<_> = records.iter().filter(|record| record.event == name).collect();
        let sum = |of: fn(&Record) -> u64| those.iter().map(|record| of(record)).sum::<u64>();
        let most = |of: fn(&Record) -> u64| those.iter().map(|record| of(record)).max().unwrap_or(0);
        let times = those.len() as u64;
        let _ = writeln!(
            out,
            "{name:<25}{times:>6}{:>11}{:>6}{:>8}{:>18}{:>14}{:>9}{:>9.1}{:>9}",
            sum(|r| r.sent),
            sum(|r| r.lost),
            sum(Record::beyond),
            most(|r| r.datagram_gap_ms),
            most(|r| r.flow_gap_ms),
            sum(|r| r.kbps) / times,
            sum(|r| r.flood_pps) as f64 / times as f64 / 1e3,
            most(|r| r.memory_kb)
        );
    }
    out
}

/// A line for each bound: whether it is met.
pub fn verdicts(records: &[Record]) -> String {
    let named = |names: &[&str]| -> Vec<&Record> {
        records.iter().filter(|record| names.contains(&record.event.as_str())).collect()
    };
    let quiet = named(&["reload", "upgrade"]);
    let lost: u64 = quiet.iter().map(|record| record.beyond()).sum();
    let gap = named(&["reload", "upgrade", "hang"]).iter().map(|r| r.datagram_gap_ms).max().unwrap_or(0);
    let broken = records.last().map_or(0, |record| record.broken);
    let third = records.len() / 3;
    let most = |part: &[Record], of: fn(&Record) -> u64| part.iter().map(of).max().unwrap_or(0);
    let growth = |of: fn(&Record) -> u64| {
        let (first, last) = (most(&records[..third], of), most(&records[records.len() - third..], of));
        (first, last, last as f64 <= first as f64 * FLAT)
    };
    let (memory, open) = (growth(|r| r.memory_kb), growth(|r| r.descriptors));
    let word = |met: bool| if met { "met   " } else { "MISSED" };
    // With less than a round in a third the two cannot be compared.
    let long = third >= super::Event::all().len();
    let lines = [
        (
            lost == 0,
            format!("packets lost beyond verdicts by {} reloads and upgrades: {lost} (0)", quiet.len()),
        ),
        (gap <= GAP, format!("longest gap of an upgrade, reload or hang: {gap} ms ({GAP})")),
        (broken == 0, format!("connections that broke: {broken} (0)")),
        (
            memory.2 || !long,
            format!("memory: {} kB in the first third, {} kB in the last", memory.0, memory.1),
        ),
        (open.2 || !long, format!("descriptors: {} in the first third, {} in the last", open.0, open.1)),
    ];
    let short = if long { "" } else { "memory and descriptors: not judged, less than three rounds\n" };
    lines.iter().map(|(met, line)| format!("{} {line}\n", word(*met))).chain([short.to_owned()]).collect()
}
