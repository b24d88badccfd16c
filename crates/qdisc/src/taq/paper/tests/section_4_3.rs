//! 4.3: admission.

use super::*;

#[test]
fn s2_s11_admission_stops_when_the_loss_reaches_p_admit_and_goes_on_when_it_falls() {
    let mut b =
        Bench::new(&[("buffer", "4"), ("admission", "on"), ("p_admit", "0.09"), ("newflow_cap", "0.5")]);
    let request = |b: &mut Bench, ms, flow| {
        let mut p = b.packet(flow, 7, 0, Flags::SYN);
        p.header.key = p.header.key.reverse();
        b.q.reverse(at(ms), p, &mut b.verdicts).is_some()
    };
    for flow in 1..=10 {
        b.data(1_000, flow, 1000);
        b.drain(1_000);
    }
    // The new-flow queue holds two.
    for flow in 11..=13 {
        b.data(1_000, flow, 1000);
    }
    // 13 arrivals and one drop: 0.0769.
    assert_eq!((b.dropped().len(), b.q.loss.rate(at(1_000))), (1, Ppm(76_923)));
    assert!(request(&mut b, 1_000, 30));
    // 17 arrivals and two drops: 0.1176.
    b.drain(1_100);
    for flow in 40..44 {
        b.data(1_100, flow, 1000);
        if flow == 40 {
            b.drain(1_100);
        }
    }
    assert_eq!((b.dropped().len(), b.q.loss.rate(at(1_100))), (1, Ppm(117_647)));
    assert!(!request(&mut b, 1_100, 31));
    assert!(request(&mut b, 1_100, 30), "of a pool that is in");
    let report = b.q.report(at(1_100));
    let admission = report.admission.unwrap();
    assert!(admission.overloaded && admission.waiting == 1 && report.loss_ppm == 117_647);
    // The window of five seconds has passed both drops.
    assert!(request(&mut b, 6_200, 31));
}

#[test]
fn s18_an_upload_is_refused_by_the_same_admission() {
    let mut b =
        Bench::new(&[("admission", "on"), ("waiting_syn", "hold"), ("buffer", "4"), ("t_wait", "3s")]);
    for flow in 1..=20 {
        b.data(0, flow, 1000);
    }
    b.dropped();
    let p = b.packet(30, 7, 0, Flags::SYN);
    b.offer(10, p);
    assert_eq!((b.q.held(), b.q.counters.refused), (1, 0));
    b.drain(10);
    assert_eq!(b.q.next_release(at(10)), Some(at(100)), "the loss window moves on each tenth of a second");
    assert!(b.q.release(at(3_010), &mut b.verdicts).is_none());
    assert_eq!((b.q.held(), b.q.backlog().packets), (0, 1), "its three seconds are over: queued");
}

#[test]
fn s11_nobody_is_admitted_for_having_waited() {
    let mut b = Bench::new(&[("admission", "on"), ("buffer", "4")]);
    for flow in 1..=20 {
        b.data(0, flow, 1000);
    }
    b.dropped();
    let knock = |b: &mut Bench, ms| {
        let mut p = b.packet(30, 7, 0, Flags::SYN);
        p.header.key = p.header.key.reverse();
        b.q.reverse(at(ms), p, &mut b.verdicts).is_some()
    };
    // The client asks all the time (5.5); sixteen of twenty were lost, until the window of five seconds has passed.
    let admitted: Vec<_> = (10..6_000).step_by(100).map(|ms| knock(&mut b, ms)).collect();
    assert_eq!(admitted.iter().position(|&in_now| in_now), Some(50));
    assert!(admitted[50..].iter().all(|&in_now| in_now));
}

#[test]
fn new_pools_wait_from_p_admit_on_and_those_who_are_served_are_remembered() {
    let settings = [("buffer", "8"), ("admission", "on"), ("pools", "16")];
    let mut b = Bench::new(&settings);
    let request = |b: &mut Bench, ms, flow: u8| {
        let mut p = b.packet(flow, 7, 0, Flags::SYN);
        p.header.key = p.header.key.reverse();
        b.q.reverse(at(ms), p, &mut b.verdicts).is_some()
    };
    assert!(request(&mut b, 0, 1));
    b.data(0, 1, 1000);
    b.drain(0);
    for flow in 100..140 {
        assert!(request(&mut b, 10, flow));
    }
    // Eleven arrivals and one drop are 0.0909: above 0.09, below 0.1.
    for flow in 2..=8 {
        b.data(20, flow, 1000);
        b.drain(20);
    }
    for flow in 9..=11 {
        b.data(20, flow, 1000);
    }
    assert_eq!((b.dropped().len(), b.q.loss.rate(at(20))), (1, Ppm(90_909)));
    assert!(!request(&mut b, 30, 50));
    assert!(request(&mut b, 30, 1), "forty made-up addresses have not pushed it out of a table of sixteen");
}

#[test]
fn made_up_addresses_do_not_push_out_a_pool_that_is_served() {
    let mut b = Bench::new(&[("admission", "on"), ("pools", "16")]);
    let syn = |b: &mut Bench, ms, flow: u8| {
        let mut p = b.packet(flow, 7, 0, Flags::SYN);
        p.header.key = p.header.key.reverse();
        assert!(b.q.reverse(at(ms), p, &mut b.verdicts).is_some());
        // The server answers each.
        let answer = b.packet(flow, 0, 0, Flags::SYN.and(Flags::ACK));
        b.offer(ms, answer);
        b.drain(ms);
    };
    syn(&mut b, 0, 1);
    b.data(0, 1, 1000);
    b.drain(0);
    let served = b.q.admission.pool([10, 0, 0, 1].into());
    for flow in 20..63 {
        syn(&mut b, 10, flow);
    }
    assert_eq!(b.q.admission.pool([10, 0, 0, 1].into()), served, "it is where it was in a table of sixteen");
    assert!(b.q.admission.pool([10, 0, 0, 20].into()).is_none());
}

#[test]
fn s13_s14_pools_share_and_only_the_fair_share_changes() {
    // One user has a flow, another two; each sends 6 kB an epoch, 240 kbit/s. By flows each is above its 200; by
    // users the first is below its 300 and the others are above their 150.
    for (share, below) in [("flow", 0), ("user", 1)] {
        let mut b = Bench::new(&[("buffer", "100"), ("share", share)]);
        let send = |b: &mut Bench, ms, flow: u8| {
            let seq = b.seqs[usize::from(flow)];
            b.seqs[usize::from(flow)] += 960;
            let mut p = b.packet(flow, seq, 960, Flags::ACK);
            let user = [10, 0, 0, flow.min(2)];
            p.header.key = FlowKey::new(SERVER.into(), user.into(), 80, 4000 + u16::from(flow), Proto::TCP);
            b.offer(ms, p);
        };
        for epoch in 0..20 {
            for flow in 1..=3 {
                (0..6).for_each(|_| send(&mut b, 201 * epoch, flow));
                b.drain(201 * epoch);
            }
        }
        (1..=3).for_each(|flow| send(&mut b, 4_020, flow));
        assert_eq!((b.waiting(Class::Below), b.waiting(Class::Above)), (below, 3 - below), "{share}");
    }
}
