//! A packet number space: what was sent in it and is not settled, and what is to be sent.

use std::collections::BTreeMap;

use narrows_units::Instant;

use crate::acks::Acks;
use crate::packet::{Frame, crypto_len};
use crate::ranges::RangeSet;

/// A packet that is neither acknowledged nor lost.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) at: Instant,
    /// Bytes in flight: none if it is not congestion controlled (RFC 9002, section 2).
    pub(crate) size: u32,
    pub(crate) eliciting: bool,
    /// The largest packet number that the packet's ACK frame told of.
    pub(crate) largest_acked: Option<u64>,
    pub(crate) frames: Vec<Frame>,
}

/// Packet number space of one end.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacketSpace {
    /// Whether there are keys for the packet number space.
    pub(crate) open: bool,
    /// Whether there were keys, which are discarded (RFC 9001, section 4.9).
    pub(crate) discarded: bool,
    pub(crate) next: u64,
    pub(crate) sent: BTreeMap<u64, Sent>,
    pub(crate) largest_acked: Option<u64>,
    pub(crate) largest_acked_at: Instant,
    pub(crate) last_eliciting: Option<Instant>,
    /// Time at which the next packet is lost by time.
    pub(crate) loss_time: Option<Instant>,
    /// Probes to send.
    pub(crate) probes: u32,
    pub(crate) acks: Acks,
    /// CE count of the peer's last ACK.
    pub(crate) ce: u64,
    /// Packets that were believed lost.
    pub(crate) lost: RangeSet,
    crypto: RangeSet,
    pub(crate) crypto_came: RangeSet,
    pub(crate) ping: bool,
    pub(crate) immediate_ack: bool,
    pub(crate) handshake_done: bool,
    pub(crate) new_ids: u8,
    pub(crate) retired_ids: u8,
}

impl PacketSpace {
    /// Queues `bytes` of TLS in the space, and opens the space.
    pub(crate) fn say(&mut self, bytes: u32) {
        self.open = true;
        self.crypto.insert(0, bytes.into());
    }

    /// Whether something other than stream data and ACKs is to be sent.
    pub(crate) const fn has_control(&self) -> bool {
        !self.crypto.is_empty()
            || self.ping
            || self.immediate_ack
            || self.handshake_done
            || self.new_ids > 0
            || self.retired_ids > 0
    }

    /// Takes the frames of one byte that are to be sent.
    pub(crate) fn due_flags(&mut self) -> impl Iterator<Item = Frame> + use<> {
        let flags = [
            (std::mem::take(&mut self.handshake_done), Frame::HandshakeDone),
            (std::mem::take(&mut self.ping), Frame::Ping),
            (std::mem::take(&mut self.immediate_ack), Frame::ImmediateAck),
        ];
        flags.into_iter().filter_map(|(due, frame)| due.then_some(frame))
    }

    /// The next CRYPTO frame for `room` bytes, and the number of bytes that the frame takes.
    pub(crate) fn next_crypto(&mut self, room: u32) -> Option<(Frame, u32)> {
        const BOUND: u32 = 17;
        if room <= BOUND {
            return None;
        }
        let (start, end) = self.crypto.pop_first()?;
        let most = u64::from(room - crypto_len(start, 0) - 1);
        let len = (end - start).min(most);
        self.crypto.insert(start + len, end);
        Some((Frame::Crypto { offset: start, len }, crypto_len(start, len)))
    }

    /// A frame that is not of the stream is to be sent again.
    pub(crate) fn again(&mut self, frame: Frame) {
        match frame {
            Frame::Crypto { offset, len } => drop(self.crypto.insert(offset, offset + len)),
            Frame::NewConnectionId => self.new_ids += 1,
            Frame::RetireConnectionId => self.retired_ids += 1,
            Frame::HandshakeDone => self.handshake_done = true,
            Frame::Ping | Frame::ImmediateAck | Frame::Stream { .. } => {}
        }
    }

    /// Whether anything congestion controlled is in flight.
    pub(crate) fn in_flight(&self) -> bool {
        self.sent.values().any(|s| s.size > 0)
    }
}
