//! The discipline in the simulator gives the verdicts of the box: what came to a link of the simulator, captured, goes
//! once more through `narrows_sim::replay` (which `tests/it/replay.rs` compares with the live engine), and the same
//! packets leave at the same instants.

use std::convert::Infallible;

use narrows_qdisc::{Direction, Event};
use narrows_scenario::LinkDiscipline;
use narrows_sim::Results;
use narrows_sim::replay::{Arrival, ReplayLink, replay};
use narrows_units::{Duration, Instant};
use narrows_wire::Header;
use narrows_wire::capture::Reader;

use super::{column, runs, simulate};

/// A reader's clock begins with the first packet of a file: when that was, from the 16 bytes before it (seconds and
/// nanoseconds).
fn begins(file: &[u8]) -> Duration {
    let word = |at: usize| u64::from(u32::from_le_bytes(file[at..at + 4].try_into().unwrap()));
    Duration::from_secs(word(24)) + Duration::from_nanos(word(28))
}

fn captured(results: &Results, link: &str) -> Vec<(Instant, Header)> {
    let (_, file) = results.captures.iter().find(|(name, _)| name == link).unwrap();
    Reader::new(file.as_slice())
        .unwrap()
        .map(|packet| packet.unwrap())
        .map(|packet| (packet.at + begins(file), packet.header))
        .collect()
}

#[test]
fn a_captured_link_replayed_sends_the_same_packets() {
    for run in runs("recorded.toml", &[]) {
        let results = simulate(&run);
        let mut arrivals = Vec::new();
        for (link, direction) in [("before", Direction::Down), ("after.back", Direction::Up)] {
            let at = run.scenario.topology.links.iter().position(|l| l.name == link).unwrap();
            let delay = run.scenario.topology.links[at].delay;
            let moved = captured(&results, link).into_iter();
            arrivals.extend(moved.map(|(at, header)| Arrival { at: at + delay, direction, header }));
        }
        arrivals.sort_by_key(|a| a.at);
        let end = Instant::ZERO + run.scenario.duration;
        arrivals.retain(|a| a.at < end);
        let link = |name: &str| run.scenario.topology.links.iter().find(|l| l.name == name).unwrap();
        let lane = |name: &str| {
            let LinkDiscipline::Ours(spec) = &link(name).discipline else { panic!("{name}: not ours") };
            ReplayLink { link: Some(link(name).shaper(run.scenario.mtu)), discipline: spec.clone() }
        };
        let (down, mut sent) = (lane("thin"), Vec::new());
        let shape = down.link.unwrap();
        let report =
            replay(arrivals.into_iter().map(Ok::<_, Infallible>), &down, &lane("thin.back"), 1, |now, e| {
                if let Event::Send(Direction::Down, packet) = e {
                    // A capture has a packet when its last bit has left.
                    let time = shape.rate.time_to_send(shape.wire_len(packet.header.len));
                    sent.push((now + time, packet.header));
                }
                Ok(())
            })
            .unwrap();
        let left: Vec<_> = captured(&results, "thin").into_iter().filter(|(at, _)| *at < end).collect();
        let name = format!("{:?}", run.coords);
        for (n, (ours, theirs)) in left.iter().zip(&sent).enumerate() {
            // A capture numbers packets that had no identification.
            let plain = |header: Header| Header { ident: None, ..header };
            let (ours, theirs) = ((ours.0, plain(ours.1)), (theirs.0, plain(theirs.1)));
            assert_eq!(ours, theirs, "{name}: packet {n} that left");
        }
        assert!(left.len() > 1_000 && sent.len() >= left.len(), "{name}: {} {}", left.len(), sent.len());
        let thin = run.scenario.topology.links.iter().position(|l| l.name == "thin").unwrap();
        let of = |what| column(&results, "links", what)[thin] as u64;
        let counts = report.down.counts;
        println!("{name}: {counts:?}");
        assert_eq!(
            (of("arrived"), of("dropped"), of("suppressed"), of("marked")),
            (counts.arrived, counts.dropped_total(), counts.suppressed, counts.marked),
            "{name}"
        );
    }
}
