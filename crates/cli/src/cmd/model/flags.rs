//! Flags of the models as clap has them, from the arguments that `narrows_models::declared` has.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use narrows_models::declared::Argument;

/// Struct of flags. `field: type = ARGUMENT` takes help, unit and range from the declaration; a doc comment stands for
/// it where the model has no such argument; brackets hold more attributes for clap. `@field: type` are flags of another
/// struct.
macro_rules! flags {
    ($(#[doc = $doc:literal])* $vis:vis struct $Name:ident {
        $($(#[doc = $told:literal])* $field:ident: $type:ty $(= $argument:ident)? $([$($more:tt)*])?;)*
        $(@$group:ident: $of:ty;)*
    }) => {
        // Not documentation: clap would take it for that of the command it is part of.
        #[derive(clap::Args)]
        $vis struct $Name {
            $($(#[doc = $told])*
            #[arg(
                long,
                $(help = $crate::cmd::model::help(&$argument), value_name = $crate::cmd::model::unit(&$argument),)?
                allow_negative_numbers = true
                $(, $($more)*)?
            )]
            $field: $type,)*
            $(#[command(flatten)]
            $group: $of,)*
        }
    };
}

/// Help of a flag: meaning, unit and range, in the words of the reference.
pub fn help(argument: &Argument) -> String {
    argument.parameter().told()
}

/// Name of a value.
pub fn unit(argument: &Argument) -> &'static str {
    match argument.parameter().unit {
        "s" => "SECONDS",
        "bit/s" => "RATE",
        "bytes" => "BYTES",
        "packets" => "PACKETS",
        "segments" => "SEGMENTS",
        "epochs" => "EPOCHS",
        _ => {
            if argument.words().is_empty() {
                "NUMBER"
            } else {
                "WORD"
            }
        }
    }
}

/// A number that a flag holds.
pub trait Held {
    fn held(number: f64) -> Self;
}

impl Held for f64 {
    fn held(number: f64) -> Self {
        number
    }
}

impl Held for u32 {
    fn held(number: f64) -> Self {
        number as Self
    }
}

impl Held for u64 {
    fn held(number: f64) -> Self {
        number as Self
    }
}

impl Held for i64 {
    fn held(number: f64) -> Self {
        number as Self
    }
}

/// Default of an argument.
pub fn usual<T: Held>(argument: &Argument) -> T {
    T::held(argument.default_number())
}

/// Reads one of an argument's words, as its place among them. Other names of some words go on being understood.
pub fn word(
    argument: &Argument,
    others: &'static [(&'static str, &'static str)],
) -> impl TypedValueParser<Value = usize> {
    let words = argument.words();
    let possible = words.iter().map(|(word, means)| {
        let other = others.iter().filter(|(_, of)| of == word).map(|(other, _)| *other);
        PossibleValue::new(*word).help(*means).aliases(other)
    });
    PossibleValuesParser::new(possible.collect::<Vec<_>>()).map(move |given: String| {
        let known = others.iter().find(|(other, _)| *other == given).map_or(given.as_str(), |(_, word)| word);
        words.iter().position(|(word, _)| *word == known).unwrap_or_default()
    })
}
