//! The models as `narrows_models::declared` has them, element by element over arrays that Python has made of one shape.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Instant;

use narrows_models::declared::{
    self, Argument, ArgumentKind, Arguments, Gives, Model, Refused, Slots, Usual,
};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::error;
use crate::run::ASK;
use crate::table::Column;

/// Name, arguments with their forms, form of the results, and their names, units and words.
type Told = (String, Vec<(&'static str, &'static str)>, &'static str, Vec<Figure>);
type Figure = (&'static str, &'static str, Vec<&'static str>);

/// All models, for `narrows.models.vectorised`.
#[pyfunction]
#[pyo3(name = "models")]
pub(crate) fn list() -> Vec<Told> {
    let all = declared::MODULES.iter().flat_map(|module| module.models.iter().map(move |m| (module.name, m)));
    all.map(|(module, model)| {
        let mut takes = Vec::new();
        flatten(model.takes, &mut takes);
        let figures = model.gives.figures().into_iter();
        let words = |f: &declared::Output| f.words.map_or_else(Vec::new, |choice| choice.words.to_vec());
        let figures = figures.map(|f| (f.name, f.unit, words(&f))).collect();
        (format!("{module}.{}", model.name), takes, form(&model.gives), figures)
    })
    .collect()
}

/// Arguments with their forms, those of a group one by one.
fn flatten(takes: &[Argument], told: &mut Vec<(&'static str, &'static str)>) {
    for argument in takes {
        match argument {
            Argument::One(p) => told.push((
                p.name,
                match p.kind {
                    ArgumentKind::Number(..) if matches!(p.usual, Usual::None(_)) => "optional",
                    ArgumentKind::Number(..) => "number",
                    ArgumentKind::Row(..) => "row",
                    ArgumentKind::Grid(..) => "grid",
                    ArgumentKind::Word(_) => "word",
                    ArgumentKind::Flag => "flag",
                },
            )),
            Argument::Group(group) => flatten(group.takes, told),
            Argument::Law(law) => told.push((law.name, "law")),
        }
    }
}

fn form(gives: &Gives) -> &'static str {
    match gives {
        Gives::One(_) => "one",
        Gives::Yes(_) => "yes",
        Gives::Row(_) => "row",
        Gives::Tuple(_) => "tuple",
        Gives::Rows(_) => "rows",
        Gives::Records(_) => "records",
        Gives::State(_) => "state",
        Gives::States(..) => "states",
    }
}

/// A model at `count` elements: `numbers` and `rows` are native doubles in the order of its declaration, each of `rows`
/// with its width. Gives a column for each figure; of a model that gives rows all of them, one after the other, and
/// their lengths.
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
    let Some(model) = declared::model(name) else {
        return Err(error::refuse(py, name, "no such model", None));
    };
    let slots = Slots::of(model.takes);
    let numbers: Vec<Vec<f64>> = numbers.iter().map(|b| doubles(b)).collect();
    let rows: Vec<(Vec<f64>, usize)> = rows.iter().map(|(b, width)| (doubles(b), *width)).collect();
    let fits = numbers.len() == slots.numbers.len()
        && rows.len() == slots.rows.len()
        && numbers.iter().all(|n| n.len() == count)
        && rows.iter().all(|(list, width)| list.len() == count * width);
    if !fits {
        return Err(error::refuse(py, name, "numbers or rows that do not fit it", None));
    }
    let words = slots.choose(|name| words.get(name).map(String::as_str)).map_err(|why| refused(why, 0, 1))?;
    py.detach(|| elements(model, &slots, count, &numbers, &rows, &words))
}

fn elements(
    model: &Model,
    slots: &Slots,
    count: usize,
    numbers: &[Vec<f64>],
    rows: &[(Vec<f64>, usize)],
    words: &[usize],
) -> PyResult<Vec<Column>> {
    let (mut flat, mut lengths) = (Vec::new(), Vec::with_capacity(count));
    let (memo, mut asked) = (RefCell::default(), Instant::now());
    for at in 0..count {
        let numbers: Vec<f64> = numbers.iter().map(|list| list[at]).collect();
        let rows: Vec<&[f64]> =
            rows.iter().map(|(list, width)| &list[at * width..(at + 1) * width]).collect();
        let arguments = Arguments { slots, numbers: &numbers, rows: &rows, words, memo: &memo };
        let given = model.evaluate(&arguments).map_err(|why| refused(why, at, count))?;
        lengths.push(given.len() as f64);
        flat.extend(given);
        if asked.elapsed() >= ASK {
            asked = Instant::now();
            Python::attach(|py| py.check_signals())?;
        }
    }
    Ok(match &model.gives {
        Gives::One(_) | Gives::Yes(_) | Gives::Tuple(_) => {
            let n = model.gives.figures().len();
            (0..n).map(|i| Column::of(flat.iter().skip(i).step_by(n).copied().collect())).collect()
        }
        _ => vec![Column::of(flat), Column::of(lengths)],
    })
}

fn doubles(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks::<8>().0.iter().map(|b| f64::from_ne_bytes(*b)).collect()
}

fn refused(why: Refused, at: usize, count: usize) -> PyErr {
    let point = if count > 1 { format!("element {at}") } else { String::new() };
    let told =
        narrows_scenario::Error { file: None, key: why.parameter.to_owned(), problem: why.problem, point };
    Python::attach(|py| error::scenario(py, &told))
}
