//! Models as data: name, arguments with unit, range, default and sentence, results, and the function between them. The
//! command line, the Python package and `docs/reference/models.md` are made of these declarations.
//!
//! Numbers are `f64` in the unit that ends an argument's name; NaN stands for an argument that is left out. Ranges are
//! those that the functions of the papers' modules refuse beyond; `tests/it/declared.rs` holds one against the other.

pub mod aimd;
mod arguments;
pub mod burst;
pub mod control;
pub mod operating;
mod plan;
pub mod sharing;
pub mod spreading;
pub mod taq_chain;
pub mod throughput;
pub mod yardsticks;

use core::fmt;

pub use arguments::{Arguments, Refused, Slots};

/// Numbers that an argument may have; what depends on another argument is told by its function alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Domain {
    low: f64,
    /// Whether `low` itself is out.
    above: bool,
    high: f64,
    /// Whether `high` itself is out.
    below: bool,
    whole: bool,
}

/// Any number.
pub(crate) const ANY: Domain = to(f64::NEG_INFINITY, f64::INFINITY);
/// A finite number above 0.
pub(crate) const POSITIVE: Domain = to(0.0, f64::INFINITY).without_low();
/// A share: 0 to 1.
pub(crate) const SHARE: Domain = to(0.0, 1.0);

/// Domain from `low` to `high`, both ends included.
pub(crate) const fn to(low: f64, high: f64) -> Domain {
    Domain { low, above: false, high, below: false, whole: false }
}

impl Domain {
    /// Leaves `low` out.
    pub(crate) const fn without_low(self) -> Self {
        Self { above: true, ..self }
    }

    /// Leaves `high` out.
    pub(crate) const fn without_high(self) -> Self {
        Self { below: true, ..self }
    }

    /// Whole numbers alone.
    pub(crate) const fn whole(self) -> Self {
        Self { whole: true, ..self }
    }

    /// Whether `value` lies inside; never NaN.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        let low = if self.above { value > self.low } else { value >= self.low };
        let high = if self.below { value < self.high } else { value <= self.high };
        low && high && (!self.whole || value.fract() == 0.0)
    }

    /// Numbers next to the ends, on the outer side, and one that is not whole where whole ones are expected.
    #[must_use]
    pub fn outside(&self) -> Vec<f64> {
        let low = if self.above { self.low } else { self.low - (0.01 * self.low.abs()).max(1e-9) };
        let high = if self.below { self.high } else { self.high + (0.01 * self.high.abs()).max(1e-9) };
        let mut outside: Vec<f64> = [low, high].into_iter().filter(|x| x.is_finite()).collect();
        if self.whole {
            outside.push(if self.low.is_finite() { self.low + 0.5 } else { 0.5 });
        }
        outside
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = if self.whole { "whole, " } else { "" };
        match (self.low.is_finite(), self.high.is_finite()) {
            (false, false) => f.write_str(whole.trim_end_matches(", ")),
            (true, false) if self.above => write!(f, "{whole}above {}", self.low),
            (true, false) => write!(f, "{whole}{} or more", self.low),
            (false, true) => write!(f, "{whole}at most {}", self.high),
            (true, true) => {
                let (low, high) =
                    (if self.above { "above " } else { "" }, if self.below { "below " } else { "" });
                let number = |x: f64| {
                    if x.abs() >= 1e6 || (x != 0.0 && x.abs() < 1e-3) {
                        format!("{x:e}")
                    } else {
                        x.to_string()
                    }
                };
                write!(f, "{whole}{low}{} to {high}{}", number(self.low), number(self.high))
            }
        }
    }
}

