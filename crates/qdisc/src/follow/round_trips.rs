//! Round trips on one side of the box, by timestamps of TCP (RFC 7323, section 3): a timestamp that goes out is echoed
//! by what comes back. Of packets with the same timestamp the first counts, both ways.
//!
//! Idea: passive ping (Kathleen Nichols, pping, 2017).

use narrows_units::Instant;

/// Timestamps under way that are remembered, by hash: one that takes another's place ends its measurement.
const PLACES: usize = 8192;

/// A timestamp that went out.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    print: u64,
    at: Instant,
}

/// Memory of timestamps that went out.
#[derive(Debug)]
pub(super) struct RoundTrips(Box<[Sent]>);

impl RoundTrips {
    /// A memory of nothing.
    pub fn new() -> Self {
        Self(vec![Sent::default(); PLACES].into())
    }

    /// Notes that a packet of `flow`, a hash, goes out with `timestamp`.
    pub fn note(&mut self, now: Instant, flow: u64, timestamp: u32) {
        let print = print(flow, timestamp);
        let place = &mut self.0[print as usize % PLACES];
        if place.print != print {
            *place = Sent { print, at: now };
        }
    }

    /// Time at which the first packet went out with the timestamp that `flow` echoes, if this is its first echo.
    pub fn answered(&mut self, flow: u64, echo: u32) -> Option<Instant> {
        let print = print(flow, echo);
        let place = &mut self.0[print as usize % PLACES];
        if place.print != print {
            return None;
        }
        place.print = 0;
        Some(place.at)
    }
}

/// A hash of both, never zero.
fn print(flow: u64, timestamp: u32) -> u64 {
    (flow ^ u64::from(timestamp).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .rotate_left(29)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
        | 1 << 63
}

#[cfg(test)]
mod tests {
    use narrows_units::Duration;

    use super::*;

    #[test]
    fn of_equal_timestamps_the_first_counts_both_ways() {
        let ms = |n| Instant::ZERO + Duration::from_millis(n);
        let mut trips = RoundTrips::new();
        trips.note(ms(10), 1, 500);
        trips.note(ms(11), 1, 500);
        trips.note(ms(12), 1, 501);
        assert_eq!(trips.answered(2, 500), None, "another flow");
        assert_eq!(trips.answered(1, 500), Some(ms(10)));
        assert_eq!(trips.answered(1, 500), None, "told already");
        assert_eq!(trips.answered(1, 501), Some(ms(12)));
        assert_eq!(trips.answered(1, 502), None, "never sent");
    }
}
