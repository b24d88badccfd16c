//! The ends of calls: UDP sockets of the users and of the server, which send at their pace whatever comes. Each packet
//! tells when it was sent, and the kernel tells when it came: both ends have one clock.
//!
//! A call has a number; the first packet the user sends tells the server who calls, and each for how long the server
//! is to send. Users and server each have one thread for all calls, so that no transfer's work delays a packet.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::IoSliceMut;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use narrows_scenario::calls::{CallWay, Pacer, Pattern};
use nix::cmsg_space;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;

use super::record::{CallEnd, CallEnds};
use super::user::{rng, user_address};
use crate::scenario::Calls;

/// The server's port for the first entry's calls; the next have the next.
pub(super) const FIRST_PORT: u16 = 5004;
/// Most entries, and so most ports.
pub(super) const PORTS: u16 = 1000;
/// Bytes of IP and UDP headers.
const HEADERS: usize = 28;
/// Longest sleep of a thread, and so the longest time until the thread sees the order to end.
const NAP: Duration = Duration::from_millis(50);

/// First bytes of a packet's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    /// The number of the call.
    call: u32,
    /// Time at which the packet was sent, in nanoseconds since 1970.
    sent: u64,
    /// Milliseconds for which the server is to go on.
    left_ms: u32,
}

/// Bytes of [`Said`].
const SAID: usize = 16;

impl Said {
    fn write(self, payload: &mut [u8]) {
        payload[..4].copy_from_slice(&self.call.to_be_bytes());
        payload[4..12].copy_from_slice(&self.sent.to_be_bytes());
        payload[12..SAID].copy_from_slice(&self.left_ms.to_be_bytes());
    }

    fn read(payload: &[u8]) -> Option<Self> {
        let (call, rest) = payload.split_first_chunk()?;
        let (sent, rest) = rest.split_first_chunk()?;
        Some(Self {
            call: u32::from_be_bytes(*call),
            sent: u64::from_be_bytes(*sent),
            left_ms: u32::from_be_bytes(*rest.first_chunk()?),
        })
    }
}

fn clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// One end of a call.
struct End {
    number: u32,
    /// Index of the end's socket in [`Side::sockets`].
    socket: usize,
    pattern: Pattern,
    pacer: Pacer,
    rng: fastrand::Rng,
    /// Address of the other end, once that is known.
    peer: Option<SocketAddrV4>,
    /// Time at which the end stops sending.
    stop: Instant,
}

/// Ends of all calls at the users or at the server, which send one way.
struct Side {
    way: CallWay,
    sockets: Vec<UdpSocket>,
    ends: Vec<End>,
    saw: Vec<CallEnd>,
    /// Time at which each end sends next, with the end's index.
    due: BinaryHeap<Reverse<(Instant, usize)>>,
}

/// Thread of one side of the calls, which runs until `finish`.
pub(super) struct Caller {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<CallEnd>>,
    began: u64,
}

impl Caller {
    /// Users begin to call `server`; the load begins now and lasts `duration`. Each begins at random within `jitter`.
    pub(super) fn users(
        all: &[Calls],
        server: Ipv4Addr,
        seed: u64,
        [jitter, duration]: [Duration; 2],
    ) -> anyhow::Result<Self> {
        let mut side = Side::new(CallWay::Up);
        let begin = Instant::now();
        for (entry, calls) in (0..).zip(all) {
            for user in calls.first..calls.first + calls.flows {
                let socket = side.socket(calls, user_address(user), 0)?;
                let mut rng = side.rng(seed);
                let start = calls.start.duration() + jitter.mul_f64(rng.f64());
                let at = side.end(socket, calls, rng, begin + calls.stop.duration().min(duration));
                side.ends[at].peer = Some(SocketAddrV4::new(server, FIRST_PORT + entry));
                side.due.push(Reverse((begin + start, at)));
            }
        }
        Ok(side.start())
    }

    /// The server listens.
    pub(super) fn server(all: &[Calls], seed: u64) -> anyhow::Result<Self> {
        let mut side = Side::new(CallWay::Down);
        for (entry, calls) in (0..).zip(all) {
            let socket = side.socket(calls, Ipv4Addr::UNSPECIFIED, FIRST_PORT + entry)?;
            for _ in 0..calls.flows {
                let rng = side.rng(seed);
                side.end(socket, calls, rng, Instant::now());
            }
        }
        Ok(side.start())
    }

    /// Ends the thread and returns the counts of packets.
    pub(super) fn finish(self) -> CallEnds {
        self.over.store(true, Ordering::Relaxed);
        CallEnds { began: self.began, ends: self.thread.join().unwrap_or_default() }
    }
}

impl Side {
    fn new(way: CallWay) -> Self {
        Self { way, sockets: Vec::new(), ends: Vec::new(), saw: Vec::new(), due: BinaryHeap::new() }
    }

