//! The clock of a capture: set while it ran, back or forth. A step of the times is told from a silence, and from frames
//! that are only written late, by what the packets before and behind it say themselves: the timestamps of TCP (RFC
//! 7323), which go on by the senders' own clocks; acknowledgments, which never go back; and data.

use narrows_units::SeqNum;
use narrows_wire::FlowKey;
use narrows_wire::capture::Captured;

/// A step forward that may be one of the clock, nanoseconds. Shorter ones make no stall that anybody would ask about.
const FORWARD: i64 = 1_000_000_000;
/// A step back that is always one of frames written late, nanoseconds: two queues of one card.
pub(super) const LATE: i64 = 10_000_000;
/// Steps of a clock that are told one by one.
const MOST_STEPS: usize = 3;
/// A step back from which on, without other signs, the clock was set: cards and merged files are late by less.
const BACK: i64 = 10_000_000_000;
/// A step forward from which on, without timestamps, the clock was set if a connection goes on: a day.
const DAY: i64 = 86_400_000_000_000;
/// The least span that tells how fast a sender's clock goes, nanoseconds.
const SPAN: i64 = 300_000_000;
/// Usual ticks in a second: of Linux and of most, of Linux of old, of BSD, and of hosts of the nineties.
const RATES: [f64; 6] = [1000.0, 250.0, 100.0, 512.0, 10.0, 2.0];
/// Packets of one end behind a step that tell alone: what waited in a queue has caught up by then.
const ALONE: usize = 8;

/// A clock that was set while the capture ran.
#[derive(Clone, Copy, Debug)]
struct Setting {
    /// Number of the first frame by the new time.
    frame: u64,
    /// Nanoseconds, negative for a clock that was set back.
    by: i64,
}

/// Clock of a file: the file's stamps as times that nobody sets.
#[derive(Debug)]
pub(super) struct Clock {
    /// Latest stamp; none before the first.
    latest: Option<i64>,
    /// Nanoseconds that are added to stamps.
    shift: i64,
    /// Nanoseconds that frames may be late without another look.
    late: i64,
    /// First settings, and the number of all.
    settings: Vec<Setting>,
    set: u64,
    /// Number of the first frame since the latest setting.
    set_at: u64,
}

impl Default for Clock {
    fn default() -> Self {
        Self { latest: None, shift: 0, late: LATE, settings: Vec::new(), set: 0, set_at: 0 }
    }
}

impl Clock {
    /// Step of the times from the latest packet to one with this stamp, nanoseconds, if it has to be judged.
    #[inline]
    pub(super) fn step(&mut self, stamp: i64) -> Option<i64> {
        // Stamps are above zero and below half the range: differences of two need no thought.
        let by = stamp - *self.latest.get_or_insert(stamp);
        (!(-self.late..FORWARD).contains(&by)).then_some(by)
    }

    /// Nanoseconds from the `first` stamp of the file to this one, without the settings.
    #[inline]
    pub(super) fn read(&mut self, stamp: i64, first: i64) -> i64 {
        self.latest = self.latest.max(Some(stamp));
        (stamp - first).wrapping_add(self.shift)
    }

    /// Latest stamp; none before the first.
    pub(super) fn latest(&self) -> Option<i64> {
        self.latest
    }

