//! Calls that take or send many datagrams at once: `recvmmsg(2)` and `sendmmsg(2)`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Datagrams a call takes at most. 64 of 1500 bytes are 0.1 ms of work: enough to make the call cheap, too little to be
/// late for a timer.
pub const BATCH: usize = 64;
/// Room for the control messages of one datagram.
const CONTROL: usize = 128;

/// Least bytes that the kernel counts of a receive buffer, of which it grants the double (socket(7), SO_RCVBUF), for a
/// datagram: the smallest head and its `struct sk_buff`.
const LEAST: usize = 512;

/// Room for the datagrams of one call.
#[derive(Debug)]
pub struct Batch {
    room: Vec<u8>,
    each: usize,
    control: Vec<u8>,
    lens: [usize; BATCH],
    control_lens: [usize; BATCH],
    count: usize,
}

impl Batch {
    /// Room for datagrams of at most `each` bytes. The memory is touched only as far as datagrams are long.
    #[must_use]
    pub fn new(each: usize) -> Self {
        Self {
            room: vec![0; each * BATCH],
            each,
            control: vec![0; CONTROL * BATCH],
            lens: [0; BATCH],
            control_lens: [0; BATCH],
            count: 0,
        }
    }

    /// Receives what is there, without waiting. Returns how many datagrams came; zero if none was waiting.
    ///
    /// # Errors
    /// `ENOBUFS` if the kernel had to discard some (netlink), or those of `recvmmsg(2)`.
    #[expect(unsafe_code, reason = "recvmmsg into one buffer: nix ties its slices to the buffer's lifetime")]
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.count = 0;
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
        for (vector, part) in vectors.iter_mut().zip(self.room.chunks_exact_mut(self.each)) {
            *vector = libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() };
        }
        // SAFETY: all-zero bytes are a valid mmsghdr: null pointers and zero lengths.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        let controls = self.control.chunks_exact_mut(CONTROL);
        for ((header, vector), control) in headers.iter_mut().zip(&mut vectors).zip(controls) {
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            // Another width in each C library, as are the flags below.
            header.msg_hdr.msg_controllen = CONTROL as _;
        }
        // SAFETY: BATCH headers, each with one vector into its own part of `room` and its own part of `control`; all
        // outlive the call.
        let n = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        let Ok(n) = usize::try_from(n) else {
            let error = io::Error::last_os_error();
            return if is_not_now(&error) { Ok(0) } else { Err(error) };
        };
        for (i, header) in headers[..n].iter().enumerate() {
            self.lens[i] = (header.msg_len as usize).min(self.each);
            let control: usize = header.msg_hdr.msg_controllen as _;
            self.control_lens[i] = control.min(CONTROL);
        }
        self.count = n;
        Ok(n)
    }

    /// Receives what a socket with this many bytes of receive buffer may hold, and hands each datagram to `each`. What
    /// comes meanwhile is left where it is, if it is that much: a flood keeps nobody here.
    ///
    /// # Errors
    /// Those of [`Batch::receive`].
    pub fn receive_waiting(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: usize,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        let mut left = (2 * buffer).div_ceil(LEAST);
        while left > 0 {
            let count = self.receive(socket)?;
            self.iter().for_each(&mut each);
            if count == 0 {
                break;
            }
            left = left.saturating_sub(count);
        }
        Ok(())
    }

    /// The datagrams of the last call.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.room.chunks_exact(self.each).zip(&self.lens).take(self.count).map(|(part, &len)| &part[..len])
    }

    /// The datagrams of the last call, each with its control message of this level and kind.
    pub fn iter_with_control(&self, level: i32, kind: i32) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let controls = self.control.chunks_exact(CONTROL).zip(&self.control_lens);
        let messages = controls.map(move |(bytes, &len)| control_message(&bytes[..len], level, kind));
        self.iter().zip(messages)
    }
}

