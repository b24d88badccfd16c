use narrows_tcp::{Handshake, Recovery};
use narrows_units::{Duration, Rate};

use super::*;
use crate::{LogSource, Loss, OpenedBy, Series, Size, Topology, TrafficKind};

mod edges;
mod impossible;
mod only_in_lab;

const THIN: &str = r#"
    name = "t"
    rate = "600kbit"
    rtt = "200ms"
    disciplines = ["fifo:30", "taq"]
    [[traffic]]
    kind = "objects"
    users = 100
    [[traffic]]
    kind = "long"
    flows = 2
"#;

const LONG: &str = r#"
    name = "l"
    duration = "10s"
    jitter = "1s"
    discipline = "fifo:30"
    [[link]]
    from = "a"
    to = "b"
    rate = "1mbit"
    delay = "50ms"
    drop = [3, 1]
    [[link]]
    name = "second"
    from = "b"
    to = "c"
    rate = "2mbit"
    back_rate = "64kbit"
    loss = "gilbert:to_bad=0.01,to_good=0.3"
    [[hosts]]
    name = "servers"
    at = "a"
    delay = "10ms..20ms"
    [[hosts]]
    name = "clients"
    at = "c"
    count = 5
    [hosts.tcp]
    preset = "linux"
    delayed_ack = "off"
    [[traffic]]
    kind = "long"
    flows = 3
"#;

fn all(text: &str) -> Result<Vec<Run>, Error> {
    Experiment::parse(text, &[])?.expand()
}

/// The only run of `text`.
fn one(text: &str) -> Scenario {
    let runs = all(text).unwrap();
    assert_eq!(runs.len(), 1);
    (*runs[0].scenario).clone()
}

fn without_disciplines(text: &str) -> String {
    text.replace("disciplines = [\"fifo:30\", \"taq\"]", "discipline = \"fifo:30\"")
}

#[test]
fn the_short_form_is_a_dumbbell() {
    let s = one(&without_disciplines(THIN));
    let t = &s.topology;
    assert_eq!(t.nodes, ["left", "right"]);
    let names: Vec<&str> = t.links.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["thin", "thin.back"]);
    assert_eq!((t.links[0].back, t.links[1].back, t.links[1].from), (Some(1), Some(0), 1));
    assert_eq!((t.links[0].rate, t.links[1].rate), (Rate::from_kbps(600), Rate::from_kbps(60_000)));
    assert_eq!((t.hosts[0].count, t.hosts[1].count), (102, 102));
    // Half of the propagation each way, on the servers' side as in the lab.
    assert_eq!((t.hosts[0].delay.low, t.hosts[1].delay.low), (Duration::from_millis(100), Duration::ZERO));
    assert_eq!((s.duration, s.jitter, s.mtu), (Duration::from_secs(120), Duration::from_secs(2), 1500));
    assert_eq!(t.links[0].overhead, 14);
    let [objects, long] = s.traffic.as_slice() else { panic!("{:?}", s.traffic) };
    assert_eq!((objects.first, long.first), (0, 100));
    assert_eq!((objects.opened_by, objects.request, objects.header), (OpenedBy::Receiver, 120, 200));
    assert_eq!((long.opened_by, long.request, long.name.as_str()), (OpenedBy::Sender, 0, "long"));
    assert!(matches!(objects.kind, TrafficKind::Objects { connections: 1, size: Size::Web, .. }));
}

#[test]
fn delays_lie_evenly_or_at_random() {
    let s = one(&without_disciplines(THIN).replace("\"200ms\"", "\"190ms..210ms\""));
    let d = s.topology.hosts[0].delay;
    let ms = |i| d.of(i, 101, 0).as_nanos() as f64 / 1e6;
    assert_eq!((ms(0), ms(50), ms(100)), (95.0, 100.0, 105.0));
    assert_eq!(d.of(0, 1, 0), Duration::from_millis(100));
    let random = crate::Delays { spread: crate::Spacing::Random, ..d };
    assert_eq!(random.of(0, 1, 0), d.low);
    assert!(random.of(0, 1, u64::MAX) <= d.high && random.of(0, 1, u64::MAX) > Duration::from_millis(104));
}

