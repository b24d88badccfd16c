//! A boxed discipline is a discipline.

use core::any::Any;

use narrows_units::Instant;
use narrows_wire::FlowKey;

use crate::follow::Decision;
use crate::users::CircuitRates;
use crate::{Ahead, Backlog, Discipline, Manage, Packet, Qdisc, Report, ReversePath, ShaperConfig, Verdicts};

impl<P: Packet, Q: Qdisc<P> + ?Sized> Qdisc<P> for Box<Q> {
    fn coming(&self, flow: &FlowKey, ahead: Ahead) {
        (**self).coming(flow, ahead);
    }
    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        (**self).enqueue(now, packet, verdicts);
    }
    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        (**self).dequeue(now, verdicts)
    }
    fn next_ready(&self, now: Instant) -> Option<Instant> {
        (**self).next_ready(now)
    }
    fn backlog(&self) -> Backlog {
        (**self).backlog()
    }
}

impl<M: Manage + ?Sized> Manage for Box<M> {
    fn report(&mut self, now: Instant) -> Report {
        (**self).report(now)
    }
    fn reconfigure(&mut self, now: Instant, settings: &dyn Any, link: &ShaperConfig) -> bool {
        (**self).reconfigure(now, settings, link)
    }
    fn export(&self, now: Instant) -> Option<Vec<u8>> {
        (**self).export(now)
    }
    fn import(&mut self, now: Instant, knowledge: &[u8]) -> bool {
        (**self).import(now, knowledge)
    }
    fn set_circuit_rates(&mut self, rates: &CircuitRates) {
        (**self).set_circuit_rates(rates);
    }
    fn record_decisions(&mut self, record: bool) {
        (**self).record_decisions(record);
    }
    fn next_decision(&mut self) -> Option<Decision> {
        (**self).next_decision()
    }
    fn decisions_lost(&self) -> u64 {
        (**self).decisions_lost()
    }
}

impl<P: Packet, Q: Discipline<P> + ?Sized> Discipline<P> for Box<Q> {
    fn reverse_path(&self) -> Option<&dyn ReversePath<P>> {
        (**self).reverse_path()
    }
    fn reverse_path_mut(&mut self) -> Option<&mut dyn ReversePath<P>> {
        (**self).reverse_path_mut()
    }
}
