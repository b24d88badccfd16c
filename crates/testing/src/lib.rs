//! Tools that the tests and benches of several crates share: one form in which a test says that it was skipped, and
//! why; a directory, random numbers, a clock, a browser, and tables that several implementations must meet.
//!
//! libtest counts such a test as passed and keeps what it prints to itself. So the line also goes to the file that
//! [`SKIPS`] names, where `make test` finds it.

pub mod browser;
mod scratch;
pub mod tables;

use std::fmt::Display;
use std::io::Write as _;
use std::path::{Path, PathBuf};

pub use scratch::Scratch;

/// The environment variable with the name of a file that takes a line for each [`skip`] and [`skip_part`].
pub const SKIPS: &str = "NARROWS_SKIPS";

/// How a line begins whose test did not run.
pub const WHOLE: &str = "skipped: ";
/// How a line begins whose test ran, but for a part.
pub const PART: &str = "skipped in part: ";

/// Says that `test` cannot run here; the caller returns.
pub fn skip(test: &str, why: impl Display) {
    tell(format!("{WHOLE}{test}: {why}"));
}

/// Says that `test` runs without `part`.
pub fn skip_part(test: &str, part: &str, why: impl Display) {
    tell(format!("{PART}{test}: {part}: {why}"));
}

/// The repository's folder, for a test that holds one of its files against the code; `crate_folder` is the caller's
/// `CARGO_MANIFEST_DIR`. `None`, after a line that says so, where the crate was taken out of the repository: the caller
/// returns.
#[must_use]
pub fn repository(crate_folder: &str) -> Option<PathBuf> {
    let folder = Path::new(crate_folder);
    if is_packaged(folder) {
        skip(&running(), "the crate is outside of its repository");
        return None;
    }
    Some(folder.join("../.."))
}

/// Whether a crate's folder was unpacked from a package: there and nowhere else cargo leaves the manifest as it was
/// written, `Cargo.toml.orig`.
fn is_packaged(folder: &Path) -> bool {
    folder.join("Cargo.toml.orig").exists()
}

/// The name of the test that runs on this thread, for functions that several tests call: libtest names its threads
/// so. With one thread for all tests it is the program's name.
#[must_use]
pub fn running() -> String {
    let thread = std::thread::current();
    match thread.name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => std::env::args().next().unwrap_or_default().rsplit('/').next().unwrap_or_default().to_owned(),
    }
}

/// xorshift64* (Vigna 2016): enough to make traffic, and the same on every machine. The seed is not 0.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// Random number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }
}

/// Time this process has had a processor, so that a busy machine does not count; the clock where the kernel keeps none.
#[must_use]
pub fn cpu_time_ns() -> f64 {
    let kept = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let on_cpu = kept.split_whitespace().next().and_then(|ns| ns.parse().ok());
    on_cpu.unwrap_or_else(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0.0, |t| t.as_secs_f64() * 1e9)
    })
}

fn tell(line: String) {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    eprintln!("{line}");
    let Some(file) = std::env::var_os(SKIPS) else { return };
    // One write for each line: several tests, and several programs, write at the same time.
    let written = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&file)
        .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    if let Err(why) = written {
        eprintln!("{}: {why}", file.display());
    }
}

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_known_by_its_second_manifest() {
        let folder = Scratch::new("package");
        assert!(!is_packaged(&folder));
        let name = folder.to_str().unwrap_or_default();
        assert_eq!(repository(name), Some(folder.join("../..")));
        std::fs::write(folder.join("Cargo.toml.orig"), "").expect("a file in a folder of our own");
        assert!(is_packaged(&folder));
    }

    #[test]
    fn a_test_knows_its_name() {
        let name = running();
        // With one thread for all tests the name is the program's.
        assert!(name == "tests::a_test_knows_its_name" || name.starts_with("narrows_testing"), "{name}");
    }
}
