//! What can go wrong, and what the machine looks like afterwards.

use std::net::{SocketAddrV6, UdpSocket};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::Command;

use crate::world::{Kind, World, can_run, inside};

#[test]
fn a_terminated_box_leaves_the_machine_as_it_was() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    world.exec(
        "b",
        "iptables-legacy -t mangle -A FORWARD -p tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu",
    );
    let before = world.rules();
    let running = world.start("--down 4mbit --discipline fifo:20");
    let during = world.rules();
    assert!(during.contains("NFQUEUE") && during.contains("--queue-bypass"), "{during}");
    let theirs = during.find("TCPMSS").unwrap();
    assert!(theirs < during.find("-j NARROWS").unwrap(), "rules behind ours would not be seen");
    running.stop();
    assert_eq!(world.rules(), before);
    assert!(!world.control().exists());
    assert_eq!(std::fs::read_dir(world.state()).unwrap().count(), 0);
}

#[test]
fn a_killed_box_lets_traffic_flow_and_the_next_start_cleans_up() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let before = world.rules();
    let running = world.start("--down 200kbit --discipline fifo:20");
    running.kill();
    assert_ne!(world.rules(), before, "its rules are still there");
    // At 200 kbit/s this would take 80 seconds: more than the test waits.
    world.fetch(world.server4(), 2_000_000).complete();
    world.fetch(world.server6(), 2_000_000).complete();
    let again = world.start("--down 4mbit --discipline fifo:20 --queue 77");
    assert!(again.log().contains("removed what a killed box had left"), "{}", again.log());
    assert_eq!(world.rules().matches("-N NARROWS").count(), 0);
    assert_eq!(
        world.rules().lines().filter(|l| l.starts_with(":NARROWS")).count(),
        2,
        "one for IPv4, one for IPv6"
    );
    again.stop();
    assert_eq!(world.rules(), before);
}

#[test]
fn the_doctor_cleans_up_after_a_killed_box() {
    let Some(world) = World::try_new(Kind::Bridged) else { return };
    world.exec("b", "sysctl -qw net.bridge.bridge-nf-call-iptables=0");
    let before = world.rules();
    world.start("--down 4mbit --discipline fifo:20").kill();
    let clean = format!("doctor --clean --state-dir {}", world.state().display());
    let out = world.narrows(&clean).output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(said.contains("removed"), "{said}{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(world.rules(), before);
    assert_eq!(world.exec("b", "cat /proc/sys/net/bridge/bridge-nf-call-iptables").trim(), "0");
    // With its notes lost, the rules are still known by their chain and a queue nobody listens on.
    world.start("--down 4mbit --discipline fifo:20").kill();
    std::fs::remove_dir_all(world.state()).unwrap();
    world.narrows(&clean).output().unwrap();
    assert_eq!(world.rules(), before);
}

#[test]
fn a_second_box_on_the_same_interfaces_is_refused() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let running = world.start("--down 4mbit --discipline fifo:20");
    let before = world.rules();
    let pid = running.pid().to_string();
    for args in ["--down 1mbit --discipline fifo:9", "--backend packet --discipline fifo:9"] {
        let said = world.refused(args);
        assert!(said.contains(&format!("process {pid}")), "{said}");
    }
    let mut swapped = world.narrows("run --lan wan --wan lan --discipline fifo:9");
    let out = swapped.arg("--state-dir").arg(world.state()).output().unwrap();
    assert!(String::from_utf8_lossy(&out.stderr).contains(&pid), "{out:?}");
    assert_eq!(world.rules(), before);
    assert_eq!(running.status().pid, running.pid(), "the first one goes on");
    running.stop();
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_touched() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let before = world.rules();
    let file = world.dir.join("bad.toml");
    std::fs::write(&file, "down = '600kbit'\nburst = 3\n").unwrap();
    let config = format!("--config {}", file.display());
    let file = world.dir.join("odd.toml");
    std::fs::write(&file, "down = '600kbit'\ndiscipline = 'classes:split=maybe'\n").unwrap();
    let classes = format!("--config {}", file.display());
    for (args, words) in [
        ("--lan nosuch", &["'nosuch'", "ip link"][..]),
        ("--lan wan", &["two interfaces"]),
        ("--down 600", &["600", "expected"]),
        ("--discipline codle", &["codle", "expected"]),
        ("--discipline fifo:0", &["fifo", "expected"]),
        ("--discipline classes:packets=0", &["packets = '0': expected 1 to 1000000"]),
        (
            "--discipline fq_codel:quantm=300",
            &["quantm", "expected a key of fq_codel: limit, flows, quantum"],
        ),
        ("--discipline cake:isolate=hosts", &["isolate = 'hosts': expected triple or dual_src"]),
        ("--down-discipline red:min=50,max=20", &["max = '20': expected more than min = 50"]),
        ("--backend dpdk", &["dpdk", "expected"]),
        ("--queue 65535 --discipline fifo:9", &["queue", "65534"]),
        ("--config /nonexistent.toml", &["/nonexistent.toml"]),
        (&config, &["bad.toml", "burst", "line 2"]),
        (&classes, &["odd.toml", "line 2", "split = 'maybe': expected fixed or auto"]),
    ] {
        // Given twice, a flag is refused by the parser; so the interfaces of the world come from the test.
        let mut command = world.narrows("run");
        if !args.contains("--lan") {
            command.args(["--lan", "lan"]);
        }
        let out = command.args(["--wan", "wan"]).args(args.split_whitespace()).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args}: {said}");
        assert!(words.iter().all(|w| said.contains(w)), "{args}: {said}");
    }
    assert_eq!(world.rules(), before);
}

