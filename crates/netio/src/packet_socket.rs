//! Packet sockets (packet(7)): the options, statistics and addresses nix has no words for, and a socket that sends and
//! hears whole frames of one interface.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use anyhow::Context as _;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, recvmsg, send,
    setsockopt, socket, sockopt,
};
use nix::sys::time::TimeValLike as _;

/// Frames that a socket hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameDirection {
    /// Frames that come in by the interface.
    Incoming,
    /// Frames that come in by the interface, and those that leave by it.
    Both,
}

/// The beginning of a frame that was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heading {
    /// Bytes that are in the buffer.
    pub kept: usize,
    /// Bytes of the whole frame.
    pub original: usize,
    /// Wall-clock time of arrival in nanoseconds, if the kernel took it.
    pub at: Option<i64>,
    /// The interface's kind of hardware, `ARPHRD_...`: what stands before the IP packet.
    pub hardware: u16,
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
    pub fn open(name: &str, heard: FrameDirection) -> anyhow::Result<Self> {
        let index = nix::net::if_::if_nametoindex(name).with_context(|| format!("interface {name}"))?;
        let fd = socket(
            AddressFamily::Packet,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            SockProtocol::EthAll,
        )
        .context("packet socket (needs CAP_NET_RAW)")?;
        if heard == FrameDirection::Incoming {
            ignore_outgoing(&fd).context("PACKET_IGNORE_OUTGOING (needs Linux 4.20)")?;
        }
        // The kernel's own time of arrival: our wake-up must not lengthen the delay.
        setsockopt(&fd, sockopt::ReceiveTimestampns, &true).context("SO_TIMESTAMPNS")?;
        bind(&fd, index, libc::ETH_P_ALL as u16).with_context(|| format!("bind to interface {name}"))?;
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
        let at = m.cmsgs()?.find_map(stamp);
        Ok((m.bytes, at))
    }

    /// The beginning of the next frame that waits.
    ///
    /// # Errors
    /// `WouldBlock` when there is none.
    pub fn heading(&self, buffer: &mut [u8]) -> io::Result<Heading> {
        let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec);
        let room = buffer.len();
        let mut iov = [io::IoSliceMut::new(buffer)];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
        let m = recvmsg::<LinkAddr>(self.fd.as_raw_fd(), &mut iov, Some(&mut control), flags)?;
        Ok(Heading {
            kept: m.bytes.min(room),
            original: m.bytes,
            at: m.cmsgs()?.find_map(stamp),
            hardware: m.address.map_or(libc::ARPHRD_ETHER, |a| a.hatype()),
        })
    }

    /// Waits until a frame is there, a signal comes, or so much time has passed.
    ///
    /// # Errors
    /// Those of `poll(2)`.
    pub fn wait(&self, most: std::time::Duration) -> io::Result<()> {
        let most = u16::try_from(most.as_millis()).unwrap_or(u16::MAX).saturating_add(1);
        match poll(&mut [PollFd::new(self.as_fd(), PollFlags::POLLIN)], PollTimeout::from(most)) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Room for frames that wait, in bytes, as far as the system lets us.
    ///
    /// # Errors
    /// Those of `setsockopt(2)`.
    pub fn make_room(&self, bytes: usize) -> io::Result<()> {
        if setsockopt(&self.fd, sockopt::RcvBufForce, &bytes).is_err() {
            setsockopt(&self.fd, sockopt::RcvBuf, &bytes)?;
        }
        Ok(())
    }

    /// Lets frames of up to `bytes` that this socket sent wait in queues. A frame counts against its socket until it
    /// has left the last queue of this machine: a bridge and a veth pair pass on whose it is, a router does not. Needs
    /// `CAP_NET_ADMIN`; the kernel doubles the number for its own records.
    ///
    /// # Errors
    /// Those of `setsockopt(2)`.
    pub fn let_wait(&self, bytes: usize) -> io::Result<()> {
        Ok(setsockopt(&self.fd, sockopt::SndBufForce, &bytes)?)
    }

    /// Frames the kernel had no room for since the last call.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        dropped(&self.fd)
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

/// Nanoseconds since 1970.
fn stamp(c: ControlMessageOwned) -> Option<i64> {
    match c {
        ControlMessageOwned::ScmTimestampns(t) => Some(t.num_nanoseconds()),
        _ => None,
    }
}

/// Hears no frame that leaves by the interface (Linux 4.20).
///
/// # Errors
/// Those of `setsockopt(2)`.
pub fn ignore_outgoing(socket: &OwnedFd) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32)
}

/// A virtio-net header stands before each frame: what hardware would still have to do to it.
///
/// # Errors
/// Those of `setsockopt(2)`.
pub fn with_vnet_header(socket: &OwnedFd) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1i32)
}

/// A control message (`PACKET_AUXDATA`) tells of each frame's VLAN tag.
///
/// # Errors
/// Those of `setsockopt(2)`.
pub fn with_auxdata(socket: &OwnedFd) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, &1i32)
}

/// Takes in frames for others than this machine, for as long as the socket is open.
///
/// # Errors
/// Those of `setsockopt(2)`.
pub fn be_promiscuous(socket: &OwnedFd, index: u32) -> io::Result<()> {
    let membership = libc::packet_mreq {
        mr_ifindex: index.cast_signed(),
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// Hears the first `kept` bytes of frames longer than `longer`, and no others.
///
/// # Errors
/// Those of `setsockopt(2)`.
pub fn hear_long(socket: &OwnedFd, longer: u32, kept: u32) -> io::Result<()> {
    let step = |code: u32, k: u32, skip_unless: u8| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: skip_unless,
        k,
    };
    // The frame's length; unless it is greater, skip one; keep so many bytes; keep none.
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_LEN, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, longer, 1),
        step(libc::BPF_RET | libc::BPF_K, kept, 0),
        step(libc::BPF_RET | libc::BPF_K, 0, 0),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

#[expect(unsafe_code, reason = "nix knows none of these options")]
fn set_option<T>(socket: &OwnedFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: the value is plain data of the size told, and it and what it points to outlive the call.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    Errno::result(set).map(drop).map_err(io::Error::from)
}

/// Frames the kernel had no room for since the last call.
#[expect(unsafe_code, reason = "nix knows no PACKET_STATISTICS")]
#[must_use]
pub fn dropped(socket: &OwnedFd) -> u64 {
    let mut stats = [0u32; 2];
    let mut len = size_of_val(&stats) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to the array; both outlive the call.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            stats.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if got == 0 { stats[1].into() } else { 0 }
}

/// Binds a packet socket to an interface; `protocol` 0 receives nothing.
///
/// # Errors
/// Those of `bind(2)`.
#[expect(unsafe_code, reason = "nix builds no sockaddr_ll")]
pub fn bind(socket: &OwnedFd, index: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index.cast_signed();
    // SAFETY: the address has the size told and outlives the call.
    let bound = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    Errno::result(bound).map(drop).map_err(io::Error::from)
}
