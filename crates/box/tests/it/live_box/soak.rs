//! A box that is killed, upgraded, reloaded, stopped and flooded, over and over, while packets flow through it: half a
//! minute of it as a test, which counts; `cargo xtask soak` for as long as it is told, which also measures.
//!
//! Every event is a line of `out/soak.jsonl` (SOAK_FILE). What stands there counts: after an interruption it goes on.

mod ledger;
mod load;
mod pressure;
mod table;

use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use narrows_qdisc::Reason;
use nix::sys::signal::Signal;

pub use self::ledger::gauges;
use self::ledger::{Ledger, Record};
use self::load::{Load, Passed};
use self::pressure::Pressure;
use crate::live_box::flood::{Flood, Route, Sort};
use crate::live_box::process::BoxProcess;
use crate::live_box::world::{Kind, World};

/// Event that can happen to a box.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// SIGHUP, with another rate each time.
    Reload,
    /// Another process takes its place (`--replace`).
    Upgrade,
    /// Killed with what it holds, and started again.
    Kill,
    /// SIGSTOP for two seconds, then SIGCONT.
    Hang,
    /// An interface goes down for a second, and comes back.
    Link,
    /// An interface is deleted, and another one made in its place.
    Remade,
    /// The box is started again with CLOCK_MONOTONIC a day ahead, and again with all that left behind: whatever is
    /// kept is of another time. CLOCK_REALTIME cannot be stepped in a namespace, and the box does not read it.
    Clock,
    /// The box gets no more memory for two seconds.
    Memory,
    /// Programs of the same priority want all processors.
    Neighbour,
    /// 64-byte packets from the wide network to another user, and from another user.
    Flood(Sort, Route),
}

/// The user who is flooded, or floods.
const VICTIM: u8 = 3;
const SETTINGS: &str = "discipline = 'taq'\nup = '10mbit'\n";

impl Event {
    /// One round.
    fn all() -> Vec<Self> {
        let floods = [Route::to_user(VICTIM), Route::from_user(VICTIM)]
            .into_iter()
            .flat_map(|route| Sort::OF_MANY_FLOWS.map(|sort| Self::Flood(sort, route)));
        let mut all = vec![
            Self::Reload,
            Self::Upgrade,
            Self::Hang,
            Self::Upgrade,
            Self::Link,
            Self::Remade,
            Self::Neighbour,
        ];
        all.extend([Self::Memory, Self::Clock]);
        all.extend(floods);
        all.extend([Self::Upgrade, Self::Kill]);
        all
    }

    fn name(self) -> String {
        match self {
            Self::Flood(sort, route) => {
                format!("{} flood, {}", sort.name(), if route.end == "s" { "outside" } else { "inside" })
            }
            other => format!("{other:?}").to_lowercase(),
        }
    }
}

struct Soak {
    world: World,
    load: Option<Load>,
    /// The box under test; none only while it changes.
    running: Option<BoxProcess>,
    rates: u64,
    /// Packets that a flood sends a second.
    flood: Option<u64>,
}

impl Soak {
    fn new(world: World, flood: Option<u64>) -> Self {
        prepare_lan(&world);
        let mut soak = Self { world, load: None, running: None, rates: 0, flood };
        soak.configure();
        soak.running = Some(soak.world.start_configured_with("--replace"));
        soak.load = Some(Load::start(&soak.world));
        soak.load().wait_for_all("it begins");
        soak
    }

    fn load(&self) -> &Load {
        self.load.as_ref().unwrap()
    }

    fn running(&self) -> &BoxProcess {
        self.running.as_ref().unwrap()
    }

    /// Settings with another rate than before.
    fn configure(&mut self) {
        self.rates += 1;
        self.world.configure(&format!("down = '{}kbit'\n{SETTINGS}", 10_000 - self.rates % 7));
    }

