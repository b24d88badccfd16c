//! A scenario with nothing left open: what a simulator builds its world from.

use std::collections::BTreeMap;
use std::sync::Arc;

use narrows_units::{Duration, Rate};

use crate::{LinkDiscipline, Topology, Traffic};

/// One point of a sweep under one seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Coordinates of the point: each swept key and its value, as `discipline` -> `taq`. Empty if nothing is swept.
    pub coords: BTreeMap<String, String>,
    /// Decides all that is random.
    pub seed: u64,
    /// Scenario to run, shared by all seeds of a point.
    pub scenario: Arc<Scenario>,
}

/// A scenario, resolved and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Names the result files; letters, digits, `-` and `_`.
    pub name: String,
    /// Description of the scenario, in a sentence.
    pub about: String,
    /// Duration of the load.
    pub duration: Duration,
    /// Time at the beginning that is not counted; less than the duration.
    pub warmup: Duration,
    /// Time after [`Traffic::start`] within which flows and users start at random.
    pub jitter: Duration,
    /// Each packet a host sends is delayed by U(0, this), without reordering within the host; zero for none, which
    /// leaves phase effects (Floyd and Jacobson, 1991) in.
    pub dephase: Duration,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Nodes, links and hosts, in whichever form the file describes the network.
    pub topology: Topology,
    /// The thin link as the short form has it; `None` for any other topology.
    pub thin: Option<Thin>,
    /// Traffic; at least one entry.
    pub traffic: Vec<Traffic>,
    /// Measurements to record.
    pub probes: Probes,
    /// Settings that only the lab reads.
    pub lab: LabSettings,
    /// The canonical text: the settings of this point alone, keys in order, variables and sweeps put in. The text reads
    /// as a scenario file by itself.
    pub text: String,
    /// SHA-256, in hex, of all that decides a run but the seed and the program: for keeping and finding results. Name
    /// and `about` do not count; the contents of files the scenario names do.
    pub hash: String,
}

/// The thin-link short form: what both simulator and lab can build.
#[derive(Clone, Debug, PartialEq)]
pub struct Thin {
    /// Rate towards the users.
    pub rate: Rate,
    /// Propagation both ways together, of the nearest and the farthest user.
    pub rtt: (Duration, Duration),
    /// Bytes of link layer per packet.
    pub overhead: u32,
    /// Probability that a packet is lost, each way.
    pub loss: f64,
    /// Discipline before the link.
    pub discipline: LinkDiscipline,
}

/// Measurements to record, and how finely.
#[derive(Clone, Debug, PartialEq)]
pub struct Probes {
    /// Length of the slices in which shares are compared: 20 s in the papers.
    pub slice: Duration,
    /// Series to sample every [`Probes::interval`].
    pub series: Vec<Series>,
    /// Time between two samples of the series.
    pub interval: Duration,
    /// Length of an epoch for per-epoch flow states (maintained, dropped, arriving, stalled), if they are wanted.
    pub epochs: Option<Duration>,
    /// Whether the lost segments of each object are recorded, for objects of up to 64 segments.
    pub bursts: bool,
    /// Whether each timeout, fast retransmit and tail-loss probe of TCP's senders is wanted.
    pub repairs: bool,
    /// Whether each decision of shapers that find the rate of their link (`auto`) is wanted.
    pub decisions: bool,
    /// Number of connections, the first of the run, whose senders are logged as qlog.
    pub qlog: usize,
    /// Indices into [`Topology::links`] to capture, ascending.
    pub capture: Vec<usize>,
    /// Lengths from which on a user's pause counts as a stall, ascending; one count for each.
    pub stalls: Vec<Duration>,
    /// Groups of objects with figures of each group's own.
    pub groups: Vec<Group>,
}

impl Default for Probes {
    /// Measurements for a file without `[probes]`.
    fn default() -> Self {
        Self {
            slice: Duration::from_secs(20),
            series: Vec::new(),
            interval: Duration::from_millis(100),
            epochs: None,
            bursts: false,
            repairs: false,
            decisions: false,
            qlog: 0,
            capture: Vec::new(),
            stalls: vec![Duration::from_secs(20), Duration::from_secs(60)],
            groups: Vec::new(),
        }
    }
}

/// Some objects: those of some entries of traffic that are of some sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Letters, digits and `_`: its figures are called `of_NAME_mean_s` and so on.
    pub name: String,
    /// Indices into [`Scenario::traffic`], ascending.
    pub traffic: Vec<usize>,
    /// Lower bound on the size in bytes, itself excluded.
    pub over: u64,
    /// Upper bound on the size in bytes, itself included; [`u64::MAX`] for no bound.
    pub up_to: u64,
    /// Whether the bytes that the group's users get are compared, slice by slice; then the group is of all sizes.
    pub shares: bool,
}

impl Group {
    /// Whether an object of `size` bytes of entry `traffic` belongs to the group.
    #[must_use]
    pub fn has(&self, traffic: usize, size: u64) -> bool {
        self.over < size && size <= self.up_to && self.traffic.contains(&traffic)
    }
}

/// A time series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Series {
    /// Backlog of each link's queue, packets and bytes.
    Queue,
    /// Congestion window of each flow.
    Cwnd,
    /// Bytes and packets that each link carried in the interval.
    Throughput,
}

/// Settings that only the lab reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabSettings {
    /// Way in which `narrows run` takes packets: `nfqueue`, or `packet` for a bridge of its own.
    pub backend: String,
    /// The kernel's congestion control at both ends.
    pub congestion_control: String,
    /// The QUIC sender's initial window in packets of 1200 bytes; `None`: quinn's own, RFC 9002's ten.
    pub quic_initial_window: Option<u32>,
    /// Kernel settings of users and server, as `net.ipv4.tcp_ecn` -> `1`.
    pub sysctl: BTreeMap<String, String>,
    /// Window scales of the users' TCP (RFC 7323, section 2), given to users in turn; empty: the kernel's own.
    pub window_scales: Vec<u8>,
    /// Mean pause of the server's application, exponential: a fifth of the answers begin after one, another fifth
    /// stop for one in their middle. Zero: it answers at once.
    pub server_pause: Duration,
}
