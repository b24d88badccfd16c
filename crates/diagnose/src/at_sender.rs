//! Why a sender sends again, where the capture is so near to it that all it does and hears is seen.
//!
//! What leaves at once after an ACK was let go by it. A sender that paces (BBR) spreads what an ACK has let go; then it
//! was still the ACK, unless the first segment comes again and the timer has run for long enough.

use narrows_units::{Duration, Instant};

use crate::sender::{Seen, Sender};
use crate::tolerances::{ACKS, BUSY, PACES};

impl Sender {
    /// New data leaves: with an ACK or with other data, or by itself.
    pub(crate) fn note_pace(&mut self, now: Instant) {
        if !self.at_sender() {
            return;
        }
        let heard = self.acks_seen.checked_sub(1).map_or(Duration::MAX, |n| now.since(self.acks[n % ACKS]));
        let quiet = heard.min(self.quiet);
        self.alone += u32::from(quiet > BUSY);
    }

    /// Much of its new data leaves by itself.
    pub(crate) fn paces(&self) -> bool {
        u64::from(self.alone) * PACES > self.counts.data
    }

    /// The first segment is sent again, which restarts the timer (Linux: `tcp_xmit_retransmit_queue`).
    pub(crate) fn restart_at_sender(&mut self, p: &Seen<'_>) {
        if self.at_sender() && p.tcp.seq.at_or_before(self.una) {
            self.timer.restart(p.sent);
        }
    }
}
