//! Experiments: a scenario file read into the scenario, its sweep, its seeds and its claims.

mod lab;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::{Table, Value};

use crate::load::{self, AROUND, Files, Target};
use crate::read::{Reader, shown};
use crate::sweep::{self, Axis, MOST_RUNS};
use crate::table::{self, filled, put, substitute};
use crate::{Claim, Error, Labels, Run, Scenario, Shaping, Thin, TrafficKind, Transport};

pub use lab::{BeforeBox, BeforeWay, UpWay};

/// A scenario file with everything that the file varies and claims.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Names the result files.
    pub name: String,
    /// Seeds, with one run for each at every point of the sweep.
    pub seeds: Vec<u64>,
    /// Claims about the results.
    pub claims: Vec<Claim>,
    /// Path of the file; `None` for an experiment given as text.
    pub file: Option<PathBuf>,
    /// Settings common to all points, with variables not yet filled in.
    table: Table,
    axes: Vec<Axis>,
}

/// Keys that tell a link's rate, each way: one that is set takes the place of the others.
const RATES: [[&str; 3]; 2] = [["rate", "rates", "trace"], ["back_rate", "back_rates", "back_trace"]];

/// Form of an experiment that the lab can run.
#[derive(Clone, Debug)]
pub struct ForLab {
    /// Resolved with the first discipline.
    pub scenario: Scenario,
    /// The link between box and users.
    pub thin: Thin,
    /// The box's way from the users; `None` if the file tells no rate of it.
    pub up: Option<UpWay>,
    /// Index into [`crate::Topology::hosts`] of the servers; traffic from others goes up.
    pub servers: usize,
    /// The link between servers and box; `None` if the box stands before the only link.
    pub before: Option<BeforeBox>,
    /// Disciplines of the box, one after another, as `taq` or, with a shaper, `taq at SHAPER`.
    pub disciplines: Vec<String>,
    /// A sentence for each setting the lab does not heed.
    pub ignored: Vec<String>,
}

impl Experiment {
    /// Reads a file; `sets` are `key=value` replacements, as `duration=30s`, `traffic.0.users=50` or `share=5000`. A
    /// key that is set is no longer swept.
    ///
    /// # Errors
    /// Names the file, the key, the value and what was expected.
    pub fn load(path: &Path, sets: &[String]) -> Result<Self, Error> {
        let here = |e: Error| e.in_file(Some(path));
        let text = std::fs::read_to_string(path).map_err(|e| {
            here(Error::new("", format!("cannot be read ({e}): expected a scenario in TOML")))
        })?;
        let mut experiment = Self::parse(&text, sets).map_err(here)?;
        experiment.file = Some(path.to_path_buf());
        Ok(experiment)
    }

    /// Reads an experiment from text, which names no other files; `sets` as in [`Experiment::load`].
    ///
    /// # Errors
    /// Names the key, the value and what was expected.
    pub fn parse(text: &str, sets: &[String]) -> Result<Self, Error> {
        let mut table: Table = toml::from_str(text).map_err(|e| syntax(text, &e))?;
        for set in sets {
            let named = |e: Error| Error { key: format!("--set {set}: {}", e.key), ..e };
            let Some((key, value)) = set.split_once('=') else {
                return Err(Error::new(format!("--set {set}"), "expected key=value, as duration=30s"));
            };
            let key = sweep::full(&table, key.trim());
            sweep::forget(&mut table, &key);
            if key == "disciplines" {
                table.remove("discipline");
            }
            put(&mut table, &key, table::value(value.trim())).map_err(named)?;
            table::forget_others(&mut table, &key, &RATES);
        }
        let axes = sweep::take(&mut table)?;
        let seeds = seeds(table.remove("seeds").as_ref())?;
        variables(&table)?;
        let claims = Claim::read(Reader::new(&table, "").tables("claim")?)?;
        table.remove("claim");
        let name = table.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let experiment = Self { name, seeds, claims, file: None, table, axes };
        let points = experiment.points();
        if points.saturating_mul(experiment.seeds.len() as u64) > MOST_RUNS {
            let problem = format!(
                "{points} points under {} seeds: expected at most {MOST_RUNS} runs",
                experiment.seeds.len()
            );
            return Err(Error::new("sweep", problem));
        }
        Ok(experiment)
    }