#[test]
fn the_long_form() {
    let s = one(LONG);
    let t = &s.topology;
    let names: Vec<&str> = t.links.iter().map(|l| l.name.as_str()).collect();
    assert_eq!((names, t.nodes.len()), (vec!["a-b", "a-b.back", "second", "second.back"], 3));
    assert_eq!((t.links[0].drop.as_slice(), t.links[3].rate.as_bps()), ([1, 3].as_slice(), 64_000));
    let loss = Loss::GilbertElliott { to_bad: 0.01, to_good: 0.3, bad: 1.0, good: 0.0 };
    assert_eq!((t.links[2].loss, t.links[3].loss), (loss, Loss::None));
    assert_eq!((t.hosts[0].count, t.hosts[1].count), (3, 5));
    assert_eq!(t.hosts[0].rate, Rate::from_kbps(200_000));
    assert_eq!(
        (t.route(0, 2), t.route(2, 0), t.route(1, 1)),
        (Some(vec![0, 2]), Some(vec![3, 1]), Some(vec![]))
    );
    assert_eq!((s.traffic[0].tcp_to.delayed_ack, s.traffic[0].tcp_from.delayed_ack.is_some()), (None, true));
}

#[test]
fn shapes() {
    let shape = |what: &str| {
        one(&format!(
            "name = \"s\"\ndiscipline = \"taq\"\n[topology]\nrate = \"1mbit\"\ndelay = \"5ms\"\n{what}\n[[traffic]]\n\
             kind = \"long\"\nflows = 4\n"
        ))
        .topology
    };
    let t = shape("kind = \"parking_lot\"\nhops = 3");
    assert_eq!((t.nodes.len(), t.links.len(), t.hosts.len()), (4, 6, 8));
    assert_eq!((t.route(0, 3), t.hosts[0].count, t.hosts[2].count), (Some(vec![0, 2, 4]), 4, 1));
    let t = shape("kind = \"diamond\"\nlower_delay = \"1ms\"");
    // The lower branch has less propagation.
    let way: Vec<&str> = t.route(0, 3).unwrap().iter().map(|l| t.links[*l].name.as_str()).collect();
    assert_eq!(way, ["left-lower", "lower-right"]);
    let t = shape("kind = \"dumbbell\"");
    assert_eq!((t.links.len(), t.links[1].rate), (2, Rate::from_kbps(1000)));
}

#[test]
fn routes_take_the_least_propagation_then_the_fewest_links() {
    let mut t = Topology { nodes: ["a", "b", "c"].map(str::to_owned).to_vec(), ..Topology::default() };
    let link = one(LONG).topology.links[0].clone();
    for (from, to, ms) in [(0, 2, 10), (0, 1, 4), (1, 2, 5), (0, 2, 9)] {
        t.links.push(crate::Link { from, to, delay: Duration::from_millis(ms), ..link.clone() });
    }
    assert_eq!(t.route(0, 2), Some(vec![3]));
    assert_eq!(t.route(2, 0), None);
}

#[test]
fn sweeps_expressions_seeds() {
    let text = r#"
        name = "s"
        rtt = "200ms"
        mtu = 500
        seeds = "1..3"
        disciplines = [{ label = "drop-tail", value = "fifo:{rate*rtt/8/mtu}" }, "taq"]
        [vars]
        share = 5000
        [sweep]
        rate = ["200kbit", "600kbit"]
        share = [2000, 5000]
        [tcp]
        preset = "ns2"
        [[traffic]]
        kind = "long"
        flows = "=rate/share"
    "#;
    let e = Experiment::parse(text, &[]).unwrap();
    assert_eq!((e.points(), e.seeds.len()), (8, 3));
    assert_eq!(e.swept().collect::<Vec<_>>(), ["discipline", "rate", "share"]);
    let runs = e.expand().unwrap();
    assert_eq!(runs.len(), 24);
    let find = |d: &str, r: &str, s: &str| {
        let coords = [("discipline", d), ("rate", r), ("share", s)];
        runs.iter().find(|run| coords.iter().all(|(k, v)| run.coords[*k] == *v)).unwrap()
    };
    let run = find("drop-tail", "600kbit", "2000");
    assert_eq!(run.scenario.topology.links[0].discipline.to_string(), "fifo:30");
    assert_eq!(run.scenario.traffic[0].kind, TrafficKind::Long { flows: 300 });
    assert_eq!(find("drop-tail", "200kbit", "5000").scenario.traffic[0].users(), 40);
    assert_eq!(run.scenario.traffic[0].tcp_from.mss, 460);
    assert_eq!(run.scenario.traffic[0].tcp_from.handshake, Handshake::SynIsPacketZero);
    // The seeds of a point share one scenario; the canonical text reads as the same scenario by itself.
    assert!(Arc::ptr_eq(&runs[0].scenario, &runs[2].scenario) && runs[1].seed == 2);
    assert!(!run.scenario.text.contains("sweep") && !run.scenario.text.contains("vars"));
    assert_eq!(one(&run.scenario.text), *run.scenario);
    // A key that is set is no longer swept.
    let sets = ["share=6000".to_owned(), "rate=300kbit".to_owned(), "discipline=taq".to_owned()];
    let set = Experiment::parse(text, &sets).unwrap();
    assert_eq!((set.points(), set.expand().unwrap()[0].scenario.traffic[0].users()), (1, 50));
}

