//! Proportional rate reduction (RFC 9937, section 6; RFC 6937, section 3). Units: segments.

/// The state of one recovery, with the RFC's names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prr {
    /// `prr_delivered`: delivered since recovery began.
    delivered: u32,
    /// `prr_out`: sent since recovery began.
    out: u32,
    /// `RecoverFS`: outstanding when recovery began.
    recover_fs: u32,
}

impl Prr {
    /// Recovery begins.
    pub(super) const fn new(flight_size: u32) -> Self {
        Self { delivered: 0, out: 0, recover_fs: flight_size }
    }

    /// A segment was sent during recovery.
    pub(super) const fn on_sent(&mut self) {
        self.out += 1;
    }

    /// An ACK has delivered so many segments: the congestion window that lets `sndcnt` segments leave. `safe`: the pipe
    /// may grow as in slow start.
    pub(super) fn on_delivered(&mut self, delivered: u32, pipe: u32, ssthresh: u32, safe: bool) -> u32 {
        self.delivered += delivered;
        let sndcnt = if pipe > ssthresh {
            let share = u64::from(self.delivered) * u64::from(ssthresh);
            (share.div_ceil(u64::from(self.recover_fs.max(1))) as u32).saturating_sub(self.out)
        } else {
            let limit = self.delivered.saturating_sub(self.out).max(delivered) + u32::from(safe);
            limit.min(ssthresh - pipe)
        };
        pipe + sndcnt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_other_ack_lets_a_segment_go() {
        // 20 segments are out and ssthresh is 10. The first is lost, so the pipe is 19 and every ACK takes one off.
        // CEIL(n * 10 / 20) less what was sent is 1, 0, 1, 0 ..
        let (mut prr, mut pipe, mut sent) = (Prr::new(20), 19, vec![]);
        for _ in 0..8 {
            pipe -= 1;
            let sndcnt = prr.on_delivered(1, pipe, 10, true) - pipe;
            for _ in 0..sndcnt {
                prr.on_sent();
            }
            pipe += sndcnt;
            sent.push(sndcnt);
        }
        assert_eq!(sent, [1, 0, 1, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn below_ssthresh_the_pipe_grows_as_in_slow_start() {
        // Of 20 segments 16 are lost: the pipe of 3 lies below ssthresh = 10. An ACK that delivers one lets two go,
        // until the pipe is ssthresh.
        let mut prr = Prr::new(20);
        assert_eq!(prr.on_delivered(1, 3, 10, true), 5);
        prr.on_sent();
        prr.on_sent();
        // prr_delivered - prr_out = 2 - 2, so DeliveredData = 1 is the limit, plus 1.
        assert_eq!(prr.on_delivered(1, 4, 10, true), 6);
        assert_eq!(prr.on_delivered(5, 9, 10, true), 10, "no further than ssthresh");
        assert_eq!(prr.on_delivered(1, 10, 10, true), 10);
    }

    #[test]
    fn an_ack_that_tells_of_more_losses_lets_out_what_it_delivers() {
        // RFC 9937: the same without SafeACK. One for one, so the pipe stays.
        let mut prr = Prr::new(20);
        assert_eq!(prr.on_delivered(1, 3, 10, false), 4);
        prr.on_sent();
        assert_eq!(prr.on_delivered(1, 3, 10, false), 4);
        prr.on_sent();
        // As many have left as came; the next is safe.
        assert_eq!(prr.on_delivered(1, 3, 10, true), 5);
    }
}
