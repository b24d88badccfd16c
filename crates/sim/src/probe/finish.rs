//! The end of a run: what its parts have recorded becomes figures and tables.

use narrows_units::Instant;

use super::links::{self, LinkEnd};
use super::plan::ProbePlan;
use super::report::{MAX, P50, P99, Tables, integers, share};
use super::{Datagrams, Probes};
use crate::connection::Connection;
use crate::edge::Edges;
use crate::ids::FlowId;
use crate::network::Network;
use crate::path_split::Arrivals;
use crate::results::Results;
use crate::tap::Capture;

/// Measurements of a part at the end of the part's run. Unlike a world, they may move to another thread.
pub struct PartEnd {
    pub(super) now: Instant,
    pub(super) probes: Probes,
    /// Measurements of the watched links, in the order of the plan.
    pub(super) links: Vec<LinkEnd>,
    /// Packets of no connection that were lost, by user.
    pub(super) datagrams_lost: Vec<u64>,
    /// Arrivals by class, if there are edges.
    pub(super) edges: Option<Arrivals>,
    pub(super) captures: Vec<Capture>,
}

impl core::fmt::Debug for PartEnd {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PartEnd").field("now", &self.now).finish_non_exhaustive()
    }
}

impl Probes {
    /// Takes down the state in which a run leaves a network, its connections and edges.
    pub(crate) fn end(mut self, mut net: Network, connections: Vec<Connection>, edges: &Edges) -> PartEnd {
        debug_assert_eq!(crate::conservation::check_conservation(&net), Ok(()), "at the end");
        let now = net.now;
        for (place, c) in (0..).zip(&connections).filter(|(_, c)| c.live) {
            self.close(now, c, net.tap.lost_of(FlowId(place), c.generation), false);
        }
        // Tables take as much memory as what they tell of, so what is no longer needed goes before they are made.
        drop(connections);
        self.due.pass(now);
        if self.plan.decisions {
            self.decisions.take(&self.plan, &mut net);
        }
        let links = self.links.end(&self.plan, &mut net);
        let edges = (!edges.is_empty()).then_some(edges.arrivals);
        let (datagrams_lost, captures) = (net.tap.datagrams_lost, net.tap.captures);
        PartEnd { now, probes: self, links, datagrams_lost, edges, captures }
    }
}

/// Makes results of what was recorded.
pub(crate) fn report(plan: &ProbePlan, end: PartEnd) -> Results {
    let PartEnd { now, probes, links, datagrams_lost, edges, captures } = end;
    let mut out = Tables::default();
    let seconds = now.since(plan.warmup).as_secs_f64();
    let delivered = probes.ends.counted();
    let bits = delivered as f64 * 8.0;
    out.put("goodput_bps", bits / seconds);
    out.put("goodput_kbps", bits / seconds / 1e3);
    let arrived = probes.arrived - probes.arrived_before;
    // What waits out of order when counting begins has arrived before.
    out.put("wasted", share(arrived.saturating_sub(delivered), arrived));
    if let Some(at) = plan.bottleneck() {
        let (link, shape) = (&plan.links[at], links[at].shape);
        let full = |payload: u32| u64::from(payload + crate::port::BARE_HEADERS);
        let framed = shape.map(|s| s.wire_len(narrows_units::Bytes(full(plan.mss))).get());
        // The most payload the link can carry, in full packets without options.
        let most = framed.map(|len| link.rate.as_bps() as f64 * f64::from(plan.mss) / len as f64);
        out.put("goodput_share", most.map(|most| bits / seconds / most));
    }
    probes.ends.report_timeouts(probes.due.sum, &mut out);
    probes.gone.since(&probes.before).report(plan, seconds, &mut out);
    out.histogram("write", &probes.writes, &[P50, P99, MAX]);
    datagrams(&probes.datagrams, &datagrams_lost, seconds, &mut out);
    probes.calls.report(&mut out);
    probes.ends.users.report(now, &plan.stalls, &mut out);
    links::report(plan, &links, &mut out);
    probes.flows.report(plan.slice, now, &mut out);
    if let Some(length) = plan.epoch {
        probes.epochs.report(length, &mut out);
    }
    probes.bursts.report(&mut out);
    probes.ends.repairs.report(&mut out);
    probes.samples.report(plan, &mut out);
    if plan.decisions {
        probes.decisions.report(plan, &mut out);
    }
    probes.ends.shares.report(&probes.ends.users, plan.slice, now.since(plan.warmup), &mut out);
    if let Some(Arrivals { data, first_class, reordered }) = edges {
        out.put("first_class", share(first_class, data));
        out.put("reordered", share(reordered, data));
    }
    probes.transfers.report(plan, &mut out);
    probes.pages.report(plan.warmup, &mut out);
    captures_of(plan, captures, &mut out);
    out.0.qlog = probes.ends.qlogs.file();
    out.0
}

/// `lost` is how many were, by user.
fn datagrams(d: &Datagrams, lost: &[u64], seconds: f64, out: &mut Tables) {
    let of = |list: &[u64], user: usize| list.get(user).copied().unwrap_or(0);
    let rows: Vec<(u64, u64, u64, u64)> = (0..d.users.len().max(lost.len()))
        .map(|user| (user, d.users.get(user).copied().unwrap_or_default(), of(lost, user)))
        .filter(|(_, (packets, _), lost)| packets + lost > 0)
        .map(|(user, (packets, bytes), lost)| (user as u64, packets, bytes, lost))
        .collect();
    if rows.is_empty() {
        return;
    }
    let sum = |of: fn(&(u64, u64, u64, u64)) -> u64| rows.iter().map(of).sum::<u64>();
    out.put("datagram_kbps", sum(|r| r.2) as f64 * 8e-3 / seconds);
    out.put("datagram_loss", share(sum(|r| r.3), sum(|r| r.1 + r.3)));
    out.histogram("datagram_delay", &d.delays, &[P50, P99, MAX]);
    let columns = vec![
        integers("user", rows.iter().map(|r| r.0)),
        integers("delivered", rows.iter().map(|r| r.1)),
        integers("delivered_bytes", rows.iter().map(|r| r.2)),
        integers("lost", rows.iter().map(|r| r.3)),
    ];
    out.table("datagrams", columns);
}

fn captures_of(plan: &ProbePlan, captures: Vec<Capture>, out: &mut Tables) {
    let mut missed = 0;
    for capture in captures {
        missed += capture.missed;
        let name = plan.links.iter().find(|l| l.link == capture.link).map(|l| l.name.clone());
        out.0.captures.push((name.unwrap_or_default(), capture.file.into_inner()));
    }
    out.put("capture_missed", (missed > 0).then_some(missed as f64));
}
