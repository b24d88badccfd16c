//! A capture replayed is the live box under a scripted clock: packets are written to a file, read from it, and sent
//! through `narrows_sim::replay` and through the live engine; both must say and do the same, at the same instants,
//! in the same order.

use std::convert::Infallible;

use narrows_box::{Engine, LaneSettings, Scripted};
use narrows_qdisc::{Event, Limit, Record, ShaperConfig, Spec};
use narrows_sim::replay::{Arrival, Prefix, ReplayLink, direction, replay};
use narrows_testing::Rng;
use narrows_units::{Bytes, Ecn, Instant, Rate, SeqNum};
use narrows_wire::capture::{Reader, Writer};
use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader};

/// A capture of downloads by 80 users at about twice the rate of the link: handshakes, data, copies,
/// acknowledgments with and without SACK, a few datagrams, over IPv4 and IPv6.
fn recorded(seed: u64, packets: u64) -> Vec<u8> {
    let mut rng = Rng(seed);
    let mut writer = Writer::new(Vec::new()).expect("a vector takes all");
    let (mut now, mut sent) = (0, [0u32; 80]);
    for n in 0..packets {
        let user = rng.below(80);
        let up = if user.is_multiple_of(4) {
            let address = |last: u16| core::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last).into();
            FlowKey::new(address(user as u16), address(0x8000), 40_000, 80, Proto::TCP)
        } else {
            FlowKey::new([10, 0, 0, user as u8].into(), [192, 0, 2, 1].into(), 40_000, 80, Proto::TCP)
        };
        let next = &mut sent[user as usize];
        let seq = |n: u32| SeqNum(1001 + n * 1448);
        let base = TcpHeader {
            flags: Flags::ACK,
            window: 501,
            timestamps: Some((n as u32, 0)),
            ..TcpHeader::default()
        };
        let syn = TcpHeader { flags: Flags::SYN, window_scale: Some(7), mss: Some(1460), ..base };
        let (key, tcp) = match (*next, rng.below(10)) {
            (0, _) => (up, syn),
            (1, _) => (
                up.reverse(),
                TcpHeader { flags: Flags::SYN.and(Flags::ACK), seq: SeqNum(1000), ack: SeqNum(1), ..syn },
            ),
            (n, 0..=5) => {
                (up.reverse(), TcpHeader { seq: seq(n - 2), ack: SeqNum(1), payload: 1448, ..base })
            }
            (n, 6) if n > 3 => {
                (up.reverse(), TcpHeader { seq: seq(n - 4), ack: SeqNum(1), payload: 1448, ..base })
            }
            (n, d) => {
                let mut t = TcpHeader { seq: SeqNum(1), ack: seq(n.saturating_sub(4)), ..base };
                if d == 7 {
                    t.sack.push(seq(n), seq(n + 1));
                }
                (up, t)
            }
        };
        let advances =
            key == up && *next == 0 || key != up && (*next == 1 || tcp.seq == seq(next.saturating_sub(2)));
        *next += u32::from(advances);
        let ecn = if user.is_multiple_of(5) { Ecn::Ect0 } else { Ecn::NotEct };
        let header = if user % 37 == 1 {
            let (mut key, len) = (key, Bytes(28 + rng.below(1400)));
            key.proto = Proto::UDP;
            Header { key, len, ecn, ..Header::default() }
        } else {
            Header { key, ecn, tcp: Some(tcp), ..Header::default() }
        };
        writer.write(Instant::from_nanos(now), &header).expect("a vector takes all");
        now += rng.below(20_000_000);
    }
    writer.into_inner()
}

const LINK: ShaperConfig = ShaperConfig { overhead: 14, ..ShaperConfig::new(Rate::from_kbps(600)) };

fn arrivals(file: &[u8]) -> Vec<Arrival> {
    let local: Vec<Prefix> =
        ["10.0.0.0/8", "2001:db8::/113"].map(|p| p.parse().expect("a prefix of this test")).into();
    Reader::new(file)
        .expect("our own file")
        .map(|c| c.expect("our own frame"))
        .map(|c| Arrival {
            at: c.at,
            direction: direction(&local, &c.header.key).expect("one end is local"),
            header: c.header,
        })
        .collect()
}

/// An event without the record's number, which is each driver's own.
fn anonymous(event: &Event<Record>) -> String {
    let text = format!("{event:?}");
    let (mut out, mut rest) = (String::new(), text.as_str());
    while let Some(i) = rest.find("Record { id: ") {
        let end = i + rest[i..].find(", header").expect("a record has a header");
        out.push_str(&rest[..i]);
        rest = &rest[end..];
    }
    out + rest
}

#[test]
fn a_replay_decides_as_the_box_does() {
    for spec in ["fifo:30", "taq", "taq:mode=paper"] {
        for seed in [1, 0xbeef] {
            println!("{spec} seed {seed}");
            let spec: Spec = spec.parse().expect("a spec of this test");
            let arrivals = arrivals(&recorded(seed, 5_000));
            assert_eq!(arrivals.len(), 5_000);

            let mut replayed = Vec::new();
            let lane = ReplayLink { link: Some(LINK), discipline: spec.clone() };
            let Ok(report) = replay(
                arrivals.iter().copied().map(Ok::<_, Infallible>),
                &lane,
                &ReplayLink::OPEN,
                1,
                |now, e| {
                    replayed.push((now, anonymous(e)));
                    Ok(())
                },
            );

            let open = LaneSettings::new(None, Spec::Fifo(Limit::Packets(1000)), 1);
            let mut engine = Engine::new(&[LaneSettings::new(Some(LINK), spec.clone(), 1), open]);
            let records = arrivals.iter().map(|a| (a.at, a.direction, Record { id: 0, header: a.header }));
            let mut backend = Scripted::new(records);
            backend.run(&mut engine, Instant::FAR_FUTURE);

            let live: Vec<_> = backend.log().iter().map(|(at, e)| (*at, anonymous(e))).collect();
            for (n, (a, b)) in replayed.iter().zip(&live).enumerate() {
                assert_eq!(a, b, "event {n} differs");
            }
            assert_eq!(replayed.len(), live.len());
            let c = report.down.counts;
            assert!(
                c.dropped_total() + c.suppressed + c.refused > 0,
                "the link is too wide to tell anything: {c:?}"
            );
            let sent = live.iter().filter(|(_, e)| e.starts_with("Send(")).count() as u64;
            assert_eq!(report.down.counts.sent + report.up.counts.sent, sent);
        }
    }
}
