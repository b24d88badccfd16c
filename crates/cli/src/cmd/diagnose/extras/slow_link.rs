//! Rate of the slow link over time, as the shaper that follows a link would have learnt it at the point of capture
//! ([`LinkWatch`]).

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use narrows_plot::{Chart, Line, Panel, chart_svg, quantile};
use narrows_qdisc::follow::{BySide, LinkSecond, LinkSide, LinkWatch};
use narrows_units::Instant;
use narrows_wire::Header;
use serde_json::{Value, json};

use crate::cmd::bits;

/// Most points of a line; the seconds of a longer capture are drawn several to a point.
const POINTS: usize = 300;
/// Seconds for which a link must be full before its rate is told.
const LEAST_FULL: usize = 3;

/// Explanation below the picture's title.
const FULL: &str = "a link is full in a second in which every packet that told had waited; bars: least and greatest \
                    of the seconds that a point stands for";

/// Observers of both directions of a link, and the file of the picture.
#[derive(Debug)]
pub struct SlowLink {
    picture: PathBuf,
    to_users: LinkWatch,
    from_users: LinkWatch,
}

/// A direction, second by second.
struct Way {
    name: &'static str,
    seconds: Vec<LinkSecond>,
}

impl SlowLink {
    pub fn new(picture: PathBuf) -> Self {
        Self { picture, to_users: LinkWatch::new(1), from_users: LinkWatch::new(2) }
    }

    /// Notes a packet. The end with the lower port is taken to be the server.
    pub fn packet(&mut self, at: Instant, header: &Header) {
        let Self { to_users, from_users, .. } = self;
        let from_server = header.key.sport <= header.key.dport;
        let (this, other) = if from_server { (to_users, from_users) } else { (from_users, to_users) };
        this.passes(at, header, header.len);
        other.returns(at, header);
    }

    /// Draws the picture of the capture with this name. Returns lines for the page and a member of the JSON object.
    pub fn finish(self, name: &str) -> anyhow::Result<(String, Value)> {
        let ways: Vec<Way> = [("to the users", self.to_users), ("from the users", self.from_users)]
            .into_iter()
            .map(|(name, watch)| Way { name, seconds: watch.finish() })
            .filter(|way| !way.seconds.is_empty())
            .collect();
        save(name, &ways, &self.picture)?;
        let lines: String = ways.iter().map(Way::line).collect();
        let json = ways.iter().map(|way| (way.name.replace(' ', "_"), way.json())).collect();
        Ok((format!("\nThe slow link, as `auto` would have found it here\n\n{lines}"), Value::Object(json)))
    }
}

fn save(name: &str, ways: &[Way], picture: &Path) -> anyhow::Result<()> {
    let chart = Chart {
        title: format!("The slow link of {name}"),
        subtitle: FULL.to_owned(),
        panels: ways.iter().flat_map(Way::panels).collect(),
    };
    narrows_plot::save_as(&chart_svg(&chart), picture)
        .with_context(|| format!("--link {}", picture.display()))
}

impl Way {
    fn full(&self) -> impl Iterator<Item = &LinkSecond> {
        self.seconds.iter().filter(|second| second.full.is_some())
    }

    /// Length from the first to the last second.
    fn length_s(&self) -> u64 {
        self.seconds.last().map_or(0, |last| last.at + 1)
    }

    /// Seconds in which a queue stood on each side.
    fn full_s(&self) -> BySide<usize> {
        let on = |side| self.full().filter(|second| second.full == Some(side)).count();
        BySide { before: on(LinkSide::Before), behind: on(LinkSide::Behind) }
    }

    /// Quantiles of a quantity of the seconds in which the link was full.
    fn quantiles(&self, of: impl Fn(&LinkSecond) -> Option<f64>, at: [f64; 3]) -> [f64; 3] {
        let mut all: Vec<f64> = self.full().filter_map(of).collect();
        all.sort_by(f64::total_cmp);
        at.map(|q| quantile(&all, q).unwrap_or(0.0))
    }

    /// Rate while the link was full: p5, median, p95; `None` if it is told of too few seconds.
    fn rates(&self) -> Option<[f64; 3]> {
        let told = self.full().filter(|second| second.rate.is_some()).count() >= LEAST_FULL;
        told.then(|| self.quantiles(|second| second.rate.map(|rate| rate.as_bps() as f64), [0.05, 0.5, 0.95]))
    }

