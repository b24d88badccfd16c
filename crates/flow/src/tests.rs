//! Sequences worked by hand, and what they need: a server that sends to a user, seen from between them.

mod counts;
mod epochs;
mod forged;
mod kinds;
mod path;
mod phases;
mod pools;
mod table;

use narrows_units::{Bytes, Duration, Instant, SeqNum};
use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader};

use crate::{Flow, FlowId, Observation, PacketKind, Phase, Tracker, TrackerConfig};

pub(crate) const ACK: Flags = Flags::ACK;
pub(crate) const SYN: Flags = Flags::SYN;
pub(crate) const SYN_ACK: Flags = Flags(0x12);
pub(crate) const FIN_ACK: Flags = Flags(0x11);
pub(crate) const RST: Flags = Flags::RST;

pub(crate) fn ms(n: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(n)
}
pub(crate) fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Key of a flow from a server's port 80 to user `n`.
pub(crate) fn download(n: u32) -> FlowKey {
    let [a, b, c, d] = n.to_be_bytes();
    FlowKey::new([192, 0, 2, 1].into(), [10 + a, b, c, d].into(), 80, 40_000, Proto::TCP)
}

pub(crate) fn header(key: FlowKey, tcp: TcpHeader) -> Header {
    Header { key, len: Bytes(u64::from(tcp.payload) + 40), tcp: Some(tcp), ..Header::default() }
}

/// The number of a user's SYN.
pub(crate) const CALL: u32 = 5000;

/// A segment that acknowledges the SYN [`CALL`] and nothing beyond.
pub(crate) fn segment(key: FlowKey, flags: Flags, seq: u32, payload: u32) -> Header {
    let (seq, ack) = (SeqNum(seq), SeqNum(CALL + 1));
    header(key, TcpHeader { seq, ack, payload, flags, window: 1000, ..TcpHeader::default() })
}

pub(crate) fn udp(n: u32, len: u64) -> Header {
    let mut key = download(n);
    key.proto = Proto::UDP;
    Header { key, len: Bytes(len), ..Header::default() }
}

/// One flow through a tracker; times in milliseconds.
pub(crate) struct Scene {
    pub(crate) tracker: Tracker,
    pub(crate) key: FlowKey,
    pub(crate) now: u64,
}

impl Scene {
    /// Epochs of 100 ms until something else is measured.
    pub(crate) fn new() -> Self {
        Self::with(TrackerConfig { initial_epoch: millis(100), ..TrackerConfig::default() })
    }
    /// The first hundred bytes have passed.
    pub(crate) fn begun() -> Self {
        let mut s = Self::new();
        s.passes(0, 0, 100);
        s
    }
    pub(crate) fn with(config: TrackerConfig) -> Self {
        Self { tracker: Tracker::new(config, 7), key: download(1), now: 0 }
    }
    pub(crate) fn id(&self) -> FlowId {
        self.tracker.lookup(&self.key).unwrap()
    }
    /// The record at the present time.
    pub(crate) fn flow(&mut self) -> &Flow {
        let (id, now) = (self.id(), ms(self.now));
        self.tracker.flow_at(now, id)
    }
    pub(crate) fn phase(&mut self) -> Phase {
        self.flow().phase().unwrap()
    }
    pub(crate) fn phase_at(&mut self, at: u64) -> Phase {
        self.now = at;
        self.phase()
    }
    /// A segment arrives, and stays here.
    pub(crate) fn arrives(&mut self, at: u64, flags: Flags, seq: u32, payload: u32) -> Observation {
        self.now = at;
        self.tracker.forward(ms(at), &segment(self.key, flags, seq, payload))
    }
    /// Data arrives and leaves at once.
    pub(crate) fn passes(&mut self, at: u64, seq: u32, payload: u32) -> PacketKind {
        self.goes(at, ACK, seq, payload)
    }
    /// Any segment arrives and leaves at once.
    pub(crate) fn goes(&mut self, at: u64, flags: Flags, seq: u32, payload: u32) -> PacketKind {
        let seen = self.arrives(at, flags, seq, payload);
        self.leaves(at, flags, seq, payload);
        seen.kind
    }
    pub(crate) fn leaves(&mut self, at: u64, flags: Flags, seq: u32, payload: u32) {
        self.now = at;
        let id = self.id();
        self.tracker.departed(ms(at), id, &segment(self.key, flags, seq, payload));
    }
    /// Data arrives and is dropped.
    pub(crate) fn falls(&mut self, at: u64, seq: u32, payload: u32) -> PacketKind {
        let kind = self.arrives(at, ACK, seq, payload).kind;
        self.dropped(at, seq, payload);
        kind
    }
    pub(crate) fn dropped(&mut self, at: u64, seq: u32, payload: u32) {
        self.now = at;
        let id = self.id();
        self.tracker.dropped(ms(at), id, &segment(self.key, ACK, seq, payload));
    }
    /// `count` segments of 100 bytes pass, the first with `seq`.
    pub(crate) fn burst(&mut self, at: u64, seq: u32, count: u32) {
        for i in 0..count {
            self.passes(at, seq.wrapping_add(i * 100), 100);
        }
    }
    /// The user answers.
    pub(crate) fn answers(&mut self, at: u64, tcp: TcpHeader) -> Option<FlowId> {
        self.now = at;
        self.tracker.reverse(ms(at), &header(self.key.reverse(), tcp))
    }
    pub(crate) fn acks(&mut self, at: u64, ack: u32) {
        self.acks_window(at, ack, 1000);
    }
    pub(crate) fn acks_window(&mut self, at: u64, ack: u32, window: u16) {
        self.answers(at, TcpHeader { ack: SeqNum(ack), flags: ACK, window, ..TcpHeader::default() });
    }
}
