//! Networks that the lab can build beside the thin link: servers, a link whose queue stands before the box, the box
//! with its own link, users.

use narrows_qdisc::{Framing, Limit, Spec};
use narrows_units::{Duration, Rate};

use crate::{
    Delays, Error, Hosts, Link, LinkDiscipline, Loss, Scenario, Service, Shaping, Thin, Topology,
    TrafficKind, Transport,
};

/// A link before the box, as the lab emulates it.
#[derive(Clone, Debug, PartialEq)]
pub struct BeforeBox {
    /// Name of the link.
    pub name: String,
    /// Way towards the users.
    pub down: BeforeWay,
    /// Way towards the servers.
    pub up: BeforeWay,
    /// Bytes of link layer per packet.
    pub overhead: u32,
    /// Propagation of the servers' own links, one way.
    pub servers: Delays,
    /// Number of servers: user `u` is served by server `u % count`.
    pub count: u32,
}

/// One way of a link before the box.
#[derive(Clone, Debug, PartialEq)]
pub struct BeforeWay {
    /// Rate: of one that changes the mean of its trace, or the first of its rates.
    pub rate: Rate,
    /// Times at which the link sends.
    pub service: Service,
    /// Bound of the drop-tail queue in front of the link.
    pub queue: Limit,
    /// Propagation from the end of the link to the users, or to the servers' own links.
    pub delay: Duration,
    /// Probability that a packet is lost after it has been sent.
    pub loss: f64,
}

/// The box's way from the users.
#[derive(Clone, Debug, PartialEq)]
pub struct UpWay {
    /// Rate to which the box holds the way.
    pub rate: Rate,
    /// Discipline before the way; `None` for that of the way to the users.
    pub discipline: Option<LinkDiscipline>,
}

/// A link of a file.
#[derive(Clone, Copy)]
struct Named<'a> {
    /// Place of its table among the file's links, from 0.
    at: usize,
    link: &'a Link,
}

impl Named<'_> {
    /// Whole name of one of its keys.
    fn key(self, name: &str) -> String {
        format!("link.{}.{name}", self.at)
    }
}

/// The two links of a network.
struct Row<'a> {
    /// Link before the box.
    before: Named<'a>,
    /// The box's own link.
    own: Named<'a>,
}

/// The box's link and the link before it.
pub(super) fn two_links(scenario: &Scenario) -> Result<(Thin, BeforeBox), Error> {
    let topology = &scenario.topology;
    let (servers, users) = ends(scenario)?;
    let row = row(topology, servers, users)?;
    let link = row.before.link;
    if link.shaping != Shaping::None {
        return Err(Error::new(
            row.before.key("shaper"),
            "the lab shapes in the box alone: expected it at the box's own link",
        ));
    }
    let back = opposite(topology, row.before)?;
    let own_back = opposite(topology, row.own)?;
    own_link(row.own, own_back)?;
    let near = topology.hosts[users].delay;
    if near.low != near.high {
        let problem = "the lab's users are all as near: expected one time; the servers may have a range";
        return Err(Error::new(format!("hosts.{users}.delay"), problem));
    }
    let way = |link: &Link, own: &Link, prefix: &str| {
        let named = |name: &str| row.before.key(&format!("{prefix}{name}"));
        plain(link, &named)?;
        let LinkDiscipline::Ours(Spec::Fifo(queue)) = link.discipline else {
            let expected = "fifo:300 or so: the lab's link before the box has one queue, drop-tail";
            return Err(Error::value(&named("discipline"), format!("'{}'", link.discipline), expected));
        };
        let loss = match link.loss {
            Loss::None => 0.0,
            Loss::Random(p) => p,
            Loss::GilbertElliott { .. } => {
                let problem = "the lab loses packets one by one: expected a probability, as loss = 0.01";
                return Err(Error::new(named("loss"), problem));
            }
        };
        let (rate, service) = (link.rate, link.service.clone());
        Ok(BeforeWay { rate, service, queue, delay: link.delay + own.delay + near.low, loss })
    };
    let (down, up) = (way(link, row.own.link, "")?, way(back, own_back, "back_")?);
    let far = topology.hosts[servers].delay;
    let both = down.delay + up.delay;
    let thin = Thin {
        rate: row.own.link.rate,
        rtt: (both + far.low * 2, both + far.high * 2),
        overhead: row.own.link.overhead,
        loss: 0.0,
        discipline: row.own.link.discipline.clone(),
    };
    let count = topology.hosts[servers].count.max(1);
    let name = link.name.clone();
    Ok((thin, BeforeBox { name, down, up, overhead: link.overhead, servers: far, count }))
}