/// Form of an argument.
#[derive(Clone, Copy, Debug)]
pub enum ArgumentKind {
    /// A number, with one that makes sense.
    Number(Domain, f64),
    /// A row of numbers, the last axis of an array, and what it has one of for each.
    Row(Domain, &'static [f64], &'static str),
    /// Rows of numbers of equal length: the last two axes.
    Grid(&'static [f64], &'static str),
    /// One word of a list, each word with its meaning.
    Word(&'static [(&'static str, &'static str)]),
    /// Yes or no.
    Flag,
}

/// Value of an argument that is not given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Usual {
    /// No default: the argument has to be given.
    Required,
    /// The number given.
    Number(f64),
    /// The word given.
    Word(&'static str),
    /// A flag that is not set.
    No,
    /// The argument is left out by default; the words say what that means.
    None(&'static str),
}

/// An argument of a model.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Name of the argument, with the unit at the end.
    pub name: &'static str,
    /// Unit: empty for shares, factors and counts of what the name says.
    pub unit: &'static str,
    /// Form and range.
    pub kind: ArgumentKind,
    /// Default.
    pub usual: Usual,
    /// Meaning.
    pub sentence: &'static str,
}

/// Arguments that belong together: a dataclass in Python.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentGroup {
    /// Name of the argument.
    pub name: &'static str,
    /// Name of the class.
    pub class: &'static str,
    /// Members.
    pub takes: &'static [Argument],
    /// Named values: name, members that differ from the defaults as Python code, meaning. The first is the argument's
    /// default.
    pub values: &'static [(&'static str, &'static str, &'static str)],
    /// Meaning.
    pub sentence: &'static str,
}

/// An argument that is one of several groups.
#[derive(Clone, Copy, Debug)]
pub struct Law {
    /// Name of the argument.
    pub name: &'static str,
    /// Name of the union in Python.
    pub class: &'static str,
    /// Groups to choose from.
    pub groups: &'static [ArgumentGroup],
    /// Name of each group, with the group's meaning if the name needs an explanation.
    pub words: &'static [(&'static str, &'static str)],
}

/// Place in a model's signature.
#[derive(Clone, Copy, Debug)]
pub enum Argument {
    /// An argument.
    One(Parameter),
    /// Several arguments that belong together.
    Group(&'static ArgumentGroup),
    /// An argument that is one of several groups.
    Law(&'static Law),
}

/// Ends of names that say a unit, and the unit.
const UNITS: [(&str, &str); 6] = [
    ("_s", "s"),
    ("_bps", "bit/s"),
    ("_pps", "packets/s"),
    ("bytes", "bytes"),
    ("packets", "packets"),
    ("_epochs", "epochs"),
];

const fn ends_with(name: &str, end: &str) -> bool {
    let (name, end) = (name.as_bytes(), end.as_bytes());
    if name.len() < end.len() {
        return false;
    }
    let mut i = 0;
    while i < end.len() {
        if name[name.len() - end.len() + i] != end[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// Unit that a name ends in.
const fn unit(name: &str) -> &'static str {
    let mut i = 0;
    while i < UNITS.len() {
        if ends_with(name, UNITS[i].0) {
            return UNITS[i].1;
        }
        i += 1;
    }
    ""
}

const fn one(name: &'static str, kind: ArgumentKind, usual: Usual) -> Argument {
    Argument::One(Parameter { name, unit: unit(name), kind, usual, sentence: "" })
}

/// A number in a range, and one that makes sense.
pub(crate) const fn number(name: &'static str, range: Domain, example: f64) -> Argument {
    one(name, ArgumentKind::Number(range, example), Usual::Required)
}

/// A row of numbers in a range, one for each `of`.
pub(crate) const fn row(
    name: &'static str,
    range: Domain,
    example: &'static [f64],
    of: &'static str,
) -> Argument {
    one(name, ArgumentKind::Row(range, example, of), Usual::Required)
}

/// One of some words, the first unless said.
pub(crate) const fn word(name: &'static str, words: &'static [(&'static str, &'static str)]) -> Argument {
    one(name, ArgumentKind::Word(words), Usual::Word(words[0].0))
}

/// Yes or no; no unless said.
pub(crate) const fn flag(name: &'static str) -> Argument {
    one(name, ArgumentKind::Flag, Usual::No)
}

impl Argument {
    const fn with(
        self,
        unit: Option<&'static str>,
        usual: Option<Usual>,
        sentence: Option<&'static str>,
    ) -> Self {
        match self {
            Self::One(mut p) => {
                if let Some(unit) = unit {
                    p.unit = unit;
                }
                if let Some(usual) = usual {
                    p.usual = usual;
                }
                if let Some(sentence) = sentence {
                    p.sentence = sentence;
                }
                Self::One(p)
            }
            other => other,
        }
    }

    /// Sets the unit of an argument whose name does not contain the unit.
    pub(crate) const fn unit(self, unit: &'static str) -> Self {
        self.with(Some(unit), None, None)
    }

    /// Default.
    pub(crate) const fn or(self, usual: f64) -> Self {
        self.with(None, Some(Usual::Number(usual)), None)
    }

    /// Default of a word.
    pub(crate) const fn or_word(self, usual: &'static str) -> Self {
        self.with(None, Some(Usual::Word(usual)), None)
    }

    /// Allows none, with the meaning of that.
    pub(crate) const fn or_none(self, stands_for: &'static str) -> Self {
        self.with(None, Some(Usual::None(stands_for)), None)
    }

    /// Meaning.
    pub(crate) const fn sentence(self, sentence: &'static str) -> Self {
        self.with(None, None, Some(sentence))
    }

    /// Name of the argument.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::One(p) => p.name,
            Self::Group(g) => g.name,
            Self::Law(l) => l.name,
        }
    }

    /// Default of a number; NaN if there is none.
    #[must_use]
    pub const fn default_number(&self) -> f64 {
        match self.parameter().usual {
            Usual::Number(number) => number,
            _ => f64::NAN,
        }
    }

    /// Words that the argument may be, each word with its meaning.
    #[must_use]
    pub const fn words(&self) -> &'static [(&'static str, &'static str)] {
        match self.parameter().kind {
            ArgumentKind::Word(words) => words,
            _ => &[],
        }
    }

    /// Parameter, if it is one alone.
    ///
    /// # Panics
    /// A group is asked, which no declaration does: each is evaluated when it is compiled.
    #[must_use]
    pub const fn parameter(&self) -> Parameter {
        match self {
            Self::One(p) => *p,
            _ => panic!("a group is no parameter"),
        }
    }
}

impl Parameter {
    /// Name without its unit: as an option of the command line and as errors have it.
    #[must_use]
    pub fn bare(&self) -> &'static str {
        let bare = ["_s", "_bps", "_pps", "_bytes", "_packets", "_epochs"]
            .into_iter()
            .find_map(|end| self.name.strip_suffix(end));
        bare.unwrap_or(self.name)
    }

