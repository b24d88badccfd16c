//! Properties that every discipline must keep, whatever comes: each of the style page's, over random traffic.

use crate::harness::drive::{Tested, Waking, direction, driver, run};
use crate::harness::ledger::{Fate, held};
use crate::harness::traffic::{Arrival, Traffic, for_spec, nonsense};
use crate::harness::{Rng, SPECS, build, link, seeds};
use narrows_qdisc::{Direction, Driver, Event, Record, Spec};
use narrows_units::{Bytes, Duration, Instant};

/// From a link that is half idle to one that gets six times what it carries.
const LOADS: [(usize, u64); 3] = [(6, 50), (20, 150), (60, 600)];
const PACKETS: usize = 1_500;

fn each(mut check: impl FnMut(&str, bool, u64, &[Arrival])) {
    for seed in seeds() {
        for (flows, load) in LOADS {
            let arrivals = Traffic::new(seed, flows, load).generate(PACKETS);
            for spec in SPECS {
                for shaped in [true, false] {
                    println!("{spec} shaped {shaped} seed {seed} flows {flows} load {load} %");
                    check(spec, shaped, seed, &for_spec(spec, &arrivals));
                }
            }
        }
    }
}

/// Conservation, no reordering and the sums are checked by the ledger at every step; here that all is accounted for at
/// the end, and that the queue is empty once nothing more comes.
#[test]
fn every_packet_leaves_once_and_new_data_in_order() {
    each(|spec, shaped, seed, arrivals| {
        let (books, mut q) = run(build(spec, shaped, seed), arrivals, Waking::Told);
        assert_eq!(q.backlog().packets + held(&*q), 0, "something never left");
        assert_eq!(books.count(|f| *f != Fate::Marked), arrivals.len());
        let report = q.report(Instant::FAR_FUTURE);
        assert_eq!(report.counters.sent as usize, books.count(|f| matches!(f, Fate::Sent(_))));
        assert_eq!(report.counters.dropped_total() as usize, books.count(|f| matches!(f, Fate::Dropped(_))));
        assert_eq!(report.counters.refused as usize, books.count(|f| matches!(f, Fate::Refused(_))));
        assert_eq!(report.counters.marked as usize, books.count(|f| *f == Fate::Marked));
        assert_eq!(report.counters.arrived as usize, arrivals.iter().filter(|a| a.forward).count());
    });
}

#[test]
fn who_calls_when_told_sees_what_one_who_polls_sees() {
    both_ways_are_one(|| Waking::Told, || Waking::Polling);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    both_ways_are_one(|| Waking::Told, || Waking::Told);
}

/// Two runs with the same seed, driven in one way and in the other, are event for event the same.
fn both_ways_are_one(one: fn() -> Waking, other: fn() -> Waking) {
    each(|spec, shaped, seed, arrivals| {
        let ledger = |waking| run(build(spec, shaped, seed), arrivals, waking).0;
        let (a, b) = (ledger(one()), ledger(other()));
        for (i, (x, y)) in a.fates.iter().zip(&b.fates).enumerate() {
            assert_eq!(x, y, "event {i}");
        }
        assert_eq!(a.fates.len(), b.fates.len());
    });
}

#[test]
fn nothing_leaves_before_the_link_is_free() {
    each(|spec, shaped, seed, arrivals| {
        if !shaped {
            return;
        }
        let rate = link().rate;
        let books = run(build(spec, true, seed), arrivals, Waking::Told).0;
        for pair in books.sent_lens.windows(2) {
            let [(before, len), (after, _)] = pair else { continue };
            assert!(*after >= *before + rate.time_to_send(*len), "{before:?} {after:?}");
        }
        // A driver that comes late may make up for a fifth of a second, so what leaves is never further ahead of the
        // link than that and one MTU, from whatever packet one counts.
        let late = run(build(spec, true, seed), arrivals, Waking::Late(Rng::new(seed))).0;
        let mut free_at = Instant::ZERO;
        let mtu = rate.time_to_send(Bytes(1500));
        for (at, len) in late.sent_lens {
            assert!(at + mtu + Duration::from_millis(200) >= free_at, "earlier than what is made up for");
            free_at = free_at.max(at) + rate.time_to_send(len);
        }
    });
}

