//! PIE: some arrivals are dropped (or marked) by chance; the chance is corrected at regular intervals, by how far the
//! delay is from a target and by where it is heading.
//!
//! Idea: Pan and others, PIE: A Lightweight Control Scheme to Address the Bufferbloat Problem, HPSR 2013; RFC 8033.
//!
//! Where we differ:
//! - The delay is that of the last packet sent, zero if the queue is empty then: section 4.3 allows timestamps beside
//!   the estimate from the departure rate (section 5.2).
//! - Nothing is dropped while no more than 2048 bytes wait: RFC 8033 leaves `MEAN_PKTSIZE` open, 1024 is RFC 8034's;
//!   Linux spares two of the largest packets.
//! - The optional parts of section 5 are settings, except 5.3: PIE is always active.
//! - Integers: probabilities have 56 fractional bits; only what they round away is lost.
//! - There is no timer: corrections that are due are made before the next packet is looked at, as many as were due.
//! - `steep` is not in RFC 8033: above 250 ms each correction adds 2 % (RFC 8034, and Linux).

use core::any::Any;
use std::collections::VecDeque;

use narrows_units::{Bytes, Duration, Instant};

use crate::keys::keys;
use crate::{
    Backlog, BoxedDiscipline, Counters, Dice, Discipline, DisciplineSettings, Limits, Manage, Packet, Ppm,
    Qdisc, Reason, Report, Settings, ShaperConfig, Verdicts,
};

/// Settings of PIE. Fields are named as their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieConfig {
    /// The most packets that wait.
    pub limit: u32,
    /// The delay aimed at: `QDELAY_REF`.
    pub target: Duration,
    /// Time between corrections.
    pub t_update: Duration,
    /// Weight of the distance from the target, in 1/s.
    pub alpha: Ppm,
    /// Weight of the change since the last correction, in 1/s.
    pub beta: Ppm,
    /// Time without drops after a calm.
    pub max_burst: Duration,
    /// Drops are spread evenly (section 5.4).
    pub derandomize: bool,
    /// Whether the chance grows by at most 2 % at a time from 10 % on (section 5.5).
    pub cap: bool,
    /// Whether the chance grows by 2 % more at each correction above 250 ms.
    pub steep: bool,
    /// Whether ECN-capable packets are marked instead of dropped ...
    pub ecn: bool,
    /// Greatest chance at which ECN-capable packets are marked instead of dropped (section 5.1).
    pub mark_ecnth: Ppm,
}

impl Default for PieConfig {
    /// RFC 8033, sections 4 and 5, and Linux's limit.
    fn default() -> Self {
        Self {
            limit: 1000,
            target: Duration::from_millis(15),
            t_update: Duration::from_millis(15),
            alpha: Ppm(125_000),
            beta: Ppm(1_250_000),
            max_burst: Duration::from_millis(150),
            derandomize: true,
            cap: true,
            steep: false,
            ecn: true,
            mark_ecnth: Ppm(100_000),
        }
    }
}

keys! {
    PieConfig;
    limit: Number(1, 1_000_000), "most packets that wait at once";
    target: Time(Duration::from_millis(1), Duration::from_secs(10)), "target delay (`QDELAY_REF`)";
    t_update: Time(Duration::from_millis(1), Duration::from_secs(1)), "time between corrections";
    alpha: Part(0, 100_000_000), "weight of the distance from the target, in 1/s";
    beta: Part(0, 100_000_000), "weight of the change since the last correction, in 1/s";
    max_burst: Time(Duration::ZERO, Duration::from_secs(10)),
        "time without drops when delay comes after a calm (burst allowance)";
    derandomize: Choice(), "spread drops evenly: none before a sum of chances of 0.85, one at the latest at 8.5";
    cap: Choice(), "limit the growth of the chance of a drop to 2 % at a time, from 10 % on";
    steep: Choice(), "let the chance of a drop grow by 2 % more each time, above 250 ms of delay (Linux)";
    ecn: Choice(), "mark ECN-capable packets instead of dropping them";
    mark_ecnth: Part(0, 1_000_000), "largest chance of a drop at which packets are marked instead (`ecn=on`)";
}

