//! A page for people: first what it means, then why, then who suffers most.

use core::fmt::Write as _;

use narrows_wire::{FlowKey, Proto};

use crate::counts::Counts;
use crate::findings::{Place, Repair, Stall};
use crate::overall::Overall;
use crate::quic::{QuicCause, QuicReport};
use crate::report::{FlowReport, Vantage};

/// The page of text. `title` names the captures.
#[must_use]
pub fn page(title: &str, o: &Overall) -> String {
    let mut text = String::new();
    let seconds = o.to_s - o.from_s;
    let _ = writeln!(
        text,
        "{title}: {} in {seconds:.1} s, {} with data, {} delivered",
        plural(o.connections, "connection"),
        o.with_data,
        bytes(o.counts.bytes)
    );
    if o.connections == 0 {
        text.push_str("\nNo TCP in it.\n");
        return text;
    }
    text.push('\n');
    meaning(&mut text, o);
    causes(&mut text, o);
    count(&mut text, &o.counts);
    worst(&mut text, o);
    text
}

fn plural(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn bytes(n: u64) -> String {
    match n {
        0..10_000 => format!("{n} B"),
        10_000..10_000_000 => format!("{:.0} kB", n as f64 / 1e3),
        _ => format!("{:.1} MB", n as f64 / 1e6),
    }
}

fn percent(part: f64, of: f64) -> String {
    if of > 0.0 { format!("{:.0} %", part / of * 100.0) } else { "0 %".to_owned() }
}

fn meaning(text: &mut String, o: &Overall) {
    if o.stalled_over == 0 {
        let _ = write!(text, "No connection stood still for more than {} s.", o.over_s);
    } else {
        let _ = write!(
            text,
            "{} of {} stood still for more than {} s; {} of that time because of losses",
            o.stalled_over,
            plural(o.connections, "connection"),
            o.over_s,
            percent(o.long_loss_s, o.long_s)
        );
        let [_, before, behind, _] = o.lost_s;
        text.push_str(match () {
            () if o.long_loss_s == 0.0 => ".",
            () if before > 4.0 * behind => " before the point of capture.",
            () if behind > 4.0 * before => " behind the point of capture.",
            () => ", some before the point of capture and some behind it.",
        });
    }
    let _ = match o.vantage() {
        Vantage::Sender => write!(text, " The capture was taken at the senders."),
        Vantage::Receiver => write!(text, " The capture was taken at the receivers."),
        Vantage::Between => write!(text, " The capture was taken between senders and receivers."),
        Vantage::Unknown => Ok(()),
    };
    if let Some(packets) = o.packets_per_rtt {
        let _ = write!(text, "\nA connection sent {packets:.1} packets in a round trip");
        if packets < 4.0 && o.counts.again * 20 > o.counts.data {
            let _ = write!(
                text,
                ": too few for three duplicate ACKs, so losses are found by timers. \
                 That is the small-packet regime, for which the discipline taq is made"
            );
        }
        text.push('.');
    }
    text.push_str("\n\n");
}

fn causes(text: &mut String, o: &Overall) {
    if o.causes.is_empty() {
        return;
    }
    let _ = writeln!(text, "{:<44} {:>7} {:>9} {:>6} {:>9}", "why", "stalls", "time", "share", "longest");
    for c in &o.causes {
        let _ = writeln!(
            text,
            "{:<44} {:>7} {:>7.1} s {:>6} {:>7.1} s",
            c.cause.words(),
            c.stalls,
            c.time_s,
            percent(c.time_s, o.stalled_s()),
            c.longest_s
        );
    }
    text.push('\n');
}

fn count(text: &mut String, c: &Counts) {
    let mut says = |n: u64, what: &str| {
        if n > 0 {
            let _ = writeln!(text, "{n:>9}  {what}");
        }
    };
    says(c.timeouts, "timeouts");
    says(c.timeouts_inferred, "  of them not seen, but told by the silence");
    says(c.fast_retransmits, "fast retransmits");
    says(c.probes, "tail-loss probes");
    says(c.handshake, "SYNs and SYN-ACKs sent again");
    says(c.recovery + c.after_timeout, "further segments sent again in recovery");
    says(c.unknown, "segments sent again for no reason that shows");
    says(c.spurious, "of all these the receiver did not need");
    says(c.lost_before, "repairs of losses before the point of capture");
    says(c.lost_behind, "repairs of losses behind it");
    says(c.reordered, "segments overtaken");
    text.push('\n');
}

fn worst(text: &mut String, o: &Overall) {
    if o.worst.is_empty() {
        return;
    }
    text.push_str("The connections that stood still for longest:\n");
    for flow in &o.worst {
        connection(text, flow);
    }
}

fn connection_line(text: &mut String, flow: &FlowReport) {
    let lasted = flow.to.since(flow.from).as_secs_f64();
    let _ = write!(text, "{}: {:.1} s of {lasted:.1} s", flow.key(), flow.stalled_s());
    if let Some(cause) = flow.main_cause() {
        let _ = write!(text, ", mostly: {}", cause.words());
    }
    text.push('\n');
}

fn connection(text: &mut String, flow: &FlowReport) {
    let _ = write!(text, "\n#{} ", flow.number);
    connection_line(text, flow);
    let mut longest: Vec<&Stall> = flow.stalls.iter().filter(|s| s.cause.counts()).collect();
    longest.sort_by_key(|s| core::cmp::Reverse(s.length()));
    longest.truncate(3);
    longest.sort_by_key(|s| s.from);
    for s in longest {
        let _ = writeln!(text, "  {}", stall(s));
    }
}

/// One connection with all its stalls. `title` names the captures.
#[must_use]
pub fn flow_page(title: &str, flow: &FlowReport) -> String {
    let (counts, main) = (flow.counts(), flow.main());
    let mut text = format!("{title}: connection {}\n", flow.number);
    connection_line(&mut text, flow);
    let ms = |s: Option<f64>| s.map_or("unknown".to_owned(), |s| format!("{:.0} ms", s * 1e3));
    let _ = writeln!(
        text,
        "{} and {} delivered; round trip {} ({} to the receiver and back, {} to the sender)\n",
        bytes(flow.directions[0].counts.bytes),
        bytes(flow.directions[1].counts.bytes),
        ms(main.rtt_s),
        ms(main.receiver_half_s),
        ms(main.sender_half_s),
    );
    count(&mut text, &counts);
    for s in &flow.stalls {
        let _ = writeln!(text, "{}", stall(s));
    }
    text
}

pub(crate) fn stall(s: &Stall) -> String {
    let mut line = format!(
        "{:.2} s from {:.2} s on: {}",
        s.length().as_secs_f64(),
        s.from.as_secs_f64(),
        s.cause.words()
    );
    match s.repair {
        Some(Repair::Timeout) => {
            let _ = write!(line, ", {} (back-off {})", plural(s.timeouts.into(), "timeout"), s.backoff);
        }
        Some(Repair::Probe) => line.push_str(", tail-loss probe"),
        Some(Repair::FastRetransmit) => line.push_str(", fast retransmit"),
        Some(Repair::Handshake) => line.push_str(", SYN again"),
        _ => {}
    }
    line.push_str(match s.lost {
        Place::Unknown => "",
        Place::Before => ", lost before here",
        Place::Behind => ", lost behind here",
        Place::Both => ", lost before and behind here",
    });
    if !s.ended {
        line.push_str(", without an end");
    }
    let frames: Vec<String> = s.frames.iter().map(|frame| frame.to_string()).collect();
    let _ = write!(line, " (frames {})", frames.join(", "));
    line
}

/// What is to be said of QUIC, below the page; nothing if there is none. `keep` connections are shown.
#[must_use]
pub fn quic_page(flows: &[QuicReport], keep: usize) -> String {
    let mut text = String::new();
    if flows.is_empty() {
        return text;
    }
    let unopened = flows.iter().filter(|f| !f.established).count();
    let _ = write!(text, "\nQUIC: {} whose beginning was seen", plural(flows.len() as u64, "connection"));
    if unopened > 0 {
        let _ = write!(text, ", {unopened} not established");
    }
    text.push('\n');
    for cause in
        [QuicCause::HandshakeLost, QuicCause::Starved, QuicCause::DataUnavailable, QuicCause::Unknown]
    {
        let stalls = || flows.iter().flat_map(|f| &f.stalls).filter(|s| s.cause == cause);
        let seconds: f64 = stalls().map(|s| s.length().as_secs_f64()).sum();
        if seconds > 0.0 {
            let _ = writeln!(text, "{:<44} {:>7} {seconds:>7.1} s", cause.words(), stalls().count());
        }
    }
    let mut worst: Vec<(&QuicReport, f64)> =
        flows.iter().map(|f| (f, f.waited_s())).filter(|w| w.1 > 0.0).collect();
    worst.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (flow, seconds) in worst.iter().take(keep) {
        let lasted = flow.to.since(flow.from).as_secs_f64();
        let (c, s) = (flow.client, flow.server);
        let key = FlowKey::new(c.address, s.address, c.port, s.port, Proto::UDP);
        let _ = write!(text, "  {key}: {seconds:.1} s of {lasted:.1} s");
        if let Some(rtt) = flow.spin_rtt_s.or(flow.handshake_rtt_s) {
            let _ = write!(text, ", round trip {:.0} ms", rtt * 1e3);
        }
        if let Some(longest) = flow.stalls.iter().max_by_key(|s| s.length()) {
            let [from, to] = longest.frames;
            let _ = write!(
                text,
                "; longest {:.1} s: {} (frames {from}, {to})",
                longest.length().as_secs_f64(),
                longest.cause.words()
            );
        }
        text.push('\n');
    }
    text
}
