//! Initial Spreading between two ends (Sallantin et al., LCN 2014, section II): when each segment leaves. A path of
//! 50 ms each way without a rate, segments of 1000 bytes, a window of 10: where the handshake took R0 = 100 ms, slots
//! are 10 ms apart.

use crate::common::{Act, SegmentFate, Side, Wire, WirePath};
use narrows_tcp::Config;
use narrows_units::{Duration, Instant};
use narrows_wire::Flags;

fn config(settings: &str) -> Config {
    let text = format!("rfc:startup=spreading,mss=1000,initial_window=10,delayed_ack=off,{settings}");
    text.parse().expect("settings of a test")
}

const fn ms(n: u64) -> Instant {
    Instant::from_nanos(n * 1_000_000)
}

/// When the segments 1, 2, .. leave: the first at `from`, the others `apart` later each.
fn slots(from: u64, apart: u64, segments: u32) -> Vec<(u64, u32)> {
    (0..segments).map(|k| (from + u64::from(k) * apart, k + 1)).collect()
}

const WHOLE: fn(Side, Instant, &narrows_tcp::Segment) -> SegmentFate = |_, _, _| SegmentFate::Pass;

/// A client that opens and has `bytes` to send.
fn writing(bytes: u64) -> Wire<'static> {
    let mut wire = Wire::new(config(""), WirePath::delay_ms(50), WHOLE);
    wire.act(Side::A, Act::Open);
    wire.act(Side::A, Act::Write(bytes));
    wire
}

/// A client that opens and writes `bytes`, and at `at_ms` writes `more`; runs until nothing happens any more.
fn writing_twice(bytes: u64, at_ms: u64, more: u64) -> Wire<'static> {
    let mut wire = writing(bytes);
    wire.run_until(ms(at_ms));
    wire.act(Side::A, Act::Write(more));
    wire.run();
    wire
}

#[test]
fn the_client_takes_r0_from_the_syn_ack() {
    let mut wire = writing(30_000);
    wire.run();
    let sent = wire.data(Side::A);
    assert_eq!(sent[..10], slots(100, 10, 10));
    // From then on each ACK lets two go.
    assert_eq!(sent[10..14], [(200, 11), (200, 12), (210, 13), (210, 14)]);
    assert_eq!(wire.delivered(Side::B), 30_000);
}

#[test]
fn the_server_takes_r0_from_the_third_segment() {
    let mut wire = writing(500);
    wire.run_until(ms(150));
    // SYN-ACK at 50, ACK and request at 150; it answers 300 ms later, and so do the slots.
    wire.run_until(ms(450));
    wire.act(Side::B, Act::Write(12_000));
    wire.run();
    let sent = wire.data(Side::B);
    assert_eq!(sent[..10], slots(450, 10, 10));
    assert_eq!(sent[10..], [(550, 11), (550, 12)]);
}

#[test]
fn fewer_segments_use_the_first_slots() {
    let mut wire = writing(4_000);
    wire.act(Side::A, Act::Close);
    wire.run();
    assert_eq!(wire.data(Side::A), slots(100, 10, 4));
}

#[test]
fn late_data_use_the_slots_that_are_left() {
    let wire = writing_twice(2_000, 135, 20_000);
    let mut due = slots(100, 10, 2);
    due.extend((0..6).map(|k| (140 + 10 * k, 3 + k as u32)));
    // R0 is over: what found no slot, and two for the ACK of segment 1; then two for each.
    due.extend([(200, 9), (200, 10), (200, 11), (200, 12), (210, 13), (210, 14)]);
    assert_eq!(wire.data(Side::A)[..due.len()], due);
}

#[test]
fn how_often_it_is_asked_makes_no_difference() {
    let run = |step: u64| {
        let mut wire = writing(50_000);
        for at in (step..2_000).step_by(step as usize) {
            wire.run_until(ms(at));
            wire.act(Side::A, Act::Write(0));
        }
        wire.data(Side::A)
    };
    assert_eq!(run(1), run(1_999));
}

#[test]
fn short_round_trips_are_not_spread() {
    for (us, apart) in [(4_500, 0), (5_000, 1)] {
        let path = WirePath { delay: Duration::from_micros(us), ..WirePath::delay_ms(0) };
        let mut wire = Wire::new(config(""), path, WHOLE);
        wire.act(Side::A, Act::Open);
        wire.act(Side::A, Act::Write(10_000));
        wire.run();
        assert_eq!(wire.data(Side::A), slots(2 * us / 1000, apart, 10), "{us} us one way");
    }
}

/// The SYN is 100 ms late, data are not: R0 = 200 ms, slots 20 ms apart, and ACKs come from the sixth on.
fn late_syn(lost: u32) -> Vec<(u64, u32)> {
    let mut data = 0;
    let mut wire = Wire::new(config(""), WirePath::delay_ms(50), move |side, _, segment| {
        if side == Side::A && segment.tcp.flags.has(Flags::SYN) {
            return SegmentFate::Late(Duration::from_millis(100));
        }
        data += u32::from(side == Side::A && segment.tcp.payload > 0);
        if data == lost && segment.tcp.payload > 0 { SegmentFate::Drop } else { SegmentFate::Pass }
    });
    wire.act(Side::A, Act::Open);
    wire.act(Side::A, Act::Write(30_000));
    wire.run();
    assert_eq!(wire.delivered(Side::B), 30_000);
    wire.data(Side::A)
}

