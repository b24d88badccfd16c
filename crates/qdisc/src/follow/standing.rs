//! Queue that stands on one side of the box: in a period no packet that told had waited for less than a bound.

use narrows_units::{Duration, Rate};

use super::PACKET;

/// Shortest period in which a queue can stand, longer than most round trips.
pub(super) const PERIOD: Duration = Duration::from_secs(1);
/// Packets that have to tell in a period.
const TOLD: u32 = 4;
/// Multiple of the settings' `target`, beside two packets, that the shortest wait of a period has to exceed: a wait
/// that is aimed at is no sign of a queue that stands.
const BEYOND_TARGET: u64 = 2;

/// Waits on one side in a period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    told: u32,
    shortest: Option<Duration>,
}

impl Waits {
    /// Notes a packet that has waited for `late`.
    pub fn note(&mut self, late: Duration) {
        self.told += 1;
        self.shortest = Some(self.shortest.map_or(late, |shortest| shortest.min(late)));
    }

    /// Shortest wait.
    pub const fn shortest(&self) -> Option<Duration> {
        self.shortest
    }

    /// Whether enough packets have told.
    pub const fn tell(&self) -> bool {
        self.told >= TOLD
    }

    /// Whether a queue stands on a side whose link has this rate, where a shaper aims at `target`.
    pub fn stand(&self, target: Duration, rate: Rate) -> bool {
        let own = super::seconds(PACKET as f64 * 8.0 / rate.as_bps().max(1) as f64);
        self.tell() && self.shortest.is_some_and(|shortest| shortest > target * BEYOND_TARGET + own * 2)
    }
}
