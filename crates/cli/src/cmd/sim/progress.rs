//! Progress of simulations: on a terminal a bar for all and one for each that runs, else a line now and then.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use narrows_runner::{Estimate, Event, RunPlan};

/// Time between two lines where there is no terminal, at least.
const PAUSE: Duration = Duration::from_secs(5);

/// Shows progress on standard error.
pub struct Show<'a> {
    plan: &'a RunPlan,
    jobs: usize,
    /// Work of each run, as estimated.
    weights: Vec<f64>,
    terminal: bool,
    bars: MultiProgress,
    all: ProgressBar,
    state: Mutex<State>,
}

struct State {
    begun: Instant,
    told: Instant,
    found: usize,
    done: usize,
    /// Work done by runs that ended.
    worked: f64,
    /// Work there was to do at the start.
    todo: f64,
    /// Runs under way: progress from 0 to 1, and the bar of each.
    running: BTreeMap<usize, (f64, ProgressBar)>,
}

impl<'a> Show<'a> {
    /// Shows the progress of a plan's runs, `jobs` of which run at a time.
    pub fn new(plan: &'a RunPlan, jobs: usize) -> Self {
        let weights: Vec<f64> = plan.jobs.iter().map(|j| Estimate::of(&j.scenario).hops.max(1.0)).collect();
        let bars = MultiProgress::new();
        let all = ProgressBar::hidden();
        let now = Instant::now();
        let state = State {
            begun: now,
            told: now,
            found: 0,
            done: 0,
            worked: 0.0,
            todo: weights.iter().sum(),
            running: BTreeMap::new(),
        };
        let terminal = std::io::stderr().is_terminal();
        Self { plan, jobs, weights, terminal, bars, all, state: Mutex::new(state) }
    }

    /// Takes one event of the runner.
    pub fn event(&self, event: Event<'_>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Found(found) => self.found(&mut state, found),
            Event::Begin(at) => {
                let bar = if self.terminal { self.bar(at) } else { ProgressBar::hidden() };
                state.running.insert(at, (0.0, bar));
            }
            Event::At(at, now) => {
                let scenario = &self.plan.jobs[at].scenario;
                if let Some((share, bar)) = state.running.get_mut(&at) {
                    *share = now.as_secs_f64() / scenario.duration.as_secs_f64();
                    bar.set_position(now.as_secs_f64() as u64);
                }
                self.tell(&mut state);
            }
            Event::End(at) => {
                self.over(&mut state, at);
                self.tell(&mut state);
            }
            Event::Failed(at, why) => {
                self.over(&mut state, at);
                self.line(&format!("{}: failed: {why}", self.plan.jobs[at].label(&self.plan.axes)));
            }
            Event::Joining => self.all.set_message("writing tables"),
        }
    }

    /// Takes the bars away.
    pub fn finish(&self) {
        self.all.finish_and_clear();
        // A terminal that cannot be cleared keeps its bars.
        let _ = self.bars.clear();
    }

    fn found(&self, state: &mut State, found: usize) {
        let total = self.plan.jobs.len();
        state.found = found;
        // The finished runs are not named: each is taken to have had a mean share of the work.
        state.todo *= (total - found) as f64 / total.max(1) as f64;
        let kept = if found > 0 { format!(", {found} of them done before") } else { String::new() };
        if self.terminal && total > found {
            let style = ProgressStyle::with_template("{prefix:28} {bar:30} {pos}/{len} runs  {msg}");
            self.all.set_length(total as u64);
            self.all.set_position(found as u64);
            self.all.set_prefix(self.plan.name.clone());
            self.bars.add(self.all.clone());
            if let Ok(style) = style {
                self.all.set_style(style);
            }
        } else if !self.terminal {
            let jobs = self.jobs.min(total - found).max(1);
            self.line(&format!("{}: {total} runs{kept}, {jobs} at a time", self.plan.name));
        }
    }

    fn bar(&self, at: usize) -> ProgressBar {
        let job = &self.plan.jobs[at];
        let bar = self.bars.add(ProgressBar::new(job.scenario.duration.as_secs_f64().ceil() as u64));
        // A constant template; the plain bar is as good.
        if let Ok(style) = ProgressStyle::with_template("  {prefix:40} {bar:16} {pos}/{len} s simulated") {
            bar.set_style(style);
        }
        bar.set_prefix(job.label(&self.plan.axes));
        bar
    }

    fn over(&self, state: &mut State, at: usize) {
        if let Some((_, bar)) = state.running.remove(&at) {
            bar.finish_and_clear();
            self.bars.remove(&bar);
        }
        state.done += 1;
        state.worked += self.weights[at];
        self.all.set_position((state.found + state.done) as u64);
    }

    /// Prints the progress, not too often.
    fn tell(&self, state: &mut State) {
        let pause = if self.terminal { Duration::from_millis(250) } else { PAUSE };
        if state.told.elapsed() < pause {
            return;
        }
        state.told = Instant::now();
        let part: f64 = state.running.iter().map(|(at, (share, _))| share * self.weights[*at]).sum();
        let done = state.worked + part;
        let left = state.begun.elapsed().as_secs_f64() * (state.todo / done.max(1e-9) - 1.0).max(0.0);
        let left = if done > 0.0 { format!("about {} left", words(left)) } else { String::new() };
        if self.terminal {
            self.all.set_message(left);
            return;
        }
        let running: Vec<String> = state
            .running
            .iter()
            .map(|(at, (share, _))| {
                let all = self.plan.jobs[*at].scenario.duration.as_secs_f64();
                format!("{:.0}/{all:.0} s", share * all)
            })
            .collect();
        let finished = state.found + state.done;
        let total = self.plan.jobs.len();
        self.line(&format!("{finished}/{total} runs, running: {}, {left}", running.join(" ")));
    }

    fn line(&self, text: &str) {
        if self.terminal {
            // Goes above the bars.
            let _ = self.bars.println(text);
        } else {
            eprintln!("{text}");
        }
    }
}

/// Time in the words of people, as `1 s` or `12 min`.
pub fn words(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => "1 s".to_owned(),
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}
