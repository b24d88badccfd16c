//! All connections of a capture. One that is over, or silent for long, is summarised and freed; beyond a bound the one
//! that has been silent longest goes first.

use narrows_units::{Duration, Instant};
use narrows_wire::{FlowKey, Header, TcpHeader};

use crate::connection::Connection;
use crate::connections::Connections;
use crate::counts::Counts;
use crate::passing::Passing;
use crate::report::FlowReport;
use crate::seen::Seen;
use crate::timing::Around;
use crate::tolerances::{
    CLOCKS, CLOCKS_OF_20, FIRSTS, FIRSTS_TO_LASTS, LATE_BY_CLOCK, LATE_WITHOUT, LOSSES, LOSSES_IN, WAITS,
    WAITS_LOWEST,
};

/// Bounds of an [`Analyzer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnalyzerLimits {
    /// Connections followed at a time.
    pub connections: usize,
    /// Time for which a connection that is over is kept, for late packets.
    pub linger: Duration,
    /// Time for which a silent connection is kept. The longest back-off is two minutes.
    pub silence: Duration,
}

impl Default for AnalyzerLimits {
    fn default() -> Self {
        Self { connections: 1 << 17, linger: Duration::from_secs(30), silence: Duration::from_secs(600) }
    }
}

/// Losses that the capture shows between one kind of end, openers or others, and the point of capture.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    segments: u64,
    lost: u64,
}

impl Losses {
    /// Counts the losses by what one end has sent so far. What follows from losses is no evidence of them.
    fn of(counts: &Counts) -> Self {
        let lost = counts.lost_before.saturating_sub(counts.timeouts_inferred);
        Self { segments: counts.data + counts.again, lost }
    }

    /// Tells whether packets get lost: more than a hundredth, and more than chance.
    fn any(self) -> bool {
        self.lost >= LOSSES && self.lost * LOSSES_IN > self.segments
    }
}

/// How long timers wait without a back-off, in a histogram with four buckets to a doubling, from 128 ms on.
#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    buckets: [u32; 32],
    all: u32,
    floor: Duration,
}

impl Waits {
    fn add(&mut self, wait: Duration) {
        let ratio = (wait.as_secs_f64() / 0.128).max(1.0);
        let at = (ratio.log2() * 4.0) as usize;
        self.buckets[at.min(31)] += 1;
        self.all += 1;
        if self.all >= WAITS {
            // The lower end of the bucket in which the lowest third ends.
            let mut left = self.all / WAITS_LOWEST;
            let low = self.buckets.iter().position(|n| {
                let found = left < *n;
                left = left.saturating_sub(*n);
                found
            });
            let seconds = 0.128 * (low.unwrap_or(0) as f64 / 4.0).exp2();
            self.floor = Duration::from_nanos((seconds * 1e9) as u64);
        }
    }
}

/// Choice of senders that have several segments under way in a silence: how often the first was sent again, how often
/// the last.
#[derive(Clone, Copy, Debug, Default)]
struct Tails {
    first: u64,
    last: u64,
}

impl Tails {
    /// Tells whether senders of this kind probe no tails. A probe may have been lost before the capture, so a few
    /// firsts say nothing.
    fn plain(self) -> bool {
        self.first >= FIRSTS && self.last * FIRSTS_TO_LASTS < self.first
    }
}

/// Repairs of the first segment soon after an ACK: those that left when the timer was due, and others.
#[derive(Clone, Copy, Debug, Default)]
struct Late {
    due: u64,
    others: u64,
}

impl Late {
    /// Tells whether no more are due than by chance: other acknowledgments than those of new data restart the timer as
    /// well. Without the sender's clock many that are due leave the queue later, so fewer are chance.
    fn by_chance(self, stamps: bool) -> bool {
        (self.due + 2) * if stamps { LATE_BY_CLOCK } else { LATE_WITHOUT } < self.others
    }
}

/// Number of clocks of each rate.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    clocks: [u64; 3],
    /// The rate of nearly all clocks, as a place in the list of rates.
    usual: Option<usize>,
}

impl Rates {
    /// Counts a clock of this rate.
    fn add(&mut self, rate: usize) {
        self.clocks[rate] += 1;
        let all: u64 = self.clocks.iter().sum();
        self.usual = self.clocks.iter().position(|n| *n >= CLOCKS && *n * 20 >= all * CLOCKS_OF_20);
    }
}

/// Follows connections from packet to packet.
#[derive(Debug)]
pub struct Analyzer {
    limits: AnalyzerLimits,
    connections: Connections,
    finished: Vec<FlowReport>,
    losses: [Losses; 2],
    waits: [Waits; 2],
    tails: [Tails; 2],
    /// Repairs of the first segment soon after an ACK, by senders without timestamps and by senders with them.
    late: [[Late; 2]; 2],
    rates: [Rates; 2],
    passing: Passing,
    swept: Instant,
    evicted: u64,
    /// Connections so far.
    begun: u64,
    /// Frame about which [`Analyzer::ask_why`] asks.
    asked: Option<u64>,
}

impl Analyzer {
    /// Makes an analyzer with the bounds `limits`.
    #[must_use]
    pub fn new(limits: AnalyzerLimits) -> Self {
        let limits = AnalyzerLimits { connections: limits.connections.max(8), ..limits };
        Self {
            limits,
            connections: Connections::new(limits.connections),
            finished: Vec::new(),
            losses: Default::default(),
            waits: Default::default(),
            tails: Default::default(),
            late: Default::default(),
            rates: Default::default(),
            passing: Passing::default(),
            swept: Instant::ZERO,
            evicted: 0,
            begun: 0,
            asked: None,
        }
    }

