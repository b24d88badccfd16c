//! `narrows setup` as a person meets it, at a terminal of its own, and as a program does, by flags.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::live::place::{Place, ip};

/// Nothing here takes longer unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);
const ENTER: &str = "\r";
/// The next of several choices.
const NEXT: &str = "\x1b[B";

/// A program at a terminal.
struct Terminal {
    child: Child,
    keys: File,
    shown: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn start(command: &mut Command) -> Self {
        let pty = nix::pty::openpty(None, None).unwrap();
        let end = || Stdio::from(pty.slave.try_clone().unwrap());
        let child = command.env("TERM", "xterm").stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        drop(pty.slave);
        let keys = File::from(pty.master);
        let mut screen = keys.try_clone().unwrap();
        let (tell, shown) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = screen.read(&mut buffer) {
                if tell.send(buffer[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keys, shown, seen: String::new() }
    }

    /// Waits for `words`, then answers.
    fn answer(&mut self, words: &str, keys: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.seen.find(words) {
                self.seen.drain(..at + words.len());
                break;
            }
            let left = until.saturating_duration_since(Instant::now());
            let more =
                self.shown.recv_timeout(left).unwrap_or_else(|_| panic!("no '{words}' in {}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&more));
        }
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn end(mut self) -> bool {
        let success = self.child.wait().unwrap().success();
        while let Ok(more) = self.shown.recv_timeout(Duration::from_millis(100)) {
            self.seen.push_str(&String::from_utf8_lossy(&more));
        }
        success
    }
}

#[test]
fn flags_alone_write_the_file_once() {
    let Some(place) = Place::try_new("flags") else { return };
    let (code, said) = place.setup("--lan lan0 --down 600kbit --up 128kbit --link cable --yes");
    assert_eq!(code, Some(0), "{said}");
    // The default route tells the wide side.
    let wanted =
        "lan = \"lan0\"\nwan = \"wan0\"\ndown = \"600kbit\"\nup = \"128kbit\"\noverhead = 18\nmpu = 64\n";
    assert_eq!(place.settings().as_deref(), Some(wanted));
    assert!(said.contains("users are behind lan0") && said.contains("To start:"), "{said}");

    let (code, said) = place.setup("--lan lan0 --down 1mbit --yes");
    assert!(code == Some(2) && said.contains("stays as it is") && said.contains("--overwrite"), "{said}");
    assert_eq!(place.settings().as_deref(), Some(wanted));
    let (code, said) = place.setup("--lan lan0 --observe --yes --overwrite");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(place.settings().unwrap(), "lan = \"lan0\"\nwan = \"wan0\"\nobserve = true\n");
    let checked = place.narrows(&format!("check {}", place.file().display())).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

#[test]
fn what_is_missing_or_wrong_is_named_and_nothing_written() {
    let Some(place) = Place::try_new("wrong") else { return };
    for (args, words) in [
        ("--lan lan0 --down 600kbit", "no terminal to ask on"),
        ("--lan lan0 --yes", "no rate is given: --down and --up, where auto finds"),
        ("--lan lan0 --down 600 --yes", "--down: '600' is not a rate"),
        ("--lan nosuch --down 1mbit --yes", "--lan nosuch: no such interface here: expected one of wan0"),
        ("--lan lan0 --wan lan0 --down 1mbit --yes", "lan and wan are both 'lan0'"),
        ("--lan lan0 --measure 5 --yes", "hardly anything passed wan0"),
    ] {
        let (code, said) = place.setup(args);
        assert!(code == Some(2) && said.contains(words), "{args}: {code:?} {said}");
        assert_eq!(place.settings(), None, "{args}");
    }
    // Two that could be the users'.
    assert!(ip(&format!("-n {} addr add 10.3.0.1/24 dev lan0x", place.name)));
    let (code, said) = place.setup("--down 1mbit --yes");
    assert!(code == Some(2) && said.contains("which is the users' interface? --lan one of"), "{said}");
}

#[test]
fn a_person_is_asked_for_the_rest() {
    let Some(place) = Place::try_new("ask") else { return };
    let mut terminal = Terminal::start(&mut place.narrows("setup"));
    // The likely answers stand first.
    terminal.answer("slow link's", ENTER);
    terminal.answer("users'", ENTER);
    terminal.answer("I know them", ENTER);
    terminal.answer("to the users", "600\r");
    terminal.answer("is not a rate", "\u{15}600kbit\r");
    terminal.answer("from the users", "128kbit\r");
    terminal.answer("What the rates count", &format!("{NEXT}{ENTER}"));
    terminal.answer("That means:", "");
    terminal.answer("And now", &format!("{NEXT}{NEXT}{ENTER}"));
    assert!(terminal.end());
    assert_eq!(
        place.settings().unwrap(),
        "lan = \"lan0\"\nwan = \"wan0\"\ndown = \"600kbit\"\nup = \"128kbit\"\noverhead = 14\n"
    );

    // No is the default.
    let mut again = Terminal::start(&mut place.narrows("setup --lan lan0 --down 1mbit --link ip"));
    again.answer("slow link's", ENTER);
    again.answer("Replace it?", ENTER);
    assert!(!again.end());
    let mut nothing =
        Terminal::start(&mut place.narrows("setup --lan lan0 --wan wan0 --observe --overwrite"));
    nothing.answer("And now", &format!("{NEXT}{NEXT}{ENTER}"));
    assert!(nothing.end());
    assert!(place.settings().unwrap().contains("600kbit"));
}

#[test]
fn it_starts_a_box_that_observes() {
    let Some(place) = Place::try_new("start") else { return };
    if !Command::new("iptables").arg("--version").output().is_ok_and(|out| out.status.success()) {
        narrows_testing::skip(&narrows_testing::running(), "needs iptables");
        return;
    }
    let mut terminal = Terminal::start(&mut place.narrows("setup --lan lan0 --wan wan0"));
    terminal.answer("I know them", &format!("{NEXT}{NEXT}{NEXT}{ENTER}"));
    terminal.answer("And now", ENTER);
    terminal.answer("running lan0 <-> wan0", "");
    terminal.answer("down observed", "");
    assert_eq!(place.settings().unwrap(), "lan = \"lan0\"\nwan = \"wan0\"\nobserve = true\n");
    // The box has replaced the wizard in its process.
    let box_pid = nix::unistd::Pid::from_raw(terminal.child.id().cast_signed());
    nix::sys::signal::kill(box_pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(terminal.end());
}

#[test]
fn rates_are_measured_when_asked() {
    let Some(place) = Place::try_new("measure") else { return };
    let ns = place.name.clone();
    assert!(ip(&format!("-n {ns} neigh add 10.2.0.2 lladdr 02:00:00:00:00:02 dev wan0")));
    assert!(ip(&format!("-n {ns} link set wan0x address 02:00:00:00:00:02")));
    let flood = || {
        let mut ping = Command::new("ip");
        ping.args(["netns", "exec", &ns, "ping", "-q", "-i", ".01", "-s", "1000", "-w", "7"]);
        ping
    };
    let quiet = |mut c: Command| c.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    // wan0 sends what goes to its neighbour, and receives what its other end broadcasts.
    let mut out = flood();
    out.args(["-I", "wan0", "10.2.0.2"]);
    let mut back = flood();
    back.args(["-b", "-I", "wan0x", "255.255.255.255"]);
    let (Ok(mut out), Ok(mut back)) = (quiet(out), quiet(back)) else {
        narrows_testing::skip(&narrows_testing::running(), "needs ping");
        return;
    };
    let (code, said) = place.setup("--lan lan0 --measure 5 --yes");
    let _ = (out.kill(), back.kill(), out.wait(), back.wait());
    assert!(code == Some(0) && said.contains("At best"), "{said}");
    let settings = place.settings().unwrap();
    let rate = |key: &str| {
        settings.lines().find_map(|l| l.strip_prefix(key)?.strip_suffix("kbit\"")?.parse::<u64>().ok())
    };
    assert!(rate("down = \"").is_some_and(|r| r > 0) && rate("up = \"").is_some_and(|r| r > 0), "{settings}");
}
