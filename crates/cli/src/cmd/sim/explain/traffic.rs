//! Description of the traffic: which hosts fetch what from which, and what share of the thinnest link each flow then
//! has.

use narrows_scenario::calls::{CallShape, Pattern};
use narrows_scenario::{LogSource, LogTiming, OpenedBy, Scenario, Size, Traffic, TrafficKind, time_text};
use narrows_units::{Dscp, Duration, Rate};

use super::super::table::significant;
use super::network::round_trip;

/// Traffic of a group in the words of people.
pub(super) fn words(scenario: &Scenario, t: &Traffic) -> String {
    let topology = &scenario.topology;
    let (from, to) = (&topology.hosts[t.from].name, &topology.hosts[t.to].name);
    let flows =
        |n: u32, what: &str| format!("{n} {what}{} from {from} to {to}", if n == 1 { "" } else { "s" });
    let users = |n: u32, k: u32| {
        let s = |n: u32| if n == 1 { "" } else { "s" };
        format!("{n} user{} at {to} with {k} connection{} each to {from}", s(n), s(k))
    };
    let what = match &t.kind {
        TrafficKind::Long { flows: n } => flows(*n, "long flow"),
        TrafficKind::Files { flows: n, arrivals, size, .. } => {
            let n = n.map_or_else(String::new, |n| format!("{n} "));
            let rate =
                arrivals.map_or_else(String::new, |a| format!(", {} arriving a second", significant(a)));
            format!("{n}files of {} from {from} to {to}{rate}", law(size, " B"))
        }
        TrafficKind::Objects { users: n, connections, think, size } => {
            format!(
                "{}, fetching objects of {} one after another{}",
                users(*n, *connections),
                law(size, " B"),
                pause(*think)
            )
        }
        TrafficKind::Pages { users: n, connections, objects, size, think } => format!(
            "{}, fetching pages of {} objects of {}{}",
            users(*n, *connections),
            law(objects, ""),
            law(size, " B"),
            pause(*think)
        ),
        TrafficKind::Telnet { flows: n, interval, bytes } => {
            format!(
                "{}, {bytes} B every {} on average",
                flows(*n, "keystroke connection"),
                time_text(*interval)
            )
        }
        TrafficKind::Udp { flows: n, rate, packet, on, off } => {
            let pattern = if on.as_nanos() + off.as_nanos() == 0 {
                "always on".to_owned()
            } else {
                format!("on for {} and off for {} on average", time_text(*on), time_text(*off))
            };
            format!("{}, {rate} each in packets of {packet} B, {pattern}", flows(*n, "UDP flow"))
        }
        TrafficKind::Calls { flows: n, call } => calls(&flows(*n, "call"), *call, t.dscp),
        TrafficKind::Log { source, clients, connections, timing, .. } => {
            format!("{} {}: {}", users(*clients, *connections), requests(*timing), log(source))
        }
    };
    let opened = if t.is_datagrams() || t.opened_by == OpenedBy::Receiver {
        String::new()
    } else {
        "; the sender opens".to_owned()
    };
    let beside = t.beside.map_or_else(String::new, |at| {
        format!(", by users of {}", scenario.traffic.get(at).map_or("another", |other| other.name.as_str()))
    });
    format!("{what}{beside}{opened}{}{}", share(scenario, t), when(scenario, t))
}

/// Packets of calls in words.
fn calls(what: &str, call: CallShape, dscp: Dscp) -> String {
    let CallShape { down, up, interval, pattern } = call;
    let packets = if down == up { format!("{down} B") } else { format!("{down} B down and {up} B up") };
    let mark = if dscp == Dscp::DEFAULT { String::new() } else { format!(", codepoint {}", dscp.get()) };
    let when = match pattern {
        Pattern::Steady => "both ways",
        Pattern::Spurts => "both ways while its end talks",
        Pattern::Answered => "from the user, answered at once",
    };
    format!("{what}, packets of {packets} every {} {when}{mark}", time_text(interval))
}

/// Pause of a user between two requests, in words; empty if there is none.
fn pause(think: Duration) -> String {
    if think.as_nanos() == 0 { String::new() } else { format!(", pausing {} on average", time_text(think)) }
}

fn requests(timing: LogTiming) -> &'static str {
    match timing {
        LogTiming::Recorded => "making requests when a log did",
        LogTiming::BackToBack => "making a log's requests one after another",
    }
}

fn log(source: &LogSource) -> String {
    match source {
        LogSource::File { path, entries } => format!("{path}, {} requests", entries.len()),
        LogSource::Synthetic { requests, clients, size, .. } => {
            format!(
                "{} a second by {clients} clients, replies of {}",
                significant(*requests),
                law(size, " B")
            )
        }
    }
}

/// A law of sizes.
fn law(size: &Size, unit: &str) -> String {
    let n = |x: f64| significant(x);
    match size {
        Size::Fixed(x) => format!("{x}{unit}"),
        Size::Exponential { mean } => format!("{}{unit} on average (exponential)", n(*mean)),
        Size::Pareto { scale, shape } => {
            format!("at least {}{unit} (Pareto, exponent {})", n(*scale), n(*shape))
        }
        Size::BoundedPareto { low, high, shape } => {
            format!("{}..{}{unit} (Pareto, exponent {})", n(*low), n(*high), n(*shape))
        }
        Size::List(list) => format!("{} given sizes", list.len()),
        Size::Web => format!("2..31 k{} (web objects)", unit.trim()),
    }
}

/// The share of each connection on the thinnest link, if all of the scenario's elastic connections over it are equal.
fn share(scenario: &Scenario, t: &Traffic) -> String {
    if matches!(
        t.kind,
        TrafficKind::Udp { .. }
            | TrafficKind::Calls { .. }
            | TrafficKind::Telnet { .. }
            | TrafficKind::Files { flows: None, .. }
    ) {
        return String::new();
    }
    let topology = &scenario.topology;
    let route =
        |t: &Traffic| topology.route(topology.hosts[t.from].at, topology.hosts[t.to].at).unwrap_or_default();
    let Some(thinnest) = route(t).into_iter().min_by_key(|l| topology.links[*l].rate) else {
        return String::new();
    };
    let elastic = |t: &&Traffic| !t.is_datagrams() && !matches!(t.kind, TrafficKind::Telnet { .. });
    let rivals: u64 = scenario
        .traffic
        .iter()
        .filter(elastic)
        .filter(|other| route(other).contains(&thinnest))
        .map(|other| other.kind.parallel())
        .sum();
    let each = topology.links[thinnest].rate.as_bps() as f64 / rivals.max(1) as f64;
    let rtt = round_trip(scenario, t.from, t.to).1;
    let packet = f64::from(scenario.mtu);
    let packets = if rtt > 0.0 {
        format!(", {} packets of {packet} B per round trip", significant(each * rtt / 8.0 / packet))
    } else {
        String::new()
    };
    format!("; an equal share of {} is {}{packets}", topology.links[thinnest].name, rate(each))
}

fn rate(bps: f64) -> String {
    // Shares are rarely whole; three digits tell them.
    match bps {
        b if b >= 1e6 => format!("{} Mbit/s", significant(b / 1e6)),
        b if b >= 1e3 => format!("{} kbit/s", significant(b / 1e3)),
        b => Rate::from_bps(b as u64).to_string(),
    }
}

fn when(scenario: &Scenario, t: &Traffic) -> String {
    let whole = t.start.as_nanos() == 0 && t.stop == scenario.duration;
    if whole { String::new() } else { format!("; from {} to {}", time_text(t.start), time_text(t.stop)) }
}
