//! SFQ: flows hashed into buckets, the buckets served round robin, and who has most waiting loses a packet when all is
//! full.
//!
//! Idea: McKenney, Stochastic Fairness Queuing, INFOCOM 1990; rounds in bytes, as Linux's sch_sfq has them, with
//! `quantum`.
//!
//! Where we differ:
//! - The paper lets a flow's packets be overtaken when the hash changes; here, as in Linux, what waits moves to its new
//!   bucket in order.
//! - When all is full a packet is taken from the end of the longest bucket, as in Linux: that of the packet that came,
//!   where several are as long. (ns-2 refuses a packet if its bucket holds half as many packets as places are left, or,
//!   while fewer places are left than there are buckets, more than places/buckets: usually one.)
//! - No bucket has a limit of its own; Linux holds at most 127 packets of a flow.

use core::any::Any;

use narrows_units::{Bytes, Duration, Instant};

use crate::drr::check_quantum;
use crate::flows_waiting::Classifier;
use crate::keys::keys;
use crate::lanes::{Lanes, Measure};
use crate::{
    Backlog, BoxedDiscipline, Buffer, Counters, Discipline, DisciplineSettings, Key, Limits, Manage, Packet,
    Qdisc, Report, SettingError, Settings, ShaperConfig, Verdicts,
};

/// Settings of SFQ. Fields are named as their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SfqConfig {
    /// Size of the buffer.
    pub buffer: Buffer,
    /// Round-trip time for which the buffer is sized.
    pub rtt: Duration,
    /// Packet size for which the buffer is sized.
    pub packet: Bytes,
    /// Queues.
    pub buckets: u32,
    /// How long a hash is kept; zero: for ever.
    pub perturb: Duration,
    /// Bytes of a turn; zero: one packet.
    pub quantum: u32,
}

impl Default for SfqConfig {
    fn default() -> Self {
        Self {
            buffer: Buffer::Rtts(1000),
            rtt: Duration::from_millis(200),
            packet: Bytes(1500),
            buckets: 1024,
            perturb: Duration::ZERO,
            quantum: 0,
        }
    }
}

keys! {
    SfqConfig;
    buffer: Buffer(), "buffer, in multiples of one RTT of the link (`1x`) or in packets";
    rtt: Time(Duration::from_millis(1), Duration::from_secs(10)), "round-trip time the buffer is sized for";
    packet: Size(64, 65_535), "packet size the buffer is sized for, in bytes";
    buckets: Number(1, 65_536), "queues that flows are hashed into";
    perturb: Time(Duration::ZERO, Duration::from_secs(3600)), "how long a hash is kept; 0: for ever";
    quantum: Number(0, 65_535), "bytes of a turn, on the link, at least 256; 0: one packet whatever its length";
}

impl Settings for SfqConfig {
    const NAME: &'static str = "sfq";
    const BARE: &'static str = "buffer";

    fn keys() -> &'static [Key<Self>] {
        KEYS
    }

    fn check(&self) -> Result<(), SettingError> {
        check_quantum(self.quantum, "one packet whatever its length")
    }
}

impl DisciplineSettings for SfqConfig {
    fn limits(&self, link: &ShaperConfig) -> Limits {
        Limits { packets: self.limit(link), flows: self.buckets as usize }
    }

    fn build<P: Packet + Send + 'static>(&self, link: &ShaperConfig, seed: u64) -> BoxedDiscipline<P> {
        Box::new(Sfq::new(*self, *link, seed))
    }
}

impl SfqConfig {
    fn limit(&self, link: &ShaperConfig) -> usize {
        self.buffer.packets(link, self.rtt, self.packet)
    }
}

/// The discipline.
#[derive(Debug)]
pub struct Sfq<P> {
    config: SfqConfig,
    link: ShaperConfig,
    seed: u64,
    limit: usize,
    classifier: Classifier,
    lanes: Lanes<P>,
    counters: Counters,
}

impl<P: Packet> Sfq<P> {
    /// Empty queues for `link`, hashed by `seed`.
    #[must_use]
    pub fn new(config: SfqConfig, link: ShaperConfig, seed: u64) -> Self {
        let limit = config.limit(&link);
        let classifier = Classifier::hashed(config.buckets, config.perturb, seed);
        let lanes = Lanes::new(classifier.lanes(), Measure::Packets, limit as u64 + 1);
        Self { config, link, seed, limit, classifier, lanes, counters: Counters::default() }
    }

    fn place(&mut self, packet: P) -> usize {
        let lane = self.classifier.lane(&packet.header().key);
        let begins = self.lanes.backlog_of(lane).packets == 0;
        self.lanes.push(lane, packet);
        if begins {
            *self.lanes.credit(lane) = i64::from(self.config.quantum);
        }
        lane
    }
}

impl<P: Packet> Qdisc<P> for Sfq<P> {
    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        self.counters.arrive(packet.len());
        if self.classifier.changed(now) {
            for waiting in self.lanes.drain() {
                self.place(waiting);
            }
        }
        let own = self.place(packet);
        // More than one only after the limit was lowered.
        while self.lanes.backlog().packets > self.limit
            && self.lanes.push_out(own, &mut self.counters, verdicts).is_some()
        {}
    }

    fn dequeue(&mut self, _now: Instant, _verdicts: &mut Verdicts<P>) -> Option<P> {
        let quantum = i64::from(self.config.quantum);
        let mut lane = self.lanes.turn()?;
        // In debt: the next turn pays. Whoever became active meanwhile goes first.
        while quantum > 0 && *self.lanes.credit(lane) <= 0 {
            *self.lanes.credit(lane) += quantum;
            self.lanes.end_turn(lane);
            lane = self.lanes.turn()?;
        }
        let packet = self.lanes.pop_front(lane)?;
        self.counters.send(packet.len());
        if quantum > 0 {
            *self.lanes.credit(lane) -= self.link.wire_len(packet.len()).get().cast_signed();
        } else if self.lanes.backlog_of(lane).packets > 0 {
            self.lanes.end_turn(lane);
        }
        Some(packet)
    }

    fn next_ready(&self, now: Instant) -> Option<Instant> {
        (self.lanes.backlog().packets > 0).then_some(now)
    }

    fn backlog(&self) -> Backlog {
        self.lanes.backlog()
    }
}

impl<P: Packet> Manage for Sfq<P> {
    fn reconfigure(&mut self, _now: Instant, settings: &dyn Any, link: &ShaperConfig) -> bool {
        let Some(config) = settings.downcast_ref::<SfqConfig>() else { return false };
        let mut fresh = Self::new(*config, *link, self.seed);
        fresh.counters = core::mem::take(&mut self.counters);
        // What a smaller limit has no room for goes when the next packet comes.
        for waiting in self.lanes.drain() {
            fresh.place(waiting);
        }
        *self = fresh;
        true
    }

    fn report(&mut self, _now: Instant) -> Report {
        Report {
            name: "sfq",
            counters: self.counters.clone(),
            backlog: self.backlog(),
            flows: self.lanes.active(),
            active_flows: self.lanes.active(),
            bytes_per_flow: Lanes::<P>::LANE_BYTES,
            ..Report::default()
        }
    }
}

impl<P: Packet> Discipline<P> for Sfq<P> {}

#[cfg(test)]
mod tests;
