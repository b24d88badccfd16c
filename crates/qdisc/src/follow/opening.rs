//! Times in which nothing is held back, because holding back does not shorten the queue before the link.
//!
//! Two causes are known. Others' packets stand in the same queue: there each has as much of the link as of the queue,
//! so who holds back gets less and less, as Vegas does beside Reno (Mo, La, Anantharam and Walrand, INFOCOM 1999). Or
//! the queue is full of what no acknowledgment paces, as where each of many connections has a packet or two.
//!
//! Evidence: averages of some seconds of what arrives and of the shortest round trip on the far side. Where twice in a
//! row less than half of the most arrives although packets wait here, and round trips stay long, nothing is held back
//! for a trial. If twice as much arrives then and round trips are as before, others share the queue: a queue of the
//! users' own would have grown, and that of a link which has recovered would have gone. Where round trips stay long for
//! many averages, no trial is needed. Idea: Copa (Arun and Balakrishnan, NSDI 2018) changes its mode on evidence that a
//! queue does not empty, for one flow.

use narrows_units::{Duration, Instant};

use super::decisions::{DecisionReason, Reasons};

/// Time over which arrivals are averaged, at least, and in round trips without a queue.
const AVERAGED: Duration = Duration::from_secs(5);
const TRIPS: u64 = 2;
/// Multiple of the round trip without a queue from which a round trip is long, beside the queue that is let stand.
const LONG: u64 = 2;
/// Multiple within which the shortest round trips of a trial are as before it.
const ALIKE: f64 = 1.6;
/// Multiple from which round trips are others than before: of one average after another, and of a single round trip
/// while nothing is held back.
const APART: u64 = 2;
/// Round trips in a row that are longer than [`APART`] allows, before a queue has grown.
const GROWN: u32 = 8;
/// Part of the most that arrived, and averages in a row below it before a trial begins: a link's own rate falls as far
/// for some seconds.
const FALLEN: f64 = 0.5;
const FELL: u32 = 2;
/// Multiple of the arrivals before a trial from which on the trial counts as right.
const RISEN: f64 = 2.0;
/// Longest trial: connections that have stalled begin anew.
const TRIED: Duration = Duration::from_secs(20);
/// Averages in a row with long round trips after which no trial is needed.
const STOOD: u32 = 6;
/// Time for which nothing is held back, which doubles up to a bound each time it is found right again.
const OPEN: Duration = Duration::from_secs(120);
const OPEN_AT_MOST: Duration = Duration::from_secs(960);

/// Arrivals in some seconds.
#[derive(Clone, Copy, Debug)]
struct Average {
    /// Bytes per second.
    rate: f64,
    /// Shortest round trip on the far side.
    shortest: Duration,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The box may hold back.
    Holds,
    /// Nothing is held back for a trial, at most until this time; so much came before.
    Tries { held: Average, until: Instant },
    /// Nothing is held back until `until`; `held` is the average of arrivals while the box held back.
    Open { held: Average, until: Instant },
}

/// Comparison of what comes while the box holds back and while it does not.
#[derive(Debug)]
pub(super) struct Opening {
    state: State,
    /// Begin of the average, the bytes that have arrived in it, and the shortest round trip.
    from: Instant,
    bytes: u64,
    shortest: Option<Duration>,
    /// Whether packets have waited in the box during the whole average.
    waits: bool,
    /// Shortest round trip of the average before.
    before: Option<Duration>,
    /// Averages in a row with long round trips while packets waited in the box.
    stood: u32,
    /// Averages in a row with long round trips in which little arrived.
    fell: u32,
    /// Round trips in a row that have grown while nothing is held back.
    grown: u32,
    /// Most that came in an average, bytes per second; half of it counts after a trial that proved nothing.
    most: f64,
    /// Time for which nothing will be held back.
    open_for: Duration,
    reasons: Reasons,
}

impl Opening {
    /// A box that may hold back.
    pub const fn new() -> Self {
        Self {
            state: State::Holds,
            from: Instant::ZERO,
            bytes: 0,
            shortest: None,
            waits: false,
            before: None,
            stood: 0,
            fell: 0,
            grown: 0,
            most: 0.0,
            open_for: OPEN,
            reasons: Reasons::new(),
        }
    }

