//! The table under pressure.

use super::*;

fn small(capacity: usize) -> Tracker {
    Tracker::new(TrackerConfig { capacity, ..TrackerConfig::default() }, 99)
}

/// A flow with a handshake, data and an ACK.
fn establish(t: &mut Tracker, now: Instant, n: u32) -> FlowId {
    let key = download(n);
    t.reverse(now, &segment(key.reverse(), SYN, CALL, 0));
    t.forward(now, &segment(key, SYN_ACK, 99, 0));
    let id = t.forward(now, &segment(key, ACK, 100, 100)).id.unwrap();
    let ack = TcpHeader { seq: SeqNum(501), ack: SeqNum(200), flags: ACK, ..TcpHeader::default() };
    assert_eq!(t.reverse(now, &header(key.reverse(), ack)), Some(id));
    id
}

#[test]
fn a_hundred_established_flows_survive_a_syn_flood() {
    // In both directions, and answered, at 100 000 a second; the table has room for 1000.
    let mut t = small(1000);
    let ids: Vec<_> = (0..100).map(|n| establish(&mut t, ms(0), n)).collect();
    let memory = t.memory_bytes();
    for i in 0..100_000u32 {
        let now = ms(10) + Duration::from_micros(10 * u64::from(i));
        let key = download(1_000_000 + i);
        match i % 3 {
            0 => assert!(t.forward(now, &segment(key, SYN, i, 0)).id.is_some()),
            1 => assert!(t.reverse(now, &segment(key.reverse(), SYN, i, 0)).is_some()),
            _ => {
                t.reverse(now, &segment(key.reverse(), SYN, CALL, 0));
                t.forward(now, &segment(key, SYN_ACK, i, 0));
            }
        }
        t.tick(now);
    }
    for (n, id) in ids.into_iter().enumerate() {
        assert_eq!(t.lookup(&download(n as u32)), Some(id));
        assert_eq!(t.flow(id).max_seq(), SeqNum(200));
    }
    assert_eq!((t.len(), t.memory_bytes()), (1000, memory));
    assert_eq!((t.counters().evicted_in_use, t.counters().evicted), (0, 99_100));
    assert_eq!(t.active_flows(), 100, "a SYN owns no share");
}

#[test]
fn single_packets_of_garbage_do_not_displace_them_either() {
    let mut t = small(200);
    let ids: Vec<_> = (0..100).map(|n| establish(&mut t, ms(0), n)).collect();
    for i in 0..20_000u32 {
        let now = ms(10) + Duration::from_micros(10 * u64::from(i));
        let n = 1_000_000 + i;
        let h =
            if i % 2 == 0 { segment(download(n), Flags(i as u8), i * 7919, i % 1500) } else { udp(n, 100) };
        let seen = t.forward(now, &h);
        assert!(!seen.evicted_in_use && seen.fresh);
        t.tick(now);
    }
    assert!(ids.iter().enumerate().all(|(n, id)| t.lookup(&download(n as u32)) == Some(*id)));
    assert_eq!(t.active_flows(), 100);
}

#[test]
fn the_longest_unheard_goes_first() {
    let mut t = small(3);
    for n in 0..3 {
        establish(&mut t, ms(10_000 * u64::from(n)), n);
    }
    // The first is heard of again, so the second is the oldest.
    t.forward(ms(30_000), &segment(download(0), ACK, 200, 100));
    let seen = t.forward(ms(40_000), &udp(9, 100));
    assert!(seen.fresh && seen.evicted_in_use);
    let known = |t: &Tracker, n| t.lookup(&download(n)).is_some();
    assert_eq!([known(&t, 0), known(&t, 1), known(&t, 2)], [true, false, true]);
    assert_eq!(t.counters().evicted_in_use, 1);
    // The single datagram is cheaper than either of the others.
    assert!(!t.forward(ms(50_000), &udp(10, 100)).evicted_in_use);
}

#[test]
fn what_waits_is_never_evicted() {
    let mut t = small(2);
    let a = establish(&mut t, ms(0), 0);
    let b = establish(&mut t, ms(1), 1);
    t.queued(a);
    t.queued(b);
    let seen = t.forward(ms(2), &segment(download(2), ACK, 0, 100));
    assert_eq!((seen.id, seen.kind, seen.fresh), (None, PacketKind::New, false));
    assert_eq!(t.reverse(ms(2), &segment(download(3).reverse(), SYN, 0, 0)), None);
    assert_eq!(t.counters().unrecorded, 2);
    t.unqueued(b);
    let seen = t.forward(ms(3), &segment(download(2), ACK, 0, 100));
    assert_eq!(seen.id, Some(b));
    assert!(seen.fresh && seen.evicted_in_use);
    assert_eq!(t.lookup(&download(1)), None);
    assert_eq!(t.lookup(&download(0)), Some(a));
    assert_eq!(t.flow(b).generation(), 1);
}

