//! Claims: a sentence about the results, its source, and the expression and bound by which it is judged.
//!
//! A metric's name is a vector: one value for each point of the sweep, labelled by the point's coordinates, the median
//! over the seeds. Filters keep some points; a label that is filtered by `=` is gone afterwards, so that
//! `jain_20s{discipline=taq} - jain_20s{discipline=fifo*}` compares the points that are left one by one. The grammar
//! stands in `expr.rs`, the models in `model.rs`, the whole language in `docs/reference/scenarios.md`.

mod evaluate;

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use evaluate::{Value, evaluate};

use crate::Error;
use crate::expr::{self, Comparison, Expr, told};
use crate::model;
use crate::quantity;
use crate::read::Reader;

/// A claim about the results: its sentence, source, expression and bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The sentence that states the claim.
    pub text: String,
    /// Source of the sentence, as `TAQ, Fig. 8`; empty if the sentence is our own.
    pub source: String,
    /// Sentence of the source that the claim judges, as `4.2: light load`; empty if none.
    pub sentence: String,
    /// Whether the claim is the verdict on the sentence of the source.
    pub reading: Reading,
    /// Value given by the source, as `0.384 s`; empty if the source gives no number.
    pub paper: String,
    /// The expression whose value the claim bounds.
    pub formula: Formula,
    /// Bound that every element of the expression's value must meet.
    pub bound: Bound,
    /// The reason for the bound's tolerance.
    pub why: String,
    /// Outcome that we expect.
    pub expect: ClaimOutcome,
    /// Weaker bound, met if only the direction is right; `None` if there is no such grade.
    pub direction: Option<Bound>,
    /// Why less than "holds" is expected.
    pub reason: String,
    path: String,
}

/// Bound on a value. NaN meets none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// The value is at least the number given.
    AtLeast(f64),
    /// The value is more than the number given.
    More(f64),
    /// The value is at most the number given.
    AtMost(f64),
    /// The value is less than the number given.
    Less(f64),
    /// The value lies between the two, both included.
    Within(f64, f64),
}

/// Outcome of a claim, from worst to best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimOutcome {
    /// Neither the bound nor the direction holds.
    Fails,
    /// The direction holds, the bound does not.
    Direction,
    /// The bound holds.
    Holds,
}

/// Standing of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reading {
    /// A sentence of the paper, read as faithfully as the sentence allows.
    Paper,
    /// A sentence of the paper under another reading, or under other settings: sensitivity.
    Variant,
    /// A bound of our own, or our own algorithm judged by the paper's words.
    Ours,
}

/// The figures of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Coordinates, as in [`crate::Run::coords`].
    pub coords: BTreeMap<String, String>,
    /// Seed, as in [`crate::Run::seed`].
    pub seed: u64,
    /// Figures by name; NaN where there is none.
    pub metrics: BTreeMap<String, f64>,
}

/// The coordinates that are left of a point.
pub type Labels = BTreeMap<String, String>;

/// Judgment of a claim on the results.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgment {
    /// Outcome of the claim.
    pub outcome: ClaimOutcome,
    /// Whether the outcome is the one the file expects.
    pub as_expected: bool,
    /// The element farthest from the bound, or nearest to breaking it, and its labels.
    pub worst: (Labels, f64),
    /// Value and labels of each element.
    pub elements: Vec<(Labels, f64)>,
}

impl Bound {
    /// Whether `x` meets the bound; NaN never does.
    #[must_use]
    pub fn holds(self, x: f64) -> bool {
        match self {
            Self::AtLeast(b) => x >= b,
            Self::More(b) => x > b,
            Self::AtMost(b) => x <= b,
            Self::Less(b) => x < b,
            Self::Within(a, b) => (a..=b).contains(&x),
        }
    }

    /// Distance from `x` to the bound; negative where the bound is broken.
    fn room(self, x: f64) -> f64 {
        match self {
            _ if x.is_nan() => f64::NEG_INFINITY,
            Self::AtLeast(b) | Self::More(b) => x - b,
            Self::AtMost(b) | Self::Less(b) => b - x,
            Self::Within(a, b) => (x - a).min(b - x),
        }
    }

