//! When one sender hears, sends, and lets its timer expire, as far as that is known from the point of capture: both
//! halves of its round trip, its clock, and the retransmission timer with its back-off (RFC 6298).
//!
//! All times are those of the capture. The sender reacts to an ACK that passes here after its half of the round trip,
//! and its timer is taken to be restarted then.

use narrows_units::{Duration, Instant, SeqNum};

use crate::clock::Clock;
use crate::judge;
use crate::seen::Seen;
use crate::spread::Spread;
use crate::timer::Timer;
use crate::tolerances::{
    ANSWER_BY_ECHO, AT_SENDER, DUE, EARLY, MOST_ECHOES, MOST_EXPIRIES, MOST_RTO, RESTART_OFF, SOONEST, TICK,
};
use crate::trips::Trips;

/// Behaviour of the sender's kind that other connections of the capture show.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Around {
    /// Whether packets get lost between such senders and the capture.
    pub(crate) losses: bool,
    /// A low quantile of what timers wait: the floor of the RTO.
    pub(crate) floor: Duration,
    /// Whether senders of the same kind do not probe tails.
    pub(crate) plain: bool,
    /// Whether selective acknowledgments restart the timers of such senders too.
    pub(crate) restarts: bool,
    /// The rate of their clocks, as a place in the list of those that there are.
    pub(crate) rate: Option<usize>,
}

/// An ACK whose sample for the sender waits for the sender's clock.
#[derive(Clone, Copy, Debug)]
struct Echo {
    at: Instant,
    tsecr: u32,
    /// End of the data that the ACK acknowledges; in `max` the end of the data sent until the ACK passed.
    una: SeqNum,
    max: SeqNum,
}

/// Times of one sender. The samples of round trips, the clock and the timer go together: an ACK whose sample needs the
/// clock is kept until that is known, and the timer is as old as the ACK was when the sender had it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timing {
    around: Around,
    trips: Trips,
    clock: Clock,
    /// ACKs before the clock was known.
    echoes: Vec<Echo>,
    timer: Timer,
    /// Whether timestamps are in use.
    stamps: bool,
    /// The sender's half of the round trip in the handshake.
    greeting: Option<Duration>,
    /// Time that [`Timing::since_heard`] gives for the packet that passes now.
    heard: Option<Duration>,
    /// The back-off: the factor on the RTO.
    factor: u32,
    /// Times at which the sender sent data last and before that; then how long it had sent none.
    sent: Instant,
    sent_before: Instant,
    quiet: Duration,
}

impl Timing {
    pub(crate) fn new() -> Self {
        Self { factor: 1, ..Self::default() }
    }

    /// Time at which a packet would have passed without a queue before the capture, if the sender's clock tells; else
    /// when it did.
    pub(crate) fn when_sent(&mut self, p: &Seen<'_>) -> Instant {
        let Some((tsval, tsecr)) = p.tcp.timestamps else { return p.at };
        self.stamps = true;
        let passed = self.trips.echo(p.at, tsecr);
        self.clock.assume(self.around.rate);
        self.clock.tick(p.at, tsval);
        if let Some(passed) = passed {
            self.clock.reacted(passed, tsval);
        }
        self.catch_up();
        self.heard = self.since_heard(p.at, tsval, tsecr);
        let asked = self.around.losses || self.at_sender();
        let sent = if asked { self.clock.sent(p.at, tsval) } else { None };
        sent.unwrap_or(p.at)
    }

    /// Time for which the sender had heard nothing when it sent what passes now.
    fn since_heard(&self, now: Instant, tsval: u32, tsecr: u32) -> Option<Duration> {
        let passed = self.trips.passed(tsecr)?;
        let by_clock = self.clock.sent(now, tsval).zip(self.clock.react());
        let (sent, react) = by_clock.unwrap_or((now, self.trips.sender_half()));
        Some(sent.since(passed + react))
    }

    /// Tells whether an ACK that the sender has just heard let the segment go.
    pub(crate) fn answers(&self) -> bool {
        self.heard.is_some_and(|heard| heard <= ANSWER_BY_ECHO)
    }

