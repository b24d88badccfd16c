//! Answer of `narrows plan`: a verdict, and lines with what each rests on and how far off it may be; as text and as
//! JSON.

mod taq;

use std::fmt::Write as _;
use std::path::Path;

use narrows_models::operating::Stack;
use narrows_models::plan::evidence::{self, Evidence};
use narrows_models::plan::{DropTailBuffer, FEW_PACKETS, Outlook, P_THRESH, Plan, SharedLink};
use narrows_scenario::time_text;
use serde_json::{Value, json};

/// Widths of the columns: what, answer, what it rests on, error.
const WIDTHS: [usize; 4] = [22, 52, 13, 30];
const MINUTE_S: f64 = 60.0;
const HOUR_S: f64 = 3600.0;

/// A line of the table.
struct FetchLoop {
    /// Name of the line in JSON.
    key: &'static str,
    /// Text at the left.
    what: String,
    answer: String,
    evidence: Evidence,
    /// Figures of the line in JSON.
    figures: Value,
}

/// Answer as text, a screen long.
pub fn text(link: &SharedLink, plan: &Plan) -> String {
    let mut out = format!(
        "{} for {}, {} each, {} (--busy): {}\nround trip {}, packets of {} B, drop-tail of {} ({}), senders: {}\n\n",
        link.rate,
        count(link.users, "user"),
        count(link.connections, "connection"),
        busy(link),
        count(plan.flows, "flow"),
        time_text(link.rtt),
        link.packet.0,
        count(plan.buffer_packets, "packet"),
        seconds(plan.point.queue_s),
        stack(link)
    );
    for line in wrap(&verdict(link, plan), WIDTHS.iter().sum::<usize>() + 3) {
        let _ = writeln!(out, "{line}");
    }
    let _ = writeln!(out, "\n{}", row(["", "", "rests on", "error against simulation"]));
    for line in lines(link, plan) {
        let columns = [&*line.what, &line.answer, line.evidence.basis.name(), line.evidence.error];
        let wrapped: Vec<Vec<String>> =
            columns.iter().zip(WIDTHS).map(|(words, width)| wrap(words, width)).collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
        for at in 0..height {
            let cells: Vec<&str> = wrapped.iter().map(|c| c.get(at).map_or("", String::as_str)).collect();
            let _ = writeln!(out, "{}", row([cells[0], cells[1], cells[2], cells[3]]));
        }
    }
    out
}

fn row(cells: [&str; 4]) -> String {
    let [a, b, c, d] = WIDTHS;
    format!("{:a$} {:b$} {:c$} {:d$}", cells[0], cells[1], cells[2], cells[3]).trim_end().to_owned()
}

