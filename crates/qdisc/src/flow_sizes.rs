//! How many packets each flow has sent: what an edge needs to tell short flows from long ones.
//!
//! A table of fixed size in groups of four, found by a seeded hash; where a group is full, who has been silent longest
//! is forgotten, and is short again should it come back. Flows are told apart by 64 bits of hash.

use narrows_units::{Duration, Instant};
use narrows_wire::FlowKey;

/// Flows of one group.
const WAYS: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// 0: free.
    tag: u64,
    last: Instant,
    packets: u32,
}

/// Packets by flow.
#[derive(Clone, Debug)]
pub struct FlowSizes {
    groups: Vec<[Entry; WAYS]>,
    seed: u64,
    /// A flow silent for longer begins anew.
    idle: Duration,
    known: usize,
    evicted: u64,
}

impl FlowSizes {
    /// A table of at least `flows` places.
    pub fn new(flows: u32, idle: Duration, seed: u64) -> Self {
        let groups = (flows as usize).div_ceil(WAYS).max(1);
        Self { groups: vec![[Entry::default(); WAYS]; groups], seed, idle, known: 0, evicted: 0 }
    }

    /// Bytes of memory for a flow.
    pub const ENTRY_BYTES: usize = size_of::<Entry>();

    /// Places taken.
    pub const fn known(&self) -> usize {
        self.known
    }
    /// Flows forgotten before they had been silent for the time set.
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Changes how long a flow may be silent.
    pub const fn set_idle(&mut self, idle: Duration) {
        self.idle = idle;
    }

    /// Packets of the flow so far, the present one included if `counts`.
    pub fn count(&mut self, now: Instant, key: &FlowKey, counts: bool) -> u32 {
        let hash = key.hash(self.seed);
        let tag = hash.max(1);
        let at = ((u128::from(hash) * self.groups.len() as u128) >> 64) as usize;
        let group = &mut self.groups[at];
        let way = group.iter().position(|e| e.tag == tag).unwrap_or_else(|| {
            // A free place, or whoever was silent longest.
            let oldest = (0..WAYS).min_by_key(|&w| (group[w].tag != 0, group[w].last)).unwrap_or(0);
            let old = group[oldest];
            if old.tag == 0 {
                self.known += 1;
            } else if now.since(old.last) <= self.idle {
                self.evicted += 1;
            }
            group[oldest] = Entry { tag, last: now, packets: 0 };
            oldest
        });
        let e = &mut group[way];
        if now.since(e.last) > self.idle {
            e.packets = 0;
        }
        e.last = now;
        e.packets = e.packets.saturating_add(u32::from(counts));
        e.packets
    }

    /// Forgets a flow that has ended: the flow's ports may be used again at once.
    pub fn forget(&mut self, key: &FlowKey) {
        let hash = key.hash(self.seed);
        let at = ((u128::from(hash) * self.groups.len() as u128) >> 64) as usize;
        if let Some(e) = self.groups[at].iter_mut().find(|e| e.tag == hash.max(1)) {
            *e = Entry::default();
            self.known -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_wire::Proto;

    fn key(n: u16) -> FlowKey {
        FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), n, 80, Proto::TCP)
    }

    fn at(s: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(s)
    }

    #[test]
    fn counts_until_silence_or_end() {
        let mut sizes = FlowSizes::new(64, Duration::from_secs(60), 1);
        assert_eq!([1, 2, 3].map(|s| sizes.count(at(s), &key(1), true)), [1, 2, 3]);
        assert_eq!(sizes.count(at(4), &key(1), false), 3);
        assert_eq!(sizes.count(at(64), &key(1), true), 4);
        assert_eq!(sizes.count(at(125), &key(1), true), 1);
        sizes.forget(&key(1));
        assert_eq!((sizes.known(), sizes.count(at(126), &key(1), true)), (0, 1));
    }

    #[test]
    fn a_full_table_forgets_the_silent_and_stays_as_large() {
        let mut sizes = FlowSizes::new(4, Duration::from_secs(60), 1);
        (0..4).for_each(|n| assert_eq!(sizes.count(at(u64::from(n)), &key(n), true), 1));
        assert_eq!(sizes.count(at(5), &key(0), true), 2);
        // Flow 1 is silent longest.
        sizes.count(at(6), &key(9), true);
        assert_eq!((sizes.known(), sizes.evicted()), (4, 1));
        assert_eq!(sizes.count(at(7), &key(0), true), 3);
        assert_eq!(sizes.count(at(8), &key(1), true), 1);
        (0..10_000).for_each(|n| assert!(sizes.count(at(9), &key(n), true) >= 1 && sizes.known() == 4));
    }
}
