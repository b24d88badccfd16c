//! A running box is replaced by another process, as for an upgrade, and no packet is lost.
//!
//! The kernel's queues belong to sockets, so the sockets go over (SCM_RIGHTS), and with them the packets that the
//! kernel holds; rules stay as they are. What the old box knows of flows and which packets wait go over as bytes:
//!
//! 1. The new box asks for the [`Terms`]: whether it understands the old one and would do the same. If not, it starts
//!    afresh: the old one is stopped as by an operator, and traffic passes unqueued in between.
//! 2. It starts its own watchdog, gives up what it need not do, and says `replace`.
//! 3. The old box stops handling packets, tells all it knows and passes its descriptors on.
//! 4. The new one says `ready`, the old one `yours`. If the old one has waited too long it says `mine` and goes on by
//!    itself, and the new one ends.
//! 5. The new one says `bye` when its service manager knows it; then it handles packets, and the old one ends. If the
//!    new one dies before that, the old one has all it had, and goes on. So never both handle packets, nor neither.

mod keepsake;
mod together;
mod wire;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use narrows_netio::rights;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::bypass::Bypass;
use super::state::Traces;

pub use keepsake::Keepsake;
pub use together::{AllTerms, Claimant, Handed, LinkTerms, deadline, numbers};
pub use wire::{Estate, FORMAT};

/// How long the old box waits for the new one: less than its watchdog waits for it.
const PATIENCE: Duration = Duration::from_millis(600);
/// How long either waits for what takes no time.
const MOMENT: Duration = Duration::from_secs(2);
/// How long a box may take to stop: its rules go first, and iptables waits up to ten seconds for its lock.
const STOPPING: Duration = Duration::from_secs(30);

/// What a box tells another that wants to take its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// How it tells what it knows: [`FORMAT`].
    pub format: u32,
    /// The version of its program.
    pub version: String,
    /// Its back end.
    pub backend: String,
    /// How traffic passes by it, and so what its rules are.
    pub bypass: Bypass,
}

impl Terms {
    /// Those of a box with this back end.
    #[must_use]
    pub fn new(backend: String, bypass: &Bypass) -> Self {
        Self {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            backend,
            bypass: bypass.clone(),
        }
    }

    /// Why a box that would have `own` terms cannot go on with these.
    #[must_use]
    pub fn refusal(&self, own: &Self) -> Option<String> {
        let differs = |what: &str| format!("{what} would be another: it is set up from the start");
        if self.format != own.format {
            return Some(format!(
                "version {} tells what it knows in format {}, and this is version {} with format {}",
                self.version, self.format, own.version, own.format
            ));
        }
        if self.backend != own.backend {
            return Some(differs("the back end"));
        }
        (!self.bypass.same_way(&own.bypass)).then(|| differs("what is queued (queue, local, rules)"))
    }
}

/// A process that wants to take this one's place.
#[derive(Debug)]
pub struct Successor {
    stream: UnixStream,
}

impl Successor {
    /// Who has said `replace` on the control socket.
    pub fn new(stream: UnixStream) -> Self {
        Self { stream }
    }

