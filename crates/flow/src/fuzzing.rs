//! Bodies of the fuzz targets, here so that ordinary tests run them too, over pseudo-random bytes.

use narrows_units::{Bytes, Duration, Instant, SeqNum};
use narrows_users::UserRule;
use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader};

use crate::{FlowId, Tracker, TrackerConfig};

/// Any bytes as a packet: read, rewritten in every way, and read again.
///
/// # Panics
/// If reading or rewriting contradicts itself.
pub fn parse(bytes: &[u8]) {
    let before = narrows_wire::parse(bytes);
    let mut packet = bytes.to_vec();
    let window = narrows_wire::set_window(&mut packet, 0x1234);
    let tsval = narrows_wire::set_tsval(&mut packet, 0x89ab_cdef);
    let marked = narrows_wire::mark_ce(&mut packet);
    let _ = narrows_wire::tcp_checksum(&packet);
    assert_eq!(packet.len(), bytes.len());
    let Ok(before) = before else {
        return;
    };
    let after = narrows_wire::parse(&packet).expect("a rewritten packet is still one");
    let (mut flow, mut flow_after) = (before, after);
    flow.look_inside(bytes);
    flow_after.look_inside(&packet);
    assert_eq!(flow_after.key, flow.key);
    if flow.key.is_in_tunnel() {
        assert!(!window && !tsval, "nothing within a tunnel is changed");
        assert_eq!(
            (flow.key.src_bits(), flow.key.dst_bits()),
            (before.key.src_bits(), before.key.dst_bits())
        );
        assert_eq!((flow.len, flow.ecn, flow.ident), (before.len, before.ecn, before.ident));
        assert!(flow.tcp.is_none_or(|tcp| u64::from(tcp.payload) <= flow.len.get()));
    } else {
        assert_eq!(flow, before);
    }
    assert_eq!((after.key, after.len, after.fragment), (before.key, before.len, before.fragment));
    assert!(!marked || after.ecn == narrows_units::Ecn::Ce);
    if let (Some(a), Some(b)) = (after.tcp, before.tcp) {
        assert!(!window || a.window == 0x1234);
        assert!(!tsval || a.timestamps.map(|t| t.0) == Some(0x89ab_cdef));
        assert_eq!((a.seq, a.ack, a.flags, a.payload), (b.seq, b.ack, b.flags, b.payload));
    }
}

/// Any bytes as a story of arrivals, answers, departures and drops, told to two trackers: one left alone between
/// events, one advanced and ticked all the time. They must agree, and keep every promise.
///
/// # Panics
/// If they do not.
pub fn tracker(bytes: &[u8]) {
    let config =
        TrackerConfig { capacity: 8, record_timeout: Duration::from_secs(5), ..TrackerConfig::default() };
    let new = || Tracker::new(config, 42);
    let mut play = Play { lazy: new(), eager: new(), now: Instant::ZERO, queue: Vec::new(), memory: 0 };
    play.memory = play.lazy.memory_bytes();
    for op in bytes.chunks_exact(6) {
        play.step(op);
    }
    play.check();
}

struct Play {
    lazy: Tracker,
    eager: Tracker,
    now: Instant,
    /// What waits, in order.
    queue: Vec<(FlowId, Header)>,
    memory: usize,
}

impl Play {
    fn step(&mut self, op: &[u8]) {
        // 0, 1, 2, 4 ... up to 2^15 tenths of a millisecond: within an epoch and far beyond a timeout.
        self.pass(Duration::from_micros(100) * ((1 << (op[0] & 15)) >> 1));
        self.lazy.tick(self.now);
        self.eager.tick(self.now);
        let header = header(op);
        match op[1] & 7 {
            0..=2 => self.forward(&header),
            3 => {
                let back = Header { key: header.key.reverse(), ..header };
                assert_eq!(self.lazy.reverse(self.now, &back), self.eager.reverse(self.now, &back));
            }
            4 | 5 => self.leave(0, false),
            6 => self.leave(usize::from(op[2]), true),
            _ => self.check(),
        }
    }

