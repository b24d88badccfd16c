//! Length of the path behind the box, without the queue: of the nearest host, and of each host.
//!
//! A host that is far answers late without any queue. So the shortest round trip is kept for each host: a round trip is
//! never shorter than the path, and a packet that left while nothing was under way, or while the queue was let run
//! empty, has measured it. For a host that has sent neither yet, the path is what remains of its round trip when the
//! wait is taken off that another host has shown with a packet that left at about the same time: both stood in the same
//! queue.

use std::collections::VecDeque;

use narrows_units::{Duration, Instant};

/// Hosts that are remembered, by hash: a host that has another's place is as new.
const HOSTS: usize = 1024;
/// Answers after which a host's path counts: a link may have paused for each of the first.
const SURE: u8 = 5;
/// Waits that are remembered.
const WAITS: usize = 64;
/// Answers in a row, later by more than a quarter of the path than others' waits explain, that show it is too short.
const LATER: u8 = 16;
/// Weight of what was known in the moving average of guesses; the least of guesses would be too short.
const GUESSES: u64 = 8;
/// Longest path, as two satellites make it: a round trip that seems to have met no queue and took longer has met an
/// outage, or a timer of the host that answered.
pub(super) const LONGEST: Duration = Duration::from_millis(1500);
/// Time after which the shortest round trip has to be found anew.
const VALID_FOR: Duration = Duration::from_secs(10);
/// Time after its last answer for which a host counts as one that may answer next.
pub(super) const OF_LATE: Duration = Duration::from_secs(2);

/// An acknowledgment, with what the acknowledgment tells of the path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    /// Host that answered, by hash.
    pub host: u64,
    /// Round trip.
    pub rtt: Duration,
    /// Departure of the packet that is answered.
    pub left: Instant,
    /// Whether nothing was under way when that packet left.
    pub alone: bool,
    /// Whether the queue had been let run empty before the acknowledged packet left.
    pub emptied: bool,
}

/// Path to the host that answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// Round trip without a queue.
    pub rtt: Duration,
    /// Whether `rtt` is the host's own; else `rtt` is the nearest host's.
    pub sure: bool,
}

/// Paths of all hosts.
#[derive(Debug)]
pub(super) struct Paths {
    shortest: Option<Duration>,
    /// Time at which a round trip was last as short as the shortest.
    met_at: Instant,
    hosts: Hosts,
    /// Path of the most distant host that answered recently, and the time of its answer.
    farthest: Duration,
    farthest_at: Instant,
    /// Path of the host that answered last.
    latest: Duration,
}

impl Paths {
    /// Paths of which nothing is known.
    pub fn new() -> Self {
        Self {
            shortest: None,
            met_at: Instant::ZERO,
            hosts: Hosts::new(),
            farthest: Duration::ZERO,
            farthest_at: Instant::ZERO,
            latest: Duration::ZERO,
        }
    }

    /// Shortest round trip of all.
    pub const fn shortest(&self) -> Option<Duration> {
        self.shortest
    }

    /// Round trip to a host without a queue; the farthest host's, if its own is not known.
    pub fn to(&self, host: u64) -> Duration {
        self.hosts.path_to(host).unwrap_or(self.farthest)
    }

    /// Time by which an acknowledgment from the farthest host may come later than one from the host that answered last.
    pub fn spread(&self) -> Duration {
        self.farthest.saturating_sub(self.latest)
    }

    /// Whether no round trip was as short as the shortest for long: the queue may never have been empty since.
    pub fn is_stale(&self, now: Instant) -> bool {
        now.since(self.met_at) > VALID_FOR
    }

    /// Learns from an answer. Packets that left within `near` of each other have waited alike. After an `outage` a long
    /// round trip may be what that has left: no reason to find the shortest anew.
    pub fn learn(&mut self, now: Instant, answer: Answer, near: Duration, outage: bool) -> Path {
        let rtt = answer.rtt;
        // Longer by a sixteenth is as short: clocks and other queues tremble.
        if outage || self.shortest.is_none_or(|shortest| rtt <= shortest + shortest / 16) {
            self.met_at = now;
        }
        let shortest = self.shortest.map_or(rtt, |shortest| shortest.min(rtt));
        self.shortest = Some(shortest);
        let own = self.hosts.learn(answer, shortest, near);
        let path = Path { rtt: own.unwrap_or(shortest), sure: own.is_some() };
        if path.rtt >= self.farthest || now.since(self.farthest_at) > OF_LATE {
            (self.farthest, self.farthest_at) = (path.rtt, now);
        }
        self.latest = path.rtt;
        path
    }

    /// Begins a measurement: the queue runs empty now, and what hosts answer counts whatever was known before.
    pub const fn measure(&mut self) {
        self.hosts.measurement = self.hosts.measurement.wrapping_add(1);
    }

