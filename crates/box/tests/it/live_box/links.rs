//! Several links in one process, and several interfaces of the users on one link.

use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::Duration;

use narrows_box::Status;
use narrows_testing::skip_part;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::live_box::hangs::is_watched;
use crate::live_box::process::{BoxProcess, Unheard};
use crate::live_box::world::{Fetch, Kind, World};

/// A link for the user behind `lan` and one for that behind `lan2`, of these rates down.
pub fn two(north: &str, south: &str) -> String {
    format!(
        "wan = 'wan'\ndiscipline = 'fifo:20'\n[[link]]\nname = 'north'\nlan = 'lan'\ndown = '{north}'\n\
         [[link]]\nname = 'south'\nlan = 'lan2'\ndown = '{south}'\n"
    )
}

/// Settings of links whose queues are so long that no datagram is lost on a busy machine either, where packets wait
/// while the box gets no processor.
pub fn deep(links: &str) -> String {
    links.replace("fifo:20", "fifo:1000")
}

/// Adds a second user to the world.
pub fn with_two(mut world: World) -> World {
    world.connect_user(2, "lan2");
    world
}

/// Asserts that a link has sent no more than its rate allows, but for some packets.
fn obeys(before: &Status, after: &Status, link: usize, bps: f64) {
    let (before, after) = (&before.links[link], &after.links[link]);
    let bytes = (after.down.report.counters.sent_bytes - before.down.report.counters.sent_bytes).0;
    let most = bps / 8.0 * (after.uptime_s - before.uptime_s) + 6.0 * 1500.0;
    assert!((bytes as f64) < most, "{}: {bytes} bytes of {most}", after.name.as_deref().unwrap_or_default());
}

#[test]
fn each_link_of_a_process_has_its_own_rate_and_nothing_is_left_behind() {
    for world in World::each_filter(Kind::Routed).map(with_two) {
        let before = world.rules();
        world.configure(&two("4mbit", "200kbit"));
        let running = world.start_configured();
        assert_eq!(running.children().len(), 1, "one watchdog for all");
        let status = running.status();
        let names: Vec<_> =
            status.links.iter().map(|l| (l.name.as_deref().unwrap(), l.lan.as_str())).collect();
        assert_eq!(names, [("north", "lan"), ("south", "lan2")]);
        // At 200 kbit/s a megabyte takes 40 seconds, longer than anybody waits for the other one.
        let slow = world.fetch_by("c2", world.server4(), 1_000_000);
        let fast = [world.server4(), world.server6()].map(|server| world.fetch(server, 500_000));
        fast.into_iter().for_each(Fetch::complete);
        assert!(!slow.is_done());
        let after = running.status();
        obeys(&status, &after, 0, 4e6);
        obeys(&status, &after, 1, 2e5);
        let sent = |link: usize| after.links[link].down.report.counters.sent;
        assert!(sent(0) > 600 && sent(1) > 5, "{} {}", sent(0), sent(1));
        let words = world.narrows("status --control").arg(running.control()).output().unwrap().stdout;
        let words = String::from_utf8(words).unwrap();
        for line in ["2 links", "\nnorth: lan <-> wan", "\nsouth: lan2 <-> wan"] {
            assert!(words.contains(line), "{line}: {words}");
        }
        running.stop();
        assert_eq!(world.rules(), before);
        assert!(!world.control().exists());
        assert_eq!(std::fs::read_dir(world.state()).unwrap().count(), 0);
        // Traffic passes unqueued.
        slow.complete();
    }
}

