//! A real Prometheus scrapes a box, loads the alerts, and is asked what the dashboard of Grafana asks.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use narrows_testing::{running as test, skip};
use serde_json::Value;

use crate::live_box::page::said;
use crate::live_box::world::{Kind, World};

const PORT: u16 = 9090;

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// Prometheus in the namespace of the box; ends with the test.
struct Prometheus<'a> {
    world: &'a World,
    child: Child,
}

impl<'a> Prometheus<'a> {
    /// Scrapes the box and judges the rules each second.
    fn start(world: &'a World) -> Self {
        let rules = packaging().join("prometheus/narrows.rules.yml");
        let settings = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [\"{}\"]\n\
             scrape_configs: [{{job_name: narrows, static_configs: [{{targets: [\"127.0.0.1:8088\"]}}]}}]\n",
            rules.canonicalize().unwrap().display()
        );
        let file = world.dir.join("prometheus.yml");
        std::fs::write(&file, settings).unwrap();
        let child = Command::new("ip")
            .args(["netns", "exec", &world.ns("b"), "timeout", "120", "prometheus"])
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", world.dir.join("prometheus").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{PORT}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(world.dir.join("prometheus.log")).unwrap())
            .spawn()
            .unwrap();
        Self { world, child }
    }

    /// The answer's `data`; null while it does not answer.
    fn asked(&self, path: &str) -> Value {
        // Answers over HTTP/1.0 come in one piece.
        let request = format!("GET /api/v1/{path} HTTP/1.0\r\nHost: localhost:{PORT}\r\n\r\n");
        let answer = said(self.world, PORT, request).unwrap_or_default();
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let answer: Value = serde_json::from_str(body).unwrap_or_default();
        assert_ne!(answer["status"], "error", "{path}: {answer}");
        answer["data"].clone()
    }

    /// Values of an expression now: one for each series.
    fn value_of(&self, expression: &str) -> Vec<Value> {
        let encoded: String = expression.bytes().map(|b| format!("%{b:02X}")).collect();
        self.asked(&format!("query?query={encoded}"))["result"].as_array().cloned().unwrap_or_default()
    }

    /// Asks again until the answer will do.
    fn until<T>(&self, what: &str, ask: impl Fn() -> Option<T>) -> T {
        for _ in 0..120 {
            if let Some(answer) = ask() {
                return answer;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        let log = std::fs::read_to_string(self.world.dir.join("prometheus.log")).unwrap_or_default();
        panic!("not seen within a minute: {what}\n{log}");
    }
}

impl Drop for Prometheus<'_> {
    fn drop(&mut self) {
        // `timeout` passes it on.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

/// The expressions of all panels, over five seconds and all links.
fn expressions() -> Vec<String> {
    let text = std::fs::read_to_string(packaging().join("grafana/narrows.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let targets =
        dashboard["panels"].as_array().unwrap().iter().filter_map(|p| p["targets"].as_array()).flatten();
    let asked = targets.map(|t| t["expr"].as_str().unwrap().replace("$__rate_interval", "5s"));
    asked.map(|e| e.replace("$link", ".*")).collect()
}

#[test]
fn a_real_prometheus_is_told_all_that_the_dashboard_shows() {
    if !Command::new("prometheus").arg("--version").output().is_ok_and(|out| out.status.success()) {
        skip(&test(), "needs prometheus; make setup unpacks Debian's");
        return;
    }
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let running = world.start("--down 4mbit --up 1mbit --discipline taq --page 127.0.0.1:8088");
    let prometheus = Prometheus::start(&world);
    prometheus.until("the box is scraped", || {
        let up = prometheus.value_of("up{job=\"narrows\"}");
        (up.first()?["value"][1] == "1").then_some(())
    });
    world.fetch(world.server4(), 1_000_000).complete();
    prometheus.until("what has passed", || {
        let sent = prometheus.value_of("narrows_sent_bytes_total{direction=\"down\"}");
        let bytes: f64 = sent.first()?["value"][1].as_str()?.parse().ok()?;
        (bytes > 1_000_000.0).then_some(())
    });

    let rules = prometheus.until("each rule is judged", || {
        let groups = prometheus.asked("rules?type=alert");
        let rules = groups["groups"].as_array()?.iter().filter_map(|g| g["rules"].as_array()).flatten();
        let rules: Vec<Value> = rules.cloned().collect();
        (!rules.is_empty() && rules.iter().all(|r| r["health"] != "unknown")).then_some(rules)
    });
    for rule in &rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }

    let expressions = expressions();
    assert!(expressions.len() >= 8);
    for expression in expressions {
        // An expression that is above 0 only in trouble may be empty.
        let found = prometheus.until(&expression, || {
            let found = prometheus.value_of(&expression);
            (!found.is_empty() || expression.ends_with("> 0")).then_some(found.len())
        });
        assert!(found <= 60, "{expression}: {found} lines in one panel");
    }
    running.stop();
}
