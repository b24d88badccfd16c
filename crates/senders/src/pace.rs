//! Initial Spreading by the application itself: for a program that may not, or would not, load anything into the
//! kernel.
//!
//! Sallantin and others, LCN 2014, section on the mechanism: segment k of an initial window of n leaves at (k-1) R0/n.
//! A program that writes a segment's worth at those instants gets just that from any TCP whose initial window is n or
//! more. Where we differ: nothing; but data that the program does not have in time leave when it writes them.

#![expect(unsafe_code, reason = "TCP_INFO and TCP_MAXSEG have no safe wrapper for a plain stream")]

use std::io::{self, Write as _};
use std::mem::size_of;
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

/// Shortest time between segments that is worth a timer, as the kernel program's `floor_us`.
const FLOOR: Duration = Duration::from_millis(1);

/// Writes `data` as the first of a connection: the first `iw` segments evenly over the round trip that the handshake
/// took, the rest at once. Blocks for that time, at most one round trip. Below a millisecond between segments it just
/// writes.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// let mut stream = std::net::TcpStream::connect("example.org:80")?;
/// narrows_senders::spread(&mut stream, &vec![0; 40_000], 10)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// What writing says, or reading the connection's RTT and segment size.
pub fn spread(stream: &mut TcpStream, data: &[u8], iw: u32) -> io::Result<()> {
    let gap = rtt(stream)? / iw.max(1);
    if iw < 2 || gap < FLOOR {
        return stream.write_all(data);
    }
    let mss = usize::try_from(option::<libc::c_int>(stream, libc::TCP_MAXSEG)?).unwrap_or(0).max(1);
    let nodelay = stream.nodelay()?;
    // Otherwise Nagle's algorithm would keep a last, short piece until the first ACK.
    stream.set_nodelay(true)?;
    let start = Instant::now();
    let mut rest = data;
    for k in 0..iw {
        if rest.is_empty() {
            break;
        }
        std::thread::sleep((gap * k).saturating_sub(start.elapsed()));
        let (piece, after) = rest.split_at(mss.min(rest.len()));
        stream.write_all(piece)?;
        rest = after;
    }
    stream.write_all(rest)?;
    stream.set_nodelay(nodelay)
}

/// The smoothed RTT: before any data, the handshake's.
fn rtt(stream: &TcpStream) -> io::Result<Duration> {
    Ok(Duration::from_micros(u64::from(option::<libc::tcp_info>(stream, libc::TCP_INFO)?.tcpi_rtt)))
}

/// A TCP option's value. `T` must be plain integers, as the kernel may write less of it than there is.
fn option<T>(stream: &TcpStream, name: libc::c_int) -> io::Result<T> {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let mut size = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    // SAFETY: the kernel writes at most `size` bytes of the value, which lives through the call.
    let answer = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            name,
            value.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeros are a value of plain integers, and so is what the kernel wrote.
    Ok(unsafe { value.assume_init() })
}
