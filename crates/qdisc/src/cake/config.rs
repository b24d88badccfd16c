//! The settings.

use narrows_units::Duration;

use super::Cake;
use super::ways::WAYS;
use crate::codel::{INTERVALS, TARGETS, check_times};
use crate::drr::check_quantum;
use crate::keys::{choices, keys};
use crate::{BoxedDiscipline, DisciplineSettings, Limits, Packet, SettingError, Settings, ShaperConfig};

/// Hosts whose flows share a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolate {
    /// Flows of a source and flows of a destination, whichever are more.
    #[default]
    Triple,
    /// Flows of a source.
    DualSrc,
    /// Flows of a destination.
    DualDst,
    /// No hosts: each flow has a turn of its own.
    Flows,
}
choices!(Isolate: "triple" => Triple, "dual_src" => DualSrc, "dual_dst" => DualDst, "flows" => Flows);

/// Treatment of superfluous acknowledgments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckFilter {
    /// All stay.
    #[default]
    Off,
    /// The oldest goes if another superfluous one stays.
    On,
    /// The oldest goes.
    Aggressive,
}
choices!(AckFilter: "off" => Off, "on" => On, "aggressive" => Aggressive);

/// Settings. Fields are named as their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CakeConfig {
    /// The most packets that wait.
    pub limit: u32,
    /// Queues, in sets of eight.
    pub flows: u32,
    /// Bytes of a turn; 0: by the rate.
    pub quantum: u32,
    /// Acceptable standing delay.
    pub target: Duration,
    /// Time that the delay may stay above `target`.
    pub interval: Duration,
    /// Hosts whose flows share a turn.
    pub isolate: Isolate,
    /// Treatment of superfluous acknowledgments.
    pub ack_filter: AckFilter,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

impl Default for CakeConfig {
    fn default() -> Self {
        Self {
            limit: 10_240,
            flows: 1024,
            quantum: 0,
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            isolate: Isolate::Triple,
            ack_filter: AckFilter::Off,
            ecn: true,
        }
    }
}

keys! {
    CakeConfig;
    limit: Number(1, 1_000_000), "most packets that wait at once";
    flows: Number(8, 65_536), "number of queues, a multiple of eight";
    quantum: Number(0, 65_535),
        "bytes of a turn, on the link, at least 256; 0: as many as the link sends in 1/4096 s, from 300 to 1514";
    target: Time(TARGETS.0, TARGETS.1), "acceptable standing delay; at least one and a half packets' time on the link";
    interval: Time(INTERVALS.0, INTERVALS.1), "time that the delay may stay above `target`; grows with `target`";
    isolate: Choice(), "hosts whose flows share a turn: source and destination, one of the two, or none";
    ack_filter: Choice(),
        "suppress all but one (`on`), or all (`aggressive`), of a flow's superfluous acknowledgments";
    ecn: Choice(), "mark ECN-capable packets instead of dropping them";
}

impl Settings for CakeConfig {
    const NAME: &'static str = "cake";
    const BARE: &'static str = "limit";

    fn check(&self) -> Result<(), SettingError> {
        if !(self.flows as usize).is_multiple_of(WAYS) {
            return Err(SettingError::new("flows", self.flows.to_string(), format!("a multiple of {WAYS}")));
        }
        check_quantum(self.quantum, "one by the rate")?;
        check_times(self.target, self.interval)
    }
}

impl DisciplineSettings for CakeConfig {
    fn limits(&self, _link: &ShaperConfig) -> Limits {
        Limits { packets: self.limit as usize, flows: self.flows as usize }
    }

    fn build<P: Packet + Send + 'static>(&self, link: &ShaperConfig, seed: u64) -> BoxedDiscipline<P> {
        Box::new(Cake::new(*self, *link, seed))
    }
}

impl CakeConfig {
    /// Bytes of a turn on `link`.
    pub(super) fn quantum(&self, link: &ShaperConfig) -> u32 {
        match self.quantum {
            0 => (link.rate.as_bps() / 8 / 4096).clamp(300, 1514) as u32,
            n => n,
        }
    }
}
