//! Options of the box as a table. Each row gives the key of a settings file, the flag of `narrows run`, their entry in
//! the manual and in the reference, the rule by which a flag wins over a file, and what a reload does.

use std::ffi::OsStr;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail};
use narrows_qdisc::Framing;
use narrows_qdisc::follow::LinkRate;
use narrows_units::Rate;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::{BackendKind, NamedSpec, Settings};
use crate::circuits_from::CircuitsFrom;
use crate::rate_from::RateFrom;
use crate::rules::Filter;

/// Form of an option on a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One word.
    Text,
    /// Words with commas between.
    List,
    /// A path.
    Path,
    /// No word: the flag alone says yes.
    Switch,
}

/// Effect of an option that differs when settings are read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// Adopted while packets flow.
    Live,
    /// Tell people that the option has changed, and use the new value after the next start.
    Restart,
}

/// Reach of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A link: a `[[link]]` table may have the option.
    Link,
    /// All links of the process: the option stands above the first `[[link]]`.
    Process,
}

/// Row of the table: an option.
#[derive(Debug)]
pub struct OptionRow {
    /// Key in a settings file; the flag has `-` for `_`.
    pub name: &'static str,
    /// Form on a command line.
    pub shape: Shape,
    /// Name of the value in the manual; empty for a switch.
    pub value: &'static str,
    /// Least and greatest value of an option that is a number.
    pub range: Option<(u32, u32)>,
    /// Value where none is given; empty if there is none, or the sentence tells it.
    pub default: &'static str,
    /// Effect of a reload.
    pub reload: Reload,
    /// Whether the option is of a link or of the process.
    pub scope: Scope,
    /// Meaning of the option.
    pub help: &'static str,
    read: fn(&mut Options, &OsStr) -> Result<(), String>,
    is_given: fn(&Options) -> bool,
    restart: fn(&Settings, &mut Settings) -> bool,
}

impl OptionRow {
    /// Whether a command line has it: the name of a link is for tables alone.
    #[must_use]
    pub fn is_flag(&self) -> bool {
        self.name != "name"
    }

    /// The flag, without dashes in front.
    #[must_use]
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// Meaning and default, for a manual.
    #[must_use]
    pub fn text(&self) -> String {
        match self.default {
            "" => self.help.to_owned(),
            default => format!("{} [default: {default}]", self.help),
        }
    }

    /// Sets the option, or adds to it where it is a list.
    ///
    /// # Errors
    /// Tells what was expected.
    pub fn set(&self, options: &mut Options, text: &OsStr) -> Result<(), String> {
        (self.read)(options, text)
    }

    /// Whether the option is given.
    #[must_use]
    pub fn is_given(&self, options: &Options) -> bool {
        (self.is_given)(options)
    }
}

/// Type of an option's value, with the ways to read the value from a command line and from TOML.
trait Value: Sized {
    const SHAPE: Shape;
    /// Reads the word of a flag, over what was there before.
    fn read(text: &OsStr, before: Option<Self>) -> Result<Self, String>;
    fn from_toml<'de, D: Deserializer<'de>>(d: D) -> Result<Self, D::Error>;
}

fn words(text: &OsStr) -> Result<&str, String> {
    text.to_str().ok_or_else(|| "expected UTF-8".to_owned())
}

fn parsed<T: FromStr<Err: fmt::Display>>(text: &OsStr) -> Result<T, String> {
    words(text)?.parse().map_err(|error: T::Err| error.to_string())
}

/// Reads a value of TOML that `expected` describes, with an error in these words for any other.
fn only<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D, expected: &str) -> Result<T, D::Error> {
    let value = toml::Value::deserialize(d)?;
    let given = value.to_string();
    value.try_into().map_err(|_| Error::custom(format!("{given}: expected {expected}")))
}

/// Types that are text in TOML.
macro_rules! texts {
    ($($kind:ty, $expected:literal;)*) => {$(
        impl Value for $kind {
            const SHAPE: Shape = Shape::Text;
            fn read(text: &OsStr, _: Option<Self>) -> Result<Self, String> {
                parsed(text)
            }
            fn from_toml<'de, D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                only::<D, String>(d, concat!("text in quotation marks, as ", $expected))?.parse().map_err(Error::custom)
            }
        }
    )*};
}

