//! Loss or mark that a flow has still to answer, and how many acknowledgments tell its sender of it.

use narrows_units::{Duration, Instant, SeqNum};

/// Duplicate acknowledgments that make a fast retransmit (RFC 5681, DupThresh).
pub const DUP_THRESH: u32 = 3;

/// The loss or mark that a flow has still to answer.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct PendingRepair {
    open: bool,
    end: SeqNum,
    since: Instant,
}

impl PendingRepair {
    /// Notes a drop or mark of what ends at `end`.
    pub const fn open(&mut self, end: SeqNum, now: Instant) {
        *self = Self { open: true, end, since: now };
    }
    /// Takes note that the receiver has everything up to `ack`, a new acknowledgment.
    pub fn acknowledged(&mut self, ack: SeqNum) {
        self.open &= !self.end.at_or_before(ack);
    }
    /// Whether another drop must wait; `patience` bounds it for flows whose acknowledgments are not seen.
    pub fn is_open(&self, now: Instant, patience: Duration) -> bool {
        self.open && now.since(self.since) < patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_drop_at_a_time() {
        let mut r = PendingRepair::default();
        let (now, long) = (Instant::from_nanos(5), Duration::from_secs(1));
        assert!(!r.is_open(now, long));
        r.open(SeqNum(100), now);
        assert!(r.is_open(now, long));
        r.acknowledged(SeqNum(99));
        assert!(r.is_open(now, long));
        assert!(!r.is_open(now + long, long), "patience ends");
        r.acknowledged(SeqNum(100));
        assert!(!r.is_open(now, long));
    }
}
