//! One direction of TCP: its data, and the acknowledgments of that. Sources: RFC 6298 (timer, samples), RFC 2883
//! (DSACK), RFC 9293 (keep-alives, probes of a closed window).

use narrows_diagnose::Repair;
use narrows_diagnose::judge::judge_repair;
use narrows_diagnose::tolerances::LEAST_STALL;
use narrows_flow::Micros;
use narrows_units::{Duration, SeqNum};
use narrows_wire::{Flags, FlowKey, TcpHeader};

use super::book::Book;
use super::cause::Lost;
use super::record::{Gaps, Half, Half16};

/// What comes later than it should by so little was overtaken.
const OVERTAKEN: Duration = Duration::from_millis(20);
/// A numbering that is so far from the old one is another's.
const FAR: u32 = 1 << 30;

/// Whose direction it is: the connection's key and user, and which of its directions.
pub type Whose<'a> = (&'a FlowKey, u32, usize);

/// When a packet comes, whose direction it concerns, what is missing of that, and where it is noted.
#[derive(Debug)]
pub struct Scene<'a> {
    pub now: Micros,
    pub whose: Whose<'a>,
    pub gaps: &'a mut Gaps,
    pub book: &'a mut Book,
}

impl Half {
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

    /// The other end acknowledges this direction's data.
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
        let (to, now, d) = (tcp.ack, scene.now, scene.whose.2);
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
        self.told = (bytes / u64::from(self.mss).max(1)).min(255) as u8;
    }

    /// A packet of this direction's end.
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
            self.time_sender(now.since(self.waits_since), scene.whose.2, scene.book);
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

    /// To add to what is missing.
    fn gaps_of<'a>(&mut self, scene: &'a mut Scene<'_>) -> &'a mut Gaps {
        self.gaps_in(scene.gaps)
    }

    /// The same.
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
        let (needless, expiries) = (whole && self.is_all_here(), self.expiries);
        let (repair, _) = judge_repair(&self.evidence(now, tcp, hole.is_some())).then;
        let recovers = self.flags.has(Half16::LOSS) || self.flags.has(Half16::RECOVERY);
        if recovers && self.latest == seq {
            self.flags.set(Half16::DOUBLE);
        }
        self.enter(now, repair);
        if needless {
            self.expiries = expiries;
        } else {
            if self.repair.is_none_or(|r| r.rank() < repair.rank()) {
                self.repair = Some(repair);
            }
            self.lost = self.lost.and(place);
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

    /// What follows for the sender's state.
    fn enter(&mut self, now: Micros, repair: Repair) {
        match repair {
            Repair::Timeout => {
                if self.flags.take(Half16::RECOVERY) {
                    self.flags.set(Half16::DOUBLE);
                }
                self.expiries = self.expiries.saturating_add(1);
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

    /// What was seen since the last progress is over with.
    #[inline]
    pub fn settle(&mut self) {
        (self.turn_ms, self.expiries, self.repair, self.lost, self.told) = (0, 0, None, Lost::UNKNOWN, 0);
        self.flags.take(Half16::DOUBLE);
        self.flags.take(Half16::SPURIOUS);
    }

    #[cold]
    fn end_silence(&self, scene: &mut Scene<'_>) {
        if !self.flags.has(Half16::WAITING) {
            return;
        }
        if let Some(stall) = self.stall(scene.now, scene.whose, scene.gaps, true) {
            scene.book.ended(stall);
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
