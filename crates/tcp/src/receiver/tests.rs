use narrows_units::Duration;

use super::*;
use crate::{DelayedAck, Preset, Segment};

/// A receiver after a SYN with sequence number `irs`, and its settings.
struct Case {
    config: Config,
    receiver: Receiver,
    now: Instant,
}

impl Case {
    fn new(irs: u32, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::preset(Preset::Rfc);
        config.delayed_ack = None;
        change(&mut config);
        let mut receiver = Receiver::new(&config);
        receiver.start(SeqNum(irs));
        Self { config, receiver, now: Instant::ZERO }
    }
    fn take(&mut self, segment: &Segment) -> Received {
        self.receiver.on_data(&self.config, self.now, &segment.tcp, segment.ecn)
    }
    fn data(&mut self, seq: u32, payload: u32) -> Received {
        self.take(&segment(seq, payload))
    }
    fn ack(&mut self) -> TcpHeader {
        let mut tcp = TcpHeader::default();
        self.receiver.fill_ack(&self.config, self.now, &mut tcp);
        tcp
    }
    /// Takes data that must be acknowledged at once, and returns the ACK: acknowledgment number, then the SACK blocks.
    fn sack(&mut self, seq: u32, payload: u32) -> (u32, Vec<(u32, u32)>) {
        assert_eq!(self.data(seq, payload).ack, AckTime::Now);
        let tcp = self.ack();
        (tcp.ack.0, tcp.sack.as_slice().iter().map(|b| (b.0.0, b.1.0)).collect())
    }
}

fn segment(seq: u32, payload: u32) -> Segment {
    let tcp = TcpHeader { seq: SeqNum(seq), payload, flags: Flags::ACK, ..TcpHeader::default() };
    Segment { tcp, ecn: Ecn::NotEct }
}

#[test]
fn a_receiver_is_small() {
    assert!(size_of::<Receiver>() <= 40, "{} bytes", size_of::<Receiver>());
}

#[test]
fn rfc_2018_case_2_the_first_of_eight_is_lost() {
    // Section 6: segments of 500 bytes from 5000; what follows the lost first one is one growing block.
    let mut c = Case::new(4999, |_| ());
    for i in 1..8 {
        assert_eq!(c.sack(5000 + 500 * i, 500), (5000, vec![(5500, 5500 + 500 * i)]));
    }
    assert_eq!(c.data(5000, 500).delivered, 4000);
    assert_eq!(c.ack().sack, SackBlocks::default());
}

#[test]
fn rfc_2018_case_3_every_second_of_eight_is_lost() {
    let mut c = Case::new(4999, |_| ());
    assert_eq!(c.sack(5000, 500), (5500, vec![]));
    assert_eq!(c.sack(6000, 500), (5500, vec![(6000, 6500)]));
    assert_eq!(c.sack(7000, 500), (5500, vec![(7000, 7500), (6000, 6500)]));
    assert_eq!(c.sack(8000, 500), (5500, vec![(8000, 8500), (7000, 7500), (6000, 6500)]));
    // The fourth comes, then the second.
    assert_eq!(c.sack(6500, 500), (5500, vec![(6000, 7500), (8000, 8500)]));
    assert_eq!(c.sack(5500, 500), (7500, vec![(8000, 8500)]));
}

#[test]
fn three_blocks_fit_beside_timestamps_and_four_without() {
    for (timestamps, room) in [(true, 3), (false, 4)] {
        let mut c = Case::new(0, |config| config.timestamps = timestamps);
        for i in 1..7 {
            let (_, blocks) = c.sack(1 + 200 * i, 100);
            assert_eq!(blocks.len(), room.min(i as usize));
            assert_eq!(blocks[0], (1 + 200 * i, 101 + 200 * i), "the latest first");
        }
    }
}

#[test]
fn rfc_2883_duplicates_are_told_once() {
    // Section 4.1.1: 3000 and 3500 come twice, nothing is missing.
    let mut c = Case::new(2999, |config| config.dsack = true);
    assert_eq!(c.sack(3000, 500), (3500, vec![]));
    assert_eq!(c.sack(3500, 500), (4000, vec![]));
    assert_eq!(c.sack(3000, 500), (4000, vec![(3000, 3500)]));
    assert_eq!(c.ack().sack, SackBlocks::default());
    // Section 4.2.1: above a hole the block that holds the duplicate follows it.
    let mut c = Case::new(2999, |config| config.dsack = true);
    for (seq, blocks) in
        [(4000, vec![(4000, 4500)]), (4500, vec![(4000, 5000)]), (4500, vec![(4500, 5000), (4000, 5000)])]
    {
        assert_eq!(c.sack(seq, 500), (3000, blocks));
    }
    // Section 4.3: of a segment that is partly new only the old part is told.
    let mut c = Case::new(2999, |config| config.dsack = true);
    c.data(3000, 500);
    assert_eq!(c.sack(3000, 1000), (4000, vec![(3000, 3500)]));
}

