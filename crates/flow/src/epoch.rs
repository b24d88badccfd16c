//! Epochs of a flow, one round trip each: what arrived and was dropped in them, and the phase that follows from it.
//!
//! Source: TAQ (Chen, Subramanian, Iyengar, Ford: EuroSys 2014), section 3.3.

use narrows_units::{Duration, Instant, Rate};

use crate::TrackerConfig;
use crate::phase::{EpochCounts, Phase};
use crate::times::nanos32;

/// The present epoch, the last one, and averages over earlier ones.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Epoch {
    start: Instant,
    /// Length in nanoseconds; at most 4 s.
    len_ns: u32,
    /// Bytes so far.
    bytes: u32,
    /// Moving average of the bytes of an epoch; 0 until an epoch with bytes has ended, and never again after.
    rate_bytes: u32,
    last_silence_us: u32,
    /// Packets of new data, retransmissions and drops. The counts stop at 65 535.
    new: u16,
    retx: u16,
    drops: u16,
    /// Counts of the last epoch.
    prev_new: u16,
    prev_retx: u16,
    prev_drops: u16,
    /// Consecutive epochs without a packet of data, up to the last one that ended.
    silent: u16,
    phase: Option<Phase>,
    prev_phase: Option<Phase>,
}

impl Epoch {
    pub(crate) fn new(now: Instant, config: &TrackerConfig) -> Self {
        Self {
            start: now,
            len_ns: nanos32(config.initial_epoch),
            bytes: 0,
            rate_bytes: 0,
            last_silence_us: 0,
            new: 0,
            retx: 0,
            drops: 0,
            prev_new: 0,
            prev_retx: 0,
            prev_drops: 0,
            silent: 0,
            phase: None,
            prev_phase: None,
        }
    }

    pub(crate) const fn len(&self) -> Duration {
        Duration::from_nanos(self.len_ns as u64)
    }

    /// Sets the length, within the bounds of the settings.
    pub(crate) fn set_len(&mut self, len: Duration, config: &TrackerConfig) {
        self.len_ns = nanos32(len.clamp(config.epoch_min, config.epoch_max));
    }

    pub(crate) const fn phase(&self) -> Option<Phase> {
        self.phase
    }

    pub(crate) const fn prev_phase(&self) -> Option<Phase> {
        self.prev_phase
    }

    pub(crate) fn set_phase(&mut self, phase: Phase) {
        if self.phase != Some(phase) {
            self.prev_phase = self.phase;
            self.phase = Some(phase);
        }
    }

    /// Bytes of an epoch on average, over its length; 1 bit/s before the first epoch ended.
    pub(crate) const fn rate(&self) -> Rate {
        // 2^32 bytes * 8 * 10^6 stays below 2^55.
        Rate::from_bps(self.rate_bytes as u64 * 8_000_000 / (self.len_ns as u64 / 1_000))
    }

    pub(crate) const fn new_pkts(&self) -> u16 {
        self.new
    }

    pub(crate) const fn prev_new_pkts(&self) -> u16 {
        self.prev_new
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) const fn retx_pkts(&self) -> u16 {
        self.retx
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) const fn silent_epochs(&self) -> u16 {
        self.silent
    }

    pub(crate) const fn drops(&self) -> u16 {
        self.drops
    }

    pub(crate) const fn prev_drops(&self) -> u16 {
        self.prev_drops
    }

    pub(crate) const fn last_silence(&self) -> Duration {
        Duration::from_micros(self.last_silence_us as u64)
    }

    const fn is_quiet(&self) -> bool {
        self.new == 0 && self.retx == 0
    }

    pub(crate) const fn add_bytes(&mut self, len: u32) {
        self.bytes = self.bytes.saturating_add(len);
    }

    pub(crate) const fn add_drop(&mut self) {
        self.drops = self.drops.saturating_add(1);
    }

    pub(crate) const fn add_new(&mut self) {
        self.new = self.new.saturating_add(1);
    }

