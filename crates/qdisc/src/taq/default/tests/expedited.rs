//! Calls and marked packets beside 100 users on 600 kbit/s, where a share of .2 is 120 kbit/s.

use narrows_units::Dscp;
use narrows_users::Side;

use super::*;

const EF: u8 = 46;

/// A stream of datagrams to a user, one each 20 ms, and of the user's own up.
#[derive(Clone, Copy)]
struct Call {
    user: u8,
    /// IP length. 14 bytes of framing come to it, so 201 bytes are G.711 on the wire: 86 kbit/s.
    len: u64,
    down: u8,
    up: Option<u8>,
    /// Datagrams of it each 20 ms.
    each: u32,
}

const G711: Call = Call { user: 201, len: 201, down: 0, up: Some(0), each: 1 };

fn datagram(call: &Call, dscp: u8, id: u64) -> Record {
    let users = IpAddr::from([10, 0, 0, call.user]);
    let key = FlowKey::new(IpAddr::from([10, 0, 1, 2]), users, 5000, 6000, Proto::UDP);
    let dscp = Dscp::new(dscp).unwrap();
    Record { id, header: Header { key, len: Bytes(call.len), dscp, ..Header::default() } }
}

/// [`percents_from`] where nobody has told on which side the users are.
fn percents<const N: usize>(settings: &[(&str, &str)], calls: [Call; N]) -> [u32; N] {
    percents_from(Side::Opener, settings, calls)
}

/// Percentages of each call's datagrams that leave in the 20 ms in which they came, beside 100 users of whom two
/// packets wait all the time. The first two seconds are not counted.
fn percents_from<const N: usize>(users: Side, settings: &[(&str, &str)], calls: [Call; N]) -> [u32; N] {
    let mut b = Bench::new(settings);
    b.q.link.users = users;
    let (mut at_once, mut sent, mut next) = ([0; N], [0; N], [2; 101]);
    for user in 1..=100 {
        (0..2).for_each(|nth| b.put(data(user, nth)));
    }
    for tick in 0..500_u64 {
        for (n, call) in calls.iter().enumerate() {
            if let Some(dscp) = call.up {
                let up = datagram(call, dscp, tick);
                b.back(Record { header: Header { key: up.header.key.reverse(), ..up.header }, ..up });
            }
            (0..call.each).for_each(|_| b.put(datagram(call, call.down, tick)));
            sent[n] += if tick >= 100 { call.each } else { 0 };
        }
        // 1500 bytes take 20 ms.
        let mut room = 1500;
        while room > 0 {
            let Some(p) = b.get() else { break };
            room -= p.header.len.get().cast_signed();
            let IpAddr::V4(user) = p.header.key.dst() else { unreachable!() };
            let user = user.octets()[3];
            if let Some(n) = calls.iter().position(|call| call.user == user) {
                at_once[n] += u32::from(tick >= 100 && p.id == tick);
            } else {
                b.put(data(user, next[usize::from(user)]));
                next[usize::from(user)] += 1;
            }
        }
        b.wait(20);
    }
    std::array::from_fn(|n| 100 * at_once[n] / sent[n].max(1))
}

#[test]
fn a_call_goes_at_once_marked_or_not() {
    let marked = Call { down: EF, up: None, ..G711 };
    assert_eq!(percents(&[], [G711]), [100]);
    assert_eq!(percents(&[], [marked]), [100]);
    // By turns a user of 101 has 5940 bit/s, so of 80 400 bit/s of IP a fourteenth.
    assert!(percents(&[("expedited_share", "0")], [marked])[0] < 15);
    assert!(percents(&[("expedited_unmarked", "off")], [G711])[0] < 15);
    assert!(percents(&[("expedited_dscp", "none"), ("expedited_unmarked", "off")], [marked])[0] < 15);
}

