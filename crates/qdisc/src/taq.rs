//! Timeout Aware Queuing: a queue that knows what a loss does to the TCP flow that suffers it.
//!
//! Jay Chen, Lakshmi Subramanian, Janardhan Iyengar, Bryan Ford, "TAQ: Enhancing Fairness and Performance
//! Predictability in Small Packet Regimes", EuroSys 2014. Two sets of rules share the settings ([`Config`]), the flow
//! records of `narrows-flow` and admission control: [`paper`] is the published one, [`default`] the best found by
//! measurement.

pub mod admission;
mod config;
pub mod default;
mod keys;
mod loss;
pub mod paper;
mod pools;

use narrows_flow::{Census, Phase};

pub use config::{
    Codepoints, Common, Config, DefaultConfig, Dimensions, FairShare, Mode, PaperConfig, Share, Trust,
    WaitingSyn,
};
pub use loss::LossWindow;
pub use pools::PoolId;

use self::default::DefaultMode;
use self::paper::PaperMode;
use crate::{BoxedDiscipline, DisciplineSettings, Limits, Packet, Report, ShaperConfig};

impl DisciplineSettings for Config {
    fn limits(&self, link: &ShaperConfig) -> Limits {
        let packets = match &self.mode {
            Mode::Paper(config) => {
                // The recovery queue may exceed the buffer by a quarter.
                let buffer = config.sizes(link).buffer;
                buffer + buffer.div_ceil(4)
            }
            Mode::Default(config) => config.memory_packets as usize,
        };
        Limits { packets, flows: self.common.flows as usize }
    }

    fn build<P: Packet + Send + 'static>(&self, link: &ShaperConfig, seed: u64) -> BoxedDiscipline<P> {
        match self.mode {
            Mode::Paper(config) => Box::new(PaperMode::new(self.common, config, *link, seed)),
            Mode::Default(config) => Box::new(DefaultMode::new(self.common, config, *link, seed)),
        }
    }
}

/// The part of a report that tells of flows.
fn follow_report(census: &Census) -> Report {
    let phases = Phase::ALL.iter().map(|p| (p.name().into(), census.by_phase[p.index()]));
    Report {
        states: phases
            .chain([("no_data_yet".into(), census.unphased), ("not_tcp".into(), census.not_tcp)])
            .collect(),
        flows: census.flows,
        active_flows: census.active,
        stalled_flows: census.silent,
        longest_stall: census.longest_stall,
        ..Report::default()
    }
}