    /// The capture is so near to the sender that what follows from an ACK is seen at once after it.
    pub(crate) fn at_sender(&self) -> bool {
        self.trips.sender_least().is_some_and(|least| least < AT_SENDER)
    }

    /// Time from an ACK's passing here until the data it lets go passes here, by the sender's clock, where the capture
    /// is at the sender or behind a queue with losses; else `None`.
    pub(crate) fn exact(&self) -> Option<Duration> {
        if self.at_sender() {
            self.clock.react()
        } else {
            self.clock.react_sure().filter(|_| self.around.losses)
        }
    }

    /// Time from an ACK's passing here until the data it lets go passes here: by the sender's clock, else its half of
    /// the round trip.
    pub(crate) fn react(&self) -> Duration {
        self.exact().unwrap_or_else(|| self.trips.sender_half())
    }

    /// Least time from an ACK's passing here until the data it lets go passes here.
    pub(crate) fn react_least(&self) -> Duration {
        self.exact().or(self.trips.sender_least()).unwrap_or_default()
    }

    /// The least time within which the sender reacts.
    pub(crate) fn soonest(&self) -> Duration {
        if self.at_sender() { Duration::ZERO } else { SOONEST.of(self.react_least()) }
    }

    /// Time by which the sender may react later than the sender's half of the round trip.
    pub(crate) fn slack(&self, guess: Duration) -> Duration {
        judge::slack(self.exact().is_some(), guess)
    }

    /// The timeout without back-off: what the round trips make of it. Without timestamps there are few samples, and
    /// then it is no less than other timers here have waited.
    pub(crate) fn rto(&self) -> Duration {
        let floor = if self.stamps { Duration::ZERO } else { self.around.floor };
        self.trips.rto().max(floor)
    }

    /// Time at which the timer was restarted last, for what passes now.
    pub(crate) fn restarted(&self, now: Instant) -> Instant {
        let slack = match self.exact() {
            Some(_) => TICK,
            None => self.react().saturating_sub(self.react_least() / RESTART_OFF),
        };
        self.timer.since(now, slack)
    }

    /// Time for which the timer had run when the sender sent the packet that passes now.
    pub(crate) fn waited(&self, now: Instant) -> Duration {
        now.since(self.restarted(now))
    }

    /// Tells whether a silence is long enough for the timer.
    pub(crate) fn waits_for_timer(&self, waited: Duration) -> bool {
        judge::waits_for_timer(waited, self.trips.srtt())
    }

    /// Tells whether a silence is so long that the timer cannot have stood still. Where losses before the capture hide
    /// what the sender does, other silences look much the same, so we ask for more.
    pub(crate) fn must_have_expired(&self, waited: Duration) -> bool {
        self.waits_for_timer(waited)
            && (waited >= EARLY.of(self.rto()) || !(self.around.losses || self.at_sender()))
    }

    /// How often a timer that doubles expires in `waited`: R, then 2 R, then 4 R make R (2^k - 1).
    pub(crate) fn expiries(&self, waited: Duration) -> u32 {
        let first = (self.rto() * u64::from(self.factor)).min(MOST_RTO);
        let (mut k, mut sum, mut wait) = (1, first, first);
        while k < MOST_EXPIRIES {
            wait = (wait * 2).min(MOST_RTO);
            // The border between k and k + 1 is the geometric middle of both sums.
            let next = sum + wait;
            if u128::from(waited.as_nanos()).pow(2) < u128::from(sum.as_nanos()) * u128::from(next.as_nanos())
            {
                break;
            }
            (k, sum) = (k + 1, next);
        }
        k
    }

    /// A timer that was started with an answer expires about then, once or several times: after R, 3 R, 7 R.
    pub(crate) fn is_due(&self, after: Duration) -> bool {
        let (mut sum, mut wait) = (Duration::ZERO, self.rto());
        for _ in 0..MOST_EXPIRIES {
            sum += wait;
            if after <= sum + DUE.of(sum) {
                return after + DUE.of(sum) >= sum;
            }
            wait = (wait * 2).min(MOST_RTO);
        }
        false
    }