/// The first control message of this level and kind (`cmsg(3)`: length, level, kind, data; each aligned to a word).
fn control_message(mut bytes: &[u8], level: i32, kind: i32) -> Option<&[u8]> {
    const WORD: usize = size_of::<usize>();
    const HEADER: usize = size_of::<libc::cmsghdr>();
    while bytes.len() >= HEADER {
        let len = usize::from_ne_bytes(bytes[..WORD].try_into().ok()?);
        let int = |at: usize| Some(i32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let data = bytes.get(HEADER..len)?;
        if (int(WORD)?, int(WORD + 4)?) == (level, kind) {
            return Some(data);
        }
        bytes = bytes.get(len.next_multiple_of(WORD)..)?;
    }
    None
}

fn is_not_now(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Sends `datagrams` in order, without waiting. Returns how many the kernel would not take, each tried once: a device
/// whose queue is full drops, as any device does.
#[expect(unsafe_code, reason = "sendmmsg: nix wants headers allocated beforehand")]
pub fn send_all(socket: BorrowedFd<'_>, datagrams: &[Vec<u8>]) -> (u64, Option<io::Error>) {
    let (mut refused, mut last) = (0, None);
    for part in datagrams.chunks(BATCH) {
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
        // SAFETY: all-zero bytes are a valid mmsghdr: null pointers and zero lengths.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for ((header, vector), datagram) in headers.iter_mut().zip(&mut vectors).zip(part) {
            // The kernel only reads through these.
            *vector = libc::iovec { iov_base: datagram.as_ptr().cast_mut().cast(), iov_len: datagram.len() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        let mut done = 0;
        while done < part.len() {
            let rest = &mut headers[done..part.len()];
            // SAFETY: as many headers as told, each with one vector into a datagram; all outlive the call.
            let n = unsafe {
                libc::sendmmsg(
                    socket.as_raw_fd(),
                    rest.as_mut_ptr(),
                    rest.len() as libc::c_uint,
                    libc::MSG_DONTWAIT as _,
                )
            };
            match usize::try_from(n) {
                Ok(n) if n > 0 => done += n,
                _ => {
                    last = Some(io::Error::last_os_error());
                    refused += 1;
                    done += 1;
                }
            }
        }
    }
    (refused, last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn several_datagrams_in_one_call() {
        let (a, b) = UnixDatagram::pair().unwrap();
        let sent = ["one", "", "three"].map(|t| t.as_bytes().to_vec());
        assert_eq!(send_all(a.as_fd(), &sent).0, 0);
        let mut batch = Batch::new(16);
        assert_eq!(batch.receive(b.as_fd()).unwrap(), 3);
        assert_eq!(batch.iter().collect::<Vec<_>>(), [&b"one"[..], b"", b"three"]);
        assert_eq!(batch.receive(b.as_fd()).unwrap(), 0);
        assert_eq!(batch.iter().count(), 0);
    }

    /// Each datagram has another one sent, as a flood does that comes as fast as it is read.
    #[test]
    fn what_comes_while_a_socket_is_emptied_keeps_nobody() {
        let (a, b) = UnixDatagram::pair().unwrap();
        a.send(&[7]).unwrap();
        let (mut batch, mut count) = (Batch::new(16), 0);
        batch
            .receive_waiting(b.as_fd(), 8 * LEAST, |_| {
                count += 1;
                a.send(&[7]).unwrap();
            })
            .unwrap();
        assert_eq!(count, 16, "as many as twice the buffer has room for");
        assert_eq!(batch.receive(b.as_fd()).unwrap(), 1);
        batch.receive_waiting(b.as_fd(), 8 * LEAST, |_| panic!("nothing waits")).unwrap();
    }

    #[test]
    fn a_datagram_too_long_is_cut_not_overrun() {
        let (a, b) = UnixDatagram::pair().unwrap();
        a.send(&[7; 40]).unwrap();
        a.send(&[8; 3]).unwrap();
        let mut batch = Batch::new(16);
        assert_eq!(batch.receive(b.as_fd()).unwrap(), 2);
        assert_eq!(batch.iter().collect::<Vec<_>>(), [&[7u8; 16][..], &[8; 3]]);
    }

    #[test]
    fn what_is_not_taken_is_counted_and_the_rest_is_sent() {
        let (a, b) = UnixDatagram::pair().unwrap();
        a.set_nonblocking(true).unwrap();
        // Longer than any Unix datagram may be with the default send buffer: refused with EMSGSIZE.
        let sent = [vec![1; 4], vec![2; 1 << 20], vec![3; 4]];
        assert_eq!(send_all(a.as_fd(), &sent).0, 1);
        let mut batch = Batch::new(16);
        assert_eq!(batch.receive(b.as_fd()).unwrap(), 2);
        assert_eq!(batch.iter().collect::<Vec<_>>(), [&[1u8; 4][..], &[3; 4]]);
    }

    #[test]
    fn control_messages_are_found_and_broken_ones_are_not() {
        let mut bytes = Vec::new();
        for (level, kind, data) in [(1i32, 2i32, &[9u8; 3][..]), (263, 8, &[7; 20])] {
            bytes.extend((size_of::<libc::cmsghdr>() + data.len()).to_ne_bytes());
            bytes.extend(level.to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(data);
            bytes.resize(bytes.len().next_multiple_of(size_of::<usize>()), 0);
        }
        assert_eq!(control_message(&bytes, 263, 8), Some(&[7; 20][..]));
        assert_eq!(control_message(&bytes, 263, 9), None);
        for n in 0..bytes.len() - 4 {
            assert_eq!(control_message(&bytes[..n], 263, 8), None, "{n}");
        }
        bytes[0] = 0;
        assert_eq!(control_message(&bytes, 263, 8), None, "a length of zero ends the walk");
    }
}
