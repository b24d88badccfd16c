//! The watchdog itself: it reads signs of life and acts when there are none.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::time::Instant;

use anyhow::Context;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::prctl;
use nix::sys::signal::SigSet;

use super::{ALIVE, FAREWELL, GONE, LATE, LIMIT, LOOK, LOST, READY, SIGN, SOON, WatchdogMessage};
use crate::bypass::Bypass;
use crate::privilege::{self, Identity};

/// Watches the box at the other end of standard input, until it goes.
///
/// # Errors
/// If it cannot read what it is to do.
pub fn main() -> anyhow::Result<()> {
    // As people see it in a list of processes.
    let _ = prctl::set_name(c"watchdog");
    // Signals are for the box: it says when it goes.
    SigSet::all().thread_block().context("cannot block signals")?;
    // When memory is short it is needed most. Where this is refused it does without.
    let _ = std::fs::write("/proc/self/oom_score_adj", "-900");
    let _ = mlockall(MlockAllFlags::MCL_CURRENT);
    privilege::prefer();
    let mut input = BufReader::with_capacity(64 << 10, std::io::stdin());
    let mut task = String::new();
    input.read_line(&mut task).context("nobody says what to watch")?;
    let (bypasses, user): (Vec<Bypass>, Option<Identity>) =
        serde_json::from_str(&task).context("not what a box says to its watchdog")?;
    // The box is refused the same privileges, and reports it.
    privilege::keep_only_needed(user)?;
    let _ = std::io::stdout().write_all(READY.as_bytes()).and_then(|()| std::io::stdout().flush());
    let link = |(number, bypass)| Link {
        number,
        bypass,
        silent_since: None,
        open_since: None,
        looked: Instant::now(),
        lost: false,
        gone: false,
    };
    Watch { links: (0..).zip(bypasses).map(link).collect(), signs: Vec::new() }.run(input)
}

/// A link under watch.
struct Link {
    number: u16,
    bypass: Bypass,
    /// The last sign of life; none before the first.
    silent_since: Option<Instant>,
    /// Traffic passes by.
    open_since: Option<Instant>,
    /// Time of the last look whether the rules stand.
    looked: Instant,
    /// Whether packets were gone since that look. They may all be gone at once, sooner after it than the next may be.
    lost: bool,
    /// Whether the link is let go, and no longer watched here.
    gone: bool,
}

/// A sign of life.
struct Life {
    number: u16,
    /// Whether the box was late.
    late: bool,
    /// Whether packets of the box were gone.
    lost: bool,
}

impl Life {
    fn of(number: u16, word: u8) -> Self {
        let mut life = Self { number, late: false, lost: false };
        life.note(word);
        life
    }

    fn note(&mut self, word: u8) {
        self.late |= word == LATE;
        self.lost |= word == LOST;
    }
}

/// Content of one read from the box.
enum Signs {
    /// Signs of links that live.
    Life(Vec<Life>),
    Farewell,
    /// The box is gone without a word.
    End,
}

struct Watch {
    links: Vec<Link>,
    /// Bytes of a sign that is not whole yet.
    signs: Vec<u8>,
}

impl Watch {
    fn run(&mut self, mut input: BufReader<std::io::Stdin>) -> anyhow::Result<()> {
        loop {
            if input.buffer().is_empty() && !self.wait(&input)? {
                // One at a time: what is done for one may take longer than another may be silent.
                self.links.iter_mut().find(|link| link.is_overdue()).into_iter().for_each(Link::let_pass);
                continue;
            }
            match self.read(&mut input)? {
                Signs::Life(lives) => {
                    for life in lives {
                        let link = self.links.get_mut(usize::from(life.number));
                        link.into_iter().for_each(|link| link.lives(&life));
                    }
                }
                Signs::Farewell => return Ok(()),
                Signs::End => return self.links.iter().map(Link::left).fold(Ok(()), Result::and),
            }
        }
    }

