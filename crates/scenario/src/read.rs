//! Reading a table key by key: every value typed, every mistake named, no key unnoticed.

use std::cell::RefCell;

use narrows_units::{Duration, Rate};
use toml::{Table, Value};

use crate::{Error, Size, quantity};
use narrows_settings::{nearest, one_of};

/// A table and where it stands in the file. Keys asked for are known keys; [`Reader::finish`] refuses all others.
pub(crate) struct Reader<'a> {
    table: &'a Table,
    path: String,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(table: &'a Table, path: impl Into<String>) -> Self {
        Self { table, path: path.into(), asked: RefCell::default() }
    }

    /// The dotted path of a key.
    pub(crate) fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The value of `key`, which thereby is a known key.
    pub(crate) fn value(&self, key: &'static str) -> Option<&'a Value> {
        self.asked.borrow_mut().push(key);
        self.table.get(key)
    }

    pub(crate) fn has(&self, key: &'static str) -> bool {
        self.value(key).is_some()
    }

    /// `key = what stands there: expected ...`.
    pub(crate) fn wrong(&self, key: &str, expected: impl core::fmt::Display) -> Error {
        match self.table.get(key) {
            Some(v) => Error::value(&self.path(key), shown(v), expected),
            // Perhaps it is there under another name.
            None => match nearest(key, self.unasked()) {
                Some(near) => Error::new(self.path(near), format!("no such key: expected '{key}'?")),
                None => Error::new(self.path(key), format!("is missing: expected {expected}")),
            },
        }
    }

    /// A value through `read`, or `default` if there is none.
    pub(crate) fn or<T>(
        &self,
        key: &'static str,
        default: T,
        read: impl Fn(&Self, &'static str) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        Ok(read(self, key)?.unwrap_or(default))
    }

    /// A value through `read`; without it, an error that says what is expected.
    pub(crate) fn must<T>(
        &self,
        key: &'static str,
        expected: &str,
        read: impl Fn(&Self, &'static str) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        read(self, key)?.ok_or_else(|| self.wrong(key, expected))
    }

    pub(crate) fn text(&self, key: &'static str) -> Result<Option<&'a str>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s)),
            Some(_) => Err(self.wrong(key, "text in quotes")),
        }
    }

    /// Reads text through a parser; a parser that fails says what the parser expected.
    pub(crate) fn parsed<T>(
        &self,
        key: &'static str,
        expected: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(s)) => parse(s).map(Some).map_err(|e| self.wrong(key, e)),
            Some(_) => Err(self.wrong(key, expected)),
        }
    }

    pub(crate) fn time(&self, key: &'static str) -> Result<Option<Duration>, Error> {
        self.parsed(key, "a time with its unit, as \"200ms\" or \"10s\"", |text| match text.contains("..") {
            true => Err("one time, not a range, as \"200ms\"".to_owned()),
            false => quantity::time(text),
        })
    }

    /// A time above zero.
    pub(crate) fn positive_time(&self, key: &'static str) -> Result<Option<Duration>, Error> {
        match self.time(key)? {
            Some(Duration::ZERO) => Err(self.wrong(key, "a time above 0")),
            t => Ok(t),
        }
    }

    /// A time, or a range of times as `190ms..210ms`.
    pub(crate) fn times(&self, key: &'static str) -> Result<Option<(Duration, Duration)>, Error> {
        let expected = "a time or a range of times with its unit, as \"200ms\" or \"190ms..210ms\"";
        let pair = self.parsed(key, expected, |text| match text.split_once("..") {
            Some((low, high)) => Ok((quantity::time(low)?, quantity::time(high)?)),
            None => quantity::time(text).map(|t| (t, t)),
        })?;
        match pair {
            Some((low, high)) if low > high => Err(self.wrong(key, "the lesser time first")),
            pair => Ok(pair),
        }
    }

    pub(crate) fn rate(&self, key: &'static str) -> Result<Option<Rate>, Error> {
        let expected = "a rate in quotes, a number above 0 and a unit, as \"600kbit\" or \"2mbit\"";
        match self.value(key) {
            None => Ok(None),
            // An expression gives a number of bits per second.
            Some(Value::Integer(bps)) if (1..=1_000_000_000_000).contains(bps) => {
                Ok(Some(Rate::from_bps(bps.unsigned_abs())))
            }
            Some(Value::String(s)) => s.parse().map(Some).map_err(|_| self.wrong(key, expected)),
            Some(_) => Err(self.wrong(key, expected)),
        }
    }

    pub(crate) fn size(&self, key: &'static str) -> Result<Option<Size>, Error> {
        let expected = "a size or a law of sizes, as \"64kB\" or \"pareto:mean=10kB,shape=1.2\"";
        match self.value(key) {
            Some(Value::Integer(n)) => match n.to_string().parse() {
                Ok(size) => Ok(Some(size)),
                Err(e) => Err(self.wrong(key, e)),
            },
            Some(Value::Array(list)) if list.iter().all(|v| matches!(v, Value::Integer(1..))) => {
                let sizes: Vec<u64> =
                    list.iter().filter_map(Value::as_integer).map(i64::unsigned_abs).collect();
                if sizes.is_empty() {
                    Err(self.wrong(key, expected))
                } else {
                    Ok(Some(Size::List(sizes.into())))
                }
            }
            _ => self.parsed(key, expected, str::parse),
        }
    }

    /// A number of bytes, `64kB` or bare; zero only where `zero` says so.
    pub(crate) fn bytes(&self, key: &'static str, zero: bool) -> Result<Option<u64>, Error> {
        let expected = if zero { "a size in bytes, 0 or more" } else { "a size in bytes above 0" };
        match self.value(key) {
            Some(Value::Integer(0)) if zero => Ok(Some(0)),
            Some(Value::Integer(n)) => match quantity::bytes(&n.to_string()) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(_) => Err(self.wrong(key, expected)),
            },
            _ => self.parsed(key, expected, |t| quantity::bytes(t).map_err(|_| expected.to_owned())),
        }
    }

    /// A whole number within a range.
    pub(crate) fn count(&self, key: &'static str, low: u32, high: u32) -> Result<Option<u32>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Integer(n)) if (i64::from(low)..=i64::from(high)).contains(n) => {
                // Inside the range of u32 by the guard.
                Ok(u32::try_from(*n).ok())
            }
            Some(Value::Float(_)) => Err(self.wrong(
                key,
                format!(
                    "a whole number from {low} to {high}; in an expression use round(), floor() or ceil()"
                ),
            )),
            Some(_) => Err(self.wrong(key, format!("a whole number from {low} to {high}"))),
        }
    }

    /// A number for which `fits` holds.
    pub(crate) fn number(
        &self,
        key: &'static str,
        expected: &str,
        fits: impl Fn(f64) -> bool,
    ) -> Result<Option<f64>, Error> {
        let number = match self.value(key) {
            None => return Ok(None),
            Some(Value::Integer(n)) => *n as f64,
            Some(Value::Float(x)) => *x,
            Some(_) => f64::NAN,
        };
        if number.is_finite() && fits(number) { Ok(Some(number)) } else { Err(self.wrong(key, expected)) }
    }

    pub(crate) fn flag(&self, key: &'static str) -> Result<Option<bool>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Boolean(b)) => Ok(Some(*b)),
            Some(_) => Err(self.wrong(key, "true or false")),
        }
    }

    /// Reads one word of `words`, as the value that the word stands for.
    pub(crate) fn word<T: Copy>(&self, key: &'static str, words: &[(&str, T)]) -> Result<Option<T>, Error> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        if let Some((_, value)) = words.iter().find(|(w, _)| *w == text) {
            return Ok(Some(*value));
        }
        Err(self.wrong(key, one_of(text, words.iter().map(|(w, _)| *w))))
    }

    /// The elements of an array.
    pub(crate) fn list(&self, key: &'static str, expected: &str) -> Result<Option<&'a [Value]>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(_) => Err(self.wrong(key, expected)),
        }
    }

    /// A table.
    pub(crate) fn table(&self, key: &'static str) -> Result<Option<&'a Table>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Table(t)) => Ok(Some(t)),
            Some(_) => Err(self.wrong(key, format!("a table, as [{}]", self.path(key)))),
        }
    }

    /// The tables of `[[key]]`, each with its path; none if the key is missing.
    pub(crate) fn tables(&self, key: &'static str) -> Result<Vec<Reader<'a>>, Error> {
        let expected = || self.wrong(key, format!("tables, as [[{}]]", self.path(key)));
        match self.value(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => list
                .iter()
                .enumerate()
                .map(|(i, v)| match v {
                    Value::Table(t) => Ok(Reader::new(t, format!("{}.{i}", self.path(key)))),
                    _ => Err(expected()),
                })
                .collect(),
            Some(_) => Err(expected()),
        }
    }

    /// Keys nobody asked for so far.
    fn unasked(&self) -> impl Iterator<Item = &'a str> {
        let asked = self.asked.borrow().clone();
        self.table.keys().map(String::as_str).filter(move |k| !asked.contains(k))
    }

    /// Refuses keys nobody asked for.
    pub(crate) fn finish(self) -> Result<(), Error> {
        let Some(key) = self.unasked().next() else { return Ok(()) };
        let mut asked = self.asked.into_inner();
        asked.sort_unstable();
        asked.dedup();
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        Err(Error::new(path, format!("no such key: expected {}", one_of(key, asked))))
    }
}

/// A value in the form of a scenario file, cut if long.
pub(crate) fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(s) => format!("'{s}'"),
        other => other.to_string(),
    };
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}
