//! Requests of the users in a capture, as in an access log, in classes of one round trip each.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use super::collect::{Collector, FlowFit};
use super::measure::quantile;

/// Greatest ratio of two round trips of a class.
const CLASS: f64 = 1.15;
/// Seconds below which round trips make no difference to a thin link.
const SHORTEST: f64 = 0.001;
/// A transfer that the capture's end cut off goes on without end if it had lasted for this share of it.
const ENDLESS: f64 = 1.0 / 3.0;

/// Most payload of an unanswered request, bytes: more is a transfer of its own.
const REQUEST: u64 = 16_000;

/// Request of a user.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Seconds after the capture's first packet.
    pub at_s: f64,
    /// Time of the transfer's last packet in the capture, in seconds after the first packet.
    pub to_s: f64,
    pub user: IpAddr,
    /// Bytes asked for; `None` if the transfer outlasts the capture.
    pub bytes: Option<u64>,
}

/// Users with about the same round trip who ask for data in one direction.
#[derive(Clone, Debug)]
pub struct Class {
    /// Direction of the data: 0 for data that openers send, 1 for data that openers receive.
    pub way: usize,
    /// Round trips without queue from the capture to the openers and to the other ends, seconds: medians.
    pub halves: [f64; 2],
    pub requests: Vec<Request>,
    /// Payload of a request, sent against the class's direction: median, bytes.
    pub asked: u64,
}

/// Classes of a capture's requests, and sums over the classes.
#[derive(Clone, Debug)]
pub struct Workload {
    pub classes: Vec<Class>,
    pub duration_s: f64,
    pub users: usize,
    pub endless: usize,
    pub objects: usize,
    /// Payload of a finished object, mean.
    pub object_bytes: f64,
    /// Transfers under way at a time, mean.
    pub busy: f64,
    /// The round trips of all users, seconds: the least, the median and the greatest.
    pub rtt_s: [f64; 3],
}

/// Object of a flow whose size is not guessed yet.
struct Draft {
    request: Request,
    way: usize,
    asked: u64,
    /// Whether the object's end was not seen.
    cut: bool,
}

impl Class {
    pub fn users(&self) -> BTreeSet<IpAddr> {
        self.requests.iter().map(|r| r.user).collect()
    }

    /// The most requests that one user had under way at a time.
    pub fn parallel(&self) -> usize {
        let mut edges: BTreeMap<IpAddr, Vec<(f64, i32)>> = BTreeMap::new();
        for r in &self.requests {
            let of = edges.entry(r.user).or_default();
            of.extend([(r.at_s, 1), (r.to_s, -1)]);
        }
        let most = |mut of: Vec<(f64, i32)>| {
            of.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            of.iter().fold((0, 0), |(now, most): (i32, i32), (_, by)| (now + by, most.max(now + by))).1
        };
        edges.into_values().map(most).max().unwrap_or(1).max(1).unsigned_abs() as usize
    }

    pub fn rtt_s(&self) -> f64 {
        self.halves[0] + self.halves[1]
    }
}

impl Workload {
    /// Fits the workload; nothing if nobody asked for anything, or no round trip is known.
    pub fn of(c: &Collector) -> Option<Self> {
        let first = c.first?;
        let duration_s = c.last.since(first).as_secs_f64();
        let halves = halves(c)?;
        let way = usize::from(c.meters[1].payload > c.meters[0].payload);
        let mut drafts: Vec<Draft> = Vec::new();
        for flow in c.flows.iter().filter(|f| !f.refused) {
            drafts.extend(drafted(flow, c, duration_s, way));
        }
        let sizes = finished(&drafts);
        for draft in &mut drafts {
            size(draft, &sizes, duration_s);
        }
        let whole: u64 = sizes.iter().flatten().sum();
        let count = sizes[0].len() + sizes[1].len();
        let mut rtts: Vec<f64> = halves.values().map(|[a, b]| a + b).collect();
        rtts.sort_by(f64::total_cmp);
        let busy: f64 = drafts.iter().map(|d| d.request.to_s - d.request.at_s).sum();
        let endless = drafts.iter().filter(|d| d.request.bytes.is_none()).count();
        Some(Self {
            duration_s,
            users: drafts.iter().map(|d| d.request.user).collect::<BTreeSet<_>>().len(),
            endless,
            objects: drafts.len() - endless,
            object_bytes: whole as f64 / count.max(1) as f64,
            busy: busy / duration_s.max(1e-9),
            rtt_s: [quantile(&rtts, 0.0), quantile(&rtts, 0.5), quantile(&rtts, 1.0)],
            classes: classes(drafts, &halves),
        })
    }
}

