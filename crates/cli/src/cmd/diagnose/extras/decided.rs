//! Picture of decisions: the rate over time, the wait in the link's queue, the side of the link, and the reasons at
//! their times.

use narrows_plot::{Course, CoursePart, Kind, course_svg};
use narrows_qdisc::follow::{DecisionReason, FollowPhase, LinkSide, LoggedDecision};

use super::short;
use crate::cmd::diagnose::decisions::{Decisions, LASTS_S, LinkDecisions};

const RATE: &str = "#0072b2";
const ARRIVED: &str = "#9aa3ab";
const LEFT: &str = "#009e73";
const WAIT: &str = "#d55e00";
const BEFORE: &str = "#56b4e9";
const BEHIND: &str = "#cc79a7";

/// Longest span whose time axis is in seconds, and in minutes.
const IN_SECONDS: f64 = 600.0;
const IN_MINUTES: f64 = 3.0 * 3600.0;
/// Times that are equal but for rounding.
const NEAR: f64 = 1e-6;

/// The decisions as SVG text.
pub fn svg(name: &str, decisions: &Decisions) -> String {
    let length = decisions.to_s - decisions.from_s;
    let (unit_s, unit) = match length {
        s if s <= IN_SECONDS => (1.0, "s"),
        s if s <= IN_MINUTES => (60.0, "min"),
        _ => (3600.0, "h"),
    };
    let time = Time { zero_s: decisions.zero_s(), unit_s };
    let mut reasons: Vec<DecisionReason> = Vec::new();
    let mut phases: Vec<FollowPhase> = Vec::new();
    for link in &decisions.links {
        reasons.extend(link.reasons().into_iter().map(|(reason, _)| reason));
        phases.extend(link.phases().into_iter().map(|(phase, _)| phase));
    }
    reasons.sort_unstable();
    reasons.dedup();
    let kind = |name: &str, colour| Kind { name: name.to_owned(), note: String::new(), colour };
    let mut kinds = vec![
        kind("rate found", RATE),
        kind("arrived at the box", ARRIVED),
        kind("left the box", LEFT),
        kind("wait in the link's queue", WAIT),
        kind("link before the box", BEFORE),
        kind("link behind the box", BEHIND),
    ];
    let shown = FollowPhase::ALL.into_iter().filter(|phase| phases.contains(phase));
    kinds.extend(shown.map(|phase| kind(phase.name(), colour(phase))));
    let page = Course {
        title: format!("Decisions of auto in {}", short(name)),
        subtitle: "records while packets passed; rates of packets are averages since the record before"
            .to_owned(),
        kinds,
        time: format!("time since {}, {unit}", decisions.date().as_deref().unwrap_or("the run began")),
        parts: decisions.links.iter().flat_map(|link| parts(link, &time)).collect(),
        notes: reasons.into_iter().map(|reason| format!("{}: {reason}", reason.name())).collect(),
    };
    course_svg(&page)
}

/// Map of times to the page.
struct Time {
    zero_s: f64,
    unit_s: f64,
}

impl Time {
    fn of(&self, time_s: f64) -> f64 {
        (time_s - self.zero_s) / self.unit_s
    }
}

fn parts(link: &LinkDecisions, time: &Time) -> Vec<CoursePart> {
    let all = || link.all.iter();
    let rates = all().flat_map(|d| [d.rate_bps, d.arrived_bps, d.left_bps]).flatten();
    let (one, unit) = if rates.max().unwrap_or(0) >= 1_000_000 { (1e6, "Mbit/s") } else { (1e3, "kbit/s") };
    let over = |of: fn(&LoggedDecision) -> Option<u64>| {
        // An average is of the time before its record.
        let ends = all().filter_map(|d| {
            let (value, over) = (of(d)? as f64 / one, d.over_s.unwrap_or(0.0));
            Some([(time.of(d.time_s - over), value), (time.of(d.time_s), value)])
        });
        ends.flatten().collect::<Vec<_>>()
    };
    let rate = |d: &LoggedDecision| d.rate_bps.map(|bps| bps as f64 / one);
    let lines = vec![
        (ARRIVED, over(|d| d.arrived_bps)),
        (LEFT, over(|d| d.left_bps)),
        (RATE, stepped(link, time, rate)),
    ];
    let wait = vec![(WAIT, stepped(link, time, |d| d.wait_s))];
    let (title, y_name) = (format!("{}: rate", link.name), unit.to_owned());
    let side = |side: LinkSide| if side == LinkSide::Before { BEFORE } else { BEHIND };
    let mut parts = vec![
        CoursePart::Lines { title, y_name, lines },
        CoursePart::Lines {
            title: format!("{}: wait in the link's queue", link.name),
            y_name: "s".to_owned(),
            lines: wait,
        },
        CoursePart::Band { name: "side".to_owned(), stretches: stretches(link, time, |d| d.side.map(side)) },
        CoursePart::Band {
            name: "state".to_owned(),
            stretches: stretches(link, time, |d| Some(colour(d.phase))),
        },
    ];
    parts.extend(link.reasons().into_iter().map(|(reason, times)| CoursePart::Marks {
        name: reason.name().to_owned(),
        at: times.into_iter().map(|at| time.of(at)).collect(),
    }));
    parts
}

/// A line that keeps a value until the next record, and breaks where nothing passed.
fn stepped(
    link: &LinkDecisions,
    time: &Time,
    of: impl Fn(&LoggedDecision) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    for (d, lasts) in link.states() {
        let value = of(d).unwrap_or(f64::NAN);
        points.extend([(time.of(d.time_s), value), (time.of(d.time_s + lasts), value)]);
        if lasts >= LASTS_S {
            points.push((time.of(d.time_s + lasts), f64::NAN));
        }
    }
    points
}

/// Stretches of one colour after the other.
fn stretches(
    link: &LinkDecisions,
    time: &Time,
    of: impl Fn(&LoggedDecision) -> Option<&'static str>,
) -> Vec<(f64, f64, &'static str)> {
    let mut all: Vec<(f64, f64, &'static str)> = Vec::new();
    for (d, lasts) in link.states() {
        let Some(colour) = of(d) else { continue };
        let (from, to) = (time.of(d.time_s), time.of(d.time_s + lasts));
        match all.last_mut() {
            Some(last) if last.2 == colour && last.1 >= from - NEAR => last.1 = to,
            _ => all.push((from, to, colour)),
        }
    }
    all
}

/// Colour of a phase.
const fn colour(phase: FollowPhase) -> &'static str {
    match phase {
        FollowPhase::Idle => "#e9ecef",
        FollowPhase::Finding => "#c9b6d8",
        FollowPhase::Searching => "#a6d8f0",
        FollowPhase::Following => "#9ad8bd",
        FollowPhase::Draining => "#e69f00",
        FollowPhase::Silent => "#b00020",
        FollowPhase::Open => "#f0e442",
        FollowPhase::Blind => "#5b6068",
    }
}
