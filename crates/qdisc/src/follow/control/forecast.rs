//! [`Idea::Forecast`](super::Idea::Forecast): what is across now is forecast from what was across by the last news, and
//! from what was not.
//!
//! A packet to a host whose way is known crossed the link that way's length before its acknowledgment came. Since then
//! the link has carried on at the rate at which it was busy of late. That cannot have brought more across than this: a
//! packet whose acknowledgment is still out had not crossed one way's length ago. So much, the standing queue and half
//! a packet may have left (the cautious forecast is that of Sprout: Winstein, Sivaraman and Balakrishnan, NSDI 2013).
//!
//! The rate is what crossed by the time in which the link had something to send. Whoever divides by all time takes what
//! was sent for what can be carried, and far behind a modem it takes him seconds to see that it carries more.

use std::collections::VecDeque;

use narrows_units::{Duration, Instant};

use super::super::config::Idea;
use super::{Control, OF_LATE, PACKET, seconds};
use crate::follow::echoes::{Due, Echo};

/// How much later than its way an acknowledgment comes without telling that its packet is: what is seen on average
/// where the link rested, within bounds. Receivers have timers, and uploads queue on the way back.
const SLACK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(60));
/// The standing queue that is aimed at: a time, and packets, fewer where a packet takes long.
const TARGET: Duration = Duration::from_millis(20);
const PACKETS: (f64, f64) = (0.5, 1.0);
/// A link that rested is believed to carry so many times what was known: ways are known to some milliseconds, and its
/// time for a packet may be less.
const RISE: f64 = 2.0;
/// After an outage the link is taken to carry this part of what people were told before: what it carried last was less
/// and less.
const RESUMES: f64 = 0.5;
/// A link carries no less than this part of what it delivered in a span; not all, as ways may be mistaken.
const DELIVERED: f64 = 0.65;
/// Fewer packets under way tell too little: each is answered only once the next has come (RFC 5681, section 4.2).
const LEAST: u64 = 2;

/// What is known of the link's queue.
#[derive(Debug)]
pub(super) struct Forecast {
    /// When the last packet crossed that is known to have.
    across: Instant,
    /// Bytes that crossed together, and how long the link was busy with them, over a little more than the span.
    services: VecDeque<(u64, Duration)>,
    served_at: Instant,
    /// What left before was written off: how long the link was busy with it is not known.
    void_until: Instant,
    /// How late acknowledgments come by themselves.
    slack: Duration,
    /// Bytes that can be across by now at most.
    bound: f64,
    /// When the link will have sent what it has, and how many bytes had left with that.
    free_at: Instant,
    queued: u64,
}

impl Forecast {
    pub const NEW: Self = Self {
        across: Instant::ZERO,
        services: VecDeque::new(),
        served_at: Instant::ZERO,
        void_until: Instant::ZERO,
        slack: SLACK.0,
        bound: f64::INFINITY,
        free_at: Instant::ZERO,
        queued: 0,
    };

    /// What is under way does not tell the rate: it is taken for lost, or comes after an outage.
    pub fn gives_up(&mut self, now: Instant) {
        self.void_until = now;
        self.services.clear();
    }

    /// The link was busy with `bytes` for so long; what it carries while it is, over the last `span` of such time.
    fn served(&mut self, bytes: u64, busy: Duration, (span, least): (Duration, Duration)) -> Option<f64> {
        self.services.push_back((bytes, busy));
        let mut time: Duration = self.services.iter().fold(Duration::ZERO, |sum, s| sum + s.1);
        while self.services.len() > 1 && time.saturating_sub(self.services[0].1) >= span {
            time = time.saturating_sub(self.services[0].1);
            self.services.pop_front();
        }
        let bytes: u64 = self.services.iter().map(|s| s.0).sum();
        (time > Duration::ZERO).then(|| bytes as f64 * 8.0 / time.max(least).as_secs_f64())
    }
}

impl Control {
    /// News comes again after an outage.
    pub(super) fn resumes(&mut self, now: Instant) {
        if self.forecasts() {
            self.forecast.gives_up(now);
            self.rate = self.rate.max(self.told * RESUMES);
        }
    }

