//! Score of `narrows diagnose --json` on a recording, against the kernel's truth.
//!
//! At the sender each packet sent again is matched with the kernel's events one to one, in order, within 2 ms. One
//! event may be several packets, which the network card would have cut (TSO): packets within .2 ms after a matched one
//! go with it, after a fast retransmit as `recovery`, after a timeout as `after_timeout`. What is sent again without
//! an event is a tail-loss probe, for the kernel sends these by a function that has no tracepoint. Inferred events,
//! handshakes, and probes that are only possible (new data) are left out.
//!
//! Behind the link a loss is seen only by what comes later, so that counts are compared: what the kernel did until the
//! connection's last data packet passed there, against what is said.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use narrows_wire::capture::Reader;

use super::record::Recording;
use super::truth::{self, Resent, Truth, Way, Why};

/// Greatest distance in nanoseconds between an event of the kernel and the event's packet.
const MATCH_NS: i64 = 2_000_000;
/// Longest time after a matched packet in which another packet belongs to the same event.
const SAME_EVENT_NS: i64 = 200_000;

/// Counts of pairs of truth and verdict. The truth is never missing: a packet without an event is a probe.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Confusion(BTreeMap<(Why, Option<Why>), u64>);

impl Confusion {
    fn count(&mut self, was: Why, said: Option<Why>) {
        *self.0.entry((was, said)).or_default() += 1;
    }

    /// Number of times that the truth was `was` and the verdict `said`; `None` is no verdict.
    pub fn of(&self, was: Why, said: Option<Why>) -> u64 {
        self.0.get(&(was, said)).copied().unwrap_or(0)
    }

    /// Number of times that the truth was `why`.
    pub fn were(&self, why: Why) -> u64 {
        self.0.iter().filter(|((was, _), _)| *was == why).map(|(_, n)| n).sum()
    }

    fn said(&self, why: Why) -> u64 {
        self.0.iter().filter(|((_, said), _)| *said == Some(why)).map(|(_, n)| n).sum()
    }

    /// Share of the retransmissions said to be this that were so; `None` if none was said to be.
    pub fn precision(&self, why: Why) -> Option<f64> {
        ratio(self.of(why, Some(why)), self.said(why))
    }

    /// Share of the retransmissions that were this and were said to be; `None` if there were none.
    pub fn recall(&self, why: Why) -> Option<f64> {
        ratio(self.of(why, Some(why)), self.were(why))
    }
}

/// Counts of events and of verdicts, behind the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub were: u64,
    pub said: u64,
}

impl Counts {
    pub fn ratio(self) -> Option<f64> {
        ratio(self.said, self.were)
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Score of a recording.
#[derive(Debug, Default)]
pub struct Score {
    pub sender: Confusion,
    pub timeouts_behind: Counts,
    pub fast_behind: Counts,
    /// Ways that the kernel told of and that are not in the capture: of other programs on this machine.
    pub strangers: usize,
}

/// Scores a recording.
///
/// # Errors
/// If one of its files cannot be read, or the program does not diagnose a capture.
pub fn score(program: &Path, recording: &Recording) -> Result<Score> {
    let text = std::fs::read_to_string(&recording.offset);
    let text = text.with_context(|| format!("reading {}", recording.offset.display()))?;
    let offset_ns =
        truth::nanos(text.trim()).with_context(|| format!("reading {}", recording.offset.display()))?;
    // A command's name in the trace may be any bytes.
    let trace = std::fs::read(&recording.trace);
    let trace = trace.with_context(|| format!("reading {}", recording.trace.display()))?;
    let truth = truth::read(&String::from_utf8_lossy(&trace), offset_ns)
        .with_context(|| format!("reading {}", recording.trace.display()))?;
    let mut score = Score::default();
    let at_sender = diagnosed(program, &recording.server)?;
    at_sender.score_sender(&truth, &mut score);
    diagnosed(program, &recording.users)?.score_behind(&truth, &last_data(&recording.users)?, &mut score);
    Ok(score)
}

/// Parts of the diagnosis that are read: docs/reference/diagnosis.md.
#[derive(Deserialize)]
struct Diagnosed {
    origin_s: f64,
    flows: Vec<Connection>,
}

#[derive(Deserialize)]
struct Connection {
    opener: End,
    other: End,
    events: Vec<Told>,
}

#[derive(Clone, Copy, Deserialize)]
struct End {
    address: IpAddr,
    port: u16,
}

#[derive(Deserialize)]
struct Told {
    at_s: f64,
    frame: u64,
    /// Number of the end that sent again; 1 is the end that did not open the connection: here the server.
    by: u8,
    repair: String,
    inferred: bool,
    certainty: String,
}

impl Connection {
    /// Way from the server to the user.
    fn way(&self) -> Way {
        (self.other.address, self.other.port, self.opener.address, self.opener.port)
    }

    /// Retransmissions that a capture at the sender shows, in order.
    fn seen(&self, origin_s: f64) -> Vec<Resent> {
        let seen = |e: &&Told| {
            let possible_probe = e.repair == "probe" && e.certainty == "possible";
            e.by == 1 && !e.inferred && e.repair != "handshake" && !possible_probe
        };
        let mut events: Vec<(i64, u64, Why)> = self
            .events
            .iter()
            .filter(seen)
            .map(|e| (ns(origin_s + e.at_s), e.frame, Why::named(&e.repair).unwrap_or(Why::Unknown)))
            .collect();
        events.sort_unstable();
        events.into_iter().map(|(at_ns, _, why)| Resent { at_ns, why }).collect()
    }

    fn said(&self, why: Why) -> u64 {
        self.events.iter().filter(|e| e.by == 1 && e.repair == why.name()).count() as u64
    }
}

/// Nanoseconds since 1970; a float has them to a quarter of a microsecond.
fn ns(seconds: f64) -> i64 {
    (seconds * 1e9).round() as i64
}

fn diagnosed(program: &Path, capture: &Path) -> Result<Diagnosed> {
    let output = Command::new(program).args(["diagnose", "--json"]).arg(capture).output();
    let output = output.with_context(|| format!("starting {}", program.display()))?;
    // Its status is 1 where a stall is long.
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).with_context(|| {
        format!("{} diagnose --json {}: {}", program.display(), capture.display(), said.trim())
    })
}

impl Diagnosed {
    fn score_sender(&self, truth: &Truth, score: &mut Score) {
        let ways: BTreeSet<Way> = self.flows.iter().map(Connection::way).collect();
        // Only ways from a port of our servers': the other ends of our connections resend too.
        let servers: BTreeSet<u16> = ways.iter().map(|way| way.1).collect();
        score.strangers = truth.keys().filter(|way| servers.contains(&way.1) && !ways.contains(way)).count();
        for flow in &self.flows {
            let were = truth.get(&flow.way()).map_or(&[][..], Vec::as_slice);
            compare(were, &flow.seen(self.origin_s), &mut score.sender);
        }
    }

