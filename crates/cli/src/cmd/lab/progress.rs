//! Progress of a lab: a bar a run on a terminal, else a line a second at most.

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::sync::{Mutex, PoisonError};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use narrows_lab::Scenario;
use narrows_lab::suite::{LabJob, Progress};
use narrows_lab::worker::Tick;

/// Shows progress on standard error.
pub struct Show {
    seconds: f64,
    terminal: bool,
    all: MultiProgress,
    bars: Mutex<HashMap<LabJob, ProgressBar>>,
}

impl Show {
    /// Shows the progress of a scenario's runs.
    pub fn new(scenario: &Scenario) -> Self {
        Self {
            seconds: scenario.duration.secs(),
            terminal: std::io::stderr().is_terminal(),
            all: MultiProgress::new(),
            bars: Mutex::new(HashMap::new()),
        }
    }

    /// Takes one event of the suite.
    pub fn event(&self, event: Progress) {
        match event {
            Progress::Skipped(discipline, why) => self.line(&format!("{discipline}: skipped: {why}")),
            Progress::Begin(job) => self.begin(job),
            Progress::Tick(job, tick) => self.tick(&job, tick),
            Progress::End(job, result) => {
                if let Some(bar) = self.lock().remove(&job) {
                    bar.finish_and_clear();
                }
                match result {
                    Ok(values) => {
                        let kbps = values.get("goodput_kbps").copied().unwrap_or(0.0);
                        let objects = values.get("objects_done").map(|n| format!("{n:.0} objects, "));
                        self.line(&format!(
                            "{}: {}{kbps:.0} kbit/s",
                            name(&job),
                            objects.unwrap_or_default()
                        ));
                    }
                    Err(why) => self.line(&format!("{}: failed: {why}", name(&job))),
                }
            }
        }
    }

    fn begin(&self, job: LabJob) {
        if self.terminal {
            let bar = self.all.add(ProgressBar::new(self.seconds as u64));
            // A constant template; the plain bar is as good.
            if let Ok(style) = ProgressStyle::with_template("{prefix:24} {bar:30} {pos}/{len} s  {msg}") {
                bar.set_style(style);
            }
            bar.set_prefix(name(&job));
            self.lock().insert(job, bar);
        } else {
            self.line(&format!("{}: begins, {:.0} s", name(&job), self.seconds));
        }
    }

    fn tick(&self, job: &LabJob, tick: Tick) {
        let said = format!("{} objects, {:.0} kB", tick.objects, tick.bytes as f64 / 1e3);
        if let Some(bar) = self.lock().get(job) {
            bar.set_position(tick.at_s as u64);
            bar.set_message(said);
        } else if tick.at_s >= 1.0 {
            self.line(&format!("{}: {:.0}/{:.0} s  {said}", name(job), tick.at_s, self.seconds));
        }
    }

    fn line(&self, text: &str) {
        if self.terminal {
            // Goes above the bars.
            let _ = self.all.println(text);
        } else {
            eprintln!("{text}");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<LabJob, ProgressBar>> {
        self.bars.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name(job: &LabJob) -> String {
    format!("{} seed {}", job.discipline, job.seed)
}
