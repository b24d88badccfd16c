//! Every discipline by its name on the command line, what `classes` does for short transfers, and one put in place of
//! another under traffic.

use std::time::{Duration, Instant};

use narrows_qdisc::ClassReport;
use nix::sys::signal::Signal;

use crate::live_box::process::BoxProcess;
use crate::live_box::traffic::at_rest;
use crate::live_box::world::{Fetch, Kind, World, can_run};

/// Each with settings that differ from its defaults.
const SPECS: [&str; 11] = [
    "fifo:60",
    "red:60,min=10,max=40",
    "rio:ps,buffer=60",
    "sfq:60",
    "drr:60",
    "codel:target=30ms",
    "fq_codel:scale=on",
    "pie:target=60ms",
    "cake:isolate=dual_dst,ack_filter=on",
    "classes:buffer=60,packets=20",
    "taq:mode=paper",
];

/// Reorderings that the sender's TCP has counted.
pub fn reordered(world: &World) -> u64 {
    let text = world.exec("s", "cat /proc/net/netstat");
    let mut lines = text.lines().filter(|l| l.starts_with("TcpExt:"));
    let (names, values) = (lines.next().unwrap().split(' '), lines.next().unwrap().split(' '));
    let counts = names.zip(values).filter(|(name, _)| ["TCPSACKReorder", "TCPTSReorder"].contains(name));
    counts.map(|(_, n)| n.parse::<u64>().unwrap()).sum()
}

#[test]
fn every_discipline_serves_tcp_and_says_its_name() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    for spec in SPECS {
        let running = world.start(&format!("--down 4mbit --up 1mbit --discipline {spec}"));
        let fetches = [world.server4(), world.server6(), world.server4()].map(|s| world.fetch(s, 150_000));
        fetches.into_iter().for_each(Fetch::complete);
        let s = running.wait_for("all that came has gone", at_rest);
        let (kind, _) = spec.split_once(':').unwrap();
        assert_eq!((s.down.discipline.as_str(), &*s.down.report.name), (spec, kind));
        // 450 kB in packets of at most 1448 bytes of payload.
        assert!(s.down.report.counters.sent > 310, "{spec}: {:?}", s.down.report.counters);
        running.stop();
    }
}

/// How long four transfers of 10 kB take, one after the other, while long flows fill a link of 1 Mbit/s (7 s; who is
/// slower has the end of it alone); and what the box said of itself then, as data and in words.
fn short_beside_long(spec: &str) -> (Duration, Vec<ClassReport>, String) {
    let world = World::new(Kind::Routed);
    let running = world.start(&format!("--down 1mbit --discipline {spec}"));
    let long: Vec<_> = (0..3).map(|_| world.fetch(world.server4(), 300_000)).collect();
    running.wait_for("the long flows fill the buffer", |s| s.down.report.backlog.packets > 25);
    let start = Instant::now();
    for n in 0..4 {
        let server = if n % 2 == 0 { world.server4() } else { world.server6() };
        world.fetch(server, 10_000).complete();
    }
    let took = start.elapsed();
    let words = said(&world, &running);
    long.into_iter().for_each(Fetch::complete);
    running.wait_for("all that came has gone", at_rest);
    let classes = running.status().down.report.classes;
    assert_eq!(reordered(&world), 0, "{spec}: what TCP took for reordering");
    running.stop();
    (took, classes, words)
}

/// `narrows status` as an operator sees it.
fn said(world: &World, running: &BoxProcess) -> String {
    let out = world.narrows("status --control").arg(running.control()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn classes_let_short_transfers_by() {
    if !can_run() {
        return;
    }
    let (alike, none, _) = short_beside_long("fifo:60");
    assert!(none.is_empty());
    for spec in ["classes:buffer=60,packets=20", "classes:buffer=60,packets=20,split=auto,borrow=on"] {
        let (apart, classes, words) = short_beside_long(spec);
        eprintln!("{spec}: {apart:?}; fifo:60: {alike:?}");
        assert!(apart < alike, "{spec}: {apart:?}, with fifo:60 {alike:?}");
        let [short, long] = classes.as_slice() else { panic!("{classes:?}") };
        assert_eq!((&*short.name, &*long.name), ("short", "long"));
        assert_eq!(short.up_to_packets, Some(20));
        assert!(long.counters.as_ref().unwrap().sent > short.counters.as_ref().unwrap().sent, "{classes:?}");
        assert_eq!(short.share.unwrap().0 + long.share.unwrap().0, 1_000_000, "{classes:?}");
        for line in ["· short", "  share of the link", "  dropped", "  flows of up to"] {
            assert!(words.contains(line), "{words}");
        }
    }
}

#[test]
fn one_discipline_after_another_loses_nothing() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let write = |rate, spec| world.configure(&format!("down = '{rate}'\ndiscipline = '{spec}'\n"));
    write("2mbit", "fifo:9000");
    let running = world.start_configured();
    // 8 Mbit/s come for three seconds; and a TCP flow, which would be slower for a loss but whole.
    let datagrams = world.datagrams(3000, Duration::from_millis(1));
    let fetch = world.fetch(world.server4(), 100_000);
    running.wait_for("packets wait", |s| s.down.report.backlog.packets > 100);
    // No discipline here has a reason of its own to drop these packets. The last one sends them all.
    for (rate, spec) in [
        ("2mbit", "classes:buffer=9000,packets=50,split=auto"),
        ("2mbit", "cake:target=10s,interval=60s"),
        ("1mbit", "classes:buffer=9000,packets=200,borrow=on"),
        ("2mbit", "red:18000,min=8000,max=9000"),
        ("2mbit", "fq_codel:target=10s,interval=60s"),
        ("3mbit", "sfq:9000"),
        ("2mbit", "codel:limit=9000,target=10s,interval=60s"),
        ("2mbit", "rio:ps,buffer=18000,in_min=8000,in_max=9000,out_min=8000,out_max=9000"),
        ("80mbit", "drr:9000"),
    ] {
        write(rate, spec);
        running.signal(Signal::SIGHUP);
        let s = running.wait_for(spec, |s| s.down.discipline == spec);
        assert!(s.notices.is_empty(), "{spec}: {:?}", s.notices);
    }
    datagrams.complete();
    fetch.complete();
    running.wait_for("all that waited has gone", |s| s.down.report.backlog.packets == 0);
    running.stop();
}
