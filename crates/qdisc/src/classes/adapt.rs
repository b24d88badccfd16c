//! Measured settings: the threshold by how long flows are, the split by how many there are and what they use.
//!
//! **Threshold.** Of all recently seen flows, which share got as far as 2, 3, 4, 6, 8, 12, ... packets of data? The
//! least such number that at most a tenth of them gets beyond is the threshold: few flows are long (the paper: less
//! than a fifth), and these carry most. It is a measurement of sizes and does not depend on what is done with it, so
//! there is no loop.
//!
//! **Split.** Each step (an RTT) says how many flows `n` of each class were active and what it used of the link, `u`;
//! both are averaged over about eight steps. A flow is active from its first packet of data until an RTT after its
//! last, known when it sends again; of a pause at most a second counts, the least RTO of RFC 6298. One whose last
//! packet was lost here waits for its timer, and more of it counts, up to the fourth expiry (1, 2, 4, 8 s): or a class
//! that is locked out of its full buffer would seem to have fewer flows, be given less for it, and lose more. That
//! comes in a lump after the pause, so it is spread over the next steps. A class that lost a packet in a step is taken
//! to have used all it had: it wanted more.
//!
//! ```text
//! fair = n_s / (n_s + n_l) for the short class, the rest for the long one
//! needs = u + max(u / 9, (fair - u) / 8) for each class; with borrowing (fair - u) / 4
//! due = fair, or needs_s if that is less, or 1 - needs_l if that is more
//! s(k+1) = s(k) + (due - s(k)) / 8
//! ```
//!
//! What a class leaves of its fair part goes to the other but for room to move. Flows that are limited by their round
//! trips are slower for every packet they wait, so a class needs more than its average; but the nearer it comes to its
//! fair part, the dearer is what it does not use. So the room is an eighth of what it leaves, and at least a tenth of
//! what it gets, by which it shows that it wants more. With borrowing nothing is lost by room, and it is twice that.
//!
//! With `e = s - due` and `y` what a step adds, that is the notes' system (section 3.1) on the line `y = -e/8`, with A
//! = 1/8 and G = 1: `A + 2G = 2.125 < 4`, a single mode of 7/8. Its limit in gain is 2, sixteen times what it has. A
//! class that uses all it has asks for a ninth more at each step, until it is at its part: no state in between is one
//! of rest. Where `u` follows `s` with a slope `m` below 1, `due` does with `m` times 10/9 or 7/8, and the gain is less
//! by that.

use narrows_units::{Bytes, Duration, Instant, Rate};

use crate::Ppm;

/// Levels at which a flow's length is noted: two steps to the doubling.
const LEVELS: [u32; 34] = levels();

const fn levels() -> [u32; 34] {
    let mut levels = [0; 34];
    let mut at = 0;
    while at < 17 {
        levels[2 * at] = 2 << at;
        levels[2 * at + 1] = 3 << at;
        at += 1;
    }
    levels
}

/// Flows after which the old ones count for half.
const MEMORY: u32 = 1024;
/// Number of flows below which the lengths of flows decide no threshold.
const FEW: u32 = 64;
/// Number of flows of which one may be a long one.
const LONG: u32 = 10;

/// Lengths that flows reach.
#[derive(Clone, Debug)]
pub(super) struct Lengths {
    /// Flows that had a packet of data.
    begun: u32,
    /// Flows that got beyond each level.
    beyond: [u32; LEVELS.len()],
}

impl Lengths {
    pub(super) const fn new() -> Self {
        Self { begun: 0, beyond: [0; LEVELS.len()] }
    }

    /// A flow has sent its packet of data number `count`. Gives the threshold if it may have moved.
    pub(super) fn note(&mut self, count: u32) -> Option<u32> {
        if count == 1 {
            self.begun += 1;
            if self.begun >= MEMORY {
                self.begun /= 2;
                for n in &mut self.beyond {
                    *n /= 2;
                }
            }
            return self.begun.is_multiple_of(16).then(|| self.threshold()).flatten();
        }
        // Beyond 2^n or 3 * 2^n means one more than that.
        let below = count - 1;
        let odd = below >> below.trailing_zeros();
        if odd == 1 || odd == 3 {
            let octave = below.ilog2();
            let level = 2 * octave as usize + usize::from(odd == 3);
            if let Some(n) = level.checked_sub(2).and_then(|l| self.beyond.get_mut(l)) {
                *n += 1;
            }
        }
        None
    }

    /// Threshold by the lengths of flows so far; `None` before there are enough flows.
    pub(super) fn threshold(&self) -> Option<u32> {
        if self.begun < FEW {
            return None;
        }
        let at = self.beyond.iter().position(|n| n * LONG <= self.begun);
        at.map(|level| LEVELS[level])
    }
}

/// Unit of averages and shares: the value of a whole.
const ONE: u64 = 1 << 32;
/// Weight of a step, as 1 / 2^shift, in averages and in the share: the notes' A.
const SHIFT: u32 = 3;
/// The least and the largest share of the link, the bounds of the key `share`.
const BOUNDS: (u64, u64) = (ONE / 20, ONE - ONE / 20);

