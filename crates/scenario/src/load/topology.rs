//! Topologies: the thin-link short form, `[topology]` presets and `[[link]]`s, all made into one form.

mod link;
mod service;
mod shape;

use link::{Direction, Place, discipline, drop_times, drops, loss, need, pair};
pub(crate) use link::{plain_name, plenty};
use narrows_qdisc::Framing;
use narrows_units::{Duration, Rate};

use super::Files;
use super::tcp::Layer;
use crate::read::Reader;
use crate::{Delays, Error, Hosts, Link, LinkDiscipline, Loss, Shaping, Spacing, Thin, Topology};
use narrows_settings::nearest;

/// A topology whose groups of hosts may still be as large as the traffic needs.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    pub topology: Topology,
    /// The counts given, by group.
    pub counts: Vec<Option<u32>>,
    /// The `[hosts.tcp]` of each group.
    pub tcp: Vec<Option<Layer<'a>>>,
    pub thin: Option<Thin>,
}

/// Defaults of all links, from keys of the top level.
struct Common<'r, 'a> {
    overhead: u32,
    mpu: u32,
    framing: Framing,
    loss: Loss,
    discipline: Option<LinkDiscipline>,
    access: &'r Reader<'a>,
    files: Files<'r>,
}

/// Most links of a topology: routes are found by looking at all of them for each node.
const MOST_LINKS: usize = 10_000;
/// Default rate of an access link, in multiples of the thin link's rate.
const ACCESS: u64 = 100;

/// Largest value of the least size that a packet counts as, in bytes; CAKE has the same.
const MOST_MPU: u32 = 256;

/// Value of `up_discipline` for the same queue before the way back as before the thin link.
pub(crate) const SAME: &str = "same";

/// Settings of a link's way back.
const BACK: [&str; 7] =
    ["back_rate", "back_delay", "back_discipline", "back_loss", "back_trace", "back_rates", "back_shaper"];

const FRAMINGS: [(&str, Framing); 3] =
    [("none", Framing::None), ("atm", Framing::Atm), ("ptm", Framing::Ptm)];
const SPREADS: [(&str, Spacing); 2] = [("even", Spacing::Even), ("random", Spacing::Random)];

/// The topology of the scenario at `top`.
pub(crate) fn read<'a>(top: &Reader<'a>, files: Files<'_>) -> Result<Draft<'a>, Error> {
    let common = Common {
        overhead: top.or("overhead", 14, |r, k| r.count(k, 0, 200))?,
        mpu: top.or("mpu", 0, |r, k| r.count(k, 0, MOST_MPU))?,
        framing: top.or("framing", Framing::None, |r, k| r.word(k, &FRAMINGS))?,
        loss: top.or("loss", Loss::None, loss)?,
        discipline: discipline(top, "discipline")?,
        access: top,
        files,
    };
    let links = top.tables("link")?;
    let groups = top.tables("hosts")?;
    let preset = top.table("topology")?;
    if links.is_empty() && preset.is_none() {
        if let Some(first) = groups.first() {
            return Err(Error::new(
                first.path("name"),
                "hosts need [[link]]s to be at: the short form has its own",
            ));
        }
        return thin(top, &common);
    }
    // The short form's keys mean nothing here, and whoever sets them believes they do.
    for key in ["rate", "rtt", "spread", "up_rate", "up_discipline"] {
        if top.has(key) {
            let problem = "belongs to the thin-link short form: with [[link]] or [topology] set it there";
            return Err(Error::new(key, problem));
        }
    }
    let draft = match preset {
        Some(_) if !links.is_empty() => {
            return Err(Error::new("topology", "expected either [topology] or [[link]]s, not both"));
        }
        Some(table) => shape::read(Reader::new(table, "topology"), &common)?,
        None => long(links, groups, &common)?,
    };
    Ok(draft)
}

