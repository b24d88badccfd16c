//! `narrows league`: every discipline over one set of thin links, and who does best by each measure.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use narrows_plot::{Matrix, matrix_svg};
use narrows_runner::league::{League, MEASURES, Standings};
use narrows_runner::{Error, Middle, RunOptions, RunPlan, VERSION, digest};
use serde_json::json;

use super::sim::picture;
use super::sim::{INTERRUPTED, cores, run, say, stop_on_signal};
use crate::SUCCESS;

mod table;

/// Arguments of `narrows league`.
#[derive(clap::Args)]
pub struct Args {
    /// File with the disciplines and scenarios of the league
    #[arg(default_value = "experiments/league.toml")]
    list: PathBuf,
    /// Run some of the scenarios, each at one point and shorter: a minute or two instead of three
    #[arg(long)]
    quick: bool,
    /// Run these disciplines of the list alone, by their labels
    #[arg(long, value_name = "LABEL", value_delimiter = ',')]
    only: Vec<String>,
    /// Run these scenarios of the list alone, as long or mixed
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    scenario: Vec<String>,
    /// Add a discipline to the list, as taq:window_clamp=off
    #[arg(long, value_name = "SPEC")]
    also: Vec<String>,
    /// Replace a setting of all scenarios, as duration=60s or seeds=[1]
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "out/league")]
    out: PathBuf,
    /// Number of runs at a time (as many as there are cores)
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Repeat runs that earlier calls have finished
    #[arg(long)]
    fresh: bool,
    /// Write every comparison as JSON
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// Beginning of the name of every scenario of the league.
const PREFIX: &str = "league-";

/// Runs the command.
pub fn main(args: Args) -> anyhow::Result<u8> {
    let mut league = League::load(&args.list)?;
    args.also.iter().for_each(|spec| league.add(spec));
    // A discipline added by `--also` runs whatever `--only` says.
    let only: Vec<String> =
        if args.only.is_empty() { Vec::new() } else { [&args.only[..], &args.also[..]].concat() };
    league.only(&only, &args.scenario)?;
    let plans = plans(&league, &args)?;
    let runs: usize = plans.iter().map(|(p, _)| p.jobs.len()).sum();
    if !args.quiet {
        eprintln!(
            "league: {} disciplines, {} scenarios, {runs} runs; Ctrl-C loses no finished run",
            league.labels().len(),
            plans.len()
        );
    }
    let jobs = args.jobs.map_or_else(cores, usize::from);
    let stop = stop_on_signal()?;
    let mut standings = Standings::new(league.labels());
    for (plan, without) in &plans {
        let options = RunOptions { out: args.out.join(&plan.name), jobs, fresh: args.fresh };
        let report = match run(plan, &options, &stop, args.quiet) {
            Err(stopped @ Error::Stopped { .. }) => {
                eprintln!("{}: {stopped}", plan.name);
                return Ok(INTERRUPTED);
            }
            other => other.with_context(|| plan.name.clone())?,
        };
        standings.add(short(&plan.name), plan, &digest(plan, &report.summaries, Middle::Median), without);
    }
    let text = table::text(&standings);
    let write = |name: &str, text: &str| -> anyhow::Result<()> {
        let path = args.out.join(name);
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    };
    write("league.csv", &table::csv(&standings))?;
    write("league.md", &table::markdown(&standings))?;
    let picture = picture::saved(
        &matrix_svg(&matrix(&standings, plans.len(), runs)),
        &args.out.join("league.svg"),
        &args.out.join("league.png"),
    )?;
    if args.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&entries(&standings))?));
    } else {
        say(&format!("{text}\n{}\n{}\n", args.out.join("league.csv").display(), picture.display()));
    }
    Ok(SUCCESS)
}

/// Plans of the runs, each with the figures that do not count in the plan.
fn plans(league: &League, args: &Args) -> anyhow::Result<Vec<(RunPlan, Vec<String>)>> {
    let (mut plans, mut names) = (Vec::new(), BTreeSet::new());
    for mut round in league.rounds(args.quick) {
        round.sets.extend(args.set.iter().cloned());
        let (plan, _) = RunPlan::load(&round.file, &round.sets)?;
        if !names.insert(plan.name.clone()) {
            let name = &plan.name;
            bail!(
                "{}: name = '{name}' is also that of another scenario: expected different names",
                round.file.display()
            );
        }
        plans.push((plan, round.without));
    }
    if plans.is_empty() {
        bail!(
            "{}: no scenario is left: take away --scenario or --quick, or give one a line 'quick = [...]'",
            args.list.display()
        );
    }
    Ok(plans)
}

fn short(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// Disciplines from best to worst against measures.
fn matrix(standings: &Standings, scenarios: usize, runs: usize) -> Matrix {
    let order = standings.ranking();
    let cell = |d: usize, m: usize| standings.place(d, |e| e.measure == m).map(|p| p.factor);
    Matrix {
        title: "How many times worse than the best".to_owned(),
        subtitle: format!(
            "geometric mean over the points of {scenarios} scenarios; 1 is the best; {runs} runs; narrows {VERSION}"
        ),
        columns: MEASURES.iter().map(|m| m.name.to_owned()).collect(),
        rows: order
            .into_iter()
            .map(|d| {
                let cells = (0..MEASURES.len()).map(|m| cell(d, m)).collect();
                (standings.disciplines[d].clone(), cells)
            })
            .collect(),
    }
}

fn entries(standings: &Standings) -> serde_json::Value {
    let of = |e: &narrows_runner::league::Entry| {
        let each = standings.disciplines.iter().zip(e.values.iter().zip(&e.factors));
        let each: serde_json::Map<String, serde_json::Value> =
            each.map(|(d, (v, f))| (d.clone(), json!({ "value": v, "factor": f }))).collect();
        json!({
            "measure": MEASURES[e.measure].name, "figure": e.figure, "scenario": e.scenario, "point": e.point,
            "disciplines": each,
        })
    };
    standings.entries.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The list that comes with the program names scenarios that are all as they should be.
    #[test]
    fn the_list_is_sound() {
        let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/league.toml");
        let league = League::load(&list).unwrap();
        for quick in [false, true] {
            for round in league.rounds(quick) {
                let (plan, _) = RunPlan::load(&round.file, &round.sets).unwrap();
                assert_eq!(
                    plan.name,
                    format!("{PREFIX}{}", round.file.file_stem().unwrap().to_string_lossy())
                );
                let axis = plan.axes.iter().find(|a| a.name == "discipline").unwrap();
                assert_eq!(axis.values, league.labels());
            }
        }
    }
}
