//! One direction of the box: a discipline, shaped or not, that can be exchanged while packets wait.

use std::collections::VecDeque;

use narrows_qdisc::{Backlog, Fifo, Limit, Packet, Qdisc, Report, Shaper, ShaperConfig, Spec, Verdicts};
use narrows_units::Instant;

/// What one direction is told to do.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneSettings {
    /// The link to imitate; `None` lets packets pass at once.
    pub link: Option<ShaperConfig>,
    /// The discipline of a shaped direction.
    pub discipline: Spec,
    /// For hashing and tie-breaks.
    pub seed: u64,
}

/// One direction of the box.
pub enum Lane<P> {
    /// Not shaped: what comes goes.
    Open(Switch<P>),
    /// Behind a rate.
    Shaped(Shaper<Switch<P>>),
}

/// A discipline that was put in place of another: what waited in the old one leaves first, in its old order, at the new
/// rate. So an exchange loses nothing and reorders nothing.
pub struct Switch<P> {
    before: VecDeque<P>,
    before_backlog: Backlog,
    inner: Box<dyn Qdisc<P> + Send>,
}

impl<P: Packet + Send + 'static> Lane<P> {
    /// A direction as told, empty.
    #[must_use]
    pub fn new(settings: &LaneSettings) -> Self {
        Self::after(settings, VecDeque::new())
    }

    /// A direction as told, in which `before` waits already.
    fn after(settings: &LaneSettings, before: VecDeque<P>) -> Self {
        let mut before_backlog = Backlog::default();
        before.iter().for_each(|p| before_backlog.add(p.len()));
        let switch = |inner| Switch { before, before_backlog, inner };
        match settings.link {
            None => Self::Open(switch(Box::new(Fifo::new(Limit::Packets(usize::MAX))))),
            Some(link) => {
                Self::Shaped(Shaper::new(link, switch(settings.discipline.build(&link, settings.seed))))
            }
        }
    }

    fn switch_mut(&mut self) -> &mut Switch<P> {
        match self {
            Self::Open(s) => s,
            Self::Shaped(s) => s.inner_mut(),
        }
    }

    /// Takes out all that waits, in the order in which it would have been sent. The discipline may discard some on the
    /// way, as on any dequeue.
    pub fn drain(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> VecDeque<P> {
        let switch = self.switch_mut();
        std::iter::from_fn(|| switch.dequeue(now, verdicts)).collect()
    }

    /// Does as `settings` say from now on. What waits stays, in order.
    pub fn reconfigure(&mut self, now: Instant, settings: &LaneSettings, verdicts: &mut Verdicts<P>) {
        *self = Self::after(settings, self.drain(now, verdicts));
    }
}

impl<P: Packet> Qdisc<P> for Switch<P> {
    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        self.inner.enqueue(now, packet, verdicts);
    }
    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        if let Some(packet) = self.before.pop_front() {
            self.before_backlog.sub(packet.len());
            return Some(packet);
        }
        self.inner.dequeue(now, verdicts)
    }
    fn reverse(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) -> Option<P> {
        self.inner.reverse(now, packet, verdicts)
    }
    fn release_reverse(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        self.inner.release_reverse(now, verdicts)
    }
    fn next_ready(&self, now: Instant) -> Option<Instant> {
        if self.before.is_empty() { self.inner.next_ready(now) } else { Some(now) }
    }
    fn next_release(&self, now: Instant) -> Option<Instant> {
        self.inner.next_release(now)
    }
    fn backlog(&self) -> Backlog {
        let inner = self.inner.backlog();
        Backlog {
            packets: inner.packets + self.before_backlog.packets,
            bytes: inner.bytes + self.before_backlog.bytes,
        }
    }
    fn held(&self) -> usize {
        self.inner.held()
    }
    fn report(&mut self, now: Instant) -> Report {
        Report { backlog: self.backlog(), ..self.inner.report(now) }
    }
}

impl<P: Packet> Qdisc<P> for Lane<P> {
    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        match self {
            Self::Open(q) => q.enqueue(now, packet, verdicts),
            Self::Shaped(q) => q.enqueue(now, packet, verdicts),
        }
    }
    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        match self {
            Self::Open(q) => q.dequeue(now, verdicts),
            Self::Shaped(q) => q.dequeue(now, verdicts),
        }
    }
    fn reverse(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) -> Option<P> {
        match self {
            Self::Open(q) => q.reverse(now, packet, verdicts),
            Self::Shaped(q) => q.reverse(now, packet, verdicts),
        }
    }
    fn release_reverse(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        match self {
            Self::Open(q) => q.release_reverse(now, verdicts),
            Self::Shaped(q) => q.release_reverse(now, verdicts),
        }
    }
    fn next_ready(&self, now: Instant) -> Option<Instant> {
        match self {
            Self::Open(q) => q.next_ready(now),
            Self::Shaped(q) => q.next_ready(now),
        }
    }
    fn next_release(&self, now: Instant) -> Option<Instant> {
        match self {
            Self::Open(q) => q.next_release(now),
            Self::Shaped(q) => q.next_release(now),
        }
    }
    fn backlog(&self) -> Backlog {
        match self {
            Self::Open(q) => q.backlog(),
            Self::Shaped(q) => q.backlog(),
        }
    }
    fn held(&self) -> usize {
        match self {
            Self::Open(q) => q.held(),
            Self::Shaped(q) => q.held(),
        }
    }
    fn report(&mut self, now: Instant) -> Report {
        match self {
            Self::Open(q) => Report { name: "open", ..q.report(now) },
            Self::Shaped(q) => q.report(now),
        }
    }
}
