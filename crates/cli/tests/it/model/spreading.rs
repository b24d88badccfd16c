//! `narrows model spreading` from outside: the fields of its JSON against the notes' tables, and what it refuses.

use super::{json, near, refuses, said_and_drawn};

/// Columns 10 of the notes' tables at 6.5 %, and their Monte Carlo of RFC 6298.
#[test]
fn ten_segments() {
    let answer = json("spreading --n 10 --i 10 --loss 0.065 --rtt 0.1 --rto 1");
    for (field, expected) in [
        ("d", 0.9438),
        ("s", 0.4671),
        ("s_no_fr", 0.7551),
        ("b", 0.7382),
        ("iw1", 1.0965),
        ("no_loss", 0.5106),
    ] {
        near(&answer[field], expected, 0.000_051);
    }
    for (field, expected) in [("d", 0.990), ("s", 0.481), ("iw1", 1.139)] {
        near(&answer["rfc6298"][field], expected, 0.005);
    }
    // "With the smallest spread" (I4 of the notes).
    let std_dev = |field: &str| answer["std_dev"][field].as_f64().unwrap();
    assert!(std_dev("s") < std_dev("d") && std_dev("s") < std_dev("iw1"));
    let fewer = json("spreading --i 4 --loss 0.1 --rtt 0.1");
    near(&fewer["s"], 0.4820, 0.000_051);
    // No second moment of the doubled timer; no model of a second window after a spread one.
    assert!(json("spreading --loss 0.25 --rtt 0.1")["std_dev"]["d"].is_null());
    let longer = json("spreading --n 6 --i 10 --loss 0.1 --rtt 0.1");
    near(&longer["b"], 1.1578, 0.000_051);
    assert!(longer["s"].is_null());
}

#[test]
fn table_and_picture() {
    let (text, svg) = said_and_drawn("spreading --loss 0.065 --rtt 0.1");
    assert!(text.lines().any(|line| line.starts_with("spread (S)") && line.contains("0.4671")), "{text}");
    assert!(svg.contains("Fig. 14") && svg.contains("IW 10, spread"));
}

#[test]
fn what_it_refuses() {
    for (args, says) in [
        ("--loss 0.5 --rtt 0.1", "loss = 0.5: expected 0 <= loss < 0.5"),
        ("--loss NaN --rtt 0.1", "loss = NaN: expected 0 <= loss < 0.5"),
        ("--loss -0.1 --rtt 0.1", "loss = -0.1: expected 0 <= loss < 0.5"),
        ("--loss 0.1 --rtt 0.1 --i 0", "i = 0: expected 1 to 1024 segments"),
        ("--loss 0.1 --rtt 0.1 --i -3", "i = -3: expected 1 to 1024 segments"),
        ("--loss 0.1 --rtt 0.1 --n 1025", "n = 1025: expected 1 to 1024 segments"),
        ("--loss 0.1 --rtt 0", "rtt = 0: expected a finite number above 0"),
        ("--loss 0.1 --rtt 0.5 --rto 0.4", "rto = 0.4: expected rtt <= rto"),
        ("--loss 0.1 --rtt 0.5 --rto inf", "rto = inf: expected rtt <= rto"),
    ] {
        refuses(&format!("spreading {args}"), says);
    }
}
