//! Whole transfers between two ends: times worked by hand, and what holds whatever the path does.

use crate::common::{Act, SegmentFate, Side, Wire, WirePath};
use narrows_tcp::{Config, Handshake, Preset, Recovery, Settings as _, TcpEvent};
use narrows_units::{Bytes, Duration, Instant, Rate, SeqNum};

fn ns2(mss: u32, recovery: Recovery) -> Config {
    Config { mss, recovery, receive_window: 10_000 * mss, ..Config::preset(Preset::Ns2) }
}

/// When the last new ACK came, in seconds.
fn last_ack(wire: &Wire<'_>) -> f64 {
    let acked = wire.events.iter().rfind(|e| matches!(e.2, TcpEvent::Acked { .. }));
    acked.map_or(0.0, |e| e.0.as_secs_f64())
}

/// Burst TCP, section 5.1: 64 packets of 1024 B, 1.5 Mbit/s, 0.5 s one way, IW 1, no SYN. Windows 1, 2, 4, .., 32
/// carry 63 packets, so the last one leaves after 6 round trips and is acknowledged after 7, each of 1 s, 1024 B and
/// an ACK of 40 B: 7 * (1 + 0.0054613 + 0.0002133) = 7.03972 s.
#[test]
fn sixty_four_packets_over_a_satellite() {
    let config = Config { handshake: Handshake::None, ..ns2(984, Recovery::NewReno) };
    let path = WirePath { delay: Duration::from_millis(500), rate: Some(Rate::from_kbps(1500)), header: 40 };
    let mut wire = Wire::new(config, path, |_, _, _| SegmentFate::Pass);
    wire.act(Side::A, Act::Open);
    wire.act(Side::A, Act::Write(64 * 984));
    wire.run();
    assert!((last_ack(&wire) - 7.039_723).abs() < 1e-6, "{}", last_ack(&wire));
}

/// Burst TCP, table II decoded, to the microsecond.
#[test]
fn files_over_the_dumbbell() {
    for (packets, micros) in narrows_testing::tables::DUMBBELL_TIMES {
        let path =
            WirePath { delay: Duration::from_millis(45), rate: Some(Rate::from_kbps(1500)), header: 40 };
        // The side links add their time to send, twice; being faster they form no queue.
        let side = Rate::from_kbps(10_000);
        let mut wire = Wire::new(ns2(1024, Recovery::NewReno), path, |_, _, segment| {
            SegmentFate::Late(side.time_to_send(Bytes(u64::from(segment.tcp.payload) + 40)) * 2)
        });
        wire.act(Side::A, Act::Open);
        wire.act(Side::A, Act::Write(u64::from(packets - 1) * 1024));
        wire.run();
        assert_eq!((last_ack(&wire) * 1e6).round(), f64::from(micros), "{packets} packets");
    }
}

/// The satellite again with one loss: the first packet whose serialisation ends at or after 3 s. 12.12 s without
/// limited transmit.
#[test]
fn one_loss_over_a_satellite() {
    let none = Config { handshake: Handshake::None, ..ns2(984, Recovery::NewReno) };
    let config = Config { limited_transmit: false, ..none };
    let rate = Rate::from_kbps(1500);
    let path = WirePath { delay: Duration::from_millis(500), rate: Some(rate), header: 40 };
    let (mut free, mut lost) = (Instant::ZERO, false);
    let mut wire = Wire::new(config, path, |side, now, _| {
        if side == Side::B {
            return SegmentFate::Pass;
        }
        free = free.max(now) + rate.time_to_send(Bytes(1024));
        let hit = !lost && free >= Instant::ZERO + Duration::from_secs(3);
        lost |= hit;
        if hit { SegmentFate::Drop } else { SegmentFate::Pass }
    });
    wire.act(Side::A, Act::Open);
    wire.act(Side::A, Act::Write(64 * 984));
    wire.run();
    assert!((last_ack(&wire) - 12.12).abs() < 0.005, "{}", last_ack(&wire));
    assert_eq!(wire.ends[0].counters().fast_retransmits, 1);
}

