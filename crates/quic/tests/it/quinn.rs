//! quinn's own client and server beside ours, packet by packet: both go through the same losses, delays and marks in
//! virtual time, and what leaves when is compared.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report")]

mod link;
mod ours;
mod theirs;

use link::{Departure, Script, play};
use narrows_quic::{Config, Preset};

/// Largest difference of the two stacks' clocks, in nanoseconds: theirs multiplies in floats.
const TOLERANCE: u64 = 50_000;

/// quinn's preset with what its TLS has to say here.
fn config(script: &Script) -> Config {
    let mut config = Config::preset(Preset::Quinn);
    // With an Ed25519 key and no names but one.
    config.handshake.certificate = 563;
    if !script.mtu_search {
        config.mtu_search = None;
    }
    if script.reno {
        config.congestion = narrows_tcp::CcKind::Reno;
    }
    config
}

fn both(script: &Script) -> (Vec<Departure>, Vec<Departure>) {
    let config = config(script);
    let ours = play(ours::Host::client(config, script), ours::Host::server(config, script), script);
    let theirs = play(theirs::Host::client(script), theirs::Host::server(script), script);
    (ours, theirs)
}

/// Sizes are equal, times almost.
fn same(script: &Script) -> Vec<Departure> {
    let (ours, theirs) = both(script);
    let agree = |(a, b): (&Departure, &Departure)| {
        (a.server, a.len) == (b.server, b.len) && a.at.abs_diff(b.at) <= TOLERANCE
    };
    let at = ours.iter().zip(&theirs).position(|pair| !agree(pair));
    if at.is_some() || ours.len() != theirs.len() {
        let at = at.unwrap_or(ours.len().min(theirs.len()));
        let mut text = format!("they part at {at}:\n{:>32}   {:>32}\n", "ours", "theirs");
        for i in at.saturating_sub(12)..(at + 12).min(ours.len().max(theirs.len())) {
            let show = |d: Option<&Departure>| d.map_or_else(String::new, Departure::to_string);
            text += &format!("{i:>3} {:>32}   {:>32}\n", show(ours.get(i)), show(theirs.get(i)));
        }
        panic!("{text}");
    }
    ours
}

#[test]
fn an_object_without_loss() {
    let d = same(&Script { bytes: 8_000, ..Script::default() });
    assert!(d.len() > 12 && d[0].len == 1200);
}

/// The first window, then slow start.
#[test]
fn a_longer_one() {
    let d = same(&Script { bytes: 42_000, ..Script::default() });
    // Below a window of 12 000 bytes nine full datagrams and what was acknowledged of the handshake.
    assert!(d.iter().filter(|d| d.server && d.len == 1200).count() > 30);
}

#[test]
fn the_search_for_the_mtu() {
    same(&Script { bytes: 8_000, mtu_search: true, ..Script::default() });
}

/// Repaired by the packet threshold.
#[test]
fn one_packet_lost() {
    for lost in 3..10 {
        same(&Script { bytes: 30_000, drop: vec![lost], reno: true, ..Script::default() });
    }
}

/// Repaired by the probe timeout.
#[test]
fn the_tail_lost() {
    for drop in [vec![9], vec![8, 9], vec![7, 8, 9, 10], (3..12).collect()] {
        same(&Script { bytes: 8_000, drop, reno: true, ..Script::default() });
    }
}

/// The server's first flight, or the client's, is lost.
#[test]
fn the_handshake_lost() {
    for drop in [vec![0], vec![1], vec![0, 1], vec![2]] {
        same(&Script { bytes: 8_000, drop, ..Script::default() });
    }
    // Not its second, with Finished: quinn then sends ids again in reverse order, and its server retires most of them.
    for drop_back in [vec![0], vec![2], vec![3]] {
        same(&Script { bytes: 8_000, drop_back, ..Script::default() });
    }
}

/// A handshake of 100 ms, and then each packet waits for those before it: two seconds of a thin link.
#[test]
fn a_queue_that_makes_timeouts_spurious() {
    for rate in [24_000, 48_000, 100_000] {
        same(&Script { bytes: 16_000, rate: Some(rate), ..Script::default() });
    }
}

#[test]
fn marks() {
    for mark in [vec![4], vec![5, 6], vec![9], vec![14]] {
        same(&Script { bytes: 42_000, mark, reno: true, ..Script::default() });
    }
}

/// CUBIC leaves seven tenths of its window: one packet lost, repaired by the packet threshold.
#[test]
fn one_packet_lost_under_cubic() {
    for lost in 3..10 {
        same(&Script { bytes: 30_000, drop: vec![lost], ..Script::default() });
    }
}

