//! Real TCP through real kernel queues, in this kernel and in User-mode Linux: servers - wan [queue] lan - users, in
//! namespaces of this test.

#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use narrows_lab::peers::{
    DeviceCounters, Peer, PeerCounters, Registers, UmlBox, host_has, kernel_discipline, parse_tc_stats,
};
use narrows_testing::{running, skip};
use narrows_units::Rate;

const FLOWS: usize = 4;
const BYTES_PER_FLOW: usize = 60_000;

mod row;

use row::{Row, within};

/// Devices in the middle namespace, as `ip` lists them.
fn devices_between(row: &Row) -> String {
    let left = Command::new("ip").args(["-n", &row.names()[1], "-o", "link"]).output().unwrap();
    String::from_utf8_lossy(&left.stdout).into_owned()
}

/// No two places near each other hold the same bytes, so that a lost or doubled piece shows.
fn content() -> Vec<u8> {
    (0..BYTES_PER_FLOW as u32).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect()
}

/// Each flow carries [`content`] from the server to a user; returns what arrived by each.
fn transfer(row: &Row) -> Vec<Vec<u8>> {
    let [users, _, servers] = row.names();
    let (ready, listening) = std::sync::mpsc::channel();
    let server = within(&servers, move || {
        let listener = TcpListener::bind("10.77.0.2:8000").unwrap();
        ready.send(()).unwrap();
        let flows: Vec<_> = (0..FLOWS)
            .map(|_| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
                std::thread::spawn(move || stream.write_all(&content()).unwrap())
            })
            .collect();
        flows.into_iter().for_each(|flow| flow.join().unwrap());
    });
    listening.recv_timeout(Duration::from_secs(20)).unwrap();
    let user = within(&users, || {
        let address = "10.77.0.2:8000".parse().unwrap();
        let streams: Vec<_> = (0..FLOWS)
            .map(|_| TcpStream::connect_timeout(&address, Duration::from_secs(20)).unwrap())
            .collect();
        let readers: Vec<_> = streams
            .into_iter()
            .map(|mut stream| {
                std::thread::spawn(move || {
                    let mut data = Vec::new();
                    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                    stream.read_to_end(&mut data).unwrap();
                    data
                })
            })
            .collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    let received = user.join().unwrap();
    server.join().unwrap();
    received
}

/// Whether the test that asks cannot run; says why.
fn skipped() -> bool {
    let missing = UmlBox::available().err();
    if let Some(why) = &missing {
        skip(&running(), format!("User-mode Linux: {why}"));
    }
    missing.is_some()
}

/// Counters once nothing waits any more.
fn settled(peer: &mut UmlBox) -> (PeerCounters, DeviceCounters) {
    let mut last = (PeerCounters::default(), DeviceCounters::default());
    for _ in 0..100 {
        last = (parse_tc_stats(&peer.tc_stats().unwrap()).unwrap(), peer.links().unwrap());
        if last.0.backlog_packets == 0 && last.1.wan_received == last.0.arrived {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    last
}

fn largest_packet(cake_json: &str) -> u64 {
    let list: serde_json::Value = serde_json::from_str(cake_json.trim()).unwrap();
    let tins = list[0]["tins"].as_array().unwrap();
    tins.iter().map(|tin| tin["max_pkt_len"].as_u64().unwrap()).max().unwrap()
}

#[test]
fn cake_carries_tcp_and_loses_no_packet_uncounted() {
    if !skipped() {
        carries_tcp(Registers::needed_here());
    }
}

/// As on a processor with AMX, whatever this one is.
#[test]
fn a_guest_with_few_registers_carries_tcp_too() {
    if !skipped() {
        carries_tcp(Registers::Sse);
    }
}

fn carries_tcp(registers: Registers) {
    let row = Row::make("np", "10.77.0");
    let tc = kernel_discipline("cake", Rate::from_kbps(2000), 14).unwrap();
    let mut peer = UmlBox::start_with(row.spec(tc), registers).unwrap();
    let before = parse_tc_stats(&peer.tc_stats().unwrap()).unwrap();
    assert_eq!((before.kind.as_str(), before.dropped), ("cake", 0));

    let start = std::time::Instant::now();
    let received = transfer(&row);
    let lengths: Vec<usize> = received.iter().map(Vec::len).collect();
    eprintln!("{lengths:?} B in {:?}", start.elapsed());
    assert!(received.len() == FLOWS && received.iter().all(|data| *data == content()), "{lengths:?}");

    let (after, links) = settled(&mut peer);
    eprintln!("{after:?} {links:?}");
    assert!(after.sent_bytes > (FLOWS * BYTES_PER_FLOW) as u64, "every byte passed the queue: {after:?}");
    // No train of segments: nothing longer than one Ethernet frame of a 1500-byte link.
    let largest = largest_packet(&peer.tc_stats().unwrap());
    assert!((1..=1514).contains(&largest), "cake saw a packet of {largest} bytes");
    // Counted outside the queue: what came in from the servers was sent or dropped; what was sent left the device.
    // The device also counts the few frames that a bridge keeps to itself (neighbour and multicast chatter).
    assert_eq!(after.arrived, after.sent + after.dropped, "{after:?} {links:?}");
    let kept = links.wan_received.checked_sub(after.arrived);
    assert!(kept.is_some_and(|n| n <= 8), "{after:?} {links:?}");
    // The device may have sent some of that before the queue was there.
    let beside = links.lan_sent.checked_sub(after.sent);
    assert!(beside.is_some_and(|n| n <= 8), "{after:?} {links:?}");

    peer.stop();
    assert_eq!(std::fs::read_dir(row.workdir()).unwrap().count(), 0, "scripts and sockets are removed");
    let left = devices_between(&row);
    assert!(!left.contains("ntl") && !left.contains("nbl"), "taps and bridges are removed:\n{left}");
}

#[test]
fn this_kernels_own_queue_takes_part() {
    if !nix::unistd::geteuid().is_root() || !host_has("htb") || !host_has("pfifo") {
        skip("this_kernels_own_queue_takes_part", "needs root and a kernel with sch_htb");
        return;
    }
    let row = Row::make("np", "10.77.0");
    let tc = kernel_discipline("pfifo 30", Rate::from_kbps(2000), 4).unwrap();
    let mut peer = Peer::start("pfifo", row.spec(tc)).unwrap();
    assert_eq!(peer.kernel(), "this kernel");
    let received = transfer(&row);
    assert!(received.iter().all(|data| *data == content()));
    let counters = peer.counters().unwrap();
    eprintln!("{counters:?}");
    assert_eq!(counters.kind, "pfifo");
    assert!(counters.sent_bytes > (FLOWS * BYTES_PER_FLOW) as u64 && counters.arrived >= counters.sent);
    peer.stop();
    let left = devices_between(&row);
    assert!(!left.contains("nb") && !left.contains("htb"), "{left}");
}

#[test]
fn every_discipline_can_be_installed() {
    if skipped() {
        return;
    }
    let row = Row::make("np", "10.77.0");
    let rate = Rate::from_kbps(600);
    let all = [
        "cake besteffort",
        "fq_codel",
        "sfq",
        "red",
        "pie",
        "codel",
        "fq",
        "netem",
        "pfifo 30",
        "choke",
        "hhf",
    ];
    // One guest tries them in turn; the last one stays.
    let mut tc = Vec::new();
    for name in all {
        tc.extend(kernel_discipline(name, rate, 4).unwrap());
        tc.push("tc qdisc del dev {lan} root".into());
    }
    tc.extend(kernel_discipline("fq_codel limit 100", rate, 4).unwrap());
    let mut peer = UmlBox::start(row.spec(tc)).unwrap();
    assert_eq!(parse_tc_stats(&peer.tc_stats().unwrap()).unwrap().kind, "fq_codel");
}

#[test]
fn a_failing_command_is_told_and_leaves_nothing() {
    if skipped() {
        return;
    }
    let row = Row::make("np", "10.77.0");
    let why = format!(
        "{:#}",
        UmlBox::start(row.spec(vec!["tc qdisc replace dev {lan} root nonesuch".into()])).unwrap_err()
    );
    assert!(why.contains("nonesuch") && why.contains("console") && !why.contains('\n'), "{why}");
    let left = devices_between(&row);
    assert!(!left.contains("ntl") && !left.contains("nbl"), "{left}");
    assert!(!host_has("nonesuch"));
}
