//! A shaper that finds the rate of its link and follows it: a modem behind the box whose rate nobody knows, or a dish
//! before it.
//!
//! Idea: pacing by acknowledgments is Jacobson's (SIGCOMM 1988); a window of what the path delivers in its shortest
//! round trip is BBR's (Cardwell et al., ACM Queue 14(5), 2016), a cautious forecast Sprout's (Winstein, Sivaraman and
//! Balakrishnan, NSDI 2013). Difference: one controller for all flows together, in the box. It sends no packet of its
//! own: the users' acknowledgments tell.
//!
//! Behind the box: [`echoes`] finds which packets an acknowledgment tells of; [`forecast`] reckons what has crossed
//! by now; [`control`] decides. Before it: [`round_trips`] and [`clocks`] tell how long what arrives has waited;
//! [`before`] decides, and [`opening`] when to hold nothing back. Both: [`paths`] has the round trips without a queue,
//! [`rate`] estimates what the link delivers. [`sides`] has both see all packets; [`find`] chooses by where a queue
//! stands, and [`watch`] tells of it without a shaper. [`decisions`] records what is decided and why.
//!
//! Units: bytes on the link; spans are counted in the link's time for 1500 B. Floats decide here, as in senders'
//! congestion controls; they are the same on all machines with IEEE 754, and `mul_add` is not used.

mod before;
mod clocks;
mod config;
mod control;
mod decisions;
mod departure_times;
mod echoes;
mod find;
mod first_flights;
mod forecast;
mod opening;
mod paths;
mod rate;
mod report;
mod round_trips;
mod sides;
#[cfg(test)]
mod tests;
mod watch;

use core::any::Any;
use core::marker::PhantomData;

use narrows_units::{Duration, Instant, Rate};
use narrows_wire::{FlowKey, Header};

use before::Before;
pub use config::{FollowConfig, LinkPlace, LinkRate};
use control::Control;
pub use decisions::{
    DECISION_COLUMNS, Decision, DecisionCell, DecisionReason, DecisionSignals, DecisionsError,
    LoggedDecision, SignalWaits, read_decisions,
};
use decisions::{Reasons, Recorder};
use find::Find;
pub use report::{FollowPhase, FollowReport, FollowSignals};
pub use sides::{BySide, LinkSide};
pub use watch::{LinkSecond, LinkWatch};

use crate::{
    Ahead, Backlog, Discipline, Manage, Packet, Qdisc, Report, ReversePath, ShaperConfig, Spec, Verdicts,
};

/// Bytes of a full packet: the link's time for a full packet is the unit of spans.
const PACKET: u64 = 1500;

/// Change of the rate, in hundredths, that the discipline is told, and the shortest time between two changes.
const ANNOUNCED_CHANGE: u64 = 10;
const ANNOUNCED_EVERY: Duration = Duration::from_millis(500);

/// The controller for the place of the link.
#[derive(Debug)]
enum Controller {
    Behind(Box<Control>),
    Before(Box<Before>),
    Find(Box<Find>),
}

/// Calls the method of the controller there is.
macro_rules! either {
    ($controller:expr, $name:ident($($argument:expr),*)) => {
        match $controller {
            Controller::Behind(control) => control.$name($($argument),*),
            Controller::Before(control) => control.$name($($argument),*),
            Controller::Find(control) => control.$name($($argument),*),
        }
    };
}

impl Controller {
    fn new(config: FollowConfig, seed: u64) -> Self {
        match config.place {
            LinkPlace::Behind => Self::Behind(Box::new(Control::new(config, seed))),
            LinkPlace::Before => Self::Before(Box::new(Before::new(config, seed))),
            LinkPlace::Find => Self::Find(Box::new(Find::new(config, seed))),
        }
    }

    const fn place(&self) -> LinkPlace {
        match self {
            Self::Behind(_) => LinkPlace::Behind,
            Self::Before(_) => LinkPlace::Before,
            Self::Find(_) => LinkPlace::Find,
        }
    }

    /// State to report; `waits` says whether packets wait in the box.
    fn belief(&self, now: Instant, waits: bool) -> FollowReport {
        either!(self, report(now, waits))
    }

    /// Reasons of decisions since the last call.
    fn reasons(&mut self) -> Reasons {
        either!(self, reasons())
    }

    /// Signals since the last call.
    fn take_signals(&mut self) -> DecisionSignals {
        either!(self, take_signals())
    }

    /// Whether a queue stood before the link or in it at the last news.
    fn queue_stands(&self) -> bool {
        either!(self, queue_stands())
    }

    /// Side on which the link lies, as far as that is known.
    const fn side(&self) -> Option<LinkSide> {
        match self {
            Self::Behind(_) => Some(LinkSide::Behind),
            Self::Before(_) => Some(LinkSide::Before),
            Self::Find(control) => control.found(),
        }
    }