    fn score_behind(&self, truth: &Truth, last_ns: &BTreeMap<Way, i64>, score: &mut Score) {
        for flow in &self.flows {
            let way = flow.way();
            let were = truth.get(&way).map_or(&[][..], Vec::as_slice);
            let until_ns = last_ns.get(&way).copied().unwrap_or(0);
            let counts = |why| Counts {
                were: were.iter().filter(|r| r.why == why && r.at_ns <= until_ns).count() as u64,
                said: flow.said(why),
            };
            for (why, sum) in
                [(Why::Timeout, &mut score.timeouts_behind), (Why::FastRetransmit, &mut score.fast_behind)]
            {
                let more = counts(why);
                sum.were += more.were;
                sum.said += more.said;
            }
        }
    }
}

/// Matches the kernel's events of one way with the packets that were seen, both in order.
fn compare(were: &[Resent], seen: &[Resent], confusion: &mut Confusion) {
    let mut rest = were.iter().peekable();
    let mut matched: Option<Resent> = None;
    for packet in seen {
        while let Some(missed) = rest.next_if(|w| w.at_ns < packet.at_ns - MATCH_NS) {
            confusion.count(missed.why, None);
        }
        let was = if let Some(event) = rest.next_if(|w| (w.at_ns - packet.at_ns).abs() < MATCH_NS) {
            matched = Some(Resent { at_ns: packet.at_ns, why: event.why });
            event.why
        } else if let Some(event) = matched.filter(|m| packet.at_ns - m.at_ns < SAME_EVENT_NS) {
            match event.why {
                Why::FastRetransmit => Why::Recovery,
                Why::Timeout => Why::AfterTimeout,
                other => other,
            }
        } else {
            Why::Probe
        };
        confusion.count(was, Some(packet.why));
    }
    rest.for_each(|missed| confusion.count(missed.why, None));
}

/// Time of the last packet with data of each way.
fn last_data(capture: &Path) -> Result<BTreeMap<Way, i64>> {
    let reading = || format!("reading {}", capture.display());
    let mut reader = Reader::new(File::open(capture).with_context(reading)?).with_context(reading)?;
    let mut last = BTreeMap::new();
    while let Some(packet) = reader.next() {
        let packet = packet.with_context(reading)?;
        let key = packet.header.key;
        if packet.header.tcp.is_some_and(|tcp| tcp.payload > 0) {
            let at = i64::try_from(packet.at.as_nanos()).with_context(reading)?;
            let way = (key.src(), key.sport, key.dst(), key.dport);
            last.insert(way, reader.origin().unwrap_or(0) + at);
        }
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn all(list: &[(i64, Why)]) -> Vec<Resent> {
        list.iter().map(|&(at_ns, why)| Resent { at_ns, why }).collect()
    }

    fn compared(were: &[(i64, Why)], seen: &[(i64, Why)]) -> Confusion {
        let mut confusion = Confusion::default();
        compare(&all(were), &all(seen), &mut confusion);
        confusion
    }

    #[test]
    fn each_event_takes_one_packet() {
        let confusion = compared(
            &[(100 * MS, Why::Timeout), (300 * MS, Why::FastRetransmit), (900 * MS, Why::Timeout)],
            &[(100 * MS + 5_000, Why::Timeout), (299 * MS, Why::Timeout)],
        );
        assert_eq!(confusion.of(Why::Timeout, Some(Why::Timeout)), 1);
        assert_eq!(confusion.of(Why::FastRetransmit, Some(Why::Timeout)), 1);
        assert_eq!(confusion.of(Why::Timeout, None), 1);
        // One of two that were said, one of two that were; a fast retransmit was never said.
        assert_eq!(confusion.precision(Why::Timeout), Some(0.5));
        assert_eq!(confusion.recall(Why::Timeout), Some(0.5));
        assert_eq!(confusion.precision(Why::FastRetransmit), None);
        assert_eq!(confusion.recall(Why::FastRetransmit), Some(0.0));
    }

    #[test]
    fn packets_of_one_event_go_with_it() {
        let confusion = compared(
            &[(100 * MS, Why::FastRetransmit), (500 * MS, Why::Timeout)],
            &[
                (100 * MS, Why::FastRetransmit),
                (100 * MS + 50_000, Why::Recovery),
                (500 * MS, Why::Timeout),
                (500 * MS + 199_999, Why::AfterTimeout),
                // Too late for the same event: a probe, without a tracepoint.
                (500 * MS + 200_000, Why::Probe),
            ],
        );
        for why in [Why::FastRetransmit, Why::Recovery, Why::Timeout, Why::AfterTimeout, Why::Probe] {
            assert_eq!(confusion.of(why, Some(why)), 1, "{}", why.name());
        }
    }

    #[test]
    fn two_milliseconds_are_too_far() {
        let confusion = compared(&[(100 * MS, Why::Timeout)], &[(102 * MS, Why::Timeout)]);
        assert_eq!(confusion.of(Why::Probe, Some(Why::Timeout)), 1);
        assert_eq!(confusion.of(Why::Timeout, None), 1);
    }

    fn diagnosed(events: &str) -> Diagnosed {
        serde_json::from_str(&format!(
            "{{\"origin_s\": 10.0, \"flows\": [{{\"opener\": {{\"address\": \"10.0.0.1\", \"port\": 7}}, \
             \"other\": {{\"address\": \"10.0.0.2\", \"port\": 80}}, \"events\": [{events}]}}]}}"
        ))
        .unwrap()
    }

    fn event(at_s: f64, by: u8, repair: &str, inferred: bool, certainty: &str) -> String {
        format!(
            "{{\"at_s\": {at_s}, \"frame\": 1, \"by\": {by}, \"repair\": \"{repair}\", \
             \"inferred\": {inferred}, \"certainty\": \"{certainty}\"}}"
        )
    }

    #[test]
    fn what_a_sender_cannot_show_is_left_out() {
        let events = [
            event(2.0, 1, "timeout", false, "certain"),
            event(1.0, 1, "probe", false, "likely"),
            event(1.1, 1, "probe", false, "possible"),
            event(1.2, 1, "handshake", false, "certain"),
            event(1.3, 1, "timeout", true, "certain"),
            event(1.4, 0, "timeout", false, "certain"),
        ];
        let seen = diagnosed(&events.join(",")).flows[0].seen(10.0);
        assert_eq!(seen, all(&[(11_000 * MS, Why::Probe), (12_000 * MS, Why::Timeout)]));
    }

    #[test]
    fn behind_the_link_it_counts_until_the_last_data() {
        let way = (IpAddr::from([10, 0, 0, 2]), 80, IpAddr::from([10, 0, 0, 1]), 7);
        let mut stranger = way;
        stranger.3 = 8;
        let were =
            all(&[(11_000 * MS, Why::Timeout), (12_000 * MS, Why::Timeout), (13_000 * MS, Why::Timeout)]);
        let truth = Truth::from([(way, were.clone()), (stranger, were)]);
        let events = [event(1.0, 1, "timeout", true, "certain"), event(1.5, 1, "timeout", false, "likely")];
        let diagnosed = diagnosed(&[events[0].clone(), events[1].clone(), events[0].clone()].join(","));
        let mut score = Score::default();
        diagnosed.score_behind(&truth, &BTreeMap::from([(way, 12_000 * MS)]), &mut score);
        assert_eq!(score.timeouts_behind, Counts { were: 2, said: 3 });
        assert_eq!(score.timeouts_behind.ratio(), Some(1.5));
        assert_eq!(score.fast_behind.ratio(), None);
        diagnosed.score_sender(&truth, &mut score);
        assert_eq!(score.strangers, 1);
    }
}
