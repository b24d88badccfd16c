//! Beginnings, ends and other rare moments of a connection.

use crate::common::{Act, SegmentFate, Side, Wire, WirePath};
use narrows_tcp::{
    Config, DelayedAck, Endpoint, Handshake, Io, Preset, Recovery, Segment, SwsAvoidance, TcpEvent,
};
use narrows_units::{Duration, Ecn, Instant, SeqNum};
use narrows_wire::{Flags, TcpHeader};

fn rfc(more: &str) -> Config {
    let mut config = Config { delayed_ack: None, ..Config::preset(Preset::Rfc) };
    if more == "reno" {
        config.recovery = Recovery::NewReno;
    }
    config
}

/// Flags and payload of all that was sent.
fn flags(wire: &Wire<'_>, side: Side) -> Vec<(String, u32)> {
    let sent = wire.log.iter().filter(|s| s.from == side);
    sent.map(|s| (format!("{:?}", s.segment.tcp.flags), s.segment.tcp.payload)).collect()
}

#[test]
fn three_ways_and_four_to_close() {
    let mut wire = Wire::new(rfc(""), WirePath::delay_ms(50), |_, _, _| SegmentFate::Pass);
    wire.act(Side::A, Act::Open);
    wire.act(Side::A, Act::Write(100));
    wire.run_until(Instant::ZERO + Duration::from_secs(1));
    wire.act(Side::A, Act::Close);
    wire.run_until(Instant::ZERO + Duration::from_secs(2));
    wire.act(Side::B, Act::Close);
    wire.run();
    let all = |list: &[(&str, u32)]| list.iter().map(|&(f, n)| (f.to_owned(), n)).collect::<Vec<_>>();
    assert_eq!(flags(&wire, Side::A), all(&[("S", 0), ("A", 0), ("A", 100), ("FA", 0), ("A", 0)]));
    assert_eq!(flags(&wire, Side::B), all(&[("SA", 0), ("A", 0), ("A", 0), ("FA", 0)]));
}

/// ns-2's one-way agents: the answer to packet 0 opens the window, and data follows at once.
#[test]
fn packet_zero_needs_no_third_segment() {
    let config = Config { mss: 1000, ..Config::preset(Preset::Ns2) };
    let mut wire = Wire::new(config, WirePath::delay_ms(50), |_, _, _| SegmentFate::Pass);
    wire.act(Side::A, Act::Open);
    wire.act(Side::A, Act::Write(3000));
    wire.run();
    // cwnd 1 for packet 0; 2 after its ACK; 3 after the next.
    assert_eq!(wire.data(Side::A), [(100, 1), (100, 2), (200, 3)]);
    assert_eq!(flags(&wire, Side::A).len(), 4);
}

/// ns-2's DelAck sink keeps the ACK of packet 0 for 200 ms as any other; what is full goes in pairs.
#[test]
fn packet_zero_is_acknowledged_late_where_acks_are_delayed() {
    let delayed_ack = Some(DelayedAck { every: 2, timeout: Duration::from_millis(200), quick: 0 });
    let config = Config { mss: 1000, delayed_ack, ..Config::preset(Preset::Ns2) };
    let mut wire = Wire::new(config, WirePath::delay_ms(50), |_, _, _| SegmentFate::Pass);
    wire.act(Side::A, Act::Open);
    wire.act(Side::A, Act::Write(4000));
    wire.run();
    // 50 + 200 + 50 ms; two, acknowledged together, open the window to 3.
    assert_eq!(wire.data(Side::A), [(300, 1), (300, 2), (400, 3), (400, 4)]);
    // An end with something to say answers first.
    let mut wire = Wire::new(config, WirePath::delay_ms(50), |_, _, _| SegmentFate::Pass);
    wire.act(Side::A, Act::Open);
    wire.run_until(Instant::ZERO + Duration::from_millis(60));
    wire.act(Side::B, Act::Write(500));
    wire.run();
    assert_eq!(wire.delivered(Side::A), 500);
}

#[test]
fn a_lost_third_segment_is_healed_by_data_or_by_the_syn_ack() {
    for data in [0, 500] {
        let mut third = true;
        let mut wire = Wire::new(rfc(""), WirePath::delay_ms(50), |side, _, s: &Segment| {
            let drop = side == Side::A && third && s.tcp.is_pure_ack();
            third &= !drop;
            if drop { SegmentFate::Drop } else { SegmentFate::Pass }
        });
        wire.act(Side::A, Act::Open);
        wire.act(Side::A, Act::Write(data));
        wire.run();
        assert!(wire.ends.iter().all(Endpoint::is_established));
        assert_eq!(wire.delivered(Side::B), data);
        // Without data the SYN-ACK comes again after 1 s.
        assert_eq!(wire.ends[1].counters().syn_retries, u32::from(data == 0));
    }
}

