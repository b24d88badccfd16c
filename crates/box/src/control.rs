//! The control socket: a client connects, sends the line `status`, and reads one JSON object to the end.
//!
//! The threads that talk to clients never touch the engine. Readers leave a wish on the publisher, wake it, and wait;
//! the engine answers between two packets, at most a few times a second.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr, socket};
use nix::sys::stat::{Mode, fchmod};

use super::clock;
use super::handover::{self, ReleaseRequest, Successor};
use super::privilege::{self, Identity};
use super::status::Status;

/// Age up to which a report is given to readers again: making a new one may cost more than a packet.
const FRESH: Duration = Duration::from_millis(200);
/// A report younger than this multiple of the processor time it took to make is given again, so that a full table of
/// flows, all of which are counted for it, costs the packets at most a hundredth of the time. Time for which the
/// process was stopped meanwhile is no cost, and makes no report stay.
const SHARE: u32 = 100;
/// Time that a client waits for the engine, and the box for a client.
const PATIENCE: Duration = Duration::from_secs(2);

/// The longest answer that is read: the status of some thousand links.
pub const ANSWER: u64 = 64 << 20;
/// The longest line a client may say: a word and the numbers of some thousand links.
const LINE: u64 = 8192;

/// Report that was made last.
#[derive(Clone, Debug)]
struct Latest {
    text: Arc<str>,
    made: Instant,
    /// Time for which the report is given again.
    fresh: Duration,
}

/// A process that wants to take this one's place has asked for something.
#[derive(Debug)]
pub enum Asked {
    /// Handover to a successor of the links with these numbers.
    Replace(Successor, Vec<u16>),
    /// Request to let go of links.
    Release(ReleaseRequest),
}

/// Place where wishes and reports are exchanged.
#[derive(Debug)]
pub struct StatusPublisher {
    wake: EventFd,
    latest: Mutex<Option<Latest>>,
    published: Condvar,
    /// Terms told to a process that would take this one's place, and the request of one that has said that it does.
    terms: Mutex<String>,
    successor: Mutex<Option<Asked>>,
    /// Time of the loop's last sign of life, in nanoseconds of the loop's clock.
    lived: AtomicU64,
}

/// Silence after which a loop counts as hung.
const HANGS: narrows_units::Duration = narrows_units::Duration::from_secs(1);

impl StatusPublisher {
    /// An empty publisher.
    ///
    /// # Errors
    /// If the kernel has no event descriptor left.
    pub fn new() -> anyhow::Result<Arc<Self>> {
        let wake = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .context("eventfd")?;
        Ok(Arc::new(Self {
            wake,
            latest: Mutex::new(None),
            published: Condvar::new(),
            terms: Mutex::new("{}".to_owned()),
            successor: Mutex::new(None),
            lived: AtomicU64::new(clock::now().as_nanos()),
        }))
    }

    /// Notes that the loop lives.
    pub fn show_life(&self, now: narrows_units::Instant) {
        self.lived.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Tells whether the loop has shown life within a second.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let lived = narrows_units::Instant::from_nanos(self.lived.load(Ordering::Relaxed));
        clock::now().since(lived) < HANGS
    }

    /// Readable when somebody wants a report.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Wakes the engine.
    pub fn nudge(&self) {
        let _ = self.wake.write(1);
    }

    /// Has a report made, unless one is there that is given again.
    pub fn wish(&self) {
        if self.fresh(Instant::now()).is_none() {
            self.nudge();
        }
    }

