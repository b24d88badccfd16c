//! A connection: both its ends as senders, its handshake, and the silences in which nothing is under way.

use narrows_units::{Duration, Instant};
use narrows_wire::{Flags, FlowKey, TcpHeader};

use crate::evidence::{HandshakeEvidence, OfferedWindow, QuietEvidence};
use crate::findings::{Cause, Certainty, Event, Place, Repair, Stall};
use crate::judge::{QuietRow, judge_handshake, judge_quiet};
use crate::passing::{self, Numbering, Passage};
use crate::seen::Seen;
use crate::sender::Sender;
use crate::timing::Around;
use crate::tolerances::OPEN_ANSWER;
use crate::why::{Asked, Why};

/// The handshake of a connection, as seen in the capture.
#[derive(Clone, Copy, Debug, Default)]
struct Handshake {
    /// The first SYN and the first SYN-ACK: when, and in which frame.
    syn: Option<(Instant, u64)>,
    syn_ack: Option<(Instant, u64)>,
    /// How often each was seen again.
    syns_again: u32,
    syn_acks_again: u32,
    /// The frame of the latest SYN or SYN-ACK.
    latest: u64,
    /// Time and timestamp of the latest SYN, and of the latest SYN-ACK.
    last: [(Instant, u32); 2],
    /// Timestamps of the first SYNs.
    stamps: [Option<u32>; 8],
    /// The SYN that the first SYN-ACK echoes, from 1.
    echoes: Option<u32>,
    /// Wait of others before here, when the first SYN-ACK passed.
    queue: Option<Duration>,
    over: bool,
}

impl Handshake {
    /// How long ago the SYN, or the SYN-ACK, passed that this answers, if there was one alone (Karn's rule) or the
    /// timestamp tells.
    fn age(&self, of: usize, p: &Seen<'_>) -> Option<Duration> {
        let (at, tsval) = self.last[of];
        let alone = [self.syns_again, self.syn_acks_again][of] == 0;
        let known = alone || p.tcp.timestamps.is_some_and(|(_, tsecr)| tsecr == tsval);
        known.then(|| p.at.since(at))
    }
}

/// A silence in which nothing was under way, and the verdict on the silence.
struct Quiet {
    stall: Stall,
    evidence: QuietEvidence,
    row: &'static QuietRow,
}

/// Connection with its ends as senders, its handshake, and the silences in which nothing is under way.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// Number of the connection, counted from 0 by the connections' first packets.
    pub(crate) number: u64,
    /// Place of the next connection of the same bucket.
    pub(crate) chain: u32,
    /// Addresses and ports, from the end that opened the connection, as far as is known.
    pub(crate) key: FlowKey,
    /// Whether the SYN was seen.
    pub(crate) opened: bool,
    pub(crate) senders: [Sender; 2],
    pub(crate) first: Instant,
    pub(crate) last: Instant,
    pub(crate) last_frame: u64,
    pub(crate) packets: u64,
    /// Whether any packet of each end was seen.
    pub(crate) seen: [bool; 2],
    /// Time at which the connection was over: both ends have finished, or one has reset it.
    pub(crate) closed: Option<Instant>,
    pub(crate) reset: bool,
    handshake: Handshake,
    /// Places of each end's latest packets among all that pass.
    pub(crate) passed: [Option<passing::Place>; 2],
    /// Identifications of each end's packets.
    numbering: [Numbering; 2],
}

impl Connection {
    /// A connection of which this is the first packet. If it is not a SYN, the end with the lower port is taken for the
    /// one that was called. `asked` is the frame that [`Why`](crate::Why) is asked about.
    pub(crate) fn new(number: u64, key: FlowKey, now: Instant, tcp: &TcpHeader, asked: Option<u64>) -> Self {
        let syn = tcp.flags.has(Flags::SYN);
        let answer = tcp.flags.has(Flags::ACK);
        let from_opener = if syn { !answer } else { key.sport >= key.dport };
        Self {
            number,
            chain: narrows_lists::NIL,
            key: if from_opener { key } else { key.reverse() },
            opened: syn,
            senders: [0, 1].map(|by| Sender::new(by, Asked::about(asked))),
            first: now,
            last: now,
            last_frame: 0,
            packets: 0,
            seen: [false; 2],
            closed: None,
            reset: false,
            handshake: Handshake { over: !syn, ..Handshake::default() },
            passed: [None; 2],
            numbering: Default::default(),
        }
    }

