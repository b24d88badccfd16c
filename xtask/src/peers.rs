//! Comparison of ns-2, ns-3 and Narrows on the same scenarios, one table: docs/explanation/simulator-peers.md.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

mod instructions;
pub mod measure;
mod metrics;
mod narrows;
mod plan;
pub mod programs;
mod store;
mod table;

use plan::{Job, Simulator, Wish};
use programs::Program;
use store::{Record, Store};

/// Arguments of `xtask peers`.
#[derive(clap::Args)]
pub struct Args {
    /// Shorter runs, two shares of five, the first seed: is everything in place?
    #[arg(long)]
    quick: bool,
    /// Scenarios: s1 (agreement), u (one flow against the buffer), a b c (speed)
    #[arg(long, value_delimiter = ',', default_value = "s1,u,a,b,c")]
    only: Vec<String>,
    /// Seeds of s1, as 1..3 or 1,2,3; the others take the first
    #[arg(long, default_value = "1..3", value_parser = seeds)]
    seeds: Seeds,
    /// Runs at a time, each on a core of its own; a b c always run alone
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// The program to compare [default: target/release/narrows]
    #[arg(long)]
    narrows: Option<PathBuf>,
    /// Count instructions a packet of a b c in Narrows with valgrind instead, in two minutes
    #[arg(long)]
    instructions: bool,
    /// Folder for finished runs, table.md and runs.csv
    #[arg(long, default_value = "out/peers")]
    out: PathBuf,
}

/// A list of seeds, a type of its own so that the command line takes it as one value.
#[derive(Clone, Debug, PartialEq)]
struct Seeds(Vec<u64>);

fn seeds(text: &str) -> Result<Seeds, String> {
    let one =
        |text: &str| text.trim().parse::<u64>().map_err(|_| format!("`{text}` is no seed; as 1..3 or 1,2,3"));
    let list = match text.split_once("..") {
        Some((first, last)) => (one(first)?..=one(last)?).collect(),
        None => text.split(',').map(one).collect::<Result<Vec<_>, _>>()?,
    };
    if list.is_empty() || list.len() > 1000 {
        return Err(format!("`{text}` is {} seeds; 1 to 1000 are possible", list.len()));
    }
    Ok(Seeds(list))
}

/// The programs at hand.
struct Programs {
    narrows: Option<Program>,
    ns2: Option<Program>,
    ns3: Option<Program>,
}

impl Programs {
    fn of(&self, simulator: Simulator) -> Option<&Program> {
        match simulator {
            Simulator::Narrows => self.narrows.as_ref(),
            Simulator::Ns2 => self.ns2.as_ref(),
            Simulator::Ns3 => self.ns3.as_ref(),
        }
    }
}

/// Runs what is missing, then prints and writes the table.
pub fn run(args: &Args) -> Result<()> {
    for name in &args.only {
        ensure!(
            ["s1", "u", "a", "b", "c"].contains(&name.as_str()),
            "--only: no scenario {name}; there are s1 u a b c"
        );
    }
    let seeds = if args.quick { &args.seeds.0[..1] } else { &args.seeds.0[..] };
    let jobs = plan::jobs(&Wish { only: &args.only, seeds, quick: args.quick });
    if args.instructions {
        return instructions::print(&jobs, &narrows::program(args.narrows.as_deref(), &args.out)?);
    }
    let programs = Programs {
        narrows: or_say(narrows::program(args.narrows.as_deref(), &args.out), "narrows"),
        ns2: or_say(programs::ns2(), "ns-2"),
        ns3: or_say(programs::ns3(), "ns-3"),
    };
    let store = Store::open(&args.out)?;

    let (mut done, mut timed, mut free) = (Vec::new(), VecDeque::new(), VecDeque::new());
    for job in jobs {
        let Some(program) = programs.of(job.simulator) else { continue };
        match store.find(&job, &program.digest) {
            Some(record) => done.push((job, record.clone())),
            None if job.case.timed() => timed.push_back(job),
            None => free.push_back(job),
        }
    }
    let progress = Progress::new(free.iter().chain(&timed), done.len());
    let threads = args.jobs.clamp(1, measure::cores());
    let runner = Runner { programs: &programs, store: &store, progress: &progress, done: Mutex::new(done) };
    runner.run_all(free, threads);
    runner.run_all(timed, 1);

    let failed = progress.failed();
    let done = runner.done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let text = table::markdown(&done, args.quick);
    print!("{text}");
    for (name, text) in [("table.md", &text), ("runs.csv", &table::csv(&done))] {
        let path = args.out.join(name);
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    ensure!(failed == 0, "{failed} runs failed: see above; the others are kept");
    Ok(())
}

/// Reports a missing simulator, whose column is then left out.
fn or_say<T>(found: Result<T>, name: &str) -> Option<T> {
    found.map_err(|error| eprintln!("peers: {name} is left out: {error:#}")).ok()
}

/// Runs jobs and keeps what comes out.
struct Runner<'a> {
    programs: &'a Programs,
    store: &'a Store,
    progress: &'a Progress,
    done: Mutex<Vec<(Job, Record)>>,
}

