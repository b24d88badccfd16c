//! `narrows demo`: a thin link getting better, with real stacks: drop-tail, then TAQ, then a kernel peer.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use narrows_lab::metrics::transport_name;
use narrows_lab::peers::{Peer, kind_of};
use narrows_lab::suite::DisciplineOutcome;
use narrows_lab::{
    Machines, Outcome, Release, Scenario, Suite, SuiteOptions, Traffic, Transport, bench, table,
};

use super::lab;
use crate::{FAILURE, SUCCESS};

/// Workload of today's thin links; the workload of the demonstration is an experiment like any other.
const TODAY: &str = include_str!("../../../../experiments/real/lab/mix.toml");
/// Workload from before everything was encrypted, which the papers are about.
const CLEAR: &str = include_str!("../../../../experiments/taq/lab/objects-200ms.toml");
/// Discipline of the first run: drop-tail with 30 packets.
const BEFORE: &str = "fifo:30";
const OURS: &str = "taq";
const PEER: &str = "kernel:cake";
/// The kernel of the virtual machines in which all three run where this machine's own kernel lacks the peer.
const KERNEL: &str = "6.12";

/// Arguments of `narrows demo`.
#[derive(clap::Args)]
pub struct Args {
    /// Seconds that each of the three disciplines runs; the whole takes a little more than three times as long
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u64).range(5..=600))]
    seconds: u64,
    /// Folder for the JSON, the picture and a page for the browser
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Seed from which sizes of objects and starts of users are drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Load the link over TCP in the clear, instead of half over QUIC and half over TLS
    #[arg(long)]
    clear: bool,
    /// Run in virtual machines with this kernel, as 6.12, whose clock a busy host cannot disturb; needs qemu, no root
    #[arg(long, value_name = "KERNEL")]
    machine: Option<Release>,
}

/// Scenario of the demonstration.
fn scenario(args: &Args) -> anyhow::Result<Scenario> {
    let (text, name, load) = if args.clear {
        (CLEAR, "demo-clear", "all over TCP in the clear")
    } else {
        (TODAY, "demo", "half of them over QUIC, half over TLS")
    };
    Scenario::parse(
        text,
        &[
            format!("name={name}"),
            format!("about=Who stalls on a thin link: 100 users on 600 kbit/s, {load}"),
            format!("duration={}s", args.seconds),
            format!("seeds=[{}]", args.seed),
            format!("disciplines=[\"{BEFORE}\", \"{OURS}\", \"{PEER}\"]"),
        ],
    )
}

/// Number of a scenario's users of each transport, in words.
fn users(scenario: &Scenario) -> String {
    let of = |transport: Transport| {
        let groups = scenario.traffic.iter().filter(|group| group.transport() == transport);
        let users: u32 = groups.map(Traffic::users).sum();
        (users > 0).then(|| format!("{users} users over {}", transport_name(transport)))
    };
    Transport::IN_LAB.into_iter().filter_map(of).collect::<Vec<_>>().join(" and ")
}

/// The machines to run in: those asked for, or some where this kernel lacks the peer and machines can be had.
fn machines(args: &Args) -> anyhow::Result<Option<Machines>> {
    if let Some(release) = &args.machine {
        return lab::machines(release).map(Some);
    }
    let kind = PEER.strip_prefix("kernel:").map_or(PEER, kind_of);
    let Err(why) = Peer::available(kind) else { return Ok(None) };
    let release: Release = KERNEL.parse().map_err(anyhow::Error::msg)?;
    match lab::machines(&release) {
        Ok(machines) => Ok(Some(machines)),
        Err(obstacle) => {
            eprintln!("narrows demo: {PEER} takes no part: {why} ({obstacle:#})");
            Ok(None)
        }
    }
}

