//! A packet of TCP: what it says of the connection, the handshake, and silences in which nothing is under way.

use narrows_diagnose::tolerances::FIRST_RTO;
use narrows_diagnose::{Cause as Told, Certainty, Repair};
use narrows_flow::Micros;
use narrows_units::Duration;
use narrows_wire::{Flags, TcpHeader};

use super::book::{Book, Stall};
use super::cause::{Cause, Lost};
use super::record::{Gaps, Half, Half16, Record, Record16};
use super::sender::Scene;

impl Record {
    /// A packet of direction `d` has come.
    pub fn tcp(&mut self, now: Micros, d: usize, tcp: &TcpHeader, gaps: &mut [Gaps; 2], book: &mut Book) {
        if tcp.flags.has(Flags::RST) {
            self.give_up(now, gaps, book);
            self.flags.set(Record16::CLOSED);
            return;
        }
        if tcp.flags.has(Flags::SYN) {
            self.syn(now, d, tcp);
        }
        if tcp.flags.has(Flags::ACK) {
            let (whose, gaps) = ((&self.key, self.user, 1 - d), &mut gaps[1 - d]);
            self.halves[1 - d].ack(tcp, &mut Scene { now, whose, gaps, book });
        }
        if !tcp.flags.has(Flags::SYN) {
            if !self.flags.has(Record16::OVER) {
                self.third(now, d, book);
            } else if tcp.payload > 0 {
                self.silence(now, d, book);
            }
            let (whose, gaps) = ((&self.key, self.user, d), &mut gaps[d]);
            self.halves[d].data(tcp, &mut Scene { now, whose, gaps, book });
        }
        if self.halves.iter().all(|h| h.flags.has(Half16::FIN) && h.una == h.max) {
            self.flags.set(Record16::CLOSED);
        }
    }

    fn syn(&mut self, now: Micros, d: usize, tcp: &TcpHeader) {
        let answer = tcp.flags.has(Flags::ACK);
        let start = tcp.seq + 1;
        let again = if answer {
            self.flags.has(Record16::ANSWERED) && self.halves[d].una == start
        } else {
            let known = self.flags.has(Record16::OPENED) && self.halves[d].una == start;
            if !known && (self.halves[d].flags.has(Half16::SYNCED) || self.flags.has(Record16::OVER)) {
                self.restart(now);
            }
            known
        };
        if again {
            let half = &mut self.halves[d];
            half.expiries = half.expiries.saturating_add(u8::from(half.queued == 0));
            return;
        }
        if answer {
            self.flags.set(Record16::ANSWERED);
            let other = &self.halves[1 - d];
            if self.flags.has(Record16::OPENED) && other.expiries == 0 {
                // The SYN until its answer, without the wait here: from here to the one that was called and back.
                let half = now.since(other.since).saturating_sub(other.turn());
                self.halves[1 - d].receiver_us = Half::smooth(0, half);
                self.halves[d].sender_us = Half::smooth(0, half);
            }
        } else {
            self.flags.set(Record16::OPENED);
            self.flags.put(Record16::OPENER_UP, d == 1);
        }
        self.halves[1 - d].scale = tcp.window_scale.unwrap_or(0).min(14);
        let half = &mut self.halves[d];
        half.begin(now, start);
        half.flags.put(Half16::SELECTIVE, tcp.beyond);
    }

    /// The first packet of the opener after the SYN-ACK ends the handshake.
    fn third(&mut self, now: Micros, d: usize, book: &mut Book) {
        let opener = self.opener();
        if self.flags.has(Record16::OPENED) && d != opener {
            return;
        }
        self.flags.set(Record16::OVER);
        if !self.flags.has(Record16::OPENED) {
            return;
        }
        let syn = self.halves[opener].since;
        if self.flags.has(Record16::ANSWERED) && self.halves[1 - opener].expiries == 0 {
            let answer = &self.halves[1 - opener];
            let half = now.since(answer.since).saturating_sub(answer.turn());
            self.halves[1 - opener].receiver_us = Half::smooth(0, half);
            self.halves[opener].sender_us = Half::smooth(0, half);
        }
        if let Some(stall) = self.handshake_stall(now, syn, book.turns(), true) {
            book.ended(stall);
        }
        for half in &mut self.halves {
            half.since = now;
            half.settle();
        }
    }

