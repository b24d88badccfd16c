//! One end of a connection as a sender, reconstructed from what passes the point of capture: what is outstanding, which
//! ACKs it has had, when its timer expires. Sources: RFC 5681 and 6675 (fast retransmit), RFC 6298 (timer), RFC 8985
//! (tail-loss probe, what counts as a loss), RFC 2883 (DSACK) and RFC 3522 (Eifel: timestamps tell that a repair was
//! spurious).
//!
//! `measure` makes evidence of it, [`crate::judge`] a verdict of that, and `stalls` keeps what was found. Fields are
//! private to this file and those two.

mod measure;
mod stalls;
#[cfg(test)]
mod tests;

use narrows_units::{Duration, Instant, SeqNum};
use narrows_wire::{Flags, TcpHeader};

use self::measure::Schedule;
use self::stalls::{Pending, Watch};
use crate::acks::Acks;
use crate::counts::Counts;
use crate::evidence::First;
use crate::findings::{Cause, Certainty, Event, Place, Repair, Stall};
use crate::outstanding::{Known, Outstanding};
use crate::seen::Seen;
use crate::timer::Timer;
use crate::timing::{Around, Timing};
use crate::tolerances::{
    ANSWER_BY_ECHO, BUSY, LEAST_WAIT, LONE_LEAST, LONG_TRIP, MOST_EVENTS, OVERTAKEN, OVERTAKEN_TOLD, PACES,
    SOONEST, TOO_SOON,
};
use crate::why::{Asked, Why};
use crate::window::Window;

/// State of the sender's loss recovery, as in RFC 6582 and RFC 6675.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// The sender knows of no loss.
    #[default]
    Open,
    /// Recovery after a fast retransmit, until the sequence number given is acknowledged.
    Recovery(SeqNum),
    /// Recovery after a timeout, until the sequence number given is acknowledged.
    Loss(SeqNum),
}

/// The latest repair, kept to tell later whether the repair was needed.
#[derive(Clone, Copy, Debug)]
struct Latest {
    start: SeqNum,
    end: SeqNum,
    at: Instant,
    tsval: Option<u32>,
    /// Place of the repair in [`Findings::events`], if the repair is there.
    event: Option<usize>,
    /// Place of the stall that the repair is part of, once the stall is over.
    stall: Option<usize>,
    spurious: bool,
    /// Place where the original is taken to be lost: behind here, if it had been seen.
    lost: Place,
}

/// The first segment of an answer, of which it is not known yet whether an application sent it that took its time, or
/// the timer after all before it was lost on the way here; and what was known before it. Only what follows tells: an
/// application's answer begins with a window of segments, and the timer sends a segment alone, and then what its ACK
/// lets go (RFC 5681, section 3.1: the loss window is one segment).
#[derive(Clone, Copy, Debug)]
struct Lone {
    at: Instant,
    sent: Instant,
    frame: u64,
    tcp: TcpHeader,
    timer: Timer,
    /// Back-off of the timer.
    factor: u32,
    max: SeqNum,
}

/// Behaviour of the application, as segments of new data show the behaviour.
#[derive(Clone, Debug, Default)]
struct Speech {
    /// Whether the application ever set PSH; then whether it did on the last segment of new data.
    seen_push: bool,
    pushed: bool,
    /// How often data followed soon after a PSH, and how often no data did.
    pushes: (u16, u16),
    fin: bool,
    /// The longest payload.
    mss: u32,
    /// The longest payload that the receiver has announced (MSS option); zero if it was not seen.
    announced: u32,
    /// Whether the latest segment of new data was less than half of the announced length: the application had said all.
    short: bool,
    last_data: Option<Instant>,
    /// First segment of new data.
    first_data: Option<Instant>,
    /// Segments of new data that neither an ACK nor others let go.
    alone: u32,
}

/// Offer of the receiver.
#[derive(Clone, Debug, Default)]
struct Offer {
    /// Bytes; unscaled if the handshake was not seen.
    window: Option<u32>,
    scale: u8,
    /// The window was closed then, and opened again then.
    shut: Option<(Instant, Option<Instant>)>,
}

/// Repairs seen since the sender knows of a loss.
#[derive(Clone, Debug, Default)]
struct Repairing {
    phase: Phase,
    /// Time at which a timeout was seen last.
    last_timeout: Option<Instant>,
    /// Sequence number up to which data may have been sent again since the timeout.
    resent_to: SeqNum,
    /// End of the highest segment that was seen again since the timeout.
    repaired_to: SeqNum,
    /// Whether no new data was seen behind the repairs since the timeout.
    repairs_left: bool,
    /// Whether a probe was sent since the last ACK of new data.
    probed: bool,
    /// The end of the probe's data, if the probe was a copy.
    probe_copy: Option<SeqNum>,
    window_pkts: Window,
    latest: Option<Latest>,
}

/// Findings about one end of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) counts: Counts,
    pub(crate) events: Vec<Event>,
    pub(crate) stalls: Vec<Stall>,
    /// Time spent in stalls, stalls that are not kept included.
    pub(crate) stalled: Duration,
    /// Time in which an application had nothing to send, between its first data and its last.
    pub(crate) idle: Duration,
    /// Verdicts on the frame that is asked about.
    pub(crate) asked: Asked,
    /// The latest stall, if later packets may tell more of the stall.
    watched: Option<Watch>,
}

