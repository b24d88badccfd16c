//! `narrows model taq` and `narrows model link` from outside: the fields of their JSON against the notes' tables, and
//! what they refuse.

use super::{json, near, refuses, said_and_drawn};

/// Sections 3.1 and 3.2 of the notes, p = 0.1.
#[test]
fn chains() {
    let got = json("taq --loss 0.1");
    for (chain, sent, few, packets) in [
        ("partial", [0.1610, 0.1363, 0.1841, 0.1846, 0.1345, 0.0883, 0.1112], 0.2973, 2.705),
        ("f3", [0.3845, 0.1000, 0.1350, 0.1354, 0.0987, 0.0648, 0.0816], 0.4845, 1.985),
        ("f64", [0.4856, 0.0836, 0.1129, 0.1132, 0.0825, 0.0541, 0.0682], 0.5692, 1.659),
    ] {
        let told = &got[chain];
        assert_eq!(told["sent"].as_array().unwrap().len(), 7);
        for (n, printed) in sent.into_iter().enumerate() {
            near(&told["sent"][n], printed, 5.1e-5);
        }
        near(&told["silent_or_first"], few, 5.1e-5);
        near(&told["packets_per_epoch"], packets, 5.1e-4);
    }
    near(&got["tipping_point"]["chain"], 0.1091, 5e-5);
    near(&got["tipping_point"]["closed"], 0.1091, 5e-5);
    // The mean of b* is 1 / (1 - 2p); of F64, q^6 = 0.53 of the timeouts are first ones.
    near(&got["partial"]["stages"][1]["mean_idle_epochs"], 1.25, 1e-9);
    near(&got["f64"]["idle"]["epochs"]["p50"], 1.0, 1e-9);
    // 1 - 0.469^k of the timeouts have a timer below 2^k T0: 0.897 below 16 epochs, 0.952 below 32.
    near(&got["f64"]["idle"]["epochs"]["p90"], 15.0, 1e-9);
    // Memory through S2 alone, p = 0.2.
    let got = json("taq --loss 0.2 --memory s2 --chain f64");
    near(&got["f64"]["sent"][0], 0.6789, 5e-5);
    near(&got["tipping_point"]["closed"], 0.2063, 5e-5);
    assert!(got["partial"].is_null());
    // Beyond the partial chain's domain the capped one goes on, in any window.
    let got = json("taq --loss 0.6 --chain f64 --wmax 20 --t0 1.5 --memory s1");
    assert_eq!(got["f64"]["sent"].as_array().unwrap().len(), 21);
}

/// The fixed point: what a flow sends and does not lose is its share.
#[test]
fn operating_point() {
    let got = json("link --rate 600kbit --flows 60 --rtt 0.2 --buffer 30 --packet 500 --stack rfc");
    let of = |name: &str| got[name].as_f64().unwrap();
    near(&got["share_packets_per_rtt"], 1.0, 1e-9);
    near(&got["rtt_s"], 0.4, 1e-9);
    assert_eq!(got["class"], "sub-packet");
    assert!((of("packets_per_epoch") * (1.0 - of("loss")) - 1.0).abs() < 1e-6);
    // A simulation of it loses 0.20.
    near(&got["loss"], 0.20, 0.03);
    let windows = json("link --rate 600kbit --flows 10 --rtt 0.2 --buffer 30 --packet 500 --window 4");
    near(&windows["loss"], 0.0, 0.0);
    near(&windows["queue_s"], 10.0 / 150.0, 1e-9);
}

#[test]
fn outside_the_domain() {
    for (words, says) in [
        ("taq --loss 0.5", "expected 0 <= loss < 0.5 for the partial chain"),
        ("taq --loss NaN", "loss = NaN: expected 0 <= loss < 0.5"),
        ("taq --loss -0.1", "0 <= loss < 0.5"),
        ("taq --loss 1 --chain f64", "0 <= loss < 1"),
        ("taq --loss 0.1 --wmax 3", "4 <= wmax"),
        ("taq --loss 0.1 --t0 0.5", "1 <= t0"),
        ("taq --loss 0.1 --stages 99", "0 <= stages <= 16"),
        ("link --rate 2mbit --flows 0 --rtt 0.2", "flows = 0"),
        ("link --rate 2mbit --flows 9 --rtt NaN", "0 to 1000000 seconds"),
        ("link --rate 2mbit --flows 9 --rtt 0", "rtt = 0"),
        ("link --rate 2mbit --flows 9 --rtt 0.2 --packet 0", "packet = 0"),
        ("link --rate 2mbit --flows 9 --rtt 0.2 --window 1", "4 <= window"),
    ] {
        refuses(words, says);
    }
}

/// The tables for people, and the pictures.
#[test]
fn table_and_picture() {
    for (words, says, drawn_too) in [
        ("taq --loss 0.1", "0.5692", "tipping point"),
        ("link --rate 2mbit --flows 400 --rtt 0.2", "sub-packet", "more than 20 s"),
    ] {
        let (said, drawn) = said_and_drawn(words);
        assert!(said.contains(says), "{said}");
        assert!(drawn.contains(drawn_too) && !drawn.contains("NaN"));
    }
}
