//! What a box is told: flags of `narrows run` over a TOML file with the same names, checked once before anything is
//! touched.

mod lanes;
mod links;
mod page;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail};
use narrows_qdisc::follow::LinkRate;
use narrows_qdisc::{Direction, Framing, ShaperConfig, Spec};
use narrows_units::{Bytes, Rate};
use narrows_users::Circuits;
use serde::{Deserialize, Deserializer};

use super::control;
use super::lane::LaneSettings;
use super::rate_from::{self, RateFrom};
use super::rules::Filter;
use lanes::{admits, knows_users};
use links::one_or_more;
pub use links::{covers, overlap, settle};

/// The discipline where none is named.
pub const DEFAULT_DISCIPLINE: &str = "taq";
/// More than any link layer adds to a packet.
const MAX_OVERHEAD: u32 = 1000;
/// Most that a packet counts at least: as CAKE has it.
const MAX_MPU: u32 = 256;
/// The largest IP packet as long as no interface was asked.
const ETHERNET_MTU: u32 = 1500;

/// A discipline with the text that named it.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedSpec {
    /// As given.
    pub text: String,
    /// As understood.
    pub spec: Spec,
}

impl FromStr for NamedSpec {
    type Err = narrows_qdisc::SettingError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self { text: text.to_owned(), spec: text.parse()? })
    }
}

/// Where packets come in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendKind {
    /// From the kernel's forwarding path, through NFQUEUE.
    #[default]
    Nfqueue,
    /// From two packet sockets: the box itself joins the two interfaces.
    Packet,
    /// From two ports of a bridge, by AF_XDP.
    Xdp,
}

impl FromStr for BackendKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "nfqueue" => Ok(Self::Nfqueue),
            "packet" => Ok(Self::Packet),
            "xdp" => Ok(Self::Xdp),
            _ => Err(format!("'{text}' is no back end: expected nfqueue, packet or xdp")),
        }
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nfqueue => "nfqueue",
            Self::Packet => "packet",
            Self::Xdp => "xdp",
        })
    }
}

/// Link-layer framing as text: none, atm, ptm.
///
/// # Errors
/// If it is none of these.
pub fn framing(text: &str) -> Result<Framing, String> {
    match text {
        "none" => Ok(Framing::None),
        "atm" => Ok(Framing::Atm),
        "ptm" => Ok(Framing::Ptm),
        _ => Err(format!("'{text}' is no framing: expected none, atm or ptm")),
    }
}

/// The keys of a settings file: the fields of [`Options`].
pub const KEYS: [&str; 28] = [
    "lan",
    "wan",
    "down",
    "up",
    "discipline",
    "down_discipline",
    "up_discipline",
    "overhead",
    "mpu",
    "framing",
    "backend",
    "queue",
    "rules",
    "local",
    "observe",
    "realtime",
    "http_503",
    "control",
    "page",
    "page_for_others",
    "state_dir",
    "circuits",
    "user",
    "rate_from",
    "rate_min",
    "rate_max",
    "name",
    "link",
];

