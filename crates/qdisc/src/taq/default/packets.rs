//! Packets of all flows in one slab, a doubly linked FIFO per flow: no allocation per packet, none per flow.

use narrows_lists::{Arena as _, Links, List, Slab, linked};

/// One waiting packet.
#[derive(Debug)]
pub struct Entry<P> {
    pub packet: P,
    /// Payload the receiver has not been sent before.
    pub new_data: bool,
    /// A copy of this has been suppressed: the sender may not hear of a loss of it for long.
    pub protected: bool,
    links: Links,
}

linked!(<P> Entry<P>, (): links);

/// A flow's queue: where it starts and ends in the slab, and what it holds.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowQueue {
    list: List,
    pub bytes: u64,
}

impl FlowQueue {
    pub const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
    pub const fn packets(&self) -> u32 {
        self.list.len()
    }
    /// Index of the oldest packet.
    pub const fn head(&self) -> Option<u32> {
        self.list.first()
    }
    /// Index of the newest packet.
    pub const fn tail(&self) -> Option<u32> {
        self.list.last()
    }
}

/// The slab.
#[derive(Debug)]
pub struct PacketSlab<P> {
    slab: Slab<Entry<P>>,
}

impl<P> PacketSlab<P> {
    pub const fn new() -> Self {
        Self { slab: Slab::new() }
    }
    pub const fn len(&self) -> usize {
        self.slab.len()
    }

    pub fn get(&self, at: u32) -> &Entry<P> {
        self.slab.at(at)
    }
    pub fn get_mut(&mut self, at: u32) -> &mut Entry<P> {
        self.slab.at_mut(at)
    }

    /// Has an entry fetched from memory.
    pub fn prefetch(&self, at: u32) {
        if let Some(entry) = self.slab.get(at) {
            core::hint::black_box(entry.links);
        }
    }

    pub fn push_back(&mut self, queue: &mut FlowQueue, packet: P, len: u64, new_data: bool) {
        let at = self.slab.insert(Entry { packet, new_data, protected: false, links: Links::NONE });
        queue.list.push_back(&mut self.slab, at);
        queue.bytes += len;
    }

    pub fn push_front(&mut self, queue: &mut FlowQueue, packet: P, len: u64, new_data: bool) {
        let at = self.slab.insert(Entry { packet, new_data, protected: false, links: Links::NONE });
        queue.list.push_front(&mut self.slab, at);
        queue.bytes += len;
    }

    /// Takes one packet out of its flow's queue, wherever it stands.
    pub fn remove(&mut self, queue: &mut FlowQueue, at: u32, len: impl Fn(&P) -> u64) -> Entry<P> {
        queue.list.remove(&mut self.slab, at);
        let entry = self.slab.remove(at);
        queue.bytes -= len(&entry.packet);
        entry
    }

    /// Who stands behind a packet of this queue.
    pub fn after(&self, queue: &FlowQueue, at: u32) -> Option<u32> {
        queue.list.after(&self.slab, at)
    }

    /// The queue's packets from the front.
    pub fn packets(&self, queue: &FlowQueue) -> impl Iterator<Item = &Entry<P>> {
        queue.list.iter(&self.slab).map(|at| self.slab.at(at))
    }

    /// The queue's packets from the back, with their indices.
    pub fn packets_back(&self, queue: &FlowQueue) -> impl Iterator<Item = (u32, &Entry<P>)> {
        queue.list.iter_back(&self.slab).map(|at| (at, self.slab.at(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(s: &PacketSlab<u64>, q: &FlowQueue) -> Vec<u64> {
        s.packets(q).map(|e| e.packet).collect()
    }

    #[test]
    fn places_are_used_again_and_queues_do_not_mix() {
        let (mut s, mut a, mut b) = (PacketSlab::new(), FlowQueue::default(), FlowQueue::default());
        for i in 0..4 {
            s.push_back(&mut a, i, 10, true);
            s.push_back(&mut b, 100 + i, 10, true);
        }
        s.push_front(&mut b, 99, 10, false);
        let second = s.after(&a, a.head().unwrap()).unwrap();
        assert_eq!(s.remove(&mut a, second, |_| 10).packet, 1);
        assert_eq!(contents(&s, &a), [0, 2, 3]);
        assert_eq!(contents(&s, &b), [99, 100, 101, 102, 103]);
        let last = a.tail().unwrap();
        s.remove(&mut a, last, |_| 10);
        assert_eq!((contents(&s, &a), a.packets(), a.bytes, s.len()), (vec![0, 2], 2, 20, 7));
        let places = s.slab.places();
        s.push_back(&mut a, 9, 10, true);
        s.push_back(&mut a, 8, 10, true);
        assert_eq!(s.slab.places(), places, "freed places come back first");
    }
}