#[test]
fn several_interfaces_of_the_users_share_one_link() {
    for mut world in World::each_filter(Kind::Routed) {
        world.connect_user(2, "ppp7");
        world.connect_user(3, "ppp8");
        world.configure(
            "lan = ['lan', 'ppp+']\nwan = 'wan'\ndown = '4mbit'\nup = '4mbit'\ndiscipline = 'fifo:100'\n",
        );
        let running = world.start_configured();
        let mut sent = 0;
        for end in ["c", "c2", "c3"] {
            world.fetch_by(end, world.server4(), 200_000).complete();
            let status = running.wait_for("it is queued", |s| s.down.report.counters.sent >= sent + 130);
            sent = status.down.report.counters.sent;
        }
        assert_eq!((running.status().lan.as_str(), running.status().links.len()), ("lan, ppp*", 0));
        assert!(running.status().up.report.counters.sent > 30);
        // An interface that comes later is taken in, and one that goes is not missed.
        world.connect_user(4, "ppp9");
        world.fetch_by("c4", world.server4(), 200_000).complete();
        running.wait_for("it is queued", |s| s.down.report.counters.sent >= sent + 130);
        world.ip("b", "link del ppp9");
        world.exec("b", "nft flush ruleset");
        world.exec("b", "iptables-legacy -t mangle -F FORWARD");
        running.wait_for("put back", |_| running.log().contains("put back"));
        assert_eq!(running.status().notices, [""; 0]);
        running.stop();
    }
}

/// A box of its own on the second link, with queue 60.
fn another(world: &World) -> Unheard {
    let mut other = world.narrows("run --lan lan2 --wan wan --down 1mbit --queue 60 --user root");
    other
        .arg("--control")
        .arg(world.dir.join("other.sock"))
        .arg("--state-dir")
        .arg(world.dir.join("elsewhere"));
    let other = Unheard::spawn(&mut other);
    let leads_there = |line: &str| {
        line.to_lowercase().contains("queue") && line.split_whitespace().any(|word| word == "60")
    };
    while !world.rules().lines().any(leads_there) {
        std::thread::sleep(Duration::from_millis(20));
    }
    other
}

#[test]
fn a_bad_link_refuses_the_whole_file() {
    let Some(world) = World::try_new(Kind::Routed).map(with_two) else { return };
    let before = world.rules();
    for (more, words) in [
        ("overhead = 2000\n", "link south: overhead = 2000"),
        ("dwon = '1mbit'\n", "line 11: dwon: no such key"),
        ("[[link]]\nname = 'east'\nlan = 'nosuch'\n", "link east: no network interface is called 'nosuch'"),
        ("[[link]]\nname = 'east'\nlan = 'lan+'\n", "link east: lan, wan: link north has what passes"),
        ("page = '127.0.0.1:80'\n", "link south: page: it is the whole box's"),
    ] {
        world.configure(&(two("4mbit", "1mbit") + more));
        let said = world.refused(&format!("--config {}", world.dir.join("box.toml").display()));
        assert!(said.contains(words), "{words}: {said}");
    }
    // Somebody else has a number of the second: what was done for the first is undone.
    let other = another(&world);
    let others = world.rules();
    world.configure(&(two("4mbit", "1mbit") + "queue = 61\n"));
    let said = world.refused(&format!("--config {}", world.dir.join("box.toml").display()));
    assert!(said.contains("link south: cannot listen on NFQUEUE 61 and 62"), "{said}");
    assert_eq!(world.rules(), others);
    other.end();
    assert_eq!(world.rules(), before);
}

#[test]
fn a_reload_changes_one_link_and_loses_nothing_of_the_other() {
    let Some(world) = World::try_new(Kind::Routed).map(with_two) else { return };
    world.configure(&deep(&two("4mbit", "2mbit")));
    let running = world.start_configured();
    let slow = world.fetch_by("c2", world.server4(), 1_500_000);
    let datagrams = world.datagrams(1500, Duration::from_millis(3));
    for kbit in (300..900u64).step_by(100) {
        world.configure(&deep(&two("4mbit", &format!("{kbit}kbit"))));
        running.signal(Signal::SIGHUP);
        let rate = |s: &Status| s.links.iter().map(|l| l.down.rate_bps).collect::<Vec<_>>();
        running.wait_for("its rate", |s| rate(s) == [Some(4_000_000), Some(kbit * 1000)]);
    }
    assert!(running.log().contains("settings reloaded: south: down 300kbit"), "{}", running.log());
    // One mistake, and nothing of it holds; nor where a link cannot be what it shall be.
    for (settings, words) in [
        (two("9mbit", "1mbit") + "overhead = -1\n", "overhead = -1"),
        (two("9mbit", "1mbit") + "[[link]]\nlan = 'lan3'\n", "link: these run: north, south; and now"),
    ] {
        world.configure(&settings);
        running.signal(Signal::SIGHUP);
        let status = running.wait_for(words, |s| s.notices.iter().any(|notice| notice.contains(words)));
        assert_eq!(status.links[0].down.rate_bps, Some(4_000_000));
        assert_eq!(status.links[1].down.rate_bps, Some(800_000));
    }
    datagrams.complete();
    world.configure(&(two("4mbit", "20mbit") + "local = true\n"));
    running.signal(Signal::SIGHUP);
    running.wait_for("told", |s| {
        s.notices == ["link south: local has changed in the settings: that takes a restart"]
    });
    slow.complete();
    running.stop();
}

