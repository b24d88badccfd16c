//! Tail loss probes (RFC 8985, section 7): when they are due, and what is one. A probe is new data, if there is any, or
//! the last segment once more.

use narrows_units::{Duration, Instant};

use crate::findings::{Certainty, Event, Place, Repair};
use crate::sender::{Phase, Seen, Sender};
use crate::tolerances::{ANSWER_BY_ECHO, DELAYED_ACK, FIRST_TRIP, LEAST_WAIT, PROBE_EARLY, SAMPLE};

impl Sender {
    /// From when until when its next probe of the tail is due (RFC 8985, section 7.2): two round trips after the
    /// latest that it sent or heard, and after a delayed ACK of a single segment. It is no later than the timer, which
    /// in Linux counts from when the first segment was last sent if data was sent since the latest ACK
    /// (`tcp_schedule_loss_probe`). That first segment may not have been seen; it left within the last round trip. What
    /// passes now `jumped` over what was not seen: that may have left since the ACK.
    fn tail_due(&self, now: Instant, jumped: bool) -> Option<(Instant, Instant)> {
        let heard = self.restarted(now);
        let from = heard.max(self.sent_before);
        let (srtt, rto) = (self.trips.srtt()?, self.rto());
        let pto = srtt * 2 + if self.out.count() == 1 { DELAYED_ACK } else { Duration::ZERO };
        let due = |timer: Instant| (from + pto).min((timer + rto).max(from));
        let first = self.out.first().filter(|first| first.seen > 0);
        Some(match first {
            _ if self.sent_before + ANSWER_BY_ECHO < heard && !jumped => (due(heard), due(heard)),
            Some(first) => (due(first.sent), due(first.sent)),
            None => (from + rto.saturating_sub(srtt).min(pto), due(heard)),
        })
    }

    /// When its probe is due; if this may be it, now.
    pub(crate) fn tail_probe(&self, now: Instant, jumped: bool) -> Option<Instant> {
        let (early, late) = self.tail_due(now, jumped)?;
        let off = self.trips.srtt().unwrap_or_default() / SAMPLE + ANSWER_BY_ECHO;
        Some(if early <= now + off && now <= late + off { now } else { late })
    }

    /// It had heard nothing that would let this go, and all that it knew was well: so a timer did, and of a sender that
    /// probes tails that is the probe.
    pub(crate) fn is_unprompted(&self, sent: Instant) -> bool {
        let silent = self.heard.is_some_and(|heard| heard > ANSWER_BY_ECHO);
        let told = || self.hints.is_some_and(|(first, _)| first + self.react() <= sent + ANSWER_BY_ECHO);
        silent && self.phase == Phase::Open && self.selective && !told()
    }

    /// Its probe is answered, and it may send another one.
    pub(crate) fn end_probe(&mut self, answered: bool) {
        if answered {
            (self.probed, self.probe_copy) = (false, None);
        }
    }

    /// Whether new data leaves when a probe is due.
    pub(crate) fn probes_now(&mut self, sent: Instant, jumped: bool) -> bool {
        if self.probed || !self.is_unprompted(sent) || self.tail_probe(sent, jumped) != Some(sent) {
            return false;
        }
        if self.tail_due(sent, jumped).is_some_and(|(early, late)| early == late) {
            self.probes = Some(true);
        }
        !self.around.plain
    }

    /// New data leaves while other data is under way, no ACK has asked for it, and a probe is due: that is how a probe
    /// looks where there is new data (RFC 8985, section 7.3). An application that has just written looks the same.
    pub(crate) fn is_new_probe(&mut self, p: &Seen<'_>) -> bool {
        let trips = self.trips.srtt().unwrap_or(FIRST_TRIP) * 2;
        let due = PROBE_EARLY.of(trips.min(self.trips.rto()));
        let waited = self.waited(p.sent);
        let may = self.selective && self.phase == Phase::Open && !self.probed && self.hints.is_none();
        let by_wait = self.heard.is_none()
            && may
            && waited.min(self.quiet) >= due.max(LEAST_WAIT)
            && !self.by_ack(p.sent);
        by_wait || self.probes_now(p.sent, self.around.losses && self.max.before(p.tcp.seq))
    }

    /// Its probe jumps over a hole though nothing seemed to be under way: what it probes for was, since it sent or
    /// heard something last, and has not been seen. Not where it has been asked since. Says whether that is noted.
    pub(crate) fn has_jumped(&mut self, p: &Seen<'_>, asked: Option<Instant>) -> bool {
        let jumped = self.heard.is_some() && asked.is_none_or(|asked| asked <= self.since);
        if jumped {
            (self.waiting, self.pending.jumped) = (true, Some(p.tcp.seq_end()));
            self.note_new_probe(p);
        }
        jumped
    }

    /// It is one, and ends the stall before it.
    pub(crate) fn note_new_probe(&mut self, p: &Seen<'_>) {
        self.probed = true;
        self.timer.restart(p.sent);
        let lost = if self.pending.jumped.is_some() { Place::Before } else { Place::Unknown };
        let (repair, certainty) = (Repair::Probe, Certainty::Possible);
        let (at, frame, by) = (p.at, p.frame, self.by);
        self.note(Event { at, frame, by, repair, inferred: false, certainty, lost, spurious: false });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use narrows_units::SeqNum;
    use narrows_wire::TcpHeader;

    use super::*;
    use crate::why::Asked;

    static TCP: LazyLock<TcpHeader> = LazyLock::new(TcpHeader::default);

    #[test]
    fn a_probe_is_no_later_than_the_timer_of_the_first_segment() {
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        let mut s = Sender::new(1, Asked::default());
        // R = 500 ms: RTO = 500 + 1000. The first of two left at 800 ms; an ACK was heard at 1 s, and the second left.
        s.trips.time_sender(Duration::from_millis(100), 2);
        s.trips.time_receiver(Duration::from_millis(400));
        for (n, ms) in [(0, 800), (1000, 1000)] {
            let p = Seen { at: at(ms), frame: ms, tcp: &TCP, sent: at(ms) };
            s.out.push(SeqNum(n), SeqNum(n + 1000), &p, 1);
        }
        s.timer.restart(at(1000));
        s.sent_before = at(1000);
        // Two round trips after that are 2 s, and the first's timer expires at 2.3 s.
        assert_eq!(s.tail_due(at(1900), false), Some((at(2000), at(2000))));
        // One more leaves at 1.9 s: now the timer is first.
        s.sent_before = at(1900);
        assert_eq!(s.tail_due(at(2200), false), Some((at(2300), at(2300))));
        assert_eq!(
            [2300, 2350, 2500].map(|ms| s.tail_probe(at(ms), false)),
            [2300, 2350, 2300].map(|ms| Some(at(ms)))
        );
        // Nothing was sent since the ACK: the timer counts from there.
        s.sent_before = at(800);
        assert_eq!(s.tail_due(at(1900), false), Some((at(2000), at(2000))));
        // Nothing else was seen, and RTO = 700 ms: if something was missed, it left from 500 ms before the ACK on.
        s.out.clear();
        (0..40).for_each(|_| s.trips.time_receiver(Duration::from_millis(400)));
        assert_eq!(s.tail_due(at(1900), false), Some((at(1700), at(1700))));
        assert_eq!(s.tail_due(at(1900), true), Some((at(1200), at(1700))));
    }
}
