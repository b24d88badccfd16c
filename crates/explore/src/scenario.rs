//! Settings as a scenario file, and as a program in Python that makes the same runs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::settings::WEB_KB;
use crate::{STALL_S, Settings, Which};

/// Factor by which every other link is faster than the thin one, as in scenario files.
const FASTER: f64 = 100.0;

/// Names of the thin link and of its way back, as the short form of scenario files has them.
pub(crate) const THIN: &str = "thin";
pub(crate) const THIN_BACK: &str = "thin.back";

/// An entry of a table: its name in Python, where that is a class, and its keys.
struct Entry {
    table: &'static str,
    class: &'static str,
    keys: Vec<(&'static str, Value)>,
}

/// The settings of one queue or of both, as tables.
struct Parts {
    top: Vec<(&'static str, Value)>,
    tables: Vec<Entry>,
}

/// Settings as a scenario file with both queues.
#[must_use]
pub fn toml(settings: &Settings) -> String {
    file(settings, &queues(settings))
}

/// Settings as a scenario file with one queue.
pub(crate) fn toml_of(settings: &Settings, which: Which) -> String {
    file(settings, &[settings.queue(which)])
}

/// Lists both queues; one queue if the two are equal.
pub(crate) fn queues(settings: &Settings) -> Vec<String> {
    let mut both = vec![settings.queue(Which::A), settings.queue(Which::B)];
    both.dedup();
    both
}

fn file(settings: &Settings, queues: &[String]) -> String {
    let parts = parts(settings, queues);
    let mut out = String::new();
    for (key, value) in &parts.top {
        let _ = writeln!(out, "{key} = {value}");
    }
    for entry in &parts.tables {
        let (open, close) =
            if entry.class == "Tcp" || entry.class == "Probes" { ("[", "]") } else { ("[[", "]]") };
        let _ = writeln!(out, "\n{open}{}{close}", entry.table);
        for (key, value) in &entry.keys {
            let _ = writeln!(out, "{key} = {value}");
        }
    }
    out
}

/// Settings as a program in Python with the same runs.
#[must_use]
pub fn python(settings: &Settings) -> String {
    let parts = parts(settings, &queues(settings));
    let keys = |keys: &[(&'static str, Value)], but: &str| {
        let kept = keys.iter().filter(|(key, _)| *key != but);
        kept.map(|(key, value)| format!("{}={}", named(key), literal(value))).collect::<Vec<_>>()
    };
    let mut arguments = keys(&parts.top, "");
    for table in ["link", "hosts", "tcp", "probes", "traffic"] {
        let made: Vec<String> = parts
            .tables
            .iter()
            .filter(|entry| entry.table == table)
            .map(|entry| format!("narrows.{}({})", entry.class, keys(&entry.keys, "kind").join(", ")))
            .collect();
        match (table, made.as_slice()) {
            (_, []) => {}
            ("tcp" | "probes", [one]) => arguments.push(format!("{table}={one}")),
            _ => arguments.push(format!("{table}=[\n        {},\n    ]", made.join(",\n        "))),
        }
    }
    format!(
        "import narrows\n\nscenario = narrows.Scenario(\n    {},\n)\nresults = narrows.sweep(scenario)\n\
         print(results[\"goodput_kbps\"])\n",
        arguments.join(",\n    "),
    )
}

/// Name of a key in the Python package: a key that is a word of Python gets an underscore.
fn named(key: &str) -> &str {
    if key == "from" { "from_" } else { key }
}

/// A value in the syntax of Python.
fn literal(value: &Value) -> String {
    match value {
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        other => other.to_string(),
    }
}

/// A rate in kbit/s, rounded to a bit.
fn rate(kbps: f64) -> Value {
    let bits = (kbps * 1e3).round();
    if bits % 1e3 == 0.0 { json!(format!("{}kbit", bits / 1e3)) } else { json!(format!("{bits}bit")) }
}

/// A number in decimal; a whole number has no fraction.
fn plain(value: f64) -> String {
    format!("{value}")
}

fn parts(settings: &Settings, queues: &[String]) -> Parts {
    let s = settings;
    let mut top = vec![
        ("name", json!("explore")),
        ("duration", json!(format!("{}s", s.seconds))),
        ("seeds", json!([s.seed])),
        ("mtu", json!(s.mtu)),
    ];
    if s.loss_percent > 0.0 {
        top.push(("loss", json!(s.loss_percent / 100.0)));
    }
    let mut tables = Vec::new();
    if s.rates_kbps.is_empty() {
        top.push(("rate", rate(s.rate_kbps)));
        top.push(("rtt", json!(format!("{}ms", plain(s.rtt_ms)))));
        if s.up_kbps > 0.0 {
            top.extend([("up_rate", rate(s.up_kbps)), ("up_discipline", json!("same"))]);
        }
    } else {
        tables.extend(changing(s));
    }
    top.push(("disciplines", json!(queues)));
    if s.senders != "linux" {
        tables.push(Entry { table: "tcp", class: "Tcp", keys: vec![("preset", json!(s.senders))] });
    }
    tables.push(Entry {
        table: "probes",
        class: "Probes",
        // The file records what the page draws from, so that its runs are the page's to the last digit.
        keys: vec![
            ("stalls", json!([format!("{STALL_S}s")])),
            ("capture", json!([THIN, THIN_BACK])),
            ("repairs", json!(true)),
        ],
    });
    tables.extend(traffic(s));
    Parts { top, tables }
}

/// A link whose rate changes, with hosts on both sides of it. The way back has drop-tail.
fn changing(s: &Settings) -> Vec<Entry> {
    let fast = s.rates_kbps.iter().fold(s.up_kbps, |a, b| a.max(*b)) * FASTER;
    let mut steps: Vec<(u32, f64)> = Vec::new();
    for second in 0..s.seconds {
        let now = s.rate_in(second);
        if steps.last().is_none_or(|(_, before)| (before - now).abs() > f64::EPSILON) {
            steps.push((second, now));
        }
    }
    // A link that ends in an outage is not accepted, as it would never send what waits.
    if steps.last().is_some_and(|(_, last)| *last < 1.0) {
        steps.push((s.seconds, s.mean_kbps()));
    }
    let text = |kbps: f64| if kbps < 1.0 { json!("0") } else { rate(kbps) };
    let steps: Vec<Value> = steps.iter().map(|(at, kbps)| json!([format!("{at}s"), text(*kbps)])).collect();
    let (up, queue) = if s.up_kbps > 0.0 { (s.up_kbps, s.buffer) } else { (fast, 1000) };
    let hosts = |name: &str, at: &str, delay: f64| Entry {
        table: "hosts",
        class: "Hosts",
        keys: vec![
            ("name", json!(name)),
            ("at", json!(at)),
            ("rate", rate(fast)),
            ("delay", json!(format!("{}ms", plain(delay)))),
        ],
    };
    vec![
        Entry {
            table: "link",
            class: "Link",
            keys: vec![
                ("name", json!(THIN)),
                ("from", json!("left")),
                ("to", json!("right")),
                ("rates", Value::Array(steps)),
                ("back_rate", rate(up)),
                ("back_discipline", json!(format!("fifo:{queue}"))),
            ],
        },
        hosts("servers", "left", s.rtt_ms / 2.0),
        hosts("clients", "right", 0.0),
    ]
}

fn traffic(s: &Settings) -> Vec<Entry> {
    let entry = |class, keys: Vec<(&'static str, Value)>| Entry { table: "traffic", class, keys };
    let mut all = Vec::new();
    let quic = s.quic_users();
    let over_tcp = if s.tls { "tls" } else { "tcp" };
    for (transport, users) in [(over_tcp, s.users.saturating_sub(quic)), ("quic", quic)] {
        if users == 0 {
            continue;
        }
        let (class, kind) = if s.load == "pages" { ("Pages", "pages") } else { ("Objects", "objects") };
        let mut keys = vec![
            ("kind", json!(kind)),
            ("name", json!(transport)),
            ("users", json!(users)),
            ("connections", json!(s.connections)),
        ];
        if s.load == "pages" {
            keys.push(("objects", json!(format!("exp:{}", s.objects))));
        }
        if (s.object_kb - WEB_KB).abs() > f64::EPSILON {
            keys.push(("size", json!(format!("exp:{}", (s.object_kb * 1e3).round()))));
        }
        if s.think_s > 0.0 {
            keys.push(("think", json!(format!("{}s", plain(s.think_s)))));
        }
        if transport != "tcp" {
            keys.push(("transport", json!(transport)));
        }
        all.push(entry(class, keys));
    }
    if s.downloads > 0 {
        let keys = vec![("kind", json!("long")), ("name", json!("downloads")), ("flows", json!(s.downloads))];
        all.push(entry("Long", keys));
    }
    if s.calls > 0 {
        let keys = vec![
            ("kind", json!("calls")),
            ("name", json!("calls")),
            ("flows", json!(s.calls)),
            ("shape", json!(s.shape)),
        ];
        all.push(entry("Calls", keys));
    }
    all
}
