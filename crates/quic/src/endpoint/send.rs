//! Sends packets: they are filled, coalesced and padded here.

use narrows_units::{Ecn, Instant};

use super::{Endpoint, Role};
use crate::packet::{
    CLOSE_LEN, Datagram, Frame, FramedPacket, RETIRE_LEN, Space, TAG, header_len, new_id_len, number_len,
};
use crate::rtt::GRANULARITY;
use crate::space::Sent;
use crate::{Config, Io};

/// The least Initial (RFC 9000, section 14.1); and what a probe may be at most, in case the path has changed.
const LEAST_DATAGRAM: u32 = 1200;
/// A packet is not coalesced where less room is left.
const LEAST_SPACE: u32 = 103;
/// A NEW_CONNECTION_ID is not begun where less room is left.
const NEW_ID_ROOM: u32 = 54;
/// Least payload behind a packet number of `number_len` bytes: header protection samples four bytes of both together
/// besides the tag (RFC 9001, section 5.4.2), and a packet that a stateless reset may answer has one more (RFC 9000,
/// section 10.3.3).
const fn least_payload(space: Space, number_len: u32) -> u32 {
    4 + (space as u32 / Space::Data as u32) - number_len
}

/// A datagram that is being filled.
struct Draft {
    datagram: Datagram,
    /// Most UDP payload.
    limit: u32,
    /// Whether the datagram is padded to [`LEAST_DATAGRAM`].
    pad: bool,
    sent: Vec<(Space, u64, Sent)>,
}

impl Draft {
    /// Pads the last packet.
    fn pad_to(&mut self, len: u32) {
        let missing = len.saturating_sub(self.datagram.len);
        if missing > 0
            && let (Some(packet), Some((_, _, sent))) =
                (self.datagram.packets.last_mut(), self.sent.last_mut())
        {
            packet.len += missing;
            self.datagram.len += missing;
            // Padding is in flight (RFC 9002, section 2).
            sent.size = packet.len;
        }
    }
}

impl Endpoint {
    /// Sends what may be sent.
    pub(super) fn transmit(&mut self, config: &Config, now: Instant, io: &mut impl Io) {
        while let Some(datagram) = self.next_datagram(config, now) {
            self.path.left(datagram.len);
            self.counters.sent += 1;
            io.send(datagram);
        }
    }

    fn next_datagram(&mut self, config: &Config, now: Instant) -> Option<Datagram> {
        if self.life.is_closed() {
            self.flight.note_limited(true);
            return if self.life.take_close() { self.closing_datagram(config, now) } else { None };
        }
        for space in Space::ALL {
            self.queue_probe(config, space);
        }
        let mut draft: Option<Draft> = None;
        let mut blocked = false;
        for space in Space::ALL {
            while self.has_something(space) {
                if let Some(d) = &draft
                    && d.limit - d.datagram.len < LEAST_SPACE
                {
                    break;
                }
                let asks = self.asks(space);
                if draft.is_none() {
                    if self.path.is_blocked() {
                        break;
                    }
                    let probes = self.spaces[space as usize].probes > 0;
                    if asks && !probes && self.is_held(config, now) && !self.frees_window(space) {
                        blocked = true;
                        break;
                    }
                    draft = Some(self.draft(config, space));
                }
                let Some(draft) = &mut draft else { break };
                if space == Space::Handshake
                    && self.side == Role::Client
                    && self.spaces[Space::Initial as usize].open
                {
                    // RFC 9001, section 4.9.1.
                    draft.sent.retain(|(space, ..)| *space != Space::Initial);
                    self.discard(config, now, Space::Initial);
                }
                self.fill(config, now, space, draft);
                if space == Space::Data {
                    break;
                }
            }
        }
        self.flight.note_limited(draft.is_none() && !blocked);
        if draft.is_none() && self.life.is_established() {
            draft = self.mtu_probe(config, now);
        }
        let mut draft = draft?;
        if draft.pad {
            // Stacks pad to the size that they begin with.
            draft.pad_to(LEAST_DATAGRAM.max(config.datagram.into()));
        }
        self.track(config, now, draft.sent);
        Some(draft.datagram)
    }

