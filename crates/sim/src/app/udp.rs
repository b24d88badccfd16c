//! Constant-rate UDP: packets of one length at equal gaps while on; on and off for exponential times, or always on.

use fastrand::Rng;
use narrows_units::{Bytes, Duration, Instant, Rate};
use narrows_wire::{FlowKey, Header, Proto};

use super::{App, Common, exponential};
use crate::packet::DATAGRAM;
use crate::world::{World, address};

/// A flow of datagrams, and what became of them. Packets name it by its place in [`World::datagrams`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagrams {
    /// Class in results.
    pub(crate) class: u16,
    pub(crate) user: u32,
    /// From and to.
    pub(crate) host: [u32; 2],
    pub(crate) key: FlowKey,
    /// Packets sent and arrived; the rest was lost or is on its way.
    pub(crate) sent: u64,
    pub(crate) delivered: u64,
    /// Bytes with IP header.
    pub(crate) sent_bytes: u64,
    pub(crate) delivered_bytes: u64,
}

impl World {
    /// Sends a datagram of `len` bytes, IP header included, of flow `flow`.
    fn send_datagram(&mut self, flow: u32, len: u32) {
        let datagrams = &mut self.datagrams[flow as usize];
        datagrams.sent += 1;
        datagrams.sent_bytes += u64::from(len);
        let mut packet = self.net.pool.take();
        let p = &mut *packet.0;
        p.header = Header { key: datagrams.key, len: Bytes(u64::from(len)), ..Header::default() };
        (p.flow, p.generation, p.end) = (flow, 0, DATAGRAM);
        [p.src, p.dst] = datagrams.host;
        self.net.send(packet);
    }
}

/// Flows that send whatever becomes of it.
pub(super) struct Udp {
    common: Common,
    me: u32,
    /// Generator and end of the phase the flow is on in.
    flows: Vec<(Rng, Instant)>,
    /// Place of the first flow in the world.
    first: u32,
    packet: u32,
    gap: Duration,
    on: Duration,
    off: Duration,
}

impl Udp {
    pub(super) fn new(common: Common, flows: u32, rate: Rate, packet: u32, [on, off]: [Duration; 2]) -> Self {
        let flows = (0..flows).map(|f| (common.rng(f), Instant::default())).collect();
        let gap = rate.time_to_send(Bytes(u64::from(packet)));
        Self { common, me: 0, flows, first: 0, packet, gap, on, off }
    }

    /// When the flow sends next, having sent now.
    fn next(&mut self, now: Instant, flow: u32) -> Instant {
        let (rng, until) = &mut self.flows[flow as usize];
        let next = now + self.gap;
        if self.off == Duration::default() {
            return next;
        }
        if *until <= now {
            // The first packet of a phase: even the shortest has one.
            *until = now + exponential(rng, self.on);
        }
        if next < *until { next } else { (*until + exponential(rng, self.off)).max(next) }
    }
}

impl App for Udp {
    fn start(&mut self, world: &mut World, me: u32) {
        self.me = me;
        self.first = u32::try_from(world.datagrams.len()).expect("a scenario is checked to have fewer flows");
        for flow in 0..self.flows.len() {
            let flow = u32::try_from(flow).expect("a scenario is checked to have fewer flows");
            let (from, to) = self.common.hosts(flow);
            let port = u16::try_from(1024 + flow % 64_000).unwrap_or(u16::MAX);
            world.datagrams.push(Datagrams {
                class: self.common.class,
                user: self.common.first_user + flow,
                host: [from, to],
                key: FlowKey::new(address(from), address(to), port, 9, Proto::UDP),
                sent: 0,
                delivered: 0,
                sent_bytes: 0,
                delivered_bytes: 0,
            });
            let at = self.common.begins(&mut self.flows[flow as usize].0);
            world.set_timer(me, flow, at);
        }
    }

    fn wake(&mut self, world: &mut World, flow: u32) {
        if world.now() < self.common.stop {
            world.send_datagram(self.first + flow, self.packet);
            let next = self.next(world.now(), flow);
            world.set_timer(self.me, flow, next);
        }
    }
}
