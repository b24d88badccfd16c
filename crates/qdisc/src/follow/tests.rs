//! The shaper before a modem of which only the acknowledgments tell.

use std::collections::VecDeque;

use narrows_units::{Bytes, Duration, Instant, Rate, SeqNum};
use narrows_wire::{Flags, FlowKey, Proto, TcpHeader};

use super::*;
use crate::{Fifo, Limit, Record};

pub(super) fn ms(n: u64) -> Instant {
    Instant::from_nanos(n * 1_000_000)
}

fn key(user: u8) -> FlowKey {
    FlowKey::new([10, 0, 0, 1].into(), [10, 0, 1, user].into(), 80, 4000, Proto::TCP)
}

fn data(user: u8, number: u64) -> Record {
    let mut r = Record { id: number, ..Record::default() };
    r.header.key = key(user);
    r.header.len = Bytes(1500);
    let seq = SeqNum((number * 1460) as u32);
    r.header.tcp = Some(TcpHeader { seq, payload: 1460, flags: Flags::ACK, ..TcpHeader::default() });
    r
}

fn ack(user: u8, packets: u64) -> Record {
    let mut r = Record::default();
    r.header.key = key(user).reverse();
    r.header.len = Bytes(40);
    let ack = SeqNum((packets * 1460) as u32);
    r.header.tcp = Some(TcpHeader { ack, flags: Flags::ACK, ..TcpHeader::default() });
    r
}

/// A box with as much waiting as it wants, a modem of a rate that is set from outside, and users who acknowledge.
struct Path {
    shaper: Follow<Record, Fifo<Record>>,
    /// Time at which the modem has sent what it has, and what it sends when.
    free_at: Instant,
    acks: VecDeque<(Instant, Record)>,
    delay: Duration,
    next: u64,
    sent: Vec<(Instant, u64)>,
    longest: Duration,
}

impl Path {
    fn new(delay: u64, settings: &str) -> Self {
        let link = ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(1000)) };
        // Senders here wait for no acknowledgment, so a queue that stands would never be found.
        let config = crate::Settings::read(&format!("where=behind,{settings}")).unwrap();
        let spec: Spec = "fifo:50".parse().unwrap();
        let mut path = Self {
            shaper: Follow::new(config, link, spec, Fifo::new(Limit::Packets(50)), 1),
            free_at: Instant::ZERO,
            acks: VecDeque::new(),
            delay: Duration::from_millis(delay),
            next: 0,
            sent: Vec::new(),
            longest: Duration::ZERO,
        };
        // The users have opened their connections.
        path.shaper.reverse(Instant::ZERO, ack(0, 0), &mut Vec::new());
        path
    }

    /// Lets time pass with full queues. `rate` tells when a packet that begins at some time has left. `polls`: the
    /// shaper is asked also when it did not say so.
    fn run(&mut self, from: Instant, to: Instant, polls: bool, rate: impl Fn(Instant) -> Instant) {
        let (mut now, mut v) = (from, Vec::new());
        while now < to {
            while let Some((_, ack)) = self.acks.pop_front_if(|a| a.0 <= now) {
                self.shaper.reverse(now, ack, &mut v);
            }
            while self.shaper.backlog().packets < 20 {
                self.shaper.enqueue(now, data(0, self.next), &mut v);
                self.next += 1;
            }
            while let Some(packet) = self.shaper.dequeue(now, &mut v) {
                self.sent.push((now, packet.id));
                self.free_at = rate(self.free_at.max(now));
                self.longest = self.longest.max(self.free_at.since(now));
                self.acks.push_back((self.free_at + self.delay, ack(0, packet.id + 1)));
                while self.shaper.backlog().packets < 20 {
                    self.shaper.enqueue(now, data(0, self.next), &mut v);
                    self.next += 1;
                }
            }
            let ready = self.shaper.next_ready(now).filter(|at| *at > now);
            let next = ready.into_iter().chain(self.acks.front().map(|a| a.0)).min().unwrap_or(to);
            now = if polls { next.min(now + Duration::from_micros(700)) } else { next };
        }
    }
}

fn constant(kbps: u64) -> impl Fn(Instant) -> Instant {
    move |from| from + Rate::from_kbps(kbps).time_to_send(Bytes(1500))
}