    /// A SYN with other numbers on an old connection opens a new one.
    pub(crate) fn is_reused_by(&self, key: &FlowKey, tcp: &TcpHeader) -> bool {
        let sender = &self.senders[usize::from(*key != self.key)];
        let bare = tcp.flags.has(Flags::SYN) && !tcp.flags.has(Flags::ACK);
        let other = sender.numbering().is_some_and(|start| start != tcp.seq + 1);
        bare && other && (self.closed.is_some() || self.handshake.over)
    }

    /// Takes a packet of the connection, from the end that opened it (0) or the other. `around` tells what other
    /// connections show of such an end. Gives what the packet shows to other connections.
    pub(crate) fn packet(&mut self, from: usize, p: &Seen<'_>, around: Around) -> Passage {
        let step = self.numbering[from].passes(p.ident);
        let unseen = self.senders[1 - from].findings().counts.unseen;
        self.take(from, p, around);
        let [own, other] = [&self.senders[from], &self.senders[1 - from]];
        let stamps = p.tcp.timestamps;
        Passage {
            before: self.passed[from],
            step,
            unseen: other.findings().counts.unseen - unseen,
            waited: stamps.and_then(|(tsval, _)| own.timing().clock_waited(p.at, tsval)),
            behind: p.tcp.flags.has(Flags::ACK).then(|| other.timing().trips().receiver_excess()).flatten(),
        }
    }

    fn take(&mut self, from: usize, p: &Seen<'_>, around: Around) {
        self.packets += 1;
        self.seen[from] = true;
        (self.last, self.last_frame) = (self.last.max(p.at), p.frame);
        if p.tcp.flags.has(Flags::RST) {
            self.finish(p.at, p.frame);
            (self.closed, self.reset) = (self.closed.or(Some(p.at)), true);
            return;
        }
        if self.closed.is_some() && p.tcp.payload == 0 {
            return;
        }
        if p.tcp.flags.has(Flags::SYN) {
            self.syn(from, p);
        }
        if p.tcp.flags.has(Flags::ACK) {
            let waits = !self.senders[1 - from].is_quiet();
            self.senders[1 - from].ack(p);
            if waits && self.senders[1 - from].is_quiet() && p.tcp.payload == 0 {
                // The question is acknowledged: packets that this end sends from here on are no acknowledgment of it.
                self.numbering[from].forget_missing();
            }
            if p.tcp.timestamps.is_none() {
                self.answered(from);
            }
        }
        if !p.tcp.flags.has(Flags::SYN) {
            self.third(from, p);
            self.senders[from].look_around(around);
            self.data(from, p);
        }
        if self.senders.iter().all(Sender::is_done) {
            self.closed = self.closed.or(Some(p.at));
        }
    }

    /// How long an end took to acknowledge what came to it is its half of the round trip as a sender too.
    /// Timestamps, where there are any, tell more.
    fn answered(&mut self, from: usize) {
        let half = self.senders[1 - from].take_answered();
        let sender = &mut self.senders[from];
        if let Some(half) = half {
            sender.timing_mut().acknowledges(half);
        }
    }

    fn data(&mut self, from: usize, p: &Seen<'_>) {
        let asked = self.senders[1 - from].last_data();
        let silent = self.silence(from, p, asked);
        let sender = &mut self.senders[from];
        let (data, timeouts) = (sender.findings().counts.data, sender.findings().counts.timeouts);
        sender.data(p, asked);
        let fresh = sender.findings().counts.data > data;
        let new = fresh && sender.findings().counts.timeouts == timeouts;
        // The sender may have told of that silence already.
        let told = sender.findings().stalls.last().is_some_and(|s| s.to == p.at);
        if let Some(Quiet { stall, evidence, row }) = silent.filter(|_| new && !told) {
            let (at, by) = (stall.to, stall.by);
            sender.keep_asked(stall, || Why::quiet(at, by, &evidence, row));
        }
        if fresh {
            self.numbering[from].forget_missing();
        }
    }

