//! Whether a loss was at the end of what there was to say, which shows only afterwards: when all that was under way is
//! acknowledged, a sender that has more sends it at once.

use narrows_units::{Instant, SeqNum};

use crate::evidence::SilenceEvidence;
use crate::findings::{Cause, Place};
use crate::judge::{DUPTHRESH, judge_silence};
use crate::outstanding::Known;
use crate::sender::{Phase, Seen, Sender};
use crate::tolerances::SAYS_MORE;
use crate::why::Why;

/// A stall of which it is not known yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    /// Its place in [`Sender::stalls`].
    stall: usize,
    /// The end of what was under way.
    end: SeqNum,
    /// Evidence about it.
    silence: SilenceEvidence,
}

impl Sender {
    /// A stall for this cause is about to be kept.
    pub(crate) fn watch(&mut self, silence: &SilenceEvidence, cause: Cause, ended: bool) {
        let may = matches!(
            cause,
            Cause::TailLoss
                | Cause::SmallCongestionWindow
                | Cause::SmallReceiveWindow
                | Cause::ContinuousLoss
        );
        if may && ended && silence.told < DUPTHRESH {
            // Where losses before the capture hide it, what was under way is a guess.
            let end = if self.around.losses { self.max.max(self.resent_to) } else { self.max };
            let end = self.pending.jumped.unwrap_or(end);
            self.watched = Some(Watch { stall: self.stalls.len(), end, silence: *silence });
        }
    }

    /// New data passes up to `end`, and was sent then.
    pub(crate) fn goes_on(&mut self, sent: Instant, end: SeqNum, fin: bool) {
        let Some(watch) = self.watched else { return };
        if end.at_or_before(watch.end) {
            if fin {
                self.was_tail(true);
            }
            return;
        }
        let acked = watch.end.at_or_before(self.una);
        let late = self.emptied.is_some_and(|at| sent.since(at) > self.react() + SAYS_MORE);
        self.was_tail(acked && late);
    }

    /// Nothing more passes.
    pub(crate) fn has_ended(&mut self) {
        if self.out.is_empty() {
            self.was_tail(true);
        }
    }

    fn was_tail(&mut self, tail: bool) {
        let Some(watch) = self.watched.take() else { return };
        let silence = SilenceEvidence { ended: Some(tail), ..watch.silence };
        let found = judge_silence(&silence);
        let cause = found.1;
        if let Some(stall) = self.stalls.get_mut(watch.stall)
            && stall.cause != Cause::AckDelayedOrLost
        {
            if self.asked.among(stall.frames.iter()) {
                self.asked.note(Why::silence(stall.to, self.by, &silence, found));
            }
            stall.cause = cause;
            if !cause.is_loss() {
                stall.lost = Place::Unknown;
            }
        }
    }

    /// After a silence a sender with tail-loss probes sends the last segment first (RFC 8985, section 7.3).
    pub(crate) fn compare_ends(&mut self, p: &Seen<'_>, known: &Known) {
        let (first, last) = (p.tcp.seq.at_or_before(self.una), p.tcp.seq_end() == self.max);
        let silent = self.phase == Phase::Open && self.hints.is_none() && self.dupacks == 0 && !self.probed;
        // What is acknowledged here may be so because of what it has not heard.
        let open = self.una.before(p.tcp.seq_end());
        if silent
            && open
            && first != last
            && known.hole.is_none()
            && self.waits_for_timer(self.waited(p.sent))
        {
            self.probes = Some(last);
        }
    }
}