    pub(crate) const fn add_retransmission(&mut self) {
        self.retx = self.retx.saturating_add(1);
    }

    /// Data arrived, `gap` after the last: the first after silent epochs opens an epoch of its own.
    pub(crate) fn ends_silence(&mut self, now: Instant, gap: Duration, phase: Phase, retransmission: bool) {
        let after_loss = phase.is_silent() || (phase == Phase::Idle && retransmission);
        if after_loss && gap >= self.len() {
            self.last_silence_us = u32::try_from(gap.as_nanos() / 1_000).unwrap_or(u32::MAX);
        }
        if self.silent > 0 {
            (self.start, self.silent) = (now, 0);
        }
    }

    /// The first data of a connection open an epoch.
    pub(crate) const fn open(&mut self, now: Instant) {
        (self.start, self.silent) = (now, 0);
    }

    /// Takes note that the connection was reset: nothing more of the connection is expected.
    pub(crate) fn reset(&mut self) {
        if self.phase.is_some() {
            self.set_phase(Phase::Idle);
            (self.new, self.retx) = (0, 0);
        }
    }

    /// Time at which the phase would change if nothing more came: after the first epoch without a packet. (The end of
    /// this epoch may change it too, between SLOW_START and NORMAL; nothing depends on who learns that an epoch late.)
    pub(crate) fn quiet_at(&self) -> Instant {
        self.start + self.len() * (1 + u64::from(!self.is_quiet()))
    }

    /// Whether epochs without packets would change nothing that is counted.
    pub(crate) fn is_quiescent(&self, unrepaired: u16) -> bool {
        self.phase.is_none_or(|p| p.is_quiescent(unrepaired) && self.is_quiet())
    }

    /// Nanoseconds since the start of the epoch, if the epoch is over.
    pub(crate) const fn is_over(&self, now: Instant) -> Option<u64> {
        let elapsed = now.since(self.start).as_nanos();
        if elapsed >= self.len_ns as u64 { Some(elapsed) } else { None }
    }

    /// Ends each epoch that is over, `elapsed` nanoseconds after the start of the first. However many they are, the
    /// work is bounded: empty ones soon change nothing. `data` tells whether the flow has sent any.
    pub(crate) fn end_all(&mut self, elapsed: u64, unrepaired: u16, data: bool, shift: u32) {
        let len = u64::from(self.len_ns);
        let mut left = elapsed / len;
        self.start += Duration::from_nanos(left * len);
        while left > 0 {
            self.end(unrepaired, shift);
            left -= 1;
            if self.settled(unrepaired, shift) {
                break;
            }
        }
        if left > 0 && data {
            self.silent = self.silent.saturating_add(left.min(0xffff) as u16);
        }
    }

    /// Whether another empty epoch would change nothing but `silent`.
    fn settled(&self, unrepaired: u16, shift: u32) -> bool {
        let counts = self.prev_new | self.prev_retx | self.prev_drops;
        counts == 0 && self.rate_bytes >> shift == 0 && self.phase.is_none_or(|p| p.is_quiescent(unrepaired))
    }

    fn end(&mut self, unrepaired: u16, shift: u32) {
        if let Some(phase) = self.phase {
            self.set_phase(phase.after_epoch(&EpochCounts {
                new: self.new,
                retx: self.retx,
                prev_new: self.prev_new,
                drops: self.drops,
                unrepaired,
            }));
            self.silent = if self.is_quiet() { self.silent.saturating_add(1) } else { 0 };
        }
        self.rate_bytes = match self.rate_bytes {
            0 => self.bytes,
            rate => rate - (rate >> shift) + (self.bytes >> shift),
        };
        self.bytes = 0;
        (self.prev_new, self.prev_retx, self.prev_drops) = (self.new, self.retx, self.drops);
        (self.new, self.retx, self.drops) = (0, 0, 0);
    }
}
