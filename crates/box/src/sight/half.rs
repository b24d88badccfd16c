//! One direction of a connection: its data, and what the other end says of that. Each half fills the evidence of
//! `narrows diagnose` and asks its tables; what a record of constant size cannot know is `None` there. Sources: RFC
//! 6298 (timer, samples), RFC 2883 (DSACK), RFC 9293 (keep-alives, probes of a closed window).

use narrows_diagnose::Repair;
use narrows_diagnose::evidence::{
    AckEvidence, RepairEvidence, SegmentEvidence, SenderEvidence, SenderState, SilenceEvidence, TimerEvidence,
};
use narrows_diagnose::judge::{DUPTHRESH, judge_repair, judge_silence};
use narrows_diagnose::tolerances::{DELAYED_ACK, FIRST_RTO, LEAST_RTO, LEAST_STALL};
use narrows_flow::{Micros, Ranges};
use narrows_units::{Duration, SeqNum};
use narrows_wire::{Flags, FlowKey, TcpHeader};

use super::bits::bits;
use super::book::{Book, Stall};
use super::cause::{Cause, Lost};

/// Time by which a segment that was overtaken comes late at most.
const OVERTAKEN: Duration = Duration::from_millis(20);
/// Bytes from the known numbers beyond which a number is another connection's.
const FAR: u32 = 1 << 30;

/// Time within which packets that follow each other ask once.
const AT_ONCE: Duration = Duration::from_millis(100);
/// Least time after which a QUIC end that sends again asks for something else; a doubled timer may make it longer.
const ANEW: Duration = Duration::from_secs(1);

/// Owner of a direction.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// Key of the connection.
    pub key: &'a FlowKey,
    /// Place of the user in the book.
    pub user: u32,
    /// Direction of the connection: 0 down, 1 up.
    pub d: usize,
}

/// Circumstances of a packet: its time, the direction it concerns, what is missing of that, and the book it is noted
/// in.
#[derive(Debug)]
pub struct Scene<'a> {
    pub now: Micros,
    pub owner: Owner<'a>,
    pub gaps: &'a mut Gaps,
    pub book: &'a mut Book,
}

bits! {
    /// Facts about one direction.
    Half16 {
        /// Sequence numbers are known.
        SYNCED = 0,
        /// Data is under way, or an answer was asked for.
        WAITING = 1,
        /// A segment was chosen for a round trip and has not left yet.
        SAMPLING = 2,
        /// The segment that was chosen for a round trip has left.
        SAMPLED = 3,
        /// An ACK of new data has passed, and no data since.
        ACKED = 4,
        /// Recovery after a timeout (RFC 6298), until what was sent then is acknowledged.
        LOSS = 5,
        /// Recovery after a fast retransmit (RFC 6582).
        RECOVERY = 6,
        /// A tail-loss probe was sent since the last ACK of new data (RFC 8985).
        PROBED = 7,
        /// The data that is repaired was repaired before.
        DOUBLE = 8,
        /// The receiver had the data that was sent again.
        SPURIOUS = 9,
        /// The receiver's window is closed.
        SHUT = 10,
        /// The sender has finished.
        FIN = 11,
        /// The receiver acknowledges selectively, so the sender is one of today.
        SELECTIVE = 12,
        /// The sender has set PSH at some time.
        PUSHES = 13,
        /// The latest data had PSH.
        PUSHED = 14,
        /// Data has been seen.
        DATA = 15,
    }
}

/// Record of a direction since its last progress; the next progress begins another.
#[derive(Clone, Debug, Default)]
struct Silence {
    /// Time since the latest progress in which its packets, or acknowledgments of them, waited here for their turn,
    /// milliseconds. What its timer has sent again waits for a repair.
    turn_ms: u16,
    /// Expiries of the sender's timer since the last progress, as packets show them: the same bytes, the same SYN, or
    /// of QUIC one more packet to the silent end. One whose packet still waits here is none.
    expiries: u8,
    /// The gravest repair that was sent.
    repair: Option<Repair>,
    lost: Lost,
    /// Segments that the last progress told of beyond a gap.
    told: u8,
}

