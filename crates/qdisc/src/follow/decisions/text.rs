//! Decisions as CSV (RFC 4180), a line each: what a box writes and a simulation's table has, and what pictures read.

use core::fmt;
use core::fmt::Write as _;
use core::str::FromStr;

use narrows_units::{Bytes, Duration};

use super::{Decision, DecisionReason, SignalWaits};
use crate::follow::{FollowPhase, LinkSide};

/// Times are told to a tenth of a millisecond: nothing here is known better.
const TICK_NS: u64 = 100_000;

/// Value of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionCell {
    /// A word or a sentence; empty where there is none.
    Text(&'static str),
    /// A whole number, if it is known.
    Number(Option<u64>),
    /// A time, if it is known; in seconds.
    Time(Option<Duration>),
}

impl DecisionCell {
    /// The value as a number, a time in seconds; not a number where it is not known or is a text.
    #[must_use]
    pub fn number(self) -> f64 {
        match self {
            Self::Text(_) => f64::NAN,
            Self::Number(number) => number.map_or(f64::NAN, |number| number as f64),
            Self::Time(time) => time.map_or(f64::NAN, Duration::as_secs_f64),
        }
    }
}

impl fmt::Display for DecisionCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => number.map_or(Ok(()), |number| number.fmt(f)),
            Self::Time(time) => time.map_or(Ok(()), |time| write!(f, "{}", time.as_secs_f64())),
        }
    }
}

/// Columns of a file of decisions: name and meaning. The first two are the writer's, the others of a [`Decision`].
pub const DECISION_COLUMNS: [(&str, &str); 20] = [
    ("time_s", "time in seconds: since 1970 (UTC) where a box wrote it, in a simulation since the run began"),
    ("link", "direction of the box, after the link's name where it has one; in a simulation the link"),
    (
        "reason",
        "reason of the decision; empty in the line that is written each ten seconds while packets pass",
    ),
    (
        "side",
        "side of the box on which the slow link is taken to be: `before` or `behind`; empty while unknown",
    ),
    ("phase", "state of the controller, as `status` has it"),
    ("rate_bps", "rate of the link as found, bit/s; empty before"),
    ("window_bytes", "bytes that may be under way; empty while nothing is held back"),
    ("in_flight_bytes", "bytes under way: behind the box, or let go and not answered by servers"),
    ("wait_s", "time that the last packet which told has waited in the link's queue"),
    ("clocks_told", "packets that told by their sender's clock how long they waited before the box"),
    ("clocks_wait_s", "shortest of these waits"),
    ("trips_told", "packets that told by a round trip how long they waited before the box"),
    ("trips_wait_s", "shortest of these waits"),
    ("acks_told", "acknowledgments that told how long packets waited behind the box"),
    ("acks_wait_s", "shortest of these waits"),
    ("arrived_bps", "bits per second that came to the box"),
    ("left_bps", "bits per second that left the box"),
    ("waiting_pkts", "packets that wait in the box"),
    ("over_s", "time since the line before, over which packets and bits are counted"),
    ("why", "reason in a sentence"),
];

/// Number of the columns that a decision has itself.
const OWN: usize = DECISION_COLUMNS.len() - 2;

impl Decision {
    /// Values of the columns, but for time and link.
    #[must_use]
    pub fn cells(&self) -> [DecisionCell; OWN] {
        use DecisionCell::{Number, Text, Time};
        let Self { belief, signals, .. } = self;
        let text = |text: Option<&'static str>| Text(text.unwrap_or_default());
        let time = |time: Option<Duration>| {
            let ticks = |time: Duration| (time.as_nanos() + TICK_NS / 2) / TICK_NS;
            Time(time.map(|time| Duration::from_nanos(ticks(time) * TICK_NS)))
        };
        let told = |waits: &SignalWaits| Number(Some(u64::from(waits.told)));
        let rate = |bytes: Bytes| {
            let bps = bytes.get() as f64 * 8.0 / self.over.as_secs_f64();
            Number((self.over > Duration::ZERO).then_some(bps as u64))
        };
        [
            text(self.reason.map(DecisionReason::name)),
            text(belief.side.map(LinkSide::name)),
            Text(belief.phase.name()),
            Number(belief.found_bps),
            Number(self.window),
            Number(Some(belief.in_flight)),
            time(belief.side.map(|_| belief.late)),
            told(&signals.clocks),
            time(signals.clocks.shortest),
            told(&signals.round_trips),
            time(signals.round_trips.shortest),
            told(&signals.acknowledgments),
            time(signals.acknowledgments.shortest),
            rate(self.arrived),
            rate(self.left),
            Number(Some(self.waiting as u64)),
            time(Some(self.over)),
            text(self.reason.map(DecisionReason::sentence)),
        ]
    }

    /// The first line of a file.
    #[must_use]
    pub fn header() -> String {
        DECISION_COLUMNS.map(|(name, _)| name).join(",") + "\n"
    }

    /// The line of this decision, at a time in seconds, on the link of this name.
    #[must_use]
    pub fn line(&self, time_s: f64, link: &str) -> String {
        let mut line = format!("{time_s:.3},{}", quoted(link));
        for cell in self.cells() {
            // Writing to a String cannot fail.
            let _ = write!(line, ",{cell}");
        }
        line + "\n"
    }
}

