//! One end of a connection.

use narrows_units::{Duration, Ecn, Instant};

use crate::acks::Acks;
use crate::congestion::Congestion;
use crate::mtu::Mtu;
use crate::pacing::Pacer;
use crate::packet::{Datagram, Space};
use crate::rtt::Rtt;
use crate::space::PacketSpace;
use crate::stream::{ReceiveStream, SendStream};
use crate::{Config, EndpointCounters, Io, QuicEvent};

mod loss;
mod receive;
mod send;

/// Who opened the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// This end.
    Client,
    /// The peer.
    Server,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The handshake is not complete.
    Handshake,
    /// Data may flow.
    Established,
    /// This end has closed it, and answers what comes with a CONNECTION_CLOSE (RFC 9000, section 10.2.1).
    Closing,
    /// The peer has closed it (section 10.2.2).
    Draining,
    /// Nothing is sent or taken any more.
    Over,
}

/// One end of a connection. Every call takes the settings, because many ends share them.
#[derive(Clone, Debug)]
pub struct Endpoint {
    side: Role,
    state: State,
    /// HANDSHAKE_DONE was sent or came (RFC 9001, section 4.1.2).
    confirmed: bool,
    /// A CONNECTION_CLOSE is to be sent.
    close_due: bool,
    spaces: [PacketSpace; 3],
    rtt: Rtt,
    congestion: Congestion,
    pacer: Option<Pacer>,
    mtu: Mtu,
    /// UDP payload of a full datagram.
    datagram: u16,
    /// Bytes, and packets that ask for an ACK, in flight in all spaces.
    in_flight: u64,
    eliciting: u32,
    /// Whether there was too little to send when it was looked at last.
    app_limited: bool,
    pto_count: u32,
    /// When the last of a series of probe timeouts expired, until it is known whether it had to.
    pto_at: Option<Instant>,
    /// Space and number of the next packet when the first sample of the round trip came (RFC 9002, section 7.6.2).
    first_after_rtt: Option<(Space, u64)>,
    /// Bytes of UDP payload, for the limit against amplification.
    came: u64,
    gone: u64,
    /// The peer's address is known to be its own.
    validated: bool,
    send: SendStream,
    receive: ReceiveStream,
    /// From when on an ACK goes with what is sent anyway.
    bundle: Option<Instant>,
    /// Connection ids to issue once what is due besides has left.
    ids_due: u8,
    /// The peer's first connection id is no longer used.
    retired: bool,
    /// Whether the next packet that asks for an ACK puts the idle timeout off (RFC 9000, section 10.1).
    idle_reset: bool,
    loss_timer: Option<Instant>,
    pacing_timer: Option<Instant>,
    idle_timer: Option<Instant>,
    close_timer: Option<Instant>,
    counters: EndpointCounters,
}

impl Endpoint {
    /// An end that has done nothing yet.
    #[must_use]
    pub fn new(config: &Config, side: Role) -> Self {
        let rtt = Rtt::new(config.initial_rtt);
        let datagram = u64::from(config.datagram);
        let pacer = config.burst.map(|b| Pacer::new(config.initial_rtt, config.initial_window, datagram, b));
        let mut spaces = <[PacketSpace; 3]>::default();
        spaces[Space::Initial as usize].open = true;
        Self {
            side,
            state: State::Handshake,
            confirmed: false,
            close_due: false,
            spaces,
            rtt,
            congestion: Congestion::new(config),
            pacer,
            mtu: Mtu::default(),
            datagram: config.datagram,
            in_flight: 0,
            eliciting: 0,
            app_limited: false,
            pto_count: 0,
            pto_at: None,
            first_after_rtt: None,
            came: 0,
            gone: 0,
            validated: side == Role::Client,
            send: SendStream::default(),
            receive: ReceiveStream::default(),
            bundle: None,
            ids_due: 0,
            retired: false,
            idle_reset: false,
            loss_timer: None,
            pacing_timer: None,
            idle_timer: None,
            close_timer: None,
            counters: EndpointCounters::default(),
        }
    }

    /// A client opens the connection.
    pub fn open(&mut self, config: &Config, now: Instant, io: &mut impl Io) {
        if self.side == Role::Client && self.gone == 0 {
            self.space(Space::Initial).say(config.handshake.client_hello);
            self.idle_timer = Some(now + config.idle);
            self.transmit(config, now, io);
        }
    }

    /// Appends `bytes` of the application's to this end's stream; `u64::MAX` for a source that never ends.
    pub fn write(&mut self, config: &Config, now: Instant, bytes: u64, io: &mut impl Io) {
        self.send.write(bytes);
        self.transmit(config, now, io);
    }

    /// The application writes no more: a FIN goes with the last byte.
    pub fn finish(&mut self, config: &Config, now: Instant, io: &mut impl Io) {
        self.send.finish();
        self.transmit(config, now, io);
    }

    /// [`Endpoint::write`] and [`Endpoint::finish`] at once.
    pub fn write_all(&mut self, config: &Config, now: Instant, bytes: u64, io: &mut impl Io) {
        self.send.write(bytes);
        self.send.finish();
        self.transmit(config, now, io);
    }

    /// The application closes the connection at once (RFC 9000, section 10.2).
    pub fn close(&mut self, config: &Config, now: Instant, io: &mut impl Io) {
        if matches!(self.state, State::Handshake | State::Established) {
            self.stop(config, now, State::Closing);
            self.transmit(config, now, io);
        }
    }