/// One direction: its data, and what the other end says of that. The first half of a round trip is from the box to the
/// receiver and back, the other from the box to the sender and back. What an ordinary packet needs stands together, in
/// one cache line.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub struct Half {
    /// The start of the latest repair.
    latest: SeqNum,
    /// Number up to which data had been sent when a loss was found.
    recover: SeqNum,
    /// The highest ACK seen, and the end of the highest byte.
    una: SeqNum,
    max: SeqNum,
    /// The latest progress. Of what is not TCP, each packet is one.
    since: Micros,
    /// Since when an answer is waited for: when the retransmission timer was restarted (RFC 6298, section 5), or QUIC
    /// sent the first packet that is unanswered (RFC 9002, section 6.2.1).
    waits_since: Micros,
    /// The latest data.
    sent: Micros,
    sample_end: SeqNum,
    sample_at: Micros,
    /// Smoothed round-trip times to the receiver and to the sender, in microseconds; zero while unknown.
    receiver_us: u32,
    sender_us: u32,
    /// Sequence number up to which the packets of a round trip are counted.
    trip_end: SeqNum,
    flags: Half16,
    /// Window that the receiver offers, unscaled.
    window: u16,
    /// Packets in the box.
    queued: u16,
    trip_packets: u16,
    /// The longest payload.
    mss: u16,
    silence: Silence,
    dupacks: u8,
    /// The back-off, as a shift.
    backoff: u8,
    /// Window scale of the receiver.
    scale: u8,
    /// Whether this direction's [`Gaps`] hold anything.
    gaps: bool,
}

/// Bytes of one direction that are missing. Most have none, so they are kept apart from the record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gaps {
    /// Dropped by the box and not repaired.
    pub dropped: Ranges<(), 2>,
    /// Never seen, with the time at which what lies behind was.
    pub holes: Ranges<Micros, 1>,
}

impl Half {
    /// A direction of which nothing is known.
    pub fn new(now: Micros) -> Self {
        Self { since: now, waits_since: now, sent: now, ..Self::default() }
    }

    /// Makes the record of another connection in the same place: packets in the box remain.
    pub fn restarted(&self, now: Micros) -> Self {
        Self { queued: self.queued, ..Self::new(now) }
    }

    /// Notes that a packet of this direction has begun to wait in the box.
    pub fn enters(&mut self) {
        self.queued = self.queued.saturating_add(1);
    }

    /// Notes that a packet of this direction has left the box or was dropped.
    pub fn leaves(&mut self) {
        self.queued = self.queued.saturating_sub(1);
    }

    /// Whether any packet of this direction waits in the box.
    pub const fn is_queued(&self) -> bool {
        self.queued > 0
    }

    /// Whether something is under way, or was asked for.
    pub const fn is_waiting(&self) -> bool {
        self.flags.has(Half16::WAITING)
    }

    /// Whether the receiver's window is closed.
    pub const fn is_shut(&self) -> bool {
        self.flags.has(Half16::SHUT)
    }

    /// Whether this direction's sequence numbers are known.
    pub const fn is_numbered(&self) -> bool {
        self.flags.has(Half16::SYNCED)
    }

    /// Whether the sender of this direction has sent FIN and all data is acknowledged.
    pub fn is_finished(&self) -> bool {
        self.flags.has(Half16::FIN) && self.una == self.max
    }

    /// Whether nothing after the SYN has been acknowledged, and data begin at `start`.
    pub fn begins_at(&self, start: SeqNum) -> bool {
        self.una == start
    }

    /// Time of the latest progress.
    pub const fn since(&self) -> Micros {
        self.since
    }

    /// Expiries of the sender's timer since the latest progress.
    pub const fn expiries(&self) -> u8 {
        self.silence.expiries
    }

    /// Places where packets of the present silence were lost.
    pub const fn lost(&self) -> Lost {
        self.silence.lost
    }

    /// Time for which this direction's packets waited for their turn in the present silence, in milliseconds.
    pub const fn turn_ms(&self) -> u16 {
        self.silence.turn_ms
    }

