//! The documents say what the code does: the table of settings in `docs/reference/tcp.md` is the table of keys.

use std::path::Path;

use narrows_tcp::Config;

const END: &str = "<!-- /keys -->";

#[test]
fn the_table_of_settings_is_the_table_of_keys() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/tcp.md");
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
         NARROWS_WRITE=1 cargo test -p narrows-tcp --test documents writes them"
    );
}
