//! Logs that are replayed.

use super::*;

pub(super) fn log(entries: &[(u64, u32, u64)], timing: LogTiming, connections: u32) -> Traffic {
    let entry = |&(ms, client, bytes): &_| LogEntry { at: Duration::from_millis(ms), client, bytes };
    traffic(TrafficKind::Log {
        source: LogSource::File { path: String::new(), entries: entries.iter().map(entry).collect() },
        clients: 2,
        connections,
        timing,
        retry: Duration::from_secs(1),
    })
}

#[test]
fn a_log_is_replayed_at_its_times() {
    // Clients 0 and 2 are folded onto user 0. The object of 1.25 MB takes a second and more; what comes meanwhile
    // waits.
    let entries = [(0, 0, 1_250_000), (100, 2, 300), (200, 1, 400), (9_000, 0, 500)];
    let (_, history) = run(&scenario(20, vec![log(&entries, LogTiming::Recorded, 1)]), 8);
    let mut seen: Vec<_> =
        history.delivered().map(|d| (d.user, d.size, d.opened.as_nanos() / 1_000_000)).collect();
    seen.sort_unstable_by_key(|s| s.1);
    let first = history.delivered().find(|d| d.size == 1_250_000).unwrap();
    assert!((2.0..3.5).contains(&secs(first.at)), "{first:?}");
    let waited = first.at.as_nanos() / 1_000_000;
    assert_eq!(seen, [(0, 300, waited), (1, 400, 1_200), (0, 500, 10_000), (0, 1_250_000, 1_000)]);
}

#[test]
fn a_log_is_replayed_back_to_back() {
    let mut rng = Rng::with_seed(9);
    let entries: Vec<_> = (0..500).map(|i| (i * 3_600_000, rng.u32(0..221), rng.u64(100..9_000))).collect();
    let (_, history) = run(&scenario(200, vec![log(&entries, LogTiming::BackToBack, 4)]), 9);
    assert_eq!(history.most, 4);
    let mut of: Vec<_> = history.delivered().map(|d| (d.user, d.opened, d.size)).collect();
    assert_eq!(of.len(), 500);
    of.sort_by_key(|d| (d.0, d.1));
    for user in 0..2 {
        let asked: Vec<_> = entries.iter().filter(|e| e.1 % 2 == user).map(|e| e.2).collect();
        let got: Vec<_> = of.iter().filter(|d| d.0 == user).map(|d| d.2).collect();
        assert_eq!(got, asked);
    }
}

/// The log's source must not be copied for each user.
#[test]
fn entries_are_shared() {
    let entries: Arc<[LogEntry]> = vec![LogEntry { at: Duration::default(), client: 0, bytes: 1 }].into();
    let mut of = log(&[], LogTiming::Recorded, 1);
    let TrafficKind::Log { source, .. } = &mut of.kind else { panic!() };
    *source = LogSource::File { path: String::new(), entries: entries.clone() };
    let s = scenario(5, vec![of]);
    let (_, groups, configs) = build(&s, 0, Parts::whole(&s).part(0), &crate::Nothing).unwrap();
    let apps = apps(&s, &groups, &configs, 0, Parts::whole(&s).part(0));
    assert_eq!((apps.len(), Arc::strong_count(&entries)), (1, 3));
}