    /// Length of its silence: of TCP since the latest progress, else since the first packet without an answer.
    pub fn silent_for(&self, now: Micros, tcp: bool) -> Duration {
        now.since(if tcp { self.since } else { self.waits_since })
    }

    /// Counts an expiry of the sender's timer, unless the first copy still waits in the box.
    pub fn asks_again(&mut self) {
        self.silence.expiries = self.silence.expiries.saturating_add(u8::from(self.queued == 0));
    }

    /// The round trip of what it sent last and once, without the wait in the box.
    pub fn answered_after(&self, now: Micros) -> Option<Duration> {
        (self.silence.expiries == 0).then(|| now.since(self.since).saturating_sub(self.turn()))
    }

    /// Sets the round trip from the box to the receiver.
    pub fn receiver_is_at(&mut self, trip: Duration) {
        self.receiver_us = Self::smooth(0, trip);
    }

    /// Sets the round trip from the box to the sender.
    pub fn sender_is_at(&mut self, trip: Duration) {
        self.sender_us = Self::smooth(0, trip);
    }

    /// Sets the receiver's window scale, of which RFC 7323, section 2.3, allows 14.
    pub fn scale_is(&mut self, scale: u8) {
        self.scale = scale.min(14);
    }

    /// Begins at a SYN that numbers the data from `start`; `selective` says that it permits selective acknowledgments.
    pub fn begin_with_syn(&mut self, now: Micros, start: SeqNum, selective: bool) {
        self.begin(now, start);
        self.flags.put(Half16::SELECTIVE, selective);
    }

    /// Begins a silence in which nothing has been seen.
    pub fn begin_silence(&mut self, now: Micros) {
        self.since = now;
        self.settle();
    }

    /// Notes that nobody waits for anything more.
    pub fn gives_up(&mut self) {
        self.flags.take(Half16::WAITING);
    }

    /// Whether it is silent, and what `other` sent last is acknowledged and was no answer to this.
    pub fn owes(&self, other: &Self) -> bool {
        self.una == self.max
            && !self.flags.has(Half16::FIN)
            && other.flags.has(Half16::DATA)
            && other.una == other.max
            && (!self.flags.has(Half16::DATA) || other.sent.since(self.sent) < self.sent.since(other.sent))
    }

    /// Time for which it has owed `other` an answer, less the time that its own way to the box takes.
    pub fn owes_for(&self, other: &Self, now: Micros) -> Duration {
        let later = other.since.since(self.since) < self.since.since(other.since);
        let begun = if later { other.since } else { self.since };
        now.since(begun).saturating_sub(Duration::from_micros(self.sender_us.into()))
    }

    /// Notes a datagram of this direction as a question of QUIC, or as the repetition of one.
    pub fn asks(&mut self, now: Micros) {
        self.since = now;
        if !self.flags.has(Half16::WAITING) || now.since(self.sent) > self.keeps_asking() {
            self.flags.set(Half16::WAITING);
            (self.waits_since, self.sent, self.silence.expiries, self.silence.turn_ms) = (now, now, 0, 0);
        } else if now.since(self.sent) > AT_ONCE.max(self.srtt() / 2) {
            self.sent = now;
            self.asks_again();
        }
    }

    /// Takes a QUIC packet of the other end as an answer. Gives the round trip, if it asked once.
    pub fn hears(&mut self, now: Micros) -> Option<Duration> {
        let trip = (self.flags.take(Half16::WAITING) && self.silence.expiries == 0)
            .then(|| now.since(self.waits_since));
        if let Some(trip) = trip {
            self.receiver_us = Self::smooth(self.receiver_us, trip);
        }
        (self.silence.turn_ms, self.silence.lost) = (0, Lost::UNKNOWN);
        trip
    }

    /// Time for which a QUIC end has asked in vain, if that is a stall and it asks still.
    pub fn starves_for(&self, now: Micros) -> Option<Duration> {
        let asks = self.is_waiting() && self.silence.expiries > 0;
        let length = now.since(self.waits_since).saturating_sub(self.turn());
        (asks && length > self.patience(false) && now.since(self.sent) <= self.keeps_asking())
            .then_some(length)
    }

