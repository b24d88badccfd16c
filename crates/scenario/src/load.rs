//! Reader of scenarios: from a table in which nothing is left open to a checked [`Scenario`].

mod calls;
mod edge;
pub(crate) mod log;
pub(crate) mod tcp;
pub(crate) mod topology;
mod traffic;
mod web;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use narrows_units::Duration;
use sha2::{Digest as _, Sha256};
use toml::{Table, Value};

use self::tcp::Layer;
use crate::read::{Reader, shown};
use crate::{
    DeliveryTrace, Error, Group, LabSettings, LinkDiscipline, LogEntry, LogSource, Probes, Scenario, Series,
    Service, Topology, Traffic, TrafficKind, quantity,
};
use narrows_settings::one_of;

/// Most flows and connections at a time, and most hosts of a group: at 1.5 kB each, 6 GB.
pub(crate) const MOST_FLOWS: u32 = 4_000_000;

/// The files a scenario names: where they are looked for, and those read before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Files<'a> {
    /// The folder of the scenario file; none if the scenario came as text.
    pub folder: Option<&'a Path>,
    pub read: &'a RefCell<BTreeMap<PathBuf, Arc<[LogEntry]>>>,
}

impl Files<'_> {
    fn log(&self, path: &str) -> Result<Arc<[LogEntry]>, String> {
        let folder = self.folder.ok_or("a scenario given as text has no folder to look in")?;
        let path = folder.join(path);
        if let Some(entries) = self.read.borrow().get(&path) {
            return Ok(entries.clone());
        }
        let entries = log::read(&path)?;
        self.read.borrow_mut().insert(path, entries.clone());
        Ok(entries)
    }

    /// Reads a link's trace; an error is the end of a sentence about the trace.
    fn trace(&self, name: &str) -> Result<DeliveryTrace, String> {
        let folder = self.folder.ok_or("a scenario given as text has no folder to look in")?;
        let path = folder.join(name);
        let text =
            std::fs::read_to_string(&path).map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
        DeliveryTrace::parse(name, &text).map_err(|e| format!("{}: {e}", path.display()))
    }
}

/// Runner of the scenario. The lab leaves TCP to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Simulator,
    Lab,
}

impl Target {
    /// Description of a valid discipline, if only the other runner can run `discipline`; else `None`.
    pub(crate) const fn refuses(self, discipline: &LinkDiscipline) -> Option<&'static str> {
        match (self, discipline) {
            (Self::Simulator, LinkDiscipline::Kernel(_)) => {
                Some("one of ours: only the lab can run a kernel's discipline")
            }
            (Self::Lab, LinkDiscipline::Srpt) => {
                Some("another: only the simulator knows what a transfer has left")
            }
            (Self::Lab, LinkDiscipline::Own(_)) => {
                Some("another: only the simulator takes what a program brings")
            }
            _ => None,
        }
    }
}

/// The keys of a file that say how to vary a scenario, not what the scenario is.
pub(crate) const AROUND: [&str; 5] = ["seeds", "disciplines", "sweep", "vars", "claim"];

/// Reads and checks `table`.
pub(crate) fn scenario(table: &Table, target: Target, files: Files<'_>) -> Result<Scenario, Error> {
    let top = Reader::new(table, "");
    for key in AROUND {
        let _ = top.has(key);
    }
    let name = top.must("name", "a name for the result files", topology::plain_name)?;
    let about = top.or("about", "", |r, k| r.text(k))?.to_owned();
    let mtu = top.or("mtu", 1500, |r, k| r.count(k, 296, 9000))?;
    let times = Times::read(&top)?;
    let mut draft = topology::read(&top, files)?;
    draft.topology.edges = edge::read(top.tables("edge")?, &draft.topology)?;
    let lab = lab(&top)?;
    let quic = traffic::Quic {
        preset: top.or("quic_preset", narrows_quic::Preset::default(), |r, k| r.word(k, &QUIC_PRESETS))?,
        initial_window: lab.quic_initial_window,
        ecn: top.flag("quic_ecn")?,
    };
    let around = traffic::Around {
        draft: &draft,
        tcp: top.table("tcp")?.map(|table| Layer { table, path: "tcp".to_owned() }),
        congestion: top.text("congestion_control")?.filter(|_| target == Target::Simulator),
        mtu,
        quic,
        duration: times.duration,
        files,
    };
    let traffic = traffic::read(top.tables("traffic")?, &around)?;
    let probes = probes(&top, &draft.topology, &traffic)?;
    top.finish()?;
    let counts = std::mem::take(&mut draft.counts);
    populate(&mut draft.topology, &counts, &traffic)?;
    reach(&draft.topology, &traffic)?;
    let text = canonical(table)?;
    let hash = hash(table, &traffic, &draft.topology)?;
    let Times { duration, warmup, jitter, dephase } = times;
    Ok(Scenario {
        name,
        about,
        duration,
        warmup,
        jitter,
        dephase,
        mtu,
        topology: draft.topology,
        thin: draft.thin,
        traffic,
        probes,
        lab,
        text,
        hash,
    })
}

