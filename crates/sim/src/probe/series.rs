//! Series: what queues, windows and links are like at equal intervals, from the beginning of the run.

use narrows_scenario::Series as Which;
use narrows_units::Instant;

use super::flows::Flows;
use super::plan::ProbePlan;
use super::report::{Tables, integers, numbers};
use super::windows::Windows;
use crate::connection::Connection;
use crate::network::Network;

/// Work of a link in one interval.
#[derive(Clone, Copy, Debug)]
struct Carried {
    sent_bytes: u64,
    dropped: u64,
}

/// Samples so far. Samples of links are one list for each link.
#[derive(Debug, Default)]
pub(super) struct Samples {
    at: Vec<Instant>,
    queue: Vec<Vec<(u64, u64)>>,
    carried: Vec<Vec<Carried>>,
    /// Bytes sent and packets dropped at the last sample.
    before: Vec<Carried>,
    windows: Windows,
}

impl Samples {
    pub(super) fn take(
        &mut self,
        plan: &ProbePlan,
        net: &Network,
        flows: &Flows,
        connections: &[Connection],
    ) {
        self.at.push(net.now);
        if plan.wants(Which::Queue) {
            self.queue.resize_with(plan.links.len(), Vec::new);
            for (list, watched) in self.queue.iter_mut().zip(&plan.links) {
                let backlog = net.links[watched.link.index()].backlog();
                list.push((backlog.packets as u64, backlog.bytes.get()));
            }
        }
        if plan.wants(Which::Throughput) {
            self.throughput(plan, net);
        }
        if plan.wants(Which::Cwnd) {
            self.windows.take(net.now, flows, connections);
        }
    }

    fn throughput(&mut self, plan: &ProbePlan, net: &Network) {
        self.carried.resize_with(plan.links.len(), Vec::new);
        self.before.resize(plan.links.len(), Carried { sent_bytes: 0, dropped: 0 });
        for ((list, before), watched) in self.carried.iter_mut().zip(&mut self.before).zip(&plan.links) {
            let k = &net.links[watched.link.index()].counters;
            let now = Carried { sent_bytes: k.sent_bytes, dropped: k.dropped_total() + k.lost };
            list.push(Carried {
                sent_bytes: now.sent_bytes - before.sent_bytes,
                dropped: now.dropped - before.dropped,
            });
            *before = now;
        }
    }

    /// The most that was sent in an interval.
    fn peak_kbps(&self, list: &[Carried]) -> f64 {
        let rate = |(at, carried): (&[Instant], &Carried)| {
            8e-3 * carried.sent_bytes as f64 / at[1].since(at[0]).as_secs_f64()
        };
        self.at.windows(2).zip(list.iter().skip(1)).map(rate).fold(0.0, f64::max)
    }

    /// Joins the samples of several parts, taken at the same times; `numbers` gives the flows' new numbers, by part.
    pub(super) fn join(parts: Vec<Self>, numbers: &[Vec<u32>]) -> Self {
        let mut windows = Vec::with_capacity(parts.len());
        let mut all: Option<Self> = None;
        for mut part in parts {
            windows.push(core::mem::take(&mut part.windows));
            let Some(all) = &mut all else {
                all = Some(part);
                continue;
            };
            // A part has zeros for links of other parts, so each sum is the value of the one part that has the link.
            for (own, more) in all.queue.iter_mut().flatten().zip(part.queue.iter().flatten()) {
                (own.0, own.1) = (own.0 + more.0, own.1 + more.1);
            }
            for (own, more) in all.carried.iter_mut().flatten().zip(part.carried.iter().flatten()) {
                own.sent_bytes += more.sent_bytes;
                own.dropped += more.dropped;
            }
        }
        Self { windows: Windows::join(windows, numbers), ..all.unwrap_or_default() }
    }

    pub(super) fn report(&self, plan: &ProbePlan, out: &mut Tables) {
        let time = || numbers("time_s", self.at.iter().map(|at| at.as_secs_f64()));
        if !self.queue.is_empty() {
            let mut columns = vec![time()];
            for (list, link) in self.queue.iter().zip(&plan.links) {
                columns.push(integers(format!("{}_pkts", link.name), list.iter().map(|b| b.0)));
                columns.push(integers(format!("{}_bytes", link.name), list.iter().map(|b| b.1)));
            }
            out.table("queue", columns);
        }
        if !self.carried.is_empty() {
            let mut columns = vec![time()];
            for (list, link) in self.carried.iter().zip(&plan.links) {
                columns.push(integers(format!("{}_bytes", link.name), list.iter().map(|c| c.sent_bytes)));
                columns.push(integers(format!("{}_dropped", link.name), list.iter().map(|c| c.dropped)));
            }
            out.table("throughput", columns);
            for (list, link) in self.carried.iter().zip(&plan.links) {
                out.put(format!("throughput_peak_{}_kbps", link.name), self.peak_kbps(list));
            }
        }
        self.windows.report(plan, out);
    }
}
