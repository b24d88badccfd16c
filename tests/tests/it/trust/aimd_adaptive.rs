//! Adaptive AIMD against the arithmetic of its paper: Shorten and Leith, "On Queue Provisioning".

use super::{runs, simulate};

/// Utilisation and mean factor of the first run of a file with other settings.
fn used(file: &str, sets: &[&str]) -> (f64, Option<f64>) {
    let summary = simulate(&runs(file, sets)[0]).summary;
    (summary["utilisation"], summary.get("beta_long").copied())
}

#[test]
fn a_flow_learns_what_empties_the_queue() {
    // 85.3 packets fill the path and 25 the queue: 102.4 / (102.4 + 25 * 1.2) = 0.7734. The smoothed maximum stays a
    // little below the true one, so the factor is a little above.
    let file = "../adaptive-aimd/fig05-one-flow.toml";
    for from in ["rtt", "throughput"] {
        let sets = ["tcp.congestion=adaptive_aimd".to_owned(), format!("tcp.beta_from={from}")];
        let (utilisation, beta) = used(file, &[&sets[0], &sets[1]]);
        let beta = beta.unwrap();
        println!("{from}: beta {beta:.4}, utilisation {utilisation:.4}");
        assert!((beta - 0.7734).abs() < 0.01 && utilisation > 0.999, "{from}: {beta} {utilisation}");
    }
}

#[test]
fn a_quarter_of_a_product_is_enough() {
    let file = "../adaptive-aimd/fig07-efficiency.toml";
    let with = |congestion: &str| used(file, &["phi=0.25", &format!("tcp.congestion={congestion}")]).0;
    // 1.25 * 1.25 * 0.75 / (1.25 * 1.25 + 1 - 1.25) = 0.8929.
    let (standard, adaptive) = (with("reno"), with("adaptive_aimd"));
    println!("standard {standard:.4}, adaptive {adaptive:.4}");
    assert!((standard - 0.8929).abs() < 0.005 * 0.8929, "{standard}");
    assert!(adaptive >= 0.99, "{adaptive}");
}
