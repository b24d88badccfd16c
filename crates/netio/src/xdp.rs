//! AF_XDP (Documentation/networking/af_xdp.rst): frames of an interface in memory shared with the kernel, taken by a
//! program in the driver before the kernel's own stack sees them. Linux 5.9.
//!
//! Which frames the program hands over, and that it does so only while we show life, is [`Gate`]'s. The program is
//! attached by a link to which this process has the only descriptor: the kernel detaches it when the process ends,
//! however it does.
//!
//! No crate is used: `xsk-rs` needs libxdp at build time, `xdpilone` (EUPL) has a licence that binds more than ours.

mod bpf;
mod gate;
mod gate_program;
mod memory;
mod ring;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::errno::Errno;
use nix::sys::socket::{getsockopt, sockopt};

pub use self::gate::Gate;
use self::memory::Memory;
use self::ring::Ring;

/// Frames that may wait to be read: a power of two.
pub const RECEIVING: u32 = 4096;
/// Frames that may wait to be sent: a power of two.
const SENDING: u32 = 2048;
/// Offsets of these two rings in a socket's memory (linux/if_xdp.h). libc has them in the type of a machine's offsets,
/// which holds the second one on 64-bit machines only.
const RX_RING: i64 = 0;
const TX_RING: i64 = 0x8000_0000;
/// Bytes that the kernel leaves free before each frame it hands over (XDP_PACKET_HEADROOM).
const HEADROOM: u32 = 256;
/// An Ethernet header with two VLAN tags.
const LINK: u32 = 22;
/// Sizes of places for frames.
const CHUNKS: [u32; 2] = [2048, 4096];
/// The largest IP packet that fits.
pub const MTU: u32 = CHUNKS[1] - HEADROOM - LINK;
/// Number of the queue in use; callers make sure that an interface has no other queue.
const QUEUE: u32 = 0;
/// The kernel sends at most 32 frames a call.
const PER_CALL: usize = 32;

/// Time that the kernel may take to release the queue of a process that has ended, and time between two tries.
const RELEASE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(10);

/// Whether this kernel has such sockets and lets us have one.
///
/// # Errors
/// Says what is missing.
pub fn available() -> anyhow::Result<()> {
    socket().map(drop)
}

#[expect(unsafe_code, reason = "nix knows no AF_XDP")]
fn socket() -> anyhow::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    match Errno::result(fd) {
        // SAFETY: a new descriptor, owned by nobody else.
        Ok(fd) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        Err(Errno::EAFNOSUPPORT) => Err(anyhow::anyhow!("this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)")),
        Err(e) => Err(anyhow::anyhow!("no AF_XDP socket (needs CAP_NET_RAW): {e}")),
    }
}

#[expect(unsafe_code, reason = "nix knows none of these options")]
fn set_option<T>(socket: BorrowedFd<'_>, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: the value is plain data of the size told and outlives the call.
    let set = unsafe {
        let len = size_of::<T>() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, std::ptr::from_ref(value).cast(), len)
    };
    Ok(Errno::result(set).map(drop)?)
}

#[expect(unsafe_code, reason = "nix knows none of these options")]
fn option<T>(socket: BorrowedFd<'_>, option: i32) -> io::Result<T> {
    // SAFETY: all that is asked for here is made of integers, for which all-zero bytes are valid.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to the value; both outlive the call.
    let got = unsafe {
        let value = std::ptr::from_mut(&mut value).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, value, &raw mut len)
    };
    Errno::result(got)?;
    Ok(value)
}

/// The frames of one interface.
#[derive(Debug)]
pub struct XdpSocket {
    /// The program's hold on the interface. First, so that no frame comes for a socket that goes.
    _link: OwnedFd,
    fd: OwnedFd,
    fill: Ring<u64>,
    done: Ring<u64>,
    receiving: Ring<libc::xdp_desc>,
    sending: Ring<libc::xdp_desc>,
    frames: Memory,
    chunk: u32,
    zero_copy: bool,
    /// Places for frames to be sent.
    free: Vec<u64>,
    lost: u64,
}