#[test]
fn both_open_at_once() {
    let mut wire =
        Wire::of([rfc(""); 2], [SeqNum(7), SeqNum(900)], WirePath::delay_ms(50), |_, _, _| SegmentFate::Pass);
    for side in [Side::A, Side::B] {
        wire.act(side, Act::Open);
        wire.act(side, Act::Write(5000));
        wire.act(side, Act::Close);
    }
    wire.run();
    assert!(wire.ends.iter().all(Endpoint::is_closed));
    assert_eq!((wire.delivered(Side::A), wire.delivered(Side::B)), (5000, 5000));
}

#[test]
fn giving_up_and_being_refused() {
    let mut config = rfc("");
    config.rto.retries = 3;
    // Nothing comes through from 1 s on: 3 retries, then the end.
    let mut wire = Wire::new(config, WirePath::delay_ms(50), |_, now, _| {
        if now >= Instant::ZERO + Duration::from_secs(1) { SegmentFate::Drop } else { SegmentFate::Pass }
    });
    wire.act(Side::A, Act::Open);
    wire.run_until(Instant::ZERO + Duration::from_secs(1));
    wire.act(Side::A, Act::Write(100));
    wire.run();
    assert!(wire.ends[0].is_failed());
    assert_eq!(wire.ends[0].counters().timeouts, 3);
    assert_eq!(wire.ends[0].next_wake(), None);
    assert_eq!(wire.count(Side::A, |e| *e == TcpEvent::Failed), 1);
    // Whoever speaks to it afterwards is told.
    let mut out = Out::default();
    let data = TcpHeader {
        seq: SeqNum(1001),
        ack: SeqNum(1101),
        flags: Flags::ACK,
        payload: 5,
        ..TcpHeader::default()
    };
    wire.ends[0].receive(&config, wire.now, &data, Ecn::NotEct, &mut out);
    assert!(out.0[0].tcp.flags.has(Flags::RST));
    assert_eq!(out.0[0].tcp.seq, SeqNum(1101));
    let rst = out.0[0];
    wire.ends[1].receive(&config, wire.now, &rst.tcp, rst.ecn, &mut out);
    assert!(wire.ends[1].is_failed());
}

/// Five GiB: sequence numbers wrap, offsets do not. Loss on both sides of the wrap is repaired.
#[test]
fn more_than_fits_in_32_bits() {
    let mss = 60_000;
    let mut config = Config { mss, receive_window: 40 * mss, ..rfc("") };
    config.rto.min = Duration::from_millis(200);
    for isn in [0, u32::MAX - 100_000] {
        let mut position = 0_u32;
        let mut wire = Wire::of([config; 2], [SeqNum(isn); 2], WirePath::delay_ms(1), move |side, _, s| {
            position += 1;
            let lost = side == Side::A && s.tcp.payload > 0 && position.is_multiple_of(4999);
            if lost { SegmentFate::Drop } else { SegmentFate::Pass }
        });
        let total = 5 << 30;
        wire.act(Side::A, Act::Open);
        wire.act(Side::A, Act::Write(total));
        wire.act(Side::A, Act::Close);
        wire.act(Side::B, Act::Close);
        wire.run();
        assert_eq!((wire.delivered(Side::B), wire.ends[0].acked()), (total, total));
        assert!(wire.ends[0].is_closed() && wire.ends[0].counters().retransmitted > 10);
    }
}

#[derive(Default)]
struct Out(Vec<Segment>);

impl Io for Out {
    fn transmit(&mut self, segment: &Segment) {
        self.0.push(*segment);
    }
    fn event(&mut self, _: TcpEvent) {}
}

