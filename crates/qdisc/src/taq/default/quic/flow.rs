//! What is known of a flow of QUIC: round trips, silences, sizes.

use narrows_units::{Duration, Instant};

use crate::taq::default::flow_state::NEVER;

/// The shortest silence out of which a probe comes, and no longer one than the round trip the sender knows: pacing
/// spreads a window over a round trip, and a timer waits for longer than one (RFC 9002, section 6.2.1).
const SILENCE: Duration = Duration::from_millis(150);
/// Answers that may be missing in a row: receivers answer every second packet, and within 25 ms (RFC 9000, section
/// 13.2.2).
const UNANSWERED: u8 = 4;
/// How long a receiver takes to answer before it has been seen to, at least.
const UNKNOWN: Duration = Duration::from_millis(300);
/// How long an answer takes at most, beside the wait here.
const ANSWER: Duration = Duration::from_secs(1);

/// What is known of a flow beside its queue.
#[derive(Clone, Copy, Debug)]
pub struct QuicFlow {
    /// Whose record it is: the tracker's count; [`u32::MAX`] if nobody's.
    pub generation: u32,
    /// Whether a packet of a handshake was seen.
    pub known: bool,
    /// Whether the receiver has spoken since the last arrival.
    heard: bool,
    /// Whether the sender has spoken out of silence since the receiver last did.
    probing: bool,
    /// The round trip from here to the receiver and back, the wait here included, smoothed (RFC 9002, section 5.3).
    srtt_us: u32,
    /// The packet whose round trip is taken next: how many must leave until it has, and when it came.
    sample_left: u32,
    sample_at: Instant,
    sample_departed: Instant,
    /// From a departure to the answer, smoothed; 0: none was seen.
    receiver_rtt_us: u32,
    /// When a packet was last sent on.
    departed_at: Instant,
    /// Packets sent on since the last answer, one for each [`ANSWER`].
    unanswered: u8,
    /// Size of a full packet: first those of the handshake, which are padded to it (RFC 9000, section 14.1).
    pub full: u16,
    /// Whether data was seen of that size: what the sender fills its packets to.
    fills: bool,
    /// Of a packet that was larger than it, since the last full one; else 0.
    larger: u16,
    arrived_at: Instant,
    /// The first packet of the last flight of the handshake.
    flight_at: Instant,
    /// When the last of `unanswered` was sent on.
    counted_at: Instant,
    answered_at: Instant,
    /// No mark or drop before.
    pub next_signal: Instant,
}

impl Default for QuicFlow {
    fn default() -> Self {
        Self {
            generation: u32::MAX,
            known: false,
            heard: true,
            srtt_us: 0,
            sample_left: 0,
            sample_at: NEVER,
            sample_departed: Instant::ZERO,
            receiver_rtt_us: 0,
            departed_at: NEVER,
            probing: false,
            unanswered: 0,
            full: 0,
            fills: false,
            larger: 0,
            arrived_at: Instant::ZERO,
            flight_at: NEVER,
            counted_at: Instant::ZERO,
            answered_at: Instant::ZERO,
            next_signal: Instant::ZERO,
        }
    }
}

impl QuicFlow {
    /// A new record.
    pub fn of(generation: u32, now: Instant) -> Self {
        Self { generation, arrived_at: now, counted_at: now, answered_at: now, ..Self::default() }
    }

    /// Notes an arrival behind `waiting` others; whether it came out of silence.
    pub fn arrived(&mut self, now: Instant, waiting: u32) -> bool {
        if self.sample_at == NEVER {
            (self.sample_at, self.sample_left) = (now, waiting + 1);
        }
        let silence = SILENCE.max(Duration::from_micros(self.srtt_us.into()));
        let unasked = !self.heard && now.since(self.arrived_at) >= silence;
        self.probing |= unasked;
        (self.arrived_at, self.heard) = (now, false);
        self.probing
    }

    /// Whether a packet of data is larger than the sender's packets are: they grow by what probes find, and not before.
    pub fn is_mtu_probe(&self, len: u16) -> bool {
        self.fills && len > self.full && len != self.larger
    }

    /// Notes the size of a packet of data; whether the larger one before it was a probe.
    pub fn shows_mtu_probe(&mut self, len: u16) -> bool {
        if len > self.full {
            // A second one of this size: the sender has larger packets than it had.
            if len == self.larger {
                (self.full, self.larger) = (len, 0);
            } else {
                self.larger = len;
            }
            return false;
        }
        self.fills |= len == self.full;
        len == self.full && core::mem::take(&mut self.larger) > 0
    }

    /// Notes a packet of the handshake; whether it repeats a flight, a packet of which `waits` or has just left.
    pub fn repeats_flight(&mut self, now: Instant, len: u16, waits: bool) -> bool {
        self.full = self.full.max(len);
        let again = self.flight_at != NEVER && now.since(self.flight_at) >= SILENCE;
        let waits = waits || self.is_answer_due(now);
        if self.flight_at == NEVER || (again && !waits) {
            self.flight_at = now;
        }
        again && waits
    }

    /// The round trip from here to the receiver, its wait for more to acknowledge included.
    pub fn receiver_rtt(&self) -> Option<Duration> {
        (self.receiver_rtt_us > 0).then(|| Duration::from_micros(self.receiver_rtt_us.into()))
    }

    /// Whether the answer to what was sent on last may still be on its way.
    pub fn is_answer_due(&self, now: Instant) -> bool {
        // A quarter more for its jitter, and the delay of an acknowledgment (RFC 9000, section 13.2.1).
        let margin = self.receiver_rtt().map_or(UNKNOWN, |rtt| rtt + rtt / 4 + Duration::from_millis(25));
        self.departed_at != NEVER && now.since(self.departed_at) < margin
    }

    /// Notes a departure of a packet of a `handshake` or after it; whether the receiver has gone.
    pub fn departed(&mut self, now: Instant, handshake: bool) -> bool {
        self.departed_at = now;
        if self.sample_left == 1 {
            self.sample_departed = now;
        }
        self.sample_left = self.sample_left.saturating_sub(1);
        // An answer takes its time, and copies of a handshake get none.
        if !handshake && now.since(self.counted_at.max(self.answered_at)) >= ANSWER {
            (self.unanswered, self.counted_at) = (self.unanswered.saturating_add(1), now);
        }
        self.unanswered >= UNANSWERED
    }

    /// Notes that the receiver said something.
    pub fn answered(&mut self, now: Instant) {
        if self.sample_left == 0 && self.sample_at != NEVER {
            smooth(&mut self.srtt_us, now.since(self.sample_at));
            smooth(&mut self.receiver_rtt_us, now.since(self.sample_departed));
            self.sample_at = NEVER;
        }
        (self.answered_at, self.heard) = (now, true);
        (self.probing, self.unanswered) = (false, 0);
    }
}

/// RFC 9002, section 5.3.
fn smooth(smoothed_us: &mut u32, sample: Duration) {
    let sample = u32::try_from(sample.as_nanos() / 1000).unwrap_or(u32::MAX).max(1);
    *smoothed_us = if *smoothed_us == 0 { sample } else { *smoothed_us - *smoothed_us / 8 + sample / 8 };
}
