//! The seam between a discipline and whatever drives it: a live box, a simulator or a replay.

use narrows_units::{Bytes, Dscp, Ecn, Instant};
use narrows_wire::Header;

use crate::{Report, ShaperConfig, Spec};

/// A packet as a discipline sees it: its header, read once, and the few changes a middlebox may make.
pub trait Packet {
    /// The headers. After a successful change they show the new value.
    fn header(&self) -> &Header;
    /// Marks congestion experienced; `false` if the packet is not ECN-capable.
    fn mark_ce(&mut self) -> bool;
    /// Sets the TCP window field (unscaled, as on the wire); `false` if that cannot be done.
    fn set_window(&mut self, window: u16) -> bool;
    /// Sets TSval; `false` if the packet has no timestamp option or cannot be changed.
    fn set_tsval(&mut self, tsval: u32) -> bool;
    /// Sets the class of service; `false` if the packet cannot be changed.
    fn set_dscp(&mut self, dscp: Dscp) -> bool;
    /// Length of the IP packet.
    fn len(&self) -> Bytes {
        self.header().len
    }
    /// Whether the packet has no bytes; no IP packet is.
    fn is_empty(&self) -> bool {
        self.len() == Bytes::ZERO
    }
}

/// The smallest packet: a header and a number. What simulators, replays and tests queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The driver's own number for it.
    pub id: u64,
    /// The headers.
    pub header: Header,
}

impl Packet for Record {
    fn header(&self) -> &Header {
        &self.header
    }
    fn mark_ce(&mut self) -> bool {
        let capable = self.header.ecn.is_capable();
        if capable {
            self.header.ecn = Ecn::Ce;
        }
        capable
    }
    fn set_window(&mut self, window: u16) -> bool {
        self.header.tcp.as_mut().is_some_and(|t| {
            t.window = window;
            true
        })
    }
    fn set_tsval(&mut self, tsval: u32) -> bool {
        self.header.tcp.as_mut().and_then(|t| t.timestamps.as_mut()).is_some_and(|t| {
            t.0 = tsval;
            true
        })
    }
    fn set_dscp(&mut self, dscp: Dscp) -> bool {
        self.header.dscp = dscp;
        true
    }
}

/// Why a packet was dropped, marked, suppressed or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The queue, or this class of it, is full.
    OverLimit,
    /// Chosen before the queue is full, to tell senders of congestion.
    Early,
    /// Pushed out to make room for a packet that matters more.
    PushedOut,
    /// Chosen because TCP can repair it by fast retransmit.
    Repairable,
    /// The flow waits longer than it may.
    Sojourn,
    /// A copy of a segment that still waits here, or that has just left and cannot be acknowledged yet.
    Duplicate,
    /// The link has more pools than it can serve: this one waits at the door.
    Admission,
}

impl Reason {
    /// All reasons, in the order of their counters.
    pub const ALL: [Self; 7] = [
        Self::OverLimit,
        Self::Early,
        Self::PushedOut,
        Self::Repairable,
        Self::Sojourn,
        Self::Duplicate,
        Self::Admission,
    ];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OverLimit => "over_limit",
            Self::Early => "early",
            Self::PushedOut => "pushed_out",
            Self::Repairable => "repairable",
            Self::Sojourn => "sojourn",
            Self::Duplicate => "duplicate",
            Self::Admission => "admission",
        }
    }
}

/// What a discipline decided about a packet other than to send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<P> {
    /// Lost: the sender has to repair it.
    Dropped {
        /// The victim: any packet of the queue, not only the one that came.
        packet: P,
        /// Why.
        reason: Reason,
    },
    /// Discarded at no cost, because the receiver gets these bytes anyway.
    Suppressed {
        /// The superfluous copy.
        packet: P,
    },
    /// Turned away at the door; the sender will ask again.
    Refused {
        /// The SYN.
        packet: P,
    },
    /// Congestion experienced was set on a packet that stays.
    Marked {
        /// The packet's headers after marking.
        header: Header,
        /// Why.
        reason: Reason,
    },
}

