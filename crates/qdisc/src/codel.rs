//! CoDel: one queue, first in first out, whose packets are dropped (or marked) from the head once the shortest wait
//! within an interval stays above a target.
//!
//! Idea: Nichols and Jacobson, Controlling Queue Delay, ACM Queue 10(5), 2012; RFC 8289.
//!
//! Where we differ: see [`sojourn`](crate::sojourn), the state machine. Beyond the RFC: ECN-capable packets are marked
//! instead (on the same schedule); a full queue turns new packets away; with `scale` the target follows the rate.

use core::any::Any;
use std::collections::VecDeque;

use narrows_units::{Duration, Instant};

use crate::keys::keys;
use crate::sojourn::{Before, CodelState, Law};
use crate::{
    Backlog, BoxedDiscipline, Counters, Discipline, DisciplineSettings, Limits, Manage, Packet, Qdisc,
    Reason, Report, SettingError, Settings, ShaperConfig, Verdicts,
};

/// Settings of CoDel. Fields are named as their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelConfig {
    /// The most packets that wait.
    pub limit: u32,
    /// Acceptable standing delay.
    pub target: Duration,
    /// Time that the delay may stay above `target`.
    pub interval: Duration,
    /// Whether `target` is at least one and a half packets' time on the link.
    pub scale: bool,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

impl Default for CodelConfig {
    /// RFC 8289, sections 4.2 and 4.3, and Linux's limit.
    fn default() -> Self {
        Self {
            limit: 1000,
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            scale: false,
            ecn: true,
        }
    }
}

/// The ranges of `target` and `interval`, the same wherever CoDel runs.
pub const TARGETS: (Duration, Duration) = (Duration::from_micros(10), Duration::from_secs(10));
pub const INTERVALS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(100));

keys! {
    CodelConfig;
    limit: Number(1, 1_000_000), "most packets that wait at once";
    target: Time(TARGETS.0, TARGETS.1), "acceptable standing delay";
    interval: Time(INTERVALS.0, INTERVALS.1),
        "time that the delay may stay above `target`: about the longest usual round-trip time";
    scale: Choice(), "raise `target` to at least one and a half packets' time on the link, and `interval` by as much";
    ecn: Choice(), "mark ECN-capable packets instead of dropping them";
}

/// Checks that the target is below the interval: control never reaches a target above the interval.
pub fn check_times(target: Duration, interval: Duration) -> Result<(), SettingError> {
    if target < interval {
        return Ok(());
    }
    Err(SettingError::new(
        "target",
        format!("{} ms", target.as_millis()),
        format!("less than interval = {} ms", interval.as_millis()),
    ))
}

impl Settings for CodelConfig {
    const NAME: &'static str = "codel";
    const BARE: &'static str = "limit";

    fn check(&self) -> Result<(), SettingError> {
        check_times(self.target, self.interval)
    }
}

impl DisciplineSettings for CodelConfig {
    fn limits(&self, _link: &ShaperConfig) -> Limits {
        Limits { packets: self.limit as usize, flows: 0 }
    }

    fn build<P: Packet + Send + 'static>(&self, link: &ShaperConfig, seed: u64) -> BoxedDiscipline<P> {
        Box::new(Codel::new(*self, *link, seed))
    }
}

/// The discipline.
#[derive(Debug)]
pub struct Codel<P> {
    config: CodelConfig,
    law: Law,
    state: CodelState,
    queue: VecDeque<(Instant, P)>,
    backlog: Backlog,
    counters: Counters,
}

impl<P: Packet> Codel<P> {
    /// An empty queue for `link`. There is no chance in CoDel: the seed does nothing.
    #[must_use]
    pub fn new(config: CodelConfig, link: ShaperConfig, _seed: u64) -> Self {
        Self {
            config,
            law: Law::on(&link, config.target, config.interval, config.scale),
            state: CodelState::default(),
            queue: VecDeque::new(),
            backlog: Backlog::default(),
            counters: Counters::default(),
        }
    }
}

