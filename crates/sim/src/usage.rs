//! Use of a link whose rate changes, such as the modem behind a box: capacity used and wasted, and waits in its queue.

use narrows_scenario::{Outages, Timetable};
use narrows_units::{Bytes, Duration, Instant};

use crate::statistics::{Histogram, quantile, sorted};

/// Width of the slots in which capacity is compared with the use of the capacity.
const SLOT: Duration = Duration::from_millis(100);
/// Slots in a row that must be well used after an outage before the link counts as recovered.
const SLOTS: usize = 10;
/// Share of the capacity that a well used slot uses at least.
const WELL: f64 = 0.9;
/// Longest time after an outage until a link is well used that is not slow, seconds.
const SOON_S: f64 = 2.0;

/// Capacity of a slot, used and wasted, bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    used: u64,
    wasted: u64,
}

/// Measurements of a link with a changing rate.
#[derive(Debug)]
pub(crate) struct Usage {
    slots: Vec<Slot>,
    outages: Outages,
    /// Instant from which on usage counts.
    from: Instant,
    /// Instant since which packets wait in the queue before the link's own.
    waiting_since: Option<Instant>,
    /// Instant up to which the wasted capacity is settled.
    settled: Instant,
    /// Times from a packet's arrival to its last bit, outside of outages: whole, and less the time of two packets at
    /// the rate of that moment.
    pub(crate) sojourn: Histogram,
    pub(crate) beyond: Histogram,
}

/// The figures of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    /// Share of the capacity used: of that while packets waited, and of all.
    pub(crate) of_demand: f64,
    pub(crate) of_capacity: f64,
    pub(crate) outages: usize,
    /// Seconds from the end of an outage until the link is well used: maximum, 95th percentile, and number over two
    /// seconds.
    pub(crate) recovery_max: f64,
    pub(crate) recovery_p95: f64,
    pub(crate) slow: usize,
}

impl Usage {
    pub(crate) fn new(timetable: &Timetable, end: Instant) -> Self {
        Self {
            slots: vec![Slot::default(); slot(end) + 1],
            outages: timetable.outages(end),
            from: Instant::ZERO,
            waiting_since: None,
            settled: Instant::ZERO,
            sojourn: Histogram::default(),
            beyond: Histogram::default(),
        }
    }

    /// Counting begins.
    pub(crate) fn clear(&mut self, now: Instant) {
        self.from = now;
        self.sojourn.clear();
        self.beyond.clear();
    }

    /// Packets wait before this link, or no longer. `idle_from`: until when the link sends what it has taken.
    pub(crate) fn waits(&mut self, now: Instant, waits: bool, idle_from: Instant, timetable: &Timetable) {
        self.settle(now, idle_from, timetable);
        self.waiting_since = if waits { self.waiting_since.or(Some(now)) } else { None };
    }

    /// Counts as wasted what the link could have carried since the last settlement, while it was idle and packets
    /// waited.
    fn settle(&mut self, now: Instant, idle_from: Instant, timetable: &Timetable) {
        if let Some(since) = self.waiting_since {
            // A packet that leaves at the link's last busy instant has used that capacity.
            let mut at = since.max(self.settled).max(idle_from + Duration::from_nanos(1));
            while at < now {
                let next =
                    Instant::from_nanos((at.as_nanos() / SLOT.as_nanos() + 1) * SLOT.as_nanos()).min(now);
                let wasted = timetable.capacity(at, next);
                if let Some(slot) = self.slots.get_mut(slot(at)) {
                    slot.wasted += wasted;
                }
                at = next;
            }
        }
        self.settled = now;
    }

    /// A packet that `came` some time ago and is taken `now` will have left at `sent`. `idle_from` is as it was before.
    pub(crate) fn takes(
        &mut self,
        came: Instant,
        now: Instant,
        sent: Instant,
        len: Bytes,
        idle_from: Instant,
        timetable: &Timetable,
    ) {
        self.settle(now, idle_from, timetable);
        if let Some(slot) = self.slots.get_mut(slot(sent)) {
            slot.used += len.get();
        }
        if self.outages.met(came, sent) {
            return;
        }
        let sojourn = sent.since(came);
        self.sojourn.add(sojourn.as_nanos());
        let second = Duration::from_millis(500);
        let carried = timetable.capacity(came - second, sent.max(came + second)).max(1);
        let around = sent.max(came + second).since(came - second);
        let packets = Duration::from_nanos(around.as_nanos() / carried * 3000);
        self.beyond.add(sojourn.saturating_sub(packets).as_nanos());
    }

    /// Computes the figures at `now`.
    pub(crate) fn figures(&self, now: Instant, timetable: &Timetable) -> Figures {
        let counted = &self.slots[slot(self.from).min(self.slots.len())..slot(now).min(self.slots.len())];
        let used: u64 = counted.iter().map(|s| s.used).sum();
        let wasted: u64 = counted.iter().map(|s| s.wasted).sum();
        let outages: Vec<_> = self.outages.times().iter().filter(|o| o.1 >= self.from && o.1 < now).collect();
        let recoveries = sorted(outages.iter().map(|o| self.recovery(o.1)));
        Figures {
            of_demand: used as f64 / (used + wasted).max(1) as f64,
            of_capacity: used as f64 / timetable.capacity(self.from, now).max(1) as f64,
            outages: outages.len(),
            recovery_max: recoveries.last().copied().unwrap_or(0.0),
            recovery_p95: quantile(&recoveries, 0.95).unwrap_or(0.0),
            slow: recoveries.iter().filter(|r| **r > SOON_S).count(),
        }
    }

    /// Seconds from `end` of an outage until the link is well used.
    fn recovery(&self, end: Instant) -> f64 {
        let first = slot(end);
        let well = |at: &usize| {
            let slots = &self.slots[*at..(*at + SLOTS).min(self.slots.len())];
            let used: u64 = slots.iter().map(|s| s.used).sum();
            let wasted: u64 = slots.iter().map(|s| s.wasted).sum();
            used as f64 >= WELL * (used + wasted) as f64
        };
        let at = (first..self.slots.len()).find(well).unwrap_or(self.slots.len());
        (at - first) as f64 * SLOT.as_secs_f64()
    }
}

fn slot(at: Instant) -> usize {
    (at.as_nanos() / SLOT.as_nanos()) as usize
}
