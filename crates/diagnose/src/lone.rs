//! Whether the first of an answer was sent by an application that took its time, or by the timer after all before it
//! was lost on the way here. Only what follows tells: an application's answer begins with a window of segments, and the
//! timer sends a segment alone, and then what its ACK lets go (RFC 5681, section 3.1: the loss window is one segment).

use narrows_units::{Instant, SeqNum};
use narrows_wire::TcpHeader;

use crate::findings::{Cause, Certainty, Place, Repair};
use crate::sender::{Seen, Sender};
use crate::timer::Timer;
use crate::tolerances::{LONE_LEAST, SOONEST};

/// The first segment of an answer, of which it is not known yet, and what was known before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lone {
    at: Instant,
    sent: Instant,
    frame: u64,
    tcp: TcpHeader,
    timer: Timer,
    factor: u32,
    max: SeqNum,
}

impl Sender {
    /// This comes after a silence, and may be the application's.
    pub(crate) fn may_be_lone(&mut self, p: &Seen<'_>, asked: Option<Instant>) {
        let Some(asked) = asked.filter(|_| self.last_data.is_none()) else { return };
        let closed = matches!(self.shut, Some((_, None)));
        let full = p.tcp.payload * 2 >= self.announced;
        if !self.around.losses || self.at_sender() || closed || !full {
            return;
        }
        // The timer began when the sender had been asked, or when a probe of the tail was lost as well, after two round
        // trips (RFC 8985, section 7.2).
        let began = asked + self.react();
        let probe = self.trips.trip() * if self.selective && !self.around.plain { 2 } else { 0 };
        let waited = p.sent.since(began);
        if waited >= self.rto() {
            let mut timer = self.timer;
            timer.restart(if waited > probe + self.rto() / 2 { began + probe } else { began });
            let (at, sent, frame, tcp) = (p.at, p.sent, p.frame, *p.tcp);
            self.lone = Some(Lone { at, sent, frame, tcp, timer, factor: self.factor, max: self.max });
        }
    }

    /// The next segment passes: the ACK of the one that came alone has let it go, or it has not.
    pub(crate) fn was_lone(&mut self, p: &Seen<'_>, asked: Option<Instant>) {
        let Some(lone) = self.lone.take() else { return };
        let again = asked.is_some_and(|asked| asked > lone.at);
        if again || !self.acked_since(lone.at, p) {
            return;
        }
        let before = (self.timer, self.max, self.pending.clone());
        (self.timer, self.factor, self.max) = (lone.timer, lone.factor, lone.max);
        let told = self.counts.timeouts;
        let then = Seen { at: lone.at, frame: lone.frame, tcp: &lone.tcp, sent: lone.sent };
        self.expire(&then, true, Place::Before, Certainty::Possible);
        let silence = self.stalls.last_mut().filter(|s| s.to == lone.at && s.cause == Cause::DataUnavailable);
        if let Some(stall) = silence.filter(|_| self.counts.timeouts > told) {
            (stall.cause, stall.certainty) = (Cause::ContinuousLoss, Certainty::Possible);
            (stall.repair, stall.lost) = (Some(Repair::Timeout), Place::Before);
            stall.timeouts = u32::try_from(self.counts.timeouts - told).unwrap_or(u32::MAX);
            stall.backoff = self.factor;
        }
        // What was known since, and the ACK has ended the back-off.
        (self.timer, self.max, self.pending, self.factor) = (before.0, before.1, before.2, 1);
    }

    /// What passes now follows from an ACK of what passed then, and from nothing else.
    fn acked_since(&self, then: Instant, p: &Seen<'_>) -> bool {
        let Some(latest) = self.acks_seen.checked_sub(1) else { return false };
        let answered = self.acks[latest % self.acks.len()];
        let gap = p.at.since(answered);
        let least = SOONEST.of(self.react_least()).max(LONE_LEAST);
        answered >= then && gap >= least && gap <= self.react() * 2 + self.slack(self.react() / 2)
    }
}

#[cfg(test)]
mod tests {
    use narrows_units::Duration;
    use narrows_wire::Flags;

    use super::*;
    use crate::why::Asked;

    /// How many timeouts are told where the server is 50 ms away and the client 10, asks at 100 ms, and segments of the
    /// answer pass at these times; the first is acknowledged at 940 ms.
    fn told(first: u64, second: u64) -> u64 {
        let (ms, at) = (Duration::from_millis, |n: u64| Instant::ZERO + Duration::from_millis(n));
        let mut s = Sender::new(1, Asked::default());
        (s.around.losses, s.announced) = (true, 1000);
        s.begin(at(0), SeqNum(1));
        s.trips.handshake(ms(10));
        s.trips.time_sender(ms(50), 2);
        s.trips.greeted();
        let mut packet = |n: u64, seq: u32, ack: u32, payload: u32| {
            let (seq, ack, flags) = (SeqNum(seq), SeqNum(ack), Flags::ACK);
            let tcp = TcpHeader { seq, ack, flags, payload, window: 60_000, ..TcpHeader::default() };
            let p = Seen { at: at(n), frame: n, tcp: &tcp, sent: at(n) };
            if payload > 0 { s.data(&p, Some(at(100))) } else { s.ack(&p) }
        };
        packet(first, 1, 101, 1000);
        if second < 940 {
            packet(second, 1001, 101, 1000);
        }
        packet(940, 101, 1001, 0);
        if second > 940 {
            packet(second, 1001, 101, 1000);
        }
        s.counts.timeouts
    }

    #[test]
    fn an_answer_whose_first_window_was_lost() {
        // RTO = 60 + 200 ms, from 150 ms on: it expires at 410 and at 930.
        assert_eq!(told(930, 992), 2);
        assert_eq!(told(930, 931), 0, "a window at once: an application");
        assert_eq!(told(380, 992), 0, "too soon for the timer");
    }
}
