//! Comparison of queues for a captured load: workload and link are fitted, and simulated as they are; where that comes
//! out as it was measured, other disciplines are tried. All are diagnosed alike.

use core::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context as _, bail, ensure};
use narrows_diagnose::FlowReport;
use narrows_qdisc::Spec;
use narrows_units::{Instant, Rate};
use narrows_wire::Header;
use serde_json::Value;

mod agree;
mod collect;
#[cfg(feature = "explore")]
mod explore;
mod follow;
mod link;
mod measure;
mod queue;
mod run;
mod scenario;
mod table;
#[cfg(test)]
mod tests;
mod virtual_queue;
mod workload;

use agree::Agreement;
use collect::{Collector, MOST_OBJECTS};
use link::Link;
use measure::Figures;
use queue::BufferSize;
use run::Simulated;
use workload::Workload;

/// The shortest capture that tells of a workload, seconds.
const SHORTEST_S: f64 = 10.0;
/// Loss above which a queue was full at times.
const LOSSY: f64 = 0.001;
/// Packets a queue holds where nothing tells how many.
const USUAL_QUEUE: u32 = 50;

/// Options.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(id = "what_if_options")]
pub struct Args {
    /// Discipline to simulate with the users and the link fitted to the capture, if the fit holds; repeatable
    #[arg(long, value_name = "DISCIPLINE", conflicts_with = "flow", group = "fit")]
    pub what_if: Vec<Spec>,
    /// Open a page on which one explores the users and the link fitted to the capture, as narrows explore
    #[cfg(feature = "explore")]
    #[arg(long, conflicts_with_all = ["flow", "json"], group = "fit")]
    pub explore: bool,
    /// Rate of the thin link, as 2mbit, instead of the one it sustained in the capture
    #[arg(long, value_name = "RATE", requires = "fit")]
    pub rate: Option<Rate>,
    /// Size of the thin link's queue, in packets (50) or time (200ms), instead of the one that round trips tell
    #[arg(long, value_name = "SIZE", requires = "fit")]
    pub buffer: Option<BufferSize>,
    /// Write the fitted scenario into this file, with its access logs beside it
    #[arg(long, value_name = "FILE", requires = "what_if")]
    pub what_if_scenario: Option<PathBuf>,
}

impl Args {
    /// Whether the fit is to be explored on a page.
    pub const fn explores(&self) -> bool {
        #[cfg(feature = "explore")]
        return self.explore;
        #[cfg(not(feature = "explore"))]
        return false;
    }
}

/// Link, queue and users as fitted to a capture.
pub struct Fit {
    pub link: Link,
    pub workload: Workload,
    pub rate_bps: f64,
    /// Source of the rate.
    pub rate_from: Source,
    pub queue_packets: u32,
    pub queue_from: Source,
    /// Preset of TCP, and how losses are repaired if that is another way than its own.
    pub stack: &'static str,
    pub recovery: Option<&'static str>,
    /// The share of bytes that are not TCP.
    pub other: f64,
    pub left_out: u64,
}

/// Source of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Given,
    Observed,
    Guessed,
}

impl Source {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Observed => "observed",
            Self::Guessed => "guessed",
        }
    }
}

/// Comparison of disciplines for the users and the link of a capture.
pub struct WhatIf {
    specs: Vec<Spec>,
    rate: Option<Rate>,
    buffer: Option<BufferSize>,
    scenario: Option<PathBuf>,
    collector: Collector,
}

/// Answer to `--what-if`, as a table and as JSON.
pub struct Answer {
    pub text: String,
    pub json: Value,
}

