//! Knowledge of the peer's window, and when a segment may leave that is smaller than a full one: the sender's part in
//! avoiding silly windows (RFC 9293, section 3.8.6.2.1), and Nagle's rule (section 3.7.4).

use narrows_units::Duration;
use narrows_wire::{Flags, TcpHeader};

use crate::{Config, SwsAvoidance};

/// No window scale.
const UNSCALED: u8 = u8::MAX;

/// The peer's window and the settings that the peer's SYN has announced.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerState {
    /// Receive window of the peer, bytes.
    pub(super) window: u32,
    /// The largest payload to send: the smaller of our setting and what timestamps leave of its MSS option (RFC 6691).
    pub(super) mss: u16,
    /// The window scale (RFC 7323); [`UNSCALED`] if the peer's SYN names none.
    shift: u8,
    /// Whether the peer has sent SACK blocks.
    pub(super) sacks: bool,
}

impl PeerState {
    pub(super) fn new(config: &Config) -> Self {
        let mss = config.mss.clamp(1, u32::from(u16::MAX)) as u16;
        Self { window: u32::from(u16::MAX), mss, shift: UNSCALED, sacks: false }
    }

    /// Takes the peer's settings to be ours, as there is no handshake.
    pub(super) fn assume(&mut self, config: &Config) {
        self.shift = config.window_shift();
        // As far as the field can tell it.
        self.window = config.receive_window.min(u32::from(u16::MAX) << self.shift);
    }

    /// Takes the options and the window of the peer's SYN.
    pub(super) fn on_syn(&mut self, config: &Config, syn: &TcpHeader) {
        if let Some(mss) = syn.mss {
            let options = config.timestamp_bytes() as u16;
            self.mss = self.mss.min(mss.saturating_sub(options)).max(1);
        }
        self.shift = syn.window_scale.map_or(UNSCALED, |shift| shift.min(14));
        self.window = u32::from(syn.window);
    }

    /// The window that a segment announces, bytes. The window of a SYN is never scaled (RFC 7323, section 2.2).
    pub(super) fn announced_window(&self, tcp: &TcpHeader) -> u32 {
        let plain = tcp.flags.has(Flags::SYN) || self.shift == UNSCALED;
        u32::from(tcp.window) << if plain { 0 } else { self.shift }
    }

    /// Whether the peer's SYN has said how its window scales: only then may ours (RFC 7323, section 2.2).
    pub(super) const fn scales(&self) -> bool {
        self.shift != UNSCALED
    }
}

/// The bounds of the override time-out (RFC 9293, section 3.8.6.2.1, condition 4).
const OVERRIDE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// The bounds of FreeBSD's persist timer (`TCPTV_PERSMIN`, `TCPTV_PERSMAX`).
const PERSIST: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// The default MSS of RFC 9293, section 3.7.1 (Linux's `TCP_MSS_DEFAULT`).
const LEAST_MSS: u32 = 536;

/// A sender's memory of windows and small segments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SmallSegments {
    /// The largest window that the peer has offered (RFC 9293's Max(SND.WND)), bytes.
    max_window: u32,
    /// The offset after the last segment smaller than a full one (Linux's `snd_sml`).
    small_end: u64,
}

/// Room in a window that is too short for the next segment, and how the sender stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remainder {
    /// Bytes up to the edge of the window.
    pub(super) usable: u64,
    /// Whether nothing is outstanding.
    pub(super) idle: bool,
    /// Whether the call has sent a segment of new data before.
    pub(super) follows: bool,
    /// Whether Nagle's rule holds a small segment back.
    pub(super) held: bool,
}

impl SmallSegments {
    /// The peer offers `window` bytes.
    pub(super) fn note_window(&mut self, window: u32) {
        self.max_window = self.max_window.max(window);
    }

