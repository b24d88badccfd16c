//! Sweeps: `[sweep]`, `disciplines`, and the grid they span.

use toml::{Table, Value};

use crate::read::{Reader, shown};
use crate::table::{look, put};
use crate::{Error, quantity};

/// Most runs of an experiment: at a second each, eleven days of one core.
pub(crate) const MOST_RUNS: u64 = 1_000_000;

/// A direction of the grid: some keys that change together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    /// Dotted keys of the file; variables as `vars.NAME`.
    pub keys: Vec<String>,
    /// Values of the keys at each point.
    pub points: Vec<Point>,
}

/// A value for each key of an axis, with a label where the file gives one.
pub(crate) type Point = Vec<(Value, Option<String>)>;

impl Axis {
    /// Name of a key in coordinates: a variable goes by the name without `vars.`.
    pub(crate) fn coordinate(key: &str) -> &str {
        key.strip_prefix("vars.").unwrap_or(key)
    }

    /// Puts the values of point `at` into `table`.
    pub(crate) fn apply(&self, at: usize, table: &mut Table) -> Result<(), Error> {
        for (key, (value, _)) in self.keys.iter().zip(&self.points[at]) {
            put(table, key, value.clone()).map_err(|e| Error { key: format!("sweep.{}", e.key), ..e })?;
        }
        Ok(())
    }
}

/// Takes the axes out of `table`, sorted by their first key; `disciplines` is the axis `discipline`.
pub(crate) fn take(table: &mut Table) -> Result<Vec<Axis>, Error> {
    let mut axes = Vec::new();
    if let Some(list) = table.remove("disciplines") {
        if table.contains_key("discipline") {
            return Err(Error::new("disciplines", "stands beside discipline: expected one of the two"));
        }
        let expected = "a list of at least one, as [\"fifo:30\", \"taq\"]";
        let Value::Array(values) = &list else {
            return Err(Error::value("disciplines", shown(&list), expected));
        };
        let points = points("disciplines", values, expected)?;
        axes.push(Axis { keys: vec!["discipline".to_owned()], points });
    }
    match table.remove("sweep") {
        None => {}
        Some(Value::Table(mut sweep)) => {
            let together = sweep.remove("together");
            flatten(table, &sweep, "", &mut axes)?;
            axes.extend(zipped(table, together.as_ref())?);
        }
        Some(other) => {
            return Err(Error::value("sweep", shown(&other), "a table of keys and lists, as rate = [...]"));
        }
    }
    axes.sort_by(|a, b| a.keys.cmp(&b.keys));
    let mut keys: Vec<&String> = axes.iter().flat_map(|a| &a.keys).collect();
    keys.sort_unstable();
    if let Some(twice) = keys.windows(2).find(|w| w[0] == w[1]) {
        return Err(Error::new(format!("sweep.{}", twice[0]), "is swept twice: expected one list"));
    }
    Ok(axes)
}

/// Takes the axis of `key` away, because something else decides it now. Bare names may be variables.
pub(crate) fn forget(table: &mut Table, key: &str) {
    if key == "discipline" {
        table.remove("disciplines");
    }
    let Some(Value::Table(sweep)) = table.get_mut("sweep") else { return };
    let bare = Axis::coordinate(key).to_owned();
    for name in [key, &bare] {
        remove(sweep, name);
        if let Some(Value::Array(groups)) = sweep.get_mut("together") {
            for group in groups.iter_mut().filter_map(Value::as_table_mut) {
                remove(group, name);
            }
            groups.retain(|g| g.as_table().is_none_or(|t| !t.is_empty()));
        }
    }
    if sweep.get("together").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        sweep.remove("together");
    }
    if sweep.is_empty() {
        table.remove("sweep");
    }
}

/// Removes a dotted key, quoted or nested.
fn remove(table: &mut Table, key: &str) {
    table.remove(key);
    if let Some((first, rest)) = key.split_once('.')
        && let Some(Value::Table(inner)) = table.get_mut(first)
    {
        remove(inner, rest);
        if inner.is_empty() {
            table.remove(first);
        }
    }
}

