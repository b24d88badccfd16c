//! The documents say what the code does: each table of settings in them is the table of keys.

use narrows_qdisc::Spec;
use narrows_testing::repository;

#[test]
fn the_tables_of_settings_are_the_tables_of_keys() {
    let page = "reference/disciplines.md";
    let Some(root) = repository(env!("CARGO_MANIFEST_DIR")) else { return };
    let path = root.join("docs").join(page);
    for (name, table) in Spec::markdown() {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(text.contains(&format!("\n## {name}\n")), "docs/{page} has no section {name}");
        let (open, close) = (format!("<!-- keys {name}"), format!("<!-- /keys {name} -->"));
        let begin = text
            .find(&open)
            .and_then(|at| Some(at + text[at..].find("-->")? + 3))
            .unwrap_or_else(|| panic!("docs/{page} lacks {open} -->"));
        let end = text.find(&close).unwrap_or_else(|| panic!("docs/{page} lacks {close}"));
        let due = format!("\n{table}");
        if std::env::var_os("NARROWS_WRITE").is_some() {
            std::fs::write(&path, format!("{}{due}{}", &text[..begin], &text[end..]))
                .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            continue;
        }
        assert!(
            text[begin..end] == due,
            "docs/{page} does not list the keys of {name} as they are; \
             NARROWS_WRITE=1 cargo test -p narrows-qdisc --test it documents writes them"
        );
    }
}
