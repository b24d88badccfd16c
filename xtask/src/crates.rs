//! `cargo xtask crates`: packages every crate of the workspace that may be published, unpacks the packages into a
//! folder outside of it, where they take the place of what a registry would give, and runs their tests there, without
//! a network.
//!
//! A package that is built in the workspace finds its siblings, the documents and the settings of the workspace;
//! whoever takes it from a registry has none of these.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use narrows_testing::{SKIPS, Scratch};
use serde::Deserialize;

use crate::peers::programs::{root, target};
use crate::steps::{cargo, each_line, show, unmarked};
use crate::test::{self, Report};

/// Arguments of `xtask crates`.
#[derive(clap::Args)]
pub struct Args {
    /// Package files that are not committed too
    #[arg(long)]
    allow_dirty: bool,
    /// Run cargo publish --dry-run for all crates together first: it asks crates.io, and builds each crate on its own
    #[arg(long)]
    publish: bool,
}

/// Most bytes of a file in a package: sources have at most a third of it, so what is larger is data, or was built.
const MOST_BYTES: u64 = 100_000;

/// Package of the workspace, as listed by `cargo metadata`.
#[derive(Clone, Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    /// Registries to which the package may go; `None` for any registry.
    publish: Option<Vec<String>>,
    dependencies: Vec<Dependency>,
}

/// A dependency of a package.
#[derive(Clone, Debug, Deserialize)]
struct Dependency {
    name: String,
    /// Folder of the dependency, where that is in the workspace.
    path: Option<PathBuf>,
}

impl Package {
    /// Name and version, in the form of names of the package's file and folder.
    fn full_name(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }

    fn needs(&self, other: &str) -> bool {
        self.dependencies.iter().any(|d| d.path.is_some() && d.name == other)
    }
}

/// Packages the crates and tries them, and prints a line for each and a summary.
///
/// # Errors
///
/// If a crate cannot be packaged, or has a file that does not belong in it.
pub fn run(args: &Args) -> Result<()> {
    let packages = published()?;
    let dirty: &[&str] = if args.allow_dirty { &["--allow-dirty"] } else { &[] };
    if args.publish {
        of_all(&["publish", "--dry-run"], dirty, &packages)?;
    }
    of_all(&["package", "--offline", "--no-verify", "--quiet"], dirty, &packages)?;
    let outside = Scratch::new("crates");
    lay_out(&outside, &packages)?;
    let skips = outside.join("skips");
    let mut report = Report::default();
    for package in &packages {
        let contents = contents(&outside.join(package.full_name()))?;
        let bytes = packed(package).metadata().context(package.full_name())?.len();
        let short = package.name.trim_start_matches("narrows-");
        let name = format!("{short:<9} {:>3} files, {bytes:>6} bytes compressed", contents.len());
        let mut said = String::new();
        let ended = each_line(tests(&outside, package, &skips), |line| {
            said.push_str(line);
            said.push('\n');
        })?;
        show(&report.program(&name, &said, ended.success, ended.took));
    }
    report.skips(&std::fs::read_to_string(&skips).unwrap_or_default());
    test::finish(&report);
    Ok(())
}

/// Packages that may be published, each after the packages that it needs.
fn published() -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let out = cargo(&["metadata", "--offline", "--no-deps", "--format-version", "1"]).output();
    let out = out.context("starting cargo")?;
    ensure!(out.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&out.stderr).trim());
    let all: Metadata = serde_json::from_slice(&out.stdout).context("what cargo metadata says")?;
    in_order(
        all.packages.into_iter().filter(|p| p.publish.as_ref().is_none_or(|to| !to.is_empty())).collect(),
    )
}

fn in_order(mut packages: Vec<Package>) -> Result<Vec<Package>> {
    let mut ordered = Vec::with_capacity(packages.len());
    while !packages.is_empty() {
        let free = packages.iter().position(|p| !packages.iter().any(|other| p.needs(&other.name)));
        let free = free.with_context(|| format!("{} and others need each other", packages[0].name))?;
        ordered.push(packages.remove(free));
    }
    Ok(ordered)
}