impl Runner<'_> {
    fn run_all(&self, jobs: VecDeque<Job>, threads: usize) {
        let queue = Mutex::new(jobs);
        std::thread::scope(|scope| {
            for core in 0..threads {
                let queue = &queue;
                scope.spawn(move || {
                    while let Some(job) = lock(queue).pop_front() {
                        let result = self.run_one(core, &job);
                        self.progress.tell(&job, &result);
                        if let Ok(record) = result {
                            lock(&self.done).push((job, record));
                        }
                    }
                });
            }
        });
    }

    fn run_one(&self, core: usize, job: &Job) -> Result<Record> {
        let program = self.programs.of(job.simulator).context("its program is missing")?;
        let (text, cost) = measure::measured(core, &(program.command)(job))?;
        let record = Record {
            simulator: job.simulator,
            case: job.case.id(),
            flavour: job.flavour.to_owned(),
            settings: serde_json::to_value(&job.settings)?,
            program: program.digest.clone(),
            metrics: (program.metrics)(job, &text)?,
            cost,
        };
        self.store.keep(&record)?;
        Ok(record)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Progress on standard error: finished runs, and the expected time of the rest.
struct Progress {
    start: Instant,
    runs: usize,
    expected_s: f64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ended: usize,
    failed: usize,
    expected_s: f64,
}

impl Progress {
    fn new<'a>(jobs: impl Iterator<Item = &'a Job>, kept: usize) -> Self {
        let (runs, expected_s) = jobs.fold((0, 0.0), |(runs, sum), job| (runs + 1, sum + job.expected_s));
        eprintln!("peers: {runs} runs to do, {kept} kept from before");
        Self { start: Instant::now(), runs, expected_s, state: Mutex::new(State::default()) }
    }

    fn tell(&self, job: &Job, result: &Result<Record>) {
        let mut state = lock(&self.state);
        state.ended += 1;
        state.expected_s += job.expected_s;
        // Remaining runs are taken to exceed their expected time by the factor of the finished ones.
        let left_s = self.start.elapsed().as_secs_f64() * (self.expected_s / state.expected_s - 1.0);
        let name =
            format!("{} {} {} seed {}", job.simulator.name(), job.case.id(), job.flavour, job.settings.seed);
        let place = format!("{}/{}", state.ended, self.runs);
        match result {
            Ok(record) => {
                eprintln!("peers: {place} {name}: {:.1} s; about {left_s:.0} s left", record.cost.wall_s);
            }
            Err(error) => {
                state.failed += 1;
                eprintln!("peers: {place} {name}: failed: {error:#}");
            }
        }
    }

    fn failed(&self) -> usize {
        lock(&self.state).failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_as_range_and_list() {
        assert_eq!(seeds("1..3"), Ok(Seeds(vec![1, 2, 3])));
        assert_eq!(seeds("4,9"), Ok(Seeds(vec![4, 9])));
        assert!(seeds("3..1").is_err());
        assert!(seeds("x").is_err());
    }
}