    fn happen(&mut self, event: Event) -> Record {
        let (begun, before) = (Instant::now(), self.running().status());
        let load = self.load.take().unwrap();
        let (passed, pps) = load.during(&event.name(), || self.act(event));
        self.load = Some(load);
        let status = self.running().status();
        let gauges = gauges(&[vec![self.running().pid()], self.running().children()].concat());
        Record {
            event: event.name(),
            seconds: begun.elapsed().as_secs_f64(),
            sent: passed.sent,
            lost: passed.lost,
            // Another process has begun to count anew.
            verdicts: dropped(&status) - if status.pid == before.pid { dropped(&before) } else { 0 },
            datagram_gap_ms: millis(passed.datagram_gap),
            flow_gap_ms: millis(passed.flow_gap),
            kbps: rate(&passed, begun.elapsed()),
            flood_pps: pps as u64,
            unseen: status.unseen,
            broken: self.load().broken(),
            memory_kb: gauges.0,
            descriptors: gauges.1,
        }
    }

    /// Does it, and returns the packets a second of a flood.
    fn act(&mut self, event: Event) -> f64 {
        match event {
            Event::Reload => self.reload(),
            Event::Upgrade => self.upgrade(),
            Event::Kill => {
                self.running.take().unwrap().kill();
                self.running = Some(self.world.start_configured_with("--replace"));
            }
            Event::Hang => {
                self.running().signal(Signal::SIGSTOP);
                std::thread::sleep(Duration::from_secs(2));
                self.running().signal(Signal::SIGCONT);
                self.running().wait_for("it counts", |s| s.bypassed > 0);
                // Meanwhile senders had no rate to keep to: what they sent waits now, and is not the next event's.
                std::thread::sleep(Duration::from_secs(2));
            }
            Event::Link => {
                self.world.ip("b", "link set lan down");
                std::thread::sleep(Duration::from_secs(1));
                self.world.ip("b", "link set lan up");
            }
            Event::Remade => {
                self.world.ip("b", "link del lan");
                self.running().wait_for("it is told", |s| !s.notices.is_empty());
                self.world.connect_lan();
                prepare_lan(&self.world);
                self.running().wait_for("it is back", |s| s.notices.is_empty());
            }
            Event::Clock => {
                for ahead in [Some(86_400), None] {
                    self.world.ahead = ahead.filter(|_| has_time_namespaces());
                    self.running.take().unwrap().stop();
                    self.running = Some(self.world.start_configured_with("--replace"));
                    std::thread::sleep(Duration::from_secs(1));
                }
            }
            Event::Memory => {
                let box_and_watchdog = [vec![self.running().pid()], self.running().children()].concat();
                let pressure = Pressure::on(&box_and_watchdog);
                if pressure.is_none() {
                    println!("memory: not taken away, no control group can be made here");
                }
                std::thread::sleep(Duration::from_secs(2));
                drop(pressure);
                self.running().wait_for("it answers", |_| true);
            }
            Event::Neighbour => {
                let busy = Busy::start();
                std::thread::sleep(Duration::from_secs(2));
                drop(busy);
            }
            Event::Flood(sort, route) => {
                let flood = Flood::start(&self.world, &[sort], route, self.flood);
                std::thread::sleep(Duration::from_secs(1));
                return flood.stop();
            }
        }
        0.0
    }

    fn reload(&mut self) {
        for _ in 0..3 {
            self.configure();
            let wanted = 1000 * (10_000 - self.rates % 7);
            self.running().signal(Signal::SIGHUP);
            self.running().wait_for("it is reloaded", |s| s.down.rate_bps == Some(wanted));
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    fn upgrade(&mut self) {
        let after = self.world.start_configured_with("--replace");
        let before = self.running.replace(after).unwrap();
        before.ended();
    }

    /// Ends it all; the packet filter is as it was.
    fn end(mut self, rules: &str) {
        self.load.take().unwrap().stop();
        self.running.take().unwrap().stop();
        assert_eq!(self.world.rules(), rules);
    }
}

/// Programs that want a processor each, as urgently as the box does.
struct Busy(Vec<Child>);

impl Busy {
    fn start() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let args = ["-n", "-10", "timeout", "10", "sh", "-c", "while :; do :; done"];
        Self((0..processors).map(|_| Command::new("nice").args(args).spawn().unwrap()).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // `timeout` passes this on; it would not pass on SIGKILL.
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM);
            let _ = child.wait();
        }
    }
}

