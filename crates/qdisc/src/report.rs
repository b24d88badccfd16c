//! State of a discipline as plain data, of which tables, JSON and pages are made elsewhere.
//!
//! With the feature `serde` the types write and read themselves: times in seconds, shares from 0 to 1, and drops by the
//! name of their reason.

#[cfg(feature = "serde")]
pub(crate) mod json;

use std::borrow::Cow;
use std::collections::BTreeMap;

use narrows_units::{Bytes, Duration};

use crate::follow::FollowReport;
use crate::{Backlog, Ppm, Reason};

/// Counts since the discipline was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Counters {
    /// Packets that arrived to be queued.
    pub arrived: u64,
    /// Bytes that arrived.
    pub arrived_bytes: Bytes,
    /// Packets sent.
    pub sent: u64,
    /// Bytes that were sent.
    pub sent_bytes: Bytes,
    /// TCP and UDP payload bytes sent that were not retransmissions, where the discipline can tell; else zero.
    pub goodput_bytes: Bytes,
    /// Packets dropped, by [`Reason`] in the order of [`Reason::ALL`].
    #[cfg_attr(feature = "serde", serde(flatten, with = "json::drops"))]
    pub dropped: [u64; Reason::ALL.len()],
    /// Superfluous copies discarded.
    pub suppressed: u64,
    /// SYNs refused by admission control.
    pub refused: u64,
    /// Packets marked instead of dropped.
    pub marked: u64,
    /// Acknowledgments whose window was clamped.
    pub clamped: u64,
    /// Packets whose TSval was rewritten.
    pub restamped: u64,
    /// Flow records evicted while still in use, because the table was full.
    pub evicted: u64,
}

impl Counters {
    /// Counts the arrival of a packet of `len` bytes.
    pub fn arrive(&mut self, len: Bytes) {
        self.arrived += 1;
        self.arrived_bytes += len;
    }
    /// Counts the departure of a packet of `len` bytes.
    pub fn send(&mut self, len: Bytes) {
        self.sent += 1;
        self.sent_bytes += len;
    }
    /// Counts a drop.
    pub fn drop_for(&mut self, reason: Reason) {
        self.dropped[reason as usize] += 1;
    }
    /// Number of all drops, for whatever reason.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }
}

/// Report of a class (queue) of a discipline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ClassReport {
    /// Name of the class, as `recovery` or `new`.
    pub name: Cow<'static, str>,
    /// Backlog of the class.
    pub backlog: Backlog,
    /// Number of flows with packets in the class.
    pub flows: usize,
    /// Counts of the class; `None` if the class keeps none.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub counters: Option<Counters>,
    /// Share of the link that the class has, if it has a fixed one or one that sets itself.
    #[cfg_attr(
        feature = "serde",
        serde(default, skip_serializing_if = "Option::is_none", with = "json::share")
    )]
    pub share: Option<Ppm>,
    /// Most packets of data that a flow of the class has, if that is what makes the class.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub up_to_packets: Option<u32>,
}

/// A pool in the wait queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WaitingPool {
    /// The user: an address, a prefix or a circuit.
    pub pool: String,
    /// Position, from 1.
    pub position: usize,
    /// Time that the pool has waited.
    #[cfg_attr(feature = "serde", serde(rename = "waited_s", with = "json::seconds"))]
    pub waited: Duration,
    /// Time that the pool will still wait, as far as can be told from the recent pace of admissions.
    #[cfg_attr(feature = "serde", serde(rename = "expected_s", with = "json::maybe_seconds"))]
    pub expected: Option<Duration>,
}

/// Admission control: who is admitted, who waits, how long it took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AdmissionReport {
    /// Whether new pools have to wait at present.
    pub overloaded: bool,
    /// Pools admitted now.
    pub admitted: usize,
    /// Pools admitted so far.
    pub admissions: u64,
    /// Pools waiting.
    pub waiting: usize,
    /// The first pools that wait (at most 100), in the order of the queue.
    pub queue: Vec<WaitingPool>,
    /// Waits of recently admitted pools that had to wait: median.
    #[cfg_attr(feature = "serde", serde(rename = "wait_p50_s", with = "json::maybe_seconds"))]
    pub wait_p50: Option<Duration>,
    /// 99th percentile.
    #[cfg_attr(feature = "serde", serde(rename = "wait_p99_s", with = "json::maybe_seconds"))]
    pub wait_p99: Option<Duration>,
}

/// A discipline's state at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Report {
    /// The discipline's name, as `taq` or `fifo`.
    pub name: Cow<'static, str>,
    /// Counts since the start.
    pub counters: Counters,
    /// Packets and bytes that wait.
    pub backlog: Backlog,
    /// Backlog by class.
    pub classes: Vec<ClassReport>,
    /// Flows in each phase, by name; empty if the discipline does not follow flows.
    pub states: BTreeMap<Cow<'static, str>, usize>,
    /// Flows the discipline knows of.
    pub flows: usize,
    /// Flows that count for the fair share.
    pub active_flows: usize,
    /// Flows with unrepaired losses that send nothing.
    pub stalled_flows: usize,
    /// The longest stall of a stalled flow at present.
    #[cfg_attr(feature = "serde", serde(rename = "longest_stall_s", with = "json::seconds"))]
    pub longest_stall: Duration,
    /// Loss rate over the discipline's window, in parts per million.
    pub loss_ppm: u32,
    /// Admission control; `None` for a discipline without admission control.
    pub admission: Option<AdmissionReport>,
    /// Estimate of the link, for a discipline that follows the link's rate.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub follows: Option<FollowReport>,
    /// Bytes of memory per flow record, all parts together.
    pub bytes_per_flow: usize,
}
