//! Real TCP through queues of the running kernel: servers - wan [queue] lan - users, in namespaces of this test.

#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use narrows_lab::peers::{Peer, PeerCounters, host_has, kernel_discipline};
use narrows_testing::{running, skip};
use narrows_units::Rate;

const FLOWS: usize = 4;
const BYTES_PER_FLOW: usize = 60_000;

use crate::row::{Row, within};

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

/// Whether a test of these disciplines cannot run; says why.
fn skipped(kinds: &[&str]) -> bool {
    let missing = if nix::unistd::geteuid().is_root() {
        kinds.iter().find_map(|kind| Peer::available(kind).err())
    } else {
        Some("needs root".to_owned())
    };
    if let Some(why) = &missing {
        skip(&running(), why.clone());
    }
    missing.is_some()
}

/// Counters once nothing waits any more.
fn settled(peer: &Peer) -> PeerCounters {
    let mut last = PeerCounters::default();
    for _ in 0..100 {
        last = peer.counters().unwrap();
        if last.backlog_packets == 0 {
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
    if skipped(&["cake"]) {
        return;
    }
    let row = Row::make("np", "10.77.0");
    let tc = kernel_discipline("cake", Rate::from_kbps(2000), 14).unwrap();
    let peer = Peer::start(row.spec(tc)).unwrap();
    let before = peer.counters().unwrap();
    assert_eq!((before.kind.as_str(), before.dropped), ("cake", 0));

    let received = transfer(&row);
    let lengths: Vec<usize> = received.iter().map(Vec::len).collect();
    assert!(received.len() == FLOWS && received.iter().all(|data| *data == content()), "{lengths:?}");

    let after = settled(&peer);
    assert!(after.sent_bytes > (FLOWS * BYTES_PER_FLOW) as u64, "every byte passed the queue: {after:?}");
    assert_eq!(after.arrived, after.sent + after.dropped, "{after:?}");
    // No train of segments: nothing longer than one Ethernet frame of a 1500-byte link.
    let largest = largest_packet(&peer.tc_stats().unwrap());
    assert!((1..=1514).contains(&largest), "cake saw a packet of {largest} bytes");

    drop(peer);
    let left = devices_between(&row);
    assert!(!left.contains("nb") && !left.contains("cake"), "the bridge and its queue are removed:\n{left}");
}

#[test]
fn a_queue_below_a_shaper_counts_what_it_sent() {
    if skipped(&["pfifo"]) {
        return;
    }
    let row = Row::make("np", "10.77.0");
    let tc = kernel_discipline("pfifo 30", Rate::from_kbps(2000), 4).unwrap();
    let peer = Peer::start(row.spec(tc)).unwrap();
    let received = transfer(&row);
    assert!(received.iter().all(|data| *data == content()));
    let counters = peer.counters().unwrap();
    assert_eq!(counters.kind, "pfifo");
    assert!(counters.sent_bytes > (FLOWS * BYTES_PER_FLOW) as u64 && counters.arrived >= counters.sent);
    drop(peer);
    let left = devices_between(&row);
    assert!(!left.contains("nb") && !left.contains("htb"), "{left}");
}

#[test]
fn every_discipline_can_be_installed() {
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
    let kinds: Vec<&str> = all.iter().filter_map(|name| name.split(' ').next()).collect();
    if skipped(&kinds) {
        return;
    }
    let row = Row::make("np", "10.77.0");
    for name in all {
        let tc = kernel_discipline(name, Rate::from_kbps(600), 4).unwrap();
        let peer = Peer::start(row.spec(tc)).unwrap();
        assert!(name.starts_with(&peer.counters().unwrap().kind), "{name}");
    }
}

#[test]
fn a_failing_command_is_told_and_leaves_nothing() {
    if skipped(&["pfifo"]) {
        return;
    }
    let row = Row::make("np", "10.77.0");
    let tc = vec!["tc qdisc replace dev {lan} root nonesuch".into()];
    let why = format!("{:#}", Peer::start(row.spec(tc)).unwrap_err());
    assert!(why.contains("nonesuch"), "{why}");
    let left = devices_between(&row);
    assert!(!left.contains("nb"), "{left}");
    assert!(!host_has("nonesuch"));
}