    /// Whether nothing that passes tells of the link.
    fn is_blind(&self, now: Instant) -> bool {
        either!(self, is_blind(now))
    }

    /// Bytes that may be under way; `None` while nothing is held back.
    fn held_to(&self, now: Instant) -> Option<u64> {
        either!(self, held_to(now))
    }

    /// Notes an arrival that takes `bytes` on the link. Returns whether it brings news of the link.
    fn arrives(&mut self, now: Instant, header: &Header, bytes: u64) -> bool {
        match self {
            Self::Behind(_) => false,
            Self::Before(control) => control.arrives(now, header, bytes),
            Self::Find(control) => control.arrives(now, header, bytes),
        }
    }
}

/// A packet that leaves the box.
#[derive(Clone, Copy, Debug)]
struct Departure<'a> {
    header: &'a Header,
    /// Bytes that the packet takes on the link.
    bytes: u64,
    /// Whether others wait behind the packet.
    waiting: bool,
    /// Whether the sender may send as much again once the packet is acknowledged.
    brings_more: bool,
}

/// A discipline before a link whose rate is followed.
#[derive(Debug)]
pub struct Follow<P, Q> {
    link: ShaperConfig,
    spec: Spec,
    inner: Q,
    control: Controller,
    /// Key of the hashes.
    seed: u64,
    /// Rate that the discipline was told, and when.
    announced: Rate,
    announced_at: Instant,
    /// Whether the discipline was told that the link lies before the box.
    told_before: bool,
    /// Recorder of decisions, if somebody wants them, and the bounds of the rate.
    recorder: Option<Box<Recorder>>,
    config: FollowConfig,
    packets: PhantomData<fn(P)>,
}

impl<P, Q> Follow<P, Q> {
    /// A controller before `inner`, which is one of `spec` and has been told the rate of `link`.
    #[must_use]
    pub fn new(config: FollowConfig, link: ShaperConfig, spec: Spec, inner: Q, seed: u64) -> Self {
        Self {
            announced: link.rate,
            announced_at: Instant::ZERO,
            told_before: false,
            link,
            spec,
            inner,
            control: Controller::new(config, seed),
            seed,
            recorder: None,
            config,
            packets: PhantomData,
        }
    }

    /// The discipline inside.
    pub const fn inner_mut(&mut self) -> &mut Q {
        &mut self.inner
    }
}

impl<P: Packet, Q: Discipline<P>> Follow<P, Q> {
    /// Takes other settings for the controller and the discipline, and another link but for its rate. Returns `false`
    /// if the settings are of another discipline: then nothing has changed.
    pub fn adopt(&mut self, now: Instant, config: FollowConfig, spec: &Spec, link: &ShaperConfig) -> bool {
        let rate = self.announced.clamp(config.floor(), config.ceiling());
        let link = ShaperConfig { rate, ..*link };
        let kept = self.inner.reconfigure(now, spec.settings(), &link);
        if kept {
            (self.link, self.announced, self.spec) = (link, rate, spec.clone());
            let differs = core::mem::replace(&mut self.config, config) != config;
            if self.control.place() == config.place {
                either!(&mut self.control, reconfigure(config));
            } else {
                self.control = Controller::new(config, self.seed);
            }
            let waiting = self.inner.backlog().packets;
            if let Some(recorder) = self.recorder.as_mut().filter(|_| differs) {
                recorder.reconfigured(now, &mut self.control, waiting);
            }
        }
        kept
    }

    /// State of the controller, for status and pages.
    #[must_use]
    pub fn belief(&self, now: Instant) -> FollowReport {
        self.control.belief(now, self.inner.backlog().packets > 0)
    }

    /// Returns the discipline, with all packets that wait in the discipline.
    #[must_use]
    pub fn into_inner(mut self) -> Q {
        if let Some(path) = self.inner.reverse_path_mut() {
            path.link_is_before(false);
        }
        self.inner
    }

    /// Records what a packet has brought about.
    fn record(&mut self, now: Instant) {
        if let Some(recorder) = &mut self.recorder {
            recorder.look(now, &mut self.control, self.inner.backlog().packets, &self.config);
        }
    }

    /// Bytes of the largest packet: what has to fit before any packet leaves.
    fn largest(&self) -> u64 {
        self.link.largest().get()
    }

