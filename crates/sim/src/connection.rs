//! A TCP connection between two hosts: two ends, what they are to carry, and what was seen of them.

use narrows_tcp::{Config, Endpoint, Event, Io, Segment};
use narrows_units::{Bytes, Duration, Instant};
use narrows_wire::{FlowKey, Header, TcpHeader};

use crate::network::Network;
use crate::packet::Kind;

/// The end that sends the data, and the end that takes it.
pub(crate) const DATA: usize = 0;
pub(crate) const TAKER: usize = 1;

/// Settings of hosts, shared by all their connections.
#[derive(Clone, Debug)]
pub(crate) struct HostConfig {
    pub(crate) tcp: Config,
    /// Whether options count on the wire. ns-2 has headers of 40 bytes whatever they carry.
    pub(crate) options_count: bool,
}

/// What was seen of a connection. The instants are of the simulation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowStats {
    /// When the first connection for this transfer was opened: this one, unless earlier ones failed.
    pub(crate) first_attempt: Instant,
    /// Connections for this transfer that failed before this one.
    pub(crate) retries: u32,
    pub(crate) opened: Instant,
    pub(crate) established: Option<Instant>,
    /// All data in order at the taker.
    pub(crate) delivered_at: Option<Instant>,
    /// All data acknowledged at the sender.
    pub(crate) acked_at: Option<Instant>,
    /// Payload delivered in order.
    pub(crate) delivered: u64,
    pub(crate) acked: u64,
    /// The first delivery of data.
    pub(crate) first_delivery: Option<Instant>,
    /// The last delivery of data; before any, or when data became due after all had been delivered, that instant.
    pub(crate) last_delivery: Instant,
    /// How long the first delivery was waited for.
    pub(crate) first_silence: Duration,
    /// The longest time without a delivery while data was due, from the first delivery on.
    pub(crate) longest_silence: Duration,
    /// When data became due after all before it had been delivered: the first attempt, or a write.
    pub(crate) due_since: Instant,
    /// Whether the application wrote while it was open.
    pub(crate) written: bool,
    /// Its place among the flows of the probes, if it is one of those that last.
    pub(crate) row: Option<u32>,
    pub(crate) failed: bool,
}

impl FlowStats {
    /// Data was delivered.
    pub(crate) fn took(&mut self, now: Instant, bytes: u64) {
        let silence = now.since(self.last_delivery);
        if self.delivered == 0 {
            self.first_delivery = Some(now);
            self.first_silence = silence;
        } else {
            self.longest_silence = self.longest_silence.max(silence);
        }
        self.last_delivery = now;
        self.delivered += bytes;
    }

    /// Data is due, and nothing was.
    pub(crate) fn wants(&mut self, now: Instant) {
        (self.last_delivery, self.due_since) = (now, now);
    }
}

/// A connection in its place.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) ends: [Endpoint; 2],
    /// When each end will be woken: the next wake-up and the one after it that is already in the queue.
    pub(crate) wakes: [Wakes; 2],
    pub(crate) host: [u32; 2],
    /// Places of the routes from each end to the other.
    pub(crate) route: [u32; 2],
    /// Places of the settings of both ends.
    pub(crate) config: [u16; 2],
    /// From [`DATA`] to [`TAKER`].
    pub(crate) key: FlowKey,
    pub(crate) generation: u32,
    /// The application it belongs to, and that application's own number for it.
    pub(crate) app: u32,
    pub(crate) tag: u32,
    /// Class in results.
    pub(crate) class: u16,
    /// Whose it is: users are numbered through all classes.
    pub(crate) user: u32,
    pub(crate) live: bool,
    /// Whether the data end has been given what it is to carry.
    pub(crate) begun: bool,
    /// Bytes of the request that the taker sends first.
    pub(crate) request: u32,
    /// Bytes to carry, the header among them; `u64::MAX` without end.
    pub(crate) size: u64,
    /// Bytes before the object, which are not part of its size.
    pub(crate) header: u64,
    /// Whether the data end closes after the last byte.
    pub(crate) close: bool,
    pub(crate) stats: FlowStats,
}

/// Wake-ups in the event queue. An end that asks for a later one than is queued waits for the queued one and asks again,
/// so a timer that is pushed on with each ACK costs no event each time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wakes {
    near: Instant,
    far: Instant,
}

const NEVER: Instant = Instant::from_nanos(u64::MAX);

impl Default for Wakes {
    fn default() -> Self {
        Self { near: NEVER, far: NEVER }
    }
}

impl Wakes {
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
            self.far = NEVER;
        }
        counts
    }
}

/// Where an end's output goes: packets into the network, events to whoever looks after the connection.
pub(crate) struct Port<'a> {
    pub(crate) net: &'a mut Network,
    pub(crate) key: FlowKey,
    pub(crate) src: u32,
    pub(crate) dst: u32,
    pub(crate) route: u32,
    pub(crate) flow: u32,
    pub(crate) generation: u32,
    /// The end that takes what is sent here.
    pub(crate) to_end: u8,
    pub(crate) options_count: bool,
    pub(crate) events: &'a mut Vec<Event>,
}

impl Io for Port<'_> {
    fn transmit(&mut self, segment: &Segment) {
        let mut packet = self.net.pool.take();
        let p = &mut *packet.0;
        p.header = Header {
            key: self.key,
            len: Bytes(u64::from(wire_len(&segment.tcp, self.options_count))),
            ecn: segment.ecn,
            fragment: false,
            tcp: Some(segment.tcp),
        };
        p.flow = self.flow;
        p.generation = self.generation;
        p.src = self.src;
        p.dst = self.dst;
        p.route = self.route;
        p.end = self.to_end;
        p.kind = Kind::of(&segment.tcp);
        self.net.send(packet);
    }
    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// IPv4 and TCP headers without options.
pub(crate) const BARE_HEADERS: u32 = 40;

/// Length of the IP packet: payload, 40 bytes of IPv4 and TCP header, and the options padded as stacks pad them (RFC 7323,
/// appendix A: timestamps 12 bytes; RFC 2018: 4 bytes and 8 a block; SYN: MSS 4, window scale 4, SACK permitted in the
/// timestamps' padding).
pub(crate) fn wire_len(tcp: &TcpHeader, options_count: bool) -> u32 {
    if !options_count {
        return BARE_HEADERS + tcp.payload;
    }
    let blocks = u32::try_from(tcp.sack.as_slice().len()).unwrap_or(0);
    let options = 12 * u32::from(tcp.timestamps.is_some())
        + 4 * u32::from(tcp.mss.is_some())
        + 4 * u32::from(tcp.window_scale.is_some())
        + if blocks > 0 { 4 + 8 * blocks } else { 0 };
    BARE_HEADERS + options + tcp.payload
}
