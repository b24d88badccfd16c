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

use super::PACKET;
use super::before::Before;
use super::config::{FollowConfig, LinkPlace};
use super::control::Control;
use super::report::{FollowPhase, FollowReport};

/// Shortest period in which a queue can stand, longer than most round trips.
const PERIOD: Duration = Duration::from_secs(1);
/// Packets that have to tell in a period.
const TOLD: u32 = 4;
/// Multiple of the settings' `target`, beside two packets, that the shortest wait of a period has to exceed: a wait that
/// is aimed at is no sign of a queue that stands.
const BEYOND_TARGET: u32 = 2;
/// Periods with a queue on one side, less those with one on the other, after which that side's controller bounds what
/// leaves; and the most that are counted, so that a link that has moved is followed after some 13 s.
const SURE: i32 = 3;
const MOST: i32 = 10;

/// Waits on one side in a period.
#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    from: Instant,
    told: u32,
    shortest: Option<Duration>,
}

impl Waits {
    /// Notes a packet that has waited for `late`. Returns whether a queue stands, at the end of a period.
    fn note(&mut self, now: Instant, late: Duration, bound: Duration) -> Option<bool> {
        self.told += 1;
        let shortest = self.shortest.map_or(late, |shortest| shortest.min(late));
        self.shortest = Some(shortest);
        if self.told < TOLD || now.since(self.from) < PERIOD {
            return None;
        }
        *self = Self { from: now, ..Self::default() };
        Some(shortest > bound)
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
    waits_behind: Waits,
    waits_before: Waits,
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
            waits_behind: Waits::default(),
            waits_before: Waits::default(),
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
        // A controller that looks on writes off what it would if it decided; what leaves too early for it does not count.
        if self.behind.ready(now, bytes) <= now {
            self.behind.make_room(now, bytes);
        }
        if self.before.ready(now, bytes) <= now {
            self.before.make_room(now, bytes);
        }
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
        let bound = self.bound(self.behind.rate());
        if let Some(stands) = self.waits_behind.note(now, self.behind.late(), bound) {
            self.weigh(LinkPlace::Behind, stands);
        }
        self.place == Some(LinkPlace::Behind)
    }

    /// Notes an arrival, which takes `bytes` on the link. Returns whether it brings news of the link.
    pub fn arrives(&mut self, now: Instant, header: &Header, bytes: u64) -> bool {
        if !self.before.arrives(now, header, bytes) {
            return false;
        }
        let bound = self.bound(self.before.rate());
        if let Some(stands) = self.waits_before.note(now, self.before.late(), bound) {
            self.weigh(LinkPlace::Before, stands);
        }
        self.place == Some(LinkPlace::Before)
    }

    /// Wait beyond which a queue stands on a side whose link has this rate.
    fn bound(&self, rate: Rate) -> Duration {
        let own = super::seconds(PACKET as f64 * 8.0 / rate.as_bps().max(1) as f64);
        self.target * u64::from(BEYOND_TARGET) + own * 2
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
