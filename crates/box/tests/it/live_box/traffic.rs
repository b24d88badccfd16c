//! Traffic passes, counted and whole.

use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use narrows_box::Status;
use narrows_qdisc::Report;
use narrows_testing::skip;
use nix::sys::signal::Signal;

use crate::live_box::world::{Kind, World, inside};

/// Whatever came has gone, was dropped, or waits.
fn is_conserved(r: &Report) -> bool {
    let c = &r.counters;
    c.arrived == c.sent + c.dropped_total() + c.suppressed + c.refused + r.backlog.packets as u64
}

pub fn at_rest(s: &Status) -> bool {
    [&s.down, &s.up].iter().all(|d| d.report.backlog.packets == 0 && is_conserved(&d.report))
}

#[test]
fn tcp_passes_shaped_and_nothing_is_unaccounted_for() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let running = world.start("--down 4mbit --up 1mbit --discipline fifo:20");
    for server in [world.server4(), world.server6()] {
        world.fetch(server, 400_000).complete();
    }
    let s = running.wait_for("all that came has gone", at_rest);
    let down = &s.down.report.counters;
    // 800 kB of payload in packets of at most 1448 bytes.
    assert!(down.sent_bytes.0 > 800_000 && down.sent >= 553, "{down:?}");
    assert!(s.up.report.counters.sent > 100, "the way back is seen too");
    assert_eq!((s.down.rate_bps, s.up.rate_bps), (Some(4_000_000), Some(1_000_000)));
    assert_eq!((s.malformed, s.unseen, s.lost, s.gone), (0, 0, 0, 0));
    assert_eq!((s.lan.as_str(), s.wan.as_str(), s.pid), ("lan", "wan", running.pid()));
    running.stop();
}

#[test]
fn a_direction_without_a_rate_passes_at_once() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let running = world.start("--up 64kbit --discipline fifo:100");
    world.fetch(world.server4(), 100_000).complete();
    let s = running.wait_for("all that came has gone", at_rest);
    assert_eq!(s.down.rate_bps, None);
    assert_eq!(s.down.report.counters.dropped_total(), 0);
    running.stop();
}

#[test]
fn packets_held_when_the_box_goes_are_let_go() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    // 12 kbit/s: one of these a second.
    let running = world.start("--down 12kbit --discipline fifo:1000");
    let datagrams = world.datagrams(200, Duration::ZERO);
    running.wait_for("packets wait", |s| s.down.report.backlog.packets >= 190);
    assert!(!datagrams.is_done());
    running.stop();
    datagrams.complete();
}

#[test]
fn what_waits_for_a_closed_port_is_dropped_when_its_host_says_so() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    for to in ["10.77.0.2:4433", "[fd77::2]:4433"].map(|to| to.parse::<SocketAddr>().unwrap()) {
        // 64 kbit/s: seven of these a second.
        let running = world.start("--down 64kbit --up 1mbit --discipline taq");
        let from = if to.is_ipv4() { "10.78.0.2:443" } else { "[fd78::2]:443" };
        let sent = inside(&world.ns("s"), move || {
            let socket = UdpSocket::bind(from).unwrap();
            // A client's Initial of version 1 shows that it is QUIC, then 1-RTT packets: they wait without loss.
            let mut packet = [0; 1200];
            packet[..5].copy_from_slice(&[0xc0, 0, 0, 0, 1]);
            socket.send_to(&packet, to).unwrap();
            packet[..5].copy_from_slice(&[0x40, 0, 0, 0, 0]);
            (0..20).filter(|_| socket.send_to(&packet, to).is_ok()).count()
        });
        assert_eq!(sent.join().unwrap(), 20);
        let s = running.wait_for("all has gone or was dropped", at_rest);
        let down = &s.down.report.counters;
        // How many depends on how soon the host speaks, and how often it does.
        assert!(down.dropped_total() > 0, "{to}: {down:?}");
        running.stop();
    }
}

