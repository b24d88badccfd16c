//! Settings of an end host. One value serves any number of hosts: it is an argument of each call, so that an idle flow
//! does not carry a copy. Each constant names its clause.

use core::str::FromStr;

use narrows_settings::{SettingError, Settings as _};
use narrows_units::Duration;

mod congestion;
mod keys;
mod presets;
mod start;

pub use congestion::{BetaFrom, BetaRto, CcConfig, CcKind, Fade};
pub use start::{BurstAfter, BurstStep, StartConfig};

/// How loss is detected and repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// Fast retransmit, then slow start (Jacobson 1988).
    Tahoe,
    /// Fast recovery that ends with the first new ACK (RFC 2581).
    Reno,
    /// Partial ACKs keep recovery going (RFC 6582).
    NewReno,
    /// The scoreboard of RFC 6675.
    #[default]
    Sack,
}

/// What ends the exponential back-off of the RTO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackoffEnds {
    /// A valid RTT sample, of a segment sent once (Karn's algorithm; RFC 6298, section 3).
    #[default]
    NewSample,
    /// Any ACK of new data, also of a retransmission: stacks with timestamps, ns-3, ns-2 with `ts_resetRTO_`.
    NewAck,
}

/// What the retransmission timer's expiry does to the data in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RtoRecovery {
    /// All unacknowledged data counts as gone and is sent again in order; SACK information is forgotten; ssthresh is halved
    /// at every expiry: 4.4BSD, ns-2.
    GoBackN,
    /// What was SACKed stays so, the rest counts as lost; ssthresh is held when the timer expires again for the same data
    /// (RFC 5681, section 3.1; RFC 6675, section 5.1), as in Linux.
    #[default]
    Scoreboard,
}

/// Of what a loss takes its share to give ssthresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReduceFrom {
    /// `FlightSize` (RFC 5681, equation 4).
    #[default]
    FlightSize,
    /// The congestion window, as far as the receiver's window let it be used: 4.4BSD, ns-2, Linux.
    Cwnd,
}

/// Which segments give samples of the round-trip time where there are no timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RttSampling {
    /// One segment at a time is timed (RFC 6298, section 3): BSD, ns-2.
    OneAtATime,
    /// Every segment that was sent only once, as in stacks that keep its time of sending.
    #[default]
    EverySegment,
}

/// What [`RtoConfig::min`] bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RtoFloor {
    /// The whole RTO (RFC 6298, 2.4).
    #[default]
    Whole,
    /// The term 4 * RTTVAR, so that the RTO lies at least so far above SRTT: Linux.
    Deviation,
}

/// The retransmission timer (RFC 6298).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoConfig {
    /// Before the first sample: 1 s (RFC 6298, 2.1).
    pub initial: Duration,
    /// Floor: 1 s (RFC 6298, 2.4); Linux and ns-2 use 0.2 s.
    pub min: Duration,
    /// What the floor bounds.
    pub floor: RtoFloor,
    /// Cap of the backed-off timer: at least 60 s (RFC 6298, 2.5); Linux 120 s.
    pub max: Duration,
    /// Clock granularity G (RFC 6298, 2.3); zero for none. With [`RtoConfig::ticks`] samples and timers are cut to whole ticks.
    pub granularity: Duration,
    /// Whether RTT samples and the RTO are whole multiples of the granularity, as in old stacks (0.5 s) and ns-2 (10 ms).
    pub ticks: bool,
    /// Largest factor of the back-off: 64 in old stacks.
    pub backoff_limit: u32,
    /// When the factor exceeds this, SRTT is forgotten and the next sample counts as the first, as RFC 6298, section 5
    /// allows: 8 in ns-2, `u32::MAX` for never.
    pub forget_above: u32,
    /// What ends the back-off.
    pub backoff_ends: BackoffEnds,
    /// After how many time-outs in a row the connection fails; `u32::MAX` for never.
    pub retries: u32,
}

/// How ACKs are delayed (RFC 5681, section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedAck {
    /// An ACK at least for every so many full segments: 2.
    pub every: u32,
    /// And after this time at the latest: 200 ms in most stacks, below 500 ms by the RFC.
    pub timeout: Duration,
    /// Segments acknowledged at once at the beginning of a connection (quick ACKs; Linux 16 or so), 0 for none.
    pub quick: u32,
}

