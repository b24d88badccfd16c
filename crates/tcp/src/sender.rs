//! The sending half of a connection.
//!
//! Stream offsets count from the SYN, which is offset 0; data begins at 1, and the FIN follows the last byte. Windows
//! count segments, as in ns-2 and Linux, where RFC 5681 counts bytes; with full segments there is no difference.
//!
//! `ack.rs` takes acknowledgments, `recovery.rs` repairs losses, `rearm.rs` says for how long timers run, `timeout.rs`
//! what they do when they expire and `frto.rs` whether they should have, `rack.rs` detects losses by time, `output.rs`
//! decides what may leave and `emit.rs` builds the segments. What they share are small structs, each in a file of its
//! own.

mod ack;
mod context;
mod ecn;
mod emit;
mod extras;
mod frto;
mod loss;
mod output;
mod pacer;
mod peer;
mod prr;
mod rack;
mod ranges;
mod rearm;
mod recovery;
mod rto;
mod scoreboard;
mod sws;
mod timed;
mod timeout;
mod timers;

use narrows_units::{Duration, Instant, SeqNum};
use narrows_wire::{Flags, TcpHeader};

use crate::cc::{CcEstimates, CongestionControl, Window};
use crate::startup::{FirstRtt, Startup};
use crate::{Config, Recovery};
pub(crate) use context::Context;
use extras::Extras;
use loss::{LossRecovery, RecoveryPhase};
use peer::PeerState;
use rack::Rack;
use rto::Rto;
use scoreboard::Scoreboard;
use timed::TimedSegment;
pub(crate) use timers::Timer;

/// An end that has nothing to send touches only the fields before the window.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Sender {
    retransmit_at: Instant,
    /// The offset after the application's last byte.
    end: u64,
    extras: Option<Box<Extras>>,
    isn: SeqNum,
    /// The application has closed, so a FIN follows `end`.
    closing: bool,
    /// The congestion window was what stopped the last output.
    cwnd_limited: bool,
    /// Whether losses are found by time.
    has_rack: bool,
    peer: PeerState,
    board: Scoreboard,
    window: Window,
    rto: Rto,
    /// When the last segment with data left.
    last_sent: Instant,
    loss: LossRecovery,
    timed: TimedSegment,
}

/// Bytes of a sender before the window.
#[cfg(test)]
pub(crate) const HEAD: usize = core::mem::offset_of!(Sender, window);

impl Sender {
    pub(crate) fn new(config: &Config, isn: SeqNum) -> Self {
        let extras = Extras::new(config, isn);
        let cwnd = extras::initial_window(&extras, config);
        let mut board = Scoreboard::default();
        board.start(0);
        Self {
            end: 1,
            retransmit_at: Instant::FAR_FUTURE,
            extras,
            isn,
            closing: false,
            cwnd_limited: false,
            has_rack: config.rack_tlp && config.recovery == Recovery::Sack,
            peer: PeerState::new(config),
            board,
            window: Window { cwnd, ssthresh: config.initial_ssthresh },
            rto: Rto::new(),
            last_sent: Instant::ZERO,
            loss: LossRecovery::default(),
            timed: TimedSegment::default(),
        }
    }

    /// The peer takes our SYN without acknowledging it.
    pub(crate) fn skip_own_syn(&mut self, config: &Config) {
        self.board.start(1);
        let known = config.start.rtt > Duration::ZERO;
        let first = if known { FirstRtt::Is(config.start.rtt) } else { FirstRtt::Unknown };
        self.tell_established(first, config);
    }

    /// The start-up hears that the connection exists.
    fn tell_established(&mut self, first: FirstRtt, config: &Config) {
        if let Some(extras) = &mut self.extras {
            extras.startup.on_established(&mut self.window, first, config);
        }
    }

    /// The start-up hears of a loss, and pacing begins anew.
    fn tell_loss(&mut self) {
        if let Some(extras) = &mut self.extras {
            extras.startup.on_loss();
            extras.pacer.reset();
        }
    }

