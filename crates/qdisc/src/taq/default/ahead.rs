//! Records fetched from memory before they are needed. Nothing but speed depends on it.

use narrows_wire::FlowKey;

use super::DefaultMode;
use crate::{Ahead, Packet};

impl<P: Packet> DefaultMode<P> {
    /// What a packet of this flow will need, which comes soon.
    pub(super) fn fetch(&self, flow: &FlowKey, ahead: Ahead) {
        let expected = self.tracker.expect(flow);
        if ahead == Ahead::Far {
            return;
        }
        let likely = self.tracker.likely(expected);
        if let Some(slot) = self.flows.get(likely.index()) {
            slot.prefetch();
        }
        let before = self.announced.replace(likely.index());
        if let Some(slot) = self.flows.get(before) {
            self.turns.prefetch(slot);
        }
    }
}
