//! Cost to others of somebody who sends without restraint: a user's own flood costs that user alone.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report")]

use std::collections::VecDeque;
use std::net::IpAddr;

use narrows_qdisc::{
    BoxedDiscipline, Direction, Driver, Event, Packet as _, Qdisc as _, Record, Shaper, ShaperConfig, Spec,
    Verdicts,
};
use narrows_units::{Bytes, Duration, Instant, Rate, SeqNum};
use narrows_users::Side;
use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader};

const DOWNLOADS: usize = 20;
const FLOODER: u64 = 99;
const BEGIN: Instant = Instant::from_nanos(1_000_000_000);

fn address(user: u64) -> IpAddr {
    [10, 1, (user >> 8) as u8, user as u8].into()
}

fn packet(to: IpAddr, port: u16, proto: Proto, tcp: Option<TcpHeader>, len: u64) -> Record {
    let key = FlowKey::new([192, 0, 2, 1].into(), to, 443, port, proto);
    Record { id: 0, header: Header { key, len: Bytes(len), tcp, ..Header::default() } }
}

fn segment(to: IpAddr, port: u16, flags: Flags, seq: u32, payload: u32) -> Record {
    let tcp = TcpHeader { seq: SeqNum(seq), flags, payload, window: 500, ..TcpHeader::default() };
    packet(to, port, Proto::TCP, Some(tcp), u64::from(payload) + 40)
}

/// A packet of a flood, by its number.
type Flood = fn(u64) -> Record;

fn fresh_port(n: u64) -> u16 {
    1024 + (n % 60_000) as u16
}

/// Floods to one user. The last is a datagram in pieces that the firewall has put together, every quarter of a second.
const TO_ONE_USER: [(&str, Flood); 4] = [
    ("UDP to fresh ports", |n| packet(address(FLOODER), fresh_port(n), Proto::UDP, None, 128)),
    ("lone segments to fresh ports", |n| segment(address(FLOODER), fresh_port(n), Flags::ACK, n as u32, 88)),
    ("acknowledgments to fresh ports", |n| segment(address(FLOODER), fresh_port(n), Flags::ACK, n as u32, 0)),
    ("reassembled datagrams", |n| {
        packet(address(FLOODER), 9, Proto::UDP, None, 128 + 65_000 * (n % 500 / 499))
    }),
];

/// A packet of the user goes the other way.
fn answer(q: &mut BoxedDiscipline<Record>, now: Instant, packet: &Record, flags: Flags) {
    let mut back = segment(packet.header.key.dst(), 0, flags, 0, 0);
    back.header.key = packet.header.key.reverse();
    if let Some(path) = q.reverse_path_mut() {
        path.reverse(now, back, &mut Verdicts::new());
    }
}

