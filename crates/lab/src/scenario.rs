//! Lab scenarios: the thin link, the traffic, and the disciplines to compare, taken from a scenario file.
//! `narrows-scenario` reads and checks the file, the same for lab and simulator.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::ensure;
use narrows_scenario::{Experiment, Transport};
use narrows_units::Rate;
use serde::{Deserialize, Serialize};

mod before;
mod calls;
mod traffic;

pub use before::{Before, Far, ThinWay};
pub use calls::Calls;
pub use traffic::{PageLaw, Traffic, Visits};

/// A span of time in seconds, written as `200ms` or `1.5s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Span(f64);

impl Span {
    /// Converts from seconds.
    #[must_use]
    pub const fn from_secs(s: f64) -> Self {
        Self(s)
    }
    /// Seconds.
    #[must_use]
    pub const fn secs(self) -> f64 {
        self.0
    }
    /// Converts to the standard library's type.
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_secs_f64(self.0)
    }
}

impl From<narrows_units::Duration> for Span {
    fn from(d: narrows_units::Duration) -> Self {
        Self(d.as_secs_f64())
    }
}

impl FromStr for Span {
    type Err = String;
    /// Reads the form in which [`Span`] is displayed, as the lab passes it to its own workers.
    fn from_str(text: &str) -> Result<Self, String> {
        let (number, scale) = match text.strip_suffix("ms") {
            Some(number) => (number, 1e-3),
            None => (text.strip_suffix('s').unwrap_or(text), 1.0),
        };
        let secs = number.parse::<f64>().map_err(|_| format!("'{text}' is no time"))?;
        Ok(Self(secs * scale))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 > 0.0 && self.0 < 1.0 { write!(f, "{}ms", self.0 * 1e3) } else { write!(f, "{}s", self.0) }
    }
}

/// Serde through the text form of a type.
mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub fn serialize<T: Display, S: Serializer>(value: &T, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(value)
    }
    pub fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(d: D) -> Result<T, D::Error> {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}

/// One experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Scenario {
    /// Names the result files; letters, digits, `-` and `_`.
    pub name: String,
    /// Description of the scenario, in a sentence.
    pub about: String,
    /// Rate of the box's link towards the users: the thin one, unless a link lies before the box.
    #[serde(with = "text")]
    pub rate: Rate,
    /// Link before the box; `None` if the box's own link is the thin one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Before>,
    /// Way from the users, if the box holds it to a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<Up>,
    /// Propagation, both ways together, of the middle user; without a link before the box the emulator adds half of the
    /// time each way.
    #[serde(with = "text")]
    pub rtt: Span,
    /// Largest IP packet on every interface.
    pub mtu: u32,
    /// Bytes of link layer per packet, counted by the shaper.
    pub overhead: u32,
    /// Probability that the emulator loses a packet, each way.
    pub loss: f64,
    /// Duration of the load.
    #[serde(with = "text")]
    pub duration: Span,
    /// Time at the beginning that is not counted.
    #[serde(with = "text")]
    pub warmup: Span,
    /// Time within which users start, each at random.
    #[serde(with = "text")]
    pub jitter: Span,
    /// Seeds, with one run for each and for each discipline.
    pub seeds: Vec<u64>,
    /// TCP congestion control of both ends; pinned, because a machine's default may be anything.
    pub congestion_control: String,
    /// QUIC's initial window in packets of 1200 bytes; `None` for quinn's own.
    pub quic_initial_window: Option<u32>,
    /// Way in which `narrows run` takes packets: `nfqueue`, or `packet` for a bridge of its own.
    pub backend: String,
    /// Kernel settings of users and server, as `"net.ipv4.tcp_ecn" = "1"`.
    pub sysctl: BTreeMap<String, String>,
    /// Window scales of the users' TCP, given to users in turn; empty: the kernel's own.
    #[serde(default)]
    pub window_scales: Vec<u8>,
    /// Mean pause of the server's application before an answer; zero for no pause.
    #[serde(with = "text", default)]
    pub server_pause: Span,
    /// Disciplines of the box, with a shaper or without: `fifo:30`, `kernel:cake`, `taq at auto`, ...; see
    /// [`BoxColumn`](crate::column::BoxColumn).
    pub disciplines: Vec<String>,
    /// Groups of users and flows.
    pub traffic: Vec<Traffic>,
    /// Calls, in the order of the file.
    #[serde(default)]
    pub calls: Vec<Calls>,
    /// Number of QUIC connections, the first of a run, whose sender is logged as qlog.
    #[serde(default)]
    pub qlog: usize,
    /// A sentence for each setting of the file that only a simulator can heed.
    #[serde(skip)]
    pub ignored: Vec<String>,
}

