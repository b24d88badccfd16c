//! Each preset has the figures of `narrows sim` for the file that the page offers, digit for digit.

use core::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use narrows_explore::{PRESETS, Settings, Which, side, toml};
use narrows_runner::{RunOptions, RunPlan, execute, simulate};
use narrows_testing::Scratch;

#[test]
fn every_preset_gives_the_figures_of_narrows_sim_digit_for_digit() {
    let place = Scratch::new("explore-presets");
    for preset in PRESETS {
        let settings = Settings::read(&preset.values()).unwrap();
        assert_eq!(settings.problems(), [], "{}", preset.key);
        let file = place.join(format!("{}.toml", preset.key));
        std::fs::write(&file, toml(&settings)).unwrap();
        let (plan, ignored) = RunPlan::load(&file, &[]).unwrap();
        assert_eq!(ignored, Vec::<String>::new(), "{}", preset.key);
        let options = RunOptions { out: place.join(preset.key), jobs: 2, fresh: true };
        let report = execute(&plan, &options, &simulate, &AtomicBool::new(false), &|_| {}).unwrap();
        assert_eq!(report.summaries.len(), 2, "{}: two queues, one seed", preset.key);
        for (which, expected) in [Which::A, Which::B].into_iter().zip(&report.summaries) {
            let found = side(&settings, which, None, &mut |_| ControlFlow::Continue(())).unwrap();
            assert_eq!(found.summary.len(), expected.len(), "{} {}", preset.key, found.queue);
            for (name, value) in expected {
                assert_eq!(
                    found.summary[name].to_bits(),
                    value.to_bits(),
                    "{} {} {name}",
                    preset.key,
                    found.queue
                );
            }
            // Through JSON, as the page has them, no digit is lost.
            let text = serde_json::to_string(&found).unwrap();
            let read: serde_json::Value = serde_json::from_str(&text).unwrap();
            for (name, value) in expected {
                let shown = read["summary"][name].as_f64().unwrap();
                assert_eq!(shown.to_bits(), value.to_bits(), "{} {name} as JSON", preset.key);
            }
        }
    }
}

/// Drawings agree with the figures: bytes, stalls, the link's time, the packets of a user.
#[test]
fn drawings_add_up_to_the_figures() {
    let settings = Settings { seconds: 40, ..Settings::default() };
    for which in [Which::A, Which::B] {
        let found = side(&settings, which, None, &mut |_| ControlFlow::Continue(())).unwrap();
        let bytes: f64 = found.bytes.iter().map(|b| f64::from(*b)).sum();
        let goodput = found.summary["goodput_bps"] / 8.0 * 40.0;
        assert!(
            (bytes / goodput - 1.0).abs() < 0.002,
            "{which:?}: {bytes} of {goodput} bytes in the heat map"
        );
        // The longest black bar is the longest stall; a shorter one than 5 s is not drawn.
        let longest = found.stalls.iter().map(|(_, from, to)| to - from).fold(0.0, f64::max);
        let told = found.summary["user_stall_max_s"];
        assert!((longest - told).abs() < 0.05 || told < 5.05, "{which:?}: {longest} drawn, {told} told");
        let users: std::collections::BTreeSet<u32> = found.stalls.iter().map(|s| s.0).collect();
        let share = users.len() as f64 / 100.0;
        assert!(
            (share - found.summary["user_stall_over_5s"]).abs() <= 0.011,
            "{which:?}: {share} of the users"
        );
        let bits = found.bits;
        let sum = bits.payload + bits.headers + bits.copies + bits.control + bits.idle;
        assert_eq!(sum, bits.capacity, "{which:?}");
        let used = (sum - bits.idle) as f64 / sum as f64;
        assert!((used - found.summary["utilisation"]).abs() < 0.01, "{which:?}: {used}");
        let seen = found.objects_s.done as f64;
        assert_eq!(seen.to_bits(), found.summary["objects_done"].to_bits(), "{which:?}");
        assert!(found.objects_s.sorted.is_sorted());
    }
}

#[test]
fn pages_are_a_distribution_of_their_own() {
    let settings = Settings {
        users: 5,
        load: "pages".into(),
        connections: 4,
        seconds: 30,
        rate_kbps: 1000.0,
        ..Settings::default()
    };
    let found = side(&settings, Which::B, None, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(found.pages_s.done as f64, found.summary["pages_done"]);
    assert!(found.pages_s.done > 10 && found.pages_s.never > 0, "{:?}", found.pages_s);
}

#[test]
fn a_users_packets_are_told_one_by_one() {
    let settings = Settings { users: 0, downloads: 20, seconds: 20, ..Settings::default() };
    let found = side(&settings, Which::A, Some(7), &mut |_| ControlFlow::Continue(())).unwrap();
    let packets = &found.sequence;
    assert_eq!(packets.user, 7);
    assert!(packets.at_s.is_sorted() && packets.at_s.len() > 20, "{packets:?}");
    assert_eq!(packets.at_s.len(), packets.kind.len());
    // New data and data that filled holes could be read in the end, or waits behind a hole.
    let fresh: u64 =
        packets.len.iter().zip(&packets.kind).filter(|(_, k)| **k < 2).map(|(l, _)| u64::from(*l)).sum();
    let read: u64 = found.bytes[7 * 20..8 * 20].iter().map(|b| u64::from(*b)).sum();
    assert!(read <= fresh && fresh - read < 60_000, "{read} read of {fresh}");
    // The senders of other users have timeouts of their own: this one has some of all.
    let timeouts = packets.timeouts.len() as f64;
    assert!(timeouts > 0.0 && timeouts < found.summary["timeouts"], "{packets:?}");
    assert!(packets.timeouts.is_sorted() && packets.timeouts.iter().all(|at| *at < 20.0), "{packets:?}");
}