#[test]
fn without_permission_the_capability_and_the_remedy_are_named() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let inner = world.narrows("run --lan lan --wan wan --discipline fifo:9");
    let args: Vec<_> = inner.get_args().skip(3).map(std::ffi::OsStr::to_owned).collect();
    for (drop, name) in [("-net_admin", "CAP_NET_ADMIN"), ("-net_raw", "CAP_NET_RAW")] {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &world.ns("b"), "setpriv", "--bounding-set", drop, "--"]).args(&args);
        let out = command.output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains(name) && said.contains("root"), "{said}");
    }
}

#[test]
fn a_queue_somebody_else_listens_on_is_refused_and_nothing_stays() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let before = world.rules();
    let (tell, told) = std::sync::mpsc::channel();
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let other = inside(&world.ns("b"), move || {
        let queue = narrows_box::Nfqueue::open(600).unwrap();
        tell.send(()).unwrap();
        let _ = wait.recv();
        drop(queue);
    });
    told.recv().unwrap();
    let said = world.refused("--queue 600 --discipline fifo:9");
    assert!(said.contains("NFQUEUE 600") && said.contains("--queue"), "{said}");
    assert_eq!(world.rules(), before);
    assert!(!world.control().exists());
    done.send(()).unwrap();
    other.join().unwrap();
}

#[test]
fn an_interface_that_goes_and_comes_back_is_told_and_served() {
    if !can_run() {
        return;
    }
    for backend in ["nfqueue", "packet"] {
        let kind = if backend == "nfqueue" { Kind::Routed } else { Kind::Apart };
        let world = World::new(kind);
        let running = world.start(&format!("--down 20mbit --discipline fifo:100 --backend {backend}"));
        world.fetch(world.server4(), 100_000).complete();
        world.ip("b", "link del lan");
        let s = running.wait_for("told", |s| !s.notices.is_empty());
        assert_eq!(s.notices, ["interface lan is missing"]);
        world.connect_lan();
        running.wait_for("back", |s| s.notices.is_empty());
        let sent = running.status().down.report.counters.sent;
        world.fetch(world.server4(), 100_000).complete();
        running.wait_for("it is queued again", |s| s.down.report.counters.sent > sent + 60);
        running.stop();
    }
}

