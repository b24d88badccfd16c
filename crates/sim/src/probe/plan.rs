//! Plan of a run's measurements, read from the scenario.

use crate::ids::LinkId;
use narrows_scenario::calls::LAST;
use narrows_scenario::{Group, Scenario, Series};
use narrows_units::{Duration, Instant, Rate};

/// A link whose queue and load are reported.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) name: String,
    /// Place of the link in the network.
    pub(crate) link: LinkId,
    pub(crate) rate: Rate,
}

/// Plan of the measurements of one world.
#[derive(Clone, Debug)]
pub(crate) struct ProbePlan {
    /// Time at which counting begins.
    pub(crate) warmup: Instant,
    /// Packets of calls count that are sent before.
    pub(crate) calls_until: Instant,
    /// Length of a slice.
    pub(crate) slice: Duration,
    /// Length of an epoch, if epochs are wanted.
    pub(crate) epoch: Option<Duration>,
    /// Whether the lost segments of each object are recorded.
    pub(crate) bursts: bool,
    /// Whether each timeout, fast retransmit and probe is wanted.
    pub(crate) repairs: bool,
    /// Whether decisions of shapers that follow their link are wanted.
    pub(crate) decisions: bool,
    /// Connections whose senders are logged as qlog.
    pub(crate) qlog: usize,
    /// Time between two samples of the series.
    pub(crate) interval: Duration,
    /// Series to sample.
    pub(crate) series: Vec<Series>,
    /// Lengths from which on a user's stall is counted.
    pub(crate) stalls: Vec<Duration>,
    /// Names of the classes, in the classes' order.
    pub(crate) classes: Vec<String>,
    /// Links to report.
    pub(crate) links: Vec<Watched>,
    /// Links to capture, by place in [`ProbePlan::links`].
    pub(crate) capture: Vec<usize>,
    /// Payload of a full packet of the first class, bytes.
    pub(crate) mss: u32,
    /// Groups of objects with figures of each group's own.
    pub(crate) groups: Vec<Group>,
}

/// Samples a series has at most; with more the interval is widened.
const MOST_SAMPLES: u64 = 1 << 20;

impl Default for ProbePlan {
    fn default() -> Self {
        Self {
            warmup: Instant::ZERO,
            calls_until: Instant::FAR_FUTURE,
            slice: Duration::from_secs(20),
            epoch: None,
            bursts: false,
            repairs: false,
            decisions: false,
            qlog: 0,
            interval: Duration::from_secs(1),
            series: Vec::new(),
            stalls: Vec::new(),
            classes: Vec::new(),
            links: Vec::new(),
            capture: Vec::new(),
            mss: 1460,
            groups: Vec::new(),
        }
    }
}

impl ProbePlan {
    /// Reads the plan from `scenario`. Links of the world are numbered as those of the scenario.
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let links = (0..).zip(&scenario.topology.links);
        let fewest = scenario.duration.as_nanos() / MOST_SAMPLES;
        Self {
            warmup: Instant::ZERO + scenario.warmup,
            calls_until: Instant::ZERO + scenario.duration.saturating_sub(LAST),
            slice: scenario.probes.slice,
            epoch: scenario.probes.epochs,
            bursts: scenario.probes.bursts,
            repairs: scenario.probes.repairs,
            decisions: scenario.probes.decisions,
            qlog: scenario.probes.qlog,
            interval: scenario.probes.interval.max(Duration::from_nanos(fewest)),
            series: scenario.probes.series.clone(),
            stalls: scenario.probes.stalls.clone(),
            classes: scenario.traffic.iter().map(|t| t.name.clone()).collect(),
            links: links
                .map(|(link, l)| Watched { name: l.name.clone(), link: LinkId(link), rate: l.rate })
                .collect(),
            capture: scenario.probes.capture.clone(),
            mss: scenario.traffic.first().map_or(1460, |t| t.tcp_from.mss),
            groups: scenario.probes.groups.clone(),
        }
    }

    /// Whether a series is wanted.
    pub(crate) fn wants(&self, series: Series) -> bool {
        self.series.contains(&series)
    }

    /// The slowest link, the first listed among equals: the one the summary tells of.
    pub(crate) fn bottleneck(&self) -> Option<usize> {
        (0..self.links.len()).min_by_key(|i| self.links[*i].rate)
    }
}
