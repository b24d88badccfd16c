//! The network in words: ways, links, queues, hosts.

use narrows_qdisc::{Limit, Spec};
use narrows_runner::RunPlan;
use narrows_scenario::{Delays, Hosts, Link, LinkDiscipline, Loss, Policy, Scenario, Traffic, time_text};
use narrows_units::Bytes;

use super::super::table::significant;
use super::put;

/// The ways of the traffic, then every link and group of hosts.
pub(super) fn network(text: &mut String, scenario: &Scenario) {
    let topology = &scenario.topology;
    let mut ways: Vec<(usize, usize)> = scenario.traffic.iter().map(|t| (t.from, t.to)).collect();
    ways.sort_unstable();
    ways.dedup();
    for (from, to) in ways {
        put(text, format!("  {}", way(scenario, from, to)));
    }
    edges(text, scenario);
    put(text, String::new());
    for link in &topology.links {
        put(
            text,
            format!(
                "  link {}: {} -> {}, {}, {}{}; queue {}",
                link.name,
                topology.nodes[link.from],
                topology.nodes[link.to],
                link.rate,
                time_text(link.delay),
                wire(link),
                queue(scenario, link)
            ),
        );
    }
    for group in &topology.hosts {
        let (count, s) = (group.count, if group.count == 1 { "" } else { "s" });
        let at = &topology.nodes[group.at];
        put(
            text,
            format!(
                "  {}: {count} host{s} at {at}, each on {}, {}",
                group.name,
                group.rate,
                delays(&group.delay)
            ),
        );
    }
}

/// `edge left -- random: either way`, and under it the two classes' ways or marks, as branches.
fn edges(text: &mut String, scenario: &Scenario) {
    let topology = &scenario.topology;
    for edge in &topology.edges {
        let rule = match edge.policy {
            Policy::Random => "by chance, half each".to_owned(),
            Policy::Size(n) => format!("fewer than {n} full segments, or more"),
            Policy::Lifetime(n) => format!("the first {n} packets of data, then the rest"),
            Policy::Dscp(d) => format!("codepoint {}, or another", d.get()),
        };
        put(text, format!("  edge {} -- connections divided: {rule}", topology.nodes[edge.at]));
        for class in 0..2 {
            let path = edge.paths.map_or_else(String::new, |paths| {
                let link = &topology.links[paths[class]];
                format!(
                    " == {} {} {} ==> {}",
                    link.name,
                    link.rate,
                    time_text(link.delay),
                    topology.nodes[link.to]
                )
            });
            let mark = edge.mark.map_or_else(String::new, |m| format!(" marked {}", m[class].get()));
            put(text, format!("    {}{path}{mark}", ["\\ first:", "\\ second:"][class]));
        }
    }
}

/// Describes the queue before the slowest link under each discipline.
pub(super) fn compared(text: &mut String, plan: &RunPlan) {
    let Some(axis) = plan.axes.iter().position(|a| a.name == "discipline") else { return };
    for value in &plan.axes[axis].values {
        let Some(job) = plan.jobs.iter().find(|j| j.coords[axis] == *value) else { continue };
        let slowest = job.scenario.topology.links.iter().min_by_key(|l| l.rate);
        if let Some(link) = slowest {
            put(text, format!("  discipline {value}: at {} {}", link.name, queue(&job.scenario, link)));
        }
    }
}

/// `servers -- left == thin 600kbit 100ms ==> right -- users`, and the time there and back.
fn way(scenario: &Scenario, from: usize, to: usize) -> String {
    let topology = &scenario.topology;
    let (a, b) = (&topology.hosts[from], &topology.hosts[to]);
    let mut line = format!("{} -- {}", a.name, topology.nodes[a.at]);
    for at in topology.route(a.at, b.at).unwrap_or_default() {
        let link = &topology.links[at];
        line += &format!(
            " == {} {} {} ==> {}",
            link.name,
            link.rate,
            time_text(link.delay),
            topology.nodes[link.to]
        );
    }
    let (low, high) = round_trip(scenario, from, to);
    let rtt = if low == high { time(low) } else { format!("{}..{}", time(low), time(high)) };
    format!("{line} -- {}   (there and back {rtt} without queues)", b.name)
}

