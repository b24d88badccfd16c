//! A box that does not answer: traffic passes by it, and comes back to it.

use std::process::Stdio;
use std::time::Duration;

use narrows_box::Status;
use narrows_testing::skip_part;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::live_box::process::BoxProcess;
use crate::live_box::world::{FILTERS, Kind, World, can_keep, can_xdp, inside};

/// All back ends, with whoever keeps the rules, at 200 kbit/s: two megabytes through the box would take 80 seconds,
/// more than the test waits.
fn worlds() -> impl Iterator<Item = (World, BoxProcess, &'static str)> {
    let nfqueue = [Kind::Routed, Kind::Bridged];
    let nfqueue = nfqueue.into_iter().flat_map(|kind| FILTERS.map(|filter| (kind, "nfqueue", filter)));
    let kinds = nfqueue.chain([(Kind::Apart, "packet", "auto")]);
    let kinds = kinds.chain(can_xdp().then_some((Kind::Bridged, "xdp", "auto")));
    kinds.filter(|(kind, _, filter)| can_keep(*kind, filter)).map(|(kind, backend, filter)| {
        let world = World::with(kind, filter);
        let running = world.start(&format!("--down 200kbit --discipline fifo:20 --backend {backend}"));
        world.fetch(world.server4(), 10_000).complete();
        (world, running, backend)
    })
}

#[test]
fn traffic_passes_by_a_stopped_box_and_comes_back_to_it() {
    for (world, running, backend) in worlds() {
        running.signal(Signal::SIGSTOP);
        world.fetch(world.server4(), 2_000_000).complete();
        world.fetch(world.server6(), 2_000_000).complete();
        assert!(!world.is_queued(), "{backend}: {}", world.rules());
        running.signal(Signal::SIGCONT);
        let told = || running.log().contains("traffic passed by it");
        let status = running.wait_for("it counts and tells", |s| s.bypassed >= 1 && told());
        assert_eq!(world.is_queued(), backend == "nfqueue", "{}", world.rules());
        world.fetch(world.server4(), 20_000).complete();
        let sent = status.down.report.counters.sent;
        running.wait_for("it is queued again", |s| s.down.report.counters.sent > sent + 12);
        running.stop();
    }
}

#[test]
fn a_box_that_dies_while_it_hangs_leaves_traffic_alone() {
    for (world, running, backend) in worlds() {
        running.signal(Signal::SIGSTOP);
        world.fetch(world.server4(), 2_000_000).complete();
        running.kill();
        world.fetch(world.server4(), 2_000_000).complete();
        let again = world.start(&format!("--down 4mbit --discipline fifo:20 --backend {backend}"));
        world.fetch_through(&again);
        again.stop();
    }
}

#[test]
fn a_bridge_takes_the_place_of_a_box_that_is_killed() {
    let Some(world) = World::try_new(Kind::Apart) else { return };
    let running = world.start("--down 200kbit --discipline fifo:20 --backend packet");
    world.fetch(world.server4(), 10_000).complete();
    running.kill();
    world.fetch(world.server4(), 2_000_000).complete();
    let again = world.start("--down 4mbit --discipline fifo:20 --backend packet");
    assert!(again.log().contains("bridge nrw-by"), "{}", again.log());
    world.fetch(world.server4(), 100_000).complete();
    again.stop();
}

#[test]
fn rules_that_are_flushed_come_back_behind_all_others() {
    let clamp =
        "iptables-legacy -t mangle -A FORWARD -p tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu";
    for world in World::each_filter(Kind::Routed) {
        let running = world.start("--down 4mbit --discipline fifo:20 --queue 40");
        let disturbances = match world.filter {
            "nft" => ["nft flush ruleset", "nft flush table inet narrows-40"],
            _ => ["iptables-legacy -t mangle -F FORWARD", clamp],
        };
        for disturbance in disturbances {
            let told = running.log().matches("put back").count();
            world.exec("b", disturbance);
            running.wait_for(disturbance, |_| running.log().matches("put back").count() > told);
            let rules = world.rules();
            if world.filter == "nft" {
                assert_eq!(
                    rules.matches("40 bypass").count() + rules.matches("bypass to 40").count(),
                    1,
                    "{rules}"
                );
            } else {
                let forward: Vec<_> = rules.lines().filter(|line| line.starts_with("-A FORWARD")).collect();
                assert!(forward.last().is_some_and(|line| line.contains("-j NARROWS-")), "{rules}");
            }
        }
        passes_through(&world, &running);
        running.stop();
    }
}