/// Everything that can be said, by flags or in a file; what is left out takes its default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Interfaces of the users; `+` or `*` at the end of a name stands for any ending.
    #[serde(deserialize_with = "one_or_more")]
    pub lan: Option<Vec<String>>,
    /// Interface of the wide network.
    pub wan: Option<String>,
    /// Rate to the users.
    #[serde(deserialize_with = "by_text")]
    pub down: Option<LinkRate>,
    /// Rate from the users.
    #[serde(deserialize_with = "by_text")]
    pub up: Option<LinkRate>,
    /// Discipline of both directions.
    #[serde(deserialize_with = "by_text")]
    pub discipline: Option<NamedSpec>,
    /// Discipline of the way down.
    #[serde(deserialize_with = "by_text")]
    pub down_discipline: Option<NamedSpec>,
    /// Discipline of the way up.
    #[serde(deserialize_with = "by_text")]
    pub up_discipline: Option<NamedSpec>,
    /// Bytes the link adds to each packet.
    pub overhead: Option<u32>,
    /// What a packet with these counts at least.
    pub mpu: Option<u32>,
    /// How the link cuts up what it sends.
    #[serde(deserialize_with = "framing_by_text")]
    pub framing: Option<Framing>,
    /// Where packets come in.
    #[serde(deserialize_with = "by_text")]
    pub backend: Option<BackendKind>,
    /// The first of two NFQUEUE numbers.
    pub queue: Option<u16>,
    /// Who keeps the rules.
    #[serde(deserialize_with = "by_text")]
    pub rules: Option<Filter>,
    /// Also the router's own traffic over `wan`.
    pub local: Option<bool>,
    /// Follow and report, touch nothing.
    pub observe: Option<bool>,
    /// Run before ordinary programs.
    pub realtime: Option<bool>,
    /// Answer connections to port 80 that have to wait with 503.
    pub http_503: Option<bool>,
    /// The control socket.
    pub control: Option<PathBuf>,
    /// Where the local status page is served.
    #[serde(deserialize_with = "by_text")]
    pub page: Option<SocketAddr>,
    /// Whether it may be served off the loopback.
    pub page_for_others: Option<bool>,
    /// Where it is noted what was changed on this machine.
    pub state_dir: Option<PathBuf>,
    /// A file of circuits.
    pub circuits: Option<PathBuf>,
    /// Whom the box becomes.
    pub user: Option<String>,
    /// Where rates are told.
    #[serde(deserialize_with = "by_text")]
    pub rate_from: Option<RateFrom>,
    /// No less is believed.
    #[serde(deserialize_with = "by_text")]
    pub rate_min: Option<Rate>,
    /// Nor more.
    #[serde(deserialize_with = "by_text")]
    pub rate_max: Option<Rate>,
    /// What a link is called among several.
    pub name: Option<String>,
    /// Several links: what one leaves out is as said above them.
    pub link: Vec<Self>,
}