#[test]
fn a_slot_is_fresh_once() {
    let mut t = small(10);
    // Made by the user's SYN; told at the first packet of the queued direction.
    let id = t.reverse(ms(0), &segment(download(1).reverse(), SYN, 5, 0));
    assert_eq!(t.lookup(&download(1)), id);
    let first = t.forward(ms(1), &segment(download(1), SYN_ACK, 5, 0));
    assert_eq!((first.id, first.fresh), (id, true));
    assert!(!t.forward(ms(2), &segment(download(1), ACK, 6, 10)).fresh);
    // ACKs, data and answers of flows nobody knows make no record.
    assert_eq!(t.reverse(ms(2), &segment(download(2).reverse(), ACK, 5, 10)), None);
    assert_eq!(t.reverse(ms(2), &segment(download(2).reverse(), SYN_ACK, 5, 10)), None);
    assert_eq!(t.len(), 1);
}

/// Ticks until nothing is left to do, which takes up to 0.8 s more.
fn settle(t: &mut Tracker, now: Instant) {
    for k in 0..100 {
        t.tick(now + millis(8) * k);
    }
}

#[test]
fn records_expire_and_sooner_when_the_connection_has_ended() {
    let mut t = small(10);
    establish(&mut t, ms(0), 0);
    let id = establish(&mut t, ms(0), 1);
    let waiting = establish(&mut t, ms(0), 2);
    t.queued(waiting);
    t.forward(ms(1000), &segment(download(0), FIN_ACK, 200, 0));
    let ends = TcpHeader { ack: SeqNum(201), flags: FIN_ACK, ..TcpHeader::default() };
    t.reverse(ms(1001), &header(download(0).reverse(), ends));
    assert!(t.flow(t.lookup(&download(0)).unwrap()).closed());
    settle(&mut t, ms(10_000));
    assert_eq!(t.len(), 3);
    settle(&mut t, ms(12_000));
    assert_eq!((t.len(), t.counters().expired), (2, 1));
    settle(&mut t, ms(119_000));
    assert_eq!(t.len(), 2);
    settle(&mut t, ms(121_000));
    assert_eq!((t.len(), t.lookup(&download(1))), (1, None));
    assert!(!t.flow(id).is_active());
    assert_eq!(t.lookup(&download(2)), Some(waiting), "something of it still waits");
    t.unqueued(waiting);
    settle(&mut t, ms(123_000));
    assert!(t.is_empty());
    assert_eq!(t.next_tick(), None);
}

#[test]
fn a_driver_that_ticks_only_when_asked_sees_what_one_that_polls_sees() {
    let run = |poll: bool| {
        let mut t = small(100);
        let mut log = Vec::new();
        for step in 0..400u64 {
            let now = ms(step * 37);
            if step % 5 == 0 && step < 100 {
                let n = (step / 5 % 7) as u32;
                t.forward(now, &segment(download(n), ACK, step as u32 * 100, 100));
            }
            let mut at = now;
            while poll && at < ms((step + 1) * 37) {
                t.tick(at);
                at += Duration::from_micros(500);
            }
            // The last poll of the step.
            let upto = ms((step + 1) * 37 - 1) + Duration::from_micros(500);
            while let Some(next) = t.next_tick().filter(|&n| !poll && n <= upto) {
                t.tick(next);
            }
            log.push((t.active_flows(), *t.phases(), t.len()));
        }
        log
    };
    for (step, (polled, asked)) in run(true).into_iter().zip(run(false)).enumerate() {
        assert_eq!(polled, asked, "step {step}");
    }
}

#[test]
fn a_tick_is_bounded() {
    let mut t = small(10_000);
    t.tick(ms(0));
    for n in 0..10_000 {
        t.forward(ms(0), &segment(download(n), SYN, 0, 0));
    }
    for k in 1..8 {
        settle(&mut t, ms(k * 17_000));
    }
    // All are due at once: 256 in the first call, then one in 32 us.
    t.tick(ms(200_000));
    assert_eq!(t.counters().expired, 256);
    t.tick(ms(200_000));
    assert_eq!(t.counters().expired, 256);
    assert_eq!(t.next_tick(), Some(ms(200_000) + Duration::from_micros(32)));
    t.tick(ms(200_001));
    assert_eq!(t.counters().expired, 256 + 31);
    settle(&mut t, ms(201_000));
    assert!(t.is_empty());
}

#[test]
fn a_user_with_many_flows_does_not_have_those_of_others_forgotten() {
    let mut t = small(1024);
    let resting: Vec<u32> = (0..20).collect();
    for &n in &resting {
        establish(&mut t, ms(u64::from(n)), n);
    }
    // One of them, who has a flow already, sends two packets each to 3000 fresh ports: none of these is a scan.
    let of = |port: u16| {
        let mut key = download(0);
        (key.dport, key.proto) = (port, Proto::UDP);
        key
    };
    for n in 0..3000u16 {
        let (now, key) = (ms(1000 + u64::from(n)), of(n));
        for _ in 0..2 {
            t.forward(now, &Header { key, len: Bytes(100), ..Header::default() });
        }
    }
    assert_eq!(t.len(), 1024);
    assert!(resting[1..].iter().all(|n| t.lookup(&download(*n)).is_some()), "of others");
    assert!(t.lookup(&of(2999)).is_some(), "and the last of its own");
    // An eighth of the table was the user's before its flows were a crowd.
    let kept = (0..3000).filter(|n| t.lookup(&of(*n)).is_some()).count();
    assert_eq!(kept, 1024 - resting.len());
}
