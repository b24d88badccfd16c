//! What the box says of itself, as JSON: a mirror of [`narrows_qdisc::Report`] with plain numbers, units in the names.

use std::collections::BTreeMap;

use narrows_qdisc::follow::FollowReport;
use narrows_qdisc::{AdmissionReport, Backlog, ClassReport, Counters, Reason, Report};
use narrows_units::Duration;
use narrows_users::CircuitId;
use serde::{Deserialize, Serialize};

use super::sight::SightJson;

/// The whole box.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of this program.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Seconds since packets are handled.
    pub uptime_s: f64,
    /// What the link is called among several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Interfaces of the users.
    pub lan: String,
    /// Interface of the wide network.
    pub wan: String,
    /// `nfqueue` or `packet`.
    pub backend: String,
    /// Who keeps the rules that lead packets here, as `nftables`; empty with packet sockets.
    #[serde(default)]
    pub rules: String,
    /// Whether the box only looks on.
    pub observe: bool,
    /// From the wide network to the users.
    pub down: DirectionStatus,
    /// From the users to the wide network.
    pub up: DirectionStatus,
    /// Packets that were no IP or contradicted themselves. They went on their way; those longer than their frame were
    /// discarded.
    pub malformed: u64,
    /// Packets that the kernel let through unqueued because the box read too slowly.
    pub unseen: u64,
    /// Packets lost before the box could see them, or that it could not send whole (packet sockets only).
    pub lost: u64,
    /// Packets whose way was gone when their turn came: an interface went down, or would not take them.
    pub gone: u64,
    /// Connections to port 80 that were answered 503 (`http_503`).
    #[serde(default)]
    pub answered_503: u64,
    /// How often traffic has passed by the box because it did not answer.
    #[serde(default)]
    pub bypassed: u64,
    /// Who stalls, and why.
    #[serde(default)]
    pub sight: SightJson,
    /// What is wrong at present, for people: a missing interface, a settings file that was refused.
    pub notices: Vec<String>,
    /// Of a box with several links each of them; what stands beside it is of the whole box then, and no link's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Self>,
}

impl Status {
    /// What the link is called: by its name, or by its interfaces.
    #[must_use]
    pub fn called(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("{}-{}", self.lan, self.wan))
    }

    /// Every link: the box itself where it has one.
    #[must_use]
    pub fn each(&self) -> &[Self] {
        if self.links.is_empty() { std::slice::from_ref(self) } else { &self.links }
    }

    /// The same, to be changed.
    pub fn each_mut(&mut self) -> &mut [Self] {
        if self.links.is_empty() { std::slice::from_mut(self) } else { &mut self.links }
    }
}

/// One direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionStatus {
    /// Rate of the link, as told or as believed; `None` if packets pass at once.
    pub rate_bps: Option<u64>,
    /// The rate that another program has told (`rate_from`), before bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_bps: Option<u64>,
    /// Bytes added to each packet.
    pub overhead: u32,
    /// The discipline as it was asked for.
    pub discipline: String,
    /// What it says.
    pub report: ReportJson,
}

/// [`Report`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportJson {
    /// The discipline's name.
    pub name: String,
    /// Counts since the discipline was made.
    pub counters: CountersJson,
    /// Everything that waits.
    pub backlog: BacklogJson,
    /// Backlog by class.
    pub classes: Vec<ClassJson>,
    /// Flows in each phase.
    pub states: BTreeMap<String, usize>,
    /// Flows known.
    pub flows: usize,
    /// Flows that count for the fair share.
    pub active_flows: usize,
    /// Flows with unrepaired losses that send nothing.
    pub stalled_flows: usize,
    /// The longest such stall at present.
    pub longest_stall_s: f64,
    /// Loss rate over the discipline's window, parts per million.
    pub loss_ppm: u32,
    /// Admission control, if the discipline has it.
    pub admission: Option<AdmissionJson>,
    /// What is thought of the link, where its rate is followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<FollowJson>,
    /// Memory per flow record.
    pub bytes_per_flow: usize,
}

/// [`FollowReport`]: what is thought of a link whose rate is followed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FollowJson {
    /// What the link carries, if anything has told yet.
    pub rate_bps: Option<u64>,
    /// `idle`, `searching`, `following`, `draining`, `silent` or `blind`.
    pub phase: String,
    /// What that means, for people.
    pub why: String,
    /// The shortest round trip behind the box, if one was seen.
    pub base_s: Option<f64>,
    /// How much longer the last took.
    pub late_s: f64,
    /// Bytes under way behind the box.
    pub in_flight_bytes: u64,
    /// How many may be.
    pub window_bytes: u64,
    /// Packets that left again, as they were lost behind the box.
    pub lost: u64,
}

/// [`Counters`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each is the counter of the same name in narrows_qdisc::Counters")]
pub struct CountersJson {
    pub arrived: u64,
    pub arrived_bytes: u64,
    pub sent: u64,
    pub sent_bytes: u64,
    pub goodput_bytes: u64,
    pub dropped: BTreeMap<String, u64>,
    pub dropped_total: u64,
    pub suppressed: u64,
    pub refused: u64,
    pub marked: u64,
    pub clamped: u64,
    pub restamped: u64,
    pub evicted: u64,
}

