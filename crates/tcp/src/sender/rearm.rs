//! For how long the retransmission timer runs. RFC 6298, section 5, restarts it from now; Linux has a single timer for
//! retransmission, reordering and probes ([`RestartTimer::Linux`]), so where another one ran or was to run, it counts
//! from when the first segment was last sent.

use narrows_units::{Duration, Instant};

use super::{Context, Sender, Timer};
use crate::Io;

impl Sender {
    /// Starts the retransmission timer anew (RFC 6298, section 5); with nothing outstanding, the persist timer.
    #[inline]
    pub(super) fn restart_rto<I: Io>(&mut self, cx: &Context<'_, I>) {
        let mut at = cx.now + self.rto.timeout(&cx.config.rto);
        if cx.has_linux_timer() {
            if self.is_timer_set(Timer::Reorder) {
                return self.count_rto_from_first(cx);
            }
            if self.rack().is_some_and(|rack| rack.is_probed()) && self.is_calm() {
                // Another probe is scheduled and does not leave; only then the timer is set.
                let pto = self.probe_timeout(cx.config, self.board.outstanding());
                at = at.min(cx.now + pto).max(self.rto_of_first(cx));
            }
        }
        self.set_timer(Timer::Retransmit, at);
    }

    /// The first segment is sent again.
    pub(super) fn on_first_resent<I: Io>(&mut self, cx: &Context<'_, I>) {
        if cx.has_linux_timer() && self.is_synchronized() {
            self.set_timer(Timer::Retransmit, cx.now + self.rto.timeout(&cx.config.rto));
        }
    }

    /// An ACK only SACKs, and gives a sample by a segment sent then. It restarts the timer unless the first segment was
    /// sent again since: else a first segment that is lost again would never be missed.
    pub(super) fn on_sacked<I: Io>(&mut self, cx: &Context<'_, I>, sent: Instant) {
        if cx.has_linux_timer() && self.board.first_sent().is_some_and(|first| sent < first) {
            self.restart_rto(cx);
        }
    }

    /// A timer that ran instead of this one was set, has expired or is not needed any more.
    pub(super) fn count_rto_from_first<I: Io>(&mut self, cx: &Context<'_, I>) {
        if cx.has_linux_timer() && !self.board.is_empty() {
            let reorder = Some(self.timer_at(Timer::Reorder)).filter(|&at| at != Instant::FAR_FUTURE);
            let least = reorder.unwrap_or(cx.now);
            self.set_timer(Timer::Retransmit, self.rto_of_first(cx).max(least));
        }
    }

    /// When the timer expires if it counts from when the first segment was last sent.
    pub(super) fn rto_of_first<I: Io>(&self, cx: &Context<'_, I>) -> Instant {
        self.board.first_sent().unwrap_or(cx.now) + self.rto.timeout(&cx.config.rto)
    }

    /// Nothing hints at a loss.
    pub(super) fn is_calm(&self) -> bool {
        self.loss.is_open() && self.board.sacked() == 0
    }

    /// When the probe is due whose time-out is `pto`: no later than the retransmission timer, which counts from the
    /// first segment when new data leaves.
    pub(super) fn probe_at<I: Io>(&self, cx: &Context<'_, I>, pto: Duration) -> Instant {
        let at = (cx.now + pto).min(self.timer_at(Timer::Retransmit));
        let by_first = cx.has_linux_timer() && cx.new_segments > 0;
        match self.rto_of_first(cx) {
            first if by_first && first > cx.now => at.min(first),
            _ => at,
        }
    }
}