/// Types that TOML has itself.
macro_rules! natives {
    ($($kind:ty: $shape:ident, $expected:literal, $read:expr;)*) => {$(
        impl Value for $kind {
            const SHAPE: Shape = Shape::$shape;
            fn read(text: &OsStr, _: Option<Self>) -> Result<Self, String> {
                ($read)(text)
            }
            fn from_toml<'de, D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                only(d, $expected)
            }
        }
    )*};
}

texts! {
    NamedSpec, r#""taq""#;
    BackendKind, r#""nfqueue""#;
    Filter, r#""nft""#;
    RateFrom, r#""/run/modem/rate""#;
    CircuitsFrom, r#""unix:/run/narrows/circuits.sock""#;
    Framing, r#""atm""#;
}

/// Rates: text in TOML too. A number is refused as the same text is, with the unit that it lacks.
macro_rules! rates {
    ($($kind:ty),*) => {$(
        impl Value for $kind {
            const SHAPE: Shape = Shape::Text;
            fn read(text: &OsStr, _: Option<Self>) -> Result<Self, String> {
                parsed(text)
            }
            fn from_toml<'de, D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = match toml::Value::deserialize(d)? {
                    toml::Value::String(text) => text,
                    toml::Value::Integer(number) => number.to_string(),
                    toml::Value::Float(number) => number.to_string(),
                    other => {
                        let expected = r#"expected text in quotation marks, as "600kbit""#;
                        return Err(Error::custom(format!("{other}: {expected}")));
                    }
                };
                text.parse().map_err(Error::custom)
            }
        }
    )*};
}

rates!(LinkRate, Rate);

natives! {
    String: Text, "text in quotation marks", parsed;
    u32: Text, "a whole number, 0 or more", parsed;
    u16: Text, "a whole number from 0 to 65535", parsed;
    bool: Switch, "true or false", |_| Ok(true);
    PathBuf: Path, "a path in quotation marks", |text| Ok(PathBuf::from(text));
}

/// Reads the address of a page.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("'{text}': expected an address and a port, as 127.0.0.1:8088 or [::1]:8088"))
}

impl Value for SocketAddr {
    const SHAPE: Shape = Shape::Text;
    fn read(text: &OsStr, _: Option<Self>) -> Result<Self, String> {
        address(words(text)?)
    }
    fn from_toml<'de, D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        address(&only::<D, String>(d, "text in quotation marks, as \"127.0.0.1:8088\"")?)
            .map_err(Error::custom)
    }
}

impl Value for Vec<String> {
    const SHAPE: Shape = Shape::List;
    fn read(text: &OsStr, before: Option<Self>) -> Result<Self, String> {
        let more = words(text)?.split(',').map(str::to_owned);
        Ok(before.into_iter().flatten().chain(more).collect())
    }
    fn from_toml<'de, D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected the name of an interface, or a list of names")]
        enum Names {
            One(String),
            More(Vec<String>),
        }
        Ok(match Names::deserialize(d)? {
            Names::One(name) => vec![name],
            Names::More(names) => names,
        })
    }
}

fn given<'de, D: Deserializer<'de>, T: Value>(d: D) -> Result<Option<T>, D::Error> {
    T::from_toml(d).map(Some)
}

/// Effect of a reload on one field of the settings. Whatever is not kept is adopted.
macro_rules! restart {
    (live $name:ident) => {
        |_, _| false
    };
    (restart $name:ident) => {
        |old, new| {
            let differs = old.$name != new.$name;
            new.$name.clone_from(&old.$name);
            differs
        }
    };
}

