//! Packets that the kernel holds for a box that does not answer.

use nix::sys::signal::Signal;

use crate::live_box::flood::{Flood, Route, Sort};
use crate::live_box::process::BoxProcess;
use crate::live_box::world::{Kind, World};

/// Packets that wait in queue 40 once traffic passes by a stopped box, having been flooded meanwhile.
fn held(world: &World, running: &BoxProcess) -> u64 {
    let passed = running.status().bypassed;
    let flood = Flood::start(world, &[Sort::Udp], Route::to_user(2), Some(20_000));
    running.wait_for("it comes", |s| s.down.report.counters.arrived > 1000);
    running.signal(Signal::SIGSTOP);
    while world.is_queued() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    flood.stop();
    let account = world.exec("b", "cat /proc/net/netfilter/nfnetlink_queue");
    let line = account.lines().find(|line| line.split_whitespace().next() == Some("40"));
    running.signal(Signal::SIGCONT);
    running.wait_for("it is back", |s| s.bypassed > passed && s.down.report.backlog.packets == 0);
    line.and_then(|line| line.split_whitespace().nth(2)?.parse().ok()).unwrap()
}

#[test]
fn the_kernel_holds_a_second_of_the_link_also_after_a_reload() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let settings = |kbps: u32| format!("down = '{kbps}kbit'\ndiscipline = 'fifo:20'\nqueue = 40\n");
    world.configure(&settings(600));
    let running = world.start_configured();
    // 1171 packets of 64 bytes a second and the discipline's 20; half as many at least, however busy the machine.
    let at_600 = held(&world, &running);
    assert!((600..=1191).contains(&at_600), "{at_600}");
    world.configure(&settings(1200));
    running.signal(Signal::SIGHUP);
    running.wait_for("it is reloaded", |s| s.down.rate_bps == Some(1_200_000));
    let at_1200 = held(&world, &running);
    assert!((1192..=2363).contains(&at_1200), "{at_1200}");
    running.stop();
}
