//! The controller: how much may be behind the box, from what left and what came back.

mod drain;
mod forecast;

use std::collections::VecDeque;

use narrows_units::{Bytes, Duration, Instant, Rate};

use super::config::{FollowConfig, Idea};
use super::distances::{Answer, Distances};
use super::echoes::Echo;
use super::phase::FollowPhase;
use drain::{Base, Drain};
use forecast::Forecast;

/// A packet of data: the link's time for it is the unit of all steps.
const PACKET: u64 = 1500;
/// The longest span over which deliveries are measured.
const LONGEST_SPAN: Duration = Duration::from_millis(1500);
/// The rate that people are told is an average over so long, and over so many packet times.
const TOLD_OVER: Duration = Duration::from_secs(2);
const TOLD_PACKETS: u64 = 16;
/// Without news for so long all that is under way is taken for lost.
const LOST_AFTER: Duration = Duration::from_secs(1);
const LOST_AT_MOST: Duration = Duration::from_secs(2);
/// What was found is no longer known after so long without news.
const FORGOTTEN: Duration = Duration::from_secs(30);
/// Packets that left within this, or two packet times, have waited alike.
const NEAR: Duration = Duration::from_millis(20);
/// Who answered in this time may answer next.
const OF_LATE: Duration = Duration::from_secs(2);
/// What a link of which nothing is known is tried with.
const FIRST: u64 = 4;
/// What a link that was full is tried with when it is not: so many times what it carries.
const AGAIN: f64 = 1.25;
/// A step of [`Idea::Vegas`], packets per acknowledgment.
const STEP: f64 = 0.1;

/// The state of a controller.
#[derive(Debug)]
pub struct Control {
    config: FollowConfig,
    /// Bytes that have left, those known to be across, and those no longer waited for.
    departed: u64,
    confirmed: u64,
    written_off: u64,
    /// What was across when, less the way of the packet that told, over a little more than the span.
    deliveries: VecDeque<(Instant, u64)>,
    base: Base,
    distances: Distances,
    forecast: Forecast,
    /// By how much the way of the farthest of those who answered of late is longer than that of who answered last, and
    /// when the farthest did.
    farthest: (Instant, Duration),
    farther: Duration,
    /// Whether a rate was measured yet.
    known: bool,
    /// What the link delivers now, and over a longer time; bit/s.
    rate: f64,
    told: f64,
    told_at: Instant,
    /// Bytes that may be under way.
    window: f64,
    /// How late the last acknowledgment was, beyond the base and the packet's own time.
    late: Duration,
    last_echo: Instant,
    /// When a packet last told that it was across.
    heard_at: Instant,
    last_departure: Instant,
    /// When something could have left and nothing waited.
    idle_at: Instant,
    /// The packet that ends this round trip, and the least lateness in it.
    round_ends: u64,
    round_late: Duration,
    searching: bool,
    /// The link has been full.
    found: bool,
    drain: Drain,
    patience: Duration,
    silent: bool,
    /// Packets that left again after they were lost behind the box.
    pub lost: u64,
    /// When pacing lets the next packet go.
    free_at: Instant,
    /// When [`Idea::Rate`] looked last.
    stepped_at: Instant,
}

impl Control {
    /// Of a link of which nothing is known but its bounds.
    pub fn new(config: FollowConfig) -> Self {
        let floor = config.floor().as_bps() as f64;
        Self {
            config,
            departed: 0,
            confirmed: 0,
            written_off: 0,
            deliveries: VecDeque::new(),
            base: Base::NONE,
            distances: Distances::new(config.idea == Idea::Forecast),
            forecast: Forecast::NEW,
            farthest: (Instant::ZERO, Duration::ZERO),
            farther: Duration::ZERO,
            known: false,
            rate: floor,
            told: floor,
            told_at: Instant::ZERO,
            window: (FIRST * PACKET) as f64,
            late: Duration::ZERO,
            last_echo: Instant::ZERO,
            heard_at: Instant::ZERO,
            last_departure: Instant::ZERO,
            idle_at: Instant::ZERO,
            round_ends: 0,
            round_late: Duration::MAX,
            searching: true,
            found: false,
            drain: Drain::No,
            patience: LOST_AFTER,
            silent: false,
            lost: 0,
            free_at: Instant::ZERO,
            stepped_at: Instant::ZERO,
        }
    }