/// The table: `name: Type "VALUE" (least to most) [default] reach reload "meaning."`, in the order of the manual. An
/// option that needs a restart has a field of its name in [`Settings`].
macro_rules! options {
    ($($name:ident: $kind:ty, $value:literal $(($least:literal to $most:literal))? [$($default:literal)?]
       $scope:ident $reload:ident $help:literal;)*) => {
        /// Options as given, by flags or in a file; those left out take their defaults.
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Options {
            $(
                #[doc = $help]
                #[serde(deserialize_with = "given")]
                pub $name: Option<$kind>,
            )*
            /// Several links. A table has what stands above it unless it says otherwise.
            pub link: Vec<Self>,
        }

        /// All options.
        pub const TABLE: &[OptionRow] = &[$(OptionRow {
            name: stringify!($name),
            shape: <$kind as Value>::SHAPE,
            value: $value,
            range: options!(@range $($least $most)?),
            default: concat!($($default)?),
            reload: options!(@reload $reload),
            scope: Scope::$scope,
            help: $help,
            read: |options, text| {
                let before = options.$name.take();
                <$kind as Value>::read(text, before).map(|value| options.$name = Some(value))
            },
            is_given: |options| options.$name.is_some(),
            restart: restart!($reload $name),
        },)*];

        /// Keys of a settings file.
        pub const KEYS: &[&str] = &[$(stringify!($name),)* "link"];

        impl Options {
            /// Merges two sets of options; `self` wins.
            #[must_use]
            pub fn or(self, other: Self) -> Self {
                Self {
                    $($name: self.$name.or(other.$name),)*
                    link: if self.link.is_empty() { other.link } else { self.link },
                }
            }

            /// Checks that each option that is a number lies in the option's range.
            pub(super) fn check_ranges(&self) -> anyhow::Result<()> {
                $($(
                    if let Some(value) = self.$name && !($least..=$most).contains(&value) {
                        bail!(
                            "{} = {value}: expected {} to {}: {}",
                            stringify!($name), $least, $most, $help
                        );
                    }
                )?)*
                Ok(())
            }
        }
    };
    (@range) => { None };
    (@range $least:literal $most:literal) => { Some(($least, $most)) };
    (@reload live) => { Reload::Live };
    (@reload restart) => { Reload::Restart };
}

