//! Cases to measure: a queue, the place where it stands, and the traffic it gets.

use serde::{Deserialize, Serialize};

/// Side of the box on which a sender is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Hosts behind `lan`, which request and acknowledge.
    Users,
    /// Hosts behind `wan`, which send data.
    Servers,
}

impl Side {
    /// Name of the side's network namespace.
    pub const fn namespace(self) -> &'static str {
        match self {
            Self::Users => "users",
            Self::Servers => "servers",
        }
    }

    /// The opposite side.
    pub const fn other(self) -> Self {
        match self {
            Self::Users => Self::Servers,
            Self::Servers => Self::Users,
        }
    }
}

/// Way of packets from one interface of the box to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// The kernel's routing joins the interfaces.
    Routed,
    /// The kernel's bridge joins the interfaces.
    Bridged,
    /// The box alone joins the interfaces.
    Apart,
}

/// Queue between the two sides: none, the kernel's, or the box's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Queue {
    /// No queue.
    None,
    /// A queue discipline of the kernel.
    Kernel(String),
    /// `narrows run`.
    Box {
        /// Value of `--backend`.
        backend: String,
        /// Value of `--discipline`.
        discipline: String,
    },
}

/// Plain queues, ours and the kernel's.
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

    /// Whether the queue is in a box of ours.
    pub const fn is_ours(&self) -> bool {
        matches!(self, Self::Box { .. })
    }

    /// Whether the queue is TAQ in a box of ours, with any back end.
    pub fn is_taq(&self) -> bool {
        matches!(self, Self::Box { discipline, .. } if discipline == "taq")
    }
}

/// Load of the queue.
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
    /// Place of the queue.
    pub layer: Layer,
    /// Load of the queue.
    pub traffic: Traffic,
    /// Number of connections.
    pub flows: u32,
    /// Queue that is measured.
    pub queue: Queue,
}

/// Cost of a case, in instructions of the guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Case that was measured.
    pub case: Case,
    /// Instructions per data packet.
    pub data: f64,
    /// Instructions per acknowledgment.
    pub ack: f64,
    /// Instructions per packet, of which two in three carry data.
    pub packet: f64,
}
