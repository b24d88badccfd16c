//! Reasons that are recorded on the paths by which the controllers are tested, and files of records.

use narrows_units::Rate;
use narrows_wire::{FlowKey, Proto};

use super::*;
use crate::follow::LinkSide;
use crate::follow::before::tests::{Path, constant, near_and_far};
use crate::follow::tests::ms;
use crate::{Manage as _, Qdisc as _, Record, ShaperConfig, Spec};

use DecisionReason as Why;

fn slow<const KBPS: u64>(came: Instant, free: Instant) -> Instant {
    came.max(free) + Rate::from_kbps(KBPS).time_to_send(Bytes(1500))
}

/// Lets a path run for some seconds, and gives the records, fetched each second.
fn recorded(path: &mut Path, seconds: u64, polls: bool, rate: impl Fn(Instant) -> Instant) -> Vec<Decision> {
    path.shaper.record_decisions(true);
    let mut all = Vec::new();
    for second in 1..=seconds {
        path.run(ms(second * 1000), polls, &rate);
        all.extend(std::iter::from_fn(|| path.shaper.next_decision()));
    }
    assert_eq!(path.shaper.decisions_lost(), 0);
    all
}

/// The first record with this reason from a time on.
fn first(all: &[Decision], why: Why, from: u64) -> Option<&Decision> {
    all.iter().find(|d| d.reason == Some(why) && d.at >= ms(from))
}

/// Whether a reason is recorded between two times, in milliseconds.
fn is_told(all: &[Decision], why: Why, from: u64, to: u64) -> bool {
    first(all, why, from).is_some_and(|d| d.at < ms(to))
}

#[test]
fn a_step_down_and_up_is_told_with_its_rate() {
    let rate = |from: Instant| {
        let kbps = if (ms(30_000)..ms(60_000)).contains(&from) { 500 } else { 5_000 };
        from + Rate::from_kbps(kbps).time_to_send(Bytes(1500))
    };
    let mut path = Path::with("where=before", 6, 60, near_and_far);
    let all = recorded(&mut path, 90, false, rate);
    assert_eq!(all[0].reason, Some(Why::Begun));
    assert!(is_told(&all, Why::RateFound, 0, 2_000) && is_told(&all, Why::Full, 0, 5_000));
    let fell = first(&all, Why::RateFell, 30_000).unwrap();
    assert!(fell.at < ms(35_000) && fell.belief.side == Some(LinkSide::Before), "{fell:?}");
    let lowest = all.iter().filter(|d| (ms(40_000)..ms(60_000)).contains(&d.at));
    assert!(lowest.clone().count() > 0);
    for d in lowest {
        assert!((400_000..650_000).contains(&d.belief.found_bps.unwrap()), "{d:?}");
        assert!(d.signals.clocks.told > 0 && d.window.is_some(), "{d:?}");
    }
    let rose =
        all.iter().find(|d| d.at > ms(60_000) && matches!(d.reason, Some(Why::RateRose | Why::MoreCame)));
    assert!(rose.unwrap().at < ms(65_000), "{rose:?}");
}

#[test]
fn an_outage_and_its_end_are_told_once() {
    let rate = |from: Instant| {
        let from = if (ms(20_000)..ms(30_000)).contains(&from) { ms(30_000) } else { from };
        from + Rate::from_kbps(1_000).time_to_send(Bytes(1500))
    };
    let mut path = Path::with("where=before", 6, 30, near_and_far);
    let all = recorded(&mut path, 60, false, rate);
    let outages: Vec<_> = all.iter().filter(|d| d.reason == Some(Why::Outage)).collect();
    let ends: Vec<_> = all.iter().filter(|d| d.reason == Some(Why::Recovered)).collect();
    assert!(outages.len() == 1 && ends.len() == 1, "{outages:?} {ends:?}");
    assert!((ms(21_000)..ms(24_000)).contains(&outages[0].at), "{:?}", outages[0].at);
    assert!((ms(30_000)..ms(31_000)).contains(&ends[0].at), "{:?}", ends[0].at);
    assert_eq!(outages[0].belief.phase, crate::follow::FollowPhase::Silent);
}

