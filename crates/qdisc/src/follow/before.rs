//! Controller for a link before the box: what comes out of it enters here.
//!
//! What the box lets go is acknowledged by a user, which lets a server send as much again, unless the discipline holds
//! that server back: those bytes join the queue before the link a round trip later. So the box decides now what will
//! stand there then. It sends nothing to learn what the queue does; each packet tells as it comes:
//!
//! - Bytes cross the link when they arrive here. While a queue stands there, they arrive at its rate.
//! - A packet has waited at most for the round trip on the far side ([`super::round_trips`]) less that of its server
//!   without a queue ([`super::paths`]), and at most as long as its sender's clock says ([`super::clocks`]).
//! - The queue is first in, first out: no packet joined it before one that came out sooner. So of all flows' evidence
//!   the latest time of joining counts, and a server that answered late by itself is not taken for a queue.
//! - A server's part of a handshake is small, and its first flight follows ([`super::first_flights`]): as much as such
//!   flights have had counts as outside once that part leaves.
//!
//! As much may be outside, on its way to the queue or in it, as the link carries in the round trip, and a little more
//! (BBR: Cardwell et al., ACM Queue 14(5), 2016).

use std::collections::VecDeque;

use narrows_units::{Duration, Instant, Rate};
use narrows_wire::{FlowKey, Header};

use super::clocks::Clocks;
use super::config::{DEFAULT_TARGET, FollowConfig};
use super::decisions::{DecisionReason, DecisionSignals, Reasons};
use super::departure_times::{DepartureTimes, LOST_AFTER};
use super::first_flights::{self, FirstFlights};
use super::opening::Opening;
use super::paths::{self, Answer, Paths};
use super::rate::{AVERAGED_OVER, RateEstimate, Service, Services};
use super::report::{FollowPhase, FollowReport, FollowSignals};
use super::round_trips::RoundTrips;
use super::sides::{LinkSide, Waits};
use super::{Departure, PACKET};

/// Time without evidence of the queue after which the link cannot bound what leaves.
const FORGOTTEN: Duration = Duration::from_secs(30);
/// Packets that arrived within this, or two packet times, have waited alike.
const NEAR: Duration = Duration::from_millis(20);
/// Packets in a row that show a queue before the link is taken to be full for the first time.
const SHOWN: u32 = 4;
/// Time by which a packet may seem to have waited although it has not: two clocks that tick each millisecond, and one
/// more for those who tremble.
const SLACK: Duration = Duration::from_millis(3);
/// Weight of what was known in the averages of round trips, of eight (SRTT: RFC 6298, section 2).
const KNOWN: u64 = 7;
/// Packets for which a link of the average rate takes as long as an outage, if that is longer than [`LOST_AFTER`].
const MISSED: u64 = 4;
/// Packets outside that are always let go: fewer may never be answered.
const LEAST: u64 = 2;
/// Releases that are remembered one by one.
const RELEASES: usize = 8192;
/// Multiple of the settings' `target` and `packets` that is aimed at. What is let go joins the queue only a round trip
/// later, in bursts of what a server sends at once; with once as much the link rests for a tenth of the time more.
const STANDS: f64 = 2.2;
/// Gain on the link's rate while no queue shows for a round trip and packets wait here; and while the queue is let run
/// empty. Both are BBR's.
const MORE: f64 = 1.25;
const LESS: f64 = 0.5;
/// Bound for the rate of a link that rested, in multiples of the known one.
const RISE: f64 = 2.0;
/// Part of its rate that is let go of what brings more, while packets arrive, whatever stands before the link: where it
/// is more than what is let go makes, as by connections that open, holding all back would only stall those who are
/// there. So much from a `target` of [`DEFAULT_TARGET`] on; the least at a `target` of zero, for who wants the shortest
/// queue whatever it costs.
const TRICKLE: f64 = 0.5;
const TRICKLE_LEAST: f64 = 0.05;
/// This part while the queue is let run empty: with half of the rate a path that has become longer is not found out.
const TRICKLE_EMPTYING: f64 = 0.25;
/// Time in which the queue is empty once, or all paths have become longer; and what counts as empty beside a packet.
const EMPTIES: Duration = Duration::from_secs(10);
const EMPTY: Duration = Duration::from_millis(10);
/// Longest time for which the queue is let run empty while no path is known, and time until that is tried again, which
/// doubles: where others share the link it never rests.
const RESTS_WITHIN: Duration = Duration::from_secs(15);
const RESTS_AGAIN: Duration = Duration::from_secs(30);
/// Time over which arrivals tell that the link rests, at least, and in packet times; and the part of the link's rate
/// below which it does. A quarter is let go meanwhile.
const RESTING: Duration = Duration::from_millis(200);
const RESTING_PACKETS: u64 = 8;
const RESTS_BELOW: f64 = 0.5;
/// Most that all paths may have become longer: handovers between satellites make 100 ms and less.
const LONGER_AT_MOST: Duration = Duration::from_millis(300);

