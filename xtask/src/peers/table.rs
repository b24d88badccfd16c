//! The table: agreement, the rest of what was measured, the single flow, speed; and all runs as CSV.

use std::fmt::Write as _;

use super::metrics::Metrics;
use super::plan::{BUFFERS, Case, FLAVOURS, Flavour, Job, SACK, SHARES, Simulator};
use super::store::Record;

/// Finished runs.
type Done = [(Job, Record)];

/// How far Narrows may lie from a peer. Two peers that mean the same (ns-2 with `ts_resetRTO_`, ns-3) lie up to 0.03 in
/// the index and 0.02 in loss from each other; seeds, 0.02 and 0.005.
struct Bound {
    jfi: f64,
    /// Difference of losses; `None` where drop-tail's phase effects let the loss depend on the last digit of each
    /// delay.
    loss: Option<f64>,
    /// Relative.
    timeouts: Option<f64>,
}

const fn bound(flavour: &Flavour) -> Bound {
    if flavour.dephased {
        Bound { jfi: 0.05, loss: Some(0.02), timeouts: Some(0.15) }
    } else {
        Bound { jfi: 0.10, loss: None, timeouts: None }
    }
}

/// How many times faster than a peer Narrows is to be: case, times ns-2, times ns-3.
const SPEEDS: [(Case, &str, f64, f64); 3] = [
    (Case::A, "a: 100 SACK flows, 100 Mbit/s, 60 s", 5.0, 100.0),
    (Case::B, "b: 300 SACK flows, 600 kbit/s, 10 000 s", 5.0, 100.0),
    (Case::C, "c: 10 000 SACK flows, 1 Gbit/s, 10 s", 30.0, 100.0),
];

/// Text of the whole page.
pub fn markdown(done: &Done, quick: bool) -> String {
    let mut text = String::new();
    if quick {
        text += "Quick runs: shorter than the bounds are meant for.\n\n";
    }
    agreement(&mut text, done);
    rest(&mut text, done);
    single(&mut text, done);
    speed(&mut text, done);
    if text.is_empty() {
        text += "Nothing was run.\n";
    }
    text
}

fn records<'a>(
    done: &'a Done,
    simulator: Simulator,
    case: Case,
    flavour: &'a str,
) -> impl Iterator<Item = &'a Record> + 'a {
    done.iter()
        .filter(move |(job, _)| job.simulator == simulator && job.case == case && job.flavour == flavour)
        .map(|(_, record)| record)
}

fn mean(done: &Done, simulator: Simulator, case: Case, flavour: &str) -> Option<Metrics> {
    let runs: Vec<Metrics> = records(done, simulator, case, flavour).map(|record| record.metrics).collect();
    Metrics::mean(&runs)
}

/// The run that took least processor time: what disturbs only adds.
fn fastest<'a>(done: &'a Done, simulator: Simulator, case: Case, flavour: &'a str) -> Option<&'a Record> {
    records(done, simulator, case, flavour).min_by(|a, b| a.cost.cpu_s.total_cmp(&b.cost.cpu_s))
}

fn row(text: &mut String, cells: &[String]) {
    _ = writeln!(text, "| {} |", cells.join(" | "));
}

