//! Properties of every window and every path, and the corners of the domain.

use narrows_units::{Bytes, Duration, Rate};

use super::super::{After, BurstTcp, Form, Growth, Hop, MOST_PACKETS, Path};
use super::btcp;

const FORMS: [Form; 4] =
    [Form::Guarded(After::SlowStart), Form::Guarded(After::CongestionAvoidance), Form::Printed, Form::Ns2];

/// An event at a time, with queues of packets and a list of what happens next: another way to what [`Path::transfer`]
/// folds.
mod events {
    use std::cmp::Reverse;
    use std::collections::{BinaryHeap, VecDeque};

    use super::{Growth, Path};

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum What {
        /// A hop, counted over both ways, has sent its first packet.
        Sent(usize),
        /// A packet is before a hop.
        Before(usize, usize),
    }

    struct World<'a> {
        path: &'a Path,
        queues: Vec<VecDeque<usize>>,
        coming: BinaryHeap<Reverse<(u64, usize, What)>>,
        events: usize,
    }

    impl World<'_> {
        fn at(&mut self, time: u64, what: What) {
            self.events += 1;
            self.coming.push(Reverse((time, self.events, what)));
        }

        /// Serialization of a packet at a hop, and the hop's propagation.
        fn hop(&self, hop: usize, packet: usize) -> (u64, u64) {
            let n = self.path.hops.len();
            let link = self.path.hops[if hop < n { hop } else { 2 * n - 1 - hop }];
            let size = match self.path.syn {
                _ if hop >= n => self.path.ack,
                Some(syn) if packet == 0 => syn,
                _ => self.path.data,
            };
            (link.rate.time_to_send(size).as_nanos(), link.delay.as_nanos())
        }

        fn enqueue(&mut self, now: u64, hop: usize, packet: usize) {
            self.queues[hop].push_back(packet);
            if self.queues[hop].len() == 1 {
                let (busy, _) = self.hop(hop, packet);
                self.at(now + busy, What::Sent(hop));
            }
        }

        fn sent(&mut self, now: u64, hop: usize) {
            let packet = self.queues[hop].pop_front().unwrap();
            let (_, delay) = self.hop(hop, packet);
            self.at(now + delay, What::Before(hop + 1, packet));
            if let Some(&next) = self.queues[hop].front() {
                let (busy, _) = self.hop(hop, next);
                self.at(now + busy, What::Sent(hop));
            }
        }
    }

    pub fn transfer(path: &Path, growth: Growth, initial: u32, count: usize) -> Vec<u64> {
        let ways = 2 * path.hops.len();
        let mut world =
            World { path, queues: vec![VecDeque::new(); ways], coming: BinaryHeap::new(), events: 0 };
        let (mut cwnd, mut next) = (f64::from(initial), 0);
        let mut acked = Vec::new();
        while next < count.min(cwnd as usize) {
            world.enqueue(0, 0, next);
            next += 1;
        }
        while let Some(Reverse((now, _, what))) = world.coming.pop() {
            match what {
                What::Sent(hop) => world.sent(now, hop),
                What::Before(hop, packet) if hop < ways => world.enqueue(now, hop, packet),
                What::Before(_, packet) => {
                    assert_eq!(packet, acked.len(), "in order");
                    acked.push(now);
                    cwnd = growth.on_ack(cwnd).unwrap();
                    while next < count && next - acked.len() < cwnd as usize {
                        world.enqueue(now, 0, next);
                        next += 1;
                    }
                }
            }
        }
        acked
    }
}

fn random_path(rng: &mut fastrand::Rng) -> Path {
    let hop = |rng: &mut fastrand::Rng| Hop {
        rate: Rate::from_kbps(rng.u64(8..20_000)),
        delay: Duration::from_micros(rng.u64(0..600_000)),
    };
    let hops = (0..rng.usize(1..5)).map(|_| hop(rng)).collect();
    let syn = rng.bool().then(|| Bytes(rng.u64(1..100)));
    Path { hops, data: Bytes(rng.u64(1..3000)), ack: Bytes(rng.u64(0..100)), syn }
}

fn random_growth(rng: &mut fastrand::Rng) -> Growth {
    if rng.u32(0..4) == 0 {
        return Growth::SlowStart { base: 1.0 + 3.0 * rng.f64() + 1e-9 };
    }
    btcp(rng.u32(1..20), rng.u32(1..100), FORMS[rng.usize(0..4)])
}

#[test]
fn a_file_takes_as_long_as_its_events() {
    for seed in 0..200 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (path, growth) = (random_path(&mut rng), random_growth(&mut rng));
        let (initial, count) = (rng.u32(1..12), rng.u32(1..300));
        let folded: Vec<u64> =
            path.transfer(&growth, initial, count).unwrap().iter().map(|d| d.as_nanos()).collect();
        let happened = events::transfer(&path, growth, initial, count as usize);
        assert_eq!(folded, happened, "seed {seed}: {path:?}, {growth:?}, {initial}, {count}");
    }
}

