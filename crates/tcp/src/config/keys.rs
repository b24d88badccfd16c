//! The one table of an end host's keys: name, place in [`Config`], range and meaning.

use core::fmt::Write as _;

use narrows_units::Duration;

use super::{
    BackoffEnds, BetaFrom, BetaRto, BurstAfter, BurstStep, ByteCounting, CcKind, Config, ConfigError,
    DelayedAck, Fade, Handshake, InitialWindow, Preset, Recovery, ReduceFrom, RtoFloor, RtoRecovery,
    RttSampling, StartupKind,
};

/// One key.
pub struct Key {
    /// Its name, the same on a command line and in scenario files.
    pub name: &'static str,
    /// What it means, in one line.
    pub doc: &'static str,
    slot: for<'a> fn(&'a mut Config) -> Slot<'a>,
}

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name)
    }
}

/// Where a key's value lives, with its range.
enum Slot<'a> {
    Choice(&'a mut dyn Choice),
    Number(&'a mut u32, u32, u32),
    Real(&'a mut f64, f64, f64),
    /// A number from the one given, or the word for [`u32::MAX`].
    Open(&'a mut u32, u32, &'static str),
    Time(&'a mut Duration, Duration, Duration),
    InitialWindow(&'a mut InitialWindow),
    Ssthresh(&'a mut f64),
    ByteCounting(&'a mut ByteCounting),
    DelayedAck(&'a mut Option<DelayedAck>),
    AckTimeout(&'a mut Option<DelayedAck>),
    QuickAcks(&'a mut Option<DelayedAck>),
}

/// A setting with one word for each value.
trait Words: Copy + PartialEq + 'static {
    const WORDS: &'static [(&'static str, Self)];
}

/// The same without its type.
trait Choice {
    fn put(&mut self, word: &str) -> bool;
    fn word(&self) -> &'static str;
    fn words(&self) -> Vec<&'static str>;
}

impl<T: Words> Choice for T {
    fn put(&mut self, word: &str) -> bool {
        let found = T::WORDS.iter().find(|(name, _)| *name == word);
        if let Some(&(_, value)) = found {
            *self = value;
        }
        found.is_some()
    }
    fn word(&self) -> &'static str {
        T::WORDS.iter().find(|(_, value)| value == self).map_or("?", |(name, _)| name)
    }
    fn words(&self) -> Vec<&'static str> {
        T::WORDS.iter().map(|(name, _)| *name).collect()
    }
}

macro_rules! words {
    ($($kind:ty { $($word:literal: $value:expr),* })*) => {
        $(impl Words for $kind {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, $value)),*];
        })*
    };
}

words! {
    bool { "on": true, "off": false }
    Preset { "ns2": Self::Ns2, "linux": Self::Linux, "rfc": Self::Rfc }
    Handshake { "none": Self::None, "syn_is_packet_zero": Self::SynIsPacketZero, "three_way": Self::ThreeWay }
    StartupKind { "slow_start": Self::SlowStart, "hystart": Self::HyStart, "burst": Self::Burst, "spreading": Self::Spreading, "paced_start": Self::PacedStart, "paced": Self::Paced, "limited": Self::Limited, "smooth": Self::Smooth, "adaptive": Self::Adaptive, "gallop": Self::Gallop, "small_segments": Self::SmallSegments }
    BurstAfter { "slow_start": Self::SlowStart, "avoidance": Self::Avoidance }
    BurstStep { "guarded": Self::Guarded, "ns2": Self::Ns2 }
    CcKind {
        "reno": Self::Reno,
        "aimd": Self::Aimd,
        "adaptive_aimd": Self::AdaptiveAimd,
        "htcp": Self::Htcp,
        "westwood": Self::Westwood,
        "vegas": Self::Vegas,
        "cubic": Self::Cubic
    }
    BetaFrom { "rtt": Self::Rtt, "throughput": Self::Throughput }
    BetaRto { "half": Self::Half, "beta": Self::Beta }
    Fade { "rttmin": Self::Rttmin, "srtt": Self::Srtt }
    Recovery { "tahoe": Self::Tahoe, "reno": Self::Reno, "newreno": Self::NewReno, "sack": Self::Sack }
    ReduceFrom { "flight_size": Self::FlightSize, "cwnd": Self::Cwnd }
    RtoFloor { "whole": Self::Whole, "deviation": Self::Deviation }
    BackoffEnds { "new_sample": Self::NewSample, "new_ack": Self::NewAck }
    RtoRecovery { "go_back_n": Self::GoBackN, "scoreboard": Self::Scoreboard }
    RttSampling { "one_at_a_time": Self::OneAtATime, "every_segment": Self::EverySegment }
}

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
/// What a word needs to be beside a number.
const ENDLESS: &str = "infinite";
/// `delayed_ack` when the setting does not exist because of it.
const OFF: &str = "off";

macro_rules! keys {
    ($($name:ident($($place:ident).+): $kind:ident($($range:expr),*), $doc:literal;)*) => {
        /// Every key, in the order of the documents.
        pub(super) static KEYS: &[Key] = &[
            $(Key { name: stringify!($name), doc: $doc, slot: |c| Slot::$kind(&mut c.$($place).+, $($range),*) },)*
        ];
    };
}

keys! {
    mss(mss): Number(1, MOST_MSS), "payload of a full segment, bytes";
    handshake(handshake): Choice(), "how a connection begins: it exists; ns-2's 40-byte packet 0; SYN, SYN-ACK, ACK (RFC 9293, 3.5)";
    syn_timeout(syn_timeout): Time(ms(1), secs(120)), "first time-out of a SYN or SYN-ACK (RFC 6298, 2.1), then doubled";
    syn_retries(syn_retries): Open(0, "never"), "how often a SYN or SYN-ACK is sent again before the connection fails; `never`: it does not fail (RFC 9293, 3.8.3)";
    initial_window(initial_window): InitialWindow(), "window before the first acknowledgment of data, segments or by rule (RFC 3390, RFC 6928)";
    initial_ssthresh(initial_ssthresh): Ssthresh(), "ssthresh at the beginning, segments (RFC 5681, 3.1)";
    startup(startup): Choice(), "what the window does up to ssthresh (docs/reference/startups.md)";
    start_rtt(start.rtt): Time(Duration::ZERO, secs(60)), "the first round-trip time where no handshake measures it, for the start-ups that ask; 0s: unknown";
    slow_start_base(start.base): Real(1.1, 64.0), "slow start's factor per round trip: each ACK opens the window by so much less 1";
    burst_f(start.burst_f): Number(1, 1000), "B-TCP's f: the first round trip takes a 1/f of the way to the mice threshold (Gonçalves)";
    mice_threshold(start.mice_threshold): Number(2, 10_000), "B-TCP's mice threshold, segments: up to there it grows in its own way";
    burst_after(start.burst_after): Choice(), "B-TCP at the threshold: slow start up to ssthresh, or congestion avoidance at once";
    burst_step(start.burst_step): Choice(), "B-TCP's step: as its pseudo-code, none above the threshold; or as its ns-2 code";
    spread_floor(start.spread_floor): Time(Duration::ZERO, secs(1)), "Initial Spreading: a first window whose segments would lie closer leaves at once";
    max_ssthresh(start.max_ssthresh): Number(2, 1_000_000), "limited slow start: beyond, half of it per round trip at most, segments (RFC 3742)";
    smooth_depth(start.smooth_depth): Number(1, 16), "Smooth Start: it begins at ssthresh / 2^depth";
    smooth_grain(start.smooth_grain): Number(1, 1000), "Smooth Start: parts from there to ssthresh, each with slower growth";
    gallop_gamma(start.gallop_gamma): Number(1, 10_000), "Gallop-Vegas: more segments of its own queued end start-up";
    congestion(congestion): Choice(), "what it does from there on (docs/reference/congestion-controls.md)";
    alpha(cc.alpha): Real(0.001, 1000.0), "aimd: segments the window grows by in a round trip";
    beta(cc.beta): Real(0.01, 0.99), "aimd: what a loss leaves of the window";
    beta_lo(cc.beta_lo): Real(0.01, 0.99), "adaptive_aimd: the least factor";
    beta_hi(cc.beta_hi): Real(0.01, 0.99), "adaptive_aimd: the greatest factor (Shorten, Leith, section III)";
    beta_from(cc.beta_from): Choice(), "adaptive_aimd: the factor from round-trip times (equation 4) or from throughput (equation 10)";
    beta_rto(cc.beta_rto): Choice(), "adaptive_aimd: what a time-out leaves";
    fade(cc.fade): Choice(), "adaptive_aimd: towards what RTTmax fades at each back-off (equation 9)";
    gamma(cc.gamma): Real(0.0, 1.0), "adaptive_aimd: what of the distance stays then; 7/8 as in SRTT";
    min_samples(cc.min_samples): Number(1, 1000), "adaptive_aimd: round-trip samples before they are believed";
    rtt_scaling(cc.rtt_scaling): Choice(), "htcp: growth in proportion to the round-trip time (draft-leith-tcp-htcp)";
    vegas_alpha(cc.vegas_alpha): Number(0, 10_000), "vegas: with fewer segments of its own queued the window grows (Brakmo, Peterson; ns-2's v_alpha_)";
    vegas_beta(cc.vegas_beta): Number(0, 10_000), "vegas: with more it shrinks";
    vegas_gamma(cc.vegas_gamma): Number(0, 10_000), "vegas: with more slow start ends";
    recovery(recovery): Choice(), "how losses are repaired: Jacobson 1988, RFC 2581, RFC 6582, RFC 6675";
    dupthresh(dupthresh): Number(1, 1000), "duplicate ACKs that tell a loss (RFC 5681, 3.2)";
    limited_transmit(limited_transmit): Choice(), "the first two duplicate ACKs send new segments (RFC 3042)";
    dsack(dsack): Choice(), "duplicates are reported in SACK blocks (RFC 2883)";
    rack_tlp(rack_tlp): Choice(), "losses are told by time, and tails are probed (RFC 8985)";
    reduce_from(reduce_from): Choice(), "of what a loss takes its share: FlightSize (RFC 5681, equation 4) or the window that could be used";
    prr(prr): Choice(), "proportional rate reduction while recovering (RFC 6937)";
    impatient(impatient): Choice(), "only the first partial ACK restarts the timer (RFC 6582, 3.2 step 3)";
    restart_timer(restart_timer): Choice(), "a fast retransmission restarts the timer (ns-2, Linux; an option of RFC 6675, section 6), or lets it run (RFC 6298, section 5; ns-3)";
    rto_initial(rto.initial): Time(ms(1), secs(120)), "RTO before the first sample (RFC 6298, 2.1)";
    rto_min(rto.min): Time(Duration::ZERO, secs(120)), "floor of the RTO (RFC 6298, 2.4)";
    rto_floor(rto.floor): Choice(), "what the floor bounds: the RTO, or its term 4 * RTTVAR as in Linux";
    rto_max(rto.max): Time(ms(1), secs(600)), "cap of the backed-off RTO (RFC 6298, 2.5)";
    rto_granularity(rto.granularity): Time(Duration::ZERO, secs(1)), "clock granularity G (RFC 6298, 2.3)";
    rto_ticks(rto.ticks): Choice(), "samples and RTO are whole multiples of the granularity, as in old stacks";
    backoff_limit(rto.backoff_limit): Number(1, 1 << 20), "largest factor of the back-off";
    forget_above(rto.forget_above): Open(1, "never"), "SRTT is forgotten when the factor exceeds this (RFC 6298, section 5)";
    backoff_ends(rto.backoff_ends): Choice(), "what ends the back-off: a valid RTT sample (Karn; RFC 6298, section 5), or any ACK of new data";
    retries(rto.retries): Open(0, "never"), "time-outs in a row after which the connection fails (RFC 9293, 3.8.3)";
    rto_recovery(rto_recovery): Choice(), "after a time-out all is sent again, or what was not SACKed (RFC 6675, 5.1)";
    rtt_sampling(rtt_sampling): Choice(), "which segments are timed where there are no timestamps (RFC 6298, section 3)";
    timestamps(timestamps): Choice(), "timestamps option (RFC 7323): every ACK gives a sample";
    ecn(ecn): Choice(), "explicit congestion notification (RFC 3168)";
    byte_counting(byte_counting): ByteCounting(), "what an ACK counts for: one segment, or its bytes, in slow start up to so many segments (RFC 3465)";
    restart_after_idle(restart_after_idle): Choice(), "after an idle RTO the window is at most the initial one (RFC 5681, 4.1)";
    grow_if_used(grow_if_used): Choice(), "the window grows only if it was used (RFC 7661; RFC 9438, 5.8)";
    delayed_ack(delayed_ack): DelayedAck(), "an ACK for every so many full segments (RFC 5681, 4.2)";
    delayed_ack_timeout(delayed_ack): AckTimeout(), "and after this time at the latest";
    quick_acks(delayed_ack): QuickAcks(), "segments acknowledged at once at the beginning of a connection";
    push_every(push_every): Open(1, "never"), "PSH on every so many segments that leave together, and at once an ACK for it (Linux)";
    receive_window(receive_window): Number(1, MOST_WINDOW), "receive window, bytes (ns-2's window_)";
}

/// RFC 5681, section 4.2: an ACK is never delayed for longer.
const MOST_DELAY: Duration = ms(500);

impl Key {
    /// The value in `config`, as [`Config::set`] reads it; `-` where another key has switched it off.
    #[must_use]
    pub fn value(&self, config: &Config) -> String {
        let mut c = *config;
        match (self.slot)(&mut c) {
            Slot::Choice(v) => v.word().to_owned(),
            Slot::Number(v, ..) => v.to_string(),
            Slot::Real(v, ..) => v.to_string(),
            Slot::Open(v, _, word) => number_or(*v, word),
            Slot::Time(v, ..) => time(*v),
            Slot::InitialWindow(InitialWindow::Segments(n)) => n.to_string(),
            Slot::InitialWindow(InitialWindow::Rfc3390) => "rfc3390".to_owned(),
            Slot::InitialWindow(InitialWindow::Rfc6928) => "rfc6928".to_owned(),
            Slot::Ssthresh(v) if v.is_finite() => v.to_string(),
            Slot::Ssthresh(_) => ENDLESS.to_owned(),
            Slot::ByteCounting(ByteCounting::PerAck) => "per_ack".to_owned(),
            Slot::ByteCounting(ByteCounting::Abc { limit }) => number_or(*limit, ENDLESS),
            Slot::DelayedAck(v) => v.map_or_else(|| OFF.to_owned(), |d| d.every.to_string()),
            Slot::AckTimeout(v) => v.map_or_else(|| "-".to_owned(), |d| time(d.timeout)),
            Slot::QuickAcks(v) => v.map_or_else(|| "-".to_owned(), |d| d.quick.to_string()),
        }
    }

    /// What values are allowed, in words.
    #[must_use]
    pub fn range(&self) -> String {
        let mut c = Config::default();
        match (self.slot)(&mut c) {
            Slot::Choice(v) => v.words().join(" or "),
            Slot::Number(_, low, high) => format!("{low} to {high}"),
            Slot::Real(_, low, high) => format!("{low} to {high}"),
            Slot::Open(_, low, word) => format!("{low} and more, or {word}"),
            Slot::Time(_, low, high) => format!("{} to {}", time(low), time(high)),
            Slot::InitialWindow(_) => "1 to 10000, rfc3390 or rfc6928".to_owned(),
            Slot::Ssthresh(_) => format!("2 and more, or {ENDLESS}"),
            Slot::ByteCounting(_) => format!("per_ack, 1 and more, or {ENDLESS}"),
            Slot::DelayedAck(_) => format!("{OFF}, or 1 to 64"),
            Slot::AckTimeout(_) => format!("{} to {}, with delayed_ack on", time(ms(1)), time(MOST_DELAY)),
            Slot::QuickAcks(_) => "0 to 1000000, with delayed_ack on".to_owned(),
        }
    }

    pub(super) fn set(&self, config: &mut Config, value: &str) -> Result<(), ConfigError> {
        let text = value.trim();
        let done = match (self.slot)(config) {
            Slot::Choice(v) => v.put(text).then_some(()),
            Slot::Number(v, low, high) => put(v, number(text, low, high)),
            Slot::Real(v, low, high) => put(v, real(text, low, high)),
            Slot::Open(v, low, word) => put(v, open(text, low, word)),
            Slot::Time(v, low, high) => put(v, read_time(text, low, high)),
            Slot::InitialWindow(v) => put(v, read_initial_window(text)),
            Slot::Ssthresh(v) => put(
                v,
                if text == ENDLESS { Some(f64::INFINITY) } else { number(text, 2, u32::MAX).map(f64::from) },
            ),
            Slot::ByteCounting(v) if text == "per_ack" => put(v, Some(ByteCounting::PerAck)),
            Slot::ByteCounting(v) => put(v, open(text, 1, ENDLESS).map(|limit| ByteCounting::Abc { limit })),
            Slot::DelayedAck(v) => set_delayed_ack(v, text),
            Slot::AckTimeout(v) => {
                v.as_mut().and_then(|d| put(&mut d.timeout, read_time(text, ms(1), MOST_DELAY)))
            }
            Slot::QuickAcks(v) => v.as_mut().and_then(|d| put(&mut d.quick, number(text, 0, 1_000_000))),
        };
        done.ok_or_else(|| ConfigError {
            key: self.name.to_owned(),
            value: value.to_owned(),
            expected: self.range(),
        })
    }
}

/// A preset by its name.
pub(super) fn preset(text: &str) -> Result<Preset, ConfigError> {
    let mut preset = Preset::default();
    if preset.put(text) {
        return Ok(preset);
    }
    Err(ConfigError {
        key: "preset".to_owned(),
        value: text.to_owned(),
        expected: preset.words().join(" or "),
    })
}

fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

fn number(text: &str, low: u32, high: u32) -> Option<u32> {
    text.parse().ok().filter(|n| (low..=high).contains(n))
}

/// `2` or `0.875`.
fn real(text: &str, low: f64, high: f64) -> Option<f64> {
    let plain = text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.parse().ok().filter(|n| plain && (low..=high).contains(n))
}

fn open(text: &str, low: u32, word: &str) -> Option<u32> {
    if text == word { Some(u32::MAX) } else { number(text, low, u32::MAX - 1) }
}

fn number_or(n: u32, word: &str) -> String {
    if n == u32::MAX { word.to_owned() } else { n.to_string() }
}

fn read_initial_window(text: &str) -> Option<InitialWindow> {
    match text {
        "rfc3390" => Some(InitialWindow::Rfc3390),
        "rfc6928" => Some(InitialWindow::Rfc6928),
        _ => number(text, 1, 10_000).map(InitialWindow::Segments),
    }
}

/// Switching delayed ACKs on gives the timeout most stacks have, and no quick ACKs.
fn set_delayed_ack(place: &mut Option<DelayedAck>, text: &str) -> Option<()> {
    if text == OFF {
        return put(place, Some(None));
    }
    let every = number(text, 1, 64)?;
    place.get_or_insert(DelayedAck { every, timeout: ms(200), quick: 0 }).every = every;
    Some(())
}

/// `3`, `3s`, `0.2`, `200ms`: seconds where no unit stands, at most six places.
fn read_time(text: &str, low: Duration, high: Duration) -> Option<Duration> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1_000_000),
        None => (text.strip_suffix('s').unwrap_or(text), 1_000_000_000),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 6 {
        return None;
    }
    let part: u64 = format!("{part:0<6}").parse().ok()?;
    let ns = whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(part * unit / 1_000_000)?;
    Some(Duration::from_nanos(ns)).filter(|t| (low..=high).contains(t))
}

