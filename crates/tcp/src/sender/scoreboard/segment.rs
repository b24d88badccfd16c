//! The record of one sent segment, and what an acknowledgment reports of such records.

use narrows_units::Instant;

/// SACKed.
pub(crate) const SACKED: u8 = 1;
/// Counts as lost, also after it was retransmitted.
pub(crate) const LOST: u8 = 2;
/// Retransmitted, and the copy counts as being in the network.
pub(crate) const RETRANS: u8 = 4;
/// Retransmitted at least once, so that it gives no RTT sample (Karn).
pub(crate) const EVER_RETRANS: u8 = 8;
/// A SYN takes one of its sequence numbers.
pub(crate) const SYN: u8 = 16;
/// A FIN takes one of its sequence numbers.
pub(crate) const FIN: u8 = 32;

/// One sent segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentSegment {
    /// When it was last sent.
    pub(crate) sent: Instant,
    /// The low half of its first stream offset.
    pub(super) low: u32,
    /// Payload bytes.
    pub(crate) len: u16,
    pub(crate) flags: u8,
}

impl SentSegment {
    /// Its length in sequence space.
    pub(super) fn seq_len(&self) -> u64 {
        u64::from(self.len) + u64::from(self.flags & (SYN | FIN) != 0)
    }
    pub(crate) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// What an acknowledgment reports for the first time, cumulatively or in SACK blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivered {
    /// Segments.
    pub(crate) segments: u32,
    /// Their payload bytes.
    pub(crate) bytes: u64,
    /// When the first of them that was sent only once left.
    pub(crate) sent: Option<Instant>,
    /// When the timed segment left, if it is among them.
    pub(crate) timed: Option<Instant>,
    /// Some of them were retransmitted.
    pub(crate) retransmitted: bool,
    /// What only RACK reads, for senders that have it.
    pub(crate) rack: Option<RackDelivered>,
}

/// What RACK wants to know of the same segments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RackDelivered {
    /// The one sent last: when, its end, and whether that was a retransmission (RFC 8985, section 6.2, step 2).
    pub(crate) newest: Option<(Instant, u64, bool)>,
    /// The highest end among them (RFC 8985, section 6.2, step 3).
    pub(crate) highest: u64,
    /// The lowest end among those sent once (likewise).
    pub(crate) lowest_sent_once: Option<u64>,
    /// When the last of them left that is acknowledged cumulatively and was sent only once.
    pub(crate) last_cumulative: Option<Instant>,
}

impl Delivered {
    /// What was acknowledged cumulatively is all there; what SACK blocks add follows. A sample comes from the former,
    /// if it may, and not from both ([`crate::RttSampling::EveryAck`]).
    pub(crate) fn split(&mut self) -> Option<Instant> {
        let sent = self.sent.take().filter(|_| !self.retransmitted);
        self.retransmitted = false;
        sent
    }

    /// A segment that ends at `end` was delivered.
    pub(super) fn add(&mut self, segment: &SentSegment, end: u64) {
        self.segments += 1;
        self.bytes += u64::from(segment.len);
        if segment.has(EVER_RETRANS) {
            self.retransmitted = true;
        } else if self.sent.is_none() {
            self.sent = Some(segment.sent);
        }
        if let Some(rack) = &mut self.rack {
            rack.add(segment, end);
        }
    }
}

impl RackDelivered {
    // Not in line: those without RACK would carry its fields through their loop over segments.
    #[inline(never)]
    fn add(&mut self, segment: &SentSegment, end: u64) {
        let once = !segment.has(EVER_RETRANS);
        if once && self.lowest_sent_once.is_none_or(|lowest| end < lowest) {
            self.lowest_sent_once = Some(end);
        }
        self.highest = self.highest.max(end);
        if self.newest.is_none_or(|(sent, highest, _)| (sent, highest) < (segment.sent, end)) {
            self.newest = Some((segment.sent, end, !once));
        }
    }
}
