//! DRR: each round adds `quantum` bytes to what a flow may send; what a packet was too large for is kept for the next.
//!
//! Idea: Shreedhar and Varghese, Efficient Fair Queuing Using Deficit Round Robin, SIGCOMM 1995, figure 3; when the
//! buffer is full a packet of the longest queue is lost (their section 3, after `McKenney`).
//!
//! Where we differ:
//! - `share=flow` gives each flow with packets waiting a queue of its own; `share=hash` is the paper's, with buckets.
//!   With `share=user` there are two levels: rounds of users, and each user's rounds of flows ([`crate::users`]); who
//!   has more waiting than a user's part of the buffer, in several flows, loses a packet before others do.
//! - Lengths are compared in steps of 1/4096 of what the buffer holds of the largest packets, at least 64 bytes;
//!   "longest" is longest to within a step.
//! - The packet lost is the longest queue's last. The paper does not say which.
//! - Bytes are those on the link, framing included.

use core::any::Any;

use narrows_units::{Bytes, Duration, Instant};
use narrows_users::UserRule;

use crate::fair_queues::FairQueues;
use crate::flows_waiting::Classifier;
use crate::keys::{choices, keys};
use crate::lanes::Measure;
use crate::users::{CircuitRates, LaneUsers};
use crate::{
    Backlog, BoxedDiscipline, Buffer, Discipline, DisciplineSettings, Limits, Manage, Packet, Qdisc, Report,
    SettingError, Settings, ShaperConfig, Verdicts,
};

/// Owner of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queues {
    /// A queue for each flow.
    #[default]
    Flow,
    /// A queue for each bucket of a hash over flows.
    Hash,
    /// A queue for each flow; the link is shared between users first.
    User,
}
choices!(Queues: "flow" => Flow, "hash" => Hash, "user" => User);

/// Settings of DRR. Fields are named as their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrrConfig {
    /// Size of the buffer.
    pub buffer: Buffer,
    /// Round-trip time for which the buffer is sized.
    pub rtt: Duration,
    /// Packet size for which the buffer is sized.
    pub packet: Bytes,
    /// Owner of a queue.
    pub share: Queues,
    /// Queues, with `share=hash`.
    pub buckets: u32,
    /// Time for which a hash is kept; zero: for ever.
    pub perturb: Duration,
    /// Bytes of a turn; zero: the link's largest packet.
    pub quantum: u32,
    /// Leading bits of an IPv6 address that are a user's; 0 for as the driver tells of each packet.
    pub user_prefix: u32,
}

impl Default for DrrConfig {
    fn default() -> Self {
        Self {
            buffer: Buffer::Rtts(1000),
            rtt: Duration::from_millis(200),
            packet: Bytes(1500),
            share: Queues::Flow,
            buckets: 1024,
            perturb: Duration::ZERO,
            quantum: 0,
            user_prefix: 0,
        }
    }
}

keys! {
    DrrConfig;
    buffer: Buffer(), "buffer, in multiples of one RTT of the link (`1x`) or in packets";
    rtt: Time(Duration::from_millis(1), Duration::from_secs(10)), "round-trip time the buffer is sized for";
    packet: Size(64, 65_535), "packet size the buffer is sized for, in bytes";
    share: Choice(),
        "owner of a queue: each flow, or each bucket of a hash over flows; `user`: each flow, and users share the \
         link first";
    buckets: Number(1, 65_536), "number of queues that flows are hashed into (`share=hash`)";
    perturb: Time(Duration::ZERO, Duration::from_secs(3600)),
        "time for which a hash is kept; 0: for ever (`share=hash`)";
    quantum: Number(0, 65_535), "bytes of a turn, on the link, at least 256; 0: the link's largest packet";
    user_prefix: Number(0, 128),
        "length of a user's IPv6 prefix in bits (`share=user`); 0: as the box finds it, and 64 elsewhere";
}

/// Smaller quanta would go round hundreds of times for one large packet.
const LEAST_QUANTUM: u32 = 256;

/// A quantum, the same wherever there is one; zero has a meaning of its own.
pub fn check_quantum(quantum: u32, zero: &str) -> Result<(), SettingError> {
    if quantum == 0 || quantum >= LEAST_QUANTUM {
        return Ok(());
    }
    Err(SettingError::new(
        "quantum",
        quantum.to_string(),
        format!("at least {LEAST_QUANTUM}, or 0 for {zero}"),
    ))
}

impl Settings for DrrConfig {
    const NAME: &'static str = "drr";
    const BARE: &'static str = "buffer";

    fn check(&self) -> Result<(), SettingError> {
        check_quantum(self.quantum, "the link's largest packet")
    }
}

impl DisciplineSettings for DrrConfig {
    fn limits(&self, link: &ShaperConfig) -> Limits {
        let packets = self.limit(link);
        let flows = if self.share == Queues::Hash { self.buckets as usize } else { packets + 1 };
        Limits { packets, flows }
    }

