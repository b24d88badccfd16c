//! Logs of QUIC's senders, and the capture of the same run.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use super::{NARROWS, Place, possible, results, text};

/// A queue of ten packets, which loses of every transfer.
const LOSES: &str = r#"
name = "few"
rate = "500kbit"
rtt = "100ms"
duration = "10s"
jitter = "500ms"
discipline = "fifo:10"
probes = { qlog = 6 }
[[traffic]]
kind = "objects"
transport = "quic"
users = 6
size = "60kB"
"#;

#[test]
fn quics_senders_are_logged_and_the_capture_agrees() {
    if !possible() {
        return;
    }
    let place = Place::new("qlog", LOSES);
    let out = place.lab(&["--capture"]).output().unwrap();
    assert!(out.status.success() && !text(&out).contains("probes"), "{}", text(&out));
    let file = |end: &str| place.0.join(format!("few-fifo-10-1-{end}"));
    let log: Value = serde_json::from_slice(&std::fs::read(file("connections.qlog")).unwrap()).unwrap();
    let traces = log["traces"].as_array().unwrap();
    assert_eq!((traces.len(), &log["qlog_version"]), (6, &"0.3".into()));
    let mut of: BTreeMap<&str, u64> = BTreeMap::new();
    for event in traces.iter().flat_map(|t| t["events"].as_array().unwrap()) {
        *of.entry(event["name"].as_str().unwrap()).or_default() += 1;
    }
    // The server's own counters are of all connections, the log is of six.
    let counters = &results(&place.0)["disciplines"][0]["runs"][0]["record"]["server"]["quic"];
    let counted = |name: &str| counters[name].as_u64().unwrap();
    assert!((100..=counted("sent")).contains(&of["transport:packet_sent"]), "{of:?} {counters}");
    assert!((1..=counted("lost")).contains(&of["recovery:packet_lost"]), "{of:?} {counters}");
    assert!(of["recovery:loss_timer_updated"] <= counted("ptos"), "{of:?} {counters}");
    assert!(of["transport:packet_received"] > 50 && of["recovery:metrics_updated"] > 50, "{of:?}");
    for end in ["users.pcap", "server.pcap"] {
        let arguments = [file(end), "--json".into(), "--qlog".into(), file("connections.qlog")];
        let out = Command::new(NARROWS).arg("diagnose").args(arguments).output().unwrap();
        let all: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(all["remarks"].as_array().map(Vec::len), Some(0), "{}", all["remarks"]);
        let flows = all["quic"].as_array().unwrap();
        let sums: Vec<&Value> = flows.iter().map(|f| &f["qlog"]).filter(|q| !q.is_null()).collect();
        assert_eq!(sums.len(), 6, "each log has its connection");
        let sum = |name: &str| sums.iter().map(|q| q[name].as_u64().unwrap()).sum::<u64>();
        assert_eq!(sum("by"), 6);
        // quinn does not say in which number space its timer finds a loss.
        let lost = of["recovery:packet_lost"];
        assert!((lost * 9 / 10..=lost).contains(&sum("lost")), "{lost} {}", sum("lost"));
        assert_eq!(sum("timeouts"), of["recovery:loss_timer_updated"]);
        // At the server the capture has each datagram. Several packets may share one, and several datagrams a frame, as
        // quinn hands them over (UDP_SEGMENT), more of them on a busy host.
        let logged = flows.iter().filter(|f| !f["qlog"].is_null());
        let captured: u64 = logged.map(|f| f["packets"][1].as_u64().unwrap()).sum();
        let least = if end == "server.pcap" { sum("sent") / 4 } else { 0 };
        assert!((least..=sum("sent")).contains(&captured), "{end}: {captured} {}", sum("sent"));
        let stalls = flows.iter().flat_map(|f| f["stalls"].as_array().unwrap());
        for stall in stalls.filter(|s| s["by_qlog"] == true) {
            let lost = stall["sender"]["lost"].as_u64() > Some(0) && stall["sender"]["needless"] == false;
            let says_lost = ["starved", "handshake_lost"].contains(&stall["cause"].as_str().unwrap());
            assert!(!lost || says_lost, "{stall}");
        }
    }
}
