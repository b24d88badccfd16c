//! Packets that wait: each flow's own FIFO, threaded through the FIFO of its class.
//!
//! A packet stands in two doubly linked lists, that of its flow and that of its class, so it can be taken out of the
//! middle of either at no cost. All packets of a flow stand in one class and in the same order in both lists: so new
//! data of a flow is never reordered. A flow that changes class takes its packets along, to the end of the new queue.
//! Retransmissions and pure acknowledgments stand in the recovery queue instead, ordered by their key.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use narrows_lists::{Arena as _, Links, List, Slab, linked};

use super::class::Class;
use super::victims::Victims;
use crate::taq::PoolId;
use crate::{Backlog, Packet};

/// A packet that waits.
#[derive(Debug)]
pub(super) struct Node<P> {
    pub(super) packet: P,
    /// The slot of its flow.
    pub(super) flow: u32,
    /// Retransmissions do not count as goodput.
    pub(super) retransmission: bool,
    /// Order of arrival over the whole queue.
    pub(super) arrival: u64,
    /// Its key in the recovery queue; zero if it stands in a FIFO.
    recovery_key: u64,
    in_class: Links,
    in_flow: Links,
}

/// Lists of a class's packets.
#[derive(Debug)]
enum InClass {}

linked!(<P> Node<P>, InClass: in_class);

/// Lists of a flow's packets.
#[derive(Debug)]
enum InFlow {}

linked!(<P> Node<P>, InFlow: in_flow);

/// The queue of one flow and what is kept beside its record: half a cache line, and never across two.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct PaperFlow {
    packets: List<InFlow>,
    /// The class they stand in.
    pub(super) class: Class,
    marks: u8,
    /// Where the flow stands among those that could lose a packet; [`NOWHERE`] if it does not.
    bucket: u16,
    /// Neighbours there.
    victim: Links,
    /// Its pool.
    pub(super) pool: PoolId,
}

/// No bucket.
const NOWHERE: u16 = u16::MAX;

const _: () = assert!(size_of::<PaperFlow>() == 32);

/// The flow lost a packet, here or elsewhere.
pub(super) const LOST: u8 = 1;
/// Packets of the flow may wait among the unknown: until those are gone the others go there too, behind them.
pub(super) const BEHIND_UNKNOWN: u8 = 2;

impl PaperFlow {
    /// How many of its packets wait in a FIFO.
    pub(super) const fn packets(&self) -> u32 {
        self.packets.len()
    }
    /// Where it stands among the flows that could lose a packet.
    pub(super) const fn bucket(&self) -> Option<u16> {
        if self.bucket == NOWHERE { None } else { Some(self.bucket) }
    }
    pub(super) fn set_bucket(&mut self, bucket: Option<u16>) {
        self.bucket = bucket.unwrap_or(NOWHERE);
    }

    pub(super) const fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }
    pub(super) const fn put(&mut self, mark: u8, on: bool) {
        self.marks = if on { self.marks | mark } else { self.marks & !mark };
    }
}

/// Lists of flows in a bucket of [`Victims`].
#[derive(Debug)]
pub(super) enum InBucket {}

linked!(PaperFlow, InBucket: victim);

impl Default for PaperFlow {
    fn default() -> Self {
        Self {
            packets: List::EMPTY,
            class: Class::Below,
            marks: 0,
            bucket: NOWHERE,
            victim: Links::NONE,
            pool: PoolId::NOBODY,
        }
    }
}

/// One class.
#[derive(Debug)]
struct ClassQueue {
    packets: List<InClass>,
    backlog: Backlog,
    flows: usize,
    victims: Victims,
}

/// All that waits.
#[derive(Debug)]
pub(super) struct PaperQueues<P> {
    nodes: Slab<Node<P>>,
    /// One per flow, by slot.
    pub(super) flows: Vec<PaperFlow>,
    classes: [ClassQueue; 4],
    recovery: BTreeMap<(Reverse<u64>, u64), u32>,
    recovery_backlog: Backlog,
    arrivals: u64,
}

impl<P: Packet> PaperQueues<P> {
    pub(super) fn new() -> Self {
        let empty = || ClassQueue {
            packets: List::EMPTY,
            backlog: Backlog::default(),
            flows: 0,
            victims: Victims::new(),
        };
        Self {
            nodes: Slab::new(),
            flows: Vec::new(),
            classes: [empty(), empty(), empty(), empty()],
            recovery: BTreeMap::new(),
            recovery_backlog: Backlog::default(),
            arrivals: 0,
        }
    }

    /// What waits in a class.
    pub(super) fn backlog(&self, class: Class) -> Backlog {
        match class.fifo() {
            Some(i) => self.classes[i].backlog,
            None => self.recovery_backlog,
        }
    }

    /// Flows with packets in a class. For the recovery queue this is the number of packets: flows are not kept apart
    /// there.
    pub(super) fn flows_in(&self, class: Class) -> usize {
        class.fifo().map_or(self.recovery.len(), |i| self.classes[i].flows)
    }

    pub(super) fn node(&self, node: u32) -> &Node<P> {
        self.nodes.at(node)
    }

    pub(super) fn packet(&self, node: u32) -> Option<&P> {
        self.nodes.get(node).map(|n| &n.packet)
    }