struct Times {
    duration: Duration,
    warmup: Duration,
    jitter: Duration,
    dephase: Duration,
}

impl Times {
    fn read(top: &Reader<'_>) -> Result<Self, Error> {
        let duration = top.or("duration", Duration::from_secs(120), |r, k| r.positive_time(k))?;
        let warmup = top.or("warmup", Duration::ZERO, |r, k| r.time(k))?;
        if warmup >= duration {
            let expected = format!("less than duration = '{}'", quantity::time_text(duration));
            return Err(top.wrong("warmup", expected));
        }
        let jitter = top.or("jitter", Duration::from_secs(2).min(duration / 2), |r, k| r.time(k))?;
        if jitter >= duration {
            let expected = format!("less than duration = '{}'", quantity::time_text(duration));
            return Err(top.wrong("jitter", expected));
        }
        let dephase = top.or("dephase", Duration::ZERO, |r, k| r.time(k))?;
        if dephase > Duration::from_secs(10) || dephase >= duration {
            let expected =
                "at most 10s and less than the duration: a few times what a packet takes on the thin link";
            return Err(top.wrong("dephase", expected));
        }
        Ok(Self { duration, warmup, jitter, dephase })
    }
}

/// Stacks whose settings QUIC may have.
const QUIC_PRESETS: [(&str, narrows_quic::Preset); 5] = [
    ("quinn", narrows_quic::Preset::Quinn),
    ("quic-go", narrows_quic::Preset::QuicGo),
    ("quiche", narrows_quic::Preset::Quiche),
    ("msquic", narrows_quic::Preset::MsQuic),
    ("rfc", narrows_quic::Preset::Rfc),
];

fn lab(top: &Reader<'_>) -> Result<LabSettings, Error> {
    let mut sysctl = BTreeMap::new();
    for (key, value) in top.table("sysctl")?.into_iter().flatten() {
        let plain = |s: &str| s.chars().all(|c| c.is_ascii_alphanumeric() || "._- ".contains(c));
        match value.as_str() {
            Some(v) if key.starts_with("net.") && plain(key) && plain(v) => {
                sysctl.insert(key.clone(), v.to_owned());
            }
            _ => {
                let expected = "a setting of the network, as \"net.ipv4.tcp_ecn\" = \"1\"";
                return Err(Error::value(&format!("sysctl.\"{key}\""), shown(value), expected));
            }
        }
    }
    let backends = [("nfqueue", "nfqueue"), ("packet", "packet")];
    Ok(LabSettings {
        backend: top.or("backend", "nfqueue", |r, k| r.word(k, &backends))?.to_owned(),
        congestion_control: top.or("congestion_control", "cubic", |r, k| r.text(k))?.to_owned(),
        quic_initial_window: top.count("quic_initial_window", 2, 1000)?,
        sysctl,
        window_scales: window_scales(top)?,
        server_pause: server_pause(top)?,
    })
}

/// Mean pause of the server's application; zero: the server answers at once.
fn server_pause(top: &Reader<'_>) -> Result<Duration, Error> {
    let pause = top.or("server_pause", Duration::ZERO, |r, k| r.time(k))?;
    if pause > Duration::from_secs(60) {
        return Err(top.wrong("server_pause", "at most 60s"));
    }
    Ok(pause)
}

