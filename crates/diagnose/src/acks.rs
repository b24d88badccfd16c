//! What a sender hears: acknowledgments that pass the point of capture towards it.

use narrows_units::{Duration, Instant, SeqNum};
use narrows_wire::Flags;

use crate::judge::DUPTHRESH;
use crate::sender::{Phase, Seen, Sender};
use crate::tolerances::{ACKS, LONG_TRIP, MOST_ECHOES, SOONEST};

impl Sender {
    /// A packet of the other end passes, which acknowledges.
    pub(crate) fn ack(&mut self, p: &Seen<'_>) {
        let t = p.tcp;
        if let Some((tsval, _)) = t.timestamps {
            self.trips.stamp(p.at, tsval);
        }
        let window = u32::from(t.window) << if t.flags.has(Flags::SYN) { 0 } else { self.scale };
        let update = self.window.is_some_and(|w| w != window);
        self.window = Some(window);
        match &mut self.shut {
            None if window == 0 => self.shut = Some((p.at, None)),
            Some((_, open)) if window > 0 && open.is_none() => {
                *open = Some(p.at);
                // Until then nothing could be under way, so no timer ran but that of the probes (RFC 9293, 3.8.6.1).
                // It starts no sooner; what is known of the sender's half may be too much.
                self.timer.restart(p.at);
            }
            _ => {}
        }
        if self.synced && self.acks_seen == 0 {
            // The handshake's is the first sample.
            self.time_echo(p);
        }
        if !self.synced || t.flags.has(Flags::SYN) {
            return;
        }
        self.acks[self.acks_seen % ACKS] = p.at;
        self.acks_seen += 1;
        if self.una.before(t.ack) {
            self.advance(p);
            self.selectively(p);
        } else if t.ack == self.una {
            let news = self.selectively(p);
            let bare = t.payload == 0 && !t.flags.has(Flags::FIN);
            let duplicate = bare && !self.out.is_empty() && (!update || news);
            self.end_probe(bare && t.sack.as_slice().is_empty() && self.probe_copy == Some(t.ack));
            self.dupacks += u32::from(duplicate);
            self.counts.dupacks += u64::from(duplicate);
            if news || duplicate {
                self.progress(p.at, p.frame, true);
                self.tell(p.at);
                self.pending.dupacks = self.dupacks.max(self.out.sacked());
            } else if update && window > 0 && self.pending.closed {
                self.progress(p.at, p.frame, true);
            }
        }
        self.pending.closed |= window == 0;
    }

    /// What an ACK that passes now can answer was seen no later. Some round trips are shorter than all that were timed.
    fn answered(&self, now: Instant) -> Instant {
        let least = SOONEST.of(self.trips.receiver_least().unwrap_or_default());
        Instant::from_nanos(now.as_nanos().saturating_sub(least.as_nanos()))
    }

    /// Have enough ACKs told of a loss?
    fn tell(&mut self, now: Instant) {
        let enough = self.dupacks >= DUPTHRESH || self.out.sacked() >= DUPTHRESH;
        if enough && self.evidence.is_none() && self.phase == Phase::Open {
            self.evidence = Some(now);
        }
        if self.out.sacked() > 0 {
            self.hints = Some((self.hints.map_or(now, |(first, _)| first), now));
        }
    }

    /// An ACK of new data.
    fn advance(&mut self, p: &Seen<'_>) {
        let to = p.tcp.ack;
        if self.max.before(to) {
            // What it acknowledges was not seen here.
            self.counts.unseen += 1;
            self.max = to;
        }
        self.check_spurious(p);
        // What was under way until now is what stood still.
        self.progress(p.at, p.frame, true);
        let covered = self.out.cover(to, self.answered(p.at));
        match covered.sample {
            Some(sent) if !covered.repeated => {
                self.answered = Some(p.at.since(sent));
                self.trips.time_receiver(p.at.since(sent));
            }
            _ => covered.last.into_iter().for_each(|last| self.trips.time_repeated(p.at.since(last))),
        }
        self.time_echo(p);
        if covered.count > 0 && (!covered.repeated || self.stamps) {
            self.factor = 1;
        }
        self.una = to;
        self.dupacks = 0;
        (self.told_since, self.advanced) = (self.told_since + 1, p.at);
        // Whether a copy was needed shows only when more is acknowledged (RFC 8985, section 7.4.2).
        self.end_probe(self.probe_copy.is_none_or(|end| end.before(to)));
        self.window_pkts.on_ack(self.out.count());
        let over = match self.phase {
            Phase::Open => true,
            Phase::Recovery(until) | Phase::Loss(until) => until.at_or_before(to),
        };
        if over {
            (self.phase, self.evidence, self.hints) = (Phase::Open, None, None);
        }
        self.timer.restart(p.at + self.react());
        if over && self.out.sacked() > 0 && self.exact().is_some() {
            self.tell(p.at);
        }
        self.emptied = self.out.is_empty().then_some(p.at);
        self.pending.outstanding = self.out.count();
        self.pending.dupacks = self.out.sacked();
        self.waiting = !self.out.is_empty();
    }