fn time(t: Duration) -> String {
    let (ms, part) = (t.as_millis(), t.as_nanos() % 1_000_000);
    match (ms % 1000, part) {
        (0, 0) => format!("{}s", ms / 1000),
        (_, 0) => format!("{ms}ms"),
        _ => format!("{ms}.{}ms", format!("{part:06}").trim_end_matches('0')),
    }
}

/// The keys as `--help` shows them.
pub(super) fn help() -> String {
    let plain = Config::default();
    KEYS.iter().fold(String::new(), |mut text, k| {
        let _ = writeln!(text, "  {:<20} {} [{}; {}]", k.name, k.doc, k.value(&plain), k.range());
        text
    })
}

/// The keys as a table in Markdown, with their value in each preset.
pub(super) fn markdown() -> String {
    let [ns2, linux, rfc] = [Preset::Ns2, Preset::Linux, Preset::Rfc].map(Config::preset);
    let mut text = String::from(
        "| key | `ns2` | `linux` | `rfc` | values | meaning, source |\n|---|---|---|---|---|---|\n",
    );
    for k in KEYS {
        let (a, b, c) = (k.value(&ns2), k.value(&linux), k.value(&rfc));
        let _ = writeln!(text, "| `{}` | {a} | {b} | {c} | {} | {} |", k.name, k.range(), k.doc);
    }
    text
}