    /// Takes the sender's own sample, where its clock is known: from when it sent what the ACK echoes until it has the
    /// ACK (RFC 7323, section 4.1). What passes before the clock is known is caught up on then.
    pub(crate) fn time_echo(&mut self, p: &Seen<'_>, max: SeqNum) {
        let Some((_, tsecr)) = p.tcp.timestamps else { return };
        let echo = Echo { at: p.at, tsecr, una: p.tcp.ack, max };
        if let Some(react) = self.exact() {
            self.catch_up();
            self.time_one(react, echo);
        } else if self.echoes.len() < MOST_ECHOES {
            self.echoes.push(echo);
        }
    }

    /// Takes the samples of acknowledgments that wait for the sender's clock, if it is known.
    fn catch_up(&mut self) {
        if self.echoes.is_empty() {
            return;
        }
        let Some(react) = self.exact() else { return };
        for echo in std::mem::take(&mut self.echoes) {
            self.time_one(react, echo);
        }
    }

    fn time_one(&mut self, react: Duration, echo: Echo) {
        if let Some(sent) = self.clock.sent(echo.at, echo.tsecr) {
            self.trips.time_whole((echo.at + react).since(sent), echo.una, echo.max);
        }
    }

    /// Takes the behaviour that other connections show now.
    pub(crate) fn look_around(&mut self, around: Around) {
        self.around = around;
    }

    /// Data was sent then.
    pub(crate) fn sends(&mut self, at: Instant) {
        self.quiet = at.since(self.sent);
        self.sent_before = core::mem::replace(&mut self.sent, at);
    }

    /// The timer is restarted then, or will be.
    pub(crate) fn restart(&mut self, at: Instant) {
        self.timer.restart(at);
    }

    /// Length of the timer, back-off included.
    pub(crate) fn wait(&self) -> Duration {
        self.rto() * u64::from(self.factor)
    }

    /// Counts `times` expiries of the timer: each doubles the back-off.
    pub(crate) fn back_off(&mut self, times: u32) {
        self.factor = self.factor.saturating_mul(1 << times).min(1 << 15);
    }

    /// The back-off ends: something that was sent once, or has a timestamp, was acknowledged (RFC 6298, section 5).
    pub(crate) fn end_back_off(&mut self) {
        self.factor = 1;
    }

    /// Takes note of a packet with `tsval` that passes towards the sender.
    pub(crate) fn stamp(&mut self, now: Instant, tsval: u32) {
        self.trips.stamp(now, tsval);
    }

    /// A segment that was sent once is acknowledged after `half`.
    pub(crate) fn time_receiver(&mut self, half: Duration) {
        self.trips.time_receiver(half);
    }

    /// The sender answers after `half`; see [`Trips::time_sender`].
    pub(crate) fn time_sender(&mut self, half: Duration, times: u64) {
        self.trips.time_sender(half, times);
    }

    /// Notes that a segment sent several times is acknowledged `half` after the last copy.
    pub(crate) fn time_repeated(&mut self, half: Duration) {
        self.trips.time_repeated(half);
    }

    /// Takes note that the round trip is at least `least`.
    pub(crate) fn time_clocked(&mut self, least: Duration) {
        self.trips.time_clocked(least);
    }

    /// The handshake's round trip to the receiver.
    pub(crate) fn handshake(&mut self, half: Duration) {
        self.trips.handshake(half);
    }

    /// The handshake has timed both halves.
    pub(crate) fn greeted(&mut self) {
        self.trips.greeted();
    }

    /// The sender has answered in the handshake after `half`.
    pub(crate) fn greet(&mut self, half: Duration) {
        self.trips.time_sender(half, 2);
        self.greeting = Some(half);
    }

    /// The sender, as a receiver, has acknowledged after `half`: that is its half of the round trip too.
    pub(crate) fn acknowledges(&mut self, half: Duration) {
        self.trips.time_sender(half, 3);
        self.greeting.get_or_insert(half);
    }