/// The groups of hosts that send data and that receive them.
fn ends(scenario: &Scenario) -> Result<(usize, usize), Error> {
    let topology = &scenario.topology;
    if let Some(third) = topology.hosts.get(2) {
        let problem = format!(
            "'{}': the lab has servers before the first link and users behind the second, and no hosts between",
            third.name
        );
        return Err(Error::new("hosts.2", problem));
    }
    let Some(first) = scenario.traffic.first() else {
        return Err(Error::new("traffic", "is missing: expected [[traffic]]"));
    };
    let (servers, users) = (first.from, first.to);
    if servers == users {
        let Hosts { name, .. } = &topology.hosts[servers];
        return Err(Error::value("traffic.0.to", format!("'{name}'"), "other hosts than those that send"));
    }
    for (i, t) in scenario.traffic.iter().enumerate() {
        if (t.from, t.to) != (servers, users) {
            let problem = "the lab's data go from the servers to the users";
            return Err(Error::new(format!("traffic.{i}.from"), problem));
        }
    }
    Ok((servers, users))
}

/// The two links in a row from the servers to the users.
fn row(topology: &Topology, servers: usize, users: usize) -> Result<Row<'_>, Error> {
    let mut forth = Vec::new();
    let mut at = 0;
    while let Some(link) = topology.links.get(at) {
        forth.push(Named { at: forth.len(), link });
        at += if link.back == Some(at + 1) { 2 } else { 1 };
    }
    let wrong = || {
        let problem = "the lab has two links in a row, or the thin link alone: expected one from the servers' node to \
                       the box, and the box's own from there to the users' node";
        Error::new("link", problem)
    };
    let (from, to) = (topology.hosts[servers].at, topology.hosts[users].at);
    let [a, b] = forth[..] else { return Err(wrong()) };
    let (before, own) = if a.link.from == from { (a, b) } else { (b, a) };
    let joined = before.link.from == from && before.link.to == own.link.from && own.link.to == to;
    if joined { Ok(Row { before, own }) } else { Err(wrong()) }
}

/// The way back of a link.
fn opposite<'a>(topology: &'a Topology, forth: Named<'_>) -> Result<&'a Link, Error> {
    let back = forth.link.back.map(|back| &topology.links[back]);
    back.ok_or_else(|| Error::new(forth.key("oneway"), "the lab's links have a way back: expected false"))
}

/// Refuses what the box's own link cannot have.
fn own_link(own: Named<'_>, back: &Link) -> Result<(), Error> {
    let link = own.link;
    let key = |name: &str| own.key(name);
    plain(link, &key)?;
    if link.service != Service::Constant {
        let problem = "only the link before the box changes its rate in the lab: expected rate";
        let name = if matches!(link.service, Service::Trace(_)) { "trace" } else { "rates" };
        return Err(Error::new(key(name), problem));
    }
    if link.loss != Loss::None || back.loss != Loss::None {
        return Err(Error::new(
            key("loss"),
            "only the link before the box loses packets in the lab: expected 0",
        ));
    }
    let unlike = |name: &str| {
        let problem =
            "the lab shapes the way to the users alone where a link lies before the box: leave it out";
        Err(Error::new(key(name), problem))
    };
    match back {
        Link { shaping, .. } if *shaping != Shaping::None => unlike("back_shaper"),
        Link { service, .. } if *service != Service::Constant => unlike("back_rates"),
        Link { rate, .. } if *rate != link.rate => unlike("back_rate"),
        Link { discipline, .. } if *discipline != crate::load::topology::plenty() => {
            unlike("back_discipline")
        }
        _ => Ok(()),
    }
}

/// Refuses what no link of the lab has; `key` gives a key of the link its whole name.
fn plain(link: &Link, key: &dyn Fn(&str) -> String) -> Result<(), Error> {
    let none = "the lab's links have none: leave it out";
    let found = [
        (link.framing != Framing::None, "framing"),
        (link.mpu > 0, "mpu"),
        (!link.drop.is_empty(), "drop"),
        (!link.drop_at.is_empty(), "drop_at"),
    ];
    match found.iter().find(|(has, _)| *has) {
        Some((_, name)) => Err(Error::new(key(name), none)),
        None => Ok(()),
    }
}

/// Refuses what users of the lab cannot send over the thin link.
pub(super) fn upwards(scenario: &Scenario) -> Result<(), Error> {
    // The short form's groups: servers, then clients.
    for (i, t) in scenario.traffic.iter().enumerate().filter(|(_, t)| t.from != 0 || t.to != 1) {
        let upload = matches!(t.kind, TrafficKind::Long { .. }) && t.transport == Transport::Tcp;
        if (t.from, t.to) != (1, 0) || !upload {
            let problem = "from the users the lab has kind = \"long\" over tcp alone, to the servers";
            return Err(Error::new(format!("traffic.{i}.from"), problem));
        }
    }
    Ok(())
}
