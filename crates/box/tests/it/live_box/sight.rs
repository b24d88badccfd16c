//! Stalls of real connections: in the status, on the dashboard, for Prometheus.

use std::process::{Command, Stdio};

use narrows_box::{StallJson, Status};
use narrows_testing::{running as test, skip_part};

use crate::live_box::check::check;
use crate::live_box::page::asked;
use crate::live_box::process::BoxProcess;
use crate::live_box::world::{Kind, World};

/// Starts a box with these flags, and a transfer whose packets get lost behind it until its sender's timer has expired.
fn stalled(world: &World, flags: &str) -> (BoxProcess, Status) {
    let running = world.start(&format!("{flags} --page 127.0.0.1:8088"));
    // An observer does not slow it down.
    world.exec("s", "tc qdisc replace dev e0 root tbf rate 6mbit burst 8kb latency 100ms");
    let fetch = world.fetch(world.server4(), 2_000_000);
    running.wait_for("data flows", |s| s.sight.goodput_bytes[0] > 100_000);
    world.exec("c", "iptables-legacy -I INPUT -p tcp -j DROP");
    running.wait_for("it stalls", |s| {
        s.sight.stalls_now.iter().any(|stall| is_loss_behind(stall) && stall.timeouts > 1)
    });
    world.exec("c", "iptables-legacy -D INPUT -p tcp -j DROP");
    fetch.complete();
    // The last acknowledgment passes after the data are there.
    let status = running.wait_for("it is over", |s| {
        let told = s.sight.stalls_now.is_empty() && s.sight.stalls_last.iter().any(is_loss_behind);
        told && s.sight.goodput_bytes[0] >= 2_000_000
    });
    (running, status)
}

fn is_loss_behind(stall: &StallJson) -> bool {
    stall.direction == "down" && stall.lost == "behind" && stall.user == "10.77.0.2"
}

#[test]
fn a_loss_behind_the_box_is_told_with_its_evidence() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    for flags in ["--down 4mbit --up 1mbit --discipline fifo:50", "--observe"] {
        let (running, s) = stalled(&world, flags);
        let stall = s.sight.stalls_last.iter().find(|s| is_loss_behind(s)).unwrap();
        assert_eq!(stall.repair.as_deref(), Some("timeout"), "{stall:?}");
        assert!(stall.backoff > 1 && stall.flow.starts_with("10.77.0.2:"), "{stall:?}");
        let lost = |place: &str| s.sight.lost.iter().find(|l| l.place == place).unwrap().total_s;
        assert!(lost("behind") > 0.2 && lost("before") == 0.0, "{:?}", s.sight.lost);
        assert_eq!((s.sight.users_seen, s.sight.users[0].user.as_str()), (1, "10.77.0.2"));
        assert!(s.sight.timeouts > 1 && s.sight.words.ends_with('.'), "{}", s.sight.words);
        running.stop();
    }
}

/// A name of the DHCP server's, which it changes; without one the host's MAC address.
#[test]
fn who_uses_the_link_has_the_name_of_its_lease() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let file = world.dir.join("leases");
    let lease =
        |name: &str| std::fs::write(&file, format!("0 02:00:00:00:00:01 10.77.0.2 {name} *\nx\n")).unwrap();
    lease("laptop");
    let settings = format!("down = '4mbit'\npage = '127.0.0.1:8088'\nleases = '{}'\n", file.display());
    let (code, said) = check(&world, &format!("lan = 'lan'\nwan = 'wan'\n{settings}"));
    assert!(code == Some(0) && said.contains("1 users have names by "), "{said}");
    assert!(said.contains(", 1 line of it cannot be read"), "{said}");
    world.configure(&settings);
    let running = world.start_configured();
    world.fetch(world.server4(), 200_000).complete();
    let named = |name: &str| {
        let is_named = |s: &Status| s.sight.talkers.first().is_some_and(|t| t.name.as_deref() == Some(name));
        running.wait_for(name, is_named)
    };
    let talker = named("laptop").sight.talkers[0].clone();
    assert_eq!(talker.user, "10.77.0.2");
    let metrics = asked(&world, "/metrics");
    let labels = "link=\"lan-wan\",user=\"10.77.0.2\",name=\"laptop\",direction=\"down\"";
    assert!(metrics.contains(&format!("narrows_top_user_hour_delivered_bytes{{{labels}}} ")), "{metrics}");
    let said = world.narrows("status --control").arg(running.control()).output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&said).contains("laptop (10.77.0.2): "));
    lease("tablet");
    named("tablet");
    std::fs::remove_file(&file).unwrap();
    named(world.exec("c", "cat /sys/class/net/e0/address").trim());
    running.stop();
}