/// RFC 9293, section 3.8.6.1: a shut window is probed, at doubling intervals, until it opens.
#[test]
fn a_shut_window_is_probed() {
    let config = Config { handshake: Handshake::None, mss: 1000, ..rfc("") };
    let mut out = Out::default();
    let mut end = Endpoint::new(&config, SeqNum(0));
    let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
    let ack = |ack: u32, window: u16| TcpHeader {
        seq: SeqNum(1),
        ack: SeqNum(ack),
        flags: Flags::ACK,
        window,
        ..TcpHeader::default()
    };
    end.open(&config, at(0), &mut out);
    end.write(&config, at(0), 2000, &mut out);
    assert_eq!(out.0.len(), 2);
    end.receive(&config, at(100), &ack(2001, 0), Ecn::NotEct, &mut out);
    end.write(&config, at(100), 3000, &mut out);
    assert_eq!(out.0.len(), 2, "nothing may leave");
    let mut probes = vec![];
    for _ in 0..4 {
        let wake = end.next_wake().expect("a probe is due");
        end.wake(&config, wake, &mut out);
        probes.push(wake.as_nanos() / 1_000_000);
        let probe = out.0.last().expect("it left").tcp;
        assert_eq!((probe.seq, probe.payload), (SeqNum(2000), 1), "a byte the peer has");
        end.receive(&config, wake + Duration::from_millis(100), &ack(2001, 0), Ecn::NotEct, &mut out);
    }
    assert_eq!(probes, [1100, 3100, 7100, 15_100]);
    assert_eq!(end.counters().timeouts, 0);
    let shift = config.window_shift();
    end.receive(&config, at(20_000), &ack(2001, 3000 >> shift), Ecn::NotEct, &mut out);
    let sent: u32 = out.0[6..].iter().map(|s| s.tcp.payload).sum();
    assert_eq!(sent, 2000, "whole segments only while something is out");
    assert_eq!(end.backoff(), 1);
}

/// A small window is filled if it cannot hold a whole segment and nothing is out.
#[test]
fn a_small_window_is_used() {
    let config = Config { mss: 1000, receive_window: 300, ..rfc("") };
    let mut wire = Wire::new(config, WirePath::delay_ms(10), |_, _, _| SegmentFate::Pass);
    wire.act(Side::A, Act::Open);
    wire.act(Side::A, Act::Write(1000));
    wire.run();
    assert_eq!(wire.delivered(Side::B), 1000);
    assert_eq!(wire.log.iter().filter(|s| s.segment.tcp.payload > 0).count(), 4);
}

/// A sender with 20 000 bytes to send in segments of 1000, by a rule for small segments, whose peer acknowledges and
/// offers windows.
struct Windowed {
    config: Config,
    end: Endpoint,
    out: Out,
    now: Instant,
    acked: u32,
}

impl Windowed {
    fn new(sws_avoidance: SwsAvoidance, nagle: bool) -> Self {
        let config = Config {
            handshake: Handshake::None,
            mss: 1000,
            receive_window: 10_000,
            sws_avoidance,
            nagle,
            ..rfc("")
        };
        let mut new = Self {
            end: Endpoint::new(&config, SeqNum(0)),
            config,
            out: Out::default(),
            now: Instant::ZERO,
            acked: 1,
        };
        new.end.open(&new.config, new.now, &mut new.out);
        new
    }

    fn write(&mut self, bytes: u64) -> Vec<u32> {
        self.end.write(&self.config, self.now, bytes, &mut self.out);
        self.sent()
    }

    /// Acknowledges `bytes` more 100 ms later, and offers a window.
    fn acknowledge(&mut self, bytes: u32, window: u16) -> Vec<u32> {
        self.now += Duration::from_millis(100);
        self.acked += bytes;
        let (ack, flags) = (SeqNum(self.acked), Flags::ACK);
        let tcp = TcpHeader { seq: SeqNum(1), ack, flags, window, ..TcpHeader::default() };
        self.end.receive(&self.config, self.now, &tcp, Ecn::NotEct, &mut self.out);
        self.sent()
    }

    /// Lets the next timer expire: after how many milliseconds, and what leaves then.
    fn wake(&mut self) -> (u64, Vec<u32>) {
        let at = self.end.next_wake().expect("a timer runs");
        let after = at.since(self.now).as_nanos() / 1_000_000;
        self.now = at;
        self.end.wake(&self.config, at, &mut self.out);
        (after, self.sent())
    }

    /// The payloads that have left since this was last asked.
    fn sent(&mut self) -> Vec<u32> {
        self.out.0.drain(..).map(|segment| segment.tcp.payload).filter(|payload| *payload > 0).collect()
    }
}