    /// Shortest waits of the seconds in which the link was full, on the side where it was: median, p95, longest.
    fn waits(&self) -> [f64; 3] {
        let of = |second: &LinkSecond| second.waits[second.full?].map(|wait| wait.as_secs_f64());
        self.quantiles(of, [0.5, 0.95, 1.0])
    }

    fn line(&self) -> String {
        let (length, BySide { before, behind }) = (self.length_s(), self.full_s());
        if before + behind < LEAST_FULL {
            return format!(
                "  {}: never full for long in {length} s, so nothing tells its rate\n",
                self.name
            );
        }
        let place = match (before, behind) {
            (_, 0) => "before this point".to_owned(),
            (0, _) => "behind this point".to_owned(),
            _ => format!("for {before} s before this point and {behind} s behind it"),
        };
        let rate = match self.rates() {
            Some([low, rate, high]) => {
                format!("{} then at the median (p5 {}, p95 {})", bits(rate), bits(low), bits(high))
            }
            None => "its rate is not told, as packets were lost behind this point".to_owned(),
        };
        let [wait, long, _] = self.waits();
        format!(
            "  {}: full in {} of {length} s, {place}; {rate}; packets waited at least {wait:.2} s (p95 {long:.2})\n",
            self.name,
            before + behind
        )
    }

    fn json(&self) -> Value {
        let (length, BySide { before, behind }) = (self.length_s(), self.full_s());
        let [wait, long, longest] = self.waits();
        let told = before + behind >= LEAST_FULL;
        let rates = self.rates().filter(|_| told);
        json!({
            "length_s": length,
            "full_before_s": before,
            "full_behind_s": behind,
            "rate_bps": rates.map(|[low, rate, high]| json!({ "p5": low, "p50": rate, "p95": high })),
            "wait_s": told.then(|| json!({ "p50": wait, "p95": long, "max": longest })),
            "seconds": self.seconds.iter().map(|second| json!({
                "at_s": second.at,
                "passed_bps": second.passed.get() * 8,
                "full": second.full.map(LinkSide::name),
                "rate_bps": second.rate.map(|rate| rate.as_bps()),
                "wait_before_s": second.waits.before.map(|wait| wait.as_secs_f64()),
                "wait_behind_s": second.waits.behind.map(|wait| wait.as_secs_f64()),
            })).collect::<Vec<_>>(),
        })
    }

    fn panels(&self) -> [Panel; 2] {
        let wait =
            |side: LinkSide| move |second: &LinkSecond| second.waits[side].map(|wait| wait.as_secs_f64());
        let panel = |title: &str, y_name: &str, lines| Panel {
            title: format!("{}: {title}", self.name),
            x_name: super::TIME.to_owned(),
            even: true,
            y_name: y_name.to_owned(),
            log: false,
            lines,
        };
        let megabits = |bps: u64| bps as f64 / 1e6;
        [
            panel(
                "rate",
                "Mbit/s",
                vec![
                    self.drawn("passed here", |second| Some(megabits(second.passed.get() * 8))),
                    self.drawn("rate of the link while full", |s| s.rate.map(|rate| megabits(rate.as_bps()))),
                ],
            ),
            panel(
                "shortest wait in a second",
                "s",
                vec![
                    self.drawn("before this point", wait(LinkSide::Before)),
                    self.drawn("behind this point", wait(LinkSide::Behind)),
                ],
            ),
        ]
    }

    /// A line of this quantity: the least, the median and the greatest of the seconds that a point stands for.
    fn drawn(&self, name: &str, of: impl Fn(&LinkSecond) -> Option<f64>) -> Line {
        let each = self.length_s().div_ceil(POINTS as u64).max(1);
        let mut points: Vec<(u64, Vec<f64>)> = Vec::new();
        for (second, value) in self.seconds.iter().filter_map(|second| Some((second, of(second)?))) {
            let at = second.at / each;
            match points.last_mut() {
                Some((last, values)) if *last == at => values.push(value),
                _ => points.push((at, vec![value])),
            }
        }
        let point = |(at, mut values): (u64, Vec<f64>)| {
            values.sort_by(f64::total_cmp);
            let middle = quantile(&values, 0.5).unwrap_or(f64::NAN);
            let ends = [values.first(), values.last()].map(|end| end.copied().unwrap_or(f64::NAN));
            ((at * each) as f64 + each as f64 / 2.0, [ends[0], middle, ends[1]])
        };
        Line { name: name.to_owned(), points: points.into_iter().map(point).collect() }
    }
}