/// Window scales of the users' TCP; RFC 7323, section 2.3, allows 0 to 14.
fn window_scales(top: &Reader<'_>) -> Result<Vec<u8>, Error> {
    let expected = "whole numbers from 0 to 14, as [7, 8, 9, 10]";
    let scale = |v: &Value| v.as_integer().and_then(|n| u8::try_from(n).ok()).filter(|n| *n <= 14);
    let all = top.list("window_scales", expected)?.unwrap_or_default();
    all.iter().map(|v| scale(v).ok_or_else(|| top.wrong("window_scales", expected))).collect()
}

/// Most connections that are logged as qlog: each may take 32 MB.
const MOST_QLOGS: u32 = 64;

fn probes(top: &Reader<'_>, topology: &Topology, traffic: &[Traffic]) -> Result<Probes, Error> {
    let empty = Table::new();
    let r = Reader::new(top.table("probes")?.unwrap_or(&empty), "probes");
    let words = [("queue", Series::Queue), ("cwnd", Series::Cwnd), ("throughput", Series::Throughput)];
    let mut series = Vec::new();
    for word in strings(&r, "series", "names of series, as [\"queue\", \"cwnd\"]")? {
        let known = words.iter().find(|(w, _)| *w == word).map(|(_, s)| *s);
        series.push(known.ok_or_else(|| r.wrong("series", one_of(word, words.iter().map(|(w, _)| *w))))?);
    }
    let mut capture = Vec::new();
    for name in strings(&r, "capture", "names of links, as [\"thin\", \"thin.back\"]")? {
        let at = topology.links.iter().position(|l| l.name == name);
        let links = topology.links.iter().map(|l| l.name.as_str());
        capture
            .push(at.ok_or_else(|| r.wrong("capture", format!("names of links: {}", one_of(name, links))))?);
    }
    let mut stalls = Vec::new();
    for text in strings(&r, "stalls", "times in quotes, as [\"20s\", \"60s\"]")? {
        stalls.push(quantity::time(text).map_err(|e| r.wrong("stalls", e))?);
    }
    let usual = Probes::default();
    if !r.has("stalls") {
        stalls = usual.stalls;
    }
    let probes = Probes {
        slice: r.or("slice", usual.slice, |r, k| r.positive_time(k))?,
        series: sorted(series),
        interval: r.or("interval", usual.interval, |r, k| r.positive_time(k))?,
        epochs: r.positive_time("epochs")?,
        bursts: r.or("bursts", usual.bursts, |r, k| r.flag(k))?,
        repairs: r.or("repairs", usual.repairs, |r, k| r.flag(k))?,
        decisions: r.or("decisions", usual.decisions, |r, k| r.flag(k))?,
        qlog: r.or("qlog", 0, |r, k| r.count(k, 0, MOST_QLOGS))? as usize,
        capture: sorted(capture),
        stalls: sorted(stalls),
        groups: groups(r.tables("groups")?, traffic)?,
    };
    r.finish()?;
    Ok(probes)
}

/// `[[probes.groups]]`.
fn groups(tables: Vec<Reader<'_>>, traffic: &[Traffic]) -> Result<Vec<Group>, Error> {
    let mut groups: Vec<Group> = Vec::new();
    for r in tables {
        let name = r.must("name", "a name for the figures, as \"mice\"", |r, k| r.text(k))?;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(r.wrong("name", "letters, digits and '_', because figures are called so"));
        }
        if groups.iter().any(|g| g.name == name) {
            return Err(r.wrong("name", "a name no other group has"));
        }
        let mut entries = Vec::new();
        for word in strings(&r, "traffic", "names of traffic, as [\"files\"]")? {
            let at = traffic.iter().position(|t| t.name == word);
            entries.push(at.ok_or_else(|| {
                let known = one_of(word, traffic.iter().map(|t| t.name.as_str()));
                r.wrong("traffic", format!("names of traffic: {known}"))
            })?);
        }
        if !r.has("traffic") {
            entries.extend(0..traffic.len());
        }
        let over = r.or("over", 0, |r, k| r.bytes(k, true))?;
        let up_to = r.or("up_to", u64::MAX, |r, k| r.bytes(k, false))?;
        if up_to <= over {
            return Err(r.wrong("up_to", format!("more than over = {over}")));
        }
        let shares = r.or("shares", false, |r, k| r.flag(k))?;
        if shares && (over, up_to) != (0, u64::MAX) {
            let key = if r.has("over") { "over" } else { "up_to" };
            return Err(r.wrong(key, "no such key with shares: users are compared by all they get"));
        }
        groups.push(Group { name: name.to_owned(), traffic: sorted(entries), over, up_to, shares });
        r.finish()?;
    }
    Ok(groups)
}