/// Bytes that will join the queue.
#[derive(Clone, Copy, Debug)]
struct Release {
    joins: Instant,
    bytes: u64,
}

/// Bytes that were let go and have not come back.
#[derive(Debug, Default)]
struct Outside {
    releases: VecDeque<Release>,
    /// Bytes that have not joined the queue.
    coming: u64,
    /// Bytes in the queue.
    queued: f64,
}

impl Outside {
    fn add(&mut self, joins: Instant, bytes: u64) {
        self.coming += bytes;
        if self.releases.len() == RELEASES
            && let Some(last) = self.releases.back_mut()
        {
            last.bytes += bytes;
            return;
        }
        let place = self.releases.partition_point(|r| r.joins <= joins);
        self.releases.insert(place, Release { joins, bytes });
    }

    /// Moves the releases that have joined the queue by `now` into the queue.
    fn pass(&mut self, now: Instant) {
        while let Some(release) = self.releases.front().copied().filter(|r| r.joins <= now) {
            self.releases.pop_front();
            self.coming -= release.bytes;
            self.queued += release.bytes as f64;
        }
    }

    /// Takes `bytes` out of the queue, for a packet that came out of the link.
    fn comes_out(&mut self, bytes: u64) {
        self.queued = (self.queued - bytes as f64).max(0.0);
    }

    const fn set_queue(&mut self, bytes: f64) {
        self.queued = bytes;
    }

    fn bytes(&self) -> f64 {
        self.queued + self.coming as f64
    }
}

/// Search for the rate at which the link is full.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    /// Packets in a row that showed a queue.
    shown: u32,
    /// Whether the link was ever full.
    full: bool,
    /// Begin of the round trip.
    round_at: Instant,
    /// Longest wait in the round trip.
    round_late: Duration,
    /// Whether no queue showed for a round trip although packets waited here.
    again: bool,
}

/// Search for a path that has become longer, in periods of [`EMPTIES`].
#[derive(Clone, Copy, Debug)]
enum Watch {
    /// The shortest wait is measured.
    Measuring { from: Instant, shortest: Option<Duration> },
    /// The queue is let run empty: what all packets wait alike from `from` to `until` is no queue.
    Emptying { from: Instant, until: Instant, waits: Option<WaitRange> },
    /// No path is known, as where the link was full before the box saw anything: the queue is let run empty until the
    /// link rests, at most `until`. So many bytes had arrived at a time, and the link rests since `rested`.
    Resting { until: Instant, from: Instant, arrived: u64, rested: Option<Instant> },
}

/// Shortest and longest wait.
#[derive(Clone, Copy, Debug)]
struct WaitRange {
    shortest: Duration,
    longest: Duration,
}

impl WaitRange {
    /// The range of `known` and another wait.
    fn with(known: Option<Self>, wait: Duration) -> Self {
        known.map_or(Self { shortest: wait, longest: wait }, |known| Self {
            shortest: known.shortest.min(wait),
            longest: known.longest.max(wait),
        })
    }

    /// Wait of all packets, if it differs by no more than `by`.
    fn alike(self, by: Duration) -> Option<Duration> {
        (self.longest.saturating_sub(self.shortest) <= by).then_some(self.shortest)
    }
}

