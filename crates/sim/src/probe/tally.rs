//! Sums over connections: by class of the traffic, by group, and by size.

use narrows_scenario::Group;
use narrows_tcp::EndpointCounters;

use super::plan::ProbePlan;
use super::report::{Tables, integers, numbers, share, words};
use crate::connection::Connection;
use crate::flow_stats::NO_ROW;
use crate::host_config::{DATA, RECEIVER};

/// Largest size of a small object, bytes; the lab has the same bound.
pub(super) const SMALL: u64 = 6_000;
/// Smallest size of a large object, bytes; the lab has the same bound.
pub(super) const LARGE: u64 = 20_000;

/// Sums over connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Connections, each counted when it is first summed: between two sums, those opened in between.
    pub(super) connections: u64,
    /// Payload delivered in order.
    pub(super) delivered: u64,
    /// Data segments that the connections' senders sent, retransmissions included.
    pub(super) data_sent: u64,
    pub(super) retransmitted: u64,
    pub(super) timeouts: u64,
    pub(super) fast_retransmits: u64,
    /// SYNs and SYN-ACKs of both ends that were sent again.
    pub(super) syn_retries: u64,
    /// Data segments dropped by a discipline or lost on a wire.
    pub(super) lost: u64,
    /// Beliefs of QUIC's senders: packets declared lost, those among them that arrived, and needless series of probe
    /// timeouts.
    pub(super) quic: Option<[u64; 3]>,
}

impl Tally {
    /// Counts of one connection so far; `lost` of its data segments were lost.
    pub(super) fn of(c: &Connection, lost: u64) -> Self {
        let k: EndpointCounters = c.ends.counters(DATA);
        let syn_retries =
            [DATA, RECEIVER].into_iter().map(|end| u64::from(c.ends.counters(end).syn_retries)).sum();
        Self {
            connections: 1,
            delivered: c.stats.delivered,
            data_sent: k.data_sent,
            retransmitted: k.retransmitted.into(),
            timeouts: k.timeouts.into(),
            fast_retransmits: k.fast_retransmits.into(),
            syn_retries,
            lost,
            quic: c.ends.spurious(),
        }
    }

    fn each(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            connections: f(self.connections, other.connections),
            delivered: f(self.delivered, other.delivered),
            data_sent: f(self.data_sent, other.data_sent),
            retransmitted: f(self.retransmitted, other.retransmitted),
            timeouts: f(self.timeouts, other.timeouts),
            fast_retransmits: f(self.fast_retransmits, other.fast_retransmits),
            syn_retries: f(self.syn_retries, other.syn_retries),
            lost: f(self.lost, other.lost),
            quic: match (self.quic, other.quic) {
                (None, None) => None,
                (a, b) => {
                    let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
                    Some([0, 1, 2].map(|i| f(a[i], b[i])))
                }
            },
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        self.each(other, |a, b| a + b)
    }

    /// Differences of the counts since `earlier`.
    pub(super) fn since(self, earlier: Self) -> Self {
        self.each(earlier, |a, b| a - b)
    }

    /// Share of the data segments sent that was lost.
    fn loss(self) -> Option<f64> {
        share(self.lost, self.data_sent)
    }
}

/// Sums by class, by group, and by size: small, middling and large objects. Flows without end, or written to, are
/// large.
#[derive(Clone, Debug, Default)]
pub(super) struct Tallies {
    classes: Vec<Tally>,
    groups: Vec<Tally>,
    sizes: [Tally; 3],
}

impl Tallies {
    pub(super) fn add(&mut self, c: &Connection, lost: u64, groups: &[Group]) {
        let (class, tally) = (usize::from(c.class), Tally::of(c, lost));
        // A connection that is written to grows: counted by size it would be small in one sum and large in the next.
        let size = if c.stats.row == NO_ROW { c.object() } else { u64::MAX };
        self.groups.resize(groups.len(), Tally::default());
        for (sum, _) in self.groups.iter_mut().zip(groups).filter(|(_, group)| group.has(class, size)) {
            *sum = sum.plus(tally);
        }
        if class >= self.classes.len() {
            self.classes.resize(class + 1, Tally::default());
        }
        self.classes[class] = self.classes[class].plus(tally);
        let size = match size {
            s if s >= LARGE => 2,
            s if s > SMALL => 1,
            _ => 0,
        };
        self.sizes[size] = self.sizes[size].plus(tally);
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        let mut all = self.clone();
        for (now, then) in all.classes.iter_mut().zip(&earlier.classes) {
            *now = now.since(*then);
        }
        for (now, then) in all.groups.iter_mut().zip(&earlier.groups) {
            *now = now.since(*then);
        }
        for (now, then) in all.sizes.iter_mut().zip(&earlier.sizes) {
            *now = now.since(*then);
        }
        all
    }

    /// Adds what another part's connections did.
    pub(super) fn absorb(&mut self, other: &Self) {
        for (own, more) in [(&mut self.classes, &other.classes), (&mut self.groups, &other.groups)] {
            own.resize(own.len().max(more.len()), Tally::default());
            own.iter_mut().zip(more).for_each(|(sum, n)| *sum = sum.plus(*n));
        }
        self.sizes.iter_mut().zip(other.sizes).for_each(|(sum, n)| *sum = sum.plus(n));
    }

    pub(super) fn all(&self) -> Tally {
        self.sizes.iter().fold(Tally::default(), |a, b| a.plus(*b))
    }

    /// `seconds` were counted.
    pub(super) fn report(&self, plan: &ProbePlan, seconds: f64, out: &mut Tables) {
        let all = self.all();
        out.put("retransmitted", share(all.retransmitted, all.data_sent));
        out.put("fast_retransmits", all.fast_retransmits as f64);
        out.put("syn_retries", all.syn_retries as f64);
        if let Some([believed, spurious, ptos]) = all.quic {
            out.put("quic_lost", believed as f64);
            out.put("quic_spurious", spurious as f64);
            out.put("quic_spurious_ptos", ptos as f64);
        }
        out.put("loss_small", self.sizes[0].loss());
        out.put("loss_large", self.sizes[2].loss());
        for (group, sum) in plan.groups.iter().zip(&self.groups) {
            let mut put = |figure: &str, value: f64| out.put(format!("of_{}_{figure}", group.name), value);
            put("data_sent", sum.data_sent as f64);
            put("lost", sum.lost as f64);
            put("timeouts", sum.timeouts as f64);
            put("loss", sum.loss().unwrap_or(f64::NAN));
        }
        let t = || self.classes.iter();
        let name = |i: usize| plan.classes.get(i).cloned().unwrap_or_else(|| format!("class {i}"));
        out.table(
            "classes",
            vec![
                words("name", (0..self.classes.len()).map(name)),
                integers("opened", t().map(|t| t.connections)),
                integers("delivered_bytes", t().map(|t| t.delivered)),
                numbers("goodput_kbps", t().map(|t| t.delivered as f64 * 8e-3 / seconds)),
                integers("data_sent", t().map(|t| t.data_sent)),
                integers("retransmitted", t().map(|t| t.retransmitted)),
                integers("lost", t().map(|t| t.lost)),
                numbers("loss", t().map(|t| t.loss().unwrap_or(f64::NAN))),
                integers("timeouts", t().map(|t| t.timeouts)),
                integers("fast_retransmits", t().map(|t| t.fast_retransmits)),
                integers("syn_retries", t().map(|t| t.syn_retries)),
            ],
        );
    }
}
