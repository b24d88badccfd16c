//! `narrows model aimd` from outside: the fields of its JSON against the notes' tables, and what it refuses.

use super::{json, near, refuses, said_and_drawn};

/// Rows of section 3.6: Fig. 5, and Fig. 6 and 17.
#[test]
fn figures() {
    for (words, dbp, phi, beta, alpha, standard) in [
        ("--rate 10mbit --rtt 0.1024 --buffer 25 --packet 1500", 85.3, 0.293, 0.773, 0.453, 0.909),
        ("--rate 10mbit --rtt 0.1 --buffer 40", 83.3, 0.480, 0.676, 0.649, 0.960),
    ] {
        let got = json(&format!("aimd {words}"));
        near(&got["dbp_packets"], dbp, 0.05);
        near(&got["phi"], phi, 5e-4);
        near(&got["beta"], beta, 5e-4);
        near(&got["alpha"], alpha, 5e-4);
        near(&got["eta"]["standard"], standard, 5e-4);
        near(&got["eta"]["adaptive"], 1.0, 1e-9);
        near(&got["standard"]["convergence_epochs"]["to_95_percent"], 4.3, 0.05);
        near(&got["standard"]["buffer_packets"]["for_full_link"], dbp, 0.05);
        near(&got["adaptive"]["buffer_packets"]["for_full_link"], dbp / 4.0, 0.05);
    }
}

/// Section 3.4: losing at half of the events with 0.8 is 0.9, and 28.4 epochs; the rule of the root.
#[test]
fn not_synchronised() {
    let got = json("aimd --rate 155mbit --rtt 0.12 --buffer 125 --flows 25 --sync 0.5");
    near(&got["adaptive"]["mean_beta"], 0.9, 1e-12);
    near(&got["adaptive"]["convergence_epochs"]["to_95_percent"], 28.4, 0.05);
    near(&got["buffer_packets"]["dbp_over_sqrt_flows"], 310.0, 1e-9);
    near(&got["eta"]["standard"], 0.806, 5e-4);
    assert!(got["standard"]["eta_apart"].as_f64() > got["eta"]["standard"].as_f64());
}

/// One word too many for the model is rc 2 and one sentence with the domain.
#[test]
fn outside_the_domain() {
    for (words, says) in [
        ("--rate 10mbit --rtt 0 --buffer 25", "0 < rtt <= 1e6 seconds"),
        ("--rate 10mbit --rtt NaN --buffer 25", "0 < rtt <= 1e6 seconds"),
        ("--rate 10mbit --rtt 0.1 --buffer -1", "0 <= phi <= 1e6"),
        ("--rate 10mbit --rtt 0.1 --buffer 25 --packet 0", "packet = 0"),
        ("--rate 10mbit --rtt 0.1 --buffer 25 --flows 0", "flows >= 1"),
        ("--rate 10mbit --rtt 0.1 --buffer 25 --flows 4 --sync 0.2", "1/flows <= sync <= 1"),
        ("--rate 10mbit --rtt 0.1 --buffer 25 --beta-hi 1", "beta_lo <= beta_hi < 1"),
        ("--rate 10mbit --rtt 0.1 --buffer 25 --utilisation 1.5", "0 < utilisation <= 1"),
    ] {
        refuses(&format!("aimd {words}"), says);
    }
}

/// The table for people, and the picture.
#[test]
fn table_and_picture() {
    let (said, drawn) = said_and_drawn("aimd --rate 10mbit --rtt 0.1 --buffer 25");
    assert!(said.contains("0.7692") && said.contains("0.9119"), "{said}");
    assert!(drawn.contains("adaptive, here") && !drawn.contains("NaN"));
}
