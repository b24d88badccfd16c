//! A page for people: first what it means, then why, then who suffers most.

use core::fmt::Write as _;

use narrows_wire::{FlowKey, Proto};

use crate::counts::Counts;
use crate::findings::{Cause, Place, Repair, Stall};
use crate::overall::Overall;
use crate::quic::{QuicCause, QuicReport};
use crate::report::{FlowReport, Vantage};

/// The page of text. `title` names the captures. Times are seconds since the first packet of the capture.
#[must_use]
pub fn page(title: &str, o: &Overall) -> String {
    let mut text = String::new();
    if o.connections == 0 {
        return format!("{title}: no TCP in it\n");
    }
    let _ = write!(text, "{title}: {} ", plural(o.connections, "connection"));
    let seconds = o.to_s - o.from_s;
    let _ = if o.from_s < 1.0 {
        write!(text, "in {seconds:.1} s")
    } else {
        write!(text, "from second {:.1} to {:.1}", o.from_s, o.to_s)
    };
    let _ = write!(text, ", {} with data, {} delivered", o.with_data, bytes(o.counts.bytes));
    if seconds >= 1.0 {
        let _ = write!(text, ", {}", rate(o.counts.bytes as f64 * 8.0 / seconds));
    }
    text.push_str("\n\n");
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

fn rate(bps: f64) -> String {
    if bps < 1e7 { format!("{:.0} kbit/s", bps / 1e3) } else { format!("{:.1} Mbit/s", bps / 1e6) }
}

/// A part as a percentage. What is left of a sum by rounding may be less than nothing.
fn percent(part: f64, of: f64) -> String {
    if of > 0.0 { format!("{:.0} %", (part / of * 100.0).max(0.0) + 0.0) } else { "0 %".to_owned() }
}

fn millis(seconds: f64) -> String {
    format!("{:.0} ms", seconds * 1e3)
}

fn meaning(text: &mut String, o: &Overall) {
    if o.stalled_over == 0 {
        let _ = writeln!(text, "No single stall lasted more than {} s.", o.over_s);
    } else {
        let _ = writeln!(
            text,
            "{} of {} stood still for more than {} s at a time; {} of the time of such stalls because of losses.",
            o.stalled_over,
            plural(o.connections, "connection"),
            o.over_s,
            percent(o.long_loss_s, o.long_s)
        );
    }
    let all = o.stalled_s();
    if all > 0.0 {
        let (lost, waited, applications) = (o.lost_time_s(), o.waited_s(), o.applications_s());
        let [_, before, behind, _] = o.lost_s;
        let place = match () {
            () if before > 0.8 * lost => " between the senders and here",
            () if behind > 0.8 * lost => " between here and the receivers",
            () => "",
        };
        let _ = writeln!(
            text,
            "Connections stood still for {} of their time: losses{place} {}, queues {}, applications {}, else {}.",
            percent(o.stood_still_s, o.lasted_s),
            percent(lost, all),
            percent(waited, all),
            percent(applications, all),
            percent(all - lost - waited - applications, all)
        );
    }
    match o.vantage() {
        Vantage::Sender => text.push_str("The capture was taken at the senders.\n"),
        Vantage::Receiver => text.push_str("The capture was taken at the receivers.\n"),
        Vantage::Between => text.push_str("The capture was taken between senders and receivers.\n"),
        Vantage::Unknown => {}
    }
    if let (Some(least), Some(median), Some(p95)) = (o.rtt_least_s, o.rtt_p50_s, o.rtt_p95_s) {
        let _ = write!(
            text,
            "Round trip: least {}, median {}, 95th percentile {}",
            millis(least),
            millis(median),
            millis(p95)
        );
        if let Some(queue) = o.queue_s().filter(|queue| *queue > 0.2 * median) {
            let _ = write!(text, "; {} of the median is above the least, mostly queues", millis(queue));
        }
        text.push_str(".\n");
    }
    if let Some(packets) = o.packets_per_rtt {
        let _ =
            writeln!(text, "While it transfers, a connection sends {packets:.1} packets in a round trip.");
    }
    advice(text, o);
    text.push('\n');
}

/// The discipline `taq` helps where windows are small, timers repair the losses, and users wait for that.
fn advice(text: &mut String, o: &Overall) {
    let lost = o.lost_time_s();
    let small = o.packets_per_rtt.is_some_and(|packets| packets < SMALL_WINDOW);
    let thin = o.queue_s().is_some_and(|queue| queue >= THIN_QUEUE_S);
    let timers = o.counts.timeouts + o.counts.handshake;
    if small && thin && o.stalled_over > 0 && timers > o.counts.fast_retransmits && lost > o.stalled_s() / 5.0
    {
        let _ = writeln!(
            text,
            "That is a thin link: windows are too small for three duplicate ACKs, so timers repair the losses.\n\
             The discipline taq at its queue drops nothing that a timer must repair: it would save up to\n\
             {lost:.0} of the {:.0} s of stalls below.",
            o.stalled_s()
        );
    }
}

/// Packets in a round trip below which three duplicate ACKs do not come (RFC 5681, section 3.2).
const SMALL_WINDOW: f64 = 4.0;
/// Wait in queues from which on a link is taken to be thin, seconds.
const THIN_QUEUE_S: f64 = 0.05;

fn causes(text: &mut String, o: &Overall) {
    if o.causes.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "{:<40} {:>7} {:>9} {:>6} {:>9}  certain/likely/possible",
        "why", "stalls", "time", "share", "longest"
    );
    for c in &o.causes {
        let share = |part: f64| percent(part, c.time_s).replace(" %", "");
        let _ = writeln!(
            text,
            "{:<40} {:>7} {:>7.1} s {:>6} {:>7.1} s  {:>7}/{}/{} %",
            c.cause.words(),
            c.stalls,
            c.time_s,
            percent(c.time_s, o.stalled_s()),
            c.longest_s,
            share(c.certain_s),
            share(c.likely_s),
            share(c.possible_s)
        );
    }
    text.push_str("Times are sums over connections; the last column is the share of that time.\n\n");
}