/// Signs that this end has just given of senders like it; read by the analyzer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shown {
    /// Wait before the latest expiry without a back-off.
    pub(crate) timed: Option<Duration>,
    /// The segment sent again after a silence, with several under way: the last, by a sender with tail-loss probes, or
    /// the first, by one without.
    pub(crate) probes: Option<bool>,
    /// Whether the first segment was repaired when the timer was due, soon after an ACK ([`Sender::note_late`]).
    pub(crate) late: Option<bool>,
}

/// Sender at one end of a connection, with its window, timer and findings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sender {
    /// 0 for the end that opened the connection.
    by: u8,
    synced: bool,
    /// The first sequence number of the sender's data.
    start: SeqNum,
    /// The end of the highest byte seen.
    max: SeqNum,
    /// The highest ACK seen.
    una: SeqNum,
    out: Outstanding,
    timing: Timing,
    acks: Acks,
    speech: Speech,
    offer: Offer,
    repairing: Repairing,
    pending: Pending,
    lone: Option<Lone>,
    findings: Findings,
    shown: Shown,
    /// Time that the other end has just taken to acknowledge a segment that was sent once.
    answered: Option<Duration>,
    /// Whether the end opened the connection, and the handshake is over.
    opened: bool,
}

impl Sender {
    pub(crate) fn new(by: u8, asked: Asked) -> Self {
        let findings = Findings { asked, ..Findings::default() };
        Self { by, timing: Timing::new(), findings, ..Self::default() }
    }

    /// Takes a SYN of the end: sequence numbers of data begin behind the SYN.
    pub(crate) fn begin(&mut self, now: Instant, start: SeqNum) {
        (self.synced, self.start, self.max, self.una, self.repairing.resent_to) =
            (true, start, start, start, start);
        self.pending.since = now;
        self.out.clear();
        self.timing.restart(now);
    }

    /// A packet of this end passes. `asked` is when the other end last sent data.
    pub(crate) fn data(&mut self, p: &Seen<'_>, asked: Option<Instant>) {
        let (seq, end) = (p.tcp.seq, p.tcp.seq_end());
        let p = &Seen { sent: self.timing.when_sent(p), ..*p };
        if !self.synced {
            self.begin(p.at, seq);
        }
        if self.is_probe_or_keep_alive(p.tcp) || seq == end {
            return;
        }
        if end.distance_from(self.max).unsigned_abs() > 1 << 30 {
            // Not of this connection, or far from what was seen: go on from there.
            self.begin(p.at, seq);
        }
        self.timing.sends(p.sent);
        self.was_lone(p, asked);
        if end.at_or_before(self.max) {
            self.again(p);
            return;
        }
        let idle = self.out.is_empty();
        if seq.before(self.max) {
            self.out.touch(seq, self.max, p);
        }
        // A segment that jumps over a hole was not alone under way.
        let probe = (!idle || self.max.before(seq)) && self.is_new_probe(p);
        // A segment that is inferred to be a repair gives no sample (Karn's rule).
        let repair = idle && !probe && self.after_silence(p, asked);
        let again = repair || (self.timing.losses() && end.at_or_before(self.repairing.resent_to));
        let seen = if again { 2 } else { 1 };
        if !idle && self.pending.since_ack && self.acks.duplicates() > 0 {
            // Limited transmit (RFC 3042): the duplicate, or one before it, has let this go.
            self.timing.time_clocked(p.at.since(self.pending.since));
        }
        let jumped = idle && probe && self.has_jumped(p, asked);
        self.progress(p, false);
        if probe && !jumped {
            self.note_new_probe(p);
        }
        if self.max.before(seq) {
            self.under_way_then(seq);
            self.findings.counts.holes += 1;
            self.out.push(self.max, seq, p, 0);
        }
        let start = self.max.max(seq);
        self.out.push(start, end, p, seen);
        let unasked = asked.is_none_or(|asked| self.speech.last_data.is_some_and(|last| asked < last));
        self.sent_new(p, end, idle, unasked);
    }

    /// PSH ends what the application had to say. Some stacks set it on each burst, and then it says nothing.
    fn pushes(&self) -> bool {
        self.speech.seen_push && self.speech.pushes.0 <= self.speech.pushes.1.saturating_add(1)
    }

