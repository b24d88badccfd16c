//! Cost of a sweep of many short runs outside of the runs: `cargo bench -p narrows-runner`. Numbers after `--` set how
//! many runs there are, and how many simulated seconds each has. The cost is in processor time, so that other work on
//! the machine does not count.
//!
//! Outside means neither simulation nor results of one run: keeping each run, finding it again, joint tables.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use narrows_runner::{GoOn, RunOptions, RunPlan, SpareCores, execute, simulate};
use narrows_scenario::{Experiment, Scenario};

type Error = Box<dyn std::error::Error>;

/// Processor seconds used by a thread or by the process.
fn on_cpu(whose: &str) -> f64 {
    let kept = std::fs::read_to_string(format!("/proc/{whose}/schedstat")).unwrap_or_default();
    kept.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9
}

/// Does the plan on one thread: processor seconds of the whole, and of the runs.
fn timed(plan: &RunPlan, out: PathBuf) -> Result<(f64, f64), Error> {
    let runs = Mutex::new(0.0);
    let measured = |scenario: &Scenario, seed: u64, spare: &SpareCores, go_on: &GoOn<'_>| {
        let begun = on_cpu("thread-self");
        let results = simulate(scenario, seed, spare, go_on);
        *runs.lock().expect("nobody panics") += on_cpu("thread-self") - begun;
        results
    };
    let options = RunOptions { out, jobs: 1, fresh: true };
    // A thread of its own, whose time ends with it: that of a process is the sum of threads that are there.
    let begun = on_cpu("thread-self");
    let worker = Mutex::new((f64::NAN, 0.0));
    let watch = |event: narrows_runner::Event<'_>| {
        let mut at = worker.lock().expect("nobody panics");
        match event {
            narrows_runner::Event::Begin(_) if at.0.is_nan() => at.0 = on_cpu("thread-self"),
            narrows_runner::Event::End(_) => at.1 = on_cpu("thread-self") - at.0,
            _ => {}
        }
    };
    execute(plan, &options, &measured, &AtomicBool::new(false), &watch)?;
    let rest = on_cpu("thread-self") - begun;
    Ok((worker.into_inner()?.1 + rest, runs.into_inner()?))
}

fn main() -> Result<(), Error> {
    let numbers: Vec<u64> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    let (count, seconds) = (numbers.first().copied().unwrap_or(1000), numbers.get(1).copied().unwrap_or(60));
    let text = format!(
        "name = \"short\"\nrate = \"2mbit\"\nrtt = \"200ms\"\nmtu = 500\nduration = \"{seconds}s\"\n\
         disciplines = [\"fifo:30\", \"taq\"]\nseeds = \"1..{}\"\n[[traffic]]\nkind = \"long\"\nflows = 30\n",
        (count / 2).max(1)
    );
    let plan = RunPlan::new(&text, "", Experiment::parse(&text, &[])?.expand()?);
    let out = std::env::temp_dir().join(format!("narrows-sweep-{}", std::process::id()));
    let found = timed(&plan, out.clone());
    std::fs::remove_dir_all(&out)?;
    let (whole, runs) = found?;
    let (each, outside) =
        (1e3 * runs / plan.jobs.len() as f64, 1e6 * (whole - runs) / plan.jobs.len() as f64);
    println!(
        "{} runs of {each:.1} ms: {outside:.0} us a run outside of runs, {:.1} % of {whole:.1} s of processor time",
        plan.jobs.len(),
        100.0 * (whole - runs) / whole
    );
    Ok(())
}