/// [`Backlog`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the two numbers of a backlog")]
pub struct BacklogJson {
    pub packets: usize,
    pub bytes: u64,
}

/// [`ClassReport`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in narrows_qdisc::ClassReport")]
pub struct ClassJson {
    pub name: String,
    pub backlog: BacklogJson,
    pub flows: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<CountersJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to_packets: Option<u32>,
}

/// [`AdmissionReport`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in narrows_qdisc::AdmissionReport")]
pub struct AdmissionJson {
    pub overloaded: bool,
    pub admitted: usize,
    pub admissions: u64,
    pub waiting: usize,
    pub queue: Vec<WaitingPoolJson>,
    pub wait_p50_s: Option<f64>,
    pub wait_p99_s: Option<f64>,
}

/// A pool that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in narrows_qdisc::WaitingPool")]
pub struct WaitingPoolJson {
    pub pool: String,
    pub position: usize,
    pub waited_s: f64,
    pub expected_s: Option<f64>,
}

impl AdmissionJson {
    /// Writes the names of circuits in place of their numbers.
    pub(crate) fn name_circuits(&mut self, name: impl Fn(CircuitId) -> Option<String>) {
        for waiting in &mut self.queue {
            let number = waiting.pool.strip_prefix("circuit ").and_then(|n| n.parse().ok());
            if let Some(name) = number.and_then(|n| name(CircuitId(n))) {
                waiting.pool = name;
            }
        }
    }
}

impl From<&Report> for ReportJson {
    fn from(r: &Report) -> Self {
        Self {
            name: r.name.to_owned(),
            counters: (&r.counters).into(),
            backlog: r.backlog.into(),
            classes: r.classes.iter().map(ClassJson::from).collect(),
            states: r.states.iter().map(|&(name, n)| (name.to_owned(), n)).collect(),
            flows: r.flows,
            active_flows: r.active_flows,
            stalled_flows: r.stalled_flows,
            longest_stall_s: r.longest_stall.as_secs_f64(),
            loss_ppm: r.loss_ppm,
            admission: r.admission.as_ref().map(AdmissionJson::from),
            follows: r.follows.as_ref().map(FollowJson::from),
            bytes_per_flow: r.bytes_per_flow,
        }
    }
}

impl From<&FollowReport> for FollowJson {
    fn from(f: &FollowReport) -> Self {
        Self {
            rate_bps: f.base.map(|_| f.rate_bps),
            phase: f.phase.name().to_owned(),
            why: f.phase.why().to_owned(),
            base_s: f.base.map(Duration::as_secs_f64),
            late_s: f.late.as_secs_f64(),
            in_flight_bytes: f.in_flight,
            window_bytes: f.window,
            lost: f.lost,
        }
    }
}

impl From<&Counters> for CountersJson {
    fn from(c: &Counters) -> Self {
        Self {
            arrived: c.arrived,
            arrived_bytes: c.arrived_bytes.0,
            sent: c.sent,
            sent_bytes: c.sent_bytes.0,
            goodput_bytes: c.goodput_bytes.0,
            dropped: Reason::ALL.iter().map(|r| (r.name().to_owned(), c.dropped[*r as usize])).collect(),
            dropped_total: c.dropped_total(),
            suppressed: c.suppressed,
            refused: c.refused,
            marked: c.marked,
            clamped: c.clamped,
            restamped: c.restamped,
            evicted: c.evicted,
        }
    }
}

impl From<Backlog> for BacklogJson {
    fn from(b: Backlog) -> Self {
        Self { packets: b.packets, bytes: b.bytes.0 }
    }
}

impl From<&ClassReport> for ClassJson {
    fn from(c: &ClassReport) -> Self {
        Self {
            name: c.name.to_owned(),
            backlog: c.backlog.into(),
            flows: c.flows,
            counters: c.counters.as_ref().map(CountersJson::from),
            share: c.share.map(|s| f64::from(s.0) / 1e6),
            up_to_packets: c.up_to_packets,
        }
    }
}

impl From<&AdmissionReport> for AdmissionJson {
    fn from(d: &AdmissionReport) -> Self {
        let place = |p: &narrows_qdisc::WaitingPool| WaitingPoolJson {
            pool: p.pool.to_string(),
            position: p.position,
            waited_s: p.waited.as_secs_f64(),
            expected_s: p.expected.map(Duration::as_secs_f64),
        };
        Self {
            overloaded: d.overloaded,
            admitted: d.admitted,
            admissions: d.admissions,
            waiting: d.waiting,
            queue: d.queue.iter().map(place).collect(),
            wait_p50_s: d.wait_p50.map(Duration::as_secs_f64),
            wait_p99_s: d.wait_p99.map(Duration::as_secs_f64),
        }
    }
}
