//! A scenario file cut down: its first seed, a few points of what it sweeps, a short while. Packet by packet what the
//! links carried is added to what it asks for.

use anyhow::{Context, Result};
use toml::{Table, Value};

/// Longest duration of a scenario, in milliseconds: a few times the longest period of the disciplines' estimators.
const LONGEST_MS: f64 = 60_000.0;
/// Longest scenario with TAQ in question, in milliseconds: TAQ forgets a flow after 120 s.
const LONGEST_OF_TAQ_MS: f64 = 150_000.0;
/// Duration of a scenario that names none, in milliseconds.
const DEFAULT_MS: f64 = 120_000.0;

/// The file cut down, which is `place` below the experiments. `disciplines` replace its own, if there are any.
pub fn shortened(place: &str, text: &str, disciplines: Option<&Value>) -> Result<String> {
    let of_taq = ["taq/", "plan/"].iter().any(|folder| place.starts_with(folder));
    let longest = if of_taq { LONGEST_OF_TAQ_MS } else { LONGEST_MS };
    let mut file: Table = toml::from_str(text).context("as TOML")?;
    // Judged are whole sweeps.
    file.remove("claim");
    if let Some(seed) = file.get("seeds").and_then(first_seed) {
        file.insert("seeds".to_owned(), Value::Array(vec![Value::Integer(seed)]));
    }
    if let Some(list) = disciplines {
        file.remove("discipline");
        file.insert("disciplines".to_owned(), list.clone());
    }
    few_points(&mut file);
    sooner(&mut file, longest);
    observed(&mut file);
    toml::to_string(&file).context("as TOML again")
}

fn first_seed(seeds: &Value) -> Option<i64> {
    match seeds {
        Value::Array(list) => list.first()?.as_integer(),
        Value::String(range) => range.split("..").next()?.trim().parse().ok(),
        _ => None,
    }
}

/// A few points of `[sweep]`, with the least and the greatest of all that is a quantity, and each word of what is
/// words. Disciplines are varied on their own, so each meets every point.
fn few_points(file: &mut Table) {
    let Some(Value::Table(mut sweep)) = file.remove("sweep") else { return };
    let together = sweep.remove("together");
    let mut groups: Vec<Vec<(String, Vec<Value>)>> = Vec::new();
    for list in lists(&sweep, "") {
        groups.push(vec![list]);
    }
    for group in together.as_ref().and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table)
    {
        groups.push(lists(group, ""));
    }
    let words = |group: &Vec<(String, Vec<Value>)>| group.iter().all(|(_, list)| list.iter().any(is_word));
    let len = |group: &Vec<(String, Vec<Value>)>| group.first().map_or(0, |(_, list)| list.len());
    let points = groups.iter().map(|g| if words(g) { len(g) } else { len(g).min(2) }).max().unwrap_or(0);
    let mut zipped = Table::new();
    for (n, group) in groups.iter().enumerate() {
        let at = |point: usize| match (words(group), point) {
            // Axes of one length go at different paces, so that not the same words meet each time.
            (true, _) => (point + point / len(group).max(1) * n) % len(group).max(1),
            (false, point) if point + 1 == points => len(group).saturating_sub(1),
            (false, point) => {
                if point % 2 == 0 {
                    0
                } else {
                    len(group).saturating_sub(1)
                }
            }
        };
        for (key, list) in group {
            let picked: Vec<Value> = (0..points).filter_map(|point| list.get(at(point)).cloned()).collect();
            zipped.insert(key.clone(), Value::Array(picked));
        }
    }
    if points > 0 {
        let mut sweep = Table::new();
        sweep.insert("together".to_owned(), Value::Array(vec![Value::Table(zipped)]));
        file.insert("sweep".to_owned(), Value::Table(sweep));
    }
}

/// Lists at any depth by dotted key; a range is a list of its two ends.
fn lists(table: &Table, prefix: &str) -> Vec<(String, Vec<Value>)> {
    let mut found = Vec::new();
    for (key, value) in table {
        let key = format!("{prefix}{key}");
        match value {
            Value::Table(inner) => found.extend(lists(inner, &format!("{key}."))),
            Value::Array(list) => found.push((key, list.clone())),
            Value::String(range) => found.extend(ends(range).map(|ends| (key, ends))),
            _ => {}
        }
    }
    found
}