    /// Takes note of what leaves.
    fn track(&mut self, config: &Config, now: Instant, packets: Vec<(Space, u64, Sent)>) {
        for (space, number, sent) in packets {
            self.flight.left(sent.size, sent.eliciting);
            let (size, eliciting) = (sent.size, sent.eliciting);
            let s = self.space(space);
            if eliciting {
                s.last_eliciting = Some(now);
            }
            s.sent.insert(number, sent);
            if size > 0 {
                if eliciting {
                    self.life.asked(self.idle_end(config, now));
                }
                self.set_loss_timer(config, now);
            }
        }
    }

    fn has_something(&self, space: Space) -> bool {
        let s = &self.spaces[space as usize];
        s.open && (s.acks.is_due() || self.asks(space))
    }
    /// Whether what is to be sent asks for an ACK.
    fn asks(&self, space: Space) -> bool {
        let s = &self.spaces[space as usize];
        s.has_control() || (space == Space::Data && self.may_send_data() && self.send.is_pending())
    }
    /// Servers wait for the client's Finished, as applications do that answer requests.
    fn may_send_data(&self) -> bool {
        self.life.is_established()
    }

    /// Whether what the window is full of cannot be acknowledged before this is there: the peer reads no 1-RTT packet
    /// without the client's Finished (RFC 9001, section 5.7). Nor is there a probe timeout for them yet (RFC 9002,
    /// section 6.2.1), so a lost Finished that waited for the window would wait for ever.
    fn frees_window(&self, space: Space) -> bool {
        space == Space::Handshake && self.side == Role::Client && self.life.is_established()
    }

    /// Whether window or pacing keep a full datagram back.
    fn is_held(&mut self, config: &Config, now: Instant) -> bool {
        self.flight.holds(config, now, self.path.datagram(), self.rtt.smoothed())
    }

    /// An empty datagram, of which the first packet will be of `space`.
    fn draft(&mut self, config: &Config, space: Space) -> Draft {
        let mut limit = u32::from(self.path.datagram());
        let probes = &mut self.space(space).probes;
        if *probes > 0 {
            *probes -= 1;
            limit = limit.min(LEAST_DATAGRAM.max(config.datagram.into()));
        }
        let ecn = if config.ecn { Ecn::Ect0 } else { Ecn::NotEct };
        let datagram = Datagram { packets: Vec::new(), len: 0, ecn };
        Draft { datagram, limit, pad: false, sent: Vec::new() }
    }

    /// Puts a packet into a datagram.
    fn fill(&mut self, config: &Config, now: Instant, space: Space, draft: &mut Draft) {
        let data = space == Space::Data && self.may_send_data();
        let s = &mut self.spaces[space as usize];
        let number = s.next;
        s.next += 1;
        let number_len = number_len(number, s.largest_acked.unwrap_or(0));
        let around = header_len(space, config.peer_id.into(), config.id.into(), number_len) + TAG;
        let room = draft.limit - draft.datagram.len - around;
        let (mut left, mut frames, mut ack) = (room, Vec::new(), None);
        s.acks.going_anyway();
        frames.extend(s.due_flags());
        left -= frames.len() as u32;
        let tell = s.acks.frame(now);
        let told = tell.len();
        if s.acks.is_due() && told <= left {
            ack = Some(tell.clone());
            left -= told;
        }
        while let Some((frame, len)) = s.next_crypto(left) {
            frames.push(frame);
            left -= len;
        }
        while s.new_ids > 0 && left > NEW_ID_ROOM {
            s.new_ids -= 1;
            frames.push(Frame::NewConnectionId);
            left -= new_id_len(config.id.into());
        }
        while s.retired_ids > 0 && left >= RETIRE_LEN {
            s.retired_ids -= 1;
            frames.push(Frame::RetireConnectionId);
            left -= RETIRE_LEN;
        }
        let (mut streams, mut again) = (false, false);
        while data && let Some((frame, len, old)) = self.send.next(left) {
            frames.push(frame);
            left -= len;
            (streams, again) = (true, again || old);
        }
        let anyway = left < room && ack.is_none() && self.bundle.is_some_and(|at| at <= now);
        if anyway && s.acks.any() && told <= left {
            ack = Some(tell);
            left -= told;
        }
        let largest_acked = ack.as_ref().and_then(|_| s.acks.largest());
        if ack.is_some() {
            s.acks.sent();
            // Another goes along when this one can have been acknowledged.
            self.bundle = Some(now + self.rtt.smoothed() + config.max_ack_delay + GRANULARITY);
        }
        self.counters.data_sent += u64::from(streams);
        self.counters.retransmitted += u32::from(again);
        let payload = (room - left).max(least_payload(space, number_len));
        let len = around + payload;
        let eliciting = !frames.is_empty();
        let size = if eliciting || payload > room - left { len } else { 0 };
        draft.pad |= space == Space::Initial && (self.side == Role::Client || eliciting);
        draft.datagram.len += len;
        let sent = Sent { at: now, size, eliciting, largest_acked, frames: frames.clone() };
        draft.sent.push((space, number, sent));
        draft.datagram.packets.push(FramedPacket { space, number, len, ack, frames, close: false });
    }