/// Rules of other programs, as Docker and lists of addresses bring them, and one that changes them all the time.
#[test]
fn it_is_passed_by_and_stops_beside_thirty_thousand_rules_of_others() {
    let Some(mut world) = World::try_new(Kind::Routed) else { return };
    world.filter = "nft";
    let running = world.start("--down 200kbit --discipline fifo:20 --queue 40");
    world.fetch(world.server4(), 10_000).complete();
    let mut rules = String::from("add table inet others\nadd chain inet others many\n");
    for n in 0..30_000 {
        rules += &format!("add rule inet others many ip saddr 198.18.{}.{} drop\n", n / 250, n % 250);
    }
    let file = world.dir.join("others.nft");
    std::fs::write(&file, rules).unwrap();
    world.exec("b", &format!("nft -f {}", file.display()));
    let writer = world.narrows("").get_program().to_owned();
    // For as long as the file with the rules is there.
    let script = "while [ -e \"$0\" ]; do nft add rule inet others many ip saddr 198.19.0.1 drop; done";
    let mut writing = std::process::Command::new(writer)
        .args(["netns", "exec", &world.ns("b"), "sh", "-c", script])
        .arg(&file)
        .spawn()
        .unwrap();
    // A look at the rules falls into this.
    std::thread::sleep(Duration::from_secs(6));
    running.signal(Signal::SIGSTOP);
    let begun = std::time::Instant::now();
    let offered = || world.exec("b", "nft list table inet narrows-40");
    while offered().contains("bypass") {
        assert!(begun.elapsed() < Duration::from_secs(5), "traffic still goes to a box that is stopped");
    }
    eprintln!("opened within {:.2} s", begun.elapsed().as_secs_f64());
    running.signal(Signal::SIGCONT);
    running.wait_for("it counts and tells", |s| s.bypassed >= 1);
    let begun = std::time::Instant::now();
    assert!(!running.log().contains("cannot see the rules"), "{}", running.log());
    running.stop();
    eprintln!("stopped within {:.2} s", begun.elapsed().as_secs_f64());
    std::fs::remove_file(&file).unwrap();
    writing.wait().unwrap();
    assert!(!world.is_queued());
}

/// A firewall's reload takes the base chain away, and with it all that waits; the box learns by that.
#[test]
fn what_a_flush_drops_is_counted_and_the_rules_are_back_at_once() {
    let Some(mut world) = World::try_new(Kind::Routed) else { return };
    world.filter = "nft";
    let running = world.start("--down 1mbit --discipline fifo:40 --queue 40");
    for _ in 0..3 {
        let download = world.fetch(world.server4(), 1_000_000);
        running.wait_for("packets wait", |s| s.down.report.backlog.packets > 20);
        let before = (running.status().gone, running.log().matches("put back").count());
        books_balance(&running.status());
        world.exec("b", "nft flush ruleset");
        let begun = std::time::Instant::now();
        running.wait_for("what was dropped is counted, and rules are back", |s| {
            s.gone > before.0 && running.log().matches("put back").count() > before.1
        });
        // Without a word of the lost it looks every five seconds.
        eprintln!("{} gone, back after {:.2} s", running.status().gone, begun.elapsed().as_secs_f64());
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        while !download.is_done() {
            books_balance(&running.status());
            std::thread::sleep(Duration::from_millis(100));
        }
        download.complete();
        let status = running.status();
        books_balance(&status);
        assert_eq!(status.down.gone + status.up.gone, status.gone);
    }
    running.stop();
}

/// Every packet that came has passed unqueued, or was lost, or has left the queue, or waits. Those gone have left it.
fn books_balance(status: &Status) {
    for way in [&status.down, &status.up] {
        let counters = &way.report.counters;
        let out = counters.sent + counters.dropped.iter().sum::<u64>() + counters.suppressed;
        let known = way.unqueued + way.lost + out + way.report.backlog.packets as u64;
        assert_eq!(way.offered, known, "{way:?}");
        assert!(way.gone <= counters.sent, "{way:?}");
    }
}

/// Packets dropped with a chain take no time of the link: behind forty packets of which each would take 1.4 s a new
/// one goes at once.
#[test]
fn what_a_flush_drops_holds_nobody_up() {
    let Some(mut world) = World::try_new(Kind::Routed) else { return };
    world.filter = "nft";
    let running = world.start("--down 8kbit --discipline fifo:40 --queue 40");
    let sending = inside(&world.ns("s"), || {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        (0..60).for_each(|_| assert!(socket.send_to(&[0; 1400], "10.77.0.2:9").is_ok()));
    });
    sending.join().unwrap();
    running.wait_for("packets wait", |s| s.down.report.backlog.packets > 35);
    let before = running.log().matches("put back").count();
    world.exec("b", "nft flush ruleset");
    // 57 seconds of the link, more than is waited here; it is empty as soon as the kernel has refused the first.
    let after = running.wait_for("none waits", |s| s.down.report.backlog.packets == 0);
    assert!(after.down.gone > 30, "{:?}", after.down);
    running.wait_for("rules are back", |_| running.log().matches("put back").count() > before);
    books_balance(&running.status());
    running.stop();
}

