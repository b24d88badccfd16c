//! Load through the box at all times: downloads and uploads without end, of which every byte is checked, and
//! numbered datagrams, of which every one is counted.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};

use crate::live_box::world::{PATIENCE, World, inside};

/// A prime, so that no run of packets repeats it.
const PATTERN: usize = 8191;
/// Between two datagrams of one direction, and how long they are: 160 kbit/s, far less than any share.
const PAUSE: Duration = Duration::from_millis(20);
const LENGTH: usize = 400;

fn pattern() -> Vec<u8> {
    (0..PATTERN).map(|i| (i ^ (i >> 5)) as u8).collect()
}

/// Receiver's count of bytes, and of times without any.
#[derive(Debug)]
pub struct Meter {
    bytes: AtomicU64,
    /// The last arrival, and the longest time without one since it was asked for.
    times: Mutex<(Instant, Duration)>,
}

impl Meter {
    fn new() -> Arc<Self> {
        Arc::new(Self { bytes: AtomicU64::new(0), times: Mutex::new((Instant::now(), Duration::ZERO)) })
    }

    fn got(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let mut times = self.times.lock().unwrap();
        let now = Instant::now();
        *times = (now, times.1.max(now - times.0));
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The longest time without anything since it was last asked, the present one included.
    pub fn gap(&self) -> Duration {
        let mut times = self.times.lock().unwrap();
        let gap = times.1.max(times.0.elapsed());
        times.1 = Duration::ZERO;
        gap
    }
}

/// One connection whose bytes go from one end to the other.
struct Flow {
    meter: Arc<Meter>,
    threads: [JoinHandle<()>; 2],
}

impl Flow {
    /// From a server at `address` in namespace `from`.
    fn start(world: &World, (from, to): (&str, &str), address: IpAddr, all: &Shared) -> Self {
        let (tell, told) = mpsc::channel();
        let (stop, broken) = (all.stop.clone(), all.broken.clone());
        let serving = inside(&world.ns(from), move || {
            let listener = TcpListener::bind((address, 0)).unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            let (stream, _) = listener.accept().unwrap();
            serve(stream, &stop, &broken);
        });
        let server: SocketAddr = told.recv_timeout(PATIENCE).unwrap();
        let meter = Meter::new();
        let (seen, stop, broken) = (meter.clone(), all.stop.clone(), all.broken.clone());
        let reading = inside(&world.ns(to), move || {
            let stream = TcpStream::connect_timeout(&server, PATIENCE).unwrap();
            read_all(stream, &seen, &stop, &broken);
        });
        Self { meter, threads: [serving, reading] }
    }
}

fn serve(mut stream: TcpStream, stop: &AtomicBool, broken: &AtomicU64) {
    let data = pattern();
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut at = 0;
    while !stop.load(Ordering::Relaxed) {
        match stream.write(&data[at..]) {
            Ok(n) => at = (at + n) % PATTERN,
            Err(e) if is_late(&e) => {}
            Err(_) => {
                broken.fetch_add(u64::from(!stop.load(Ordering::Relaxed)), Ordering::Relaxed);
                return;
            }
        }
    }
}

fn read_all(mut stream: TcpStream, meter: &Meter, stop: &AtomicBool, broken: &AtomicU64) {
    let data = pattern();
    stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let (mut at, mut buffer) = (0, vec![0; 16 << 10]);
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(n @ 1..) => {
                let whole = buffer[..n].iter().zip(data.iter().cycle().skip(at)).all(|(a, b)| a == b);
                broken.fetch_add(u64::from(!whole), Ordering::Relaxed);
                at = (at + n) % PATTERN;
                meter.got(n);
            }
            Err(e) if is_late(&e) => {}
            _ => {
                broken.fetch_add(u64::from(!stop.load(Ordering::Relaxed)), Ordering::Relaxed);
                return;
            }
        }
    }
}

fn is_late(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// Numbered datagrams of one direction. Each carries which phase it was sent in.
struct Datagrams {
    meter: Arc<Meter>,
    /// Sent and received in each phase.
    counts: Arc<Mutex<Vec<[u64; 2]>>>,
    threads: [JoinHandle<()>; 2],
}

impl Datagrams {
    fn start(world: &World, (from, to): (&str, &str), at: IpAddr, all: &Shared) -> Self {
        let counts = Arc::new(Mutex::new(Vec::<[u64; 2]>::new()));
        let count = |counts: &Mutex<Vec<[u64; 2]>>, phase: usize, which: usize| {
            let mut counts = counts.lock().unwrap();
            let len = counts.len().max(phase + 1);
            counts.resize(len, [0; 2]);
            counts[phase][which] += 1;
        };
        let (tell, told) = mpsc::channel();
        let meter = Meter::new();
        let (seen, stop, got) = (meter.clone(), all.stop.clone(), counts.clone());
        let receiving = inside(&world.ns(to), move || {
            let socket = UdpSocket::bind((at, 0)).unwrap();
            setsockopt(&socket, sockopt::RcvBufForce, &(8 << 20)).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            tell.send(socket.local_addr().unwrap()).unwrap();
            let mut buffer = [0; LENGTH];
            while !stop.load(Ordering::Relaxed) {
                // A flood meets its port too, with shorter ones.
                if socket.recv(&mut buffer).is_ok_and(|n| n == LENGTH) {
                    seen.got(LENGTH);
                    count(&got, u32::from_be_bytes(buffer[..4].try_into().unwrap()) as usize, 1);
                }
            }
        });
        let address = told.recv_timeout(PATIENCE).unwrap();
        let (phase, stop, sent) = (all.phase.clone(), all.stop.clone(), counts.clone());
        let sending = inside(&world.ns(from), move || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            while !stop.load(Ordering::Relaxed) {
                let (phase, mut datagram) = (phase.load(Ordering::Relaxed), [0; LENGTH]);
                datagram[..4].copy_from_slice(&(phase as u32).to_be_bytes());
                if socket.send_to(&datagram, address).is_ok() {
                    count(&sent, phase, 0);
                }
                std::thread::sleep(PAUSE);
            }
        });
        Self { meter, counts, threads: [receiving, sending] }
    }

    fn counted(&self, phase: usize) -> [u64; 2] {
        self.counts.lock().unwrap().get(phase).copied().unwrap_or_default()
    }
}

