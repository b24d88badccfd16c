//! Changes that a box makes on this machine, noted before they are made, so that the next start can undo those of a
//! killed box.
//!
//! One file per box, named by its network namespace and interfaces. A living box holds a lock on its file; the kernel
//! takes the lock away however the box dies. A file with content and without a lock is what a dead box left.
//!
//! The folder belongs to the user that boxes become, and root undoes what stands there. So nothing in it is believed
//! that a box would not write ([`Changes::refusal`]), no link in it is followed, and no file counts that somebody else
//! owns ([`open`]).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use super::bypass::{self, Bypass};
use super::interface_names::overlap;
use super::nfqueue;
use super::privilege::Identity;
use super::rules::{self, Tool};
use super::sysctl::{self, Sysctl};

/// Changes of one box, and how things were before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Changes {
    /// Process id of the box.
    pub pid: u32,
    /// Interface of the box's users, the first if there are several.
    pub lan: String,
    /// The others; `*` at the end of a name stands for any ending.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub more_lan: Vec<String>,
    /// Interface of the box's wide network.
    pub wan: String,
    /// Whether the box holds both interfaces for itself (packet sockets).
    pub exclusive: bool,
    /// Name of the box's chain of rules.
    pub chain: Option<String>,
    /// Bridge that the watchdog may put in the box's place.
    pub bridge: Option<String>,
    /// Kernel settings before.
    pub sysctls: Vec<Sysctl>,
    /// Path of the box's control socket.
    pub control: PathBuf,
    /// Owner of the state file, where the changes were read from a file.
    #[serde(skip)]
    pub owner: Option<u32>,
}

impl Changes {
    /// All interfaces of the box's users.
    pub fn lans(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.lan).chain(&self.more_lan)
    }

    /// Whether both cannot be: they would have what passes between the same interfaces, or one that either needs for
    /// itself.
    pub fn excludes(&self, other: &Self) -> bool {
        let users = self.lans().any(|lan| other.lans().any(|theirs| overlap(lan, theirs)));
        let across = [
            self.lans().any(|lan| overlap(lan, &other.wan)),
            other.lans().any(|lan| overlap(lan, &self.wan)),
        ];
        let same_wan = self.wan == other.wan;
        let shared = users || same_wan || across.contains(&true);
        users && same_wan || across == [true; 2] || shared && (self.exclusive || other.exclusive)
    }

    /// Whether root or `user` owns the state file that the changes were read from.
    #[must_use]
    pub fn is_of_their_owner(&self, user: Option<u32>) -> bool {
        self.owner.is_some_and(|owner| owner == 0 || user == Some(owner))
    }

    /// Names a value that no box writes, if there is one.
    fn refusal(&self) -> Option<String> {
        let number = |chain: &str| chain.strip_prefix(rules::CHAIN_PREFIX)?.parse::<u16>().ok();
        if let Some(chain) = self.chain.as_ref().filter(|chain| number(chain).is_none()) {
            return Some(format!("a chain '{chain}'"));
        }
        if let Some(bridge) = self.bridge.as_ref().filter(|name| !Bypass::is_bridge_name(name)) {
            return Some(format!("a bridge '{bridge}'"));
        }
        let other = self.sysctls.iter().find(|sysctl| !sysctl::is_ours(sysctl))?;
        Some(format!("'{}' in {}", other.before, other.path.display()))
    }

    /// Forgets a socket outside this folder, so that a file here removes nothing elsewhere. A box that is to listen
    /// there again removes it.
    fn within(mut self, dir: &Path) -> Self {
        let folder = self.control.parent();
        let is_near = folder.is_some_and(|folder| folder == dir || folder == Path::new(crate::RUN_DIR));
        let is_socket =
            || fs::symlink_metadata(&self.control).is_ok_and(|found| found.file_type().is_socket());
        if !is_near || !is_socket() {
            self.control.clear();
        }
        self
    }

    /// Undoes all of it, as far as it is still there. Returns what was undone and what could not be.
    fn undo(&self, others: &[Self], tools: &[Tool]) -> (Vec<String>, Vec<String>) {
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        let mut note = |what: String, result: anyhow::Result<bool>| match result {
            Ok(true) => done.push(what),
            Ok(false) => {}
            Err(e) => failed.push(format!("{what}: {e:#}")),
        };
        if let Some(chain) = &self.chain {
            for tool in tools {
                note(tool.place(chain), take_out(tool, chain, others));
            }
        }
        if let Some(bridge) = &self.bridge {
            note(format!("bridge {bridge}"), bypass::remove_bridge(bridge));
        }
        for sysctl in &self.sysctls {
            if !others.iter().any(|o| o.sysctls.iter().any(|s| s.path == sysctl.path)) {
                note(sysctl.path.display().to_string(), sysctl::restore(sysctl));
            }
        }
        if !self.control.as_os_str().is_empty() && fs::remove_file(&self.control).is_ok() {
            done.push(self.control.display().to_string());
        }
        (done, failed)
    }
}