    fn sent_new(&mut self, p: &Seen<'_>, end: SeqNum, idle: bool, unasked: bool) {
        self.goes_on(p.sent, end, p.tcp.flags.has(Flags::FIN));
        self.note_pace(p.at);
        self.max = end;
        self.pending.waiting = true;
        self.findings.counts.data += self.segments(p.tcp);
        self.findings.counts.bytes += u64::from(p.tcp.payload);
        self.speech.mss = self.speech.mss.max(p.tcp.payload);
        self.speech.short = p.tcp.payload * 2 < self.speech.announced;
        if self.speech.pushed {
            // Data that an acknowledgment lets go was written before.
            let soon = unasked && self.timing.answers()
                || self.speech.last_data.is_some_and(|last| p.at.since(last) < self.patience());
            let count = if soon { &mut self.speech.pushes.0 } else { &mut self.speech.pushes.1 };
            *count = count.saturating_add(1);
        }
        self.speech.pushed = p.tcp.flags.has(Flags::PSH);
        self.speech.seen_push |= self.speech.pushed;
        self.speech.fin |= p.tcp.flags.has(Flags::FIN);
        self.speech.last_data = Some(p.at);
        self.speech.first_data.get_or_insert(p.at);
        self.pending.outstanding = self.out.count();
        if idle {
            // RFC 6298, (5.1).
            self.timing.restart(p.sent);
        }
        (self.pending.emptied, self.offer.shut) = (None, None);
        self.repairing.repairs_left &=
            self.repairing.last_timeout.is_some_and(|at| at >= self.timing.sent_before());
    }

    /// Segments that a record of the capture stands for: those that offload cuts it into, or has merged.
    fn segments(&self, tcp: &TcpHeader) -> u64 {
        if tcp.payload <= self.speech.announced || self.speech.announced < 40 {
            return 1;
        }
        // Timestamps take 12 bytes of each (RFC 7323, appendix A).
        let most = self.speech.announced - if tcp.timestamps.is_some() { 12 } else { 0 };
        tcp.payload.div_ceil(most).into()
    }

    /// RFC 9293, section 3.8.4: a keep-alive has at most one byte, just below the next to be sent; section 3.8.6.1: a
    /// probe of a closed window has one byte at its edge, or none.
    fn is_probe_or_keep_alive(&mut self, tcp: &TcpHeader) -> bool {
        if tcp.payload > 1 || tcp.flags.has(Flags::FIN) || tcp.flags.has(Flags::SYN) {
            return false;
        }
        if tcp.seq + 1 == self.max && !self.out_of_one_byte(tcp) {
            let closed = self.offer.window == Some(0);
            let count = if closed {
                &mut self.findings.counts.window_probes
            } else {
                &mut self.findings.counts.keep_alives
            };
            *count += 1;
            return true;
        }
        if self.offer.window == Some(0) && tcp.payload == 1 && tcp.seq == self.una {
            self.findings.counts.window_probes += 1;
            return true;
        }
        false
    }

    /// The last byte is under way as a segment of its own: it may well be a retransmission.
    fn out_of_one_byte(&self, tcp: &TcpHeader) -> bool {
        tcp.payload == 1 && self.una.at_or_before(tcp.seq)
    }

    /// Tells whether new data after a silence, in which nothing was under way, is the repair of data that was lost
    /// before the capture and never seen. It may also have been asked for just now, or the application may have had
    /// nothing to say.
    fn after_silence(&mut self, p: &Seen<'_>, asked: Option<Instant>) -> bool {
        self.time_answer(p.at);
        // The opener's first data follows the handshake at once.
        let first = self.speech.last_data.is_none();
        // A segment that jumps over a hole comes after something that was lost.
        let hole = self.max.before(p.tcp.seq);
        let more = if self.pushes() {
            !self.speech.pushed
        } else {
            p.tcp.payload > 0 && (first || self.speech.mss > 0)
        };
        let more = more && !self.speech.short;
        let unasked = asked.is_none_or(|asked| self.speech.last_data.is_some_and(|last| asked < last));
        let waited = self.timing.waited(p.sent);
        let closed = matches!(self.offer.shut, Some((_, None)));
        // Behind a hole it may be a probe, which is sooner than any timer.
        let may = (hole || more && unasked && waited >= LEAST_WAIT) && !closed && (!first || self.opened);
        if !(may && self.timing.losses() && self.has_expired(p.sent, waited)) {
            self.may_be_lone(p, asked);
            return false;
        }
        let certainty = if first { Certainty::Possible } else { Certainty::Likely };
        self.expire(p, true, Place::Before, certainty);
        self.pending.waiting = true;
        true
    }

    /// Bytes pass that passed, or were passed over, before.
    fn again(&mut self, p: &Seen<'_>) {
        let (seq, end) = (p.tcp.seq, p.tcp.seq_end());
        let known = self.out.touch(seq, end, p);
        if self.is_late(p, &known) {
            self.findings.counts.reordered += 1;
            self.progress(p, false);
            return;
        }
        self.findings.counts.again += 1;
        self.pending.first_stamp = self.pending.first_stamp.or(p.tcp.timestamps.map(|(tsval, _)| tsval));
        let unneeded = end.at_or_before(self.una) || (known.sacked && known.hole.is_none());
        let lost = match known {
            _ if unneeded => Place::Unknown,
            Known { hole: Some(_), seen, .. } if seen > 1 => Place::Both,
            Known { hole: Some(_), .. } => Place::Before,
            _ => Place::Behind,
        };
        self.note_late(p);
        let asked = self.findings.asked.among([p.frame].into_iter());
        let (evidence, row) = self.judge(p, &known, asked);
        if asked {
            self.findings.asked.note(Why::repair(p.at, self.by, &evidence, row));
        }
        let (repair, certainty) = row.then;
        self.compare_ends(p, &known);
        self.pending.double |= self.was_repaired(&known, seq);
        match repair {
            Repair::Timeout => {
                let hidden = lost == Place::Before || self.timing.losses();
                self.expire(p, hidden, lost, certainty);
            }
            _ => {
                let event = Event {
                    at: p.at,
                    frame: p.frame,
                    by: self.by,
                    repair,
                    inferred: false,
                    certainty,
                    lost,
                    spurious: false,
                };
                self.enter(p.sent, repair);
                self.restart_at_sender(p);
                self.note(event);
            }
        }
        if self.repairing.repaired_to.before(end) {
            self.repairing.repaired_to = end;
        }
        self.remember(p, end, lost);
        if unneeded {
            self.spurious();
            self.was_on_its_way(p);
            self.unheard(p);
        }
        if known.hole.is_some() {
            self.findings.counts.bytes += u64::from(p.tcp.payload);
            // Its first appearance here.
            self.progress(p, false);
        }
    }

