//! Evidence of what a sender sends again, measured from what was reconstructed of it.
//!
//! Where packets get lost before the capture and the sender's clock tells when each was sent (see [`crate::clock`]),
//! its round trips are its own, so its timer is known to about a hundredth, and what it did in a silence can be told
//! apart by when a packet was sent: ACKs act as they come; the timer expires after R, 3 R, 7 R; behind a probe or a
//! fast retransmit, which restart it, that much later.
//!
//! A tail-loss probe (RFC 8985, section 7) is new data, if there is any, or the last segment once more.

use narrows_units::{Duration, Instant};

use super::{Phase, Sender};
use crate::evidence::{
    AckEvidence, Age, ClockEvidence, First, RepairEvidence, SegmentEvidence, SenderEvidence, SenderState,
    TimerEvidence,
};
use crate::findings::{Certainty, Event, Place, Repair};
use crate::judge::{self, RepairRow};
use crate::outstanding::Known;
use crate::seen::Seen;
use crate::tolerances::{
    ANSWER_BY_ECHO, CLOSE, DELAYED_ACK, FIRST_TRIP, LEAST_WAIT, MOST_EXPIRIES, MOST_RTO, PROBE_EARLY, RACK,
    SAMPLE, TICK,
};

/// Schedule of a timer: the timer's start, and the timer's expiries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    pub(super) first: First,
    /// Time of that event, or of the timer's restart.
    pub(super) from: Instant,
    /// First wait of the timer after the timer's start.
    pub(super) wait: Duration,
    /// Number of expiries until the segment was sent.
    pub(super) timeouts: u32,
    /// Whether the timer has expired just now.
    pub(super) on_time: bool,
}

impl Schedule {
    pub(super) fn new(first: First, from: Instant, wait: Duration) -> Self {
        Self { first, from, wait, timeouts: 0, on_time: false }
    }

    /// Time at which the timer expires for the n-th time: after R (2^n - 1).
    pub(super) fn expiry(&self, n: u32) -> Instant {
        let mut at = self.from;
        for k in 0..n {
            at += (self.wait * (1 << k)).min(MOST_RTO);
        }
        at
    }

    /// The number of expiries that comes nearest to a packet sent at `sent`, by ratio, and that ratio, at least 1.
    pub(super) fn nearest(mut self, since: Instant, sent: Instant, least: u32) -> (f64, Self) {
        let waited = sent.since(since).as_secs_f64().max(1e-3);
        let mut at = self.expiry(least);
        let mut best = f64::INFINITY;
        for n in least..=MOST_EXPIRIES {
            let due = at.since(since).as_secs_f64().max(1e-3);
            let off = (waited / due).max(due / waited);
            if off < best {
                (best, self.timeouts) = (off, n);
            }
            if due >= waited {
                // The others are later still.
                break;
            }
            at += (self.wait * (1 << n)).min(MOST_RTO);
        }
        self.on_time = best < CLOSE;
        (best, self)
    }
}

impl Sender {
    /// When ACKs that told of a loss had their effect, and how much later by RACK (RFC 8985, section 6.2: a quarter of
    /// the least round trip).
    pub(super) fn told(&self) -> Option<(Instant, Duration)> {
        let react = self.timing.react();
        let patience = self.timing.trips().least().unwrap_or_default() / RACK;
        let rack = self
            .acks
            .hints()
            .filter(|_| self.acks.selective())
            .map(|hints| (hints.first + react, patience + TICK));
        let acks = self.acks.told().map(|at| (at + react, TICK));
        match (rack, acks) {
            (Some(rack), Some(acks)) if acks.0 < rack.0 + rack.1 => {
                Some((rack.0, acks.0.since(rack.0) + TICK))
            }
            (rack, acks) => rack.or(acks),
        }
    }

    /// Tells whether the sender has RACK-TLP (RFC 8985): when ACKs arrive it sends again at once the segments older
    /// than the acknowledged ones, and it probes tails.
    pub(super) fn has_rack_tlp(&self) -> bool {
        self.timing.stamps() && self.acks.selective() && !self.timing.plain()
    }

    /// Tells whether nothing that was seen keeps the sender from probing the tail, if it does.
    pub(super) fn may_probe(&self) -> bool {
        self.acks.selective()
            && !self.repairing.probed
            && self.repairing.phase == Phase::Open
            && self.acks.hints().is_none()
    }

