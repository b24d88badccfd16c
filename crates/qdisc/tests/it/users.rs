//! The link is shared between users first, then between each one's flows: TAQ and the plain fair queues alike.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report")]

use std::collections::BTreeMap;
use std::net::IpAddr;

use narrows_qdisc::{BoxedDiscipline, Packet, Record, Shaper, ShaperConfig, Spec, Verdicts};
use narrows_qdisc::{CircuitRates, Discipline, Manage as _, Qdisc as _, Site};
use narrows_units::{Bytes, Dscp, Duration, Instant, Rate, SeqNum};
use narrows_users::{CircuitId, Side, User};
use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader};

/// Disciplines without and with sharing between users.
const KINDS: [(&str, &str); 5] = [
    ("taq:admission=off,share=flow", "taq:admission=off"),
    ("taq:admission=off,share=flow,new_share=1,quantum=300", "taq:admission=off,new_share=1,quantum=300"),
    ("drr:4000", "drr:4000,share=user"),
    ("drr:4000,quantum=300", "drr:4000,quantum=300,share=user"),
    (
        "fq_codel:4000,flows=65536,target=10s,interval=100s",
        "fq_codel:4000,flows=65536,target=10s,interval=100s,share=user",
    ),
];

/// 600 kbit/s to users on the side of the destinations.
fn link() -> ShaperConfig {
    ShaperConfig { mtu: Bytes(1500), users: Side::Destination, ..ShaperConfig::new(Rate::from_kbps(600)) }
}

/// A record that knows its user.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sorted {
    record: Record,
    user: Option<User>,
}

impl Packet for Sorted {
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
    fn set_dscp(&mut self, dscp: Dscp) -> bool {
        self.record.set_dscp(dscp)
    }
    fn circuit(&self) -> Option<CircuitId> {
        self.user.and_then(User::as_circuit)
    }
    fn user(&self) -> Option<User> {
        self.user
    }
}

fn build<P: Packet + Send + 'static>(text: &str) -> BoxedDiscipline<P> {
    let spec: Spec = text.parse().unwrap();
    Box::new(Shaper::new(link(), spec.build(&link(), 3)))
}

fn address(user: u64) -> IpAddr {
    [10, 1, (user >> 8) as u8, user as u8].into()
}

/// A segment to a user. The wide side has the higher port, which must mislead nobody.
fn segment(to: IpAddr, flow: u64, seq: u32, payload: u32) -> Record {
    let server = if to.is_ipv4() { "192.0.2.1" } else { "2001:db8:ffff::1" };
    let key = FlowKey::new(server.parse().unwrap(), to, 50_000 + flow as u16, 443, Proto::TCP);
    let tcp = TcpHeader { seq: SeqNum(seq), flags: Flags::ACK, payload, window: 500, ..TcpHeader::default() };
    let header = Header { key, len: Bytes(u64::from(payload) + 40), tcp: Some(tcp), ..Header::default() };
    Record { id: 0, header }
}

/// Flows that always have `waiting` packets in the queue: who gets what of a minute of the link.
fn shares(spec: &str, flows: &[(IpAddr, u64)], waiting: u32) -> BTreeMap<IpAddr, u64> {
    let mut q: BoxedDiscipline<Record> = build(spec);
    let mut seqs: BTreeMap<FlowKey, u32> = BTreeMap::new();
    let mut got: BTreeMap<IpAddr, u64> = BTreeMap::new();
    let mut put = |q: &mut BoxedDiscipline<Record>, now, to: IpAddr, flow| {
        let first = segment(to, flow, 0, 1400);
        let seq = seqs.entry(first.header.key).or_default();
        *seq += 1400;
        q.enqueue(now, segment(to, flow, *seq, 1400), &mut Vec::new());
    };
    let mut now = Instant::from_nanos(1_000_000_000);
    for _ in 0..waiting {
        flows.iter().for_each(|(to, flow)| put(&mut q, now, *to, *flow));
    }
    let end = now + Duration::from_secs(60);
    while now < end {
        while let Some(packet) = q.dequeue(now, &mut Vec::new()) {
            let key = packet.header.key;
            *got.entry(key.dst()).or_default() += packet.header.len.get();
            put(&mut q, now, key.dst(), u64::from(key.sport) - 50_000);
        }
        now = q.next_ready(now).unwrap().max(now + Duration::from_nanos(1));
    }
    got
}