    /// Meaning, unit and range, as `Size of a packet (bytes, 64 to 65535)`.
    #[must_use]
    pub fn told(&self) -> String {
        let range = match self.kind {
            ArgumentKind::Number(range, _) | ArgumentKind::Row(range, ..) => range.to_string(),
            _ => String::new(),
        };
        let sentence = self.sentence.trim().trim_end_matches('.');
        let parts = [self.unit, &range].into_iter().filter(|part| !part.is_empty());
        let parts = parts.collect::<Vec<_>>().join(", ");
        if parts.is_empty() { sentence.to_owned() } else { format!("{sentence} ({parts})") }
    }
}

/// Words that stand for the numbers from 0 on.
#[derive(Clone, Copy, Debug)]
pub struct WordList {
    /// Name of the list in Python.
    pub name: &'static str,
    /// Words, in order.
    pub words: &'static [&'static str],
    /// Meaning.
    pub sentence: &'static str,
}

/// A result.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Name of the result, with the unit at the end.
    pub name: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// Words instead of numbers.
    pub words: Option<&'static WordList>,
    /// Meaning.
    pub sentence: &'static str,
}

/// Results that belong together: a named tuple in Python.
#[derive(Clone, Copy, Debug)]
pub struct Tuple {
    /// Name of the class.
    pub class: &'static str,
    /// Members.
    pub figures: &'static [Output],
    /// Meaning.
    pub sentence: &'static str,
}

