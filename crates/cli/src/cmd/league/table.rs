//! Results of a league: as plain text, as Markdown and as CSV.

use std::fmt::Write as _;

use narrows_runner::league::{Entry, MEASURES, Standings};

use crate::cmd::sim::table::{grid, significant};

/// Entries told of one discipline that was not the best.
const TOLD: usize = 15;
/// Least factor behind the best at which an entry is told.
const WORTH: f64 = 1.1;

/// All tables of a league as text.
pub fn text(standings: &Standings) -> String {
    let mut text = String::from(
        "how many times worse than the best: geometric mean over all points, (times first/points)\n\n",
    );
    text += &grid(&overall(standings));
    text += "\nwho is best in each scenario, and by how much the next is worse\n\n";
    text += &grid(&winners(standings));
    for (name, place) in standings.disciplines.iter().zip(0..).filter(|(name, _)| *name == "taq") {
        let rows = behind(standings, place);
        if rows.len() > 1 {
            let _ = writeln!(text, "\nwhere {name} is not the best, the worst first\n");
            text += &grid(&rows);
        }
    }
    text
}

/// Results as Markdown tables, for a page.
pub fn markdown(standings: &Standings) -> String {
    let mut text = table(&overall(standings));
    text.push('\n');
    text += &table(&winners(standings));
    if let Some(taq) = standings.disciplines.iter().position(|d| d == "taq") {
        text.push('\n');
        text += &table(&behind(standings, taq));
    }
    text
}

/// A row for each figure of each discipline at each point.
pub fn csv(standings: &Standings) -> String {
    let mut text = String::from("measure,figure,scenario,point,discipline,value,factor\n");
    for e in &standings.entries {
        for (d, (value, factor)) in standings.disciplines.iter().zip(e.values.iter().zip(&e.factors)) {
            let value = value.map_or_else(String::new, |v| v.to_string());
            let cells = [MEASURES[e.measure].name, e.figure, &e.scenario, &e.point, d].map(quoted);
            let _ = writeln!(text, "{},{value},{factor}", cells.join(","));
        }
    }
    text
}

/// RFC 4180, section 2.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// A row a discipline, best first; a column a measure.
fn overall(standings: &Standings) -> Vec<Vec<String>> {
    let head = [""].into_iter().chain(MEASURES.iter().map(|m| m.name)).map(str::to_owned).collect();
    let row = |d: usize| {
        let cell = |m: usize| {
            standings
                .place(d, |e| e.measure == m)
                .map_or_else(|| "-".to_owned(), |p| format!("{:.2} ({}/{})", p.factor, p.firsts, p.of))
        };
        [standings.disciplines[d].clone()].into_iter().chain((0..MEASURES.len()).map(cell)).collect()
    };
    [head].into_iter().chain(standings.ranking().into_iter().map(row)).collect()
}

/// A row a scenario, a column a measure: the best, and how many times worse the second is.
fn winners(standings: &Standings) -> Vec<Vec<String>> {
    let head = ["scenario"].into_iter().chain(MEASURES.iter().map(|m| m.name)).map(str::to_owned).collect();
    let mut rows: Vec<Vec<String>> = vec![head];
    for scenario in standings.scenarios() {
        let cell = |m: usize| {
            let which = |e: &Entry| e.measure == m && e.scenario == scenario;
            let mut places: Vec<(usize, f64)> = (0..standings.disciplines.len())
                .filter_map(|d| Some((d, standings.place(d, which)?.factor)))
                .collect();
            places.sort_by(|a, b| a.1.total_cmp(&b.1));
            match places[..] {
                [(best, a), (next, b), ..] if b / a < 1.005 => {
                    format!("{} = {}", standings.disciplines[best], standings.disciplines[next])
                }
                [(best, a), (next, b), ..] => {
                    format!("{}, {} {:.2}", standings.disciplines[best], standings.disciplines[next], b / a)
                }
                _ => "-".to_owned(),
            }
        };
        rows.push([scenario.to_owned()].into_iter().chain((0..MEASURES.len()).map(cell)).collect());
    }
    rows
}

/// Figures in which one discipline is behind the best.
fn behind(standings: &Standings, discipline: usize) -> Vec<Vec<String>> {
    let mut found: Vec<&Entry> =
        standings.entries.iter().filter(|e| e.factors[discipline] >= WORTH).collect();
    found.sort_by(|a, b| b.factors[discipline].total_cmp(&a.factors[discipline]));
    let head = ["times worse", "figure", "scenario", "at", "has", "best", "who"].map(str::to_owned).to_vec();
    let row = |e: &&Entry| {
        let best = (0..e.factors.len()).min_by(|a, b| e.factors[*a].total_cmp(&e.factors[*b])).unwrap_or(0);
        let value = |d: usize| e.values[d].map_or_else(|| "-".to_owned(), significant);
        vec![
            format!("{:.2}", e.factors[discipline]),
            e.figure.to_owned(),
            e.scenario.clone(),
            if e.point.is_empty() { "-".to_owned() } else { e.point.clone() },
            value(discipline),
            value(best),
            standings.disciplines[best].clone(),
        ]
    };
    [head].into_iter().chain(found.iter().take(TOLD).map(row)).collect()
}

fn table(rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let Some(head) = rows.first() else { return String::new() };
    let rule = format!("|{}\n", "---|".repeat(head.len()));
    [line(head), rule].into_iter().chain(rows[1..].iter().map(|r| line(r))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standings() -> Standings {
        let mut s = Standings::new(vec!["fifo".into(), "taq".into()]);
        for (scenario, values, factors) in
            [("long", [4.0, 2.0], vec![2.0, 1.0]), ("a, b", [1.0, 3.0], vec![1.0, 3.0])]
        {
            s.entries.push(Entry {
                measure: 0,
                figure: "stall_p99_s",
                scenario: scenario.into(),
                point: "rate=1mbit".into(),
                values: values.map(Some).to_vec(),
                factors,
            });
        }
        s
    }

    #[test]
    fn tables_by_hand() {
        let s = standings();
        let all = overall(&s);
        // sqrt(2 * 1) and sqrt(1 * 3).
        assert_eq!((all[1][0].as_str(), all[1][1].as_str()), ("fifo", "1.41 (1/2)"));
        assert_eq!((all[2][0].as_str(), all[2][1].as_str(), all[2][2].as_str()), ("taq", "1.73 (1/2)", "-"));
        assert_eq!(winners(&s)[1][1], "taq, fifo 2.00");
        assert_eq!(behind(&s, 1)[1], ["3.00", "stall_p99_s", "a, b", "rate=1mbit", "3", "1", "fifo"]);
        assert!(csv(&s).contains("stall,stall_p99_s,\"a, b\",rate=1mbit,taq,3,3\n"), "{}", csv(&s));
        assert!(text(&s).contains("where taq is not the best"));
        assert!(markdown(&s).starts_with("|  | stall |"), "{}", markdown(&s));
    }
}
