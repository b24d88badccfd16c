//! One end of a connection: what the application wants, what comes, and time. `loss.rs` judges what was sent,
//! `send.rs` fills datagrams; the other files keep a part of the state each.

use narrows_units::{Duration, Ecn, Instant};

use crate::acks::Acks;
use crate::packet::{Datagram, Frame, FramedPacket, Space};
use crate::rtt::Rtt;
use crate::space::PacketSpace;
use crate::stream::{ReceiveStream, SendStream};
use crate::{Config, EndpointCounters, Io, QuicEvent};

mod flight;
mod ids;
mod life;
mod loss;
mod path;
mod send;

use flight::Flight;
use ids::ConnectionIds;
use life::Life;
use loss::ProbeTimeouts;
use path::Path;

/// Role of an end in the end's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The end that opened the connection.
    Client,
    /// The end that answered.
    Server,
}

/// One end of a connection. Every call takes the settings, because many ends share them.
#[derive(Debug)]
pub struct Endpoint {
    side: Role,
    life: Life,
    path: Path,
    spaces: [PacketSpace; 3],
    flight: Flight,
    rtt: Rtt,
    /// Space and number of the next packet when the first sample of the round trip came (RFC 9002, section 7.6.2).
    first_after_rtt: Option<(Space, u64)>,
    probe_timeouts: ProbeTimeouts,
    loss_timer: Option<Instant>,
    send: SendStream,
    receive: ReceiveStream,
    ids: ConnectionIds,
    /// Time from which on an ACK goes with any packet that is sent.
    bundle: Option<Instant>,
    counters: EndpointCounters,
}

impl Endpoint {
    /// An end that has done nothing yet.
    #[must_use]
    pub fn new(config: &Config, side: Role) -> Self {
        let mut spaces = <[PacketSpace; 3]>::default();
        spaces[Space::Initial as usize].open = true;
        Self {
            side,
            life: Life::new(),
            path: Path::new(config, side),
            spaces,
            flight: Flight::new(config),
            rtt: Rtt::new(config.initial_rtt),
            first_after_rtt: None,
            probe_timeouts: ProbeTimeouts::default(),
            loss_timer: None,
            send: SendStream::default(),
            receive: ReceiveStream::default(),
            ids: ConnectionIds::default(),
            bundle: None,
            counters: EndpointCounters::default(),
        }
    }

    /// A client opens the connection.
    pub fn open(&mut self, config: &Config, now: Instant, io: &mut impl Io) {
        if self.side == Role::Client && self.path.is_unused() {
            self.space(Space::Initial).say(config.handshake.client_hello);
            self.life.idle_until(now + config.idle);
            self.transmit(config, now, io);
        }
    }

