//! A running box is replaced by another process, as for an upgrade, and no packet is lost.
//!
//! The kernel's queues belong to sockets, so the sockets go over (SCM_RIGHTS), and with them the packets that the
//! kernel holds; rules stay as they are. Knowledge of flows and waiting packets go over as bytes:
//!
//! 1. The new process asks for the [`ProcessTerms`]: whether it understands the old one and would do the same. Links
//!    that cannot be gone on with, or are in the way of new ones, are let go (`release`). Where none is left the new
//!    process starts afresh: the old one is stopped as by an operator, and traffic passes unqueued in between.
//! 2. The new process starts its own watchdog, gives up what it need not do, and says `replace` with the numbers of the
//!    links.
//! 3. The old process stops these links, tells all that they know and passes their descriptors on, a message `link` for
//!    each, and in a last one, `box`, what they share.
//! 4. The new one says `ready`, the old one `yours`. If the old one has waited too long it says `mine` and goes on by
//!    itself, and the new one ends. All links go over, or none.
//! 5. The new one says `bye` when its service manager knows it; then it handles packets, and the old one ends, with
//!    links that nobody has taken. If the new one dies before that, the old one has all it had, and goes on. So never
//!    both handle packets, nor neither.

mod flows_file;
mod link_state;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use narrows_netio::rights;
use serde::{Deserialize, Serialize};

use super::bypass::Bypass;
use super::control::ANSWER;
use super::state::Changes;

pub use flows_file::FlowsFile;
pub use link_state::{FORMAT, LinkState};

/// Time that the old box waits for the new one: less than its watchdog waits for it.
const PATIENCE: Duration = Duration::from_millis(600);
/// Time that each side waits for what takes no time.
const MOMENT: Duration = Duration::from_secs(2);
/// Time that a box may take to stop: its rules go first, and iptables waits up to ten seconds for its lock.
const STOPPING: Duration = Duration::from_secs(30);

/// Work of a link, described for the process that would go on with the link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Format of the state that is handed over: [`FORMAT`].
    pub format: u32,
    /// Version of the program.
    pub version: String,
    /// Back end.
    pub backend: String,
    /// Way of traffic that passes by the link; names the link's rules.
    pub bypass: Bypass,
}

impl Terms {
    /// Describes the work of a link with this back end and bypass.
    #[must_use]
    pub fn new(backend: String, bypass: &Bypass) -> Self {
        Self {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            backend,
            bypass: bypass.clone(),
        }
    }

    /// Reason why a link that would have `own` terms cannot go on with these.
    #[must_use]
    pub fn refusal(&self, own: &Self) -> Option<String> {
        let differs = |what: &str| format!("{what} would be another: it is set up from the start");
        if self.format != own.format {
            return Some(other_format(&self.version, self.format).to_string());
        }
        if self.backend != own.backend {
            return Some(differs("the back end"));
        }
        (!self.bypass.same_way(&own.bypass)).then(|| differs("what is queued (queue, local, rules)"))
    }
}

/// A link of a process that can be replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkTerms {
    /// Number of the link in that process.
    pub number: u16,
    /// Interfaces of the users.
    pub lan: Vec<String>,
    /// Interface of the wide network.
    pub wan: String,
    /// Terms of the takeover.
    pub terms: Terms,
}

/// Terms of a process, told to another that wants to take its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessTerms {
    /// Links that handle packets.
    pub links: Vec<LinkTerms>,
    /// Whether the process has a status page.
    pub page: bool,
}

impl ProcessTerms {
    /// Understands the terms of another process.
    ///
    /// # Errors
    /// Tells the version of a process that cannot be replaced, or what it said.
    fn parse(text: &str) -> anyhow::Result<Self> {
        /// Terms up to format 4, of a process with one link.
        #[derive(Deserialize)]
        struct Older {
            format: u32,
            version: String,
        }
        let older = serde_json::from_str::<Older>(text);
        older.map_or(Ok(()), |Older { format, version }| Err(other_format(&version, format)))?;
        serde_json::from_str(text).with_context(|| format!("it cannot be replaced: {}", text.trim()))
    }
}

fn other_format(version: &str, format: u32) -> anyhow::Error {
    anyhow::anyhow!(
        "version {version} tells what it knows in format {format}, and this is version {} with format {FORMAT}",
        env!("CARGO_PKG_VERSION")
    )
}

/// State of one link as it is handed over.
#[derive(Debug)]
pub struct Handed {
    memory: OwnedFd,
    fds: Vec<OwnedFd>,
    /// Size of the state in words: packets, and kilobytes about flows and users.
    pub words: String,
}

