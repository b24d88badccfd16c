//! One direction of a box that only looks on (`--observe`): packets pass at once, in the order of arrival and
//! untouched, while a discipline is shown a record of each, so that its tracker can tell flows, phases and silences.
//!
//! The discipline queues nothing here: whatever it takes it gives back at once. So its losses are none, and what it
//! counts as suppressed or refused is what it would have liked to, not what happened.

use std::any::Any;
use std::collections::VecDeque;

use narrows_qdisc::{
    Ahead, Backlog, BoxedDiscipline, Discipline, Manage, Packet, Qdisc, Record, Report, ReversePath,
    ShaperConfig, Verdicts,
};
use narrows_units::Instant;
use narrows_wire::FlowKey;

/// Queue that passes packets at once and shows a discipline a record of each.
pub struct Watch<P> {
    passing: VecDeque<P>,
    backlog: Backlog,
    inner: BoxedDiscipline<Record>,
    ignored: Verdicts<Record>,
}

impl<P: Packet> Watch<P> {
    /// Shows packets to `inner`.
    #[must_use]
    pub fn new(inner: BoxedDiscipline<Record>) -> Self {
        Self { passing: VecDeque::new(), backlog: Backlog::default(), inner, ignored: Vec::new() }
    }

    fn empty_the_shadow(&mut self, now: Instant) {
        while self.inner.dequeue(now, &mut self.ignored).is_some() {}
        if let Some(path) = self.inner.reverse_path_mut() {
            while path.release(now, &mut self.ignored).is_some() {}
        }
        self.ignored.clear();
    }

    fn record(packet: &P) -> Record {
        Record { id: 0, header: *packet.header() }
    }
}

impl<P: Packet> Qdisc<P> for Watch<P> {
    fn coming(&self, flow: &FlowKey, ahead: Ahead) {
        self.inner.coming(flow, ahead);
    }

    fn enqueue(&mut self, now: Instant, packet: P, _verdicts: &mut Verdicts<P>) {
        self.inner.enqueue(now, Self::record(&packet), &mut self.ignored);
        self.empty_the_shadow(now);
        self.backlog.add(packet.len());
        self.passing.push_back(packet);
    }

    fn dequeue(&mut self, now: Instant, _verdicts: &mut Verdicts<P>) -> Option<P> {
        self.empty_the_shadow(now);
        let packet = self.passing.pop_front()?;
        self.backlog.sub(packet.len());
        Some(packet)
    }

    fn next_ready(&self, now: Instant) -> Option<Instant> {
        if self.passing.is_empty() { self.inner.next_ready(now) } else { Some(now) }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

impl<P: Packet> ReversePath<P> for Watch<P> {
    fn behind_others(&mut self) {
        if let Some(path) = self.inner.reverse_path_mut() {
            path.behind_others();
        }
    }

    fn reverse(&mut self, now: Instant, packet: P, _verdicts: &mut Verdicts<P>) -> Option<P> {
        if let Some(path) = self.inner.reverse_path_mut() {
            let _ = path.reverse(now, Self::record(&packet), &mut self.ignored);
        }
        self.empty_the_shadow(now);
        Some(packet)
    }
}

impl<P: Packet> Manage for Watch<P> {
    fn report(&mut self, now: Instant) -> Report {
        self.inner.report(now)
    }

    fn reconfigure(&mut self, now: Instant, settings: &dyn Any, link: &ShaperConfig) -> bool {
        self.inner.reconfigure(now, settings, link)
    }

    // Circuits have no rates here: nobody is held to one.
    narrows_qdisc::forward!(inner: export, import);
}

impl<P: Packet> Discipline<P> for Watch<P> {
    fn reverse_path(&self) -> Option<&dyn ReversePath<P>> {
        Some(self)
    }

    fn reverse_path_mut(&mut self) -> Option<&mut dyn ReversePath<P>> {
        Some(self)
    }
}
