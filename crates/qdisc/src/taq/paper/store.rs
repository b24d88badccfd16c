//! Packets that wait: each flow's own FIFO, threaded through the FIFO of its class.
//!
//! A packet stands in two doubly linked lists, that of its flow and that of its class, so it can be taken out of the
//! middle of either at no cost. All packets of a flow stand in one class and in the same order in both lists: so new data
//! of a flow is never reordered. A flow that changes class takes its packets along, to the end of the new queue.
//! Retransmissions and pure acknowledgments stand in the recovery queue instead, ordered by their key.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use narrows_units::Bytes;

use super::class::Class;
use super::victims::{Place, Victims};
use crate::taq::PoolId;
use crate::{Backlog, Packet};

/// No packet, no flow.
pub(super) const NONE: u32 = u32::MAX;

/// A packet that waits.
#[derive(Debug)]
pub(super) struct Node<P> {
    /// `None` only while the node is unused.
    packet: Option<P>,
    /// The slot of its flow.
    pub(super) flow: u32,
    /// Retransmissions do not count as goodput.
    pub(super) retransmission: bool,
    /// Order of arrival over the whole queue.
    pub(super) arrival: u64,
    /// Its key in the recovery queue; zero if it stands in a FIFO.
    recovery_key: u64,
    class: (u32, u32),
    own: (u32, u32),
}

/// The queue of one flow and what is kept beside its record: half a cache line, and never across two.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct FlowQueue {
    head: u32,
    tail: u32,
    /// Packets in this FIFO.
    pub(super) packets: u32,
    /// The class they stand in.
    pub(super) class: Class,
    marks: u8,
    /// Where the flow stands among those that could lose a packet.
    pub(super) place: Place,
    /// Its pool at the door.
    pub(super) pool: PoolId,
}

const _: () = assert!(size_of::<FlowQueue>() == 32);

/// The flow lost a packet, here or elsewhere.
pub(super) const LOST: u8 = 1;
/// Packets of the flow may wait among the unknown: until those are gone the others go there too, behind them.
pub(super) const BEHIND_UNKNOWN: u8 = 2;

impl FlowQueue {
    pub(super) const fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }
    pub(super) const fn put(&mut self, mark: u8, on: bool) {
        self.marks = if on { self.marks | mark } else { self.marks & !mark };
    }
}

impl Default for FlowQueue {
    fn default() -> Self {
        Self {
            head: NONE,
            tail: NONE,
            packets: 0,
            class: Class::Below,
            marks: 0,
            place: Place::default(),
            pool: PoolId::NOBODY,
        }
    }
}

/// One class.
#[derive(Debug)]
struct Queue {
    head: u32,
    tail: u32,
    backlog: Backlog,
    flows: usize,
    victims: Victims,
}

/// All that waits.
#[derive(Debug)]
pub(super) struct Store<P> {
    nodes: Vec<Node<P>>,
    free: Vec<u32>,
    /// One per flow, by slot.
    pub(super) flows: Vec<FlowQueue>,
    classes: [Queue; 4],
    recovery: BTreeMap<(Reverse<u64>, u64), u32>,
    recovery_backlog: Backlog,
    arrivals: u64,
}

