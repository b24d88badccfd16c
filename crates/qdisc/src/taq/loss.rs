//! Loss rate over a sliding window: drops per arrival (notes, section 2.7).
//!
//! The window is a ring of fifty slots, so it slides in steps of W / 50, and what it says of an instant depends on that
//! instant only: asking more often changes nothing.

use narrows_units::{Duration, Instant};

use crate::Ppm;

const SLOTS: usize = 50;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Number of this slot since time zero; tells a slot of this turn of the ring from one of the last.
    number: u64,
    arrivals: u32,
    drops: u32,
}

/// Arrivals and drops of the last W.
#[derive(Clone, Debug)]
pub struct LossWindow {
    slots: [Slot; SLOTS],
    width: Duration,
    /// The slot that counts now, and when it ends: a packet costs no division.
    current: usize,
    ends: Instant,
}

impl LossWindow {
    /// An empty window of length `window`.
    #[must_use]
    pub fn new(window: Duration) -> Self {
        let width = Duration::from_nanos((window.as_nanos() / SLOTS as u64).max(1));
        Self { slots: [Slot::default(); SLOTS], width, current: 0, ends: Instant::ZERO + width }
    }

    /// A packet arrived.
    pub fn arrival(&mut self, now: Instant) {
        self.advance(now);
        self.slots[self.current].arrivals += 1;
    }

    /// A packet was dropped.
    pub fn drop(&mut self, now: Instant) {
        self.advance(now);
        self.slots[self.current].drops += 1;
    }

    fn advance(&mut self, now: Instant) {
        if now < self.ends {
            return;
        }
        let number = now.as_nanos() / self.width.as_nanos();
        self.current = usize::try_from(number % SLOTS as u64).unwrap_or(0);
        self.slots[self.current] = Slot { number, ..Slot::default() };
        self.ends = self.slot_end(number);
    }

    fn slot_end(&self, number: u64) -> Instant {
        Instant::from_nanos((number + 1).saturating_mul(self.width.as_nanos()))
    }

    /// Drops per arrival in the window that ends at `now`. Zero without arrivals; never above one.
    #[must_use]
    pub fn rate(&self, now: Instant) -> Ppm {
        let number = now.as_nanos() / self.width.as_nanos();
        let live = |s: &&Slot| number - s.number.min(number) < SLOTS as u64;
        let (mut arrivals, mut drops) = (0u64, 0u64);
        for s in self.slots.iter().filter(live) {
            arrivals += u64::from(s.arrivals);
            drops += u64::from(s.drops);
        }
        if arrivals == 0 {
            return Ppm::default();
        }
        Ppm(u32::try_from((drops * 1_000_000 / arrivals).min(1_000_000)).unwrap_or(u32::MAX))
    }

    /// Time at which [`LossWindow::rate`] may next change by time alone.
    #[must_use]
    pub fn next_change(&self, now: Instant) -> Instant {
        self.slot_end(now.as_nanos() / self.width.as_nanos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_window_of_five_seconds_by_hand() {
        let mut w = LossWindow::new(Duration::from_secs(5));
        assert_eq!(w.rate(at(0)), Ppm(0));
        for i in 0..10 {
            w.arrival(at(1000 + i));
        }
        w.drop(at(1050));
        assert_eq!(w.rate(at(1099)), Ppm(100_000));
        // Ten more without loss, two seconds later: 1 in 20.
        for _ in 0..10 {
            w.arrival(at(3000));
        }
        assert_eq!(w.rate(at(3000)), Ppm(50_000));
        // The slot of 1000-1100 ms leaves the window at 6000 ms.
        assert_eq!(w.rate(at(5999)), Ppm(50_000));
        assert_eq!(w.next_change(at(5950)), at(6000));
        assert_eq!(w.rate(at(6000)), Ppm(0));
        assert_eq!(w.rate(at(60_000)), Ppm(0));
    }

    #[test]
    fn an_old_turn_of_the_ring_does_not_count() {
        let mut w = LossWindow::new(Duration::from_secs(5));
        w.arrival(at(100));
        w.drop(at(100));
        assert_eq!(w.rate(at(100)), Ppm::ONE);
        w.arrival(at(5100)); // the same slot, one turn later
        assert_eq!(w.rate(at(5100)), Ppm(0));
    }
}