    /// Other settings.
    pub fn reconfigure(&mut self, config: FollowConfig) {
        self.config = config;
        self.rate = self.bounded(self.rate);
        self.told = self.bounded(self.told);
    }

    fn bounded(&self, rate: f64) -> f64 {
        rate.clamp(self.config.floor().as_bps() as f64, self.config.ceiling().as_bps() as f64)
    }

    /// Bytes under way, as far as is known.
    pub fn in_flight(&self) -> u64 {
        self.departed - self.confirmed.max(self.written_off)
    }

    /// How much of what left is no longer waited for.
    pub const fn written_off(&self) -> u64 {
        self.written_off
    }

    /// What the link carries, as far as is known.
    pub fn told_rate(&self) -> Rate {
        Rate::from_bps(self.told as u64)
    }

    /// The shortest round trip behind the box.
    pub fn base(&self) -> Option<Duration> {
        self.base.get()
    }

    /// How late the last acknowledgment was.
    pub const fn late(&self) -> Duration {
        self.late
    }

    /// Bytes that may be under way.
    pub const fn window(&self) -> u64 {
        self.window as u64
    }

    /// Nothing of what is under way will tell, and nothing has for long: what leaves cannot be bounded by the link.
    fn is_blind(&self, now: Instant, oldest: Option<Instant>) -> bool {
        oldest.is_none() && (!self.known || now.since(self.heard_at) > FORGOTTEN)
    }

    /// What bounds what leaves, if anything `waits`.
    pub fn phase(&self, now: Instant, waits: bool, oldest: Option<Instant>) -> FollowPhase {
        if self.is_blind(now, oldest) && self.departed > 0 && now.since(self.last_departure) < TOLD_OVER {
            FollowPhase::Blind
        } else if !waits {
            FollowPhase::Idle
        } else if self.silent {
            FollowPhase::Silent
        } else if !matches!(self.drain, Drain::No) {
            FollowPhase::Draining
        } else if now.since(self.idle_at) < self.span() {
            FollowPhase::Idle
        } else if self.searching {
            FollowPhase::Searching
        } else {
            FollowPhase::Following
        }
    }

    fn packet_time(&self) -> Duration {
        seconds(PACKET as f64 * 8.0 / self.told)
    }

    /// Over how long deliveries are measured.
    fn span(&self) -> Duration {
        let packets = self.packet_time() * u64::from(self.config.span);
        packets.max(self.config.span_min).min(LONGEST_SPAN.max(self.config.span_min))
    }

    /// A packet of `bytes` leaves; whether others wait behind it.
    pub fn departs(&mut self, now: Instant, bytes: u64, waiting: bool) {
        if self.in_flight() == 0 {
            if now.since(self.last_echo) > self.span() {
                self.deliveries.clear();
            }
            self.last_echo = now;
        }
        self.departed += bytes;
        self.last_departure = now;
        let pace = match self.config.idea {
            Idea::Rate => Rate::from_bps(self.rate as u64),
            _ => self.config.ceiling(),
        };
        self.free_at = self.free_at.max(now) + pace.time_to_send(Bytes(bytes));
        if !waiting {
            self.idle_at = now;
        }
    }

    /// Something could leave and nothing waits.
    pub fn idles(&mut self, now: Instant) {
        self.idle_at = now;
    }

    /// News of a packet that left.
    pub fn echo(&mut self, now: Instant, echo: Echo) {
        let rtt = now.since(echo.at);
        self.base.add(now, rtt);
        if self.silent {
            // What is long now may be what an outage has left: no reason to send little.
            self.base.met_at = now;
            self.resumes(now);
        }
        let way = self.way(now, echo);
        let base = way.or(self.base.get()).unwrap_or(rtt);
        self.late = rtt.saturating_sub(base);
        if base >= self.farthest.1 || now.since(self.farthest.0) > OF_LATE {
            self.farthest = (now, base);
        }
        self.farther = self.farthest.1.saturating_sub(base);
        (self.last_echo, self.heard_at) = (now, now);
        self.silent = false;
        // One that an outage has made long is no measure of the next.
        let usual = (base + self.packet_time()) * 4;
        self.patience = LOST_AFTER.max(rtt * 4).min(LOST_AT_MOST.max(usual));
        if echo.total > self.confirmed {
            if !self.known {
                // As a sender's slow start.
                self.window += (echo.total - self.confirmed) as f64;
            }
            if self.forecasts() {
                self.rate = self.crossed(now, echo, base, way.is_some()).unwrap_or(self.rate);
            }
            self.confirmed = echo.total;
            self.measure(now, base);
        }
        self.round(now, echo, base);
        self.drain(now, echo);
        self.set_window(now, base);
    }

