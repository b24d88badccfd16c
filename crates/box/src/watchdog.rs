//! A process beside the box that lets traffic pass while the box does not answer: stopped, stuck or swapped out.
//!
//! Each loop that handles packets, one a link, writes a sign into a pipe a few times a second. When none has come from
//! a loop for [`LIMIT`] the watchdog opens the [`Bypass`] of its link; when they come again it closes it. The watchdog
//! also looks after the rules: a firewall's reload may flush them, or append others behind them.
//!
//! The watchdog shares nothing with the box but two pipes, is locked in memory, and keeps no more privileges than the
//! box does.

mod process;

use std::io::{self, Read, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use anyhow::{Context, bail};
use narrows_units::Instant;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use serde::{Deserialize, Serialize};

use super::bypass::Bypass;
use super::handover::Successor;
use super::privilege::Identity;

pub use process::main;

/// Time for which a loop may be silent. With what it takes to let traffic pass, a second's pause at most.
pub const LIMIT: Duration = Duration::from_millis(900);
/// Time between two signs of life, at most.
pub const BEAT: narrows_units::Duration = narrows_units::Duration::from_millis(250);
/// Time between two looks of the watchdog whether the rules stand.
const LOOK: Duration = Duration::from_secs(5);
/// Least time between two looks where packets were gone; an interface that is down has them go all the time.
const SOON: Duration = Duration::from_millis(500);
/// Time that the watchdog may take to go.
const PATIENCE: Duration = Duration::from_secs(2);

/// Words of the box to its watchdog, each in [`SIGN`] bytes with the number of the link: the box lives; it lives,
/// has been late, and wants to hear when its way is closed again; farewell, for all links; the link is let go, and
/// no longer watched; the box lives, and packets it had were gone, as when its rules are flushed.
const ALIVE: u8 = b'.';
const LATE: u8 = b'l';
const FAREWELL: u8 = b'q';
const GONE: u8 = b'g';
const LOST: u8 = b'r';
const SIGN: usize = 3;
/// Line that the watchdog writes when ready to judge.
const READY: &str = "ready\n";

/// Message of the watchdog to its box.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchdogMessage {
    /// The answer to one that was late. The way past the box is closed: packets that come in from now on have not gone
    /// by.
    Ready,
    /// Traffic has passed by the box for this time.
    Passed(Duration),
    /// The link was let go: the watchdog changes the link's rules no more.
    LetGo,
    /// The link's rules were gone, or others stood behind them, and are back.
    Restored,
    /// Message to be printed.
    Message(String),
}

/// Watchdog's process, as the box holds it.
#[derive(Debug)]
struct Process {
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
    partial: String,
}

impl Process {
    fn start(bypasses: &[Bypass], user: Option<Identity>) -> anyhow::Result<Self> {
        // The program that runs, also where its file has been replaced since.
        let mut child = Command::new("/proc/self/exe")
            .arg("watchdog")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the watchdog")?;
        let mut to = child.stdin.take().context("no pipe to the watchdog")?;
        let mut from = child.stdout.take().context("no pipe from the watchdog")?;
        writeln!(to, "{}", serde_json::to_string(&(bypasses, user))?)
            .context("the watchdog does not listen")?;
        // The watchdog has given up needless privileges, and is ready to judge.
        let mut ready = [0; READY.len()];
        from.read_exact(&mut ready).context("the watchdog ended before it began")?;
        for fd in [to.as_fd(), from.as_fd()] {
            let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
            fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        }
        Ok(Self { child, to, from, partial: String::new() })
    }

