//! One end of a connection as a sender, inferred from what passes the point of capture: what is outstanding, which ACKs
//! it has had, when its timer expires. Sources: RFC 5681 and 6675 (fast retransmit), RFC 6298 (timer), RFC 8985 (tail
//! loss probe, what counts as a loss), RFC 2883 (DSACK) and RFC 3522 (Eifel: timestamps tell that a repair was
//! spurious).
//!
//! All times are those of the capture. The sender reacts to an ACK that passes here after its half of the round trip,
//! and its timer is taken to be restarted then.

use narrows_units::{Duration, Instant, SeqNum};
use narrows_wire::{Flags, TcpHeader};

use crate::clock::Clock;
use crate::counts::Counts;
use crate::findings::{Certainty, Event, Place, Repair, Stall};
use crate::judge;
use crate::lone::Lone;
use crate::outstanding::{Known, Outstanding};
use crate::pending::Pending;
use crate::tail::Watch;
use crate::timer::Timer;
use crate::tolerances::{ACKS, LEAST_WAIT};
use crate::trips::Trips;
use crate::why::{Asked, Why};
use crate::window::Window;

/// A packet of the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) at: Instant,
    pub(crate) frame: u64,
    pub(crate) tcp: &'a TcpHeader,
    /// When it would have passed without a queue before the capture, if the sender's clock tells; else when it did.
    pub(crate) sent: Instant,
}

/// How the sender is doing, as RFC 6582 and 6675 have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing was lost that it knows of.
    #[default]
    Open,
    /// After a fast retransmit, until this is acknowledged.
    Recovery(SeqNum),
    /// After a timeout, until this is acknowledged.
    Loss(SeqNum),
}

/// What other connections of the capture show of this end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Around {
    /// Packets get lost between such senders and the capture.
    pub(crate) losses: bool,
    /// A low quantile of what timers wait: the floor of the RTO.
    pub(crate) floor: Duration,
    /// Such senders do not probe tails.
    pub(crate) plain: bool,
    /// Selective acknowledgments restart their timers too.
    pub(crate) restarts: bool,
    /// The rate of their clocks, as a place in the list of those that there are.
    pub(crate) rate: Option<usize>,
}

/// The latest repair, to know later whether it was needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latest {
    pub(crate) start: SeqNum,
    pub(crate) end: SeqNum,
    pub(crate) at: Instant,
    pub(crate) tsval: Option<u32>,
    /// Its place in [`Sender::events`], if it is there.
    pub(crate) event: Option<usize>,
    /// The stall that it is part of, if that is over.
    pub(crate) stall: Option<usize>,
    pub(crate) spurious: bool,
    /// Its original had been seen here.
    pub(crate) seen: bool,
}