#[test]
fn what_is_larger_than_speech_or_has_no_answer_is_no_call() {
    assert!(percents(&[], [Call { len: 321, ..G711 }])[0] < 15);
    assert!(percents(&[], [Call { up: None, ..G711 }])[0] < 15);
}

/// 86 kbit/s fit into 120, twice as much does not. Three times 38 do.
#[test]
fn one_call_too_many_is_that_callers() {
    let other = Call { user: 202, ..G711 };
    let [first, second] = percents(&[], [G711, other]);
    assert!(first == 100 && second < 15, "{first} {second}");
    let small = |user| Call { user, len: 80, ..G711 };
    assert_eq!(percents(&[], [small(201), small(202), small(203)]), [100; 3]);
    let [a, b, c, d] = percents(&[], [small(201), small(202), small(203), small(204)]);
    assert!((a, b, c) == (100, 100, 100) && d < 25, "{a} {b} {c} {d}");
}

/// A user sends 516 kbit/s of marked datagrams, or 112 kbit/s, from before the call on: whoever needs much less comes
/// first.
#[test]
fn a_flood_of_marks_takes_nothing_from_anothers_call() {
    for flood in
        [Call { user: 200, down: EF, each: 6, ..G711 }, Call { user: 200, down: EF, len: 266, ..G711 }]
    {
        let [flooded, call] = percents(&[], [flood, G711]);
        assert!(call >= 98 && flooded < 15, "{flooded} {call}");
    }
}

#[test]
fn marks_of_users_alone_are_believed_if_so_set() {
    let users = [("expedited_trust", "users"), ("expedited_unmarked", "off")];
    let from_outside = Call { down: EF, ..G711 };
    assert!(percents(&users, [from_outside])[0] < 15);
    let users_own = Call { up: Some(EF), ..G711 };
    assert_eq!(percents(&users, [users_own]), [100]);
    // Where packets come from the users it is the answers that come from outside.
    assert!(percents_from(Side::Source, &users, [users_own])[0] < 15);
    assert_eq!(percents_from(Side::Source, &users, [from_outside]), [100]);
}

/// A marked segment that overtook another of its flow would look like a loss.
#[test]
fn a_marked_segment_overtakes_none_of_its_flow() {
    let mut b = Bench::new(&[]);
    b.put(data(1, 0));
    let mut marked = data(1, 1);
    marked.header.dscp = Dscp::new(EF).unwrap();
    b.put(marked);
    assert_eq!(b.order(), [(1, 0), (1, 1)]);
}

#[test]
fn a_washed_packet_has_no_mark() {
    for (wash, left) in [("on", 0), ("off", EF)] {
        let mut b = Bench::new(&[("wash", wash)]);
        b.put(datagram(&G711, EF, 0));
        assert_eq!(b.get().map(|p| p.header.dscp.get()), Some(left));
    }
}

/// One of 90 bytes each half second, to a user of whom two packets wait all the time.
#[test]
fn single_small_datagrams_wait_for_no_turn_of_their_users_downloads() {
    let query = Call { user: 1, len: 90, ..G711 };
    let waits = |settings: &[(&str, &str)], answered: bool| {
        let mut b = Bench::new(settings);
        (1..=100).for_each(|user| (0..8).for_each(|nth| b.put(data(user, nth))));
        (0..200).for_each(|_| assert!(b.get().is_some()));
        (0..5_u64).all(|nth| {
            if answered {
                let up = datagram(&query, 0, nth);
                b.back(Record { header: Header { key: up.header.key.reverse(), ..up.header }, ..up });
            }
            b.put(datagram(&query, 0, nth));
            let first = b.get().map(|p| p.header.tcp.is_none());
            (0..99).for_each(|_| assert!(b.get().is_some()));
            b.wait(500);
            // The first one is a new flow's.
            nth == 0 || first == Some(true)
        })
    };
    assert!(waits(&[], true));
    assert!(!waits(&[], false), "anybody may send to a user: nothing has answered");
    assert!(!waits(&[("new_flows_first", "off")], true));
}