    /// Hands over and waits for the other to be ready. The estate's descriptors go in their order.
    ///
    /// # Errors
    /// If the other does not take it: it has been told that this one goes on.
    pub fn offer(&self, estate: &Estate, fds: &[BorrowedFd<'_>]) -> anyhow::Result<()> {
        let outcome = self.try_offer(estate, fds);
        if outcome.is_err() {
            let _ = (&self.stream).write_all(b"mine\n");
            let _ = self.stream.shutdown(std::net::Shutdown::Both);
        }
        outcome
    }

    fn try_offer(&self, estate: &Estate, fds: &[BorrowedFd<'_>]) -> anyhow::Result<()> {
        let memory = estate.in_memory()?;
        let mut all = vec![memory.as_fd()];
        all.extend(fds);
        self.stream.set_write_timeout(Some(PATIENCE))?;
        rights::send(&self.stream, b"estate\n", &all).context("it does not listen")?;
        let word = hear(&self.stream, PATIENCE)?;
        ensure!(word == "ready", "it said '{word}'");
        (&self.stream).write_all(b"yours\n").context("it has gone")
    }

    /// Waits until the other no longer needs this process to live. `false` if it has died before it handled a packet.
    #[must_use]
    pub fn has_taken(&self) -> bool {
        match hear(&self.stream, MOMENT) {
            Ok(word) => word == "bye",
            // One that is silent lives, and may handle packets by now.
            Err(error) => error
                .downcast_ref::<io::Error>()
                .is_some_and(|e| matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)),
        }
    }
}

/// One line.
fn hear(stream: &UnixStream, patience: Duration) -> anyhow::Result<String> {
    stream.set_read_timeout(Some(patience))?;
    let mut line = String::new();
    BufReader::new(stream.take(200)).read_line(&mut line).context("it says nothing")?;
    Ok(line.trim_end().to_owned())
}

/// A running box that is to be replaced.
#[derive(Debug)]
pub struct Predecessor<T = Terms> {
    stream: UnixStream,
    /// What it has said of itself.
    pub terms: T,
}

impl<T: DeserializeOwned> Predecessor<T> {
    /// Asks the box that has left these notes.
    ///
    /// # Errors
    /// If it does not answer, or is of a version that cannot be replaced.
    pub fn ask(traces: &Traces) -> anyhow::Result<Self> {
        let connect = || {
            let stream = UnixStream::connect(&traces.control)?;
            stream.set_read_timeout(Some(MOMENT))?;
            stream.set_write_timeout(Some(MOMENT))?;
            Ok::<_, io::Error>(stream)
        };
        let said = || {
            let mut stream = connect()?;
            stream.write_all(b"terms\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok::<_, io::Error>(text)
        };
        let text = said().context("it does not answer")?;
        let terms =
            serde_json::from_str(&text).with_context(|| format!("it cannot be replaced: {}", text.trim()))?;
        // Opened now: later this process may no longer.
        Ok(Self { stream: connect().context("it does not answer")?, terms })
    }

    /// The same one once more, asked after a while: it does not wait for long.
    ///
    /// # Errors
    /// If it does not answer any more.
    pub fn again(self, traces: &Traces) -> anyhow::Result<Self> {
        drop(self.stream);
        Self::ask(traces)
    }

    /// Takes it for good, but handles no packet before [`Predecessor::farewell`]. `false` if the other has changed its
    /// mind: it goes on.
    #[must_use]
    pub fn settle(&self) -> bool {
        // Refused where the other has hung up: it may have said why before.
        let _ = (&self.stream).write_all(b"ready\n");
        let said = hear(&self.stream, MOMENT);
        // Silence is a box that has died meanwhile: what it had is here.
        said.map_or(true, |word| word == "yours" || word.is_empty())
    }

    /// Lets the other end.
    pub fn farewell(&self) {
        let _ = (&self.stream).write_all(b"bye\n");
    }

    /// Waits until it has gone, for a moment.
    pub fn gone(mut self) {
        let _ = self.stream.set_read_timeout(Some(MOMENT));
        let _ = io::copy(&mut self.stream, &mut io::sink());
    }
}

impl Predecessor {
    /// Takes its place as far as that can be taken back.
    ///
    /// # Errors
    /// If it does not let go: it goes on.
    pub fn take(&self) -> anyhow::Result<(Estate, Vec<OwnedFd>)> {
        (&self.stream).write_all(b"replace\n").context("it does not listen")?;
        let (word, mut fds) = rights::receive(&self.stream).context("it does not hand over")?;
        ensure!(
            word == b"estate\n" && !fds.is_empty(),
            "it said '{}'",
            String::from_utf8_lossy(&word).trim()
        );
        let estate = Estate::from_memory(fds.remove(0))?;
        Ok((estate, fds))
    }
}

/// Stops a box that cannot be replaced, as an operator would, and waits until it has gone.
///
/// # Errors
/// If it does not go.
pub fn dismiss(traces: &Traces, dir: &Path) -> anyhow::Result<()> {
    use nix::sys::signal::{Signal, kill};
    let pid = nix::unistd::Pid::from_raw(traces.pid.cast_signed());
    kill(pid, Signal::SIGTERM).with_context(|| format!("cannot stop process {}", traces.pid))?;
    let until = Instant::now() + STOPPING;
    while super::state::living(dir)?.iter().any(|t| t.pid == traces.pid) {
        ensure!(Instant::now() < until, "process {} does not stop: stop it (kill {0})", traces.pid);
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;

    fn terms(local: bool) -> Terms {
        let rules = Rules {
            lan: vec!["lan0".into()],
            wan: "wan0".into(),
            queue: 40,
            bridged: false,
            local,
            owner: "narrows 12".into(),
        };
        Terms::new("nfqueue".into(), &Bypass::Rules { rules, tools: Vec::new() })
    }

    #[test]
    fn only_the_same_work_is_gone_on_with() {
        let own = terms(false);
        let mut other = own.clone();
        if let Bypass::Rules { rules, .. } = &mut other.bypass {
            rules.owner = "narrows 13".into();
        }
        other.version = "9.9.9".into();
        assert_eq!(other.refusal(&own), None, "who put the rules in is no matter");
        other.format += 1;
        let why = other.refusal(&own).unwrap();
        assert!(why.contains("version 9.9.9") && why.contains("format"), "{why}");
        assert!(terms(true).refusal(&own).unwrap().contains("local"));
        let pair = Terms { backend: "packet".into(), ..own.clone() };
        assert!(pair.refusal(&own).unwrap().contains("back end"));
    }

    fn pair() -> (Successor, Predecessor) {
        let (theirs, stream) = UnixStream::pair().unwrap();
        (Successor::new(theirs), Predecessor { stream, terms: terms(false) })
    }

    #[test]
    fn one_that_dies_before_it_says_so_has_not_taken_it() {
        let (old, new) = pair();
        new.farewell();
        assert!(old.has_taken());
        let (old, new) = pair();
        drop(new);
        assert!(!old.has_taken());
        let (old, new) = pair();
        (&old.stream).write_all(b"yours\n").unwrap();
        // It has never read that: to the other end its connection was reset.
        drop(new);
        assert!(!old.has_taken());
        // Its process hangs, and nobody knows where.
        let (old, _new) = pair();
        assert!(old.has_taken());
    }

    #[test]
    fn who_was_told_no_does_not_settle() {
        let (old, new) = pair();
        // As when it has waited too long.
        (&old.stream).write_all(b"mine\n").unwrap();
        old.stream.shutdown(std::net::Shutdown::Both).unwrap();
        assert!(!new.settle(), "the old one goes on");
        let (old, new) = pair();
        (&old.stream).write_all(b"yours\n").unwrap();
        assert!(new.settle());
        let (old, new) = pair();
        drop(old);
        assert!(new.settle(), "it has died");
    }
}
