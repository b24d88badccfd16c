//! The rows of the table, and how their values are written.

use narrows_scenario::{Http, Transport};

/// Unit of a value, and so the form in which the value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Seconds, written in milliseconds.
    Short,
    /// A share, written in percent.
    Share,
    /// Kilobits per second.
    Kbps,
    /// Milliseconds.
    Millis,
    /// A number of things.
    Count,
    /// A ratio or an index.
    Ratio,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name in JSON.
    pub key: &'static str,
    /// The name in the table.
    pub label: &'static str,
    /// Unit in which the value is written.
    pub unit: Unit,
}

const fn row(key: &'static str, label: &'static str, unit: Unit) -> Row {
    Row { key, label, unit }
}

/// Every row, in the order of the table.
pub const ROWS: &[Row] = &[
    row("objects_done", "objects done", Unit::Count),
    row("objects_cut", "objects cut off at the end", Unit::Count),
    row("objects_failed", "objects failed", Unit::Count),
    row("object_p50_s", "object time p50", Unit::Seconds),
    row("object_p90_s", "object time p90", Unit::Seconds),
    row("object_p99_s", "object time p99", Unit::Seconds),
    row("served_mean_s", "time once connected, mean", Unit::Seconds),
    row("served_p50_s", "time once connected p50", Unit::Seconds),
    row("served_p90_s", "time once connected p90", Unit::Seconds),
    row("served_p99_s", "time once connected p99", Unit::Seconds),
    row("small_p50_s", "  up to 6 kB p50", Unit::Seconds),
    row("small_p90_s", "  up to 6 kB p90", Unit::Seconds),
    row("large_p50_s", "  from 20 kB p50", Unit::Seconds),
    row("large_p90_s", "  from 20 kB p90", Unit::Seconds),
    row("per_kb_p50_s", "time per kB p50", Unit::Seconds),
    row("per_kb_p99_s", "time per kB p99", Unit::Seconds),
    row("per_kb_spread", "time per kB p99/p50", Unit::Ratio),
    row("user_per_kb_spread", "time per kB by user p99/p50", Unit::Ratio),
    row("stall_p50_s", "longest stall p50", Unit::Seconds),
    row("stall_p90_s", "longest stall p90", Unit::Seconds),
    row("stall_p99_s", "longest stall p99", Unit::Seconds),
    row("stall_max_s", "longest stall", Unit::Seconds),
    row("stall_over_5s", "objects with a stall above 5 s", Unit::Share),
    row("stall_over_20s", "objects with a stall above 20 s", Unit::Share),
    row("pages_done", "pages done", Unit::Count),
    row("pages_cut", "pages cut off at the end", Unit::Count),
    row("pages_failed", "pages failed", Unit::Count),
    row("page_mean_s", "page time, mean", Unit::Seconds),
    row("page_p50_s", "page time p50", Unit::Seconds),
    row("page_p95_s", "page time p95", Unit::Seconds),
    row("page_p99_s", "page time p99", Unit::Seconds),
    row("page_small_p50_s", "  up to 100 kB p50", Unit::Seconds),
    row("page_small_p95_s", "  up to 100 kB p95", Unit::Seconds),
    row("page_large_p50_s", "  from 300 kB p50", Unit::Seconds),
    row("page_large_p95_s", "  from 300 kB p95", Unit::Seconds),
    row("page_first_byte_p50_s", "page's first byte p50", Unit::Seconds),
    row("page_first_byte_p95_s", "page's first byte p95", Unit::Seconds),
    row("page_object_p50_s", "page's objects p50", Unit::Seconds),
    row("page_object_p95_s", "page's objects p95", Unit::Seconds),
    row("page_stall_p99_s", "page's objects' longest stall p99", Unit::Seconds),
    row("page_stall_over_5s", "page's objects with a stall above 5 s", Unit::Share),
    row("user_stall_p50_s", "user's longest stall p50", Unit::Seconds),
    row("user_stall_max_s", "user's longest stall", Unit::Seconds),
    row("user_stall_over_5s", "users with a stall above 5 s", Unit::Share),
    row("user_stall_over_20s", "users with a stall above 20 s", Unit::Share),
    row("visits_begun", "users who came", Unit::Count),
    row("visits_done", "users who went", Unit::Count),
    row("users_present", "users there at a time", Unit::Ratio),
    row("visit_p50_s", "time from coming to going p50", Unit::Seconds),
    row("visit_p95_s", "time from coming to going p95", Unit::Seconds),
    row("admitted_stall_p99_s", "stall once connected p99", Unit::Seconds),
    row("connect_p50_s", "connect p50", Unit::Seconds),
    row("connect_p95_s", "connect p95", Unit::Seconds),
    row("connect_p99_s", "connect p99", Unit::Seconds),
    row("entry_p50_s", "user's first connection p50", Unit::Seconds),
    row("entry_p99_s", "user's first connection p99", Unit::Seconds),
    row("never_in", "users never connected", Unit::Count),
    row("first_byte_p50_s", "first byte p50", Unit::Seconds),
    row("first_byte_p99_s", "first byte p99", Unit::Seconds),
    row("calls_good", "calls that are good", Unit::Share),
    row("call_down_loss", "calls' packets to users lost", Unit::Share),
    row("call_down_added_p50_s", "calls' added delay to users p50", Unit::Short),
    row("call_down_added_p95_s", "calls' added delay to users p95", Unit::Short),
    row("call_down_added_p99_s", "calls' added delay to users p99", Unit::Short),
    row("call_down_added_max_s", "calls' added delay to users max", Unit::Short),
    row("call_down_jitter_s", "calls' jitter to users", Unit::Short),
    row("call_down_sent", "calls' packets to users sent", Unit::Count),
    row("call_down_arrived", "calls' packets to users arrived", Unit::Count),
    row("call_up_loss", "calls' packets from users lost", Unit::Share),
    row("call_up_added_p50_s", "calls' added delay from users p50", Unit::Short),
    row("call_up_added_p95_s", "calls' added delay from users p95", Unit::Short),
    row("call_up_added_p99_s", "calls' added delay from users p99", Unit::Short),
    row("call_up_added_max_s", "calls' added delay from users max", Unit::Short),
    row("call_up_jitter_s", "calls' jitter from users", Unit::Short),
    row("call_up_sent", "calls' packets from users sent", Unit::Count),
    row("call_up_arrived", "calls' packets from users arrived", Unit::Count),
    row("goodput_kbps", "goodput", Unit::Kbps),
    row("up_goodput_kbps", "goodput of uploads", Unit::Kbps),
    row("up_stall_max_s", "upload's longest stall", Unit::Seconds),
    row("link_bytes", "bytes over the thin link", Unit::Count),
    row("useful_bytes", "  payload of them", Unit::Count),
    row("waste", "bytes of no use", Unit::Share),
    row("before_used", "used of the link before the box", Unit::Share),
    row("before_there_p50_s", "  time there p50, outside of outages", Unit::Seconds),
    row("before_there_p95_s", "  time there p95", Unit::Seconds),
    row("before_there_p99_s", "  time there p99", Unit::Seconds),
    row("before_dropped", "  dropped of arrivals", Unit::Share),
    row("before_up_used", "used of its way up", Unit::Share),
    row("before_up_there_p95_s", "  time there p95, outside of outages", Unit::Seconds),
    row("believed_kbps", "rate found by the box", Unit::Kbps),
    row("jain_20s", "Jain index over 20 s", Unit::Ratio),
    row("jain_20s_min", "Jain index, worst slice", Unit::Ratio),
    row("zero_slices", "20 s slices with nothing", Unit::Share),
    row("flow_stall_p50_s", "flow's longest stall p50", Unit::Seconds),
    row("flow_stall_p99_s", "flow's longest stall p99", Unit::Seconds),
    row("flow_stall_max_s", "flow's longest stall", Unit::Seconds),
    row("retransmitted", "retransmitted of sent", Unit::Share),
    row("timeouts", "server timeouts", Unit::Count),
    row("quic_lost", "QUIC packets believed lost", Unit::Share),
    row("quic_ptos", "QUIC probe timeouts", Unit::Count),
    row("quic_failed", "QUIC handshakes failed", Unit::Count),
    row("quic_cwnd_kb", "QUIC window p50, kB", Unit::Ratio),
    row("arrived", "packets at the queue", Unit::Count),
    row("dropped", "dropped of arrivals", Unit::Share),
    row("suppressed", "duplicates suppressed", Unit::Share),
    row("marked", "marked of arrivals", Unit::Share),
    row("clamped", "windows clamped", Unit::Count),
    row("refused", "SYNs refused", Unit::Count),
    row("admission_wait_p50_s", "wait for admission p50", Unit::Seconds),
    row("admission_wait_p99_s", "wait for admission p99", Unit::Seconds),
    row("admission_waiting", "pools still waiting", Unit::Count),
    row("turned_away", "answered 503", Unit::Count),
    row("emulator_late_p99_ms", "emulator late p99", Unit::Millis),
    row("emulator_overrun", "frames the emulator had no room for", Unit::Count),
    row("box_wait_p99_ms", "box waiting for a CPU p99", Unit::Millis),
    row("box_cpu", "CPU of the box", Unit::Share),
];

