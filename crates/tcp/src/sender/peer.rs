//! What a sender knows of its peer.

use narrows_wire::{Flags, TcpHeader};

use crate::Config;

/// The peer's window and what its SYN has said.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerState {
    /// Its receive window, bytes.
    pub(super) window: u32,
    /// The largest payload to send: the smaller of our setting and what timestamps leave of its MSS option (RFC 6691).
    pub(super) mss: u16,
    /// The window scale (RFC 7323).
    shift: u8,
    /// It has sent SACK blocks.
    pub(super) sacks: bool,
}

impl PeerState {
    pub(super) fn new(config: &Config) -> Self {
        let mss = config.mss.clamp(1, u32::from(u16::MAX)) as u16;
        Self { window: u32::from(u16::MAX), mss, shift: 0, sacks: false }
    }

    /// There is no handshake: the peer has our settings.
    pub(super) fn assume(&mut self, config: &Config) {
        self.shift = config.window_shift();
        // As far as the field can tell it.
        self.window = config.receive_window.min(u32::from(u16::MAX) << self.shift);
    }

    /// Its SYN came.
    pub(super) fn on_syn(&mut self, config: &Config, syn: &TcpHeader) {
        if let Some(mss) = syn.mss {
            let options = config.timestamp_bytes() as u16;
            self.mss = self.mss.min(mss.saturating_sub(options)).max(1);
        }
        self.shift = syn.window_scale.unwrap_or(0).min(14);
        self.window = u32::from(syn.window);
    }

    /// The window that a segment announces, bytes. That of a SYN is never scaled (RFC 7323, section 2.2).
    pub(super) fn announced_window(&self, tcp: &TcpHeader) -> u32 {
        let shift = if tcp.flags.has(Flags::SYN) { 0 } else { self.shift };
        u32::from(tcp.window) << shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_holds_after_the_syn() {
        // Timestamps take 12 bytes.
        let config = Config { mss: 1448, ..Config::default() };
        let mut peer = PeerState::new(&config);
        let syn = TcpHeader {
            flags: Flags::SYN,
            window: 5000,
            window_scale: Some(3),
            mss: Some(548),
            ..TcpHeader::default()
        };
        peer.on_syn(&config, &syn);
        assert_eq!((peer.window, peer.mss, peer.announced_window(&syn)), (5000, 536, 5000));
        assert_eq!(peer.announced_window(&TcpHeader { flags: Flags::ACK, ..syn }), 40_000);
        // An MSS of zero would never let a byte go; without the options there is no scale.
        peer.on_syn(&config, &TcpHeader { mss: Some(0), window_scale: None, ..syn });
        assert_eq!((peer.mss, peer.announced_window(&TcpHeader { flags: Flags::ACK, ..syn })), (1, 5000));
    }
}