    /// Judges a step of `by` nanoseconds to this packet, from packets before it and behind it, in the order of the
    /// file. Those before may be the latest alone.
    #[cold]
    pub(super) fn judge<'a>(
        &mut self,
        by: i64,
        packet: &'a Captured,
        before: impl Iterator<Item = &'a Captured>,
        behind: impl Iterator<Item = &'a Captured>,
    ) {
        let before: Vec<&Captured> = before.filter(|p| p.frame >= self.set_at).collect();
        match judge(by, &before, &self.until_another(by, packet, behind)) {
            Step::Time => {}
            Step::Late => self.late = self.late.max(by.saturating_neg()),
            Step::Set { passed } => {
                let by = by.saturating_sub(passed);
                // A file that is made of such steps goes nowhere.
                self.shift = self.shift.saturating_sub(by).clamp(-(i64::MAX / 4), i64::MAX / 4);
                self.set_at = packet.frame;
                self.set += 1;
                if self.settings.len() < MOST_STEPS {
                    self.settings.push(Setting { frame: packet.frame, by });
                }
                self.latest = packet.stamp.or(self.latest);
            }
        }
    }

    /// Packets from one on, up to another step of that size, which may be another of the clock.
    fn until_another<'a>(
        &self,
        by: i64,
        packet: &'a Captured,
        behind: impl Iterator<Item = &'a Captured>,
    ) -> Vec<&'a Captured> {
        let mut until = vec![packet];
        let mut last = packet.stamp.unwrap_or(0);
        for next in behind {
            let stamp = next.stamp.unwrap_or(last);
            let back = by < 0 && Some(stamp) > self.latest;
            if back || stamp.abs_diff(last) >= by.unsigned_abs() / 2 && stamp != last && by.unsigned_abs() > 1
            {
                break;
            }
            last = stamp;
            until.push(next);
        }
        until
    }

    /// Sentences about the settings.
    pub(super) fn remarks(&self) -> Vec<String> {
        let way = |by: i64| if by < 0 { "back" } else { "forward" };
        let told = |Setting { frame, by }: &Setting| {
            format!(
                "the clock was set {} by {} at frame {frame}: times behind it were put right, and no stall is counted \
                 there",
                way(*by),
                span(by.unsigned_abs())
            )
        };
        let mut lines: Vec<String> = self.settings.iter().map(told).collect();
        if self.set > lines.len() as u64 {
            lines.push(format!("the clock was set {} times in all", self.set));
        }
        lines
    }
}

/// Length of time in words.
pub(super) fn span(nanos: u64) -> String {
    let seconds = nanos as f64 / 1e9;
    match seconds {
        ..0.1 => format!("{:.0} ms", seconds * 1e3),
        ..1000.0 => format!("{seconds:.1} s"),
        ..172_800.0 => format!("{:.1} hours", seconds / 3600.0),
        ..63_072_000.0 => format!("{:.0} days", seconds / 86_400.0),
        _ => format!("{:.1} years", seconds / 31_557_600.0),
    }
}

/// Kind of a step of the times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Time that passed.
    Time,
    /// Frames written late.
    Late,
    /// The clock was set: this much time passed by the senders' clocks, nanoseconds.
    Set { passed: i64 },
}

/// Packets of one end of one connection about a step.
struct End<'a> {
    before: Vec<&'a Captured>,
    behind: Vec<&'a Captured>,
}

/// Shift of the times against the clock of one end, seconds.
#[derive(Clone, Copy, Debug)]
struct Shift {
    by: f64,
    /// A tick of that clock.
    resolution: f64,
    /// Longest time for which packets of one side waited on the way, at most, seconds.
    spread: f64,
    packets: usize,
}

/// Packets on both sides by the end that sent them; those of ends that are on both sides.
fn ends<'a>(before: &[&'a Captured], behind: &[&'a Captured]) -> Vec<End<'a>> {
    let mut all: Vec<(FlowKey, End<'a>)> = Vec::new();
    for (packets, is_before) in [(before, true), (behind, false)] {
        for packet in packets.iter().filter(|p| p.header.tcp.is_some()) {
            let key = packet.header.key;
            let place = all.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
                all.push((key, End { before: Vec::new(), behind: Vec::new() }));
                all.len() - 1
            });
            let end = &mut all[place].1;
            if is_before { end.before.push(packet) } else { end.behind.push(packet) }
        }
    }
    all.into_iter().map(|(_, end)| end).filter(|e| !e.before.is_empty() && !e.behind.is_empty()).collect()
}

fn tsval(p: &Captured) -> Option<u32> {
    p.header.tcp.and_then(|t| t.timestamps).map(|(tsval, _)| tsval)
}

fn stamp(p: &Captured) -> i64 {
    p.stamp.unwrap_or(0)
}

/// Ticks from one timestamp to another, negative if the second is older.
const fn ticks(from: u32, to: u32) -> i64 {
    to.wrapping_sub(from).cast_signed() as i64
}

