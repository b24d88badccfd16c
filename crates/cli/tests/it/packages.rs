//! The Debian package from outside: packed with the program under test, installed with dpkg in a root of its own, and
//! taken as far as the first verdicts (scripts/try-deb).

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Where a script says that it has no place to run.
const NO_PLACE: i32 = 2;

/// Runs a script; `None`, with a line that says why, where it cannot run.
fn script(command: &mut Command) -> Option<Output> {
    let out = command.stdin(Stdio::null()).output().unwrap();
    let said = [&out.stdout, &out.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat();
    if out.status.code() == Some(NO_PLACE) {
        narrows_testing::skip(&narrows_testing::running(), said.lines().last().unwrap_or("no reason given"));
        return None;
    }
    assert!(out.status.success(), "{command:?}: {said}");
    print!("{said}");
    Some(out)
}

#[test]
fn a_debian_package_leads_to_the_first_verdicts() {
    let program = Path::new(env!("CARGO_BIN_EXE_narrows"));
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts");
    // A profile's directory has its name, but for dev.
    let folder = program.parent().unwrap();
    let profile = folder.file_name().unwrap().to_str().unwrap().replace("debug", "dev");
    let mut pack = Command::new(scripts.join("deb"));
    pack.arg("BUILT").env("PROFILE", profile).env("CARGO_TARGET_DIR", folder.parent().unwrap());
    let Some(packed) = script(&mut pack) else { return };
    let package = String::from_utf8(packed.stdout).unwrap();
    script(Command::new(scripts.join("try-deb")).arg(package.trim()));
}
