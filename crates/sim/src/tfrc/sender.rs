//! The sender: a rate by the equation, no more than twice what arrives (RFC 5348, section 4).

use narrows_units::{Duration, Instant};

use super::{Data, Feedback};

/// The longest gap between packets, t_mbi (section 4.3).
const LONGEST_GAP_S: f64 = 64.0;

/// The sender's state; rates are payload in bytes a second.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    /// s, bytes of a packet.
    size: f64,
    /// X, the rate at which the sender may send.
    pub(super) rate: f64,
    pub(super) rtt: Option<Duration>,
    /// Time at which the rate was doubled last, tld.
    doubled: Instant,
    /// Receive rates reported within the last two round trips, X_recv_set.
    received: Vec<(Instant, f64)>,
    /// Loss events per packet, as last reported by the receiver.
    pub(super) loss: f64,
    last_sent: Option<Instant>,
    pub(super) sent: u64,
    /// Time at which the nofeedback timer expires; it runs while there is something to send.
    silent_at: Instant,
    pub(super) expired: u32,
}

impl Sender {
    pub(super) fn new(size: u32) -> Self {
        Self {
            size: f64::from(size),
            // A packet a second until anything is known (section 4.2).
            rate: f64::from(size),
            rtt: None,
            doubled: Instant::ZERO,
            received: Vec::new(),
            loss: 0.0,
            last_sent: None,
            sent: 0,
            silent_at: Instant::FAR_FUTURE,
            expired: 0,
        }
    }

    /// Begins to send; there is always data from now on.
    pub(super) fn begin(&mut self, now: Instant) {
        self.silent_at = now + Duration::from_secs(2);
    }

    pub(super) fn end(&mut self) {
        self.silent_at = Instant::FAR_FUTURE;
    }

    /// Sends the next packet, if the packet is due.
    pub(super) fn send(&mut self, now: Instant) -> Option<Data> {
        if self.silent_at == Instant::FAR_FUTURE || self.due() > now {
            return None;
        }
        self.last_sent = Some(now);
        self.sent += 1;
        Some(Data {
            seq: self.sent - 1,
            size: self.size as u32,
            sent: now,
            rtt: self.rtt.unwrap_or_default(),
        })
    }

    fn due(&self) -> Instant {
        self.last_sent.map_or(Instant::ZERO, |last| last + seconds(self.size / self.rate))
    }

    pub(super) fn wake_at(&self) -> Instant {
        if self.silent_at == Instant::FAR_FUTURE { self.silent_at } else { self.due().min(self.silent_at) }
    }

    /// Takes the receiver's feedback (section 4.3). Returns the round trip.
    pub(super) fn hear(&mut self, now: Instant, feedback: &Feedback) -> Duration {
        let sample = now.since(feedback.of).saturating_sub(feedback.delay);
        let first = self.rtt.is_none();
        // q = 0.9
        let rtt =
            self.rtt.map_or(sample, |rtt| seconds(0.9 * rtt.as_secs_f64() + 0.1 * sample.as_secs_f64()));
        self.rtt = Some(rtt);
        self.loss = feedback.loss;
        self.received.retain(|(at, _)| now.since(*at) <= rtt + rtt);
        self.received.push((now, feedback.received));
        if first {
            (self.rate, self.doubled) = (self.initial_rate(rtt), now);
        }
        self.set_rate(now, rtt);
        self.await_feedback(now, rtt);
        sample
    }

    /// W_init / R: two to four packets a round trip (section 4.2).
    fn initial_rate(&self, rtt: Duration) -> f64 {
        (4.0 * self.size).min((2.0 * self.size).max(4380.0)) / rtt.as_secs_f64()
    }

    fn least(&self) -> f64 {
        self.size / LONGEST_GAP_S
    }

    /// X_Bps, what the equation allows.
    fn equation(&self, rtt: Duration) -> f64 {
        self.size * equation(self.loss, rtt)
    }

    fn most_received(&self) -> f64 {
        self.received.iter().map(|(_, rate)| *rate).fold(0.0, f64::max)
    }

    /// Sets the allowed rate after feedback (RFC 5348, section 4.3, step 4).
    fn set_rate(&mut self, now: Instant, rtt: Duration) {
        let limit = 2.0 * self.most_received();
        if self.loss > 0.0 {
            self.rate = self.equation(rtt).min(limit).max(self.least());
        } else if now.since(self.doubled) >= rtt {
            self.rate = (2.0 * self.rate).min(limit).max(self.initial_rate(rtt));
            self.doubled = now;
        }
    }

