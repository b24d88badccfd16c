//! Tests of narrows-cli from outside, a module for each subject: one program is linked once.

#[cfg(all(feature = "diagnose", feature = "research"))]
mod diagnose;
#[cfg(feature = "diagnose")]
mod diagnose_live;
#[cfg(feature = "explore")]
mod explore;
#[cfg(feature = "lab")]
mod lab;
#[cfg(feature = "research")]
mod league;
#[cfg(feature = "terminal")]
mod live;
#[cfg(feature = "research")]
mod model;
mod packages;
#[cfg(feature = "research")]
mod plan;
#[cfg(feature = "research")]
mod replay;
#[cfg(feature = "research")]
mod reproduce;
#[cfg(feature = "research")]
mod sim;
mod tutorials;

/// A reader of the output may stop early, as `head` does: the program ends in its own way.
#[cfg(feature = "box")]
#[test]
fn a_reader_that_has_had_enough_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut doctor = std::process::Command::new(env!("CARGO_BIN_EXE_narrows"));
    let out = doctor.arg("doctor").stdout(writer).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        matches!(out.status.code(), Some(0 | 1)) && !said.contains("panicked"),
        "{:?} {said}",
        out.status
    );
}
