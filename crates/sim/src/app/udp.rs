//! Constant-rate UDP: packets of one length at equal gaps while on; on and off for exponential times, or always on.

use fastrand::Rng;
use narrows_units::{Bytes, Duration, Instant, Rate};
use narrows_wire::{FlowKey, Header, Proto};

use super::{App, Common, exponential};
use crate::edge::PathSplit;
use crate::ids::{AppId, FlowId, HostId};
use crate::packet::{DATAGRAM, Label, PayloadKind, address};
use crate::world::World;

/// A flow.
struct Flow {
    rng: Rng,
    /// End of the time it is on.
    until: Instant,
    key: FlowKey,
    src: HostId,
    dst: HostId,
    /// Which class it is of, if an edge divides it.
    split: Option<PathSplit>,
}

/// Flows that send whatever becomes of it.
pub(super) struct Udp {
    common: Common,
    me: AppId,
    flows: Vec<Flow>,
    packet: u32,
    gap: Duration,
    on: Duration,
    off: Duration,
}

impl Udp {
    pub(super) fn new(common: Common, flows: u32, rate: Rate, packet: u32, [on, off]: [Duration; 2]) -> Self {
        let flow = |number| {
            let (src, dst) = common.hosts(number);
            let port = u16::try_from(1024 + number % 64_000).unwrap_or(u16::MAX);
            // Port 9 discards (RFC 863).
            let key = FlowKey::new(address(src), address(dst), port, 9, Proto::UDP);
            Flow { rng: common.rng(number), until: Instant::default(), key, src, dst, split: None }
        };
        let flows = (0..flows).map(flow).collect();
        let gap = rate.time_to_send(Bytes(u64::from(packet)));
        Self { common, me: AppId::default(), flows, packet, gap, on, off }
    }

    fn send(&mut self, world: &mut World, number: u32) {
        let flow = &mut self.flows[number as usize];
        let mut packet = world.net.pool.take();
        let p = &mut *packet.0;
        let len = Bytes(u64::from(self.packet));
        let (route, dscp) = match &mut flow.split {
            Some(split) => split.sends(),
            None => (world.net.route(flow.src, flow.dst), self.common.dscp),
        };
        p.header = Header { key: flow.key, len, dscp, ..Header::default() };
        p.label = Label {
            flow: FlowId(self.common.first_user + number),
            src: flow.src,
            dst: flow.dst,
            route,
            end: DATAGRAM,
            kind: PayloadKind::Datagram,
            ..Label::default()
        };
        world.net.send_datagram(packet);
    }

    /// When the flow sends next, having sent now.
    fn next(&mut self, now: Instant, number: u32) -> Instant {
        let flow = &mut self.flows[number as usize];
        let next = now + self.gap;
        if self.off == Duration::default() {
            return next;
        }
        if flow.until <= now {
            // The first packet of a phase: even the shortest has one.
            flow.until = now + exponential(&mut flow.rng, self.on);
        }
        if next < flow.until { next } else { (flow.until + exponential(&mut flow.rng, self.off)).max(next) }
    }
}

impl App for Udp {
    fn start(&mut self, world: &mut World, me: AppId) {
        self.me = me;
        for (number, flow) in (0..).zip(&mut self.flows) {
            world.set_timer(me, number, self.common.begins(&mut flow.rng));
            let route = world.net.route(flow.src, flow.dst);
            flow.split = world.edges.datagrams(route, self.common.dscp);
        }
    }

    fn wake(&mut self, world: &mut World, number: u32) {
        if world.now() < self.common.stop {
            self.send(world, number);
            let next = self.next(world.now(), number);
            world.set_timer(self.me, number, next);
        }
    }
}