    /// Without timestamps, the sender's half can be had from the ACK that let this go: one before which nothing was
    /// under way, if the handshake tells how long that takes about, else one before which there was none for long.
    pub(crate) fn time_answer(&mut self, now: Instant) {
        let Some(emptied) = self.emptied.filter(|_| !self.stamps && self.acks_seen > 1) else { return };
        let half = now.since(emptied);
        if let Some(greeting) = self.greeting {
            // What comes sooner was let go by an earlier ACK.
            if half >= greeting / 2 {
                self.trips.time_sender(half, 3);
            }
            return;
        }
        let kept = self.acks_seen.min(ACKS);
        let alone =
            self.acks[..kept].iter().all(|at| *at >= emptied || now.since(*at) > LONG_TRIP.max(half * 3));
        if alone && self.counts.data > 0 {
            self.trips.time_sender(half, 2);
        }
    }

    /// By its clock the sender's own sample is known: from when it sent what the ACK echoes until it has the ACK (RFC
    /// 7323, section 4.1). What passes before the clock is known is caught up on then.
    fn time_echo(&mut self, p: &Seen<'_>) {
        let Some((_, tsecr)) = p.tcp.timestamps else { return };
        let flight = self.window_pkts.flight() * self.mss.max(1);
        let echo = (p.at, tsecr, p.tcp.ack, self.max.max(p.tcp.ack + flight));
        if let Some(react) = self.exact() {
            self.catch_up();
            self.time_one(react, echo);
        } else if self.echoes.len() < MOST_ECHOES {
            self.echoes.push(echo);
        }
    }

    /// Takes the samples of acknowledgments that wait for the sender's clock, if it is known.
    pub(crate) fn catch_up(&mut self) {
        if self.echoes.is_empty() {
            return;
        }
        let Some(react) = self.exact() else { return };
        for echo in std::mem::take(&mut self.echoes) {
            self.time_one(react, echo);
        }
    }

    fn time_one(&mut self, react: Duration, (at, tsecr, una, max): (Instant, u32, SeqNum, SeqNum)) {
        if let Some(sent) = self.clock.sent(at, tsecr) {
            self.trips.time_whole((at + react).since(sent), una, max);
        }
    }

    /// Takes in the SACK blocks; says whether they were news. A block below the cumulative ACK, or within the second,
    /// is a DSACK (RFC 2883, section 4): something came twice.
    fn selectively(&mut self, p: &Seen<'_>) -> bool {
        let blocks = p.tcp.sack.as_slice();
        let Some(&(left, right)) = blocks.first() else { return false };
        self.selective = true;
        let inside = blocks.get(1).is_some_and(|(l, r)| l.at_or_before(left) && right.at_or_before(*r));
        let duplicate = right.at_or_before(p.tcp.ack) || inside;
        self.end_probe(duplicate && self.probe_copy == Some(right));
        if duplicate && self.latest.is_some_and(|l| left.before(l.end) && l.start.before(right)) {
            self.spurious();
        }
        let answered = self.answered(p.at);
        let mut news = false;
        for (l, r) in &blocks[usize::from(duplicate)..] {
            news |= l.before(*r) && self.out.sack(*l, *r, answered);
        }
        if news {
            self.told_since += 1;
            self.tell(p.at);
        }
        news
    }
}
