//! Links and their queues: what came, what went, what was lost and why, how long packets waited.

use narrows_qdisc::{Reason, Report as QueueReport, ShaperConfig};
use narrows_units::{Duration, Instant};

use super::plan::{ProbePlan, Watched};
use super::report::{MAX, P50, P95, P99, Tables, integers, numbers, share, words};
use crate::link::{Changing, LinkCounters, SimLink};
use crate::network::Network;
use crate::packet::PayloadKind;
use crate::statistics::Histogram;
use crate::tap::Waits;
use crate::usage::Figures;

/// A link's counts at one instant.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    counters: LinkCounters,
    busy: Duration,
    reported: Reported,
}

/// Counts that a discipline reports about itself. The discipline's work on packets of the other direction, as in
/// admission control, is in these counts and in those of the other link.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    clamped: u64,
    refused: u64,
    suppressed: u64,
}

impl Reported {
    fn of(report: &QueueReport) -> Self {
        let k = &report.counters;
        Self { clamped: k.clamped, refused: k.refused, suppressed: k.suppressed }
    }
    fn since(self, earlier: Self) -> Self {
        Self {
            clamped: self.clamped - earlier.clamped,
            refused: self.refused - earlier.refused,
            suppressed: self.suppressed - earlier.suppressed,
        }
    }
}

impl Counts {
    fn of(link: &mut SimLink, now: Instant) -> (Self, Option<QueueReport>) {
        // The packet being sent at present keeps the link busy beyond now.
        let ahead = link.busy_until().since(now);
        let report = link.discipline_mut().map(|q| q.discipline.report(now));
        let reported = report.as_ref().map(Reported::of).unwrap_or_default();
        let busy = link.busy.saturating_sub(ahead);
        (Self { counters: link.counters, busy, reported }, report)
    }
}

/// Counts of all watched links at the time when counting began.
#[derive(Debug, Default)]
pub(super) struct LinkProbe {
    before: Vec<Counts>,
}

/// A watched link when all is over.
pub(super) struct LinkEnd {
    pub(super) shape: Option<ShaperConfig>,
    counters: LinkCounters,
    utilisation: f64,
    reported: Reported,
    report: Option<QueueReport>,
    waits: Option<Waits>,
    changing: Option<Changed>,
}

/// Measurements that only a link with a changing rate has.
struct Changed {
    figures: Figures,
    sojourn: Histogram,
    beyond: Histogram,
}

impl LinkEnd {
    fn loss(&self) -> Option<f64> {
        share(self.counters.dropped_total() + self.counters.lost, self.counters.arrived)
    }
}

impl LinkProbe {
    pub(super) fn warm_up(&mut self, plan: &ProbePlan, net: &mut Network) {
        let now = net.now;
        self.before = plan.links.iter().map(|l| Counts::of(&mut net.links[l.link.index()], now).0).collect();
        for waits in net.links.iter_mut().filter_map(|link| link.waits.as_mut()) {
            waits.clear();
        }
        for changing in net.links.iter_mut().filter_map(|link| link.changing.as_mut()) {
            changing.usage.clear(now);
        }
    }

    /// The links of the plan at the end of the run.
    pub(super) fn end(&self, plan: &ProbePlan, net: &mut Network) -> Vec<LinkEnd> {
        let (now, links) = (net.now, &mut net.links);
        let elapsed = now.since(plan.warmup);
        let of = |(at, watched): (usize, &Watched)| {
            let link = &mut links[watched.link.index()];
            let (counts, report) = Counts::of(link, now);
            let before = self.before.get(at).copied().unwrap_or_default();
            let busy = counts.busy.saturating_sub(before.busy);
            let changing = link.changing.take().map(|changing| {
                let Changing { timetable, usage } = *changing;
                let figures = usage.figures(now, &timetable);
                Changed { figures, sojourn: usage.sojourn, beyond: usage.beyond }
            });
            LinkEnd {
                shape: link.shape.as_deref().copied(),
                counters: counts.counters.since(&before.counters),
                utilisation: busy.as_nanos() as f64 / elapsed.as_nanos() as f64,
                reported: counts.reported.since(before.reported),
                report,
                waits: link.waits.take().map(|waits| *waits),
                changing,
            }
        };
        plan.links.iter().enumerate().map(of).collect()
    }
}

pub(super) fn report(plan: &ProbePlan, links: &[LinkEnd], out: &mut Tables) {
    for (watched, link) in plan.links.iter().zip(links) {
        let name = in_expressions(&watched.name);
        out.put(format!("utilisation_{name}"), link.utilisation);
        out.put(format!("loss_{name}"), link.loss());
        if let Some(follows) = link.report.as_ref().and_then(|r| r.follows) {
            out.put(format!("believed_kbps_{name}"), follows.rate_bps as f64 / 1e3);
        }
        if let Some(changed) = &link.changing {
            changing(&name, changed, out);
        }
    }
    if let Some(link) = plan.bottleneck().and_then(|at| links.get(at)) {
        bottleneck(link, out);
    }
    table(plan, links, out);
}