    /// Appends `bytes` of the application's to the end's stream; `u64::MAX` for a source that never ends.
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
        if !self.life.is_closed() {
            self.life.close(now + self.pto(config) * 3);
            self.stop();
            self.transmit(config, now, io);
        }
    }

    /// Takes a datagram of the connection that has arrived, with `ecn` in the datagram's IP header.
    pub fn receive(&mut self, config: &Config, now: Instant, d: &Datagram, ecn: Ecn, io: &mut impl Io) {
        if self.life.is_over() {
            return;
        }
        let blocked = self.path.is_blocked();
        self.path.came(d.len);
        for packet in &d.packets {
            self.on_packet(config, now, packet, ecn, io);
        }
        if blocked && !self.life.is_closed() {
            // RFC 9002, A.7: the timer was not set while nothing could be sent.
            self.set_loss_timer(config, now);
        }
        self.transmit(config, now, io);
        let ids = self.ids.take_due();
        if ids > 0 {
            // In quinn another task gives them out.
            self.space(Space::Data).new_ids += ids;
            self.transmit(config, now, io);
        }
    }

    /// Does what is due at `now`, if anything is.
    pub fn wake(&mut self, config: &Config, now: Instant, io: &mut impl Io) {
        if self.life.ends_closed(now) {
            return;
        }
        if self.life.ends_idle(now) {
            self.stop();
            return io.event(QuicEvent::IdleTimeout);
        }
        let due = |timer: Option<Instant>| timer.is_some_and(|at| at <= now);
        if due(self.loss_timer) {
            self.loss_timer = None;
            self.on_loss_timer(config, now, io);
        }
        self.flight.release(now);
        let acks = self.acks_mut();
        if due(acks.due_at(config.max_ack_delay)) {
            acks.on_timer();
        }
        self.transmit(config, now, io);
    }

    /// Time at which to call [`Endpoint::wake`]; [`Instant::FAR_FUTURE`] if only a datagram or the application can
    /// change anything.
    #[must_use]
    pub fn wake_at(&self, config: &Config) -> Instant {
        let acks = self.spaces[Space::Data as usize].acks.due_at(config.max_ack_delay);
        let acks = acks.filter(|_| !self.life.is_closed());
        let [idle, close] = self.life.timers();
        [self.loss_timer, self.flight.pacing_timer(), idle, close, acks]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(Instant::FAR_FUTURE)
    }

    /// The connection is closed or over: no other timer runs any more.
    const fn stop(&mut self) {
        self.loss_timer = None;
        self.flight.stop();
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
            self.flight.settle(sent);
        }
        self.space(space).discarded = true;
        self.set_loss_timer(config, now);
    }

    /// PTO of 1-RTT packets, without back-off (RFC 9002, section 6.2.1).
    fn pto(&self, config: &Config) -> Duration {
        self.rtt.pto_base() + config.max_ack_delay
    }
}

/// Packets that arrive.
impl Endpoint {
    /// A packet of a datagram.
    fn on_packet(
        &mut self,
        config: &Config,
        now: Instant,
        packet: &FramedPacket,
        ecn: Ecn,
        io: &mut impl Io,
    ) {
        if self.life.is_closed() {
            return self.life.came_when_closed(packet.close);
        }
        let space = packet.space;
        // Without keys it cannot be read; and before the handshake is complete it is not (RFC 9001, section 5.7).
        let readable = self.spaces[space as usize].open;
        if !readable || (space == Space::Data && self.life.shakes_hands()) {
            return;
        }
        if !self.space(space).acks.arrived(now, packet.number, ecn) {
            return;
        }
        self.life.came(self.idle_end(config, now));
        if self.side == Role::Server && space == Space::Handshake {
            // RFC 9001, section 4.9.1; RFC 9000, section 8.1.
            self.path.validate();
            if self.spaces[Space::Initial as usize].open {
                self.discard(config, now, Space::Initial);
            }
        }
        if let Some(ack) = &packet.ack {
            self.on_ack(config, now, space, ack, io);
        }
        let mut delivered = 0;
        for frame in &packet.frames {
            match *frame {
                Frame::Ping => {}
                Frame::ImmediateAck => self.space(space).acks.hurry(),
                Frame::NewConnectionId => self.retire(config),
                Frame::RetireConnectionId => self.ids.replace(),
                Frame::Crypto { offset, len } => self.on_crypto(config, now, space, offset, len, io),
                Frame::Stream { offset, len, .. } => delivered += self.receive.take(offset, len),
                Frame::HandshakeDone => {
                    self.life.confirm();
                    if self.spaces[Space::Handshake as usize].open {
                        self.discard(config, now, Space::Handshake);
                    }
                }
            }
        }
        self.after_packet(config, now, packet);
        if delivered > 0 {
            io.event(QuicEvent::Delivered { bytes: delivered });
        }
        if packet.close {
            self.life.drain(now + self.pto(config) * 3);
            self.stop();
            io.event(QuicEvent::PeerClosed);
        }
    }

