//! Settings of an end host. One value serves any number of hosts: it is an argument of each call, so that an idle
//! flow does not carry a copy. Each constant names its clause.

use core::str::FromStr;

use narrows_settings::{SettingError, Settings as _};
use narrows_units::Duration;

mod check;
mod congestion;
mod keys;
mod presets;
mod start;

pub use congestion::{BetaFrom, BetaRto, CcConfig, CcKind, Fade};
pub use start::{BurstAfter, BurstStep, StartConfig};

/// How losses are detected and repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// Fast retransmit, then slow start (Jacobson 1988).
    Tahoe,
    /// Fast recovery that ends with the first ACK of new data (RFC 2581).
    Reno,
    /// Fast recovery that goes on after partial ACKs (RFC 6582).
    NewReno,
    /// The scoreboard of RFC 6675.
    #[default]
    Sack,
}

/// Event that ends the exponential back-off of the RTO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackoffEnds {
    /// A valid RTT sample, of a segment sent once (Karn's algorithm; RFC 6298, section 3).
    #[default]
    NewSample,
    /// Any ACK of new data, even of a retransmission: stacks with timestamps, ns-3, ns-2 with `ts_resetRTO_`.
    NewAck,
}

/// Treatment of the data in flight when the retransmission timer expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RtoRecovery {
    /// All unacknowledged data counts as lost and is sent again in order, SACK information is forgotten, and every
    /// expiry halves ssthresh: 4.4BSD, ns-2.
    GoBackN,
    /// SACKed data counts as delivered and the rest as lost. Further expiries for the same data leave ssthresh as it
    /// is (RFC 5681, section 3.1; RFC 6675, section 5.1).
    #[default]
    Scoreboard,
    /// As `Scoreboard`, with Linux's ways: new data leaves first, to tell whether the time-out was needed (F-RTO, RFC
    /// 5682, section 3), one that was not is undone, and a repair that is lost begins a fast recovery. What is undone
    /// is known only with [`Config::rack_tlp`].
    Frto,
}

/// Quantity that the factor of a loss is multiplied with to give ssthresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReduceFrom {
    /// `FlightSize` (RFC 5681, equation 4).
    #[default]
    FlightSize,
    /// The congestion window, or the receiver's window if that is smaller: 4.4BSD, ns-2, Linux.
    Cwnd,
}

/// Segments that give samples of the round-trip time without timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RttSampling {
    /// One segment at a time is timed (RFC 6298, section 3): BSD, ns-2.
    OneAtATime,
    /// Every segment that was sent only once, as in stacks that remember when each was sent.
    #[default]
    EverySegment,
    /// Every segment that was sent only once, and every ACK that only SACKs such a segment: Linux.
    EveryAck,
}

/// Events that restart the retransmission timer besides an ACK of new data (RFC 6298, 5.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestartTimer {
    /// No event: RFC 6298, section 5; ns-3.
    Off,
    /// A fast retransmission: ns-2, an option of RFC 6675, section 6.
    #[default]
    On,
    /// Each retransmission of the first segment, and an ACK that SACKs what was sent before the first segment was last
    /// sent. Where RACK's timer or a probe ran instead, it counts from when the first segment was last sent.
    Linux,
}

/// The bound of proportional rate reduction when the pipe is below ssthresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrrBound {
    /// No rate reduction.
    #[default]
    Off,
    /// Slow start: one segment more than was delivered (RFC 6937, PRR-SSRB).
    SlowStart,
    /// Slow start only where an ACK brings new data in order and tells of no further loss (RFC 9937, `SafeACK`): Linux.
    SafeAck,
}

impl PrrBound {
    pub(crate) const fn is_on(self) -> bool {
        !matches!(self, Self::Off)
    }
}

/// How RTTVAR follows the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RtoVariance {
    /// A quarter of each deviation (RFC 6298, 2.3).
    #[default]
    Rfc,
    /// A round trip that shortens counts for an eighth of that where it widens the deviation. RTTVAR is the greatest
    /// deviation in a round trip; it rises at once and sinks by a quarter of the way per round trip.
    Linux,
}

