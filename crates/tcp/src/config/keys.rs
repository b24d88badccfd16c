//! The one table of an end host's keys: name, place in [`Config`], range and meaning.

use narrows_settings::kinds::{Choice, ValueKind};
use narrows_settings::{SettingError, Settings, choices, keys, presets};
use narrows_units::Duration;

use super::{
    BackoffEnds, BetaFrom, BetaRto, BurstAfter, BurstStep, CcKind, Config, Fade, Handshake, Preset, PrrBound,
    Recovery, ReduceFrom, RestartTimer, RtoFloor, RtoRecovery, RtoVariance, RttSampling, StartupKind,
    SwsAvoidance,
};

choices!(Preset: "ns2" => Ns2, "ns3" => Ns3, "linux" => Linux, "rfc" => Rfc);
choices!(Handshake: "none" => None, "syn_is_packet_zero" => SynIsPacketZero, "three_way" => ThreeWay);
choices!(
    StartupKind:
    "slow_start" => SlowStart, "hystart" => HyStart, "burst" => Burst, "spreading" => Spreading,
    "paced_start" => PacedStart, "paced" => Paced, "limited" => Limited, "smooth" => Smooth,
    "adaptive" => Adaptive, "gallop" => Gallop, "small_segments" => SmallSegments
);
choices!(BurstAfter: "slow_start" => SlowStart, "avoidance" => Avoidance);
choices!(BurstStep: "guarded" => Guarded, "ns2" => Ns2);
choices!(
    CcKind:
    "reno" => Reno, "aimd" => Aimd, "adaptive_aimd" => AdaptiveAimd, "htcp" => Htcp, "westwood" => Westwood,
    "vegas" => Vegas, "cubic" => Cubic
);
choices!(BetaFrom: "rtt" => Rtt, "throughput" => Throughput);
choices!(BetaRto: "half" => Half, "beta" => Beta);
choices!(Fade: "rttmin" => Rttmin, "srtt" => Srtt);
choices!(Recovery: "tahoe" => Tahoe, "reno" => Reno, "newreno" => NewReno, "sack" => Sack);
choices!(ReduceFrom: "flight_size" => FlightSize, "cwnd" => Cwnd);
choices!(SwsAvoidance: "idle" => Idle, "rfc" => Rfc, "bsd" => Bsd, "linux" => Linux);
choices!(RtoFloor: "whole" => Whole, "deviation" => Deviation);
choices!(BackoffEnds: "new_sample" => NewSample, "new_ack" => NewAck);
choices!(RtoVariance: "rfc" => Rfc, "linux" => Linux);
choices!(PrrBound: "off" => Off, "on" => SlowStart, "safe_ack" => SafeAck);
choices!(RestartTimer: "off" => Off, "on" => On, "linux" => Linux);
choices!(RtoRecovery: "go_back_n" => GoBackN, "scoreboard" => Scoreboard, "frto" => Frto);
choices!(
    RttSampling: "one_at_a_time" => OneAtATime, "every_segment" => EverySegment, "every_ack" => EveryAck
);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Largest payload whose length an IP packet can tell.
const MOST_MSS: u32 = 65_495;
/// RFC 7323, section 2.3: what a scale of 14 reaches.
const MOST_WINDOW: u32 = 1 << 30;
/// RFC 5681, section 4.2: an ACK is never delayed for longer.
const MOST_DELAY: Duration = ms(500);
/// Word for a number without a bound.
const ENDLESS: &str = "infinite";
/// Value of `delayed_ack` for a host that delays no ACKs.
const OFF: &str = "off";
/// RFC 7323, section 2.3.
const MOST_SCALE: u32 = 14;
/// Value of `window_scale` for the least scale that the receive window needs.
const LEAST: &str = "least";

