//! Two digests side by side: for each table, whether it is equal, has other names, or other values.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::table::Summary;
use super::words::canonical;

/// Result of the comparison of a table.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Names and values.
    Equal,
    /// The values are equal; columns have other names, or another order.
    Renamed(Vec<String>),
    /// Columns that differ.
    Different(Vec<String>),
    /// The table is missing in the new digest.
    Gone,
    /// The table is missing in the old digest.
    New,
}

impl Outcome {
    /// Whether the table's values are as before.
    pub const fn is_good(&self) -> bool {
        matches!(self, Self::Equal | Self::Renamed(_))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equal => f.write_str("equal"),
            Self::Renamed(what) => write!(f, "renamed columns: {}", what.join(", ")),
            Self::Different(what) => write!(f, "different values: {}", what.join(", ")),
            Self::Gone => f.write_str("different values: the table is gone"),
            Self::New => f.write_str("different values: the table is new"),
        }
    }
}

/// Compares the tables of two digests, by name.
pub fn compare(before: &[Summary], after: &[Summary]) -> BTreeMap<String, Outcome> {
    let by_name = |tables: &[Summary]| -> BTreeMap<String, Summary> {
        tables.iter().map(|t| (canonical(&t.name), t.clone())).collect()
    };
    let (before, after) = (by_name(before), by_name(after));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let outcome = |name: &String| match (before.get(name), after.get(name)) {
        (Some(a), Some(b)) => table(a, b),
        (Some(_), None) => Outcome::Gone,
        _ => Outcome::New,
    };
    names.into_iter().map(|name| (name.clone(), outcome(name))).collect()
}

fn table(a: &Summary, b: &Summary) -> Outcome {
    if a.rows != b.rows {
        return Outcome::Different(vec![format!("{} rows instead of {}", b.rows, a.rows)]);
    }
    if a.header == b.header && a.values == b.values {
        return Outcome::Equal;
    }
    let (mut renamed, mut different) = (Vec::new(), Vec::new());
    let mut unpaired: Vec<&(String, String)> = b.columns.iter().collect();
    let mut homeless = Vec::new();
    for (name, hash) in &a.columns {
        match unpaired.iter().position(|(other, _)| canonical(other) == canonical(name)) {
            Some(at) => {
                let (other, theirs) = unpaired.remove(at);
                if theirs != hash {
                    different.push(other.clone());
                } else if other != name {
                    renamed.push(format!("{name} -> {other}"));
                }
            }
            None => homeless.push((name, hash)),
        }
    }
    // A name the table of words does not know: the column is found again by what is in it.
    for (name, hash) in homeless {
        match unpaired.iter().position(|(_, theirs)| theirs == hash) {
            Some(at) => {
                renamed.push(format!("{name} -> {} (not among the known words)", unpaired.remove(at).0))
            }
            None => different.push(format!("{name} is gone")),
        }
    }
    different.extend(unpaired.iter().map(|(name, _)| format!("{name} is new")));
    match (different.is_empty(), renamed.is_empty()) {
        (false, _) => Outcome::Different(different),
        (true, false) => Outcome::Renamed(renamed),
        (true, true) => Outcome::Renamed(vec!["their order alone".to_owned()]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::Builder;
    use super::*;

    fn one(name: &str, columns: &[&str], row: &[&str]) -> Summary {
        let mut table = Builder::new(columns.iter().copied());
        table.row(row.iter().copied()).unwrap();
        table.finish(name)
    }

    fn only(a: Summary, b: Summary) -> Outcome {
        let mut all: Vec<Outcome> = compare(&[a], &[b]).into_values().collect();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn equal_renamed_and_different() {
        let a = || one("t", &["door_wait_s", "x"], &["1", "2"]);
        assert_eq!(only(a(), a()), Outcome::Equal);
        let told = only(a(), one("t", &["admission_wait_s", "x"], &["1", "2"]));
        assert_eq!(told, Outcome::Renamed(vec!["door_wait_s -> admission_wait_s".into()]));
        let told = only(a(), one("t", &["admission_wait_s", "x"], &["1", "3"]));
        assert_eq!(told, Outcome::Different(vec!["x".into()]));
    }

    #[test]
    fn columns_may_move_as_their_names_sort_otherwise() {
        let (a, b) = (one("t", &["door", "c"], &["1", "2"]), one("t", &["c", "door"], &["2", "1"]));
        assert!(only(a, b).is_good());
        // Equal names with exchanged values are no renaming.
        let (a, b) = (one("t", &["a", "b"], &["1", "2"]), one("t", &["a", "b"], &["2", "1"]));
        assert!(!only(a, b).is_good());
    }

    #[test]
    fn unknown_words_are_found_by_their_values() {
        let told = only(one("t", &["odd"], &["7"]), one("t", &["strange"], &["7"]));
        assert_eq!(told, Outcome::Renamed(vec!["odd -> strange (not among the known words)".into()]));
        let told = only(one("t", &["odd"], &["7"]), one("t", &["strange"], &["8"]));
        assert_eq!(told, Outcome::Different(vec!["odd is gone".into(), "strange is new".into()]));
    }

    #[test]
    fn tables_come_and_go() {
        let told = compare(&[one("a-hangs", &[], &[])], &[one("a-stalls", &[], &[]), one("b", &[], &[])]);
        assert_eq!(told["a-stalls"], Outcome::Equal);
        assert_eq!(told["b"], Outcome::New);
        let told = compare(&[one("a", &["x"], &["1"])], &[]);
        assert_eq!(told["a"], Outcome::Gone);
    }
}
