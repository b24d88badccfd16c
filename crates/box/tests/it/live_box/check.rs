//! `narrows check`: what settings mean, without starting.

use crate::live_box::world::{Kind, World, can_keep};

pub fn check(world: &World, settings: &str) -> (Option<i32>, String) {
    world.configure(settings);
    run_check(world)
}

/// Checks the settings that a world has.
pub fn run_check(world: &World) -> (Option<i32>, String) {
    let file = world.dir.join("box.toml");
    let out = world.narrows(&format!("check {}", file.display())).output().unwrap();
    let said = [out.stdout, out.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (out.status.code(), said.concat())
}

#[test]
fn it_says_what_settings_mean_and_starts_nothing() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let before = world.rules();
    let (code, said) = check(&world, "lan = 'lan'\nwan = 'wan'\ndown = '600kbit'\nup = '128kbit'\n");
    assert_eq!(code, Some(0), "{said}");
    for words in [
        "users are behind lan and the wide network behind wan, packets up to 1500 bytes",
        // 1514 bytes at 600 kbit/s are 20.2 ms, so 148 users fill a round of 3 s; 94.6 ms and 31 at 128 kbit/s.
        "down: 600kbit by taq; a full packet takes 20 ms on the link; once 148 users wait",
        "up: 128kbit by taq; a full packet takes 94 ms on the link; once 31 users wait",
        "what this machine itself sends and receives (a resolver, a tunnel) passes beside the queue; local = true",
        "its rules are kept by nftables",
        "Nothing is wrong",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let auto = "lan = 'lan'\nwan = 'wan'\ndown = 'auto:min=64,max=9000'\nup = '1mbit'\nrate_from = '/nowhere/rate'\n";
    let (code, said) = check(&world, auto);
    assert_eq!(code, Some(0), "{said}");
    for words in [
        "down: by taq, as fast as the slow link before wan or behind lan carries it, found and followed between 64kbit \
         and 9mbit; until a queue shows",
        "the file /nowhere/rate tells other rates while it runs; 8kbit to 10gbit are believed",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let page = "lan = 'lan'\nwan = 'wan'\ndown = '1mbit'\npage = '0.0.0.0:80'\npage_for_others = true\n";
    let (code, said) = check(&world, page);
    assert!(code == Some(0) && said.contains("http://0.0.0.0:80/, for everybody who reaches it"), "{said}");
    assert_eq!(world.rules(), before);
    assert!(!world.state().exists());
}

#[test]
fn it_names_what_is_wrong_and_the_remedy() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    for (settings, code, words) in [
        ("lan = 'lan'\nwan = 'wan'\n", 0, "neither down nor up has a rate"),
        (
            "lan = 'lan'\nwan = 'wan'\ndown = '1mbit'\ndecisions = '/run/x.csv'\n",
            0,
            "decisions: neither down nor up is auto",
        ),
        (
            "lan = 'lan'\nwan = 'nosuch'\ndown = '1mbit'\n",
            1,
            "no network interface is called 'nosuch': see `ip link`",
        ),
        (
            "lan = 'lan'\nwan = 'wan'\ndown = '1mbit'\npage = '0.0.0.0:80'\n",
            2,
            "127.0.0.1 is for this machine alone; page_for_others = true",
        ),
        ("lan = 'lan'\nwan = 'wan'\ndwon = '1mbit'\n", 2, "line 3: dwon: no such key"),
    ] {
        let (got, said) = check(&world, settings);
        assert!(got == Some(code) && said.contains(words), "{settings}: {got:?} {said}");
    }
    world.ip("b", "link set wan down");
    let (code, said) = check(&world, "lan = 'lan'\nwan = 'wan'\ndown = '1mbit'\n");
    assert!(code == Some(0) && said.contains("wan is down: ip link set wan up"), "{said}");
    // The command run takes it as well.
    world.start("--down 4mbit --discipline fifo:20").stop();
}

/// A file of circuits with good rows and bad ones: a check, a start and a reload take the good ones.
#[test]
fn rows_of_circuits_that_cannot_be_used_are_listed() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let file = world.dir.join("circuits.csv");
    let rows = "circuit_id;device_id;ipv4;mac;download_max_mbps;tower\n\
                a;1;10.77.0.2;0200.5e00.5301;2,5;N\na;2;10.77.0.3;;7,5\nb;3;10.77.0;;1\nc;4;;carol@isp;1\n";
    std::fs::write(&file, rows).unwrap();
    let settings =
        format!("lan = 'lan'\nwan = 'wan'\ndown = '8mbit'\nup = '1mbit'\ncircuits = '{}'\n", file.display());
    let (code, said) = check(&world, &settings);
    let name = file.display();
    for words in [
        "circuits: 2 circuits with 3 devices, from 3 of 4 rows".to_owned(),
        format!("{name}, line 1: 'tower': no column is called so"),
        format!("CHECK  {name}, line 3, column Download Max Mbps: circuit 'a' has another rate in line 2"),
        format!("CHECK  {name}, line 4, column IPv4: '10.77.0' is no address and no prefix"),
        format!("CHECK  {name}, line 5, column MAC: 'carol@isp' is no MAC address"),
    ] {
        assert!(said.contains(&words), "{words}: {said}");
    }
    assert!(code == Some(0) && said.contains("line 4") && said.contains("; this row is left out"), "{said}");
    let strict = world.narrows(&format!("check --strict {}", world.dir.join("box.toml").display()));
    let refused = { strict }.output().unwrap();
    let why = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{why}");
    assert!(why.contains("line 3, column Download Max Mbps") && why.contains("and 2 more"), "{why}");
    // The box runs with it, and goes on when the file becomes worse.
    let running = world.start_configured();
    for worse in ["circuit_id;ipv4\nz;10.77.0.999\n", "10.77.0.2,5,1\n", "PK\u{3}\u{4}", "\u{0}\u{0}\u{0}"] {
        std::fs::write(&file, worse).unwrap();
        running.signal(nix::sys::signal::Signal::SIGHUP);
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    running.stop();
}

#[test]
fn interfaces_and_rates_that_are_exchanged_are_noticed() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let ask = |settings: &str| check(&world, settings);
    let fine = "lan = 'lan'\nwan = 'wan'\ndown = '2mbit'\nup = '512kbit'\n";
    world.ip("b", "route add default via 10.78.0.2");
    let (code, said) = ask(fine);
    assert!(code == Some(0) && said.contains("Nothing is wrong"), "{said}");
    let (code, said) = ask("lan = 'wan'\nwan = 'lan'\ndown = '2mbit'\nup = '512kbit'\n");
    assert!(code == Some(0) && said.contains("leaves by wan, which is said to be the users'"), "{said}");
    let (code, said) = ask("lan = 'lan'\nwan = 'wan'\ndown = '512kbit'\nup = '2mbit'\n");
    assert!(code == Some(0) && said.contains("more goes up (2mbit) than comes down (512kbit)"), "{said}");
    assert!(said.contains("It would run"), "{said}");
}

