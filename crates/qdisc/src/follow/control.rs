//! Controller of what may be behind the box, from what left and what came back.
//!
//! While the rate is known and acknowledgments come, the [`Forecast`] says when the next packet may leave. Else, at the
//! start, after an outage, while the queue is drained, and where nothing under way can be acknowledged, a window does:
//! what the link carries in its shortest round trip, and a little more (BBR: Cardwell et al., ACM Queue 14(5), 2016).
//! The window's states and its drain are BBR's startup and its measurement of the round trip.

use narrows_units::{Duration, Instant, Rate};
use narrows_wire::Header;

use super::Departure;
use super::PACKET;
use super::config::FollowConfig;
use super::decisions::{DecisionReason, DecisionSignals, Reasons};
use super::departure_times::{DepartureTimes, LOST_AFTER, LOST_AT_MOST};
use super::echoes::{Echo, Echoes};
use super::forecast::{Crossing, Forecast, Room};
use super::paths::{Answer, Paths};
use super::rate::{AVERAGED_OVER, RateEstimate};
use super::report::{FollowPhase, FollowReport};
use super::sides::{LinkSide, Waits};

/// Time without news after which the rate is no longer believed.
const FORGOTTEN: Duration = Duration::from_secs(30);
/// Packets that left within this, or two packet times, have waited alike.
const NEAR: Duration = Duration::from_millis(20);
/// Time after the last departure at which a packet leaves while news come, whatever is under way: a queue that others
/// have filled, or that filled before its place was found, may take longer to leave than a box may seem to hang.
const LEAVES_EVERY: Duration = Duration::from_secs(1);
/// Most of a packet's time on the link that counts as a round trip: where a packet takes longer, two of them under way
/// outlast the 40 ms by which receivers delay an acknowledgment, and a rate that falls makes no path seem longer.
const LEAST_ROUND_TRIP: Duration = Duration::from_millis(20);
/// Packets that a link is tried with of which nothing is known.
const FIRST: u64 = 4;

/// Search for the window at which the link is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    /// The link has never been full: the window doubles.
    Startup,
    /// The link is full.
    Full,
    /// The link was full and has no queue now: more is tried.
    Again,
}

impl Search {
    /// Window, in multiples of what the link carries in a round trip.
    const fn gain(self) -> f64 {
        match self {
            Self::Startup => 2.0,
            Self::Full => 1.0,
            Self::Again => 1.25,
        }
    }
}

/// Measurement of the shortest round trip, for which the window is small for a while.
#[derive(Clone, Copy, Debug)]
enum Drain {
    No,
    /// Waits until no more than the small window is under way.
    Down,
    /// Measures packets that left after `from` bytes: these packets found no queue.
    Measure {
        from: u64,
        /// Bytes that have to be back for the end, once the first such packet is.
        until: Option<u64>,
        shortest: Option<Duration>,
    },
}

/// Bytes on the link, counted from the start.
#[derive(Clone, Copy, Debug, Default)]
struct Transit {
    departed: u64,
    /// Bytes known to be across.
    confirmed: u64,
    /// Bytes no longer waited for, across the link or lost.
    written_off: u64,
}

impl Transit {
    /// Bytes that are across or written off.
    fn gone(&self) -> u64 {
        self.confirmed.max(self.written_off)
    }

    fn in_flight(&self) -> u64 {
        self.departed - self.gone()
    }
}

/// A round trip; ends when a packet comes back that left in the same round trip.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// Bytes that had left when the round trip began.
    ends: u64,
    /// Shortest wait behind the box in the round trip.
    least_late: Option<Duration>,
}

