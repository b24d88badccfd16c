//! Plain HTTP that has to wait is answered by the box, and nothing of it reaches the server.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Instant;

use narrows_box::Status;
use narrows_qdisc::AdmissionReport;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, socket};

use crate::live_box::world::{Kind, PATIENCE, World, can_run, inside, run};

const NEW_USERS: [&str; 2] = ["10.77.0.9", "fd77::9"];

/// A GET from address `from` in the client's namespace: all that comes back until the other side closes.
fn get(world: &World, from: IpAddr, server: IpAddr) -> String {
    let asking = inside(&world.ns("c"), move || {
        let family = if from.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(from, 0))).unwrap();
        connect(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(server, 80))).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: server\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    });
    asking.join().unwrap()
}

/// Answers `count` requests on port 80. Gives back who asked.
fn serve(world: &World, count: usize) -> std::thread::JoinHandle<Vec<IpAddr>> {
    let (tell, told) = std::sync::mpsc::channel();
    let serving = inside(&world.ns("s"), move || {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 80)).unwrap();
        tell.send(()).unwrap();
        let one = |_| {
            let (mut stream, peer) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.read_exact(&mut [0; 32]).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nserved").unwrap();
            peer.ip().to_canonical()
        };
        (0..count).map(one).collect()
    });
    told.recv_timeout(PATIENCE).unwrap();
    serving
}

fn admission(s: &Status) -> &AdmissionReport {
    s.down.report.admission.as_ref().unwrap()
}

/// Connections of the client to port 80 that the kernel still knows, but for those it lets rest after an orderly close.
fn open_connections(world: &World) -> Vec<String> {
    let read =
        || ["tcp", "tcp6"].map(|f| std::fs::read_to_string(format!("/proc/thread-self/net/{f}")).unwrap());
    let tables = inside(&world.ns("c"), read).join().unwrap();
    let to_http = |line: &&str| {
        let mut words = line.split_whitespace().skip(2);
        // 06 is TIME_WAIT.
        words.next().is_some_and(|remote| remote.ends_with(":0050")) && words.next() != Some("06")
    };
    tables.iter().flat_map(|t| t.lines()).filter(to_http).map(str::to_owned).collect()
}

#[test]
fn http_that_has_to_wait_is_answered_503_and_told_when_to_come_back() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    world.ip("c", "addr add 10.77.0.9/24 dev e0");
    world.ip("c", "-6 addr add fd77::9/64 dev e0 nodad preferred_lft 0");
    // As at home, where the kernel has NAT: the server then sees the box.
    let nat = "iptables-legacy -t nat -A POSTROUTING -o wan -j MASQUERADE";
    let ns = world.ns("b");
    let args: Vec<_> = ["netns", "exec", &ns].into_iter().chain(nat.split(' ')).collect();
    let nat = run("ip", &args).status.success();
    // One packet of 1500 bytes takes 94 ms, so whoever is served makes a round longer than allowed.
    // The newcomers are addresses of one host, which would be one user without `user_prefix`.
    let discipline = "taq:round_limit_ms=100,t_wait=10,t_pool=10,user_prefix=64";
    let running = world.start(&format!("--down 128kbit --http-503 --discipline {discipline}"));
    let serving = serve(&world, 3);
    // 13 s of work.
    let busy = world.fetch(world.server4(), 200_000);
    running.wait_for("somebody is served", |s| s.down.report.backlog.packets > 1 && admission(s).overloaded);
    let inside_already: IpAddr = "10.77.0.2".parse().unwrap();
    assert!(get(&world, inside_already, world.server4()).ends_with("served"), "who is in stays in");
    for (n, (from, server)) in NEW_USERS.iter().zip([world.server4(), world.server6()]).enumerate() {
        let said = get(&world, from.parse().unwrap(), server);
        let (head, page) = said.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{said}");
        let after = head.lines().find_map(|l| l.strip_prefix("Retry-After: ")).unwrap();
        assert!((1..=60).contains(&after.parse::<u32>().unwrap()), "{said}");
        assert!(page.contains(&format!("number {} in line", n + 1)), "{said}");
        assert!(head.contains(&format!("Content-Length: {}", page.len())), "{said}");
    }
    let s = running.wait_for("both are counted", |s| s.answered_503 == 2);
    assert_eq!((admission(&s).waiting, s.down.report.counters.refused), (2, 2), "{s:#?}");
    let places: Vec<_> = admission(&s).queue.iter().map(|p| p.pool.to_string()).collect();
    assert_eq!(places, [NEW_USERS[0], "fd77::"], "they keep their places: an address, and a prefix of IPv6");
    let until = Instant::now() + PATIENCE;
    while !open_connections(&world).is_empty() {
        assert!(Instant::now() < until, "not closed in order: {:?}", open_connections(&world));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    busy.complete();
    running.wait_for("the overload is over", |s| !admission(s).overloaded);
    for (from, server) in NEW_USERS.iter().zip([world.server4(), world.server6()]) {
        assert!(get(&world, from.parse().unwrap(), server).ends_with("served"), "{from} came back");
    }
    let asked: Vec<_> = serving.join().unwrap().iter().map(IpAddr::to_string).collect();
    let seen_as = |address| if nat { "10.78.0.1" } else { address };
    assert_eq!(
        asked,
        [seen_as("10.77.0.2"), seen_as(NEW_USERS[0]), NEW_USERS[1]],
        "the server saw no one else"
    );
    assert_eq!(
        world.counted_of_tcp("b", 14),
        "0",
        "the box's own kernel keeps out of it (OutRsts is the 14th value)"
    );
    running.stop();
}

#[test]
fn where_nothing_can_be_answered_it_is_refused_before_anything_is_touched() {
    if !can_run() {
        return;
    }
    let http = "--down 1mbit --http-503";
    let apart = World::new(Kind::Apart);
    let said = apart.refused(&format!("{http} --backend packet"));
    assert!(said.contains("http_503") && said.contains("nfqueue"), "{said}");
    let bridged = World::new(Kind::Bridged);
    let before = bridged.rules();
    let said = bridged.refused(http);
    assert!(said.contains("http_503") && said.contains("bridge"), "{said}");
    assert_eq!(bridged.rules(), before);
}