    /// The silence that ends if this is new data, with its verdict: this end has let the other wait, for an answer or
    /// in the middle of one, or packets between them have.
    fn silence(&self, from: usize, p: &Seen<'_>, asked: Option<Instant>) -> Option<Quiet> {
        let s = &self.senders[from];
        if !s.is_quiet() || p.tcp.payload == 0 || (s.last_data().is_none() && asked.is_none()) {
            return None;
        }
        let answer = asked.is_some_and(|asked| s.last_data().is_none_or(|last| last < asked));
        let other = &self.senders[1 - from];
        let (own, others) = (s.since(), other.since());
        let (from_then, frame) = if answer && others.0 > own.0 { others } else { own };
        let half = s.timing().trips().sender_half();
        let (window, begun) = match s.shut() {
            Some((shut, None)) => (OfferedWindow::Closed, shut),
            Some((shut, Some(open))) if p.at.since(open) <= half * 2 + OPEN_ANSWER => {
                (OfferedWindow::JustOpened, shut)
            }
            _ => (OfferedWindow::Open, from_then),
        };
        let least = s.timing().trips().sender_least().unwrap_or_default();
        let length = p.at.since(begun).saturating_sub(least);
        if length <= s.patience() {
            return None;
        }
        let sent = p.tcp.timestamps.and_then(|(tsval, _)| s.timing().clock_sent_about(p.at, tsval));
        let sent_after = sent.map(|sent| sent.since(begun).saturating_sub(least));
        let numbered = self.numbering[from].has() && p.passing.are_numbered(from) && p.passing.is_whole();
        // Bytes in the hole may have been sent just before this packet.
        let hole = s.last_data().is_some() && s.highest().before(p.tcp.seq);
        let in_hole = if hole { (p.tcp.seq - s.highest()).div_ceil(s.mss().max(1)) } else { 0 };
        let evidence = QuietEvidence {
            opener: from == 0,
            answer,
            asked_came: answer && other.is_quiet(),
            window,
            at_sender: s.timing().at_sender() && !p.passing.is_behind_queue(from),
            length,
            patience: s.patience(),
            missing: numbered.then(|| self.numbering[from].missing().saturating_sub(in_hole)),
            hole,
            sent_after,
            due: sent_after.is_some_and(|after| s.timing().is_due(after)),
            clear_before: p.passing.is_clear_before(from),
            more: !answer && s.has_more(),
            losses: s.timing().losses(),
            others: p.others(s.by(), begun),
        };
        let row = judge_quiet(&evidence);
        let (cause, certainty) = row.then;
        let stall = Stall {
            from: begun,
            to: p.at,
            by: s.by(),
            cause,
            repair: None,
            timeouts: 0,
            backoff: s.timing().factor().max(1),
            outstanding: 0,
            lost: if cause == Cause::AnswerLost { Place::Before } else { Place::Unknown },
            certainty,
            frames: [frame, p.frame].into_iter().collect(),
            ended: true,
        };
        Some(Quiet { stall, evidence, row })
    }