    fn fresh(&self, asked: Instant) -> Option<Arc<str>> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.as_ref().filter(|l| l.made + l.fresh >= asked).map(|l| Arc::clone(&l.text))
    }

    /// Whether somebody wants a report; forgets the wish.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.wake.read().is_ok()
    }

    /// Sets the terms that a process is told which would take this one's place.
    pub fn may_be_replaced(&self, terms: &impl serde::Serialize) {
        *self.terms.lock().unwrap_or_else(PoisonError::into_inner) =
            serde_json::to_string(terms).unwrap_or_default();
    }

    /// Request of a process that wants to take this one's place; given out once.
    #[must_use]
    pub fn asked(&self) -> Option<Asked> {
        self.successor.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn ask_for(&self, what: Asked) -> std::io::Result<()> {
        *self.successor.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
        self.wake.write(1).map(drop).map_err(Into::into)
    }

    /// Makes a report and puts it on the publisher.
    pub fn publish(&self, make: impl FnOnce() -> Status) {
        let begun = clock::spent();
        // Numbers, strings and maps with string keys: nothing of it can fail to be JSON.
        let Ok(text) = serde_json::to_string(&make()) else { return };
        let cost = clock::spent().saturating_sub(begun);
        let (made, fresh) = (Instant::now(), FRESH.max(cost * SHARE));
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Latest { text: text.into(), made, fresh });
        self.published.notify_all();
    }

    /// A report not older than a moment; `None` if the engine does not answer in time.
    #[must_use]
    pub fn ask(&self) -> Option<Arc<str>> {
        self.ask_within(PATIENCE)
    }

    /// Asks the engine for a report, and waits at most `patience` for the answer.
    #[must_use]
    pub fn ask_within(&self, patience: Duration) -> Option<Arc<str>> {
        let asked = Instant::now();
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(Latest { text, made, fresh }) = &*latest
                && *made + *fresh >= asked
            {
                return Some(Arc::clone(text));
            }
            self.wake.write(1).ok()?;
            let left = patience.checked_sub(asked.elapsed())?;
            latest = self.published.wait_timeout(latest, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Opens the control socket at `path`, readable for its owner only, this user: addresses of users are nobody else's
/// business.
///
/// # Errors
/// If a living box listens there, or the socket cannot be made.
pub fn listen(path: &Path, user: Option<Identity>) -> anyhow::Result<UnixListener> {
    if UnixStream::connect(path).is_ok() {
        let who =
            fetch(path).map(|s| format!("process {}", s.pid)).unwrap_or_else(|_| "another program".into());
        bail!(
            "{who} listens on the control socket {}: stop it, or choose another with --control",
            path.display()
        );
    }
    if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
        Identity::folder(user, folder)
            .with_context(|| format!("cannot make the folder {} of the control socket", folder.display()))?;
    }
    // Only what a box has left is removed.
    match std::fs::symlink_metadata(path) {
        Ok(left) if left.file_type().is_socket() => drop(std::fs::remove_file(path)),
        Ok(_) => bail!("{} is there and is no socket: choose another with --control", path.display()),
        Err(_) => {}
    }
    let listener =
        bind(path).with_context(|| format!("cannot make the control socket {}", path.display()))?;
    user.map_or(Ok(()), |user| user.owns_socket(path))?;
    Ok(listener)
}

/// A socket at `path` that is its owner's only from the beginning: to change its rights by name later is to change
/// whatever has been put there since.
fn bind(path: &Path) -> nix::Result<UnixListener> {
    let listener = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    // The file has the rights of the socket, less umask (unix(7), net/unix/af_unix.c).
    fchmod(&listener, Mode::S_IRUSR | Mode::S_IWUSR)?;
    socket::bind(listener.as_raw_fd(), &UnixAddr::new(path)?)?;
    socket::listen(&listener, Backlog::new(128)?)?;
    Ok(listener.into())
}

/// Answers clients of `listener`, one after the other, for as long as the program lives.
///
/// # Errors
/// If the kernel has no thread left.
pub fn serve(listener: UnixListener, publisher: Arc<StatusPublisher>) -> anyhow::Result<()> {
    let thread = std::thread::Builder::new().name("control".into());
    let serving = move || {
        privilege::give_up_all(None);
        for client in listener.incoming().flatten() {
            // A client that goes away early is no concern of ours.
            let _ = answer(client, &publisher);
        }
    };
    thread.spawn(serving).context("the control socket's thread").map(drop)
}

/// Answers one client.
pub fn answer(stream: UnixStream, publisher: &StatusPublisher) -> std::io::Result<()> {
    let mut client = &stream;
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(client.take(LINE)).read_line(&mut line)?;
    let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let reply = match (word, handover::numbers(rest)) {
        ("terms", _) => publisher.terms.lock().unwrap_or_else(PoisonError::into_inner).as_str().into(),
        ("replace", Some(numbers)) => {
            return publisher.ask_for(Asked::Replace(Successor::new(stream), numbers));
        }
        ("release", Some(numbers)) => {
            return publisher.ask_for(Asked::Release(ReleaseRequest::new(stream, numbers)));
        }
        ("status", _) => publisher.ask().unwrap_or_else(|| r#"{"error":"the box does not answer"}"#.into()),
        _ => r#"{"error":"expected the line: status"}"#.into(),
    };
    client.write_all(reply.as_bytes())?;
    client.write_all(b"\n")
}

/// The status of the box that listens at `path`.
///
/// # Errors
/// If nobody listens there, or what is said is no status.
pub fn fetch(path: &Path) -> anyhow::Result<Status> {
    let text = fetch_text(path)?;
    serde_json::from_str(&text).with_context(|| format!("{} answered: {}", path.display(), text.trim()))
}

/// Fetches the status as JSON text.
///
/// # Errors
/// If nobody listens there.
pub fn fetch_text(path: &Path) -> anyhow::Result<String> {
    let ask = || {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE * 2))?;
        stream.write_all(b"status\n")?;
        let mut text = String::new();
        stream.take(ANSWER).read_to_string(&mut text)?;
        Ok::<_, std::io::Error>(text)
    };
    ask().with_context(|| format!("no box answers at {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let path = std::env::temp_dir().join(format!("narrows-no-socket-{}", std::process::id()));
        std::fs::write(&path, "kept").unwrap();
        let refused = listen(&path, None).unwrap_err().to_string();
        assert!(refused.contains("is no socket"), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
        std::fs::remove_file(&path).unwrap();
        drop(listen(&path, None).unwrap());
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
        assert_eq!(mode & 0o777, 0o600, "its owner's only");
        assert!(listen(&path, None).is_ok(), "what a dead box has left");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_took_long_is_given_again_for_longer() {
        let publisher = StatusPublisher::new().unwrap();
        let fresh = || publisher.latest.lock().unwrap().as_ref().unwrap().fresh;
        // As where the process is stopped meanwhile.
        publisher.publish(|| {
            std::thread::sleep(Duration::from_millis(100));
            Status::default()
        });
        assert!((FRESH..Duration::from_secs(10)).contains(&fresh()), "{:?}", fresh());
        // As with 65 536 flows on a slow processor.
        publisher.publish(|| {
            let begun = clock::spent();
            while clock::spent().saturating_sub(begun) < Duration::from_millis(30) {}
            Status::default()
        });
        assert!(fresh() >= Duration::from_secs(3));
        assert!(publisher.ask().is_some(), "nobody made another");
        assert!(!publisher.is_wanted());
    }
}