/// The network namespace of this thread, by its inode.
fn namespace() -> anyhow::Result<u64> {
    Ok(fs::metadata("/proc/thread-self/ns/net")
        .context("cannot tell the network namespace: is /proc mounted?")?
        .ino())
}

fn prefix() -> anyhow::Result<String> {
    Ok(format!("net{}-", namespace()?))
}

/// A living box's file, held locked.
#[derive(Debug)]
pub struct Claim {
    file: Flock<File>,
    path: PathBuf,
    changes: Changes,
    /// Thread that writes the file.
    writing: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Claim {
    /// Claims the interfaces of `changes` for this process, which is to become this user.
    ///
    /// # Errors
    /// If another box has them, with its process, or `dir` cannot be written.
    pub fn take(dir: &Path, changes: Changes, user: Option<Identity>) -> anyhow::Result<Self> {
        Identity::folder(user, dir).with_context(|| {
            format!("cannot make the state folder {}: choose another with --state-dir", dir.display())
        })?;
        if let Some(other) = living(dir)?.iter().find(|other| other.excludes(&changes)) {
            bail!(
                "process {} runs a box on {} and {} already: stop it first (kill {})",
                other.pid,
                other.lan,
                other.wan,
                other.pid
            );
        }
        let path = path_of(dir, &changes.lan, &changes.wan)?;
        let file = lock(&path)?;
        user.map_or(Ok(()), |user| user.owns(&*file))?;
        let claim = Self { file, path, changes, writing: None };
        claim.write()?;
        Ok(claim)
    }

    /// The locked file, to be handed to another process: the lock lasts as long as either has it open.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Goes on with the file of a box whose place this process takes. What stands there is the other's until
    /// [`Claim::write_aside`] is called.
    ///
    /// # Errors
    /// If it is not that file.
    pub fn take_over(file: OwnedFd, path: PathBuf, changes: Changes) -> anyhow::Result<Self> {
        let file = Flock::lock(File::from(file), FlockArg::LockExclusiveNonblock)
            .map_err(|(_, e)| anyhow::anyhow!("the state file {} is not ours: {e}", path.display()))?;
        Ok(Self { file, path, changes, writing: None })
    }

    /// Writes the file in a thread of its own, after what is to be waited for before: a disk that others write to takes
    /// a second to say that it has it, and packets do not wait for that. What goes wrong is told at the end.
    pub fn write_aside(&mut self, before: impl FnOnce() + Send + 'static) {
        let written = self.file.try_clone().map_err(anyhow::Error::from).and_then(|file| {
            let (path, changes) = (self.path.clone(), self.changes.clone());
            let writing = move || {
                before();
                write(&file, &path, &changes)
            };
            Ok(std::thread::Builder::new().name("notes".into()).spawn(writing)?)
        });
        self.writing = written.ok();
    }

    /// Waits for what writes the file meanwhile.
    fn written(&mut self) -> anyhow::Result<()> {
        let writing = self.writing.take().map(JoinHandle::join);
        writing.map_or(Ok(()), |ended| ended.unwrap_or_else(|_| bail!("the state file was not written")))
    }

    /// Leaves all as it is to the process that has taken this one's place. Dropping it would unlock the file for both.
    pub fn leave(mut self) {
        let _ = self.written();
        std::mem::forget(self);
    }

    /// Notes a change; call it before the change is made.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn note(&mut self, change: impl FnOnce(&mut Changes)) -> anyhow::Result<()> {
        change(&mut self.changes);
        self.written()?;
        self.write()
    }