#[test]
fn a_fixed_rate_is_found() {
    for (kbps, delay) in
        [(64, 20), (128, 300), (600, 20), (2_000, 50), (2_000, 600), (10_000, 20), (10_000, 600)]
    {
        let mut path = Path::new(delay, "");
        path.run(Instant::ZERO, ms(30_000), false, constant(kbps));
        path.longest = Duration::ZERO;
        let before = path.sent.len() as u64;
        path.run(ms(30_000), ms(60_000), false, constant(kbps));
        let carried = (path.sent.len() as u64 - before) * 1500 * 8 / 30_000;
        let told = path.shaper.belief(ms(60_000)).rate_bps / 1000;
        // 5 % each way; what leaves cannot be more but for what the modem holds.
        assert!((kbps * 95..=kbps * 105).contains(&(told * 100)), "{kbps} kbit/s, {delay} ms: told {told}");
        assert!(carried * 100 >= kbps * 95, "{kbps} kbit/s, {delay} ms: carried {carried}");
        // One more packet than is aimed at: after the queue was let run empty the first two leave together.
        let bound = Rate::from_kbps(kbps).time_to_send(Bytes(4500)) + Duration::from_millis(100);
        assert!(path.longest <= bound, "{kbps} kbit/s, {delay} ms: the modem's queue {}", path.longest);
    }
}

#[test]
fn who_answers_from_far_is_not_held_to_what_is_near() {
    // 2 Mbit/s to hosts of which one answers after 10 ms, with a packet each 600 ms, and one after 160 ms.
    let mut path = Path::new(5, "");
    let (mut now, mut v, mut ids) = (Instant::ZERO, Vec::new(), [0_u64; 2]);
    path.shaper.reverse(now, ack(1, 0), &mut v);
    let mut near_at = Instant::ZERO;
    let mut acks: Vec<(Instant, Record)> = Vec::new();
    // Packets that left in the last thirty seconds, and their times in the modem.
    let mut waits = Vec::new();
    while now < ms(60_000) {
        acks.sort_by_key(|a| std::cmp::Reverse(a.0));
        while acks.last().is_some_and(|a| a.0 <= now) {
            let (_, record) = acks.pop().unwrap();
            path.shaper.reverse(now, record, &mut v);
        }
        if now >= near_at {
            near_at = now + Duration::from_millis(600);
            path.shaper.enqueue(now, data(0, ids[0]), &mut v);
            ids[0] += 1;
        }
        while path.shaper.backlog().packets < 20 {
            path.shaper.enqueue(now, data(1, ids[1]), &mut v);
            ids[1] += 1;
        }
        while let Some(packet) = path.shaper.dequeue(now, &mut v) {
            path.free_at = constant(2_000)(path.free_at.max(now));
            let far = packet.header.key == key(1);
            let way = Duration::from_millis(if far { 160 } else { 10 });
            acks.push((path.free_at + way, ack(u8::from(far), packet.id + 1)));
            waits.extend((now >= ms(30_000)).then(|| path.free_at.since(now)));
        }
        now += Duration::from_millis(1);
    }
    // Thirty seconds of 2 Mbit/s are 5000 packets.
    assert!(waits.len() >= 4500, "{}", waits.len());
    waits.sort_unstable();
    let [p50, p95] = [50, 95].map(|p| waits[waits.len() * p / 100]);
    assert!(p95 <= Duration::from_millis(100), "{p50}, {p95}");
}

/// Its user acknowledges each packet as it leaves the box, long before the link has brought it.
#[test]
fn who_acknowledges_what_has_not_come_gains_no_more_than_the_greatest_rate() {
    let mut path = Path::new(5, "max=2000");
    let (mut now, mut v, mut number, mut bytes) = (Instant::ZERO, Vec::new(), 0, 0);
    path.shaper.reverse(now, ack(0, 0), &mut v);
    while now < ms(20_000) {
        while path.shaper.backlog().packets < 20 {
            path.shaper.enqueue(now, data(0, number), &mut v);
            number += 1;
        }
        while let Some(packet) = path.shaper.dequeue(now, &mut v) {
            bytes += packet.len().get();
            path.shaper.reverse(now, ack(0, packet.id + 1), &mut v);
        }
        now += Duration::from_millis(1);
    }
    // 20 s of 2 Mbit/s are 5 MB.
    assert!(bytes <= 5_100_000, "{bytes}");
}