/// The least RTO of RFC 6298, section 2.4.
const LEAST_RTO_MS: u64 = 1000;
/// RTO after three doublings (section 5.5).
const FOURTH_RTO_MS: u64 = 8 * LEAST_RTO_MS;
/// Part of the uncounted pauses for timers that a step counts, as 1 / 2^shift.
const LATE_SHIFT: u32 = 4;
/// Part of what a class leaves of its fair part that it keeps as room, as 1 / 2^shift: as two pipes, and with
/// borrowing.
const ROOM_SHIFT: [u32; 2] = [3, 2];

/// The split that sets itself.
#[derive(Clone, Debug)]
pub(super) struct Divider {
    step: Duration,
    /// Bytes the link carries in a step.
    full: u64,
    /// Time at which the step that is being counted ends.
    ends: Instant,
    /// Milliseconds of all flows together.
    active: [u64; 2],
    /// Milliseconds of pauses for timers, not yet counted.
    late: [u64; 2],
    sent: [u64; 2],
    lost: [bool; 2],
    /// Averages: of `active`, and of the part of the link that was used.
    flows: [u64; 2],
    used: [u64; 2],
    share: u64,
    borrow: bool,
}

impl Divider {
    pub(super) fn new(step: Duration, link: Rate, share: Ppm, borrow: bool) -> Self {
        let share = u64::from(share.0) * ONE / u64::from(Ppm::ONE.0);
        Self {
            step,
            full: link.bytes_in(step).get().max(1),
            ends: Instant::ZERO,
            active: [0; 2],
            late: [0; 2],
            sent: [0; 2],
            lost: [false; 2],
            flows: [0; 2],
            // As if all were used: a class that has not been heard of yet gives nothing away.
            used: [share, ONE - share],
            share,
            borrow,
        }
    }

    /// Goes on from what `before` learned, maybe on another link. Averages are of parts of the link and of counts of
    /// which only the ratio matters, so they hold for other steps and rates; the step that was being counted does not.
    pub(super) fn follow(&mut self, before: &Self) {
        (self.share, self.flows, self.used) = (before.share, before.flows, before.used);
        self.late = before.late;
        if (self.step, self.full) == (before.step, before.full) {
            (self.ends, self.active) = (before.ends, before.active);
            (self.sent, self.lost) = (before.sent, before.lost);
        }
    }

    pub(super) fn share(&self) -> Ppm {
        Ppm((self.share * u64::from(Ppm::ONE.0) / ONE) as u32)
    }

    /// A flow of a class has sent data, for the first time or so many milliseconds after what came before, which was
    /// `lost`.
    pub(super) fn heard(&mut self, class: usize, pause: Option<u32>, lost: bool) {
        let whole = pause.map_or(self.step.as_millis(), u64::from);
        let soon = whole.min(LEAST_RTO_MS);
        self.active[class] += soon;
        if lost {
            self.late[class] += whole.min(FOURTH_RTO_MS) - soon;
        }
    }

    /// A class has lost a packet.
    pub(super) const fn lose(&mut self, class: usize) {
        self.lost[class] = true;
    }

    /// A class has sent so much.
    pub(super) fn send(&mut self, class: usize, wire: Bytes) {
        self.sent[class] += wire.get();
    }

    /// Passes the time up to `now`, at an arrival: departures are the driver's to time, arrivals are not. Tells whether
    /// a step ended.
    pub(super) fn pass(&mut self, now: Instant) -> bool {
        if now < self.ends {
            return false;
        }
        let idle = now.since(self.ends) >= self.step;
        self.ends = if idle { now } else { self.ends } + self.step;
        if self.active != [0; 2] {
            self.end_step();
        }
        (self.active, self.sent, self.lost) = ([0; 2], [0; 2], [false; 2]);
        true
    }

    fn end_step(&mut self) {
        let ewma = |old: u64, new: u64| old - (old >> SHIFT) + (new >> SHIFT);
        for class in 0..2 {
            let late = self.late[class] >> LATE_SHIFT;
            self.late[class] -= late;
            self.flows[class] = ewma(self.flows[class], (self.active[class] + late) << 16);
            let sent = (u128::from(self.sent[class]) * u128::from(ONE) / u128::from(self.full)) as u64;
            let had = if class == 0 { self.share } else { ONE - self.share };
            let used = if self.lost[class] { sent.max(had) } else { sent };
            self.used[class] = ewma(self.used[class], used.min(ONE));
        }
        let due = self.due();
        // Rounded towards `due` by less than a part in 2^29.
        self.share = ewma(self.share, due).clamp(BOUNDS.0, BOUNDS.1);
    }

    fn due(&self) -> u64 {
        let [short, long] = self.flows;
        let fair = (u128::from(short) * u128::from(ONE) / u128::from((short + long).max(1))) as u64;
        let needs = |used: u64, part: u64| {
            let room = part.saturating_sub(used) >> ROOM_SHIFT[usize::from(self.borrow)];
            (used + room.max(used / 9)).min(ONE)
        };
        let needs_short = needs(self.used[0], fair);
        let needs_long = needs(self.used[1], ONE - fair);
        if needs_short < fair { needs_short } else { fair.max(ONE - needs_long) }
    }
}