    /// Changes the sender's state as the repair demands.
    fn enter(&mut self, now: Instant, repair: Repair) {
        match repair {
            Repair::FastRetransmit => {
                self.repairing.phase = Phase::Recovery(self.max);
                if self.timing.exact().is_some() {
                    // The first segment was sent again when the loss was told; that copy may have been lost.
                    self.timing.restart(self.told().map_or(now, |(from, _)| from.min(now)));
                }
                self.repairing.window_pkts.on_fast_retransmit();
                self.acks.is_repaired();
            }
            // RFC 8985, section 7.3: the probe restarts the timer.
            Repair::Probe => {
                self.repairing.probed = true;
                self.repairing.probe_copy = Some(self.max);
                self.timing.restart(now);
            }
            _ => {}
        }
    }

    fn remember(&mut self, p: &Seen<'_>, end: SeqNum, lost: Place) {
        self.repairing.latest = Some(Latest {
            start: p.tcp.seq,
            end,
            at: p.at,
            tsval: p.tcp.timestamps.map(|(tsval, _)| tsval),
            event: self
                .findings
                .events
                .len()
                .checked_sub(1)
                .filter(|at| self.findings.events[*at].frame == p.frame),
            stall: None,
            spurious: false,
            lost,
        });
    }

    /// A packet of the other end passes, which acknowledges.
    pub(crate) fn ack(&mut self, p: &Seen<'_>) {
        let t = p.tcp;
        if let Some((tsval, _)) = t.timestamps {
            self.timing.stamp(p.at, tsval);
        }
        let window = u32::from(t.window) << if t.flags.has(Flags::SYN) { 0 } else { self.offer.scale };
        let update = self.offer.window.is_some_and(|w| w != window);
        self.offer.window = Some(window);
        match &mut self.offer.shut {
            None if window == 0 => self.offer.shut = Some((p.at, None)),
            Some((_, open)) if window > 0 && open.is_none() => {
                *open = Some(p.at);
                // Until then nothing could be under way, so no timer ran but that of the probes (RFC 9293, 3.8.6.1).
                // It starts no sooner; what is known of the sender's half may be too much.
                self.timing.restart(p.at);
            }
            _ => {}
        }
        if self.synced && self.acks.seen() == 0 {
            // The handshake's is the first sample.
            let flight = self.repairing.window_pkts.flight() * self.speech.mss.max(1);
            self.timing.time_echo(p, self.max.max(p.tcp.ack + flight));
        }
        if !self.synced || t.flags.has(Flags::SYN) {
            return;
        }
        self.acks.passes(p.at);
        if self.una.before(t.ack) {
            self.advance(p);
            self.selectively(p);
        } else if t.ack == self.una {
            let news = self.selectively(p);
            let bare = t.payload == 0 && !t.flags.has(Flags::FIN);
            let duplicate = bare && !self.out.is_empty() && (!update || news);
            self.end_probe(bare && t.sack.as_slice().is_empty() && self.repairing.probe_copy == Some(t.ack));
            if duplicate {
                self.acks.duplicate();
            }
            self.findings.counts.dupacks += u64::from(duplicate);
            if news || duplicate {
                self.progress(p, true);
                self.tell(p.at);
                self.pending.dupacks = self.acks.duplicates().max(self.out.sacked());
            } else if update && window > 0 && self.pending.closed {
                self.progress(p, true);
            }
        }
        self.pending.closed |= window == 0;
    }

    /// Latest time at which data passed that an ACK passing now can answer. Some round trips are shorter than all that
    /// were timed.
    fn answered(&self, now: Instant) -> Instant {
        let least = SOONEST.of(self.timing.trips().receiver_least().unwrap_or_default());
        Instant::from_nanos(now.as_nanos().saturating_sub(least.as_nanos()))
    }

    /// Looks whether enough ACKs have told of a loss.
    fn tell(&mut self, now: Instant) {
        self.acks.tell(now, self.out.sacked(), self.repairing.phase == Phase::Open);
    }

