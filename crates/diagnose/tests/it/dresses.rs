//! A metamorphic test: the packets of one story in every dress, link layers, tunnels, file formats, clocks, copies and
//! cuts. The diagnosis of each dress is that of the plain one, or the page names what is missing and why.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report")]

mod files;
mod labelled;
mod mutations;
mod wrap;

use std::io::{Cursor, Read};
use std::sync::LazyLock;

use narrows_diagnose::files::{Inputs, ReadAhead};
use narrows_diagnose::{Analyzer, AnalyzerLimits, FlowReport};
use narrows_wire::{Flags, FlowKey, Header, build};

use crate::scoreboard::capture;
use crate::scoreboard::runs::{Draw, WORKLOADS};
use wrap::{FRAMES, Order, Packet, TUNNELS, ethernet};

/// Packets of the connection of the story.
const LENGTH: usize = 400;
/// 2023, in nanoseconds since 1970.
const ORIGIN: u64 = 1_700_000_000_000_000_000;

/// One connection of a simulated thin link, with its stalls, as the senders' side sees it.
static STORY: LazyLock<Vec<(u64, Header)>> = LazyLock::new(|| {
    let workload = WORKLOADS.iter().find(|w| w.name == "flows30").unwrap();
    let results = workload.run(Draw { preset: "linux", seed: 1, other: false });
    let packets = capture(&results, "before");
    let opens = packets.iter().filter(|(_, c)| c.header.tcp.is_some_and(|t| t.flags.has(Flags::SYN)));
    let keys: Vec<FlowKey> = opens.map(|(_, c)| c.header.key).collect();
    let of = |key: FlowKey| {
        packets.iter().filter(move |(_, c)| c.header.key == key || c.header.key == key.reverse())
    };
    // The one with most packets that were sent again early.
    let again = |key: &FlowKey| {
        let mut highest = std::collections::BTreeMap::new();
        of(*key)
            .take(LENGTH)
            .filter(|(_, c)| c.header.is_tcp_data())
            .filter(|(_, c)| {
                let end = c.header.tcp.unwrap().seq_end();
                let high = highest.entry(c.header.key).or_insert(end);
                let again = end.before(*high);
                *high = if again { *high } else { end };
                again
            })
            .count()
    };
    let key = keys.into_iter().max_by_key(again).unwrap();
    let micros = |at: u64| at / 1000 * 1000;
    of(key).take(LENGTH).map(|(at, c)| (micros(at.as_nanos()), c.header)).collect()
});

/// The story's packets as bytes. Each end counts its packets, as Linux does.
fn packets() -> Vec<Packet> {
    dressed(|header| *header)
}

fn dressed(change: impl Fn(&Header) -> Header) -> Vec<Packet> {
    let changed: Vec<_> = STORY.iter().map(|(at, header)| (*at, change(header))).collect();
    as_bytes(&changed)
}

/// Headers as packets. Each end of a connection counts those it sends.
fn as_bytes(headers: &[(u64, Header)]) -> Vec<Packet> {
    let mut openers = std::collections::BTreeSet::new();
    let mut ids = std::collections::BTreeMap::new();
    let packet = |(at, header): &(u64, Header)| {
        let key = header.key;
        if !openers.contains(&key.reverse()) {
            openers.insert(key);
        }
        let forth = openers.contains(&key);
        let id: &mut u16 = ids.entry(key).or_insert(if forth { 40_000 } else { 100 });
        *id = id.wrapping_add(1);
        let mut bytes = Vec::new();
        let len = build(header, *id, &mut bytes);
        bytes.resize(len, 0);
        Packet { at: ORIGIN + at, forth, bytes }
    };
    headers.iter().map(packet).collect()
}

/// Findings about files: connections, remarks, and the sentence about all else.
#[derive(Debug)]
struct Found {
    flows: Vec<FlowReport>,
    remarks: Vec<String>,
    instead: String,
}

impl Found {
    fn says(&self, words: &str) -> bool {
        self.remarks.iter().any(|line| line.contains(words))
    }
}

/// Findings about files, the same whether a thread of their own reads them ahead or none does.
fn diagnose(files: Vec<Vec<u8>>) -> anyhow::Result<Found> {
    let here = findings(ReadAhead::in_place(opened(files.clone())?));
    let ahead = findings(ReadAhead::in_thread(opened(files)?));
    assert_eq!(format!("{here:?}"), format!("{ahead:?}"));
    Ok(here)
}

fn opened(files: Vec<Vec<u8>>) -> anyhow::Result<Inputs> {
    let named = |(n, file): (usize, Vec<u8>)| {
        (format!("file {n}"), Box::new(Cursor::new(file)) as Box<dyn Read + Send>)
    };
    Inputs::of(files.into_iter().enumerate().map(named).collect())
}

