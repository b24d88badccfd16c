//! QUIC as it passes a point, by hand.

use narrows_units::Bytes;
use narrows_wire::QuicPacket;

use super::*;
use crate::{Certainty, QlogFile, QuicAnalyzer, QuicCause, QuicReport};

const SHORT: QuicPacket = QuicPacket::Short { spin: false };

fn told(packets: &[(u64, bool, QuicPacket, u64)]) -> QuicReport {
    told_with(packets, "").0
}

/// As [`told`], with the server's own log: its events, at its own times. Gives the names of logs of nobody too.
fn told_with(packets: &[(u64, bool, QuicPacket, u64)], events: &str) -> (QuicReport, Vec<String>) {
    let log = format!(
        "{{\"traces\":[{{\"title\":\"log\",\"vantage_point\":{{\"type\":\"server\"}},\"events\":[{events}]}}]}}"
    );
    let log = QlogFile::read(log.as_bytes());
    assert_eq!(log.unread, 0, "{log:?}");
    let mut a = QuicAnalyzer::default();
    let key = FlowKey::new([10, 0, 0, 1].into(), [192, 0, 2, 1].into(), 50_000, 443, Proto::UDP);
    for ((ms, client, quic, len), frame) in packets.iter().zip(1..) {
        let key = if *client { key } else { key.reverse() };
        a.packet(at(*ms), frame, &Header { key, len: Bytes(*len), quic: Some(*quic), ..Header::default() });
    }
    let (mut all, without) = a.finish_with(&log.logs, None);
    assert_eq!(all.len(), 1);
    (all.remove(0), without)
}

fn event(ms: u64, name: &str, data: &str) -> String {
    format!("{{\"time\":{ms},\"name\":\"{name}\",\"data\":{data}}}")
}

/// An event of a packet of 1-RTT; `more` follows its number.
fn packet(ms: u64, name: &str, number: u64, more: &str) -> String {
    let header = format!("{{\"packet_type\":\"1RTT\",\"packet_number\":{number}}}");
    event(ms, name, &format!("{{\"header\":{header}{more}}}"))
}

/// The server's word of [`opened`]: half of the round trip before and behind the capture, its clock begins at 10 s; it
/// has 2000 bytes in flight from 10.125 s on.
fn opened_log() -> Vec<String> {
    vec![
        packet(10_025, "transport:packet_received", 0, ""),
        packet(10_025, "transport:packet_sent", 0, ""),
        packet(10_125, "transport:packet_sent", 1, ""),
        packet(10_125, "transport:packet_sent", 2, ""),
        in_flight(10_125, 2000),
        packet(10_225, "transport:packet_received", 1, ",\"frames\":[{\"acked_ranges\":[[0,2]]}]"),
        in_flight(10_225, 0),
    ]
}

fn in_flight(ms: u64, bytes: u64) -> String {
    event(ms, "recovery:metrics_updated", &format!("{{\"bytes_in_flight\":{bytes},\"min_rtt\":100}}"))
}

