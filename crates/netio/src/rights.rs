//! Descriptors that go from one process to another with a word (SCM_RIGHTS, unix(7)).

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

/// Descriptors handed over at once, at most.
const MOST: usize = 16;

/// Sends `word` with descriptors.
///
/// # Errors
/// If nobody listens, or there are too many.
pub fn send(stream: &UnixStream, word: &[u8], fds: &[BorrowedFd<'_>]) -> std::io::Result<()> {
    if fds.len() > MOST {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    let raw: Vec<_> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    sendmsg::<()>(stream.as_raw_fd(), &[IoSlice::new(word)], &rights, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}

/// Receives a word of at most 200 bytes with descriptors.
///
/// # Errors
/// If nothing comes.
#[expect(unsafe_code, reason = "the kernel has just made these descriptors for this process")]
pub fn receive(stream: &UnixStream) -> std::io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut space = nix::cmsg_space!([RawFd; MOST]);
    let mut word = [0; 200];
    let (count, raw) = {
        let mut buffers = [IoSliceMut::new(&mut word)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<()>(stream.as_raw_fd(), &mut buffers, Some(&mut space), flags)?;
        let mut raw = Vec::new();
        for control in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(fds) = control {
                raw.extend(fds);
            }
        }
        (message.bytes, raw)
    };
    // SAFETY: each is a descriptor that recvmsg has just installed for this process, told once, owned by nobody else.
    let fds = raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect();
    Ok((word[..count].to_vec(), fds))
}
