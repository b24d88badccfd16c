//! Cost estimate of a run, before it runs: packets times links they cross, and memory.
//!
//! Elastic traffic is taken to fill the thinnest link of its way, which is about right where there is congestion and
//! too much where there is none: an upper bound in the cases that last.

use std::collections::BTreeSet;

use narrows_scenario::{LogSource, Scenario, Series, Size, Topology, Traffic, TrafficKind};

/// Expected cost of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Packets times the links that each packet crosses, acknowledgments included.
    pub hops: f64,
    /// Bytes of memory.
    pub memory: f64,
}

/// Bytes of an established connection at both ends with its share of tables and timers.
const PER_FLOW: f64 = 1500.0;
/// Bytes of memory of a packet under way or queued, with the packet's event.
const PER_PACKET: f64 = 200.0;
/// Bytes of a transfer that is over.
const PER_TRANSFER: f64 = 100.0;
/// Bytes of what is recorded of a call's delays.
const PER_CALL: f64 = 40_000.0;
/// Bytes of whatever the scenario.
const BASE: f64 = 8e6;
/// Bytes of a typical transfer whose size is drawn.
const TYPICAL_SIZE: f64 = 10_000.0;

impl Estimate {
    /// Estimates the cost of a run of `scenario`.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Self {
        let seconds = scenario.duration.as_secs_f64();
        let mut full = BTreeSet::new();
        let (mut hops, mut memory) = (0.0, BASE);
        for traffic in &scenario.traffic {
            let Some(way) = Way::of(&scenario.topology, traffic) else { continue };
            let most = way.rate / 8.0 / f64::from(scenario.mtu) * seconds;
            let packets = match demand(traffic, seconds) {
                Some(wanted) => wanted.min(most),
                // Groups that share a full link share its packets, which count once.
                None if full.insert(way.thinnest) => most,
                None => 0.0,
            };
            let acks = if traffic.is_datagrams() { 0.0 } else { 0.6 };
            hops += packets * (1.0 + acks) * way.links;
            memory += traffic.kind.parallel() as f64 * PER_FLOW;
            let lasts = matches!(traffic.kind, TrafficKind::Long { .. } | TrafficKind::Telnet { .. });
            if let TrafficKind::Calls { flows, .. } = traffic.kind {
                memory += f64::from(flows) * PER_CALL;
            } else if !lasts && !traffic.is_datagrams() {
                memory += packets * f64::from(scenario.mtu) / TYPICAL_SIZE * PER_TRANSFER;
            }
            memory += way.in_flight / f64::from(scenario.mtu) * PER_PACKET;
        }
        let probes = &scenario.probes;
        let samples = seconds / probes.interval.as_secs_f64().max(1e-9);
        let flows: f64 = scenario.traffic.iter().map(|t| t.kind.parallel() as f64).sum();
        for series in &probes.series {
            let each = if *series == Series::Cwnd { flows } else { scenario.topology.links.len() as f64 };
            memory += samples * each * 16.0;
        }
        memory += seconds / probes.slice.as_secs_f64().max(1e-9) * flows * 8.0;
        if !probes.capture.is_empty() {
            memory += hops * 80.0;
        }
        Self { hops, memory }
    }
}

/// The way of a group's data.
struct Way {
    /// Rate of the way's thinnest link, in bits per second.
    rate: f64,
    /// Index of the thinnest link; beyond all links for a host's own link.
    thinnest: usize,
    /// Number of links on the way, the hosts' own included.
    links: f64,
    /// Product of `rate` and the round trip without queues, in bytes.
    in_flight: f64,
}

