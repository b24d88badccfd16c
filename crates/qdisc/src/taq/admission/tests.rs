use core::net::IpAddr;

use narrows_units::{Bytes, SeqNum};
use narrows_wire::{FlowKey, Proto, TcpHeader};

use super::*;
use crate::Record;

/// A wait queue in which patience alone counts.
fn wait_queue(idle: Duration) -> Rule {
    Rule::WaitQueue { idle, pace: Duration::ZERO, guarantee: None, rounds: 0 }
}

const PAPER: Rule = Rule::Paper { join: Duration::from_secs(3), wait: Some(Duration::from_secs(3)) };

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn ip(n: u16) -> IpAddr {
    [10, 0, (n >> 8) as u8, n as u8].into()
}

/// A packet that says whether its sender can be answered.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Asked {
    record: Record,
    answerable: bool,
}

impl Packet for Asked {
    fn header(&self) -> &Header {
        self.record.header()
    }
    fn mark_ce(&mut self) -> bool {
        self.record.mark_ce()
    }
    fn set_window(&mut self, window: u16) -> bool {
        self.record.set_window(window)
    }
    fn set_tsval(&mut self, tsval: u32) -> bool {
        self.record.set_tsval(tsval)
    }
    fn set_dscp(&mut self, dscp: narrows_units::Dscp) -> bool {
        self.record.set_dscp(dscp)
    }
    fn answerable(&self) -> bool {
        self.answerable
    }
}

fn syn(id: u64, user: u16, port: u16) -> Asked {
    let mut r = Record { id, ..Record::default() };
    r.header.key = FlowKey::new(ip(user), [192, 0, 2, 1].into(), port, 80, Proto::TCP);
    r.header.len = Bytes(60);
    r.header.tcp = Some(TcpHeader { seq: SeqNum(id as u32), flags: Flags::SYN, ..TcpHeader::default() });
    Asked { record: r, answerable: false }
}

/// A SYN that the driver can answer.
fn web(id: u64, user: u16, port: u16) -> Asked {
    Asked { answerable: true, ..syn(id, user, port) }
}

/// A round of three seconds under overload, of one without.
fn load(overloaded: bool) -> Load {
    Load { overloaded, round: Duration::from_secs(if overloaded { 3 } else { 1 }) }
}

struct Bench {
    admission: Admission<Asked>,
    counters: Counters,
    verdicts: Verdicts<Asked>,
}

impl Bench {
    fn new(rule: Rule, hold: bool, pools: usize) -> Self {
        let admission = Admission::new(AdmissionConfig { rule, hold, pools, users: UserRule::OPENER });
        Self { admission, counters: Counters::default(), verdicts: Vec::new() }
    }
    fn request(&mut self, ms: u64, overloaded: bool, packet: Asked) -> bool {
        let mut decisions = Decisions { counters: &mut self.counters, verdicts: &mut self.verdicts };
        self.admission
            .request(at(ms), load(overloaded), SynDirection::Reverse, packet, &mut decisions)
            .is_some()
    }
    fn release(&mut self, ms: u64, overloaded: bool) -> Vec<u64> {
        std::iter::from_fn(|| self.release_one(ms, load(overloaded))).collect()
    }
    fn release_one(&mut self, ms: u64, load: Load) -> Option<u64> {
        let mut decisions = Decisions { counters: &mut self.counters, verdicts: &mut self.verdicts };
        self.admission.release(at(ms), load, &mut decisions).map(|(_, p)| p.record.id)
    }
}

#[test]
fn nobody_waits_more_rounds_than_the_rule_says() {
    let rule = Rule::WaitQueue { idle: PATIENCE, pace: Duration::ZERO, guarantee: Some(PATIENCE), rounds: 4 };
    let mut h = Bench::new(rule, true, 16);
    assert!(h.request(0, false, syn(1, 1, 1)));
    // Closed, with rounds of 3 s: who came at 1 s has waited four of them at 13 s, the next 200 ms later.
    assert!(!h.request(1_000, true, syn(2, 2, 1)) && !h.request(1_200, true, syn(3, 3, 1)));
    let far = at(60_000);
    assert_eq!(h.admission.next_release(at(2_000), load(true), far), Some(at(13_000)));
    assert_eq!(h.release(12_999, true), [0; 0]);
    assert_eq!(h.release(13_000, true), [2]);
    assert_eq!(h.admission.next_release(at(13_000), load(true), far), Some(at(13_200)));
    // With one more inside a round takes longer, and so does patience.
    let slower = Load { overloaded: true, round: Duration::from_millis(3_500) };
    assert_eq!(h.admission.next_release(at(13_000), slower, far), Some(at(15_200)));
    assert!(h.release_one(15_199, slower).is_none());
    assert!(h.release_one(15_200, slower).is_some());
}

