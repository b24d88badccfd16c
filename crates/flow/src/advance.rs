//! How a record goes on from epoch to epoch (TAQ, EuroSys 2014, section 3.3).

use narrows_units::{Duration, Instant};

use crate::TrackerConfig;
use crate::flags::FlowFlags;
use crate::flow::Flow;
use crate::phase::{EpochCounts, Phase};

impl Flow {
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

    /// Ends every epoch that is over.
    #[inline]
    pub(crate) fn advance_to(&mut self, now: Instant, config: &TrackerConfig) {
        let elapsed = now.since(self.epoch_start).as_nanos();
        // Most packets come within an epoch.
        if elapsed >= u64::from(self.epoch_ns) {
            self.end_epochs(elapsed, config);
        }
    }

    /// However many epochs are over, the work is bounded: empty ones soon change nothing.
    #[inline(never)]
    fn end_epochs(&mut self, elapsed: u64, config: &TrackerConfig) {
        let len = u64::from(self.epoch_ns);
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
