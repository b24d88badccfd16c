//! Round trips as the acknowledgments tell them: a round ends with the first sample of a segment that left after it began. What
//! a pause of the sender adds to a round belongs to it.

use narrows_units::Instant;

use super::DeliverySample;

/// Throughput, round by round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RoundTrips {
    pub(super) began: Instant,
    /// Segments acknowledged since.
    pub(super) segments: u32,
    /// Segments per second in the last whole round; 0 before the first.
    pub(super) rate: f64,
}

impl RoundTrips {
    /// Whether a round has ended by this; what is delivered then belongs to the next.
    pub(super) fn on_delivery(&mut self, delivery: &DeliverySample) -> bool {
        let ended = delivery.rtt.is_some_and(|rtt| delivery.now >= self.began + rtt);
        if ended {
            let seconds = delivery.now.since(self.began).as_secs_f64();
            self.rate = if seconds > 0.0 { f64::from(self.segments) / seconds } else { 0.0 };
            (self.began, self.segments) = (delivery.now, 0);
        }
        self.segments += delivery.segments;
        ended
    }
}
