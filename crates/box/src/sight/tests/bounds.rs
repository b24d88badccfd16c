//! Sums over users and time, and what a flood cannot do.

use super::*;

/// A stall of 7 s: the end of the data is lost behind the box.
fn seven_seconds(s: &mut Story, ms: u64) {
    s.open(ms);
    s.loses_the_end(ms);
    s.end(ms + 641, 1);
    s.end(ms + 1641, 1);
    s.end(ms + 3641, 1);
    s.end(ms + 7131, 1);
    s.ack(ms + 7141, 2);
}

#[test]
fn one_line_in_words() {
    let mut s = Story::new();
    assert_eq!(s.report().words, "Nobody had traffic since the start.");
    s.open(0);
    s.client = 8;
    seven_seconds(&mut s, 1000);
    let report = s.report();
    assert_eq!(
        report.words,
        "1 of 2 users stalled for more than 5 s since the start; 100 % because of losses behind the box."
    );
    let cause = report.causes.iter().find(|c| c.cause == "double_retransmission").unwrap();
    assert_eq!((cause.quarter, cause.quarter_share, cause.total_s), (1, 1.0, 7.0));
    assert_eq!(report.lost.iter().find(|l| l.place == "behind").unwrap().quarter_share, 1.0);
    let user = &report.users[0];
    assert_eq!((user.user.as_str(), user.stalled_s, user.longest_s), ("10.0.0.8", 7.0, 7.0));
    assert_eq!(user.cause.as_deref(), Some("double_retransmission"));
    // Between 5 and 10 s.
    assert_eq!(report.stall_s.counts[5], 1);
}

#[test]
fn a_stall_that_goes_on_counts_before_it_ends() {
    let mut s = Story::opened();
    s.loses_the_end(0);
    s.end(641, 1);
    s.until(9000);
    let report = s.report();
    assert_eq!((report.users_stalled_long, report.users_stalled, report.states["stalled"]), (1, 1, 1));
    let user = &report.users[0];
    assert!(user.stalled_s > 7.5 && user.longest_s <= user.stalled_s + 0.1, "{user:?}");
    assert!(report.words.contains("100 % because of losses behind"), "{}", report.words);
    assert_eq!(report.stalls_now[0].flow, "10.0.0.7:50000 192.0.2.1:80 tcp");
}

#[test]
fn connections_that_stall_together_do_not_add_up() {
    let mut s = Story::new();
    seven_seconds(&mut s, 0);
    let mut book = s.sight.book;
    let stall = book.last[0].stall.clone();
    for later in [500, 1000] {
        book.now = at(7141 + later);
        book.ended(stall.clone());
    }
    // Three stalls of 7 s each within 8 s.
    let ms: u64 = book.minutes_of(&book.users[0], 15).map(|m| u64::from(m.stalled_ms)).sum();
    assert_eq!(ms, 8000);
}

#[test]
fn a_quarter_of_an_hour_is_forgotten() {
    let mut s = Story::new();
    seven_seconds(&mut s, 0);
    assert_eq!(s.report().users_stalled_long, 1);
    s.until(14 * 60_000);
    assert_eq!(s.report().users_stalled_long, 1);
    s.until(16 * 60_000);
    let report = s.report();
    assert_eq!((report.users_stalled_long, report.users_stalled_lately, report.users_seen), (0, 0, 0));
    assert_eq!(report.words, "Nobody had traffic in the last quarter of an hour.");
    assert!(report.causes.iter().all(|c| c.quarter == 0));
    assert_eq!(report.causes.iter().map(|c| c.total).sum::<u64>(), 1, "the total stays");
}