    /// Time after its latest packet within which it may ask again for the same.
    fn keeps_asking(&self) -> Duration {
        ANEW.max(self.sent.since(self.waits_since) * 2 + self.srtt() * 4)
    }

    /// Notes that the box has dropped a datagram of this direction.
    pub fn lose_here(&mut self) {
        self.silence.lost = self.silence.lost.and(Lost::HERE);
    }

    /// Notes that the box has dropped a segment of this direction.
    pub fn lose(&mut self, tcp: &TcpHeader, gaps: &mut Gaps) {
        if tcp.seq_len() > 0 && self.una.before(tcp.seq_end()) {
            self.gaps_in(gaps).dropped.add(tcp.seq, tcp.seq_end(), ());
        }
    }

    /// Whether this direction has data under way, or has had progress within `lately`.
    pub fn moves(&self, now: Micros, lately: Duration) -> bool {
        self.is_waiting() || now.since(self.since) < lately
    }

    /// Adds both halves of the round trip.
    pub const fn srtt(&self) -> Duration {
        Duration::from_micros(self.receiver_us as u64 + self.sender_us as u64)
    }

    /// Silence from which on it stalls: a second, which a sender waits before it knows its round trip, and three
    /// rounds. If a repair is awaited, 200 ms and two round trips, as in a capture.
    pub fn patience(&self, repair_awaited: bool) -> Duration {
        if repair_awaited { LEAST_STALL.max(self.srtt() * 2) } else { FIRST_RTO.max(self.srtt() * 3) }
    }

    /// Whether its timer has expired and nothing has ended the silence since.
    pub fn has_expired(&self) -> bool {
        self.silence.expiries > 0 || self.silence.repair == Some(Repair::Probe)
    }

    /// Notes that one of its packets, or an acknowledgment of some, leaves the box after a wait; the silence has
    /// lasted for `silent`.
    pub fn turn_ends(&mut self, waited: Duration, silent: Duration) {
        if !self.has_expired() {
            self.silence.turn_ms =
                (self.turn() + waited).min(silent).as_millis().min(u64::from(u16::MAX)) as u16;
        }
    }

    /// Time for which this direction's packets waited for their turn in the present silence.
    pub fn turn(&self) -> Duration {
        Duration::from_millis(self.silence.turn_ms.into())
    }

    /// Whether all that is under way is in the box still.
    pub fn is_all_here(&self) -> bool {
        u16::from(self.under_way()) <= self.queued
    }

    /// The length of the present silence, if that is a stall. A turn that is awaited here, or was, is none.
    /// `unrepaired`: something was dropped here and not sent again.
    pub fn stalled(&self, now: Micros, unrepaired: bool) -> Option<Duration> {
        let awaited = unrepaired || self.has_expired();
        if self.queued > 0 && !awaited {
            return None;
        }
        let length = now.since(self.since).saturating_sub(self.turn());
        (length > self.patience(awaited)).then_some(length)
    }

    /// Moves a smoothed time by a sample; RFC 6298 with weight 1/8.
    pub fn smooth(old: u32, sample: Duration) -> u32 {
        let us = (sample.as_nanos() / 1000).clamp(1, u64::from(u32::MAX)) as u32;
        if old == 0 { us } else { (old - (old >> 3)).saturating_add(us >> 3) }
    }

    /// Segments under way. Whatever changes their number is progress, so they were as many since the last.
    pub fn under_way(&self) -> u8 {
        let bytes = self.max - self.una;
        bytes.div_ceil(u32::from(self.mss).max(1)).min(255) as u8
    }

    pub fn begin(&mut self, now: Micros, start: SeqNum) {
        let Self { queued, receiver_us, sender_us, scale, .. } = *self;
        let mut flags = Half16::SYNCED;
        flags.put(Half16::SELECTIVE, self.flags.has(Half16::SELECTIVE));
        *self = Self {
            una: start,
            max: start,
            trip_end: start,
            recover: start,
            latest: start,
            since: now,
            waits_since: now,
            sent: now,
            queued,
            receiver_us,
            sender_us,
            scale,
            flags,
            ..Self::default()
        };
    }