#[test]
fn the_hash_is_of_what_decides_a_run() {
    let of = |text: &str| one(&without_disciplines(text)).hash;
    let renamed = THIN.replace("name = \"t\"", "name = \"u\"\nabout = \"other\"");
    assert_eq!((of(THIN), of(THIN).len()), (of(&renamed), 64));
    assert_ne!(of(THIN), of(&THIN.replace("users = 100", "users = 101")));
}

#[test]
fn every_kind_of_traffic() {
    let with = |entry: &str| {
        let text = format!("name = \"k\"\nrate = \"1mbit\"\ndiscipline = \"taq\"\n[[traffic]]\n{entry}");
        one(&text).traffic.remove(0)
    };
    let files = with("kind = \"files\"\nflows = 32\narrivals = 0.5\nsize = [500, 40000]\nusers = 8");
    assert_eq!(files.kind.parallel(), 32);
    assert!(matches!(files.kind, TrafficKind::Files { flows: Some(32), arrivals: Some(0.5), users: 8, .. }));
    let pages = with("kind = \"pages\"\nusers = 3\nobjects = \"exp:10\"\nthink = \"5s\"");
    assert!(matches!(pages.kind, TrafficKind::Pages { users: 3, connections: 6, .. }));
    let telnet = with("kind = \"telnet\"\nflows = 3\nstart = \"5s\"\nstop = \"50s\"\nname = \"shell\"");
    assert_eq!((telnet.name.as_str(), telnet.stop), ("shell", Duration::from_secs(50)));
    let udp = with("kind = \"udp\"\nflows = 1\nrate = \"64kbit\"\non = \"1s\"\noff = \"2s\"");
    assert!(matches!(udp.kind, TrafficKind::Udp { packet: 500, .. }));
    let log = with(
        "kind = \"log\"\nclients = 2\nsynthetic = { requests = 20, clients = 221, zipf = 0.8, size = \"web\" }\n\
         timing = \"back_to_back\"",
    );
    assert!(matches!(
        log.kind,
        TrafficKind::Log { source: LogSource::Synthetic { clients: 221, .. }, connections: 4, .. }
    ));
    let own = with(
        "kind = \"long\"\nflows = 1\ntcp = { recovery = \"newreno\", rack_tlp = false, dsack = false, prr = false }",
    );
    assert_eq!(own.tcp_from.recovery, Recovery::NewReno);
}

