//! The record of one flow: what is kept, and what can be asked. How it goes on from epoch to epoch is in
//! [`crate::advance`].
//!
//! Source: TAQ (EuroSys 2014), the per-flow record of section 3.3. Where we differ: `unrepaired` counts packets that
//! were dropped here and whose bytes have not gone through since. A dropped retransmission of such a packet does not
//! count twice, or one repair could never settle it. The bytes are kept as ranges of sequence numbers, so that a
//! cumulative ACK, or one large retransmission of two small packets, settles them too.
//!
//! Times inside a record are 32-bit and wrap: microseconds for what lasts seconds, units of 2^20 ns ([`Coarse`]) for
//! what lasts days.

use narrows_units::{Duration, Instant, Rate, SeqNum};
use narrows_users::{User, UserRule};
use narrows_wire::FlowKey;

use crate::TrackerConfig;
use crate::flags::FlowFlags;
use crate::phase::Phase;
use crate::seldom::Seldom;
use crate::times::{Coarse, Micros, WindowScale};

/// What is known of one flow, in the direction that is queued. The first 128 bytes are what a packet of new data
/// touches; links, which are touched seldom, are kept apart.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[repr(C, align(64))]
pub struct Flow {
    pub(crate) key: FlowKey,
    pub(crate) phase: Option<Phase>,
    pub(crate) prev_phase: Option<Phase>,
    pub(crate) flags: FlowFlags,
    /// The next flow of the same bucket, or of the free slots.
    pub(crate) chain: u32,
    pub(crate) max_seq: SeqNum,
    pub(crate) seen: Coarse,
    /// Nanoseconds; at most 4 s.
    pub(crate) epoch_ns: u32,
    pub(crate) epoch_bytes: u32,
    pub(crate) last_data: Instant,
    pub(crate) epoch_start: Instant,
    pub(crate) new_pkts: u16,
    pub(crate) retx_pkts: u16,
    pub(crate) prev_new: u16,
    pub(crate) prev_retx: u16,
    pub(crate) drops_cur: u16,
    pub(crate) drops_prev: u16,
    pub(crate) unrepaired: u16,
    pub(crate) silent_epochs: u16,
    pub(crate) queued: u32,
    pub(crate) packets: u32,
    pub(crate) sample_end: SeqNum,
    pub(crate) sample_arrived: Micros,
    pub(crate) rate_bytes: u32,
    /// The SYN of this direction before the first data, the start of the latest burst after it; where the path is
    /// watched ([`crate::path`]), the last timestamp looked at.
    pub(crate) burst: Micros,
    pub(crate) payload: u64,
    pub(crate) sample_departed: Micros,
    pub(crate) highest_ack: SeqNum,
    pub(crate) dropped: Seldom<(), 3>,
    pub(crate) holes: Seldom<Micros, 2>,
    /// While `FlowFlags::REDROPPED` holds, the start of the latest retransmission dropped here; else the end of the
    /// latest segment too far ahead to be believed before the receiver acknowledges it, or a number seen before.
    pub(crate) redropped: SeqNum,
    /// Until the sender's side is known, the moving average of the receiver's; then the shortest round trips of both
    /// sides of late ([`crate::path`]).
    pub(crate) srtt_us: u32,
    pub(crate) receiver_rtt_us: u32,
    pub(crate) last_silence_us: u32,
    pub(crate) forward_isn: SeqNum,
    pub(crate) reverse_isn: SeqNum,
    /// When what is timed of the other direction passed: a SYN or SYN-ACK, later a segment with a timestamp.
    pub(crate) reverse_passed: Micros,
    pub(crate) created: Coarse,
    pub(crate) generation: u16,
    /// Round trip from here to the sender, in units of 2^16 ns.
    pub(crate) sender_rtt: u16,
    pub(crate) mss: u16,
    pub(crate) forward_scale: Option<WindowScale>,
    pub(crate) reverse_scale: Option<WindowScale>,
}

/// A record is three cache lines; with its links and its share of the index (two 32-bit buckets) it is 220 bytes.
const _: () = assert!(size_of::<Flow>() == 3 * 64 && crate::Tracker::BYTES_PER_FLOW <= 220);
const _: () = assert!(core::mem::offset_of!(Flow, sample_departed) == 128);

