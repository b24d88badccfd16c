//! What a box is told: flags of `narrows run` over a TOML file with the same names, checked once before anything is
//! touched.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail};
use narrows_qdisc::{Direction, Framing, ShaperConfig, Spec};
use narrows_units::{Bytes, Rate};
use narrows_users::{Circuits, Side};
use serde::{Deserialize, Deserializer};

use super::control;
use super::lane::LaneSettings;

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
pub struct Discipline {
    /// As given.
    pub text: String,
    /// As understood.
    pub spec: Spec,
}

impl FromStr for Discipline {
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
}

impl FromStr for BackendKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "nfqueue" => Ok(Self::Nfqueue),
            "packet" => Ok(Self::Packet),
            _ => Err(format!("'{text}' is no back end: expected nfqueue or packet")),
        }
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nfqueue => "nfqueue",
            Self::Packet => "packet",
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
const KEYS: [&str; 20] = [
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
    "local",
    "observe",
    "realtime",
    "http_503",
    "control",
    "page",
    "state_dir",
    "circuits",
];

/// Everything that can be said, by flags or in a file; what is left out takes its default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Interface of the users.
    pub lan: Option<String>,
    /// Interface of the wide network.
    pub wan: Option<String>,
    /// Rate to the users.
    #[serde(deserialize_with = "by_text")]
    pub down: Option<Rate>,
    /// Rate from the users.
    #[serde(deserialize_with = "by_text")]
    pub up: Option<Rate>,
    /// Discipline of both directions.
    #[serde(deserialize_with = "by_text")]
    pub discipline: Option<Discipline>,
    /// Discipline of the way down.
    #[serde(deserialize_with = "by_text")]
    pub down_discipline: Option<Discipline>,
    /// Discipline of the way up.
    #[serde(deserialize_with = "by_text")]
    pub up_discipline: Option<Discipline>,
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
    /// Where it is noted what was changed on this machine.
    pub state_dir: Option<PathBuf>,
    /// A file of circuits.
    pub circuits: Option<PathBuf>,
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
    fn parse(text: &str) -> anyhow::Result<Self> {
        let table: toml::Table = toml::from_str(text)?;
        if let Some(key) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
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
            local: self.local.or(other.local),
            observe: self.observe.or(other.observe),
            realtime: self.realtime.or(other.realtime),
            http_503: self.http_503.or(other.http_503),
            control: self.control.or(other.control),
            page: self.page.or(other.page),
            state_dir: self.state_dir.or(other.state_dir),
            circuits: self.circuits.or(other.circuits),
        }
    }

    /// Checks all and fills in defaults.
    ///
    /// # Errors
    /// Names the key and what was expected.
    pub fn settle(&self) -> anyhow::Result<Settings> {
        let (lan, wan) =
            (interface(&self.lan, "lan", "users'")?, interface(&self.wan, "wan", "wide network's")?);
        if lan == wan {
            bail!("lan and wan are both '{lan}': expected two interfaces with the box between them");
        }
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
        if local && backend == BackendKind::Packet {
            bail!(
                "local = true: the packet back end sees only what passes between its two interfaces; use nfqueue"
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
        Ok(Settings {
            circuits: Circuits::default(),
            lanes: [down, up],
            mtu: ETHERNET_MTU,
            texts: [down_text, up_text],
            backend,
            queue: self.queue,
            local,
            observe,
            realtime: self.realtime.unwrap_or(false),
            http_503,
            control: self.control.clone().unwrap_or_else(|| control::default_path(&lan, &wan)),
            page: self.page,
            state_dir: self.state_dir.clone().unwrap_or_else(|| super::RUN_DIR.into()),
            lan,
            wan,
        })
    }
}

impl Options {
    /// One direction, and the text of its discipline.
    fn lane(
        &self,
        direction: Direction,
        (overhead, mpu): (u32, u32),
        seed: u64,
    ) -> anyhow::Result<(LaneSettings, String)> {
        let (rate, own, users) = match direction {
            Direction::Down => (self.down, &self.down_discipline, Side::Destination),
            Direction::Up => (self.up, &self.up_discipline, Side::Source),
        };
        let discipline = match own.as_ref().or(self.discipline.as_ref()) {
            Some(d) => d.clone(),
            None => DEFAULT_DISCIPLINE.parse()?,
        };
        let framing = self.framing.unwrap_or_default();
        let link = rate.map(|r| ShaperConfig { overhead, mpu, framing, users, ..ShaperConfig::new(r) });
        let observe = self.observe.unwrap_or(false);
        Ok((
            LaneSettings { observe, users, ..LaneSettings::new(link, discipline.spec, seed) },
            discipline.text,
        ))
    }
}

/// The name of the interface given as `key`.
fn interface(name: &Option<String>, key: &str, whose: &str) -> anyhow::Result<String> {
    match name.as_deref() {
        None | Some("") => {
            bail!("no interface is given as {key}: expected the name of the {whose} interface")
        }
        // What the kernel takes as a name (dev_valid_name), less what would split a rule in two.
        Some(n)
            if n.len() > 15
                || n.contains(['/', ':', '"', '\\', '+', '!'])
                || n.contains(char::is_whitespace)
                || n.starts_with('-') =>
        {
            bail!("{key} = '{n}': expected the name of an interface")
        }
        Some(n) => Ok(n.to_owned()),
    }
}

/// Whether somebody may have to wait for this direction.
fn admits(lane: &LaneSettings) -> bool {
    let admission = matches!(&lane.discipline, Spec::Taq(taq) if taq.common.admission);
    admission && lane.link.is_some() && !lane.observe
}

/// Whether this direction is shared between users.
const fn knows_users(lane: &LaneSettings) -> bool {
    lane.discipline.shares_between_users() && lane.link.is_some() && !lane.observe
}

/// What a box does, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Interface of the users.
    pub lan: String,
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
}

