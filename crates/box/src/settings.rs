//! Settings of a box: flags of `narrows run` over a TOML file with the same names, checked once before anything is
//! touched.

mod links;
mod options;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{bail, ensure};
use narrows_qdisc::follow::LinkPlace;
use narrows_qdisc::{Direction, ShaperConfig, Spec};
use narrows_units::{Bytes, Rate};
use narrows_users::{CircuitFile, Rates, Side};

use super::circuits_from::CircuitsFrom;
use super::lane::LaneSettings;
use super::rate_from::RateFrom;
use super::rules::Filter;
use super::sites::Sites;
pub use links::Source;
pub use options::{KEYS, OptionRow, Options, Reload, Scope, Shape, TABLE};

/// The discipline where none is named.
pub const DEFAULT_DISCIPLINE: &str = "taq";
/// The largest IP packet as long as no interface was asked.
const ETHERNET_MTU: u32 = 1500;

/// Bounds of a rate that another program tells, where none are given.
const LEAST: Rate = Rate::from_kbps(8);
const GREATEST: Rate = Rate::from_kbps(10_000_000);
/// Bound for the files of decisions where none is given, megabytes: three days of a direction that is always busy.
const DECISIONS_MB: u32 = 4;

/// Discipline, and the text that named the discipline.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedSpec {
    /// Text as given.
    pub text: String,
    /// Settings as understood.
    pub spec: Spec,
}

impl FromStr for NamedSpec {
    type Err = narrows_qdisc::SettingError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self { text: text.to_owned(), spec: text.parse()? })
    }
}

/// Source of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendKind {
    /// The kernel's forwarding path, through NFQUEUE.
    #[default]
    Nfqueue,
    /// Two packet sockets: the box itself joins the two interfaces.
    Packet,
    /// Two ports of a bridge, by AF_XDP.
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

impl Options {
    /// Settings of one direction, and the text that named the direction's discipline.
    fn lane(&self, direction: Direction, seed: u64) -> anyhow::Result<(LaneSettings, String)> {
        let (rate, own, users) = match direction {
            Direction::Down => (self.down, &self.down_discipline, Side::Destination),
            Direction::Up => (self.up, &self.up_discipline, Side::Source),
        };
        let follow = rate.and_then(|r| r.follow());
        ensure!(
            direction == Direction::Down || follow.is_none_or(|f| f.place != LinkPlace::Before),
            "up = \"{}\": where=before follows a link that downloads come over, at the users' side: write \
             up = \"auto\" or a number",
            rate.map_or_else(String::new, |r| r.to_string())
        );
        let discipline = match own.as_ref().or(self.discipline.as_ref()) {
            Some(d) => d.clone(),
            None => DEFAULT_DISCIPLINE.parse()?,
        };
        let (overhead, mpu) = (self.overhead.unwrap_or(0), self.mpu.unwrap_or(0));
        let framing = self.framing.unwrap_or_default();
        let link =
            rate.map(|r| ShaperConfig { overhead, mpu, framing, users, ..ShaperConfig::new(r.at_first()) });
        let lane = LaneSettings {
            observe: self.observe.unwrap_or(false),
            users,
            follow,
            record: self.decisions.is_some(),
            ..LaneSettings::new(link, discipline.spec, seed)
        };
        Ok((lane, discipline.text))
    }

    /// The address of the page: this machine's own, or any where that was said besides.
    fn page(&self) -> anyhow::Result<Option<SocketAddr>> {
        let Some(page) = self.page else { return Ok(None) };
        ensure!(
            page.ip().to_canonical().is_loopback() || self.page_for_others == Some(true),
            "page = \"{page}\": everybody who reaches that address would see totals, and a user its place in the wait \
             queue: 127.0.0.1 is for this machine alone; page_for_others = true lets others see it"
        );
        Ok(Some(page))
    }