#[test]
fn one_household_with_fifty_connections_has_the_share_of_one() {
    let heavy = (0..50).map(|flow| (address(0), flow));
    let flows: Vec<_> = heavy.chain((1..20).map(|user| (address(user), 0))).collect();
    for (by_flow, by_user) in KINDS {
        let of = |spec: &str| {
            let got = shares(spec, &flows, 2);
            got[&address(0)] as f64 * 20.0 / got.values().sum::<u64>() as f64
        };
        let (flow, user) = (of(by_flow), of(by_user));
        assert!(flow > 12.0, "{by_flow}: fifty of 69 flows are 14.5 shares of twenty, and it has {flow}");
        assert!((0.95..=1.05).contains(&user), "{by_user}: {user}");
    }
}

#[test]
fn twenty_privacy_addresses_of_one_prefix_count_once() {
    let private = |n: u16| IpAddr::from([0x2001, 0xdb8, 1, 1, 7 * n, n, 99 - n, n]);
    let neighbour = |n: u16| IpAddr::from([0x2001, 0xdb8, 1, 2 + n, 0, 0, 0, 1]);
    let flows: Vec<_> = (0..20).map(|n| (private(n), 0)).chain((0..4).map(|n| (neighbour(n), 0))).collect();
    for (_, by_user) in KINDS {
        let got = shares(by_user, &flows, 2);
        let all: u64 = got.values().sum();
        let one: u64 = (0..20).map(|n| got[&private(n)]).sum();
        let share = one as f64 * 5.0 / all as f64;
        assert!((0.95..=1.05).contains(&share), "{by_user}: {share}");
        // With all 128 bits they are twenty.
        let got = shares(&format!("{by_user},user_prefix=128"), &flows, 2);
        let one: u64 = (0..20).map(|n| got[&private(n)]).sum();
        assert!(one * 10 > all * 8, "{by_user}: twenty of 24 users");
    }
}

#[test]
fn users_that_the_driver_tells_are_users_whatever_their_prefix() {
    let host = |n: u16| IpAddr::from([0x2001, 0xdb8, 1, 1, 0, 0, 0, n]);
    // Ten hosts of one /64, the last with ten flows, and one of IPv4, which is the first with another address.
    let flows: Vec<_> = (1..10)
        .map(|n| (host(n), 0))
        .chain((0..10).map(|flow| (host(10), flow)))
        .chain([(address(1), 0), (host(99), 0)])
        .collect();
    let whose = |to: IpAddr| User::of(if to == host(99) { address(1) } else { to }, 128);
    for (_, by_user) in KINDS {
        let mut q: BoxedDiscipline<Sorted> = build(by_user);
        let (mut got, mut seq) = (BTreeMap::<User, u64>::new(), 0);
        let mut put = |q: &mut BoxedDiscipline<Sorted>, now, to: IpAddr, flow| {
            seq += 1400;
            let user = Some(whose(to));
            q.enqueue(now, Sorted { record: segment(to, flow, seq, 1400), user }, &mut Vec::new());
        };
        let mut now = Instant::from_nanos(1_000_000_000);
        (0..2).for_each(|_| flows.iter().for_each(|(to, flow)| put(&mut q, now, *to, *flow)));
        let end = now + Duration::from_secs(60);
        while now < end {
            while let Some(packet) = q.dequeue(now, &mut Vec::new()) {
                let key = packet.record.header.key;
                *got.entry(whose(key.dst())).or_default() += packet.record.header.len.get();
                put(&mut q, now, key.dst(), u64::from(key.sport) - 50_000);
            }
            now = q.next_ready(now).unwrap().max(now + Duration::from_nanos(1));
        }
        let all: u64 = got.values().sum();
        assert_eq!(got.len(), 11);
        for (user, bytes) in got {
            let share = bytes as f64 * 11.0 / all as f64;
            assert!((0.95..=1.05).contains(&share), "{by_user}: {user} {share}");
        }
    }
}

