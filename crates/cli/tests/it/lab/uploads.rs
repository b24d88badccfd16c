//! Users who send, over a way up that the box holds to a rate.

use super::run_alone;

const BOTH_WAYS: &str = r#"
name = "few"
rate = "4mbit"
up_rate = "400kbit"
up_discipline = "same"
rtt = "20ms"
duration = "6s"
warmup = "1s"
jitter = "100ms"
discipline = "taq"
[[traffic]]
kind = "long"
flows = 1
[[traffic]]
kind = "long"
flows = 2
from = "clients"
to = "servers"
"#;

#[test]
fn uploads_have_the_way_up_and_are_counted_at_the_server() {
    let Some((said, run)) = run_alone("uploads", BOTH_WAYS) else { return };
    assert!(said.contains("goodput of uploads"), "{said}");
    let values = &run["values"];
    let (down, up) = (&values["goodput_kbps"], &values["up_goodput_kbps"]);
    // Acknowledgments of the download have a part of the way up, and a busy machine stops now and then.
    assert!((150.0..=400.0).contains(&up.as_f64().unwrap()), "{said}");
    assert!((2000.0..=4100.0).contains(&down.as_f64().unwrap()), "{said}");
    let uploads = run["record"]["uploads"].as_array().unwrap();
    let users: Vec<_> = uploads.iter().map(|u| u["user"].as_u64().unwrap()).collect();
    assert_eq!(users, [1, 2], "user 0 downloads");
}
