//! The receiving half of a connection: reassembly, acknowledgments and what they carry.
//!
//! RFC 9293 (acceptance and order), RFC 5681, section 4.2 (when to acknowledge), RFC 2018 and RFC 2883 (SACK and
//! D-SACK blocks), RFC 7323 (window scale; which timestamp is echoed), RFC 3168, section 6.1.3 (ECN echo). The
//! application reads at once, so the receiver always offers the whole of [`Config::receive_window`]. Segments have no
//! content: ranges of sequence numbers stand for bytes. As long as data comes in order, nothing is on the heap.

use narrows_units::{Ecn, Instant, SeqNum};
use narrows_wire::{Flags, SackBlocks, TcpHeader};

use crate::{Config, DelayedAck, Recovery};

/// The length of a full segment, as long as no larger one was seen: the default MSS of RFC 9293, section 3.7.1.
const LEAST_FULL_SEGMENT: u32 = 536;
/// Out-of-order ranges for which memory is kept until the next loss.
const RANGES_KEPT: usize = 8;

/// When to acknowledge a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AckTime {
    /// The segment needs no acknowledgment.
    #[default]
    No,
    /// Now.
    Now,
    /// The ACK goes with the next segment that is sent, or when the delayed ACK is due.
    Delayed,
}

/// Result of taking a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    /// New bytes in order.
    pub(crate) delivered: u64,
    /// The peer's FIN is in order now, so nothing follows.
    pub(crate) fin: bool,
    /// Time at which the segment is to be acknowledged.
    pub(crate) ack: AckTime,
}

/// The receiving half. Every call takes the settings, as in [`crate::Endpoint`].
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// When the delayed ACK is due; [`Instant::FAR_FUTURE`] if there is none.
    delayed_until: Instant,
    /// Made when a segment first comes out of order or twice. On most connections that never happens.
    disorder: Option<Box<Disorder>>,
    rcv_nxt: SeqNum,
    /// `Last.ACK.sent` of RFC 7323, section 4.3.
    last_ack_sent: SeqNum,
    /// `TS.Recent` of RFC 7323, section 4.3; zero before the first timestamp.
    ts_recent: u32,
    /// The largest payload seen, bytes: an IP packet holds no more.
    largest: u16,
    /// The window field of all segments but a SYN. The window never changes, and its scale is not asked for each time.
    window: u16,
    /// Segments that are still to be acknowledged at once.
    quick: u32,
    /// The peer's SYN was seen.
    started: bool,
    /// CE was seen and no CWR since (RFC 3168, section 6.1.3).
    echo: bool,
    /// A timestamp was seen.
    stamped: bool,
}

/// State beyond the data in order; most receivers need none.
#[derive(Clone, Debug, Default)]
struct Disorder {
    /// Out-of-order data as [left, right), sorted. The ranges neither touch nor overlap.
    ranges: Vec<(SeqNum, SeqNum)>,
    /// A sequence number in each of the ranges that changed last, the latest first.
    recent: [SeqNum; 4],
    /// How many of `recent` are in use.
    recents: u8,
    /// The duplicate to report in the next ACK (RFC 2883); empty if both ends are the same.
    duplicate: (SeqNum, SeqNum),
    /// The sequence number of a FIN that came out of order or beyond the window.
    fin_at: Option<SeqNum>,
}

impl Disorder {
    /// Keeps out-of-order data and joins the data with adjacent ranges.
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

    /// Data from `seq` to `end` is in order now. What of it came out of order before is a duplicate; of several parts
    /// the first is told.
    fn note_overlap(&mut self, seq: SeqNum, end: SeqNum) {
        if let Some(&(left, right)) = self.ranges.first()
            && left.before(end)
            && self.duplicate.0 == self.duplicate.1
        {
            self.duplicate = (left.max(seq), earlier(right, end));
        }
    }

    /// Everything before `end` is in order. Removes the ranges that are in order now, and returns where the next hole
    /// begins.
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
    fn has_block(&self) -> bool {
        self.recents > 0 || self.duplicate.0 != self.duplicate.1
    }