/// Keeps one thread of the box from running for as long as this lives.
struct Stopped {
    release: mpsc::Sender<()>,
    tracer: std::thread::JoinHandle<()>,
}

impl Stopped {
    /// The thread of this name; `None` where none may be traced.
    fn thread(running: &BoxProcess, name: &str) -> Option<Self> {
        let tid = running.thread(name);
        let (release, released) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let tracer = std::thread::spawn(move || {
            let stopped = ptrace::seize(tid, ptrace::Options::empty()).and_then(|()| ptrace::interrupt(tid));
            let stopped = stopped.and_then(|()| waitpid(tid, Some(WaitPidFlag::__WALL))).is_ok();
            tell.send(stopped).unwrap();
            let _ = released.recv();
            let _ = ptrace::detach(tid, None);
        });
        told.recv().unwrap().then_some(Self { release, tracer })
    }

    fn go_on(self) {
        drop(self.release);
        self.tracer.join().unwrap();
    }
}

#[test]
fn a_link_that_hangs_is_passed_by_and_the_other_goes_on() {
    for world in World::each_filter(Kind::Routed).map(with_two) {
        world.configure(&two("200kbit", "4mbit"));
        let running = world.start_configured();
        world.fetch(world.server4(), 10_000).complete();
        let Some(stopped) = Stopped::thread(&running, "north") else {
            skip_part(&narrows_testing::running(), "one thread stopped", "no thread may be traced here");
            return;
        };
        // At 200 kbit/s this would take 80 seconds: more than the test waits.
        world.fetch(world.server4(), 2_000_000).complete();
        let sent = |s: &Status| s.links[1].down.report.counters.sent;
        let before = running.status();
        world.fetch_by("c2", world.server4(), 200_000).complete();
        let after = running.wait_for("the other is queued", |s| sent(s) >= sent(&before) + 130);
        obeys(&before, &after, 1, 4e6);
        assert!(
            after.links[0].notices[0].contains("link north does not answer"),
            "{:?}",
            after.links[0].notices
        );
        assert_eq!(after.links[1].notices, [""; 0]);
        // A reload is for all or for none.
        world.configure(&two("300kbit", "3mbit"));
        running.signal(Signal::SIGHUP);
        let whole = |s: &Status| s.notices.iter().any(|n| n.contains("link north: it does not answer"));
        let status = running.wait_for("refused", whole);
        assert_eq!(status.links[1].down.rate_bps, Some(4_000_000));
        stopped.go_on();
        running.wait_for("it is back", |s| {
            s.links[0].bypassed >= 1 && s.links[0].down.rate_bps == Some(200_000)
        });
        let queued = |s: &Status| s.links[0].down.report.counters.sent;
        let before = queued(&running.status());
        world.fetch(world.server4(), 20_000).complete();
        running.wait_for("it is queued again", |s| queued(s) > before + 12);
        running.stop();
    }
}

