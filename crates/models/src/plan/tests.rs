//! Conclusions worked by hand, and what must hold of any link.

use narrows_units::{Bytes, Duration, Rate};

use super::*;
use crate::operating::Stack;

fn example() -> SharedLink {
    SharedLink { connections: 4, ..SharedLink::new(Rate::from_kbps(2000), 400, Duration::from_millis(200)) }
}

/// 2 Mbit/s carry 166.7 packets of 1500 B a second: 33.3 in a round trip of 200 ms, for 1600 flows.
#[test]
fn the_example_by_hand() {
    let plan = plan(&example()).unwrap();
    assert_eq!((plan.flows, plan.busy_users, plan.buffer_packets), (1600, 400, 33));
    assert!((plan.share_bps - 1250.0).abs() < 1e-9);
    assert!((plan.share_packets - 33.333_333 / 1600.0).abs() < 1e-7);
    // With the queue full a round trip is 0.2 s and 33 packets: 66.3 packets.
    assert!((plan.point.share_packets_per_rtt - 66.333_333 / 1600.0).abs() < 1e-7);
    // 12 000 bit a packet: 6 ms; a round of 1600 is 9.6 s, 4.2 of them and two round trips are 40.72 s.
    assert!((plan.rounds.round_s - 9.6).abs() < 1e-9 && (plan.rounds.silence_s - 40.72).abs() < 1e-9);
    assert!((plan.rounds.wait_s.0 - 17.28).abs() < 1e-9 && (plan.rounds.wait_s.1 - 43.2).abs() < 1e-9);
    // 7300 B are 5.0414 payloads of 1448 B: 30.25 ms each, 48.4 s for one of each flow.
    assert!((plan.rounds.fetch_s - 1600.0 * 7300.0 / 1448.0 * 0.006).abs() < 1e-9);
    // 1600 flows with three packets each are more than 4000.
    assert!(!plan.rounds.fits);
    // 3 s are 500 packets, so 500 users.
    assert_eq!((plan.admission.users, plan.admission.wait_s), (500, None));
    assert_eq!(plan.verdict, Outlook::PastTipping);
    assert!(plan.point.loss > 0.5 && plan.stalls.longest_s(0.5, 3600.0) > 60.0, "{plan:?}");
}

/// 600 kbit/s take 20 ms a packet: 150 users a round of 3 s. 200 of them: the 50 beyond wait until as many objects are
/// through, T = 7300 / 1448 * 20 ms each. Of 400 nobody waits longer than five rounds: n are in, with n T + 5 n 20 ms =
/// 400 T. The simulator has 5.6 to 6.3 and 21 to 23 s.
#[test]
fn admission_by_hand() {
    let link = SharedLink::new(Rate::from_kbps(600), 400, Duration::from_millis(200));
    let plan = plan(&link).unwrap();
    assert_eq!(plan.admission.users, 150);
    let object_s = 7300.0 / 1448.0 * 0.02;
    assert!((plan.admission.wait_s.unwrap() - 0.1 * 400.0 * object_s / (object_s + 0.1)).abs() < 1e-9);
    let few = super::plan(&SharedLink { users: 200, ..link }).unwrap();
    assert!((few.admission.wait_s.unwrap() - 50.0 * object_s).abs() < 1e-9);
}

/// Admission with four connections each: five rounds of all 400 users, who count once each, are 40 s. The simulator has
/// 40.6 to 40.7.
#[test]
fn connections_wait_for_admission_each_for_itself() {
    let link = SharedLink {
        connections: 4,
        ..SharedLink::new(Rate::from_kbps(600), 400, Duration::from_millis(200))
    };
    let plan = plan(&link).unwrap();
    assert_eq!(plan.admission.users, 150);
    assert!((plan.admission.wait_s.unwrap() - 5.0 * 400.0 * 0.02).abs() < 1e-9);
    // Six users more than the 150 of a round, but no admission control while the others are idle.
    let few = SharedLink { users: 156, busy: 0.9, ..link };
    assert_eq!(super::plan(&few).unwrap().admission.wait_s, None);
}

