//! The closed forms and chains of `narrows-models`, element by element over arrays that Python has made of one shape.
//!
//! A model takes numbers, rows of numbers (the last axis of an array, as the hops of a path), and words (as which form
//! of an equation); it gives some figures, or a row of them whose length may differ from element to element. What it is
//! and what its units are is told where people look: `python/narrows/models`.

mod aimd;
mod burst;
mod control;
mod plan;
mod sharing;
mod spreading;
mod taq;
mod yardsticks;

use std::collections::BTreeMap;
use std::time::Instant;

use narrows_models as models;
use narrows_units::{Bytes, Duration, Rate};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::error;
use crate::run::ASK;
use crate::table::Column;

/// A model by its name in `narrows-models`, with what it takes and gives.
pub(crate) struct Model {
    name: &'static str,
    numbers: &'static [Number],
    rows: &'static [&'static str],
    /// Names of the figures; none if it gives a row.
    gives: &'static [&'static str],
    call: fn(&Args<'_>) -> Result<Vec<f64>, Wrong>,
}

/// A number a model takes.
pub(crate) struct Number {
    name: &'static str,
    /// NaN stands for none; elsewhere it is outside every domain.
    optional: bool,
}

/// `"module::function"; numbers; [rows] => figures, |args| what it gives`; a number that may be left out is marked
/// `[none]`.
macro_rules! model {
    ($name:literal; $($x:ident $([$none:ident])?),*; [$($row:ident),*] => ($($gives:ident),*),
        |$args:ident| $body:expr) => {
        $crate::models::Model {
            name: $name,
            numbers: &[$($crate::models::Number {
                name: stringify!($x),
                optional: !stringify!($($none)?).is_empty(),
            }),*],
            rows: &[$(stringify!($row)),*],
            gives: &[$(stringify!($gives)),*],
            call: |$args| {
                let [$($x),*] = $args.numbers();
                let [$($row),*] = $args.rows();
                Ok($crate::models::Figures::list($body))
            },
        }
    };
}
use model;

/// All of them.
fn all() -> impl Iterator<Item = &'static Model> {
    let rooms: [&'static [Model]; 8] = [
        aimd::MODELS,
        burst::MODELS,
        control::MODELS,
        plan::MODELS,
        sharing::MODELS,
        spreading::MODELS,
        taq::MODELS,
        yardsticks::MODELS,
    ];
    rooms.into_iter().flatten()
}

/// What one element is computed from.
pub(crate) struct Args<'a> {
    numbers: &'a [f64],
    rows: &'a [&'a [f64]],
    words: &'a BTreeMap<String, String>,
}

impl<'a> Args<'a> {
    fn numbers<const N: usize>(&self) -> [f64; N] {
        core::array::from_fn(|i| self.numbers[i])
    }

    fn rows<const N: usize>(&self) -> [&'a [f64]; N] {
        core::array::from_fn(|i| self.rows[i])
    }

    /// What the word for `name` stands for.
    fn word<T: Copy>(&self, name: &str, known: &[(&str, T)]) -> Result<T, Wrong> {
        let word = self.words.get(name).map_or("", String::as_str);
        known.iter().find(|(w, _)| *w == word).map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<&str> = known.iter().map(|(w, _)| *w).collect();
            Wrong {
                key: name.to_owned(),
                problem: format!("= '{word}': expected one of {}", words.join(", ")),
            }
        })
    }
}

impl Model {
    /// Refuses what is no number, before a comparison that is false for it makes it look like one.
    fn checked(&self, args: &Args<'_>) -> Result<(), Wrong> {
        let wrong = |key: &str, problem: &str| Wrong { key: key.to_owned(), problem: problem.to_owned() };
        for (number, value) in self.numbers.iter().zip(args.numbers) {
            if value.is_nan() && !number.optional {
                return Err(wrong(number.name, "= NaN: expected a number"));
            }
        }
        for (name, row) in self.rows.iter().zip(args.rows) {
            if let Some(at) = row.iter().position(|x| x.is_nan()) {
                return Err(wrong(name, &format!("= NaN at place {at} of its row: expected a number")));
            }
        }
        Ok(())
    }
}

/// What no model can be computed for.
pub(crate) struct Wrong {
    key: String,
    problem: String,
}

impl From<models::Error> for Wrong {
    fn from(e: models::Error) -> Self {
        Self { key: e.parameter.to_owned(), problem: format!("= {}: expected {}", e.value, e.expected) }
    }
}

/// What a model gives, as numbers; NaN where there is none.
pub(crate) trait Figures {
    fn list(self) -> Vec<f64>;
}

impl Figures for f64 {
    fn list(self) -> Vec<f64> {
        vec![self]
    }
}

impl Figures for Option<f64> {
    fn list(self) -> Vec<f64> {
        vec![self.unwrap_or(f64::NAN)]
    }
}

impl Figures for Vec<f64> {
    fn list(self) -> Vec<f64> {
        self
    }
}

impl<const N: usize> Figures for [f64; N] {
    fn list(self) -> Vec<f64> {
        self.to_vec()
    }
}

/// A number that stands for none if it is NaN.
fn optional(x: f64) -> Option<f64> {
    (!x.is_nan()).then_some(x)
}

/// A whole number up to `most`, which f64 can tell apart.
fn whole(parameter: &'static str, value: f64, most: u64) -> Result<u64, Wrong> {
    if value.fract() == 0.0 && value >= 0.0 && value <= most as f64 {
        return Ok(value as u64);
    }
    let problem = format!("= {value}: expected a whole number from 0 to {most}");
    Err(Wrong { key: parameter.to_owned(), problem })
}

