//! What `narrows sim` would run, in words: the network, who loads it, what is varied, what it will cost. Nothing runs.

use std::fmt::Write as _;
use std::path::Path;

use narrows_qdisc::taq::Mode;
use narrows_qdisc::{Limit, Spec};
use narrows_runner::{Estimate, Plan};
use narrows_scenario::{
    Delays, Discipline, Hosts, Kind, Link, LogSource, LogTiming, Loss, OpenedBy, Policy, Scenario, Size,
    Traffic, time_text,
};
use narrows_tcp::{Config, Preset, Settings as _};
use narrows_units::{Bytes, Rate};

use super::progress::words;
use super::table::significant;

/// What the simulator was measured to do: links crossed by packets in a second of one core, for the estimate alone.
const HOPS_PER_SECOND: f64 = 5e6;

/// All of it.
pub fn text(plan: &Plan, out: &Path, jobs: usize) -> String {
    let mut text = String::new();
    let about = if plan.about.is_empty() { String::new() } else { format!(": {}", plan.about) };
    put(&mut text, format!("{}{about}", plan.name));
    let Some(first) = plan.jobs.first() else { return text };
    let scenario = &first.scenario;
    let at = if plan.axes.is_empty() {
        String::new()
    } else {
        let point: Vec<String> =
            plan.axes.iter().zip(&first.coords).map(|(a, v)| format!("{}={v}", a.name)).collect();
        format!(" (at {})", point.join(" "))
    };
    put(&mut text, format!("\nnetwork{at}"));
    network(&mut text, scenario);
    compared(&mut text, plan);
    put(&mut text, format!("\ntraffic{at}"));
    for traffic in &scenario.traffic {
        put(&mut text, format!("  {}", in_words(scenario, traffic)));
    }
    put(&mut text, "\ntcp".into());
    tcp(&mut text, scenario);
    put(&mut text, "\nruns".into());
    runs(&mut text, plan, jobs);
    if !plan.claims.is_empty() {
        put(&mut text, "\nclaims judged afterwards".into());
        for claim in &plan.claims {
            put(&mut text, format!("  {}  [{} {}]", claim.text, claim.formula.text(), claim.bound));
        }
    }
    put(&mut text, format!("\nwrites to {}", out.display()));
    put(
        &mut text,
        "  summary (a row a run) and tables as .csv and .parquet, claims.csv, manifest.json, runs/".into(),
    );
    text
}

fn put(text: &mut String, line: String) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}