    /// `>= 0.98`, `< 3`, `0.9..1.1`; quantities as `<= 200ms` in their base unit.
    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some((low, high)) = text.split_once("..") {
            let (low, high) = (signed(low)?, signed(high)?);
            return (low <= high).then_some(Self::Within(low, high));
        }
        let (comparison, len) = Comparison::read(text)?;
        let value = signed(&text[len..])?;
        match comparison {
            Comparison::AtLeast => Some(Self::AtLeast(value)),
            Comparison::More => Some(Self::More(value)),
            Comparison::AtMost => Some(Self::AtMost(value)),
            Comparison::Less => Some(Self::Less(value)),
            Comparison::Equal => Some(Self::Within(value, value)),
            Comparison::NotEqual => None,
        }
    }
}

fn signed(text: &str) -> Option<f64> {
    match text.trim().strip_prefix('-') {
        Some(rest) => quantity::number(rest).map(|x| -x),
        None => quantity::number(text),
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(b) => write!(f, ">= {b}"),
            Self::More(b) => write!(f, "> {b}"),
            Self::AtMost(b) => write!(f, "<= {b}"),
            Self::Less(b) => write!(f, "< {b}"),
            Self::Within(a, b) => write!(f, "{a}..{b}"),
        }
    }
}

const OUTCOMES: [(&str, ClaimOutcome); 3] =
    [("holds", ClaimOutcome::Holds), ("direction", ClaimOutcome::Direction), ("fails", ClaimOutcome::Fails)];

/// Words for the readings in files and reports.
const READINGS: [(&str, Reading); 3] =
    [("paper", Reading::Paper), ("variant", Reading::Variant), ("ours", Reading::Ours)];

impl Reading {
    /// Readings in the order of reports.
    pub const ALL: [Self; 3] = [Self::Paper, Self::Variant, Self::Ours];

    /// Word for the reading in files and reports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        READINGS[self as usize].0
    }
}

impl Claim {
    /// The claims of a file.
    pub(crate) fn read(tables: Vec<Reader<'_>>) -> Result<Vec<Self>, Error> {
        tables.into_iter().map(Self::one).collect()
    }

    fn one(r: Reader<'_>) -> Result<Self, Error> {
        let expected = "a bound, as \">= 0.98\", \"< 3\" or \"0.9..1.1\"";
        let bound =
            |r: &Reader<'_>, key| r.parsed(key, expected, |t| Bound::read(t).ok_or(expected.to_owned()));
        let must = |key, expected| r.must(key, expected, |r, k| r.text(k)).map(str::to_owned);
        let text = must("text", "the sentence that is claimed")?;
        let expr = must("expr", "an expression over metrics, as \"min(jain_20s{discipline=taq})\"")?;
        let formula = Formula::parse(&expr).map_err(|e| Error::new(r.path("expr"), e))?;
        let source = r.or("source", "", |r, k| r.text(k))?.to_owned();
        let own = source.is_empty() || source.split([' ', ';']).next() == Some("own");
        let claim = Self {
            text,
            sentence: r.or("sentence", "", |r, k| r.text(k))?.to_owned(),
            reading: r.or("reading", if own { Reading::Ours } else { Reading::Paper }, |r, k| {
                r.word(k, &READINGS)
            })?,
            source,
            paper: r.or("paper", "", |r, k| r.text(k))?.to_owned(),
            bound: r.must("bound", expected, bound)?,
            why: must("why", "the reason for the bound's tolerance")?,
            expect: r.or("expect", ClaimOutcome::Holds, |r, k| r.word(k, &OUTCOMES))?,
            direction: bound(&r, "direction")?,
            reason: r.or("reason", "", |r, k| r.text(k))?.to_owned(),
            path: r.path("expr"),
            formula,
        };
        if claim.expect == ClaimOutcome::Direction && claim.direction.is_none() {
            return Err(
                r.wrong("direction", "the bound of the direction, as \"> 0\", where only that is expected")
            );
        }
        if claim.expect != ClaimOutcome::Holds && claim.reason.is_empty() {
            return Err(r.wrong("reason", "why less than the claim is expected to hold"));
        }
        if claim.reading == Reading::Variant && claim.sentence.is_empty() {
            return Err(
                r.wrong("sentence", "the sentence of which this is another reading, as \"4.2: light load\"")
            );
        }
        r.finish()?;
        Ok(claim)
    }

