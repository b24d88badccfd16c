//! RED in each class (Floyd and Jacobson 1993): each averages its own queue.

use narrows_units::{Instant, Rate};

use super::config::Config;
use crate::early::{Average, Call, Curve, Thresholds};
use crate::{Dice, Ppm, ShaperConfig};

/// The averages and curves of both classes.
#[derive(Debug)]
pub(super) struct Reds {
    classes: [(Average, Curve); 2],
    dice: Dice,
}

impl Reds {
    /// Makes both REDs, with thresholds at a quarter and three quarters of each class's room.
    pub(super) fn new(
        config: &Config,
        link: &ShaperConfig,
        share: Ppm,
        rooms: [usize; 2],
        dice: Dice,
    ) -> Self {
        let one = |class: usize| {
            let part = if class == 0 { share } else { Ppm(Ppm::ONE.0 - share.0) };
            let rate = Rate::from_bps(part.of(link.rate.as_bps()).max(1));
            let room = rooms[class] as u64;
            let min = room / 4;
            let max = (room * 3 / 4).max(min + 1);
            (
                Average::new(config.w_q, rate.time_to_send(link.wire_len(config.packet))),
                Curve::new(Thresholds { min, max, max_p: config.max_p, gentle: true, wait: false }),
            )
        };
        Self { classes: [one(0), one(1)], dice }
    }

    /// Adopts other shares and rooms; averages stay.
    pub(super) fn follow(&mut self, config: &Config, link: &ShaperConfig, share: Ppm, rooms: [usize; 2]) {
        let mut next = Self::new(config, link, share, rooms, self.dice.clone());
        for (new, old) in next.classes.iter_mut().zip(&self.classes) {
            new.0.carry(&old.0);
        }
        *self = next;
    }

    /// Decision on a packet that arrives in `class` where `queue` packets wait.
    pub(super) fn decide(&mut self, now: Instant, class: usize, queue: usize) -> Call {
        let (average, curve) = &mut self.classes[class];
        average.arrival(now, queue as u64, queue == 0);
        curve.decide(average, None::<(u64, u64)>, &mut self.dice)
    }

    /// The average of a class, in packets, rounded down.
    #[cfg(test)]
    pub(super) const fn average(&self, class: usize) -> u64 {
        self.classes[class].0.get()
    }

    /// Notes that a class is empty; the link will have sent its last packet at `at`.
    pub(super) const fn empty(&mut self, class: usize, at: Instant) {
        self.classes[class].0.sent_at(at);
    }
}