fn by_text<'de, D: Deserializer<'de>, T>(d: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err: fmt::Display>,
{
    let text = String::deserialize(d)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

fn framing_by_text<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Framing>, D::Error> {
    framing(&String::deserialize(d)?).map(Some).map_err(serde::de::Error::custom)
}

impl Options {
    /// Reads a settings file.
    ///
    /// # Errors
    /// Names the file, the line and key, and what was expected.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| {
            format!(
                "cannot read the settings {}: expected a file in TOML (docs/how-to/run.md)",
                path.display()
            )
        })?;
        Self::parse(&text).with_context(|| format!("in the settings {}", path.display()))
    }

    /// Understands the text of a settings file.
    ///
    /// # Errors
    /// Names the line and key, and what was expected.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let table: toml::Table = toml::from_str(text)?;
        let of_links = table.get("link").and_then(toml::Value::as_array).into_iter().flatten();
        let tables = std::iter::once(&table).chain(of_links.filter_map(toml::Value::as_table));
        if let Some(key) = tables.flat_map(toml::Table::keys).find(|key| !KEYS.contains(&key.as_str())) {
            let says = |line: &str| {
                let line = line.trim_start().trim_start_matches(['"', '\'', '[']);
                line.strip_prefix(key.as_str()).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
            };
            let line =
                text.lines().position(says).map_or_else(String::new, |at| format!("line {}: ", at + 1));
            bail!("{line}{key}: no such key: expected {}", narrows_settings::one_of(key, KEYS));
        }
        Ok(toml::from_str(text)?)
    }

    /// These, and where they say nothing, `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            lan: self.lan.or(other.lan),
            wan: self.wan.or(other.wan),
            down: self.down.or(other.down),
            up: self.up.or(other.up),
            discipline: self.discipline.or(other.discipline),
            down_discipline: self.down_discipline.or(other.down_discipline),
            up_discipline: self.up_discipline.or(other.up_discipline),
            overhead: self.overhead.or(other.overhead),
            mpu: self.mpu.or(other.mpu),
            framing: self.framing.or(other.framing),
            backend: self.backend.or(other.backend),
            queue: self.queue.or(other.queue),
            rules: self.rules.or(other.rules),
            local: self.local.or(other.local),
            observe: self.observe.or(other.observe),
            realtime: self.realtime.or(other.realtime),
            http_503: self.http_503.or(other.http_503),
            control: self.control.or(other.control),
            page: self.page.or(other.page),
            page_for_others: self.page_for_others.or(other.page_for_others),
            state_dir: self.state_dir.or(other.state_dir),
            circuits: self.circuits.or(other.circuits),
            user: self.user.or(other.user),
            rate_from: self.rate_from.or(other.rate_from),
            rate_min: self.rate_min.or(other.rate_min),
            rate_max: self.rate_max.or(other.rate_max),
            name: self.name.or(other.name),
            link: if self.link.is_empty() { other.link } else { self.link },
        }
    }

    /// Checks all and fills in defaults.
    ///
    /// # Errors
    /// Names the key and what was expected.
    pub fn settle(&self) -> anyhow::Result<Settings> {
        let (lan, wan) = self.interfaces()?;
        let overhead = self.overhead.unwrap_or(0);
        if overhead > MAX_OVERHEAD {
            bail!("overhead = {overhead}: expected 0 to {MAX_OVERHEAD} bytes per packet");
        }
        let mpu = self.mpu.unwrap_or(0);
        if mpu > MAX_MPU {
            bail!("mpu = {mpu}: expected 0 to {MAX_MPU} bytes, the least a packet counts with its overhead");
        }
        if self.queue == Some(u16::MAX) {
            bail!("queue = 65535: expected 0 to 65534, as the next number is used too");
        }
        let backend = self.backend.unwrap_or_default();
        let (local, observe) = (self.local.unwrap_or(false), self.observe.unwrap_or(false));
        if local && backend.is_pair() {
            bail!(
                "local = true: the {backend} back end sees only what passes between its two interfaces; use nfqueue"
            );
        }
        let seed = RandomState::new().hash_one(0);
        let (down, down_text) = self.lane(Direction::Down, (overhead, mpu), seed)?;
        let (up, up_text) = self.lane(Direction::Up, (overhead, mpu), seed)?;
        let http_503 = self.http_503.unwrap_or(false);
        if http_503 && ![&down, &up].into_iter().any(admits) {
            bail!(
                "http_503 = true: expected a rate and taq with admission = on: without it nobody is refused"
            );
        }
        if self.circuits.is_some() && ![&down, &up].into_iter().any(knows_users) {
            bail!(
                "circuits: expected a rate and a discipline with share = user (as taq, drr:share=user or \
                 fq_codel:share=user): without it nothing is shared between users"
            );
        }
        let rate_bounds = rate_from::bounds(self, [&down, &up])?;
        Ok(Settings {
            circuits: Circuits::default(),
            user: self.user.clone(),
            rate_from: self.rate_from.clone(),
            rate_bounds,
            lanes: [down, up],
            mtu: ETHERNET_MTU,
            texts: [down_text, up_text],
            backend,
            queue: self.queue,
            rules: self.rules.unwrap_or_default(),
            local,
            observe,
            realtime: self.realtime.unwrap_or(false),
            http_503,
            control: self.control.clone().unwrap_or_else(|| control::default_path(&lan[0], &wan)),
            page: self.page()?,
            state_dir: self.state_dir.clone().unwrap_or_else(|| super::RUN_DIR.into()),
            name: self.name.clone(),
            lan,
            wan,
        })
    }
}

