//! What a configuration means, and what is wrong with it on this machine, without starting anything.

use narrows_qdisc::{Direction, Spec};
use narrows_units::Duration;

use super::rules::Tool;
use super::run::{Source, bridged};
use super::settings::{BackendKind, Settings};
use narrows_netio::links::Interface;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// What the box would do, a sentence each.
    pub means: Vec<String>,
    /// What keeps it from doing so, or is hardly meant, with the remedy.
    pub wrong: Vec<String>,
}

/// Looks at everything that `run` would ask before it touches anything.
///
/// # Errors
/// If the settings cannot be understood: names the file, the key and what was expected.
pub fn check(source: &Source) -> anyhow::Result<Check> {
    let mut settings = source.settings()?;
    let mut check = Check::default();
    check.interfaces(&mut settings);
    check.links(&settings);
    check.users(&settings);
    check.page(&settings);
    Ok(check)
}

impl Check {
    fn interfaces(&mut self, settings: &mut Settings) {
        let mut find = |name: &str| match Interface::find(name) {
            Ok(link) if link.up => Some(link),
            Ok(link) => {
                self.wrong.push(format!("{name} is down: ip link set {name} up"));
                Some(link)
            }
            Err(error) => {
                self.wrong.push(format!("{error:#}"));
                None
            }
        };
        let (lan, wan) = (find(&settings.lan), find(&settings.wan));
        let (lan, wan) = match (lan, wan) {
            (Some(lan), Some(wan)) => (lan, wan),
            _ => return,
        };
        settings.set_mtu(lan.mtu.max(wan.mtu));
        let way = match (bridged(settings, &lan, &wan), settings.backend) {
            (Err(error), _) => return self.wrong.push(format!("{error:#}")),
            (Ok(_), BackendKind::Packet) => "joins them itself (packet sockets)",
            (Ok(true), _) => "queues what their bridge forwards (NFQUEUE)",
            (Ok(false), _) => "queues what this machine routes between them (NFQUEUE)",
        };
        self.means.push(format!(
            "users are behind {} and the wide network behind {}, packets up to {} bytes; the box {way}",
            settings.lan, settings.wan, settings.mtu
        ));
        if settings.backend == BackendKind::Nfqueue
            && let Err(error) = Tool::find()
        {
            self.wrong.push(format!("{error:#}"));
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
            let packet = link.rate.time_to_send(link.largest());
            self.means.push(format!(
                "{word}: {} by {text}; a full packet takes {packet} on the link{}",
                link.rate,
                admission(&lane.discipline, packet)
            ));
        }
        if settings.lanes.iter().all(|lane| lane.link.is_none()) {
            self.wrong.push(
                "neither down nor up has a rate, so nothing waits here and nothing is managed: give the link's rate, \
                 or observe = true"
                    .to_owned(),
            );
        }
    }

    fn users(&mut self, settings: &Settings) {
        let circuits = settings.circuits.all();
        if circuits.is_empty() {
            return;
        }
        self.means.push(format!("{} circuits have names, and rates where the file has them", circuits.len()));
        for direction in Direction::BOTH {
            let Some(link) = settings.lanes[direction as usize].link else { continue };
            let beyond = |rate: Option<narrows_units::Rate>| rate.is_some_and(|rate| rate > link.rate);
            let above = circuits.iter().filter(|c| beyond(c.rates[direction as usize])).count();
            if above == circuits.len() {
                let way = if direction == Direction::Down { "down" } else { "up" };
                self.wrong.push(format!(
                    "every circuit may have more than the link's {} {way}: are both in the same unit (the file \
                     counts Mbit/s)?",
                    link.rate
                ));
            }
        }
    }

    fn page(&mut self, settings: &Settings) {
        let Some(page) = settings.page else { return };
        self.means.push(format!("the status page is at http://{page}/"));
        if !page.ip().is_loopback() {
            self.wrong.push(format!(
                "page = \"{page}\": everybody who reaches that address sees totals, and a user its place in the wait \
                 queue; 127.0.0.1 is for this machine alone"
            ));
        }
    }
}

/// From how many users on others have to wait.
fn admission(discipline: &Spec, packet: Duration) -> String {
    let Spec::Taq(taq) = discipline else { return String::new() };
    let Some(mode) = taq.as_default() else { return String::new() };
    if !taq.common.admission {
        return "; nobody has to wait to be admitted".to_owned();
    }
    let users = mode.round_limit_ms.as_nanos() / packet.as_nanos().max(1);
    format!("; while {users} users or more wait for packets, new ones wait to be admitted")
}
