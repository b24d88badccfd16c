//! An end that does without extras does what one with extras does: every segment and event of the same transfer, over
//! paths that lose, repeat and delay. AIMD with (1, 0.5) is Reno bit for bit, but needs the extras.

use crate::common::{Act, SegmentFate, Side, Wire, WirePath};
use narrows_tcp::{ByteCounting, CcKind, Config, Handshake, Preset, PrrBound, Recovery, SwsAvoidance};
use narrows_units::{Duration, Rate};

/// Settings that need no extras, and differ in what such ends ask for.
fn settings(rng: &mut fastrand::Rng) -> Config {
    let preset = if rng.bool() { Preset::Ns2 } else { Preset::Rfc };
    let mut config = Config { recovery: Recovery::Sack, ..Config::preset(preset) };
    (config.timestamps, config.rack_tlp, config.push_every) = (false, false, u32::MAX);
    (config.prr, config.byte_counting, config.grow_if_used) = (PrrBound::Off, ByteCounting::PerAck, false);
    config.sws_avoidance = SwsAvoidance::Idle;
    (config.mss, config.limited_transmit, config.dsack) = (1000, rng.bool(), rng.bool());
    config.handshake = [Handshake::None, Handshake::SynIsPacketZero, Handshake::ThreeWay][rng.usize(0..3)];
    config.rto_recovery = Config::preset(if rng.bool() { Preset::Ns2 } else { Preset::Rfc }).rto_recovery;
    config
}

#[test]
fn with_and_without_extras_they_do_the_same() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut losses = 0;
    for case in 0..300 {
        let config = settings(&mut rng);
        let (fate, loss) = (rng.u64(..), rng.u32(0..300));
        let rate = rng.bool().then(|| Rate::from_bps(400_000));
        let path = WirePath { delay: Duration::from_millis(40), rate, header: 40 };
        let [one, other] = [CcKind::Reno, CcKind::Aimd].map(|congestion| {
            let config = Config { congestion, ..config };
            let mut fates = fastrand::Rng::with_seed(fate);
            let mut wire = Wire::new(config, path, move |_, _, _| match fates.u32(0..1000) {
                n if n < loss => SegmentFate::Drop,
                n if n < loss + 20 => SegmentFate::Twice,
                n if n < loss + 60 => SegmentFate::Late(Duration::from_millis(u64::from(n))),
                _ => SegmentFate::Pass,
            });
            wire.act(Side::A, Act::Open);
            wire.act(Side::A, Act::Write(150_000));
            wire.act(Side::B, Act::Write(3_000));
            wire.act(Side::A, Act::Close);
            wire.run_until(narrows_units::Instant::from_nanos(400_000_000_000));
            losses += wire.log.iter().filter(|l| l.fate == SegmentFate::Drop).count();
            (wire.log, wire.events, wire.ends.map(|end| end.counters()))
        });
        assert_eq!(one, other, "case {case}: {config:?}");
    }
    assert!(losses > 10_000, "{losses}");
}
