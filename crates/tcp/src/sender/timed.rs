//! The one segment whose round trip is being measured, where a stack times one at a time (RFC 6298, section 3).

/// See the head of the file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TimedSegment {
    /// The low half of the offset after the segment. As the segment is not acknowledged, it lies above snd_una.
    end: u32,
    running: bool,
}

impl TimedSegment {
    pub(super) const fn is_running(&self) -> bool {
        self.running
    }

    /// Times the segment that ends at `end` and leaves now.
    pub(super) const fn start(&mut self, end: u64) {
        self.end = end as u32;
        self.running = true;
    }

    /// There will be no sample from it.
    pub(super) const fn stop(&mut self) {
        self.running = false;
    }

    /// The offset after it; `una` is snd_una.
    const fn end(&self, una: u64) -> u64 {
        una + self.end.wrapping_sub(una as u32) as u64
    }

    /// The offset after it if all below `ack` is acknowledged now and the segment with it; snd_una was `una` before.
    pub(super) fn take_if_acked(&mut self, una: u64, ack: u64) -> Option<u64> {
        let end = (self.running && ack >= self.end(una)).then(|| self.end(una));
        self.running &= end.is_none();
        end
    }

    /// Data from `offset` up to `end` is sent again, maybe with a FIN: a segment that was sent twice gives no sample
    /// (Karn).
    pub(super) fn on_resent(&mut self, una: u64, offset: u64, end: u64) {
        let timed = self.end(una);
        if self.running && timed > offset && timed <= end + 1 {
            self.running = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ack_that_covers_it_ends_it() {
        // Across the wrap of the low half: 2^32 - 500 to 2^32 + 500.
        let una = (1 << 32) - 1500;
        let mut timed = TimedSegment::default();
        assert_eq!(timed.take_if_acked(una, una + 5000), None, "nothing is timed");
        timed.start(una + 2000);
        assert_eq!(timed.take_if_acked(una, una + 1999), None);
        assert_eq!(timed.take_if_acked(una + 1000, una + 3000), Some(una + 2000));
        assert!(!timed.is_running());
    }

    #[test]
    fn no_sample_of_what_was_sent_twice() {
        let mut timed = TimedSegment::default();
        timed.start(2000);
        timed.on_resent(500, 500, 1500);
        assert!(timed.is_running(), "another segment");
        timed.on_resent(500, 1500, 2000);
        assert!(!timed.is_running());
        timed.start(2001);
        timed.on_resent(500, 1500, 2000);
        assert!(!timed.is_running(), "with a FIN");
    }
}
