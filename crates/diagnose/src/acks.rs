//! Acknowledgments that pass the point of capture towards a sender, and what they tell it of losses (RFC 5681, section
//! 3.2; RFC 6675, section 4).

use narrows_units::Instant;

use crate::evidence::Hints;
use crate::judge::DUPTHRESH;
use crate::tolerances::ACKS;

/// ACKs seen on their way to one sender. Once enough duplicates, or selectively acknowledged segments, have told of a
/// loss, that time stays until the sender repairs it or all is acknowledged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Acks {
    /// Times at which the latest ACKs passed, in a ring.
    times: [Instant; ACKS],
    seen: usize,
    /// Duplicate ACKs in a row.
    duplicates: u32,
    /// Time at which enough duplicates had passed.
    told: Option<Instant>,
    /// ACKs that told of any segment behind a gap.
    hints: Option<Hints<Instant>>,
    /// ACKs with news since the latest timeout, and when the latest of new data passed.
    news: u32,
    advanced: Instant,
    /// Whether selective acknowledgments are in use: a sender of today, which sends tail-loss probes.
    selective: bool,
}

impl Acks {
    /// Takes note of an ACK that passes at `at`.
    pub(crate) fn passes(&mut self, at: Instant) {
        self.times[self.seen % ACKS] = at;
        self.seen += 1;
    }

    /// Number of ACKs that have passed.
    pub(crate) fn seen(&self) -> usize {
        self.seen
    }

    /// Times of the latest, in no order.
    pub(crate) fn kept(&self) -> &[Instant] {
        &self.times[..self.seen.min(ACKS)]
    }

    /// Times of the latest, the newest first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = Instant> + '_ {
        (self.seen - self.kept().len()..self.seen).rev().map(|n| self.times[n % ACKS])
    }

    /// Time at which the oldest passed of which the time is remembered, if some have been forgotten.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        (self.seen >= ACKS).then(|| self.times[self.seen % ACKS])
    }

    /// Time at which the latest passed.
    pub(crate) fn latest(&self) -> Option<Instant> {
        Some(self.times[self.seen.checked_sub(1)? % ACKS])
    }

    /// Counts a duplicate ACK.
    pub(crate) fn duplicate(&mut self) {
        self.duplicates += 1;
    }

    /// Notes an ACK of new data.
    pub(crate) fn advance(&mut self, at: Instant) {
        (self.duplicates, self.advanced) = (0, at);
        self.news += 1;
    }

    /// Notes an ACK that selectively acknowledges a segment for the first time.
    pub(crate) fn note_news(&mut self) {
        self.news += 1;
    }

    /// Notes an ACK that tells of a gap; `sacked` segments behind it are selectively acknowledged. `open`: the sender
    /// knew of no gap before.
    pub(crate) fn tell(&mut self, at: Instant, sacked: u32, open: bool) {
        let enough = self.duplicates >= DUPTHRESH || sacked >= DUPTHRESH;
        if enough && open && self.told.is_none() {
            self.told = Some(at);
        }
        if sacked > 0 {
            self.hints = Some(Hints { first: self.hints.map_or(at, |hints| hints.first), latest: at });
        }
    }

    /// The sender uses SACK.
    pub(crate) fn set_selective(&mut self, on: bool) {
        self.selective |= on;
    }

    /// The sender has begun to repair.
    pub(crate) fn is_repaired(&mut self) {
        self.told = None;
    }

    /// Ends the repair: every lost segment is acknowledged.
    pub(crate) fn is_over(&mut self) {
        (self.told, self.hints) = (None, None);
    }

    /// The sender's timer has expired.
    pub(crate) fn expire(&mut self) {
        (self.told, self.duplicates, self.news) = (None, 0, 0);
    }

    pub(crate) fn duplicates(&self) -> u32 {
        self.duplicates
    }

    pub(crate) fn told(&self) -> Option<Instant> {
        self.told
    }

    pub(crate) fn hints(&self) -> Option<Hints<Instant>> {
        self.hints
    }

    pub(crate) fn news(&self) -> u32 {
        self.news
    }

    pub(crate) fn advanced(&self) -> Instant {
        self.advanced
    }

    pub(crate) fn selective(&self) -> bool {
        self.selective
    }
}