fn expired(ms: u64) -> String {
    event(ms, "recovery:loss_timer_updated", r#"{"timer_type":"pto","event_type":"expired"}"#)
}

/// Opened in 100 ms, half of it on each side; a request and an answer of two datagrams.
fn opened() -> Vec<(u64, bool, QuicPacket, u64)> {
    vec![
        (0, CLIENT, QuicPacket::Initial, 1228),
        (50, SERVER, QuicPacket::Initial, 1228),
        (51, SERVER, QuicPacket::Handshake, 900),
        (100, CLIENT, QuicPacket::Initial, 1228),
        (101, CLIENT, SHORT, 300),
        (150, SERVER, SHORT, 1228),
        (151, SERVER, SHORT, 700),
        (200, CLIENT, SHORT, 60),
    ]
}

fn stalls_of(r: &QuicReport) -> Vec<(QuicCause, u8, u64, u64, u32)> {
    let ms = |at: Instant| at.as_nanos() / 1_000_000;
    r.stalls.iter().map(|s| (s.cause, s.by, ms(s.from), ms(s.to), s.unanswered)).collect()
}

#[test]
fn a_quick_connection_has_nothing_to_tell() {
    let r = told(&opened());
    assert_eq!((r.client.port, r.initials, r.established, r.stalls.len()), (50_000, 1, true, 0));
    assert_eq!((r.handshake_rtt_s, r.handshake_s, r.packets), (Some(0.1), Some(0.101), [4, 4]));
}

#[test]
fn initials_that_nobody_answers() {
    // RFC 9002, section 6.2.2: the first probe after a second, then after two.
    let initial = |ms| (ms, CLIENT, QuicPacket::Initial, 1228);
    let r = told(&[initial(0), initial(1000), initial(3000), (3050, SERVER, QuicPacket::Initial, 1228)]);
    assert_eq!((r.initials, r.established), (3, false));
    assert_eq!(stalls_of(&r), [(QuicCause::HandshakeLost, 0, 0, 3050, 3)]);
    let r = told(&[initial(0), initial(1000)]);
    assert_eq!(stalls_of(&r), [(QuicCause::NoAnswer, 0, 0, 1000, 2)]);
    assert!(!r.stalls[0].ended);
}

#[test]
fn probes_of_the_server_and_idle_times() {
    let mut all = opened();
    // The server goes on, and its probes are not answered until the fourth.
    all.extend([250, 600, 1300, 2700].map(|ms| (ms, SERVER, SHORT, 1228)));
    all.push((2750, CLIENT, SHORT, 60));
    // A pause, another question, and an answer after a second.
    all.extend([(9000, CLIENT, SHORT, 200), (10_000, SERVER, SHORT, 500)]);
    assert_eq!(
        stalls_of(&told(&all)),
        [
            (QuicCause::Starved, 1, 250, 2750, 4),
            (QuicCause::Unknown, 1, 2750, 9000, 0),
            (QuicCause::DataUnavailable, 0, 9000, 10_000, 0)
        ]
    );
    // A question after an answer that was complete: nobody had asked meanwhile.
    let mut all = opened();
    all.push((9000, CLIENT, SHORT, 200));
    assert_eq!(stalls_of(&told(&all)), [(QuicCause::ClientIdle, 0, 200, 9000, 0)]);
}

/// Cause, certainty and whether the log says so, of the one silence from 2 s on.
fn verdict(packets: &[(u64, bool, QuicPacket, u64)], events: &[String]) -> (QuicCause, Certainty, bool) {
    let (report, without) = told_with(packets, &events.join(","));
    assert_eq!((without.len(), report.stalls.len()), (0, 1), "{report:?}");
    let stall = &report.stalls[0];
    assert_eq!(stall.sender.is_some(), !events.is_empty());
    (stall.cause, stall.certainty, stall.by_qlog)
}

#[test]
fn a_probe_that_the_capture_took_for_any_datagram() {
    // One datagram after a pause may be a keep-alive. The server says that it was a probe, and that data was lost.
    let mut seen = opened();
    seen.extend([(300, SERVER, SHORT, 1228), (900, SERVER, SHORT, 1228), (950, CLIENT, SHORT, 60)]);
    assert_eq!(verdict(&seen, &[]), (QuicCause::Starved, Certainty::Possible, false));
    let mut log = opened_log();
    log.extend([packet(10_275, "transport:packet_sent", 3, ""), in_flight(10_275, 1200)]);
    log.extend([expired(10_875), packet(10_875, "transport:packet_sent", 4, "")]);
    let answered = |acked: &str| {
        let frames = format!(",\"frames\":[{{\"acked_ranges\":[{acked}]}}]");
        packet(10_975, "transport:packet_received", 2, &frames)
    };
    let lost = [answered("[4]"), packet(10_975, "recovery:packet_lost", 3, "")];
    assert_eq!(verdict(&seen, &[&log[..], &lost].concat()), (QuicCause::Starved, Certainty::Certain, true));
    // ACKs of both: the answer was lost, or late.
    assert_eq!(
        verdict(&seen, &[&log[..], &[answered("[3,4]")]].concat()),
        (QuicCause::Starved, Certainty::Likely, true)
    );
    // An ACK of the first alone: nothing was lost.
    assert_eq!(
        verdict(&seen, &[&log[..], &[answered("[3]")]].concat()),
        (QuicCause::Queue, Certainty::Certain, true)
    );
}

#[test]
fn the_server_says_that_it_had_nothing_to_send() {
    // A full datagram looks as if more were to come, and nobody asks: the packets show no cause.
    let mut seen = opened();
    seen[6].3 = 1228;
    seen.push((2000, SERVER, SHORT, 1228));
    assert_eq!(verdict(&seen, &[]), (QuicCause::Unknown, Certainty::Possible, false));
    let mut log = opened_log();
    log.push(packet(11_975, "transport:packet_sent", 3, ""));
    assert_eq!(verdict(&seen, &log), (QuicCause::DataUnavailable, Certainty::Certain, true));
    // The datagram was sent soon, and came late.
    log.insert(7, packet(10_300, "transport:packet_sent", 3, ""));
    assert_eq!(verdict(&seen, &log), (QuicCause::Queue, Certainty::Likely, true));
}

#[test]
fn logs_of_other_connections_say_nothing() {
    let mut seen = opened();
    seen.push((2000, SERVER, SHORT, 1228));
    let started = |port: u16| {
        let source = r#""src_ip":"192.0.2.1","src_port":443"#;
        let data = format!("{{{source},\"dst_ip\":\"10.0.0.1\",\"dst_port\":{port}}}");
        event(0, "connectivity:connection_started", &data)
    };
    let log = |port| [vec![started(port)], opened_log()].concat().join(",");
    let (report, without) = told_with(&seen, &log(50_000));
    assert_eq!((report.qlog.map(|q| (q.by, q.sent, q.lost)), without.len()), (Some((1, 3, 0)), 0));
    let (report, without) = told_with(&seen, &log(50_001));
    assert_eq!((report.qlog, without), (None, vec!["log".to_owned()]));
}
