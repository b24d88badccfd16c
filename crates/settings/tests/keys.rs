//! One of each kind: what it prints it reads, and what it refuses changes nothing.

use narrows_settings::{Key, SettingError, Settings, choices, keys, kinds};
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
    const RENAMED: &'static [(&'static str, &'static str)] = &[("swallow", "ecn")];

    fn keys() -> &'static [Key<Self>] {
        KEYS
    }

    fn check(&self) -> Result<(), SettingError> {
        if self.ecn || self.limit > 1 {
            return Ok(());
        }
        Err(SettingError { key: "limit".into(), value: self.limit.to_string(), expected: "2 or more".into() })
    }
}

fn values(config: &Config) -> Vec<String> {
    Config::keys().iter().map(|k| k.value(config)).collect()
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
    Config::keys().iter().for_each(|k| k.set(&mut changed, &k.value(&other)).unwrap());
    assert_eq!(changed, other);
}

#[test]
fn what_is_wrong_is_named_and_changes_nothing() {
    let mut config = Config::default();
    for key in Config::keys() {
        for wrong in ["", "x", "-1", "1e99", "NaN", "99999999999999999999", ".5", "infinite"] {
            let e = config.set(key.name, wrong).unwrap_err();
            assert_eq!((e.key.as_str(), e.value.as_str(), e.expected), (key.name, wrong, key.range()));
        }
    }
    assert_eq!(config, Config::default());
    let error = |text| Config::read(text).unwrap_err().to_string();
    assert_eq!(error("limit=1001"), "limit = '1001': expected 1 to 1000");
    assert_eq!(error("papre"), "mode = 'papre': expected default or paper");
    assert_eq!(error("ecn=off,limit=1"), "limit = '1': expected 2 or more");
    assert_eq!(error("swallow=on"), "swallow = 'on': expected the key ecn, which has replaced swallow");
    let unknown = error("q=1");
    assert!(unknown.starts_with("q = '1': expected a key of test: mode, ecn, limit,"), "{unknown}");
}

#[test]
fn the_keys_that_replaced_others_exist() {
    for (old, new) in Config::RENAMED {
        assert!(Config::key(old).is_none() && Config::key(new).is_some(), "{old} {new}");
    }
}

#[test]
fn the_documents_list_every_key() {
    let table = Config::markdown();
    assert!(table.starts_with("| key | default | range | meaning |\n|---|---|---|---|\n"), "{table}");
    assert!(table.contains("| `retries` | never | 0 and more, or never | time-outs |\n"), "{table}");
    assert!(table.contains("| `floor` | 1.5ms | 0s to 60s | the least time |\n"), "{table}");
    assert_eq!((table.lines().count(), Config::help().lines().count()), (Config::keys().len() + 2, 8));
}