impl<P: Packet> Qdisc<P> for Codel<P> {
    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        let len = packet.len();
        self.counters.arrive(len);
        if self.queue.len() < self.config.limit as usize {
            self.backlog.add(len);
            self.queue.push_back((now, packet));
        } else {
            self.counters.drop_packet(packet, Reason::OverLimit, verdicts);
        }
    }

    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        let mut before = Before::Nothing;
        loop {
            let (since, mut packet) = self.queue.pop_front()?;
            self.backlog.sub(packet.len());
            let signal = self.state.decide(&self.law, now, now.since(since), self.backlog.bytes, before);
            if let Some(signal) = signal {
                let marked =
                    self.config.ecn && self.counters.mark_packet(&mut packet, Reason::Sojourn, verdicts);
                if !marked {
                    self.counters.drop_packet(packet, Reason::Sojourn, verdicts);
                    before = signal;
                    continue;
                }
                self.state.marked(&self.law, signal);
            }
            self.counters.send(packet.len());
            return Some(packet);
        }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

impl<P: Packet> Manage for Codel<P> {
    fn reconfigure(&mut self, _now: Instant, settings: &dyn Any, link: &ShaperConfig) -> bool {
        let Some(config) = settings.downcast_ref::<CodelConfig>() else { return false };
        // What waits stays, also above a smaller limit; a spell of drops goes on under the new law.
        self.config = *config;
        self.law = Law::on(link, config.target, config.interval, config.scale);
        true
    }

    fn report(&mut self, _now: Instant) -> Report {
        Report {
            name: "codel".into(),
            counters: self.counters.clone(),
            backlog: self.backlog,
            ..Report::default()
        }
    }
}

impl<P: Packet> Discipline<P> for Codel<P> {}

#[cfg(test)]
mod tests {
    use narrows_units::{Bytes, Ecn, Rate};

    use super::*;
    use crate::Record;
    use crate::Verdict;
    use crate::samples::ecn_packet as packet;

    /// A link of 1.2 Mbit/s: a packet of 1500 B each 10 ms. `n` of them at once, then served at that pace; the numbers
    /// of those dropped and marked.
    fn serve(settings: &str, n: u64, ecn: Ecn) -> (Vec<u64>, usize) {
        let link = ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(1200)) };
        let mut q = Codel::new(CodelConfig::read(settings).unwrap(), link, 0);
        let mut v = Verdicts::new();
        (0..n).for_each(|id| q.enqueue(Instant::ZERO, packet(id, 1500, ecn), &mut v));
        let mut now = Instant::ZERO;
        while q.dequeue(now, &mut v).is_some() {
            now += Duration::from_millis(10);
        }
        let dropped = |v: &Verdict<Record>| match v {
            Verdict::Dropped { packet, .. } => Some(packet.id),
            _ => None,
        };
        (
            v.iter().filter_map(dropped).collect(),
            v.iter().filter(|v| matches!(v, Verdict::Marked { .. })).count(),
        )
    }

    #[test]
    fn a_standing_queue_loses_from_the_head_at_the_laws_instants() {
        // Above target first at 10 ms (packet 1). The first drop at 110 ms: packet 11, and 12 leaves. At 210 the
        // hundred milliseconds are over: packet 22. Then at 280.7, on the next turn at 290: 31. 338.4, at 340: 37.
        // 388.4, at 390: 43.
        let (dropped, _) = serve("", 46, Ecn::NotEct);
        assert_eq!(dropped, [11, 22, 31, 37, 43]);
    }

    #[test]
    fn the_last_packet_is_never_dropped() {
        // With 24 the drop at 210 takes 22, behind which one packet waits: no more than an MTU, so it is not dropped.
        assert_eq!(serve("", 24, Ecn::NotEct).0, [11]);
        assert_eq!(serve("", 25, Ecn::NotEct).0, [11, 22]);
    }

    #[test]
    fn marks_instead_and_overflow() {
        let (dropped, marked) = serve("40", 46, Ecn::Ect0);
        assert_eq!((dropped, marked), ((40..46).collect::<Vec<_>>(), 4));
        assert_eq!(serve("ecn=off", 46, Ecn::Ect0).0.len(), 5);
        assert!(CodelConfig::read("target=100ms").is_err());
    }
}
