//! Declarations of models against their functions, and what is made of them: the Python package's modules and a page of
//! the reference.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod declared;
mod python;
mod reference;

use narrows_testing::repository;

/// Lines of words, each at most `width` columns.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().unwrap();
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            last.push_str(if last.is_empty() { "" } else { " " });
            last.push_str(word);
        }
    }
    lines
}

/// Holds a file of the repository against `expected`, or writes it; where there is no repository, nothing.
fn hold(path: &str, expected: &str, test: &str) {
    let Some(root) = repository(env!("CARGO_MANIFEST_DIR")) else { return };
    let file = root.join(path);
    if std::env::var_os("NARROWS_WRITE").is_some() {
        std::fs::write(&file, expected).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == expected,
        "{path} is not as the models are declared; NARROWS_WRITE=1 cargo test -p narrows-models --test it {test} \
         writes it"
    );
}
