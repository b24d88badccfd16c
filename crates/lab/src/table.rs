//! The table people read: a row a number, a column a discipline.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::metrics::{Spread, Unit, first, rows};
use super::suite::Outcome;
use super::worker::user::user_address;

/// Common name of a discipline; `None` if its own name is the common one.
#[must_use]
pub fn plain_name(discipline: &str) -> Option<&'static str> {
    let kind = discipline.split([':', ',']).find(|part| *part != "kernel")?;
    Some(match kind {
        "fifo" | "pfifo" | "bfifo" => "drop-tail",
        "taq" => "TAQ",
        "cake" => "CAKE",
        "fq_codel" => "FQ-CoDel",
        "sfq" => "SFQ",
        _ => return None,
    })
}

/// Writes a number as the table does.
#[must_use]
pub fn write(unit: Unit, v: f64) -> String {
    match unit {
        Unit::Seconds if v < 10.0 => format!("{v:.2} s"),
        Unit::Seconds => format!("{v:.1} s"),
        Unit::Short => format!("{:.1} ms", v * 1e3),
        Unit::Share => format!("{:.1} %", v * 100.0),
        Unit::Kbps => format!("{v:.0} kbit/s"),
        Unit::Millis => format!("{v:.2} ms"),
        Unit::Count => format!("{v:.0}"),
        Unit::Ratio => format!("{v:.3}"),
    }
}

/// The number alone, for a range.
fn bare(unit: Unit, v: f64) -> String {
    let text = write(unit, v);
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn cell(unit: Unit, spread: Option<&Spread>, seeds: usize) -> String {
    let Some(s) = spread else { return "-".to_owned() };
    if seeds < 2 {
        return write(unit, s.median);
    }
    format!("{} ({}-{})", write(unit, s.median), bare(unit, s.min), bare(unit, s.max))
}

/// The whole table, then a line for each discipline that took no part or whose run was spoiled.
#[must_use]
pub fn render(outcome: &Outcome) -> String {
    let figures = Figures::of(outcome);
    text_of(outcome, &figures, figures.rows.iter().collect())
}

/// The figures that matter most, then a line for each discipline that took no part or whose run was spoiled.
#[must_use]
pub fn render_first(outcome: &Outcome) -> String {
    let figures = Figures::of(outcome);
    text_of(outcome, &figures, figures.first())
}

fn text_of(outcome: &Outcome, figures: &Figures, rows: Vec<&Figure>) -> String {
    let head = std::iter::once(String::new()).chain(figures.disciplines.iter().cloned()).collect();
    let line = |row: &Figure| std::iter::once(row.label.clone()).chain(row.cells.iter().cloned()).collect();
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(rows.into_iter().map(line)).collect();
    let mut text = align(&lines);
    remarks(outcome).iter().for_each(|line| text += &format!("{line}\n"));
    text
}

/// Content of the table: a column for each discipline that ran, a row for each figure that this workload has.
pub(crate) struct Figures {
    disciplines: Vec<String>,
    rows: Vec<Figure>,
}

/// A row of the table.
pub(crate) struct Figure {
    key: String,
    pub(crate) label: String,
    /// Cells of the row, in the order of the disciplines.
    pub(crate) cells: Vec<String>,
}

impl Figures {
    pub(crate) fn of(outcome: &Outcome) -> Self {
        let ran: Vec<_> = outcome.disciplines.iter().filter(|d| !d.runs.is_empty()).collect();
        let has = |key: &str| ran.iter().any(|d| d.summary.contains_key(key));
        let row = |(key, label, unit): (String, String, Unit)| {
            let cells = ran.iter().map(|d| cell(unit, d.summary.get(&key), d.runs.len())).collect();
            Figure { key, label, cells }
        };
        Self {
            disciplines: ran.iter().map(|d| d.discipline.clone()).collect(),
            rows: rows().filter(|(key, ..)| has(key)).map(row).collect(),
        }
    }

    pub(crate) fn disciplines(&self) -> &[String] {
        &self.disciplines
    }

    /// Figures that matter most, first the most important.
    pub(crate) fn first(&self) -> Vec<&Figure> {
        let row = |key: &str| self.rows.iter().find(|row| row.key == key);
        first(|key| row(key).is_some()).iter().filter_map(|key| row(key)).collect()
    }

    /// Figures that are not among the first, in the order of the table.
    pub(crate) fn rest(&self) -> Vec<&Figure> {
        let shown = self.first();
        self.rows.iter().filter(|row| shown.iter().all(|first| first.key != row.key)).collect()
    }
}

/// A line for each discipline that took no part, or whose run was spoiled.
pub(crate) fn remarks(outcome: &Outcome) -> Vec<String> {
    let mut remarks = Vec::new();
    for d in &outcome.disciplines {
        remarks.extend(d.skipped.iter().map(|why| format!("{}: skipped: {why}", d.discipline)));
        let spoiled = d.runs.iter().filter_map(|run| Some((run.record.seed, run.spoiled.as_ref()?)));
        remarks.extend(spoiled.map(|(seed, why)| format!("{} seed {seed}: {why}", d.discipline)));
    }
    remarks
}

/// The `n` objects or flows with the longest stalls of each discipline: where to look in a capture.
#[must_use]
pub fn worst(outcome: &Outcome, n: usize) -> String {
    let mut text = String::new();
    for d in &outcome.disciplines {
        let mut all: Vec<(f64, String)> = Vec::new();
        for run in &d.runs {
            let seed = run.record.seed;
            let at = |user: u32| user_address(user);
            all.extend(run.record.client.objects.iter().map(|o| {
                let end = if o.done.is_some() { "done" } else { "cut off" };
                let place = format!("{} B, {:.1} s to {:.1} s, {end}", o.size, o.start, o.end);
                (o.stall, format!("seed {seed}, user {} ({}): {place}", o.user, at(o.user)))
            }));
            all.extend(
                run.record
                    .client
                    .long
                    .iter()
                    .map(|l| (l.stall, format!("seed {seed}, user {} ({}): long flow", l.user, at(l.user)))),
            );
        }
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (stall, what) in all.iter().take(n) {
            let _ = writeln!(text, "{}: stalled {stall:.1} s: {what}", d.discipline);
        }
    }
    text
}

fn align(lines: &[Vec<String>]) -> String {
    let mut widths: BTreeMap<usize, usize> = BTreeMap::new();
    for line in lines {
        for (i, cell) in line.iter().enumerate() {
            let w = widths.entry(i).or_default();
            *w = (*w).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for line in lines {
        for (i, cell) in line.iter().enumerate() {
            let width = widths[&i];
            let _ = if i == 0 { write!(text, "{cell:<width$}") } else { write!(text, "  {cell:>width$}") };
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells() {
        let s = Spread { median: 0.0123, min: 0.01, max: 0.02 };
        assert_eq!(cell(Unit::Share, Some(&s), 3), "1.2 % (1.0-2.0)");
        assert_eq!(cell(Unit::Share, Some(&s), 1), "1.2 %");
        assert_eq!(cell(Unit::Share, None, 1), "-");
        assert_eq!(write(Unit::Seconds, 12.34), "12.3 s");
    }

    #[test]
    fn columns_stand_under_each_other() {
        let t = align(&[vec![String::new(), "fifo:30".into()], vec!["goodput".into(), "1".into()]]);
        assert_eq!(t, "         fifo:30\ngoodput        1\n");
    }
}