    /// Number of points of the sweep; one if nothing is swept.
    #[must_use]
    pub fn points(&self) -> u64 {
        self.axes.iter().fold(1, |n, axis| n.saturating_mul(axis.points.len() as u64))
    }

    /// The keys that are swept, by the names that coordinates give the keys.
    pub fn swept(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().flat_map(|a| &a.keys).map(|k| Axis::coordinate(k))
    }

    /// All runs, each resolved and checked: point by point, the last axis (by name) fastest, and under each point the
    /// seeds. Nothing has run when this fails.
    ///
    /// # Errors
    /// Names the file, the key, the value, what was expected, and the point.
    pub fn expand(&self) -> Result<Vec<Run>, Error> {
        let read = RefCell::default();
        let mut runs = Vec::new();
        for at in 0..self.points() {
            let resolve = |at| self.resolve(&self.places(at), Target::Simulator, &read);
            // An error that is the same at the first and the last point does not depend on the point.
            let (coords, scenario) = resolve(at).map_err(|(_, e)| match resolve(self.points() - 1) {
                Err((_, last)) if at == 0 && (&last.key, &last.problem) == (&e.key, &e.problem) => {
                    Error { point: String::new(), ..e }
                }
                _ => e,
            })?;
            let scenario = Arc::new(scenario);
            runs.extend(self.seeds.iter().map(|&seed| Run {
                coords: coords.clone(),
                seed,
                scenario: scenario.clone(),
            }));
        }
        Ok(runs)
    }

    /// Leaves out what only the lab can do; a sentence for each. To be called before [`Experiment::expand`] by whoever
    /// simulates.
    ///
    /// # Errors
    /// If no discipline is left.
    pub fn for_simulator(&mut self) -> Result<Vec<String>, Error> {
        let mut ignored = Vec::new();
        for axis in self.axes.iter_mut() {
            let Some(at) = axis.keys.iter().position(|key| is_discipline(key)) else { continue };
            axis.points.retain(|p| match p[at].0.as_str().filter(|d| d.starts_with("kernel:")) {
                Some(kernel) => {
                    ignored.push(format!("{kernel}: only the lab can run a kernel's discipline"));
                    false
                }
                None => true,
            });
            if axis.points.is_empty() {
                let problem =
                    "only the lab can run a kernel's discipline: expected at least one of ours".to_owned();
                return Err(Error::new("disciplines", problem).in_file(self.file.as_deref()));
            }
        }
        for key in ["backend", "sysctl", "window_scales", "server_pause"] {
            if self.table.contains_key(key) {
                ignored.push(format!("{key}: of use in the lab only"));
            }
        }
        Ok(ignored)
    }

    /// Converts the experiment to the form that the lab can run.
    ///
    /// # Errors
    /// If the essence cannot be had there: another topology than the thin link, other traffic than its users can make,
    /// anything swept but disciplines.
    pub fn for_lab(&self) -> Result<ForLab, Error> {
        self.lab().map_err(|e| e.in_file(self.file.as_deref()))
    }

