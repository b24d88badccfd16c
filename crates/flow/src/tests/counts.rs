//! Counts kept on the way equal counts made afresh.

use core::net::IpAddr;

use narrows_users::User;

use super::*;
use crate::fuzzing;

fn user(address: IpAddr) -> User {
    User::of(address, 128)
}

#[test]
fn counts_by_phase_equal_a_full_recount() {
    let mut t = Tracker::new(TrackerConfig { capacity: 300, ..TrackerConfig::default() }, 5);
    let seed = 0x5eed_0001u64;
    let mut rng = fuzzing::XorShift::new(seed);
    let mut now = ms(0);
    for step in 0..60_000 {
        now += Duration::from_micros(rng.below(3000));
        t.tick(now);
        let n = rng.below(400) as u32;
        let seq = rng.below(40) as u32 * 100;
        let h = segment(download(n), ACK, seq, 100);
        let Some(id) = t.forward(now, &h).id else { continue };
        if rng.below(4) == 0 {
            t.dropped(now, id, &h);
        } else {
            t.departed(now, id, &h);
        }
        if step % 1000 == 0 {
            let census = t.census(now);
            assert_eq!(census.by_phase, *t.phases(), "seed {seed:#x} step {step}");
            assert_eq!(census.active, t.active_flows(), "seed {seed:#x} step {step}");
            assert_eq!(census.pools, t.active_users());
            assert_eq!(census.flows, t.len());
            assert_eq!(
                census.by_phase.iter().sum::<usize>() + census.unphased + census.not_tcp,
                census.flows
            );
        }
    }
}

#[test]
fn phases_stay_true_for_flows_that_send_nothing() {
    let mut t = Tracker::new(TrackerConfig { initial_epoch: millis(100), ..TrackerConfig::default() }, 5);
    for n in 0..10 {
        let h = segment(download(n), ACK, 0, 100);
        let id = t.forward(ms(0), &h).id.unwrap();
        t.forward(ms(1), &segment(download(n), ACK, 100, 100));
        if n < 4 {
            t.dropped(ms(1), id, &h);
        }
    }
    assert_eq!(t.phases()[Phase::SlowStart.index()], 6);
    assert_eq!(t.phases()[Phase::LossRecovery.index()], 4);
    assert_eq!((t.active_flows(), t.active_users()), (10, 10));
    // Epochs end at 100 (with packets) and 200 ms (without); the wheel turns 8.4 ms at a time.
    t.tick(ms(210));
    assert_eq!(t.phases()[Phase::Idle.index()], 6);
    assert_eq!(t.phases()[Phase::TimeoutSilence.index()], 4);
    // After 2 s only those that a loss keeps silent still own a share.
    t.tick(ms(2100));
    assert_eq!((t.active_flows(), t.active_of(user(download(0).dst()))), (4, 1));
    assert_eq!(t.active_of(user(download(9).dst())), 0);
    let other = t.clone();
    // However long it lasts; the wheel comes by every 34 s.
    for at in (2100..60_000).step_by(8) {
        t.tick(ms(at));
    }
    assert_eq!((t.active_flows(), t.len()), (4, 10));
    let mut t = other;
    let census = t.census(ms(3001));
    assert_eq!((census.silent, census.longest_stall, census.active), (4, millis(3000), 4));
}

#[test]
fn a_pool_learnt_late_moves_its_flows() {
    // Picked up in its middle, port 80 passes for the server; then that side opens a connection on the same ports.
    let mut t = Tracker::new(TrackerConfig::default(), 5);
    let (src, dst) = (download(1).src(), download(1).dst());
    t.forward(ms(0), &segment(download(1), ACK, 0, 100));
    t.forward(ms(1), &segment(download(1), ACK, 100, 100));
    assert_eq!((t.active_of(user(src)), t.active_of(user(dst))), (0, 1));
    t.forward(ms(2), &segment(download(1), SYN, 77, 0));
    assert_eq!((t.active_of(user(src)), t.active_of(user(dst)), t.active_users()), (1, 0, 1));
}