    /// A segment goes on its way: the round trip of the one that was chosen begins.
    pub fn sample_left(&mut self, now: Micros, tcp: &TcpHeader) {
        if self.flags.has(Half16::SAMPLING) && tcp.payload > 0 && tcp.seq_end() == self.sample_end {
            self.flags.take(Half16::SAMPLING);
            self.flags.set(Half16::SAMPLED);
            self.sample_at = now;
        }
    }

    /// Takes an acknowledgment of this direction's data by the other end.
    #[inline]
    pub fn ack(&mut self, tcp: &TcpHeader, scene: &mut Scene<'_>) {
        let known = self.flags.has(Half16::SYNCED) && !self.flags.has(Half16::SHUT);
        if known && tcp.ack == self.una && tcp.payload > 0 && tcp.window == self.window && tcp.window > 0 {
            // Data, and no word of the other direction.
            return;
        }
        self.ack_with_news(tcp, scene);
    }

    fn ack_with_news(&mut self, tcp: &TcpHeader, scene: &mut Scene<'_>) {
        let shut = tcp.window == 0 && !tcp.flags.has(Flags::SYN);
        let update = self.window != tcp.window;
        self.window = tcp.window;
        if tcp.flags.has(Flags::SYN) {
            return;
        }
        if !self.flags.has(Half16::SYNCED) {
            self.begin(scene.now, tcp.ack);
        }
        if self.una.before(tcp.ack) {
            self.advance(tcp, scene);
        } else if tcp.ack == self.una && tcp.payload == 0 && !tcp.flags.has(Flags::FIN) {
            let news = !tcp.sack.as_slice().is_empty();
            self.check_dsack(tcp);
            if self.una != self.max && (!update || news) {
                self.dupacks = self.dupacks.saturating_add(1);
                self.progress(scene);
            } else if update && self.flags.has(Half16::SHUT) && !shut {
                self.flags.put(Half16::WAITING, true);
                self.progress(scene);
                self.flags.put(Half16::WAITING, self.una != self.max);
            }
        }
        self.flags.put(Half16::SHUT, shut);
    }

    fn check_dsack(&mut self, tcp: &TcpHeader) {
        let Some(&(left, right)) = tcp.sack.as_slice().first() else { return };
        self.flags.set(Half16::SELECTIVE);
        if right.at_or_before(tcp.ack) && left.at_or_before(self.latest) && self.latest.before(right) {
            self.flags.set(Half16::SPURIOUS);
        }
    }

    /// An ACK of new data.
    fn advance(&mut self, tcp: &TcpHeader, scene: &mut Scene<'_>) {
        let (to, now, d) = (tcp.ack, scene.now, scene.owner.d);
        let unseen = self.max.before(to);
        if unseen && to - self.max > FAR {
            self.begin(now, to);
            return;
        }
        self.check_dsack(tcp);
        self.progress(scene);
        if self.flags.has(Half16::SAMPLED) && self.sample_end.at_or_before(to) {
            self.flags.take(Half16::SAMPLED);
            let half = now.since(self.sample_at);
            self.receiver_us = Self::smooth(self.receiver_us, half);
            scene.book.round_trip(1 - d, half);
            self.backoff = 0;
        }
        scene.book.goodput(d, to - self.una);
        self.una = to;
        if unseen {
            self.max = to;
        }
        if self.gaps {
            self.gaps = scene.gaps.remove_below(to);
        }
        if self.trip_end.at_or_before(to) {
            if self.trip_packets > 0 {
                scene.book.packets_of_trip(self.trip_packets);
            }
            (self.trip_end, self.trip_packets) = (self.max, 0);
        }
        (self.dupacks, self.waits_since) = (0, now);
        self.flags.take(Half16::PROBED);
        self.flags.set(Half16::ACKED);
        if self.recover.at_or_before(to) {
            self.flags.take(Half16::LOSS);
            self.flags.take(Half16::RECOVERY);
        }
        self.flags.put(Half16::WAITING, self.una != self.max);
        if !tcp.sack.as_slice().is_empty() {
            self.told_beyond(tcp);
        }
    }

