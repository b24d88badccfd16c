//! `narrows status`: what a running box does now.

pub mod sight;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use narrows_box::{self as live, DirectionStatus, Status};
use narrows_qdisc::{AdmissionReport, ClassReport, Reason};

use super::bits;
use crate::SUCCESS;

/// Arguments of `narrows status`.
#[derive(clap::Args)]
pub struct Args {
    /// Print the box's whole status as JSON
    #[arg(long)]
    json: bool,
    /// Control socket of the box; without it every box under /run/narrows
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

/// Runs the command.
pub fn main(args: Args) -> anyhow::Result<u8> {
    let boxes = find(args.control.as_deref())?;
    for (i, path) in boxes.iter().enumerate() {
        if args.json {
            print!("{}", live::fetch_text(path)?);
            continue;
        }
        if i > 0 {
            println!();
        }
        let before = live::fetch(path)?;
        std::thread::sleep(Duration::from_secs(1));
        let now = live::fetch(path)?;
        print!("{}", whole(&now, &before));
    }
    Ok(SUCCESS)
}

/// The control sockets of running boxes.
pub fn find(given: Option<&Path>) -> anyhow::Result<Vec<PathBuf>> {
    if let Some(path) = given {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(live::RUN_DIR).into_iter().flatten().flatten().map(|e| e.path());
    let mut found: Vec<_> = entries.filter(|p| p.extension().is_some_and(|e| e == "sock")).collect();
    found.sort();
    // A socket nobody answers at is what a killed box left.
    found.retain(|p| live::fetch_text(p).is_ok());
    if found.is_empty() {
        bail!("no box runs here (none answers under {}): name its socket with --control", live::RUN_DIR);
    }
    Ok(found)
}

/// A number of bytes as text, in the unit that fits.
pub fn size(bytes: f64) -> String {
    match bytes {
        b if b >= 1e9 => format!("{:.2} GB", b / 1e9),
        b if b >= 1e6 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.0} kB", b / 1e3),
    }
}

/// A time as text, in the unit that fits.
pub fn seconds(s: f64) -> String {
    match s {
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 600.0 => format!("{s:.0} s"),
        s if s < 36_000.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// Link rate and, where the discipline can tell, goodput of one direction between two looks, in bit/s.
pub fn rates(now: &DirectionStatus, before: &DirectionStatus, dt: f64) -> (f64, Option<f64>) {
    let (n, b) = (&now.report.counters, &before.report.counters);
    // Counters begin anew when a reload takes another discipline.
    let rate =
        |now: u64, before: u64| if dt > 0.0 { now.saturating_sub(before) as f64 * 8.0 / dt } else { 0.0 };
    let goodput = (n.goodput_bytes.0 > 0).then(|| rate(n.goodput_bytes.0, b.goodput_bytes.0));
    (rate(n.sent_bytes.0, b.sent_bytes.0), goodput)
}

/// State of the box, or of one link of several, in one line.
pub fn headline(s: &Status) -> String {
    let name = s.name.as_ref().map_or_else(String::new, |name| format!("{name}: "));
    format!(
        "{name}{} <-> {} · {} · {} for {} · process {} · narrows {}",
        s.lan,
        s.wan,
        if s.rules.is_empty() { s.backend.clone() } else { format!("{} ({})", s.backend, s.rules) },
        if s.observe { "looking on" } else { "running" },
        seconds(s.uptime_s),
        s.pid,
        s.version
    )
}

/// Rows about one direction, as pairs of name and value; names that begin with a dot belong to the line above.
/// `acknowledgments` came in the other direction, and may be clamped for this one.
pub fn rows(
    now: &DirectionStatus,
    before: Option<(&DirectionStatus, f64)>,
    acknowledgments: u64,
) -> Vec<(String, String)> {
    let (r, c) = (&now.report, &now.report.counters);
    let mut rows = vec![
        (
            "shaped to".to_owned(),
            match now.rate_bps {
                None => "not shaped".to_owned(),
                Some(_) if r.follows.is_some() => "auto".to_owned(),
                Some(b) => bits(b as f64),
            },
        ),
        (
            "discipline".to_owned(),
            if now.rate_bps.is_some() { now.discipline.clone() } else { "-".to_owned() },
        ),
    ];
    let mut row = |name: &str, value: String| rows.push((name.to_owned(), value));
    follow_rows(now).into_iter().for_each(|(name, value)| row(name, value));
    if let Some((before, dt)) = before {
        let (link, goodput) = rates(now, before, dt);
        row("link", bits(link));
        if let Some(goodput) = goodput {
            row("goodput", bits(goodput));
        }
    }
    row("in the queue", format!("{} packets, {:.1} kB", r.backlog.packets, r.backlog.bytes.0 as f64 / 1e3));
    for class in &r.classes {
        in_words(class).into_iter().for_each(|(name, value)| row(&name, value));
    }
    row("arrived", format!("{} packets, {:.1} MB", c.arrived, c.arrived_bytes.0 as f64 / 1e6));
    row("dropped", of_all(c.dropped_total(), c.arrived, ""));
    let mut drops = Reason::ALL.map(|reason| (reason.name(), c.dropped[reason as usize]));
    drops.sort_unstable();
    for (reason, n) in drops.into_iter().filter(|(_, n)| *n > 0) {
        row(&format!("· {}", reason.replace('_', " ")), n.to_string());
    }
    for (name, n, value) in [
        ("copies dropped", c.suppressed, of_all(c.suppressed, c.arrived, ", needless")),
        ("marked", c.marked, of_all(c.marked, c.arrived, "")),
        ("windows clamped", c.clamped, of_all(c.clamped, acknowledgments, " of ACKs")),
        ("evicted flows", c.evicted, c.evicted.to_string()),
    ] {
        if n > 0 {
            row(name, value);
        }
    }
    if r.flows > 0 {
        row("loss now", format!("{:.2} %", f64::from(r.loss_ppm) / 1e4));
        let quiet = r.flows.saturating_sub(r.active_flows);
        row("flows", format!("{} share the link, {quiet} quiet", r.active_flows));
    }
    rows
}

/// Count, and the count's share of all in per cent if all are at least as many.
fn of_all(n: u64, all: u64, what: &str) -> String {
    if n <= all && all > 0 {
        format!("{n} ({:.1} %{what})", 100.0 * n as f64 / all as f64)
    } else {
        n.to_string()
    }
}

/// Rows about the link's rate, as told and as estimated.
fn follow_rows(now: &DirectionStatus) -> Vec<(&'static str, String)> {
    let kilobytes = |bytes: u64| bytes as f64 / 1e3;
    let mut rows = Vec::new();
    if let Some(told) = now.told_bps {
        rows.push(("told by rate_from", bits(told as f64)));
    }
    let Some(f) = &now.report.follows else { return rows };
    let base = f.base.map_or("unknown".to_owned(), |t| format!("{:.0} ms", t.as_secs_f64() * 1e3));
    let rate = f.found_bps.map_or("unknown".to_owned(), |bps| bits(bps as f64));
    let side = f.side.map_or_else(String::new, |side| format!(", {} the box", side.name()));
    let under_way = format!("{:.1} of {:.1} kB", kilobytes(f.in_flight), kilobytes(f.window));
    rows.extend([
        ("rate found", format!("{rate} ({}{side})", f.phase.name())),
        ("· shortest round trip", format!("{base}, now {:.0} ms more", f.late.as_secs_f64() * 1e3)),
        ("· under way", under_way),
    ]);
    if let Some(signals) = &f.signals {
        let told = format!("{} round trips, {} senders' clocks", signals.round_trips, signals.clocks);
        rows.push(("· far queue told by", told));
    }
    if f.lost > 0 {
        rows.push(("· lost behind the box", f.lost.to_string()));
    }
    rows
}

/// Name of a class of `taq` in plain words; names of other classes stay.
fn class_words(name: &str) -> &str {
    match name {
        "control" => "ACKs and SYNs",
        "expedited" => "calls and games",
        "sparse" => "light flows",
        "new" => "new flows",
        "old" => "busy flows",
        other => other,
    }
}

/// Backlog of a class in words; and where a class has a part of the link, how much, whose, and what was lost in it.
fn in_words(class: &ClassReport) -> Vec<(String, String)> {
    let name = class_words(&class.name);
    let waits = format!("{} packets, {} flows", class.backlog.packets, class.flows);
    let mut rows = vec![(format!("· {name}"), waits)];
    if let Some(share) = class.share {
        rows.push(("  share of the link".to_owned(), format!("{:.0} %", f64::from(share.0) / 1e4)));
    }
    if let Some(packets) = class.up_to_packets {
        rows.push(("  flows of up to".to_owned(), format!("{packets} packets")));
    }
    if let Some(counters) = &class.counters {
        rows.push(("  dropped".to_owned(), counters.dropped_total().to_string()));
    }
    rows
}

/// Admission control in a few lines.
pub fn admission_lines(admission: &AdmissionReport) -> Vec<String> {
    let waiting = match admission.waiting {
        0 => "nobody waits".to_owned(),
        1 => "1 user waits".to_owned(),
        n => format!("{n} users wait"),
    };
    let mut lines = vec![format!(
        "admission: {}, {waiting}; {} users admitted now, {} admissions since the start",
        if admission.overloaded { "new users wait" } else { "open" },
        admission.admitted,
        admission.admissions,
    )];
    if let (Some(p50), Some(p99)) = (admission.wait_p50, admission.wait_p99) {
        lines.push(format!(
            "wait for admission: median {}, slowest 1 % {}",
            seconds(p50.as_secs_f64()),
            seconds(p99.as_secs_f64())
        ));
    }
    for p in &admission.queue {
        let more = p.expected.map_or(String::new(), |e| format!(", about {} more", seconds(e.as_secs_f64())));
        lines.push(format!(
            "{:>4}. {}  waited {}{more}",
            p.position,
            p.pool,
            seconds(p.waited.as_secs_f64())
        ));
    }
    lines
}

/// Lines about packets and events that are not normal; none if all is well.
pub fn odd_lines(s: &Status) -> Vec<String> {
    let counts = [
        (s.malformed, "malformed packets"),
        (s.unseen, "packets went by unqueued: the box read too slowly"),
        (s.lost, "packets lost before the box could see them"),
        (s.gone, "packets whose way was gone when their turn came"),
    ];
    let counted = counts.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
    s.notices.iter().map(|n| format!("! {n}")).chain(counted).collect()
}

/// Lines with the phase of each shaper that follows its link, and the reason for the phase.
pub fn why_lines(s: &Status) -> Vec<String> {
    let of = |(name, d): (&str, &DirectionStatus)| {
        d.report.follows.as_ref().map(|f| format!("{name}, {}: {}", f.phase.name(), f.phase.why()))
    };
    [("down", &s.down), ("up", &s.up)].into_iter().filter_map(of).collect()
}

/// The whole box as text: one link after the other.
fn whole(now: &Status, before: &Status) -> String {
    if now.links.is_empty() {
        return text(now, Some(before));
    }
    let mut out = format!(
        "{} links · running for {} · process {} · narrows {}\n",
        now.links.len(),
        seconds(now.uptime_s),
        now.pid,
        now.version
    );
    odd_lines(now).into_iter().for_each(|line| out += &format!("{line}\n"));
    for link in &now.links {
        let then = before.links.iter().find(|other| other.name == link.name);
        out += &format!("\n{}", text(link, then));
    }
    out
}

/// Status of one link as text.
fn text(now: &Status, before: Option<&Status>) -> String {
    let dt = before.map_or(0.0, |b| now.uptime_s - b.uptime_s);
    let mut out = String::new();
    if !now.sight.words.is_empty() {
        out += &format!("{}\n", now.sight.words);
    }
    out += &format!("{}\n", headline(now));
    for line in odd_lines(now) {
        out += &format!("{line}\n");
    }
    let [acks_down, acks_up] = now.sight.acknowledgments;
    let down = rows(&now.down, before.map(|b| (&b.down, dt)), acks_up);
    let up = rows(&now.up, before.map(|b| (&b.up, dt)), acks_down);
    out += &side_by_side(&down, &up);
    for line in why_lines(now) {
        out += &format!("{line}\n");
    }
    for admission in now.admissions() {
        for line in admission_lines(admission) {
            out += &format!("{line}\n");
        }
    }
    for line in sight::lines(&now.sight, 5) {
        out += &format!("{}\n", line.text);
    }
    out
}

/// Two directions as one table, a line per name; where the two have different lines, each keeps its own order.
fn side_by_side(down: &[(String, String)], up: &[(String, String)]) -> String {
    let mut lines: Vec<(&str, &str, &str)> = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < down.len() || j < up.len() {
        let (d, u) = (down.get(i), up.get(j));
        match (d, u) {
            (Some(d), Some(u)) if d.0 == u.0 => {
                lines.push((&d.0, &d.1, &u.1));
                i += 1;
                j += 1;
            }
            (Some(d), u)
                if u.is_none_or(|u| down[i..].iter().any(|x| x.0 == u.0))
                    || !up[j..].iter().any(|x| x.0 == d.0) =>
            {
                lines.push((&d.0, &d.1, ""));
                i += 1;
            }
            (_, Some(u)) => {
                lines.push((&u.0, "", &u.1));
                j += 1;
            }
            (Some(d), None) => {
                lines.push((&d.0, &d.1, ""));
                i += 1;
            }
            (None, None) => break,
        }
    }
    let mut out = format!("{:<22}{:<30}{}\n", "", "down", "up");
    for (name, down, up) in lines {
        out += format!("{name:<22}{down:<30}{up}").trim_end();
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_qdisc::Ppm;
    use narrows_units::Bytes;

    fn pair(names: &[&str]) -> Vec<(String, String)> {
        names.iter().map(|n| ((*n).to_owned(), n.to_uppercase())).collect()
    }

    #[test]
    fn lines_of_two_directions_meet_by_name() {
        let text = side_by_side(&pair(&["a", "b", "d"]), &pair(&["a", "c", "d", "e"]));
        let lines: Vec<Vec<&str>> = text.lines().skip(1).map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(
            lines,
            [vec!["a", "A", "A"], vec!["b", "B"], vec!["c", "C"], vec!["d", "D", "D"], vec!["e", "E"]]
        );
    }

    #[test]
    fn rates_between_two_looks_by_hand() {
        let mut before = Status::default();
        before.down.rate_bps = Some(600_000);
        let mut now = before.clone();
        now.down.report.counters.sent_bytes = Bytes(75_000);
        now.down.report.counters.goodput_bytes = Bytes(70_000);
        // 75 000 B in 1 s are 600 kbit/s.
        assert_eq!(rates(&now.down, &before.down, 1.0), (600_000.0, Some(560_000.0)));
        now.uptime_s = 1.0;
        let text = text(&now, Some(&before));
        assert!(
            text.contains("600.0 kbit/s") && text.contains("560.0 kbit/s") && text.contains("not shaped"),
            "{text}"
        );
    }

    #[test]
    fn several_links_one_after_the_other() {
        let link = |name: &str, bytes| {
            let mut link = Status { name: Some(name.into()), uptime_s: 1.0, ..Status::default() };
            link.down.report.counters.sent_bytes = Bytes(bytes);
            link
        };
        let of = |links, notice: &str| Status { links, notices: vec![notice.into()], ..Status::default() };
        let mut before = of(vec![link("south", 0), link("north", 0)], "");
        before.links.iter_mut().for_each(|link| link.uptime_s = 0.0);
        let now = of(vec![link("north", 75_000), link("south", 7_500)], "link east has ended");
        let text = whole(&now, &before);
        let (above, links) = text.split_once("\nnorth: ").unwrap();
        assert!(above.starts_with("2 links") && above.contains("! link east has ended"), "{above}");
        // 75 000 and 7500 B in a second, each against its own beginning.
        let (north, south) = links.split_once("\nsouth: ").unwrap();
        assert!(north.contains("600.0 kbit/s") && south.contains("60.0 kbit/s"), "{text}");
    }

    #[test]
    fn a_class_with_a_part_of_the_link_says_how_much_and_whose() {
        let mut class = ClassReport { name: "short".into(), flows: 2, ..ClassReport::default() };
        assert_eq!(in_words(&class), [("· short".to_owned(), "0 packets, 2 flows".to_owned())]);
        (class.share, class.up_to_packets) = (Some(Ppm(456_000)), Some(24));
        let mut counters = narrows_qdisc::Counters::default();
        (0..7).for_each(|_| counters.drop_for(Reason::Early));
        class.counters = Some(counters);
        let values: Vec<_> = in_words(&class).into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, ["0 packets, 2 flows", "46 %", "24 packets", "7"]);
    }

    #[test]
    fn each_share_has_its_own_base_and_admission_is_told_once() {
        let mut now = Status::default();
        now.down.report.counters.arrived = 100;
        now.down.report.counters.suppressed = 3;
        (now.down.report.counters.clamped, now.down.report.counters.evicted) = (150, 7);
        (now.down.report.flows, now.down.report.active_flows) = (80, 30);
        now.down.report.stalled_flows = 9;
        now.down.report.states = [("idle".into(), 80)].into();
        now.sight.acknowledgments = [0, 200];
        now.sight.words = "None of 20 users stalled since the start.".into();
        for d in [&mut now.down, &mut now.up] {
            d.report.admission = Some(AdmissionReport { admitted: 20, admissions: 45, ..Default::default() });
        }
        let text = text(&now, None);
        assert!(text.starts_with("None of 20 users stalled since the start.\n"), "{text}");
        for line in ["3 (3.0 %, needless)", "150 (75.0 % of ACKs)", "30 share the link, 50 quiet"] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(text.lines().any(|l| l.split_whitespace().eq(["evicted", "flows", "7"])), "{text}");
        // Another count of stalls, of the discipline, is not shown beside sight's.
        assert_eq!(text.matches("stalled").count(), 1, "{text}");
        let line = "admission: open, nobody waits; 20 users admitted now, 45 admissions since the start";
        assert_eq!(text.matches(line).count(), 1, "{text}");
        // ACKs that were counted later than the clamps give no share above the whole.
        assert_eq!(of_all(5, 4, ""), "5");
    }

    #[test]
    fn what_a_discipline_began_anew_is_no_negative_rate() {
        let (mut before, now) = (Status::default(), Status::default());
        before.down.report.counters.sent_bytes = Bytes(5);
        assert_eq!(rates(&now.down, &before.down, 1.0).0, 0.0);
    }
}