    /// The shortest round trip of who answers.
    fn way(&mut self, now: Instant, echo: Echo) -> Option<Duration> {
        let emptied = matches!(self.drain, Drain::Measure { from, .. } if echo.total > from);
        let Echo { host, at, alone, .. } = echo;
        let answer = Answer { host, rtt: now.since(at), at, alone, emptied, least: self.base.get() };
        self.distances.learn(answer, (self.packet_time() * 2).max(NEAR))
    }

    /// Measures what the link delivers.
    fn measure(&mut self, now: Instant, base: Duration) {
        // By when they crossed the link: from far the news comes later.
        let across = self.deliveries.back().map_or(Instant::ZERO, |last| last.0).max(now - base);
        self.deliveries.push_back((across, self.confirmed));
        let span = self.span();
        while self.deliveries.get(1).is_some_and(|second| across.since(second.0) >= span) {
            self.deliveries.pop_front();
        }
        let Some(&(from, then)) = self.deliveries.front() else { return };
        let time = across.since(from);
        if time < span / 2 {
            return;
        }
        let sample = self.bounded((self.confirmed - then) as f64 * 8.0 / time.as_secs_f64());
        // What is delivered says nothing of the link's rate if not enough was sent: only that it is no less.
        let full = self.idle_at <= from && matches!(self.drain, Drain::No);
        if !self.known {
            (self.known, self.told, self.told_at) = (true, sample, now);
        }
        if self.forecasts() {
            self.delivers(sample);
            if full || sample > self.told {
                self.tell(now, sample);
            }
        } else if full || sample > self.rate {
            self.rate = sample;
            self.tell(now, sample);
        }
    }

    /// Averages the rate for people and for the discipline.
    fn tell(&mut self, now: Instant, sample: f64) {
        let over = TOLD_OVER.max(self.packet_time() * TOLD_PACKETS);
        let since = now.since(self.told_at).min(over);
        self.told_at = now;
        self.told += (sample - self.told) * since.as_secs_f64() / over.as_secs_f64();
    }

    /// Ends the round trip when a packet comes back that left in it.
    fn round(&mut self, now: Instant, echo: Echo, base: Duration) {
        self.round_late = self.round_late.min(self.late);
        if echo.total < self.round_ends {
            return;
        }
        let quarter = base / 4;
        let own = seconds(PACKET as f64 * 8.0 / self.rate);
        let bound =
            self.config.target + own * (self.config.packets as u64 + 1) + quarter.min(self.config.target);
        if self.round_late > bound {
            (self.searching, self.found) = (false, true);
        } else if self.round_late <= own && now.since(self.idle_at) > base && base > self.config.target * 4 {
            // A long way and no queue on it: far more may fit.
            self.searching = true;
        }
        (self.round_ends, self.round_late) = (self.departed, Duration::MAX);
    }

    fn set_window(&mut self, now: Instant, base: Duration) {
        let own = |packets: f64| packets * PACKET as f64;
        let carried = |rate: f64, time: Duration| rate * time.as_secs_f64() / 8.0;
        if !self.known {
            return;
        }
        self.window = match self.config.idea {
            Idea::Forecast | Idea::Window => {
                let gain = match (self.searching, self.found) {
                    (false, _) => 1.0,
                    (true, false) => 2.0,
                    (true, true) => AGAIN,
                };
                gain * carried(self.rate, base)
                    + carried(self.rate, self.config.target)
                    + own(self.config.packets)
            }
            Idea::Vegas => {
                let target = self.config.target.as_secs_f64() + own(self.config.packets) * 8.0 / self.rate;
                let error = (self.late.as_secs_f64() / target - 1.0).clamp(-1.0, 2.0);
                let full = error > 0.0 || now.since(self.idle_at) > base;
                (self.window - if full { error * own(STEP) } else { 0.0 }).max(own(self.config.packets + 1.0))
            }
            Idea::Rate => return self.step(now),
        };
        if !matches!(self.drain, Drain::No) {
            let standing = carried(self.rate, self.config.target) + own(self.config.packets);
            // Not the way of who answered last: a wait that was not seen would be kept for ever.
            let path = carried(self.rate, self.base.get().map_or(base, |least| least.min(base)));
            self.window = (path - standing * 2.0).max(path * 0.5).max(own(1.0));
            return;
        }
        self.window = self.window.max(own(2.0));
    }