/// Ends of the range `200kbit..1mbit step 200kbit`; the upper one as written, which every range of ours reaches.
fn ends(range: &str) -> Option<Vec<Value>> {
    let (low, high) = range.split_once("step")?.0.split_once("..")?;
    let value = |text: &str| {
        let text = text.trim();
        let whole = text.parse().map(Value::Integer);
        whole.or_else(|_| text.parse().map(Value::Float)).unwrap_or_else(|_| Value::String(text.to_owned()))
    };
    Some(vec![value(low), value(high)])
}

fn is_word(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.starts_with(|c: char| c.is_ascii_digit()),
        Value::Integer(_) | Value::Float(_) => false,
        _ => true,
    }
}

/// Shrinks the time and what happens in it alike, unless an expression decides when.
fn sooner(file: &mut Table, most: f64) {
    let mut times = Vec::new();
    collect(&Value::Table(file.clone()), &mut times);
    let Some(times) = times.iter().map(|t| milliseconds(t)).collect::<Option<Vec<f64>>>() else { return };
    let own = file.get("duration").and_then(Value::as_str).and_then(milliseconds);
    let longest = own.unwrap_or(DEFAULT_MS).max(times.into_iter().fold(0.0, f64::max));
    let factor = (most / longest).min(1.0);
    if own.is_none() {
        file.insert("duration".to_owned(), Value::String(format!("{DEFAULT_MS}ms")));
    }
    *file = scaled(std::mem::take(file), factor);
    let jitter = file.get("jitter").and_then(Value::as_str).and_then(milliseconds).unwrap_or(2000.0);
    // At most half of the duration.
    file.insert(
        "jitter".to_owned(),
        Value::String(format!("{}ms", (jitter.min(longest * factor / 2.0)).floor())),
    );
}

/// Keys that say when.
const WHEN: [&str; 4] = ["duration", "warmup", "start", "stop"];

fn when(key: &str) -> bool {
    WHEN.contains(&key.rsplit('.').next().unwrap_or(key))
}

fn collect(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                if when(key) {
                    into.extend(list.iter().map(|v| v.as_str().unwrap_or("an expression").to_owned()));
                } else {
                    collect(value, into);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|v| collect(v, into)),
        _ => {}
    }
}

/// The table with each time that says when multiplied.
fn scaled(table: Table, factor: f64) -> Table {
    table.into_iter().map(|(key, value)| (key.clone(), scale(value, factor, when(&key)))).collect()
}

fn scale(value: Value, factor: f64, is_time: bool) -> Value {
    match value {
        Value::Table(table) => Value::Table(scaled(table, factor)),
        Value::Array(list) => Value::Array(list.into_iter().map(|v| scale(v, factor, is_time)).collect()),
        Value::String(text) if is_time => {
            let ms = milliseconds(&text).map(|ms| format!("{}ms", (ms * factor).round()));
            Value::String(ms.unwrap_or(text))
        }
        other => other,
    }
}

/// A plain time of a scenario file.
fn milliseconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(split);
    let unit = match unit {
        "us" => 0.001,
        "ms" => 1.0,
        "s" => 1000.0,
        "min" => 60_000.0,
        "h" => 3_600_000.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * unit)
}

