//! What is known of a flow of QUIC: round trips, silences, sizes.

use narrows_units::{Duration, Instant};

use crate::taq::default::flow_state::NEVER;

/// The shortest silence out of which a probe comes, and no longer one than the round trip the sender knows: pacing
/// spreads a window over a round trip, and a timer waits for longer than one (RFC 9002, section 6.2.1).
const SILENCE: Duration = Duration::from_millis(150);
/// Packets of a probe timeout, at most (RFC 9002, section 6.2.4).
const PROBES: u8 = 2;
/// Packets up to here have no data, or hardly any: PING and acknowledgments.
pub const NO_DATA: u16 = 128;
/// What may be missing in a full packet.
const SLACK: u16 = 64;
/// Answers that may be missing in a row: receivers answer every second packet, and within 25 ms (RFC 9000, section
/// 13.2.2).
const UNANSWERED: u8 = 4;
/// How long a receiver takes to answer before it has been seen to, at least.
const UNKNOWN: Duration = Duration::from_millis(300);
/// How long an answer takes at most, beside the wait here.
const ANSWER: Duration = Duration::from_secs(1);

/// What the sizes of packets tell of what a sender has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Data {
    /// There were no full packets yet.
    None,
    /// The last was full: there is more, and a probe will bring it (RFC 9002, section 6.2.4).
    Flows,
    /// After full ones came one that was not: that was all.
    Over,
}

/// What is known of a flow beside its queue.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct QuicFlow {
    /// Whose record it is: the tracker's count; [`u32::MAX`] if nobody's.
    pub generation: u32,
    /// Whether a packet of a handshake was seen.
    pub known: bool,
    /// Whether the receiver has spoken since the last arrival.
    heard: bool,
    /// How many packets are taken for probes, since the sender spoke out of silence, until the receiver does.
    probes: u8,
    /// From what the receiver says to what the sender answers, smoothed; 0: none was seen.
    sender_rtt_us: u32,
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
    /// The largest of these.
    largest: u16,
    /// What it has said of its data.
    data: Data,
    /// Nothing had reached the receiver when it spoke: it probes as well, or has another request.
    unprompted: bool,
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
            probes: 0,
            sender_rtt_us: 0,
            unanswered: 0,
            full: 0,
            fills: false,
            larger: 0,
            data: Data::None,
            unprompted: false,
            largest: 0,
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

    /// Notes an arrival behind `waiting` others; whether it is a probe as far as its time tells.
    pub fn arrived(&mut self, now: Instant, waiting: u32, len: u16) -> bool {
        if self.sample_at == NEVER {
            (self.sample_at, self.sample_left) = (now, waiting + 1);
        }
        let silence = SILENCE.max(Duration::from_micros(self.srtt_us.into()));
        let out_of_silence = now.since(self.arrived_at) >= silence;
        let replies = self.heard && self.replies(now);
        if out_of_silence && self.data == Data::Over {
            if !self.heard {
                self.probes = u8::MAX;
            } else if waiting > 0 && (self.unprompted || !replies) {
                self.probes = PROBES;
            }
        }
        (self.arrived_at, self.heard, self.unprompted) = (now, false, false);
        let probe = self.probes > 0;
        if self.probes < u8::MAX {
            self.probes = self.probes.saturating_sub(1);
        }
        if !probe && (replies || !out_of_silence) && len > NO_DATA && len <= self.full {
            self.data = match self.data {
                _ if len + SLACK >= self.full => Data::Flows,
                Data::None => Data::None,
                _ => Data::Over,
            };
        }
        probe
    }

    /// Notes that a packet was dropped: the sender has it to say again, and may find out by a timer (RFC 9002, section
    /// 6.1.2).
    pub const fn lost_here(&mut self) {
        self.data = Data::Flows;
    }

    /// Whether the sender may speak because the receiver did.
    fn replies(&mut self, now: Instant) -> bool {
        let (since, known) = (now.since(self.answered_at), Duration::from_micros(self.sender_rtt_us.into()));
        let most = (known + known / 4 + Duration::from_millis(25)).max(SILENCE);
        let replies = self.sender_rtt_us == 0 || since < most;
        if replies && since < ANSWER {
            smooth(&mut self.sender_rtt_us, since);
        }
        replies
    }

    /// Whether a packet of data is larger than the sender's packets are: they grow by what probes find, and not before.
    pub fn is_mtu_probe(&self, len: u16) -> bool {
        self.fills && len > self.full && len != self.larger
    }

    /// Notes the size of a packet of data; whether the larger one before it was a probe.
    pub fn shows_mtu_probe(&mut self, len: u16) -> bool {
        if len < self.full {
            return false;
        }
        // A second one of a size: the sender has larger packets than it had.
        let largest = self.largest;
        if len > self.full && len != self.larger {
            (self.larger, self.largest) = (len, largest.max(len));
            return false;
        }
        (self.full, self.larger, self.largest, self.fills) = (len, 0, 0, true);
        largest > len
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
        let prompted = self.departed_at >= self.answered_at || now.since(self.departed_at) < UNKNOWN;
        self.unprompted = !prompted && (self.unprompted || !self.heard);
        if self.sample_left == 0 && self.sample_at != NEVER {
            smooth(&mut self.srtt_us, now.since(self.sample_at));
            smooth(&mut self.receiver_rtt_us, now.since(self.sample_departed));
            self.sample_at = NEVER;
        }
        (self.answered_at, self.heard) = (now, true);
        (self.probes, self.unanswered) = (0, 0);
    }
}

/// RFC 9002, section 5.3.
fn smooth(smoothed_us: &mut u32, sample: Duration) {
    let sample = u32::try_from(sample.as_nanos() / 1000).unwrap_or(u32::MAX).max(1);
    *smoothed_us = if *smoothed_us == 0 { sample } else { *smoothed_us - *smoothed_us / 8 + sample / 8 };
}
