//! The flow with the longest backlog, found without a search: flows in buckets of 512 bytes.

use narrows_lists::List;

use super::flow_state::{FlowState, Rank};

const BUCKETS: usize = 64;
/// Flows with less than this many half-kilobytes are in no bucket: they are many, and never the longest.
const SHORTEST: u8 = 4;

/// Buckets of flows by backlog; the last holds all from 32 kB on.
#[derive(Debug)]
pub struct Longest {
    buckets: Box<[List<Rank>; BUCKETS]>,
    used: u64,
}

impl Default for Longest {
    fn default() -> Self {
        Self { buckets: Box::new([List::EMPTY; BUCKETS]), used: 0 }
    }
}

impl Longest {
    /// Whether the flow's backlog belongs into another bucket than it is in.
    #[inline]
    pub fn moves(slot: &FlowState) -> bool {
        slot.bucket != Self::bucket(slot)
    }

    #[inline]
    fn bucket(slot: &FlowState) -> u8 {
        match slot.queue.bytes() >> 9 {
            short if short < u64::from(SHORTEST) => 0,
            long => long.min(BUCKETS as u64 - 1) as u8,
        }
    }

    /// Brings the flow's bucket in line with its backlog.
    pub fn update(&mut self, slots: &mut [FlowState], id: u32) {
        let slot = &mut slots[id as usize];
        let (old, new) = (slot.bucket, Self::bucket(slot));
        if old == new {
            return;
        }
        slot.bucket = new;
        if old != 0 {
            let list = &mut self.buckets[usize::from(old)];
            list.remove(slots, id);
            if list.is_empty() {
                self.used &= !(1 << old);
            }
        }
        if new != 0 {
            self.buckets[usize::from(new)].push_back(slots, id);
            self.used |= 1 << new;
        }
    }

    /// A flow of the fullest bucket: the one that has been in it for the longest, so that ties do not fall on
    /// new_flows.
    pub fn flow(&self) -> Option<u32> {
        let top = 63u32.checked_sub(self.used.leading_zeros())?;
        self.buckets.get(top as usize)?.first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_is_found_and_ties_fall_on_the_eldest() {
        let mut slots = vec![FlowState::default(); 4];
        let mut longest = Longest::default();
        let set = |slots: &mut Vec<FlowState>, longest: &mut Longest, id: u32, bytes: u64| {
            slots[id as usize].queue.set_bytes(bytes);
            longest.update(slots, id);
        };
        set(&mut slots, &mut longest, 0, 1500);
        assert_eq!(longest.flow(), None);
        set(&mut slots, &mut longest, 1, 6000);
        set(&mut slots, &mut longest, 2, 6000);
        assert_eq!(longest.flow(), Some(1));
        set(&mut slots, &mut longest, 3, 1_000_000);
        assert_eq!(longest.flow(), Some(3));
        set(&mut slots, &mut longest, 3, 0);
        set(&mut slots, &mut longest, 1, 0);
        assert_eq!(longest.flow(), Some(2));
    }
}