/// A name in an expression has no dots.
fn in_expressions(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// A link whose rate changes.
fn changing(name: &str, Changed { figures, sojourn, beyond }: &Changed, out: &mut Tables) {
    out.put(format!("used_of_demand_{name}"), figures.of_demand);
    out.put(format!("used_of_capacity_{name}"), figures.of_capacity);
    out.histogram(&format!("modem_{name}"), sojourn, &[P50, P95, P99]);
    out.histogram(&format!("modem_beyond_{name}"), beyond, &[P95]);
    out.put(format!("outages_{name}"), figures.outages as f64);
    out.put(format!("recovery_{name}_p95_s"), figures.recovery_p95);
    out.put(format!("recovery_{name}_max_s"), figures.recovery_max);
    out.put(format!("recoveries_slow_{name}"), figures.slow as f64);
}

fn bottleneck(link: &LinkEnd, out: &mut Tables) {
    let k = &link.counters;
    out.put("utilisation", link.utilisation);
    out.put("arrived", k.arrived as f64);
    out.put("loss", link.loss());
    out.put("dropped", share(k.dropped_total(), k.arrived));
    for reason in Reason::ALL {
        let n = k.dropped[reason as usize];
        out.put(format!("dropped_{}", reason.name()), share(n, k.arrived).filter(|_| n > 0));
    }
    out.put("lost", share(k.lost, k.arrived));
    out.put("suppressed", share(link.reported.suppressed, k.arrived));
    out.put("refused", link.reported.refused as f64);
    out.put("marked", share(k.marked, k.arrived));
    if let Some(w) = &link.waits {
        for (name, kind) in KINDS {
            out.histogram(&format!("wait_{name}"), w.of(kind), &[P50, P99, MAX]);
        }
    }
    out.put("clamped", link.reported.clamped as f64);
    if let Some(admission) = link.report.as_ref().and_then(|r| r.admission.as_ref()) {
        out.put("admission_waiting", admission.waiting as f64);
        out.put("admission_wait_p50_s", admission.wait_p50.map(Duration::as_secs_f64));
        out.put("admission_wait_p99_s", admission.wait_p99.map(Duration::as_secs_f64));
    }
}

fn table(plan: &ProbePlan, links: &[LinkEnd], out: &mut Tables) {
    let l = || links.iter();
    let count = |of: fn(&LinkCounters) -> u64| l().map(move |l| of(&l.counters));
    let mut columns = vec![
        words("name", plan.links.iter().map(|l| l.name.clone())),
        integers("rate_bps", plan.links.iter().map(|l| l.rate.as_bps())),
        numbers("utilisation", l().map(|l| l.utilisation)),
        integers("arrived", count(|k| k.arrived)),
        integers("arrived_bytes", count(|k| k.arrived_bytes)),
        integers("sent", count(|k| k.sent)),
        integers("sent_bytes", count(|k| k.sent_bytes)),
        integers("dropped", count(LinkCounters::dropped_total)),
    ];
    for reason in Reason::ALL {
        let of = l().map(|l| l.counters.dropped[reason as usize]);
        columns.push(integers(format!("dropped_{}", reason.name()), of));
    }
    columns.extend([
        integers("lost", count(|k| k.lost)),
        integers("suppressed", count(|k| k.suppressed)),
        integers("refused", count(|k| k.refused)),
        integers("marked", count(|k| k.marked)),
        integers("clamped", l().map(|l| l.reported.clamped)),
        numbers("loss", l().map(|l| l.loss().unwrap_or(f64::NAN))),
    ]);
    for (name, q) in [P50, P99, MAX] {
        for (of, kind) in KINDS {
            let wait = l().map(|l| {
                let ns = l.waits.as_ref().and_then(|w| w.of(kind).quantile(q));
                ns.map_or(f64::NAN, |ns| ns as f64 / 1e9)
            });
            columns.push(numbers(format!("wait_{of}_{name}_s"), wait));
        }
    }
    out.table("links", columns);
}

/// Kinds of packets that wait, each with the kind's name in figures.
const KINDS: [(&str, PayloadKind); PayloadKind::COUNT] = [
    ("control", PayloadKind::Control),
    ("small", PayloadKind::Small),
    ("bulk", PayloadKind::Bulk),
    ("datagram", PayloadKind::Datagram),
];