keys! {
    [kinds]
    Config;
    mss(mss): Number(1, MOST_MSS), "payload of a full segment, bytes";
    handshake(handshake): Choice(),
        "begin of a connection: it exists; ns-2's 40-byte packet 0; or SYN, SYN-ACK, ACK (RFC 9293, 3.5)";
    syn_timeout(syn_timeout): Time(ms(1), secs(120)),
        "first time-out of a SYN or SYN-ACK (RFC 6298, 2.1), then doubled";
    syn_retries(syn_retries): Open(0, "never"),
        "number of times a SYN or SYN-ACK is sent again before the connection fails; `never`: it does not fail \
         (RFC 9293, 3.8.3)";
    initial_window(initial_window): InitialWindow(),
        "window before the first acknowledgment of data, segments or by rule (RFC 3390, RFC 6928)";
    initial_ssthresh(initial_ssthresh): Ssthresh(), "ssthresh at the beginning, segments (RFC 5681, 3.1)";
    startup(startup): Choice(), "growth of the window up to ssthresh (docs/reference/startups.md)";
    start_rtt(start.rtt): Time(Duration::ZERO, secs(60)),
        "round-trip time at first, where no handshake measures it, for the start-ups that ask; 0s: unknown";
    slow_start_base(start.base): Real(1.1, 64.0),
        "factor of slow start per round trip: each ACK opens the window by this number less 1";
    burst_f(start.burst_f): Number(1, 1000),
        "divisor f of B-TCP: the first round trip takes 1/f of the way to the mice threshold (Gonçalves)";
    mice_threshold(start.mice_threshold): Number(2, 10_000),
        "mice threshold of B-TCP, segments: up to it the window grows in B-TCP's own way";
    burst_after(start.burst_after): Choice(),
        "growth of B-TCP from the mice threshold on: slow start up to ssthresh, or congestion avoidance at once";
    burst_step(start.burst_step): Choice(),
        "step of B-TCP: as in its pseudo-code, with none above the threshold; or as in its ns-2 code";
    spread_floor(start.spread_floor): Time(Duration::ZERO, secs(1)),
        "least distance of a first window's segments in Initial Spreading; below it the window leaves at once";
    max_ssthresh(start.max_ssthresh): Number(2, 1_000_000),
        "window of limited slow start, segments, beyond which it grows by at most half of this per round trip (RFC \
         3742)";
    smooth_depth(start.smooth_depth): Number(1, 16), "depth of Smooth Start: it begins at ssthresh / 2^depth";
    smooth_grain(start.smooth_grain): Number(1, 1000),
        "parts of Smooth Start up to ssthresh, each with slower growth";
    gallop_gamma(start.gallop_gamma): Number(1, 10_000),
        "queued segments of its own above which Gallop-Vegas ends start-up";
    congestion(congestion): Congestion(), "congestion control from ssthresh on (docs/reference/congestion-controls.md)";
    alpha(cc.alpha): Real(0.001, 1000.0), "segments by which aimd's window grows in a round trip";
    beta(cc.beta): Real(0.01, 0.99), "part of aimd's window that a loss leaves";
    beta_lo(cc.beta_lo): Real(0.01, 0.99), "least back-off factor of adaptive_aimd";
    beta_hi(cc.beta_hi): Real(0.01, 0.99), "greatest back-off factor of adaptive_aimd (Shorten, Leith, section III)";
    beta_from(cc.beta_from): Choice(),
        "source of adaptive_aimd's back-off factor: round-trip times (equation 4) or throughput (equation 10)";
    beta_rto(cc.beta_rto): Choice(), "part of adaptive_aimd's window that a time-out leaves as ssthresh";
    fade(cc.fade): Choice(), "value towards which adaptive_aimd's RTTmax fades at each back-off (equation 9)";
    gamma(cc.gamma): Real(0.0, 1.0),
        "part of the distance that stays when adaptive_aimd's RTTmax fades; 7/8 as in SRTT";
    min_samples(cc.min_samples): Number(1, 1000), "round-trip samples before adaptive_aimd believes them";
    rtt_scaling(cc.rtt_scaling): Choice(),
        "grow htcp's window in proportion to the round-trip time (draft-leith-tcp-htcp)";
    vegas_alpha(cc.vegas_alpha): Number(0, 10_000),
        "queued segments of its own below which the window of vegas grows (Brakmo, Peterson; ns-2's v_alpha_)";
    vegas_beta(cc.vegas_beta): Number(0, 10_000),
        "queued segments of its own above which the window of vegas shrinks";
    vegas_gamma(cc.vegas_gamma): Number(0, 10_000), "queued segments of its own above which vegas ends slow start";
    recovery(recovery): Choice(), "repair of losses: as Jacobson 1988, RFC 2581, RFC 6582 or RFC 6675";
    dupthresh(dupthresh): Number(1, 1000), "duplicate ACKs that tell a loss (RFC 5681, 3.2)";
    limited_transmit(limited_transmit): Choice(), "send new segments at the first two duplicate ACKs (RFC 3042)";
    dsack(dsack): Choice(), "report duplicates in SACK blocks (RFC 2883)";
    rack_tlp(rack_tlp): Choice(), "detect losses by time, and probe tails (RFC 8985)";
    reduce_from(reduce_from): Choice(),
        "quantity that a loss reduces: FlightSize (RFC 5681, equation 4) or the window that could be used";
    prr(prr): Choice(),
        "proportional rate reduction while recovering (RFC 6937; `safe_ack`: RFC 9937)";
    impatient(impatient): Choice(), "restart the timer at the first partial ACK only (RFC 6582, 3.2 step 3)";
    restart_timer(restart_timer): Choice(),
        "restart the timer at a fast retransmission (ns-2; an option of RFC 6675, section 6); `linux`: also at \
         some ACKs that only SACK";
    rto_initial(rto.initial): Time(ms(1), secs(120)), "RTO before the first sample (RFC 6298, 2.1)";
    rto_min(rto.min): Time(Duration::ZERO, secs(120)), "floor of the RTO (RFC 6298, 2.4)";
    rto_floor(rto.floor): Choice(), "quantity that `rto_min` bounds: the RTO, or its term 4 * RTTVAR as in Linux";
    rto_variance(rto.variance): Choice(), "rule by which RTTVAR follows the samples (RFC 6298, 2.3)";
    rto_max(rto.max): Time(ms(1), secs(600)), "cap of the backed-off RTO (RFC 6298, 2.5)";
    rto_granularity(rto.granularity): Time(Duration::ZERO, secs(1)), "clock granularity G (RFC 6298, 2.3)";
    rto_ticks(rto.ticks): Choice(), "round samples and RTO to whole multiples of `rto_granularity`, as in old stacks";
    backoff_limit(rto.backoff_limit): Number(1, 1 << 20), "largest factor of the back-off";
    forget_above(rto.forget_above): Open(1, "never"),
        "factor of the back-off above which SRTT is forgotten (RFC 6298, section 5)";
    backoff_ends(rto.backoff_ends): Choice(),
        "end of the back-off: a valid RTT sample (Karn; RFC 6298, section 5), or any ACK of new data";
    retries(rto.retries): Open(0, "never"), "time-outs in a row after which the connection fails (RFC 9293, 3.8.3)";
    rto_recovery(rto_recovery): Choice(),
        "order after a time-out: all is sent again, or what was not SACKed (RFC 6675, 5.1), or new data first (RFC \
         5682)";
    rtt_sampling(rtt_sampling): Choice(),
        "segments or ACKs that give samples of the round-trip time (RFC 6298, section 3)";
    timestamps(timestamps): Choice(), "timestamps option (RFC 7323): every ACK gives a sample";
    ecn(ecn): Choice(), "explicit congestion notification (RFC 3168)";
    byte_counting(byte_counting): ByteCounting(),
        "weight of an ACK: one segment, or its bytes, in slow start up to so many segments (RFC 3465)";
    restart_after_idle(restart_after_idle): Choice(),
        "limit the window to the initial one after an idle RTO (RFC 5681, 4.1)";
    grow_if_used(grow_if_used): Choice(), "grow the window only if it was used (RFC 7661; RFC 9438, 5.8)";
    delayed_ack(delayed_ack): DelayedAck(), "number of full segments for which one ACK is sent (RFC 5681, 4.2)";
    delayed_ack_timeout(delayed_ack): AckTimeout(), "longest time that an ACK is delayed";
    quick_acks(delayed_ack): QuickAcks(), "segments acknowledged at once at the beginning of a connection";
    push_every(push_every): Open(1, "never"),
        "segments that leave together for each PSH, which gets an ACK at once (Linux)";
    sws_avoidance(sws_avoidance): Choice(),
        "rule by which a window too short for the next segment is filled (RFC 9293, 3.8.6.2.1): nothing is \
         outstanding; by half of the largest window (Windows); FreeBSD; Linux";
    nagle(nagle): Choice(),
        "let a small last segment wait while data is outstanding (RFC 9293, 3.7.4); off: TCP_NODELAY";
    receive_window(receive_window): Number(1, MOST_WINDOW), "receive window, bytes (ns-2's window_)";
    window_scale(window_scale): WindowScale(),
        "unit of the window field, as a power of two (RFC 7323); `least`: the least with which the receive window \
         fits";
}