/// Senders differ in what they make of windows that are no whole segments: 1500 B behind 9000, then 900 B while
/// something is outstanding, and 900 B with nothing outstanding.
#[test]
fn each_stack_fills_a_window_by_its_own_rule() {
    use SwsAvoidance::{Bsd, Idle, Linux, Rfc};
    for (rule, rest, idle, patience) in [
        (Idle, None, vec![900], None),
        (Rfc, None, vec![], Some(1000)),
        (Bsd, None, vec![], Some(5000)),
        (Linux, Some(500), vec![], Some(1000)),
    ] {
        let mut a = Windowed::new(rule, false);
        assert_eq!(a.write(20_000), [1000; 10], "{rule:?}");
        let mut due = vec![1000];
        due.extend(rest);
        assert_eq!(a.acknowledge(9000, 2500), due, "{rule:?}: a segment is out, and 1500 B are left");
        assert_eq!(a.acknowledge(1000, 1900), [0; 0], "{rule:?}: 900 B or 400 behind a segment");
        assert_eq!(a.acknowledge(1000 + rest.unwrap_or(0), 900), idle, "{rule:?}");
        if let Some(patience) = patience {
            assert_eq!(a.wake(), (patience, vec![900]), "{rule:?}");
        }
    }
    // Half of the largest window, of 1700 B: 900 B behind 500 that are out, and with nothing outstanding. In Linux half
    // of it is a full segment.
    for (rule, behind, idle) in
        [(Rfc, vec![], vec![900]), (Bsd, vec![900], vec![900]), (Linux, vec![850, 50], vec![850, 50])]
    {
        let mut a = Windowed::new(rule, false);
        a.config.receive_window = 1700;
        a.end = Endpoint::new(&a.config, SeqNum(0));
        a.end.open(&a.config, a.now, &mut a.out);
        assert_eq!(a.write(500), [500], "{rule:?}");
        assert_eq!(a.acknowledge(0, 1400), [0; 0], "{rule:?}");
        assert_eq!(a.write(2000), behind, "{rule:?}");
        assert_eq!(a.acknowledge(500 + behind.iter().sum::<u32>(), 900), idle, "{rule:?}");
    }
}

/// Nagle holds the last of what was written back while anything is outstanding, Linux while a small segment is.
#[test]
fn nagle_and_minshall() {
    for (rule, first, second) in
        [(SwsAvoidance::Rfc, vec![1000], vec![]), (SwsAvoidance::Linux, vec![1000, 100], vec![])]
    {
        let mut a = Windowed::new(rule, true);
        assert_eq!(a.write(1100), first, "{rule:?}");
        assert_eq!(a.write(200), second, "{rule:?}");
        // Whatever waits leaves in one piece when all is acknowledged.
        let out: u32 = first.iter().sum();
        assert_eq!(a.acknowledge(out, 10_000), [1300 - out], "{rule:?}");
    }
    let mut a = Windowed::new(SwsAvoidance::Linux, true);
    a.write(20_000);
    assert_eq!(a.acknowledge(9000, 2500), [1000, 500]);
    assert_eq!(a.acknowledge(1000, 3200), [1000], "the rest of 700 B waits behind the small one");
    let mut off = Windowed::new(SwsAvoidance::Rfc, false);
    assert_eq!((off.write(1100), off.write(200)), (vec![1000, 100], vec![200]));
}

#[test]
fn a_scale_may_be_larger_than_the_window_needs() {
    let config = Config { receive_window: 60_000, window_scale: Some(10), ..rfc("") };
    assert_eq!(
        (config.window_shift(), config.window_field(true), config.window_field(false)),
        (10, 60_000, 58)
    );
    let mut wire = Wire::new(config, WirePath::delay_ms(10), |_, _, _| SegmentFate::Pass);
    wire.act(Side::A, Act::Open);
    wire.act(Side::A, Act::Write(100_000));
    wire.run();
    assert_eq!(wire.delivered(Side::B), 100_000);
    let said: Vec<_> = wire.log.iter().filter(|s| s.from == Side::B).map(|s| s.segment.tcp).collect();
    assert_eq!((said[0].window, said[0].window_scale), (60_000, Some(10)));
    assert!(said[1..].iter().all(|tcp| tcp.window == 58));
    // A smaller scale tells no more than 65 535 units.
    let narrow = Config { receive_window: 1 << 20, window_scale: Some(2), ..rfc("") };
    assert_eq!((narrow.window_field(true), narrow.window_field(false)), (65_535, 65_535));
}
