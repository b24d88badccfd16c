//! What was fitted and what came of it: text, and the same for programs.

use std::fmt::Write as _;
use std::path::Path;

use narrows_models::operating::Stack;
use narrows_models::plan::{DropTailBuffer, SharedLink};
use narrows_units::{Bytes, Duration, Rate};
use serde_json::{Value, json};

use super::measure::Figures;
use super::run::Simulated;
use super::{Answer, Fit};

/// Width of the first column.
const NAMES: usize = 34;

pub fn answer(
    fit: &Fit,
    captured: &Figures,
    simulated: &[Simulated],
    scenario: Option<&Path>,
    over: f64,
) -> Answer {
    let plan = crate::cmd::plan::sentence(&shared(fit)).ok();
    let as_it_is = simulated.first().map(|s| s.figures).unwrap_or_default();
    let differs = captured.differs(&as_it_is);
    let remarks = fit.remarks();
    let mut text = format!("\nWhat if\n\n{}\n", fitted(fit));
    let _ = writeln!(text, "{}", head(over));
    let _ = writeln!(text, "{}", row("captured", captured));
    text.push_str(&rows(simulated));
    let _ = writeln!(text, "\n{}", trust(&differs));
    for remark in &remarks {
        let _ = writeln!(text, "Note: {remark}.");
    }
    if let Some(plan) = &plan {
        let _ = writeln!(text, "By the models, for what was under way at a time: {plan}");
    }
    if let Some(file) = scenario {
        let _ = writeln!(text, "The scenario: {}", file.display());
    }
    let rows: Vec<Value> = simulated
        .iter()
        .map(|run| {
            let own: serde_json::Map<String, Value> =
                run.own.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
            json!({
                "discipline": run.discipline, "figures": run.figures.json(),
                "before": run.before.map(|f| f.json()), "simulator": own,
            })
        })
        .collect();
    let json = json!({
        "fit": fit_json(fit), "over_s": over, "captured": captured.json(), "simulated": rows,
        "differs": differs, "remarks": remarks, "plan": plan,
        "scenario": scenario.map(|s| s.display().to_string()),
    });
    Answer { text, json }
}

/// The fitted present as the capture saw it; where that is behind the queue, it and all others also before it.
fn rows(simulated: &[Simulated]) -> String {
    let mut text = String::new();
    for (n, run) in simulated.iter().enumerate() {
        if n == 0 {
            let _ =
                writeln!(text, "{}", row(&format!("simulated as it is, {}", run.discipline), &run.figures));
        }
        match (n, &run.before) {
            (0, None) => {}
            (0, Some(before)) => {
                let _ = writeln!(text, "{}", row("seen before the queue:", before));
            }
            (_, before) => {
                let seen = before.as_ref().unwrap_or(&run.figures);
                let _ = writeln!(text, "{}", row(&format!("simulated with {}", run.discipline), seen));
            }
        }
    }
    text
}

/// How far the fit can be trusted.
fn trust(differs: &[String]) -> String {
    if differs.is_empty() {
        "The second row is near the first: the fit holds for this link as it is.".to_owned()
    } else {
        format!("Do not trust the simulation far: of the link as it is, it shows {}.", differs.join(", "))
    }
}

fn fitted(fit: &Fit) -> String {
    let w = &fit.workload;
    let [least, median, most] = w.rtt_s.map(|s| format!("{:.0}", s * 1e3));
    let transfers = match (w.endless, w.objects) {
        (endless, 0) => format!("{endless} transfers without end"),
        (0, objects) => format!("{objects} transfers of {:.0} B on average", w.object_bytes),
        (endless, objects) => {
            format!("{endless} transfers without end and {objects} of {:.0} B on average", w.object_bytes)
        }
    };
    format!(
        "Fitted: {} users, {transfers}; {:.1} under way at a time.\n\
         Thin link {}: {:.0} kbit/s ({}), drop-tail of {} packets ({}); packets to {} B;\n\
         round trips without queue {least} to {most} ms, half of them to {median}; senders: {}.\n",
        w.users,
        w.busy,
        if fit.link.way == 1 { "towards who opens connections" } else { "from who opens connections" },
        fit.rate_bps / 1e3,
        fit.rate_from.word(),
        fit.queue_packets,
        fit.queue_from.word(),
        fit.link.packet,
        fit.stack
    )
}

fn head(over: f64) -> String {
    format!(
        "{:NAMES$} {:>9} {:>9} {:>9} {:>9} {:>6} {:>9}",
        "",
        format!("over {over} s"),
        "stall p50",
        "p99",
        "kbit/s",
        "loss",
        "timeouts"
    )
}

fn row(name: &str, f: &Figures) -> String {
    format!(
        "{name:NAMES$} {:>7.0} % {:>7.1} s {:>7.1} s {:>9.0} {:>6.3} {:>9}",
        f.stalled_over * 100.0,
        f.stall_p50_s,
        f.stall_p99_s,
        f.goodput_bps / 1e3,
        f.loss,
        f.timeouts
    )
}

fn fit_json(fit: &Fit) -> Value {
    let w = &fit.workload;
    let classes: Vec<Value> = w
        .classes
        .iter()
        .map(|c| {
            json!({
                "way": c.way, "rtt_s": c.rtt_s(), "users": c.users().len(), "transfers": c.requests.len(),
                "parallel": c.parallel(),
            })
        })
        .collect();
    json!({
        "way": fit.link.way, "capture": if fit.link.before { "before" } else { "behind" },
        "rate_bps": fit.rate_bps, "rate_from": fit.rate_from.word(), "full": fit.link.full,
        "queue_packets": fit.queue_packets, "queue_from": fit.queue_from.word(), "queue_s": fit.link.queue_s,
        "packet_bytes": fit.link.packet, "senders": fit.stack, "duration_s": w.duration_s, "users": w.users,
        "endless": w.endless, "objects": w.objects, "object_bytes": w.object_bytes, "busy": w.busy,
        "rtt_least_s": w.rtt_s[0], "rtt_p50_s": w.rtt_s[1], "rtt_most_s": w.rtt_s[2], "classes": classes,
        "not_tcp": fit.other,
    })
}

/// What the planner is asked.
fn shared(fit: &Fit) -> SharedLink {
    let rtt = Duration::from_nanos((fit.workload.rtt_s[1] * 1e9) as u64);
    let flows = fit.workload.busy.round().clamp(1.0, 1e6) as u32;
    let link = SharedLink::new(Rate::from_bps(fit.rate_bps as u64), flows, rtt);
    SharedLink {
        packet: Bytes(fit.link.packet),
        buffer: DropTailBuffer::Packets(fit.queue_packets),
        object: if fit.workload.object_bytes >= 1.0 {
            Bytes(fit.workload.object_bytes as u64)
        } else {
            link.object
        },
        stack: if fit.stack == "rfc" { Stack::Rfc } else { Stack::Linux },
        ..link
    }
}
