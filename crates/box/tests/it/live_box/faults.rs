//! Faults and ends of a box, and the machine's state afterwards.

use std::net::{SocketAddrV6, UdpSocket};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::Command;

use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;

use crate::live_box::page::asked;
use crate::live_box::process::BoxProcess;
use crate::live_box::world::{FILTERS, Kind, PATIENCE, USER, World, can_run, inside};

#[test]
fn a_terminated_box_leaves_the_machine_as_it_was() {
    for world in World::each_filter(Kind::Routed) {
        world.exec(
            "b",
            "iptables-legacy -t mangle -A FORWARD -p tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu",
        );
        let before = world.rules();
        let running = world.start("--down 4mbit --discipline fifo:20");
        let during = world.rules();
        assert!(world.is_queued() && during.contains("bypass"), "{during}");
        if world.filter == "iptables" {
            let theirs = during.find("TCPMSS").unwrap();
            assert!(theirs < during.find("-j NARROWS").unwrap(), "rules behind ours would not be seen");
        }
        assert!(running.status().rules.starts_with(world.filter), "{}", running.status().rules);
        running.stop();
        assert_eq!(world.rules(), before);
        assert!(!world.control().exists());
        assert_eq!(std::fs::read_dir(world.state()).unwrap().count(), 0);
    }
}

#[test]
fn packets_are_handled_while_the_lock_of_iptables_is_waited_for() {
    let Some(mut world) = World::try_new(Kind::Routed) else { return };
    let before = world.rules();
    world.filter = "iptables";
    let path = world.dir.join("xtables.lock");
    world.lock = Some(path.clone());
    let running = world.start("--down 4mbit --discipline fifo:20");
    let lock = Flock::lock(std::fs::File::create(path).unwrap(), FlockArg::LockExclusive).unwrap();
    running.signal(Signal::SIGTERM);
    // The box has said that it goes, and cannot take its rules out.
    for _ in 0..3 {
        world.fetch(world.server4(), 50_000).complete();
    }
    assert!(world.is_queued());
    drop(lock);
    running.ended();
    assert_eq!(world.rules(), before);
}

#[test]
fn a_killed_box_lets_traffic_flow_and_the_next_start_cleans_up() {
    for mut world in World::each_filter(Kind::Routed) {
        let before = world.rules();
        let running = world.start("--down 200kbit --discipline fifo:20");
        running.kill();
        assert_ne!(world.rules(), before, "its rules are still there");
        // At 200 kbit/s this would take 80 seconds: more than the test waits.
        world.fetch(world.server4(), 2_000_000).complete();
        world.fetch(world.server6(), 2_000_000).complete();
        // The next one may have another to keep its rules.
        for filter in FILTERS {
            world.filter = filter;
            let again = world.start("--down 4mbit --discipline fifo:20 --queue 77");
            assert!(again.log().contains("removed what a killed box had left"), "{}", again.log());
            let rules = world.rules();
            let ours = |line: &&str| line.starts_with(":NARROWS") || line.starts_with("table inet narrows");
            let count = rules.lines().filter(ours).count();
            assert_eq!(
                count,
                if filter == "nft" { 1 } else { 2 },
                "one, or for each of IPv4 and IPv6: {rules}"
            );
            again.kill();
        }
        world.start("--down 4mbit --discipline fifo:20").stop();
        assert_eq!(world.rules(), before);
    }
}

#[test]
fn where_there_is_no_program_of_iptables_the_kernel_is_asked_itself() {
    let Some(mut world) = World::try_new(Kind::Routed) else { return };
    world.without_programs = true;
    let running = world.start("--down 4mbit --discipline fifo:20");
    assert_eq!(running.status().rules, "nftables");
    for server in [world.server4(), world.server6()] {
        world.fetch(server, 100_000).complete();
    }
    let s = running.status();
    assert!(s.down.report.counters.sent > 120, "{:?}", s.down.report.counters);
    world.exec("b", "nft flush ruleset");
    running.wait_for("put back", |_| running.log().contains("put back"));
    running.kill();
    let clean = format!("doctor --clean --state-dir {}", world.state().display());
    let said = String::from_utf8(world.narrows(&clean).output().unwrap().stdout).unwrap();
    assert!(said.contains("removed nftables table narrows-"), "{said}");
    assert!(!world.is_queued());
    world.filter = "iptables";
    let said = world.refused("--down 4mbit --discipline fifo:20");
    assert!(said.contains("install the Debian package iptables"), "{said}");
}

