//! Results of simulations, as a table with units.

use std::fmt::Write as _;

use narrows_runner::{Middle, Point, RunPlan, RunReport, digest, verdicts};
use narrows_scenario::{Claim, ClaimOutcome, Judgment, Reading};

/// Points that fit side by side; more stand one below the other.
const SIDE_BY_SIDE: usize = 6;
/// Figures that fit side by side.
const FIGURES: usize = 7;
/// Points shown at most.
const MOST_POINTS: usize = 60;

/// A figure worth showing unasked.
struct Figure {
    name: &'static str,
    /// Name of the figure in a row for the figure alone.
    long: &'static str,
    /// Name at the top of a column.
    short: &'static str,
    form: Form,
}

#[derive(Clone, Copy)]
enum Form {
    Number,
    Share,
    Seconds,
}

const fn figure(name: &'static str, long: &'static str, short: &'static str, form: Form) -> Figure {
    Figure { name, long, short, form }
}

/// Figures in order of interest; those without a value are left out. `SLICE` stands for the slice's length.
const SHOWN: [Figure; 30] = [
    figure("jain_SLICE", "Jain index over slices of SLICE", "Jain SLICE", Form::Number),
    figure("zero_slices", "slices in which a flow got nothing", "empty slices", Form::Share),
    figure("objects_done", "objects done", "objects", Form::Number),
    figure("object_p50_s", "object time, median", "object p50", Form::Seconds),
    figure("object_p99_s", "object time, p99", "object p99", Form::Seconds),
    figure("stall_p99_s", "longest stall in an object, p99", "stall p99", Form::Seconds),
    figure("user_stall_p99_s", "user's longest stall, p99", "stall p99", Form::Seconds),
    figure("goodput_kbps", "goodput, kbit/s", "goodput kbit/s", Form::Number),
    figure("utilisation", "utilisation of the slowest link", "utilisation", Form::Share),
    figure("loss", "lost of what arrived there", "loss", Form::Share),
    figure("timeouts_per_flow_s", "timeouts per flow and second", "timeouts /flow/s", Form::Number),
    figure("flow_stall_p50_s", "long flow's longest stall, median", "flow stall p50", Form::Seconds),
    figure("flow_stall_max_s", "long flow's longest stall, worst", "flow stall max", Form::Seconds),
    figure("retransmitted", "retransmitted of sent", "retransmitted", Form::Share),
    figure("backoff_max", "deepest back-off of the RTO, factor", "back-off", Form::Number),
    figure("wait_bulk_p99_s", "full packet's wait in the queue, p99", "wait p99", Form::Seconds),
    figure("wait_small_p99_s", "small packet's wait in the queue, p99", "small wait p99", Form::Seconds),
    figure("marked", "marked of what arrived (ECN)", "marked", Form::Share),
    figure("refused", "connections refused", "refused", Form::Number),
    figure("admission_wait_p99_s", "wait for admission, p99", "admission p99", Form::Seconds),
    figure("write_p99_s", "keystrokes' time, p99", "keystroke p99", Form::Seconds),
    figure("datagram_kbps", "datagrams received, kbit/s", "UDP kbit/s", Form::Number),
    figure("datagram_loss", "datagrams lost", "UDP loss", Form::Share),
    figure("datagram_delay_p99_s", "datagrams' delay, p99", "UDP delay p99", Form::Seconds),
    figure("calls_good", "calls that are good", "good calls", Form::Share),
    figure("call_down_loss", "calls' packets to users lost", "call loss", Form::Share),
    figure("call_down_added_p95_s", "their added delay, p95", "call delay p95", Form::Seconds),
    figure("call_down_added_max_s", "their added delay, worst", "call delay max", Form::Seconds),
    figure("call_up_loss", "calls' packets from users lost", "call loss up", Form::Share),
    figure("call_up_added_p95_s", "their added delay, p95", "call delay p95 up", Form::Seconds),
];

/// A figure to show: its name in the results, its headings, how it is written.
struct Shown {
    name: String,
    long: String,
    short: String,
    form: Form,
}

