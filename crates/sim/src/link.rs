//! One direction of a link: a rate, a delay, and in front of them nothing or a discipline.
//!
//! A link without a discipline never drops for want of room, so when a packet comes, its arrival at the far end can be
//! said at once; such a wire costs one event a packet. A link with a discipline is asked for the next packet whenever it
//! has sent one.

use narrows_qdisc::{Packet as _, Qdisc, Reason, ShaperConfig};
use narrows_units::{Bytes, Duration, Instant, Rate};

use crate::event::{Event, EventQueue};
use crate::loss::Loss;
use crate::packet::Pkt;
use crate::tap::Tap;

/// What a link did since the beginning, and since counting began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets that came to the link.
    pub arrived: u64,
    /// Their bytes.
    pub arrived_bytes: u64,
    /// Packets that reached the far end or are on their way there.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets the discipline dropped, by [`Reason`] in the order of [`Reason::ALL`].
    pub dropped: [u64; Reason::ALL.len()],
    /// Packets the wire lost.
    pub lost: u64,
    /// Superfluous copies the discipline discarded.
    pub swallowed: u64,
    /// SYNs turned away.
    pub refused: u64,
    /// Packets marked.
    pub marked: u64,
}

impl LinkCounters {
    /// All drops of the discipline.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }
    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut dropped = self.dropped;
        for (now, then) in dropped.iter_mut().zip(earlier.dropped) {
            *now -= then;
        }
        Self {
            arrived: self.arrived - earlier.arrived,
            arrived_bytes: self.arrived_bytes - earlier.arrived_bytes,
            sent: self.sent - earlier.sent,
            sent_bytes: self.sent_bytes - earlier.sent_bytes,
            dropped,
            lost: self.lost - earlier.lost,
            swallowed: self.swallowed - earlier.swallowed,
            refused: self.refused - earlier.refused,
            marked: self.marked - earlier.marked,
        }
    }
}

/// A discipline in front of a link.
pub(crate) struct Queue {
    pub(crate) discipline: Box<dyn Qdisc<Pkt> + Send>,
    /// Whether it looks at the other direction or wakes by itself; drop-tail does neither.
    pub(crate) watches: bool,
    /// Until when the link sends.
    pub(crate) busy_until: Instant,
    /// Whether an event will ask for the next packet.
    pub(crate) free_due: bool,
    /// When the discipline will be looked at, if that is settled.
    pub(crate) serve_due: Option<Instant>,
}

impl Queue {
    /// Asks to be served when link `id`, in front of which it is, has sent what it sends.
    #[inline]
    pub(crate) fn due_when_free(&mut self, id: u32, events: &mut EventQueue) {
        self.free_due = true;
        events.push(self.busy_until, Event::Free(id));
    }
}

impl core::fmt::Debug for Queue {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Queue").field("backlog", &self.discipline.backlog()).finish_non_exhaustive()
    }
}

/// A link.
#[derive(Debug)]
pub(crate) struct Link {
    /// Rate and framing; `None` for one that takes no time to send.
    pub(crate) shape: Option<Box<ShaperConfig>>,
    /// Time from the last bit sent to the last bit received.
    pub(crate) delay: Duration,
    /// Until when a wire without a discipline sends.
    free_at: Instant,
    /// What sending took the last time, and for which length: packets have few lengths.
    last_time: (Bytes, Duration),
    /// The discipline.
    pub(crate) queue: Option<Box<Queue>>,
    /// What the wire does to packets.
    pub(crate) loss: Option<Box<Loss>>,
    /// The link the other way, if the two are the directions of one.
    pub(crate) twin: Option<u32>,
    /// Whether the discipline of the twin looks at what enters here.
    pub(crate) watched: bool,
    /// Whether all packets come to it in order from one place, so that they may be given to it ahead of time.
    pub(crate) fused: bool,
    pub(crate) counters: Box<LinkCounters>,
    /// How long packets from the discipline have kept it busy, the present one to its end.
    pub(crate) busy: Duration,
}

impl Link {
    pub(crate) fn new(shape: Option<ShaperConfig>, delay: Duration) -> Self {
        Self {
            shape: shape.map(Box::new),
            delay,
            free_at: Instant::default(),
            last_time: (Bytes(u64::MAX), Duration::default()),
            queue: None,
            loss: None,
            twin: None,
            watched: false,
            fused: false,
            counters: Box::default(),
            busy: Duration::ZERO,
        }
    }

    /// How long the link is busy with a packet of `len`.
    #[inline]
    pub(crate) fn time_to_send(&mut self, len: Bytes) -> Duration {
        let Some(shape) = &self.shape else { return Duration::default() };
        if self.last_time.0 != len {
            self.last_time = (len, shape.rate.time_to_send(shape.wire_len(len)));
        }
        self.last_time.1
    }

    /// When a packet that comes to a wire at `at` has left it; the wire is busy until then.
    pub(crate) fn pass(&mut self, at: Instant, len: Bytes) -> Instant {
        if self.shape.is_none() {
            return at;
        }
        let start = at.max(self.free_at);
        self.free_at = start + self.time_to_send(len);
        self.free_at
    }

    /// Counts a packet whose sending over this link, number `id`, ends at `sent`, and tells whether the wire loses it.
    #[inline(always)]
    pub(crate) fn put_on_wire(&mut self, id: u32, packet: &Pkt, sent: Instant, tap: &mut Tap) -> bool {
        if let Some(loss) = &mut self.loss
            && loss.takes(sent)
        {
            self.counters.lost += 1;
            tap.lost(packet);
            return true;
        }
        self.counters.sent += 1;
        self.counters.sent_bytes += packet.len().get();
        if tap.captures(id) {
            tap.capture(id, sent, packet);
        }
        false
    }
}

/// What the own wires of a group of hosts have in common: no overhead, no loss, a queue as long as need be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// `None` for wires that take no time to send.
    rate: Option<Rate>,
    /// What sending took the last time, and for which length.
    last_time: (Bytes, Duration),
    /// Spread of the random time a packet takes inside a host before it leaves; zero for none.
    pub(crate) dephase: Duration,
    /// The node they end at.
    pub(crate) node: u32,
    /// Whether a single link leads to that node: what leaves it for a host may be told to that host's wire ahead of time.
    pub(crate) single: bool,
}

impl Access {
    pub(crate) const fn new(node: u32, rate: Option<Rate>) -> Self {
        Self {
            rate,
            last_time: (Bytes(u64::MAX), Duration::ZERO),
            dephase: Duration::ZERO,
            node,
            single: false,
        }
    }

    /// How long a host's wire is busy with a packet of `len`.
    #[inline]
    pub(crate) fn time_to_send(&mut self, len: Bytes) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        if self.last_time.0 != len {
            self.last_time = (len, rate.time_to_send(len));
        }
        self.last_time.1
    }
}
