//! Conservation: every packet that comes to a link is accounted for, whatever the topology, and the same seed gives the
//! same bytes.
//!
//! In builds with debug assertions, as tests are, the simulator itself counts at the end of each slice (a second here)
//! and at the end of the run: at every link arrivals are what left, was dropped, lost, suppressed, refused or waits,
//! and every packet that exists is on a wire or in a queue. Here the same is asked of the results.

use narrows_scenario::Run;

use super::{column, runs, simulate};

const FILES: [&str; 3] = ["both-ways.toml", "parking-lot.toml", "diamond.toml"];
/// More than waits at any link here when the run is cut off: a memory of TAQ's is at most as long.
const WAITING: f64 = 4_000.0;

fn all() -> Vec<Run> {
    FILES.iter().flat_map(|file| runs(file, &[])).collect()
}

#[test]
fn nothing_gets_lost_uncounted() {
    for run in all() {
        let name = format!("{} {:?}", run.scenario.name, run.coords);
        let results = simulate(&run);
        let of = |column_name| column(&results, "links", column_name);
        let gone = ["sent", "dropped", "lost", "suppressed", "refused"].map(of);
        let missing: Vec<f64> = of("arrived")
            .iter()
            .enumerate()
            .map(|(at, arrived)| arrived - gone.iter().map(|c| c[at]).sum::<f64>())
            .collect();
        for (at, link) in run.scenario.topology.links.iter().enumerate() {
            // Packets held by admission control came by the way back.
            let pair = missing[at] + link.back.map_or(0.0, |back| missing[back]);
            assert!((0.0..=WAITING).contains(&pair), "{name}: {} packets are missing at {}", pair, link.name);
        }
        let dropped: f64 = gone[1].iter().sum();
        let by_reason = results.tables.iter().find(|t| t.name == "links").unwrap().columns.iter();
        let by_reason: f64 = by_reason
            .filter(|c| c.name.starts_with("dropped_"))
            .map(|c| column(&results, "links", &c.name).iter().sum::<f64>())
            .sum();
        assert_eq!(dropped, by_reason, "{name}: each drop has a reason");
        assert!(of("utilisation").iter().all(|u| (0.0..=1.0).contains(u)), "{name}");
        // Data delivered is at most the data sent less the data lost.
        let class = |c| column(&results, "classes", c);
        let (sent, lost, delivered) = (class("data_sent"), class("lost"), class("delivered_bytes"));
        for (at, traffic) in run.scenario.traffic.iter().enumerate().filter(|(at, _)| *at < sent.len()) {
            let most = (sent[at] - lost[at]) * f64::from(traffic.tcp_from.mss);
            assert!(delivered[at] <= most, "{name}: {}: {} of at most {most}", traffic.name, delivered[at]);
        }
    }
}

/// The lower way of the diamond has a third of the propagation.
#[test]
fn packets_take_the_shorter_way() {
    for run in runs("diamond.toml", &[]) {
        let u = simulate(&run).summary;
        assert!(u["utilisation_lower_right"] > 0.9, "{u:?}");
        // Data and acknowledgments take the same way.
        assert!(u["utilisation_lower_right_back"] > 0.01 && u["utilisation_left_upper"] == 0.0, "{u:?}");
    }
}

/// Results as text: every bit of a number shows.
fn bytes(run: &Run) -> String {
    format!("{:?}", simulate(run))
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_thread() {
    for run in all().into_iter().chain(runs("recorded.toml", &["link.thin.discipline=taq"])) {
        let (here, there) = std::thread::scope(|s| {
            let other = s.spawn(|| bytes(&run));
            (bytes(&run), other.join().unwrap())
        });
        // Not assert_eq: a difference would print megabytes.
        assert!(here == there, "{} {:?}: two runs differ", run.scenario.name, run.coords);
        assert!(
            bytes(&Run { seed: run.seed + 1, ..run.clone() }) != here,
            "{}: seeds do not matter",
            run.scenario.name
        );
    }
}