    /// Keeps the evidence and the deciding rows of verdicts about `frame`, for [`FlowReport::whys`]. Counts for
    /// connections that begin later.
    pub fn ask_why(&mut self, frame: u64) {
        self.asked = Some(frame);
    }

    /// A packet of the capture. What is not TCP is passed over. Gives the number of its connection, counted from 0 by
    /// their first packets.
    pub fn packet(&mut self, at: Instant, frame: u64, header: &Header) -> Option<u64> {
        let tcp = header.tcp.as_ref()?;
        if at.since(self.swept) > Duration::from_secs(10) {
            self.sweep(at);
        }
        let mut found = self.connections.find(&header.key);
        if let Some(place) = found
            && self.connections.at_mut(place).is_reused_by(&header.key, tcp)
        {
            self.finished.push(FlowReport::of(self.connections.remove(place)));
            found = None;
        }
        let place = found.unwrap_or_else(|| self.begin(at, header.key, tcp));
        let c = self.connections.at_mut(place);
        let number = c.number;
        // Only the end that sends shows anything of the kind.
        let end = usize::from(header.key != c.key);
        let before = Losses::of(&c.senders[end].findings().counts);
        let stamps = c.senders[end].timing().stamps();
        let around = Around {
            losses: self.losses[end].any(),
            floor: self.waits[end].floor,
            plain: self.tails[end].plain(),
            restarts: self.late[usize::from(stamps)][end].by_chance(stamps),
            rate: self.rates[end].usual,
        };
        let seen =
            Seen { at, frame, tcp, sent: at, ident: header.ident, passing: &self.passing, passed: c.passed };
        let passage = c.packet(end, &seen, around);
        c.passed[end] = self.passing.passes(end, at, passage);
        let sender = &mut c.senders[end];
        let shown = sender.shown_mut();
        match shown.probes.take() {
            Some(true) => self.tails[end].last += 1,
            Some(false) => self.tails[end].first += 1,
            None => {}
        }
        match shown.late.take() {
            Some(true) => self.late[usize::from(stamps)][end].due += 1,
            Some(false) => self.late[usize::from(stamps)][end].others += 1,
            None => {}
        }
        if let Some(wait) = shown.timed.take() {
            self.waits[end].add(wait);
        }
        if let Some(rate) = sender.timing_mut().clock_found() {
            self.rates[end].add(rate);
        }
        let new = Losses::of(&sender.findings().counts);
        self.losses[end].segments += new.segments - before.segments;
        self.losses[end].lost += new.lost.saturating_sub(before.lost);
        Some(number)
    }

    fn begin(&mut self, at: Instant, key: FlowKey, tcp: &TcpHeader) -> u32 {
        if self.connections.len() >= self.limits.connections {
            self.evict();
        }
        self.begun += 1;
        self.connections.insert(Connection::new(self.begun - 1, key, at, tcp, self.asked))
    }

    /// Connections that are over.
    fn sweep(&mut self, now: Instant) {
        self.swept = now;
        let AnalyzerLimits { linger, silence, .. } = self.limits;
        let over = |c: &Connection| now.since(c.last) > if c.closed.is_some() { linger } else { silence };
        let done = self.connections.iter().filter(|(_, c)| over(c)).map(|(place, _)| place).collect();
        self.give_up(done);
    }

    /// Evicts an eighth of the connections, those silent for longest.
    fn evict(&mut self) {
        let of = |(place, c): (u32, &Connection)| (c.last, c.key.min(c.key.reverse()), place);
        let mut all: Vec<(Instant, FlowKey, u32)> = self.connections.iter().map(of).collect();
        let most = (all.len() / 8).max(1);
        all.select_nth_unstable(most - 1);
        all.truncate(most);
        self.evicted += most as u64;
        self.give_up(all.into_iter().map(|(.., place)| place).collect());
    }

    fn give_up(&mut self, places: Vec<u32>) {
        let gone = places.into_iter().map(|place| self.connections.remove(place));
        let mut reports: Vec<FlowReport> = gone.map(FlowReport::of).collect();
        reports.sort_by_key(|r| (r.from, r.key()));
        self.finished.append(&mut reports);
    }

    /// Takes what is known of connections that are over, oldest first.
    pub fn finished(&mut self) -> impl Iterator<Item = FlowReport> + '_ {
        self.finished.drain(..)
    }

    /// Reports on the connections that are still open, in no order. A silence that lasts still counts up to `now`.
    pub fn ongoing(&self, now: Instant) -> impl Iterator<Item = FlowReport> + '_ {
        self.connections.iter().map(|(_, c)| c.clone()).map(move |mut c| {
            if c.closed.is_none() {
                c.last = c.last.max(now);
            }
            FlowReport::of(c)
        })
    }

    /// The capture is over: all connections are.
    pub fn finish(&mut self) {
        let all = self.connections.iter().map(|(place, _)| place).collect();
        self.give_up(all);
    }

    /// Connections that were given up because there were too many.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Number of connections seen so far, ended connections included.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Connections that are followed now.
    #[must_use]
    pub fn open(&self) -> usize {
        self.connections.len()
    }
}

impl Default for Analyzer {
    fn default() -> Self {
        Self::new(AnalyzerLimits::default())
    }
}
