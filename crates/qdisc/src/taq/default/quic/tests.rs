use std::net::IpAddr;
use std::num::NonZeroU16;

use narrows_units::{Bytes, Ecn, Instant};
use narrows_wire::{FlowKey, Header, Proto, QuicPacket, Unreachable};

use super::super::tests::Bench;
use crate::{Qdisc, Record, ReversePath, Verdict};

const DATA: QuicPacket = QuicPacket::Short { spin: false };

fn packet(user: u8, id: u64, quic: QuicPacket, len: u64) -> Record {
    let (server, user) = (IpAddr::from([10, 0, 1, 1]), IpAddr::from([10, 0, 0, user]));
    let key = FlowKey::new(server, user, 443, 40_000, Proto::UDP);
    Record { id, header: Header { key, len: Bytes(len), quic: Some(quic), ..Header::default() } }
}

/// A packet the other way.
fn back(mut packet: Record) -> Record {
    packet.header.key = packet.header.key.reverse();
    packet
}

/// A packet of the receiver.
fn answer(user: u8) -> Record {
    back(packet(user, 0, DATA, 70))
}

/// A flow whose handshake is over and whose first `packets` wait, numbered from 1; others wait too, so that rounds take
/// time.
fn begun(settings: &[(&str, &str)], packets: u64) -> Bench {
    let mut b = Bench::new(settings);
    for (id, quic) in [(100, QuicPacket::Initial), (101, QuicPacket::Handshake)] {
        b.put(packet(1, id, quic, 1228));
    }
    while b.get().is_some() {}
    b.wait(100);
    b.back(answer(1));
    (1..=packets).for_each(|id| b.put(packet(1, id, DATA, 1228)));
    b
}

fn suppressed(b: &mut Bench) -> Vec<u64> {
    let of = |v: Verdict<Record>| match v {
        Verdict::Suppressed { packet } => Some(packet.id),
        _ => None,
    };
    b.verdicts.drain(..).filter_map(of).collect()
}

fn waiting(b: &mut Bench) -> Vec<u64> {
    std::iter::from_fn(|| b.get()).map(|p| p.id).collect()
}

#[test]
fn a_first_window_waits_whole() {
    let b = begun(&[], 32);
    assert_eq!((b.q.backlog().packets, b.verdicts.len()), (32, 0));
}

#[test]
fn probes_of_a_sender_that_has_heard_nothing_are_discarded_while_others_wait() {
    let mut b = begun(&[], 2);
    b.put(packet(1, 3, DATA, 400));
    b.wait(325);
    (11..=12).for_each(|id| b.put(packet(1, id, DATA, 1228)));
    assert_eq!(suppressed(&mut b), [11, 12], "a probe timeout sends two (RFC 9002, section 6.2.4)");
    b.back(answer(1));
    b.put(packet(1, 13, DATA, 1228));
    assert_eq!(waiting(&mut b), [1, 2, 3, 13], "what comes after an answer is new");
    b.wait(900);
    b.put(packet(1, 14, DATA, 1228));
    assert_eq!(waiting(&mut b), [14], "nothing waits: what was sent may be lost");
    let mut b = begun(&[("suppress_probes", "off")], 2);
    b.put(packet(1, 3, DATA, 400));
    b.wait(325);
    b.put(packet(1, 11, DATA, 1228));
    assert_eq!(waiting(&mut b), [1, 2, 3, 11]);
}

#[test]
fn the_last_piece_that_a_timer_sends_is_no_copy() {
    let mut b = begun(&[], 2);
    b.put(packet(1, 3, DATA, 400));
    b.wait(325);
    // Probes: data that the window held back; a PING; two as long as something that waits, an acknowledgment aside.
    for (id, len) in [(11, 984), (12, 58), (13, 990), (14, 1228)] {
        b.put(packet(1, id, DATA, len));
    }
    assert_eq!(suppressed(&mut b), [12, 13, 14]);
    assert_eq!(waiting(&mut b), [1, 2, 3, 11]);
}

#[test]
fn a_sender_with_more_to_say_sends_it_in_its_probes() {
    let mut b = begun(&[], 3);
    b.wait(325);
    (11..=12).for_each(|id| b.put(packet(1, id, DATA, 1228)));
    assert_eq!(
        waiting(&mut b),
        [1, 2, 3, 11, 12],
        "the last was full, so a probe bears new data (section 6.2.4)"
    );
}

