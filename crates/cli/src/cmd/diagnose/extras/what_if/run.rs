//! The fitted scenario under each discipline, captured where the capture was taken, and diagnosed as it was.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context as _, anyhow};
use narrows_diagnose::{Analyzer, AnalyzerLimits};
use narrows_runner::RunPlan;
use narrows_scenario::Scenario;
use narrows_units::{Duration, Instant};
use narrows_wire::capture::{Captured, Reader};

use super::agree::Again;
use super::collect::Collector;
use super::measure::Figures;
use super::{Fit, unless};

/// The only seed: what varies between seeds is small beside what a fit leaves out.
const SEED: u64 = 1;
/// Figures of the simulator's own account that go into the JSON.
const OWN: [&str; 7] =
    ["loss", "goodput_kbps", "timeouts", "user_stall_p50_s", "user_stall_p99_s", "utilisation", "never_in"];

/// Run of the fitted scenario under one discipline.
pub struct Run {
    pub discipline: String,
    /// Whether the run has the discipline and settings that were fitted to the capture.
    as_it_is: bool,
    scenario: std::sync::Arc<Scenario>,
}

/// Result of one simulated run.
#[derive(Clone, Debug)]
pub struct Simulated {
    pub discipline: String,
    /// Figures seen from where the capture was taken.
    pub figures: Figures,
    /// Figures seen before the queue; `None` unless the capture was taken behind the queue.
    pub before: Option<Figures>,
    /// Figures of the simulator itself, by name.
    pub own: Vec<(&'static str, f64)>,
    /// Second fit, to the simulation of the fitted present.
    pub again: Option<Again>,
}

impl Simulated {
    /// Packets that the queue dropped, over those that came to it; nothing if none came.
    pub fn dropped(&self) -> Option<f64> {
        self.own.iter().find(|(name, _)| *name == "loss").map(|(_, share)| *share).filter(|s| s.is_finite())
    }
}

/// Reads a scenario that was written.
pub fn runs(path: &Path) -> anyhow::Result<Vec<Run>> {
    let (plan, _) = RunPlan::load(path, &[])?;
    let at = plan.axes.iter().position(|a| a.name == "discipline");
    let run = |(n, job): (usize, &narrows_runner::Job)| Run {
        discipline: at.and_then(|at| job.coords.get(at).cloned()).unwrap_or_default(),
        as_it_is: n == 0,
        scenario: job.scenario.clone(),
    };
    Ok(plan.jobs.iter().enumerate().map(run).collect())
}

/// Runs all, as many at a time as there are cores; results are in the order of the runs.
pub fn all(runs: &[Run], fit: &Fit, over: f64, stop: &AtomicBool) -> anyhow::Result<Vec<Simulated>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..crate::cmd::sim::cores().min(runs.len()) {
            scope.spawn(|| {
                while let Some((at, run)) = next_of(&next, runs) {
                    let result = one(run, fit, over, stop);
                    done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

fn next_of<'a>(next: &AtomicUsize, runs: &'a [Run]) -> Option<(usize, &'a Run)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, runs.get(at)?))
}

fn one(run: &Run, fit: &Fit, over: f64, stop: &AtomicBool) -> anyhow::Result<Simulated> {
    let results = narrows_sim::run(&run.scenario, SEED, &mut |_| unless(stop))
        .map_err(|e| anyhow!("{}: {e}", run.discipline))?;
    let seen = |point: &str| -> anyhow::Result<Collector> {
        let mut packets = Vec::new();
        let both = |link: &str| link.strip_suffix(".back").unwrap_or(link) == point;
        for (link, file) in results.captures.iter().filter(|(link, _)| both(link)) {
            read(file, &mut packets).with_context(|| format!("{}: {link}", run.discipline))?;
        }
        packets.sort_by_key(|(at, _)| *at);
        Ok(collected(&packets))
    };
    let way = fit.link.way;
    let point = if fit.link.before { "before" } else { "thin" };
    let own = |name: &'static str| Some((name, *results.summary.get(name)?));
    let mut here = seen(point)?;
    Ok(Simulated {
        discipline: run.discipline.clone(),
        figures: here.figures(way, over),
        before: if fit.link.before { None } else { Some(seen("before")?.figures(way, over)) },
        own: OWN.into_iter().filter_map(own).collect(),
        again: if run.as_it_is { Again::of(&mut here, fit) } else { None },
    })
}

fn collected(packets: &[(Instant, Captured)]) -> Collector {
    let mut analyzer = Analyzer::new(AnalyzerLimits::default());
    let mut collector = Collector::default();
    for (at, packet) in packets {
        let number = analyzer.packet(*at, packet.frame, &packet.header);
        collector.packet(number, *at, &packet.header);
        analyzer.finished().for_each(|flow| collector.flow(&flow));
    }
    analyzer.finish();
    analyzer.finished().for_each(|flow| collector.flow(&flow));
    collector
}

pub fn read(file: &[u8], packets: &mut Vec<(Instant, Captured)>) -> anyhow::Result<()> {
    let mut reader = Reader::new(file)?;
    let from = packets.len();
    for packet in reader.by_ref() {
        let packet = packet?;
        packets.push((packet.at, packet));
    }
    let origin = reader.origin().and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0);
    for (at, _) in &mut packets[from..] {
        *at += Duration::from_nanos(origin);
    }
    Ok(())
}