#[test]
fn acks_release_nothing_before_its_slot() {
    let sent = late_syn(0);
    assert_eq!(sent[..10], slots(200, 20, 10));
    // Five ACKs came by 380 ms: with the last slot used, ten segments may go.
    let due: Vec<_> = (11..=20).map(|n| (380, n)).chain([(400, 21), (400, 22)]).collect();
    assert_eq!(sent[10..22], due);
}

#[test]
fn a_loss_ends_it() {
    // Segment 1 is lost; 2, 3, 4 of 220, 240, 260 ms make three duplicate ACKs at 320, 340, 360. Eight are out then,
    // so the window is 4, and of a pipe of 4 with the repair of 1 it is 5. The slots of 360 and 380 ms are void: 9
    // goes when the pipe is down to 3, after two more ACKs.
    let sent = late_syn(1);
    assert_eq!(sent[..8], slots(200, 20, 8));
    assert_eq!(sent[8..11], [(360, 1), (400, 9), (420, 10)]);
}

#[test]
fn a_lost_handshake_means_three_segments_at_once() {
    // Also with timestamps, whose echo would give an RTT. SYN again after 1 s; SYN-ACK likewise, at 1.05 s.
    for timestamps in ["off", "on"] {
        for (lost, from) in [(Side::A, 1_100), (Side::B, 1_100)] {
            let mut left = 1;
            let mut wire = Wire::new(
                config(&format!("timestamps={timestamps}")),
                WirePath::delay_ms(50),
                move |side, _, segment| {
                    let hit = side == lost && segment.tcp.flags.has(Flags::SYN) && left > 0;
                    left -= u32::from(hit);
                    if hit { SegmentFate::Drop } else { SegmentFate::Pass }
                },
            );
            wire.act(Side::A, Act::Open);
            wire.act(Side::A, Act::Write(5_000));
            wire.run();
            let due = [(from, 1), (from, 2), (from, 3), (from + 100, 4), (from + 100, 5)];
            assert_eq!(wire.data(Side::A), due, "{lost:?} {timestamps}");
        }
    }
}

#[test]
fn a_server_whose_syn_ack_was_repeated_knows_no_r0() {
    // The SYN-ACK is lost, and the SYN comes again before the server's own time-out.
    let mut left = 1;
    let configs = [config("syn_timeout=300ms"), config("")];
    let mut wire = Wire::of(
        configs,
        [narrows_units::SeqNum(7), narrows_units::SeqNum(9)],
        WirePath::delay_ms(50),
        move |side, _, segment| {
            let hit = side == Side::B && segment.tcp.flags.has(Flags::SYN) && left > 0;
            left -= u32::from(hit);
            if hit { SegmentFate::Drop } else { SegmentFate::Pass }
        },
    );
    wire.act(Side::A, Act::Open);
    wire.run_until(ms(450));
    wire.act(Side::B, Act::Write(5_000));
    wire.run();
    assert_eq!(wire.data(Side::B), [(450, 1), (450, 2), (450, 3), (550, 4), (550, 5)]);
}

#[test]
fn other_handshakes() {
    let first = |settings: &str, side: Side| {
        let mut wire = Wire::new(config(settings), WirePath::delay_ms(50), WHOLE);
        wire.act(Side::A, Act::Open);
        wire.run_until(ms(300));
        wire.act(side, Act::Write(10_000));
        wire.run();
        wire.data(side).iter().map(|s| s.0).collect::<Vec<_>>()
    };
    let spread = |apart: u64| (0..10).map(|k| 300 + apart * k).collect::<Vec<_>>();
    // A receiver of ns-2's packet 0 learns no R0 from it; only the sender does, by its ACK.
    assert_eq!(first("handshake=syn_is_packet_zero", Side::A), spread(10));
    assert_eq!(first("handshake=syn_is_packet_zero", Side::B)[..4], [300, 300, 300, 400]);
    assert_eq!(first("handshake=syn_is_packet_zero,start_rtt=200ms", Side::B), spread(20));
    assert_eq!(first("handshake=none,start_rtt=80ms", Side::A), spread(8));
    let error = "rfc:startup=spreading,handshake=none".parse::<Config>().expect_err("R0 is nowhere");
    assert!(error.to_string().contains("start_rtt above 0"), "{error}");
}

#[test]
fn after_idling_nothing_is_spread() {
    let wire = writing_twice(3_000, 5_000, 8_000);
    assert!(wire.data(Side::A)[3..].iter().all(|s| s.0 == 5_000), "{:?}", wire.data(Side::A));
}
