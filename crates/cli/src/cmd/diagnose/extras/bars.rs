//! Connections as bars in time, their stalls coloured by cause.

use narrows_diagnose::{Cause, FlowReport, Overall};
use narrows_plot::{Kind, Timeline, Timelines, timelines_svg};

use super::colours;

/// Bars that a page has room for.
const MOST: usize = 180;

/// A connection, as far as it is drawn.
struct Bar {
    number: u64,
    stalled_s: f64,
    name: String,
    span: (f64, f64),
    stalls: Vec<(f64, f64, Cause)>,
}

/// The connections that stood still for longest.
#[derive(Default)]
pub struct Bars {
    bars: Vec<Bar>,
    connections: u64,
}

impl Bars {
    pub fn add(&mut self, flow: &FlowReport) {
        self.connections += 1;
        let stall = |s: &narrows_diagnose::Stall| (s.from.as_secs_f64(), s.to.as_secs_f64(), s.cause);
        self.bars.push(Bar {
            number: flow.number,
            stalled_s: flow.stalled_s(),
            name: format!("#{} {}", flow.number, flow.key().to_string().trim_start_matches("tcp ")),
            span: (flow.from.as_secs_f64(), flow.to.as_secs_f64()),
            stalls: flow.stalls.iter().map(stall).collect(),
        });
        if self.bars.len() >= 2 * MOST {
            self.cut();
        }
    }

    /// Keeps those that stood still for longest, in the order in which they began.
    fn cut(&mut self) {
        self.bars.sort_by(|a, b| b.stalled_s.total_cmp(&a.stalled_s).then(a.number.cmp(&b.number)));
        self.bars.truncate(MOST);
        self.bars.sort_by_key(|b| b.number);
    }

    pub fn svg(mut self, name: &str, overall: &Overall) -> String {
        self.cut();
        let drawn = self.bars.len() as u64;
        let who = if drawn < self.connections {
            format!("the {drawn} of {} connections that stood still for longest", self.connections)
        } else {
            format!("{drawn} connections")
        };
        let shares = overall.causes.iter().filter(|c| c.cause.counts());
        let causes: Vec<Cause> = shares.clone().map(|c| c.cause).collect();
        let kinds = shares.map(|c| Kind {
            name: c.cause.words().to_owned(),
            note: format!("{:.1} s", c.time_s),
            colour: colours::cause(c.cause),
        });
        let place = |(from, to, cause): &(f64, f64, Cause)| {
            causes.iter().position(|c| c == cause).map(|kind| (*from, *to, kind))
        };
        let rows = self.bars.iter().map(|b| Timeline {
            name: b.name.clone(),
            span: b.span,
            stretches: b.stalls.iter().filter_map(place).collect(),
        });
        timelines_svg(&Timelines {
            title: format!("Who stood still in {name}, and why"),
            subtitle: format!(
                "{who}; {} stood still for more than {} s; colours are causes, with the time of all their stalls",
                overall.stalled_over, overall.over_s
            ),
            kinds: kinds.collect(),
            rows: rows.collect(),
        })
    }
}
