//! Packets that waited in another discipline before this one was put in its place.

use std::collections::{BTreeMap, VecDeque};

use narrows_qdisc::{Backlog, Packet};
use narrows_wire::FlowKey;

/// Packets in the order in which they were to leave. They share the link with those that have come since, packet by
/// packet: behind seconds of a download nobody else's call waits. No packet overtakes another of its flow.
#[derive(Debug)]
pub struct Before<P> {
    packets: VecDeque<P>,
    backlog: Backlog,
    /// Number of packets of each flow.
    flows: BTreeMap<FlowKey, u32>,
    /// Whether the next packet is one that came later, if there is any.
    others_turn: bool,
}

impl<P> Default for Before<P> {
    fn default() -> Self {
        Self {
            packets: VecDeque::new(),
            backlog: Backlog::default(),
            flows: BTreeMap::new(),
            others_turn: false,
        }
    }
}

impl<P: Packet> Before<P> {
    /// Takes over packets from another discipline in their order.
    pub fn new(packets: VecDeque<P>) -> Self {
        let mut before = Self::default();
        packets.iter().for_each(|packet| before.count(packet));
        Self { packets, ..before }
    }

    fn count(&mut self, packet: &P) {
        self.backlog.add(packet.len());
        *self.flows.entry(packet.header().key).or_default() += 1;
    }

    fn discount(&mut self, packet: &P) {
        self.backlog.sub(packet.len());
        let key = packet.header().key;
        if let Some(count) = self.flows.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.flows.remove(&key);
            }
        }
    }

    /// Packets and bytes that wait here.
    pub const fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Next packet to leave; `later` gives a packet that came later.
    pub fn next(&mut self, later: impl FnOnce() -> Option<P>) -> Option<P> {
        if self.packets.is_empty() {
            return later();
        }
        self.others_turn = !self.others_turn;
        let other = if self.others_turn { None } else { later() };
        match other {
            Some(packet) => Some(self.in_place_of(packet)),
            None => {
                let first = self.packets.pop_front()?;
                self.discount(&first);
                Some(first)
            }
        }
    }

    /// The packet itself, or the first of its flow that waits here: then it waits in its turn.
    fn in_place_of(&mut self, packet: P) -> P {
        let key = packet.header().key;
        if !self.flows.contains_key(&key) {
            return packet;
        }
        let first = self.packets.iter().position(|other| other.header().key == key);
        let Some(first) = first.and_then(|at| self.packets.remove(at)) else { return packet };
        self.discount(&first);
        self.count(&packet);
        self.packets.push_back(packet);
        first
    }
}

#[cfg(test)]
mod tests {
    use narrows_qdisc::Record;

    use super::*;

    fn of(flow: u16, id: u64) -> Record {
        let mut record = Record { id, ..Record::default() };
        record.header.key.sport = flow;
        record.header.len = narrows_units::Bytes(100);
        record
    }

    #[test]
    fn others_do_not_wait_for_all_of_it_and_no_flow_is_reordered() {
        let mut before = Before::new((0..6).map(|id| of(1, id)).collect());
        assert_eq!(before.backlog().packets, 6);
        // A call, and what comes of the download meanwhile.
        let mut since = VecDeque::from([of(2, 100), of(1, 6), of(2, 101)]);
        let left: Vec<_> = std::iter::from_fn(|| before.next(|| since.pop_front())).map(|p| p.id).collect();
        assert_eq!(left, [0, 100, 1, 2, 3, 101, 4, 5, 6]);
        assert_eq!((before.backlog(), before.flows.len()), (Backlog::default(), 0));
        // With nothing of it left, others go on.
        assert_eq!(before.next(|| Some(of(2, 102))).map(|p| p.id), Some(102));
    }
}