/// A small generator (xorshift64*): what comes when, of which length.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % n
    }
}

/// The order in which packets leave, and when, of thirty users with a flow each who come, rest and return.
fn order(spec: &str, seed: u64) -> Vec<(Instant, u64)> {
    let (mut q, mut rng): (BoxedDiscipline<Record>, _) = (build(spec), Rng(seed));
    let (mut now, mut next, mut left, mut seqs) = (1_000_000_000, 0, Vec::new(), [0_u32; 30]);
    for id in 0..6000 {
        next += rng.below(1 << 25) * rng.below(2) * if id % 700 == 0 { 200 } else { 1 };
        // Some send much, some little.
        let user = rng.below(30).min(rng.below(30));
        let payload = 1 + rng.below(if user % 3 == 0 { 200 } else { 1400 }) as u32;
        let at = Instant::from_nanos(1_000_000_000 + next);
        serve(&mut q, Instant::from_nanos(now), at, &mut left);
        seqs[user as usize] += payload;
        let packet = Record { id, ..segment(address(user), 0, seqs[user as usize] - payload, payload) };
        q.enqueue(at, packet, &mut Vec::new());
        now = at.as_nanos();
    }
    serve(&mut q, Instant::from_nanos(now), Instant::from_nanos(now) + Duration::from_secs(600), &mut left);
    left
}

fn serve(q: &mut BoxedDiscipline<Record>, mut now: Instant, until: Instant, left: &mut Vec<(Instant, u64)>) {
    let mut verdicts = Verdicts::new();
    loop {
        while let Some(packet) = q.dequeue(now, &mut verdicts) {
            left.push((now, packet.id));
        }
        match q.next_ready(now) {
            Some(at) if at < until => now = at.max(now + Duration::from_nanos(1)),
            _ => return,
        }
    }
}

#[test]
fn with_one_flow_each_users_are_served_as_their_flows_would_be() {
    for (by_flow, by_user) in KINDS {
        for seed in 1..=6 {
            let (flow, user) = (order(by_flow, seed), order(by_user, seed));
            let differs = flow.iter().zip(&user).position(|(a, b)| a != b);
            assert!(flow.len() > 4000, "{by_flow}: {}", flow.len());
            assert_eq!((differs, flow.len()), (None, user.len()), "{by_user}, seed {seed}");
        }
    }
}

#[test]
fn a_new_user_goes_first_and_fifty_new_flows_of_one_user_do_not() {
    let mut q: BoxedDiscipline<Record> = build("taq:admission=off");
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut verdicts = Vec::new();
    let mut put = |q: &mut BoxedDiscipline<Record>, now, user, flow, nth: u32| {
        q.enqueue(now, segment(address(user), flow, nth * 1400, 1400), &mut verdicts);
    };
    // Twenty users who have had their first credit, a flow each that is not new any more, and a queue.
    for nth in 0..8 {
        (0..20).for_each(|user| put(&mut q, now, user, 0, nth));
    }
    let users = |q: &mut BoxedDiscipline<Record>, now: &mut Instant, n: usize| {
        let mut got = Vec::new();
        while got.len() < n {
            match q.dequeue(*now, &mut Vec::new()) {
                Some(packet) => got.push((packet.header.key.dst(), packet.header.key.sport)),
                None => *now = q.next_ready(*now).unwrap(),
            }
        }
        got
    };
    users(&mut q, &mut now, 105);
    // A new user's first flow is served next but for what the fifty of user 3 may have together.
    (100..150).for_each(|flow| put(&mut q, now, 3, flow, 0));
    put(&mut q, now, 99, 0, 0);
    let got = users(&mut q, &mut now, 22);
    let first = got.iter().position(|g| g.0 == address(99));
    assert!(first.is_some_and(|n| n <= 3), "{first:?}");
    let of_three: Vec<_> = got.iter().filter(|g| g.0 == address(3)).collect();
    assert!((1..=4).contains(&of_three.len()), "{of_three:?}");
    // Within the user the new ones go before the old.
    assert!(of_three[0].1 >= 50_100, "{of_three:?}");
}

