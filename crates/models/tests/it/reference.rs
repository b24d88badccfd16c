//! docs/reference/models.md: every model with its arguments and results.

use std::fmt::Write as _;

use narrows_models::declared::{
    Argument, ArgumentGroup, ArgumentKind, Gives, MODULES, Model, Parameter, Usual,
};

use super::hold;

#[test]
fn the_page_is_that_of_the_declarations() {
    let mut page = "# Models\n\nAfter this page you can ask any model of the papers, by command or from Python.\n\n\
                    Every model of `narrows.models` ([Python](../how-to/python.md)) with its arguments and results; \
                    `narrows model` asks the usual ones of them together. [What they \
                    say](../explanation/models/README.md) and how far off they are.\n\nMade from the declarations in \
                    `crates/models/src/declared` by \
                    `NARROWS_WRITE=1 cargo test -p narrows-models --test it reference`.\n"
        .to_owned();
    for module in &MODULES {
        let title = module.sentence.split("\n\n").next().unwrap().replace('\n', " ");
        write!(page, "\n## {}\n\n{title}\n", module.name).unwrap();
        let mut groups: Vec<&ArgumentGroup> = Vec::new();
        for model in module.models {
            for argument in model.takes {
                let more: Vec<&ArgumentGroup> = match argument {
                    Argument::Group(group) => vec![group],
                    Argument::Law(law) => law.groups.iter().collect(),
                    Argument::One(_) => Vec::new(),
                };
                groups.extend(
                    more.into_iter()
                        .filter(|g| !groups.iter().any(|k| k.class == g.class))
                        .collect::<Vec<_>>(),
                );
            }
        }
        for group in groups {
            write!(page, "\n### {}.{}\n\n{}\n\n{HEAD}", module.name, group.class, line(group.sentence))
                .unwrap();
            for argument in group.takes {
                page += &row(&argument.parameter());
            }
        }
        for model in module.models {
            page += &section(module.name, model);
        }
    }
    hold("docs/reference/models.md", &page, "reference");
}

const HEAD: &str = "| argument | unit | range | default | meaning |\n|---|---|---|---|---|\n";

fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn row(p: &Parameter) -> String {
    let range = match p.kind {
        ArgumentKind::Number(range, _) => range.to_string(),
        ArgumentKind::Row(range, _, of) => format!("{range}; for each of the {of}"),
        ArgumentKind::Grid(_, axes) => format!("shape (..., {axes})"),
        ArgumentKind::Word(words) => {
            words.iter().map(|(w, means)| format!("`{w}`: {means}")).collect::<Vec<_>>().join("; ")
        }
        ArgumentKind::Flag => "yes or no".to_owned(),
    };
    let usual = match p.usual {
        Usual::Required => String::new(),
        Usual::Number(x) => x.to_string(),
        Usual::Word(word) => format!("`{word}`"),
        Usual::No => "no".to_owned(),
        Usual::None(stands_for) => format!("none: {stands_for}"),
    };
    format!("| `{}` | {} | {} | {usual} | {} |\n", p.name, p.unit, line(&range), line(p.sentence))
}

fn section(module: &str, model: &Model) -> String {
    let mut text = format!("\n### {module}.{}\n\n{}\n", model.name, line(model.sentence));
    let ones: Vec<Parameter> = model
        .takes
        .iter()
        .filter_map(|argument| if let Argument::One(p) = argument { Some(*p) } else { None })
        .collect();
    let groups: Vec<String> = model
        .takes
        .iter()
        .filter_map(|argument| match argument {
            Argument::Group(group) => Some(format!("`{}` ({})", group.name, group.class)),
            Argument::Law(law) => Some(format!("`{}` ({})", law.name, law.class)),
            Argument::One(_) => None,
        })
        .collect();
    if !ones.is_empty() {
        write!(text, "\n{HEAD}").unwrap();
        text.extend(ones.iter().map(row));
    }
    if !groups.is_empty() {
        writeln!(text, "\nThe function also takes the arguments of {}.", groups.join(" and of ")).unwrap();
    }
    match &model.gives {
        Gives::One(_) | Gives::Yes(_) | Gives::Row(_) => {
            let figure = model.gives.figures()[0];
            let unit = if figure.unit.is_empty() { String::new() } else { format!(" ({})", figure.unit) };
            let of = if matches!(model.gives, Gives::Row(_)) { "a row of " } else { "" };
            writeln!(text, "\nGives {of}`{}`{unit}: {}", figure.name, line(figure.sentence)).unwrap();
        }
        _ => {
            text += "\n| result | unit | meaning |\n|---|---|---|\n";
            for figure in model.gives.figures() {
                writeln!(text, "| `{}` | {} | {} |", figure.name, figure.unit, line(figure.sentence))
                    .unwrap();
            }
        }
    }
    text
}