/// A path on which sizes take no time makes a file take its rounds: a window a round trip.
#[test]
fn without_serialization_a_file_takes_its_rounds() {
    let hop = Hop { rate: Rate::from_kbps(1), delay: Duration::from_millis(50) };
    let path = Path { hops: vec![hop], data: Bytes(0), ack: Bytes(0), syn: None };
    for seed in 0..200 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (growth, initial, count) = (random_growth(&mut rng), rng.u32(1..12), rng.u32(1..500));
        // A window that shrinks holds back what the sum of whole windows would have sent.
        if matches!(growth, Growth::Burst(burst) if matches!(burst.form, Form::Printed | Form::Ns2)) {
            continue;
        }
        let rounds = growth.rounds(initial, count).unwrap().count() as u64;
        let took = path.transfer(&growth, initial, count).unwrap()[count as usize - 1];
        assert_eq!(took, Duration::from_millis(100 * rounds), "seed {seed}: {growth:?}, {initial}, {count}");
    }
}

/// A smaller f is not slower in rounds, nor is a larger threshold, at the flow level.
#[test]
fn bolder_is_not_slower() {
    let rounds =
        |f, mice| BurstTcp::new(f, mice, Form::default()).unwrap().flow_level(1, 64).unwrap().count();
    for f in 1..16 {
        for mice in 8..80 {
            assert!(
                rounds(f, mice) <= rounds(f + 1, mice) && rounds(f, mice + 1) <= rounds(f, mice),
                "{f} {mice}"
            );
        }
    }
}

/// An ACK takes the window to the threshold or by a packet, whichever is more, at any setting; only the printed forms
/// shrink it, by a packet at most, and never below one.
#[test]
fn windows_stay_windows() {
    for form in FORMS {
        for f in [1, 2, 3, 7, 1_000_000] {
            for mice in [1, 2, 3, 32, 1_000_000] {
                for initial in [1, 2, 31, 33, 5000] {
                    let mut cwnd = f64::from(initial);
                    for _ in 0..2000 {
                        let next = btcp(f, mice, form).on_ack(cwnd).unwrap();
                        let shrinks = f64::from(matches!(form, Form::Printed | Form::Ns2));
                        let least = (cwnd - shrinks).max(1.0) - 1e-9;
                        let most = (cwnd + 1.0).max(f64::from(mice)) + 1e-9;
                        let told = format!("{form:?} {f} {mice} {initial}: from {cwnd} to {next}");
                        assert!((least..=most).contains(&next) && next >= 1.0, "{told}");
                        cwnd = next;
                    }
                }
            }
        }
    }
}

#[test]
fn outside_the_domain() {
    assert_eq!(
        BurstTcp::new(0, 32, Form::default()).unwrap_err().to_string(),
        "f = 0: expected 1 <= f <= 1 000 000"
    );
    assert!(BurstTcp::new(4, 0, Form::default()).is_err());
    for base in [1.0, 0.0, f64::NAN, f64::INFINITY, 1025.0] {
        assert!(Growth::SlowStart { base }.rounds(1, 64).is_err(), "{base}");
    }
    assert!(Growth::SLOW_START.rounds(0, 64).is_err() && Growth::SLOW_START.rounds(1, 0).is_err());
    assert!(Growth::SLOW_START.rounds(1, MOST_PACKETS + 1).is_err());
    assert!(Growth::SLOW_START.overshoot(1, 0).is_err());
    for cwnd in [0.0, 0.5, -1.0, f64::NAN, f64::INFINITY] {
        assert!(
            btcp(8, 32, Form::default()).on_ack(cwnd).is_err() && Growth::SLOW_START.on_ack(cwnd).is_err(),
            "{cwnd}"
        );
    }
    assert!(Growth::SlowStart { base: 1.0 }.on_ack(1.0).is_err());
    let good = Hop { rate: Rate::from_kbps(1500), delay: Duration::from_millis(5) };
    let path = |hops| Path { hops, data: Bytes(1500), ack: Bytes(40), syn: None };
    let fails = |path: Path| path.transfer(&Growth::SLOW_START, 1, 4).is_err();
    assert!(fails(path(vec![])) && fails(path(vec![good; 17])) && !fails(path(vec![good; 16])));
    assert!(fails(path(vec![Hop { rate: Rate::from_bps(999), ..good }])));
    assert!(fails(path(vec![Hop { delay: Duration::from_secs(1001), ..good }])));
    assert!(fails(Path { data: Bytes(65_536), ..path(vec![good]) }));
    assert!(fails(Path { syn: Some(Bytes(65_536)), ..path(vec![good]) }));
    assert!(path(vec![good]).transfer(&Growth::SLOW_START, 0, 4).is_err());
    assert!(path(vec![good]).transfer(&Growth::SLOW_START, 1, 0).is_err());
}

/// The worst that is allowed fits into 64 bits of nanoseconds, and ends: a window of one over 16 slow hops.
#[test]
fn the_longest_way() {
    let hop = Hop { rate: Rate::from_kbps(1), delay: Duration::from_secs(1000) };
    let path = Path { hops: vec![hop; 16], data: Bytes(65_535), ack: Bytes(65_535), syn: None };
    let slow = btcp(1_000_000, 1, Form::Printed);
    let acked = path.transfer(&slow, 1, MOST_PACKETS).unwrap();
    assert!(acked.windows(2).all(|two| two[0] < two[1]));
}
