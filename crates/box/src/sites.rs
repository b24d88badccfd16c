//! Sites: what circuits hang at, as a tree in a file like LibreQoS's network.json. Each has rates that its circuits and
//! the sites below it share.
//!
//! A site without a rate, one with the rate 0 and one that is `virtual` have no limit of their own.

use std::collections::BTreeMap;

use narrows_qdisc::SITE_LEVELS as LEVELS;
use narrows_units::Rate;
use narrows_users::{CircuitError, Effect, ParentNode, Rates, Remark};
use serde_json::{Map, Value};

/// Most sites of a file, more than any provider has.
const MOST: usize = 1 << 16;

/// A site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Name of the site.
    pub name: String,
    /// Rates of the site, down and up.
    pub rates: Rates,
    /// Index of the site above, which is less than this site's own.
    pub above: Option<u32>,
}

/// All sites of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sites {
    sites: Vec<Site>,
    by_name: BTreeMap<String, u32>,
    by_id: BTreeMap<String, u32>,
    depth: usize,
    remarks: Vec<Remark>,
}

impl Sites {
    /// Reads a file of that name.
    ///
    /// # Errors
    /// If it is no tree of sites: names the file and what was expected.
    pub fn read(file: &str, bytes: &[u8]) -> Result<Self, CircuitError> {
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        let value: Value = serde_json::from_slice(bytes).map_err(|error| CircuitError {
            line: error.line() as u64,
            ..fault(file, format!("it is no JSON: {error}"))
        })?;
        let Value::Object(top) = value else {
            let example =
                r#"{"Mast": {"downloadBandwidthMbps": 20, "uploadBandwidthMbps": 5, "children": {}}}"#;
            return Err(fault(file, format!("expected sites by their names, as {example}")));
        };
        let mut all = Self::default();
        all.add(file, &top, None, 1)?;
        Ok(all)
    }

    fn add(
        &mut self,
        file: &str,
        sites: &Map<String, Value>,
        above: Option<u32>,
        level: usize,
    ) -> Result<(), CircuitError> {
        // A member that is no object is a note of whoever wrote the file.
        for (name, site) in sites.iter().filter_map(|(name, site)| Some((name, site.as_object()?))) {
            if self.sites.len() >= MOST {
                return Err(fault(file, format!("expected at most {MOST} sites")));
            }
            let of = |key: &str| site.iter().find(|(k, _)| plain(k) == key).map(|(_, value)| value);
            let at = u32::try_from(self.sites.len()).unwrap_or(u32::MAX);
            let is_virtual = of("virtual").and_then(Value::as_bool) == Some(true);
            let rates = ["downloadbandwidthmbps", "uploadbandwidthmbps"].map(|key| match of(key) {
                Some(value) if !is_virtual => self.rate(file, name, value),
                _ => None,
            });
            let here = if level > LEVELS {
                let problem = format!(
                    "site '{name}' is more than {LEVELS} levels deep: its circuits hang at the site above it, and its \
                     rate is not used"
                );
                self.remarks.push(Remark { fault: fault(file, problem), effect: Effect::PartLeftOut });
                above.unwrap_or(at)
            } else {
                self.depth = self.depth.max(level);
                self.sites.push(Site { name: name.clone(), rates, above });
                at
            };
            if self.by_name.contains_key(name) {
                let problem =
                    format!("two sites are called '{name}': by that name circuits hang at the first");
                self.remarks.push(Remark { fault: fault(file, problem), effect: Effect::PartLeftOut });
            }
            self.by_name.entry(name.clone()).or_insert(here);
            if let Some(id) = of("id").and_then(Value::as_str) {
                self.by_id.entry(id.to_owned()).or_insert(here);
            }
            if let Some(Value::Object(below)) = of("children") {
                self.add(file, below, Some(here), level + 1)?;
            }
        }
        Ok(())
    }

    fn rate(&mut self, file: &str, name: &str, value: &Value) -> Option<Rate> {
        let mbps = match value {
            Value::Null => return None,
            Value::String(text) => text.trim().parse().ok(),
            other => other.as_f64(),
        };
        let bps = mbps.map(|mbps| mbps * 1e6).filter(|bps| (1e3..=1e12).contains(bps));
        if bps.is_none() {
            let problem =
                format!("site '{name}': {value} is no rate in Mbit/s from 0.001 to 1000000: it has no limit");
            let effect = if mbps == Some(0.0) { Effect::Taken } else { Effect::PartLeftOut };
            self.remarks.push(Remark { fault: fault(file, problem), effect });
        }
        bps.map(|bps| Rate::from_bps(bps.round() as u64))
    }

