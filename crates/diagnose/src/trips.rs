//! Round trips as they are seen from the point of capture, and the sender's timer as far as it can be known from them.
//!
//! A round trip has two halves: from the capture to the receiver and back (a segment until its ACK), and from the
//! capture to the sender and back (an ACK until what it lets go). The sum of the two halves is what the sender
//! measures. The timer is that of RFC 6298, with the floor that the flow's own timeouts show: 200 ms in Linux, 1 s in
//! the RFC; where the sender's clock is known, with Linux's deviation.

use narrows_units::{Duration, Instant, SeqNum};

use crate::deviation::Deviation;
use crate::spread::Spread;
use crate::tolerances::{FIRST_RTO, LEAST_RTO, MOST_RTO, NO_SAMPLE, STAMPS};

/// Round trip of a sender: its half towards the receiver, its half towards the sender, and the estimate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trips {
    /// Half of the round trip to the receiver and back: smoothed, least.
    receiver: Option<(Duration, Duration)>,
    /// Half of the round trip to the sender and back: smoothed, least.
    sender: Option<(Duration, Duration)>,
    /// The latest sample of the sender's half: what varies before the capture is part of the sender's samples.
    latest: Duration,
    srtt: Duration,
    rttvar: Duration,
    samples: u64,
    spread: Spread,
    /// Smoothed, as it is rather than as the sender knows it: what was sent again counts too.
    trip: Duration,
    /// Whether the samples are the sender's own, so halves add nothing.
    own: bool,
    linux: Deviation,
    /// TSval of packets that went to the sender, when they passed first, and which have not been echoed.
    stamps: [u32; STAMPS],
    passed: [Instant; STAMPS],
    open: [bool; STAMPS],
    stamp: usize,
}

/// Moves a smoothed value and the least value by a sample.
fn smooth(old: Option<(Duration, Duration)>, sample: Duration) -> (Duration, Duration) {
    old.map_or((sample, sample), |(mean, least)| (mean.ewma(sample, 3), least.min(sample)))
}

impl Trips {
    /// A segment that was sent once is acknowledged after `half`.
    pub(crate) fn time_receiver(&mut self, half: Duration) {
        self.receiver = Some(smooth(self.receiver, half));
        if !self.own {
            self.sample(half + self.latest);
        }
    }

    /// Takes a sample that the sender itself measures. `una` is what has been acknowledged and `max` what has been sent
    /// at the end of the round trip.
    pub(crate) fn time_whole(&mut self, r: Duration, una: SeqNum, max: SeqNum) {
        if !self.own {
            // Samples pieced together from halves before are worth less than one true sample.
            (self.own, self.samples) = (true, 0);
        }
        self.sample(r);
        self.linux.sample(r, una, max);
    }

    fn sample(&mut self, r: Duration) {
        // One half alone is no round trip.
        if self.own || self.receiver.is_some() && self.sender.is_some() {
            self.spread.add(r);
        }
        // RFC 6298, (2.2) and (2.3).
        if self.samples == 0 {
            (self.srtt, self.rttvar) = (r, r / 2);
        } else {
            let error = if r > self.srtt { r.saturating_sub(self.srtt) } else { self.srtt.saturating_sub(r) };
            self.rttvar = self.rttvar.ewma(error, 2);
            self.srtt = self.srtt.ewma(r, 3);
        }
        self.samples += 1;
        self.add_trip(r);
    }

    fn add_trip(&mut self, r: Duration) {
        self.trip = if self.trip == Duration::ZERO { r } else { self.trip.ewma(r, 3) };
    }

    /// A segment that was sent several times is acknowledged `half` after the last. If that answers an earlier one, the
    /// round trip is longer still.
    pub(crate) fn time_repeated(&mut self, half: Duration) {
        self.time_clocked(half + if self.own { Duration::ZERO } else { self.latest });
    }

    /// Takes note that the round trip is at least `least`.
    pub(crate) fn time_clocked(&mut self, least: Duration) {
        if least > self.trip {
            self.add_trip(least);
        }
    }

    /// Length of a round trip, as measured so far.
    pub(crate) fn trip(&self) -> Duration {
        let least = self.sender_least().unwrap_or_default() + self.receiver_least().unwrap_or_default();
        self.trip.max(least)
    }

    /// The sender answers after `half`. It may also have had nothing to say before, or wait for its timer, so what is
    /// far beyond the least does not count.
    pub(crate) fn time_sender(&mut self, half: Duration, times: u64) {
        let beyond = |(_, least): (Duration, Duration)| half > least * times + NO_SAMPLE;
        if !self.sender.is_some_and(beyond) {
            let (mean, least) = smooth(self.sender, half);
            // A sample that is too small belongs to an earlier ACK.
            let mean = if times > 2 && half > mean { mean.ewma(half, 2) } else { mean };
            self.sender = Some((mean, least));
            self.latest = half;
            let other = self.receiver_half();
            if self.samples > 0 && half > other && !self.own {
                // Most of what varies is on the sender's side.
                self.sample(half + other);
            }
        }
    }

    /// A packet with this TSval passes towards the sender. One stamp may be on several packets; the sender echoes it
    /// when the first comes.
    pub(crate) fn stamp(&mut self, now: Instant, tsval: u32) {
        if self.stamps[self.stamp] != tsval {
            self.stamp = (self.stamp + 1) % STAMPS;
            (self.stamps[self.stamp], self.passed[self.stamp]) = (tsval, now);
            self.open[self.stamp] = true;
        }
    }

