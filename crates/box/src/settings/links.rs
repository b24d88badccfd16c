//! Links of a box, from flags and a file: one or several, each with one or several interfaces of the users.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};

use super::{BackendKind, Options, Settings};
use crate::interface_names::{covers, overlap};
use crate::rate_from::RateFrom;
use crate::users;

/// The name of the interface given as `key`.
fn interface(name: &Option<String>, key: &str, whose: &str) -> anyhow::Result<String> {
    match name.as_deref() {
        None | Some("") => {
            bail!("no interface is given as {key}: expected the name of the {whose} interface")
        }
        // As `ip link` prints it, with the interface that it lies upon or its other end.
        Some(n) if n.contains('@') => {
            let name = n.split('@').next().unwrap_or_default();
            bail!("{key} = '{n}': ip link prints it so; the name is the part before the @: {key} = '{name}'")
        }
        Some(n) if n.len() > 15 => {
            let letters = n.chars().count();
            bail!(
                "{key} = '{n}': expected the name of an interface, which has at most 15 letters; these are {letters}"
            )
        }
        // The kernel takes such names only (dev_valid_name); fewer here, as some would split a rule in two.
        Some(n)
            if n.contains(['/', ':', '"', '\\', '+', '*', '!'])
                || n.contains(char::is_whitespace)
                || n.starts_with('-') =>
        {
            bail!("{key} = '{n}': expected the name of an interface")
        }
        Some(n) => Ok(n.to_owned()),
    }
}

/// The names of the users' interfaces; an open ending, `+` as iptables has it or `*` as nftables has it, becomes `*`.
fn lans(names: &Option<Vec<String>>) -> anyhow::Result<Vec<String>> {
    let given = names.as_deref().unwrap_or_default();
    let mut all: Vec<String> = Vec::new();
    for name in given {
        let beginning = name.strip_suffix(['+', '*']);
        let checked = interface(&Some(beginning.unwrap_or(name).to_owned()), "lan", "users'")?;
        let name = if beginning.is_some() { checked + "*" } else { checked };
        if let Some(other) = all.iter().find(|other| overlap(other, &name)) {
            bail!("lan = '{name}': '{other}' stands there already and takes it in");
        }
        all.push(name);
    }
    if all.is_empty() {
        interface(&None, "lan", "users'")?;
    }
    Ok(all)
}

impl BackendKind {
    /// Whether it handles frames of two interfaces that nobody else may have.
    #[must_use]
    pub fn is_pair(self) -> bool {
        self != Self::Nfqueue
    }
}

impl Options {
    /// The interfaces of the users, one at least, and that of the wide network.
    pub(super) fn interfaces(&self) -> anyhow::Result<(Vec<String>, String)> {
        let (lan, wan) = (lans(&self.lan)?, interface(&self.wan, "wan", "wide network's")?);
        match lan.iter().find(|lan| covers(lan, &wan)) {
            Some(both) if *both == wan => {
                bail!("lan and wan are both '{wan}': expected two interfaces with the box between them")
            }
            Some(both) => {
                bail!("lan = '{both}' takes in wan = '{wan}': expected interfaces of the users only")
            }
            None => {}
        }
        let several = lan.len() > 1 || lan[0].ends_with('*');
        if let Some(pair) = self.backend.filter(|backend| several && backend.is_pair()) {
            bail!("lan: the {pair} back end joins two interfaces: expected one, or backend = \"nfqueue\"");
        }
        if several && self.http_503 == Some(true) {
            bail!("http_503 = true: answers leave by one interface: expected one as lan");
        }
        Ok((lan, wan))
    }
}

/// Source of settings: flags, and a file that is read again on SIGHUP.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Options on the command line; each wins over the same key of the file.
    pub flags: Options,
    /// The settings file.
    pub config: Option<PathBuf>,
    /// Whether to take the place of a box that runs on these interfaces, or to go on with what one that stopped has
    /// left.
    pub replace: bool,
    /// Whether to wait for interfaces that are not there yet.
    pub wait: bool,
}