/// A box whose loop turns and whose verdicts do not reach the kernel, as where it has no memory for them.
#[test]
fn a_box_that_lives_and_sends_nothing_is_passed_by() {
    let Some(mut world) = World::try_new(Kind::Routed) else { return };
    world.filter = "nft";
    let running = world.start("--down 200kbit --discipline fifo:20");
    world.fetch(world.server4(), 10_000).complete();
    let mut tracer = std::process::Command::new("strace");
    tracer.args(["-qq", "-o", "/dev/null", "-e", "inject=sendto:error=ENOBUFS", "-p"]);
    let tracer = tracer.arg(running.thread("link").to_string()).stderr(Stdio::piped()).spawn();
    let Ok(mut tracer) = tracer else {
        skip_part(&narrows_testing::running(), "verdicts that are not taken", "it takes strace");
        return running.stop();
    };
    // At 200 kbit/s this would take 80 seconds: more than the test waits.
    let download = world.fetch(world.server4(), 2_000_000);
    let stuck = || running.log().contains("packets wait to go");
    while !stuck() && !download.is_done() {
        if tracer.try_wait().unwrap().is_some() {
            skip_part(
                &narrows_testing::running(),
                "verdicts that are not taken",
                "no thread may be traced here",
            );
            return running.stop();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(stuck(), "it was not under way");
    // The loop answers all the while.
    assert_eq!(running.status().down.rate_bps, Some(200_000));
    download.complete();
    kill(Pid::from_raw(tracer.id().cast_signed()), Signal::SIGTERM).unwrap();
    tracer.wait().unwrap();
    running.wait_for("it is back", |s| s.bypassed >= 1);
    passes_through(&world, &running);
    running.stop();
}

/// Asserts that a download goes through the box's queue.
fn passes_through(world: &World, running: &BoxProcess) {
    let sent = running.status().down.report.counters.sent;
    world.fetch(world.server4(), 100_000).complete();
    running.wait_for("it is queued", |s| s.down.report.counters.sent > sent + 60);
}

/// Traffic passes by it while it is stopped, for the first time, as 200 kbit/s would take longer than the test waits.
pub fn is_watched(world: &World, running: &BoxProcess) {
    running.signal(Signal::SIGSTOP);
    world.fetch(world.server4(), 2_000_000).complete();
    running.signal(Signal::SIGCONT);
    running.wait_for("it counts", |s| s.each()[0].bypassed >= 1);
}

#[test]
fn a_watchdog_that_dies_is_replaced() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let running = world.start("--down 200kbit --discipline fifo:20");
    let [watchdog] = running.children()[..] else { panic!("{:?}", running.children()) };
    kill(Pid::from_raw(watchdog.cast_signed()), Signal::SIGKILL).unwrap();
    running.wait_for("it is told", |_| running.log().contains("the watchdog is gone"));
    // A sign of life, and the new one judges.
    std::thread::sleep(Duration::from_millis(600));
    is_watched(&world, &running);
    running.stop();
}

#[test]
fn a_log_that_nobody_reads_holds_no_packet() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    world.configure("down = '4mbit'\ndiscipline = 'fifo:20'\n");
    let running = world.start_with_full_log();
    // Each tells something, if it comes by itself. The pipe is full from the first, and soon so is what waits for it.
    for _ in 0..200 {
        running.signal(Signal::SIGHUP);
        std::thread::sleep(Duration::from_millis(10));
    }
    world.fetch(world.server4(), 400_000).complete();
    assert_eq!(running.status().bypassed, 0);
    running.stop();
}

/// The place of systemd, which hears how a box is.
struct Manager(std::os::unix::net::UnixDatagram);

impl Manager {
    fn of(world: &World) -> Self {
        let path = world.notify_socket();
        let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        // As systemd's is.
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self(socket)
    }

    fn hear(&self) -> String {
        let mut buffer = [0; 200];
        let n = self.0.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..n]).trim().to_owned()
    }

    /// The next that is no sign of life.
    fn word(&self) -> String {
        std::iter::repeat_with(|| self.hear()).find(|word| word != "WATCHDOG=1").unwrap()
    }
}

#[test]
fn a_service_manager_hears_how_it_is() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let manager = Manager::of(&world);
    let running = world.start("--down 4mbit --discipline fifo:20");
    let first: Vec<_> = (0..3).map(|_| manager.hear()).collect();
    assert_eq!(first, ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]);
    running.stop();
    assert_eq!(manager.word(), "STOPPING=1");
}

#[test]
fn a_box_waits_for_an_interface_that_comes_late_and_a_service_manager_hears_for_which() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let manager = Manager::of(&world);
    world.ip("b", "link del wan");
    assert!(world.refused("--down 4mbit").contains("'wan'"), "only who says --wait waits");
    let waiting = world.spawn("--down 4mbit --discipline fifo:20 --wait");
    let word = manager.word();
    assert!(word.starts_with("READY=1\nSTATUS=waiting for interfaces: ") && word.contains("'wan'"), "{word}");
    assert_eq!(manager.hear(), "WATCHDOG=1");
    assert!(!world.is_queued());
    world.connect_wan();
    assert_eq!([manager.word(), manager.word()], ["STATUS=", "READY=1"]);
    world.fetch(world.server4(), 100_000).complete();
    assert!(world.is_queued());
    waiting.end();
}
