//! The kernel could not tell the box of packets, as the socket by which it does was full (ENOBUFS).

use std::net::UdpSocket;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};

use crate::live_box::process::BoxProcess;
use crate::live_box::world::{Kind, PATIENCE, World, inside};

/// Datagrams at once: many more than the socket then has room for, and fewer than the kernel may hold.
const BURST: usize = 300;

/// Duplicate of a descriptor of another process.
#[expect(unsafe_code, reason = "pidfd_open(2) and pidfd_getfd(2): nix has neither")]
pub fn borrowed(pid: u32, fd: i32) -> Option<OwnedFd> {
    let owned = |fd: libc::c_long| {
        // SAFETY: the kernel has just made it, and nobody else owns it.
        (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
    };
    // SAFETY: plain values in, a descriptor of ours or -1 out.
    let process = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    use std::os::fd::AsRawFd as _;
    // SAFETY: as above; the descriptor lives.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) })
}

/// Leaves the sockets by which the kernel tells a box of packets this room. Returns how many there are.
fn resize(running: &BoxProcess, bytes: usize) -> usize {
    let process = format!("/proc/{}", running.pid());
    let all = std::fs::read_to_string(format!("{process}/net/netlink")).unwrap();
    let of_netfilter = all.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let inodes: Vec<_> = of_netfilter
        .filter(|words| words[1] == libc::NETLINK_NETFILTER.to_string())
        .map(|words| format!("socket:[{}]", words[9]))
        .collect();
    let mut count = 0;
    for open in std::fs::read_dir(format!("{process}/fd")).unwrap().flatten() {
        let to = std::fs::read_link(open.path()).unwrap_or_default();
        if inodes.iter().any(|inode| to.as_os_str() == inode.as_str()) {
            let fd = open.file_name().into_string().unwrap().parse().unwrap();
            setsockopt(&borrowed(running.pid(), fd).unwrap(), sockopt::RcvBufForce, &bytes).unwrap();
            count += 1;
        }
    }
    count
}

/// Sends a burst to the user, calls `meanwhile` when all are on their way, and counts those that arrive.
fn arrived_of_a_burst(world: &World, meanwhile: impl FnOnce()) -> usize {
    let (tell, told) = mpsc::channel();
    let receiving = inside(&world.ns("c"), move || {
        let socket = UdpSocket::bind("10.77.0.2:0").unwrap();
        setsockopt(&socket, sockopt::RcvBufForce, &(8 << 20)).unwrap();
        tell.send(socket.local_addr().unwrap()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut buffer = [0; 2000];
        (0..BURST).take_while(|_| socket.recv(&mut buffer).is_ok()).count()
    });
    let address = told.recv_timeout(PATIENCE).unwrap();
    let sending = inside(&world.ns("s"), move || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        (0..BURST).for_each(|_| assert!(socket.send_to(&[0; 1000], address).is_ok()));
    });
    sending.join().unwrap();
    meanwhile();
    receiving.join().unwrap()
}

#[test]
fn what_the_kernel_cannot_tell_of_passes_is_counted_and_the_box_goes_on() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let running = world.start("--down 100mbit --up 100mbit --discipline fifo:1000");
    world.fetch(world.server4(), 100_000).complete();
    assert_eq!(running.status().unseen, 0);
    // As little as there can be: one packet or two.
    assert!(resize(&running, 1) >= 2, "one of each direction");
    // Nobody reads meanwhile, and for less than a watchdog waits.
    let before = running.status();
    running.signal(Signal::SIGSTOP);
    let arrived = arrived_of_a_burst(&world, || {
        std::thread::sleep(Duration::from_millis(100));
        running.signal(Signal::SIGCONT);
    });
    assert_eq!(arrived, BURST, "none is lost");
    let seen = |s: &narrows_box::Status| s.down.report.counters.arrived - before.down.report.counters.arrived;
    // The number of the next packet says how many there were.
    world.fetch(world.server4(), 100_000).complete();
    let status = running.wait_for("they are counted", |s| s.unseen >= BURST as u64 / 2);
    assert!(status.unseen > BURST as u64 - 20, "{} unseen, {} seen", status.unseen, seen(&status));
    running.wait_for("it is told", |_| running.log().contains("passed unqueued"));
    // With room again, the box sees all packets.
    resize(&running, 16 << 20);
    world.fetch(world.server4(), 10_000).complete();
    let before = running.status();
    world.fetch(world.server4(), 200_000).complete();
    running.wait_for("packets are queued", |s| {
        s.down.report.counters.sent >= before.down.report.counters.sent + 130
    });
    assert_eq!(running.status().unseen, before.unseen);
    assert_eq!(running.status().bypassed, 0);
    running.stop();
}