    /// An ACK of new data.
    fn advance(&mut self, p: &Seen<'_>) {
        let to = p.tcp.ack;
        if self.max.before(to) {
            // The acknowledged data was not seen here.
            self.findings.counts.unseen += 1;
            self.max = to;
        }
        self.check_spurious(p);
        // The data under way until now stood still.
        self.progress(p, true);
        let covered = self.out.cover(to, self.answered(p.at));
        match covered.sample {
            Some(sent) if !covered.repeated => {
                self.answered = Some(p.at.since(sent));
                self.timing.time_receiver(p.at.since(sent));
            }
            _ => covered.last.into_iter().for_each(|last| self.timing.time_repeated(p.at.since(last))),
        }
        let flight = self.repairing.window_pkts.flight() * self.speech.mss.max(1);
        self.timing.time_echo(p, self.max.max(p.tcp.ack + flight));
        if covered.count > 0 && (!covered.repeated || self.timing.stamps()) {
            self.timing.end_back_off();
        }
        self.una = to;
        self.acks.advance(p.at);
        // Whether a copy was needed shows only when more is acknowledged (RFC 8985, section 7.4.2).
        self.end_probe(self.repairing.probe_copy.is_none_or(|end| end.before(to)));
        self.repairing.window_pkts.on_ack(self.out.count());
        let over = match self.repairing.phase {
            Phase::Open => true,
            Phase::Recovery(until) | Phase::Loss(until) => until.at_or_before(to),
        };
        if over {
            self.repairing.phase = Phase::Open;
            self.acks.is_over();
        }
        self.timing.restart(p.at + self.timing.react());
        if over && self.out.sacked() > 0 && self.timing.exact().is_some() {
            self.tell(p.at);
        }
        self.pending.emptied = self.out.is_empty().then_some(p.at);
        self.pending.outstanding = self.out.count();
        self.pending.dupacks = self.out.sacked();
        self.pending.waiting = !self.out.is_empty();
    }

    /// Without timestamps, the sender's half can be had from the ACK that let this go: one before which nothing was
    /// under way, if the handshake tells how long that takes about, else one before which there was none for long.
    fn time_answer(&mut self, now: Instant) {
        let Some(emptied) = self.pending.emptied.filter(|_| !self.timing.stamps() && self.acks.seen() > 1)
        else {
            return;
        };
        let half = now.since(emptied);
        if let Some(greeting) = self.timing.greeting() {
            // Data that comes sooner was released by an earlier ACK.
            if half >= greeting / 2 {
                self.timing.time_sender(half, 3);
            }
            return;
        }
        let alone =
            self.acks.kept().iter().all(|at| *at >= emptied || now.since(*at) > LONG_TRIP.max(half * 3));
        if alone && self.findings.counts.data > 0 {
            self.timing.time_sender(half, 2);
        }
    }

    /// Takes in the SACK blocks; says whether they were news. A block below the cumulative ACK, or within the second,
    /// is a DSACK (RFC 2883, section 4): something came twice.
    fn selectively(&mut self, p: &Seen<'_>) -> bool {
        let blocks = p.tcp.sack.as_slice();
        let Some(&(left, right)) = blocks.first() else { return false };
        self.acks.set_selective(true);
        let inside = blocks.get(1).is_some_and(|(l, r)| l.at_or_before(left) && right.at_or_before(*r));
        let duplicate = right.at_or_before(p.tcp.ack) || inside;
        self.end_probe(duplicate && self.repairing.probe_copy == Some(right));
        if duplicate && self.repairing.latest.is_some_and(|l| left.before(l.end) && l.start.before(right)) {
            self.spurious();
        }
        let answered = self.answered(p.at);
        let mut news = false;
        for (l, r) in &blocks[usize::from(duplicate)..] {
            news |= l.before(*r) && self.out.sack(*l, *r, answered);
        }
        if news {
            self.acks.note_news();
            self.tell(p.at);
        }
        news
    }

    /// Tells whether a segment fills a hole too soon to be a repair: it was overtaken. No sender learns of a loss in
    /// less than a round trip. Timestamps show it too: a repair is sent later than what overtook it.
    fn is_late(&self, p: &Seen<'_>, known: &Known) -> bool {
        let Some(hole) = known.hole else { return false };
        let age = p.at.since(hole);
        let soon = self.timing.trips().least().map_or(OVERTAKEN, |least| SOONEST.of(least));
        age < soon && (self.acks.told().is_none() || age < OVERTAKEN_TOLD)
    }

    /// ACKs have told of a loss, and the repair that follows from that was not seen: it was lost on the way here. The
    /// timer has been restarted with it.
    fn hidden_repair(&mut self, p: &Seen<'_>) {
        let Some(told) = self.acks.told().filter(|_| self.repairing.phase == Phase::Open) else { return };
        let at = told + self.timing.react();
        if p.sent.since(at) < LEAST_WAIT {
            return;
        }
        let (repair, certainty, lost) = (Repair::FastRetransmit, Certainty::Likely, Place::Before);
        let (frame, by, inferred, spurious) = (p.frame, self.by, true, false);
        self.note(Event { at, frame, by, repair, inferred, certainty, lost, spurious });
        self.timing.restart(at.max(self.timing.restarted(p.sent)));
        self.pending.double = true;
    }