/// Way from the users in the box.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Up {
    /// Rate of the way.
    #[serde(with = "text")]
    pub rate: Rate,
    /// Discipline before the way; `None` for that of the way to the users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discipline: Option<String>,
}

/// Largest number of users that a lab can address.
pub const MAX_USERS: u32 = 10_000;
/// Longest run: the lab keeps every user's bytes of every second.
const MAX_SECONDS: f64 = 86_400.0;

impl Scenario {
    /// Reads and checks a file; `sets` are `key=value` replacements, as `duration=30s` or `traffic.0.users=50`.
    ///
    /// # Errors
    /// Names the file, the key and what was expected.
    pub fn load(path: &Path, sets: &[String]) -> anyhow::Result<Self> {
        Self::of(&Experiment::load(path, sets)?)
    }

    /// Reads a scenario from text; `sets` as in [`Scenario::load`].
    ///
    /// # Errors
    /// Names the key and what was expected.
    pub fn parse(text: &str, sets: &[String]) -> anyhow::Result<Self> {
        Self::of(&Experiment::parse(text, sets)?)
    }

    /// Number of users, without those who only make calls.
    #[must_use]
    pub fn users(&self) -> u32 {
        self.traffic.iter().map(Traffic::users).fold(0, u32::saturating_add)
    }

    /// Whether anybody speaks TLS or QUIC.
    #[must_use]
    pub fn secure(&self) -> bool {
        self.traffic.iter().any(|t| t.transport() != Transport::Tcp)
    }

    /// Whether anybody speaks HTTP.
    #[must_use]
    pub fn web(&self) -> bool {
        self.traffic.iter().any(|t| t.http().is_some())
    }

    /// The users who are browsers.
    #[must_use]
    pub fn browsers(&self) -> Vec<u32> {
        let is_one = |group: &Traffic| matches!(group, Traffic::Browser { .. });
        Traffic::groups(&self.traffic)
            .filter(|(_, group)| is_one(group))
            .flat_map(|(users, _)| users)
            .collect()
    }

    /// Transport of a user's data; TCP for a user of no group.
    #[must_use]
    pub fn transport(&self, user: u32) -> Transport {
        self.group(user).map_or(Transport::Tcp, Traffic::transport)
    }

    /// Group that a user belongs to.
    #[must_use]
    pub fn group(&self, user: u32) -> Option<&Traffic> {
        Traffic::groups(&self.traffic).find(|(users, _)| users.contains(&user)).map(|(_, group)| group)
    }