    /// Ends a measurement in which `shortest` was the shortest round trip.
    pub const fn measured(&mut self, now: Instant, shortest: Duration) {
        (self.shortest, self.met_at) = (Some(shortest), now);
    }
}

/// Path of one host.
#[derive(Clone, Copy, Debug)]
struct Host {
    host: u64,
    path: Option<Duration>,
    /// Whether the path was measured without a queue.
    measured: bool,
    /// Number of the last measurement in which the host answered.
    measurement: u32,
    /// Answers so far, up to [`SURE`].
    answers: u8,
    /// Answers in a row that came later than others' waits explain, and the shortest path that would explain them.
    later: u8,
    longer: Option<Duration>,
}

const NOBODY: Host =
    Host { host: 0, path: None, measured: false, measurement: 0, answers: 0, later: 0, longer: None };

impl Host {
    /// Compares a round trip with the wait of another host's packet that left at about the same time: a `path` that is
    /// often too short to explain the round trip is given up.
    fn compare(&mut self, path: Duration, rtt: Duration, wait: Duration, near: Duration) {
        let explains = rtt.saturating_sub(wait);
        if explains <= path + near.max(path / 4) {
            (self.later, self.longer) = (0, None);
            return;
        }
        let longer = self.longer.map_or(explains, |longer| longer.min(explains));
        (self.later, self.longer) = (self.later + 1, Some(longer));
        if self.later == LATER {
            let longer = if longer <= LONGEST { longer } else { path };
            (self.path, self.later, self.longer) = (Some(longer), 0, None);
        }
    }
}

/// Time that a packet waited in the queue, by a host of known path.
#[derive(Clone, Copy, Debug)]
struct Wait {
    left: Instant,
    host: u64,
    wait: Duration,
}

/// Paths of hosts, and the waits that the hosts' answers have shown.
#[derive(Debug)]
struct Hosts {
    hosts: Box<[Host]>,
    /// Waits by when the packet had left, in that order.
    waits: VecDeque<Wait>,
    /// Number of the present measurement.
    measurement: u32,
}

impl Hosts {
    fn new() -> Self {
        Self { hosts: vec![NOBODY; HOSTS].into(), waits: VecDeque::new(), measurement: 0 }
    }

    /// Wait of a packet to another host that left within `near` of this time.
    fn wait(&self, host: u64, left: Instant, near: Duration) -> Option<Duration> {
        let apart = |other: Instant| left.since(other).max(other.since(left));
        let nearest =
            self.waits.iter().filter(|wait| wait.host != host).min_by_key(|wait| apart(wait.left))?;
        (apart(nearest.left) <= near).then_some(nearest.wait)
    }

    /// Learns from an answer, where `shortest` is the shortest round trip of all. Returns the host's path, if it is
    /// known.
    fn learn(&mut self, answer: Answer, shortest: Duration, near: Duration) -> Option<Duration> {
        let Answer { host, rtt, left, .. } = answer;
        let wait = self.wait(host, left, near);
        // An outage makes one wait longer than the other.
        let guess = wait.filter(|wait| *wait < rtt).map(|wait| rtt.saturating_sub(wait).max(shortest));
        let known = &mut self.hosts[host as usize % HOSTS];
        if known.host != host {
            *known = Host { host, measurement: self.measurement.wrapping_sub(1), ..NOBODY };
        }
        if answer.emptied && rtt <= LONGEST && known.measurement != self.measurement {
            (known.path, known.measured, known.measurement) = (Some(rtt), true, self.measurement);
        } else if answer.alone && rtt <= LONGEST && !known.measured {
            (known.path, known.measured) = (Some(rtt), true);
        } else if let Some(guess) = guess.filter(|guess| *guess <= LONGEST && !known.measured) {
            known.path = Some(known.path.map_or(guess, |path| (path * (GUESSES - 1) + guess) / GUESSES));
        } else {
            known.path = known.path.map(|path| path.min(rtt));
        }
        if let Some(path) = known.path.filter(|_| known.measured) {
            if let Some(wait) = wait {
                known.compare(path, rtt, wait, near);
            }
            let path = known.path.unwrap_or(path);
            if self.waits.back().is_none_or(|last| left >= last.left + near / 4) {
                if self.waits.len() == WAITS {
                    self.waits.pop_front();
                }
                self.waits.push_back(Wait { left, host, wait: rtt.saturating_sub(path) });
            }
        }
        known.answers = SURE.min(known.answers + 1);
        self.path_to(host)
    }

