//! Packets of all flows in one slab, a doubly linked FIFO per flow: no allocation per packet, none per flow.
//!
//! The packets lie apart from their links, so that each is copied once on its way in and once on its way out.

use narrows_lists::{Arena as _, Links, List, Slab, linked, prefetch};

/// What is kept of one waiting packet beside the packet.
#[derive(Debug)]
struct Entry {
    links: Links,
    new_data: bool,
    protected: bool,
}

linked!(Entry, (): links);

/// A flow's queue: where it starts and ends in the slab, and what it holds.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowQueue {
    list: List,
    /// `memory_bytes` is below 2^32.
    bytes: u32,
}

impl FlowQueue {
    pub const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
    pub const fn packets(&self) -> u32 {
        self.list.len()
    }
    pub const fn bytes(&self) -> u64 {
        self.bytes as u64
    }
    #[cfg(test)]
    pub fn set_bytes(&mut self, bytes: u64) {
        self.bytes = bytes as u32;
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
    slab: Slab<Entry>,
    /// By the same places; `None` where the slab has a free one.
    packets: Vec<Option<P>>,
}

impl<P> PacketSlab<P> {
    pub const fn new() -> Self {
        Self { slab: Slab::new(), packets: Vec::new() }
    }
    pub const fn len(&self) -> usize {
        self.slab.len()
    }

    pub fn get(&self, at: u32) -> &P {
        self.packets[at as usize].as_ref().expect(IN_USE)
    }
    pub fn get_mut(&mut self, at: u32) -> &mut P {
        self.packets[at as usize].as_mut().expect(IN_USE)
    }

    /// Has a packet's links and headers fetched from memory.
    pub fn prefetch(&self, at: u32) {
        self.slab.prefetch(at);
        if let Some(packet) = self.packets.get(at as usize) {
            prefetch(packet);
        }
    }

    /// Whether it has payload that the receiver has not been sent before.
    pub fn is_new_data(&self, at: u32) -> bool {
        self.slab.at(at).new_data
    }

    /// Notes that a copy of the packet has been suppressed: the sender may not hear of a loss of it for long.
    pub fn protect(&mut self, at: u32) {
        self.slab.at_mut(at).protected = true;
    }

    /// Whether the sender hears of a loss of the packet, and what it brings is new.
    pub fn can_be_repaired(&self, at: u32) -> bool {
        let entry = self.slab.at(at);
        entry.new_data && !entry.protected
    }

    /// Takes a packet in, for [`Self::push_back`] or [`Self::push_front`]: it stays at its place until it is sent.
    #[inline]
    pub fn insert(&mut self, packet: P) -> u32 {
        let at = self.slab.insert(Entry { links: Links::NONE, new_data: false, protected: false });
        match self.packets.get_mut(at as usize) {
            Some(place) => *place = Some(packet),
            None => self.packets.push(Some(packet)),
        }
        at
    }

    /// Appends a packet of `len` bytes to the queue of its flow.
    pub fn push_back(&mut self, queue: &mut FlowQueue, at: u32, len: u64, new_data: bool) {
        self.slab.at_mut(at).new_data = new_data;
        queue.list.push_back(&mut self.slab, at);
        queue.bytes += len as u32;
    }

    /// Puts it before the others.
    pub fn push_front(&mut self, queue: &mut FlowQueue, at: u32, len: u64, new_data: bool) {
        self.slab.at_mut(at).new_data = new_data;
        queue.list.push_front(&mut self.slab, at);
        queue.bytes += len as u32;
    }

    /// Takes a packet of `len` bytes out of its flow's queue, wherever it stands; [`Self::release`] gives it out.
    pub fn unlink(&mut self, queue: &mut FlowQueue, at: u32, len: u64) {
        queue.list.remove(&mut self.slab, at);
        queue.bytes -= len as u32;
    }

    /// Gives out a packet that stands in no queue.
    #[inline]
    pub fn release(&mut self, at: u32) -> Option<P> {
        self.slab.remove(at);
        self.packets[at as usize].take()
    }

    /// Who stands behind a packet of this queue.
    pub fn after(&self, queue: &FlowQueue, at: u32) -> Option<u32> {
        queue.list.after(&self.slab, at)
    }

    /// The queue's packets from the front.
    pub fn packets(&self, queue: &FlowQueue) -> impl Iterator<Item = &P> {
        queue.list.iter(&self.slab).map(|at| self.get(at))
    }

    /// The queue's packets from the back, with their indices.
    pub fn packets_back(&self, queue: &FlowQueue) -> impl Iterator<Item = (u32, &P)> {
        queue.list.iter_back(&self.slab).map(|at| (at, self.get(at)))
    }
}

/// Why a place cannot be empty.
const IN_USE: &str = "queues hold only places in use";

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(s: &PacketSlab<u64>, q: &FlowQueue) -> Vec<u64> {
        s.packets(q).copied().collect()
    }

    fn push(s: &mut PacketSlab<u64>, q: &mut FlowQueue, packet: u64) {
        let at = s.insert(packet);
        s.push_back(q, at, 10, true);
    }

    fn remove(s: &mut PacketSlab<u64>, q: &mut FlowQueue, at: u32) -> Option<u64> {
        s.unlink(q, at, 10);
        s.release(at)
    }

    #[test]
    fn places_are_used_again_and_queues_do_not_mix() {
        let (mut s, mut a, mut b) = (PacketSlab::new(), FlowQueue::default(), FlowQueue::default());
        for i in 0..4 {
            push(&mut s, &mut a, i);
            push(&mut s, &mut b, 100 + i);
        }
        let at = s.insert(99);
        s.push_front(&mut b, at, 10, false);
        let second = s.after(&a, a.head().unwrap()).unwrap();
        assert_eq!(remove(&mut s, &mut a, second), Some(1));
        assert_eq!(contents(&s, &a), [0, 2, 3]);
        assert_eq!(contents(&s, &b), [99, 100, 101, 102, 103]);
        let last = a.tail().unwrap();
        remove(&mut s, &mut a, last);
        assert_eq!((contents(&s, &a), a.packets(), a.bytes(), s.len()), (vec![0, 2], 2, 20, 7));
        let places = s.slab.places();
        push(&mut s, &mut a, 9);
        push(&mut s, &mut a, 8);
        assert_eq!(s.slab.places(), places, "freed places come back first");
    }
}
