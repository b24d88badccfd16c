//! Flows of QUIC: what can be told of them without reading them, and what is done with it.
//!
//! A datagram shows its size, its instant and the first bits of its header; that it is QUIC is known from its
//! handshake. The box sees besides what the other end answers, and whether it answers at all. From that:
//!
//! - **Hold.** What waits is held, not dropped: a sender that keeps to its window stops by itself. A first window
//!   waits whole.
//! - **Probes.** A sender that has heard nothing since its last packet may send only what its application has just
//!   written, or probes when its timer fires (PTO, RFC 9002, section 6.2). While packets of the flow wait here, the
//!   silence is ours: a packet that comes out of it carries what waits already, and is discarded, if the last data was
//!   not a full packet. If it was, there is more to say, and a probe may bring it. It is never discarded when nothing
//!   waits and an answer would be back, so a probe for what was lost elsewhere passes.
//! - **Repeated handshakes**: while a flight of the handshake waits here, another one is a copy of it. So it is for a
//!   second where both ends have used the keys since.
//! - **Silent flows** let others of their user go first: a receiver that has not answered may have all that it wanted.
//! - **Path MTU probes** (RFC 8899): a packet larger than those a sender fills is discarded while others wait. Where
//!   that size shows only by the packets before and after it, it is discarded then. Its loss is no sign of congestion
//!   (RFC 9000, section 14.4).
//! - **One signal in a round trip**: a mark, or one drop with many packets behind it, and no other before the sender
//!   can have answered (RFC 9002, section 7.3.2: it would not count).
//! - **Purge.** A receiver that says nothing to several packets in a row has gone, and so has one whose host says that
//!   its port is unreachable: one packet is kept.

use narrows_flow::{Flow, FlowId};
use narrows_units::{Bytes, Duration, Instant};
use narrows_wire::{Header, QuicPacket};

use super::per_flow::PerFlow;
use super::queues::FlowQueues;
use super::{OTHERS_RTT, signed};
use crate::Packet;
use crate::taq::DefaultConfig;

/// How many waiting packets are looked at in search of one.
const LOOKED_AT: usize = 64;

/// Bytes by which a copy may differ from its original: acknowledgments come and go with it.
const OTHER_FRAMES: u64 = 32;

/// Whether a packet belongs to a handshake. Later packets of the same flow are taken for data whatever their first bits
/// say: senders may clear the fixed one (RFC 9287).
pub fn is_handshake(header: &Header) -> bool {
    header.quic.is_some_and(QuicPacket::is_handshake)
}

/// Judgment of an arriving datagram.
#[derive(Debug)]
pub struct Arrived<P> {
    /// Whether the datagram need not be sent.
    pub useless: bool,
    /// A path MTU probe that waited, and shows as such by this packet: it is discarded.
    pub probe: Option<P>,
}

/// Answer to the backlog of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    None,
    /// The oldest packet is dropped: there is too much.
    Drop,
    /// The oldest packet is marked, or else, if so, dropped.
    Mark {
        or_drop: bool,
    },
}

/// Flows that are or may be QUIC.
#[derive(Debug, Default)]
pub struct QuicFlows {
    flows: PerFlow<QuicFlow>,
    /// Whether packets come out of a slower link that is before the box.
    link_before: bool,
}

impl QuicFlows {
    /// Says whether packets come out of a slower link that is before the box.
    pub const fn link_is_before(&mut self, before: bool) {
        self.link_before = before;
    }

    /// The record of a flow that is or may be QUIC.
    fn make(&mut self, now: Instant, id: FlowId, of: &Flow) -> &mut QuicFlow {
        self.flows.make(id, of, || QuicFlow::new(now))
    }

    /// The record of a flow, if there is one.
    pub fn get(&self, id: FlowId, of: &Flow) -> Option<&QuicFlow> {
        self.flows.get(id, of)
    }

    /// The record of a flow that is known to be QUIC.
    fn known_mut(&mut self, id: FlowId, of: &Flow) -> Option<&mut QuicFlow> {
        self.flows.get_mut(id, of).filter(|flow| flow.known)
    }

