//! Estimates of an adaptive AIMD sender, by the model's equations and by the simulator's control: two independent
//! writings of (4), (5), (9) and (10), on the same round-trip times and losses.

use narrows_models::aimd::estimate::{Fade, Reset, ThroughputBackoff};
use narrows_models::aimd::{BackoffRange, backoff, increase};
use narrows_tcp::Config;
use narrows_tcp::cc::{AdaptiveAimd, CongestionControl, DeliverySample, Window};
use narrows_units::{Duration, Instant};

fn config(more: &str) -> Config {
    format!("rfc:congestion=adaptive_aimd,rtt_sampling=every_segment{more}").parse().unwrap()
}

fn deliver(cc: &mut AdaptiveAimd, config: &Config, now_ns: u64, rtt_ns: u64) {
    let mut window = Window { cwnd: 1.0, ssthresh: 1.0 };
    let rtt = Some(Duration::from_nanos(rtt_ns));
    let delivery = DeliverySample { now: Instant::from_nanos(now_ns), segments: 1, rtt, open: true };
    cc.on_delivery(&mut window, config, &delivery);
}

/// A loss with a window of 1000 segments: what is left of it, as a share.
fn lose(cc: &mut AdaptiveAimd, config: &Config) -> f64 {
    let mut window = Window { cwnd: 1000.0, ssthresh: 0.0 };
    cc.on_loss(&mut window, config, Instant::ZERO, 1000.0);
    window.ssthresh / 1000.0
}

/// (4), (5) and both readings of (9) over random round-trip times, with 8 to 60 samples between losses.
#[test]
fn round_trip_times() {
    for (text, fade) in [
        ("", Fade::PAPER),
        (",gamma=0.95", Fade::TowardsMin { gamma: 0.95 }),
        (",fade=srtt", Fade::TowardsSrtt { gamma: 0.875 }),
    ] {
        for seed in 0..50 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (config, mut cc) = (config(text), AdaptiveAimd::default());
            let (base, queue) = (rng.u64(5_000_000..300_000_000), rng.u64(1_000_000..400_000_000));
            let (mut least, mut smooth, mut greatest) = (f64::INFINITY, 0.0, 0.0_f64);
            for event in 0..60 {
                for _ in 0..rng.u64(8..60) {
                    let rtt = base + rng.u64(0..queue);
                    deliver(&mut cc, &config, 0, rtt);
                    let rtt = rtt as f64;
                    least = least.min(rtt);
                    smooth = if smooth == 0.0 { rtt } else { smooth + (rtt - smooth) / 8.0 };
                    greatest = greatest.max(smooth);
                }
                let left = lose(&mut cc, &config);
                // The first ends slow start and halves.
                let due =
                    if event == 0 { 0.5 } else { backoff(least, greatest, BackoffRange::PAPER).unwrap() };
                greatest = fade.apply(least, smooth, greatest).unwrap();
                let estimates = cc.estimates().unwrap();
                let told = format!("seed {seed}, {fade:?}, loss {event}: {left}, {due}, {estimates:?}");
                assert!((left - due).abs() < 1e-9, "{told}");
                assert!((estimates.alpha - increase(due).unwrap()).abs() < 1e-9, "{told}");
                assert!((estimates.rtt_max.as_nanos() as f64 - greatest).abs() < 2.0, "{told}");
            }
        }
    }
}

/// (10) over rounds of 100 ms that carry 20 to 60 segments before a loss and at most as many after it. Throughput
/// before a loss changes by less than a fifth and there are fewer than 50 losses, so neither begins anew: the control
/// does so at the loss that shows a change, the model, which is asked for the next factor, at the one after.
#[test]
fn throughput() {
    for seed in 0..50 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (config, mut cc) = (config(",beta_from=throughput"), AdaptiveAimd::default());
        let mut now = 0;
        let mut round = |cc: &mut AdaptiveAimd, segments: u64| {
            (0..segments).for_each(|i| deliver(cc, &config, now + i * 100_000_000 / segments, 100_000_000));
            now += 100_000_000;
        };
        let mut model = ThroughputBackoff::new(BackoffRange::PAPER, Some(Reset::HTCP));
        let mut before = rng.u64(20..60);
        (0..3).for_each(|_| round(&mut cc, before));
        for event in 0..45 {
            let left = lose(&mut cc, &config);
            assert!((left - model.beta()).abs() < 1e-9, "seed {seed}, loss {event}: {left}, {model:?}");
            let after = rng.u64(before / 2..=before);
            // The round under way, two of the pause, the one that counts; then the link is busy again.
            let next = (before * rng.u64(90..110) / 100).clamp(20, 60);
            for segments in [before, before, after, next, next, next] {
                round(&mut cc, segments);
            }
            model.on_congestion(before as f64 * 10.0, after as f64 * 10.0).unwrap();
            before = next;
        }
    }
}
