//! Time in the queue by the senders' clocks: a timestamp says when its packet was sent (RFC 7323, section 4), so how
//! much later than others of its flow it came. The most that the queue holds at one packet bounds all others of the
//! flow.
//!
//! Clocks are taken to tick each millisecond, as Linux and its descendants have it. A slower clock makes its packets
//! seem later, which proves nothing; a faster one is found out, as no packet can wait for less than nothing.

use narrows_units::{Duration, Instant};

/// Flows that are remembered, by hash.
const FLOWS: usize = 4096;
const TICK: i64 = 1_000_000;
/// Time by which a packet may be too early: a tick and a tremble.
const EARLY: i64 = 2 * TICK;
/// Part by which a clock may be slow or fast.
const SKEW: i64 = 5_000;
/// Packets that come too early before a clock is not believed.
const STRIKES: u8 = 3;
/// Packets in time between two that are too early, for which the clock was right and what was known of the path wrong.
const FORGIVEN: u8 = 32;

/// Clock of one flow's sender.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    flow: u64,
    first_at: Instant,
    first: u32,
    /// Lateness without a queue, relative to the first packet's: at least so much, as known at a time; nanoseconds.
    floor: Option<(i64, Instant)>,
    strikes: u8,
    /// Packets since the last strike that came in time.
    in_time: u8,
}

impl Clock {
    fn lateness(&self, now: Instant, timestamp: u32) -> i64 {
        let ticks = i64::from(timestamp.wrapping_sub(self.first).cast_signed());
        i64::try_from(now.since(self.first_at).as_nanos()).unwrap_or(i64::MAX) - ticks * TICK
    }
}

/// Clocks of all flows' senders.
#[derive(Debug)]
pub(super) struct Clocks(Box<[Clock]>);

impl Clocks {
    /// No clock is known.
    pub fn new() -> Self {
        Self(vec![Clock::default(); FLOWS].into())
    }

    /// The most that a packet which comes `now` has waited, by its flow's clock, if that is known.
    pub fn waited(&mut self, now: Instant, flow: u64, timestamp: u32) -> Option<Duration> {
        let clock = &mut self.0[flow as usize % FLOWS];
        if clock.flow != flow {
            *clock = Clock { flow, first_at: now, first: timestamp, floor: None, strikes: 0, in_time: 0 };
        }
        let (floor, at) = clock.floor?;
        let drift = i64::try_from(now.since(at).as_nanos()).unwrap_or(i64::MAX) / SKEW;
        let waited = clock.lateness(now, timestamp) - (floor - drift);
        if waited < -EARLY - drift {
            clock.floor = None;
            clock.strikes = if clock.in_time >= FORGIVEN { 1 } else { clock.strikes.saturating_add(1) };
            clock.in_time = 0;
            return None;
        }
        clock.in_time = clock.in_time.saturating_add(1);
        Some(Duration::from_nanos(u64::try_from(waited).unwrap_or(0)))
    }

    /// Forgets what was learnt of all clocks.
    pub fn forget(&mut self) {
        self.0.fill(Clock::default());
    }

    /// Learns that a packet which comes `now` has waited for at most so long.
    pub fn learn(&mut self, now: Instant, flow: u64, timestamp: u32, waited: Duration) {
        let clock = &mut self.0[flow as usize % FLOWS];
        if clock.flow != flow || clock.strikes >= STRIKES {
            return;
        }
        let floor = clock.lateness(now, timestamp) - i64::try_from(waited.as_nanos()).unwrap_or(i64::MAX);
        let known = clock
            .floor
            .map(|(floor, at)| floor - i64::try_from(now.since(at).as_nanos()).unwrap_or(i64::MAX) / SKEW);
        if known.is_none_or(|known| floor >= known) {
            clock.floor = Some((floor, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(n)
    }

    #[test]
    fn what_one_packet_waited_at_most_bounds_the_others() {
        let mut clocks = Clocks::new();
        assert_eq!(clocks.waited(ms(100), 1, 7000), None, "nothing is known yet");
        // The first is known to have waited for at most 30 ms. The second was sent 50 ms later and came 90 ms later.
        clocks.learn(ms(100), 1, 7000, Duration::from_millis(30));
        let near = |waited: Option<Duration>, expected: u64| {
            // Clocks may be off by a 5000th: 18 us in 90 ms.
            let waited = waited.unwrap();
            assert!(waited >= Duration::from_millis(expected) && waited.as_millis() == expected, "{waited}");
        };
        near(clocks.waited(ms(190), 1, 7050), 70);
        // Another flow shows that this packet waited for 60 ms only: so the first can have waited for 20 ms.
        clocks.learn(ms(190), 1, 7050, Duration::from_millis(60));
        near(clocks.waited(ms(191), 1, 7051), 60);
        assert_eq!(clocks.waited(ms(191), 2, 7051), None, "another flow");
    }

    #[test]
    fn a_clock_that_is_too_fast_is_found_out() {
        let mut clocks = Clocks::new();
        for n in 0..10 {
            let (now, timestamp) = (ms(n * 10), (n * 10_000) as u32);
            // By its microseconds each packet comes ten seconds before it was sent.
            assert_eq!(clocks.waited(now, 1, timestamp), None, "{n}");
            clocks.learn(now, 1, timestamp, Duration::ZERO);
        }
    }

    #[test]
    fn a_bound_that_was_wrong_now_and_then_is_no_fault_of_the_clock() {
        let mut clocks = Clocks::new();
        for n in 0..20 {
            // The path was taken to be too long, so the packet is said to have waited for 100 ms less than it had.
            let at = |k: u64| ms(n * 10_000 + k * 100);
            let sent = |k: u64| (n * 10_000 + k * 100) as u32;
            clocks.learn(at(0), 1, sent(0), Duration::ZERO);
            assert_eq!(clocks.waited(at(1) - Duration::from_millis(50), 1, sent(1)), None, "{n}: too early");
            clocks.learn(at(1) - Duration::from_millis(50), 1, sent(1), Duration::ZERO);
            for k in 2..50 {
                assert!(clocks.waited(at(k), 1, sent(k)).is_some(), "{n} {k}");
            }
        }
    }

    #[test]
    fn a_clock_that_is_slow_proves_nothing_wrong() {
        let mut clocks = Clocks::new();
        clocks.waited(ms(0), 1, 0);
        clocks.learn(ms(0), 1, 0, Duration::ZERO);
        // The clock ticks each 10 ms: in 100 ms its packet seems to be 90 ms late, which is more than it was.
        assert!(clocks.waited(ms(100), 1, 10).unwrap() >= Duration::from_millis(90));
    }
}
