use narrows_units::{Bytes, Ecn, Rate, SeqNum};
use narrows_wire::{Flags, FlowKey, Proto, TcpHeader};

use super::*;
use crate::{Record, Settings as _, Spec};

/// A packet of 1500 B each 10 ms.
fn link() -> ShaperConfig {
    ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(1200)) }
}

fn queue(settings: &str) -> Cake<Record> {
    Cake::new(CakeConfig::read(settings).unwrap(), link(), 1)
}

/// From host `src` to host `dst`; `port` tells flows between the same two apart.
fn packet(id: u64, src: u8, dst: u8, port: u16, len: u64) -> Record {
    let mut r = Record { id, ..Record::default() };
    r.header.key = FlowKey::new([192, 0, 2, src].into(), [10, 0, 0, dst].into(), 80, port, Proto::TCP);
    r.header.len = Bytes(len);
    r
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(1000 + ms)
}

/// Packets of `n` that go to each host, if host 1 has one flow and host 2 ten, all with plenty to send. Flow `f`
/// comes from source `source(f)`.
fn shares(settings: &str, n: usize, source: impl Fn(u16) -> u8) -> [usize; 2] {
    let mut q = queue(settings);
    let mut v = Verdicts::new();
    for id in 0..n as u64 {
        for flow in 0..11u16 {
            let dst = if flow == 0 { 1 } else { 2 };
            q.enqueue(at(0), packet(id, source(flow), dst, 1000 + flow, 1500), &mut v);
        }
    }
    let sent: Vec<_> = (0..n).map_while(|_| q.dequeue(at(0), &mut v)).collect();
    [1, 2].map(|host| {
        let host = core::net::IpAddr::from([10, 0, 0, host]);
        sent.iter().filter(|p| p.header.key.dst() == host).count()
    })
}

#[test]
fn a_host_with_ten_flows_gets_as_much_as_one_with_a_single_flow() {
    let each = |flow: u16| 1 + flow as u8;
    let [one, ten] = shares("quantum=1514,isolate=dual_dst", 600, |_| 1);
    assert!(one.abs_diff(300) <= 12 && ten.abs_diff(300) <= 12, "{one} {ten}");
    // Triple isolation counts sources too: fair between hosts if each flow has a source of its own.
    let [one, ten] = shares("quantum=1514", 600, each);
    assert!(one.abs_diff(300) <= 12, "{one} {ten}");
    // From one server all eleven flows share a turn: each gets an eleventh, 55 of 600.
    let [one, ten] = shares("quantum=1514", 600, |_| 1);
    assert!(one.abs_diff(55) <= 3, "{one} {ten}");
    let [one, ten] = shares("quantum=1514,isolate=flows", 600, each);
    assert!(one.abs_diff(55) <= 3, "{one} {ten}");
    let [one, ten] = shares("quantum=1514,isolate=dual_src", 600, each);
    assert!(one.abs_diff(55) <= 3, "{one} {ten}");
    // Turns of 300 bytes, a fifth of a packet, give the same shares.
    let [one, ten] = shares("isolate=dual_dst", 600, |_| 1);
    assert!(one.abs_diff(300) <= 12, "{one} {ten}");
}

#[test]
fn within_a_host_flows_are_equal() {
    let mut q = queue("isolate=dual_dst,quantum=1514");
    let mut v = Verdicts::new();
    for id in 0..200u64 {
        (0..5).for_each(|flow| q.enqueue(at(0), packet(id, 1, 1, flow, 300 + 300 * u64::from(flow)), &mut v));
    }
    let mut bytes = [0; 5];
    for _ in 0..250 {
        let p = q.dequeue(at(0), &mut v).unwrap();
        bytes[usize::from(p.header.key.dport)] += p.header.len.get();
    }
    let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
    assert!(most - least <= 3000, "{bytes:?}");
}

