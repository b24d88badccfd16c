use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::*;
use crate::{Sight, TalkerJson};
use narrows_qdisc::follow::FollowReport;
use narrows_qdisc::{AdmissionReport, Reason};
use narrows_units::Instant;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A box in which everything has something to say.
fn busy() -> Status {
    let mut s = Status { lan: "eth1".into(), wan: "eth0".into(), version: "1".into(), ..Status::default() };
    for d in [&mut s.down, &mut s.up] {
        d.rate_bps = Some(600_000);
        d.report.counters.dropped[Reason::OverLimit as usize] = 3;
        d.report.admission = Some(AdmissionReport { waiting: 2, ..AdmissionReport::default() });
        d.report.follows = Some(FollowReport::default());
    }
    s.sight = Sight::new(Instant::ZERO, 1).report(Instant::ZERO, |user| user.to_string());
    let tail = s.sight.causes.iter_mut().find(|c| c.cause == "tail_loss").unwrap();
    (tail.total, tail.total_s) = (4, 20.5);
    let talker = |n: u64| TalkerJson {
        user: format!("10.0.0.{n}"),
        name: Some(format!("host{n}")),
        hour_offered_bytes: [2000 + n, 20],
        hour_bytes: [1000 + n, 10],
        hour_wait_s: 0.25,
        ..TalkerJson::default()
    };
    s.sight.talkers = (0..16).map(talker).collect();
    s.sight.stall_s.counts[2] = 4;
    s.sight.stall_s.sum = 3.5;
    s
}

/// Names of families, as `# TYPE` has them.
fn families(text: &str) -> Vec<&str> {
    text.lines().filter_map(|l| l.strip_prefix("# TYPE ")).filter_map(|l| l.split(' ').next()).collect()
}

fn samples(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|l| !l.starts_with('#'))
}

