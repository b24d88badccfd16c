//! Flows that a tunnel carries in the clear.

use narrows_users::Side;

use super::*;

/// A household behind a tunnel has private addresses, as all have.
fn inside(host: u8) -> FlowKey {
    FlowKey::new([198, 51, 100, 7].into(), [192, 168, 0, host].into(), 443, 40_000, Proto::TCP)
}

/// A packet as the tunnel of a household carries it: DS-Lite (RFC 6333), or GRE (RFC 2784) over IPv6.
fn carried(inner: Record, household: u8, gre: bool) -> Record {
    let down = inner.header.key.sport == 443;
    let mut body = if gre { vec![0, 0, 8, 0] } else { Vec::new() };
    let before = body.len() as u64;
    let total = narrows_wire::build(&inner.header, 1, &mut body) as u64 + before;
    let [high, low] = (total as u16).to_be_bytes();
    let mut packet = vec![0x60, 0, 0, 0, high, low, if gre { 47 } else { 4 }, 64];
    let (provider, user) = ([0x20; 16], [household; 16]);
    packet.extend(if down { [provider, user].concat() } else { [user, provider].concat() });
    packet.extend(body);
    let mut header = narrows_wire::parse(&packet).unwrap();
    header.look_inside(&packet);
    assert!(header.key.is_in_tunnel() && header.len == Bytes(total + 40));
    Record { header, ..inner }
}

fn download(host: u8, nth: u32) -> Record {
    segment(inside(host), Flags::ACK, 1001 + nth * MSS, 1, MSS)
}

/// The users are those whom packets go to.
fn bench(settings: &[(&str, &str)]) -> Bench {
    let mut settled = Config::default();
    settings.iter().for_each(|(key, value)| settled.set(key, value).unwrap());
    let link = ShaperConfig { users: Side::Destination, ..ShaperConfig::new(Rate::from_kbps(600)) };
    let q = DefaultMode::new(settled.common, *settled.as_default().unwrap(), link, 7);
    Bench { q, now: Instant::from_nanos(1_000_000_000), verdicts: Vec::new() }
}

/// The handshake of a download within a tunnel: 100 ms to the server and back.
fn connect(b: &mut Bench, host: u8, household: u8) {
    let with_scale = |mut p: Record| {
        let tcp = p.header.tcp.as_mut().unwrap();
        (tcp.window_scale, tcp.mss) = (Some(7), Some(1460));
        carried(p, household, false)
    };
    b.back(with_scale(segment(inside(host).reverse(), Flags::SYN, 0, 0, 0)));
    b.wait(100);
    b.put(with_scale(segment(inside(host), Flags::SYN.and(Flags::ACK), 1000, 1, 0)));
    assert!(b.get().is_some());
    b.back(carried(segment(inside(host).reverse(), Flags::ACK, 1, 1001, 0), household, false));
}

#[test]
fn two_connections_of_one_tunnel_take_turns() {
    for gre in [false, true] {
        let mut b = bench(&PLAIN);
        for nth in 0..3 {
            b.put(carried(download(1, nth), 0x21, gre));
        }
        b.put(carried(download(2, 0), 0x21, gre));
        b.put(carried(download(2, 1), 0x21, gre));
        let first = b.get().unwrap().header.key;
        let order: Vec<bool> = std::iter::from_fn(|| b.get()).map(|p| p.header.key == first).collect();
        assert_eq!(order, [false, true, false, true], "{gre}");
    }
}

/// Two users have half of the link each, though one has ten downloads in its tunnel. The user beside
/// has the same private address in a tunnel of its own.
#[test]
fn ten_downloads_in_one_tunnel_are_one_user() {
    let mut b = bench(&PLAIN);
    for nth in 0..2 {
        (1..=10).for_each(|host| b.put(carried(download(host, nth), 0x21, false)));
    }
    (0..20).for_each(|nth| b.put(carried(download(1, nth), 0x22, false)));
    let users: Vec<IpAddr> = (0..20).map(|_| b.get().unwrap().header.key.dst()).collect();
    let of = |household: u8| users.iter().filter(|user| **user == IpAddr::from([household; 16])).count();
    assert_eq!((of(0x21), of(0x22)), (10, 10), "{users:?}");
}

#[test]
fn copies_within_a_tunnel_are_known() {
    let mut b = bench(&[]);
    connect(&mut b, 1, 0x21);
    for nth in [0, 1] {
        b.put(carried(download(1, nth), 0x21, false));
    }
    b.wait(600);
    b.put(carried(download(1, 0), 0x21, false));
    assert!(matches!(b.verdicts[..], [Verdict::Suppressed { .. }]));
    let sent: Vec<u64> = std::iter::from_fn(|| b.get()).map(|p| p.id).collect();
    assert_eq!(sent, [1001, 1001 + u64::from(MSS)]);
}

/// Where an acknowledgment cannot be changed, its sender was told nothing: no edge that it might keep to counts.
#[test]
fn no_window_within_a_tunnel_is_clamped() {
    let mut b = bench(&[("window_clamp_min", "2")]);
    connect(&mut b, 1, 0x21);
    let ack = carried(segment(inside(1).reverse(), Flags::ACK, 1, 1001, 0), 0x21, false);
    assert_eq!(b.back(ack).unwrap().header.tcp.unwrap().window, 500);
    assert_eq!(b.q.counters.clamped, 0);
    let told = b.q.queues.tracker().lookup(&carried(download(1, 0), 0x21, false).header.key).unwrap();
    assert!(!b.q.queues.state(told).clamp.obeyed(SeqNum(1001)));
    // Outside of it 13 segments would have been told, as of a connection like any other.
    b.connect(1);
    assert!(b.ack(1, 1001).window < 500);
}
