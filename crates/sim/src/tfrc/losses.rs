//! Loss history of a receiver: missing packets, the loss events they make, and their rate (RFC 5348, section 5).

use std::collections::VecDeque;

use narrows_units::{Duration, Instant};

/// Number of packets after a missing one that show the missing packet to be lost (section 5.1).
const NDUPACK: u8 = 3;

/// Weights of the loss intervals, the latest first (section 5.4).
const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];

/// A packet that others have overtaken.
#[derive(Clone, Copy, Debug)]
struct Missing {
    seq: u64,
    /// Time at which it would have come, between its neighbours (section 5.2).
    at: Instant,
    /// Packets that came after the missing packet.
    later: u8,
}

/// The history of losses.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    /// The highest number so far, and the time at which the number came.
    highest: Option<(u64, Instant)>,
    missing: VecDeque<Missing>,
    /// The first loss of the latest event.
    event: Option<(u64, Instant)>,
    /// Packets from one event to the next, the latest first.
    intervals: VecDeque<f64>,
}

impl Losses {
    /// Takes a packet that came; `rtt` is the sender's. Returns whether the packet shows a loss that begins an event.
    pub(super) fn arrived(&mut self, now: Instant, seq: u64, rtt: Duration) -> bool {
        let Some((highest, before)) = self.highest.filter(|(highest, _)| seq > *highest) else {
            self.missing.retain(|m| m.seq != seq);
            self.highest.get_or_insert((seq, now));
            return false;
        };
        let (gap, took) = (seq - highest, now.since(before).as_nanos());
        self.missing.extend((1..gap).map(|n| {
            let share = u128::from(took) * u128::from(n) / u128::from(gap);
            let at = before + Duration::from_nanos(u64::try_from(share).unwrap_or(u64::MAX));
            Missing { seq: highest + n, at, later: 0 }
        }));
        self.highest = Some((seq, now));
        for m in &mut self.missing {
            m.later += 1;
        }
        let lost = self.missing.partition_point(|m| m.later >= NDUPACK);
        let lost: Vec<Missing> = self.missing.drain(..lost).collect();
        lost.iter().fold(false, |began, lost| self.lost(lost, rtt) | began)
    }

    /// Counts a lost packet; true if it begins a loss event. Losses within a round trip of an event's first belong to
    /// that event (section 5.2).
    fn lost(&mut self, lost: &Missing, rtt: Duration) -> bool {
        match self.event {
            Some((_, at)) if lost.at <= at + rtt => return false,
            Some((first, _)) => {
                self.intervals.push_front((lost.seq - first) as f64);
                self.intervals.truncate(WEIGHTS.len());
            }
            None => {}
        }
        self.event = Some((lost.seq, lost.at));
        true
    }

    /// Whether there was a loss before which no interval is known.
    pub(super) fn wants_first_interval(&self) -> bool {
        self.event.is_some() && self.intervals.is_empty()
    }

    /// Sets the interval that the first loss ended, in packets (section 6.3.1).
    pub(super) fn first_interval(&mut self, packets: f64) {
        self.intervals.push_front(packets);
    }

    /// Loss events a packet: one over the average interval, of which the open one is part if that makes it longer
    /// (section 5.4).
    pub(super) fn rate(&self) -> f64 {
        let (Some((first, _)), Some((highest, _))) = (self.event, self.highest) else { return 0.0 };
        let open = highest.saturating_sub(first) as f64 + 1.0;
        let closed = self.intervals.iter().copied();
        let sum = |intervals: &mut dyn Iterator<Item = f64>| -> f64 {
            intervals.zip(&WEIGHTS[..self.intervals.len()]).map(|(interval, weight)| interval * weight).sum()
        };
        let (with, without) =
            (sum(&mut core::iter::once(open).chain(closed.clone())), sum(&mut closed.clone()));
        let weights: f64 = WEIGHTS[..self.intervals.len()].iter().sum();
        if weights == 0.0 { 1.0 / open } else { (weights / with.max(without)).min(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// Packets 10 ms apart, but those of `lost`: numbers at which an event began.
    fn events(losses: &mut Losses, packets: u64, lost: &[u64]) -> Vec<u64> {
        let sent = (0..packets).filter(|seq| !lost.contains(seq));
        sent.filter(|seq| losses.arrived(at(10 * seq), *seq, RTT)).collect()
    }

    #[test]
    fn the_third_packet_behind_tells_of_a_loss() {
        assert_eq!(events(&mut Losses::default(), 30, &[7]), [10]);
    }

    #[test]
    fn who_comes_late_is_not_lost() {
        let mut losses = Losses::default();
        for (ms, seq) in [(0, 0), (10, 2), (20, 3), (30, 1), (40, 4), (50, 5)] {
            assert!(!losses.arrived(at(ms), seq, RTT), "{seq}");
        }
        assert_eq!(losses.rate(), 0.0);
    }

    #[test]
    fn losses_of_one_round_trip_are_one_event() {
        // 10 at 100 ms; 20 at 200 ms is within 100 ms of it, 21 is not.
        assert_eq!(events(&mut Losses::default(), 40, &[10, 15, 20]), [13]);
        assert_eq!(events(&mut Losses::default(), 40, &[10, 15, 21]), [13, 24]);
    }

    #[test]
    fn the_rate_is_that_of_weighted_intervals() {
        let mut losses = Losses::default();
        assert_eq!(events(&mut losses, 14, &[10]), [13]);
        losses.first_interval(20.0);
        // Open: 10 to 13. max(4 w0, 20 w0) over w0.
        assert_eq!(losses.rate(), 1.0 / 20.0);
        events(&mut losses, 60, &[10, 40]);
        // Closed 30 and 20, open 40 to 59: (30 + 20) / 2 is more than (20 + 30) / 2 by nothing.
        assert_eq!(losses.rate(), 1.0 / 25.0);
    }

    #[test]
    fn the_fifth_interval_counts_four_fifths() {
        let mut losses =
            Losses { event: Some((100, at(0))), highest: Some((100, at(0))), ..Losses::default() };
        losses.intervals.extend([10.0, 10.0, 10.0, 10.0, 60.0]);
        assert_eq!(losses.rate(), 4.8 / (40.0 + 0.8 * 60.0));
    }
}
