//! Table and JSON of a fit and its simulated runs.

use std::fmt::Write as _;
use std::path::Path;

use narrows_models::operating::Stack;
use narrows_models::plan::{DropTailBuffer, SharedLink};
use narrows_units::{Bytes, Duration, Rate};
use serde_json::{Value, json};

use super::agree::Agreement;
use super::measure::Figures;
use super::run::Simulated;
use super::{Answer, Fit};

/// Width of the first column.
const NAMES: usize = 34;

/// Content of the table.
pub struct Told<'a> {
    pub fit: &'a Fit,
    pub captured: &'a Figures,
    pub agreement: &'a Agreement,
    /// The fitted present, and others if the fit is trusted.
    pub simulated: &'a [Simulated],
    /// A stall is long above, seconds.
    pub over: f64,
}

impl Told<'_> {
    /// Makes the answer, which names `scenario` if that file was written.
    pub fn answer(&self, scenario: Option<&Path>) -> Answer {
        let Self { fit, agreement, .. } = self;
        let trusted = agreement.is_trusted();
        let plan = if trusted { crate::cmd::plan::sentence(&shared(fit)).ok() } else { None };
        let remarks = fit.remarks();
        let mut text = format!("\nWhat if\n\n{}\n{}", fitted(fit), agreement.text());
        if trusted {
            let _ = write!(text, "\n{}", self.rows());
            for remark in &remarks {
                let _ = writeln!(text, "Note: {remark}.");
            }
        }
        if let Some(plan) = &plan {
            let _ = writeln!(text, "Rule of thumb for this load: {plan}");
        }
        if let Some(file) = scenario {
            let _ = writeln!(text, "Scenario: {}", file.display());
        }
        let json = json!({
            "fit": fit_json(fit), "over_s": self.over, "captured": self.captured.json(fit.rate_bps),
            "agreement": agreement.json(), "trusted": trusted, "why_not": agreement.why_not(),
            "simulated": self.simulated.iter().map(|run| run_json(run, fit)).collect::<Vec<_>>(),
            "remarks": remarks, "plan": plan, "scenario": scenario.map(|s| s.display().to_string()),
        });
        Answer { text, json }
    }

    /// The capture and the fitted present as they are seen there; where that is behind the queue, all that is simulated
    /// also before it.
    fn rows(&self) -> String {
        let row = |name: &str, f: &Figures, lost| row(name, f, self.fit.rate_bps, lost);
        let mut lines = vec![head(self.over)];
        lines.push(row(
            "captured",
            self.captured,
            Lost { dropped: None, repaired: Some(self.captured.repaired) },
        ));
        for (n, run) in self.simulated.iter().enumerate() {
            let dropped = run.dropped();
            match (n, &run.before) {
                (0, before) => {
                    let name = format!("simulated as it is, {}", run.discipline);
                    let lost = Lost { dropped, repaired: Some(run.figures.repaired) };
                    lines.push(row(&name, &run.figures, lost));
                    if let Some(before) = before {
                        let lost = Lost { dropped, repaired: Some(before.repaired) };
                        lines.push(row("seen before the queue:", before, lost));
                    }
                }
                (_, before) => {
                    let seen = before.as_ref().unwrap_or(&run.figures);
                    let lost = Lost { dropped, repaired: None };
                    lines.push(row(&format!("simulated with {}", run.discipline), seen, lost));
                }
            }
        }
        lines.push(
            "\ndropped: share of packets dropped by the queue; repaired: share of data packets sent again for a loss.\n"
                .to_owned(),
        );
        lines.join("\n")
    }
}

/// Two shares that are not the same: a capture shows no queue, and copies may be sent of what none dropped.
struct Lost {
    dropped: Option<f64>,
    repaired: Option<f64>,
}

fn run_json(run: &Simulated, fit: &Fit) -> Value {
    let own: serde_json::Map<String, Value> =
        run.own.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    json!({
        "discipline": run.discipline, "figures": run.figures.json(fit.rate_bps), "dropped": run.dropped(),
        "before": run.before.map(|f| f.json(fit.rate_bps)), "simulator": own,
    })
}

fn fitted(fit: &Fit) -> String {
    let w = &fit.workload;
    let [least, median, most] = w.rtt_s.map(|s| format!("{:.0}", s * 1e3));
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let finite = |objects| format!("{} of {:.0} B on average", count(objects, "transfer"), w.object_bytes);
    let transfers = match (w.endless, w.objects) {
        (endless, 0) => format!("{} without end", count(endless, "transfer")),
        (0, objects) => finite(objects),
        (endless, objects) => format!("{} without end and {}", count(endless, "transfer"), finite(objects)),
    };
    format!(
        "Fitted: {}, {transfers}; {:.1} under way at a time.\n\
         Bottleneck {}: {:.0} kbit/s ({}), drop-tail of {} packets ({}); packets to {} B;\n\
         round trips without queue {least} to {most} ms, half of them to {median}; senders: {}.\n",
        count(w.users, "user"),
        w.busy,
        if fit.link.way == 1 { "towards the clients" } else { "from the clients" },
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
        "{:NAMES$} {:>9} {:>9} {:>9} {:>9} {:>8} {:>9} {:>9}",
        "",
        format!("over {over} s"),
        "stall p50",
        "p99",
        "kbit/s",
        "dropped",
        "repaired",
        "timeouts"
    )
}

fn row(name: &str, f: &Figures, rate_bps: f64, lost: Lost) -> String {
    let share = |part: Option<f64>| part.map_or("-".to_owned(), |p| format!("{:.1} %", p * 100.0));
    let goodput = f.goodput_within(rate_bps).map_or("-".to_owned(), |bps| format!("{:.0}", bps / 1e3));
    format!(
        "{name:NAMES$} {:>7.0} % {:>7.1} s {:>7.1} s {goodput:>9} {:>8} {:>9} {:>9}",
        f.stalled_over * 100.0,
        f.stall_p50_s,
        f.stall_p99_s,
        share(lost.dropped),
        share(lost.repaired),
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

/// Link of the fit in the planner's form.
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
