//! How far those are who answer.
//!
//! Whoever answers from far is late without any queue. So the shortest round trip is kept for each host: a round trip
//! is never shorter than the way, and what left while nothing was under way, or while the queue was let run empty, has
//! measured it. Of a host that has done neither yet, it is what remains of its round trip when the wait is taken off
//! that another one has shown with a packet that left at about the same time: both stood in the same queue.

use std::collections::VecDeque;

use narrows_units::{Duration, Instant};

/// Hosts that are remembered, by hash: one that has another's place is as new.
const HOSTS: usize = 1024;
/// Answers after which a host's distance counts: a link may have paused for each of the first.
const SURE: u8 = 5;
/// Waits that are remembered.
const WAITS: usize = 64;
/// A way is too short if so many answers in a row come later, by more than a quarter of it, than others' waits explain.
const LATER: u8 = 16;
/// A way that is not measured is an average of so many: the least of guesses would be too short.
const GUESSES: u64 = 8;

/// What is known of one.
#[derive(Clone, Copy, Debug)]
struct Host {
    host: u64,
    /// Its shortest round trip.
    base: Duration,
    /// Whether that was measured without a queue.
    measured: bool,
    /// The last time at which the queue was empty and it answered.
    emptied: u32,
    /// How often it has answered, up to [`SURE`].
    answers: u8,
    /// Answers in a row that came later than others' waits explain, and the shortest way that would explain them.
    later: u8,
    longer: Duration,
}

const NOBODY: Host = Host {
    host: 0,
    base: Duration::MAX,
    measured: false,
    emptied: 0,
    answers: 0,
    later: 0,
    longer: Duration::MAX,
};

impl Host {
    /// An answer of others says that a packet waited so long which left when this one's did that took `rtt`.
    fn compare(&mut self, rtt: Duration, wait: Duration, near: Duration) {
        let way = rtt.saturating_sub(wait);
        if way <= self.base + near.max(self.base / 4) {
            (self.later, self.longer) = (0, Duration::MAX);
            return;
        }
        (self.later, self.longer) = (self.later + 1, self.longer.min(way));
        if self.later == LATER {
            (self.base, self.later, self.longer) = (self.longer, 0, Duration::MAX);
        }
    }
}

/// What a packet's answer tells of its way.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Who answered, by hash.
    pub host: u64,
    /// How long it took.
    pub rtt: Duration,
    /// When the packet left.
    pub at: Instant,
    /// Nothing was under way when the packet left.
    pub alone: bool,
    /// The queue was let run empty before it left.
    pub emptied: bool,
    /// The shortest round trip of all.
    pub least: Option<Duration>,
}

/// A packet to a host of known distance was late.
#[derive(Clone, Copy, Debug)]
struct Wait {
    at: Instant,
    host: u64,
    late: Duration,
}

/// The distances of hosts.
#[derive(Debug)]
pub struct Distances {
    hosts: Box<[Host]>,
    /// How late hosts of known distance were, by when the packet had left, in that order.
    waits: VecDeque<Wait>,
    /// How often the queue was let run empty.
    emptied: u32,
    /// Ways that are not measured are averages, not least guesses.
    averages: bool,
}

impl Distances {
    /// Nobody has answered.
    pub fn new(averages: bool) -> Self {
        Self { hosts: vec![NOBODY; HOSTS].into(), waits: VecDeque::new(), emptied: 0, averages }
    }

    /// The queue is let run empty once more: what is measured now counts, whatever was known before.
    pub const fn empties(&mut self) {
        self.emptied = self.emptied.wrapping_add(1);
    }

    /// The wait of a packet to others than `host` that left within `near` of this time.
    fn wait(&self, host: u64, at: Instant, near: Duration) -> Option<Duration> {
        let apart = |other: Instant| at.since(other).max(other.since(at));
        let nearest = self.waits.iter().filter(|wait| wait.host != host).min_by_key(|wait| apart(wait.at))?;
        (apart(nearest.at) <= near).then_some(nearest.late)
    }

    /// The shortest round trip of who answers, with what the answer tells; `None` if it is not known yet. Packets that
    /// left within `near` of each other have waited alike.
    pub fn learn(&mut self, answer: Answer, near: Duration) -> Option<Duration> {
        let Answer { host, rtt, at, least, .. } = answer;
        let wait = self.wait(host, at, near);
        let place = host as usize % HOSTS;
        let known = &mut self.hosts[place];
        if known.host != host {
            *known = Host { host, emptied: self.emptied.wrapping_sub(1), ..NOBODY };
        }
        if answer.emptied && known.emptied != self.emptied {
            (known.base, known.measured, known.emptied) = (rtt, true, self.emptied);
        } else if answer.alone && !known.measured {
            (known.base, known.measured) = (rtt, true);
        } else if !known.measured
            && let Some(wait) = wait.filter(|wait| *wait < rtt)
        {
            // An outage makes one wait longer than the other.
            let guess = rtt.saturating_sub(wait).max(least.unwrap_or(Duration::ZERO));
            known.base = if self.averages && known.base < Duration::MAX {
                (known.base * (GUESSES - 1) + guess) / GUESSES
            } else {
                known.base.min(guess)
            };
        } else if known.base < Duration::MAX || known.measured {
            known.base = known.base.min(rtt);
        }
        if known.measured
            && let Some(wait) = wait
        {
            known.compare(rtt, wait, near);
        }
        if known.measured && self.waits.back().is_none_or(|last| at >= last.at + near / 4) {
            if self.waits.len() == WAITS {
                self.waits.pop_front();
            }
            self.waits.push_back(Wait { at, host, late: rtt.saturating_sub(known.base) });
        }
        known.answers = SURE.min(known.answers + 1);
        self.way_of(host)
    }

