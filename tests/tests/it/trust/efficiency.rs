//! One flow that halves its window, and the buffer it takes to fill a link: Shorten and Leith, "On Queue Provisioning".

use super::{coordinate, runs, simulate};

/// The share of a link that a flow uses which multiplies its window by `beta` at each loss, before a buffer of `phi`
/// bandwidth-delay products. Below the product BT the rate is w/T, above it that of the link; from beta (1 + phi) BT to
/// (1 + phi) BT the window grows by a constant each RTT, which cancels out:
/// data (m² - beta² m²)/2 over time (1 - beta m) + (m² - 1)/2, with m = 1 + phi.
fn efficiency(beta: f64, phi: f64) -> f64 {
    let m = 1.0 + phi;
    if beta * m >= 1.0 {
        return 1.0;
    }
    m * m * (1.0 - beta * beta) / (m * m + 1.0 - 2.0 * beta * m)
}

#[test]
fn a_single_flow_fills_the_link_as_the_buffer_lets_it() {
    // By hand at half a product: 2.25 * 0.75 / (3.25 - 1.5) = 0.9643.
    assert!((efficiency(0.5, 0.5) - 0.9643).abs() < 5e-5);
    // Utilisation measured with ns-2.35 in the same place, SACK, buffers of 5 to 100 %.
    let ns2 = [0.783, 0.813, 0.890, 0.962, 0.993, 1.000];
    for recovery in ["newreno", "sack"] {
        let runs = runs("one-flow-buffer.toml", &[&format!("tcp.recovery={recovery}")]);
        assert_eq!(runs.len(), ns2.len());
        for (run, ns2) in runs.iter().zip(ns2) {
            let phi = coordinate(run, "share") / 100.0;
            let (got, theory) = (simulate(run).summary["utilisation"], efficiency(0.5, phi));
            println!("{recovery}, buffer {phi}: {got:.4}, theory {theory:.4}, ns-2 {ns2}");
            assert!(got <= 1.0 && (got / theory - 1.0).abs() < 0.02, "{recovery} {phi}: {got} {theory}");
            assert!((got - ns2).abs() < 0.01, "{recovery} {phi}: {got}, ns-2 {ns2}");
        }
    }
}
