use super::*;
use narrows_qdisc::Limit;

use crate::{Service, Transport, UpWay, Visits};

#[test]
fn only_the_lab_has_pages_of_http_and_browsers() {
    let file = |entry: &str| {
        let text =
            format!("name = \"t\"\nrate = \"1mbit\"\ndiscipline = \"taq\"\ntraffic = [{{ {entry} }}]\n");
        Experiment::parse(&text, &[]).unwrap()
    };
    for (entry, key, transport) in [
        ("kind = \"pages\", users = 2, objects = 5, http = \"1.1\"", "http", Transport::Tls),
        ("kind = \"pages\", users = 2, page = [900, 80], http = \"3\"", "http", Transport::Quic),
        ("kind = \"pages\", objects = 5, http = \"2\", arrivals = 1", "http", Transport::Tls),
        ("kind = \"browser\"", "kind", Transport::Tls),
        ("kind = \"browser\", http = 3", "kind", Transport::Quic),
        ("kind = \"browser\", http = 1.1", "kind", Transport::Tls),
    ] {
        let lab = file(entry).for_lab().unwrap();
        assert_eq!(lab.scenario.traffic[0].transport, transport, "{entry}");
        let e = file(entry).expand().unwrap_err().to_string();
        assert!(e.starts_with(&format!("traffic.0.{key}: only the lab")), "{e}");
    }
    let open = file("kind = \"objects\", arrivals = 2, visit = 3");
    assert_eq!(open.expand().unwrap()[0].scenario.traffic[0].web.visits.unwrap().fetches, 3);
    let objects = open.for_lab().unwrap().scenario;
    assert_eq!(objects.traffic[0].web.visits, Some(Visits { arrivals: 2.0, fetches: 3 }));
    assert_eq!(objects.traffic[0].users(), 100);
    let pages = file("kind = \"pages\", objects = 5, arrivals = 2, visit = 3, transport = \"quic\"")
        .expand()
        .unwrap();
    let pages = &pages[0].scenario.traffic[0];
    assert_eq!(pages.web.visits, Some(Visits { arrivals: 2.0, fetches: 3 }));
    assert_eq!((pages.users(), pages.transport), (100, Transport::Quic));
    for (entry, says) in [
        ("kind = \"pages\", users = 2, objects = 5, http = \"2\", transport = \"quic\"", "expected tls"),
        ("kind = \"pages\", users = 2, http = \"2\", page = \"web\"", "the document first"),
        ("kind = \"browser\", http = 4", "traffic.0.http = 4: expected 1.1, 2 or 3"),
        ("kind = \"objects\", users = 2, visit = 2", "no such key without arrivals"),
        ("kind = \"objects\", arrivals = 1e6", "at most 1e6 users in a run"),
        ("kind = \"files\", flows = 2, size = 9", "traffic.0.arrivals is missing"),
    ] {
        let e = file(entry).for_lab().unwrap_err().to_string();
        assert!(e.contains(says), "{entry}: {e}");
    }
}

/// A dish before a box, in the short words of the simulator's files.
const DISH: &str = r#"
    name = "dish"
    duration = "60s"
    overhead = 0
    [[link]]
    name = "dish"
    from = "net"
    to = "mast"
    rates = [["0s", "2mbit"], ["20s", "0"], ["22s", "1mbit"]]
    back_rate = "1mbit"
    delay = "10ms"
    back_delay = "11ms"
    discipline = "fifo:300"
    loss = 0.01
    back_loss = 0
    [[link]]
    name = "box"
    from = "mast"
    to = "home"
    rate = "100mbit"
    overhead = 18
    discipline = "taq"
    [[hosts]]
    name = "servers"
    at = "net"
    delay = "0ms..65ms"
    [[hosts]]
    name = "users"
    at = "home"
    delay = "1ms"
    [[traffic]]
    name = "pages"
    kind = "pages"
    transport = "quic"
    from = "servers"
    to = "users"
    users = 3
    objects = 8
    [[traffic]]
    name = "downloads"
    kind = "long"
    from = "servers"
    to = "users"
    flows = 2
    [sweep]
    "link.box.shaper" = ["none", "mean", "auto:where=before", "late:60"]
"#;

