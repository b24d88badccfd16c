//! Meaning of a configuration, and its faults on this machine, told without starting anything.

use narrows_qdisc::follow::LinkPlace;
use narrows_qdisc::{Direction, Spec};
use narrows_units::Duration;
use narrows_users::Effect;

use super::discover;
use super::host_names;
use super::interface_names::covers;
use super::privilege::Identity;
use super::rules::Tool;
use super::run::{bridged, bridges_cut, interfaces, largest};
use super::settings::{BackendKind, Settings, Source};
use super::users;
use super::users_side;
use narrows_netio::links::Interface;

/// Answer of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Actions of the box, a sentence each.
    pub means: Vec<String>,
    /// Faults for which `run` refuses the settings, each with its remedy.
    pub wrong: Vec<String>,
    /// Settings that `run` takes although they are hardly meant, or name what is not there yet.
    pub doubtful: Vec<String>,
}

/// Looks at everything that `run` would ask before it touches anything.
///
/// # Errors
/// If the settings cannot be understood: names the file, the key and what was expected.
pub fn check(source: &Source) -> anyhow::Result<Check> {
    let links = source.links()?;
    let mut whole = Check::default();
    for mut settings in links.clone() {
        let mut check = Check::default();
        check.interfaces(&mut settings);
        check.links(&settings);
        check.users(&settings);
        let of = |line: String| match &settings.name {
            Some(name) => format!("link {name}: {line}"),
            None => line,
        };
        whole.means.extend(check.means.into_iter().map(of));
        whole.wrong.extend(check.wrong.into_iter().map(of));
        whole.doubtful.extend(check.doubtful.into_iter().map(of));
    }
    whole.page(&links[0]);
    whole.decisions(&links);
    whole.user(&links[0]);
    Ok(whole)
}

impl Check {
    fn interfaces(&mut self, settings: &mut Settings) {
        let named = settings.lan.iter().filter(|name| !name.ends_with('*'));
        let mut all_there = true;
        for name in named.chain([&settings.wan]) {
            match Interface::find(name) {
                Ok(link) if link.up => {}
                Ok(_) => self.doubtful.push(format!("{name} is down: ip link set {name} up")),
                Err(error) => {
                    self.wrong.push(format!("{error:#}"));
                    all_there = false;
                }
            }
        }
        if !all_there {
            return;
        }
        let (lan, wan) = match interfaces(settings) {
            Ok(found) => found,
            Err(error) => return self.wrong.push(format!("{error:#}")),
        };
        settings.set_mtu(largest(&lan, &wan));
        let bridged = match bridged(settings, &lan, &wan) {
            Ok(bridged) => bridged,
            Err(error) => return self.wrong.push(format!("{error:#}")),
        };
        let way = match settings.backend {
            BackendKind::Packet => "joins them itself (packet sockets)",
            BackendKind::Xdp => "takes what their bridge would forward (AF_XDP)",
            BackendKind::Nfqueue if bridged => "queues what their bridge forwards (NFQUEUE)",
            BackendKind::Nfqueue => "queues what this machine routes between them (NFQUEUE)",
        };
        self.means.push(format!(
            "users are behind {} and the wide network behind {}, packets up to {} bytes; the box {way}",
            settings.users(),
            settings.wan,
            settings.mtu
        ));
        self.exchanged(settings);
        if settings.backend == BackendKind::Nfqueue {
            if !bridged && !settings.local {
                self.means.push(
                    "what this machine itself sends and receives (a resolver, a tunnel) passes beside the queue; \
                     local = true has it wait too"
                        .to_owned(),
                );
            }
            match Tool::choose(settings.rules, bridged) {
                Ok(tools) => {
                    self.means.push(format!("its rules are kept by {}", Tool::list(&tools)));
                    self.wrong.extend(bridges_cut(bridged, &tools));
                }
                Err(error) => self.wrong.push(format!("{error:#}")),
            }
        }
    }

    /// Looks whether the two interfaces, or the two rates, may have been exchanged.
    fn exchanged(&mut self, settings: &Settings) {
        let found = discover::interfaces().unwrap_or_default();
        let wide = found.iter().find(|one| one.default_route).map(|one| &one.name);
        if let Some(wide) = wide.filter(|wide| settings.lan.iter().any(|lan| covers(lan, wide))) {
            self.doubtful.push(format!(
                "the default route of this machine leaves by {wide}, which is said to be the users': are lan and wan \
                 exchanged?"
            ));
        }
        let rate = |d: Direction| {
            let lane = &settings.lanes[d as usize];
            lane.link.filter(|_| lane.follow.is_none()).map(|link| link.rate)
        };
        if let (Some(down), Some(up)) = (rate(Direction::Down), rate(Direction::Up))
            && up > down
        {
            self.doubtful.push(format!(
                "more goes up ({up}) than comes down ({down}), as on few links: are down and up exchanged?"
            ));
        }
    }

