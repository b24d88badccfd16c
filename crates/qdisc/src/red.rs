//! RED: drops (or marks) some arrivals before the queue is full, the more the longer the queue has been on average.
//!
//! Idea: Floyd and Jacobson, Random Early Detection Gateways for Congestion Avoidance, IEEE/ACM Transactions on
//! Networking 1(4), 1993; `gentle`: Floyd, 2000; marks: RFC 3168, section 7. RFC 2309 recommended it; RFC 7567 asks for
//! some active queue management and no longer names RED, whose thresholds have to be known in advance.
//!
//! Where we differ:
//! - The average and the chances are integers ([`early`](crate::early)).
//! - Thresholds are packets, as in the paper, or with `bytes` bytes: each threshold times `packet`, as in ns-2.
//! - `wait` is ns-2's `wait_` (on there unless told otherwise), which is in no paper; off.
//! - `by_size` is the paper's byte mode, p_b times the packet's length; off, as RFC 7567, section 4.4 advises.
//! - Where the average is above every threshold, packets are dropped even if they could be marked, as RFC 3168 (section
//!   7) says; with `harddrop=off` they are marked, as Linux does unless told otherwise.
//! - A packet that finds the buffer full is lost whatever the average; the paper assumes that never happens.

use core::any::Any;
use std::collections::VecDeque;

use narrows_units::{Bytes, Duration, Instant};

use crate::early::{Average, Call, Curve, Thresholds};
use crate::keys::keys;
use crate::{
    Backlog, BoxedDiscipline, Buffer, Counters, Dice, Discipline, DisciplineSettings, Limits, Manage, Packet,
    Ppm, Qdisc, Reason, Report, SettingError, Settings, ShaperConfig, Verdicts,
};

/// Settings of RED. Fields are named as their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedConfig {
    /// Size of the buffer.
    pub buffer: Buffer,
    /// Round-trip time for which the buffer is sized.
    pub rtt: Duration,
    /// Size of a typical packet.
    pub packet: Bytes,
    /// Lower threshold in packets; 0: a quarter of the buffer.
    pub min: u32,
    /// Upper threshold in packets; 0: three quarters of the buffer.
    pub max: u32,
    /// Chance of a drop just below the upper threshold.
    pub max_p: Ppm,
    /// Weight of an arrival in the average.
    pub w_q: Ppm,
    /// Whether the chance above `max` grows to 1 at twice `max` instead of at once.
    pub gentle: bool,
    /// Whether 1 / p arrivals pass after a drop.
    pub wait: bool,
    /// Whether the average and the limits count bytes.
    pub bytes: bool,
    /// Whether a packet's chance is in proportion to the packet's length.
    pub by_size: bool,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
    /// ... but dropped where the average is above every threshold.
    pub harddrop: bool,
}

impl Default for RedConfig {
    fn default() -> Self {
        Self {
            buffer: Buffer::Rtts(1000),
            rtt: Duration::from_millis(200),
            packet: Bytes(1500),
            min: 0,
            max: 0,
            max_p: Ppm(100_000),
            w_q: Ppm(2_000),
            gentle: true,
            wait: false,
            bytes: false,
            by_size: false,
            ecn: true,
            harddrop: true,
        }
    }
}

keys! {
    RedConfig;
    buffer: Buffer(), "buffer, in multiples of one RTT of the link (`1x`) or in packets";
    rtt: Time(Duration::from_millis(1), Duration::from_secs(10)), "round-trip time the buffer is sized for";
    packet: Size(64, 65_535), "size of a typical packet, in bytes: for the buffer, idle time and `bytes`";
    min: Number(0, 1_000_000), "average queue below which nothing is dropped, in packets; 0: a quarter of the buffer";
    max: Number(0, 1_000_000),
        "average queue from which everything is dropped (see `gentle`), in packets; 0: three quarters of the buffer";
    max_p: Part(1, 1_000_000), "chance of a drop just below `max`";
    w_q: Part(1, 1_000_000), "weight of an arrival in the average of the queue";
    gentle: Choice(), "let the chance of a drop grow on above `max`, to 1 at twice `max`";
    wait: Choice(), "let 1 / p arrivals pass after a drop, for the chance p, as ns-2's `wait_` has it";
    bytes: Choice(), "count queue, buffer and thresholds in bytes: each threshold times `packet`";
    by_size: Choice(), "make a packet's chance of a drop proportional to its length";
    ecn: Choice(), "mark ECN-capable packets instead of dropping them";
    harddrop: Choice(), "drop ECN-capable packets too where the average is above every threshold";
}

impl Settings for RedConfig {
    const NAME: &'static str = "red";
    const BARE: &'static str = "buffer";

    fn check(&self) -> Result<(), SettingError> {
        if let Buffer::Packets(n) = self.buffer
            && self.min >= n
        {
            return Err(SettingError::new(
                "min",
                self.min.to_string(),
                format!("less than buffer = {n}, or 0 for a quarter of it"),
            ));
        }
        if self.max > 0 && self.max <= self.min {
            return Err(SettingError::new(
                "max",
                self.max.to_string(),
                format!("more than min = {}, or 0 for three quarters of the buffer", self.min),
            ));
        }
        Ok(())
    }
}