    /// Tells the discipline of another side and of another rate.
    fn announce(&mut self, now: Instant) {
        let before = self.control.side() == Some(LinkSide::Before);
        if before != self.told_before
            && let Some(path) = self.inner.reverse_path_mut()
        {
            path.link_is_before(before);
            self.told_before = before;
        }
        let (rate, known) = (either!(&self.control, rate()).as_bps(), self.announced.as_bps());
        if now.since(self.announced_at) < ANNOUNCED_EVERY
            || rate.abs_diff(known) * 100 <= known * ANNOUNCED_CHANGE
        {
            return;
        }
        (self.announced, self.announced_at) = (Rate::from_bps(rate), now);
        let link = ShaperConfig { rate: self.announced, ..self.link };
        let _ = self.inner.reconfigure(now, self.spec.settings(), &link);
    }
}

impl<P: Packet, Q: Discipline<P>> Qdisc<P> for Follow<P, Q> {
    fn coming(&self, flow: &FlowKey, ahead: Ahead) {
        self.inner.coming(flow, ahead);
    }

    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        if self.inner.backlog().packets == 0 {
            either!(&mut self.control, idles(now));
        }
        let bytes = self.link.wire_len(packet.len()).get();
        if self.control.arrives(now, packet.header(), bytes) {
            self.announce(now);
        }
        self.inner.enqueue(now, packet, verdicts);
        self.recorder.iter_mut().for_each(|recorder| recorder.arrives(bytes));
        self.record(now);
    }

    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        if self.inner.backlog().packets == 0 || either!(&self.control, ready(now, self.largest())) > now {
            return None;
        }
        let largest = self.largest();
        either!(&mut self.control, make_room(now, largest));
        let Some(packet) = self.inner.dequeue(now, verdicts) else {
            either!(&mut self.control, idles(now));
            return None;
        };
        let bytes = self.link.wire_len(packet.len()).get();
        let waiting = self.inner.backlog().packets > 0;
        let header = packet.header();
        let brings_more =
            !self.told_before || self.inner.reverse_path().is_none_or(|path| path.brings_more(header));
        either!(&mut self.control, departs(now, &Departure { header, bytes, waiting, brings_more }));
        self.recorder.iter_mut().for_each(|recorder| recorder.leaves(bytes));
        self.record(now);
        Some(packet)
    }

    fn next_ready(&self, now: Instant) -> Option<Instant> {
        let inner = self.inner.next_ready(now)?;
        Some(either!(&self.control, ready(now, self.largest())).max(inner))
    }

    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }
}

impl<P: Packet, Q: Discipline<P>> ReversePath<P> for Follow<P, Q> {
    fn reverse(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) -> Option<P> {
        if either!(&mut self.control, returns(now, packet.header())) {
            self.announce(now);
        }
        self.record(now);
        match self.inner.reverse_path_mut() {
            Some(path) => path.reverse(now, packet, verdicts),
            None => Some(packet),
        }
    }

    fn behind_others(&mut self) {
        if let Some(path) = self.inner.reverse_path_mut() {
            path.behind_others();
        }
    }

    fn release(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        self.inner.reverse_path_mut()?.release(now, verdicts)
    }

    fn next_release(&self, now: Instant) -> Option<Instant> {
        self.inner.reverse_path()?.next_release(now)
    }

    fn held(&self) -> usize {
        self.inner.reverse_path().map_or(0, ReversePath::held)
    }

    fn release_all(&mut self, now: Instant) {
        if let Some(path) = self.inner.reverse_path_mut() {
            path.release_all(now);
        }
    }
}

impl<P: Packet, Q: Discipline<P>> Manage for Follow<P, Q> {
    fn report(&mut self, now: Instant) -> Report {
        Report { follows: Some(self.belief(now)), ..self.inner.report(now) }
    }

    fn reconfigure(&mut self, now: Instant, settings: &dyn Any, link: &ShaperConfig) -> bool {
        let link = ShaperConfig { rate: self.announced, ..*link };
        let kept = self.inner.reconfigure(now, settings, &link);
        if kept {
            self.link = link;
        }
        kept
    }

    fn record_decisions(&mut self, record: bool) {
        if !record {
            self.recorder = None;
        } else if self.recorder.is_none() {
            self.recorder = Some(Box::new(Recorder::new()));
        }
    }

    fn next_decision(&mut self) -> Option<Decision> {
        self.recorder.as_mut()?.next()
    }

    fn decisions_lost(&self) -> u64 {
        self.recorder.as_ref().map_or(0, |recorder| recorder.lost())
    }

    crate::forward!(inner: export, import, set_circuit_rates);
}

impl<P: Packet, Q: Discipline<P>> Discipline<P> for Follow<P, Q> {
    fn reverse_path(&self) -> Option<&dyn ReversePath<P>> {
        Some(self)
    }

    fn reverse_path_mut(&mut self) -> Option<&mut dyn ReversePath<P>> {
        Some(self)
    }
}

fn seconds(s: f64) -> Duration {
    Duration::from_nanos((s * 1e9) as u64)
}