    /// Path of a host; `None` if the path is unknown.
    fn path_to(&self, host: u64) -> Option<Duration> {
        let known = &self.hosts[host as usize % HOSTS];
        known.path.filter(|_| known.host == host && known.answers == SURE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// `host` answers after `rtt` to a packet that left at `left`.
    fn answer(host: u64, left: u64, rtt: u64) -> Answer {
        Answer { host, left: Instant::ZERO + ms(left), rtt: ms(rtt), alone: false, emptied: false }
    }

    /// Hosts whose packets have waited alike if they left within 20 ms of each other.
    struct Of {
        hosts: Hosts,
        shortest: Duration,
    }

    impl Of {
        fn nobody(shortest: Duration) -> Self {
            Self { hosts: Hosts::new(), shortest }
        }

        fn learn(&mut self, answer: Answer) -> Option<Duration> {
            self.hosts.learn(answer, self.shortest, ms(20))
        }
    }

    #[test]
    fn who_is_far_is_not_late() {
        let mut d = Of::nobody(ms(20));
        let mut learn = |answer| d.learn(answer);
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
        let mut d = Of::nobody(ms(20));
        let alone = |left, rtt| Answer { alone: true, ..answer(1, left, rtt) };
        (0..4).for_each(|_| assert_eq!(d.learn(alone(0, 30)), None));
        assert_eq!(d.learn(alone(0, 20)), Some(ms(20)));
        assert_eq!(d.learn(alone(100, 90)), Some(ms(20)), "the shortest counts");
        d.hosts.measurement += 1;
        let empty = |left, rtt| Answer { emptied: true, ..answer(1, left, rtt) };
        assert_eq!(d.learn(empty(200, 90)), Some(ms(90)));
        assert_eq!(d.learn(empty(300, 80)), Some(ms(80)));
        assert_eq!(d.learn(empty(400, 85)), Some(ms(80)));
    }

    #[test]
    fn a_way_that_has_become_longer_shows_beside_others() {
        let mut d = Of::nobody(ms(20));
        (0..5).for_each(|_| _ = d.learn(Answer { alone: true, ..answer(1, 0, 20) }));
        (0..5).for_each(|_| _ = d.learn(Answer { alone: true, ..answer(2, 0, 30) }));
        // Both wait behind a queue of 40 ms; then the second's path takes 200 ms more, and the queue goes.
        let mut both = |left, first, second| {
            d.learn(answer(1, left, first));
            d.learn(answer(2, left + 6, second)).unwrap()
        };
        (0..50).for_each(|n| assert_eq!(both(100 + 20 * n, 60, 70), ms(30)));
        let ways: Vec<_> = (0..16).map(|n| both(2000 + 20 * n, 60 - n, 270 - n)).collect();
        assert!(ways[..15].iter().all(|way| *way == ms(30)), "{ways:?}");
        assert_eq!(ways[15], ms(230));
    }

    /// A server that had an outage's packets sent again echoes what it was asked 15 s ago.
    #[test]
    fn what_takes_longer_than_any_path_is_none() {
        let mut d = Of::nobody(ms(20));
        (0..5).for_each(|_| _ = d.learn(Answer { alone: true, ..answer(1, 0, 20) }));
        d.hosts.measurement += 1;
        let late = answer(2, 10_000, 4000);
        (0..5).for_each(|_| assert_eq!(d.learn(Answer { emptied: true, ..late }), None));
        assert_eq!(d.learn(Answer { alone: true, ..late }), None);
        // The first's packet waited for 5 s; 10 s of the second's 15 remain.
        d.learn(answer(1, 20_000, 5020));
        assert_eq!(d.learn(answer(2, 20_000, 15_000)), None);
        assert_eq!(d.learn(answer(2, 20_000, 6500)), Some(ms(1500)), "two satellites");
        // The first answers late again and again, while a third does not.
        (0..5).for_each(|_| _ = d.learn(Answer { alone: true, ..answer(3, 25_000, 20) }));
        let mut at = 30_000;
        let mut answers = |rtt| {
            (0..40).for_each(|_| {
                at += 20;
                d.learn(answer(3, at, 20));
                d.learn(answer(1, at, rtt));
            });
            d.learn(answer(1, at, rtt))
        };
        assert_eq!(answers(9000), Some(ms(20)));
        assert_eq!(answers(900), Some(ms(900)));
    }

    #[test]
    fn no_guess_is_shorter_than_the_shortest_round_trip() {
        let mut d = Of::nobody(ms(20));
        (0..5).for_each(|_| _ = d.learn(Answer { alone: true, ..answer(1, 0, 20) }));
        // The first stood behind an outage of 480 ms; the second left with it and came through sooner.
        d.learn(answer(1, 1000, 500));
        let short = answer(2, 1000, 300);
        (0..5).for_each(|_| assert_eq!(d.learn(short), None, "it waited longer than this took"));
        // A third whose own wait was a little shorter: its path is no less than the shortest of all.
        let near = answer(3, 1000, 490);
        let ways: Vec<_> = (0..5).map(|_| d.learn(near)).collect();
        assert_eq!(ways[4], Some(ms(20)));
    }
}