/// How a connection begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handshake {
    /// It exists already.
    None,
    /// ns-2's one-way agents: a 40-byte SYN takes a sequence number as packet 0, its acknowledgment opens the window like
    /// any other, and no third segment is sent.
    SynIsPacketZero,
    /// SYN, SYN-ACK, ACK (RFC 9293, section 3.5), both retried.
    #[default]
    ThreeWay,
}

/// The window before the first acknowledgment of data, in segments or by rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialWindow {
    /// So many full segments.
    Segments(u32),
    /// min(4 MSS, max(2 MSS, 4380 B)) (RFC 3390).
    Rfc3390,
    /// min(10 MSS, max(2 MSS, 14600 B)) (RFC 6928).
    Rfc6928,
}

impl InitialWindow {
    /// In segments of `mss` bytes; may be a fraction.
    #[must_use]
    pub fn segments(self, mss: u32) -> f64 {
        let rule = |most: f64, bytes: f64| (bytes / f64::from(mss)).clamp(2.0, most);
        match self {
            Self::Segments(n) => f64::from(n),
            Self::Rfc3390 => rule(4.0, 4380.0),
            Self::Rfc6928 => rule(10.0, 14_600.0),
        }
    }
}

/// What an ACK counts for in slow start and congestion avoidance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByteCounting {
    /// One segment per ACK, whatever it covers (RFC 5681).
    #[default]
    PerAck,
    /// The bytes it covers, at most `limit` segments in slow start (RFC 3465, L = 1 or 2).
    Abc {
        /// L, in segments.
        limit: u32,
    },
}

/// Which start-up.
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
    /// And so for the whole connection (Aggarwal, Savage and Anderson).
    Paced,
    /// Slow start that is limited for large windows (RFC 3742).
    Limited,
    /// Slow start that slows down below ssthresh (Wang et al., ISCC 2000).
    Smooth,
    /// ssthresh follows an estimate of what the path holds (Wang et al., INFOCOM 2004).
    Adaptive,
    /// Growth by what is queued, from two segments on (Ho, Chan and Chen).
    Gallop,
    /// TCP-SF: a small window leaves in small segments (Mellia, Meo and Casetti).
    SmallSegments,
}

/// All settings of an end host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Payload of a full segment, bytes.
    pub mss: u32,
    /// How a connection begins.
    pub handshake: Handshake,
    /// First time-out of a SYN or SYN-ACK: 1 s (RFC 6298, 2.1), doubled each time.
    pub syn_timeout: Duration,
    /// How often a SYN or SYN-ACK is sent again before the connection fails: 6 and 5 in Linux.
    pub syn_retries: u32,
    /// Initial window.
    pub initial_window: InitialWindow,
    /// Initial ssthresh in segments; infinite by RFC 5681.
    pub initial_ssthresh: f64,
    /// Start-up.
    pub startup: StartupKind,
    /// What start-ups are set to.
    pub start: StartConfig,
    /// Congestion avoidance.
    pub congestion: CcKind,
    /// What congestion controls are set to.
    pub cc: CcConfig,
    /// Loss recovery.
    pub recovery: Recovery,
    /// Duplicate ACKs that tell a loss: 3 (RFC 5681, section 3.2).
    pub dupthresh: u32,
    /// Limited transmit (RFC 3042).
    pub limited_transmit: bool,
    /// Duplicates are reported in SACK blocks (RFC 2883); needs [`Recovery::Sack`].
    pub dsack: bool,
    /// RACK and tail loss probes (RFC 8985); needs [`Recovery::Sack`].
    pub rack_tlp: bool,
    /// Of what a loss takes its share.
    pub reduce_from: ReduceFrom,
    /// Proportional rate reduction while recovering (RFC 6937); needs [`Recovery::Sack`].
    pub prr: bool,
    /// NewReno restarts the timer for the first partial ACK only ("impatient", RFC 6582, section 4), not for each.
    pub impatient: bool,
    /// A fast retransmission restarts the timer, as in ns-2 and Linux (an option of RFC 6675, section 6). RFC 6298, section 5
    /// lets it run, and so does ns-3.
    pub restart_timer: bool,
    /// Retransmission timer.
    pub rto: RtoConfig,
    /// What its expiry does.
    pub rto_recovery: RtoRecovery,
    /// Which segments are timed.
    pub rtt_sampling: RttSampling,
    /// Timestamps option (RFC 7323): every ACK gives a sample.
    pub timestamps: bool,
    /// ECN (RFC 3168).
    pub ecn: bool,
    /// Byte counting.
    pub byte_counting: ByteCounting,
    /// After idling longer than an RTO the window is at most the initial one (RFC 5681, section 4.1).
    pub restart_after_idle: bool,
    /// The window grows only if it was used (RFC 7661; RFC 9438, section 5.8); ns-2 grows it on any new ACK.
    pub grow_if_used: bool,
    /// Delayed ACKs; `None` acknowledges each segment.
    pub delayed_ack: Option<DelayedAck>,
    /// PSH is set on every so many of the segments that leave together, and on the last of all; and a segment that bears it is
    /// acknowledged at once. Linux hands segments to the device two at a time at least, as one TSO packet that ends with
    /// PSH, so its ACKs keep to the pairs. `u32::MAX` for neither.
    pub push_every: u32,
    /// Receive window, bytes.
    pub receive_window: u32,
}

