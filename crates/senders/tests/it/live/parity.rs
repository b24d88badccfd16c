//! The kernel's programs and the simulator's laws on the same sequence of calls: what a real connection's kernel tells
//! its sender, told again to `narrows-tcp`. Windows are compared after every call.
//!
//! Recovery sets the window by itself in between, here as there; where it has, both go on from the kernel's window.
//! What is left towards the next segment the kernel forgets at a loss and the simulator keeps: a segment at most.

use std::time::Duration;

use narrows_senders::{Call, CallStep, Sender, WatchedSender};
use narrows_tcp::cc::{AckSample, AdaptiveAimd, CongestionControl, DeliverySample, Reno, Window};
use narrows_tcp::startup::{Burst, FirstRtt, SlowStart, Startup};
use narrows_tcp::{Config, Preset, Settings as _};
use narrows_units::{Duration as Time, Instant};

use crate::live::late::until_undisturbed;
use crate::live::world::{World, can_run, connect, push};

/// The event of a timeout among the kernel's `enum tcp_ca_event`.
const CA_EVENT_LOSS: i32 = 3;
/// The kernel's threshold before any loss.
const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// The kernel's least timeout.
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);

/// How long nothing arrives, where a timeout is wanted: longer than the least timeout of 200 ms, shorter than two.
const SILENCE: Duration = Duration::from_millis(350);

/// Records the kernel's calls to the sender of a connection that sends `bytes`. Nothing arrives for [`SILENCE`] from
/// `silent_from` on, if given; zero loses the SYN.
pub fn record(
    world: &mut World,
    sender: Sender,
    knobs: &[&str],
    port: u16,
    bytes: usize,
    mut silent_from: Option<Duration>,
) -> Vec<CallStep> {
    let (name, mut watch): (_, WatchedSender) = world.watch(sender, knobs);
    let sink = world.sink(port, 1);
    let syn_lost = silent_from.take_if(|from| from.is_zero()).is_some();
    world.heard(!syn_lost);
    let source = world.inside("s", move || push(&mut connect(&name, port), bytes));
    if syn_lost {
        std::thread::sleep(SILENCE);
        world.heard(true);
    }
    let (began, mut steps) = (std::time::Instant::now(), Vec::new());
    while !sink.is_finished() {
        std::thread::sleep(Duration::from_millis(20));
        if silent_from.take_if(|from| began.elapsed() > *from).is_some() {
            world.silence(SILENCE);
        }
        steps.extend(watch.steps().unwrap());
    }
    source.join().unwrap();
    assert_eq!(sink.join().unwrap(), [bytes as u64]);
    for (n, step) in steps.iter().enumerate() {
        assert_eq!(step.number as usize, n, "steps were lost");
        assert_eq!(step.socket, steps[0].socket, "only one connection uses it");
    }
    steps
}

/// The simulator's side of one connection.
struct Twin<C> {
    config: Config,
    window: Window,
    /// The kernel's window and threshold after the last call.
    last: (u32, u32),
    /// When the last call returned.
    returned: u64,
    cc: C,
}

/// Result of the comparison: what was compared, and the largest differences.
#[derive(Debug, Default)]
struct Found {
    /// Calls in which the window could grow.
    acks: usize,
    /// Losses, and timeouts among them.
    losses: usize,
    timeouts: usize,
    /// Largest distance of windows, in segments.
    window: f64,
    /// Largest distance of thresholds from the same window, in segments.
    threshold: f64,
    /// Most segments that one ACK covered.
    stretch: i32,
    /// Longest time without a call after which the window had moved, in milliseconds.
    idle_ms: f64,
}

impl Found {
    /// Whether there was enough to judge: acknowledgments, losses within bounds, a timeout. What there was depends on
    /// when segments and ACKs came, which is the machine's affair as well.
    fn enough(&self, acks: usize, losses: (usize, usize), timeout: bool) -> Result<(), String> {
        let (least, most) = losses;
        if self.idle_ms > 0.0 {
            return Err(format!("nothing was sent for {:.0} ms", self.idle_ms));
        }
        match self {
            Self { acks: n, .. } if *n <= acks => Err(format!("only {n} ACKs let the window grow")),
            Self { losses: n, .. } if !(least..=most).contains(n) => Err(format!("{n} losses came")),
            Self { timeouts: 0, .. } if timeout => Err("no timeout came".to_owned()),
            _ => Ok(()),
        }
    }
}

/// How many of the steps a lost SYN caused: no round trip has been measured yet, and the sender begins after it.
fn of_the_handshake(steps: &[CallStep]) -> usize {
    steps.iter().take_while(|step| step.srtt_us == 0).count()
}