#[test]
fn asked_oftener_it_says_the_same() {
    let rate = |from: Instant| {
        let kbps = if (from.as_nanos() / 1_000_000_000).is_multiple_of(2) { 300 } else { 2_000 };
        from + Rate::from_kbps(kbps).time_to_send(Bytes(1500))
    };
    let (mut told, mut polled) = (Path::new(20, ""), Path::new(20, ""));
    told.run(Instant::ZERO, ms(8_000), false, rate);
    polled.run(Instant::ZERO, ms(8_000), true, rate);
    assert_eq!(told.sent, polled.sent);
}

#[test]
fn an_outage_is_not_filled_and_its_end_is_seen() {
    // 600 kbit/s, ten seconds of nothing, 600 kbit/s.
    let rate = |from: Instant| {
        let from = if (ms(20_000)..ms(30_000)).contains(&from) { ms(30_000) } else { from };
        from + Duration::from_millis(20)
    };
    let mut path = Path::new(20, "");
    path.run(Instant::ZERO, ms(20_000), false, rate);
    let before = path.sent.len();
    path.run(ms(20_000), ms(30_000), false, rate);
    let meanwhile = path.sent.len() - before;
    assert!((1..=30).contains(&meanwhile), "{meanwhile} packets");
    path.run(ms(30_000), ms(31_000), false, rate);
    let before = path.sent.len();
    path.run(ms(31_000), ms(33_000), false, rate);
    // Two seconds are a hundred packets.
    let after = path.sent.len() - before;
    assert!(after >= 90, "{after}");
}

#[test]
fn nothing_is_changed_while_nothing_waits() {
    let mut path = Path::new(20, "");
    path.run(Instant::ZERO, ms(20_000), false, constant(600));
    let before = path.shaper.belief(ms(20_000)).rate_bps;
    // One packet a second is all there is to send: the link could carry fifty.
    let mut v = Vec::new();
    while path.shaper.inner_mut().dequeue(ms(20_000), &mut v).is_some() {}
    for second in 30..60_u64 {
        let (now, number) = (ms(second * 1000), path.next);
        path.shaper.enqueue(now, data(0, number), &mut v);
        assert!(path.shaper.dequeue(now, &mut v).is_some());
        path.shaper.reverse(now + Duration::from_millis(40), ack(0, number + 1), &mut v);
        path.next += 1;
    }
    let belief = path.shaper.belief(ms(60_000));
    assert_eq!(belief.phase, FollowPhase::Idle);
    assert_eq!(belief.rate_bps, before);
}

fn udp(id: u64) -> Record {
    let mut r = Record { id, ..Record::default() };
    r.header.key = FlowKey::new([10, 0, 0, 1].into(), [10, 0, 1, 9].into(), 5000, 5000, Proto::UDP);
    r.header.len = Bytes(1500);
    r
}

#[test]
fn where_nothing_ever_tells_nothing_is_held_back() {
    let mut path = Path::new(20, "");
    let mut v = Vec::new();
    // A tunnel alone: 2 Mbit/s come and go.
    for id in 0..1000 {
        let now = ms(id * 6);
        path.shaper.enqueue(now, udp(id), &mut v);
        assert!(path.shaper.dequeue(now, &mut v).is_some(), "{id}");
    }
    assert_eq!(path.shaper.belief(ms(5994)).phase, FollowPhase::Blind);
    // Then a connection that does tell shares it: the link is found.
    path.run(ms(6_000), ms(30_000), false, constant(600));
    let told = path.shaper.belief(ms(30_000)).rate_bps / 1000;
    assert!((570..=630).contains(&told), "{told}");
}

