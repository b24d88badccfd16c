//! What only tests and fuzzing ask of a record or of a tracker.

use narrows_units::SeqNum;
#[cfg(test)]
use narrows_units::{Duration, Instant};
#[cfg(test)]
use narrows_wire::TcpHeader;

#[cfg(test)]
use super::{Counters, LOOK_PACE};
use crate::flags::FlowFlags;
use crate::{Flow, Phase, Tracker};

impl Flow {
    /// Packets with new data this epoch. The counts of an epoch stop at 65 535.
    pub(crate) const fn new_pkts(&self) -> u32 {
        self.new_pkts as u32
    }
    /// Retransmissions this epoch.
    pub(crate) const fn retx_pkts(&self) -> u32 {
        self.retx_pkts as u32
    }
    /// The highest cumulative acknowledgment seen in the other direction.
    pub(crate) fn highest_ack(&self) -> Option<SeqNum> {
        self.flags.has(FlowFlags::ACKED).then_some(self.highest_ack)
    }
    /// Consecutive epochs without a packet of data, up to the last one that ended.
    pub(crate) const fn silent_epochs(&self) -> u32 {
        self.silent_epochs as u32
    }
}

impl Tracker {
    /// Flows in each phase as of the last tick, in the order of [`Phase::ALL`].
    pub(crate) const fn phases(&self) -> &[usize; Phase::ALL.len()] {
        &self.by_phase
    }
    /// Flows known.
    pub(crate) const fn len(&self) -> usize {
        self.table.live
    }
    /// Most flows that can be known at a time.
    pub(crate) const fn capacity(&self) -> usize {
        self.table.capacity()
    }
    /// Memory reserved by the table. It never grows.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.table.memory()
    }
}

#[cfg(test)]
impl Flow {
    /// Whether the epoch rests on two-way samples (data to ACK) rather than on bursts.
    pub(crate) const fn epoch_is_two_way(&self) -> bool {
        self.flags.has(FlowFlags::TWO_WAY)
    }
    /// Its moving average (RFC 6298, weight 1/8).
    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.flags.has(FlowFlags::RTT).then(|| Duration::from_micros(u64::from(self.srtt_us)))
    }
    /// Packets with new data last epoch.
    pub(crate) const fn prev_new_pkts(&self) -> u32 {
        self.prev_new as u32
    }
    /// Payload bytes seen in the flow's life, each once (bytes of IP packets, if this is not TCP).
    pub(crate) const fn payload_bytes(&self) -> u64 {
        self.payload
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
        Some(match (self.forward_scale, self.reverse_scale) {
            (Some(_), Some(scale)) => scale.shift(),
            _ => 0,
        })
    }
    /// The receive window in bytes that a segment of the other direction advertises; `None` if not both SYNs were seen.
    pub(crate) fn reverse_window(&self, tcp: &TcpHeader) -> Option<u32> {
        let shift = self.reverse_window_shift()?;
        // The window of a SYN is never scaled.
        let shift = if tcp.flags.has(narrows_wire::Flags::SYN) { 0 } else { shift };
        Some(u32::from(tcp.window) << shift)
    }
    /// The largest segment the receiver said it takes, in its SYN.
    pub(crate) const fn mss(&self) -> Option<u16> {
        if self.mss == 0 { None } else { Some(self.mss) }
    }
}

#[cfg(test)]
impl Tracker {
    /// When [`Tracker::tick`] has something to do next.
    pub(crate) fn next_tick(&self) -> Option<Instant> {
        self.wheel.next().map(|at| at.max(self.paid_until + LOOK_PACE))
    }
    /// Whether none is known.
    pub(crate) const fn is_empty(&self) -> bool {
        self.table.live == 0
    }
    /// What has happened so far.
    pub(crate) const fn counters(&self) -> &Counters {
        &self.counters
    }
}
