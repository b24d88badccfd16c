//! Captures of the simulator, whose scenario is known, come back.

use narrows_diagnose::{Analyzer, AnalyzerLimits};
use narrows_scenario::Experiment;
use narrows_wire::capture::Captured;

use super::*;

/// Scenario with both sides of a thin link of 1 Mbit/s with a drop-tail queue of 25 packets; its senders need not
/// keep step.
const LINKS: &str = r#"
    name = "known"
    duration = "150s"
    dephase = "3ms"
    overhead = 0
    discipline = "fifo:25"
    [[link]]
    name = "before"
    from = "world"
    to = "left"
    rate = "100mbit"
    discipline = "fifo:5000"
    back_discipline = "fifo:5000"
    [[link]]
    name = "thin"
    from = "left"
    to = "right"
    rate = "1mbit"
    back_rate = "100mbit"
    back_discipline = "fifo:5000"
    [[hosts]]
    name = "servers"
    at = "world"
    delay = "20ms"
    [[hosts]]
    name = "clients"
    at = "right"
    delay = "10ms..60ms"
    [probes]
    capture = ["before", "before.back", "thin", "thin.back"]
"#;

/// Packets of both directions of a link, by time.
fn simulate(traffic: &str, link: &str) -> Vec<(Instant, Captured)> {
    simulated(LINKS, traffic, link)
}

fn simulated(links: &str, traffic: &str, link: &str) -> Vec<(Instant, Captured)> {
    let runs = Experiment::parse(&format!("{links}\n{traffic}"), &[]).unwrap().expand().unwrap();
    let results =
        narrows_sim::run(&runs[0].scenario, runs[0].seed, &mut |_| ControlFlow::Continue(())).unwrap();
    let mut packets = Vec::new();
    for (name, file) in &results.captures {
        if *name == link || *name == format!("{link}.back") {
            run::read(file, &mut packets).unwrap();
        }
    }
    packets.sort_by_key(|(at, _)| *at);
    packets
}

fn asked(packets: &[(Instant, Captured)], args: Args) -> WhatIf {
    let mut what_if = WhatIf::new(&args).unwrap().unwrap();
    let mut analyzer = Analyzer::new(AnalyzerLimits::default());
    for (at, packet) in packets {
        let number = analyzer.packet(*at, packet.frame, &packet.header);
        what_if.packet(number, *at, &packet.header);
    }
    analyzer.finish();
    analyzer.finished().for_each(|flow| what_if.flow(&flow));
    what_if
}

fn taq() -> Args {
    Args { what_if: vec!["taq".parse().unwrap()], ..Args::default() }
}

fn answer(packets: &[(Instant, Captured)]) -> Value {
    let answer = asked(packets, taq()).finish("known", 5.0, &AtomicBool::new(false)).unwrap();
    println!("{}", answer.text);
    answer.json
}

fn of(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} in {value}"))
}

#[track_caller]
fn near(value: &Value, path: &str, is: f64, within: f64) {
    let found = of(value, path);
    assert!((found / is - 1.0).abs() <= within, "{path}: {found} instead of {is}");
}

/// Asserts that the simulated present resembles the capture.
#[track_caller]
fn resembles(told: &Value) {
    let both = |name: &str| {
        (of(told, &format!("/captured/{name}")), of(told, &format!("/simulated/0/figures/{name}")))
    };
    let (captured, simulated) = both("repaired");
    assert!((captured - simulated).abs() < 0.05, "repaired: {captured} and {simulated}");
    let (captured, simulated) = both("stall_p50_s");
    assert!(captured < 2.0 * simulated && simulated < 2.0 * captured, "stalls: {captured} and {simulated}");
    let (captured, simulated) = both("goodput_bps");
    assert!((captured / simulated - 1.0).abs() < 0.1, "goodput: {captured} and {simulated}");
}

#[track_caller]
fn is_trusted(told: &Value) {
    assert_eq!((&told["trusted"], &told["why_not"]), (&true.into(), &serde_json::json!([])));
}

const LONG: &str = "[[traffic]]\nkind = \"long\"\nflows = 40\nopened_by = \"receiver\"\n";
const WEB: &str = "[[traffic]]\nkind = \"objects\"\nusers = 50\nconnections = 2\nthink = \"4s\"\n";

#[test]
fn endless_flows_come_back_before_the_link() {
    let told = answer(&simulate(LONG, "before"));
    near(&told, "/fit/rate_bps", 1e6, 0.05);
    near(&told, "/fit/queue_packets", 25.0, 0.15);
    // Up to 3 ms on either way are the hosts' own.
    near(&told, "/fit/rtt_least_s", 0.063, 0.2);
    near(&told, "/fit/rtt_p50_s", 0.113, 0.15);
    near(&told, "/fit/rtt_most_s", 0.163, 0.15);
    assert_eq!((of(&told, "/fit/users"), of(&told, "/fit/objects")), (40.0, 0.0));
    near(&told, "/fit/endless", 40.0, 0.05);
    assert_eq!(told["fit"]["capture"], "before");
    resembles(&told);
    is_trusted(&told);
    assert!(of(&told, "/simulated/1/dropped") < 0.05 && told["simulated"][1]["discipline"] == "taq");
    assert!(of(&told, "/simulated/1/figures/stall_p50_s") < 2.0);
}

