//! Page of `narrows diagnose`: first what the capture means, then why, then which connections suffer most.

use core::fmt::Write as _;

use serde::Serialize;

use narrows_wire::{FlowKey, Proto};

use crate::counts::Counts;
use crate::evidence::Item;
use crate::findings::{Cause, Place, QuicCause, Repair, Stall};
use crate::overall::Overall;
use crate::quic::QuicReport;
use crate::report::{FlowReport, Vantage};
use crate::why::{Subject, Why};

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

/// Four answers: who was hurt, why, where, and what to do next.
fn meaning(text: &mut String, o: &Overall) {
    answer(text, "Who", &who(o));
    if let Some(why) = why(o) {
        answer(text, "Why", &why);
    }
    answer(text, "Where", &place(o));
    if let Some(path) = path(o) {
        answer(text, "Path", &path);
    }
    answer(text, "Next", &next(o));
    text.push('\n');
}

/// A line of the page's head, broken where it is longer than a terminal is wide.
fn answer(text: &mut String, name: &str, words: &str) {
    let _ = write!(text, "{name:<6}");
    let mut column = NAME;
    for word in words.split(' ') {
        if column + 1 + word.len() > WIDE && column > NAME && !word.starts_with('%') {
            let _ = write!(text, "\n{:NAME$}", "");
            column = NAME;
        }
        let _ = write!(text, " {word}");
        column += 1 + word.len();
    }
    text.push('\n');
}

/// Columns of the head's names.
const NAME: usize = 6;
/// Columns of a line, as many as in a page of code and in most terminals.
const WIDE: usize = 100;

fn who(o: &Overall) -> String {
    let stood = percent(o.stood_still_s, o.lasted_s);
    if o.stood_still_s <= 0.0 {
        return "No connection stood still.".to_owned();
    }
    match o.stalled_over {
        0 => format!(
            "No single stall lasted more than {} s; connections stood still for {stood} of the time that they lasted.",
            o.over_s
        ),
        n => format!(
            "{n} of {} stood still for more than {} s at a time; all together for {stood} of the time that they \
             lasted.",
            plural(o.connections, "connection"),
            o.over_s
        ),
    }
}

/// The stalled time by kinds of causes, the most first; nothing if there was none.
fn why(o: &Overall) -> Option<String> {
    let all = o.stalled_s();
    let mut kinds = [
        ("repairs of losses", o.lost_time_s()),
        ("waits on the way", o.waited_s()),
        ("no answer", o.unanswered_s()),
        ("applications", o.applications_s()),
    ]
    .to_vec();
    let known: f64 = kinds.iter().map(|k| k.1).sum();
    kinds.push(("unknown", (all - known).max(0.0)));
    kinds.sort_by(|a, b| b.1.total_cmp(&a.1));
    let said: Vec<String> = kinds
        .into_iter()
        .filter(|(_, s)| *s >= all / 200.0 && *s > 0.0)
        .map(|(kind, s)| format!("{kind} {}", percent(s, all)))
        .collect();
    (all > 0.0).then(|| format!("What they waited for: {}.", said.join(", ")))
}

/// Where the capture was taken, and where packets were lost, seen from there.
fn place(o: &Overall) -> String {
    let taken = match o.vantage() {
        Vantage::Sender => "Captured at the senders.",
        Vantage::Receiver => "Captured at the receivers.",
        Vantage::Between => "Captured between senders and receivers.",
        Vantage::Unknown => "The captured side does not show.",
    };
    let lost = o.lost_time_s();
    let [unknown, before, behind, both] = o.lost_s;
    let said: Vec<String> = [
        ("between the senders and here", before),
        ("between here and the receivers", behind),
        ("on both sides", both),
        ("at a place that does not show", unknown),
    ]
    .into_iter()
    .filter(|(_, s)| *s >= lost / 200.0 && *s > 0.0)
    .map(|(place, s)| format!("{} {place}", percent(s, lost)))
    .collect();
    let one_way = match o.one_way {
        0 => String::new(),
        n => format!(
            " Of {} one direction alone was captured: what the other end acknowledged, and when, is unknown.",
            plural(n, "connection")
        ),
    };
    if said.is_empty() {
        taken.to_owned() + &one_way
    } else {
        format!("{taken} Losses, by their time: {}.{one_way}", said.join(", "))
    }
}