    /// A probe may be sent when the timer was restarted last: after two round trips, and after a delayed ACK of a
    /// single segment (RFC 8985, section 7.2), and not later than the timer.
    pub(super) fn probe_due(&self, alone: bool) -> Option<Duration> {
        // The sender repairs the data under way before a timeout until all is acknowledged, and sends no probes then.
        let may = self.may_probe() && (alone || !self.una.before(self.repairing.resent_to));
        let now = self.timing.sent();
        let due = self.tail_probe(now, false).filter(|_| may)?;
        Some(due.since(self.timing.restarted(now)))
    }

    /// Events at the sender until it sent this segment. `alone`: the segment may be the probe.
    pub(super) fn schedule(&self, p: &Seen<'_>, alone: bool) -> Schedule {
        let since = self.timing.restarted(p.sent);
        let wait = self.timing.wait();
        let plain = Schedule::new(First::Nothing, since, wait);
        let plain = plain.nearest(since, p.sent, 1);
        let told = self.told().filter(|(at, _)| self.repairing.phase == Phase::Open && *at < since + wait);
        if let Some((from, patience)) = told.filter(|(at, _)| *at <= p.sent + TICK) {
            let fast = Schedule::new(First::Fast, from, self.timing.rto());
            // Where repairs were not needed the reordering window grows, up to a round trip (RFC 8985, section 6.2).
            let most = if self.findings.counts.spurious > 0 {
                self.timing.trips().srtt().unwrap_or_default()
            } else {
                patience
            };
            let by_timer = plain.1.on_time && p.sent > from + patience + TICK;
            if p.sent <= from + patience.max(most) + TICK && !by_timer {
                return fast;
            }
            let fast = fast.nearest(since, p.sent, 0);
            return if fast.0 < plain.0 { fast.1 } else { plain.1 };
        }
        // The timer sends the first segment, so behind a gap it is a probe.
        let Some(due) = self.probe_due(alone) else { return plain.1 };
        let probe = Schedule::new(First::Probe, since + due, self.timing.rto());
        let probe = probe.nearest(since, p.sent, u32::from(!alone));
        if probe.0 <= plain.0 { probe.1 } else { plain.1 }
    }

    /// Tells whether the sender waited as long as the timer, or a probe, takes. A probe that is due within the error of
    /// measurement is not told from data that an ACK releases.
    pub(super) fn is_due(&self, waited: Duration) -> bool {
        waited + judge::tolerance(self.timing.trips().srtt()) >= self.due()
    }

    /// Time from the timer's restart until the timer, or a probe, is due.
    pub(super) fn due(&self) -> Duration {
        let (wait, off) = (self.timing.wait(), judge::tolerance(self.timing.trips().srtt()));
        let probe = self.probe_due(false).filter(|due| *due > off * 2);
        probe.map_or(wait, |due| due.min(wait))
    }

    /// Tells whether the timer has expired, or may have where the sender's clock is not known.
    pub(super) fn has_expired(&self, sent: Instant, waited: Duration) -> bool {
        if self.timing.exact().is_some() {
            self.is_due(waited) && !self.has_heard(sent)
        } else {
            self.timing.must_have_expired(waited) && !self.has_heard(sent)
        }
    }

    /// Where losses before the capture hide what it does: an ACK has reached it within half of what the timer takes.
    /// Of a Linux sender each ACK restarts it, unless that tells only of what was sent after the first was sent again
    /// (`tcp_clean_rtx_queue`), so what leaves then was let go by ACKs, and is late because it paces. Of a sender whose
    /// timer only new data restarts (RFC 6298, (5.3)), such repairs leave when it is due, and say so.
    pub(super) fn has_heard(&self, sent: Instant) -> bool {
        self.timing.restarts() && self.heard_lately(sent)
    }

    pub(super) fn heard_lately(&self, sent: Instant) -> bool {
        self.hides_repairs() && self.reached(sent).is_some_and(|reached| reached < self.timing.rto() / 2)
    }

    /// Losses before the capture hide what it does between the ACKs that it hears.
    pub(super) fn hides_repairs(&self) -> bool {
        self.timing.losses() && self.acks.selective() && !self.timing.at_sender()
    }