/// Lists at any depth: `traffic.0.flows = [...]` makes tables in TOML.
fn flatten(file: &Table, sweep: &Table, prefix: &str, axes: &mut Vec<Axis>) -> Result<(), Error> {
    for (key, value) in sweep {
        let key = format!("{prefix}{key}");
        if let Value::Table(inner) = value {
            flatten(file, inner, &format!("{key}."), axes)?;
            continue;
        }
        let points = values(&key, value)?;
        axes.push(Axis { keys: vec![full(file, &key)], points });
    }
    Ok(())
}

/// `[[sweep.together]]`: lists of one length, stepped through side by side.
fn zipped(file: &Table, together: Option<&Value>) -> Result<Vec<Axis>, Error> {
    let Some(value) = together else { return Ok(Vec::new()) };
    let mut holder = Table::new();
    holder.insert("together".to_owned(), value.clone());
    let mut axes = Vec::new();
    for i in 0..Reader::new(&holder, "sweep").tables("together")?.len() {
        let path = format!("sweep.together.{i}");
        let mut lists = Vec::new();
        if let Some(table) = value.get(i).and_then(Value::as_table) {
            flatten(file, table, "", &mut lists)
                .map_err(|e| Error { key: format!("{path}: {}", e.key), ..e })?;
        }
        let Some(len) = lists.first().map(|l| l.points.len()) else {
            return Err(Error::new(path, "is empty: expected lists of one length"));
        };
        if let Some(other) = lists.iter().find(|l| l.points.len() != len) {
            let (a, b) = (Axis::coordinate(&lists[0].keys[0]), Axis::coordinate(&other.keys[0]));
            let problem =
                format!("expected lists of one length: {a} has {len} values, {b} {}", other.points.len());
            return Err(Error::new(path, problem));
        }
        axes.push(Axis {
            keys: lists.iter().flat_map(|l| l.keys.clone()).collect(),
            points: (0..len).map(|at| lists.iter().flat_map(|l| l.points[at].clone()).collect()).collect(),
        });
    }
    Ok(axes)
}

/// A bare name of a variable is that variable.
pub(crate) fn full(file: &Table, key: &str) -> String {
    let variable = file.get("vars").and_then(|v| v.get(key)).is_some();
    if variable && look(file, key).is_none() { format!("vars.{key}") } else { key.to_owned() }
}

fn values(key: &str, value: &Value) -> Result<Vec<Point>, Error> {
    let path = format!("sweep.{key}");
    let expected = "a list of values, as [20, 40], or a range, as \"20..120 step 20\"";
    match value {
        Value::Array(list) => points(&path, list, expected),
        Value::String(text) => match range(text) {
            Some(list) => points(&path, &list, "a range with at least one value and at most 10000"),
            None => Err(Error::value(&path, shown(value), expected)),
        },
        _ => Err(Error::value(&path, shown(value), expected)),
    }
}

/// Each value is a point of its own; `{ label = "drop-tail", value = ... }` names it.
fn points(path: &str, list: &[Value], expected: &str) -> Result<Vec<Point>, Error> {
    if list.is_empty() || list.len() > 10_000 {
        return Err(Error::value(path, shown(&Value::Array(list.to_vec())), expected));
    }
    let labelled = |(i, v): (usize, &Value)| match v {
        Value::Table(t) => match (t.get("label").and_then(Value::as_str), t.get("value"), t.len()) {
            (Some(label), Some(value), 2) => Ok(vec![(value.clone(), Some(label.to_owned()))]),
            _ => {
                let expected = "a value, or { label = \"its name in results\", value = ... }";
                Err(Error::value(&format!("{path}.{i}"), shown(v), expected))
            }
        },
        v => Ok(vec![(v.clone(), None)]),
    };
    list.iter().enumerate().map(labelled).collect()
}

