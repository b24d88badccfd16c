//! Estimate of the link's rate, from the bytes it delivers.
//!
//! A delivery is dated when its bytes crossed the link, not when the acknowledgment came: news from a distant host is
//! late by the length of its path.

use std::collections::VecDeque;

use narrows_units::{Duration, Instant, Rate};

use super::config::FollowConfig;
use super::{PACKET, seconds};

/// Longest span over which deliveries are measured.
const LONGEST_SPAN: Duration = Duration::from_millis(1500);
/// Time over which the reported rate is averaged, unless [`AVERAGED_PACKETS`] packets take longer.
pub(super) const AVERAGED_OVER: Duration = Duration::from_secs(2);
const AVERAGED_PACKETS: u64 = 16;
/// Part of the average that the link is taken to carry after an outage: before it, less and less was delivered.
const RESUMES: f64 = 0.5;
/// Part of the delivery rate that the link carries at least. Not all of it, as paths may be mistaken.
const DELIVERED: f64 = 0.65;

/// Bytes that had crossed the link at a time.
#[derive(Clone, Copy, Debug)]
struct Delivery {
    at: Instant,
    total: u64,
}

/// Delivery rate over a span.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Begin of the span.
    pub from: Instant,
    bps: f64,
}

/// Bytes that crossed together, and how long the link was busy with them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Service {
    pub bytes: u64,
    pub busy: Duration,
}

/// Services of a little more than a span of busy time.
#[derive(Debug, Default)]
pub(super) struct Services(VecDeque<Service>);

impl Services {
    /// Forgets all services.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a service. Returns what the link carries while it is busy, over the last `span` of such time and no less
    /// than `least`, bit/s.
    pub fn add(&mut self, service: Service, span: Duration, least: Duration) -> Option<f64> {
        self.0.push_back(service);
        let mut time: Duration = self.0.iter().fold(Duration::ZERO, |sum, s| sum + s.busy);
        while self.0.len() > 1 && time.saturating_sub(self.0[0].busy) >= span {
            time = time.saturating_sub(self.0[0].busy);
            self.0.pop_front();
        }
        let bytes: u64 = self.0.iter().map(|s| s.bytes).sum();
        (time > Duration::ZERO).then(|| bytes as f64 * 8.0 / time.max(least).as_secs_f64())
    }
}

/// The link's rate, as far as it is known; in bit/s, between the bounds of the settings.
#[derive(Debug)]
pub(super) struct RateEstimate {
    measured: bool,
    /// Whether the average is of times in which the link was full.
    full: bool,
    now_bps: f64,
    average_bps: f64,
    averaged_at: Instant,
    /// Deliveries of a little more than a span.
    deliveries: VecDeque<Delivery>,
}

impl RateEstimate {
    /// The least rate, of which nothing is measured.
    pub fn new(config: &FollowConfig) -> Self {
        let floor = config.floor().as_bps() as f64;
        Self {
            measured: false,
            full: false,
            now_bps: floor,
            average_bps: floor,
            averaged_at: Instant::ZERO,
            deliveries: VecDeque::new(),
        }
    }

    /// Moves the estimate between other bounds.
    pub fn reconfigure(&mut self, config: &FollowConfig) {
        self.now_bps = bounded(self.now_bps, config);
        self.average_bps = bounded(self.average_bps, config);
    }

    /// Whether any delivery rate was measured.
    pub const fn is_measured(&self) -> bool {
        self.measured
    }

    /// Rate now, bit/s.
    pub const fn now_bps(&self) -> f64 {
        self.now_bps
    }

    /// Average rate, for reports and for the discipline.
    pub fn average(&self) -> Rate {
        Rate::from_bps(self.average_bps as u64)
    }

    /// Time that the link takes for `bytes` at the rate of now.
    pub fn time_for(&self, bytes: f64) -> Duration {
        seconds(bytes * 8.0 / self.now_bps)
    }

    /// Bytes that the link carries in `time` at the rate of now.
    pub fn carried_in(&self, time: Duration) -> f64 {
        self.now_bps * time.as_secs_f64() / 8.0
    }

    /// Time of the link for a full packet, at the average rate: the unit of spans.
    pub fn packet_time(&self) -> Duration {
        seconds(PACKET as f64 * 8.0 / self.average_bps)
    }

    /// Time of the link for a full packet, if that is known from times in which it was full.
    pub fn packet_time_if_known(&self) -> Option<Duration> {
        self.full.then(|| self.packet_time())
    }

    /// Time over which deliveries are measured.
    pub fn span(&self, config: &FollowConfig) -> Duration {
        let packets = self.packet_time() * u64::from(config.span);
        packets.max(config.span_min).min(LONGEST_SPAN.max(config.span_min))
    }

    /// Starts measuring anew: the time without a link, or without packets, says nothing of its rate.
    pub fn forget_deliveries(&mut self) {
        self.deliveries.clear();
    }

    /// Sets the rate now.
    pub fn set(&mut self, bps: f64, config: &FollowConfig) {
        self.now_bps = bounded(bps, config);
    }

    /// Sets the average, as measured while the link was full.
    pub fn set_average(&mut self, bps: f64, config: &FollowConfig) {
        (self.measured, self.full, self.average_bps) = (true, true, bounded(bps, config));
    }

    /// Sets the rate for the time after an outage.
    pub fn resume(&mut self) {
        self.now_bps = self.now_bps.max(self.average_bps * RESUMES);
    }

    /// Notes that `total` bytes had crossed the link at `at`. Returns the delivery rate, once half a span has one.
    pub fn delivered(&mut self, at: Instant, total: u64, config: &FollowConfig) -> Option<Sample> {
        let at = self.deliveries.back().map_or(Instant::ZERO, |last| last.at).max(at);
        self.deliveries.push_back(Delivery { at, total });
        let span = self.span(config);
        while self.deliveries.get(1).is_some_and(|second| at.since(second.at) >= span) {
            self.deliveries.pop_front();
        }
        let first = *self.deliveries.front()?;
        let time = at.since(first.at);
        if time < span / 2 {
            return None;
        }
        let bps = bounded((total - first.total) as f64 * 8.0 / time.as_secs_f64(), config);
        Some(Sample { from: first.at, bps })
    }

    /// Takes a delivery rate into account. Only of a link that was `full` is it the rate: else that is no less.
    pub fn take(&mut self, now: Instant, sample: Sample, full: bool) {
        if !self.measured {
            (self.measured, self.average_bps, self.averaged_at) = (true, sample.bps, now);
        }
        if full && !self.full {
            // Deliveries before that say only that the link carries no less.
            (self.full, self.average_bps) = (true, self.average_bps.max(sample.bps));
        }
        self.now_bps = self.now_bps.max(sample.bps * DELIVERED);
        if full || sample.bps > self.average_bps {
            let over = AVERAGED_OVER.max(self.packet_time() * AVERAGED_PACKETS);
            let since = now.since(self.averaged_at).min(over);
            self.averaged_at = now;
            self.average_bps += (sample.bps - self.average_bps) * since.as_secs_f64() / over.as_secs_f64();
        }
    }
}

/// A rate between the bounds of the settings.
fn bounded(bps: f64, config: &FollowConfig) -> f64 {
    bps.clamp(config.floor().as_bps() as f64, config.ceiling().as_bps() as f64)
}
