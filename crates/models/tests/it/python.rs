//! Modules of the Python package: a function for each model, a dataclass for each group, a named tuple for each kind of
//! result, with types, defaults and docstrings.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use narrows_models::declared::{
    Argument, ArgumentGroup, ArgumentKind, Gives, Law, MODULES, Model, Module, Output, Parameter, Tuple,
    Usual, WordList,
};

use super::{hold, wrapped};

#[test]
fn modules_are_those_of_the_declarations() {
    for module in &MODULES {
        let path = format!("python/narrows/models/{}.py", module.name);
        hold(&path, &source(module), "python");
    }
}

/// Markdown's code as reStructuredText has it.
fn code(text: &str) -> String {
    text.replace('`', "``")
}

/// A docstring, indented, with arguments or none.
fn docstring(text: &str, indent: &str, arguments: &[(String, String)]) -> String {
    let mut lines = wrapped(&code(text), 120 - indent.len() - 3);
    if lines.len() == 1 && lines[0].chars().count() > 120 - indent.len() - 6 {
        lines = wrapped(&code(text), 120 - indent.len() - 6);
    }
    if arguments.is_empty() && lines.len() == 1 {
        return format!("{indent}\"\"\"{}\"\"\"\n", lines[0]);
    }
    let mut doc = format!("{indent}\"\"\"{}\n", lines.join(&format!("\n{indent}")));
    if !arguments.is_empty() {
        write!(doc, "\n{indent}Args:\n").unwrap();
    }
    for (name, told) in arguments {
        let told = wrapped(&format!("{name}: {}", code(told)), 120 - indent.len() - 8);
        writeln!(doc, "{indent}    {}", told.join(&format!("\n{indent}        "))).unwrap();
    }
    if arguments.is_empty() {
        // The quotes on the last line, as there is room for them.
        return format!("{}\"\"\"\n", doc.trim_end());
    }
    doc + indent + "\"\"\"\n"
}

/// A parameter in words: meaning, unit, range, shape, default, and the words it knows.
fn told(p: &Parameter) -> String {
    let mut text = p.told();
    if let ArgumentKind::Row(_, _, of) = p.kind {
        write!(text, ", shape (..., {of})").unwrap();
    }
    if let Usual::None(stands_for) = p.usual {
        write!(text, "; None: {stands_for}").unwrap();
    }
    text.push('.');
    if let ArgumentKind::Word(words) = p.kind {
        let known: Vec<String> = words.iter().map(|(word, means)| format!("`{word}`: {means}")).collect();
        write!(text, " One of {}.", known.join("; ")).unwrap();
    }
    text
}

/// Type and default.
fn annotated(p: &Parameter) -> String {
    let kind = match p.kind {
        ArgumentKind::Word(_) => "str",
        ArgumentKind::Flag => "bool",
        _ => "ArrayLike",
    };
    match p.usual {
        Usual::Required => kind.to_owned(),
        Usual::None(_) => format!("{kind} | None = None"),
        Usual::Number(x) => format!("{kind} = {x}"),
        Usual::Word(word) => format!("{kind} = \"{word}\""),
        Usual::No => format!("{kind} = False"),
    }
}

fn class_of(group: &ArgumentGroup) -> String {
    let mut text = format!(
        "@dataclass(frozen=True)\nclass {}:\n{}\n",
        group.class,
        docstring(group.sentence, "    ", &[])
    );
    for member in group.takes {
        let p = member.parameter();
        writeln!(text, "    {}: {}", p.name, annotated(&p)).unwrap();
        text += &docstring(&told(&p), "    ", &[]);
    }
    for (name, differs, means) in group.values {
        write!(text, "\n\n{name} = {}({differs})\n{}", group.class, docstring(means, "", &[])).unwrap();
    }
    text
}

fn union_of(law: &Law) -> String {
    let mut text = String::new();
    for group in law.groups {
        write!(text, "class {}(NamedTuple):\n{}\n", group.class, docstring(group.sentence, "    ", &[]))
            .unwrap();
        for member in group.takes {
            let p = member.parameter();
            write!(text, "    {}: ArrayLike\n{}", p.name, docstring(&told(&p), "    ", &[])).unwrap();
        }
        text += "\n\n";
    }
    let classes: Vec<&str> = law.groups.iter().map(|group| group.class).collect();
    write!(text, "{} = Union[{}]\n\"\"\"A law of sizes.\"\"\"\n", law.class, classes.join(", ")).unwrap();
    text
}

fn array(figure: &Output) -> &'static str {
    if figure.words.is_some() { "Words" } else { "Array" }
}

/// A figure in words.
fn meaning(figure: &Output) -> String {
    let sentence = figure.sentence.trim().trim_end_matches('.');
    match (figure.words, figure.unit) {
        (Some(choice), _) => format!("{sentence}: one of :data:`{}`.", choice.name),
        (None, "") => format!("{sentence}."),
        (None, unit) if sentence.to_lowercase().contains(unit) => format!("{sentence}."),
        (None, unit) => format!("{sentence}, {unit}."),
    }
}

fn named_tuple(tuple: &Tuple) -> String {
    let mut text =
        format!("class {}(NamedTuple):\n{}\n", tuple.class, docstring(tuple.sentence, "    ", &[]));
    for figure in tuple.figures {
        let told = docstring(&meaning(figure), "    ", &[]);
        write!(text, "    {}: {}\n{told}", figure.name, array(figure)).unwrap();
    }
    text
}

