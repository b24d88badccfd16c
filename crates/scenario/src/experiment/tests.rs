use narrows_tcp::{Handshake, Recovery};
use narrows_units::{Duration, Rate};

use super::*;
use crate::{Kind, LogSource, Loss, OpenedBy, Series, Size, Topology};

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
    assert!(matches!(objects.kind, Kind::Objects { connections: 1, size: Size::Web, .. }));
}

#[test]
fn delays_lie_evenly_or_at_random() {
    let s = one(&without_disciplines(THIN).replace("\"200ms\"", "\"190ms..210ms\""));
    let d = s.topology.hosts[0].delay;
    let ms = |i| d.of(i, 101, 0).as_nanos() as f64 / 1e6;
    assert_eq!((ms(0), ms(50), ms(100)), (95.0, 100.0, 105.0));
    assert_eq!(d.of(0, 1, 0), Duration::from_millis(100));
    let random = crate::Delays { spread: crate::Spread::Random, ..d };
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
    assert_eq!(run.scenario.traffic[0].kind, Kind::Long { flows: 300 });
    assert_eq!(find("drop-tail", "200kbit", "5000").scenario.traffic[0].users(), 40);
    assert_eq!(run.scenario.traffic[0].tcp_from.mss, 460);
    assert_eq!(run.scenario.traffic[0].tcp_from.handshake, Handshake::SynIsPacketZero);
    // The seeds of a point share one scenario; the canonical text reads as the same scenario by itself.
    assert!(Arc::ptr_eq(&runs[0].scenario, &runs[2].scenario) && runs[1].seed == 2);
    assert!(!run.scenario.text.contains("sweep") && !run.scenario.text.contains("vars"));
    assert_eq!(one(&run.scenario.text), *run.scenario);
    // What is set is not swept.
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
    assert!(matches!(files.kind, Kind::Files { flows: Some(32), arrivals: Some(0.5), users: 8, .. }));
    let pages = with("kind = \"pages\"\nusers = 3\nobjects = \"exp:10\"\nthink = \"5s\"");
    assert!(matches!(pages.kind, Kind::Pages { users: 3, connections: 6, .. }));
    let telnet = with("kind = \"telnet\"\nflows = 3\nstart = \"5s\"\nstop = \"50s\"\nname = \"shell\"");
    assert_eq!((telnet.name.as_str(), telnet.stop), ("shell", Duration::from_secs(50)));
    let udp = with("kind = \"udp\"\nflows = 1\nrate = \"64kbit\"\non = \"1s\"\noff = \"2s\"");
    assert!(matches!(udp.kind, Kind::Udp { packet: 500, .. }));
    let log = with(
        "kind = \"log\"\nclients = 2\nsynthetic = { requests = 20, clients = 221, zipf = 0.8, size = \"web\" }\n\
         timing = \"back_to_back\"",
    );
    assert!(matches!(
        log.kind,
        Kind::Log { source: LogSource::Synthetic { clients: 221, .. }, connections: 4, .. }
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
    let text = "name = \"k\"\nrate = \"1mbit\"\ndiscipline = \"taq\"\n[[traffic]]\nkind = \"log\"\nfile = \"a.csv\"\nclients = 2\n";
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
fn probes() {
    let s = one(&format!(
        "{}[probes]\nslice = \"10s\"\nseries = [\"cwnd\", \"queue\"]\nepochs = \"400ms\"\ncapture = [\"thin.back\"]\nhangs = []\n",
        without_disciplines(THIN)
    ));
    assert_eq!((s.probes.series, s.probes.capture), (vec![Series::Queue, Series::Cwnd], vec![1]));
    assert_eq!((s.probes.epochs, s.probes.hangs), (Some(Duration::from_millis(400)), vec![]));
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
        (LONG.to_owned(), "link: the lab has one thin link"),
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

/// What a file may have wrong, and the whole sentence it earns.
#[test]
fn impossible_scenarios_end_in_one_sentence() {
    let thin = without_disciplines(THIN);
    let cases: &[(&str, &str, &str, &str)] = &[
        (
            &thin,
            "\"600kbit\"",
            "\"0kbit\"",
            "rate = '0kbit': expected a rate in quotes, a number above 0 and a unit, as \"600kbit\" or \"2mbit\"",
        ),
        (
            &thin,
            "rate = \"600kbit\"",
            "",
            "rate is missing: expected the thin link's rate, as rate = \"600kbit\", or [[link]]s",
        ),
        (
            &thin,
            "\"200ms\"",
            "\"20s\"",
            "rtt = '20s': expected at most 10s of propagation, both ways together",
        ),
        (&thin, "\"200ms\"", "\"9ms..2ms\"", "rtt = '9ms..2ms': expected the lesser time first"),
        (
            &thin,
            "\"200ms\"",
            "200",
            "rtt = 200: expected a time or a range of times in quotes, as \"200ms\" or \"190ms..210ms\"",
        ),
        (&thin, "users = 100", "user = 100", "traffic.0.user: no such key: expected 'users'?"),
        (
            &thin,
            "users = 100",
            "users = -5",
            "traffic.0.users = -5: expected a whole number from 1 to 4294967295",
        ),
        (
            &thin,
            "users = 100",
            "users = \"=7/2\"",
            "traffic.0.users = 3.5: expected a whole number from 1 to 4294967295; in an expression use round(), floor() or ceil()",
        ),
        (
            &thin,
            "users = 100",
            "users = 100\nsize = \"-5kB\"",
            "traffic.0.size = '-5kB': expected a size as 64kB, or a law: one of fixed, exp, pareto, bounded_pareto, list, web",
        ),
        (
            &thin,
            "users = 100",
            "users = 100\nsize = 0",
            "traffic.0.size = 0: expected a size: a number of bytes above 0, as in 1500, 64kB, 1.5MB or 64KiB",
        ),
        (
            &thin,
            "flows = 2",
            "flows = 1000000000",
            "traffic.1.flows = 1000000000: expected at most 4000000 connections in all, because each takes about 1500 bytes: 1000000100 of them 1500 GB",
        ),
        (
            &thin,
            "users = 100",
            "users = 100\nconnections = 0",
            "traffic.0.connections = 0: expected a whole number from 1 to 64",
        ),
        (&thin, "\"fifo:30\"", "\"codle\"", "discipline = 'codle': expected "),
        (
            &thin,
            "\"fifo:30\"",
            "\"fifo:0\"",
            "discipline = 'fifo:0': expected fifo to be a limit above 0 in packets or bytes, as fifo:30 or fifo:45000b",
        ),
        (
            &thin,
            "discipline = \"fifo:30\"",
            "",
            "discipline is missing: expected what stands before the link, as discipline = \"fifo:30\" or disciplines = [\"fifo:30\", \"taq\"]",
        ),
        (&thin, "\"objects\"", "\"object\"", "traffic.0.kind = 'object': expected 'objects'?"),
        (
            &thin,
            "\"objects\"",
            "\"ftp\"",
            "traffic.0.kind = 'ftp': expected one of long, files, objects, pages, telnet, udp, log",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nwarmup = \"120s\"",
            "warmup = '120s': expected less than duration = '120s'",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\njitter = \"3min\"",
            "jitter = '3min': expected less than duration = '120s'",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\ndephase = \"11s\"",
            "dephase = '11s': expected at most 10s and less than the duration: a few times what a packet takes on the thin link",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nduration = \"0s\"",
            "duration = '0s': expected a time above 0",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nloss = nan",
            "loss = nan: expected a probability from 0 up to but not 1, or \"gilbert:to_bad=0.01,to_good=0.3,bad=1,good=0\"",
        ),
        (&thin, "name = \"t\"", "name = \"t\"\nmtu = 9", "mtu = 9: expected a whole number from 296 to 9000"),
        (
            &thin,
            "name = \"t\"",
            "name = \"../t\"",
            "name = '../t': expected letters, digits, '-' and '_', because results are called so",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nseeds = []",
            "seeds = []: expected a list of different whole numbers, as [1, 2, 3], or a range, as \"1..10\"",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nseeds = \"1..9000000\"",
            "seeds = '1..9000000': expected a list of different",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nqueue = 9",
            "queue: no such key: expected one of about, access_rate, backend,",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nbackend = \"tun\"",
            "backend = 'tun': expected one of nfqueue, packet",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nsysctl = { \"kernel.x\" = \"1\" }",
            "sysctl.\"kernel.x\" = '1': expected a setting of the network, as \"net.ipv4.tcp_ecn\" = \"1\"",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nsweep = { rate = [] }",
            "sweep.rate = []: expected a list of values, as [20, 40], or a range, as \"20..120 step 20\"",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nsweep = { mtu = \"296..9000 step 1\", overhead = \"0..199 step 1\" }",
            "sweep: 1741000 points under 1 seeds: expected at most 1000000 runs",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nsweep = { mtu = [500, 5] }",
            "mtu = 5: expected a whole number from 296 to 9000 (at mtu=5)",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nprobes = { capture = [\"thn\"] }",
            "probes.capture = [\"thn\"]: expected names of links: 'thin'?",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nvars = { x = \"taq\" }",
            "vars.x = 'taq': expected a number, a quantity as \"200ms\", or an expression as \"=rate/share\"",
        ),
        (
            &thin,
            "flows = 2",
            "flows = 2\nstart = \"130s\"",
            "traffic.1.start = '130s': expected a time before the duration",
        ),
        (
            &thin,
            "flows = 2",
            "flows = 2\nstop = \"130s\"",
            "traffic.1.stop = '130s': expected at most the duration",
        ),
        (
            &thin,
            "flows = 2",
            "flows = 2\nto = \"client\"",
            "traffic.1.to = 'client': expected the name of a group of hosts: 'clients'?",
        ),
        (
            &thin,
            "flows = 2",
            "flows = 2\nto = \"servers\"",
            "traffic.1.to = 'servers': expected another group of hosts than from",
        ),
        (
            &thin,
            "flows = 2",
            "flows = 2\ntcp = { preset = \"ns2\" }\nrequest = 300",
            "traffic.1.request = 300: expected the sender to open without a request, because in ns-2's handshake the SYN goes the way of the data; tcp.handshake = 'three_way' allows both",
        ),
        (
            &thin,
            "kind = \"long\"\n    flows = 2",
            "kind = \"udp\"\nflows = 2\nrate = \"64kbit\"\noff = \"1s\"",
            "traffic.1.on is missing: expected a time above 0 where off has one: else nothing is ever sent",
        ),
        (
            &thin,
            "kind = \"long\"\n    flows = 2",
            "kind = \"files\"\nsize = 9",
            "traffic.1.flows is missing: expected how many files, or arrivals = how many per second",
        ),
        (
            &thin,
            "kind = \"long\"\n    flows = 2",
            "kind = \"files\"\nsize = 9\narrivals = 1e9",
            "traffic.1.arrivals = 1000000000.0: expected at most 5e7 transfers in a run: these are 1.2e11",
        ),
        (
            &thin,
            "kind = \"long\"\n    flows = 2",
            "kind = \"log\"\nclients = 2\nfile = \"x\"",
            "traffic.1.file = 'x': expected an access log: a scenario given as text has no folder to look in",
        ),
        (
            &thin,
            "[[traffic]]",
            "[[hosts]]\nname = \"x\"\n[[traffic]]",
            "hosts.0.name: hosts need [[link]]s to be at: the short form has its own",
        ),
        (
            LONG,
            "from = \"b\"",
            "from = \"bb\"",
            "link: node 'b' leads nowhere: expected hosts there or another link; did you mean 'bb'?",
        ),
        (LONG, "at = \"c\"", "at = \"d\"", "hosts.1.at = 'd': expected a node some link names: a, b, c"),
        (LONG, "to = \"b\"", "to = \"a\"", "link.0.to = 'a': expected another node than from = 'a'"),
        (
            LONG,
            "drop = [3, 1]",
            "oneway = true",
            "traffic.0: 'clients' at node 'c' cannot reach 'servers' at node 'a': expected a [[link]], or several in a row, that way, without oneway = true",
        ),
        (
            LONG,
            "drop = [3, 1]",
            "drop = [0]",
            "link.0.drop = [0]: expected packet numbers, the first is 1, as [3, 7]",
        ),
        (
            LONG,
            "name = \"second\"",
            "name = \"a-b\"",
            "link.1.name = 'a-b': expected a name no other link has",
        ),
        (
            LONG,
            "duration = \"10s\"",
            "rate = \"1mbit\"",
            "rate: belongs to the thin-link short form: with [[link]] or [topology] set it there",
        ),
        (
            LONG,
            "to_good=0.3",
            "to_good=0",
            "link.1.loss = 'gilbert:to_bad=0.01,to_good=0': expected a probability",
        ),
        (LONG, "count = 5", "count = 0", "hosts.1.count = 0: expected a whole number from 1 to 4000000"),
        (
            LONG,
            "delayed_ack = \"off\"",
            "delayed_ak = 2",
            "hosts.1.tcp.delayed_ak: no such key: expected 'delayed_ack'?",
        ),
        (
            "name = \"x\"\nrate = \"1mbit\"\ndiscipline = \"taq\"",
            "",
            "",
            "traffic is missing: expected at least one [[traffic]] with a kind",
        ),
        ("name = \n", "", "", "line 1 is no TOML: "),
    ];
    let mut wrong = String::new();
    for (text, find, put, sentence) in cases {
        let text = if find.is_empty() { (*text).to_owned() } else { text.replacen(find, put, 1) };
        let e = all(&text).expect_err(sentence).to_string();
        if !e.starts_with(sentence) || e.contains('\n') {
            wrong += &format!("{e}\ninstead of\n{sentence}\n\n");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

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
    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut read = 0;
    for folder in std::fs::read_dir(experiments).unwrap().map(|f| f.unwrap().path()).filter(|f| f.is_dir()) {
        for file in std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()) {
            if file.extension().is_some_and(|e| e == "toml") {
                let mut e = Experiment::load(&file, &[]).unwrap_or_else(|e| panic!("{e}"));
                e.for_simulator().unwrap_or_else(|e| panic!("{e}"));
                assert!(!e.expand().unwrap_or_else(|e| panic!("{e}")).is_empty());
                read += 1;
            }
        }
    }
    assert!(read >= 7, "{read}");
}

/// Two links side by side and an edge before them.
const EDGE: &str = "name = \"s\"\ndiscipline = \"fifo:9\"\nlink = [{ name = \"one\", from = \"a\", to = \"b\", rate = \"1mbit\" }, \
    { name = \"two\", from = \"a\", to = \"b\", rate = \"1mbit\", delay = \"9ms\" }]\n\
    hosts = [{ name = \"servers\", at = \"a\" }, { name = \"clients\", at = \"b\" }]\n\
    traffic = [{ kind = \"long\", flows = 2, dscp = 46 }]\n[[edge]]\nat = \"a\"\n";

#[test]
fn an_edge_divides_what_would_take_one_of_its_paths() {
    let s = one(&format!("{EDGE}policy = \"lifetime\"\npaths = [\"two\", \"one\"]\nmark = [18, 10]\n"));
    let t = &s.topology;
    assert_eq!(t.edges[0].policy, crate::Policy::Lifetime(32));
    assert_eq!(s.traffic[0].dscp.get(), 46);
    // Links are one, one.back, two, two.back.
    let (_, ways) = t.divided(0, 1).unwrap();
    assert_eq!(ways, [vec![2], vec![0]]);
    assert!(t.divided(1, 0).is_none(), "the way back does not come by");
    let s = one(&format!("{EDGE}policy = \"dscp:46\"\nmark = [1, 2]\n"));
    assert_eq!(s.topology.divided(0, 1).unwrap().1, [vec![0], vec![0]]);
}

#[test]
fn edges_that_cannot_be() {
    for (rest, says) in [
        ("policy = \"random\"\n", "edge.0.paths is missing"),
        ("policy = \"age\"\nmark = [1, 2]\n", "edge.0.policy = 'age': expected random, size:75"),
        ("policy = \"size:0\"\nmark = [1, 2]\n", "edge.0.policy = 'size:0'"),
        ("policy = \"dscp\"\nmark = [1, 2]\n", "edge.0.policy = 'dscp'"),
        ("policy = \"random\"\npaths = [\"one\"]\n", "two links that begin at 'a'"),
        ("policy = \"random\"\npaths = [\"one\", \"one.back\"]\n", "two links that begin at 'a'"),
        ("policy = \"random\"\nmark = [1, 64]\n", "two codepoints from 0 to 63"),
        ("policy = \"random\"\nmark = [1, 2]\nway = 3\n", "edge.0.way: no such key"),
    ] {
        let e = all(&format!("{EDGE}{rest}")).unwrap_err().to_string();
        assert!(e.contains(says), "{rest}: {e}");
    }
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
