//! Pacing: segments leave SRTT / cwnd apart, instead of when ACKs come.
//!
//! Source: A. Aggarwal, S. Savage, T. Anderson, "Understanding the performance of TCP pacing" (INFOCOM 2000). Paced
//! senders spread every window over its round trip, for the whole connection. A paced start does so only up to ssthresh
//! or the first loss. Windows grow as in slow start. Initial Spreading ([`super::InitialSpreading`]) spreads only the
//! first window.
//!
//! Where we differ: until a round trip is measured, [`crate::StartConfig::rtt`] stands for it, and without that
//! setting nothing is paced. Retransmissions are paced too, except the first of a recovery, which leaves at once. A
//! time-out resets the pacing.

use super::Startup;
use super::slow_start::grown;
use crate::Config;
use crate::cc::{AckSample, Window};

/// A paced start, or pacing for the whole connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Paced {
    /// Whether pacing lasts for the whole connection.
    whole: bool,
    /// Whether a loss was seen.
    lost: bool,
}

impl Paced {
    /// Makes pacing for the whole connection, or for the connection's start only.
    pub(crate) const fn new(whole: bool) -> Self {
        Self { whole, lost: false }
    }
}

impl Startup for Paced {
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample, _: &Config) {
        window.cwnd = grown(window, sample.credit);
    }
    fn on_loss(&mut self) {
        self.lost = true;
    }
    fn is_paced(&self, window: &Window) -> bool {
        self.whole || !self.lost && window.cwnd < window.ssthresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_it_paces() {
        let [below, above] = [8.0, 16.0].map(|cwnd| Window { cwnd, ssthresh: 16.0 });
        let mut start = Paced::new(false);
        assert!(start.is_paced(&below) && !start.is_paced(&above));
        start.on_loss();
        assert!(!start.is_paced(&below));
        let mut whole = Paced::new(true);
        whole.on_loss();
        assert!(whole.is_paced(&below) && whole.is_paced(&above));
    }
}
