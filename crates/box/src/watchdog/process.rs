//! The watchdog itself: it reads signs of life and acts when there are none.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::time::Instant;

use anyhow::Context;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::prctl;
use nix::sys::signal::SigSet;

use super::{ALIVE, FAREWELL, LATE, LIMIT, LOOK, MESSAGE, PASSED, READY, RESTORED};
use crate::bypass::Bypass;
use crate::privilege;

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
    privilege::keep_only_needed()?;
    let mut input = BufReader::with_capacity(64 << 10, std::io::stdin());
    let mut task = String::new();
    input.read_line(&mut task).context("nobody says what to watch")?;
    let bypass = serde_json::from_str(&task).context("not what a box says to its watchdog")?;
    tell(READY, "");
    Process { bypass, silent_since: None, open_since: None, looked: Instant::now() }.run(input)
}

/// What one read has brought.
enum Sign {
    Life {
        late: bool,
    },
    Farewell,
    /// The box is gone without a word.
    End,
}

struct Process {
    bypass: Bypass,
    /// The last sign of life; none before the first.
    silent_since: Option<Instant>,
    /// Traffic passes by.
    open_since: Option<Instant>,
    /// When it last looked whether the rules stand.
    looked: Instant,
}

impl Process {
    fn run(&mut self, mut input: BufReader<std::io::Stdin>) -> anyhow::Result<()> {
        loop {
            if input.buffer().is_empty() && !self.wait(&input)? {
                self.overdue();
                continue;
            }
            match sign(&mut input)? {
                Sign::Life { late } => self.lives(late),
                Sign::Farewell => return Ok(()),
                Sign::End => return self.left(),
            }
        }
    }

    /// Waits for a sign. `false` if none has come in time.
    fn wait(&self, input: &BufReader<std::io::Stdin>) -> anyhow::Result<bool> {
        let silent = self.silent_since.filter(|_| self.open_since.is_none());
        let left = silent.map(|since| (since + LIMIT).saturating_duration_since(Instant::now()));
        let timeout = left.map_or(PollTimeout::NONE, |t| {
            PollTimeout::try_from(t.as_millis() + 1).unwrap_or(PollTimeout::MAX)
        });
        let mut fds = [PollFd::new(input.get_ref().as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout) {
            Ok(ready) => Ok(ready > 0),
            Err(nix::errno::Errno::EINTR) => Ok(true),
            Err(e) => Err(e).context("poll"),
        }
    }

    /// The box is silent.
    fn overdue(&mut self) {
        let since = self.silent_since.unwrap_or_else(Instant::now);
        if since.elapsed() >= LIMIT && self.open_since.is_none() {
            // A second try follows with the next silence.
            match self.bypass.open() {
                Ok(()) => self.open_since = Some(Instant::now()),
                Err(e) => tell(MESSAGE, &format!("the watchdog could not let traffic pass: {e:#}")),
            }
            self.silent_since = Some(Instant::now());
        }
    }

    fn lives(&mut self, late: bool) {
        if let Some(since) = self.open_since {
            match self.bypass.close() {
                Ok(()) => {
                    self.open_since = None;
                    tell(PASSED, &since.elapsed().as_millis().to_string());
                }
                Err(e) => {
                    tell(MESSAGE, &format!("the watchdog could not lead traffic back to the box: {e:#}"))
                }
            }
        } else if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            match self.bypass.restore() {
                Ok(true) => tell(RESTORED, ""),
                Ok(false) => {}
                Err(e) => tell(MESSAGE, &format!("the watchdog cannot see the rules: {e:#}")),
            }
        }
        if late && self.open_since.is_none() {
            tell(READY, "");
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
}

/// All signs that have come, as one.
fn sign(input: &mut impl BufRead) -> anyhow::Result<Sign> {
    let words = match input.fill_buf() {
        Ok(words) => words,
        Err(e) if e.kind() == std::io::ErrorKind::Interrupted => return Ok(Sign::Life { late: false }),
        Err(e) => return Err(e).context("the pipe from the box"),
    };
    let (count, has) = (words.len(), |word| words.contains(&word));
    let sign = match () {
        () if has(FAREWELL) => Sign::Farewell,
        () if has(ALIVE) || has(LATE) => Sign::Life { late: has(LATE) },
        () => Sign::End,
    };
    input.consume(count);
    Ok(sign)
}

/// A line to the box, which may be too busy to read it.
fn tell(word: &str, more: &str) {
    let more = more.replace('\n', " ");
    let _ = writeln!(std::io::stdout(), "{word}{more}").and_then(|()| std::io::stdout().flush());
}
