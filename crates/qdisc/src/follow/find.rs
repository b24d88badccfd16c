//! Controller that finds out on which side of the box the slow link lies.
//!
//! Both controllers see all packets. The one on whose side a queue stands bounds what leaves; while none stands,
//! nothing is held back. A queue stands in a period in which no packet that told had waited for less than a bound: a
//! fast link with Wi-Fi behind it delays some packets, a full link all. The other controller goes on looking, as the
//! slow link may be another one later.
//!
//! Idea: a queue that does not go away within a round trip is a bad one (CoDel: RFC 8289, section 3). Difference: it
//! tells the place of the slow link.

use narrows_units::{Duration, Instant, Rate};
use narrows_wire::Header;

use super::before::Before;
use super::config::{FollowConfig, LinkPlace};
use super::control::Control;
use super::report::{FollowPhase, FollowReport};
use super::standing::{PERIOD, Waits};

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
    target: Duration,
    /// Rate that is told while the place is not known.
    at_first: Rate,
    behind: Control,
    before: Before,
    waits_behind: Period,
    waits_before: Period,
    /// Periods with a queue before the box, less those with one behind it.
    lead: i32,
    place: Option<LinkPlace>,
    /// Whether packets have waited in the box in this period.
    held: bool,
}

/// Calls the method of the controller whose place is known, or gives a value.
macro_rules! chosen {
    ($find:expr, $name:ident($($argument:expr),*), $else:expr) => {
        match $find.place {
            Some(LinkPlace::Behind) => $find.behind.$name($($argument),*),
            Some(LinkPlace::Before) => $find.before.$name($($argument),*),
            _ => $else,
        }
    };
}

impl Find {
    /// A controller for a link of which nothing is known. `seed` keys the hashes.
    pub fn new(config: FollowConfig, seed: u64) -> Self {
        let (mut behind, mut before) = (Control::new(config, seed), Before::new(config, seed));
        behind.look_on(true);
        before.look_on(true);
        Self {
            target: config.target,
            at_first: super::LinkRate::Auto(config).at_first(),
            behind,
            before,
            waits_behind: Period::default(),
            waits_before: Period::default(),
            lead: 0,
            place: None,
            held: false,
        }
    }

    /// Takes other settings while packets wait.
    pub fn reconfigure(&mut self, config: FollowConfig) {
        self.target = config.target;
        self.behind.reconfigure(config);
        self.before.reconfigure(config);
    }

    /// Rate of the link, as far as it is known.
    pub fn rate(&self) -> Rate {
        chosen!(self, rate(), self.at_first)
    }

    /// State of the controller to report; `waits` says whether packets wait in the box.
    pub fn report(&self, now: Instant, waits: bool) -> FollowReport {
        let unknown = FollowReport {
            rate_bps: self.at_first.as_bps(),
            phase: FollowPhase::Finding,
            ..FollowReport::default()
        };
        chosen!(self, report(now, waits), unknown)
    }

    /// Notes that a packet could leave and nothing waits.
    pub const fn idles(&mut self, now: Instant) {
        self.behind.idles(now);
        self.before.idles(now);
    }

    /// Time at which a packet of `bytes` may leave, if nothing is heard before.
    pub fn ready(&self, now: Instant, bytes: u64) -> Instant {
        chosen!(self, ready(now, bytes), now)
    }

    /// Writes off what has to be, so that a packet of `bytes`, which is [`ready`](Self::ready), may leave.
    pub fn make_room(&mut self, now: Instant, bytes: u64) {
        self.behind.keep_up(now, bytes);
        self.before.keep_up(now, bytes);
    }

    /// Notes a packet that leaves and takes `bytes` on the link; whether others wait behind it.
    pub fn departs(&mut self, now: Instant, header: &Header, bytes: u64, waiting: bool) {
        self.held |= waiting;
        self.behind.departs(now, header, bytes, waiting);
        self.before.departs(now, header, bytes, waiting);
    }

    /// Notes a packet of the other direction. Returns whether it brings news of the link.
    pub fn returns(&mut self, now: Instant, header: &Header) -> bool {
        self.before.returns(now, header);
        if !self.behind.returns(now, header) {
            return false;
        }
        let (late, rate) = (self.behind.late(), self.behind.rate());
        if let Some(waits) = self.waits_behind.note(now, late) {
            let stands = waits.stand(self.target, rate);
            self.weigh(LinkPlace::Behind, stands);
        }
        self.place == Some(LinkPlace::Behind)
    }

    /// Notes an arrival, which takes `bytes` on the link. Returns whether it brings news of the link.
    pub fn arrives(&mut self, now: Instant, header: &Header, bytes: u64) -> bool {
        if !self.before.arrives(now, header, bytes) {
            return false;
        }
        let (late, rate) = (self.before.late(), self.before.rate());
        if let Some(waits) = self.waits_before.note(now, late) {
            let stands = waits.stand(self.target, rate);
            self.weigh(LinkPlace::Before, stands);
        }
        self.place == Some(LinkPlace::Before)
    }

    /// Weighs a period of one side.
    fn weigh(&mut self, side: LinkPlace, stands: bool) {
        let towards = |side| if side == LinkPlace::Before { 1 } else { -1 };
        if stands {
            self.lead += towards(side);
        } else if let Some(place) = self.place.filter(|place| *place != side && self.held) {
            // What waits here does not wait elsewhere: the place is right.
            self.lead += towards(place);
        }
        self.held = false;
        self.lead = self.lead.clamp(-MOST, MOST);
        let place = match self.lead {
            SURE.. => Some(LinkPlace::Before),
            _ if self.lead <= -SURE => Some(LinkPlace::Behind),
            _ => self.place,
        };
        if place != self.place {
            self.place = place;
            self.behind.look_on(place != Some(LinkPlace::Behind));
            self.before.look_on(place != Some(LinkPlace::Before));
        }
    }
}

#[cfg(test)]
mod tests;