    fn await_feedback(&mut self, now: Instant, rtt: Duration) {
        let four = rtt + rtt + rtt + rtt;
        self.silent_at = now + four.max(seconds(2.0 * self.size / self.rate));
    }

    /// The nofeedback timer, if it has expired (section 4.4); this sender is never idle.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        if now < self.silent_at {
            return false;
        }
        self.expired += 1;
        let halved = (self.rate / 2.0).max(self.least());
        let Some(rtt) = self.rtt else {
            self.rate = halved;
            self.silent_at = now + seconds(2.0 * self.size / self.rate).max(Duration::from_secs(2));
            return true;
        };
        if self.loss == 0.0 {
            self.rate = halved;
        } else {
            let (received, equation) = (self.most_received(), self.equation(rtt));
            let limit = if equation > 2.0 * received { received } else { equation / 2.0 };
            self.received = vec![(now, limit.max(self.least()) / 2.0)];
            self.set_rate(now, rtt);
        }
        self.await_feedback(now, rtt);
        true
    }
}

/// Packets a second that the equation allows, with b = 1 and t_RTO = 4R (section 3.1).
pub(super) fn equation(loss: f64, rtt: Duration) -> f64 {
    let (p, rtt) = (loss.clamp(1e-9, 1.0), rtt.as_secs_f64().clamp(1e-6, 1e6));
    let timeouts = 4.0 * 3.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p);
    1.0 / (rtt * ((2.0 * p / 3.0).sqrt() + timeouts))
}

pub(super) fn seconds(s: f64) -> Duration {
    Duration::from_nanos((s * 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn the_equation_by_hand() {
        // p = .01, R = .1 s: sqrt(2p/3) = .081650, 12 sqrt(3p/8) p (1 + 32 p^2) = .007372.
        let x = equation(0.01, Duration::from_millis(100));
        assert!((x - 112.33).abs() < 0.01, "{x}");
    }

    fn hear(sender: &mut Sender, ms: u64, received: f64, loss: f64) {
        // Sent 100 ms before, kept for none.
        sender.hear(at(ms), &Feedback { of: at(ms - 100), delay: Duration::ZERO, received, loss });
    }

    #[test]
    fn a_packet_a_second_until_something_is_heard() {
        let mut sender = Sender::new(500);
        sender.begin(at(0));
        assert!(sender.send(at(0)).is_some() && sender.send(at(999)).is_none());
        assert!(sender.send(at(1000)).is_some());
        assert!(sender.expire(at(2000)));
        assert_eq!(sender.rate, 250.0);
    }

    #[test]
    fn slow_start_doubles_once_a_round_trip_up_to_twice_what_arrives() {
        let mut sender = Sender::new(500);
        sender.begin(at(0));
        sender.send(at(0));
        hear(&mut sender, 100, 0.0, 0.0);
        // W_init is 4 packets of 500 bytes.
        assert_eq!(sender.rate, 20_000.0);
        hear(&mut sender, 150, 1e6, 0.0);
        assert_eq!(sender.rate, 20_000.0);
        hear(&mut sender, 200, 1e6, 0.0);
        assert_eq!(sender.rate, 40_000.0);
        hear(&mut sender, 500, 30_000.0, 0.0);
        assert_eq!(sender.rate, 60_000.0);
    }

    #[test]
    fn with_loss_the_equation_sets_the_rate() {
        let mut sender = Sender::new(500);
        sender.begin(at(0));
        hear(&mut sender, 100, 0.0, 0.0);
        hear(&mut sender, 200, 1e6, 0.02);
        // 73.249 packets a second for 100 ms and 2 %, worked by hand in the models' tests.
        assert!((sender.rate / 500.0 - 73.249).abs() < 0.01, "{}", sender.rate);
        // No feedback: half of what the equation allows, for less than twice that arrives; half of it is the limit.
        sender.expire(at(700));
        assert!((sender.rate / 500.0 - 73.249 / 2.0).abs() < 0.01, "{}", sender.rate);
        // A second time it is half of what was received as far as the sender believes.
        sender.expire(at(2000));
        assert!((sender.rate / 500.0 - 73.249 / 4.0).abs() < 0.01, "{}", sender.rate);
    }

    #[test]
    fn never_slower_than_a_packet_in_64_seconds() {
        let mut sender = Sender::new(500);
        sender.begin(at(0));
        hear(&mut sender, 100, 0.0, 0.0);
        hear(&mut sender, 200, 1e6, 1.0);
        for s in 1..20 {
            sender.expire(at(200_000 * s));
        }
        assert_eq!(sender.rate, 500.0 / 64.0);
    }
}
