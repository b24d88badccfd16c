//! Files of decisions in place of captures: what shapers that follow their link believed and did, and why.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use narrows_qdisc::follow::{DecisionReason, FollowPhase, LinkSide, LoggedDecision, read_decisions};
use narrows_units::date_of;
use serde_json::{Value, json};

use super::Args;
use crate::SUCCESS;
use crate::cmd::bits;

/// Most that is read of a file to see what it is.
const BEGIN: usize = 4096;
/// Time after which a record no longer tells the state: while packets pass there is one each ten seconds.
pub const LASTS_S: f64 = 15.0;
/// Times from which on they are of the calendar: the first of 2001. No simulation runs for so long.
const CALENDAR_S: f64 = 978_307_200.0;

/// Decisions of one link, or of one direction of a box's link, in the order of time.
#[derive(Debug)]
pub struct LinkDecisions {
    pub name: String,
    pub all: Vec<LoggedDecision>,
}

/// Decisions of some files.
#[derive(Debug)]
pub struct Decisions {
    /// Time of the first.
    pub from_s: f64,
    /// Time of the last.
    pub to_s: f64,
    pub links: Vec<LinkDecisions>,
}

/// The files, if they are of decisions.
///
/// # Errors
/// Some are, and some are not.
pub fn files(paths: &[PathBuf]) -> anyhow::Result<Option<Vec<PathBuf>>> {
    let (decisions, others): (Vec<_>, Vec<_>) = paths.iter().cloned().partition(|path| is_of_decisions(path));
    match (decisions.first(), others.first()) {
        (Some(one), Some(other)) => anyhow::bail!(
            "{} is a file of decisions and {} is not: diagnose them one after the other",
            one.display(),
            other.display()
        ),
        (Some(_), None) => Ok(Some(decisions)),
        (None, _) => Ok(None),
    }
}

/// Whether a file begins with the columns of decisions. What is no ordinary file is not touched: its bytes come once.
fn is_of_decisions(path: &Path) -> bool {
    if !path.is_file() {
        return false;
    }
    let mut begin = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BEGIN as u64).read_to_end(&mut begin));
    let first = begin.split(|byte| *byte == b'\n').next().and_then(|line| std::str::from_utf8(line).ok());
    let has = |name: &str| first.is_some_and(|line| line.trim_end().split(',').any(|column| column == name));
    read.is_ok() && has("time_s") && has("reason") && has("phase")
}

/// Tells what the files say.
pub fn tell(args: &Args, files: &[PathBuf]) -> anyhow::Result<u8> {
    let name = files.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
    for (flag, given) in
        [("--flow", args.flow.is_some()), ("--why", args.why.is_some()), ("--qlog", !args.qlog.is_empty())]
    {
        ensure!(!given, "{flag}: {name} has decisions of a shaper and no connections");
    }
    let decisions = Decisions::read(files)?;
    args.extras.draw(&name, &decisions)?;
    let text = if args.json {
        let links: Vec<Value> = decisions.links.iter().map(LinkDecisions::json).collect();
        serde_json::to_string_pretty(&json!({ "decisions": links }))? + "\n"
    } else {
        decisions.page(&name)
    };
    crate::say(&text).context("standard output")?;
    Ok(SUCCESS)
}

impl Decisions {
    fn read(files: &[PathBuf]) -> anyhow::Result<Self> {
        let mut all = Vec::new();
        for file in files {
            let name = || file.display().to_string();
            let text = std::fs::read_to_string(file).with_context(name)?;
            all.extend(read_decisions(&text).with_context(name)?);
        }
        ensure!(
            !all.is_empty(),
            "{}: nothing was decided yet: expected a line for each decision of auto",
            files[0].display()
        );
        Ok(Self::of(all))
    }

    fn of(mut all: Vec<LoggedDecision>) -> Self {
        all.sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
        // Runs of a sweep are told apart by the columns that differ.
        let first: BTreeMap<String, String> =
            all.first().map_or_else(BTreeMap::new, |d| d.others.iter().cloned().collect());
        let differs = |name: &str| {
            all.iter().flat_map(|d| &d.others).any(|(n, v)| n == name && first.get(n) != Some(v))
        };
        let apart: Vec<String> = first.keys().filter(|name| differs(name)).cloned().collect();
        let (from_s, to_s) = (all.first().map_or(0.0, |d| d.time_s), all.last().map_or(0.0, |d| d.time_s));
        let mut links: Vec<LinkDecisions> = Vec::new();
        for decision in all {
            let mut name = decision.link.clone();
            for (key, value) in decision.others.iter().filter(|(key, _)| apart.contains(key)) {
                let _ = write!(name, " {key}={value}");
            }
            match links.iter_mut().find(|link| link.name == name) {
                Some(link) => link.all.push(decision),
                None => links.push(LinkDecisions { name, all: vec![decision] }),
            }
        }
        links.sort_by(|a, b| a.name.cmp(&b.name));
        Self { from_s, to_s, links }
    }