#[test]
fn a_watchdog_of_all_links_lets_all_pass_and_is_replaced_when_it_dies() {
    let Some(world) = World::try_new(Kind::Routed).map(with_two) else { return };
    world.configure(&two("200kbit", "200kbit"));
    let running = world.start_configured();
    let [watchdog] = running.children()[..] else { panic!("{:?}", running.children()) };
    kill(Pid::from_raw(watchdog.cast_signed()), Signal::SIGKILL).unwrap();
    running.wait_for("it is told", |_| running.log().contains("the watchdog is gone"));
    assert_eq!(running.log().matches("the watchdog is gone").count(), 1, "{}", running.log());
    // A sign of life of each, and the new one judges.
    std::thread::sleep(Duration::from_millis(600));
    running.signal(Signal::SIGSTOP);
    for end in ["c", "c2"] {
        world.fetch_by(end, world.server4(), 2_000_000).complete();
    }
    running.signal(Signal::SIGCONT);
    running.wait_for("both count", |s| s.links.iter().all(|link| link.bypassed >= 1));
    running.stop();
}

/// Stops a watchdog and leaves no room in the pipe by which it hears.
pub fn deafen(watchdog: u32) {
    kill(Pid::from_raw(watchdog.cast_signed()), Signal::SIGSTOP).unwrap();
    let mut pipe = std::fs::OpenOptions::new();
    let pipe = pipe.write(true).custom_flags(libc::O_NONBLOCK);
    let mut pipe = pipe.open(format!("/proc/{watchdog}/fd/0")).unwrap();
    // Signs that mean nothing.
    while pipe.write(&[0; 3]).is_ok() {}
}