#[test]
fn without_overload_everybody_is_admitted() {
    let mut h = Bench::new(PAPER, false, 16);
    assert!(h.request(0, false, syn(1, 1, 1)) && h.request(0, false, syn(2, 2, 1)));
    let r = h.admission.report(at(0), false);
    assert_eq!((r.admitted, r.admissions, r.waiting, r.wait_p50), (2, 2, 0, None));
}

#[test]
fn a_flow_joins_the_pool_that_its_source_started_less_than_t_pool_ago() {
    let mut h = Bench::new(PAPER, false, 16);
    assert!(h.request(0, false, syn(1, 1, 1)));
    assert!(h.request(2_999, true, syn(2, 1, 2)), "joins");
    assert!(!h.request(3_000, true, syn(3, 1, 3)), "a new pool, under overload");
    assert!(!h.request(3_000, true, syn(4, 2, 1)));
    assert_eq!(h.counters.refused, 2);
}

#[test]
fn after_t_wait_a_pool_is_let_in_whatever_the_loss() {
    let mut h = Bench::new(PAPER, false, 16);
    assert!(!h.request(1_000, true, syn(1, 1, 1)));
    assert!(!h.request(2_000, true, syn(1, 1, 1)), "the first repetition of the SYN, after 1 s");
    let r = h.admission.report(at(2_000), true);
    assert_eq!((r.queue[0].position, r.queue[0].waited), (1, Duration::from_secs(1)));
    assert_eq!(r.queue[0].expected, Some(Duration::from_secs(2)));
    assert!(h.request(4_000, true, syn(1, 1, 1)), "the second, after 3 s: guaranteed");
    assert!(h.request(4_100, true, syn(2, 1, 2)), "the same pool");
    assert_eq!(h.admission.report(at(5_000), true).wait_p99, Some(Duration::from_secs(3)));
}

#[test]
fn a_waiting_pool_enters_when_the_loss_falls() {
    let mut h = Bench::new(PAPER, false, 16);
    assert!(!h.request(0, true, syn(1, 1, 1)));
    assert!(h.request(1_000, false, syn(1, 1, 1)));
}

#[test]
fn held_syns_leave_in_the_order_of_the_queue_and_only_the_latest_copy() {
    let mut h = Bench::new(PAPER, true, 16);
    assert!(!h.request(0, true, syn(1, 1, 1)));
    assert!(!h.request(500, true, syn(2, 2, 1)));
    assert!(!h.request(600, true, syn(3, 1, 2)), "a second connection of the first pool");
    assert!(!h.request(1_000, true, syn(4, 1, 1)), "the first SYN again");
    assert_eq!(h.verdicts, [Verdict::Suppressed { packet: syn(1, 1, 1) }]);
    assert_eq!((h.admission.held(), h.admission.waiting()), (3, 2));
    let recheck = at(100_000);
    assert_eq!(h.admission.next_release(at(1_000), load(true), recheck), Some(at(3_000)));
    assert_eq!(
        h.admission.next_release(at(1_000), load(true), at(1_100)),
        Some(at(1_100)),
        "the loss may fall"
    );
    assert_eq!(h.release(2_999, true), []);
    assert_eq!(h.release(3_000, true), [4, 3]);
    assert_eq!(h.admission.next_release(at(3_000), load(true), recheck), Some(at(3_500)));
    assert_eq!(h.release(3_100, false), [2], "the overload ends before its time is up");
    assert_eq!((h.admission.held(), h.admission.next_release(at(3_100), load(true), recheck)), (0, None));
}

#[test]
fn who_gave_up_is_not_admitted() {
    let mut h = Bench::new(wait_queue(PATIENCE), true, 16);
    assert!(!h.request(0, true, syn(1, 1, 1)));
    assert!(!h.request(60_000, true, syn(2, 2, 1)));
    assert_eq!(h.release(75_000, false), [2]);
    // The pool has left the wait queue: it would be the first in it again.
    let retry_after = Duration::ZERO;
    assert_eq!(h.verdicts, [Verdict::Refused { packet: syn(1, 1, 1), position: 2, retry_after }]);
    assert_eq!(h.admission.held(), 0);
}

