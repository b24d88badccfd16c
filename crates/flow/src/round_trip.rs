//! Round trips of a flow, on both sides of the box, and the length of its epoch.
//!
//! Source: TAQ (EuroSys 2014), section 3.3, and RFC 6298 with Karn's rule for what may be timed. Of two estimators of
//! the epoch the two-way one is preferred once it has samples.
//!
//! **Two-way.** A new segment is timed from its departure here to the cumulative ACK that covers it: the round trip on
//! the receiver's side of the box. The handshake gives the sender's side (SYN passing one way to its answer coming
//! back), which is added, so that a box anywhere on the path sees the whole. epoch = 7/8 epoch + 1/8 sample; the first
//! sample is taken as it is. A segment is not timed if any of its bytes, or of those before it in flight, was
//! retransmitted, dropped here or never seen: its ACK would wait for the repair.
//!
//! **One-way.** First the time from the SYN to the first data; then the time from one burst start to the next, where a
//! burst starts with the first packet after a gap of more than half an epoch, if that time lies between half an epoch
//! and two; weight 1/8.
//!
//! **A path that becomes longer.** After a failover, as to a satellite, the shortest round trip known never comes
//! again. Both sides are watched from when the sender's is known. On that side a segment of the other direction is
//! timed whose timestamp is new, to the first segment that returns that timestamp (RFC 7323, section 3.2). None is
//! timed that has to wait here behind others on its way to the sender: this box's queues are no part of a path on
//! either side.
//!
//! A round trip may be long for other reasons: an acknowledgment is delayed, a sender has nothing to send. So time is
//! cut into slots of half a minute, and where even the shortest of a whole slot is longer than what is known by
//! [`is_longer`], it takes its place. Less is known already, and stays. One that is as much shorter counts at once on
//! the sender's side, and any that is shorter at all on the receiver's.

use narrows_units::{Duration, Instant, SeqNum};
use narrows_wire::TcpHeader;

use crate::TrackerConfig;
use crate::epoch::Epoch;
use crate::times::Micros;

/// Longest sample; a longer one says that something else happened.
const LONGEST_SAMPLE: Duration = Duration::from_secs(60);
/// Length of a slot: 2^35 ns, 34 s.
const SLOT_SHIFT: u32 = 35;
/// Time after which a timestamp is given up: `sender` has no room for more.
const LONGEST_TRIP: Duration = Duration::from_secs(4);
/// Excess that, with a quarter of the round trip, does not make a longer path. A delayed acknowledgment (200 ms at most
/// in Linux) may come with each segment that is timed, a sender may pace a window of two segments, a clock may tick
/// seldom. A satellite takes twice as long.
const SLACK: Duration = Duration::from_millis(250);

/// Round trips of a flow.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct RoundTrip {
    /// Segment that is timed on the receiver's side: its end, its arrival and its departure.
    sample_end: SeqNum,
    sample_arrived: Micros,
    sample_departed: Micros,
    /// Start of the latest burst, of which the SYN is one; kept until the epoch is two-way.
    burst: Micros,
    /// Shortest round trip from here to the receiver.
    receiver_us: u32,
    /// Moving average of it (RFC 6298, weight 1/8); kept until the sender's side is known.
    srtt_us: u32,
    /// Shortest round trips of the present slot; kept from then on.
    slot: Slot,
    /// Latest timestamp of the other direction that was looked at.
    tsval: SeqNum,
    /// Time at which what is timed of the other direction passed: a SYN or SYN-ACK, later the segment with that
    /// timestamp.
    reverse_passed: Micros,
    /// Round trip from here to the sender, in units of 2^16 ns.
    sender: u16,
    /// Whether a segment is timed on the receiver's side, and whether it has left.
    sampling: bool,
    departed: bool,
    /// Whether the receiver's side is known, on which the epoch rests from then on.
    two_way: bool,
    /// Whether the sender's side is known, and whether it is timed at present.
    sender_known: bool,
    timing_sender: bool,
}

impl RoundTrip {
    /// Round trips of a flow whose first packet passes now.
    pub(crate) fn new(now: Instant) -> Self {
        Self { burst: Micros::at(now), ..Self::default() }
    }

    /// Whether the epoch rests on two-way samples (data to ACK) rather than on bursts.
    #[cfg(test)]
    pub(crate) const fn is_two_way(&self) -> bool {
        self.two_way
    }

    /// Shortest round trip from here to the receiver, since the path last became longer.
    pub(crate) fn receiver(&self) -> Option<Duration> {
        self.two_way.then(|| Duration::from_micros(u64::from(self.receiver_us)))
    }

    /// Round trip from here to the sender.
    pub(crate) fn sender(&self) -> Option<Duration> {
        self.sender_known.then(|| Duration::from_nanos(u64::from(self.sender) << 16))
    }

    fn srtt(&self) -> Duration {
        Duration::from_micros(u64::from(self.srtt_us))
    }

    #[cfg(test)]
    pub(crate) fn average(&self) -> Option<Duration> {
        self.two_way.then(|| self.srtt())
    }

