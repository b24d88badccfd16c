//! Lane of the box: one direction with a discipline, shaped or not, that can be exchanged while packets wait.

mod before;
mod handover;

use std::any::Any;
use std::collections::VecDeque;

use narrows_qdisc::follow::{Decision, Follow, FollowConfig};
use narrows_qdisc::{
    Ahead, Backlog, BoxedDiscipline, CircuitRates, Discipline, Fifo, Limit, Manage, Packet, Qdisc, Report,
    ReversePath, Shaper, ShaperConfig, Side, Spec, Verdicts,
};
use narrows_units::{Bytes, Instant, Rate};
use narrows_wire::FlowKey;

use self::before::Before;
pub use self::handover::LaneState;
use super::watch::Watch;

/// The link an observer assumes where none is told: fast enough for nothing to wait.
const NOMINAL: ShaperConfig = ShaperConfig::new(Rate::from_kbps(1_000_000));

/// Settings of one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneSettings {
    /// The link to imitate; `None` lets packets pass at once.
    pub link: Option<ShaperConfig>,
    /// Settings by which the rate of the link is followed; `None` where it is as told.
    pub follow: Option<FollowConfig>,
    /// The discipline of a shaped direction.
    pub discipline: Spec,
    /// Follow connections and report: packets pass at once, the discipline is only shown them.
    pub observe: bool,
    /// Seed of hashes and tie-breaks.
    pub seed: u64,
    /// Side of the users, for an observer without a link; a link says it itself.
    pub users: Side,
    /// Record what is decided about a rate that is followed.
    pub record: bool,
}

impl LaneSettings {
    /// A direction shaped to `link` under `discipline`; with no link, one that lets packets pass.
    #[must_use]
    pub const fn new(link: Option<ShaperConfig>, discipline: Spec, seed: u64) -> Self {
        Self { link, follow: None, discipline, observe: false, seed, users: Side::Opener, record: false }
    }

    /// The link an observer takes it for: a rate that is still to be found is none to go by.
    fn observed(&self) -> ShaperConfig {
        match (self.link, self.follow) {
            (Some(link), Some(_)) => ShaperConfig { rate: NOMINAL.rate, ..link },
            (Some(link), None) => link,
            (None, _) => ShaperConfig { users: self.users, ..NOMINAL },
        }
    }
}

/// Queue of one direction of the box.
pub enum LinkQueue<P> {
    /// Unshaped queue: packets leave as they come.
    Open(Switch<P>),
    /// Queue behind a rate.
    Shaped(Shaper<P, Switch<P>>),
    /// Queue behind a rate that follows the link's.
    Followed(Box<Follow<P, Switch<P>>>),
    /// Queue that only looks on: packets pass at once.
    Watched(Watch<P>),
}

/// A discipline that was put in place of another: what waited in the old one leaves in its old order, at the new rate.
/// So an exchange loses nothing, and reorders nothing of a flow.
pub struct Switch<P> {
    before: Before<P>,
    inner: BoxedDiscipline<P>,
}