    /// Returns whether it went: not into a full pipe, which says that the box lives and nothing else.
    fn say(&mut self, word: u8, link: u16) -> io::Result<bool> {
        let [high, low] = link.to_be_bytes();
        match self.to.write(&[word, high, low]) {
            // A pipe takes so few bytes whole or not at all (pipe(7), PIPE_BUF).
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// Messages since the last call, each with the number of its link.
    fn heard(&mut self) -> Vec<(u16, WatchdogMessage)> {
        let mut buffer = [0; 1024];
        while let Ok(n @ 1..) = self.from.read(&mut buffer) {
            self.partial.push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
        let mut all = Vec::new();
        while let Some((line, rest)) = self.partial.split_once('\n') {
            all.extend(serde_json::from_str::<(u16, WatchdogMessage)>(line).ok());
            self.partial = rest.to_owned();
        }
        all
    }

    fn dismiss(mut self) {
        let _ = self.say(FAREWELL, 0);
        let until = std::time::Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) {
            if std::time::Instant::now() > until {
                return self.kill();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Part of the watchdog that all links share.
#[derive(Debug)]
struct Shared {
    /// Process of the watchdog; `None` where it was sent away, or is gone and cannot be started again.
    process: Option<Process>,
    links: Vec<Told>,
}

/// Messages about one link.
#[derive(Clone, Debug, Default)]
struct Told {
    /// Messages heard about the link and not yet read.
    heard: Vec<WatchdogMessage>,
    /// Whether the link is let go: it gives no more signs of life, so that no later watchdog waits for the next.
    gone: bool,
    /// Whether the watchdog knows that the link is let go.
    let_go: bool,
}

impl Shared {
    /// Takes in what the watchdog has said.
    fn gather(&mut self) {
        for (link, heard) in self.process.as_mut().map(Process::heard).into_iter().flatten() {
            let Some(told) = self.links.get_mut(usize::from(link)) else { continue };
            told.let_go |= heard == WatchdogMessage::LetGo;
            if !told.gone {
                told.heard.push(heard);
            }
        }
    }
}

/// The box's end, shared by the loops of all links.
#[derive(Debug)]
pub struct Watchdog {
    bypasses: Vec<Bypass>,
    shared: Mutex<Shared>,
}

impl Watchdog {
    /// Starts a watchdog that opens these bypasses, one a link, as this user. The watchdog waits for the first sign of
    /// life of a link before it judges the link.
    ///
    /// # Errors
    /// If no process can be started.
    pub fn start(bypasses: Vec<Bypass>, user: Option<Identity>) -> anyhow::Result<Arc<Self>> {
        let process = Some(Process::start(&bypasses, user)?);
        let links = vec![Told::default(); bypasses.len()];
        Ok(Arc::new(Self { bypasses, shared: Mutex::new(Shared { process, links }) }))
    }

    /// Way on which traffic passes by a link.
    #[must_use]
    pub fn bypass(&self, link: u16) -> &Bypass {
        &self.bypasses[usize::from(link)]
    }

    /// Calls `f` unless the lock is taken by another loop; never waits.
    fn try_with<R>(&self, f: impl FnOnce(&mut Shared) -> R) -> Option<R> {
        match self.shared.try_lock() {
            Ok(mut shared) => Some(f(&mut shared)),
            Err(TryLockError::Poisoned(shared)) => Some(f(&mut shared.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Process> {
        self.shared().process.take()
    }

    /// Lets go of a link: when this returns, what happens to its rules is the box's affair. A watchdog that does not
    /// answer has another one in its place.
    ///
    /// # Errors
    /// If there is none to be had: the other links are not watched.
    pub fn let_go(&self, link: u16) -> anyhow::Result<()> {
        let (until, mut said) = (std::time::Instant::now() + PATIENCE, false);
        while std::time::Instant::now() < until {
            let mut shared = self.shared();
            shared.links[usize::from(link)].gone = true;
            // Where it has died, a loop starts another.
            let Some(process) = shared.process.as_mut() else { return Ok(()) };
            if !said {
                let Ok(went) = process.say(GONE, link) else { return Ok(()) };
                said = went;
            }
            shared.gather();
            if shared.links[usize::from(link)].let_go {
                return Ok(());
            }
            drop(shared);
            std::thread::sleep(Duration::from_millis(1));
        }
        self.take().into_iter().for_each(Process::kill);
        self.again()
    }

    /// Gives way to another process, which has a watchdog of its own.
    ///
    /// # Errors
    /// If it has died before it handled a packet: this process goes on, with another watchdog.
    pub fn give_way(&self, to: &Successor) -> anyhow::Result<()> {
        if let Some(mut process) = self.take()
            && !process.say(FAREWELL, 0).unwrap_or(false)
        {
            // Else it would take the end of this process for a death.
            process.kill();
        }
        if to.has_taken() {
            return Ok(());
        }
        self.again().context("it died before it began, and nothing watches this process any more")?;
        bail!("it died before it began")
    }

    /// Starts another watchdog, with the privileges of the calling thread.
    fn again(&self) -> anyhow::Result<()> {
        self.shared().process = Some(Process::start(&self.bypasses, None)?);
        Ok(())
    }

    /// Sends the watchdog away and waits until it has gone: what it did, it does no more.
    pub fn dismiss(&self) {
        self.take().into_iter().for_each(Process::dismiss);
    }
}

/// Hold of one loop on the watchdog.
#[derive(Debug)]
pub struct Watched {
    /// Shared by all links.
    pub watchdog: Arc<Watchdog>,
    link: u16,
    last: Instant,
}

impl Watched {
    /// Creates the watch of the loop of link `link`, which is an index among the bypasses.
    #[must_use]
    pub const fn new(watchdog: Arc<Watchdog>, link: u16) -> Self {
        Self { watchdog, link, last: Instant::ZERO }
    }

    /// Way on which traffic passes by the loop's link.
    #[must_use]
    pub fn bypass(&self) -> &Bypass {
        self.watchdog.bypass(self.link)
    }

    /// Says that the loop lives, if it is time.
    ///
    /// # Errors
    /// If the watchdog is gone.
    pub fn beat(&mut self, now: Instant) -> io::Result<()> {
        if now.since(self.last) < BEAT / 2 {
            return Ok(());
        }
        // Where another loop is at it, at the next step.
        let Some(said) = self.say(ALIVE) else { return Ok(()) };
        self.last = now;
        said
    }

    /// Says that the loop has been late. Whoever joins the interfaces itself discards what comes until it hears
    /// [`WatchdogMessage::Ready`]: it may have gone by already.
    ///
    /// # Errors
    /// If the watchdog is gone.
    pub fn late(&mut self) -> io::Result<()> {
        self.say(LATE).unwrap_or(Ok(()))
    }

    /// Says that the loop lives and that packets were gone when their turn came: its rules may be, too. The next sign
    /// is due later, so that many such packets are one look.
    ///
    /// # Errors
    /// If the watchdog is gone.
    pub fn look(&mut self, now: Instant) -> io::Result<()> {
        self.last = now;
        self.say(LOST).unwrap_or(Ok(()))
    }

    fn say(&self, word: u8) -> Option<io::Result<()>> {
        let link = self.link;
        self.watchdog.try_with(|shared| {
            let gone = shared.links[usize::from(link)].gone;
            shared.process.as_mut().filter(|_| !gone).map_or(Ok(()), |p| p.say(word, link).map(drop))
        })
    }

    /// Takes the watchdog's messages about the loop's link since the last call.
    pub fn heard(&mut self) -> Vec<WatchdogMessage> {
        let link = usize::from(self.link);
        let heard = self.watchdog.try_with(|shared| {
            shared.gather();
            std::mem::take(&mut shared.links[link].heard)
        });
        heard.unwrap_or_default()
    }

    /// Starts another watchdog in place of one that is gone. Returns whether there is one.
    pub fn restart(&mut self) -> bool {
        let watchdog = &self.watchdog;
        let restarted = watchdog.try_with(|shared| {
            // The new watchdog inherits the privileges of this thread.
            shared.process = Process::start(&watchdog.bypasses, None).ok();
            shared.process.is_some()
        });
        restarted.unwrap_or(true)
    }
}