/// One user with a long flow, another with two of packets of different lengths and with a sparse one, whose packets
/// come in step with what the link sends. Linux's CAKE served 283, 142, 278 and 312 packets of these arrivals within 5
/// s.
#[test]
fn turns_follow_the_load() {
    let link = ShaperConfig { overhead: 14, ..ShaperConfig::new(Rate::from_kbps(1014)) };
    let config = CakeConfig::read("isolate=dual_dst").unwrap();
    let mut q = crate::Shaper::new(link, Cake::new(config, link, 1));
    let mut v = Verdicts::new();
    let mut bytes = [0; 4];
    for tenth in 0..100_000 {
        let now = Instant::from_nanos(1_000_000_000 + tenth * 100_000);
        for (port, (len, gap)) in [(1000, 80), (1000, 120), (500, 120), (200, 160)].into_iter().enumerate() {
            if tenth % gap == 7 * port as u64 {
                q.enqueue(now, packet(tenth, 1, if port == 0 { 1 } else { 2 }, port as u16, len), &mut v);
            }
        }
        while let Some(p) = q.dequeue(now, &mut v) {
            bytes[usize::from(p.header.key.dport)] += p.header.len.get() + 14;
        }
    }
    let [single, long, half, sparse]: [u64; 4] = bytes;
    assert!(long.abs_diff(half) * 100 < long, "{bytes:?}");
    // Linux: 283 * 1014 of 640 610 bytes, 0.448.
    let all = single + long + half + sparse;
    assert!(single.abs_diff(all * 448 / 1000) * 200 < all, "{bytes:?}");
}

#[test]
fn a_sparse_flow_goes_first() {
    let mut q = queue("quantum=1514");
    let mut v = Verdicts::new();
    for id in 0..40 {
        q.enqueue(at(0), packet(id, 1 + id as u8 % 4, 1, id as u16 % 4, 1500), &mut v);
    }
    // Four flows have used up their first turn: 1514 bytes, so two packets each.
    (0..8).for_each(|_| assert!(q.dequeue(at(0), &mut v).is_some()));
    for n in 0..3 {
        q.enqueue(at(0), packet(100 + n, 9, 9, 9, 100), &mut v);
        assert_eq!(
            q.dequeue(at(0), &mut v).map(|p| p.id),
            Some(100 + n),
            "as long as it has not used up a turn"
        );
        assert!(q.dequeue(at(0), &mut v).is_some_and(|p| p.id < 100));
    }
}

#[test]
fn a_thousand_flows_of_one_host_do_not_go_round_a_thousand_times() {
    let mut q = queue("flows=4096,limit=20000");
    let mut v = Verdicts::new();
    for id in 0..4000u64 {
        q.enqueue(at(0), packet(id, 1, 1, id as u16 % 1000, 1500), &mut v);
    }
    // A part of the quantum is 0.3 bytes; all 4000 leave, each flow's in order.
    let mut last = [0; 1000];
    for _ in 0..4000 {
        let p = q.dequeue(at(0), &mut v).unwrap();
        let seen = &mut last[p.id as usize % 1000];
        assert!(*seen <= p.id);
        *seen = p.id;
    }
    assert!(q.dequeue(at(0), &mut v).is_none());
}

#[test]
fn colliding_flows_are_not_reordered() {
    // Eight places for thirty flows, which come and go.
    let mut q = queue("flows=8,quantum=300");
    let mut dice = Dice::new(5);
    let mut v = Verdicts::new();
    let mut last = [0; 30];
    for id in 1..20_000u64 {
        let port = dice.below(30) as u16;
        q.enqueue(at(id), packet(id, 1, (port % 3) as u8, port, 40 + dice.below(1460)), &mut v);
        while q.backlog().packets > 40 || (dice.below(3) > 0 && q.backlog().packets > 0) {
            let Some(p) = q.dequeue(at(id), &mut v) else { break };
            let seen = &mut last[usize::from(p.header.key.dport)];
            assert!(*seen < p.id, "{} before {}", *seen, p.id);
            *seen = p.id;
        }
    }
}

fn ack(id: u64, n: u32) -> Record {
    let mut r = packet(id, 1, 1, 1, 40);
    r.header.tcp = Some(TcpHeader { ack: SeqNum(n), flags: Flags::ACK, ..TcpHeader::default() });
    r
}

/// Packets that are suppressed and packets that are left, in order.
fn filtered(settings: &str, packets: Vec<Record>) -> (Vec<u64>, Vec<u64>) {
    let mut q = queue(settings);
    let mut v = Verdicts::new();
    packets.into_iter().for_each(|p| q.enqueue(at(0), p, &mut v));
    let gone = |v: &Verdict<Record>| match v {
        Verdict::Suppressed { packet } => Some(packet.id),
        _ => None,
    };
    let suppressed: Vec<_> = v.iter().filter_map(gone).collect();
    assert_eq!(q.report(at(0)).counters.suppressed, suppressed.len() as u64);
    (suppressed, std::iter::from_fn(|| q.dequeue(at(0), &mut v)).map(|p| p.id).collect())
}

