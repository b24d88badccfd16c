//! What a lab file says: the link, the traffic, the disciplines to compare.
//!
//! Unknown keys and impossible values are errors that name the file, the key and what was expected.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use narrows_units::Rate;
use serde::{Deserialize, Serialize};

/// A span of time as people write it: `200ms`, `1.5s`, `100us`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Span(f64);

impl Span {
    /// From seconds.
    #[must_use]
    pub const fn from_secs(s: f64) -> Self {
        Self(s)
    }
    /// Seconds.
    #[must_use]
    pub const fn secs(self) -> f64 {
        self.0
    }
    /// As the standard library has it.
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_secs_f64(self.0)
    }
}

impl FromStr for Span {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("'{text}' is not a time: expected a number and a unit, as in 200ms, 120s or 2min");
        let t = text.trim();
        let at = t.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(wrong)?;
        let scale = match t[at..].trim() {
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "min" => 60.0,
            _ => return Err(wrong()),
        };
        let secs = t[..at].parse::<f64>().map_err(|_| wrong())? * scale;
        // A day: beyond any run this is for.
        if secs > 86_400.0 {
            return Err(wrong());
        }
        Ok(Self(secs))
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
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Names the result files; letters, digits, `-` and `_`.
    pub name: String,
    /// What it shows, for people.
    #[serde(default)]
    pub about: String,
    /// Rate of the thin link towards the users, as `600kbit`.
    #[serde(with = "text")]
    pub rate: Rate,
    /// Propagation, both ways together; the emulator adds half of it each way.
    #[serde(with = "text", default)]
    pub rtt: Span,
    /// Largest IP packet on every interface.
    #[serde(default = "default_mtu")]
    pub mtu: u32,
    /// Bytes of link layer per packet, counted by the shaper.
    #[serde(default = "default_overhead")]
    pub overhead: u32,
    /// Probability that the emulator loses a packet, each way.
    #[serde(default)]
    pub loss: f64,
    /// How long the load lasts.
    #[serde(with = "text", default = "default_duration")]
    pub duration: Span,
    /// How much of the beginning is not counted.
    #[serde(with = "text", default)]
    pub warmup: Span,
    /// Users start at random within this time.
    #[serde(with = "text", default = "default_jitter")]
    pub jitter: Span,
    /// One run per seed and discipline.
    #[serde(default = "default_seeds")]
    pub seeds: Vec<u64>,
    /// TCP congestion control of both ends; pinned, because a machine's default may be anything.
    #[serde(default = "default_congestion_control")]
    pub congestion_control: String,
    /// How `narrows run` takes packets: `nfqueue`, or `packet` for a bridge of its own.
    #[serde(default = "default_backend")]
    pub backend: String,
    /// Kernel settings of users and server, as `"net.ipv4.tcp_ecn" = "1"`.
    #[serde(default)]
    pub sysctl: BTreeMap<String, String>,
    /// What stands in the box: `fifo:30`, `taq`, `kernel:cake`, ...
    pub disciplines: Vec<String>,
    /// Who asks for what.
    pub traffic: Vec<Traffic>,
}

const fn default_mtu() -> u32 {
    1500
}
const fn default_overhead() -> u32 {
    14
}
const fn default_duration() -> Span {
    Span(120.0)
}
const fn default_jitter() -> Span {
    Span(2.0)
}
fn default_seeds() -> Vec<u64> {
    vec![1]
}
fn default_backend() -> String {
    "nfqueue".to_owned()
}
fn default_congestion_control() -> String {
    "cubic".to_owned()
}
const fn one() -> u32 {
    1
}

/// A group of users that do the same.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Traffic {
    /// Closed-loop users: each connection fetches one object after another, a new connection each time.
    Objects {
        /// How many users, each with an address of its own.
        users: u32,
        /// Parallel connections per user.
        #[serde(default = "one")]
        connections: u32,
        /// Pause between objects: the mean of an exponential draw.
        #[serde(with = "text", default)]
        think: Span,
    },
    /// Connections that send for the whole run, each to a user of its own.
    Long {
        /// How many.
        flows: u32,
    },
}

impl Traffic {
    /// Addresses it takes.
    #[must_use]
    pub const fn users(&self) -> u32 {
        match self {
            Self::Objects { users, .. } => *users,
            Self::Long { flows } => *flows,
        }
    }
}

/// Most users a lab can address.
pub const MAX_USERS: u32 = 10_000;

