//! What a sender must have done in a silence, where packets get lost before the capture and its clock tells when each
//! was sent (see [`crate::clock`]). Its round trips are then its own, so its timer is known to about a hundredth, and
//! what it did can be told apart by when a packet was sent: ACKs act as they come; the timer expires after R, 3 R, 7 R;
//! behind a probe or a fast retransmit, which restart it, that much later.

use narrows_units::{Duration, Instant};

use crate::evidence::{
    AckEvidence, Age, ClockEvidence, First, RepairEvidence, SegmentEvidence, SenderEvidence, SenderState,
    TimerEvidence,
};
use crate::judge;
use crate::outstanding::Known;
use crate::sender::{Phase, Seen, Sender};
use crate::tolerances::{ACKS, CLOSE, DELAYED_ACK, FIRST_TRIP, MOST_EXPIRIES, MOST_RTO, RACK, TICK};

/// See the head of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    pub(crate) first: First,
    /// When that happened, or when the timer was restarted.
    pub(crate) from: Instant,
    /// The timer's first wait from there.
    pub(crate) wait: Duration,
    /// How often it expired then.
    pub(crate) timeouts: u32,
    /// It has expired just now.
    pub(crate) on_time: bool,
}

impl Schedule {
    fn new(first: First, from: Instant, wait: Duration) -> Self {
        Self { first, from, wait, timeouts: 0, on_time: false }
    }

    /// When the timer expires for the n-th time: after R (2^n - 1).
    pub(crate) fn expiry(&self, n: u32) -> Instant {
        let mut at = self.from;
        for k in 0..n {
            at += (self.wait * (1 << k)).min(MOST_RTO);
        }
        at
    }

