//! Namespaces, and threads in them on one core.

use std::process::Command;
use std::thread::JoinHandle;

use anyhow::{Context, bail, ensure};
use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, setns};
use nix::unistd::Pid;

/// A command of ip(8).
pub fn ip(args: &str) -> anyhow::Result<()> {
    let out = Command::new("ip").args(args.split_whitespace()).output().context("cannot start ip")?;
    ensure!(out.status.success(), "ip {args}: {}", String::from_utf8_lossy(&out.stderr).trim());
    Ok(())
}

/// Keeps a thread on one core, where there are several.
pub fn pin(who: Pid, core: usize) -> anyhow::Result<()> {
    if std::thread::available_parallelism()?.get() > core {
        let mut set = CpuSet::new();
        set.set(core)?;
        sched_setaffinity(who, &set).context("cannot pin to a core")?;
    }
    Ok(())
}

/// Runs `f` on a thread inside a namespace, on one core.
pub fn inside<T: Send + 'static>(
    name: &str,
    core: usize,
    f: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<anyhow::Result<T>> {
    let path = format!("/run/netns/{name}");
    std::thread::spawn(move || {
        setns(std::fs::File::open(path)?, CloneFlags::CLONE_NEWNET)?;
        pin(Pid::from_raw(0), core)?;
        nix::sys::prctl::set_timerslack(1)?;
        Ok(f())
    })
}

/// Waits for a thread's result.
pub fn join<T>(thread: JoinHandle<anyhow::Result<T>>) -> anyhow::Result<T> {
    thread.join().unwrap_or_else(|_| bail!("a thread of the bench failed"))
}