#[test]
fn an_observer_sees_all_and_holds_nothing() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    // At 8 kbit/s a megabyte would take 17 minutes.
    let running = world.start("--observe --down 8kbit --discipline fifo:1");
    world.fetch(world.server4(), 1_000_000).complete();
    let s = running.status();
    assert!(s.observe);
    assert!(s.down.report.counters.arrived_bytes.0 > 1_000_000);
    assert_eq!(s.down.report.counters.dropped_total(), 0);
    running.stop();
}

#[test]
fn a_bridge_is_queued_and_its_settings_put_back() {
    let setting = "cat /proc/sys/net/bridge/bridge-nf-call-iptables";
    if !std::path::Path::new("/proc/sys/net/bridge").exists() {
        skip("a_bridge_is_queued_and_its_settings_put_back", "needs br_netfilter");
        return;
    }
    for world in World::each_filter(Kind::Bridged) {
        world.exec("b", "sysctl -qw net.bridge.bridge-nf-call-iptables=0");
        let rules = world.rules();
        let running = world.start("--down 4mbit --discipline fifo:50");
        // A table of nftables' own family for bridges needs no setting.
        let needed = if world.filter == "nft" { "0" } else { "1" };
        assert_eq!(world.exec("b", setting).trim(), needed);
        world.fetch(world.server4(), 200_000).complete();
        world.fetch(world.server6(), 200_000).complete();
        let s = running.wait_for("all that came has gone", at_rest);
        assert!(s.down.report.counters.sent_bytes.0 > 400_000, "{s:?}");
        assert_eq!(s.malformed, 0, "ARP is not queued");
        running.stop();
        assert_eq!(world.exec("b", setting).trim(), "0");
        assert_eq!(world.rules(), rules);
        world.fetch(world.server4(), 200_000).complete();
    }
}

#[test]
fn packet_sockets_join_two_interfaces_whatever_their_offloads() {
    let Some(world) = World::try_new(Kind::Apart) else { return };
    let running = world.start("--backend packet --down 20mbit --discipline fifo:100");
    // veth peers have checksum and segmentation offload on: what arrives is neither cut nor summed. ARP and neighbour
    // discovery must pass for any of this to work.
    world.fetch(world.server4(), 2_000_000).complete();
    world.fetch(world.server6(), 2_000_000).complete();
    let s = running.wait_for("all that came has gone", at_rest);
    let down = &s.down.report.counters;
    // Cut to wire size: more than 4 MB / 1500 packets.
    assert!(down.sent >= 2666, "{down:?}");
    assert_eq!((s.malformed, s.lost, s.gone, s.backend.as_str()), (0, 0, 0, "packet"));
    assert_eq!(world.counted_of_tcp("c", 15), "0", "checksum errors (InCsumErrors is the 15th value)");
    running.stop();
}

#[test]
fn the_routers_own_traffic_is_queued_when_asked() {
    for world in World::each_filter(Kind::Routed) {
        let before = world.rules();
        let running = world.start("--local --up 10mbit --down 10mbit --discipline fifo:50");
        world.exec("b", "ping -c 3 -i 0.2 -W 5 10.78.0.2");
        let s = running.wait_for("three went up and three came down", |s| {
            s.up.report.counters.sent >= 3 && s.down.report.counters.sent >= 3
        });
        assert!(at_rest(&s));
        // Towards the users the thin link is not in the way. Neighbour discovery may cross it meanwhile.
        let sent = s.down.report.counters.sent;
        world.exec("b", "ping -c 30 -i 0.02 -W 5 10.77.0.2");
        let more = running.status().down.report.counters.sent - sent;
        assert!(more < 15, "{more} packets went down while 30 echoes stayed on the users' side");
        running.stop();
        assert_eq!(world.rules(), before);
    }
}

