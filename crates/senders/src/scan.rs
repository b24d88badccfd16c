//! Pushing connections that no process holds any more: a walk over all sockets of a network namespace.
//!
//! The walk costs the namespace's whole socket table, used or not (milliseconds where the kernel has sized it by a big
//! memory), so it serves every connection that is due, and takes at most a quarter of one processor: after each comes a
//! pause three times as long. A slot that comes in the pause is late; two may be made up for at once, later ones are
//! lost.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use nix::sched::{CloneFlags, setns};

use crate::driver::{clock_ns, thread_cpu_ns};
use crate::libbpf;

/// Namespaces whose last walk is remembered.
const MOST_REMEMBERED: usize = 64;
/// Where `ip netns` keeps names.
const NAMED: &str = "/run/netns";

/// A network namespace, kept alive.
#[derive(Clone)]
pub(crate) struct Namespace {
    inode: u64,
    file: Arc<File>,
}

impl Namespace {
    fn open(path: impl AsRef<Path>) -> Option<Self> {
        let file = File::open(path).ok()?;
        Some(Self { inode: file.metadata().ok()?.ino(), file: Arc::new(file) })
    }
}

/// When a namespace was walked last, and how many connections waited then.
#[derive(Clone, Copy)]
struct Walk {
    at_ns: u64,
    waiting: usize,
}

/// Walks.
pub(crate) struct Scanner {
    iterator: OwnedFd,
    home: Namespace,
    walks: BTreeMap<u64, Walk>,
    /// Time before which no walk begins.
    pause_until_ns: u64,
    /// Number of walks.
    pub scans: u64,
    /// Time that all walks took together, in nanoseconds.
    pub spent_ns: u64,
    /// Processor time of all walks, in nanoseconds.
    pub cpu_ns: u64,
}

/// Result of pushing a connection by a scan when its slot is due.
pub(crate) enum Outcome {
    /// The connection was pushed, and more data wait for slots.
    Pushed,
    /// No connection in the namespace waits any more.
    Idle,
    /// The next scan is not due before this time, in nanoseconds of the monotonic clock.
    Later(u64),
}

impl Scanner {
    /// Walks with `iterator`.
    pub fn new(iterator: OwnedFd) -> anyhow::Result<Self> {
        let home = Namespace::open("/proc/thread-self/ns/net").context("/proc/thread-self/ns/net")?;
        Ok(Self {
            iterator,
            home,
            walks: BTreeMap::new(),
            pause_until_ns: 0,
            scans: 0,
            spent_ns: 0,
            cpu_ns: 0,
        })
    }

    /// The namespace with an inode number: of one of these threads, of this process, or with a name. A thread may have
    /// left it, or have ended.
    pub fn find(&self, inode: u32, threads: [u32; 2]) -> Option<Namespace> {
        let named = || {
            std::fs::read_dir(NAMED).into_iter().flatten().flatten().filter_map(|e| Namespace::open(e.path()))
        };
        let theirs = threads.into_iter().filter_map(|t| Namespace::open(format!("/proc/{t}/ns/net")));
        theirs
            .chain([self.home.clone()])
            .chain(std::iter::once_with(named).flatten())
            .find(|n| n.inode == u64::from(inode))
    }

    /// Pushes what is due at `at_ns` in a namespace, unless a walk after that time has done so.
    pub fn push(&mut self, namespace: &Namespace, at_ns: u64, now: u64) -> anyhow::Result<Outcome> {
        let done = self.walks.get(&namespace.inode).filter(|w| w.at_ns >= at_ns);
        let walk = match done {
            Some(walk) => *walk,
            None if now < self.pause_until_ns => return Ok(Outcome::Later(self.pause_until_ns)),
            None => self.walk(namespace)?,
        };
        Ok(if walk.waiting == 0 { Outcome::Idle } else { Outcome::Pushed })
    }

    fn walk(&mut self, namespace: &Namespace) -> anyhow::Result<Walk> {
        let begin = clock_ns()?;
        let walked =
            std::thread::scope(|scope| scope.spawn(|| walk_inside(&self.iterator, &namespace.file)).join());
        let Ok(walked) = walked else { bail!("a walk over the sockets panicked") };
        let Walked { at_ns, waiting, cpu_ns } = walked?;
        let end = clock_ns()?;
        self.scans += 1;
        self.spent_ns += end - begin;
        self.cpu_ns += cpu_ns;
        self.pause_until_ns = end + 3 * (end - begin);
        let walk = Walk { at_ns, waiting };
        // Namespaces come and go; forgetting one costs a walk.
        if self.walks.len() >= MOST_REMEMBERED {
            self.walks.clear();
        }
        self.walks.insert(namespace.inode, walk);
        Ok(walk)
    }
}

/// Result and cost of one walk over the sockets.
struct Walked {
    at_ns: u64,
    waiting: usize,
    cpu_ns: u64,
}

/// The iterator looks at the namespace of the thread that starts it, so this wants a thread of its own. A process that
/// is seen inside a namespace (by its first thread) is ended with it by whoever clears it: `ip netns pids NAME | xargs
/// kill`.
fn walk_inside(iterator: &OwnedFd, namespace: &File) -> anyhow::Result<Walked> {
    setns(namespace, CloneFlags::CLONE_NEWNET).context("enter a network namespace")?;
    let at_ns = clock_ns()?;
    let waiting = libbpf::read_iterator(iterator)?.len();
    Ok(Walked { at_ns, waiting, cpu_ns: thread_cpu_ns()? })
}
