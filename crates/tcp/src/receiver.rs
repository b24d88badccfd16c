//! The receiving half of a connection: reassembly, acknowledgments and what they carry.
//!
//! RFC 9293 (acceptance and order), RFC 5681, section 4.2 (when to acknowledge), RFC 2018 and RFC 2883 (SACK and D-SACK
//! blocks), RFC 7323 (window scale; whose timestamp is echoed), RFC 3168, section 6.1.3 (ECN echo). The application reads at
//! once, so the window offered is always the whole of [`Config::receive_window`]. There is no content: ranges of sequence
//! numbers stand for bytes. While data comes in order nothing is on the heap.

use narrows_units::{Ecn, Instant, SeqNum};
use narrows_wire::{Flags, SackBlocks, TcpHeader};

use crate::{Config, Recovery};

/// What a full segment is taken to be before a larger one was seen: the default MSS of RFC 9293, section 3.7.1.
const LEAST_FULL_SEGMENT: u32 = 536;
/// Out-of-order ranges whose memory is kept for the next loss.
const RANGES_KEPT: usize = 8;

/// When what just arrived is to be acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckNow {
    /// It needs no acknowledgment.
    #[default]
    No,
    /// At once.
    Now,
    /// With the next segment sent, or when [`Receiver::due`].
    Delayed,
}

/// What an arriving segment brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// New bytes in order.
    pub delivered: u64,
    /// The peer's FIN is now in order: nothing follows.
    pub fin: bool,
    /// When to acknowledge.
    pub ack: AckNow,
}

/// The receiving half. Every call takes the settings, as in [`crate::Endpoint`].
#[derive(Clone, Debug)]
pub struct Receiver {
    /// When the delayed ACK is due; [`Instant::FAR_FUTURE`] if none waits.
    delayed_until: Instant,
    /// Made when something first comes out of order or twice: to most flows that never happens.
    disorder: Option<Box<Disorder>>,
    /// Whether the peer's SYN was seen.
    started: bool,
    /// CE was seen and no CWR since (RFC 3168, section 6.1.3).
    echo: bool,
    /// The sequence number the peer's FIN takes, once one was seen, maybe out of order.
    fin_at: Option<SeqNum>,
    rcv_nxt: SeqNum,
    /// `Last.ACK.sent` of RFC 7323, section 4.3.
    last_ack_sent: SeqNum,
    /// `TS.Recent` of RFC 7323, section 4.3.
    ts_recent: Option<u32>,
    /// Largest payload seen, bytes.
    largest: u32,
    /// Segments still to be acknowledged at once.
    quick: u32,
}

/// What is known beyond data in order.
#[derive(Clone, Debug, Default)]
struct Disorder {
    /// Out-of-order data as [left, right), sorted, neither touching nor overlapping.
    ranges: Vec<(SeqNum, SeqNum)>,
    /// A sequence number in each of the ranges that changed last, latest first.
    recent: [SeqNum; 4],
    /// How many of `recent` are in use.
    recents: u8,
    /// The duplicate to report in the next ACK (RFC 2883); empty if both ends are the same.
    duplicate: (SeqNum, SeqNum),
}

impl Disorder {
    /// Keeps out-of-order data, joined with what it touches.
    fn keep(&mut self, seq: SeqNum, end: SeqNum) {
        let first = self.ranges.partition_point(|r| r.1.before(seq));
        let touched = self.ranges[first..].partition_point(|r| r.0.at_or_before(end));
        let mut whole = (seq, end);
        for &(left, right) in &self.ranges[first..first + touched] {
            let twice = (left.max(seq), earlier(right, end));
            if twice.0.before(twice.1) {
                self.duplicate = twice;
            }
            whole = (earlier(whole.0, left), whole.1.max(right));
        }
        if touched == 0 {
            self.ranges.insert(first, whole);
        } else {
            self.ranges[first] = whole;
            self.ranges.drain(first + 1..first + touched);
        }
        self.forget_recent(|at| whole.0.at_or_before(at) && at.before(whole.1));
        self.recent.copy_within(0..3, 1);
        self.recent[0] = seq;
        self.recents = (self.recents + 1).min(4);
    }

    /// All before `end` is in order: moves on over the ranges that are so too, and tells where the next hole begins.
    fn take_ranges(&mut self, end: SeqNum) -> SeqNum {
        let mut in_order = end;
        let taken = self.ranges.partition_point(|r| r.0.at_or_before(end));
        if let Some(last) = taken.checked_sub(1) {
            in_order = in_order.max(self.ranges[last].1);
            self.ranges.drain(..taken);
        }
        if self.ranges.is_empty() {
            self.ranges.shrink_to(RANGES_KEPT);
        }
        self.forget_recent(|at| at.before(in_order));
        in_order
    }

