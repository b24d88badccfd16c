//! The body of the fuzz target. The target stands here so that ordinary tests run it too, with pseudo-random bytes.

use std::collections::{BTreeSet, VecDeque};

use narrows_units::{Duration, Ecn, Instant};

use crate::{Config, Datagram, Endpoint, EndpointCounters, Frame, Io, Preset, QuicEvent, Role, Space};

/// The path's delay each way, once the path carries everything in order.
const DELAY: Duration = Duration::from_millis(50);
/// Longer than any story with its back-offs: nobody ends a connection because the other was silent.
const IDLE: Duration = Duration::from_secs(200 * 365 * 86_400);

/// One end's packets and events, and the bounds that its packets must keep.
#[derive(Default)]
struct Mouth {
    side: usize,
    out: Vec<Datagram>,
    numbers: BTreeSet<(Space, u64)>,
    /// UDP payload that came, until the peer has shown that its address is its own, and that went (RFC 9000, section
    /// 8.1).
    came: u64,
    gone: u64,
    validated: bool,
    /// Packets that may exceed the window: those of probe timeouts (RFC 9002, section 6.2.4).
    probes: u64,
    probes_each: u64,
    written: u64,
    delivered: u64,
    acked: u64,
    /// Whether the application or the peer has closed.
    closed: bool,
}

impl Io for Mouth {
    fn send(&mut self, datagram: Datagram) {
        let inside: u32 = datagram.packets.iter().map(|p| p.len).sum();
        assert_eq!(inside, datagram.len, "{datagram:?}");
        assert!(!datagram.packets.is_empty() && datagram.len <= 1472, "{datagram:?}");
        if self.side == 1 && !self.validated {
            // The first datagram beyond the limit may begin below it and end above.
            assert!(self.gone < 3 * self.came, "amplifies: {} for {}", self.gone, self.came);
        }
        self.gone += u64::from(datagram.len);
        for packet in &datagram.packets {
            assert!(self.numbers.insert((packet.space, packet.number)), "a number twice: {packet:?}");
        }
        self.out.push(datagram);
    }
    fn event(&mut self, event: QuicEvent) {
        match event {
            QuicEvent::Delivered { bytes } => self.delivered += bytes,
            QuicEvent::Acked { bytes } => self.acked += bytes,
            QuicEvent::ProbeTimeout { .. } => self.probes += self.probes_each,
            QuicEvent::PeerClosed => self.closed = true,
            QuicEvent::IdleTimeout => panic!("idle"),
            _ => {}
        }
    }
}

/// A client, a server and the datagrams between the two.
struct Story {
    config: Config,
    now: Instant,
    ends: [Endpoint; 2],
    mouths: [Mouth; 2],
    /// Datagrams under way: the time of sending, and the end that a datagram goes to.
    flying: VecDeque<(Instant, usize, Datagram)>,
}

impl Story {
    fn new(first: u8) -> Self {
        let preset = Preset::ALL[usize::from(first) % Preset::ALL.len()];
        let ecn = first & 0x80 != 0;
        let config = Config { idle: IDLE, ecn, ..Config::preset(preset) };
        let mouth = |side| Mouth { side, probes_each: config.probes.into(), ..Mouth::default() };
        Self {
            config,
            now: Instant::ZERO + Duration::from_millis(1),
            ends: [Endpoint::new(&config, Role::Client), Endpoint::new(&config, Role::Server)],
            mouths: [mouth(0), mouth(1)],
            flying: VecDeque::new(),
        }
    }

    /// One thing happens at one end.
    fn at(&mut self, end: usize, what: impl FnOnce(&mut Endpoint, &Config, Instant, &mut Mouth)) {
        what(&mut self.ends[end], &self.config, self.now, &mut self.mouths[end]);
        let sent = std::mem::take(&mut self.mouths[end].out);
        self.check_window(end, &sent);
        self.flying.extend(sent.into_iter().map(|datagram| (self.now, 1 - end, datagram)));
    }

    /// Checks that the datagrams just sent fitted into the window, but for probes (RFC 9002, sections 7 and 7.5), ACKs
    /// that took something along, the end of a handshake without which the window stays full, and a search for the
    /// path's MTU.
    fn check_window(&mut self, end: usize, sent: &[Datagram]) {
        let (e, mouth) = (&self.ends[end], &mut self.mouths[end]);
        let controlled = |d: &Datagram| -> u64 {
            let counts = |p: &&crate::FramedPacket| !p.frames.is_empty() || p.space == Space::Initial;
            d.packets.iter().filter(counts).map(|p| u64::from(p.len)).sum()
        };
        // Bytes in flight before the last datagram, and so on back to the first.
        let mut in_flight = e.in_flight();
        for datagram in sent.iter().rev() {
            in_flight = in_flight.saturating_sub(controlled(datagram));
            let first = &datagram.packets[0];
            let searches = matches!(first.frames[..], [Frame::Ping] | [Frame::Ping, Frame::ImmediateAck]);
            let finishes = end == 0 && first.space == Space::Handshake;
            if first.close || first.frames.is_empty() || finishes || (searches && first.ack.is_none()) {
                continue;
            }
            if in_flight >= e.cwnd() {
                assert!(mouth.probes > 0, "{in_flight} in flight at a window of {}", e.cwnd());
                mouth.probes -= 1;
            }
        }
    }

