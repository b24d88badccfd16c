//! Where a module's file stands (docs/decisions/module-files.md), and that what the box depends on has its reason
//! (docs/reference/dependencies.md).

use std::path::Path;

use anyhow::{Context, Result};

use super::{Broken, Rule};

/// Crates that run as root.
const ROOT: [&str; 2] = ["box", "netio"];
const REASONS: &str = "docs/reference/dependencies.md";

/// Rules broken by the places of files, and by dependencies without a reason.
pub fn all(root: &Path, paths: &[String]) -> Result<Vec<Broken>> {
    let mut broken: Vec<Broken> = paths.iter().filter_map(|path| module(path)).collect();
    let reasons = std::fs::read_to_string(root.join(REASONS)).context(REASONS)?;
    for name in ROOT {
        let path = format!("crates/{name}/Cargo.toml");
        let text = std::fs::read_to_string(root.join(&path)).with_context(|| path.clone())?;
        broken.extend(without_reason(&path, &text, &reasons));
    }
    Ok(broken)
}

fn module(path: &str) -> Option<Broken> {
    let shared = path.contains("/tests/") && !path.contains("/src/");
    (path.ends_with("/mod.rs") && !shared).then(|| Broken {
        rule: Rule::Place,
        path: path.to_owned(),
        line: 1,
        told: format!("a module's file is {}.rs", path.trim_end_matches("/mod.rs")),
    })
}

fn without_reason(path: &str, manifest: &str, reasons: &str) -> Vec<Broken> {
    let lines = manifest.lines().enumerate().skip_while(|(_, l)| *l != "[dependencies]").skip(1);
    let names = lines.take_while(|(_, l)| !l.starts_with('[')).filter_map(|(n, l)| {
        let name = l.split(['.', '=', ' ']).next().filter(|name| !name.is_empty())?;
        Some((n + 1, name))
    });
    let missing = names.filter(|(_, name)| {
        !name.starts_with('#') && !name.starts_with("narrows-") && !reasons.contains(&format!("`{name}`"))
    });
    let told = |name| format!("{name} has no reason in {REASONS}");
    missing
        .map(|(line, name)| Broken { rule: Rule::Place, path: path.to_owned(), line, told: told(name) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_stands_beside_its_folder() {
        assert!(module("crates/tcp/src/cc/mod.rs").is_some());
        assert!(module("crates/flow/src/tests/mod.rs").is_some());
        assert!(module("crates/tcp/tests/common/mod.rs").is_none());
        assert!(module("crates/tcp/src/cc.rs").is_none());
    }

    #[test]
    fn a_dependency_without_a_reason_is_found() {
        let manifest = "[package]\nname = \"x\"\n\n[dependencies]\nnarrows-wire.workspace = true\n\
                        nix.workspace = true\n# why\nlibc = \"1\"\n\n[dev-dependencies]\nrand = \"1\"\n";
        let found = without_reason("crates/x/Cargo.toml", manifest, "| `nix` | reason |");
        assert_eq!(found.len(), 1);
        assert!(found[0].line == 8 && found[0].told.starts_with("libc "), "{found:?}");
    }
}
