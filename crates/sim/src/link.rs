//! One direction of a link: a rate, a delay, and before them nothing, a drop-tail queue or another discipline.
//!
//! First in, first out leaves nothing to decide later, so a link without a discipline, or with a drop-tail queue
//! ([`DropTail`]), says when a packet comes when it will be at the far end. A link with any other discipline asks it
//! for the next packet whenever it has sent one.

use narrows_qdisc::{Backlog, BoxedDiscipline, Packet as _, Reason, ReversePath, ShaperConfig};
use narrows_scenario::Timetable;
use narrows_units::{Bytes, Duration, Instant, Rate};

use crate::drop_tail::{Begun, DropTail};
use crate::event::{Event, EventQueue};
use crate::ids::{LinkId, NodeId};
use crate::loss::Loss;
use crate::packet::{PayloadKind, Pkt};
use crate::tap::Waits;
use crate::usage::Usage;

/// Counts of a link since the beginning of the run. [`LinkCounters::since`] gives those of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    // Packets and bytes are not neighbours: the compiler would add to both with vector instructions, twice as many.
    /// Packets that came to the link.
    pub arrived: u64,
    /// Packets that reached the far end or are on the way to the far end.
    pub sent: u64,
    /// Bytes of the packets that came.
    pub arrived_bytes: u64,
    /// Bytes of the packets that were sent.
    pub sent_bytes: u64,
    /// Packets the discipline dropped, by [`Reason`] in the order of [`Reason::ALL`].
    pub dropped: [u64; Reason::ALL.len()],
    /// Packets the wire lost.
    pub lost: u64,
    /// Superfluous copies the discipline discarded.
    pub suppressed: u64,
    /// SYNs turned away.
    pub refused: u64,
    /// Packets marked.
    pub marked: u64,
}

impl LinkCounters {
    /// A packet came.
    #[inline]
    pub(crate) fn arrive(&mut self, len: Bytes) {
        self.arrived += 1;
        self.arrived_bytes += len.get();
    }
    /// A packet went.
    #[inline]
    fn send(&mut self, len: Bytes) {
        self.sent += 1;
        self.sent_bytes += len.get();
    }
    /// Sum of the discipline's drops.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }
    /// Differences of the counts since `earlier`.
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
            suppressed: self.suppressed - earlier.suppressed,
            refused: self.refused - earlier.refused,
            marked: self.marked - earlier.marked,
        }
    }
}

/// A discipline in front of a link.
pub(crate) struct Bottleneck {
    pub(crate) discipline: BoxedDiscipline<Pkt>,
    /// Whether the discipline has a reverse path.
    pub(crate) watches: bool,
    /// Instant until which the link sends.
    pub(crate) busy_until: Instant,
    /// Whether an event will ask for the next packet.
    pub(crate) free_due: bool,
    /// Time at which the discipline will be looked at, if that is settled.
    pub(crate) serve_due: Option<Instant>,
}

impl Bottleneck {
    pub(crate) fn new(discipline: BoxedDiscipline<Pkt>) -> Self {
        let watches = discipline.reverse_path().is_some();
        Self { discipline, watches, busy_until: Instant::ZERO, free_due: false, serve_due: None }
    }

    /// The reverse path of a discipline that watches.
    pub(crate) fn reverse_path(&mut self) -> &mut dyn ReversePath<Pkt> {
        self.discipline.reverse_path_mut().expect("only a discipline that watches is asked")
    }

    /// Asks for service of this queue when link `id` behind it has sent what it is sending.
    #[inline]
    pub(crate) fn due_when_free(&mut self, id: LinkId, events: &mut EventQueue) {
        self.free_due = true;
        events.push(self.busy_until, Event::Free(id));
    }
}

impl core::fmt::Debug for Bottleneck {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Bottleneck").field("backlog", &self.discipline.backlog()).finish_non_exhaustive()
    }
}

/// Queue before a link.
#[derive(Debug, Default)]
pub(crate) enum Before {
    /// No discipline: a queue as long as need be.
    #[default]
    Nothing,
    /// Drop-tail, computed ahead, on a wire that loses nothing.
    DropTail(Box<DropTail>),
    /// A discipline that is asked for each packet.
    Discipline(Box<Bottleneck>),
}

/// A link.
#[derive(Debug)]
pub(crate) struct SimLink {
    /// Rate and framing; `None` for one that takes no time to send.
    pub(crate) shape: Option<Box<ShaperConfig>>,
    /// Time from the last bit sent to the last bit received.
    pub(crate) delay: Duration,
    /// Instant until which a wire without a discipline sends.
    free_at: Instant,
    /// Cache of transmission times, by packet length.
    times: SendTimes,
    pub(crate) before: Before,
    /// Waits of packets; `None` unless waits are recorded.
    pub(crate) waits: Option<Box<Waits>>,
    /// Losses on the wire; `None` if the wire loses nothing.
    pub(crate) loss: Option<Box<Loss>>,
    /// The link the other way, if the two are the directions of one.
    pub(crate) reverse: Option<LinkId>,
    /// Whether the discipline of that link sees what enters here.
    pub(crate) watched: bool,
    pub(crate) counters: LinkCounters,
    /// Time for which packets from the discipline have kept the link busy, the present one to its end.
    pub(crate) busy: Duration,
    /// Times at which a link of changing rate sends, and the data that the link could have carried.
    pub(crate) changing: Option<Box<Changing>>,
    /// The link of changing rate before which the queue of this link stands.
    pub(crate) feeds: Option<LinkId>,
}

