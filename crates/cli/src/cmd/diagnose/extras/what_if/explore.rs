//! The fitted link and workload as settings of the page of `narrows explore`: a closed loop of users who are alike,
//! where the capture has a log of requests.

use std::collections::BTreeSet;
use std::net::IpAddr;

use narrows_explore::{FIELDS, FieldKind, Settings};

use super::Fit;
use super::workload::Request;

/// Settings near the fit, each within the bounds of its field.
pub fn settings(fit: &Fit) -> Settings {
    let (work, usual) = (&fit.workload, Settings::default());
    let objects: Vec<&Request> =
        work.classes.iter().flat_map(|class| &class.requests).filter(|r| r.bytes.is_some()).collect();
    let users = objects.iter().map(|r| r.user).collect::<BTreeSet<IpAddr>>().len() as f64;
    let seconds = work.duration_s.max(1.0);
    let count = objects.len() as f64;
    // Mean time of an object, and connections that a user has at a time while busy.
    let object_s = objects.iter().map(|r| r.to_s - r.at_s).sum::<f64>() / count.max(1.0);
    let parallel = (count * object_s / (users * seconds).max(1.0)).ceil().max(1.0);
    // Each connection begins an object every `cycle_s`, of which the object does not take all.
    let cycle_s = parallel * users * seconds / count.max(1.0);
    Settings {
        rate_kbps: whole("rate_kbps", fit.rate_bps / 1e3),
        rtt_ms: whole("rtt_ms", work.rtt_s[1] * 1e3),
        buffer: whole("buffer", f64::from(fit.queue_packets)) as u32,
        mtu: whole("mtu", fit.link.packet as f64) as u32,
        users: whole("users", users) as u32,
        object_kb: within("object_kb", (work.object_bytes / 1e3 * 10.0).round() / 10.0),
        connections: whole("connections", parallel) as u32,
        think_s: within("think_s", ((cycle_s - object_s).max(0.0) * 10.0).round() / 10.0),
        downloads: whole("downloads", work.endless as f64) as u32,
        senders: fit.stack.to_owned(),
        seconds: whole("seconds", seconds.clamp(f64::from(usual.seconds), 300.0)) as u32,
        ..usual
    }
}

fn whole(key: &str, value: f64) -> f64 {
    within(key, value.round())
}

/// The nearest value that the page has for a field.
fn within(key: &str, value: f64) -> f64 {
    match FIELDS.iter().find(|field| field.key == key).map(|field| field.kind) {
        Some(FieldKind::Number { least, most, .. }) => value.clamp(least, most),
        _ => value,
    }
}