/// Rows shown for each transport separately, if a scenario has several; keys begin with the transport's word.
pub(super) const BY_TRANSPORT: &[Row] = &[
    row("objects_done", "objects done", Unit::Count),
    row("object_p50_s", "object time p50", Unit::Seconds),
    row("object_p99_s", "object time p99", Unit::Seconds),
    row("small_p50_s", "  up to 6 kB p50", Unit::Seconds),
    row("stall_p99_s", "longest stall p99", Unit::Seconds),
    row("stall_over_5s", "objects with a stall above 5 s", Unit::Share),
    row("stall_over_20s", "objects with a stall above 20 s", Unit::Share),
    row("user_stall_over_5s", "users with a stall above 5 s", Unit::Share),
    row("user_stall_over_20s", "users with a stall above 20 s", Unit::Share),
    row("pages_done", "pages done", Unit::Count),
    row("page_p50_s", "page time p50", Unit::Seconds),
    row("page_p95_s", "page time p95", Unit::Seconds),
    row("connect_p50_s", "connect with handshake p50", Unit::Seconds),
    row("connect_p95_s", "connect with handshake p95", Unit::Seconds),
    row("goodput_kbps", "goodput", Unit::Kbps),
    row("link_bytes", "bytes over the thin link", Unit::Count),
    row("useful_bytes", "  payload of them", Unit::Count),
    row("waste", "bytes of no use", Unit::Share),
    row("jain_20s", "Jain index over 20 s", Unit::Ratio),
    row("flow_stall_max_s", "flow's longest stall", Unit::Seconds),
];