impl<C> Twin<C> {
    fn new(config: Config, steps: &[CallStep], cc: C) -> Self {
        let first = &steps[of_the_handshake(steps)];
        let window = Window { cwnd: f64::from(first.cwnd), ssthresh: f64::INFINITY };
        Self { config, window, last: (first.cwnd, first.ssthresh), returned: first.at_ns, cc }
    }

    /// Goes on from the kernel's windows if recovery has set them, or the kernel itself after a timeout's length
    /// without anything to send (RFC 2861).
    fn follow(&mut self, step: &CallStep, found: &mut Found) {
        if self.last == (step.cwnd, step.ssthresh) {
            return;
        }
        if found.losses == 0 {
            let idle = Duration::from_nanos(step.at_ns - self.returned);
            assert!(idle >= LEAST_TIMEOUT, "the window moved between calls: {:?}, {step:?}", self.last);
            found.idle_ms = found.idle_ms.max(idle.as_secs_f64() * 1e3);
        }
        self.window.cwnd = f64::from(step.cwnd);
        self.window.ssthresh =
            if step.ssthresh >= NO_THRESHOLD { f64::INFINITY } else { f64::from(step.ssthresh) };
    }

    /// Translates an acknowledgment of `acked` segments into the simulator's sample.
    fn sample(step: &CallStep, acked: u32) -> AckSample {
        AckSample {
            now: at(step),
            acked: u64::from(acked) * 1448,
            credit: f64::from(acked),
            by_bytes: true,
            rtt: None,
            srtt: Time::from_micros(step.srtt_us.into()),
            in_flight: step.cwnd,
            window_limited: step.used,
        }
    }
}

fn at(step: &CallStep) -> Instant {
    Instant::ZERO + Time::from_nanos(step.at_ns)
}

/// Plays all calls to a twin: `ack` grows its window, `loss` sets its threshold (true for a timeout), `rtt` takes a
/// sample.
fn compare<C>(
    twin: &mut Twin<C>,
    steps: &[CallStep],
    ack: impl Fn(&mut Twin<C>, &CallStep),
    loss: impl Fn(&mut Twin<C>, &CallStep, bool),
    rtt: impl Fn(&mut Twin<C>, &CallStep),
) -> Found {
    let mut found = Found::default();
    // Threshold that a timeout sets in the simulator, until the kernel has told of its own.
    let mut rto_threshold = None;
    let calls: Vec<_> = steps[of_the_handshake(steps)..].chunks_exact(2).collect();
    for (n, call) in calls.iter().enumerate() {
        let [begin, end] = call else { unreachable!("pairs") };
        assert!(begin.call == end.call && !begin.returned && end.returned, "{begin:?} {end:?}");
        twin.follow(begin, &mut found);
        match begin.call {
            Call::CongAvoid => {
                found.stretch = found.stretch.max(begin.value);
                if begin.used {
                    ack(twin, begin);
                    found.acks += 1;
                }
                // B-TCP keeps a part of a segment besides.
                let part = if begin.private[0] == 1 { f64::from(end.private[1]) / 1_048_576.0 } else { 0.0 };
                found.window = found.window.max((twin.window.cwnd - f64::from(end.cwnd) - part).abs());
            }
            Call::Ssthresh => {
                let timeout = calls
                    .get(n + 1)
                    .is_some_and(|next| next[0].call == Call::CwndEvent && next[0].value == CA_EVENT_LOSS);
                loss(twin, begin, timeout);
                found.losses += 1;
                found.timeouts += usize::from(timeout);
                // Whole segments, at least two: the sender's rule, not the law's.
                let whole = twin.window.ssthresh.floor().max(2.0);
                if timeout {
                    rto_threshold = Some(whole);
                } else {
                    found.threshold = found.threshold.max((whole - f64::from(end.value)).abs());
                }
            }
            Call::PktsAcked => rtt(twin, begin),
            Call::CwndEvent => {
                if let Some(whole) = rto_threshold.take() {
                    found.threshold = found.threshold.max((whole - f64::from(end.ssthresh)).abs());
                }
            }
            Call::MinTsoSegs => unreachable!("neither law is asked"),
        }
        // After a loss the kernel's windows hold, also where it takes the loss back and they are what they were.
        twin.returned = end.at_ns;
        twin.last = if begin.call == Call::Ssthresh { (0, 0) } else { (end.cwnd, end.ssthresh) };
    }
    found
}

