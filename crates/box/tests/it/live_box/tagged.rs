//! Frames with a VLAN tag, and those of a PPPoE session, between the ports of a bridge.

use std::os::fd::AsFd as _;
use std::time::Duration;

use narrows_netio::mmsg::send_all;
use narrows_netio::packet_socket::{FrameDirection, PacketSocket};

use crate::live_box::world::{Kind, World, can_keep, inside};

/// Between the addresses of a frame and its IPv4 packet: VLAN 5 (IEEE 802.1Q); session 9 of PPPoE (RFC 2516).
const TAGS: [&[u8]; 2] = [&[0x81, 0, 0, 5, 8, 0], &[0x88, 0x64, 0x11, 0, 0, 9, 0, 34, 0, 0x21]];

/// A datagram in such a frame.
fn frame(ends: &[u8], tag: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0, 10, 80, 0, 2, 10, 80, 0, 3];
    let sum = narrows_wire::checksum(&ip, 0);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip.extend([0, 7, 0, 9, 0, 12, 0, 0, 1, 2, 3, 4]);
    [ends, tag, &ip].concat()
}

#[test]
fn what_has_a_tag_on_a_bridge_is_queued_by_iptables() {
    are_queued("iptables", &TAGS);
}

/// Sessions of PPPoE are not shown to a table of family bridge as what they carry.
#[test]
fn what_has_a_tag_of_a_vlan_on_a_bridge_is_queued_by_nftables() {
    are_queued("nft", &TAGS[..1]);
}

fn are_queued(filter: &'static str, tags: &[&[u8]]) {
    if !can_keep(Kind::Bridged, filter) {
        return;
    }
    let world = World::with(Kind::Bridged, filter);
    let mac = |end: &str| -> Vec<u8> {
        let text = world.exec(end, "cat /sys/class/net/e0/address");
        text.trim().split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    };
    let ends = [mac("s"), mac("c")].concat();
    let before = world.exec("b", "sysctl net.bridge");
    let running = world.start("--down 4mbit --up 4mbit --discipline fifo:20");
    // The bridge knows both ends.
    world.fetch(world.server4(), 1000).complete();
    for tag in tags {
        let arrived = running.status().up.report.counters.arrived;
        let hears = inside(&world.ns("s"), || PacketSocket::open("e0", FrameDirection::Incoming).unwrap());
        let (hears, sent) = (hears.join().unwrap(), frame(&ends, tag));
        let sends = inside(&world.ns("c"), move || {
            let socket = PacketSocket::open("e0", FrameDirection::Incoming).unwrap();
            send_all(socket.as_fd(), &vec![sent; 10]).0
        });
        assert_eq!(sends.join().unwrap(), 0);
        let all = running.wait_for("all are queued", |s| s.up.report.counters.arrived >= arrived + 10);
        assert_eq!(all.malformed, 0);
        running.wait_for("and sent", |s| s.up.report.backlog.packets == 0);
        std::thread::sleep(Duration::from_millis(200));
        let (mut buffer, mut came) = ([0; 2000], 0);
        // The kernel tells a VLAN's tag beside the frame.
        let payload = &frame(&ends, tag)[12 + tag.len()..];
        while let Ok((n, _)) = hears.recv(&mut buffer) {
            came += u32::from(buffer[..n].ends_with(payload));
        }
        assert_eq!(came, 10, "{tag:?}");
    }
    running.stop();
    assert_eq!(world.exec("b", "sysctl net.bridge"), before);
}