impl<P: Packet> Store<P> {
    pub(super) fn new() -> Self {
        let empty = || Queue {
            head: NONE,
            tail: NONE,
            backlog: Backlog::default(),
            flows: 0,
            victims: Victims::new(),
        };
        Self {
            nodes: Vec::new(),
            free: Vec::new(),
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
        &self.nodes[node as usize]
    }

    pub(super) fn packet(&self, node: u32) -> Option<&P> {
        self.nodes.get(node as usize)?.packet.as_ref()
    }

    pub(super) fn packet_mut(&mut self, node: u32) -> Option<&mut P> {
        self.nodes.get_mut(node as usize)?.packet.as_mut()
    }

    /// The oldest packet of a class.
    pub(super) fn head(&self, class: Class) -> Option<u32> {
        match class.fifo() {
            Some(i) => Some(self.classes[i].head).filter(|&n| n != NONE),
            None => self.recovery.first_key_value().map(|(_, &n)| n),
        }
    }

    /// The packet a class would lose last in, first out: the newest; of the recovery queue the newest of the lowest key.
    pub(super) fn tail(&self, class: Class) -> Option<u32> {
        match class.fifo() {
            Some(i) => Some(self.classes[i].tail).filter(|&n| n != NONE),
            None => self.recovery.last_key_value().map(|(_, &n)| n),
        }
    }

    /// Whether this packet came last of all.
    pub(super) fn is_newest(&self, node: u32) -> bool {
        self.node(node).arrival == self.arrivals
    }

    /// The newest packet of a flow.
    pub(super) fn tail_of(&self, flow: u32) -> Option<u32> {
        Some(self.flows[flow as usize].tail).filter(|&n| n != NONE)
    }

    /// Flows of a class that could lose a packet.
    pub(super) fn victims(&self, class: usize) -> &Victims {
        &self.classes[class].victims
    }

    fn allocate(&mut self, packet: P, flow: u32, retransmission: bool) -> u32 {
        self.arrivals += 1;
        let arrival = self.arrivals;
        if let Some(i) = self.free.pop() {
            // Field by field, so that the packet is written once.
            let node = &mut self.nodes[i as usize];
            node.packet = Some(packet);
            (node.flow, node.retransmission, node.arrival, node.recovery_key) =
                (flow, retransmission, arrival, 0);
            (node.class, node.own) = ((NONE, NONE), (NONE, NONE));
            return i;
        }
        self.nodes.push(Node {
            packet: Some(packet),
            flow,
            retransmission,
            arrival,
            recovery_key: 0,
            class: (NONE, NONE),
            own: (NONE, NONE),
        });
        // A queue of 2^32 packets would be over any limit long before.
        u32::try_from(self.nodes.len() - 1).unwrap_or(NONE)
    }

    /// A packet joins the recovery queue; the larger key goes first, equal keys in order of arrival. Keys are above zero.
    pub(super) fn push_recovery(&mut self, packet: P, flow: u32, key: u64, retransmission: bool) -> u32 {
        self.recovery_backlog.add(packet.len());
        let node = self.allocate(packet, flow, retransmission);
        self.nodes[node as usize].recovery_key = key;
        self.recovery.insert((Reverse(key), self.nodes[node as usize].arrival), node);
        node
    }

    /// A packet joins its flow, and the whole flow stands in `class` from now on.
    pub(super) fn push(&mut self, packet: P, flow: u32, class: Class, retransmission: bool) -> u32 {
        self.change_class(flow, class);
        let len = packet.len();
        let node = self.allocate(packet, flow, retransmission);
        let queue = &mut self.flows[flow as usize];
        self.nodes[node as usize].own.0 = queue.tail;
        let tail = core::mem::replace(&mut queue.tail, node);
        queue.packets += 1;
        if tail == NONE {
            queue.head = node;
        } else {
            self.nodes[tail as usize].own.1 = node;
        }
        if let Some(c) = class.fifo() {
            self.append(c, node);
            let c = &mut self.classes[c];
            c.backlog.add(len);
            c.flows += usize::from(tail == NONE);
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
        if queue.packets == 0 {
            return;
        }
        self.classes[from].flows -= 1;
        self.classes[to].flows += 1;
        let mut at = queue.head;
        while at != NONE {
            let len = self.nodes[at as usize].packet.as_ref().map(Packet::len).unwrap_or_default();
            self.cut(from, at);
            self.classes[from].backlog.sub(len);
            self.append(to, at);
            self.classes[to].backlog.add(len);
            at = self.nodes[at as usize].own.1;
        }
    }

    /// Takes a packet out, from wherever it stands.
    pub(super) fn remove(&mut self, node: u32) -> Option<P> {
        let len = self.nodes[node as usize].packet.as_ref()?.len();
        self.unlink(node, len);
        self.free.push(node);
        self.nodes[node as usize].packet.take()
    }

    fn unlink(&mut self, node: u32, len: Bytes) {
        let Node { flow, recovery_key: key, arrival, own, .. } = self.nodes[node as usize];
        if key > 0 {
            self.recovery.remove(&(Reverse(key), arrival));
            self.recovery_backlog.sub(len);
            return;
        }
        let queue = &mut self.flows[flow as usize];
        queue.packets -= 1;
        let (emptied, class) = (queue.packets == 0, queue.class);
        if own.0 == NONE {
            queue.head = own.1;
        } else {
            self.nodes[own.0 as usize].own.1 = own.1;
        }
        if own.1 == NONE {
            self.flows[flow as usize].tail = own.0;
        } else {
            self.nodes[own.1 as usize].own.0 = own.0;
        }
        if let Some(c) = class.fifo() {
            self.cut(c, node);
            self.classes[c].backlog.sub(len);
            if emptied {
                self.classes[c].flows -= 1;
                self.unplace(flow);
            }
        }
    }

    /// Puts a flow where it belongs among those of its class that could lose a packet.
    pub(super) fn place(&mut self, flow: u32, bucket: u16) {
        let queue = self.flows[flow as usize];
        if queue.packets == 0 || queue.place.bucket() == Some(bucket) {
            return;
        }
        self.unplace(flow);
        if let Some(c) = queue.class.fifo() {
            self.classes[c].victims.add(&mut self.flows, flow, bucket);
        }
    }

    fn unplace(&mut self, flow: u32) {
        let queue = self.flows[flow as usize];
        if let (Some(c), Some(_)) = (queue.class.fifo(), queue.place.bucket()) {
            self.classes[c].victims.remove(&mut self.flows, flow);
        }
    }

    fn append(&mut self, class: usize, node: u32) {
        let queue = &mut self.classes[class];
        let tail = core::mem::replace(&mut queue.tail, node);
        if tail == NONE {
            queue.head = node;
        } else {
            self.nodes[tail as usize].class.1 = node;
        }
        self.nodes[node as usize].class = (tail, NONE);
    }

    fn cut(&mut self, class: usize, node: u32) {
        let (prev, next) = self.nodes[node as usize].class;
        if prev == NONE {
            self.classes[class].head = next;
        } else {
            self.nodes[prev as usize].class.1 = next;
        }
        if next == NONE {
            self.classes[class].tail = prev;
        } else {
            self.nodes[next as usize].class.0 = prev;
        }
    }
}
