//! The slow link on either side of the box, on both, and on neither.

use narrows_units::Bytes;

use super::*;
use crate::follow::before::tests::{Modem, Path, carried, constant, near_and_far};
use crate::follow::tests::ms;

fn slow<const KBPS: u64>(came: Instant, free: Instant) -> Instant {
    came.max(free) + Rate::from_kbps(KBPS).time_to_send(Bytes(1500))
}

/// Wait in the queue of a link that is followed: two packet times and 150 ms are aimed at, and two packets are let go
/// whatever stands there.
fn bound(kbps: u64) -> Duration {
    Rate::from_kbps(kbps).time_to_send(Bytes(6000)) + Duration::from_millis(150)
}

fn side(path: &Path, at: Instant) -> Option<LinkSide> {
    path.shaper.belief(at).side
}

#[test]
fn a_link_before_the_box_is_found() {
    for (kbps, window) in [(64, 8), (256, 10), (1_000, 40), (5_000, 60), (20_000, 100)] {
        let mut path = Path::with("", 6, window, near_and_far);
        path.run(ms(60_000), false, constant(kbps));
        assert_eq!(side(&path, ms(60_000)), Some(LinkSide::Before), "{kbps} kbit/s");
        let told = path.told(ms(60_000));
        assert!((kbps * 93..=kbps * 107).contains(&(told * 100)), "{kbps} kbit/s: told {told}");
        path.run(ms(90_000), false, constant(kbps));
        let (carried, wait) = path.came(ms(60_000), ms(90_000));
        assert!(carried * 100 >= kbps * 90, "{kbps} kbit/s: carried {carried}");
        assert!(wait <= bound(kbps), "{kbps} kbit/s: {wait} in the queue");
    }
}

#[test]
fn a_link_behind_the_box_is_found() {
    let links: [(u64, u64, Modem); 5] = [
        (64, 8, slow::<64>),
        (256, 10, slow::<256>),
        (1_000, 40, slow::<1_000>),
        (5_000, 60, slow::<5_000>),
        (20_000, 100, slow::<20_000>),
    ];
    for (kbps, window, behind) in links {
        let mut path = Path::with("", 6, window, near_and_far).and(behind);
        path.run(ms(60_000), false, constant(100_000));
        assert_eq!(side(&path, ms(60_000)), Some(LinkSide::Behind), "{kbps} kbit/s");
        let told = path.told(ms(60_000));
        assert!((kbps * 93..=kbps * 107).contains(&(told * 100)), "{kbps} kbit/s: told {told}");
        path.run(ms(90_000), false, constant(100_000));
        let (carried, wait) = carried(&path.crossed, ms(60_000), ms(90_000));
        assert!(carried * 100 >= kbps * 90, "{kbps} kbit/s: carried {carried}");
        assert!(wait <= bound(kbps), "{kbps} kbit/s: {wait} in the queue");
    }
}

/// Nine packets for each of six users: each waits for at least 45 ms before 5 Mbit/s, and the target is 30 ms. In most
/// seconds no more stands where losses keep the queue of a fast link short.
#[test]
fn a_queue_of_less_than_twice_the_target_tells_the_side() {
    let mut path = Path::with("", 6, 9, near_and_far);
    path.run(ms(4_000), false, constant(5_000));
    let shortest = path.came.iter().filter(|came| came.0 > ms(2_000)).map(|came| came.1).min().unwrap();
    assert!((ms(45)..ms(60)).contains(&(Instant::ZERO + shortest)), "{shortest}");
    path.run(ms(20_000), false, constant(5_000));
    assert_eq!(side(&path, ms(20_000)), Some(LinkSide::Before));
}

