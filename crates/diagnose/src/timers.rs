//! When a sender's timer runs and expires, and what follows for it. What is sent again is judged in [`crate::judge`].

use narrows_units::{Duration, Instant, SeqNum};

use crate::evidence::First;
use crate::findings::{Certainty, Event, Place, Repair};
use crate::judge;
use crate::measure::Schedule;
use crate::outstanding::Known;
use crate::sender::{Phase, Seen, Sender};
use crate::tolerances::{
    AT_SENDER, EARLY, LEAST_WAIT, MOST_EVENTS, MOST_EXPIRIES, MOST_RTO, OVERTAKEN, OVERTAKEN_TOLD,
    RESTART_OFF, SOONEST, TICK, TOO_SOON,
};

impl Sender {
    /// It fills a hole too soon to be a repair: it has been overtaken. No sender learns of a loss in less than a round
    /// trip. Timestamps show it too: a repair is sent later than what overtook it.
    pub(crate) fn is_late(&self, p: &Seen<'_>, known: &Known) -> bool {
        let Some(hole) = known.hole else { return false };
        let age = p.at.since(hole);
        let soon = self.trips.least().map_or(OVERTAKEN, |least| SOONEST.of(least));
        age < soon && (self.evidence.is_none() || age < OVERTAKEN_TOLD)
    }

    /// It reacts no sooner than this.
    pub(crate) fn soonest(&self) -> Duration {
        if self.at_sender() { Duration::ZERO } else { SOONEST.of(self.react_least()) }
    }

    /// How much later than its half of the round trip the sender may react.
    pub(crate) fn slack(&self, guess: Duration) -> Duration {
        judge::slack(self.exact().is_some(), guess)
    }

    /// When the timer was restarted last, for what passes now.
    pub(crate) fn restarted(&self, now: Instant) -> Instant {
        let slack = match self.exact() {
            Some(_) => TICK,
            None => self.react().saturating_sub(self.react_least() / RESTART_OFF),
        };
        self.timer.since(now, slack)
    }

    /// For how long the timer ran when it sent what passes now.
    pub(crate) fn waited(&self, now: Instant) -> Duration {
        now.since(self.restarted(now))
    }

    /// A silence that is long enough for the timer.
    pub(crate) fn waits_for_timer(&self, waited: Duration) -> bool {
        judge::waits_for_timer(waited, self.trips.srtt())
    }

    /// The timeout without back-off: what the round trips make of it. Without timestamps there are few samples, and
    /// then it is no less than other timers here have waited.
    pub(crate) fn rto(&self) -> Duration {
        let floor = if self.stamps { Duration::ZERO } else { self.around.floor };
        self.trips.rto().max(floor)
    }

    /// How often a timer that doubles expires in `waited`: R, then 2 R, then 4 R make R (2^k - 1).
    fn expiries(&self, waited: Duration) -> u32 {
        let first = (self.rto() * u64::from(self.factor)).min(MOST_RTO);
        let (mut k, mut sum, mut wait) = (1, first, first);
        while k < MOST_EXPIRIES {
            wait = (wait * 2).min(MOST_RTO);
            // The border between k and k + 1 is the geometric middle of both sums.
            let next = sum + wait;
            if u128::from(waited.as_nanos()).pow(2) < u128::from(sum.as_nanos()) * u128::from(next.as_nanos())
            {
                break;
            }
            (k, sum) = (k + 1, next);
        }
        k
    }

    /// The capture is so near to the sender that what follows from an ACK is seen at once after it.
    pub(crate) fn at_sender(&self) -> bool {
        self.trips.sender_least().is_some_and(|least| least < AT_SENDER)
    }

    /// A silence so long that the timer cannot have stood still. Where losses before the capture hide what the sender
    /// does, other silences look much the same, so we ask for more.
    pub(crate) fn must_have_expired(&self, waited: Duration) -> bool {
        self.waits_for_timer(waited)
            && (waited >= EARLY.of(self.rto()) || !(self.around.losses || self.at_sender()))
    }

    /// ACKs have told of a loss, and the repair that follows from that was not seen: it was lost on the way here. The
    /// timer has been restarted with it.
    fn hidden_repair(&mut self, p: &Seen<'_>) {
        let Some(told) = self.evidence.filter(|_| self.phase == Phase::Open) else { return };
        let at = told + self.react();
        if p.sent.since(at) < LEAST_WAIT {
            return;
        }
        let (repair, certainty, lost) = (Repair::FastRetransmit, Certainty::Likely, Place::Before);
        let (frame, by, inferred, spurious) = (p.frame, self.by, true, false);
        self.note(Event { at, frame, by, repair, inferred, certainty, lost, spurious });
        self.timer.restart(at.max(self.restarted(p.sent)));
        self.pending.double = true;
    }

    /// The timer has expired: once, or, if there may be repairs that are not seen, as often as fits into the silence.
    pub(crate) fn expire(&mut self, p: &Seen<'_>, hidden: bool, lost: Place, certainty: Certainty) {
        if hidden && self.exact().is_some() {
            self.expire_by_clock(p, lost, certainty);
            return;
        }
        if hidden {
            self.hidden_repair(p);
        }
        let waited = self.waited(p.sent);
        let k = if hidden { self.expiries(waited) } else { 1 };
        let seen = self.max != p.tcp.seq;
        let first = self.rto() * u64::from(self.factor);
        if seen && self.factor == 1 {
            self.timed = Some(waited);
        }
        self.factor = self.factor.saturating_mul(1 << k).min(1 << 15);
        for n in 1..=k {
            let inferred = n < k || !seen;
            // What was not seen is put where the doubling has it, counted back from the one that was.
            let share = if k == 1 { 1.0 } else { ((1_u64 << n) - 1) as f64 / ((1_u64 << k) - 1) as f64 };
            let span = waited.max(first);
            let back = (span.as_nanos() as f64 * (1.0 - share)) as u64;
            let at = Instant::from_nanos(if n < k { p.sent } else { p.at }.as_nanos().saturating_sub(back));
            let certainty = if inferred { certainty.min(Certainty::Likely) } else { certainty };
            let repair = Repair::Timeout;
            self.note(Event {
                at,
                frame: p.frame,
                by: self.by,
                repair,
                inferred,
                certainty,
                lost,
                spurious: false,
            });
        }
        self.timed_out(p);
    }

