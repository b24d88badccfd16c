//! The senders in this machine's kernel, with real connections between namespaces. Skipped, with the reason, where that
//! cannot be.

#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

mod world;

use narrows_senders::{self as senders, Sender};
use world::{World, can_run, connect, push, sure};

#[test]
fn loads_runs_and_leaves_no_connection_behind() {
    if !can_run("loads_runs_and_leaves_no_connection_behind") {
        return;
    }
    let mut world = World::new();
    for (port, sender) in (5001..).zip(Sender::ALL) {
        let name = world.load(sender, &[]);
        let loaded = senders::loaded(&world.bpffs).unwrap();
        assert_eq!(loaded.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(), [name.as_str()]);
        assert_eq!(loaded[0].settings, senders::Settings::new(sender));
        let again = senders::load(&world.bpffs, &name, &loaded[0].settings).unwrap_err().to_string();
        assert!(again.contains(&format!("the name {name} is in use")), "{again}");

        let flows = 20;
        let sink = world.sink(port, flows);
        let using = name.clone();
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let (half, half_done) = std::sync::mpsc::channel();
        let source = world.inside("s", move || {
            let mut streams: Vec<_> = (0..flows).map(|_| connect(&using, port)).collect();
            streams.iter_mut().for_each(|s| push(s, 200_000));
            half.send(senders::sockets().unwrap()).unwrap();
            wait.recv().unwrap();
            streams.iter_mut().for_each(|s| push(s, 200_000));
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
        assert_eq!(sink.join().unwrap(), vec![400_000; flows]);
        assert!(senders::loaded(&world.bpffs).unwrap().is_empty());
    }
}
