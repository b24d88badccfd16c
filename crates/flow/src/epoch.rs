//! How long a flow's epoch (its round trip) is: two estimators, of which the two-way one is preferred once it has
//! samples.
//!
//! Source: TAQ (EuroSys 2014), section 3.3, and RFC 6298 with Karn's rule for what may be timed.
//!
//! **Two-way.** A new segment is timed from its departure here to the cumulative ACK that covers it: the round trip on
//! the receiver's side of the box. The handshake gives the sender's side (SYN passing one way to its answer coming
//! back), which is added, so that a box anywhere on the path sees the whole. epoch = 7/8 epoch + 1/8 sample; the first
//! sample is taken as it is. A segment is not timed if any of its bytes, or of those before it in flight, was
//! retransmitted, dropped here or never seen: its ACK would wait for the repair. A path that becomes longer is learned
//! in [`crate::path`].
//!
//! **One-way.** First the time from the SYN to the first data; then the time from one burst start to the next, where a
//! burst starts with the first packet after a gap of more than half an epoch, if that time lies between half an epoch
//! and two; weight 1/8.

use narrows_units::{Duration, Instant, SeqNum};

use crate::TrackerConfig;
use crate::flags::FlowFlags;
use crate::flow::{Flow, nanos32};
use crate::times::Micros;

/// Longer than this, a sample says that something else happened.
const LONGEST_SAMPLE: Duration = Duration::from_secs(60);

impl Flow {
    /// A segment that is wholly new has arrived: time it, if nothing is being timed.
    pub(crate) fn time_segment(&mut self, now: Instant, end: SeqNum) {
        let stale = self.flags.has(FlowFlags::SAMPLING)
            && Micros::at(now).since(self.sample_arrived) > LONGEST_SAMPLE;
        if stale {
            self.flags.clear(FlowFlags::SAMPLING);
        }
        if !self.flags.has(FlowFlags::SAMPLING) && self.unrepaired == 0 && !self.has_holes() {
            self.flags.set(FlowFlags::SAMPLING);
            self.flags.clear(FlowFlags::DEPARTED);
            self.sample_end = end;
            self.sample_arrived = Micros::at(now);
        }
    }

    fn has_holes(&self) -> bool {
        self.flags.has(FlowFlags::HOLES) && !self.holes.is_empty()
    }

    /// Bytes from `seq` on were retransmitted or dropped: what is being timed behind them is ambiguous now.
    pub(crate) fn spoil_timing(&mut self, seq: SeqNum) {
        if seq.before(self.sample_end) {
            self.flags.clear(FlowFlags::SAMPLING);
        }
    }

    /// A segment ending at `end` leaves.
    pub(crate) fn time_departure(&mut self, now: Instant, end: SeqNum) {
        if self.flags.has(FlowFlags::SAMPLING)
            && !self.flags.has(FlowFlags::DEPARTED)
            && end == self.sample_end
        {
            self.flags.set(FlowFlags::DEPARTED);
            self.sample_departed = Micros::at(now);
        }
    }

    /// The cumulative ACK has come to `ack`.
    pub(crate) fn time_ack(&mut self, now: Instant, ack: SeqNum, config: &TrackerConfig) {
        if !self.flags.has(FlowFlags::SAMPLING) || ack.before(self.sample_end) {
            return;
        }
        self.flags.clear(FlowFlags::SAMPLING);
        let at = Micros::at(now);
        let rtt = at.since(self.sample_departed);
        if !self.flags.has(FlowFlags::DEPARTED) || rtt > LONGEST_SAMPLE {
            return;
        }
        let us = (rtt.as_nanos() / 1_000) as u32;
        let known = self.flags.has(FlowFlags::RTT);
        self.flags.set(FlowFlags::RTT);
        if self.flags.has(FlowFlags::SENDER_SIDE) {
            self.near_trip(now, rtt);
        } else {
            let srtt = Duration::from_micros(u64::from(self.srtt_us)).ewma(rtt, config.ewma_shift);
            self.srtt_us = if known { micros32(srtt) } else { us };
        }
        self.receiver_rtt_us = if known { self.receiver_rtt_us.min(us) } else { us };
        let near = if config.epoch_includes_queue { at.since(self.sample_arrived) } else { rtt };
        self.two_way_sample(near + self.sender_rtt().unwrap_or(Duration::ZERO), config);
    }

    fn two_way_sample(&mut self, sample: Duration, config: &TrackerConfig) {
        let epoch = if self.flags.has(FlowFlags::TWO_WAY) {
            self.epoch_len().ewma(sample, config.ewma_shift)
        } else {
            self.flags.set(FlowFlags::TWO_WAY);
            sample
        };
        self.set_epoch(epoch, config);
    }

    /// A SYN or SYN-ACK of the other direction passed on its way to the sender, who answers at once.
    pub(crate) fn time_sender(&mut self, now: Instant) {
        if !self.flags.has(FlowFlags::SENDER_SIDE) {
            self.flags.set(FlowFlags::TIMING_SENDER);
            self.reverse_passed = Micros::at(now);
        }
    }

    /// The sender's first answer arrived.
    pub(crate) fn time_answer(&mut self, now: Instant, config: &TrackerConfig) {
        if !self.flags.has(FlowFlags::SENDER_SIDE) && self.flags.take(FlowFlags::TIMING_SENDER) {
            let span = Micros::at(now).since(self.reverse_passed);
            self.set_sender_rtt(span);
            self.flags.set(FlowFlags::SENDER_SIDE);
            if self.flags.has(FlowFlags::TWO_WAY) {
                // Until here the epoch was the receiver's side alone.
                let near = Duration::from_micros(u64::from(self.srtt_us));
                self.set_epoch(near + Duration::from_nanos(u64::from(self.sender_rtt) << 16), config);
            }
            self.watch_path(now);
        }
    }

    /// The first segment with data arrived.
    pub(crate) fn first_data(&mut self, now: Instant, config: &TrackerConfig) {
        let at = Micros::at(now);
        if self.flags.has(FlowFlags::SYN) && !self.flags.has(FlowFlags::TWO_WAY) {
            self.set_epoch(at.since(self.burst), config);
        }
        self.begin_burst(at);
    }

    /// A burst begins. Once the epoch is two-way it is no matter.
    pub(crate) fn begin_burst(&mut self, at: Micros) {
        if !self.flags.has(FlowFlags::TWO_WAY) {
            self.burst = at;
        }
    }

    /// A later one arrived, `gap` after the one before.
    pub(crate) fn later_data(&mut self, now: Instant, gap: Duration, config: &TrackerConfig) {
        let epoch = self.epoch_len();
        if gap <= epoch / 2 || self.flags.has(FlowFlags::TWO_WAY) {
            return;
        }
        let at = Micros::at(now);
        let sample = at.since(self.burst);
        self.begin_burst(at);
        // A gap of more than two epochs also catches what the 32-bit clock would make of an hour.
        let plausible = gap < epoch * 2 && epoch / 2 < sample && sample < epoch * 2;
        if plausible {
            self.set_epoch(epoch.ewma(sample, config.ewma_shift), config);
        }
    }

    fn set_epoch(&mut self, epoch: Duration, config: &TrackerConfig) {
        self.epoch_ns = nanos32(epoch.clamp(config.epoch_min, config.epoch_max));
    }
}

fn micros32(d: Duration) -> u32 {
    (d.as_nanos() / 1_000).min(u64::from(u32::MAX)) as u32
}
