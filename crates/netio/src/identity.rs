//! Another user for this thread. The C library's calls change all threads of a process, and abort it where one may not;
//! the kernel's change the calling thread, and those it starts afterwards.

use std::io;

use nix::errno::Errno;

#[cfg(not(any(target_arch = "x86", target_arch = "arm")))]
use libc::{SYS_setgroups as SETGROUPS, SYS_setresgid as SETRESGID, SYS_setresuid as SETRESUID};
#[cfg(any(target_arch = "x86", target_arch = "arm"))]
use libc::{SYS_setgroups32 as SETGROUPS, SYS_setresgid32 as SETRESGID, SYS_setresuid32 as SETRESUID};

/// This thread belongs to `user` and `group` from now on, and to no other group, for good. What it may do
/// (capabilities) it still may, once it says that it wants to.
///
/// # Errors
/// If the kernel refuses: `CAP_SETUID` and `CAP_SETGID` are missing, or a container has no such user. The user is then
/// as before.
pub fn become_user(user: u32, group: u32) -> io::Result<()> {
    nix::sys::prctl::set_keepcaps(true)?;
    let before = nix::unistd::getegid().as_raw();
    // Groups first: the user may not change them.
    let groups: &[u32] = &[];
    set_groups(groups)?;
    set_all(SETRESGID, group)?;
    set_all(SETRESUID, user).inspect_err(|_| drop(set_all(SETRESGID, before)))
}

#[expect(unsafe_code, reason = "nix calls the C library, which changes all threads")]
fn set_groups(groups: &[u32]) -> io::Result<()> {
    // SAFETY: as many numbers as told, which outlive the call.
    let set = unsafe { libc::syscall(SETGROUPS, groups.len(), groups.as_ptr()) };
    Errno::result(set).map(drop).map_err(io::Error::from)
}

/// The real, the effective and the saved one.
#[expect(unsafe_code, reason = "nix calls the C library, which changes all threads")]
fn set_all(call: libc::c_long, id: u32) -> io::Result<()> {
    // SAFETY: plain numbers.
    let set = unsafe { libc::syscall(call, id, id, id) };
    Errno::result(set).map(drop).map_err(io::Error::from)
}
