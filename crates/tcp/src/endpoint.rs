//! One end of a TCP connection: handshake, sender and receiver behind one door.

use narrows_units::{Instant, SeqNum};

use crate::{Config, Io, Segment};

/// What an end host counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Segments with data sent, retransmissions included.
    pub data_sent: u64,
    /// Retransmitted segments.
    pub retransmitted: u32,
    /// Expiries of the retransmission timer for data.
    pub timeouts: u32,
    /// Entries into fast recovery.
    pub fast_retransmits: u32,
    /// SYN or SYN-ACK sent again.
    pub syn_retries: u32,
    /// Largest back-off factor reached.
    pub max_backoff: u32,
}

/// One end of a connection. Every call takes the settings, because thousands of ends share them.
#[derive(Debug)]
pub struct Endpoint {
    isn: SeqNum,
    counters: Counters,
}

impl Endpoint {
    /// An end that has done nothing yet; `isn` is its first sequence number.
    #[must_use]
    pub fn new(config: &Config, isn: SeqNum) -> Self {
        let _ = config;
        Self { isn, counters: Counters::default() }
    }
    /// Opens actively: sends a SYN, or with [`crate::Handshake::None`] is established at once.
    pub fn open(&mut self, config: &Config, now: Instant, io: &mut impl Io) {
        let _ = (config, now, io, self.isn);
    }
    /// Gives the application's next `bytes` to the stream; `u64::MAX` for a source that never ends.
    pub fn write(&mut self, config: &Config, now: Instant, bytes: u64, io: &mut impl Io) {
        let _ = (config, now, bytes, io);
    }
    /// Says that no more will be written: a FIN follows the last byte.
    pub fn close(&mut self, config: &Config, now: Instant, io: &mut impl Io) {
        let _ = (config, now, io);
    }
    /// A segment of this connection arrived. An end that has neither opened nor seen a SYN takes a SYN as a passive open.
    pub fn receive(&mut self, config: &Config, now: Instant, segment: &Segment, io: &mut impl Io) {
        let _ = (config, now, segment, io);
    }
    /// Does what is due at `now`; harmless if nothing is.
    pub fn wake(&mut self, config: &Config, now: Instant, io: &mut impl Io) {
        let _ = (config, now, io);
    }
    /// When [`Endpoint::wake`] is worth calling; `None` if only a segment or the application can change anything.
    #[must_use]
    pub const fn next_wake(&self) -> Option<Instant> {
        None
    }
    /// Counters.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }
}