#[test]
fn a_packet_filter_that_would_cut_bridges_is_named_and_nothing_is_touched() {
    if !can_keep(Kind::Bridged, "iptables") {
        return;
    }
    let world = World::with(Kind::Bridged, "iptables");
    let shown = || world.exec("b", "cat /proc/sys/net/bridge/bridge-nf-call-iptables").trim().to_owned();
    let set = |value: &str| {
        let name = |version: &str| format!("net.bridge.bridge-nf-call-{version}tables={value}");
        world.exec("b", &format!("sysctl -qw {} {}", name("ip"), name("ip6")));
    };
    let settings = "lan = 'lan'\nwan = 'wan'\ndown = '4mbit'\nrules = 'iptables'\n";
    for (drop, undo) in [
        ("iptables-legacy -P FORWARD DROP", "iptables-legacy -P FORWARD ACCEPT"),
        (
            "nft add table ip t; add chain ip t f { type filter hook forward priority 0; policy drop; }",
            "nft delete table ip t",
        ),
    ] {
        set("0");
        world.exec("b", drop);
        let before = world.rules();
        let said = world.refused("--down 4mbit");
        assert!(
            said.contains("bridges would be cut") && said.contains("physdev-is-bridged"),
            "{drop}: {said}"
        );
        let (code, said) = check(&world, settings);
        assert!(code == Some(1) && said.contains("bridges would be cut"), "{drop}: {code:?} {said}");
        let out = world.narrows("doctor").output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(said.contains("bridges that are not cut"), "{said}");
        assert_eq!((world.rules(), shown().as_str()), (before, "0"), "{drop}");
        world.fetch(world.server4(), 50_000).complete();
        // Whoever has them shown already knows what becomes of them.
        set("1");
        let (_, said) = check(&world, settings);
        assert!(!said.contains("bridges would be cut"), "{said}");
        world.exec("b", undo);
    }
    set("0");
    let running = world.start("--down 4mbit");
    world.fetch(world.server4(), 50_000).complete();
    running.stop();
    assert_eq!(shown(), "0");
}