impl Flow {
    pub(crate) fn new(now: Instant, key: FlowKey, generation: u16, config: &TrackerConfig) -> Self {
        let mut flags = FlowFlags::default();
        flags.set(FlowFlags::LIVE | FlowFlags::REPORT_NEW);
        Self {
            key,
            phase: None,
            prev_phase: None,
            flags,
            max_seq: SeqNum(0),
            seen: Coarse::at(now),
            epoch_ns: nanos32(config.initial_epoch),
            epoch_bytes: 0,
            last_data: now,
            epoch_start: now,
            new_pkts: 0,
            retx_pkts: 0,
            prev_new: 0,
            prev_retx: 0,
            drops_cur: 0,
            drops_prev: 0,
            unrepaired: 0,
            silent_epochs: 0,
            queued: 0,
            chain: narrows_lists::NIL,
            burst: Micros::at(now),
            sample_end: SeqNum(0),
            sample_arrived: Micros::default(),
            sample_departed: Micros::default(),
            packets: 0,
            payload: 0,
            rate_bytes: 0,
            dropped: Seldom::default(),
            redropped: SeqNum(0),
            holes: Seldom::default(),
            highest_ack: SeqNum(0),
            srtt_us: 0,
            receiver_rtt_us: 0,
            last_silence_us: 0,
            forward_isn: SeqNum(0),
            reverse_isn: SeqNum(0),
            reverse_passed: Micros::default(),
            created: Coarse::at(now),
            generation,
            sender_rtt: 0,
            mss: 0,
            forward_scale: None,
            reverse_scale: None,
        }
    }

    /// A new connection began on the same key: everything TCP is forgotten, the slot and what waits in it stay.
    pub(crate) fn restart(&mut self, now: Instant, config: &TrackerConfig) {
        let kept = FlowFlags::LIVE
            | FlowFlags::REPORT_NEW
            | FlowFlags::ACTIVE
            | FlowFlags::PROVEN
            | FlowFlags::LISTED
            | FlowFlags::LIST_PROVEN;
        let mut flags = self.flags;
        flags.keep(kept);
        flags.set(FlowFlags::REPORT_RESTARTED | FlowFlags::TCP);
        let (queued, chain) = (self.queued, self.chain);
        *self = Self { flags, queued, chain, ..Self::new(now, self.key, self.generation, config) };
    }