/// Runs the command.
pub fn main(args: Args) -> anyhow::Result<u8> {
    let machines = machines(&args)?;
    if let (None, Err(why)) = (&machines, bench::available()) {
        eprintln!("narrows demo: {why:#}.");
        eprintln!(
            "What works without: 'narrows doctor' (what this machine can do, and the remedy for each \"no\"), and \
             from the source 'make test' (the disciplines under a scripted clock)."
        );
        return Ok(FAILURE);
    }
    let scenario = scenario(&args)?;
    println!(
        "{} fetch small objects over {} with {} of propagation: real stacks between namespaces of {}.\n\
         Each discipline for {} s.",
        users(&scenario),
        scenario.rate,
        scenario.rtt,
        machines.as_ref().map_or_else(
            || "this machine".to_owned(),
            |m| format!("virtual machines (kernel {}), whose clock no busy host disturbs", m.version())
        ),
        args.seconds
    );
    let options = SuiteOptions {
        // Machines do not disturb each other; what runs here would.
        jobs: if machines.is_some() { 2 } else { 1 },
        machines,
        command: std::env::args().collect::<Vec<_>>().join(" "),
        ..Default::default()
    };
    let begun = Instant::now();
    let outcome = lab::run(&Suite::new(scenario, options)?)?;
    println!("\n{}", table::render_first(&outcome));
    let verdict = verdict(&outcome);
    let paths = lab::write(&outcome, &verdict, &args.out)?;
    paths.iter().for_each(|path| println!("{}", path.display()));
    println!("\n{}", verdict.join("\n"));
    if let Some(page) = paths.last().and_then(|page| page.canonicalize().ok()) {
        println!("To look at, in a browser: file://{}", page.display());
    }
    println!("({} s)", begun.elapsed().max(Duration::from_secs(1)).as_secs());
    Ok(SUCCESS)
}

