//! Record of what a shaper that follows its link decides, and why.
//!
//! Each controller notes a reason where it decides ([`Reasons`]); what changes without a packet's doing, as the rate or
//! that nothing tells any more, a [`Recorder`] finds by looking. It looks after packets that come, leave and return, so
//! a driver that asks oftener records the same. Nothing is recorded unless somebody asks for it, and what nobody
//! fetches is lost after [`KEPT`] records.

mod text;

use core::fmt;
use std::collections::VecDeque;

use narrows_units::{Bytes, Duration, Instant};

use super::Controller;
use super::config::FollowConfig;
use super::report::FollowReport;
use super::sides::Waits;

pub use text::{DECISION_COLUMNS, DecisionCell, DecisionsError, LoggedDecision, read_decisions};

/// Records that wait to be fetched. A driver that fetches once a second has some of them to spare: records of one kind
/// are a second apart.
const KEPT: usize = 64;
/// Time after the last record at which one is made without a reason, while packets pass.
const REGULARLY: Duration = Duration::from_secs(10);
/// Time between two looks at what changes without a packet's doing.
const LOOKS_EVERY: Duration = Duration::from_millis(100);
/// Change of the rate, in hundredths, that is a decision, and the shortest time between two of them: averages of the
/// rate are of two seconds.
const CHANGED: u64 = 10;
const CHANGED_EVERY: Duration = Duration::from_secs(1);
/// Part, in hundredths, within which the rate is at a bound, and beyond which it is no longer.
const AT_BOUND: u64 = 1;
const OFF_BOUND: u64 = 5;
/// Time for which nothing that passes has told before that is a decision: the first packets of a connection never do.
const BLIND_FOR: Duration = Duration::from_secs(5);

/// The table of reasons: each with its name in a file and a sentence that stands alone, without a comma.
macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $reason:ident, $name:literal, $sentence:literal;)*) => {
        /// Reason of a decision.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum DecisionReason {
            $($(#[doc = $doc])* $reason,)*
        }

        impl DecisionReason {
            /// All reasons.
            pub const ALL: &[Self] = &[$(Self::$reason,)*];

            /// Name of the reason in a file.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$reason => $name,)*
                }
            }

            /// The reason in a sentence that stands alone.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self {
                    $(Self::$reason => $sentence,)*
                }
            }
        }
    };
}

reasons! {
    /// Records begin.
    Begun, "begun", "the record of decisions begins here";
    /// Settings of the controller have changed.
    Settings, "settings", "the settings of auto have changed";
    /// The side of the slow link is known for the first time.
    SideFound, "side_found", "a queue stood on this side of the box: the slow link is taken to be there";
    /// The slow link is taken to be on the other side.
    SideChanged, "side_changed", "a queue stood on this side of the box and none on the other: the slow link has moved";
    /// The link was full for the first time.
    Full, "full", "every packet that told had waited: the link is full and what leaves is bounded from now on";
    /// The first rate was measured.
    RateFound, "rate_found", "the rate was measured for the first time";
    /// The rate rose while the link was full.
    RateRose, "rate_rose", "more came across while a queue stood: the rate rose";
    /// The rate rose although the link was not full.
    MoreCame, "more_came", "more came across than the known rate although no queue stood: the link carries no less";
    /// The rate fell.
    RateFell, "rate_fell", "less came across while a queue stood: the rate fell";
    /// The rate is at the least that settings allow.
    AtMin, "at_min", "the rate has come down to the bound min";
    /// The rate is at the greatest that settings allow.
    AtMax, "at_max", "the rate has come up to the bound max";
    /// Nothing came across for long although packets wait.
    Outage, "outage", "packets waited and nothing came across for a second or two: this is taken for an outage";
    /// The first packet after that.
    Recovered, "recovered", "something came across again: the outage is over";
    /// The queue is let run empty.
    Draining, "draining", "a queue stood all the time: little is let go to see how long the way is without one";
    /// The queue was let run empty.
    Drained, "drained", "the way without a queue is measured: packets leave as before";
    /// The queue did not run empty.
    NotDrained, "not_drained", "a queue stayed although little was let go: this says nothing of the way";
    /// All paths have become longer.
    PathsLonger, "paths_longer", "a wait stayed where the queue should have run empty: the way has become longer";
    /// Nothing is held back for a trial.
    TrialBegun, "trial_begun", "much less came although packets waited here: nothing is held back for a trial";
    /// The trial proved nothing.
    TrialFailed, "trial_failed", "the trial brought no more than before: packets are held back again";
    /// The trial showed that others share the queue.
    OpenShared, "open_shared", "much more came in the trial: others share the queue and nothing is held back";
    /// The queue stays whatever is held back.
    OpenStanding, "open_standing", "round trips stayed long for half a minute: holding back is of no use and ends";
    /// The time is over in which nothing was to be held back.
    OpenOver, "open_over", "nothing was held back for long enough: packets are held back again to compare";
    /// The queue grew while nothing was held back.
    QueueGrew, "queue_grew", "round trips grew while nothing was held back: the queue is of the users here";
    /// The queue went away while nothing was held back.
    QueueGone, "queue_gone", "round trips fell while nothing was held back: the link has recovered";
    /// Nothing that passes tells of the link.
    Blind, "blind", "nothing that passes tells how long it waited: nothing is held back";
    /// Something tells again.
    Seen, "seen", "packets tell again how long they waited";
}