/// A field, in quotation marks where it needs them.
fn quoted(field: &str) -> String {
    // A line break would be two lines for those who read line by line.
    let field = field.replace(['\n', '\r'], " ");
    if field.contains([',', '"']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
}

/// Decision as a file tells it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoggedDecision {
    /// Time in seconds: since 1970 where a box wrote it, since the run began in a simulation.
    pub time_s: f64,
    /// Name of the link or of its direction.
    pub link: String,
    /// Reason; `None` for a state at a regular time.
    pub reason: Option<DecisionReason>,
    /// Side of the box on which the link was taken to be.
    pub side: Option<LinkSide>,
    /// Cause by which the packets that leave are bounded.
    pub phase: FollowPhase,
    /// Rate of the link as found, bit/s.
    pub rate_bps: Option<u64>,
    /// Bytes that might be under way; `None` while nothing was held back.
    pub window_bytes: Option<u64>,
    /// Wait in the link's queue.
    pub wait_s: Option<f64>,
    /// Bits per second that came to the box since the record before.
    pub arrived_bps: Option<u64>,
    /// Bits per second that left the box since the record before.
    pub left_bps: Option<u64>,
    /// Packets that waited in the box.
    pub waiting_pkts: Option<u64>,
    /// Time since the record before, in seconds.
    pub over_s: Option<f64>,
    /// Values of columns that are not of a decision, as a sweep's, with their names.
    pub others: Vec<(String, String)>,
}

/// Mistake in a file of decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionsError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Description of the mistake, and what was expected.
    pub why: String,
}

impl fmt::Display for DecisionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl core::error::Error for DecisionsError {}

/// Reads the lines of a file. A header may stand again where files were put together; a last line that was not written
/// to its end is left out.
///
/// # Errors
/// The first line that is none of a decision.
pub fn read_decisions(text: &str) -> Result<Vec<LoggedDecision>, DecisionsError> {
    let wrong = |line: usize, why: String| DecisionsError { line, why };
    let mut lines = (1..).zip(text.lines());
    let first = lines.next().map_or("", |(_, line)| line);
    let names = fields(first).map_err(|why| wrong(1, why))?;
    let needed = ["time_s", "link", "reason", "side", "phase", "rate_bps"];
    if let Some(name) = needed.into_iter().find(|name| !names.iter().any(|n| n == name)) {
        return Err(wrong(1, format!("no column {name}: expected the columns of a file of decisions")));
    }
    let cut = (!text.ends_with('\n')).then(|| text.lines().count());
    let mut all = Vec::new();
    for (number, line) in lines {
        if line == first || line.is_empty() {
            continue;
        }
        let read = fields(line).and_then(|values| {
            if values.len() != names.len() {
                return Err(format!("{} values: expected {}", values.len(), names.len()));
            }
            row(names.iter().map(String::as_str).zip(values))
        });
        match read {
            Ok(decision) => all.push(decision),
            Err(_) if cut == Some(number) => {}
            Err(why) => return Err(wrong(number, why)),
        }
    }
    Ok(all)
}

fn row<'a>(cells: impl Iterator<Item = (&'a str, String)>) -> Result<LoggedDecision, String> {
    let mut row = LoggedDecision::default();
    for (name, value) in cells {
        let whole = || number::<u64>(name, &value, "a whole number");
        match name {
            "time_s" => row.time_s = seconds(name, &value)?.ok_or("time_s is empty: expected seconds")?,
            "link" => row.link = value,
            "reason" => row.reason = of(name, &value, DecisionReason::ALL, |reason| reason.name())?,
            "side" => row.side = of(name, &value, &[LinkSide::Before, LinkSide::Behind], |side| side.name())?,
            "phase" => {
                row.phase = of(name, &value, &FollowPhase::ALL, |phase| phase.name())?.unwrap_or_default();
            }
            "rate_bps" => row.rate_bps = whole()?,
            "window_bytes" => row.window_bytes = whole()?,
            "wait_s" => row.wait_s = seconds(name, &value)?,
            "arrived_bps" => row.arrived_bps = whole()?,
            "left_bps" => row.left_bps = whole()?,
            "waiting_pkts" => row.waiting_pkts = whole()?,
            "over_s" => row.over_s = seconds(name, &value)?,
            _ if DECISION_COLUMNS.iter().any(|(known, _)| *known == name) => {}
            _ => row.others.push((name.to_owned(), value)),
        }
    }
    Ok(row)
}

fn number<T: FromStr>(name: &str, value: &str, expected: &str) -> Result<Option<T>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    value.parse().map(Some).map_err(|_| format!("{name} = '{}': expected {expected}", start(value)))
}

fn seconds(name: &str, value: &str) -> Result<Option<f64>, String> {
    match number::<f64>(name, value, "seconds")? {
        Some(seconds) if !(0.0..1e12).contains(&seconds) => {
            Err(format!("{name} = '{}': expected seconds", start(value)))
        }
        seconds => Ok(seconds),
    }
}

/// One of `all` by its name; nothing of an empty field.
fn of<T: Copy>(
    name: &str,
    value: &str,
    all: &[T],
    called: fn(&T) -> &'static str,
) -> Result<Option<T>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    let found = all.iter().find(|one| called(one) == value).copied();
    let names = || all.iter().map(called).collect::<Vec<_>>().join(", ");
    found.map(Some).ok_or_else(|| format!("{name} = '{}': expected one of {}", start(value), names()))
}

/// Begin of a value, for an error: a file may be anything.
fn start(value: &str) -> String {
    value.chars().take(40).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Fields of a line (RFC 4180, section 2).
fn fields(line: &str) -> Result<Vec<String>, String> {
    let (mut all, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                field.push('"');
                chars.next();
            }
            '"' if quoted => quoted = false,
            '"' if field.is_empty() => quoted = true,
            ',' if !quoted => all.push(core::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    if quoted {
        return Err("a quotation mark is not closed".to_owned());
    }
    all.push(field);
    Ok(all)
}