fn head(text: &mut String, title: &str, columns: &[&str]) {
    if !text.is_empty() && !text.ends_with("\n\n") {
        text.push('\n');
    }
    _ = writeln!(text, "## {title}\n\n| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len()));
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(String::new, |v| format!("{v:.digits$}"))
}

fn agreement(text: &mut String, done: &Done) {
    let mut begun = false;
    for share in SHARES {
        let case = Case::Share(share);
        for flavour in &FLAVOURS {
            let peer = mean(done, flavour.peer, case, flavour.name);
            let ours = mean(done, Simulator::Narrows, case, flavour.name);
            if peer.is_none() && ours.is_none() {
                continue;
            }
            if !std::mem::replace(&mut begun, true) {
                head(
                    text,
                    "Agreement: S1, 600 kbit/s, drop-tail unless the flavour says otherwise",
                    &[
                        "kbit/s a flow",
                        "flavour",
                        "peer",
                        "Jain 20 s",
                        "narrows",
                        "±",
                        "loss",
                        "narrows",
                        "±",
                        "timeouts/flow/s",
                        "narrows",
                        "± %",
                        "within bounds",
                    ],
                );
            }
            let difference = peer.zip(ours).map(|(peer, ours)| Difference::of(&peer, &ours));
            let signed = |value: Option<f64>, digits: usize| {
                value.map_or_else(String::new, |v| format!("{v:+.digits$}"))
            };
            let of =
                |metrics: Option<Metrics>, pick: fn(&Metrics) -> Option<f64>| metrics.as_ref().and_then(pick);
            row(
                text,
                &[
                    share.to_string(),
                    flavour.name.into(),
                    flavour.peer.name().into(),
                    number(of(peer, |m| m.jfi_slice), 3),
                    number(of(ours, |m| m.jfi_slice), 3),
                    signed(difference.as_ref().map(|d| d.jfi), 3),
                    number(of(peer, |m| Some(m.loss)), 3),
                    number(of(ours, |m| Some(m.loss)), 3),
                    signed(difference.as_ref().map(|d| d.loss), 3),
                    number(of(peer, |m| Some(m.timeouts_per_flow_s)), 3),
                    number(of(ours, |m| Some(m.timeouts_per_flow_s)), 3),
                    signed(difference.as_ref().map(|d| d.timeouts * 100.0), 0),
                    difference.map_or_else(String::new, |d| d.verdict(&bound(flavour))),
                ],
            );
        }
    }
    if begun {
        order(text, done);
    }
}

/// Narrows minus peer.
struct Difference {
    jfi: f64,
    loss: f64,
    /// Relative to the peer.
    timeouts: f64,
}

impl Difference {
    fn of(peer: &Metrics, ours: &Metrics) -> Self {
        Self {
            jfi: ours.jfi_slice.unwrap_or(f64::NAN) - peer.jfi_slice.unwrap_or(f64::NAN),
            loss: ours.loss - peer.loss,
            timeouts: ours.timeouts_per_flow_s / peer.timeouts_per_flow_s - 1.0,
        }
    }

    fn verdict(&self, bound: &Bound) -> String {
        let exceeds =
            |value: f64, most: Option<f64>| most.is_some_and(|most| value.is_nan() || value.abs() > most);
        let mut outside = Vec::new();
        if exceeds(self.jfi, Some(bound.jfi)) {
            outside.push(format!("Jain ({:.2})", bound.jfi));
        }
        if exceeds(self.loss, bound.loss) {
            outside.push(format!("loss ({:.2})", bound.loss.unwrap_or_default()));
        }
        if exceeds(self.timeouts, bound.timeouts) {
            outside.push(format!("timeouts ({:.0} %)", bound.timeouts.unwrap_or_default() * 100.0));
        }
        if outside.is_empty() { "yes".into() } else { format!("no: {}", outside.join(", ")) }
    }
}

/// In the phase setting the shares are to come in the same order as in ns-2.
fn order(text: &mut String, done: &Done) {
    let flavour = &FLAVOURS[0];
    let by_index = |simulator| {
        let mut shares: Vec<(f64, u32)> = SHARES
            .iter()
            .filter_map(|&s| Some((mean(done, simulator, Case::Share(s), flavour.name)?.jfi_slice?, s)))
            .collect();
        shares.sort_by(|a, b| a.0.total_cmp(&b.0));
        shares.into_iter().map(|(_, share)| share).collect::<Vec<_>>()
    };
    let (peer, ours) = (by_index(flavour.peer), by_index(Simulator::Narrows));
    if peer.len() > 1 && peer.len() == ours.len() {
        let verdict = if peer == ours { "the same" } else { "another" };
        _ = writeln!(text, "\n{}: the shares come in {verdict} order of the index as in ns-2.", flavour.name);
    }
}

fn rest(text: &mut String, done: &Done) {
    let mut begun = false;
    for share in SHARES {
        for flavour in &FLAVOURS {
            for simulator in [flavour.peer, Simulator::Narrows] {
                let case = Case::Share(share);
                let Some(m) = mean(done, simulator, case, flavour.name) else { continue };
                if !std::mem::replace(&mut begun, true) {
                    head(
                        text,
                        "What else was measured in S1",
                        &[
                            "kbit/s a flow",
                            "flavour",
                            "simulator",
                            "Jain long run",
                            "zero slices",
                            "utilisation",
                            "goodput kbit/s",
                            "packets",
                            "wall s",
                            "MB",
                        ],
                    );
                }
                let cost = fastest(done, simulator, case, flavour.name).map(|record| record.cost);
                row(
                    text,
                    &[
                        share.to_string(),
                        flavour.name.into(),
                        simulator.name().into(),
                        number(m.jfi_long, 3),
                        number(m.zero_share, 3),
                        number(Some(m.utilisation), 4),
                        number(Some(m.goodput_bps / 1e3), 1),
                        m.departed_packets.to_string(),
                        number(cost.map(|c| c.wall_s), 2),
                        number(cost.map(|c| c.rss_kb as f64 / 1e3), 0),
                    ],
                );
            }
        }
    }
}

/// Utilisation of one Reno flow with a buffer of `b` bandwidth-delay products: the mean of a sawtooth between half the
/// full pipe and the full pipe, in which the round-trip time grows with the queue.
fn sawtooth(b: f64) -> f64 {
    (0.75 * (1.0 + b).powi(2) / (1.0 + b + b * b)).min(1.0)
}

fn single(text: &mut String, done: &Done) {
    let simulators = [Simulator::Narrows, Simulator::Ns2, Simulator::Ns3];
    let used = |percent, simulator| mean(done, simulator, Case::Buffer(percent), SACK).map(|m| m.utilisation);
    if BUFFERS.iter().all(|&p| simulators.iter().all(|&s| used(p, s).is_none())) {
        return;
    }
    head(
        text,
        "One SACK flow, 12 Mbit/s, 100 ms: utilisation",
        &["buffer % of BDP", "0.75(1+b)²/(1+b+b²)", "narrows", "ns-2", "ns-3"],
    );
    for percent in BUFFERS {
        let mut cells = vec![percent.to_string(), number(Some(sawtooth(f64::from(percent) / 100.0)), 3)];
        cells.extend(simulators.map(|simulator| number(used(percent, simulator), 3)));
        row(text, &cells);
    }
}

fn speed(text: &mut String, done: &Done) {
    let mut begun = false;
    for (case, title, times_ns2, times_ns3) in SPEEDS {
        let ours = fastest(done, Simulator::Narrows, case, SACK);
        for (simulator, least) in
            [(Simulator::Narrows, 1.0), (Simulator::Ns2, times_ns2), (Simulator::Ns3, times_ns3)]
        {
            let Some(record) = fastest(done, simulator, case, SACK) else { continue };
            if !std::mem::replace(&mut begun, true) {
                head(
                    text,
                    "Speed: one core",
                    &[
                        "case",
                        "simulator",
                        "wall s",
                        "processor s",
                        "MB",
                        "packets",
                        "utilisation",
                        "loss",
                        "narrows is faster",
                        "at least",
                        "reached",
                    ],
                );
            }
            let ratio = ours
                .filter(|_| simulator != Simulator::Narrows)
                // The ratio is of processor time, which a busy machine spoils less; on a quiet machine it equals the
                // wall's.
                .map(|ours| record.cost.cpu_s / ours.cost.cpu_s);
            let (metrics, cost) = (record.metrics, record.cost);
            row(
                text,
                &[
                    title.into(),
                    simulator.name().into(),
                    number(Some(cost.wall_s), 2),
                    number(Some(cost.cpu_s), 2),
                    number(Some(cost.rss_kb as f64 / 1e3), 0),
                    metrics.departed_packets.to_string(),
                    number(Some(metrics.utilisation), 3),
                    number(Some(metrics.loss), 3),
                    ratio.map_or_else(String::new, |r| format!("{r:.1} x")),
                    if simulator == Simulator::Narrows { String::new() } else { format!("{least:.0} x") },
                    ratio.map_or_else(String::new, |r| if r >= least { "yes".into() } else { "no".into() }),
                ],
            );
        }
    }
}

/// Every run, a line each.
pub fn csv(done: &Done) -> String {
    let mut text = String::from(
        "simulator,case,flavour,seed,flows,jfi_slice,jfi_long,utilisation,loss,timeouts_per_flow_s,\
         zero_share,goodput_bps,departed_packets,wall_s,cpu_s,rss_kb,program\n",
    );
    for (job, record) in done {
        let (m, cost, settings) = (record.metrics, record.cost, &job.settings);
        let cells = [
            job.simulator.name().to_owned(),
            record.case.clone(),
            format!("\"{}\"", job.flavour),
            settings.seed.to_string(),
            settings.flows.to_string(),
            number(m.jfi_slice, 6),
            number(m.jfi_long, 6),
            number(Some(m.utilisation), 6),
            number(Some(m.loss), 6),
            number(Some(m.timeouts_per_flow_s), 6),
            number(m.zero_share, 6),
            number(Some(m.goodput_bps), 0),
            m.departed_packets.to_string(),
            number(Some(cost.wall_s), 3),
            number(Some(cost.cpu_s), 3),
            cost.rss_kb.to_string(),
            record.program.clone(),
        ];
        text += &(cells.join(",") + "\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sawtooth_by_hand() {
        // No buffer: a window between half and all of the pipe; a whole BDP: never empty.
        assert_eq!(sawtooth(0.0), 0.75);
        assert_eq!(sawtooth(1.0), 1.0);
        // b = 1/2: 0.75 * 2.25 / 1.75.
        assert!((sawtooth(0.5) - 1.6875 / 1.75).abs() < 1e-12);
    }

    #[test]
    fn verdict_names_what_is_outside() {
        let strict = bound(&FLAVOURS[1]);
        let near = Difference { jfi: -0.05, loss: 0.02, timeouts: 0.15 };
        assert_eq!(near.verdict(&strict), "yes");
        let far = Difference { jfi: 0.08, loss: 0.03, timeouts: -0.2 };
        assert_eq!(far.verdict(&strict), "no: Jain (0.05), loss (0.02), timeouts (15 %)");
        // The phase setting is held to the index alone.
        assert_eq!(far.verdict(&bound(&FLAVOURS[0])), "yes");
        assert_eq!(Difference { jfi: f64::NAN, ..near }.verdict(&strict), "no: Jain (0.05)");
    }
}