    /// Sites; each stands after the site above it.
    #[must_use]
    pub fn all(&self) -> &[Site] {
        &self.sites
    }

    /// Index of a circuit's site, found by the site's id, else by its name.
    #[must_use]
    pub fn find(&self, site: &ParentNode) -> Option<u32> {
        let by_id = self.by_id.get(&site.id).or_else(|| self.by_name.get(&site.id));
        by_id.or_else(|| self.by_name.get(&site.name)).copied()
    }

    /// Number of levels.
    #[must_use]
    pub const fn depth(&self) -> usize {
        self.depth
    }

    /// Remarks on the sites of the file.
    #[must_use]
    pub fn remarks(&self) -> &[Remark] {
        &self.remarks
    }

    /// Takes the file only if all of it could be used.
    ///
    /// # Errors
    /// The first of what could not, and how many there are.
    pub fn strict(self) -> Result<Self, CircuitError> {
        narrows_users::strict(&self.remarks).map(|()| self)
    }
}

/// A fault in the file as a whole.
fn fault(file: &str, problem: String) -> CircuitError {
    CircuitError { file: file.to_owned(), line: 0, column: "", problem }
}

/// A key as keys are compared.
fn plain(key: &str) -> String {
    key.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Sites {
        Sites::read("n.json", text.as_bytes()).unwrap()
    }

    fn find(sites: &Sites, id: &str, name: &str) -> Option<u32> {
        sites.find(&ParentNode { id: id.to_owned(), name: name.to_owned() })
    }

    #[test]
    fn a_tree_as_libreqos_has_it() {
        let sites = read(
            r#"{"_made by": "hand",
              "Hill": {"downloadBandwidthMbps": 20, "uploadBandwidthMbps": "2.5", "type": "site", "id": "h",
                "children": {
                  "Barn": {"downloadBandwidthMbps": 5, "uploadBandwidthMbps": 0, "type": "ap"},
                  "Town": {"virtual": true, "downloadBandwidthMbps": 9,
                    "children": {"Inn": {"download_bandwidth_mbps": 1}}}
                }},
              "Dale": {}}"#,
        );
        let kbps = |n| Some(Rate::from_kbps(n));
        let all: BTreeMap<_, _> = sites.all().iter().map(|s| (&*s.name, (s.rates, s.above))).collect();
        let hill = find(&sites, "h", "");
        assert_eq!(
            (hill, find(&sites, "", "Hill"), find(&sites, "nowhere", "Dale").is_some()),
            (hill, hill, true)
        );
        assert_eq!(all["Hill"], ([kbps(20_000), kbps(2500)], None));
        assert_eq!(all["Barn"], ([kbps(5000), None], hill));
        assert_eq!(all["Town"], ([None, None], hill));
        assert_eq!(all["Inn"], ([kbps(1000), None], find(&sites, "", "Town")));
        assert_eq!((all["Dale"], sites.depth()), (([None, None], None), 3));
        let said: Vec<_> = sites.remarks().iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            ["n.json: site 'Barn': 0 is no rate in Mbit/s from 0.001 to 1000000: it has no limit"]
        );
        assert!(sites.clone().strict().is_ok() && read("{}").all().is_empty());
    }

    #[test]
    fn what_is_no_tree_is_refused_and_what_is_odd_is_told() {
        for (text, expected) in [
            ("", "n.json, line 1: it is no JSON: "),
            ("{\n\"a\": {,}}", "n.json, line 2: it is no JSON: "),
            ("[]", "n.json: expected sites by their names, as {\"Mast\": "),
        ] {
            let error = Sites::read("n.json", text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let odd = read(
            r#"{"a": {"downloadBandwidthMbps": "fast", "children": {"b": {}}}, "c": {"children": {"b": {}}}}"#,
        );
        let said: Vec<_> = odd.remarks().iter().map(ToString::to_string).collect();
        assert!(said[0].starts_with("n.json: site 'a': \"fast\" is no rate"), "{said:?}");
        assert!(said[1].starts_with("n.json: two sites are called 'b'"), "{said:?}");
        let refused = odd.strict().unwrap_err().to_string();
        assert!(
            refused.starts_with(&said[0]) && refused.ends_with("; and 1 more as `narrows check` lists them")
        );
        // Ten levels of which eight are kept.
        let deep =
            (0..10).rev().fold("{}".to_owned(), |below, n| format!(r#"{{"s{n}": {{"children": {below}}}}}"#));
        let deep = read(&deep);
        assert_eq!((deep.depth(), deep.all().len(), deep.remarks().len()), (8, 8, 2));
        assert_eq!((find(&deep, "", "s9"), find(&deep, "", "s7")), (Some(7), Some(7)));
    }
}
