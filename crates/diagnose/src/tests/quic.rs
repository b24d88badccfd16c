//! QUIC as it passes a point, by hand.

use narrows_units::Bytes;
use narrows_wire::QuicPacket;

use super::*;
use crate::{QuicAnalyzer, QuicCause, QuicReport};

const SHORT: QuicPacket = QuicPacket::Short { spin: false };

fn told(packets: &[(u64, bool, QuicPacket, u64)]) -> QuicReport {
    let mut a = QuicAnalyzer::default();
    let key = FlowKey::new([10, 0, 0, 1].into(), [192, 0, 2, 1].into(), 50_000, 443, Proto::UDP);
    for ((ms, client, quic, len), frame) in packets.iter().zip(1..) {
        let key = if *client { key } else { key.reverse() };
        a.packet(at(*ms), frame, &Header { key, len: Bytes(*len), quic: Some(*quic), ..Header::default() });
    }
    let mut all = a.finish();
    assert_eq!(all.len(), 1);
    all.remove(0)
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
