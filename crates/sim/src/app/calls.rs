//! Calls: both ends send small datagrams at a steady pace, or the server answers each of the user's.

use fastrand::Rng;
use narrows_scenario::calls::{CallShape, CallWay, Pacer};

use super::stream::Stream;
use super::udp::port;
use super::{App, Common};
use crate::ids::{AppId, FlowId};
use crate::packet::call_end;
use crate::world::World;

/// The server's port, a usual port of RTP (RFC 3551, section 8).
const SERVER: u16 = 5004;

/// One way of a call.
struct Leg {
    rng: Rng,
    pacer: Pacer,
    stream: Stream,
}

/// Calls, each by another user.
pub(super) struct Calls {
    common: Common,
    me: AppId,
    call: CallShape,
    /// Two legs of each call, in the order of [`CallWay::BOTH`].
    legs: Vec<Leg>,
}

impl Calls {
    pub(super) fn new(common: Common, calls: u32, call: CallShape) -> Self {
        let leg = |number: u32, way: CallWay| {
            let (server, user) = common.hosts(number);
            let flow = FlowId(common.first_user + number);
            let (hosts, ports) = match way {
                CallWay::Down => ([server, user], [SERVER, port(number)]),
                CallWay::Up => ([user, server], [port(number), SERVER]),
            };
            let mut rng = common.rng(2 * number + way as u32);
            let pacer = Pacer::new(call, way, &mut || rng.f64());
            Leg { rng, pacer, stream: Stream::new(hosts, ports, common.dscp, flow, call_end(way)) }
        };
        let legs = (0..calls).flat_map(|number| CallWay::BOTH.map(|way| leg(number, way))).collect();
        Self { common, me: AppId::default(), call, legs }
    }
}

impl App for Calls {
    fn start(&mut self, world: &mut World, me: AppId) {
        self.me = me;
        for (token, leg) in (0..).zip(&mut self.legs) {
            let (number, way) = (token / 2, CallWay::BOTH[token as usize % 2]);
            leg.stream.start(world);
            let user = self.common.first_user + number;
            world.probes.calls.begins(user, self.common.class);
            if self.call.answers(way) {
                world.answered(FlowId(user), me, token);
            } else {
                world.set_timer(me, token, self.common.begins(&mut leg.rng));
            }
        }
    }

    fn wake(&mut self, world: &mut World, token: u32) {
        let (number, way) = (token / 2, CallWay::BOTH[token as usize % 2]);
        if world.now() >= self.common.stop {
            return;
        }
        let leg = &mut self.legs[token as usize];
        leg.stream.send(world, leg.pacer.packet());
        world.probes.calls.sent(world.net.now, self.common.first_user + number, way);
        if !self.call.answers(way) {
            let gap = leg.pacer.advance(&mut || leg.rng.f64());
            world.set_timer(self.me, token, world.now() + gap);
        }
    }
}
