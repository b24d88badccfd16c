//! Probes measure real TCP through a thin link.

use super::*;

/// Eight endless flows and four closed loops of 3 kB through 200 kbit/s and 200 ms, with 10 packets' room.
pub(super) fn busy(slice: u64, capture: bool) -> Results {
    busy_behind("fifo:10", slice, capture)
}

pub(super) fn busy_behind(discipline: &str, slice: u64, capture: bool) -> Results {
    let mut tcp = Config::preset(Preset::Ns2);
    (tcp.mss, tcp.handshake) = (460, Handshake::ThreeWay);
    let plan = ProbePlan {
        slice: Duration::from_secs(slice),
        epoch: Some(Duration::from_millis(400)),
        series: vec![Series::Queue, Series::Cwnd, Series::Throughput],
        capture: if capture { vec![0] } else { Vec::new() },
        ..plan(20.0)
    };
    let mut world = world(tcp, Rate::from_kbps(200), discipline, Duration::from_millis(50), plan);
    // Without chance the same objects lose every time.
    world.net.groups[0].dephase = Duration::from_millis(30);
    let mut acts: Vec<_> = (0..8).map(|user| (0.1 * f64::from(user), Act::Open(transfer(user)))).collect();
    acts.extend((8..12).map(|user| {
        let object = Transfer { size: 3000, close: true, receiver_opens: true, ..transfer(user) };
        (1.0 + 0.1 * f64::from(user), Act::Open(object))
    }));
    run(world, acts, Some(3000), 100.0)
}

#[test]
fn tcp_through_a_thin_link_adds_up() {
    let r = busy(20, true);
    let total = r.summary["goodput_bps"] * 80.0 / 8.0;
    let slices = whole(&r, "slices", "delivered_bytes");
    assert_eq!(slices.len(), 4);
    assert_eq!(slices.iter().sum::<u64>() as f64, total.round());
    // Shares of each flow add up to what the flow had, and finer slices to coarser ones.
    let (of, bytes) = (whole(&r, "shares", "flow"), whole(&r, "shares", "delivered_bytes"));
    let mut sums = BTreeMap::<u64, u64>::new();
    of.iter().zip(&bytes).for_each(|(flow, bytes)| *sums.entry(*flow).or_default() += bytes);
    assert_eq!(sums.into_values().collect::<Vec<_>>(), whole(&r, "flows", "delivered_bytes"));
    let fine = whole(&busy(5, false), "slices", "delivered_bytes");
    let coarse: Vec<u64> = fine.chunks(4).map(|four| four.iter().sum()).collect();
    assert_eq!(coarse, slices);
    // More cannot come out than the link carries.
    let s = &r.summary;
    assert!(s["utilisation"] > 0.9 && s["utilisation"] <= 1.0, "{s:?}");
    assert!(s["goodput_share"] > 0.5 && s["goodput_share"] <= s["utilisation"], "{s:?}");
    assert!(s["loss"] > 0.01 && s["retransmitted"] > 0.01 && s["objects_done"] > 20.0, "{s:?}");
    assert!(s["wait_bulk_max_s"] <= 0.2 + 1e-9, "10 packets of 500 B at 200 kbit/s");
    let states = ["maintained", "dropped", "arriving", "stalled"].map(|n| s[&format!("epoch_{n}_share")]);
    assert!((states.iter().sum::<f64>() - 1.0).abs() < 1e-12);
}

#[test]
fn the_same_run_gives_the_same_results_and_a_capture_changes_none() {
    // As text, in which what is not a number equals itself.
    let text = |r: &Results| format!("{:?}{:?}", r.summary, r.tables);
    let (a, b, without) = (busy(20, true), busy(20, true), busy(20, false));
    assert!(text(&a) == text(&b) && a.captures == b.captures);
    assert!(text(&a) == text(&without) && without.captures.is_empty());
}

#[test]
fn a_capture_holds_what_the_link_sent() {
    let r = busy(20, true);
    let (name, bytes) = &r.captures[0];
    assert_eq!(name, "thin");
    let packets: Vec<capture::Captured> =
        capture::Reader::new(&bytes[..]).unwrap().map(Result::unwrap).collect();
    let carried = whole(&r, "throughput", "thin_bytes").iter().sum::<u64>();
    let captured: u64 = packets.iter().map(|p| p.header.len.get()).sum();
    // The last sample is that of 100 s; what ends after it is in the capture already.
    assert!(captured >= carried && captured <= carried + 1500, "{captured} {carried}");
    assert!(packets.is_sorted_by_key(|p| p.at));
}

#[test]
fn each_repair_is_told_of_if_that_is_wanted() {
    let drops = |repairs: bool| {
        let mut tcp = Config::preset(Preset::Ns2);
        (tcp.mss, tcp.handshake) = (460, Handshake::ThreeWay);
        let plan = ProbePlan { repairs, ..plan(0.0) };
        let world = world(tcp, Rate::from_kbps(100), "fifo:3", Duration::from_millis(50), plan);
        run(world, vec![(0.0, Act::Open(transfer(0)))], None, 30.0)
    };
    let r = drops(true);
    let found = table(&r, "repairs").columns.iter().find(|c| c.name == "repair").unwrap();
    let Data::Text(what) = &found.data else { panic!("words") };
    let of = |name: &str| what.iter().filter(|w| *w == name).count() as f64;
    assert!(of("timeout") + of("fast_retransmit") > 0.0);
    assert_eq!(
        (of("timeout"), of("fast_retransmit")),
        (r.summary["timeouts"], r.summary["fast_retransmits"])
    );
    assert!(drops(false).tables.iter().all(|t| t.name != "repairs"));
}

#[test]
fn nothing_is_lost_uncounted_behind_a_queue_that_suppresses_refuses_and_holds() {
    // The check is made in the run.
    let r = busy_behind("taq", 20, false);
    expect(&r, &[("loss", 0.0), ("zero_slices", 0.0)]);
    assert!(r.summary["clamped"] > 0.0);
    let r = busy_behind("taq:mode=paper", 20, false);
    assert!(r.summary["refused"] > 0.0 && r.summary["dropped"] > 0.0, "{:?}", r.summary);
    assert!(r.summary.contains_key("admission_waiting"));
}

/// Five segments at once find a transmitter and two places: the last two are lost, and sent again when the timer
/// expires. One after the other five come through whole.
#[test]
fn bursts_through_a_short_queue_by_hand() {
    for (window, figures) in [
        (
            5,
            [("burst_whole", 0.0), ("burst_loss", 0.4), ("burst_first_4", 1.0), ("burst_after_4_1", 0.0)]
                .as_slice(),
        ),
        (1, [("burst_whole", 1.0), ("burst_loss", 0.0)].as_slice()),
    ] {
        let tcp = Config {
            mss: 500,
            initial_window: InitialWindow::Segments(window),
            ..Config::preset(Preset::Ns2)
        };
        let of = |bursts| {
            let plan = ProbePlan { bursts, ..plan(0.5) };
            let world = world(tcp, Rate::from_kbps(1000), "fifo:2", Duration::from_millis(10), plan);
            let acts = [0.1, 1.0, 5.0].map(|s| (s, Act::Open(Transfer { size: 2500, ..transfer(0) })));
            run(world, acts.to_vec(), None, 9.0)
        };
        // The first begins within the warm-up.
        let r = of(true);
        expect(&r, &[("bursts", 2.0)]);
        expect(&r, figures);
        assert!(!of(false).summary.contains_key("bursts"));
    }
}