/// See the head of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sender {
    /// 0 for the end that opened the connection.
    pub(crate) by: u8,
    pub(crate) synced: bool,
    /// The first number of its data.
    pub(crate) start: SeqNum,
    /// The end of the highest byte seen.
    pub(crate) max: SeqNum,
    /// The highest ACK seen.
    pub(crate) una: SeqNum,
    pub(crate) out: Outstanding,
    pub(crate) trips: Trips,
    pub(crate) clock: Clock,
    /// ACKs before that was known: when they passed, what they echo, acknowledge, and what had been sent.
    pub(crate) echoes: Vec<(Instant, u32, SeqNum, SeqNum)>,
    pub(crate) phase: Phase,
    pub(crate) dupacks: u32,
    /// When the ACK passed that tells the sender of a loss.
    pub(crate) evidence: Option<Instant>,
    /// When the first and the latest ACK passed that told of any segment behind a gap.
    pub(crate) hints: Option<(Instant, Instant)>,
    /// See [`Sender::since_heard`], of what passes now.
    pub(crate) heard: Option<Duration>,
    pub(crate) acks: [Instant; ACKS],
    pub(crate) acks_seen: usize,
    /// When the retransmission timer was restarted.
    pub(crate) timer: Timer,
    /// When it sent data last, and how long it had sent none before.
    pub(crate) sent: Instant,
    /// The one before.
    pub(crate) sent_before: Instant,
    pub(crate) quiet: Duration,
    /// Segments of new data that neither an ACK nor others let go.
    pub(crate) alone: u32,
    /// When a timeout was seen last.
    pub(crate) last_timeout: Option<Instant>,
    /// The back-off: the factor on the RTO.
    pub(crate) factor: u32,
    /// What is known from other connections.
    pub(crate) around: Around,
    /// The latest expiry without a back-off waited so long; for who collects that.
    pub(crate) timed: Option<Duration>,
    /// Of several segments under way, after a silence, the last was sent again, or the first: with tail-loss probes, or
    /// without; for who collects that.
    pub(crate) probes: Option<bool>,
    /// A probe was sent since the last ACK of new data.
    pub(crate) probed: bool,
    /// The end of that probe, if it was a copy.
    pub(crate) probe_copy: Option<SeqNum>,
    /// It ever sets PSH, and did on the last segment of new data.
    pub(crate) seen_push: bool,
    /// How often data followed soon after that, and how often it did not.
    pub(crate) pushes: (u16, u16),
    pub(crate) pushed: bool,
    pub(crate) fin: bool,
    /// How far data may have been sent again since the latest timeout.
    pub(crate) resent_to: SeqNum,
    /// No new data was seen that follows the repairs since then.
    pub(crate) repairs_left: bool,
    /// ACKs with news since then, and when the latest of new data passed.
    pub(crate) told_since: u32,
    pub(crate) advanced: Instant,
    /// The end of the highest that was seen again since then.
    pub(crate) repaired_to: SeqNum,
    pub(crate) window_pkts: Window,
    /// Selective acknowledgments are in use: a sender of today, which sends tail-loss probes.
    pub(crate) selective: bool,
    pub(crate) stamps: bool,
    /// Its half of the round trip in the handshake.
    pub(crate) greeting: Option<Duration>,
    /// The other end has just acknowledged after so long what was sent once.
    pub(crate) answered: Option<Duration>,
    /// It opened the connection, and the handshake is over.
    pub(crate) opened: bool,
    /// The longest payload.
    pub(crate) mss: u32,
    /// What the receiver has announced as that; zero if it was not seen.
    pub(crate) announced: u32,
    /// Its latest segment of new data was less than half of that: the application had said all.
    short: bool,
    /// What the receiver offers, bytes; unscaled if the handshake was not seen.
    pub(crate) window: Option<u32>,
    pub(crate) scale: u8,
    /// The receiver closed its window then, and opened it again then.
    pub(crate) shut: Option<(Instant, Option<Instant>)>,
    /// All was acknowledged then, and nothing has been sent since.
    pub(crate) emptied: Option<Instant>,
    pub(crate) last_data: Option<Instant>,
    /// The latest progress, its frame, and whether something was under way then.
    pub(crate) since: Instant,
    pub(crate) since_frame: u64,
    /// It was an acknowledgment.
    pub(crate) since_ack: bool,
    pub(crate) waiting: bool,
    pub(crate) pending: Pending,
    pub(crate) latest: Option<Latest>,
    pub(crate) watched: Option<Watch>,
    pub(crate) lone: Option<Lone>,
    /// See [`Sender::note_late`].
    pub(crate) late: Option<bool>,
    pub(crate) counts: Counts,
    pub(crate) events: Vec<Event>,
    pub(crate) stalls: Vec<Stall>,
    /// Time spent in stalls, those that are not kept included.
    pub(crate) stalled: Duration,
    /// The frame that is asked about.
    pub(crate) asked: Asked,
}

impl Sender {
    pub(crate) fn new(by: u8, asked: Asked) -> Self {
        Self { by, factor: 1, asked, ..Self::default() }
    }

    /// A SYN of this end: numbers begin behind it.
    pub(crate) fn begin(&mut self, now: Instant, start: SeqNum) {
        (self.synced, self.start, self.max, self.una, self.resent_to) = (true, start, start, start, start);
        self.since = now;
        self.out.clear();
        self.timer.restart(now);
    }