    pub(super) fn packet_mut(&mut self, node: u32) -> Option<&mut P> {
        self.nodes.get_mut(node).map(|n| &mut n.packet)
    }

    /// The oldest packet of a class.
    pub(super) fn head(&self, class: Class) -> Option<u32> {
        match class.fifo() {
            Some(i) => self.classes[i].packets.first(),
            None => self.recovery.first_key_value().map(|(_, &n)| n),
        }
    }

    /// The packet a class would lose last in, first out: the newest; of the recovery queue the newest of the lowest
    /// key.
    pub(super) fn tail(&self, class: Class) -> Option<u32> {
        match class.fifo() {
            Some(i) => self.classes[i].packets.last(),
            None => self.recovery.last_key_value().map(|(_, &n)| n),
        }
    }

    /// Whether this packet came last of all.
    pub(super) fn is_newest(&self, node: u32) -> bool {
        self.node(node).arrival == self.arrivals
    }

    /// The newest packet of a flow.
    pub(super) fn tail_of(&self, flow: u32) -> Option<u32> {
        self.flows[flow as usize].packets.last()
    }

    /// Flows of a class that could lose a packet.
    pub(super) fn victims(&self, class: usize) -> &Victims {
        &self.classes[class].victims
    }

    fn insert(&mut self, packet: P, flow: u32, recovery_key: u64, retransmission: bool) -> u32 {
        self.arrivals += 1;
        self.nodes.insert(Node {
            packet,
            flow,
            retransmission,
            arrival: self.arrivals,
            recovery_key,
            in_class: Links::NONE,
            in_flow: Links::NONE,
        })
    }

    /// A packet joins the recovery queue; the larger key goes first, equal keys in order of arrival. Keys are above
    /// zero.
    pub(super) fn push_recovery(&mut self, packet: P, flow: u32, key: u64, retransmission: bool) -> u32 {
        self.recovery_backlog.add(packet.len());
        let node = self.insert(packet, flow, key, retransmission);
        self.recovery.insert((Reverse(key), self.arrivals), node);
        node
    }

    /// A packet joins its flow, and the whole flow stands in `class` from now on.
    pub(super) fn push(&mut self, packet: P, flow: u32, class: Class, retransmission: bool) -> u32 {
        if self.flows[flow as usize].class != class {
            self.change_class(flow, class);
        }
        let len = packet.len();
        let node = self.insert(packet, flow, 0, retransmission);
        let queue = &mut self.flows[flow as usize];
        let first = queue.packets.is_empty();
        queue.packets.push_back(&mut self.nodes, node);
        if let Some(c) = class.fifo() {
            let c = &mut self.classes[c];
            c.packets.push_back(&mut self.nodes, node);
            c.backlog.add(len);
            c.flows += usize::from(first);
        }
        node
    }

    /// Moves all packets of a flow to the end of another class, in their order.
    pub(super) fn change_class(&mut self, flow: u32, class: Class) {
        let queue = self.flows[flow as usize];
        if queue.class == class {
            return;
        }
        let (Some(from), Some(to)) = (queue.class.fifo(), class.fifo()) else { return };
        self.unplace(flow);
        self.flows[flow as usize].class = class;
        if queue.packets.is_empty() {
            return;
        }
        self.classes[from].flows -= 1;
        self.classes[to].flows += 1;
        let mut next = queue.packets.first();
        while let Some(at) = next {
            self.classes[from].packets.remove(&mut self.nodes, at);
            self.classes[to].packets.push_back(&mut self.nodes, at);
            let len = self.nodes.at(at).packet.len();
            self.classes[from].backlog.sub(len);
            self.classes[to].backlog.add(len);
            next = queue.packets.after(&self.nodes, at);
        }
    }

    /// Takes a packet out, from wherever it stands.
    pub(super) fn remove(&mut self, node: u32) -> Node<P> {
        let &Node { flow, recovery_key: key, arrival, .. } = self.nodes.at(node);
        let len = self.nodes.at(node).packet.len();
        if key > 0 {
            self.recovery.remove(&(Reverse(key), arrival));
            self.recovery_backlog.sub(len);
            return self.nodes.remove(node);
        }
        let queue = &mut self.flows[flow as usize];
        queue.packets.remove(&mut self.nodes, node);
        let emptied = queue.packets.is_empty();
        if let Some(c) = queue.class.fifo() {
            let c = &mut self.classes[c];
            c.packets.remove(&mut self.nodes, node);
            c.backlog.sub(len);
            if emptied {
                c.flows -= 1;
                self.unplace(flow);
            }
        }
        self.nodes.remove(node)
    }

    /// Puts a flow where it belongs among those of its class that could lose a packet.
    pub(super) fn place(&mut self, flow: u32, bucket: u16) {
        let queue = self.flows[flow as usize];
        if queue.packets.is_empty() || queue.bucket() == Some(bucket) {
            return;
        }
        self.unplace(flow);
        if let Some(c) = queue.class.fifo() {
            self.classes[c].victims.add(&mut self.flows, flow, bucket);
        }
    }

    fn unplace(&mut self, flow: u32) {
        if let Some(c) = self.flows[flow as usize].class.fifo() {
            self.classes[c].victims.remove(&mut self.flows, flow);
        }
    }
}