    /// Segments that SACK blocks name beyond the cumulative ACK.
    #[cold]
    fn told_beyond(&mut self, tcp: &TcpHeader) {
        let beyond = tcp.sack.as_slice().iter().filter(|(_, right)| tcp.ack.before(*right));
        let bytes: u64 = beyond.map(|(left, right)| u64::from(*right - *left)).sum();
        self.silence.told = (bytes / u64::from(self.mss).max(1)).min(255) as u8;
    }

    /// Takes a packet that the sender of this direction has sent.
    #[inline]
    pub fn data(&mut self, tcp: &TcpHeader, scene: &mut Scene<'_>) {
        if !self.flags.has(Half16::SYNCED) {
            self.begin(scene.now, tcp.seq);
        }
        if tcp.seq_len() == 0 || self.is_probe_or_keep_alive(tcp) {
            return;
        }
        let end = tcp.seq_end();
        if end.distance_from(self.max).unsigned_abs() > FAR {
            self.begin(scene.now, tcp.seq);
        }
        if end.at_or_before(self.max) {
            self.again(tcp, scene);
        } else {
            self.new_data(tcp, scene);
        }
    }

    fn new_data(&mut self, tcp: &TcpHeader, scene: &mut Scene<'_>) {
        let (seq, end, now) = (tcp.seq, tcp.seq_end(), scene.now);
        let idle = self.una == self.max;
        self.progress(scene);
        if self.max.before(seq) {
            self.gaps_of(scene).holes.add(self.max, seq, now);
        }
        if self.flags.take(Half16::ACKED) {
            self.time_sender(now.since(self.waits_since), scene.owner.d, scene.book);
        }
        if idle {
            self.waits_since = now;
        }
        if !self.flags.has(Half16::SAMPLING) && !self.flags.has(Half16::SAMPLED) {
            self.flags.set(Half16::SAMPLING);
            self.sample_end = end;
        }
        (self.max, self.sent) = (end, now);
        self.flags.set(Half16::WAITING);
        self.flags.set(Half16::DATA);
        let pushed = tcp.flags.has(Flags::PSH);
        self.flags.put(Half16::PUSHED, pushed);
        if pushed {
            self.flags.set(Half16::PUSHES);
        }
        if tcp.flags.has(Flags::FIN) {
            self.flags.set(Half16::FIN);
        }
        self.mss = self.mss.max(tcp.payload.min(u32::from(u16::MAX)) as u16);
        self.trip_packets = self.trip_packets.saturating_add(1);
    }

    /// Returns the scene's gaps for new entries, cleared if this direction has none so far.
    fn gaps_of<'a>(&mut self, scene: &'a mut Scene<'_>) -> &'a mut Gaps {
        self.gaps_in(scene.gaps)
    }