fn strings<'a>(r: &Reader<'a>, key: &'static str, expected: &str) -> Result<Vec<&'a str>, Error> {
    let list = r.list(key, expected)?.unwrap_or_default();
    list.iter().map(|v| v.as_str().ok_or_else(|| r.wrong(key, expected))).collect()
}

fn sorted<T: Ord>(mut v: Vec<T>) -> Vec<T> {
    v.sort_unstable();
    v.dedup();
    v
}

/// Gives each group as many hosts as its traffic has users, unless the file says how many.
fn populate(topology: &mut Topology, counts: &[Option<u32>], traffic: &[Traffic]) -> Result<(), Error> {
    for (g, group) in topology.hosts.iter_mut().enumerate() {
        let users = traffic.iter().filter(|t| t.from == g || t.to == g);
        let needed = users.map(|t| t.first.saturating_add(t.users())).max().unwrap_or(1);
        group.count = counts[g].unwrap_or(needed);
        if group.count > MOST_FLOWS {
            let problem = format!("{needed} users on '{}': expected at most {MOST_FLOWS}", group.name);
            return Err(Error::new("traffic", problem));
        }
    }
    Ok(())
}

/// Whoever sends must reach whoever receives, and acknowledgments must find back.
fn reach(topology: &Topology, traffic: &[Traffic]) -> Result<(), Error> {
    for (i, t) in traffic.iter().enumerate() {
        let (from, to) = (&topology.hosts[t.from], &topology.hosts[t.to]);
        for (a, b, needed) in [(from, to, true), (to, from, !matches!(t.kind, TrafficKind::Udp { .. }))] {
            if needed && topology.route(a.at, b.at).is_none() {
                let problem = format!(
                    "'{}' at node '{}' cannot reach '{}' at node '{}': expected a [[link]], or several in a row, that \
                     way, without oneway = true",
                    a.name, topology.nodes[a.at], b.name, topology.nodes[b.at]
                );
                return Err(Error::new(format!("traffic.{i}"), problem));
            }
        }
    }
    Ok(())
}

/// The text of a table, the same for the same settings: keys in order, one way to write each kind of value.
pub(crate) fn canonical(table: &Table) -> Result<String, Error> {
    toml::to_string(&in_order(table)).map_err(|e| Error::new("", format!("cannot be written as TOML: {e}")))
}

/// Keys sorted, whatever the order the parser keeps.
fn in_order(table: &Table) -> Table {
    fn value(v: &Value) -> Value {
        match v {
            Value::Table(t) => Value::Table(in_order(t)),
            Value::Array(list) => Value::Array(list.iter().map(value).collect()),
            other => other.clone(),
        }
    }
    let mut keys: Vec<&String> = table.keys().collect();
    keys.sort_unstable();
    keys.into_iter().map(|k| (k.clone(), value(&table[k]))).collect()
}

/// SHA-256 of all that decides a run but the seed: not the name or what it is about, but what is in files.
fn hash(table: &Table, traffic: &[Traffic], topology: &Topology) -> Result<String, Error> {
    let mut table = table.clone();
    for key in ["name", "about"] {
        table.remove(key);
    }
    let mut hash = Sha256::new();
    hash.update(canonical(&table)?);
    for t in traffic {
        if let TrafficKind::Log { source: LogSource::File { entries, .. }, .. } = &t.kind {
            for e in entries.iter() {
                hash.update(e.at.as_nanos().to_le_bytes());
                hash.update(e.client.to_le_bytes());
                hash.update(e.bytes.to_le_bytes());
            }
        }
    }
    for link in &topology.links {
        if let Service::Trace(trace) = &link.service {
            trace.opportunities().iter().for_each(|at| hash.update(at.to_le_bytes()));
        }
    }
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}
