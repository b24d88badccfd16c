//! `narrows model function` from outside: any declared model by its name.

use super::{json, model, near, refuses};

/// Mathis at one percent: sqrt(1.5 / 0.01). Jain of 1, 2, 3: 36 / 42. 600 kbit/s for 0.2 s are 30 packets of 500 B.
#[test]
fn functions_answer_by_name() {
    near(&json("function throughput.mathis loss=0.01")["packets_per_rtt"], 12.247_448_71, 1e-8);
    near(&json("function fairness.jain shares=1,2,3")["index"], 36.0 / 42.0, 1e-12);
    let dbp = "function buffers.dbp_packets rate_bps=600kbit rtt_s=200ms packet_bytes=500";
    near(&json(dbp)["packets"], 30.0, 1e-12);
    // As `narrows model link` has it.
    let point =
        json("function operating.operating_point rate_bps=600kbit rtt_s=0.2 flows=60 packet_bytes=500");
    assert_eq!(point["loss"], json("link --rate 600kbit --flows 60 --rtt 0.2 --packet 500")["loss"]);
    assert_eq!(point["regime"], "sub-packet");
    let sent = json("function burst.flow_level packets=20");
    assert_eq!(sent["windows"], serde_json::json!([1.0, 4.0, 7.0, 10.0]));
    assert_eq!(json("function control.sufficient_stable alpha=0.1,0.1 beta=0.2,0.2")["stable"], true);
}

#[test]
fn all_functions_are_listed() {
    let out = model("function");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success() && text.lines().count() >= 90, "{text}");
    assert!(text.contains("throughput.mathis ") && text.contains("taq_chain.tipping_point "), "{text}");
}

#[test]
fn refusals_name_the_argument_and_its_range() {
    for (words, says) in [
        ("function throughput.mathys loss=1", "no such function"),
        (
            "function throughput.mathis",
            "loss: is missing: expected Loss probability of a packet (above 0 to 1)",
        ),
        (
            "function throughput.mathis loss=0.1 rtt=1",
            "rtt: no argument of throughput.mathis: expected loss, b",
        ),
        ("function throughput.mathis loss=much", "loss = much: expected Loss probability"),
        ("function throughput.mathis loss=2", "loss = 2: expected 0 < loss <= 1"),
        ("function throughput.mathis 0.1", "expected NAME=VALUE"),
        ("function burst.on_ack cwnd=1 form=new", "form = 'new': expected one of guarded,"),
        ("function throughput.mathis loss=0.1 --plot x.svg", "a function has no picture"),
    ] {
        refuses(words, says);
    }
}
