//! Record of one flow: what is kept, and what can be asked. What a packet changes in it is in [`crate::packets`].
//!
//! Source: TAQ (EuroSys 2014), the per-flow record of section 3.3. The parts of a flow keep their own invariants:
//! [`Epoch`], [`Sequence`], [`RoundTrip`], [`Handshake`].
//!
//! Times inside a record are 32-bit and wrap: microseconds for what lasts seconds, units of 2^20 ns ([`Coarse`]) for
//! what lasts days.

use narrows_units::{Duration, Instant, Rate, SeqNum};
use narrows_users::{User, UserRule};
use narrows_wire::{FlowKey, TcpHeader};

use crate::TrackerConfig;
use crate::epoch::Epoch;
use crate::flags::FlowFlags;
use crate::handshake::Handshake;
use crate::phase::Phase;
use crate::round_trip::RoundTrip;
use crate::sequence::Sequence;
use crate::times::Coarse;

/// Record of one flow, in the direction that is queued. A packet of new data touches all of it; links, which are
/// touched seldom, are kept apart.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[repr(C, align(64))]
pub struct Flow {
    pub(crate) key: FlowKey,
    pub(crate) generation: u16,
    pub(crate) flags: FlowFlags,
    /// The next flow of the same bucket, or of the free slots.
    pub(crate) chain: u32,
    /// When a packet of either direction was last seen.
    pub(crate) seen: Coarse,
    /// Packets that wait in the discipline.
    pub(crate) queued: u32,
    pub(crate) last_data: Instant,
    pub(crate) epoch: Epoch,
    pub(crate) sequence: Sequence,
    pub(crate) round_trip: RoundTrip,
    pub(crate) handshake: Handshake,
    /// Packets with data (all packets, if the flow is not TCP).
    pub(crate) packets: u32,
    pub(crate) created: Coarse,
}

/// A record is three cache lines; with its links and its share of the index (two 32-bit buckets) it is 220 bytes.
const _: () = assert!(size_of::<Flow>() == Flow::LINES * 64 && crate::Tracker::BYTES_PER_FLOW <= 220);

impl Flow {
    /// Cache lines of a record.
    pub(crate) const LINES: usize = 3;

    pub(crate) fn new(now: Instant, key: FlowKey, generation: u16, config: &TrackerConfig) -> Self {
        let mut flags = FlowFlags::default();
        flags.set(FlowFlags::LIVE | FlowFlags::REPORT_NEW);
        Self {
            key,
            generation,
            flags,
            chain: narrows_lists::NIL,
            seen: Coarse::at(now),
            queued: 0,
            last_data: now,
            epoch: Epoch::new(now, config),
            sequence: Sequence::UNKNOWN,
            round_trip: RoundTrip::new(now),
            handshake: Handshake::default(),
            packets: 0,
            created: Coarse::at(now),
        }
    }