/// Rate in kbit/s that twenty downloads have of 2 Mbit/s in ten seconds, beside 2000 packets a second of a flood;
/// and the longest wait for a first packet, in milliseconds, of a user who comes every half second.
fn beside(spec: &str, flood: Option<Flood>) -> (u64, u64) {
    let link = ShaperConfig {
        mtu: Bytes(1500),
        users: Side::Destination,
        ..ShaperConfig::new(Rate::from_kbps(2000))
    };
    let spec: Spec = spec.parse().unwrap();
    let mut q: BoxedDiscipline<Record> = Box::new(Shaper::new(link, spec.build(&link, 3)));
    let mut verdicts = Verdicts::new();
    let mut seqs = [0_u32; DOWNLOADS];
    let mut more = |q: &mut BoxedDiscipline<Record>, now, user: usize| {
        seqs[user] += 1448;
        let data = segment(address(user as u64), 5000, Flags::ACK, seqs[user], 1448);
        answer(q, now, &data, Flags::ACK);
        q.enqueue(now, data, &mut Vec::new());
    };
    (0..3 * DOWNLOADS).for_each(|n| more(&mut q, BEGIN, n % DOWNLOADS));
    let (mut bytes, mut worst, mut calls, mut sent) = (0, Duration::ZERO, Vec::new(), 0);
    let mut now = BEGIN;
    while now < BEGIN + Duration::from_secs(10) {
        while sent < now.since(BEGIN).as_nanos() / 500_000 {
            sent += 1;
            if let Some(flood) = flood {
                q.enqueue(now, flood(sent), &mut verdicts);
            }
            if sent.is_multiple_of(1000) {
                calls.push(now);
                let caller = address(300 + calls.len() as u64);
                let answered = segment(caller, 5000, Flags::SYN.and(Flags::ACK), 0, 0);
                answer(&mut q, now, &answered, Flags::SYN);
                q.enqueue(now, answered, &mut verdicts);
                q.enqueue(now, segment(caller, 5000, Flags::ACK, 1, 1000), &mut verdicts);
            }
        }
        verdicts.clear();
        while let Some(left) = q.dequeue(now, &mut verdicts) {
            let IpAddr::V4(to) = left.header().key.dst() else { unreachable!() };
            let [_, _, high, low] = to.octets();
            let user = usize::from(high) << 8 | usize::from(low);
            if user < DOWNLOADS {
                bytes += left.len().get();
                more(&mut q, now, user);
            } else if user > 300 && left.len().get() > 1000 {
                worst = worst.max(now.since(calls[user - 301]));
            }
        }
        let arrival = BEGIN + Duration::from_nanos(500_000 * (sent + 1));
        now = q.next_ready(now).map_or(arrival, |at| at.min(arrival)).max(now + Duration::from_nanos(1));
    }
    (bytes * 8 / 10_000, worst.as_nanos() / 1_000_000)
}

#[test]
fn a_users_own_flood_costs_that_user_alone() {
    let (alone, _) = beside("taq", None);
    assert!(alone > 1950, "{alone} kbit/s");
    for (name, flood) in TO_ONE_USER {
        let (kbps, waited) = beside("taq", Some(flood));
        // A share of 21 is the flood's, and one more may go in packets without data.
        assert!(kbps > alone * 18 / 20, "beside {name}: {kbps} kbit/s of {alone}");
        assert!(waited < 50, "beside {name} a new user waits {waited} ms");
    }
}

/// Each SYN goes to another address, of whom nobody has heard.
#[test]
fn calls_to_everywhere_take_their_part_of_the_link_and_no_more() {
    let calls: Flood = |n| segment(address(1000 + n % 30_000), 9, Flags::SYN, n as u32, 0);
    // rho_r is 0.3. Where calls wait to be admitted they take nothing, but a new user waits with them.
    for (spec, least, most) in [("taq:admission=off", 1300, 50), ("taq", 1900, 1000)] {
        let (kbps, waited) = beside(spec, Some(calls));
        assert!(kbps > least && waited < most, "{spec}: {kbps} kbit/s of 1984, a new user waits {waited} ms");
    }
}

/// A scan: each of its packets goes to another address.
#[test]
fn what_nobody_has_asked_for_has_the_share_of_one_user() {
    let udp: Flood = |n| packet(address(1000 + n % 30_000), 9, Proto::UDP, None, 128);
    let segments: Flood = |n| segment(address(1000 + n % 30_000), 9, Flags::ACK, n as u32, 88);
    for (name, flood) in [("UDP", udp), ("segments", segments)] {
        let (kbps, waited) = beside("taq", Some(flood));
        assert!(kbps > 1750 && waited < 50, "{name}: {kbps} kbit/s of 1984, a new user waits {waited} ms");
    }
}

#[test]
fn a_reassembled_datagram_is_no_measure_of_a_turn() {
    let long = |n| packet(address(FLOODER), 9, Proto::UDP, None, 128 + 65_000 * (n % 500 / 499));
    for spec in ["taq", "taq:share=flow"] {
        let (kbps, waited) = beside(spec, Some(long));
        assert!(kbps > 1800 && waited < 50, "{spec}: {kbps} kbit/s, a new user waits {waited} ms");
    }
}