#[test]
fn lazy_equals_eager_on_random_scripts() {
    // The fuzz target compares a tracker that is left alone with one advanced and ticked all the time.
    for seed in 1..=300u64 {
        let mut rng = fuzzing::XorShift::new(seed);
        let bytes: Vec<u8> = (0..600).map(|_| rng.below(256) as u8).collect();
        println!("seed {seed}");
        fuzzing::tracker(&bytes);
    }
}

#[test]
fn two_timestamp_options_are_read_as_they_are_rewritten() {
    // Found by the fuzz target: a segment whose first and second timestamp differ.
    let mut p = [0u8; 60];
    (p[0], p[3], p[8], p[9]) = (0x45, 60, 64, 6);
    p[32] = 0xa0;
    p[40..42].copy_from_slice(&[8, 10]);
    p[50..52].copy_from_slice(&[8, 10]);
    fuzzing::parse(&p);
}

#[test]
fn random_bytes_parse_or_fail_but_never_panic() {
    for seed in 1..=2000u64 {
        let mut rng = fuzzing::XorShift::new(seed);
        let mut bytes: Vec<u8> = (0..rng.below(120)).map(|_| rng.below(256) as u8).collect();
        println!("seed {seed}");
        fuzzing::parse(&bytes);
        // Bytes that begin like a packet are parsed too.
        if bytes.len() > 40 {
            bytes[0] = 0x45;
            bytes[2..4].copy_from_slice(&60u16.to_be_bytes());
            bytes[6..8].copy_from_slice(&[0, 0]);
            bytes[9] = 6;
            bytes[32] = (bytes[32] & 0xf) | 0xa0;
            fuzzing::parse(&bytes);
        }
    }
}

#[test]
fn whatever_a_tunnel_carries_is_read_or_left() {
    // IP in IP, 6in4, GRE, MPLS, and UDP of L2TP, GTP-U, VXLAN, Geneve and MPLS; behind each something like IPv4 with
    // TCP, and then some bytes at random.
    let ports = [1701, 2152, 4789, 6081, 6635].map(u16::to_be_bytes);
    let udp = |nth: usize| [[0x30, 0x39], ports[nth], [0, 0], [0, 0]].concat();
    let heads: [(u8, Vec<u8>); 9] = [
        (4, vec![]),
        (41, vec![]),
        (47, vec![0, 0, 8, 0]),
        (137, vec![0, 1, 1, 64]),
        (17, [&udp(0)[..], &[0, 2, 0, 1, 0, 1, 0, 0x21]].concat()),
        (17, [&udp(1)[..], &[0x30, 255, 0, 60, 0, 0, 0, 1]].concat()),
        (17, [&udp(2)[..], &[8, 0, 0, 0, 0, 0, 1, 0], &[0; 12], &[8, 0]].concat()),
        (17, [&udp(3)[..], &[0, 0, 8, 0, 0, 0, 1, 0]].concat()),
        (17, [&udp(4)[..], &[0, 1, 1, 64]].concat()),
    ];
    let mut tunnelled = 0;
    for seed in 1..=2000u64 {
        let mut rng = fuzzing::XorShift::new(seed);
        println!("seed {seed}");
        for (proto, head) in &heads {
            let mut p = [&[0x45, 0, 0, 0, 0, 1, 0, 0, 64, *proto, 0, 0][..], &[10; 8], head].concat();
            let inner = p.len();
            p.extend((0..60).map(|_| rng.below(256) as u8));
            p[inner..inner + 4].copy_from_slice(&[0x45, 0, 0, 60]);
            p[inner + 9] = 6;
            p[3] = p.len() as u8;
            for _ in 0..rng.below(4) {
                let at = rng.below(p.len() as u64) as usize;
                p[at] = rng.below(256) as u8;
            }
            p.truncate(p.len() - rng.below(30) as usize);
            if let Ok(mut header) = narrows_wire::parse(&p) {
                header.look_inside(&p);
                tunnelled += u32::from(header.key.is_in_tunnel());
            }
            fuzzing::parse(&p);
        }
    }
    assert!(tunnelled > 2000, "{tunnelled}");
}
