//! Compiles `bpf/*.bpf.c` where clang is there. Without it the crate builds all the same and says at run time what is
//! missing: a machine that only simulates needs no clang.

use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Source and object; one that tells what it does is compiled with `WATCHED` (`bpf/watch.h`).
const OBJECTS: [(&str, &str); 7] = [
    ("aaimd", "aaimd"),
    ("btcp", "btcp"),
    ("is", "is"),
    ("show", "show"),
    ("aaimd", "aaimd_watched"),
    ("btcp", "btcp_watched"),
    ("is", "is_watched"),
];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let sources = Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../bpf");
    println!("cargo::rerun-if-changed={}", sources.display());
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-env-changed=PATH");
    let text = match compile_all(&sources, &out) {
        Ok(text) => text,
        Err(why) => {
            println!("cargo::warning=narrows senders will not load: {why}");
            // Never there: each build looks for clang again, until it is.
            println!("cargo::rerun-if-changed={}", out.join("clang").display());
            let mut text = format!("pub const WHY_NOT: Option<&str> = Some({why:?});\n");
            for (_, name) in OBJECTS {
                let _ = writeln!(text, "pub const {}: &[u8] = &[];", name.to_uppercase());
            }
            text
        }
    };
    if let Err(e) = std::fs::write(out.join("objects.rs"), text) {
        println!("cargo::error=cannot write objects.rs: {e}");
    }
}

fn compile_all(sources: &Path, out: &Path) -> Result<String, String> {
    let clang = clang()?;
    let mut text = "pub const WHY_NOT: Option<&str> = None;\n".to_owned();
    for (source, name) in OBJECTS {
        let object = out.join(format!("{name}.bpf.o"));
        compile(&clang, &sources.join(format!("{source}.bpf.c")), &object, source != name)?;
        let _ = writeln!(text, "pub const {}: &[u8] = include_bytes!({object:?});", name.to_uppercase());
    }
    Ok(text)
}

fn compile(clang: &str, source: &Path, object: &Path, watched: bool) -> Result<(), String> {
    let arch = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        _ => "other",
    };
    let endian = if env::var("CARGO_CFG_TARGET_ENDIAN").as_deref() == Ok("big") { "bpfeb" } else { "bpfel" };
    // -mcpu=v3: 32-bit arithmetic and jumps, understood since Linux 5.1. -g: the types that relocation needs.
    let run = Command::new(clang)
        .args(["-g", "-O2", "-Wall", "-target", endian, "-mcpu=v3"])
        .arg(format!("-D__TARGET_ARCH_{arch}"))
        .args(watched.then_some("-DWATCHED"))
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(object)
        .output()
        .map_err(|e| format!("{clang}: {e}"))?;
    if run.status.success() {
        return Ok(());
    }
    Err(format!("{clang} could not compile {}: {}", source.display(), String::from_utf8_lossy(&run.stderr)))
}

/// The first clang that knows the BPF target.
fn clang() -> Result<String, String> {
    let given = env::var("CLANG").ok();
    let names =
        given.into_iter().chain(["clang".to_owned()]).chain((14..30).rev().map(|n| format!("clang-{n}")));
    for name in names {
        let says = Command::new(&name).arg("--print-targets").output();
        if says.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains("bpf")) {
            return Ok(name);
        }
    }
    Err("clang with the BPF target was not there when narrows was built: apt-get install clang, then \
         build again"
        .to_owned())
}