/// State of the controller.
#[derive(Debug)]
pub(super) struct Control {
    config: FollowConfig,
    transit: Transit,
    echoes: Echoes,
    paths: Paths,
    rate: RateEstimate,
    forecast: Forecast,
    /// Bytes that may be under way while no forecast is made.
    window: f64,
    search: Search,
    drain: Drain,
    round: Round,
    /// Round trip of the last acknowledgment, less the path of the host that answered.
    late: Duration,
    /// Time at which an answer last showed that a packet was across the link.
    heard_at: Instant,
    times: DepartureTimes,
    /// Whether another controller bounds what leaves.
    looks_on: bool,
    /// Waits since the last record, whether the link was full at the last news, and reasons of decisions: for records
    /// only.
    waits: Waits,
    stood: bool,
    reasons: Reasons,
}

impl Control {
    /// A controller for a link of which only the bounds are known. `seed` keys the hashes.
    pub fn new(config: FollowConfig, seed: u64) -> Self {
        Self {
            transit: Transit::default(),
            echoes: Echoes::new(seed),
            paths: Paths::new(),
            rate: RateEstimate::new(&config),
            forecast: Forecast::new(),
            window: (FIRST * PACKET) as f64,
            search: Search::Startup,
            drain: Drain::No,
            round: Round::default(),
            late: Duration::ZERO,
            heard_at: Instant::ZERO,
            times: DepartureTimes::new(),
            looks_on: false,
            waits: Waits::default(),
            stood: false,
            reasons: Reasons::new(),
            config,
        }
    }

    /// Takes other settings while packets wait.
    pub fn reconfigure(&mut self, config: FollowConfig) {
        self.config = config;
        self.rate.reconfigure(&config);
    }

    /// Says whether another controller bounds what leaves. Then the queue is never let run empty, so nothing is taken
    /// for the shortest round trip because it should have.
    pub const fn look_on(&mut self, looks_on: bool) {
        self.looks_on = looks_on;
        self.drain = Drain::No;
    }

    /// Time by which the last packet that came back had waited behind the box.
    pub const fn late(&self) -> Duration {
        self.late
    }

    /// Packets that were sent again after a loss behind the box.
    pub const fn sent_again(&self) -> u64 {
        self.echoes.sent_again()
    }

    /// Rate of the link, or the rate of the settings until one is found.
    pub fn rate(&self) -> Rate {
        self.rate.average()
    }

    /// State of the controller to report; `waits` says whether packets wait in the box.
    pub fn report(&self, now: Instant, waits: bool) -> FollowReport {
        let rate_bps = self.rate.average().as_bps();
        FollowReport {
            rate_bps,
            found_bps: self.paths.shortest().map(|_| rate_bps),
            phase: self.phase(now, waits),
            base: self.paths.shortest(),
            late: self.late,
            in_flight: self.transit.in_flight(),
            window: self.window as u64,
            lost: self.echoes.sent_again(),
            side: Some(LinkSide::Behind),
            signals: None,
        }
    }

    fn phase(&self, now: Instant, waits: bool) -> FollowPhase {
        let sends = self.transit.departed > 0 && now.since(self.times.last()) < AVERAGED_OVER;
        if sends && self.is_blind(now) {
            FollowPhase::Blind
        } else if !waits {
            FollowPhase::Idle
        } else if self.times.is_silent() {
            FollowPhase::Silent
        } else if self.is_draining() {
            FollowPhase::Draining
        } else if now.since(self.times.idle_at()) < self.rate.span(&self.config) {
            FollowPhase::Idle
        } else if self.search == Search::Full {
            FollowPhase::Following
        } else {
            FollowPhase::Searching
        }
    }

    /// Reasons of decisions since the last call.
    pub fn reasons(&mut self) -> Reasons {
        self.reasons.take()
    }

    /// Signals since the last call.
    pub fn take_signals(&mut self) -> DecisionSignals {
        let acknowledgments = core::mem::take(&mut self.waits).into();
        DecisionSignals { acknowledgments, ..DecisionSignals::default() }
    }

    /// Whether the link was full at the last news.
    pub const fn queue_stands(&self) -> bool {
        self.stood
    }