fn thin<'a>(top: &Reader<'a>, common: &Common<'_, 'a>) -> Result<Draft<'a>, Error> {
    let rate =
        top.must("rate", "the thin link's rate, as rate = \"600kbit\", or [[link]]s", |r, k| r.rate(k))?;
    let rtt = top.or("rtt", (Duration::ZERO, Duration::ZERO), |r, k| r.times(k))?;
    if rtt.1 > Duration::from_secs(10) {
        return Err(top.wrong("rtt", "at most 10s of propagation, both ways together"));
    }
    let access = access_rate(top, rate)?;
    let discipline = need(top, "discipline", common.discipline.clone())?;
    let (forth, back) = pair(
        Place { name: "thin", from: 0, to: 1 },
        &Direction::constant(rate, Duration::ZERO, discipline.clone(), common.loss),
        &Direction::constant(
            top.or("up_rate", access, |r, k| r.rate(k))?,
            Duration::ZERO,
            match top.text("up_discipline")? {
                Some(SAME) => discipline.clone(),
                Some(_) => need(top, "up_discipline", link::discipline(top, "up_discipline")?)?,
                None => plenty(),
            },
            common.loss,
        ),
        common,
    );
    let far = Delays {
        low: rtt.0 / 2,
        high: rtt.1 / 2,
        spread: top.or("spread", Spacing::Even, |r, k| r.word(k, &SPREADS))?,
    };
    let loss = if let Loss::Random(p) = common.loss { p } else { 0.0 };
    let mut draft = Draft::new(&["left", "right"]);
    draft.thin = Some(Thin { rate, rtt, overhead: common.overhead, loss, discipline });
    draft.link(forth, Some(back));
    draft.group("servers", 0, access, far);
    draft.group("clients", 1, access, Delays::default());
    Ok(draft)
}

/// Rate of access links: `access_rate`, or [`ACCESS`] times `rate`.
fn access_rate(top: &Reader<'_>, rate: Rate) -> Result<Rate, Error> {
    top.or("access_rate", Rate::from_bps(rate.as_bps().saturating_mul(ACCESS)), |r, k| r.rate(k))
}

fn long<'a>(
    links: Vec<Reader<'a>>,
    groups: Vec<Reader<'a>>,
    common: &Common<'_, 'a>,
) -> Result<Draft<'a>, Error> {
    if links.len() > MOST_LINKS {
        return Err(Error::new("link", format!("{} links: expected at most {MOST_LINKS}", links.len())));
    }
    let mut draft = Draft::new(&[]);
    for r in links {
        one_link(r, &mut draft, common)?;
    }
    if groups.is_empty() {
        return Err(Error::new(
            "hosts",
            "is missing: expected [[hosts]] with a name and the node they are at",
        ));
    }
    let fastest = draft.topology.links.iter().map(|l| l.rate).max().unwrap_or(Rate::from_bps(1));
    for r in groups {
        one_group(r, &mut draft, fastest, common)?;
    }
    dead_ends(&draft.topology)?;
    Ok(draft)
}

fn one_link<'a>(r: Reader<'a>, draft: &mut Draft<'a>, common: &Common<'_, 'a>) -> Result<(), Error> {
    let node = |key| r.must(key, "the name of a node", plain_name);
    let (from, to) = (node("from")?, node("to")?);
    if from == to {
        return Err(r.wrong("to", format!("another node than from = '{from}'")));
    }
    let name = r.or("name", format!("{from}-{to}"), plain_name)?;
    if draft.topology.links.iter().any(|l| l.name == name) {
        return Err(Error::value(&r.path("name"), format!("'{name}'"), "a name no other link has"));
    }
    let service = service::read(&r, ["trace", "rates", "rate"], common.files)?;
    let forth = Direction {
        rate: match service::rate(&service) {
            Some(rate) => rate,
            None => r.must("rate", "a rate, as \"600kbit\"", |r, k| r.rate(k))?,
        },
        service,
        shaping: r.or("shaper", Shaping::None, service::shaping)?,
        delay: r.or("delay", Duration::ZERO, |r, k| r.time(k))?,
        discipline: match discipline(&r, "discipline")? {
            Some(d) => d,
            None => need(&r, "discipline", common.discipline.clone())?,
        },
        loss: r.or("loss", common.loss, loss)?,
    };
    let oneway = r.or("oneway", false, |r, k| r.flag(k))?;
    let service = service::read(&r, ["back_trace", "back_rates", "back_rate"], common.files)?;
    let back = Direction {
        rate: match service::rate(&service) {
            Some(rate) => rate,
            None => r.or("back_rate", forth.rate, |r, k| r.rate(k))?,
        },
        service,
        shaping: r.or("back_shaper", Shaping::None, service::shaping)?,
        delay: r.or("back_delay", forth.delay, |r, k| r.time(k))?,
        discipline: discipline(&r, "back_discipline")?.unwrap_or_else(plenty),
        loss: r.or("back_loss", common.loss, loss)?,
    };
    if oneway && BACK.iter().any(|k| r.has(k)) {
        return Err(r.wrong("oneway", "false where the way back has settings"));
    }
    let (from, to) = (draft.node(&from), draft.node(&to));
    let (mut forth, mut back) = pair(Place { name: &name, from, to }, &forth, &back, common);
    forth.overhead = r.or("overhead", common.overhead, |r, k| r.count(k, 0, 200))?;
    forth.framing = r.or("framing", common.framing, |r, k| r.word(k, &FRAMINGS))?;
    forth.mpu = r.or("mpu", common.mpu, |r, k| r.count(k, 0, MOST_MPU))?;
    (back.overhead, back.mpu, back.framing) = (forth.overhead, forth.mpu, forth.framing);
    forth.drop = drops(&r)?;
    forth.drop_at = drop_times(&r)?;
    draft.link(forth, (!oneway).then_some(back));
    r.finish()
}