    /// Reasons of decisions since the last call.
    pub fn reasons(&mut self) -> Reasons {
        self.reasons.take()
    }

    /// Whether nothing is to be held back.
    pub const fn is_open(&self) -> bool {
        !matches!(self.state, State::Holds)
    }

    /// Notes that a packet could leave and nothing waits.
    pub const fn idles(&mut self) {
        self.waits = false;
    }

    /// Notes a round trip on the far side.
    pub fn answered(&mut self, rtt: Duration) {
        self.shortest = Some(self.shortest.map_or(rtt, |shortest| shortest.min(rtt)));
        let (State::Tries { held, .. } | State::Open { held, .. }) = self.state else { return };
        self.grown = if rtt > held.shortest * APART { self.grown + 1 } else { 0 };
        // A queue that goes by itself was that of a link which has recovered.
        if self.grown == GROWN {
            self.hold(DecisionReason::QueueGrew);
        } else if rtt * APART < held.shortest {
            self.hold(DecisionReason::QueueGone);
        }
    }

    /// Holds back again, as nothing was proved.
    fn hold(&mut self, reason: DecisionReason) {
        self.reasons.note(reason);
        (self.state, self.stood, self.fell) = (State::Holds, 0, 0);
        self.open_for = (self.open_for / 2).max(OPEN);
        self.most *= FALLEN;
    }

    /// Notes an arrival of `bytes`; a round trip without a queue takes `trip`, and the queue that is aimed at `stands`.
    pub fn arrives(&mut self, now: Instant, bytes: u64, trip: Duration, stands: Duration) {
        self.bytes += bytes;
        let time = now.since(self.from);
        if time < AVERAGED.max(trip * TRIPS) {
            return;
        }
        let rate = self.bytes as f64 / time.as_secs_f64();
        let waits = core::mem::replace(&mut self.waits, true);
        let shortest = self.shortest.take();
        (self.from, self.bytes) = (now, 0);
        if let Some(shortest) = shortest {
            self.end_average(now, Average { rate, shortest }, waits && shortest > trip * LONG + stands);
        }
        self.before = shortest;
    }

    /// Takes an average into account; whether a queue has stood in it while packets waited in the box.
    fn end_average(&mut self, now: Instant, average: Average, stands: bool) {
        let Average { rate, shortest } = average;
        match self.state {
            State::Holds => {
                self.stood = if stands { self.stood + 1 } else { 0 };
                let steady =
                    self.before.is_some_and(|before| before.max(shortest) < before.min(shortest) * APART);
                self.fell = if stands && steady && rate < FALLEN * self.most { self.fell + 1 } else { 0 };
                if self.stood >= STOOD {
                    self.open(now, average, DecisionReason::OpenStanding);
                } else if self.fell >= FELL {
                    (self.state, self.grown) = (State::Tries { held: average, until: now + TRIED }, 0);
                    self.reasons.note(DecisionReason::TrialBegun);
                } else {
                    self.most = self.most.max(rate);
                }
            }
            State::Tries { held, until } => {
                let (tried, before) = (shortest.as_secs_f64(), held.shortest.as_secs_f64());
                if rate >= RISEN * held.rate && tried < ALIKE * before && before < ALIKE * tried {
                    self.most = rate;
                    self.open(now, held, DecisionReason::OpenShared);
                } else if now < until && tried < ALIKE * before {
                    let held = Average { rate: held.rate.min(rate), ..held };
                    self.state = State::Tries { held, until };
                } else {
                    self.hold(DecisionReason::TrialFailed);
                    self.most = self.most.max(rate);
                }
            }
            State::Open { until, .. } if now < until => {}
            State::Open { .. } => {
                (self.state, self.stood, self.fell, self.most) = (State::Holds, 0, 0, rate);
                self.reasons.note(DecisionReason::OpenOver);
            }
        }
    }