impl Handed {
    /// A state, and copies of the back end's descriptors.
    ///
    /// # Errors
    /// If no memory or descriptor is left.
    pub fn new(state: &LinkState, fds: &[BorrowedFd<'_>]) -> anyhow::Result<Self> {
        let fds = fds.iter().map(BorrowedFd::try_clone_to_owned).collect::<Result<_, _>>();
        Ok(Self {
            memory: state.in_memory()?,
            fds: fds.context("no descriptor is left")?,
            words: state.to_string(),
        })
    }
}

/// State of one link as it is received.
#[derive(Debug)]
pub struct Received {
    /// Knowledge and packets.
    pub state: LinkState,
    /// The back end's descriptors.
    pub fds: Vec<OwnedFd>,
    /// The locked state file.
    pub claim: OwnedFd,
}

/// Descriptors that go to a successor beside those of the links.
#[derive(Debug)]
pub struct SharedFds {
    listener: OwnedFd,
    page: Option<OwnedFd>,
}

impl SharedFds {
    /// Copies the descriptors of the control socket and of the status page, if there is one.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub fn of(listener: &UnixListener, page: Option<&TcpListener>) -> anyhow::Result<Self> {
        let listener = listener.as_fd().try_clone_to_owned().context("no descriptor is left")?;
        let page =
            page.map(|p| p.as_fd().try_clone_to_owned()).transpose().context("no descriptor is left")?;
        Ok(Self { listener, page })
    }

    /// Whether the socket of a status page is among the descriptors.
    #[must_use]
    pub const fn has_page(&self) -> bool {
        self.page.is_some()
    }

    /// Descriptors in the order in which a successor takes them.
    #[must_use]
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        [Some(&self.listener), self.page.as_ref()].into_iter().flatten().map(OwnedFd::as_fd).collect()
    }
}

/// Process that wants to take this process's place.
#[derive(Debug)]
pub struct Successor {
    stream: UnixStream,
}

impl Successor {
    /// The process that has said `replace` on the control socket.
    pub fn new(stream: UnixStream) -> Self {
        Self { stream }
    }

    /// Hands links over, each with its state file, and what they share, and waits for the successor to be ready.
    ///
    /// # Errors
    /// If the successor does not take them.
    pub fn offer(&self, links: &[(Handed, BorrowedFd<'_>)], shared: &[BorrowedFd<'_>]) -> anyhow::Result<()> {
        self.stream.set_write_timeout(Some(PATIENCE))?;
        for (handed, claim) in links {
            let own = handed.fds.iter().map(AsFd::as_fd);
            let fds: Vec<_> = [handed.memory.as_fd(), *claim].into_iter().chain(own).collect();
            rights::send(&self.stream, b"link\n", &fds).context("it does not listen")?;
        }
        rights::send(&self.stream, b"box\n", shared).context("it does not listen")?;
        let word = hear(&self.stream, PATIENCE)?;
        ensure!(word == "ready", "it said '{word}'");
        (&self.stream).write_all(b"yours\n").context("it has gone")
    }

    /// Tells the successor that this process goes on and hands over nothing.
    pub fn refuse(&self) {
        let _ = (&self.stream).write_all(b"mine\n");
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// Waits until the other no longer needs this process to live. `false` if it has died before it handled a packet.
    #[must_use]
    pub fn has_taken(&self) -> bool {
        match hear(&self.stream, MOMENT) {
            Ok(word) => word == "bye",
            // A successor that is silent lives, and may handle packets by now.
            Err(error) => error
                .downcast_ref::<io::Error>()
                .is_some_and(|e| matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)),
        }
    }
}

/// Reads one line.
fn hear(stream: &UnixStream, patience: Duration) -> anyhow::Result<String> {
    stream.set_read_timeout(Some(patience))?;
    let mut line = String::new();
    BufReader::new(stream.take(200)).read_line(&mut line).context("it says nothing")?;
    Ok(line.trim_end().to_owned())
}

/// A running box that is to be replaced.
#[derive(Debug)]
pub struct Predecessor {
    stream: UnixStream,
    /// Terms of the predecessor: its links and their work.
    pub terms: ProcessTerms,
}

impl Predecessor {
    /// Asks the box that has left these notes.
    ///
    /// # Errors
    /// If it does not answer, or is of a version that cannot be replaced.
    pub fn ask(changes: &Changes) -> anyhow::Result<Self> {
        let connect = || {
            let stream = UnixStream::connect(&changes.control)?;
            stream.set_read_timeout(Some(MOMENT))?;
            stream.set_write_timeout(Some(MOMENT))?;
            Ok::<_, io::Error>(stream)
        };
        let said = || {
            let mut stream = connect()?;
            stream.write_all(b"terms\n")?;
            let mut text = String::new();
            stream.take(ANSWER).read_to_string(&mut text)?;
            Ok::<_, io::Error>(text)
        };
        let text = said().context("it does not answer")?;
        let terms = ProcessTerms::parse(&text)?;
        // Opened now: later this process may no longer.
        Ok(Self { stream: connect().context("it does not answer")?, terms })
    }