impl Way {
    fn of(topology: &Topology, traffic: &Traffic) -> Option<Self> {
        let (from, to) = (topology.hosts.get(traffic.from)?, topology.hosts.get(traffic.to)?);
        let route = topology.route(from.at, to.at)?;
        let own = |count: u32| f64::from(count.max(1));
        let access =
            (from.rate.as_bps() as f64 * own(from.count)).min(to.rate.as_bps() as f64 * own(to.count));
        let mut way =
            Self { rate: access, thinnest: usize::MAX, links: route.len() as f64 + 2.0, in_flight: 0.0 };
        let mut delay = from.delay.high.as_secs_f64() + to.delay.high.as_secs_f64();
        for at in route {
            let rate = topology.links[at].rate.as_bps() as f64;
            delay += topology.links[at].delay.as_secs_f64();
            if rate < way.rate {
                (way.rate, way.thinnest) = (rate, at);
            }
        }
        way.in_flight = way.rate / 8.0 * delay * 2.0;
        Some(way)
    }
}

/// Packets a group wants to send in all; `None` for as many as the network bears.
fn demand(traffic: &Traffic, seconds: f64) -> Option<f64> {
    let per = |bytes: f64| (bytes / f64::from(traffic.tcp_from.mss.max(1))).ceil() + 3.0;
    match &traffic.kind {
        TrafficKind::Udp { flows, rate, packet, on, off } => {
            let (on, off) = (on.as_secs_f64(), off.as_secs_f64());
            let share = if on + off > 0.0 { on / (on + off) } else { 1.0 };
            Some(
                f64::from(*flows) * rate.as_bps() as f64 / 8.0 / f64::from((*packet).max(1))
                    * share
                    * seconds,
            )
        }
        // Both ways.
        TrafficKind::Calls { flows, call } => {
            Some(2.0 * f64::from(*flows) * seconds / call.interval.as_secs_f64().max(1e-9))
        }
        TrafficKind::Telnet { flows, interval, bytes } => {
            Some(f64::from(*flows) * seconds / interval.as_secs_f64().max(1e-9) * (per(*bytes as f64) - 3.0))
        }
        TrafficKind::Files { flows, arrivals, size, .. } => {
            let count = match (flows, arrivals) {
                (Some(n), None) => f64::from(*n),
                (n, Some(rate)) => (rate * seconds).min(n.map_or(f64::INFINITY, f64::from)),
                (None, None) => return None,
            };
            let bytes = match size {
                Size::Fixed(n) => *n as f64,
                Size::Exponential { mean } => *mean,
                _ => TYPICAL_SIZE,
            };
            Some(count * per(bytes))
        }
        TrafficKind::Log { source: LogSource::File { entries, .. }, .. } => {
            Some(entries.iter().map(|e| per(e.bytes as f64)).sum())
        }
        TrafficKind::Long { .. }
        | TrafficKind::Objects { .. }
        | TrafficKind::Pages { .. }
        | TrafficKind::Log { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(traffic: &str) -> Estimate {
        let text = format!(
            "name = \"x\"\nrate = \"600kbit\"\nrtt = \"200ms\"\nmtu = 500\nduration = \"100s\"\n\
             discipline = \"fifo:30\"\n[[traffic]]\n{traffic}\n"
        );
        let runs = narrows_scenario::Experiment::parse(&text, &[]).unwrap().expand().unwrap();
        Estimate::of(&runs[0].scenario)
    }

    #[test]
    fn by_hand() {
        // 600 kbit/s of 500 B packets are 150 a second; three links, and six acknowledgments for ten packets.
        let long = estimate("kind = \"long\"\nflows = 10");
        assert!((long.hops - 150.0 * 100.0 * 1.6 * 3.0).abs() < 1.0, "{long:?}");
        // Two groups do not get more through than one.
        let two = estimate("kind = \"long\"\nflows = 10\n[[traffic]]\nkind = \"long\"\nflows = 10");
        assert!((two.hops - long.hops).abs() < 1.0 && two.memory > long.memory, "{two:?}");
        // 20 kbit/s in packets of 100 B: 25 a second.
        let udp = estimate("kind = \"udp\"\nflows = 1\nrate = \"20kbit\"\npacket = 100");
        assert!((udp.hops - 2500.0 * 3.0).abs() < 1.0, "{udp:?}");
    }
}