impl<P: Packet + Send + 'static> LinkQueue<P> {
    /// A direction as told, empty.
    #[must_use]
    pub fn new(settings: &LaneSettings) -> Self {
        let switch = |inner| Switch { before: Before::default(), inner };
        let (spec, seed) = (&settings.discipline, settings.seed);
        match settings.link {
            _ if settings.observe => Self::Watched(Watch::new(spec.build(&settings.observed(), seed))),
            None => Self::Open(switch(nothing())),
            Some(link) => Self::behind(settings, link, switch(spec.build(&link, seed))),
        }
    }

    /// Queue behind a link's rate: shaped where the rate is fixed, else following the rate that is found.
    fn behind(settings: &LaneSettings, link: ShaperConfig, inner: Switch<P>) -> Self {
        match settings.follow {
            None => Self::Shaped(Shaper::new(link, inner)),
            Some(follow) => {
                let spec = settings.discipline.clone();
                let mut followed = Follow::new(follow, link, spec, inner, settings.seed);
                followed.record_decisions(settings.record);
                Self::Followed(Box::new(followed))
            }
        }
    }

    fn inner_mut(&mut self) -> &mut dyn Discipline<P> {
        match self {
            Self::Open(s) => s,
            Self::Shaped(s) => s.inner_mut(),
            Self::Followed(f) => f.inner_mut(),
            Self::Watched(w) => w,
        }
    }

    /// Rate found by a queue that follows its link; `None` for other queues.
    pub fn followed(&self, now: Instant) -> Option<Rate> {
        match self {
            Self::Followed(f) => Some(Rate::from_bps(f.belief(now).rate_bps)),
            Self::Open(_) | Self::Shaped(_) | Self::Watched(_) => None,
        }
    }

    /// Gives back the link's time of a packet of `len` that never left. A rate that is followed is one of packets that
    /// went there: for what did not, it waits as for lost ones.
    pub fn give_back(&mut self, len: Bytes) {
        if let Self::Shaped(s) = self {
            s.give_back(len);
        }
    }

    /// Takes out all that waits, in the order in which it would have been sent, whatever the rate. The discipline may
    /// discard some on the way, as on any dequeue. The discipline is of no use afterwards: where it holds a packet back
    /// for a time, that time is made to pass.
    pub fn drain(&mut self, mut now: Instant, verdicts: &mut Verdicts<P>) -> VecDeque<P> {
        let inner = self.inner_mut();
        let mut waiting = VecDeque::new();
        // No discipline waits more often than it has packets.
        for _ in 0..=inner.backlog().packets {
            waiting.extend(std::iter::from_fn(|| inner.dequeue(now, verdicts)));
            match inner.next_ready(now) {
                Some(later) if inner.backlog().packets > 0 => now = now.max(later),
                _ => break,
            }
        }
        waiting
    }

    /// Takes out all packets of the other direction that are kept by the reverse path, in order.
    pub fn release_held(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Vec<P> {
        let Some(path) = self.inner_mut().reverse_path_mut() else { return Vec::new() };
        path.release_all(now);
        std::iter::from_fn(|| path.release(now, verdicts)).collect()
    }

    /// Does as `settings` say from now on, without another discipline; `false` if it takes another one.
    pub fn adjust(&mut self, now: Instant, settings: &LaneSettings) -> bool {
        let discipline = settings.discipline.settings();
        match (&mut *self, settings.link, settings.follow) {
            (Self::Watched(w), ..) if settings.observe => {
                w.reconfigure(now, discipline, &settings.observed())
            }
            _ if settings.observe => false,
            (Self::Shaped(s), Some(link), None) => s.reconfigure(now, discipline, &link),
            (Self::Followed(f), Some(link), Some(follow)) => {
                f.adopt(now, follow, &settings.discipline, &link)
            }
            (Self::Shaped(_) | Self::Followed(_), Some(link), _) => self.change_shaper(now, settings, link),
            (Self::Open(_), None, _) => true,
            _ => false,
        }
    }

    /// Puts the discipline, if it stays the same, behind a rate that is followed or no longer is.
    fn change_shaper(&mut self, now: Instant, settings: &LaneSettings, link: ShaperConfig) -> bool {
        if !self.inner_mut().reconfigure(now, settings.discipline.settings(), &link) {
            return false;
        }
        let nothing = Switch { before: Before::default(), inner: nothing() };
        let inner = match std::mem::replace(self, Self::Open(nothing)) {
            Self::Shaped(s) => s.into_inner(),
            Self::Followed(f) => f.into_inner(),
            Self::Open(_) | Self::Watched(_) => return false,
        };
        *self = Self::behind(settings, link, inner);
        true
    }

    /// Puts another discipline in place. What waits stays, in order; what is kept by the reverse path is given out.
    pub fn exchange(&mut self, now: Instant, settings: &LaneSettings, verdicts: &mut Verdicts<P>) -> Vec<P> {
        let held = self.release_held(now, verdicts);
        let waiting = self.drain(now, verdicts);
        // An observer keeps nothing back, so nothing waits in one and nothing need wait for one.
        *self = Self::new(settings);
        match self {
            Self::Open(s) => s.put_before(waiting),
            Self::Shaped(s) => s.inner_mut().put_before(waiting),
            Self::Followed(f) => f.inner_mut().put_before(waiting),
            Self::Watched(w) => waiting.into_iter().for_each(|p| w.enqueue(now, p, verdicts)),
        }
        held
    }
}

/// The discipline of a direction that has none.
fn nothing<P: Packet + Send + 'static>() -> BoxedDiscipline<P> {
    Box::new(Fifo::new(Limit::Packets(usize::MAX)))
}

impl<P: Packet> Switch<P> {
    fn put_before(&mut self, waiting: VecDeque<P>) {
        self.before = Before::new(waiting);
    }
}

impl<P: Packet> Qdisc<P> for Switch<P> {
    fn coming(&self, flow: &FlowKey, ahead: Ahead) {
        self.inner.coming(flow, ahead);
    }
    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        self.inner.enqueue(now, packet, verdicts);
    }
    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        let inner = &mut self.inner;
        self.before.next(|| inner.dequeue(now, verdicts))
    }
    fn next_ready(&self, now: Instant) -> Option<Instant> {
        if self.before.backlog().packets == 0 { self.inner.next_ready(now) } else { Some(now) }
    }
    fn backlog(&self) -> Backlog {
        let (inner, before) = (self.inner.backlog(), self.before.backlog());
        Backlog { packets: inner.packets + before.packets, bytes: inner.bytes + before.bytes }
    }
}