    /// The number of expiries that comes nearest to a packet sent at `sent`, by ratio, and that ratio, at least 1.
    fn nearest(mut self, since: Instant, sent: Instant, least: u32) -> (f64, Self) {
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
    /// From an ACK's passing here until what it lets go passes here.
    pub(crate) fn react(&self) -> Duration {
        self.exact().unwrap_or_else(|| self.trips.sender_half())
    }

    /// The same by the sender's clock, where there is a queue with losses before the capture.
    pub(crate) fn exact(&self) -> Option<Duration> {
        if self.at_sender() {
            self.clock.react()
        } else {
            self.clock.react_sure().filter(|_| self.around.losses)
        }
    }

    /// The least of that.
    pub(crate) fn react_least(&self) -> Duration {
        self.exact().or(self.trips.sender_least()).unwrap_or_default()
    }

    /// When ACKs that told of a loss had their effect, and how much later by RACK (RFC 8985, section 6.2: a quarter of
    /// the least round trip).
    pub(crate) fn told(&self) -> Option<(Instant, Duration)> {
        let react = self.react();
        let patience = self.trips.least().unwrap_or_default() / RACK;
        let rack = self.hints.filter(|_| self.selective).map(|(first, _)| (first + react, patience + TICK));
        let acks = self.evidence.map(|at| (at + react, TICK));
        match (rack, acks) {
            (Some(rack), Some(acks)) if acks.0 < rack.0 + rack.1 => {
                Some((rack.0, acks.0.since(rack.0) + TICK))
            }
            (rack, acks) => rack.or(acks),
        }
    }

    /// It has RACK-TLP (RFC 8985): when ACKs arrive it sends again at once what was sent before what they tell of, and
    /// it probes tails.
    pub(crate) fn has_rack_tlp(&self) -> bool {
        self.stamps && self.selective && !self.around.plain
    }

    /// Nothing that was seen keeps it from probing the tail, if it does.
    pub(crate) fn may_probe(&self) -> bool {
        self.selective && !self.probed && self.phase == Phase::Open && self.hints.is_none()
    }

    /// A probe may be sent when the timer was restarted last: after two round trips, and after a delayed ACK of a
    /// single segment (RFC 8985, section 7.2), and not later than the timer.
    fn probe_due(&self, alone: bool) -> Option<Duration> {
        // It repairs what was under way before a timeout as long as that is not acknowledged, and sends no probes then.
        let may = self.may_probe() && (alone || !self.una.before(self.resent_to));
        let now = self.sent;
        let due = self.tail_probe(now, false).filter(|_| may)?;
        Some(due.since(self.restarted(now)))
    }

    /// What it has done until it sent this. `alone`: this may be the probe.
    pub(crate) fn schedule(&self, p: &Seen<'_>, alone: bool) -> Schedule {
        let since = self.restarted(p.sent);
        let wait = self.rto() * u64::from(self.factor);
        let plain = Schedule::new(First::Nothing, since, wait);
        let plain = plain.nearest(since, p.sent, 1);
        let told = self.told().filter(|(at, _)| self.phase == Phase::Open && *at < since + wait);
        if let Some((from, patience)) = told.filter(|(at, _)| *at <= p.sent + TICK) {
            let fast = Schedule::new(First::Fast, from, self.rto());
            // Where repairs were not needed the reordering window grows, up to a round trip (RFC 8985, section 6.2).
            let most =
                if self.counts.spurious > 0 { self.trips.srtt().unwrap_or_default() } else { patience };
            let by_timer = plain.1.on_time && p.sent > from + patience + TICK;
            if p.sent <= from + patience.max(most) + TICK && !by_timer {
                return fast;
            }
            let fast = fast.nearest(since, p.sent, 0);
            return if fast.0 < plain.0 { fast.1 } else { plain.1 };
        }
        // The timer sends the first segment, so behind a gap it is a probe.
        let Some(due) = self.probe_due(alone) else { return plain.1 };
        let probe = Schedule::new(First::Probe, since + due, self.rto());
        let probe = probe.nearest(since, p.sent, u32::from(!alone));
        if probe.0 <= plain.0 { probe.1 } else { plain.1 }
    }

    /// It has waited for as long as the timer, or a probe, takes. A probe that is due within what we may be off by is
    /// not told from what an ACK lets go.
    pub(crate) fn is_due(&self, waited: Duration) -> bool {
        waited + judge::tolerance(self.trips.srtt()) >= self.due()
    }

    /// From the timer's restart until it, or a probe, is due.
    fn due(&self) -> Duration {
        let (wait, off) = (self.rto() * u64::from(self.factor), judge::tolerance(self.trips.srtt()));
        let probe = self.probe_due(false).filter(|due| *due > off * 2);
        probe.map_or(wait, |due| due.min(wait))
    }

    /// The same, or what stands for it where its clock is not known.
    pub(crate) fn has_expired(&self, sent: Instant, waited: Duration) -> bool {
        if self.exact().is_some() {
            self.is_due(waited) && !self.has_heard(sent)
        } else {
            self.must_have_expired(waited) && !self.has_heard(sent)
        }
    }

    /// Where losses before the capture hide what it does: an ACK has reached it within half of what the timer takes.
    /// Of a Linux sender each ACK restarts it, unless that tells only of what was sent after the first was sent again
    /// (`tcp_clean_rtx_queue`), so what leaves then was let go by ACKs, and is late because it paces. Of a sender whose
    /// timer only new data restarts (RFC 6298, (5.3)), such repairs leave when it is due, and say so.
    pub(crate) fn has_heard(&self, sent: Instant) -> bool {
        self.around.restarts && self.heard_lately(sent)
    }

    fn heard_lately(&self, sent: Instant) -> bool {
        self.hides_repairs() && self.reached(sent).is_some_and(|reached| reached < self.rto() / 2)
    }

    /// Losses before the capture hide what it does between the ACKs that it hears.
    fn hides_repairs(&self) -> bool {
        self.around.losses && self.selective && !self.at_sender()
    }

    /// For how long an ACK had reached it when it sent what passes now.
    fn reached(&self, sent: Instant) -> Option<Duration> {
        let (react, tick) = match self.exact() {
            Some(react) => (react, TICK),
            None => (self.react_least(), Duration::ZERO),
        };
        let heard = self.kept_acks().iter().map(|at| *at + react).filter(|at| *at <= sent + tick);
        heard.max().map(|at| sent.since(at))
    }

    /// The latest ACKs, in no order.
    pub(crate) fn kept_acks(&self) -> &[Instant] {
        &self.acks[..self.acks_seen.min(ACKS)]
    }

    /// For how long the latest ACK that it can have reacted to had passed. Where more ACKs pass than are remembered,
    /// one of them is right.
    fn reacted(&self, now: Instant) -> Option<Duration> {
        let react = self.react();
        let (least, most) = (self.soonest(), react + self.slack(react / 2));
        let ages = self.kept_acks().iter().map(|at| now.since(*at));
        let dense = self.acks_seen >= ACKS && ages.clone().all(|age| age < most);
        let nearest = ages.filter(|age| *age >= least).min();
        if dense { Some(react) } else { nearest }
    }

    /// Whether an ACK passed that the sender reacts to now.
    pub(crate) fn by_ack(&self, now: Instant) -> bool {
        let react = self.react();
        self.reacted(now).is_some_and(|reacted| reacted <= react + self.slack(react / 2))
    }

    /// The first segment is sent again although an ACK was heard lately: whether the timer, had none restarted it, was
    /// due just now; for who collects that.
    pub(crate) fn note_late(&mut self, p: &Seen<'_>) {
        let waited = self.waited(p.sent);
        let due = if self.exact().is_some() { self.is_due(waited) } else { self.must_have_expired(waited) };
        if due && p.tcp.seq.at_or_before(self.una) && self.heard_lately(p.sent) {
            let from = self.restarted(p.sent);
            let wait = self.rto() * u64::from(self.factor);
            let plain = Schedule::new(First::Nothing, from, wait);
            self.late = Some(plain.nearest(from, p.sent, 1).1.on_time);
        }
    }

    /// Evidence about what is sent again now.
    pub(crate) fn evidence(&self, p: &Seen<'_>, known: &Known) -> RepairEvidence {
        let waited = self.waited(p.sent);
        let (first, last) = (p.tcp.seq.at_or_before(self.una), p.tcp.seq_end() == self.max);
        let hole = known.hole.is_some();
        let near = self.trips.sender_least().filter(|_| self.at_sender());
        let srtt = self.trips.srtt();
        let state = match self.phase {
            Phase::Open => SenderState::Open,
            Phase::Recovery(_) => SenderState::Recovery,
            Phase::Loss(_) => SenderState::Loss,
        };
        let clock = self.exact().map(|_| {
            let found = (state == SenderState::Open).then(|| self.schedule(p, last && !hole));
            let (first, expiries) = found.map_or((First::Nothing, 0), |s| (s.first, s.timeouts));
            ClockEvidence { due: self.due(), first, expiries }
        });
        let acks = self.ack_evidence(p);
        RepairEvidence {
            state,
            segment: SegmentEvidence {
                first,
                last,
                hole,
                copies: Some(known.seen),
                overtaken: self.overtaken(known),
                repair_lost: self.repair_lost(known),
                passed_over: self.was_passed_over(p, known),
            },
            timer: TimerEvidence {
                waited,
                rto: self.rto(),
                rto_least: Some(self.trips.rto_least()),
                pto: (srtt.unwrap_or(FIRST_TRIP) * 2 + DELAYED_ACK).min(self.trips.rto()),
                factor: self.factor,
                since_timeout: self.last_timeout.map(|last| p.sent.since(last)),
                quiet: Some(self.quiet),
                srtt,
                least_trip: self.trips.least(),
                probed: self.probed,
                probe_due: self.is_unprompted(p.sent) && self.tail_probe(p.sent, false) == Some(p.sent),
            },
            acks,
            sender: SenderEvidence {
                near,
                selective: self.selective,
                stamps: self.stamps,
                paces: self.paces(),
                plain: self.around.plain,
                losses: Some(self.around.losses),
                rearms: self.around.restarts && self.hides_repairs(),
            },
            clock,
        }
    }

    /// What acknowledgments have to do with what is sent now.
    pub(crate) fn ack_evidence(&self, p: &Seen<'_>) -> AckEvidence {
        AckEvidence {
            duplicates: self.dupacks,
            sacked: self.out.sacked(),
            told: self.evidence.filter(|told| *told <= p.sent).map(|told| p.sent.since(told)),
            hints: self
                .hints
                .map(|(first, latest)| (Age::between(first, p.sent), Age::between(latest, p.sent))),
            latest: self.acks_seen.checked_sub(1).map(|n| p.at.since(self.acks[n % ACKS])),
            reacted: self.reacted(p.sent),
            reached: self.reached(p.sent),
            echoed: self.heard,
            react: self.react(),
            react_least: Some(self.react_least()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::Asked;

    #[test]
    fn soon_after_an_ack_no_timer_has_expired() {
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        let mut s = Sender::new(1, Asked::default());
        s.trips.time_sender(Duration::from_millis(100), 2);
        s.trips.time_receiver(Duration::from_millis(300));
        // R = 400 ms, RTO = 400 + 800; the ACK that passes at 1 s is heard at 1.1 s.
        (s.acks[0], s.acks_seen) = (at(1000), 1);
        (s.selective, s.around.losses) = (true, true);
        assert!(!s.has_heard(at(1200)), "it is not known whether such timers are restarted");
        s.around.restarts = true;
        assert_eq!([1050, 1100, 1699, 1700].map(|ms| s.has_heard(at(ms))), [false, true, true, false]);
    }

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