impl WhatIf {
    /// Makes the comparison; `None` if no flag asks for a comparison.
    pub fn new(args: &Args) -> anyhow::Result<Option<Self>> {
        if args.what_if.is_empty() && !args.explores() {
            return Ok(None);
        }
        if let Some(file) = &args.what_if_scenario {
            ensure!(
                file.extension().is_some_and(|e| e == "toml"),
                "--what-if-scenario {}: expected a name in .toml",
                file.display()
            );
        }
        ensure!(args.rate.is_none_or(|r| r.as_bps() > 0), "--rate 0: expected more than nothing");
        Ok(Some(Self {
            specs: args.what_if.clone(),
            rate: args.rate,
            buffer: args.buffer,
            scenario: args.what_if_scenario.clone(),
            collector: Collector::default(),
        }))
    }

    pub fn packet(&mut self, number: Option<u64>, at: Instant, header: &Header) {
        self.collector.packet(number, at, header);
    }

    pub fn flow(&mut self, flow: &FlowReport) {
        self.collector.flow(flow);
    }

    /// Fits, and gives what the page of `narrows explore` begins with.
    #[cfg(feature = "explore")]
    pub fn settings(mut self, name: &str) -> anyhow::Result<narrows_explore::Settings> {
        let fit = self.fit().with_context(|| format!("--explore: {name}"))?;
        Ok(explore::settings(&fit))
    }

    /// Fits, simulates and compares, until `stop`. A stall is long above `over` seconds.
    pub fn finish(mut self, name: &str, over: f64, stop: &AtomicBool) -> anyhow::Result<Answer> {
        let fit = self.fit().with_context(|| format!("--what-if: {name}"))?;
        let mut disciplines = vec![format!("fifo:{}", fit.queue_packets)];
        for spec in self.specs.iter().map(ToString::to_string) {
            if !disciplines.contains(&spec) {
                disciplines.push(spec);
            }
        }
        let captured = self.collector.figures(fit.link.way, over);
        // The fit replaces the collected packets from here on: their memory is freed.
        self.collector = Collector::default();
        let asked = Asked { fit: &fit, captured: &captured, disciplines: &disciplines, name, over, stop };
        let (agreement, simulated) = match &self.scenario {
            Some(path) => {
                if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
                    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
                }
                asked.simulate(path)?
            }
            None => {
                let folder = scratch()?;
                let done = asked.simulate(&folder.join("what-if.toml"));
                let _ = std::fs::remove_dir_all(&folder);
                done?
            }
        };
        let answer = table::Told {
            fit: &fit,
            captured: &captured,
            agreement: &agreement,
            simulated: &simulated,
            over,
        };
        Ok(answer.answer(self.scenario.as_deref()))
    }

    /// Whether a workload can be fitted to what there is.
    fn check(&self) -> anyhow::Result<()> {
        let c = &self.collector;
        let seconds = c.seconds();
        ensure!(
            seconds >= SHORTEST_S,
            "{seconds:.1} s are too short to fit a workload to: expected {SHORTEST_S} s or more"
        );
        let one_way = c.meters.iter().any(|m| m.passed.is_empty());
        ensure!(
            !one_way,
            "only one direction was captured: who asked for what, and when it arrived, cannot be told"
        );
        Ok(())
    }

    fn fit(&mut self) -> anyhow::Result<Fit> {
        let Some(link) = Link::of(&self.collector) else {
            bail!("no flow with data: there is no workload to fit")
        };
        self.check()?;
        let (rate_bps, rate_from) = match self.rate {
            Some(rate) => (rate.as_bps() as f64, Source::Given),
            None if link.is_guess() => (link.rate_bps, Source::Guessed),
            None => (link.rate_bps, Source::Observed),
        };
        ensure!(rate_bps >= 1000.0, "no rate can be told: give it with --rate");
        let certain = rate_from == Source::Given;
        let explained =
            link.before.then(|| virtual_queue::fit(&self.collector, link.way, rate_bps, certain)).flatten();
        if let Some(queue) = &explained {
            self.collector.explain(1 - link.way, &queue.bare);
        }
        let c = &self.collector;
        let Some(workload) = Workload::of(c) else {
            bail!("no round trip can be told: no handshake was seen, and no acknowledgment that tells of one")
        };
        let (queue_packets, queue_from) = match (self.buffer, &explained, link.queue_s) {
            (Some(size), ..) => (size.packets(rate_bps, link.mean), Source::Given),
            (None, Some(queue), _) if link.loss(c) > LOSSY => (queue.packets, Source::Observed),
            (None, None, Some(s)) if link.loss(c) > LOSSY => {
                (queue::packets(s, rate_bps, link.mean), Source::Observed)
            }
            // Nothing was lost: it holds more than ever waited, nobody knows how much more.
            (None, _, s) => {
                let seen = s.map_or(0, |s| queue::packets(s, rate_bps, link.mean).saturating_mul(2));
                (seen.max(USUAL_QUEUE), Source::Guessed)
            }
        };
        let timestamps = c.timestamps[0] * 2 > c.timestamps[1];
        let all: u64 = c.meters.iter().flat_map(|m| &m.passed).sum();
        Ok(Fit {
            rate_bps: match (&explained, rate_from) {
                (Some(queue), Source::Observed) => queue.rate_bps,
                _ => rate_bps,
            },
            rate_from,
            queue_packets,
            queue_from,
            stack: if timestamps { "linux" } else { "rfc" },
            // Linux without SACK is no preset, and rare.
            recovery: (!timestamps && c.lacks_sack()).then_some("newreno"),
            other: c.other_bytes as f64 / (all + c.other_bytes).max(1) as f64,
            left_out: c.left_out,
            link,
            workload,
        })
    }
}

