//! A trace small enough to read: three flows and a drop-tail queue, what each got in each round trip of 200 ms. The
//! file is written by NARROWS_WRITE=1 cargo test -p narrows-tests --test it trust; a change to it is a change of the
//! simulator.

use core::fmt::Write as _;
use std::path::Path;

use super::{column, runs, simulate};

/// Round trips to a line.
const LINE: usize = 20;

#[test]
fn three_flows_share_a_queue() {
    let run = runs("three-flows.toml", &[]).remove(0);
    let results = simulate(&run);
    let mss = f64::from(run.scenario.traffic[0].tcp_from.mss);
    let (flow, delivered) =
        (column(&results, "shares", "flow"), column(&results, "shares", "delivered_bytes"));
    let starts = column(&results, "flows", "start_s");
    let slices = column(&results, "shares", "slice").last().unwrap() + 1.0;
    // A flow is in the table from the first slice on that it was there for as a whole.
    let mut packets = vec![vec![None; slices as usize]; starts.len()];
    for ((slice, flow), bytes) in column(&results, "shares", "slice").iter().zip(&flow).zip(&delivered) {
        packets[*flow as usize][*slice as usize] = Some(bytes / mss);
    }
    let mut text = String::from(
        "Packets of three flows at their receivers in each 200 ms; the link carries 30, the queue holds 15.\n",
    );
    for first in (0..slices as usize).step_by(LINE) {
        writeln!(text, "\nfrom {:.1} s", first as f64 * 0.2).unwrap();
        for row in &packets {
            let line: String = row
                .iter()
                .skip(first)
                .take(LINE)
                .map(|n| n.map_or("   .".to_owned(), |n| format!("{n:4.0}")))
                .collect();
            writeln!(text, "{line}").unwrap();
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/trust/three-flows.txt");
    if std::env::var_os("NARROWS_WRITE").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(golden == text, "{} is:\n{golden}\nbut it came out as:\n{text}", file.display());

    // No trace may show more than the link carries (600 kbit/s * 200 ms / 4000 bits), apart from a packet and packets
    // that waited behind a hole, nor anything before the way allows. With a queue of half a round trip the link does
    // not stay empty.
    let s = &results.summary;
    assert!(s["utilisation"] <= 1.0 && s["utilisation"] > 0.75, "{}", s["utilisation"]);
    let all: f64 = delivered.iter().sum::<f64>() / mss;
    assert!(all <= 30.0 * slices + 1.0, "{all}");
    for connect in column(&results, "flows", "connect_s") {
        // ns-2's SYN is there after one way.
        assert!(connect >= 0.1, "{connect}");
    }
    // The longest wait is that of a full queue, 15 packets of 6.667 ms behind the rest of one, to 1/256 of itself.
    assert!(s["wait_bulk_max_s"] <= 16.0 * 0.006667 * 1.004, "{}", s["wait_bulk_max_s"]);
}