    /// A probe for a larger MTU, when there is nothing else to send.
    fn mtu_probe(&mut self, config: &Config, now: Instant) -> Option<Draft> {
        let number = self.spaces[Space::Data as usize].next;
        let size = self.path.probe(now, number, config.mtu_search.as_ref()?)?;
        self.counters.mtu_probes += 1;
        let s = self.space(Space::Data);
        s.next += 1;
        let ecn = if config.ecn { Ecn::Ect0 } else { Ecn::NotEct };
        let mut frames = vec![Frame::Ping];
        frames.extend(config.immediate_ack.then_some(Frame::ImmediateAck));
        let len = u32::from(size);
        let sent = Sent { at: now, size: len, eliciting: true, largest_acked: None, frames: frames.clone() };
        let packet = FramedPacket { space: Space::Data, number, len, ack: None, frames, close: false };
        Some(Draft {
            datagram: Datagram { packets: vec![packet], len, ecn },
            limit: len,
            pad: false,
            sent: vec![(Space::Data, number, sent)],
        })
    }

    /// A CONNECTION_CLOSE in every space that has keys (RFC 9000, section 10.2.3).
    fn closing_datagram(&mut self, config: &Config, now: Instant) -> Option<Datagram> {
        if self.path.is_blocked() {
            return None;
        }
        let ecn = if config.ecn { Ecn::Ect0 } else { Ecn::NotEct };
        let mut datagram = Datagram { packets: Vec::new(), len: 0, ecn };
        let mut pad = false;
        for space in Space::ALL {
            let s = &mut self.spaces[space as usize];
            if !s.open {
                continue;
            }
            let number = s.next;
            s.next += 1;
            let bytes = number_len(number, s.largest_acked.unwrap_or(0));
            let around = header_len(space, config.peer_id.into(), config.id.into(), bytes) + TAG;
            let ack = s.acks.any().then(|| s.acks.frame(now));
            // The transport's, which names a frame type, answers one, and stands for the application's before 1-RTT.
            let close = CLOSE_LEN + u32::from(self.life.is_draining() || space != Space::Data);
            let payload = (close + ack.as_ref().map_or(0, crate::Ack::len)).max(least_payload(space, bytes));
            let len = around + payload;
            pad |= space == Space::Initial && self.side == Role::Client;
            datagram.len += len;
            datagram.packets.push(FramedPacket { space, number, len, ack, frames: Vec::new(), close: true });
        }
        if pad && let Some(last) = datagram.packets.last_mut() {
            let missing = LEAST_DATAGRAM.saturating_sub(datagram.len);
            last.len += missing;
            datagram.len += missing;
        }
        Some(datagram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Preset, QuicEvent};
    use narrows_units::Duration;

    #[derive(Default)]
    struct Sent(Vec<Datagram>);
    impl Io for Sent {
        fn send(&mut self, datagram: Datagram) {
            self.0.push(datagram);
        }
        fn event(&mut self, _: QuicEvent) {}
    }

    #[test]
    fn a_lost_finished_does_not_wait_for_the_window_it_would_free() {
        let config = Config::preset(Preset::Rfc);
        let mut e = Endpoint::new(&config, Role::Client);
        e.life.establish();
        e.space(Space::Data).open = true;
        e.flight.left(e.flight.cwnd() as u32, false);
        let (at, mut io) = (Instant::ZERO + Duration::from_secs(1), Sent::default());
        e.write(&config, at, 5_000, &mut io);
        assert!(io.0.is_empty(), "the window is full");
        e.space(Space::Handshake).say(52);
        e.transmit(&config, at, &mut io);
        let [datagram] = &io.0[..] else { panic!("{:?}", io.0) };
        assert_eq!(datagram.packets[0].frames, [Frame::Crypto { offset: 0, len: 52 }]);
    }
}
