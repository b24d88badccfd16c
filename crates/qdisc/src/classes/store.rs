//! Packets that wait: one FIFO per class through all its flows, and within it one FIFO per flow, so that a flow can
//! leave a class with all that it has there.

use narrows_lists::{Arena as _, Links, List, NIL, Slab, chained, linked};
use narrows_units::Bytes;

use super::records::Record;
use crate::{Backlog, Packet};

#[derive(Debug)]
struct Queued<P> {
    packet: P,
    flow: u32,
    /// Neighbours of the packet in its class.
    class: Links,
    /// The next packet of the same flow.
    after: u32,
}

linked!(<P> Queued<P>, (): class);

chained!(<P> Queued<P>: after);

/// The packets of both classes.
#[derive(Debug)]
pub(super) struct ClassQueues<P> {
    packets: Slab<Queued<P>>,
    lists: [List; 2],
    backlogs: [Backlog; 2],
}

impl<P: Packet> ClassQueues<P> {
    pub(super) fn new() -> Self {
        Self { packets: Slab::new(), lists: [List::EMPTY; 2], backlogs: [Backlog::default(); 2] }
    }

    pub(super) const fn backlog(&self, class: usize) -> Backlog {
        self.backlogs[class]
    }

    pub(super) fn is_empty(&self, class: usize) -> bool {
        self.lists[class].is_empty()
    }

    /// Length of a class's first packet.
    pub(super) fn first_len(&self, class: usize) -> Option<Bytes> {
        self.lists[class].first().map(|at| self.packets.at(at).packet.len())
    }

    /// Appends a packet of the flow at `flow` to that flow's class.
    pub(super) fn push(&mut self, records: &mut [Record], flow: u32, packet: P) {
        let len = packet.len();
        let at = self.packets.insert(Queued { packet, flow, class: Links::NONE, after: NIL });
        let record = &mut records[flow as usize];
        record.queue.push_back(&mut self.packets, at);
        let class = usize::from(record.class);
        self.lists[class].push_back(&mut self.packets, at);
        self.backlogs[class].add(len);
    }

    /// Takes the first packet of a class.
    pub(super) fn pop(&mut self, records: &mut [Record], class: usize) -> Option<P> {
        let at = self.lists[class].pop_front(&mut self.packets)?;
        // A flow is all in one class, in order: what leaves is its first.
        let flow = self.packets.at(at).flow;
        records[flow as usize].queue.pop_front(&self.packets);
        let packet = self.packets.remove(at).packet;
        self.backlogs[class].sub(packet.len());
        Some(packet)
    }

    /// Number of a flow's packets that wait.
    pub(super) fn waiting(&self, record: &Record) -> usize {
        record.queue.iter(&self.packets).count()
    }

    /// Moves all waiting packets of a flow from its class to the end of `class`.
    pub(super) fn move_to(&mut self, record: &mut Record, class: u8) {
        let (from, to) = (usize::from(record.class), usize::from(class));
        let mut next = record.queue.first();
        while let Some(at) = next {
            self.lists[from].remove(&mut self.packets, at);
            self.lists[to].push_back(&mut self.packets, at);
            let len = self.packets.at(at).packet.len();
            self.backlogs[from].sub(len);
            self.backlogs[to].add(len);
            next = record.queue.after(&self.packets, at);
        }
        record.class = class;
    }

    /// Flows of which packets wait, by class.
    pub(super) fn flows(records: &[Record]) -> [usize; 2] {
        let mut flows = [0; 2];
        for record in records.iter().filter(|r| r.waits()) {
            flows[usize::from(record.class)] += 1;
        }
        flows
    }
}