    /// Asks the predecessor once more, after a while: it does not wait for long.
    ///
    /// # Errors
    /// If the predecessor does not answer any more.
    pub fn again(self, changes: &Changes) -> anyhow::Result<Self> {
        drop(self.stream);
        Self::ask(changes)
    }

    /// Has it let go of links, and waits until they are free.
    ///
    /// # Errors
    /// If it does not.
    pub fn release(control: &Path, links: &[u16]) -> anyhow::Result<()> {
        let mut stream = UnixStream::connect(control).context("it does not answer")?;
        stream.write_all(line("release", links).as_bytes())?;
        let said = hear(&stream, STOPPING)?;
        ensure!(said == "released", "it does not let go of links: {said}");
        Ok(())
    }

    /// Takes its place as far as that can be taken back: these links in their order, and what they share.
    ///
    /// # Errors
    /// If it does not let go: it goes on.
    pub fn take(&self, links: &[u16]) -> anyhow::Result<(Vec<Received>, Vec<OwnedFd>)> {
        (&self.stream).write_all(line("replace", links).as_bytes()).context("it does not listen")?;
        let mut all = Vec::new();
        for _ in links {
            let (word, mut fds) = rights::receive(&self.stream).context("it does not hand over")?;
            ensure!(
                word == b"link\n" && fds.len() > 2,
                "it said '{}'",
                String::from_utf8_lossy(&word).trim()
            );
            let (state, claim) = (LinkState::from_memory(fds.remove(0))?, fds.remove(0));
            all.push(Received { state, fds, claim });
        }
        let (word, fds) = rights::receive(&self.stream).context("it does not hand over")?;
        ensure!(word == b"box\n" && !fds.is_empty(), "it said '{}'", String::from_utf8_lossy(&word).trim());
        Ok((all, fds))
    }

    /// Takes it for good, but handles no packet before [`Predecessor::bye`]. `false` if the other has changed its
    /// mind: it goes on.
    #[must_use]
    pub fn settle(&self) -> bool {
        // Refused where the other has hung up: it may have said why before.
        let _ = (&self.stream).write_all(b"ready\n");
        let said = hear(&self.stream, MOMENT);
        // Silence is a box that has died meanwhile: what it had is here.
        said.map_or(true, |word| word == "yours" || word.is_empty())
    }

    /// Tells the other process that it may end.
    pub fn bye(&self) {
        let _ = (&self.stream).write_all(b"bye\n");
    }

    /// Waits a moment for the predecessor to end.
    pub fn gone(mut self) {
        let _ = self.stream.set_read_timeout(Some(MOMENT));
        let _ = io::copy(&mut self.stream, &mut io::sink());
    }
}

fn line(word: &str, links: &[u16]) -> String {
    links.iter().fold(word.to_owned(), |line, link| format!("{line} {link}")) + "\n"
}

/// The numbers after a word of the control socket; `None` if they are something else.
#[must_use]
pub fn numbers(rest: &str) -> Option<Vec<u16>> {
    rest.split_whitespace().map(|number| number.parse().ok()).collect()
}

/// A process that asks for links to be let go.
#[derive(Debug)]
pub struct ReleaseRequest {
    stream: UnixStream,
    /// Numbers of the links.
    pub links: Vec<u16>,
}

impl ReleaseRequest {
    /// The process that has said `release` on the control socket.
    #[must_use]
    pub fn new(stream: UnixStream, links: Vec<u16>) -> Self {
        Self { stream, links }
    }