/// Series of queue, windows and throughput, and a capture of the scenario's own links.
fn observed(file: &mut Table) {
    let links = match file.get("link").and_then(Value::as_array) {
        Some(links) => links.iter().filter_map(|l| l.get("name")).cloned().collect(),
        None if file.contains_key("topology") => Vec::new(),
        None => vec![Value::String("thin".to_owned()), Value::String("thin.back".to_owned())],
    };
    let probes = file.entry("probes").or_insert_with(|| Value::Table(Table::new()));
    let Some(probes) = probes.as_table_mut() else { return };
    if !probes.contains_key("series") {
        let all = ["queue", "cwnd", "throughput"].map(|s| Value::String(s.to_owned()));
        probes.insert("series".to_owned(), Value::Array(all.to_vec()));
        probes.insert("interval".to_owned(), Value::String("500ms".to_owned()));
    }
    if !probes.contains_key("capture") && !links.is_empty() {
        probes.insert("capture".to_owned(), Value::Array(links));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(text: &str) -> Table {
        toml::from_str(&shortened("trust/x", text, None).unwrap()).unwrap()
    }

    #[test]
    fn one_seed_and_no_claims() {
        assert_eq!(short("seeds = \"4..9\"\n[[claim]]\ntext = \"x\"")["seeds"], Value::Array(vec![4.into()]));
        assert_eq!(short("seeds = [7, 8]")["seeds"], Value::Array(vec![7.into()]));
        assert!(!short("[[claim]]\ntext = \"x\"").contains_key("claim"));
    }

    #[test]
    fn times_shrink_alike() {
        let t = short(
            "duration = \"300s\"\nwarmup = \"100s\"\njitter = \"20s\"\n[[traffic]]\nstart = \"1min\"\nrate = \"5kbit\"",
        );
        assert_eq!(t["duration"].as_str(), Some("60000ms"));
        assert_eq!(t["warmup"].as_str(), Some("20000ms"));
        assert_eq!(t["jitter"].as_str(), Some("20000ms"));
        assert_eq!(t["traffic"][0]["start"].as_str(), Some("12000ms"));
        assert_eq!(t["traffic"][0]["rate"].as_str(), Some("5kbit"));
        let t = shortened("taq/x", "duration = \"300s\"\njitter = \"100s\"", None).unwrap();
        assert!(t.contains("150000ms") && t.contains("75000ms"), "{t}");
        // Short and computed times stay, swept ones shrink with the rest.
        assert_eq!(short("duration = \"14s\"")["duration"].as_str(), Some("14000ms"));
        assert_eq!(short("duration = \"{100+n}s\"")["duration"].as_str(), Some("{100+n}s"));
        let t = short("[[sweep.together]]\nn = [1, 2, 3]\nduration = [\"600s\", \"400s\", \"300s\"]");
        let swept = &t["sweep"]["together"][0];
        assert_eq!(swept["duration"], Value::Array(vec!["60000ms".into(), "30000ms".into()]));
        assert_eq!(swept["n"], Value::Array(vec![1.into(), 3.into()]));
    }

    #[test]
    fn a_few_points_have_all_words_and_both_ends() {
        let t = short(
            "[sweep]\nrate = [\"1kbit\", \"2kbit\", \"3kbit\"]\ntraffic.0.flows = \"20..120 step 20\"\n\
             tcp.recovery = [\"reno\", \"newreno\", \"sack\"]\nlink.a.discipline = [\"taq\", \"fifo:3\"]",
        );
        let swept = &t["sweep"]["together"][0];
        let strings = |key: &str| -> Vec<&str> {
            swept[key].as_array().unwrap().iter().filter_map(Value::as_str).collect()
        };
        assert_eq!(strings("rate"), ["1kbit", "3kbit", "3kbit"]);
        assert_eq!(strings("tcp.recovery"), ["reno", "newreno", "sack"]);
        assert!(strings("link.a.discipline").contains(&"fifo:3"));
        assert_eq!(swept["traffic.0.flows"][0].as_integer(), Some(20));
        assert_eq!(swept["traffic.0.flows"][2].as_integer(), Some(120));
    }

    #[test]
    fn links_are_watched() {
        let t = short("[[link]]\nname = \"a\"");
        assert_eq!(t["probes"]["capture"], Value::Array(vec!["a".into()]));
        assert_eq!(short("")["probes"]["capture"][0].as_str(), Some("thin"));
        let t = short("[probes]\nseries = [\"queue\"]\ninterval = \"1ms\"\ncapture = [\"b\"]");
        assert_eq!(t["probes"]["interval"].as_str(), Some("1ms"));
        assert_eq!(t["probes"]["capture"][0].as_str(), Some("b"));
    }
}
