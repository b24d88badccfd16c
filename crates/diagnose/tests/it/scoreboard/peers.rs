//! Verdicts of tshark and tcptrace on the same captures, for the classes that they have. tshark (Wireshark's TCP
//! analysis) names retransmissions, fast and spurious ones; one that is neither is taken for a timeout, as it has no
//! other word for that. tcptrace only counts what was sent again.

use core::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;

use narrows_diagnose::FlowReport;
use narrows_units::{Duration, Instant};
use narrows_wire::capture::{Captured, Writer};

use crate::scoreboard::score::{self, Account, Score};
use crate::scoreboard::truth::{Books, Did};

/// The files begin a while after 1970, as tcptrace wants it, seconds.
const EPOCH: u64 = 1_000_000;

/// Runs a program and returns its output; `None` if it cannot be started.
fn printed(program: &str, args: &[&str]) -> Option<String> {
    let out = Command::new(program).args(args).output().ok()?;
    Some(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Writes a capture of both directions.
fn write(packets: &[(Instant, Captured)], to: &Path) {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for (at, c) in packets {
        writer.write(*at + Duration::from_secs(EPOCH), &c.header).unwrap();
    }
    std::fs::write(to, writer.into_inner()).unwrap();
}

/// Times that tshark gives for timeouts, for fast retransmissions, and for needless ones.
fn tshark(file: &str) -> Option<[Account; 3]> {
    let fields = [
        "frame.time_epoch",
        "ip.src",
        "tcp.srcport",
        "ip.dst",
        "tcp.dstport",
        "tcp.analysis.retransmission",
        "tcp.analysis.fast_retransmission",
        "tcp.analysis.spurious_retransmission",
    ];
    let mut args = vec!["-r", file, "-Y", "tcp.analysis.retransmission && tcp.len > 0", "-T", "fields"];
    args.extend(fields.iter().flat_map(|f| ["-e", f]));
    let mut accounts: [Account; 3] = Default::default();
    for line in printed("tshark", &args)?.lines() {
        let f: Vec<&str> = line.split('\t').collect();
        let end = |at: usize| SocketAddr::new(f[at].parse::<IpAddr>().unwrap(), f[at + 1].parse().unwrap());
        let which = match (f[6].is_empty(), f[7].is_empty()) {
            (true, true) => 0,
            (false, _) => 1,
            _ => 2,
        };
        let at = f[0].parse::<f64>().unwrap() - EPOCH as f64;
        accounts[which].entry((end(1), end(3))).or_default().push(at);
    }
    Some(accounts)
}

/// How many data packets tcptrace counts as sent again.
fn tcptrace(file: &str) -> Option<usize> {
    let text = printed("tcptrace", &["-l", "-n", file])?;
    let mut sum = 0;
    for line in text.lines().filter(|l| l.contains("rexmt data pkts:")) {
        let counts = line.split("rexmt data pkts:").skip(1);
        sum += counts.filter_map(|c| c.split_whitespace().next()?.parse::<usize>().ok()).sum::<usize>();
    }
    Some(sum)
}

/// Adds a peer's scores at a point to `add`, by class; says what is missing.
pub(crate) fn score(
    packets: &[(Instant, Captured)],
    books: &Books,
    flows: &[FlowReport],
    at: usize,
    add: &mut dyn FnMut(String, Score),
) {
    let scratch = narrows_testing::Scratch::new("scoreboard");
    let path = scratch.join("both.pcap");
    write(packets, &path);
    let file = path.to_string_lossy();
    let again = score::sent_again(books);
    let count = |said: usize| Score::new(again, said, again.min(said));
    let ours = flows.iter().flat_map(|f| &f.directions).map(|d| d.counts.again as usize).sum();
    add("sent again: count".to_owned(), count(ours));
    if let Some([timeouts, fast, spurious]) = tshark(&file) {
        add("tshark: timeout".to_owned(), Score::of(&score::did(books, Did::Timeout, at), &timeouts));
        add("tshark: fast_retransmit".to_owned(), Score::of(&score::did(books, Did::Fast, at), &fast));
        add("tshark: spurious".to_owned(), Score::of(&score::spurious(books), &spurious));
    } else {
        println!("tshark: not scored: it is not installed");
    }
    if let Some(said) = tcptrace(&file) {
        add("tcptrace: sent again".to_owned(), count(said));
    } else {
        println!("tcptrace: not scored: it is not installed");
    }
}