/// Verdicts in the order they were made. Drivers keep one and clear it, so that no packet costs an allocation.
pub type Verdicts<P> = Vec<Verdict<P>>;

/// What waits in a discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packets.
    pub packets: usize,
    /// Their IP lengths together.
    pub bytes: Bytes,
}

impl Backlog {
    /// Counts a packet in.
    pub fn add(&mut self, len: Bytes) {
        self.packets += 1;
        self.bytes += len;
    }
    /// Counts a packet out.
    pub fn sub(&mut self, len: Bytes) {
        self.packets -= 1;
        self.bytes -= len;
    }
}

/// A queue discipline for one direction of a link.
///
/// `now` never decreases between calls. A driver that calls only at the instants [`Qdisc::next_ready`] names (and on
/// arrivals) sees exactly what one that polls without pause sees.
pub trait Qdisc<P: Packet> {
    /// Takes a packet of the direction this discipline queues.
    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>);

    /// The next packet to send, if one may leave now.
    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P>;

    /// Shows a packet of the other direction before it goes on its way, where the box sees it. The discipline may
    /// change it (window clamp), keep it (a SYN held at the door, see [`Qdisc::release_reverse`]) or refuse it.
    fn reverse(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) -> Option<P> {
        let _ = (now, verdicts);
        Some(packet)
    }

    /// A packet of the other direction that was kept and may go now.
    fn release_reverse(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        let _ = (now, verdicts);
        None
    }

    /// When it is worth calling [`Qdisc::dequeue`] again; `None` if only an arrival can change anything. An instant at
    /// or before `now` means at once.
    fn next_ready(&self, now: Instant) -> Option<Instant>;

    /// The same for [`Qdisc::release_reverse`].
    fn next_release(&self, now: Instant) -> Option<Instant> {
        let _ = now;
        None
    }

    /// What waits to be sent in this direction.
    fn backlog(&self) -> Backlog;

    /// How many packets of the other direction are held at the door.
    fn held(&self) -> usize {
        0
    }

    /// Lets all that is held at the door go, in order: [`Qdisc::release_reverse`] gives it out from now on. For a driver
    /// that takes the discipline apart.
    fn release_all(&mut self, now: Instant) {
        let _ = now;
    }

    /// Does as `spec` says from now on, on this link, and keeps what waits and what it knows. `false` if it cannot: then
    /// nothing has changed, and the driver moves what waits to a new discipline.
    fn reconfigure(&mut self, now: Instant, spec: &Spec, link: &ShaperConfig) -> bool {
        let _ = (now, spec, link);
        false
    }

    /// Counters and state for people. May cost more than a packet; drivers call it about once a second.
    fn report(&mut self, now: Instant) -> Report;
}

impl<P: Packet, Q: Qdisc<P> + ?Sized> Qdisc<P> for Box<Q> {
    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        (**self).enqueue(now, packet, verdicts);
    }
    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        (**self).dequeue(now, verdicts)
    }
    fn reverse(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) -> Option<P> {
        (**self).reverse(now, packet, verdicts)
    }
    fn release_reverse(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        (**self).release_reverse(now, verdicts)
    }
    fn next_ready(&self, now: Instant) -> Option<Instant> {
        (**self).next_ready(now)
    }
    fn next_release(&self, now: Instant) -> Option<Instant> {
        (**self).next_release(now)
    }
    fn backlog(&self) -> Backlog {
        (**self).backlog()
    }
    fn held(&self) -> usize {
        (**self).held()
    }
    fn release_all(&mut self, now: Instant) {
        (**self).release_all(now);
    }
    fn reconfigure(&mut self, now: Instant, spec: &Spec, link: &ShaperConfig) -> bool {
        (**self).reconfigure(now, spec, link)
    }
    fn report(&mut self, now: Instant) -> Report {
        (**self).report(now)
    }
}
