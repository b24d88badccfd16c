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
    fate(&text, path.parent().expect("a file lies in a folder"))
}

/// Judges the text of a script whose files lie in `folder`.
fn fate(text: &str, folder: &Path) -> Fate {
    let read =
        text.parse::<Script>().and_then(|script| script.commands(folder).map(|commands| (script, commands)));
    let (script, commands) = match read {
        Ok(read) => read,
        Err(why) => return Fate::Differs(format!("is not read: {why}")),
    };
    if let Some(reason) = applicable::lacks(&script, &commands) {
        return Fate::Lacks(reason);
    }
    let start: Config = script.option("--narrows").unwrap_or("linux").parse().expect("settings of a script");
    match Host::new(&script, &commands, &start).and_then(|mut host| host.play()) {
        Ok(()) => Fate::Passes,
        Err(why) => Fate::Differs(why),
    }
}

/// Nothing that the reader or the host does not know is passed over: each of these errors in a script that passes is
/// named.
#[test]
fn broken_scripts_fail() {
    const RIGHT: &str = "--narrows=linux
        `sysctl -q net.ipv4.tcp_timestamps=0`
        0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
       +0 bind(3, ..., ...) = 0
       +0 listen(3, 1) = 0
      +.1 < S 0:0(0) win 32792 <mss 1000,sackOK,nop,nop,nop,wscale 7>
       +0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,nop,wscale 8>
      +.1 < . 1:1(0) ack 1 win 257
       +0 accept(3, ..., ...) = 4
       +0 write(4, ..., 1000) = 1000
       +0 > [noecn] P. 1:1001(1000) ack 1
       +0 %{ segments = 9 }%
       +0 %{ segments += 1; assert 9 < tcpi_snd_cwnd == segments, tcpi_snd_cwnd }%
      +.1 < . 1:1(0) ack 1001 win 257
       +0 < . 1:1001(1000) ack 1001 win 257
       +0 > . 1001:1001(0) ack 1001
       +0 read(4, ..., 1000) = 1000
    ";
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert_eq!(fate(RIGHT, folder), Fate::Passes);
    for (right, wrong, named) in [
        ("accept(", "acept(", "call acept"),
        ("`sysctl", "`../defaults.sh\nsysctl", "defaults.sh"),
        (" 0 socket", " 0 socket\nsocket", "neither a packet nor a call"),
        ("> [noecn] P.", "> [noecn] PX.", "flag X"),
        ("< . 1:1001(1000)", "< . 1:1002(1000)", "1:1002(1000)"),
        ("wscale 7", "wsca 7", "option wsca"),
        ("wscale 8", "wscale 8,wsca 7", "option wsca"),
        ("wscale 8", "wscale 7", "MSS and scale"),
        ("P. 1:1001(1000)", "P. 1:1000(999)", "not P. 1:1000(999)"),
        ("[noecn]", "[ect1]", "NotEct, not Ect1"),
        ("+0 > . 1001:1001(0)", "+.1 > . 1001:1001(0)", "leaves at"),
        ("read(4, ..., 1000) = 1000", "read(4, ..., 1000) = 1001", "read returns 1000"),
        ("assert 9", "assert 10", "assert 10 < tcpi_snd_cwnd == segments: tcpi_snd_cwnd = 10"),
        ("== segments", "== segments + 1", "segments + 1 is neither a number nor a name"),
        ("9 < tcpi_snd_cwnd == segments", "tcpi_snd_cwnd", "no comparison"),
        ("assert", "asert", "statement asert"),
        ("segments +=", "segment +=", "segment is neither a number nor a name"),
    ] {
        let broken = RIGHT.replacen(right, wrong, 1);
        assert_ne!(broken, RIGHT, "{right}");
        match fate(&broken, folder) {
            Fate::Differs(why) => assert!(why.contains(named), "{wrong}: {why}"),
            other => panic!("{wrong}: {other:?}"),
        }
    }
    let silent: String = RIGHT
        .lines()
        .filter(|l| !l.contains(" > ") && !l.contains("assert"))
        .map(|l| format!("{l}\n"))
        .collect();
    assert_eq!(fate(&silent, folder), Fate::Differs("neither a packet nor a figure is compared".to_owned()));
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
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    // As docs/explanation/packetdrill.md says.
    assert_eq!(all.len(), 41);
}

#[test]
#[ignore = "needs scripts of others in the folder NARROWS_PACKETDRILL"]
fn scripts_of_others() {
    let folder =
        std::env::var_os("NARROWS_PACKETDRILL").expect("NARROWS_PACKETDRILL names a folder with scripts");
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
    assert!(applicable > 0 && passes * 100 >= applicable * 95, "{passes} of {applicable}");
}
