//! Records fetched from memory before they are needed. Nothing but speed depends on it.

use narrows_wire::FlowKey;

use super::{FlowId, Tracker};
use crate::table::{Expected, Likely};

impl Tracker {
    /// In which bucket of the index the key is. That is fetched from memory from now on, for [`Tracker::likely`].
    #[must_use]
    pub fn expect(&self, key: &FlowKey) -> Expected {
        self.table.expect(key)
    }

    /// Where the key's record most likely is. It is fetched from memory from now on: those who keep state by slot may
    /// have that fetched in the same time. For [`Tracker::forward_from`].
    #[must_use]
    pub fn likely(&self, expected: Expected) -> Likely {
        let likely = self.table.likely(expected);
        self.table.prefetch(likely.slot);
        likely
    }

    /// After a new flow: has fetched what the next new ones need where each takes an old one's place. Whose record that
    /// of the one after the next will be, for those who keep state by slot.
    #[must_use]
    pub fn prefetch_least_needed(&self) -> Option<FlowId> {
        self.table.prefetch_least_needed().map(FlowId)
    }

    /// Has the record of a flow fetched that is needed soon. Nothing but speed depends on it.
    pub fn prefetch(&self, id: FlowId) {
        self.table.prefetch(id.0);
    }
}