    /// Undoes everything noted, and lets the interfaces go.
    ///
    /// # Errors
    /// Names what could not be undone; everything else has been.
    pub fn release(mut self, tools: &[Tool]) -> anyhow::Result<()> {
        // All of it is undone now; what it says no longer matters.
        let _ = self.written();
        let dir = self.path.parent().unwrap_or(Path::new("/")).to_owned();
        // Other links of this process count too: what waits for them is in queues of the kernel.
        let others = living_but(&dir, Some(&self.path))?;
        let (_, mut failed) = self.changes.undo(&others, tools);
        // The last one takes away what others had to leave.
        if self.changes.chain.is_some() && !are_queued(&others) {
            let rest = orphans(tools, &others)?;
            failed.extend(rest.into_iter().filter_map(|(tool, chain)| {
                tool.remove(&chain).err().map(|e| format!("{}: {e:#}", tool.place(&chain)))
            }));
        }
        if failed.is_empty() {
            // Where the folder is not ours to change, an empty file says the same.
            let _ = self.file.set_len(0);
            let _ = fs::remove_file(&self.path);
            Ok(())
        } else {
            bail!(
                "not everything could be put back; `narrows doctor --clean` tries again:\n  {}",
                failed.join("\n  ")
            )
        }
    }

    /// Undoes the rules only: what must go before held packets are let go.
    ///
    /// # Errors
    /// If the packet filter refuses.
    pub fn remove_rules(&self, tools: &[Tool]) -> anyhow::Result<()> {
        let Some(chain) = &self.changes.chain else { return Ok(()) };
        let results: Vec<_> = tools.iter().map(|t| t.silence(chain)).collect();
        results.into_iter().try_for_each(|r| r.map(drop))
    }

    fn write(&self) -> anyhow::Result<()> {
        write(&self.file, &self.path, &self.changes)
    }
}

fn write(file: &File, path: &Path, changes: &Changes) -> anyhow::Result<()> {
    let text = serde_json::to_string(changes)?;
    let write = |mut file: &File| {
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(text.as_bytes())?;
        file.sync_data()
    };
    write(file).with_context(|| format!("cannot write the state file {}", path.display()))
}

/// The state file of a box on these interfaces, whichever is which.
///
/// # Errors
/// If the network namespace cannot be told.
pub fn path_of(dir: &Path, lan: &str, wan: &str) -> anyhow::Result<PathBuf> {
    let mut pair = [lan, wan];
    pair.sort_unstable();
    Ok(dir.join(format!("{}{}-{}.json", prefix()?, pair[0], pair[1])))
}

/// Time for which a process may lock a state file that only looks whether a box lives, or that has just let go.
const LOOKED_AT: Duration = Duration::from_secs(1);

/// Opens and locks a state file; creates the file if there is none.
fn lock(path: &Path) -> anyhow::Result<Flock<File>> {
    let until = Instant::now() + LOOKED_AT;
    loop {
        let file = open(path, Some(0o644))?;
        let file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => file,
            Err((_, Errno::EWOULDBLOCK)) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(10));
                continue;
            }
            Err((_, e)) => {
                bail!("another box is starting on these interfaces ({}): {e}", path.display())
            }
        };
        // Somebody who cleaned up may have removed it after it was opened: then nobody would see this lock.
        let named = fs::metadata(path).map(|m| m.ino()).ok();
        if named == Some(file.metadata()?.ino()) {
            return Ok(file);
        }
    }
}

/// The largest state file: one with all names as long as they can be has a tenth of it.
const LARGEST: u64 = 64 << 10;

/// Opens a file in the folder of boxes, to be read and written; with `make`, one that is not there is made with these
/// rights.
///
/// # Errors
/// If it is no file, a link, has a second name, or belongs to somebody who may not run a box here.
pub fn open(path: &Path, make: Option<u32>) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(make.is_some()).truncate(false).mode(make.unwrap_or(0));
    open_as(&mut options, path).with_context(|| format!("cannot write the state file {}", path.display()))
}

fn open_as(options: &mut OpenOptions, path: &Path) -> anyhow::Result<File> {
    // Not to wait for the other end of a pipe.
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    ensure!(found.is_file() && found.nlink() <= 1, "it is no file of its own: look at it, and remove it");
    let folder = path.parent().unwrap_or(Path::new("/"));
    ensure!(
        Identity::may_own(found.uid(), folder),
        "it belongs to user {}: look at it, and remove it",
        found.uid()
    );
    Ok(file)
}

fn open_to_read(path: &Path) -> anyhow::Result<File> {
    open_as(OpenOptions::new().read(true), path)
}

