//! Measurements, which prove nothing by themselves: what a sender costs beside the kernel's own, what the driver of
//! spread windows costs, and how much of a link one flow uses. `cargo test --release -p narrows-senders --test it --
//! --ignored --nocapture NAME`

use std::time::{Duration, Instant};

use narrows_senders::Sender;
use nix::time::{ClockId, clock_gettime};

use crate::live::world::{World, can_run, connect, push};

/// This process's processor time; without separate accounting of interrupts it holds the work for frames that was done
/// in our threads' name.
fn ours() -> Duration {
    Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap())
}

/// The whole machine's: everything of the first line of /proc/stat but idle and waiting, in ticks of 10 ms.
fn machine() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let ticks = stat.lines().next().unwrap().split_whitespace().skip(1).map(|n| n.parse::<u64>().unwrap());
    Duration::from_millis(ticks.enumerate().filter(|(i, _)| ![3, 4].contains(i)).map(|(_, n)| 10 * n).sum())
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

#[test]
#[ignore = "a measurement"]
fn cost_at_a_gigabit() {
    if !can_run("cost_at_a_gigabit") {
        return;
    }
    const BYTES: usize = 250_000_000;
    const ROUNDS: usize = 9;
    let mut world = World::direct();
    // The kernel's segmentation offload is off: one frame, one ACK for two, the dearest case for a sender.
    for end in ["s", "r"] {
        world.offloads_off(end);
    }
    world.set("tc", "s", "qdisc add dev eth root tbf rate 1gbit burst 64kb limit 1mb");
    let names: Vec<_> =
        ["reno".to_owned()].into_iter().chain(Sender::ALL.map(|sender| world.load(sender, &[]))).collect();
    let mut measured = vec![Vec::new(); names.len()];
    let mut port = 5700;
    for _ in 0..ROUNDS {
        for (name, of) in names.iter().zip(&mut measured) {
            port += 1;
            let sink = world.sink(port, 1);
            let (began, own, all) = (Instant::now(), ours(), machine());
            let name = name.clone();
            world.inside("s", move || push(&mut connect(&name, port), BYTES)).join().unwrap();
            sink.join().unwrap();
            let rate = BYTES as f64 * 8e-9 / began.elapsed().as_secs_f64();
            of.push((rate, (ours() - own).as_secs_f64(), (machine() - all).as_secs_f64()));
        }
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap();
    println!(
        "load of the machine {load}| sender | Gbit/s | CPU s per GB | to reno | whole machine, to reno |"
    );
    println!("|---|---|---|---|---|");
    let of = |n: usize, f: fn(&(f64, f64, f64)) -> f64| median(measured[n].iter().map(f).collect());
    let ratio = |n: usize, f: fn(&(f64, f64, f64)) -> f64| {
        median(measured[n].iter().zip(&measured[0]).map(|(a, reno)| f(a) / f(reno)).collect())
    };
    for (n, name) in ["reno"].into_iter().chain(Sender::ALL.map(Sender::name)).enumerate() {
        println!(
            "| {name} | {:.2} | {:.2} | {:.3} | {:.3} |",
            of(n, |m| m.0),
            of(n, |m| m.1) * 1e9 / BYTES as f64,
            ratio(n, |m| m.1),
            ratio(n, |m| m.2),
        );
    }
}

/// Connections of ten segments each, all in one burst of writes, which stay open or are closed at once.
#[test]
#[ignore = "a measurement"]
fn cost_of_the_driver() {
    if !can_run("cost_of_the_driver") {
        return;
    }
    println!(
        "| connections | then | closed before borrowed | pushes | walks | ms a walk | CPU ms | CPU us a connection | \
         latest ms |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for n in [10, 1000, 10_000] {
        for close in [false, true] {
            driven(n, close);
        }
    }
}

fn driven(connections: usize, close: bool) {
    const FIRST_PORT: u16 = 5501;
    let mut world = World::new(Duration::from_millis(50));
    let (name, driver) = world.load_beside(Sender::Spreading);
    // A handshake takes 100 ms, so a hundred at a time. Nobody accepts: what waits to be accepted takes no descriptor,
    // of which a process has 20 000 on the machine this was written on.
    let (threads, each) = (100.min(connections), connections / 100.min(connections));
    let ports: Vec<_> = (FIRST_PORT..).take(threads).collect();
    let listeners = world.listen(&ports);
    let source = world.inside("s", move || {
        let connecting: Vec<_> = ports
            .into_iter()
            .map(|port| {
                let name = name.clone();
                std::thread::spawn(move || (0..each).map(|_| connect(&name, port)).collect::<Vec<_>>())
            })
            .collect();
        let streams = connecting.into_iter().flat_map(|t| t.join().unwrap()).collect::<Vec<_>>();
        let mut open = Vec::new();
        for mut stream in streams {
            push(&mut stream, 1448 * 10);
            if !close {
                open.push(stream);
            }
        }
        std::thread::sleep(Duration::from_millis(500));
    });
    source.join().unwrap();
    drop(listeners);
    let [_, closed, pushes, walks, walking_us, late_us, cpu_us] = driver.stop()[..] else {
        panic!("the driver's last words have changed")
    };
    println!(
        "| {connections} | {} | {closed} | {pushes} | {walks} | {:.2} | {:.1} | {:.1} | {:.1} |",
        if close { "close" } else { "stay" },
        walking_us / 1e3 / f64::max(walks, 1.0),
        cpu_us / 1e3,
        cpu_us / connections as f64,
        late_us / 1e3,
    );
}

/// One flow's use of a link of 40 ms with buffers of 5, 10, 25, 50 and 100 % of the bandwidth-delay product (33 packets
/// of 1514 bytes at 10 Mbit/s, 165 at 50), where each segment is acknowledged.
#[test]
#[ignore = "a measurement"]
fn utilisation_at_10_mbit() {
    utilisation(10, [2, 3, 8, 17, 33], true);
}

#[test]
#[ignore = "a measurement"]
fn utilisation_at_50_mbit() {
    utilisation(50, [8, 17, 41, 83, 165], true);
}

#[test]
#[ignore = "a measurement"]
fn utilisation_with_delayed_acks() {
    utilisation(10, [2, 3, 8, 17, 33], false);
    utilisation(50, [8, 17, 41, 83, 165], false);
}

fn utilisation(mbit: u64, buffers: [usize; 5], each: bool) {
    if !can_run("utilisation of one flow") {
        return;
    }
    let acks = if each { "an ACK for each segment" } else { "delayed ACKs" };
    println!("{mbit} Mbit/s, {acks}\n| buffer, packets | reno | narrows_aaimd |\n|---|---|---|");
    for buffer in buffers {
        let [reno, aaimd] = point(mbit, buffer, each);
        println!("| {buffer} | {reno:.3} | {aaimd:.3} |");
    }
}

/// Measures the share of the link that reno and adaptive AIMD use.
///
/// Where a packet reaches the full queue in the instant in which one leaves it, microseconds decide whether it is lost
/// (the phase effects of Floyd and Jacobson, 1992). So at 10 Mbit/s, where a packet is a good part of the buffer, this
/// is the mean over round trips that differ by quarters of a packet's time.
fn point(mbit: u64, buffer: usize, each: bool) -> [f64; 2] {
    let packet = Duration::from_nanos(1514 * 8 * 1000 / mbit);
    let phases: u32 = if mbit > 10 { 1 } else { 4 };
    let mut sums = [0.0; 2];
    for phase in 0..phases {
        // Half of it on each way.
        let mut world = World::new(Duration::from_millis(20) + packet * phase / phases / 2);
        world.thin(mbit, buffer * 1514);
        if !each {
            world.set("ip", "r", "route change 10.79.0.1 dev eth");
        }
        let ours = world.load(Sender::Aaimd, &[]);
        sums[0] += use_of(&world, "reno", 5801, mbit);
        sums[1] += use_of(&world, &ours, 5802, mbit);
    }
    sums.map(|sum| sum / f64::from(phases))
}

/// Time left out of the measurement: slow start, and the back-offs that bring the window from its end to where it
/// stays.
const BEFORE: Duration = Duration::from_secs(8);

/// Share of the link's payload that a connection of this kind delivers.
fn use_of(world: &World, name: &str, port: u16, mbit: u64) -> f64 {
    // At 50 Mbit/s a back-off comes every 3.4 s, at 10 every 0.8.
    let counted = Duration::from_secs(if mbit > 10 { 30 } else { 20 });
    let arrived = world.counting_sink(port);
    let name = name.to_owned();
    let source = world.inside("s", move || {
        let mut stream = connect(&name, port);
        let end = Instant::now() + BEFORE + counted;
        while Instant::now() < end {
            push(&mut stream, 20_000);
        }
    });
    std::thread::sleep(BEFORE);
    let (began, before) = (Instant::now(), arrived());
    std::thread::sleep(counted);
    let rate = (arrived() - before) as f64 * 8.0 / began.elapsed().as_secs_f64();
    source.join().unwrap();
    rate / (mbit as f64 * 1e6 * 1448.0 / 1514.0)
}
