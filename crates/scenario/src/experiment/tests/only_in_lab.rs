use super::*;
use crate::{Transport, Visits};

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
        ("kind = \"pages\", users = 2, objects = 5", "traffic.0.http is missing"),
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