/// Figures to show of these points: those asked for, else those of general interest that have a value.
fn chosen(plan: &RunPlan, points: &[Point], asked: &[String]) -> Vec<Shown> {
    let slice = plan.jobs.first().map_or(20.0, |j| j.scenario.probes.slice.as_secs_f64());
    // Figures of objects interest only where users fetch things: a long flow's stalls tell the same.
    let objects = points.iter().any(|p| p.figures.contains_key("object_p50_s"));
    let idle = |f: &Figure| match f.name {
        "user_stall_p99_s" | "objects_done" => !objects,
        "refused" | "marked" | "loss" => {
            points.iter().all(|p| p.figures.get(f.name).is_none_or(|v| v[2] == 0.0))
        }
        _ => false,
    };
    let known = SHOWN.iter().map(|f| (idle(f), f)).map(|(idle, f)| {
        (
            idle,
            Shown {
                name: f.name.replace("SLICE", &format!("{slice}s")),
                long: f.long.replace("SLICE", &format!("{slice} s")),
                short: f.short.replace("SLICE", &format!("{slice} s")),
                form: f.form,
            },
        )
    });
    if asked.is_empty() {
        let there = |f: &Shown| points.iter().any(|p| p.figures.contains_key(&f.name));
        return known.filter(|(idle, f)| !idle && there(f)).map(|(_, f)| f).collect();
    }
    let known: Vec<Shown> = known.map(|(_, f)| f).collect();
    let form = |name: &str| {
        let of = known.iter().find(|f| f.name == name).map(|f| f.form);
        of.unwrap_or(if name.ends_with("_s") && !name.ends_with("_flow_s") {
            Form::Seconds
        } else {
            Form::Number
        })
    };
    asked
        .iter()
        .map(|name| Shown { name: name.clone(), long: name.clone(), short: name.clone(), form: form(name) })
        .collect()
}

/// Names of the figures a picture shows first.
pub fn main_figures(plan: &RunPlan, points: &[Point], asked: &[String]) -> Vec<(String, String)> {
    chosen(plan, points, asked).into_iter().map(|f| (f.name, f.long)).collect()
}

/// The table, the claims, and what was written.
pub fn render(plan: &RunPlan, report: &RunReport, asked: &[String], middle: Middle) -> String {
    let points = digest(plan, &report.summaries, middle);
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{}{}\n",
        plan.name,
        if plan.about.is_empty() { String::new() } else { format!(": {}", plan.about) }
    );
    text += &grid(&table(plan, &points, &chosen(plan, &points, asked), middle));
    if points.len() > MOST_POINTS {
        let _ = writeln!(text, "... and {} points more", points.len() - MOST_POINTS);
    }
    let seeds = plan.seeds().len();
    if seeds > 1 {
        let _ = writeln!(
            text,
            "\n{} of {seeds} seeds{}",
            middle.word(),
            match middle {
                Middle::Interval => " ±half of its 95 % interval",
                _ if points.len() <= SIDE_BY_SIDE => " [least-greatest]",
                _ => "",
            }
        );
    }
    if !plan.claims.is_empty() {
        text += "\nclaims\n";
    }
    for (claim, verdict) in plan.claims.iter().zip(&report.verdicts) {
        text += &judged(claim, verdict.as_ref().map_err(String::as_str));
    }
    text += &counted(plan, report);
    text += &written(report);
    text
}

/// Counts of a paper's sentences that hold, and apart from them of other readings and of our own claims.
fn counted(plan: &RunPlan, report: &RunReport) -> String {
    if plan.claims.iter().all(|c| c.sentence.is_empty()) {
        return String::new();
    }
    let of = |reading: Reading| {
        let claims = plan.claims.iter().zip(&report.verdicts).filter(|(c, _)| c.reading == reading);
        let outcomes: Vec<_> = claims.map(|(_, v)| v.as_ref().ok().map(|v| v.outcome)).collect();
        let many = |outcome| outcomes.iter().filter(|o| **o == outcome).count();
        let told = [
            (many(Some(ClaimOutcome::Holds)), "hold"),
            (many(Some(ClaimOutcome::Direction)), "in direction only"),
            (many(Some(ClaimOutcome::Fails)), "do not hold"),
            (many(None), "cannot be judged"),
        ];
        let told = told.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
        told.collect::<Vec<_>>().join(", ")
    };
    let lines = [
        (Reading::Paper, "sentences of the paper"),
        (Reading::Variant, "other readings, counted apart"),
        (Reading::Ours, "our own bounds, counted apart"),
    ];
    let lines = lines.map(|(reading, what)| (of(reading), what));
    let lines = lines.iter().filter(|(told, _)| !told.is_empty());
    lines.map(|(told, what)| format!("{what}: {told}\n")).collect()
}