    /// Returns `gaps` for new entries, cleared if this direction has none so far.
    pub fn gaps_in<'a>(&mut self, gaps: &'a mut Gaps) -> &'a mut Gaps {
        if !self.gaps {
            (self.gaps, *gaps) = (true, Gaps::default());
        }
        gaps
    }

    /// An ACK until what it lets go. The sender may also have had nothing to say, so what is far beyond the usual does
    /// not count.
    fn time_sender(&mut self, half: Duration, d: usize, book: &mut Book) {
        let usual = Duration::from_micros(self.sender_us.into());
        if self.sender_us == 0 || half <= usual * 2 + Duration::from_millis(50) {
            self.sender_us = Self::smooth(self.sender_us, half);
            book.round_trip(d, half);
        }
    }

    /// RFC 9293, section 3.8.4: a keep-alive has at most one byte, just below the next to be sent; section 3.8.6.1: a
    /// probe of a closed window has one byte at its edge, or none.
    fn is_probe_or_keep_alive(&self, tcp: &TcpHeader) -> bool {
        tcp.payload <= 1
            && !tcp.flags.has(Flags::FIN)
            && ((tcp.seq + 1 == self.max && self.una == self.max)
                || (tcp.seq.at_or_before(self.max) && self.flags.has(Half16::SHUT)))
    }

    /// Bytes pass that passed, or were passed over, before.
    #[cold]
    fn again(&mut self, tcp: &TcpHeader, scene: &mut Scene<'_>) {
        let (seq, end, now) = (tcp.seq, tcp.seq_end(), scene.now);
        let gaps = self.gaps_of(scene);
        let hole = gaps.holes.hit(seq, end).map(|r| r.tag);
        let dropped = gaps.dropped.hit(seq, end).is_some();
        if hole.is_some_and(|since| now.since(since) < OVERTAKEN) {
            gaps.holes.remove(seq, end);
            self.progress(scene);
            return;
        }
        let place = match () {
            () if end.at_or_before(self.una) => Lost::UNKNOWN,
            () if dropped => Lost::HERE,
            () if hole.is_some() => Lost::BEFORE,
            () => Lost::BEHIND,
        };
        if end.at_or_before(self.una) {
            self.flags.set(Half16::SPURIOUS);
        }
        let whole = !dropped && hole.is_none();
        let (needless, expiries) = (whole && self.is_all_here(), self.silence.expiries);
        let (repair, _) = judge_repair(&self.evidence(now, tcp, hole.is_some())).then;
        let recovers = self.flags.has(Half16::LOSS) || self.flags.has(Half16::RECOVERY);
        if recovers && self.latest == seq {
            self.flags.set(Half16::DOUBLE);
        }
        self.enter(now, repair);
        if needless {
            self.silence.expiries = expiries;
        } else {
            if self.silence.repair.is_none_or(|r| r.rank() < repair.rank()) {
                self.silence.repair = Some(repair);
            }
            self.silence.lost = self.silence.lost.and(place);
        }
        scene.book.repaired(repair);
        self.latest = seq;
        self.flags.take(Half16::ACKED);
        // RFC 6298, section 3: which copy is acknowledged cannot be told (Karn).
        if self.sample_end.distance_from(seq) > 0 {
            self.flags.take(Half16::SAMPLED);
            self.flags.take(Half16::SAMPLING);
        }
        scene.gaps.dropped.remove(seq, end);
        if hole.is_some() {
            scene.gaps.holes.remove(seq, end);
            // Its first appearance here.
            self.progress(scene);
        }
    }

    /// Changes the sender's state after the repair that the sender chose for a loss.
    fn enter(&mut self, now: Micros, repair: Repair) {
        match repair {
            Repair::Timeout => {
                if self.flags.take(Half16::RECOVERY) {
                    self.flags.set(Half16::DOUBLE);
                }
                self.silence.expiries = self.silence.expiries.saturating_add(1);
                self.backoff = (self.backoff + 1).min(15);
                self.flags.set(Half16::LOSS);
                (self.recover, self.waits_since) = (self.max, now);
            }
            Repair::FastRetransmit => {
                self.flags.set(Half16::RECOVERY);
                (self.recover, self.waits_since) = (self.max, now);
            }
            Repair::Probe => {
                self.flags.set(Half16::PROBED);
                self.waits_since = now;
            }
            _ => {}
        }
    }

    /// New data, or an acknowledgment of some, passes: a silence is over.
    #[inline]
    pub fn progress(&mut self, scene: &mut Scene<'_>) {
        if scene.now.since(self.since) > LEAST_STALL {
            self.end_silence(scene);
        }
        self.since = scene.now;
        self.settle();
    }

    /// Forgets what was seen since the last progress.
    #[inline]
    pub fn settle(&mut self) {
        self.silence = Silence::default();
        self.flags.take(Half16::DOUBLE);
        self.flags.take(Half16::SPURIOUS);
    }

    #[cold]
    fn end_silence(&self, scene: &mut Scene<'_>) {
        if !self.flags.has(Half16::WAITING) {
            return;
        }
        if let Some(stall) = self.stall(scene.now, scene.owner, scene.gaps, true) {
            scene.book.ended(stall);
        }
    }

    fn rto(&self) -> Duration {
        let srtt = self.srtt();
        if srtt == Duration::ZERO { FIRST_RTO } else { srtt + (srtt / 2).max(LEAST_RTO) }
    }

    /// Evidence about what is sent again now, as far as a record of constant size has it. `hole`: the original never
    /// passed here.
    pub fn evidence(&self, now: Micros, tcp: &TcpHeader, hole: bool) -> RepairEvidence {
        let state = match () {
            () if self.flags.has(Half16::LOSS) => SenderState::Loss,
            () if self.flags.has(Half16::RECOVERY) => SenderState::Recovery,
            () => SenderState::Open,
        };
        let (waited, silent, srtt) = (now.since(self.waits_since), now.since(self.since), self.srtt());
        let react = Duration::from_micros(self.sender_us.into());
        let duplicates = u32::from(self.dupacks);
        RepairEvidence {
            state,
            segment: SegmentEvidence {
                first: tcp.seq.at_or_before(self.una),
                last: tcp.seq_end() == self.max,
                hole,
                ..SegmentEvidence::default()
            },
            timer: TimerEvidence {
                waited,
                rto: self.rto(),
                pto: Some((srtt * 2 + DELAYED_ACK).min(self.rto())),
                factor: 1 << self.backoff,
                // Without progress since, the timer was restarted by the timeout itself.
                since_timeout: (state == SenderState::Loss && self.silence.expiries > 0).then_some(waited),
                srtt: (srtt > Duration::ZERO).then_some(srtt),
                probed: self.flags.has(Half16::PROBED),
                ..TimerEvidence::default()
            },
            acks: AckEvidence {
                duplicates,
                // The latest progress was the latest duplicate, or limited transmit that followed it (RFC 3042).
                told: (duplicates >= DUPTHRESH).then_some(silent),
                reacted: Some(silent),
                react,
                ..AckEvidence::default()
            },
            sender: SenderEvidence {
                selective: self.flags.has(Half16::SELECTIVE),
                ..SenderEvidence::default()
            },
            clock: None,
        }
    }

    /// Describes the silence since the last progress, if the silence is a stall.
    pub fn stall(&self, now: Micros, owner: Owner<'_>, gaps: &Gaps, ended: bool) -> Option<Stall> {
        let unrepaired = self.gaps && !gaps.dropped.is_empty();
        let length = self.stalled(now, unrepaired)?;
        let told = judge_silence(&self.silence_evidence(unrepaired));
        let cause = Cause::Told(told.cause);
        // Only the box's own drops are known while nothing is repaired.
        let here = if unrepaired { Lost::HERE } else { Lost::UNKNOWN };
        let lost = if self.silence.lost == Lost::UNKNOWN { here } else { self.silence.lost };
        Some(Stall {
            key: *owner.key,
            user: owner.user,
            by: owner.d,
            length,
            cause,
            lost: if cause.is_loss() { lost } else { Lost::UNKNOWN },
            certainty: told.certainty,
            repair: self.silence.repair,
            timeouts: self.silence.expiries,
            backoff: self.backoff,
            outstanding: self.under_way(),
            turn_ms: self.silence.turn_ms,
            ended,
        })
    }

    /// Evidence about the silence since the last progress.
    fn silence_evidence(&self, unrepaired: bool) -> SilenceEvidence {
        let pushed = self.flags.has(Half16::PUSHES) && self.flags.has(Half16::PUSHED);
        SilenceEvidence {
            only_fin: self.flags.has(Half16::FIN) && self.una + 1 == self.max,
            closed: self.flags.has(Half16::SHUT),
            repair: self.silence.repair.filter(|r| *r != Repair::Unknown),
            timeouts: self.silence.expiries.into(),
            spurious: self.flags.has(Half16::SPURIOUS),
            double: self.flags.has(Half16::DOUBLE),
            dropped: Some(unrepaired),
            told: self.silence.told.into(),
            said_all: self.flags.has(Half16::FIN) || pushed,
            outstanding: self.under_way().into(),
            window: Some(u32::from(self.window) << self.scale),
            mss: self.mss.into(),
            live: true,
            ..SilenceEvidence::default()
        }
    }
}

impl Gaps {
    /// All before `edge` has arrived. Says whether anything is missing still.
    #[cold]
    fn remove_below(&mut self, edge: SeqNum) -> bool {
        self.dropped.remove_below(edge);
        self.holes.remove_below(edge);
        !self.dropped.is_empty() || !self.holes.is_empty()
    }
}