/// Round trips, and packets in one. Lengths of round trips are kept in eight steps to a doubling.
fn path(o: &Overall) -> Option<String> {
    let (least, median, p95) = (o.rtt_least_s?, o.rtt_p50_s?, o.rtt_p95_s?);
    let least = if least < 5e-4 { "below 1 ms".to_owned() } else { millis(least) };
    let mut text = format!(
        "Round trip about {} (median; least {least}, 95th percentile {})",
        millis(median),
        millis(p95)
    );
    if let Some(queue) = o.queue_s().filter(|queue| *queue > 0.2 * median) {
        let _ = write!(text, ", of that {} above the least, mostly in queues", millis(queue));
    }
    if let Some(packets) = o.packets_per_rtt {
        let _ = write!(text, "; a transfer sends {packets:.1} packets in one, on average");
    }
    text.push('.');
    Some(text)
}

/// Advice by the kind of wait that took the most time.
fn next(o: &Overall) -> String {
    let (all, lost, waited) = (o.stalled_s(), o.lost_time_s(), o.waited_s());
    let (unanswered, applications) = (o.unanswered_s(), o.applications_s());
    let most = lost.max(waited).max(unanswered).max(applications);
    if o.stalled_over == 0 && o.stood_still_s < FELT * o.lasted_s {
        return "Nothing: users hardly feel this.".to_owned();
    }
    if shares_a_queue(o) {
        return format!(
            "Several connections share a queue with windows too small for three duplicate ACKs, so timers repair \
             losses and handshakes. A queue that shares and never drops a transfer's last packet (taq) saves at \
             most {lost:.0} of the {all:.0} s below; --what-if taq --what-if cake compares taq with CAKE."
        );
    }
    let text = if most <= 0.0 {
        "Capture at the other end too: this side does not show why."
    } else if most == unanswered {
        "Look at the end that does not answer, and at filters before it: lost, filtered and dead look alike from here."
    } else if most == applications {
        "Look at the application that lets the other end wait, by its own log."
    } else if most == lost && o.queue_s().zip(o.rtt_p50_s).is_some_and(|(queue, rtt)| queue > rtt / 2.0) {
        "Find the queue that holds packets and overflows: a short one in its place (CoDel, CAKE, taq) helps."
    } else if most == lost {
        "Find the link that loses: capture on its other side too, and look at its counters of drops and errors."
    } else if o.time_of(|cause| cause == Cause::WaitsTurn) > waited / 2.0 {
        "More capacity, or fewer transfers at a time: what waits here waits its turn in a queue that shares."
    } else {
        "Find the queue that holds packets: a shorter one (CoDel, CAKE, taq) lets go sooner."
    };
    text.to_owned()
}

/// Whether the discipline `taq` would help: several connections share a queue, windows are small, and timers repair the
/// losses.
fn shares_a_queue(o: &Overall) -> bool {
    let small = o.packets_per_rtt.is_some_and(|packets| packets < SMALL_WINDOW);
    let queued = |queue: f64| queue >= THIN_QUEUE_S && o.rtt_p50_s.is_some_and(|median| queue > median / 5.0);
    let thin = o.queue_s().is_some_and(queued);
    let timers = o.counts.timeouts + o.counts.handshake;
    let lost = o.lost_time_s() > o.stalled_s() / 5.0;
    small && thin && o.stalled_over >= SHARED && timers > o.counts.fast_retransmits && lost
}

