//! What is not TCP. Of QUIC a middlebox knows who sends and who answers: an end that asked more than once, as its probe
//! timeout has it (RFC 9002, section 6.2), and hears nothing is starved; one that is silent itself is idle. Of other
//! datagrams nobody knows whether they want an answer.

use narrows_diagnose::Certainty;
use narrows_flow::Micros;
use narrows_units::Duration;
use narrows_wire::Header;

use super::book::{Book, Stall};
use super::cause::{Cause, Lost};
use super::record::{Half, Half16, Record, Record16};

/// Packets that follow each other sooner than that ask once.
const AT_ONCE: Duration = Duration::from_millis(100);
/// Who asks again later than that, or than the doubling of its timer has it, asks something else.
const ANEW: Duration = Duration::from_secs(1);

impl Record {
    /// A packet of direction `d` has come.
    pub fn datagram(&mut self, now: Micros, d: usize, header: &Header, book: &mut Book) {
        if header.quic.is_some_and(narrows_wire::QuicPacket::is_handshake) {
            self.flags.set(Record16::QUIC);
        }
        if self.flags.has(Record16::QUIC) {
            self.answer(now, 1 - d, book);
        }
        let half = &mut self.halves[d];
        half.since = now;
        if !half.flags.has(Half16::WAITING) || now.since(half.sent) > half.keeps_asking() {
            half.flags.set(Half16::WAITING);
            (half.waits_since, half.sent, half.expiries, half.turn_ms) = (now, now, 0, 0);
        } else if now.since(half.sent) > AT_ONCE.max(half.srtt() / 2) {
            let expired = u8::from(half.queued == 0);
            (half.sent, half.expiries) = (now, half.expiries.saturating_add(expired));
        }
    }

    /// What direction `d` has asked is answered.
    fn answer(&mut self, now: Micros, d: usize, book: &mut Book) {
        if let Some(stall) = self.starving(now, d) {
            book.ended(Stall { ended: true, ..stall });
        }
        let half = &mut self.halves[d];
        if half.flags.take(Half16::WAITING) && half.expiries == 0 {
            let trip = now.since(half.waits_since);
            half.receiver_us = Half::smooth(half.receiver_us, trip);
            book.round_trip(1 - d, trip);
        }
        (half.turn_ms, half.lost) = (0, Lost::UNKNOWN);
    }

    /// The stall of a QUIC connection whose direction `d` asks and hears nothing.
    pub fn starving(&self, now: Micros, d: usize) -> Option<Stall> {
        let half = &self.halves[d];
        let asks = self.flags.has(Record16::QUIC) && half.flags.has(Half16::WAITING) && half.expiries > 0;
        let length = now.since(half.waits_since).saturating_sub(half.turn());
        if !asks || length <= half.patience(false) || now.since(half.sent) > half.keeps_asking() {
            return None;
        }
        Some(Stall {
            key: self.key,
            user: self.user,
            by: d,
            length,
            cause: Cause::Starved,
            lost: half.lost,
            certainty: Certainty::Possible,
            repair: None,
            timeouts: 0,
            backoff: 0,
            outstanding: half.expiries.saturating_add(1),
            turn_ms: half.turn_ms,
            ended: false,
        })
    }
}

impl Half {
    /// How long after its latest packet it may ask again for the same.
    fn keeps_asking(&self) -> Duration {
        ANEW.max(self.sent.since(self.waits_since) * 2 + self.srtt() * 4)
    }
}