/// Quantity that [`RtoConfig::min`] bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RtoFloor {
    /// The whole RTO (RFC 6298, 2.4).
    #[default]
    Whole,
    /// The term 4 * RTTVAR, so that the RTO is at least that much longer than SRTT: Linux.
    Deviation,
}

/// The retransmission timer (RFC 6298).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoConfig {
    /// The RTO before the first sample: 1 s (RFC 6298, 2.1).
    pub initial: Duration,
    /// The floor: 1 s (RFC 6298, 2.4); Linux and ns-2 use 0.2 s.
    pub min: Duration,
    /// Quantity that the floor bounds.
    pub floor: RtoFloor,
    /// How RTTVAR follows the samples.
    pub variance: RtoVariance,
    /// The cap of the backed-off timer: at least 60 s (RFC 6298, 2.5); Linux 120 s.
    pub max: Duration,
    /// The clock granularity G (RFC 6298, 2.3); zero for none.
    pub granularity: Duration,
    /// Whether RTT samples and the RTO are whole multiples of the granularity, as in old stacks (0.5 s) and ns-2 (10
    /// ms).
    pub ticks: bool,
    /// The largest factor of the back-off: 64 in old stacks.
    pub backoff_limit: u32,
    /// Factor above which SRTT is forgotten and the next sample counts as the first, as RFC 6298, section 5 allows: 8
    /// in ns-2, `u32::MAX` for never.
    pub forget_above: u32,
    /// Event that ends the back-off.
    pub backoff_ends: BackoffEnds,
    /// After how many time-outs in a row the connection fails; `u32::MAX` for never.
    pub retries: u32,
}

/// How ACKs are delayed (RFC 5681, section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedAck {
    /// Full segments after which an ACK is sent at the latest: 2.
    pub every: u32,
    /// Longest delay of an ACK: 200 ms in most stacks, below 500 ms by the RFC.
    pub timeout: Duration,
    /// How many segments at the beginning of a connection are acknowledged at once (quick ACKs; about 16 in Linux).
    pub quick: u32,
}

/// How a connection begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handshake {
    /// The connection exists from the start: no SYN is sent.
    None,
    /// The SYN is data, as with ns-2's one-way agents: 40 bytes are packet 0, whose acknowledgment opens the window
    /// like any other, and no third segment is sent.
    SynIsPacketZero,
    /// SYN, SYN-ACK, ACK (RFC 9293, section 3.5). SYN and SYN-ACK are retransmitted.
    #[default]
    ThreeWay,
}

/// The window before the first acknowledgment of data, as a number of segments or by a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialWindow {
    /// A number of full segments.
    Segments(u32),
    /// min(4 MSS, max(2 MSS, 4380 B)) (RFC 3390).
    Rfc3390,
    /// min(10 MSS, max(2 MSS, 14600 B)) (RFC 6928).
    Rfc6928,
}

impl InitialWindow {
    /// The window in segments of `mss` bytes, which may be a fraction.
    pub(crate) fn segments(self, mss: u32) -> f64 {
        let rule = |most: f64, bytes: f64| (bytes / f64::from(mss)).clamp(2.0, most);
        match self {
            Self::Segments(n) => f64::from(n),
            Self::Rfc3390 => rule(4.0, 4380.0),
            Self::Rfc6928 => rule(10.0, 14_600.0),
        }
    }
}

/// How many segments an ACK counts for in slow start and congestion avoidance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByteCounting {
    /// Each ACK counts for one segment (RFC 5681).
    #[default]
    PerAck,
    /// An ACK counts for the bytes it acknowledges; in slow start for at most `limit` segments (RFC 3465, L = 1 or 2).
    Abc {
        /// L, in segments.
        limit: u32,
    },
}