impl Scenario {
    /// Reads and checks a file; `sets` are `key=value` replacements, as `duration=30s` or `traffic.0.users=50`.
    ///
    /// # Errors
    /// Names the file, the key and what was expected.
    pub fn load(path: &Path, sets: &[String]) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| {
            format!("{}: cannot be read; expected a lab scenario in TOML", path.display())
        })?;
        Self::parse(&text, sets).with_context(|| path.display().to_string())
    }

    /// The same from text.
    ///
    /// # Errors
    /// Names the key and what was expected.
    pub fn parse(text: &str, sets: &[String]) -> anyhow::Result<Self> {
        let scenario: Self = if sets.is_empty() {
            // Straight from the text, so that an error shows the line.
            toml::from_str(text)?
        } else {
            let mut table: toml::Table = toml::from_str(text)?;
            for set in sets {
                let (key, value) =
                    set.split_once('=').with_context(|| format!("--set {set}: expected key=value"))?;
                replace(&mut toml::Value::Table(std::mem::take(&mut table)), key.trim(), value.trim())
                    .map(|t| table = t)
                    .with_context(|| format!("--set {set}"))?;
            }
            table.try_into()?
        };
        scenario.check()?;
        Ok(scenario)
    }

    /// All users together.
    #[must_use]
    pub fn users(&self) -> u32 {
        self.traffic.iter().map(Traffic::users).fold(0, u32::saturating_add)
    }

    fn check(&self) -> anyhow::Result<()> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        ensure!(
            !self.name.is_empty() && self.name.chars().all(plain),
            "name = '{}': expected letters, digits, '-' and '_', because result files are called so",
            self.name
        );
        ensure!((296..=9000).contains(&self.mtu), "mtu = {}: expected 296 to 9000 bytes", self.mtu);
        ensure!(self.overhead <= 200, "overhead = {}: expected 0 to 200 bytes", self.overhead);
        ensure!((0.0..1.0).contains(&self.loss), "loss = {}: expected 0 up to but not 1", self.loss);
        ensure!(
            self.duration.secs() >= 1.0 && self.warmup < self.duration,
            "duration = '{}': expected at least 1s and more than warmup = '{}'",
            self.duration,
            self.warmup
        );
        ensure!(self.jitter < self.duration, "jitter = '{}': expected less than the duration", self.jitter);
        ensure!(
            matches!(self.backend.as_str(), "nfqueue" | "packet"),
            "backend = '{}': expected nfqueue or packet",
            self.backend
        );
        for (key, value) in &self.sysctl {
            let plain = |s: &str| s.chars().all(|c| c.is_ascii_alphanumeric() || "._- ".contains(c));
            ensure!(
                key.starts_with("net.") && plain(key) && plain(value),
                "sysctl.\"{key}\" = '{value}': expected a setting of the network, as \"net.ipv4.tcp_ecn\" = \"1\""
            );
        }
        ensure!(!self.seeds.is_empty(), "seeds = []: expected at least one number");
        ensure!(!self.disciplines.is_empty(), "disciplines = []: expected at least one, as [\"fifo:30\"]");
        ensure!(
            self.rtt.secs() <= 10.0,
            "rtt = '{}': expected at most 10s of propagation, both ways together",
            self.rtt
        );
        let users = self.users();
        if users == 0 || users > MAX_USERS {
            bail!("traffic: {users} users and long flows together; expected 1 to {MAX_USERS}");
        }
        for t in &self.traffic {
            if let Traffic::Objects { connections, .. } = t {
                ensure!(
                    (1..=64).contains(connections),
                    "traffic.connections = {connections}: expected 1 to 64"
                );
            }
        }
        Ok(())
    }
}

/// Puts `value` at the dotted `key`; numbers count into arrays.
fn replace(root: &mut toml::Value, key: &str, value: &str) -> anyhow::Result<toml::Table> {
    let parsed: toml::Value = toml::from_str::<toml::Table>(&format!("v = {value}"))
        .ok()
        .and_then(|mut t| t.remove("v"))
        .unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let mut at = &mut *root;
    let parts: Vec<&str> = key.split('.').collect();
    for (i, part) in parts.iter().enumerate() {
        let last = i + 1 == parts.len();
        at = match at {
            toml::Value::Table(t) if last => {
                t.insert((*part).to_owned(), parsed.clone());
                break;
            }
            toml::Value::Table(t) => t.get_mut(*part).with_context(|| format!("no key '{part}'"))?,
            toml::Value::Array(a) => {
                let len = a.len();
                part.parse::<usize>().ok().and_then(|n| a.get_mut(n)).with_context(|| {
                    format!("'{part}': expected a place in the array, 0 to {}", len.saturating_sub(1))
                })?
            }
            _ => bail!("'{part}': the key before it holds neither a table nor an array"),
        };
        if last {
            *at = parsed.clone();
        }
    }
    match root {
        toml::Value::Table(t) => Ok(std::mem::take(t)),
        _ => bail!("expected a table"),
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
        assert_eq!(s.congestion_control, "cubic");
        let again = Scenario::parse(&toml::to_string(&s).unwrap(), &[]).unwrap();
        assert_eq!(format!("{again:?}"), format!("{s:?}"));
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
            ("users = 100", "user = 100", "user"),
            ("kind = \"long\"", "kind = \"lang\"", "lang"),
            ("name = \"t\"", "name = \"../t\"", "name"),
            ("name = \"t\"", "name = \"t\"\nwarmup = \"200s\"", "warmup"),
            ("name = \"t\"", "name = \"t\"\nmtu = 9", "mtu"),
            ("name = \"t\"", "name = \"t\"\nqueue = 9", "queue"),
            ("name = \"t\"", "name = \"t\"\nbackend = \"tun\"", "nfqueue or packet"),
            ("name = \"t\"", "name = \"t\"\nsysctl = { \"kernel.x\" = \"1\" }", "kernel.x"),
        ] {
            let e = format!("{:#}", Scenario::parse(&FILE.replace(find, put), &[]).unwrap_err());
            assert!(e.contains(says), "{put}: {e}");
        }
    }
}
