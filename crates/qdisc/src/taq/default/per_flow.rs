//! Records of some flows beside those of the tracker, by its slots: as many as the last flow that has one needs.

use narrows_flow::{Flow, FlowId};

/// Record in a slot of the tracker, and the flow that the record belongs to.
#[derive(Clone, Copy, Debug)]
struct Slot<T> {
    /// The tracker's count of the flow that has the record; [`u32::MAX`] if none has.
    generation: u32,
    record: T,
}

/// Records of some flows, by the tracker's slots.
#[derive(Debug)]
pub struct PerFlow<T> {
    slots: Vec<Slot<T>>,
}

impl<T> Default for PerFlow<T> {
    fn default() -> Self {
        Self { slots: Vec::new() }
    }
}

impl<T: Clone + Default> PerFlow<T> {
    /// Finds the record of a flow; `None` if the flow has no record.
    pub fn get(&self, id: FlowId, of: &Flow) -> Option<&T> {
        self.slots.get(id.index()).filter(|slot| slot.generation == of.generation()).map(|slot| &slot.record)
    }

    /// Finds the record of a flow to change the record; `None` if the flow has none.
    pub fn get_mut(&mut self, id: FlowId, of: &Flow) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.index()).filter(|slot| slot.generation == of.generation());
        slot.map(|slot| &mut slot.record)
    }

    /// Finds the record of a flow; one that has none gets a `fresh` one.
    pub fn make(&mut self, id: FlowId, of: &Flow, fresh: impl FnOnce() -> T) -> &mut T {
        if id.index() >= self.slots.len() {
            self.slots.resize(id.index() + 1, Slot { generation: u32::MAX, record: T::default() });
        }
        let slot = &mut self.slots[id.index()];
        if slot.generation != of.generation() {
            *slot = Slot { generation: of.generation(), record: fresh() };
        }
        &mut slot.record
    }

    /// Reads the record of a flow that is known to have one.
    pub fn at(&self, id: FlowId) -> &T {
        &self.slots[id.index()].record
    }

    /// Changes the record of a flow that is known to have one.
    pub fn at_mut(&mut self, id: FlowId) -> &mut T {
        &mut self.slots[id.index()].record
    }
}
