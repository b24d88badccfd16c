//! The senders in this machine's kernel, with real connections between namespaces. Skipped, with the reason, where that
//! cannot be.

#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

mod late;
mod measure;
mod parity;
mod parity_spreading;
mod table;
mod world;

use narrows_senders::{self as senders, Sender};
use std::time::Duration;

use late::until_in_time;
use world::{Frame, World, can_run, connect, push, sure};

#[test]
fn loads_runs_and_leaves_no_connection_behind() {
    if !can_run("loads_runs_and_leaves_no_connection_behind") {
        return;
    }
    let mut world = World::new(Duration::from_millis(1));
    for (port, sender) in (5001..).zip(Sender::ALL) {
        let name = world.load(sender, &[]);
        let loaded = senders::loaded(&world.bpffs).unwrap();
        assert_eq!(loaded.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(), [name.as_str()]);
        assert_eq!(loaded[0].settings, senders::Settings::new(sender));
        let again = senders::load(&world.bpffs, &name, &loaded[0].settings).unwrap_err().to_string();
        assert!(again.contains(&format!("the name {name} is in use")), "{again}");

        let flows = 100;
        let sink = world.sink(port, flows);
        let using = name.clone();
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let (half, half_done) = std::sync::mpsc::channel();
        let source = world.inside("s", move || {
            let mut streams: Vec<_> = (0..flows).map(|_| connect(&using, port)).collect();
            streams.iter_mut().for_each(|s| push(s, 100_000));
            half.send(senders::sockets().unwrap()).unwrap();
            wait.recv().unwrap();
            streams.iter_mut().for_each(|s| push(s, 100_000));
        });
        let sockets = half_done.recv().unwrap();
        assert_eq!(
            sockets.iter().filter(|s| s.name == name && s.remote.starts_with("10.79.0.2:")).count(),
            flows,
            "{sockets:?}"
        );
        let ss = sure("ip", &["netns", "exec", &world.ns("s"), "ss", "-tin"]);
        assert!(ss.contains(&name), "{ss}");
        world.unload(&name);
        go_on.send(()).unwrap();
        source.join().unwrap();
        assert_eq!(sink.join().unwrap(), vec![200_000; flows]);
        assert!(senders::loaded(&world.bpffs).unwrap().is_empty());
    }
}

/// When the first ten segments left, in ms since the first, of a fresh connection that writes 40 and, if asked, closes
/// at once; and how long its handshake took, in ms.
fn first_window(world: &mut World, name: &str, port: u16, close: bool) -> (f64, Vec<f64>) {
    let (handshake, frames) = world.capture(|world| {
        let sink = world.sink(port, 1);
        let using = name.to_owned();
        let source = world.inside("s", move || {
            let mut stream = connect(&using, port);
            push(&mut stream, 1448 * 40);
            if !close {
                std::thread::sleep(Duration::from_millis(400));
            }
        });
        source.join().unwrap();
        assert_eq!(sink.join().unwrap(), [1448 * 40]);
    });
    let left = departures(&frames);
    let ms = left.iter().take(10).map(|d| (d.0 - left[0].0) as f64 / 1e6).collect();
    (handshake.as_secs_f64() * 1e3, ms)
}

/// The data segments that left, in order, as ns since the first frame and sequence numbers from 0.
fn departures(frames: &[Frame]) -> Vec<(u64, u32)> {
    let data = frames.iter().filter_map(|frame| match *frame {
        Frame::Data { at_ns, seq } => Some((at_ns, seq)),
        Frame::Ack { .. } => None,
    });
    data.collect()
}

/// Whether segment k left within 2 ms of its slot, k tenths of the round trip that the handshake took.
fn in_their_slots(handshake_ms: f64, left_ms: &[f64]) -> bool {
    let slot = |k: usize| handshake_ms / 10.0 * k as f64;
    left_ms.len() == 10 && left_ms.iter().enumerate().all(|(k, at)| (at - slot(k)).abs() < 2.0)
}

#[test]
fn the_first_window_is_spread_over_the_first_round_trip() {
    const TEST: &str = "the_first_window_is_spread_over_the_first_round_trip";
    if !can_run(TEST) {
        return;
    }
    let mut world = World::new(Duration::from_millis(50));
    let name = world.load(Sender::Spreading, &[]);
    for close in [false, true] {
        until_in_time(TEST, &format!("close {close}"), |n| {
            let port = 5200 + 10 * u16::from(close) + n;
            let (handshake, left) = first_window(&mut world, &name, port, close);
            eprintln!("close {close}: {left:?} after a handshake of {handshake} ms");
            in_their_slots(handshake, &left)
        });
    }
    let driven = world.stop_driver();
    assert!(driven.connections >= 2 && driven.pushes >= 9, "{driven}");
}

#[test]
fn an_application_spreads_by_itself() {
    if !can_run("an_application_spreads_by_itself") {
        return;
    }
    let mut world = World::new(Duration::from_millis(50));
    let frames = world.frames(|world| {
        let sink = world.sink(5401, 1);
        let source = world.inside("s", || {
            senders::spread(&mut connect("reno", 5401), &vec![b'x'; 1448 * 40], 10).unwrap();
        });
        source.join().unwrap();
        assert_eq!(sink.join().unwrap(), [1448 * 40]);
    });
    let departures = departures(&frames);
    let left: Vec<_> = departures.iter().take(10).map(|d| (d.0 - departures[0].0) as f64 / 1e6).collect();
    eprintln!("by itself: {left:?}");
    // How late an ordinary thread wakes is the machine's affair; early it must never be.
    assert!(left.iter().enumerate().all(|(k, at)| *at > 10.0 * k as f64 - 2.0), "{left:?}");
    assert!(left[1] < 90.0, "before any ACK: {left:?}");
}

/// Makes a world with a delay of `delay_ms` each way, and loads Initial Spreading with its driver; gives the sender's
/// name, and the driver's process.
fn driven(test: &str, delay_ms: u64) -> Option<(World, String, u32)> {
    let mut world = can_run(test).then(|| World::new(Duration::from_millis(delay_ms)))?;
    let (name, driver) = world.load_by_program("narrows_is");
    Some((world, name, driver))
}

#[test]
fn a_connection_whose_driver_is_killed_goes_on() {
    let Some((mut world, name, driver)) = driven("a_connection_whose_driver_is_killed_goes_on", 50) else {
        return;
    };
    sure("kill", &["-9", &driver.to_string()]);
    // The kernel believes in the driver for a moment: gated, with nobody to push. One segment, then slow start.
    let (_, left) = first_window(&mut world, &name, 5301, false);
    assert!(left[1] > 90.0 && left[9] < 500.0, "{left:?}");
    // Nobody believes in it any more: all at once.
    std::thread::sleep(Duration::from_millis(300));
    let (_, left) = first_window(&mut world, &name, 5302, false);
    assert!(left[9] < 50.0, "{left:?}");
}

#[test]
fn a_driver_is_never_inside_the_namespaces_it_walks() {
    let Some((world, name, driver)) = driven("a_driver_is_never_inside_the_namespaces_it_walks", 20) else {
        return;
    };
    let home = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net"));
    let sink = world.sink(5303, 20);
    // Closed at once: most are found by a walk. Whoever clears a namespace ends what is inside.
    let source = world.inside("s", move || {
        (0..20).for_each(|_| push(&mut connect(&name, 5303), 1448 * 10));
    });
    source.join().unwrap();
    assert_eq!(sink.join().unwrap(), vec![1448 * 10; 20]);
    assert_eq!(home(&driver.to_string()).unwrap(), home("self").unwrap());
}