#[test]
fn traffic_that_nobody_acknowledges_leaves_at_the_rate_that_was_found() {
    let mut path = Path::new(20, "");
    path.run(Instant::ZERO, ms(20_000), false, constant(600));
    let mut v = Vec::new();
    while path.shaper.inner_mut().dequeue(ms(20_000), &mut v).is_some() {}
    let (mut now, mut left) = (ms(25_000), 0_u64);
    while now < ms(45_000) {
        while path.shaper.backlog().packets < 20 {
            path.shaper.enqueue(now, udp(left), &mut v);
        }
        left += u64::from(path.shaper.dequeue(now, &mut v).is_some());
        now += Duration::from_millis(1);
    }
    // Twenty seconds at 50 packets a second.
    assert!((900..=1100).contains(&left), "{left}");
}

/// Users who acknowledge every second packet, or after 40 ms (RFC 9293, section 3.8.6.3).
#[derive(Default)]
struct Delaying {
    came: u64,
    waits: Option<Instant>,
}

/// Full queues of `users` for some time, over a token bucket of two packets and no propagation. Returns what it carries
/// in the second half of that time, kbit/s.
fn over_a_token_bucket(kbps: u64, users: u8, seconds: u64) -> u64 {
    let own = Rate::from_kbps(kbps).time_to_send(Bytes(1500));
    let mut path = Path::new(0, "");
    let (mut v, mut filled) = (Vec::new(), Instant::ZERO);
    let mut next = vec![0; usize::from(users)];
    let mut ends: Vec<Delaying> = (0..users).map(|_| Delaying::default()).collect();
    let mut crossing: VecDeque<(Instant, u8)> = VecDeque::new();
    (0..users).for_each(|user| {
        path.shaper.reverse(Instant::ZERO, ack(user, 0), &mut v);
    });
    let (mut now, end, mut carried, mut turn) = (Instant::ZERO, ms(seconds * 1000), 0, 0);
    while now < end {
        while let Some((_, user)) = crossing.pop_front_if(|c| c.0 <= now) {
            let user_end = &mut ends[usize::from(user)];
            user_end.came += 1;
            carried += u64::from(now >= ms(seconds * 500));
            user_end.waits = match user_end.waits {
                None => Some(now + Duration::from_millis(40)),
                Some(_) => Some(now),
            };
        }
        for user in 0..users {
            let user_end = &mut ends[usize::from(user)];
            if user_end.waits.is_some_and(|at| at <= now) {
                user_end.waits = None;
                path.shaper.reverse(now, ack(user, user_end.came), &mut v);
            }
        }
        loop {
            while path.shaper.backlog().packets < 40 {
                turn = (turn + 1) % users;
                path.shaper.enqueue(now, data(turn, next[usize::from(turn)]), &mut v);
                next[usize::from(turn)] += 1;
            }
            let Some(packet) = path.shaper.dequeue(now, &mut v) else { break };
            let user = (0..users).find(|user| packet.header.key == key(*user)).unwrap();
            filled = filled.max(now) + own;
            crossing.push_back((now.max(filled - own * 2), user));
        }
        now += Duration::from_micros(500);
    }
    carried * 1500 * 8 / (seconds * 500)
}

#[test]
fn behind_a_token_bucket_the_link_is_used() {
    for (kbps, users) in [(300, 1), (1000, 1), (1000, 12), (3000, 12), (20_000, 3)] {
        let carried = over_a_token_bucket(kbps, users, 120);
        assert!(carried * 100 >= kbps * 97, "{kbps} kbit/s, {users} users: {carried}");
    }
}

#[test]
fn a_packet_that_a_token_bucket_lets_pass_in_no_time_is_no_measure_of_the_path() {
    let mut path = Path::new(20, "");
    path.run(Instant::ZERO, ms(20_000), false, constant(1000));
    let mut v = Vec::new();
    while path.shaper.inner_mut().dequeue(ms(20_000), &mut v).is_some() {}
    // The bucket has filled meanwhile.
    path.shaper.enqueue(ms(25_000), data(0, path.next), &mut v);
    assert!(path.shaper.dequeue(ms(25_000), &mut v).is_some());
    path.shaper.reverse(ms(25_000) + Duration::from_micros(100), ack(0, path.next + 1), &mut v);
    let base = path.shaper.belief(ms(25_001)).base.unwrap();
    assert!(base >= Duration::from_millis(11), "a packet takes 12 ms: {base}");
}
