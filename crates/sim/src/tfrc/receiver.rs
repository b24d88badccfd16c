//! The receiver: feedback once a round trip, and at once when losses become more frequent (RFC 5348, section 6).

use std::collections::VecDeque;

use narrows_units::{Duration, Instant};

use super::losses::Losses;
use super::sender::{equation, seconds};
use super::{Data, Feedback};

/// The receiver's state.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    size: u32,
    losses: Losses,
    /// When each packet of the last round trip came.
    came: VecDeque<Instant>,
    /// The latest packet, and the time at which the packet came.
    latest: Option<(Data, Instant)>,
    /// Whether anything came since the last feedback.
    news: bool,
    reported: f64,
    pub(super) report_at: Instant,
}

impl Receiver {
    pub(super) fn new(size: u32) -> Self {
        Self {
            size,
            losses: Losses::default(),
            came: VecDeque::new(),
            latest: None,
            news: false,
            reported: 0.0,
            report_at: Instant::FAR_FUTURE,
        }
    }

    /// A packet came (section 6.1). What is to be said at once.
    pub(super) fn arrived(&mut self, now: Instant, data: &Data) -> Option<Feedback> {
        let first = self.latest.is_none();
        if self.latest.is_none_or(|(latest, _)| latest.seq < data.seq) {
            self.latest = Some((*data, now));
        }
        self.came.push_back(now);
        self.news = true;
        let began = self.losses.arrived(now, data.seq, data.rtt);
        if began && self.losses.wants_first_interval() {
            let packets = self.first_interval(now, data.rtt);
            self.losses.first_interval(packets);
        }
        if first || self.losses.rate() > self.reported { self.report(now) } else { None }
    }

    /// Packets after which the equation would have allowed what arrived when the first was lost (section 6.3.1).
    fn first_interval(&mut self, now: Instant, rtt: Duration) -> f64 {
        if rtt == Duration::ZERO {
            return 1.0;
        }
        let target = self.rate(now, rtt) / f64::from(self.size);
        // Halving an interval fifty times leaves nothing that matters; the rate falls with loss.
        let (mut low, mut high) = (1e-8_f64, 1.0_f64);
        for _ in 0..50 {
            let middle = (low * high).sqrt();
            if equation(middle, rtt) > target { low = middle } else { high = middle }
        }
        1.0 / high
    }

    /// X_recv: bytes a second of the last round trip.
    fn rate(&mut self, now: Instant, rtt: Duration) -> f64 {
        let old = self.came.partition_point(|at| now.since(*at) >= rtt);
        self.came.drain(..old);
        if rtt == Duration::ZERO {
            0.0
        } else {
            self.came.len() as f64 * f64::from(self.size) / rtt.as_secs_f64()
        }
    }

    /// Handles the timer, if the timer has expired (section 6.2).
    pub(super) fn expire(&mut self, now: Instant) -> Option<Feedback> {
        if now < self.report_at {
            return None;
        }
        if self.news {
            return self.report(now);
        }
        self.await_more(now);
        None
    }

    fn report(&mut self, now: Instant) -> Option<Feedback> {
        let (data, came) = self.latest?;
        (self.news, self.reported) = (false, self.losses.rate());
        let received = self.rate(now, data.rtt);
        self.await_more(now);
        Some(Feedback { of: data.sent, delay: now.since(came), received, loss: self.reported })
    }

    /// The timer runs for the sender's round trip; before it has one, each packet is answered.
    fn await_more(&mut self, now: Instant) {
        let rtt = self.latest.map_or(Duration::ZERO, |(data, _)| data.rtt);
        let wait = if rtt == Duration::ZERO { seconds(1.0) } else { rtt };
        self.report_at = now + wait;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn data(seq: u64, sent: u64) -> Data {
        Data { seq, size: 500, sent: at(sent), rtt: RTT }
    }

    #[test]
    fn the_first_packet_is_answered_at_once_and_then_one_round_trip_at_a_time() {
        let mut receiver = Receiver::new(500);
        let first = receiver.arrived(at(50), &data(0, 0)).unwrap();
        assert_eq!((first.of, first.delay, first.loss), (at(0), Duration::ZERO, 0.0));
        assert!(
            receiver.arrived(at(60), &data(1, 10)).is_none()
                && receiver.arrived(at(90), &data(2, 40)).is_none()
        );
        assert!(receiver.expire(at(149)).is_none());
        let next = receiver.expire(at(150)).unwrap();
        // The last 100 ms hold two packets, without the one that came 100 ms ago.
        assert_eq!((next.of, next.delay, next.received), (at(40), Duration::from_millis(60), 10_000.0));
        assert!(receiver.expire(at(250)).is_none());
    }

    #[test]
    fn a_loss_is_told_at_once_with_an_interval_that_fits_the_rate() {
        let mut receiver = Receiver::new(500);
        let mut heard = Vec::new();
        for seq in (0..40).filter(|seq| *seq != 30) {
            heard.extend(receiver.arrived(at(50 + 5 * seq), &data(seq, 5 * seq)).map(|f| (seq, f)));
        }
        let [(0, _), (33, told)] = heard[..] else { panic!("{heard:?}") };
        // 19 packets in the last 100 ms; the equation allows as many with this rate of loss.
        assert!((equation(told.loss, RTT) - 190.0).abs() < 1.0, "{}", told.loss);
    }
}