    fn lab(&self) -> Result<ForLab, Error> {
        let may_vary =
            |key: &str| is_discipline(key) || (key.starts_with("link.") && key.ends_with(".shaper"));
        if let Some(key) = self.axes.iter().flat_map(|a| &a.keys).find(|key| !may_vary(key)) {
            let key = Axis::coordinate(key);
            let problem = format!("the lab runs one setting at a time: choose one, as --set {key}=...");
            return Err(Error::new(format!("sweep.{key}"), problem));
        }
        for key in ["topology", "edge"] {
            if self.table.contains_key(key) {
                let problem = "the lab has one thin link, or two in a row: expected rate, rtt and disciplines at the \
                               top level, or two [[link]]s";
                return Err(Error::new(key, problem));
            }
        }
        let read = RefCell::default();
        let (mut disciplines, mut first, mut wrong) = (Vec::new(), None, None);
        for at in 0..self.points() {
            match self.resolve(&self.places(at), Target::Lab, &read) {
                Ok((_, scenario)) => {
                    let (thin, before) = match scenario.thin.clone() {
                        Some(thin) => (thin, None),
                        None => lab::two_links(&scenario).map(|(thin, before)| (thin, Some(before)))?,
                    };
                    disciplines.push(column(&scenario, &thin));
                    if let Some((_, _, other)) = &first
                        && *other != before
                    {
                        let problem = "the lab runs one link before the box at a time: choose one with --set";
                        return Err(Error::new("sweep", problem));
                    }
                    first.get_or_insert((scenario, thin, before));
                }
                // Its column is left out of the table, with a reason, and the others are worth having.
                Err((coords, e)) if is_discipline(&e.key) => {
                    disciplines
                        .extend(coords.into_iter().find(|(key, _)| is_discipline(key)).map(|(_, d)| d));
                    wrong.get_or_insert(e);
                }
                Err((_, e)) => return Err(Error { point: String::new(), ..e }),
            }
        }
        let (scenario, thin, before) = match (first, wrong) {
            (Some(first), _) => first,
            (None, Some(e)) => return Err(e),
            // A grid without axes has one point, and no axis is empty.
            (None, None) => return Err(Error::new("disciplines", "expected at least one")),
        };
        if self.table.get("loss").is_some_and(Value::is_str) {
            let problem = "the lab loses packets one by one: expected a probability, as loss = 0.01";
            return Err(Error::new("loss", problem));
        }
        by_lab_s_users(&scenario)?;
        if before.is_none() {
            lab::upwards(&scenario)?;
        }
        let up = self.up(&scenario);
        let servers = if before.is_some() { scenario.traffic.first().map_or(0, |t| t.from) } else { 0 };
        Ok(ForLab { ignored: self.ignored_by_lab(), scenario, thin, up, servers, before, disciplines })
    }

    /// The short form's way from the users.
    fn up(&self, scenario: &Scenario) -> Option<UpWay> {
        let back =
            self.table.get("up_rate").and(scenario.thin.as_ref()).and(scenario.topology.links.get(1))?;
        let same = self.table.get("up_discipline").and_then(Value::as_str) == Some(load::topology::SAME);
        Some(UpWay { rate: back.rate, discipline: (!same).then(|| back.discipline.clone()) })
    }

    /// A sentence for each setting the lab does not heed.
    fn ignored_by_lab(&self) -> Vec<String> {
        let reasons = [
            ("tcp", "the kernel's TCP is as it is; congestion_control and sysctl change it"),
            ("quic_preset", "its QUIC is quinn"),
            ("quic_ecn", "quinn marks what its socket can mark"),
            ("dephase", "real hosts have a jitter of their own"),
            ("framing", "its emulated link has none"),
            ("mpu", "its emulated link pads nothing"),
            ("spread", "its users all have the same delay"),
            ("access_rate", "only the thin link limits"),
            ("probes", "but for qlog: it records what docs/how-to/lab.md lists"),
        ];
        let logs = Some(&["qlog"][..]);
        let only_logs = |key: &str| {
            let probes = self.table.get("probes").filter(|_| key == "probes").and_then(Value::as_table);
            probes.map(|probes| probes.keys().map(String::as_str).collect::<Vec<_>>()).as_deref() == logs
        };
        let mut said: Vec<String> = reasons
            .iter()
            .filter(|(key, _)| self.table.contains_key(*key) && !only_logs(key))
            .map(|(key, why)| format!("{key}: not heeded by the lab: {why}"))
            .collect();
        if self.table.get("rtt").and_then(Value::as_str).is_some_and(|t| t.contains("..")) {
            said.push(
                "rtt: the lab takes the middle of the range: its users all have the same delay".to_owned(),
            );
        }
        if !self.claims.is_empty() {
            said.push("claim: not judged by the lab: they are about the simulator's results".to_owned());
        }
        if self.table.contains_key("up_discipline") && !self.table.contains_key("up_rate") {
            said.push(
                "up_discipline: not heeded by the lab: without up_rate the way up is not shaped".to_owned(),
            );
        }
        let hosts = self.table.get("hosts").and_then(Value::as_array);
        for (i, hosts) in hosts.into_iter().flatten().filter_map(Value::as_table).enumerate() {
            for key in ["rate", "tcp"].into_iter().filter(|key| hosts.contains_key(*key)) {
                said.push(format!("hosts.{i}.{key}: not heeded by the lab: its hosts are the kernel's"));
            }
        }
        let entries = self.table.get("traffic").and_then(Value::as_array);
        for (i, t) in entries.into_iter().flatten().filter_map(Value::as_table).enumerate() {
            let calls = t.get("kind").and_then(Value::as_str) == Some("calls");
            for key in [
                "name",
                "from",
                "to",
                "opened_by",
                "request",
                "header",
                "dscp",
                "tcp",
                "opaque",
                "start",
                "stop",
            ] {
                // Where hosts have names, traffic between others is refused.
                let thin =
                    ["from", "to"].contains(&key) || (key == "name" && self.table.contains_key("up_rate"));
                let ends = thin || (key == "name" && self.table.contains_key("hosts"));
                if t.contains_key(key)
                    && !ends
                    && !(calls && ["name", "dscp", "start", "stop"].contains(&key))
                {
                    said.push(format!("traffic.{i}.{key}: not heeded by the lab: its users are all alike"));
                }
            }
        }
        said
    }