#[test]
fn a_log_is_found_beside_the_file() {
    let folder = std::env::temp_dir().join(format!("narrows-scenario-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.csv"), "0,x,1000\n1,y,2000\n").unwrap();
    let file = folder.join("s.toml");
    let text = "name = \"k\"\nrate = \"1mbit\"\ndiscipline = \"taq\"\n[[traffic]]\nkind = \"log\"\nfile = \
     \"a.csv\"\nclients = 2\n";
    std::fs::write(&file, text).unwrap();
    let hash = |e: Experiment| e.expand().map(|r| r[0].scenario.hash.clone());
    let first = hash(Experiment::load(&file, &[]).unwrap()).unwrap();
    std::fs::write(folder.join("a.csv"), "0,x,1000\n1,y,2001\n").unwrap();
    let second = hash(Experiment::load(&file, &[]).unwrap()).unwrap();
    let missing = hash(Experiment::load(&file, &["traffic.0.file=b.csv".to_owned()]).unwrap()).unwrap_err();
    let no_file = Experiment::load(&folder.join("no.toml"), &[]).unwrap_err();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_ne!(first, second, "the contents count");
    let e = missing.to_string();
    assert!(
        e.contains("s.toml: traffic.0.file = 'b.csv': expected an access log: ")
            && e.contains("cannot be read"),
        "{e}"
    );
    assert!(no_file.to_string().contains("no.toml: cannot be read"), "{no_file}");
}

#[test]
fn the_lab_heeds_logs_alone_of_the_probes() {
    let ignored = |probes: &str| {
        let lab = Experiment::parse(&format!("{THIN}[probes]\n{probes}\n"), &[]).unwrap().for_lab().unwrap();
        (lab.scenario.probes.qlog, lab.ignored)
    };
    assert_eq!(ignored("qlog = 3"), (3, vec![]));
    let (qlog, said) = ignored("qlog = 3\nslice = \"10s\"");
    assert!(qlog == 3 && said.len() == 1 && said[0].starts_with("probes: "), "{said:?}");
}

#[test]
fn probes() {
    let s = one(&format!(
        "{}[probes]\nslice = \"10s\"\nseries = [\"cwnd\", \"queue\"]\nepochs = \"400ms\"\ncapture = \
         [\"thin.back\"]\nstalls = []\n",
        without_disciplines(THIN)
    ));
    assert_eq!((s.probes.series, s.probes.capture), (vec![Series::Queue, Series::Cwnd], vec![1]));
    assert_eq!((s.probes.epochs, s.probes.stalls), (Some(Duration::from_millis(400)), vec![]));
}

#[test]
fn groups_of_objects() {
    let with = |groups: &str| {
        Experiment::parse(&format!("{}[probes]\ngroups = [{groups}]\n", without_disciplines(THIN)), &[])
            .and_then(|e| e.expand().map(|runs| runs[0].scenario.probes.groups.clone()))
    };
    let s = one(&without_disciplines(THIN));
    let name = &s.traffic[0].name;
    let both = with(&format!(
        "{{ name = \"mice\", up_to = \"32KiB\" }}, {{ name = \"rest\", over = 32768, traffic = [\"{name}\"] }}"
    ));
    let [mice, rest] = &both.unwrap()[..] else { panic!("two") };
    assert_eq!((mice.over, mice.up_to, mice.traffic.len()), (0, 32_768, s.traffic.len()));
    assert_eq!((rest.over, rest.up_to, &rest.traffic[..]), (32_768, u64::MAX, &[0][..]));
    // The bound itself is the smaller ones'.
    assert!(mice.has(0, 32_768) && !rest.has(0, 32_768) && rest.has(0, 32_769) && !rest.has(1, 99_999));
    for (wrong, says) in [
        ("{ up_to = 5 }", "a name for the figures"),
        ("{ name = \"a-b\" }", "letters, digits and '_'"),
        ("{ name = \"a\" }, { name = \"a\" }", "no other group"),
        ("{ name = \"a\", over = 5, up_to = 5 }", "more than over = 5"),
        ("{ name = \"a\", traffic = [\"nobody\"] }", "names of traffic"),
    ] {
        let e = with(wrong).unwrap_err().to_string();
        assert!(e.contains(says), "{wrong}: {e}");
    }
}

