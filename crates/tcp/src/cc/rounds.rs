//! Round trips and their throughput, as acknowledgments show them. A round ends with the first sample of a segment
//! that was sent after the round began. If the sender pauses, the pause is part of the round.

use narrows_units::Instant;

use super::DeliverySample;

/// Throughput, round by round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RoundTrips {
    pub(super) began: Instant,
    /// Segments acknowledged since the round began.
    pub(super) segments: u32,
    /// Segments per second in the last whole round; 0 before the first.
    pub(super) rate: f64,
}

impl RoundTrips {
    /// Tells whether this delivery ends a round; if so, the delivery belongs to the next round.
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
