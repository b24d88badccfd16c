//! Whether a flow's path has become longer: after a failover, as to a satellite, the shortest round trip known never
//! comes again.
//!
//! Both sides of the box are watched from when the sender's is known. The receiver's is timed as ever
//! ([`crate::epoch`]). On the sender's a segment of the other direction is timed whose timestamp is new, to the first
//! segment that returns that timestamp (RFC 7323, section 3.2). None is timed that has to wait here behind others on
//! its way to the sender: this box's queues are no part of a path on either side.
//!
//! A round trip may be long for other reasons: an acknowledgment is delayed, a sender has nothing to send. So time is
//! cut into slots of half a minute, and where even the shortest of a whole slot is longer than what is known by
//! [`is_longer`], it takes its place. Less is known already, and stays. One that is as much shorter counts at once on
//! the sender's side, and any that is shorter at all on the receiver's.

use narrows_units::{Duration, Instant, SeqNum};
use narrows_wire::TcpHeader;

use crate::flags::FlowFlags;
use crate::flow::Flow;
use crate::times::Micros;

/// A slot is 2^35 ns, 34 s.
const SLOT_SHIFT: u32 = 35;
/// What is timed is given up after this long: `sender_rtt` has no room for more.
const LONGEST_TRIP: Duration = Duration::from_secs(4);
/// Longer by less than this (and a quarter) may be a delayed acknowledgment (200 ms at most in Linux) that comes with
/// each segment that is timed, a sender that paces a window of two segments, or a clock that ticks seldom. A satellite
/// takes twice as long.
const SLACK: Duration = Duration::from_millis(250);

/// The shortest round trips of a slot, in units of 2^17 ns, 15 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shortest {
    /// Whether the slot has an odd number.
    odd: bool,
    near: u16,
    far: u16,
}

/// The slot began before it was watched: it counts for nothing.
const PARTIAL: u16 = 0;
/// There was none yet.
const NONE: u16 = 0x7fff;

impl Shortest {
    const fn unpack(word: u32) -> Self {
        Self { odd: word >> 31 == 1, near: (word >> 16) as u16 & NONE, far: word as u16 & NONE }
    }
    const fn pack(self) -> u32 {
        (self.odd as u32) << 31 | (self.near as u32) << 16 | self.far as u32
    }
    /// Adds a round trip to those of one side.
    fn note(of_side: &mut u16, trip: Duration) {
        if *of_side != PARTIAL {
            let units = (trip.as_nanos() >> 17).clamp(1, u64::from(NONE) - 1);
            *of_side = (*of_side).min(units as u16);
        }
    }
}

/// The shortest of one side, if the slot was whole and had any.
fn whole(units: u16) -> Option<Duration> {
    (units != PARTIAL && units != NONE).then(|| Duration::from_nanos(u64::from(units) << 17))
}

/// Whether a round trip is of a longer path than one of which this was the shortest.
fn is_longer(trip: Duration, shortest: Duration) -> bool {
    trip > shortest + shortest / 4 + SLACK
}

const fn is_odd(now: Instant) -> bool {
    now.as_nanos() >> SLOT_SHIFT & 1 == 1
}

impl Flow {
    /// The sender's side is known from now on.
    pub(crate) fn watch_path(&mut self, now: Instant) {
        self.srtt_us = Shortest { odd: is_odd(now), near: PARTIAL, far: PARTIAL }.pack();
    }

    /// A round trip of the receiver's side.
    pub(crate) fn near_trip(&mut self, now: Instant, trip: Duration) {
        let mut of_slot = self.slot(now);
        Shortest::note(&mut of_slot.near, trip);
        self.srtt_us = of_slot.pack();
    }

    /// One of the sender's.
    fn far_trip(&mut self, now: Instant, trip: Duration) {
        let mut of_slot = self.slot(now);
        Shortest::note(&mut of_slot.far, trip);
        self.srtt_us = of_slot.pack();
        if self.sender_rtt().is_some_and(|known| is_longer(known, trip)) {
            self.set_sender_rtt(trip);
        }
    }

    /// The shortest of the present slot so far. If another has ended, the path is as long as its shortest say.
    fn slot(&mut self, now: Instant) -> Shortest {
        let of_slot = Shortest::unpack(self.srtt_us);
        if is_odd(now) == of_slot.odd {
            return of_slot;
        }
        let longer =
            |trip: u16, known: Option<Duration>| whole(trip).filter(|t| is_longer(*t, known.unwrap_or(*t)));
        if let Some(trip) = longer(of_slot.near, self.receiver_rtt()) {
            self.receiver_rtt_us = (trip.as_nanos() / 1_000) as u32;
        }
        if let Some(trip) = longer(of_slot.far, self.sender_rtt()) {
            self.set_sender_rtt(trip);
        }
        Shortest { odd: is_odd(now), near: NONE, far: NONE }
    }

    pub(crate) fn set_sender_rtt(&mut self, trip: Duration) {
        self.sender_rtt = (trip.as_nanos() >> 16).min(0xffff) as u16;
    }

    /// A segment of the other direction passes, or waits here: its timestamp is timed if it is new and none is.
    pub(crate) fn await_echo(&mut self, now: Instant, tcp: &TcpHeader, waits: bool) {
        let Some((tsval, _)) = tcp.timestamps else { return };
        if !self.flags.has(FlowFlags::SENDER_SIDE | FlowFlags::TWO_WAY) {
            return;
        }
        let at = Micros::at(now);
        let timing =
            self.flags.has(FlowFlags::TIMING_SENDER) && at.since(self.reverse_passed) <= LONGEST_TRIP;
        if timing || self.burst == Micros::number(tsval) {
            return;
        }
        self.flags.put(FlowFlags::TIMING_SENDER, !waits);
        self.burst = Micros::number(tsval);
        self.reverse_passed = at;
    }

    /// A segment arrives that may return the timestamp.
    pub(crate) fn hear_echo(&mut self, now: Instant, tcp: &TcpHeader) {
        let watched = FlowFlags::SENDER_SIDE | FlowFlags::TWO_WAY | FlowFlags::TIMING_SENDER;
        let Some((_, echo)) = tcp.timestamps.filter(|_| self.flags.has(watched)) else { return };
        let (echo, awaited) = (SeqNum(echo), SeqNum(self.burst.bits()));
        if echo.before(awaited) {
            return;
        }
        self.flags.clear(FlowFlags::TIMING_SENDER);
        let trip = Micros::at(now).since(self.reverse_passed);
        // A later one was sent on account of a later segment.
        if echo == awaited && trip <= LONGEST_TRIP {
            self.far_trip(now, trip);
        }
    }
}