#[test]
fn a_timer_that_an_acknowledgment_has_not_stopped_sends_a_probe() {
    // The sender answers within 100 ms, as it did with the first packet; not 700 ms after all it had.
    let mut b = begun(&[], 0);
    b.wait(100);
    (1..=3).for_each(|id| b.put(packet(1, id, DATA, if id < 3 { 1228 } else { 400 })));
    assert_eq!(b.get().map(|p| p.id), Some(1));
    b.wait(20);
    b.back(answer(1));
    b.wait(700);
    (11..=13).for_each(|id| b.put(packet(1, id, DATA, 1228)));
    assert_eq!(suppressed(&mut b), [11, 12], "no more than a timer sends: it may be new after all");
    assert_eq!(waiting(&mut b), [2, 3, 13]);
}

#[test]
fn a_receiver_that_probes_is_no_answer() {
    // Its own request waits to be acknowledged, for as long as the sender's packets do.
    let mut b = begun(&[], 2);
    b.put(packet(1, 3, DATA, 400));
    b.wait(400);
    b.back(answer(1));
    b.wait(90);
    (11..=12).for_each(|id| b.put(packet(1, id, DATA, 1228)));
    assert_eq!(suppressed(&mut b), [11, 12]);
    assert_eq!(waiting(&mut b), [1, 2, 3]);
}

#[test]
fn a_paced_window_is_no_probe() {
    let mut b = begun(&[], 1);
    for id in 2..=8 {
        b.wait(100);
        b.put(packet(1, id, DATA, 1228));
    }
    assert_eq!(waiting(&mut b), (1..=8).collect::<Vec<_>>());
}

#[test]
fn a_handshake_is_not_sent_twice_while_it_waits() {
    let mut b = Bench::new(&[]);
    b.put(packet(1, 1, QuicPacket::Initial, 1228));
    b.put(packet(1, 2, QuicPacket::Handshake, 700));
    b.wait(1000);
    b.back(answer(1));
    (3..=4).for_each(|id| b.put(packet(1, id, QuicPacket::Initial, 1228)));
    assert_eq!(suppressed(&mut b), [3, 4]);
    assert_eq!(waiting(&mut b), [1, 2]);
    b.wait(200);
    b.put(packet(1, 5, QuicPacket::Initial, 1228));
    assert_eq!(suppressed(&mut b), [5], "its answer may be on its way");
    b.wait(800);
    b.put(packet(1, 5, QuicPacket::Initial, 1228));
    assert_eq!(waiting(&mut b), [5]);
}

/// The receiver, a server, is 600 ms away. The client ends the handshake as soon as it has the server's part of it.
#[test]
fn the_end_of_a_handshake_over_a_long_path_is_no_copy() {
    let mut b = Bench::new(&[]);
    b.put(packet(1, 1, QuicPacket::Initial, 1228));
    assert_eq!(waiting(&mut b), [1]);
    b.wait(600);
    // A server may send data behind its part of the handshake.
    for quic in [QuicPacket::Initial, QuicPacket::Handshake, DATA] {
        b.back(back(packet(1, 0, quic, 1228)));
    }
    b.put(packet(1, 2, QuicPacket::Initial, 1228));
    b.put(packet(1, 3, QuicPacket::Handshake, 198));
    assert_eq!(suppressed(&mut b), []);
    assert_eq!(waiting(&mut b), [2, 3]);
}

#[test]
fn a_handshake_that_has_arrived_is_sent_again_after_a_second() {
    let mut b = Bench::new(&[]);
    let flight = |b: &mut Bench, id| {
        b.put(packet(1, id, QuicPacket::Initial, 1228));
        b.put(packet(1, id + 1, QuicPacket::Handshake, 700));
    };
    flight(&mut b, 1);
    assert_eq!(waiting(&mut b), [1, 2]);
    b.wait(20);
    b.back(answer(1));
    b.wait(300);
    flight(&mut b, 3);
    assert_eq!(suppressed(&mut b), [3, 4], "the receiver has used its keys");
    b.wait(700);
    flight(&mut b, 5);
    assert_eq!(waiting(&mut b), [5, 6]);
}

