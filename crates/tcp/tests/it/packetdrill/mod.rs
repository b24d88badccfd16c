//! packetdrill scripts as witnesses: those of others, read from a folder, and our own in `tests/packetdrill`, each with
//! the clause that it stands for. Ours name the settings in an option that packetdrill does not know: `--narrows=rfc`.
//!
//! `NARROWS_PACKETDRILL` names a folder with scripts of others, as Linux's `tools/testing/selftests/net/packetdrill`
//! or `gtests/net/tcp` of <https://github.com/google/packetdrill>. They are run on the `linux` preset.

mod applicable;
mod host;
mod python;
mod script;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use narrows_tcp::Config;

use host::Host;
use script::Script;

/// All scripts under a folder, by name.
fn scripts(folder: &Path) -> Vec<PathBuf> {
    let mut list = vec![];
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.expect("an entry of a folder").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "pkt") {
                list.push(path);
            }
        }
    }
    list.sort();
    list
}

/// Fate of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    Passes,
    Lacks(&'static str),
    Differs(String),
}

fn judge(path: &Path) -> Fate {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let script: Script = match text.parse() {
        Ok(script) => script,
        Err(why) => return Fate::Differs(format!("is not read: {why}")),
    };
    let (settings, others) = script.sysctls(path.parent().expect("a file lies in a folder"));
    if let Some(reason) = applicable::lacks(&script, &settings, &others) {
        return Fate::Lacks(reason);
    }
    let start: Config = script.option("--narrows").unwrap_or("linux").parse().expect("settings of a script");
    let played = Host::new(&script, &settings, &start).and_then(|mut host| host.play());
    match played {
        Ok(()) => Fate::Passes,
        Err(why) => Fate::Differs(why),
    }
}

#[test]
fn scripts_from_the_rfcs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packetdrill");
    let mut failed = vec![];
    let all = scripts(&folder);
    for path in &all {
        let fate = judge(path);
        if fate != Fate::Passes {
            failed.push(format!("{}: {fate:?}", path.file_name().unwrap_or_default().display()));
        }
    }
    assert!(failed.is_empty() && all.len() >= 24, "{}", failed.join("\n"));
}

#[test]
fn scripts_of_others() {
    let Some(folder) = std::env::var_os("NARROWS_PACKETDRILL") else {
        eprintln!("NARROWS_PACKETDRILL names no folder with scripts: nothing is compared");
        return;
    };
    let folder = PathBuf::from(folder);
    let (mut passes, mut lacking, mut differing) = (0, BTreeMap::<_, u32>::new(), vec![]);
    for path in scripts(&folder) {
        let name = path.strip_prefix(&folder).unwrap_or(&path).display().to_string();
        match judge(&path) {
            Fate::Passes => {
                passes += 1;
                println!("passes   {name}");
            }
            Fate::Lacks(reason) => {
                *lacking.entry(reason).or_default() += 1;
                println!("n/a      {name}: {reason}");
            }
            Fate::Differs(why) => {
                println!("differs  {name}: {why}");
                differing.push(name);
            }
        }
    }
    for (reason, count) in &lacking {
        println!("{count:4} {reason}");
    }
    let applicable = passes + differing.len();
    println!(
        "{passes} of {applicable} applicable scripts pass, {} do not apply",
        lacking.values().sum::<u32>()
    );
    assert!(passes * 100 >= applicable * 95, "{passes} of {applicable}");
}
