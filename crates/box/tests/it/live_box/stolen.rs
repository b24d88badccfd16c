//! How much of its rate a box carries while a third of its processor's time is taken away: `cargo xtask stolen`.
//! Nothing is asserted; it is a table.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};

use crate::live_box::process::BoxProcess;
use crate::live_box::world::{Kind, World, inside};

/// Period in which the processor is away once, for `AWAY`.
const PERIOD: Duration = Duration::from_millis(100);
const AWAY: Duration = Duration::from_millis(30);
const SPAN: Duration = Duration::from_secs(20);
/// Payload, and what is added to it: the link's rate counts IP packets.
const PAYLOAD: usize = 1400;
const HEADERS: usize = 28;

/// Datagrams without end from the server to the client, at twice the rate.
struct Stream {
    stop: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Stream {
    fn start(world: &World, kbps: u64) -> Self {
        let (stop, bytes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, got) = (stop.clone(), bytes.clone());
        let receiving = inside(&world.ns("c"), move || {
            let socket = UdpSocket::bind("10.77.0.2:9000").unwrap();
            setsockopt(&socket, sockopt::RcvBufForce, &(8 << 20)).unwrap();
            socket.set_read_timeout(Some(PERIOD)).unwrap();
            let mut buffer = [0; 2000];
            while !stopped.load(Ordering::Relaxed) {
                if let Ok(n) = socket.recv(&mut buffer) {
                    got.fetch_add((n + HEADERS) as u64, Ordering::Relaxed);
                }
            }
        });
        let stopped = stop.clone();
        let sending = inside(&world.ns("s"), move || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            let (begun, mut sent) = (Instant::now(), 0);
            while !stopped.load(Ordering::Relaxed) {
                let due = begun.elapsed().as_micros() as u64 * 2 * kbps / 8000;
                while sent < due {
                    let _ = socket.send_to(&[0; PAYLOAD], "10.77.0.2:9000");
                    sent += (PAYLOAD + HEADERS) as u64;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Self { stop, bytes, threads: vec![receiving, sending] }
    }

    /// Received share of the bytes that the rate allows, while `work` is done over and over.
    fn share(&self, kbps: u64, mut work: impl FnMut()) -> f64 {
        std::thread::sleep(Duration::from_secs(1));
        let (begun, before) = (Instant::now(), self.bytes.load(Ordering::Relaxed));
        while begun.elapsed() < SPAN {
            work();
        }
        let (took, got) = (begun.elapsed(), self.bytes.load(Ordering::Relaxed) - before);
        got as f64 * 8e-3 / took.as_secs_f64() / kbps as f64
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// Takes the processor away once; returns for how long it was.
fn steal(running: &BoxProcess) -> Duration {
    let begun = Instant::now();
    running.signal(Signal::SIGSTOP);
    std::thread::sleep(AWAY);
    running.signal(Signal::SIGCONT);
    let away = begun.elapsed();
    std::thread::sleep(PERIOD.saturating_sub(away));
    away
}

#[test]
#[ignore = "cargo xtask stolen"]
fn stolen() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    println!("{:<12}{:<12}{:>10}{:>10}{:>16}", "kbit/s", "discipline", "alone", "stolen", "away, longest ms");
    for (kbps, spec) in [(600, "fifo:50"), (600, "taq"), (10_000, "fifo:50"), (10_000, "taq")] {
        let running = world.start(&format!("--down {kbps}kbit --discipline {spec}"));
        let stream = Stream::start(&world, kbps);
        let alone = stream.share(kbps, || std::thread::sleep(PERIOD));
        let (mut away, mut times, mut longest) = (Duration::ZERO, 0_u32, Duration::ZERO);
        let stolen = stream.share(kbps, || {
            let one = steal(&running);
            (away, times, longest) = (away + one, times + 1, longest.max(one));
        });
        let word = if stolen >= 0.99 { "met" } else { "MISSED" };
        println!(
            "{kbps:<12}{spec:<12}{alone:>10.4}{stolen:>10.4}{:>16.0}  .99 {word}, away {:.0} %, passed by {}",
            longest.as_secs_f64() * 1e3,
            (away / times.max(1)).as_secs_f64() / PERIOD.max(away / times.max(1)).as_secs_f64() * 100.0,
            running.status().bypassed
        );
        stream.stop();
        running.stop();
    }
}
