//! A tracefs instance of our own: two TCP events, stamped with the monotonic clock.
//!
//! A small shell, started before there is anything to remove, waits for the end of its standard input, which comes
//! when this process ends, however that happens. It then ends a lab that still runs and removes the instance; it has a
//! process group of its own, so that Ctrl-C does not reach it. Instances of processes that are gone are removed at the
//! start.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use nix::mount::{MsFlags, mount};

const TRACEFS: &str = "/sys/kernel/tracing";
const EVENTS: [&str; 2] = ["tcp_retransmit_skb", "tcp_cong_state_set"];
/// The process's number follows.
const PREFIX: &str = "narrows-kernel-senders-";
/// Buffer of each processor: 90 s of 200 senders fill some 10 MB in all.
const BUFFER_KB: &str = "65536";

/// Arguments: the instance, and the mount point if it was mounted for us. Each line read is the process to end.
const GUARD: &str = r#"trap '' HUP INT TERM
lab=0
while read -r pid; do lab=$pid; done
[ "$lab" -gt 0 ] && kill -TERM "$lab"
if [ -d "$1" ]; then echo 0 >"$1/events/enable"; rmdir "$1"; fi
if [ -n "$2" ]; then umount "$2"; fi"#;

/// Says what is missing for tracing, with the remedy; mounts nothing.
///
/// # Errors
/// If something is.
pub fn possible() -> Result<()> {
    ensure!(
        nix::unistd::geteuid().is_root(),
        "tracing the kernel's senders needs root: sudo -E cargo xtask kernel-senders"
    );
    ensure!(
        Path::new(TRACEFS).is_dir(),
        "{TRACEFS} is not there: needs a kernel with CONFIG_FTRACE, and /sys mounted (mount -t sysfs sysfs /sys)"
    );
    Ok(())
}

/// Instance of tracefs; a drop of the value removes the instance.
pub struct Instance {
    dir: PathBuf,
    guard: Child,
}

impl Instance {
    /// Makes an instance that records from now on.
    ///
    /// # Errors
    /// If tracefs cannot be mounted, or the kernel lacks the events.
    pub fn start() -> Result<Self> {
        possible()?;
        let root = Path::new(TRACEFS);
        let already = root.join("events").is_dir();
        let dir = root.join("instances").join(format!("{PREFIX}{}", std::process::id()));
        let guard = Command::new("sh")
            .args(["-c", GUARD, "kernel-senders-guard"])
            .arg(&dir)
            .arg(if already { "" } else { TRACEFS })
            .process_group(0)
            .stdin(Stdio::piped())
            .spawn()
            .context("starting sh, which removes the tracefs instance at the end")?;
        // From here on whatever fails is cleared away as it goes out of scope.
        let instance = Self { dir, guard };
        if !already {
            mount(Some("tracefs"), root, Some("tracefs"), MsFlags::empty(), None::<&str>).with_context(
                || format!("mount -t tracefs tracefs {TRACEFS}: needs CONFIG_FTRACE and no kernel lockdown"),
            )?;
        }
        for event in EVENTS {
            ensure!(
                root.join("events/tcp").join(event).is_dir(),
                "{TRACEFS}/events/tcp/{event} is not there: needs Linux 5.19 or newer with CONFIG_FTRACE"
            );
        }
        remove_stale(root)?;
        fs::create_dir(&instance.dir).with_context(|| format!("mkdir {}", instance.dir.display()))?;
        instance.set("trace_clock", "mono")?;
        instance.set("buffer_size_kb", BUFFER_KB)?;
        for event in EVENTS {
            instance.set(&format!("events/tcp/{event}/enable"), "1")?;
        }
        Ok(instance)
    }

    fn set(&self, file: &str, value: &str) -> Result<()> {
        let path = self.dir.join(file);
        fs::write(&path, value).with_context(|| format!("writing {value} to {}", path.display()))
    }

    /// Sets the process that the guard ends if this process ends first; `None` for no process.
    ///
    /// # Errors
    /// If the guard is gone.
    pub fn guards(&mut self, lab: Option<u32>) -> Result<()> {
        let mut input = self.guard.stdin.as_ref().context("the guard's input")?;
        writeln!(input, "{}", lab.unwrap_or(0)).context("telling the shell that guards the tracefs instance")
    }

    /// Stops recording, writes all that was recorded to a file, and tells how many events were lost.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn save(&self, to: &Path) -> Result<u64> {
        self.set("tracing_on", "0")?;
        let from = self.dir.join("trace");
        let text = fs::read(&from).with_context(|| format!("reading {}", from.display()))?;
        fs::write(to, text).with_context(|| format!("writing {}", to.display()))?;
        let folder = self.dir.join("per_cpu");
        let mut events = 0;
        for cpu in fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))? {
            let path = cpu.with_context(|| format!("listing {}", folder.display()))?.path().join("stats");
            let stats = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            events += lost(&stats);
        }
        Ok(events)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // The end of its input is the guard's sign.
        drop(self.guard.stdin.take());
        let ended = self.guard.wait();
        if ended.is_err() || self.dir.exists() {
            eprintln!("kernel-senders: {} could not be removed: rmdir it", self.dir.display());
        }
    }
}

/// Events of one processor that were overwritten or dropped.
fn lost(stats: &str) -> u64 {
    let counts = stats.lines().filter_map(|line| {
        let (name, value) = line.split_once(": ")?;
        ["overrun", "commit overrun", "dropped events"]
            .contains(&name)
            .then(|| value.trim().parse::<u64>().ok())?
    });
    counts.sum()
}

fn remove_stale(root: &Path) -> Result<()> {
    let folder = root.join("instances");
    let listing = || format!("listing {}", folder.display());
    for entry in fs::read_dir(&folder).with_context(listing)? {
        let entry = entry.with_context(listing)?;
        let name = entry.file_name();
        let pid = name.to_str().and_then(owner);
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let dir = entry.path();
            eprintln!("kernel-senders: removing {}, whose process is gone", dir.display());
            fs::remove_dir(&dir).with_context(|| format!("rmdir {}", dir.display()))?;
        }
    }
    Ok(())
}

/// Id of the process that made an instance of ours; `None` for other instances.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_buffer_lost() {
        let stats = "entries: 12\noverrun: 3\ncommit overrun: 1\nbytes: 700\noldest event ts:  2336.04\n\
                     now ts:  2400.1\ndropped events: 5\nread events: 9\n";
        assert_eq!(lost(stats), 3 + 1 + 5);
    }

    #[test]
    fn only_our_own_are_removed() {
        assert_eq!(owner("narrows-kernel-senders-4866"), Some(4866));
        for other in ["narrows4866", "narrows-kernel-senders-", "narrows-kernel-senders-x", "foo"] {
            assert_eq!(owner(other), None, "{other}");
        }
    }
}
