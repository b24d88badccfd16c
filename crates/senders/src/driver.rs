//! Driver of Initial Spreading: makes a connection transmit at each slot while no ACK has come.
//!
//! A congestion control cannot set a timer. The kernel program (`bpf/is.bpf.c`) therefore tells of a connection whose
//! data wait for their slots, through a ring buffer; the driver borrows the process's socket (`pidfd_getfd`) and pushes
//! it at each slot, by an option that makes TCP look at its queue again and changes nothing. The driver gives the
//! socket back as soon as nothing waits, at the latest after the first round trip. Idle, it wakes ten times a second,
//! to say that it lives.
//!
//! A borrowed socket that its process closes sends its FIN when it is given back: right after its last data. Should the
//! driver be killed, the kernel closes what it had borrowed. A process that writes and closes at once is quicker than
//! we; its connection is found by a walk over all sockets ([`crate::scan`]), which costs more.
//!
//! Other ways were weighed in `docs/decisions/what-drives-spreading.md`.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::SigSet;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

use crate::borrow;
use crate::libbpf::{self, Ring};
use crate::load::pins;
use crate::scan::{Namespace, Outcome, Scanner};

/// How often the driver says that it lives; the kernel program believes it for three times as long.
const BEAT_NS: u64 = 100_000_000;
/// A socket is not borrowed for longer, whatever its round trip.
const LONGEST_NS: u64 = 5_000_000_000;

/// `struct event` of `bpf/is.bpf.c`: a connection that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    tgid: u32,
    tid: u32,
    fd: u32,
    netns: u32,
    inode: u64,
    next_ns: u64,
    gap_ns: u64,
    end_ns: u64,
}

impl Wanted {
    /// Bytes of the event in the ring.
    const SIZE: usize = 48;

    fn parse(bytes: &[u8]) -> Option<Self> {
        let u32_at = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let u64_at = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
        let event = Self {
            tgid: u32_at(0)?,
            tid: u32_at(4)?,
            fd: u32_at(8)?,
            netns: u32_at(12)?,
            inode: u64_at(16)?,
            next_ns: u64_at(24)?,
            gap_ns: u64_at(32)?,
            end_ns: u64_at(40)?,
        };
        (bytes.len() == Self::SIZE && event.gap_ns > 0).then_some(event)
    }
}

/// A connection that waits for its slots.
struct Waiting {
    hold: Hold,
    gap_ns: u64,
    end_ns: u64,
}

/// Way to push a connection.
enum Hold {
    /// The connection's socket, borrowed from its process.
    Socket(OwnedFd),
    /// The connection's process has closed its socket already: a scan of its network namespace will find it.
    Scan(Namespace),
}

/// Counts of a driver's work since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Driven {
    /// Connections borrowed.
    pub connections: u64,
    /// Connections that no process held any more when they were to be borrowed, so that a scan had to find them.
    pub closed: u64,
    /// Pushes of borrowed sockets.
    pub pushes: u64,
    /// Scans of a network namespace.
    pub scans: u64,
    /// Time spent scanning, in nanoseconds.
    pub scanning_ns: u64,
    /// Longest time a push was late, in nanoseconds.
    pub late_max_ns: u64,
    /// Processor time of all this, in nanoseconds.
    pub cpu_ns: u64,
}

impl std::fmt::Display for Driven {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} connections, {} of them closed at once; {} pushes, {} scans in {} us; at most {} us late; {} us of CPU",
            self.connections,
            self.closed,
            self.pushes,
            self.scans,
            self.scanning_ns / 1000,
            self.late_max_ns / 1000,
            self.cpu_ns / 1000
        )
    }
}

/// Drives the connections of one loaded `narrows_is`.
pub struct SpreadingDriver {
    heart: OwnedFd,
    ring: Ring,
    /// Waiting connections by the time of the next slot; the second number tells equal times apart.
    due: BTreeMap<(u64, u64), Waiting>,
    scanner: Scanner,
    done: Driven,
    dir: std::path::PathBuf,
}

impl SpreadingDriver {
    /// Drives the sender loaded as `name`.
    ///
    /// # Errors
    /// If it is not loaded, is not Initial Spreading, or has a driver.
    pub fn new(bpffs: &Path, name: &str) -> anyhow::Result<Self> {
        let dir = pins(bpffs).join(name);
        ensure!(dir.is_dir(), "{name} is not loaded: narrows senders load narrows_is");
        ensure!(dir.join("heart").exists(), "{name} needs no driver: only narrows_is does");
        let heart = libbpf::pinned(&dir.join("heart"))?;
        ensure!(!beating(&heart)?, "{name} has a driver: it must be stopped before another can start");
        let ring = Ring::new(&libbpf::pinned(&dir.join("wanted"))?)?;
        let scanner = Scanner::new(libbpf::pinned(&dir.join("kick"))?)?;
        borrow::raise_limit();
        Ok(Self { heart, ring, due: BTreeMap::new(), scanner, done: Driven::default(), dir })
    }