    /// The flow and direction.
    #[must_use]
    pub const fn key(&self) -> &FlowKey {
        &self.key
    }
    /// The middlebox's view of the flow's round trip: what its sender would measure, without the wait in this box's own
    /// queue (unless [`TrackerConfig::epoch_includes_queue`]).
    #[must_use]
    pub const fn epoch_len(&self) -> Duration {
        Duration::from_nanos(self.epoch_ns as u64)
    }
    /// Smallest time from a segment's departure here to its ACK's arrival here, the handshake included, since the path
    /// last became longer: the round trip from this box to the receiver.
    #[must_use]
    pub fn receiver_rtt(&self) -> Option<Duration> {
        self.flags.has(FlowFlags::RTT).then(|| Duration::from_micros(u64::from(self.receiver_rtt_us)))
    }
    /// The round trip from this box to the sender, to 65 us, at most 4.3 s: taken from the handshake, and from
    /// timestamps once the path has become another.
    #[must_use]
    pub fn sender_rtt(&self) -> Option<Duration> {
        self.flags.has(FlowFlags::SENDER_SIDE).then(|| Duration::from_nanos(u64::from(self.sender_rtt) << 16))
    }
    /// What the sender seems to be doing; `None` for what is not TCP and for TCP that has not sent data yet.
    #[must_use]
    pub const fn phase(&self) -> Option<Phase> {
        self.phase
    }
    /// The phase before this one: what the sender did when it last transmitted, if it is silent now.
    #[must_use]
    pub const fn previous_phase(&self) -> Option<Phase> {
        self.prev_phase
    }
    /// Packets of new data in this epoch or the last, whichever had more: a rough measure of the sender's window (TAQ,
    /// section 4).
    #[must_use]
    pub const fn window_pkts(&self) -> u32 {
        if self.new_pkts > self.prev_new { self.new_pkts as u32 } else { self.prev_new as u32 }
    }
    /// The sequence number after the highest byte that has arrived.
    #[must_use]
    pub const fn max_seq(&self) -> SeqNum {
        self.max_seq
    }
    /// Packets of this flow dropped here this epoch.
    #[must_use]
    pub const fn drops_cur(&self) -> u32 {
        self.drops_cur as u32
    }
    /// The same last epoch.
    #[must_use]
    pub const fn drops_prev(&self) -> u32 {
        self.drops_prev as u32
    }
    /// Packets dropped here whose bytes have not gone through since.
    #[must_use]
    pub const fn unrepaired(&self) -> u32 {
        self.unrepaired as u32
    }
    /// Whether a byte of `[seq, seq + len)` was dropped here and has not gone through since.
    #[must_use]
    pub(crate) fn is_unrepaired(&self, seq: SeqNum, len: u32) -> bool {
        self.dropped.iter().any(|r| seq.before(r.end()) && r.start.before(seq + len))
    }
    /// Length of the most recent silence: the gap that ended when data came again in a silent phase, or as a
    /// retransmission out of idleness.
    #[must_use]
    pub const fn last_silence(&self) -> Duration {
        Duration::from_micros(self.last_silence_us as u64)
    }
    /// Time since data last arrived (any packet, if this is not TCP).
    #[must_use]
    pub const fn silence(&self, now: Instant) -> Duration {
        now.since(self.last_data)
    }
    /// Moving average of the bytes that arrive in an epoch (or leave, [`TrackerConfig::rate_of_departures`]), over its
    /// length; 1 bit/s before the first epoch ended.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        // 2^32 bytes * 8 * 10^6 stays below 2^55.
        Rate::from_bps(self.rate_bytes as u64 * 8_000_000 / (self.epoch_ns as u64 / 1_000))
    }
    /// Packets with data seen in the flow's life (all packets, if this is not TCP).
    #[must_use]
    pub const fn sent_packets(&self) -> u32 {
        self.packets
    }
    /// Since the record was made, or its connection began; to a millisecond.
    #[must_use]
    pub const fn age(&self, now: Instant) -> Duration {
        Coarse::at(now).since(self.created)
    }
    /// Its packets that wait in the discipline.
    #[must_use]
    pub const fn queued(&self) -> u32 {
        self.queued
    }
    /// Whether this is TCP with readable headers.
    #[must_use]
    pub const fn is_tcp(&self) -> bool {
        self.flags.has(FlowFlags::TCP)
    }
    /// Whether the connection ended: a RST, or a FIN each way.
    #[must_use]
    pub(crate) const fn closed(&self) -> bool {
        self.flags.has(FlowFlags::CLOSED)
    }
    /// Whether data was seen in the queued direction.
    #[must_use]
    pub(crate) const fn data_seen(&self) -> bool {
        self.flags.has(FlowFlags::DATA)
    }
    /// Whether the flow counts for the fair share.
    #[must_use]
    pub(crate) const fn is_active(&self) -> bool {
        self.flags.has(FlowFlags::ACTIVE)
    }
    /// How often this slot has been given to a flow, modulo 2^16. State that others keep by [`crate::FlowId`] is this
    /// flow's if they noted the same number with it.
    #[must_use]
    pub const fn generation(&self) -> u32 {
        self.generation as u32
    }
    /// Window scale offered by the sender of the queued direction in its SYN.
    #[must_use]
    pub fn forward_scale(&self) -> Option<u8> {
        self.forward_scale.map(WindowScale::shift)
    }
    /// Window scale offered by the receiver.
    #[must_use]
    pub fn reverse_scale(&self) -> Option<u8> {
        self.reverse_scale.map(WindowScale::shift)
    }
    /// Whose flow this is.
    #[must_use]
    pub const fn user(&self, rule: &UserRule) -> User {
        rule.user(&self.key, self.initiator())
    }
    /// Whether it began with a SYN of the queued direction.
    #[must_use]
    pub fn is_call(&self) -> bool {
        self.initiator() == Some(false)
    }
    /// Whether the destination opened the connection; `None` where no SYN or SYN|ACK was seen, and for what is not TCP.
    pub(crate) const fn initiator(&self) -> Option<bool> {
        self.flags.initiator()
    }
}

pub(crate) const fn nanos32(d: Duration) -> u32 {
    let ns = d.as_nanos();
    if ns > u32::MAX as u64 { u32::MAX } else { ns as u32 }
}