/// Cells, a heading row first; the first column is flush left.
fn table(plan: &RunPlan, points: &[Point], figures: &[Shown], middle: Middle) -> Vec<Vec<String>> {
    // Disciplines side by side: what is compared stands together.
    let discipline = plan.axes.iter().position(|a| a.name == "discipline");
    let mut order: Vec<&Point> = points.iter().collect();
    let rank = |p: &Point| -> Vec<usize> {
        let place =
            |(axis, value): (&narrows_runner::Axis, &String)| axis.values.iter().position(|v| v == value);
        let mut ranks: Vec<usize> =
            plan.axes.iter().zip(&p.coords).map(|pair| place(pair).unwrap_or(usize::MAX)).collect();
        if let Some(at) = discipline {
            let last = ranks.remove(at);
            ranks.push(last);
        }
        ranks
    };
    order.sort_by_key(|p| rank(p));
    let mut axes: Vec<usize> = (0..plan.axes.len()).collect();
    if let Some(at) = discipline {
        axes.remove(at);
        axes.push(at);
    }
    let aside = order.len() <= SIDE_BY_SIDE;
    let figures = if aside { figures } else { &figures[..figures.len().min(FIGURES)] };
    let name = |axis: &usize| plan.axes[*axis].name.clone();
    let head = |f: &Shown| if aside { f.long.clone() } else { f.short.clone() };
    let mut rows = vec![axes.iter().map(name).chain(figures.iter().map(head)).collect::<Vec<_>>()];
    for point in order.into_iter().take(MOST_POINTS) {
        let coords = axes.iter().map(|axis| point.coords[*axis].clone());
        let values = figures.iter().map(|f| {
            let form = |v: f64| written_as(v, f.form);
            let bare = |v: f64| form(v).split(' ').next().unwrap_or_default().to_owned();
            match point.figures.get(&f.name) {
                None => "-".to_owned(),
                Some([_, mean, high]) if middle == Middle::Interval && point.seeds > 1 => {
                    format!("{} ±{}", form(*mean), bare(*high - *mean))
                }
                Some([low, median, high]) if aside && point.seeds > 1 && form(*low) != form(*high) => {
                    format!("{} [{}-{}]", form(*median), bare(*low), bare(*high))
                }
                Some([_, median, _]) => form(*median),
            }
        });
        rows.push(coords.chain(values).collect());
    }
    if !aside {
        return rows;
    }
    // On its side: a row a figure, a column a point.
    (0..rows[0].len()).map(|column| rows.iter().map(|row| row[column].clone()).collect()).collect()
}

pub fn grid(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |c: usize| rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let room = " ".repeat(width - cell.chars().count());
            line += &if at == 0 { format!("{cell}{room}") } else { format!("  {room}{cell}") };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// A number short enough to compare.
fn written_as(value: f64, form: Form) -> String {
    match form {
        Form::Share => format!("{} %", significant(value * 100.0)),
        Form::Seconds => format!("{} s", significant(value)),
        Form::Number => significant(value),
    }
}

/// Three digits that count, and all digits before the point.
pub fn significant(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || !value.is_finite() {
        return if value.is_finite() { "0".into() } else { "-".into() };
    }
    if size < 1e-4 {
        return format!("{value:.1e}");
    }
    let before = size.log10().floor() as i32 + 1;
    let text = format!("{value:.*}", usize::try_from(3 - before).unwrap_or(0));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Claim in words, and the verdict on the claim.
fn judged(claim: &Claim, verdict: Result<&Judgment, &str>) -> String {
    let other = if claim.reading == Reading::Variant { "; another reading" } else { "" };
    let source = if claim.source.is_empty() { String::new() } else { format!(" ({}{other})", claim.source) };
    let verdict = match verdict {
        Ok(v) => v,
        Err(why) => return format!("  cannot be judged  {}{source}\n      {why}\n", claim.text),
    };
    let word = match verdict.outcome {
        ClaimOutcome::Holds => "holds            ",
        ClaimOutcome::Direction => "direction only   ",
        ClaimOutcome::Fails => "does not hold    ",
    };
    let place = verdicts::place(&verdict.worst.0);
    let place = if place.is_empty() { String::new() } else { format!(" at {place}") };
    let mut text = format!(
        "  {word} {}{source}\n      {} = {}{place}, bound {}\n",
        claim.text,
        if verdict.elements.len() > 1 { "worst" } else { "value" },
        significant(verdict.worst.1),
        claim.bound
    );
    if claim.expect != ClaimOutcome::Holds {
        let _ = writeln!(text, "      expected: {}: {}", verdicts::word(claim.expect), claim.reason);
    }
    text
}

/// Names the files that were written, and counts the runs found finished.
fn written(report: &RunReport) -> String {
    let mut text = String::from("\n");
    if report.found > 0 {
        let _ = writeln!(
            text,
            "{} runs were done before and are not repeated (--fresh repeats them)",
            report.found
        );
    }
    for (name, file) in report.manifest.files.iter().filter(|(name, _)| name.ends_with(".parquet")) {
        let table = name.trim_end_matches(".parquet");
        if !report.manifest.files.contains_key(&format!("{table}.csv")) {
            let _ = writeln!(text, "{name}: {} rows, too many for a CSV beside it", file.rows);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_by_hand() {
        let words: Vec<String> =
            [0.98765, 12.34, 598.4, 12_345.6, 0.0123, 2e-6, 0.0, 3.0].into_iter().map(significant).collect();
        assert_eq!(words, ["0.988", "12.3", "598", "12346", "0.0123", "2.0e-6", "0", "3"]);
        assert_eq!(written_as(0.0213, Form::Share), "2.13 %");
    }

    #[test]
    fn columns_align() {
        let cells = |row: [&str; 2]| row.map(str::to_owned).to_vec();
        assert_eq!(grid(&[cells(["a", "bc"]), cells(["def", "g"])]), "a    bc\ndef   g\n");
    }
}