/// What a box does, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What the link is called among several.
    pub name: Option<String>,
    /// Interfaces of the users, one at least; `*` at the end of a name stands for any ending.
    pub lan: Vec<String>,
    /// Interface of the wide network.
    pub wan: String,
    /// Down and up.
    pub lanes: [LaneSettings; 2],
    /// The largest IP packet of the interfaces: [`Settings::set_mtu`].
    pub mtu: u32,
    /// Their disciplines as given.
    pub texts: [String; 2],
    /// Where packets come in.
    pub backend: BackendKind,
    /// The first of two NFQUEUE numbers; `None` for two free ones.
    pub queue: Option<u16>,
    /// Who keeps the rules.
    pub rules: Filter,
    /// Also the router's own traffic over `wan`.
    pub local: bool,
    /// Follow and report, touch nothing.
    pub observe: bool,
    /// Run before ordinary programs.
    pub realtime: bool,
    /// Answer connections to port 80 that have to wait with 503 and `Retry-After`.
    pub http_503: bool,
    /// The control socket.
    pub control: PathBuf,
    /// Where the local status page is served.
    pub page: Option<SocketAddr>,
    /// Where it is noted what was changed on this machine.
    pub state_dir: PathBuf,
    /// Users who have names and rates: [`Source::settings`](super::Source::settings) reads their file.
    pub circuits: Circuits,
    /// Whom the box becomes when it is set up; `None` for the user of our packages, if there is one.
    pub user: Option<String>,
    /// Where rates are told.
    pub rate_from: Option<RateFrom>,
    /// The least and the most that is believed then.
    pub rate_bounds: [Rate; 2],
}

impl Settings {
    /// The interfaces of the users, for people.
    #[must_use]
    pub fn users(&self) -> String {
        self.lan.join(", ")
    }

    /// Sets the largest IP packet of the link, as its interfaces tell.
    pub fn set_mtu(&mut self, mtu: u32) {
        self.mtu = mtu;
        for link in self.lanes.iter_mut().filter_map(|l| l.link.as_mut()) {
            link.mtu = Bytes(u64::from(mtu) + u64::from(link.overhead)).max(ShaperConfig::new(link.rate).mtu);
        }
    }

    /// Takes over from `new` what can change while packets flow. Returns the names of settings that differ and cannot.
    pub fn adopt(&mut self, new: &Self) -> Vec<&'static str> {
        let fixed = [
            ("lan", self.lan == new.lan),
            ("wan", self.wan == new.wan),
            ("backend", self.backend == new.backend),
            ("queue", self.queue == new.queue),
            ("rules", self.rules == new.rules),
            ("local", self.local == new.local),
            ("realtime", self.realtime == new.realtime),
            ("control", self.control == new.control),
            ("page", self.page == new.page),
            ("state_dir", self.state_dir == new.state_dir),
            ("user", self.user == new.user),
            ("rate_from", self.rate_from == new.rate_from),
        ];
        for (old, new) in self.lanes.iter_mut().zip(&new.lanes) {
            let seed = old.seed;
            *old = new.clone();
            old.seed = seed;
        }
        self.set_mtu(self.mtu);
        self.texts.clone_from(&new.texts);
        (self.observe, self.http_503) = (new.observe, new.http_503);
        self.rate_bounds = new.rate_bounds;
        self.circuits.clone_from(&new.circuits);
        fixed.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minimal() -> Options {
        Options {
            lan: Some(vec!["lan0".into()]),
            wan: Some("wan0".into()),
            discipline: Some("fifo:30".parse().unwrap()),
            ..Options::default()
        }
    }

    #[test]
    fn a_whole_file() {
        let file = Options::parse(
            "lan = 'lan0'\nwan = 'ppp0'\ndown = '600kbit'\nup = '128kbit'\ndiscipline = 'fifo:30'\n\
             up_discipline = 'fifo:3000b'\noverhead = 8\nmpu = 64\nframing = 'atm'\nqueue = 40\nobserve = true\npage = \
             '127.0.0.1:80'",
        )
        .unwrap();
        let s = file.settle().unwrap();
        let down = s.lanes[0].link.unwrap();
        assert_eq!((down.rate, down.overhead, down.framing), (Rate::from_kbps(600), 8, Framing::Atm));
        assert_eq!(down.mpu, 64);
        assert_eq!(s.texts, ["fifo:30", "fifo:3000b"]);
        assert!(s.observe && s.lanes[1].observe);
        assert_eq!(s.control, Path::new("/run/narrows/lan0-ppp0.sock"));
    }