    fn build<P: Packet + Send + 'static>(&self, link: &ShaperConfig, seed: u64) -> BoxedDiscipline<P> {
        Box::new(Drr::new(*self, *link, seed))
    }
}

impl DrrConfig {
    fn limit(&self, link: &ShaperConfig) -> usize {
        self.buffer.packets(link, self.rtt, self.packet)
    }
}

/// The discipline.
#[derive(Debug)]
pub struct Drr<P> {
    link: ShaperConfig,
    seed: u64,
    quantum: i32,
    queues: FairQueues<P>,
}

impl<P: Packet> Drr<P> {
    /// Empty queues for `link`; `seed` keys the hash.
    #[must_use]
    pub fn new(config: DrrConfig, link: ShaperConfig, seed: u64) -> Self {
        Self::with_room(config, link, seed, 0)
    }

    /// Makes lanes for `waiting` packets, should that be more than the limit.
    fn with_room(config: DrrConfig, link: ShaperConfig, seed: u64, waiting: usize) -> Self {
        let limit = config.limit(&link);
        let classifier = match config.share {
            // Room for one packet more: an arrival is taken in before one is chosen to go.
            Queues::Flow | Queues::User => Classifier::exact(limit.max(waiting) + 1, seed),
            Queues::Hash => Classifier::hashed(config.buckets, config.perturb, seed),
        };
        let longest = limit as u64 * config.packet.max(link.mtu).get();
        let measure = Measure::Bytes((longest / 4096).max(64));
        let quantum = if config.quantum > 0 { u64::from(config.quantum) } else { link.largest().get() };
        let quantum = i32::try_from(quantum.max(u64::from(LEAST_QUANTUM))).unwrap_or(i32::MAX);
        let mut queues = FairQueues::new(classifier, limit, measure, longest, quantum);
        if config.share == Queues::User {
            let rule = UserRule { side: link.users, ipv6_prefix: crate::users::prefix(config.user_prefix) };
            let users = LaneUsers::new(rule, link.rate, limit, quantum, seed);
            queues.by_user = Some(Box::new(users));
        }
        Self { link, seed, quantum, queues }
    }

    /// The lane to be served, of the user whose turn it is where the link is shared between users; and the bytes that
    /// its first packet takes of the link.
    #[inline(always)]
    fn lane_to_serve(&mut self, now: Instant) -> Option<(usize, i32)> {
        let Self { link, quantum, queues, .. } = self;
        let lanes = &mut queues.lanes;
        let need = |packet: &P| on_link(link, packet);
        let Some(by) = &mut queues.by_user else { return lanes.next(0, need) };
        let user = by.users.next(now, *quantum, |user| lanes.next(user, need).map_or(0, |next| next.1))?;
        lanes.next(user, need)
    }
}

/// Bytes that a packet takes of the link.
fn on_link(link: &ShaperConfig, packet: &impl Packet) -> i32 {
    i32::try_from(link.wire_len(packet.len()).get()).unwrap_or(i32::MAX)
}

impl<P: Packet> Qdisc<P> for Drr<P> {
    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        self.queues.enqueue(now, packet, verdicts);
    }

    fn dequeue(&mut self, now: Instant, _verdicts: &mut Verdicts<P>) -> Option<P> {
        let (lane, cost) = self.lane_to_serve(now)?;
        let queues = &mut self.queues;
        let packet = queues.lanes.pop_front(lane)?;
        queues.lanes.charge(lane, cost);
        if let Some(by) = &mut queues.by_user {
            by.users.charge(now, cost);
        }
        queues.counters.send(packet.len());
        queues.left(lane);
        Some(packet)
    }

    fn next_ready(&self, now: Instant) -> Option<Instant> {
        match &self.queues.by_user {
            Some(by) => by.users.next_ready(now),
            None => (self.backlog().packets > 0).then_some(now),
        }
    }

    fn backlog(&self) -> Backlog {
        self.queues.backlog()
    }
}

impl<P: Packet> Manage for Drr<P> {
    fn reconfigure(&mut self, _now: Instant, settings: &dyn Any, link: &ShaperConfig) -> bool {
        let Some(config) = settings.downcast_ref::<DrrConfig>() else { return false };
        let mut fresh = Self::with_room(*config, *link, self.seed, self.backlog().packets);
        let rates = self.queues.by_user.as_ref().map(|by| by.users.rates());
        fresh.queues.follow(&mut self.queues);
        *self = fresh;
        if let Some(rates) = rates {
            self.set_circuit_rates(&rates);
        }
        true
    }

    fn set_circuit_rates(&mut self, rates: &CircuitRates) {
        if let Some(by) = &mut self.queues.by_user {
            by.users.set_rates(rates.clone());
        }
    }

    fn report(&mut self, _now: Instant) -> Report {
        self.queues.report("drr")
    }
}

impl<P: Packet> Discipline<P> for Drr<P> {}

#[cfg(test)]
mod tests;