/// The ways of the traffic, then every link and group of hosts.
fn network(text: &mut String, scenario: &Scenario) {
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

/// What stands before the slowest link under each discipline.
fn compared(text: &mut String, plan: &Plan) {
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
fn round_trip(scenario: &Scenario, from: usize, to: usize) -> (f64, f64) {
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

fn time(seconds: f64) -> String {
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

/// What the wire does to packets.
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
        Discipline::Ours(Spec::Fifo(Limit::Packets(n))) => Some(*n as u64 * u64::from(scenario.mtu)),
        Discipline::Ours(Spec::Fifo(Limit::Bytes(b))) => Some(b.get()),
        // Its other mode bounds the backlog of each flow instead.
        Discipline::Ours(Spec::Taq(config)) if config.mode == Mode::Paper => {
            Some(config.sizes(&link.shaper(scenario.mtu)).buffer as u64 * config.packet.get())
        }
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

/// A group's traffic as one would tell it.
fn in_words(scenario: &Scenario, t: &Traffic) -> String {
    let topology = &scenario.topology;
    let (from, to) = (&topology.hosts[t.from].name, &topology.hosts[t.to].name);
    let flows =
        |n: u32, what: &str| format!("{n} {what}{} from {from} to {to}", if n == 1 { "" } else { "s" });
    let users = |n: u32, k: u32| {
        let s = |n: u32| if n == 1 { "" } else { "s" };
        format!("{n} user{} at {to} with {k} connection{} each to {from}", s(n), s(k))
    };
    let pause = |think: narrows_units::Duration| {
        if think.as_nanos() == 0 {
            String::new()
        } else {
            format!(", pausing {} on average", time_text(think))
        }
    };
    let what = match &t.kind {
        Kind::Long { flows: n } => flows(*n, "long flow"),
        Kind::Files { flows: n, arrivals, size, .. } => {
            let n = n.map_or_else(String::new, |n| format!("{n} "));
            let rate =
                arrivals.map_or_else(String::new, |a| format!(", {} arriving a second", significant(a)));
            format!("{n}files of {} from {from} to {to}{rate}", law(size, " B"))
        }
        Kind::Objects { users: n, connections, think, size } => {
            format!(
                "{}, fetching objects of {} one after another{}",
                users(*n, *connections),
                law(size, " B"),
                pause(*think)
            )
        }
        Kind::Pages { users: n, connections, objects, size, think } => format!(
            "{}, fetching pages of {} objects of {}{}",
            users(*n, *connections),
            law(objects, ""),
            law(size, " B"),
            pause(*think)
        ),
        Kind::Telnet { flows: n, interval, bytes } => {
            format!(
                "{}, {bytes} B every {} on average",
                flows(*n, "keystroke connection"),
                time_text(*interval)
            )
        }
        Kind::Udp { flows: n, rate, packet, on, off } => {
            let pattern = if on.as_nanos() + off.as_nanos() == 0 {
                "always on".to_owned()
            } else {
                format!("on for {} and off for {} on average", time_text(*on), time_text(*off))
            };
            format!("{}, {rate} each in packets of {packet} B, {pattern}", flows(*n, "UDP flow"))
        }
        Kind::Log { source, clients, connections, timing, .. } => {
            format!("{} {}: {}", users(*clients, *connections), requests(*timing), log(source))
        }
    };
    let opened = if matches!(t.kind, Kind::Udp { .. }) || t.opened_by == OpenedBy::Receiver {
        String::new()
    } else {
        "; the sender opens".to_owned()
    };
    format!("{what}{opened}{}{}", share(scenario, t), when(scenario, t))
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
    if matches!(t.kind, Kind::Udp { .. } | Kind::Telnet { .. } | Kind::Files { flows: None, .. }) {
        return String::new();
    }
    let topology = &scenario.topology;
    let route =
        |t: &Traffic| topology.route(topology.hosts[t.from].at, topology.hosts[t.to].at).unwrap_or_default();
    let Some(thinnest) = route(t).into_iter().min_by_key(|l| topology.links[*l].rate) else {
        return String::new();
    };
    let elastic = |t: &&Traffic| !matches!(t.kind, Kind::Udp { .. } | Kind::Telnet { .. });
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

/// The preset each end is nearest to, and what differs from it.
fn tcp(text: &mut String, scenario: &Scenario) {
    let mut told: Vec<(String, Vec<&str>)> = Vec::new();
    for t in scenario.traffic.iter().filter(|t| !matches!(t.kind, Kind::Udp { .. })) {
        let (from, to) = (settings(&t.tcp_from), settings(&t.tcp_to));
        let words = if from == to { from } else { format!("sender {from}; receiver {to}") };
        match told.iter_mut().find(|(known, _)| *known == words) {
            Some((_, names)) => names.push(&t.name),
            None => told.push((words, vec![&t.name])),
        }
    }
    let one = told.len() == 1;
    for (words, names) in told {
        put(text, if one { format!("  {words}") } else { format!("  {}: {words}", names.join(", ")) });
    }
}

fn settings(config: &Config) -> String {
    let presets = [("linux", Preset::Linux), ("ns2", Preset::Ns2), ("rfc", Preset::Rfc)];
    let differences = |preset: Preset| -> Vec<String> {
        let plain = Config::preset(preset);
        // The segment follows from the largest packet, whatever the preset.
        let keys = Config::keys().iter().filter(|k| k.name != "mss");
        keys.filter(|k| k.value(config) != k.value(&plain))
            .map(|k| format!("{} = {} (not {})", k.name, k.value(config), k.value(&plain)))
            .collect()
    };
    let nearest = presets.map(|(name, preset)| (name, differences(preset)));
    let Some((name, differ)) = nearest.into_iter().min_by_key(|(_, d)| d.len()) else { return String::new() };
    let mss = format!("as {name}, segments of {} B", config.mss);
    if differ.is_empty() { mss } else { format!("{mss}, but {}", differ.join(", ")) }
}

/// What is varied, how many runs that makes, what they cost.
fn runs(text: &mut String, plan: &Plan, jobs: usize) {
    for axis in &plan.axes {
        put(text, format!("  {} = {}", axis.name, listed(&axis.values)));
    }
    let seeds: Vec<String> = plan.seeds().iter().map(u64::to_string).collect();
    let points = plan.jobs.len() / seeds.len().max(1);
    let s = |n: usize| if n == 1 { "" } else { "s" };
    let Some(first) = plan.jobs.first() else { return };
    let scenario = &first.scenario;
    put(
        text,
        format!(
            "  {points} point{} x {} seed{} ({}) = {} run{} of {}{}",
            s(points),
            seeds.len(),
            s(seeds.len()),
            listed(&seeds),
            plan.jobs.len(),
            s(plan.jobs.len()),
            time_text(scenario.duration),
            match scenario.warmup.as_nanos() {
                0 => String::new(),
                _ => format!(", of which the first {} do not count", time_text(scenario.warmup)),
            }
        ),
    );
    let dephase = if scenario.dephase.as_nanos() == 0 {
        "no random delay at hosts: phase effects stay in".to_owned()
    } else {
        format!("packets are delayed at hosts at random by up to {}", time_text(scenario.dephase))
    };
    put(text, format!("  starts spread over {}; {dephase}", time_text(scenario.jitter)));
    let estimates: Vec<Estimate> = plan.jobs.iter().map(|j| Estimate::of(&j.scenario)).collect();
    let hops: f64 = estimates.iter().map(|e| e.hops).sum();
    let memory = estimates.iter().map(|e| e.memory).fold(0.0, f64::max);
    let seconds = expected_s(plan, jobs);
    let jobs = jobs.min(plan.jobs.len()).max(1);
    put(
        text,
        format!(
            "  about {} packets over links, {} with {jobs} run{} at a time, up to {} MB of memory each",
            count(hops),
            how_long(seconds),
            s(jobs),
            significant((memory / 1e6).ceil())
        ),
    );
}

/// About how long a plan takes on a usual core, in seconds.
pub fn expected_s(plan: &Plan, jobs: usize) -> f64 {
    let hops: f64 = plan.jobs.iter().map(|j| Estimate::of(&j.scenario).hops).sum();
    hops / HOPS_PER_SECOND / jobs.min(plan.jobs.len()).max(1) as f64
}

/// A time as people say it.
pub fn how_long(seconds: f64) -> String {
    if seconds < 1.0 { "a second".to_owned() } else { words(seconds) }
}

fn count(n: f64) -> String {
    match n {
        n if n >= 1e9 => format!("{} thousand million", significant(n / 1e9)),
        n if n >= 1e6 => format!("{} million", significant(n / 1e6)),
        n => significant(n),
    }
}

/// A list; a long one by its ends.
fn listed(values: &[String]) -> String {
    match values {
        [first, second, .., last] if values.len() > 12 => {
            format!("{first}, {second}, ... {last} ({} values)", values.len())
        }
        all => all.join(", "),
    }
}
