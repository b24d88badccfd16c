mod acknowledgments;
mod datagrams;
mod expedited;
mod forged;
mod losses;
mod tunnels;

use std::net::IpAddr;

use narrows_units::{Bytes, Duration, Ecn, Instant, Rate, SeqNum};
use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader};

use super::DefaultMode;
use crate::Settings as _;
use crate::taq::Config;
use crate::{Qdisc, Reason, Record, ReversePath, ShaperConfig, Verdict, Verdicts};

const MSS: u32 = 1448;

fn key(user: u8) -> FlowKey {
    FlowKey::new(IpAddr::from([10, 0, 1, 1]), IpAddr::from([10, 0, 0, user]), 80, 40_000, Proto::TCP)
}

fn segment(key: FlowKey, flags: Flags, seq: u32, ack: u32, payload: u32) -> Record {
    let tcp = TcpHeader {
        seq: SeqNum(seq),
        ack: SeqNum(ack),
        flags,
        payload,
        window: 500,
        timestamps: Some((seq, ack)),
        ..TcpHeader::default()
    };
    let header = Header { key, len: Bytes(u64::from(payload) + 52), tcp: Some(tcp), ..Header::default() };
    Record { id: u64::from(seq), header }
}

fn data(user: u8, nth: u32) -> Record {
    segment(key(user), Flags::ACK, 1001 + nth * MSS, 1, MSS)
}

pub struct Bench {
    pub q: DefaultMode<Record>,
    pub now: Instant,
    pub verdicts: Verdicts<Record>,
}

impl Bench {
    pub fn new(settings: &[(&str, &str)]) -> Self {
        Self::with_rate(600, settings)
    }
    fn with_rate(kbps: u64, settings: &[(&str, &str)]) -> Self {
        let mut settled = Config::default();
        for (k, v) in settings {
            settled.set(k, v).unwrap();
        }
        let config = *settled.as_default().unwrap();
        let q = DefaultMode::new(settled.common, config, ShaperConfig::new(Rate::from_kbps(kbps)), 7);
        Self { q, now: Instant::from_nanos(1_000_000_000), verdicts: Vec::new() }
    }
    pub fn wait(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
    }
    pub fn put(&mut self, p: Record) {
        self.q.enqueue(self.now, p, &mut self.verdicts);
    }
    pub fn back(&mut self, p: Record) -> Option<Record> {
        self.q.reverse(self.now, p, &mut self.verdicts)
    }
    pub fn get(&mut self) -> Option<Record> {
        self.q.dequeue(self.now, &mut self.verdicts)
    }
    fn order(&mut self) -> Vec<(u8, u32)> {
        let mut order = Vec::new();
        while let Some(p) = self.get() {
            let IpAddr::V4(user) = p.header.key.dst() else { unreachable!() };
            order.push((user.octets()[3], (p.header.tcp.unwrap().seq.0 - 1001) / MSS));
        }
        order
    }
    /// The handshake of a download: 100 ms to the server and back, nothing to the user.
    fn connect(&mut self, user: u8) {
        self.connect_over(user, 100);
    }
    /// The handshake of a download over a path of `far_ms` to the server and back.
    fn connect_over(&mut self, user: u8, far_ms: u64) {
        let with_scale = |mut p: Record| {
            let tcp = p.header.tcp.as_mut().unwrap();
            (tcp.window_scale, tcp.mss) = (Some(7), Some(1460));
            p
        };
        self.back(with_scale(segment(key(user).reverse(), Flags::SYN, 0, 0, 0)));
        self.wait(far_ms);
        self.put(with_scale(segment(key(user), Flags::SYN.and(Flags::ACK), 1000, 1, 0)));
        assert!(self.get().is_some());
        self.back(segment(key(user).reverse(), Flags::ACK, 1, 1001, 0));
    }
    fn ack(&mut self, user: u8, ack: u32) -> TcpHeader {
        self.back(segment(key(user).reverse(), Flags::ACK, 1, ack, 0)).unwrap().header.tcp.unwrap()
    }
}

/// Only turns: everything else off.
const PLAIN: [(&str, &str); 2] = [("new_flows_first", "off"), ("quantum", "1500")];

#[test]
fn flows_take_turns_and_each_keeps_its_order() {
    let mut b = Bench::new(&PLAIN);
    for nth in 0..3 {
        b.put(data(1, nth));
    }
    b.put(data(2, 0));
    b.put(data(2, 1));
    b.put(data(3, 0));
    assert_eq!(b.order(), [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (1, 2)]);
}

