//! Questions of an operator to the default mode.

use core::any::Any;

use narrows_flow::Tracker;
use narrows_units::{Bytes, Instant};

#[cfg(feature = "handover")]
use super::handover;
use super::queues::FlowState;
use super::turns::Rules;
use super::{DefaultMode, load};
use crate::deficit::Place;
use crate::taq::{Common, Config, Mode, follow_report};
use crate::users::CircuitRates;
use crate::{Backlog, ClassReport, Manage, Packet, Report, ShaperConfig};

impl<P: Packet> Manage for DefaultMode<P> {
    fn report(&mut self, now: Instant) -> Report {
        let census = self.queues.tracker_mut().census(now);
        let class = |name: &'static str, place| {
            let (mut backlog, mut flows) = (Backlog::default(), 0);
            for state in self.queues.states().filter(|state| state.turn.place() == place) {
                backlog.packets += state.waiting() as usize;
                backlog.bytes += Bytes(state.bytes());
                flows += 1;
            }
            ClassReport { name: name.into(), backlog, flows, ..ClassReport::default() }
        };
        Report {
            name: "taq".into(),
            counters: self.counters.clone(),
            backlog: self.queues.backlog(),
            classes: vec![
                ClassReport {
                    name: "control".into(),
                    backlog: self.queues.control(),
                    flows: self.queues.control().packets,
                    ..ClassReport::default()
                },
                ClassReport {
                    name: "expedited".into(),
                    flows: self.expedited.users(now),
                    counters: Some(self.expedited.counters().clone()),
                    share: Some(self.config.expedited_share),
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
        // Another rule would give the flows that wait to other users.
        let (old, new) = (self.common.by_user(), settings.common.by_user());
        if new != old || settings.common.users(link, new) != self.common.users(&self.link, old) {
            return false;
        }
        self.config = config;
        self.common = Common { flows: self.common.flows, ..settings.common };
        self.link = *link;
        self.queues.reconfigure(Rules::new(&self.common, &config, link));
        self.admission.reconfigure(load::admission_config(&self.common, &config, link));
        true
    }

    #[cfg(feature = "handover")]
    fn export(&self, now: Instant) -> Option<Vec<u8>> {
        handover::knowledge(self, now)
    }

    #[cfg(feature = "handover")]
    fn import(&mut self, now: Instant, knowledge: &[u8]) -> bool {
        handover::learn(self, now, knowledge)
    }

    fn set_circuit_rates(&mut self, rates: &CircuitRates) {
        self.queues.turns_mut().set_rates(rates);
    }
}