#[test]
fn the_lab_has_a_link_before_the_box() {
    let experiment = Experiment::parse(DISH, &[]).unwrap();
    let lab = experiment.for_lab().unwrap();
    assert_eq!(lab.disciplines, ["taq", "taq at mean", "taq at auto:where=before", "taq at late:60"]);
    let before = lab.before.unwrap();
    // The wire, and 1 ms to the users behind the box.
    let ms = Duration::from_millis;
    assert_eq!((before.down.delay, before.up.delay, before.overhead), (ms(11), ms(12), 0));
    assert_eq!((before.down.rate, before.up.rate), (Rate::from_kbps(2000), Rate::from_kbps(1000)));
    assert_eq!((before.down.queue, before.up.queue), (Limit::Packets(300), Limit::Packets(1000)));
    assert_eq!((before.down.loss, before.up.loss, before.count), (0.01, 0.0, 5));
    assert!(matches!(&before.down.service, Service::Steps(steps) if steps.len() == 3));
    assert_eq!(before.up.service, Service::Constant);
    assert_eq!((lab.thin.rate, lab.thin.rtt), (Rate::from_kbps(100_000), (ms(23), ms(153))));
    assert_eq!(lab.thin.overhead, 18);
    assert_eq!(lab.ignored, Vec::<String>::new());
    // The simulator reads the same file, but for the kernel's disciplines.
    let text = DISH
        .replace(
            "[sweep]",
            "[[sweep.together]]\n\"link.box.discipline\" = [\"taq\", \"taq\", \
                                        \"kernel:cake autorate-ingress ingress\", \"kernel:cake\"]",
        )
        .replace("\"auto:where=before\", \"late:60\"", "\"none\", \"mean/2\"");
    let mut both = Experiment::parse(&text, &[]).unwrap();
    assert_eq!(
        both.for_lab().unwrap().disciplines,
        ["taq", "taq at mean", "kernel:cake autorate-ingress ingress", "kernel:cake at mean/2"]
    );
    assert_eq!(both.for_simulator().unwrap().len(), 2);
    assert_eq!(both.expand().unwrap().len(), 2);
}

#[test]
fn the_lab_s_way_up_may_be_thin() {
    let file = |keys: &str, traffic: &str| {
        let text =
            format!("name = \"t\"\nrate = \"1mbit\"\ndiscipline = \"taq\"\n{keys}\n[[traffic]]\n{traffic}\n");
        Experiment::parse(&text, &[]).unwrap().for_lab()
    };
    let upload = "kind = \"long\"\nflows = 2\nfrom = \"clients\"\nto = \"servers\"";
    let lab = file("up_rate = \"128kbit\"\nup_discipline = \"same\"", upload).unwrap();
    assert_eq!((lab.up, lab.servers), (Some(UpWay { rate: Rate::from_kbps(128), discipline: None }), 0));
    assert_eq!((lab.scenario.traffic[0].from, lab.ignored), (1, Vec::<String>::new()));
    let plain = file("up_rate = \"128kbit\"", upload).unwrap().up.unwrap().discipline.unwrap();
    assert_eq!(plain.to_string(), "fifo:1000");
    let kernel = file("up_rate = \"9kbit\"\nup_discipline = \"kernel:cake ack-filter\"", upload).unwrap();
    assert_eq!(kernel.up.unwrap().discipline.unwrap().to_string(), "kernel:cake ack-filter");
    let open = file("up_discipline = \"taq\"", upload).unwrap();
    assert!(
        open.up.is_none() && open.ignored[0].starts_with("up_discipline: not heeded"),
        "{:?}",
        open.ignored
    );
    for (from, to) in [
        ("long\"\nflows = 1\ntransport = \"quic", "clients"),
        ("objects\"\nusers = 1\nname = \"x", "clients"),
    ] {
        let e = file("", &format!("kind = \"{from}\"\nfrom = \"{to}\"\nto = \"servers\""))
            .unwrap_err()
            .to_string();
        assert!(e.contains("traffic.0.from: from the users the lab has kind = \"long\" over tcp"), "{e}");
    }
}

#[test]
fn a_rate_that_is_set_takes_the_place_of_the_others() {
    let set =
        |set: &str| Experiment::parse(DISH, &[set.to_owned()]).unwrap().for_lab().unwrap().before.unwrap();
    let fixed = set("link.dish.rate=3mbit");
    assert_eq!((fixed.down.rate, fixed.down.service), (Rate::from_kbps(3000), Service::Constant));
    let steps = set("link.dish.back_rates=[[\"0s\", \"64kbit\"]]");
    assert_eq!((steps.down.rate, steps.up.rate), (Rate::from_kbps(2000), Rate::from_kbps(64)));
    let e = Experiment::parse(DISH, &["link.dish.trace=\"t\"".to_owned()]).unwrap().for_lab().unwrap_err();
    assert!(e.to_string().contains("link.0.trace = 't': expected a trace of mahimahi"), "{e}");
}