#[test]
fn what_only_one_side_can_do() {
    let text = THIN.replace("\"taq\"]", "\"taq\", \"kernel:cake\"]\nbackend = \"packet\"");
    let mut e = Experiment::parse(&text, &[]).unwrap();
    assert!(e.expand().unwrap_err().to_string().contains("'kernel:cake': expected one of ours"));
    assert_eq!(e.for_simulator().unwrap().len(), 2);
    assert_eq!(e.expand().unwrap().len(), 2);
    let mut only = Experiment::parse(&text, &["disciplines=[\"kernel:cake\"]".to_owned()]).unwrap();
    assert!(only.for_simulator().unwrap_err().to_string().contains("at least one of ours"));

    let text = text.replace(
        "rtt = \"200ms\"",
        "rtt = \"190ms..210ms\"\ndephase = \"30ms\"\ncongestion_control = \"bbr\"",
    );
    let text = format!("{text}opened_by = \"sender\"\n[tcp]\npreset = \"ns2\"\n");
    let lab = Experiment::parse(&text, &[]).unwrap().for_lab().unwrap();
    assert_eq!(lab.disciplines, ["fifo:30", "taq", "kernel:cake"]);
    assert_eq!(lab.scenario.lab.congestion_control, "bbr");
    let said = lab.ignored.join("\n");
    for word in
        ["tcp: not heeded", "dephase: not heeded", "rtt: the lab takes the middle", "traffic.1.opened_by"]
    {
        assert!(said.contains(word), "{said}");
    }
    for (text, says) in [
        (LONG.to_owned(), "link.1.loss: only the link before the box"),
        (format!("{THIN}[sweep]\nrate = [\"1mbit\"]"), "choose one, as --set rate="),
        (
            format!("{THIN}[[traffic]]\nkind = \"telnet\"\nflows = 1"),
            "traffic.2.kind = 'telnet': expected objects or long",
        ),
    ] {
        let e = Experiment::parse(&text, &[]).unwrap().for_lab().unwrap_err().to_string();
        assert!(e.contains(says), "{e}");
    }
}

#[test]
fn the_lab_leaves_out_disciplines_it_cannot_have() {
    let text = THIN.replace("\"taq\"]", "\"nonsense\"]");
    assert_eq!(
        Experiment::parse(&text, &[]).unwrap().for_lab().unwrap().disciplines,
        ["fifo:30", "nonsense"]
    );
    let none = Experiment::parse(&text, &["disciplines=[\"nonsense\"]".to_owned()]).unwrap();
    assert!(none.for_lab().unwrap_err().to_string().contains("discipline = 'nonsense': expected one of"));
}

#[test]
fn an_error_names_the_point_only_where_it_matters() {
    let of = |text: &str| all(text).unwrap_err().to_string();
    assert!(!of(&THIN.replace("users = 100", "users = 0")).contains("(at"));
    assert!(of(&THIN.replace("\"taq\"]", "\"taqq\"]")).ends_with("(at discipline=taqq)"));
}

/// Mistakes in a file, each with the whole sentence that reports it.
#[test]
fn replacements_name_themselves() {
    let set = |s: &str| Experiment::parse(THIN, &[s.to_owned()]);
    assert_eq!(set("traffic.0.users=7").unwrap().expand().unwrap()[0].scenario.topology.hosts[0].count, 9);
    assert_eq!(
        set("traffic.long.flows=7").err().map(|e| e.key).as_deref(),
        Some("--set traffic.long.flows=7: traffic.long.flows")
    );
    assert_eq!(set("seeds=[4, 5]").unwrap().seeds, [4, 5]);
    assert_eq!(set("seeds=1..4").unwrap().seeds, [1, 2, 3, 4]);
    assert!(set("duration").unwrap_err().to_string().contains("expected key=value"));
    assert!(set("traffic.7.users=7").unwrap_err().to_string().contains("0 to 1"));
}

/// Every scenario file of the repository is one a simulator can run.
#[test]
fn the_experiments_here_are_sound() {
    let Some(root) = narrows_testing::repository(env!("CARGO_MANIFEST_DIR")) else { return };
    let experiments = root.join("experiments");
    let mut read = 0;
    for folder in std::fs::read_dir(experiments).unwrap().map(|f| f.unwrap().path()).filter(|f| f.is_dir()) {
        for file in std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path()) {
            if file.extension().is_some_and(|e| e == "toml") {
                let mut e = Experiment::load(&file, &[]).unwrap_or_else(|e| panic!("{e}"));
                e.for_simulator().unwrap_or_else(|e| panic!("{e}"));
                match e.expand() {
                    Ok(runs) => assert!(!runs.is_empty()),
                    // Traces are others' data, which need not be here.
                    Err(e) if e.key.ends_with(".trace") && !folder.join("traces").exists() => {
                        println!("skipped: {e}");
                    }
                    Err(e) => panic!("{e}"),
                }
                read += 1;
            }
        }
    }
    assert!(read >= 7, "{read}");
}

