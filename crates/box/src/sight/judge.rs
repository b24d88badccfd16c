//! What a sender's repairs and silences mean. Sources: RFC 6298 (timer), RFC 5681 (fast retransmit), RFC 8985
//! (tail-loss probe); the order of the causes is that of TAPO, as `narrows diagnose` has it.

use narrows_diagnose::{Cause as Told, Certainty, Repair};
use narrows_flow::Micros;
use narrows_units::Duration;
use narrows_wire::TcpHeader;

use super::book::Stall;
use super::cause::{Cause, Lost};
use super::record::{Gaps, Half, Half16};
use super::sender::Whose;
use super::tcp::FIRST_RTO;

/// A little less than the least RTO in use, 200 ms.
const LEAST_WAIT: Duration = Duration::from_millis(170);
/// Duplicate ACKs that tell of a loss (RFC 5681, section 3.2).
const DUPTHRESH: u8 = 3;

impl Half {
    fn rto(&self) -> Duration {
        let srtt = self.srtt();
        if srtt == Duration::ZERO { FIRST_RTO } else { srtt + (srtt / 2).max(Duration::from_millis(200)) }
    }

    /// What made the sender send this again: an ACK, which it follows by the sender's half of the round trip, or the
    /// timer, after a silence of at least its shortest wait.
    pub fn judge(&self, now: Micros, tcp: &TcpHeader) -> Repair {
        let waited = now.since(self.restart);
        let first = tcp.seq.at_or_before(self.una);
        let expired = waited >= LEAST_WAIT.max(self.rto() / 4 * 3);
        if self.flags.has(Half16::LOSS) {
            return if first && waited >= LEAST_WAIT * 2 { Repair::Timeout } else { Repair::AfterTimeout };
        }
        if self.flags.has(Half16::RECOVERY) {
            return if first && expired { Repair::Timeout } else { Repair::Recovery };
        }
        let react = Duration::from_micros(self.sender_us.into());
        if self.dupacks >= DUPTHRESH && now.since(self.since) < (react * 2).max(LEAST_WAIT) {
            return Repair::FastRetransmit;
        }
        if waited >= LEAST_WAIT {
            let last = tcp.seq_end() == self.max;
            let probe = self.flags.has(Half16::SELECTIVE) && !self.flags.has(Half16::PROBED) && last;
            let pto = self.srtt() * 2 + if first { Duration::from_millis(200) } else { Duration::ZERO };
            let early = !first || waited < pto.min(self.rto()) / 4 * 5;
            return if probe && early { Repair::Probe } else { Repair::Timeout };
        }
        if self.dupacks > 0 { Repair::FastRetransmit } else { Repair::Unknown }
    }

    /// The silence since the last progress, as a stall.
    pub fn stall(&self, now: Micros, (key, user, by): Whose<'_>, gaps: &Gaps, ended: bool) -> Stall {
        let length = now.since(self.since);
        let unrepaired = self.gaps && !gaps.dropped.is_empty();
        let (cause, certainty) = self.cause(length, unrepaired);
        // Of what has not been repaired yet, only our own drops are known.
        let here = if unrepaired { Lost::HERE } else { Lost::UNKNOWN };
        let lost = if self.lost == Lost::UNKNOWN { here } else { self.lost };
        Stall {
            key: *key,
            user,
            by,
            length,
            cause,
            lost: if cause.is_loss() { lost } else { Lost::UNKNOWN },
            certainty,
            repair: self.repair,
            timeouts: self.timeouts,
            backoff: self.backoff,
            outstanding: self.under_way(),
            wait_ms: self.wait_ms,
            ended,
        }
    }

    /// In TAPO's order: what was repaired twice, the tail, what was too little to tell of a loss, and all of it.
    fn cause(&self, length: Duration, unrepaired: bool) -> (Cause, Certainty) {
        let told = |cause, certainty| (Cause::Told(cause), certainty);
        if self.flags.has(Half16::FIN) && self.una + 1 == self.max {
            return told(Told::Closing, Certainty::Certain);
        }
        // What was sent again meanwhile may still have been on its way through the queue.
        let whole = !unrepaired && !self.lost.has(Lost::HERE) && !self.lost.has(Lost::BEFORE);
        if whole && (self.queued > 0 || self.wait() * 2 >= length) {
            return (Cause::WaitsInQueue, Certainty::Certain);
        }
        let Some(repair) = self.repair.filter(|r| *r != Repair::Unknown) else {
            return match () {
                () if self.flags.has(Half16::SHUT) => told(Told::ZeroWindow, Certainty::Certain),
                // What the box dropped has not been sent again yet.
                () if unrepaired => self.loss(None),
                () => told(Told::PacketDelay, Certainty::Likely),
            };
        };
        if self.flags.has(Half16::SPURIOUS) {
            return told(Told::AckDelayedOrLost, Certainty::Certain);
        }
        self.loss(Some(repair))
    }

    fn loss(&self, repair: Option<Repair>) -> (Cause, Certainty) {
        let told = |cause, certainty| (Cause::Told(cause), certainty);
        let double = self.flags.has(Half16::DOUBLE);
        if double || (self.timeouts > 0 && self.told >= DUPTHRESH) || self.timeouts > 1 {
            let sure = if double { Certainty::Certain } else { Certainty::Likely };
            return told(Told::DoubleRetransmission, sure);
        }
        let said_all =
            self.flags.has(Half16::FIN) || (self.flags.has(Half16::PUSHES) && self.flags.has(Half16::PUSHED));
        if self.told == 0 && (repair == Some(Repair::Probe) || said_all) {
            return told(Told::TailLoss, Certainty::Likely);
        }
        let outstanding = u32::from(self.under_way());
        if outstanding < 4 {
            let window = u32::from(self.window) << self.scale;
            let full = self.mss > 0 && window < u32::from(self.mss) * (outstanding + 1);
            let cause = if full { Told::SmallReceiveWindow } else { Told::SmallCongestionWindow };
            return told(cause, Certainty::Likely);
        }
        told(Told::ContinuousLoss, if self.told == 0 { Certainty::Likely } else { Certainty::Possible })
    }
}