impl Fit {
    /// Doubts about the fit, a sentence each.
    fn remarks(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.rate_from == Source::Guessed {
            all.push("the link was seldom full: its rate is guessed; give it with --rate".to_owned());
        }
        if !self.link.before {
            all.push(
                "the capture is behind the queue: round trips, and when something was asked for, hold a part of it; \
                 before it is better"
                    .to_owned(),
            );
        }
        if self.queue_from == Source::Guessed {
            all.push("what the queue holds is guessed; give it with --buffer".to_owned());
        } else if !self.link.before && self.queue_from == Source::Observed {
            all.push(
                "behind a queue what the queue holds is told roughly; give it with --buffer if you know it"
                    .to_owned(),
            );
        }
        if self.other > 0.05 {
            all.push(format!("{:.0} % of the bytes are not TCP, and are left out", self.other * 100.0));
        }
        if self.left_out > 0 {
            all.push(format!("{} connections beyond {MOST_OBJECTS} transfers are left out", self.left_out));
        }
        all
    }
}

/// A new folder for what nobody asked for.
fn scratch() -> anyhow::Result<PathBuf> {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let (process, made) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    let folder = std::env::temp_dir().join(format!("narrows-what-if-{process}-{made}"));
    // A folder that is there already is somebody else's.
    std::fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}

/// Simulations that are asked for.
struct Asked<'a> {
    fit: &'a Fit,
    captured: &'a Figures,
    /// Disciplines to simulate, the fitted present first.
    disciplines: &'a [String],
    /// Name of the capture.
    name: &'a str,
    over: f64,
    stop: &'a AtomicBool,
}

impl Asked<'_> {
    /// The present, and the others only if it comes out as it was measured. The scenario has all of them.
    fn simulate(&self, path: &Path) -> anyhow::Result<(Agreement, Vec<Simulated>)> {
        scenario::write(self.fit, self.disciplines, path, self.name)?;
        let runs = run::runs(path)?;
        let (present, others) = runs.split_at(runs.len().min(1));
        let mut simulated = run::all(present, self.fit, self.over, self.stop)?;
        let Some(as_it_is) = simulated.first() else { bail!("nothing was simulated") };
        let again = as_it_is.again.as_ref();
        let agreement = Agreement::of(self.fit, self.captured, &as_it_is.figures, again);
        if agreement.is_trusted() {
            simulated.extend(run::all(others, self.fit, self.over, self.stop)?);
        }
        Ok((agreement, simulated))
    }
}

/// Whether to go on.
fn unless(stop: &AtomicBool) -> ControlFlow<()> {
    if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}