    /// Time for which an ACK had reached the sender when it sent the packet that passes now.
    pub(super) fn reached(&self, sent: Instant) -> Option<Duration> {
        let (react, tick) = match self.timing.exact() {
            Some(react) => (react, TICK),
            None => (self.timing.react_least(), Duration::ZERO),
        };
        let heard = self.acks.newest_first().map(|at| at + react).find(|at| *at <= sent + tick);
        heard.map(|at| sent.since(at))
    }

    /// Time for which the latest ACK that the sender can have reacted to had passed. Where more ACKs pass than are
    /// remembered, one of them is right.
    pub(super) fn reacted(&self, now: Instant) -> Option<Duration> {
        let react = self.timing.react();
        let (least, most) = (self.timing.soonest(), react + self.timing.slack(react / 2));
        if self.acks.oldest().is_some_and(|at| now.since(at) < most) {
            return Some(react);
        }
        self.acks.newest_first().map(|at| now.since(at)).find(|age| *age >= least)
    }

    /// Whether an ACK passed that the sender reacts to now.
    pub(super) fn by_ack(&self, now: Instant) -> bool {
        let react = self.timing.react();
        self.reacted(now).is_some_and(|reacted| reacted <= react + self.timing.slack(react / 2))
    }

    /// Notes that the first segment is sent again although an ACK was heard recently: whether the timer, had no ACK
    /// restarted it, was due just now. The analyzer collects these notes.
    pub(super) fn note_late(&mut self, p: &Seen<'_>) {
        let waited = self.timing.waited(p.sent);
        let due = if self.timing.exact().is_some() {
            self.is_due(waited)
        } else {
            self.timing.must_have_expired(waited)
        };
        if due && p.tcp.seq.at_or_before(self.una) && self.heard_lately(p.sent) {
            let from = self.timing.restarted(p.sent);
            let wait = self.timing.wait();
            let plain = Schedule::new(First::Nothing, from, wait);
            self.shown.late = Some(plain.nearest(from, p.sent, 1).1.on_time);
        }
    }

    /// Evidence about what is sent again now, and the row that decides. What takes longer to measure is measured only
    /// where the first rows decide nothing, or for who asks `why`.
    pub(super) fn judge(
        &self,
        p: &Seen<'_>,
        known: &Known,
        why: bool,
    ) -> (RepairEvidence, &'static RepairRow) {
        let mut e = self.evidence(p, known);
        let early = judge::judge_early(&e);
        if early.is_none() || why {
            self.measure_times(p, &mut e);
        }
        let row = early.unwrap_or_else(|| judge::judge_late(&e));
        (e, row)
    }

    /// Measures what the sender's clock and the times of the latest ACKs tell.
    fn measure_times(&self, p: &Seen<'_>, e: &mut RepairEvidence) {
        let pto = e.timer.srtt.unwrap_or(FIRST_TRIP) * 2 + DELAYED_ACK;
        e.timer.pto = Some(pto.min(self.timing.trips().rto()));
        (e.acks.reacted, e.acks.reached) = (self.reacted(p.sent), self.reached(p.sent));
        e.clock = self.timing.exact().map(|_| {
            let alone = e.segment.last && !e.segment.hole;
            let found = (e.state == SenderState::Open).then(|| self.schedule(p, alone));
            let (first, expiries) = found.map_or((First::Nothing, 0), |s| (s.first, s.timeouts));
            ClockEvidence { due: self.due(), first, expiries }
        });
    }