impl Settings for PieConfig {
    const NAME: &'static str = "pie";
    const BARE: &'static str = "limit";
}

impl DisciplineSettings for PieConfig {
    fn limits(&self, _link: &ShaperConfig) -> Limits {
        Limits { packets: self.limit as usize, flows: 0 }
    }

    fn build<P: Packet + Send + 'static>(&self, link: &ShaperConfig, seed: u64) -> BoxedDiscipline<P> {
        Box::new(Pie::new(*self, *link, seed))
    }
}

/// One as a probability.
const ONE: u64 = 1 << 56;
/// Bytes waiting up to which nothing is dropped: two packets of `MEAN_PKTSIZE` (section 4.1).
const SPARED: Bytes = Bytes(2 * 1024);
/// Delay above which `steep` acts.
const STEEP: Duration = Duration::from_millis(250);

const fn percent(n: u64) -> u64 {
    ONE / 100 * n
}

/// The auto-tuning table of section 4.2: below the first, the correction is divided by the second.
const SCALES: [(u64, i128); 6] = [
    (ONE / 1_000_000, 2048),
    (ONE / 100_000, 512),
    (ONE / 10_000, 128),
    (ONE / 1_000, 32),
    (ONE / 100, 8),
    (ONE / 10, 2),
];

/// The controller. Field names are the RFC's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PieState {
    /// 56 fractional bits.
    drop_prob: u64,
    /// Delay of the last packet sent.
    current_qdelay: Duration,
    /// Delay at the last correction.
    qdelay_old: Duration,
    burst_allowance: Duration,
    /// Sum of the chances since the last drop.
    accu_prob: u64,
}

impl PieState {
    /// The correction of each `t_update` (sections 4.2 and 4.4).
    fn update(&mut self, config: &PieConfig) {
        let ns = |d: Duration| i128::from(d.as_nanos());
        let now = ns(self.current_qdelay);
        let drive = i128::from(config.alpha.0) * (now - ns(config.target))
            + i128::from(config.beta.0) * (now - ns(self.qdelay_old));
        let scale = SCALES.iter().find(|(below, _)| self.drop_prob < *below).map_or(1, |(_, by)| *by);
        // Millionths per second times nanoseconds: 10^-15. Beyond two a correction is the same, and has no room.
        let unit = 1_000_000_000_000_000 * scale;
        let mut p = (drive.clamp(-2 * unit, 2 * unit) << 56) / unit;
        if config.cap && self.drop_prob >= ONE / 10 {
            p = p.min(i128::from(percent(2)));
        }
        if config.steep && self.current_qdelay > STEEP {
            p += i128::from(percent(2));
        }
        let mut next = (i128::from(self.drop_prob) + p).clamp(0, i128::from(ONE)) as u64;
        if self.current_qdelay == Duration::ZERO && self.qdelay_old == Duration::ZERO {
            next -= next.div_ceil(50); // 0.98, and in the end nothing
        }
        self.drop_prob = next;
        self.qdelay_old = self.current_qdelay;
        self.burst_allowance = self.burst_allowance.saturating_sub(config.t_update);
    }

    /// Whether an arrival that finds `waiting` is to be told (sections 4.1, 4.4 and 5.4).
    fn decide(&mut self, config: &PieConfig, waiting: Bytes, dice: &mut Dice) -> bool {
        let half = Duration::from_nanos(config.target.as_nanos() / 2);
        let protected = self.burst_allowance > Duration::ZERO;
        if self.drop_prob == 0 && self.current_qdelay < half && self.qdelay_old < half {
            self.burst_allowance = config.max_burst;
        }
        let calm = self.qdelay_old < half && self.drop_prob < ONE / 5;
        if protected || calm || waiting <= SPARED {
            return false;
        }
        if config.derandomize {
            if self.drop_prob == 0 {
                self.accu_prob = 0;
            }
            self.accu_prob = self.accu_prob.saturating_add(self.drop_prob);
            if self.accu_prob < percent(85) {
                return false;
            }
            if self.accu_prob >= percent(850) {
                return true;
            }
        }
        dice.below(ONE) < self.drop_prob
    }
}

