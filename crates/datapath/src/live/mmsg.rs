//! Many datagrams in one call: `recvmmsg(2)`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Datagrams a call takes at most. 64 of 1500 bytes are 0.1 ms of work: enough to make the call cheap, too little to be
/// late for a timer.
pub const BATCH: usize = 64;

/// Room for the datagrams of one call.
#[derive(Debug)]
pub struct Batch {
    room: Vec<u8>,
    each: usize,
    lens: [usize; BATCH],
    count: usize,
}

impl Batch {
    /// Room for datagrams of at most `each` bytes. The memory is touched only as far as datagrams are long.
    #[must_use]
    pub fn new(each: usize) -> Self {
        Self { room: vec![0; each * BATCH], each, lens: [0; BATCH], count: 0 }
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
        for (header, vector) in headers.iter_mut().zip(&mut vectors) {
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: BATCH headers, each with one vector into its own part of `room`; all outlive the call.
        let n = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let Ok(n) = usize::try_from(n) else {
            let error = io::Error::last_os_error();
            let nothing = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
            return if nothing { Ok(0) } else { Err(error) };
        };
        for (len, header) in self.lens.iter_mut().zip(&headers[..n]) {
            *len = (header.msg_len as usize).min(self.each);
        }
        self.count = n;
        Ok(n)
    }

    /// The datagrams of the last call.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.room.chunks_exact(self.each).zip(&self.lens).take(self.count).map(|(part, &len)| &part[..len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn several_datagrams_in_one_call() {
        let (a, b) = UnixDatagram::pair().unwrap();
        for text in ["one", "", "three"] {
            a.send(text.as_bytes()).unwrap();
        }
        let mut batch = Batch::new(16);
        assert_eq!(batch.receive(b.as_fd()).unwrap(), 3);
        assert_eq!(batch.iter().collect::<Vec<_>>(), [&b"one"[..], b"", b"three"]);
        assert_eq!(batch.receive(b.as_fd()).unwrap(), 0);
        assert_eq!(batch.iter().count(), 0);
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
}