    /// Date and time of the first; `None` in a simulation, whose times count since the run began.
    pub fn date(&self) -> Option<String> {
        (self.from_s >= CALENDAR_S).then(|| date(self.from_s))
    }

    /// The time that counts as zero.
    pub fn zero_s(&self) -> f64 {
        if self.date().is_some() { self.from_s } else { 0.0 }
    }

    fn page(&self, name: &str) -> String {
        let length = self.to_s - self.from_s;
        let begin = self.date().unwrap_or_else(|| format!("{} s", self.from_s));
        let mut text = format!("{name}: decisions of auto from {begin} on, for {length:.0} s\n");
        for link in &self.links {
            text += &link.page(self.zero_s());
        }
        text
    }
}

/// Date and time of the calendar, in UTC.
fn date(time_s: f64) -> String {
    let whole = time_s as i64;
    let (days, rest) = (whole / 86_400, whole % 86_400);
    let (year, month, day) = date_of(days);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", rest / 3600, rest / 60 % 60, rest % 60)
}

impl LinkDecisions {
    /// Decisions, each with the time in seconds for which it tells the state.
    pub fn states(&self) -> impl Iterator<Item = (&LoggedDecision, f64)> {
        let next = self.all.iter().skip(1).map(|d| d.time_s).chain(self.all.last().map(|d| d.time_s));
        self.all.iter().zip(next).map(|(d, next)| (d, (next - d.time_s).min(LASTS_S)))
    }

    /// Times in each phase, in seconds, the longest first.
    pub fn phases(&self) -> Vec<(FollowPhase, f64)> {
        let of = |phase| self.states().filter(|(d, _)| d.phase == phase).map(|(_, s)| s).sum::<f64>();
        let mut all: Vec<_> = FollowPhase::ALL.into_iter().map(|phase| (phase, of(phase))).collect();
        all.retain(|(_, seconds)| *seconds > 0.0);
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all
    }

    fn side_s(&self, side: LinkSide) -> f64 {
        self.states().filter(|(d, _)| d.side == Some(side)).map(|(_, s)| s).sum()
    }

    /// Quantiles by time of a quantity while the side was known.
    fn quantiles<const N: usize>(
        &self,
        of: impl Fn(&LoggedDecision) -> Option<f64>,
        at: [f64; N],
    ) -> Option<[f64; N]> {
        let mut all: Vec<(f64, f64)> = self.states().filter_map(|(d, s)| Some((of(d)?, s))).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let last = all.last()?.0;
        let whole: f64 = all.iter().map(|(_, s)| s).sum();
        Some(at.map(|q| {
            let mut sum = 0.0;
            let above = |(_, s): &&(f64, f64)| {
                sum += s;
                sum >= q * whole
            };
            all.iter().find(above).map_or(last, |(value, _)| *value)
        }))
    }

