//! A timing wheel: which flow wants to be looked at when.
//!
//! After Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987), scheme 6 with a horizon: 4096 slots
//! of 2^23 ns (8.4 ms). A flow that wants to be looked at beyond the horizon (34 s) is looked at there and put on
//! again. A slot is worked at its nominal time, whenever the driver comes: one that comes seldom sees what one that
//! polls sees.

use narrows_lists::HeadList;
use narrows_units::Instant;

use crate::table::{Hooks, OnWheel};

const SHIFT: u32 = 23;
const SLOTS: usize = 4096;
/// Place of a flow that is not on the wheel.
pub(crate) const OFF: u16 = u16::MAX;

/// The wheel; the links of the wheel's lists are kept with each flow.
#[derive(Clone, Debug)]
pub(crate) struct Wheel {
    slots: Vec<HeadList<OnWheel>>,
    /// One bit per slot that is not empty.
    busy: [u64; SLOTS / 64],
    /// The slot, counted from the driver's epoch, up to which the wheel has been worked.
    cursor: u64,
}

impl Wheel {
    pub(crate) fn new() -> Self {
        Self { slots: vec![HeadList::EMPTY; SLOTS], busy: [0; SLOTS / 64], cursor: 0 }
    }

    /// Moves the hand to `now`; only while the wheel is empty.
    pub(crate) fn set(&mut self, now: Instant) {
        self.cursor = now.as_nanos() >> SHIFT;
    }

    /// The next slot to be worked by `now`, as its nominal time, once the one at hand is empty.
    pub(crate) fn advance(&mut self, now: Instant) -> bool {
        let target = now.as_nanos() >> SHIFT;
        if self.cursor >= target {
            return false;
        }
        // Over empty slots in one step.
        let skip = self.distance().unwrap_or(SLOTS as u64);
        self.cursor = target.min(self.cursor + skip);
        true
    }

    /// The nominal time of the slot at hand.
    pub(crate) const fn time(&self) -> Instant {
        Instant::from_nanos(self.cursor << SHIFT)
    }

    /// Takes a flow off the slot at hand.
    pub(crate) fn pop(&mut self, flows: &mut [Hooks]) -> Option<u32> {
        let flow = self.slots[self.cursor as usize % SLOTS].first()?;
        self.unlink(flows, flow);
        Some(flow)
    }

    /// The flow that is taken off the slot at hand next.
    pub(crate) fn soon(&self) -> Option<u32> {
        self.slots[self.cursor as usize % SLOTS].first()
    }

    /// Time at which the next flow wants to be looked at.
    #[cfg(test)]
    pub(crate) fn next(&self) -> Option<Instant> {
        if !self.slots[self.cursor as usize % SLOTS].is_empty() {
            return Some(self.time());
        }
        self.distance().map(|d| Instant::from_nanos((self.cursor + d) << SHIFT))
    }

    /// Slots from the hand to the next that is not empty, 1 to 4095.
    fn distance(&self) -> Option<u64> {
        let from = (self.cursor as usize + 1) % SLOTS;
        let words = SLOTS / 64;
        for i in 0..=words {
            let word = (from / 64 + i) % words;
            let mut bits = self.busy[word];
            if i == 0 {
                bits &= u64::MAX << (from % 64);
            }
            if bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                let ahead = (slot + SLOTS - self.cursor as usize % SLOTS) % SLOTS;
                return (ahead != 0).then_some(ahead as u64);
            }
        }
        None
    }

    /// Puts a flow on for the first slot at or after `when`.
    pub(crate) fn put(&mut self, flows: &mut [Hooks], flow: u32, when: Instant) {
        let slot = self.slot_for(when);
        flows[flow as usize].wheel_slot = slot as u16;
        self.slots[slot].push_front(flows, flow);
        self.busy[slot / 64] |= 1 << (slot % 64);
    }

    /// Sees to it that a flow is looked at no later than the first slot at or after `when`.
    pub(crate) fn sooner(&mut self, flows: &mut [Hooks], flow: u32, when: Instant) {
        let at = flows[flow as usize].wheel_slot;
        let ahead = |slot: usize| (slot + SLOTS - 1 - self.cursor as usize % SLOTS) % SLOTS;
        if at != OFF && ahead(usize::from(at)) <= ahead(self.slot_for(when)) {
            return;
        }
        self.unlink(flows, flow);
        self.put(flows, flow, when);
    }

    pub(crate) fn unlink(&mut self, flows: &mut [Hooks], flow: u32) {
        let slot = usize::from(core::mem::replace(&mut flows[flow as usize].wheel_slot, OFF));
        if slot == usize::from(OFF) {
            return;
        }
        self.slots[slot].remove(flows, flow);
        if self.slots[slot].is_empty() {
            self.busy[slot / 64] &= !(1 << (slot % 64));
        }
    }

    /// Slot for a time, never the slot at hand and never beyond the horizon.
    fn slot_for(&self, when: Instant) -> usize {
        let wanted = when.as_nanos().div_ceil(1 << SHIFT);
        (wanted.clamp(self.cursor + 1, self.cursor + SLOTS as u64 - 1) % SLOTS as u64) as usize
    }
}
