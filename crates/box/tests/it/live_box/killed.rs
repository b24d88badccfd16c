//! A process that is killed while it takes the place of a box: the box keeps all it had.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use libc::{SYS_sendto, SYS_write};
use narrows_box::Status;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{MsgFlags, recv};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::live_box::hangs::is_watched;
use crate::live_box::links::{deafen, two, with_two};
use crate::live_box::overrun::borrowed;
use crate::live_box::process::BoxProcess;
use crate::live_box::upgrade::{replaced, worlds};
use crate::live_box::world::{Fetch, Kind, PATIENCE, World};

const READY: &[u8] = b"ready\n";
const YOURS: &[u8] = b"yours\n";

/// When it is killed: it has said that it is ready.
#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    /// Nobody has heard that.
    Unheard,
    /// The new box was answered, and has not read the answer.
    Answered,
}

/// The descriptor into which a process that is stopped in a system call writes that it is ready, if it does.
fn says_ready(pid: Pid) -> Option<i32> {
    let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap();
    let mut words = call.split_whitespace();
    let number = words.next()?.parse().ok()?;
    let mut arguments = words.map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap());
    let (fd, at, len) = (arguments.next()?, arguments.next()?, arguments.next()?);
    if ![SYS_write, SYS_sendto].contains(&number) || len != READY.len() as u64 {
        return None;
    }
    let mut said = [0; READY.len()];
    File::open(format!("/proc/{pid}/mem")).unwrap().read_exact_at(&mut said, at).ok()?;
    (said == READY).then_some(fd as i32)
}

/// Whether the answer lies in this socket of the process.
fn is_answered(pid: Pid, fd: i32) -> bool {
    let (socket, mut said) = (borrowed(pid.as_raw().cast_unsigned(), fd).unwrap(), [0; YOURS.len()]);
    recv(socket.as_raw_fd(), &mut said, MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT).is_ok() && said == YOURS
}

/// Starts a process that takes the place of `old`, and kills it. `false` where none may be traced.
fn dies(world: &World, args: &str, old: &BoxProcess, when: When) -> bool {
    let new = world.spawn(args);
    let pid = new.pid();
    let traced = ptrace::seize(pid, ptrace::Options::PTRACE_O_TRACESYSGOOD);
    if traced.and_then(|()| ptrace::interrupt(pid)).is_err() {
        return false;
    }
    let mut saying = None;
    let fd = loop {
        let mut signal = None;
        match waitpid(pid, Some(WaitPidFlag::__WALL)).unwrap() {
            WaitStatus::PtraceSyscall(_) => match saying {
                Some(fd) => break fd,
                None => saying = says_ready(pid),
            },
            WaitStatus::Stopped(_, other) => signal = Some(other),
            WaitStatus::PtraceEvent(..) => {}
            ended => panic!("{ended:?}"),
        }
        if saying.is_some() && when == When::Unheard {
            old.signal(Signal::SIGSTOP);
        }
        ptrace::syscall(pid, signal).unwrap();
    };
    let until = Instant::now() + PATIENCE;
    while when == When::Answered && !is_answered(pid, fd) {
        assert!(Instant::now() < until, "no answer");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(new);
    if when == When::Unheard {
        old.signal(Signal::SIGCONT);
    }
    true
}

/// Packets that each link has missed.
fn missed(s: &Status) -> Vec<(u64, u64, u64)> {
    s.each().iter().map(|link| (link.bypassed, link.unseen, link.lost)).collect()
}

/// Kills one after the other; `false` where none may be traced.
fn all_die(world: &World, args: &str, running: &BoxProcess) -> bool {
    let rules = world.rules();
    for (number, when) in [(1, When::Unheard), (2, When::Answered)] {
        if !dies(world, args, running, when) {
            narrows_testing::skip(&narrows_testing::running(), "no process may be traced here");
            return false;
        }
        let told = |_: &Status| running.log().matches("wanted to take over did not").count() == number;
        running.wait_for("told", told);
        // Counted since then.
        let goes_on = |s: &Status| s.each().iter().all(|link| link.down.report.counters.clamped > 20);
        let status = running.wait_for("it goes on", goes_on);
        assert_eq!(status.pid, running.pid());
        assert!(missed(&status).iter().all(|m| *m == (0, 0, 0)), "{when:?}: {:?}", missed(&status));
        assert_eq!(world.rules(), rules, "{when:?}");
    }
    true
}

#[test]
fn one_that_is_killed_while_it_takes_over_has_taken_nothing() {
    for (world, args) in worlds() {
        let running = world.start(&args);
        let download = world.fetch(world.server4(), 9_000_000);
        let datagrams = world.datagrams(1000, Duration::from_millis(5));
        running.wait_for("it is clamped", |s| s.down.report.counters.clamped > 0);
        if !all_die(&world, &args, &running) {
            return;
        }
        let after = replaced(&world, &args, running);
        after.wait_for("the clamp goes on", |s| s.down.report.counters.clamped > 0);
        assert_eq!(missed(&after.status()), [(0, 0, 0)], "{args}");
        datagrams.complete();
        download.complete();
        after.stop();
    }
}

#[test]
fn of_several_links_one_that_is_killed_has_taken_none() {
    let Some(world) = World::try_new(Kind::Routed).map(with_two) else { return };
    world.configure(&two("10mbit", "8mbit").replace("fifo:20", "taq"));
    let args = format!("--replace --config {}", world.dir.join("box.toml").display());
    let running = world.start(&args);
    let downloads =
        [world.fetch(world.server4(), 9_000_000), world.fetch_by("c2", world.server4(), 8_000_000)];
    let datagrams = world.datagrams(1000, Duration::from_millis(5));
    running.wait_for("under way", |s| s.links.iter().all(|l| l.down.report.counters.clamped > 0));
    if !all_die(&world, &args, &running) {
        return;
    }
    let after = replaced(&world, &args, running);
    assert_eq!(missed(&after.status()), [(0, 0, 0); 2]);
    datagrams.complete();
    downloads.into_iter().for_each(Fetch::complete);
    after.stop();
}

#[test]
fn a_box_that_went_on_is_watched() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let args = "--replace --down 200kbit --discipline fifo:20";
    let running = world.start(args);
    if !dies(&world, args, &running, When::Answered) {
        narrows_testing::skip(&narrows_testing::running(), "no process may be traced here");
        return;
    }
    running.wait_for("told", |_| running.log().contains("wanted to take over did not"));
    // A sign of life, and the new watchdog judges.
    std::thread::sleep(Duration::from_millis(600));
    is_watched(&world, &running);
    running.stop();
}

#[test]
fn a_watchdog_that_does_not_hear_the_farewell_puts_no_bridge_beside_the_next() {
    let Some(world) = World::try_new(Kind::Apart) else { return };
    let args = "--replace --down 4mbit --discipline fifo:20 --backend packet";
    let running = world.start(args);
    let [watchdog] = running.children()[..] else { panic!("{:?}", running.children()) };
    deafen(watchdog);
    let after = replaced(&world, args, running);
    let _ = kill(Pid::from_raw(watchdog.cast_signed()), Signal::SIGCONT);
    let until = Instant::now() + PATIENCE;
    while fs::read_to_string(format!("/proc/{watchdog}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < until, "it has nobody to watch");
        std::thread::sleep(Duration::from_millis(20));
    }
    let links = world.exec("b", "ip -o link");
    assert!(!links.contains("nrw-by"), "{links}");
    world.fetch(world.server4(), 100_000).complete();
    after.stop();
}