    /// Begins anew for a new connection on the same key: what is known of TCP is forgotten, the slot and the packets
    /// that wait in it stay.
    pub(crate) fn restart(&mut self, now: Instant, config: &TrackerConfig) {
        let kept = FlowFlags::LIVE
            | FlowFlags::REPORT_NEW
            | FlowFlags::ACTIVE
            | FlowFlags::PROVEN
            | FlowFlags::LISTED
            | FlowFlags::CROWD
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
    /// Length of the epoch: the round trip that its sender would measure, without the wait in this box's own queue
    /// (unless [`TrackerConfig::epoch_includes_queue`]).
    #[must_use]
    pub const fn epoch_len(&self) -> Duration {
        self.epoch.len()
    }
    /// Smallest time from a segment's departure here to the arrival of the segment's ACK here, the handshake included,
    /// since the path last became longer: the round trip from this box to the receiver.
    #[must_use]
    pub fn receiver_rtt(&self) -> Option<Duration> {
        self.round_trip.receiver()
    }
    /// The round trip from this box to the sender, to 65 us, at most 4.3 s: taken from the handshake, and from
    /// timestamps once the path has become another.
    #[must_use]
    pub fn sender_rtt(&self) -> Option<Duration> {
        self.round_trip.sender()
    }
    /// Phase of the sender; `None` if this is not TCP or has not sent data yet.
    #[must_use]
    pub const fn phase(&self) -> Option<Phase> {
        self.epoch.phase()
    }
    /// Phase before the present one: the sender's phase when it last transmitted, if the sender is silent now.
    #[must_use]
    pub const fn previous_phase(&self) -> Option<Phase> {
        self.epoch.prev_phase()
    }
    /// Packets of new data in the present epoch or the last, whichever had more: a rough measure of the sender's window
    /// (TAQ, section 4).
    #[must_use]
    pub const fn window_pkts(&self) -> u32 {
        let (now, before) = (self.epoch.new_pkts(), self.epoch.prev_new_pkts());
        if now > before { now as u32 } else { before as u32 }
    }
    /// The sequence number after the highest byte that has arrived.
    #[must_use]
    pub const fn max_seq(&self) -> SeqNum {
        self.sequence.max()
    }
    /// The highest cumulative acknowledgment seen in the other direction.
    #[must_use]
    pub const fn highest_ack(&self) -> Option<SeqNum> {
        self.sequence.highest_ack()
    }
    /// Whether an acknowledgment can be one of data that has passed here: not of any that has not, and no older than
    /// what may still be under way. Nothing else of a packet that acknowledges anything else is to be believed.
    #[must_use]
    pub fn permits(&self, ack: SeqNum) -> bool {
        self.sequence.permits(ack)
    }
    /// Tells whether a segment lies below the highest number that the sender has reached, as far as is known.
    #[must_use]
    pub fn has_passed(&self, tcp: &TcpHeader) -> bool {
        tcp.seq_end().at_or_before(self.max_seq()) && self.sequence.is_plausible(tcp.seq, tcp.seq_end())
    }
    /// Packets of the flow dropped here in the present epoch.
    #[must_use]
    pub const fn drops_cur(&self) -> u32 {
        self.epoch.drops() as u32
    }
    /// Packets of the flow dropped here in the last epoch.
    #[must_use]
    pub const fn drops_prev(&self) -> u32 {
        self.epoch.prev_drops() as u32
    }
    /// Packets dropped here whose bytes have not gone through since.
    #[must_use]
    pub const fn unrepaired(&self) -> u32 {
        self.sequence.unrepaired() as u32
    }
    /// Length of the most recent silence: the gap that ended when data came again in a silent phase, or as a
    /// retransmission out of idleness.
    #[must_use]
    pub const fn last_silence(&self) -> Duration {
        self.epoch.last_silence()
    }
    /// Time since data last arrived (any packet, if the flow is not TCP).
    #[must_use]
    pub const fn silence(&self, now: Instant) -> Duration {
        now.since(self.last_data)
    }
    /// Moving average of the bytes that arrive in an epoch (or leave, [`TrackerConfig::rate_of_departures`]), over its
    /// length; 1 bit/s before the first epoch ended.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.epoch.rate()
    }
    /// Packets with data seen in the flow's life (all packets, if this is not TCP).
    #[must_use]
    pub const fn sent_packets(&self) -> u32 {
        self.packets
    }
    /// Time since the record was made, or its connection began; to a millisecond.
    #[must_use]
    pub const fn age(&self, now: Instant) -> Duration {
        Coarse::at(now).since(self.created)
    }
    /// Packets of the flow that wait in the discipline.
    #[must_use]
    pub const fn queued(&self) -> u32 {
        self.queued
    }
    /// Tells whether the flow is TCP with readable headers.
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
    /// How often the flow's slot has been given to a flow, modulo 2^16. State kept elsewhere by [`crate::FlowId`] is
    /// this flow's if the same number was noted with the state.
    #[must_use]
    pub const fn generation(&self) -> u32 {
        self.generation as u32
    }
    /// Window scale offered by the sender of the queued direction in the sender's SYN.
    #[must_use]
    pub fn forward_scale(&self) -> Option<u8> {
        self.handshake.forward_scale()
    }
    /// Window scale offered by the receiver.
    #[must_use]
    pub fn reverse_scale(&self) -> Option<u8> {
        self.handshake.reverse_scale()
    }
    /// User to whom the flow belongs.
    #[must_use]
    pub const fn user(&self, rule: &UserRule) -> User {
        rule.user(&self.key, self.initiator())
    }
    /// Tells whether the flow began with a SYN of the queued direction.
    #[must_use]
    pub fn is_call(&self) -> bool {
        self.initiator() == Some(false)
    }
    /// Tells whether the flow began with a SYN of the other direction, as far as is known.
    #[must_use]
    pub fn is_called_for(&self) -> bool {
        self.initiator() == Some(true)
    }
    /// Whether the destination opened the connection; `None` where no SYN or SYN|ACK was seen, and for what is not TCP.
    pub(crate) const fn initiator(&self) -> Option<bool> {
        self.flags.initiator()
    }
}