impl Settings {
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
            ("local", self.local == new.local),
            ("realtime", self.realtime == new.realtime),
            ("control", self.control == new.control),
            ("page", self.page == new.page),
            ("state_dir", self.state_dir == new.state_dir),
        ];
        for (old, new) in self.lanes.iter_mut().zip(&new.lanes) {
            let seed = old.seed;
            *old = new.clone();
            old.seed = seed;
        }
        self.set_mtu(self.mtu);
        self.texts.clone_from(&new.texts);
        (self.observe, self.http_503) = (new.observe, new.http_503);
        self.circuits.clone_from(&new.circuits);
        fixed.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minimal() -> Options {
        Options {
            lan: Some("lan0".into()),
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
        let flags = Options { down: Some(Rate::from_kbps(1)), ..Options::default() };
        let s = flags
            .or(Options { down: Some(Rate::from_kbps(2)), overhead: Some(3), ..minimal() })
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
            (Options { local: Some(true), backend: Some(BackendKind::Packet), ..minimal() }, "local"),
        ] {
            let error = options.settle().unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }

    #[test]
    fn a_reload_takes_rates_and_disciplines_and_names_the_rest() {
        let mut now = Options { down: Some(Rate::from_kbps(600)), ..minimal() }.settle().unwrap();
        now.set_mtu(9000);
        let new = Options { down: Some(Rate::from_kbps(900)), queue: Some(7), ..minimal() }.settle().unwrap();
        let seed = now.lanes[0].seed;
        assert_eq!(now.adopt(&new), ["queue"]);
        let link = now.lanes[0].link.unwrap();
        assert_eq!((link.rate, link.mtu, now.lanes[0].seed), (Rate::from_kbps(900), Bytes(9000), seed));
        assert_eq!(now.queue, None);
        // Another overhead comes on top of the same packets, also in a direction that had no rate; framing is counted
        // where lengths on the link are: 1500 + 40 B are 33 cells.
        now.set_mtu(1500);
        let up = Some(Rate::from_kbps(100));
        let dsl = Options { overhead: Some(40), framing: Some(Framing::Atm), up, ..minimal() };
        now.adopt(&Options { down: up, ..dsl }.settle().unwrap());
        for lane in &now.lanes {
            let link = lane.link.unwrap();
            assert_eq!((link.mtu, link.largest()), (Bytes(1540), Bytes(33 * 53)));
        }
    }
}