    /// Whether packets leave and nothing tells of them.
    pub fn is_blind(&self, now: Instant) -> bool {
        self.is_blind_with(now, self.oldest())
    }

    /// Bytes that may be under way while no forecast is made; `None` while nothing is held back.
    pub fn held_to(&self, now: Instant) -> Option<u64> {
        (!self.is_blind(now)).then_some(self.window as u64)
    }

    const fn is_draining(&self) -> bool {
        !matches!(self.drain, Drain::No)
    }

    /// Departure of the oldest packet under way that will be acknowledged.
    fn oldest(&self) -> Option<Instant> {
        self.echoes.oldest(self.transit.written_off)
    }

    /// Whether no packet under way, `oldest` the first of them, will tell, and none has for long: the link cannot bound
    /// what leaves.
    fn is_blind_with(&self, now: Instant, oldest: Option<Instant>) -> bool {
        oldest.is_none() && (!self.rate.is_measured() || now.since(self.heard_at) > FORGOTTEN)
    }

    /// Notes that a packet could leave and nothing waits.
    pub const fn idles(&mut self, now: Instant) {
        self.times.idles(now);
    }

    /// Time at which a packet of `bytes` may leave, if nothing is acknowledged before.
    pub fn ready(&self, now: Instant, bytes: u64) -> Instant {
        let lost = self.times.lost_at();
        let room = match self.room(now, bytes, self.oldest()) {
            Room::Now => now,
            Room::From(at) => at.min(lost),
            Room::AfterNews => lost,
        };
        self.times.ready(now, self.trickles().map_or(room, |trickles| trickles.min(room)))
    }

    /// Time at which a packet leaves whatever is under way.
    fn trickles(&self) -> Option<Instant> {
        let at = self.times.last() + LEAVES_EVERY;
        (at < self.heard_at + LOST_AFTER).then_some(at)
    }

    /// Time at which there is room behind the box: acknowledgments that pause are taken to come a little longer, or for
    /// ever if nothing is under way that could be acknowledged.
    fn room(&self, now: Instant, bytes: u64, oldest: Option<Instant>) -> Room {
        let in_flight = self.transit.in_flight();
        let forecasts =
            self.rate.is_measured() && oldest.is_some() && !self.times.is_silent() && !self.is_draining();
        // To the nearest packet: rounding down would cost half of one on average, which is much of a short path.
        let lacks = (in_flight + bytes / 2) as f64 - self.window;
        if in_flight == 0 || (lacks <= 0.0 && !forecasts) || self.is_blind_with(now, oldest) {
            return Room::Now;
        }
        if forecasts {
            return self.forecast.room(bytes, self.transit.departed, in_flight, &self.rate);
        }
        let wait = self.rate.time_for(lacks);
        // Acknowledgments from more distant hosts arrive later than those that came last.
        let later = if self.is_draining() { Duration::ZERO } else { self.paths.spread() };
        if oldest.is_some() && wait > self.config.bridge + later {
            return Room::AfterNews;
        }
        Room::From(self.times.room_at() + wait)
    }

    /// Writes off what has to be, so that a packet of `bytes`, which is [`ready`](Self::ready), may leave.
    pub fn make_room(&mut self, now: Instant, bytes: u64) {
        let before = self.transit.written_off;
        let oldest = self.oldest();
        let room = self.room(now, bytes, oldest);
        let has_room = room == Room::Now || matches!(room, Room::From(at) if at <= now);
        if self.is_blind_with(now, oldest) {
            self.take_for_gone(now, self.transit.departed);
        } else if !has_room {
            if self.trickles().is_none_or(|trickles| trickles > now) {
                self.give_up(now);
            }
        } else if oldest.is_none() && self.transit.in_flight() > 0 {
            // Nothing under way can be acknowledged: it is taken to be delivered at the rate.
            let bytes = self.rate.carried_in(now.since(self.times.room_at())) as u64;
            self.take_for_gone(now, (self.transit.gone() + bytes).min(self.transit.departed));
        }
        if self.transit.written_off != before {
            self.restart_forecast();
        }
    }