fn one_group<'a>(
    r: Reader<'a>,
    draft: &mut Draft<'a>,
    fastest: Rate,
    common: &Common<'_, 'a>,
) -> Result<(), Error> {
    let name = r.must("name", "a name, as \"servers\" or \"clients\"", plain_name)?;
    if draft.topology.hosts.iter().any(|h| h.name == name) {
        return Err(Error::value(&r.path("name"), format!("'{name}'"), "a name no other group of hosts has"));
    }
    let at = r.must("at", "the node they are at", |r, k| r.text(k))?;
    let Some(at) = draft.topology.nodes.iter().position(|n| n == at) else {
        return Err(r.wrong("at", known_node(&draft.topology, at)));
    };
    let (low, high) = r.or("delay", (Duration::ZERO, Duration::ZERO), |r, k| r.times(k))?;
    let spread = r.or("spread", Spacing::Even, |r, k| r.word(k, &SPREADS))?;
    let default = access_rate(common.access, fastest)?;
    let rate = r.or("rate", default, |r, k| r.rate(k))?;
    draft.group(&name, at, rate, Delays { low, high, spread });
    let last = draft.counts.len() - 1;
    draft.counts[last] = r.count("count", 1, super::MOST_FLOWS)?;
    draft.tcp[last] = r.table("tcp")?.map(|table| Layer { table, path: r.path("tcp") });
    r.finish()
}

impl<'a> Draft<'a> {
    fn new(nodes: &[&str]) -> Self {
        let nodes = nodes.iter().map(|n| (*n).to_owned()).collect();
        let topology = Topology { nodes, ..Topology::default() };
        Self { topology, counts: Vec::new(), tcp: Vec::new(), thin: None }
    }

    /// The index of a node; a link makes a node by naming the node.
    fn node(&mut self, name: &str) -> usize {
        let nodes = &mut self.topology.nodes;
        nodes.iter().position(|n| n == name).unwrap_or_else(|| {
            nodes.push(name.to_owned());
            nodes.len() - 1
        })
    }

    fn link(&mut self, mut forth: Link, back: Option<Link>) {
        let at = self.topology.links.len();
        forth.back = back.is_some().then_some(at + 1);
        self.topology.links.push(forth);
        self.topology.links.extend(back.map(|b| Link { back: Some(at), ..b }));
    }

    fn pair(&mut self, place: Place<'_>, forth: &Direction, back: &Direction, common: &Common<'_, '_>) {
        let (forth, back) = pair(place, forth, back, common);
        self.link(forth, Some(back));
    }

    fn group(&mut self, name: &str, at: usize, rate: Rate, delay: Delays) {
        self.topology.hosts.push(Hosts { name: name.to_owned(), at, count: 0, rate, delay });
        self.counts.push(None);
        self.tcp.push(None);
    }
}

fn known_node(t: &Topology, word: &str) -> String {
    let known = t.nodes.iter().map(String::as_str);
    match nearest(word, known.clone()) {
        Some(near) => format!("a node some link names; one names '{near}': which of the two is meant?"),
        None => format!("a node some link names: {}", known.collect::<Vec<_>>().join(", ")),
    }
}

/// A node with one neighbour and no hosts is most likely a slip of the hand.
fn dead_ends(t: &Topology) -> Result<(), Error> {
    for (n, name) in t.nodes.iter().enumerate() {
        let mut neighbours: Vec<usize> = t
            .links
            .iter()
            .filter_map(|l| if l.from == n { Some(l.to) } else { (l.to == n).then_some(l.from) })
            .collect();
        neighbours.sort_unstable();
        neighbours.dedup();
        if neighbours.len() < 2 && t.hosts.iter().all(|h| h.at != n) {
            let others = t.nodes.iter().filter(|o| *o != name).map(String::as_str);
            let near = nearest(name, others).map_or(String::new(), |o| format!("; did you mean '{o}'?"));
            let problem = format!("node '{name}' leads nowhere: expected hosts there or another link{near}");
            return Err(Error::new("link", problem));
        }
    }
    Ok(())
}
