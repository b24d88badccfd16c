//! A standing comparison of disciplines: one list of them, one list of scenarios, and for each measure who does best.
//!
//! The list is a file (`experiments/league.toml`), so that one more discipline is one more line:
//!
//! ```toml
//! disciplines = [{ label = "fifo", value = "fifo:30" }, "taq"]
//!
//! [[scenario]]
//! file = "league/long.toml"                # seen from the list
//! quick = ["rate=600kbit", "seeds=[1]"]    # what is set for a quick look; without it, left out there
//! without = ["datagram_delay_p50_s"]       # figures that mean something else there
//! ```

mod standings;

use std::path::{Path, PathBuf};

use narrows_scenario::Error;
use toml::{Table, Value};

pub use standings::{Entry, MEASURES, Measure, Standing, Standings};

/// Disciplines to compare, and the scenarios of the comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct League {
    /// Disciplines, as in `disciplines` of a scenario.
    disciplines: Vec<Value>,
    scenarios: Vec<Scenario>,
}

#[derive(Clone, Debug, PartialEq)]
struct Scenario {
    file: PathBuf,
    quick: Option<Vec<String>>,
    without: Vec<String>,
}

/// A scenario to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Path of the scenario.
    pub file: PathBuf,
    /// Settings to replace in the scenario, as `key=value`.
    pub sets: Vec<String>,
    /// Figures of the scenario that do not count.
    pub without: Vec<String>,
}

impl League {
    /// Reads a league from a file.
    ///
    /// # Errors
    /// Names the file, the key and what was expected.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let here = |e: Error| Error { file: Some(path.to_path_buf()), ..e };
        let text = std::fs::read_to_string(path).map_err(|e| {
            here(wrong("", format!("cannot be read ({e}): expected the list of a league, in TOML")))
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::parse(&text, folder).map_err(here)
    }

    fn parse(text: &str, folder: &Path) -> Result<Self, Error> {
        let mut table: Table = toml::from_str(text)
            .map_err(|e| wrong("", format!("is no TOML: {}", e.message().replace('\n', ", "))))?;
        let disciplines = array(&mut table, "disciplines", "a list, as [\"fifo:30\", \"taq\"]")?;
        let scenarios = array(&mut table, "scenario", "[[scenario]]s with file = \"NAME.toml\"")?
            .into_iter()
            .enumerate()
            .map(|(at, value)| scenario(at, value, folder))
            .collect::<Result<_, _>>()?;
        known(&table, "", "disciplines, scenario")?;
        let league = Self { disciplines, scenarios };
        let mut labels = league.labels();
        labels.sort_unstable();
        match labels.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(wrong("disciplines", format!("'{}' is there twice: expected once", pair[0]))),
            None => Ok(league),
        }
    }

    /// The disciplines' names in results, in order.
    #[must_use]
    pub fn labels(&self) -> Vec<String> {
        self.disciplines.iter().map(label).collect()
    }

    /// Adds a discipline that the list does not have.
    pub fn add(&mut self, spec: &str) {
        if !self.labels().iter().any(|l| l == spec) {
            self.disciplines.push(Value::String(spec.to_owned()));
        }
    }

    /// Leaves all but these out; empty lists leave nothing out. Scenarios go by the name of their file without ending.
    ///
    /// # Errors
    /// Names what is not in the list.
    pub fn only(&mut self, disciplines: &[String], scenarios: &[String]) -> Result<(), Error> {
        let names: Vec<String> = self.scenarios.iter().map(|s| stem(&s.file)).collect();
        for (asked, there, key) in
            [(disciplines, self.labels(), "disciplines"), (scenarios, names, "scenario")]
        {
            if let Some(stranger) = asked.iter().find(|a| !there.contains(a)) {
                let problem =
                    format!("'{stranger}' is not in the league: expected one of {}", there.join(", "));
                return Err(wrong(key, problem));
            }
        }
        let keep = |list: &[String], name: String| list.is_empty() || list.contains(&name);
        self.disciplines.retain(|d| keep(disciplines, label(d)));
        self.scenarios.retain(|s| keep(scenarios, stem(&s.file)));
        Ok(())
    }

    /// Scenarios of the league; for a quick look those that have settings for it.
    #[must_use]
    pub fn rounds(&self, quick: bool) -> Vec<Round> {
        let all = format!("disciplines={}", Value::Array(self.disciplines.clone()));
        let of = |s: &Scenario| {
            let sets = if quick { s.quick.clone()? } else { Vec::new() };
            let sets = [all.clone()].into_iter().chain(sets).collect();
            Some(Round { file: s.file.clone(), sets, without: s.without.clone() })
        };
        self.scenarios.iter().filter_map(of).collect()
    }
}

fn wrong(key: impl Into<String>, problem: impl Into<String>) -> Error {
    Error { file: None, key: key.into(), problem: problem.into(), point: String::new() }
}

