//! The record of one flow: what is kept, what can be asked, and how it rolls from epoch to epoch.
//!
//! Source: TAQ (EuroSys 2014), the per-flow record of section 4.1. Where we differ: `unrepaired` counts packets dropped
//! and not yet repaired, so a dropped retransmission of a packet that is unrepaired already does not count twice (else
//! one repair could never settle it); what is unrepaired is kept as ranges of sequence numbers, so that a cumulative
//! ACK, or one large retransmission of two small packets, settles it too.
//!
//! Times inside a record are 32-bit and wrap: microseconds for what lasts seconds, units of 2^20 ns ([`Coarse`]) for
//! what lasts days.

use core::net::IpAddr;

use narrows_units::{Duration, Instant, Rate, SeqNum};
use narrows_wire::{FlowKey, TcpHeader};

use crate::TrackerConfig;
use crate::phase::{EpochCounts, Phase};
use crate::ranges::Ranges;

/// What is known of one flow, in the direction that is queued. The first 128 bytes are what a packet of new data
/// touches; links, which are touched seldom, are kept apart.
#[derive(Clone, Debug)]
#[repr(C, align(32))]
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
    /// The SYN of this direction before the first data, the start of the latest burst after it.
    pub(crate) burst: Micros,
    pub(crate) payload: u64,
    pub(crate) sample_departed: Micros,
    pub(crate) highest_ack: SeqNum,
    pub(crate) dropped: Ranges<(), 3>,
    /// Start of the latest retransmission dropped here; counts while `FlowFlags::REDROPPED`.
    pub(crate) redropped: SeqNum,
    pub(crate) holes: Ranges<Micros, 2>,
    pub(crate) srtt_us: u32,
    pub(crate) receiver_rtt_us: u32,
    pub(crate) last_silence_us: u32,
    pub(crate) forward_isn: SeqNum,
    pub(crate) reverse_isn: SeqNum,
    /// When the SYN or SYN-ACK of the other direction passed.
    pub(crate) reverse_syn: Micros,
    pub(crate) created: Coarse,
    pub(crate) generation: u16,
    /// Round trip from here to the sender, in units of 2^16 ns.
    pub(crate) sender_rtt: u16,
    pub(crate) mss: u16,
    pub(crate) forward_scale: Option<WindowScale>,
    pub(crate) reverse_scale: Option<WindowScale>,
}

/// A record, its links and its share of the index (two 32-bit buckets) stay within 256 bytes.
const _: () = assert!(crate::Tracker::BYTES_PER_FLOW <= 256);
const _: () = assert!(core::mem::offset_of!(Flow, sample_departed) == 128);

/// Facts that are true or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowFlags(u32);

impl FlowFlags {
    /// The slot holds a flow.
    pub(crate) const LIVE: u32 = 1;
    /// A whole TCP header was seen.
    pub(crate) const TCP: u32 = 1 << 1;
    /// `max_seq` is known.
    pub(crate) const SEQ: u32 = 1 << 2;
    /// `highest_ack` is known.
    pub(crate) const ACKED: u32 = 1 << 3;
    /// A segment with data (or FIN) was seen.
    pub(crate) const DATA: u32 = 1 << 4;
    /// A SYN or SYN-ACK of the queued direction was seen.
    pub(crate) const SYN: u32 = 1 << 5;
    /// One of the other direction was seen.
    pub(crate) const REVERSE_SYN: u32 = 1 << 6;
    /// A FIN of the queued direction was seen.
    pub(crate) const FIN: u32 = 1 << 7;
    /// One of the other direction was seen.
    pub(crate) const REVERSE_FIN: u32 = 1 << 8;
    /// A RST was seen, or FINs both ways.
    pub(crate) const CLOSED: u32 = 1 << 9;
    /// The epoch rests on two-way samples.
    pub(crate) const TWO_WAY: u32 = 1 << 10;
    /// A segment is being timed.
    pub(crate) const SAMPLING: u32 = 1 << 11;
    /// It has left the box.
    pub(crate) const DEPARTED: u32 = 1 << 12;
    /// `receiver_rtt_us` and `srtt_us` are known.
    pub(crate) const RTT: u32 = 1 << 13;
    /// `sender_rtt` is known.
    pub(crate) const SENDER_SIDE: u32 = 1 << 14;
    /// `reverse_syn` is running.
    pub(crate) const TIMING_SENDER: u32 = 1 << 15;
    /// `rate_bytes` has had its first sample.
    pub(crate) const RATED: u32 = 1 << 16;
    /// The last new segment carried one byte.
    pub(crate) const TAIL_BYTE: u32 = 1 << 17;
    /// The receiver's last word on its window was zero.
    pub(crate) const ZERO_WINDOW: u32 = 1 << 18;
    /// `redropped` holds.
    pub(crate) const REDROPPED: u32 = 1 << 19;
    /// Counted by `active_flows`.
    pub(crate) const ACTIVE: u32 = 1 << 20;
    /// More than a handshake or a single packet: evicted last.
    pub(crate) const PROVEN: u32 = 1 << 21;
    /// One packet that is no SYN and no RST was seen.
    pub(crate) const ONCE: u32 = 1 << 22;
    /// The next observation says `fresh`.
    pub(crate) const REPORT_NEW: u32 = 1 << 23;
    /// The next observation says `restarted`.
    pub(crate) const REPORT_RESTARTED: u32 = 1 << 24;
    /// The initiator is known.
    pub(crate) const INITIATOR: u32 = 1 << 25;
    /// The initiator is the destination.
    pub(crate) const INITIATOR_DST: u32 = 1 << 26;
    /// On one of the eviction lists.
    pub(crate) const LISTED: u32 = 1 << 27;
    /// On that of the proven.
    pub(crate) const LIST_PROVEN: u32 = 1 << 28;
    /// The segment that just arrived repeated old bytes before new ones.
    pub(crate) const OVERLAP: u32 = 1 << 29;
    /// The segment that just arrived was out of any window.
    pub(crate) const OUT_OF_WINDOW: u32 = 1 << 30;
    /// `holes` may hold something.
    pub(crate) const HOLES: u32 = 1 << 31;

