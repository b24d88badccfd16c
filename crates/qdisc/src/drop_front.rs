//! A full queue loses the packet that has waited longest, not the one that comes.
use core::any::Any;
use std::collections::VecDeque;
use crate::keys::keys;
use crate::{Backlog, BoxedDiscipline, Counters, Discipline, DisciplineSettings, Limits, Manage, Packet, Qdisc,
    Reason, Report, Settings, ShaperConfig, Verdicts};
use narrows_units::Instant;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config { limit: u32 }
impl Default for Config {
    fn default() -> Self { Self { limit: 30 } }
}
keys! { Config; limit: Number(1, 1_000_000), "most packets that wait at once"; }
impl Settings for Config {
    const NAME: &'static str = "drop_front";
    const BARE: &'static str = "limit";
}

impl DisciplineSettings for Config {
    fn limits(&self, _: &ShaperConfig) -> Limits { Limits { packets: self.limit as usize, flows: 0 } }
    fn build<P: Packet + Send + 'static>(&self, _: &ShaperConfig, _: u64) -> BoxedDiscipline<P> {
        let (backlog, counters) = (Backlog::default(), Counters::default());
        Box::new(DropFront { config: *self, queue: VecDeque::new(), backlog, counters })
    }
}

struct DropFront<P> { config: Config, queue: VecDeque<P>, backlog: Backlog, counters: Counters }
impl<P: Packet> Qdisc<P> for DropFront<P> {
    fn enqueue(&mut self, _: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        self.counters.arrive(packet.len());
        if self.queue.len() >= self.config.limit as usize && let Some(packet) = self.queue.pop_front() {
            self.backlog.sub(packet.len());
            self.counters.drop_packet(packet, Reason::PushedOut, verdicts);
        }
        self.backlog.add(packet.len());
        self.queue.push_back(packet);
    }
    fn dequeue(&mut self, _: Instant, _: &mut Verdicts<P>) -> Option<P> {
        let packet = self.queue.pop_front()?;
        self.backlog.sub(packet.len());
        self.counters.send(packet.len());
        Some(packet)
    }
    fn next_ready(&self, now: Instant) -> Option<Instant> { (!self.queue.is_empty()).then_some(now) }
    fn backlog(&self) -> Backlog { self.backlog }
}

impl<P: Packet> Manage for DropFront<P> {
    fn report(&mut self, _: Instant) -> Report {
        let counters = self.counters.clone();
        Report { name: Config::NAME.into(), counters, backlog: self.backlog, ..Report::default() }
    }
    fn reconfigure(&mut self, _: Instant, settings: &dyn Any, _: &ShaperConfig) -> bool {
        settings.downcast_ref::<Config>().map(|config| self.config = *config).is_some()
    }
}

impl<P: Packet> Discipline<P> for DropFront<P> {}