#[test]
fn the_dashboard_and_prometheus_are_told() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let (running, _) = stalled(&world, "--down 4mbit --discipline taq");
    let metrics = asked(&world, "/metrics");
    assert!(metrics.contains("application/openmetrics-text") && metrics.ends_with("# EOF\n"), "{metrics}");
    assert!(
        metrics.contains("narrows_loss_stalled_seconds_total{link=\"lan-wan\",place=\"behind\"}"),
        "{metrics}"
    );
    assert!(metrics.contains("narrows_users{link=\"lan-wan\",kind=\"seen\"} 1"), "{metrics}");
    for (path, kind) in [
        ("/dashboard", "text/html"),
        ("/dashboard.js", "text/javascript"),
        ("/parts.css", "text/css"),
        ("/parts.js", "text/javascript"),
        ("/dashboard.css", "text/css"),
    ] {
        let answer = asked(&world, path);
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains(kind), "{path}: {answer}");
    }
    // Two samples, and the stall.
    let mut history = String::new();
    for _ in 0..60 {
        history = asked(&world, "/history.json?since=0");
        if history.matches("\"at_s\"").count() >= 2 && history.contains("\"lost\":\"behind\"") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    assert!(history.matches("\"at_s\"").count() >= 2, "{history}");
    in_chromium(&world);
    running.stop();
}

/// Chromium draws both pages without an error, narrow and wide; the dashboard has the stall.
fn in_chromium(world: &World) {
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|p| {
        Command::new(p).arg("--version").stderr(Stdio::null()).output().is_ok_and(|o| o.status.success())
    });
    let Some(browser) = found else {
        skip_part(&test(), "opening the pages", "no Chromium; apt-get install chromium");
        return;
    };
    for (path, width) in [("dashboard", 1440), ("dashboard", 390), ("", 390)] {
        let page = drawn(world, browser, path, width);
        assert!(page.contains("since the start"), "{page}");
        for word in ["slow_start", "pool", "undefined", "NaN", "wait of those"] {
            let body = page.split("<script").next().unwrap_or_default();
            assert!(!body.contains(word), "{word}: {body}");
        }
        if path == "dashboard" {
            assert!(page.contains("lost behind the box") && page.contains("10.77.0.2:"), "{page}");
            assert!(page.contains("Link, goodput and rate, down"), "{page}");
            assert!(page.contains("waiting their turn 0"), "{page}");
            // The box is young.
            assert!(page.contains("data-minutes=\"5\" aria-pressed=\"true\""), "{page}");
        } else {
            assert!(page.contains("waiting their turn (normal on a full link)"), "{page}");
            assert!(page.contains("bit/s of 4.00 Mbit/s"), "rates at the first look: {page}");
        }
    }
}

/// A page as Chromium has it after its scripts have run.
fn drawn(world: &World, browser: &str, path: &str, width: u32) -> String {
    let out = Command::new("ip")
        .args(["netns", "exec", &world.ns("b"), "timeout", "60", browser, "--headless", "--no-sandbox"])
        .args(["--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom"])
        .arg(format!("--window-size={width},1000"))
        .arg(format!("--user-data-dir={}", world.dir.join("chromium").display()))
        .arg(format!("http://127.0.0.1:8088/{path}"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (page, log) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(!log.contains("Uncaught") && !log.contains("SyntaxError"), "{log}");
    page.into_owned()
}
