//! Timeout Aware Queuing: a queue that knows what a loss does to the TCP flow that suffers it.
//!
//! Jay Chen, Lakshmi Subramanian, Janardhan Iyengar, Bryan Ford, "TAQ: Enhancing Fairness and Performance
//! Predictability in Small Packet Regimes", EuroSys 2014. Two sets of rules share the settings ([`Config`]), the flow
//! records of `narrows-flow` and the door: [`paper`] is the published one, [`default`] the best found by measurement.
//! [`Taq`] is either.

pub mod admission;
mod config;
pub mod default;
mod keys;
mod loss;
pub mod paper;
mod pools;

use narrows_flow::{Census, Phase};
use narrows_units::Instant;

pub use config::{Config, FairShare, Mode, Share, Sizes, WaitingSyn};
pub use loss::LossWindow;
pub use pools::PoolId;

use self::default::DefaultMode;
use self::paper::PaperMode;
use crate::{Backlog, Packet, Qdisc, Report, ShaperConfig, Spec, Verdicts};

/// TAQ in one of its modes. The modes differ in size by little, and there is one for each direction of a link.
#[derive(Debug)]
pub enum Taq<P> {
    /// The published rules.
    Paper(Box<PaperMode<P>>),
    /// The rules found by measurement.
    Default(Box<DefaultMode<P>>),
}

impl<P: Packet> Taq<P> {
    /// An empty queue for `link`; `seed` is for hashing.
    #[must_use]
    pub fn new(config: Config, link: ShaperConfig, seed: u64) -> Self {
        match config.mode {
            Mode::Paper => Self::Paper(Box::new(PaperMode::new(config, link, seed))),
            Mode::Default => Self::Default(Box::new(DefaultMode::new(config, link, seed))),
        }
    }
}

macro_rules! either {
    ($taq:expr, $q:ident => $do:expr) => {
        match $taq {
            Taq::Paper($q) => $do,
            Taq::Default($q) => $do,
        }
    };
}

impl<P: Packet> Qdisc<P> for Taq<P> {
    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        either!(self, q => q.enqueue(now, packet, verdicts));
    }
    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        either!(self, q => q.dequeue(now, verdicts))
    }
    fn reverse(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) -> Option<P> {
        either!(self, q => q.reverse(now, packet, verdicts))
    }
    fn release_reverse(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        either!(self, q => q.release_reverse(now, verdicts))
    }
    fn next_ready(&self, now: Instant) -> Option<Instant> {
        either!(self, q => q.next_ready(now))
    }
    fn next_release(&self, now: Instant) -> Option<Instant> {
        either!(self, q => q.next_release(now))
    }
    fn backlog(&self) -> Backlog {
        either!(self, q => q.backlog())
    }
    fn held(&self) -> usize {
        either!(self, q => q.held())
    }
    fn release_all(&mut self, now: Instant) {
        either!(self, q => q.release_all(now));
    }
    /// A change of mode cannot be followed: the modes keep different things of a flow.
    fn reconfigure(&mut self, now: Instant, spec: &Spec, link: &ShaperConfig) -> bool {
        either!(self, q => q.reconfigure(now, spec, link))
    }
    fn report(&mut self, now: Instant) -> Report {
        either!(self, q => q.report(now))
    }
}

/// The part of a report that tells of flows.
fn follow_report(census: &Census) -> Report {
    let phases = Phase::ALL.iter().map(|p| (p.name(), census.by_phase[p.index()]));
    Report {
        states: phases.chain([("no_data_yet", census.unphased), ("not_tcp", census.not_tcp)]).collect(),
        flows: census.flows,
        active_flows: census.active,
        stalled_flows: census.silent,
        longest_stall: census.longest_stall,
        ..Report::default()
    }
}