    /// Times a segment that is wholly new and has arrived, if nothing is being timed and nothing before it is missing.
    pub(crate) fn time_segment(&mut self, now: Instant, end: SeqNum, whole: bool) {
        if self.sampling && Micros::at(now).since(self.sample_arrived) > LONGEST_SAMPLE {
            self.sampling = false;
        }
        if !self.sampling && whole {
            (self.sampling, self.departed) = (true, false);
            (self.sample_end, self.sample_arrived) = (end, Micros::at(now));
        }
    }

    /// Gives up what is timed, if it ends after `seq`: bytes from there on were retransmitted or dropped, so what its
    /// ACK tells is ambiguous.
    pub(crate) fn spoil(&mut self, seq: SeqNum) {
        if seq.before(self.sample_end) {
            self.sampling = false;
        }
    }

    /// Gives up what is timed.
    pub(crate) const fn stop(&mut self) {
        self.sampling = false;
    }

    /// Notes that a segment ending at `end` leaves.
    pub(crate) fn time_departure(&mut self, now: Instant, end: SeqNum) {
        if self.sampling && !self.departed && end == self.sample_end {
            self.departed = true;
            self.sample_departed = Micros::at(now);
        }
    }

    /// Notes a cumulative ACK of all before `ack`.
    pub(crate) fn time_ack(&mut self, now: Instant, ack: SeqNum, epoch: &mut Epoch, config: &TrackerConfig) {
        if !self.sampling || ack.before(self.sample_end) {
            return;
        }
        self.sampling = false;
        let at = Micros::at(now);
        let rtt = at.since(self.sample_departed);
        if !self.departed || rtt > LONGEST_SAMPLE {
            return;
        }
        let us = (rtt.as_nanos() / 1_000) as u32;
        let first = !core::mem::replace(&mut self.two_way, true);
        if self.sender_known {
            self.near_trip(now, rtt);
        } else {
            let average = micros32(self.srtt().ewma(rtt, config.ewma_shift));
            self.srtt_us = if first { us } else { average };
        }
        self.receiver_us = if first { us } else { self.receiver_us.min(us) };
        let near = if config.epoch_includes_queue { at.since(self.sample_arrived) } else { rtt };
        let sample = near + self.sender().unwrap_or(Duration::ZERO);
        epoch.set_len(if first { sample } else { epoch.len().ewma(sample, config.ewma_shift) }, config);
    }

    /// Notes that a SYN or SYN-ACK of the other direction passes on its way to the sender, who answers at once.
    pub(crate) fn time_sender(&mut self, now: Instant) {
        if !self.sender_known {
            self.timing_sender = true;
            self.reverse_passed = Micros::at(now);
        }
    }

    /// Whether a packet that passed on the way to the sender is being timed.
    pub(crate) const fn is_timing_sender(&self) -> bool {
        self.timing_sender
    }

    /// Notes that such a packet passes again: the answer is most likely to this one.
    pub(crate) fn time_sender_again(&mut self, now: Instant) {
        if self.timing_sender {
            self.time_sender(now);
        }
    }

    /// Notes that the sender's first answer arrives.
    pub(crate) fn time_answer(&mut self, now: Instant, epoch: &mut Epoch, config: &TrackerConfig) {
        if self.sender_known || !self.timing_sender {
            return;
        }
        (self.timing_sender, self.sender_known) = (false, true);
        self.set_sender(Micros::at(now).since(self.reverse_passed));
        if self.two_way {
            // Until here the epoch was the receiver's side alone.
            epoch.set_len(self.srtt() + self.sender().unwrap_or(Duration::ZERO), config);
        }
        self.slot = Slot::partial(now);
    }

    /// Notes the first segment with data; `syn` tells whether the SYN was seen.
    pub(crate) fn first_data(&mut self, now: Instant, syn: bool, epoch: &mut Epoch, config: &TrackerConfig) {
        if syn && !self.two_way {
            epoch.set_len(Micros::at(now).since(self.burst), config);
        }
        self.begin_burst(now);
    }

    /// Notes that a burst begins, unless the epoch is two-way.
    pub(crate) const fn begin_burst(&mut self, now: Instant) {
        if !self.two_way {
            self.burst = Micros::at(now);
        }
    }

    /// Notes a later segment with data, `gap` after the one before.
    pub(crate) fn later_data(
        &mut self,
        now: Instant,
        gap: Duration,
        epoch: &mut Epoch,
        config: &TrackerConfig,
    ) {
        let len = epoch.len();
        if gap <= len / 2 || self.two_way {
            return;
        }
        let sample = Micros::at(now).since(self.burst);
        self.begin_burst(now);
        // A gap of more than two epochs also catches what the 32-bit clock would make of an hour.
        let plausible = gap < len * 2 && len / 2 < sample && sample < len * 2;
        if plausible {
            epoch.set_len(len.ewma(sample, config.ewma_shift), config);
        }
    }

