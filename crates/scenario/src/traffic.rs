//! Who asks for what.

use std::sync::Arc;

use narrows_tcp::Config;
use narrows_units::{Dscp, Duration, Rate};

use crate::calls::CallShape;
use crate::{Size, Web};

/// A group of flows or users that do the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Its class in the results: the `name` given, or the kind, with its place in the file if several are of that kind.
    pub name: String,
    /// Index into [`crate::Topology::hosts`]: who sends the data.
    pub from: usize,
    /// Index into [`crate::Topology::hosts`]: who receives it. Users are at this end.
    pub to: usize,
    /// User (or flow, or arrival) `u` sits on host `(first + u) % count` of each end's group: entries that share hosts
    /// follow one another.
    pub first: u32,
    /// Index of the earlier entry whose users these are; `None` for users of its own.
    pub beside: Option<usize>,
    /// Who sends the SYN.
    pub opened_by: OpenedBy,
    /// Bytes the receiver of the data sends first, zero for none; the data start when they have arrived.
    pub request: u64,
    /// Bytes before each object, which count as payload but not as size.
    pub header: u64,
    /// The codepoint its packets bear, both ways, until something on the way writes another.
    pub dscp: Dscp,
    /// TCP at the `from` end.
    pub tcp_from: Config,
    /// TCP at the `to` end.
    pub tcp_to: Config,
    /// Whether queues see UDP in which nothing can be read; the ends remain TCP, so this is not how QUIC behaves.
    pub opaque: bool,
    /// What carries the data; the simulator has no TLS.
    pub transport: Transport,
    /// What only the lab's users do.
    pub web: Web,
    /// QUIC at both ends, where that carries it.
    pub quic: narrows_quic::Config,
    /// When it begins.
    pub start: Duration,
    /// When it ends, at most the duration: no new transfers then, endless ones stop.
    pub stop: Duration,
    /// What they do.
    pub kind: TrafficKind,
}

/// Who opens a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenedBy {
    /// The end that will send the data, as agents in ns-2 do.
    Sender,
    /// The end that wants the data, as browsers do.
    Receiver,
}

/// What carries a transfer.
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
    /// All, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::Tls, Self::Quic, Self::Tfrc];
    /// Those of the lab.
    pub const IN_LAB: [Self; 3] = [Self::Tcp, Self::Tls, Self::Quic];

    /// As scenario files call it.
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

/// What a group does.
#[derive(Clone, Debug, PartialEq)]
pub enum TrafficKind {
    /// Connections that send from start to stop.
    Long {
        /// How many.
        flows: u32,
    },
    /// One connection per file.
    Files {
        /// How many in all; `None` for as many as arrive.
        flows: Option<u32>,
        /// Poisson arrivals per second; `None` starts them at random within the jitter.
        arrivals: Option<f64>,
        /// Over how many users arrivals are spread in turn; equal to `flows` where there are no arrivals.
        users: u32,
        /// Bytes of each.
        size: Size,
    },
    /// Closed-loop users: each connection fetches one object after another, a new connection each time.
    Objects {
        /// How many users, each on a host of its own.
        users: u32,
        /// Parallel connections per user.
        connections: u32,
        /// Mean of the exponential pause between objects; zero for none.
        think: Duration,
        /// Bytes of each.
        size: Size,
    },
    /// Users, in a closed loop where none go: a page is some objects over parallel connections, a new connection each;
    /// then a pause.
    Pages {
        /// How many users, each on a host of its own.
        users: u32,
        /// Objects of a page fetched at a time.
        connections: u32,
        /// How many objects a page has, at least one.
        objects: Size,
        /// Bytes of each object.
        size: Size,
        /// Mean of the exponential pause between pages; zero for none.
        think: Duration,
    },
    /// Keystrokes: small writes with exponential pauses over connections that last.
    Telnet {
        /// How many connections.
        flows: u32,
        /// Mean pause between writes.
        interval: Duration,
        /// Bytes of a write.
        bytes: u64,
    },
    /// Packets at a constant rate while on.
    Udp {
        /// How many flows.
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
        /// How many, each by another user.
        flows: u32,
        /// Packets that both ends send.
        call: CallShape,
    },
    /// Requests from an access log.
    Log {
        /// Where the requests come from.
        source: LogSource,
        /// How many users the log's clients are folded onto.
        clients: u32,
        /// Parallel connections per user.
        connections: u32,
        /// When a request is made.
        timing: LogTiming,
        /// How long a connection that failed waits before it tries again.
        retry: Duration,
    },
}

/// Where the requests of a log come from.
#[derive(Clone, Debug, PartialEq)]
pub enum LogSource {
    /// A file, in its order.
    File {
        /// As the scenario names it.
        path: String,
        /// Its requests.
        entries: Arc<[LogEntry]>,
    },
    /// Poisson requests of random sizes by clients of unequal zeal, drawn by the seed.
    Synthetic {
        /// Requests of all clients per second.
        requests: f64,
        /// How many clients the log has before they are folded.
        clients: u32,
        /// Exponent of Zipf's law by which requests fall to clients; zero for equal shares.
        zipf: f64,
        /// Bytes of each.
        size: Size,
    },
}

/// A request of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Since the log's first request.
    pub at: Duration,
    /// Which client, numbered in order of appearance.
    pub client: u32,
    /// Bytes of the reply.
    pub bytes: u64,
}

/// When the requests of a log are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogTiming {
    /// At their times, or when a connection of the user is free.
    Recorded,
    /// One after another over each connection, whatever the log's times.
    BackToBack,
}

impl Traffic {
    /// How many hosts it would like at each end: one for each user, or for each flow.
    #[must_use]
    pub const fn users(&self) -> u32 {
        self.kind.users()
    }

    /// Whether it has no connections.
    #[must_use]
    pub const fn is_datagrams(&self) -> bool {
        matches!(self.kind, TrafficKind::Udp { .. } | TrafficKind::Calls { .. })
    }

    /// Its kind, as the file calls it.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        if self.web.browser { "browser" } else { self.kind.word() }
    }

    /// What would be in the place of a transport that the simulator has not, or not for this; `mtu` is the links'.
    #[must_use]
    pub fn not_simulated(&self, mtu: u32) -> Option<&'static str> {
        use TrafficKind::{Files, Long, Objects, Pages};
        match self.transport {
            Transport::Tcp => None,
            Transport::Tls => Some("tcp or quic: only the lab has TLS; opaque = true hides TCP from queues"),
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
    /// As the file calls it.
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

    /// One for each user, or for each flow.
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
