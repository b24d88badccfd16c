//! Arguments of a model at one element of arrays, and how they are refused.

use core::cell::RefCell;
use core::fmt;
use core::ops::Index;

use narrows_units::{Bytes, Duration, Rate};

use super::{Argument, ArgumentKind, Law, Model, Parameter, Usual, number, row};
use crate::spreading::{self, Parameters, Spreading};
use crate::{Error, Result as Of};

/// Argument that a model cannot be computed for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The argument.
    pub parameter: &'static str,
    /// Value of the argument, and what was expected.
    pub problem: String,
}

impl Refused {
    fn new(parameter: &'static str, value: f64, expected: &str) -> Self {
        Self { parameter, problem: format!("= {value}: expected {expected}") }
    }

    /// Refusal with another name of the argument.
    pub(super) fn of(self, argument: Argument) -> Self {
        Self { parameter: argument.name(), ..self }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::new(error.parameter, error.value, error.expected)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.parameter, self.problem)
    }
}
impl std::error::Error for Refused {}

/// Arguments of a model in the order in which they are handed over: numbers, rows, and words.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    /// Numbers.
    pub numbers: Vec<Parameter>,
    /// Rows; of a grid, its rows in one, and their length is a number of this name with `_width`.
    pub rows: Vec<Parameter>,
    /// Words and flags.
    pub words: Vec<Parameter>,
}

/// Numbers of a law of sizes, in the order of the law's class.
pub(crate) const LAW: [Argument; 3] = [
    number("a", super::ANY, 1000.0).or_none("the law has fewer"),
    number("b", super::ANY, 2.0).or_none("the law has fewer"),
    number("c", super::ANY, 2.0).or_none("the law has fewer"),
];
/// Row of a law of sizes.
pub(crate) const LAW_ROW: Argument = row("list", super::ANY, &[1000.0], "sizes");
/// Length of the rows of a grid.
pub(crate) const WIDTH: Argument = number("width", super::ANY, 1.0);

impl Slots {
    /// Flattens a list of arguments.
    #[must_use]
    pub fn of(takes: &[Argument]) -> Self {
        let mut slots = Self::default();
        slots.add(takes);
        slots
    }

    fn add(&mut self, takes: &[Argument]) {
        for argument in takes {
            match argument {
                Argument::One(p) => match p.kind {
                    ArgumentKind::Number(..) => self.numbers.push(*p),
                    ArgumentKind::Row(..) => self.rows.push(*p),
                    ArgumentKind::Grid(..) => {
                        self.rows.push(*p);
                        self.numbers.push(WIDTH.parameter());
                    }
                    ArgumentKind::Word(_) | ArgumentKind::Flag => self.words.push(*p),
                },
                Argument::Group(group) => self.add(group.takes),
                Argument::Law(law) => {
                    self.words.push(law.word());
                    self.add(&LAW);
                    self.add(&[LAW_ROW]);
                }
            }
        }
    }

    /// Places of the words for `given`, the default where there is none.
    ///
    /// # Errors
    /// A word that an argument does not know.
    pub fn choose<'a>(&self, given: impl Fn(&str) -> Option<&'a str>) -> Result<Vec<usize>, Refused> {
        let place = |p: &Parameter| {
            let words: &[(&str, &str)] = match p.kind {
                ArgumentKind::Word(words) => words,
                _ => &[("false", ""), ("true", "")],
            };
            let usual = if let Usual::Word(word) = p.usual { word } else { "false" };
            let word = given(p.name).unwrap_or(usual);
            words.iter().position(|(known, _)| *known == word).ok_or_else(|| {
                let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                let problem = format!("= '{word}': expected one of {}", known.join(", "));
                Refused { parameter: p.name, problem }
            })
        };
        self.words.iter().map(place).collect()
    }
}

impl Law {
    /// Word that says which group is meant.
    fn word(&self) -> Parameter {
        Parameter {
            name: self.name,
            unit: "",
            kind: ArgumentKind::Word(self.words),
            usual: Usual::Word(self.words[0].0),
            sentence: "",
        }
    }
}