/// State that all threads of a load look at.
#[derive(Clone, Default)]
struct Shared {
    stop: Arc<AtomicBool>,
    phase: Arc<AtomicUsize>,
    /// Connections that broke, or brought wrong bytes.
    broken: Arc<AtomicU64>,
}

/// Everything under way.
pub struct Load {
    shared: Shared,
    flows: Vec<Flow>,
    datagrams: [Datagrams; 2],
}

/// Traffic of one phase.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passed {
    /// Datagrams, both ways.
    pub sent: u64,
    pub lost: u64,
    /// The longest time without a datagram of one direction, and without a byte of one connection.
    pub datagram_gap: Duration,
    pub flow_gap: Duration,
    /// Bytes of connections.
    pub bytes: u64,
}

impl Load {
    pub fn start(world: &World) -> Self {
        let shared = Shared::default();
        let (down, up) = (("s", "c"), ("c", "s"));
        let client: IpAddr = "10.77.0.2".parse().unwrap();
        let mut flows = Vec::new();
        for server in [world.server4(), world.server4(), world.server4(), world.server6()] {
            flows.push(Flow::start(world, down, server, &shared));
        }
        flows.push(Flow::start(world, up, client, &shared));
        let datagrams = [
            Datagrams::start(world, down, client, &shared),
            Datagrams::start(world, up, world.server4(), &shared),
        ];
        Self { shared, flows, datagrams }
    }

    fn meters(&self) -> impl Iterator<Item = &Meter> {
        self.flows.iter().map(|flow| &*flow.meter)
    }

    /// Meters of connections, then those of datagrams.
    fn all(&self) -> impl Iterator<Item = &Meter> {
        self.meters().chain(self.datagrams.iter().map(|datagrams| &*datagrams.meter))
    }

    fn bytes(&self) -> u64 {
        self.meters().map(Meter::bytes).sum()
    }

    /// Connections that broke so far.
    pub fn broken(&self) -> u64 {
        self.shared.broken.load(Ordering::Relaxed)
    }

    /// Waits until every connection and both ways of datagrams have got something from now on.
    pub fn wait_for_all(&self, why: &str) {
        let before: Vec<_> = self.all().map(Meter::bytes).collect();
        let until = Instant::now() + PATIENCE;
        while self.all().zip(&before).any(|(meter, before)| meter.bytes() == *before) {
            assert!(Instant::now() < until, "{why}: nothing comes: {:?}", self.all().collect::<Vec<_>>());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Measures the traffic while `work` is done and until all moves again.
    pub fn during<T>(&self, why: &str, work: impl FnOnce() -> T) -> (Passed, T) {
        self.all().for_each(|meter| {
            meter.gap();
        });
        let (before, phase) = (self.bytes(), self.shared.phase.load(Ordering::Relaxed));
        let done = work();
        self.wait_for_all(why);
        let mut passed = Passed {
            bytes: self.bytes() - before,
            datagram_gap: self.datagrams.iter().map(|d| d.meter.gap()).max().unwrap_or_default(),
            flow_gap: self.meters().map(Meter::gap).max().unwrap_or_default(),
            ..Passed::default()
        };
        self.shared.phase.store(phase + 1, Ordering::Relaxed);
        let counted = || self.datagrams.each_ref().map(|d| d.counted(phase));
        // New datagrams queue behind those under way; then the ones in a queue have a while to come.
        self.wait_for_all(why);
        let until = Instant::now() + Duration::from_secs(1);
        while counted().iter().any(|[sent, got]| got < sent) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        for [sent, got] in counted() {
            passed.sent += sent;
            passed.lost += sent.saturating_sub(got);
        }
        (passed, done)
    }

    pub fn stop(self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.flows.into_iter().flat_map(|f| f.threads) {
            thread.join().unwrap();
        }
        for thread in self.datagrams.into_iter().flat_map(|d| d.threads) {
            thread.join().unwrap();
        }
    }
}