fn array(table: &mut Table, key: &str, expected: &str) -> Result<Vec<Value>, Error> {
    match table.remove(key) {
        Some(Value::Array(list)) if !list.is_empty() => Ok(list),
        Some(other) => Err(wrong(key, format!("= {other}: expected {expected}"))),
        None => Err(wrong(key, format!("is missing: expected {expected}"))),
    }
}

fn known(table: &Table, path: &str, keys: &str) -> Result<(), Error> {
    match table.keys().next() {
        Some(key) => Err(wrong(format!("{path}{key}"), format!("no such key: expected one of {keys}"))),
        None => Ok(()),
    }
}

fn scenario(at: usize, value: Value, folder: &Path) -> Result<Scenario, Error> {
    let path = format!("scenario.{at}.");
    let Value::Table(mut table) = value else {
        return Err(wrong("scenario", "expected [[scenario]]s with file = \"NAME.toml\""));
    };
    let Some(Value::String(file)) = table.remove("file") else {
        return Err(wrong(format!("{path}file"), "expected a file beside this one, as \"long.toml\""));
    };
    let quick = texts(&mut table, "quick", &path, "settings, as [\"rate=600kbit\", \"seeds=[1]\"]")?;
    let without = texts(&mut table, "without", &path, "figures, as [\"jain_20s\"]")?.unwrap_or_default();
    known(&table, &path, "file, quick, without")?;
    Ok(Scenario { file: folder.join(file), quick, without })
}

fn texts(table: &mut Table, key: &str, path: &str, expected: &str) -> Result<Option<Vec<String>>, Error> {
    let list = match table.remove(key) {
        None => return Ok(None),
        Some(Value::Array(list)) => list.iter().map(|v| v.as_str().map(str::to_owned)).collect(),
        Some(_) => None,
    };
    list.map(Some).ok_or_else(|| wrong(format!("{path}{key}"), format!("expected a list of {expected}")))
}

/// Name of a discipline: the label, or else the text.
fn label(value: &Value) -> String {
    let named = value.get("label").and_then(Value::as_str).or(value.as_str());
    named.map_or_else(|| value.to_string(), str::to_owned)
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "disciplines = [{ label = \"dt\", value = \"fifo:{rate/1000}\" }, \"taq\"]\n\
                        [[scenario]]\nfile = \"a.toml\"\nquick = [\"seeds=[1]\"]\n[[scenario]]\nfile = \"b.toml\"\n";

    #[test]
    fn a_list_becomes_settings() {
        let mut league = League::parse(LIST, Path::new("f")).unwrap();
        assert_eq!(league.labels(), ["dt", "taq"]);
        assert_eq!(league.rounds(false).len(), 2);
        let quick = league.rounds(true);
        assert_eq!(quick.len(), 1);
        assert_eq!(quick[0].file, Path::new("f/a.toml"));
        assert_eq!(quick[0].sets[1], "seeds=[1]");
        // The setting reads back as the list.
        let (key, value) = quick[0].sets[0].split_once('=').unwrap();
        let read: Table = toml::from_str(&format!("{key} = {value}")).unwrap();
        assert_eq!(read["disciplines"], Value::Array(league.disciplines.clone()));
        league.add("fifo:9");
        league.only(&["fifo:9".into(), "taq".into()], &["b".into()]).unwrap();
        assert_eq!(league.labels(), ["taq", "fifo:9"]);
        assert_eq!(league.rounds(false)[0].file, Path::new("f/b.toml"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, says) in [
            ("x = ", "no TOML"),
            ("disciplines = []", "a list, as"),
            ("disciplines = [\"taq\"]", "scenario is missing"),
            ("disciplines = [\"taq\", \"taq\"]\n[[scenario]]\nfile = \"a\"", "'taq' is there twice"),
            ("disciplines = [\"taq\"]\nx = 1\n[[scenario]]\nfile = \"a\"", "x: no such key"),
            ("disciplines = [\"taq\"]\n[[scenario]]\nfile = 1", "scenario.0.file: expected a file"),
            (
                "disciplines = [\"taq\"]\n[[scenario]]\nfile = \"a\"\nquick = [1]",
                "scenario.0.quick: expected a list",
            ),
            ("disciplines = [\"taq\"]\n[[scenario]]\nfile = \"a\"\nslow = 1", "scenario.0.slow: no such key"),
        ] {
            let said = League::parse(text, Path::new("")).unwrap_err().to_string();
            assert!(said.contains(says), "{text}: {said}");
        }
        let mut league = League::parse(LIST, Path::new("")).unwrap();
        let said = league.only(&["codel".into()], &[]).unwrap_err().to_string();
        assert!(said.contains("'codel' is not in the league: expected one of dt, taq"), "{said}");
    }
}