    /// A packet of this end passes. `asked` is when the other end last sent data.
    pub(crate) fn data(&mut self, p: &Seen<'_>, asked: Option<Instant>) {
        let (seq, end) = (p.tcp.seq, p.tcp.seq_end());
        let p = &Seen { sent: self.when_sent(p), ..*p };
        if !self.synced {
            self.begin(p.at, seq);
        }
        if self.is_probe_or_keep_alive(p.tcp) || seq == end {
            return;
        }
        if end.distance_from(self.max).unsigned_abs() > 1 << 30 {
            // Not of this connection, or far from what was seen: go on from there.
            self.begin(p.at, seq);
        }
        self.quiet = p.sent.since(self.sent);
        self.sent_before = core::mem::replace(&mut self.sent, p.sent);
        self.was_lone(p, asked);
        if end.at_or_before(self.max) {
            self.again(p);
            return;
        }
        let idle = self.out.is_empty();
        if seq.before(self.max) {
            self.out.touch(seq, self.max, p);
        }
        // What jumps over a hole was not alone under way.
        let probe = (!idle || self.max.before(seq)) && self.is_new_probe(p);
        // What is inferred to be a repair gives no sample (Karn's rule).
        let repair = idle && !probe && self.after_silence(p, asked);
        let again = repair || (self.around.losses && end.at_or_before(self.resent_to));
        let seen = if again { 2 } else { 1 };
        if !idle && self.since_ack && self.dupacks > 0 {
            // Limited transmit (RFC 3042): the duplicate, or one before it, has let this go.
            self.trips.time_clocked(p.at.since(self.since));
        }
        let jumped = idle && probe && self.has_jumped(p, asked);
        self.progress(p.at, p.frame, false);
        if probe && !jumped {
            self.note_new_probe(p);
        }
        if self.max.before(seq) {
            self.under_way_then(seq);
            self.counts.holes += 1;
            self.out.push(self.max, seq, p, 0);
        }
        let start = self.max.max(seq);
        self.out.push(start, end, p, seen);
        let unasked = asked.is_none_or(|asked| self.last_data.is_some_and(|last| asked < last));
        self.sent_new(p, end, idle, unasked);
    }

    /// See [`Seen::sent`].
    fn when_sent(&mut self, p: &Seen<'_>) -> Instant {
        let Some((tsval, tsecr)) = p.tcp.timestamps else { return p.at };
        self.stamps = true;
        let passed = self.trips.echo(p.at, tsecr);
        self.clock.assume(self.around.rate);
        self.clock.tick(p.at, tsval);
        if let Some(passed) = passed {
            self.clock.reacted(passed, tsval);
        }
        self.catch_up();
        self.heard = self.since_heard(p.at, tsval, tsecr);
        let asked = self.around.losses || self.at_sender();
        let sent = if asked { self.clock.sent(p.at, tsval) } else { None };
        sent.unwrap_or(p.at)
    }

    /// PSH ends what the application had to say. Some stacks set it on each burst, and then it says nothing.
    pub(crate) fn pushes(&self) -> bool {
        self.seen_push && self.pushes.0 <= self.pushes.1.saturating_add(1)
    }

    fn sent_new(&mut self, p: &Seen<'_>, end: SeqNum, idle: bool, unasked: bool) {
        self.goes_on(p.sent, end, p.tcp.flags.has(Flags::FIN));
        self.note_pace(p.at);
        self.max = end;
        self.waiting = true;
        self.counts.data += 1;
        self.counts.bytes += u64::from(p.tcp.payload);
        self.mss = self.mss.max(p.tcp.payload);
        self.short = p.tcp.payload * 2 < self.announced;
        if self.pushed {
            // What an acknowledgment lets go was there before.
            let soon = unasked && self.answers()
                || self.last_data.is_some_and(|last| p.at.since(last) < self.patience());
            let count = if soon { &mut self.pushes.0 } else { &mut self.pushes.1 };
            *count = count.saturating_add(1);
        }
        self.pushed = p.tcp.flags.has(Flags::PSH);
        self.seen_push |= self.pushed;
        self.fin |= p.tcp.flags.has(Flags::FIN);
        self.last_data = Some(p.at);
        self.pending.outstanding = self.out.count();
        if idle {
            // RFC 6298, (5.1).
            self.timer.restart(p.sent);
        }
        (self.emptied, self.shut) = (None, None);
        self.repairs_left &= self.last_timeout.is_some_and(|at| at >= self.sent_before);
    }

    /// RFC 9293, section 3.8.4: a keep-alive has at most one byte, just below the next to be sent; section 3.8.6.1: a
    /// probe of a closed window has one byte at its edge, or none.
    fn is_probe_or_keep_alive(&mut self, tcp: &TcpHeader) -> bool {
        if tcp.payload > 1 || tcp.flags.has(Flags::FIN) || tcp.flags.has(Flags::SYN) {
            return false;
        }
        if tcp.seq + 1 == self.max && !self.out_of_one_byte(tcp) {
            let closed = self.window == Some(0);
            let count = if closed { &mut self.counts.window_probes } else { &mut self.counts.keep_alives };
            *count += 1;
            return true;
        }
        if self.window == Some(0) && tcp.payload == 1 && tcp.seq == self.una {
            self.counts.window_probes += 1;
            return true;
        }
        false
    }

    /// The last byte is under way as a segment of its own: it may well be a retransmission.
    fn out_of_one_byte(&self, tcp: &TcpHeader) -> bool {
        tcp.payload == 1 && self.una.at_or_before(tcp.seq)
    }