#[test]
fn what_comes_before_an_answer_can_is_a_probe() {
    // The sender answers within 100 ms. What comes 300 ms after the one answer and 10 ms after the next belongs to
    // neither.
    let over = |pauses: &[u64]| {
        let mut b = begun(&[], 0);
        b.wait(100);
        (1..=7).for_each(|id| b.put(packet(1, id, DATA, if id < 7 { 1228 } else { 400 })));
        for pause in pauses {
            b.wait(*pause);
            b.get();
            b.back(answer(1));
        }
        b.wait(10);
        b.put(packet(1, 11, DATA, 1228));
        suppressed(&mut b)
    };
    assert_eq!(over(&[20, 290]), [11]);
    assert_eq!(over(&[200, 90]), [], "just as long after the one before");
    assert_eq!(over(&[20, 80, 80, 80, 10]), [], "there is always one of them");
}

#[test]
fn a_flow_without_an_answer_lets_others_of_its_user_go_first() {
    let on = |port: u16, id, quic, len| {
        let mut packet = packet(1, id, quic, len);
        packet.header.key.dport = port;
        packet
    };
    let order = |answered: bool| {
        let mut b = Bench::new(&[]);
        for (port, first) in [(1, 10), (2, 20)] {
            b.put(on(port, first, QuicPacket::Initial, 1228));
            assert_eq!(waiting(&mut b), [first]);
            b.wait(20);
            b.back(back(on(port, 0, DATA, 70)));
        }
        b.wait(100);
        for (port, first) in [(1, 10), (2, 20)] {
            (1..=5).for_each(|n| b.put(on(port, first + n, DATA, 1228)));
        }
        for user in 2..=4 {
            b.put(packet(user, 1, QuicPacket::Initial, 1228));
            (2..=6).for_each(|id| b.put(packet(user, id, DATA, 1228)));
        }
        let mut order = Vec::new();
        while let Some(packet) = b.get() {
            b.wait(60);
            if packet.header.key.dport != 1 || answered {
                b.back(back(packet));
            }
            if packet.header.key.dport < 3 {
                order.push(packet.id);
            }
        }
        order
    };
    assert_eq!(order(true), [11, 12, 13, 14, 15, 21, 22, 23, 24, 25]);
    assert_eq!(order(false), [11, 21, 22, 23, 24, 25, 12, 13, 14, 15]);
}

#[test]
fn a_probe_of_the_path_mtu_is_known_by_what_follows() {
    let mut b = begun(&[], 0);
    for (id, len) in [(1, 229), (2, 1354), (3, 64), (4, 1228), (5, 1228)] {
        b.put(packet(1, id, DATA, len));
    }
    assert_eq!(suppressed(&mut b), [2]);
    // By now the sender is known to fill its packets to 1228 bytes: what is larger is a probe as it comes.
    (9..=10).for_each(|id| b.put(packet(1, id, DATA, 1354)));
    assert_eq!(suppressed(&mut b), [9, 10]);
    assert_eq!(waiting(&mut b), [1, 3, 4, 5]);
    b.put(packet(1, 11, DATA, 1354));
    assert_eq!(waiting(&mut b), [11], "nothing waits, so it may find out");
    b.put(packet(1, 12, DATA, 1228));
    assert_eq!(waiting(&mut b), [12]);
    // A sender that has larger packets from now on.
    (6..=8).for_each(|id| b.put(packet(1, id, DATA, 1280)));
    assert_eq!(waiting(&mut b), [6, 7, 8]);
    // Before it is known how large the others are: Initials are padded to less.
    let mut b = begun(&[], 0);
    for (id, len) in [(1, 1394), (2, 58), (3, 1308), (4, 1308)] {
        b.put(packet(1, id, DATA, len));
    }
    assert_eq!((suppressed(&mut b), waiting(&mut b)), (vec![1], vec![2, 3, 4]));
}

#[test]
fn one_mark_in_a_round_trip() {
    let capable = |id| {
        let mut p = packet(1, id, DATA, 1228);
        p.header.ecn = Ecn::Ect0;
        p
    };
    let marked = |settings: &[(&str, &str)]| {
        let mut b = begun(settings, 0);
        (1..=12).for_each(|id| b.put(capable(id)));
        let marked = b.verdicts.drain(..).filter(|v| matches!(v, Verdict::Marked { .. })).count();
        assert_eq!(b.q.backlog().packets, 12);
        marked
    };
    assert_eq!(marked(&[]), 1);
    assert!(marked(&[("quic_one_signal", "off")]) > 1);
}

