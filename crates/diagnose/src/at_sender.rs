//! Why a sender sends again, where the capture is so near to it that all it does and hears is seen.
//!
//! What leaves at once after an ACK was let go by it. A sender that paces (BBR) spreads what an ACK has let go; then it
//! was still the ACK, unless the first segment comes again and the timer has run for long enough.

use narrows_units::{Duration, Instant};

use crate::findings::{Certainty, Repair};
use crate::outstanding::Known;
use crate::sender::{Phase, Seen, Sender};
use crate::tolerances::{ACKS, ANSWER_AT_SENDER, BUSY, EARLY_AT_SENDER, LINUX_LEAST, PACES};

impl Sender {
    /// `None` if the capture is not there, or what is seen does not tell.
    pub(crate) fn judge_at_sender(&self, p: &Seen<'_>, known: &Known) -> Option<(Repair, Certainty)> {
        let heard = p.at.since(self.acks[self.acks_seen.checked_sub(1)? % ACKS]);
        let least = self.trips.sender_least().filter(|_| self.at_sender())?;
        let overtaken = self.overtaken(known);
        let told = self.let_go(known, overtaken);
        if heard <= least + ANSWER_AT_SENDER {
            return Some((told?, Certainty::Certain));
        }
        let first = p.tcp.seq.at_or_before(self.una);
        let waited = self.waited(p.sent);
        let expired = waited >= EARLY_AT_SENDER.of(self.trips.rto_least() * u64::from(self.factor));
        let quiet = heard.min(self.quiet) >= LINUX_LEAST;
        match self.phase {
            Phase::Open if self.selective && (overtaken && self.paces() || !expired && !quiet) => {
                Some((told?, Certainty::Likely))
            }
            Phase::Open => None,
            // The timer sends the first.
            _ if first && (expired && !overtaken || (expired || quiet) && !self.paces()) => {
                Some((Repair::Timeout, Certainty::Certain))
            }
            _ if !self.selective => None,
            _ => Some((told?, Certainty::Likely)),
        }
    }

    /// What it is that ACKs have let go.
    fn let_go(&self, known: &Known, overtaken: bool) -> Option<Repair> {
        match self.phase {
            Phase::Open => {
                (overtaken || self.dupacks > 0 || self.out.sacked() > 0).then_some(Repair::FastRetransmit)
            }
            Phase::Recovery(_) => Some(Repair::Recovery),
            // That its repair was lost as well is a new loss.
            Phase::Loss(_) => {
                Some(if self.repair_lost(known) { Repair::FastRetransmit } else { Repair::AfterTimeout })
            }
        }
    }

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
    fn paces(&self) -> bool {
        u64::from(self.alone) * PACES > self.counts.data
    }

    /// The first segment is sent again, which restarts the timer (Linux: `tcp_xmit_retransmit_queue`).
    pub(crate) fn restart_at_sender(&mut self, p: &Seen<'_>) {
        if self.at_sender() && p.tcp.seq.at_or_before(self.una) {
            self.timer.restart(p.sent);
        }
    }
}