    /// The handshake as a stall, if it takes too long. `turns`: what packets wait in the box, down and up.
    fn handshake_stall(&self, now: Micros, syn: Micros, turns: [Duration; 2], ended: bool) -> Option<Stall> {
        let opener = self.opener();
        let again = [0, 1].map(|d: usize| self.halves[d].expiries);
        let by = if again[1 - opener] > 0 { 1 - opener } else { opener };
        let repeated = again[0].saturating_add(again[1]);
        let here = self.flags.has(Record16::SYN_LOST_HERE);
        let stood = if self.halves[opener].queued > 0 { now.since(syn) } else { self.halves[opener].turn() };
        // A SYN that stands in the box for longer than data wait for their turn is kept by admission control.
        let held = stood > FIRST_RTO.max(turns[opener] * 3);
        let turn = self.halves[1 - opener].turn() + if held { Duration::ZERO } else { stood };
        let length = now.since(syn).saturating_sub(turn);
        if length <= self.halves[opener].patience(repeated > 0 || here) {
            return None;
        }
        let (cause, lost, certainty) = match () {
            () if self.flags.has(Record16::REFUSED) => {
                (Cause::HeldAtAdmission, Lost::UNKNOWN, Certainty::Certain)
            }
            () if held => (Cause::HeldAtAdmission, Lost::UNKNOWN, Certainty::Likely),
            () if here => (Cause::Told(Told::HandshakeLost), Lost::HERE, Certainty::Certain),
            // The SYN on its way from here, or its answer on the way back: both on that side of the box.
            () if repeated > 0 => (Cause::Told(Told::HandshakeLost), Lost::BEHIND, Certainty::Likely),
            () if !ended => (Cause::Told(Told::HandshakeLost), Lost::BEHIND, Certainty::Likely),
            () => (Cause::Told(Told::PacketDelay), Lost::UNKNOWN, Certainty::Likely),
        };
        Some(Stall {
            key: self.key,
            user: self.user,
            by,
            length,
            cause,
            lost,
            certainty,
            repair: (repeated > 0).then_some(Repair::Handshake),
            timeouts: 0,
            backoff: repeated.min(15),
            outstanding: 1,
            turn_ms: self.halves[by].turn_ms,
            ended,
        })
    }

    /// New data after a silence in which nothing was under way: who was called has let the other wait for an answer.
    /// The end that opened the connection was free to ask when it liked.
    fn silence(&self, now: Micros, d: usize, book: &mut Book) {
        if let Some(stall) = self.unanswered(now, d) {
            book.ended(stall);
        }
    }

    /// The stall of a connection in which direction `d` owes an answer, if it does for long enough.
    pub fn unanswered(&self, now: Micros, d: usize) -> Option<Stall> {
        let (own, other) = (&self.halves[d], &self.halves[1 - d]);
        if own.una != own.max {
            return None;
        }
        let asked = other.flags.has(Half16::DATA)
            && other.una == other.max
            && (!own.flags.has(Half16::DATA) || other.sent.since(own.sent) < own.sent.since(other.sent));
        if !asked || d == self.opener() || own.flags.has(Half16::FIN) {
            return None;
        }
        let begun =
            if other.since.since(own.since) < own.since.since(other.since) { other.since } else { own.since };
        let length = now.since(begun).saturating_sub(Duration::from_micros(own.sender_us.into()));
        (length > own.patience(false)).then_some(Stall {
            key: self.key,
            user: self.user,
            by: d,
            length,
            cause: Cause::Told(Told::DataUnavailable),
            lost: Lost::UNKNOWN,
            certainty: Certainty::Certain,
            repair: None,
            timeouts: 0,
            backoff: 0,
            outstanding: 0,
            turn_ms: own.turn_ms,
            ended: true,
        })
    }

    /// Nothing more comes: what stands still now stalls without an end.
    pub fn give_up(&mut self, now: Micros, gaps: &[Gaps; 2], book: &mut Book) {
        let turns = book.turns();
        for stall in [0, 1].into_iter().filter_map(|d| self.stall_now(now, d, gaps, turns)) {
            book.ended(Stall { ended: false, ..stall });
        }
        for half in &mut self.halves {
            half.flags.take(Half16::WAITING);
        }
    }

    /// The stall of direction `d` that goes on, if one does. `turns`: what packets wait in the box, down and up.
    pub fn stall_now(&self, now: Micros, d: usize, gaps: &[Gaps; 2], turns: [Duration; 2]) -> Option<Stall> {
        let half = &self.halves[d];
        if self.flags.has(Record16::CLOSED) {
            return None;
        }
        if !self.flags.has(Record16::TCP) {
            return self.starving(now, d);
        }
        if !self.flags.has(Record16::OVER) {
            let syn = self.halves[self.opener()].since;
            let opens = d == self.opener() && self.flags.has(Record16::OPENED) && now.since(syn) > FIRST_RTO;
            return if opens { self.handshake_stall(now, syn, turns, false) } else { None };
        }
        if half.flags.has(Half16::WAITING) || half.flags.has(Half16::SHUT) {
            let acknowledged_here = self.halves[1 - d].queued > 0 && !half.has_expired();
            let stall = half.stall(now, (&self.key, self.user, d), &gaps[d], false);
            if let Some(stall) = stall.filter(|_| !acknowledged_here) {
                return Some(stall);
            }
        }
        self.unanswered(now, d).filter(|_| !self.queued())
    }
}
