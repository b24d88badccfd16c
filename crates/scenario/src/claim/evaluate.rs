//! The value of a claim's expression: numbers, and vectors whose elements are matched by their labels.

use std::collections::{BTreeMap, BTreeSet};

use super::{Labels, Sample};
use crate::expr::{self, Comparison, Expr, Filter, Name, Over, told};
use crate::model::{self, Model};
use crate::quantity;
use narrows_settings::nearest;

/// A number, or one for each point.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Number(f64),
    Vector(BTreeMap<Labels, f64>),
}

/// The value of an expression over the figures of many runs.
pub(super) fn evaluate(parsed: &Expr, text: &str, samples: &[Sample]) -> Result<Value, String> {
    Evaluator { text, samples }.value(parsed)
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
                let key: Labels =
                    labels.iter().filter(|(k, _)| has(k)).map(|(k, v)| (k.clone(), v.clone())).collect();
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
            let key: Labels = labels
                .iter()
                .filter(|(k, _)| shared.contains(*k))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
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
        // A swept key has no figure in a run; its name stands for its value there.
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
            let mut labels: Labels =
                sample.coords.iter().filter(|(k, _)| !gone(k)).map(|(k, v)| (k.clone(), v.clone())).collect();
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

    /// Refuses a label that no run has, and a value that no run has.
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