    /// Checks all and fills in defaults.
    ///
    /// # Errors
    /// Names the key and what was expected.
    pub fn settle(&self) -> anyhow::Result<Settings> {
        let (lan, wan) = self.interfaces()?;
        self.check_ranges()?;
        let backend = self.backend.unwrap_or_default();
        let (local, observe) = (self.local.unwrap_or(false), self.observe.unwrap_or(false));
        if local && backend.is_pair() {
            bail!(
                "local = true: the {backend} back end sees only what passes between its two interfaces; use nfqueue"
            );
        }
        let seed = RandomState::new().hash_one(0);
        let (down, down_text) = self.lane(Direction::Down, seed)?;
        let (up, up_text) = self.lane(Direction::Up, seed)?;
        let http_503 = self.http_503.unwrap_or(false);
        if http_503 && ![&down, &up].into_iter().any(admits) {
            bail!(
                "http_503 = true: expected a rate and taq with admission = on: without it nobody is refused"
            );
        }
        let of_users = [
            ("circuits", self.circuits.is_some()),
            ("circuits_from", self.circuits_from.is_some()),
            ("default_down", self.default_down.is_some()),
            ("default_up", self.default_up.is_some()),
        ];
        if let Some((key, _)) = of_users.into_iter().find(|(_, given)| *given)
            && ![&down, &up].into_iter().any(knows_users)
        {
            bail!(
                "{key}: expected a rate and a discipline with share = user (as taq, drr:share=user or \
                 fq_codel:share=user): without it nothing is shared between users"
            );
        }
        ensure!(
            self.sites.is_none() || self.circuits.is_some(),
            "sites: expected circuits beside it, whose Parent Node says which site they hang at"
        );
        let rate_bounds = bounds(self, [&down, &up])?;
        ensure!(
            self.decisions.is_some() || self.decisions_mb.is_none(),
            "decisions_mb: expected decisions beside it, the file that it bounds"
        );
        Ok(Settings {
            circuits: Arc::default(),
            sites: Arc::default(),
            plan: [self.default_down, self.default_up],
            circuits_from: self.circuits_from.clone(),
            leases: self.leases.clone(),
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
            control: self.control.clone().unwrap_or_else(|| default_path(&lan[0], &wan)),
            page: self.page()?,
            decisions: self.decisions.clone(),
            decisions_mb: self.decisions_mb.unwrap_or(DECISIONS_MB),
            state_dir: self.state_dir.clone().unwrap_or_else(|| super::RUN_DIR.into()),
            name: self.name.clone(),
            lan,
            wan,
        })
    }
}

/// Whether a direction has admission control, so that connections may have to wait.
fn admits(lane: &LaneSettings) -> bool {
    let admission = matches!(&lane.discipline, Spec::Taq(taq) if taq.common.admission);
    admission && lane.link.is_some() && !lane.observe
}

/// Whether a direction's capacity is shared between users.
const fn knows_users(lane: &LaneSettings) -> bool {
    lane.discipline.shares_between_users() && lane.link.is_some() && !lane.observe
}

/// The bounds that `options` give.
///
/// # Errors
/// Names the key and what was expected.
fn bounds(options: &Options, lanes: [&LaneSettings; 2]) -> anyhow::Result<[Rate; 2]> {
    if options.rate_from.is_none() {
        let bounds = [("rate_min", options.rate_min), ("rate_max", options.rate_max)];
        if let Some((key, _)) = bounds.into_iter().find(|(_, rate)| rate.is_some()) {
            bail!(
                "{key}: expected rate_from beside it, whose rates it bounds; auto has its own: auto:min=64,max=9000"
            );
        }
    } else if lanes.iter().all(|lane| lane.link.is_none()) {
        bail!("rate_from: expected down or up beside it, with the rate until another one is told, or auto");
    }
    let (least, greatest) = (options.rate_min.unwrap_or(LEAST), options.rate_max.unwrap_or(GREATEST));
    if least > greatest {
        bail!("rate_min = {least}: expected at most rate_max, which is {greatest}");
    }
    Ok([least, greatest])
}

/// Path of the control socket of a box on these interfaces, unless settings give another.
#[must_use]
pub fn default_path(lan: &str, wan: &str) -> PathBuf {
    Path::new(super::RUN_DIR).join(format!("{lan}-{wan}.sock"))
}

/// Settings of a box, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Name of the link among several.
    pub name: Option<String>,
    /// File of DHCP leases with names of users.
    pub leases: Option<PathBuf>,
    /// Interfaces of the users, one at least; `*` at the end of a name stands for any ending.
    pub lan: Vec<String>,
    /// Interface of the wide network.
    pub wan: String,
    /// Settings of the lanes, down and up.
    pub lanes: [LaneSettings; 2],
    /// The largest IP packet of the interfaces: [`Settings::set_mtu`].
    pub mtu: u32,
    /// Disciplines of both directions, as text of the settings.
    pub texts: [String; 2],
    /// Source of packets.
    pub backend: BackendKind,
    /// The first of two NFQUEUE numbers; `None` for two free ones.
    pub queue: Option<u16>,
    /// Keeper of the rules that lead packets to the box.
    pub rules: Filter,
    /// Whether the router's own traffic over `wan` is queued too.
    pub local: bool,
    /// Follow connections and report, and let packets pass unchanged.
    pub observe: bool,
    /// Run before ordinary programs.
    pub realtime: bool,
    /// Answer connections to port 80 that have to wait with 503 and `Retry-After`.
    pub http_503: bool,
    /// The control socket.
    pub control: PathBuf,
    /// Address of the status page.
    pub page: Option<SocketAddr>,
    /// File of decisions.
    pub decisions: Option<PathBuf>,
    /// Most that the file of decisions and the one before take together, megabytes.
    pub decisions_mb: u32,
    /// Directory of the files in which a box notes its changes of this machine.
    pub state_dir: PathBuf,
    /// Users who have names and rates: [`Source::settings`](super::Source::settings) reads their file.
    pub circuits: Arc<CircuitFile>,
    /// Sites at which the circuits hang.
    pub sites: Arc<Sites>,
    /// Rates of users who are in no circuit, down and up.
    pub plan: Rates,
    /// Socket on which another program tells circuits.
    pub circuits_from: Option<CircuitsFrom>,
    /// User that the box becomes when it is set up; `None` for the user of our packages, if there is one.
    pub user: Option<String>,
    /// Source of rates that another program tells.
    pub rate_from: Option<RateFrom>,
    /// Bounds of a told rate.
    pub rate_bounds: [Rate; 2],
}

