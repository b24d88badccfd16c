//! Edges that divide connections and datagram flows over two ways: which packet goes where, counted by hand.

use narrows_scenario::Experiment;

use super::{column, simulate};

/// Files of 10 full segments of 500 B from left to right, one after the other by one host, by a diamond whose upper way
/// takes 50 ms and whose lower way 40 ms; nothing is ever lost. Gives what left `left` by the upper and by the lower
/// way, and the summary.
fn divided(policy: &str, more: &str) -> Outcome {
    ways(policy, &format!("kind = \"files\"\nflows = 20\nsize = 5000\n{more}"))
}

/// Packets that left by the upper and by the lower way, and the summary.
type Outcome = ([f64; 2], std::collections::BTreeMap<String, f64>);

/// Runs the diamond of [`divided`] under any traffic.
fn ways(policy: &str, traffic: &str) -> Outcome {
    let text = format!(
        "name = \"edge\"\nmtu = 540\noverhead = 0\nduration = \"200s\"\njitter = \"1s\"\ndiscipline = \"fifo:100\"\n\
         [topology]\nkind = \"diamond\"\nrate = \"10mbit\"\ndelay = \"25ms\"\nlower_delay = \"20ms\"\n\
         [tcp]\npreset = \"ns2\"\nhandshake = \"none\"\nreceive_window = 50000\n\
         [[edge]]\nat = \"left\"\npaths = [\"left-upper\", \"left-lower\"]\npolicy = \"{policy}\"\n\
         [[traffic]]\n{traffic}"
    );
    let runs = Experiment::parse(&text, &[]).unwrap().expand().unwrap();
    let results = simulate(&runs[0]);
    let arrived = column(&results, "links", "arrived");
    let at = |name: &str| runs[0].scenario.topology.links.iter().position(|l| l.name == name).unwrap();
    ([arrived[at("left-upper")], arrived[at("left-lower")]], results.summary)
}

#[test]
fn by_lifetime_each_connection_changes_its_way_after_so_many_packets() {
    // 20 files: 4 packets each by the upper way, 6 by the lower. Slow start from 1 sends 1, 2, 4 and 3 packets: the
    // fourth goes up as the first of four, and the next three of them overtake it. Nothing else is overtaken but what
    // its three duplicate acknowledgments make the sender repeat, which comes last.
    let (ways, summary) = divided("lifetime:4", "");
    assert_eq!(ways[0], 80.0);
    assert!((120.0..=200.0).contains(&ways[1]), "{ways:?}");
    assert!((summary["reordered"] - 20.0 / (ways[0] + ways[1])).abs() < 1e-9, "{summary:?}");
    assert!((summary["first_class"] - 80.0 / (ways[0] + ways[1])).abs() < 1e-9, "{summary:?}");
}

#[test]
fn by_size_they_keep_to_one_way() {
    // 10 segments are not fewer than 10.
    assert_eq!(divided("size:10", "").0, [0.0, 200.0]);
    let (ways, summary) = divided("size:11", "");
    assert_eq!((ways, summary["reordered"]), ([200.0, 0.0], 0.0));
}

#[test]
fn by_codepoint_and_by_chance() {
    assert_eq!(divided("dscp:18", "dscp = 18\n").0, [200.0, 0.0]);
    assert_eq!(divided("dscp:18", "dscp = 10\n").0, [0.0, 200.0]);
    let (ways, _) = divided("random", "");
    // Whole files; all 20 on one side would be one of a million runs.
    assert!(
        ways[0] > 0.0 && ways[1] > 0.0 && ways[0] % 10.0 == 0.0 && ways[0] + ways[1] == 200.0,
        "{ways:?}"
    );
}

#[test]
fn datagrams_obey_as_connections_do() {
    // Ten flows, a packet of 500 B each second (4 kbit/s) for 60 s, never off: 600 in all.
    let udp = |policy: &str, more: &str| {
        let text = format!(
            "kind = \"udp\"\nflows = 10\nrate = \"4kbit\"\npacket = 500\nstop = \"60s\"\nstart = \"0s\"\n{more}"
        );
        ways(policy, &text).0
    };
    let total: f64 = udp("random", "").iter().sum();
    assert!((590.0..=610.0).contains(&total), "{total}");
    // The first four of each flow.
    assert_eq!(udp("lifetime:4", ""), [40.0, total - 40.0]);
    // Nobody knows where they end.
    assert_eq!(udp("size:1000000", ""), [0.0, total]);
    assert_eq!(udp("dscp:18", "dscp = 18\n"), [total, 0.0]);
    assert_eq!(udp("dscp:18", "dscp = 10\n"), [0.0, total]);
    // Whole flows; all ten on one side would be one of 512 runs, and this seed's is not.
    let [upper, lower] = udp("random", "");
    assert!(upper > 50.0 && lower > 50.0, "{upper} {lower}");
}
