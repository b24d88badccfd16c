//! What is wrong with a file, in one sentence: the file, the key, the value, the remedy.

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
    /// The point of the sweep at which it shows, as `share=2000`; empty if it shows everywhere.
    pub point: String,
}

impl Error {
    /// `key` and a sentence about it.
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

    /// The same, told of a file.
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

/// The known word nearest to `word`, if it is near: at most a third of its letters changed, moved, missing or too many.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Long words are no slips of the hand.
    let allowed = (word.chars().take(64).count() / 3).max(1);
    known
        .into_iter()
        .map(|k| (distance(word, k), k))
        // Words that share nothing are not near, however short.
        .filter(|(d, k)| *d <= allowed && *d < word.len().max(k.len()))
        .min_by_key(|(d, _)| *d)
        .map(|(_, k)| k)
}

/// Optimal string alignment: insertions, deletions, substitutions, swaps of neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let differ = usize::from(a[i - 1] != b[j - 1]);
            let mut least = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + differ);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word() {
        let known = ["users", "flows", "rate", "rtt", "warmup"];
        assert_eq!(nearest("user", known), Some("users"));
        assert_eq!(nearest("warm_up", known), Some("warmup"));
        assert_eq!(nearest("rtae", known), Some("rate"));
        assert_eq!(nearest("zzz", known), None);
    }
}
