//! A modem with a deep queue behind the box, and rates that nobody tells, or somebody does.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use narrows_box::Status;
use narrows_qdisc::follow::{DecisionReason, LinkSide, read_decisions};
use narrows_testing::skip;
use nix::sys::signal::Signal;

use crate::live_box::process::BoxProcess;
use crate::live_box::world::{Fetch, Kind, World, run, sure};

/// Bytes that the modem holds: 300 full packets with their Ethernet headers.
const MODEM: u64 = 300 * 1514;

/// A modem at an end of a link, and the queue in it.
#[derive(Clone, Copy)]
struct Modem {
    /// Namespace and device whose packets it sends.
    end: &'static str,
    device: &'static str,
}

/// A modem between the box and its users.
const BEHIND: Modem = Modem { end: "b", device: "lan" };
/// A dish between the server and the box.
const BEFORE: Modem = Modem { end: "s", device: "e0" };

impl Modem {
    /// Puts it into `world` with `kbps` to send at; `None`, with a line, where this kernel has none.
    fn add(self, world: &World, kbps: u64) -> Option<()> {
        let out = self.tbf(world, "add", kbps);
        if !out.status.success() {
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            skip(&narrows_testing::running(), format!("needs tc with tbf: {}", said.trim()));
            return None;
        }
        Some(())
    }

    /// Gives it another rate.
    fn change(self, world: &World, kbps: u64) {
        let out = self.tbf(world, "change", kbps);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }

    fn tbf(self, world: &World, how: &str, kbps: u64) -> std::process::Output {
        let (ns, device) = (world.ns(self.end), self.device);
        let tbf =
            format!("-n {ns} qdisc {how} dev {device} root tbf rate {kbps}kbit burst 3100 limit {MODEM}");
        run("tc", &tbf.split(' ').collect::<Vec<_>>())
    }

    /// The word that comes `after` words later than `name` in what tc says of its queue, a number.
    fn counter(self, world: &World, name: &str, after: usize) -> u64 {
        let text = sure("tc", &["-n", &world.ns(self.end), "-s", "qdisc", "show", "dev", self.device]);
        let words: Vec<&str> = text.split_whitespace().collect();
        let at = words.iter().position(|w| *w == name).unwrap();
        words[at + after].trim_end_matches('p').parse().unwrap()
    }

    /// Packets in its queue: `backlog 4542b 3p requeues 0`.
    fn waiting(self, world: &World) -> u64 {
        self.counter(world, "backlog", 2)
    }

    /// Bytes that it has sent: `Sent 4542 bytes 3 pkt`.
    fn sent(self, world: &World) -> u64 {
        self.counter(world, "Sent", 1)
    }

    /// The median of what is in its queue at some looks.
    fn usually(self, world: &World) -> u64 {
        let mut looks: Vec<u64> = (0..15)
            .map(|_| {
                std::thread::sleep(Duration::from_millis(100));
                self.waiting(world)
            })
            .collect();
        looks.sort_unstable();
        looks[looks.len() / 2]
    }
}

/// Waits until the box thinks that its link carries about `kbps`.
fn believes(running: &BoxProcess, kbps: u64) {
    let near = kbps * 750..=kbps * 1250;
    running.wait_for(&format!("it believes {kbps} kbit/s"), |s| {
        s.down.report.follows.as_ref().and_then(|f| f.found_bps).is_some_and(|rate| near.contains(&rate))
    });
}

/// Downloads over a dish: nobody has told the box the rate of the link before it, and no packet of its own asks.
#[test]
fn the_rate_of_a_dish_is_found_by_what_arrives_and_its_queue_stands_in_the_box() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let Some(()) = BEFORE.add(&world, 2000) else { return };
    let fetches = || -> Vec<_> { (0..6).map(|_| world.fetch(world.server4(), 4_000_000)).collect() };
    let file = world.dir.join("auto.csv");
    let settings = format!("down = 'auto'\ndecisions = '{}'\n", file.display());
    world.configure(&settings);
    let running = world.start_configured();
    let under_way = fetches();
    believes(&running, 2000);
    let waits = |s: &Status| s.down.report.backlog.packets > 0;
    let status = running.wait_for("packets wait in the box", waits);
    let follows = status.down.report.follows.unwrap();
    assert_eq!(follows.side, Some(LinkSide::Before));
    let signals = follows.signals.unwrap();
    assert!(signals.round_trips > 0 && signals.clocks > 0, "{signals:?}");
    let usually = BEFORE.usually(&world);
    BEFORE.change(&world, 50_000);
    // The file of decisions goes on after a reload.
    world.configure(&settings.replace("'auto'", "'auto:max=40000'"));
    running.signal(Signal::SIGHUP);
    under_way.into_iter().for_each(Fetch::complete);
    running.stop();
    let decided = read_decisions(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let first =
        |reason| decided.iter().find(|d| d.reason == Some(reason)).unwrap_or_else(|| panic!("{decided:#?}"));
    assert_eq!(first(DecisionReason::SideFound).side, Some(LinkSide::Before));
    assert!(first(DecisionReason::Begun).time_s <= first(DecisionReason::Settings).time_s);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!(
        decided.iter().all(|d| (now - 600.0..=now).contains(&d.time_s) && d.link == "down"),
        "{decided:#?}"
    );

    // Without the box they all stand before the link.
    BEFORE.change(&world, 2000);
    let under_way = fetches();
    while BEFORE.waiting(&world) < 60 {
        assert!(under_way.iter().any(|f| !f.is_done()), "the queue before the link never filled");
        std::thread::sleep(Duration::from_millis(20));
    }
    let without = BEFORE.usually(&world);
    assert!(usually * 2 < without, "packets before the link: {usually} with the box, {without} without");
    println!("packets before the link: {usually} with the box, {without} without");
    BEFORE.change(&world, 50_000);
    under_way.into_iter().for_each(Fetch::complete);
}