impl DisciplineSettings for RedConfig {
    fn limits(&self, link: &ShaperConfig) -> Limits {
        let most = self.sizes(link).limit;
        // No IP packet is shorter than its header of 20 bytes.
        let packets = if self.bytes { most / 20 } else { most };
        Limits { packets: usize::try_from(packets).unwrap_or(usize::MAX), flows: 0 }
    }

    fn build<P: Packet + Send + 'static>(&self, link: &ShaperConfig, seed: u64) -> BoxedDiscipline<P> {
        Box::new(Red::new(*self, *link, seed))
    }
}

/// The settings on one link, in bytes if `bytes` is set, else in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    limit: u64,
    curve: Thresholds,
}

impl RedConfig {
    fn sizes(&self, link: &ShaperConfig) -> Sizes {
        let buffer = self.buffer.packets(link, self.rtt, self.packet) as u64;
        let min = if self.min > 0 { u64::from(self.min) } else { buffer / 4 };
        let max = if self.max > 0 { u64::from(self.max) } else { buffer * 3 / 4 };
        let unit = if self.bytes { self.packet.get() } else { 1 };
        let curve = Thresholds {
            min: min * unit,
            max: max.max(min + 1) * unit,
            max_p: self.max_p,
            gentle: self.gentle,
            wait: self.wait,
        };
        Sizes { limit: buffer * unit, curve }
    }
}

/// The discipline.
#[derive(Debug)]
pub struct Red<P> {
    config: RedConfig,
    link: ShaperConfig,
    limit: u64,
    average: Average,
    curve: Curve,
    dice: Dice,
    queue: VecDeque<P>,
    backlog: Backlog,
    counters: Counters,
}

impl<P: Packet> Red<P> {
    /// An empty queue for `link`; `seed` is for the dice.
    #[must_use]
    pub fn new(config: RedConfig, link: ShaperConfig, seed: u64) -> Self {
        let sizes = config.sizes(&link);
        Self {
            config,
            link,
            limit: sizes.limit,
            average: Average::new(config.w_q, link.rate.time_to_send(link.wire_len(config.packet))),
            curve: Curve::new(sizes.curve),
            dice: Dice::new(seed),
            queue: VecDeque::new(),
            backlog: Backlog::default(),
            counters: Counters::default(),
        }
    }

    /// The average queue, in packets (bytes with `bytes`), rounded down.
    #[must_use]
    pub const fn average(&self) -> u64 {
        self.average.get()
    }

    const fn waiting(&self) -> u64 {
        if self.config.bytes { self.backlog.bytes.get() } else { self.backlog.packets as u64 }
    }

    /// A packet's length as a part of the greatest, with `by_size`.
    fn part(&self, len: Bytes) -> Option<(u64, u64)> {
        self.config.by_size.then(|| (self.link.wire_len(len).get(), self.link.largest().get()))
    }

    /// Reason for which an arrival is lost; `None` for an arrival that is queued, marked or not.
    fn decide(&mut self, now: Instant, packet: &mut P, verdicts: &mut Verdicts<P>) -> Option<Reason> {
        let len = packet.len();
        self.average.arrival(now, self.waiting(), self.queue.is_empty());
        let call = self.curve.decide(&self.average, self.part(len), &mut self.dice);
        let needs = if self.config.bytes { len.get() } else { 1 };
        if self.waiting() + needs > self.limit {
            return Some(Reason::OverLimit);
        }
        if call == Call::Pass {
            return None;
        }
        let may_mark = self.config.ecn && !(call == Call::Above && self.config.harddrop);
        let marked = may_mark && self.counters.mark_packet(packet, Reason::Early, verdicts);
        (!marked).then_some(Reason::Early)
    }
}

impl<P: Packet> Qdisc<P> for Red<P> {
    fn enqueue(&mut self, now: Instant, mut packet: P, verdicts: &mut Verdicts<P>) {
        let len = packet.len();
        self.counters.arrive(len);
        if let Some(reason) = self.decide(now, &mut packet, verdicts) {
            self.counters.drop_packet(packet, reason, verdicts);
        } else {
            self.backlog.add(len);
            self.queue.push_back(packet);
        }
    }

    fn dequeue(&mut self, now: Instant, _verdicts: &mut Verdicts<P>) -> Option<P> {
        let packet = self.queue.pop_front()?;
        self.backlog.sub(packet.len());
        self.counters.send(packet.len());
        if self.queue.is_empty() {
            let last = self.link.rate.time_to_send(self.link.wire_len(packet.len()));
            self.average.sent_at(now + last);
        }
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

impl<P: Packet> Manage for Red<P> {
    fn reconfigure(&mut self, _now: Instant, settings: &dyn Any, link: &ShaperConfig) -> bool {
        let Some(config) = settings.downcast_ref::<RedConfig>() else { return false };
        let mut fresh = Self::new(*config, *link, 0);
        // What waits stays. An average in the other unit would mean nothing.
        if config.bytes == self.config.bytes {
            fresh.average.carry(&self.average);
        }
        (self.config, self.link, self.limit) = (fresh.config, fresh.link, fresh.limit);
        (self.average, self.curve) = (fresh.average, fresh.curve);
        true
    }

    fn report(&mut self, _now: Instant) -> Report {
        Report {
            name: "red".into(),
            counters: self.counters.clone(),
            backlog: self.backlog,
            ..Report::default()
        }
    }
}

impl<P: Packet> Discipline<P> for Red<P> {}

#[cfg(test)]
mod tests;