    /// [`Idea::Rate`]: a step each few packet times.
    fn step(&mut self, now: Instant) {
        self.window = f64::INFINITY;
        if now.since(self.stepped_at) < self.span() {
            return;
        }
        self.stepped_at = now;
        let full = now.since(self.idle_at) > self.span();
        let late = self.config.target + self.packet_time() * (self.config.packets as u64 + 1);
        if self.late > late {
            self.rate = self.bounded(self.rate * 0.85);
        } else if full {
            self.rate = self.bounded(self.rate.max(self.told) * 1.08);
        }
    }

    /// The time at which a packet of `bytes` may leave, if time alone lets it.
    pub fn ready(&self, now: Instant, bytes: u64, oldest: Option<Instant>) -> Instant {
        let room = self.room_at(now, bytes, oldest);
        let lost = self.last_departure.max(self.last_echo) + self.patience;
        room.min(lost).max(self.free_at).max(now)
    }

    /// When there is room in the window: acknowledgments that pause are taken to come a little longer, or for ever if
    /// nothing is under way that could be acknowledged.
    fn room_at(&self, now: Instant, bytes: u64, oldest: Option<Instant>) -> Instant {
        let in_flight = self.in_flight();
        // To the nearest packet: rounding down would cost half of one on average, which is much of a short way.
        let lacks = (in_flight + bytes / 2) as f64 - self.window;
        let forecasts = self.forecasts() && self.known && oldest.is_some() && !self.silent;
        let forecasts = forecasts && matches!(self.drain, Drain::No);
        if in_flight == 0 || (lacks <= 0.0 && !forecasts) || self.is_blind(now, oldest) {
            return Instant::ZERO;
        }
        if forecasts {
            return self.room_forecast(bytes).unwrap_or(Instant::FAR_FUTURE);
        }
        let wait = seconds(lacks * 8.0 / self.rate);
        let heard = self.last_echo;
        // What left since for those who are farther is answered by so much later.
        let farther = if matches!(self.drain, Drain::No) { self.farther } else { Duration::ZERO };
        if oldest.is_some() && wait > self.config.bridge + farther {
            return Instant::FAR_FUTURE;
        }
        heard + wait
    }

    /// A packet may leave although the window is full: how much is taken for across or lost then.
    pub fn gives_up(&mut self, now: Instant, bytes: u64, oldest: Option<Instant>) -> Option<u64> {
        if self.is_blind(now, oldest) {
            (self.written_off, self.last_echo) = (self.departed, now);
            return Some(self.departed);
        }
        if self.room_at(now, bytes, oldest) <= now {
            if oldest.is_none() && self.in_flight() > 0 {
                return self.assume(now);
            }
            return None;
        }
        self.silent = true;
        self.forecast.gives_up(now);
        self.written_off = self.departed;
        // The time without a link says nothing of its rate once it is back.
        self.deliveries.clear();
        self.patience = (self.patience * 2).min(LOST_AT_MOST.max(self.patience));
        self.window = (PACKET * 2) as f64;
        self.last_echo = now;
        None
    }

    /// Nothing under way can be acknowledged: it is taken to be delivered at the rate.
    fn assume(&mut self, now: Instant) -> Option<u64> {
        let time = now.since(self.last_echo);
        let bytes = (self.rate * time.as_secs_f64() / 8.0) as u64;
        self.written_off = (self.confirmed.max(self.written_off) + bytes).min(self.departed);
        self.last_echo = now;
        Some(self.written_off)
    }
}

fn seconds(s: f64) -> Duration {
    Duration::from_nanos((s * 1e9) as u64)
}
