//! Waste: the bytes that crossed the thin link without use.
//!
//! Waste is the share of the bytes on the link beyond what the same payload over the same established connections
//! costs on the idle link: what was sent again, what came for a connection that had gone, handshakes that led to
//! nothing, and acknowledgments beyond those an idle link needs.

use super::Table;
use crate::record::RunRecord;
use crate::scenario::{Scenario, Traffic};

/// Bytes on the link and of use, and the waste where the idle link was measured.
pub(super) fn waste(t: &mut Table, scenario: &Scenario, run: &RunRecord) {
    let client = &run.client;
    let warmup = scenario.warmup.secs();
    let from = warmup.ceil() as usize;
    let counted = |at: Option<f64>| at.is_some_and(|at| at >= from as f64);
    let (mut link, mut useful, mut needed) = (0.0, 0.0, Some(0.0));
    for (group, (its, _)) in Traffic::groups(&scenario.traffic).enumerate() {
        let crossed: u64 = client.link.get(group).map_or(0, |b| b.iter().skip(from).sum());
        if crossed == 0 {
            continue;
        }
        let bins = client.bins.iter().skip(its.start as usize).take(its.len());
        let payload: f64 = bins.flat_map(|b| b.iter().skip(from)).map(|b| f64::from(*b)).sum();
        link += crossed as f64;
        useful += payload;
        let cost = run.costs.get(group).and_then(Option::as_ref);
        needed = needed.zip(cost).map(|(sum, cost)| {
            let objects = client.objects.iter().filter(|o| its.contains(&o.user) && counted(o.connected));
            let long = client.long.iter().filter(|l| its.contains(&l.user) && counted(l.connected));
            let pages = client.pages.iter().filter(|p| its.contains(&p.user)).flat_map(|p| &p.connects);
            let pages = pages.filter(|c| counted(c.connected)).map(|c| c.got as f64);
            let objects = objects.map(|o| f64::from(o.got));
            let got: Vec<f64> = objects.chain(long.map(|_| 0.0)).chain(pages).collect();
            // Payload over connections established before the warm-up ended, and over long ones.
            let rest = payload - got.iter().sum::<f64>();
            sum + got.iter().map(|bytes| cost.of(*bytes)).sum::<f64>() + cost.byte() * rest
        });
    }
    if link > 0.0 {
        t.put("link_bytes", Some(link));
        t.put("useful_bytes", Some(useful));
        // The need of an idle link is measured too, so without waste the difference has either sign.
        t.put("waste", needed.map(|n| (1.0 - n / link).max(0.0)));
    }
}