fn choice(choice: &WordList) -> String {
    let words: Vec<String> = choice.words.iter().map(|word| format!("\"{word}\"")).collect();
    format!("{} = ({})\n{}", choice.name, words.join(", "), docstring(choice.sentence, "", &[]))
}

fn tuple_of(gives: &Gives) -> Option<&'static Tuple> {
    match gives {
        Gives::Tuple(t) | Gives::Rows(t) | Gives::Records(t) | Gives::State(t) | Gives::States(t, _) => {
            Some(t)
        }
        _ => None,
    }
}

fn function(module: &Module, model: &Model) -> String {
    let (mut signature, mut arguments, mut given) = (Vec::new(), Vec::new(), Vec::new());
    for argument in model.takes {
        let name = argument.name();
        match argument {
            Argument::One(p) => {
                signature.push(format!("{name}: {}", annotated(p)));
                arguments.push((name.to_owned(), told(p)));
            }
            Argument::Group(group) => {
                let usual = group.values.first().map(|(value, ..)| format!(" = {value}")).unwrap_or_default();
                signature.push(format!("{name}: {}{usual}", group.class));
            }
            Argument::Law(law) => signature.push(format!("{name}: {}", law.class)),
        }
        given.push(match argument {
            Argument::Law(law) => {
                let classes: Vec<&str> = law.groups.iter().map(|group| group.class).collect();
                format!("law({name}, ({}))", classes.join(", "))
            }
            _ => name.to_owned(),
        });
    }
    let mut doc = model.sentence.trim().to_owned();
    let result = match &model.gives {
        Gives::One(figure) if figure.words.is_some() => "Words".to_owned(),
        Gives::One(figure) => {
            if !figure.unit.is_empty() && !doc.to_lowercase().contains(figure.unit) {
                doc = format!("{}, {}.", doc.trim_end_matches('.'), figure.unit);
            }
            "Array".to_owned()
        }
        Gives::Row(figure) => {
            doc = format!("{}; shape (..., {}).", doc.trim_end_matches('.'), figure.name);
            "Array".to_owned()
        }
        Gives::Yes(_) => "NDArray[np.bool_]".to_owned(),
        other => tuple_of(other).unwrap().class.to_owned(),
    };
    let name = format!("\"{}.{}\"", module.name, model.name);
    let call = [name].into_iter().chain(given).collect::<Vec<_>>().join(", ");
    let body = match &model.gives {
        Gives::One(figure) if figure.words.is_none() => format!("    return one({call})\n"),
        Gives::Row(_) => format!("    return one({call})\n"),
        Gives::One(_) | Gives::Yes(_) => {
            format!("    result: {result} = several({call})[0]\n    return result\n")
        }
        _ => format!("    return {result}(*several({call}))\n"),
    };
    let line = format!("def {}({}) -> {result}:", model.name, signature.join(", "));
    let head = if line.chars().count() <= 120 {
        line
    } else if signature.join(", ").chars().count() <= 116 {
        format!("def {}(\n    {}\n) -> {result}:", model.name, signature.join(", "))
    } else {
        format!("def {}(\n    {},\n) -> {result}:", model.name, signature.join(",\n    "))
    };
    format!("{head}\n{}{body}", docstring(&doc, "    ", &arguments))
}

/// A module of the package.
fn source(module: &Module) -> String {
    let (mut parts, mut seen) = (Vec::new(), BTreeSet::new());
    for model in module.models {
        for figure in model.gives.figures() {
            if let Some(words) = figure.words.filter(|words| seen.insert(words.name)) {
                parts.push(choice(words));
            }
        }
        for argument in model.takes {
            match argument {
                Argument::Group(group) if seen.insert(group.class) => parts.push(class_of(group)),
                Argument::Law(law) if seen.insert(law.class) => parts.push(union_of(law)),
                _ => {}
            }
        }
        if let Some(tuple) = tuple_of(&model.gives).filter(|tuple| seen.insert(tuple.class)) {
            parts.push(named_tuple(tuple));
        }
    }
    parts.extend(module.models.iter().map(|model| function(module, model)));
    let body = parts.join("\n\n");
    let mut text = format!(
        "\"\"\"{}\n\"\"\"\n\n# Made from crates/models/src/declared: \
         NARROWS_WRITE=1 cargo test -p narrows-models --test it python\n\nfrom __future__ import annotations\n\n",
        code(module.sentence)
    );
    if body.contains("@dataclass") {
        text += "from dataclasses import dataclass\n";
    }
    let typing: Vec<&str> = ["NamedTuple", "Union"].into_iter().filter(|name| body.contains(name)).collect();
    if !typing.is_empty() {
        writeln!(text, "from typing import {}", typing.join(", ")).unwrap();
    }
    if text.ends_with(|c| c != '\n') || !text.ends_with("\n\n") {
        text.push('\n');
    }
    if body.contains("NDArray") {
        text += "import numpy as np\nfrom numpy.typing import ArrayLike, NDArray\n\n";
    } else {
        text += "from numpy.typing import ArrayLike\n\n";
    }
    let uses = |word: &str| match word {
        "Array" | "Words" => body.contains(&format!(" {word}")),
        _ => body.contains(&format!(" {word}(")) || body.contains(&format!("*{word}(")),
    };
    let used: Vec<&str> =
        ["Array", "Words", "law", "one", "several"].into_iter().filter(|w| uses(w)).collect();
    write!(text, "from narrows.models.vectorised import {}\n\n\n", used.join(", ")).unwrap();
    text + &body
}
