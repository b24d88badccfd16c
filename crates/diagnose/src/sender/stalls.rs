//! Stalls of a sender: what was seen since the last progress, what it makes of that when progress comes, and whether a
//! loss was at the end of what there was to say, which shows only afterwards: when all that was under way is
//! acknowledged, a sender that has more sends it at once.

use narrows_units::{Duration, Instant, SeqNum};

use super::{Phase, Sender};
use crate::evidence::SilenceEvidence;
use crate::findings::{Cause, Certainty, Event, Place, Repair, Stall};
use crate::frames::Frames;
use crate::judge::{DUPTHRESH, SilenceVerdict, judge_silence};
use crate::outstanding::Known;
use crate::seen::Seen;
use crate::tolerances::{LEAST_STALL, MOST_STALLS, SAYS_MORE, STALL_FRAMES, STALL_TRIPS};
use crate::why::Why;

/// Repairs and state since the last progress, from which a stall is made when progress comes.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    pub(super) repair: Option<Repair>,
    pub(super) timeouts: u32,
    pub(super) backoff: u32,
    pub(super) lost: Place,
    pub(super) inferred: bool,
    pub(super) spurious: bool,
    /// Whether the repaired data had been repaired before.
    pub(super) double: bool,
    /// Whether the receiver's window was closed.
    pub(super) closed: bool,
    /// ACKs that told of a loss until the last progress.
    pub(super) dupacks: u32,
    /// Window that the receiver offered at the last progress, bytes.
    pub(super) window: Option<u32>,
    /// Segments under way when the silence began.
    pub(super) outstanding: u32,
    /// About how many that is, with what was not seen.
    pub(super) flight: u32,
    /// A probe up to here ends it: new data, or the last segment, whose original was not seen.
    pub(super) jumped: Option<SeqNum>,
    pub(super) frames: Frames,
    /// Timestamp of the first segment that was sent again.
    pub(super) first_stamp: Option<u32>,
    /// The latest progress, its frame, and whether something was under way then.
    pub(super) since: Instant,
    pub(super) since_frame: u64,
    /// Whether the last progress was an acknowledgment.
    pub(super) since_ack: bool,
    pub(super) waiting: bool,
    /// Time at which all was acknowledged, if nothing has been sent since.
    pub(super) emptied: Option<Instant>,
}

impl Pending {
    /// Begins anew: nothing was sent again yet.
    pub(super) fn begin(&mut self) {
        (self.repair, self.timeouts, self.lost) = (None, 0, Place::Unknown);
        (self.inferred, self.spurious, self.double) = (false, false, false);
        (self.jumped, self.first_stamp) = (None, None);
        self.frames.clear();
    }

    pub(super) fn add(&mut self, event: &Event, factor: u32) {
        if self.repair.is_none_or(|r| r.rank() < event.repair.rank()) {
            self.repair = Some(event.repair);
        }
        self.timeouts += u32::from(event.repair == Repair::Timeout);
        self.backoff = factor;
        self.lost = self.lost.and(event.lost);
        self.inferred |= event.inferred;
        if self.frames.len() < STALL_FRAMES {
            self.frames.push(event.frame);
        }
    }
}

impl Stall {
    /// The receiver had what was repaired.
    pub(crate) fn was_spurious(&mut self) {
        (self.cause, self.lost) = (Cause::AckDelayedOrLost, Place::Unknown);
    }
}

/// Packet that ended a silence.
#[derive(Clone, Copy, Debug)]
struct Ending<'a, 'b> {
    p: &'a Seen<'b>,
    by_ack: bool,
}

/// Stall whose cause is not known yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    /// Place of the stall in the findings.
    stall: usize,
    /// The end of what was under way.
    end: SeqNum,
    /// Evidence about the silence.
    silence: SilenceEvidence,
}

impl Sender {
    /// Silence from which on the connection stalls: 200 ms and two round trips.
    pub(crate) fn patience(&self) -> Duration {
        LEAST_STALL.max(self.timing.trips().trip() * STALL_TRIPS)
    }

    /// New data, or an acknowledgment of some, passes: a silence is over. From data to an acknowledgment the sender
    /// waited longer than it looks here, by its half of the round trip.
    pub(super) fn progress(&mut self, p: &Seen<'_>, by_ack: bool) {
        let (now, frame) = (p.at, p.frame);
        let half = self
            .timing
            .trips()
            .sender_least()
            .filter(|_| by_ack && !self.pending.since_ack)
            .unwrap_or_default();
        let silent = now.since(self.pending.since);
        let waited = silent + half.min(silent);
        if self.pending.waiting && waited > self.patience() {
            self.stall(now, frame, Some(Ending { p, by_ack }));
        }
        (self.pending.since, self.pending.since_frame, self.pending.since_ack) = (now, frame, by_ack);
        self.pending.begin();
        self.pending.closed = self.offer.window == Some(0);
        self.pending.window = self.offer.window;
        self.pending.outstanding = self.out.count();
        self.pending.flight = self.repairing.window_pkts.flight();
        self.pending.dupacks = self.acks.duplicates().max(self.out.sacked());
        self.pending.backoff = self.timing.factor();
    }

