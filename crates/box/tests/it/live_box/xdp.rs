//! A box between two ports of a bridge, by AF_XDP.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::live_box::faults::are_confined;
use crate::live_box::traffic::at_rest;
use crate::live_box::world::{Kind, USER, World, can_run, can_xdp, run};

fn world() -> Option<World> {
    can_xdp().then(|| World::new(Kind::Bridged))
}

/// Whether a program stands at either port.
fn has_program(world: &World) -> bool {
    world.exec("b", "ip -d link").contains("prog/xdp")
}

#[test]
fn af_xdp_shapes_what_a_bridge_forwards_whatever_the_offloads() {
    let Some(world) = world() else { return };
    // The machine has an address of its own on that bridge.
    world.ip("b", "addr add 10.77.0.1/24 dev br0");
    let running = world.start("--backend xdp --down 20mbit --discipline fifo:100");
    // veth peers leave checksums to hardware, and would segments too.
    world.fetch(world.server4(), 2_000_000).complete();
    world.fetch(world.server6(), 2_000_000).complete();
    let s = running.wait_for("all that came has gone", at_rest);
    let down = &s.down.report.counters;
    assert!(down.sent >= 2666 && s.up.report.counters.sent > 100, "{down:?}");
    assert_eq!((s.malformed, s.lost, s.gone, s.backend.as_str()), (0, 0, 0, "xdp"));
    // The users and the machine itself reach each other.
    for end in ["c", "s"] {
        world.exec(end, "ping -c 3 -i 0.2 -W 2 10.77.0.1");
    }
    assert!(has_program(&world));
    running.stop();
    assert!(!has_program(&world), "nothing is left at its interfaces");
    world.fetch(world.server4(), 200_000).complete();
}

#[test]
fn what_waits_is_sent_when_a_box_by_af_xdp_goes() {
    let Some(world) = world() else { return };
    // 12 kbit/s: one of these a second.
    let running = world.start("--backend xdp --down 12kbit --discipline fifo:1000");
    let datagrams = world.datagrams(200, Duration::ZERO);
    running.wait_for("packets wait", |s| s.down.report.backlog.packets >= 190);
    assert!(!datagrams.is_done());
    running.stop();
    datagrams.complete();
}

#[test]
fn the_program_goes_with_a_box_that_is_killed() {
    let Some(world) = world() else { return };
    for signal in [Signal::SIGKILL, Signal::SIGSEGV] {
        let running = world.start("--backend xdp --down 200kbit --discipline fifo:20");
        world.fetch(world.server4(), 10_000).complete();
        running.signal(signal);
        running.kill();
        // At 200 kbit/s it would take 80 seconds.
        world.fetch(world.server4(), 2_000_000).complete();
        assert!(!has_program(&world), "{signal}");
        let again = world.start("--backend xdp --down 4mbit --discipline fifo:20");
        world.fetch_through(&again);
        again.stop();
    }
}

/// One load of datagrams by each back end: every one is sent, at the same rate but for a tenth.
#[test]
fn all_back_ends_give_a_link_the_same_rate() {
    let mut times = Vec::new();
    for (kind, backend) in [(Kind::Bridged, "nfqueue"), (Kind::Apart, "packet"), (Kind::Bridged, "xdp")] {
        if !can_xdp() {
            return;
        }
        let world = World::new(kind);
        let running = world.start(&format!("--backend {backend} --down 800kbit --discipline fifo:1000"));
        // The bridge knows both ends.
        world.fetch(world.server4(), 1000).complete();
        let before = running.status();
        let begun = std::time::Instant::now();
        world.datagrams(200, Duration::ZERO).complete();
        times.push((backend, begun.elapsed().as_secs_f64()));
        let after = running.wait_for("all that came has gone", at_rest);
        let [before, after] = [before, after].map(|s| s.down.report.counters);
        assert!(after.sent >= before.sent + 200 && after.dropped_total() == 0, "{backend}: {after:?}");
        running.stop();
    }
    // 200 of 1028 bytes take 2.06 seconds.
    assert!(times.iter().all(|(_, t)| (1.9..2.3).contains(t)), "{times:?}");
}

#[test]
fn a_box_by_af_xdp_keeps_only_what_it_needs_and_starts_afresh() {
    let Some(world) = world() else { return };
    let user = nix::unistd::User::from_name(USER).unwrap().unwrap();
    let running = world.start("--backend xdp --down 4mbit --discipline fifo:20");
    are_confined(&world, &running, user.uid.as_raw());
    let again = world.start("--replace --backend xdp --down 4mbit --discipline fifo:20");
    running.ended();
    assert!(again.log().contains("starts afresh"), "{}", again.log());
    world.fetch_through(&again);
    again.stop();
}

#[test]
fn an_interface_that_comes_back_as_another_ends_a_box_by_af_xdp() {
    let Some(world) = world() else { return };
    let running = world.start("--backend xdp --down 4mbit --discipline fifo:20");
    world.ip("b", "link del lan");
    let s = running.wait_for("told", |s| !s.notices.is_empty());
    assert_eq!(s.notices, ["interface lan is missing"]);
    world.connect_lan();
    world.ip("b", "link set lan master br0");
    assert_eq!(running.failed(), 2);
    world.fetch(world.server4(), 100_000).complete();
    let again = world.start("--backend xdp --down 4mbit --discipline fifo:20");
    world.fetch(world.server4(), 100_000).complete();
    again.stop();
}

#[test]
fn where_af_xdp_cannot_be_it_says_why() {
    if !can_run() {
        return;
    }
    let says = |world: &World, words: &str| {
        let said = world.refused("--backend xdp --down 4mbit");
        assert!(said.contains(words), "{said}");
        let file = world.dir.join("file.toml");
        std::fs::write(&file, "lan = 'lan'\nwan = 'wan'\ndown = '4mbit'\nbackend = 'xdp'\n").unwrap();
        let out = world.narrows(&format!("check {}", file.display())).output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.code() == Some(1) && said.contains(words), "{out:?}");
        assert!(!has_program(world));
    };
    says(&World::new(Kind::Routed), "are not ports of one bridge");
    let Some(world) = world() else { return };
    world.ip("b", "link add third type veth peer name other");
    world.ip("b", "link set third master br0");
    says(&world, "third is a port of their bridge too");
    world.ip("b", "link del third");
    world.ip("b", "link set wan mtu 9000");
    says(&world, "wan has packets up to 9000 bytes");
    world.ip("b", "link del wan");
    world.ip("b", "link add wan numrxqueues 2 type veth peer name e0");
    world.ip("b", "link set wan master br0 up");
    says(&world, "wan has 2 queues");
    world.ip("b", "link del wan");
    // A driver that hands nothing to such programs.
    if run("ip", &["-n", &world.ns("b"), "link", "add", "wan", "type", "dummy"]).status.success() {
        world.ip("b", "link set wan master br0 up");
        let said = world.refused("--backend xdp --down 4mbit");
        assert!(said.contains("no native XDP"), "{said}");
    }
}