impl Source {
    /// Reads and checks the settings of each link.
    ///
    /// # Errors
    /// Names the file, the link, the key and what was expected.
    pub fn links(&self) -> anyhow::Result<Vec<Settings>> {
        let Some(path) = &self.config else { return settle(&self.flags, Options::default()) };
        let file = Options::read(path)?;
        settle(&self.flags, file).with_context(|| format!("in the settings {}", path.display()))
    }

    /// Reads them again, for a box that runs.
    ///
    /// # Errors
    /// Those of [`Source::links`], or there is nothing to be read again.
    pub(crate) fn again(&self) -> anyhow::Result<Vec<Settings>> {
        anyhow::ensure!(
            self.config.is_some() || self.flags.circuits.is_some(),
            "there is no settings file to read again: start with --config"
        );
        self.links()
    }
}

/// Every link of a file, checked: `flags` win over its tables, and these over what stands above them.
///
/// # Errors
/// Names the link, the key and what was expected.
fn settle(flags: &Options, mut file: Options) -> anyhow::Result<Vec<Settings>> {
    let tables = std::mem::take(&mut file.link);
    if tables.is_empty() {
        ensure!(file.name.is_none(), "name: expected it in a [[link]] table, where there are several links");
        return Ok(vec![whole(&flags.clone().or(file))?]);
    }
    ensure!(file.name.is_none(), "name: each [[link]] has its own");
    let mut links: Vec<Settings> = Vec::new();
    for (at, table) in tables.into_iter().enumerate() {
        let place = table.name.as_ref().map_or_else(|| format!("link {}", at + 1), |n| format!("link {n}"));
        let link = one(flags, &file, table).with_context(|| place.clone())?;
        for other in &links {
            clash(other, &link)
                .map_or(Ok(()), |why| Err(anyhow::anyhow!(why)))
                .with_context(|| place.clone())?;
        }
        links.push(link);
    }
    // The box has one.
    let control = links[0].control.clone();
    links.iter_mut().for_each(|link| link.control.clone_from(&control));
    Ok(links)
}

/// Checks everything, the file of circuits included.
fn whole(options: &Options) -> anyhow::Result<Settings> {
    let mut settings = options.settle()?;
    let strict = options.strict.unwrap_or(false);
    if let Some(path) = &options.circuits {
        settings.circuits = Arc::new(users::read(path, strict)?);
    }
    if let Some(path) = &options.sites {
        settings.sites = Arc::new(users::read_sites(path, strict)?);
        let lost = users::at_no_site(&settings.circuits, &settings.sites);
        ensure!(!strict || lost.is_none(), "{}", lost.unwrap_or_default());
    }
    Ok(settings)
}

fn one(flags: &Options, above: &Options, table: Options) -> anyhow::Result<Settings> {
    ensure!(table.link.is_empty(), "link: expected no [[link]] within another");
    if let Some(key) = table.of_the_process() {
        bail!("{key}: it is the whole box's: put it above the first [[link]]");
    }
    let mut link = whole(&flags.clone().or(table).or(above.clone()))?;
    let name = link.name.get_or_insert_with(|| format!("{}-{}", link.lan[0], link.wan));
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.*".contains(c);
    ensure!(
        !name.is_empty() && name.len() <= 40 && name.chars().all(plain),
        "name = '{name}': expected up to 40 letters, digits, '-', '_' or '.'"
    );
    Ok(link)
}

