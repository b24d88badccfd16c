//! Pacing: segments leave SRTT / cwnd apart instead of as ACKs let them go.
//!
//! Whose: A. Aggarwal, S. Savage, T. Anderson, "Understanding the performance of TCP pacing" (INFOCOM 2000), who space every
//! window over its round trip for the whole connection; a paced start does so only up to ssthresh or the first loss. Windows
//! grow as in slow start. Both stand beside Initial Spreading, which spaces the first
//! window alone ([`super::Spreading`]).
//!
//! Where we differ: while nothing measured a round trip, [`crate::StartConfig::rtt`] stands for it, and without that nothing
//! is paced. Retransmissions keep to the spacing, but the first of a recovery, which goes at once. A time-out starts anew.

use super::Startup;
use super::slow_start::grown;
use crate::Config;
use crate::cc::{AckSample, Window};

/// A paced start, or pacing all along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Paced {
    /// For the whole connection.
    whole: bool,
    /// A loss came.
    lost: bool,
}

impl Paced {
    /// For the whole connection, or for its start.
    #[must_use]
    pub const fn new(whole: bool) -> Self {
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
