//! A simulated run, its capture and its senders' qlog: the diagnosis agrees with what the senders say.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report")]

use core::ops::ControlFlow;

use narrows_diagnose::{Certainty, QlogFile, QuicAnalyzer, QuicCause, QuicReport};
use narrows_scenario::Experiment;
use narrows_sim::Results;
use narrows_wire::capture::Reader;

/// QUIC of 12 users with two connections each behind 300 kbit/s of drop-tail.
const FILE: &str = "name = \"t\"\nrate = \"300kbit\"\nrtt = \"100ms\"\nduration = \"30s\"\ndiscipline = \"fifo:20\"\n\
                    [probes]\ncapture = [\"thin\", \"thin.back\"]\nqlog = 64\n[[traffic]]\nkind = \"objects\"\n\
                    transport = \"quic\"\nusers = 12\nconnections = 2\nsize = \"30kB\"\n";

fn results() -> Results {
    let runs = Experiment::parse(FILE, &[]).and_then(|e| e.expand()).unwrap();
    narrows_sim::run(&runs[0].scenario, runs[0].seed, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// All QUIC connections of both captures, whose times are put on one clock by their stamps.
fn diagnosed(results: &Results, log: Option<&QlogFile>) -> (Vec<QuicReport>, Vec<String>) {
    let mut packets = Vec::new();
    for (_, file) in &results.captures {
        packets.extend(Reader::new(&file[..]).unwrap().map(|p| p.unwrap()));
    }
    packets.sort_by_key(|p| p.stamp);
    let origin = packets[0].stamp.unwrap();
    let mut quic = QuicAnalyzer::default();
    for (packet, frame) in packets.iter().zip(1..) {
        let at = u64::try_from(packet.stamp.unwrap() - origin).unwrap();
        quic.packet(narrows_units::Instant::from_nanos(at), frame, &packet.header);
    }
    quic.finish_with(log.map_or(&[], |log| &log.logs), Some(origin.into()))
}

#[test]
fn the_capture_of_a_run_and_its_qlog_agree() {
    let results = results();
    let file = QlogFile::read(results.qlog.as_deref().unwrap().as_bytes());
    assert_eq!((file.unread, file.left_out), (0, 0));
    let (without, _) = diagnosed(&results, None);
    let (with, unmatched) = diagnosed(&results, Some(&file));
    // A connection of the last moment has no packet behind the thin link.
    assert!(unmatched.len() <= 3 && file.logs.len() > 30, "{unmatched:?}");
    let matched = with.iter().filter(|r| r.qlog.is_some()).count();
    assert_eq!(matched, file.logs.len() - unmatched.len());
    // Every log is of the server, and its sums are those of the log: as many packets as were sent.
    for report in with.iter().filter(|r| r.qlog.is_some()) {
        let sums = report.qlog.as_ref().unwrap();
        assert!(sums.by == 1 && sums.sent >= report.packets[1], "{sums:?} {:?}", report.packets);
        // Timers of all silences are at most those of the connection.
        let in_stalls: u32 = report.stalls.iter().filter_map(|s| s.sender).map(|s| s.timeouts).sum();
        assert!(u64::from(in_stalls) <= sums.timeouts + report.stalls.len() as u64);
    }
    let seconds = |all: &[QuicReport], of: &dyn Fn(QuicCause, Certainty) -> bool| -> f64 {
        let stalls = all.iter().flat_map(|r| &r.stalls).filter(|s| of(s.cause, s.certainty));
        stalls.map(|s| s.length().as_secs_f64()).sum()
    };
    let unknown = |all: &[QuicReport]| seconds(all, &|cause, _| cause == QuicCause::Unknown);
    let certain = |all: &[QuicReport]| seconds(all, &|_, certainty| certainty == Certainty::Certain);
    // The silences are the same; most of the unknown time has a cause now.
    assert!(unknown(&with) < unknown(&without) / 2.0, "{} {}", unknown(&with), unknown(&without));
    assert!(certain(&with) > 5.0 * certain(&without), "{} {}", certain(&with), certain(&without));
    for (after, before) in with.iter().zip(&without) {
        assert_eq!(after.stalls.len(), before.stalls.len());
        for (after, before) in after.stalls.iter().zip(&before.stalls) {
            assert_eq!((after.from, after.to), (before.from, before.to));
            assert!(after.by_qlog || (after.cause, after.certainty) == (before.cause, before.certainty));
        }
    }
    // A queue of 20 packets and both ways empty it in 0.9 s; what took longer was lost somewhere.
    let long = |s: &&narrows_diagnose::QuicStall| s.by_qlog && s.cause == QuicCause::Queue;
    let longest = with.iter().flat_map(|r| &r.stalls).filter(long).map(|s| s.length().as_secs_f64());
    assert!(longest.fold(0.0, f64::max) < 1.0);
}
