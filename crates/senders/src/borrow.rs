//! Borrows another process's socket: the system calls that no safe library has.

#![expect(unsafe_code, reason = "system calls without a safe wrapper")]

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use libc::{c_int, c_void};

/// A copy of descriptor `fd` of process `tgid`, if it is the socket with this inode number.
///
/// All its descriptors are not looked through: that takes microseconds each, and a process with thousands that closes
/// its sockets at once would keep the driver busy for seconds.
pub fn socket(tgid: u32, fd: u32, inode: u64) -> Option<OwnedFd> {
    let pid = c_int::try_from(tgid).ok()?;
    // SAFETY: no pointers; the answer is checked.
    let process = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    copy(&process, RawFd::try_from(fd).ok()?).filter(|s| is(s, inode))
}

fn copy(process: &OwnedFd, fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: no pointers; the answer is checked.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) })
}

/// A system call's new descriptor.
fn owned(answer: libc::c_long) -> Option<OwnedFd> {
    let fd = RawFd::try_from(answer).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the kernel has just made it for us.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Numbers of descriptors are reused, so the socket itself is compared.
fn is(socket: &OwnedFd, inode: u64) -> bool {
    nix::sys::stat::fstat(socket).is_ok_and(|s| s.st_ino == inode)
}

/// Makes TCP look at its queue again. Taking away a cork that is not there does just that, by the socket's own rules
/// (Nagle's included). One that is there is its owner's: then asking for no delay does, and is taken back.
pub fn push(socket: &OwnedFd) {
    if option(socket, libc::TCP_CORK) == 0 {
        set(socket, libc::TCP_CORK, 0);
        return;
    }
    let before = option(socket, libc::TCP_NODELAY);
    set(socket, libc::TCP_NODELAY, 1);
    if before == 0 {
        set(socket, libc::TCP_NODELAY, 0);
    }
}

fn option(socket: &OwnedFd, name: c_int) -> c_int {
    let (mut value, mut size) = (0, 4);
    // SAFETY: both pointers are to values that live through the call, and the size is told.
    unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            name,
            (&raw mut value).cast::<c_void>(),
            &raw mut size,
        )
    };
    value
}

fn set(socket: &OwnedFd, name: c_int, value: c_int) {
    // SAFETY: the value lives through the call. A connection that has ended refuses, and nothing is lost.
    unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, name, (&raw const value).cast::<c_void>(), 4)
    };
}

/// Bytes written to a socket and not sent yet; none if it cannot say.
pub fn unsent(socket: &OwnedFd) -> c_int {
    /// `SIOCOUTQNSD` of linux/sockios.h.
    const UNSENT: libc::c_ulong = 0x894b;
    let mut bytes: c_int = 0;
    // SAFETY: the pointer is to a value that lives through the call.
    unsafe { libc::ioctl(socket.as_raw_fd(), UNSENT as _, &raw mut bytes) };
    bytes
}

/// Allows this process as many descriptors as it may have.
pub fn raise_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointers are to a value that lives through the calls. Refused, the old limit stays.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Asks for a low real-time priority, so that slots are kept on a busy machine. Refused, the driver goes on without.
pub fn real_time() {
    let wanted = libc::sched_param { sched_priority: 5 };
    // SAFETY: the pointer is to a value that lives through the call; 0 is this thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const wanted) };
}