    fn take_for_gone(&mut self, now: Instant, total: u64) {
        self.transit.written_off = total;
        self.times.knows_room(now);
        self.echoes.pass(total);
    }

    /// Writes off the data under way: no acknowledgment has come for long.
    fn give_up(&mut self, now: Instant) {
        if !self.times.is_silent() {
            self.reasons.note(DecisionReason::Outage);
        }
        self.times.gives_up(now);
        self.forecast.give_up(now);
        self.transit.written_off = self.transit.departed;
        // The time without a link says nothing of its rate once it is back.
        self.rate.forget_deliveries();
        self.window = (PACKET * 2) as f64;
    }

    /// Writes off what it would if it bounded what leaves, before a packet of `bytes` that another lets go.
    pub fn keep_up(&mut self, now: Instant, bytes: u64) {
        if self.ready(now, bytes) <= now {
            self.make_room(now, bytes);
        }
    }

    /// Notes a packet that leaves.
    pub fn departs(&mut self, now: Instant, departure: &Departure<'_>) {
        let &Departure { header, bytes, waiting, .. } = departure;
        let alone = self.transit.in_flight() == 0;
        let due = self.echoes.departs(now, header, bytes, alone);
        if alone {
            if now.since(self.times.room_at()) > self.rate.span(&self.config) {
                self.rate.forget_deliveries();
            }
            self.times.knows_room(now);
        }
        self.transit.departed += bytes;
        self.times.departs(now, bytes, self.config.ceiling(), waiting);
        self.forecast.add(&due, due.host.map(|host| self.paths.to(host)), &self.rate);
    }

    /// Notes a packet of the other direction. Returns whether it brings news of one that left.
    pub fn returns(&mut self, now: Instant, header: &Header) -> bool {
        let Some(echo) = self.echoes.returns(header) else { return false };
        self.take_news(now, echo);
        self.restart_forecast();
        true
    }

    /// Round trip of a packet that comes back. A token bucket that has rested lets one pass in no time; the next takes
    /// as long as the link has for a packet.
    fn round_trip(&self, now: Instant, echo: Echo) -> Duration {
        let own = self.rate.packet_time_if_known().unwrap_or_default();
        now.since(echo.at).max(own.min(LEAST_ROUND_TRIP))
    }

    fn take_news(&mut self, now: Instant, echo: Echo) {
        let rtt = self.round_trip(now, echo);
        let emptied = matches!(self.drain, Drain::Measure { from, .. } if echo.total > from);
        let answer = Answer { host: echo.host, rtt, left: echo.at, alone: echo.alone, emptied };
        let outage = self.times.is_silent();
        if outage {
            self.reasons.note(DecisionReason::Recovered);
            self.forecast.give_up(now);
            self.rate.resume();
        }
        let near = (self.rate.packet_time() * 2).max(NEAR);
        let path = self.paths.learn(now, answer, near, outage);
        self.late = rtt.saturating_sub(path.rtt);
        self.waits.note(self.late);
        self.heard_at = now;
        // A round trip that an outage has made long is no measure of the next.
        let usual = (path.rtt + self.rate.packet_time()) * 4;
        self.times.hears(now, LOST_AFTER.max(rtt * 4).min(LOST_AT_MOST.max(usual)));
        if echo.total > self.transit.confirmed {
            let bytes = echo.total - self.transit.confirmed;
            if !self.rate.is_measured() {
                // Slow start (RFC 5681, section 3.1).
                self.window += bytes as f64;
            }
            let across = now - path.rtt;
            let news = Crossing {
                bytes,
                first_left: echo.first,
                last_left: echo.at,
                across,
                sure: path.sure,
                late: self.late,
                busy: self.times.idle_at() < echo.at,
            };
            let span = self.rate.span(&self.config);
            if let Some(bps) = self.forecast.crossed(now, &news, &self.rate, span, self.config.span_min) {
                self.rate.set(bps, &self.config);
            }
            self.transit.confirmed = echo.total;
            if let Some(sample) = self.rate.delivered(across, echo.total, &self.config) {
                let full = self.times.idle_at() <= sample.from && !self.is_draining();
                self.stood = full;
                self.rate.take(now, sample, full);
            }
        }
        self.end_round(now, echo, path.rtt);
        self.drain(now, echo);
        self.set_window(path.rtt);
    }