/// 5 Mbit/s before the box and 1 behind it, then the other way round.
#[test]
fn a_slow_link_that_moves_is_told_twice() {
    fn behind(came: Instant, free: Instant) -> Instant {
        if came < ms(60_000) { slow::<1_000>(came, free) } else { slow::<5_000>(came, free) }
    }
    let before = |from| if from < ms(60_000) { slow::<5_000>(from, from) } else { slow::<1_000>(from, from) };
    let mut path = Path::with("", 6, 60, near_and_far).and(behind);
    let all = recorded(&mut path, 90, false, before);
    let sides: Vec<_> =
        all.iter().filter(|d| matches!(d.reason, Some(Why::SideFound | Why::SideChanged))).collect();
    assert_eq!(sides.len(), 2, "{sides:?}");
    assert_eq!((sides[0].reason, sides[0].belief.side), (Some(Why::SideFound), Some(LinkSide::Behind)));
    assert!(sides[0].at < ms(20_000) && sides[0].signals.acknowledgments.told > 0);
    assert_eq!((sides[1].reason, sides[1].belief.side), (Some(Why::SideChanged), Some(LinkSide::Before)));
    assert!((ms(60_000)..ms(80_000)).contains(&sides[1].at), "{:?}", sides[1].at);
    // While nothing was known nothing was held back, and no side is told.
    let begun = all[0];
    assert_eq!((begun.belief.side, begun.window, begun.belief.found_bps), (None, None, None));
}

/// Round trips become two seconds longer, as where others' packets stand before the link.
#[test]
fn a_trial_and_what_it_brought_are_told_in_order() {
    let far = |user: u8, now: Instant| {
        near_and_far(user, now) + Duration::from_millis(if now < ms(20_000) { 0 } else { 2_000 })
    };
    let mut path = Path::with("where=before", 6, 60, far);
    let all = recorded(&mut path, 60, false, constant(1_000));
    let of_trials = [Why::TrialBegun, Why::OpenShared, Why::QueueGrew];
    let told: Vec<_> = all.iter().filter(|d| d.reason.is_some_and(|why| of_trials.contains(&why))).collect();
    assert_eq!(
        told.iter().take(3).filter_map(|d| d.reason).collect::<Vec<_>>(),
        of_trials,
        "{:?}",
        reasons(&all)
    );
    let [begun, open, grew] = told[..3] else { unreachable!() };
    // While nothing is held back there is no window.
    assert_eq!((begun.window, open.window), (None, None));
    assert_eq!(open.belief.phase, crate::follow::FollowPhase::Open);
    assert!(grew.window.is_some() && grew.at > open.at);
}

fn reasons(all: &[Decision]) -> Vec<(Instant, Why)> {
    all.iter().filter_map(|d| Some((d.at, d.reason?))).collect()
}

#[test]
fn bounds_of_the_rate_are_told_when_they_are_reached() {
    let mut path = Path::with("where=before,max=600", 6, 30, near_and_far);
    let all = recorded(&mut path, 30, false, constant(1_000));
    assert!(
        is_told(&all, Why::AtMax, 0, 10_000) && first(&all, Why::AtMin, 0).is_none(),
        "{:?}",
        reasons(&all)
    );
    let mut path = Path::with("where=before,min=500", 6, 30, near_and_far);
    let all = recorded(&mut path, 30, false, constant(300));
    assert!(
        is_told(&all, Why::AtMin, 0, 10_000) && first(&all, Why::AtMax, 0).is_none(),
        "{:?}",
        reasons(&all)
    );
}

/// A packet of UDP, which nobody acknowledges.
fn datagram(id: u64) -> Record {
    let mut record = Record { id, ..Record::default() };
    record.header.key = FlowKey::new([10, 0, 0, 1].into(), [10, 0, 1, 9].into(), 443, 5000, Proto::UDP);
    record.header.len = Bytes(1200);
    record
}

/// QUIC alone tells nothing for ten seconds; then downloads by TCP join it.
#[test]
fn that_nothing_tells_is_told_after_some_seconds_and_so_is_its_end() {
    for place in ["", "where=before", "where=behind"] {
        let mut path = Path::with(place, 6, 30, near_and_far);
        path.shaper.record_decisions(true);
        let mut verdicts = Vec::new();
        for id in 0..1000 {
            path.shaper.enqueue(ms(id * 10), datagram(id), &mut verdicts);
            assert!(path.shaper.dequeue(ms(id * 10), &mut verdicts).is_some());
        }
        let all: Vec<_> = std::iter::from_fn(|| path.shaper.next_decision()).collect();
        let blind = first(&all, Why::Blind, 0).unwrap();
        assert!((ms(5_000)..ms(5_500)).contains(&blind.at) && blind.window.is_none(), "{place}: {blind:?}");
        assert_eq!(blind.signals, DecisionSignals::default());
        assert!(first(&all, Why::Seen, 0).is_none(), "{place}");
    }

    // Servers that are asked at ten seconds answer a minute later.
    let far = |user: u8, now: Instant| {
        if (ms(10_000)..ms(12_000)).contains(&now) {
            ms(120_000).since(ms(0))
        } else {
            near_and_far(user, now)
        }
    };
    let mut path = Path::with("where=before", 6, 3, far);
    let mut all = recorded(&mut path, 12, false, constant(1_000));
    assert!(first(&all, Why::Blind, 0).is_none(), "{:?}", reasons(&all));
    let mut verdicts = Vec::new();
    for id in 0..100 {
        let now = ms(14_000 + id * 500);
        path.shaper.enqueue(now, datagram(id), &mut verdicts);
        while path.shaper.dequeue(now, &mut verdicts).is_some() {}
        all.extend(std::iter::from_fn(|| path.shaper.next_decision()));
    }
    assert_eq!(path.shaper.backlog().packets, 0);
    path.run(ms(80_000), false, constant(1_000));
    all.extend(std::iter::from_fn(|| path.shaper.next_decision()));
    // Thirty seconds and five after the last that told.
    assert!(
        is_told(&all, Why::Blind, 42_000, 50_000) && is_told(&all, Why::Seen, 70_000, 73_000),
        "{:?}",
        reasons(&all)
    );
}

