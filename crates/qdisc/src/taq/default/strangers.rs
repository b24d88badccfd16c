//! Users of whom nothing has been heard share as one.
//!
//! Whoever sends to a range of addresses, as a scan does, makes a new user of each, and new users go first. So what
//! goes to somebody who has not sent a packet since it was last forgotten has, all together, the share of one user. The
//! first packet of a connection or of QUIC comes from the user, so nobody who asked for something waits for this.
//!
//! Calls are left to admission control, and to the share of packets without data.
//!
//! Only where users receive what is queued, and where the other direction is seen at all.

use narrows_flow::FlowId;
use narrows_users::{CircuitId, Side, User};

use super::DefaultMode;
use crate::Packet;

impl<P: Packet> DefaultMode<P> {
    /// The user that a flow counts for.
    pub(super) fn user(&self, id: u32, circuit: Option<CircuitId>) -> User {
        if let Some(circuit) = circuit {
            return User::circuit(circuit);
        }
        let user = self.tracker.user(FlowId(id));
        let Some(by) = self.turns.by_user.as_ref().filter(|_| self.link.users == Side::Destination) else {
            return user;
        };
        let call = self.tracker.flow(FlowId(id)).is_call();
        if !call && by.users.is_stranger(user, self.flows.get(id as usize).map(|flow| flow.user)) {
            User::STRANGERS
        } else {
            user
        }
    }

    /// The record of the user that a flow counts for, made if there is none; `None` where there are no users.
    pub(super) fn enter_user(&mut self, id: u32, circuit: Option<CircuitId>) -> Option<u32> {
        let by = self.turns.by_user.as_ref()?;
        // It mostly is whose it was.
        let at = self.flows[id as usize].user;
        if circuit.is_none() && by.users.is_known(at, self.tracker.user(FlowId(id))) {
            return Some(at);
        }
        let user = self.user(id, circuit);
        self.turns.enter(&mut self.flows[id as usize], user)
    }

    /// Notes who has sent a packet of the other direction, of flow `id` if that is known.
    pub(super) fn hear(&mut self, id: Option<FlowId>, packet: &P) {
        if self.link.users != Side::Destination || packet.circuit().is_some() {
            return;
        }
        let rule = self.common.users(&self.link, true);
        let user = || rule.user(&packet.header().key.reverse(), None);
        let user = id.map_or_else(user, |id| self.tracker.user(id));
        self.turns.hear(user, id.and_then(|id| self.flows.get(id.index())));
    }
}