    /// The payload of a full segment: Linux's is at most half of the largest window (`tcp_bound_to_half_wnd`), or a
    /// window that never was larger than [`LEAST_MSS`].
    pub(super) fn segment(&self, rule: SwsAvoidance, mss: u16) -> u16 {
        if rule != SwsAvoidance::Linux || self.max_window == 0 {
            return mss;
        }
        let most = if self.max_window > LEAST_MSS { self.max_window / 2 } else { self.max_window };
        u16::try_from(most).map_or(mss, |most| mss.min(most))
    }

    /// A segment smaller than a full one has left, which ends at `offset`.
    pub(super) fn note_small(&mut self, offset: u64) {
        self.small_end = offset;
    }

    /// Whether a small segment is outstanding beyond `una`.
    pub(super) const fn is_small_out(&self, una: u64) -> bool {
        self.small_end > una
    }

    /// Whether as much as the window has room for may leave by itself.
    pub(super) const fn fills(&self, rule: SwsAvoidance, rest: Remainder) -> bool {
        let half = 2 * rest.usable >= self.max_window as u64;
        let by_rule = match rule {
            SwsAvoidance::Idle => rest.idle,
            SwsAvoidance::Rfc => rest.idle && half,
            SwsAvoidance::Bsd => half,
            SwsAvoidance::Linux => rest.follows && !rest.held,
        };
        rest.usable > 0 && by_rule
    }
}

/// After what time a sender with nothing outstanding sends what a small window has room for, if its retransmission
/// timer runs for `rto`. With a closed window it probes (RFC 9293, section 3.8.6.1).
pub(super) fn patience(rule: SwsAvoidance, usable: u64, rto: Duration) -> Duration {
    match rule {
        SwsAvoidance::Rfc if usable > 0 => rto.clamp(OVERRIDE.0, OVERRIDE.1),
        SwsAvoidance::Bsd => rto.clamp(PERSIST.0, PERSIST.1),
        _ => rto,
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

#[cfg(test)]
mod sws_tests {
    use super::*;

    const ALL: [SwsAvoidance; 4] =
        [SwsAvoidance::Idle, SwsAvoidance::Rfc, SwsAvoidance::Bsd, SwsAvoidance::Linux];

    /// A window of 3000 B is the largest there was, and 1448 B are a full segment.
    #[test]
    fn who_fills_what() {
        let mut small = SmallSegments::default();
        for window in [2000, 3000, 1000] {
            small.note_window(window);
        }
        let fills = |usable, idle, follows, held| {
            ALL.map(|rule| small.fills(rule, Remainder { usable, idle, follows, held }))
        };
        assert_eq!(fills(1400, true, false, false), [true, false, false, false]);
        assert_eq!(fills(1400, false, false, false), [false; 4]);
        assert_eq!(fills(1400, false, true, false), [false, false, false, true], "behind a full one");
        assert_eq!(fills(1400, false, true, true), [false; 4], "another small one is out");
        assert_eq!(fills(1500, true, false, false), [true, true, true, false], "half of the window");
        assert_eq!(fills(1500, false, false, false), [false, false, true, false]);
        assert_eq!(fills(0, true, true, false), [false; 4]);
        small.note_small(500);
        assert!(small.is_small_out(499) && !small.is_small_out(500));
    }

    #[test]
    fn a_segment_of_linux_is_half_of_the_largest_window() {
        let mut small = SmallSegments::default();
        let segments = |small: &SmallSegments| ALL.map(|rule| small.segment(rule, 1448));
        assert_eq!(segments(&small), [1448; 4], "nothing is known");
        for (window, linux) in
            [(500, 500), (536, 536), (2816, 1408), (2895, 1447), (2896, 1448), (2816, 1448)]
        {
            small.note_window(window);
            assert_eq!(segments(&small), [1448, 1448, 1448, linux], "{window}");
        }
    }

    #[test]
    fn the_patience_of_each() {
        let ms = Duration::from_millis;
        assert_eq!(ALL.map(|rule| patience(rule, 1, ms(3000))), [ms(3000), ms(1000), ms(5000), ms(3000)]);
        assert_eq!(ALL.map(|rule| patience(rule, 0, ms(3000))), [ms(3000), ms(3000), ms(5000), ms(3000)]);
    }
}