    /// Evidence without what [`Sender::measure_times`] adds.
    fn evidence(&self, p: &Seen<'_>, known: &Known) -> RepairEvidence {
        let waited = self.timing.waited(p.sent);
        let (first, last) = (p.tcp.seq.at_or_before(self.una), p.tcp.seq_end() == self.max);
        let hole = known.hole.is_some();
        let near = self.timing.trips().sender_least().filter(|_| self.timing.at_sender());
        let srtt = self.timing.trips().srtt();
        let state = match self.repairing.phase {
            Phase::Open => SenderState::Open,
            Phase::Recovery(_) => SenderState::Recovery,
            Phase::Loss(_) => SenderState::Loss,
        };
        let acks = self.ack_evidence(p);
        let (overtaken, after_timeout) = (self.overtaken(known), state == SenderState::Loss);
        RepairEvidence {
            state,
            segment: SegmentEvidence {
                first,
                last,
                hole,
                copies: Some(known.seen),
                overtaken,
                repair_lost: after_timeout && overtaken && self.repair_lost(known),
                passed_over: after_timeout && self.was_passed_over(p, known),
            },
            timer: TimerEvidence {
                waited,
                rto: self.timing.rto(),
                rto_least: near.map(|_| self.timing.trips().rto_least()),
                pto: None,
                factor: self.timing.factor(),
                since_timeout: self.repairing.last_timeout.map(|last| p.sent.since(last)),
                quiet: Some(self.timing.quiet()),
                srtt,
                least_trip: self.timing.trips().least(),
                probed: self.repairing.probed,
                probe_due: self.is_unprompted(p.sent) && self.tail_probe(p.sent, false) == Some(p.sent),
            },
            acks,
            sender: SenderEvidence {
                near,
                selective: self.acks.selective(),
                stamps: self.timing.stamps(),
                paces: self.paces(),
                plain: self.timing.plain(),
                losses: Some(self.timing.losses()),
                rearms: self.timing.restarts() && self.hides_repairs(),
            },
            clock: None,
        }
    }

    /// Evidence about acknowledgments of the segment sent now.
    fn ack_evidence(&self, p: &Seen<'_>) -> AckEvidence {
        AckEvidence {
            duplicates: self.acks.duplicates(),
            sacked: self.out.sacked(),
            told: self.acks.told().filter(|told| *told <= p.sent).map(|told| p.sent.since(told)),
            hints: self.acks.hints().map(|hints| hints.map(|at| Age::between(at, p.sent))),
            latest: self.acks.latest().map(|at| p.at.since(at)),
            reacted: None,
            reached: None,
            echoed: self.timing.heard(),
            react: self.timing.react(),
            react_least: Some(self.timing.react_least()),
        }
    }

    /// Earliest and latest time at which the sender's next probe of the tail is due (RFC 8985, section 7.2): two round
    /// trips after the latest that it sent or heard, and after a delayed ACK of a single segment. It is no later than
    /// the timer, which in Linux counts from when the first segment was last sent if data was sent since the latest ACK
    /// (`tcp_schedule_loss_probe`). That first segment may not have been seen; it left within the last round trip. What
    /// passes now `jumped` over what was not seen: that may have left since the ACK.
    pub(super) fn tail_due(&self, now: Instant, jumped: bool) -> Option<(Instant, Instant)> {
        let heard = self.timing.restarted(now);
        let from = heard.max(self.timing.sent_before());
        let (srtt, rto) = (self.timing.trips().srtt()?, self.timing.rto());
        let pto = srtt * 2 + if self.out.count() == 1 { DELAYED_ACK } else { Duration::ZERO };
        let due = |timer: Instant| (from + pto).min((timer + rto).max(from));
        let first = self.out.first().filter(|first| first.seen > 0);
        Some(match first {
            _ if self.timing.sent_before() + ANSWER_BY_ECHO < heard && !jumped => (due(heard), due(heard)),
            Some(first) => (due(first.sent), due(first.sent)),
            None => (from + rto.saturating_sub(srtt).min(pto), due(heard)),
        })
    }

    /// Time at which the sender's probe is due; if this packet may be the probe, now.
    pub(super) fn tail_probe(&self, now: Instant, jumped: bool) -> Option<Instant> {
        let (early, late) = self.tail_due(now, jumped)?;
        let off = self.timing.trips().srtt().unwrap_or_default() / SAMPLE + ANSWER_BY_ECHO;
        Some(if early <= now + off && now <= late + off { now } else { late })
    }

    /// Tells whether the sender had heard no ACK that releases this segment, and knew of no loss: then a timer sent it,
    /// and of a sender that probes tails that is the probe.
    pub(super) fn is_unprompted(&self, sent: Instant) -> bool {
        let silent = self.timing.heard().is_some_and(|heard| heard > ANSWER_BY_ECHO);
        let told = || {
            self.acks.hints().is_some_and(|hints| hints.first + self.timing.react() <= sent + ANSWER_BY_ECHO)
        };
        silent && self.repairing.phase == Phase::Open && self.acks.selective() && !told()
    }