    /// The connection exists already: our SYN counts as acknowledged, and the peer has the same settings.
    pub(crate) fn skip_handshake(&mut self, config: &Config) {
        self.skip_own_syn(config);
        self.peer.assume(config);
        if let Some(extras) = &mut self.extras {
            extras.small.note_window(self.peer.window);
            extras.ecn.assume(config);
        }
    }

    /// Takes over what the peer's SYN says.
    pub(crate) fn on_peer_syn(&mut self, config: &Config, syn: &TcpHeader) {
        self.peer.on_syn(config, syn);
        if let Some(extras) = &mut self.extras {
            // The window of a SYN that asks is replaced before anything is sent.
            if syn.flags.has(Flags::ACK) {
                extras.small.note_window(self.peer.window);
            }
            extras.ecn.on_syn(config, syn);
        }
    }

    /// The application has `bytes` more to send.
    pub(crate) const fn write(&mut self, bytes: u64) {
        self.end = self.end.saturating_add(bytes);
    }

    pub(crate) const fn close(&mut self) {
        self.closing = true;
    }

    pub(crate) const fn is_closing(&self) -> bool {
        self.closing
    }
    /// Whether our SYN was acknowledged.
    pub(crate) const fn is_synchronized(&self) -> bool {
        self.board.una() > 0
    }
    /// Whether our FIN was acknowledged.
    pub(crate) fn fin_acknowledged(&self) -> bool {
        self.fin_sent() && self.board.is_empty()
    }
    /// Only a FIN lies beyond the last byte.
    const fn fin_sent(&self) -> bool {
        self.board.max() > self.end
    }
    pub(crate) const fn window(&self) -> Window {
        self.window
    }
    pub(crate) fn cc_estimates(&self) -> Option<CcEstimates> {
        self.extras.as_ref()?.cc.estimates()
    }
    pub(crate) fn srtt(&self, config: &Config) -> Duration {
        self.rto.srtt(&config.rto)
    }
    pub(crate) const fn backoff(&self) -> u32 {
        self.rto.backoff()
    }
    /// Bytes sent and not acknowledged; a SYN or FIN counts as one.
    pub(crate) const fn unacked(&self) -> u64 {
        self.board.bytes()
    }
    /// Bytes written and never sent.
    pub(crate) const fn unsent(&self) -> u64 {
        self.end.saturating_sub(self.board.max())
    }
    /// Bytes acknowledged.
    pub(crate) fn acked(&self) -> u64 {
        self.board.una().min(self.end).saturating_sub(1)
    }
    /// Segments in the network, as far as is known.
    pub(crate) fn in_flight(&self, recovery: Recovery) -> u32 {
        if recovery == Recovery::Sack { self.board.pipe() } else { self.board.outstanding() }
    }
    fn rack(&self) -> Option<&Rack> {
        self.extras.as_ref()?.rack.as_deref()
    }
    fn rack_mut(&mut self) -> Option<&mut Rack> {
        self.extras.as_mut()?.rack.as_deref_mut()
    }
    pub(crate) const fn isn(&self) -> SeqNum {
        self.isn
    }

    /// The sequence number of a stream offset.
    fn seq(&self, offset: u64) -> SeqNum {
        self.isn + offset as u32
    }

    /// The stream offset of an acknowledgment number: of all that fit, the one nearest to snd_una. `None` if it would
    /// lie before the SYN.
    fn offset_of(&self, seq: SeqNum) -> Option<u64> {
        let una = self.board.una();
        una.checked_add_signed(i64::from(seq.distance_from(self.seq(una))))
    }

    /// The same of one that does not lie below snd_una.
    fn offset_ahead(&self, seq: SeqNum) -> Option<u64> {
        let una = self.board.una();
        u32::try_from(seq.distance_from(self.seq(una))).ok().map(|ahead| una + u64::from(ahead))
    }

    /// Whether an acknowledgment number acknowledges nothing that was never sent.
    pub(crate) fn is_acceptable(&self, ack: SeqNum) -> bool {
        self.offset_of(ack).is_some_and(|ack| ack <= self.board.max())
    }
}