/// Propagation there and back of the nearest and the farthest hosts, in seconds.
pub(super) fn round_trip(scenario: &Scenario, from: usize, to: usize) -> (f64, f64) {
    let topology = &scenario.topology;
    let (a, b) = (&topology.hosts[from], &topology.hosts[to]);
    let of = |x: usize, y: usize| -> f64 {
        let route = topology.route(x, y).unwrap_or_default();
        route.iter().map(|l| topology.links[*l].delay.as_secs_f64()).sum()
    };
    let links = of(a.at, b.at) + of(b.at, a.at);
    let ends = |of: fn(&Hosts) -> f64| links + 2.0 * (of(a) + of(b));
    (ends(|h| h.delay.low.as_secs_f64()), ends(|h| h.delay.high.as_secs_f64()))
}

/// A time in the unit people would take.
pub(super) fn time(seconds: f64) -> String {
    if seconds < 1.0 {
        format!("{} ms", significant(seconds * 1e3))
    } else {
        format!("{} s", significant(seconds))
    }
}

fn delays(delay: &Delays) -> String {
    if delay.low == delay.high {
        format!("{} away", time_text(delay.low))
    } else {
        format!("{}..{} away", time_text(delay.low), time_text(delay.high))
    }
}

/// Losses of a link's wire, in words; empty if the wire loses nothing.
fn wire(link: &Link) -> String {
    let mut words = match link.loss {
        Loss::None => String::new(),
        Loss::Random(p) => format!(", loses {} % at random", significant(p * 100.0)),
        Loss::GilbertElliott { to_bad, to_good, bad, good } => format!(
            ", loses in bursts: {} % in bad, {} % in good times, which turn with probability {} and {} a packet",
            significant(bad * 100.0),
            significant(good * 100.0),
            significant(to_good),
            significant(to_bad)
        ),
    };
    let scripted = link.drop.len() + link.drop_at.len();
    if scripted > 0 {
        words += &format!(", loses {scripted} packets by script");
    }
    words
}

/// A queue's discipline and how much it holds: in packets, in time, in bandwidth-delay products of its farthest users.
fn queue(scenario: &Scenario, link: &Link) -> String {
    let size = match &link.discipline {
        LinkDiscipline::Ours(Spec::Fifo(Limit::Packets(n))) => Some(*n as u64 * u64::from(scenario.mtu)),
        LinkDiscipline::Ours(Spec::Fifo(Limit::Bytes(b))) => Some(b.get()),
        // Its other mode bounds the backlog of each flow instead.
        LinkDiscipline::Ours(Spec::Taq(taq)) => taq
            .as_paper()
            .map(|paper| paper.sizes(&link.shaper(scenario.mtu)).buffer as u64 * paper.packet.get()),
        _ => None,
    };
    let Some(bytes) = size else { return link.discipline.to_string() };
    let packets = bytes as f64 / f64::from(scenario.mtu);
    let fills = link.rate.time_to_send(Bytes(bytes)).as_secs_f64();
    let rtt = longest_over(scenario, link);
    let bdp = if rtt > 0.0 { format!(", {} x BDP", significant(fills / rtt)) } else { String::new() };
    format!(
        "{}: {} packets of {} B, {}{bdp}",
        link.discipline,
        significant(packets),
        scenario.mtu,
        time(fills)
    )
}

/// The longest propagation there and back of traffic whose data cross the link, in seconds.
fn longest_over(scenario: &Scenario, link: &Link) -> f64 {
    let topology = &scenario.topology;
    let crosses = |t: &&Traffic| {
        let route = topology.route(topology.hosts[t.from].at, topology.hosts[t.to].at).unwrap_or_default();
        route.iter().any(|at| topology.links[*at].name == link.name)
    };
    let over = scenario.traffic.iter().filter(crosses);
    over.map(|t| round_trip(scenario, t.from, t.to).1).fold(0.0, f64::max)
}
