//! Adaptive AIMD, figure 7: how well one flow fills a link of 100 Mbit/s and 40 ms, by its buffer, by the formula for
//! synchronised losses and in simulation.

use narrows_models::aimd::{BackoffRange, backoff_for_buffer, efficiency};

use super::outcomes;

/// The figure's file; its `share` is the buffer in percent of the bandwidth-delay product, 333 packets.
const FILE: &str = "trust/one-flow-buffer.toml";

/// The greatest difference of the utilisation for a congestion control, and what factor it backs off by.
fn worst(congestion: &str, seconds: u32, factor: impl Fn(f64) -> f64) -> f64 {
    let sets = [
        format!("tcp.congestion={congestion}"),
        format!("duration={}s", seconds + seconds / 2),
        format!("warmup={}s", seconds / 2),
        "rate=100mbit".to_owned(),
        "rtt=40ms".to_owned(),
        "discipline=fifo:{round(share*3.3333)}".to_owned(),
        "tcp.rtt_sampling=every_segment".to_owned(),
    ];
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let mut worst = 0.0_f64;
    println!("{congestion}: buffer  beta  formula  simulated");
    for run in outcomes(FILE, &sets) {
        let phi = run.coordinate("share").parse::<f64>().unwrap() / 100.0;
        let beta = factor(phi);
        let (expected, simulated) = (efficiency(phi, beta).unwrap(), run.get("utilisation"));
        println!("{phi:6.2} {beta:6.3} {expected:8.4} {simulated:10.4}");
        worst = worst.max((simulated - expected).abs());
    }
    println!("worst: {worst:.4}");
    worst
}

#[test]
fn one_flow_by_its_buffer() {
    let halves = worst("reno", 40, |_| 0.5);
    let adaptive =
        worst("adaptive_aimd", 40, |phi| backoff_for_buffer(phi, BackoffRange::default()).unwrap());
    assert!(halves <= 0.02 && adaptive <= 0.02, "{halves} {adaptive}");
}