    /// The connection or the capture ends: what stands still now stalls without an end.
    pub(crate) fn end(&mut self, now: Instant, frame: u64) {
        if self.pending.waiting && !self.out.is_empty() && now.since(self.pending.since) > self.patience() {
            self.stall(now, frame, None);
        }
        self.pending.waiting = false;
        self.has_ended();
    }

    fn stall(&mut self, now: Instant, frame: u64, ending: Option<Ending<'_, '_>>) {
        let ended = ending.is_some();
        let silence = self.silence(now, ending);
        let found = judge_silence(&silence);
        let SilenceVerdict { cause, certainty, .. } = found;
        self.watch(&silence, cause, ended);
        let repairs = self.pending.frames.iter();
        let frames: Frames =
            core::iter::once(self.pending.since_frame).chain(repairs).chain([frame]).collect();
        if self.findings.asked.among(frames.iter()) {
            self.findings.asked.note(Why::silence(now, self.by, &silence, found));
        }
        self.keep(Stall {
            from: self.pending.since,
            to: now,
            by: self.by,
            cause,
            repair: self.pending.repair,
            timeouts: self.pending.timeouts,
            backoff: self.pending.backoff.max(1),
            outstanding: self.pending.outstanding,
            lost: if cause.is_loss() { self.pending.lost } else { Place::Unknown },
            certainty,
            frames,
            ended,
        });
    }

    /// Notes data sent again that had been acknowledged here, so that none seemed to be under way: the sender has not
    /// heard the ACK.
    pub(super) fn unheard(&mut self, p: &Seen<'_>) {
        if !self.out.is_empty() || self.pending.waiting {
            return;
        }
        let cause = Cause::AckDelayedOrLost;
        let before =
            self.findings.stalls.last_mut().filter(|s| s.to == self.pending.since && s.cause == cause);
        if let Some(stall) = before {
            (stall.to, stall.backoff) = (p.at.max(stall.to), self.pending.backoff);
            stall.timeouts += self.pending.timeouts;
        } else if p.at.since(self.pending.since) > self.patience() {
            self.keep(Stall {
                from: self.pending.since,
                to: p.at,
                by: self.by,
                cause,
                repair: self.pending.repair,
                timeouts: self.pending.timeouts,
                backoff: self.pending.backoff.max(1),
                outstanding: 0,
                lost: Place::Unknown,
                certainty: Certainty::Certain,
                frames: [self.pending.since_frame, p.frame].into_iter().collect(),
                ended: true,
            });
        }
        self.progress(p, false);
    }

    /// Changes the last stall to a needless repair, if the sender's clock tells that it sent again while what it waited
    /// for was on its way.
    pub(super) fn was_on_its_way(&mut self, p: &Seen<'_>) {
        let Some(sent) = p.tcp.timestamps.and_then(|(tsval, _)| self.timing.clock_sent(p.at, tsval)) else {
            return;
        };
        let stall = self.findings.stalls.last_mut().filter(|s| s.cause.is_delay() && sent <= s.to);
        if let Some(stall) = stall.filter(|s| s.from <= sent) {
            stall.was_spurious();
        }
    }

    /// Keeps a stall, and the verdict on the stall if the verdict is asked for.
    pub(crate) fn keep_asked(&mut self, stall: Stall, why: impl FnOnce() -> Why) {
        if self.findings.asked.among(stall.frames.iter()) {
            self.findings.asked.note(why());
        }
        self.keep(stall);
    }

    /// Keeps a stall.
    pub(crate) fn keep(&mut self, stall: Stall) {
        if stall.cause.counts() {
            self.findings.stalled += stall.length();
        }
        if matches!(stall.cause, Cause::ClientIdle | Cause::DataUnavailable)
            && self.speech.first_data.is_some()
        {
            self.findings.idle += stall.length();
        }
        if self.findings.stalls.len() < MOST_STALLS {
            if let Some(latest) =
                self.repairing.latest.as_mut().filter(|l| stall.from <= l.at && l.at <= stall.to)
            {
                latest.stall = Some(self.findings.stalls.len());
            }
            self.findings.stalls.push(stall);
        }
    }

    /// Tells whether the ACK that ended the silence echoes a repair in it; `None` without timestamps.
    fn echoes_repair(&self, ending: Ending<'_, '_>) -> Option<bool> {
        let (_, echoed) = ending.p.tcp.timestamps.filter(|_| ending.by_ack)?;
        Some(!SeqNum(echoed).before(SeqNum(self.pending.first_stamp?)))
    }