/// B-TCP's windows of these calls.
fn burst(steps: &[CallStep], f: u32) -> Found {
    let mut config = Config::preset(Preset::Linux);
    config.set("burst_f", &f.to_string()).unwrap();
    let mut twin = Twin::new(config, steps, (Burst::default(), Reno::default()));
    if of_the_handshake(steps) > 0 {
        twin.cc.0.on_established(&mut twin.window, FirstRtt::SynLost, &twin.config);
    }
    compare(
        &mut twin,
        steps,
        |twin, step| {
            let sample = Twin::<()>::sample(step, u32::try_from(step.value).unwrap());
            if twin.window.cwnd < twin.window.ssthresh {
                twin.cc.0.on_ack(&mut twin.window, &sample, &twin.config);
            } else {
                twin.cc.1.on_ack(&mut twin.window, &twin.config, &sample);
            }
        },
        |twin, step, timeout| {
            twin.cc.0.on_loss();
            let base = step.cwnd.into();
            match timeout {
                true => twin.cc.1.on_rto(&mut twin.window, &twin.config, at(step), base),
                false => twin.cc.1.on_loss(&mut twin.window, &twin.config, at(step), base),
            }
        },
        |_, _| {},
    )
}

#[test]
fn burst_tcp_is_the_simulators_step_by_step() {
    const TEST: &str = "burst_tcp_is_the_simulators_step_by_step";
    if !can_run(TEST) {
        return;
    }
    let silent = Some(Duration::from_millis(500));
    for (loss, segments, silent_from) in [(0.0, 400, None), (0.02, 600, None), (0.0, 1200, silent)] {
        let mut world = World::lossy(Duration::from_millis(20), loss);
        if silent_from.is_some() {
            // Slow enough to be under way when the silence comes, with room for all that slow start sends.
            world.thin(10, 3_000_000);
        }
        for (port, f) in [(5601, 4), (5602, 8)] {
            let f_text = format!("f={f}");
            let what = format!("f = {f}, {loss} lost, silence from {silent_from:?}");
            until_undisturbed(TEST, &what, || {
                let steps = record(&mut world, Sender::Btcp, &[&f_text], port, 1448 * segments, silent_from);
                let found = burst(&steps, f);
                println!("B-TCP {what}: {found:?}");
                assert!(found.window <= 1.0 && found.threshold <= 1.0, "f = {f}: {found:?}");
                let losses = loss > 0.0 || silent_from.is_some();
                found.enough(50, if losses { (1, usize::MAX) } else { (0, 0) }, silent_from.is_some())
            });
        }
    }
}

/// A lost SYN is a loss: plain TCP follows, from the window that the kernel begins with.
#[test]
fn a_lost_syn_ends_burst_tcp_here_and_there() {
    const TEST: &str = "a_lost_syn_ends_burst_tcp_here_and_there";
    if !can_run(TEST) {
        return;
    }
    let mut world = World::new(Duration::from_millis(20));
    until_undisturbed(TEST, "f = 8", || {
        let steps = record(&mut world, Sender::Btcp, &["f=8"], 5603, 1448 * 400, Some(Duration::ZERO));
        assert!(of_the_handshake(&steps) > 0, "{:?}", steps[0]);
        let found = burst(&steps, 8);
        println!("B-TCP without its first SYN: {found:?}");
        assert!(found.window <= 1.0 && found.threshold <= 1.0, "{found:?}");
        found.enough(50, (0, usize::MAX), false)
    });
}

/// Adaptive AIMD, and how far apart its greatest smoothed round-trip time and the kernel's are.
///
/// It smooths the samples that its sender is told of. The kernel smooths those of the oldest segment that an ACK covers
/// and those of recovery, and tells of the newest: where ACKs come joined, as on a busy machine, the two differ, and
/// with them what is decided rightly.
#[derive(Debug)]
struct Adaptive {
    law: AdaptiveAimd,
    /// Smoothed RTT of the simulator, then the greatest smoothed RTT of simulator and kernel, then the least sample;
    /// all in microseconds.
    srtt_us: Option<f64>,
    greatest_us: [f64; 2],
    least_us: f64,
    /// Largest distance of the two at a back-off.
    apart_us: f64,
    /// Segments acknowledged since a loss, each in parts of the window it came in; the most.
    round_trips: f64,
    most_round_trips: f64,
    /// The largest window at a loss.
    largest: f64,
}

impl Adaptive {
    fn new() -> Self {
        Self {
            law: AdaptiveAimd::default(),
            srtt_us: None,
            greatest_us: [0.0; 2],
            least_us: f64::INFINITY,
            apart_us: 0.0,
            round_trips: 0.0,
            most_round_trips: 0.0,
            largest: 0.0,
        }
    }

    /// A sample of the round-trip time.
    fn sample(&mut self, rtt_us: f64, step: &CallStep) {
        // RFC 6298, section 2: the first sample, then a gain of 1/8.
        let srtt = self.srtt_us.map_or(rtt_us, |srtt| srtt + (rtt_us - srtt) / 8.0);
        self.srtt_us = Some(srtt);
        self.least_us = self.least_us.min(rtt_us);
        let [ours, kernels] = self.greatest_us;
        self.greatest_us = [ours.max(srtt), kernels.max(step.srtt_us.into())];
    }