/// The least halves of each user; for users of whom one is not known, the median of the others.
fn halves(c: &Collector) -> Option<BTreeMap<IpAddr, [f64; 2]>> {
    let mut said: BTreeMap<IpAddr, [Option<f64>; 2]> = BTreeMap::new();
    for flow in &c.flows {
        let of = said.entry(flow.user).or_default();
        for (least, half) in of.iter_mut().zip(flow.halves) {
            *least = match (*least, half) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
    }
    // The diagnosis is only asked where no answer was clear.
    let clear = |(user, [a, b]): (IpAddr, [Option<f64>; 2])| {
        (user, [c.least(&user, 0).or(a), c.least(&user, 1).or(b)])
    };
    let known: BTreeMap<IpAddr, [Option<f64>; 2]> = said.into_iter().map(clear).collect();
    let median = |side: usize| {
        let mut all: Vec<f64> = known.values().filter_map(|h| h[side]).collect();
        all.sort_by(f64::total_cmp);
        (!all.is_empty()).then(|| quantile(&all, 0.5))
    };
    let usual = [median(0)?, median(1)?];
    Some(
        known
            .into_iter()
            .map(|(user, [a, b])| (user, [a.unwrap_or(usual[0]), b.unwrap_or(usual[1])]))
            .collect(),
    )
}

/// A flow's objects. One that got no data is something asked for all the same.
fn drafted(flow: &FlowFit, c: &Collector, duration_s: f64, main: usize) -> Vec<Draft> {
    let since = |at: narrows_units::Instant| c.first.map_or(0.0, |first| at.since(first).as_secs_f64());
    let draft = |at_s: f64, to_s: f64, [up, down]: [u64; 2], cut: bool| {
        let unanswered = cut && [up, down][main] == 0 && up + down <= REQUEST;
        let way = match up.cmp(&down) {
            _ if unanswered => main,
            core::cmp::Ordering::Greater => 0,
            core::cmp::Ordering::Less => 1,
            core::cmp::Ordering::Equal => main,
        };
        let bytes = [up, down];
        let request = Request { at_s, to_s, user: flow.user, bytes: Some(bytes[way]) };
        Draft { request, way, asked: bytes[1 - way], cut }
    };
    let Some(last) = flow.objects.len().checked_sub(1) else {
        return vec![draft(since(flow.first), since(flow.last), [0; 2], true)];
    };
    let of = |(n, object): (usize, &super::follow::Object)| {
        // Data asked for and not answered by the end, too, is a transfer that the end cut off.
        let long = since(object.last) - since(object.at) > ENDLESS * duration_s;
        let busy = !flow.quiet || long || duration_s - since(object.last) < 1.0 || object.bytes[main] == 0;
        let cut = n == last && !flow.closed && busy;
        let to = if cut { duration_s } else { since(object.last) };
        draft(since(object.at), to, object.bytes, cut)
    };
    flow.objects.iter().enumerate().map(of).collect()
}

/// Sizes of finished objects of both directions, sorted.
fn finished(drafts: &[Draft]) -> [Vec<u64>; 2] {
    [0, 1].map(|way| {
        let whole = drafts.iter().filter(|d| d.way == way && !d.cut);
        let mut sizes: Vec<u64> = whole.filter_map(|d| d.request.bytes).filter(|b| *b > 0).collect();
        sizes.sort_unstable();
        sizes
    })
}

/// Guesses the size of a transfer that the capture's end cut off. A transfer that was cut off is endless if it had
/// lasted long, or if no finished size is known; else it has the median of the finished sizes above the part seen.
fn size(draft: &mut Draft, sizes: &[Vec<u64>; 2], duration_s: f64) {
    if !draft.cut {
        return;
    }
    let sizes = &sizes[draft.way];
    let seen = draft.request.bytes.unwrap_or(0);
    let larger = &sizes[sizes.partition_point(|s| *s < seen)..];
    let mean = sizes.iter().sum::<u64>() as f64 / sizes.len().max(1) as f64;
    let long = draft.request.to_s - draft.request.at_s > ENDLESS * duration_s && seen as f64 > mean;
    draft.request.bytes = if sizes.is_empty() || long {
        None
    } else {
        Some(larger.get(larger.len() / 2).copied().unwrap_or(seen).max(seen))
    };
}

fn classes(drafts: Vec<Draft>, halves: &BTreeMap<IpAddr, [f64; 2]>) -> Vec<Class> {
    let mut groups: BTreeMap<(usize, i32), Vec<Draft>> = BTreeMap::new();
    for draft in drafts.into_iter().filter(|d| d.request.bytes != Some(0)) {
        let [a, b] = halves.get(&draft.request.user).copied().unwrap_or_default();
        let class = ((a + b).max(SHORTEST).ln() / CLASS.ln()).round() as i32;
        groups.entry((draft.way, class)).or_default().push(draft);
    }
    let class = |((way, _), drafts): ((usize, i32), Vec<Draft>)| {
        let users: BTreeSet<IpAddr> = drafts.iter().map(|d| d.request.user).collect();
        let median = |side: usize| {
            let mut all: Vec<f64> = users.iter().filter_map(|u| Some(halves.get(u)?[side])).collect();
            all.sort_by(f64::total_cmp);
            quantile(&all, 0.5)
        };
        let mut asked: Vec<u64> = drafts.iter().map(|d| d.asked).collect();
        asked.sort_unstable();
        let asked = asked.get(asked.len() / 2).copied().unwrap_or(0);
        let mut requests: Vec<Request> = drafts.into_iter().map(|d| d.request).collect();
        requests.sort_by(|a, b| a.at_s.total_cmp(&b.at_s).then(a.user.cmp(&b.user)));
        Class { way, halves: [median(0), median(1)], requests, asked }
    };
    groups.into_iter().map(class).collect()
}