    fn open(&mut self, now: Instant, held: Average, reason: DecisionReason) {
        self.reasons.note(reason);
        (self.state, self.grown) = (State::Open { held, until: now + self.open_for }, 0);
        self.open_for = (self.open_for * 2).min(OPEN_AT_MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(50);
    const STANDS: Duration = Duration::from_millis(70);

    /// Seconds in which a queue is seen at work.
    struct Seconds {
        opening: Opening,
        now: u64,
    }

    impl Seconds {
        fn new() -> Self {
            Self { opening: Opening::new(), now: 0 }
        }

        /// Ten packets arrive in a second, `kbps` together, after these round trips; packets wait in the box.
        fn pass(&mut self, seconds: u64, kbps: u64, rtt_ms: u64) {
            for _ in 0..seconds * 10 {
                self.now += 100;
                let now = Instant::ZERO + Duration::from_millis(self.now);
                self.opening.answered(Duration::from_millis(rtt_ms));
                self.opening.arrives(now, kbps * 1000 / 8 / 10, TRIP, STANDS);
            }
        }

        /// Seconds after which nothing is held back, at most so many.
        fn opens_within(&mut self, seconds: u64, kbps: u64, rtt_ms: u64) -> Option<u64> {
            (0..seconds).find(|_| {
                self.pass(1, kbps, rtt_ms);
                self.is_open()
            })
        }

        fn is_open(&self) -> bool {
            self.opening.is_open()
        }

        fn reasons(&mut self) -> Vec<DecisionReason> {
            self.opening.reasons().into_iter().collect()
        }
    }

    #[test]
    fn who_gets_less_in_a_queue_that_stays_holds_nothing_back() {
        let mut s = Seconds::new();
        assert_eq!(s.opens_within(10, 1000, 900), None);
        // Others fill the room that is left, so the queue is as long as before.
        assert!(s.opens_within(20, 300, 900).is_some_and(|after| (5..=10).contains(&after)), "a trial");
        s.pass(20, 900, 1000);
        assert!(s.is_open(), "three times as much: it is right");
        s.pass(80, 900, 1000);
        assert!(s.is_open());
        s.pass(40, 900, 1000);
        assert!(!s.is_open(), "it is tried again after two minutes");
        assert_eq!(
            s.reasons(),
            [DecisionReason::TrialBegun, DecisionReason::OpenShared, DecisionReason::OpenOver]
        );
    }

    #[test]
    fn a_queue_that_grows_is_ones_own() {
        let mut s = Seconds::new();
        assert_eq!(s.opens_within(10, 1000, 200), None);
        assert!(s.opens_within(12, 300, 200).is_some(), "a trial");
        s.pass(2, 300, 900);
        assert!(!s.is_open(), "no more came, and it waits longer");
        assert_eq!(s.reasons(), [DecisionReason::TrialBegun, DecisionReason::QueueGrew]);
        assert_eq!(s.opens_within(20, 300, 80), None, "the link has become slower");
    }

    #[test]
    fn a_link_that_recovers_is_not_shared() {
        let mut s = Seconds::new();
        assert_eq!(s.opens_within(10, 1000, 900), None);
        assert!(s.opens_within(12, 300, 900).is_some(), "a trial");
        s.pass(1, 1000, 100);
        assert!(!s.is_open());
        assert_eq!(s.reasons(), [DecisionReason::TrialBegun, DecisionReason::QueueGone]);
    }

    /// The link carries a third for eleven seconds, again and again.
    #[test]
    fn a_link_that_falls_for_some_seconds_is_not_shared() {
        let mut s = Seconds::new();
        for _ in 0..20 {
            assert_eq!(s.opens_within(13, 1000, 60), None);
            assert_eq!(s.opens_within(11, 300, 200), None);
        }
    }

    #[test]
    fn nothing_is_tried_while_no_queue_stands() {
        let mut s = Seconds::new();
        assert_eq!(s.opens_within(10, 1000, 60), None);
        // Twice the round trip, and the queue that is aimed at.
        assert_eq!(s.opens_within(600, 100, 170), None, "the link has become slower, and is followed");
    }

    #[test]
    fn a_queue_that_stays_whatever_is_held_back_opens_the_box() {
        let mut s = Seconds::new();
        assert!(s.opens_within(60, 64, 9000).is_some_and(|after| (20..=35).contains(&after)));
        assert_eq!(s.reasons(), [DecisionReason::OpenStanding]);
    }

    #[test]
    fn a_box_in_which_nothing_waits_holds_nothing_back() {
        let mut s = Seconds::new();
        for _ in 0..600 {
            s.opening.idles();
            assert_eq!(s.opens_within(1, 64, 9000), None);
        }
    }
}