    /// Whether a flow is known to be QUIC.
    pub fn is_known(&self, id: FlowId, of: &Flow) -> bool {
        self.get(id, of).is_some_and(|flow| flow.known)
    }

    /// Goes on with what another process knew of a flow.
    #[cfg(feature = "handover")]
    pub fn learn(&mut self, id: FlowId, of: &Flow, known: QuicFlow) {
        *self.make(Instant::ZERO, id, of) = known;
    }

    /// Notes an arrival of UDP, before it is queued, and says whether it is a probe or a copy that is of no use while
    /// other packets of its flow wait.
    pub fn arrived<P: Packet>(
        &mut self,
        now: Instant,
        queues: &mut FlowQueues<P>,
        id: FlowId,
        header: &Header,
        config: &DefaultConfig,
    ) -> Arrived<P> {
        let handshake = is_handshake(header);
        let of = queues.flow(id);
        if !(self.is_known(id, of) || handshake && self.is_begun(now, id, of)) {
            return Arrived { useless: false, probe: None };
        }
        let waiting = queues.state(id).waiting();
        let shown = |packet: &P| is_handshake(packet.header());
        let handshake_waits = handshake && queues.packets(id).take(LOOKED_AT).any(shown);
        let len = u16::try_from(header.len.get()).unwrap_or(u16::MAX);
        let flow = self.make(now, id, queues.flow(id));
        let first = !core::mem::replace(&mut flow.known, true);
        let probing = flow.arrived(now, waiting, len);
        flow.has_keys |= matches!(header.quic, Some(QuicPacket::Handshake | QuicPacket::Short { .. }));
        if handshake {
            if first {
                // Padding is what the protocol asks for (RFC 9000, section 14.1): the flow keeps its credit for data.
                queues.state_mut(id).turn.add_credit(signed(config.quic_credit.into()));
            }
            let repeats = flow.repeats_flight(now, len, handshake_waits);
            return Arrived { useless: repeats && config.suppress_probes, probe: None };
        }
        if config.suppress_mtu_probes && waiting > 0 && flow.is_mtu_probe(len) {
            return Arrived { useless: true, probe: None };
        }
        let shows = flow.shows_mtu_probe(len);
        let full = flow.full;
        let probe = if shows && config.suppress_mtu_probes { take_mtu_probe(queues, id, full) } else { None };
        let due = waiting > 0 || self.flows.at(id).is_answer_due(now);
        let useless = config.suppress_probes && probing && due && !is_last_piece(queues, id, len, full);
        Arrived { useless, probe }
    }

    /// Whether a packet of a handshake that arrives begins a connection: it is among the first of its flow, or the
    /// other end has shown a handshake as well. A flow of another kind is taken for QUIC neither by what a stranger
    /// writes into one packet nor by bits that look so by chance.
    fn is_begun(&mut self, now: Instant, id: FlowId, of: &Flow) -> bool {
        if of.sent_packets() <= BEGINNING {
            return true;
        }
        let flow = self.make(now, id, of);
        flow.shown = true;
        flow.returned
    }

    /// Notes that the receiver has sent a packet, with the `header` that it had.
    pub fn answered(&mut self, now: Instant, id: FlowId, of: &Flow, header: &Header) {
        if is_handshake(header) {
            let flow = self.make(now, id, of);
            flow.returned = true;
            flow.known |= flow.shown;
        }
        if let Some(flow) = self.known_mut(id, of) {
            flow.answered(now, header.quic);
        }
    }

    /// Whether the receiver of a flow has not answered in time, twice in a row.
    pub fn is_silent(&self, id: FlowId, of: &Flow) -> bool {
        self.get(id, of).is_some_and(|flow| flow.known && flow.unanswered >= SILENT)
    }

    /// Notes a departure of `len` bytes; whether the receiver has gone.
    pub fn departed(&mut self, now: Instant, id: FlowId, of: &Flow, len: Bytes, handshake: bool) -> bool {
        self.known_mut(id, of).is_some_and(|flow| flow.departed(now, len, handshake))
    }