/// When a window that is too short for the next segment is filled with a smaller one (RFC 9293, section 3.8.6.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SwsAvoidance {
    /// When nothing is outstanding: ns-2 and ns-3, whose windows are whole segments in what is simulated with them.
    #[default]
    Idle,
    /// Rule of RFC 9293: a short window is filled when nothing is outstanding and it is half of the largest window
    /// offered, or after the override time-out. So do Windows hosts, as far as their maker tells ("Silly Window
    /// Syndrome Prevention Timer").
    Rfc,
    /// A window is filled when it is half of the largest one offered, or with nothing outstanding after the persist
    /// timer, of 5 s at least: FreeBSD's `tcp_output`.
    Bsd,
    /// A window is filled behind a full segment that leaves at the same time, or with nothing outstanding after the
    /// probe timer: Linux's `tcp_snd_wnd_test` asks for the whole next segment, and `tcp_mss_split_point` cuts what
    /// follows at the window.
    Linux,
}

/// The start-ups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartupKind {
    /// RFC 5681, section 3.1.
    #[default]
    SlowStart,
    /// Slow start that ends when the round-trip time grows: HyStart++ (RFC 9406).
    HyStart,
    /// Burst TCP: large steps first, that shrink (Gonçalves).
    Burst,
    /// The initial window is spread over the first round trip (Sallantin et al., LCN 2013 and 2014).
    Spreading,
    /// Segments leave SRTT / cwnd apart up to ssthresh or the first loss.
    PacedStart,
    /// Segments leave SRTT / cwnd apart for the whole connection (Aggarwal, Savage and Anderson).
    Paced,
    /// Slow start that is limited for large windows (RFC 3742).
    Limited,
    /// Slow start that slows down below ssthresh (Wang et al., ISCC 2000).
    Smooth,
    /// ssthresh follows an estimate of what the path holds (Wang et al., INFOCOM 2004).
    Adaptive,
    /// The window grows by what the queue leaves room for, beginning with two segments (Ho, Chan and Chen).
    Gallop,
    /// TCP-SF: a small window leaves in small segments (Mellia, Meo and Casetti).
    SmallSegments,
}

/// All settings of an end host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The payload of a full segment, bytes.
    pub mss: u32,
    /// How a connection begins.
    pub handshake: Handshake,
    /// The first time-out of a SYN or SYN-ACK, which doubles each time: 1 s (RFC 6298, 2.1).
    pub syn_timeout: Duration,
    /// How often a SYN or SYN-ACK is retransmitted before the connection fails: 6 and 5 in Linux.
    pub syn_retries: u32,
    /// The initial window.
    pub initial_window: InitialWindow,
    /// The initial ssthresh in segments; infinite by RFC 5681.
    pub initial_ssthresh: f64,
    /// Start-up: growth of the window until the first loss.
    pub startup: StartupKind,
    /// The settings of start-ups.
    pub start: StartConfig,
    /// Congestion control.
    pub congestion: CcKind,
    /// The settings of congestion controls.
    pub cc: CcConfig,
    /// How losses are repaired.
    pub recovery: Recovery,
    /// How many duplicate ACKs show a loss: 3 (RFC 5681, section 3.2).
    pub dupthresh: u32,
    /// Limited transmit (RFC 3042).
    pub limited_transmit: bool,
    /// Whether the receiver reports duplicates in SACK blocks (RFC 2883); needs [`Recovery::Sack`].
    pub dsack: bool,
    /// RACK and tail loss probes (RFC 8985); needs [`Recovery::Sack`].
    pub rack_tlp: bool,
    /// Quantity that the factor of a loss is multiplied with to give ssthresh.
    pub reduce_from: ReduceFrom,
    /// Proportional rate reduction while recovering (RFC 9937); needs [`Recovery::Sack`].
    pub prr: PrrBound,
    /// Whether only the first partial ACK of a recovery restarts the retransmission timer, not each of them: the
    /// "Impatient" variant of NewReno (RFC 3782, section 4), which RFC 6582, section 3.2, step 3 prescribes.
    pub impatient: bool,
    /// Events that restart the retransmission timer besides an ACK of new data.
    pub restart_timer: RestartTimer,
    /// The retransmission timer.
    pub rto: RtoConfig,
    /// Treatment of the data in flight when the retransmission timer expires.
    pub rto_recovery: RtoRecovery,
    /// Segments that give RTT samples without timestamps.
    pub rtt_sampling: RttSampling,
    /// Timestamps option (RFC 7323): every ACK gives a sample.
    pub timestamps: bool,
    /// ECN (RFC 3168).
    pub ecn: bool,
    /// How many segments an ACK counts for.
    pub byte_counting: ByteCounting,
    /// Whether after idling longer than an RTO the window is at most the initial one (RFC 5681, section 4.1).
    pub restart_after_idle: bool,
    /// Whether the window grows only if it was used (RFC 7661; RFC 9438, section 5.8); ns-2 grows it on any new ACK.
    pub grow_if_used: bool,
    /// Delayed ACKs; with `None` each segment is acknowledged.
    pub delayed_ack: Option<DelayedAck>,
    /// PSH is set on every n-th segment of those that leave together, and on the last of all data; a segment with PSH
    /// is acknowledged at once. Linux gives segments to the device at least in pairs, as a TSO packet that ends with
    /// PSH, so that it gets an ACK for each pair. With `u32::MAX` PSH is neither set nor heeded.
    pub push_every: u32,
    /// When a window that is too short for the next segment is filled with a smaller one.
    pub sws_avoidance: SwsAvoidance,
    /// Whether the last of what the application has written waits while other data is outstanding (RFC 9293, section
    /// 3.7.4); in Linux only while a small segment is (Minshall). Off where applications set `TCP_NODELAY`, as servers
    /// of the web do.
    pub nagle: bool,
    /// The receive window, bytes.
    pub receive_window: u32,
    /// The window scale (RFC 7323, section 2), at most 14; `None` for the least with which the receive window fits.
    pub window_scale: Option<u8>,
}