    fn forget_recent(&mut self, gone: impl Fn(SeqNum) -> bool) {
        let mut kept = 0;
        for i in 0..usize::from(self.recents) {
            if !gone(self.recent[i]) {
                self.recent[kept] = self.recent[i];
                kept += 1;
            }
        }
        self.recents = kept as u8;
    }

    /// Whether there is a block to report.
    fn is_news(&self) -> bool {
        self.recents > 0 || self.duplicate.0 != self.duplicate.1
    }

    /// RFC 2018, section 4: first the block with the segment that caused this ACK, then those reported most recently; three
    /// fit beside timestamps, four without. A duplicate comes before all of them, once (RFC 2883, section 4).
    fn sack_blocks(&self, config: &Config) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let room = if config.timestamps { 3 } else { 4 };
        if config.dsack && self.duplicate.0 != self.duplicate.1 {
            blocks.push(self.duplicate.0, self.duplicate.1);
        }
        for &at in &self.recent[..usize::from(self.recents)] {
            let i = self.ranges.partition_point(|r| r.1.at_or_before(at));
            if let Some(&(left, right)) = self.ranges.get(i).filter(|_| blocks.as_slice().len() < room) {
                blocks.push(left, right);
            }
        }
        blocks
    }
}

impl Receiver {
    /// A receiver that has seen nothing yet.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            delayed_until: Instant::FAR_FUTURE,
            disorder: None,
            started: false,
            echo: false,
            fin_at: None,
            rcv_nxt: SeqNum(0),
            last_ack_sent: SeqNum(0),
            ts_recent: None,
            largest: 0,
            quick: config.delayed_ack.map_or(0, |d| d.quick),
        }
    }

    /// The peer's SYN came (or is taken to have come) with the sequence number `irs`. The SYN segment goes to
    /// [`Receiver::on_data`] as well, for its timestamp.
    pub fn start(&mut self, irs: SeqNum, now: Instant) {
        let _ = now;
        self.started = true;
        self.rcv_nxt = irs + 1;
        self.last_ack_sent = self.rcv_nxt;
    }

    /// Whether the peer's SYN was seen.
    #[must_use]
    pub const fn started(&self) -> bool {
        self.started
    }

    /// The next sequence number expected.
    #[must_use]
    pub const fn rcv_nxt(&self) -> SeqNum {
        self.rcv_nxt
    }

    /// A segment of the peer came, with or without data.
    #[inline]
    pub fn on_data(&mut self, config: &Config, now: Instant, tcp: &TcpHeader, ecn: Ecn) -> Arrival {
        self.note_timestamp(tcp);
        let seq = tcp.seq + u32::from(tcp.flags.has(Flags::SYN));
        let end = tcp.seq_end();
        if seq == end {
            return Arrival::default();
        }
        let refused = Arrival { ack: AckNow::Now, ..Arrival::default() };
        if end.at_or_before(self.rcv_nxt) {
            // Nothing new: an ACK tells the peer where we are (RFC 9293, section 3.10.7.4; RFC 5681, section 4.2).
            self.disorder().duplicate = (seq, end);
            return refused;
        }
        let window_end = self.rcv_nxt + config.receive_window;
        if window_end.at_or_before(seq) {
            return refused;
        }
        self.note_ecn(config, tcp, ecn);
        self.largest = self.largest.max(tcp.payload);
        if tcp.flags.has(Flags::FIN) {
            self.fin_at = Some(seq + tcp.payload);
        }
        let end = earlier(end, window_end);
        if self.rcv_nxt.before(seq) {
            self.disorder().keep(seq, end);
            return refused;
        }
        if seq.before(self.rcv_nxt) {
            self.disorder().duplicate = (seq, self.rcv_nxt);
        }
        self.advance(config, now, seq, end, tcp.flags.has(Flags::PSH))
    }

    /// The bytes of [seq, end) are in order, and some are new.
    #[inline]
    fn advance(&mut self, config: &Config, now: Instant, seq: SeqNum, end: SeqNum, pushed: bool) -> Arrival {
        let before = self.rcv_nxt;
        self.rcv_nxt = end;
        let mut fills_hole = false;
        if let Some(disorder) = self.disorder.as_mut().filter(|d| !d.ranges.is_empty()) {
            self.rcv_nxt = disorder.take_ranges(end);
            fills_hole = true;
        }
        let fin = self.fin_at.is_some_and(|at| before.at_or_before(at) && at.before(self.rcv_nxt));
        let delivered = u64::from(self.rcv_nxt - before) - u64::from(fin);
        // What is pushed the application reads at once, and Linux acknowledges it then.
        let pushed = pushed && config.push_every != u32::MAX;
        let at_once = fills_hole || fin || pushed || seq != before;
        let ack = if at_once { AckNow::Now } else { self.pace_ack(config, now) };
        Arrival { delivered, fin, ack }
    }

    /// When to acknowledge a segment in order (RFC 5681, section 4.2).
    fn pace_ack(&mut self, config: &Config, now: Instant) -> AckNow {
        let Some(delayed) = config.delayed_ack else { return AckNow::Now };
        if self.quick > 0 {
            self.quick -= 1;
            return AckNow::Now;
        }
        let full = self.largest.max(config.mss.min(LEAST_FULL_SEGMENT));
        if self.rcv_nxt - self.last_ack_sent >= delayed.every.saturating_mul(full) {
            return AckNow::Now;
        }
        self.delayed_until = self.delayed_until.min(now + delayed.timeout);
        AckNow::Delayed
    }

    fn disorder(&mut self) -> &mut Disorder {
        self.disorder.get_or_insert_default()
    }

    /// RFC 7323, section 4.3: the timestamp to echo is that of the segment which advanced the left edge of the window, so
    /// that a delayed ACK's delay and a hole's repair count into the sender's sample.
    fn note_timestamp(&mut self, tcp: &TcpHeader) {
        let Some((tsval, _)) = tcp.timestamps else { return };
        let newer = self.ts_recent.is_none_or(|recent| SeqNum(recent).at_or_before(SeqNum(tsval)));
        if newer && tcp.seq.at_or_before(self.last_ack_sent) {
            self.ts_recent = Some(tsval);
        }
    }

    /// RFC 3168, section 6.1.3: echo from a CE mark to the sender's CWR; a CE on the very segment with CWR is a new one.
    fn note_ecn(&mut self, config: &Config, tcp: &TcpHeader, ecn: Ecn) {
        if !config.ecn {
            return;
        }
        if tcp.flags.has(Flags::CWR) {
            self.echo = false;
        }
        if ecn == Ecn::Ce {
            self.echo = true;
        }
    }

    /// Puts into an outgoing segment what this half has to say: acknowledgment, window, SACK blocks, the timestamp echoed
    /// and ECE. The segment goes out now, so nothing waits to be acknowledged any more. Before the peer's SYN only the window
    /// is set.
    ///
    /// A TSval that is there stays; otherwise it is set by [`timestamp`].
    #[inline]
    pub fn fill_ack(&mut self, config: &Config, now: Instant, tcp: &mut TcpHeader) {
        let syn = tcp.flags.has(Flags::SYN);
        // The window of a SYN is never scaled (RFC 7323, section 2.2).
        let shift = if syn { 0 } else { config.window_shift() };
        tcp.window = u16::try_from(config.receive_window >> shift).unwrap_or(u16::MAX);
        if config.timestamps {
            let tsval = tcp.timestamps.map_or_else(|| timestamp(now), |t| t.0);
            tcp.timestamps = Some((tsval, self.ts_recent.unwrap_or(0)));
        }
        if !self.started {
            return;
        }
        tcp.flags = tcp.flags.and(Flags::ACK);
        tcp.ack = self.rcv_nxt;
        if self.echo && !syn {
            tcp.flags = tcp.flags.and(Flags::ECE);
        }
        if let Some(disorder) = &mut self.disorder {
            if config.recovery == Recovery::Sack && !syn && disorder.is_news() {
                tcp.sack = disorder.sack_blocks(config);
            }
            disorder.duplicate.1 = disorder.duplicate.0;
        }
        self.last_ack_sent = self.rcv_nxt;
        self.delayed_until = Instant::FAR_FUTURE;
    }

    /// When the delayed ACK is due; [`Instant::FAR_FUTURE`] if none waits.
    #[inline]
    pub(crate) const fn wake_at(&self) -> Instant {
        self.delayed_until
    }

    /// When the delayed ACK is due.
    #[must_use]
    pub fn next_wake(&self) -> Option<Instant> {
        (self.delayed_until != Instant::FAR_FUTURE).then_some(self.delayed_until)
    }

    /// Whether the delayed ACK is due at `now`.
    #[must_use]
    pub fn due(&self, now: Instant) -> bool {
        self.next_wake().is_some_and(|at| at <= now)
    }
}

/// The timestamp clock: milliseconds (RFC 7323, section 5.4: between 1 ms and 1 s a tick), modulo 2^32.
#[must_use]
pub const fn timestamp(now: Instant) -> u32 {
    ((now.as_nanos() / 1_000_000) & u32::MAX as u64) as u32
}

fn earlier(a: SeqNum, b: SeqNum) -> SeqNum {
    if a.before(b) { a } else { b }
}

#[cfg(test)]
mod tests;
