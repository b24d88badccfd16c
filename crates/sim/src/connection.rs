//! A connection between two hosts: two ends, what they are to carry, and what was seen of them.

use narrows_units::Instant;

use crate::ends::Ends;
use crate::flow_stats::FlowStats;
use crate::ids::{AppId, FlowId};
use crate::network::Network;
use crate::packet::Label;
use crate::tls::TlsHandshake;

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
    /// Whether the data end has been given the data to carry.
    pub(crate) begun: bool,
    /// Whether the data end closes after the last byte.
    pub(crate) close: bool,
    /// Index of the user in the probes.
    pub(crate) user_index: u32,
    /// Bytes to carry, the header included; `u64::MAX` without end.
    pub(crate) size: u64,
    /// Times at which each end will be woken: the next wake-up and the one after it that is already in the queue.
    pub(crate) timers: [Timers; 2],
    /// Bytes of the request that the receiver sends first.
    pub(crate) request: u32,
    /// Class in results.
    pub(crate) class: u16,
    /// Labels of the packets that each end sends.
    pub(crate) labels: [Label; 2],
    pub(crate) ends: Ends,
    pub(crate) stats: FlowStats,
    /// Bytes before the object, which are not part of the object's size.
    pub(crate) header: u32,
    /// The application it belongs to, and that application's own number for it.
    pub(crate) app: AppId,
    pub(crate) tag: u32,
    /// Number of the user that the connection belongs to, counted through all classes.
    pub(crate) user: u32,
    /// Handshake of TLS before the request.
    pub(crate) tls: TlsHandshake,
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
    #[inline]
    pub(crate) fn need(&mut self, at: Instant) -> bool {
        let need = at < self.near;
        if need {
            self.far = self.near;
            self.near = at;
        }
        need
    }
    /// Takes note of an event at `now`; returns whether the event still counts.
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
