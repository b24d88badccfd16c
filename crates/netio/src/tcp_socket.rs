//! Choices that the kernel's TCP leaves to a program for a connection of its own.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use nix::errno::Errno;

/// `TCP_WINDOW_CLAMP` (tcp(7)): the largest receive window the connection advertises, in bytes. Before `connect` it
/// also decides the window scale: `2^(15 + n)` bytes give scale n, as long as `net.ipv4.tcp_rmem` allows as much
/// (`tcp_select_initial_window` in net/ipv4/tcp_output.c).
///
/// # Errors
/// If the kernel refuses.
#[expect(unsafe_code, reason = "nix has no TCP_WINDOW_CLAMP")]
pub fn set_window_clamp(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    let value = bytes.cast_signed();
    // SAFETY: the option is this one number, which outlives the call.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_WINDOW_CLAMP,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    Errno::result(set).map(drop).map_err(io::Error::from)
}
