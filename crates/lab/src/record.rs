//! Records that one run leaves, before figures are made of them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::worker::{ClientResult, Cost, EmulatorResult, ServerResult, UploadRecord};

/// Everything one run gave.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunRecord {
    /// Discipline in the box.
    pub discipline: String,
    /// The seed of sizes, starts and losses.
    pub seed: u64,
    /// Records of the users.
    pub client: ClientResult,
    /// Packets and delays of each call.
    #[serde(default)]
    pub calls: Vec<CallRecord>,
    /// Cost of each group's way of fetching on the idle link; `None` where it could not be measured.
    #[serde(default)]
    pub costs: Vec<Option<Cost>>,
    /// Payload of users who send.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uploads: Vec<UploadRecord>,
    /// Counters of the server's kernel.
    pub server: ServerResult,
    /// Result of the emulated link.
    pub emulator: EmulatorResult,
    /// Last status of the box, as the box wrote the status.
    pub status: Value,
    /// The box's status once a second, without what repeats: see [`sample`](crate::run::sample).
    pub samples: Vec<Value>,
    /// Once a second, how long a thread of the box waited for a CPU on average when it had something to do, in
    /// milliseconds: the box's own lateness.
    pub box_waits_ms: Vec<f64>,
    /// CPU seconds used by the box; `None` if the box is no process of its own.
    pub cpu_s: Option<f64>,
}

/// One call.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CallRecord {
    /// Number of the user by the address.
    pub user: u32,
    /// Packets to the user.
    pub down: CallLeg,
    /// Packets from the user.
    pub up: CallLeg,
}

/// One way of a call: packets sent after the warm-up and a second before the end or earlier.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CallLeg {
    /// Number of packets.
    pub sent: u64,
    /// Delay of each packet that arrived, beyond propagation, in milliseconds and the order of arrival.
    pub added_ms: Vec<f64>,
    /// Interarrival jitter (RFC 3550), its mean over packets; `None` of fewer than two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_s: Option<f64>,
}