    /// Whether a flow whose turn comes each `round` lets its user's other flows go first: its receiver has not answered
    /// the last data in time, and may have gone.
    pub fn yields(&self, now: Instant, id: FlowId, of: &Flow, round: &dyn Fn() -> Duration) -> bool {
        self.get(id, of).is_some_and(|flow| flow.known && flow.yields(now, round))
    }

    /// The answer to `waiting` packets of a flow whose turn comes each `round`: a mark, or a drop, once in a round
    /// trip. As many packets more may wait as the round trip has rounds, so that a sender that has backed off still
    /// fills its share.
    pub fn signal(
        &self,
        now: Instant,
        id: FlowId,
        of: &Flow,
        waiting: u32,
        round: Duration,
        config: &DefaultConfig,
    ) -> Signal {
        let flow = self.flows.at(id);
        // After a pause of the link before the box a window comes at once: a queue of a moment, and a window that is
        // halved for it takes many round trips to fill that link again.
        let mark = if self.link_before { config.quic_hold.max(config.quic_mark) } else { config.quic_mark };
        if waiting <= mark {
            return Signal::None;
        }
        let rtt = flow.receiver_rtt().unwrap_or(OTHERS_RTT);
        let under_way = rtt.as_nanos() / round.as_nanos().max(1);
        let under_way = u32::try_from(under_way).unwrap_or(u32::MAX).min(config.memory_packets);
        if waiting > config.quic_first.max(config.quic_hold) + 2 * under_way {
            return Signal::Drop;
        }
        let signalled = config.quic_one_signal && now < flow.next_signal;
        if waiting <= mark + under_way || signalled {
            return Signal::None;
        }
        let first = of.sent_packets() <= config.quic_first;
        Signal::Mark { or_drop: !first && waiting > config.quic_hold + under_way }
    }

    /// Notes that a packet is dropped.
    pub fn lost_here(&mut self, id: FlowId) {
        self.flows.at_mut(id).lost_here();
    }

    /// Notes that the oldest of `waiting` packets was marked or dropped: no other one is before the sender can have
    /// answered.
    pub fn signalled(&mut self, now: Instant, id: FlowId, waiting: u32, round: Duration) {
        let flow = self.flows.at_mut(id);
        let rtt = flow.receiver_rtt().unwrap_or(OTHERS_RTT);
        flow.next_signal = now + round * u64::from(waiting) + rtt;
    }
}

/// Whether a probe is new by its size: the last piece of what an application wrote. A sender that its window held back
/// sends it when its timer fires, and nothing follows by which its loss would be seen. Copies are of full packets, or
/// of the size of one that waits, but for a frame or two.
fn is_last_piece<P: Packet>(queues: &FlowQueues<P>, id: FlowId, len: u16, full: u16) -> bool {
    let size = u64::from(len);
    let similar = |packet: &P| packet.len().get().abs_diff(size) <= OTHER_FRAMES;
    let mut waiting = queues.packets(id).take(LOOKED_AT);
    len > NO_DATA && len < full && queues.state(id).waiting() > 0 && !waiting.any(similar)
}

/// Takes out the last packet that waits and is larger than a full one.
fn take_mtu_probe<P: Packet>(queues: &mut FlowQueues<P>, id: FlowId, full: u16) -> Option<P> {
    let larger = |p: &P| !is_handshake(p.header()) && p.len().get() > u64::from(full);
    let (probe, _) = queues.packets_back(id).take(LOOKED_AT).find(|(_, packet)| larger(packet))?;
    queues.take(id, probe)
}

/// No instant.
const NEVER: Instant = Instant::FAR_FUTURE;