#[test]
fn what_a_firewall_drops_is_not_charged_with_nftables() {
    let Some(mut world) = World::try_new(Kind::Routed) else { return };
    world.filter = "nft";
    let running = world.start("--up 4mbit --discipline fifo:20");
    // Begun after ours, as a firewall's reload does.
    for rule in [
        "add table inet fw",
        "add chain inet fw forward { type filter hook forward priority 0 ; }",
        "add rule inet fw forward udp dport 9 drop",
    ] {
        world.exec("b", &format!("nft {rule}"));
    }
    for port in [9, 10] {
        let to = format!("10.78.0.2:{port}");
        let sending = inside(&world.ns("c"), move || {
            let socket = UdpSocket::bind("10.77.0.2:0").unwrap();
            (0..10).for_each(|_| drop(socket.send_to(&[0; 100], &to)));
        });
        sending.join().unwrap();
        // A closed port is answered; what is dropped is not.
        let wanted = if port == 9 { 0 } else { 10 };
        running.wait_for("what passed is counted", |s| s.up.report.counters.arrived >= wanted);
    }
    assert_eq!(running.status().up.report.counters.arrived, 10);
    running.stop();
}

#[test]
fn the_doctor_cleans_up_after_a_killed_box() {
    for world in World::each_filter(Kind::Bridged) {
        world.exec("b", "sysctl -qw net.bridge.bridge-nf-call-iptables=0");
        let before = world.rules();
        world.start("--down 4mbit --discipline fifo:20").kill();
        assert!(world.is_queued());
        let clean = format!("doctor --clean --state-dir {}", world.state().display());
        let out = world.narrows(&clean).output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(said.contains("removed"), "{said}{}", String::from_utf8_lossy(&out.stderr));
        assert_eq!(world.rules(), before);
        assert_eq!(world.exec("b", "cat /proc/sys/net/bridge/bridge-nf-call-iptables").trim(), "0");
        // With its notes lost, the rules are still known by their name and a queue nobody listens on.
        world.start("--down 4mbit --discipline fifo:20").kill();
        std::fs::remove_dir_all(world.state()).unwrap();
        world.narrows(&clean).output().unwrap();
        assert_eq!(world.rules(), before);
    }
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
    for world in World::each_filter(Kind::Routed) {
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
}

#[test]
fn an_interface_that_goes_and_comes_back_is_told_and_served() {
    if !can_run() {
        return;
    }
    for (backend, filter) in [("nfqueue", "nft"), ("nfqueue", "iptables"), ("packet", "auto")] {
        let kind = if backend == "nfqueue" { Kind::Routed } else { Kind::Apart };
        let world = World::with(kind, filter);
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
    let user = nix::unistd::User::from_name(USER).unwrap().unwrap();
    for world in World::each_filter(Kind::Routed) {
        let args = "--down 4mbit --discipline fifo:20 --page 127.0.0.1:8088";
        let mut running = world.start(args);
        assert!(asked(&world, "/status.json").starts_with("HTTP/1.1 200"));
        are_confined(&world, &running, user.uid.as_raw());
        // Another box takes its place, with another watchdog.
        let after = world.start(&format!("--replace {args}"));
        std::mem::replace(&mut running, after).ended();
        assert!(asked(&world, "/status.json").starts_with("HTTP/1.1 200"), "on the old one's socket");
        let [watchdog] = running.children()[..] else { panic!("{:?}", running.children()) };
        let pid = nix::unistd::Pid::from_raw(watchdog.cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
        running.wait_for("it is told", |_| running.log().contains("another one is"));
        are_confined(&world, &running, user.uid.as_raw());
        assert!(!running.log().contains("goes on without"), "{}", running.log());
        world.fetch(world.server4(), 50_000).complete();
        running.stop();
        // The flows file alone is left, for the next box.
        let left = std::fs::read_dir(world.state()).unwrap().flatten();
        assert_eq!(left.filter(|file| file.path().extension().is_none_or(|e| e != "flows")).count(), 0);
        assert!(!world.control().exists());
    }
}

#[test]
fn every_thread_of_several_links_keeps_only_what_it_needs() {
    let user = nix::unistd::User::from_name(USER).unwrap().unwrap();
    for mut world in World::each_filter(Kind::Routed) {
        world.connect_user(2, "lan2");
        let link = |name: &str, lan: &str| {
            format!(
                "[[link]]\nname = '{name}'\nlan = '{lan}'\nrate_from = '{}'\n",
                world.dir.join(name).display()
            )
        };
        let whole = "wan = 'wan'\ndown = '4mbit'\ndiscipline = 'taq'\npage = '127.0.0.1:8088'\n";
        world.configure(&(whole.to_owned() + &link("north", "lan") + &link("south", "lan2")));
        let running = world.start_configured();
        // Threads that come with the first reader.
        assert!(asked(&world, "/status.json").starts_with("HTTP/1.1 200"));
        let seen = are_confined(&world, &running, user.uid.as_raw());
        for name in ["log", "control", "page", "rates", "north", "south", "watchdog"] {
            assert!(seen.iter().any(|thread| thread == name), "{name}: {seen:?}");
        }
        running.stop();
    }
}

/// Every thread of a box and of its watchdog. Returns their names. A thread gives up what it need not have as the first
/// thing it does, so one that has just been started is looked at again.
pub fn are_confined(world: &World, running: &BoxProcess, user: u32) -> Vec<String> {
    let until = std::time::Instant::now() + PATIENCE;
    loop {
        match unconfined(world, running, user) {
            Ok(names) => return names,
            Err(why) => assert!(std::time::Instant::now() < until, "{why}"),
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// The names of all threads, or of the first that has more than it needs.
fn unconfined(world: &World, running: &BoxProcess, user: u32) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    // The lock of iptables is root's.
    let user = if world.filter == "iptables" { 0 } else { user };
    for process in [vec![running.pid()], running.children()].concat() {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
        for task in tasks.flatten() {
            let status = std::fs::read_to_string(task.path().join("status")).map_err(|e| e.to_string())?;
            let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name)).unwrap().trim();
            let name = field("Name:");
            // Bit 12 is CAP_NET_ADMIN, bit 13 CAP_NET_RAW. Threads that talk to people need nothing.
            let needed = if ["log", "control", "page", "rates"].contains(&name) { 0 } else { 0x3000 };
            let set = |of: &str| u64::from_str_radix(field(of), 16).unwrap();
            let capabilities = (set("CapPrm:"), set("CapEff:"), set("CapBnd:") & !0x3000);
            if capabilities != (needed, needed, 0) {
                return Err(format!("{name} has capabilities {capabilities:x?}"));
            }
            if (field("NoNewPrivs:"), field("Seccomp:")) != ("1", "2") {
                return Err(format!("{name} may call the kernel as it likes"));
            }
            // The thread of the log was there before it was known who keeps the rules.
            let another = field("Uid:") != vec![user.to_string(); 4].join("\t");
            if name != "log" && (another || (user != 0 && !field("Groups:").is_empty())) {
                return Err(format!("{name} is user {}, groups {}", field("Uid:"), field("Groups:")));
            }
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

#[test]
fn a_user_that_does_not_exist_is_named() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    world.configure("lan = 'lan'\nwan = 'wan'\ndown = '1mbit'\nuser = 'no-such-user'\n");
    let out =
        world.narrows(&format!("run --config {}", world.dir.join("box.toml").display())).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(2) && said.contains("user = \"no-such-user\""), "{said}");
}

#[test]
fn where_it_may_not_become_another_it_says_so_and_runs() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let program = world.narrows("run");
    let mut command = std::process::Command::new("setpriv");
    command.args(["--bounding-set", "-setuid", "--inh-caps", "-setuid"]).arg(program.get_program());
    command.args(program.get_args()).args(["--lan", "lan", "--wan", "wan", "--user", USER]);
    command.arg("--control").arg(world.control()).arg("--state-dir").arg(world.state());
    let log = std::fs::File::create(world.dir.join("log")).unwrap();
    let Ok(mut child) = command.stderr(log).spawn() else {
        narrows_testing::skip(&narrows_testing::running(), "needs the program setpriv");
        return;
    };
    let until = std::time::Instant::now() + PATIENCE;
    while narrows_box::fetch(&world.control()).is_err() {
        assert!(
            std::time::Instant::now() < until,
            "{}",
            std::fs::read_to_string(world.dir.join("log")).unwrap()
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let told = std::fs::read_to_string(world.dir.join("log")).unwrap();
    assert!(told.contains("it stays root: CAP_SETUID is missing"), "{told}");
    world.fetch(world.server4(), 50_000).complete();
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn settings_that_the_user_may_not_read_are_told() {
    let Some(mut world) = World::try_new(Kind::Routed) else { return };
    world.filter = "nft";
    world.configure("down = '1mbit'\n");
    std::fs::set_permissions(world.dir.join("box.toml"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .unwrap();
    let running = world.start_configured();
    running.wait_for("it is told", |_| running.log().contains("box.toml cannot be read again on SIGHUP"));
    running.signal(nix::sys::signal::Signal::SIGHUP);
    let status = running.wait_for("the old ones stay", |s| !s.notices.is_empty());
    assert!(status.notices[0].contains("not reloaded"), "{:?}", status.notices);
    running.stop();
}
