//! What a sender's timestamps tell of why it sends: they echo the latest packet that it has heard (RFC 7323, section
//! 4.3). So it is known how long before it has heard that one, and what leaves at once was let go by it.

use narrows_units::{Duration, Instant, SeqNum};

use crate::outstanding::Known;
use crate::sender::{Phase, Seen, Sender};
use crate::tolerances::ANSWER_BY_ECHO;

impl Sender {
    /// For how long it had heard nothing when it sent what passes now.
    pub(crate) fn since_heard(&self, now: Instant, tsval: u32, tsecr: u32) -> Option<Duration> {
        let passed = self.trips.passed(tsecr)?;
        let by_clock = self.clock.sent(now, tsval).zip(self.clock.react());
        let (sent, react) = by_clock.unwrap_or((now, self.trips.sender_half()));
        Some(sent.since(passed + react))
    }

    /// What it has just heard has let this go.
    pub(crate) fn answers(&self) -> bool {
        self.heard.is_some_and(|heard| heard <= ANSWER_BY_ECHO)
    }

    /// New data jumps over a hole. If that is the first after a timeout, it leaves before what counts as lost (RFC
    /// 5682, section 3, step 2b), so all before it was under way at the timeout.
    pub(crate) fn under_way_then(&mut self, seq: SeqNum) {
        if self.last_timeout.is_some_and(|at| at >= self.sent_before) && self.answers() {
            self.phase = Phase::Loss(seq);
            (self.evidence, self.hints) = (None, None);
        }
    }

    /// RFC 8985, section 6.2: something has arrived that was sent after it.
    pub(crate) fn overtaken(&self, known: &Known) -> bool {
        known.last.zip(self.out.delivered()).is_some_and(|((at, _), delivered)| at < delivered)
    }

    /// It was never seen, and something behind it was sent again since the timeout: so was this, and was lost as well.
    /// Or new data has followed the repairs, and this does not follow from what was acknowledged since.
    pub(crate) fn was_passed_over(&self, p: &Seen<'_>, known: &Known) -> bool {
        let overtaken = p.tcp.seq_end().before(self.repaired_to);
        let again = !self.repairs_left && p.sent > self.advanced + self.react() + ANSWER_BY_ECHO;
        self.selective && known.hole.is_some() && (overtaken || again)
    }

    /// What is sent again now, from there on, was sent again before.
    pub(crate) fn was_repaired(&self, known: &Known, seq: SeqNum) -> bool {
        let again = self.latest.is_some_and(|l| l.start == seq && !matches!(self.phase, Phase::Open));
        (known.hole.is_none() && known.seen > 1) || (known.hole.is_some() && again)
    }

    /// It was sent again since the timeout, and that was lost as well.
    pub(crate) fn repair_lost(&self, known: &Known) -> bool {
        let repaired = known.seen > 1 && known.last.is_some_and(|(at, _)| Some(at) >= self.last_timeout);
        self.overtaken(known) && repaired
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::Asked;

    #[test]
    fn an_echo_tells_when_it_heard_last() {
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        let mut s = Sender::new(1, Asked::default());
        // 100 ms to the sender and back. An ACK with timestamp 7 passes at 1 s.
        s.trips.time_sender(Duration::from_millis(100), 2);
        s.trips.stamp(at(1000), 7);
        let heard = |ms: u64, echo: u32| s.since_heard(at(ms), 0, echo).map(|d| d.as_nanos() / 1_000_000);
        // It is heard at 1.1 s: what passes then answers it, what passes at 1.7 s left 600 ms later.
        assert_eq!([heard(1100, 7), heard(1700, 7)], [Some(0), Some(600)]);
        assert_eq!(heard(1100, 6), None, "it was not seen");
        s.heard = s.since_heard(at(1120), 0, 7);
        assert!(s.answers());
        s.heard = s.since_heard(at(1200), 0, 7);
        assert!(!s.answers());
    }
}