impl XdpSocket {
    /// Takes the frames of the interface of this number, whose IP packets have at most `mtu` bytes, while `gate` lets
    /// them come.
    ///
    /// # Errors
    /// Says what the kernel or the driver refuses, with the remedy.
    pub fn open(index: u32, mtu: u32, gate: &Gate) -> anyhow::Result<Self> {
        let chunk = CHUNKS.into_iter().find(|chunk| mtu + LINK + HEADROOM <= *chunk);
        let chunk = chunk.with_context(|| format!("its MTU is {mtu}: expected at most {MTU}"))?;
        let fd = socket()?;
        let frames = Memory::own((RECEIVING + SENDING) as usize * chunk as usize)?;
        set_option(fd.as_fd(), libc::XDP_UMEM_REG, &umem(&frames, chunk))
            .context("the kernel does not take the memory for frames (XDP_UMEM_REG, CAP_IPC_LOCK)")?;
        for (ring, entries) in [
            (libc::XDP_UMEM_FILL_RING, RECEIVING),
            (libc::XDP_UMEM_COMPLETION_RING, SENDING),
            (libc::XDP_RX_RING, RECEIVING),
            (libc::XDP_TX_RING, SENDING),
        ] {
            set_option(fd.as_fd(), ring, &entries).context("a ring of AF_XDP")?;
        }
        let at: libc::xdp_mmap_offsets =
            option(fd.as_fd(), libc::XDP_MMAP_OFFSETS).context("XDP_MMAP_OFFSETS")?;
        let mut fill =
            Ring::map(fd.as_fd(), libc::XDP_UMEM_PGOFF_FILL_RING.cast_signed(), &at.fr, RECEIVING)?;
        let done =
            Ring::map(fd.as_fd(), libc::XDP_UMEM_PGOFF_COMPLETION_RING.cast_signed(), &at.cr, SENDING)?;
        let receiving = Ring::map(fd.as_fd(), RX_RING, &at.rx, RECEIVING)?;
        let sending = Ring::map(fd.as_fd(), TX_RING, &at.tx, SENDING)?;
        let mut places = (0..u64::from(RECEIVING + SENDING)).map(|i| i * u64::from(chunk));
        for place in places.by_ref().take(RECEIVING as usize) {
            fill.put(place);
        }
        fill.publish();
        bind_in_time(fd.as_fd(), index).context(
            "the interface's queue cannot be had (bind of AF_XDP): another program has it, or it is down",
        )?;
        let sockets = bpf::sockets(QUEUE + 1).context("a BPF map (needs CAP_BPF)")?;
        bpf::set_socket(sockets.as_fd(), QUEUE, fd.as_fd()).context("XSKMAP")?;
        let program = gate.program(sockets.as_fd()).context("the kernel refuses the XDP program")?;
        let link = bpf::attach(program.as_fd(), index).context(
            "no XDP program can be attached: its driver has no native XDP, or not with this MTU, or another \
             program is there (ip link shows xdp)",
        )?;
        let options = option::<libc::xdp_options>(fd.as_fd(), libc::XDP_OPTIONS);
        Ok(Self {
            zero_copy: options.is_ok_and(|o| o.flags & libc::XDP_OPTIONS_ZEROCOPY != 0),
            _link: link,
            fd,
            fill,
            done,
            receiving,
            sending,
            frames,
            chunk,
            free: places.collect(),
            lost: 0,
        })
    }

    /// Whether the driver shares the memory, without a copy.
    #[must_use]
    pub const fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Hands waiting frames to `each`, at most `most`; returns the number of frames.
    pub fn receive(&mut self, most: usize, mut each: impl FnMut(&[u8])) -> usize {
        let mut count = 0;
        while count < most
            && let Some(descriptor) = self.receiving.take()
        {
            if let Some(frame) = self.frames.bytes(descriptor.addr as usize, descriptor.len as usize) {
                each(frame);
            }
            // As many places as the ring has.
            self.fill.put(descriptor.addr & !u64::from(self.chunk - 1));
            count += 1;
        }
        if count > 0 {
            self.receiving.release();
            self.fill.publish();
            if self.fill.wants_wakeup() {
                wake(self.fd.as_fd(), false);
            }
        }
        count
    }