#[test]
fn the_tail_lost_under_cubic() {
    for drop in [vec![9], vec![8, 9], vec![7, 8, 9, 10], (3..12).collect()] {
        same(&Script { bytes: 8_000, drop, ..Script::default() });
    }
}

/// Compares two runs that differ only in congestion avoidance: quinn's CUBIC grows by whole datagrams and forgets what
/// is left over, ours by fractions (RFC 9438, section 4.4), so ours may have a datagram more in a round trip. All
/// before that is the same, and the last data leave within a round trip of theirs.
fn same_before_growth(script: &Script, growth_ms: u64) {
    let (ours, theirs) = both(script);
    let early = |d: &&Departure| d.at < growth_ms * 1_000_000;
    let show = |all: &[Departure]| all.iter().map(|d| format!("{d}\n")).collect::<String>();
    let before = ours.iter().filter(early).count();
    let agree = |(a, b): (&Departure, &Departure)| {
        (a.server, a.len) == (b.server, b.len) && a.at.abs_diff(b.at) <= TOLERANCE
    };
    assert_eq!(before, theirs.iter().filter(early).count());
    assert!(
        ours.iter().zip(&theirs).take(before).all(agree),
        "ours:\n{}theirs:\n{}",
        show(&ours),
        show(&theirs)
    );
    let full = |all: &[Departure]| {
        let data = || all.iter().filter(|d| d.server && d.len == 1200);
        (data().count(), data().next_back().map_or(0, |d| d.at))
    };
    let ((n, last), (their_n, their_last)) = (full(&ours), full(&theirs));
    assert_eq!(n, their_n, "ours:\n{}theirs:\n{}", show(&ours), show(&theirs));
    assert!(last <= their_last && their_last - last <= 100_000_000, "{last} and {their_last}");
}

#[test]
fn marks_under_cubic() {
    // A window of seven tenths for the round trip that follows the mark.
    for mark in [vec![4], vec![5, 6], vec![9], vec![14]] {
        same_before_growth(&Script { bytes: 42_000, mark, ..Script::default() }, 350);
    }
}

/// A second loss below the window of the first: fast convergence (RFC 9438, section 4.7).
#[test]
fn a_second_loss_under_cubic() {
    same_before_growth(&Script { bytes: 42_000, drop: vec![6, 24], ..Script::default() }, 350);
}

/// Loses a window and the probes of this many timeouts.
fn lost_for_long(timeouts: usize, reno: bool) -> Script {
    // The first flight has nine datagrams of the object, the second one the other nine.
    Script { bytes: 20_000, drop: (13..22 + 2 * timeouts).collect(), reno, ..Script::default() }
}

/// Where data go on after the longest silence, and how many full datagrams leave at once then.
fn after_silence(all: &[Departure]) -> (usize, usize) {
    let full: Vec<usize> = (0..all.len()).filter(|i| all[*i].server && all[*i].len == 1200).collect();
    let silence = |pair: &&[usize]| all[pair[1]].at - all[pair[0]].at;
    let first = full.windows(2).max_by_key(silence).unwrap()[1];
    let soon = |i: &&usize| (all[first].at..all[first].at + 50_000_000).contains(&all[**i].at);
    (first, full.iter().filter(soon).count())
}

/// Congestion is persistent from the third timeout on: packets lost are then further apart than three timeouts, and the
/// window is the least one (RFC 9002, section 7.6).
#[test]
fn persistent_congestion_under_cubic() {
    for timeouts in 1..=4 {
        let (_, burst) = after_silence(&same(&lost_for_long(timeouts, false)));
        assert!(if timeouts < 3 { timeouts == 2 || burst > 2 } else { burst <= 2 }, "{burst}: {timeouts}");
    }
}

/// quinn's NewReno does not forget when the congestion began, and so the acknowledgment of a probe does not grow its
/// window; ours does both (RFC 9002, appendix B.8). All is the same up to the first datagram of the least window.
#[test]
fn persistent_congestion() {
    same(&lost_for_long(1, true));
    for timeouts in [3, 4] {
        let (ours, theirs) = both(&lost_for_long(timeouts, true));
        let ((at, burst), (their_at, their_burst)) = (after_silence(&ours), after_silence(&theirs));
        let agree = |(a, b): (&Departure, &Departure)| {
            (a.server, a.len) == (b.server, b.len) && a.at.abs_diff(b.at) <= TOLERANCE
        };
        assert_eq!(at, their_at);
        assert!(ours.iter().zip(&theirs).take(at + 1).all(agree));
        assert_eq!((burst, their_burst), (2, 1));
    }
}