/// TAQ, section 2.3, on 1 Mbit/s with 50 packets of 500 B: of 200 users with four connections everybody stalls for 20
/// s, of 400 half hang for 60 s. `experiments/taq/sec2-hangs.toml` has 0.95 to 0.99, and 0.45 to 0.54.
#[test]
fn the_paper_s_stalls() {
    let users = |users| {
        let link = SharedLink {
            packet: Bytes(500),
            buffer: DropTailBuffer::Packets(50),
            connections: 4,
            stack: Stack::Rfc,
            ..SharedLink::new(Rate::from_kbps(1000), users, Duration::from_millis(200))
        };
        plan(&link).unwrap().stalls
    };
    let everybody = users(200).share_over(20.0, 1000.0);
    let half = users(400).share_over(60.0, 1000.0);
    assert!(everybody > 0.95, "{everybody}");
    assert!((0.4..0.8).contains(&half), "{half}");
}

/// Checks that a conclusion is tight: no user more, no kbit less, no packet of buffer less.
#[test]
fn exits_and_buffers_are_tight() {
    let link = SharedLink { users: 60, ..example() };
    let now = plan(&link).unwrap();
    assert_eq!(now.exits.iter().map(|e| e.to).collect::<Vec<_>>(), [Outlook::SmallPackets, Outlook::Fine]);
    for exit in &now.exits {
        let verdict = |users, rate| plan(&SharedLink { users, rate, ..link }).unwrap().verdict;
        assert!(verdict(exit.users, link.rate) <= exit.to && verdict(exit.users + 1, link.rate) > exit.to);
        let kbps = exit.rate.unwrap().as_bps() / 1000;
        assert!(
            verdict(60, Rate::from_kbps(kbps)) <= exit.to && verdict(60, Rate::from_kbps(kbps - 1)) > exit.to
        );
    }
    let larger = now.larger_buffer.unwrap();
    let loss =
        |packets| plan(&SharedLink { buffer: DropTailBuffer::Packets(packets), ..link }).unwrap().point.loss;
    assert!(loss(larger.packets) < P_THRESH && loss(larger.packets - 1) >= P_THRESH);
    assert!((larger.delay_s - f64::from(larger.packets) * 0.006).abs() < 1e-9);
    assert!((larger.smallest_fetch_s - 2.0 * (0.2 + larger.delay_s)).abs() < 1e-9);
    let admission = now.loss_admission;
    let loss = |users| plan(&SharedLink { users, ..link }).unwrap().point.loss;
    assert!(loss(admission.users) < P_ADMIT && loss(admission.users + 1) >= P_ADMIT);
}

/// The planner's limits are those of the `taq` that a box runs. A packet of the example takes 6 ms: 500 users are a
/// round of 3 s, and 4000 packets of memory hold 3 of each of 1333 flows.
#[test]
fn limits_are_those_of_taq_s_settings() {
    let limits = TaqLimits::default();
    let Ok(narrows_qdisc::Spec::Taq(config)) = "taq".parse() else { panic!("taq is no discipline") };
    let taq = config.as_default().expect("the default mode");
    assert_eq!(limits.round_limit_s, taq.round_limit_ms.as_secs_f64());
    assert_eq!(limits.wait_rounds, f64::from(taq.wait_rounds));
    assert_eq!(limits.memory_packets, f64::from(taq.memory_packets));
    let of = |users| plan(&SharedLink { users, connections: 1, ..example() }).unwrap();
    assert_eq!(f64::from(of(400).admission.users), (limits.round_limit_s / 0.006).floor());
    let most = (limits.memory_packets / 3.0) as u32;
    assert!(of(most).rounds.fits && !of(most + 1).rounds.fits);
}

