//! Floods of the smallest packets there are, sent past the kernel's own stack.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use narrows_netio::mmsg::{BATCH, send_all};
use narrows_netio::packet_socket;
use narrows_testing::Rng;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::live_box::world::{World, inside};

/// Packets made beforehand, each of another flow: more than a box keeps flows.
const POOL: usize = 1 << 17;
/// 64 bytes on the wire, less the four of the frame's check sequence.
const FRAME: usize = 60;
/// Where the IP header begins, and where it ends.
const IP: usize = 14;
const L4: usize = 34;

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Syn,
    Ack,
    Udp,
    Fragments,
    /// Noise behind a sound IP header.
    Random,
}

impl Sort {
    pub const ALL: [Self; 5] = [Self::Syn, Self::Ack, Self::Udp, Self::Fragments, Self::Random];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Syn => "SYN",
            Self::Ack => "ACK",
            Self::Udp => "UDP",
            Self::Fragments => "fragments",
            Self::Random => "random",
        }
    }

    const fn protocol(self, noise: u8) -> u8 {
        match self {
            Self::Syn | Self::Ack => 6,
            Self::Udp | Self::Fragments => 17,
            Self::Random => noise,
        }
    }
}

/// Who sends to whom.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The namespace that sends.
    pub end: &'static str,
    /// The box's interface there.
    pub port: &'static str,
    /// Addresses begin so and end with anything in the range.
    pub from: ([u8; 3], (u8, u8)),
    pub to: ([u8; 3], (u8, u8)),
}

impl Route {
    /// From anywhere in the wide network to the user whose address ends so.
    pub const fn to_user(last: u8) -> Self {
        Self { end: "s", port: "wan", from: ([203, 0, 113], (1, 254)), to: ([10, 77, 0], (last, last)) }
    }

    /// From the user whose address ends so to everywhere.
    pub const fn from_user(last: u8) -> Self {
        Self { end: "c", port: "lan", from: ([10, 77, 0], (last, last)), to: ([10, 78, 0], (2, 2)) }
    }
}

fn address((net, (low, high)): ([u8; 3], (u8, u8)), rng: &mut Rng) -> [u8; 4] {
    let last = low + rng.below(u64::from(high - low) + 1) as u8;
    [net[0], net[1], net[2], last]
}

fn frame(sort: Sort, route: &Route, macs: &[u8; 12], rng: &mut Rng) -> Vec<u8> {
    let mut f = vec![0; FRAME];
    f[..12].copy_from_slice(macs);
    f[12] = 8;
    let noise = rng.below(256) as u8;
    f[IP..IP + 10].copy_from_slice(&[0x45, 0, 0, (FRAME - IP) as u8, 0, 0, 0, 0, 64, sort.protocol(noise)]);
    f[IP + 12..IP + 16].copy_from_slice(&address(route.from, rng));
    f[IP + 16..L4].copy_from_slice(&address(route.to, rng));
    f[IP + 4..IP + 6].copy_from_slice(&(rng.below(1 << 16) as u16).to_be_bytes());
    for byte in &mut f[L4..] {
        *byte = rng.below(256) as u8;
    }
    match sort {
        Sort::Syn | Sort::Ack => {
            f[L4 + 12..L4 + 20].copy_from_slice(&[
                0x50,
                if sort == Sort::Syn { 2 } else { 16 },
                0xff,
                0,
                0,
                0,
                0,
                0,
            ]);
        }
        // Without a checksum (RFC 768).
        Sort::Udp => f[L4 + 4..L4 + 8].copy_from_slice(&[0, (FRAME - L4) as u8, 0, 0]),
        // Not the first, and more to come.
        Sort::Fragments => {
            f[IP + 6..IP + 8].copy_from_slice(&(0x2000 | (1 + rng.below(0x1fff) as u16)).to_be_bytes());
        }
        Sort::Random => {}
    }
    let sum = narrows_wire::checksum(&f[IP..L4], 0);
    f[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
    if f[IP + 9] == 6
        && let Some(sum) = narrows_wire::tcp_checksum(&f[IP..])
    {
        f[L4 + 16..L4 + 18].copy_from_slice(&sum.to_be_bytes());
    }
    f
}

/// Packets under way until stopped.
pub struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: JoinHandle<()>,
    begun: Instant,
}

impl Flood {
    /// Packets of all these sorts in turn, so many a second, or as many as can be made.
    pub fn start(world: &World, sorts: &[Sort], route: Route, rate: Option<u64>) -> Self {
        let mac = |end: &str, port: &str| -> Vec<u8> {
            let text = world.exec(end, &format!("cat /sys/class/net/{port}/address"));
            text.trim().split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
        };
        let macs: [u8; 12] = [mac("b", route.port), mac(route.end, "e0")].concat().try_into().unwrap();
        let mut rng = Rng(0x9e37_79b9_7f4a_7c15);
        let pool: Vec<_> =
            (0..POOL).map(|i| frame(sorts[i % sorts.len()], &route, &macs, &mut rng)).collect();
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, count) = (stop.clone(), sent.clone());
        let thread = inside(&world.ns(route.end), move || {
            let fd = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None).unwrap();
            packet_socket::bind(&fd, nix::net::if_::if_nametoindex("e0").unwrap(), 0).unwrap();
            let begun = Instant::now();
            for batch in pool.chunks(BATCH).cycle() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let (refused, _) = send_all(fd.as_fd(), batch);
                let total = count.fetch_add(batch.len() as u64 - refused, Ordering::Relaxed);
                if let Some(rate) = rate {
                    let due = Duration::from_secs_f64(total as f64 / rate as f64);
                    std::thread::sleep(due.saturating_sub(begun.elapsed()));
                }
            }
        });
        Self { stop, sent, thread, begun: Instant::now() }
    }

    /// Ends it; returns how many were sent a second.
    pub fn stop(self) -> f64 {
        let time = self.begun.elapsed();
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.sent.load(Ordering::Relaxed) as f64 / time.as_secs_f64()
    }
}
