//! The status page: what it says, and that its readers cannot harm the box.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::live_box::world::{Kind, World, inside};

/// Answer of the page to a request from the box's own machine.
pub fn asked(world: &World, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost:8088\r\nConnection: close\r\n\r\n");
    said(world, 8088, request).unwrap()
}

/// Answer of a server on a port of the box's own machine, if there is one.
pub fn said(world: &World, port: u16, request: String) -> std::io::Result<String> {
    let answer = inside(&world.ns("b"), move || {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        // A client that is sent away may hear it before it has asked.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        Ok(answer)
    });
    answer.join().unwrap()
}

#[test]
fn it_says_whether_packets_are_handled() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let running = world.start("--down 4mbit --discipline fifo:20 --page 127.0.0.1:8088");
    for path in ["/health", "/ready", "/", "/status.json"] {
        let answer = asked(&world, path);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {answer}");
        let policy = answer.to_lowercase().contains("\r\ncontent-security-policy: default-src 'none'; ");
        assert!(policy, "{path}: {answer}");
    }
    assert!(asked(&world, "/nothing").starts_with("HTTP/1.1 404"));
    world.ip("b", "link del lan");
    running.wait_for("it is told", |s| !s.notices.is_empty());
    let answer = asked(&world, "/ready");
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("interface lan is missing"), "{answer}");
    assert!(asked(&world, "/health").starts_with("HTTP/1.1 200"));
    running.stop();
}

#[test]
fn readers_of_other_machines_take_no_place_of_this_ones() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    world.configure(
        "down = '20mbit'\ndiscipline = 'fifo:100'\npage = '0.0.0.0:8088'\npage_for_others = true\n",
    );
    let running = world.start_configured();
    // Idle readers open again whenever they are sent away.
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = stop.clone();
    let idle = inside(&world.ns("c"), move || {
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            let open: Vec<_> = (0..80).filter_map(|_| TcpStream::connect(("10.77.0.1", 8088)).ok()).collect();
            std::thread::sleep(Duration::from_secs(3));
            drop(open);
        }
    });
    std::thread::sleep(Duration::from_secs(1));
    for _ in 0..40 {
        let answer = asked(&world, "/health");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        std::thread::sleep(Duration::from_millis(100));
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    idle.join().unwrap();
    running.stop();
}

#[test]
fn a_thousand_idle_readers_keep_nobody_from_anything() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let before = world.rules();
    let running = world.start("--down 20mbit --discipline fifo:100 --page 127.0.0.1:8088");
    let idle = inside(&world.ns("b"), || {
        (0..1000).filter_map(|_| TcpStream::connect("127.0.0.1:8088").ok()).collect::<Vec<_>>()
    });
    let idle = idle.join().unwrap();
    assert!(idle.len() > 64, "{}", idle.len());
    world.fetch(world.server4(), 100_000).complete();
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", running.pid())).unwrap().count();
    assert!(descriptors < 120, "{descriptors}");
    // Idle clients are sent away, and their places go to others.
    let mut answer = String::new();
    for _ in 0..100 {
        answer = asked(&world, "/health");
        if !answer.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    running.stop();
    assert_eq!(world.rules(), before);
    drop(idle);
}