impl Config {
    /// The window scale both ends use: the least that lets [`Config::receive_window`] into 16 bits (RFC 7323, section 2.3: at
    /// most 14). What it cuts off is not offered.
    #[must_use]
    pub const fn window_shift(&self) -> u8 {
        let shift = u32::BITS - (self.receive_window >> u16::BITS).leading_zeros();
        if shift < 14 { shift as u8 } else { 14 }
    }

    fn check_combinations(&self) -> Result<(), SettingError> {
        let sack = self.recovery == Recovery::Sack;
        let wrong = [
            ("dsack", self.dsack && !sack, "recovery = sack: duplicates are told in SACK blocks"),
            ("rack_tlp", self.rack_tlp && !sack, "recovery = sack: RACK needs to know what arrived"),
            ("prr", self.prr && !sack, "recovery = sack: it counts what arrived"),
            ("rto_min", self.rto.min > self.rto.max, "at most rto_max"),
            ("rto_initial", self.rto.initial > self.rto.max, "at most rto_max"),
            (
                "rto_ticks",
                self.rto.ticks && self.rto.granularity == Duration::ZERO,
                "rto_granularity above 0",
            ),
            ("receive_window", self.receive_window < self.mss, "at least mss, or no full segment fits"),
            (
                "startup",
                self.startup == StartupKind::HyStart
                    && self.rtt_sampling == RttSampling::OneAtATime
                    && !self.timestamps,
                "rtt_sampling = every_segment or timestamps = on: HyStart++ needs eight samples a round",
            ),
            ("beta_lo", self.cc.beta_lo > self.cc.beta_hi, "at most beta_hi"),
            ("vegas_alpha", self.cc.vegas_alpha > self.cc.vegas_beta, "at most vegas_beta"),
            (
                "congestion",
                matches!(self.congestion, CcKind::AdaptiveAimd | CcKind::Vegas)
                    && self.rtt_sampling == RttSampling::OneAtATime
                    && !self.timestamps,
                "rtt_sampling = every_segment or timestamps = on: one sample a round tells too little of the queue",
            ),
            (
                "startup",
                self.startup == StartupKind::Spreading
                    && self.handshake == Handshake::None
                    && self.start.rtt == Duration::ZERO,
                "start_rtt above 0 with handshake = none: nothing else tells the first round trip",
            ),
            (
                "initial_ssthresh",
                self.startup == StartupKind::Adaptive && self.initial_ssthresh.is_infinite(),
                "a number with startup = adaptive: it raises ssthresh from there",
            ),
            (
                "burst_after",
                self.start.burst_after == BurstAfter::Avoidance && self.start.burst_step == BurstStep::Ns2,
                "slow_start with burst_step = ns2: that code stays at the mice threshold",
            ),
        ];
        let Some(&(name, _, expected)) = wrong.iter().find(|w| w.1) else { return Ok(()) };
        let value = Self::key(name).map_or_else(String::new, |k| k.value(self));
        Err(SettingError { key: name.to_owned(), value, expected: expected.to_owned() })
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
    /// A preset and what differs from it, as `linux` or `ns2:recovery=sack,mss=460`; checked as a whole.
    fn from_str(text: &str) -> Result<Self, SettingError> {
        let (preset, settings) = text.split_once(':').unwrap_or((text, ""));
        let mut config = Self::preset(preset.parse()?);
        config.set_all(settings)?;
        config.check()?;
        Ok(config)
    }
}

/// A known stack's settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// ns-2.35's one-way agents with their defaults.
    Ns2,
    /// A Linux kernel of today.
    #[default]
    Linux,
    /// What the RFCs recommend, nothing else.
    Rfc,
}

#[cfg(test)]
mod tests;
