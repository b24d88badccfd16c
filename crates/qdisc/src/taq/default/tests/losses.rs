//! Losses behind the box: a copy of what has left is let through where the receiver shows that it misses it.

use super::*;

/// Five segments have left after a wait, and the first is acknowledged; the round trip is 100 ms, 50 of them have
/// passed.
fn sent() -> Bench {
    sent_after(150)
}

fn sent_after(waited_ms: u64) -> Bench {
    let mut b = Bench::new(&[]);
    b.connect(1);
    (0..5).for_each(|nth| b.put(data(1, nth)));
    b.wait(waited_ms);
    assert_eq!(b.order().len(), 5);
    b.ack(1, 1001 + MSS);
    b.wait(50);
    b
}

/// The receiver repeats its acknowledgment, with these segments as a SACK block.
fn repeats(b: &mut Bench, block: Option<(u32, u32)>) {
    let mut ack = segment(key(1).reverse(), Flags::ACK, 1, 1001 + MSS, 0);
    let edge = |nth: u32| SeqNum(1001 + nth * MSS);
    if let (Some(tcp), Some((from, to))) = (ack.header.tcp.as_mut(), block) {
        tcp.sack.push(edge(from), edge(to));
    }
    b.back(ack);
}

/// Whether a copy of segment `nth` is sent on.
fn passes(b: &mut Bench, nth: u32) -> bool {
    b.put(data(1, nth));
    b.get().is_some()
}

#[test]
fn a_copy_of_what_has_just_left_is_suppressed() {
    assert!(!passes(&mut sent(), 1));
}

#[test]
fn a_sack_block_beyond_shows_a_loss() {
    let mut b = sent();
    repeats(&mut b, Some((2, 3)));
    assert!(passes(&mut b, 1));
}

#[test]
fn so_do_three_duplicates_where_there_is_no_sack() {
    let mut b = sent();
    (0..2).for_each(|_| repeats(&mut b, None));
    assert!(!passes(&mut b, 1));
    let mut b = sent();
    (0..3).for_each(|_| repeats(&mut b, None));
    assert!(passes(&mut b, 1));
}

#[test]
fn a_report_of_a_copy_shows_none() {
    let mut b = sent();
    (0..4).for_each(|_| repeats(&mut b, Some((0, 1))));
    assert!(!passes(&mut b, 1));
}

#[test]
fn once_repaired_it_shows_no_more() {
    let mut b = sent();
    repeats(&mut b, Some((2, 3)));
    b.ack(1, 1001 + 3 * MSS);
    assert!(!passes(&mut b, 3));
}

/// A tail loss probe comes after two round trips (RFC 8985, section 7.2), and the path without a wait is known to the
/// sender: what did not wait here was sent again because it was lost.
#[test]
fn a_copy_of_what_was_not_held_is_a_probe() {
    assert!(passes(&mut sent_after(99), 1), "less than a round trip");
    assert!(!passes(&mut sent_after(101), 1));
    // Over a satellite: no sender gives up within 200 ms more than it knows.
    let waits = |ms: u64| {
        let mut b = Bench::new(&[]);
        b.connect_over(1, 600);
        b.put(data(1, 0));
        b.wait(ms);
        assert_eq!(b.order().len(), 1);
        b.wait(300);
        passes(&mut b, 0)
    };
    assert!(waits(200) && !waits(201));
}