#[test]
fn a_crowd_at_the_web_comes_back_before_the_link() {
    let packets = simulate(WEB, "before");
    let told = answer(&packets);
    near(&told, "/fit/rate_bps", 1e6, 0.05);
    near(&told, "/fit/queue_packets", 25.0, 0.2);
    near(&told, "/fit/rtt_least_s", 0.063, 0.2);
    near(&told, "/fit/rtt_p50_s", 0.113, 0.1);
    near(&told, "/fit/rtt_most_s", 0.163, 0.1);
    let flows = asked(&packets, taq()).collector.flows.len() as f64;
    assert_eq!(of(&told, "/fit/objects") + of(&told, "/fit/endless"), flows);
    // The reply's header is 200 bytes.
    near(&told, "/fit/object_bytes", 7500.0, 0.05);
    assert_eq!(of(&told, "/fit/users"), 50.0);
    resembles(&told);
    is_trusted(&told);
}

#[test]
fn behind_the_link_the_rate_is_exact_and_the_rest_is_rough() {
    let told = answer(&simulate(WEB, "thin"));
    assert_eq!(told["fit"]["capture"], "behind");
    near(&told, "/fit/rate_bps", 1e6, 0.02);
    near(&told, "/fit/rtt_p50_s", 0.113, 0.6);
    near(&told, "/fit/queue_packets", 25.0, 0.5);
    resembles(&told);
    assert!(told["remarks"].to_string().contains("behind the queue"));
    // Losses in the queue, and users who wait for admission, are seen before it only.
    assert!(of(&told, "/simulated/0/before/repaired") > of(&told, "/simulated/0/figures/repaired"));
}

#[test]
fn a_link_that_is_seldom_full_has_its_rate_guessed_or_given() {
    let few = "[[traffic]]\nkind = \"objects\"\nusers = 3\nthink = \"5s\"\n";
    let packets = simulate(few, "before");
    let told = answer(&packets);
    assert_eq!(
        (&told["fit"]["rate_from"], &told["fit"]["queue_from"]),
        (&"guessed".into(), &"guessed".into())
    );
    // No other queue is compared.
    assert_eq!((&told["trusted"], told["simulated"].as_array().map(Vec::len)), (&false.into(), Some(1)));
    assert_eq!(told["plan"], Value::Null);
    assert!(told["why_not"].to_string().contains("give it with --rate"), "{}", told["why_not"]);
    let args = Args { rate: "1mbit".parse().ok(), buffer: "30".parse().ok(), ..taq() };
    let told = asked(&packets, args).finish("few", 5.0, &AtomicBool::new(false)).unwrap().json;
    assert_eq!((of(&told, "/fit/rate_bps"), of(&told, "/fit/queue_packets")), (1e6, 30.0));
    near(&told, "/fit/rtt_p50_s", 0.113, 0.1);
}

/// The queue in the capture is another than drop-tail: what is simulated as it is comes out otherwise.
#[test]
fn a_queue_that_is_not_drop_tail_is_not_compared_with_others() {
    let links = LINKS.replace("fifo:25", "taq");
    let packets = simulated(&links, LONG, "before");
    let answer = asked(&packets, taq()).finish("known", 5.0, &AtomicBool::new(false)).unwrap();
    assert_eq!(answer.json["trusted"], false, "{}", answer.text);
    near(&answer.json, "/fit/rate_bps", 1e6, 0.05);
    let lines: Vec<&str> = answer.text.lines().filter(|l| l.contains("not trusted")).collect();
    assert!(matches!(lines[..], [line] if line.contains(" instead of ")), "{}", answer.text);
    for words in ["simulated with", "Rule of thumb", "over 5 s"] {
        assert!(!answer.text.contains(words), "{words}: {}", answer.text);
    }
}

/// Presets of the simulator's TCP allow not every setting beside each other.
#[test]
fn senders_are_told_by_their_options() {
    for (tcp, senders) in [
        ("preset = \"rfc\", recovery = \"newreno\"", "rfc"),
        (
            "preset = \"linux\", recovery = \"newreno\", dsack = \"off\", rack_tlp = \"off\", prr = \"off\"",
            "linux",
        ),
    ] {
        let told = answer(&simulate(&format!("{LONG}tcp = {{ {tcp} }}\n"), "before"));
        assert_eq!(told["fit"]["senders"], senders);
        let [captured, simulated] =
            ["/captured/repaired", "/simulated/0/figures/repaired"].map(|p| of(&told, p));
        assert!((captured - simulated).abs() < 0.05, "{tcp}: {captured} and {simulated}");
    }
}

#[test]
fn what_cannot_be_fitted_is_refused_with_the_reason() {
    let packets = simulate(LONG, "before");
    let refused = |packets: &[(Instant, Captured)]| {
        let why =
            asked(packets, taq()).finish("known", 5.0, &AtomicBool::new(false)).err().expect("it is refused");
        format!("{why:#}")
    };
    let short = packets.iter().position(|(at, _)| at.as_secs_f64() > 6.0).unwrap();
    assert!(refused(&packets[..short]).contains("too short"), "{}", refused(&packets[..short]));
    let one_way: Vec<_> = packets.iter().filter(|(_, p)| p.header.is_tcp_data()).copied().collect();
    assert!(refused(&one_way).contains("only one direction"), "{}", refused(&one_way));
    let bare: Vec<_> = packets.iter().filter(|(_, p)| !p.header.is_tcp_data()).copied().collect();
    assert!(refused(&bare).contains("no flow with data"), "{}", refused(&bare));
}