    /// So much was delivered, bit/s.
    pub(super) fn delivers(&mut self, rate: f64) {
        self.rate = self.rate.max(rate * DELIVERED);
    }

    /// Whether this idea is asked for: nothing is kept for it where it is not.
    pub(super) fn forecasts(&self) -> bool {
        self.config.idea == Idea::Forecast
    }

    /// More has crossed than was known, `base` ago if the way of who tells is `sure`; the link's rate if that tells it.
    pub(super) fn crossed(&mut self, now: Instant, echo: Echo, base: Duration, sure: bool) -> Option<f64> {
        let bytes = echo.total - self.confirmed;
        let before = self.forecast.across;
        let (began, latest) = (echo.first.max(before), now - base);
        if !sure && self.known && now.since(self.forecast.served_at) <= OF_LATE {
            let guess = began + seconds(bytes as f64 * 8.0 / self.rate);
            self.forecast.across = guess.max(echo.at).min(latest).max(before);
            return None;
        }
        let across = latest.max(before);
        (self.forecast.across, self.forecast.served_at) = (across, now);
        // Alone it says nothing of what else would have fitted, unless all stood in the queue.
        let full = echo.at <= before;
        let waited = !self.known || self.idle_at < echo.at;
        if echo.first < self.forecast.void_until || !(waited || full) {
            return None;
        }
        // Of a link that rested when they left, an acknowledgment that a receiver delays makes a slow one.
        let mut busy = across.since(began);
        if echo.first > before {
            let own = seconds(bytes as f64 * 8.0 / self.rate);
            let slack = self.late.saturating_sub(own).clamp(SLACK.0, SLACK.1);
            self.forecast.slack = (self.forecast.slack * 15 + slack) / 16;
            if bytes as f64 * 8.0 <= self.rate * busy.as_secs_f64() {
                return None;
            }
            busy = busy.max(seconds(bytes as f64 * 8.0 / (self.rate * RISE)));
        }
        let spans = (self.span(), self.config.span_min);
        self.forecast.served(bytes, busy, spans).map(|rate| self.bounded(rate))
    }

    /// All that is under way, after news.
    pub fn all_due(&mut self, due: impl Iterator<Item = Due>) {
        if !self.forecasts() {
            return;
        }
        self.forecast.bound = f64::INFINITY;
        self.forecast.free_at = self.forecast.across;
        self.forecast.queued = self.confirmed.max(self.written_off);
        due.for_each(|due| self.due(due));
    }

    /// A packet is under way: it crosses behind those before it, and no sooner than it left.
    pub fn due(&mut self, due: Due) {
        if !self.forecasts() {
            return;
        }
        let bytes = due.total.saturating_sub(self.forecast.queued);
        self.forecast.queued = due.total;
        self.forecast.free_at = self.forecast.free_at.max(due.at) + seconds(bytes as f64 * 8.0 / self.rate);
        let Some(host) = due.host else { return };
        let way = self.distances.way_of(host).unwrap_or(self.farthest.1);
        let bound = due.total as f64 + self.rate * (way + self.forecast.slack).as_secs_f64() / 8.0;
        self.forecast.bound = self.forecast.bound.min(bound);
    }

    /// When there is room for a packet of `bytes`, if there will be before news comes.
    pub(super) fn room_forecast(&self, bytes: u64) -> Option<Instant> {
        if self.in_flight() + bytes / 2 <= LEAST * PACKET {
            return Some(Instant::ZERO);
        }
        let aimed_at = self.rate * TARGET.as_secs_f64() / 8.0;
        let packet = PACKET as f64;
        let standing = aimed_at + (PACKETS.0 * packet + aimed_at).min(PACKETS.1 * packet);
        let beyond = standing - (bytes / 2) as f64;
        let wanted = self.departed as f64 - beyond;
        let at = self.forecast.free_at - seconds(beyond.max(0.0) * 8.0 / self.rate);
        (wanted <= self.forecast.bound).then_some(at)
    }
}