    /// A loss that is no timeout: both fade (9).
    fn back_off(&mut self) {
        let [ours, kernels] = self.greatest_us;
        self.apart_us = self.apart_us.max((ours - kernels).abs());
        self.greatest_us =
            self.greatest_us.map(|greatest| self.least_us + 0.875 * (greatest - self.least_us));
    }

    /// Largest difference of factors that the two RTTs explain: RTTmin/RTTmax (4), where RTTmax is at least RTTmin.
    fn slack(&self) -> f64 {
        self.apart_us / self.least_us
    }
}

/// Largest slack between the factors; beyond it little would be judged.
const LARGEST_SLACK: f64 = 0.02;

#[test]
fn adaptive_aimd_is_the_simulators_step_by_step() {
    const TEST: &str = "adaptive_aimd_is_the_simulators_step_by_step";
    if !can_run(TEST) {
        return;
    }
    // A bandwidth-delay product of 33 packets and half of it as buffer; losses that are no sign of a queue; a timeout.
    let silent = Some(Duration::from_secs(3));
    for (loss, bytes, silent_from) in
        [(0.0, 6_000_000, None), (0.02, 1_000_000, None), (0.0, 6_000_000, silent)]
    {
        let mut world = World::lossy(Duration::from_millis(20), loss);
        world.thin(10, 17 * 1514);
        let what = format!("{loss} lost, silence from {silent_from:?}");
        until_undisturbed(TEST, &what, || {
            let steps = record(&mut world, Sender::Aaimd, &[], 5611, bytes, silent_from);
            adaptive(&steps, &what, silent_from.is_some())
        });
    }
}

/// Judges adaptive AIMD's decisions; says what the machine did if there is less to judge than there should be.
fn adaptive(steps: &[CallStep], what: &str, timeouts: bool) -> Result<(), String> {
    let mut config = Config::preset(Preset::Linux);
    for (key, value) in [("min_samples", "8"), ("beta_hi", "0.8"), ("gamma", "0.875")] {
        config.set(key, value).unwrap();
    }
    let mut twin = Twin::new(config, steps, Adaptive::new());
    let found = compare(
        &mut twin,
        steps,
        |twin, step| {
            // The kernel hands what slow start leaves of an ACK to congestion avoidance: so one by one.
            for _ in 0..step.value {
                let sample = Twin::<()>::sample(step, 1);
                if twin.window.cwnd < twin.window.ssthresh {
                    SlowStart.on_ack(&mut twin.window, &sample, &twin.config);
                } else {
                    twin.cc.law.on_ack(&mut twin.window, &twin.config, &sample);
                }
            }
            twin.cc.round_trips += f64::from(step.value) / f64::from(step.cwnd);
            twin.cc.most_round_trips = twin.cc.most_round_trips.max(twin.cc.round_trips);
        },
        |twin, step, timeout| {
            let base = step.cwnd.into();
            match timeout {
                true => twin.cc.law.on_rto(&mut twin.window, &twin.config, at(step), base),
                false => {
                    twin.cc.back_off();
                    twin.cc.law.on_loss(&mut twin.window, &twin.config, at(step), base);
                }
            }
            twin.cc.round_trips = 0.0;
            twin.cc.largest = twin.cc.largest.max(base);
        },
        |twin, step| {
            if step.value > 0 {
                let rtt = Some(Time::from_micros(step.value.cast_unsigned().into()));
                let delivery = DeliverySample { now: at(step), segments: 1, rtt, open: true };
                twin.cc.law.on_delivery(&mut twin.window, &twin.config, &delivery);
                twin.cc.sample(f64::from(step.value), step);
            }
        },
    );
    let beta = steps.last().map_or(0.0, |s| f64::from(s.private[0]) / 65536.0);
    let theirs = twin.cc.law.estimates().unwrap().beta;
    let slack = twin.cc.slack();
    println!("adaptive AIMD, {what}: {found:?}; beta {beta}, in the simulator {theirs}, slack {slack:.5}");
    // alpha = 2 (1 - beta) segments a round trip (5).
    assert!(found.window <= 1.0 + 2.0 * slack * twin.cc.most_round_trips, "{found:?}, slack {slack}");
    assert!(found.threshold <= 1.0 + slack * twin.cc.largest, "{found:?}, slack {slack}");
    assert!((beta - theirs).abs() < 0.001 + slack, "{beta} {theirs}, slack {slack}");
    if slack > LARGEST_SLACK {
        let apart = twin.cc.apart_us / 1e3;
        return Err(format!("the greatest round-trip times were {apart:.1} ms apart, as ACKs came joined"));
    }
    found.enough(100, (2, usize::MAX), timeouts)
}