    /// A SYN, or the answer to one. Times of the handshake's packets give the first round trips, unless one was
    /// repeated (Karn's rule).
    fn syn(&mut self, from: usize, p: &Seen<'_>) {
        let h = &mut self.handshake;
        let answer = p.tcp.flags.has(Flags::ACK);
        let age = h.syn.filter(|_| answer).map(|_| h.age(0, p));
        if answer && h.syn_ack.is_none() {
            h.queue = p.passing.queue(from, p.at);
        }
        let since = p.at.since(h.last[0].0);
        let (first, again) =
            if answer { (&mut h.syn_ack, &mut h.syn_acks_again) } else { (&mut h.syn, &mut h.syns_again) };
        h.latest = p.frame;
        h.last[usize::from(answer)] = (p.at, p.tcp.timestamps.unwrap_or_default().0);
        if let Some((tsval, tsecr)) = p.tcp.timestamps {
            if answer {
                let echoes = h.stamps.iter().position(|stamp| *stamp == Some(tsecr));
                h.echoes = h.echoes.or(echoes.map(|at| at as u32 + 1));
            } else if let Some(free) = h.stamps.iter_mut().find(|stamp| stamp.is_none()) {
                *free = Some(tsval);
            }
        }
        if first.is_some() {
            *again += 1;
            let event = Event {
                at: p.at,
                frame: p.frame,
                by: self.senders[from].by(),
                repair: Repair::Handshake,
                inferred: false,
                certainty: Certainty::Certain,
                // The SYN, its answer, or what acknowledges that.
                lost: Place::Unknown,
                spurious: false,
            };
            self.senders[from].note(event);
            return;
        }
        *first = Some((p.at, p.frame));
        match age {
            Some(Some(half)) => {
                self.senders[1 - from].timing_mut().handshake(half);
                self.senders[from].timing_mut().greet(half);
            }
            Some(None) => self.senders.iter_mut().for_each(|s| s.timing_mut().time_repeated(since)),
            None => {}
        }
        let sender = &mut self.senders[from];
        sender.begin(p.at, p.tcp.seq + 1);
        sender.offers_sack(p.tcp.beyond || p.tcp.cut);
        // The window that this end announces is that of the other's sender (RFC 7323, section 2.3).
        self.senders[1 - from].is_offered(p.tcp.window_scale.unwrap_or(0), p.tcp.mss.unwrap_or(0).into());
    }

    /// The first packet after the SYN-ACK ends the handshake.
    fn third(&mut self, from: usize, p: &Seen<'_>) {
        let h = self.handshake;
        if h.over || (from == 1 && h.syn_ack.is_some()) {
            return;
        }
        self.handshake.over = true;
        self.senders[0].is_open(p.at, p.frame, true);
        self.senders[1].is_open(p.at, p.frame, false);
        if let Some(half) = h.syn_ack.and(h.age(1, p)) {
            self.senders[1].timing_mut().handshake(half);
            self.senders[0].timing_mut().greet(half);
            self.senders.iter_mut().for_each(|s| s.timing_mut().greeted());
        } else if h.syn_ack.is_some() {
            self.senders.iter_mut().for_each(|s| s.timing_mut().time_repeated(p.at.since(h.last[1].0)));
        }
        self.handshake_stall(p.at, p.frame, true);
    }

    fn handshake_stall(&mut self, now: Instant, frame: u64, ended: bool) {
        let h = self.handshake;
        let Some((from, syn)) = h.syn.or(h.syn_ack) else { return };
        if now.since(from) <= self.senders[0].patience() {
            return;
        }
        let again = h.syns_again + h.syn_acks_again;
        let evidence = HandshakeEvidence {
            syns: h.syns_again + u32::from(h.syn.is_some()),
            syn_acks: h.syn_acks_again + u32::from(h.syn_ack.is_some()),
            ended,
            echoes: h.echoes,
            length: now.since(from),
            queue: h.queue,
        };
        let row = judge_handshake(&evidence);
        let (cause, lost, certainty) = row.then;
        let by = u8::from(h.syn_ack.is_some() && h.syn_acks_again > 0);
        let later = [h.latest, frame].into_iter().filter(|f| *f > syn);
        let frames = core::iter::once(syn).chain(later).collect();
        let stall = Stall {
            from,
            to: now,
            by,
            cause,
            repair: (again > 0).then_some(Repair::Handshake),
            timeouts: 0,
            backoff: 1 << again.min(15),
            outstanding: 1,
            lost,
            certainty,
            frames,
            ended,
        };
        self.senders[usize::from(by)].keep_asked(stall, || Why::handshake(now, by, &evidence, row));
    }

    /// Ends the connection: no more packets of the connection are seen.
    pub(crate) fn finish(&mut self, now: Instant, frame: u64) {
        if !self.handshake.over {
            self.handshake.over = true;
            self.handshake_stall(now, frame, false);
        }
        for sender in &mut self.senders {
            sender.end(now, frame);
        }
    }
}
