//! What somebody who sends without restraint can cost others: a user's own flood costs that user alone.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report")]

use std::net::IpAddr;

use narrows_qdisc::{BoxedDiscipline, Packet as _, Qdisc as _, Record, Shaper, ShaperConfig, Spec, Verdicts};
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

/// What twenty downloads have of 2 Mbit/s in ten seconds, in kbit/s, beside 2000 packets a second of a flood; and how
/// long a user who comes every half second waits for its first packet at worst, in milliseconds.
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