/// Reason why two links cannot both be, if so.
fn clash(one: &Settings, other: &Settings) -> Option<String> {
    let name = one.name.as_deref().unwrap_or_default();
    if one.name == other.name {
        return Some(format!("name: another link is called {name} too"));
    }
    let users = || one.lan.iter().any(|lan| other.lan.iter().any(|o| overlap(lan, o)));
    let alone = [one, other].into_iter().find(|link| link.backend.is_pair());
    if let Some(alone) = alone
        && share_an_interface(one, other)
    {
        let backend = alone.backend;
        return Some(format!(
            "lan, wan: the {backend} back end needs its interfaces for itself, and link {name} has one"
        ));
    }
    if one.wan == other.wan && users() || crossed(one, other) {
        return Some(format!(
            "lan, wan: link {name} has what passes between these already: expected each pair of interfaces once"
        ));
    }
    if one.wan == other.wan && one.local && other.local {
        return Some(format!(
            "local = true: link {name} has this machine's own traffic over {} already",
            one.wan
        ));
    }
    if let (Some(a), Some(b)) = (one.queue, other.queue)
        && a.abs_diff(b) < 2
    {
        return Some(format!(
            "queue = {b}: link {name} has {a} and {}: expected others, or none for free ones",
            a + 1
        ));
    }
    if one.circuits_from.is_some() && one.circuits_from == other.circuits_from {
        return Some(format!("circuits_from: link {name} listens at this socket: expected another"));
    }
    match (&one.rate_from, &other.rate_from) {
        (Some(RateFrom::Socket(a)), Some(RateFrom::Socket(b))) if a == b => {
            Some(format!("rate_from: link {name} listens at this socket: expected another"))
        }
        _ => None,
    }
}

/// Whether each link has the other's wide network among its users' interfaces.
fn crossed(one: &Settings, other: &Settings) -> bool {
    one.lan.iter().any(|lan| covers(lan, &other.wan)) && other.lan.iter().any(|lan| covers(lan, &one.wan))
}

