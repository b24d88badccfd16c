//! Claims: a sentence about the results, its source, and the expression and bound by which it is judged.
//!
//! A metric's name is a vector: one value for each point of the sweep, labelled by the point's coordinates, the median
//! over the seeds. Filters keep some points; a label that is filtered by `=` is gone afterwards, so that
//! `jain_20s{discipline=taq} - jain_20s{discipline=fifo*}` compares the points that are left one by one. The grammar
//! stands in `expr.rs`, the models in `model.rs`, the whole language in `docs/reference/scenarios.md`.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use crate::Error;
use crate::error::nearest;
use crate::expr::{self, Comparison, Expr, Filter, Name, Over, told};
use crate::model::{self, Model};
use crate::quantity;
use crate::read::Reader;

/// What is claimed.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The sentence.
    pub text: String,
    /// Where it is from, as `TAQ, Fig. 8`; empty if it is our own.
    pub source: String,
    /// What the source has there, as `0.384 s`; empty if it gives no number.
    pub paper: String,
    /// The expression.
    pub formula: Formula,
    /// What every element of its value must fulfil.
    pub bound: Bound,
    /// The reason for the bound's tolerance.
    pub why: String,
    /// What we expect to come out.
    pub expect: Outcome,
    /// What still holds where the bound does not but the direction is right.
    pub direction: Option<Bound>,
    /// Why less than "holds" is expected.
    pub reason: String,
    path: String,
}

/// What a value must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// At least this.
    AtLeast(f64),
    /// More than this.
    More(f64),
    /// At most this.
    AtMost(f64),
    /// Less than this.
    Less(f64),
    /// From the first to the second, both included.
    Within(f64, f64),
}

/// What came out, from worst to best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Neither the bound nor the direction.
    Fails,
    /// The direction only.
    Direction,
    /// The bound.
    Holds,
}

/// The figures of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// As in [`crate::Run::coords`].
    pub coords: BTreeMap<String, String>,
    /// As in [`crate::Run::seed`].
    pub seed: u64,
    /// Figures by name; NaN where there is none.
    pub metrics: BTreeMap<String, f64>,
}

/// The coordinates that are left of a point.
pub type Labels = BTreeMap<String, String>;

/// How a claim fared.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What came out.
    pub outcome: Outcome,
    /// Whether that is what the file expects.
    pub as_expected: bool,
    /// The element farthest from the bound, or nearest to breaking it, and its labels.
    pub worst: (Labels, f64),
    /// All elements.
    pub elements: Vec<(Labels, f64)>,
}

impl Bound {
    /// Whether `x` fulfils it; NaN never does.
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

    /// How much room is left; negative where it is broken.
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

const OUTCOMES: [(&str, Outcome); 3] =
    [("holds", Outcome::Holds), ("direction", Outcome::Direction), ("fails", Outcome::Fails)];

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
        let claim = Self {
            text,
            source: r.or("source", "", |r, k| r.text(k))?.to_owned(),
            paper: r.or("paper", "", |r, k| r.text(k))?.to_owned(),
            bound: r.must("bound", expected, bound)?,
            why: must("why", "the reason for the bound's tolerance")?,
            expect: r.or("expect", Outcome::Holds, |r, k| r.word(k, &OUTCOMES))?,
            direction: bound(&r, "direction")?,
            reason: r.or("reason", "", |r, k| r.text(k))?.to_owned(),
            path: r.path("expr"),
            formula,
        };
        if claim.expect == Outcome::Direction && claim.direction.is_none() {
            return Err(
                r.wrong("direction", "the bound of the direction, as \"> 0\", where only that is expected")
            );
        }
        if claim.expect != Outcome::Holds && claim.reason.is_empty() {
            return Err(r.wrong("reason", "why less than the claim is expected to hold"));
        }
        r.finish()?;
        Ok(claim)
    }

    /// Judges the claim by the figures of all runs.
    ///
    /// # Errors
    /// Names the claim's expression and the place in it: a metric that does not exist, points that do not match.
    pub fn judge(&self, samples: &[Sample]) -> Result<Verdict, Error> {
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
            Outcome::Holds
        } else if self.direction.is_some_and(all) {
            Outcome::Direction
        } else {
            Outcome::Fails
        };
        Ok(Verdict { outcome, as_expected: outcome == self.expect, worst, elements })
    }
}