/// Where the link lies before the box, a window comes at once after each pause of that link.
#[test]
fn what_a_link_before_the_box_brings_at_once_is_not_marked() {
    let marked = |before: bool, packets: u64| {
        let mut b = begun(&[], 0);
        b.q.link_is_before(before);
        for id in 1..=packets {
            let mut p = packet(1, id, DATA, 1228);
            p.header.ecn = Ecn::Ect0;
            b.put(p);
        }
        b.verdicts.drain(..).filter(|v| matches!(v, Verdict::Marked { .. })).count()
    };
    // Five rounds fit into the round trip.
    assert_eq!([9, 10].map(|packets| marked(false, packets)), [0, 1], "quic_mark and five");
    assert_eq!([13, 14].map(|packets| marked(true, packets)), [0, 1], "quic_hold and five");
}

/// Three flows of others that have packets waiting and take turns.
fn others(b: &mut Bench) {
    for user in 2..=4 {
        b.put(packet(user, 1, QuicPacket::Initial, 1228));
        (2..=6).for_each(|id| b.put(packet(user, id, DATA, 1228)));
    }
    assert!((0..10).all(|_| b.get().is_some()), "what they had as new flows, and one more");
}

/// How many go before packet 20.
fn before(b: &mut Bench) -> Option<usize> {
    waiting(b).iter().position(|id| *id == 20)
}

#[test]
fn a_handshake_goes_before_others() {
    let mut b = Bench::new(&[("share", "flow")]);
    others(&mut b);
    b.put(packet(1, 20, QuicPacket::Initial, 1228));
    assert_eq!(before(&mut b), Some(0));
}

#[test]
fn the_first_packet_after_a_rest_goes_first() {
    let ahead = |setting| {
        let mut b = begun(&[("share", "flow"), ("rested_first", setting)], 3);
        while b.get().is_some() {}
        b.wait(10_000);
        others(&mut b);
        b.put(packet(1, 20, DATA, 1228));
        before(&mut b)
    };
    assert_eq!(ahead("on"), Some(0));
    assert!(ahead("off") > Some(0));
}

#[test]
fn who_knows_a_long_round_trip_paces_over_it() {
    // The handshake took two seconds: half a second of silence within a window is pacing, and more than two a timer.
    let mut b = Bench::new(&[]);
    b.put(packet(1, 1, QuicPacket::Initial, 1228));
    b.wait(2000);
    assert_eq!(waiting(&mut b), [1]);
    b.back(answer(1));
    b.put(packet(1, 2, DATA, 1228));
    b.wait(500);
    b.put(packet(1, 3, DATA, 400));
    b.wait(2100);
    b.put(packet(1, 4, DATA, 1228));
    assert_eq!(suppressed(&mut b), [4]);
    assert_eq!(waiting(&mut b), [2, 3]);
}

#[test]
fn what_waits_for_a_receiver_that_has_gone_is_dropped() {
    let mut b = begun(&[], 10);
    let mut sent = 0;
    while b.get().is_some() {
        sent += 1;
        b.wait(1000);
    }
    // One packet a second. The first leaves at the answer; after four more without one, the other four go but the last.
    assert_eq!((sent, b.verdicts.len()), (6, 4));
    let mut b = begun(&[("purge", "off")], 10);
    let sent = std::iter::from_fn(|| {
        b.wait(1000);
        b.get()
    });
    assert_eq!(sent.count(), 10);
}