/// A box of 2 Mbit/s down and 512 kbit/s up, and a world behind that answers at once.
struct Inside {
    driver: Driver<Record, BoxedDiscipline<Record>>,
    /// Packets on their way to the driver.
    arriving: VecDeque<(Direction, Record)>,
    seqs: [u32; DOWNLOADS],
    /// Bytes of downloads.
    bytes: u64,
    /// When each new user has called, and had its answer.
    calls: Vec<(Instant, Option<Instant>)>,
}

impl Inside {
    const CALLER: u64 = 300;

    fn new(spec: &str) -> Self {
        let spec: Spec = spec.parse().unwrap();
        let way = |kbps, users| -> BoxedDiscipline<Record> {
            let link = ShaperConfig { mtu: Bytes(1500), users, ..ShaperConfig::new(Rate::from_kbps(kbps)) };
            Box::new(Shaper::new(link, spec.build(&link, 3)))
        };
        Self {
            driver: Driver::new(way(2000, Side::Destination), way(512, Side::Source)),
            arriving: VecDeque::new(),
            seqs: [0; DOWNLOADS],
            bytes: 0,
            calls: Vec::new(),
        }
    }

    fn data(&mut self, user: usize) {
        self.seqs[user] += 1448;
        let data = segment(address(user as u64), 5000, Flags::ACK, self.seqs[user], 1448);
        self.arriving.push_back((Direction::Down, data));
    }

    /// A packet from a user, as if to answer one to it.
    fn from_user(user: IpAddr, port: u16, flags: Flags) -> Record {
        let mut packet = segment(user, port, flags, 0, 0);
        packet.header.key = packet.header.key.reverse();
        packet
    }

    fn call(&mut self, number: usize) {
        let caller = address(Self::CALLER + number as u64);
        self.arriving.push_back((Direction::Up, Self::from_user(caller, 5000, Flags::SYN)));
    }

    fn left(&mut self, now: Instant, direction: Direction, packet: &Record) {
        let (key, tcp) = (packet.header.key, packet.header.tcp.unwrap());
        let ends = if direction == Direction::Down { (key.dst(), key.dport) } else { (key.src(), key.sport) };
        let IpAddr::V4(address) = ends.0 else { unreachable!() };
        let user = usize::from(u16::from_be_bytes([address.octets()[2], address.octets()[3]]));
        let both = Flags::SYN.and(Flags::ACK);
        match direction {
            Direction::Down if user < DOWNLOADS => {
                self.bytes += packet.header.len.get();
                self.arriving.push_back((Direction::Up, Self::from_user(ends.0, ends.1, Flags::ACK)));
            }
            Direction::Up if user < DOWNLOADS => self.data(user),
            Direction::Down if tcp.payload > 0 => {
                self.calls[user - Self::CALLER as usize].1.get_or_insert(now);
            }
            // Servers answer whoever calls; of floods nobody goes on.
            Direction::Up if tcp.flags == Flags::SYN => {
                self.arriving.push_back((Direction::Down, segment(ends.0, ends.1, both, 0, 0)));
            }
            Direction::Down if (Self::CALLER as usize..FIRST_STRANGER as usize).contains(&user) => {
                self.arriving.push_back((Direction::Up, Self::from_user(ends.0, ends.1, Flags::ACK)));
            }
            Direction::Up if user >= Self::CALLER as usize => {
                self.arriving.push_back((Direction::Down, segment(ends.0, ends.1, Flags::ACK, 1, 1000)));
            }
            _ => {}
        }
    }