    /// Waits for a sign. `false` if none has come before a link is overdue.
    fn wait(&self, input: &BufReader<std::io::Stdin>) -> anyhow::Result<bool> {
        let silent = |link: &Link| link.silent_since.filter(|_| link.open_since.is_none());
        loop {
            let first = self.links.iter().filter_map(silent).min();
            let left = first.map(|since| (since + LIMIT).saturating_duration_since(Instant::now()));
            let timeout = left.map_or(PollTimeout::NONE, |t| {
                PollTimeout::try_from(t.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX)
            });
            let mut fds = [PollFd::new(input.get_ref().as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, timeout) {
                Ok(ready) => return Ok(ready > 0),
                Err(nix::errno::Errno::EINTR) => {}
                Err(e) => return Err(e).context("poll"),
            }
        }
    }

    /// All signs that have come, one of each link.
    fn read(&mut self, input: &mut impl Read) -> anyhow::Result<Signs> {
        let mut buffer = [0; 4096];
        let count = match input.read(&mut buffer) {
            Ok(0) => return Ok(Signs::End),
            Ok(count) => count,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => 0,
            Err(e) => return Err(e).context("the pipe from the box"),
        };
        self.signs.extend_from_slice(&buffer[..count]);
        let whole = self.signs.len() / SIGN * SIGN;
        let mut lives: Vec<Life> = Vec::new();
        for sign in self.signs.drain(..whole).as_slice().chunks_exact(SIGN) {
            let (word, number) = (sign[0], u16::from_be_bytes([sign[1], sign[2]]));
            match word {
                FAREWELL => return Ok(Signs::Farewell),
                GONE => {
                    if let Some(link) = self.links.iter_mut().find(|link| link.number == number) {
                        (link.gone, link.silent_since, link.open_since) = (true, None, None);
                        link.tell(&WatchdogMessage::LetGo);
                    }
                }
                ALIVE | LATE | LOST => match lives.iter_mut().find(|life| life.number == number) {
                    Some(life) => life.note(word),
                    None => lives.push(Life::of(number, word)),
                },
                _ => {}
            }
        }
        Ok(Signs::Life(lives))
    }
}

impl Link {
    fn is_overdue(&self) -> bool {
        self.open_since.is_none() && self.silent_since.is_some_and(|since| since.elapsed() >= LIMIT)
    }

    /// The loop is silent.
    fn let_pass(&mut self) {
        // A second try follows with the next silence.
        match self.bypass.open() {
            Ok(()) => self.open_since = Some(Instant::now()),
            Err(e) => self.message("could not let traffic pass", &e),
        }
        self.silent_since = Some(Instant::now());
    }

    fn lives(&mut self, life: &Life) {
        if self.gone {
            return;
        }
        self.lost |= life.lost;
        if let Some(since) = self.open_since {
            match self.bypass.close() {
                Ok(()) => {
                    self.open_since = None;
                    self.tell(&WatchdogMessage::Passed(since.elapsed()));
                }
                Err(e) => self.message("could not lead traffic back to the box", &e),
            }
        } else if self.silent_since.is_none() {
            // The link begins: its rules may be on their way.
            self.looked = Instant::now();
        } else if self.looked.elapsed() >= if self.lost { SOON } else { LOOK } {
            (self.looked, self.lost) = (Instant::now(), false);
            match self.bypass.restore() {
                Ok(true) => self.tell(&WatchdogMessage::Restored),
                Ok(false) => {}
                Err(e) => self.message("cannot see the rules", &e),
            }
        }
        if life.late && self.open_since.is_none() {
            self.tell(&WatchdogMessage::Ready);
        }
        self.silent_since = Some(Instant::now());
    }

    /// The box has died. Rules let traffic pass by themselves then; where it has joined the interfaces, a bridge does
    /// from now on. The next start removes either.
    fn left(&self) -> anyhow::Result<()> {
        let bridge = self.bypass.bridge_name().is_some();
        if bridge && self.silent_since.is_some() && self.open_since.is_none() {
            self.bypass.open()
        } else {
            Ok(())
        }
    }

    fn message(&self, what: &str, error: &anyhow::Error) {
        self.tell(&WatchdogMessage::Message(format!("the watchdog {what}: {error:#}")));
    }

    /// Writes a message to the box, which may be too busy to read the message.
    fn tell(&self, what: &WatchdogMessage) {
        let line = serde_json::to_string(&(self.number, what)).unwrap_or_default();
        let _ = writeln!(std::io::stdout(), "{line}").and_then(|()| std::io::stdout().flush());
    }
}