#[test]
fn what_waits_for_a_port_that_is_closed_is_dropped() {
    let refusal = |port: u16, from: u8| {
        let (server, user) = (IpAddr::from([10, 0, 1, 1]), IpAddr::from([10, 0, 0, from]));
        let key = FlowKey::new(user, server, 0, 0, Proto::ICMP);
        let [sport, dport] = [443, port].map(|port| NonZeroU16::new(port).unwrap());
        let said = Unreachable { sport, dport };
        Record { id: 0, header: Header { key, len: Bytes(56), unreachable: Some(said), ..Header::default() } }
    };
    let mut b = begun(&[], 10);
    b.wait(2000);
    b.back(refusal(40_000, 1));
    assert_eq!(b.q.backlog().packets, 10, "it has answered all that was sent");
    for left in [9, 8] {
        assert!(b.get().is_some());
        b.back(refusal(40_000, 1));
        assert_eq!(b.q.backlog().packets, if left == 9 { 9 } else { 1 }, "one answer may be on its way");
        if left == 9 {
            b.wait(1000);
        }
    }
    assert_eq!(b.verdicts.len(), 7);
    let mut b = begun(&[], 10);
    b.wait(2000);
    assert!(b.get().is_some());
    b.wait(1000);
    assert!(b.get().is_some());
    for (port, from) in [(40_001, 1), (40_000, 2)] {
        assert!(b.back(refusal(port, from)).is_some(), "it is passed on");
        assert_eq!(b.q.backlog().packets, 8, "another's");
    }
    // A receiver that lives: what a stranger says in its name costs nothing.
    b.back(answer(1));
    b.back(refusal(40_000, 1));
    assert_eq!(b.q.backlog().packets, 8);
    let mut b = begun(&[("purge", "off")], 10);
    for _ in 0..2 {
        b.wait(1000);
        assert!(b.get().is_some());
        b.back(refusal(40_000, 1));
    }
    assert_eq!(b.q.backlog().packets, 8);
}

#[test]
fn a_flow_that_is_no_quic_does_not_become_it_by_one_packet() {
    let is_quic = |b: &Bench| {
        let id = b.q.queues.tracker().lookup(&packet(1, 0, DATA, 100).header.key).unwrap();
        b.q.quic.is_known(id, b.q.queues.flow(id))
    };
    let sent = |b: &mut Bench, id, quic| {
        b.put(packet(1, id, quic, 1228));
        while b.get().is_some() {}
    };
    // WireGuard, then an Initial in its sender's name.
    let mut b = Bench::new(&[]);
    (1..=5).for_each(|id| sent(&mut b, id, DATA));
    sent(&mut b, 6, QuicPacket::Initial);
    b.back(answer(1));
    assert!(!is_quic(&b));
    // Two ends that use the ports for QUIC from now on.
    let mut theirs = packet(1, 7, QuicPacket::Initial, 1228);
    theirs.header.key = theirs.header.key.reverse();
    b.back(theirs);
    assert!(is_quic(&b));
    let mut b = Bench::new(&[]);
    (1..=5).for_each(|id| sent(&mut b, id, DATA));
    b.back(theirs);
    assert!(!is_quic(&b));
    sent(&mut b, 6, QuicPacket::Handshake);
    assert!(is_quic(&b));
    // A server that asks for the address first.
    let mut b = Bench::new(&[]);
    sent(&mut b, 1, QuicPacket::VersionNegotiation);
    sent(&mut b, 2, QuicPacket::Retry);
    assert!(is_quic(&b));
}

#[test]
fn other_datagrams_are_no_quic() {
    let mut b = Bench::new(&[]);
    // First bits as of a short header, but no handshake before: two seconds are a hundred packets of 20 ms, and of what
    // sends for more than a second so much that something always waits, 100 ms are five.
    (1..=140).for_each(|id| b.put(packet(1, id, DATA, 1228)));
    assert_eq!(b.q.backlog().packets, 122);
    b.wait(1100);
    (141..=280).for_each(|id| b.put(packet(1, id, DATA, 1228)));
    assert_eq!(b.q.backlog().packets, 6);
}

#[test]
fn the_first_packet_of_all_repeats_nothing() {
    let mut b = Bench::new(&[]);
    b.now = Instant::from_nanos(200_000_000);
    b.put(packet(1, 1, QuicPacket::Initial, 1228));
    assert_eq!(waiting(&mut b), [1]);
}

#[test]
fn the_end_of_a_burst_is_seen_however_short_or_long_it_is() {
    // 102 bytes may be an acknowledgment elsewhere; 1200 of 1228 are no full packet.
    for last in [102, 1200] {
        let mut b = begun(&[], 2);
        b.put(packet(1, 3, DATA, last));
        b.wait(325);
        (11..=12).for_each(|id| b.put(packet(1, id, DATA, 1228)));
        assert_eq!(suppressed(&mut b), [11, 12], "{last}: nothing more is to be said");
    }
    // By itself such a packet says nothing of the data: more may come.
    let mut b = begun(&[], 2);
    b.wait(20);
    b.put(packet(1, 3, DATA, 102));
    b.wait(325);
    b.put(packet(1, 11, DATA, 1228));
    assert_eq!(waiting(&mut b), [1, 2, 3, 11]);
}
