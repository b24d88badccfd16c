//! Time-outs that were not needed: F-RTO with SACK (RFC 5682, section 3) and Eifel (RFC 3522), as Linux has them
//! ([`RtoRecovery::Frto`]). What the time-out did to the window is undone.

use narrows_units::{Instant, SeqNum};
use narrows_wire::TcpHeader;

use super::scoreboard::Delivered;
use super::{Context, RecoveryPhase, Sender};
use crate::cc::Window;
use crate::receiver::timestamp;
use crate::{Io, RtoRecovery};

/// What was before a recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    window: Window,
    /// When its first retransmission left.
    at: Instant,
    /// No answer has shown yet whether the time-out was needed.
    open: bool,
    /// New data may leave before what counts as lost (step 2b).
    new_first: bool,
}

/// An acknowledgment after a time-out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer<'a> {
    pub(super) tcp: &'a TcpHeader,
    /// It acknowledges new data, cumulatively.
    pub(super) advances: bool,
    /// It SACKs something new.
    pub(super) sacks: bool,
}

impl Sender {
    /// A recovery begins now and reduces the window.
    pub(super) fn remember<I: Io>(&mut self, cx: &Context<'_, I>) {
        let window = self.window;
        if let Some(rack) = self.rack_mut().filter(|_| cx.config.rto_recovery == RtoRecovery::Frto) {
            let at = rack.before.map_or(cx.now, |before| before.at);
            rack.before = Some(Before { window, at, open: false, new_first: false });
        }
    }

    /// The timer has expired, and if `open`, the next answers show whether it should have.
    pub(super) fn doubt_timeout(&mut self, open: bool) {
        if let Some(before) = self.rack_mut().and_then(|rack| rack.before.as_mut()) {
            (before.open, before.new_first) = (open, false);
        }
    }

    /// What counts is known, and nothing is to be undone any more.
    pub(super) fn forget_before(&mut self) {
        if let Some(rack) = self.rack_mut() {
            rack.before = None;
        }
    }

    /// An acknowledgment came after a time-out and was entered into the scoreboard.
    pub(super) fn judge_timeout(&mut self, answer: Answer<'_>, delivered: &Delivered) {
        let Some(mut before) = self.rack().and_then(|rack| rack.before) else { return };
        if self.loss.phase != RecoveryPhase::Loss {
            return;
        }
        // RFC 3522: the acknowledged segment left before the retransmission did.
        let echo = answer.tcp.timestamps.map(|(_, echo)| SeqNum(echo));
        let early = answer.advances && echo.is_some_and(|echo| echo.before(SeqNum(timestamp(before.at))));
        // Step 3b: something sent once and before the time-out has arrived.
        let original = before.open
            && delivered
                .rack
                .and_then(|rack| rack.lowest_sent_once)
                .is_some_and(|end| end <= self.loss.recover);
        if early || original {
            return self.undo_timeout(&before);
        }
        if before.open && self.board.max() > self.loss.recover {
            // Step 3a: only new data has arrived.
            before.open = !answer.sacks;
        } else if before.open && answer.advances && self.board.una() < self.loss.recover {
            // Step 2b, where there is new data and room for it; else nothing will tell.
            let room = self.board.bytes() < u64::from(self.peer.window);
            before.new_first = self.unsent() > 0 && room;
            before.open = before.new_first;
        }
        if let Some(kept) = self.rack_mut().and_then(|rack| rack.before.as_mut()) {
            *kept = before;
        }
    }

    fn undo_timeout(&mut self, before: &Before) {
        self.board.unmark_lost();
        self.window.cwnd = self.window.cwnd.max(before.window.cwnd);
        self.window.ssthresh = self.window.ssthresh.max(before.window.ssthresh);
        self.loss.undo();
        self.rto.reset_retries();
        self.forget_before();
    }

    /// Whether new data may leave before what counts as lost.
    pub(super) fn tries_new_data(&self) -> bool {
        self.rack().and_then(|rack| rack.before.as_ref()).is_some_and(|before| before.new_first)
    }

    /// What may leave because of an acknowledgment has left.
    pub(super) fn end_trial(&mut self) {
        let sent = self.board.max() > self.loss.recover;
        if let Some(before) = self.rack_mut().and_then(|rack| rack.before.as_mut()) {
            before.open &= sent;
            before.new_first = false;
        }
    }

    /// Whether a repair that is lost begins another fast recovery.
    pub(super) fn reopens<I: Io>(&self, cx: &Context<'_, I>) -> bool {
        self.loss.phase == RecoveryPhase::Loss
            && self.has_rack
            && cx.config.rto_recovery == RtoRecovery::Frto
            && self.rack().is_some_and(|rack| rack.lost_copy)
    }
}