    /// Judges the claim by the figures of all runs.
    ///
    /// # Errors
    /// Names the claim's expression and the place in it: a metric that does not exist, points that do not match.
    pub fn judge(&self, samples: &[Sample]) -> Result<Judgment, Error> {
        let elements = self.formula.values(samples).map_err(|e| Error::new(self.path.clone(), e))?;
        let worst = elements.iter().min_by(|a, b| self.bound.room(a.1).total_cmp(&self.bound.room(b.1)));
        let Some(worst) = worst.cloned() else {
            return Err(Error::new(
                self.path.clone(),
                format!("'{}' has no element: expected results", self.formula.text()),
            ));
        };
        let all = |bound: Bound| elements.iter().all(|(_, x)| bound.holds(*x));
        let outcome = if all(self.bound) {
            ClaimOutcome::Holds
        } else if self.direction.is_some_and(all) {
            ClaimOutcome::Direction
        } else {
            ClaimOutcome::Fails
        };
        Ok(Judgment { outcome, as_expected: outcome == self.expect, worst, elements })
    }
}

/// An expression over the figures of many runs, in the language of claims: what a chart draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    text: String,
    parsed: Expr,
}

impl Formula {
    /// Reads a formula.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parsed = Expr::parse(text)?;
        known_functions(&parsed, text)?;
        Ok(Self { text: text.to_owned(), parsed })
    }

    /// Text of the formula, as given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The figures and swept settings that the formula names, each once.
    #[must_use]
    pub fn metrics(&self) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        named(&self.parsed, &mut found);
        found
    }

    /// Value of the formula at each point, with the labels that are left; a single one without labels if it comes to a
    /// number.
    ///
    /// # Errors
    /// Names the place in it: a metric that does not exist, points that do not match.
    pub fn values(&self, samples: &[Sample]) -> Result<Vec<(Labels, f64)>, String> {
        Ok(match evaluate(&self.parsed, &self.text, samples)? {
            Value::Number(x) => vec![(Labels::new(), x)],
            Value::Vector(v) => v.into_iter().collect(),
        })
    }
}

fn named<'a>(e: &'a Expr, found: &mut BTreeSet<&'a str>) {
    match e {
        Expr::Number(_) => {}
        Expr::Name(name) => {
            found.insert(&name.name);
        }
        Expr::Negative(inside) => named(inside, found),
        Expr::Binary { left, right, .. } => {
            named(left, found);
            named(right, found);
        }
        Expr::Call { arguments, .. } => arguments.iter().for_each(|a| named(a, found)),
    }
}

/// Functions are known before anything runs; metrics are not.
fn known_functions(e: &Expr, text: &str) -> Result<(), String> {
    match e {
        Expr::Number(_) | Expr::Name(_) => Ok(()),
        Expr::Negative(inside) => known_functions(inside, text),
        Expr::Binary { left, right, .. } => {
            known_functions(left, text)?;
            known_functions(right, text)
        }
        Expr::Call { function, arguments, at } => {
            let known = expr::of_one(function).is_some() || expr::of_many(function).is_some();
            match model::of(function) {
                Some(model) if model.takes.len() != arguments.len() => {
                    let problem = format!("expected {function}({})", model.takes.join(", "));
                    return Err(told(text, *at, &problem));
                }
                None if !known => return Err(told(text, *at, &expr::unknown_function(function))),
                _ => {}
            }
            arguments.iter().try_for_each(|a| known_functions(a, text))
        }
    }
}

#[cfg(test)]
mod tests;
