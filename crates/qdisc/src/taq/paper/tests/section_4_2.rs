//! 4.2: five queues on three levels.

use super::*;

#[test]
fn s6_syns_and_the_first_packets_of_a_flow_stand_among_the_new() {
    let mut b = Bench::new(&[("buffer", "100")]);
    b.syn(0, 1);
    assert_eq!(b.waiting(Class::New), 1);
    b.drain(0);
    // Twenty packets are new; the one after them is not, and nothing is known of the rate yet: below fair share.
    for n in 1..=21 {
        b.data(1, 1, 1000);
        assert_eq!(b.waiting(Class::New), usize::from(n <= 20), "{n}");
        b.drain(1);
    }
    // A flow is new for five epochs: 5 * 200 ms.
    b.data(1_000, 2, 1000);
    b.drain(1_000);
    b.data(1_990, 2, 1000);
    assert_eq!(b.waiting(Class::New), 1);
    b.drain(1_990);
    b.data(2_010, 2, 1000);
    assert_eq!((b.waiting(Class::New), b.waiting(Class::Below)), (0, 1));
}

#[test]
fn s6_a_flow_is_new_only_in_slow_start_and_before_its_first_loss() {
    let mut b = Bench::new(&[("buffer", "100")]);
    let mut udp = b.packet(1, 0, 500, Flags::ACK);
    (udp.header.key.proto, udp.header.tcp) = (Proto::UDP, None);
    b.offer(0, udp);
    assert_eq!(
        (b.waiting(Class::New), b.waiting(Class::Below)),
        (0, 1),
        "what has no phase is not in slow start"
    );
    b.drain(0);
    b.data(10, 2, 1000);
    b.again(10, 2, 1000);
    b.drain(10);
    b.data(10, 2, 1000);
    assert_eq!((b.waiting(Class::New), b.waiting(Class::Below)), (0, 1), "it lost a packet somewhere");
    b.drain(10);
    // Another connection on the same ports starts afresh.
    let syn = b.packet(2, 77_000, 0, Flags::SYN.and(Flags::ACK));
    b.offer(20, syn);
    b.seqs[2] = 77_001;
    b.data(20, 2, 1000);
    assert_eq!(b.waiting(Class::New), 2);
}

#[test]
fn s6_slow_start_after_a_loss_is_not_new() {
    for lost_here in [true, false] {
        let mut b = Bench::new(&[("buffer", "100")]);
        b.data(0, 1, 1000);
        if lost_here {
            let key = b.packet(1, 0, 0, Flags::ACK).header.key;
            let node = b.q.store.tail_of(slot(b.q.tracker.lookup(&key).unwrap())).unwrap();
            b.q.drop_node(at(0), node, Reason::PushedOut, &mut b.verdicts);
        }
        b.drain(0);
        // The timer's retransmission goes through: slow start again, at an age of 3.5 epochs and two packets.
        b.again(700, 1, 1000);
        b.drain(700);
        b.data(710, 1, 1000);
        assert_eq!((b.waiting(Class::New), b.waiting(Class::Below)), (0, 1), "{lost_here}");
    }
}

#[test]
fn s8_s9_the_rate_decides_below_or_above_fair_share() {
    let mut b = Bench::new(&[("buffer", "100")]);
    // 25 * 1000 B in 200 ms are 1 Mbit/s; the link has 600 kbit/s and no other flow.
    b.past(200, 1, 25);
    b.data(201, 1, 1000);
    assert_eq!(b.waiting(Class::Above), 1);
    b.drain(201);
    // 40 packets in 3 s are far below, and more than the 20 of a new flow: 13 a second * 8000 bit = 107 kbit/s.
    for n in 0..40 {
        b.data(1_000 + n * 75, 2, 1000);
        b.drain(1_000 + n * 75);
    }
    b.data(4_000, 2, 1000);
    assert_eq!(b.waiting(Class::Below), 1);
}

#[test]
fn s8_just_below_its_share_is_below() {
    let mut b = Bench::new(&[("buffer", "100")]);
    // 11 * 1000 B in each 200 ms are 440 kbit/s of 600.
    b.past(200, 1, 11);
    b.past(400, 1, 11);
    b.data(400, 1, 1000);
    assert_eq!((b.waiting(Class::Below), b.waiting(Class::Above)), (1, 0));
}