#[test]
fn memory_is_bounded_under_any_load() {
    for seed in seeds() {
        let arrivals = Traffic::new(seed, 300, 5_000).generate(3 * PACKETS);
        for text in SPECS {
            println!("{text} seed {seed}");
            let most = text.parse::<Spec>().unwrap().limits(&link()).packets;
            let books = run(build(text, true, seed), &for_spec(text, &arrivals), Waking::Told).0;
            assert!(books.most_packets <= most, "{} > {most}", books.most_packets);
            assert!(books.most_held <= 1024);
        }
    }
}

#[test]
fn headers_that_mean_nothing_do_no_harm() {
    for seed in seeds() {
        let mut rng = Rng::new(seed);
        let mut now = 0;
        let arrivals: Vec<_> = (0..20_000)
            .map(|id| {
                now += rng.below(12_000_000) * u64::from(rng.once_in(3));
                let packet = nonsense(&mut rng, id);
                Arrival { at: Instant::from_nanos(now), forward: !rng.once_in(3), in_order: false, packet }
            })
            .collect();
        for spec in SPECS {
            println!("{spec} seed {seed}");
            let (_, q) = run(build(spec, true, seed), &arrivals, Waking::Told);
            assert_eq!(q.backlog().packets + held(&*q), 0);
        }
    }
}

#[test]
fn a_flood_of_syns_neither_grows_the_books_nor_stops_the_rest() {
    for text in SPECS {
        let mut driver = driver(build(text, true, 1));
        let mut rng = Rng::new(7);
        let mut sent = 0;
        for n in 0..100_000u64 {
            let now = Instant::from_nanos(n * 10_000); // 100 000 a second
            let mut r = nonsense(&mut rng, n);
            r.header.key = narrows_wire::FlowKey::new(
                core::net::Ipv4Addr::from(0x0b00_0000 + rng.below(1 << 24) as u32).into(),
                [192, 0, 2, 1].into(),
                rng.next() as u16,
                80,
                narrows_wire::Proto::TCP,
            );
            r.header.len = Bytes(60);
            let tcp = narrows_wire::TcpHeader { flags: narrows_wire::Flags::SYN, ..Default::default() };
            r.header.tcp = Some(tcp);
            driver.arrive(now, Direction::BOTH[n as usize % 2], r, &mut |e| {
                sent += usize::from(matches!(e, Event::Send(Direction::Down, _)));
            });
        }
        let [mut q, _] = driver.into_disciplines();
        let held = held(&*q);
        let limits = text.parse::<Spec>().unwrap().limits(&link());
        assert!(q.backlog().packets <= limits.packets && held <= 1024, "{text}");
        // One second of 600 kbit/s are 75 000 bytes: 1250 SYNs if all are let in.
        println!("{text}: {sent} sent, {held} held");
        let report = q.report(Instant::from_nanos(1_000_000_000));
        assert!(report.flows <= limits.flows, "{text}: {} flows", report.flows);
    }
}

#[test]
fn settings_change_while_packets_wait() {
    for seed in seeds() {
        let arrivals = Traffic::new(seed, 40, 300).generate(PACKETS);
        for pair in SPECS.windows(2) {
            println!("{pair:?} seed {seed}");
            let mut driver = driver(build(pair[0], true, seed));
            let (half, last) = (arrivals.len() / 2, arrivals[arrivals.len() - 1].at);
            let load = |driver: &Driver<Record, Tested>| {
                let q = driver.discipline(Direction::Down);
                q.backlog().packets + held(&**q)
            };
            for a in &arrivals[..half] {
                driver.arrive(a.at, direction(a), a.packet, &mut drop);
            }
            let before = load(&driver);
            let settings: Spec = pair[1].parse().unwrap();
            let q = driver.discipline_mut(Direction::Down);
            let kept = q.reconfigure(arrivals[half].at, settings.settings(), &link());
            assert_eq!(load(&driver), before, "a reload lost something");
            for a in &arrivals[half..] {
                driver.arrive(a.at, direction(a), a.packet, &mut drop);
            }
            println!("kept {kept}");
            if let Some(path) = driver.discipline_mut(Direction::Down).reverse_path_mut() {
                path.release_all(last);
            }
            let mut now = last;
            while let Some(t) = driver.next_service(now) {
                now = now.max(t);
                driver.service(now, &mut drop);
            }
            assert_eq!(load(&driver), 0);
        }
    }
}
