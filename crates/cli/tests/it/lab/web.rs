//! Users who come and go, pages over HTTP, a browser.

use narrows_testing::{running, skip};

use super::run_alone;

const OPEN: &str = r#"
name = "few"
rate = "2mbit"
rtt = "20ms"
duration = "5s"
discipline = "fifo:30"
[[traffic]]
kind = "objects"
transport = "tls"
arrivals = 4
users = 8
visit = 3
think = "50ms"
[[traffic]]
kind = "files"
arrivals = 3
flows = 4
users = 3
size = "2kB"
"#;

#[test]
fn users_come_fetch_and_go() {
    let Some((_, run)) = run_alone("open", OPEN) else { return };
    let client = &run["record"]["client"];
    let visits = client["visits"].as_array().unwrap();
    let number = |of: &serde_json::Value| of.as_u64().unwrap();
    let files: Vec<_> = visits.iter().filter(|v| number(&v["user"]) >= 8).collect();
    assert!(!files.is_empty() && files.len() <= 4, "four files at most, these are {files:?}");
    assert!(visits.len() > files.len() + 2, "{visits:?}");
    // Everybody who came has a number behind the 11 addresses, and no two share one.
    let mut numbers: Vec<u64> = visits.iter().map(|v| number(&v["visitor"])).collect();
    numbers.dedup();
    assert_eq!(numbers.len(), visits.len());
    assert!(numbers.iter().all(|n| *n >= 11), "{numbers:?}");
    assert_eq!(client["user_stalls"].as_array().unwrap().len(), visits.len(), "nobody else was there");
    for v in visits.iter().filter(|v| v["end"].is_f64()) {
        let its = client["objects"].as_array().unwrap().iter().filter(|o| o["visitor"] == v["visitor"]);
        let wanted = if number(&v["user"]) < 8 { 3 } else { 1 };
        assert_eq!(its.count(), wanted, "{v}");
    }
    let values = &run["values"];
    assert_eq!(values["visits_begun"].as_f64().unwrap() as usize, visits.len());
    assert!(values["users_present"].as_f64().unwrap() > 0.0, "{values}");
}

const PAGES: &str = r#"
name = "few"
rate = "4mbit"
rtt = "20ms"
duration = "5s"
jitter = "100ms"
discipline = "fifo:60"
[[traffic]]
kind = "pages"
http = "1.1"
users = 1
connections = 4
page = [12000, 5000, 5000, 5000, 5000, 5000, 5000, 5000]
[[traffic]]
kind = "pages"
http = "2"
users = 1
objects = 6
size = "3kB"
think = "10ms"
[[traffic]]
kind = "pages"
http = "3"
arrivals = 3
users = 4
objects = 6
size = "3kB"
"#;

#[test]
fn pages_are_loaded_with_every_version_of_http() {
    let Some((said, run)) = run_alone("pages", PAGES) else { return };
    let (values, client) = (&run["values"], &run["record"]["client"]);
    for version in ["http1", "http2", "http3"] {
        assert!(values[format!("{version}_pages_done")].as_f64().unwrap() >= 1.0, "{version}: {values}");
    }
    let at = |of: &serde_json::Value, key: &str| of[key].as_f64().unwrap();
    for page in client["pages"].as_array().unwrap().iter().filter(|p| p["done"].is_f64()) {
        let (parts, connects) = (page["parts"].as_array().unwrap(), page["connects"].as_array().unwrap());
        let size: f64 = parts.iter().map(|p| at(p, "size")).sum();
        let got: f64 = connects.iter().map(|c| at(c, "got")).sum();
        assert_eq!(size, got, "{page}");
        // The document names the others.
        assert!(parts[1..].iter().all(|p| at(p, "start") >= at(&parts[0], "done")), "{page}");
        let (most, exact) = if page["user"] == 0 { (4, 8) } else { (1, 6) };
        assert!(connects.len() <= most && parts.len() == exact, "{page}");
        // TCP and TLS 1.3 take two round trips to connect, QUIC one.
        let trips = if page["user"].as_u64().unwrap() < 2 { 2.0 } else { 1.0 };
        assert!(at(&connects[0], "connected") - at(&connects[0], "start") >= 0.0199 * trips, "{page}");
    }
    let visits = client["visits"].as_array().unwrap().len() as u64;
    let begun = client["pages"].as_array().unwrap().iter().filter(|p| p["user"].as_u64().unwrap() >= 2);
    assert_eq!(begun.count() as u64, visits, "a page each");
    assert!((-0.15..1.0).contains(&at(values, "waste")), "{} of {}", values["waste"], run["record"]["costs"]);
    assert!(at(values, "quic_connect_p50_s") > 0.0 && at(values, "page_p95_s") >= at(values, "page_p50_s"));
    assert!(said.contains("HTTP/3: page time p50"), "{said}");
}

const BROWSER: &str = r#"
name = "few"
rate = "4mbit"
rtt = "20ms"
duration = "15s"
jitter = "100ms"
discipline = "fifo:60"
[[traffic]]
kind = "objects"
users = 2
think = "1s"
[[traffic]]
kind = "browser"
http = "2"
page = [8000, 2000, 2500, 3000, 3500, 4000, 4500, 5000, 5500]
[[traffic]]
kind = "browser"
http = "3"
page = [8000, 2000, 2500, 3000, 3500, 4000, 4500, 5000, 5500]
"#;

#[test]
fn a_real_browser_loads_pages_and_tells_its_own_times() {
    if let Err(why) = narrows_lab::browser::program() {
        skip(&running(), why);
        return;
    }
    let Some((_, run)) = run_alone("browser", BROWSER) else { return };
    let pages = run["record"]["client"]["pages"].as_array().unwrap();
    let done: Vec<_> = pages.iter().filter(|p| p["done"].is_f64()).collect();
    for (user, protocol) in [(2, "h2"), (3, "h3")] {
        assert!(done.iter().any(|p| p["user"] == user && p["protocol"] == protocol), "{protocol}: {pages:?}");
    }
    let at = |of: &serde_json::Value, key: &str| of[key].as_f64().unwrap();
    for page in done {
        let mut sizes: Vec<f64> = page["parts"].as_array().unwrap().iter().map(|p| at(p, "size")).collect();
        sizes[1..].sort_by(f64::total_cmp);
        assert_eq!(sizes, [8e3, 2e3, 2.5e3, 3e3, 3.5e3, 4e3, 4.5e3, 5e3, 5.5e3]);
        // Connecting, asking and answering take two round trips at least.
        assert!(at(page, "done") - at(page, "start") >= 0.0399, "{page}");
        assert_eq!(at(&page["connects"][0], "got"), 38e3, "nothing came from a cache: {page}");
    }
    // The browsers' packets bear the addresses of their users.
    let link = run["record"]["client"]["link"].as_array().unwrap();
    assert!((1..3).all(|group| link[group].as_array().unwrap().iter().any(|n| n.as_u64() > Some(0))));
    assert!((-0.2..1.0).contains(&at(&run["values"], "waste")), "{}", run["values"]);
}