/// The discipline.
#[derive(Debug)]
pub struct Pie<P> {
    config: PieConfig,
    control: PieState,
    /// The next correction; known after the first arrival.
    update_at: Option<Instant>,
    dice: Dice,
    queue: VecDeque<(Instant, P)>,
    backlog: Backlog,
    counters: Counters,
}

impl<P: Packet> Pie<P> {
    /// An empty queue; `seed` is for the dice.
    #[must_use]
    pub fn new(config: PieConfig, _link: ShaperConfig, seed: u64) -> Self {
        Self {
            config,
            control: PieState { burst_allowance: config.max_burst, ..PieState::default() },
            update_at: None,
            dice: Dice::new(seed),
            queue: VecDeque::new(),
            backlog: Backlog::default(),
            counters: Counters::default(),
        }
    }

    /// Makes the corrections that are due. Between packets nothing else changes, so it does not matter when it is
    /// called.
    fn catch_up(&mut self, now: Instant) {
        let Some(mut due) = self.update_at else { return };
        while due <= now {
            let before = self.control;
            self.control.update(&self.config);
            due += self.config.t_update;
            if self.control == before && due <= now {
                // At rest: the others would change nothing either.
                let period = self.config.t_update.as_nanos();
                let skipped = (now.since(due).as_nanos() / period).saturating_add(1);
                due += Duration::from_nanos(skipped.saturating_mul(period));
                break;
            }
        }
        self.update_at = Some(due);
    }

    /// Reason for which an arrival is lost; `None` for an arrival that is queued, marked or not.
    fn decide(&mut self, packet: &mut P, verdicts: &mut Verdicts<P>) -> Option<Reason> {
        if self.queue.len() >= self.config.limit as usize {
            self.control.accu_prob = 0;
            return Some(Reason::OverLimit);
        }
        if !self.control.decide(&self.config, self.backlog.bytes, &mut self.dice) {
            return None;
        }
        self.control.accu_prob = 0;
        let most = u128::from(self.config.mark_ecnth.0) * u128::from(ONE) / 1_000_000;
        let may_mark = self.config.ecn && u128::from(self.control.drop_prob) <= most;
        let marked = may_mark && self.counters.mark_packet(packet, Reason::Early, verdicts);
        (!marked).then_some(Reason::Early)
    }
}

impl<P: Packet> Qdisc<P> for Pie<P> {
    fn enqueue(&mut self, now: Instant, mut packet: P, verdicts: &mut Verdicts<P>) {
        let len = packet.len();
        self.counters.arrive(len);
        if self.update_at.is_none() {
            self.update_at = Some(now + self.config.t_update);
        }
        self.catch_up(now);
        if let Some(reason) = self.decide(&mut packet, verdicts) {
            self.counters.drop_packet(packet, reason, verdicts);
        } else {
            self.backlog.add(len);
            self.queue.push_back((now, packet));
        }
    }

    fn dequeue(&mut self, now: Instant, _verdicts: &mut Verdicts<P>) -> Option<P> {
        self.catch_up(now);
        let (since, packet) = self.queue.pop_front()?;
        self.backlog.sub(packet.len());
        self.counters.send(packet.len());
        self.control.current_qdelay = if self.queue.is_empty() { Duration::ZERO } else { now.since(since) };
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

impl<P: Packet> Manage for Pie<P> {
    fn reconfigure(&mut self, now: Instant, settings: &dyn Any, _link: &ShaperConfig) -> bool {
        let Some(config) = settings.downcast_ref::<PieConfig>() else { return false };
        // What waits stays, also above a smaller limit; so does the chance.
        self.catch_up(now);
        self.config = *config;
        self.control.burst_allowance = self.control.burst_allowance.min(config.max_burst);
        true
    }

    fn report(&mut self, now: Instant) -> Report {
        self.catch_up(now);
        let loss_ppm = (u128::from(self.control.drop_prob) * 1_000_000 / u128::from(ONE)) as u32;
        let counters = self.counters.clone();
        Report { name: "pie".into(), counters, backlog: self.backlog, loss_ppm, ..Report::default() }
    }
}

impl<P: Packet> Discipline<P> for Pie<P> {}

#[cfg(test)]
mod tests;