/// Rows shown for each version of HTTP separately, if a scenario has several; keys begin with the version's word.
pub(super) const BY_HTTP: &[Row] = &[
    row("pages_done", "pages done", Unit::Count),
    row("page_mean_s", "page time, mean", Unit::Seconds),
    row("page_p50_s", "page time p50", Unit::Seconds),
    row("page_p95_s", "page time p95", Unit::Seconds),
    row("page_p99_s", "page time p99", Unit::Seconds),
    row("user_stall_over_5s", "users with a stall above 5 s", Unit::Share),
    row("user_stall_over_20s", "users with a stall above 20 s", Unit::Share),
    row("connect_p50_s", "connect with handshake p50", Unit::Seconds),
    row("goodput_kbps", "goodput", Unit::Kbps),
    row("waste", "bytes of no use", Unit::Share),
];

/// Figures that matter most and are shown of each transport by itself where a scenario has several.
const FIRST_BY_TRANSPORT: [&str; 2] = ["stall_over_5s", "stall_p99_s"];
/// Figures that matter most, first the most important.
const FIRST: [&str; 15] = [
    "calls_good",
    "call_down_added_p95_s",
    "stall_over_5s",
    "stall_p99_s",
    "stall_over_20s",
    "page_p50_s",
    "page_p95_s",
    "object_p50_s",
    "user_stall_over_5s",
    "object_p99_s",
    "jain_20s",
    "jain_20s_min",
    "zero_slices",
    "flow_stall_p99_s",
    "flow_stall_max_s",
];
/// Figures that stand among the first of every workload: what the link carried, and at what price.
const FIRST_OF_ALL: [&str; 2] = ["goodput_kbps", "dropped"];
/// Number of figures that are shown first.
pub const FIRST_ROWS: usize = 8;

/// The keys of the figures to show first, of those that `has` knows; the others go behind them.
pub fn first(has: impl Fn(&str) -> bool) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for stem in FIRST_BY_TRANSPORT {
        keys.extend(Transport::IN_LAB.into_iter().map(|t| format!("{}_{stem}", t.word())).filter(|k| has(k)));
    }
    let apart = !keys.is_empty();
    let told_apart = |key: &str| apart && FIRST_BY_TRANSPORT.contains(&key);
    keys.extend(FIRST.into_iter().filter(|k| has(k) && !told_apart(k)).map(str::to_owned));
    keys.truncate(FIRST_ROWS - FIRST_OF_ALL.len());
    keys.extend(FIRST_OF_ALL.into_iter().filter(|k| has(k)).map(str::to_owned));
    keys
}

/// Name of a transport, as people write the name.
#[must_use]
pub const fn transport_name(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "TCP",
        Transport::Tls => "TLS",
        Transport::Quic => "QUIC",
        Transport::Tfrc => "TFRC",
    }
}

/// A version of HTTP in a key.
pub(super) const fn http_word(http: Http) -> &'static str {
    match http {
        Http::One => "http1",
        Http::Two => "http2",
        Http::Three => "http3",
    }
}

/// Rows of the table: key, label and unit of each.
pub fn rows() -> impl Iterator<Item = (String, String, Unit)> {
    let common = ROWS.iter().map(|r| (r.key.to_owned(), r.label.to_owned(), r.unit));
    let transports =
        Transport::IN_LAB.into_iter().map(|t| (t.word(), transport_name(t).to_owned(), BY_TRANSPORT));
    let versions = Http::ALL.into_iter().map(|h| (http_word(h), format!("HTTP/{}", h.word()), BY_HTTP));
    let apart = transports.chain(versions).flat_map(|(word, name, rows)| {
        rows.iter().map(move |r| {
            let indent = r.label.len() - r.label.trim_start().len();
            let label = format!("{}{name}: {}", &r.label[..indent], r.label.trim_start());
            (format!("{word}_{}", r.key), label, r.unit)
        })
    });
    common.chain(apart)
}