    /// Forecasts what is under way, after news or after some was written off.
    fn restart_forecast(&mut self) {
        self.forecast.restart(self.transit.gone());
        for due in self.echoes.due(self.transit.written_off) {
            self.forecast.add(&due, due.host.map(|host| self.paths.to(host)), &self.rate);
        }
    }

    /// Ends the round trip when a packet comes back that left in it: was there a queue all the time, or none?
    fn end_round(&mut self, now: Instant, echo: Echo, path: Duration) {
        let late = self.round.least_late.map_or(self.late, |least| least.min(self.late));
        if echo.total < self.round.ends {
            self.round.least_late = Some(late);
            return;
        }
        let target = self.config.target;
        let own = self.rate.time_for(PACKET as f64);
        let bound = target + own * (self.config.packets as u64 + 1) + (path / 4).min(target);
        if late > bound {
            if self.search == Search::Startup {
                self.reasons.note(DecisionReason::Full);
            }
            self.search = Search::Full;
        } else if late <= own && now.since(self.times.idle_at()) > path && path > target * 4 {
            // A long path and no queue on it: far more may fit.
            if self.search == Search::Full {
                self.search = Search::Again;
            }
        }
        self.round = Round { ends: self.transit.departed, least_late: None };
    }

    /// Lets the queue run empty now and then, or its standing part would be taken for the path's length.
    fn drain(&mut self, now: Instant, echo: Echo) {
        let rtt = self.round_trip(now, echo);
        match self.drain {
            Drain::No
                if !self.looks_on && self.paths.is_stale(now) && now.since(self.times.idle_at()) > rtt =>
            {
                self.drain = Drain::Down;
                self.reasons.note(DecisionReason::Draining);
            }
            Drain::Down if self.transit.in_flight() <= (self.window as u64).saturating_add(PACKET) => {
                self.paths.measure();
                self.drain = Drain::Measure { from: self.transit.departed, until: None, shortest: None };
            }
            Drain::Measure { from, until, shortest } if echo.total > from => {
                let shortest = shortest.map_or(rtt, |shortest| shortest.min(rtt));
                if until.is_some_and(|until| echo.total >= until) {
                    self.paths.measured(now, shortest);
                    self.drain = Drain::No;
                    self.reasons.note(DecisionReason::Drained);
                    // Deliveries of a drain, as those of an idle link, say nothing of the rate.
                    self.times.idles(now);
                } else {
                    let until = until.or(Some(self.transit.departed));
                    self.drain = Drain::Measure { from, until, shortest: Some(shortest) };
                }
            }
            _ => {}
        }
    }

    /// Sets the window after news from a host on `path`.
    fn set_window(&mut self, path: Duration) {
        if !self.rate.is_measured() {
            return;
        }
        let packets = |count: f64| count * PACKET as f64;
        let carried = |time: Duration| self.rate.carried_in(time);
        let (target, extra) = (self.config.target, packets(self.config.packets));
        self.window = if self.is_draining() {
            let standing = carried(target) + extra;
            // Not the path of the host that answered last: a wait that was not seen would be kept for ever.
            let shortest = carried(self.paths.shortest().map_or(path, |shortest| shortest.min(path)));
            (shortest - standing * 2.0).max(shortest * 0.5).max(packets(1.0))
        } else {
            (self.search.gain() * carried(path) + carried(target) + extra).max(packets(2.0))
        };
    }
}
