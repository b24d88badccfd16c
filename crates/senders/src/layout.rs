//! State that the kernel programs keep for a connection, decoded: the structs `state` of `bpf/*.bpf.c` and `record` of
//! `bpf/show.bpf.c`, byte by byte.

use std::net::{Ipv4Addr, SocketAddrV4};

use serde::Serialize;

use crate::knobs::Sender;

/// Bytes of a `struct record`.
const RECORD: usize = 152;

/// One connection, as it was at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Socket {
    /// The congestion control's name, also when it is unloaded meanwhile.
    pub name: String,
    /// This end; only IPv4 has addresses here, IPv6 shows its ports.
    pub local: String,
    /// The other end.
    pub remote: String,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow start threshold in segments, none before the first loss.
    pub ssthresh: Option<u32>,
    /// Smoothed RTT in microseconds.
    pub srtt_us: u32,
    /// Segments out.
    pub packets_out: u32,
    /// Phase of the sender and its figures.
    #[serde(flatten)]
    pub phase: SenderPhase,
}

/// Phase of a sender, from its private state.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "phase", rename_all = "kebab-case")]
pub enum SenderPhase {
    /// B-TCP's first phase.
    Burst {
        /// The window with its fraction of a segment.
        window: f64,
    },
    /// Growing by a segment for each segment acknowledged.
    SlowStart,
    /// Congestion avoidance.
    Avoidance,
    /// Adaptive AIMD, in congestion avoidance or slow start.
    Adaptive {
        /// The factor of the last back-off.
        beta: f64,
        /// Least RTT seen, in microseconds.
        rttmin_us: u32,
        /// Greatest smoothed RTT, faded, in microseconds.
        rttmax_us: u32,
    },
    /// Initial Spreading, nothing sent yet.
    ToSpread {
        /// Time between segments, in nanoseconds.
        gap_ns: u64,
    },
    /// Initial Spreading, in its first round trip.
    Spreading {
        /// Segments allowed so far: those whose slot is past.
        allowed: u32,
        /// Time between segments, in nanoseconds.
        gap_ns: u64,
    },
}

/// Phases of `enum phase` in is.bpf.c.
const SPREAD_WAITING: u32 = 0;
const SPREAD_GOING_ON: u32 = 1;

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn u16(&self, at: usize) -> u16 {
        self.0.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_ne_bytes)
    }
    fn u64(&self, at: usize) -> u64 {
        self.0.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
    }
    fn u32(&self, at: usize) -> u32 {
        self.0.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
    }
}

/// Every record of an iterator's output.
#[must_use]
pub(crate) fn sockets(bytes: &[u8]) -> Vec<Socket> {
    bytes.chunks_exact(RECORD).filter_map(socket).collect()
}

fn socket(record: &[u8]) -> Option<Socket> {
    let b = Bytes(record);
    let name = &record[..16];
    let end = name.iter().position(|c| *c == 0).unwrap_or(name.len());
    let (cwnd, ssthresh) = (b.u32(120), b.u32(124));
    let (v4, local, remote) = (b.u16(148) == 2, b.u16(144), u16::from_be(b.u16(146)));
    let shown = |at: usize, port: u16| match v4 {
        true => SocketAddrV4::new(Ipv4Addr::from(u32::from_be(b.u32(at))), port).to_string(),
        false => format!("[ipv6]:{port}"),
    };
    Some(Socket {
        name: String::from_utf8_lossy(&name[..end]).into_owned(),
        local: shown(136, local),
        remote: shown(140, remote),
        cwnd,
        // The kernel's "infinite".
        ssthresh: Some(ssthresh).filter(|s| *s < 0x7fff_ffff),
        srtt_us: b.u32(128),
        packets_out: b.u32(132),
        phase: phase(&Bytes(&record[16..120]), cwnd < ssthresh, cwnd)?,
    })
}

fn phase(state: &Bytes<'_>, below: bool, cwnd: u32) -> Option<SenderPhase> {
    let plain = if below { SenderPhase::SlowStart } else { SenderPhase::Avoidance };
    Some(match Sender::of_kind(state.u32(0))? {
        // struct state of btcp.bpf.c: kind, enabled, fraction in 1/2^20.
        Sender::Btcp if state.u32(4) != 0 => {
            SenderPhase::Burst { window: f64::from(cwnd) + f64::from(state.u32(8)) / 1_048_576.0 }
        }
        Sender::Btcp => plain,
        // struct state of aaimd.bpf.c: kind, beta in 1/65536, RTTmin, RTTmax.
        Sender::Aaimd => SenderPhase::Adaptive {
            beta: f64::from(state.u32(4)) / 65536.0,
            rttmin_us: state.u32(8),
            rttmax_us: state.u32(12),
        },
        // struct state of is.bpf.c: kind, phase, allowed, lost, acked, delivered0, segs0, asked, gap.
        Sender::Spreading => match state.u32(4) {
            SPREAD_WAITING => SenderPhase::ToSpread { gap_ns: state.u64(32) },
            SPREAD_GOING_ON => SenderPhase::Spreading { allowed: state.u32(8), gap_ns: state.u64(32) },
            _ => plain,
        },
    })
}