fn findings(mut packets: ReadAhead) -> Found {
    let mut analyzer = Analyzer::new(AnalyzerLimits::default());
    let mut flows = Vec::new();
    while let Some(packet) = packets.next() {
        analyzer.packet(packet.at, packet.frame, &packet.header);
        flows.extend(analyzer.finished());
    }
    analyzer.finish();
    flows.extend(analyzer.finished());
    flows.sort_by_key(|f| f.number);
    let inputs = packets.finish();
    Found { flows, remarks: inputs.remarks(), instead: inputs.instead() }
}

fn found(file: Vec<u8>) -> Found {
    diagnose(vec![file]).unwrap()
}

static PLAIN: LazyLock<Found> = LazyLock::new(|| found(Order(false).pcap(false, 1, &framed(ethernet))));

fn framed(frame: impl Fn(&Packet) -> Vec<u8>) -> Vec<(u64, Vec<u8>)> {
    packets().iter().map(|p| (p.at, frame(p))).collect()
}

/// Difference of these findings from those of the plain capture: counts and causes are the same, times within so many
/// milliseconds.
fn differs(found: &Found, millis: u64) -> Option<String> {
    let [a] = &PLAIN.flows[..] else { return Some("the plain capture has one connection".into()) };
    let [b] = &found.flows[..] else { return Some(format!("{} connections: {found:?}", found.flows.len())) };
    connections_differ(a, b, millis)
}

fn connections_differ(a: &FlowReport, b: &FlowReport, millis: u64) -> Option<String> {
    if a.packets != b.packets {
        return Some(format!("{} packets of {}", b.packets, a.packets));
    }
    for (a, b) in a.directions.iter().zip(&b.directions) {
        if a.counts != b.counts {
            return Some(format!("{:?} in place of {:?}", b.counts, a.counts));
        }
        if a.vantage != b.vantage {
            return Some(format!("{:?} in place of {:?}", b.vantage, a.vantage));
        }
    }
    if a.stalls.len() != b.stalls.len() {
        return Some(format!("{} stalls of {}", b.stalls.len(), a.stalls.len()));
    }
    for (a, b) in a.stalls.iter().zip(&b.stalls) {
        let verdict = |s: &narrows_diagnose::Stall| {
            (s.cause, s.repair, s.timeouts, s.backoff, s.lost, s.certainty, s.ended)
        };
        if verdict(a) != verdict(b) || a.length().as_millis().abs_diff(b.length().as_millis()) > millis {
            return Some(format!("{b:?} in place of {a:?}"));
        }
    }
    None
}

/// Collects dresses that differ.
#[derive(Default)]
struct Table(Vec<String>);

impl Table {
    fn same(&mut self, what: &str, found: &Found) {
        self.within(what, found, 2);
    }
    fn within(&mut self, what: &str, found: &Found, millis: u64) {
        self.0.extend(differs(found, millis).map(|why| format!("{what}: {why}; {:?}", found.remarks)));
    }
    fn says(&mut self, what: &str, found: &Found, words: &str) {
        if !found.says(words) {
            self.0.push(format!("{what}: nothing of \"{words}\" in {:?}", found.remarks));
        }
    }
    fn none(self) {
        assert!(self.0.is_empty(), "{}", self.0.join("\n"));
    }
}

#[test]
fn the_story_has_something_to_tell() {
    let [flow] = &PLAIN.flows[..] else { panic!("one connection") };
    let counts = flow.counts();
    assert!(!flow.stalls.is_empty() && counts.timeouts >= 1 && counts.fast_retransmits >= 1, "{flow:?}");
    assert!(PLAIN.remarks.is_empty(), "{:?}", PLAIN.remarks);
}

#[test]
fn every_link_layer() {
    let mut table = Table::default();
    for (what, link, frame) in FRAMES {
        let found = found(Order(false).pcap(false, *link, &framed(frame)));
        table.same(what, &found);
        if !found.remarks.is_empty() {
            table.0.push(format!("{what}: {:?}", found.remarks));
        }
    }
    table.none();
}

#[test]
fn every_tunnel() {
    let mut table = Table::default();
    for (what, frame) in TUNNELS {
        let found = found(Order(false).pcap(false, 1, &framed(frame)));
        table.same(what, &found);
        if !what.starts_with("authentication") && !what.starts_with("ESP that encrypts") {
            table.says(what, &found, "came through tunnels");
        }
    }
    table.none();
}

/// A tunnel in a link layer in a format: some of all pairs.
#[test]
fn dresses_upon_dresses() {
    let mut table = Table::default();
    for (n, (tunnel, frame)) in TUNNELS.iter().enumerate() {
        let (layer, link, outer) = FRAMES[(n * 7 + 3) % FRAMES.len()];
        // The tunnel's packet without its frame of Ethernet.
        let both = |p: &Packet| outer(&Packet { bytes: frame(p)[14..].to_vec(), ..p.clone() });
        let found = found(Order(n % 2 == 0).pcap(n % 3 == 0, link, &framed(both)));
        table.same(&format!("{tunnel} in {layer}"), &found);
    }
    table.none();
}
