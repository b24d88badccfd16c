//! Priority of a thread in the kernel's scheduler.

use std::io;

use nix::errno::Errno;

/// `setpriority(2)`: a lower `nice` runs a little before others.
///
/// # Errors
/// If the kernel refuses: `CAP_SYS_NICE` is missing for a value below zero.
#[expect(unsafe_code, reason = "nix has no setpriority")]
pub fn set_nice(nice: i32) -> io::Result<()> {
    // SAFETY: plain values; 0 is this thread.
    Errno::result(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) })
        .map(drop)
        .map_err(io::Error::from)
}

/// Puts this thread before all ordinary programs: `SCHED_FIFO` with this priority, from 1 to 99. Threads and programs
/// it starts are ordinary again if `alone`.
///
/// # Errors
/// If the kernel refuses: `CAP_SYS_NICE` is missing.
#[expect(
    unsafe_code,
    reason = "nix has no sched_setscheduler, and musl's always fails: the kernel is asked itself"
)]
pub fn realtime(priority: i32, alone: bool) -> io::Result<()> {
    let policy = libc::SCHED_FIFO | if alone { libc::SCHED_RESET_ON_FORK } else { 0 };
    // SAFETY: the kernel's sched_param is this one number, which outlives the call; 0 is the calling thread.
    let set = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
    Errno::result(set).map(drop).map_err(io::Error::from)
}

/// Lets this thread run only when nothing else would: `SCHED_IDLE`.
///
/// # Errors
/// If the kernel refuses.
#[expect(unsafe_code, reason = "nix has no sched_setscheduler, and musl's always fails")]
pub fn only_when_idle() -> io::Result<()> {
    let priority = 0i32;
    // SAFETY: the kernel's sched_param is this one number, which outlives the call; 0 is the calling thread.
    let set =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_IDLE, &raw const priority) };
    Errno::result(set).map(drop).map_err(io::Error::from)
}