    /// Tells the other process how the takeover went.
    pub fn answer(&self, outcome: &anyhow::Result<()>) {
        let words = outcome.as_ref().map_or_else(|error| format!("{error:#}"), |()| "released".to_owned());
        let _ = writeln!(&self.stream, "{words}");
    }
}

/// Time by which a hand-over that begins now must be done.
#[must_use]
pub fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

/// Stops a box that cannot be replaced, as an operator would, and waits until it has gone. No process is stopped that
/// is not of the user who wrote the box's notes.
///
/// # Errors
/// If it does not go.
pub fn dismiss(changes: &Changes, dir: &Path) -> anyhow::Result<()> {
    use nix::sys::signal::{Signal, kill};
    let pid = changes.pid;
    let lives = || anyhow::Ok(super::state::living(dir)?.iter().any(|t| t.pid == pid));
    let (known, stopped) = (Instant::now() + MOMENT, Instant::now() + STOPPING);
    // A box that still sets itself up is root's until it is done.
    while !changes.is_of_their_owner(user_of(pid)) {
        if !lives()? {
            return Ok(());
        }
        ensure!(
            Instant::now() < known,
            "process {pid} is not of the user whose notes in {} name it: stop it yourself (kill {pid}), or remove them",
            dir.display()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let process = i32::try_from(pid).ok().filter(|pid| *pid > 1).context("its notes name no process")?;
    kill(nix::unistd::Pid::from_raw(process), Signal::SIGTERM)
        .with_context(|| format!("cannot stop process {pid}"))?;
    while lives()? {
        ensure!(Instant::now() < stopped, "process {pid} does not stop: stop it (kill {pid})");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Effective user of the process with this number, if there is such a process.
fn user_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::LaneState;
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
        (Successor::new(theirs), Predecessor { stream, terms: ProcessTerms::default() })
    }

    #[test]
    fn one_that_dies_before_it_says_so_has_not_taken_it() {
        let (old, new) = pair();
        new.bye();
        assert!(old.has_taken());
        let (old, new) = pair();
        drop(new);
        assert!(!old.has_taken());
        let (old, new) = pair();
        (&old.stream).write_all(b"yours\n").unwrap();
        // The successor has never read that: to the other end its connection was reset.
        drop(new);
        assert!(!old.has_taken());
        // The process of that box hangs, and nobody knows where.
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

    fn handed(number: u32) -> Handed {
        let lane = || LaneState::of_knowledge(None);
        let (a, _) = UnixStream::pair().unwrap();
        Handed::new(&LinkState::of(&[lane(), lane()], vec![number], Vec::new()), &[a.as_fd()]).unwrap()
    }

    #[test]
    fn links_come_as_they_were_sent_and_are_settled_together() {
        let (theirs, stream) = UnixStream::pair().unwrap();
        let (file, _other) = UnixStream::pair().unwrap();
        let old = std::thread::spawn(move || {
            assert_eq!(hear(&theirs, MOMENT).unwrap(), "replace 3 1");
            let links = [(handed(30), file.as_fd()), (handed(10), file.as_fd())];
            Successor::new(theirs).offer(&links, &[file.as_fd()])
        });
        let new = Predecessor { stream, terms: ProcessTerms::default() };
        let (links, shared) = new.take(&[3, 1]).unwrap();
        let numbers: Vec<_> = links.iter().map(|l| (l.state.numbers.clone(), l.fds.len())).collect();
        assert_eq!((numbers, shared.len()), (vec![(vec![30], 1), (vec![10], 1)], 1));
        assert!(new.settle());
        old.join().unwrap().unwrap();
    }

    #[test]
    fn links_are_named_by_numbers() {
        assert_eq!(numbers("3 1 65535"), Some(vec![3, 1, 65_535]));
        assert!(["x", "-1", "1 70000"].into_iter().all(|text| numbers(text).is_none()));
    }

    #[test]
    fn one_that_goes_on_hands_over_nothing() {
        let (theirs, stream) = UnixStream::pair().unwrap();
        let new = Predecessor { stream, terms: ProcessTerms::default() };
        Successor::new(theirs).refuse();
        let why = new.take(&[0]).unwrap_err().to_string();
        assert!(why.contains("mine") || why.contains("listen"), "{why}");
        assert!(!new.settle());
    }

    #[test]
    fn a_process_of_an_older_format_is_named_with_its_version() {
        // As version 0.1 with one link told its terms in format 4.
        let text = r#"{"format":4,"version":"0.1.0","backend":"packet","bypass":"Program"}"#;
        let why = ProcessTerms::parse(text).unwrap_err().to_string();
        assert!(why.starts_with("version 0.1.0 tells what it knows in format 4"), "{why}");
        let why = ProcessTerms::parse("{}").unwrap_err().to_string();
        assert!(why.contains("cannot be replaced: {}"), "{why}");
    }
}
