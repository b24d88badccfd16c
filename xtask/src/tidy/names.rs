//! A public type's name means one thing in the workspace. A name counts where another crate can write it: in a module
//! that is public up to the crate's root, or named in a `pub use`.

use std::collections::{BTreeMap, BTreeSet};

use super::{Broken, Rule};

/// Names of more than one type, each with the reason why the name repeats.
const SHARED: [(&str, &str); 13] = [
    ("Config", "conventional: of the discipline or the transport in whose module it stands"),
    ("Error", "conventional: of its crate"),
    ("Event", "conventional: what a loop tells its caller as it happens"),
    ("Settings", "conventional: of the program, sender or model in whose module it stands"),
    ("Endpoint", "the same of TCP and of QUIC"),
    ("EndpointCounters", "the same of TCP and of QUIC"),
    ("Handshake", "the same of TCP and of QUIC"),
    ("Io", "the same of TCP and of QUIC"),
    ("Preset", "the same of TCP and of QUIC"),
    ("Fade", "how RTTmax fades, in the sender and in the model of it"),
    ("Scenario", "the same in the simulator and in the lab"),
    ("Traffic", "the same in the simulator and in the lab"),
    ("Visits", "the same in the simulator and in the lab"),
];

const KINDS: [&str; 5] = ["struct ", "enum ", "trait ", "type ", "union "];

/// Name of a type, and the place where the type stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Defined {
    name: String,
    path: String,
    line: usize,
}

/// Names that are given twice without a reason, and reasons that nothing needs any more.
pub fn all(files: &BTreeMap<String, String>) -> Vec<Broken> {
    let roots = files.keys().filter(|path| path.starts_with("crates/") && path.ends_with("/src/lib.rs"));
    let mut by_name: BTreeMap<String, Vec<Defined>> = BTreeMap::new();
    for root in roots {
        for defined in public(files, root) {
            by_name.entry(defined.name.clone()).or_default().push(defined);
        }
    }
    by_name.retain(|_, places| places.len() > 1);
    let mut broken = Vec::new();
    for (name, places) in &by_name {
        if SHARED.iter().any(|(shared, _)| shared == name) {
            continue;
        }
        let [first, others @ ..] = places.as_slice() else { continue };
        broken.extend(others.iter().map(|again| Broken {
            rule: Rule::Name,
            path: again.path.clone(),
            line: again.line,
            told: format!("{name} is a public type of {}:{} too", first.path, first.line),
        }));
    }
    let unused = SHARED.iter().filter(|(name, _)| !by_name.contains_key(*name));
    broken.extend(unused.map(|(name, _)| Broken {
        rule: Rule::Name,
        path: "xtask/src/tidy/names.rs".to_owned(),
        line: 1,
        told: format!("{name} has a reason to repeat, and does not"),
    }));
    broken
}

/// The public types of the crate whose first file is `root`.
fn public(files: &BTreeMap<String, String>, root: &str) -> Vec<Defined> {
    let (mut open, mut hidden) = (Vec::new(), Vec::new());
    let mut exported = BTreeSet::new();
    let mut left = vec![(root.to_owned(), true)];
    while let Some((path, is_open)) = left.pop() {
        let Some(text) = files.get(&path) else { continue };
        let folder = path.strip_suffix("/lib.rs").or(path.strip_suffix(".rs")).unwrap_or(&path);
        for (module, public) in modules(text) {
            left.push((format!("{folder}/{module}.rs"), is_open && public));
        }
        exported.extend(reexported(text).into_iter().filter(|_| is_open));
        if is_open { &mut open } else { &mut hidden }.extend(types(&path, text));
    }
    hidden.retain(|defined: &Defined| exported.contains(&defined.name));
    open.extend(hidden);
    open.sort();
    open
}

/// Modules in files of their own, and whether they are public. Tests are none.
fn modules(text: &str) -> Vec<(&str, bool)> {
    let found = text.lines().filter_map(|line| {
        let inside = ["pub(crate) ", "pub(super) "].iter().find_map(|v| line.strip_prefix(v));
        let module = line.strip_prefix("pub ").or(inside).unwrap_or(line).strip_prefix("mod ")?;
        let name = module.strip_suffix(';').filter(|name| *name != "tests")?;
        Some((name, line.starts_with("pub ")))
    });
    found.collect()
}

/// Types that a file's `pub use` names.
fn reexported(text: &str) -> BTreeSet<String> {
    let uses = text.split("\npub use ").skip(1).filter_map(|after| after.split(';').next());
    let first = text.strip_prefix("pub use ").and_then(|after| after.split(';').next());
    let words = uses.chain(first).flat_map(|list| list.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words.filter(|word| word.starts_with(char::is_uppercase)).map(str::to_owned).collect()
}

fn types(path: &str, text: &str) -> Vec<Defined> {
    let found = text.lines().enumerate().filter_map(|(n, line)| {
        let after = line.strip_prefix("pub ")?;
        let name = KINDS.iter().find_map(|kind| after.strip_prefix(kind))?;
        let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        Some(Defined { name: name.to_owned(), path: path.to_owned(), line: n + 1 })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        all.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    }

    /// Findings on names, without findings about names that may repeat.
    fn told(all: &[(&str, &str)]) -> Vec<(String, usize)> {
        let own = all_but_unused(&files(all));
        own.into_iter().map(|b| (b.path, b.line)).collect()
    }

    fn all_but_unused(files: &BTreeMap<String, String>) -> Vec<Broken> {
        all(files).into_iter().filter(|b| !b.path.starts_with("xtask/")).collect()
    }

    #[test]
    fn two_public_types_of_one_name() {
        let one = ("crates/a/src/lib.rs", "pub mod m;\nmod n;\npub use n::{Deep,\n    Other as Known};\n");
        let deep = ("crates/a/src/n.rs", "/// Told.\npub struct Deep;\npub struct Kept;\n");
        let open = ("crates/a/src/m.rs", "pub(crate) struct Kept;\npub enum Open {}\n");
        let two = ("crates/b/src/lib.rs", "pub trait Deep {}\npub type Open = u8;\npub struct Kept<T>(T);\n");
        let found = told(&[one, deep, open, two]);
        assert_eq!(found, [("crates/b/src/lib.rs".to_owned(), 1), ("crates/b/src/lib.rs".to_owned(), 2)]);
        assert_eq!(told(&[one, deep, open]), []);
    }

    #[test]
    fn what_may_repeat() {
        let one = ("crates/a/src/lib.rs", "pub struct Config;\n");
        let two = ("crates/b/src/lib.rs", "pub struct Config;\n");
        assert_eq!(told(&[one, two]), []);
        let unused = all(&files(&[one, two])).len();
        assert_eq!(unused, SHARED.len() - 1, "reasons that nothing needs");
    }

    #[test]
    fn modules_of_a_file() {
        let text = "mod a;\npub mod b;\npub(crate) mod c;\n#[cfg(test)]\nmod tests;\nmod inline {\n}\n";
        assert_eq!(modules(text), [("a", false), ("b", true), ("c", false)]);
    }
}