/// The shortest silence out of which a probe comes, and no longer one than the round trip the sender knows: pacing
/// spreads a window over a round trip, and a timer waits for longer than one (RFC 9002, section 6.2.1).
const SILENCE: Duration = Duration::from_millis(150);
/// Packets of a probe timeout, at most (RFC 9002, section 6.2.4).
const PROBES: u8 = 2;
/// Size in bytes up to which packets have no data, or hardly any: PING and acknowledgments.
const NO_DATA: u16 = 128;
/// Bytes that may be missing in a full packet: a frame of data has lengths of one to eight bytes (RFC 9000, section
/// 19.8). With four times as much the last piece of one object in twenty passes for a full packet, and each timer's
/// probes for new data.
const SLACK: u16 = 16;
/// Time from one packet to the next of a burst: a short one so soon behind a full one is its end, however short.
const SAME_BURST: Duration = Duration::from_millis(5);
/// Answers that may be missing in a row: receivers answer every second packet, and within 25 ms (RFC 9000, section
/// 13.2.2).
const UNANSWERED: u8 = 4;
/// Answers that must be missing before a message is believed that says that the receiver has gone: one may be on its
/// way wherever packets leave seldom.
const SILENT: u8 = 2;
/// Rounds for which a flow that has had no answer in time lets others of its user go first.
const YIELDED: u64 = 3;
/// Packets of a flow of which one must be of a handshake: servers may first ask for the address or the version.
const BEGINNING: u32 = 4;
/// Least time that a receiver takes to answer, before it has been seen to.
const UNKNOWN: Duration = Duration::from_millis(300);
/// Longest time that an answer takes, beside the wait here.
const ANSWER: Duration = Duration::from_secs(1);

/// State of the data that a sender has to send, told by the sizes of the sender's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Data {
    /// Data without a full packet so far.
    None,
    /// The last was full: there is more, and a probe will bring it (RFC 9002, section 6.2.4).
    Flows,
    /// The answer is over: after full packets came one that was not.
    Over,
}

/// Record of a flow of QUIC, beside the flow's queue.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct QuicFlow {
    /// Whether the flow is known to be QUIC.
    known: bool,
    /// Whether a packet of a handshake was seen later than at the flow's beginning, and one of the other direction.
    shown: bool,
    returned: bool,
    /// Whether the sender has sent a packet with keys that a handshake makes.
    has_keys: bool,
    /// Whether the receiver has answered that by data, and has not called for another connection since: it has what was
    /// sent of the handshake. A server may send data before it has; a client may not (RFC 9001, section 5.7).
    opened: bool,
    /// Instants at which the receiver has spoken since the sender last did.
    heard: Heard,
    /// How many packets are taken for probes, since the sender spoke out of silence, until the receiver does.
    probes: u8,
    /// From what the receiver says to what the sender answers, smoothed; 0: none was seen.
    sender_rtt_us: u32,
    /// The shortest time from what the receiver said to what the sender answered; 0: none was seen.
    least_rtt_us: u32,
    /// The round trip from here to the receiver and back, the wait here included, smoothed (RFC 9002, section 5.3).
    srtt_us: u32,
    /// The packet whose round trip is taken next: how many must leave until it has, and when it came.
    sample_left: u32,
    sample_at: Instant,
    sample_departed: Instant,
    /// From a departure to the answer, smoothed; 0: none was seen.
    receiver_rtt_us: u32,
    /// Time at which a packet was last sent on.
    departed_at: Instant,
    /// Time at which data was last sent on that has not been answered; [`NEVER`] if there is none.
    asked_at: Instant,
    /// Packets sent on since the last answer, one for each [`ANSWER`].
    unanswered: u8,
    /// Size of a full packet: first those of the handshake, which are padded to it (RFC 9000, section 14.1).
    full: u16,
    /// Whether data was seen of that size: what the sender fills its packets to.
    fills: bool,
    /// Size of a packet larger than a full one, if one came since the last full one; else 0.
    larger: u16,
    /// Largest of the packets that are larger than a full one.
    largest: u16,
    /// The state of the sender's data.
    data: Data,
    /// Whether nothing had reached the receiver when it spoke: it probes as well, or has another request.
    unprompted: bool,
    arrived_at: Instant,
    /// The first packet of the last flight of the handshake.
    flight_at: Instant,
    /// Time at which the last of `unanswered` was sent on.
    counted_at: Instant,
    answered_at: Instant,
    /// No mark or drop before.
    next_signal: Instant,
}

/// Instants at which a receiver spoke: the last one, and earlier ones so far apart that one of them is always old
/// enough to have been answered and not much older.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Heard {
    last: Instant,
    earlier: [Instant; 2],
}

