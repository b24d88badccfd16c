//! A raw packet socket on one interface: what the emulator holds at its two ends, and what a capture listens to.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use anyhow::Context as _;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType, recvmsg, send,
    setsockopt, socket, sockopt,
};

/// Which frames a socket hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Those that come in by the interface.
    Incoming,
    /// Those that leave by it too.
    Both,
}

/// Whole frames in and out of one interface.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
}

impl PacketSocket {
    /// Opens the interface called `name` in this network namespace.
    ///
    /// # Errors
    /// If there is none, or for want of `CAP_NET_RAW`.
    pub fn open(name: &str, heard: Heard) -> anyhow::Result<Self> {
        let index = nix::net::if_::if_nametoindex(name).with_context(|| format!("interface {name}"))?;
        let fd = socket(
            AddressFamily::Packet,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            SockProtocol::EthAll,
        )
        .context("packet socket (needs CAP_NET_RAW)")?;
        if heard == Heard::Incoming {
            ignore_outgoing(&fd).context("PACKET_IGNORE_OUTGOING (needs Linux 4.20)")?;
        }
        // The kernel's own time of arrival: our wake-up must not lengthen the delay.
        setsockopt(&fd, sockopt::ReceiveTimestampns, &true).context("SO_TIMESTAMPNS")?;
        bind(&fd, index).with_context(|| format!("bind to interface {name}"))?;
        Ok(Self { fd })
    }

    /// The next frame that waits, and its wall-clock time of arrival in nanoseconds if the kernel took it.
    ///
    /// # Errors
    /// `WouldBlock` when there is none.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<i64>)> {
        let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec);
        let mut iov = [io::IoSliceMut::new(buffer)];
        let m = recvmsg::<()>(self.fd.as_raw_fd(), &mut iov, Some(&mut control), MsgFlags::MSG_DONTWAIT)?;
        let at = m.cmsgs()?.find_map(|c| match c {
            ControlMessageOwned::ScmTimestampns(t) => Some(t.tv_sec() * 1_000_000_000 + t.tv_nsec()),
            _ => None,
        });
        Ok((m.bytes, at))
    }

    /// Sends one frame; `false` if the interface had no room for it or is down.
    pub fn send(&self, frame: &[u8]) -> bool {
        send(self.fd.as_raw_fd(), frame, MsgFlags::MSG_DONTWAIT).is_ok()
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[expect(unsafe_code, reason = "nix has no safe way to make a link-layer address")]
fn bind(fd: &OwnedFd, index: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: i32::try_from(index).map_err(io::Error::other)?,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: `address` is a whole sockaddr_ll of the length given, and the kernel only reads it during the call.
    let r = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if r == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[expect(unsafe_code, reason = "nix does not know PACKET_IGNORE_OUTGOING")]
fn ignore_outgoing(fd: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option value is one c_int, alive during the call, with its own size beside it.
    let r = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_IGNORE_OUTGOING,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if r == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
