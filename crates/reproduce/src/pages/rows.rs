//! How the claims of papers and figures fared, and the rows of the lists of experiments that they judge.

use core::ops::Add;

use narrows_scenario::Reading;

use super::Made;
use crate::catalogue::{Elsewhere, Figure, Paper};
use crate::judged::Judged;
use crate::section::{Effort, Section};

/// How the claims of a paper, or of a figure, fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Claims that hold.
    pub holds: usize,
    /// Claims of which only the direction holds.
    pub direction: usize,
    /// Claims that do not hold.
    pub fails: usize,
    /// Claims that could not be judged.
    pub open: usize,
}

impl Add for Score {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            holds: self.holds + other.holds,
            direction: self.direction + other.direction,
            fails: self.fails + other.fails,
            open: self.open + other.open,
        }
    }
}

impl Score {
    /// Counts the verdicts on `claims`.
    pub fn of<'a>(claims: impl Iterator<Item = &'a Judged>) -> Self {
        let mut score = Self::default();
        for claim in claims {
            match claim.outcome.as_str() {
                "holds" => score.holds += 1,
                "direction" => score.direction += 1,
                "fails" => score.fails += 1,
                _ => score.open += 1,
            }
        }
        score
    }

    /// Counts the verdicts on the claims of `claims` with the reading given.
    pub fn of_reading<'a>(claims: impl IntoIterator<Item = &'a Judged>, reading: Reading) -> Self {
        Self::of(claims.into_iter().filter(|c| c.reading == reading.word()))
    }

    /// Counts the verdicts on a paper's claims with the reading given.
    pub(crate) fn of_paper(sections: &[Made<'_>], reading: Reading) -> Self {
        Self::of_reading(sections.iter().flat_map(|(_, s)| &s.claims), reading)
    }

    /// Writes the counts in words.
    #[must_use]
    pub fn words(self) -> String {
        let of = |n: usize, what: &str| (n > 0).then(|| format!("{n} {what}"));
        let parts = [
            of(self.holds, if self.holds == 1 { "holds" } else { "hold" }),
            of(self.direction, "in direction only"),
            of(self.fails, if self.fails == 1 { "does not hold" } else { "do not hold" }),
            of(self.open, "not judged"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "no claim yet".to_owned() } else { parts.join(", ") }
    }
}

/// How many of a paper's sections are less than the whole figure of today, if any.
pub(crate) fn less(sections: &[Made<'_>]) -> Option<String> {
    let many = |which: fn(&Section) -> bool| sections.iter().filter(|(_, s)| which(s)).count();
    let cut = many(|s| s.size != Effort::Full && !s.stale);
    let stale = many(|s| s.stale);
    let told = [(cut, "cut down"), (stale, "of an earlier program or file")];
    let told: Vec<String> =
        told.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// `11 of 12`; rows that something else than these figures judges are told apart, as `11 of 12 (1 elsewhere)`.
pub(crate) fn rows_judged(rows: &[Row<'_>]) -> String {
    let elsewhere = rows.iter().filter(|r| r.judged_elsewhere()).count();
    let all = rows.iter().filter(|r| r.judged()).count();
    let told = format!("{all} of {}", rows.len());
    if elsewhere > 0 { format!("{told} ({elsewhere} elsewhere)") } else { told }
}

/// A row of the list of experiments and the row's verdicts.
pub(crate) struct Row<'a> {
    pub(super) name: &'a str,
    /// Whether the row must hold to the last digit.
    pub(super) exact: bool,
    /// Figure in which the row is run; `None` if the row is not run.
    pub(super) figure: Option<&'a Figure>,
    /// Text of the row, where the figure's title already stands with another row; `None` where the title tells it.
    pub(super) title: Option<&'a str>,
    pub(super) score: Score,
    pub(super) elsewhere: Option<&'a Elsewhere>,
}

impl Row<'_> {
    /// Whether the row has a verdict.
    pub(crate) fn judged(&self) -> bool {
        self.score.holds + self.score.direction + self.score.fails > 0 || self.judged_elsewhere()
    }

    /// Tells whether the verdict is not of these figures but of what the list names.
    fn judged_elsewhere(&self) -> bool {
        self.elsewhere.is_some_and(|e| !e.verdict.is_empty())
    }
}

/// The rows of a paper by their names, those that no figure here simulates among them.
pub(crate) fn rows_of<'a>(paper: &'a Paper, sections: &'a [Made<'_>]) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = Vec::new();
    let claims = || sections.iter().flat_map(|(_, s)| &s.claims);
    for (figure, name) in paper.figures.iter().flat_map(|f| f.rows.iter().map(move |r| (f, r))) {
        // A row that several figures judge stands with the first of them.
        if rows.iter().any(|r| r.name == name) {
            continue;
        }
        let title_is_taken = rows.iter().any(|r| r.figure.is_some_and(|f| f.id == figure.id));
        rows.push(Row {
            name,
            exact: figure.exact.contains(name),
            figure: Some(figure),
            title: title_is_taken.then(|| first_sentence(claims(), name)).flatten(),
            score: Score::of_reading(claims().filter(|c| c.rows.contains(name)), Reading::Paper),
            elsewhere: None,
        });
    }
    let other = |e: &'a Elsewhere| {
        let row = |name: &'a String| Row {
            name,
            exact: e.exact,
            figure: None,
            title: None,
            score: Score::default(),
            elsewhere: Some(e),
        };
        e.rows.iter().map(row)
    };
    rows.extend(paper.elsewhere.iter().flat_map(other));
    rows.sort_by(|a, b| in_order(a.name).cmp(&in_order(b.name)));
    rows
}

/// The first claim of a row, one that is its alone before one that it shares.
fn first_sentence<'a>(claims: impl Iterator<Item = &'a Judged>, row: &str) -> Option<&'a str> {
    let its: Vec<&Judged> = claims.filter(|c| c.rows.iter().any(|name| name == row)).collect();
    let alone = its.iter().find(|c| c.rows.len() == 1);
    alone.or(its.first()).map(|c| c.text.as_str())
}

/// Splits a row's name into the keys of its order: letters, then the number behind them as a number, then the rest.
fn in_order(name: &str) -> (&str, Option<u32>, &str) {
    let (letters, rest) = name.split_at(name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len()));
    let (number, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
    (letters, number.parse().ok(), rest)
}

#[cfg(test)]
mod tests {
    use super::in_order;

    #[test]
    fn rows_stand_by_their_numbers() {
        let mut names = ["T10", "T2b", "C-T", "T9", "C1b", "T2", "T11", "C1a"];
        names.sort_by_key(|name| in_order(name));
        assert_eq!(names, ["C1a", "C1b", "C-T", "T2", "T2b", "T9", "T10", "T11"]);
    }
}