#[test]
fn sequence_numbers_wrap() {
    let mut c = Case::new(u32::MAX - 600, |_| ());
    assert_eq!(c.sack(u32::MAX - 99, 500), (u32::MAX - 599, vec![(u32::MAX - 99, 400)]));
    assert_eq!(c.data(u32::MAX - 599, 500).delivered, 1000);
}

#[test]
fn rfc_5681_every_second_full_segment_and_200_ms() {
    let ms = Duration::from_millis(200);
    let mut c = Case::new(0, |config| {
        config.mss = 1000;
        config.delayed_ack = Some(DelayedAck { every: 2, timeout: ms, quick: 1 });
    });
    assert_eq!(c.data(1, 1000).ack, AckTime::Now, "the quick one");
    c.ack();
    c.now = Instant::from_nanos(7);
    assert_eq!(c.data(1001, 1000).ack, AckTime::Delayed);
    assert_eq!(c.receiver.next_wake(), c.now + ms, "from the first that waits");
    c.now += Duration::from_millis(1);
    assert_eq!(c.data(2001, 1000).ack, AckTime::Now, "two full segments");
    c.ack();
    assert_eq!(c.receiver.next_wake(), Instant::FAR_FUTURE);
    assert_eq!(c.data(3001, 1000).ack, AckTime::Delayed);
    assert_eq!(c.data(3001, 1000).ack, AckTime::Now, "a duplicate");
    c.ack();
    assert_eq!(c.data(5001, 1000).ack, AckTime::Now, "out of order");
    c.ack();
    assert_eq!(c.data(4001, 1000).ack, AckTime::Now, "fills the hole");
    c.ack();
    // Small segments do not add up to a full one: the timer acknowledges them.
    assert_eq!(c.data(6001, 10).ack, AckTime::Delayed);
    let due = c.receiver.next_wake();
    assert_eq!(c.data(6011, 10).ack, AckTime::Delayed);
    assert_eq!(c.receiver.next_wake(), due);
    assert!(!c.receiver.is_due(due - Duration::from_nanos(1)) && c.receiver.is_due(due));
    assert_eq!(c.ack().ack, SeqNum(6021));
}

#[test]
fn a_full_segment_is_what_the_peer_sends() {
    let mut c = Case::new(0, |config| {
        config.mss = 1460;
        config.delayed_ack = Some(DelayedAck { every: 2, timeout: Duration::from_millis(200), quick: 0 });
    });
    let acks: Vec<_> = (0..4).map(|i| c.data(1 + 700 * i, 700).ack).collect();
    assert_eq!(acks[..2], [AckTime::Delayed, AckTime::Now]);
}

#[test]
fn the_window_is_scaled_and_kept() {
    let mut c = Case::new(0, |config| config.receive_window = 1 << 20);
    // 2^20 >> 5 = 32768 fits in 16 bits, 2^20 >> 4 = 65536 does not.
    assert_eq!(c.config.window_shift(), 5);
    assert_eq!(c.ack().window, 32768);
    let mut syn = TcpHeader { flags: Flags::SYN, ..TcpHeader::default() };
    c.receiver.fill_ack(&c.config, c.now, &mut syn);
    assert_eq!(syn.window, u16::MAX, "a SYN's window is not scaled");
    assert_eq!(c.data(1 + (1 << 20), 1).ack, AckTime::Now, "outside");
    assert_eq!(c.ack().sack, SackBlocks::default());
    // A segment that reaches over the edge is cut: 100 of 200 bytes are within.
    c.data(1, (1 << 20) - 100);
    assert_eq!(c.data(1 + (1 << 20) - 100, 200).delivered, 200, "the window moved on with the data");
}