    /// Ends the probe; after an answer the sender may send another probe.
    pub(super) fn end_probe(&mut self, answered: bool) {
        if answered {
            (self.repairing.probed, self.repairing.probe_copy) = (false, None);
        }
    }

    /// Whether new data leaves when a probe is due.
    pub(super) fn probes_now(&mut self, sent: Instant, jumped: bool) -> bool {
        if self.repairing.probed || !self.is_unprompted(sent) || self.tail_probe(sent, jumped) != Some(sent) {
            return false;
        }
        if self.tail_due(sent, jumped).is_some_and(|(early, late)| early == late) {
            self.shown.probes = Some(true);
        }
        !self.timing.plain()
    }

    /// New data leaves while other data is under way, no ACK has asked for it, and a probe is due: that is how a probe
    /// looks where there is new data (RFC 8985, section 7.3). An application that has just written looks the same.
    pub(super) fn is_new_probe(&mut self, p: &Seen<'_>) -> bool {
        let trips = self.timing.trips().srtt().unwrap_or(FIRST_TRIP) * 2;
        let due = PROBE_EARLY.of(trips.min(self.timing.trips().rto()));
        let waited = self.timing.waited(p.sent);
        let may = self.acks.selective()
            && self.repairing.phase == Phase::Open
            && !self.repairing.probed
            && self.acks.hints().is_none();
        let by_wait = self.timing.heard().is_none()
            && may
            && waited.min(self.timing.quiet()) >= due.max(LEAST_WAIT)
            && !self.by_ack(p.sent);
        by_wait || self.probes_now(p.sent, self.timing.losses() && self.max.before(p.tcp.seq))
    }

    /// Tells whether a probe jumps over a hole though nothing seemed to be under way, and notes it. The data that such
    /// a probe asks for was sent after the sender's last packet or ACK that was seen, and was not seen. A sender that
    /// has been asked since is left out.
    pub(super) fn has_jumped(&mut self, p: &Seen<'_>, asked: Option<Instant>) -> bool {
        let jumped = self.timing.heard().is_some() && asked.is_none_or(|asked| asked <= self.pending.since);
        if jumped {
            (self.pending.waiting, self.pending.jumped) = (true, Some(p.tcp.seq_end()));
            self.note_new_probe(p);
        }
        jumped
    }

    /// Notes a probe of new data, which ends the stall before the probe.
    pub(super) fn note_new_probe(&mut self, p: &Seen<'_>) {
        self.repairing.probed = true;
        self.timing.restart(p.sent);
        let lost = if self.pending.jumped.is_some() { Place::Before } else { Place::Unknown };
        let (repair, certainty) = (Repair::Probe, Certainty::Possible);
        let (at, frame, by) = (p.at, p.frame, self.by);
        self.note(Event { at, frame, by, repair, inferred: false, certainty, lost, spurious: false });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiries_by_hand() {
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        // R = 600 ms, from 1 s on: 600, then 1200, then 2400 ms later.
        let plain = |ms: u64| {
            let wait = Duration::from_millis(600);
            let s = Schedule::new(First::Nothing, at(1000), wait);
            s.nearest(at(1000), at(ms), 1)
        };
        let s = plain(1600).1;
        assert_eq!([1, 2, 3].map(|n| s.expiry(n)), [1600, 2800, 5200].map(at));
        assert_eq!([1590, 2830, 5100, 9900].map(|ms| plain(ms).1.timeouts), [1, 2, 3, 4]);
        // A probe after 600 ms restarts the timer: it expires after 1200 and 2400 ms, which 600 and 1800 are far from.
        let wait = Duration::from_millis(600);
        let probe = Schedule::new(First::Probe, at(1600), wait);
        for (ms, probes, timeouts) in [(1600, true, 0), (2200, true, 1), (2800, false, 2), (3400, true, 2)] {
            let (a, b) = (probe.nearest(at(1000), at(ms), 0), plain(ms));
            let found = if a.0 <= b.0 { a.1 } else { b.1 };
            assert_eq!((found.first == First::Probe, found.timeouts), (probes, timeouts), "{ms}");
        }
    }
}