impl Default for Heard {
    fn default() -> Self {
        Self { last: NEVER, earlier: [NEVER; 2] }
    }
}

impl Heard {
    fn at(now: Instant) -> Self {
        Self { last: now, earlier: [now, NEVER] }
    }

    fn any(&self) -> bool {
        self.last != NEVER
    }

    /// Notes that the receiver has spoken; of what it says within `apart` one is remembered.
    fn note(&mut self, now: Instant, apart: Duration) {
        if !self.any() {
            *self = Self::at(now);
        } else if now.since(self.earlier[0]) >= apart {
            self.earlier = [now, self.earlier[0]];
        }
        self.last = now;
    }

    /// The newest that is at least so old.
    fn newest(&self, now: Instant, least: Duration) -> Option<Instant> {
        let all = [self.last, self.earlier[0], self.earlier[1]];
        all.into_iter().find(|at| *at != NEVER && now.since(*at) >= least)
    }
}

impl Default for QuicFlow {
    fn default() -> Self {
        Self {
            known: false,
            shown: false,
            returned: false,
            has_keys: false,
            opened: false,
            heard: Heard::at(Instant::ZERO),
            srtt_us: 0,
            sample_left: 0,
            sample_at: NEVER,
            sample_departed: Instant::ZERO,
            receiver_rtt_us: 0,
            departed_at: NEVER,
            asked_at: NEVER,
            probes: 0,
            sender_rtt_us: 0,
            least_rtt_us: 0,
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
    fn new(now: Instant) -> Self {
        Self { arrived_at: now, counted_at: now, answered_at: now, heard: Heard::at(now), ..Self::default() }
    }

    /// Notes an arrival behind `waiting` others; whether it is a probe as far as its time tells.
    fn arrived(&mut self, now: Instant, waiting: u32, len: u16) -> bool {
        if self.sample_at == NEVER {
            (self.sample_at, self.sample_left) = (now, waiting + 1);
        }
        let silence = SILENCE.max(Duration::from_micros(self.srtt_us.into()));
        let out_of_silence = now.since(self.arrived_at) >= silence;
        let heard = self.heard.any();
        let replies = self.replies(now);
        if out_of_silence && self.data == Data::Over {
            if !heard {
                self.probes = u8::MAX;
            } else if waiting > 0 && (self.unprompted || !replies) {
                self.probes = PROBES;
            }
        }
        let ends_burst = self.data == Data::Flows && now.since(self.arrived_at) < SAME_BURST;
        (self.arrived_at, self.heard, self.unprompted) = (now, Heard::default(), false);
        let probe = self.probes > 0;
        if self.probes < u8::MAX {
            self.probes = self.probes.saturating_sub(1);
        }
        let is_data = len > NO_DATA || ends_burst;
        if !probe && (replies || !out_of_silence) && is_data && len <= self.full {
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
    const fn lost_here(&mut self) {
        self.data = Data::Flows;
    }

    /// Whether the sender may speak because the receiver did: something that it said since the last arrival is neither
    /// too new for an answer nor too old.
    fn replies(&mut self, now: Instant) -> bool {
        if self.sender_rtt_us == 0 {
            if !self.heard.any() {
                return false;
            }
            // At the instant at which the record is made nobody has spoken.
            let since = now.since(self.heard.last);
            if since > Duration::ZERO && since < ANSWER {
                (self.sender_rtt_us, self.least_rtt_us) = (micros(since), micros(since));
            }
            return true;
        }
        let known = Duration::from_micros(self.sender_rtt_us.into());
        let most = (known + known / 4 + Duration::from_millis(25)).max(SILENCE);
        let said = self.heard.newest(now, self.least_answer_time());
        let Some(since) = said.map(|at| now.since(at)).filter(|since| *since < most) else { return false };
        smooth(&mut self.sender_rtt_us, since);
        self.least_rtt_us = self.least_rtt_us.min(micros(since));
        true
    }

    /// Time in which no answer of the sender can come.
    fn least_answer_time(&self) -> Duration {
        Duration::from_micros(self.least_rtt_us.into()) * 3 / 4
    }

    /// Whether a packet of data is larger than the sender's packets are: they grow by what probes find, and not before.
    fn is_mtu_probe(&self, len: u16) -> bool {
        self.fills && len > self.full && len != self.larger
    }

    /// Notes the size of a packet of data; whether the larger one before it was a probe.
    fn shows_mtu_probe(&mut self, len: u16) -> bool {
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

    /// Notes a packet of the handshake; whether it repeats a flight, a packet of which `waits`, or has just left and is
    /// not answered, or has arrived.
    fn repeats_flight(&mut self, now: Instant, len: u16, waits: bool) -> bool {
        self.full = self.full.max(len);
        let age = now.since(self.flight_at);
        let again = self.flight_at != NEVER && age >= SILENCE;
        let unanswered = self.answered_at <= self.departed_at && self.is_answer_due(now);
        // A flight that must be sent again although it has arrived passes a second later.
        let known = waits || unanswered || (self.opened && age < ANSWER);
        if self.flight_at == NEVER || (again && !known) {
            self.flight_at = now;
        }
        again && known
    }

    /// The round trip from here to the receiver, its wait for more to acknowledge included.
    fn receiver_rtt(&self) -> Option<Duration> {
        (self.receiver_rtt_us > 0).then(|| Duration::from_micros(self.receiver_rtt_us.into()))
    }

    /// Longest time from a departure to its answer.
    fn answer_time(&self) -> Duration {
        // A quarter more for its jitter, and the delay of an acknowledgment (RFC 9000, section 13.2.1).
        self.receiver_rtt().map_or(UNKNOWN, |rtt| rtt + rtt / 4 + Duration::from_millis(25))
    }

    /// Whether the answer to the last packet sent on may still be on the way.
    fn is_answer_due(&self, now: Instant) -> bool {
        self.departed_at != NEVER && now.since(self.departed_at) < self.answer_time()
    }

    /// Whether the flow lets others go first: it has had no answer in time. As that may have been lost, its turn comes
    /// after [`YIELDED`] rounds, and after twice as many each time that there is no answer again.
    fn yields(&self, now: Instant, round: &dyn Fn() -> Duration) -> bool {
        let again = self.unanswered.clamp(1, UNANSWERED) - 1;
        let asked = || now.since(self.asked_at);
        self.asked_at != NEVER && asked() >= self.answer_time() && asked() < round() * (YIELDED << again)
    }

    /// Notes a departure of `len` bytes, of a `handshake` or after it; whether the receiver has gone.
    fn departed(&mut self, now: Instant, len: Bytes, handshake: bool) -> bool {
        self.departed_at = now;
        if len.get() > u64::from(NO_DATA) {
            self.asked_at = now;
        }
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

    /// Notes that the receiver has sent a packet.
    fn answered(&mut self, now: Instant, packet: Option<QuicPacket>) {
        match packet {
            Some(QuicPacket::Short { .. }) => self.opened = self.has_keys,
            Some(QuicPacket::Initial) => self.opened = false,
            _ => {}
        }
        let prompted = self.departed_at >= self.answered_at || now.since(self.departed_at) < UNKNOWN;
        self.unprompted = !prompted && (self.unprompted || !self.heard.any());
        if self.sample_left == 0 && self.sample_at != NEVER {
            smooth(&mut self.srtt_us, now.since(self.sample_at));
            smooth(&mut self.receiver_rtt_us, now.since(self.sample_departed));
            self.sample_at = NEVER;
        }
        self.heard.note(now, self.least_answer_time());
        (self.answered_at, self.asked_at) = (now, NEVER);
        (self.probes, self.unanswered) = (0, 0);
    }
}

/// In microseconds, at least one.
fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_nanos() / 1000).unwrap_or(u32::MAX).max(1)
}

/// RFC 9002, section 5.3.
fn smooth(smoothed_us: &mut u32, sample: Duration) {
    let sample = micros(sample);
    *smoothed_us = if *smoothed_us == 0 { sample } else { *smoothed_us - *smoothed_us / 8 + sample / 8 };
}

#[cfg(test)]
mod tests;
