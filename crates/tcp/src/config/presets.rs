//! The settings of known stacks. A number that is not the usual one has its source next to it; `docs/reference/tcp.md`
//! has all of them in one table.

use narrows_units::Duration;

use super::{
    BackoffEnds, ByteCounting, CcConfig, CcKind, Config, DelayedAck, Handshake, InitialWindow, Preset,
    PrrBound, Recovery, ReduceFrom, RestartTimer, RtoConfig, RtoFloor, RtoRecovery, RtoVariance, RttSampling,
    StartConfig, StartupKind, SwsAvoidance,
};

/// Half of the 6 MiB to which Linux lets a receive buffer grow (`tcp_rmem`); the other half is overhead. Such a window
/// is wide enough not to matter on a thin link.
const WIDE_WINDOW: u32 = 3 << 20;

impl Config {
    /// The settings of a known stack.
    #[must_use]
    pub const fn preset(preset: Preset) -> Self {
        match preset {
            Preset::Ns2 => NS2,
            Preset::Ns3 => NS3,
            Preset::Linux => LINUX,
            Preset::Rfc => RFC,
        }
    }
}

/// ns-2.35's `Agent/TCP/Newreno` and `Agent/TCPSink` with the defaults of `ns-default.tcl`. With `recovery=sack` it
/// stands for `Sack1`. Scenarios set `mss` to `packetSize_` and the receive window to `window_` packets.
const NS2: Config = Config {
    // packetSize_ 1000, to which 40 bytes of headers are added (useHeaders_).
    mss: 1000,
    handshake: Handshake::SynIsPacketZero,
    syn_timeout: Duration::from_secs(3),
    syn_retries: u32::MAX,
    // windowInit_ is 2, but it holds only from the ACK of packet 0 on (delay_growth_), which opens a window of 1 to 2
    // as well.
    initial_window: InitialWindow::Segments(1),
    // ns-2 begins with window_, which makes no difference, because a sender cannot use more than that.
    initial_ssthresh: f64::INFINITY,
    startup: StartupKind::SlowStart,
    start: StartConfig::DEFAULT,
    congestion: CcKind::Reno,
    cc: CcConfig::NS2,
    recovery: Recovery::NewReno,
    dupthresh: 3,
    // singledup_ 1
    limited_transmit: true,
    dsack: false,
    rack_tlp: false,
    reduce_from: ReduceFrom::Cwnd,
    prr: PrrBound::Off,
    // newreno_changes1_ 1
    impatient: true,
    restart_timer: RestartTimer::On,
    rto: RtoConfig {
        // rtxcur_init_ 3.0, minrto_ 0.2, maxrto_ 60, tcpTick_ 0.01
        initial: Duration::from_secs(3),
        min: Duration::from_millis(200),
        floor: RtoFloor::Whole,
        variance: RtoVariance::Rfc,
        max: Duration::from_secs(60),
        granularity: Duration::from_millis(10),
        ticks: true,
        // rfc2988_ true: doubled beyond 64 as long as the timer is below maxrto_.
        backoff_limit: 1 << 15,
        forget_above: 8,
        // ts_resetRTO_ false
        backoff_ends: BackoffEnds::NewSample,
        retries: u32::MAX,
    },
    rto_recovery: RtoRecovery::GoBackN,
    rtt_sampling: RttSampling::OneAtATime,
    timestamps: false,
    ecn: false,
    byte_counting: ByteCounting::PerAck,
    restart_after_idle: true,
    // control_increase_ 0
    grow_if_used: false,
    delayed_ack: None,
    push_every: u32::MAX,
    sws_avoidance: SwsAvoidance::Idle,
    nagle: false,
    // window_ 20
    receive_window: 20_000,
    window_scale: None,
};

/// ns-3.37's `TcpSocketBase` with the values its attributes begin with; `congestion=reno,startup=slow_start` is its
/// `TcpLinuxReno`.
const NS3: Config = Config {
    // SegmentSize: of the payload, whatever the options.
    mss: 536,
    // ConnTimeout, ConnCount
    syn_timeout: Duration::from_secs(3),
    syn_retries: 6,
    // InitialCwnd
    initial_window: InitialWindow::Segments(10),
    startup: StartupKind::HyStart,
    congestion: CcKind::Cubic,
    reduce_from: ReduceFrom::Cwnd,
    // TcpPrrRecovery
    prr: PrrBound::SlowStart,
    restart_timer: RestartTimer::Off,
    rto: RtoConfig {
        // ClockGranularity, MinRto
        granularity: Duration::from_millis(1),
        min: Duration::from_secs(1),
        backoff_limit: 1 << 15,
        // NewAck sets the timer anew.
        backoff_ends: BackoffEnds::NewAck,
        // DataRetries
        retries: 6,
        ..RFC.rto
    },
    timestamps: true,
    // Slow start counts every acknowledged segment.
    byte_counting: ByteCounting::Abc { limit: u32::MAX },
    restart_after_idle: false,
    grow_if_used: true,
    sws_avoidance: SwsAvoidance::Idle,
    // RcvBufSize
    receive_window: 131_072,
    ..RFC
};