fn any(rng: &mut fastrand::Rng) -> SharedLink {
    let rtt = Duration::from_millis(rng.u64(5..800));
    SharedLink {
        packet: Bytes(*rng.choice(&[500, 576, 1000, 1500]).unwrap()),
        buffer: if rng.bool() { DropTailBuffer::Time(rtt) } else { DropTailBuffer::Packets(rng.u32(4..200)) },
        connections: rng.u32(1..8),
        busy: 0.1 + 0.9 * rng.f64(),
        stack: if rng.bool() { Stack::Linux } else { Stack::Rfc },
        ..SharedLink::new(Rate::from_kbps(rng.u64(64..10_000)), rng.u32(1..600), rtt)
    }
}

/// Calls `check` with the seed, the number and the words of each link, the link, and more chance.
fn on_random_links(seed: u64, links: u32, check: impl Fn(&str, SharedLink, &mut fastrand::Rng)) {
    let mut rng = fastrand::Rng::with_seed(seed);
    for i in 0..links {
        let link = any(&mut rng);
        check(&format!("seed {seed}, {i}: {link:?}"), link, &mut rng);
    }
}

#[test]
fn more_rate_is_never_worse_and_more_users_never_better() {
    on_random_links(17, 150, |at, link, rng| {
        let verdict = |link: SharedLink| link.verdict(link.flows()).unwrap();
        let now = verdict(link);
        let faster = SharedLink { rate: Rate::from_bps(link.rate.as_bps() * rng.u64(11..40) / 10), ..link };
        assert!(verdict(faster) <= now, "{at}, then {faster:?}");
        let fuller = SharedLink { users: link.users + rng.u32(1..200), ..link };
        assert!(verdict(fuller) >= now, "{at}, then {fuller:?}");
    });
}

#[test]
fn stalls_are_probabilities_that_fall_with_length() {
    on_random_links(5, 40, |at, link, _| {
        let stalls = plan(&link).unwrap().stalls;
        let shares: Vec<f64> = (0..80).map(|s| stalls.share_over(f64::from(s), 3600.0)).collect();
        assert!(shares.iter().all(|s| (0.0..=1.0).contains(s)), "{at}");
        assert!(shares.windows(2).all(|w| w[1] <= w[0] + 1e-9), "{at} {shares:?}");
        let (half, few) = (stalls.longest_s(0.5, 3600.0), stalls.longest_s(0.01, 3600.0));
        assert!(half <= few && few <= 3600.0, "{at}");
    });
}

/// Simulates stalls by events: each flow has silences of the chain's lengths and rates, and deliveries each 10 ms
/// between them; a user has three, and stalls longer than a limit are counted.
#[test]
fn stalls_of_a_pool_beside_a_simulation_by_events() {
    let seed = 23;
    let link = SharedLink { users: 30, connections: 3, ..example() };
    let stalls = plan(&link).unwrap().stalls;
    let one = plan(&SharedLink { users: 90, connections: 1, ..link }).unwrap().stalls;
    // How often silences of which length begin: stalls of a user with one connection, by steps of a tenth of a second.
    let beyond: Vec<f64> = (0..4000).map(|i| one.per_s(f64::from(i) * 0.1)).collect();
    let silent_s = beyond.iter().sum::<f64>() * 0.1;
    let between_s = (1.0 - silent_s) / beyond[0];
    let mut rng = fastrand::Rng::with_seed(seed);
    let (during, users, limits) = (4000.0, 40, [2.0, 5.0, 10.0]);
    let mut over = [0_u32; 3];
    for _ in 0..users {
        let mut deliveries: Vec<f64> = Vec::new();
        for _ in 0..3 {
            let mut at = -500.0;
            while at < during {
                let until = at - (1.0 - rng.f64()).ln() * between_s;
                while at < until {
                    deliveries.push(at);
                    at += 0.01;
                }
                deliveries.push(until);
                let u = rng.f64() * beyond[0];
                at = until + beyond.partition_point(|rate| *rate > u) as f64 * 0.1 - 0.05;
            }
        }
        deliveries.sort_by(f64::total_cmp);
        for (count, limit) in over.iter_mut().zip(limits) {
            let within = |w: &&[f64]| w[0] >= 0.0 && w[0] < during && w[1] - w[0] > limit;
            *count += deliveries.windows(2).filter(within).count() as u32;
        }
    }
    for (count, limit) in over.iter().zip(limits) {
        let expected = stalls.per_s(limit) * during * f64::from(users);
        // Three standard errors of a count of rare events, and what a step of a tenth of a second blurs.
        let error = 3.0 * expected.sqrt() + 0.1 * expected;
        assert!(
            (f64::from(*count) - expected).abs() < error,
            "seed {seed}, over {limit} s: {count}, {expected}"
        );
    }
}

