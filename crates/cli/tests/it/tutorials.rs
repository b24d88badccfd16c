//! The tutorials say what their commands print: those pages that need neither root nor a clock, without what is marked
//! slow in them. `cargo xtask tutorials` runs all of all.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report")]

use std::path::Path;
use std::process::Command;

fn as_it_is(page: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let out = Command::new(root.join("scripts/tutorial"))
        .args(["--check", page])
        .env("NARROWS_BIN", env!("CARGO_BIN_EXE_narrows"))
        .current_dir(&root)
        .output()
        .unwrap();
    let [said, errors] = [out.stdout, out.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(out.status.success(), "scripts/tutorial {page} writes it anew\n{said}\n{errors}");
}

#[test]
fn the_researchers_page() {
    as_it_is("docs/tutorials/researcher.md");
}

#[test]
fn the_contributors_page() {
    as_it_is("docs/tutorials/contributor.md");
}