/// Runs a command of cargo for all packages at once, so that it finds one where another needs it.
fn of_all(command: &[&str], more: &[&str], packages: &[Package]) -> Result<()> {
    let mut words = [command, more].concat();
    packages.iter().for_each(|p| words.extend(["--package", p.name.as_str()]));
    let status = cargo(&words).status().context("starting cargo")?;
    ensure!(status.success(), "cargo {} failed; it needs cargo 1.90 or newer", command.join(" "));
    Ok(())
}

/// The file that `cargo package` makes.
fn packed(package: &Package) -> PathBuf {
    root().join(target()).join("package").join(format!("{}.crate", package.full_name()))
}

/// Unpacks all into `folder`, as a workspace of their own in which each is found by the others.
fn lay_out(folder: &Path, packages: &[Package]) -> Result<()> {
    for package in packages {
        let mut tar = Command::new("tar");
        let status = tar.arg("-xzf").arg(packed(package)).arg("-C").arg(folder).status();
        ensure!(status.context("starting tar")?.success(), "tar: {} is not unpacked", package.full_name());
    }
    std::fs::write(folder.join("Cargo.toml"), workspace(packages)).context("the workspace outside")?;
    // The versions that are tried are those of the repository, which are here.
    std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).context("Cargo.lock")?;
    Ok(())
}

/// Manifest of the workspace outside. What computes is optimised: simulations are slow without.
fn workspace(packages: &[Package]) -> String {
    let mut text = String::from("[workspace]\nresolver = \"3\"\nmembers = [\"narrows-*\"]\n\n");
    text += "[profile.dev]\nopt-level = 1\ndebug = false\n\n[patch.crates-io]\n";
    for package in packages {
        let _ = writeln!(text, "{} = {{ path = \"{}\" }}", package.name, package.full_name());
    }
    text
}

/// The command that runs a package's tests outside.
fn tests(folder: &Path, package: &Package, skips: &Path) -> Command {
    let mut command = cargo(&["test", "--offline", "--no-fail-fast", "--package", &package.name]);
    unmarked(&mut command);
    command.current_dir(folder).env(SKIPS, skips);
    // Compiled crates are kept in the workspace's target for the next run; the scratch folder is removed.
    command.env("CARGO_TARGET_DIR", root().join(target()).join("crates"));
    command
}

/// Files of an unpacked package.
///
/// # Errors
///
/// If one does not belong in a package, or the package lacks one that belongs.
fn contents(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(inner) = folders.pop() {
        for entry in std::fs::read_dir(&inner).with_context(|| inner.display().to_string())? {
            let entry = entry.with_context(|| inner.display().to_string())?;
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = entry.metadata().with_context(|| path.display().to_string())?.len();
            ensure!(bytes <= MOST_BYTES, "{}: {bytes} bytes, at most {MOST_BYTES}", path.display());
            ensure!(belongs(&path), "{}: expected code, text or a licence", path.display());
            files.push(path);
        }
    }
    for needed in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        ensure!(files.contains(&folder.join(needed)), "{}: there is no {needed}", folder.display());
    }
    files.sort();
    Ok(files)
}

