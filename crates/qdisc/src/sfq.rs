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
use crate::fair_queues::FairQueues;
use crate::flows_waiting::Classifier;
use crate::keys::keys;
use crate::lanes::Measure;
use crate::{
    Backlog, BoxedDiscipline, Buffer, Discipline, DisciplineSettings, Limits, Manage, Packet, Qdisc, Report,
    SettingError, Settings, ShaperConfig, Verdicts,
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
    /// Time for which a hash is kept; zero: for ever.
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
    buckets: Number(1, 65_536), "number of queues that flows are hashed into";
    perturb: Time(Duration::ZERO, Duration::from_secs(3600)), "time for which a hash is kept; 0: for ever";
    quantum: Number(0, 65_535), "bytes of a turn, on the link, at least 256; 0: one packet whatever its length";
}

impl Settings for SfqConfig {
    const NAME: &'static str = "sfq";
    const BARE: &'static str = "buffer";

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
    link: ShaperConfig,
    seed: u64,
    /// Bytes of a turn; zero: one packet.
    quantum: i32,
    queues: FairQueues<P>,
}

impl<P: Packet> Sfq<P> {
    /// Empty queues for `link`, hashed by `seed`.
    #[must_use]
    pub fn new(config: SfqConfig, link: ShaperConfig, seed: u64) -> Self {
        let limit = config.limit(&link);
        let classifier = Classifier::hashed(config.buckets, config.perturb, seed);
        let quantum = i32::try_from(config.quantum).unwrap_or(i32::MAX);
        let queues = FairQueues::new(classifier, limit, Measure::Packets, limit as u64 + 1, quantum);
        Self { link, seed, quantum, queues }
    }
}

impl<P: Packet> Qdisc<P> for Sfq<P> {
    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        self.queues.enqueue(now, packet, verdicts);
    }

    fn dequeue(&mut self, _now: Instant, _verdicts: &mut Verdicts<P>) -> Option<P> {
        let lanes = &mut self.queues.lanes;
        // A lane in debt pays in its next turn. Whoever became active meanwhile goes first.
        let lane = if self.quantum > 0 { lanes.next(0, |_| 1)?.0 } else { lanes.first(0)? };
        let packet = lanes.pop_front(lane)?;
        self.queues.counters.send(packet.len());
        if self.quantum > 0 {
            lanes.charge(lane, i32::try_from(self.link.wire_len(packet.len()).get()).unwrap_or(i32::MAX));
        } else if lanes.backlog_of(lane).packets > 0 {
            lanes.end_turn(lane);
        }
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.queues.backlog()
    }
}

impl<P: Packet> Manage for Sfq<P> {
    fn reconfigure(&mut self, _now: Instant, settings: &dyn Any, link: &ShaperConfig) -> bool {
        let Some(config) = settings.downcast_ref::<SfqConfig>() else { return false };
        let mut fresh = Self::new(*config, *link, self.seed);
        fresh.queues.follow(&mut self.queues);
        *self = fresh;
        true
    }

    fn report(&mut self, _now: Instant) -> Report {
        self.queues.report("sfq")
    }
}

impl<P: Packet> Discipline<P> for Sfq<P> {}

#[cfg(test)]
mod tests;