    pub(crate) const fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }
    pub(crate) const fn any(self, bits: u32) -> bool {
        self.0 & bits != 0
    }
    pub(crate) const fn set(&mut self, bits: u32) {
        self.0 |= bits;
    }
    pub(crate) const fn clear(&mut self, bits: u32) {
        self.0 &= !bits;
    }
    pub(crate) const fn put(&mut self, bits: u32, on: bool) {
        if on { self.set(bits) } else { self.clear(bits) }
    }
    /// Returns whether the bits were set, and clears them.
    pub(crate) const fn take(&mut self, bits: u32) -> bool {
        let was = self.has(bits);
        self.clear(bits);
        was
    }
    pub(crate) const fn keep(&mut self, bits: u32) {
        self.0 &= bits;
    }
}

/// A point in time in microseconds, modulo 2^32 (71 minutes): for spans of seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Micros(u32);

impl Micros {
    pub(crate) const fn at(now: Instant) -> Self {
        Self((now.as_nanos() / 1_000) as u32)
    }
    /// How long ago `earlier` was.
    pub(crate) const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.wrapping_sub(earlier.0) as u64)
    }
}

/// A point in time in units of 2^20 ns (about a millisecond), modulo 2^32 (52 days, of which
/// half are past and half are future).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coarse(pub(crate) u32);

impl Coarse {
    const SHIFT: u32 = 20;
    pub(crate) const fn at(now: Instant) -> Self {
        Self((now.as_nanos() >> Self::SHIFT) as u32)
    }
    /// How long ago `earlier` was, to a millisecond; zero if it lies in the future.
    pub(crate) const fn since(self, earlier: Self) -> Duration {
        let units = self.0.wrapping_sub(earlier.0);
        Duration::from_nanos(if units > u32::MAX / 2 { 0 } else { (units as u64) << Self::SHIFT })
    }
}

/// A window scale of 0 to 14 (RFC 7323, section 2.2), kept so that an `Option` of it is one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowScale(core::num::NonZeroU8);

