//! Compares captures of the same seconds of one lab, taken at the server and at the users: 20 users through 600 kbit/s,
//! with drop-tail and with TAQ. NARROWS_CASES names the folder; without it nothing is looked at.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report")]

use std::path::Path;

use narrows_diagnose::{Analyzer, AnalyzerLimits, Cause, Certainty, FlowReport, Place, Stall};
use narrows_wire::capture::Reader;

fn diagnosed(name: &str) -> Option<Vec<FlowReport>> {
    let Some(folder) = std::env::var_os("NARROWS_CASES") else {
        println!("SKIP {name}: NARROWS_CASES names no folder of cases");
        return None;
    };
    let path = Path::new(&folder).join("vantage").join(name);
    let reader = Reader::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut analyzer = Analyzer::new(AnalyzerLimits::default());
    for packet in reader {
        let packet = packet.unwrap();
        analyzer.packet(packet.at, packet.frame, &packet.header);
    }
    analyzer.finish();
    Some(analyzer.finished().collect())
}

/// Share of the stalled time that is said to be so.
fn share(flows: &[FlowReport], of: impl Fn(&Stall) -> bool) -> f64 {
    let sum = |of: &dyn Fn(&Stall) -> bool| -> f64 {
        let stalls = flows.iter().flat_map(|f| &f.stalls).filter(|s| s.cause.counts() && of(s));
        stalls.map(|s| s.length().as_secs_f64()).sum()
    };
    sum(&of) / sum(&|_| true)
}

fn blames_application(s: &Stall) -> bool {
    s.cause == Cause::DataUnavailable
}

#[test]
fn answers_that_wait_their_turn_are_no_fault_of_the_server() {
    let Some(flows) = diagnosed("users-taq.pcap") else { return };
    assert!(share(&flows, blames_application) < 0.02);
    assert!(share(&flows, |s| s.cause.is_delay()) > 0.8);
    assert!(share(&flows, |s| s.cause == Cause::Unknown) < 0.15);
}

#[test]
fn answers_that_are_lost_are_no_fault_of_the_server() {
    let Some(flows) = diagnosed("users-fifo.pcap") else { return };
    assert!(share(&flows, blames_application) < 0.02);
    let sure = |s: &Stall| blames_application(s) && s.certainty == Certainty::Certain;
    assert!(share(&flows, sure) == 0.0);
    // Connection 32: the first 203 bytes of the answer were lost twice.
    let flow = flows.iter().find(|f| f.number == 32).unwrap();
    let longest = flow.longest().unwrap();
    assert_eq!((longest.cause, longest.lost, longest.by), (Cause::AnswerLost, Place::Before, 1));
    assert!(longest.length().as_secs_f64() > 20.0);
    // 317 SYNs left and came, and of 361 SYN-ACKs 88 came.
    let handshakes = || flows.iter().flat_map(|f| &f.stalls).filter(|s| s.cause == Cause::HandshakeLost);
    assert!(handshakes().count() > 30);
    let behind = handshakes().filter(|s| matches!(s.lost, Place::Behind | Place::Both)).count();
    assert_eq!(behind, 0);
}

#[test]
fn at_the_server_nothing_is_blamed_on_it() {
    for name in ["server-taq.pcap", "server-fifo.pcap"] {
        let Some(flows) = diagnosed(name) else { return };
        assert!(share(&flows, blames_application) < 0.02, "{name}");
    }
    let Some(flows) = diagnosed("server-fifo.pcap") else { return };
    let longest = flows.iter().find(|f| f.number == 32).unwrap().longest().unwrap().clone();
    assert_eq!((longest.cause, longest.timeouts), (Cause::DoubleRetransmission, 2));
}