impl fmt::Display for DecisionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

/// Packets that told by one signal how long they had waited, since the record before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalWaits {
    /// Number of packets that told.
    pub told: u32,
    /// Shortest wait.
    pub shortest: Option<Duration>,
}

impl From<Waits> for SignalWaits {
    fn from(waits: Waits) -> Self {
        Self { told: waits.told(), shortest: waits.shortest() }
    }
}

/// Signals of a link's queue since the record before, by the kind of signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionSignals {
    /// Waits before the box by the clocks of the senders.
    pub clocks: SignalWaits,
    /// Waits before the box by round trips on the far side.
    pub round_trips: SignalWaits,
    /// Waits behind the box by what users acknowledge.
    pub acknowledgments: SignalWaits,
}

/// Decision of a shaper that follows its link, or its state at a regular time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Time of the packet that brought the decision about.
    pub at: Instant,
    /// Reason; `None` for a state at a regular time.
    pub reason: Option<DecisionReason>,
    /// State of the controller: side, rate, phase, wait, bytes under way.
    pub belief: FollowReport,
    /// Bytes that may be under way; `None` while nothing is held back.
    pub window: Option<u64>,
    /// Signals since the record before.
    pub signals: DecisionSignals,
    /// Time since the record before.
    pub over: Duration,
    /// Bytes that came to the box and those that left it in that time, as they count on the link.
    pub arrived: Bytes,
    /// See [`Decision::arrived`].
    pub left: Bytes,
    /// Packets that wait in the box.
    pub waiting: usize,
}

/// Reasons of decisions that were not recorded yet: those of one packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reasons([Option<DecisionReason>; Self::MOST]);

impl Reasons {
    /// More than one packet brings about; where nobody records, the first stay.
    const MOST: usize = 8;

    /// No reason.
    pub const fn new() -> Self {
        Self([None; Self::MOST])
    }

    pub fn note(&mut self, reason: DecisionReason) {
        if let Some(place) = self.0.iter_mut().find(|place| place.is_none()) {
            *place = Some(reason);
        }
    }

    /// Reasons since the last call.
    pub const fn take(&mut self) -> Self {
        core::mem::replace(self, Self::new())
    }

    /// Adds other reasons behind these.
    pub fn and(mut self, others: Self) -> Self {
        others.into_iter().for_each(|reason| self.note(reason));
        self
    }
}

impl IntoIterator for Reasons {
    type Item = DecisionReason;
    type IntoIter = core::iter::Flatten<core::array::IntoIter<Option<DecisionReason>, { Self::MOST }>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().flatten()
    }
}

/// State of a recorder that is looked at only now and then.
#[derive(Debug)]
struct Looks {
    at: Instant,
    /// Rate of the last record about a change of the rate, bit/s, and the time of that record.
    rate: Option<(u64, Instant)>,
    bound: Option<DecisionReason>,
    /// Time since when nothing has told, and whether that was recorded.
    blind_since: Option<Instant>,
    blind: bool,
}

/// Recorder of decisions.
#[derive(Debug)]
pub(super) struct Recorder {
    records: VecDeque<Decision>,
    lost: u64,
    /// Time of the last record.
    last: Option<Instant>,
    looks: Looks,
    arrived: u64,
    left: u64,
}

impl Recorder {
    /// A recorder that begins with the next packet.
    pub fn new() -> Self {
        Self {
            records: VecDeque::new(),
            lost: 0,
            last: None,
            looks: Looks { at: Instant::ZERO, rate: None, bound: None, blind_since: None, blind: false },
            arrived: 0,
            left: 0,
        }
    }

    /// Notes `bytes` that came.
    pub const fn arrives(&mut self, bytes: u64) {
        self.arrived += bytes;
    }

    /// Notes `bytes` that left.
    pub const fn leaves(&mut self, bytes: u64) {
        self.left += bytes;
    }

