//! The settings of known stacks. A number that is not RFC 9002's has its source next to it: a file of the stack and the
//! name that it has there.

use narrows_tcp::CcKind;
use narrows_units::Duration;

use super::{Config, Fit, Handshake, MtuSearch, Preset, Probe};

impl Config {
    /// The settings of a known stack.
    #[must_use]
    pub const fn preset(preset: Preset) -> Self {
        match preset {
            Preset::Rfc => RFC,
            Preset::Quinn => QUINN,
            Preset::QuicGo => QUIC_GO,
            Preset::Quiche => QUICHE,
            Preset::MsQuic => MSQUIC,
        }
    }
}

/// Recommendations of the RFCs: a window of ten datagrams, at least two, NewReno, two probes of the oldest data.
const RFC: Config = Config {
    datagram: 1200,
    mtu_search: None,
    // RFC 9002, section 7.2: min(10 * 1200, max(2 * 1200, 14720)).
    initial_window: 12_000,
    minimum_window: 2,
    fit: Fit::Within,
    congestion: CcKind::Reno,
    persistent: Some(3),
    burst: Some(10),
    packet_threshold: 3,
    initial_rtt: Duration::from_millis(333),
    probes: 2,
    probe: Probe::Oldest,
    immediate_ack: false,
    confirmed_first: true,
    max_ack_delay: Duration::from_millis(25),
    ack_every: 2,
    ecn: true,
    // RFC 9308, section 3.2, has 30 s for what is seen of NATs.
    idle: Duration::from_secs(30),
    id: 8,
    peer_id: 8,
    new_ids: 1,
    retires: false,
    // rustls 0.23 by ring with a certificate of its own on P-256, as the lab's: Finished of SHA-384, two tickets that
    // name an entry of the server's memory. What the hellos and the certificate are is within their padding.
    handshake: Handshake {
        client_hello: 280,
        server_hello: 90,
        certificate: 600,
        finished: 52,
        tickets: 162,
    },
};

/// quinn-proto 0.11.19.
const QUINN: Config = Config {
    // config/transport.rs, MtuDiscoveryConfig::default: upper_bound, minimum_change, interval.
    mtu_search: Some(MtuSearch { upper: 1452, step: 20, interval: Duration::from_secs(600) }),
    // connection/mod.rs, poll_transmit: in flight and the next are `>=` the window.
    fit: Fit::Below,
    // config/transport.rs, congestion_controller_factory.
    congestion: CcKind::Cubic,
    // connection/spaces.rs, maybe_queue_probe: only control frames are sent again.
    probe: Probe::Ping,
    // connection/mod.rs, poll_transmit: peer_supports_ack_frequency, which between two of its kind is so.
    immediate_ack: true,
    // connection/mod.rs, pto_time_and_space: is_handshaking.
    confirmed_first: false,
    // transport_parameters.rs, issue_cids_limit: CidQueue::LEN of 5 less the first.
    new_ids: 4,
    // connection/mod.rs, process_payload: "to enable clientside stateless resets".
    retires: true,
    ..RFC
};

/// quic-go 0.65.0.
const QUIC_GO: Config = Config {
    // internal/protocol/params.go, InitialPacketSize.
    datagram: 1280,
    // mtu_discoverer.go, maxMTUDiff; internal/protocol/protocol.go, MaxPacketBufferSize.
    mtu_search: Some(MtuSearch { upper: 1452, step: 20, interval: Duration::from_secs(600) }),
    // internal/congestion/cubic_sender.go, initialCongestionWindow: 32 packets.
    initial_window: 32 * 1280,
    // internal/congestion/cubic_sender.go, CanSend.
    fit: Fit::Until,
    // internal/ackhandler/sent_packet_handler.go, newSentPacketHandler: NewCubicSender with reno set. Its renoBeta of
    // 0.7 and its hybrid slow start are not here: a loss leaves half, as RFC 9002 has it.
    congestion: CcKind::Reno,
    // internal/congestion/cubic_sender.go: OnRetransmissionTimeout is never called by the packet handler.
    persistent: None,
    // internal/utils/rtt_stats.go, DefaultInitialRTT.
    initial_rtt: Duration::from_millis(100),
    // internal/ackhandler/received_packet_tracker.go, MaxAckDelay, with TimerGranularity in what is announced.
    max_ack_delay: Duration::from_millis(26),
    // internal/protocol/params.go, DefaultConnectionIDLength.
    id: 4,
    peer_id: 4,
    // internal/protocol/params.go, MaxActiveConnectionIDs of 4 less the first.
    new_ids: 3,
    ..RFC
};

/// quiche 0.20.
const QUICHE: Config = Config {
    // quiche/src/recovery/mod.rs, INITIAL_WINDOW_PACKETS and MINIMUM_WINDOW_PACKETS are RFC 9002's; quiche/src/lib.rs,
    // Config::with_tls_ctx: CUBIC.
    congestion: CcKind::Cubic,
    // cloudflare/quiche, issue 2680.
    persistent: None,
    // quiche/src/lib.rs, MAX_CONN_ID_LEN, which its own tools take.
    id: 20,
    peer_id: 20,
    // quiche/src/lib.rs: the application issues them.
    new_ids: 0,
    // quiche/src/lib.rs: packets are not marked unless the application sets the codepoint.
    ecn: false,
    ..RFC
};

/// MsQuic 2.3.
const MSQUIC: Config = Config {
    // src/core/quicdef.h, QUIC_INITIAL_PACKET_LENGTH.
    datagram: 1240,
    // src/core/quicdef.h, QUIC_DPLPMTUD_DEFAULT_MAX_MTU less headers, _INCREMENT, _RAISE_TIMER_TIMEOUT.
    mtu_search: Some(MtuSearch { upper: 1472, step: 80, interval: Duration::from_secs(600) }),
    // src/core/quicdef.h, QUIC_INITIAL_WINDOW_PACKETS.
    initial_window: 10 * 1240,
    // src/core/congestion_control.c, CanSend.
    fit: Fit::Until,
    // src/core/quicdef.h, QUIC_CONGESTION_CONTROL_ALGORITHM_DEFAULT.
    congestion: CcKind::Cubic,
    // src/core/quicdef.h, QUIC_PERSISTENT_CONGESTION_THRESHOLD.
    persistent: Some(2),
    // src/core/quicdef.h, QUIC_DEFAULT_ECN_ENABLED.
    ecn: false,
    // src/core/quicdef.h, QUIC_ACTIVE_CONNECTION_ID_LIMIT of 4 less the first.
    new_ids: 3,
    ..RFC
};
