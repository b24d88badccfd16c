//! Errors in a scenario file, one sentence each: the file, the key, the value, the remedy.

use core::fmt;
use std::path::{Path, PathBuf};

/// Why a scenario is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file, if the text came from one.
    pub file: Option<PathBuf>,
    /// The dotted key, as `traffic.0.flows`; empty where the whole file is meant.
    pub key: String,
    /// The rest of the sentence: the value and what was expected.
    pub problem: String,
    /// The point of the sweep at which the error shows, as `share=2000`; empty if the error shows everywhere.
    pub point: String,
}

impl Error {
    /// Makes an error about `key`; `problem` is a sentence about the key.
    pub(crate) fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { file: None, key: key.into(), problem: problem.into(), point: String::new() }
    }

    /// `key = value: expected ...`.
    pub(crate) fn value(key: &str, value: impl fmt::Display, expected: impl fmt::Display) -> Self {
        Self::new(key, format!("= {value}: expected {expected}"))
    }

    /// `key`, a value that a table of settings refuses, and why.
    pub(crate) fn setting(key: &str, value: impl fmt::Display, e: &narrows_tcp::SettingError) -> Self {
        Self::new(key, format!("= {value}: {}", e.problem))
    }

    /// Adds the name of the file.
    #[must_use]
    pub(crate) fn in_file(mut self, file: Option<&Path>) -> Self {
        self.file = file.map(Path::to_path_buf);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        match (self.key.is_empty(), ["= ", "is "].iter().any(|s| self.problem.starts_with(s))) {
            (true, _) => f.write_str(&self.problem)?,
            (false, true) => write!(f, "{} {}", self.key, self.problem)?,
            (false, false) => write!(f, "{}: {}", self.key, self.problem)?,
        }
        if self.point.is_empty() { Ok(()) } else { write!(f, " (at {})", self.point) }
    }
}

impl std::error::Error for Error {}