    /// Drives until `stop` says so or the sender is unloaded; then it lets what is under way end.
    ///
    /// # Errors
    /// If the ring or the heart cannot be used.
    pub fn run(mut self, stop: &dyn Fn() -> bool) -> anyhow::Result<Driven> {
        // The default slack of 50 us would be added to every slot.
        nix::sys::prctl::set_timerslack(1).context("timer slack")?;
        borrow::real_time();
        let cpu_before = thread_cpu_ns()?;
        let mut beat_at = 0;
        let ended = |dir: &Path| stop() || !dir.exists();
        loop {
            let mut now = clock_ns()?;
            if now >= beat_at {
                if ended(&self.dir) {
                    break;
                }
                libbpf::set_only_value(&self.heart, now)?;
                beat_at = now + BEAT_NS;
            }
            self.push_due(now)?;
            now = clock_ns()?;
            self.wait(beat_at.saturating_sub(now), now)?;
            self.take()?;
        }
        // A heart that stands still lets nobody wait any more.
        libbpf::set_only_value(&self.heart, 0)?;
        self.take()?;
        while !self.due.is_empty() {
            let now = clock_ns()?;
            self.push_due(now)?;
            self.wait(BEAT_NS, now)?;
            self.take()?;
        }
        self.done.scans = self.scanner.scans;
        self.done.scanning_ns = self.scanner.spent_ns;
        self.done.cpu_ns = thread_cpu_ns()?.saturating_sub(cpu_before) + self.scanner.cpu_ns;
        Ok(self.done)
    }

    /// Sleeps until the next slot or an event, but at most `most_ns`.
    fn wait(&self, most_ns: u64, now: u64) -> anyhow::Result<()> {
        let first = self.due.keys().next().map_or(most_ns, |(at, _)| at.saturating_sub(now));
        let ns = first.min(most_ns);
        let mut fds = [PollFd::new(self.ring.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut fds, Some(TimeSpec::from_duration(Duration::from_nanos(ns))), Some(SigSet::empty()))
        {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(e) => Err(e).context("ppoll"),
        }
    }

    /// Takes on connections that ask to be driven.
    fn take(&mut self) -> anyhow::Result<()> {
        let events = self.ring.consume()?;
        for wanted in events.iter().filter_map(|e| Wanted::parse(e)) {
            self.done.connections += 1;
            let hold = match borrow::socket(wanted.tgid, wanted.fd, wanted.inode) {
                Some(socket) => Hold::Socket(socket),
                None => {
                    self.done.closed += 1;
                    // Nobody knows the namespace any more: the connection goes on at its first ACK.
                    let Some(namespace) = self.scanner.find(wanted.netns, [wanted.tid, wanted.tgid]) else {
                        continue;
                    };
                    Hold::Scan(namespace)
                }
            };
            let end_ns = wanted.end_ns.min(wanted.next_ns.saturating_add(LONGEST_NS));
            let key = (wanted.next_ns, self.done.connections);
            self.due.insert(key, Waiting { hold, gap_ns: wanted.gap_ns, end_ns });
        }
        Ok(())
    }

    /// Pushes every connection whose slot is due, and gives back those with nothing left to push.
    fn push_due(&mut self, now: u64) -> anyhow::Result<()> {
        while let Some(entry) = self.due.first_entry() {
            let (at, id) = *entry.key();
            if at > now {
                break;
            }
            let waiting = entry.remove();
            let more = match &waiting.hold {
                Hold::Socket(socket) => {
                    borrow::push(socket);
                    self.done.pushes += 1;
                    borrow::unsent(socket) > 0
                }
                Hold::Scan(namespace) => match self.scanner.push(namespace, at, now)? {
                    Outcome::Pushed => true,
                    Outcome::Idle => false,
                    Outcome::Later(then) => {
                        self.due.insert((then, id), waiting);
                        continue;
                    }
                },
            };
            self.done.late_max_ns = self.done.late_max_ns.max(now - at);
            // On the grid of slots, whatever this one's lateness.
            let next = at + (now - at) / waiting.gap_ns * waiting.gap_ns + waiting.gap_ns;
            if more && next <= waiting.end_ns {
                self.due.insert((next, id), waiting);
            }
        }
        Ok(())
    }
}

/// Tells whether a driver has written a beat within the last three beats' time.
pub(crate) fn beating(heart: &OwnedFd) -> anyhow::Result<bool> {
    let value = libbpf::only_value(heart, 8)?;
    let beat = value.try_into().map_or(0, u64::from_ne_bytes);
    Ok(beat != 0 && clock_ns()?.saturating_sub(beat) < 3 * BEAT_NS)
}

/// The clock of `bpf_ktime_get_ns`.
pub(crate) fn clock_ns() -> anyhow::Result<u64> {
    read_ns(ClockId::CLOCK_MONOTONIC)
}

/// This thread's processor time.
pub(crate) fn thread_cpu_ns() -> anyhow::Result<u64> {
    read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn read_ns(clock: ClockId) -> anyhow::Result<u64> {
    let now = clock_gettime(clock).context("clock")?;
    Ok(u64::try_from(Duration::from(now).as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_as_the_kernel_writes_it() {
        let mut bytes = Vec::new();
        [5_u32, 6, 7, 8].iter().for_each(|w| bytes.extend(w.to_ne_bytes()));
        [9_u64, 10, 11, 12].iter().for_each(|w| bytes.extend(w.to_ne_bytes()));
        let expected =
            Wanted { tgid: 5, tid: 6, fd: 7, netns: 8, inode: 9, next_ns: 10, gap_ns: 11, end_ns: 12 };
        assert_eq!(Wanted::parse(&bytes), Some(expected));
        assert_eq!(Wanted::parse(&bytes[..47]), None);
        // A gap of nothing would push for ever.
        bytes[32..40].fill(0);
        assert_eq!(Wanted::parse(&bytes), None);
    }
}