/// State that only a link with a changing rate has.
#[derive(Debug)]
pub(crate) struct Changing {
    pub(crate) timetable: Timetable,
    pub(crate) usage: Usage,
}

impl SimLink {
    pub(crate) fn new(shape: Option<ShaperConfig>, delay: Duration) -> Self {
        Self {
            shape: shape.map(Box::new),
            delay,
            free_at: Instant::default(),
            times: SendTimes::default(),
            before: Before::Nothing,
            waits: None,
            loss: None,
            reverse: None,
            watched: false,
            counters: LinkCounters::default(),
            busy: Duration::ZERO,
            changing: None,
            feeds: None,
        }
    }

    /// The discipline that is asked for each packet.
    #[inline(always)]
    pub(crate) fn discipline(&self) -> Option<&Bottleneck> {
        if let Before::Discipline(queue) = &self.before { Some(queue) } else { None }
    }

    /// The discipline that is asked for each packet.
    #[inline(always)]
    pub(crate) fn discipline_mut(&mut self) -> Option<&mut Bottleneck> {
        if let Before::Discipline(queue) = &mut self.before { Some(queue) } else { None }
    }

    /// Time of a packet of `len` from the queue to the far end if the packet never waits.
    pub(crate) fn least_delay(&mut self, len: Bytes) -> Duration {
        self.times.of_link(self.shape.as_deref(), len) + self.delay
    }

    /// When link `id`, before which is no drop-tail queue, has sent a packet that it takes `now`.
    pub(crate) fn send(
        &mut self,
        id: LinkId,
        now: Instant,
        packet: &Pkt,
        events: &mut EventQueue,
    ) -> Instant {
        let len = packet.len();
        let Before::Discipline(queue) = &mut self.before else { return self.pass(now, len) };
        let time = match &mut self.changing {
            Some(changing) => changing.transmit(packet.0.queued, now, len, queue.busy_until),
            None => self.times.of_link(self.shape.as_deref(), len),
        };
        let sent = now + time;
        self.busy += time;
        queue.busy_until = sent;
        if queue.discipline.backlog().packets > 0 {
            queue.due_when_free(id, events);
        }
        if let Some(waits) = &mut self.waits {
            waits.add(packet.0.label.kind, now.since(packet.0.queued));
        }
        sent
    }

    /// Time at which a packet that comes to a wire without a queue at `at` has left it; the wire is busy until then.
    fn pass(&mut self, at: Instant, len: Bytes) -> Instant {
        if self.shape.is_none() {
            return at;
        }
        let start = at.max(self.free_at);
        self.free_at = match &mut self.changing {
            Some(changing) => changing.timetable.send(start, len),
            None => start + self.times.of_link(self.shape.as_deref(), len),
        };
        self.free_at
    }

    /// A packet comes to the drop-tail queue `now`: when it begins to leave the link, and when it is at the far end;
    /// `None` if it is dropped. `since`: when it was scheduled that it comes.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        now: Instant,
        since: Instant,
        len: Bytes,
        kind: PayloadKind,
    ) -> Option<(Instant, Instant)> {
        let Self { before: Before::DropTail(tail), counters, busy, waits, .. } = self else { return None };
        while let Some(begun) = tail.pass(now, since) {
            count(counters, busy, waits, begun);
        }
        let time = match &mut self.changing {
            Some(changing) => changing.take(now, len, tail)?,
            None => self.times.of_link(self.shape.as_deref(), len),
        };
        let (begins, sent) = tail.take(now, len, kind, time)?;
        if tail.backlog().packets == 0 {
            count(counters, busy, waits, Begun { len, kind, waited: Duration::ZERO, time });
        }
        Some((begins, sent + self.delay))
    }

    /// Counts what the drop-tail queue has begun to send by `now`, as seen by an event scheduled at `since`. Whoever
    /// reads the counters calls this before.
    #[inline(always)]
    pub(crate) fn catch_up(&mut self, now: Instant, since: Instant) {
        let Self { before: Before::DropTail(tail), counters, busy, waits, .. } = self else { return };
        while let Some(begun) = tail.pass(now, since) {
            count(counters, busy, waits, begun);
        }
    }

    /// Packets and bytes that wait for the link.
    pub(crate) fn backlog(&self) -> Backlog {
        match &self.before {
            Before::DropTail(tail) => tail.backlog(),
            Before::Discipline(queue) => queue.discipline.backlog(),
            Before::Nothing => Backlog::default(),
        }
    }

    /// Whether what comes now waits behind others.
    pub(crate) fn makes_wait(&self, now: Instant) -> bool {
        match &self.before {
            Before::DropTail(tail) => tail.busy_until() > now,
            Before::Discipline(queue) => queue.discipline.backlog().packets > 0,
            Before::Nothing => false,
        }
    }

    /// Time at which the link will have sent the packets that the link has begun to send.
    pub(crate) fn busy_until(&self) -> Instant {
        match &self.before {
            Before::DropTail(tail) => tail.busy_until(),
            Before::Discipline(queue) => queue.busy_until,
            Before::Nothing => Instant::ZERO,
        }
    }

    /// Time at which it will have sent what it has taken; what waits in a discipline is not taken yet.
    pub(crate) fn full_until(&self) -> Instant {
        match &self.before {
            Before::DropTail(tail) => tail.full_until(),
            Before::Discipline(queue) => queue.busy_until,
            Before::Nothing => Instant::ZERO,
        }
    }

    /// Counts a packet whose sending ends at `sent`, and tells whether the wire loses it.
    #[inline(always)]
    pub(crate) fn loses(&mut self, sent: Instant, len: Bytes) -> bool {
        let lost = self.loss.as_mut().is_some_and(|loss| loss.takes(sent));
        if lost {
            self.counters.lost += 1;
        } else {
            self.counters.send(len);
        }
        lost
    }
}

