//! Start-ups between two ends that have no file of their own: a path of 50 ms each way without a rate, segments of
//! 1000 bytes.

use crate::common::{Act, SegmentFate, Side, Wire, WirePath};
use narrows_tcp::Config;
use narrows_units::Instant;

fn config(settings: &str) -> Config {
    let text = format!("rfc:mss=1000,delayed_ack=off,byte_counting=per_ack,{settings}");
    text.parse().expect("settings of a test")
}

/// The data of a transfer: when each segment left, in nanoseconds, and its bytes. The segments in `lost`, counted
/// from 1, are.
fn sent(settings: &str, bytes: u64, lost: &[u32]) -> Vec<(u64, u32)> {
    let (mut count, lost) = (0, lost.to_vec());
    let mut wire = Wire::new(config(settings), WirePath::delay_ms(50), move |side, _, segment| {
        let data = side == Side::A && segment.tcp.payload > 0;
        count += u32::from(data);
        if data && lost.contains(&count) { SegmentFate::Drop } else { SegmentFate::Pass }
    });
    wire.act(Side::A, Act::Open);
    wire.act(Side::A, Act::Write(bytes));
    wire.run();
    assert_eq!(wire.delivered(Side::B), bytes);
    let data = wire.log.iter().filter(|s| s.from == Side::A && s.segment.tcp.payload > 0);
    data.map(|s| (s.at.as_nanos(), s.segment.tcp.payload)).collect()
}

fn ms(sent: &[(u64, u32)]) -> Vec<u64> {
    sent.iter().map(|s| s.0 / 1_000_000).collect()
}

/// cwnd in the middle of each round trip of an endless transfer over an existing connection.
fn windows(settings: &str, rounds: u64) -> Vec<f64> {
    let mut wire =
        Wire::new(config(&format!("handshake=none,{settings}")), WirePath::delay_ms(50), |_, _, _| {
            SegmentFate::Pass
        });
    wire.act(Side::A, Act::Open);
    wire.act(Side::A, Act::Write(u64::MAX));
    (0..rounds)
        .map(|round| {
            wire.run_until(Instant::from_nanos((100 * round + 75) * 1_000_000));
            wire.ends[0].cwnd()
        })
        .collect()
}

#[test]
fn twelve_segments_as_a_burst_paced_and_spread() {
    // "A TCP model for short-lived flows to validate Initial Spreading", Fig. 2: a window of 4 over 100 ms.
    let burst = [100, 100, 100, 100, 200, 200, 200, 200, 200, 200, 200, 200];
    assert_eq!(ms(&sent("initial_window=4", 12_000, &[])), burst);
    let spread = [100, 125, 150, 175, 200, 200, 225, 225, 250, 250, 275, 275];
    assert_eq!(ms(&sent("initial_window=4,startup=spreading", 12_000, &[])), spread);
    // Paced: 100 / 4 ms apart; with the ACK of 200 ms cwnd is 5, so 20 ms; 220; that of 225 makes it 6, so 100 / 6 =
    // 16.7 from 240 on; 250: 7, so 14.3 from 256.7 on; 275: 8, so 12.5 from 285.2 on.
    for start in ["paced", "paced_start"] {
        let paced = ms(&sent(&format!("initial_window=4,startup={start}"), 12_000, &[]));
        assert_eq!(paced, [100, 125, 150, 175, 200, 220, 240, 256, 270, 285, 297, 310], "{start}");
    }
}

