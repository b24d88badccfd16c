//! Names the engine: a hash over the sources that decide what a run gives and the versions they are built with, so that
//! results of other code are never taken for results of this one. Equal on every machine with equal sources.

use std::path::{Path, PathBuf};

/// Crates whose code decides results, or the form in which results are stored.
const DECIDE: [&str; 12] = [
    "units", "settings", "wire", "lists", "users", "flow", "qdisc", "tcp", "quic", "scenario", "sim",
    "runner",
];

fn main() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    for name in DECIDE {
        let sources = crates.join(name).join("src");
        println!("cargo:rerun-if-changed={}", sources.display());
        let mut files = Vec::new();
        collect(&sources, &mut files);
        files.sort();
        for file in files {
            let within = file.strip_prefix(&crates).unwrap_or(&file);
            hash.take(within.to_string_lossy().as_bytes());
            hash.take(&std::fs::read(&file).unwrap_or_default());
        }
    }
    let lock = crates.join("../Cargo.lock");
    println!("cargo:rerun-if-changed={}", lock.display());
    hash.take(b"Cargo.lock");
    // Outside the workspace there is none; the version alone tells engines apart there.
    hash.take(&std::fs::read(&lock).unwrap_or_default());
    println!("cargo:rustc-env=NARROWS_ENGINE={:016x}", hash.0);
}

/// All files below a folder, in no order. A folder that is not there has none: outside the workspace the version alone
/// tells engines apart.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

/// FNV-1a, 64 bits: enough against mistakes, not against malice.
struct Fnv(u64);

impl Fnv {
    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().copied().chain(bytes.len().to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
