//! A link before the box: the file's trace limits what comes, and the box what goes.

use super::{Place, possible, results, text};

/// 1200 kbit/s: 1500 bytes each 10 ms.
const TRACE: &str = "10\n20\n30\n40\n50\n";

const DISH: &str = r#"
name = "few"
overhead = 0
duration = "6s"
warmup = "2s"
jitter = "100ms"
[[link]]
name = "dish"
from = "net"
to = "mast"
trace = "dish.trace"
delay = "10ms"
discipline = "fifo:40"
[[link]]
name = "box"
from = "mast"
to = "home"
rate = "100mbit"
discipline = "fifo:1000"
[[hosts]]
name = "servers"
at = "net"
delay = "0ms..20ms"
[[hosts]]
name = "users"
at = "home"
[[traffic]]
kind = "long"
from = "servers"
to = "users"
flows = 4
[sweep]
"link.box.shaper" = ["none", "mean/2", "auto:where=before", "known"]
"#;

#[test]
fn a_trace_before_the_box_limits_what_comes() {
    if !possible() {
        return;
    }
    let place = Place::new("before", DISH);
    std::fs::write(place.0.join("dish.trace"), TRACE).unwrap();
    let out = place.lab(&[]).output().unwrap();
    let said = text(&out);
    assert!(out.status.success(), "{said}");
    assert!(said.contains("fifo:1000 at known: skipped: only the simulator"), "{said}");
    let all = results(&place.0);
    let of =
        |column: usize, key: &str| all["disciplines"][column]["summary"][key]["median"].as_f64().unwrap();
    // Without a shaper the queue before the link stands: forty packets take 400 ms.
    assert!((0.85..=1.01).contains(&of(0, "before_used")), "{said}");
    assert!((0.2..=0.45).contains(&of(0, "before_there_p95_s")), "{said}");
    assert!(of(0, "goodput_kbps") >= 700.0, "{said}");
    // At half of the rate it stands in the box.
    assert!((0.3..=0.65).contains(&of(1, "before_used")), "{said}");
    assert!(of(1, "before_there_p95_s") < of(0, "before_there_p95_s"), "{said}");
    let ran = &all["disciplines"][2]["runs"][0]["record"];
    assert!(ran["emulator"]["down"]["used"].as_u64().unwrap() > 100_000, "{said}");
    assert!(!all.to_string().contains("opportunities"), "a trace is no result");
}