/// A page of six connections, each with four packets: the answer to a seventh waits for the first packets of them, not
/// for all they have.
#[test]
fn a_connection_of_a_page_waits_for_one_packet_of_each_other() {
    let mut q: BoxedDiscipline<Record> = build("taq:admission=off");
    let mut now = Instant::from_nanos(1_000_000_000);
    let put = |q: &mut BoxedDiscipline<Record>, now, user, flow, nth: u32| {
        q.enqueue(now, segment(address(user), flow, nth * 1400, 1400), &mut Vec::new());
    };
    for nth in 0..40 {
        (1..10).for_each(|user| put(&mut q, now, user, 0, nth));
    }
    (1..=6).for_each(|flow| (0..4).for_each(|nth| put(&mut q, now, 0, flow, nth)));
    put(&mut q, now, 0, 7, 0);
    let mut before = 0;
    loop {
        match q.dequeue(now, &mut Vec::new()) {
            Some(packet) if packet.header.key.dst() != address(0) => {}
            Some(packet) if packet.header.key.sport == 50_007 => break,
            Some(_) => before += 1,
            None => now = q.next_ready(now).unwrap(),
        }
    }
    assert!(before <= 6, "{before}");
}

#[test]
fn who_opens_a_connection_for_each_packet_has_its_share() {
    for new_flows in [1, 50] {
        let mut q: BoxedDiscipline<Record> = build("taq:admission=off");
        let mut now = Instant::from_nanos(1_000_000_000);
        let (mut got, mut flow, mut seq) = ([0_u64; 20], 0, 0);
        let mut put = |q: &mut BoxedDiscipline<Record>, now, user: usize| {
            // User 0 has a new connection each time; the others have one.
            (flow, seq) = (flow + u64::from(user == 0), seq + 1400);
            let flow = if user == 0 { flow } else { 0 };
            q.enqueue(now, segment(address(user as u64), flow, seq, 1400), &mut Vec::new());
        };
        (0..new_flows).for_each(|_| put(&mut q, now, 0));
        (1..20).for_each(|user| (0..2).for_each(|_| put(&mut q, now, user)));
        let end = now + Duration::from_secs(120);
        while now < end {
            while let Some(packet) = q.dequeue(now, &mut Vec::new()) {
                let IpAddr::V4(to) = packet.header.key.dst() else { unreachable!() };
                let user = usize::from(to.octets()[3]);
                got[user] += packet.header.len.get();
                put(&mut q, now, user);
            }
            now = q.next_ready(now).unwrap().max(now + Duration::from_nanos(1));
        }
        let share = got[0] as f64 * 20.0 / got.iter().sum::<u64>() as f64;
        assert!((0.95..=1.05).contains(&share), "{new_flows} waiting: {share}");
    }
}

/// Bytes to two circuits and a user without in ten seconds, all of whom always have packets waiting.
fn by_circuit(q: &mut BoxedDiscipline<Sorted>, now: &mut Instant, seq: &mut u32) -> [u64; 3] {
    let (mut got, end) = ([0; 3], *now + Duration::from_secs(10));
    let mut put = |q: &mut BoxedDiscipline<Sorted>, now, who: u32| {
        *seq += 1000;
        // Two devices of a circuit are one user.
        let device = address(u64::from(who) * 2 + if who < 2 { u64::from(*seq / 1000 % 2) } else { 0 });
        let user = (who < 2).then_some(User::circuit(CircuitId(who)));
        q.enqueue(now, Sorted { record: segment(device, 0, *seq, 960), user }, &mut Vec::new());
    };
    if q.backlog().packets == 0 {
        (0..12).for_each(|n| put(q, *now, n % 3));
    }
    while *now < end {
        while let Some(packet) = q.dequeue(*now, &mut Vec::new()) {
            let who = packet.circuit().map_or(2, |c| c.0);
            got[who as usize] += packet.len().get();
            put(q, *now, who);
        }
        *now = q.next_ready(*now).unwrap().max(*now + Duration::from_nanos(1));
    }
    got
}