#[test]
fn what_the_simulator_has_of_tls_and_quic() {
    let file = |traffic: &str| {
        format!(
            "name = \"t\"\nrate = \"1mbit\"\nmtu = 1500\ndiscipline = \"taq\"\ntraffic = [{{ {traffic} }}]\n"
        )
    };
    let read = |text: &str| Experiment::parse(text, &[]).unwrap().expand().map_err(|e| e.to_string());
    let tls = file("kind = \"long\", flows = 2, transport = \"tls\"");
    let experiment = Experiment::parse(&tls, &[]).unwrap();
    assert_eq!(experiment.for_lab().unwrap().scenario.traffic[0].transport, Transport::Tls);
    let e = read(&tls).unwrap_err();
    assert!(
        e.contains("traffic.0.transport = 'tls': expected tcp or quic: in the simulator TLS carries objects"),
        "{e}"
    );
    assert!(read(&file("kind = \"objects\", users = 2, transport = \"tls\"")).is_ok());
    let e = read(&file("kind = \"objects\", users = 2, transport = \"tls\", opened_by = \"sender\""))
        .unwrap_err();
    assert!(e.contains("that the receiver opens"), "{e}");
    let e = read(&file("kind = \"telnet\", flows = 2, transport = \"quic\"")).unwrap_err();
    assert!(e.contains("QUIC carries long, files, objects and pages"), "{e}");
    let e =
        read(&file("kind = \"long\", flows = 2, transport = \"quic\"").replace("1500", "500")).unwrap_err();
    assert!(e.contains("least datagram"), "{e}");
}

#[test]
fn quic_is_a_stack_that_is_named() {
    let quic = |keys: &str| {
        let text = format!(
            "name = \"t\"\nrate = \"1mbit\"\nmtu = 1400\ndiscipline = \"taq\"\n{keys}\n\
             traffic = [{{ kind = \"long\", flows = 2, transport = \"quic\" }}]\n"
        );
        Experiment::parse(&text, &[]).unwrap().expand().map(|runs| runs[0].scenario.traffic[0].clone())
    };
    let t = quic("").unwrap();
    assert_eq!((t.quic.initial_window, t.opened_by, t.request), (12_000, OpenedBy::Receiver, 120));
    // 1400 less 28 bytes of headers.
    assert_eq!(t.quic.mtu_search.unwrap().upper, 1372);
    let t =
        quic("quic_preset = \"quic-go\"\nquic_initial_window = 4\ncongestion_control = \"cubic\"").unwrap();
    assert_eq!(
        (t.quic.initial_window, t.quic.datagram, t.quic.congestion),
        (4_800, 1280, narrows_tcp::CcKind::Cubic)
    );
    let ecn = |keys: &str| quic(keys).unwrap().quic.ecn;
    assert!(ecn("") && !ecn("quic_ecn = false") && !ecn("quic_preset = \"quiche\""));
    let e = quic("quic_preset = \"quin\"").unwrap_err().to_string();
    assert!(e.contains("quic_preset = 'quin'"), "{e}");
}

#[test]
fn the_way_back_can_have_the_same_discipline() {
    let file = |up: &str| {
        format!(
            "name = \"t\"\nrate = \"1mbit\"\ndisciplines = [\"fifo:9\", \"taq\"]\n\
             up_discipline = \"{up}\"\ntraffic = [{{ kind = \"long\", flows = 2 }}]\n"
        )
    };
    let back = |up: &str| -> Vec<String> {
        let runs = Experiment::parse(&file(up), &[]).unwrap().expand().unwrap();
        runs.iter().map(|r| r.scenario.topology.links[1].discipline.to_string()).collect()
    };
    assert_eq!(back("same"), ["fifo:9", "taq"]);
    assert_eq!(back("fifo:7"), ["fifo:7", "fifo:7"]);
    let e = Experiment::parse(&file("smae"), &[]).unwrap().expand().unwrap_err().to_string();
    assert!(e.contains("up_discipline"), "{e}");
}