impl End<'_> {
    /// Ticks of this end's clock in a second, by the packets on either side of the step.
    fn rate(&self) -> Option<f64> {
        let span = |side: &[&Captured]| {
            let timed: Vec<_> = side.iter().filter_map(|p| Some((stamp(p), tsval(p)?))).collect();
            let (first, last) = (timed.iter().min()?, timed.iter().max()?);
            let span = last.0 - first.0;
            (span >= SPAN).then(|| (span, ticks(first.1, last.1)))
        };
        let longest = [span(&self.before), span(&self.behind)].into_iter().flatten().max()?;
        let rate = longest.1 as f64 * 1e9 / longest.0 as f64;
        // A clock of a host has 1 to 1000 ticks in a second (RFC 7323, section 5.4), some have a million. A short span
        // tells the usual ones only about.
        let usual = RATES.into_iter().find(|usual| (rate / usual - 1.0).abs() < 0.03);
        (0.5..=2e6).contains(&rate).then(|| usual.unwrap_or(rate))
    }

    /// The shift of the times against this end's clock over the step, with the least of each side: what waited in a
    /// queue has caught up.
    fn shift(&self) -> Option<Shift> {
        let rate = self.rate()?;
        let (origin, start) = self.before.iter().find_map(|p| Some((stamp(p), tsval(p)?)))?;
        let of = |p: &&Captured| {
            let since = (stamp(p) - origin) as f64 / 1e9;
            Some(since - ticks(start, tsval(p)?) as f64 / rate)
        };
        let side = |side: &[&Captured]| {
            let both = (f64::INFINITY, f64::NEG_INFINITY);
            side.iter().filter_map(of).fold(both, |(least, most), by| (least.min(by), most.max(by)))
        };
        let ((before, before_most), (behind, behind_most)) = (side(&self.before), side(&self.behind));
        (before.is_finite() && behind.is_finite()).then(|| Shift {
            by: behind - before,
            resolution: 1.0 / rate,
            spread: (before_most - before).max(behind_most - behind),
            packets: self.behind.len(),
        })
    }

    /// Signs that the order of the file is that of the sender, where its times go back: more for it than against it.
    /// Times that do not go back are those of frames of another end that were written late.
    fn goes_on(&self) -> i32 {
        let Some(last) = self.before.iter().max_by_key(|p| p.frame) else { return 0 };
        let Some(next) = self.behind.iter().min_by_key(|p| p.frame) else { return 0 };
        let (Some(a), Some(b)) = (last.header.tcp, next.header.tcp) else { return 0 };
        let sign = |n: i64| n.signum() as i32;
        let clock = tsval(last).zip(tsval(next)).map_or(0, |(a, b)| sign(ticks(a, b)));
        let acked = sign(b.ack.distance_from(a.ack).into());
        let end = |t: &narrows_wire::TcpHeader| -> SeqNum { t.seq_end() };
        let data =
            if a.payload > 0 && b.payload > 0 { sign(end(&b).distance_from(end(&a)).into()) } else { 0 };
        // Data may be sent again; the other two never go back.
        let signs = 2 * clock + 2 * acked + data;
        if stamp(next) >= stamp(last) { -1 } else { signs }
    }
}

/// Says what a step of `by` nanoseconds is, from packets before it and behind it, in the order of the file. Those
/// before may be the latest alone; those behind end where the next step is.
fn judge(by: i64, before: &[&Captured], behind: &[&Captured]) -> Step {
    let ends = ends(before, behind);
    let step = by as f64 / 1e9;
    let shifts: Vec<Shift> = ends.iter().filter_map(End::shift).collect();
    // The clock's resolution, and what a queue makes of a few packets.
    let set = shifts.iter().filter(|s| s.by / step > 0.7 - 2.0 * s.resolution / step.abs());
    let (set, packets) = set.fold((0, 0), |(set, most), s| (set + 1, s.packets.max(most)));
    let still = shifts.iter().filter(|s| s.by / step < 0.3).count();
    // The time that passed is the rest of the step, by the end whose packets waited least.
    let passed = || {
        let surest =
            shifts.iter().min_by(|a, b| (a.spread + a.resolution).total_cmp(&(b.spread + b.resolution)));
        surest.map_or(0, |s| ((step - s.by).clamp(0.0, 3600.0) * 1e9) as i64)
    };
    if by < 0 {
        let opposite = |p: &&&Captured| before.iter().any(|q| q.header.key == p.header.key.reverse());
        let set = match (set, still) {
            // One direction behind the other: two files in one.
            (0, 0) if ends.is_empty() && behind.iter().filter(opposite).count() > 0 => false,
            (0, 0) => {
                let signs: i32 = ends.iter().map(End::goes_on).sum();
                if signs == 0 { -by >= BACK } else { signs > 0 }
            }
            _ => set > still,
        };
        return if set { Step::Set { passed: passed() } } else { Step::Late };
    }
    let told = set > 0 && still == 0 && (set > 1 || packets >= ALONE || by >= DAY);
    let goes_on = by >= DAY && still == 0 && ends.iter().any(|end| end.goes_on() >= -1);
    if told || goes_on { Step::Set { passed: passed() } } else { Step::Time }
}