/// A Linux kernel of today (6.x) with its default sysctls, on Ethernet. Linux's other built-in control is
/// `congestion=reno,startup=slow_start`.
const LINUX: Config = Config {
    // 1500 - 20 (IPv4) - 20 (TCP) - 12 (timestamps)
    mss: 1448,
    handshake: Handshake::ThreeWay,
    syn_timeout: Duration::from_secs(1),
    syn_retries: 6,
    initial_window: InitialWindow::Segments(10),
    initial_ssthresh: f64::INFINITY,
    startup: StartupKind::HyStart,
    start: StartConfig::DEFAULT,
    congestion: CcKind::Cubic,
    cc: CcConfig::PAPERS,
    recovery: Recovery::Sack,
    dupthresh: 3,
    limited_transmit: true,
    dsack: true,
    rack_tlp: true,
    reduce_from: ReduceFrom::Cwnd,
    prr: PrrBound::SafeAck,
    impatient: true,
    restart_timer: RestartTimer::Linux,
    rto: RtoConfig {
        initial: Duration::from_secs(1),
        min: Duration::from_millis(200),
        floor: RtoFloor::Deviation,
        variance: RtoVariance::Linux,
        max: Duration::from_secs(120),
        granularity: Duration::ZERO,
        ticks: false,
        // No cap but `max` and the number of retries (tcp_retries2).
        backoff_limit: 1 << 15,
        forget_above: u32::MAX,
        backoff_ends: BackoffEnds::NewSample,
        retries: 15,
    },
    rto_recovery: RtoRecovery::Frto,
    rtt_sampling: RttSampling::EveryAck,
    timestamps: true,
    // tcp_ecn is 2: the kernel accepts ECN and does not ask for it.
    ecn: false,
    // Slow start counts every acknowledged segment.
    byte_counting: ByteCounting::Abc { limit: u32::MAX },
    restart_after_idle: true,
    grow_if_used: true,
    // The delay adapts between 40 and 200 ms, and for a steady stream it is 40 ms. At most 16 quick ACKs.
    delayed_ack: Some(DelayedAck { every: 2, timeout: Duration::from_millis(40), quick: 16 }),
    // A TSO packet has at least two segments, and no more up to some 20 Mbit/s.
    push_every: 2,
    sws_avoidance: SwsAvoidance::Linux,
    nagle: false,
    receive_window: WIDE_WINDOW,
    window_scale: None,
};

/// Recommendations of the RFCs, and nothing experimental.
const RFC: Config = Config {
    // 1500 - 20 (IPv4) - 20 (TCP)
    mss: 1460,
    handshake: Handshake::ThreeWay,
    syn_timeout: Duration::from_secs(1),
    // RFC 9293, section 3.8.3: a SYN is tried for at least 3 minutes; 2^8 - 1 s = 255 s.
    syn_retries: 7,
    initial_window: InitialWindow::Rfc6928,
    initial_ssthresh: f64::INFINITY,
    startup: StartupKind::SlowStart,
    start: StartConfig::DEFAULT,
    congestion: CcKind::Reno,
    cc: CcConfig::PAPERS,
    recovery: Recovery::Sack,
    dupthresh: 3,
    limited_transmit: true,
    dsack: false,
    rack_tlp: false,
    reduce_from: ReduceFrom::FlightSize,
    prr: PrrBound::Off,
    // RFC 6582, section 3.2, step 3.
    impatient: true,
    restart_timer: RestartTimer::On,
    rto: RtoConfig {
        initial: Duration::from_secs(1),
        min: Duration::from_secs(1),
        floor: RtoFloor::Whole,
        variance: RtoVariance::Rfc,
        max: Duration::from_secs(60),
        granularity: Duration::ZERO,
        ticks: false,
        backoff_limit: 64,
        forget_above: u32::MAX,
        backoff_ends: BackoffEnds::NewSample,
        // RFC 9293, section 3.8.3: at least 100 s; 1 + 2 + .. + 32 + 9 * 60 s.
        retries: 15,
    },
    rto_recovery: RtoRecovery::Scoreboard,
    rtt_sampling: RttSampling::OneAtATime,
    timestamps: false,
    ecn: false,
    // RFC 5681: equation 2 in slow start, and in congestion avoidance the byte counting that it recommends.
    byte_counting: ByteCounting::Abc { limit: 1 },
    restart_after_idle: true,
    grow_if_used: false,
    delayed_ack: Some(DelayedAck { every: 2, timeout: Duration::from_millis(200), quick: 0 }),
    push_every: u32::MAX,
    sws_avoidance: SwsAvoidance::Rfc,
    nagle: false,
    receive_window: WIDE_WINDOW,
    window_scale: None,
};