    /// Reasons with their numbers, in the order in which they came first.
    pub fn reasons(&self) -> Vec<(DecisionReason, Vec<f64>)> {
        let mut all: Vec<(DecisionReason, Vec<f64>)> = Vec::new();
        for (reason, at) in self.all.iter().filter_map(|d| Some((d.reason?, d.time_s))) {
            match all.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, times)) => times.push(at),
                None => all.push((reason, vec![at])),
            }
        }
        all
    }

    fn page(&self, zero_s: f64) -> String {
        let mut text = format!("\n{}\n", self.name);
        let sides = [(LinkSide::Before, "before the box"), (LinkSide::Behind, "behind the box")];
        let sides: Vec<String> = sides
            .into_iter()
            .filter_map(|(side, words)| Some((self.side_s(side), words)).filter(|(s, _)| *s > 0.0))
            .map(|(seconds, words)| format!("{words} for {seconds:.0} s"))
            .collect();
        let sides = if sides.is_empty() { "no side was found".to_owned() } else { sides.join(", ") };
        let _ = writeln!(text, "  slow link: {sides}");
        if let Some([low, middle, high]) =
            self.quantiles(|d| d.rate_bps.map(|bps| bps as f64), [0.05, 0.5, 0.95])
        {
            let _ = writeln!(
                text,
                "  rate: {} at the median (p5 {}, p95 {})",
                bits(middle),
                bits(low),
                bits(high)
            );
        }
        if let Some([middle, high]) = self.quantiles(|d| d.wait_s, [0.5, 0.95]) {
            let _ = writeln!(text, "  wait in its queue: {middle:.3} s at the median (p95 {high:.3} s)");
        }
        let phases = self.phases();
        if !phases.is_empty() {
            let words: Vec<_> =
                phases.iter().map(|(phase, seconds)| format!("{} {seconds:.0} s", phase.name())).collect();
            let _ = writeln!(text, "  state: {}", words.join(", "));
        }
        for (reason, times) in self.reasons() {
            let (first, last) = (times[0] - zero_s, times[times.len() - 1] - zero_s);
            let when = match times.len() {
                1 => format!("at {first:.1} s"),
                times => format!("{times} times, at {first:.1} to {last:.1} s"),
            };
            let _ = writeln!(text, "  {:<13} {when}: {reason}", reason.name());
        }
        text
    }

    fn json(&self) -> Value {
        let quantiles = |of: fn(&LoggedDecision) -> Option<f64>| {
            let all = self.quantiles(of, [0.05, 0.5, 0.95]);
            all.map(|[low, middle, high]| json!({ "p5": low, "p50": middle, "p95": high }))
        };
        let phases: BTreeMap<_, _> =
            self.phases().into_iter().map(|(phase, seconds)| (phase.name(), seconds)).collect();
        let reasons: Vec<Value> = self
            .all
            .iter()
            .filter_map(|d| {
                let reason = d.reason?;
                Some(json!({ "time_s": d.time_s, "reason": reason.name(), "why": reason.to_string() }))
            })
            .collect();
        json!({
            "link": self.name,
            "before_s": self.side_s(LinkSide::Before),
            "behind_s": self.side_s(LinkSide::Behind),
            "rate_bps": quantiles(|d| d.rate_bps.map(|bps| bps as f64)),
            "wait_s": quantiles(|d| d.wait_s),
            "phases_s": phases,
            "reasons": reasons,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time_s: f64, rate: u64, phase: FollowPhase) -> LoggedDecision {
        let (link, side) = ("down".to_owned(), Some(LinkSide::Before));
        LoggedDecision { time_s, link, side, phase, rate_bps: Some(rate), ..LoggedDecision::default() }
    }

    #[test]
    fn states_last_until_the_next_record_and_not_while_nothing_passes() {
        let (busy, idle) = (FollowPhase::Following, FollowPhase::Idle);
        let all = vec![at(0.0, 1, busy), at(10.0, 3, busy), at(20.0, 2, idle), at(500.0, 9, busy)];
        let decisions = Decisions::of(all);
        let [link] = &decisions.links[..] else { panic!("{decisions:?}") };
        assert_eq!(link.phases(), [(busy, 20.0), (idle, 15.0)]);
        // 1 for ten seconds, 2 for fifteen, 3 for ten.
        let of = |d: &LoggedDecision| d.rate_bps.map(|bps| bps as f64);
        assert_eq!(link.quantiles(of, [0.2, 0.5, 0.9]), Some([1.0, 2.0, 3.0]));
    }

    #[test]
    fn runs_of_a_sweep_are_told_apart_by_what_differs() {
        let of = |seed: &str| LoggedDecision {
            others: vec![("seed".into(), seed.into()), ("link".into(), "x".into())],
            ..at(1.0, 1, FollowPhase::Idle)
        };
        let decisions = Decisions::of(vec![of("1"), of("2"), of("1")]);
        let names: Vec<_> = decisions.links.iter().map(|link| (link.name.as_str(), link.all.len())).collect();
        assert_eq!(names, [("down seed=1", 2), ("down seed=2", 1)]);
    }

    #[test]
    fn a_time_of_the_calendar_by_hand() {
        // date -ud @1764359064
        assert_eq!(date(1_764_359_064.2), "2025-11-28 19:44:24 UTC");
    }
}
