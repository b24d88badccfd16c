//! `narrows model throughput` and `narrows model latency` from outside: what a user types, what comes out.

use serde_json::Value;

use super::{json, model, near};

/// The values are worked by hand in the tests of `narrows-models`.
#[test]
fn throughput_of_a_long_flow() {
    let got = json("throughput --loss 0.02 --rtt 0.1 --rto 1");
    near(&got["mathis"]["packets_per_rtt"], 8.660, 1e-3);
    near(&got["padhye"]["packets_per_second"], 59.195, 2e-3);
    near(&got["padhye_throughput"]["packets_per_second"], 53.214, 2e-3);
    near(&got["padhye_approximate"]["packets_per_second"], 59.490, 1e-3);
    near(&got["tfrc"]["packets_per_second"], 73.249, 1e-3);
    // 59.490 packets of 1460 B.
    near(&got["padhye_approximate"]["bits_per_second"], 694_838.0, 1.0);
    let limited = json("throughput --loss 0.02 --rtt 0.1 --rto 1 --wmax 6");
    near(&limited["padhye"]["packets_per_second"], 33.5075, 1e-3);
    // Without loss the window limits, and what knows no window says nothing.
    let lossless = json("throughput --loss 0 --rtt 0.1 --wmax 10 --mss 1000");
    near(&lossless["padhye"]["bits_per_second"], 800_000.0, 1e-6);
    assert_eq!((&lossless["mathis"], &lossless["tfrc"]), (&Value::Null, &Value::Null));
}

#[test]
fn latency_of_a_page() {
    let got = json("latency --bytes 20kB --loss 0.02 --rtt 0.1 --rto 1 --iw 10");
    assert_eq!(got["packets"], 14);
    near(&got["handshake_s"], 0.12083, 1e-5);
    near(&got["slow_start_s"], 0.11422, 1e-5);
    near(&got["loss_s"], 0.10253, 1e-5);
    near(&got["congestion_avoidance_s"], 0.03624, 1e-5);
    near(&got["expected_s"], 0.37382, 1e-5);
    assert!(got.get("link").is_none());
}

/// Sizes 1000 and 3000 B, load 1/2, 100 000 B/s: 33/7 ms for the larger by the shortest first, 6 by sharing.
#[test]
fn what_sharing_costs() {
    let args = "latency --bytes 3kB --loss 0 --rtt 0.1 --rate 800kbit --load 0.5 --sizes list:1000,3000";
    let link = &json(args)["link"];
    near(&link["srpt_s"], 0.033 / 0.7, 1e-9);
    near(&link["srpt_mean_s"], 0.041 / 1.4, 1e-9);
    near(&link["ps_s"], 0.06, 1e-9);
    near(&link["ps_mean_s"], 0.04, 1e-9);
    near(&link["fifo_mean_s"], 0.0325, 1e-9);
}

#[test]
fn what_is_impossible_is_said_in_a_sentence() {
    for (args, domain) in [
        ("throughput --loss 1.5 --rtt 0.1", "1e-12 <= loss < 1"),
        ("throughput --loss NaN --rtt 0.1", "1e-12 <= loss < 1"),
        ("throughput --loss 0 --rtt 0.1", "or a wmax"),
        ("throughput --loss 0.1 --rtt -1", "1e-9 to 1e9 seconds"),
        ("latency --bytes 20kB --loss 0.5 --rtt 0.1", "0 <= loss < 0.5"),
        ("latency --bytes 20kB --loss 0.1 --rtt 0.1 --iw 0", "an initial window of 1 to 1e9 packets"),
        ("latency --bytes 20kB --loss 0.1 --rtt 0.1 --rate 2mbit --load 1", "0 <= load <= 0.9999"),
        ("latency --bytes web --loss 0.1 --rtt 0.1", "one size, as 20kB"),
    ] {
        let out = model(args);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args}: {said}");
        assert!(said.contains(domain) && out.stdout.is_empty(), "{args}: {said}");
    }
}

#[test]
fn pictures_are_drawn() {
    let file = std::env::temp_dir().join(format!("narrows-model-{}.svg", std::process::id()));
    for args in [
        "throughput --loss 0.02 --rtt 0.1",
        "latency --bytes 20kB --loss 0.02 --rtt 0.1 --rate 2mbit --load 0.8",
    ] {
        let out = model(&format!("{args} --plot {}", file.display()));
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        assert!(std::fs::read_to_string(&file).unwrap().starts_with("<svg"));
    }
    std::fs::remove_file(&file).unwrap();
}

/// A time is seconds, or has its unit, as `narrows plan` takes it; what is neither says which.
#[test]
fn times_are_seconds_or_have_a_unit() {
    for (bare, with_unit) in [
        ("throughput --loss 0.1 --rtt 0.2 --rto 1.5", "throughput --loss 0.1 --rtt 200ms --rto 1500ms"),
        (
            "latency --bytes 20kB --loss 0.1 --rtt 0.25 --rto 2 --syn-rto 3 --delayed-ack 0.04",
            "latency --bytes 20kB --loss 0.1 --rtt 250ms --rto 2s --syn-rto 3s --delayed-ack 40ms",
        ),
        (
            "link --rate 2mbit --flows 9 --rtt 0.2 --rto-min 1",
            "link --rate 2mbit --flows 9 --rtt 200ms --rto-min 1s",
        ),
        ("spreading --loss 0.1 --rtt 0.2 --rto 60", "spreading --loss 0.1 --rtt 200ms --rto 1min"),
        ("aimd --rate 10mbit --rtt 0.04 --buffer 25", "aimd --rate 10mbit --rtt 40ms --buffer 25"),
        ("burst --delay 0.1", "burst --delay 100ms"),
    ] {
        assert_eq!(json(bare), json(with_unit), "{with_unit}");
    }
    for wrong in ["200mbit", "ms", "fast", "2 s ago"] {
        let out = model(&format!("throughput --loss 0.1 --rtt {}", wrong.replace(' ', "_")));
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(
            told.contains("--rtt") && told.contains("in seconds, as 0.2, or with its unit, as 200ms"),
            "{told}"
        );
    }
}
