//! Each declared model answers at its examples, and refuses numbers outside a declared range by the argument's name.

use std::cell::RefCell;
use std::collections::BTreeSet;

use narrows_models::declared::{ArgumentKind, Arguments, MODULES, Model, Parameter, Refused, Slots, Usual};

/// The model at its examples, with one number changed.
fn at(model: &Model, slots: &Slots, changed: Option<(usize, f64)>) -> Result<Vec<f64>, Refused> {
    let example = |p: &Parameter| match p.kind {
        ArgumentKind::Number(_, example) if !matches!(p.usual, Usual::None(_)) => example,
        _ => f64::NAN,
    };
    let mut numbers: Vec<f64> = slots.numbers.iter().map(example).collect();
    // Sizes are fixed where nothing else is said.
    if let Some(a) = slots.numbers.iter().position(|p| p.name == "a") {
        numbers[a] = 1000.0;
    }
    if let Some((place, value)) = changed {
        numbers[place] = value;
    }
    let row = |p: &Parameter| match p.kind {
        ArgumentKind::Row(_, example, _) | ArgumentKind::Grid(example, _) => example,
        _ => &[],
    };
    let rows: Vec<&[f64]> = slots.rows.iter().map(row).collect();
    let words = slots.choose(|_| None)?;
    let memo = RefCell::default();
    model.evaluate(&Arguments { slots, numbers: &numbers, rows: &rows, words: &words, memo: &memo })
}

fn all() -> impl Iterator<Item = (String, &'static Model)> {
    MODULES
        .iter()
        .flat_map(|m| m.models.iter().map(move |model| (format!("{}.{}", m.name, model.name), model)))
}

#[test]
fn every_model_answers_at_its_examples() {
    for (name, model) in all() {
        let given = at(model, &Slots::of(model.takes), None).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert!(!given.is_empty() && given.iter().any(|x| x.is_finite()), "{name}: {given:?}");
    }
}

/// Laws of sizes are left out: their ranges are those of a class in Python.
#[test]
fn numbers_outside_their_range_are_refused_by_name() {
    let (mut checked, mut wrong) = (0, Vec::new());
    for (name, model) in all() {
        let slots = Slots::of(model.takes);
        for (place, p) in slots.numbers.iter().enumerate() {
            let ArgumentKind::Number(range, example) = p.kind else { continue };
            if !range.contains(example) {
                wrong.push(format!("{name}, {}: its example {example}", p.name));
            }
            for value in range.outside() {
                match at(model, &slots, Some((place, value))) {
                    Err(why) if why.parameter == p.name && why.problem.contains("expected") => {}
                    Err(why) => wrong.push(format!("{name}, {} = {value}: {why}", p.name)),
                    Ok(given) => {
                        wrong.push(format!("{name}, {} = {value}: {given:?}, {range} is declared", p.name))
                    }
                }
                checked += 1;
            }
        }
    }
    assert!(wrong.is_empty() && checked > 300, "{checked} checked\n{}", wrong.join("\n"));
}

#[test]
fn declarations_are_whole() {
    let names: BTreeSet<String> = all().map(|(name, _)| name).collect();
    assert_eq!(names.len(), all().count());
    for (name, model) in all() {
        let slots = Slots::of(model.takes);
        let given = slots.numbers.iter().chain(&slots.rows).chain(&slots.words);
        let inner = ["a", "b", "c", "list", "width", "sizes"];
        for p in given.filter(|p| !inner.contains(&p.name)) {
            let sentence = p.sentence.trim();
            assert!(
                sentence.ends_with('.') && sentence.starts_with(char::is_uppercase),
                "{name}: {}",
                p.name
            );
        }
        for figure in model.gives.figures() {
            assert!(figure.sentence.trim().ends_with('.'), "{name}: {}", figure.name);
        }
        assert!(model.sentence.trim().ends_with('.'), "{name}");
    }
}