    /// Time at which a packet with this TSval that passes now was sent, if the sender's clock is known.
    pub(crate) fn clock_sent(&self, now: Instant, tsval: u32) -> Option<Instant> {
        self.clock.sent(now, tsval)
    }

    /// Guesses the same if the sender's clock is not known.
    pub(crate) fn clock_sent_about(&self, now: Instant, tsval: u32) -> Option<Instant> {
        self.clock.sent_about(now, tsval)
    }

    /// How long what passes now with this TSval waited before here, if the sender's own ticks have shown its clock.
    pub(crate) fn clock_waited(&self, now: Instant, tsval: u32) -> Option<Duration> {
        self.clock.react_sure()?;
        self.clock.sent(now, tsval).map(|sent| now.since(sent))
    }

    /// Takes the distribution of the round trips that were timed.
    pub(crate) fn take_spread(&mut self) -> Spread {
        self.trips.take_spread()
    }

    /// Rate of the sender's clock, once, as soon as it is known; read by the analyzer.
    pub(crate) fn clock_found(&mut self) -> Option<usize> {
        self.clock.found()
    }

    /// The timer and its back-off factor, for [`Self::turn_back`].
    pub(crate) fn timer(&self) -> (Timer, u32) {
        (self.timer, self.factor)
    }

    /// Sets the timer and the back-off back to earlier values.
    pub(crate) fn turn_back(&mut self, timer: Timer, factor: u32) {
        (self.timer, self.factor) = (timer, factor);
    }

    pub(crate) fn trips(&self) -> &Trips {
        &self.trips
    }

    pub(crate) fn losses(&self) -> bool {
        self.around.losses
    }

    pub(crate) fn plain(&self) -> bool {
        self.around.plain
    }

    pub(crate) fn restarts(&self) -> bool {
        self.around.restarts
    }

    pub(crate) fn stamps(&self) -> bool {
        self.stamps
    }

    pub(crate) fn greeting(&self) -> Option<Duration> {
        self.greeting
    }

    pub(crate) fn heard(&self) -> Option<Duration> {
        self.heard
    }

    pub(crate) fn factor(&self) -> u32 {
        self.factor
    }

    pub(crate) fn sent(&self) -> Instant {
        self.sent
    }

    pub(crate) fn sent_before(&self) -> Instant {
        self.sent_before
    }

    pub(crate) fn quiet(&self) -> Duration {
        self.quiet
    }
}

/// Timings that tests know from the start.
#[cfg(test)]
impl Timing {
    pub(crate) fn around_mut(&mut self) -> &mut Around {
        &mut self.around
    }

    pub(crate) fn has_clock(&mut self, ticks: impl Iterator<Item = (Instant, u32)>, at: Instant, tsval: u32) {
        self.stamps = true;
        ticks.for_each(|(at, tsval)| self.clock.tick(at, tsval));
        self.clock.reacted(at, tsval);
    }

    pub(crate) fn has_sent(&mut self, before: Instant, at: Instant) {
        (self.sent_before, self.sent) = (before, at);
    }

    pub(crate) fn has_heard(&mut self, ago: Duration) {
        self.heard = Some(ago);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_tells_when_it_heard_last() {
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        let mut t = Timing::new();
        // 100 ms to the sender and back. An ACK with timestamp 7 passes at 1 s.
        t.time_sender(Duration::from_millis(100), 2);
        t.stamp(at(1000), 7);
        let heard = |ms: u64, echo: u32| t.since_heard(at(ms), 0, echo).map(|d| d.as_nanos() / 1_000_000);
        // The sender hears the timestamp at 1.1 s: data passing then answers it, data at 1.7 s left 600 ms later.
        assert_eq!([heard(1100, 7), heard(1700, 7)], [Some(0), Some(600)]);
        assert_eq!(heard(1100, 6), None, "it was not seen");
        t.heard = t.since_heard(at(1120), 0, 7);
        assert!(t.answers());
        t.heard = t.since_heard(at(1200), 0, 7);
        assert!(!t.answers());
    }
}