/// `20..120 step 20`, `200kbit..1000kbit step 200kbit`: both ends included.
fn range(text: &str) -> Option<Vec<Value>> {
    let (ends, step) = text.split_once("step")?;
    let (low, high) = ends.split_once("..")?;
    let ((low, unit), (high, u2), (step, u3)) =
        (quantity::split(low)?, quantity::split(high)?, quantity::split(step)?);
    if unit != u2 || unit != u3 || step <= 0.0 || high < low {
        return None;
    }
    // A last step that misses the end by rounding counts.
    let count = ((high - low) / step + 1e-9).floor();
    // One too many is told apart from a proper list by the caller.
    let steps = 0..=(count.min(10_000.0) as u32);
    let one = |i: u32| {
        let x = low + f64::from(i) * step;
        match (unit, x == x.round() && x.abs() < 9e15) {
            ("", true) => Value::Integer(x as i64),
            ("", false) => Value::Float(x),
            _ => Value::String(format!("{x}{unit}")),
        }
    };
    Some(steps.map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(text: &str) -> Result<Vec<Axis>, Error> {
        take(&mut toml::from_str(text).unwrap())
    }

    #[test]
    fn lists_ranges_and_pairs() {
        let a = axes(
            "disciplines = [{ label = \"dt\", value = \"fifo:{b}\" }, \"taq\"]\n[vars]\nshare = 1\n[sweep]\n\
             rate = \"200kbit..600kbit step 200kbit\"\ntraffic.0.flows = \"20..120 step 20\"\nshare = [2, 5]\n\
             [[sweep.together]]\nrtt = [\"1ms\", \"2ms\"]\nmtu = [500, 1500]\n",
        )
        .unwrap();
        let keys: Vec<String> = a.iter().map(|a| a.keys.join("+")).collect();
        assert_eq!(keys, ["discipline", "mtu+rtt", "rate", "traffic.0.flows", "vars.share"]);
        assert_eq!(a[0].points[0][0].1.as_deref(), Some("dt"));
        assert_eq!(a[2].points[1][0].0.as_str(), Some("400kbit"));
        let flows: Vec<i64> = a[3].points.iter().filter_map(|p| p[0].0.as_integer()).collect();
        assert_eq!(flows, [20, 40, 60, 80, 100, 120]);
        assert_eq!(range("0..1 step 0.1").unwrap().len(), 11);
    }

    #[test]
    fn wrong_sweeps_say_what_is_expected() {
        for (text, says) in [
            ("disciplines = []", "at least one"),
            ("discipline = \"taq\"\ndisciplines = [\"taq\"]", "one of the two"),
            ("sweep = 5", "a table of keys"),
            ("[sweep]\nrate = []", "a list of values"),
            ("[sweep]\nrate = \"1..0 step 1\"", "20..120 step 20"),
            ("[sweep]\nrate = \"0..1 step 0.00001\"", "at most 10000"),
            ("[sweep]\nrate = [{ value = 1 }]", "label = "),
            ("[[sweep.together]]\na = [1]\nb = [1, 2]", "a has 1 values, b 2"),
            ("[[sweep.together]]", "is empty"),
            ("[sweep]\nrate = [1]\n[[sweep.together]]\nrate = [1]", "swept twice"),
        ] {
            let e = axes(text).unwrap_err().to_string();
            assert!(e.contains(says), "{text}: {e}");
        }
    }

    #[test]
    fn what_is_set_is_not_swept() {
        let mut t: Table = toml::from_str(
            "disciplines = [\"a\"]\n[vars]\nshare = 1\n[sweep]\nshare = [1, 2]\ntraffic.0.flows = [1]\n\
             [[sweep.together]]\nrtt = [1]\n",
        )
        .unwrap();
        for key in ["discipline", "vars.share", "traffic.0.flows", "rtt"] {
            forget(&mut t, key);
        }
        assert_eq!(take(&mut t).unwrap(), []);
    }
}