fn share_an_interface(one: &Settings, other: &Settings) -> bool {
    let all = |link: &Settings| link.lan.iter().chain([&link.wan]).cloned().collect::<Vec<_>>();
    all(one).iter().any(|a| all(other).iter().any(|b| overlap(a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_units::Rate;

    fn links(text: &str) -> anyhow::Result<Vec<Settings>> {
        settle(&Options::default(), Options::parse(text)?)
    }

    const TWO: &str = "wan = 'wan0'\nup = '1mbit'\ndiscipline = 'fifo:9'\n\n[[link]]\nname = 'north'\n\
                       lan = 'vlan10'\ndown = '2mbit'\n\n[[link]]\nlan = ['vlan20', 'ppp+']\nup = '3mbit'\n";

    #[test]
    fn what_stands_above_is_for_all_links() {
        let [north, south] = &links(TWO).unwrap()[..] else { panic!() };
        assert_eq!((north.name.as_deref(), south.name.as_deref()), (Some("north"), Some("vlan20-wan0")));
        assert_eq!(
            (&north.lan[..], &south.lan[..]),
            (&["vlan10".to_owned()][..], &["vlan20".into(), "ppp*".into()][..])
        );
        let rate = |link: &Settings, way: usize| link.lanes[way].link.map(|l| l.rate.as_bps() / 1000);
        assert_eq!([rate(north, 0), rate(north, 1)], [Some(2000), Some(1000)]);
        assert_eq!([rate(south, 0), rate(south, 1)], [None, Some(3000)]);
        assert_eq!(north.control, south.control);
        let flags = Options { down: Some(Rate::from_kbps(7).into()), ..Options::default() };
        let flagged = settle(&flags, Options::parse(TWO).unwrap()).unwrap();
        assert!(flagged.iter().all(|link| rate(link, 0) == Some(7)), "flags win over all");
    }

    #[test]
    fn what_is_wrong_names_the_link_and_the_key() {
        for (text, words) in [
            ("[[link]]\nname = 'b'\nlan = 'c'\nwan = 'd'\noverhead = 2000\n", "link b: overhead = 2000"),
            (
                "[[link]]\nlan = 'c'\nwan = 'd'\npage = '127.0.0.1:80'\n",
                "link 2: page: it is the whole box's",
            ),
            ("[[link]]\nname = 'a'\nlan = 'c'\nwan = 'd'\n", "link a: name: another link"),
            ("[[link]]\nlan = 'lan*'\nwan = 'w'\n", "link 2: lan, wan: link a has what passes"),
            ("[[link]]\nlan = 'w'\nwan = 'lan0'\n", "link 2: lan, wan: link a has what passes"),
            ("[[link]]\nlan = 'c'\nwan = 'w'\nbackend = 'packet'\n", "link 2: lan, wan: the packet back end"),
            ("[[link]]\nlan = 'c'\nwan = 'd'\nqueue = 41\n", "link 2: queue = 41: link a has 40 and 41"),
            ("[[link]]\nlan = 'c'\nwan = 'd'\nrate_from = 'unix:/r'\nup = '1mbit'\n", "link 2: rate_from"),
            ("[[link]]\nlan = 'c'\n", "link 2: no interface is given as wan"),
            ("[[link]]\nlan = 'c'\nwan = 'd'\nname = 'a b'\n", "name = 'a b': expected"),
            ("[[link]]\nlan = ['c', 'c']\nwan = 'd'\n", "lan = 'c': 'c' stands there already"),
            ("[[link]]\nlan = ['c', 'd+']\nwan = 'd'\n", "lan = 'd*' takes in wan = 'd'"),
            ("[[link]]\nlan = ['c', 'e']\nwan = 'd'\nbackend = 'packet'\n", "joins two interfaces"),
            (
                "[[link]]\nlan = 'c'\nwan = 'd'\n[[link.link]]\nlan = 'e'\n",
                "link: expected no [[link]] within",
            ),
        ] {
            let first = "[[link]]\nname = 'a'\nlan = 'lan0'\nwan = 'w'\nqueue = 40\nup = '1mbit'\n\
                         rate_from = 'unix:/r'\n";
            let error = format!("{:#}", links(&format!("{first}{text}")).unwrap_err());
            assert!(error.contains(words), "{text}: {error}");
        }
        let unknown = links(&format!("{TWO}dwon = 1\n")).unwrap_err().to_string();
        assert_eq!(unknown, "line 13: dwon: no such key: expected 'down'?");
        let mistyped = links(&format!("{TWO}down = '600'\n")).unwrap_err().to_string();
        assert!(mistyped.contains("line 13"), "{mistyped}");
        let named = links("lan = 'a'\nwan = 'b'\nname = 'c'\n").unwrap_err().to_string();
        assert!(named.contains("[[link]]"), "{named}");
        let error = links("lan = ['a', 3]\nwan = 'b'\n").unwrap_err().to_string();
        assert!(error.contains("a list of names"), "{error}");
    }

    #[test]
    fn names_as_ip_link_prints_them() {
        let read = |name: &str| interface(&Some(name.to_owned()), "wan", "wide network's");
        for name in ["eth0.2", "br-lan.20", "pppoe-wan", "enp4s0f0np0", "enx0123456789ab", "wg0"] {
            assert_eq!(read(name).unwrap(), name);
        }
        for (name, remedy) in [
            (
                "eth0.7@eth0",
                "wan = 'eth0.7@eth0': ip link prints it so; the name is the part before the @: wan = 'eth0.7'",
            ),
            ("veth1@if3", "wan = 'veth1'"),
            ("wlan0-far-too-long", "at most 15 letters; these are 18"),
            ("eth0:1", "expected the name of an interface"),
        ] {
            let error = read(name).unwrap_err().to_string();
            assert!(error.contains(remedy), "{error}");
        }
    }

    #[test]
    fn bad_names_of_users_interfaces_are_refused() {
        for name in ["+", "*", "a+b", "a*b", "a b+", "a-name-far-too-lo+"] {
            assert!(lans(&Some(vec![name.to_owned()])).is_err(), "{name}");
        }
    }
}