/// Facts that only tests and fuzzing ask for.
#[cfg(any(test, feature = "fuzzing"))]
impl Flow {
    /// Packets with new data in the present epoch.
    pub(crate) const fn new_pkts(&self) -> u32 {
        self.epoch.new_pkts() as u32
    }
    /// Retransmissions in the present epoch.
    pub(crate) const fn retx_pkts(&self) -> u32 {
        self.epoch.retx_pkts() as u32
    }
    /// Consecutive epochs without a packet of data, up to the last one that ended.
    pub(crate) const fn silent_epochs(&self) -> u32 {
        self.epoch.silent_epochs() as u32
    }
}

#[cfg(test)]
impl Flow {
    /// Whether the epoch rests on two-way samples (data to ACK) rather than on bursts.
    pub(crate) const fn epoch_is_two_way(&self) -> bool {
        self.round_trip.is_two_way()
    }
    /// Moving average of the receiver's round trip (RFC 6298, weight 1/8).
    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.round_trip.average()
    }
    /// Packets with new data last epoch.
    pub(crate) const fn prev_new_pkts(&self) -> u32 {
        self.epoch.prev_new_pkts() as u32
    }
    /// Whether a byte of `[seq, seq + len)` was dropped here and has not gone through since.
    pub(crate) fn is_unrepaired(&self, seq: SeqNum, len: u32) -> bool {
        self.sequence.is_unrepaired(seq, seq + len)
    }
    /// Whether a SYN or SYN-ACK was seen in the queued direction.
    pub(crate) const fn syn_seen(&self) -> bool {
        self.flags.has(FlowFlags::SYN)
    }
    /// Whether a FIN was seen in the queued direction.
    pub(crate) const fn fin_seen(&self) -> bool {
        self.flags.has(FlowFlags::FIN)
    }
    /// The shift that applies to windows the receiver advertises; `None` if not both SYNs were seen.
    pub(crate) fn reverse_window_shift(&self) -> Option<u8> {
        if !self.flags.has(FlowFlags::SYN | FlowFlags::REVERSE_SYN) {
            return None;
        }
        // RFC 7323, section 2.2: scaling is on only if both SYNs offered it.
        Some(self.forward_scale().and(self.reverse_scale()).unwrap_or(0))
    }
    /// The receive window in bytes that a segment of the other direction advertises; `None` if not both SYNs were seen.
    pub(crate) fn reverse_window(&self, tcp: &narrows_wire::TcpHeader) -> Option<u32> {
        let shift = self.reverse_window_shift()?;
        // The window of a SYN is never scaled.
        let shift = if tcp.flags.has(narrows_wire::Flags::SYN) { 0 } else { shift };
        Some(u32::from(tcp.window) << shift)
    }
}
