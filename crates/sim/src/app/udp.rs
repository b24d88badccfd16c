//! Constant-rate UDP: packets of one length at equal gaps while on; on and off for exponential times, or always on.

use fastrand::Rng;
use narrows_units::{Bytes, Duration, Instant, Rate};

use super::stream::Stream;
use super::{App, Common, exponential};
use crate::ids::{AppId, FlowId};
use crate::packet::DATAGRAM;
use crate::world::World;

/// A flow.
struct Flow {
    rng: Rng,
    /// End of the time for which the flow is on.
    until: Instant,
    stream: Stream,
}

/// Flows of datagrams that send without regard to losses or delays.
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
            // Port 9 discards (RFC 863).
            let (ports, flow) = ([port(number), 9], FlowId(common.first_user + number));
            let stream = Stream::new([src, dst], ports, common.dscp, flow, DATAGRAM);
            Flow { rng: common.rng(number), until: Instant::default(), stream }
        };
        let flows = (0..flows).map(flow).collect();
        let gap = rate.time_to_send(Bytes(u64::from(packet)));
        Self { common, me: AppId::default(), flows, packet, gap, on, off }
    }

    /// Time at which the flow sends next, having sent now.
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
            flow.stream.start(world);
        }
    }

    fn wake(&mut self, world: &mut World, number: u32) {
        if world.now() < self.common.stop {
            self.flows[number as usize].stream.send(world, self.packet);
            let next = self.next(world.now(), number);
            world.set_timer(self.me, number, next);
        }
    }
}

/// The port of whoever has flow `number`.
pub(super) fn port(number: u32) -> u16 {
    u16::try_from(1024 + number % 64_000).unwrap_or(u16::MAX)
}