impl Watch {
    const fn anew(now: Instant) -> Self {
        Self::Measuring { from: now, shortest: None }
    }
}

/// State of the controller.
#[derive(Debug)]
pub(super) struct Before {
    config: FollowConfig,
    seed: u64,
    /// Round trips on the far side and on the users' side.
    far: RoundTrips,
    near: RoundTrips,
    clocks: Clocks,
    paths: Paths,
    signals: FollowSignals,
    rate: RateEstimate,
    /// Services for the rate now, and for the average.
    services: Services,
    averaged: Services,
    outside: Outside,
    flights: FirstFlights,
    /// Last departure of a packet that brings more: another costs the link nothing.
    loaded_at: Instant,
    /// First flight that this packet brings, bytes; none, if it is no part of a handshake.
    brings: u64,
    /// Average time until a user acknowledges.
    user_time: Duration,
    /// Average round trip on the far side without a queue, of servers whose paths are known.
    known_far_time: Option<Duration>,
    /// Bytes that have arrived, and the part of these bytes since the last news.
    arrived: u64,
    unserved: u64,
    /// Last arrival, and last arrival with news of the queue.
    arrived_at: Instant,
    news_at: Instant,
    /// Latest time at which a packet that came out joined the queue, reckoned as if no path had become longer.
    joined: Instant,
    /// Time by which all paths have become longer.
    longer: Duration,
    watch: Watch,
    /// Time from which on the link may be let rest, and time until it may again.
    rests_at: Instant,
    rests_again: Duration,
    opening: Opening,
    /// Time in the queue of the packet that came last.
    late: Duration,
    search: Search,
    /// Times of departures; each arrival is news.
    times: DepartureTimes,
    /// Whether another controller bounds what leaves.
    looks_on: bool,
    /// Waits by clocks and by round trips since the last record, whether a queue stood at the last news, and reasons of
    /// decisions: for records only.
    by_clocks: Waits,
    by_trips: Waits,
    stood: bool,
    reasons: Reasons,
}