#[test]
fn pacing_ends_with_the_start_or_does_not() {
    // cwnd is past ssthresh = 8 in the second round trip; what leaves after the fourth lies in bursts, or evenly.
    let late = |start: &str| {
        let sent = sent(&format!("initial_window=4,initial_ssthresh=8,startup={start}"), 60_000, &[]);
        let gaps: Vec<_> =
            sent.windows(2).filter(|p| p[0].0 > 500_000_000).map(|p| p[1].0 - p[0].0).collect();
        assert!(gaps.len() > 8, "{sent:?}");
        gaps
    };
    assert!(late("paced").iter().all(|gap| (5_000_000..15_000_000).contains(gap)));
    assert!(late("paced_start").iter().any(|gap| *gap == 0 || *gap > 15_000_000));
    // A loss ends a paced start: the ACK that ends recovery lets go what it may, at once.
    let lost = sent("initial_window=10,startup=paced_start,recovery=newreno", 40_000, &[3]);
    assert!(lost.windows(2).any(|p| p[0].0 == p[1].0), "{lost:?}");
}

#[test]
fn a_first_window_that_nothing_measured_is_paced_by_the_assumed_rtt() {
    let first = |rtt: &str| {
        let settings = format!("initial_window=4,handshake=none,startup=paced,start_rtt={rtt}");
        ms(&sent(&settings, 4_000, &[]))
    };
    assert_eq!(first("80ms"), [0, 20, 40, 60]);
    assert_eq!(first("0s"), [0; 4]);
}

#[test]
fn small_segments_leave_in_fours() {
    // A window of 1000 bytes as four of 250; each ACK makes it 250 larger, so 312, 375 - a part of what it has room
    // for - until whole segments leave again at a window of four.
    let small = sent("initial_window=1,startup=small_segments", 20_000, &[]);
    assert_eq!(small[..4], [(100_000_000, 250); 4]);
    let second: Vec<_> = small.iter().filter(|s| s.0 == 200_000_000).map(|s| s.1).collect();
    assert!(second.iter().all(|&len| (312..=500).contains(&len)), "{second:?}");
    assert!((1_500..=2_000).contains(&second.iter().sum::<u32>()), "{second:?}");
    let whole = small.iter().rev().skip(1).filter(|s| s.0 >= 400_000_000);
    assert!(whole.clone().count() > 8 && whole.clone().all(|s| s.1 == 1000), "{small:?}");
    // Never more than cwnd would have let go: 1, 2, 4, 8 thousand.
    for (round, most) in [(1, 1_000), (2, 2_000), (3, 4_000), (4, 8_000)] {
        let bytes: u32 = small.iter().filter(|s| s.0 == round * 100_000_000).map(|s| s.1).sum();
        assert!(bytes <= most, "round {round}: {bytes}");
    }
}

#[test]
fn small_segments_repair_the_first_loss_without_the_timer() {
    // A file of one segment and its first piece lost: three duplicate ACKs at 200 ms; a whole one waits for the timer
    // of 1 s.
    let small = sent("initial_window=1,startup=small_segments", 1_000, &[1]);
    assert_eq!(ms(&small), [100, 100, 100, 100, 200]);
    let whole = sent("initial_window=1", 1_000, &[1]);
    assert_eq!(ms(&whole), [100, 1_100]);
}

#[test]
fn windows_of_the_others() {
    assert_eq!(windows("initial_window=1,slow_start_base=4", 4), [1.0, 4.0, 16.0, 64.0]);
    assert_eq!(windows("initial_window=4,slow_start_base=1.5", 3), [4.0, 6.0, 9.0]);
    let limited = windows("initial_window=8,startup=limited,max_ssthresh=16", 5);
    assert_eq!(limited[..2], [8.0, 16.0]);
    assert!(limited[1..].windows(2).all(|w| (6.0..=8.5).contains(&(w[1] - w[0]))), "{limited:?}");
    assert_eq!(windows("startup=gallop,initial_window=10", 5), [2.0, 4.0, 8.0, 16.0, 32.0]);
    // Smooth Start from 16 on takes 2, 3, 4 and 5 ACKs a segment, 4 segments each: 16 ACKs give 4 + 2 (and 2 left
    // over); 22 more, of which the first makes a third, 1 + 1 + 4.
    let smooth = windows("initial_window=8,initial_ssthresh=32,startup=smooth", 4);
    assert_eq!(smooth[..2], [8.0, 16.0]);
    assert_eq!(smooth[2..4], [22.0, 28.0]);
}