#[test]
fn a_reload_under_traffic_loses_nothing() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    world.configure("down = '2mbit'\ndiscipline = 'fifo:9000'\n");
    let running = world.start_configured();
    // 8 Mbit/s come for two seconds.
    let datagrams = world.datagrams(2000, Duration::from_millis(1));
    let fetch = world.fetch(world.server4(), 300_000);
    running.wait_for("packets wait", |s| s.down.report.backlog.packets > 100);
    for (text, rate) in [
        ("down = '3mbit'\ndiscipline = 'fifo:9000'\n", Some(3_000_000)),
        ("discipline = 'fifo:9000'\n", None),
        ("down = '1mbit'\ndiscipline = 'fifo:8000'\nup = '1mbit'\n", Some(1_000_000)),
        ("down = '80mbit'\ndiscipline = 'fifo:7000'\n", Some(80_000_000)),
    ] {
        world.configure(text);
        running.signal(Signal::SIGHUP);
        running.wait_for(text, |s| s.down.rate_bps == rate);
    }
    world.configure("down = '8'\n");
    running.signal(Signal::SIGHUP);
    let s = running.wait_for("a bad file is told", |s| !s.notices.is_empty());
    assert_eq!(s.down.rate_bps, Some(80_000_000), "the old settings stay");
    assert!(
        s.notices[0].contains("box.toml") && s.notices[0].contains("'8' is not a rate"),
        "{:?}",
        s.notices
    );
    datagrams.complete();
    fetch.complete();
    running.stop();
}

#[test]
fn either_mode_of_taq_serves_and_changes_while_it_does() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    world.configure("down = '4mbit'\nup = '1mbit'\ndiscipline = 'taq'\n");
    let running = world.start_configured();
    let fetches: Vec<_> = (0..8).map(|_| world.fetch(world.server4(), 150_000)).collect();
    running.wait_for("flows are followed", |s| s.down.report.flows >= 8);
    for (text, name) in [
        ("down = '5mbit'\nup = '1mbit'\ndiscipline = 'taq'\n", "taq"),
        ("down = '5mbit'\nup = '1mbit'\ndiscipline = 'taq:mode=paper'\n", "taq:mode=paper"),
        ("down = '5mbit'\nup = '1mbit'\ndiscipline = 'fifo:90'\n", "fifo:90"),
        ("down = '6mbit'\nup = '1mbit'\ndiscipline = 'taq'\n", "taq"),
    ] {
        world.configure(text);
        running.signal(Signal::SIGHUP);
        running.wait_for(text, |s| s.down.discipline == name);
    }
    fetches.into_iter().for_each(crate::live_box::world::Fetch::complete);
    running.wait_for("all that waited has gone", |s| {
        s.down.report.backlog.packets == 0 && s.up.report.backlog.packets == 0
    });
    running.stop();
}

#[test]
fn the_page_tells_this_machine_all_and_others_their_own() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let running = world.start("--down 4mbit --discipline fifo:20 --page 0.0.0.0:8088 --page-for-others");
    let get = |end: &str, host: &'static str, path: &'static str| {
        let got = inside(&world.ns(end), move || {
            let mut stream = std::net::TcpStream::connect((host, 8088)).unwrap();
            stream.set_read_timeout(Some(crate::live_box::world::PATIENCE)).unwrap();
            write!(stream, "GET {path} HTTP/1.0\r\nHost: x\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        });
        got.join().unwrap()
    };
    assert!(get("b", "127.0.0.1", "/").contains("<title>Narrows</title>"));
    for (end, host) in [("b", "127.0.0.1"), ("c", "10.77.0.1")] {
        let text = get(end, host, "/status.json");
        let body = text.split("\r\n\r\n").nth(1).unwrap();
        let status: Status = serde_json::from_str(body).unwrap();
        assert_eq!(status.pid, running.pid());
    }
    assert!(get("c", "10.77.0.1", "/else").starts_with("HTTP/1.0 404"));
    running.stop();
}