/// Arguments at one element.
pub struct Arguments<'a> {
    /// Arguments as declared by the model.
    pub slots: &'a Slots,
    /// Numbers, NaN for none.
    pub numbers: &'a [f64],
    /// Rows.
    pub rows: &'a [&'a [f64]],
    /// Places of the words in the lists of words.
    pub words: &'a [usize],
    /// State that one element leaves for the next.
    pub memo: &'a RefCell<Memo>,
}

/// The last recursion of [`Spreading`], and up to how many segments it goes: most elements of an array share a path.
#[derive(Default)]
pub struct Memo(Option<(Parameters, usize, Spreading)>);

/// A number or an optional number by its declaration; a declaration that the model does not take panics, which a test
/// of all models would show.
impl Index<Argument> for Arguments<'_> {
    type Output = f64;

    fn index(&self, argument: Argument) -> &f64 {
        &self.numbers[place(&self.slots.numbers, argument)]
    }
}

fn place(slots: &[Parameter], argument: Argument) -> usize {
    let name = argument.name();
    slots.iter().position(|p| p.name == name).unwrap_or_else(|| panic!("{name} is no argument of this model"))
}

/// Greatest number up to which every whole number is an f64.
const EXACT: u64 = 1 << 53;

impl<'a> Arguments<'a> {
    /// Number given for `argument`, if there is one.
    pub(super) fn some(&self, argument: Argument) -> Option<f64> {
        let value = self[argument];
        (!value.is_nan()).then_some(value)
    }

    /// A row.
    pub(super) fn row(&self, argument: Argument) -> &'a [f64] {
        self.rows[place(&self.slots.rows, argument)]
    }

    /// Value of a word, given in the order of the words.
    pub(super) fn pick<T: Copy, const N: usize>(&self, argument: Argument, values: [T; N]) -> T {
        values[self.words[place(&self.slots.words, argument)]]
    }

    /// A flag.
    pub(super) fn flag(&self, argument: Argument) -> bool {
        self.pick(argument, [false, true])
    }

    /// Value of a number, refused if outside the declared range of the argument.
    pub(super) fn inside(&self, argument: Argument) -> Result<f64, Refused> {
        let (value, p) = (self[argument], argument.parameter());
        match p.kind {
            ArgumentKind::Number(range, _) if !range.contains(value) => {
                Err(Refused::new(p.name, value, format!("{range} {}", p.unit).trim()))
            }
            _ => Ok(value),
        }
    }

    fn whole_up_to(&self, argument: Argument, most: u64) -> Result<u64, Refused> {
        whole(argument.name(), self[argument], most)
    }

    /// A whole number.
    pub(super) fn whole(&self, argument: Argument) -> Result<u64, Refused> {
        self.whole_up_to(argument, EXACT)
    }

    /// A whole number of 32 bits.
    pub(super) fn count(&self, argument: Argument) -> Result<u32, Refused> {
        self.whole_up_to(argument, u64::from(u32::MAX)).map(|n| u32::try_from(n).unwrap_or(u32::MAX))
    }

    /// A whole number of 32 bits, if there is one.
    pub(super) fn some_count(&self, argument: Argument) -> Result<Option<u32>, Refused> {
        self.some(argument).map(|_| self.count(argument)).transpose()
    }

    /// A number of things in memory.
    pub(super) fn size(&self, argument: Argument) -> Result<usize, Refused> {
        self.whole_up_to(argument, 1 << 31).map(|n| usize::try_from(n).unwrap_or(usize::MAX))
    }

    /// Whole bytes.
    pub(super) fn bytes(&self, argument: Argument) -> Result<Bytes, Refused> {
        self.whole(argument).map(Bytes)
    }

    /// A rate in bit/s.
    pub(super) fn rate(&self, argument: Argument) -> Result<Rate, Refused> {
        rate(argument.name(), self[argument])
    }

    /// A time in seconds, to the nanosecond.
    pub(super) fn time(&self, argument: Argument) -> Result<Duration, Refused> {
        time(argument.name(), self[argument])
    }

    /// Asks the recursion for a path and at least `i` segments.
    pub(super) fn spreading<T>(
        &self,
        parameters: Parameters,
        i: usize,
        ask: impl FnOnce(&Spreading) -> Of<T>,
    ) -> Result<T, Refused> {
        let mut memo = self.memo.borrow_mut();
        let model = match memo.0.take() {
            Some((known, most, model)) if known == parameters && most >= i => (known, most, model),
            // With room to grow: a curve over sizes asks for one after the other.
            _ => {
                let most = i.next_power_of_two().clamp(16, spreading::MOST_SEGMENTS).max(i);
                (parameters, most, Spreading::new(parameters, most)?)
            }
        };
        let answer = ask(&model.2)?;
        memo.0 = Some(model);
        Ok(answer)
    }
}