#[test]
fn circuits_keep_to_their_rates_and_new_rates_lose_nothing() {
    for (_, spec) in KINDS {
        let mut q: BoxedDiscipline<Sorted> = build(spec);
        let rate = |kbps| Some(Rate::from_kbps(kbps));
        q.set_circuit_rates(&[rate(80), None].into());
        let (mut now, mut seq) = (Instant::from_nanos(1_000_000_000), 0);
        // 80 kbit/s are 100 kB in ten seconds, and a little that was saved; the others share the rest.
        let got = by_circuit(&mut q, &mut now, &mut seq);
        assert!((98_000..=104_000).contains(&got[0]), "{spec}: {got:?}");
        assert!(got[1].abs_diff(got[2]) < 12_000 && got.iter().sum::<u64>() > 740_000, "{spec}: {got:?}");
        // All have rates below what the link has: it is idle in between, and `next_ready` says when it is not.
        q.set_circuit_rates(&[rate(160), rate(40)].into());
        let waiting = q.backlog().packets;
        let got = by_circuit(&mut q, &mut now, &mut seq);
        assert!((196_000..=204_000).contains(&got[0]), "{spec}: {got:?}");
        assert!((48_000..=54_000).contains(&got[1]), "{spec}: {got:?}");
        assert_eq!(q.backlog().packets, waiting, "{spec}: each that left was followed by another");
        // Without limits they are three again.
        q.set_circuit_rates(&[None, None].into());
        let got = by_circuit(&mut q, &mut now, &mut seq);
        assert!(got.iter().all(|g| g.abs_diff(250_000) < 12_000), "{spec}: {got:?}");
    }
}

#[test]
fn a_user_alone_waits_for_its_rate_and_is_woken() {
    for (_, spec) in KINDS {
        let mut q: BoxedDiscipline<Sorted> = build(spec);
        q.set_circuit_rates(&[Some(Rate::from_kbps(8))].into());
        let mut now = Instant::from_nanos(10_000_000_000);
        for nth in 0..6 {
            let record = segment(address(1), 0, nth * 960, 960);
            q.enqueue(now, Sorted { record, user: Some(User::circuit(CircuitId(0))) }, &mut Vec::new());
        }
        let mut left = Vec::new();
        while let Some(at) = q.next_ready(now) {
            now = at;
            left.extend(q.dequeue(now, &mut Vec::new()).map(|_| now.as_nanos() / 1_000_000));
        }
        // 1000 bytes are a second of 8 kbit/s and 13.3 ms of the link; 50 ms and 3028 bytes, 3078 ms, are saved at
        // first.
        assert_eq!(left, [10_000, 10_013, 10_026, 10_040, 10_922, 11_922], "{spec}");
        let discipline: &dyn Discipline<Sorted> = &*q;
        assert_eq!(discipline.backlog().packets, 0);
    }
}

#[test]
fn many_flows_with_little_each_push_out_nobody_else() {
    for spec in ["taq:admission=off,share=user,memory_packets=200,k=3", "drr:200,share=user"] {
        let mut q: BoxedDiscipline<Record> = build(spec);
        let (now, mut verdicts) = (Instant::from_nanos(1_000_000_000), Vec::new());
        // Twenty users with two packets each, in pairs that TCP would repair; and one with six hundred flows.
        for nth in 0..2 {
            (1..=20)
                .for_each(|user| q.enqueue(now, segment(address(user), 0, nth * 1400, 1400), &mut verdicts));
        }
        (0..600).for_each(|flow| q.enqueue(now, segment(address(0), flow, 0, 1400), &mut verdicts));
        (1..=20).for_each(|user| q.enqueue(now, segment(address(user), 0, 2800, 1400), &mut verdicts));
        let lost = |verdict: &narrows_qdisc::Verdict<Record>| match verdict {
            narrows_qdisc::Verdict::Dropped { packet, .. } => packet.header.key.dst(),
            other => panic!("{other:?}"),
        };
        let lost: Vec<_> = verdicts.iter().map(lost).collect();
        assert!(lost.len() >= 460 && lost.iter().all(|user| *user == address(0)), "{spec}: {lost:?}");
    }
}