impl Settings for Config {
    const NAME: &'static str = "tcp";

    fn check(&self) -> Result<(), SettingError> {
        let Some((name, expected)) = super::check::contradiction(self) else { return Ok(()) };
        let value = Self::key(name).and_then(|key| key.value(self)).unwrap_or_default();
        Err(SettingError::new(name, value, expected))
    }

    /// Writes the table of keys with the value in each preset.
    fn markdown() -> String {
        let names = Preset::ALL.map(|(name, preset)| (format!("`{name}`"), Self::preset(preset)));
        presets(&names.each_ref().map(|(name, config)| (name.as_str(), *config)))
    }
}

/// Finds a preset by name.
pub(super) fn preset(text: &str) -> Result<Preset, SettingError> {
    let mut preset = Preset::default();
    let known = Choice().read(&mut preset, text).map(|()| preset);
    known.ok_or_else(|| SettingError::new("preset", text, ValueKind::<Preset>::range(&Choice())))
}

/// Kinds of values that only an end host has.
mod kinds {
    pub(super) use narrows_settings::kinds::*;
    use narrows_settings::quantity::{exact_time_text, seconds};

    use super::{ENDLESS, LEAST, MOST_DELAY, MOST_SCALE, OFF, ms};
    use crate::config;

    /// The window before the first acknowledgment of data.
    pub(super) struct InitialWindow();