    /// Handles all events at `now`.
    fn settle(&mut self, now: Instant) {
        loop {
            let mut events = Vec::new();
            match self.arriving.pop_front() {
                Some((way, packet)) => self.driver.arrive(now, way, packet, &mut |event| events.push(event)),
                None => self.driver.service(now, &mut |event| events.push(event)),
            }
            let sent = events.into_iter().filter_map(|event| match event {
                Event::Send(way, packet) => Some((way, packet)),
                Event::Verdict(..) => None,
            });
            sent.for_each(|(way, packet)| self.left(now, way, &packet));
            if self.arriving.is_empty() {
                return;
            }
        }
    }

    /// Ten seconds beside 2000 packets a second of a flood from the users' side: what downloads have in kbit/s, and how
    /// long a user who comes every half second waits for its first data at worst, in milliseconds.
    fn beside(mut self, flood: Option<Flood>) -> (u64, u64) {
        (0..3 * DOWNLOADS).for_each(|n| self.data(n % DOWNLOADS));
        let end = BEGIN + Duration::from_secs(10);
        let (mut now, mut sent) = (BEGIN, 0);
        while now < end {
            while sent < now.since(BEGIN).as_nanos() / 500_000 {
                sent += 1;
                self.arriving.extend(flood.map(|flood| (Direction::Up, flood(sent))));
                // A SYN comes again after 1, 3 and 7 s (RFC 6298).
                let whole = Duration::from_secs(1);
                for number in 0..self.calls.len() {
                    let (at, answer) = self.calls[number];
                    let tick =
                        |seconds: u64| BEGIN + Duration::from_nanos(500_000 * sent) == at + whole * seconds;
                    if answer.is_none() && [1, 3, 7].into_iter().any(tick) {
                        self.call(number);
                    }
                }
                if sent.is_multiple_of(1000) {
                    self.calls.push((BEGIN + Duration::from_nanos(500_000 * sent), None));
                    self.call(self.calls.len() - 1);
                }
            }
            self.settle(now);
            let arrival = BEGIN + Duration::from_nanos(500_000 * (sent + 1));
            let due = self.driver.next_service(now).map_or(arrival, |at| at.min(arrival));
            now = due.max(now + Duration::from_nanos(1));
        }
        let waits =
            self.calls.iter().map(|(at, answer)| answer.unwrap_or(end).since(*at).as_nanos() / 1_000_000);
        (self.bytes * 8 / 10_000, waits.max().unwrap_or(0))
    }
}

/// The first of the addresses that nobody has.
const FIRST_STRANGER: u64 = 1000;

#[test]
fn a_flood_of_syns_from_inside_costs_its_sender() {
    let flood: Flood = |n| Inside::from_user(address(FLOODER), fresh_port(n), Flags::SYN);
    for spec in ["taq", "taq:admission=off"] {
        let (alone, _) = Inside::new(spec).beside(None);
        let (kbps, waited) = Inside::new(spec).beside(Some(flood));
        println!("{spec}: {kbps} kbit/s of {alone}, a new user waits {waited} ms");
        // One share of 21, and one more of packets without data.
        assert!(kbps > alone * 18 / 20, "{spec}: {kbps} kbit/s of {alone}");
        assert!(waited < 1000, "{spec}: a new user waits {waited} ms");
    }
}

/// A sender who writes the addresses of others cannot be told from a crowd: users who have been admitted keep the
/// link, and new users wait with the crowd. Only a filter of sources helps them.
#[test]
fn a_flood_of_syns_from_made_up_users_costs_nothing_to_who_is_there() {
    let flood: Flood = |n| Inside::from_user(address(FIRST_STRANGER + n % 30_000), 9, Flags::SYN);
    let (alone, _) = Inside::new("taq").beside(None);
    let (kbps, waited) = Inside::new("taq").beside(Some(flood));
    println!("{kbps} kbit/s of {alone}, a new user waits {waited} ms");
    assert!(kbps > alone * 19 / 20, "{kbps} kbit/s of {alone}");
}
