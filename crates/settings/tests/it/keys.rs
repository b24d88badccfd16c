//! One of each kind: what it prints it reads, and what it refuses changes nothing.

use narrows_settings::{SettingError, Settings, choices, keys, kinds};
use narrows_units::{Bytes, Duration};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Default,
    Paper,
}
choices!(Mode: "default" => Default, "paper" => Paper);

#[derive(Clone, Debug, PartialEq)]
struct Timer {
    floor: Duration,
}

#[derive(Clone, Debug, PartialEq)]
struct Config {
    mode: Mode,
    ecn: bool,
    limit: u32,
    retries: u32,
    alpha: f64,
    round_ms: Duration,
    memory: Bytes,
    timer: Timer,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mode: Mode::Default,
            ecn: true,
            limit: 100,
            retries: u32::MAX,
            alpha: 0.5,
            round_ms: Duration::from_millis(3000),
            memory: Bytes(65_536),
            timer: Timer { floor: Duration::from_micros(1_500) },
        }
    }
}

keys! {
    [kinds]
    Config;
    mode: Choice(), "which rules";
    ecn: Choice(), "marks";
    limit: Number(1, 1000), "packets";
    retries: Open(0, "never"), "time-outs";
    alpha: Real(0.001, 10.0), "growth";
    round_ms: Millis(100, 600_000), "a round";
    memory: Size(1000, 4_000_000_000), "bytes";
    floor(timer.floor): Time(Duration::ZERO, Duration::from_secs(60)), "the least time";
}

impl Settings for Config {
    const NAME: &'static str = "test";
    const BARE: &'static str = "mode";

    fn check(&self) -> Result<(), SettingError> {
        if self.ecn || self.limit > 1 {
            return Ok(());
        }
        Err(SettingError::new("limit", self.limit.to_string(), "2 or more"))
    }
}

fn values(config: &Config) -> Vec<String> {
    Config::keys().iter().filter_map(|k| k.value(config)).collect()
}

#[test]
fn what_is_printed_is_read() {
    let plain = Config::default();
    assert_eq!(values(&plain), ["default", "on", "100", "never", "0.5", "3000", "65536", "1.5ms"]);
    assert_eq!(plain.differences(), "");
    let text = "paper, ecn=off ,limit=7,retries=0,alpha=0.25,round_ms=100,memory=1000,floor=0.2,";
    let other = Config::read(text).unwrap();
    assert_eq!(values(&other), ["paper", "off", "7", "0", "0.25", "100", "1000", "200ms"]);
    assert_eq!(Config::read(&other.differences()), Ok(other.clone()));
    let mut changed = plain.clone();
    Config::keys().iter().for_each(|k| k.set(&mut changed, &k.value(&other).unwrap()).unwrap());
    assert_eq!(changed, other);
}

#[test]
fn what_is_wrong_is_named_and_changes_nothing() {
    let mut config = Config::default();
    for key in Config::keys() {
        for wrong in ["", "x", "-1", "1e99", "NaN", "99999999999999999999", ".5", "infinite"] {
            let e = config.set(key.name, wrong).unwrap_err();
            assert_eq!((e.key.as_str(), e.value.as_str()), (key.name, wrong));
            assert_eq!(e.expected(), Some(key.range().as_str()));
        }
    }
    assert_eq!(config, Config::default());
    let error = |text| Config::read(text).unwrap_err().to_string();
    assert_eq!(error("limit=1001"), "limit = '1001': expected 1 to 1000");
    assert_eq!(error("papre"), "mode = 'papre': expected default or paper");
    assert_eq!(error("ecn=off,limit=1"), "limit = '1': expected 2 or more");
    let unknown = error("q=1");
    assert!(unknown.starts_with("q = '1': expected a key of test: mode, ecn, limit,"), "{unknown}");
    assert!(!unknown.contains("perhaps"), "{unknown}");
    let misspelt = error("limti=1");
    assert!(misspelt.ends_with("; perhaps limit"), "{misspelt}");
    assert_eq!(
        misspelt.matches("limit").count(),
        2,
        "each name once, and the one that was meant: {misspelt}"
    );
}

/// Settings of which some exist beside others only.
#[derive(Clone, Debug, Default, PartialEq)]
struct Shape {
    sides: u32,
    mode: Form,
}

#[derive(Clone, Debug, PartialEq)]
enum Form {
    Round(Round),
    Flat,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Round {
    stalls: u32,
}

impl Default for Form {
    fn default() -> Self {
        Self::Round(Round::default())
    }
}

impl kinds::Words for Form {
    const WORDS: &'static [&'static str] = &["round", "flat"];

    fn chosen(&self) -> usize {
        usize::from(*self == Self::Flat)
    }
    fn choose(&mut self, place: usize) {
        if place != self.chosen() {
            *self = if place == 0 { Self::default() } else { Self::Flat };
        }
    }
}

fn round(shape: &mut Shape) -> Option<&mut Round> {
    if let Form::Round(round) = &mut shape.mode { Some(round) } else { None }
}

mod shape {
    use super::{SettingError, Settings, Shape, keys, kinds, round};

    keys! {
        [kinds]
        Shape;
        [None, Some, Shape::default] {
            sides: Number(0, 9), "how many";
            mode: Choice(), "which";
        }
        [Some("mode=round"), round, Shape::default] {
            stalls: Number(0, 9), "where";
        }
    }

    impl Settings for Shape {
        const NAME: &'static str = "shape";
        const SELECTOR: Option<&'static str> = Some("mode");

        fn check(&self) -> Result<(), SettingError> {
            Ok(())
        }
    }
}

#[test]
fn a_key_of_another_section_is_refused_and_says_where_it_belongs() {
    let error = |text| Shape::read(text).unwrap_err().to_string();
    assert_eq!(
        error("stalls=1,mode=flat"),
        "stalls = '1': 'stalls' has no meaning in mode=flat; it belongs to mode=round"
    );
    assert_eq!(error("hangs=1"), "hangs = '1': this key is called stalls");
    let text = "stalls=1,mode=round,sides=3";
    assert_eq!(Shape::read(text).unwrap().differences(), "sides=3,stalls=1");
    assert_eq!(Shape::read("mode=flat").unwrap().differences(), "mode=flat");
    let table = Shape::markdown();
    assert!(
        table.starts_with("| key | with | default | range | meaning |\n|---|---|---|---|---|\n"),
        "{table}"
    );
    assert!(
        table.contains("| `sides` | | 0 |") && table.contains("| `stalls` | `mode=round` | 0 |"),
        "{table}"
    );
    assert!(Shape::help().ends_with("[0; 0 to 9; with mode=round]\n"));
}

#[test]
fn the_documents_list_every_key() {
    let table = Config::markdown();
    assert!(table.starts_with("| key | default | range | meaning |\n|---|---|---|---|\n"), "{table}");
    assert!(table.contains("| `retries` | never | 0 and more, or never | time-outs |\n"), "{table}");
    assert!(table.contains("| `floor` | 1.5ms | 0s to 60s | the least time |\n"), "{table}");
    assert_eq!((table.lines().count(), Config::help().lines().count()), (Config::keys().len() + 2, 8));
}