fn whole(parameter: &'static str, value: f64, most: u64) -> Result<u64, Refused> {
    if value.fract() == 0.0 && value >= 0.0 && value <= most as f64 {
        return Ok(value as u64);
    }
    Err(Refused::new(parameter, value, &format!("a whole number from 0 to {most}")))
}

/// A rate in bit/s.
pub(super) fn rate(parameter: &'static str, value: f64) -> Result<Rate, Refused> {
    if value < 1.0 {
        return Err(Refused::new(parameter, value, "1 bit/s or more"));
    }
    whole(parameter, value.round(), EXACT).map(Rate::from_bps)
}

/// A time in seconds, to the nanosecond, up to 10^9 s: 30 years.
pub(super) fn time(parameter: &'static str, value: f64) -> Result<Duration, Refused> {
    if !(0.0..=1e9).contains(&value) {
        return Err(Refused::new(parameter, value, "0 to 1e9 seconds"));
    }
    Ok(Duration::from_nanos((value * 1e9).round() as u64))
}

/// Results as numbers; NaN where there is none.
pub(super) trait Numbers {
    fn list(self) -> Vec<f64>;
}

impl Numbers for f64 {
    fn list(self) -> Vec<f64> {
        vec![self]
    }
}

impl Numbers for bool {
    fn list(self) -> Vec<f64> {
        vec![f64::from(u8::from(self))]
    }
}

impl Numbers for Option<f64> {
    fn list(self) -> Vec<f64> {
        vec![self.unwrap_or(f64::NAN)]
    }
}

impl Numbers for Vec<f64> {
    fn list(self) -> Vec<f64> {
        self
    }
}

impl<const N: usize> Numbers for [f64; N] {
    fn list(self) -> Vec<f64> {
        self.to_vec()
    }
}

impl Model {
    /// Results for `arguments`.
    ///
    /// # Errors
    /// An argument outside its range, by its name as it is declared; NaN where a number is needed.
    pub fn evaluate(&self, arguments: &Arguments<'_>) -> Result<Vec<f64>, Refused> {
        for (p, value) in arguments.slots.numbers.iter().zip(arguments.numbers) {
            if value.is_nan() && !matches!(p.usual, Usual::None(_)) {
                return Err(Refused::new(p.name, *value, "a number"));
            }
        }
        for (p, row) in arguments.slots.rows.iter().zip(arguments.rows) {
            if let Some(at) = row.iter().position(|x| x.is_nan()) {
                let problem = format!("= NaN at place {at} of its row: expected a number");
                return Err(Refused { parameter: p.name, problem });
            }
        }
        (self.call)(arguments).map_err(|refused| {
            let slots = arguments.slots.numbers.iter().chain(&arguments.slots.rows);
            let known = slots.clone().find(|p| p.name == refused.parameter);
            let meant = known.or_else(|| slots.clone().find(|p| p.bare() == refused.parameter));
            Refused { parameter: meant.map_or(refused.parameter, |p| p.name), ..refused }
        })
    }
}