#[test]
fn the_queue_moves_one_at_a_time_and_new_pools_go_behind_it() {
    let pace = Duration::from_millis(200);
    let rule = Rule::WaitQueue {
        idle: Duration::from_secs(30),
        pace,
        guarantee: Some(Duration::from_secs(5)),
        rounds: 0,
    };
    let mut h = Bench::new(rule, true, 16);
    assert!(h.request(0, false, syn(1, 1, 1)));
    for user in 2..5 {
        assert!(!h.request(10, true, syn(u64::from(user), user, 1)));
    }
    assert_eq!(
        h.admission.next_release(at(10), load(true), at(60_000)),
        Some(at(5_000)),
        "5 s after the first pool"
    );
    assert_eq!(h.release(5_000, true), [2]);
    assert!(!h.request(5_100, false, syn(9, 9, 1)), "no overload, but others wait");
    assert_eq!(h.admission.next_release(at(5_100), load(false), at(60_000)), Some(at(5_200)));
    assert_eq!(h.release(5_199, false), []);
    assert_eq!(h.release(5_200, false), [3]);
    assert_eq!(h.release(5_400, false), [4]);
    assert_eq!(h.release(5_600, false), [9]);
    // Four admissions from the queue, at 5.0, 5.2, 5.4 and 5.6 s: 0.2 s each.
    assert!(!h.request(5_700, true, syn(10, 10, 1)));
    assert_eq!(h.admission.report(at(5_700), true).queue[0].expected, Some(Duration::from_millis(200)));
}

#[test]
fn by_the_queue_rule_a_pool_stays_admitted_while_it_is_active() {
    let mut h = Bench::new(wait_queue(Duration::from_secs(10)), false, 16);
    assert!(h.request(0, false, syn(1, 1, 1)));
    let pool = h.admission.pool(ip(1)).unwrap();
    for s in 1..30 {
        h.admission.refresh(at(s * 1_000), pool);
    }
    assert!(h.request(35_000, true, syn(2, 1, 2)));
    assert!(!h.request(45_000, true, syn(3, 1, 3)), "10 s without a sign of life");
}

#[test]
fn where_syns_are_dropped_those_who_wait_come_before_new_pools() {
    let mut h = Bench::new(wait_queue(Duration::from_secs(10)), false, 16);
    assert!(!h.request(0, true, syn(1, 1, 1)));
    assert!(!h.request(100, false, syn(2, 2, 1)), "somebody waits");
    assert!(h.request(1_000, false, syn(1, 1, 1)) && h.request(1_100, false, syn(2, 2, 1)));
}

#[test]
fn a_flood_of_made_up_addresses_is_bounded_and_spares_the_proven() {
    for hold in [false, true] {
        for by_activity in [false, true] {
            let mut h = Bench::new(PAPER, hold, 100);
            assert!(h.request(0, false, syn(1, 1, 1)));
            let proven = h.admission.pool(ip(1)).unwrap();
            if by_activity {
                h.admission.refresh(at(0), proven);
            } else {
                h.admission.prove(proven);
            }
            for n in 0..10_000u16 {
                h.request(u64::from(n) / 100, n % 3 == 0, syn(u64::from(n), 2 + n % 5000, n));
                // The pool opens more connections meanwhile, and does not become unproven by that.
                if n == 5_000 {
                    assert!(h.request(50, false, syn(1, 1, 2)));
                }
            }
            assert!(h.admission.pools.len(List::Waiting) + h.admission.pools.len(List::Unproven) < 100);
            assert!(h.admission.held() <= HELD);
            assert_eq!(h.admission.pool(ip(1)), Some(proven));
        }
    }
}

#[test]
fn who_can_be_answered_is_refused_and_keeps_the_position() {
    let mut h = Bench::new(PAPER, true, 16);
    assert!(!h.request(0, true, web(1, 1, 1)));
    assert_eq!(
        h.verdicts,
        [Verdict::Refused { packet: web(1, 1, 1), position: 1, retry_after: Duration::from_secs(3) }],
        "at once"
    );
    assert!(!h.request(500, true, syn(2, 2, 1)));
    assert_eq!((h.verdicts.len(), h.admission.held(), h.admission.waiting()), (1, 1, 2), "the other is held");
    let place = h.admission.report(at(1_000), true).queue[0].clone();
    assert_eq!(
        (place.pool, place.position, place.expected),
        (ip(1).to_string(), 1, Some(Duration::from_secs(2)))
    );
    assert!(!h.request(1_000, true, web(9, 9, 1)) && !h.request(2_000, true, web(9, 9, 1)));
    let again =
        |ms| Verdict::Refused { packet: web(9, 9, 1), position: 3, retry_after: Duration::from_millis(ms) };
    assert_eq!(h.verdicts[1..], [again(3_000), again(2_000)]);
    assert!(h.request(3_000, true, web(3, 1, 2)), "it asks again when it was told to");
    assert_eq!(h.release(3_500, true), [2]);
}