#[test]
fn of_acknowledgments_that_wait_the_last_ones_are_left() {
    let acks = || (1..=6).map(|n| ack(n, n as u32 * 1000)).collect::<Vec<_>>();
    assert_eq!(filtered("", acks()), (vec![], vec![1, 2, 3, 4, 5, 6]));
    // With `on` one superfluous acknowledgment is kept beside the newest.
    assert_eq!(filtered("ack_filter=on", acks()), (vec![1, 2, 3, 4], vec![5, 6]));
    assert_eq!(filtered("ack_filter=aggressive", acks()), (vec![1, 2, 3, 4, 5], vec![6]));
}

#[test]
fn data_duplicates_and_signals_stay_in_their_places() {
    let mut sack = ack(3, 1000);
    sack.header.tcp.as_mut().unwrap().sack.push(SeqNum(3000), SeqNum(4000));
    let mut ece = ack(5, 2000);
    ece.header.tcp.as_mut().unwrap().flags = Flags::ACK.and(Flags::ECE);
    let mut data = ack(6, 2000);
    data.header.tcp.as_mut().unwrap().payload = 100;
    data.header.len = Bytes(140);
    let packets = vec![ack(1, 1000), ack(2, 1000), sack, ack(4, 2000), ece, data, ack(7, 3000), ack(8, 3000)];
    // 4 makes one of the duplicates superfluous, 7 the other, 8 number 4.
    let (gone, left) = filtered("ack_filter=aggressive", packets);
    assert_eq!(gone, [1, 2, 4]);
    assert_eq!(left, [3, 5, 6, 7, 8]);
}

#[test]
fn a_standing_queue_is_told_and_the_last_packet_is_not_dropped() {
    // Target 15 ms, but no queue under 40 ms counts; interval 110 ms. Sixty packets at once: the one that leaves at 50
    // ms has waited longer; the first drop is due 110 ms later, 160: packet 16. The next 110/sqrt(2) = 77.8 ms later,
    // at 240: 25, since 16 has been dropped, then 63.5: 301, at 310: 33.
    for (ecn, due) in [(Ecn::NotEct, vec![16, 25, 33]), (Ecn::Ect0, vec![])] {
        let (mut q, mut v) = (queue(""), Verdicts::new());
        for id in 0..60 {
            let mut p = packet(id, 1, 1, 1, 1500);
            p.header.ecn = ecn;
            q.enqueue(at(0), p, &mut v);
        }
        (0..33).for_each(|n| assert!(q.dequeue(at(10 * n), &mut v).is_some()));
        let dropped = |v: &Verdict<Record>| match v {
            Verdict::Dropped { packet, reason: Reason::Sojourn } => Some(packet.id),
            _ => None,
        };
        assert_eq!(v.iter().filter_map(dropped).collect::<Vec<_>>(), due);
        assert_eq!(v.len(), 3, "as many marks as drops");
        // However long it waits.
        let mut last = None;
        while q.backlog().packets > 0 {
            last = q.dequeue(at(5000), &mut v).map(|p| p.id);
        }
        assert_eq!(last, Some(59));
    }
}

#[test]
fn the_longest_queue_pays_for_overflow() {
    let (mut q, mut v) = (queue("20"), Verdicts::new());
    (0..15).for_each(|id| q.enqueue(at(0), packet(id, 1, 1, 1, 1000), &mut v));
    (100..106).for_each(|id| q.enqueue(at(0), packet(id, 2, 2, 2, 100), &mut v));
    let [Verdict::Dropped { packet, reason: Reason::PushedOut }] = v.as_slice() else { panic!("{v:?}") };
    assert_eq!(packet.id, 0);
    assert_eq!(q.backlog(), Backlog { packets: 20, bytes: Bytes(14_600) });
}

#[test]
fn settings() {
    assert_eq!(CakeConfig::read("flows=12").unwrap_err().key, "flows");
    assert_eq!(CakeConfig::read("quantum=255").unwrap_err().key, "quantum");
    assert_eq!(CakeConfig::default().quantum(&link()), 300);
    // 100 Mbit/s: 12.5 MB/s / 4096 = 3051.
    assert_eq!(CakeConfig::default().quantum(&ShaperConfig::new(Rate::from_kbps(100_000))), 1514);
    assert_eq!(size_of::<CakeFlow>(), 64);
    let mut q = queue("");
    q.enqueue(at(0), packet(1, 1, 1, 1, 1500), &mut Verdicts::new());
    let spec = |text: &str| text.parse::<Spec>().unwrap();
    assert!(q.reconfigure(at(0), spec("cake:10,isolate=flows,ack_filter=on").settings(), &link()));
    assert!(!q.reconfigure(at(0), spec("cake:flows=64").settings(), &link()));
    assert_eq!(q.report(at(0)).classes[0].flows, 1);
}