    /// Time passes, for the eager one in small steps.
    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        let pace = (span / 40).max(Duration::from_millis(1));
        while self.now < end {
            self.now = end.min(self.now + pace);
            self.eager.tick(self.now);
            for key in keys() {
                if let Some(id) = self.eager.lookup(&key) {
                    self.eager.flow_at(self.now, id);
                }
            }
        }
    }

    fn forward(&mut self, header: &Header) {
        let seen = self.lazy.forward(self.now, header);
        assert_eq!(seen, self.eager.forward(self.now, header));
        if let Some(id) = seen.id {
            assert!(!seen.fresh || self.queue.iter().all(|q| q.0 != id), "a slot taken from what waits");
            self.lazy.queued(id);
            self.eager.queued(id);
            self.queue.push((id, *header));
        }
    }

    fn leave(&mut self, at: usize, lost: bool) {
        if self.queue.is_empty() {
            return;
        }
        let (id, header) = self.queue.remove(at % self.queue.len());
        for t in [&mut self.lazy, &mut self.eager] {
            if lost {
                t.dropped(self.now, id, &header);
            } else {
                t.departed(self.now, id, &header);
            }
            t.unqueued(id);
        }
    }

    fn check(&mut self) {
        let census = self.lazy.census(self.now);
        assert_eq!(census, self.eager.census(self.now));
        for t in [&self.lazy, &self.eager] {
            assert_eq!(
                (census.by_phase, census.active, census.pools),
                (*t.phases(), t.active_flows(), t.active_users())
            );
            assert_eq!(census.flows, t.len());
        }
        assert!(census.flows <= self.lazy.capacity());
        assert_eq!(self.lazy.memory_bytes(), self.memory);
        for (id, header) in &self.queue {
            assert_eq!(self.lazy.lookup(&header.key), Some(*id), "a flow with packets waiting was evicted");
        }
        for key in keys() {
            assert_eq!(self.lazy.lookup(&key), self.eager.lookup(&key));
            let Some(id) = self.lazy.lookup(&key) else { continue };
            let (a, b) = (self.lazy.flow(id), self.eager.flow(id));
            let facts = |f: &crate::Flow| {
                let epoch = (f.phase(), f.previous_phase(), f.epoch_len(), f.rate(), f.silent_epochs());
                let counts =
                    (f.new_pkts(), f.retx_pkts(), f.drops_cur(), f.drops_prev(), f.unrepaired(), f.queued());
                let rest = (
                    f.max_seq(),
                    f.highest_ack(),
                    f.receiver_rtt(),
                    f.last_silence(),
                    f.user(&UserRule::OPENER),
                    f.age(self.now),
                );
                (epoch, counts, rest)
            };
            assert_eq!(facts(a), facts(b));
            assert!(f64::from(a.unrepaired()) >= 0.0 && a.queued() as usize <= self.queue.len());
        }
    }
}

/// Twelve flows for eight records.
fn keys() -> impl Iterator<Item = FlowKey> {
    (0..12u8).map(|n| {
        let proto = if n % 6 == 5 { Proto::UDP } else { Proto::TCP };
        FlowKey::new([192, 0, 2, 1].into(), [10, 0, 0, n / 2].into(), 80, 40_000 + u16::from(n), proto)
    })
}

fn header(op: &[u8]) -> Header {
    let key = keys().nth(usize::from(op[2] % 12)).unwrap_or_default();
    let payload = [0, 1, 100, 100, 100, 1400, 1400, 60_000][usize::from(op[3] & 7)];
    let flags = [0x10, 0x10, 0x10, 0x10, 0x10, 0x02, 0x12, 0x11, 0x04, 0x18, 0, 0x10, 0x10, 0xff, 0x10, 0x10];
    // Near the wrap, and now and then anywhere.
    let near = |byte: u8| SeqNum(u32::MAX - 6000).0.wrapping_add(u32::from(byte) * 100);
    let seq = if op[3] >> 3 == 31 { u32::from(op[4]) << 24 } else { near(op[4]) };
    let tcp = TcpHeader {
        seq: SeqNum(seq),
        ack: SeqNum(near(op[5])),
        flags: Flags(flags[usize::from(op[1] >> 4)]),
        window: u16::from(op[5] & 3),
        payload,
        window_scale: (op[5] & 1 == 1).then_some(op[5] >> 4),
        ..TcpHeader::default()
    };
    let tcp = (key.proto == Proto::TCP && op[1] & 8 == 0 || op[5] & 7 != 0).then_some(tcp);
    Header { key, len: Bytes(u64::from(payload) + 40), tcp, ..Header::default() }
}

/// Marsaglia's xorshift64: the same numbers everywhere, from a seed that can be printed.
#[derive(Clone, Debug)]
pub struct XorShift(u64);

impl XorShift {
    /// Starts from a seed; zero will do.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    /// A number below `n`, which is not zero; close enough to uniform for tests.
    pub const fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}
