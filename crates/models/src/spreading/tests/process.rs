//! The process of section 3.1 of the notes with explicit segments, ACKs and one timer, against the recursion.

use super::super::{Backoff, Parameters, Spreading};

#[derive(Clone, Copy, Debug, PartialEq)]
enum First {
    /// One burst.
    Burst,
    /// One segment every R/n; `true` with fast retransmit.
    Spread(bool),
    /// Pairs.
    Pairs,
}

/// A sender's attempt at what is left, until all is acknowledged or it starts over with a window of one.
struct Attempt<'a> {
    rng: &'a mut fastrand::Rng,
    with: Parameters,
    sent: usize,
    lost: Vec<usize>,
    /// When, and of which segment: the earliest first.
    acks: std::collections::BinaryHeap<std::cmp::Reverse<(u64, usize)>>,
}

/// Times in the heap, where they must be ordered: nanoseconds.
fn nanos(time_s: f64) -> u64 {
    (time_s * 1e9).round() as u64
}

impl Attempt<'_> {
    fn send_burst(&mut self, at: u64, segments: usize) {
        let mut arrives = true;
        for _ in 0..segments {
            arrives = arrives && self.rng.f64() >= self.with.loss;
            if arrives {
                self.acks.push(std::cmp::Reverse((at + nanos(self.with.rtt_s), self.sent)));
            } else {
                self.lost.push(self.sent);
            }
            self.sent += 1;
        }
    }

    fn send_first(&mut self, first: First, segments: usize, n: usize) {
        match first {
            First::Burst => self.send_burst(0, segments),
            First::Spread(_) => {
                (0..segments).for_each(|k| self.send_burst(nanos(k as f64 * self.with.rtt_s / n as f64), 1))
            }
            First::Pairs => (0..segments).step_by(2).for_each(|k| self.send_burst(0, 2.min(segments - k))),
        }
    }

    /// Runs the process to its end: when that is, what is not delivered, whether something new was acknowledged.
    fn run(mut self, first: First, i: usize, n: usize, timer: u64) -> (u64, usize, bool, bool) {
        self.send_first(first, n.min(i), n);
        let (mut deadline, mut cumulative, mut after_last) = (timer, 0, 0);
        let mut last = 0;
        while let Some(std::cmp::Reverse((now, segment))) = self.acks.pop() {
            if now > deadline {
                break;
            }
            last = now;
            if segment == cumulative {
                cumulative += 1;
                deadline = now + nanos(self.with.rto_s);
                let more = (i - self.sent).min(2);
                self.send_burst(now, more);
            } else if self.lost.last().is_some_and(|&lost| segment > lost) {
                after_last += 1;
                if first == First::Spread(true) && after_last == 3 {
                    return (now, self.lost.len() + i - self.sent, cumulative > 0, true);
                }
            }
        }
        if cumulative == i {
            (last, 0, true, false)
        } else {
            (deadline, self.lost.len() + i - self.sent, cumulative > 0, false)
        }
    }
}

fn transfer(rng: &mut fastrand::Rng, with: Parameters, first: First, i: usize, n: usize) -> f64 {
    let (mut total, mut left, mut window, mut sends, mut doublings) = (0u64, i, n, first, 0u32);
    loop {
        let attempt = Attempt { rng, with, sent: 0, lost: Vec::new(), acks: Default::default() };
        let timer = nanos(with.rto_s) << doublings;
        let (took, rest, advanced, fast) = attempt.run(sends, left, window, timer);
        total += took;
        if rest == 0 {
            return total as f64 / 1e9;
        }
        doublings = match with.backoff {
            _ if fast => 0,
            Backoff::SingleSegment => {
                if window == 1 && !advanced {
                    doublings + 1
                } else {
                    0
                }
            }
            Backoff::EveryTimeout => {
                if advanced {
                    1
                } else {
                    doublings + 1
                }
            }
        };
        (left, window, sends) = (rest, 1, First::Pairs);
    }
}

/// Mean and, where asked for, variance within three standard errors.
fn check(with: Parameters, cells: &[(First, usize, usize)], runs: u32, variance: bool) {
    let m = Spreading::new(with, 40).unwrap();
    for (cell, &(first, i, n)) in (1..).zip(cells) {
        let seed = 0x5EED_0000 + cell;
        let mut rng = fastrand::Rng::with_seed(seed);
        let expected = match first {
            First::Burst => m.d(i, n),
            First::Spread(true) => m.s(i, n),
            First::Spread(false) => m.s_no_fr(i, n),
            First::Pairs => m.b(i, n),
        }
        .unwrap();
        let times: Vec<f64> = (0..runs).map(|_| transfer(&mut rng, with, first, i, n)).collect();
        let count = f64::from(runs);
        let about = |power: i32| times.iter().map(|t| (t - expected.mean_s).powi(power)).sum::<f64>() / count;
        let (off, square) = (about(1), about(2));
        let z = off / (square / count).sqrt();
        assert!(
            z.abs() < 3.0,
            "{with:?}, {first:?} {i} in {n}: mean {}, off by {off}, z = {z}, seed {seed}",
            expected.mean_s
        );
        if variance {
            let std_dev = expected.std_dev_s.unwrap();
            let z = (square - std_dev * std_dev) / ((about(4) - square * square) / count).sqrt();
            assert!(
                z.abs() < 3.0,
                "{with:?}, {first:?} {i} in {n}: std dev {std_dev}, z of variance = {z}, seed {seed}"
            );
        }
    }
}

const CELLS: [(First, usize, usize); 16] = [
    (First::Pairs, 1, 1),
    (First::Pairs, 10, 1),
    (First::Pairs, 4, 2),
    (First::Pairs, 10, 3),
    (First::Pairs, 10, 6),
    (First::Pairs, 9, 9),
    (First::Pairs, 33, 7),
    (First::Burst, 2, 2),
    (First::Burst, 10, 10),
    (First::Burst, 10, 4),
    (First::Burst, 30, 7),
    (First::Spread(false), 2, 2),
    (First::Spread(false), 7, 10),
    (First::Spread(true), 4, 4),
    (First::Spread(true), 10, 10),
    (First::Spread(true), 30, 30),
];

#[test]
fn as_the_paper_backs_off() {
    for loss in [0.065, 0.2] {
        let with = Parameters { loss, rtt_s: 0.1, rto_s: 1.0, backoff: Backoff::SingleSegment };
        check(with, &CELLS, 10_000, false);
    }
}

#[test]
fn as_rfc_6298_backs_off() {
    for loss in [0.065, 0.2] {
        let with = Parameters { loss, rtt_s: 0.3, rto_s: 1.0, backoff: Backoff::EveryTimeout };
        check(with, &CELLS, 10_000, false);
    }
}

/// Losses below 1/16, where the doubled timer has the fourth moment that the error of a variance needs.
#[test]
fn variances() {
    for backoff in [Backoff::SingleSegment, Backoff::EveryTimeout] {
        check(Parameters { loss: 0.02, rtt_s: 0.1, rto_s: 1.0, backoff }, &CELLS, 20_000, true);
    }
}