#[test]
fn a_watchdog_that_does_not_hear_of_a_link_let_go_does_nothing_to_it() {
    let Some(world) = World::try_new(Kind::Routed).map(with_two) else { return };
    world.configure(&(two("200kbit", "200kbit") + "queue = 60\n"));
    let running = world.start_configured();
    let [watchdog] = running.children()[..] else { panic!("{:?}", running.children()) };
    deafen(watchdog);
    // As a process says that is to have the second link in another way.
    let mut stream = UnixStream::connect(running.control()).unwrap();
    stream.write_all(b"release 1\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert_eq!(said, "released\n", "{}", running.log());
    // Whoever has it then has rules of the same name.
    let other = another(&world);
    let rules = world.rules();
    let _ = kill(Pid::from_raw(watchdog.cast_signed()), Signal::SIGCONT);
    // Longer than the silence after which traffic is let pass.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(world.rules(), rules);
    // The first link is watched as before.
    assert_eq!(running.status().links[0].bypassed, 0);
    is_watched(&world, &running);
    other.end();
    running.stop();
}

/// How often both links are replaced.
const TIMES: usize = 5;

#[test]
fn all_links_go_over_to_another_process_and_nothing_is_lost() {
    let Some(world) = World::try_new(Kind::Routed).map(with_two) else { return };
    // The downloads outlast all takeovers, also on a busy machine.
    world.configure(&two("5mbit", "4mbit").replace("fifo:20", "taq"));
    let mut running = world.start_configured_with("--replace");
    let rules = world.rules();
    let clamps = |link: usize| move |s: &Status| s.links[link].down.report.counters.clamped > 0;
    // The scales of these connections are told once, to the first process.
    let downloads =
        [world.fetch(world.server4(), 8_000_000), world.fetch_by("c2", world.server4(), 6_000_000)];
    let datagrams = world.datagrams(1200, Duration::from_millis(5));
    for _ in 0..TIMES {
        for link in [0, 1] {
            running.wait_for("the clamp goes on", clamps(link));
        }
        let after = world.start_configured_with("--log-level debug --replace");
        running.ended();
        let status = after.status();
        assert_eq!(status.pid, after.pid(), "the new one answers on the old one's socket");
        let missed = |s: &Status| (s.bypassed, s.unseen, s.lost);
        assert_eq!(status.links.iter().map(missed).collect::<Vec<_>>(), [(0, 0, 0); 2]);
        assert_eq!(world.rules(), rules, "they were never touched");
        running = after;
    }
    let gap = datagrams.complete();
    let stalls = downloads.map(|download| download.longest_gap().as_millis());
    println!(
        "two links {TIMES} times replaced: longest gap {} ms, of the downloads {stalls:?} ms",
        gap.as_millis()
    );
    assert!(!running.log().contains("cannot be replaced"), "{}", running.log());
    // One link alone does not end the other.
    let said = world.refused("--replace --down 1mbit");
    assert!(said.contains("also has the link between lan2 and wan: name all its links"), "{said}");
    running.stop();
}

#[test]
fn a_link_is_added_and_one_taken_away_and_one_changed_while_another_goes_over() {
    let Some(mut world) = World::try_new(Kind::Routed).map(with_two) else { return };
    world.connect_user(3, "lan3");
    let untouched = world.rules();
    // More comes than goes to the north, so that some hundred datagrams wait whenever another link begins or stops.
    let both = deep(&two("1200kbit", "4mbit"));
    let table = |name: &str, lan: &str, more: &str| {
        format!("[[link]]\nname = '{name}'\nlan = '{lan}'\ndown = '4mbit'\n{more}")
    };
    let names = |s: &Status| s.links.iter().filter_map(|l| l.name.clone()).collect::<Vec<_>>();
    world.configure(&both);
    let mut running = world.start_configured_with("--replace");
    let datagrams = world.datagrams(1500, Duration::from_millis(5));
    let alone = both.split("[[link]]\nname = 'south'").next().unwrap().to_owned();
    for (settings, expected) in [
        (both.clone() + &table("east", "lan3", ""), vec!["north", "south", "east"]),
        (alone.clone() + &table("east", "lan3", ""), vec!["north", "east"]),
        (alone.clone() + &table("east", "lan3", "queue = 90\n"), vec!["north", "east"]),
        (alone, vec!["north"]),
    ] {
        world.configure(&settings);
        let after = world.start_configured_with("--replace");
        running.ended();
        let status = after.status();
        assert_eq!(
            (names(&status), status.links[0].bypassed),
            (expected.iter().map(|n| (*n).to_owned()).collect(), 0)
        );
        // Each user's traffic passes, by a queue or not.
        for end in ["c2", "c3"] {
            world.fetch_by(end, world.server4(), 50_000).complete();
        }
        running = after;
    }
    // Had the chains of a link that is taken away left their hooks, all that waited would be lost
    // (nf_queue_nf_hook_drop); had those of a new one come before, all would be queued twice, and out of order.
    let gap = datagrams.complete();
    println!(
        "links added, taken away, changed: the other's datagrams came, longest gap {} ms",
        gap.as_millis()
    );
    running.stop();
    assert_eq!(world.rules(), untouched);
    assert_eq!(
        std::fs::read_dir(world.state())
            .unwrap()
            .filter(|f| f.as_ref().unwrap().path().extension().unwrap() == "json")
            .count(),
        0
    );
}

#[test]
fn where_the_other_process_takes_and_says_nothing_all_links_go_on() {
    let Some(world) = World::try_new(Kind::Routed).map(with_two) else { return };
    world.configure(&two("8mbit", "8mbit").replace("fifo:20", "taq"));
    let running = world.start_configured();
    let downloads =
        [world.fetch(world.server4(), 3_000_000), world.fetch_by("c2", world.server4(), 3_000_000)];
    running.wait_for("under way", |s| s.links.iter().all(|l| l.down.report.counters.sent > 50));
    for (asks, says) in [("replace 0 1\n", "link\nlink\nbox\nmine\n"), ("replace 7\n", "mine\n")] {
        let mut stream = UnixStream::connect(running.control()).unwrap();
        stream.write_all(asks.as_bytes()).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert_eq!(said, says);
    }
    running.wait_for("they go on", |s| {
        s.links.iter().all(|l| l.down.report.counters.sent > 500 && l.bypassed == 0)
    });
    assert!(running.log().contains("all links go on"), "{}", running.log());
    downloads.into_iter().for_each(Fetch::complete);
    running.stop();
}