/// The state files of this network namespace, with their content, or why it is not believed.
fn files(dir: &Path) -> anyhow::Result<Vec<(PathBuf, anyhow::Result<Changes>)>> {
    let prefix = prefix()?;
    let Ok(entries) = fs::read_dir(dir) else { return Ok(Vec::new()) };
    let ours = |path: &Path| {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        name.starts_with(&prefix) && name.ends_with(".json")
    };
    let mut found = Vec::new();
    for path in entries.flatten().map(|e| e.path()).filter(|p| ours(p)) {
        match open_to_read(&path).and_then(|file| read(&file)) {
            // Removed, or not ours to read.
            Err(error)
                if error
                    .downcast_ref::<io::Error>()
                    .is_some_and(|e| e.raw_os_error() != Some(libc::ELOOP)) => {}
            changes => found.push((path, changes)),
        }
    }
    Ok(found)
}

/// Reads the notes of a box. One that was killed may have written half of it, or nothing: then nothing was changed yet.
///
/// # Errors
/// If no box has written it.
fn read(file: &File) -> anyhow::Result<Changes> {
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text)?;
    let mut changes: Changes = serde_json::from_str(&text).unwrap_or_default();
    changes.owner = Some(file.metadata()?.uid());
    match changes.refusal() {
        None => Ok(changes),
        Some(what) => bail!("no box notes {what}"),
    }
}

/// Whether a running box holds the lock on a state file.
fn is_held(path: &Path) -> bool {
    let Ok(file) = open_to_read(path) else { return false };
    Flock::lock(file, FlockArg::LockSharedNonblock).is_err()
}

/// Notes of the boxes living in this network namespace.
///
/// # Errors
/// If the namespace cannot be told.
pub fn living(dir: &Path) -> anyhow::Result<Vec<Changes>> {
    living_but(dir, None)
}

/// Notes of the boxes living in this network namespace, but for the one in this state file.
fn living_but(dir: &Path, own: Option<&Path>) -> anyhow::Result<Vec<Changes>> {
    let mut living = Vec::new();
    let others = files(dir)?.into_iter().filter(|(path, _)| Some(path.as_path()) != own);
    for (path, changes) in others.filter(|(path, _)| is_held(path)) {
        living.extend(changes.and_then(|changes| settled(&path, changes)));
    }
    Ok(living)
}

/// Changes of a box that lives, which may be writing them just now: then they are read again, for a moment.
fn settled(path: &Path, mut changes: Changes) -> anyhow::Result<Changes> {
    let until = Instant::now() + LOOKED_AT;
    while changes.pid == 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
        changes = read(&open_to_read(path)?)?;
    }
    Ok(changes)
}

/// Words for a state file that is not believed.
fn refused(path: &Path, error: &anyhow::Error) -> String {
    format!(
        "{} was not written by a box ({error:#}), and nothing was undone: look at it, and remove it",
        path.display()
    )
}

/// Leftovers of dead boxes in this network namespace, a sentence each.
///
/// # Errors
/// If the packet filter cannot be asked.
pub fn leftovers(dir: &Path) -> anyhow::Result<Vec<String>> {
    let mut left = Vec::new();
    for (path, changes) in files(dir)?.into_iter().filter(|(path, _)| !is_held(path)) {
        match changes {
            Ok(t) if t.pid == 0 => {}
            Ok(t) => {
                left.push(format!("a box on {} and {} (process {}) was killed", t.lan, t.wan, t.pid));
            }
            Err(error) => left.push(refused(&path, &error)),
        }
    }
    for (tool, chain) in orphans(&Tool::all(), &living(dir)?)? {
        left.push(format!("{} leads to a queue nobody listens on", tool.place(&chain)));
    }
    Ok(left)
}

/// Whether any of `others` may hold packets in a queue of the kernel.
fn are_queued(others: &[Changes]) -> bool {
    others.iter().any(|other| other.chain.is_some())
}

/// Takes rules out; not their place in the kernel as long as a living box may hold packets.
fn take_out(tool: &Tool, chain: &str, others: &[Changes]) -> anyhow::Result<bool> {
    if are_queued(others) { tool.silence(chain) } else { tool.remove(chain) }
}

