//! A connection between two hosts: two ends, what they are to carry, and what was seen of them.

use narrows_tcp::{Config, Handshake};
use narrows_units::{Duration, Instant};

use crate::ends::Ends;
use crate::ids::{AppId, FlowId};
use crate::network::Network;
use crate::packet::Label;

/// The end that sends the data, and the end that takes it.
pub(crate) const DATA: usize = 0;
pub(crate) const RECEIVER: usize = 1;

/// Settings of hosts, shared by all their connections.
#[derive(Clone, Debug)]
pub(crate) struct HostConfig {
    pub(crate) tcp: Config,
    /// Whether options count on the wire. ns-2 has headers of 40 bytes, and 10 more with timestamps.
    pub(crate) options_count: bool,
    /// Whether queues cannot read the headers.
    pub(crate) opaque: bool,
    /// QUIC, where that carries the data in TCP's place.
    pub(crate) quic: Option<Box<narrows_quic::Config>>,
    /// Whether TFRC does.
    pub(crate) tfrc: bool,
}

impl HostConfig {
    /// Hosts that speak TCP, and whose headers can be read.
    pub(crate) fn of_tcp(tcp: Config) -> Self {
        let options_count = tcp.handshake != Handshake::SynIsPacketZero;
        Self { tcp, options_count, opaque: false, quic: None, tfrc: false }
    }
}

/// An instant that may not have come: half as long as an `Option<Instant>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OptionalInstant(Instant);

impl OptionalInstant {
    pub(crate) const NEVER: Self = Self(Instant::FAR_FUTURE);

    pub(crate) const fn at(at: Instant) -> Self {
        Self(at)
    }
    pub(crate) fn come(self) -> Option<Instant> {
        (self != Self::NEVER).then_some(self.0)
    }
    /// Sets the instant to `now` unless it is set already.
    pub(crate) fn note(&mut self, now: Instant) {
        self.0 = self.0.min(now);
    }
}

impl Default for OptionalInstant {
    fn default() -> Self {
        Self::NEVER
    }
}

/// Measurements of one connection, in simulated time. Fields that change with every delivery come first.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct FlowStats {
    /// Payload delivered in order.
    pub(crate) delivered: u64,
    pub(crate) acked: u64,
    /// The last delivery of data; before any, or when data became due after all had been delivered, that instant.
    pub(crate) last_delivery: Instant,
    /// The longest time without a delivery while data was due, from the first delivery on.
    pub(crate) longest_stall: Duration,
    /// The first delivery of data.
    pub(crate) first_delivery: OptionalInstant,
    /// Wait for the first delivery, from when its data became due.
    pub(crate) first_stall: Duration,
    /// Time at which the receiver had all data in order.
    pub(crate) delivered_at: OptionalInstant,
    /// Time at which all data was acknowledged to the sender.
    pub(crate) acked_at: OptionalInstant,
    /// When the first connection for this transfer was opened: this one, unless earlier ones failed.
    pub(crate) first_attempt: Instant,
    pub(crate) opened: Instant,
    pub(crate) established: OptionalInstant,
    /// When data became due after all before it had been delivered: the first attempt, or a write.
    pub(crate) due_since: Instant,
    /// Row among the flows of the probes, if the flow lasts; [`NO_ROW`] otherwise.
    pub(crate) row: u32,
    /// Connections for this transfer that failed before this one, as far as they can be counted here.
    pub(crate) retries: u16,
    /// Whether the application wrote while it was open.
    pub(crate) written: bool,
    pub(crate) failed: bool,
}

/// The place of what is not among the flows of the probes.
pub(crate) const NO_ROW: u32 = u32::MAX;

impl FlowStats {
    /// Starts the measurements of a connection opened `now`; `first_attempt` is when its transfer was first tried.
    pub(crate) fn new(now: Instant, first_attempt: Instant, retries: u32) -> Self {
        Self {
            first_attempt,
            opened: now,
            established: OptionalInstant::NEVER,
            delivered_at: OptionalInstant::NEVER,
            acked_at: OptionalInstant::NEVER,
            delivered: 0,
            acked: 0,
            first_delivery: OptionalInstant::NEVER,
            last_delivery: first_attempt,
            first_stall: Duration::ZERO,
            longest_stall: Duration::ZERO,
            due_since: first_attempt,
            row: NO_ROW,
            retries: u16::try_from(retries).unwrap_or(u16::MAX),
            written: false,
            failed: false,
        }
    }