    /// A datagram of this connection has arrived, with these ECN bits in its IP header.
    pub fn receive(&mut self, config: &Config, now: Instant, d: &Datagram, ecn: Ecn, io: &mut impl Io) {
        if self.state == State::Over {
            return;
        }
        let blocked = self.is_amplification_blocked();
        self.came += u64::from(d.len);
        for packet in &d.packets {
            self.on_packet(config, now, packet, ecn, io);
        }
        if blocked && !self.is_closed() {
            // RFC 9002, A.7: the timer was not set while nothing could be sent.
            self.set_loss_timer(config, now);
        }
        self.transmit(config, now, io);
        let ids = std::mem::take(&mut self.ids_due);
        if ids > 0 {
            // In quinn another task gives them out.
            self.space(Space::Data).new_ids += ids;
            self.transmit(config, now, io);
        }
    }

    /// Does what is due at `now`, if anything is.
    pub fn wake(&mut self, config: &Config, now: Instant, io: &mut impl Io) {
        let due = |timer: Option<Instant>| timer.is_some_and(|at| at <= now);
        if due(self.close_timer) {
            (self.state, self.close_timer, self.close_due) = (State::Over, None, false);
            return;
        }
        if due(self.idle_timer) && !self.is_closed() {
            self.stop(config, now, State::Over);
            (self.close_timer, self.close_due) = (None, false);
            return io.event(QuicEvent::IdleTimeout);
        }
        if due(self.loss_timer) {
            self.loss_timer = None;
            self.on_loss_timer(config, now, io);
        }
        if due(self.pacing_timer) {
            self.pacing_timer = None;
        }
        let acks = self.acks_mut();
        if due(acks.due_at(config.max_ack_delay)) {
            acks.on_timer();
        }
        self.transmit(config, now, io);
    }

    /// When to call [`Endpoint::wake`]; [`Instant::FAR_FUTURE`] if only a datagram or the application can change
    /// anything.
    #[must_use]
    pub fn wake_at(&self, config: &Config) -> Instant {
        let acks = self.spaces[Space::Data as usize].acks.due_at(config.max_ack_delay);
        let acks = acks.filter(|_| !self.is_closed());
        [self.loss_timer, self.pacing_timer, self.idle_timer, self.close_timer, acks]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(Instant::FAR_FUTURE)
    }

    /// The connection is closed, by this end or another, or timed out.
    fn stop(&mut self, config: &Config, now: Instant, state: State) {
        self.state = state;
        self.close_due = true;
        (self.loss_timer, self.pacing_timer, self.idle_timer) = (None, None, None);
        self.close_timer = Some(now + self.pto(config) * 3);
    }

    fn space(&mut self, space: Space) -> &mut PacketSpace {
        &mut self.spaces[space as usize]
    }
    fn acks_mut(&mut self) -> &mut Acks {
        &mut self.space(Space::Data).acks
    }

    /// Keys are discarded (RFC 9001, section 4.9): what was sent with them is no longer in flight.
    fn discard(&mut self, config: &Config, now: Instant, space: Space) {
        let gone = std::mem::take(self.space(space));
        for sent in gone.sent.values() {
            self.settle(sent.size, sent.eliciting);
        }
        self.space(space).discarded = true;
        self.set_loss_timer(config, now);
    }

    /// A packet is no longer in flight.
    fn settle(&mut self, size: u32, eliciting: bool) {
        self.in_flight -= u64::from(size);
        self.eliciting -= u32::from(eliciting);
    }

    /// Whether the limit of three times what came is reached (RFC 9000, section 8.1). As in all stacks with a preset, a
    /// datagram may begin below it and end above.
    const fn is_amplification_blocked(&self) -> bool {
        !self.validated && self.gone >= 3 * self.came
    }

    const fn is_closed(&self) -> bool {
        matches!(self.state, State::Closing | State::Draining | State::Over)
    }

    /// PTO of 1-RTT packets, without back-off (RFC 9002, section 6.2.1).
    fn pto(&self, config: &Config) -> Duration {
        self.rtt.pto_base() + config.max_ack_delay
    }
}

impl Endpoint {
    /// What this end has counted.
    #[must_use]
    pub const fn counters(&self) -> &EndpointCounters {
        &self.counters
    }
    /// Whether the handshake is complete, or was when the connection was closed.
    #[must_use]
    pub const fn is_established(&self) -> bool {
        self.spaces[Space::Data as usize].open && !matches!(self.state, State::Handshake)
    }
    /// Whether it sends and takes nothing any more.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }
    /// Whether all that was written has been acknowledged.
    #[must_use]
    pub fn all_acked(&self) -> bool {
        self.send.all_acked()
    }
    /// The congestion window, bytes.
    #[must_use]
    pub const fn cwnd(&self) -> u64 {
        self.congestion.cwnd
    }
    /// The slow start threshold, bytes; `u64::MAX` before the first congestion event.
    #[must_use]
    pub const fn ssthresh(&self) -> u64 {
        self.congestion.ssthresh()
    }
    /// Bytes in flight.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.in_flight
    }
    /// The smoothed round-trip time, or what stands for it before the first sample.
    #[must_use]
    pub fn srtt(&self) -> Duration {
        self.rtt.smoothed()
    }
    /// UDP payload of a full datagram, bytes.
    #[must_use]
    pub const fn datagram(&self) -> u16 {
        self.datagram
    }
}