    impl ValueKind<config::InitialWindow> for InitialWindow {
        fn text(&self, value: &config::InitialWindow) -> String {
            match value {
                config::InitialWindow::Segments(n) => n.to_string(),
                config::InitialWindow::Rfc3390 => "rfc3390".to_owned(),
                config::InitialWindow::Rfc6928 => "rfc6928".to_owned(),
            }
        }
        fn range(&self) -> String {
            "1 to 10000, rfc3390 or rfc6928".to_owned()
        }
        fn read(&self, place: &mut config::InitialWindow, text: &str) -> Option<()> {
            let window = match text {
                "rfc3390" => Some(config::InitialWindow::Rfc3390),
                "rfc6928" => Some(config::InitialWindow::Rfc6928),
                _ => number(text, 1, 10_000).map(config::InitialWindow::Segments),
            };
            put(place, window)
        }
    }

    /// A number of segments that may be without end.
    pub(super) struct Ssthresh();

    impl ValueKind<f64> for Ssthresh {
        fn text(&self, value: &f64) -> String {
            if value.is_finite() { value.to_string() } else { ENDLESS.to_owned() }
        }
        fn range(&self) -> String {
            format!("2 and more, or {ENDLESS}")
        }
        fn read(&self, place: &mut f64, text: &str) -> Option<()> {
            let endless = (text == ENDLESS).then_some(f64::INFINITY);
            put(place, endless.or_else(|| number(text, 2, u32::MAX).map(f64::from)))
        }
    }

    /// Segments that an ACK counts for.
    pub(super) struct ByteCounting();

    const SEGMENTS: Open = Open(1, ENDLESS);

    impl ValueKind<config::ByteCounting> for ByteCounting {
        fn text(&self, value: &config::ByteCounting) -> String {
            match value {
                config::ByteCounting::PerAck => "per_ack".to_owned(),
                config::ByteCounting::Abc { limit } => SEGMENTS.text(limit),
            }
        }
        fn range(&self) -> String {
            format!("per_ack, {}", SEGMENTS.range())
        }
        fn read(&self, place: &mut config::ByteCounting, text: &str) -> Option<()> {
            if text == "per_ack" {
                return put(place, Some(config::ByteCounting::PerAck));
            }
            let mut limit = 0;
            SEGMENTS.read(&mut limit, text)?;
            put(place, Some(config::ByteCounting::Abc { limit }))
        }
    }