    /// A datagram arrives.
    fn arrive(&mut self, to: usize, datagram: &Datagram, mark: bool) {
        let ecn = if mark && datagram.ecn.is_capable() { Ecn::Ce } else { datagram.ecn };
        let mouth = &mut self.mouths[to];
        mouth.came += u64::from(datagram.len);
        mouth.validated |= datagram.packets.iter().any(|p| p.space == Space::Handshake);
        self.at(to, |e, config, now, io| e.receive(config, now, datagram, ecn, io));
        self.rest(to);
    }

    /// Wakes an end as long as the end asks to be woken now.
    fn rest(&mut self, end: usize) {
        for _ in 0..100 {
            if self.ends[end].wake_at(&self.config) > self.now {
                return;
            }
            self.at(end, Endpoint::wake);
        }
        panic!("end {end} does not come to rest");
    }

    fn step(&mut self, [what, a, b]: [u8; 3]) {
        let end = usize::from(a & 1);
        // Mostly the oldest.
        let from_front = if a < 160 { 0 } else { usize::from(b) % self.flying.len().max(1) };
        match what % 12 {
            0 if what < 24 => self.application(end, a, b),
            0..6 => {
                if let Some((_, to, datagram)) = self.flying.remove(from_front) {
                    self.arrive(to, &datagram, b < 16);
                }
            }
            6 => drop(self.flying.remove(from_front)),
            7 => {
                if let Some((_, to, datagram)) = self.flying.get(from_front).cloned() {
                    self.arrive(to, &datagram, b < 16);
                }
            }
            // A driver may be late.
            8 => self.now += Duration::from_micros(u64::from(a) << (b % 14)),
            _ => {
                let wake = self.ends[end].wake_at(&self.config);
                // A back-off can be long; a story is not.
                self.now = self.now.max(wake.min(self.now + Duration::from_secs(10)));
                self.rest(end);
            }
        }
    }

    fn application(&mut self, end: usize, a: u8, b: u8) {
        match b {
            0..3 => {
                self.mouths[end].closed = true;
                self.at(end, Endpoint::close);
            }
            3..30 => self.at(end, Endpoint::finish),
            _ => {
                let bytes = u64::from(a) << (b % 9);
                self.mouths[end].written += bytes;
                self.at(end, |e, config, now, io| e.write(config, now, bytes, io));
            }
        }
    }

    /// Runs to the end on a path that carries everything, in order; all that was written arrives, or the connection has
    /// ended.
    fn end(&mut self) {
        for flying in &mut self.flying {
            flying.0 = self.now;
        }
        for _ in 0..20_000 {
            if self.ends.iter().any(Endpoint::is_over) {
                // The other may not have heard of it, and asks on until it is idle.
                return self.check_end();
            }
            let next = self.flying.front().map(|f| f.0 + DELAY);
            let wakes = [0, 1].map(|end| self.ends[end].wake_at(&self.config));
            let soonest = wakes[0].min(wakes[1]);
            if next.is_none() && soonest >= self.now + IDLE / 2 {
                return self.check_end();
            }
            if let Some(at) = next.filter(|at| *at <= soonest) {
                self.now = self.now.max(at);
                let (_, to, datagram) = self.flying.pop_front().expect("there is a next one");
                self.arrive(to, &datagram, false);
            } else {
                self.now = self.now.max(soonest);
                self.rest(usize::from(wakes[0] != soonest));
            }
        }
        panic!("no end: {:?}", self.ends);
    }

    fn check_end(&self) {
        let [client, server] = &self.mouths;
        for (from, to, end) in [(client, server, &self.ends[0]), (server, client, &self.ends[1])] {
            assert!(from.acked <= to.delivered && to.delivered <= from.written);
            if client.closed || server.closed {
                continue;
            }
            assert!(end.is_established() && end.all_acked(), "{end:?}");
            assert_eq!((to.delivered, from.acked, end.in_flight()), (from.written, from.written, 0));
        }
    }
}

/// Runs a connection through the story that the bytes tell: datagrams that arrive, are lost, come late, twice or
/// marked, timers, drivers that are late, applications that write and close. At its end losses stop, and what was
/// written has to arrive. Returns what both ends have counted.
///
/// # Panics
/// If an end panics, sends a number twice, more than its window or more than three times what came, asks to be woken
/// and then does nothing, or if not all arrives.
pub fn connection(bytes: &[u8]) -> [EndpointCounters; 2] {
    let Some((&first, rest)) = bytes.split_first() else { return Default::default() };
    let mut story = Story::new(first);
    story.at(0, Endpoint::open);
    for op in rest.chunks_exact(3).take(4_000) {
        story.step([op[0], op[1], op[2]]);
    }
    for end in 0..2 {
        story.rest(end);
    }
    story.end();
    story.ends.each_ref().map(|e| *e.counters())
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_story() {
        let (mut data, mut lost, mut ptos, mut spurious) = (0, 0, 0, 0);
        // 7030 doubled what was counted in each of two copies, until it overflowed.
        for seed in (0..3_000).chain([7_030]) {
            let mut random = fastrand::Rng::with_seed(seed);
            let bytes: Vec<u8> = (0..random.usize(..1_500)).map(|_| random.u8(..)).collect();
            let result = std::panic::catch_unwind(|| super::connection(&bytes));
            for counters in result.unwrap_or_else(|_| panic!("seed {seed}")) {
                data += counters.data_sent;
                lost += counters.lost;
                ptos += counters.ptos;
                spurious += counters.spurious;
            }
        }
        let dull = data < 20_000 || lost < 10_000 || ptos < 10_000 || spurious < 500;
        assert!(!dull, "dull stories: {data} {lost} {ptos} {spurious}");
    }
}