    /// The place on each axis of the point numbered `at`.
    fn places(&self, mut at: u64) -> Vec<usize> {
        let mut places = vec![0; self.axes.len()];
        for (place, axis) in places.iter_mut().zip(&self.axes).rev() {
            let len = axis.points.len() as u64;
            *place = (at % len) as usize;
            at /= len;
        }
        places
    }

    /// The coordinates and the scenario of a point, or the coordinates and what is wrong there.
    fn resolve(
        &self,
        places: &[usize],
        target: Target,
        read: &RefCell<BTreeMap<PathBuf, Arc<[crate::LogEntry]>>>,
    ) -> Result<(Labels, Scenario), (Labels, Error)> {
        let mut table = self.table.clone();
        let mut coords = Labels::new();
        let result = (|| {
            for (axis, &at) in self.axes.iter().zip(places) {
                axis.apply(at, &mut table)?;
            }
            for (axis, &at) in self.axes.iter().zip(places) {
                for (key, (value, label)) in axis.keys.iter().zip(&axis.points[at]) {
                    let text = match label {
                        Some(label) => label.clone(),
                        None => coordinate(key, value, &table)?,
                    };
                    coords.insert(Axis::coordinate(key).to_owned(), text);
                }
            }
            substitute(&mut table)?;
            for key in AROUND {
                table.remove(key);
            }
            let folder = self.file.as_deref().map(|f| f.parent().unwrap_or(Path::new("")));
            let scenario = load::scenario(&table, target, Files { folder, read })?;
            only_in_lab(&scenario, target)?;
            Ok(scenario)
        })();
        let point: Vec<String> = coords.iter().map(|(k, v)| format!("{k}={v}")).collect();
        match result {
            Ok(scenario) => Ok((coords, scenario)),
            Err(e) => {
                let e = Error { point: point.join(", "), ..e }.in_file(self.file.as_deref());
                Err((coords, e))
            }
        }
    }
}

/// Whether a key says what stands before a link.
fn is_discipline(key: &str) -> bool {
    key == "discipline" || (key.starts_with("link.") && key.ends_with(".discipline"))
}

/// Discipline of the box, and its shaper if it has one.
fn column(scenario: &Scenario, thin: &Thin) -> String {
    let own = scenario.topology.links.iter().find(|link| link.shaping != Shaping::None);
    match own {
        Some(link) => format!("{} at {}", thin.discipline, link.shaping),
        None => thin.discipline.to_string(),
    }
}

/// The text of a swept value: what it comes to, where it is an expression.
fn coordinate(key: &str, value: &Value, scope: &Table) -> Result<String, Error> {
    let value = match value.as_str() {
        Some(text) => filled(text, scope).map_err(|e| Error::value(key, shown(value), e))?,
        None => None,
    }
    .unwrap_or_else(|| value.clone());
    Ok(match value {
        Value::String(text) => text,
        other => other.to_string(),
    })
}