    /// Takes a round trip of the receiver's side into the slot.
    fn near_trip(&mut self, now: Instant, trip: Duration) {
        self.turn_slot(now);
        self.slot.note_near(trip);
    }

    /// Takes a round trip of the sender's side into the slot.
    fn far_trip(&mut self, now: Instant, trip: Duration) {
        self.turn_slot(now);
        self.slot.note_far(trip);
        if self.sender().is_some_and(|known| is_longer(known, trip)) {
            self.set_sender(trip);
        }
    }

    /// Begins another slot if one has ended: the path is as long as the shortest of that say.
    fn turn_slot(&mut self, now: Instant) {
        if self.slot.holds(now) {
            return;
        }
        let ended = core::mem::replace(&mut self.slot, Slot::empty(now));
        let longer = |trip: Option<Duration>, known: Option<Duration>| {
            trip.filter(|trip| is_longer(*trip, known.unwrap_or(*trip)))
        };
        if let Some(trip) = longer(ended.near(), self.receiver()) {
            self.receiver_us = (trip.as_nanos() / 1_000) as u32;
        }
        if let Some(trip) = longer(ended.far(), self.sender()) {
            self.set_sender(trip);
        }
    }

    fn set_sender(&mut self, trip: Duration) {
        self.sender = (trip.as_nanos() >> 16).min(0xffff) as u16;
    }

    /// Notes a segment of the other direction that passes, or `waits` here: its timestamp is timed if it is new and
    /// none is.
    pub(crate) fn await_echo(&mut self, now: Instant, tcp: &TcpHeader, waits: bool) {
        let Some((tsval, _)) = tcp.timestamps else { return };
        if !self.sender_known || !self.two_way {
            return;
        }
        let at = Micros::at(now);
        let timing = self.timing_sender && at.since(self.reverse_passed) <= LONGEST_TRIP;
        if timing || self.tsval == SeqNum(tsval) {
            return;
        }
        self.timing_sender = !waits;
        (self.tsval, self.reverse_passed) = (SeqNum(tsval), at);
    }

    /// Notes a segment that arrives and may return the timestamp.
    pub(crate) fn hear_echo(&mut self, now: Instant, tcp: &TcpHeader) {
        let watched = self.timing_sender && self.sender_known && self.two_way;
        let Some((_, echo)) = tcp.timestamps.filter(|_| watched) else { return };
        if SeqNum(echo).before(self.tsval) {
            return;
        }
        self.timing_sender = false;
        let trip = Micros::at(now).since(self.reverse_passed);
        // A later one was sent on account of a later segment.
        if SeqNum(echo) == self.tsval && trip <= LONGEST_TRIP {
            self.far_trip(now, trip);
        }
    }
}

/// Shortest round trips of a slot of time, in units of 2^17 ns.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Slot {
    /// The receiver's side, and in the highest bit whether the slot has an odd number.
    near_odd: u16,
    far: u16,
}

impl Slot {
    /// Mark of a slot that began before it was watched: its round trip counts for nothing.
    const PARTIAL: u16 = 0;
    /// Mark of a slot that had no round trip yet.
    const NONE: u16 = 0x7fff;
    const ODD: u16 = 0x8000;

    const fn odd(now: Instant) -> u16 {
        if now.as_nanos() >> SLOT_SHIFT & 1 == 1 { Self::ODD } else { 0 }
    }

    const fn partial(now: Instant) -> Self {
        Self { near_odd: Self::odd(now) | Self::PARTIAL, far: Self::PARTIAL }
    }

    const fn empty(now: Instant) -> Self {
        Self { near_odd: Self::odd(now) | Self::NONE, far: Self::NONE }
    }

    const fn holds(self, now: Instant) -> bool {
        self.near_odd & Self::ODD == Self::odd(now)
    }

    fn near(self) -> Option<Duration> {
        Self::whole(self.near_odd & !Self::ODD)
    }

    fn far(self) -> Option<Duration> {
        Self::whole(self.far)
    }

    /// Shortest round trip of one side, if the slot was whole and had any.
    fn whole(units: u16) -> Option<Duration> {
        let known = units != Self::PARTIAL && units != Self::NONE;
        known.then(|| Duration::from_nanos(u64::from(units) << 17))
    }

    fn note_near(&mut self, trip: Duration) {
        self.near_odd = self.near_odd & Self::ODD | Self::shorter(self.near_odd & !Self::ODD, trip);
    }

    fn note_far(&mut self, trip: Duration) {
        self.far = Self::shorter(self.far, trip);
    }

    fn shorter(known: u16, trip: Duration) -> u16 {
        let units = (trip.as_nanos() >> 17).clamp(1, u64::from(Self::NONE) - 1) as u16;
        if known == Self::PARTIAL { known } else { known.min(units) }
    }
}

/// Whether a round trip is of a longer path than one of which this was the shortest.
fn is_longer(trip: Duration, shortest: Duration) -> bool {
    trip > shortest + shortest / 4 + SLACK
}

fn micros32(d: Duration) -> u32 {
    (d.as_nanos() / 1_000).min(u64::from(u32::MAX)) as u32
}