#[test]
fn s8_s9_the_rate_is_of_what_was_sent_on() {
    let mut b = Bench::new(&[("buffer", "100")]);
    // 25 packets arrive in an epoch and ten leave: 1 Mbit/s and 400 kbit/s, of 600.
    for _ in 0..25 {
        b.data(0, 1, 1000);
    }
    for _ in 0..10 {
        b.send(1);
    }
    b.data(200, 1, 1000);
    assert_eq!(b.waiting(Class::Above), 0);
    b.drain(201);
    // The other sixteen leave in the second: 10 000 * 7/8 + 16 000 / 8 = 10 750 B, 430 kbit/s.
    assert_eq!(b.flow(400, 1).rate(), Rate::from_kbps(430));
}

#[test]
fn s3_packets_are_classified_not_flows() {
    let mut b = Bench::new(&[("buffer", "100")]);
    let first: Vec<_> = (0..20).map(|_| b.data(0, 1, 100)).collect();
    let next = b.data(0, 1, 100);
    assert_eq!((b.waiting(Class::New), b.waiting(Class::Below)), (20, 1));
    // An MTU of the new flows' queue, fifteen packets, then its turn is over: the last overtakes five.
    let sent = b.drain(0);
    assert_eq!(sent[..15], first[..15]);
    assert_eq!((sent[15], &sent[16..]), (next, &first[15..]));
}

#[test]
fn s2_shares_may_be_in_proportion_to_one_over_the_epoch() {
    let mut b = Bench::new(&[("buffer", "100"), ("fair_share", "proportional")]);
    for (flow, epoch) in [(1, 100), (2, 300)] {
        b.data(0, flow, 1000);
        b.send(0);
        b.acks(epoch, flow);
        b.data(epoch, flow, 1000);
        b.drain(epoch);
    }
    // 600 kbit/s, 3 to 1.
    let share = [1, 2].map(|flow| (b.id(flow), b.q.tracker.active_flows()));
    let [fast, slow] = share.map(|(id, among)| b.q.shares.of(id, among).bps);
    assert!(fast.abs_diff(450_000) < 5_000 && slow.abs_diff(150_000) < 5_000, "{fast} {slow}");
}

#[test]
fn s4_the_recovery_queue_has_retransmissions_only() {
    let mut b = Bench::new(&[("buffer", "100")]);
    b.data(0, 1, 1000);
    let ack = b.packet(2, 7, 0, Flags::ACK);
    b.offer(0, ack);
    b.again(0, 1, 1000);
    assert_eq!([Class::Recovery, Class::New, Class::Below].map(|c| b.waiting(c)), [1, 1, 1]);
}

#[test]
fn s7_two_drops_in_this_epoch_and_the_last_are_several() {
    let mut b = Bench::new(&[("buffer", "100")]);
    b.past(200, 1, 25);
    // Drops at these times: none; one; two of the last epoch; one of the last; one of each.
    let turns = [
        (201, Class::Above),
        (210, Class::Below),
        (420, Class::Over),
        (610, Class::Below),
        (620, Class::Over),
    ];
    for (ms, class) in turns {
        b.data(ms, 1, 1000);
        assert_eq!(b.waiting(class), 1, "{ms}");
        b.lose(ms, 1);
    }
}

#[test]
fn s8_s9_what_has_no_timer_stands_by_its_rate_whatever_was_dropped() {
    let mut b = Bench::new(&[("buffer", "100")]);
    let udp = |b: &mut Bench| {
        let mut p = b.packet(2, 0, 960, Flags::ACK);
        (p.header.key.proto, p.header.tcp) = (Proto::UDP, None);
        p
    };
    // 25 kB in the first epoch of 200 ms: 1 Mbit/s, above the link's 600 kbit/s.
    for _ in 0..25 {
        let p = udp(&mut b);
        b.offer(0, p);
        b.drain(0);
    }
    for ms in [201, 210, 220] {
        let p = udp(&mut b);
        b.offer(ms, p);
        assert_eq!(b.waiting(Class::Above), 1, "{ms}");
        let id = b.q.tracker.lookup(&p.header.key).unwrap();
        let node = b.q.store.tail_of(slot(id)).unwrap();
        b.q.drop_node(at(ms), node, Reason::PushedOut, &mut b.verdicts);
    }
}

