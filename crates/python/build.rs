//! Puts the papers' scenarios and lists of figures into the module, so that they are there wherever it is installed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    println!("cargo:rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    let mut text = String::from("const EXPERIMENTS: &[(&str, &str)] = &[\n");
    for file in &files {
        let name = file.strip_prefix(&root).unwrap_or(file);
        let _ =
            writeln!(text, "    ({:?}, include_str!({:?})),", name.to_string_lossy(), file.to_string_lossy());
    }
    text += "];\n";
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    if let Err(why) = std::fs::write(out.join("experiments.rs"), text) {
        println!("cargo:error=writing experiments.rs: {why}");
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "toml") {
            files.push(path);
        }
    }
}
