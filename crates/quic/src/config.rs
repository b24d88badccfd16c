//! Settings of an end host. One value serves any number of hosts: it is an argument of each call.

use core::str::FromStr;

use narrows_settings::{SettingError, one_of};
use narrows_tcp::CcKind;
use narrows_units::Duration;

mod presets;

/// How much TLS says in each flight, bytes. Both ends of a connection must be given the same handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// ClientHello.
    pub client_hello: u32,
    /// ServerHello.
    pub server_hello: u32,
    /// EncryptedExtensions, Certificate, CertificateVerify, Finished.
    pub certificate: u32,
    /// The client's Finished.
    pub finished: u32,
    /// The server's session tickets, in the server's first 1-RTT packet.
    pub tickets: u32,
}

/// When another full datagram fits into the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// While the bytes in flight and the datagram are at most the window (RFC 9002, section 7).
    Within,
    /// While the bytes in flight and the datagram are less than the window.
    Below,
    /// While what is in flight is less than the window, which it may then exceed by a datagram.
    Until,
}

/// Content of a probe if there is no new data (RFC 9002, section 6.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The oldest data that is not acknowledged, as RFC 9002 recommends.
    Oldest,
    /// A PING; handshake and control frames that are not acknowledged are sent again.
    Ping,
}

/// The search for the path's MTU (DPLPMTUD, RFC 8899; RFC 9000, section 14.3) by halving what is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtuSearch {
    /// The largest UDP payload that is tried.
    pub upper: u16,
    /// The search ends when a step would be smaller.
    pub step: u16,
    /// Time from the end of a search to the beginning of the next.
    pub interval: Duration,
}

/// All settings of an end host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The UDP payload of a full datagram at first, bytes; Initials are padded to 1200 (RFC 9000, section 14.1).
    pub datagram: u16,
    /// The search for a larger datagram; `None` for no search.
    pub mtu_search: Option<MtuSearch>,
    /// kInitialWindow, bytes (RFC 9002, section 7.2).
    pub initial_window: u64,
    /// kMinimumWindow, full datagrams (section 7.2).
    pub minimum_window: u64,
    /// When another datagram fits.
    pub fit: Fit,
    /// NewReno or CUBIC (sections 7.3 and 7; RFC 9438).
    pub congestion: CcKind,
    /// kPersistentCongestionThreshold (section 7.6.1); `None`: there is no persistent congestion.
    pub persistent: Option<u64>,
    /// Full datagrams that leave at once; the rest is paced at 5/4 of the window per round trip (section 7.7). `None`:
    /// no pacing.
    pub burst: Option<u64>,
    /// kPacketThreshold (section 6.1.1).
    pub packet_threshold: u64,
    /// kInitialRtt (section 6.2.2).
    pub initial_rtt: Duration,
    /// How many probes a probe timeout sends (section 6.2.4).
    pub probes: u32,
    /// Content of a probe if there is no new data.
    pub probe: Probe,
    /// Whether 1-RTT probes ask for an ACK at once, as they may where both ends have draft-ietf-quic-ack-frequency.
    pub immediate_ack: bool,
    /// Whether a client times 1-RTT packets only when the handshake is confirmed (section 6.2.1), and not from its
    /// completion on.
    pub confirmed_first: bool,
    /// max_ack_delay (RFC 9000, section 13.2.1), the same at both ends.
    pub max_ack_delay: Duration,
    /// Packets after which an ACK is sent at the latest (section 13.2.2).
    pub ack_every: u64,
    /// Whether packets bear ECT(0).
    pub ecn: bool,
    /// max_idle_timeout (section 10.1).
    pub idle: Duration,
    /// Length of the end's own connection id, bytes.
    pub id: u8,
    /// Bytes of the peer's.
    pub peer_id: u8,
    /// NEW_CONNECTION_ID frames after the handshake (section 5.1.1).
    pub new_ids: u8,
    /// Whether a server takes another of the client's connection ids as soon as the server has one, and retires the
    /// first.
    pub retires: bool,
    /// Bytes that TLS says in each flight of the handshake.
    pub handshake: Handshake,
}

impl Default for Config {
    fn default() -> Self {
        Self::preset(Preset::default())
    }
}

/// Known stacks, in the configuration that a server has by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// Recommendations of RFC 9000 and 9002, and nothing else.
    Rfc,
    /// quinn 0.11.
    #[default]
    Quinn,
    /// quic-go.
    QuicGo,
    /// Cloudflare's quiche.
    Quiche,
    /// Microsoft's MsQuic.
    MsQuic,
}

impl Preset {
    /// All, in the order of the documents.
    pub const ALL: [Self; 5] = [Self::Rfc, Self::Quinn, Self::QuicGo, Self::Quiche, Self::MsQuic];

    /// Name of the preset in scenario files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Rfc => "rfc",
            Self::Quinn => "quinn",
            Self::QuicGo => "quic-go",
            Self::Quiche => "quiche",
            Self::MsQuic => "msquic",
        }
    }
}

impl FromStr for Preset {
    type Err = SettingError;
    fn from_str(text: &str) -> Result<Self, SettingError> {
        let found = Self::ALL.into_iter().find(|p| p.word() == text.trim());
        found.ok_or_else(|| SettingError::new("preset", text, one_of(text, Self::ALL.map(Self::word))))
    }
}