/// Lines of at most `width` letters, broken at blanks.
fn wrap(words: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Answer as JSON.
pub fn json(link: &SharedLink, plan: &Plan, map: Option<&Path>) -> Value {
    let mut all = json!({
        "link": {
            "rate_bps": link.rate.as_bps(), "packet_bytes": link.packet.0, "rtt_s": link.rtt.as_secs_f64(),
            "buffer_packets": plan.buffer_packets, "users": link.users, "connections": link.connections,
            "busy": link.busy, "busy_users": plan.busy_users, "flows": plan.flows, "object_bytes": link.object.0,
            "patience_s": link.patience.as_secs_f64(), "stack": if link.stack == Stack::Rfc { "rfc" } else { "linux" },
        },
        "verdict": {
            "class": plan.verdict.name(), "sentence": verdict(link, plan),
            "rests_on": evidence::verdict(link.stack).basis.name(), "error": evidence::verdict(link.stack).error,
        },
        "map": map.map(|m| m.to_string_lossy()),
    });
    for line in lines(link, plan) {
        let mut figures = line.figures;
        figures["says"] = json!(line.answer);
        figures["rests_on"] = json!(line.evidence.basis.name());
        figures["error"] = json!(line.evidence.error);
        all[line.key] = figures;
    }
    rounded(all)
}

/// Numbers to nine digits: what stands behind is of the arithmetic, as the 15th digit of 0.1 + 0.2.
fn rounded(value: Value) -> Value {
    match value {
        Value::Number(n) if n.is_f64() => {
            let near = n.as_f64().and_then(|x| format!("{x:.8e}").parse::<f64>().ok());
            near.map_or(Value::Number(n), |x| json!(x))
        }
        Value::Array(all) => all.into_iter().map(rounded).collect(),
        Value::Object(all) => all.into_iter().map(|(key, value)| (key, rounded(value))).collect(),
        other => other,
    }
}

/// Verdict: what to expect and to do, and what each part of that rests on.
pub fn verdict(link: &SharedLink, plan: &Plan) -> String {
    let loss = plan.point.loss * 100.0;
    let share = format!("{} packets per round trip for each flow (arithmetic)", short(plan.share_packets));
    let taq = format!(
        "taq{} gives each a turn every {} and loses nothing (simulation)",
        memory(plan).map_or_else(String::new, |packets| format!(":memory_packets={packets}")),
        seconds(plan.rounds.round_s)
    );
    let fetch = seconds(plan.rounds.fetch_s);
    match plan.verdict {
        Outlook::Fine => format!(
            "Fine: {share}; drop-tail loses {loss:.1} % and repairs most of it without a timeout (model). TAQ would \
             gain little here; for short queues a fair queue of the kernel (CAKE, FQ-CoDel) is simpler (rule of \
             thumb)."
        ),
        Outlook::SmallPackets => format!(
            "Small packets: {share}; what drop-tail loses, {loss:.1} %, often costs a timeout (model), while {taq}."
        ),
        Outlook::PastTipping => format!(
            "Past the tipping point: {share}; drop-tail loses {loss:.0} %, timeouts repeat, and {} (model). Which \
             packet is lost no longer matters; {taq}. A fetch takes {fetch} on average either way (arithmetic).",
            half_stall(plan)
        ),
        Outlook::TooMany => format!(
            "Too many at once: whatever the queue, a fetch of {} B takes {fetch} on average, more than {} \
             (arithmetic). Drop-tail loses {loss:.0} % and {} (model); {taq}. It takes a higher rate, or fewer at a \
             time.",
            link.object.0,
            time_text(link.patience),
            half_stall(plan)
        ),
    }
}

fn half_stall(plan: &Plan) -> String {
    match plan.stalls.longest_s(0.5, HOUR_S) {
        s if s < 2.0 => "few users stall for more than two seconds yet".to_owned(),
        s => format!("in an hour half of the users once stall for {} or more", seconds(s)),
    }
}

/// Setting for `memory_packets` if its default does not suffice: a size that has sufficed in simulation.
fn memory(plan: &Plan) -> Option<u64> {
    (!plan.rounds.fits).then(|| 5 * u64::from(plan.flows))
}

/// Meaning of a verdict on the map.
pub fn about(verdict: Outlook, link: &SharedLink) -> String {
    match verdict {
        Outlook::Fine => {
            format!("more than {FEW_PACKETS} packets per round trip for each flow: drop-tail does")
        }
        Outlook::SmallPackets => format!(
            "{FEW_PACKETS} packets per round trip or fewer, loss below {:.0} %: a loss often costs a timeout; taq \
             helps",
            P_THRESH * 100.0
        ),
        Outlook::PastTipping => format!(
            "loss of {:.0} % and more: timeouts repeat, people stall; turns (taq) or fewer at a time",
            P_THRESH * 100.0
        ),
        Outlook::TooMany => format!(
            "whatever the queue, a fetch of {} B takes longer than {} on average: admission only decides where people \
             wait",
            link.object.0,
            time_text(link.patience)
        ),
    }
}

fn lines(link: &SharedLink, plan: &Plan) -> Vec<FetchLoop> {
    let mut all = drop_tail(link, plan);
    all.extend(taq::lines(link, plan));
    all.push(exits(link, plan));
    all
}

fn drop_tail(link: &SharedLink, plan: &Plan) -> Vec<FetchLoop> {
    let point = &plan.point;
    let share = FetchLoop {
        key: "fair_share",
        what: "fair share".to_owned(),
        answer: format!(
            "{} kbit/s a flow; {} packets per round trip, {} with the queue full",
            short(plan.share_bps / 1e3),
            short(plan.share_packets),
            short(point.share_packets_per_rtt)
        ),
        evidence: evidence::SHARE,
        figures: json!({
            "bps": plan.share_bps, "packets_per_rtt": plan.share_packets,
            "packets_per_rtt_with_queue": point.share_packets_per_rtt,
        }),
    };
    let regime = FetchLoop {
        key: "regime",
        what: "regime".to_owned(),
        answer: point.class.name().to_owned(),
        evidence: evidence::REGIME,
        figures: json!({ "class": point.class.name() }),
    };
    let loss = FetchLoop {
        key: "loss",
        what: "drop-tail: loss".to_owned(),
        answer: format!(
            "{:.1} %; a packet waits up to {}; {:.0} % of the flows send nothing in a round trip",
            point.loss * 100.0,
            seconds(point.queue_s),
            point.silent * 100.0
        ),
        evidence: evidence::loss(link.stack),
        figures: json!({
            "loss": point.loss, "queue_s": point.queue_s, "stalled": point.silent, "rtt_s": point.rtt_s,
            "utilisation": point.utilisation,
        }),
    };
    vec![share, regime, loss, stalls(link, plan), larger_buffer(plan)]
}

fn stalls(link: &SharedLink, plan: &Plan) -> FetchLoop {
    let stalls = &plan.stalls;
    let users = |x: f64, during: f64| (f64::from(plan.busy_users) * stalls.share_over(x, during)).round();
    let median = stalls.longest_s(0.5, HOUR_S);
    let answer = if median == 0.0 {
        "hardly any: in an hour less than half of the users have one".to_owned()
    } else {
        format!(
            "in an hour half of the users have one of {}; {} of {} one over 20 s, {} over 60 s; in a minute {} one \
             over 5 s, {} over 20 s",
            seconds(median),
            users(20.0, HOUR_S),
            plan.busy_users,
            users(60.0, HOUR_S),
            users(5.0, MINUTE_S),
            users(20.0, MINUTE_S)
        )
    };
    FetchLoop {
        key: "stalls",
        what: "drop-tail: stalls".to_owned(),
        answer,
        evidence: evidence::stalls(link.stack),
        figures: json!({
            "hour": {
                "median_longest_s": median,
                "users_over_20s": stalls.share_over(20.0, HOUR_S), "users_over_60s": stalls.share_over(60.0, HOUR_S),
            },
            "minute": {
                "median_longest_s": stalls.longest_s(0.5, MINUTE_S),
                "users_over_5s": stalls.share_over(5.0, MINUTE_S), "users_over_20s": stalls.share_over(20.0, MINUTE_S),
            },
        }),
    }
}

fn larger_buffer(plan: &Plan) -> FetchLoop {
    let percent = P_THRESH * 100.0;
    let (answer, figures) = match plan.larger_buffer {
        Some(b) => (
            format!(
                "{} packets for a loss below {percent:.0} %: {} of delay for everybody, {} for the smallest object",
                b.packets,
                seconds(b.delay_s),
                seconds(b.smallest_fetch_s)
            ),
            json!({ "packets": b.packets, "delay_s": b.delay_s, "smallest_fetch_s": b.smallest_fetch_s }),
        ),
        None if plan.point.loss < P_THRESH => {
            (format!("none needed for a loss below {percent:.0} %"), json!({ "packets": null }))
        }
        None => (format!("no buffer brings the loss below {percent:.0} %"), json!({ "packets": null })),
    };
    FetchLoop {
        key: "larger_buffer",
        what: "drop-tail: more buffer".to_owned(),
        answer,
        evidence: evidence::BUFFER,
        figures,
    }
}

fn exits(link: &SharedLink, plan: &Plan) -> FetchLoop {
    let one = |e: &narrows_models::plan::Exit| {
        let rate = e.rate.map_or("no rate".to_owned(), |r| format!("from {} on", rate_text(r.as_bps())));
        format!("{}: up to {}, or {rate}", e.to.name(), count(e.users, "user"))
    };
    let answer = if plan.exits.is_empty() {
        format!("it is {}", plan.verdict.name())
    } else {
        plan.exits.iter().map(one).collect::<Vec<_>>().join("; ")
    };
    FetchLoop {
        key: "leaves",
        what: "to leave the regime".to_owned(),
        answer,
        evidence: evidence::exits(link.stack),
        figures: json!({
            "verdicts": plan.exits.iter().map(|e| json!({
                "to": e.to.name(), "users": e.users, "rate_bps": e.rate.map(|r| r.as_bps()),
            })).collect::<Vec<_>>(),
            "connections": link.connections,
        }),
    }
}

/// `1 user`, `2 users`.
pub fn count(n: u32, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

/// Number of users who are busy, in words.
pub fn busy(link: &SharedLink) -> String {
    if link.busy >= 1.0 {
        "all at once".to_owned()
    } else {
        format!("{} at a time", count(link.busy_users(), "user"))
    }
}

/// Size of the link's queue, in the unit in which the size was given.
pub fn buffer(link: &SharedLink) -> String {
    match link.buffer {
        DropTailBuffer::Packets(n) => count(n, "packet"),
        DropTailBuffer::Time(t) => time_text(t),
    }
}

/// The senders' TCP.
pub const fn stack(link: &SharedLink) -> &'static str {
    match link.stack {
        Stack::Linux => "linux",
        Stack::Rfc => "rfc",
    }
}

/// Number in as few digits as are needed.
pub fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        v if v >= 0.01 => format!("{value:.3}"),
        _ => format!("{value:.1e}"),
    }
}

fn seconds(value: f64) -> String {
    match value {
        v if v >= 10.0 => format!("{v:.0} s"),
        v if v >= 1.0 => format!("{v:.1} s"),
        v => format!("{:.0} ms", v * 1e3),
    }
}

/// A rate in three digits.
fn rate_text(bps: u64) -> String {
    match bps as f64 {
        v if v >= 1e9 => format!("{}gbit", short(v / 1e9)),
        v if v >= 1e6 => format!("{}mbit", short(v / 1e6)),
        v => format!("{}kbit", short(v / 1e3)),
    }
}