    /// The shortest round trip of a host, if it is known.
    pub fn way_of(&self, host: u64) -> Option<Duration> {
        let known = self.hosts[host as usize % HOSTS];
        let sure = known.host == host && known.base < Duration::MAX && known.answers == SURE;
        sure.then_some(known.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// `host` answers after `rtt` to what left at `left`.
    fn answer(host: u64, left: u64, rtt: u64) -> Answer {
        Answer { host, at: Instant::ZERO + ms(left), rtt: ms(rtt), alone: false, emptied: false, least: None }
    }

    #[test]
    fn who_is_far_is_not_late() {
        let mut d = Distances::new(false);
        let mut learn = |answer| d.learn(answer, ms(20));
        // The first two left alone: 20 ms and 150 ms are their ways.
        for n in 0..4 {
            assert_eq!(learn(Answer { alone: true, ..answer(1, n, 20) }), None, "not often enough");
            assert_eq!(learn(Answer { alone: true, ..answer(2, 100 + n, 150) }), None);
        }
        assert_eq!(learn(Answer { alone: true, ..answer(1, 200, 20) }), Some(ms(20)));
        assert_eq!(learn(answer(2, 210, 160)), Some(ms(150)));
        // Behind 40 ms of queue each is as near as before.
        assert_eq!(learn(answer(1, 300, 60)), Some(ms(20)));
        assert_eq!(learn(answer(2, 310, 190)), Some(ms(150)));
        // A third one that stood in the same queue: 100 ms less those 40 ms.
        let third: Vec<_> = (0..5).map(|_| learn(answer(3, 315, 100))).collect();
        assert_eq!(third, [None, None, None, None, Some(ms(60))]);
        // A fourth with whom nobody left is not known; nor is what it says worth anything to a fifth.
        assert!((0..9).all(|_| learn(answer(4, 400, 100)).is_none()));
        assert!((0..9).all(|_| learn(answer(5, 400, 100)).is_none()));
    }

    #[test]
    fn a_way_that_has_become_longer_shows_when_the_queue_is_empty() {
        let mut d = Distances::new(false);
        let alone = |left, rtt| Answer { alone: true, ..answer(1, left, rtt) };
        (0..4).for_each(|_| assert_eq!(d.learn(alone(0, 30), ms(20)), None));
        assert_eq!(d.learn(alone(0, 20), ms(20)), Some(ms(20)));
        assert_eq!(d.learn(alone(100, 90), ms(20)), Some(ms(20)), "the shortest counts");
        d.empties();
        let empty = |left, rtt| Answer { emptied: true, ..answer(1, left, rtt) };
        assert_eq!(d.learn(empty(200, 90), ms(20)), Some(ms(90)));
        assert_eq!(d.learn(empty(300, 80), ms(20)), Some(ms(80)));
        assert_eq!(d.learn(empty(400, 85), ms(20)), Some(ms(80)));
    }

    #[test]
    fn a_way_that_has_become_longer_shows_beside_others() {
        let mut d = Distances::new(true);
        (0..5).for_each(|_| _ = d.learn(Answer { alone: true, ..answer(1, 0, 20) }, ms(20)));
        (0..5).for_each(|_| _ = d.learn(Answer { alone: true, ..answer(2, 0, 30) }, ms(20)));
        // Both behind a queue of 40 ms; then the second's way takes 200 ms more, and the queue goes.
        let mut both = |left, first, second| {
            d.learn(answer(1, left, first), ms(20));
            d.learn(answer(2, left + 6, second), ms(20)).unwrap()
        };
        (0..50).for_each(|n| assert_eq!(both(100 + 20 * n, 60, 70), ms(30)));
        let ways: Vec<_> = (0..16).map(|n| both(2000 + 20 * n, 60 - n, 270 - n)).collect();
        assert!(ways[..15].iter().all(|way| *way == ms(30)), "{ways:?}");
        assert_eq!(ways[15], ms(230));
    }

    #[test]
    fn no_guess_is_shorter_than_the_shortest_round_trip() {
        let mut d = Distances::new(true);
        (0..5).for_each(|_| _ = d.learn(Answer { alone: true, ..answer(1, 0, 20) }, ms(20)));
        // It stood behind an outage of 480 ms, and who left with it came through sooner than it can have.
        d.learn(answer(1, 1000, 500), ms(20));
        let short = Answer { least: Some(ms(20)), ..answer(2, 1000, 300) };
        (0..5).for_each(|_| assert_eq!(d.learn(short, ms(20)), None, "it waited longer than this took"));
        // One whose own wait was a little shorter: no less than the shortest of all.
        let near = Answer { least: Some(ms(20)), ..answer(3, 1000, 490) };
        let ways: Vec<_> = (0..5).map(|_| d.learn(near, ms(20))).collect();
        assert_eq!(ways[4], Some(ms(20)));
    }
}