    /// Data was delivered.
    pub(crate) fn took(&mut self, now: Instant, bytes: u64) {
        let stall = now.since(self.last_delivery);
        if self.delivered == 0 {
            self.first_delivery = OptionalInstant::at(now);
            self.first_stall = stall;
        } else {
            self.longest_stall = self.longest_stall.max(stall);
        }
        self.last_delivery = now;
        self.delivered += bytes;
    }

    /// Data is due, and nothing was.
    pub(crate) fn wants(&mut self, now: Instant) {
        (self.last_delivery, self.due_since) = (now, now);
    }
}

/// A connection in its place. Hundreds of thousands of them fit into memory, so what can be told from the rest is not
/// kept.
///
/// With many flows nothing of a connection is in a near cache when its next packet comes, so what goes together lies
/// together: what every packet needs is the first cache line, then what packets begin with, then each end, of which one
/// that only receives data needs its first 128 bytes.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Connection {
    pub(crate) generation: u32,
    /// Places of the settings of both ends.
    pub(crate) config: [u16; 2],
    pub(crate) live: bool,
    /// Whether the data end has been given what it is to carry.
    pub(crate) begun: bool,
    /// Whether the data end closes after the last byte.
    pub(crate) close: bool,
    /// Index of the user in the probes.
    pub(crate) user_index: u32,
    /// Bytes to carry, the header among them; `u64::MAX` without end.
    pub(crate) size: u64,
    /// When each end will be woken: the next wake-up and the one after it that is already in the queue.
    pub(crate) timers: [Timers; 2],
    /// Bytes of the request that the receiver sends first.
    pub(crate) request: u32,
    /// Class in results.
    pub(crate) class: u16,
    /// Labels of the packets that each end sends.
    pub(crate) labels: [Label; 2],
    pub(crate) ends: Ends,
    pub(crate) stats: FlowStats,
    /// Bytes before the object, which are not part of its size.
    pub(crate) header: u32,
    /// The application it belongs to, and that application's own number for it.
    pub(crate) app: AppId,
    pub(crate) tag: u32,
    /// Number of the user it belongs to, counted through all classes.
    pub(crate) user: u32,
}

impl Connection {
    /// Reads a word of each cache line that a segment will need which comes to an end.
    #[inline]
    pub(crate) fn prefetch(&self, end: usize) -> u64 {
        u64::from(self.generation) ^ self.ends.prefetch(end)
    }

    /// Bytes of the object.
    pub(crate) fn object(&self) -> u64 {
        self.size - u64::from(self.header)
    }

    /// Sees to it that one end of this connection, which has `place`, is woken when it wants to be.
    #[inline(always)]
    pub(crate) fn ask_to_be_woken(&mut self, place: FlowId, end: usize, net: &mut Network) {
        let at = self.ends.poll(end).max(net.now);
        if self.timers[end].need(at) {
            net.wake(at, place, end);
        }
    }
}

/// Port of the end that accepts connections.
pub(crate) const SERVICE: u16 = 80;

/// Wake-ups in the event queue. An end that asks for a later one than is queued waits for the queued one and asks
/// again, so a timer that is pushed on with each ACK costs no event each time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers {
    near: Instant,
    far: Instant,
}

impl Default for Timers {
    fn default() -> Self {
        Self { near: Instant::FAR_FUTURE, far: Instant::FAR_FUTURE }
    }
}

impl Timers {
    /// Whether a new event is needed to wake at `at`; it is then taken as queued.
    pub(crate) fn need(&mut self, at: Instant) -> bool {
        let need = at < self.near;
        if need {
            self.far = self.near;
            self.near = at;
        }
        need
    }
    /// An event came at `now`. Whether it was one that still counts.
    pub(crate) fn came(&mut self, now: Instant) -> bool {
        let counts = self.near == now;
        if counts {
            self.near = self.far;
            self.far = Instant::FAR_FUTURE;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;

    #[test]
    fn a_connection_stays_small() {
        assert!(size_of::<FlowStats>() <= 104, "{}", size_of::<FlowStats>());
        assert!(size_of::<Connection>() <= 704, "{}", size_of::<Connection>());
        // Fields that are used together begin on a cache line of their own.
        assert_eq!(offset_of!(Connection, labels), 64);
        assert_eq!([offset_of!(Connection, ends), size_of::<Ends>()].map(|n| n % 64), [0, 0]);
        assert_eq!(offset_of!(Connection, stats) % 64, 0);
    }
}
