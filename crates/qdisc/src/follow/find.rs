//! Controller that finds out on which side of the box the slow link lies.
//!
//! Both controllers see all packets. The one on whose side a queue stands bounds what leaves; while none stands,
//! nothing is held back. A queue stands in a period in which no packet that told had waited for less than a bound: a
//! fast link with Wi-Fi behind it delays some packets, a full link all. The other controller goes on looking, as the
//! slow link may be another one later.
//!
//! Idea: a queue that does not go away within a round trip is a bad one (CoDel: RFC 8289, section 3). Difference: it
//! tells the side of the slow link.

use narrows_units::{Duration, Instant, Rate};
use narrows_wire::Header;

use super::Departure;
use super::config::FollowConfig;
use super::decisions::{DecisionReason, DecisionSignals, Reasons};
use super::report::{FollowPhase, FollowReport};
use super::sides::{BySide, LinkSide, Sides, Waits};

/// Shortest period in which a queue can stand, longer than most round trips.
const PERIOD: Duration = Duration::from_secs(1);
/// Periods with a queue on one side, less those with one on the other, after which that side's controller bounds what
/// leaves; and the most that are counted, so that a link that has moved is followed after some 13 s.
const SURE: i32 = 3;
const MOST: i32 = 10;

/// Waits on one side, period by period.
#[derive(Clone, Copy, Debug, Default)]
struct Period {
    from: Instant,
    waits: Waits,
}

impl Period {
    /// Notes a packet that has waited for `late`. Returns all waits at the end of the period.
    fn note(&mut self, now: Instant, late: Duration) -> Option<Waits> {
        self.waits.note(late);
        if !self.waits.tell() || now.since(self.from) < PERIOD {
            return None;
        }
        self.from = now;
        Some(core::mem::take(&mut self.waits))
    }
}

/// State of the controller.
#[derive(Debug)]
pub(super) struct Find {
    /// Rate that is told while the side is not known.
    at_first: Rate,
    sides: Sides,
    periods: BySide<Period>,
    /// Periods with a queue before the box, less the periods with a queue behind the box.
    lead: i32,
    /// Side whose controller bounds what leaves.
    found: Option<LinkSide>,
    /// Whether packets have waited in the box in the present period.
    held: bool,
    reasons: Reasons,
}

impl Find {
    /// A controller for a link of which nothing is known. `seed` keys the hashes.
    pub fn new(config: FollowConfig, seed: u64) -> Self {
        Self {
            at_first: super::LinkRate::Auto(config).at_first(),
            sides: Sides::new(config, seed),
            periods: BySide::default(),
            lead: 0,
            found: None,
            held: false,
            reasons: Reasons::new(),
        }
    }

    /// Takes other settings while packets wait.
    pub fn reconfigure(&mut self, config: FollowConfig) {
        self.sides.reconfigure(config);
    }

    /// Side whose controller bounds what leaves.
    pub const fn found(&self) -> Option<LinkSide> {
        self.found
    }

    /// Rate of the link, or the rate of the settings until one is found.
    pub fn rate(&self) -> Rate {
        self.found.map_or(self.at_first, |side| self.sides.rate(side))
    }

    /// State of the controller to report; `waits` says whether packets wait in the box.
    pub fn report(&self, now: Instant, waits: bool) -> FollowReport {
        let unknown = || FollowReport {
            rate_bps: self.at_first.as_bps(),
            phase: FollowPhase::Finding,
            ..FollowReport::default()
        };
        self.found.map_or_else(unknown, |side| self.sides.report(side, now, waits))
    }

    /// Reasons of decisions since the last call.
    pub fn reasons(&mut self) -> Reasons {
        self.reasons.take().and(self.sides.reasons(self.found))
    }

    /// Signals since the last call.
    pub fn take_signals(&mut self) -> DecisionSignals {
        self.sides.take_signals()
    }

    /// Whether a queue has stood lately on the side that was found.
    pub fn queue_stands(&self) -> bool {
        self.found.is_some_and(|side| self.sides.queue_stands(side))
    }

    /// Whether nothing that passes tells of the link on the side that was found, or on any.
    pub fn is_blind(&self, now: Instant) -> bool {
        let all = [LinkSide::Before, LinkSide::Behind];
        let mut sides = all.into_iter().filter(|side| self.found.is_none_or(|found| found == *side));
        sides.all(|side| self.sides.is_blind(side, now))
    }

    /// Bytes that may be under way; `None` while nothing is held back.
    pub fn held_to(&self, now: Instant) -> Option<u64> {
        self.sides.held_to(self.found?, now)
    }

    /// Notes that a packet could leave and nothing waits.
    pub const fn idles(&mut self, now: Instant) {
        self.sides.idles(now);
    }

    /// Time at which a packet of `bytes` may leave, if nothing is heard before.
    pub fn ready(&self, now: Instant, bytes: u64) -> Instant {
        self.found.map_or(now, |side| self.sides.ready(side, now, bytes))
    }

    /// Writes off what has to be, so that a packet of `bytes`, which is [`ready`](Self::ready), may leave.
    pub fn make_room(&mut self, now: Instant, bytes: u64) {
        self.sides.make_room(now, bytes);
    }

    /// Notes a packet that leaves.
    pub fn departs(&mut self, now: Instant, departure: &Departure<'_>) {
        self.held |= departure.waiting;
        self.sides.departs(now, departure);
    }

    /// Notes a packet of the other direction. Returns whether it brings news of the link.
    pub fn returns(&mut self, now: Instant, header: &Header) -> bool {
        let late = self.sides.returns(now, header);
        self.hears(now, LinkSide::Behind, late)
    }

    /// Notes an arrival, which takes `bytes` on the link. Returns whether it brings news of the link.
    pub fn arrives(&mut self, now: Instant, header: &Header, bytes: u64) -> bool {
        let late = self.sides.arrives(now, header, bytes);
        self.hears(now, LinkSide::Before, late)
    }

    /// Notes how long a packet has waited on a side, if that was told. Returns whether it brings news of the link.
    fn hears(&mut self, now: Instant, side: LinkSide, late: Option<Duration>) -> bool {
        let Some(late) = late else { return false };
        if let Some(waits) = self.periods[side].note(now, late) {
            self.weigh(side, self.sides.stands(side, &waits));
        }
        self.found == Some(side)
    }

    /// Weighs a period of one side.
    fn weigh(&mut self, side: LinkSide, stands: bool) {
        let towards = |side| if side == LinkSide::Before { 1 } else { -1 };
        if stands {
            self.lead += towards(side);
        } else if let Some(found) = self.found.filter(|found| *found != side && self.held) {
            // What waits here does not wait elsewhere: the side is right.
            self.lead += towards(found);
        }
        self.held = false;
        self.lead = self.lead.clamp(-MOST, MOST);
        let found = match self.lead {
            SURE.. => Some(LinkSide::Before),
            _ if self.lead <= -SURE => Some(LinkSide::Behind),
            _ => self.found,
        };
        if found != self.found {
            let first = self.found.is_none();
            self.reasons.note(if first { DecisionReason::SideFound } else { DecisionReason::SideChanged });
            self.sides.reasons(None);
            self.found = found;
            self.sides.let_bound(found);
        }
    }
}

#[cfg(test)]
mod tests;