#[test]
fn burst_tcp_between_two_ends() {
    // The rule's windows, whole part: see `startup/burst.rs`.
    let whole = |f: u32, n: u64| {
        windows(&format!("initial_window=1,startup=burst,burst_f={f}"), n)
            .iter()
            .map(|w| *w as u32)
            .collect::<Vec<_>>()
    };
    assert_eq!(whole(4, 16), [1, 8, 12, 15, 18, 20, 22, 24, 25, 26, 27, 28, 29, 30, 31, 34]);
    assert_eq!(whole(8, 14), [1, 4, 6, 8, 10, 12, 13, 15, 16, 17, 18, 19, 20, 21]);
}

#[test]
fn a_loss_ends_burst_tcp_for_good() {
    // A window of 4, of which the second is lost: later windows, also after idling, grow as in slow start: by one per
    // ACK.
    let mut lost = false;
    let mut wire = Wire::new(
        config("handshake=none,initial_window=4,startup=burst,burst_f=4"),
        WirePath::delay_ms(50),
        move |side, now, segment| {
            let hit = side == Side::A && segment.tcp.seq.0 == 2001 && !lost && now == Instant::ZERO;
            lost |= hit;
            if hit { SegmentFate::Drop } else { SegmentFate::Pass }
        },
    );
    wire.act(Side::A, Act::Open);
    wire.act(Side::A, Act::Write(4_000));
    wire.run();
    assert_eq!((wire.ends[0].counters().retransmitted, wire.ends[0].ssthresh()), (1, 2.0));
    wire.run_until(Instant::from_nanos(10_000_000_000));
    let before = wire.ends[0].cwnd();
    wire.act(Side::A, Act::Write(1_000));
    wire.run();
    assert!(wire.ends[0].cwnd() - before <= 1.0, "{before} {}", wire.ends[0].cwnd());
}

#[test]
fn adaptive_start_finds_the_bottleneck() {
    // 1 Mbit/s, 1040 bytes on the wire: 8.32 ms each, so a path of 100 + 8.32 ms holds 13 segments. From ssthresh 4 on,
    // without it, a round trip gives one segment; with it the window is past 10 after 5 round trips.
    let after = |startup: &str| {
        let path = WirePath { rate: Some(narrows_units::Rate::from_kbps(1000)), ..WirePath::delay_ms(50) };
        let settings = format!(
            "handshake=none,initial_window=2,initial_ssthresh=4,rtt_sampling=every_segment,startup={startup}"
        );
        let mut wire = Wire::new(config(&settings), path, |_, _, _| SegmentFate::Pass);
        wire.act(Side::A, Act::Open);
        wire.act(Side::A, Act::Write(u64::MAX));
        wire.run_until(Instant::from_nanos(600_000_000));
        (wire.ends[0].cwnd(), wire.ends[0].ssthresh())
    };
    let (slow, adaptive) = (after("slow_start"), after("adaptive"));
    assert!(slow.0 < 9.0 && slow.1 == 4.0, "{slow:?}");
    assert!(adaptive.0 > 10.0 && (10.0..14.0).contains(&adaptive.1), "{adaptive:?}");
}

#[test]
fn what_cannot_be_is_refused_with_the_remedy() {
    for (text, says) in [
        ("rfc:startup=adaptive", "initial_ssthresh = 'infinite': expected a number"),
        (
            "rfc:startup=burst,burst_step=ns2,burst_after=avoidance",
            "burst_after = 'avoidance': expected slow_start",
        ),
        ("rfc:startup=spreading,handshake=none", "start_rtt above 0"),
        ("rfc:slow_start_base=1", "1.1 to 64"),
        ("rfc:startup=bust", "slow_start or hystart or burst"),
    ] {
        let error = text.parse::<Config>().expect_err(text).to_string();
        assert!(error.contains(says), "{error}");
    }
}
