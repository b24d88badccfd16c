//! `narrows model function`: any declared model at one element.

use std::cell::RefCell;
use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use narrows_models::declared::{
    self, ArgumentKind, Arguments, Gives, MODULES, Model, Parameter, Slots, Usual,
};
use narrows_plot::Chart;
use narrows_units::{Duration, Rate};
use serde_json::{Map, Value, json};

use super::Answer;

/// Arguments of `narrows model function`.
#[derive(clap::Args)]
pub struct Args {
    /// Name of the function, as throughput.mathis; without it all are listed
    name: Option<String>,
    /// Arguments, as loss=0.01 rtt_s=200ms; rows with commas
    #[arg(value_name = "NAME=VALUE")]
    given: Vec<String>,
}

impl Args {
    /// Results of the function, or the list of all.
    pub fn answer(&self) -> anyhow::Result<Answer> {
        let Some(name) = &self.name else { return Ok(list()) };
        let Some(model) = declared::model(name) else {
            bail!(
                "{name}: no such function: expected one that `narrows model function` lists, as throughput.mathis"
            )
        };
        let slots = Slots::of(model.takes);
        let mut given = BTreeMap::new();
        for argument in &self.given {
            let (key, value) =
                argument.split_once('=').with_context(|| format!("{argument}: expected NAME=VALUE"))?;
            let all = slots.numbers.iter().chain(&slots.rows).chain(&slots.words);
            let known: Vec<&str> = all.map(|p| p.name).collect();
            ensure!(known.contains(&key), "{key}: no argument of {name}: expected {}", known.join(", "));
            given.insert(key, value);
        }
        let numbers = slots.numbers.iter().map(|p| of_one(p, given.get(p.name).copied()));
        let numbers = numbers.collect::<anyhow::Result<Vec<f64>>>()?;
        let rows = slots.rows.iter().map(|p| of_row(p, given.get(p.name).copied()));
        let rows = rows.collect::<anyhow::Result<Vec<Vec<f64>>>>()?;
        let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
        ensure!(
            rows.windows(2).all(|two| two[0].len() == two[1].len()),
            "{name}: expected rows of one length"
        );
        let words = slots.choose(|key| given.get(key).copied())?;
        let (slots, memo) = (&slots, &RefCell::default());
        let got =
            model.evaluate(&Arguments { slots, numbers: &numbers, rows: &rows, words: &words, memo })?;
        Ok(told(name, model, &got))
    }
}

/// Value of an argument that was typed as a number or a quantity; NaN for none.
fn of_one(p: &Parameter, given: Option<&str>) -> anyhow::Result<f64> {
    match (given, p.usual) {
        (Some(text), _) => number(p, text),
        (None, Usual::Number(usual)) => Ok(usual),
        (None, Usual::None(_)) => Ok(f64::NAN),
        (None, _) => bail!("{}: is missing: expected {}", p.name, p.told()),
    }
}

fn of_row(p: &Parameter, given: Option<&str>) -> anyhow::Result<Vec<f64>> {
    match given {
        Some(list) => list.split(',').map(|text| number(p, text)).collect(),
        // Laws of sizes need no list but one.
        None if p.name == "list" => Ok(vec![0.0]),
        None => bail!("{}: is missing: expected {}", p.name, p.told()),
    }
}

fn number(p: &Parameter, text: &str) -> anyhow::Result<f64> {
    if let Ok(bare) = text.parse() {
        return Ok(bare);
    }
    let measured = match p.unit {
        "s" => narrows_scenario::time(text).ok().map(Duration::as_secs_f64),
        "bit/s" => text.parse::<Rate>().ok().map(|rate| rate.as_bps() as f64),
        _ => None,
    };
    measured.with_context(|| format!("{} = {text}: expected {}", p.name, p.told()))
}

fn told(name: &str, model: &Model, got: &[f64]) -> Answer {
    let figures = model.gives.figures();
    let (mut json, mut text) = (Map::new(), format!("{name}: {}\n\n", line(model.sentence)));
    let mut add = |name: &str, unit: &str, value: Value| {
        let shown = match &value {
            Value::Array(list) => list.iter().map(Value::to_string).collect::<Vec<_>>().join(" "),
            Value::String(word) => word.clone(),
            Value::Null => "-".to_owned(),
            other => other.to_string(),
        };
        text += format!("{name:34}{shown} {unit}").trim_end();
        text.push('\n');
        json.insert(name.to_owned(), value);
    };
    match &model.gives {
        Gives::One(_) | Gives::Tuple(_) => {
            for (figure, value) in figures.iter().zip(got) {
                let word = figure.words.and_then(|choice| choice.words.get(*value as usize));
                add(figure.name, figure.unit, word.map_or_else(|| json!(value), |word| json!(word)));
            }
        }
        Gives::Yes(figure) => add(figure.name, "", json!(got[0] == 1.0)),
        Gives::Row(_) => add("row", figures[0].unit, json!(got)),
        Gives::Rows(_) => {
            let parts = got.chunks(got.len().div_ceil(figures.len()).max(1));
            figures.iter().zip(parts).for_each(|(f, part)| add(f.name, f.unit, json!(part)));
        }
        Gives::Records(_) => {
            for (at, figure) in figures.iter().enumerate() {
                let column: Vec<f64> = got.iter().skip(at).step_by(figures.len()).copied().collect();
                add(figure.name, figure.unit, json!(column));
            }
        }
        Gives::State(_) | Gives::States(..) => add("states", "packets", json!(got)),
    }
    Answer { json: Value::Object(json), text, chart: Chart::default() }
}

/// Lists all functions, each with its arguments.
fn list() -> Answer {
    let (mut json, mut text) = (Map::new(), String::new());
    for module in MODULES {
        for model in module.models {
            let slots = Slots::of(model.takes);
            let name = format!("{}.{}", module.name, model.name);
            text += &format!("{name:32}{}\n", line(model.sentence));
            let all = slots.numbers.iter().chain(&slots.rows).chain(&slots.words);
            let all = all.map(|p| {
                let words = if let ArgumentKind::Word(words) = p.kind { words } else { &[] };
                let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                json!({ "name": p.name, "meaning": p.told(), "words": words })
            });
            json.insert(
                name,
                json!({ "meaning": line(model.sentence), "arguments": all.collect::<Vec<_>>() }),
            );
        }
    }
    Answer { json: Value::Object(json), text, chart: Chart::default() }
}

fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