impl Config {
    /// The window scale: as set, or the least with which [`Config::receive_window`] fits into 16 bits, at most 14 (RFC
    /// 7323, section 2.3). The bits that it cuts off are not offered.
    #[must_use]
    pub const fn window_shift(&self) -> u8 {
        let shift = match self.window_scale {
            Some(shift) => shift as u32,
            None => u32::BITS - (self.receive_window >> u16::BITS).leading_zeros(),
        };
        if shift < 14 { shift as u8 } else { 14 }
    }

    /// The window field of a segment, in units of the scale, which that of a SYN has not (RFC 7323, section 2.2).
    #[must_use]
    pub const fn window_field(&self, syn: bool) -> u16 {
        // Most windows fit as they are.
        let plain = self.window_scale.is_none() && self.receive_window <= u16::MAX as u32;
        let shift = if syn || plain { 0 } else { self.window_shift() };
        let units = self.receive_window >> shift;
        if units < u16::MAX as u32 { units as u16 } else { u16::MAX }
    }

    /// Bytes that timestamps take of every segment: 12, padded (RFC 7323, appendix A); 10 where packets are ns-2's
    /// (`ts_option_size_`); 0 without timestamps.
    #[must_use]
    pub const fn timestamp_bytes(&self) -> u32 {
        match (self.timestamps, self.handshake) {
            (false, _) => 0,
            (true, Handshake::SynIsPacketZero) => 10,
            (true, _) => 12,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::preset(Preset::default())
    }
}

impl FromStr for Preset {
    type Err = SettingError;
    fn from_str(text: &str) -> Result<Self, SettingError> {
        keys::preset(text.trim())
    }
}

impl FromStr for Config {
    type Err = SettingError;
    /// Reads a preset and what differs from it, as in `linux` or `ns2:recovery=sack,mss=460`, and checks the whole.
    fn from_str(text: &str) -> Result<Self, SettingError> {
        let (preset, settings) = text.split_once(':').unwrap_or((text, ""));
        let mut config = Self::preset(preset.parse()?);
        config.set_all(settings)?;
        config.check()?;
        Ok(config)
    }
}

/// The known stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// One-way agents of ns-2.35 with default settings.
    Ns2,
    /// Sockets of ns-3.37 with default settings.
    Ns3,
    /// A Linux kernel of today.
    #[default]
    Linux,
    /// Recommendations of the RFCs and nothing else.
    Rfc,
}

impl Preset {
    /// All presets, each with its name in settings.
    pub const ALL: [(&str, Self); 4] =
        [("ns2", Self::Ns2), ("ns3", Self::Ns3), ("linux", Self::Linux), ("rfc", Self::Rfc)];
}

#[cfg(test)]
mod tests;