#[test]
fn rfc_7323_echoes_the_segment_that_moved_the_left_edge() {
    let mut c = Case::new(0, |config| {
        config.timestamps = true;
        config.delayed_ack = Some(DelayedAck { every: 3, timeout: Duration::from_millis(200), quick: 0 });
    });
    let stamped = |seq: u32, tsval: u32| {
        let mut s = segment(seq, 1000);
        s.tcp.timestamps = Some((tsval, 0));
        s
    };
    // Section 4.3, the delayed ACK: the earliest of those it covers.
    c.take(&stamped(1, 1));
    c.take(&stamped(1001, 2));
    c.take(&stamped(2001, 3));
    assert_eq!(c.ack().timestamps.map(|t| t.1), Some(1));
    // The hole: while it is open the old stamp, then that of the segment which filled it.
    for (seq, tsval, echo) in [(3001, 4, 4), (5001, 6, 4), (4001, 5, 5), (6001, 7, 7)] {
        c.take(&stamped(seq, tsval));
        assert_eq!(c.ack().timestamps.map(|t| t.1), Some(echo), "{seq}");
    }
}

#[test]
fn rfc_3168_echo_until_cwr() {
    let mut c = Case::new(0, |config| config.ecn = true);
    let marked = |seq: u32, ecn: Ecn, cwr: bool| {
        let mut s = segment(seq, 100);
        s.ecn = ecn;
        if cwr {
            s.tcp.flags = s.tcp.flags.and(Flags::CWR);
        }
        s
    };
    let mut echoes = |s: Segment| {
        c.take(&s);
        c.ack().flags.has(Flags::ECE)
    };
    assert!(!echoes(marked(1, Ecn::Ect0, false)));
    assert!(echoes(marked(101, Ecn::Ce, false)));
    assert!(echoes(marked(201, Ecn::Ect0, false)), "until the sender says so");
    assert!(!echoes(marked(301, Ecn::Ect0, true)));
    assert!(echoes(marked(401, Ecn::Ce, true)), "a new mark");
    assert!(echoes(marked(401, Ecn::Ect0, true)), "a duplicate changes nothing");
}

#[test]
fn a_fin_takes_its_turn() {
    let mut c = Case::new(0, |_| ());
    let mut fin = segment(101, 50);
    fin.tcp.flags = fin.tcp.flags.and(Flags::FIN);
    assert_eq!(c.take(&fin), Received { delivered: 0, fin: false, ack: AckTime::Now });
    assert_eq!(c.data(1, 100), Received { delivered: 150, fin: true, ack: AckTime::Now });
    assert_eq!(c.ack().ack, SeqNum(152));
    assert_eq!(c.take(&fin), Received { delivered: 0, fin: false, ack: AckTime::Now });
    // A FIN alone, next to data that may wait.
    let mut c = Case::new(0, |_| ());
    let mut fin = segment(1, 0);
    fin.tcp.flags = fin.tcp.flags.and(Flags::FIN);
    assert_eq!(c.take(&fin), Received { delivered: 0, fin: true, ack: AckTime::Now });
}

/// Whatever the order, doubling and cutting of segments, every byte is delivered once, and the blocks are true.
#[test]
fn any_order_delivers_every_byte_once() {
    const TOTAL: u32 = 5_000;
    for seed in 0..40u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut below = |n: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % u64::from(n)) as u32
        };
        let irs = u32::MAX - 2_000;
        let mut c = Case::new(irs, |config| config.delayed_ack = None);
        let mut seen = vec![false; TOTAL as usize];
        let (mut delivered, mut steps) = (0, 0);
        while delivered < u64::from(TOTAL) {
            let from = below(TOTAL);
            let len = (1 + below(300)).min(TOTAL - from);
            seen[from as usize..(from + len) as usize].fill(true);
            delivered += c.data(irs.wrapping_add(1 + from), len).delivered;
            let tcp = c.ack();
            let front = seen.iter().position(|s| !s).unwrap_or(TOTAL as usize);
            assert_eq!(delivered, front as u64, "seed {seed}");
            assert_eq!(tcp.ack, SeqNum(irs) + 1 + front as u32, "seed {seed}");
            for &(left, right) in tcp.sack.as_slice() {
                let (l, r) = ((left - (SeqNum(irs) + 1)) as usize, (right - (SeqNum(irs) + 1)) as usize);
                assert!(
                    l < r && seen[l..r].iter().all(|s| *s),
                    "seed {seed}: [{l}, {r}) was not all received"
                );
            }
            steps += 1;
            assert!(steps < 100_000, "seed {seed}");
        }
    }
}