#[test]
fn other_settings_are_told() {
    let mut path = Path::with("where=before", 6, 30, near_and_far);
    recorded(&mut path, 10, false, constant(1_000));
    let link = ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(1000)) };
    let spec: Spec = "fifo:5000".parse().unwrap();
    let mut adopt = |settings: &str| {
        assert!(path.shaper.adopt(ms(10_000), crate::Settings::read(settings).unwrap(), &spec, &link));
        std::iter::from_fn(|| path.shaper.next_decision()).filter_map(|d| d.reason).collect::<Vec<_>>()
    };
    assert_eq!(adopt("where=before"), [], "as before");
    assert_eq!(adopt("where=before,max=900"), [Why::Settings]);
    assert_eq!(adopt("where=behind"), [Why::Settings], "another controller");
}

#[test]
fn asked_oftener_it_records_the_same() {
    let rate = |from: Instant| {
        let kbps = if (from.as_nanos() / 4_000_000_000).is_multiple_of(2) { 300 } else { 2_000 };
        from + Rate::from_kbps(kbps).time_to_send(Bytes(1500))
    };
    let all = |polls| recorded(&mut Path::with("", 6, 20, near_and_far), 30, polls, rate);
    let told = all(false);
    assert!(told.len() > 10, "{}", told.len());
    assert_eq!(told, all(true));
}

#[test]
fn recording_changes_nothing() {
    let rate = |from: Instant| {
        let kbps = if (from.as_nanos() / 1_000_000_000).is_multiple_of(3) { 200 } else { 2_000 };
        from + Rate::from_kbps(kbps).time_to_send(Bytes(1500))
    };
    let (mut with, mut without) = (Path::with("", 6, 40, near_and_far), Path::with("", 6, 40, near_and_far));
    recorded(&mut with, 30, false, rate);
    without.run(ms(30_000), false, rate);
    assert_eq!(with.left, without.left);
}

#[test]
fn while_packets_pass_there_is_a_record_each_ten_seconds_and_no_more_than_some_are_kept() {
    let mut path = Path::with("where=before", 6, 30, near_and_far);
    let all = recorded(&mut path, 60, false, constant(1_000));
    assert!(all.windows(2).all(|two| two[1].at.since(two[0].at) <= ms(11_000).since(Instant::ZERO)));
    let regular: Vec<_> = all.iter().filter(|d| d.reason.is_none()).collect();
    assert!((2..=6).contains(&regular.len()), "{}", regular.len());
    // The link is full: what came and what left since the record before is its rate.
    let last = regular.last().unwrap();
    let kbps = |bytes: Bytes| bytes.get() * 8 / last.over.as_millis();
    assert!(
        (900..=1_100).contains(&kbps(last.arrived)) && (800..=1_100).contains(&kbps(last.left)),
        "{last:?}"
    );

    let rate = |from: Instant| {
        let kbps = if (from.as_nanos() / 4_000_000_000).is_multiple_of(2) { 300 } else { 2_000 };
        from + Rate::from_kbps(kbps).time_to_send(Bytes(1500))
    };
    path.run(ms(600_000), false, rate);
    assert!(path.shaper.decisions_lost() > 0, "nobody has fetched them for nine minutes");
    assert_eq!(std::iter::from_fn(|| path.shaper.next_decision()).count(), KEPT);
    path.shaper.record_decisions(false);
    path.run(ms(630_000), false, rate);
    assert_eq!(path.shaper.next_decision(), None);
}

#[test]
fn each_reason_has_a_name_of_its_own_and_a_sentence_for_a_field_of_csv() {
    let mut names: Vec<&str> = Why::ALL.iter().map(|why| why.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Why::ALL.len());
    for why in Why::ALL {
        let sentence = why.to_string();
        assert!(!sentence.contains([',', '"', '\n']) && sentence.len() > 20, "{sentence}");
    }
}

