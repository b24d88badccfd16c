//! About how many packets a sender keeps under way, where losses before the capture hide it: Reno's window (RFC 5681),
//! from what is acknowledged and lost. Only small windows matter, and there all controls are much alike.

use crate::tolerances::MOST_WINDOW;

/// Estimated window of a sender, in packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    cwnd: f32,
    ssthresh: f32,
}

impl Default for Window {
    fn default() -> Self {
        // RFC 5681, section 3.1.
        Self { cwnd: 3.0, ssthresh: f32::INFINITY }
    }
}

impl Window {
    /// Takes an ACK of new data, after which `outstanding` segments are under way that were seen.
    pub(crate) fn on_ack(&mut self, outstanding: u32) {
        let step = if self.cwnd < self.ssthresh { 1.0 } else { self.cwnd.recip() };
        self.cwnd = (self.cwnd + step).max(outstanding.min(MOST_WINDOW as u32) as f32).min(MOST_WINDOW);
    }
    /// RFC 5681, equation 4.
    pub(crate) fn on_timeout(&mut self) {
        *self = Self { cwnd: 1.0, ssthresh: (self.cwnd / 2.0).max(2.0) };
    }
    /// RFC 5681, section 3.2.
    pub(crate) fn on_fast_retransmit(&mut self) {
        let half = (self.cwnd / 2.0).max(2.0);
        *self = Self { cwnd: half, ssthresh: half };
    }
    /// Packets under way, at least one.
    pub(crate) fn flight(self) -> u32 {
        (self.cwnd as u32).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_5681_by_hand() {
        let mut w = Window::default();
        (0..5).for_each(|_| w.on_ack(0));
        assert_eq!(w.flight(), 8, "slow start: one each");
        w.on_timeout();
        assert_eq!(w.flight(), 1);
        // Slow start up to half of 8, then a packet in a round trip of four ACKs.
        (0..3).for_each(|_| w.on_ack(0));
        assert_eq!(w.flight(), 4);
        (0..5).for_each(|_| w.on_ack(0));
        assert_eq!(w.flight(), 5);
        w.on_fast_retransmit();
        assert_eq!(w.flight(), 2);
    }
}
