//! Picture of one connection's packets by their sequence numbers.

use std::collections::HashMap;

use narrows_diagnose::{Cause, FlowReport, Repair, Trace, Way};
use narrows_plot::{Kind, Sequence, SequencePanel, StepLine, Strokes, sequence_svg};
use narrows_units::Instant;

use super::colours;

/// A direction with fewer segments than this is not drawn beside one that has more.
const FEW: usize = 10;

/// Retransmissions of one reason: words, colour, and places in the picture.
type Again = (&'static str, &'static str, Vec<(f64, f64, f64)>);

/// `name` is that of the capture.
pub fn svg(name: &str, flow: &FlowReport, trace: &Trace) -> String {
    let repairs: HashMap<u64, Repair> =
        flow.events.iter().filter(|e| !e.inferred).map(|e| (e.frame, e.repair)).collect();
    let key = flow.key();
    let ends = [(key, 0_u8), (key.reverse(), 1)];
    let most = ends.iter().map(|(key, _)| trace.way(key).sent.len()).max().unwrap_or(0);
    let drawn = ends.iter().filter(|(key, _)| {
        let segments = trace.way(key).sent.len();
        segments == most || segments >= FEW
    });
    let mut looks = Looks::default();
    let panels: Vec<SequencePanel> = drawn
        .map(|(key, by)| SequencePanel {
            title: if trace.way(key).sent.is_empty() { format!("{key}: no data") } else { key.to_string() },
            ..panel(trace.way(key), &repairs, &mut looks, flow, *by)
        })
        .collect();
    let (timeouts, lasted) = (flow.counts().timeouts, flow.to.since(flow.from).as_secs_f64());
    sequence_svg(&Sequence {
        title: format!("Connection {} of {name}", flow.number),
        subtitle: format!(
            "{:.1} s of {lasted:.1} s in stalls, which are shaded by cause; timeouts: {timeouts}, of them not \
             seen: {}; fast retransmits: {}",
            flow.stalled_s(),
            flow.counts().timeouts_inferred,
            flow.counts().fast_retransmits
        ),
        kinds: looks.kinds(),
        time: super::TIME.to_owned(),
        panels,
    })
}

/// Kinds of marks that the picture shows, for its key.
#[derive(Default)]
struct Looks {
    repairs: Vec<(&'static str, &'static str)>,
    causes: Vec<Cause>,
    sacks: bool,
    window: bool,
}

impl Looks {
    fn kinds(self) -> Vec<Kind> {
        let mut all = vec![("data", colours::DATA)];
        all.extend(self.repairs);
        all.push(("acknowledged", colours::ACK));
        all.extend(self.sacks.then_some(("selectively acknowledged", colours::SACK)));
        all.extend(self.window.then_some(("edge of the receiver's window", colours::WINDOW)));
        all.extend(self.causes.iter().map(|c| (c.words(), colours::shade(*c))));
        all.into_iter()
            .map(|(name, colour)| Kind { name: name.to_owned(), note: String::new(), colour })
            .collect()
    }
}

fn panel(
    way: &Way,
    repairs: &HashMap<u64, Repair>,
    looks: &mut Looks,
    flow: &FlowReport,
    by: u8,
) -> SequencePanel {
    let s = |at: Instant| at.as_secs_f64();
    let strokes = |colour, width, at| Strokes { colour, width, at };
    let mut data = Vec::new();
    let mut again: Vec<Again> = Vec::new();
    for sent in &way.sent {
        let at = (s(sent.at), sent.start as f64, sent.end as f64);
        let repair = repairs.get(&sent.frame).copied();
        if repair.is_none() && !sent.again {
            data.push(at);
            continue;
        }
        let (words, colour) = colours::repair(repair);
        match again.iter_mut().find(|a| a.0 == words) {
            Some((_, _, all)) => all.push(at),
            None => again.push((words, colour, vec![at])),
        }
    }
    let sacked: Vec<_> = way.sacked.iter().map(|(at, l, r)| (s(*at), *l as f64, *r as f64)).collect();
    looks.sacks |= !sacked.is_empty();
    let mut all = vec![strokes(colours::SACK, 0.8, sacked), strokes(colours::DATA, 1.6, data)];
    for (words, colour, at) in again {
        if !looks.repairs.contains(&(words, colour)) {
            looks.repairs.push((words, colour));
        }
        all.push(strokes(colour, 2.4, at));
    }
    let acked = way.acked.iter().map(|a| (s(a.at), a.next as f64)).collect();
    let edge: Vec<_> = way.acked.iter().filter_map(|a| Some((s(a.at), a.edge? as f64))).collect();
    looks.window |= !edge.is_empty();
    let mut shades = Vec::new();
    for stall in flow.stalls.iter().filter(|stall| stall.by == by && stall.cause.counts()) {
        shades.push((s(stall.from), s(stall.to), colours::shade(stall.cause)));
        if !looks.causes.contains(&stall.cause) {
            looks.causes.push(stall.cause);
        }
    }
    SequencePanel {
        title: String::new(),
        shades,
        strokes: all,
        steps: vec![
            StepLine { colour: colours::WINDOW, at: edge, whole: false },
            StepLine { colour: colours::ACK, at: acked, whole: true },
        ],
    }
}