impl Settings {
    /// Names of the users' interfaces, joined as text.
    #[must_use]
    pub fn users(&self) -> String {
        self.lan.join(", ")
    }

    /// Describes the settings of a direction in a few words.
    #[must_use]
    pub fn describe(&self, direction: usize) -> String {
        let (text, lane) = (&self.texts[direction], &self.lanes[direction]);
        match lane.link {
            _ if self.observe => format!("observed ({text})"),
            Some(_) if lane.follow.is_some() => format!("auto ({text})"),
            Some(link) => format!("{} ({text})", link.rate),
            None => "unshaped".to_owned(),
        }
    }

    /// Directions where such rates were told: each has that rate, within bounds, or follows its link up
    /// to it.
    pub fn lanes_as_told(&self, told: &[Option<Rate>; 2]) -> [LaneSettings; 2] {
        let mut lanes = self.lanes.clone();
        for (lane, told) in lanes.iter_mut().zip(told) {
            let (Some(link), Some(told)) = (&mut lane.link, told) else { continue };
            let rate = (*told).clamp(self.rate_bounds[0], self.rate_bounds[1]);
            match &mut lane.follow {
                None => link.rate = rate,
                Some(follow) => {
                    let kbps = u32::try_from(rate.as_bps() / 1000).unwrap_or(u32::MAX);
                    follow.max = kbps.clamp(follow.min, follow.max);
                }
            }
        }
        lanes
    }

    /// Leading bits of an IPv6 address that are a user's, down and up, where a discipline says so.
    pub fn user_prefixes(&self) -> [Option<u8>; 2] {
        self.lanes.each_ref().map(|lane| lane.discipline.user_prefix())
    }

    /// Sets the largest IP packet of the link, in bytes, to the MTU of its interfaces.
    pub fn set_mtu(&mut self, mtu: u32) {
        self.mtu = mtu;
        for link in self.lanes.iter_mut().filter_map(|l| l.link.as_mut()) {
            link.mtu = Bytes(u64::from(mtu) + u64::from(link.overhead)).max(ShaperConfig::new(link.rate).mtu);
        }
    }
}

#[cfg(test)]
mod tests {
    use narrows_qdisc::Framing;

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
    fn only_downloads_come_over_a_link_before_the_box() {
        let auto = Some("auto:where=before".parse().unwrap());
        let s = Options { down: auto, ..minimal() }.settle().unwrap();
        assert_eq!(s.lanes[0].follow.map(|f| f.place), Some(LinkPlace::Before));
        let error = Options { up: auto, ..minimal() }.settle().unwrap_err().to_string();
        assert!(error.starts_with("up = \"auto:where=before\": where=before follows"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_named_with_what_was_expected() {
        for (text, key) in [
            ("down = '600'", "down = '600'"),
            ("donw = '600kbit'", "donw"),
            ("down = 600", "down = 600"),
            ("down = 600", "'600' is not a rate: expected a unit: 600kbit, as sqm means it"),
            ("rate_min = 0", "'0' is not a rate: nothing is sent at 0: leave it out"),
            ("down = '1,5mbit'", "1.5mbit"),
            ("up = true", "true: expected text in quotation marks"),
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
            (Options { decisions_mb: Some(3), ..minimal() }, "decisions_mb"),
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

    #[test]
    fn off_the_loopback_only_where_that_was_said() {
        let settle = |text: &str| {
            let options = Options::parse(&format!("lan = 'a'\nwan = 'b'\ndown = '1mbit'\n{text}")).unwrap();
            options.settle().map(|settings| settings.page.map(|page| page.to_string()))
        };
        for page in ["127.0.0.1:80", "127.9.9.9:80", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
            assert_eq!(settle(&format!("page = '{page}'")).unwrap().as_deref(), Some(page));
        }
        for page in ["0.0.0.0:80", "[::]:80", "192.0.2.1:80"] {
            let error = settle(&format!("page = '{page}'")).unwrap_err().to_string();
            assert!(error.contains("page_for_others = true"), "{error}");
            assert!(settle(&format!("page = '{page}'\npage_for_others = false")).is_err());
            assert_eq!(
                settle(&format!("page = '{page}'\npage_for_others = true")).unwrap().as_deref(),
                Some(page)
            );
        }
        assert_eq!(settle("page_for_others = true").unwrap(), None);
    }
}
