//! What is measured: a queue, where it stands, and what traffic it gets.

use serde::{Deserialize, Serialize};

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Those behind `lan`, who ask and acknowledge.
    Users,
    /// Those behind `wan`, who send data.
    Servers,
}

impl Side {
    /// The name of its namespace.
    pub const fn namespace(self) -> &'static str {
        match self {
            Self::Users => "users",
            Self::Servers => "servers",
        }
    }

    /// Who hears.
    pub const fn other(self) -> Self {
        match self {
            Self::Users => Self::Servers,
            Self::Servers => Self::Users,
        }
    }
}

/// How packets get from one interface of the box to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// By the kernel's routing.
    Routed,
    /// By the kernel's bridge.
    Bridged,
    /// By the box alone.
    Apart,
}

/// What queues.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Queue {
    /// Nothing.
    None,
    /// A queue discipline of the kernel.
    Kernel(String),
    /// `narrows run`.
    Box {
        /// As `--backend` has it.
        backend: String,
        /// As `--discipline` has it.
        discipline: String,
    },
}

/// Ours, and the kernel's, that only wait in a row.
pub const DROP_TAIL: &str = "fifo:1000";
pub const DROP_TAIL_KERNEL: &str = "pfifo";

impl Queue {
    /// The plainest queue in the same place.
    pub fn drop_tail(&self) -> Option<Self> {
        match self {
            Self::None => None,
            Self::Kernel(_) => Some(Self::Kernel(DROP_TAIL_KERNEL.to_owned())),
            Self::Box { backend, .. } => {
                Some(Self::Box { backend: backend.clone(), discipline: DROP_TAIL.to_owned() })
            }
        }
    }

    /// Whether a box of ours keeps it.
    pub const fn is_ours(&self) -> bool {
        matches!(self, Self::Box { .. })
    }

    /// Whether it is TAQ, by any back end.
    pub fn is_taq(&self) -> bool {
        matches!(self, Self::Box { discipline, .. } if discipline == "taq")
    }
}

/// How packets meet the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Traffic {
    /// The link is far quicker than what comes: packets go on as soon as they may.
    Passing,
    /// The link is slower: packets wait, and leave one at a time.
    Waiting,
}

impl Traffic {
    /// The rate of the link to the users in Mbit/s, where it matters. A frame of 214 bytes takes 68 µs, more than the
    /// dearest queue needs for it; a burst of 64 waits 4.4 ms at most, less than the 5 ms from which CAKE and CoDel
    /// drop.
    pub const fn down(self) -> Option<u32> {
        match self {
            Self::Passing => None,
            Self::Waiting => Some(25),
        }
    }

    /// The rate of the link from the users in Mbit/s: an acknowledgment takes 66 µs.
    pub const fn up(self) -> Option<u32> {
        match self {
            Self::Passing => None,
            Self::Waiting => Some(8),
        }
    }
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Case {
    /// Where the queue stands.
    pub layer: Layer,
    /// How packets meet it.
    pub traffic: Traffic,
    /// Connections.
    pub flows: u32,
    /// What queues.
    pub queue: Queue,
}

/// What a case cost, in instructions of the guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What was measured.
    pub case: Case,
    /// For each data packet.
    pub data: f64,
    /// For each acknowledgment.
    pub ack: f64,
    /// For each packet, of which two in three carry data.
    pub packet: f64,
}