fn count(text: &mut String, c: &Counts) {
    let mut says = |n: u64, one: &str, many: &str| {
        if n > 0 {
            let _ = writeln!(text, "{n:>9}  {}", if n == 1 { one } else { many });
        }
    };
    says(c.timeouts, "timeout", "timeouts");
    says(
        c.timeouts_inferred,
        "  of them inferred from the pause: its packet was not captured",
        "  of them inferred from pauses: their packets were not captured",
    );
    says(c.fast_retransmits, "fast retransmit", "fast retransmits");
    says(c.probes, "tail-loss probe", "tail-loss probes");
    says(c.handshake, "SYN or SYN-ACK sent again", "SYNs and SYN-ACKs sent again");
    let further = c.recovery + c.after_timeout;
    says(further, "further segment sent again in recovery", "further segments sent again in recovery");
    says(c.unknown, "retransmission of unknown cause", "retransmissions of unknown cause");
    says(c.spurious, "of all these was unnecessary (spurious)", "of all these were unnecessary (spurious)");
    says(c.lost_before, "repair of a loss before this capture", "repairs of losses before this capture");
    says(c.lost_behind, "repair of a loss behind it", "repairs of losses behind it");
    says(c.reordered, "segment reordered", "segments reordered");
    says(
        c.holes,
        "hole in the data: lost before this capture, or not captured",
        "holes in the data: lost before this capture, or not captured",
    );
    says(
        c.unseen,
        "acknowledgment of data that was not captured",
        "acknowledgments of data that was not captured",
    );
    text.push('\n');
}

fn worst(text: &mut String, o: &Overall) {
    if o.worst.is_empty() {
        return;
    }
    text.push_str("The connections that stood still for longest, each with the end that opened it first:\n");
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
    let ms = |s: Option<f64>| s.map_or("unknown".to_owned(), millis);
    let _ = writeln!(
        text,
        "{} and {} delivered; round trip: least {}, median {}, 95th percentile {} (least from here to the receiver and \
         back {}, to the sender {})\n",
        bytes(flow.directions[0].counts.bytes),
        bytes(flow.directions[1].counts.bytes),
        ms(main.rtt_least_s),
        ms(main.rtt_p50_s),
        ms(main.rtt_p95_s),
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
            let _ = write!(line, ", {}", plural(s.timeouts.into(), "timeout"));
        }
        Some(Repair::Probe) => line.push_str(", tail-loss probe"),
        Some(Repair::FastRetransmit) => line.push_str(", fast retransmit"),
        Some(Repair::Handshake) => line.push_str(", SYN again"),
        _ => {}
    }
    line.push_str(match s.lost {
        // The cause says it.
        _ if s.cause == Cause::AnswerLost => "",
        Place::Unknown => "",
        Place::Before => ", lost before here",
        Place::Behind => ", lost behind here",
        Place::Both => ", lost before and behind here",
    });
    let _ = write!(line, "; {}", s.certainty.word());
    if !s.ended {
        line.push_str(", still stalled at the end");
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
    for cause in QuicCause::ALL {
        if cause == QuicCause::ClientIdle {
            continue;
        }
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
                "; longest {:.1} s: {}, {} (frames {from}, {to})",
                longest.length().as_secs_f64(),
                longest.cause.words(),
                longest.certainty.word()
            );
        }
        text.push('\n');
    }
    text
}