#[test]
fn one_that_was_answered_is_admitted_while_it_is_away() {
    let rule = Rule::WaitQueue {
        idle: Duration::from_secs(3),
        pace: Duration::ZERO,
        guarantee: Some(Duration::from_secs(5)),
        rounds: 0,
    };
    let mut h = Bench::new(rule, true, 16);
    assert!(h.request(0, false, web(1, 1, 1)));
    assert!(!h.request(10, true, web(2, 2, 1)));
    assert!(!h.request(20, true, syn(3, 3, 1)) && !h.request(30, true, syn(4, 4, 1)));
    // 5 s after the first: the turn of the second, which is away; the next turn is 5 s later.
    assert_eq!(h.admission.next_release(at(30), load(true), at(60_000)), Some(at(5_000)));
    assert_eq!(h.release(5_000, true), []);
    assert_eq!(h.admission.waiting(), 2);
    assert_eq!(h.release(10_000, true), [3]);
    assert!(h.request(60_000, true, web(5, 2, 2)), "it was admitted meanwhile, and that is kept");
    assert!(!h.request(63_000, true, web(6, 2, 3)), "once: after that it is a pool like any other");
}

#[test]
fn those_who_are_away_are_admitted_one_a_second_even_without_overload() {
    let mut h = Bench::new(wait_queue(Duration::from_secs(3)), true, 16);
    for user in 1..4 {
        assert!(!h.request(0, true, web(u64::from(user), user, 1)));
    }
    assert!(!h.request(0, true, syn(4, 4, 1)));
    assert_eq!(h.release(100, false), []);
    assert_eq!(
        (h.admission.waiting(), h.admission.next_release(at(100), load(false), at(9_000))),
        (3, Some(at(1_100)))
    );
    assert_eq!(h.release(1_100, false), []);
    assert!(h.request(1_200, true, web(5, 2, 2)), "admitted at 1.1 s, and here: nobody is awaited");
    assert_eq!(h.release(1_200, false), []);
    assert_eq!(h.release(2_200, false), [4]);
}

#[test]
fn at_most_so_many_syns_are_held() {
    let mut h = Bench::new(PAPER, true, 4096);
    for user in 0..1500 {
        h.request(0, true, syn(u64::from(user), user, 1));
    }
    assert_eq!((h.admission.held(), h.admission.waiting(), h.counters.refused), (1024, 1500, 476));
    let mut h = Bench::new(PAPER, true, 16);
    for port in 0..20 {
        h.request(0, true, syn(u64::from(port), 1, port));
    }
    assert_eq!((h.admission.held(), h.counters.refused), (16, 4), "of one pool");
}

#[test]
fn a_pool_is_of_the_users_side_whoever_asks() {
    let admission = |users| {
        let (rule, hold, pools) = (wait_queue(Duration::from_secs(3)), true, 16);
        Admission::<Asked>::new(AdmissionConfig { rule, hold, pools, users })
    };
    let ask = |src: &str, dst: &str| {
        let mut asked = syn(1, 1, 40_000);
        asked.record.header.key =
            FlowKey::new(src.parse().unwrap(), dst.parse().unwrap(), 40_000, 80, Proto::TCP);
        asked
    };
    let (home, wide) = ("2001:db8:1:2::a", "2001:db8:ffff::1");
    let down = admission(UserRule { side: narrows_users::Side::Destination, ipv6_prefix: 64 });
    let theirs = User::of(home.parse().unwrap(), 64);
    assert_eq!(down.user(SynDirection::Reverse, &ask(home, wide)), theirs, "asks for a download");
    assert_eq!(down.user(SynDirection::Own, &ask(wide, home)), theirs, "a server at home is asked");
    assert_eq!(down.user(SynDirection::Reverse, &ask("2001:db8:1:2:7::b", wide)), theirs, "another address");
    // Where nobody has told a side it is whoever asks.
    let opener = admission(UserRule::OPENER);
    for (way, src, dst) in [(SynDirection::Reverse, home, wide), (SynDirection::Own, wide, home)] {
        assert_eq!(opener.user(way, &ask(src, dst)), User::of(src.parse().unwrap(), 128));
    }
}
