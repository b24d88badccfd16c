//! Packets in flight in all spaces, and what holds the next one back: congestion window and pacing (RFC 9002, section
//! 7).

use narrows_units::{Duration, Instant};

use crate::congestion::{Acked, Congestion};
use crate::pacing::Pacer;
use crate::space::Sent;
use crate::{Config, Fit};

/// Sum of the bytes and packets in flight, and the limits of both.
#[derive(Debug)]
pub(super) struct Flight {
    bytes: u64,
    /// Packets that ask for an ACK.
    eliciting: u32,
    congestion: Congestion,
    pacer: Option<Pacer>,
    /// Time at which pacing lets the next datagram leave, if it holds one back.
    pacing_timer: Option<Instant>,
    /// Whether there was too little to send at the last look.
    app_limited: bool,
}

impl Flight {
    pub(super) fn new(config: &Config) -> Self {
        let datagram = u64::from(config.datagram);
        let pacer = config.burst.map(|b| Pacer::new(config.initial_rtt, config.initial_window, datagram, b));
        Self {
            bytes: 0,
            eliciting: 0,
            congestion: Congestion::new(config),
            pacer,
            pacing_timer: None,
            app_limited: false,
        }
    }

    /// A packet has left.
    pub(super) fn left(&mut self, size: u32, eliciting: bool) {
        self.bytes += u64::from(size);
        self.eliciting += u32::from(eliciting);
        if size > 0
            && let Some(pacer) = &mut self.pacer
        {
            pacer.sent(size.into());
        }
    }
    /// A packet is no longer in flight.
    pub(super) fn settle(&mut self, sent: &Sent) {
        self.bytes -= u64::from(sent.size);
        self.eliciting -= u32::from(sent.eliciting);
    }
    /// Bytes in flight.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Whether a packet in flight asks for an ACK.
    pub(super) const fn asks(&self) -> bool {
        self.eliciting > 0
    }

    /// Tells whether window or pacing keep a datagram of `full` bytes back.
    pub(super) fn holds(&mut self, config: &Config, now: Instant, full: u16, srtt: Duration) -> bool {
        let (full, cwnd) = (u64::from(full), self.congestion.cwnd);
        let fits = match config.fit {
            Fit::Within => self.bytes + full <= cwnd,
            Fit::Below => self.bytes + full < cwnd,
            Fit::Until => self.bytes < cwnd,
        };
        if !fits {
            return true;
        }
        let (Some(pacer), Some(burst)) = (&mut self.pacer, config.burst) else { return false };
        let wait = pacer.wait(now, full, srtt, cwnd, full, burst);
        if wait.is_some() {
            self.pacing_timer = wait;
        }
        wait.is_some()
    }
    /// Time at which pacing lets the next datagram leave, if it holds one back.
    pub(super) const fn pacing_timer(&self) -> Option<Instant> {
        self.pacing_timer
    }
    /// Clears the pacing timer if it is due at `now`, so that the next datagram may leave.
    pub(super) fn release(&mut self, now: Instant) {
        self.pacing_timer = self.pacing_timer.filter(|at| *at > now);
    }
    /// Forgets that a datagram waits for the datagram's turn.
    pub(super) const fn stop(&mut self) {
        self.pacing_timer = None;
    }

    /// Whether the application had too little to send just now.
    pub(super) const fn note_limited(&mut self, limited: bool) {
        self.app_limited = limited;
    }
    /// A packet was acknowledged `now`.
    pub(super) fn on_ack(&mut self, now: Instant, sent: &Sent, srtt: Duration) {
        let (bytes, app_limited) = (sent.size.into(), self.app_limited);
        self.congestion.on_ack(now, &Acked { sent: sent.at, bytes, srtt, app_limited });
    }
    /// The path takes datagrams of another size.
    pub(super) fn on_datagram(&mut self, datagram: u16, config: &Config) {
        self.congestion.on_datagram(datagram.into(), config);
    }
    /// Packets were lost, or marked, of which the last was sent at `sent`. Whether that is a new event.
    pub(super) fn on_congestion(&mut self, now: Instant, sent: Instant, persistent: bool) -> bool {
        self.congestion.on_congestion(now, sent, persistent)
    }
    /// The congestion window, bytes.
    pub(super) const fn cwnd(&self) -> u64 {
        self.congestion.cwnd
    }
    /// The slow start threshold, bytes.
    pub(super) const fn ssthresh(&self) -> u64 {
        self.congestion.ssthresh()
    }
}
