//! Forecast of the bytes that have crossed the link by now, from what had crossed by the last news and what had not.
//!
//! A packet to a host whose path is known crossed the link that path's length before its acknowledgment came. Since
//! that moment the link has carried on at the rate at which it was recently busy. That cannot have brought more across
//! than this: a packet whose acknowledgment is still out had not crossed one path's length ago. So much, the standing
//! queue and half a packet may have left (the cautious forecast is that of Sprout: Winstein, Sivaraman and
//! Balakrishnan, NSDI 2013).
//!
//! The rate is what crossed by the time in which the link had something to send. A division by all time takes what was
//! sent for what can be carried, and far behind a modem takes seconds to see that it carries more.

use narrows_units::{Duration, Instant};

use super::echoes::Due;
use super::paths::OF_LATE;
use super::rate::{RateEstimate, Service, Services};
use super::{PACKET, seconds};

/// Bounds of the time by which an acknowledgment is later than its path without telling that its packet is. Between
/// them, the average where the link rested. Receivers have timers, and uploads queue on the way back.
const LEAST_SLACK: Duration = Duration::from_millis(5);
const MOST_SLACK: Duration = Duration::from_millis(60);
/// Standing queue that is aimed at: a time, and beside it half a packet up to a whole one, less where a packet takes
/// long.
const TARGET: Duration = Duration::from_millis(20);
const LEAST_PACKETS: f64 = 0.5;
const MOST_PACKETS: f64 = 1.0;
/// Bound for the rate of a link that rested, in multiples of the rate that was known: paths are known to some
/// milliseconds, and its time for a packet may be less.
const RISE: f64 = 2.0;
/// Packets under way that tell too little: each is answered only once the next has come (RFC 5681, section 4.2).
const LEAST: u64 = 2;

/// Time from which a packet may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// The packet may leave at once.
    Now,
    /// The packet may leave at the instant given.
    From(Instant),
    /// The packet may not leave before something is acknowledged.
    AfterNews,
}

/// News of bytes that have crossed the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossing {
    /// Bytes newly known to be across the link.
    pub bytes: u64,
    /// Departure of the first packet of the news, and of the last.
    pub first_left: Instant,
    pub last_left: Instant,
    /// Time at which the last packet of the news crossed the link.
    pub across: Instant,
    /// Whether the path of the host that answered is known.
    pub sure: bool,
    /// Round trip beyond the path.
    pub late: Duration,
    /// Whether packets waited in the box ever since the last packet of the news left.
    pub busy: bool,
}

/// State of the queue before the link, as known from answers.
#[derive(Debug)]
pub(super) struct Forecast {
    /// Time at which the last packet crossed that is known to have.
    across: Instant,
    /// Services of a little more than a span.
    services: Services,
    served_at: Instant,
    /// Packets that left before this were written off: how long the link was busy with them is not known.
    void_until: Instant,
    /// Time by which acknowledgments are late by themselves.
    slack: Duration,
    /// Bytes that can be across by now at most.
    bound: f64,
    /// Time at which the link will have sent all that left, and how many bytes that is.
    free_at: Instant,
    queued: u64,
}

impl Forecast {
    /// A link of which nothing is known.
    pub fn new() -> Self {
        Self {
            across: Instant::ZERO,
            services: Services::default(),
            served_at: Instant::ZERO,
            void_until: Instant::ZERO,
            slack: LEAST_SLACK,
            bound: f64::INFINITY,
            free_at: Instant::ZERO,
            queued: 0,
        }
    }

    /// Excludes what is under way from the measurement of the rate: it is taken for lost, or comes after an outage.
    pub fn give_up(&mut self, now: Instant) {
        self.void_until = now;
        self.services.clear();
    }

    /// Takes the news that packets have crossed the link. Returns the link's rate in bit/s, measured over `span` and no
    /// less time than `least`, if the news tells it.
    pub fn crossed(
        &mut self,
        now: Instant,
        news: &Crossing,
        rate: &RateEstimate,
        span: Duration,
        least: Duration,
    ) -> Option<f64> {
        let before = self.across;
        let began = news.first_left.max(before);
        let own = rate.time_for(news.bytes as f64);
        if !news.sure && rate.is_measured() && now.since(self.served_at) <= OF_LATE {
            self.across = (began + own).max(news.last_left).min(news.across).max(before);
            return None;
        }
        let across = news.across.max(before);
        (self.across, self.served_at) = (across, now);
        // A packet alone says nothing of what else would have fitted, unless all stood in the queue.
        let full = news.last_left <= before;
        let waited = !rate.is_measured() || news.busy;
        if news.first_left < self.void_until || !(waited || full) {
            return None;
        }
        // Where the link rested when they left, an acknowledgment that a receiver delays makes it seem slow.
        let mut busy = across.since(began);
        if news.first_left > before {
            let slack = news.late.saturating_sub(own).clamp(LEAST_SLACK, MOST_SLACK);
            self.slack = (self.slack * 15 + slack) / 16;
            if news.bytes as f64 * 8.0 <= rate.now_bps() * busy.as_secs_f64() {
                return None;
            }
            busy = busy.max(seconds(news.bytes as f64 * 8.0 / (rate.now_bps() * RISE)));
        }
        self.services.add(Service { bytes: news.bytes, busy }, span, least)
    }

    /// Starts the forecast anew, with `gone` bytes across or written off. All that is under way is to be added.
    pub const fn restart(&mut self, gone: u64) {
        self.bound = f64::INFINITY;
        self.free_at = self.across;
        self.queued = gone;
    }

    /// Adds a packet under way, whose `path` is given if it will tell: it crosses behind those before it, and no sooner
    /// than it left.
    pub fn add(&mut self, due: &Due, path: Option<Duration>, rate: &RateEstimate) {
        let bytes = due.total.saturating_sub(self.queued);
        self.queued = due.total;
        self.free_at = self.free_at.max(due.at) + rate.time_for(bytes as f64);
        if let Some(path) = path {
            self.bound = self.bound.min(due.total as f64 + rate.carried_in(path + self.slack));
        }
    }

    /// When a packet of `bytes` may leave after `departed` bytes, of which `in_flight` are under way.
    pub fn room(&self, bytes: u64, departed: u64, in_flight: u64, rate: &RateEstimate) -> Room {
        if in_flight + bytes / 2 <= LEAST * PACKET {
            return Room::Now;
        }
        let aimed_at = rate.carried_in(TARGET);
        let packet = PACKET as f64;
        let standing = aimed_at + (LEAST_PACKETS * packet + aimed_at).min(MOST_PACKETS * packet);
        let beyond = standing - (bytes / 2) as f64;
        if departed as f64 - beyond > self.bound {
            return Room::AfterNews;
        }
        Room::From(self.free_at - rate.time_for(beyond.max(0.0)))
    }
}