/// An expression over the figures of many runs, in the language of claims: what a chart draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    text: String,
    parsed: Expr,
}

impl Formula {
    /// Reads it.
    ///
    /// # Errors
    /// Shows the place that is not understood.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parsed = Expr::parse(text)?;
        known_functions(&parsed, text)?;
        Ok(Self { text: text.to_owned(), parsed })
    }

    /// As it was given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The figures and swept settings that it names, each once.
    #[must_use]
    pub fn metrics(&self) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        named(&self.parsed, &mut found);
        found
    }

    /// Its value at each point, with the labels that are left; a single one without labels if it comes to a number.
    ///
    /// # Errors
    /// Names the place in it: a metric that does not exist, points that do not match.
    pub fn values(&self, samples: &[Sample]) -> Result<Vec<(Labels, f64)>, String> {
        Ok(match (Evaluator { text: &self.text, samples }).value(&self.parsed)? {
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

/// A number, or one for each point.
#[derive(Clone, Debug)]
enum Value {
    Number(f64),
    Vector(BTreeMap<Labels, f64>),
}

struct Evaluator<'a> {
    text: &'a str,
    samples: &'a [Sample],
}

impl Evaluator<'_> {
    fn value(&self, e: &Expr) -> Result<Value, String> {
        match e {
            Expr::Number(n) => Ok(Value::Number(*n)),
            Expr::Negative(inside) => Ok(map(self.value(inside)?, |x| -x)),
            Expr::Binary { operator, left, right, at } => {
                self.matched(self.value(left)?, self.value(right)?, *at, operator.sign(), &|a, b| {
                    operator.apply(a, b)
                })
            }
            Expr::Name(name) => self.metric(name).map_err(|e| told(self.text, name.at, &e)),
            Expr::Call { function, arguments, at } => self.call(function, arguments, *at),
        }
    }

    /// One argument is folded to a number; several are taken side by side.
    fn call(&self, function: &str, arguments: &[Expr], at: usize) -> Result<Value, String> {
        let mut values = arguments.iter().map(|a| self.value(a)).collect::<Result<Vec<_>, _>>()?;
        if let Some(model) = model::of(function) {
            return self.modelled(model, &values, at);
        }
        if let Some(f) = expr::of_one(function) {
            return match (values.pop(), values.is_empty()) {
                (Some(x), true) => Ok(map(x, f)),
                _ => Err(told(self.text, at, &format!("{function} takes one argument"))),
            };
        }
        let f =
            expr::of_many(function).ok_or_else(|| told(self.text, at, &expr::unknown_function(function)))?;
        if let [Value::Vector(v)] = values.as_slice() {
            return Ok(Value::Number(f(&v.values().copied().collect::<Vec<_>>())));
        }
        if !matches!(function, "min" | "max" | "sum") && values.len() > 1 {
            return Err(told(self.text, at, &format!("{function} takes one argument")));
        }
        let pairwise = |a: f64, b: f64| f(&[a, b]);
        let mut values = values.into_iter();
        // The grammar knows no call without an argument.
        let first = values.next().unwrap_or(Value::Number(f64::NAN));
        if values.len() == 0 && function == "count" {
            return Ok(Value::Number(1.0));
        }
        values.try_fold(first, |left, right| self.matched(left, right, at, function, &pairwise))
    }

    /// A model at each point of the argument with most labels; the others fit all points that have theirs.
    fn modelled(&self, model: &Model, arguments: &[Value], at: usize) -> Result<Value, String> {
        let vector = |v: &Value| if let Value::Vector(v) = v { Some(keys(v)) } else { None };
        let shared: Vec<Option<BTreeSet<String>>> = arguments.iter().map(vector).collect();
        let leader = (0..arguments.len()).max_by_key(|i| shared[*i].as_ref().map_or(0, |k| k.len() + 1));
        let of = |labels: &Labels| {
            let mut x = Vec::new();
            for (argument, shared) in arguments.iter().zip(&shared) {
                let has = |k: &String| shared.as_ref().is_some_and(|s| s.contains(k));
                let key: Labels = labels.iter().filter(|(k, _)| has(k)).map(owned).collect();
                x.push(match argument {
                    Value::Number(x) => *x,
                    Value::Vector(v) => *v.get(&key).ok_or_else(|| {
                        let problem = format!("an argument of {} has no point {}", model.name, point(&key));
                        told(self.text, at, &problem)
                    })?,
                });
            }
            Ok((model.value)(&x))
        };
        match leader.map(|i| &arguments[i]) {
            Some(Value::Vector(v)) => {
                v.keys().map(|k| Ok((k.clone(), of(k)?))).collect::<Result<_, _>>().map(Value::Vector)
            }
            _ => of(&Labels::new()).map(Value::Number),
        }
    }

    /// Combines two values, element by element where labels agree. A side that lacks a label fits all its values.
    fn matched(
        &self,
        left: Value,
        right: Value,
        at: usize,
        sign: &str,
        f: &dyn Fn(f64, f64) -> f64,
    ) -> Result<Value, String> {
        let (l, r) = match (left, right) {
            (Value::Number(a), Value::Number(b)) => return Ok(Value::Number(f(a, b))),
            (Value::Number(a), v) => return Ok(map(v, |b| f(a, b))),
            (v, Value::Number(b)) => return Ok(map(v, |a| f(a, b))),
            (Value::Vector(l), Value::Vector(r)) => (l, r),
        };
        // The side with more labels leads: each of its points has one partner.
        let swapped = keys(&r).len() > keys(&l).len();
        let (more, fewer) = if swapped { (r, l) } else { (l, r) };
        let shared = keys(&fewer);
        let unmatched = |labels: &Labels| {
            let side = if swapped { "left" } else { "right" };
            told(self.text, at, &format!("the {side} side of '{sign}' has no point {}", point(labels)))
        };
        let mut out = BTreeMap::new();
        let mut used = BTreeSet::new();
        for (labels, a) in more {
            let key: Labels = labels.iter().filter(|(k, _)| shared.contains(*k)).map(owned).collect();
            let b = *fewer.get(&key).ok_or_else(|| unmatched(&labels))?;
            used.insert(key);
            out.insert(labels, if swapped { f(b, a) } else { f(a, b) });
        }
        if let Some(left_over) = fewer.keys().find(|k| !used.contains(*k)) {
            let side = if swapped { "right" } else { "left" };
            let problem = format!("the {side} side of '{sign}' has no point {}", point(left_over));
            return Err(told(self.text, at, &problem));
        }
        Ok(Value::Vector(out))
    }

    fn metric(&self, name: &Name) -> Result<Value, String> {
        // What is swept has no figure in a run; its name stands for its value there.
        let swept = |s: &Sample| s.coords.get(&name.name).and_then(|v| quantity::number(v));
        let of = |s: &Sample| s.metrics.get(&name.name).copied().or_else(|| swept(s));
        let with = || self.samples.iter().filter_map(|s| Some((s, of(s)?)));
        if with().next().is_none() {
            return Err(self.unknown_metric(&name.name));
        }
        for filter in &name.filters {
            self.known_label(filter)?;
        }
        let mut groups: BTreeMap<Labels, BTreeMap<&Labels, Vec<f64>>> = BTreeMap::new();
        for (sample, x) in with().filter(|(s, _)| name.filters.iter().all(|f| fits(f, &s.coords))) {
            let gone =
                |k: &str| name.filters.iter().any(|f| f.label == k && f.comparison == Comparison::Equal);
            let mut labels: Labels = sample.coords.iter().filter(|(k, _)| !gone(k)).map(owned).collect();
            if name.over == Over::Each {
                labels.insert("seed".to_owned(), sample.seed.to_string());
            }
            groups.entry(labels).or_default().entry(&sample.coords).or_default().push(x);
        }
        if groups.is_empty() {
            return Err(format!("no run is left of {}: expected other labels", name.name));
        }
        let mut out = BTreeMap::new();
        for (labels, points) in groups {
            if points.len() > 1 {
                let two: Vec<String> = points.keys().take(2).map(|p| point(p)).collect();
                return Err(format!(
                    "the filter leaves more than one value for {}: {}; expected a narrower one",
                    point(&labels),
                    two.join(" and ")
                ));
            }
            let values = points.into_values().next().unwrap_or_default();
            out.insert(labels, over(name.over, &values));
        }
        Ok(Value::Vector(out))
    }

    fn unknown_metric(&self, name: &str) -> String {
        let known: BTreeSet<&str> =
            self.samples.iter().flat_map(|s| s.metrics.keys()).map(String::as_str).collect();
        let near = nearest(name, known.iter().copied())
            .or_else(|| known.iter().copied().find(|k| k.starts_with(name) || name.starts_with(k)));
        match near {
            Some(near) => format!("no run has the metric '{name}'; did you mean '{near}'?"),
            None if known.is_empty() => format!("no run has the metric '{name}': there are no results"),
            None => {
                let known: Vec<&str> = known.into_iter().collect();
                format!("no run has the metric '{name}': expected one of {}", known.join(", "))
            }
        }
    }

    /// Refuses a label nobody has, and a value no run has.
    fn known_label(&self, filter: &Filter) -> Result<(), String> {
        let values: BTreeSet<&str> =
            self.samples.iter().filter_map(|s| s.coords.get(&filter.label)).map(String::as_str).collect();
        if values.is_empty() {
            let known: BTreeSet<&str> =
                self.samples.iter().flat_map(|s| s.coords.keys()).map(String::as_str).collect();
            let known: Vec<&str> = known.into_iter().collect();
            return Err(format!(
                "nothing is swept by '{}': expected one of {}",
                filter.label,
                known.join(", ")
            ));
        }
        let found = self.samples.iter().any(|s| fits(filter, &s.coords));
        if found {
            return Ok(());
        }
        let values: Vec<&str> = values.into_iter().take(20).collect();
        Err(format!("no run has {} of '{}': there are {}", filter.label, filter.value, values.join(", ")))
    }
}

fn owned((k, v): (&String, &String)) -> (String, String) {
    (k.clone(), v.clone())
}

fn map(v: Value, f: impl Fn(f64) -> f64) -> Value {
    match v {
        Value::Number(x) => Value::Number(f(x)),
        Value::Vector(v) => Value::Vector(v.into_iter().map(|(k, x)| (k, f(x))).collect()),
    }
}

fn keys(v: &BTreeMap<Labels, f64>) -> BTreeSet<String> {
    v.keys().flat_map(|l| l.keys().cloned()).collect()
}

fn point(labels: &Labels) -> String {
    let parts: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    if parts.is_empty() { "without labels".to_owned() } else { parts.join(", ") }
}

fn over(how: Over, x: &[f64]) -> f64 {
    let name = match how {
        Over::Median | Over::Each => return expr::median(x),
        Over::Mean => "mean",
        Over::Min => "min",
        Over::Max => "max",
    };
    expr::of_many(name).map_or(f64::NAN, |f| f(x))
}

/// Whether a point passes a filter: text with `*` at either end for `=` and `!=`, quantities for the rest.
fn fits(filter: &Filter, coords: &Labels) -> bool {
    let Some(value) = coords.get(&filter.label) else { return filter.comparison == Comparison::NotEqual };
    match filter.comparison {
        Comparison::Equal => like(&filter.value, value),
        Comparison::NotEqual => !like(&filter.value, value),
        comparison => match (quantity::number(value), quantity::number(&filter.value)) {
            (Some(a), Some(b)) => comparison.holds(a, b),
            _ => false,
        },
    }
}

fn like(pattern: &str, text: &str) -> bool {
    if pattern == text {
        return true;
    }
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), None) => text.ends_with(end),
        (None, Some(start)) => text.starts_with(start),
        (Some(_), Some(_)) => text.contains(pattern.trim_matches('*')),
        // 200kbit and 0.2mbit are one.
        (None, None) => quantity::number(pattern).is_some_and(|a| quantity::number(text) == Some(a)),
    }
}

#[cfg(test)]
mod tests;