    /// Evidence about the silence that is over, or goes on.
    fn silence(&self, now: Instant, ending: Option<Ending<'_, '_>>) -> SilenceEvidence {
        let p = &self.pending;
        let from = |by_ack| if by_ack { 1 - self.by } else { self.by };
        let waited = |e: Ending<'_, '_>| {
            let own = e.p.tcp.timestamps.filter(|_| !e.by_ack);
            let sent = own.and_then(|(tsval, _)| self.timing.clock_sent(e.p.at, tsval));
            let own = sent.map(|sent| e.p.at.since(sent));
            own.or_else(|| e.p.passing.queue(usize::from(from(e.by_ack)), e.p.at))
        };
        let repair = p.repair.filter(|r| *r != Repair::Unknown);
        SilenceEvidence {
            by_data: ending.map(|e| !e.by_ack),
            length: now.since(p.since),
            queue: ending.and_then(waited),
            // Where something was sent again, that tells more.
            others: ending.filter(|_| repair.is_none()).and_then(|e| e.p.others(from(e.by_ack), p.since)),
            only_fin: self.speech.fin && self.out.first().is_some_and(|s| s.start + 1 == self.max),
            closed: p.closed,
            repair,
            timeouts: p.timeouts,
            spurious: p.spurious,
            double: p.double,
            inferred: p.inferred,
            hidden: matches!(p.lost, Place::Before | Place::Both),
            bare_ack: ending.is_some_and(|e| e.by_ack && e.p.tcp.payload == 0),
            echoes_repair: ending.and_then(|e| self.echoes_repair(e)),
            jumped: p.jumped.is_some(),
            dropped: None,
            told: p.dupacks,
            said_all: self.speech.fin || (self.pushes() && self.speech.pushed),
            outstanding: p.outstanding,
            flight: self.timing.losses().then_some(p.flight),
            window: p.window,
            mss: self.speech.mss,
            ended: None,
            live: false,
        }
    }

    /// Watches a stall for `cause` that is about to be kept.
    pub(super) fn watch(&mut self, silence: &SilenceEvidence, cause: Cause, ended: bool) {
        let may = matches!(
            cause,
            Cause::TailLoss
                | Cause::SmallCongestionWindow
                | Cause::SmallReceiveWindow
                | Cause::ContinuousLoss
        );
        if may && ended && silence.told < DUPTHRESH {
            // Where losses before the capture hide it, what was under way is a guess.
            let end = if self.timing.losses() { self.max.max(self.repairing.resent_to) } else { self.max };
            let end = self.pending.jumped.unwrap_or(end);
            self.findings.watched = Some(Watch { stall: self.findings.stalls.len(), end, silence: *silence });
        }
    }

    /// New data passes up to `end`, and was sent then.
    pub(super) fn goes_on(&mut self, sent: Instant, end: SeqNum, fin: bool) {
        let Some(watch) = self.findings.watched else { return };
        if end.at_or_before(watch.end) {
            if fin {
                self.was_tail(true);
            }
            return;
        }
        let acked = watch.end.at_or_before(self.una);
        let late = self.pending.emptied.is_some_and(|at| sent.since(at) > self.timing.react() + SAYS_MORE);
        self.was_tail(acked && late);
    }

    /// Judges the watched stall at the end of the capture.
    pub(super) fn has_ended(&mut self) {
        if self.out.is_empty() {
            self.was_tail(true);
        }
    }

    pub(super) fn was_tail(&mut self, tail: bool) {
        let Some(watch) = self.findings.watched.take() else { return };
        let silence = SilenceEvidence { ended: Some(tail), ..watch.silence };
        let found = judge_silence(&silence);
        let cause = found.cause;
        if let Some(stall) = self.findings.stalls.get_mut(watch.stall)
            && stall.cause != Cause::AckDelayedOrLost
        {
            if self.findings.asked.among(stall.frames.iter()) {
                self.findings.asked.note(Why::silence(stall.to, self.by, &silence, found));
            }
            stall.cause = cause;
            if !cause.is_loss() {
                stall.lost = Place::Unknown;
            }
        }
    }

    /// After a silence a sender with tail-loss probes sends the last segment first (RFC 8985, section 7.3).
    pub(super) fn compare_ends(&mut self, p: &Seen<'_>, known: &Known) {
        let (first, last) = (p.tcp.seq.at_or_before(self.una), p.tcp.seq_end() == self.max);
        let silent = self.repairing.phase == Phase::Open
            && self.acks.hints().is_none()
            && self.acks.duplicates() == 0
            && !self.repairing.probed;
        // Data may be acknowledged here by an ACK that the sender has not heard.
        let open = self.una.before(p.tcp.seq_end());
        if silent
            && open
            && first != last
            && known.hole.is_none()
            && self.timing.waits_for_timer(self.timing.waited(p.sent))
        {
            self.shown.probes = Some(last);
        }
    }
}