#[test]
fn a_flood_of_flows_and_users_takes_bounded_memory() {
    let mut sight = Sight { table: Table::with_capacity(64, 1), ..Sight::new(Instant::ZERO, 1) };
    for n in 0..20_000_u32 {
        let [_, a, b, c] = n.to_be_bytes();
        let key = FlowKey::new([192, 0, 2, 1].into(), [10, a, b, c].into(), 53, 53, Proto::UDP);
        let header = Header { key, len: Bytes(100), ..Header::default() };
        let now = at(u64::from(n));
        sight.tick(now);
        let mark = sight.arrived(now, DOWN, &header, None);
        assert_ne!(mark, Mark::default(), "somebody can go");
        sight.left(now, DOWN, mark, &header);
    }
    assert_eq!(sight.table.records.places(), 64);
    assert_eq!(sight.book.users.len(), 1024);
    let report = sight.report(at(20_000), |user| user.to_string());
    assert!(report.bytes_per_flow <= 256);
    let text = serde_json::to_string(&report).unwrap();
    assert!(text.len() < 100_000, "{}", text.len());
}

#[test]
fn a_flow_with_packets_in_the_box_keeps_its_place() {
    let mut sight = Sight { table: Table::with_capacity(16, 1), ..Sight::new(Instant::ZERO, 1) };
    let header = |n: u8| Header { key: datagram_key(n), len: Bytes(100), ..Header::default() };
    let held = sight.arrived(at(0), DOWN, &header(1), None);
    for n in 2..200 {
        let mark = sight.arrived(at(u64::from(n)), DOWN, &header(n), None);
        sight.left(at(u64::from(n)), DOWN, mark, &header(n));
    }
    let again = sight.arrived(at(300), DOWN, &header(1), None);
    assert_eq!(held.slot, again.slot);
}

#[test]
fn any_bytes_are_followed_without_a_panic() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut sight = Sight::new(Instant::ZERO, 1);
    let mut marks = Vec::new();
    let mut ns = 0;
    for _ in 0..200_000 {
        ns += random.u64(0..200_000_000);
        let now = Instant::from_nanos(ns);
        let tcp = TcpHeader {
            seq: SeqNum(random.u32(0..5000)),
            ack: SeqNum(if random.u8(..) == 0 { random.u32(..) } else { random.u32(0..5000) }),
            flags: Flags(random.u8(..)),
            window: random.u16(0..3),
            payload: random.u32(0..1500),
            window_scale: Some(random.u8(..)),
            ..TcpHeader::default()
        };
        let tcp = random.bool().then_some(tcp);
        let way = if random.bool() { DOWN } else { UP };
        let key = key(random.u8(0..4));
        let key = if way == DOWN { key } else { key.reverse() };
        let header = Header { key, len: Bytes(random.u64(..)), tcp, ..Header::default() };
        marks.push((way, sight.arrived(now, way, &header, None), header));
        if random.bool() {
            let (way, mark, header) = marks.swap_remove(random.usize(..marks.len()));
            match random.u8(0..3) {
                0 => sight.dropped(way, mark, &header),
                _ => sight.left(now, way, mark, &header),
            }
        }
        sight.tick(now);
    }
    let report = sight.report(Instant::from_nanos(ns), |user| user.to_string());
    assert!(!report.words.is_empty());
}

/// Two datagrams of 1000 bytes to a user: one waits for 300 ms and leaves, one is dropped.
#[test]
fn a_user_has_what_came_and_what_left() {
    let mut sight = Sight::new(Instant::ZERO, 1);
    let header = Header { key: datagram_key(7), len: Bytes(1000), ..Header::default() };
    let marks = [0, 10].map(|ms| sight.arrived(at(ms), DOWN, &header, None));
    sight.left(at(300), DOWN, marks[0], &header);
    sight.dropped(DOWN, marks[1], &header);
    let talkers = sight.report(at(2000), |user| user.to_string()).talkers;
    let told = TalkerJson {
        user: "10.0.0.7".into(),
        name: None,
        // 8000 bits in the two seconds since the start.
        rate_bps: [4000, 0],
        hour_offered_bytes: [2000, 0],
        hour_bytes: [1000, 0],
        hour_wait_s: 0.3,
        week_bytes: [1000, 0],
    };
    assert_eq!(talkers, [told]);
}