impl WindowScale {
    pub(crate) fn new(shift: u8) -> Option<Self> {
        core::num::NonZeroU8::new(shift.min(14) + 1).map(Self)
    }
    pub(crate) const fn shift(self) -> u8 {
        self.0.get() - 1
    }
}

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
            dropped: Ranges::default(),
            redropped: SeqNum(0),
            holes: Ranges::default(),
            highest_ack: SeqNum(0),
            srtt_us: 0,
            receiver_rtt_us: 0,
            last_silence_us: 0,
            forward_isn: SeqNum(0),
            reverse_isn: SeqNum(0),
            reverse_syn: Micros::default(),
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
    /// Whether the epoch rests on two-way samples (data to ACK) rather than on bursts.
    #[must_use]
    pub const fn epoch_is_two_way(&self) -> bool {
        self.flags.has(FlowFlags::TWO_WAY)
    }
    /// Smallest time from a segment's departure here to its ACK's arrival here, the handshake included: the round trip
    /// from this box to the receiver.
    #[must_use]
    pub fn receiver_rtt(&self) -> Option<Duration> {
        self.flags.has(FlowFlags::RTT).then(|| Duration::from_micros(u64::from(self.receiver_rtt_us)))
    }
    /// Its moving average (RFC 6298, weight 1/8).
    #[must_use]
    pub fn srtt(&self) -> Option<Duration> {
        self.flags.has(FlowFlags::RTT).then(|| Duration::from_micros(u64::from(self.srtt_us)))
    }
    /// The round trip from this box to the sender, taken from the handshake, to 65 us; at most 4.3 s.
    #[must_use]
    pub fn sender_rtt(&self) -> Option<Duration> {
        self.flags.has(FlowFlags::SENDER_SIDE).then(|| Duration::from_nanos(u64::from(self.sender_rtt) << 16))
    }
    /// What the sender seems to be doing; `None` for what is not TCP and for TCP that has not sent data yet.
    #[must_use]
    pub const fn phase(&self) -> Option<Phase> {
        self.phase
    }
    /// The phase before this one.
    #[must_use]
    pub const fn previous_phase(&self) -> Option<Phase> {
        self.prev_phase
    }
    /// Packets with new data this epoch. The counts of an epoch stop at 65 535.
    #[must_use]
    pub const fn new_pkts(&self) -> u32 {
        self.new_pkts as u32
    }
    /// Retransmissions this epoch.
    #[must_use]
    pub const fn retx_pkts(&self) -> u32 {
        self.retx_pkts as u32
    }
    /// Packets with new data last epoch.
    #[must_use]
    pub const fn prev_new_pkts(&self) -> u32 {
        self.prev_new as u32
    }
    /// Retransmissions last epoch.
    #[must_use]
    pub const fn prev_retx_pkts(&self) -> u32 {
        self.prev_retx as u32
    }
    /// The sequence number after the highest byte that has arrived.
    #[must_use]
    pub const fn max_seq(&self) -> SeqNum {
        self.max_seq
    }
    /// The highest cumulative acknowledgment seen in the other direction.
    #[must_use]
    pub fn highest_ack(&self) -> Option<SeqNum> {
        self.flags.has(FlowFlags::ACKED).then_some(self.highest_ack)
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
    pub fn owes(&self, seq: SeqNum, len: u32) -> bool {
        self.dropped.iter().any(|r| seq.before(r.end()) && r.start.before(seq + len))
    }
    /// Consecutive epochs without a packet of data, up to the last one that ended.
    #[must_use]
    pub const fn silent_epochs(&self) -> u32 {
        self.silent_epochs as u32
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
    /// Moving average of the bytes that arrive in an epoch, over its length; 1 bit/s before the first epoch ended.
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
    /// Payload bytes seen in the flow's life, each once (bytes of IP packets, if this is not TCP).
    #[must_use]
    pub const fn payload_bytes(&self) -> u64 {
        self.payload
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
    /// Whether a SYN or SYN-ACK was seen in the queued direction.
    #[must_use]
    pub const fn syn_seen(&self) -> bool {
        self.flags.has(FlowFlags::SYN)
    }
    /// Whether one was seen in the other direction.
    #[must_use]
    pub const fn reverse_syn_seen(&self) -> bool {
        self.flags.has(FlowFlags::REVERSE_SYN)
    }
    /// Whether a FIN was seen in the queued direction.
    #[must_use]
    pub const fn fin_seen(&self) -> bool {
        self.flags.has(FlowFlags::FIN)
    }
    /// Whether the connection ended: a RST, or a FIN each way.
    #[must_use]
    pub const fn closed(&self) -> bool {
        self.flags.has(FlowFlags::CLOSED)
    }
    /// Whether data was seen in the queued direction.
    #[must_use]
    pub const fn data_seen(&self) -> bool {
        self.flags.has(FlowFlags::DATA)
    }
    /// Whether the flow counts for the fair share.
    #[must_use]
    pub const fn is_active(&self) -> bool {
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
    /// The shift that applies to windows the receiver advertises; `None` if not both SYNs were seen.
    #[must_use]
    pub fn reverse_window_shift(&self) -> Option<u8> {
        if !self.flags.has(FlowFlags::SYN | FlowFlags::REVERSE_SYN) {
            return None;
        }
        // RFC 7323, section 2.2: scaling is on only if both SYNs offered it.
        Some(match (self.forward_scale, self.reverse_scale) {
            (Some(_), Some(scale)) => scale.shift(),
            _ => 0,
        })
    }
    /// The receive window in bytes that a segment of the other direction advertises; `None` if not both SYNs were seen.
    #[must_use]
    pub fn reverse_window(&self, tcp: &TcpHeader) -> Option<u32> {
        let shift = self.reverse_window_shift()?;
        // The window of a SYN is never scaled.
        let shift = if tcp.flags.has(narrows_wire::Flags::SYN) { 0 } else { shift };
        Some(u32::from(tcp.window) << shift)
    }
    /// The largest segment the receiver said it takes, in its SYN.
    #[must_use]
    pub const fn mss(&self) -> Option<u16> {
        if self.mss == 0 { None } else { Some(self.mss) }
    }
    /// The address of the side that opened the connection; where its SYN was not seen (or this is not TCP), of the side
    /// with the higher port, and of the destination if they are equal.
    #[must_use]
    pub fn pool(&self) -> IpAddr {
        if self.pool_is_dst() { self.key.dst() } else { self.key.src() }
    }
    pub(crate) const fn pool_is_dst(&self) -> bool {
        if self.flags.has(FlowFlags::INITIATOR) {
            self.flags.has(FlowFlags::INITIATOR_DST)
        } else {
            self.key.sport <= self.key.dport
        }
    }

    /// When the phase would change if nothing more came: after the first epoch without a packet. (That this epoch
    /// ends may change it too, between SLOW_START and NORMAL; nothing depends on who learns that an epoch late.)
    pub(crate) fn quiet_at(&self) -> Instant {
        let some = self.new_pkts > 0 || self.retx_pkts > 0;
        self.epoch_start + self.epoch_len() * (1 + u64::from(some))
    }

    /// Whether epochs without packets would change nothing that is counted.
    pub(crate) fn is_quiescent(&self) -> bool {
        self.phase
            .is_none_or(|p| p.is_quiescent(self.unrepaired) && self.new_pkts == 0 && self.retx_pkts == 0)
    }

    /// How long it counts as active after data.
    pub(crate) fn active_until(&self, config: &TrackerConfig) -> Instant {
        self.last_data + config.active_for.max(self.epoch_len() * u64::from(config.active_epochs))
    }

    pub(crate) fn set_phase(&mut self, phase: Phase) {
        if self.phase != Some(phase) {
            self.prev_phase = self.phase;
            self.phase = Some(phase);
        }
    }

    /// Ends every epoch that is over. However many those are, the work is bounded: empty epochs soon change nothing.
    pub(crate) fn advance_to(&mut self, now: Instant, config: &TrackerConfig) {
        let elapsed = now.since(self.epoch_start).as_nanos();
        let len = u64::from(self.epoch_ns);
        if elapsed < len {
            return;
        }
        self.forget_far_ranges();
        let mut left = elapsed / len;
        self.epoch_start += Duration::from_nanos(left * len);
        while left > 0 {
            self.end_epoch(config.ewma_shift);
            left -= 1;
            if self.settled(config.ewma_shift) {
                break;
            }
        }
        if left > 0 && self.flags.has(FlowFlags::DATA) {
            self.silent_epochs = self.silent_epochs.saturating_add(left.min(0xffff) as u16);
        }
    }

    /// Whether another empty epoch would change nothing but `silent_epochs`.
    fn settled(&self, shift: u32) -> bool {
        let counts = self.prev_new | self.prev_retx | self.drops_prev;
        counts == 0
            && self.rate_bytes >> shift == 0
            && self.phase.is_none_or(|p| p.is_quiescent(self.unrepaired))
    }

    fn end_epoch(&mut self, shift: u32) {
        if let Some(phase) = self.phase {
            self.set_phase(phase.after_epoch(&EpochCounts {
                new: self.new_pkts,
                retx: self.retx_pkts,
                prev_new: self.prev_new,
                drops: self.drops_cur,
                unrepaired: self.unrepaired,
            }));
            let quiet = self.new_pkts == 0 && self.retx_pkts == 0;
            self.silent_epochs = if quiet { self.silent_epochs.saturating_add(1) } else { 0 };
        }
        if self.flags.has(FlowFlags::RATED) {
            self.rate_bytes = self.rate_bytes - (self.rate_bytes >> shift) + (self.epoch_bytes >> shift);
        } else if self.epoch_bytes > 0 {
            self.rate_bytes = self.epoch_bytes;
            self.flags.set(FlowFlags::RATED);
        }
        self.epoch_bytes = 0;
        (self.prev_new, self.prev_retx, self.drops_prev) = (self.new_pkts, self.retx_pkts, self.drops_cur);
        (self.new_pkts, self.retx_pkts, self.drops_cur) = (0, 0, 0);
    }

    /// Starts an epoch now: the first packet after a silence opens it.
    pub(crate) const fn open_epoch(&mut self, now: Instant) {
        self.epoch_start = now;
    }
}

pub(crate) const fn nanos32(d: Duration) -> u32 {
    let ns = d.as_nanos();
    if ns > u32::MAX as u64 { u32::MAX } else { ns as u32 }
}