fn find<'a>(outcome: &'a Outcome, name: &str) -> Option<&'a DisciplineOutcome> {
    outcome.disciplines.iter().find(|d| d.discipline == name && !d.runs.is_empty())
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Sentences from the numbers, whichever way they fall: who stalled less, then the stalls of each transport.
fn verdict(outcome: &Outcome) -> Vec<String> {
    let (Some(before), Some(ours)) = (find(outcome, BEFORE), find(outcome, OURS)) else {
        return vec!["No verdict: drop-tail and TAQ did not both run.".to_owned()];
    };
    let columns: Vec<_> = [Some(before), Some(ours), find(outcome, PEER)].into_iter().flatten().collect();
    let value = |d: &DisciplineOutcome, key: &str| d.summary.get(key).map(|spread| spread.median);
    // Behind each discipline, as `30.1 % behind drop-tail, 0.6 % behind TAQ`.
    let told = |key: &str, write: &dyn Fn(f64) -> String| {
        let one = |d: &&DisciplineOutcome| {
            let name = table::plain_name(&d.discipline).unwrap_or(&d.discipline);
            Some(format!("{} behind {name}", write(value(d, key)?)))
        };
        columns.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    };
    let mut transports: Vec<_> = Transport::IN_LAB
        .into_iter()
        .map(|t| (format!("{}_stall_over_5s", t.word()), format!(" over {}", transport_name(t))))
        .filter(|(key, _)| columns.iter().all(|d| value(d, key).is_some()))
        .collect();
    if transports.is_empty() {
        transports.push(("stall_over_5s".to_owned(), String::new()));
    }
    let better = |(key, _): &(String, String)| value(ours, key) < value(before, key);
    let helped = transports.iter().filter(|t| better(t)).count();
    let head = match helped {
        0 => "Verdict: TAQ did not help here.",
        n if n < transports.len() => "Verdict: TAQ has fewer stalls than drop-tail over one transport only.",
        _ => "Verdict: TAQ has fewer stalls than drop-tail.",
    };
    let mut sentences = vec![head.to_owned()];
    for (key, over) in &transports {
        sentences.push(format!("Objects{over} that stalled for more than 5 s: {}.", told(key, &percent)));
    }
    sentences.push(format!("Goodput: {}.", told("goodput_kbps", &|kbps| format!("{kbps:.0} kbit/s"))));
    if outcome.disciplines.iter().flat_map(|d| &d.runs).any(|r| r.spoiled.is_some()) {
        sentences.push("SPOILED: the machine was too busy for these numbers to be quoted.".to_owned());
    }
    sentences
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use narrows_lab::metrics::Spread;
    use narrows_lab::suite::RunOutcome;

    use super::*;

    fn outcome(args: &Args, columns: &[(&str, &[(&str, f64)])]) -> Outcome {
        let column = |(name, values): &(&str, &[(&str, f64)])| DisciplineOutcome {
            discipline: (*name).to_owned(),
            summary: (values.iter())
                .map(|(key, v)| ((*key).to_owned(), Spread { median: *v, min: *v, max: *v }))
                .collect(),
            runs: if values.is_empty() { Vec::new() } else { vec![RunOutcome::default()] },
            ..DisciplineOutcome::default()
        };
        Outcome {
            version: String::new(),
            command: String::new(),
            kernel: String::new(),
            scenario: scenario(args).unwrap(),
            disciplines: columns.iter().map(column).collect(),
        }
    }

    fn args(more: &[&str]) -> Args {
        #[derive(clap::Parser)]
        struct Program {
            #[command(flatten)]
            args: Args,
        }
        <Program as clap::Parser>::try_parse_from([&["demo"], more].concat()).unwrap().args
    }

    fn users_by_transport(scenario: &Scenario) -> BTreeMap<&'static str, u32> {
        let mut users = BTreeMap::new();
        for group in &scenario.traffic {
            *users.entry(group.transport().word()).or_default() += group.users();
        }
        users
    }

    #[test]
    fn half_of_the_users_load_by_quic_and_all_of_tcp_is_tls() {
        let today = scenario(&args(&[])).unwrap();
        assert_eq!(users_by_transport(&today), BTreeMap::from([("quic", 50), ("tls", 50)]));
        assert_eq!(
            (today.name.as_str(), today.rate.as_bps(), today.duration.secs()),
            ("demo", 600_000, 80.0)
        );
        assert_eq!(users(&today), "50 users over TLS and 50 users over QUIC");
        assert_eq!(today.disciplines, [BEFORE, OURS, PEER]);
        assert!(today.ignored.is_empty(), "{:?}", today.ignored);
    }

    #[test]
    fn in_the_clear_all_is_tcp() {
        let clear = scenario(&args(&["--clear", "--seconds", "20"])).unwrap();
        assert_eq!(users_by_transport(&clear), BTreeMap::from([("tcp", 100)]));
        assert_eq!((clear.name.as_str(), clear.rtt.secs(), clear.duration.secs()), ("demo-clear", 0.2, 20.0));
    }

    #[test]
    fn no_verdict_without_both() {
        assert!(verdict(&outcome(&args(&[]), &[(BEFORE, &[]), (OURS, &[])]))[0].starts_with("No verdict"));
    }

    #[test]
    fn each_transport_is_told_apart() {
        let stalls = |tls, quic| [("tls_stall_over_5s", tls), ("quic_stall_over_5s", quic)];
        let told = |ours: [(&str, f64); 2]| {
            let (before, peer) = (stalls(0.4, 0.6), stalls(0.084, 0.64));
            verdict(&outcome(&args(&[]), &[(BEFORE, &before), (OURS, &ours), (PEER, &peer)]))
        };
        let sentences = told(stalls(0.006, 0.025));
        assert_eq!(sentences[0], "Verdict: TAQ has fewer stalls than drop-tail.");
        assert_eq!(
            sentences[2],
            "Objects over QUIC that stalled for more than 5 s: 60.0 % behind drop-tail, 2.5 % behind TAQ, 64.0 % \
             behind CAKE."
        );
        assert!(told(stalls(0.006, 0.7))[0].ends_with("over one transport only."));
        assert!(told(stalls(0.5, 0.7))[0].ends_with("did not help here."));
    }
}