impl Before {
    /// A controller for a link of which only the bounds are known. `seed` keys the hashes.
    pub fn new(config: FollowConfig, seed: u64) -> Self {
        Self {
            seed,
            far: RoundTrips::new(),
            near: RoundTrips::new(),
            clocks: Clocks::new(),
            paths: Paths::new(),
            signals: FollowSignals::default(),
            rate: RateEstimate::new(&config),
            services: Services::default(),
            averaged: Services::default(),
            outside: Outside::default(),
            flights: FirstFlights::new(),
            loaded_at: Instant::ZERO,
            brings: 0,
            user_time: Duration::ZERO,
            known_far_time: None,
            arrived: 0,
            unserved: 0,
            arrived_at: Instant::ZERO,
            news_at: Instant::ZERO,
            joined: Instant::ZERO,
            longer: Duration::ZERO,
            watch: Watch::anew(Instant::ZERO),
            rests_at: Instant::ZERO,
            rests_again: RESTS_AGAIN,
            opening: Opening::new(),
            late: Duration::ZERO,
            search: Search::default(),
            times: DepartureTimes::new(),
            looks_on: false,
            by_clocks: Waits::default(),
            by_trips: Waits::default(),
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
    /// for a longer path because it should have.
    pub const fn look_on(&mut self, looks_on: bool) {
        self.looks_on = looks_on;
    }

    /// Time in the queue of the packet that came last.
    pub const fn late(&self) -> Duration {
        self.late
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
            found_bps: self.rate.is_measured().then_some(rate_bps),
            phase: self.phase(now, waits),
            base: self.paths.shortest(),
            late: self.late,
            in_flight: self.outside.bytes() as u64,
            window: self.window() as u64,
            lost: 0,
            side: Some(LinkSide::Before),
            signals: Some(self.signals),
        }
    }

    fn phase(&self, now: Instant, waits: bool) -> FollowPhase {
        let comes = self.arrived > 0 && now.since(self.arrived_at) < AVERAGED_OVER;
        if comes && self.is_blind(now) {
            FollowPhase::Blind
        } else if self.opening.is_open() {
            FollowPhase::Open
        } else if !waits {
            FollowPhase::Idle
        } else if self.times.is_silent() {
            FollowPhase::Silent
        } else if !matches!(self.watch, Watch::Measuring { .. }) {
            FollowPhase::Draining
        } else if self.search.full && !self.search.again {
            FollowPhase::Following
        } else {
            FollowPhase::Searching
        }
    }

    /// Reasons of decisions since the last call.
    pub fn reasons(&mut self) -> Reasons {
        self.opening.reasons().and(self.reasons.take())
    }

    /// Signals since the last call.
    pub fn take_signals(&mut self) -> DecisionSignals {
        let clocks = core::mem::take(&mut self.by_clocks).into();
        let round_trips = core::mem::take(&mut self.by_trips).into();
        DecisionSignals { clocks, round_trips, ..DecisionSignals::default() }
    }

    /// Whether a queue stood at the last news.
    pub const fn queue_stands(&self) -> bool {
        self.stood
    }

    /// Bytes that may be outside; `None` while nothing is held back.
    pub fn held_to(&self, now: Instant) -> Option<u64> {
        self.holds(now).then(|| self.window() as u64)
    }

    /// Whether what is outside bounds what leaves.
    fn holds(&self, now: Instant) -> bool {
        self.search.full && !self.opening.is_open() && !self.is_blind(now)
    }

    /// Whether packets come and none tells of the queue.
    pub fn is_blind(&self, now: Instant) -> bool {
        !self.rate.is_measured() || now.since(self.news_at) > FORGOTTEN
    }

    /// Notes that a packet could leave and nothing waits.
    pub const fn idles(&mut self, now: Instant) {
        self.opening.idles();
        self.times.idles(now);
    }

    /// Round trip on the far side without a queue: the shortest, until a server's path is known. The first ones may
    /// have waited for a modem that slept or a tunnel that was not up.
    fn far_time(&self) -> Duration {
        self.known_far_time.or(self.paths.shortest()).unwrap_or_default()
    }

    /// Round trip without a queue, of what is let go now.
    fn trip(&self) -> Duration {
        self.user_time + self.far_time() + self.longer
    }

    /// Bytes that are to stand before the link, beside first flights.
    fn aimed_at(&self) -> f64 {
        (self.rate.carried_in(self.config.target) + self.config.packets * PACKET as f64) * STANDS
    }

    /// Bytes that are to stand before the link. First flights count as alike: where a small one came in place of a
    /// large one, and no more stood there, the link would rest.
    fn stands(&self) -> f64 {
        self.aimed_at() + self.flights.expected()
    }

    /// Bytes that may be outside.
    fn window(&self) -> f64 {
        let trip = self.rate.carried_in(self.trip());
        let window = if matches!(self.watch, Watch::Resting { .. }) {
            0.0
        } else if matches!(self.watch, Watch::Emptying { .. }) {
            // Not by what paths may have become longer: what is taken for that by mistake would never go away.
            LESS * self.rate.carried_in(self.user_time + self.far_time())
        } else {
            let gain = if self.search.again { MORE } else { 1.0 };
            gain * trip + self.stands()
        };
        window.max((LEAST * PACKET) as f64)
    }

    /// Part of the link's rate that is let go while packets arrive.
    fn trickle(&self) -> f64 {
        let eagerness = (self.config.target.as_secs_f64() / DEFAULT_TARGET.as_secs_f64()).min(1.0);
        let trickle = TRICKLE_LEAST + (TRICKLE - TRICKLE_LEAST) * eagerness;
        if matches!(self.watch, Watch::Measuring { .. }) { trickle } else { trickle.min(TRICKLE_EMPTYING) }
    }

    /// Time from which there is room outside for a packet of `bytes`, if nothing arrives before. To the nearest packet,
    /// as rounding down would cost half of one on average.
    fn room(&self, now: Instant, bytes: u64) -> Option<Instant> {
        let lacks = self.outside.bytes() + (bytes / 2) as f64 - self.window();
        if lacks <= 0.0 || !self.holds(now) {
            return Some(now);
        }
        let trickles = self.loaded_at + self.rate.time_for(bytes.max(self.brings) as f64 / self.trickle());
        (trickles < self.arrived_at + LOST_AFTER).then_some(trickles)
    }

    /// Time at which a packet of `bytes` may leave, if nothing arrives before.
    pub fn ready(&self, now: Instant, bytes: u64) -> Instant {
        let lost = self.times.lost_at();
        let room = self.room(now, bytes).map_or(lost, |room| room.min(lost));
        self.times.ready(now, room)
    }

    /// Writes off what has to be, so that a packet of `bytes`, which is [`ready`](Self::ready), may leave.
    pub fn make_room(&mut self, now: Instant, bytes: u64) {
        if self.room(now, bytes).is_some_and(|room| room <= now) {
            return;
        }
        if !self.times.is_silent() {
            self.reasons.note(DecisionReason::Outage);
        }
        self.times.gives_up(now);
        self.outside = Outside::default();
    }

    /// Writes off what it would if it bounded what leaves, before a packet of `bytes` that another lets go.
    pub fn keep_up(&mut self, now: Instant, bytes: u64) {
        if self.ready(now, bytes) <= now {
            self.make_room(now, bytes);
        }
    }

    /// Notes a packet that leaves for the packet's user.
    pub fn departs(&mut self, now: Instant, departure: &Departure<'_>) {
        let &Departure { header, bytes, waiting, brings_more } = departure;
        let flow = header.key.hash(self.seed);
        if let Some((sent, _)) = header.tcp.filter(|t| t.payload > 0).and_then(|t| t.timestamps) {
            self.near.note(now, flow, sent);
        }
        self.outside.pass(now);
        let way = (self.user_time + self.paths.to(server(header, self.seed))).min(paths::LONGEST);
        let first_flight = self.flights.leaves(now, header, flow, way + self.late);
        if brings_more || first_flight > 0 {
            let own = if brings_more { bytes } else { 0 };
            self.outside.add(now + way, own + first_flight);
            (self.loaded_at, self.brings) = (now, first_flight);
        }
        self.times.departs(now, bytes, self.config.ceiling(), waiting);
    }

    /// Notes a packet that goes up. It brings no news of the link before the box.
    pub fn returns(&mut self, now: Instant, header: &Header) -> bool {
        if first_flights::asks(header) {
            self.flights.asks(header.key.reverse().hash(self.seed));
        }
        if let Some((sent, echo)) = header.tcp.and_then(|t| t.timestamps) {
            let flow = header.key.reverse().hash(self.seed);
            self.far.note(now, flow, sent);
            if let Some(left) = self.near.answered(flow, echo) {
                self.user_time = average(self.user_time, now.since(left));
            }
        }
        false
    }

    /// Notes an arrival: a packet came out of the link, where it took `bytes`. Returns whether it tells of the queue.
    pub fn arrives(&mut self, now: Instant, header: &Header, bytes: u64) -> bool {
        self.outside.pass(now);
        self.outside.comes_out(bytes);
        let before = core::mem::replace(&mut self.arrived_at, now);
        self.arrived += bytes;
        self.unserved += bytes;
        let trip = self.user_time + self.far_time();
        self.opening.arrives(now, bytes, trip, self.rate.time_for(self.aimed_at()));
        let silent = self.times.hears(now, LOST_AFTER);
        if silent {
            self.reasons.note(DecisionReason::Recovered);
        }
        if silent || now.since(before) > LOST_AFTER.max(self.rate.packet_time() * MISSED) {
            self.measure_anew(now);
        }
        let rested = self.rest(now);
        let flow = header.key.hash(self.seed);
        self.flights.arrives(now, flow, bytes);
        let Some((sent, echo)) = header.tcp.and_then(|t| t.timestamps) else { return false };
        let by_clock = self.clocks.waited(now, flow, sent);
        let by_trip = self.far.answered(flow, echo).and_then(|asked| {
            let near = (self.rate.packet_time() * 2).max(NEAR);
            let (host, rtt) = (server(header, self.seed), now.since(asked));
            self.opening.answered(rtt);
            // Where the sender's clock shows no queue, the round trip is the path: so hosts whose first packets all
            // found a queue, as those who were there before the box, get one.
            let alone = before < asked || by_clock.is_some_and(|waited| waited <= SLACK);
            let emptied = rested.is_some_and(|rested| asked >= rested);
            let answer = Answer { host, rtt, left: now, alone, emptied };
            let path = self.paths.learn(now, answer, near, silent);
            if path.sure {
                self.known_far_time =
                    Some(self.known_far_time.map_or(path.rtt, |known| average(known, path.rtt)));
            }
            // Every path counts until a first rate is measured.
            (path.sure || !self.rate.is_measured()).then(|| rtt.saturating_sub(path.rtt))
        });
        self.signals.clocks += u64::from(by_clock.is_some());
        self.signals.round_trips += u64::from(by_trip.is_some());
        by_clock.into_iter().for_each(|waited| self.by_clocks.note(waited));
        by_trip.into_iter().for_each(|waited| self.by_trips.note(waited));
        let told = by_clock.into_iter().chain(by_trip).min();
        if let Some(waited) = told {
            self.joined = self.joined.max(now - waited);
        }
        if self.joined > Instant::ZERO {
            // A flow that has told nothing joined no sooner than what came before it either.
            self.clocks.learn(now, flow, sent, now.since(self.joined));
        }
        if told.is_none() {
            return false;
        }
        self.late = now.since(self.joined).saturating_sub(self.longer);
        self.take_news(now, bytes);
        true
    }

    /// Measures the rate anew from `now` on: the time without a link says nothing of its rate once it is back.
    fn measure_anew(&mut self, now: Instant) {
        self.services.clear();
        self.rate.forget_deliveries();
        self.rate.resume();
        (self.news_at, self.unserved) = (now, 0);
    }

    /// Takes news of a packet of `bytes` that has waited for [`Self::late`].
    fn take_news(&mut self, now: Instant, bytes: u64) {
        let before = core::mem::replace(&mut self.news_at, now);
        let carried = core::mem::take(&mut self.unserved);
        let own = self.rate.time_for(bytes as f64);
        // A packet that joined before the last one came out was served right after that one.
        let busy_all_along = self.late >= now.since(before) + SLACK;
        self.stood = busy_all_along;
        let busy = if busy_all_along {
            now.since(before)
        } else {
            now.since(before).min(self.late + own).max(self.rate.time_for(carried as f64 / RISE))
        };
        let (span, least) = (self.rate.span(&self.config), self.config.span_min);
        let service = Service { bytes: carried, busy };
        // A link that rested says only that it carries no less.
        if busy_all_along || carried as f64 * 8.0 > self.rate.now_bps() * busy.as_secs_f64() {
            if let Some(bps) = self.services.add(service, span, least) {
                self.rate.set(bps, &self.config);
            }
            if busy_all_along
                && let Some(bps) = self.averaged.add(service, AVERAGED_OVER.max(span * 2), least)
            {
                self.rate.set_average(bps, &self.config);
            }
        }
        if let Some(sample) = self.rate.delivered(now, self.arrived, &self.config) {
            self.rate.take(now, sample, false);
        }
        self.outside.set_queue(self.rate.carried_in(self.late));
        self.search(now, own);
        self.watch_paths(now, own);
    }

    /// Looks whether the link is full.
    fn search(&mut self, now: Instant, own: Duration) {
        let (late, target, trip) = (self.late, self.config.target, self.trip());
        let search = &mut self.search;
        search.shown = if late > target + own * 2 { search.shown + 1 } else { 0 };
        if search.shown >= SHOWN && !search.full {
            search.full = true;
            self.reasons.note(DecisionReason::Full);
        }
        search.round_late = search.round_late.max(late);
        search.again &= late <= own + target / 2;
        if now.since(search.round_at) > trip {
            search.again = self.times.idle_at() < search.round_at && search.round_late <= own;
            (search.round_at, search.round_late) = (now, Duration::ZERO);
        }
    }

    /// Lets the queue run empty while no path is known. Returns since when the link rests.
    fn rest(&mut self, now: Instant) -> Option<Instant> {
        let unknown = self.known_far_time.is_none() && self.search.full;
        let Watch::Resting { until, from, arrived, rested } = self.watch else {
            if unknown && !self.looks_on && now >= self.rests_at && self.holds(now) {
                self.reasons.note(DecisionReason::Draining);
                let until = now + RESTS_WITHIN;
                (self.rests_at, self.rests_again) = (until + self.rests_again, self.rests_again * 2);
                self.watch = Watch::Resting { until, from: now, arrived: self.arrived, rested: None };
            }
            return None;
        };
        if !unknown {
            self.reasons.note(DecisionReason::Drained);
            // All bounds of clocks were reckoned by a queue that had never been empty.
            self.clocks.forget();
            self.longer = Duration::ZERO;
            self.watch = Watch::anew(now);
            return rested;
        }
        if now >= until {
            self.reasons.note(DecisionReason::NotDrained);
            self.watch = Watch::anew(now);
            return None;
        }
        let time = now.since(from);
        if rested.is_none() && time > RESTING.max(self.rate.packet_time() * RESTING_PACKETS) {
            let came = (self.arrived - arrived) as f64;
            let rests = came < RESTS_BELOW * self.rate.carried_in(time);
            if rests {
                self.paths.measure();
            }
            self.watch =
                Watch::Resting { until, from: now, arrived: self.arrived, rested: rests.then_some(now) };
        }
        rested
    }

    /// Finds out that all paths have become longer: what never goes away, even where little is let go, is no queue.
    fn watch_paths(&mut self, now: Instant, own: Duration) {
        let raw = now.since(self.joined);
        self.longer = self.longer.min(raw);
        if self.looks_on {
            self.watch = Watch::anew(now);
            return;
        }
        let empty = EMPTY + own;
        let holds = self.holds(now);
        self.watch = match self.watch {
            resting @ Watch::Resting { .. } => resting,
            Watch::Measuring { from, shortest } if now.since(from) < EMPTIES => {
                let shortest = Some(shortest.map_or(self.late, |known| known.min(self.late)));
                Watch::Measuring { from, shortest }
            }
            Watch::Measuring { shortest: Some(shortest), .. } if self.search.full && shortest > empty => {
                if holds {
                    self.reasons.note(DecisionReason::Draining);
                }
                let from = now + self.trip() + self.late;
                // A queue that still drains falls by half of this time and more, so its waits are not alike.
                let until = from + self.trip().max(empty * 4);
                Watch::Emptying { from, until, waits: None }
            }
            Watch::Emptying { .. } if self.late <= empty => {
                if holds {
                    self.reasons.note(DecisionReason::Drained);
                }
                Watch::anew(now)
            }
            Watch::Emptying { from, until, waits } if now < until => {
                let waits = if now >= from { Some(WaitRange::with(waits, self.late)) } else { waits };
                Watch::Emptying { from, until, waits }
            }
            Watch::Emptying { waits, .. } => {
                // Waits that differ are those of a queue, as behind a link that has become slower meanwhile.
                if let Some(wait) = waits.and_then(|waits| waits.alike(empty)) {
                    self.longer = (self.longer + wait.saturating_sub(EMPTY)).min(LONGER_AT_MOST);
                    self.reasons.note(DecisionReason::PathsLonger);
                } else if holds {
                    self.reasons.note(DecisionReason::NotDrained);
                }
                Watch::anew(now)
            }
            Watch::Measuring { .. } => Watch::anew(now),
        };
    }
}

/// Host that sent a packet, by hash.
fn server(header: &Header, seed: u64) -> u64 {
    FlowKey::of_host(header.key.src_bits()).hash(seed)
}

fn average(known: Duration, sample: Duration) -> Duration {
    if known == Duration::ZERO { sample } else { (known * KNOWN + sample) / (KNOWN + 1) }
}

#[cfg(test)]
pub(super) mod tests;
