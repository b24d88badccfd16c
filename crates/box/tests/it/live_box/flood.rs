//! Floods of the smallest packets there are, sent past the kernel's own stack.

use std::net::SocketAddrV4;
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
/// A TCP header with timestamps.
const STAMPED: usize = 32;
/// Segments of one flow, nearly as many packets as may wait.
const DEEP: usize = 3900;

/// Kind of packets in a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Syn,
    Ack,
    Udp,
    Fragments,
    /// Segments of one flow, as many as may wait, and then copies of them.
    Copies,
    /// One segment over and over.
    Same,
    /// Fragments of one datagram.
    Datagram,
    /// Noise behind a sound IP header.
    Random,
}

impl Sort {
    /// Sorts whose packets are of many flows; [`Self::ALL`] has the others as well.
    pub const OF_MANY_FLOWS: [Self; 5] = [Self::Syn, Self::Ack, Self::Udp, Self::Fragments, Self::Random];
    pub const ALL: [Self; 8] = [
        Self::Syn,
        Self::Ack,
        Self::Udp,
        Self::Fragments,
        Self::Copies,
        Self::Same,
        Self::Datagram,
        Self::Random,
    ];

    /// Whether its packets are segments with data and timestamps.
    const fn is_stamped(self) -> bool {
        matches!(self, Self::Copies | Self::Same)
    }

    /// Whether all its packets are of one flow: then nothing of the addresses is drawn.
    const fn is_one_flow(self) -> bool {
        matches!(self, Self::Copies | Self::Same | Self::Datagram)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Syn => "SYN",
            Self::Ack => "ACK",
            Self::Udp => "UDP",
            Self::Fragments => "fragments",
            Self::Copies => "copies",
            Self::Same => "one segment",
            Self::Datagram => "one datagram",
            Self::Random => "random",
        }
    }

    const fn protocol(self, noise: u8) -> u8 {
        match self {
            Self::Syn | Self::Ack | Self::Copies | Self::Same => 6,
            Self::Udp | Self::Fragments | Self::Datagram => 17,
            Self::Random => noise,
        }
    }
}

/// Way of a flood through the box.
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

/// Addresses of Ethernet in a frame from `end` to an interface of the box.
fn macs(world: &World, port: &str, end: &str) -> [u8; 12] {
    let mac = |end: &str, port: &str| -> Vec<u8> {
        let text = world.exec(end, &format!("cat /sys/class/net/{port}/address"));
        text.trim().split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    };
    [mac("b", port), mac(end, "e0")].concat().try_into().unwrap()
}

/// Pairs of acknowledgments in the name of a user's end of a connection, by whoever knows no number of it: of the two
/// one is higher than what was acknowledged, whatever that is.
pub fn forged_pairs(world: &World, [user, server]: [SocketAddrV4; 2]) -> Vec<Vec<u8>> {
    let (macs, mut rng) = (macs(world, "lan", "c"), Rng(7));
    let mut one = |ack: u32| {
        let route = Route { end: "c", port: "lan", from: ([0; 3], (0, 0)), to: ([0; 3], (0, 0)) };
        let mut f = frame(Sort::Ack, 0, &route, &macs, &mut rng);
        f[IP + 10..IP + 12].fill(0);
        f[IP + 12..IP + 16].copy_from_slice(&user.ip().octets());
        f[IP + 16..L4].copy_from_slice(&server.ip().octets());
        f[L4..L4 + 2].copy_from_slice(&user.port().to_be_bytes());
        f[L4 + 2..L4 + 4].copy_from_slice(&server.port().to_be_bytes());
        f[L4 + 8..L4 + 12].copy_from_slice(&ack.to_be_bytes());
        f[L4 + 16..L4 + 18].fill(0);
        close(&mut f);
        f
    };
    (0..512u32).map(|n| n << 22).flat_map(|ack| [ack, ack ^ 1 << 31]).map(&mut one).collect()
}

/// Fills in the checksums of a frame whose own are zero.
fn close(f: &mut [u8]) {
    let sum = narrows_wire::checksum(&f[IP..L4], 0);
    f[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
    if f[IP + 9] == 6
        && let Some(sum) = narrows_wire::tcp_checksum(&f[IP..])
    {
        f[L4 + 16..L4 + 18].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Packet number `nth` of a flood. Copies have room for timestamps (RFC 7323), which rise.
fn frame(sort: Sort, nth: usize, route: &Route, macs: &[u8; 12], rng: &mut Rng) -> Vec<u8> {
    let len = if sort.is_stamped() { L4 + STAMPED + 1 } else { FRAME };
    let mut one = Rng(1);
    let rng = if sort.is_one_flow() { &mut one } else { rng };
    let mut f = vec![0; len];
    f[..12].copy_from_slice(macs);
    f[12] = 8;
    let noise = rng.below(256) as u8;
    f[IP..IP + 10].copy_from_slice(&[0x45, 0, 0, (len - IP) as u8, 0, 0, 0, 0, 64, sort.protocol(noise)]);
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
        Sort::Datagram => {
            f[IP + 6..IP + 8].copy_from_slice(&(0x2000 | (1 + nth as u16 % 0x1fff)).to_be_bytes());
        }
        Sort::Copies | Sort::Same => {
            // One byte each, new ones first; then those in the middle again and again.
            let seq = if sort == Sort::Same {
                0
            } else if nth < DEEP {
                nth
            } else {
                DEEP / 4 + nth % (DEEP / 2)
            };
            f[L4 + 4..L4 + 8].copy_from_slice(&(seq as u32 + 1).to_be_bytes());
            f[L4 + 8..L4 + STAMPED].copy_from_slice(&[
                0, 0, 0, 1, 0x80, 0x18, 1, 0, 0, 0, 0, 0, 1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 1,
            ]);
            f[L4 + 24..L4 + 28].copy_from_slice(&(nth as u32).to_be_bytes());
        }
        Sort::Random => {}
    }
    close(&mut f);
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
        let macs = macs(world, route.port, route.end);
        let mut rng = Rng(0x9e37_79b9_7f4a_7c15);
        let pool: Vec<_> = (0..POOL)
            .map(|i| frame(sorts[i % sorts.len()], i / sorts.len(), &route, &macs, &mut rng))
            .collect();
        Self::of(world, pool, BATCH, route.end, rate)
    }

    /// Frames that are sent from this end in turn, so many at once.
    pub fn of(
        world: &World,
        pool: Vec<Vec<u8>>,
        at_once: usize,
        end: &'static str,
        rate: Option<u64>,
    ) -> Self {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, count) = (stop.clone(), sent.clone());
        let thread = inside(&world.ns(end), move || {
            let fd = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None).unwrap();
            packet_socket::bind(&fd, nix::net::if_::if_nametoindex("e0").unwrap(), 0).unwrap();
            let begun = Instant::now();
            for batch in pool.chunks(at_once).cycle() {
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