/// Refuses traffic that the lab's users cannot make.
fn by_lab_s_users(scenario: &Scenario) -> Result<(), Error> {
    for (i, t) in scenario.traffic.iter().enumerate() {
        let word = t.word();
        let at = |key: &str| format!("traffic.{i}.{key}");
        match &t.kind {
            TrafficKind::Objects { .. } | TrafficKind::Long { .. } | TrafficKind::Calls { .. } => {}
            TrafficKind::Files { arrivals: Some(_), .. } => {}
            TrafficKind::Files { .. } => {
                return Err(Error::new(at("arrivals"), "is missing: the lab's files come as they arrive"));
            }
            TrafficKind::Pages { .. } => {}
            _ => {
                let expected = "objects or long, files, pages, browser or calls: the lab's users do nothing else yet; \
                                'narrows sim' does";
                return Err(Error::value(&at("kind"), format!("'{word}'"), expected));
            }
        }
    }
    Ok(())
}

/// Refuses what only the other has: a kernel's disciplines, stacks other than TCP, the bound of SRPT.
fn only_in_lab(scenario: &Scenario, target: Target) -> Result<(), Error> {
    for (i, t) in scenario.traffic.iter().enumerate() {
        if let (Some((key, problem)), Target::Simulator) = (t.web.of_lab_only(), target) {
            return Err(Error::new(format!("traffic.{i}.{key}"), problem));
        }
        let refused = match target {
            Target::Simulator => t.not_simulated(scenario.mtu),
            _ => (t.transport == Transport::Tfrc).then_some("tcp, tls or quic: only the simulator has TFRC"),
        };
        if let Some(expected) = refused {
            let value = format!("'{}'", t.transport.word());
            return Err(Error::value(&format!("traffic.{i}.transport"), value, expected));
        }
    }
    for link in &scenario.topology.links {
        if let Some(expected) = target.refuses(&link.discipline) {
            return Err(Error::value("discipline", format!("'{}'", link.discipline), expected));
        }
    }
    Ok(())
}

/// `[1, 2, 3]` or `"1..10"`, both ends included.
fn seeds(value: Option<&Value>) -> Result<Vec<u64>, Error> {
    let Some(value) = value else { return Ok(vec![1]) };
    let wrong = || {
        Error::value(
            "seeds",
            shown(value),
            "a list of different whole numbers, as [1, 2, 3], or a range, as \"1..10\"",
        )
    };
    let seeds: Vec<u64> = match value {
        Value::Array(list) => {
            list.iter().map(|v| v.as_integer()?.try_into().ok()).collect::<Option<_>>().ok_or_else(wrong)?
        }
        Value::String(text) => {
            let (low, high) = text.split_once("..").ok_or_else(wrong)?;
            let (low, high) = (low.trim().parse::<u64>(), high.trim().parse::<u64>());
            let (Ok(low), Ok(high)) = (low, high) else { return Err(wrong()) };
            if high.saturating_sub(low) >= MOST_RUNS {
                return Err(wrong());
            }
            (low..=high).collect()
        }
        _ => return Err(wrong()),
    };
    let mut sorted = seeds.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if seeds.is_empty() || sorted.len() != seeds.len() { Err(wrong()) } else { Ok(seeds) }
}

/// `[vars]` holds numbers, quantities and expressions.
fn variables(table: &Table) -> Result<(), Error> {
    let Some(vars) = Reader::new(table, "").table("vars")? else { return Ok(()) };
    for (key, value) in vars {
        let fits = match value {
            Value::Integer(_) => true,
            Value::Float(x) => x.is_finite(),
            Value::String(text) => text.starts_with('=') || crate::quantity::number(text).is_some(),
            _ => false,
        };
        if !fits {
            let expected = "a number, a quantity as \"200ms\", or an expression as \"=rate/share\"";
            return Err(Error::value(&format!("vars.{key}"), shown(value), expected));
        }
    }
    Ok(())
}

/// Makes an error of a mistake in the TOML itself, with the line of the mistake.
fn syntax(text: &str, e: &toml::de::Error) -> Error {
    let line = e.span().map_or(1, |s| text.get(..s.start).unwrap_or(text).matches('\n').count() + 1);
    let message = e.message().lines().collect::<Vec<_>>().join(", ");
    Error::new("", format!("line {line} is no TOML: {message}"))
}

#[cfg(test)]
mod tests;