/// Form of a model's results.
#[derive(Clone, Copy, Debug)]
pub enum Gives {
    /// A number.
    One(Output),
    /// Yes or no.
    Yes(Output),
    /// A row of numbers, whose length may differ.
    Row(Output),
    /// Several numbers.
    Tuple(&'static Tuple),
    /// Rows of equal length, one for each figure.
    Rows(&'static Tuple),
    /// Numbers for each of several things, by thing.
    Records(&'static Tuple),
    /// A number, and a row of numbers.
    State(&'static Tuple),
    /// States, one more than the argument named here.
    States(&'static Tuple, &'static str),
}

impl Gives {
    /// Figures, in order.
    #[must_use]
    pub fn figures(&self) -> Vec<Output> {
        match self {
            Self::One(figure) | Self::Yes(figure) | Self::Row(figure) => vec![*figure],
            Self::Tuple(t) | Self::Rows(t) | Self::Records(t) | Self::State(t) | Self::States(t, _) => {
                t.figures.to_vec()
            }
        }
    }
}

/// A result alone.
pub(crate) const fn figure(name: &'static str, sentence: &'static str) -> Output {
    Output { name, unit: unit(name), words: None, sentence }
}

/// A model: one function of a paper.
#[derive(Clone, Copy)]
pub struct Model {
    /// Name.
    pub name: &'static str,
    /// Function of this crate behind the model, by the function's path within the module.
    pub function: &'static str,
    /// Arguments.
    pub takes: &'static [Argument],
    /// Results.
    pub gives: Gives,
    /// Meaning.
    pub sentence: &'static str,
    /// The computation.
    call: fn(&Arguments<'_>) -> Result<Vec<f64>, Refused>,
}

/// Models of a paper.
#[derive(Clone, Copy)]
pub struct Module {
    /// Name.
    pub name: &'static str,
    /// Meaning, source and page.
    pub sentence: &'static str,
    /// Models of the module.
    pub models: &'static [Model],
}

/// All modules, in the order of the documents.
pub const MODULES: [Module; 12] = [
    aimd::MODULE,
    yardsticks::BUFFERS,
    burst::MODULE,
    control::MODULE,
    yardsticks::FAIRNESS,
    yardsticks::LATENCY,
    operating::MODULE,
    plan::MODULE,
    sharing::MODULE,
    spreading::MODULE,
    taq_chain::MODULE,
    throughput::MODULE,
];

/// Finds a model by its full name, as `aimd.efficiency`.
#[must_use]
pub fn model(name: &str) -> Option<&'static Model> {
    let (module, name) = name.split_once('.')?;
    let module = MODULES.iter().find(|m| m.name == module)?;
    module.models.iter().find(|m| m.name == name)
}

/// Declares arguments, each with its sentence above it.
macro_rules! parameters {
    ($($(#[doc = $doc:literal])+ $vis:vis $NAME:ident = $argument:expr;)*) => {
        $($(#[doc = $doc])+
        $vis const $NAME: $crate::declared::Argument = $argument.sentence(concat!($($doc, "\n"),+));)*
    };
}

/// Groups: name of the constant, of the class and of the argument, members, and named values.
macro_rules! groups {
    ($($(#[doc = $doc:literal])+ $vis:vis $NAME:ident = $class:ident $name:ident [$($member:expr),* $(,)?]
        $($(#[doc = $told:literal])+ $value:ident($code:literal))*;)*) => {
        $($vis const $NAME: $crate::declared::Argument =
            $crate::declared::Argument::Group(&$crate::declared::ArgumentGroup {
            name: stringify!($name),
            class: stringify!($class),
            takes: &[$($member),*],
            values: &[$((stringify!($value), $code, concat!($($told, "\n"),+))),*],
            sentence: concat!($($doc, "\n"),+),
        });)*
    };
}

/// Results that belong together, each with its sentence above it and, where its name has none, its unit.
macro_rules! tuples {
    ($($(#[doc = $doc:literal])+ $vis:vis $NAME:ident = $class:ident {
        $($(#[doc = $told:literal])+ $figure:ident $(in $unit:literal)? $(of $choice:expr)?,)* })*) => {
        $($vis const $NAME: $crate::declared::Tuple = $crate::declared::Tuple {
            class: stringify!($class),
            figures: &[$({
                #[allow(unused_mut, reason = "figures without unit and words of their own")]
                let mut figure = $crate::declared::figure(stringify!($figure), concat!($($told, "\n"),+));
                $(figure.unit = $unit;)?
                $(figure.words = Some($choice);)?
                figure
            }),*],
            sentence: concat!($($doc, "\n"),+),
        };)*
    };
}

/// Models of a module: name, arguments, results, function, and the computation.
macro_rules! models {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident($($take:expr),* $(,)?) -> $gives:expr, $function:literal, |$a:ident| $body:expr;
    )*) => {
        &[$($crate::declared::Model {
            name: stringify!($name),
            function: $function,
            takes: &[$($take),*],
            gives: $gives,
            sentence: concat!($($doc, "\n"),+),
            call: |$a| Ok($crate::declared::arguments::Numbers::list($body)),
        }),*]
    };
}
use {groups, models, parameters, tuples};
