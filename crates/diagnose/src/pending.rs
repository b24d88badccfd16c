//! A stall in the making: what was seen since the last progress, and what it makes of it when progress comes.

use narrows_units::{Duration, Instant, SeqNum};

use crate::evidence::SilenceEvidence;
use crate::findings::{Cause, Certainty, Event, Place, Repair, Stall};
use crate::frames::Frames;
use crate::judge;
use crate::sender::{Seen, Sender};
use crate::tolerances::{LEAST_STALL, MOST_STALLS, STALL_FRAMES, STALL_TRIPS};
use crate::why::Why;

/// See the head of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    repair: Option<Repair>,
    pub(crate) timeouts: u32,
    backoff: u32,
    lost: Place,
    inferred: bool,
    pub(crate) spurious: bool,
    /// What is repaired was repaired before.
    pub(crate) double: bool,
    /// The receiver's window was closed.
    pub(crate) closed: bool,
    /// ACKs that told of a loss until the last progress.
    pub(crate) dupacks: u32,
    /// What the receiver offered at the last progress.
    window: Option<u32>,
    /// Segments under way then.
    pub(crate) outstanding: u32,
    /// About how many that is, with what was not seen.
    flight: u32,
    /// A probe up to here ends it: new data, or the last segment, whose original was not seen.
    pub(crate) jumped: Option<SeqNum>,
    frames: Frames,
}

impl Pending {
    /// Nothing was sent again yet.
    fn begin(&mut self) {
        (self.repair, self.timeouts, self.lost) = (None, 0, Place::Unknown);
        (self.inferred, self.spurious, self.double) = (false, false, false);
        self.jumped = None;
        self.frames.clear();
    }

    pub(crate) fn add(&mut self, event: &Event, factor: u32) {
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

impl Sender {
    /// From which silence on it stalls: 200 ms and two round trips.
    pub(crate) fn patience(&self) -> Duration {
        LEAST_STALL.max(self.trips.trip() * STALL_TRIPS)
    }

    /// New data, or an acknowledgment of some, passes: a silence is over. From data to an acknowledgment the sender
    /// waited longer than it looks here, by its half of the round trip.
    pub(crate) fn progress(&mut self, now: Instant, frame: u64, by_ack: bool) {
        let half = self.trips.sender_least().filter(|_| by_ack && !self.since_ack).unwrap_or_default();
        let silent = now.since(self.since);
        let waited = silent + half.min(silent);
        if self.waiting && waited > self.patience() {
            self.stall(now, frame, true);
        }
        (self.since, self.since_frame, self.since_ack) = (now, frame, by_ack);
        self.pending.begin();
        self.pending.closed = self.window == Some(0);
        self.pending.window = self.window;
        self.pending.outstanding = self.out.count();
        self.pending.flight = self.window_pkts.flight();
        self.pending.dupacks = self.dupacks.max(self.out.sacked());
        self.pending.backoff = self.factor;
    }

    /// The connection or the capture ends: what stands still now stalls without an end.
    pub(crate) fn end(&mut self, now: Instant, frame: u64) {
        if self.waiting && !self.out.is_empty() && now.since(self.since) > self.patience() {
            self.stall(now, frame, false);
        }
        self.waiting = false;
        self.has_ended();
    }

    fn stall(&mut self, now: Instant, frame: u64, ended: bool) {
        let silence = self.silence();
        let found = judge::judge_silence(&silence);
        let (_, cause, certainty) = found;
        self.watch(&silence, cause, ended);
        let repairs = self.pending.frames.iter();
        let frames: Frames = core::iter::once(self.since_frame).chain(repairs).chain([frame]).collect();
        if self.asked.among(frames.iter()) {
            self.asked.note(Why::silence(now, self.by, &silence, found));
        }
        self.keep(Stall {
            from: self.since,
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

    /// What is sent again had been acknowledged here, so that nothing seemed to be under way: the sender has not heard.
    pub(crate) fn unheard(&mut self, p: &Seen<'_>) {
        if !self.out.is_empty() || self.waiting {
            return;
        }
        let cause = if p.tcp.payload == 0 { Cause::Closing } else { Cause::AckDelayedOrLost };
        let before = self.stalls.last_mut().filter(|s| s.to == self.since && s.cause == cause);
        if let Some(stall) = before {
            (stall.to, stall.backoff) = (p.at.max(stall.to), self.pending.backoff);
            stall.timeouts += self.pending.timeouts;
        } else if p.at.since(self.since) > self.patience() {
            self.keep(Stall {
                from: self.since,
                to: p.at,
                by: self.by,
                cause,
                repair: self.pending.repair,
                timeouts: self.pending.timeouts,
                backoff: self.pending.backoff.max(1),
                outstanding: 0,
                lost: Place::Unknown,
                certainty: Certainty::Certain,
                frames: [self.since_frame, p.frame].into_iter().collect(),
                ended: true,
            });
        }
        self.progress(p.at, p.frame, false);
    }

    /// By its clock the sender sent again, in vain, while what it waited for was on its way.
    pub(crate) fn was_on_its_way(&mut self, p: &Seen<'_>) {
        let Some(sent) = p.tcp.timestamps.and_then(|(tsval, _)| self.clock.sent(p.at, tsval)) else { return };
        let stall = self.stalls.last_mut().filter(|s| s.cause == Cause::PacketDelay && sent <= s.to);
        if let Some(stall) = stall.filter(|s| s.from <= sent) {
            stall.was_spurious();
        }
    }

    /// Keeps a stall.
    pub(crate) fn keep(&mut self, stall: Stall) {
        if stall.cause.counts() {
            self.stalled += stall.length();
        }
        if self.stalls.len() < MOST_STALLS {
            if let Some(latest) = self.latest.as_mut().filter(|l| stall.from <= l.at && l.at <= stall.to) {
                latest.stall = Some(self.stalls.len());
            }
            self.stalls.push(stall);
        }
    }

    /// Evidence about the silence that is over, or goes on.
    fn silence(&self) -> SilenceEvidence {
        let p = &self.pending;
        SilenceEvidence {
            only_fin: self.fin && self.out.first().is_some_and(|s| s.start + 1 == self.max),
            closed: p.closed,
            repair: p.repair.filter(|r| *r != Repair::Unknown),
            timeouts: p.timeouts,
            spurious: p.spurious,
            double: p.double,
            inferred: p.inferred,
            jumped: p.jumped.is_some(),
            dropped: None,
            told: p.dupacks,
            said_all: self.fin || (self.pushes() && self.pushed),
            outstanding: p.outstanding,
            flight: self.around.losses.then_some(p.flight),
            window: p.window,
            mss: self.mss,
            ended: None,
            live: false,
        }
    }
}
