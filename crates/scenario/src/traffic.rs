//! Traffic of a scenario: who fetches which data, over which transport, and when.

use std::sync::Arc;

use narrows_tcp::Config;
use narrows_units::{Dscp, Duration, Rate};

use crate::calls::CallShape;
use crate::{Size, Web};

/// A group of flows or users that do the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Class in the results: the `name` given, or the kind, with its place in the file if several are of that kind.
    pub name: String,
    /// Index into [`crate::Topology::hosts`] of the hosts that send the data.
    pub from: usize,
    /// Index into [`crate::Topology::hosts`] of the hosts that receive the data. Users are at this end.
    pub to: usize,
    /// User (or flow, or arrival) `u` sits on host `(first + u) % count` of each end's group: entries that share hosts
    /// follow one another.
    pub first: u32,
    /// Index of the earlier entry whose users the entry shares; `None` for users of its own.
    pub beside: Option<usize>,
    /// End that opens the connections.
    pub opened_by: OpenedBy,
    /// Bytes the receiver of the data sends first, zero for none; the data start when they have arrived.
    pub request: u64,
    /// Bytes before each object, which count as payload but not as size.
    pub header: u64,
    /// The codepoint that the traffic's packets bear, both ways, until something on the way writes another.
    pub dscp: Dscp,
    /// TCP at the `from` end.
    pub tcp_from: Config,
    /// TCP at the `to` end.
    pub tcp_to: Config,
    /// Whether queues see UDP in which nothing can be read; the ends remain TCP, so this is not how QUIC behaves.
    pub opaque: bool,
    /// Transport of the data; the simulator has TLS for objects.
    pub transport: Transport,
    /// Settings for real stacks, which only the lab has, and the visits of users who come and go.
    pub web: Web,
    /// QUIC at both ends, for traffic whose transport is QUIC.
    pub quic: narrows_quic::Config,
    /// Time at which the traffic begins.
    pub start: Duration,
    /// Time at which the traffic ends, at most the duration: no new transfers then, endless ones stop.
    pub stop: Duration,
    /// Kind of traffic, with the settings of that kind.
    pub kind: TrafficKind,
}

/// End that opens a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenedBy {
    /// The end that will send the data, as agents in ns-2 do.
    Sender,
    /// The end that wants the data, as browsers do.
    Receiver,
}

/// Transport of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// TCP that anybody on the way can read.
    #[default]
    Tcp,
    /// TLS 1.3 over TCP (RFC 8446).
    Tls,
    /// QUIC (RFC 9000).
    Quic,
    /// TCP-friendly rate control (RFC 5348).
    Tfrc,
}

impl Transport {
    /// Transports in the order of tables.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::Tls, Self::Quic, Self::Tfrc];
    /// Transports that the lab offers.
    pub const IN_LAB: [Self; 3] = [Self::Tcp, Self::Tls, Self::Quic];

    /// Word for the transport in scenario files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Quic => "quic",
            Self::Tfrc => "tfrc",
        }
    }
}

/// Kind of traffic, with the settings of each kind.
#[derive(Clone, Debug, PartialEq)]
pub enum TrafficKind {
    /// Connections that send from start to stop.
    Long {
        /// Number of flows.
        flows: u32,
    },
    /// One connection per file.
    Files {
        /// Number of files in all; `None` for as many as arrive.
        flows: Option<u32>,
        /// Poisson arrivals per second; `None` starts them at random within the jitter.
        arrivals: Option<f64>,
        /// Number of users over whom arrivals are spread in turn; equal to `flows` where there are no arrivals.
        users: u32,
        /// Bytes of each file.
        size: Size,
    },
    /// Closed-loop users: each connection fetches one object after another, a new connection each time.
    Objects {
        /// Number of users, each on a host of its own.
        users: u32,
        /// Parallel connections per user.
        connections: u32,
        /// Mean of the exponential pause between objects; zero for none.
        think: Duration,
        /// Bytes of each object.
        size: Size,
    },
    /// Users, in a closed loop where none go: a page is some objects over parallel connections, a new connection each;
    /// then a pause.
    Pages {
        /// Number of users, each on a host of its own.
        users: u32,
        /// Objects of a page fetched at a time.
        connections: u32,
        /// Number of objects of a page, at least one.
        objects: Size,
        /// Bytes of each object.
        size: Size,
        /// Mean of the exponential pause between pages; zero for none.
        think: Duration,
    },
    /// Keystrokes: small writes with exponential pauses over connections that last.
    Telnet {
        /// Number of connections.
        flows: u32,
        /// Mean pause between writes.
        interval: Duration,
        /// Bytes of a write.
        bytes: u64,
    },
    /// Packets at a constant rate while on.
    Udp {
        /// Number of flows.
        flows: u32,
        /// Rate of one flow while on, IP header included.
        rate: Rate,
        /// Bytes of a packet, IP header included.
        packet: u32,
        /// Mean of the exponential time on; zero with `off` zero: always on.
        on: Duration,
        /// Mean of the exponential time off.
        off: Duration,
    },
    /// Calls: small datagrams at a steady pace, both ways.
    Calls {
        /// Number of calls, each by another user.
        flows: u32,
        /// Packets that both ends send.
        call: CallShape,
    },
    /// Requests from an access log.
    Log {
        /// Source of the requests.
        source: LogSource,
        /// Number of users onto whom the log's clients are folded.
        clients: u32,
        /// Parallel connections per user.
        connections: u32,
        /// Rule for the times of requests.
        timing: LogTiming,
        /// Pause after a connection that failed, before the next attempt.
        retry: Duration,
    },
}

