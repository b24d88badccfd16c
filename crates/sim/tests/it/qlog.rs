//! The file has the members that the drafts require, and tells what the run's own figures tell.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use narrows_scenario::Experiment;
use narrows_sim::Results;
use serde_json::Value;

/// Two flows through a thin link with a short queue, for 20 s.
fn results(traffic: &str, probes: &str) -> Results {
    let text = format!(
        "name = \"t\"\nrate = \"1mbit\"\nrtt = \"100ms\"\nduration = \"20s\"\nwarmup = \"0s\"\n\
         discipline = \"fifo:10\"\n[[traffic]]\nkind = \"long\"\nflows = 2\n{traffic}\n[probes]\n{probes}\n"
    );
    let runs = Experiment::parse(&text, &[]).and_then(|e| e.expand()).expect("a scenario");
    narrows_sim::run(&runs[0].scenario, runs[0].seed, &mut |_| ControlFlow::Continue(())).expect("results")
}

fn log(traffic: &str, connections: u32) -> Value {
    let results = results(traffic, &format!("qlog = {connections}"));
    serde_json::from_str(&results.qlog.expect("logs are wanted")).expect("JSON")
}

/// Events of a trace by name, and all have time, name and data (main schema, section 3.4), in order of time.
fn events(trace: &Value) -> BTreeMap<&str, Vec<&Value>> {
    let (mut by_name, mut last) = (BTreeMap::<_, Vec<_>>::new(), 0.0);
    for event in trace["events"].as_array().expect("a list of events") {
        let time = event["time"].as_f64().expect("a time");
        assert!(time >= last, "{time} after {last}");
        last = time;
        assert!(event["data"].is_object());
        by_name.entry(event["name"].as_str().expect("a name")).or_default().push(&event["data"]);
    }
    by_name
}

fn number(data: &Value) -> u64 {
    data["header"]["packet_number"].as_u64().expect("a packet number")
}

#[test]
fn required_members_are_there() {
    for traffic in ["", "transport = \"quic\""] {
        let file = log(traffic, 2);
        // Main schema, sections 3.1 to 3.3.
        assert_eq!((&file["qlog_version"], &file["qlog_format"]), (&"0.3".into(), &"JSON".into()));
        let traces = file["traces"].as_array().expect("traces");
        assert_eq!(traces.len(), 2);
        for trace in traces {
            assert_eq!(trace["vantage_point"]["type"], "server");
            let common = &trace["common_fields"];
            assert_eq!(
                (&common["time_format"], common["reference_time"].as_f64()),
                (&"relative".into(), Some(0.0))
            );
            let events = events(trace);
            // QUIC events, sections 5.3.5, 5.3.6, 5.4.2, 5.4.3 and 5.4.5.
            for name in ["transport:packet_sent", "transport:packet_received", "recovery:packet_lost"] {
                for data in &events[name] {
                    number(data);
                    assert!(data["header"]["packet_type"].is_string(), "{data}");
                }
            }
            for data in &events["transport:packet_sent"] {
                assert!(
                    data["raw"]["length"].as_u64().is_some_and(|len| len > 0) && data["frames"].is_array()
                );
            }
            assert!(
                events["recovery:metrics_updated"].iter().all(|data| !data.as_object().unwrap().is_empty())
            );
            let states: BTreeSet<&str> = events["recovery:congestion_state_updated"]
                .iter()
                .filter_map(|d| d["new"].as_str())
                .collect();
            assert!(states.contains("slow_start") && states.contains("congestion_avoidance"), "{states:?}");
        }
    }
}

#[test]
fn each_packet_is_sent_before_it_is_acknowledged_or_lost() {
    for traffic in ["", "transport = \"quic\""] {
        let file = log(traffic, 1);
        let trace = &file["traces"][0];
        let (mut sent, mut acked, mut lost) = (BTreeSet::new(), BTreeSet::new(), 0);
        for event in trace["events"].as_array().unwrap() {
            let data = &event["data"];
            // Numbers of the spaces before the application's are few, and theirs are not looked at.
            if data["header"]["packet_type"].as_str().is_some_and(|kind| kind != "1RTT") {
                continue;
            }
            match event["name"].as_str().unwrap() {
                "transport:packet_sent" => assert!(sent.insert(number(data)), "{data} is sent twice"),
                "recovery:packet_lost" => {
                    assert!(sent.contains(&number(data)), "{data}");
                    lost += 1;
                }
                "transport:packet_received" => {
                    for frame in data["frames"].as_array().unwrap() {
                        for range in frame["acked_ranges"].as_array().into_iter().flatten() {
                            let (first, last) = (range[0].as_u64().unwrap(), range[1].as_u64().unwrap());
                            assert!((first..=last).all(|n| sent.contains(&n)), "{range}");
                            acked.extend(first..=last);
                        }
                    }
                }
                _ => {}
            }
        }
        // 1 Mbit/s for 20 s are some 1700 packets of 1500 bytes, half of them of this flow.
        assert!((400..1700).contains(&acked.len()) && lost > 0, "{} {lost}", acked.len());
    }
}

#[test]
fn losses_are_those_that_the_run_counts() {
    let results = results("", "qlog = 2");
    let file: Value = serde_json::from_str(results.qlog.as_deref().unwrap()).unwrap();
    let traces = file["traces"].as_array().unwrap();
    let of =
        |name: &str| traces.iter().map(|t| events(t).get(name).map_or(0, Vec::len)).sum::<usize>() as f64;
    // Data sent again, of all that was sent: the log has SYNs too.
    let share = of("recovery:packet_lost") / of("transport:packet_sent");
    assert!((share - results.summary["retransmitted"]).abs() < 0.005, "{share} {:?}", results.summary);
}

#[test]
fn logging_changes_nothing() {
    let (with, without) = (results("", "qlog = 2"), results("", ""));
    assert!(with.qlog.is_some() && without.qlog.is_none());
    assert_eq!(format!("{:?}", with.summary), format!("{:?}", without.summary));
}
