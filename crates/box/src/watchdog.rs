//! A process beside the box that lets traffic pass while the box does not answer: stopped, stuck or swapped out.
//!
//! The box writes a byte into a pipe a few times a second, from the loop that handles packets. When none has come for
//! [`LIMIT`] the watchdog opens the [`Bypass`]; when they come again it closes it. It also looks after the rules: a
//! firewall's reload may flush them, or append others behind them.
//!
//! It shares nothing with the box but two pipes, is locked in memory, and keeps no more privileges than the box does.

mod process;

use std::io::{self, Read, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use narrows_units::Instant;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::bypass::Bypass;

pub use process::main;

/// How long the box may be silent.
pub const LIMIT: Duration = Duration::from_secs(1);
/// How often it says that it lives, at least.
pub const BEAT: narrows_units::Duration = narrows_units::Duration::from_millis(250);
/// How often the watchdog looks whether the rules stand.
const LOOK: Duration = Duration::from_secs(5);
/// How long the watchdog may take to go.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the box tells: it lives; it lives, has been late and wants to hear when its way is closed again; farewell.
const ALIVE: u8 = b'.';
const LATE: u8 = b'l';
const FAREWELL: u8 = b'q';
/// What the watchdog tells, a line each: the answer to [`LATE`]; how long traffic passed by, in milliseconds; rules put
/// back; something for people.
const READY: &str = "ready";
const PASSED: &str = "passed ";
const RESTORED: &str = "restored";
const MESSAGE: &str = "message ";

/// What the box hears of its watchdog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Its way is closed: what comes in from now on has not gone by.
    Ready,
    /// Traffic has passed by for so long.
    Passed(Duration),
    /// Its rules were gone, or others stood behind them, and are back.
    Restored,
    /// For people.
    Message(String),
}

/// The box's end.
#[derive(Debug)]
pub struct Watchdog {
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
    last: Instant,
    partial: String,
}

impl Watchdog {
    /// Starts a watchdog that opens this bypass. It waits for the first sign of life before it judges.
    ///
    /// # Errors
    /// If no process can be started.
    pub fn start(bypass: &Bypass) -> anyhow::Result<Self> {
        // The program that runs, also where its file has been replaced since.
        let mut child = Command::new("/proc/self/exe")
            .arg("watchdog")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the watchdog")?;
        let mut to = child.stdin.take().context("no pipe to the watchdog")?;
        let mut from = child.stdout.take().context("no pipe from the watchdog")?;
        writeln!(to, "{}", serde_json::to_string(bypass)?).context("the watchdog does not listen")?;
        // It has given up what it need not do, and is ready to judge.
        let mut ready = [0; READY.len() + 1];
        from.read_exact(&mut ready).context("the watchdog ended before it began")?;
        for fd in [to.as_fd(), from.as_fd()] {
            let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
            fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        }
        Ok(Self { child, to, from, last: Instant::ZERO, partial: String::new() })
    }

    /// Says that the box lives, if it is time.
    ///
    /// # Errors
    /// If the watchdog is gone.
    pub fn beat(&mut self, now: Instant) -> io::Result<()> {
        if now.since(self.last) < BEAT / 2 {
            return Ok(());
        }
        self.last = now;
        self.say(ALIVE)
    }

    /// Says that the box has been late. Whoever joins the interfaces itself discards what comes until it hears
    /// [`Heard::Ready`]: it may have gone by already.
    ///
    /// # Errors
    /// If the watchdog is gone.
    pub fn late(&mut self) -> io::Result<()> {
        self.say(LATE)
    }

    fn say(&mut self, word: u8) -> io::Result<()> {
        match self.to.write(&[word]) {
            // A full pipe says it already.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
            other => other.map(drop),
        }
    }

    /// What it has said since the last time.
    pub fn heard(&mut self) -> Vec<Heard> {
        let mut buffer = [0; 1024];
        while let Ok(n @ 1..) = self.from.read(&mut buffer) {
            self.partial.push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
        let mut all = Vec::new();
        while let Some((line, rest)) = self.partial.split_once('\n') {
            all.extend(understand(line));
            self.partial = rest.to_owned();
        }
        all
    }

    /// Sends the watchdog away and waits until it has gone: what it did, it does no more.
    pub fn dismiss(mut self) {
        let _ = self.say(FAREWELL);
        let until = std::time::Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) {
            if std::time::Instant::now() > until {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn understand(line: &str) -> Option<Heard> {
    match line {
        READY => Some(Heard::Ready),
        RESTORED => Some(Heard::Restored),
        _ => line.strip_prefix(MESSAGE).map(|m| Heard::Message(m.to_owned())).or_else(|| {
            let passed = line.strip_prefix(PASSED)?.parse().ok()?;
            Some(Heard::Passed(Duration::from_millis(passed)))
        }),
    }
}
