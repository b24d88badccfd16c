//! What an operator asks of the default mode.

use core::any::Any;

use narrows_flow::Tracker;
use narrows_units::{Bytes, Instant};

use super::flow_state::FlowState;
use super::{DefaultMode, load};
use crate::deficit::Place;
use crate::taq::{Common, Config, Mode, follow_report};
use crate::users::CircuitRates;
use crate::{Backlog, ClassReport, Manage, Packet, Report, ShaperConfig};

impl<P: Packet> Manage for DefaultMode<P> {
    fn report(&mut self, now: Instant) -> Report {
        let census = self.tracker.census(now);
        let class = |name, place| {
            let (mut backlog, mut flows) = (Backlog::default(), 0);
            for slot in self.flows.iter().filter(|s| s.turn.place() == place) {
                backlog.packets += slot.queue.packets() as usize;
                backlog.bytes += Bytes(slot.queue.bytes());
                flows += 1;
            }
            ClassReport { name, backlog, flows, ..ClassReport::default() }
        };
        Report {
            name: "taq",
            counters: self.counters.clone(),
            backlog: self.backlog,
            classes: vec![
                ClassReport {
                    name: "control",
                    backlog: Backlog { packets: self.control.len(), bytes: self.control.bytes() },
                    flows: self.control.len(),
                    ..ClassReport::default()
                },
                class("sparse", Place::Sparse),
                class("new", Place::New),
                class("old", Place::Old),
            ],
            loss_ppm: self.loss.rate(now).0,
            admission: self.common.admission.then(|| self.admission.report(now, self.load(now).overloaded)),
            bytes_per_flow: Tracker::BYTES_PER_FLOW + size_of::<FlowState>(),
            ..follow_report(&census)
        }
    }

    fn reconfigure(&mut self, _now: Instant, settings: &dyn Any, link: &ShaperConfig) -> bool {
        let Some(settings) = settings.downcast_ref::<Config>() else { return false };
        let Mode::Default(config) = settings.mode else { return false };
        // Whose the flows are that wait would be another question.
        let (old, new) = (self.common.by_user(), settings.common.by_user());
        if new != old || settings.common.users(link, new) != self.common.users(&self.link, old) {
            return false;
        }
        self.config = config;
        self.common = Common { flows: self.common.flows, ..settings.common };
        self.link = *link;
        self.packet_time = link.rate.time_to_send(Bytes(self.mean_len >> 4));
        self.turns.reconfigure(load::rules(&config, link), self.new_quantum());
        self.admission.reconfigure(load::admission_config(&self.common, &config, link));
        true
    }

    #[cfg(feature = "handover")]
    fn export(&self, now: Instant) -> Option<Vec<u8>> {
        self.knowledge(now)
    }

    #[cfg(feature = "handover")]
    fn import(&mut self, now: Instant, knowledge: &[u8]) -> bool {
        self.learn(now, knowledge)
    }

    fn set_circuit_rates(&mut self, rates: &CircuitRates) {
        if let Some(by) = &mut self.turns.by_user {
            by.users.set_rates(rates.clone());
        }
    }
}