#[test]
fn s14_within_a_queue_first_come_is_first_served() {
    let mut b = Bench::new(&[("buffer", "100")]);
    let ids: Vec<_> = [3, 1, 2, 1, 3].map(|flow| b.data(0, flow, 1000)).into();
    assert_eq!(b.waiting(Class::New), 5);
    assert_eq!(b.drain(0), ids);
}

#[test]
fn s18_above_fair_share_waits_for_the_rest() {
    let mut b = Bench::new(&[("buffer", "100")]);
    b.past(200, 1, 25);
    let above = [b.data(201, 1, 1000), b.data(201, 1, 1000)];
    let new = [b.data(201, 2, 1000), b.data(201, 3, 1000)];
    assert_eq!(b.drain(201), [new[0], new[1], above[0], above[1]]);
}

#[test]
fn s19_three_drops_in_one_epoch_move_what_waits_above() {
    let mut b = Bench::new(&[("buffer", "4")]);
    b.past(200, 1, 25);
    let kept = [0; 4].map(|_| b.data(201, 1, 1000));
    assert_eq!(b.waiting(Class::Above), 4);
    let more = [0; 2].map(|_| b.data(201, 1, 1000));
    assert_eq!(b.dropped(), [more[0], kept[3]], "the second stands below fair share, by 4.1 s12");
    assert_eq!((b.waiting(Class::Above), b.waiting(Class::Below)), (3, 1), "two are not more than two");
    let third = b.data(201, 1, 1000);
    assert_eq!(b.dropped(), [kept[2]]);
    assert_eq!([Class::Above, Class::Over, Class::Below].map(|c| b.waiting(c)), [0, 3, 1]);
    let mut sent = b.drain(201);
    sent.retain(|id| *id != more[1]);
    assert_eq!(sent, [third, kept[0], kept[1]], "in their order");
}

#[test]
fn s19_drops_of_two_epochs_do_not_move_what_waits() {
    let mut b = Bench::new(&[("buffer", "4")]);
    b.past(200, 1, 25);
    for _ in 0..6 {
        b.data(201, 1, 1000);
    }
    assert_eq!((b.dropped().len(), b.waiting(Class::Above)), (2, 3));
    b.data(420, 1, 1000);
    assert_eq!((b.dropped().len(), b.waiting(Class::Above)), (1, 2));
}

#[test]
fn s11_s22_recovery_is_capped_unless_the_rest_is_empty() {
    let mut b = Bench::new(&[("buffer", "100"), ("rho_r", "0.3")]);
    for flow in 1..=6 {
        b.data(0, flow, 1500);
        b.drain(0);
    }
    let again: Vec<_> = (1..=6).map(|f| b.again(0, f, 1500)).collect();
    let new: Vec<_> = (7..=9).map(|f| b.data(0, f, 1500)).collect();
    // The bucket holds max(100 ms at 180 kbit/s = 2250 B, two MTU = 3000 B): two of them.
    assert_eq!([b.send(0), b.send(0), b.send(0)], [Some(again[0]), Some(again[1]), Some(new[0])]);
    // 180 kbit/s fill it by 1500 B in 66.7 ms; it lets a packet through as soon as there is anything in it, on credit.
    assert_eq!([b.send(1), b.send(1)], [Some(again[2]), Some(new[1])]);
    assert_eq!(b.send(60), Some(new[2]), "1 ms short of the credit");
    // Nothing else waits: the cap does not count, and what goes out then is not charged.
    assert_eq!([b.send(61), b.send(61)], [Some(again[3]), Some(again[4])]);
    let late = b.data(67, 9, 1500);
    assert_eq!([b.send(68), b.send(68)], [Some(again[5]), Some(late)]);
}

#[test]
fn s12_the_recovery_queue_is_limited() {
    let mut b = Bench::new(&[("buffer", "8")]);
    for flow in 1..=8 {
        b.data(0, flow, 1000);
        b.drain(0);
    }
    let again: Vec<_> = (1..=8).map(|f| b.again(10, f, 1000)).collect();
    // Three quarters of 8 packets: the seventh and the eighth are one too many each; the newest of equal keys goes.
    assert_eq!(b.dropped(), [again[6], again[7]]);
    assert_eq!(b.waiting(Class::Recovery), 6);
}
