//! Pacing (RFC 9002, section 7.7): a bucket of tokens that fills at 5/4 of the window per round trip and holds a burst,
//! or what is sent in two milliseconds if that is more.

use narrows_units::{Duration, Instant};

/// The time for which the bucket holds tokens.
const INTERVAL: Duration = Duration::from_millis(2);
/// Most full datagrams in the bucket.
const MOST: u64 = 256;

/// Bucket of tokens, in bytes, that holds datagrams back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    capacity: u64,
    /// Window and datagram for which the capacity was computed.
    of: (u64, u64),
    tokens: u64,
    filled: Instant,
}

fn capacity(srtt: Duration, window: u64, datagram: u64, burst: u64) -> u64 {
    let in_interval =
        u128::from(window) * u128::from(INTERVAL.as_nanos()) / u128::from(srtt.as_nanos().max(1));
    u64::try_from(in_interval).unwrap_or(u64::MAX).clamp(burst * datagram, MOST.max(burst) * datagram)
}

impl Pacer {
    pub(crate) fn new(srtt: Duration, window: u64, datagram: u64, burst: u64) -> Self {
        let capacity = capacity(srtt, window, datagram, burst);
        Self { capacity, of: (window, datagram), tokens: capacity, filled: Instant::ZERO }
    }

    pub(crate) const fn sent(&mut self, bytes: u64) {
        self.tokens = self.tokens.saturating_sub(bytes);
    }

    /// When `bytes` may leave, if not now.
    pub(crate) fn wait(
        &mut self,
        now: Instant,
        bytes: u64,
        srtt: Duration,
        window: u64,
        datagram: u64,
        burst: u64,
    ) -> Option<Instant> {
        if self.of != (window, datagram) {
            self.capacity = capacity(srtt, window, datagram, burst);
            self.tokens = self.tokens.min(self.capacity);
            self.of = (window, datagram);
        }
        if self.tokens >= bytes || srtt == Duration::ZERO {
            return None;
        }
        let rtt = u128::from(srtt.as_nanos());
        let new = u128::from(window) * 5 * u128::from(now.since(self.filled).as_nanos()) / (4 * rtt);
        self.tokens = self.tokens.saturating_add(u64::try_from(new).unwrap_or(u64::MAX)).min(self.capacity);
        self.filled = now;
        if self.tokens >= bytes {
            return None;
        }
        // Until the bucket is full again.
        let missing = u128::from(bytes.max(self.capacity) - self.tokens);
        let wait = rtt * missing / u128::from(window.max(1)) * 4 / 5;
        Some(now + Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_its_rate() {
        // A window of 24 000 in 100 ms: 300 B/ms with the factor of 5/4. Ten datagrams leave; the next burst is there
        // after 12 000 / 300 = 40 ms.
        let srtt = Duration::from_millis(100);
        let mut p = Pacer::new(srtt, 24_000, 1200, 10);
        let now = Instant::from_nanos(1_000_000_000);
        p.filled = now;
        for _ in 0..10 {
            assert_eq!(p.wait(now, 1200, srtt, 24_000, 1200, 10), None);
            p.sent(1200);
        }
        assert_eq!(p.wait(now, 1200, srtt, 24_000, 1200, 10), Some(now + Duration::from_millis(40)));
        let later = now + Duration::from_millis(4);
        assert_eq!(p.wait(later, 1200, srtt, 24_000, 1200, 10), None);
    }
}