#[test]
fn turns_are_in_bytes() {
    // Flow 1 sends 1500 B packets, flow 2 packets of 500 B: three for one.
    let mut b = Bench::new(&PLAIN);
    for nth in 0..2 {
        b.put(data(1, nth));
    }
    for nth in 0..6 {
        b.put(segment(key(2), Flags::ACK, 1001 + nth * 448, 1, 448));
    }
    let users: Vec<_> = b.order().into_iter().map(|(u, _)| u).collect();
    assert_eq!(users, [1, 2, 2, 2, 1, 2, 2, 2]);
}

/// Nine flows wait, a turn is 1500 B, a round 9 x 20 ms: the share of a flow in 20 ms is 167 B, in 10 ms 83 B. So what
/// is 150 B long goes first if its flow was served 20 ms ago, and waits for its turn if that was 10 ms ago. It has
/// nothing left of its last turn.
#[test]
fn who_needs_less_than_a_turn_does_not_wait_for_one() {
    let small = |nth: u32| segment(key(10), Flags::ACK, 1001 + MSS + nth * 98, 1, 98);
    let mut b = Bench::new(&[("quantum", "1500"), ("new_quantum", "0")]);
    b.put(data(10, 0));
    assert_eq!(b.get().map(|p| p.header.key), Some(key(10)));
    for nth in 0..3 {
        (1..=9).for_each(|user| b.put(data(user, nth)));
    }
    b.wait(20);
    b.put(small(1));
    assert_eq!(b.get().map(|p| p.header.key), Some(key(10)));
    b.wait(10);
    b.put(small(2));
    let users: Vec<u8> = b.order().into_iter().map(|(user, _)| user).collect();
    assert_eq!(users.iter().position(|user| *user == 10), Some(9), "{users:?}");
}

#[test]
fn who_comes_back_within_its_turn_goes_on() {
    let small = |nth: u32| segment(key(10), Flags::ACK, 1001 + nth * 298, 1, 298);
    let mut b = Bench::new(&[("quantum", "1500"), ("new_quantum", "0")]);
    b.put(small(0));
    assert_eq!(b.get().map(|p| p.header.key), Some(key(10)));
    for nth in 0..2 {
        (1..=9).for_each(|user| b.put(data(user, nth)));
    }
    // 1150 of its 1500 B are left: three more packets, and the fourth overdraws them.
    (1..=5).for_each(|nth| b.put(small(nth)));
    let users: Vec<u8> = b.order().into_iter().map(|(user, _)| user).collect();
    assert_eq!(users[..6], [10, 10, 10, 10, 1, 2], "{users:?}");
}

#[test]
fn a_new_flow_goes_first_once() {
    let mut b = Bench::new(&[("quantum", "1500"), ("new_quantum", "1500")]);
    for user in 1..=2 {
        for nth in 0..2 {
            b.put(data(user, nth));
        }
    }
    // The two flows spend their credit, then the round begins; a third flow's first packet passes it.
    assert_eq!(b.get().map(|p| p.header.key), Some(key(1)));
    assert_eq!(b.get().map(|p| p.header.key), Some(key(2)));
    b.put(data(3, 0));
    b.put(data(3, 1));
    assert_eq!(b.order(), [(3, 0), (1, 1), (2, 1), (3, 1)]);
}

/// Twelve flows come one by one while three take turns. 50 ms of 600 kbit/s are 3750 bytes: new_flows, half a packet
/// ahead for each, are served until they are 6 x 750 bytes ahead, then in turn with the round, and all before it once
/// as many of the round's packets have passed them as flows stood in it.
#[test]
fn new_flows_have_half_the_link_and_wait_no_longer_than_a_round() {
    let new_and_old = |share: &str| -> String {
        let mut b = Bench::new(&[("quantum", "1500"), ("new_quantum", "1500"), ("new_share", share)]);
        for user in 1..=3 {
            (0..9).for_each(|nth| b.put(data(user, nth)));
            assert_eq!(b.get().map(|p| p.header.key), Some(key(user)), "what it had as a new flow");
        }
        // All three stand in the round from here on.
        assert!((1..=3).all(|_| b.get().is_some()));
        (10..22).for_each(|user| b.put(data(user, 0)));
        let order: Vec<u8> = b.order().into_iter().map(|(user, _)| user).collect();
        let new: Vec<u8> = order.iter().copied().filter(|u| *u >= 10).collect();
        assert!(new.is_sorted(), "{new:?}");
        order.iter().map(|u| if *u >= 10 { 'n' } else { 'r' }).take(18).collect()
    };
    assert_eq!(new_and_old("0.5"), "nnnnnnrnrnrnnnnrrr");
    assert_eq!(new_and_old("1"), "nnnnnnnnnnnnrrrrrr");
}