/// Counts a packet whose sending has begun in what a link counts.
#[inline(always)]
fn count(counters: &mut LinkCounters, busy: &mut Duration, waits: &mut Option<Box<Waits>>, begun: Begun) {
    counters.send(begun.len);
    *busy += begun.time;
    if let Some(waits) = waits {
        waits.add(begun.kind, begun.waited);
    }
}

impl Changing {
    /// Time that sending a packet takes that comes `now` to a drop-tail queue; `None` if the packet is dropped.
    fn take(&mut self, now: Instant, len: Bytes, tail: &DropTail) -> Option<Duration> {
        let begins = tail.begins(now, len)?;
        let sent = self.timetable.send(begins, len);
        self.usage.takes(now, now, sent, len, tail.full_until(), &self.timetable);
        Some(sent.since(begins))
    }

    /// How long the sending of a packet takes that leaves a queue `now`, to which it came at `queued`. Until
    /// `idle_from`
    /// the link was busy.
    pub(crate) fn transmit(
        &mut self,
        queued: Instant,
        now: Instant,
        len: Bytes,
        idle_from: Instant,
    ) -> Duration {
        let sent = self.timetable.send(now, len);
        self.usage.takes(queued, now, sent, len, idle_from, &self.timetable);
        sent.since(now)
    }
}

/// Own wires of a group of hosts: no overhead, no loss, an unbounded queue.
#[derive(Debug)]
pub(crate) struct Access {
    /// Rate of the wire; `None` if sending takes no time.
    rate: Option<Rate>,
    /// Cache of transmission times by packet length, for both directions.
    times: SendTimes,
    /// Spread of the random time a packet takes inside a host before it leaves; zero for none.
    pub(crate) dephase: Duration,
    /// The node at which the wires end.
    pub(crate) node: NodeId,
    /// Whether a single link leads to that node, so that packets come to a host's wire in the order in which they leave
    /// that link.
    pub(crate) single: bool,
}

impl Access {
    pub(crate) fn new(node: NodeId, rate: Option<Rate>) -> Self {
        Self { rate, times: SendTimes::default(), dephase: Duration::ZERO, node, single: false }
    }

    /// Time for which a host's wire, out or in, is busy with a packet of `len`.
    #[inline]
    pub(crate) fn time(&mut self, len: Bytes) -> Duration {
        let rate = self.rate;
        self.times.of(len, |len| rate.map_or(Duration::ZERO, |rate| rate.time_to_send(len)))
    }
}

/// Cache of transmission times, indexed by bits 2 to 6 of the length: packets have few lengths, and acknowledgments
/// differ by whole SACK blocks.
#[derive(Clone, Copy, Debug)]
struct SendTimes([(Bytes, Duration); 32]);

impl Default for SendTimes {
    fn default() -> Self {
        Self([(Bytes(u64::MAX), Duration::ZERO); 32])
    }
}

impl SendTimes {
    /// Time for which a link of shape `shape` is busy with a packet of `len`.
    #[inline]
    fn of_link(&mut self, shape: Option<&ShaperConfig>, len: Bytes) -> Duration {
        let compute = |shape: &ShaperConfig, len| shape.rate.time_to_send(shape.wire_len(len));
        self.of(len, |len| shape.map_or(Duration::ZERO, |shape| compute(shape, len)))
    }

    /// The time for a length, computed if the time is not known yet.
    #[inline]
    fn of(&mut self, len: Bytes, compute: impl FnOnce(Bytes) -> Duration) -> Duration {
        let known = &mut self.0[(len.get() / 4 % 32) as usize];
        if known.0 != len {
            *known = (len, compute(len));
        }
        known.1
    }
}