    fn links(&mut self, settings: &Settings) {
        if settings.observe {
            self.means.push("it follows and reports, and changes nothing (observe)".to_owned());
            return;
        }
        for direction in Direction::BOTH {
            let word = if direction == Direction::Down { "down" } else { "up" };
            let (lane, text) = (&settings.lanes[direction as usize], &settings.texts[direction as usize]);
            let Some(link) = lane.link else {
                self.means.push(format!("{word}: no rate is given, packets pass at once"));
                continue;
            };
            if let Some(follow) = &lane.follow {
                let [enters, leaves] = match direction {
                    Direction::Down => [settings.wan.clone(), settings.users()],
                    Direction::Up => [settings.users(), settings.wan.clone()],
                };
                let (link, until) = match follow.place {
                    LinkPlace::Before => (format!("the link before {enters}"), ""),
                    LinkPlace::Behind => (format!("the link behind {leaves}"), ""),
                    LinkPlace::Find => (
                        format!("the slow link before {enters} or behind {leaves}"),
                        "; until a queue shows on which side it lies nothing is held back",
                    ),
                };
                self.means.push(format!(
                    "{word}: by {text}, as fast as {link} carries it, found and followed between {} and {}{until}",
                    follow.floor(),
                    follow.ceiling()
                ));
                continue;
            }
            let packet = link.rate.time_to_send(link.largest());
            self.means.push(format!(
                "{word}: {} by {text}; a full packet takes {packet} on the link{}",
                link.rate,
                admission(&lane.discipline, packet)
            ));
        }
        if let Some(from) = &settings.rate_from {
            let [least, most] = settings.rate_bounds;
            self.means.push(format!(
                "{from} tells other rates while it runs; {least} to {most} are believed, and auto goes no higher"
            ));
        }
        if settings.lanes.iter().all(|lane| lane.link.is_none()) {
            self.doubtful.push(
                "neither down nor up has a rate, so nothing waits here and nothing is managed: give the link's rate, \
                 or observe = true"
                    .to_owned(),
            );
        }
    }

    fn users(&mut self, settings: &Settings) {
        let shares = settings.lanes.iter().any(|l| l.link.is_some() && l.discipline.shares_between_users());
        if shares && !settings.observe {
            self.means.push(users_side::words(&users_side::find(settings), settings.user_prefixes()[0]));
        }
        self.leases(settings);
        let file = &settings.circuits;
        for remark in file.remarks().iter().chain(settings.sites.remarks()) {
            let lines = if remark.effect == Effect::Taken { &mut self.means } else { &mut self.doubtful };
            lines.push(remark.to_string());
        }
        for (rate, way) in settings.plan.iter().zip(["down", "up"]) {
            if let Some(rate) = rate {
                self.means.push(format!("each user in no circuit has at most {rate} {way}"));
            }
        }
        if let Some(from) = &settings.circuits_from {
            self.means.push(format!("who connects to {from} tells circuits while it runs"));
        }
        let circuits = file.circuits().all();
        if circuits.is_empty() && file.remarks().is_empty() {
            return;
        }
        self.means.push(format!("circuits: {}", file.counts()));
        self.sites(settings);
        for direction in Direction::BOTH {
            let lane = &settings.lanes[direction as usize];
            let Some(link) = lane.link.filter(|_| lane.follow.is_none()) else { continue };
            let beyond = |rate: Option<narrows_units::Rate>| rate.is_some_and(|rate| rate > link.rate);
            let above = circuits.iter().filter(|c| beyond(c.rates[direction as usize])).count();
            if above == circuits.len() && above > 0 {
                let way = if direction == Direction::Down { "down" } else { "up" };
                self.doubtful.push(format!(
                    "every circuit may have more than the link's {} {way}: are both in the same unit (the file \
                     counts Mbit/s)?",
                    link.rate
                ));
            }
        }
    }

    fn sites(&mut self, settings: &Settings) {
        let sites = &settings.sites;
        if sites.all().is_empty() {
            return;
        }
        let circuits = settings.circuits.circuits().all();
        let hang = circuits.iter().filter(|c| sites.find(&c.site).is_some()).count();
        self.means.push(format!(
            "sites: {} in {} levels, at which {hang} of {} circuits hang",
            sites.all().len(),
            sites.depth(),
            circuits.len()
        ));
        self.doubtful.extend(users::at_no_site(&settings.circuits, sites));
    }

    fn leases(&mut self, settings: &Settings) {
        let Some(path) = &settings.leases else { return };
        match host_names::read(path) {
            Ok(leases) => {
                let bad = match leases.bad() {
                    0 => String::new(),
                    1 => ", 1 line of it cannot be read".to_owned(),
                    bad => format!(", {bad} lines of it cannot be read"),
                };
                self.means.push(format!("{} users have names by {}{bad}", leases.len(), path.display()));
            }
            Err(error) => self.doubtful.push(format!(
                "leases = '{}': cannot read it, so users have no names: {error}",
                path.display()
            )),
        }
    }

    fn user(&mut self, settings: &Settings) {
        match Identity::find(settings.user.as_deref()) {
            Ok(Some(_)) => self.means.push("once it is set up it is root no more".to_owned()),
            Ok(None) => {}
            Err(error) => self.wrong.push(format!("{error:#}")),
        }
    }

    fn decisions(&mut self, links: &[Settings]) {
        let Some(file) = &links[0].decisions else { return };
        let (file, most) = (file.display(), links[0].decisions_mb);
        self.means.push(format!(
            "decisions of auto are written to {file} and {file}.1, {most} MB at most together"
        ));
        if links.iter().flat_map(|link| &link.lanes).all(|lane| lane.follow.is_none()) {
            let why = "decisions: neither down nor up is auto, so nothing is decided and written";
            self.doubtful.push(why.to_owned());
        }
    }

    fn page(&mut self, settings: &Settings) {
        let Some(page) = settings.page else { return };
        let who = if page.ip().to_canonical().is_loopback() {
            "this machine alone"
        } else {
            "everybody who reaches it: totals, and to a user its place in the wait queue"
        };
        self.means.push(format!("the status page is at http://{page}/, for {who}"));
    }
}

/// Sentence on the number of users from which others have to wait.
fn admission(discipline: &Spec, packet: Duration) -> String {
    let Spec::Taq(taq) = discipline else { return String::new() };
    let Some(mode) = taq.as_default() else { return String::new() };
    if !taq.common.admission {
        return "; nobody has to wait to be admitted".to_owned();
    }
    let users = mode.round_limit_ms.as_nanos() / packet.as_nanos().max(1);
    format!("; once {users} users wait for packets, new users queue for admission")
}