impl<P: Packet> Manage for Switch<P> {
    fn report(&mut self, now: Instant) -> Report {
        Report { backlog: self.backlog(), ..self.inner.report(now) }
    }
    fn reconfigure(&mut self, now: Instant, settings: &dyn Any, link: &ShaperConfig) -> bool {
        self.inner.reconfigure(now, settings, link)
    }
    narrows_qdisc::forward!(inner: export, import, set_circuit_rates);
}

impl<P: Packet> Discipline<P> for Switch<P> {
    fn reverse_path(&self) -> Option<&dyn ReversePath<P>> {
        self.inner.reverse_path()
    }
    fn reverse_path_mut(&mut self) -> Option<&mut dyn ReversePath<P>> {
        self.inner.reverse_path_mut()
    }
}

/// Calls one method on the queue of a lane, whichever kind the queue is.
macro_rules! lane {
    ($lane:expr, $q:ident => $call:expr) => {
        match $lane {
            LinkQueue::Open($q) => $call,
            LinkQueue::Shaped($q) => $call,
            LinkQueue::Followed($q) => $call,
            LinkQueue::Watched($q) => $call,
        }
    };
}

impl<P: Packet> Qdisc<P> for LinkQueue<P> {
    fn coming(&self, flow: &FlowKey, ahead: Ahead) {
        lane!(self, q => q.coming(flow, ahead));
    }
    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        lane!(self, q => q.enqueue(now, packet, verdicts));
    }
    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        lane!(self, q => q.dequeue(now, verdicts))
    }
    fn next_ready(&self, now: Instant) -> Option<Instant> {
        lane!(self, q => q.next_ready(now))
    }
    fn backlog(&self) -> Backlog {
        lane!(self, q => q.backlog())
    }
}

impl<P: Packet> Manage for LinkQueue<P> {
    fn report(&mut self, now: Instant) -> Report {
        match self {
            Self::Open(q) => Report { name: "open".into(), ..q.report(now) },
            Self::Shaped(q) => q.report(now),
            Self::Followed(q) => q.report(now),
            Self::Watched(q) => q.report(now),
        }
    }
    fn reconfigure(&mut self, now: Instant, settings: &dyn Any, link: &ShaperConfig) -> bool {
        lane!(self, q => q.reconfigure(now, settings, link))
    }
    fn set_circuit_rates(&mut self, rates: &CircuitRates) {
        lane!(self, q => q.set_circuit_rates(rates));
    }
    fn next_decision(&mut self) -> Option<Decision> {
        lane!(self, q => q.next_decision())
    }
    fn decisions_lost(&self) -> u64 {
        lane!(self, q => q.decisions_lost())
    }
}

