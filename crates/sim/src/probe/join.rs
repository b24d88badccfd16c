//! Joins the measurements of a run's parts, as if one world had made them.
//!
//! Sums are of whole numbers, so their order is nothing; where a figure is of fractions or a table has an order, parts
//! have kept what it takes to do as one world would have: by time, and at the same instant in the order of the parts.

use super::finish::PartEnd;
use super::flows::Flows;
use super::series::Samples;
use super::transfers::Transfers;
use super::{Datagrams, Probes};
use crate::parts::Parts;
use crate::path_split::Arrivals;
use crate::statistics::add_each;

/// Joins `ends` of `parts`, in the order of the parts.
pub(crate) fn join(parts: &Parts, mut ends: Vec<PartEnd>) -> PartEnd {
    if ends.len() == 1 {
        return ends.remove(0);
    }
    let flows = ends.iter_mut().map(|e| core::mem::take(&mut e.probes.flows)).collect();
    let (flows, numbers) = Flows::join(flows);
    let samples = ends.iter_mut().map(|e| core::mem::take(&mut e.probes.samples)).collect();
    let samples = Samples::join(samples, &numbers);
    let transfers = ends.iter_mut().map(|e| core::mem::take(&mut e.probes.transfers)).collect();
    let transfers = Transfers::join(transfers);
    let mut ends = ends.into_iter();
    let mut all = ends.next().expect("a scenario has at least one part");
    for (number, end) in (1..).zip(ends) {
        let part = parts.part(number);
        let own = end.links.into_iter().enumerate().filter(|(link, _)| part.has_link(*link));
        own.for_each(|(at, link)| all.links[at] = link);
        add_each(&mut all.datagrams_lost, &end.datagrams_lost);
        if let (Some(sum), Some(more)) = (&mut all.edges, end.edges) {
            let Arrivals { data, first_class, reordered } = more;
            sum.data += data;
            sum.first_class += first_class;
            sum.reordered += reordered;
        }
        all.captures.extend(end.captures);
        all.probes.absorb(end.probes);
    }
    all.captures.sort_by_key(|capture| capture.link);
    all.probes.ends.settle();
    (all.probes.flows, all.probes.samples, all.probes.transfers) = (flows, samples, transfers);
    all
}

impl Probes {
    /// Adds what another part has recorded, but for what has an order.
    fn absorb(&mut self, other: Self) {
        self.pages.absorb(other.pages);
        self.ends.absorb(other.ends);
        self.epochs.absorb(&other.epochs);
        self.bursts.absorb(&other.bursts);
        self.decisions.absorb(other.decisions);
        self.gone.absorb(&other.gone);
        self.before.absorb(&other.before);
        self.arrived += other.arrived;
        self.arrived_before += other.arrived_before;
        self.due.sum += other.due.sum;
        self.writes.absorb(&other.writes);
        self.datagrams.absorb(&other.datagrams);
        self.calls.absorb(other.calls);
    }
}

impl Datagrams {
    fn absorb(&mut self, other: &Self) {
        self.users.resize(self.users.len().max(other.users.len()), (0, 0));
        for (sum, more) in self.users.iter_mut().zip(&other.users) {
            (sum.0, sum.1) = (sum.0 + more.0, sum.1 + more.1);
        }
        self.delays.absorb(&other.delays);
    }
}
