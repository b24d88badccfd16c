//! The congestion window in bytes (RFC 9002, section 7). Slow start and recovery are here, in whole bytes; congestion
//! avoidance is that of `narrows-tcp`, in datagrams.

use narrows_tcp::cc::{AckSample, Avoidance, Window};
use narrows_units::{Duration, Instant};

use crate::Config;

/// Congestion control of a connection, in bytes.
#[derive(Debug)]
pub(crate) struct Congestion {
    /// The window, bytes.
    pub(crate) cwnd: u64,
    ssthresh: u64,
    /// A full datagram and the least window, bytes.
    pub(crate) datagram: u64,
    minimum: u64,
    /// Time at which the last congestion event was: of what was sent before, losses count no more. What leaves in that
    /// instant leaves after it.
    recovery: Option<Instant>,
    avoidance: Avoidance,
    /// The window of congestion avoidance in datagrams, fractions included, and the bytes it stood for.
    fine: (f64, u64),
}

/// An acknowledged packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    pub(crate) sent: Instant,
    pub(crate) bytes: u64,
    pub(crate) srtt: Duration,
    /// Whether the sender had too little to send: the window stays (section 7.8).
    pub(crate) app_limited: bool,
}

impl Congestion {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            cwnd: config.initial_window,
            ssthresh: u64::MAX,
            datagram: config.datagram.into(),
            minimum: config.minimum_window * u64::from(config.datagram),
            recovery: None,
            avoidance: Avoidance::new(config.congestion, config.datagram.into()),
            fine: (0.0, 0),
        }
    }

    /// The slow start threshold; `u64::MAX` before the first congestion event.
    pub(crate) const fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    /// The window in datagrams, the unit of congestion avoidance.
    fn window(&mut self) -> Window {
        if self.fine.1 != self.cwnd {
            self.fine = (self.cwnd as f64 / self.datagram as f64, self.cwnd);
        }
        Window { cwnd: self.fine.0, ssthresh: self.ssthresh as f64 / self.datagram as f64 }
    }

    /// The path takes datagrams of another size.
    pub(crate) fn on_datagram(&mut self, datagram: u64, config: &Config) {
        self.datagram = datagram;
        self.minimum = config.minimum_window * datagram;
        self.cwnd = self.cwnd.max(self.minimum);
        self.fine = (0.0, 0);
    }

    pub(crate) fn on_ack(&mut self, now: Instant, acked: &Acked) {
        if acked.app_limited || self.recovery.is_some_and(|at| acked.sent < at) {
            return;
        }
        if self.cwnd < self.ssthresh {
            // Section 7.3.1.
            self.cwnd += acked.bytes;
            return;
        }
        let mut window = self.window();
        let sample = AckSample {
            now,
            acked: acked.bytes,
            credit: acked.bytes as f64 / self.datagram as f64,
            by_bytes: true,
            rtt: None,
            srtt: acked.srtt,
            in_flight: 0,
            window_limited: true,
        };
        self.avoidance.on_ack(&mut window, &sample);
        self.cwnd = ((window.cwnd * self.datagram as f64) as u64).max(self.minimum);
        self.fine = (window.cwnd, self.cwnd);
    }

    /// Packets were lost, or marked, of which the last was sent at `sent` (sections 7.3.2 and 7.6.2). Whether that is a
    /// new event.
    pub(crate) fn on_congestion(&mut self, now: Instant, sent: Instant, persistent: bool) -> bool {
        if self.recovery.is_some_and(|at| sent < at) {
            return false;
        }
        self.recovery = Some(now);
        let mut window = self.window();
        let base = window.cwnd;
        if persistent {
            self.avoidance.on_rto(&mut window, now, base);
        } else {
            self.avoidance.on_loss(&mut window, now, base);
        }
        self.ssthresh = ((window.ssthresh * self.datagram as f64) as u64).max(self.minimum);
        self.cwnd = self.ssthresh;
        if persistent {
            (self.cwnd, self.recovery) = (self.minimum, None);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    fn acked(ms: u64, bytes: u64) -> Acked {
        let sent = Instant::from_nanos(ms * 1_000_000);
        Acked { sent, bytes, srtt: Duration::from_millis(100), app_limited: false }
    }
    const fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn new_reno_by_hand() {
        let mut c = Congestion::new(&Config::preset(Preset::Rfc));
        c.on_ack(at(100), &acked(0, 1200));
        c.on_ack(at(100), &Acked { app_limited: true, ..acked(0, 1200) });
        // 7.3.1: 12 000 and what was acknowledged; 7.3.2: half of it.
        assert_eq!(c.cwnd, 13_200);
        assert!(c.on_congestion(at(200), at(150), false));
        assert_eq!((c.cwnd, c.ssthresh()), (6_600, 6_600));
        // Sent before: the same event; it also grows nothing.
        assert!(!c.on_congestion(at(300), at(199), false));
        c.on_ack(at(310), &acked(190, 6_600));
        assert_eq!(c.cwnd, 6_600);
        // 7.3.3: a datagram for each window of 5.5 datagrams; the sixth ACK reaches it.
        for _ in 0..5 {
            c.on_ack(at(400), &acked(201, 1200));
        }
        assert_eq!(c.cwnd, 6_600);
        c.on_ack(at(400), &acked(201, 1200));
        assert_eq!(c.cwnd, 7_800);
        // 7.6.2, and never below two datagrams.
        assert!(c.on_congestion(at(500), at(450), true));
        assert_eq!((c.cwnd, c.ssthresh()), (2_400, 3_900));
        assert!(c.on_congestion(at(600), at(550), false));
        assert_eq!((c.cwnd, c.ssthresh()), (2_400, 2_400));
    }

    #[test]
    fn cubic_leaves_seven_tenths() {
        let mut c = Congestion::new(&Config::preset(Preset::Quinn));
        assert!(c.on_congestion(at(200), at(150), false));
        assert_eq!((c.cwnd, c.ssthresh()), (8_400, 8_400));
    }
}