/// A time or a number of something, which may be infinite.
fn at_least_0(parameter: &'static str, value: f64) -> Result<f64, Wrong> {
    if value >= 0.0 {
        return Ok(value);
    }
    Err(models::Error { parameter, value, expected: "0 or more" }.into())
}

fn share(parameter: &'static str, value: f64) -> Result<f64, Wrong> {
    if (0.0..=1.0).contains(&value) {
        return Ok(value);
    }
    Err(models::Error { parameter, value, expected: "a share from 0 to 1" }.into())
}

/// Up to here every whole number is an f64.
const EXACT: u64 = 1 << 53;

fn count(parameter: &'static str, value: f64) -> Result<u32, Wrong> {
    whole(parameter, value, u64::from(u32::MAX)).map(|n| u32::try_from(n).unwrap_or(u32::MAX))
}

fn size(parameter: &'static str, value: f64) -> Result<usize, Wrong> {
    whole(parameter, value, 1 << 31).map(|n| usize::try_from(n).unwrap_or(usize::MAX))
}

fn bytes(parameter: &'static str, value: f64) -> Result<Bytes, Wrong> {
    whole(parameter, value, EXACT).map(Bytes)
}

fn rate(value: f64) -> Result<Rate, Wrong> {
    match whole("rate_bps", value.round(), EXACT)? {
        0 => {
            Err(Wrong { key: "rate_bps".to_owned(), problem: format!("= {value}: expected 1 bit/s or more") })
        }
        bps => Ok(Rate::from_bps(bps)),
    }
}

/// 10^9 s: 30 years.
fn seconds(parameter: &'static str, value: f64) -> Result<f64, Wrong> {
    if (0.0..=1e9).contains(&value) {
        return Ok(value);
    }
    Err(models::Error { parameter, value, expected: "0 to 1e9 seconds" }.into())
}

/// To the nanosecond.
fn time(parameter: &'static str, value_s: f64) -> Result<Duration, Wrong> {
    Ok(Duration::from_nanos((seconds(parameter, value_s)? * 1e9).round() as u64))
}

/// Names of all models with what each takes and gives: numbers, rows, figures.
#[pyfunction]
#[pyo3(name = "models")]
pub(crate) fn list() -> Vec<(&'static str, [Vec<&'static str>; 3])> {
    let names = |m: &Model| m.numbers.iter().map(|x| x.name).collect();
    all().map(|m| (m.name, [names(m), m.rows.to_vec(), m.gives.to_vec()])).collect()
}

/// A model at `count` elements: `numbers` and `rows` are native doubles in the order of [`list`], each of `rows` with
/// its width. Gives a column for each figure; of a model that gives rows all of them, one after the other, and their
/// lengths.
#[pyfunction]
#[pyo3(name = "model")]
pub(crate) fn evaluate(
    py: Python<'_>,
    name: &str,
    count: usize,
    numbers: Vec<PyBackedBytes>,
    rows: Vec<(PyBackedBytes, usize)>,
    words: BTreeMap<String, String>,
) -> PyResult<Vec<Column>> {
    let Some(model) = all().find(|m| m.name == name) else {
        return Err(error::refuse(py, name, "no such model", None));
    };
    let numbers: Vec<Vec<f64>> = numbers.iter().map(|b| doubles(b)).collect();
    let rows: Vec<(Vec<f64>, usize)> = rows.iter().map(|(b, width)| (doubles(b), *width)).collect();
    let fits = numbers.len() == model.numbers.len()
        && rows.len() == model.rows.len()
        && numbers.iter().all(|n| n.len() == count)
        && rows.iter().all(|(list, width)| list.len() == count * width);
    if !fits {
        return Err(error::refuse(py, name, "numbers or rows that do not fit it", None));
    }
    let (mut flat, mut lengths) = (Vec::new(), Vec::with_capacity(count));
    py.detach(|| {
        let mut asked = Instant::now();
        let mut here = vec![0.0; numbers.len()];
        for at in 0..count {
            for (x, list) in here.iter_mut().zip(&numbers) {
                *x = list[at];
            }
            let these: Vec<&[f64]> =
                rows.iter().map(|(list, width)| &list[at * width..(at + 1) * width]).collect();
            let args = Args { numbers: &here, rows: &these, words: &words };
            let given = model.checked(&args).and_then(|()| (model.call)(&args));
            let given = given.map_err(|wrong| refused(wrong, at, count))?;
            lengths.push(given.len() as f64);
            flat.extend(given);
            if asked.elapsed() >= ASK {
                asked = Instant::now();
                Python::attach(|py| py.check_signals())?;
            }
        }
        PyResult::Ok(())
    })?;
    Ok(match model.gives.len() {
        0 => vec![Column::of(flat), Column::of(lengths)],
        n => (0..n).map(|i| Column::of(flat.iter().skip(i).step_by(n).copied().collect())).collect(),
    })
}

fn doubles(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks::<8>().0.iter().map(|b| f64::from_ne_bytes(*b)).collect()
}

fn refused(wrong: Wrong, at: usize, count: usize) -> PyErr {
    let point = if count > 1 { format!("element {at}") } else { String::new() };
    let told = narrows_scenario::Error { file: None, key: wrong.key, problem: wrong.problem, point };
    Python::attach(|py| error::scenario(py, &told))
}
