//! Explicit congestion notification at the sender (RFC 3168): agreed on in the handshake, answered once per window of
//! data.

use narrows_units::SeqNum;
use narrows_wire::{Flags, TcpHeader};

use crate::Config;

/// A sender's part in congestion notification.
#[derive(Clone, Copy, Debug)]
pub(super) struct EcnResponse {
    /// Echoes in acknowledgments up to here belong to a congestion that was answered already.
    answered_until: SeqNum,
    /// Whether both ends use ECN.
    on: bool,
    /// Whether the next new segment says that the window was reduced.
    cwr: bool,
}

impl EcnResponse {
    pub(super) const fn new(isn: SeqNum) -> Self {
        Self { answered_until: isn, on: false, cwr: false }
    }

    /// Takes the peer's settings to be ours, as there is no handshake.
    pub(super) const fn assume(&mut self, config: &Config) {
        self.on = config.ecn;
    }

    /// The peer's SYN asks with ECE and CWR, its SYN-ACK agrees with ECE (section 6.1.1).
    pub(super) const fn on_syn(&mut self, config: &Config, syn: &TcpHeader) {
        let flags = syn.flags;
        self.on = config.ecn && flags.has(Flags::ECE) && flags.has(Flags::ACK) != flags.has(Flags::CWR);
    }

    pub(super) const fn is_on(&self) -> bool {
        self.on
    }

    /// Whether a segment echoes a mark (section 6.1.2).
    pub(super) const fn is_echo(&self, tcp: &TcpHeader) -> bool {
        tcp.flags.has(Flags::ECE) && self.on && !tcp.flags.has(Flags::SYN)
    }

    /// Whether an echo was answered already; `una` is acknowledged. CWR left with the first new segment after the
    /// answer, so up to there the receiver could not know of it.
    pub(super) const fn is_answered(&self, una: SeqNum) -> bool {
        una.at_or_before(self.answered_until)
    }

    /// The window was reduced when `max` was the next sequence number to send.
    pub(super) const fn answer(&mut self, max: SeqNum) {
        self.answered_until = max;
        self.cwr = true;
    }

    /// Whether the next new segment carries CWR.
    pub(super) const fn announces(&self) -> bool {
        self.cwr
    }

    /// A new segment with data has left.
    pub(super) const fn on_new_data_sent(&mut self) {
        self.cwr = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_per_window() {
        let mut ecn = EcnResponse::new(SeqNum(100));
        ecn.assume(&Config { ecn: true, ..Config::default() });
        let echo = TcpHeader { flags: Flags::ACK.and(Flags::ECE), ..TcpHeader::default() };
        assert!(ecn.is_echo(&echo) && !ecn.is_answered(SeqNum(101)) && !ecn.announces());
        ecn.answer(SeqNum(500));
        assert!(ecn.announces() && ecn.is_answered(SeqNum(500)) && !ecn.is_answered(SeqNum(501)));
        ecn.on_new_data_sent();
        assert!(!ecn.announces());
    }

    #[test]
    fn both_ends_have_to_agree() {
        let config = Config { ecn: true, ..Config::default() };
        let agreed = |config: &Config, flags| {
            let mut ecn = EcnResponse::new(SeqNum(0));
            ecn.on_syn(config, &TcpHeader { flags, ..TcpHeader::default() });
            ecn.is_on()
        };
        let syn = Flags::SYN.and(Flags::ECE);
        assert!(agreed(&config, syn.and(Flags::CWR)) && agreed(&config, syn.and(Flags::ACK)));
        assert!(!agreed(&config, syn) && !agreed(&config, syn.and(Flags::ACK).and(Flags::CWR)));
        assert!(!agreed(&Config { ecn: false, ..config }, syn.and(Flags::CWR)));
    }
}