    /// A congestion control by name, or by the number that a caller gives its own. The range leaves the numbers out:
    /// nobody can write one who does not bring the control.
    pub(super) struct Congestion();

    /// Text before the number of a caller's own control.
    const OWN: &str = "own:";

    impl ValueKind<config::CcKind> for Congestion {
        fn text(&self, value: &config::CcKind) -> String {
            match value {
                config::CcKind::Own(n) => format!("{OWN}{n}"),
                named => Choice().text(named),
            }
        }
        fn range(&self) -> String {
            ValueKind::<config::CcKind>::range(&Choice())
        }
        fn read(&self, place: &mut config::CcKind, text: &str) -> Option<()> {
            match text.strip_prefix(OWN) {
                Some(n) => put(place, number(n, 0, u16::MAX).map(config::CcKind::Own)),
                None => Choice().read(place, text),
            }
        }
    }

    /// Full segments for an ACK. Switched on, it comes with the timeout most stacks have, and no quick ACKs.
    pub(super) struct DelayedAck();

    impl ValueKind<Option<config::DelayedAck>> for DelayedAck {
        fn text(&self, value: &Option<config::DelayedAck>) -> String {
            value.map_or_else(|| OFF.to_owned(), |d| d.every.to_string())
        }
        fn range(&self) -> String {
            format!("{OFF}, or 1 to 64")
        }
        fn read(&self, place: &mut Option<config::DelayedAck>, text: &str) -> Option<()> {
            if text == OFF {
                return put(place, Some(None));
            }
            let every = number(text, 1, 64)?;
            place.get_or_insert(config::DelayedAck { every, timeout: ms(200), quick: 0 }).every = every;
            Some(())
        }
    }

    /// The longest delay of an ACK; "-" for a host that delays no ACKs.
    pub(super) struct AckTimeout();

    impl ValueKind<Option<config::DelayedAck>> for AckTimeout {
        fn text(&self, value: &Option<config::DelayedAck>) -> String {
            value.map_or_else(|| "-".to_owned(), |d| exact_time_text(d.timeout))
        }
        fn range(&self) -> String {
            format!("{} to {}, with delayed_ack on", exact_time_text(ms(1)), exact_time_text(MOST_DELAY))
        }
        fn read(&self, place: &mut Option<config::DelayedAck>, text: &str) -> Option<()> {
            let timeout = seconds(text).filter(|t| (ms(1)..=MOST_DELAY).contains(t));
            put(&mut place.as_mut()?.timeout, timeout)
        }
    }

    /// The window scale.
    pub(super) struct WindowScale();

    impl ValueKind<Option<u8>> for WindowScale {
        fn text(&self, value: &Option<u8>) -> String {
            value.map_or_else(|| LEAST.to_owned(), |scale| scale.to_string())
        }
        fn range(&self) -> String {
            format!("0 to {MOST_SCALE}, or {LEAST}")
        }
        fn read(&self, place: &mut Option<u8>, text: &str) -> Option<()> {
            let scale = if text == LEAST { None } else { Some(number(text, 0, MOST_SCALE)? as u8) };
            put(place, Some(scale))
        }
    }

    /// Segments acknowledged at once, where ACKs are delayed.
    pub(super) struct QuickAcks();

    impl ValueKind<Option<config::DelayedAck>> for QuickAcks {
        fn text(&self, value: &Option<config::DelayedAck>) -> String {
            value.map_or_else(|| "-".to_owned(), |d| d.quick.to_string())
        }
        fn range(&self) -> String {
            "0 to 1000000, with delayed_ack on".to_owned()
        }
        fn read(&self, place: &mut Option<config::DelayedAck>, text: &str) -> Option<()> {
            put(&mut place.as_mut()?.quick, number(text, 0, 1_000_000))
        }
    }
}