#[test]
fn a_rate_that_changes_is_followed_and_the_modem_stays_empty() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let Some(()) = BEHIND.add(&world, 1000) else { return };
    // Without the box the modem's queue fills.
    let before: Vec<_> = (0..3).map(|_| world.fetch(world.server4(), 700_000)).collect();
    while BEHIND.waiting(&world) < 60 {
        assert!(before.iter().any(|f| !f.is_done()), "the modem's queue never filled");
        std::thread::sleep(Duration::from_millis(20));
    }
    BEHIND.change(&world, 50_000);
    before.into_iter().for_each(Fetch::complete);

    BEHIND.change(&world, 1000);
    world.configure("down = 'auto'\nup = '10mbit'\n");
    let running = world.start_configured();
    let downloads: Vec<_> = (0..4).map(|_| world.fetch(world.server4(), 3_000_000)).collect();
    for kbps in [1000, 300, 1000] {
        BEHIND.change(&world, kbps);
        believes(&running, kbps);
        // The modem sends first what filled it before the box held anything back.
        while BEHIND.waiting(&world) >= 20 {
            assert!(downloads.iter().any(|f| !f.is_done()), "the modem's queue was never short");
            std::thread::sleep(Duration::from_millis(20));
        }
        let waits = BEHIND.usually(&world);
        println!("{kbps} kbit/s: usually {waits} packets in the modem");
        assert!(waits < 20, "{kbps} kbit/s: usually {waits} packets in the modem");
    }
    let words = world.narrows("status --control").arg(running.control()).output().unwrap().stdout;
    let words = String::from_utf8(words).unwrap();
    for line in ["rate found", "shortest round trip", "under way", "down, "] {
        assert!(words.contains(line), "{line}: {words}");
    }
    // An operator who knows better, and one who no longer does.
    for (text, followed) in [("down = '900kbit'\n", false), ("down = 'auto:max=2000'\n", true)] {
        world.configure(text);
        running.signal(Signal::SIGHUP);
        running.wait_for(text, |s| s.down.report.follows.is_some() == followed);
    }
    believes(&running, 1000);
    BEHIND.change(&world, 50_000);
    world.configure("down = '50mbit'\n");
    running.signal(Signal::SIGHUP);
    downloads.into_iter().for_each(Fetch::complete);
    assert_eq!(running.status().notices, [""; 0]);
    running.stop();
}

#[test]
fn a_rate_is_told_by_a_file_or_a_socket_and_nonsense_is_a_warning() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let told = world.dir.join("rate");
    std::fs::write(&told, "up 400kbit\n").unwrap();
    world.configure(&format!(
        "down = '1mbit'\nup = 'auto'\nrate_from = '{}'\nrate_min = '100kbit'\n",
        told.display()
    ));
    let running = world.start_configured();
    assert_eq!(running.status().down.rate_bps, Some(1_000_000), "until one is told");
    for (text, rate, given) in [
        ("down 2mbit\nup 300kbit\n", 2_000_000, 2_000_000),
        ("# a better hour\ndown 3mbit\n", 3_000_000, 3_000_000),
        ("down fast\n", 3_000_000, 3_000_000),
        ("down 1kbit\n", 100_000, 1000),
    ] {
        std::fs::write(&told, text).unwrap();
        running.wait_for(text, |s| {
            let warned = text != "down fast\n" || running.log().contains("'down fast'");
            s.down.rate_bps == Some(rate) && s.down.told_bps == Some(given) && warned
        });
    }
    assert_eq!(running.status().up.told_bps, Some(300_000));
    // A told rate holds over a reload.
    world.configure(&format!("down = '4mbit'\nup = '5mbit'\nrate_from = '{}'\n", told.display()));
    running.signal(Signal::SIGHUP);
    running
        .wait_for("bounds are others", |s| s.down.rate_bps == Some(8000) && s.up.rate_bps == Some(300_000));
    running.stop();

    let socket = world.dir.join("rate.sock");
    let running = world.start(&format!("--down 1mbit --rate-from unix:{}", socket.display()));
    UnixDatagram::unbound().unwrap().send_to(b"down 700kbit", &socket).unwrap();
    running.wait_for("it was told", |s| s.down.rate_bps == Some(700_000));
    world.fetch(world.server4(), 50_000).complete();
    running.stop();
    assert!(!socket.exists());
}

#[test]
#[ignore = "measures for a minute: -- --ignored --nocapture token_bucket"]
fn a_token_bucket_without_propagation_is_used() {
    const SPAN: Duration = Duration::from_secs(10);
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let Some(()) = BEHIND.add(&world, 1000) else { return };
    world.configure("down = 'auto'\nup = '10mbit'\n");
    let running = world.start_configured();
    let downloads: Vec<_> = (0..12).map(|_| world.fetch(world.server4(), 30_000_000)).collect();
    believes(&running, 1000);
    for _ in 0..6 {
        let before = BEHIND.sent(&world);
        std::thread::sleep(SPAN);
        let kbps = (BEHIND.sent(&world) - before) * 8 / 1000 / SPAN.as_secs();
        let base = running.status().down.report.follows.and_then(|f| f.base).unwrap();
        println!("{kbps} of 1000 kbit/s, shortest round trip {base}");
        // A packet takes 12 ms, and the rate is known within a fifth.
        assert!(base >= narrows_units::Duration::from_millis(9), "{base}");
    }
    drop(downloads);
    running.stop();
}
