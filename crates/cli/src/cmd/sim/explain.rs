//! Explanation of a scenario in words: the network, who loads it, what is varied, what it will cost. Nothing runs.

mod network;
mod traffic;

use std::fmt::Write as _;
use std::path::Path;

use narrows_runner::{Estimate, RunPlan};
use narrows_scenario::{Scenario, time_text};
use narrows_tcp::{Config, Preset, Settings as _};

use super::progress::words;
use super::table::significant;

/// Links crossed by packets in a second of one core, as measured; for the estimate alone.
const HOPS_PER_SECOND: f64 = 5e6;

/// Explanation of the whole plan.
pub fn text(plan: &RunPlan, out: &Path, jobs: usize) -> String {
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
    network::network(&mut text, scenario);
    network::compared(&mut text, plan);
    put(&mut text, format!("\ntraffic{at}"));
    for traffic in &scenario.traffic {
        put(&mut text, format!("  {}", traffic::words(scenario, traffic)));
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

/// Describes the TCP of each group: the nearest preset of both ends, and what differs from the preset.
fn tcp(text: &mut String, scenario: &Scenario) {
    let mut told: Vec<(String, Vec<&str>)> = Vec::new();
    for t in scenario.traffic.iter().filter(|t| !t.is_datagrams()) {
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
    let differences = |preset: Preset| -> Vec<String> {
        let plain = Config::preset(preset);
        // The segment follows from the largest packet, whatever the preset.
        let keys = Config::keys().iter().filter(|k| k.name != "mss");
        keys.filter_map(|k| Some((k.name, k.value(config)?, k.value(&plain)?)))
            .filter(|(_, is, was)| is != was)
            .map(|(name, is, was)| format!("{name} = {is} (not {was})"))
            .collect()
    };
    let nearest = Preset::ALL.map(|(name, preset)| (name, differences(preset)));
    let Some((name, differ)) = nearest.into_iter().min_by_key(|(_, d)| d.len()) else { return String::new() };
    let mss = format!("as {name}, segments of {} B", config.mss);
    if differ.is_empty() { mss } else { format!("{mss}, but {}", differ.join(", ")) }
}

/// Describes the varied settings, the number of runs and their cost.
fn runs(text: &mut String, plan: &RunPlan, jobs: usize) {
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
pub fn expected_s(plan: &RunPlan, jobs: usize) -> f64 {
    let hops: f64 = plan.jobs.iter().map(|j| Estimate::of(&j.scenario).hops).sum();
    hops / HOPS_PER_SECOND / jobs.min(plan.jobs.len()).max(1) as f64
}

/// Time in the words of people, at least a second.
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

/// List in words; of more than 12 values only the first two and the last.
fn listed(values: &[String]) -> String {
    match values {
        [first, second, .., last] if values.len() > 12 => {
            format!("{first}, {second}, ... {last} ({} values)", values.len())
        }
        all => all.join(", "),
    }
}