    fn of(experiment: &Experiment) -> anyhow::Result<Self> {
        let lab = experiment.for_lab()?;
        let (s, thin) = (lab.scenario, lab.thin);
        let (calls, users) = Calls::of(&s);
        let scenario = Self {
            name: s.name,
            about: s.about,
            rate: thin.rate,
            before: lab.before.as_ref().map(Before::of),
            up: lab.up.map(|up| Up { rate: up.rate, discipline: up.discipline.map(|d| d.to_string()) }),
            rtt: Span::from_secs(f64::midpoint(thin.rtt.0.as_secs_f64(), thin.rtt.1.as_secs_f64())),
            mtu: s.mtu,
            overhead: thin.overhead,
            loss: thin.loss,
            duration: s.duration.into(),
            warmup: s.warmup.into(),
            jitter: s.jitter.into(),
            seeds: experiment.seeds.clone(),
            congestion_control: s.lab.congestion_control,
            quic_initial_window: s.lab.quic_initial_window,
            backend: s.lab.backend,
            sysctl: s.lab.sysctl,
            window_scales: s.lab.window_scales,
            server_pause: s.lab.server_pause.into(),
            disciplines: lab.disciplines,
            traffic: s.traffic.iter().filter_map(|t| Traffic::of(t, lab.servers)).collect(),
            calls,
            qlog: s.probes.qlog,
            ignored: lab.ignored,
        };
        ensure!(
            (1.0..=MAX_SECONDS).contains(&scenario.duration.secs()),
            "duration = '{}': expected 1s to {MAX_SECONDS}s in the lab",
            scenario.duration
        );
        ensure!(
            users <= MAX_USERS,
            "traffic: {users} users and long flows together: expected at most {MAX_USERS} in the lab"
        );
        if let (Some(link), [_, ..]) = (&scenario.before, &scenario.calls[..]) {
            anyhow::bail!(
                "traffic: kind = \"calls\" with the link '{}' before the box: the lab measures calls beyond one \
                 propagation, as rate and rtt tell it; 'narrows sim' has both",
                link.name
            );
        }
        Ok(scenario)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        name = "t"
        rate = "600kbit"
        rtt = "200ms"
        disciplines = ["fifo:30"]
        [[traffic]]
        kind = "objects"
        users = 100
        [[traffic]]
        kind = "long"
        flows = 2
    "#;

    #[test]
    fn a_file_and_what_it_leaves_out() {
        let s = Scenario::parse(FILE, &[]).unwrap();
        assert_eq!((s.users(), s.mtu, s.overhead), (102, 1500, 14));
        assert_eq!((s.rtt, s.duration, s.warmup), (Span(0.2), Span(120.0), Span(0.0)));
        assert_eq!((s.congestion_control.as_str(), s.backend.as_str()), ("cubic", "nfqueue"));
        assert_eq!((s.jitter, s.seeds.as_slice(), s.ignored.len()), (Span(2.0), [1].as_slice(), 0));
        // The traffic sent to workers reads back unchanged.
        let told = serde_json::to_string(&s.traffic).unwrap();
        let again: Vec<Traffic> = serde_json::from_str(&told).unwrap();
        assert_eq!(format!("{again:?}"), format!("{:?}", s.traffic));
    }

    #[test]
    fn calls_are_by_users_of_others_or_of_their_own() {
        let calls = "[[traffic]]\nkind='calls'\nflows=2\n[[traffic]]\nkind='calls'\nflows=3\nname='beside'\n\
                     beside='long'\ndscp='ef'\nstart='5s'\n[[traffic]]\nkind='objects'\nname='more'\nusers=1";
        let s = Scenario::parse(&format!("{FILE}{calls}").replace("flows = 2", "flows = 4"), &[]).unwrap();
        // 100 objects, 4 long, one more object; then two who call.
        assert_eq!((s.users(), s.calls[0].first, s.calls[1].first), (105, 105, 100));
        assert_eq!((s.calls[0].flows, s.calls[1].dscp, s.calls[1].start), (2, 46, Span(5.0)));
        assert!(s.ignored.iter().all(|i| !i.contains("traffic.3")), "{:?}", s.ignored);
        let told = serde_json::to_string(&s.calls).unwrap();
        let again: Vec<Calls> = serde_json::from_str(&told).unwrap();
        assert_eq!(again[0].call(), s.calls[0].call());
    }

    #[test]
    fn replacements_reach_into_tables_and_arrays() {
        let set = |s: &str| Scenario::parse(FILE, &[s.to_owned()]);
        assert_eq!(set("duration=30s").unwrap().duration, Span(30.0));
        assert_eq!(set("traffic.0.users=7").unwrap().users(), 9);
        assert_eq!(set("seeds=[4, 5]").unwrap().seeds, [4, 5]);
        assert_eq!(set("disciplines.0=taq").unwrap().disciplines, ["taq"]);
        assert!(format!("{:#}", set("traffic.7.users=7").unwrap_err()).contains("0 to 1"));
    }

    #[test]
    fn wrong_files_name_the_key() {
        for (find, put, says) in [
            ("rate = \"600kbit\"", "rate = \"600\"", "kbit"),
            ("rtt = \"200ms\"", "rtt = \"200\"", "200ms"),
            ("users = 100", "users = 0\n[[traffic]]\nkind = \"long\"\nflows = 20000", "users"),
            ("users = 100", "users = 20000", "20002 users and long flows together: expected at most 10000"),
            ("users = 100", "user = 100", "user"),
            ("kind = \"long\"", "kind = \"lang\"", "lang"),
            ("kind = \"long\"", "kind = \"telnet\"", "expected objects or long"),
            ("name = \"t\"", "name = \"../t\"", "name"),
            ("name = \"t\"", "name = \"t\"\nwarmup = \"200s\"", "warmup"),
            ("name = \"t\"", "name = \"t\"\nduration = \"100ms\"", "duration = '100ms': expected 1s"),
            ("name = \"t\"", "name = \"t\"\nmtu = 9", "mtu"),
            ("name = \"t\"", "name = \"t\"\nqueue = 9", "queue"),
            ("name = \"t\"", "name = \"t\"\nbackend = \"tun\"", "nfqueue, packet"),
            ("name = \"t\"", "name = \"t\"\nsysctl = { \"kernel.x\" = \"1\" }", "kernel.x"),
        ] {
            let e = format!("{:#}", Scenario::parse(&FILE.replace(find, put), &[]).unwrap_err());
            assert!(e.contains(says), "{put}: {e}");
        }
    }

    #[test]
    fn what_only_a_simulator_heeds_is_told() {
        let s = Scenario::parse(&format!("dephase = \"30ms\"\n{FILE}"), &[]).unwrap();
        assert_eq!(s.ignored.len(), 1);
        assert!(s.ignored[0].starts_with("dephase: not heeded by the lab"), "{:?}", s.ignored);
    }
}
