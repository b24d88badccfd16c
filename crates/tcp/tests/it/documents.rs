//! The documents say what the code does: the table of settings in `docs/reference/tcp.md` is the table of keys, and
//! each start-up and congestion control has its row.

use narrows_tcp::{Config, Preset, Settings as _};
use narrows_testing::repository;

const END: &str = "<!-- /keys -->";

#[test]
fn the_table_of_settings_is_the_table_of_keys() {
    let Some(root) = repository(env!("CARGO_MANIFEST_DIR")) else { return };
    let path = root.join("docs/reference/tcp.md");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let begin = text
        .find("<!-- keys")
        .and_then(|at| Some(at + text[at..].find("-->")? + 3))
        .expect("a mark where it begins");
    let end = text.find(END).expect("a mark where it ends");
    let due = format!("\n{}", Config::markdown());
    if std::env::var_os("NARROWS_WRITE").is_some() {
        std::fs::write(&path, format!("{}{due}{}", &text[..begin], &text[end..]))
            .expect("docs/reference/tcp.md can be written");
        return;
    }
    assert!(
        text[begin..end] == due,
        "docs/reference/tcp.md does not list the keys as they are; \
         NARROWS_WRITE=1 cargo test -p narrows-tcp --test it documents writes them"
    );
}

/// The cells of the row of `table` that begins with `first`.
fn row<'a>(table: &'a str, first: &str) -> Option<Vec<&'a str>> {
    let line = table.lines().find(|l| l.starts_with(&format!("| `{first}` |")))?;
    Some(line.trim_matches('|').split('|').map(str::trim).collect())
}

#[test]
fn each_start_up_and_congestion_control_has_a_row_with_keys_that_exist() {
    let Some(root) = repository(env!("CARGO_MANIFEST_DIR")) else { return };
    let keys = Config::markdown();
    for (key, page) in [("startup", "startups.md"), ("congestion", "congestion-controls.md")] {
        let path = root.join("docs/reference").join(page);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let choices = row(&keys, key).unwrap_or_else(|| panic!("no key {key}"))[Preset::ALL.len() + 1];
        for choice in choices.split(" or ") {
            let cells =
                row(&text, choice).unwrap_or_else(|| panic!("docs/reference/{page} has no row {choice}"));
            for own in cells[3].split('`').skip(1).step_by(2) {
                assert!(row(&keys, own).is_some(), "docs/reference/{page}: {choice} has no key {own}");
            }
        }
    }
}