    /// Sends these, in order. Returns how many the interface had no room for.
    pub fn send(&mut self, frames: &[Vec<u8>]) -> u64 {
        let mut refused = 0;
        for frame in frames {
            if self.free.is_empty() {
                self.push();
            }
            let len = frame.len();
            let place = self.free.last().filter(|_| len <= self.chunk as usize);
            let Some((&place, room)) =
                place.and_then(|p| Some((p, self.frames.bytes_mut(*p as usize, len)?)))
            else {
                refused += 1;
                continue;
            };
            room.copy_from_slice(frame);
            // As many places as the ring has.
            self.sending.put(libc::xdp_desc { addr: place, len: len as u32, options: 0 });
            self.free.pop();
        }
        self.push();
        refused
    }

    /// Has the kernel send what it has not yet, as far as the interface takes it.
    pub fn push(&mut self) {
        self.sending.publish();
        for _ in 0..SENDING as usize / PER_CALL {
            // Where it copies, the kernel does so within the call.
            let asks = !self.zero_copy || self.sending.wants_wakeup();
            if !asks || !self.sending.is_pending() || !wake(self.fd.as_fd(), true) {
                break;
            }
        }
        while let Some(place) = self.done.take() {
            self.free.push(place);
        }
        self.done.release();
    }

    /// Frames there was no room for since the last call.
    pub fn dropped(&mut self) -> u64 {
        let Ok(s) = option::<libc::xdp_statistics>(self.fd.as_fd(), libc::XDP_STATISTICS) else { return 0 };
        let before = std::mem::replace(&mut self.lost, s.rx_dropped + s.rx_ring_full);
        self.lost.saturating_sub(before)
    }

    /// Hears of an interface that has gone, so that waiting for frames is waiting again.
    pub fn clear_error(&self) {
        let _ = getsockopt(&self.fd, sockopt::SocketError);
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn umem(frames: &Memory, chunk: u32) -> libc::xdp_umem_reg {
    libc::xdp_umem_reg {
        addr: frames.address(),
        len: u64::from(RECEIVING + SENDING) * u64::from(chunk),
        chunk_size: chunk,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    }
}

/// Waits for a queue that a process which has just ended had: the kernel takes it back in a work item of its own
/// (`xdp_umem_release_deferred`).
fn bind_in_time(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    let until = Instant::now() + RELEASE;
    loop {
        match bind(socket, index) {
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until => sleep(POLL),
            outcome => return outcome,
        }
    }
}

/// Binds without a copy where the driver can, with one else.
#[expect(unsafe_code, reason = "nix builds no sockaddr_xdp")]
fn bind(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: index,
        sxdp_queue_id: QUEUE,
        sxdp_shared_umem_fd: 0,
    };
    // SAFETY: the address has the size told and outlives the call.
    let bound = unsafe {
        let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len)
    };
    Ok(Errno::result(bound).map(drop)?)
}

/// Tells the kernel that there is something to send, or room. Returns whether it may be worth while to do so again.
#[expect(unsafe_code, reason = "nix sends no null pointer")]
fn wake(socket: BorrowedFd<'_>, to_send: bool) -> bool {
    let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
    // SAFETY: AF_XDP takes no bytes: a null pointer of length zero.
    let done = unsafe {
        if to_send {
            libc::sendto(fd, std::ptr::null(), 0, flags, std::ptr::null(), 0)
        } else {
            libc::recvfrom(fd, std::ptr::null_mut(), 0, flags, std::ptr::null_mut(), std::ptr::null_mut())
        }
    };
    matches!(Errno::result(done), Ok(_) | Err(Errno::EAGAIN | Errno::EINTR))
}
