//! Somebody else's labels: the captures of TCPRS (github.com/jswaro/tcprs), connections of 2010, with what TCPRS says
//! of each retransmission. NARROWS_CAPTURES names the folder; without it nothing is compared.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use narrows_diagnose::{Analyzer, AnalyzerLimits, Event, Repair};
use narrows_wire::capture::Reader;

/// Reason for which a sender sent again: its timer, or ACKs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    Timer,
    Acks,
    None,
}

/// TCPRS's `rtype`: 1, 14 and 15 are timeouts; 2 to 5, 9 to 13 and 16 follow from ACKs or from what came before. Others
/// say that it does not know.
fn theirs(rtype: u32) -> Option<Reason> {
    match rtype {
        1 | 14 | 15 => Some(Reason::Timer),
        2..=5 | 9..=13 | 16 => Some(Reason::Acks),
        _ => None,
    }
}

fn ours(repair: Repair) -> Reason {
    match repair {
        Repair::Timeout | Repair::Probe | Repair::Handshake => Reason::Timer,
        Repair::FastRetransmit | Repair::Recovery | Repair::AfterTimeout => Reason::Acks,
        Repair::Unknown => Reason::None,
    }
}

/// Events that we find, by the microsecond since 1970.
fn diagnosed(path: &Path) -> BTreeMap<i128, Event> {
    let mut reader = Reader::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut analyzer = Analyzer::new(AnalyzerLimits::default());
    for c in reader.by_ref().map_while(Result::ok) {
        analyzer.packet(c.at, c.frame, &c.header);
    }
    analyzer.finish();
    let origin = reader.origin().unwrap_or(0);
    let events: Vec<Event> = analyzer.finished().flat_map(|f| f.events).filter(|e| !e.inferred).collect();
    events.into_iter().map(|e| ((i128::from(origin) + i128::from(e.at.as_nanos())) / 1000, e)).collect()
}

fn logs(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            logs(&path, into);
        } else if path.to_string_lossy().ends_with(".tcpretransmissions.log") {
            into.push(path);
        }
    }
}

#[test]
fn reasons_of_retransmissions_agree() {
    let Some(dir) = std::env::var_os("NARROWS_CAPTURES") else {
        eprintln!("not compared: NARROWS_CAPTURES does not name a folder of labelled captures");
        return;
    };
    let mut paths = Vec::new();
    logs(Path::new(&dir), &mut paths);
    paths.sort();
    let (mut all, mut agreed) = (0, 0);
    for log in paths {
        let name = log.to_string_lossy().replace(".tcpretransmissions.log", ".pcap");
        let found = diagnosed(Path::new(&name));
        for line in std::fs::read_to_string(&log).unwrap().lines().filter(|l| !l.starts_with('#')) {
            let columns: Vec<&str> = line.split('\t').collect();
            let Some(theirs) = theirs(columns[12].parse().unwrap()) else { continue };
            let at = (columns[0].parse::<f64>().unwrap() * 1e6).round() as i128;
            // A double holds a time of 2010 to a quarter of a microsecond.
            let event = found.range(at - 1..=at + 1).next();
            let ours = event.map_or(Reason::None, |(_, e)| ours(e.repair));
            all += 1;
            agreed += u32::from(ours == theirs);
            if ours != theirs {
                println!("{name} {} sequence {}: theirs {theirs:?}, ours {event:?}", columns[0], columns[7]);
            }
        }
    }
    println!("{agreed} of {all} agree");
    assert!(all > 0 && f64::from(agreed) >= 0.9 * f64::from(all), "{agreed} of {all} agree");
}