impl<P: Packet> Discipline<P> for LinkQueue<P> {
    fn reverse_path(&self) -> Option<&dyn ReversePath<P>> {
        lane!(self, q => q.reverse_path())
    }
    fn reverse_path_mut(&mut self) -> Option<&mut dyn ReversePath<P>> {
        lane!(self, q => q.reverse_path_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_qdisc::Record;
    use narrows_qdisc::follow::LinkPlace;

    /// Sends one packet a millisecond, and holds all packets of the other direction until told to let go.
    #[derive(Default)]
    struct Holder {
        queue: VecDeque<Record>,
        held: VecDeque<Record>,
        busy_until: Instant,
        open: bool,
    }

    impl Qdisc<Record> for Holder {
        fn enqueue(&mut self, _now: Instant, packet: Record, _verdicts: &mut Verdicts<Record>) {
            self.queue.push_back(packet);
        }
        fn dequeue(&mut self, now: Instant, _verdicts: &mut Verdicts<Record>) -> Option<Record> {
            if now < self.busy_until {
                return None;
            }
            let packet = self.queue.pop_front()?;
            self.busy_until = now + narrows_units::Duration::from_millis(1);
            Some(packet)
        }
        fn next_ready(&self, now: Instant) -> Option<Instant> {
            (!self.queue.is_empty()).then_some(now.max(self.busy_until))
        }
        fn backlog(&self) -> Backlog {
            Backlog { packets: self.queue.len(), ..Backlog::default() }
        }
    }

    impl ReversePath<Record> for Holder {
        fn reverse(
            &mut self,
            _now: Instant,
            packet: Record,
            _verdicts: &mut Verdicts<Record>,
        ) -> Option<Record> {
            self.held.push_back(packet);
            None
        }
        fn release(&mut self, _now: Instant, _verdicts: &mut Verdicts<Record>) -> Option<Record> {
            if self.open { self.held.pop_front() } else { None }
        }
        fn next_release(&self, now: Instant) -> Option<Instant> {
            self.open.then_some(now)
        }
        fn held(&self) -> usize {
            self.held.len()
        }
        fn release_all(&mut self, _now: Instant) {
            self.open = true;
        }
    }

    impl Manage for Holder {
        fn report(&mut self, _now: Instant) -> Report {
            Report::default()
        }
        fn reconfigure(&mut self, _: Instant, _: &dyn Any, _: &ShaperConfig) -> bool {
            false
        }
    }

    impl Discipline<Record> for Holder {
        fn reverse_path(&self) -> Option<&dyn ReversePath<Record>> {
            Some(self)
        }
        fn reverse_path_mut(&mut self) -> Option<&mut dyn ReversePath<Record>> {
            Some(self)
        }
    }

    fn record(id: u64) -> Record {
        Record { id, ..Record::default() }
    }

    #[test]
    fn what_is_held_or_kept_back_survives_an_exchange() {
        let inner = Box::new(Holder::default());
        let mut lane = LinkQueue::Open(Switch { before: Before::default(), inner });
        let (now, mut v) = (Instant::from_nanos(5), Vec::new());
        for id in 0..4 {
            lane.enqueue(now, record(id), &mut v);
            assert!(lane.reverse_path_mut().unwrap().reverse(now, record(10 + id), &mut v).is_none());
        }
        assert!(lane.reverse_path_mut().unwrap().release(now, &mut v).is_none());
        let settings = LaneSettings::new(None, "fifo:1".parse().unwrap(), 1);
        let held = lane.exchange(now, &settings, &mut v);
        assert_eq!(held, [10, 11, 12, 13].map(record));
        assert_eq!(lane.backlog().packets, 4);
        lane.enqueue(now, record(4), &mut v);
        let ids: Vec<_> = std::iter::from_fn(|| lane.dequeue(now, &mut v)).map(|p| p.id).collect();
        assert_eq!(ids, [0, 1, 2, 3, 4]);
        assert!(v.is_empty(), "{v:?}");
    }

    #[test]
    fn a_rate_that_is_followed_or_no_longer_keeps_the_discipline() {
        let link = Some(ShaperConfig::new(Rate::from_kbps(600)));
        let fixed = LaneSettings::new(link, "taq".parse().unwrap(), 1);
        let behind = FollowConfig { place: LinkPlace::Behind, ..FollowConfig::default() };
        let auto = LaneSettings { follow: Some(behind), ..fixed.clone() };
        let mut lane = LinkQueue::new(&fixed);
        let mut v = Vec::new();
        (0..9).for_each(|id| lane.enqueue(Instant::ZERO, record(id), &mut v));
        for (settings, followed) in [(&auto, true), (&fixed, false)] {
            assert!(lane.adjust(Instant::ZERO, settings));
            let report = lane.report(Instant::ZERO);
            assert_eq!((report.counters.arrived, report.backlog.packets), (9, 9));
            assert_eq!(report.follows.is_some(), followed);
        }
        // Another discipline takes an exchange.
        let other = LaneSettings { discipline: "fifo:9".parse().unwrap(), ..auto };
        assert!(!lane.adjust(Instant::ZERO, &other));
        assert_eq!(lane.report(Instant::ZERO).counters.arrived, 9);
        assert!(lane.exchange(Instant::ZERO, &other, &mut v).is_empty());
        let ids: Vec<_> = std::iter::from_fn(|| lane.dequeue(Instant::ZERO, &mut v)).map(|p| p.id).collect();
        // A link of unknown rate is tried with two packets.
        assert_eq!(ids[..2], [0, 1]);
        assert_eq!(ids.len() + lane.backlog().packets, 9);
    }

    #[test]
    fn a_discipline_that_keeps_its_kind_keeps_what_it_counts() {
        let link = |kbps| Some(ShaperConfig::new(Rate::from_kbps(kbps)));
        let settings = |kbps, spec: &str| LaneSettings::new(link(kbps), spec.parse().unwrap(), 1);
        for (from, to, kept) in [
            ("fifo:9", "fifo:7", true),
            ("fifo:9", "taq", false),
            ("taq", "taq:window_clamp=off", true),
            ("taq", "taq:mode=paper", false),
        ] {
            let mut lane = LinkQueue::new(&settings(600, from));
            let mut v = Vec::new();
            lane.enqueue(Instant::ZERO, record(1), &mut v);
            assert_eq!(lane.adjust(Instant::ZERO, &settings(900, to)), kept, "{from} to {to}");
            assert_eq!(lane.report(Instant::ZERO).counters.arrived, 1);
        }
        let mut lane: LinkQueue<Record> = LinkQueue::new(&settings(600, "fifo:9"));
        assert!(!lane.adjust(Instant::ZERO, &LaneSettings::new(None, "fifo:9".parse().unwrap(), 1)));
    }
}