/// When which packet leaves, of circuits with and without rates whose packets come at random; asked when it was said to
/// be worth while, and with `polls` at random times besides.
fn departures(spec: &str, polls: bool) -> Vec<(Instant, u64)> {
    let (mut q, mut rng, mut dice): (BoxedDiscipline<Sorted>, _, _) = (build(spec), Rng(7), Rng(9));
    let rate = |kbps| Some(Rate::from_kbps(kbps));
    let all = [Site { rate: rate(200), above: None }, Site { rate: rate(160), above: Some(0) }];
    let rates = CircuitRates::new([rate(60), rate(150), None]);
    q.set_circuit_rates(&rates.with_sites(&all, [Some(1), Some(1), Some(0)].to_vec()));
    let (mut now, mut left) = (1_000_000_000, Vec::new());
    let mut take = |q: &mut BoxedDiscipline<Sorted>, at: Instant| {
        left.extend(std::iter::from_fn(|| q.dequeue(at, &mut Vec::new())).map(|p| (at, p.record.id)));
    };
    for id in 0..3000_u64 {
        let next = now + rng.below(1 << 25) * if id % 200 == 0 { 300 } else { 1 };
        loop {
            let told = q.next_ready(Instant::from_nanos(now)).map(|t| t.as_nanos().max(now + 1));
            let poll = polls.then(|| now + 1 + dice.below(5_000_000));
            let Some(at) = told.into_iter().chain(poll).min().filter(|at| *at < next) else { break };
            now = at;
            take(&mut q, Instant::from_nanos(now));
        }
        now = next;
        let who = rng.below(4);
        let record = Record {
            id,
            ..segment(address(who), rng.below(3), id as u32 * 1400, 100 + rng.below(1300) as u32)
        };
        let user = (who < 3).then_some(User::circuit(CircuitId(who as u32)));
        q.enqueue(Instant::from_nanos(now), Sorted { record, user }, &mut Vec::new());
        take(&mut q, Instant::from_nanos(now));
    }
    left
}

/// Bytes that each of six users has in ten seconds, who all want more than they can have: circuits 0 to 4, and one
/// that is none.
fn of_six(q: &mut BoxedDiscipline<Sorted>, now: &mut Instant, seq: &mut u32, len: [u32; 6]) -> [u64; 6] {
    let (mut got, end) = ([0; 6], *now + Duration::from_secs(10));
    let mut put = |q: &mut BoxedDiscipline<Sorted>, now, who: u32| {
        let payload = len[who as usize] - 40;
        *seq += payload;
        let user = (who < 5).then_some(User::circuit(CircuitId(who)));
        let record = segment(address(u64::from(who)), 0, *seq, payload);
        q.enqueue(now, Sorted { record, user }, &mut Vec::new());
    };
    if q.backlog().packets == 0 {
        (0..24).for_each(|n| put(q, *now, n % 6));
    }
    while *now < end {
        while let Some(packet) = q.dequeue(*now, &mut Vec::new()) {
            let who = packet.circuit().map_or(5, |c| c.0);
            got[who as usize] += packet.len().get();
            put(q, *now, who);
        }
        *now = q.next_ready(*now).unwrap().max(*now + Duration::from_nanos(1));
    }
    got
}

/// A tree on 600 kbit/s: a mast has 400, and a site below it at most 200 of these.
fn sites() -> CircuitRates {
    let rate = |kbps| Some(Rate::from_kbps(kbps));
    let mast = Site { rate: rate(400), above: None };
    let north = Site { rate: rate(200), above: Some(0) };
    let south = Site { rate: None, above: Some(0) };
    let at = [Some(1), Some(1), Some(1), Some(2), Some(0)];
    CircuitRates::new(vec![None; 5]).with_sites(&[mast, north, south], at.to_vec())
}