    fn socket(&mut self, calls: &Calls, address: Ipv4Addr, port: u16) -> anyhow::Result<usize> {
        let socket =
            UdpSocket::bind((address, port)).with_context(|| format!("calls at {address}:{port}"))?;
        setsockopt(&socket, sockopt::Ipv4Tos, &(i32::from(calls.dscp) << 2)).context("codepoint of calls")?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true).context("times of calls' packets")?;
        socket.set_nonblocking(true)?;
        self.sockets.push(socket);
        Ok(self.sockets.len() - 1)
    }

    /// The draws of the end that is made next; the two sides draw apart.
    fn rng(&self, seed: u64) -> fastrand::Rng {
        rng(!seed, self.ends.len() as u32, self.way as u32)
    }

    fn end(&mut self, socket: usize, calls: &Calls, mut rng: fastrand::Rng, stop: Instant) -> usize {
        let pacer = Pacer::new(calls.call(), self.way, &mut || rng.f64());
        let number = self.ends.len() as u32;
        self.ends.push(End { number, socket, pattern: calls.pattern, pacer, rng, peer: None, stop });
        self.saw.push(CallEnd::default());
        self.ends.len() - 1
    }

    fn start(mut self) -> Caller {
        let over = Arc::new(AtomicBool::new(false));
        let told = over.clone();
        let began = clock();
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                self.send_due();
                self.wait();
                for socket in 0..self.sockets.len() {
                    while self.take(socket) {}
                }
            }
            self.saw
        });
        Caller { over, thread, began }
    }

    /// Sleeps until a packet comes or has to go.
    fn wait(&self) {
        let next = self.due.peek().map(|Reverse((at, _))| at.saturating_duration_since(Instant::now()));
        // A poll counts in milliseconds, so a packet goes up to one late: it tells when it went.
        let nap = PollTimeout::try_from(next.unwrap_or(NAP).min(NAP)).unwrap_or(PollTimeout::ZERO);
        let mut fds: Vec<PollFd<'_>> =
            self.sockets.iter().map(|s| PollFd::new(s.as_fd(), PollFlags::POLLIN)).collect();
        if fds.is_empty() {
            std::thread::sleep(NAP);
        } else {
            let _ = poll(&mut fds, nap);
        }
    }

    fn send_due(&mut self) {
        let now = Instant::now();
        while let Some(&Reverse((at, place))) = self.due.peek().filter(|Reverse((at, _))| *at <= now) {
            self.due.pop();
            let end = &mut self.ends[place];
            if at >= end.stop {
                continue;
            }
            send(&self.sockets[end.socket], end, &mut self.saw[place]);
            let gap = end.pacer.advance(&mut || end.rng.f64());
            self.due.push(Reverse((at + Duration::from_nanos(gap.as_nanos()), place)));
        }
    }

    /// Takes a packet from a socket, if there is one.
    fn take(&mut self, socket: usize) -> bool {
        let mut buffer = [0; SAID];
        let mut control = cmsg_space!(TimeSpec);
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let fd = self.sockets[socket].as_raw_fd();
        let flags = MsgFlags::MSG_DONTWAIT;
        let Ok(message) = recvmsg::<SockaddrIn>(fd, &mut parts, Some(&mut control), flags) else {
            return false;
        };
        let stamp = message.cmsgs().into_iter().flatten().find_map(|c| match c {
            ControlMessageOwned::ScmTimestampns(at) => {
                Some(u64::try_from(Duration::from(at).as_nanos()).unwrap_or(u64::MAX))
            }
            _ => None,
        });
        let from = message.address.map(|a| SocketAddrV4::new(a.ip(), a.port()));
        // The user's sockets are each a call's.
        let Some(said) = Said::read(&buffer) else { return true };
        let place = said.call as usize;
        if self.ends.get(place).is_none_or(|end| end.socket != socket) {
            return true;
        }
        self.saw[place].came.push((said.sent, stamp.unwrap_or_else(clock).saturating_sub(said.sent)));
        if let (CallWay::Down, Some(from)) = (self.way, from) {
            self.called(place, from, said.left_ms);
        }
        true
    }

    /// The server has a packet of a call.
    fn called(&mut self, place: usize, from: SocketAddrV4, left_ms: u32) {
        let (now, end) = (Instant::now(), &mut self.ends[place]);
        end.stop = now + Duration::from_millis(left_ms.into());
        let first = end.peer.replace(from).is_none();
        if end.pattern == Pattern::Answered {
            send(&self.sockets[end.socket], end, &mut self.saw[place]);
        } else if first {
            self.due.push(Reverse((now, place)));
        }
    }
}

/// Sends the next packet of an end.
fn send(socket: &UdpSocket, end: &End, saw: &mut CallEnd) {
    let Some(peer) = end.peer else { return };
    let mut packet = vec![0; (end.pacer.packet() as usize).saturating_sub(HEADERS).max(SAID)];
    let left = end.stop.saturating_duration_since(Instant::now());
    let left_ms = u32::try_from(left.as_millis()).unwrap_or(u32::MAX);
    let said = Said { call: end.number, sent: clock(), left_ms };
    said.write(&mut packet);
    // A packet that the kernel has no room for is lost, as any other.
    let _ = socket.send_to(&packet, peer);
    saw.sent.push(said.sent);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_packet_says_is_read_again() {
        let said = Said { call: 7, sent: 1_700_000_000_123_456_789, left_ms: 90_000 };
        let mut packet = [0; 60];
        said.write(&mut packet);
        assert_eq!(Said::read(&packet), Some(said));
        assert_eq!(Said::read(&packet[..SAID - 1]), None);
    }
}