/// 5 Mbit/s before the box and 1 behind it, then the other way round.
#[test]
fn a_slow_link_that_has_moved_is_followed() {
    fn behind(came: Instant, free: Instant) -> Instant {
        if came < ms(60_000) { slow::<1_000>(came, free) } else { slow::<5_000>(came, free) }
    }
    let before = |from| if from < ms(60_000) { slow::<5_000>(from, from) } else { slow::<1_000>(from, from) };
    let mut path = Path::with("", 6, 60, near_and_far).and(behind);
    path.run(ms(60_000), false, before);
    assert_eq!(side(&path, ms(60_000)), Some(LinkSide::Behind));
    path.run(ms(80_000), false, before);
    assert_eq!(side(&path, ms(80_000)), Some(LinkSide::Before));
    path.run(ms(120_000), false, before);
    let (carried, wait) = path.came(ms(90_000), ms(120_000));
    assert!(carried >= 900 && wait <= bound(1_000), "{carried} kbit/s, {wait}");
}

/// Two packets of one user each 40 ms are 600 kbit/s, of 20 Mbit/s that both links carry.
#[test]
fn where_no_queue_stands_nothing_is_held_back() {
    let far = |_, _| Duration::from_millis(39);
    let mut path = Path::with("", 1, 2, far).and(slow::<20_000>);
    path.run(ms(20_000), false, constant(20_000));
    let report = path.shaper.belief(ms(20_000));
    assert_eq!((report.side, report.phase), (None, FollowPhase::Finding));
    let waited = path.left.iter().zip(&path.came).map(|(left, came)| left.0.since(came.0)).max().unwrap();
    assert_eq!(waited, Duration::ZERO);
}

/// An access point that sends all it has once in 100 ms.
#[test]
fn bursts_behind_the_box_are_no_queue() {
    fn behind(came: Instant, _: Instant) -> Instant {
        ms((came.as_nanos() / 100_000_000 + 1) * 100)
    }
    let mut path = Path::with("", 6, 4, near_and_far).and(behind);
    path.run(ms(60_000), false, constant(50_000));
    assert_eq!(side(&path, ms(60_000)), None);
    // A dish that is slow besides is found.
    let mut path = Path::with("", 6, 40, near_and_far).and(behind);
    path.run(ms(60_000), false, constant(1_000));
    assert_eq!(side(&path, ms(60_000)), Some(LinkSide::Before));
}

/// Handovers between satellites, each 15 s: all paths are longer by 40 or 100 ms, and as before again.
#[test]
fn paths_that_become_longer_together_are_no_queue() {
    fn far<const MORE: u64>(user: u8, now: Instant) -> Duration {
        let longer = now.as_nanos() / 15_000_000_000 % 2 == 1;
        near_and_far(user, now) + Duration::from_millis(if longer { MORE } else { 0 })
    }
    for far in [far::<40>, far::<100>] {
        let mut path = Path::with("", 6, 10, far);
        path.run(ms(120_000), false, constant(20_000));
        assert_eq!(side(&path, ms(120_000)), None);
    }
}

#[test]
fn asked_oftener_it_says_the_same() {
    let rate = |from: Instant| {
        let kbps = if (from.as_nanos() / 1_000_000_000).is_multiple_of(2) { 300 } else { 2_000 };
        from + Rate::from_kbps(kbps).time_to_send(Bytes(1500))
    };
    let new = || Path::with("", 6, 20, near_and_far);
    let (mut told, mut polled) = (new(), new());
    told.run(ms(12_000), false, rate);
    polled.run(ms(12_000), true, rate);
    assert_eq!(told.left, polled.left);
}

/// Seven seconds of packets stand behind the box when the place is found. Whoever sees nothing leave for two seconds
/// takes the box to hang.
#[test]
fn a_packet_leaves_each_second_while_a_full_link_empties() {
    let mut path = Path::with("", 6, 100, near_and_far).and(slow::<1_000>);
    path.run(ms(40_000), false, constant(100_000));
    assert_eq!(side(&path, ms(40_000)), Some(LinkSide::Behind));
    let gap = path.left.windows(2).map(|pair| pair[1].0.since(pair[0].0)).max().unwrap();
    assert!((ms(900)..=ms(1_100)).contains(&(Instant::ZERO + gap)), "{gap}");
    let (_, wait) = carried(&path.crossed, ms(20_000), ms(40_000));
    assert!(wait <= bound(1_000), "{wait}");
}
