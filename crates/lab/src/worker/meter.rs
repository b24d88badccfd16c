//! Meter of the thin link towards the users: the bytes of every IP packet that comes in at their end, with the link
//! layer's overhead, by the group whose address it bears. Only a packet's address counts: a packet for a connection
//! that is gone has crossed the link all the same.

use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use narrows_netio::packet_socket::{FrameDirection, PacketSocket};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::calls::{FIRST_PORT, PORTS};
use super::user::user_at;

/// Bytes of Ethernet before an IP packet; [`frames`](PacketSocket::recv) have them.
const ETHERNET: usize = 14;
/// Number of UDP in the IP header.
const UDP: u8 = 17;
/// Sleep of the meter in milliseconds when nothing comes, after which it looks whether it is still wanted.
const NAP: u16 = 50;

/// Bytes in each second, by group.
type Bins = Vec<Vec<u64>>;

/// A meter that runs.
pub(super) struct Meter {
    bins: Arc<Mutex<Bins>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Settings of a meter.
pub(super) struct Gauge {
    /// Interface on which packets come in.
    pub(super) interface: &'static str,
    /// Bytes of link layer per packet.
    pub(super) overhead: u32,
    /// Number of users of each group, in the order of the groups' addresses.
    pub(super) groups: Vec<u32>,
    /// Time at which the first second begins.
    pub(super) begin: Instant,
}

impl Gauge {
    /// The group an address belongs to.
    fn group(&self, address: Ipv4Addr) -> Option<usize> {
        let user = user_at(address)?;
        let mut first = 0;
        self.groups.iter().position(|users| {
            first += users;
            user < first
        })
    }

    /// Group that a frame is for, and its bytes on the link; `None` for packets of calls and of no group.
    fn weigh(&self, frame: &[u8]) -> Option<(usize, u64)> {
        let ip = frame.get(ETHERNET..ETHERNET + 22).filter(|_| frame[12..14] == [8, 0])?;
        // Packets of calls cost those who fetch nothing.
        let calls = FIRST_PORT..FIRST_PORT + PORTS;
        if ip[0] == 0x45 && ip[9] == UDP && calls.contains(&u16::from_be_bytes([ip[20], ip[21]])) {
            return None;
        }
        let group = self.group(Ipv4Addr::new(ip[16], ip[17], ip[18], ip[19]))?;
        Some((group, u64::from(u16::from_be_bytes([ip[2], ip[3]])) + u64::from(self.overhead)))
    }
}

impl Meter {
    /// Begins to count bytes on the link.
    pub(super) fn start(gauge: Gauge) -> anyhow::Result<Self> {
        let socket = PacketSocket::open(gauge.interface, FrameDirection::Incoming)?;
        let bins: Arc<Mutex<Bins>> = Arc::new(Mutex::new(vec![Vec::new(); gauge.groups.len()]));
        let over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (bins, over) = (bins.clone(), over.clone());
            move || {
                let mut buffer = vec![0; 10_000];
                while !over.load(Ordering::Relaxed) {
                    let _ =
                        poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)], PollTimeout::from(NAP));
                    while let Ok((n, _)) = socket.recv(&mut buffer) {
                        if let Some((group, bytes)) = gauge.weigh(&buffer[..n]) {
                            count(&mut lock(&bins)[group], gauge.begin.elapsed().as_secs() as usize, bytes);
                        }
                    }
                }
            }
        });
        Ok(Self { bins, over, thread: Some(thread) })
    }

    /// Bytes so far, of all groups.
    pub(super) fn total(&self) -> u64 {
        lock(&self.bins).iter().flatten().sum()
    }

    /// Bytes that came in each of the first `seconds`, by group.
    pub(super) fn bins(&self, seconds: usize) -> Bins {
        let mut bins = lock(&self.bins).clone();
        bins.iter_mut().for_each(|b| b.resize(seconds, 0));
        bins
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn lock(bins: &Mutex<Bins>) -> MutexGuard<'_, Bins> {
    bins.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count(bins: &mut Vec<u64>, second: usize, bytes: u64) {
    if bins.len() <= second {
        bins.resize(second + 1, 0);
    }
    bins[second] += bytes;
}

#[cfg(test)]
mod tests {
    use super::super::user::user_address;
    use super::*;

    #[test]
    fn a_packet_counts_for_the_group_of_its_address() {
        let gauge = Gauge { interface: "x", overhead: 14, groups: vec![3, 300], begin: Instant::now() };
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&[8, 0]);
        // 40 bytes of IP in a frame that Ethernet filled up to 60.
        frame[16..18].copy_from_slice(&[0, 40]);
        for (user, group) in [(0, Some(0)), (2, Some(0)), (3, Some(1)), (302, Some(1)), (303, None)] {
            frame[30..34].copy_from_slice(&user_address(user).octets());
            assert_eq!(gauge.weigh(&frame), group.map(|g| (g, 54)), "user {user}");
        }
        frame[14] = 0x45;
        frame[23] = UDP;
        frame[34..36].copy_from_slice(&5_005_u16.to_be_bytes());
        frame[30..34].copy_from_slice(&user_address(0).octets());
        assert_eq!(gauge.weigh(&frame), None, "a call's");
        frame[34..36].copy_from_slice(&443_u16.to_be_bytes());
        assert_eq!(gauge.weigh(&frame), Some((0, 54)), "QUIC");
        frame[12..14].copy_from_slice(&[8, 6]);
        assert_eq!(gauge.weigh(&frame), None, "ARP is nobody's");
        assert_eq!(gauge.weigh(&frame[..20]), None);
    }

    #[test]
    fn bytes_fall_into_seconds() {
        let mut bins = Vec::new();
        count(&mut bins, 2, 54);
        count(&mut bins, 2, 46);
        count(&mut bins, 0, 1);
        assert_eq!(bins, [1, 0, 100]);
    }
}
