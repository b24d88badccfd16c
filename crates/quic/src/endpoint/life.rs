//! Life of a connection, from its handshake to its end by closing or by idling (RFC 9000, section 10).

use narrows_units::Instant;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The handshake is not complete.
    Handshake,
    /// Data may flow.
    Established,
    /// This end has closed it, and answers what comes with a CONNECTION_CLOSE (RFC 9000, section 10.2.1).
    Closing,
    /// The peer has closed the connection (section 10.2.2).
    Draining,
    /// The connection is over: nothing is sent or taken any more.
    Over,
}

/// State of a connection, and the two timers that end the connection.
#[derive(Clone, Debug)]
pub(super) struct Life {
    state: State,
    /// HANDSHAKE_DONE was sent or came (RFC 9001, section 4.1.2).
    confirmed: bool,
    /// Whether a CONNECTION_CLOSE is to be sent.
    close_due: bool,
    /// Whether the next packet that asks for an ACK puts the idle timeout off (RFC 9000, section 10.1).
    idle_reset: bool,
    idle_timer: Option<Instant>,
    close_timer: Option<Instant>,
}

impl Life {
    pub(super) const fn new() -> Self {
        Self {
            state: State::Handshake,
            confirmed: false,
            close_due: false,
            idle_reset: false,
            idle_timer: None,
            close_timer: None,
        }
    }

    /// The handshake is complete.
    pub(super) const fn establish(&mut self) {
        self.state = State::Established;
    }
    /// HANDSHAKE_DONE was sent or came.
    pub(super) const fn confirm(&mut self) {
        self.confirmed = true;
    }

    /// Sets the idle timeout to expire at `at`, unless a packet puts the timeout off.
    pub(super) const fn idle_until(&mut self, at: Instant) {
        self.idle_timer = Some(at);
    }
    /// A packet came, which puts the idle timeout off to `at`; so does the next that leaves and asks for an ACK.
    pub(super) const fn came(&mut self, at: Instant) {
        self.idle_until(at);
        self.idle_reset = true;
    }
    /// A packet has left that asks for an ACK: the first since one came puts the idle timeout off to `at`.
    pub(super) const fn asked(&mut self, at: Instant) {
        if self.idle_reset {
            self.idle_reset = false;
            self.idle_until(at);
        }
    }

    /// Closes the connection from this end; at `over` nothing of the connection is left.
    pub(super) const fn close(&mut self, over: Instant) {
        self.stop(State::Closing, over);
    }
    /// The peer has closed the connection, of which nothing is left at `over`. The other end's close is answered once.
    pub(super) const fn drain(&mut self, over: Instant) {
        self.stop(State::Draining, over);
    }
    const fn stop(&mut self, state: State, over: Instant) {
        (self.state, self.close_due) = (state, true);
        (self.idle_timer, self.close_timer) = (None, Some(over));
    }

    /// A packet came after the connection was closed; whether that closes it too (RFC 9000, section 10.2).
    pub(super) fn came_when_closed(&mut self, closes: bool) {
        if self.state != State::Closing {
            return;
        }
        self.close_due = !closes;
        if closes {
            self.state = State::Draining;
        }
    }
    /// Whether a CONNECTION_CLOSE is to be sent, which is not the case from now on.
    pub(super) const fn take_close(&mut self) -> bool {
        core::mem::replace(&mut self.close_due, false)
    }

    /// Ends a connection that was closed for long enough. Tells whether it did.
    pub(super) fn ends_closed(&mut self, now: Instant) -> bool {
        let ends = self.close_timer.is_some_and(|at| at <= now);
        if ends {
            self.end();
        }
        ends
    }
    /// Ends a connection on which nothing came for long enough. Tells whether it did.
    pub(super) fn ends_idle(&mut self, now: Instant) -> bool {
        let ends = self.idle_timer.is_some_and(|at| at <= now) && !self.is_closed();
        if ends {
            self.end();
        }
        ends
    }
    const fn end(&mut self) {
        (self.state, self.close_due) = (State::Over, false);
        (self.idle_timer, self.close_timer) = (None, None);
    }
    /// Times at which the timers expire; `None` for a timer that is not set.
    pub(super) const fn timers(&self) -> [Option<Instant>; 2] {
        [self.idle_timer, self.close_timer]
    }

    pub(super) const fn is_confirmed(&self) -> bool {
        self.confirmed
    }
    /// Whether the handshake is not complete.
    pub(super) const fn shakes_hands(&self) -> bool {
        matches!(self.state, State::Handshake)
    }
    /// Whether data may flow.
    pub(super) const fn is_established(&self) -> bool {
        matches!(self.state, State::Established)
    }
    /// Tells whether the connection is closed, by this end or the other, or timed out.
    pub(super) const fn is_closed(&self) -> bool {
        matches!(self.state, State::Closing | State::Draining | State::Over)
    }
    /// Whether the peer has closed the connection.
    pub(super) const fn is_draining(&self) -> bool {
        matches!(self.state, State::Draining)
    }
    /// Whether nothing is sent or taken any more.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(s: u64) -> Instant {
        Instant::from_nanos(s * 1_000_000_000)
    }

    #[test]
    fn only_the_first_answer_after_a_packet_puts_the_idle_timeout_off() {
        let mut life = Life::new();
        life.came(at(10));
        life.asked(at(11));
        life.asked(at(12));
        assert_eq!(life.timers(), [Some(at(11)), None]);
        assert!(!life.ends_idle(at(10)) && life.ends_idle(at(11)) && life.is_over());
    }

    #[test]
    fn what_comes_is_answered_until_the_peer_closes_too() {
        let mut life = Life::new();
        life.close(at(3));
        assert!(life.take_close() && !life.take_close());
        life.came_when_closed(false);
        assert!(life.take_close());
        life.came_when_closed(true);
        life.came_when_closed(false);
        assert!(!life.take_close() && life.is_draining());
        assert!(!life.ends_closed(at(2)) && life.ends_closed(at(3)) && life.is_over());
    }
}
