//! Flows that are neither TCP nor QUIC.

use core::num::NonZeroU16;

use super::*;

/// A packet of UDP to a user; a fragment of datagram `of`, if it is one.
fn udp(user: u8, id: u64, len: u64, of: u16) -> Record {
    let mut key = key(user);
    key.proto = Proto::UDP;
    let (ident, fragment) = (NonZeroU16::new(of), of > 0);
    Record { id, header: Header { key, len: Bytes(len), ident, fragment, ..Header::default() } }
}

/// The numbers of what waits of a user and was not sent yet, as it leaves.
fn waiting(b: &mut Bench, user: u8) -> Vec<u64> {
    let all: Vec<_> = std::iter::from_fn(|| b.get()).collect();
    all.into_iter().filter(|p| p.header.key.dst() == key(user).dst()).map(|p| p.id).collect()
}

#[test]
fn where_a_round_is_long_who_sends_too_much_keeps_two_turns() {
    let mut b = Bench::new(&[]);
    // Eleven flows: a round takes 220 ms. Nothing is served for three seconds.
    (2..11).for_each(|flow| b.put(udp(flow, 0, 1500, 0)));
    for nth in 0..150 {
        if nth % 5 == 0 {
            b.put(udp(1, nth / 5, 1500, 0));
        }
        // A call's packets: fifteen are two turns.
        b.put(udp(11, nth, 200, 0));
        b.wait(20);
    }
    assert!(b.verdicts.iter().all(|v| matches!(v, Verdict::Dropped { reason: Reason::Sojourn, .. })));
    let all: Vec<_> = std::iter::from_fn(|| b.get()).collect();
    let of = |user: u8| -> Vec<u64> {
        all.iter().filter(|p| p.header.key.dst() == key(user).dst()).map(|p| p.id).collect()
    };
    assert_eq!(of(1), [28, 29]);
    assert_eq!(of(11), (135..150).collect::<Vec<_>>());
}

#[test]
fn what_comes_at_once_waits_whole_and_what_goes_on_keeps_its_newest() {
    // Alone at 600 kbit/s: a turn of 1500 bytes, all that is known of packets yet, takes 20 ms, and 100 ms take five.
    let mut b = Bench::new(&[]);
    for nth in 0..20 {
        b.put(udp(1, nth, 1200, 0));
    }
    b.wait(990);
    b.put(udp(1, 20, 1200, 0));
    assert_eq!(b.verdicts.len(), 0);
    b.wait(20);
    (21..50).for_each(|nth| b.put(udp(1, nth, 1200, 0)));
    assert_eq!(waiting(&mut b, 1), (44..50).collect::<Vec<_>>(), "7500 bytes are six packets");
    // A queue that ran empty is as new.
    b.verdicts.clear();
    (50..80).for_each(|nth| b.put(udp(1, nth, 1200, 0)));
    assert_eq!(b.verdicts.len(), 0);
    // Two seconds of the link are 150 000 bytes.
    (80..300).for_each(|nth| b.put(udp(1, nth, 1200, 0)));
    let waits = b.q.backlog().bytes.get();
    assert!((140_000..=150_000).contains(&waits), "{waits}");
}

#[test]
fn an_ecn_capable_flow_is_marked_first() {
    let mut b = Bench::new(&[]);
    let put = |b: &mut Bench, nth| {
        let mut p = udp(2, nth, 1200, 0);
        p.header.ecn = Ecn::Ect0;
        b.put(p);
    };
    // More than is due, less than twice that.
    (0..9).for_each(|nth| put(&mut b, nth));
    b.wait(1100);
    put(&mut b, 9);
    put(&mut b, 10);
    assert!(matches!(b.verdicts[..], [Verdict::Marked { .. }]), "{:?}", b.verdicts);
}

/// Six datagrams of so many bytes, one each two seconds, beside users with a download each; how many came whole.
fn come_whole(kbps: u64, users: u8, len: u64) -> usize {
    let mut b = Bench::with_rate(kbps, &[]);
    (1..=users).for_each(|user| b.connect(user));
    let mut nth = [0; 16];
    let mut came = Vec::new();
    let per_packet = 12_000 / kbps;
    for step in 0..14_000 / per_packet {
        for user in 1..=users {
            let waits = |b: &Bench| {
                let id = b.q.queues.tracker().lookup(&key(user)).unwrap();
                b.q.queues.state(id).waiting()
            };
            while waits(&b) < 3 {
                b.put(data(user, nth[usize::from(user)]));
                nth[usize::from(user)] += 1;
            }
        }
        let second = step * per_packet / 2000;
        if step * per_packet % 2000 < per_packet && second < 6 {
            let mut left = len;
            while left > 0 {
                let part = left.min(1480);
                b.put(udp(9, second, part + 20, second as u16 + 1));
                left -= part;
            }
        }
        b.wait(per_packet);
        came.extend(b.get().filter(|p| p.header.key.dst() == key(9).dst()).map(|p| p.id));
    }
    let fragments = len.div_ceil(1480) as usize;
    (0..6).filter(|datagram| came.iter().filter(|id| *id == datagram).count() == fragments).count()
}

#[test]
fn large_datagrams_come_whole() {
    assert_eq!(come_whole(600, 5, 4000), 6, "beside five downloads");
    assert_eq!(come_whole(300, 0, 8000), 6, "alone");
    assert_eq!(
        come_whole(100, 5, 16_000),
        1,
        "one that takes longer than two seconds waits, the next does not"
    );
}

/// Datagrams of three fragments, more than the link has room for: whatever is sent is whole.
#[test]
fn fragments_live_or_die_together() {
    let mut b = Bench::new(&[]);
    let mut came = Vec::new();
    for of in 1..=400u16 {
        (0..3).for_each(|_| b.put(udp(1, of.into(), 1500, of)));
        b.wait(20);
        came.extend(b.get().map(|p| p.id));
    }
    came.extend(waiting(&mut b, 1));
    let count = |of: u64| came.iter().filter(|id| **id == of).count();
    assert!((1..=400).all(|of| matches!(count(of), 0 | 3)), "{came:?}");
    let last = came.len() / 3;
    assert!((133..200).contains(&last), "a third of the time, and what may wait: {last}");
}

/// A flow of nothing but fragments of one datagram is cut off.
#[test]
fn a_datagram_without_end_is_cut_off() {
    let mut b = Bench::new(&[]);
    (0..3000).for_each(|n| b.put(udp(1, n, 1500, 7)));
    assert_eq!(b.q.backlog().packets, 144, "two seconds of the link, and the largest datagram there is");
}