#[test]
fn links_that_the_lab_cannot_have_are_named() {
    let hosts = "[[hosts]]\n    name = \"users\"";
    for (find, put, says) in [
        ("\"fifo:300\"", "\"fq_codel\"", "link.0.discipline = 'fq_codel': expected fifo:300 or so"),
        ("back_loss = 0", "back_discipline = \"taq\"", "link.0.back_discipline = 'taq': expected fifo:300"),
        (
            "loss = 0.01",
            "loss = \"gilbert:to_bad=0.1,to_good=0.3\"",
            "link.0.loss: the lab loses packets one by one",
        ),
        ("loss = 0.01", "drop = [3]", "link.0.drop: the lab's links have none"),
        ("loss = 0.01", "mpu = 64", "link.0.mpu: the lab's links have none"),
        ("loss = 0.01", "shaper = \"1mbit\"", "link.0.shaper: the lab shapes in the box alone"),
        ("rate = \"100mbit\"", "rates = [[\"0s\", \"9mbit\"]]", "link.1.rates: only the link before the box"),
        ("rate = \"100mbit\"", "rate = \"9mbit\"\nback_rate = \"1mbit\"", "link.1.back_rate: the lab shapes"),
        ("rate = \"100mbit\"", "rate = \"9mbit\"\nloss = 0.1", "link.1.loss: only the link before the box"),
        ("rate = \"100mbit\"", "rate = \"9mbit\"\nframing = \"atm\"", "link.1.framing: the lab's links"),
        ("delay = \"1ms\"", "delay = \"1ms..2ms\"", "hosts.1.delay: the lab's users are all as near"),
        (
            hosts,
            "[[hosts]]\nname = \"neighbours\"\nat = \"mast\"\n[[hosts]]\nname = \"users\"",
            "hosts.2: 'users'",
        ),
        ("from = \"mast\"", "from = \"net\"", "link: "),
        (
            "[[hosts]]",
            "[[link]]\nfrom = \"mast\"\nto = \"home\"\nrate = \"9mbit\"\ndiscipline = \"taq\"\n[[hosts]]",
            "two links in a row",
        ),
        (
            "[sweep]",
            "[sweep]\n\"link.dish.delay\" = [\"1ms\"]",
            "sweep.link.dish.delay: the lab runs one setting",
        ),
    ] {
        let text = DISH.replacen(find, put, 1);
        assert_ne!(text, DISH, "{find}");
        let e = Experiment::parse(&text, &[]).and_then(|e| e.for_lab().map(drop)).unwrap_err().to_string();
        assert!(e.contains(says), "{put}: {e}");
    }
    let up = DISH.replace(
        "from = \"servers\"\n    to = \"users\"\n    flows",
        "from = \"users\"\nto = \"servers\"\nflows",
    );
    let e = Experiment::parse(&up, &[]).unwrap().for_lab().unwrap_err().to_string();
    assert!(e.contains("traffic.1.from: the lab's data go from the servers to the users"), "{e}");
}

#[test]
fn only_the_simulator_knows_what_a_transfer_has_left() {
    let text =
        "name = \"t\"\nrate = \"1mbit\"\ndiscipline = \"srpt\"\ntraffic = [{ kind = \"long\", flows = 2 }]\n";
    let experiment = Experiment::parse(text, &[]).unwrap();
    assert_eq!(experiment.expand().unwrap()[0].scenario.topology.links[0].discipline.to_string(), "srpt");
    let e = experiment.for_lab().unwrap_err().to_string();
    assert!(e.contains("'srpt': expected another: only the simulator knows"), "{e}");
}

#[test]
fn tfrc_carries_what_lasts_in_the_simulator() {
    let file = |entry: &str| {
        let text = format!(
            "name = \"t\"\nrate = \"1mbit\"\ndiscipline = \"fifo:9\"\n\
             traffic = [{{ transport = \"tfrc\", {entry} }}]\n"
        );
        Experiment::parse(&text, &[]).unwrap()
    };
    let long = file("kind = \"long\", flows = 2");
    assert_eq!(long.expand().unwrap()[0].scenario.traffic[0].transport, Transport::Tfrc);
    let e = long.for_lab().unwrap_err().to_string();
    assert!(e.contains("traffic.0.transport = 'tfrc': expected tcp, tls or quic: only the simulator"), "{e}");
    for entry in
        ["kind = \"files\", flows = 2, size = 9", "kind = \"long\", flows = 2, opened_by = \"receiver\""]
    {
        let e = file(entry).expand().unwrap_err().to_string();
        assert!(e.contains("TFRC carries long, which the sender opens"), "{entry}: {e}");
    }
}
