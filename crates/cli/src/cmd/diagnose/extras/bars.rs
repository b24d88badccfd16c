//! Connections as bars in time, their stalls coloured by cause.

use narrows_diagnose::{Cause, FlowReport, Overall};
use narrows_plot::{Kind, MOST_TIMELINES, Timeline, Timelines, timelines_svg};

use super::colours;

/// Parts of a connection that the picture shows.
struct Bar {
    number: u64,
    stalled_s: f64,
    name: String,
    span: (f64, f64),
    stalls: Vec<(f64, f64, Cause)>,
}

/// The connections that stood still for longest, as many as a page can name.
#[derive(Default)]
pub struct Bars {
    bars: Vec<Bar>,
    connections: u64,
    /// The most that one which is left out stood still, seconds.
    rest_s: f64,
}

impl Bars {
    pub fn add(&mut self, flow: &FlowReport) {
        let stall = |s: &narrows_diagnose::Stall| (s.from.as_secs_f64(), s.to.as_secs_f64(), s.cause);
        self.put(Bar {
            number: flow.number,
            stalled_s: flow.stalled_s(),
            name: format!("#{} {}", flow.number, flow.key().to_string().trim_start_matches("tcp ")),
            span: (flow.from.as_secs_f64(), flow.to.as_secs_f64()),
            stalls: flow.stalls.iter().map(stall).collect(),
        });
    }

    fn put(&mut self, bar: Bar) {
        self.connections += 1;
        self.bars.push(bar);
        if self.bars.len() > 2 * MOST_TIMELINES {
            self.cut();
        }
    }

    /// Keeps those that stood still for longest, in the order in which they began.
    fn cut(&mut self) {
        self.bars.sort_by(|a, b| b.stalled_s.total_cmp(&a.stalled_s).then(a.number.cmp(&b.number)));
        let rest = self.bars.get(MOST_TIMELINES..).unwrap_or_default();
        self.rest_s = rest.iter().map(|b| b.stalled_s).fold(self.rest_s, f64::max);
        self.bars.truncate(MOST_TIMELINES);
        self.bars.sort_by_key(|b| b.number);
    }

    /// Leaves out connections that never stood still if a page cannot name all, and some did.
    fn choose(&mut self) {
        self.cut();
        let some = self.bars.iter().any(|b| b.stalled_s > 0.0);
        if self.connections > MOST_TIMELINES as u64 && some {
            self.bars.retain(|b| b.stalled_s > 0.0);
        }
    }

    /// Sentence on the connections that are drawn.
    fn who(&self) -> String {
        let drawn = self.bars.len() as u64;
        if drawn == self.connections {
            format!("{} connection{}", drawn, if drawn == 1 { "" } else { "s" })
        } else if self.bars.iter().any(|b| b.stalled_s > 0.0) {
            format!("the {drawn} of {} connections that stood still for longest", self.connections)
        } else {
            format!("the first {drawn} of {} connections", self.connections)
        }
    }

    /// Sentence on the connections that are left out.
    fn rest(&self) -> String {
        let left = self.connections - self.bars.len() as u64;
        let connections = if left == 1 { "connection" } else { "connections" };
        if left == 0 {
            String::new()
        } else if self.rest_s > 0.0 {
            format!(
                "and {left} more {connections}, none of which stood still for more than {:.1} s",
                self.rest_s
            )
        } else {
            format!("and {left} more {connections}, none of which stood still")
        }
    }

    /// `name` is that of the capture.
    pub fn svg(mut self, name: &str, overall: &Overall) -> String {
        self.choose();
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
            title: format!("Stalls in {name}"),
            subtitle: format!(
                "{}; {} stood still for more than {} s; colours are causes, with the time of all their stalls",
                self.who(),
                overall.stalled_over,
                overall.over_s
            ),
            kinds: kinds.collect(),
            plain: "open, not stalled".to_owned(),
            time: super::TIME.to_owned(),
            rows: rows.collect(),
            rest: self.rest(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes bars of connections, one for each stalled time.
    fn bars(stalled: impl Iterator<Item = f64>) -> Bars {
        let mut bars = Bars::default();
        for (number, stalled_s) in (0..).zip(stalled) {
            bars.put(Bar { number, stalled_s, name: String::new(), span: (0.0, 1.0), stalls: Vec::new() });
        }
        bars.choose();
        bars
    }

    #[test]
    fn as_many_as_have_names_and_none_that_never_stood_still() {
        const MOST: u64 = MOST_TIMELINES as u64;
        let few = bars([0.0, 2.0].into_iter());
        assert_eq!((few.who(), few.rest()), ("2 connections".to_owned(), String::new()));
        // The longest come last, after many were cut off already.
        let many = bars((0..5 * MOST).map(|n| n as f64 / 10.0));
        assert_eq!(many.bars.len(), MOST_TIMELINES);
        assert_eq!(many.bars[0].number, 4 * MOST);
        let said = format!(
            "and {} more connections, none of which stood still for more than {:.1} s",
            4 * MOST,
            (4 * MOST - 1) as f64 / 10.0
        );
        assert_eq!(many.rest(), said);
        let three = bars((0..500).map(|n| if n % 200 == 1 { 3.0 } else { 0.0 }));
        assert_eq!(three.bars.iter().map(|b| b.number).collect::<Vec<_>>(), [1, 201, 401]);
        assert_eq!(three.rest(), "and 497 more connections, none of which stood still");
        let none = bars((0..MOST + 1).map(|_| 0.0));
        assert_eq!(none.bars.len(), MOST_TIMELINES, "a picture of nobody tells nothing");
        assert_eq!(none.rest(), "and 1 more connection, none of which stood still");
        assert_eq!(none.who(), format!("the first {MOST} of {} connections", MOST + 1));
    }
}
