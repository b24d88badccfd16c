//! The control socket: a client connects, sends the line `status`, and reads one JSON object to the end.
//!
//! The threads that talk to clients never touch the engine. They leave a wish on the publisher, wake it, and wait; the
//! engine answers between two packets, at most a few times a second.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::status::Status;

/// A report this young is given again: making one may cost more than a packet.
const FRESH: Duration = Duration::from_millis(200);
/// How long a client waits for the engine, and the box for a client.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where wishes and reports are exchanged.
#[derive(Debug)]
pub struct StatusPublisher {
    wake: EventFd,
    latest: Mutex<Option<(Instant, Arc<str>)>>,
    published: Condvar,
}

impl StatusPublisher {
    /// An empty publisher.
    ///
    /// # Errors
    /// If the kernel has no event descriptor left.
    pub fn new() -> anyhow::Result<Arc<Self>> {
        let wake = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .context("eventfd")?;
        Ok(Arc::new(Self { wake, latest: Mutex::new(None), published: Condvar::new() }))
    }

    /// Readable when somebody wants a report.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Whether somebody wants a report; forgets the wish.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.wake.read().is_ok()
    }

    /// Puts a report on the publisher.
    pub fn publish(&self, status: &Status) {
        // Numbers, strings and maps with string keys: nothing of it can fail to be JSON.
        let Ok(text) = serde_json::to_string(status) else { return };
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), text.into()));
        self.published.notify_all();
    }

    /// A report not older than a moment; `None` if the engine does not answer in time.
    #[must_use]
    pub fn ask(&self) -> Option<Arc<str>> {
        let asked = Instant::now();
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some((made, text)) = &*latest
                && *made + FRESH >= asked
            {
                return Some(Arc::clone(text));
            }
            self.wake.write(1).ok()?;
            let left = PATIENCE.checked_sub(asked.elapsed())?;
            latest = self.published.wait_timeout(latest, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Where a box with these interfaces listens unless told otherwise.
#[must_use]
pub fn default_path(lan: &str, wan: &str) -> PathBuf {
    Path::new(super::RUN_DIR).join(format!("{lan}-{wan}.sock"))
}

/// Opens the control socket at `path`, readable for its owner only: addresses of users are nobody else's business.
///
/// # Errors
/// If a living box listens there, or the socket cannot be made.
pub fn listen(path: &Path) -> anyhow::Result<UnixListener> {
    if UnixStream::connect(path).is_ok() {
        let who =
            fetch(path).map(|s| format!("process {}", s.pid)).unwrap_or_else(|_| "another program".into());
        bail!(
            "{who} listens on the control socket {}: stop it, or choose another with --control",
            path.display()
        );
    }
    if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {} of the control socket", folder.display()))?;
    }
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path)
        .with_context(|| format!("cannot make the control socket {}", path.display()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Answers clients of `listener`, one after the other, for as long as the program lives.
pub fn serve(listener: UnixListener, publisher: Arc<StatusPublisher>) {
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // A client that goes away early is no concern of ours.
            let _ = answer(&client, &publisher);
        }
    });
}

fn answer(mut client: &UnixStream, publisher: &StatusPublisher) -> std::io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(client.take(256)).read_line(&mut line)?;
    let reply = match line.trim() {
        "status" => publisher.ask().unwrap_or_else(|| r#"{"error":"the box does not answer"}"#.into()),
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

/// The same as the JSON text it came in.
///
/// # Errors
/// If nobody listens there.
pub fn fetch_text(path: &Path) -> anyhow::Result<String> {
    let ask = || {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE * 2))?;
        stream.write_all(b"status\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok::<_, std::io::Error>(text)
    };
    ask().with_context(|| format!("no box answers at {}", path.display()))
}
