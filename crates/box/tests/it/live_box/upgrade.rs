//! A box is replaced by another process while packets flow.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use narrows_box::Status;

use crate::live_box::flood::{Flood, Route, Sort};
use crate::live_box::process::BoxProcess;
use crate::live_box::world::{Fetch, Kind, World, can_run};

/// How often each is replaced.
const TIMES: usize = 5;
/// No flow stands still for longer: an upgrade takes a tenth of that on a machine that is busy with other things. A
/// clamp that went inert, or packets that were lost, would cost time-outs one after the other.
const STALL: Duration = Duration::from_secs(5);
/// Flows that a box follows at most, less those that end.
const FULL: usize = 60_000;

/// Every way in and out, at 10 Mbit/s. The second has what its words are.
pub fn worlds() -> impl Iterator<Item = (World, String)> {
    let kinds = [(Kind::Routed, "nfqueue"), (Kind::Bridged, "nfqueue"), (Kind::Apart, "packet")];
    kinds.into_iter().filter(|_| can_run()).map(|(kind, backend)| {
        (World::new(kind), format!("--replace --down 10mbit --discipline taq --backend {backend}"))
    })
}

/// The box that comes in place of `before`, which ends by itself.
pub fn replaced(world: &World, args: &str, before: BoxProcess) -> BoxProcess {
    let after = world.start(args);
    assert_ne!(after.pid(), before.pid());
    before.ended();
    assert_eq!(after.status().pid, after.pid(), "the new one answers on the old one's socket");
    after
}

#[test]
fn nothing_is_lost_while_one_box_takes_anothers_place() {
    for (world, args) in worlds() {
        let untouched = world.rules();
        let mut running = world.start(&args);
        let rules = world.rules();
        // The scales of this connection are told once, to the first box.
        let download = world.fetch(world.server4(), 12_000_000);
        running.wait_for("it is clamped", |s| s.down.report.counters.clamped > 0);
        let datagrams = world.datagrams(1200, Duration::from_millis(5));
        for _ in 0..TIMES {
            running.wait_for("it is under way", |s| s.down.report.counters.sent > 50);
            running = replaced(&world, &args, running);
            let status = running.wait_for("the clamp goes on", |s| s.down.report.counters.clamped > 0);
            assert_eq!((status.bypassed, status.unseen, status.lost), (0, 0, 0), "{args}");
            assert_eq!(world.rules(), rules, "{args}");
        }
        let gap = datagrams.complete();
        let stall = download.longest_gap();
        println!(
            "{args}: {TIMES} times replaced, longest gap {} ms, of the download {} ms",
            gap.as_millis(),
            stall.as_millis()
        );
        assert!(stall < STALL, "{args}: the download stood still for {stall:?}");
        running.stop();
        assert_eq!(world.rules(), untouched, "{args}");
        assert!(!world.control().exists());
    }
}

/// Fills the tables by floods: more flows than there is room for, in both directions.
fn fill_tables(world: &World, running: &BoxProcess) {
    let floods = [Route::to_user(3), Route::from_user(3)].into_iter().flat_map(|route| {
        [Sort::Ack, Sort::Syn].map(|sort| Flood::start(world, &[sort], route, Some(20_000)))
    });
    let floods: Vec<_> = floods.collect();
    let flows = |s: &Status| s.down.report.flows.min(s.up.report.flows);
    running.wait_for("its tables are full", |s| flows(s) >= FULL);
    for flood in floods {
        flood.stop();
    }
}

#[test]
fn a_box_with_full_tables_is_replaced_as_quickly() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    world.ip("c", "addr add 10.77.0.3/24 dev e0");
    let args = "--log-level debug --replace --down 10mbit --up 10mbit --discipline taq";
    let mut running = world.start(args);
    fill_tables(&world, &running);
    // Twenty seconds: on a busy host the takeovers take as long as half of it.
    let download = world.fetch(world.server4(), 24_000_000);
    running.wait_for("it is clamped", |s| s.down.report.counters.clamped > 0);
    let datagrams = world.datagrams(1000, Duration::from_millis(5));
    for _ in 0..TIMES {
        running.wait_for("it is under way", |s| s.down.report.counters.sent > 50);
        running = replaced(&world, args, running);
        running.wait_for("the clamp goes on", |s| s.down.report.counters.clamped > 0);
    }
    let gap = datagrams.complete();
    let stall = download.longest_gap();
    let told = |words: &str| -> Vec<String> {
        running.log().lines().filter(|line| line.contains(words)).map(str::to_owned).collect()
    };
    println!("{}\n{}", told("handed over").join("\n"), told("taken over").join("\n"));
    println!("longest gap {} ms, of the download {} ms", gap.as_millis(), stall.as_millis());
    assert_eq!(told("handed over").len(), TIMES);
    assert!(stall < STALL, "the download stood still for {stall:?}");
    running.stop();
}

#[test]
fn a_box_that_is_started_again_knows_its_flows() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    // Without a box it still takes some seconds.
    world.exec("s", "tc qdisc add dev e0 root tbf rate 20mbit burst 16kb limit 100kb");
    let args = "--replace --down 8mbit --discipline taq";
    let running = world.start(args);
    let download = world.fetch(world.server4(), 12_000_000);
    running.wait_for("it is clamped", |s| s.down.report.counters.clamped > 0);
    running.stop();
    let again = world.start(args);
    again.wait_for("the clamp goes on", |s| s.down.report.counters.clamped > 0);
    download.complete();
    again.stop();
}

#[test]
fn where_the_work_would_be_another_it_starts_afresh() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let running = world.start("--down 4mbit --discipline fifo:20");
    let download = world.fetch(world.server4(), 2_000_000);
    let again = world.start("--replace --down 8mbit --discipline fifo:20 --local");
    running.ended();
    assert!(again.log().contains("cannot be replaced while packets flow"), "{}", again.log());
    download.complete();
    again.stop();
}

#[test]
fn a_successor_that_takes_and_says_nothing_gets_nothing() {
    for (world, args) in worlds() {
        let running = world.start(&args);
        let download = world.fetch(world.server4(), 3_000_000);
        running.wait_for("it is under way", |s| s.down.report.counters.sent > 50);
        let mut stream = UnixStream::connect(running.control()).unwrap();
        stream.write_all(b"replace 0\n").unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert_eq!(said, "link\nbox\nmine\n", "{args}");
        running.wait_for("it goes on", |s| s.down.report.counters.sent > 500 && s.bypassed == 0);
        assert!(running.log().contains("did not"), "{}", running.log());
        Fetch::complete(download);
        running.stop();
    }
}