    /// The same where its clock tells what it did.
    fn expire_by_clock(&mut self, p: &Seen<'_>, lost: Place, certainty: Certainty) {
        let found = self.schedule(p, self.max.before(p.tcp.seq));
        let Schedule { first, timeouts, from, .. } = found;
        let seen = self.max != p.tcp.seq;
        let (frame, by, spurious) = (p.frame, self.by, false);
        let note = |s: &mut Self, at, repair, inferred: bool| {
            let certainty = if inferred { certainty.min(Certainty::Likely) } else { certainty };
            s.note(Event { at, frame, by, repair, inferred, certainty, lost, spurious });
        };
        match first {
            First::Fast => {
                note(self, from, Repair::FastRetransmit, true);
                self.factor = 1;
                self.pending.double = true;
            }
            First::Probe => {
                note(self, if timeouts > 0 { from } else { p.at }, Repair::Probe, timeouts > 0);
                self.probed = true;
                self.timer.restart(if timeouts > 0 { from } else { p.sent });
            }
            // A sender that probes tails does so before its first timeout, unless it repairs (RFC 8985, section 7.2).
            First::Nothing if found.on_time && self.told_since > 1 => {
                self.pending.double |= self.has_rack_tlp() && self.may_probe();
            }
            First::Nothing => {}
        }
        if timeouts == 0 {
            return;
        }
        for n in 1..=timeouts {
            let last = n == timeouts;
            self.factor = (self.factor * 2).min(1 << 15);
            note(self, if last { p.at } else { found.expiry(n) }, Repair::Timeout, !last || !seen);
        }
        self.timed_out(p);
    }

    /// The timer has expired when this was sent.
    fn timed_out(&mut self, p: &Seen<'_>) {
        // What was sent since the last timeout, up to here, were repairs.
        self.pending.double |=
            self.last_timeout.is_some() && self.una.before(self.resent_to) && !p.tcp.seq.before(self.max);
        // An ACK after the last one has let out the repair of what came next, which was not seen.
        let repaired = self.around.losses && self.told_since > 0;
        self.pending.double |= repaired && matches!(self.phase, Phase::Loss(_));
        let told = self.hints.is_some() || matches!(self.phase, Phase::Recovery(_));
        self.pending.double |= told && self.around.losses && self.has_rack_tlp();
        (self.last_timeout, self.told_since, self.repairs_left) = (Some(p.sent), 0, true);
        self.repaired_to = p.tcp.seq_end();
        self.counts.backoff_max = self.counts.backoff_max.max(self.factor);
        self.timer.restart(p.sent);
        // What was under way is sent again, also what was not seen here; limited transmit adds to it (RFC 3042).
        let flight = self.window_pkts.flight() * self.mss.max(1);
        self.resent_to = self.max.max(self.una.max(p.tcp.seq_end()) + flight);
        self.window_pkts.on_timeout();
        let to = match self.phase {
            Phase::Loss(to) => to,
            // At least two segments were under way since the last ACK, and the probe.
            _ if self.exact().is_some() && !self.at_sender() => {
                self.una + (2 + u32::from(self.probed)) * self.mss
            }
            _ => self.max,
        };
        self.phase = Phase::Loss(if self.max.before(to) { to } else { self.max });
        (self.evidence, self.dupacks) = (None, 0);
    }

    /// Takes an event down.
    pub(crate) fn note(&mut self, event: Event) {
        self.counts.add(&event);
        self.pending.add(&event, self.factor);
        if self.events.len() < MOST_EVENTS {
            self.events.push(event);
        }
    }

    /// An ACK of new data after a repair: does it answer the original? Eifel (RFC 3522): it echoes a timestamp from
    /// before the repair. Without timestamps: it came sooner than any round trip.
    pub(crate) fn check_spurious(&mut self, p: &Seen<'_>) {
        let Some(latest) =
            self.latest.filter(|l| l.seen && l.start.before(p.tcp.ack) && self.una.at_or_before(l.start))
        else {
            return;
        };
        // RFC 5682, section 2.1: the acknowledgment covers what was not sent again, and no duplicate came before.
        let beyond = latest.end.before(p.tcp.ack) && self.pending.dupacks == 0 && self.pending.timeouts > 0;
        let early = match (latest.tsval, p.tcp.timestamps) {
            (Some(sent), Some((_, echoed))) => SeqNum(echoed).before(SeqNum(sent)),
            _ => {
                beyond
                    || self
                        .trips
                        .receiver_least()
                        .is_some_and(|least| p.at.since(latest.at) < TOO_SOON.of(least))
            }
        };
        if early {
            self.spurious();
        }
    }

    /// The latest repair was not needed.
    pub(crate) fn spurious(&mut self) {
        let Some(latest) = self.latest.as_mut().filter(|l| !l.spurious) else { return };
        latest.spurious = true;
        self.counts.spurious += 1;
        if let Some(event) = latest.event.and_then(|at| self.events.get_mut(at)) {
            event.spurious = true;
        }
        match latest.stall.and_then(|at| self.stalls.get_mut(at)) {
            Some(stall) => stall.was_spurious(),
            None => self.pending.spurious = true,
        }
    }
}