#[test]
fn what_needs_less_than_a_quantum_waits_for_no_new_flow() {
    let small = |user, nth: u32| segment(key(user), Flags::ACK, 1001 + nth * 98, 1, 98);
    let mut b = Bench::new(&[("quantum", "1500")]);
    b.put(small(1, 0));
    assert_eq!(b.get().map(|p| p.header.key), Some(key(1)));
    b.wait(1000);
    (2..8).for_each(|user| b.put(data(user, 0)));
    // A flow that rested, and one that is new: a request.
    b.put(small(1, 1));
    b.put(small(9, 0));
    let users: Vec<u8> = b.order().into_iter().map(|(user, _)| user).collect();
    assert_eq!(users, [1, 9, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_flow_that_rested_is_owed_one_turn_however_small_its_packets() {
    let mut b = Bench::new(&[("new_quantum", "1514")]);
    let four = |b: &mut Bench, user, from: u32| {
        for nth in from..from + 4 {
            b.put(segment(key(user), Flags::ACK, 1001 + nth * 448, 1, 448));
        }
    };
    for user in [1, 2] {
        four(&mut b, user, 0);
    }
    assert_eq!(b.order().len(), 8, "what they had as new_flows is spent");
    b.wait(1000);
    for user in [1, 2] {
        four(&mut b, user, 4);
    }
    let users: Vec<_> = b.order().into_iter().map(|(user, _)| user).collect();
    assert_eq!(users, [1, 2, 1, 2, 1, 2, 1, 2]);
}

/// Packets of 1492 bytes, as PPPoE has them, leave 22 of the 1514 that a new flow may send first: no second packet.
#[test]
fn a_new_flow_sends_one_packet_first_whatever_the_mtu() {
    for payload in [1440, 1228, 1448, 1460] {
        let mut b = Bench::new(&[]);
        let nth = |user, nth: u32| segment(key(user), Flags::ACK, 1001 + nth * payload, 1, payload);
        for user in [1, 2, 3] {
            (0..3).for_each(|n| b.put(nth(user, n)));
        }
        for _ in 0..3 {
            b.get();
        }
        (0..2).for_each(|n| b.put(nth(9, n)));
        let mut users = Vec::new();
        while let Some(p) = b.get() {
            let IpAddr::V4(user) = p.header.key.dst() else { unreachable!() };
            users.push(user.octets()[3]);
        }
        let turns: Vec<_> = (0..users.len()).filter(|at| users[*at] == 9).collect();
        let between = &users[turns[0] + 1..turns[1]];
        assert!((1..=3).all(|old| between.contains(&old)), "payload {payload}: {users:?}");
    }
}

#[test]
fn a_copy_of_what_waits_is_suppressed_and_the_original_is_sent() {
    let mut b = Bench::new(&[]);
    b.connect(1);
    b.put(data(1, 0));
    b.put(data(1, 1));
    b.wait(600);
    b.put(data(1, 0));
    assert!(matches!(b.verdicts[..], [Verdict::Suppressed { .. }]));
    assert_eq!(b.order(), [(1, 0), (1, 1)]);
}

#[test]
fn a_copy_is_suppressed_while_its_acknowledgment_is_on_its_way_and_not_after() {
    let mut b = Bench::new(&[]);
    b.connect(1);
    b.put(data(1, 0));
    assert_eq!(b.order().len(), 1);
    b.ack(1, 1001 + MSS);
    b.wait(99); // the server is 100 ms away and back: it has not seen that acknowledgment
    b.put(data(1, 0));
    assert_eq!(b.verdicts.len(), 1);
    b.wait(60);
    b.put(data(1, 0));
    assert_eq!((b.verdicts.len(), b.order().len()), (1, 1), "now it must be let through");
}

#[test]
fn a_copy_that_acknowledges_more_than_its_original_is_sent() {
    let mut b = Bench::new(&[]);
    b.connect(1);
    let tells = |change: fn(&mut TcpHeader)| {
        let mut copy = data(1, 0);
        change(copy.header.tcp.as_mut().unwrap());
        copy
    };
    let news: [fn(&mut TcpHeader); 3] = [
        |tcp| tcp.ack = SeqNum(tcp.ack.0 + 100),
        |tcp| tcp.window += 1,
        |tcp| tcp.sack.push(SeqNum(900), SeqNum(950)),
    ];
    // While the original waits, and when it has left.
    b.put(data(1, 0));
    for change in news {
        b.put(tells(change));
    }
    assert_eq!((b.verdicts.len(), b.order().len()), (0, 4));
    b.put(data(1, 1));
    b.wait(150);
    assert_eq!(b.order().len(), 1);
    let mut copy = data(1, 1);
    copy.header.tcp.as_mut().unwrap().ack = SeqNum(500);
    b.put(copy);
    assert_eq!((b.verdicts.len(), b.order().len()), (0, 1));
    b.put(data(1, 1));
    assert_eq!(b.verdicts.len(), 1, "one that tells nothing new");
}

#[test]
fn the_window_is_clamped_to_what_the_turn_needs() {
    // One flow on 600 kbit/s: a turn is 20 ms, the round trip 100 ms: 2 + 2 * 100 / 20 = 12 segments. Of 12 to 15
    // segments 13 come closest to whole units of 128 bytes: 13 * 1448 = 147 * 128 + 8.
    let mut b = Bench::new(&[("window_clamp_min", "2")]);
    b.connect(1);
    let tcp = b.ack(1, 1001);
    let edge = u32::from(tcp.window) << 7;
    assert_eq!(edge, 13 * MSS - 8);
}

/// As above, but 448 bytes are a segment, as the user's SYN says: the server's own says what the server takes. Of 12 to
/// 14 segments the first is whole units: 12 * 448 = 42 * 128.
#[test]
fn a_segment_is_what_the_receiver_takes() {
    let mut b = Bench::new(&[("window_clamp_min", "2")]);
    let syn = |key: FlowKey, flags, seq, ack, mss| {
        let mut p = segment(key, flags, seq, ack, 0);
        let tcp = p.header.tcp.as_mut().unwrap();
        (tcp.window_scale, tcp.mss) = (Some(7), Some(mss));
        p
    };
    b.back(syn(key(1).reverse(), Flags::SYN, 0, 0, 460));
    b.wait(100);
    b.put(syn(key(1), Flags::SYN.and(Flags::ACK), 1000, 1, 1460));
    assert!(b.get().is_some());
    assert_eq!(b.ack(1, 1001).window, 42);
}

#[test]
fn without_both_scales_no_window_is_touched() {
    let mut b = Bench::new(&[]);
    b.back(segment(key(1).reverse(), Flags::SYN, 0, 0, 0));
    b.wait(100);
    b.put(segment(key(1), Flags::SYN.and(Flags::ACK), 1000, 1, 0));
    assert!(b.get().is_some());
    assert_eq!(b.ack(1, 1001).window, 500);
}

#[test]
fn a_drop_leaves_three_behind_it_and_comes_once() {
    let mut b = Bench::new(&[
        ("window_clamp", "off"),
        ("k", "6"),
        ("window_clamp_max", "3"),
        ("first_window_grace", "off"),
    ]);
    b.connect(1);
    for nth in 0..40 {
        b.put(data(1, nth));
    }
    let dropped: Vec<_> = b.verdicts.iter().collect();
    assert!(
        matches!(dropped[..], [Verdict::Dropped { packet, reason: Reason::Repairable }] if packet.id == 1001),
        "{dropped:?}"
    );
}

#[test]
fn an_ecn_flow_is_marked_instead() {
    let mut b =
        Bench::new(&[("window_clamp", "off"), ("window_clamp_max", "3"), ("first_window_grace", "off")]);
    b.connect(1);
    for nth in 0..20 {
        let mut p = data(1, nth);
        p.header.ecn = Ecn::Ect0;
        b.put(p);
    }
    assert!(matches!(b.verdicts[..], [Verdict::Marked { .. }]));
    let sent: Vec<_> = std::iter::from_fn(|| b.get()).collect();
    assert_eq!((sent.len(), sent.iter().filter(|p| p.header.ecn == Ecn::Ce).count()), (20, 1));
}

#[test]
fn a_new_connection_on_the_same_ports_starts_anew() {
    // Uploads: the SYN comes in the queued direction.
    let mut b = Bench::new(&[("quantum", "1500"), ("new_quantum", "1500")]);
    let syn = |isn| segment(key(1), Flags::SYN, isn, 0, 0);
    b.put(syn(1000));
    b.put(data(1, 0));
    assert_eq!(std::iter::from_fn(|| b.get()).count(), 2, "its credit is spent");
    for user in [2, 3] {
        b.put(data(user, 0));
        b.put(data(user, 1));
    }
    // The two flows spend their credit, and one has had its turn.
    let served: Vec<_> = (0..3).filter_map(|_| b.get()).map(|p| p.header.key).collect();
    assert_eq!(served, [key(2), key(3), key(2)]);
    b.wait(1);
    b.put(syn(900_000));
    b.put(segment(key(1), Flags::ACK, 900_001, 1, MSS));
    let first = std::iter::from_fn(|| b.get()).find(|p| p.header.is_tcp_data());
    assert_eq!(first.map(|p| p.header.key), Some(key(1)), "the new flow goes before the old");
}

#[test]
fn memory_is_bounded_and_the_longest_pays() {
    let mut b = Bench::new(&[("memory_packets", "50"), ("window_clamp", "off")]);
    for nth in 0..200 {
        b.put(data(1, nth));
        b.put(data(2 + (nth % 10) as u8, nth / 10));
    }
    assert!(b.q.backlog().packets <= 50);
    let victims = b.verdicts.iter().filter_map(|v| match v {
        Verdict::Dropped { packet, .. } => Some(packet.header.key),
        _ => None,
    });
    let (mut flooder, mut others) = (0, 0);
    for k in victims {
        if k == key(1) { flooder += 1 } else { others += 1 }
    }
    assert!(flooder > 150 && others < 200, "{flooder} {others}");
}

#[test]
fn a_late_retransmission_overtakes_and_no_older_timestamp_follows_it() {
    let mut b = Bench::new(&[("window_clamp", "off"), ("new_flows_first", "off")]);
    b.connect(9);
    assert_eq!(b.order(), []);
    // 80 flows make a round of 1.6 s.
    for user in 10..90 {
        b.put(data(user, 0));
    }
    b.put(data(9, 0));
    let lost = b.q.dequeue(b.now, &mut b.verdicts);
    assert!(lost.is_some());
    for nth in 1..4 {
        b.put(data(9, nth));
    }
    // Take what is queued of flow 9 until its first packet has left, then send it again with a later timestamp.
    while b.get().is_some_and(|p| p.header.key != key(9)) {
        let user = 100;
        b.put(data(user, 0));
    }
    for user in 10..90 {
        b.put(data(user, 1));
    }
    b.wait(3000);
    let mut again = data(9, 0);
    again.header.tcp.as_mut().unwrap().timestamps = Some((1_000_000, 1));
    b.put(again);
    let mine: Vec<_> = std::iter::from_fn(|| b.get())
        .filter(|p| p.header.key == key(9))
        .map(|p| p.header.tcp.unwrap())
        .collect();
    assert_eq!(mine[0].seq, SeqNum(1001), "the repair comes first");
    assert!(mine.iter().all(|t| t.timestamps.unwrap().0 >= 1_000_000), "{mine:?}");
    assert_eq!(b.q.counters.restamped, mine.len() as u64 - 1);
    // A later segment leaves as it came.
    b.put(data(9, 9));
    let stamp = |p: Record| p.header.tcp.unwrap().timestamps.unwrap().0;
    assert_eq!(b.get().map(stamp), Some(1001 + 9 * MSS));
}

#[test]
fn made_up_addresses_do_not_push_out_a_pool_that_is_served() {
    let mut b = Bench::new(&[("pools", "16"), ("round_limit_ms", "600000")]);
    b.connect(1);
    b.put(data(1, 0));
    assert!(b.get().is_some());
    let served = b.q.admission.pool([10, 0, 0, 1].into());
    assert!(served.is_some());
    for user in 50..250 {
        // The server answers each, and nobody answers the server.
        assert!(b.back(segment(key(user).reverse(), Flags::SYN, 0, 0, 0)).is_some());
        b.put(segment(key(user), Flags::SYN.and(Flags::ACK), 1000, 1, 0));
        assert!(b.get().is_some());
        b.wait(1);
    }
    assert_eq!(b.q.admission.pool([10, 0, 0, 1].into()), served, "it is where it was in a table of sixteen");
    assert!(b.q.admission.pool([10, 0, 0, 50].into()).is_none());
    // A pool that opened an upload into this queue is named by the other end.
    let upload =
        FlowKey::new(IpAddr::from([10, 0, 2, 1]), IpAddr::from([10, 0, 0, 1]), 40_000, 80, Proto::TCP);
    b.put(segment(upload, Flags::SYN, 0, 0, 0));
    b.put(segment(upload, Flags::ACK, 1, 1, 500));
    while b.get().is_some() {}
    for user in 50..250 {
        b.back(segment(key(user).reverse(), Flags::SYN, 7, 0, 0));
    }
    assert!(b.q.admission.pool([10, 0, 2, 1].into()).is_some());
}

#[test]
fn a_receiver_that_resets_is_sent_one_packet_more() {
    let mut b = Bench::new(&[]);
    b.connect(1);
    (0..4).for_each(|nth| b.put(data(1, nth)));
    b.back(segment(key(1).reverse(), Flags::RST, 1, 0, 0));
    assert_eq!((b.q.backlog().packets, b.order()), (1, vec![(1, 3)]));
}