#[test]
fn a_malformed_packet_is_counted_and_goes_on() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let running = world.start("--up 20mbit --discipline fifo:100");
    // Destination options (60) that claim 2048 bytes in a packet of 8: a router forwards it, no host takes it.
    let to: SocketAddrV6 = "[fd78::2]:0".parse().unwrap();
    let sent = inside(&world.ns("c"), move || {
        let socket = raw(libc::AF_INET6, 60);
        (0..10).map(|_| socket.send_to(&[59, 255, 0, 0, 0, 0, 0, 0], to).is_ok()).filter(|ok| *ok).count()
            as u64
    });
    let sent = sent.join().unwrap();
    assert!(sent > 0);
    running.wait_for("all are counted", |s| s.malformed == sent);
    world.fetch(world.server6(), 10_000).complete();
    running.stop();
}

/// SYNs of connections nobody wants, cut TCP headers, and noise behind a sound IP header.
fn rubbish(n: u32) -> Vec<u8> {
    let x = n.wrapping_mul(0x9e37_79b9);
    let [a, b, c, d] = x.to_be_bytes();
    let len: u8 = if n.is_multiple_of(16) { 20 + (n / 16 % 20) as u8 } else { 40 };
    let mut p = vec![0x45, 0, 0, len, a, b, 0, 0, 64, 6, 0, 0, 10, 77, 0, 2, 10, 78, 0, 2];
    p.extend([a, b, 0, 80, c, d, a, b, 0, 0, 0, 0, 0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0]);
    if n % 16 == 1 {
        p[20..].iter_mut().enumerate().for_each(|(i, byte)| *byte = (x >> (i % 24)) as u8);
    }
    p.truncate(len.into());
    p
}

#[test]
fn a_flood_of_syns_and_rubbish_is_survived() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    for spec in ["taq", "taq:mode=paper", "taq:waiting_syn=hold"] {
        let running = world.start(&format!("--down 4mbit --up 4mbit --discipline {spec}"));
        let to: std::net::SocketAddrV4 = "10.78.0.2:0".parse().unwrap();
        let flood = inside(&world.ns("c"), move || {
            let socket = raw(libc::AF_INET, libc::IPPROTO_RAW);
            (0..200_000).filter(|n| socket.send_to(&rubbish(*n), to).is_ok()).count() as u64
        });
        let sent = flood.join().unwrap();
        assert!(sent > 100_000, "{sent}");
        let s = running.wait_for("it has looked at the flood", |s| {
            s.up.report.counters.arrived + s.down.report.counters.refused > 1000
        });
        assert!(s.up.report.flows <= 65_536 && s.down.report.flows <= 65_536);
        world.fetch(world.server4(), 50_000).complete();
        running.stop();
    }
}

#[expect(unsafe_code, reason = "a raw socket of any protocol: nix has a list of its own")]
fn raw(family: i32, protocol: i32) -> UdpSocket {
    // SAFETY: plain values in, a descriptor of ours or -1 out.
    let fd = unsafe { libc::socket(family, libc::SOCK_RAW, protocol) };
    assert!(fd >= 0, "raw socket: {}", std::io::Error::last_os_error());
    // SAFETY: nobody else owns it. Sending to an address works the same on any datagram socket.
    unsafe { OwnedFd::from_raw_fd(fd) }.into()
}

#[test]
fn a_box_keeps_only_what_it_needs() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let running = world.start("--down 4mbit --discipline fifo:20");
    for process in [vec![running.pid()], running.children()].concat() {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
        for task in tasks.flatten() {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap();
            let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name)).unwrap().trim();
            // Bit 12 is CAP_NET_ADMIN, bit 13 CAP_NET_RAW. The thread that writes notices needs nothing.
            let needed = if field("Name:") == "speaker" { 0 } else { 0x3000 };
            for set in ["CapPrm:", "CapEff:", "CapBnd:"] {
                assert_eq!(u64::from_str_radix(field(set), 16).unwrap(), needed, "{set} {}", field("Name:"));
            }
            assert_eq!(field("NoNewPrivs:"), "1");
        }
    }
    running.stop();
}
