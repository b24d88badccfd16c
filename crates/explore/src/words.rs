//! Figures of the models, each with the name of the simulator's figure that it is about; and the same runs as a file
//! and as commands.

use narrows_models::operating::Stack;
use narrows_models::plan::evidence::{self, Evidence};
use narrows_models::plan::{DropTailBuffer, Outlook, Plan, SharedLink, plan};
use narrows_units::{Bytes, Duration, Rate};
use serde_json::{Value, json};

use crate::scenario::{python, toml};
use crate::{STALL_S, Settings};

/// Wait in a full buffer from which on it is what people notice first, s: a page takes two round trips at least.
const LONG_S: f64 = 1.0;

/// Answer to a question for words.
pub(crate) fn words(settings: &Settings) -> Value {
    let (link, left_out) = link(settings);
    let (rows, verdict) = match link.map(|link| plan(&link).map(|plan| (link, plan))) {
        None => (
            Vec::new(),
            "The mathematics is about web users and downloads, of which there are none.".to_owned(),
        ),
        Some(Err(why)) => (Vec::new(), format!("The mathematics does not reach these settings: {why}")),
        Some(Ok((link, plan))) => (rows(settings, &link, &plan), verdict(&plan)),
    };
    json!({
        "verdict": verdict,
        "rows": rows,
        "left_out": left_out,
        "toml": toml(settings),
        "python": python(settings),
        "command": format!("narrows sim explore.toml --seeds {}", settings.seed),
    })
}

/// The link in the form of the models, and the settings that the models leave out.
fn link(s: &Settings) -> (Option<SharedLink>, Vec<&'static str>) {
    let mut left_out = Vec::new();
    let mut unless = |there: bool, says: &'static str| {
        if there {
            left_out.push(says);
        }
    };
    unless(!s.rates_kbps.is_empty(), "the rate's changes (its mean is taken)");
    unless(s.up_kbps > 0.0, "the way upwards");
    unless(s.calls > 0, "calls");
    unless(s.think_s > 0.0 && s.users > 0, "pauses (everybody is taken to load something all the time)");
    unless(s.loss_percent > 0.0, "loss on the wire");
    unless(s.quic_percent > 0.0 && s.users > 0, "QUIC (taken for TCP)");
    unless(s.tls && s.users > 0, "TLS");
    let (users, connections) = match (s.users, s.downloads) {
        (users, 0) => (users, s.connections),
        (0, downloads) => (downloads, 1),
        // With both kinds each connection counts as a user of its own.
        (users, downloads) => (users * s.connections + downloads, 1),
    };
    let rate = Rate::from_bps((s.mean_kbps() * 1e3) as u64);
    let link = SharedLink {
        packet: Bytes(u64::from(s.mtu)),
        buffer: DropTailBuffer::Packets(s.buffer),
        connections,
        object: Bytes((s.object_kb * 1e3) as u64),
        stack: if s.senders == "linux" { Stack::Linux } else { Stack::Rfc },
        ..SharedLink::new(rate, users, Duration::from_nanos((s.rtt_ms * 1e6) as u64))
    };
    ((users > 0).then_some(link), left_out)
}

/// A line: what it is about, the model's number, the figure of the simulator beside it, and for which queue it holds.
struct Line {
    what: String,
    model: f64,
    unit: &'static str,
    figure: &'static str,
    queue: &'static str,
    evidence: Evidence,
}

fn rows(s: &Settings, link: &SharedLink, plan: &Plan) -> Vec<Value> {
    let during = f64::from(s.seconds);
    let mut all = vec![
        Line {
            what: "packets that are lost".to_owned(),
            model: plan.point.loss * 100.0,
            unit: "%",
            figure: "loss",
            queue: "fifo",
            evidence: evidence::loss(link.stack),
        },
        Line {
            what: format!("users with a stall over {STALL_S:.0} s, by the chain"),
            model: plan.stalls.share_over(STALL_S, during) * 100.0,
            unit: "%",
            figure: "user_stall_over_5s",
            queue: "fifo",
            evidence: evidence::stalls(link.stack),
        },
        Line {
            what: "longest stall of half of the users, by the chain".to_owned(),
            model: plan.stalls.longest_s(0.5, during),
            unit: "s",
            figure: "user_stall_p50_s",
            queue: "fifo",
            evidence: evidence::stalls(link.stack),
        },
        Line {
            what: "longest stall of anybody, at most".to_owned(),
            model: plan.rounds.silence_s,
            unit: "s",
            figure: "user_stall_max_s",
            queue: "taq",
            evidence: evidence::ROUNDS,
        },
    ];
    if s.users > 0 && s.downloads == 0 {
        for queue in ["fifo", "taq"] {
            all.push(Line {
                what: "mean time of an object".to_owned(),
                model: plan.rounds.fetch_s,
                unit: "s",
                figure: "object_mean_s",
                queue,
                evidence: evidence::FETCH,
            });
        }
    }
    all.iter()
        .map(|line| {
            json!({
                "what": line.what, "model": line.model, "unit": line.unit, "figure": line.figure, "queue": line.queue,
                "rests_on": line.evidence.basis.name(), "error": line.evidence.error,
            })
        })
        .collect()
}

/// Regime, tipping point and way out, in sentences.
fn verdict(plan: &Plan) -> String {
    let regime = match plan.verdict {
        Outlook::Fine if plan.point.queue_s > LONG_S => {
            "Few losses, long waits: with the queue full each connection has packets enough to repair a loss, and \
             everything starts late instead."
        }
        Outlook::Fine => "Fine: a loss is mostly repaired without a timeout, and no queue gains much here.",
        Outlook::SmallPackets => {
            "Small packets: a connection has so few packets in a round trip that a loss often costs a timeout."
        }
        Outlook::PastTipping => {
            "Past the tipping point: with drop-tail a tenth or more is lost, timeouts repeat and double, people stall."
        }
        Outlook::TooMany => {
            "Too many at once: whatever the queue, an object takes longer than a minute on average."
        }
    };
    let share = format!(
        "A connection's fair share is {:.1} kbit/s, {} packets in a round trip.",
        plan.share_bps / 1e3,
        short(plan.share_packets)
    );
    let buffer = format!("Drop-tail's full buffer makes a packet wait {}.", seconds(plan.point.queue_s));
    let ways = plan.exits.iter().map(|exit| {
        let rate = exit.rate.map_or_else(String::new, |r| {
            format!(", or {:.0} kbit/s for these users", r.as_bps() as f64 / 1e3)
        });
        let users = if exit.users == 1 { "1 user".to_owned() } else { format!("{} users", exit.users) };
        format!("\u{201c}{}\u{201d} takes at most {users} at this rate{rate}.", exit.to.name())
    });
    [regime.to_owned(), share, buffer].into_iter().chain(ways).collect::<Vec<_>>().join(" ")
}

fn seconds(value: f64) -> String {
    if value < 1.0 { format!("{:.0} ms", value * 1e3) } else { format!("{value:.1} s") }
}

/// A number in three digits.
fn short(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 1.0 => format!("{v:.1}"),
        v if v >= 0.1 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}