fn belongs(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let added = ["Cargo.lock", "Cargo.toml.orig", ".cargo_vcs_info.json", "LICENSE-MIT", "LICENSE-APACHE"];
    added.contains(&name) || [".rs", ".md", ".toml", ".txt"].iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, needs: &[&str]) -> Package {
        let of = |name: &&str| Dependency { name: (*name).to_owned(), path: Some(PathBuf::new()) };
        let dependencies = needs.iter().map(of).collect();
        Package { name: name.to_owned(), version: "1.0.0".to_owned(), publish: None, dependencies }
    }

    #[test]
    fn a_crate_comes_behind_those_it_needs() {
        let all = vec![package("a", &["b", "c"]), package("b", &["c"]), package("c", &[])];
        let names: Vec<_> = in_order(all).unwrap().into_iter().map(|p| p.name).collect();
        assert_eq!(names, ["c", "b", "a"]);
        assert!(in_order(vec![package("a", &["b"]), package("b", &["a"])]).is_err());
    }

    /// A crate with a path and no version cannot be packaged, or loses the dependency where that is for tests.
    #[test]
    fn crates_for_others_need_only_such() {
        #[derive(Deserialize)]
        struct Manifest {
            workspace: Workspace,
        }
        #[derive(Deserialize)]
        struct Workspace {
            dependencies: toml::Table,
        }
        let text = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
        let dependencies = toml::from_str::<Manifest>(&text).unwrap().workspace.dependencies;
        let packages = published().unwrap();
        for short in ["units", "wire", "lists", "flow", "qdisc", "tcp", "quic", "sim"] {
            assert!(packages.iter().any(|p| p.name == format!("narrows-{short}")), "{short}");
        }
        for package in &packages {
            for needed in package.dependencies.iter().filter(|d| d.path.is_some()) {
                let other = packages.iter().find(|p| p.name == needed.name);
                let other = other.unwrap_or_else(|| panic!("{} needs {}", package.name, needed.name));
                let version = dependencies[&needed.name].get("version").and_then(toml::Value::as_str);
                assert_eq!(version, Some(other.version.as_str()), "{}", needed.name);
            }
        }
    }

    #[test]
    fn crates_for_others_have_a_readme_with_an_example_and_licences() {
        for package in published().unwrap() {
            let folder = root().join("crates").join(package.name.trim_start_matches("narrows-"));
            let read = |file: &str| {
                std::fs::read_to_string(folder.join(file))
                    .unwrap_or_else(|e| panic!("{}: {file}: {e}", package.name))
            };
            let readme = read("README.md");
            assert!(readme.starts_with(&format!("# {}\n", package.name)) && readme.contains("**Not here**"));
            assert_eq!(readme.matches("```rust\n").count(), 1, "{}", package.name);
            assert!(
                read("src/lib.rs").contains("#[doc = include_str!(\"../README.md\")]"),
                "{}",
                package.name
            );
            for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
                assert!(read(licence) == std::fs::read_to_string(root().join(licence)).unwrap());
            }
        }
    }

    /// The how-to guide shows code that is compiled and run as the README of a crate.
    #[test]
    fn the_guide_shows_examples_of_readmes() {
        let page = std::fs::read_to_string(root().join("docs/how-to/crates.md")).unwrap();
        let blocks = |text: &str| -> Vec<String> {
            text.split("```rust\n").skip(1).map(|b| b.split("```").next().unwrap().to_owned()).collect()
        };
        let of =
            |name: &str| std::fs::read_to_string(root().join("crates").join(name).join("README.md")).unwrap();
        let known: Vec<String> = ["sim", "tcp"].iter().flat_map(|name| blocks(&of(name))).collect();
        assert_eq!(blocks(&page), known);
    }

    #[test]
    fn the_workspace_outside_has_each_in_the_place_of_a_registrys() {
        let text = workspace(&[package("narrows-units", &[])]);
        let table: toml::Table = toml::from_str(&text).unwrap();
        assert_eq!(
            table["patch"]["crates-io"]["narrows-units"]["path"].as_str(),
            Some("narrows-units-1.0.0")
        );
    }

    #[test]
    fn what_belongs_in_a_package() {
        let folder = Scratch::new("contents");
        for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "src/lib.rs"] {
            std::fs::create_dir_all(folder.join("src")).unwrap();
            std::fs::write(folder.join(file), "x").unwrap();
        }
        assert_eq!(contents(&folder).unwrap().len(), 4);
        std::fs::write(folder.join("src/large.rs"), vec![b' '; 100_001]).unwrap();
        assert!(
            contents(&folder)
                .unwrap_err()
                .to_string()
                .ends_with("src/large.rs: 100001 bytes, at most 100000")
        );
        std::fs::rename(folder.join("src/large.rs"), folder.join("src/x.pcap")).unwrap();
        std::fs::write(folder.join("src/x.pcap"), "x").unwrap();
        assert!(contents(&folder).unwrap_err().to_string().contains("x.pcap: expected code"));
        std::fs::remove_file(folder.join("src/x.pcap")).unwrap();
        std::fs::remove_file(folder.join("LICENSE-MIT")).unwrap();
        assert!(contents(&folder).unwrap_err().to_string().ends_with("there is no LICENSE-MIT"));
    }
}