    /// Nothing was under way, and new data comes. It may have been asked for just now, the application may have had
    /// nothing to say; or, if packets get lost before the capture, it is the repair of what was never seen.
    /// Says whether it is.
    fn after_silence(&mut self, p: &Seen<'_>, asked: Option<Instant>) -> bool {
        self.time_answer(p.at);
        // The first data of who opened the connection follows the handshake at once.
        let first = self.last_data.is_none();
        // What jumps over a hole comes after something that was lost.
        let hole = self.max.before(p.tcp.seq);
        let more = if self.pushes() { !self.pushed } else { p.tcp.payload > 0 && (first || self.mss > 0) };
        let more = more && !self.short;
        let unasked = asked.is_none_or(|asked| self.last_data.is_some_and(|last| asked < last));
        let waited = self.waited(p.sent);
        let closed = matches!(self.shut, Some((_, None)));
        // Behind a hole it may be a probe, which is sooner than any timer.
        let may = (hole || more && unasked && waited >= LEAST_WAIT) && !closed && (!first || self.opened);
        if !(may && self.around.losses && self.has_expired(p.sent, waited)) {
            self.may_be_lone(p, asked);
            return false;
        }
        let certainty = if first { Certainty::Possible } else { Certainty::Likely };
        self.expire(p, true, Place::Before, certainty);
        self.waiting = true;
        true
    }

    /// Bytes pass that passed, or were passed over, before.
    fn again(&mut self, p: &Seen<'_>) {
        let (seq, end) = (p.tcp.seq, p.tcp.seq_end());
        let known = self.out.touch(seq, end, p);
        if self.is_late(p, &known) {
            self.counts.reordered += 1;
            self.progress(p.at, p.frame, false);
            return;
        }
        self.counts.again += 1;
        let unneeded = end.at_or_before(self.una) || (known.sacked && known.hole.is_none());
        let lost = match known {
            _ if unneeded => Place::Unknown,
            Known { hole: Some(_), seen, .. } if seen > 1 => Place::Both,
            Known { hole: Some(_), .. } => Place::Before,
            _ => Place::Behind,
        };
        self.note_late(p);
        let evidence = self.evidence(p, &known);
        let row = judge::judge_repair(&evidence);
        if self.asked.among([p.frame].into_iter()) {
            self.asked.note(Why::repair(p.at, self.by, &evidence, row));
        }
        let (repair, certainty) = row.then;
        self.compare_ends(p, &known);
        self.pending.double |= self.was_repaired(&known, seq);
        match repair {
            Repair::Timeout => {
                let hidden = lost == Place::Before || self.around.losses;
                self.expire(p, hidden, lost, certainty);
            }
            _ => {
                let event = Event {
                    at: p.at,
                    frame: p.frame,
                    by: self.by,
                    repair,
                    inferred: false,
                    certainty,
                    lost,
                    spurious: false,
                };
                self.enter(p.sent, repair);
                self.restart_at_sender(p);
                self.note(event);
            }
        }
        if self.repaired_to.before(end) {
            self.repaired_to = end;
        }
        self.remember(p, end, lost);
        if unneeded {
            self.spurious();
            self.was_on_its_way(p);
            self.unheard(p);
        }
        if known.hole.is_some() {
            self.counts.bytes += u64::from(p.tcp.payload);
            // Its first appearance here.
            self.progress(p.at, p.frame, false);
        }
    }

    /// What follows for the sender's state.
    fn enter(&mut self, now: Instant, repair: Repair) {
        match repair {
            Repair::FastRetransmit => {
                self.phase = Phase::Recovery(self.max);
                if self.exact().is_some() {
                    // Then the first was sent again, which may have been lost.
                    self.timer.restart(self.told().map_or(now, |(from, _)| from.min(now)));
                }
                self.window_pkts.on_fast_retransmit();
                self.evidence = None;
            }
            // RFC 8985, section 7.3: the probe restarts the timer.
            Repair::Probe => {
                self.probed = true;
                self.probe_copy = Some(self.max);
                self.timer.restart(now);
            }
            _ => {}
        }
    }

    fn remember(&mut self, p: &Seen<'_>, end: SeqNum, lost: Place) {
        self.latest = Some(Latest {
            start: p.tcp.seq,
            end,
            at: p.at,
            tsval: p.tcp.timestamps.map(|(tsval, _)| tsval),
            event: self.events.len().checked_sub(1).filter(|at| self.events[*at].frame == p.frame),
            stall: None,
            spurious: false,
            seen: lost == Place::Behind,
        });
    }
}