    /// The timer has expired: once, or, if there may be repairs that are not seen, as often as fits into the silence.
    fn expire(&mut self, p: &Seen<'_>, hidden: bool, lost: Place, certainty: Certainty) {
        if hidden && self.timing.exact().is_some() {
            self.expire_by_clock(p, lost, certainty);
            return;
        }
        if hidden {
            self.hidden_repair(p);
        }
        let waited = self.timing.waited(p.sent);
        let k = if hidden { self.timing.expiries(waited) } else { 1 };
        let seen = self.max != p.tcp.seq;
        let first = self.timing.wait();
        if seen && self.timing.factor() == 1 {
            self.shown.timed = Some(waited);
        }
        self.timing.back_off(k);
        for n in 1..=k {
            let inferred = n < k || !seen;
            // Expiries that were not seen are put where the doubling has them, counted back from the one that was.
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

    /// Notes an expiry of the timer that the sender's clock tells.
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
                self.timing.end_back_off();
                self.pending.double = true;
            }
            First::Probe => {
                note(self, if timeouts > 0 { from } else { p.at }, Repair::Probe, timeouts > 0);
                self.repairing.probed = true;
                self.timing.restart(if timeouts > 0 { from } else { p.sent });
            }
            // A sender that probes tails does so before its first timeout, unless it repairs (RFC 8985, section 7.2).
            First::Nothing if found.on_time && self.acks.news() > 1 => {
                self.pending.double |= self.has_rack_tlp() && self.may_probe();
            }
            First::Nothing => {}
        }
        if timeouts == 0 {
            return;
        }
        for n in 1..=timeouts {
            let last = n == timeouts;
            self.timing.back_off(1);
            note(self, if last { p.at } else { found.expiry(n) }, Repair::Timeout, !last || !seen);
        }
        self.timed_out(p);
    }

    /// Notes that the timer had expired when the segment of `p` was sent.
    fn timed_out(&mut self, p: &Seen<'_>) {
        // Packets since the last timeout, up to here, were repairs.
        self.pending.double |= self.repairing.last_timeout.is_some()
            && self.una.before(self.repairing.resent_to)
            && !p.tcp.seq.before(self.max);
        // An ACK after the last one has let out the repair of what came next, which was not seen.
        let repaired = self.timing.losses() && self.acks.news() > 0;
        self.pending.double |= repaired && matches!(self.repairing.phase, Phase::Loss(_));
        let told = self.acks.hints().is_some() || matches!(self.repairing.phase, Phase::Recovery(_));
        self.pending.double |= told && self.timing.losses() && self.has_rack_tlp();
        (self.repairing.last_timeout, self.repairing.repairs_left) = (Some(p.sent), true);
        self.repairing.repaired_to = p.tcp.seq_end();
        self.findings.counts.backoff_max = self.findings.counts.backoff_max.max(self.timing.factor());
        self.timing.restart(p.sent);
        // The sender repeats all that was under way, also what was not seen here; limited transmit adds to it (RFC
        // 3042).
        let flight = self.repairing.window_pkts.flight() * self.speech.mss.max(1);
        self.repairing.resent_to = self.max.max(self.una.max(p.tcp.seq_end()) + flight);
        self.repairing.window_pkts.on_timeout();
        let to = match self.repairing.phase {
            Phase::Loss(to) => to,
            // At least two segments were under way since the last ACK, and the probe.
            _ if self.timing.exact().is_some() && !self.timing.at_sender() => {
                self.una + (2 + u32::from(self.repairing.probed)) * self.speech.mss
            }
            _ => self.max,
        };
        self.repairing.phase = Phase::Loss(if self.max.before(to) { to } else { self.max });
        self.acks.expire();
    }

    /// Takes an event down.
    pub(crate) fn note(&mut self, event: Event) {
        self.findings.counts.add(&event);
        self.pending.add(&event, self.timing.factor());
        if self.findings.events.len() < MOST_EVENTS {
            self.findings.events.push(event);
        }
    }

    /// An ACK of new data after a repair: does it answer the original? Eifel (RFC 3522): it echoes a timestamp from
    /// before the repair. Without timestamps: it came sooner than any round trip.
    fn check_spurious(&mut self, p: &Seen<'_>) {
        let Some(latest) = self.repairing.latest.filter(|l| {
            l.lost == Place::Behind && l.start.before(p.tcp.ack) && self.una.at_or_before(l.start)
        }) else {
            return;
        };
        // RFC 5682, section 2.1: the acknowledgment covers what was not sent again, and no duplicate came before.
        let beyond = latest.end.before(p.tcp.ack) && self.pending.dupacks == 0 && self.pending.timeouts > 0;
        let early = match (latest.tsval, p.tcp.timestamps) {
            (Some(sent), Some((_, echoed))) => SeqNum(echoed).before(SeqNum(sent)),
            _ => {
                beyond
                    || self
                        .timing
                        .trips()
                        .receiver_least()
                        .is_some_and(|least| p.at.since(latest.at) < TOO_SOON.of(least))
            }
        };
        if early {
            self.spurious();
        }
    }

    /// The latest repair was not needed.
    fn spurious(&mut self) {
        let Some(latest) = self.repairing.latest.as_mut().filter(|l| !l.spurious) else { return };
        latest.spurious = true;
        self.findings.counts.not_lost(latest.lost);
        if let Some(event) = latest.event.and_then(|at| self.findings.events.get_mut(at)) {
            event.spurious = true;
        }
        match latest.stall.and_then(|at| self.findings.stalls.get_mut(at)) {
            Some(stall) => stall.was_spurious(),
            None => self.pending.spurious = true,
        }
    }

    /// New data jumps over a hole. If that is the first after a timeout, it leaves before what counts as lost (RFC
    /// 5682, section 3, step 2b), so all before it was under way at the timeout.
    fn under_way_then(&mut self, seq: SeqNum) {
        if self.repairing.last_timeout.is_some_and(|at| at >= self.timing.sent_before())
            && self.timing.answers()
        {
            self.repairing.phase = Phase::Loss(seq);
            self.acks.is_over();
        }
    }

    /// Tells whether a segment sent later than these bytes has arrived (RFC 8985, section 6.2).
    fn overtaken(&self, known: &Known) -> bool {
        known.last.zip(self.out.delivered()).is_some_and(|((at, _), delivered)| at < delivered)
    }

    /// The segment was never seen, and something behind it was sent again since the timeout: so was this, and was lost
    /// as well. Or new data has followed the repairs, and this does not follow from what was acknowledged since.
    fn was_passed_over(&self, p: &Seen<'_>, known: &Known) -> bool {
        let overtaken = p.tcp.seq_end().before(self.repairing.repaired_to);
        let again = !self.repairing.repairs_left
            && p.sent > self.acks.advanced() + self.timing.react() + ANSWER_BY_ECHO;
        self.acks.selective() && known.hole.is_some() && (overtaken || again)
    }

    /// The segment that is sent again now was sent again before.
    fn was_repaired(&self, known: &Known, seq: SeqNum) -> bool {
        let again = self
            .repairing
            .latest
            .is_some_and(|l| l.start == seq && !matches!(self.repairing.phase, Phase::Open));
        (known.hole.is_none() && known.seen > 1) || (known.hole.is_some() && again)
    }

    /// The segment was sent again since the timeout, and that was lost as well.
    fn repair_lost(&self, known: &Known) -> bool {
        let repaired =
            known.seen > 1 && known.last.is_some_and(|(at, _)| Some(at) >= self.repairing.last_timeout);
        self.overtaken(known) && repaired
    }

    /// New data leaves: with an ACK or with other data, or by itself.
    fn note_pace(&mut self, now: Instant) {
        if !self.timing.at_sender() {
            return;
        }
        let heard = self.acks.latest().map_or(Duration::MAX, |at| now.since(at));
        let quiet = heard.min(self.timing.quiet());
        self.speech.alone += u32::from(quiet > BUSY);
    }

    /// Tells whether many of the sender's segments of new data leave alone.
    fn paces(&self) -> bool {
        u64::from(self.speech.alone) * PACES > self.findings.counts.data
    }

    /// The first segment is sent again, which restarts the timer (Linux: `tcp_xmit_retransmit_queue`).
    fn restart_at_sender(&mut self, p: &Seen<'_>) {
        if self.timing.at_sender() && p.tcp.seq.at_or_before(self.una) {
            self.timing.restart(p.sent);
        }
    }

    /// This comes after a silence, and may be the application's.
    fn may_be_lone(&mut self, p: &Seen<'_>, asked: Option<Instant>) {
        let Some(asked) = asked.filter(|_| self.speech.last_data.is_none()) else { return };
        let closed = matches!(self.offer.shut, Some((_, None)));
        let full = p.tcp.payload * 2 >= self.speech.announced;
        if !self.timing.losses() || self.timing.at_sender() || closed || !full {
            return;
        }
        // The timer began when the sender had been asked, or when a probe of the tail was lost as well, after two round
        // trips (RFC 8985, section 7.2).
        let began = asked + self.timing.react();
        let probe =
            self.timing.trips().trip() * if self.acks.selective() && !self.timing.plain() { 2 } else { 0 };
        let waited = p.sent.since(began);
        if waited >= self.timing.rto() {
            let (mut timer, factor) = self.timing.timer();
            timer.restart(if waited > probe + self.timing.rto() / 2 { began + probe } else { began });
            let (at, sent, frame, tcp) = (p.at, p.sent, p.frame, *p.tcp);
            self.lone = Some(Lone { at, sent, frame, tcp, timer, factor, max: self.max });
        }
    }

    /// The next segment passes: the ACK of the one that came alone has let it go, or it has not.
    fn was_lone(&mut self, p: &Seen<'_>, asked: Option<Instant>) {
        let Some(lone) = self.lone.take() else { return };
        let again = asked.is_some_and(|asked| asked > lone.at);
        if again || !self.acked_since(lone.at, p) {
            return;
        }
        let (before, max, pending) = (self.timing.timer().0, self.max, self.pending.clone());
        self.timing.turn_back(lone.timer, lone.factor);
        self.max = lone.max;
        let told = self.findings.counts.timeouts;
        let then = Seen { at: lone.at, frame: lone.frame, tcp: &lone.tcp, sent: lone.sent, ..*p };
        self.expire(&then, true, Place::Before, Certainty::Possible);
        let silence = self.findings.stalls.last_mut().filter(|s| s.to == lone.at && s.cause.is_late_answer());
        if let Some(stall) = silence.filter(|_| self.findings.counts.timeouts > told) {
            (stall.cause, stall.certainty) = (Cause::ContinuousLoss, Certainty::Possible);
            (stall.repair, stall.lost) = (Some(Repair::Timeout), Place::Before);
            stall.timeouts = u32::try_from(self.findings.counts.timeouts - told).unwrap_or(u32::MAX);
            stall.backoff = self.timing.factor();
        }
        // The state of before returns, and the ACK has ended the back-off.
        self.timing.turn_back(before, 1);
        (self.max, self.pending) = (max, pending);
    }

    /// The packet that passes now follows from an ACK of the one that passed then, and from nothing else.
    fn acked_since(&self, then: Instant, p: &Seen<'_>) -> bool {
        let Some(answered) = self.acks.latest() else { return false };
        let gap = p.at.since(answered);
        let least = SOONEST.of(self.timing.react_least()).max(LONE_LEAST);
        answered >= then
            && gap >= least
            && gap <= self.timing.react() * 2 + self.timing.slack(self.timing.react() / 2)
    }

    /// Takes in what other connections of the capture show of such an end.
    pub(crate) fn look_around(&mut self, around: Around) {
        self.timing.look_around(around);
    }

    /// 0 for the end that opened the connection.
    pub(crate) fn by(&self) -> u8 {
        self.by
    }

    /// Round trips, clock and timer of the sender.
    pub(crate) fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Round trips, clock and timer, for what the handshake and the other end show.
    pub(crate) fn timing_mut(&mut self) -> &mut Timing {
        &mut self.timing
    }

    /// Findings about the sender.
    pub(crate) fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Signs of the sender's kind, to be taken.
    pub(crate) fn shown_mut(&mut self) -> &mut Shown {
        &mut self.shown
    }

    /// Findings, to be taken.
    pub(crate) fn findings_mut(&mut self) -> &mut Findings {
        &mut self.findings
    }

    /// First sequence number of the sender's data; `None` if the numbering is unknown.
    pub(crate) fn numbering(&self) -> Option<SeqNum> {
        self.synced.then_some(self.start)
    }

    /// Says whether the sender has finished, and all data is acknowledged.
    pub(crate) fn is_done(&self) -> bool {
        self.speech.fin && self.out.is_empty()
    }

    /// Tells whether nothing is under way that was seen.
    pub(crate) fn is_quiet(&self) -> bool {
        self.out.is_empty()
    }

    /// The last segment sent was full, and did not end what the application had written, where PSH marks such ends.
    pub(crate) fn has_more(&self) -> bool {
        self.pushes() && !self.speech.pushed && !self.speech.short && self.speech.mss > 0
    }

    /// The longest payload.
    pub(crate) fn mss(&self) -> u32 {
        self.speech.mss
    }

    /// The end of the highest byte seen.
    pub(crate) fn highest(&self) -> SeqNum {
        self.max
    }

    /// Time at which the sender sent new data last.
    pub(crate) fn last_data(&self) -> Option<Instant> {
        self.speech.last_data
    }

    /// Time in which a transfer was under way: from the first data to the last, without what the applications let pass.
    pub(crate) fn transferred(&self) -> Duration {
        let span = self.speech.last_data.zip(self.speech.first_data).map(|(last, first)| last.since(first));
        span.unwrap_or_default().saturating_sub(self.findings.idle)
    }

    /// When the receiver closed its window and opened it again, since it sent new data last.
    pub(crate) fn shut(&self) -> Option<(Instant, Option<Instant>)> {
        self.offer.shut
    }

    /// Time of the latest progress, and the frame of the progress.
    pub(crate) fn since(&self) -> (Instant, u64) {
        (self.pending.since, self.pending.since_frame)
    }

    /// Takes how long the other end has just waited before it acknowledged what was sent once.
    pub(crate) fn take_answered(&mut self) -> Option<Duration> {
        self.answered.take()
    }

    /// Notes whether the sender's SYN allows selective acknowledgments.
    pub(crate) fn offers_sack(&mut self, on: bool) {
        self.acks.set_selective(on);
    }

    /// Takes the window scale and the largest segment that the other end's SYN announces.
    pub(crate) fn is_offered(&mut self, scale: u8, mss: u32) {
        (self.offer.scale, self.speech.announced) = (scale, mss);
    }

    /// Starts the watch for silences at the end of the handshake.
    pub(crate) fn is_open(&mut self, at: Instant, frame: u64, opener: bool) {
        (self.pending.since, self.pending.since_frame) = (at, frame);
        if opener {
            self.timing.restart(at);
            self.opened = true;
        }
    }
}
