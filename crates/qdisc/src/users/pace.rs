//! Rates of single users.
//!
//! A user has paid for what it was sent when its rate would have sent as much (the virtual scheduling of ITU-T I.371,
//! annex A): until then it stands aside, in no list, and the next of the others is served. A little of unused rate is
//! kept ([`SAVED`]). Whatever passes outside the lists (packets without data) is paid for too.

use narrows_units::{Bytes, Duration, Instant, Rate};

/// Unused rate that is kept, as time and as bytes. Where the rate is less than a user's fair share, a round of the
/// others takes less than one packet at that rate; and who comes back may wait for two.
const SAVED: (Duration, Bytes) = (Duration::from_millis(50), Bytes(2 * 1514));

/// A rate, and how far the rate is used.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Rate in bits per second; 0 for none.
    rate_bps: u64,
    /// Time up to which the rate has paid for all that was sent.
    paid_until: Instant,
}

impl Default for Pace {
    fn default() -> Self {
        Self { rate_bps: 0, paid_until: Instant::ZERO }
    }
}

impl Pace {
    /// The rate, if there is one.
    pub fn rate(&self) -> Option<Rate> {
        (self.rate_bps > 0).then(|| Rate::from_bps(self.rate_bps))
    }

    pub fn set_rate(&mut self, rate: Option<Rate>) {
        self.rate_bps = rate.map_or(0, Rate::as_bps);
    }

    /// Time up to which the rate has paid for all that was sent; long ago where there has been no rate.
    pub const fn paid_until(&self) -> Instant {
        self.paid_until
    }

    /// Counts `cost` bytes on the link as sent.
    pub fn pay(&mut self, now: Instant, cost: i32) {
        if let Some(rate) = self.rate() {
            let saved = SAVED.0 + rate.time_to_send(SAVED.1);
            let from = self.paid_until.max(now - saved);
            self.paid_until = from + rate.time_to_send(Bytes(u64::from(cost.unsigned_abs())));
        }
    }

    /// Counts `bytes` that were counted as sent, and were not.
    pub fn give_back(&mut self, bytes: i32) {
        if let Some(rate) = self.rate() {
            self.paid_until = self.paid_until - rate.time_to_send(Bytes(u64::from(bytes.unsigned_abs())));
        }
    }

    /// Counts all that was sent as paid for.
    pub const fn forgive(&mut self) {
        self.paid_until = Instant::ZERO;
    }
}
