//! Initial Spreading, figures 13 and 14: what a file of 1 to 10 segments takes, by the recursion and in simulation. A
//! time runs from the first segment to the acknowledgment of the last.

use narrows_models::spreading::{Backoff, Parameters, Spreading};
use narrows_sim::{Column, Data, Results};

use super::{Outcome, outcomes};

/// The recursion for a path.
fn model(loss: f64, rtt_s: f64) -> Spreading {
    let backoff = Backoff::EveryTimeout;
    Spreading::new(Parameters { loss, rtt_s, rto_s: 1.0, backoff }, 10).unwrap()
}

/// The greatest relative differences of figure 13 up to 6 segments and beyond, with `sets` in place of the file's
/// settings.
fn figure_13(sets: &[&str]) -> [f64; 2] {
    let mut worst = [0.0_f64; 2];
    println!("   p  rtt ms  segments  model, s  simulated, s  ratio");
    for run in outcomes("initial-spreading/fig13-sizes.toml", sets) {
        let number = |key: &str| run.run.coords.get(key).map(|v| v.parse::<f64>().unwrap());
        let (p, rtt_s) = (number("p").unwrap_or(0.065), number("rtt").unwrap_or(100.0) / 1e3);
        let segments = number("segments").unwrap() as usize;
        let expected = model(p, rtt_s).b(segments, 1).unwrap().mean_s;
        // No handshake, and ACKs do not get lost: the last one comes half a round trip after the last segment.
        let simulated = run.get("object_mean_s") + rtt_s / 2.0;
        let ratio = simulated / expected;
        println!("{p:.3} {:7.0} {segments:9} {expected:9.4} {simulated:13.4} {ratio:6.3}", rtt_s * 1e3);
        let place = usize::from(segments > 6);
        worst[place] = worst[place].max((ratio - 1.0).abs());
    }
    println!("worst up to 6 segments and beyond: {worst:.3?}");
    worst
}

/// Up to six segments there is next to no fast retransmission, as the model has it; from seven on there is, and the
/// simulation is faster.
#[test]
fn sizes_from_a_window_of_one() {
    let short = ["seeds=[1]", "p=0.065", "rtt=100", "traffic.0.flows=6000"];
    let [few, _] = figure_13(&short);
    assert!(few <= 0.1, "{few}");
    let without = figure_13(&[&short[..], &["tcp.dupthresh=1000"]].concat());
    assert!(without.iter().all(|w| *w <= 0.1), "without fast retransmissions: {without:?}");
}

#[test]
#[ignore = "a minute of one core in a release build: make claims"]
fn sizes_losses_and_round_trips() {
    let [few, _] = figure_13(&["seeds=[1]"]);
    assert!(few <= 0.1, "{few}");
    let without = figure_13(&["seeds=[1]", "tcp.dupthresh=1000"]);
    assert!(without.iter().all(|w| *w <= 0.1), "without fast retransmissions: {without:?}");
}

fn column<'a>(results: &'a Results, table: &str, name: &str) -> &'a [f64] {
    let table = results.tables.iter().find(|t| t.name == table).unwrap();
    let Column { data: Data::F64(values), .. } = table.columns.iter().find(|c| c.name == name).unwrap()
    else {
        panic!("{name} holds no fractions")
    };
    values
}

/// Mean time of the files from the handshake's end, of those whose first SYN arrived; that handshake's mean time.
fn times(run: &Outcome) -> (f64, f64) {
    let [connect, acked] = ["connect_s", "acked_s"].map(|name| column(&run.results, "transfers", name));
    let of = |c: &f64| c.is_finite() && *c < 0.5;
    let kept: Vec<(f64, f64)> =
        connect.iter().zip(acked).filter(|(c, a)| of(c) && a.is_finite()).map(|(c, a)| (a - c, *c)).collect();
    let mean = |of: fn(&(f64, f64)) -> f64| kept.iter().map(of).sum::<f64>() / kept.len() as f64;
    (mean(|k| k.0), mean(|k| k.1))
}

/// Loss of the files' segments.
fn loss(run: &Outcome) -> f64 {
    column(&run.results, "classes", "loss")[1]
}

/// Figure 14 for some sizes: means of a window of one, a burst of ten, ten spread; and the loss of single segments.
fn figure_14(segments: usize, sets: &[&str]) -> [f64; 3] {
    let way = |startup: &str, window: u32| {
        let all = [
            format!("segments={segments}"),
            format!("tcp.startup={startup}"),
            format!("tcp.initial_window={window}"),
        ];
        let all: Vec<&str> = all.iter().map(String::as_str).chain(sets.iter().copied()).collect();
        let runs = outcomes("initial-spreading/fig14-spreading.toml", &all);
        let n = runs.len() as f64;
        let mean = |of: &dyn Fn(&Outcome) -> f64| runs.iter().map(of).sum::<f64>() / n;
        (mean(&|r| times(r).0), mean(&loss), mean(&|r| times(r).1))
    };
    let (one, p, rtt) = way("slow_start", 1);
    let (burst, burst_loss, _) = way("slow_start", 10);
    let (spread, spread_loss, _) = way("spreading", 10);
    let model = model(p, rtt);
    let of = |d: narrows_models::Result<narrows_models::spreading::Delivery>| d.unwrap().mean_s;
    let expected = [of(model.b(segments, 1)), of(model.d(segments, 10)), of(model.s(segments, 10))];
    println!(
        "{segments:2} segments, rtt {:.0} ms; loss of IW 1 {p:.3}, burst {burst_loss:.3}, spread {spread_loss:.3}: IW \
         1 {one:.3} s (model {:.3}), burst {burst:.3} ({:.3}), spread {spread:.3} ({:.3})",
        rtt * 1e3,
        expected[0],
        expected[1],
        expected[2]
    );
    [one, burst, spread]
}

/// The order of the three at ten segments, and how far apart they are.
#[test]
fn spreading_wins_at_ten_segments() {
    let [one, burst, spread] = figure_14(10, &["seeds=[1]", "duration=500s"]);
    assert!(spread < burst && spread < one, "{spread} {burst} {one}");
}

#[test]
#[ignore = "two minutes of one core in a release build: make claims"]
fn all_sizes_through_a_loaded_queue() {
    for segments in 1..=10 {
        figure_14(segments, &[]);
    }
}