/// Part of the time that connections last below which standing still is hardly felt.
const FELT: f64 = 0.05;
/// Packets in a round trip below which three duplicate ACKs do not come (RFC 5681, section 3.2).
const SMALL_WINDOW: f64 = 4.0;
/// Connections that stall for long from which on a queue is taken to be shared: one may have its own bad luck.
const SHARED: u64 = 3;
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
    text.push_str(
        "Times are sums over connections. Certain, likely, possible: how sure that cause is, in % of its time.\n\n",
    );
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
    let again = c.sent_again();
    if again > 0 {
        let known = c.spurious + c.lost_before + c.lost_behind;
        says(again, "packet sent again in all; of these", "packets sent again in all; of these");
        says(
            c.lost_before,
            "  for a loss between the sender and here",
            "  for losses between the sender and here",
        );
        says(
            c.lost_behind,
            "  for a loss between here and the receiver",
            "  for losses between here and the receiver",
        );
        says(
            c.spurious,
            "  needless: the receiver had it (spurious)",
            "  needless: the receiver had them (spurious)",
        );
        let open = "  may have been needed or not";
        says(again.saturating_sub(known), open, open);
    }
    says(c.reordered, "segment overtaken by a later one", "segments overtaken by later ones");
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
    let shorter = longest.len().saturating_sub(3) as u64;
    longest.sort_by_key(|s| core::cmp::Reverse(s.length()));
    longest.truncate(3);
    longest.sort_by_key(|s| s.from);
    for s in longest {
        let _ = writeln!(text, "  {}", stall(s));
    }
    if shorter > 0 {
        let _ = writeln!(
            text,
            "  and {} that {} shorter",
            plural(shorter, "stall"),
            if shorter == 1 { "is" } else { "are" }
        );
    }
}

/// Page of text about one connection with all its stalls. `title` names the captures.
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
        Place::Before => ", lost between the sender and here",
        Place::Behind => ", lost between here and the receiver",
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
                "; longest {:.1} s: {}, {}{} (frames {from}, {to})",
                longest.length().as_secs_f64(),
                longest.cause.words(),
                longest.certainty.word(),
                if longest.by_qlog { ", the sender's qlog says so" } else { "" },
            );
        }
        text.push('\n');
    }
    let mut told: Vec<&QuicReport> = flows.iter().filter(|flow| flow.qlog.is_some()).collect();
    told.sort_by(|a, b| b.waited_s().total_cmp(&a.waited_s()));
    told.iter().take(keep).for_each(|flow| qlog(&mut text, flow));
    if let more @ 1.. = told.len().saturating_sub(keep) {
        let _ = writeln!(text, "\nand the qlogs of {}, in --json", plural(more as u64, "connection"));
    }
    text
}

/// Word of an end's log about its connection: a line of sums, and one for each stall whose cause rests on it.
fn qlog(text: &mut String, flow: &QuicReport) {
    let Some(sums) = &flow.qlog else { return };
    let (c, s) = (flow.client, flow.server);
    let key = FlowKey::new(c.address, s.address, c.port, s.port, Proto::UDP);
    let end = ["client", "server"][usize::from(sums.by)];
    let _ = writeln!(
        text,
        "\nThe qlog of the {end} of {key}: {} sent, {} lost ({} of them came nevertheless), {}",
        plural(sums.sent, "packet"),
        sums.lost,
        sums.spurious,
        plural(sums.timeouts, "timeout"),
    );
    for stall in flow.stalls.iter().filter(|stall| stall.by_qlog) {
        let word = stall.sender.unwrap_or_default();
        let said = match (word.timeouts, word.needless) {
            (0, _) if word.idle == Some(true) => "it had nothing to send".to_owned(),
            (0, _) => "its data waited, and no timer expired".to_owned(),
            (n, true) => format!("{}, needless: what was under way came", plural(n.into(), "timeout")),
            (n, false) if word.lost == 0 => plural(n.into(), "timeout"),
            (n, false) => {
                format!("{}, {} lost", plural(n.into(), "timeout"), plural(word.lost.into(), "packet"))
            }
        };
        let [from, to] = stall.frames;
        let _ = writeln!(
            text,
            "  {:.2} s from {:.2} s on: {}, {}, the sender's qlog says so: {said} (frames {from}, {to})",
            stall.length().as_secs_f64(),
            stall.from.as_secs_f64(),
            stall.cause.words(),
            stall.certainty.word(),
        );
    }
}