    /// RFC 2018, section 4: first the block with the segment that caused this ACK, then those reported most recently.
    /// Three fit beside timestamps, four without. A duplicate is reported once, before all of them (RFC 2883, section
    /// 4).
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
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            delayed_until: Instant::FAR_FUTURE,
            disorder: None,
            rcv_nxt: SeqNum(0),
            last_ack_sent: SeqNum(0),
            ts_recent: 0,
            largest: 0,
            window: config.window_field(false),
            quick: config.delayed_ack.map_or(0, |d| d.quick),
            started: false,
            echo: false,
            stamped: false,
        }
    }

    /// The peer's SYN does not say how its window scales, so ours does not either (RFC 7323, section 2.2).
    pub(crate) fn leave_unscaled(&mut self, config: &Config) {
        self.window = config.window_field(true);
    }

    /// The peer's SYN came, or counts as having come, with the sequence number `irs`. The segment goes to
    /// [`Receiver::on_data`] as well, for its timestamp.
    pub(crate) fn start(&mut self, irs: SeqNum) {
        self.started = true;
        self.rcv_nxt = irs + 1;
        self.last_ack_sent = self.rcv_nxt;
    }

    /// Whether the peer's SYN was seen.
    pub(crate) const fn started(&self) -> bool {
        self.started
    }

    /// The next sequence number expected.
    pub(crate) const fn rcv_nxt(&self) -> SeqNum {
        self.rcv_nxt
    }

    /// Takes a segment of the peer, with or without data.
    #[inline(always)]
    pub(crate) fn on_data(&mut self, config: &Config, now: Instant, tcp: &TcpHeader, ecn: Ecn) -> Received {
        self.note_timestamp(tcp);
        let (seq, end) = (first_byte(tcp), tcp.seq_end());
        let nothing = Received { ack: AckTime::Now, ..Received::default() };
        if seq == end {
            // Empty and from before the window: the peer asks what the window is (RFC 9293, section 3.10.7.4; the
            // window begins with what was acknowledged, as in Linux's `tcp_sequence`).
            return if self.started && seq.before(self.last_ack_sent) {
                nothing
            } else {
                Received::default()
            };
        }
        if end.at_or_before(self.rcv_nxt) {
            // A duplicate: an ACK tells the peer what we expect (RFC 9293, section 3.10.7.4; RFC 5681, section 4.2).
            self.disorder().duplicate = (seq, end);
            return nothing;
        }
        let window_end = self.rcv_nxt + config.receive_window;
        if window_end.at_or_before(seq) {
            return nothing;
        }
        self.note_ecn(config, tcp, ecn);
        self.largest = self.largest.max(u16::try_from(tcp.payload).unwrap_or(u16::MAX));
        let end = earlier(end, window_end);
        let in_order = seq.at_or_before(self.rcv_nxt);
        if tcp.flags.has(Flags::FIN) {
            self.note_fin(seq + tcp.payload, in_order && end == tcp.seq_end());
        }
        if !in_order {
            self.disorder().keep(seq, end);
            return nothing;
        }
        if seq.before(self.rcv_nxt) {
            self.disorder().duplicate = (seq, self.rcv_nxt);
        }
        self.advance(config, now, tcp, end)
    }

    /// A segment has a FIN with this sequence number, which needs no note if all of the segment is in order.
    fn note_fin(&mut self, at: SeqNum, in_order: bool) {
        if !in_order {
            self.disorder().fin_at = Some(at);
        } else if let Some(disorder) = &mut self.disorder {
            disorder.fin_at = Some(at);
        }
    }

    /// A segment came whose bytes up to `end` are in order, and some of them are new.
    #[inline(always)]
    fn advance(&mut self, config: &Config, now: Instant, tcp: &TcpHeader, end: SeqNum) -> Received {
        let (seq, before) = (first_byte(tcp), self.rcv_nxt);
        self.rcv_nxt = end;
        let mut fills_hole = false;
        if let Some(disorder) = self.disorder.as_mut().filter(|d| !d.ranges.is_empty()) {
            disorder.note_overlap(seq, end);
            self.rcv_nxt = disorder.take_ranges(end);
            fills_hole = true;
        }
        let fin_at = if tcp.flags.has(Flags::FIN) {
            Some(seq + tcp.payload)
        } else {
            self.disorder.as_ref().and_then(|disorder| disorder.fin_at)
        };
        let fin = fin_at.is_some_and(|at| before.at_or_before(at) && at.before(self.rcv_nxt));
        let delivered = u64::from(self.rcv_nxt - before) - u64::from(fin);
        // The application reads pushed data at once, and Linux acknowledges it then.
        let pushed = tcp.flags.has(Flags::PSH) && config.push_every != u32::MAX;
        let late_fin = fin && config.push_every != u32::MAX && !fills_hole && seq == before;
        let at_once = fills_hole || !late_fin && (fin || pushed || seq != before);
        let ack = match config.delayed_ack {
            _ if at_once => AckTime::Now,
            Some(delayed) if late_fin => self.delay_fin(config, now, delayed),
            _ => self.delay_ack(config, now),
        };
        if fin && let Some(disorder) = &mut self.disorder {
            // Nothing follows, and Linux's `tcp_fin` forgets what D-SACK would report.
            disorder.duplicate.1 = disorder.duplicate.0;
        }
        Received { delivered, fin, ack }
    }

    /// Time at which Linux (`__tcp_ack_snd_check`) acknowledges a FIN after no more than a full segment: the
    /// application is about to close as well, and its FIN carries the ACK.
    fn delay_fin(&mut self, config: &Config, now: Instant, delayed: DelayedAck) -> AckTime {
        let full = u32::from(self.largest).max(config.mss.min(LEAST_FULL_SEGMENT));
        if self.largest == 0 || self.rcv_nxt - self.last_ack_sent > full {
            return AckTime::Now;
        }
        self.delayed_until = self.delayed_until.min(now + delayed.timeout);
        AckTime::Delayed
    }

    /// When to acknowledge a segment in order (RFC 5681, section 4.2).
    fn delay_ack(&mut self, config: &Config, now: Instant) -> AckTime {
        let Some(delayed) = config.delayed_ack else { return AckTime::Now };
        if self.quick > 0 {
            self.quick -= 1;
            return AckTime::Now;
        }
        let full = u32::from(self.largest).max(config.mss.min(LEAST_FULL_SEGMENT));
        if self.rcv_nxt - self.last_ack_sent >= delayed.every.saturating_mul(full) {
            return AckTime::Now;
        }
        self.delayed_until = self.delayed_until.min(now + delayed.timeout);
        AckTime::Delayed
    }

    fn disorder(&mut self) -> &mut Disorder {
        self.disorder.get_or_insert_default()
    }

    /// RFC 7323, section 4.3: the timestamp of the segment that advanced the left edge of the window is echoed. So the
    /// sender's sample includes the delay of a delayed ACK and the repair of a hole.
    pub(crate) fn note_timestamp(&mut self, tcp: &TcpHeader) {
        let Some((tsval, _)) = tcp.timestamps else { return };
        let newer = !self.stamped || SeqNum(self.ts_recent).at_or_before(SeqNum(tsval));
        if newer && tcp.seq.at_or_before(self.last_ack_sent) {
            (self.ts_recent, self.stamped) = (tsval, true);
        }
    }

    /// RFC 3168, section 6.1.3: a CE mark is echoed until the sender's CWR comes. CE on the segment with CWR is a new
    /// mark.
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

    /// Fills in what this half has to say in a segment that leaves now: acknowledgment, window, SACK blocks,
    /// timestamps and ECE. Before the peer's SYN came, only window and timestamps. Nothing waits to be acknowledged
    /// after that.
    #[inline(always)]
    pub(crate) fn fill_ack(&mut self, config: &Config, now: Instant, tcp: &mut TcpHeader) {
        let syn = tcp.flags.has(Flags::SYN);
        tcp.window = if syn { config.window_field(true) } else { self.window };
        if config.timestamps {
            tcp.timestamps = Some((timestamp(now), self.ts_recent));
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
            if config.recovery == Recovery::Sack && !syn && disorder.has_block() {
                tcp.sack = disorder.sack_blocks(config);
            }
            disorder.duplicate.1 = disorder.duplicate.0;
        }
        self.last_ack_sent = self.rcv_nxt;
        self.delayed_until = Instant::FAR_FUTURE;
    }

    /// When the delayed ACK is due; [`Instant::FAR_FUTURE`] if there is none.
    #[inline]
    pub(crate) const fn next_wake(&self) -> Instant {
        self.delayed_until
    }

    /// Delays the ACK of a SYN.
    pub(crate) fn delay_until(&mut self, at: Instant) {
        self.delayed_until = at;
    }

    /// Whether the delayed ACK is due.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.delayed_until <= now
    }
}

/// The timestamp clock: milliseconds modulo 2^32 (RFC 7323, section 5.4: a tick takes between 1 ms and 1 s).
pub(crate) const fn timestamp(now: Instant) -> u32 {
    ((now.as_nanos() / 1_000_000) & u32::MAX as u64) as u32
}

/// The sequence number of a segment's first byte; a SYN comes before the byte.
fn first_byte(tcp: &TcpHeader) -> SeqNum {
    tcp.seq + u32::from(tcp.flags.has(Flags::SYN))
}

fn earlier(a: SeqNum, b: SeqNum) -> SeqNum {
    if a.before(b) { a } else { b }
}

#[cfg(test)]
mod tests;
