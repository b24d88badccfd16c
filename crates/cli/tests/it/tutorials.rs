//! Pages with commands say what these print: tutorials and recipes, without what is marked slow or needs root or a
//! clock.
//! `cargo xtask tutorials` runs all of all.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report")]

use std::path::Path;
use std::process::Command;

/// Runs a page's commands, without those marked slow, and with `--still` without those marked live.
fn as_it_is(page: &str, options: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let out = Command::new(root.join("scripts/tutorial"))
        .args(["--check", page])
        .args(options)
        .env("NARROWS_BIN", env!("CARGO_BIN_EXE_narrows"))
        .current_dir(&root)
        .output()
        .unwrap();
    let [said, errors] = [out.stdout, out.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(out.status.success(), "scripts/tutorial {page} writes it anew\n{said}\n{errors}");
}

#[test]
fn the_researchers_page() {
    as_it_is("docs/tutorials/researcher.md", &[]);
}

#[test]
fn the_contributors_page() {
    as_it_is("docs/tutorials/contributor.md", &[]);
}

/// Every page for a place or for somebody who comes from elsewhere, and the page about `plan`.
#[test]
fn recipes() {
    let guides = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to");
    let mut pages = 0;
    for page in std::fs::read_dir(guides).unwrap() {
        let page = page.unwrap().path();
        if std::fs::read_to_string(&page).unwrap().contains("\n```console\n") {
            as_it_is(page.to_str().unwrap(), &["--still"]);
            pages += 1;
        }
    }
    assert!(pages >= 8, "{pages} pages have commands");
}
