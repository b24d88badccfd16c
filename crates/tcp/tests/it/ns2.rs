//! Packet by packet as ns-2.35: one flow over 1 Mbit/s and 50 ms each way, packets of 1040 B and ACKs of 40 B,
//! packets lost by their position on the link. The sequences below are ns-2's own ("time in 0.1 ms : number of the
//! packet").

use crate::common::{Act, SegmentFate, Side, Wire, WirePath};
use narrows_tcp::{Config, Preset, Recovery};
use narrows_units::{Duration, Instant, Rate};

/// Segments that our sender sends: times in 0.1 ms and packets.
fn ours(recovery: Recovery, lost: &[usize], packets: u64) -> Vec<(u64, u32)> {
    let config = Config { mss: 1000, recovery, receive_window: 1_000_000, ..Config::preset(Preset::Ns2) };
    let path = WirePath { delay: Duration::from_millis(50), rate: Some(Rate::from_kbps(1000)), header: 40 };
    let mut position = 0;
    let mut wire = Wire::new(config, path, |side, _, _| {
        if side == Side::B {
            return SegmentFate::Pass;
        }
        position += 1;
        if lost.contains(&(position - 1)) { SegmentFate::Drop } else { SegmentFate::Pass }
    });
    wire.act(Side::A, Act::Open);
    wire.act(Side::A, Act::Write(packets * 1000));
    wire.run_until(Instant::ZERO + Duration::from_secs(100));
    let sent = wire.log.iter().filter(|s| s.from == Side::A);
    sent.map(|s| (s.at.as_nanos(), (s.segment.tcp.seq.0 - 1000).div_ceil(1000)))
        .map(|(ns, packet)| ((ns + 50_000) / 100_000, packet))
        .collect()
}

fn theirs(text: &str) -> Vec<(u64, u32)> {
    let pair = |item: &str| {
        let (at, packet) = item.split_once(':')?;
        Some((at.parse().ok()?, packet.parse().ok()?))
    };
    text.split_whitespace().map(|item| pair(item).expect("time:packet")).collect()
}

#[test]
fn newreno_two_losses_in_a_window() {
    let ns2 = "0:0 1006:1 1006:2 2093:3 2093:4 2176:5 2176:6 3179:7 3179:8 3262:9 3262:10 3346:11 3346:12 \
               3429:13 3429:14 4266:15 4266:16 4515:17 4598:18 4682:8 5602:19 5685:20 5768:9 5768:21 6688:22 \
               6771:23 6854:24";
    assert_eq!(ours(Recovery::NewReno, &[8, 9], 24), theirs(ns2));
}

/// Packets 4 and 8 are lost in windows so small that limited transmit has to bring the third duplicate.
#[test]
fn newreno_small_windows() {
    let ns2 = "0:0 1006:1 1006:2 2093:3 2093:4 2176:5 2176:6 3179:7 3179:8 3346:9 3429:10 4266:4 5352:8 \
               5352:11 6438:12 6522:13 6522:14 7525:15 7608:16 7691:17 7691:18 8611:19 8694:20";
    assert_eq!(ours(Recovery::NewReno, &[4, 8], 20), theirs(ns2));
}

/// Two time-outs; after the second what was out goes again in order, and limited transmit goes on by it.
#[test]
fn newreno_goes_back() {
    let ns2 = "0:0 1006:1 1006:2 2176:3 4006:1 5093:3 5093:4 6179:5 6262:6 7349:7 8435:8 8962:5 9522:6 \
               10049:9 10049:10 10608:11 11218:12 11694:13 11694:14 12305:15 12781:16 12864:17 12864:18 13391:19 \
               13950:20 14034:21 14478:16 15564:21 15564:22 16650:23 16734:24 17737:25 17737:26";
    assert_eq!(ours(Recovery::NewReno, &[1, 3, 7, 20, 25], 26), theirs(ns2));
}

/// The second hole costs Reno a time-out.
#[test]
fn reno_two_losses_in_a_window() {
    let ns2 = "0:0 1006:1 1006:2 2093:3 2093:4 2176:5 2176:6 3179:7 3179:8 3262:9 3262:10 3346:11 3346:12 \
               3429:13 3429:14 4266:15 4266:16 4349:17 4349:18 4432:19 4432:20 4598:21 4765:22 4848:10 5768:23 \
               5851:24 8118:12";
    assert_eq!(ours(Recovery::Reno, &[10, 12, 30], 24), theirs(ns2));
}

/// ns-2 counts 8 B more for an ACK with SACK blocks, so only the order is compared.
#[test]
fn sack_three_losses() {
    let order = |list: Vec<(u64, u32)>| list.into_iter().map(|sent| sent.1).collect::<Vec<_>>();
    let ns2 = "0:0 1006:1 1006:2 2093:3 2093:4 2176:5 2176:6 3179:7 3179:8 3262:9 3262:10 3346:11 3346:12 \
               3429:13 3429:14 4266:15 4266:16 4516:17 4599:18 4682:8 5687:9 5770:15 5770:19 6774:20 6774:21 \
               6856:22 6940:23 7860:24";
    assert_eq!(order(ours(Recovery::Sack, &[8, 9, 15], 24)), order(theirs(ns2)));
    // Packet 27, sent during recovery, is lost too.
    let ns2 = "0:0 1006:1 1006:2 2093:3 2093:4 2176:5 2176:6 3179:7 3179:8 3262:9 3262:10 3346:11 3346:12 \
               3429:13 3429:14 4266:15 4266:16 4349:17 4349:18 4432:19 4432:20 4515:21 4515:22 4598:23 4598:24 \
               4765:25 5353:26 5436:12 6019:14 6102:27 6185:28 6441:29 6524:30 7611:27";
    assert_eq!(order(ours(Recovery::Sack, &[12, 14, 29], 30)), order(theirs(ns2)));
}