#[test]
fn every_handshake_and_preset_closes() {
    for (_, preset) in Preset::ALL {
        for handshake in [Handshake::None, Handshake::SynIsPacketZero, Handshake::ThreeWay] {
            for recovery in [Recovery::Tahoe, Recovery::Reno, Recovery::NewReno, Recovery::Sack] {
                let config = Config { handshake, recovery, ..Config::preset(preset) };
                let mut wire = Wire::new(config, WirePath::delay_ms(50), |_, _, _| SegmentFate::Pass);
                wire.act(Side::A, Act::Open);
                wire.act(Side::A, Act::Write(100_000));
                wire.act(Side::A, Act::Close);
                wire.act(Side::B, Act::Write(20_000));
                wire.act(Side::B, Act::Close);
                wire.run();
                assert_eq!(wire.delivered(Side::B), 100_000, "{preset:?} {handshake:?} {recovery:?}");
                assert_eq!(wire.delivered(Side::A), 20_000, "{preset:?} {handshake:?} {recovery:?}");
                for side in [Side::A, Side::B] {
                    assert!(wire.ends[side as usize].is_closed());
                    assert_eq!(wire.count(side, |e| *e == TcpEvent::Established), 1);
                    assert_eq!(wire.count(side, |e| *e == TcpEvent::PeerClosed), 1);
                    assert_eq!(wire.count(side, |e| *e == TcpEvent::Closed), 1);
                    assert_eq!(wire.ends[side as usize].counters().retransmitted, 0);
                }
            }
        }
    }
}

/// Whatever is lost, late or doubled: every byte arrives once and in order, and both ends close.
#[test]
fn any_path() {
    let key = Config::keys().iter().find(|key| key.name == "startup").unwrap();
    let range = key.range();
    let starts: Vec<&str> = range.split(" or ").collect();
    assert!(starts.contains(&"spreading"), "{starts:?}");
    for seed in 0..4_000_u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (_, preset) = Preset::ALL[random.usize(..4)];
        let handshake = [Handshake::None, Handshake::SynIsPacketZero, Handshake::ThreeWay][random.usize(..3)];
        let recovery =
            [Recovery::Tahoe, Recovery::Reno, Recovery::NewReno, Recovery::Sack][random.usize(..4)];
        let mut config = Config { handshake, recovery, ecn: random.bool(), ..Config::preset(preset) };
        let start = starts[fastrand::Rng::with_seed(!seed).usize(..starts.len())];
        config.set("startup", start).unwrap();
        (config.initial_ssthresh, config.start.rtt) = (20.0, Duration::from_millis(seed % 300));
        config.rto.retries = u32::MAX;
        config.syn_retries = u32::MAX;
        config.mss = random.u32(1..2000);
        config.receive_window = random.u32(1..200_000);
        let isn = [SeqNum(random.u32(..)), SeqNum(random.u32(..))];
        let isn = if handshake == Handshake::None { [isn[0]; 2] } else { isn };
        let (loss, late, twice) = (random.f64() * 0.4, random.f64() * 0.3, random.f64() * 0.1);
        let total = [random.u64(..config.mss as u64 * 60), random.u64(..config.mss as u64 * 20)];
        let pieces = random.usize(1..5);
        let mut chance = fastrand::Rng::with_seed(seed ^ 0xfeed);
        let mut wire = Wire::of([config; 2], isn, WirePath::delay_ms(random.u64(1..300)), move |_, _, _| {
            match chance.f64() {
                x if x < loss => SegmentFate::Drop,
                x if x < loss + late => SegmentFate::Late(Duration::from_micros(chance.u64(..400_000))),
                x if x < loss + late + twice => SegmentFate::Twice,
                _ => SegmentFate::Pass,
            }
        });
        wire.act(Side::A, Act::Open);
        for piece in 0..pieces {
            for side in [Side::A, Side::B] {
                let share = total[side as usize] / pieces as u64;
                let rest = total[side as usize] - share * (pieces as u64 - 1);
                wire.act(side, Act::Write(if piece == 0 { rest } else { share }));
            }
            wire.run_until(wire.now + Duration::from_millis(random.u64(..3000)));
        }
        wire.act(Side::A, Act::Close);
        wire.act(Side::B, Act::Close);
        wire.run();
        let what = format!("seed {seed}: {preset:?} {handshake:?} {recovery:?} {start}");
        assert_eq!(wire.delivered(Side::B), total[0], "{what}");
        assert_eq!(wire.delivered(Side::A), total[1], "{what}");
        for side in [Side::A, Side::B] {
            let end = &wire.ends[side as usize];
            assert!(end.is_closed() && end.unacked() == 0 && end.unsent() == 0, "{what}");
            assert_eq!(end.acked(), total[side as usize], "{what}");
            assert_eq!(wire.count(side, |e| *e == TcpEvent::Closed), 1, "{what}");
        }
        assert!(wire.now < Instant::ZERO + Duration::from_secs(1_000_000), "{what}: {:?}", wire.now);
    }
}
