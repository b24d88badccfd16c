//! Initial Spreading's transfers over an empty path take as long as addition says (Sallantin et al., LCN 2014, section
//! II).

use super::{column, runs, simulate};

/// A file of a first window, 1.5 Mbit/s and 0.5 s one way, ACKs without a rate: the SYN takes 1 s and a slot of 48 B,
/// as it tells MSS and window scale, and that is R0. The i-th of n segments leaves (i - 1) R0 / n later, and its
/// acknowledgment comes after a slot of 1064 B and 1 s; the time counts from the SYN on, which must not time out
/// meanwhile. A burst has i - 1 slots in place of the spreading, and the handshake's third segment before it.
#[test]
fn a_first_window_takes_up_to_two_round_trips() {
    let slot = |bytes: f64| bytes * 8.0 / 1.5e6;
    let r0 = 1.0 + slot(48.0);
    for (n, i) in [(10, 10), (10, 4), (4, 4), (32, 20)] {
        let size = format!("traffic.0.size={}", i * 1024);
        let window = format!("tcp.initial_window={n}");
        let took = |start: &str| {
            let start = format!("tcp.startup={start}");
            let sets = [
                "tcp.preset=rfc",
                "tcp.handshake=three_way",
                "tcp.syn_timeout=3s",
                "tcp.delayed_ack=off",
                &size,
                &window,
                &start,
            ];
            column(&simulate(&runs("one-loss.toml", &sets)[0]), "transfers", "acked_s")[0]
        };
        let after = f64::from(i - 1);
        let spread = r0 + after * r0 / f64::from(n) + 1.0 + slot(1064.0);
        let burst = r0 + slot(40.0) + after * slot(1064.0) + 1.0 + slot(1064.0);
        for (start, due) in [("spreading", spread), ("slow_start", burst)] {
            let got = took(start);
            println!("{start} {i} of {n}: {got} s, by hand {due}");
            assert!((0.0..1e-6).contains(&(got - due)), "{start} {i} of {n}: {got} s, by hand {due}");
        }
    }
}