/// Source of the requests of a log.
#[derive(Clone, Debug, PartialEq)]
pub enum LogSource {
    /// A file, with requests in the order of the file.
    File {
        /// Path of the file, as in the scenario.
        path: String,
        /// Requests of the file.
        entries: Arc<[LogEntry]>,
    },
    /// Poisson requests of random sizes by clients of unequal zeal, drawn by the seed.
    Synthetic {
        /// Requests of all clients per second.
        requests: f64,
        /// Number of clients of the log before the clients are folded.
        clients: u32,
        /// Exponent of Zipf's law by which requests fall to clients; zero for equal shares.
        zipf: f64,
        /// Bytes of each reply.
        size: Size,
    },
}

/// A request of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Time since the log's first request.
    pub at: Duration,
    /// Number of the client, in order of appearance.
    pub client: u32,
    /// Bytes of the reply.
    pub bytes: u64,
}

/// Rule for the times at which the requests of a log are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogTiming {
    /// Requests are made at their times, or when a connection of the user is free.
    Recorded,
    /// Requests are made one after another over each connection, whatever the log's times.
    BackToBack,
}

impl Traffic {
    /// Number of hosts that the traffic wants at each end: one for each user, or for each flow.
    #[must_use]
    pub const fn users(&self) -> u32 {
        self.kind.users()
    }

    /// Whether the traffic has datagrams and no connections.
    #[must_use]
    pub const fn is_datagrams(&self) -> bool {
        matches!(self.kind, TrafficKind::Udp { .. } | TrafficKind::Calls { .. })
    }

    /// Word for the kind in scenario files.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        if self.web.browser { "browser" } else { self.kind.word() }
    }

    /// Description of a valid transport, if the simulator cannot carry this traffic over the one chosen; else `None`.
    /// `mtu` is that of the links.
    #[must_use]
    pub fn not_simulated(&self, mtu: u32) -> Option<&'static str> {
        use TrafficKind::{Files, Long, Objects, Pages};
        match self.transport {
            Transport::Tcp => None,
            Transport::Tls if self.opened_by == OpenedBy::Receiver && matches!(self.kind, Objects { .. }) => {
                None
            }
            Transport::Tls => Some(
                "tcp or quic: in the simulator TLS carries objects that the receiver opens; 'narrows lab' has the rest",
            ),
            Transport::Quic
                if !matches!(self.kind, Long { .. } | Files { .. } | Objects { .. } | Pages { .. }) =>
            {
                Some("tcp: QUIC carries long, files, objects and pages")
            }
            Transport::Quic if mtu < u32::from(self.quic.datagram) + 28 => {
                Some("tcp, or an mtu with room for QUIC's least datagram (RFC 9000, section 14)")
            }
            // Nothing is sent again, so nothing that ends can be carried.
            Transport::Tfrc if !matches!(self.kind, Long { .. }) || self.opened_by == OpenedBy::Receiver => {
                Some("tcp: TFRC carries long, which the sender opens")
            }
            Transport::Quic | Transport::Tfrc => None,
        }
    }
}

impl TrafficKind {
    /// Word for the kind in scenario files.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Long { .. } => "long",
            Self::Files { .. } => "files",
            Self::Objects { .. } => "objects",
            Self::Pages { .. } => "pages",
            Self::Telnet { .. } => "telnet",
            Self::Udp { .. } => "udp",
            Self::Calls { .. } => "calls",
            Self::Log { .. } => "log",
        }
    }

    /// Number of users or flows; each wants a host of its own.
    #[must_use]
    pub const fn users(&self) -> u32 {
        match self {
            Self::Long { flows }
            | Self::Telnet { flows, .. }
            | Self::Udp { flows, .. }
            | Self::Calls { flows, .. } => *flows,
            Self::Files { users, .. } | Self::Objects { users, .. } | Self::Pages { users, .. } => *users,
            Self::Log { clients, .. } => *clients,
        }
    }

    /// Connections or flows at a time, at most; for arrivals, that is not bounded by the file and one is counted.
    #[must_use]
    pub const fn parallel(&self) -> u64 {
        match self {
            Self::Objects { users, connections, .. }
            | Self::Pages { users, connections, .. }
            | Self::Log { clients: users, connections, .. } => *users as u64 * *connections as u64,
            Self::Files { flows: Some(n), .. }
            | Self::Long { flows: n }
            | Self::Telnet { flows: n, .. }
            | Self::Udp { flows: n, .. }
            | Self::Calls { flows: n, .. } => *n as u64,
            Self::Files { flows: None, .. } => 1,
        }
    }
}