/// Addresses and settings that a link would lose for good when it goes down or is made anew.
fn prepare_lan(world: &World) {
    world.exec("b", "sysctl -qw net.ipv6.conf.lan.keep_addr_on_down=1");
    world.ip("c", &format!("addr add 10.77.0.{VICTIM}/24 dev e0"));
}

/// Whether a program can be started with another clock.
fn has_time_namespaces() -> bool {
    let works = Command::new("unshare").args(["--time", "--monotonic=1", "true"]).status();
    let works = works.is_ok_and(|status| status.success());
    if !works {
        println!("clock: not stepped, no time namespace can be made here");
    }
    works
}

/// The reasons for which `taq` drops what is not TCP: it has waited too long, or memory is full. A segment of TCP goes
/// because its sender can repair it, or as a copy; of a lost datagram that explains nothing.
const OF_DATAGRAMS: [Reason; 2] = [Reason::Sojourn, Reason::OverLimit];

/// Packets that a box has dropped itself and that may have been datagrams.
fn dropped(status: &narrows_box::Status) -> u64 {
    let of = |way: &narrows_box::DirectionStatus| -> u64 {
        OF_DATAGRAMS.iter().map(|reason| way.report.counters.dropped[*reason as usize]).sum()
    };
    of(&status.down) + of(&status.up)
}

#[test]
fn what_is_dropped_of_tcp_explains_no_lost_datagram() {
    let mut status = narrows_box::Status::default();
    let tcp = [(Reason::Repairable, 900), (Reason::Duplicate, 50), (Reason::Admission, 7)];
    for (reason, times) in tcp.into_iter().chain([(Reason::Sojourn, 2)]) {
        status.down.report.counters.dropped[reason as usize] = times;
    }
    status.up.report.counters.dropped[Reason::OverLimit as usize] = 1;
    assert_eq!(dropped(&status), 3);
}

fn millis(time: Duration) -> u64 {
    time.as_millis() as u64
}

fn rate(passed: &Passed, time: Duration) -> u64 {
    (passed.bytes as f64 * 8e-3 / time.as_secs_f64()) as u64
}

#[test]
fn whatever_happens_to_a_box_nothing_is_lost_but_by_its_verdict() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let rules = world.rules();
    // Not more than a machine that does other things too can send.
    let mut soak = Soak::new(world, Some(20_000));
    let before = gauges(&[vec![soak.running().pid()], soak.running().children()].concat()).1;
    let mut records: Vec<Record> = Event::all().into_iter().map(|event| soak.happen(event)).collect();
    // The next box lets go of all that floods opened.
    records.push(soak.happen(Event::Upgrade));
    println!("{}", table::of(&records));
    for record in &records {
        assert_eq!(record.broken, 0, "connections that broke: {record:?}");
        if ["reload", "upgrade"].contains(&record.event.as_str()) {
            // On a busy machine even this takes a while, and then a discipline drops what has waited.
            assert!(record.sent > 0 && record.beyond() == 0, "{record:?}");
        }
    }
    assert!(records.last().unwrap().descriptors <= before, "{before} descriptors before: {records:?}");
    soak.end(&rules);
}

#[test]
#[ignore = "cargo xtask soak"]
fn soak() {
    let Some(mut world) = World::try_new(Kind::Routed) else { return };
    let seconds = std::env::var("SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3600.0);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone()).unwrap();
    }
    // Ctrl-C at a terminal is for this program.
    world.of_its_own = true;
    let rules = world.rules();
    let mut ledger = Ledger::open();
    let mut soak = Soak::new(world, None);
    let mut events = Event::all().into_iter().cycle();
    while ledger.seconds() < seconds && !stop.load(Ordering::Relaxed) {
        let record = soak.happen(events.next().unwrap());
        ledger.add(record, seconds);
    }
    soak.end(&rules);
    println!("\n{}\n{}", table::of(ledger.records()), table::verdicts(ledger.records()));
}