#[test]
fn each_link_has_its_series_in_one_family() {
    let link = |name: &str| Status { name: Some(name.into()), ..busy() };
    let text = render(Status { links: vec![link("north"), link("south")], ..Status::default() });
    for name in ["north", "south"] {
        let line = format!("narrows_stalled_seconds_total{{link=\"{name}\",cause=\"tail_loss\"}} 20.5");
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    let all = families(&text);
    assert_eq!(all.len(), all.iter().collect::<BTreeSet<_>>().len(), "a family stands once");
}

#[test]
fn by_hand() {
    let text = render(busy());
    for line in [
        "# TYPE narrows_stalled_seconds counter",
        "# UNIT narrows_stalled_seconds seconds",
        "narrows_stalled_seconds_total{link=\"eth1-eth0\",cause=\"tail_loss\"} 20.5",
        "narrows_dropped_packets_total{link=\"eth1-eth0\",direction=\"down\",reason=\"over_limit\"} 3",
        "narrows_link_rate_bytes_per_second{link=\"eth1-eth0\",direction=\"up\"} 75000.0",
        "narrows_stall_length_seconds_bucket{le=\"1.0\",link=\"eth1-eth0\"} 4",
        "narrows_stall_length_seconds_bucket{le=\"0.5\",link=\"eth1-eth0\"} 0",
        "narrows_stall_length_seconds_sum{link=\"eth1-eth0\"} 3.5",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn ten_users_and_no_more_with_names_that_end_no_label() {
    let mut status = busy();
    status.sight.talkers[3].name = Some("a\"b\\c\n<d>".into());
    let text = render(status);
    for line in [
        "narrows_top_user_hour_offered_bytes{link=\"eth1-eth0\",user=\"10.0.0.0\",name=\"host0\",direction=\"down\"} \
         2000.0",
        "narrows_top_user_hour_delivered_bytes{link=\"eth1-eth0\",user=\"10.0.0.9\",name=\"host9\",direction=\"up\"} \
         10.0",
        "narrows_top_user_hour_wait_seconds{link=\"eth1-eth0\",user=\"10.0.0.3\",name=\"a\\\"b\\\\c\\n<d>\"} 0.25",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("10.0.0.10"));
}

#[test]
fn at_most_250_series_each_once_with_help_type_and_unit() {
    let text = render(busy());
    let series: Vec<&str> = samples(&text).filter_map(|l| l.rsplit_once(' ')).map(|(name, _)| name).collect();
    assert!(series.len() <= 250, "{}", series.len());
    assert_eq!(series.iter().collect::<BTreeSet<_>>().len(), series.len(), "each once");
    let families = families(&text);
    assert_eq!(families.len(), all().len());
    for family in &families {
        assert!(text.contains(&format!("# HELP {family} ")), "{family}");
    }
    for line in samples(&text) {
        let name = line.split(['{', ' ']).next().unwrap();
        assert!(families.iter().any(|f| name.starts_with(f)), "{line}");
        assert!(line.rsplit_once(' ').unwrap().1.parse::<f64>().is_ok(), "{line}");
    }
    for metric in all() {
        let known = metric.unit.is_some() || metric.name.ends_with("_per_second");
        let counted = ["packets", "connections", "users", "stalls", "info", "ratio"];
        let bare = ["observing", "notices", "bypassed", "503", "overloaded", "timeouts", "retransmits"];
        let named = counted.iter().chain(&bare).any(|end| metric.name.ends_with(end));
        assert!(known || named, "{}: what is counted?", metric.name);
    }
}

/// All names that look like ours.
fn named(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let words = text.split(|c: char| !word(c)).filter(|w| w.starts_with("narrows_"));
    words.map(str::to_owned).collect()
}

/// Names of all samples in a scrape.
fn known() -> BTreeSet<String> {
    samples(&render(busy())).filter_map(|l| l.split(['{', ' ']).next()).map(str::to_owned).collect()
}

#[test]
fn what_the_dashboard_and_the_alerts_ask_for_is_there() {
    let known = known();
    for file in ["packaging/grafana/narrows.json", "packaging/prometheus/narrows.rules.yml"] {
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        let asked = named(&text);
        assert!(!asked.is_empty(), "{file}");
        let missing: Vec<_> = asked.difference(&known).collect();
        assert!(missing.is_empty(), "{file} asks for {missing:?}");
    }
    let grafana = std::fs::read_to_string(root().join("packaging/grafana/narrows.json")).unwrap();
    let grafana: serde_json::Value = serde_json::from_str(&grafana).unwrap();
    let panels = grafana["panels"].as_array().unwrap();
    assert!(panels.len() >= 8);
    for panel in panels {
        let unit = &panel["fieldConfig"]["defaults"]["unit"];
        assert!(unit.is_string(), "{}: no unit", panel["title"]);
        assert!(panel["targets"].as_array().is_some_and(|t| !t.is_empty()), "{}", panel["title"]);
    }
}

#[test]
fn promtool_reads_the_alerts_and_the_metrics() {
    let mut version = Command::new("promtool");
    if !version.arg("--version").output().is_ok_and(|out| out.status.success()) {
        let name = narrows_testing::running();
        narrows_testing::skip(&name, "needs promtool; make setup unpacks Debian's");
        return;
    }
    let rules = root().join("packaging/prometheus");
    for args in [["check", "rules", "narrows.rules.yml"], ["test", "rules", "narrows.test.yml"]] {
        let out = Command::new("promtool").args(args).current_dir(&rules).output().unwrap();
        let said = [out.stdout, out.stderr].map(|b| String::from_utf8_lossy(&b).into_owned()).concat();
        assert!(out.status.success(), "{args:?}: {said}");
    }
    // The reader knows the older text format, in which counters are named with their end.
    let mut text = render(busy()).replace("# EOF\n", "");
    let counters: Vec<String> = all()
        .iter()
        .zip(families(&text))
        .filter(|(m, _)| matches!(m.kind(), MetricType::Counter))
        .map(|(_, family)| family.to_owned())
        .collect();
    for family in counters {
        for word in ["HELP", "TYPE"] {
            text = text.replace(&format!("# {word} {family} "), &format!("# {word} {family}_total "));
        }
    }
    let text: String = text.lines().filter(|l| !l.starts_with("# UNIT")).map(|l| format!("{l}\n")).collect();
    let mut check = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    check.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let out = check.wait_with_output().unwrap();
    let said = [out.stdout, out.stderr].map(|b| String::from_utf8_lossy(&b).into_owned()).concat();
    assert!(out.status.success(), "{said}");
}

#[test]
fn the_reference_page_is_what_the_code_says() {
    let path = root().join("docs/reference/metrics.md");
    let text = render(busy());
    let mut rows = String::new();
    for (metric, family) in all().iter().zip(families(&text)) {
        let end = if matches!(metric.kind(), MetricType::Counter) { "_total" } else { "" };
        let sample = samples(&text).find(|l| l.starts_with(family)).unwrap_or_default();
        let labels = sample.split_once('{').and_then(|(_, l)| l.split_once('}')).map_or("", |(l, _)| l);
        let labels = labels.split(',').filter_map(|l| l.split('=').next());
        let labels: Vec<_> = labels.filter(|l| !["link", "le", ""].contains(l)).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        rows += &format!("| `{family}{end}{labels}` | {} |\n", metric.help);
    }
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = page.split_once("| --- | --- |\n").unwrap();
    let rows_there = rest.lines().take_while(|l| l.starts_with('|')).map(|l| l.len() + 1).sum();
    let foot = &rest[rows_there..];
    let expected = format!("{head}| --- | --- |\n{rows}{foot}");
    if std::env::var_os("NARROWS_WRITE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    assert_eq!(page, expected, "NARROWS_WRITE=1 cargo test -p narrows-box metrics writes it");
}