/// By hand, as max-min fairness has it: three of the north have 200 / 3 kbit/s, 83 kB in ten seconds, and the two
/// others of the mast 100 kbit/s each, 125 kB; who is at no site has 200 kbit/s, 250 kB.
#[test]
fn sites_keep_to_their_rates_and_share_them_between_users() {
    for (_, spec) in KINDS {
        let mut q: BoxedDiscipline<Sorted> = build(spec);
        q.set_circuit_rates(&sites());
        let (mut now, mut seq) = (Instant::from_nanos(1_000_000_000), 0);
        let got = of_six(&mut q, &mut now, &mut seq, [1000; 6]);
        let near = |got: u64, by_hand: u64| got.abs_diff(by_hand) * 100 < by_hand * 6;
        let by_hand = [83_333, 83_333, 83_333, 125_000, 125_000, 250_000];
        assert!(got.iter().zip(by_hand).all(|(got, by_hand)| near(*got, by_hand)), "{spec}: {got:?}");
        let north: u64 = got[..3].iter().sum();
        let mast: u64 = got[..5].iter().sum();
        // A site saves 50 ms and two large packets.
        assert!(north <= 250_000 + 4300 && mast <= 500_000 + 5600, "{spec}: {north} and {mast}");
        assert!(north > 245_000 && mast > 490_000, "{spec}: {north} and {mast}");
        // Rates that are told anew ten times a second change nothing, nor do packets of other sizes: bytes count.
        let (mut sum, begun) = ([0; 6], now);
        while now.since(begun) < Duration::from_secs(100) {
            q.set_circuit_rates(&sites());
            let got = of_six(&mut q, &mut now, &mut seq, [1400, 200, 500, 1400, 300, 1000]);
            sum = core::array::from_fn(|who| sum[who] + got[who]);
        }
        let near = |got: u64, by_hand: u64| got.abs_diff(by_hand) * 100 < by_hand * 4;
        assert!(sum.iter().zip(by_hand).all(|(got, by_hand)| near(*got, by_hand * 10)), "{spec}: {sum:?}");
        // A circuit's own rate holds within its site's, and what it leaves is for the others there. It has saved two
        // packets.
        let rate = |kbps| Some(Rate::from_kbps(kbps));
        let limited = CircuitRates::new([rate(20), None, None, rate(50), None])
            .with_sites(sites().sites(), [Some(1), Some(1), Some(1), Some(2), Some(0)].to_vec());
        q.set_circuit_rates(&limited);
        let got = of_six(&mut q, &mut now, &mut seq, [1000; 6]);
        // A user who alone could use the rest of its site misses a little of it while others of the link have turns.
        let by_hand = [28_000, 111_000, 111_000, 65_500, 187_500, 250_000];
        assert!(got.iter().zip(by_hand).all(|(got, by_hand)| near(*got, by_hand)), "{spec}: {got:?}");
        // Without sites all are alike.
        q.set_circuit_rates(&CircuitRates::default());
        let got = of_six(&mut q, &mut now, &mut seq, [1000; 6]);
        assert!(got.iter().all(|got| near(*got, 125_000)), "{spec}: {got:?}");
    }
}

/// Users of whom no file knows have the rate of the default plan each.
#[test]
fn who_is_in_no_circuit_has_the_plan_of_the_others() {
    for (_, spec) in KINDS {
        let mut q: BoxedDiscipline<Sorted> = build(spec);
        let rates = CircuitRates::new(vec![None; 5]).with_others(Some(Rate::from_kbps(40)));
        q.set_circuit_rates(&rates);
        let (mut now, mut seq) = (Instant::from_nanos(1_000_000_000), 0);
        let got = of_six(&mut q, &mut now, &mut seq, [1000; 6]);
        assert!((49_000..=54_000).contains(&got[5]), "{spec}: {got:?}");
        assert!(got[..5].iter().all(|got| got.abs_diff(140_000) < 9000), "{spec}: {got:?}");
    }
}

#[test]
fn who_asks_when_told_sees_of_rates_what_one_who_polls_sees() {
    for (_, spec) in KINDS {
        let (told, polled) = (departures(spec, false), departures(spec, true));
        let differs = told.iter().zip(&polled).position(|(a, b)| a != b);
        assert!(told.len() > 1500, "{spec}: {}", told.len());
        assert_eq!(differs, None, "{spec}");
    }
}