    /// The peer has given another connection id.
    fn retire(&mut self, config: &Config) {
        if config.retires && self.side == Role::Server && self.ids.retire() {
            self.space(Space::Data).retired_ids += 1;
        }
    }

    /// Decides whether and when a packet that came is acknowledged.
    fn after_packet(&mut self, config: &Config, now: Instant, packet: &FramedPacket) {
        let space = packet.space;
        let eliciting = !packet.frames.is_empty();
        if space != Space::Data {
            if eliciting {
                // RFC 9000, section 13.2.1.
                self.space(space).acks.hurry();
            }
        } else if self.acks_mut().processed(now, packet.number, eliciting, config) {
            self.bundle = Some(now);
        }
    }

    /// Takes bytes of TLS. A message of TLS is known by its length, and has no content.
    fn on_crypto(
        &mut self,
        config: &Config,
        now: Instant,
        space: Space,
        offset: u64,
        len: u64,
        io: &mut impl Io,
    ) {
        let said = config.handshake;
        let s = self.space(space);
        let before = s.crypto_came.from_zero();
        s.crypto_came.insert(offset, offset + len);
        let came = s.crypto_came.from_zero();
        let whole = |bytes: u32| before < u64::from(bytes) && came >= u64::from(bytes);
        match (self.side, space) {
            (Role::Server, Space::Initial) if whole(said.client_hello) => {
                self.space(Space::Initial).say(said.server_hello);
                self.space(Space::Handshake).say(said.certificate);
                self.space(Space::Data).open = true;
                self.ids.issue(config.new_ids);
            }
            (Role::Client, Space::Initial) if whole(said.server_hello) => {
                self.space(Space::Handshake).open = true;
            }
            (Role::Client, Space::Handshake) if whole(said.certificate) => {
                self.space(Space::Handshake).say(said.finished);
                self.space(Space::Data).open = true;
                self.ids.issue(config.new_ids);
                self.life.establish();
                io.event(QuicEvent::Established);
            }
            (Role::Server, Space::Handshake) if whole(said.finished) => {
                let data = self.space(Space::Data);
                data.handshake_done = true;
                data.say(said.tickets);
                self.life.establish();
                self.life.confirm();
                self.discard(config, now, Space::Handshake);
                io.event(QuicEvent::Established);
            }
            _ => {}
        }
    }

    /// Time at which the idle timeout expires that is put off now: after three PTO at least (RFC 9000, section 10.1).
    fn idle_end(&self, config: &Config, now: Instant) -> Instant {
        now + config.idle.max(self.pto(config) * 3)
    }
}

impl Endpoint {
    /// Counts of the end since the end was made.
    #[must_use]
    pub const fn counters(&self) -> &EndpointCounters {
        &self.counters
    }
    /// Whether the handshake is complete, or was when the connection was closed.
    #[must_use]
    pub const fn is_established(&self) -> bool {
        self.spaces[Space::Data as usize].open && !self.life.shakes_hands()
    }
    /// Tells whether the end sends and takes nothing any more.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.life.is_over()
    }
    /// Whether all that was written has been acknowledged.
    #[must_use]
    pub fn all_acked(&self) -> bool {
        self.send.all_acked()
    }
    /// The congestion window, bytes.
    #[must_use]
    pub const fn cwnd(&self) -> u64 {
        self.flight.cwnd()
    }
    /// The slow start threshold, bytes; `u64::MAX` before the first congestion event.
    #[must_use]
    pub const fn ssthresh(&self) -> u64 {
        self.flight.ssthresh()
    }
    /// Bytes in flight.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.flight.bytes()
    }
    /// The smoothed round-trip time, or what stands for it before the first sample.
    #[must_use]
    pub fn srtt(&self) -> Duration {
        self.rtt.smoothed()
    }
    /// UDP payload of a full datagram, bytes.
    #[must_use]
    pub const fn datagram(&self) -> u16 {
        self.path.datagram()
    }
}
