//! Where a module's file stands (docs/decisions/module-files.md), that what the box depends on has its reason
//! (docs/reference/dependencies.md), and that the features of a package stand in the program's manifest alone.

use std::path::Path;

use anyhow::{Context, Result};

use super::{Broken, Rule};

/// Crates that run as root.
const ROOT: [&str; 2] = ["box", "netio"];
const REASONS: &str = "docs/reference/dependencies.md";
/// Manifest of the program, which says what the programs of routers and of packages have.
const PROGRAM: &str = "crates/cli/Cargo.toml";
/// Beginnings of paths of files that build the program, or say how.
const BUILDERS: [&str; 6] = [".ci/", "Makefile", "docs/", "packaging/", "scripts/", "xtask/"];
/// Features in a row that are a list of their own: one or two are said where they are wanted.
const LIST: usize = 3;

/// Rules broken by the places of files, and by dependencies without a reason.
pub fn all(root: &Path, paths: &[String]) -> Result<Vec<Broken>> {
    let mut broken: Vec<Broken> = paths.iter().filter_map(|path| module(path)).collect();
    let reasons = std::fs::read_to_string(root.join(REASONS)).context(REASONS)?;
    for name in ROOT {
        let path = format!("crates/{name}/Cargo.toml");
        let text = std::fs::read_to_string(root.join(&path)).with_context(|| path.clone())?;
        broken.extend(without_reason(&path, &text, &reasons));
    }
    let manifest = std::fs::read_to_string(root.join(PROGRAM)).context(PROGRAM)?;
    let features = features(&manifest);
    for path in paths.iter().filter(|path| BUILDERS.iter().any(|begins| path.starts_with(begins))) {
        // Pictures are no text.
        let Ok(text) = std::fs::read_to_string(root.join(path)) else { continue };
        broken.extend(lists_of_features(path, &text, &features));
    }
    Ok(broken)
}

/// Names of a manifest's features.
fn features(manifest: &str) -> Vec<&str> {
    let lines =
        manifest.lines().skip_while(|l| *l != "[features]").skip(1).take_while(|l| !l.starts_with('['));
    lines.filter_map(|l| l.split_once(" = ")).map(|(name, _)| name).collect()
}

/// Lists of features of the program in a file that builds it.
fn lists_of_features(path: &str, text: &str, features: &[&str]) -> Vec<Broken> {
    let is_list =
        |word: &str| word.split(',').count() >= LIST && word.split(',').all(|name| features.contains(&name));
    let has_list = |line: &str| line.split(|c: char| !c.is_alphanumeric() && !",_".contains(c)).any(is_list);
    let lines = text.lines().enumerate().filter(|(_, line)| has_list(line));
    let told = format!("a list of features: a feature of {PROGRAM} that has them says it");
    lines
        .map(|(n, _)| Broken { rule: Rule::Place, path: path.to_owned(), line: n + 1, told: told.clone() })
        .collect()
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
    fn a_list_of_features_outside_the_manifest_is_found() {
        let manifest =
            "[features]\ndefault = [\"web\"]\n# why\nweb = [\n  \"x\",\n]\nstage = []\ntalk = []\n\n[x]\n";
        let features = features(manifest);
        assert_eq!(features, ["default", "web", "stage", "talk"]);
        let found = |text| lists_of_features("scripts/x", text, &features).len();
        assert_eq!(found("cargo build --features web,stage,talk\nfeatures=${F-talk,stage,web}\n"), 2);
        assert_eq!(found("--features web,stage\n--only web,stage,queue\n--features package\n"), 0);
    }

    /// Each script that builds a package or a router's program names the one feature that lists its parts.
    #[test]
    fn packages_and_routers_have_one_list_each() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
        let manifest = read(PROGRAM);
        for (path, words) in [
            ("scripts/deb", "--features package"),
            ("scripts/deb", "FEATURES=$features scripts/static"),
            ("scripts/rpm", "--features package"),
            ("scripts/static", "${FEATURES-router}"),
            ("xtask/src/systemd.rs", r#""--features", "package""#),
            ("xtask/src/recipes/table.rs", "--features router"),
        ] {
            assert!(read(path).contains(words), "{path}: {words}");
        }
        let features = features(&manifest);
        assert!(["package", "router"].iter().all(|name| features.contains(name)), "{features:?}");
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