options! {
    lan: Vec<String>, "IF" [] Link restart
        "Interface of the users, or several with commas between; + at the end of a name stands for any ending";
    wan: String, "IF" [] Link restart
        "Interface of the wide network";
    down: LinkRate, "RATE" [] Link live
        "Rate of the link to the users, as 600kbit; auto: found and followed, whether the link is before \
         the box or behind it; auto:where=before or behind: the side is known; without it that direction is not shaped";
    up: LinkRate, "RATE" [] Link live
        "Rate of the link from the users, as 600kbit or auto (found and followed); without it that direction is not \
         shaped";
    discipline: NamedSpec, "SPEC" ["taq"] Link live
        "Discipline of both directions, as taq, taq:mode=paper or fifo:30";
    down_discipline: NamedSpec, "SPEC" [] Link live
        "Discipline towards the users, in place of discipline";
    up_discipline: NamedSpec, "SPEC" [] Link live
        "Discipline from the users, in place of discipline";
    overhead: u32, "BYTES" (0 to 1000) ["0"] Link live
        "Bytes the link adds to each IP packet: 14 for Ethernet, 18 for cable (DOCSIS), 30 for VDSL with PPPoE";
    mpu: u32, "BYTES" (0 to 256) ["0"] Link live
        "Smallest size that a packet counts, overhead included: 64 for a cable modem (DOCSIS)";
    framing: Framing, "KIND" ["none"] Link live
        "Cells or blocks of the link layer: none, atm (ADSL) or ptm (VDSL)";
    backend: BackendKind, "KIND" ["nfqueue"] Link restart
        "Source of packets; nfqueue: the kernel's forwarding path; packet: join the interfaces at layer 2; xdp: \
         between two ports of a bridge, by AF_XDP";
    queue: u16, "N" (0 to 65534) [] Link restart
        "First of two NFQUEUE numbers; by default two free ones";
    rules: Filter, "WHO" ["auto"] Link restart
        "Keeper of the rules that lead packets to the box: auto, nft (the kernel's nftables) or iptables";
    local: bool, "" [] Link restart
        "Also queue this machine's own traffic over the WAN interface";
    observe: bool, "" [] Link live
        "Follow connections and report, and let packets pass unchanged";
    realtime: bool, "" [] Process restart
        "Let the kernel run the box before ordinary programs (SCHED_FIFO)";
    http_503: bool, "" [] Link live
        "Answer plain HTTP of users who wait for admission with status 503 and their position";
    control: PathBuf, "PATH" ["/run/narrows/LAN-WAN.sock"] Process restart
        "Path of the control socket, for narrows status and others";
    page: SocketAddr, "ADDR:PORT" [] Process restart
        "Address of a status page over HTTP, as 127.0.0.1:8088";
    page_for_others: bool, "" [] Link live
        "Serve the status page to other machines too: they see totals and their own place in the wait queue";
    state_dir: PathBuf, "DIR" ["/run/narrows"] Process restart
        "Directory in which the box notes what it changed on this machine";
    circuits: PathBuf, "FILE" [] Link live
        "File of users with names and rates, in the columns of ShapedDevices.csv; read again on SIGHUP";
    circuits_from: CircuitsFrom, "SOCKET" [] Link restart
        "Socket on which another program tells circuits in lines as \"circuit NAME ADDRESS DOWN UP\" and \
         \"gone NAME\", as unix:/run/narrows/circuits.sock; each line is answered with one";
    default_down: Rate, "RATE" [] Link live
        "Rate down of each user who is in no circuit; without it such a user has a share of the link";
    default_up: Rate, "RATE" [] Link live
        "Rate up of each user who is in no circuit; without it such a user has a share of the link";
    sites: PathBuf, "FILE" [] Link live
        "File of sites with rates, at which circuits hang by their Parent Node, like network.json of LibreQoS; read \
         again on SIGHUP";
    strict: bool, "" [] Link live
        "Refuse files of circuits and sites in which anything cannot be used as it is; by default such a row is left \
         out and told";
    leases: PathBuf, "FILE" [] Link live
        "File of DHCP leases (dnsmasq or ISC dhcpd) that names users in status and pages; read again when it changes";
    user: String, "NAME" ["narrows, where there is such a user"] Process restart
        "System user that the box becomes once it is set up; root to stay root";
    rate_from: RateFrom, "FILE" [] Link restart
        "Source of rates that another program tells in lines as \"down 2mbit\": a file, looked at each second, or \
         unix:PATH for a socket of datagrams";
    rate_min: Rate, "RATE" ["8kbit"] Link live
        "Lower bound for the rates of rate_from";
    rate_max: Rate, "RATE" ["10gbit"] Link live
        "Upper bound for the rates of rate_from";
    decisions: PathBuf, "FILE" [] Process restart
        "File to which decisions of auto are written as CSV, each with its time, rate, signals and reason; the lines \
         before them are in FILE.1";
    decisions_mb: u32, "MB" (1 to 10000) ["4"] Process restart
        "Most that the file of decisions and FILE.1 take together, megabytes";
    name: String, "TEXT" [] Link live
        "Name of a link in status and log, given in its [[link]] table; without it LAN-WAN";
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
            bail!(
                "{line}{key}: no such key: expected {}",
                narrows_settings::one_of(key, KEYS.iter().copied())
            );
        }
        Ok(toml::from_str(text)?)
    }

    /// First option given here that is the whole process's.
    pub(super) fn of_the_process(&self) -> Option<&'static str> {
        let own = TABLE.iter().find(|row| row.scope == Scope::Process && row.is_given(self));
        own.map(|row| row.name)
    }
}

impl Settings {
    /// Takes over from `new` all that can change while packets flow. Returns the options that differ and cannot.
    pub fn adopt(&mut self, new: &Self) -> Vec<&'static str> {
        let mut adopted = new.clone();
        let differ =
            TABLE.iter().filter(|row| (row.restart)(self, &mut adopted)).map(|row| row.name).collect();
        for (lane, old) in adopted.lanes.iter_mut().zip(&self.lanes) {
            (lane.seed, lane.record) = (old.seed, old.record);
        }
        adopted.set_mtu(self.mtu);
        *self = adopted;
        differ
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use narrows_qdisc::follow::{DECISION_COLUMNS, DecisionReason};

    use super::*;

    /// The table as the reference has it.
    fn markdown() -> String {
        let mut text = "| key | value | default | reload | meaning |\n|---|---|---|---|---|\n".to_owned();
        for row in TABLE {
            let value = match (row.range, row.shape) {
                (Some((least, most)), _) => format!("{least} to {most}"),
                (None, Shape::Switch) => "true, false".to_owned(),
                (None, _) => row.value.to_owned(),
            };
            let default = if row.shape == Shape::Switch { "false" } else { row.default };
            let reload = if row.reload == Reload::Live { "adopted" } else { "restart" };
            let scope = if row.scope == Scope::Process { "; one for all links" } else { "" };
            let help = row.help;
            let _ = writeln!(text, "| `{}` | {value} | {default} | {reload} | {help}{scope} |", row.name);
        }
        text
    }