/// Chains of ours whose queue nobody listens on. A living box listens before its rules are there and after they are
/// gone.
fn orphans<'a>(tools: &'a [Tool], others: &[Changes]) -> anyhow::Result<Vec<(&'a Tool, String)>> {
    // Readable for root only. Whoever else runs boxes has their notes, but cannot tell a chain nobody serves.
    let Ok(queues) = nfqueue::kernel_queues() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for tool in tools {
        for chain in tool.our_chains(are_queued(others))? {
            let number = chain.strip_prefix(rules::CHAIN_PREFIX).and_then(|n| n.parse::<u16>().ok());
            if !queues.iter().any(|q| Some(q.number) == number) {
                found.push((tool, chain));
            }
        }
    }
    Ok(found)
}

/// Outcome of [`clean`].
#[derive(Debug, Default)]
pub struct Cleaned {
    /// Changes that were undone, a sentence each.
    pub removed: Vec<String>,
    /// State files that no box has written, a sentence each. Nothing of them was done.
    pub refused: Vec<String>,
}

/// Undoes what dead boxes have left in this network namespace.
///
/// # Errors
/// Names what could not be undone; everything else has been.
pub fn clean(dir: &Path) -> anyhow::Result<Cleaned> {
    let tools = Tool::all();
    let (mut cleaned, mut failed) = (Cleaned::default(), Vec::new());
    let others = living(dir)?;
    for (path, changes) in files(dir)? {
        if let Err(error) = changes {
            cleaned.refused.push(refused(&path, &error));
            continue;
        }
        let Ok(file) = open(&path, None) else { continue };
        let Ok(lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else { continue };
        // As it is now that nobody holds it.
        let Ok(changes) = read(&lock) else { continue };
        let (done, not_done) = changes.within(dir).undo(&others, &tools);
        cleaned.removed.extend(done);
        if not_done.is_empty() {
            let _ = fs::remove_file(&path);
        }
        failed.extend(not_done);
    }
    for (tool, chain) in orphans(&tools, &others)? {
        take_out(tool, &chain, &others)?;
        cleaned.removed.push(tool.place(&chain));
    }
    if failed.is_empty() {
        Ok(cleaned)
    } else {
        bail!("left by a box that was killed, and not to be removed:\n  {}", failed.join("\n  "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_side_by_side_and_boxes_in_each_others_way() {
        let changes = |lan: &str, wan: &str, exclusive| {
            let mut lan = lan.split(' ').map(str::to_owned);
            let (first, wan) = (lan.next().unwrap(), wan.to_owned());
            Changes { lan: first, more_lan: lan.collect(), wan, exclusive, ..Changes::default() }
        };
        for (one, other, excludes) in [
            (changes("a", "w", false), changes("a", "w", false), true),
            (changes("a", "w", false), changes("w", "a", false), true),
            (changes("a", "w", false), changes("b", "w", false), false),
            (changes("a", "w", false), changes("a", "x", false), false),
            (changes("a", "w", true), changes("b", "w", false), true),
            (changes("a", "w", true), changes("b", "x", false), false),
            (changes("a b", "w", false), changes("c b", "w", false), true),
            (changes("a ppp*", "w", false), changes("ppp7", "w", false), true),
            (changes("ppp*", "w", false), changes("a", "ppp1", false), false),
        ] {
            assert_eq!(one.excludes(&other), excludes, "{one:?} {other:?}");
            assert_eq!(other.excludes(&one), excludes, "{other:?} {one:?}");
        }
    }

    fn note(dir: &Path, text: &str) -> PathBuf {
        let path = dir.join(format!("{}a-b.json", prefix().unwrap()));
        fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn what_no_box_writes_is_refused_and_stays() {
        let dir = narrows_testing::Scratch::new("notes");
        let victim = dir.join("victim");
        let sysctl = |path: &str, before: &str, needed: &str| {
            format!(r#"{{"pid":1,"sysctls":[{{"path":"{path}","before":"{before}","needed":"{needed}"}}]}}"#)
        };
        let known = "/proc/sys/net/bridge/bridge-nf-call-iptables";
        for text in [
            sysctl(&dir.join("created").display().to_string(), "a line of crontab", ""),
            sysctl(known, "00", "1"),
            sysctl(known, "0", ""),
            sysctl("/proc/sys/net/bridge/../../kernel/core_pattern", "1", "1"),
            r#"{"pid":1,"chain":"FILTER"}"#.to_owned(),
            r#"{"pid":1,"chain":"NARROWS-1; flush ruleset"}"#.to_owned(),
            r#"{"pid":1,"bridge":"eth0"}"#.to_owned(),
            r#"{"pid":1,"bridge":"nrw-by1\nlink del eth0"}"#.to_owned(),
        ] {
            let path = note(&dir, &text);
            let cleaned = clean(&dir).unwrap();
            assert!(cleaned.removed.is_empty() && path.exists(), "{text}");
            assert!(cleaned.refused[0].contains("was not written by a box"), "{:?}", cleaned.refused);
            assert!(!dir.join("created").exists());
            assert!(leftovers(&dir).unwrap()[0].contains("was not written by a box"));
        }
        // A note's socket is not removed if it lies elsewhere or is no socket.
        fs::write(&victim, "kept").unwrap();
        for control in [victim.clone(), dir.join("state").join("../victim"), PathBuf::from("/etc/passwd")] {
            let path = note(&dir, &format!(r#"{{"pid":1,"control":"{}"}}"#, control.display()));
            assert!(clean(&dir).unwrap().removed.is_empty() && !path.exists() && victim.exists());
        }
        // Notes that a box writes are undone.
        let socket = dir.join("control.sock");
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        note(&dir, &format!(r#"{{"pid":1,"bridge":"nrw-by9999999","control":"{}"}}"#, socket.display()));
        assert_eq!(clean(&dir).unwrap().removed, [socket.display().to_string()]);
    }

    #[test]
    fn notes_that_are_being_written_are_waited_for() {
        let dir = narrows_testing::Scratch::new("note-half");
        let path = note(&dir, "");
        let held = lock(&path).unwrap();
        let writing = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            write(&held, &path, &Changes { pid: 7, chain: Some("NARROWS-7".into()), ..Changes::default() })
                .unwrap();
            held
        });
        let living = living(&dir).unwrap();
        let _held = writing.join().unwrap();
        assert_eq!(living.iter().map(|changes| changes.pid).collect::<Vec<_>>(), [7]);
        assert!(are_queued(&living));
    }

    #[test]
    fn no_link_is_followed_and_no_second_name_of_a_file_taken() {
        let dir = narrows_testing::Scratch::new("note-links");
        let victim = dir.join("victim");
        fs::write(&victim, r#"{"pid":1}"#).unwrap();
        let path = dir.join(format!("{}a-b.json", prefix().unwrap()));
        let plant: [fn(&Path, &Path) -> io::Result<()>; 2] =
            [|from, to| std::os::unix::fs::symlink(from, to), |from, to| fs::hard_link(from, to)];
        for plant in plant {
            plant(&victim, &path).unwrap();
            assert!(lock(&path).is_err() && open(&path.clone(), Some(0o600)).is_err());
            assert_eq!(clean(&dir).unwrap().refused.len(), 1);
            assert_eq!(fs::read_to_string(&victim).unwrap(), r#"{"pid":1}"#);
            fs::remove_file(&path).unwrap();
        }
        // A link to nothing makes nothing.
        std::os::unix::fs::symlink(dir.join("created"), &path).unwrap();
        assert!(lock(&path).is_err() && !dir.join("created").exists());
    }

    #[test]
    fn a_start_waits_for_a_box_that_lets_go_but_not_for_one_that_runs() {
        let dir = std::env::temp_dir().join(format!("narrows-let-go-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("box.json");
        let held = lock(&path).unwrap();
        let letting_go = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(held);
        });
        let held = lock(&path).unwrap();
        letting_go.join().unwrap();
        let refused = lock(&path).unwrap_err().to_string();
        assert!(refused.starts_with("another box is starting on these interfaces"), "{refused}");
        drop(held);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_lock_is_on_the_file_that_others_see() {
        let dir = std::env::temp_dir().join(format!("narrows-lock-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("box.json");
        // One starts and cleans, over and over, while another starts.
        std::thread::scope(|scope| {
            let cleaner = scope.spawn(|| {
                for _ in 0..2000 {
                    if let Ok(file) = lock(&path) {
                        let _ = fs::remove_file(&path);
                        drop(file);
                    }
                }
            });
            while !cleaner.is_finished() {
                if let Ok(file) = lock(&path) {
                    assert_eq!(fs::metadata(&path).unwrap().ino(), file.metadata().unwrap().ino());
                }
            }
        });
        fs::remove_dir_all(&dir).unwrap();
    }
}
