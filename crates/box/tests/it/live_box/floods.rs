//! Cost of floods of 64-byte packets to the users of a link of 10 Mbit/s: `cargo xtask floods`. Nothing is asserted; it
//! is a table.

use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::live_box::flood::{Flood, Route, Sort, forged_pairs};
use crate::live_box::process::BoxProcess;
use crate::live_box::soak::gauges;
use crate::live_box::users::{Downloads, fetch_as};
use crate::live_box::world::{Kind, PATIENCE, World, inside};

/// Established flows, each of a user of its own.
const FLOWS: u8 = 50;
/// Addresses of the client end so: first those of the flows.
const FIRST: u8 = 10;
/// Users who come during a measurement, one after the other.
const NEWCOMERS: u8 = 12;
const SPAN: Duration = Duration::from_secs(6);
/// User who is flooded, and has no flow.
const VICTIM: u8 = 3;

/// Measurements during one flood.
struct Row {
    goodput: f64,
    /// Goodput of the flow that had least, in kbit/s.
    least: f64,
    /// How long new users waited for their first byte, in order.
    waits: Vec<Duration>,
    pps: f64,
    /// Packets a second that the box has seen, and that passed unqueued because it could not keep up.
    seen: f64,
    unseen: u64,
    memory: u64,
}

struct Bench {
    world: World,
    running: BoxProcess,
    downloads: Downloads,
    next: u8,
}

impl Bench {
    fn start(world: World, backend: &str) -> Self {
        for last in (FIRST..=254).chain([VICTIM]) {
            world.ip("c", &format!("addr add 10.77.0.{last}/24 dev e0"));
        }
        // The thin link itself, with 100 ms of buffer: what passes the box unqueued meets the rest here.
        world.exec("b", "tc qdisc add dev lan root tbf rate 10mbit burst 8kb latency 100ms");
        world.exec("c", "sysctl -qw net.ipv4.tcp_syn_retries=4");
        let running = world.start(&format!("--down 9800kbit --discipline taq --backend {backend}"));
        let who: Vec<(IpAddr, u32)> = (0..FLOWS).map(|n| ([10, 77, 0, FIRST + n].into(), 1)).collect();
        let downloads = Downloads::start(&world, world.server4(), &who);
        downloads.measure(Duration::from_secs(5));
        Self { world, running, downloads, next: FIRST + FLOWS }
    }

    /// Measures with this flood under way.
    fn row(&mut self, flood: Option<(&[Sort], Option<u64>)>) -> Row {
        let to_victim = |(sorts, rate)| Flood::start(&self.world, sorts, Route::to_user(VICTIM), rate);
        self.row_of(flood.map(to_victim))
    }

    /// Measures with forged acknowledgments of the first flow, so many a second.
    fn forged(&mut self, rate: u64) -> Row {
        let user = format!("10.77.0.{FIRST}");
        let said =
            self.world.exec("c", &format!("ss -Htn src {user} dport = {}", self.downloads.server.port()));
        let ends: Vec<_> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let pairs = forged_pairs(&self.world, ends.try_into().unwrap());
        self.row_of(Some(Flood::of(&self.world, pairs, 2, "c", Some(rate))))
    }

    fn row_of(&mut self, flood: Option<Flood>) -> Row {
        std::thread::sleep(Duration::from_secs(1));
        let count = |s: &narrows_box::Status| s.down.report.counters.arrived + s.up.report.counters.arrived;
        let (before, begun) = (self.running.status(), Instant::now());
        let (tell, told) = mpsc::channel();
        for n in 0..NEWCOMERS {
            self.next = if self.next == 254 { FIRST + FLOWS } else { self.next + 1 };
            let (from, server, tell) = ([10, 77, 0, self.next].into(), self.downloads.server, tell.clone());
            inside(&self.world.ns("c"), move || newcomer(from, server, SPAN / 16 * n.into(), &tell));
        }
        drop(tell);
        let (got, took) = self.downloads.measure(SPAN);
        let after = self.running.status();
        let seen = (count(&after) - count(&before)) as f64 / begun.elapsed().as_secs_f64();
        let pps = flood.map_or(0.0, Flood::stop);
        let mut waits: Vec<Duration> = told.iter().collect();
        waits.sort_unstable();
        std::thread::sleep(Duration::from_secs(2));
        Row {
            goodput: got.iter().sum::<u64>() as f64 * 8e-6 / took.as_secs_f64(),
            least: got.iter().min().map_or(0.0, |least| *least as f64 * 8e-3 / took.as_secs_f64()),
            waits,
            pps,
            seen,
            unseen: after.unseen - before.unseen,
            memory: gauges(&[self.running.pid()]).0,
        }
    }
}

/// Waits, and then for the first byte.
fn newcomer(from: IpAddr, server: SocketAddr, after: Duration, tell: &mpsc::Sender<Duration>) {
    std::thread::sleep(after);
    let begun = Instant::now();
    // A user who gets nothing counts as having waited that long.
    let wait = fetch_as(from, server, 1000, PATIENCE).map_or(PATIENCE, |()| begun.elapsed());
    let _ = tell.send(wait);
}

fn show(name: &str, row: &Row, without: f64) {
    let wait = |share: f64| row.waits[((row.waits.len() - 1) as f64 * share) as usize].as_secs_f64();
    println!(
        "{name:<20}{:>9.2}{:>9.0}{:>9}{:>12.2}{:>8.2}{:>9.0}{:>9.2}{:>9.2}{:>9}",
        row.pps / 1e3,
        row.seen / 1e3,
        row.unseen,
        row.goodput,
        row.goodput / without,
        row.least,
        wait(0.5),
        wait(1.0),
        row.memory
    );
}

#[test]
#[ignore = "cargo xtask floods"]
fn floods() {
    let backends = std::env::var("FLOODS_BACKENDS").unwrap_or_else(|_| "nfqueue".into());
    for backend in backends.split(',') {
        let Some(world) = World::try_new(if backend == "packet" { Kind::Apart } else { Kind::Routed }) else {
            return;
        };
        println!(
            "\n{:<20}{:>9}{:>9}{:>9}{:>12}{:>8}{:>9}{:>9}{:>9}{:>9}",
            backend, "kpps", "seen", "unseen", "Mbit/s", "share", "least", "wait p50", "max, s", "kB"
        );
        let mut bench = Bench::start(world, backend);
        let without = bench.row(None);
        show("none", &without, without.goodput);
        for rate in [1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000] {
            let row = bench.row(Some((&Sort::ALL, Some(rate))));
            show(&format!("all, {} kpps", rate / 1000), &row, without.goodput);
        }
        for sort in Sort::ALL {
            for rate in [100_000, 1_000_000] {
                let row = bench.row(Some((&[sort], Some(rate))));
                show(&format!("{}, {} kpps", sort.name(), rate / 1000), &row, without.goodput);
            }
        }
        // 25 pairs a second have cost a download all.
        let row = bench.forged(50);
        show("forged, 25 pairs/s", &row, without.goodput);
        drop(bench.downloads);
        bench.running.stop();
    }
}