    /// The columns and the reasons of a file of decisions as the reference has them.
    fn decisions() -> String {
        let mut text = "| column | meaning |\n|---|---|\n".to_owned();
        for (name, meaning) in DECISION_COLUMNS {
            let _ = writeln!(text, "| `{name}` | {meaning} |");
        }
        text += "\n| reason | in a sentence |\n|---|---|\n";
        for reason in DecisionReason::ALL {
            let _ = writeln!(text, "| `{}` | {reason} |", reason.name());
        }
        text
    }

    #[test]
    fn the_reference_lists_options_and_decisions_as_they_are() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/box.md");
        for (name, table) in [("options", markdown()), ("decisions", decisions())] {
            let text = std::fs::read_to_string(&path).unwrap();
            let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
            let begin = text.find(&open).unwrap() + open.len();
            let end = text.find(&close).unwrap();
            if std::env::var_os("NARROWS_WRITE").is_some() {
                std::fs::write(&path, format!("{}{table}{}", &text[..begin], &text[end..])).unwrap();
                continue;
            }
            let writes = "NARROWS_WRITE=1 cargo test -p narrows-box --lib the_reference writes it";
            assert_eq!(text[begin..end], table, "{writes}");
        }
    }

    /// Errors say what to write, in words of settings and not of Rust.
    #[test]
    fn a_wrong_value_is_told_what_to_write() {
        let error = |text: &str| toml::from_str::<Options>(text).unwrap_err().to_string();
        for (text, says) in [
            ("overhead = -5", "-5: expected a whole number, 0 or more"),
            ("overhead = \"14\"", "\"14\": expected a whole number, 0 or more"),
            ("queue = 70000", "70000: expected a whole number from 0 to 65535"),
            ("down = 600", "'600' is not a rate: expected a unit: 600kbit, as sqm means it"),
            ("down = true", "true: expected text in quotation marks, as \"600kbit\""),
            ("local = \"yes\"", "\"yes\": expected true or false"),
            ("page = \"8088\"", "'8088': expected an address and a port, as 127.0.0.1:8088 or [::1]:8088"),
        ] {
            let told = error(text);
            assert!(told.contains(says) && told.contains("line 1, column"), "{told}");
        }
    }

    #[test]
    fn a_help_text_can_be_read_alone() {
        let clipped = ["And", "Nor", "So", "The", "Those", "Of", "That", "Whom", "What", "No"];
        for row in TABLE {
            let first = row.help.split_whitespace().next().unwrap();
            assert!(!clipped.contains(&first) && first.starts_with(char::is_uppercase), "{row:?}");
        }
    }

    #[test]
    fn a_flag_reads_as_the_file_does() {
        let words = |name: &str| match name {
            "lan" => "lan0,lan1",
            "down" | "up" | "rate_min" | "rate_max" | "default_down" | "default_up" => "600kbit",
            "discipline" | "down_discipline" | "up_discipline" => "fifo:30",
            "overhead" | "mpu" | "queue" | "decisions_mb" => "40",
            "framing" => "atm",
            "backend" => "packet",
            "rules" => "nft",
            "page" => "127.0.0.1:80",
            _ => "word",
        };
        for row in TABLE {
            let text = words(row.name);
            let mut flags = Options::default();
            row.set(&mut flags, text.as_ref()).unwrap();
            assert!(row.is_given(&flags), "{row:?}");
            let value = match (row.range, row.shape) {
                (Some(_), _) => text.to_owned(),
                (None, Shape::Switch) => "true".to_owned(),
                (None, Shape::List) => format!("{:?}", text.split(',').collect::<Vec<_>>()),
                (None, _) => format!("{text:?}"),
            };
            let file = Options::parse(&format!("{} = {value}", row.name)).unwrap();
            assert_eq!(format!("{flags:?}"), format!("{file:?}"));
        }
    }
}
