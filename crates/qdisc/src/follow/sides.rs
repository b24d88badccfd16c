//! Sides of the box, and a controller for each. The slow link lies on one of them.

use core::ops::{Index, IndexMut};

use narrows_units::{Duration, Instant, Rate};
use narrows_wire::Header;

use super::before::Before;
use super::config::FollowConfig;
use super::control::Control;
use super::decisions::{DecisionSignals, Reasons};
use super::report::FollowReport;
use super::{Departure, PACKET};

/// Packets that have to tell before a queue can stand.
const TOLD: u32 = 4;

/// Side of the box on which a link lies, seen in the direction of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum LinkSide {
    /// Packets come out of the link before the box.
    Before,
    /// Packets enter the link after the box.
    Behind,
}

impl LinkSide {
    /// Name of the side in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Behind => "behind",
        }
    }
}

/// A value for each side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BySide<T> {
    /// The value for the side before the box.
    pub before: T,
    /// The value for the side behind the box.
    pub behind: T,
}

impl<T> Index<LinkSide> for BySide<T> {
    type Output = T;
    fn index(&self, side: LinkSide) -> &T {
        match side {
            LinkSide::Before => &self.before,
            LinkSide::Behind => &self.behind,
        }
    }
}

impl<T> IndexMut<LinkSide> for BySide<T> {
    fn index_mut(&mut self, side: LinkSide) -> &mut T {
        match side {
            LinkSide::Before => &mut self.before,
            LinkSide::Behind => &mut self.behind,
        }
    }
}

/// Waits on one side over some time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    told: u32,
    shortest: Option<Duration>,
}

impl Waits {
    /// Notes a packet that has waited for `late`.
    pub fn note(&mut self, late: Duration) {
        self.told = self.told.saturating_add(1);
        self.shortest = Some(self.shortest.map_or(late, |shortest| shortest.min(late)));
    }

    /// Shortest wait.
    pub const fn shortest(&self) -> Option<Duration> {
        self.shortest
    }

    /// Number of packets that told.
    pub const fn told(&self) -> u32 {
        self.told
    }

    /// Whether enough packets have told.
    pub const fn tell(&self) -> bool {
        self.told >= TOLD
    }
}

/// Controllers for both sides, which see all packets. At most one bounds what leaves, and the other looks on.
#[derive(Debug)]
pub(super) struct Sides {
    target: Duration,
    before: Before,
    behind: Control,
}

/// Calls the method of the controller for a side.
macro_rules! at {
    ($sides:expr, $side:expr, $name:ident($($argument:expr),*)) => {
        match $side {
            LinkSide::Before => $sides.before.$name($($argument),*),
            LinkSide::Behind => $sides.behind.$name($($argument),*),
        }
    };
}

impl Sides {
    /// Controllers that look on. `seed` keys the hashes.
    pub fn new(config: FollowConfig, seed: u64) -> Self {
        let mut sides = Self {
            target: config.target,
            before: Before::new(config, seed),
            behind: Control::new(config, seed),
        };
        sides.let_bound(None);
        sides
    }

    /// Takes other settings while packets wait.
    pub fn reconfigure(&mut self, config: FollowConfig) {
        self.target = config.target;
        self.behind.reconfigure(config);
        self.before.reconfigure(config);
    }

    /// Lets the controller for `side` bound what leaves; `None` for neither controller.
    pub fn let_bound(&mut self, side: Option<LinkSide>) {
        self.before.look_on(side != Some(LinkSide::Before));
        self.behind.look_on(side != Some(LinkSide::Behind));
    }

    /// Rate of the link on a side, or the rate of the settings until one is found.
    pub fn rate(&self, side: LinkSide) -> Rate {
        at!(self, side, rate())
    }

    /// State of the controller for a side; `waits` says whether packets wait in the box.
    pub fn report(&self, side: LinkSide, now: Instant, waits: bool) -> FollowReport {
        at!(self, side, report(now, waits))
    }

    /// Reasons of decisions since the last call of the controller for `side`, if there is one that bounds what leaves.
    pub fn reasons(&mut self, side: Option<LinkSide>) -> Reasons {
        let all = BySide { before: self.before.reasons(), behind: self.behind.reasons() };
        side.map_or(Reasons::new(), |side| all[side])
    }

    /// Signals of both sides since the last call.
    pub fn take_signals(&mut self) -> DecisionSignals {
        let behind = self.behind.take_signals();
        DecisionSignals { acknowledgments: behind.acknowledgments, ..self.before.take_signals() }
    }

    /// Whether a queue has stood lately on a side.
    pub fn queue_stands(&self, side: LinkSide) -> bool {
        at!(self, side, queue_stands())
    }

    /// Whether nothing that passes tells the controller for a side of the link.
    pub fn is_blind(&self, side: LinkSide, now: Instant) -> bool {
        at!(self, side, is_blind(now))
    }

    /// Bytes that the controller for a side lets be under way; `None` while it holds nothing back.
    pub fn held_to(&self, side: LinkSide, now: Instant) -> Option<u64> {
        at!(self, side, held_to(now))
    }

    /// Time at which the controller for a side lets a packet of `bytes` leave, if nothing is heard before.
    pub fn ready(&self, side: LinkSide, now: Instant, bytes: u64) -> Instant {
        at!(self, side, ready(now, bytes))
    }

    /// Packets that were sent again after a loss behind the box.
    pub const fn sent_again(&self) -> u64 {
        self.behind.sent_again()
    }

    /// Whether a queue stands on a side that shows `waits`: each packet that told has waited for longer than the
    /// settings' `target` and two packets' time.
    pub fn stands(&self, side: LinkSide, waits: &Waits) -> bool {
        let own = super::seconds(PACKET as f64 * 8.0 / self.rate(side).as_bps().max(1) as f64);
        let bound = self.target + own * 2;
        waits.tell() && waits.shortest.is_some_and(|shortest| shortest > bound)
    }

    /// Notes that a packet could leave and nothing waits.
    pub const fn idles(&mut self, now: Instant) {
        self.behind.idles(now);
        self.before.idles(now);
    }

    /// Notes a packet that leaves.
    pub fn departs(&mut self, now: Instant, departure: &Departure<'_>) {
        self.behind.departs(now, departure);
        self.before.departs(now, departure);
    }

    /// Writes off what has to be, so that a packet of `bytes` may leave.
    pub fn make_room(&mut self, now: Instant, bytes: u64) {
        self.behind.keep_up(now, bytes);
        self.before.keep_up(now, bytes);
    }

    /// Notes a packet of the other direction. Returns how long the packet that it tells of has waited behind the box.
    pub fn returns(&mut self, now: Instant, header: &Header) -> Option<Duration> {
        self.before.returns(now, header);
        self.behind.returns(now, header).then(|| self.behind.late())
    }

    /// Notes an arrival that takes `bytes` on the link. Returns how long it has waited before the box, if it tells.
    pub fn arrives(&mut self, now: Instant, header: &Header, bytes: u64) -> Option<Duration> {
        self.before.arrives(now, header, bytes).then(|| self.before.late())
    }
}