/// A name in JSON, with blanks instead of underscores.
fn plain(value: &impl Serialize) -> String {
    let name = serde_json::to_value(value).ok().and_then(|v| v.as_str().map(|s| s.replace('_', " ")));
    name.unwrap_or_default()
}

/// The page of text about a frame of one connection; nothing if nothing was said of it there.
#[must_use]
pub fn why_page(frame: u64, flow: &FlowReport) -> String {
    let mut text = String::new();
    let key = flow.key();
    for why in &flow.whys {
        let key = if why.by == 0 { key } else { key.reverse() };
        let (at, n) = (why.at.as_secs_f64(), flow.number);
        let _ = match why.said {
            Subject::Retransmission(_) => {
                writeln!(text, "Frame {frame}, connection {n}, {key}: sent again at {at:.3} s")
            }
            Subject::Silence(_) => {
                writeln!(text, "Frame {frame}, connection {n}, {key}: silence until {at:.3} s")
            }
        };
        for Item { name, value, origin } in &why.evidence {
            let _ = writeln!(text, "  {name:<14} {value:<32} {}", origin.words());
        }
        let said = match why.said {
            Subject::Retransmission(repair) => plain(&repair),
            Subject::Silence(cause) => cause.words().to_owned(),
        };
        let Why { row, of, name, source, certainty, .. } = why;
        let _ = writeln!(text, "Row {row} of {of}, \"{name}\": {said}, {}", plain(certainty));
        let _ = writeln!(text, "Source: {source}\n");
    }
    for event in flow.events.iter().filter(|e| e.frame == frame) {
        let how =
            if event.inferred { ", not seen but reckoned from the silence before this frame" } else { "" };
        let spurious = if event.spurious { ", which the receiver did not need" } else { "" };
        let (at, repair) = (event.at.as_secs_f64(), plain(&event.repair));
        let _ =
            writeln!(text, "Reported: {repair} at {at:.3} s{how}{spurious} ({})", plain(&event.certainty));
    }
    for stall in flow.stalls.iter().filter(|s| s.frames.iter().any(|f| f == frame)) {
        let _ = writeln!(text, "Reported: {}", self::stall(stall));
    }
    text
}

#[cfg(test)]
mod tests {
    use narrows_units::Duration;

    use super::*;
    use crate::findings::Cause;
    use crate::overall::CauseShare;

    /// Forty seconds of timeouts at 2 packets in a round trip of 600 ms, of which 500 are queue.
    fn hurt(connections: u64) -> Overall {
        let mut o = Overall::new(Duration::from_secs(5), 3);
        (o.connections, o.stalled_over) = (20, connections);
        (o.rtt_least_s, o.rtt_p50_s, o.packets_per_rtt) = (Some(0.1), Some(0.6), Some(2.0));
        o.counts.timeouts = 12;
        o.causes.push(CauseShare {
            cause: Cause::ContinuousLoss,
            stalls: 12,
            time_s: 40.0,
            longest_s: 7.0,
            certain_s: 0.0,
            likely_s: 40.0,
            possible_s: 0.0,
        });
        o.lost_s[2] = 40.0;
        o
    }

    #[test]
    fn another_discipline_is_advised_where_several_share_a_queue() {
        let advised = |o: &Overall| page("x.pcap", o).contains("(taq) saves at most 40 of");
        assert!(advised(&hurt(SHARED)));
        assert!(!advised(&hurt(SHARED - 1)), "one connection's bad luck");
        let mut far = hurt(SHARED);
        (far.rtt_least_s, far.rtt_p50_s) = (Some(2.2), Some(2.5));
        assert!(!advised(&far), "a path that is long, with little queue");
        let mut quick = hurt(SHARED);
        quick.packets_per_rtt = Some(20.0);
        assert!(!advised(&quick), "windows large enough for three duplicate ACKs");
    }
}
