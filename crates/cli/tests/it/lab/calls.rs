//! Calls over real sockets.

use super::run_alone;

/// Two users fetch and one of them calls; another only asks for names.
const CALLS: &str = r#"
name = "few"
rate = "2mbit"
rtt = "40ms"
duration = "6s"
warmup = "1s"
jitter = "100ms"
discipline = "DISCIPLINE"
[[traffic]]
kind = "objects"
users = 2
think = "300ms"
size = "2kB"
[[traffic]]
kind = "calls"
flows = 1
beside = "objects"
dscp = "ef"
[[traffic]]
kind = "calls"
name = "names"
flows = 1
shape = "dns"
interval = "100ms"
"#;

#[test]
fn a_call_is_heard_at_both_ends() {
    let Some((said, run)) = run_alone("calls", &CALLS.replace("DISCIPLINE", "taq")) else { return };
    assert!(said.contains("calls that are good"), "{said}");
    let calls = run["record"]["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert_eq!((&calls[0]["user"], &calls[1]["user"]), (&0.into(), &2.into()));
    // 1 s to 5 s: 200 packets each way, 40 queries and answers; a busy machine sends late.
    for (call, most) in [(0, 200), (1, 40)] {
        for way in ["down", "up"] {
            let leg = &calls[call][way];
            let sent = leg["sent"].as_u64().unwrap();
            let added: Vec<f64> =
                leg["added_ms"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
            assert!((most / 2..=most + 1).contains(&sent), "{call} {way}: {sent}");
            assert!(
                added.len() as u64 <= sent && added.len() as u64 >= sent / 2,
                "{call} {way}: {}",
                added.len()
            );
            // The link has room: at its worst a packet waits for some of the others.
            let least = added.iter().copied().fold(f64::INFINITY, f64::min);
            assert!((0.0..20.0).contains(&least), "{call} {way}: {least} ms");
        }
    }
}