    /// The sender echoes this TSval now. Only the first echo of a stamp is a sample; gives when the stamp passed then.
    pub(crate) fn echo(&mut self, now: Instant, tsecr: u32) -> Option<Instant> {
        let at = self.stamps.iter().position(|tsval| *tsval == tsecr)?;
        let passed = core::mem::take(&mut self.open[at]).then_some(self.passed[at])?;
        self.time_sender(now.since(passed), 2);
        Some(passed)
    }

    /// Time at which a packet with this TSval passed towards the sender first, if it was one of the latest.
    pub(crate) fn passed(&self, tsval: u32) -> Option<Instant> {
        let at = self.stamps.iter().position(|stamp| *stamp == tsval)?;
        Some(self.passed[at]).filter(|passed| *passed > Instant::ZERO)
    }

    /// Half of the round trip from here to the sender and back, smoothed; zero as long as it is not known.
    pub(crate) fn sender_half(&self) -> Duration {
        self.sender.map_or(Duration::ZERO, |(mean, _)| mean)
    }
    /// Half of the round trip from here to the receiver and back, smoothed; zero as long as it is not known.
    pub(crate) fn receiver_half(&self) -> Duration {
        self.receiver.map_or(Duration::ZERO, |(mean, _)| mean)
    }
    /// Difference between the smoothed value and the least value of the receiver's half.
    pub(crate) fn receiver_excess(&self) -> Option<Duration> {
        self.receiver.map(|(mean, least)| mean.saturating_sub(least))
    }
    /// The least of the receiver's half.
    pub(crate) fn receiver_least(&self) -> Option<Duration> {
        self.receiver.map(|(_, least)| least)
    }
    /// The least of the sender's half.
    pub(crate) fn sender_least(&self) -> Option<Duration> {
        self.sender.map(|(_, least)| least)
    }
    /// Takes the distribution of the round trips that were timed.
    pub(crate) fn take_spread(&mut self) -> Spread {
        core::mem::take(&mut self.spread)
    }

    /// The least of the whole round trip that was seen.
    pub(crate) fn least(&self) -> Option<Duration> {
        Some(self.receiver_least()? + self.sender_least().unwrap_or_default())
    }
    /// The smoothed round trip, if there was a sample; else that of the handshake.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        (self.samples > 0).then_some(self.srtt)
    }
    /// The timeout, without back-off.
    pub(crate) fn rto(&self) -> Duration {
        if self.samples == 0 {
            return self.receiver.map_or(FIRST_RTO, |_| self.whole() * 3).max(LEAST_RTO);
        }
        // Linux has the floor on four deviations, the RFC on the sum: with the former both are within a round trip.
        let four = if self.own { self.linux.four } else { self.rttvar * 4 };
        (self.srtt + four.max(LEAST_RTO)).min(MOST_RTO)
    }

    /// The timeout without back-off, by whichever of the deviations of Linux and of RFC 6298 is less.
    pub(crate) fn rto_least(&self) -> Duration {
        self.rto().min((self.srtt + (self.rttvar * 4).max(LEAST_RTO)).max(LEAST_RTO))
    }

    fn whole(&self) -> Duration {
        self.receiver_half() + self.sender_half()
    }

    /// The handshake has timed both halves: its whole round trip is the first sample.
    pub(crate) fn greeted(&mut self) {
        if !self.own && self.receiver.is_some() {
            (self.srtt, self.rttvar, self.samples) = (self.whole(), self.whole() / 2, 1);
            self.trip = self.trip.max(self.srtt);
        }
    }

    /// The handshake's round trip to the receiver: a SYN until its SYN-ACK, or a SYN-ACK until its ACK. The sample
    /// counts as long as there is none of data.
    pub(crate) fn handshake(&mut self, half: Duration) {
        if self.receiver.is_none() {
            self.time_receiver(half);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }
    fn at(n: u64) -> Instant {
        Instant::ZERO + ms(n)
    }

    #[test]
    fn rfc_6298_by_hand() {
        // To the sender 100 ms, to the receiver 700: R = 800, SRTT 800, RTTVAR 400, RTO = 800 + 1600.
        let mut t = Trips::default();
        assert_eq!(t.rto(), FIRST_RTO);
        t.time_sender(ms(100), 2);
        t.time_receiver(ms(700));
        assert_eq!((t.srtt(), t.rto()), (Some(ms(800)), ms(2400)));
        // R' = 1600: RTTVAR = 500, SRTT = 900, RTO = 2900.
        t.time_receiver(ms(1500));
        assert_eq!((t.srtt(), t.rto(), t.least()), (Some(ms(900)), ms(2900), Some(ms(800))));
    }

    #[test]
    fn only_the_first_echo_of_a_stamp_counts() {
        let mut t = Trips::default();
        t.stamp(at(10), 7);
        t.stamp(at(15), 7);
        t.echo(at(30), 7);
        assert_eq!(t.sender_least(), Some(ms(20)));
        // A second packet with the same echo, an application that waits: no samples.
        t.echo(at(31), 7);
        t.stamp(at(40), 8);
        t.echo(at(900), 8);
        assert_eq!((t.sender_least(), t.sender_half()), (Some(ms(20)), ms(20)));
    }
}