    #[test]
    fn flags_win_over_the_file() {
        let flags = Options { down: Some(Rate::from_kbps(1).into()), ..Options::default() };
        let s = flags
            .or(Options { down: Some(Rate::from_kbps(2).into()), overhead: Some(3), ..minimal() })
            .settle()
            .unwrap();
        assert_eq!(s.lanes[0].link.unwrap().rate, Rate::from_kbps(1));
        assert_eq!(s.lanes[0].link.unwrap().overhead, 3);
    }

    #[test]
    fn what_is_wrong_is_named_with_what_was_expected() {
        for (text, key) in [
            ("down = '600'", "down = '600'"),
            ("donw = '600kbit'", "donw"),
            ("down = 600", "down = 600"),
            ("discipline = 'codle'", "discipline = 'codle'"),
            ("framing = 'atn'", "framing = 'atn'"),
            ("backend = 'dpdk'", "backend = 'dpdk'"),
            ("queue = 70000", "queue = 70000"),
            ("overhead = -1", "overhead = -1"),
            ("page = 'here'", "page = 'here'"),
        ] {
            let error = Options::parse(&format!("lan = 'a'\n{text}")).unwrap_err().to_string();
            assert!(error.contains(key) && error.contains("line 2"), "{text}: {error}");
        }
        let error = |text: &str| Options::parse(text).unwrap_err().to_string();
        assert_eq!(error("lan = 'a'\ndonw = '600kbit'"), "line 2: donw: no such key: expected 'down'?");
        assert!(error("zzz = 1").contains("expected one of lan, wan, down"), "{}", error("zzz = 1"));
        // The two lists of keys are one.
        let serde = toml::from_str::<Options>("zzz = 1").unwrap_err().message().to_owned();
        let fields: Vec<&str> = serde.split('`').skip(3).step_by(2).collect();
        assert_eq!(fields, KEYS, "{serde}");
        for (options, key) in [
            (Options { lan: None, ..minimal() }, "lan"),
            (Options { wan: Some("lan0".into()), ..minimal() }, "lan and wan"),
            (Options { wan: Some("a b".into()), ..minimal() }, "wan"),
            (Options { wan: Some("a-name-far-too-long".into()), ..minimal() }, "wan"),
            (Options { overhead: Some(1001), ..minimal() }, "overhead"),
            (Options { mpu: Some(257), ..minimal() }, "mpu"),
            (Options { queue: Some(65535), ..minimal() }, "queue"),
            (Options { http_503: Some(true), ..minimal() }, "http_503"),
            (Options { circuits: Some("x.csv".into()), ..minimal() }, "share = user"),
            (Options { rate_from: Some(RateFrom::File("x".into())), ..minimal() }, "rate_from"),
            (Options { rate_min: Some(Rate::from_kbps(1)), ..minimal() }, "rate_min"),
            (Options { local: Some(true), backend: Some(BackendKind::Packet), ..minimal() }, "local"),
        ] {
            let error = options.settle().unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }

    #[test]
    fn a_reload_takes_rates_and_disciplines_and_names_the_rest() {
        let mut now = Options { down: Some(Rate::from_kbps(600).into()), ..minimal() }.settle().unwrap();
        now.set_mtu(9000);
        let new = Options { down: Some(Rate::from_kbps(900).into()), queue: Some(7), ..minimal() };
        let new = new.settle().unwrap();
        let seed = now.lanes[0].seed;
        assert_eq!(now.adopt(&new), ["queue"]);
        let link = now.lanes[0].link.unwrap();
        assert_eq!((link.rate, link.mtu, now.lanes[0].seed), (Rate::from_kbps(900), Bytes(9000), seed));
        assert_eq!(now.queue, None);
        // Another overhead comes on top of the same packets, also in a direction that had no rate; framing is counted
        // where lengths on the link are: 1500 + 40 B are 33 cells.
        now.set_mtu(1500);
        let up = Some(Rate::from_kbps(100).into());
        let dsl = Options { overhead: Some(40), framing: Some(Framing::Atm), up, ..minimal() };
        now.adopt(&Options { down: up, ..dsl }.settle().unwrap());
        for lane in &now.lanes {
            let link = lane.link.unwrap();
            assert_eq!((link.mtu, link.largest()), (Bytes(1540), Bytes(33 * 53)));
        }
    }
}