    /// The oldest record that was not fetched.
    pub fn next(&mut self) -> Option<Decision> {
        self.records.pop_front()
    }

    /// Records that nobody fetched in time.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Records what a packet has brought about, by which `waiting` packets wait.
    pub fn look(&mut self, now: Instant, control: &mut Controller, waiting: usize, config: &FollowConfig) {
        let reasons = control.reasons();
        let Some(last) = self.last else {
            // Nobody has asked for reasons noted before.
            control.take_signals();
            return self.record(now, control, waiting, Some(DecisionReason::Begun));
        };
        for reason in reasons {
            self.record(now, control, waiting, Some(reason));
            if matches!(reason, DecisionReason::SideFound | DecisionReason::SideChanged) {
                // The rate is that of another link: its first is no change.
                self.looks.rate = control.belief(now, waiting > 0).found_bps.map(|rate| (rate, now));
                self.looks.bound = None;
            }
        }
        if now.since(self.looks.at) < LOOKS_EVERY {
            return;
        }
        self.looks.at = now;
        let belief = control.belief(now, waiting > 0);
        let stands = control.queue_stands();
        let blind = control.is_blind(now);
        let reasons = [
            self.looks.of_rate(now, &belief, stands),
            self.looks.of_bounds(&belief, config),
            self.looks.of_blindness(now, blind),
        ];
        for reason in reasons.into_iter().flatten() {
            self.record(now, control, waiting, Some(reason));
        }
        if now.since(last) >= REGULARLY && self.last == Some(last) {
            self.record(now, control, waiting, None);
        }
    }

    /// Records that settings have changed.
    pub fn reconfigured(&mut self, now: Instant, control: &mut Controller, waiting: usize) {
        self.record(now, control, waiting, Some(DecisionReason::Settings));
    }

    fn record(
        &mut self,
        now: Instant,
        control: &mut Controller,
        waiting: usize,
        reason: Option<DecisionReason>,
    ) {
        if self.records.len() == KEPT {
            self.records.pop_front();
            self.lost += 1;
        }
        self.records.push_back(Decision {
            at: now,
            reason,
            belief: control.belief(now, waiting > 0),
            window: control.held_to(now),
            signals: control.take_signals(),
            over: self.last.map_or(Duration::ZERO, |last| now.since(last)),
            arrived: Bytes(core::mem::take(&mut self.arrived)),
            left: Bytes(core::mem::take(&mut self.left)),
            waiting,
        });
        self.last = Some(now);
    }
}

impl Looks {
    /// Looks whether the rate is another one than that of the last record about it; `stands`: a queue stood lately.
    fn of_rate(&mut self, now: Instant, belief: &FollowReport, stands: bool) -> Option<DecisionReason> {
        let rate = belief.found_bps?;
        let Some((known, at)) = self.rate else {
            self.rate = Some((rate, now));
            return Some(DecisionReason::RateFound);
        };
        if now.since(at) < CHANGED_EVERY || rate.abs_diff(known) * 100 <= known * CHANGED {
            return None;
        }
        self.rate = Some((rate, now));
        Some(match (rate > known, stands) {
            (true, true) => DecisionReason::RateRose,
            (true, false) => DecisionReason::MoreCame,
            (false, _) => DecisionReason::RateFell,
        })
    }

    fn of_bounds(&mut self, belief: &FollowReport, config: &FollowConfig) -> Option<DecisionReason> {
        let rate = belief.found_bps?;
        let (least, greatest) = (config.floor().as_bps(), config.ceiling().as_bps());
        let (low, high) =
            (|part| rate * 100 <= least * (100 + part), |part| rate * (100 + part) >= greatest * 100);
        let bound = match self.bound {
            Some(DecisionReason::AtMin) if low(OFF_BOUND) => self.bound,
            Some(DecisionReason::AtMax) if high(OFF_BOUND) => self.bound,
            _ if low(AT_BOUND) => Some(DecisionReason::AtMin),
            _ if high(AT_BOUND) => Some(DecisionReason::AtMax),
            _ => None,
        };
        let before = core::mem::replace(&mut self.bound, bound);
        bound.filter(|_| bound != before)
    }

    fn of_blindness(&mut self, now: Instant, blind: bool) -> Option<DecisionReason> {
        if !blind {
            self.blind_since = None;
            return core::mem::take(&mut self.blind).then_some(DecisionReason::Seen);
        }
        let since = *self.blind_since.get_or_insert(now);
        if self.blind || now.since(since) < BLIND_FOR {
            return None;
        }
        self.blind = true;
        Some(DecisionReason::Blind)
    }
}

#[cfg(test)]
mod tests;
