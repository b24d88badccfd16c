//! Settings that contradict each other.

use narrows_units::Duration;

use super::{BurstAfter, BurstStep, CcKind, Config, Handshake, Recovery, RttSampling, StartupKind};

/// A key, whether its value makes no sense beside the others, and what is expected instead.
type Check = (&'static str, bool, &'static str);

/// The first key whose value makes no sense beside the others, and what is expected instead.
pub(super) fn contradiction(config: &Config) -> Option<(&'static str, &'static str)> {
    let mut checks = sender(config).into_iter().chain(startup(config));
    checks.find(|check| check.1).map(|(key, _, expected)| (key, expected))
}

/// Recovery, timers, and what congestion control or start-up needs of them.
fn sender(config: &Config) -> [Check; 12] {
    let sack = config.recovery == Recovery::Sack;
    let few_samples = config.rtt_sampling == RttSampling::OneAtATime && !config.timestamps;
    let by_delay = matches!(config.congestion, CcKind::AdaptiveAimd | CcKind::Vegas);
    let no_tick = config.rto.ticks && config.rto.granularity == Duration::ZERO;
    let (rto, cc) = (&config.rto, &config.cc);
    let offered = u32::from(config.window_field(false)) << config.window_shift();
    [
        ("dsack", config.dsack && !sack, "recovery = sack: duplicates are reported in SACK blocks"),
        ("rack_tlp", config.rack_tlp && !sack, "recovery = sack: RACK needs to know what arrived"),
        ("prr", config.prr.is_on() && !sack, "recovery = sack: it counts what arrived"),
        ("rto_min", rto.min > rto.max, "at most rto_max"),
        ("rto_initial", rto.initial > rto.max, "at most rto_max"),
        ("rto_ticks", no_tick, "rto_granularity above 0"),
        ("receive_window", config.receive_window < config.mss, "at least mss, or no full segment fits"),
        ("window_scale", offered < config.mss, "one with which a window of at least mss can be told"),
        (
            "startup",
            config.startup == StartupKind::HyStart && few_samples,
            "rtt_sampling = every_segment or timestamps = on: HyStart++ needs eight samples a round",
        ),
        ("beta_lo", cc.beta_lo > cc.beta_hi, "at most beta_hi"),
        ("vegas_alpha", cc.vegas_alpha > cc.vegas_beta, "at most vegas_beta"),
        (
            "congestion",
            by_delay && few_samples,
            "rtt_sampling = every_segment or timestamps = on: one sample a round says too little about the queue",
        ),
    ]
}

/// Checks of start-ups and of the start-ups' settings.
fn startup(config: &Config) -> [Check; 3] {
    let start = &config.start;
    let unknown_rtt = config.handshake == Handshake::None && start.rtt == Duration::ZERO;
    [
        (
            "startup",
            config.startup == StartupKind::Spreading && unknown_rtt,
            "start_rtt above 0 with handshake = none: nothing else gives the first round trip",
        ),
        (
            "initial_ssthresh",
            config.startup == StartupKind::Adaptive && config.initial_ssthresh.is_infinite(),
            "a number with startup = adaptive: it raises ssthresh from there",
        ),
        (
            "burst_after",
            start.burst_after == BurstAfter::Avoidance && start.burst_step == BurstStep::Ns2,
            "slow_start with burst_step = ns2: that code stays at the mice threshold",
        ),
    ]
}
