//! What comes.

use narrows_units::{Ecn, Instant};

use super::{Endpoint, Role, State};
use crate::packet::{Frame, FramedPacket, Space};
use crate::{Config, Io, QuicEvent};

impl Endpoint {
    /// A packet of a datagram.
    pub(super) fn on_packet(
        &mut self,
        config: &Config,
        now: Instant,
        packet: &FramedPacket,
        ecn: Ecn,
        io: &mut impl Io,
    ) {
        if self.is_closed() {
            return self.on_packet_when_closed(packet);
        }
        let space = packet.space;
        // Without keys it cannot be read; and before the handshake is complete it is not (RFC 9001, section 5.7).
        let readable = self.spaces[space as usize].open;
        if !readable || (space == Space::Data && self.state == State::Handshake) {
            return;
        }
        if !self.space(space).acks.arrived(now, packet.number, ecn) {
            return;
        }
        self.reset_idle(config, now);
        self.idle_reset = true;
        if self.side == Role::Server && space == Space::Handshake {
            // RFC 9001, section 4.9.1; RFC 9000, section 8.1.
            self.validated = true;
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
                Frame::RetireConnectionId => self.ids_due = self.ids_due.saturating_add(1),
                Frame::Crypto { offset, len } => self.on_crypto(config, now, space, offset, len, io),
                Frame::Stream { offset, len, .. } => delivered += self.receive.take(offset, len),
                Frame::HandshakeDone => {
                    self.confirmed = true;
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
            self.stop(config, now, State::Draining);
            io.event(QuicEvent::PeerClosed);
        }
    }

    /// The peer has given another connection id.
    fn retire(&mut self, config: &Config) {
        if config.retires && self.side == Role::Server && !std::mem::replace(&mut self.retired, true) {
            self.space(Space::Data).retired_ids += 1;
        }
    }

    /// Whether and when it is acknowledged.
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

    /// RFC 9000, section 10.2.
    fn on_packet_when_closed(&mut self, packet: &FramedPacket) {
        match self.state {
            State::Closing if packet.close => {
                (self.state, self.close_due) = (State::Draining, false);
            }
            State::Closing => self.close_due = true,
            _ => {}
        }
    }

    /// TLS says something. What it says by itself stands for what it means.
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
                self.ids_due = config.new_ids;
            }
            (Role::Client, Space::Initial) if whole(said.server_hello) => {
                self.space(Space::Handshake).open = true;
            }
            (Role::Client, Space::Handshake) if whole(said.certificate) => {
                self.space(Space::Handshake).say(said.finished);
                self.space(Space::Data).open = true;
                self.ids_due = config.new_ids;
                self.state = State::Established;
                io.event(QuicEvent::Established);
            }
            (Role::Server, Space::Handshake) if whole(said.finished) => {
                let data = self.space(Space::Data);
                data.handshake_done = true;
                data.say(said.tickets);
                (self.state, self.confirmed) = (State::Established, true);
                self.discard(config, now, Space::Handshake);
                io.event(QuicEvent::Established);
            }
            _ => {}
        }
    }

    /// Puts the idle timeout off: at least three PTO (RFC 9000, section 10.1).
    pub(super) fn reset_idle(&mut self, config: &Config, now: Instant) {
        self.idle_timer = Some(now + config.idle.max(self.pto(config) * 3));
    }
}