fn some_decision(dice: &mut impl FnMut(u64) -> u64) -> Decision {
    let mut maybe = |most: u64| (dice(2) == 1).then(|| dice(most));
    let mut waits = || SignalWaits {
        told: maybe(1 << 32).unwrap_or(0) as u32,
        shortest: maybe(1 << 40).map(Duration::from_nanos),
    };
    let signals = DecisionSignals { clocks: waits(), round_trips: waits(), acknowledgments: waits() };
    let belief = FollowReport {
        found_bps: maybe(1 << 40),
        side: maybe(2).map(|n| [LinkSide::Before, LinkSide::Behind][n as usize]),
        late: Duration::from_nanos(maybe(1 << 40).unwrap_or(0)),
        in_flight: maybe(1 << 50).unwrap_or(0),
        ..FollowReport::default()
    };
    Decision {
        reason: maybe(Why::ALL.len() as u64).map(|n| Why::ALL[n as usize]),
        belief,
        window: maybe(1 << 40),
        signals,
        over: Duration::from_nanos(maybe(1 << 40).unwrap_or(0)),
        arrived: Bytes(maybe(1 << 40).unwrap_or(0)),
        left: Bytes(maybe(1 << 40).unwrap_or(0)),
        waiting: maybe(1 << 20).unwrap_or(0) as usize,
        at: Instant::ZERO,
    }
}

#[test]
fn what_is_written_is_read() {
    let mut random = narrows_testing::Rng(1);
    let mut dice = |most: u64| random.below(most);
    for _ in 0..500 {
        let (decision, link) = (some_decision(&mut dice), ["down", "north, \"1\" up", ""][dice(3) as usize]);
        let text = Decision::header() + &decision.line(1234.5, link) + &Decision::header();
        let all = read_decisions(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let [read] = &all[..] else { panic!("{all:?}") };
        let belief = &decision.belief;
        assert_eq!((read.time_s, read.link.as_str()), (1234.5, link));
        assert_eq!((read.reason, read.side, read.phase), (decision.reason, belief.side, belief.phase));
        assert_eq!((read.rate_bps, read.window_bytes), (belief.found_bps, decision.window));
        assert_eq!(read.waiting_pkts, Some(decision.waiting as u64));
        let wait = belief.side.map(|_| belief.late.as_secs_f64());
        assert_eq!(read.wait_s.is_some(), wait.is_some());
        assert!(read.wait_s.unwrap_or(0.0) - wait.unwrap_or(0.0) < 1e-4, "{read:?}");
        assert!(read.others.is_empty());
    }
}

#[test]
fn a_mistake_in_a_file_is_named_with_its_line() {
    let line = Decision::default().line(1.0, "down");
    let file = |lines: &str| Decision::header() + &line + lines;
    for (text, says) in [
        ("", "line 1: no column time_s"),
        ("a,b\n1,2\n", "line 1: no column time_s"),
        (&*file("1,2\n"), "line 3: 2 values: expected 20"),
        (&*file("\"1,2\n"), "line 3: a quotation mark is not closed"),
        (&*file(&line.replace("idle", "idel")), "line 3: phase = 'idel': expected one of idle, finding"),
        (&*file(&line.replace("1.000", "soon")), "line 3: time_s = 'soon': expected seconds"),
        (&*file(&line.replace("1.000", "NaN")), "line 3: time_s = 'NaN': expected seconds"),
        (&*file(&line.replace("1.000", "")), "line 3: time_s is empty"),
        (&*file(&line.replace("down,", "down,why")), "line 3: reason = 'why': expected one of begun"),
    ] {
        let error = read_decisions(text).unwrap_err().to_string();
        assert!(error.starts_with(says), "{error}\nnot {says}");
    }
    // A box that was killed, or a disk that was full.
    let cut = file(&line[..line.len() - 5]);
    assert_eq!(read_decisions(&cut).map(|all| all.len()), Ok(1));
}

/// Any text is read or refused with a line of it; nothing panics.
#[test]
fn whatever_a_file_holds_is_read_or_refused() {
    let mut random = narrows_testing::Rng(7);
    let mut dice = |most: u64| random.below(most);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..3000 {
        let mut bytes = (Decision::header() + &some_decision(&mut dice).line(3.0, "down")).into_bytes();
        for _ in 0..dice(4) {
            let at = dice(bytes.len() as u64) as usize;
            match dice(3) {
                0 => bytes[at] = dice(256) as u8,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b",\"\n0-.e"[dice(7) as usize]),
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        match read_decisions(&text) {
            Ok(all) => {
                read += 1;
                assert!(all.iter().all(|d| d.time_s.is_finite() && d.wait_s.is_none_or(f64::is_finite)));
            }
            Err(error) => {
                refused += 1;
                assert!(
                    (1..=text.lines().count()).contains(&error.line) && error.why.len() < 1000,
                    "{error}"
                );
            }
        }
    }
    assert!(read > 300 && refused > 300, "{read} {refused}");
}