/// A map's edges are where the verdict changes, and lie in order.
#[test]
fn edges_are_where_the_verdict_changes() {
    let link = example();
    let rates: Vec<Rate> = [64, 200, 1000, 3000, 10_000].map(Rate::from_kbps).to_vec();
    for at in edges(&link, &rates).unwrap() {
        assert!(at.users.windows(2).all(|w| w[0] <= w[1]), "{at:?}");
        for (users, verdict) in at.users.iter().zip(&Outlook::ALL[1..]) {
            let flows = users * 4.0;
            let here = SharedLink { rate: at.rate, ..link };
            let more = (flows * 1.02 + 1.0).ceil() as u32;
            assert!(here.verdict(more).unwrap() >= *verdict, "{at:?} {verdict:?}");
            let fewer = (flows / 1.02 - 1.0).floor();
            assert!(fewer < 1.0 || here.verdict(fewer as u32).unwrap() < *verdict, "{at:?} {verdict:?}");
        }
    }
}

#[test]
fn what_cannot_be_is_told_with_its_domain() {
    let with = |change: fn(&mut SharedLink)| {
        let mut link = example();
        change(&mut link);
        plan(&link).unwrap_err().to_string()
    };
    for (why, parameter) in [
        (with(|l| l.users = 0), "users = 0"),
        (with(|l| l.connections = 0), "connections = 0"),
        (with(|l| l.rtt = Duration::ZERO), "rtt = 0"),
        (with(|l| l.busy = f64::NAN), "busy = NaN"),
        (with(|l| l.busy = 0.0), "busy = 0"),
        (with(|l| l.packet = Bytes(20)), "packet = 20"),
        (with(|l| l.buffer = DropTailBuffer::Packets(0)), "buffer = 0"),
        (with(|l| (l.users, l.connections) = (1_000_000, 1000)), "users times connections"),
        (with(|l| l.patience = Duration::ZERO), "patience = 0"),
    ] {
        assert!(why.starts_with(parameter) && why.contains("expected"), "{why}");
    }
}

#[test]
fn the_extremes_have_a_plan() {
    let wide = SharedLink::new(Rate::from_kbps(1_000_000_000), 1, Duration::from_millis(1));
    assert_eq!(plan(&wide).unwrap().verdict, Outlook::Fine);
    let thin = SharedLink {
        connections: 10,
        ..SharedLink::new(Rate::from_kbps(1), 1_000_000, Duration::from_secs(1000))
    };
    let plan = plan(&thin).unwrap();
    assert_eq!((plan.verdict, plan.flows), (Outlook::TooMany, 10_000_000));
    // 1 kbit/s are 1/12 packet a second; with the queue full a round trip is 1000 s and 83 packets, so 1000 + 996 s.
    assert_eq!(plan.buffer_packets, 83);
    let share = 1996.0 / 12.0 / 1e7;
    assert!((plan.point.share_packets_per_rtt / share - 1.0).abs() < 1e-9, "{plan:?}");
    let carried = plan.point.packets_per_epoch * (1.0 - plan.point.loss);
    assert!(plan.point.loss < 1.0 && (carried / share - 1.0).abs() < 1e-6, "{carried} of {share}");
    assert!((0.0..=3600.0).contains(&plan.stalls.longest_s(0.5, 3600.0)));
}
